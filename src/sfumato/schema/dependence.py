"""Which columns determine others: copies, recodes, groups that nest, monotone functions, sums and other exact regressions.

A column that another one determines gives it away, or is given away by it, unless both are masked together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from sfumato.schema.formula import ColumnFormula, agrees, decimals, quoted
from sfumato.typing import Flags, Numbers, Whole

_CHANCE = -14.0
"""Logarithm of the probability that unrelated columns look like that: about one in a million."""
_SCREEN, _ROWS = 500, 5_000
"""Records that most pairs are refuted on; records that regressions are found on, before all records are looked at."""
_MOST = 200
"""Columns of which every pair is looked at; in wider files none is."""
_LEAST = 20
"""Of fewer records nothing is said."""
_SHAPES = ("{0}", "log({0})", "log10({0})", "log2({0})", "log1p({0})", "sqrt({0})", "exp({0})", "{0} ** 2")


@dataclass(frozen=True)
class ColumnValues:
    """A column as dependences see it.

    Parameters
    ----------
    name
        Column name.
    codes
        A number for each different value, shape (n,), in their order if they are numbers; -1 where missing.
    numbers
        The values, shape (n,), if they are numbers; NaN where missing.
    """

    name: str
    codes: Whole
    numbers: Numbers | None = None

    @classmethod
    def of_numbers(cls, name: str, numbers: Numbers) -> ColumnValues:
        """Return a column of numbers; what is not finite is missing."""
        known = np.isfinite(numbers)
        codes = np.full(len(numbers), -1, np.int64)
        codes[known] = np.unique(numbers[known], return_inverse=True)[1]
        return cls(name, codes, np.where(known, numbers, np.nan))

    @property
    def distinct(self) -> int:
        """Number of different values."""
        return int(self.codes.max(initial=-1)) + 1

    def head(self, records: int) -> ColumnValues:
        """Return the column of the first records."""
        return ColumnValues(self.name, self.codes[:records], None if self.numbers is None else self.numbers[:records])


@dataclass(frozen=True)
class FunctionalDependence:
    """A column that others determine.

    Parameters
    ----------
    name
        The column that is determined.
    follows
        The column that determines it, or a formula of columns, as `follows` in a schema.
    sources
        The columns that determine it.
    both_ways
        Whether it determines its only source, too.
    values
        How many different values its only source has, where `follows` is no formula; else 0.
    """

    name: str
    follows: str
    sources: tuple[str, ...]
    both_ways: bool
    values: int = 0

    def words(self) -> str:
        """Return a sentence for the reason in a schema."""
        if not self.values:
            return "It is a copy of it." if self.follows == quoted(self.sources[0]) else f"It equals {self.follows}."
        if self.both_ways:
            return f"It goes one to one with '{self.sources[0]}': each of the two gives the other away."
        return f"'{self.sources[0]}' determines it."


def frame_dependences(
    frame: nw.DataFrame[Any], names: Sequence[str], more: bool
) -> tuple[list[FunctionalDependence], bool]:
    """Return the dependences among some columns of a frame, and whether all records were looked at.

    They are looked for in the first records, and looked up in all records if these are in memory; `more` says that they are not.
    """
    if not 1 < len(names) <= _MOST:
        return [], True
    first = frame.head(_ROWS)
    found = dependences([_values(first, name) for name in names])
    if len(frame) > _ROWS:
        found = [one for one in found if _in_all(frame, one)]
    return found, not more


def _values(frame: nw.DataFrame[Any], name: str) -> ColumnValues:
    column = frame.get_column(name)
    if column.dtype.is_numeric():
        return ColumnValues.of_numbers(name, _floats(column))
    places: dict[Any, int] = {}
    codes = [
        -1 if null or value != value else places.setdefault(str(value), len(places))
        for value, null in zip(column.to_list(), column.is_null().to_list(), strict=True)
    ]
    return ColumnValues(name, np.array(codes, np.int64))


def _floats(column: nw.Series[Any]) -> Numbers:
    return np.asarray(column.to_numpy(), np.float64)


def _in_all(frame: nw.DataFrame[Any], one: FunctionalDependence) -> bool:
    """Whether a dependence that was found in the first records holds in all."""
    if one.values:
        both = frame.select(*one.sources, one.name).unique()
        (source,) = one.sources
        known = both.drop_nulls(subset=[source])
        return len(known) == len(known.select(source).unique())
    values = {name: _floats(frame.get_column(name)) for name in (*one.sources, one.name)}
    return bool(agrees(ColumnFormula(one.follows), values, values[one.name]).all())


def dependences(columns: Sequence[ColumnValues]) -> list[FunctionalDependence]:
    """Return one dependence for each column that others determine in all records, in the order of the columns.

    Of two columns that determine each other the later one depends on the earlier one. What may well be chance is left out.

    >>> x = np.arange(30.0) ** 2 % 17 + np.arange(30)
    >>> found = dependences([ColumnValues.of_numbers("x", x), ColumnValues.of_numbers("log_x", np.log(x + 1))])
    >>> found[0].follows
    'log1p(x)'
    """
    if not 1 < len(columns) <= _MOST or len(columns[0].codes) < _LEAST:
        return []
    found = {y.name: one for i, y in enumerate(columns) if (one := _determinant(i, y, columns)) is not None}
    left = [c for c in columns if c.name not in found and c.numbers is not None and c.distinct > 10]
    found |= {one.name: one for one in _sums(left)}
    return [found[c.name] for c in columns if c.name in found]


def _determinant(place: int, y: ColumnValues, columns: Sequence[ColumnValues]) -> FunctionalDependence | None:
    """Return on which single column another depends: on one that it determines too, or else on the coarsest."""
    fitting = []
    for i, x in enumerate(columns):
        later = x.distinct == y.distinct and i > place  # of two that determine each other the first is the key
        if i == place or x.distinct < y.distinct or later:
            continue
        if _is_function(x.head(_SCREEN), y.head(_SCREEN)) and _is_function(x, y) and _no_chance(x, y):
            fitting.append((x.distinct, i, x))
    if not fitting:
        return None
    x = min(fitting, key=lambda one: one[:2])[2]
    both = x.distinct == y.distinct
    if formula := _pair_formula(x, y):
        return FunctionalDependence(y.name, formula, (x.name,), both)
    return FunctionalDependence(y.name, x.name, (x.name,), both, x.distinct)


def _is_function(x: ColumnValues, y: ColumnValues) -> bool:
    """Whether each value of x goes with one value of y; a missing y is a value."""
    known = x.codes >= 0
    xs, ys = x.codes[known], y.codes[known]
    one = np.full(x.distinct, -1, np.int64)
    one[xs] = ys
    return bool((one[xs] == ys).all())


def _no_chance(x: ColumnValues, y: ColumnValues) -> bool:
    """Whether a function of x would hardly look like y by chance: repeats agree, or the order does."""
    known = (x.codes >= 0) & (y.codes >= 0)
    xs, ys = x.codes[known], y.codes[known]
    if len(xs) < _LEAST:
        return False
    shares = np.bincount(ys) / len(ys)
    sizes, groups = np.unique(np.bincount(xs), return_counts=True)
    chance = sum(g * float(np.log(max((shares**m).sum(), 1e-300))) for m, g in zip(sizes, groups, strict=True) if m > 1)
    repeated = int((sizes * groups)[sizes > 1].sum())  # a few records that stand twice say nothing
    if chance < _CHANCE and 2 * repeated >= len(xs):
        return True
    if x.numbers is None or y.numbers is None:
        return False
    values, first = np.unique(xs, return_index=True)
    steps = np.diff(ys[first])
    if not ((steps >= 0).all() or (steps <= 0).all()):
        return False
    orders = _log_factorial(len(values)) - sum(_log_factorial(m) for m in np.bincount(ys[first]))
    return float(np.log(2) - orders) < _CHANCE


def _log_factorial(n: int) -> float:
    return float(np.log(np.arange(1, n + 1)).sum())


def _pair_formula(x: ColumnValues, y: ColumnValues) -> str:
    """Return y as a formula of x, if one of a few shapes fits all records."""
    if x.numbers is None or y.numbers is None or x.distinct <= 2:
        return ""
    known = ~(np.isnan(x.numbers) | np.isnan(y.numbers))
    target = y.numbers[known]
    for shape in _SHAPES:
        term = shape.format(quoted(x.name))
        g = ColumnFormula(term)({x.name: x.numbers[known]})
        if np.isnan(g).any() or np.abs(g).max() > 1e100 or not g.std() > 0:
            continue
        slope, constant = np.polyfit((g - g.mean()) / g.std(), target, 1)
        slope, constant = slope / g.std(), constant - slope * g.mean() / g.std()
        for text in _written([(slope, term)], constant):
            if _holds(text, {x.name: x.numbers[known]}, target):
                return text
    return ""


def _holds(text: str, values: Mapping[str, Numbers], target: Numbers) -> bool:
    coarse = 10.0 ** -decimals(target) > 0.2 * target.std()  # any curve goes through numbers of one digit
    return not coarse and bool(agrees(ColumnFormula(text), values, target).all())


def _written(terms: Sequence[tuple[float, str]], constant: float) -> Iterator[str]:
    """Yield a linear combination in words, with fewer digits first, and without the constant first."""
    for digits in (2, 4, 7, 12):
        parts = []
        for factor, term in terms:
            rounded = float(f"{factor:.{digits}g}")
            size = "" if abs(rounded) == 1 else f"{abs(rounded):.{digits}g} * "
            parts.append((rounded < 0, f"{size}{term}"))
        yield _joined(parts)
        if float(f"{constant:.{digits}g}"):
            yield _joined([*parts, (constant < 0, f"{abs(constant):.{digits}g}")])


def _joined(parts: Sequence[tuple[bool, str]]) -> str:
    """Return the parts added up, or subtracted if the flag is set; one that is added comes first."""
    first = next((i for i, (minus, _) in enumerate(parts) if not minus), 0)
    ordered = [parts[first], *parts[:first], *parts[first + 1 :]]
    text = "".join(f" {'-' if minus else '+'} {part}" for minus, part in ordered)
    return text.removeprefix(" + ").strip()


def _sums(columns: Sequence[ColumnValues]) -> list[FunctionalDependence]:
    """Return the columns that are exact linear combinations of others, each of earlier ones if it can be."""
    numbers = [c.numbers for c in columns if c.numbers is not None]
    if len(numbers) < 3:
        return []
    x = np.column_stack(numbers)
    full = ~np.isnan(x).any(axis=1)
    rows = np.flatnonzero(full)[:_ROWS]
    if len(rows) < max(_LEAST, 3 * len(columns)):
        return []
    with np.errstate(over="ignore", invalid="ignore"):
        spread = x[rows].std(axis=0)
    spread = np.where(np.isfinite(spread), spread, 0.0)  # of numbers too large to be squared nothing is found
    scaled = (x[rows] - x[rows].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    basis: list[int] = []
    axes = np.zeros((len(rows), 0))
    found: list[FunctionalDependence] = []
    for j in np.flatnonzero(spread > 0).tolist():
        rest = scaled[:, j] - axes @ (axes.T @ scaled[:, j])
        rest -= axes @ (axes.T @ rest)
        size = float(np.sqrt((rest**2).mean()))
        one = _combination(columns, basis, j, x[full], spread) if size < 0.01 and len(basis) > 1 else None
        if one is not None and one.name not in {earlier.name for earlier in found}:
            found.append(one)
        elif size > 1e-9:
            basis.append(j)
            axes = np.column_stack([axes, rest / (size * np.sqrt(len(rows)))])
    return found


def _combination(
    columns: Sequence[ColumnValues], basis: Sequence[int], j: int, x: Numbers, rows_spread: Numbers
) -> FunctionalDependence | None:
    """Return column j as an exact combination of few columns of the basis, or None."""
    some = x[:_ROWS]
    centred = some - some.mean(axis=0)
    kept, factors = list(basis), np.zeros(0)
    while True:
        factors = np.linalg.lstsq(centred[:, kept] / rows_spread[kept], centred[:, j] / rows_spread[j], rcond=None)[0]
        weak: Flags = np.abs(factors) < 1e-3 * np.abs(factors).max(initial=0.0)
        if not weak.any():
            break
        kept = [k for k, w in zip(kept, weak, strict=True) if not w]
    if len(kept) < 2:
        return None
    factors = factors * rows_spread[j] / rows_spread[kept]
    constant = float(some[:, j].mean() - some[:, kept].mean(axis=0) @ factors)
    terms = [(float(f), quoted(columns[k].name)) for f, k in zip(factors, kept, strict=True)]
    values = {columns[k].name: x[:, k] for k in kept}
    text = next((t for t in _written(terms, constant) if _holds(t, values, x[:, j])), "")
    if not text:
        return None
    names = [columns[k].name for k in kept]
    signs = [round(f, 6) for f, _ in terms]
    if sorted(signs) == [-1.0] * (len(signs) - 1) + [1.0] and text == _joined([(f < 0, n) for f, n in terms]):
        # what is left of a total: the total is the one that follows
        total = names.pop(signs.index(1.0))
        names.append(columns[j].name)
        return FunctionalDependence(total, " + ".join(map(quoted, names)), tuple(names), False)
    return FunctionalDependence(columns[j].name, text, tuple(names), False)
