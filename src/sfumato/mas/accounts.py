"""Accounts: what all answers together tell of each record, stored by the cells of one fine table and not by record.

Losses are squares of μ of Gaussian differential privacy, and add up (Dong, Roth and Su 2022, corollary 2). A limit is stated as
the share of guesses that are right when somebody who knows everything else tells two values of a person apart: at most Φ(μ/2).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import ParameterError
from sfumato.files import parse_json
from sfumato.mas.sums import Company, PrivacyLoss
from sfumato.mas.universe import in_base
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers, Whole

CELLS = {"known": 1_000_000, "unknown": 2_000}
"""Most cells of the table by which accounts are stored: with others unknown, all answers are seen together."""


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

    With `others` known they hold for whoever knows everything else: all known variables, and the confidential values of all
    others. With others unknown, for those who know all known variables alone; what they would be otherwise is reported.
    """

    user: float = param(
        default=60.0,
        doc="most guesses that are right, of 100, with the answers to one user",
        low=50,
        above=True,
        high=100,
    )
    everybody: float = param(
        default=65.0,
        doc="most guesses that are right, of 100, with the answers to all users",
        low=50,
        above=True,
        high=100,
    )
    others: Literal["known", "unknown"] = param(
        default="known",
        doc="whether limits hold for whoever knows the confidential values of all others, or for those who do not know them",
    )
    projects: Mapping[str, float] = param(
        default={},
        doc="share of the common account that the custodian gives to each project; the rest is for all other users",
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
    """What an answer tells of the records in each cell of some known variables."""

    variables: tuple[tuple[str, tuple[str, ...]], ...]
    """Names and levels."""
    amounts: Numbers
    """One axis per variable."""
    groups: Whole
    """Which cells are added up together; same shape."""
    company: tuple[Company, ...] = ()
    """Which confidential variables it is about, and how others hide a record; each has an account where others are unknown."""

    @classmethod
    def of(cls, loss: PrivacyLoss, new: NDArray[np.bool_]) -> Charge | None:
        """Return the charge for the cells that are new; None if there is nothing to charge."""
        costs = np.where(new.reshape(loss.amounts.shape), loss.amounts, 0.0)
        if not costs.any():
            return None
        plain = loss.selection.plain
        numbered = np.arange(costs.size).reshape(costs.shape)
        sides, costs = in_base(loss.sides, costs)
        _, numbered = in_base(loss.sides, numbered)
        names = {v.name: v for v in (*plain.variables, *sides)}
        order = [names[name] for name in sorted(names)]
        chosen = _laid(np.asarray(plain.chosen, np.float64), [v.name for v in plain.variables], [v.name for v in order])
        shape = [len(v.levels) for v in order]
        amounts, groups = (_laid(a, [v.name for v in sides], [v.name for v in order]) for a in (costs, numbered))
        found = np.array(np.broadcast_to(chosen * amounts, shape)), np.array(np.broadcast_to(groups, shape), np.int64)
        return cls(tuple((v.name, v.levels) for v in order), *found, loss.company)

    def to_text(self) -> str:
        """Return the text stored in the ledger: sides on which nothing depends are left out."""
        amounts, groups, variables = self.amounts, self.groups, list(self.variables)
        for axis in reversed(range(len(variables))):
            if all((a == a.take([0], axis)).all() for a in (amounts, groups)):
                amounts, groups = np.asarray(amounts.take(0, axis)), np.asarray(groups.take(0, axis))
                del variables[axis]
        listed = [float(f"{v:.6g}") for v in np.asarray(amounts).ravel()]
        table: dict[str, Any] = {"variables": variables, "amounts": listed}
        if self.company:
            table |= {"groups": np.asarray(groups).ravel().tolist()}
            table |= {
                "company": [
                    [list(c.about), float(f"{c.variance:.6g}"), float(f"{c.part:.6g}"), dict(c.contents)]
                    for c in self.company
                ]
            }
        return json.dumps(table, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> Charge:
        """Read the text of `to_text`."""
        table = parse_json(text)
        variables = tuple((name, tuple(levels)) for name, levels in table["variables"])
        shape = [len(levels) for _, levels in variables]
        amounts = np.array(table["amounts"]).reshape(shape)
        groups = np.array(table.get("groups", np.zeros(amounts.size)), np.int64).reshape(shape)
        company = tuple(
            Company(tuple(about), variance, part, tuple((contents[0] if contents else {}).items()))
            for about, variance, part, *contents in table.get("company", ())
        )
        return cls(variables, amounts, groups, company)


@dataclass(frozen=True, eq=False)
class ToldSums:
    """Sums of an answer as the accounts see them: each is one of disjoint groups of cells."""

    cells: NDArray[np.intp]
    """The cells of all groups, one group after another."""
    starts: NDArray[np.intp]
    """Where each group begins."""
    roots: Numbers
    """Root of the precision at each cell."""

    @classmethod
    def of(cls, amounts: Numbers, groups: Whole) -> ToldSums:
        """Find the groups of cells that have a loss."""
        order = np.argsort(groups, kind="stable")
        order = order[amounts[order] > 0]
        starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order][:1] - 1)) if len(order) else order
        return cls(order, starts, np.sqrt(amounts[order]))

    def add_up(self, values: Numbers) -> Numbers:
        """Add up rows by group, weighted by roots; shape (groups, columns)."""
        return np.asarray(np.add.reduceat(values[self.cells] * self.roots[:, None], self.starts, axis=0))

    def times(self, factors: Numbers, part: float) -> ToldSums:
        """Return the same with roots times a factor for each cell."""
        return ToldSums(self.cells, self.starts, self.roots * factors[self.cells] * math.sqrt(part))


