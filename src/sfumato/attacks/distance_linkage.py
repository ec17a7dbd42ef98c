"""Distance-based record linkage: each target is taken for the released record that is nearest (Pagliuca and Seri 1999)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.keys import missing_rule
from sfumato.attacks.known import Key, known_keys, link_column
from sfumato.classes import Missing
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric

Numbers = NDArray[np.float64]
Unit = Literal["sd", "range", "robust"]


class Nearness(Parametric, abstract=True):
    """How near two records are: shared by the attack and the measure that scores it."""

    unit: Unit = param(
        default="sd",
        doc="in what numbers are compared, of the released column: standard deviations, its range, or the robust "
        "standard deviation (from the median absolute deviation)",
        choices=("sd", "range", "robust"),
    )
    missing: Missing = missing_rule()
    link: str | None = link_column()


class LinkByDistance(Attack, Nearness):
    """The snooper takes each target for the nearest released record, or one of the nearest.

    The squared distance adds up over the keys: of numbers the squared difference, in units of the released column; of
    categories 1 if they differ. A missing key adds nothing ("wildcard"), or as much as two random records differ on average,
    unless it is missing in both ("value"). The search is exact.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Link every target."""
        from sfumato.attacks.linking import link
        from sfumato.kernels.nearest_rows import Metric

        known = known_keys(outcome, snooper, draws, self.missing, self.link)
        units = np.array([_per_unit(key, self.unit) for key in known.keys])
        ordered = np.array([key.ordered for key in known.keys])
        gaps = np.array([apart(key, unit) for key, unit in zip(known.keys, units, strict=True)])
        if self.missing == "wildcard":
            gaps = np.zeros(len(gaps))
        metric = Metric(units, np.where(ordered, -1.0, 0.0), np.ones(len(units)), gaps, np.zeros(len(units)))
        guesses, _ = link(known, known.keys, metric)
        return guesses


def _per_unit(key: Key, unit: Unit) -> float:
    """Return one over the unit of a key; 0 where the released column does not vary, and so tells nobody apart."""
    known = key.released[~np.isnan(key.released)]
    if not key.ordered or not len(known):
        return 0.0
    size = _size(known, unit)
    return 1 / size if size > 0 else 0.0


def _size(known: Numbers, unit: Unit) -> float:
    from sfumato.kernels.robust import MAD

    largest = float(np.abs(known).max())
    if largest == 0 or known.min() == known.max():
        return 0.0
    known = known / largest  # squares of huge numbers would not be finite
    size = float(np.ptp(known)) if unit == "range" else 0.0
    if unit == "robust":
        size = MAD * float(np.median(np.abs(known - np.median(known))))
    return largest * (size or float(known.std()))  # more than half of the records may have one value


def apart(key: Key, per_unit: float) -> float:
    """Return the mean of what a key adds to the squared distance of two random released records."""
    known = key.released[~np.isnan(key.released)]
    if not len(known):
        return 0.0
    if key.ordered:
        return float(2 * (known * per_unit).var())
    return 1 - float(((np.unique(known, return_counts=True)[1] / len(known)) ** 2).sum())
