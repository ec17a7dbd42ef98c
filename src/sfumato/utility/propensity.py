"""Two files in one, as the columns of a propensity model: numbers, categories, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import common_codes
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Scale
from sfumato.utility.meanings import column_numbers

Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
LEVELS = 20
"""Most categories of a column that a logistic model tells apart; the rarer ones are one, or two (see `_category`)."""
TERMS = 300
"""Most columns of a logistic model."""


@dataclass(frozen=True, eq=False)
class Feature:
    """One column of N records, those of the original first."""

    name: str
    values: Numbers | None
    """Standardised numbers or dates, 0 where missing, shape (N,); None for categories, and for numbers that are all alike."""
    codes: Codes
    """Of categories, from the most frequent one on, with the missing as the last one; of numbers 1 where missing; shape (N,)."""
    levels: int
    """How many codes there are."""

    @property
    def width(self) -> int:
        """Columns of the design; the first code is in the intercept."""
        return (self.values is not None) + self.levels - 1

    def block(self, start: int, stop: int) -> Numbers:
        """Return rows of the design, shape (stop - start, width)."""
        code = self.codes[start:stop]
        dummies = (code[:, None] == np.arange(1, self.levels, dtype=np.int32)).astype(np.float64)
        return dummies if self.values is None else np.column_stack([self.values[start:stop], dummies])


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a logistic model: an intercept, main effects and, if asked for, all products of two."""

    features: Sequence[Feature]
    products: bool

    @property
    def width(self) -> int:
        """How many columns there are."""
        widths = [f.width for f in self.features]
        main = 1 + sum(widths)
        if not self.products:
            return main
        return main + sum(a * b for a, b in combinations(widths, 2)) + sum(f.values is not None for f in self.features)

    def rows(self, start: int, stop: int) -> Numbers:
        """Return some rows, shape (stop - start, width)."""
        blocks = [f.block(start, stop) for f in self.features]
        out = [np.ones((stop - start, 1)), *blocks]
        if self.products:
            out += [(a[:, :, None] * b[:, None, :]).reshape(stop - start, -1) for a, b in combinations(blocks, 2)]
            out += [f.values[start:stop, None] ** 2 for f in self.features if f.values is not None]
        return np.concatenate(out, axis=1)

    def check(self) -> None:
        """Refuse more columns than a model can be fitted with in reasonable time."""
        if self.width > TERMS:
            raise NotApplicable(
                f"the propensity model would have {self.width:,} terms, and has at most {TERMS}. Name fewer columns, or "
                "choose another model."
            )


def feature_of(original: Microdata, released: Microdata, name: str, weights: Numbers, most: int = LEVELS) -> Feature:
    """Read a column of both files, shape (N,) in all; `weights` (N,) are used to standardise numbers.

    A column that was not released is missing in every released record. One that holds numbers here and categories there is
    compared as categories, of which none is in both files.
    """
    before = original.batch([name])
    after = released.batch([name]) if name in released.engine.kinds else None
    if after is not None and released.kind(name) is Kind.OTHER and after.missing(name).all():
        after = None  # a column without any value has no kind
    kinds = {original.kind(name)} | ({released.kind(name)} if after is not None else set())
    if Kind.OTHER in kinds:
        raise NotApplicable(
            f"column '{name}' holds {Kind.OTHER}, which cannot be compared. Name the other columns (over=...)."
        )
    if kinds == {Kind.DATE} or (kinds == {Kind.NUMBER} and original.schema[name].scale is Scale.ORDERED):
        theirs = np.full(len(released), np.nan) if after is None else _numbers(after, name)
        return _number(name, np.concatenate([_numbers(before, name), theirs]), weights)
    given = (np.full(len(released), -1, np.int32), []) if after is None else _coded(after, name)
    return _category(name, *common_codes(_coded(before, name), given), most)


def _numbers(batch: Batch, name: str) -> Numbers:
    return np.where(batch.missing(name), np.nan, column_numbers(batch, name))


def _number(name: str, x: Numbers, weights: Numbers) -> Feature:
    gap = np.isnan(x)
    if np.isinf(x).any():
        raise DataError(f"column '{name}' holds infinite values, which cannot be compared. Set them to missing.")
    codes, levels = gap.astype(np.int32), 1 + int(gap.any())
    known = ~gap & (weights > 0)
    if not known.any():
        return Feature(name, None, codes, levels)
    z = x / (float(np.abs(x[known]).max()) or 1.0)  # the squares of huge numbers have no room
    w = weights[known]
    mean = float(np.average(z[known], weights=w))
    spread = float(np.sqrt(np.average((z[known] - mean) ** 2, weights=w)))
    if spread <= 1e-12:
        return Feature(name, None, codes, levels)
    return Feature(name, np.where(gap, 0.0, (z - mean) / spread), codes, levels)


def _category(name: str, before: Codes, after: Codes, most: int) -> Feature:
    """Number the categories by frequency, from the most frequent on; those after the first `most` are one.

    Values that only the release has are kept apart from it, since the original's analyst never saw them: a column that was
    recoded is told by its labels, however many there are.
    """
    size = max(int(before.max(initial=-1)), int(after.max(initial=-1))) + 1
    old, new = (np.bincount(codes[codes >= 0], minlength=size) for codes in (before, after))
    place = np.full(size + 1, most + 2)  # the last one is for missing values, whose code is -1
    place[np.argsort(-(old + new), kind="stable")] = np.arange(size)
    place[:-1] = np.where(place[:-1] < most, place[:-1], most + (old == 0))
    placed = place[np.concatenate([before, after])]
    used = np.bincount(placed, minlength=most + 3) > 0
    return Feature(name, None, (np.cumsum(used) - 1)[placed].astype(np.int32), int(used.sum()))


def _coded(batch: Batch, name: str) -> tuple[Codes, Sequence[object]]:
    codes, values = batch.column(name).codes
    return np.where(batch.missing(name), np.int32(-1), codes), values
