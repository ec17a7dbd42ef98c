"""The copula of mixed columns: categories by correlated questions, then numbers given the categories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.kernels.copula import Pieces, latent_correlation, pairwise_moments, regress, repaired
from sfumato.kernels.moments import covariance_root
from sfumato.masks.given_columns import PIECE
from sfumato.masks.latent_columns import LatentColumn, yes_no

Numbers = NDArray[np.float64]
Raw = dict[str, NDArray[Any]]
Reads = Sequence[NDArray[Any]]
GRID = np.linspace(-9.0, 9.0, 1801)
"""Where the distribution function of a number's normal number is worked out."""


@dataclass(frozen=True, eq=False)
class MixedCopula:
    """Which value is missing and which category it is come from correlated normal numbers, one for each yes-no question.

    The normal scores of numbers and ordered categories are then normal given these, with means linear in the indicators D
    of missing values and categories (the general location model; Olkin and Tate 1961): Z = (D - D̄)β + e.
    """

    parts: tuple[LatentColumn, ...]
    questions: Numbers
    """Triangular root of the correlations of the questions' normal numbers (q, q)."""
    centre: Numbers
    """D̄ (q,)."""
    beta: Numbers
    """Shape (q, p)."""
    root: Numbers
    """Triangular root of the covariance of e (p, p)."""
    curves: Numbers
    """Distribution function of each Z on GRID, shape (p, len(GRID)): it is a mixture, not quite normal."""

    def draw(self, ids: NDArray[np.int64], draws: Draws) -> Raw:
        """Return numbers (NaN missing), or places of categories (-1 missing), of new records; each hangs on its id alone."""
        asked = [(part.name, k) for part in self.parts for k in range(part.asks)]
        z = _stacked([draws.normals(ids, f"{name} question {k}") for name, k in asked], len(ids)) @ self.questions.T
        reads, at = [], 0
        for part in self.parts:
            u = draws.uniforms(ids, f"{part.name} rare") if part.rest is not None else np.zeros(0)
            reads.append(part.answered(z[:, at : at + part.asks], u))
            at += part.asks
        scored = [part.name for part in self.parts if part.weights is not None]
        noise = _stacked([draws.normals(ids, f"{name} score") for name in scored], len(ids)) @ self.root.T
        scores = (_indicators(self.parts, reads) - self.centre) @ self.beta + noise
        made: Raw = {}
        for part, read in zip(self.parts, reads, strict=True):
            j = scored.index(part.name) if part.weights is not None else -1
            u = np.interp(scores[:, j], GRID, self.curves[j]) if j >= 0 else np.full(len(ids), 0.5)
            made[part.name] = part.made(read, u)
        return made


def learn_copula(parts: tuple[LatentColumn, ...], reads: Reads) -> MixedCopula:
    """Learn the correlations behind the columns, from what each part read of the records."""
    n = len(reads[0])
    scored = [i for i, part in enumerate(parts) if part.weights is not None]
    shares = [share for part in parts for share in part.shares]
    q, p = len(shares), len(scored)

    def slices() -> Iterator[Reads]:
        for start in range(0, n, PIECE):
            yield [read[start : start + PIECE] for read in reads]

    def answers() -> Iterator[Numbers]:
        for some in slices():
            yield np.column_stack([part.answers(read) for part, read in zip(parts, some, strict=True)])

    def everything() -> Iterator[Numbers]:
        for some in slices():
            yield np.column_stack([_indicators(parts, some), *(parts[i].score(some[i]) for i in scored)])

    questions = latent_correlation(_standardised(answers), _weights([yes_no(share) for share in shares]))
    at = 0
    for part in parts:  # the questions of one column are asked of fewer and fewer: their normal numbers are independent
        questions[at : at + part.asks, at : at + part.asks] = np.eye(part.asks)
        at += part.asks
    observed = _standardised(everything)
    steps = _weights([w for part in parts if (w := part.weights) is not None])
    observed[q:, q:] = latent_correlation(observed[q:, q:], steps)
    observed[q:, :q] /= steps[:, :1]  # a place or a tied score follows its normal number less closely than itself
    observed[:q, q:] = observed[q:, :q].T
    np.fill_diagonal(observed, 1.0)
    beta, residual, _ = regress(repaired(np.clip(observed, -1, 1)), q)
    share = np.sum([_indicators(parts, some).sum(axis=0) for some in slices()], axis=0) / n
    spread = np.sqrt(share * (1 - share))
    beta = beta / np.where(spread > 0, spread, np.inf)[:, None]
    means = np.concatenate([(_indicators(parts, some) - share) @ beta for some in slices()])
    curves = np.array([_mixture(means[:, j], float(residual[j, j])) for j in range(p)]).reshape(p, len(GRID))
    return MixedCopula(parts, covariance_root(repaired(questions)), share, beta, covariance_root(residual), curves)


def _indicators(parts: Sequence[LatentColumn], reads: Reads) -> Numbers:
    return np.column_stack([part.indicators(read) for part, read in zip(parts, reads, strict=True)])


def _stacked(columns: list[Numbers], n: int) -> Numbers:
    return np.column_stack(columns) if columns else np.zeros((n, 0))


def _weights(weights: list[Numbers]) -> Numbers:
    return np.stack(weights) if weights else np.zeros((0, 1))


def _standardised(pieces: Pieces) -> Numbers:
    """Return covariances of each two columns over the standard deviations of all records that have one of them.

    Not of those that have both: who is asked the second question of a chain hangs on the answer to the first, whose normal
    number is independent of the second's.
    """
    covariance, variance = pairwise_moments(pieces)
    spread = np.sqrt(np.outer(np.diag(variance), np.diag(variance)))
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)


def _mixture(means: Numbers, variance: float) -> Numbers:
    """Return the distribution function on GRID of a normal number with this variance about means drawn from these."""
    from scipy.special import ndtr

    lowest, highest = float(means.min()), float(means.max())
    counts, edges = np.histogram(means, bins=400, range=(lowest - 1e-9, highest + 1e-9))
    middle = (edges[1:] + edges[:-1]) / 2
    used = counts > 0
    spread = np.sqrt(max(variance, 1e-12))
    share = counts[used] / counts.sum()
    return np.asarray(ndtr((GRID[:, None] - middle[used]) / spread) @ share)
