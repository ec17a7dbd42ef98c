"""Accounts: how much has been answered about each record, stored by the cells of one fine table and not by record.

Every set of n records that is answered for the first time costs its members 1 / (1 + n / unit). A full account refuses. In a
universe of known variables, the amount spent on a record depends on these alone, so that a refusal discloses nothing
confidential: where a table is split by confidential variables, its known cells pay as if they were split evenly. In a universe
with a condition on a confidential level, sets pay by their noisy counts, and a refusal reveals as much as these.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.parameters import Parametric, param
from sfumato.files import parse_json
from sfumato.mas.keying import split
from sfumato.mas.universe import Selection, in_base
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

CELLS = 1_000_000
"""Most cells of the table by which accounts are stored."""


class Accounts(Parametric, family="accounts"):
    """The limits on what may be spent on a record, and the prices."""

    user: float = param(default=25.0, doc="what one user may spend on a record", low=0, above=True)
    everybody: float = param(default=150.0, doc="what all users together may spend on a record", low=0, above=True)
    unit: float = param(
        default=200.0, doc="a set of this many records costs half of what one record alone would", low=0, above=True
    )
    coefficient: float = param(
        default=1.0, doc="what a coefficient of a model costs, in counts of the same records", low=0, above=True
    )
    known: float = param(
        default=1.0,
        doc="what a count by known variables alone costs, as a share of any other count",
        low=0,
        high=1,
        above=True,
    )

    def price(self, sizes: Numbers) -> Numbers:
        """Return the price of a number about n records, for each of them."""
        return np.asarray(1 / (1 + np.maximum(sizes, 0.0) / self.unit), np.float64)


@dataclass(frozen=True, eq=False)
class Sets:
    """Sets of records that an answer is about: the cells of the known dimensions of a table within a selection."""

    selection: Selection
    sides: tuple[Variable, ...]
    """Known variables by which the selection is split."""
    keys: tuple[bytes, ...]
    """Identifier of each cell, in the order of its raveled array: a set that was answered before is free."""
    sizes: Numbers
    """Noisy counts of the cells, one axis per variable."""
    split: int = 1
    """Number of confidential cells into which each cell is split."""
    coefficients: tuple[float, ...] = ()
    """For models: the noisy number of records behind each coefficient; empty if there is one number about each set."""
    loss: float = 0.0
    """Zero-concentrated loss of a member by a count with normal noise: 1 / (2 sd²); 0 where this loss is not defined."""
    confidential: bool = True
    """Whether the numbers are about confidential variables, and not only counts of known cells."""
    least: float = 0.0
    """Smaller sets are not shown, and cost nothing."""

    def through(self, perturbation: bytes) -> Sets:
        """Return the sets with keys that depend on the perturbation: the same set under other noise is charged again."""
        keys = tuple(hashlib.blake2b(key, key=perturbation, digest_size=16).digest() for key in self.keys)
        return replace(self, keys=keys)

    def costs(self, accounts: Accounts) -> Numbers:
        """Return the cost of each cell for its members."""
        if self.coefficients:
            each = accounts.price(np.array(self.coefficients))
            return np.full(self.sizes.shape, accounts.coefficient * float(each.sum()))
        paid = (1.0 if self.confidential else accounts.known) * accounts.price(self.sizes / self.split)
        return np.where(self.sizes >= self.least, paid, 0.0)


@dataclass(frozen=True, eq=False)
class Charge:
    """The cost of an answer: an amount for each cell of some known variables."""

    variables: tuple[tuple[str, tuple[str, ...]], ...]
    """Names and levels."""
    amounts: Numbers
    """One axis per variable."""

    @classmethod
    def of(cls, sets: Sets, costs: Numbers, new: NDArray[np.bool_]) -> Charge | None:
        """Return the charge for the cells that are new; None if none is."""
        costs = np.where(new.reshape(sets.sizes.shape), costs, 0.0)
        if not costs.any():
            return None
        known, hidden = split(sets.selection.plain.variables)
        plain = sets.selection.plain
        asked = plain.chosen.any(axis=tuple(plain.variables.index(v) for v in hidden))
        sides, costs = in_base(sets.sides, costs)
        names = {v.name: v for v in (*known, *sides)}
        order = [names[name] for name in sorted(names)]
        chosen = _laid(np.asarray(asked, np.float64), [v.name for v in known], [v.name for v in order])
        amounts = chosen * _laid(costs, [v.name for v in sides], [v.name for v in order])
        full = np.broadcast_to(amounts, [len(v.levels) for v in order])
        return cls(tuple((v.name, v.levels) for v in order), np.array(full))

    def to_text(self) -> str:
        """Return the text stored in the ledger."""
        return json.dumps(
            {"variables": self.variables, "amounts": self.amounts.ravel().round(9).tolist()}, ensure_ascii=False
        )

    @classmethod
    def from_text(cls, text: str) -> Charge:
        """Read the text of `to_text`."""
        table = parse_json(text)
        variables = tuple((name, tuple(levels)) for name, levels in table["variables"])
        return cls(variables, np.array(table["amounts"]).reshape([len(levels) for _, levels in variables]))


@dataclass(eq=False)
class Balance:
    """The amount spent on each cell of a table of known variables."""

    variables: tuple[Variable, ...]
    spent: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.spent = np.zeros([len(v.levels) for v in self.variables])

    def after(self, charges: Sequence[Charge]) -> Numbers:
        """Return the amounts spent after some charges; cells that no charge touches are 0."""
        added = np.zeros(self.spent.shape)
        for charge in charges:
            added = added + self._spread(charge)
        return np.where(added > 0, self.spent + added, 0.0)

    def pay(self, charge: Charge) -> None:
        """Add a charge."""
        self.spent = self.spent + self._spread(charge)

    def _spread(self, charge: Charge) -> Numbers:
        """Return a charge in the cells of this table; a cell that covers several cells of the charge pays the largest."""
        here = {v.name: v.levels for v in self.variables}
        amounts: Numbers = charge.amounts
        names: list[str] = []
        for name, levels in reversed(charge.variables):
            axis = [n for n, _ in charge.variables].index(name)
            if here.get(name) != levels:  # not in this table, or of a version with other levels
                amounts = np.asarray(amounts.max(axis=axis), np.float64)
            else:
                names.insert(0, name)
        return np.broadcast_to(_laid(np.asarray(amounts), names, list(here)), self.spent.shape)


def _laid(values: Any, names: Sequence[str], order: Sequence[str]) -> Numbers:
    """Transpose and reshape an array from some axes to those of a longer list of names."""
    inside = [names.index(name) for name in order if name in names]
    laid: Numbers = np.asarray(values, np.float64).transpose(inside)
    sizes: Iterator[int] = iter(laid.shape)
    return laid.reshape([next(sizes) if name in names else 1 for name in order])
