"""What contributors learn of each other from a published table, under a prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import NotApplicable
from sfumato.tables.published import PublishedTable, Status

if TYPE_CHECKING:
    from sfumato.tables.rta.posterior_audit import PairAudit
    from sfumato.tables.rta.priors import Prior

Numbers = NDArray[np.float64]


def learned(
    published: PublishedTable, prior: Prior | None, shown: NDArray[np.bool_], notes: list[str]
) -> PairAudit | None:
    """Return what every contributor learns of every other, with noise or without; what was not looked at goes to the notes."""
    if prior is None:
        if published.variance is not None or published.leaf_variance is not None:
            notes.append(
                "Noise was added to this table. What contributors learn of each other needs a prior, and none was given."
            )
        return None
    from sfumato.tables.rta.posterior_audit import audit_pairs

    table = published.source("an audit with a prior")
    if table.nonnegative:
        notes.append(
            "What contributors learn of each other was worked out for normal priors. That nobody contributes less than nothing "
            "was not used in it: whoever does may be a little surer, where little is known before."
        )
    noise, hidden = _noise(published), published.suppressed
    if noise is not None:
        return audit_pairs(table, prior, noise, published=~hidden if hidden.any() else None)
    if (published.status == Status.CHANGED).any():
        notes.append(
            "Rounded and changed cells were taken for measurements: how far off each is counts with what all of them together "
            "are off, relative to the interval (or, without one, to the value) of each."
        )
        return _measured(published, prior)
    return audit_pairs(table, prior, np.zeros(table.cells.leaves), published=shown)


def _noise(published: PublishedTable) -> Numbers | sparse.csr_array | None:
    """Return the covariance or variances of the noise on the leaves, where they are known or published."""
    from sfumato.tables.measures.observed import leaf_noise

    if (noise := leaf_noise(published)) is not None or published.variance is None:
        return noise
    at = published.cells.of_leaf
    found = published.variance[at]
    if (at < 0).any() or np.isnan(found).any():
        raise NotApplicable(
            "what contributors learn needs the variance of the noise on every leaf, which is not known here."
        )
    return np.asarray(found)


def _measured(published: PublishedTable, prior: Prior) -> PairAudit:
    """Return the audit of a rounded or perturbed table: what is shown is a measurement with the error of its interval."""
    from sfumato.tables.measures.contributor_posterior import contributor_posterior
    from sfumato.tables.rta.posterior_audit import PairAudit

    if prior.unknowns != "contributor" or prior.controllers is not None:
        raise NotApplicable(
            "a rounded or perturbed table is audited with contributors as unknowns who attack one by one: leave unknowns and "
            "controllers out of the prior."
        )
    required = prior.of(published.source("an audit with a prior")).required
    found = contributor_posterior(published, prior)
    nobody = np.full(len(required), np.nan)
    who = np.arange(len(required))
    return PairAudit(who, found.variance, found.attacker, required, prior.threshold, nobody, exact=False, measured=True)
