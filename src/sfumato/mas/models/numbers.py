"""One numerical factor of a model: a variable, top-coded where the policy says so, and transformed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.warehouse import Warehouse
from sfumato.mas.variable import Variable

Numbers = NDArray[np.float64]
_SQL = {
    "": "{x}", "log": "CASE WHEN {x} > 0 THEN ln({x}) END",
    "log1p": "CASE WHEN abs({x}) < 0.1 THEN 2 * atanh({x} / (2 + {x})) WHEN {x} > -1 THEN ln(1 + {x}) END",
    "sqrt": "CASE WHEN {x} >= 0 THEN sqrt({x}) END", "square": "({x} * {x})",
}  # fmt: skip
_NUMPY: dict[str, Any] = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "square": np.square}


@dataclass(frozen=True)
class Number:
    """A function of a variable; `standardise` is left to the coefficients, so that it has the noise of the plain variable."""

    column: str
    """Of the prepared records."""
    name: str
    """How the formula names it, without standardise: "log(income)"."""
    function: str = ""
    standardised: bool = False
    top: tuple[float, float] | None = None
    """A value, and what replaces those from it on."""
    bottom: tuple[float, float] | None = None

    @classmethod
    def of(cls, variable: Variable, function: str, top_coded: bool) -> Number:
        """Make the factor of a variable."""
        standardised = function == "standardise"
        plain = "" if standardised else function
        name = f"{plain}({variable.name})" if plain else variable.name
        ends = (variable.top, variable.bottom) if top_coded else (None, None)
        return cls(variable.numbers, name, plain, standardised, *ends)

    @property
    def title(self) -> str:
        """How the formula names it."""
        return f"standardise({self.name})" if self.standardised else self.name

    def values(self, piece: Mapping[str, NDArray[Any]]) -> Numbers:
        """Return its numbers for a piece of the records, shape (n,); not finite where it is missing or not defined."""
        x = np.asarray(piece[self.column], np.float64)
        if self.top is not None:
            x = np.where(x >= self.top[0], self.top[1], x)
        if self.bottom is not None:
            x = np.where(x <= self.bottom[0], self.bottom[1], x)
        if not self.function:
            return x
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(_NUMPY[self.function](x), np.float64)

    def sql(self) -> str:
        """Return the same as SQL; null where it is missing or not defined."""
        x = self.column
        if self.bottom is not None:
            x = f"CASE WHEN {x} <= {literal(self.bottom[0])} THEN {literal(self.bottom[1])} ELSE {x} END"
        if self.top is not None:
            x = f"CASE WHEN {self.column} >= {literal(self.top[0])} THEN {literal(self.top[1])} ELSE {x} END"
        return f"({_SQL[self.function].format(x=f'({x})')})"


def literal(value: float) -> str:
    """Return a number as SQL that both engines read as the same double.

    >>> literal(0.5)
    '(5.00000000000000000e-01)'
    """
    return f"({value:.17e})"


@dataclass(frozen=True)
class Bounds:
    """The least and the largest value of a factor in the whole data set; confidential."""

    low: float
    high: float
    gaps: bool
    """Whether some records of the data set have no value."""
    binary: bool = False
    """Whether all values are 0 or 1."""

    @property
    def middle(self) -> float:
        """The middle of the range; 0 where there are no values."""
        return (self.low + self.high) / 2 if np.isfinite(self.low + self.high) else 0.0

    @property
    def half(self) -> float:
        """Half the range, up to the next quarter of a power of two: noise is in proportion to it, and must not tell the ends."""
        exact = (self.high - self.low) / 2
        return 2.0 ** (math.ceil(4 * math.log2(exact) - 1e-9) / 4) if exact > 0 else 0.0

    @property
    def largest(self) -> float:
        """The largest size of a value, likewise."""
        return Bounds(0.0, 2 * max(abs(self.low), abs(self.high)), False).half


def bounds_of(warehouse: Warehouse, numbers: Sequence[Number]) -> list[Bounds]:
    """Return the bounds of some factors: of the whole data set, so that noise has one scale for every set of records."""
    if not numbers:
        return []
    listed = [
        f"min({x.sql()}) AS a{i}, max({x.sql()}) AS b{i}, count({x.sql()}) AS c{i}, "
        f"count(CASE WHEN {x.sql()} IN (0, 1) THEN 1 END) AS d{i}"
        for i, x in enumerate(numbers)
    ]
    found = warehouse.ask(f"SELECT count(*) AS n, {', '.join(listed)} FROM records")  # noqa: S608 - names of our own

    def bound(name: str) -> float:
        value = found[name][0]
        return float("nan") if value is None else float(value)

    return [
        Bounds(
            bound(f"a{i}"), bound(f"b{i}"), int(found[f"c{i}"][0]) < int(found["n"][0]),
            int(found[f"c{i}"][0]) == int(found[f"d{i}"][0]),
        )
        for i in range(len(numbers))
    ]  # fmt: skip
