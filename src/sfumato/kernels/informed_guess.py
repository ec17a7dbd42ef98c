"""How likely each cell is the lifted one, given the difference of two draws, to somebody who knows the proportions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def guess_scores(difference: NDArray[np.int64], weights: Numbers, means: Numbers, lift: int) -> Numbers:
    """Return log weight + log P(d − lift) − log P(d) for each cell, shape of `difference`: (tables, cells).

    `weights` are the chances before any table was seen, `means` the expected numbers drawn from each cell. Differences are
    taken as independent differences of Poisson numbers (Skellam), P(d) ∝ I_|d|(2·mean), so that only the ratio matters.
    """
    reach = int(np.abs(difference).max(initial=0)) + lift
    rates, place = np.unique(means, return_inverse=True)
    logs = _log_bessel(np.arange(reach + 1.0)[None, :], 2 * rates[:, None])
    d = np.arange(-reach + lift, reach - lift + 1)
    ratio = logs[:, np.abs(d - lift)] - logs[:, np.abs(d)]
    chosen = ratio[place[None, :], difference + reach - lift]
    return np.asarray(np.log(weights)[None, :] + chosen)


def _log_bessel(order: Numbers, x: Numbers) -> Numbers:
    """Return log I_order(x) − x; where it underflows, its leading term, log (x/2)^order / order!."""
    from scipy.special import gammaln, ive

    x = np.maximum(x, 1e-300)  # nothing drawn: every difference but 0 is as good as impossible
    with np.errstate(divide="ignore"):
        value = np.log(ive(order, x))
        leading = order * np.log(x / 2) - gammaln(order + 1) - x
    return np.where(np.isfinite(value), value, leading)
