"""Given columns as regressors: numbers as they are, categories as indicators, and whether a value is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Guarantee, Mask, param
from sfumato.engines import Kind
from sfumato.errors import DataError, ParameterError, listing
from sfumato.microdata import Batch, Microdata, check_numeric
from sfumato.schema import Level, Scale, Schema

Numbers = NDArray[np.float64]
PIECE = 1 << 16
"""Rows of regressors that stand in memory at once."""
LEVELS = 25
"""Categories of a column with an indicator of their own: the most frequent ones."""
RARE = 10
"""A category of fewer records gets no indicator: its records would be matched one by one."""


@dataclass(frozen=True)
class Given:
    """A given column as regressors: a number and whether it is missing, or indicators of categories."""

    name: str
    levels: tuple[object, ...] | None
    """Categories with an indicator of their own; None for numbers."""
    gaps: bool
    """Whether some values are missing: that is one more regressor."""
    mean: float = 0.0
    """What stands for a missing number."""
    pooled: int = 0
    """How many rare categories count as one."""

    @property
    def width(self) -> int:
        """The number of regressors."""
        return (1 if self.levels is None else len(self.levels)) + self.gaps

    def read(self, batch: Batch) -> NDArray[Any]:
        """Return the numbers (NaN missing), or the place of each category among the indicators (-1: the reference)."""
        if self.levels is None:
            return batch.numbers(self.name)
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.levels)}
        table = np.array([place.get(v, -1) for v in values] + [-1], np.int64)
        return np.where(batch.missing(self.name), len(self.levels) if self.gaps else -1, table[codes])

    def matrix(self, read: NDArray[Any]) -> Numbers:
        """Return the regressors of what was read, shape (n, width)."""
        if self.levels is not None:
            return np.asarray(read[:, None] == np.arange(self.width), np.float64)
        gap = np.isnan(read)
        columns = [np.where(gap, self.mean, read)] + [gap.astype(np.float64)] * self.gaps
        return np.column_stack(columns)

    def times(self, read: NDArray[Any], weights: Numbers) -> Numbers:
        """Return the regressors times weights (width, p), shape (n, p), without writing out indicators."""
        if self.levels is not None:
            return np.asarray(np.vstack([weights, np.zeros((1, weights.shape[1]))])[read])
        return self.matrix(read) @ weights


def learn_given(data: Microdata, names: Sequence[str]) -> tuple[Given, ...]:
    """Learn in one pass how to write columns as regressors."""
    if not names:
        return ()
    counts: dict[str, Counter[object]] = {name: Counter() for name in names}
    sums = {name: np.zeros(2) for name in names}
    gaps = dict.fromkeys(names, False)
    numeric = {name: is_number(data, name) for name in names}
    for rows in data.engine.batches(list(names)):
        batch = Batch(rows, data.schema)
        for name in names:
            missing = np.isnan(batch.numbers(name)) if numeric[name] else batch.missing(name)
            gaps[name] |= bool(missing.any())
            if numeric[name]:
                with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge: refused below
                    sums[name] += [batch.numbers(name)[~missing].sum(), (~missing).sum()]
                continue
            codes, values = batch.column(name).codes
            found = np.bincount(codes[~missing], minlength=len(values))
            counts[name].update({values[i]: int(found[i]) for i in np.flatnonzero(found)})
    made = []
    for name in names:
        total, known = sums[name]
        if not np.isfinite(total):
            raise DataError(
                f"given column '{name}' holds infinite or huge values. Set them to missing, or leave it out."
            )
        levels, pooled = (None, 0) if numeric[name] else _levels(counts[name])
        made.append(Given(name, levels, gaps[name], total / max(known, 1), pooled))
    return tuple(made)


def is_number(data: Microdata, name: str) -> bool:
    """Whether a column counts as a number: what the schema calls unordered is a category, whatever holds it."""
    kind, attribute = data.kind(name), data.schema[name]
    if kind in (Kind.DATE, Kind.OTHER):
        raise DataError(f"column '{name}' holds {kind}, where numbers or categories are needed. Leave it out.")
    if attribute.scale is not Scale.ORDERED or (kind is Kind.CATEGORY and not attribute.values):
        return False
    check_numeric(data, name)
    return True


def _levels(counts: Counter[object]) -> tuple[tuple[object, ...], int]:
    """Return the categories that get an indicator, and how many are pooled; without a pool the commonest is the reference."""
    ranked = sorted(counts, key=lambda v: (-counts[v], str(v)))
    kept = [v for v in ranked[:LEVELS] if counts[v] >= RARE]
    pooled = len(ranked) - len(kept)
    return tuple(kept if pooled else kept[1:]), pooled


def pooled_guarantee(given: Sequence[Given], step: str) -> tuple[Guarantee, ...]:
    """Say which given columns have categories that are too rare for a relation of their own."""
    return tuple(
        Guarantee(
            step,
            f"{g.name}: {g.pooled:,} of its categories count as one, so relations with each of them are not kept",
            f"counted: fewer than {RARE} records each, or beyond the {LEVELS} most frequent",
        )
        for g in given
        if g.pooled
    )


def describes_household(schema: Schema, name: str) -> bool:
    """Whether a column has one value per household."""
    return schema[name].level is Level.HOUSEHOLD and schema.one("household") is not None


class MaskGiven(Mask, abstract=True):
    """A mask of numbers that takes other columns as given: they are released as they are, and relations with them are kept."""

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to mask; all confidential numbers if none", columns="many"
    )
    given: tuple[str, ...] | None = param(
        default=None,
        doc="columns that are released as they are, and whose relations with the masked ones are kept; all keys if none",
        columns="many",
        holds="anything",
    )

    def validate(self) -> None:
        """Refuse a column that is both masked and given."""
        super().validate()
        self._check_apart(self.columns or ())

    def _check_apart(self, masked: Sequence[str]) -> None:
        if both := [c for c in masked if c in (self.given or ())]:
            raise ParameterError(
                f"{self.name} cannot mask {listing(both)} and take it as given, too. Name it in one of the two."
            )

    def given_names(self, masked: Sequence[str], schema: Schema) -> tuple[str, ...]:
        """Return the given columns: those named, or every key that is not masked."""
        if self.given is not None:
            self._check_apart(masked)
            return self.given
        return tuple(n for n in schema.names(role="key") if n not in (masked or self.columns or ()))

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the masked columns and the given ones."""
        return tuple(dict.fromkeys([*super().touches(schema), *self.given_names((), schema)]))
