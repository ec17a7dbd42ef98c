"""Means, variances, covariances, correlations and eigenvalues, before and after."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import NoiseModel, Release, Snooper, learned, param
from sfumato.contract.score import Score, digits
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.kernels.moments import (
    PairwiseMoments,
    column_moments,
    complete,
    is_constant,
    moments_of_pairs,
    rank_shares,
    robust_location_scatter,
)
from sfumato.typing import Numbers
from sfumato.utility.comparison import NUMBER, ColumnUtility, compared_columns, over_columns, weighted_flag, weights_of

# A mean and a variance are over a column's own values; a covariance and a correlation are over the records that have both columns
# (pairwise), in each file by itself, so nothing has to be paired. All are in the units of the original's columns: mean 0 and
# standard deviation 1 (but ranks stay ranks). What was suppressed loses: see `with_gaps`.

_ROUNDING = 1e-9
"""Sums of weights in another order differ by less."""


@dataclass(frozen=True, eq=False)
class ColumnSpread:
    """Mean, variance (0 for a constant) and number of the known values of a column of the original."""

    mean: float
    variance: float
    count: int


def spread(data: Microdata, name: str, weights: Numbers | None = None) -> ColumnSpread:
    """Return the spread of a column; refuse infinite values, and those too large to square."""
    batch = data.batch([name])
    numbers = batch.numbers(name)

    def find() -> ColumnSpread:
        check_finite(name, numbers)
        mean, variance, count = column_moments(numbers, weights)
        if count < 2:
            return ColumnSpread(0.0, 0.0, count)
        if not np.isfinite(variance):
            raise DataError(f"column '{name}' holds values too large to square. Give them another unit.")
        return ColumnSpread(mean, 0.0 if is_constant(np.array(mean), np.array(variance)) else variance, count)

    if weights is not None:
        return find()
    found: ColumnSpread = batch.column(name).remember(("spread", data.schema[name].missing), find)
    return found


def check_finite(name: str, numbers: Numbers) -> None:
    """Refuse a column with infinite values."""
    if np.isinf(numbers).any():
        raise DataError(f"column '{name}' holds infinite values, which cannot be compared. Set them to missing.")


def check_size(names: str, loss: float) -> None:
    """Refuse released values so large that the loss of some columns is no number any more."""
    if not np.isfinite(loss):
        raise DataError(f"{names}: some released values are too large to compare. Give them another unit.")


def check_numbers(outcome: Release, names: Sequence[str], measure: str) -> None:
    """Refuse columns of numbers that were released as categories: bands and groups have no moments and no distances."""
    for data in outcome.implicates:
        kinds = data.engine.kinds
        grouped = [
            n for n in names if kinds.get(n, Kind.NUMBER) is not Kind.NUMBER and not data.batch([n]).missing(n).all()
        ]
        if grouped:
            raise NotApplicable(
                f"{join_names(grouped)}: released as categories, which cannot be compared with the original numbers. Name the "
                f"other columns: {measure}(over=[...]), or compare distributions."
            )


def released_numbers(data: Microdata, name: str) -> Numbers:
    """Return a released column as numbers, shape (t,): NaN where suppressed, and everywhere if the column was not released."""
    if data.engine.kinds.get(name) is not Kind.NUMBER:
        return np.full(len(data), np.nan)
    numbers = data.numbers(name)
    check_finite(name, numbers)
    return numbers


def with_gaps(difference: Numbers, kept: Numbers) -> Numbers:
    """Return losses from differences, where a share of the values was suppressed; shapes alike.

    A suppressed value loses 1, or the difference of those that are there, where that is more: d + (1 - kept)·max(0, 1 - d). So
    suppressing more never helps. Where there is no difference to be had (NaN: nothing was released), the loss is 1.
    """
    losses: Numbers = difference + (1 - kept) * np.maximum(0.0, 1 - difference)
    return np.where(np.isnan(losses), 1.0, losses)


def not_released(kept: Sequence[Numbers]) -> tuple[float, str]:
    """Return the share of values that is not there, from shares (k,) or (k, k) of each implicate, and what to say of it."""
    share = float(1 - np.mean([k if k.ndim == 1 else np.diag(k) for k in kept]))
    return share, f"; {digits(100 * share)} % of the values are not released, and count as lost" if share else ""


def worst_of(what: str, amount: str, compared: int) -> str:
    """Return what to say of a loss that is the largest of several."""
    return f", most for {what} ({amount})" if compared > 1 else ""


@dataclass(frozen=True, eq=False)
class Before:
    """The original's columns that vary, and their moments in units of their own mean and standard deviation."""

    data: Microdata
    names: tuple[str, ...]
    mean: Numbers
    sd: Numbers
    moments: PairwiseMoments
    ranks: bool = False
    """Whether the moments are of ranks instead of values."""

    @classmethod
    def of(cls, data: Microdata, names: Sequence[str], weighted: bool, ranks: bool = False) -> Before:
        """Find the moments; refuse a file in which nothing varies."""
        weights = weights_of(data, weighted)
        spreads = {name: spread(data, name, weights) for name in names}
        names = tuple(n for n in names if spreads[n].variance > 0)
        if not names:
            raise DataError(
                f"{join_names(spreads)}: nothing varies, so there is no standard deviation to measure a difference in."
            )
        mean = np.array([spreads[n].mean for n in names])
        sd = np.sqrt(np.array([spreads[n].variance for n in names]))
        if ranks:  # which have a unit of their own
            mean, sd = np.zeros(len(names)), np.ones(len(names))
        moments = _moments([data.numbers(n) for n in names], weights, ranks).standardised(mean, sd)
        return cls(data, names, mean, sd, moments, ranks)

    def after(self, data: Microdata, weighted: bool) -> PairwiseMoments:
        """Return the moments of a released file in the same units."""
        if weighted and data.schema.one("weight") is None:
            raise NotApplicable(
                "the release has no survey weights, so nobody can weight it. Compare without weights (weighted=False)."
            )
        columns = [released_numbers(data, name) for name in self.names]
        moments = _moments(columns, weights_of(data, weighted), self.ranks).standardised(self.mean, self.sd)
        if not np.isfinite(moments.variance[np.diag(moments.count) >= 2]).all():
            raise DataError("some released values are too large to square. Give the columns another unit.")
        return moments

    def kept(self, after: PairwiseMoments) -> Numbers:
        """Return the share of the values (of the pairs of values, off the diagonal) that was not suppressed, shape (k, k).

        Shares of the records in each file: a file of fewer records is not one of suppressed values.
        """
        had = self.moments.share
        ratio = np.divide(after.share, had, out=np.ones_like(had), where=had > 0)
        return np.where(ratio > 1 - _ROUNDING, 1.0, ratio)


