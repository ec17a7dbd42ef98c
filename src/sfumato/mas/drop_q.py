"""Drop q and its variants: which records a universe loses, and how often the difference of two tables is clean."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import DataError, ParameterError, plural
from sfumato.kernels.urn_draws import Series, all_but_one, coefficient, log_choose, log_sum_of_squares, tilted
from sfumato.typing import Numbers, Whole

# --- checks
# Validation of arguments; each is refused in a sentence.


def whole_q(q: Any, table: CellTable | None = None, keep: int = 0) -> int:
    """Return q as a whole number; refuse one that is negative, not whole, or more than a table of n − `keep` records can lose."""
    if not _is_real(q) or q != math.floor(q) or q < 0:
        raise ParameterError("q must be a whole number of records, of at least 0.")
    if table is not None and table.records is not None and int(q) > table.records - keep:
        fewer = "less than the number of its records, since the universe with one fewer loses q as well"
        raise ParameterError(
            f"q is too large for this table: it must be {fewer if keep else 'at most the number of its records'}."
        )
    return int(q)


def at_least_one(name: str, number: Any) -> int:
    """Return a number of pairs, replications or cells; refuse one that is not whole or below 1."""
    if not _is_real(number) or number != math.floor(number) or number < 1:
        raise ParameterError(f"{name} must be a whole number of at least 1.")
    return int(number)


def probability(name: str, number: Any) -> float:
    """Return a number from 0 to 1; refuse any other."""
    if not _is_real(number) or not 0 <= number <= 1:
        raise ParameterError(f"{name} must be a number from 0 to 1.")
    return float(number)


def _is_real(number: Any) -> bool:
    real = isinstance(number, numbers.Real) and not isinstance(number, bool | np.bool_)
    return real and math.isfinite(number)


# --- cell table
# The table on which an intruder takes differences: whole counts, or proportions where counts are not available.


_LARGEST = 2**53
"""Whole numbers up to here are exact in floating point."""
_TOTAL_NAMES = ("all", "total", "totals", "sum")


@dataclass(frozen=True, eq=False)
class CellTable:
    """An m-way table T[U(n)] of one universe.

    Examples
    --------
    >>> table = CellTable.of([[30, 20], [25, 25]])
    >>> table.records, table.variables, table.proportions.tolist()
    (100, ('variable 1', 'variable 2'), [[0.3, 0.2], [0.25, 0.25]])
    """

    values: Numbers
    """Counts or proportions, one axis for each variable."""
    variables: tuple[str, ...]
    records: int | None
    """n, the records of the universe; None where the table holds proportions."""

    @classmethod
    def of(cls, table: Any) -> CellTable:
        """Read an array of any number of dimensions, nested lists, or a pandas crosstab or Series (without margins)."""
        if isinstance(table, CellTable):
            return table
        raw, variables = _pandas(table) if type(table).__module__.partition(".")[0] == "pandas" else (table, None)
        values = _numbers(raw)
        total = math.fsum(values.ravel().tolist())
        if total <= 0:
            raise DataError("the table is empty: every cell is 0. It needs at least one record.")
        if total > _LARGEST:
            raise DataError("the counts of the table sum to more than 2^53, which cannot be held exactly.")
        names = variables or tuple(f"variable {i + 1}" for i in range(values.ndim))
        whole = bool((values == np.floor(values)).all())
        if whole and (total > 1 or _of_integers(raw)):
            return cls(values, names, round(total))
        if abs(total - 1) > 0.01:
            raise DataError(
                "the table must hold whole counts of records, or proportions that sum to 1. "
                "Drop q removes records: use unweighted counts, also where the data have weights."
            )
        return cls(values / total, names, None)

    @cached_property
    def total(self) -> float:
        """Return the sum of the cells: n, or 1."""
        return 1.0 if self.records is None else float(self.records)

    @cached_property
    def proportions(self) -> Numbers:
        """Return π, in the shape of the table."""
        return self.values / self.total

    @cached_property
    def counts(self) -> Whole:
        """Return whole counts, in the shape of the table; proportions have none."""
        self.need_counts()
        return self.values.astype(np.int64)

    @cached_property
    def occupied(self) -> NDArray[np.bool_]:
        """Return which cells hold records, in the shape of the table."""
        return self.values > 0

    @cached_property
    def distinct(self) -> tuple[Numbers, Whole, NDArray[np.intp]]:
        """Return the distinct positive values, the number of cells with each, and the index of the value of each occupied cell."""
        values, place, counts = np.unique(self.values[self.occupied], return_inverse=True, return_counts=True)
        return values, counts.astype(np.int64), place

    def spread(self, per_distinct: Numbers) -> Numbers:
        """Return one number per cell from one per distinct value; NaN where a cell is empty."""
        out = np.full(self.values.shape, np.nan)
        out[self.occupied] = per_distinct[self.distinct[2]]
        return out

    def alone(self, *axes: int) -> CellTable:
        """Return the table of some of the variables, summed over the others."""
        rest = tuple(i for i in range(self.values.ndim) if i not in axes)
        summed = self.values.sum(axis=rest) if rest else self.values
        return CellTable(summed, tuple(self.variables[i] for i in sorted(axes)), self.records)

    def need_counts(self) -> int:
        """Return n; refuse a table of proportions, which has none."""
        if self.records is None:
            raise DataError(
                "this needs whole counts of records; the table holds proportions. Multiply them by n and round."
            )
        return self.records

    def __str__(self) -> str:
        shape = " × ".join(map(str, self.values.shape))
        shape = f"{shape} = {self.values.size:,}" if self.values.ndim > 1 else shape
        size = "proportions" if self.records is None else plural(self.records)
        return f"{size} in {shape} cells, {int(self.occupied.sum()):,} of them occupied"


def _of_integers(raw: Any) -> bool:
    return np.asarray(raw).dtype.kind in "iub"


def _numbers(raw: Any) -> Numbers:
    try:
        if np.iscomplexobj(raw):
            raise TypeError
        array = np.ma.filled(np.ma.asarray(raw, dtype=np.float64), np.nan)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            "the table must be an array of numbers with one axis for each variable, or a pandas crosstab of counts."
        ) from None
    if array.size == 0:
        raise DataError("the table has no cells. It needs at least one.")
    if not np.isfinite(array).all():
        raise DataError("the table has missing or infinite cells. Write 0 for a cell without records.")
    if (array < 0).any():
        raise DataError("the table has negative cells. Counts of records are 0 or more.")
    return np.atleast_1d(np.asarray(array, dtype=np.float64))


def _pandas(table: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a crosstab as an array with one axis per level of its index and of its columns, and their names."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame | pd.Series):
        return table, ()
    axes = [table.index] if isinstance(table, pd.Series) else [table.index, table.columns]
    if any(axis.duplicated().any() for axis in axes):
        raise DataError("the table has two rows or two columns of the same name. Give each cell once.")
    levels = [axis.get_level_values(i) for axis in axes for i in range(axis.nlevels)]
    if any(str(label).casefold() in _TOTAL_NAMES for level in levels for label in level.unique()):
        raise DataError(
            "the table has a row or column named as a total. Leave the margins out (pandas: margins=False), or rename it."
        )
    try:
        values = table.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise DataError("the table must hold counts of records in every cell. Make it with pandas.crosstab.") from None
    codes = [pd.factorize(level, use_na_sentinel=False) for level in levels]
    out = np.zeros([len(unique) for _, unique in codes])
    rows = [code for code, _ in codes[: axes[0].nlevels]]
    if len(axes) == 1:
        out[tuple(rows)] = values
    else:
        columns = [code for code, _ in codes[axes[0].nlevels :]]
        out[tuple([r[:, None] for r in rows] + [c[None, :] for c in columns])] = values
    names = tuple(str(level.name) if level.name is not None else f"variable {i + 1}" for i, level in enumerate(levels))
    kinds = [table.dtype] if isinstance(table, pd.Series) else table.dtypes
    integers = np.isfinite(out).all() and all(pd.api.types.is_integer_dtype(kind) for kind in kinds)
    return (out.astype(np.int64) if integers else out), names


# --- clean tables
# How often the difference of two tables is clean: a single 1 and zeros, as if nothing had been dropped.
#
# U(n) loses x records and U(n − 1), which lacks one record of the sensitive cell s, loses y: q records each, at random and
# independently. The difference is e_s + y − x. It is clean and right if x = y; it is clean but wrong, in cell t, if
# y = x + e_t − e_s (Microdata Analysis System, section 4.3; ERRATA 1.8d and 1.9).


@dataclass(frozen=True, eq=False)
class CleanTables:
    """The probability that the difference table is clean, for each cell that may be the sensitive one.

    A target drawn from all records is in a cell with probability π, so means weight the cells by their proportions.
    """

    right: Numbers
    """Clean, with its 1 in the sensitive cell; shape of the table, NaN where a cell is empty."""
    wrong: Numbers
    """Clean, with its 1 in another cell; same shape."""
    proportions: Numbers

    @property
    def mean_right(self) -> float:
        """Return the probability of a clean, right table for a target drawn from all records."""
        return float(np.nansum(self.right * self.proportions))

    @property
    def worst_right(self) -> float:
        """Return the same for the sensitive cell with the largest probability."""
        return float(np.nanmax(self.right))

    @property
    def mean_wrong(self) -> float:
        """Return the probability of a clean table that names a wrong cell, for a target drawn from all records."""
        return float(np.nansum(self.wrong * self.proportions))

    @property
    def trust(self) -> float:
        """Return the share of clean tables that are right; NaN if none is clean."""
        clean = self.mean_right + self.mean_wrong
        return self.mean_right / clean if clean > 0 else math.nan


def success_probability(table: Any, q: int, *, log: bool = False) -> float:
    """Return (4.3.4), the paper's approximate probability that the difference of two tables discloses: Σ (q!/Πx!)² Π π^(2x).

    Computed cell by cell, in O(cells × q) steps, in arithmetic that does not underflow (ERRATA 1.10); `log` returns the
    natural logarithm, for probabilities below 1e-308.

    >>> round(success_probability([.123, .111, .145, .152, .116, .133, .101, .119], 2), 8)
    0.0301466
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        answer = 0.0
    else:
        answer = min(0.0, 2 * math.lgamma(q + 1) + log_sum_of_squares(values / cells.total, counts, q, finite=False))
    return answer if log else math.exp(answer)


