"""Multinomial logistic regression."""

from __future__ import annotations

from sfumato.errors import ParameterError
from sfumato.mas.answer import Refusal
from sfumato.mas.models.layout import LevelOutcome
from sfumato.mas.models.levels_model import ONE_OUTCOME, LevelsAnalysis, Modelled
from sfumato.mas.models.model import Levels, least_cell
from sfumato.mas.question import Question


class Multinomial(LevelsAnalysis):
    """Logistic regression of every level of the outcome against its most frequent one."""

    def modelled(self, question: Question) -> Modelled | Refusal:
        """Return all levels, the most frequent one as the base; of two the second one is fitted."""
        function, name = self.terms(question.dataset.variables).outcome
        variable = question.dataset.variables[name]
        if function != "C":
            raise ParameterError(f"the outcome of multinomial is the levels of a variable: write C({name}).")
        levels = Levels.of(question, variable)
        least = least_cell(question)
        question.results["small outcomes"] = any(c < least for c in levels.counts.values())  # none is few, too
        shown = [i for i in levels.allowed if levels.counts[i] >= 0.5]
        if len(shown) < 2:
            return ONE_OUTCOME
        base = max(shown, key=lambda i: (levels.counts[i], -i))
        flip = len(shown) == 2 and base == shown[1]  # of two levels the second one is fitted, as in logistic: one noise
        order = shown if len(shown) == 2 else [base, *(i for i in shown if i != base)]
        place = tuple(order.index(i) if i in order else -1 for i in range(len(variable.levels)))
        outcome = LevelOutcome(variable.codes, tuple(f"C({name})[{variable.levels[i]}]" for i in order), place)
        said = f"Coefficients compare each level of {name} with {variable.levels[base]}, the most frequent one."
        return Modelled(outcome, tuple(f"{name} = {variable.levels[i]}" for i in order), said, flip)
