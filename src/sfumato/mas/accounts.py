"""Accounts: what all answers together tell of each record, stored by the cells of one fine table and not by record.

Losses are squares of μ of Gaussian differential privacy, and add up (Dong, Roth and Su 2022, corollary 2). A limit is stated as
the share of guesses that are right when somebody who knows everything else tells two values of a person apart: at most Φ(μ/2).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import ParameterError
from sfumato.files import parse_json
from sfumato.mas.sums import Loss
from sfumato.mas.universe import in_base
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

CELLS = 1_000_000
"""Most cells of the table by which accounts are stored."""


def loss_of(right: float) -> float:
    """Return the loss μ² at which at most this share of guesses between two values is right.

    >>> round(loss_of(0.60), 3), round(loss_of(0.65), 3)
    (0.257, 0.594)
    """
    return (2 * NormalDist().inv_cdf(right)) ** 2 if right < 1 else math.inf


def right_of(loss: float) -> float:
    """Return the largest share of right guesses between two values after a loss μ².

    >>> round(right_of(0.257), 3), right_of(0)
    (0.6, 0.5)
    """
    return NormalDist().cdf(math.sqrt(max(loss, 0.0)) / 2)


class Accounts(Parametric, family="accounts"):
    """Limits on what answers may tell of a record: as guesses between two values that are right, of 100.

    They hold for whoever knows everything else: all known variables, and the confidential values of all others.
    """

    user: float = param(default=60.0, doc="most guesses that are right, of 100, with the answers to one user", low=50, above=True, high=100)
    everybody: float = param(default=65.0, doc="most guesses that are right, of 100, with the answers to all users", low=50, above=True, high=100)
    projects: Mapping[str, float] = param(
        default={}, doc="share of the common account that the custodian gives to each project; the rest is for all other users"
    )

    @override
    def validate(self) -> None:
        shares = self.projects
        fine = isinstance(shares, Mapping) and all(
            isinstance(k, str) and k.strip() and isinstance(v, int | float) and not isinstance(v, bool) and 0 < v <= 1
            for k, v in shares.items()
        )
        if not fine or sum(shares.values()) > 1 + 1e-9:
            raise ParameterError("projects of accounts are shares above 0 by name, which add up to at most 1.")

    def limit(self, project: str | None = None, *, user: bool = False) -> float:
        """Return the most that may be lost of a record: by one user, by a project, or by all users that have none."""
        if user:
            return loss_of(self.user / 100)
        share = 1 - sum(self.projects.values()) if not project else self.projects.get(project, 0.0)
        return loss_of(self.everybody / 100) * share if share else 0.0


@dataclass(frozen=True, eq=False)
class Charge:
    """The cost of an answer: an amount for each cell of some known variables."""

    variables: tuple[tuple[str, tuple[str, ...]], ...]
    """Names and levels."""
    amounts: Numbers
    """One axis per variable."""

    @classmethod
    def of(cls, loss: Loss, new: NDArray[np.bool_]) -> Charge | None:
        """Return the charge for the cells that are new; None if there is nothing to charge."""
        costs = np.where(new.reshape(loss.amounts.shape), loss.amounts, 0.0)
        if not costs.any():
            return None
        plain = loss.selection.plain
        sides, costs = in_base(loss.sides, costs)
        names = {v.name: v for v in (*plain.variables, *sides)}
        order = [names[name] for name in sorted(names)]
        chosen = _laid(np.asarray(plain.chosen, np.float64), [v.name for v in plain.variables], [v.name for v in order])
        amounts = chosen * _laid(costs, [v.name for v in sides], [v.name for v in order])
        full = np.broadcast_to(amounts, [len(v.levels) for v in order])
        return cls(tuple((v.name, v.levels) for v in order), np.array(full))

    def to_text(self) -> str:
        """Return the text stored in the ledger: sides on which nothing depends are left out."""
        amounts, variables = self.amounts, list(self.variables)
        for axis in reversed(range(len(variables))):
            if (amounts == amounts.take([0], axis)).all():
                amounts = np.asarray(amounts.take(0, axis))
                del variables[axis]
        listed = [float(f"{v:.6g}") for v in np.asarray(amounts).ravel()]
        return json.dumps({"variables": variables, "amounts": listed}, ensure_ascii=False)

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