def least_success_probability(cells: int, q: int, *, log: bool = False) -> float:
    """Return (4.3.5), the value of (4.3.4) for equal cells: no table with this number of cells has a smaller one (ERRATA 1.6).

    >>> f"{least_success_probability(1000, 50):.11e}"
    '1.64553230079e-86'
    """
    cells = at_least_one("the number of cells", cells)
    q = whole_q(q)
    if q == 0 or cells == 1:
        answer = 0.0
    else:
        equal = np.array([1.0 / cells])
        answer = min(0.0, 2 * math.lgamma(q + 1) + log_sum_of_squares(equal, np.array([cells]), q, finite=False))
    return answer if log else math.exp(answer)


def same_drop_probability(table: Any, q: int, *, log: bool = False) -> float:
    """Return the exact probability that two independent drops of q records take equal numbers from every cell.

    Two multivariate hypergeometric draws: Σ Π C(n_i, x_i)² / C(n, q)². It is also, exactly, the probability of a clean, right
    difference for a target drawn from all records, q < n: the mean of `clean_tables(table, q).right`.

    >>> round(same_drop_probability([2, 2], 1), 12)
    0.5
    """
    cells = CellTable.of(table)
    n = cells.need_counts()
    q = whole_q(q, cells)
    values, counts, _ = cells.distinct
    if q in (0, n) or int(counts.sum()) == 1:
        answer = 0.0
    else:
        answer = min(0.0, log_sum_of_squares(values, counts, q, finite=True) - 2 * float(log_choose(n, q)))
    return answer if log else math.exp(answer)


