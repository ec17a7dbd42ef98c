"""The formula of a model in canonical form: the same for the same model, however it was written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sfumato.errors import ParameterError, brief, listing
from sfumato.mas.analysis import levels_of, numbers_in
from sfumato.mas.variable import Variable, need_variable
from sfumato.utility.formula import parse

FUNCTIONS = ("log", "log1p", "sqrt", "square", "standardise")
"""Transformations of a number that a formula may use; none of them singles out a record (section 3.3)."""
_ARITHMETIC = re.compile(r"/|%in%|(?:\w|\w\([^()]*\))\s*(?:\^|\*\*)")
"""To R's formulas 1/(age - 89) and age**20 are other words for age, and whoever writes them means something else."""

Factor = tuple[str, str]
"""A function, or "" or "C", and the name of a variable."""
Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Terms:
    """An outcome and terms; factors in order of their variables.

    Terms without numbers come first, then those with one number, and so on, the shorter first, as in statsmodels.
    """

    outcome: Factor
    terms: tuple[Term, ...]
    intercept: bool

    @classmethod
    def of(cls, formula: str, known: Mapping[str, Variable] | None = None) -> Terms:
        """Read a formula; with the variables of a data set, a plain name of a category becomes C(name)."""
        outcome, terms, intercept = parse(formula, FUNCTIONS)
        if _ARITHMETIC.search(re.sub("`[^`]*`", "x", formula)):
            raise ParameterError(
                f"the formula '{brief(formula, 200)}' has a division or a power of a variable, which it would not compute. Use "
                f"{listing(FUNCTIONS)} of a variable, and a:b or a*b for products."
            )

        def settled(factor: Factor) -> Factor:
            function, name = factor
            if known is None:
                return factor
            variable = need_variable(name, known, _quoted(name, known))
            return ("C", name) if not function and not variable.numeric else factor

        sorted_terms = {tuple(sorted({settled(f) for f in term}, key=lambda f: (f[1], f[0]))) for term in terms}
        order = sorted(sorted_terms, key=_rank)
        return cls(settled(outcome), tuple(order), intercept)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once: the outcome first, the others in order."""
        return tuple(dict.fromkeys([self.outcome[1], *(name for term in self.terms for _, name in term)]))

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables; refuse names that are not there, levels of numbers without cutpoints, logs of categories."""
        for function, name in (self.outcome, *(factor for term in self.terms for factor in term)):
            if function == "C":
                levels_of((name,), known)
            else:
                numbers_in(name, known)
        return tuple(known[name] for name in self.names)

    def wording(self) -> str:
        """Return the canonical formula."""
        parts = ["1" if self.intercept else "0", *(title(term) for term in self.terms)]
        return f"{title((self.outcome,))} ~ {' + '.join(parts)}"


def _quoted(name: str, known: Iterable[str]) -> str:
    """Return what to write where a name such as salary-class was read as salary minus class."""
    meant = next((other for other in known if other.startswith(name) and not other.isidentifier()), None)
    return "" if meant is None else f" In a formula a name that is no plain word stands in backticks: `{meant}`."


def _rank(term: Term) -> tuple[int, list[tuple[str, str]], int, list[tuple[str, str]]]:
    numbers = [(name, function) for function, name in term if function != "C"]
    return len(numbers), numbers, len(term), [(name, function) for function, name in term]


def title(term: Term) -> str:
    """Return a term as it is written.

    >>> title((("C", "race"), ("log", "income")))
    'C(race):log(income)'
    """
    return ":".join(f"{function}({name})" if function else name for function, name in term)
