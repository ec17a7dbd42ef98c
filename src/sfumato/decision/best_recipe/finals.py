"""The last round: the best points of a search are masked again with fresh seeds, and moved until their risk holds there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sfumato.decision.best_recipe.judge import Standing
from sfumato.decision.best_recipe.race import Race
from sfumato.decision.best_recipe.refine import Reach
from sfumato.decision.best_recipe.space import Family
from sfumato.decision.best_recipe.trials import Look

_ROUNDS = 4
"""So often a family is masked again in full, at points ever nearer to its threshold."""
_BACK = 6
"""So often more where none of these was safe, each time stepping further back."""
_FAMILIES = 3
"""So many families are confirmed; further ones only while none has a safe point."""
_FURTHER = 4
_CLOSE = 0.01
"""A limit this near below its threshold, as a share of it, is near enough."""


@dataclass(frozen=True, eq=False)
class Confirmed:
    """A point with what was seen of it under fresh seeds."""

    look: Look
    standing: Standing


@dataclass(eq=False)
class Finals:
    """Confirms candidates of a race, each family by itself."""

    race: Race
    records: int
    replications: int
    confirmed: list[Confirmed] = field(default_factory=list)

    def run(self, families: Sequence[Family]) -> Confirmed | None:
        """Return the most useful point that is safe under fresh seeds; None if no family has one. The best family first."""
        for number, family in enumerate(families):
            if number >= _FAMILIES and self.best is not None:
                break
            if self._worth(family):
                self._settle(family)
        return self.best

    @property
    def best(self) -> Confirmed | None:
        """The most useful safe point so far."""
        safe = [c for c in self.confirmed if c.standing.safe]
        return max(safe, key=lambda c: c.standing.gain) if safe else None

    def _worth(self, family: Family) -> bool:
        """Whether a family could still win: what the search saw of it is not clearly behind what was confirmed already."""
        found = self.race.best(family, self.records)
        if self.best is None or found is None:
            return found is not None
        return found[0].safe and found[0].gain > self.best.standing.gain - self._doubt(self.best, found[1])

    def _doubt(self, best: Confirmed, look: Look) -> float:
        """Return how far apart two gains may be by chance: three standard errors of what the search saw of the second."""
        worst = 0.0
        for i, anchor in self.race.judge.anchors.items():
            value, interval = self.race.judge.measures[i].estimate(best.look.observed[i], 0.683)
            if interval is not None:  # a standard error from many releases, widened to the few that the search saw
                wide = math.sqrt(best.look.replications / max(look.replications, 1))
                worst = max(worst, 3 * (interval[1] - value) * wide / anchor)
        return worst

    def _settle(self, family: Family) -> None:
        """Confirm a family's best point; step back where its risk does not hold, and forward where it leaves room.

        What the search saw of a point and what fresh seeds show differ by a factor; the next point is chosen by what the
        search saw, with the threshold moved by that factor, as all points confirmed so far show it. A limit is itself known
        only so well (its noise): points nearer to the threshold than that are not told apart by trying again, since the
        luckiest of many tries would not hold what it says.
        """
        race, moved, shifts = self.race, 1.0, list[float]()
        tried: dict[str, Confirmed] = {}
        for attempt in range(_ROUNDS + _BACK):
            found = self._next(family, moved, tried)
            if found is None:
                return
            seen = race.judge.verdict(found)
            look = race.trials.look(family, found.point, self.records, self.replications, f"confirm-{attempt}")
            if not look.observed:
                return
            fresh = Confirmed(look, race.judge.verdict(look, own=True))
            self.confirmed.append(fresh)
            tried[str(look.settings)] = fresh
            noise, held = race.judge.noise(look), any(c.standing.safe for c in tried.values())
            if (
                -max(_CLOSE, noise) <= fresh.standing.excess <= 0
                or not family.axes
                or (held and attempt >= _ROUNDS - 1)
            ):
                return
            shifts.append(fresh.standing.excess - seen.excess)
            behind = max(0, attempt + 2 - _ROUNDS)  # nothing held so far: step back in earnest
            moved = math.exp(-sum(shifts) / len(shifts) - _CLOSE / 3 - noise * (0.5 + behind))
            race.reaches[family.name] = Reach(0.06)
            race.refine(family, self.records, _FURTHER, moved=moved)

    def _next(self, family: Family, moved: float, tried: Mapping[str, Confirmed]) -> Look | None:
        """Return the best point not yet confirmed that is safe as far as known; None if none is better than one that holds."""
        judge = self.race.judge
        judged = [
            (judge.verdict(look, moved), look)
            for look in self.race.seen(family, self.records) if str(look.settings) not in tried
        ]  # fmt: skip
        if not judged:
            return None
        standing, look = max(judged, key=lambda pair: pair[0].rank)
        held = max((c.standing.gain for c in tried.values() if c.standing.safe), default=-math.inf)
        return look if standing.safe and standing.gain > held else None
