"""Columns of any kind as functions of normal numbers: what the copula of mixed columns joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Kind
from sfumato.errors import DataError
from sfumato.kernels.copula import hermite_weights, midranks, normal_scores
from sfumato.masks.given_columns import LEVELS, RARE, is_number
from sfumato.microdata import Batch, Microdata

Numbers = NDArray[np.float64]
STEPS = 2000
"""Steps of a distribution function in which correlations are worked out."""


@dataclass(frozen=True, eq=False)
class LatentColumn:
    """One column: yes-no questions first, each with a normal number of its own, then perhaps a number with one.

    The first question is whether the value is missing. An unordered category is a chain of questions, the most frequent category
    first: is it this one; if not, is it the next; and so on; rare categories are the end of the chain, and drawn from in
    proportion. A number, or an ordered category, is a point of its distribution.
    """

    name: str
    missing: float
    """Share of missing values."""
    shares: tuple[float, ...] = ()
    """Of each yes-no question: the share of those asked who answer yes."""
    values: tuple[object, ...] = ()
    """Categories: ordered ones in order, unordered ones by frequency."""
    rest: Numbers | None = None
    """Shares among the rare categories, which are the last ones of `values`."""
    knots: tuple[Numbers, Numbers] | None = None
    """Of a number: distribution function and values, between which is interpolated."""
    cuts: Numbers | None = None
    """Of ordered categories: the distribution function at each but the last."""
    weights: Numbers | None = None
    """Hermite weights of a number's normal score, or an ordered category's place; None for chains and constants."""

    @property
    def asks(self) -> int:
        """The number of yes-no questions."""
        return len(self.shares)

    @property
    def _chain_from(self) -> int:
        return int(0 < self.missing < 1)

    # -- from the data to answers

    def read(self, batch: Batch) -> NDArray[Any]:
        """Return normal scores of a number (NaN missing), or the place of each category in `values` (-1 missing)."""
        if not self.values:
            return normal_scores(midranks(batch.numbers(self.name)))
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.values)}
        table = np.array([place.get(v, -1) for v in values] + [-1], np.int32)
        return np.where(batch.missing(self.name), np.int32(-1), table[codes])

    def _gap(self, read: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(read < 0 if self.values else np.isnan(read))

    def indicators(self, read: NDArray[Any]) -> Numbers:
        """Return whether a value is missing and which category it is, one column for each question, shape (n, asks)."""
        first = [self._gap(read)] if self._chain_from else []
        return (
            np.array([*first, *(read == k for k in range(self.asks - len(first)))], np.float64).reshape(-1, len(read)).T
        )

    def answers(self, read: NDArray[Any]) -> Numbers:
        """Return the answer to each question, shape (n, asks), NaN where it is not asked."""
        out = self.indicators(read)
        for k in range(self.asks - self._chain_from):
            out[self._gap(read) | (read < k), self._chain_from + k] = np.nan
        return out

    def score(self, read: NDArray[Any]) -> Numbers:
        """Return the number's normal score or the ordered category's place, shape (n,), NaN where missing."""
        return np.where(self._gap(read), np.nan, read)

    # -- from normal numbers to values

    def answered(self, z: Numbers, u: Numbers) -> NDArray[Any]:
        """Return what `read` would, as far as the questions go, from their normal numbers (n, asks): a number's score is 0.

        `u` are uniform numbers, to draw among the rare categories with.
        """
        yes = z > -_ndtri(np.array(self.shares))
        gap = yes[:, 0] if self._chain_from else np.full(len(z), self.missing == 1)
        if not self.values or self.cuts is not None:
            return np.where(gap, -1, 0).astype(np.int32) if self.values else np.where(gap, np.nan, 0.0)
        place = np.column_stack([yes[:, self._chain_from :], np.ones(len(z), bool)]).argmax(axis=1)
        if self.rest is not None:
            own = self.asks - self._chain_from
            drawn = np.searchsorted(np.cumsum(self.rest)[:-1], u, side="right")
            place = np.where(place == own, own + drawn, place)
        return np.where(gap, -1, place).astype(np.int32)

    def made(self, read: NDArray[Any], u: Numbers) -> NDArray[Any]:
        """Return numbers (NaN missing) or places in `values` (-1 missing) from the answers and points of the distribution."""
        if self.cuts is not None:
            return np.where(read < 0, -1, np.searchsorted(self.cuts, u)).astype(np.int32)
        return read if self.knots is None else np.where(np.isnan(read), np.nan, np.interp(u, *self.knots))


def _ndtri(p: Numbers) -> Numbers:
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def learn_column(data: Microdata, batch: Batch, name: str, smooth: int) -> LatentColumn:
    """Learn one column's distribution; no number that is learned is the value of fewer than `smooth` records."""
    numeric = is_number(data, name)
    gap = np.isnan(batch.numbers(name)) if numeric else batch.missing(name)
    missing = float(gap.mean())
    asked = (missing,) if 0 < missing < 1 else ()
    if gap.all():
        return LatentColumn(name, 1.0, values=(None,))
    if numeric:
        known = np.sort(batch.numbers(name)[~gap])
        if not np.isfinite(known).all():
            raise DataError(f"column '{name}' holds infinite values. Set them to missing, or leave it out of columns=.")
        if len(known) < smooth:
            raise DataError(
                f"column '{name}' has values in fewer than {smooth} records, too few to learn from. Leave it out of columns=."
            )
        held = _counted(known)
        ordered = batch.column(name).kind is not Kind.NUMBER or (len(held) <= LEVELS and held.min() >= smooth)
        if not ordered:
            weights = _stepped(held) if len(held) > 1 else None
            return LatentColumn(name, missing, asked, knots=_knots(known, smooth), weights=weights)
    codes, values = batch.column(name).codes
    counts = np.bincount(codes[~gap], minlength=len(values))
    order = np.flatnonzero(counts).tolist()
    if numeric:  # few values, or ordered categories: in the order of their numbers
        given = batch.schema[name].values
        order.sort(key=lambda i: given.get(str(values[i]), 0.0) if batch.column(name).kind is Kind.CATEGORY else i)
        cuts = np.cumsum(counts[order])[:-1] / counts.sum()
        weights = hermite_weights(_ndtri(cuts), np.arange(len(order), dtype=np.float64)) if len(order) > 1 else None
        return LatentColumn(name, missing, asked, tuple(values[i] for i in order), cuts=cuts, weights=weights)
    ranked = sorted(order, key=lambda i: (-counts[i], i))
    own = int((counts[ranked[:LEVELS]] >= RARE).sum())
    rare = counts[ranked[own:]]
    questions = own if len(rare) else own - 1  # without rare ones, the last category needs no question
    left = counts.sum() - np.cumsum(counts[ranked]) + counts[ranked]
    shares = (*asked, *(counts[ranked] / left)[:questions].tolist())
    rest = rare / rare.sum() if len(rare) else None
    return LatentColumn(name, missing, shares, tuple(values[i] for i in ranked), rest)


