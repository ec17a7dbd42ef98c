"""The search for the best recipe: over many recipes and their parameters, the most useful release whose risk holds."""

from sfumato.decision.best_recipe.choice import SearchChoice
from sfumato.decision.best_recipe.result import SearchResult
from sfumato.decision.best_recipe.search import search
from sfumato.decision.best_recipe.space import Family, Range

__all__ = ["Family", "Range", "SearchChoice", "SearchResult", "search"]
