"""How the noise of leaves that are published already is divided among their parts in a later table.

Each old leaf A has noise δ_A. Its parts get noise that adds up to it,

    δ = B δ_old + ξ,  B'1 = 1 in each old leaf,  ξ ~ N(0, D - DDᵀ/s),  s = Σ D over the parts of A,

ξ being the law of independent noises with variances D given that they add up to nothing. Noise of old cells stays as it is, to
the digit. Both publications together show all new leaves with noise of the covariance

    Ω = B Ω_old Bᵀ + blocks of (D - DDᵀ/s).

With B = D/s this is the law of independent noises given their sums; where s is the old variance of δ_A, the new noises are
independent, as if both tables had been published at once. As D grows, the parts tell less and less beyond what is published
already. That is not enough where the first table left an attacker g no more than he may know of h: then B is chosen such that
the parts tell g nothing, or little, of h (`rivals`). What he knows of h already is the regression on the old leaves, with
coefficients u = S⁻¹ C a_h, S = C K_g Cᵀ + Ω_old, C the sums; a part tells more by a_h - (K_g Cᵀ + B Ω_old) u, which B can make
zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.contract import Draws
from sfumato.errors import NotApplicable
from sfumato.tables.rta.digits import unit
from sfumato.tables.rta.drawing import brownian, leaf_draws, leaf_ids
from sfumato.tables.rta.record import Record
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
MOST_ENTRIES = 20_000_000


class Division:
    """How the noise of old leaves is divided among their parts: D and B."""

    def __init__(self, record: Record, group: Whole, needed: Numbers, spread: Numbers) -> None:
        """Start from the variances that independent noise would need, shape (leaves,), and what is unknown in each leaf."""
        count = len(record.totals)
        self.record, self.group, self.spread = record, group, spread
        self.inside = group >= 0
        self.parts = np.bincount(group[self.inside], minlength=count)
        self.old = record.covariance.diagonal()
        self.variance = self._at_least_old(needed)
        self.tilt: sparse.csr_array | None = None

    def _at_least_old(self, needed: Numbers) -> Numbers:
        """Raise what is needed to the noise that is there already, which must go somewhere.

        Where more is needed than there is, every part takes some of it: noise of one part alone would follow from the sum.
        """
        sums = self.sums(needed)
        share = self._shares(self.spread)
        lack = (self.old - sums)[self.group]
        return np.where(lack >= 0, needed + np.maximum(lack, 0.0) * share, np.maximum(needed, sums[self.group] * share))

    def _shares(self, weight: Numbers) -> Numbers:
        """Return which part of its old leaf each leaf is, by weight, or evenly where nothing has any."""
        weight = np.where(self.sums(weight)[self.group] > 0, weight, 1.0)
        return np.where(self.inside, weight / np.maximum(self.sums(weight)[self.group], 1e-300), 0.0)

    def sums(self, leaves: Numbers) -> Numbers:
        """Return the sums over the parts of each old leaf, shape (old leaves,)."""
        return np.asarray(np.bincount(self.group[self.inside], leaves[self.inside], len(self.old)), np.float64)

    @property
    def share(self) -> Numbers:
        """D/s for each leaf, 0 for one that no published cell holds; shape (leaves,)."""
        sums = self.sums(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(sums[self.group] > 0, self.variance / sums[self.group], 1.0 / self.parts[self.group])
        return np.where(self.inside, share, 0.0)

    def by_old(self, values: Numbers) -> sparse.csr_array:
        """Return values of leaves in the columns of their old ones, leaves × old leaves."""
        at = np.flatnonzero(self.inside)
        return sparse.csr_array((values[at], (at, self.group[at])), shape=(len(self.group), len(self.old)))

    def covariance(self) -> sparse.csr_array:
        """Return Ω, leaves × leaves."""
        sums = self.sums(self.variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(sums > 0, (self.old - sums) / sums**2, 0.0)
        excess[np.abs(self.old - sums) <= 1e-12 * sums] = 0.0
        if float((self.parts[excess != 0].astype(np.float64) ** 2).sum()) > MOST_ENTRIES:
            raise NotApplicable(
                "a published cell is divided into too many parts to draw them given its value. Publish both tables in one go."
            )
        by_group, share = self.by_old(self.variance), self.by_old(self.share)
        between = sparse.csr_array(self.record.covariance - sparse.diags_array(self.old))
        made = sparse.diags_array(self.variance) + by_group @ sparse.diags_array(excess) @ by_group.T
        made = sparse.csr_array(made + share @ between @ share.T)
        if self.tilt is not None:
            moved = self.tilt @ self.record.covariance
            cross = moved @ share.T
            made = sparse.csr_array(made + cross + cross.T + moved @ self.tilt.T)
        left = made.diagonal()
        made.setdiag(np.where(left > 1e-13 * self.variance, left, 0.0))  # what cancels leaves a last bit
        made.eliminate_zeros()
        return made

    def draw(self, table: Table, draws: Draws, period: str) -> Numbers:
        """Return the noise of every leaf given what is published, shape (leaves,)."""
        fresh = brownian(self.variance, leaf_ids(table), leaf_draws(draws, table.variable, period))
        # noise, and rounding of its outcome
        error = self.record.units * unit(self.record.decimals) - self.record.totals
        rest = np.where(self.inside, (error - self.sums(fresh))[self.group], 0.0)
        noise = fresh + self.share * rest
        return noise if self.tilt is None else noise + self.tilt @ error