@dataclass(eq=False)
class HiddenSums:
    """What an attacker learns of sums of one confidential variable over cells, each hidden by the others of the cell.

    With R = diag(√(v n)) it keeps (I + R M R)⁻¹, which an answer changes by as many dimensions as it has numbers (the formula of
    Woodbury): an answer with ten numbers about 1,600 cells is worked out in milliseconds.
    """

    sizes: Numbers
    """Records of each cell."""
    variance: float
    """What one other record varies by, as a share of the square of what the record can move; the least of all answers."""
    inverse: Numbers
    precision: Numbers
    """The diagonal of M."""

    @classmethod
    def unknown(cls, sizes: Numbers, variance: float) -> HiddenSums:
        """Return sums of which nothing was told."""
        return cls(sizes, variance, np.eye(len(sizes)), np.zeros(len(sizes)))

    def learn(self, sums: ToldSums, variance: float, part: float) -> None:
        """Take an answer in."""
        self._vary(variance)
        across, solved = self._change([(sums, part)])
        self.inverse = np.asarray(self.inverse - across.T @ solved)
        self.precision = self._precisions([(sums, part)])

    def told(self, answers: Sequence[tuple[ToldSums, float, float]] = (), changed: bool = False) -> Numbers:
        """Return what is told of one record of each cell, also by some more answers: sums, variance and part of each.

        Where a value `changed` between versions, the difference of two answers leaves all others out: they hide nothing.
        """
        if changed:
            return self._precisions([(sums, part) for sums, _, part in answers])
        least = min((variance for _, variance, _ in answers), default=self.variance)
        if least < self.variance:
            lower = HiddenSums(self.sizes, self.variance, self.inverse, self.precision)
            lower._vary(least)
            return lower.told(answers)
        left, parts = np.diag(self.inverse), [(sums, part) for sums, _, part in answers]
        if parts:
            across, solved = self._change(parts)
            left = left - np.einsum("gi,gi->i", across, solved)
        h = np.maximum(1 - left, 0.0) / (self.variance * self.sizes)
        return np.asarray(np.minimum(h / np.maximum(1 - self.variance * h, 1e-12), self._precisions(parts)))

    def _change(self, parts: Sequence[tuple[ToldSums, float]]) -> tuple[Numbers, Numbers]:
        """Return U'P and (I + U'PU)⁻¹U'P, with P the inverse and U the answers, in units of what others vary by."""
        scaled = [sums.times(np.sqrt(self.variance * self.sizes), part) for sums, part in parts]
        across = np.concatenate([one.add_up(self.inverse) for one in scaled])
        inner = np.concatenate([one.add_up(across.T) for one in scaled])
        return across, np.linalg.solve(np.eye(len(inner)) + inner, across)

    def _precisions(self, parts: Sequence[tuple[ToldSums, float]]) -> Numbers:
        found = self.precision.copy()
        for sums, part in parts:
            found[sums.cells] += part * sums.roots**2
        return found

    def _vary(self, variance: float) -> None:
        """Suppose that others vary by less."""
        if variance < self.variance:
            eye = np.eye(len(self.sizes))
            precise = np.linalg.inv(self.inverse) - eye
            self.inverse = np.asarray(np.linalg.inv(eye + variance / self.variance * precise), np.float64)
            self.variance = variance


