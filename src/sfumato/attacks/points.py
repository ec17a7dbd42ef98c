"""Files as points: what it means that two records of different files are close, for numbers and categories together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, unknown_name
from sfumato.microdata import Microdata
from sfumato.schema import Role, Scale

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]
_SPREAD = 2.0
"""How far apart the codes of a category lie in the tree; distances do not depend on it."""

_FURTHEST = 1e100
"""Standard deviations beyond which a number is not compared: the square of a distance must stay finite."""


class Closest(NamedTuple):
    """The k closest records of another file, nearest first: rows and distances, shape (n, k), or fewer if there are no k."""

    rows: Rows
    distances: Numbers
    ties: Rows
    """How many records are as close as the closest, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Points:
    """The records of one file in a space that it shares with others; shape (n, p), numbers first."""

    x: Numbers
    numbers: int
    """How many of the columns are numbers; the rest are categories."""

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Rows) -> Points:
        """Return some of the records."""
        return Points(self.x[rows], self.numbers)

    def near(self, others: Points, k: int = 1) -> Closest:
        """Find the k closest of the others for each record; of others that are equally close the first is taken."""
        from sfumato.kernels.neighbours import k_nearest

        unique, inverse = np.unique(self.x, axis=0, return_inverse=True)
        rows, squared, ties = k_nearest(others.x, unique, min(k, len(others)), self.numbers)
        inverse = inverse.reshape(-1)
        return Closest(rows[inverse], np.sqrt(squared)[inverse], ties[inverse])

    def distances(self, others: Points, k: int = 1) -> Numbers:
        """Return the distances of each record from the k closest of the others, shape (n, k) or fewer if there are no k."""
        return self.near(others, k).distances

    def votes(self, others: Points, value: Numbers, low: Numbers, high: Numbers) -> Numbers:
        """Return the share of the closest others, all that are equally close, whose value is between low and high; (n,)."""
        from sfumato.kernels.neighbours import nearest_votes

        _, ties, hits = nearest_votes(others.x, self.x, value, low, high, self.numbers)
        return np.asarray(hits / ties)


def comparable(outcome: Release, names: Sequence[str] = (), *files: Microdata) -> tuple[str, ...]:
    """Return the columns by which released records can be compared with other files; refuse if there are none.

    Without `names` these are all that the files share and that say something of a person: neither identifiers nor weights,
    household numbers and the like, and the same kind of values in each file.
    """
    schema, others = outcome.original.schema, (outcome.original, *files)
    released = outcome.masked.engine.kinds
    if not names:
        found = [
            a.name
            for a in schema
            if not a.is_design
            and a.role is not Role.IDENTIFIER
            and a.name in released
            and _alike(outcome, a.name, others)
        ]
        if not found:
            raise NotApplicable(
                "the released file has no column that can be compared with the original: none is left, or each holds another "
                "kind of values than before."
            )
        return tuple(found)
    for name in names:
        if name not in released:
            where = "the released file" if name not in schema else "the released file any more"
            raise NotApplicable(unknown_name("column", name, released, where))
        if name not in outcome.original.engine.kinds:
            raise NotApplicable(f"column '{name}' is not in the original, so that records cannot be compared by it.")
        if not _alike(outcome, name, others):
            raise NotApplicable(
                f"column '{name}' holds another kind of values in the release than in the original, or values of no plain kind, "
                "so that records cannot be compared by it. Leave it out."
            )
    return tuple(names)


def _alike(outcome: Release, name: str, others: Sequence[Microdata]) -> bool:
    kinds = {outcome.masked.engine.kinds[name], *(data.engine.kinds.get(name, Kind.OTHER) for data in others)}
    return kinds <= {Kind.NUMBER, Kind.BOOLEAN} or (len(kinds) == 1 and Kind.OTHER not in kinds)


def is_number(data: Microdata, name: str) -> bool:
    """Whether a column counts as a number: ordered, and holding numbers or categories that stand for them."""
    attribute, kind = data.schema[name], data.engine.kinds[name]
    if attribute.scale is not Scale.ORDERED or kind is Kind.BOOLEAN:
        return False
    return kind is Kind.NUMBER or (kind is Kind.CATEGORY and bool(attribute.values))