def clean_tables(table: Any, q: int) -> CleanTables:
    """Return the probabilities of clean difference tables, right and wrong, for each sensitive cell.

    Exact for a table of counts (multivariate hypergeometric, from the counts and from the counts less one in the sensitive
    cell; ERRATA 1.9); for proportions, in the paper's multinomial approximation.

    >>> result = clean_tables([2, 2], 1)  # y is from (1, 2): right with 1/2 · 1/3 + 1/2 · 2/3
    >>> result.right.round(12).tolist(), result.wrong.round(12).tolist()
    ([0.5, 0.5], [0.333333333333, 0.333333333333])
    """
    cells = CellTable.of(table)
    q = whole_q(q, cells, keep=1)
    values, counts, _ = cells.distinct
    if q == 0 or int(counts.sum()) == 1:
        return CleanTables(cells.spread(np.ones(values.size)), cells.spread(np.zeros(values.size)), cells.proportions)
    finite = cells.records is not None
    values = values if finite else values / cells.total
    parts = tilted(values, counts, q, finite)
    log_scale = -q * parts.log_theta + math.fsum(counts * parts.log_norms)
    if finite:
        n = int(cells.total)
        log_scale -= float(log_choose(n, q) + log_choose(n - 1, q))
    else:
        log_scale += 2 * math.lgamma(q + 1)
    marked = [_marked(s, v, finite) for s, v in zip(parts.series, values, strict=True)]
    right, wrong = np.empty(values.size), np.empty(values.size)
    for i, rest in enumerate(all_but_one(marked, counts.tolist(), q)):
        own, value = parts.series[i], values[i]
        x = own.start + np.arange(own.plain.size)
        same = own.plain * (1 - x / value) if finite else own.plain
        lost = own.plain * (x / value)
        right[i] = coefficient(Series(own.start, same), rest, q)
        wrong[i] = coefficient(Series(own.start, lost), rest.marks(), q)
    scale = math.exp(log_scale)
    return CleanTables(cells.spread(right * scale), cells.spread(wrong * scale), cells.proportions)


