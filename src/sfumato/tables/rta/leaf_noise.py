"""How much noise each leaf of a table needs, so that no attacker learns too much of any contributor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing, some
from sfumato.tables.rta.knowledge import Knowledge
from sfumato.tables.rta.one_leaf import one_leaf
from sfumato.tables.rta.priors import Prior
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_ULPS = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class LeafNoise:
    """The variance of the noise in every leaf: confidential, unless variances are published."""

    variance: Numbers
    """Shape (leaves,)."""
    target: Whole
    """The contributor who needs the noise most, by position, shape (leaves,); -1 where none is needed."""
    attacker: Whole
    """Against whom; -1 for an outsider."""
    lower: float
    """A proven lower bound on the objective: no independent leaf noise that protects everybody costs less."""
    objective: float
    """The objective: the sum of the variances, or the weighted one that was asked for."""
    how: str
    """How it was found, in words."""

    def __repr__(self) -> str:
        noised = int((self.variance > 0).sum())
        return f"LeafNoise({noised:,} of {len(self.variance):,} leaves, {self.how}, gap {self.gap:.2g})"

    @property
    def gap(self) -> float:
        """By which share the objective may lie above the smallest possible one."""
        return 0.0 if self.objective <= self.lower or self.objective == 0 else 1.0 - self.lower / self.objective


def leaf_noise(table: Table, prior: Prior | Knowledge, *, cost: Numbers | None = None) -> LeafNoise:
    """Return the smallest independent noise of the leaves under which every contributor stays protected.

    Smallest is the sum of the variances, each times its `cost`, shape (leaves,), 1 if not given. A closed form where every
    contributor is in one leaf; otherwise a convex problem, solved with a certificate of how far from the optimum it may be.
    Refused where somebody knows a contribution too well before anything is published.
    """
    known = prior if isinstance(prior, Knowledge) else prior.of(table)
    check_possible(table, known)
    price = np.ones(table.cells.leaves) if cost is None else np.asarray(cost, np.float64)
    if price.shape != (table.cells.leaves,) or not (price > 0).all() or not np.isfinite(price).all():
        raise DataError("`cost` must have one finite number above 0 for each leaf.")
    need, target, attacker = one_leaf(known)
    variance = np.where(need > 0, need + _ULPS * np.minimum(known.spread + need, 1e4 * need), 0.0)
    target, attacker = np.where(need > 0, target, -1), np.where(need > 0, attacker, -1)
    linked = np.bincount(known.block)[known.block] > 1
    lower, how = float(price @ np.maximum(need, 0.0)), "a closed form"
    if linked.any():
        from sfumato.tables.rta.linked_noise import linked_noise

        found = linked_noise(known, variance, price, linked)
        lower = float(price[~linked] @ np.maximum(need, 0.0)[~linked]) + found.lower
        variance, how = found.variance, f"{some(found.rounds, 'round')} of a convex iteration"
        better = found.target >= 0
        target, attacker = np.where(better, found.target, target), np.where(better, found.attacker, attacker)
    of = np.append(known.contributor, -1)
    return LeafNoise(variance, of[target], of[attacker], lower, float(price @ variance), how)


def check_possible(table: Table, known: Knowledge) -> None:
    """Refuse where a contribution is known too well before: no noise helps. Says where, and what would help."""
    bad = np.flatnonzero(known.known_before())
    if not len(bad):
        return
    by_unknown = known.by_unknown
    leaves = np.unique(
        np.concatenate([by_unknown.indices[by_unknown.indptr[u] : by_unknown.indptr[u + 1]] for u in bad[:200]])
    )
    names = [leaf_name(table, int(leaf)) for leaf in leaves]
    limit = relaxation(known)
    ways = (
        f"It works with a threshold r above {limit:.6g}, or with base variances below {known.threshold / limit:.6g} times these "
        f"(a base cv below {np.sqrt(known.threshold / limit):.6g} times this one)."
        if np.isfinite(limit)
        else "Somebody is known exactly: only a base variance of 0 for those contributors works."
    )
    raise DataError(
        f"{some(len(bad), 'contributor')} cannot be protected: their contributions are known beforehand as well as anybody may "
        f"know them afterwards, in {listing(names, 5)}. {ways}"
    )


def relaxation(known: Knowledge) -> float:
    """Return the threshold above which there is a solution: the largest w²/v, the relative certainty before publication."""
    guarded = known.required > 0
    with np.errstate(divide="ignore"):
        ratio = known.threshold * known.required[guarded] / known.given_variance[guarded]
    return float(ratio.max(initial=0.0))


def leaf_name(table: Table, leaf: int) -> str:
    """Return the leaf as a cell, or as a part of the smallest cell that holds it."""
    cell = int(table.cells.of_leaf[leaf])
    if cell >= 0:
        return table.cells.name(cell)
    holding = table.cells.incidence[:, [leaf]].nonzero()[0]
    return "a part of " + table.cells.name(int(holding[np.argmin(table.cells.sizes[holding])]))
