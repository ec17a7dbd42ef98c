"""Contributors in very many leaves: what at least remains unknown of them, by a bound that any regression gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.rta.conjugate import conjugate_gradients
from sfumato.tables.rta.knowledge import Knowledge

if TYPE_CHECKING:
    from sfumato.kernels.neighbourhoods import NearSums

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_CLOSE = 1e-4


class Hubs(NamedTuple):
    """At least what is left of each hub for anybody and for an outsider, who helps, and S⁻¹m, hubs × leaves."""

    variance: Numbers
    outsider: Numbers
    helper: Whole
    column: Numbers


def hubs_left(known: Knowledge, sums: NearSums, own: Numbers, hubs: Whole) -> Hubs:
    """Return what is left of these unknowns, each in several leaves; `own` are variances of independent noise, no more than true.

    With D the variance that each leaf has by itself and U the other unknowns in several leaves, with variances V,
    m'(D + UVU')⁻¹m = min over c of (m - Uc)'D⁻¹(m - Uc) + c'V⁻¹c. Any c gives an upper bound on the precision that is added:
    here one from conjugate gradients, which need not be exact. Whoever knows g takes it out of D or U; c stays as it is.
    """
    v, by, side = known.variance, known.by_unknown, known.side
    leaves = known.loading.shape[0]
    links = np.flatnonzero((known.leaves_of > 1) & (v > 0))
    alone = np.flatnonzero((known.leaves_of == 1) & (v > 0) & (side >= 0))
    d = sums.single + own
    floor = np.maximum(d, 1e-300)
    s = known.covariance(own)
    x = conjugate_gradients(s, by[:, hubs].toarray(), _CLOSE)
    link = by[:, links].tocoo()
    entry_leaf, entry_unknown = link.row.astype(np.int64), links[link.col]
    single_leaf = by.indices[by.indptr[alone]]
    single = by.data[by.indptr[alone]] ** 2 * v[alone]
    made = Hubs(
        np.zeros(len(hubs)), np.zeros(len(hubs)), np.full(len(hubs), -1, np.int64), np.zeros((len(hubs), leaves))
    )
    for i, h in enumerate(hubs):
        m = by[:, [h]].toarray().ravel()
        c = v * np.asarray(by.T @ (x[:, i] / max(1.0 - v[h] * float(m @ x[:, i]), 1e-9)))
        c[h] = 0.0
        part = link.data * c[entry_unknown]
        r = m - np.bincount(entry_leaf, part, leaves)
        if ((d <= 1e-12 * sums.total) & (np.abs(r) * np.sqrt(v[h]) > 1e-12 * np.sqrt(sums.total))).any():
            continue  # a leaf with nothing of its own: no bound
        q = float(r @ (r / floor) + (c[links] ** 2 / v[links]).sum())
        # what each side knows: entries of U and of D, leaf by leaf
        theirs = (side[entry_unknown] >= 0) & (side[entry_unknown] != side[h])
        who = np.concatenate([side[entry_unknown[theirs]], side[alone]])
        leaf = np.concatenate([entry_leaf[theirs], single_leaf])
        none = np.zeros(len(alone))
        shift, gone = np.concatenate([part[theirs], none]), np.concatenate([np.zeros(int(theirs.sum())), single])
        key, at = np.unique(who * leaves + leaf, return_inverse=True)
        shift, gone = np.bincount(at.ravel(), shift, len(key)), np.bincount(at.ravel(), gone, len(key))
        leaf, who = key % leaves, key // leaves
        left = np.where(d[leaf] - gone > 1e-12 * d[leaf], d[leaf] - gone, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            now = np.where((r[leaf] + shift) ** 2 > 0, (r[leaf] + shift) ** 2 / left, 0.0)
        more = np.bincount(who, now - r[leaf] ** 2 / floor[leaf], int(side.max(initial=0)) + 1)
        mine = links[(side[links] >= 0) & (links != h)]
        np.subtract.at(more, side[mine], c[mine] ** 2 / v[mine])
        more[side[h] if side[h] >= 0 else slice(0, 0)] = 0.0
        best = int(np.argmax(more)) if len(more) else -1
        made.outsider[i] = 1.0 / (1.0 / v[h] + max(q, 0.0))
        made.variance[i] = 1.0 / (1.0 / v[h] + max(q + max(float(more.max(initial=0.0)), 0.0), 0.0))
        if best >= 0 and more[best] > 0:
            made.helper[i] = int(np.flatnonzero(side == best)[0])
        made.column[i] = r / floor
    return made
