"""Rank-based record linkage: what a mask did to the values matters less than where they stand among the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.distance_linkage import apart
from sfumato.attacks.keys import missing_rule
from sfumato.attacks.known import Key, known_keys, link_column
from sfumato.classes import Missing
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable, ParameterError, listing

Numbers = NDArray[np.float64]


class Ranking(Parametric, abstract=True):
    """How records are compared by rank: shared by the attack and the measure that scores it."""

    window: float | Mapping[str, float] | None = param(
        default=None,
        doc="largest difference in rank, as a share of the records, if the snooper was told it (rank swapping's p)",
        low=0,
        high=1,
        per_column=True,
    )
    missing: Missing = missing_rule()
    link: str | None = link_column()


class LinkByRank(Attack, Ranking):
    """The snooper takes each target for the released record whose ranks are nearest.

    Without a window, each file is ranked by itself: a mask that keeps the order of a column does not protect it at all. With
    one, he looks only at records within the window of every key around where the target's value stands in the release (Nin,
    Herranz and Torra 2008: if a rank swap with that limit was all, the target's own record is among them), and takes the
    nearest of these; where there is none, he links nobody. Unordered categories have no ranks: they add 1 if they differ.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Link every target."""
        from sfumato.attacks.linking import link
        from sfumato.kernels.nearest_rows import Metric

        known = known_keys(outcome, snooper, draws, self.missing, self.link)
        self._check(known.keys)
        ranked, counts, low, high = zip(*(_ranked(key, self._window(key)) for key in known.keys), strict=True)
        ordered = np.array([key.ordered for key in ranked])
        # in places, not in shares: whole numbers, so that equal distances are equal to the last digit
        units = np.array([len(known.released) / count if count else 0.0 for count in counts])
        category = (2.0 * len(known.released)) ** 2
        gaps = np.array([apart(key, unit) for key, unit in zip(ranked, units, strict=True)])
        gaps = np.zeros(len(gaps)) if self.missing == "wildcard" else np.where(ordered, gaps, gaps * category)
        nothing = np.zeros(len(ranked))
        metric = Metric(units, np.where(ordered, -1.0, 0.0), nothing + category, gaps, nothing)
        reach = None if self.window is None else (np.column_stack(low), np.column_stack(high))
        return link(known, ranked, metric, reach)[0]

    def _check(self, keys: tuple[Key, ...]) -> None:
        names = [key.name for key in keys if key.ordered]
        if not names:
            raise NotApplicable("none of the snooper's keys is in order, so there are no ranks. Use distance linkage.")
        if isinstance(self.window, Mapping) and (extra := [n for n in self.window if n not in names]):
            raise ParameterError(f"window names {listing(extra)}, but the keys that have ranks are {listing(names)}.")

    def _window(self, key: Key) -> float | None:
        return self.window.get(key.name) if isinstance(self.window, Mapping) else self.window


def _ranked(key: Key, window: float | None) -> tuple[Key, int, Numbers, Numbers]:
    """Return a key as places among the records, the number of these, and the range that the window allows.

    A place is twice the number of records below plus those equal, so that no rounding comes between equal distances.
    """
    everywhere = np.full(len(key.known), np.inf)
    released = np.sort(key.released[~np.isnan(key.released)])
    count = len(released)
    if not key.ordered or not count:
        return key, 0, -everywhere, everywhere
    if window is None:
        own = np.sort(key.known[~np.isnan(key.known)])
        known = _places(key.known, own) * (count / max(len(own), 1))
        places = Key(key.name, True, known, _places(key.released, released))
        return places, count, -everywhere, everywhere
    steps = int(np.floor(window * count + 1e-9))  # 0.29 of 100 is 29, whatever the floats say
    places = Key(key.name, True, _places(key.known, released), _places(key.released, released))
    below, upto = (np.searchsorted(released, key.known, side) for side in ("left", "right"))
    low, high = (_places(released[np.clip(at, 0, count - 1)], released) for at in (below - steps, upto - 1 + steps))
    low, high = np.where(below - steps < count, low, np.inf), np.where(upto - 1 + steps >= 0, high, -np.inf)
    unknown = np.isnan(key.known)
    return places, count, np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _places(values: Numbers, among: Numbers) -> Numbers:
    """Return where values stand among sorted ones: the number below plus the number not above; NaN where missing."""
    place = np.searchsorted(among, values, "left") + np.searchsorted(among, values, "right")
    return np.where(np.isnan(values), np.nan, place.astype(np.float64))