def _marked(series: Series, value: float, finite: bool) -> Series:
    """Return the series of a cell; its marked part has the terms with y = x + 1.

    C(n, x) C(n, x + 1) = C(n, x)² (n − x)/(x + 1); with replacement, π^(2x + 1)/(x! (x + 1)!).
    """
    x = series.start + np.arange(series.plain.size)
    gain = ((value - x) if finite else value) / (x + 1)
    return series._replace(marked=series.plain * gain)


# --- dropped share
# A share of the records dropped: each record independently, with the same probability.
#
# The numbers dropped from the cells are then binomial and independent, and the probability of a clean difference is a product
# over cells: Π_{i≠s} Σ_x b(x; n_i, p)² · Σ_x b(x; n_s, p) b(x; n_s − 1, p), with b the binomial probability.


def share_clean_tables(table: Any, share: float) -> CleanTables:
    """Return the probabilities of clean differences, right and wrong, if every record is dropped with probability `share`.

    With one record, the target, the table is right if it is not dropped.

    >>> share_clean_tables([1], 0.25).right.tolist()
    [0.75]
    """
    cells = CellTable.of(table)
    cells.need_counts()
    share = probability("the share of records to drop", share)
    values, counts, _ = cells.distinct
    sums = np.array([_sums(int(v), share) for v in values])
    same, own, gained, lost = sums.T
    with np.errstate(divide="ignore"):
        logs = np.log(same)
    others = np.exp(math.fsum(counts * logs) - logs)
    gains = gained / same
    right = others * own
    wrong = others * lost * (float(counts @ gains) - gains)
    return CleanTables(cells.spread(right), cells.spread(np.maximum(wrong, 0.0)), cells.proportions)


