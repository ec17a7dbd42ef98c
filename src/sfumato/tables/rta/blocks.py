"""Noise that is correlated within small blocks of leaves: totals lose less, and every pair is still protected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sfumato.errors import DataError, NotApplicable, ParameterError, missing_extra
from sfumato.tables.rta.leaf_noise import check_possible, leaf_noise
from sfumato.tables.rta.posterior_audit import PairAudit, audit_pairs, left_of
from sfumato.tables.rta.priors import AttackerKnowledge, Prior
from sfumato.tables.table import Table
from sfumato.typing import Numbers, Whole

_LARGEST = 40
_TINY = 1e-3
"""Weight of a leaf's variance relative to that of the chosen totals."""


def block_noise(
    table: Table, prior: Prior | AttackerKnowledge, blocks: Sequence[ArrayLike], *, totals: ArrayLike | None = None
) -> sparse.csr_array:
    """Return the covariance of leaf noise, leaves × leaves, that makes the variance of chosen totals small.

    Within each block (a list of leaves, at most 40) noise may be correlated, so that it cancels in sums. Other leaves get
    independent noise (`leaf_noise`). Each block is a semidefinite program over the binding pairs of attacker and contributor.
    Then every pair is audited over all leaves, since an attacker who is alone in a leaf learns its noise.

    Parameters
    ----------
    blocks
        Lists of leaves, by position. Contributors in several leaves must have them all in one block.
    totals
        The cells, by position, whose variances are minimised; the sum of each block's leaves if not given.
    """
    try:
        import clarabel  # noqa: F401
    except ImportError:
        raise missing_extra("clarabel", "sdp", "correlated noise for blocks of leaves") from None
    known = prior if isinstance(prior, AttackerKnowledge) else prior.of(table)
    check_possible(table, known)
    parts = [np.unique(np.asarray(b, np.int64)) for b in blocks]
    _check(table, known, parts)
    alone = leaf_noise(table, known).variance
    made = []
    for part in parts:
        if totals is None:
            wanted = np.ones((1, len(part)))
        else:
            wanted = table.cells.incidence[np.asarray(totals, np.int64)][:, part].toarray()
        piece = known.part(part)
        made.append(_lifted(piece, _solve(piece, alone[part], wanted), alone[part]))
    omega = _joined(alone, parts, made)
    if not audit_pairs(table, known, omega).holds:
        raise DataError(
            "no correlated noise was found that protects every contributor. Use independent noise (leaf_noise)."
        )
    return omega


def _check(table: Table, known: AttackerKnowledge, parts: list[Whole]) -> None:
    every = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if len(every) and (every.min() < 0 or every.max() >= table.cells.leaves):
        raise ParameterError(f"blocks must name leaves by position, from 0 to {table.cells.leaves - 1}.")
    if len(np.unique(every)) < len(every):
        raise ParameterError("a leaf is in two blocks.")
    for part in parts:
        if len(part) > _LARGEST:
            raise ParameterError(f"a block has at most {_LARGEST} leaves; got one of {len(part)}.")
        inside = np.isin(known.block, known.block[part])
        if inside.sum() > len(part):
            raise NotApplicable(
                "a block cuts through the leaves of a contributor who is in several. Put all leaves that share contributors "
                "into one block, or leave them out."
            )


def _joined(alone: Numbers, parts: list[Whole], made: list[Numbers]) -> sparse.csr_array:
    """Return one covariance: blocks where there are any, independent noise elsewhere."""
    rest = alone.copy()
    rows, cols = [np.arange(len(alone))], [np.arange(len(alone))]
    for part in parts:
        rest[part] = 0.0
        rows.append(np.repeat(part, len(part)))
        cols.append(np.tile(part, len(part)))
    data = np.concatenate([rest, *(m.ravel() for m in made)])
    return sparse.csr_array((data, (np.concatenate(rows), np.concatenate(cols))), shape=(len(alone),) * 2)


def _lifted(known: AttackerKnowledge, omega: Numbers, alone: Numbers) -> Numbers:
    """Return a block's covariance raised by a hair until the audit of every pair holds; independent noise if it never does."""
    for more in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        raised = omega + more * np.diag(np.diag(omega) + known.spread)
        if _audit(known, raised).holds:
            return raised
    return np.diag(alone)


def _audit(known: AttackerKnowledge, omega: Numbers) -> PairAudit:
    found = left_of(known, sparse.csr_array(omega))
    who = np.arange(len(known))
    return PairAudit(who, found.variance, found.helper, known.required, known.threshold, found.outsider, found.exact)


def _solve(known: AttackerKnowledge, alone: Numbers, wanted: Numbers) -> Numbers:
    """Return the covariance for one block: pairs are added as the audit finds them broken."""
    pairs: set[tuple[int, int]] = set()
    omega = np.diag(alone)
    found = _audit(known, np.zeros_like(omega))
    objective = wanted.T @ wanted + _TINY * np.eye(len(alone))
    for _ in range(60):
        bad = found.failing
        new = {(int(h), int(found.attacker[h])) for h in bad} - pairs
        if not new:
            return omega
        pairs |= new
        omega = smallest_covariance(known, sorted(pairs), objective)
        found = _audit(known, omega)
    return np.diag(alone)


def smallest_covariance(
    known: AttackerKnowledge, pairs: Sequence[tuple[int, int]], objective: Numbers, diagonal: bool = False
) -> Numbers:
    """Return Ω ⪰ 0 with the smallest tr(objective Ω) under which these pairs (unknown, helper's unknown or -1) are protected.

    The posterior variance v - a'(K + Ω)⁻¹a is at least w² if and only if K + Ω - aa'/(v - w²) ⪰ 0 (a Schur complement), which is
    linear in Ω: a semidefinite program.
    """
    import clarabel

    m, v, size = known.loading.toarray(), known.variance, known.loading.shape[0]
    scale = float(known.spread.max(initial=0.0)) or 1.0
    upper = [(i, j) for j in range(size) for i in range(j + 1)]
    free = [(i, i) for i in range(size)] if diagonal else upper
    where = {entry: k for k, entry in enumerate(upper)}
    basis = sparse.csc_array(
        (
            [1.0 if i == j else np.sqrt(2.0) for i, j in free],
            ([where[entry] for entry in free], np.arange(len(free))),
        ),
        shape=(len(upper), len(free)),
    )
    constants, cones = [np.zeros(len(upper))], [clarabel.PSDTriangleConeT(size)]
    for h, g in pairs:
        left = v.copy()
        if g >= 0:
            left[known.side == known.side[g]] = 0.0
        a = m[:, h] * left[h]
        matrix = (m * left) @ m.T - np.outer(a, a) / (left[h] - known.required[h])
        constants.append(np.array([matrix[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in upper]) / scale)
        cones.append(clarabel.PSDTriangleConeT(size))
    stacked = sparse.csc_matrix(-sparse.vstack([basis] * (len(pairs) + 1)))
    cost = np.array([objective[i, j] * (1.0 if i == j else 2.0) for i, j in free])
    settings: Any = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    zero = sparse.csc_matrix((len(free), len(free)))
    solution = clarabel.DefaultSolver(zero, cost, stacked, np.concatenate(constants), cones, settings).solve()
    made = np.zeros((size, size))
    for (i, j), x in zip(free, solution.x, strict=True):
        made[i, j] = made[j, i] = x * scale
    return made
