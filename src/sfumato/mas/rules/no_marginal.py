"""The No Marginal 1 or 2 Rule."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import param
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rule import ConfidentialityRule
from sfumato.mas.set_key import NOBODY, cell_keys, hashed_key
from sfumato.mas.variable import Variable

_AT_ONCE = 4096
_FAR = 10.0
"""Noise is never so many standard deviations: larger counts need not be looked at."""


class NoMarginal(ConfidentialityRule):
    """No (m-1)-dimensional total of the table of all levels of a universe's m variables is 1 or 2 (section 3.2; ERRATA 1.13).

    With `cells`, neither a cell of the table nor of any of its margins is small, by their noisy counts: 0 is small as well. Then
    whether variables may be used together depends on nothing that a user chooses, and is published (`Dataset.combinations`).
    """

    most: int = param(default=2, doc="the largest total that is forbidden", low=1, integer=True)
    cells: bool = param(
        default=False,
        doc="whether cells and margins of every order count, not only (m-1)-dimensional totals, and 0 is small",
    )

    def words(self) -> str:
        """Return what the rule demands."""
        if self.cells:
            return (
                f"Variables form a universe together only if no combination of their levels has {self.most} records or fewer; "
                "which ones do is decided once for a version of the data, and published."
            )
        totals = " or ".join(str(total) for total in range(1, self.most + 1))
        return f"The table of all levels of a universe's variables has no marginal total of {totals}."

    def check(self, question: Question) -> Refusal | None:
        """Look at the totals of the full table."""
        selection = question.selection.plain if self.cells else question.selection
        if self.allows(question.dataset, question.policy, selection.variables):
            return None
        return self.refuse(
            "These variables together have combinations of levels that too few records share.",
            "Form the universe with fewer variables, or with coarser ones.",
        )

    def allows(self, dataset: Dataset, policy: Policy, variables: Sequence[Variable]) -> bool:
        """Look at the totals of the full table, once for a version of the data."""
        dataset.cubes.of(variables)  # one look at the records: the margins come from it
        sizes = range(len(variables) + 1) if self.cells else range(max(len(variables) - 1, 0), len(variables))
        tables = (some for size in sizes for some in itertools.combinations(variables, size))
        return not any(self._small(dataset, policy, table) for table in tables)

    def _small(self, dataset: Dataset, policy: Policy, table: tuple[Variable, ...]) -> bool:
        about = (self, policy.counts, policy.keyed, tuple(v.name for v in table))
        if about not in dataset.decided:
            dataset.decided[about] = any(
                self._unit_small(dataset, policy, table, unit) for unit in ("", *dataset.units)
            )
        return dataset.decided[about]

    def _unit_small(self, dataset: Dataset, policy: Policy, table: tuple[Variable, ...], unit: str) -> bool:
        counts = dataset.linked.cells(table, unit) if unit else dataset.cubes.of(table).counts
        at = np.flatnonzero(counts <= self.most + _FAR * policy.counts.sd)
        true = counts.reshape(-1)[at].astype(np.float64)
        order = np.argsort(true, kind="stable")
        purpose = f"count of {unit}" if unit else "count"
        for start in range(0, len(order), _AT_ONCE):
            some = order[start : start + _AT_ONCE]
            places = np.array(np.unravel_index(at[some], counts.shape or (1,)), np.int64).T[:, : counts.ndim]
            keys = _keys(dataset, policy, table, places) if policy.counts.sd else [b""] * len(some)
            noisy = policy.counts.noisy(true[some], keys, dataset.secret, purpose)
            small = noisy < self.most + 0.5
            if (small if self.cells else small & (noisy > 0.5)).any():
                return True
        return False


def _keys(dataset: Dataset, policy: Policy, table: tuple[Variable, ...], places: NDArray[np.int64]) -> list[bytes]:
    """Return the keys of cells. Cells that nobody is in have keys of their own here, elsewhere one for all.

    With one key they would all be small, or none: whoever knows which it is could tell an empty cell from one with a person.
    """
    names = "\x1f".join(v.name for v in table)
    keys = cell_keys(dataset.cubes, table, places, policy.keyed)
    return [
        hashed_key(["nobody", names, *map(str, place)]) if key == NOBODY else key
        for key, place in zip(keys, places.tolist(), strict=True)
    ]