class MomentMeasure(ColumnUtility, abstract=True):
    """A comparison of moments of the columns of numbers in both files. Constant columns of the original are left out."""

    title: ClassVar[str] = "{self.noun} kept"

    over: tuple[str, ...] | None = over_columns("numbers")
    weighted: bool = weighted_flag()
    before: Any = learned("over", "weighted", default=None)

    @property
    def ranks(self) -> bool:
        """Whether ranks are compared instead of values."""
        return False

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Find the moments of the original, once for all the releases of it."""
        names = compared_columns(data, self.over, NUMBER)
        return self.learn(before=Before.of(data, names, self.weighted, self.ranks))

    def compared(self, outcome: Release) -> tuple[Before, list[PairwiseMoments]]:
        """Return the moments of the original and of each implicate; measures of the same release share them."""
        before: Before | None = self.before
        if before is None or before.data is not outcome.original:  # another sample of a population
            before = self.prepare(outcome.original).before
            assert before is not None  # noqa: S101 - just learned
        check_numbers(outcome, before.names, type(self).__name__)
        key = ("moments", before.names, self.weighted, self.ranks)
        if key not in outcome.memory:
            outcome.memory[key] = [before.after(data, self.weighted) for data in outcome.implicates]
        return before, outcome.memory[key]


def _moments(columns: Sequence[Numbers], weights: Numbers | None, ranks: bool) -> PairwiseMoments:
    return moments_of_pairs([rank_shares(c, weights) for c in columns] if ranks else columns, weights)


class ColumnMeasure(MomentMeasure, abstract=True):
    """U = 1 - the mean over columns of how far a moment of the column is off."""

    noun: ClassVar[str]
    """What is kept."""
    difference: ClassVar[str]
    """What the loss is called."""
    companion: ClassVar[str]
    """What each column's own number in the details is called."""

    @abstractmethod
    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return each column's own number for the details, shape (k,)."""

    @abstractmethod
    def off(self, own: Numbers) -> Numbers:
        """Return the losses, without what is not released, from the columns' own numbers; shape (k,)."""

    @abstractmethod
    def amount(self, loss: float) -> str:
        """Return a loss with its unit, in brief."""

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare column by column."""
        before, after = self.compared(outcome)
        kept = [np.diag(before.kept(file)) for file in after]
        own = [self.own(before.moments, file) for file in after]
        losses = np.mean([with_gaps(self.off(x), k) for x, k in zip(own, kept, strict=True)], axis=0)
        worst, loss, (share, gone) = int(losses.argmax()), float(losses.mean()), not_released(kept)
        more = worst_of(before.names[worst], self.amount(losses[worst]), len(losses)) if losses[worst] else ""
        each = zip(before.names, np.mean(own, axis=0), strict=True)
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                f"mean {self.difference}": loss,
                f"largest {self.difference}": float(losses[worst]),
                "share of values not released": share,
                **{f"{self.companion} of {n}": float(x) for n, x in each if math.isfinite(x)},
            },
        )


class MatrixMeasure(MomentMeasure, abstract=True):
    """U = 1 - the mean absolute difference of the entries of a matrix with a row and a column for each column of the file."""

    sentence: ClassVar[str] = "{self.noun} are off by {loss} on average"
    noun: ClassVar[str]
    """What the entries are called."""
    diagonal: ClassVar[bool]
    """Whether a column's entry with itself counts."""

    @abstractmethod
    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the matrix, shape (k, k); NaN where there is no entry."""

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare entry by entry, on one side of the diagonal."""
        before, after = self.compared(outcome)
        one = self.matrix(before.moments)
        there = np.triu(np.isfinite(one), 0 if self.diagonal else 1)
        if not there.any():
            raise DataError(
                f"{join_names(before.names)}: {self.noun} need two columns that vary over the records that have both. "
                "Name others with over=[...]."
            )
        kept = [before.kept(file) for file in after]
        each = [with_gaps(np.abs(self.matrix(f) - one), k) for f, k in zip(after, kept, strict=True)]
        losses = np.where(there, np.mean(each, axis=0), -np.inf)
        loss, most = float(losses[there].mean()), float(losses.max())
        i, j = np.unravel_index(int(losses.argmax()), losses.shape)
        pair = before.names[i] if i == j else f"{before.names[i]} and {before.names[j]}"
        more = worst_of(pair, digits(most), int(there.sum())) if most else ""
        share, gone = not_released(kept)
        values = {"original": float(one[i, j]), "released": float(np.mean([self.matrix(f)[i, j] for f in after]))}
        return self.result(
            1 - loss,
            self.words(1 - loss, outcome.original.schema) + more + gone,
            details={
                f"mean absolute difference of {self.noun}": loss,
                f"largest absolute difference of {self.noun}": most,
                **{f"entry that differs most, {which}": v for which, v in values.items() if np.isfinite(v)},
                "entries compared": float(there.sum()),
                "share of values not released": share,
            },
        )


