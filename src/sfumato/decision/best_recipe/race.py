"""Successive halving: every family on a part of the file, the better half on more, the best on all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.decision.best_recipe.judge import Judge, Standing
from sfumato.decision.best_recipe.refine import Reach, propose
from sfumato.decision.best_recipe.space import Family, Point
from sfumato.decision.best_recipe.trials import Look, Trials

_CLOSE = 0.005
BANDS = (0.5, 1.0, 2.0)
"""A part of the file shows risks that are off by an unknown factor, so families are compared at several thresholds."""
Sampler = Callable[[Family, Callable[[Point], Look]], None]


@dataclass(frozen=True)
class Effort:
    """How hard a search looks."""

    part: int
    """Records of the smallest part of the file; a file of less than three times as many is searched whole."""
    grid: tuple[int, int]
    """Values along each axis of the first grid: of one parameter, of two."""
    sampled: int
    """Points of the first look where there are more than two parameters."""
    first: int
    """Points refined on each part of the file, in each family."""
    rounds: tuple[tuple[int, int], ...]
    """On the whole file: so many families, each with so many further points, round by round."""
    replications: int


EFFORTS: Mapping[str, Effort] = {
    "quick": Effort(2_500, (5, 3), 16, 2, ((4, 3), (2, 3)), 2),
    "usual": Effort(3_000, (7, 3), 20, 4, ((5, 4), (3, 6)), 2),
    "thorough": Effort(6_000, (11, 5), 80, 8, ((10, 8), (5, 12)), 4),
}


@dataclass(eq=False)
class Race:
    """The state of a search: what was seen of each family, on each part of the file."""

    trials: Trials
    judge: Judge
    effort: Effort
    sampler: Sampler | None = None
    replications: int = 2
    looks: dict[tuple[str, int], dict[str, Look]] = field(default_factory=dict)
    reaches: dict[str, Reach] = field(default_factory=dict)

    # -- looking

    def look(self, family: Family, point: Point, records: int) -> Look:
        """Look at a point, once."""
        own = self.looks.setdefault((family.name, records), {})
        name = str(family.settings(point))
        if name not in own:
            own[name] = self.trials.look(family, point, records, self.replications)
            self.judge.pool(own.values())
        return own[name]

    def seen(self, family: Family, records: int) -> list[Look]:
        """Return what was seen of a family, on so many records."""
        return [look for look in self.looks.get((family.name, records), {}).values() if look.observed]

    def start(self, family: Family, records: int) -> None:
        """Look at the first grid of a family; a sample of points where it has more than two parameters."""
        if len(family.axes) <= 2 or self.sampler is None:
            per_axis = self.effort.grid[min(max(len(family.axes), 1), 2) - 1]
            for point in family.grid(per_axis):
                self.look(family, point, records)
        else:
            self.sampler(family, lambda point: self.look(family, point, records))

    def refine(
        self,
        family: Family,
        records: int,
        count: int,
        calibrated: Mapping[int, float] | None = None,
        moved: float = 1.0,
    ) -> None:
        """Close in on the best safe point of a family with at most so many further points."""
        if not family.axes:
            return
        generator = self.trials.draws.generator(f"refine/{family.name}/{records}")
        for _ in range(count):
            own = self.seen(family, records)
            reach = self.reaches.get(family.name, Reach())
            if not own or reach.spent:
                return
            verdicts = [self.judge.verdict(look, moved, calibrated) for look in own]
            best = max(verdicts, key=lambda v: v.rank)
            if len(family.axes) == 1 and reach.radius < 0.1 and best.safe and best.excess > -_CLOSE:
                return  # on the edge: with one parameter there is no way along it
            point = propose(family, [look.point for look in own], verdicts, reach, generator)
            if point is None:
                self.reaches[family.name] = reach.after(False)
                continue
            found = self.judge.verdict(self.look(family, point, records), moved, calibrated)
            better = _better(found, verdicts)
            self.reaches[family.name] = reach.after(better)

    # -- comparing

    def best(
        self, family: Family, records: int, band: float = 1.0, calibrated: Mapping[int, float] | None = None
    ) -> tuple[Standing, Look] | None:
        """Return the best point of a family under thresholds multiplied by `band`."""
        judged = [(self.judge.verdict(look, band, calibrated), look) for look in self.seen(family, records)]
        return max(judged, key=lambda pair: pair[0].rank) if judged else None

    def keep(
        self, families: Sequence[Family], records: int, count: int, calibrated: Mapping[int, float]
    ) -> list[Family]:
        """Return the families that come nearest to the best one at one of several thresholds, in their own order."""
        short = {f.name: math.inf for f in families}
        for band in BANDS:
            found = {f.name: self.best(f, records, band, calibrated) for f in families}
            safe = {name: pair[0].gain for name, pair in found.items() if pair is not None and pair[0].safe}
            top = max(safe.values(), default=math.inf)
            for name, gain in safe.items():
                short[name] = min(short[name], top - gain)
            for name, pair in found.items():  # not safe on this part: after all that are, the nearest first
                if name not in safe and pair is not None:
                    short[name] = min(short[name], 1e6 + pair[0].excess)
        order = sorted(families, key=lambda f: (short[f.name], families.index(f)))
        kept = {f.name for f in order[:count]}
        return [f for f in families if f.name in kept]


def _better(found: Standing, verdicts: Sequence[Standing]) -> bool:
    """Whether a point is better than the best so far by more than a hair."""
    best = max(verdicts, key=lambda v: v.rank)
    if found.safe and best.safe:
        gains = [v.gain for v in verdicts if math.isfinite(v.gain)]
        return found.gain > best.gain + 2e-4 * (max(gains) - min(gains))
    return found.rank > best.rank


def parts_of(records: int, effort: Effort) -> list[int]:
    """Return how many records each stage of a race looks at, the last all of them.

    >>> parts_of(30_000, EFFORTS["usual"]), parts_of(1_000_000, EFFORTS["usual"]), parts_of(5_000, EFFORTS["usual"])
    ([3000, 30000], [3000, 48000, 1000000], [5000])
    """
    parts, size = [], effort.part
    while size * 3 <= records:
        parts.append(size)
        size *= 16
    return [*parts, records]


def calibration(judge: Judge, part: Sequence[np.ndarray], whole: Sequence[np.ndarray]) -> dict[int, float]:
    """Return by what factor a part of the file shows each risk too large, going by the unmasked file; 1 where unknown."""
    factors = {}
    for i in judge.thresholds:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = float(
                judge.measures[i].value(part[i].mean(axis=0)) / judge.measures[i].value(whole[i].mean(axis=0))
            )
        factors[i] = ratio if 0 < ratio < math.inf else 1.0
    return factors
