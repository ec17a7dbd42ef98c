"""Cell-key perturbation of counts and magnitudes, by a perturbation table: the change for each value and cell key."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import DataError, ParameterError
from sfumato.files import write_text
from sfumato.tables.cells import Status
from sfumato.tables.largest_contributors import contributors_by_cell, contributors_of
from sfumato.tables.noise_entropy import largest_stay, most_entropy, variances
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rta.digits import published_decimals, unit
from sfumato.tables.rules import rules_of
from sfumato.tables.sensitivity import SensitivityRule
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

Keys = NDArray[np.uint64]
_BITS = 53  # what a double holds exactly
_BELOW = np.uint64(2**_BITS - 1)


def cell_keys(table: Table, draws: Draws) -> Keys:
    """Return the key of every cell in units of 2⁻⁵³, shape (cells,); 0 for a cell without records.

    A record's key is a pseudo-random number in [0, 1), a function of the secret seed and of the record's identity, or a key
    from the file. A cell's key is the fractional part of the sum over its records, so the same records have the same key in
    every table, in any order. Sums are of whole numbers: exact.
    """
    records = table.records
    if records is None:
        raise DataError(
            "cell keys depend on records, and the table was made without them. Make it from microdata (Table.of)."
        )
    keys = draws.child("cell keys").uniforms(records.ids, "record key") if records.keys is None else records.keys
    whole = np.floor(keys * 2.0**_BITS).astype(np.uint64)
    leaves = np.zeros(table.cells.leaves, np.uint64)
    np.add.at(leaves, records.leaf, whole)  # sums overflow at 2⁶⁴, a multiple of 2⁵³
    incidence = table.cells.incidence
    sums = np.add.reduceat(leaves[incidence.indices], incidence.indptr[:-1].astype(np.int64))
    return np.asarray(sums & _BELOW)


def as_fractions(keys: Keys, place: int = 0) -> Numbers:
    """Return keys as numbers in [0, 1); for the second, third … use of a key, without its first digits.

    >>> as_fractions(np.array([2**52], np.uint64)).tolist(), as_fractions(np.array([2**52 + 2**50], np.uint64), 1).tolist()
    ([0.5], [0.25])
    """
    shifted = (keys * np.uint64(10**place)) & _BELOW
    return shifted.astype(np.float64) / 2.0**_BITS


KINDS = ("all", "even", "odd", "small_cells")
_ROUNDED = 1e-5  # files hold rounded probabilities


@dataclass(frozen=True, eq=False)
class PerturbationRow:
    """Possible changes of one value, ascending, with their probabilities and upper bounds of the cell key."""

    value: float
    change: Numbers
    probability: Numbers
    bound: Numbers
    """Cell keys from the previous bound up to this one, exclusive, give this change."""

    @classmethod
    def of(cls, value: float, change: Numbers, probability: Numbers) -> PerturbationRow:
        """Return a row from probabilities; the last bound is 1."""
        bound = np.minimum(np.cumsum(probability), 1.0)  # rounding may take the sum above 1
        bound[-1] = 1.0
        return cls(float(value), change, probability, bound)

    @property
    def mean(self) -> float:
        """The mean change."""
        return float(self.probability @ self.change)

    @property
    def variance(self) -> float:
        """The variance of the change."""
        return float(self.probability @ self.change**2) - self.mean**2

    @property
    def possible(self) -> Flags:
        """Which changes some cell key gives; a file with rounded numbers may give one whose probability reads 0."""
        last = np.arange(len(self.bound)) == len(self.bound) - 1
        wide = np.diff(self.bound, prepend=0.0) > 0
        return np.asarray((self.probability > 0) | wide | (last & (self.bound < 1)))

    def at(self, keys: Numbers) -> Numbers:
        """Return the changes for cell keys in [0, 1): the first change whose bound is above the key."""
        return np.asarray(
            self.change[np.minimum(np.searchsorted(self.bound, keys, side="right"), len(self.change) - 1)]
        )


@dataclass(frozen=True, eq=False)
class PerturbationTable:
    """The change for each value and cell key: the noise of the cell-key method, fixed in advance.

    Rows are by value; the last row also serves all larger values. There may be one table for all cells, or one each for cells
    with an even and an odd number of contributors, and one for small cells. The files of τ-ARGUS and of the R package ptable
    (columns i;j;p;v;p_int_ub and optionally type) are read and written; `for_counts` and `for_magnitudes` generate one.

    Examples
    --------
    >>> made = PerturbationTable.for_counts(maximum=3, variance=1.5)
    >>> [round(row.variance, 6) for row in made.rows["all"]]
    [0.0, 1.5, 1.5, 1.5]
    >>> table = PerturbationTable({"all": (PerturbationRow.of(0, np.zeros(1), np.ones(1)),
    ...                                    PerturbationRow.of(1, np.array([-1.0, 0, 1]), np.array([0.25, 0.5, 0.25])))})
    >>> table.at(np.array([0, 1, 1, 7]), np.array([0.9, 0.1, 0.5, 0.8])).tolist()
    [0.0, -1.0, 0.0, 1.0]
    """

    rows: Mapping[str, tuple[PerturbationRow, ...]]

    def __post_init__(self) -> None:
        if not self.rows or not all(self.rows.values()):
            raise DataError("a perturbation table needs at least one row.")
        for kind, rows in self.rows.items():
            _check(kind, rows)
        if ("even" in self.rows) != ("odd" in self.rows):
            raise DataError(
                "a perturbation table for even numbers of contributors needs one for odd numbers, and conversely."
            )
        if not {"all", "even"} & set(self.rows):
            raise DataError("a perturbation table needs rows of the type 'all', or of the types 'even' and 'odd'.")

    def __repr__(self) -> str:
        return f"PerturbationTable({', '.join(self.rows)}; changes by at most {self.maximum:g})"

    @cached_property
    def maximum(self) -> float:
        """The largest change, either way."""
        return max(float(np.abs(row.change).max()) for rows in self.rows.values() for row in rows)

    @property
    def whole(self) -> bool:
        """Whether it maps counts to counts: a row for each, and whole changes."""
        rows = self.rows.get("all", ())
        return [r.value for r in rows] == list(range(len(rows))) and all(
            (r.change == np.round(r.change)).all() for r in rows
        )

    def for_small(self) -> PerturbationTable | None:
        """Return the rows for small cells, as a table of their own; None if there are none."""
        return PerturbationTable({"all": self.rows["small_cells"]}) if "small_cells" in self.rows else None

    def without_small(self) -> PerturbationTable:
        """Return the table without the rows for small cells."""
        kept = {kind: rows for kind, rows in self.rows.items() if kind != "small_cells"}
        return self if len(kept) == len(self.rows) else PerturbationTable(kept)

    def at(self, counts: Whole | Numbers, keys: Numbers) -> Numbers:
        """Return the changes of counts for their cell keys; both of shape (n,)."""
        rows = self.rows["all"]
        place = np.minimum(np.asarray(counts, np.int64), len(rows) - 1)
        out = np.zeros(len(place))
        for k in np.unique(place):
            out[place == k] = rows[k].at(np.asarray(keys)[place == k])
        return out

    def between(self, values: Numbers, keys: Numbers, kind: str = "all") -> Numbers:
        """Return the change for values between rows: interpolated between those of the two rows for the key."""
        rows = self.rows[kind]
        at = np.array([row.value for row in rows])
        values = np.clip(values, at[0], at[-1])
        upper = np.minimum(np.searchsorted(at, values, side="right"), len(at) - 1)
        lower = np.maximum(upper - 1, 0)
        every = np.stack([row.at(keys) for row in rows])
        here = np.arange(len(keys))
        gap = np.where(upper == lower, 1.0, at[upper] - at[lower])
        share = np.where(upper == lower, 0.0, (values - at[lower]) / gap)
        return np.asarray((1 - share) * every[lower, here] + share * every[upper, here])

    def could_be(self, published: Numbers) -> tuple[Numbers, Numbers]:
        """Return the smallest and the largest count that can be published as each of these, both of shape (n,)."""
        rows, reach = self.rows["all"], int(self.maximum)
        least, most = np.full(len(published), np.inf), np.full(len(published), -np.inf)
        for change in range(-reach, reach + 1):
            able = np.array([row.possible[row.change == change].any() for row in rows])
            count = published - change
            fits = (count >= 0) & able[np.clip(count, 0, len(rows) - 1).astype(np.int64)]
            least[fits], most[fits] = np.minimum(least[fits], count[fits]), np.maximum(most[fits], count[fits])
        if (least > most).any():
            raise DataError("no count can be published as one of these with this perturbation table.")
        return least, most

    @classmethod
    def for_counts(
        cls, maximum: int, variance: float, smallest: int = 0, stay: float = 0.0, monotone: bool = False
    ) -> PerturbationTable:
        """Return the table that `CellKey` generates for counts with these parameters: the noise with the largest entropy."""
        asked = CellKey(maximum=maximum, variance=variance, smallest=smallest, stay=stay, monotone=monotone)
        return count_table(asked.maximum, asked.variance, asked.smallest, asked.stay, asked.monotone)

    @classmethod
    def for_magnitudes(cls, maximum: int, variance: float, monotone: bool = False) -> PerturbationTable:
        """Return the table that `CellKey` generates for magnitudes: rows for 0, 1 and `maximum`, changes in halves."""
        asked = CellKey(maximum=maximum, variance=variance, monotone=monotone)
        return magnitude_table(asked.maximum, asked.variance, monotone=asked.monotone)

    @classmethod
    def read(cls, path: str | Path, kind: str | None = None) -> PerturbationTable:
        """Read a file of τ-ARGUS or ptable; `kind` assigns all its rows to one type, whatever the file says."""
        try:
            text = Path(path).read_text("utf-8-sig")
        except FileNotFoundError:
            raise ParameterError(f"there is no perturbation table at {path}.") from None
        except (OSError, UnicodeDecodeError):
            raise DataError(f"{path} cannot be read as a perturbation table.") from None
        lines = [line for line in csv.reader(text.splitlines(), delimiter=";") if any(cell.strip() for cell in line)]
        names = [cell.strip().strip('"').lower() for cell in lines[0]] if lines else []
        if names[:4] != ["i", "j", "p", "v"] or len(names) not in (5, 6) or (len(names) == 6 and names[5] != "type"):
            raise DataError(
                f"{path} is not a perturbation table: its first line must be i;j;p;v;p_int_ub, and perhaps ;type after it."
            )
        gathered: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
        for number, line in enumerate(lines[1:], 2):
            try:
                i, j, p, v, bound = (float(cell.replace(",", ".")) for cell in line[:5])
            except ValueError:
                raise DataError(f"line {number} of {path} is not five numbers with ; between them.") from None
            if abs(j - i - v) > _ROUNDED:
                raise DataError(
                    f"line {number} of {path} says that a value becomes another that is not v away from it."
                )
            under = kind or (line[5].strip().strip('"') if len(line) > 5 else "all")
            if under not in KINDS:
                raise DataError(f"line {number} of {path} has an unknown type; there are {', '.join(KINDS)}.")
            gathered.setdefault(under, {}).setdefault(i, []).append((v, p, bound))
        return cls({under: tuple(_row(i, by[i]) for i in sorted(by)) for under, by in gathered.items()})

    def write(self, path: str | Path) -> None:
        """Write the table as ptable does, with a type in every line."""
        lines = ["i;j;p;v;p_int_ub;type"]
        lines += [
            f"{row.value:.12g};{row.value + v:.12g};{p:.12g};{v:.12g};{b:.12g};{kind}"
            for kind, rows in self.rows.items()
            for row in rows
            for v, p, b in zip(row.change, row.probability, row.bound, strict=True)
        ]
        write_text(path, "\n".join(lines) + "\n")


def _row(value: float, entries: list[tuple[float, float, float]]) -> PerturbationRow:
    change, probability, bound = np.array(entries).T.copy()
    return PerturbationRow(value, change, probability, bound)


def _check(kind: str, rows: Iterable[PerturbationRow]) -> None:
    """Refuse rows that are no distributions, lead below zero, or change zeros."""
    for row in rows:
        name = f"row {row.value:g} of the perturbation table ('{kind}')"
        numbers = np.concatenate([[row.value], row.change, row.probability, row.bound])
        if not np.isfinite(numbers).all() or row.value < 0:
            raise DataError(f"{name} has a number that is missing or infinite, or a value below zero.")
        if (row.probability < 0).any() or abs(row.probability.sum() - 1) > _ROUNDED:
            raise DataError(f"{name} has probabilities that are negative or do not add up to 1.")
        if np.abs(np.cumsum(row.probability) - row.bound).max() > _ROUNDED:
            raise DataError(f"{name} has bounds that are not the running sums of its probabilities.")
        if (np.diff(row.bound) < 0).any() or abs(row.bound[-1] - 1) > _ROUNDED:
            raise DataError(f"{name} has bounds that fall, or do not end at 1.")
        if (row.value + row.change[row.possible] < 0).any():
            raise DataError(f"{name} leads below zero.")
        if row.value == 0 and row.change[row.possible].any():
            raise DataError(f"{name} changes a zero: zeros must stay, since nobody is behind them.")


@lru_cache(maxsize=64)
def count_table(
    maximum: int, variance: float, smallest: int = 0, stay: float = 0.0, monotone: bool = False
) -> PerturbationTable:
    """Return a perturbation table for counts.

    Every count i > 0 becomes i + v with |v| ≤ `maximum`, never below 0 nor between 1 and `smallest`, with mean 0 and this
    variance; among all such noise the one with the largest entropy. From the count on at which no limit binds it is symmetric,
    and one row serves all larger counts. Zeros stay. `stay` is the smallest probability of no change (where the count may be
    published at all); `monotone` requires that larger changes are never likelier than smaller ones.

    Marley and Leaver (2011), A method for confidentialising user-defined tables; Giessing (2016), PSD; R package ptable.
    """
    rows = [PerturbationRow.of(0, np.zeros(1), np.ones(1))]
    for count in range(1, maximum + smallest + (smallest > 0) + 1):
        target = np.arange(max(0, count - maximum), count + maximum + 1)
        change = (target[(target == 0) | (target > smallest)] - count).astype(np.float64)
        rows.append(_generated_row(count, change, variance, stay, monotone))
    return PerturbationTable({"all": tuple(rows)})


@lru_cache(maxsize=64)
def magnitude_table(maximum: int, variance: float, steps: int = 2, monotone: bool = False) -> PerturbationTable:
    """Return a perturbation table for magnitudes: rows for 0, 1 and `maximum`, changes in steps of 1 / `steps`.

    Giessing and Tent (2019), Concepts for generalising tools implementing the cell key method to the case of continuous
    variables; R package ptable.
    """
    rows = [PerturbationRow.of(0, np.zeros(1), np.ones(1))]
    for value in sorted({1, maximum}):
        change = np.arange(-value * steps, maximum * steps + 1) / steps
        rows.append(_generated_row(value, change, variance, 0.0, monotone))
    return PerturbationTable({"all": tuple(rows)})


def _generated_row(value: int, change: Numbers, variance: float, stay: float, monotone: bool) -> PerturbationRow:
    """Return one row, or raise an error that says what would work."""
    probability = most_entropy(change, variance, stay, monotone)
    if probability is not None:
        return PerturbationRow.of(value, change, probability)
    span = variances(change, 0.0, monotone)
    if span is None:
        raise ParameterError(
            f"there is no noise without bias for the value {value}: raise the largest change, or publish smaller counts."
        )
    if not span[0] - 1e-9 <= variance <= span[1] + 1e-9:
        raise ParameterError(
            f"the noise of the value {value} can have a variance between {span[0]:.4g} and {span[1]:.4g}; got {variance:g}. "
            "Choose one in between, or another largest change."
        )
    room = largest_stay(change, variance, monotone)
    raise ParameterError(
        f"with this variance the value {value} can stay as it is with a probability of at most {room:.4g}; got {stay:g}."
    )


@dataclass(frozen=True)
class FlexScale:
    """How large the noise of a contribution is, as a share of it: the flex function of Giessing and Tent (2019).

    Up to the contribution `point` the share is `small`; beyond it the share decreases to `large`, m(x) = large + (small ·
    x/point − large) · (2 / (1 + x/point)) ** power. The share of the j-th largest contribution is multiplied by `parts[j]`.
    """

    small: float
    large: float
    point: float
    power: float
    parts: tuple[float, ...]

    def share(self, x: Numbers) -> Numbers:
        """Return the share for contributions x ≥ 0."""
        ratio = np.maximum(x / self.point, 1.0) if np.isfinite(self.point) else np.ones_like(x)
        return np.asarray(self.large + (self.small * ratio - self.large) * (2 / (1 + ratio)) ** self.power)

    @property
    def highest(self) -> float:
        """The largest share: at `point`, or a little beyond it where the power is low."""
        if not np.isfinite(self.point) or self.small == self.large == 0:
            return self.small
        if self.power <= 1:
            return self.large + 2 * self.small
        ratio = max(1.0, (self.small + self.power * self.large) / (self.small * (self.power - 1)))
        return float(self.share(np.array([ratio * self.point]))[0])


def magnitude_noise(
    totals: Numbers,
    largest: Numbers,
    keys: Keys,
    scale: FlexScale,
    table: PerturbationTable,
    small: PerturbationTable | None,
    kinds: NDArray[np.str_] | None,
    extra: Numbers,
) -> Numbers:
    """Return the change of every cell, shape (cells,).

    For j = 1, 2, … in turn, with y the current total: δ = parts[j] · m(x) · |x| for the j-th largest contribution x, and at
    most |y|; the change v comes from the table by the ratio |y| / δ, which keeps y from changing its sign, and the key; y
    changes by δ · v. For the largest, cells that need more protection have `extra` added to |v|.

    Small cells: with a table for them, contributions below the separation point, where the noise would be smaller than that
    of the small table, get noise with δ = 1 from it, once.
    Giessing and Tent (2019); the R package cellKey (ck_params_nums, ck_flexparams).
    """
    now, point = totals.copy(), separation_point(scale, small)
    for j, part in enumerate(scale.parts):
        x, size, key = np.abs(largest[:, j]), np.abs(now), as_fractions(keys, j)
        step = part * scale.share(x) * x
        tiny = x < point
        beyond = ~tiny & (size < step)
        step = np.where(beyond, size, step)
        tiny |= beyond & (size < point * scale.small * part)
        step = np.where(tiny, 1.0 if j == 0 else 0.0, step)
        active = (step > 0) & (size > 0)
        ratio = np.divide(size, step, out=np.zeros_like(size), where=active)
        change = np.zeros_like(now)
        for kind in ("all", "even", "odd"):
            here = active & ~tiny & (kinds == kind if kinds is not None else kind == "all")
            if here.any():
                change[here] = table.between(ratio[here], key[here], kind)
        if small is not None and (here := active & tiny).any():
            change[here] = small.between(ratio[here], key[here])
        if j == 0:
            change = np.where(change >= 0, change + extra, change - extra)
        moved = np.where(active, step * change, 0.0)
        now = now + np.sign(now) * np.maximum(moved, -size)
    return np.asarray(now - totals)


def separation_point(scale: FlexScale, small: PerturbationTable | None) -> float:
    """Return the separation point: the contribution at which both kinds of noise have the same variance."""
    if small is None:
        return 0.0
    variance = small.rows["all"][-1].variance
    return float(np.sqrt(variance / sum(part**2 for part in scale.parts)) / scale.small)


class CellKey(Protection):
    """Add noise that depends on the records of a cell: the same records have the same noise in every table.

    Counts change by at most `maximum`, with mean 0 and the given `variance`; zeros stay, and nothing goes below zero. The
    noise of magnitudes is `share` of the largest contributions, times a change of that kind. Cells are changed one by one, so
    a published table does **not** add up.

    Thompson, Broadfoot and Elazar (2013), Methodology for the automatic confidentialisation of statistical outputs; Giessing
    and Tent (2019) for magnitudes.
    """

    keyed_by_record = True

    maximum: int = param(default=5, doc="largest change of a count, either way", low=1, high=100, integer=True)
    variance: float = param(default=2.0, doc="variance of the change", low=0, above=True, usual=(0.5, 4))
    smallest: int = param(default=0, doc="no count from 1 to this one is published", low=0, high=20, integer=True)
    stay: float = param(default=0.0, doc="least probability that a count stays as it is", low=0, high=1)
    monotone: bool = param(default=False, doc="whether larger changes of a count are never likelier than smaller ones")
    table: PerturbationTable | str | None = param(
        default=None, doc="a perturbation table, or the file of one, in place of a generated one"
    )
    small: PerturbationTable | str | None = param(
        default=None, doc="for magnitudes: a table, or its file, for small cells"
    )
    top: int = param(
        default=1, doc="for magnitudes: how many of the largest contributions get noise", low=1, high=6, integer=True
    )
    share: float = param(
        default=0.05,
        doc="for magnitudes: noise as a share of a contribution",
        low=0,
        above=True,
        high=1,
        usual=(0.02, 0.2),
    )
    large_share: float | None = param(
        default=None, doc="the share for very large contributions; as `share` if not given", low=0, high=1
    )
    flex_point: float | None = param(
        default=None, doc="the contribution from which the share goes down", low=0, above=True
    )
    flex_power: float = param(default=3.0, doc="how fast it goes down", low=1)
    parts: tuple[float, ...] | None = param(default=None, doc="factors for the largest, second largest … contribution")
    extra: float = param(default=0.0, doc="what is added to the change where `rules` call a cell unsafe", low=0)
    rules: SensitivityRule | None = param(default=None, doc="a rule, or several, for cells that need `extra`")

    @override
    def validate(self) -> None:
        for name in ("table", "small"):
            given = getattr(self, name)
            object.__setattr__(self, name, str(given) if isinstance(given, Path) else given)
        table, _ = self._table, self._small
        if table is None:
            count_table(self.maximum, self.variance, self.smallest, self.stay, self.monotone)
        if (self.flex_point is None) != (self.large_share is None):
            raise ParameterError(
                "cell_key needs flex_point and large_share together: from where the share goes down, and to what."
            )
        if self.large_share is not None and self.large_share > self.share:
            raise ParameterError("large_share of cell_key must be at most share.")
        parts = self._parts
        if len(parts) != self.top or parts[0] != 1 or any(b > a or b < 0 for a, b in itertools.pairwise(parts)):
            raise ParameterError(f"parts of cell_key must be {self.top} factors that start with 1 and never rise.")
        if table is not None and "even" in table.rows and self.top > 1:
            raise ParameterError("tables for even and odd numbers of contributors go with top = 1.")
        if (self.extra > 0) != (self.rules is not None):
            raise ParameterError("cell_key needs extra and rules together: how much more, and for which cells.")
        if self.rules is not None:
            object.__setattr__(self, "rules", rules_of(self.rules))

    @property
    def _parts(self) -> tuple[float, ...]:
        return (1.0,) * self.top if self.parts is None else tuple(float(p) for p in self.parts)

    @property
    def _table(self) -> PerturbationTable | None:
        given = _given("table", self.table)
        return None if given is None else given.without_small()

    @property
    def _small(self) -> PerturbationTable | None:
        given = _given("table", self.table)
        return given.for_small() if self.small is None and given is not None else _given("small", self.small, "all")

    @override
    def label(self) -> str:
        return "cell keys" if self.table is not None else f"cell keys, D = {self.maximum}, V = {self.variance:g}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with noise in every cell."""
        return self._counts(table, draws) if table.is_count else self._magnitudes(table, draws)

    def _counts(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self._table or count_table(self.maximum, self.variance, self.smallest, self.stay, self.monotone)
        if not noise.whole:
            raise ParameterError("this perturbation table is for magnitudes: it has no row for each count.")
        counts = np.round(table.frequency)
        changed = counts + noise.at(counts, as_fractions(cell_keys(table, draws)))
        low, high = noise.could_be(changed)
        values = changed
        if not np.array_equal(
            table.value, table.frequency
        ):  # survey weights: the mean weight of the cell stays as it is
            weight = np.divide(table.value, counts, out=np.ones_like(counts), where=counts > 0)
            # with all its digits the product would reveal the count, the denominator of the mean weight
            digits = table.decimals or 0
            values, half = np.round(changed * weight, digits), 0.5 * unit(digits)
            low, high = np.zeros(len(table)), np.where(changed == 0, np.inf, (1 + noise.maximum) * (values + half))
        says = f"no count changes by more than {noise.maximum:g}, zeros stay, none is below 0"
        return self._published(table, values, low, high, says)

    def _magnitudes(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self._table or magnitude_table(self.maximum, self.variance, monotone=self.monotone)
        scale = FlexScale(
            self.share, self.share if self.large_share is None else self.large_share,
            np.inf if self.flex_point is None else self.flex_point, self.flex_power, self._parts,
        )  # fmt: skip
        largest = contributors_by_cell(table, self.top, "known", "absolute").values
        kinds = None
        if "even" in noise.rows:
            kinds = np.where(contributors_of(table) % 2 == 0, "even", "odd")
        unsafe = np.zeros(len(table), bool) if self.rules is None else self.rules.assess(table).unsafe
        extra = np.where(unsafe, self.extra, 0.0)
        added = magnitude_noise(
            table.value, largest, cell_keys(table, draws), scale, noise, self._small, kinds, extra
        )  # fmt: skip
        # digits that the true values do not have would reveal the noise, and so the contribution it is a share of
        digits = 0 if table.integer else published_decimals(table)
        values = np.round(table.value + added, digits)
        low, high = self._sure(values, 0.5 * unit(digits), scale, noise, table.nonnegative)
        says = "zeros stay, and no cell changes its sign"
        if table.nonnegative and self._small is None:
            says += f" or by more than {(noise.maximum + self.extra) * scale.highest:.1%} of itself"
        return self._published(table, values, low, high, says)

    def _sure(
        self, values: Numbers, half: float, scale: FlexScale, noise: PerturbationTable, nonnegative: bool
    ) -> tuple[Numbers, Numbers]:
        """Return certain bounds of the true values: the j-th largest contribution is a part of the total."""
        if not nonnegative:
            return np.full(len(values), -np.inf), np.full(len(values), np.inf)
        reach = (noise.maximum + self.extra) * scale.highest
        low = (values - half) / (1 + reach)
        high = (values + half) / (1 - reach) if reach < 1 else np.full(len(values), np.inf)
        if (small := self._small) is not None:
            step = small.maximum + self.extra  # at most this once, and the others' shares
            low, high = low - step, (values + half + step) / (1 - reach) if reach < 1 else high
        return np.maximum(low, 0.0), high

    def _published(self, table: Table, values: Numbers, low: Numbers, high: Numbers, says: str) -> PublishedTable:
        # every cell counts as changed: which stayed the same is a secret of the keys
        said = Guarantee("cell_key", says, "follows from the perturbation table, whose rows were checked")
        return PublishedTable.unprotected(table, self).with_(
            values=values, status=np.full(len(table), Status.CHANGED, np.int8), low=low, high=high, guarantees=(said,)
        )


def _given(name: str, given: object, kind: str | None = None) -> PerturbationTable | None:
    """Return a perturbation table that was given as an object or as a file."""
    if given is None or isinstance(given, PerturbationTable):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"{name} of cell_key must be a perturbation table or the file of one.")
    return PerturbationTable.read(given, kind)