class MeansKept(ColumnMeasure):
    """U = 1 - the mean over columns of |mean released - mean original| / sd, the sd being that of the original column.

    The loss is the standardised difference in means, in absolute value; it does not depend on units. A column that was not
    released loses 1, one standard deviation; so does each value that was suppressed, or as much as the mean of the others is off
    where that is more. Records that were dropped are missed as far as the mean moves: that of a sample is still a mean.
    """

    sentence: ClassVar[str] = "means are off by {loss} standard deviations on average"
    noun: ClassVar[str] = "means"
    difference: ClassVar[str] = "difference of means"
    companion: ClassVar[str] = "shift"

    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return how far each mean has moved, in standard deviations."""
        return after.mean

    def off(self, own: Numbers) -> Numbers:
        """Return the distances."""
        return np.abs(own)

    def amount(self, loss: float) -> str:
        """Return standard deviations."""
        return digits(loss)

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the value under additive noise: the mean of n draws is N(0, ω/n), and E|N(0, 1)| = √(2/π)."""
        names = self.before.names if self.before is not None else self.over or ()
        if self.weighted or not names or any(n not in model.names for n in names):
            return None
        used = [model.at(n) for n in names]
        variance, noise = np.diag(model.covariance)[used], np.diag(model.noise)[used]
        if not (variance > 0).all():
            return None
        return 1 - float(np.sqrt(2 * noise / (math.pi * model.n * variance)).mean())