def _sums(n: int, p: float) -> tuple[float, float, float, float]:
    """Return, for x from n and y from n or n − 1 records: P(x = y), the same in the sensitive cell, P(y = x + 1), P(x = y' + 1).

    The last is for the sensitive cell, which has one record fewer for y'.
    """
    reach = 40 + 12 * math.sqrt(n * p * (1 - p))
    x = np.arange(max(0, math.floor(n * p - reach)), min(n, math.ceil(n * p + reach)) + 1, dtype=np.float64)
    b, fewer, shifted = _binomial(x, n, p), _binomial(x, n - 1, p), _binomial(x - 1, n - 1, p)
    return float(b @ b), float(b @ fewer), float(b[:-1] @ b[1:]), float(b @ shifted)


def _binomial(x: Numbers, n: int, p: float) -> Numbers:
    from scipy.special import xlog1py, xlogy

    inside = (x >= 0) & (x <= n)
    k = np.where(inside, x, 0.0)
    return np.where(inside, np.exp(log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p)), 0.0)


# --- choosing
# The smallest q that brings (4.3.4) below a threshold, for the table at hand.


_LARGEST_Q = 10_000_000
"""Limit for tables of proportions, which set none."""


def smallest_q(table: Any, below: float) -> int:
    """Return the smallest q whose probability of disclosure by (4.3.4) is below a threshold.

    (4.3.4) falls as q grows for every table with more than one occupied cell (ERRATA 1.7), so bisection finds it.

    >>> smallest_q([.123, .111, .145, .152, .116, .133, .101, .119], below=0.01)
    4
    """
    below = probability("the threshold", below)
    if below == 0:
        raise ParameterError("the threshold must be above 0: the probability falls with q, but is never 0.")
    cells = CellTable.of(table)
    limit = _LARGEST_Q if cells.records is None else cells.records
    goal = math.log(below)

    def suffices(q: int) -> bool:
        return success_probability(cells, q, log=True) < goal

    low, high = 0, 1
    while not suffices(high):
        if high == limit or int(cells.occupied.sum()) == 1:
            most = f"{limit:,} records" if cells.records is None else "all records"
            raise DataError(
                f"no q, up to {most}, brings the probability of disclosure below {below:g} for this table. "
                "Allow a higher threshold, or refuse the table: dropping protects little where one cell holds nearly all records."
            )
        low, high = high, min(2 * high, limit)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


# --- dropping
# Records dropped at random, counted by cell, in many replications.


_FEW_CELLS = 64
_LARGEST_URN = 10**9
"""NumPy draws hypergeometric numbers only from urns smaller than this."""


def drop_each(
    cells: CellTable, share: float, size: int, generator: np.random.Generator, without: Whole | None
) -> Whole:
    """Count the records that each occupied cell loses if each is dropped with probability `share`, `size` times."""
    counts = np.broadcast_to(cells.counts[cells.occupied], (size, int(cells.occupied.sum()))).copy()
    if without is not None:
        counts[np.arange(size), without] -= 1
    return generator.binomial(counts, share)


def drop_numbers(cells: CellTable, q: Whole, generator: np.random.Generator, without: Whole | None) -> Whole:
    """Count the records that each occupied cell loses among q in all; shape (len(q), occupied cells)."""
    most = whole_q(int(q.max()), cells, keep=int(without is not None))
    if cells.records is None:
        proportions = cells.proportions[cells.occupied]
        return generator.multinomial(q, proportions / proportions.sum())
    counts = cells.counts[cells.occupied]
    seldom_twice = most**2 <= cells.records
    if seldom_twice and (counts.size > _FEW_CELLS or cells.records >= _LARGEST_URN):
        return _by_record(counts, q, generator, without)
    if cells.records >= _LARGEST_URN:
        raise ParameterError("a table of a thousand million records or more can be simulated only for a smaller q.")
    return _by_cell(counts, q, generator, without)


