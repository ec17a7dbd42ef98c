"""Eigenvalues kept: the overlap of the principal components' variances, before and after."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, Release, Score, Snooper, learned, param
from sfumato.contract.score import digits
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.moments import complete
from sfumato.kernels.pairwise import PairwiseMoments
from sfumato.kernels.robust import robust_location_scatter
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.moments import Before, MomentMeasure, not_released, released_numbers

Numbers = NDArray[np.float64]
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

    matrix: Matrix = param(
        default="correlation", doc="whose eigenvalues", choices=("correlation", "rank", "covariance", "robust")
    )
    before: Any = learned("over", "weighted", "matrix", default=None)
    scatter: Any = learned("over", "weighted", "matrix", default=None)

    @property
    def ranks(self) -> bool:
        """Whether ranks are compared instead of values."""
        return self.matrix == "rank"

    def validate(self) -> None:
        """The robust matrix takes no weights."""
        super().validate()
        if self.weighted and self.matrix == "robust":
            raise ParameterError(
                "a robust covariance takes no survey weights; choose another matrix, or weighted=False."
            )

    def label(self) -> str:
        """Return a few words for a legend."""
        return "eigenvalues kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """Whose eigenvalues, and whether survey weights are used."""
        return self.matrix + (", weighted" if self.weighted else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the overlap in percent."""
        return f"the spectra of both files overlap to {digits(100 * value)} %"

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Find the moments of the original, and its robust covariance if that is asked for, once for all releases."""
        ready = super().prepare(data, model)
        return ready.learn(scatter=_robust_original(ready.before)) if self.matrix == "robust" else ready

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare the spectra."""
        before, after = self.compared(outcome)
        if len(before.names) < 2 and self.matrix in ("correlation", "rank"):
            raise DataError(
                f"{listing(before.names)}: one column that varies has no correlation. Name more, or choose "
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
            f"{listing(before.names)}: no records that have all these columns vary enough for a robust covariance. "
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
