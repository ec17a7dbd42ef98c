"""A matrix that the spy does not know: its mean and the covariances of its entries (erratum 2.12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.decision.conditional import numbers, square, whiten
from sfumato.errors import ParameterError

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RandomMatrix:
    """A random A, B or C of a mask that is *not* revealed, independent of the data; what the spy believes about it.

    A matrix that is revealed is no random matrix to the spy: condition on it, that is, give the matrix itself.

    Examples
    --------
    >>> coin = RandomMatrix.over([[[1.0, 0.0]], [[0.0, 1.0]]])  # one of two records, each with probability 1/2
    >>> coin.mean.tolist()
    [[0.5, 0.5]]
    """

    mean: Numbers
    """Shape (a, b)."""
    covariance: Numbers
    """Of the entries, row by row, shape (ab, ab)."""
    normal: bool = False
    """Whether the entries are jointly normal; only such a C leaves the release normal."""
    outcomes: tuple[Numbers, ...] = ()
    """All matrices that it can be, if they were given."""
    probabilities: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", np.atleast_2d(numbers(self.mean, "the mean")))
        object.__setattr__(self, "covariance", square(self.covariance, "the covariance of the entries"))
        if self.mean.ndim != 2 or not np.isfinite(self.mean).all():
            raise ParameterError("the mean of a random matrix must be a matrix of finite numbers.")
        if len(self.covariance) != self.mean.size:
            raise ParameterError(
                f"the matrix has {self.mean.size} entries, so their covariance must be {self.mean.size} × {self.mean.size}."
            )
        whiten(self.covariance, "the covariance of the entries")

    @classmethod
    def over(cls, outcomes: Sequence[ArrayLike], probabilities: Sequence[float] | None = None) -> Self:
        """Return the matrix that is one of these, with these probabilities (equal ones, if not given)."""
        matrices = [np.atleast_2d(numbers(m, "an outcome")) for m in outcomes]
        if not matrices or len({m.shape for m in matrices}) > 1:
            raise ParameterError("the outcomes of a random matrix must be matrices of one shape, at least one of them.")
        p = (
            np.full(len(matrices), 1 / len(matrices))
            if probabilities is None
            else numbers(probabilities, "probabilities")
        )
        if p.shape != (len(matrices),) or not (p >= 0).all() or not np.isclose(p.sum(), 1):
            raise ParameterError("probabilities must be as many as the outcomes, none negative, with the sum 1.")
        entries: Numbers = np.array([m.ravel() for m in matrices])
        mean: Numbers = p @ entries
        spread = (entries - mean) * np.sqrt(p)[:, None]
        return cls(mean.reshape(matrices[0].shape), spread.T @ spread, False, tuple(matrices), tuple(p.tolist()))

    @classmethod
    def noise(cls, covariance: ArrayLike, rows: int) -> Self:
        """Return normal noise of mean zero for so many records: independent between them, with this covariance within."""
        within = square(covariance, "the covariance of the noise")
        whole: Numbers = np.array(np.kron(np.eye(rows), within), np.float64)
        return cls(np.zeros((rows, len(within))), whole, normal=True)

    @classmethod
    def independent(cls, mean: ArrayLike, variance: ArrayLike, normal: bool = False) -> Self:
        """Return a matrix with independent entries of these means and variances (one variance, or one for each entry)."""
        centre = np.atleast_2d(numbers(mean, "the mean"))
        spread = numbers(variance, "the variance")
        if spread.shape not in ((), centre.shape):
            raise ParameterError("variance must be one number, or one for each entry of the mean.")
        spread = np.broadcast_to(spread, centre.shape)
        return cls(centre, np.diag(spread.ravel()), normal)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        a, b = self.mean.shape
        return a, b

    @property
    def second_moments(self) -> Numbers:
        """E[Aᵢⱼ Aₖₗ], shape (a, b, a, b)."""
        entries = self.mean.ravel()
        return np.asarray((self.covariance + np.outer(entries, entries)).reshape(self.shape * 2))