class Balance:
    """What was told of the records in each cell of a table of known variables, to one payer.

    The losses of all answers add up. Where others are not known, each confidential variable has its account, and others hide a
    record: with sums s of a confidential variable over cells of n records, each of variance v, and the precision M of all answers
    about s together, an attacker who knows neither s nor any record gets h / (1 − v h) about one record of cell k, with h the k-th
    diagonal element of (M⁻¹ + diag(v n))⁻¹. It is the loss of all answers together, so that sets which differ by few cells are
    charged for their difference.

    Once answers are about two versions of a confidential variable, others hide nothing in any of them: whoever knows whose value
    changed subtracts them away. All answers about this variable then count in full, those before included.
    """

    def __init__(self, variables: tuple[Variable, ...], counts: Callable[[], Whole] | None = None) -> None:
        self.variables = variables
        shape = [len(v.levels) for v in variables]
        self.formal = np.zeros(shape)
        """Sum of losses for whoever knows all others; one axis per variable."""
        self._count = counts
        self._alone: dict[tuple[str, ...], Numbers] = {}
        self._hidden: dict[tuple[str, ...], HiddenSums] = {}
        self._versions: dict[str, set[str]] = {}
        """The contents of confidential variables that answers were about."""
        self._columns: dict[tuple[str, ...], set[str]] = {}
        """The columns behind the confidential variables of an account."""
        self._waiting: list[Charge] = []
        """Charges that are in the sum of losses, and not yet in the loss of all answers together."""
        self._told = np.zeros(shape)
        self._since = np.zeros(shape)

    @property
    def others_known(self) -> bool:
        """Whether losses are those for whoever knows all others."""
        return self._count is None

    @cached_property
    def _counts(self) -> Numbers:
        """How many records each cell has; asked for only where limits are near."""
        assert self._count is not None  # noqa: S101 - others are not known
        return self._count().ravel().astype(np.float64)

    @cached_property
    def _lived(self) -> NDArray[np.intp]:
        return np.flatnonzero(self._counts > 0)

    @property
    def spent(self) -> Numbers:
        """What was told of each cell's records, as the limits count it."""
        return self.formal if self.others_known else self._told + self._since

    def fits(self, charges: Sequence[Charge], limit: float) -> bool:
        """Return whether nothing is told beyond a limit after some charges, of any record of which they tell more.

        Where others are not known, an answer about other records tells more of a record, too: of those that hide it.
        """
        added = self._added(charges)
        if self.others_known:
            return bool((self.formal + added)[added > 0].max(initial=0.0) <= limit)
        if (self.formal + added).max(initial=0.0) <= limit:
            return True
        self.settle()
        after = self._after(charges)
        return bool(after[after > self.spent * (1 + 1e-9)].max(initial=0.0) <= limit)

    def dearest(self, charges: Sequence[Charge], limit: float) -> tuple[float, float]:
        """Return what some charges would tell, and what is left below a limit, of the record for which that is fewest times."""
        self.settle()
        after, here = self._after(charges), self._added(charges) > 0
        cost, left = np.maximum(after - self.spent, 0.0)[here], np.maximum(limit - self.spent, 0.0)[here]
        if not here.any() or not cost.any():
            return 0.0, float(limit - self.spent.max(initial=0.0))
        worst = int(np.argmin(np.divide(left, cost, out=np.full(cost.shape, np.inf), where=cost > 0)))
        return float(cost[worst]), float(left[worst])

    def _added(self, charges: Sequence[Charge]) -> Numbers:
        """Return the sum of the losses of some charges."""
        return np.asarray(sum((self._spread(charge) for charge in charges), np.zeros(self.formal.shape)), np.float64)

    def _after(self, charges: Sequence[Charge]) -> Numbers:
        """Return what would be told of each cell's records after some charges; everything before is settled."""
        whole = np.asarray(self.formal + self._added(charges))
        return whole if self.others_known else np.minimum(self._joint(charges), whole)

    def pay(self, charge: Charge) -> None:
        """Add a charge."""
        added = self._spread(charge)
        self.formal = self.formal + added
        if not self.others_known:
            self._waiting.append(charge)
            self._since = self._since + added

    def settle(self) -> None:
        """Find what all answers together tell, anew."""
        if self._waiting:
            self._versions, self._columns = self._read_of(self._waiting)
            for charge in self._waiting:
                for about, loss in self._unhidden(charge):
                    self._alone[about] = self._alone.get(about, 0.0) + loss
                for company, sums in self._behind_others(charge):
                    if company.about not in self._hidden:
                        self._hidden[company.about] = HiddenSums.unknown(self._counts[self._lived], company.variance)
                    self._hidden[company.about].learn(sums, company.variance, company.part)
            self._waiting = []
            self._told, self._since = np.minimum(self._joint(), self.formal), np.zeros(self.formal.shape)

    def _read_of(self, charges: Sequence[Charge]) -> tuple[dict[str, set[str]], dict[tuple[str, ...], set[str]]]:
        """Return the contents that answers were about, and the columns of each account, after some charges."""
        versions = {name: set(contents) for name, contents in self._versions.items()}
        columns = {about: set(names) for about, names in self._columns.items()}
        for company in (company for charge in charges for company in charge.company):
            for name, contents in company.contents:
                versions.setdefault(name, set()).add(contents)
                columns.setdefault(company.about, set()).add(name)
        return versions, columns

    def _uncovered(self, charge: Charge) -> bool:
        """Return whether a charge depends on levels that this table does not have: then no others hide a record."""
        here = {v.name: v.levels for v in self.variables}
        return any(here.get(name) != levels for name, levels in charge.variables)

    def _unhidden(self, charge: Charge) -> Iterator[tuple[tuple[str, ...], Numbers]]:
        """Yield the confidential variables, and the loss, of what a charge tells of each record alone."""
        uncovered = self._uncovered(charge)
        for company in charge.company:
            if uncovered or company.variance <= 0:
                yield company.about, company.part * self._spread(charge)

    def _behind_others(self, charge: Charge) -> Iterator[tuple[Company, ToldSums]]:
        """Yield what a charge tells of sums in which others hide a record."""
        hiding = [company for company in charge.company if company.variance > 0]
        if not hiding or self._uncovered(charge):
            return
        order, names = [v.name for v in self.variables], [name for name, _ in charge.variables]
        amounts, groups = (
            np.broadcast_to(_laid(a, names, order), self.formal.shape).ravel()[self._lived]
            for a in (charge.amounts, charge.groups)
        )
        sums = ToldSums.of(amounts, groups.astype(np.int64))
        if len(sums.cells):
            yield from ((company, sums) for company in hiding)

    def _joint(self, charges: Sequence[Charge] = ()) -> Numbers:
        """Return what all answers together tell of a record in each cell, also after some charges."""
        told: dict[str, Numbers] = {}

        def tell(about: tuple[str, ...], loss: Numbers, at: NDArray[np.intp] | slice) -> None:
            for name in about:
                told.setdefault(name, np.zeros(self.formal.size))[at] += loss

        for about, loss in (*self._alone.items(), *(one for charge in charges for one in self._unhidden(charge))):
            tell(about, loss.ravel(), slice(None))
        more: dict[tuple[str, ...], list[tuple[ToldSums, float, float]]] = {}
        for company, sums in (one for charge in charges for one in self._behind_others(charge)):
            more.setdefault(company.about, []).append((sums, company.variance, company.part))
        versions, columns = self._read_of(charges)
        changed = {name for name, contents in versions.items() if len(contents) > 1}
        for about in sorted({*self._hidden, *more}):
            answers = more.get(about, [])
            hidden = self._hidden.get(about)
            if hidden is None:
                hidden = HiddenSums.unknown(self._counts[self._lived], min(v for _, v, _ in answers))
            tell(about, hidden.told(answers, bool(columns.get(about, set()) & changed)), self._lived)
        return np.asarray(np.max([np.zeros(self.formal.size), *told.values()], axis=0).reshape(self.formal.shape))

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
        return np.broadcast_to(_laid(np.asarray(amounts), names, list(here)), self.formal.shape)


def _laid(values: Any, names: Sequence[str], order: Sequence[str]) -> Numbers:
    """Transpose and reshape an array from some axes to those of a longer list of names."""
    inside = [names.index(name) for name in order if name in names]
    laid: Numbers = np.asarray(values, np.float64).transpose(inside)
    sizes: Iterator[int] = iter(laid.shape)
    return laid.reshape([next(sizes) if name in names else 1 for name in order])