class SpreadsKept(ColumnMeasure):
    """U = 1 - the mean over columns of |variance released - variance original| / variance original.

    The loss is the mean relative difference of variances. A column of means only loses 1, and so does one that was not released;
    noise of λ² times the variance loses λ², without an upper end. A value that was suppressed loses 1, or the difference of the
    others where that is more. `VarianceKept` is another question: how far each record is from its original.
    """

    sentence: ClassVar[str] = "variances are off by {percent_lost} % on average"
    noun: ClassVar[str] = "spreads"
    difference: ClassVar[str] = "relative difference of variances"
    companion: ClassVar[str] = "variance ratio"

    def own(self, before: PairwiseMoments, after: PairwiseMoments) -> Numbers:
        """Return the released variances over the original ones."""
        return after.variance / before.variance

    def off(self, own: Numbers) -> Numbers:
        """Return how far the ratios are from 1."""
        return np.abs(own - 1)

    def amount(self, loss: float) -> str:
        """Return percent."""
        return f"{digits(100 * loss)} %"


class CovariancesKept(MatrixMeasure):
    """U = 1 - the mean over pairs of columns of |covariance released - covariance original| / (sd · sd of the original columns).

    The pairs include each column with itself, which is its variance. The difference is divided by the standard deviations and
    not by the original covariance, so that columns that had nothing to do with each other (a covariance near 0) do not swamp
    the rest. A pair that was not released loses 1, and so does the share of records in which one of the two was suppressed.
    """

    noun: ClassVar[str] = "covariances"
    diagonal: ClassVar[bool] = True

    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the covariances in units of the original's standard deviations."""
        return moments.covariance


Method = Literal["pearson", "spearman"]


class CorrelationsKept(MatrixMeasure):
    """U = 1 - the mean over pairs of different columns of |correlation released - correlation original|.

    From 1 (all the same) down to -1 (all turned around). A pair of which a column was not released, or does not vary any more,
    has no correlation left and loses 1; so does the share of records in which one of the two was suppressed. Spearman's
    correlations are those of ranks (within a column's known values), which a few large values cannot rule.
    """

    method: Method = param(default="pearson", doc="of the values, or of their ranks")
    before: Any = learned("over", "weighted", "method", default=None)

    noun: ClassVar[str] = "correlations"
    diagonal: ClassVar[bool] = False
    definition: ClassVar[str] = "{self.method}"

    @override
    @property
    def ranks(self) -> bool:
        return self.method == "spearman"

    def matrix(self, moments: PairwiseMoments) -> Numbers:
        """Return the correlations."""
        return moments.correlation


# --- Eigenvalues kept: the overlap of the principal components' variances, before and after.

Matrix = Literal["correlation", "rank", "covariance", "robust"]