def _by_cell(counts: Whole, q: Whole, generator: np.random.Generator, without: Whole | None) -> Whole:
    """Draw from one cell after the other: hypergeometric, given the numbers left to draw and left to draw from."""
    out = np.zeros((q.size, counts.size), dtype=np.int64)
    to_draw = q.copy()
    rest = np.full(q.size, int(counts.sum())) - (0 if without is None else 1)
    for i, count in enumerate(counts):
        here = np.full(q.size, count) - (0 if without is None else (without == i))
        rest = rest - here
        out[:, i] = generator.hypergeometric(here, rest, to_draw)
        to_draw -= out[:, i]
    return out


def _by_record(counts: Whole, q: Whole, generator: np.random.Generator, without: Whole | None) -> Whole:
    """Draw record numbers, and redraw repeated ones: for few records out of many cells."""
    ends = np.cumsum(counts)
    n = int(ends[-1]) - (without is not None)
    most = int(q.max())
    records = np.sort(_distinct(n, q.size, most, generator), axis=1)
    if without is not None:  # the last record of that cell is the missing one
        records += records >= (ends[without] - 1)[:, None]
    used = generator.permuted(np.broadcast_to(np.arange(most), records.shape), axis=1) < q[:, None]
    places = np.arange(q.size)[:, None] * counts.size + np.searchsorted(ends, records, side="right")
    return np.bincount(places[used], minlength=q.size * counts.size).reshape(q.size, counts.size)