def as_points(
    names: Sequence[str], *files: Microdata, precision: Mapping[str, float] | None = None
) -> tuple[Points, ...]:
    """Return each file as points: numbers in standard deviations of the first file, categories 0 or 1 apart.

    A missing value is a value of its own: it differs by 1 from any other, and not from another missing one. A missing number
    stands at the mean besides, so that it is further from an extreme one. A number that is constant in the first file counts as a
    category, and so does a date. `precision` gives the width of the intervals to which numbers of the other
    files are known: the middle is taken.
    """
    _check_records(files)
    numbers: list[list[Numbers]] = [[] for _ in files]
    categories: list[list[Numbers]] = [[] for _ in files]
    for name in names:
        numeric = all(is_number(data, name) for data in files)
        scaled = _scaled(name, files, (precision or {}).get(name)) if numeric else None
        if scaled is None:
            _append(categories, coded(name, files))
            continue
        if any(np.isnan(part).any() for part in scaled):
            _append(categories, [np.isnan(part).astype(np.float64) for part in scaled])
        _append(numbers, [np.nan_to_num(part) for part in scaled])
    count = len(numbers[0])
    return tuple(
        Points(np.column_stack([*left, *right]), count) for left, right in zip(numbers, categories, strict=True)
    )


def _check_records(files: Sequence[Microdata]) -> None:
    if not all(len(data) for data in files):
        raise NotApplicable("one of the files that are to be compared has no records.")


def _append(columns: list[list[Numbers]], parts: Sequence[Numbers]) -> None:
    for column, part in zip(columns, parts, strict=True):
        column.append(part)


def _scaled(name: str, files: Sequence[Microdata], width: float | None) -> list[Numbers] | None:
    parts = [data.numbers(name) for data in files]
    if width is not None:
        parts[1:] = [(np.floor(part / width) + 0.5) * width for part in parts[1:]]
    known = parts[0][~np.isnan(parts[0])]
    if not len(known):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else 0.0
    constant = spread <= 1e-13 * abs(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = [(part - mean) / (1.0 if constant else spread) for part in parts]
    far = any(np.isinf(part).any() or (np.abs(part) > _FURTHEST).any() for part in scaled)
    if not np.isfinite([mean, spread]).all() or far:
        raise DataError(f"column '{name}' holds infinite or very large values, which cannot be compared. Leave it out.")
    return None if constant else scaled


def exact_tables(names: Sequence[str], *files: Microdata) -> tuple[Numbers, ...]:
    """Return each file as a table of numbers, and of codes of categories that are the same in all; missing is -inf; (n, p)."""
    _check_records(files)
    columns: list[list[Numbers]] = [[] for _ in files]
    for name in names:
        if all(is_number(data, name) for data in files):
            parts = [data.numbers(name) for data in files]
            if any(np.isinf(x).any() for x in parts):
                raise DataError(
                    f"column '{name}' holds infinite values, which cannot be compared. Set them to missing, or leave it out."
                )
            parts = [np.where(np.isnan(x), -np.inf, x) for x in parts]
        else:
            parts = [np.where(codes < 0, -np.inf, codes) for codes in coded(name, files)]
        for column, part in zip(columns, parts, strict=True):
            column.append(part)
    return tuple(np.column_stack(column) for column in columns)


def coded(name: str, files: Sequence[Microdata]) -> list[Numbers]:
    """Return a column's categories as numbers that are equal where the values are, in all files alike; missing is one too."""
    known: dict[object, int] = {}
    parts = []
    for data in files:
        batch = data.batch([name])
        codes, values = batch.column(name).codes
        table = np.array([known.setdefault(_plain(v), len(known)) for v in values] + [-1], np.float64)
        parts.append(np.where(batch.missing(name), -1.0, table[codes]))
    return [part * (_SPREAD / max(len(known), 1)) for part in parts]


def _plain(value: object) -> object:
    return float(value) if isinstance(value, bool | int) else value