class EigenvaluesKept(MomentMeasure):
    """U = Σ min(λᵢ, λ'ᵢ) / max(Σ λᵢ, Σ λ'ᵢ): the overlap of the spectra of both files, eigenvalues from the largest down.

    λ are the eigenvalues of the original's matrix, λ' those of the release: variances of the principal components. For
    correlations both sum to the number of columns p, and 1 - U = ½ Σ |λᵢ - λ'ᵢ| / p is the total variation between the shares of
    variance that the components explain. U lies between 0 and 1, and no eigenvalue is divided by, so a singular matrix is
    no trouble. Columns are divided by the original's standard deviations first; "covariance" then sees changed variances too.
    "rank" takes Spearman's correlations; "robust" a covariance that a minority of outliers cannot move, over the records that
    have all columns.

    A column that was not released, or does not vary any more, has a row of zeros; U is multiplied by the share of the other
    columns' values that was not suppressed. Negative eigenvalues, which only gaps bring about, count as 0.
    """

    title: ClassVar[str] = "eigenvalues kept"
    sentence: ClassVar[str] = "the spectra of both files overlap to {percent} %"
    definition: ClassVar[str] = "{self.matrix}"

    matrix: Matrix = param(default="correlation", doc="whose eigenvalues")
    before: Any = learned("over", "weighted", "matrix", default=None)
    scatter: Any = learned("over", "weighted", "matrix", default=None)

    @override
    @property
    def ranks(self) -> bool:
        return self.matrix == "rank"

    @override
    def validate(self) -> None:
        if self.weighted and self.matrix == "robust":
            raise ParameterError(
                "a robust covariance takes no survey weights; choose another matrix, or weighted=False."
            )

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Find the moments of the original, and its robust covariance if that is asked for, once for all releases."""
        ready = super().prepare(data, model)
        return ready.learn(scatter=_robust_original(ready.before)) if self.matrix == "robust" else ready

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the spectra."""
        before, after = self.compared(outcome)
        if len(before.names) < 2 and self.matrix in ("correlation", "rank"):
            raise DataError(
                f"{join_names(before.names)}: one column that varies has no correlation. Name more, or choose "
                "matrix='covariance'."
            )
        if self.matrix == "robust":
            one = self.scatter if before is self.before else _robust_original(before)
            files = [_robust(before, [released_numbers(d, n) for n in before.names]) for d in outcome.implicates]
            scale = np.sqrt(np.diag(one))
            scale[scale == 0] = 1.0
            one, files = one / np.outer(scale, scale), [file / np.outer(scale, scale) for file in files]
        else:
            of = "covariance" if self.matrix == "covariance" else "correlation"
            one, files = getattr(before.moments, of), [getattr(moments, of) for moments in after]
        spectrum, others = eigenvalues(one), [eigenvalues(file) for file in files]
        kept = [_kept(before, moments) for moments in after]
        each = [spectrum_overlap(spectrum, other) * share for other, share in zip(others, kept, strict=True)]
        value, first = float(np.mean(each)), float(np.mean([_first(other) for other in others]))
        share, gone = not_released([before.kept(moments) for moments in after])
        return self.result(
            value,
            f"{self.words(value, outcome.original.schema)}; the first principal component explains "
            f"{digits(100 * first)} % of the variance, {digits(100 * _first(spectrum))} % before{gone}",
            details={
                "eigenvalue loss": 1 - value,
                "share explained by the first component, original": _first(spectrum),
                "share explained by the first component, released": first,
                "share of values not released": share,
            },
        )


def eigenvalues(matrix: Numbers) -> Numbers:
    """Return the eigenvalues of a symmetric matrix (k, k), from the largest down; entries that are NaN count as 0."""
    return np.linalg.eigvalsh(np.nan_to_num(matrix))[::-1].clip(min=0.0)


def spectrum_overlap(one: Numbers, other: Numbers) -> float:
    """Return Σ min(λ, λ') / max(Σ λ, Σ λ') of two spectra (k,), none negative, the first not all zero: between 0 and 1.

    Examples
    --------
    >>> spectrum_overlap(np.array([1.5, 0.5]), np.array([1.0, 1.0]))
    0.75
    """
    return float(np.minimum(one, other).sum() / max(one.sum(), other.sum()))


def _first(spectrum: Numbers) -> float:
    """Return the share of the first component; 0 where nothing varies."""
    return float(spectrum[0] / spectrum.sum()) if spectrum.any() else 0.0


def _kept(before: Before, moments: PairwiseMoments) -> float:
    """Return the share of values that was not suppressed, of the columns that were released and vary."""
    there = ~np.isnan(np.diag(moments.correlation))
    return float(np.diag(before.kept(moments))[there].mean()) if there.any() else 0.0


def _robust_original(before: Before) -> Numbers:
    """Return the robust covariance of the original; refuse one without any variance."""
    found = _robust(before, [before.data.numbers(n) for n in before.names])
    if not np.diag(found).any():
        raise DataError(
            f"{join_names(before.names)}: no records that have all these columns vary enough for a robust covariance. "
            "Choose another matrix, or name other columns."
        )
    return found


def _robust(before: Before, columns: list[Numbers]) -> Numbers:
    """Return the robust covariance (k, k) of the records that have all columns but the empty ones; zeros where there is none."""
    there = np.array([not np.isnan(c).all() for c in columns], bool)
    out = np.zeros((len(columns), len(columns)))
    if there.any():
        x = np.column_stack([(c - m) / s for c, m, s in zip(columns, before.mean, before.sd, strict=True)])
        x = complete(x[:, there])
        if len(x) >= 2:
            out[np.ix_(there, there)] = robust_location_scatter(x)[1]
    return out