def yes_no(share: float) -> Numbers:
    """Return the Hermite weights of a question that this share answers with yes."""
    return hermite_weights(_ndtri(np.array([1 - share])), np.array([0.0, 1.0]))


def _counted(ordered: Numbers) -> Numbers:
    """Return how many records have each distinct value, in order."""
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return np.asarray(np.diff(np.r_[starts, len(ordered)]), np.float64)


def _stepped(counts: Numbers) -> Numbers:
    """Return the Hermite weights of the normal score of a number, given how many records share each value."""
    upto = np.cumsum(counts)
    if len(upto) > STEPS:  # finer steps would not show in the correlations
        upto = upto[np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, STEPS + 1) / STEPS))]
        counts = np.diff(upto, prepend=0.0)
    scores = _ndtri((upto - counts / 2) / upto[-1])
    return hermite_weights(_ndtri(upto[:-1] / upto[-1]), scores)


def _knots(ordered: Numbers, smooth: int) -> tuple[Numbers, Numbers]:
    """Return points of the quantile function, each the mean of `smooth` neighbouring values (the last of more)."""
    groups = max(len(ordered) // smooth, 1)
    group = np.minimum(np.arange(len(ordered)) // smooth, groups - 1)
    sizes = np.bincount(group)
    # about the smallest value of each group: the mean of equal numbers is then that number
    low = ordered[np.concatenate([[0], np.cumsum(sizes)[:-1]])]
    means = low + np.bincount(group, ordered - low[group]) / sizes
    middle = (np.cumsum(sizes) - sizes / 2) / len(ordered)
    return middle, means
