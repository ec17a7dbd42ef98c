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
    """One column: first the question whether it is missing, then its value or its category.

    Each question has a normal number of its own. A number or an ordered category is one question. An unordered category is a
    chain of questions, the most frequent category first: is it this one; if not, is it the next; and so on. Rare categories are
    the end of the chain, and drawn from in proportion.
    """

    name: str
    missing: float
    """Share of missing values."""
    knots: tuple[Numbers, Numbers] | None = None
    """A number's distribution function and values, between which is interpolated."""
    values: tuple[object, ...] = ()
    """Categories: ordered ones in order, unordered ones by frequency."""
    thresholds: Numbers | None = None
    """Of ordered categories: normal numbers between which each one lies; of a chain: above which the answer is yes."""
    chain: bool = False
    rest: Numbers | None = None
    """Shares among the rare categories, which are the last ones of `values`."""
    weights: tuple[Numbers, ...] = ()
    """Hermite weights of each question."""

    @property
    def width(self) -> int:
        """The number of questions."""
        return len(self.weights)

    @property
    def _asks_missing(self) -> bool:
        return 0 < self.missing < 1

    # -- from the data to answers

    def read(self, batch: Batch) -> NDArray[Any]:
        """Return normal scores of a number (NaN missing), or the place of each category in `values` (-1 missing)."""
        if not self.values:
            return normal_scores(midranks(batch.numbers(self.name)))
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.values)}
        table = np.array([place.get(v, -1) for v in values] + [-1], np.int64)
        return np.where(batch.missing(self.name), -1, table[codes])

    def answers(self, read: NDArray[Any]) -> Numbers:
        """Return the answer to each question, shape (n, width), NaN where it is not asked."""
        gap = np.isnan(read) if not self.values else read < 0
        out = [gap.astype(np.float64)] if self._asks_missing else []
        asked = self.width - len(out)
        for k in range(asked):
            answer = read.astype(np.float64) if not self.chain else (read == k).astype(np.float64)
            out.append(np.where(gap | (read < k if self.chain else False), np.nan, answer))
        return np.column_stack(out) if out else np.zeros((len(read), 0))

    # -- from normal numbers to values

    def made(self, z: Numbers, u: Numbers) -> NDArray[Any]:
        """Return numbers (NaN missing) or places in `values` (-1 missing) from the questions' normal numbers (n, width).

        `u` are uniform numbers, to draw among the rare categories with.
        """
        n = len(z)
        skipped = int(self._asks_missing)
        gap = _ndtr(z[:, 0]) >= 1 - self.missing if skipped else np.full(n, self.missing == 1)
        if self.knots is not None:
            numbers = (
                np.interp(_ndtr(z[:, skipped]), *self.knots) if self.width > skipped else np.full(n, self.knots[1][0])
            )
            return np.where(gap, np.nan, numbers)
        if self.thresholds is None:
            return np.full(n, -1)
        if not self.chain:
            place = np.searchsorted(self.thresholds, z[:, skipped]) if self.width > skipped else np.zeros(n, np.int64)
            return np.where(gap, -1, place)
        yes = np.column_stack([z[:, skipped:] > self.thresholds, np.ones(n, bool)])
        place = yes.argmax(axis=1)
        if self.rest is not None:
            drawn = np.searchsorted(np.cumsum(self.rest)[:-1], u, side="right")
            place = np.where(place == len(self.thresholds), len(self.thresholds) + drawn, place)
        return np.where(gap, -1, place)


def _ndtr(z: Numbers) -> Numbers:
    from scipy.special import ndtr

    return np.asarray(ndtr(z))


def _ndtri(p: Numbers) -> Numbers:
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def learn_column(data: Microdata, batch: Batch, name: str, smooth: int) -> LatentColumn:
    """Learn one column's distribution; no number that is learned is the value of fewer than `smooth` records."""
    numeric = is_number(data, name)
    gap = np.isnan(batch.numbers(name)) if numeric else batch.missing(name)
    missing = float(gap.mean())
    asked = [_yes_no(missing)] if 0 < missing < 1 else []
    if gap.all():
        return LatentColumn(name, 1.0)
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
            scores = [_stepped(held)] if len(held) > 1 else []
            return LatentColumn(name, missing, knots=_knots(known, smooth), weights=(*asked, *scores))
    codes, values = batch.column(name).codes
    counts = np.bincount(codes[~gap], minlength=len(values))
    order = np.flatnonzero(counts).tolist()
    if numeric:  # few values, or ordered categories: in the order of their numbers
        given = batch.schema[name].values
        order.sort(key=lambda i: given.get(str(values[i]), 0.0) if batch.column(name).kind is Kind.CATEGORY else i)
        thresholds = _ndtri(np.cumsum(counts[order])[:-1] / counts.sum())
        scores = [hermite_weights(thresholds, np.arange(len(order), dtype=np.float64))] if len(order) > 1 else []
        kept = tuple(values[i] for i in order)
        return LatentColumn(name, missing, values=kept, thresholds=thresholds, weights=(*asked, *scores))
    return _chain(name, missing, asked, [values[i] for i in order], counts[order].astype(np.float64))


def _chain(name: str, missing: float, asked: list[Numbers], values: list[Any], counts: Numbers) -> LatentColumn:
    """Return the chain of questions of an unordered category."""
    order = np.argsort(-counts, kind="stable")
    own = int((counts[order][:LEVELS] >= RARE).sum())
    rare = counts[order][own:]
    questions = own if len(rare) else own - 1  # without rare ones, the last category needs no question
    left = counts.sum() - np.concatenate([[0.0], np.cumsum(counts[order])])[:questions]
    share = counts[order][:questions] / left
    return LatentColumn(
        name,
        missing,
        values=tuple(values[i] for i in order),
        thresholds=_ndtri(1 - share),
        chain=True,
        rest=rare / rare.sum() if len(rare) else None,
        weights=(*asked, *(_yes_no(float(s)) for s in share)),
    )


def _yes_no(share: float) -> Numbers:
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