def _distinct(n: int, size: int, most: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return `size` rows of `most` different whole numbers below n."""
    out = generator.integers(0, n, size=(size, most))
    again = np.arange(size)
    while again.size:
        rows = np.sort(out[again], axis=1)
        again = again[(rows[:, 1:] == rows[:, :-1]).any(axis=1)]
        out[again] = generator.integers(0, n, size=(again.size, most))
    return out


# --- drops
# The variants of drop q: which records a universe loses before the analysis.


class Drop(Parametric, family="drop", abstract=True):
    """A way to choose the records to drop; universes are treated independently."""

    @abstractmethod
    def label(self) -> str:
        """Return a short label of what is dropped."""

    def for_table(self, table: CellTable) -> Drop:
        """Return the drop that is applied to a table, where it depends on the table."""
        return self

    @abstractmethod
    def approximate(self, table: CellTable) -> float:
        """Return the probability of a clean difference by (4.3.4); NaN where it does not apply."""

    @abstractmethod
    def clean(self, table: CellTable) -> CleanTables:
        """Return the probability of a clean difference: exact for counts, by (4.3.4) for proportions."""

    @abstractmethod
    def expected(self, table: CellTable) -> float:
        """Return the mean number of records that a universe loses."""

    def spread(self, table: CellTable) -> float:
        """Return the sum of the variances of the numbers dropped from small cells: about the number dropped."""
        return self.expected(table)

    @abstractmethod
    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Whole | None = None
    ) -> Whole:
        """Drop at random, `size` times: return the losses of each occupied cell, shape (size, occupied cells).

        `without` names, per replication, the occupied cell with one record less: U(n − 1) in place of U(n).
        """


class DropQ(Drop):
    """The rule as printed: the same number of records from every universe (section 4.2)."""

    q: int = param(default=2, doc="records dropped from every universe", low=0, integer=True)

    @override
    def label(self) -> str:
        return f"q = {self.q:,}"

    def approximate(self, table: CellTable) -> float:
        """Return (4.3.4)."""
        return success_probability(table, self.q)

    def clean(self, table: CellTable) -> CleanTables:
        """Return the probability of a clean difference."""
        return clean_tables(table, self.q)

    def expected(self, table: CellTable) -> float:
        """Return q."""
        return float(self.q)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Whole | None = None
    ) -> Whole:
        """Drop q records, `size` times."""
        return drop_numbers(table, np.full(size, self.q, dtype=np.int64), generator, without)


class DropRange(Drop):
    """A number of records drawn for each universe, every number from `low` to `high` with the same probability.

    The difference can be clean only if both universes lose the same number, so that the probability is Σ_q w² P(q), with
    w = 1/(high − low + 1): the mean over the range, divided by the number of values in it.
    """

    low: int = param(default=1, doc="fewest records dropped", low=0, integer=True)
    high: int = param(default=10, doc="most records dropped", low=0, integer=True)

    @override
    def validate(self) -> None:
        if self.high < self.low:
            raise ParameterError("high of drop_range must be at least low.")

    @override
    def label(self) -> str:
        return f"q from {self.low:,} to {self.high:,}"

    def _range(self) -> range:
        return range(self.low, self.high + 1)

    def approximate(self, table: CellTable) -> float:
        """Return Σ w² times (4.3.4)."""
        return math.fsum(success_probability(table, q) for q in self._range()) / len(self._range()) ** 2

    def clean(self, table: CellTable) -> CleanTables:
        """Return the probability of a clean difference."""
        each = [clean_tables(table, q) for q in self._range()]
        right, wrong = (sum(getattr(c, side) for c in each) / len(each) ** 2 for side in ("right", "wrong"))
        return CleanTables(right, wrong, table.proportions)

    def expected(self, table: CellTable) -> float:
        """Return the middle of the range."""
        return (self.low + self.high) / 2

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Whole | None = None
    ) -> Whole:
        """Draw q from the range and drop q records, `size` times."""
        return drop_numbers(table, generator.integers(self.low, self.high + 1, size=size), generator, without)


class DropShare(Drop):
    """Every record is dropped independently with the same probability; the number of records dropped varies."""

    share: float = param(default=0.10, doc="probability that a record is dropped", low=0, high=1)

    @override
    def label(self) -> str:
        return f"{100 * self.share:g} % of the records"

    def approximate(self, table: CellTable) -> float:
        """Return NaN: (4.3.4) is for a fixed number of records."""
        return math.nan

    def clean(self, table: CellTable) -> CleanTables:
        """Return the probability of a clean difference, a product over cells."""
        return share_clean_tables(table, self.share)

    def expected(self, table: CellTable) -> float:
        """Return the share of n."""
        return self.share * table.need_counts()

    def spread(self, table: CellTable) -> float:
        """Return n p (1 − p)."""
        return self.expected(table) * (1 - self.share)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Whole | None = None
    ) -> Whole:
        """Drop each record independently, `size` times."""
        return drop_each(table, self.share, size, generator, without)


class DropEnough(Drop):
    """As many records as bring (4.3.4) below a threshold for the table at hand."""

    below: float = param(default=0.01, doc="largest probability of disclosure by (4.3.4)", low=0, above=True, high=1)

    @override
    def label(self) -> str:
        return f"q for {self.below:g}"

    def for_table(self, table: CellTable) -> DropQ:
        """Return the drop of the smallest sufficient q; refuse if there is none."""
        return DropQ(q=smallest_q(table, self.below))

    def approximate(self, table: CellTable) -> float:
        """Return (4.3.4) at that q."""
        return self.for_table(table).approximate(table)

    def clean(self, table: CellTable) -> CleanTables:
        """Return the probability of a clean difference at that q."""
        return self.for_table(table).clean(table)

    def expected(self, table: CellTable) -> float:
        """Return that q."""
        return self.for_table(table).expected(table)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Whole | None = None
    ) -> Whole:
        """Drop that q, `size` times."""
        return self.for_table(table).sample(table, size, generator, without)
