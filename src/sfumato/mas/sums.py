"""Bounded sums: all that an analysis may ask of the records, and all that it gets.

An analysis declares sums; the mechanism adds them up, adds noise, charges the accounts, and returns the protected sums of this
module. Nobody else can make these: `ProtectedCells` and `ProtectedTotals` need the seal of the mechanism.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.mas.universe import Selection
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers, Whole

Piece = Mapping[str, NDArray[Any]]
"""Columns of some prepared records, by name."""

CELLS = 1_000_000
"""A table has at most this many cells."""

# --- requests


@dataclass(frozen=True)
class Moment:
    """What a record adds to a sum: its weight to a power, times its number less a centre to a power.

    Records without a number add nothing. Without a variable every record of the cell counts.
    """

    variable: Variable | None = None
    power: int = 0
    weights: int = 0
    """Power of the survey weight: 0 for plain sums."""
    centre: float = 0.0
    """A public number that is taken off."""

    def wording(self) -> str:
        """Return a canonical wording, for keys."""
        name = "" if self.variable is None else self.variable.name
        return f"{name}^{self.power}-{self.centre!r}*w{self.weights}"

    @property
    def confidential(self) -> bool:
        """Whether the number is confidential."""
        return self.variable is not None and not self.variable.known


@dataclass(frozen=True)
class TableSums:
    """Sums in each cell of a table: the number of records, named "n", and some moments.

    One record of the universe is in one cell. Margins are sums of cells, so that tables add up.
    """

    sides: tuple[Variable, ...]
    moments: Mapping[str, Moment] = field(default_factory=dict)
    noise: str = "counts"
    """Which noise of the policy the moments have; the number of records always has that of counts."""

    def __post_init__(self) -> None:
        if np.prod([float(len(v.levels)) for v in self.sides]) > CELLS:
            raise DataError("the table would have more than a million cells. Use fewer variables, or coarser ones.")
        names = [v.name for v in self.sides]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise DataError(f"variable '{twice}' is named twice. Name each variable once.")


@dataclass(frozen=True)
class Confidential:
    """A confidential factor of a record, with the public bounds that the mechanism clips it to."""

    low: float
    high: float
    spread: float
    """Nominal root mean square of the factor about the middle of its bounds; public, and only sets the size of the noise."""

    @property
    def reach(self) -> float:
        """The most by which a confidential value can move the factor."""
        return self.high - self.low


class RecordFunction(ABC):
    """Rows of numbers for each record of a piece, shape (rows, n); small, and sent to where the records live."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """Columns of the prepared records that it reads."""

    @abstractmethod
    def __call__(self, piece: Piece) -> Numbers:
        """Return the rows."""


@dataclass(frozen=True)
class TotalSums:
    """Sums over the records of the universe of products u·g: u of known variables, g confidential and bounded.

    Sum t multiplies row ``pairs[t][0]`` of `factors` by row ``pairs[t][1]`` of `confidential`. The factors are read from columns
    of known variables alone, which the mechanism checks; the confidential rows are clipped to their bounds.
    """

    name: str
    """Canonical wording of what is asked, for keys."""
    factors: RecordFunction
    confidential: RecordFunction
    bounds: tuple[Confidential, ...]
    """Of each confidential row."""
    pairs: tuple[tuple[int, int], ...]
    variables: tuple[Variable, ...]
    """The variables that the sums read."""
    by: tuple[Variable, ...] = ()
    """Known variables by whose levels records are charged: those of small groups pay more."""
    share: float = 1.0
    """The variance of the noise is divided by this: several steps of one analysis share its noise."""
    exclusive: bool = False
    """Whether the confidential rows of a record are shares that add up to at most 1, as for bins: it moves two of them, not all."""


Request = TableSums | TotalSums


@dataclass(frozen=True)
class SumsRequest:
    """All that one step of an analysis needs, by name."""

    parts: Mapping[str, Request]


# --- protected sums

_SEAL = object()
"""Held by the mechanism, and by the shelf, which keeps what the mechanism made."""


class Sealed:
    """What only the mechanism makes."""

    def __init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("protected sums are made by the mechanism, from records, with noise and charge")


class ProtectedCells(Sealed):
    """The cells of a table as they may be told; arrays have one axis per side."""

    def __init__(
        self,
        seal: object,
        sides: tuple[Variable, ...],
        sums: Mapping[str, Numbers],
        variances: Mapping[str, Numbers],
        sizes: Numbers,
    ) -> None:
        super().__init__(seal)
        self.sides = sides
        self.sums = sums
        """Noisy sums by the name of the moment; "n" is the number of records."""
        self.variances = variances
        """Variance of their noise."""
        self.sizes = sizes
        """Noisy numbers of records of the cells of the known sides in the known part of the universe, one axis per side (1 for
        confidential sides)."""
        for values in (*sums.values(), *variances.values(), sizes):
            values.setflags(write=False)

    @property
    def n(self) -> Numbers:
        """Noisy numbers of records."""
        return self.sums["n"]

    def margin(self, kept: Sequence[int]) -> ProtectedCells:
        """Return the margin of some sides: sums of cells, whose noise adds up."""
        gone = tuple(i for i in range(len(self.sides)) if i not in kept)
        if not gone:
            return self
        sides = tuple(self.sides[i] for i in range(len(self.sides)) if i in kept)
        sums, variances = (
            {name: np.asarray(v.sum(gone)) for name, v in values.items()} for values in (self.sums, self.variances)
        )
        known = tuple(i for i in gone if self.sides[i].known)
        sizes = self.sizes.sum(known, keepdims=True)
        shape = [sizes.shape[i] for i in range(len(self.sides)) if i in kept]
        return ProtectedCells(_SEAL, sides, sums, variances, sizes.reshape(shape))

    def margins(self, last: int = 0) -> list[ProtectedCells]:
        """Return the table and all its margins, the table itself first; the last sides stay in each."""
        axes = range(len(self.sides) - last)
        stay = tuple(range(len(axes), len(self.sides)))
        chosen = (some for size in range(len(axes), -1, -1) for some in itertools.combinations(axes, size))
        return [self.margin((*some, *stay)) for some in chosen]

    def regrouped(self, side: Variable, starts: Sequence[int]) -> ProtectedCells:
        """Return the table with a coarser variable as its last side; each of its levels starts at a level of the finer one."""

        def merged(values: Numbers) -> Numbers:
            return np.asarray(np.add.reduceat(values, starts, axis=-1)) if values.shape[-1] > 1 else values

        return ProtectedCells(
            _SEAL, (*self.sides[:-1], side), {k: merged(v) for k, v in self.sums.items()},
            {k: merged(v) for k, v in self.variances.items()},
            merged(self.sizes) if self.sides[-1].known else self.sizes,
        )  # fmt: skip


class ProtectedTotals(Sealed):
    """Sums over all records of the universe as they may be told; shape (sums,)."""

    def __init__(self, seal: object, values: Numbers, variances: Numbers) -> None:
        super().__init__(seal)
        self.values = values
        self.variances = variances
        for one in (values, variances):
            one.setflags(write=False)


class ProtectedSums(Sealed):
    """What the mechanism hands back for a request."""

    def __init__(self, seal: object, parts: Mapping[str, ProtectedCells | ProtectedTotals]) -> None:
        super().__init__(seal)
        self._parts = parts

    def cells(self, name: str) -> ProtectedCells:
        """Return the cells of a table that was asked for."""
        found = self._parts[name]
        assert isinstance(found, ProtectedCells)  # noqa: S101 - asked for as such
        return found

    def totals(self, name: str) -> ProtectedTotals:
        """Return the totals that were asked for."""
        found = self._parts[name]
        assert isinstance(found, ProtectedTotals)  # noqa: S101 - asked for as such
        return found


# --- losses


@dataclass(frozen=True)
class Company:
    """The others of a set, where an attacker does not know their confidential values: they hide a record beside the noise."""

    about: tuple[str, ...]
    """The confidential variables that the sums are about."""
    variance: float
    """What one other record varies by, as a share of the square of what the record itself can move."""
    part: float = 1.0
    """Part of the loss that is about these variables."""
    contents: tuple[tuple[str, str], ...] = ()
    """Names and digests of the confidential columns: where one changed between versions, differences leave the others out."""


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """What an answer tells of each record: μ² of Gaussian differential privacy, by cells of known variables.

    Whoever knows everything but one record's confidential values, and has all answers about it, tells two of its values apart
    with balanced accuracy at most Φ(μ/2), where μ² is the sum of its losses (docs/mas/losses.md).
    """

    selection: Selection
    """The records of the universe by their known variables."""
    sides: tuple[Variable, ...]
    """Known variables by which the loss differs."""
    amounts: Numbers
    """One axis per side."""
    keys: tuple[bytes, ...]
    """What each cell was answered under: the same sums with the same noise are charged once."""
    company: tuple[Company, ...] = ()
    """The confidential variables that the sums are about, and how others hide a record in them."""


def whole(values: NDArray[Any]) -> Whole:
    """Return counts as whole numbers."""
    return np.asarray(values, np.int64)
