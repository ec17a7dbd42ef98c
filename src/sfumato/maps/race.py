"""Successive halving: every family on a part of the file, the better half on more; closing in on the best safe point."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.errors import MissingExtra
from sfumato.maps.judge import Judge, PointVerdict
from sfumato.maps.search_space import Family, Point, Range, Values
from sfumato.maps.trials import Trial, Trials
from sfumato.typing import Numbers


def optuna_sampler(judge: Judge, count: int, seed: int) -> Callable[[Family, Callable[[Point], Trial]], None]:
    """Return a sampler that looks at `count` points of a family: less risk and more utility, both at once."""

    def sample(family: Family, trial: Callable[[Point], Trial]) -> None:
        optuna = load_optuna(family)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=count // 2)
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        for _ in range(count):
            draw = study.ask()
            point = family.snapped([_suggested(draw, path, axis) for path, axis in family.over.items()])
            verdict = judge.verdict(trial(point))
            fine = verdict.gain > float("-inf")
            study.tell(draw, [verdict.excess, verdict.gain] if fine else None,
                       state=None if fine else optuna.trial.TrialState.FAIL)  # fmt: skip

    return sample


def _suggested(draw: Any, path: str, axis: Range | Values) -> float:
    if isinstance(axis, Values):
        return axis.centre(draw.suggest_categorical(path, list(range(len(axis.values)))))
    return float(draw.suggest_float(path, 0.0, 1.0))


def load_optuna(family: Family) -> Any:
    """Return optuna, or say what a family with many parameters needs."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra(
            f"the recipe '{family.name}' has {len(family.axes)} parameters to search; more than two need optuna: "
            "pip install 'sfumato[search]'. Or name at most two, and fix the others in the recipe."
        ) from None
    return optuna


# Closing in on the best safe point of a family: a local model, a trust region, one new point at a time.
#
# Around the best point so far, risk (on the logarithm) and utility are taken to be linear in the coordinates of the unit cube;
# near points count more. The next point is where that model has the most utility among what it holds to be safe, within reach.
# Where the point is no better than the best so far, the reach shrinks; the new point improves the model all the same. In one
# dimension this is the secant method on the edge of what is safe.


_CANDIDATES = 600
_CLIP = 6.0
"""Logarithms of risk over threshold beyond this are all the same: far."""
_MARGIN = 2e-3
"""Distance below the threshold at which the model aims, on the logarithm."""


@dataclass(frozen=True)
class TrustRegion:
    """Where the next point may lie: within `radius` of the best one, in each coordinate."""

    radius: float = 0.3
    least: float = 8e-3

    def after(self, better: bool) -> TrustRegion:
        """Return the reach after a point that was better than the best so far, or was not."""
        return TrustRegion(min(self.radius * 1.3, 0.5) if better else self.radius * 0.55, self.least)

    @property
    def spent(self) -> bool:
        """Whether there is nothing left to gain."""
        return self.radius < self.least


def propose(
    family: Family,
    points: Sequence[Point],
    verdicts: Sequence[PointVerdict],
    reach: TrustRegion,
    generator: np.random.Generator,
) -> Point | None:
    """Return the next point to look at; None if every point within reach has been looked at."""
    best = max(range(len(points)), key=lambda i: verdicts[i].rank)
    centre = np.array(points[best])
    candidates = _candidates(family, centre, reach, generator)
    tried = {str(family.settings(p)) for p in points}
    x = np.array(points)
    apart = np.abs(np.array(candidates)[:, None, :] - x[None, :, :]).max(axis=2).min(axis=1)
    fresh = [
        c for c, far in zip(candidates, apart, strict=True)
        if far > reach.radius / 12 and str(family.settings(c)) not in tried
    ]  # fmt: skip
    if not fresh:
        return None
    new = np.array(fresh)
    weight = np.exp(-0.5 * (np.abs(x - centre).max(axis=1) / reach.radius) ** 2) + 1e-5
    excess = np.clip([v.excess for v in verdicts], -_CLIP, _CLIP)
    gain = np.array([v.gain for v in verdicts])
    known = np.isfinite(gain)
    risk = _linear(x, excess, weight, centre, reach.radius, new)
    use = _linear(x[known], gain[known], weight[known], centre, reach.radius, new) if known.any() else -risk
    safe = risk <= -_MARGIN
    if safe.any() and verdicts[best].safe:
        return fresh[int(np.argmax(np.where(safe, use, -np.inf)))]
    return fresh[int(np.argmin(np.abs(risk + _MARGIN)))] if safe.any() else fresh[int(np.argmin(risk))]


def _candidates(family: Family, centre: Numbers, reach: TrustRegion, generator: np.random.Generator) -> list[Point]:
    """Return points within reach: at random, and along each axis. Listed values stay those of the best point."""
    d = len(centre)
    steps = generator.uniform(-1, 1, (_CANDIDATES, d))
    along = np.concatenate([np.outer(np.linspace(-1, 1, 41), np.eye(d)[j]) for j in range(d)])
    fixed = np.array([isinstance(axis, Values) for axis in family.axes])
    moved = centre + reach.radius * np.where(fixed, 0.0, np.concatenate([along, steps]))
    return list(dict.fromkeys(family.snapped(row) for row in moved))


def _linear(x: Numbers, y: Numbers, weight: Numbers, centre: Numbers, radius: float, new: Numbers) -> Numbers:
    """Return the prediction at new points of a weighted linear fit with a slight ridge on the slopes; shape (new,)."""
    design = np.column_stack([np.ones(len(x)), (x - centre) / radius])
    at = np.column_stack([np.ones(len(new)), (new - centre) / radius])
    ridge = np.diag([0.0, *[1e-3 * weight.sum()] * x.shape[1]])
    normal = design.T @ (design * weight[:, None]) + ridge
    return np.asarray(at @ np.linalg.lstsq(normal, design.T @ (weight * y), rcond=None)[0])


_CLOSE = 0.005
BANDS = (0.5, 1.0, 2.0)
"""A part of the file shows risks that are off by an unknown factor, so families are compared at several thresholds."""
Sampler = Callable[[Family, Callable[[Point], Trial]], None]


@dataclass(frozen=True)
class Effort:
    """The size of a search, stage by stage."""

    part: int
    """Records of the smallest part of the file; a file of less than three times as many is searched whole."""
    grid: tuple[int, int]
    """Values along each axis of the first grid: of one parameter, of two."""
    sampled: int
    """Points of the first look where there are more than two parameters."""
    first: int
    """Points refined on each part of the file, in each family."""
    rounds: tuple[tuple[int, int], ...]
    """For each round on the whole file: the number of families, and of further points for each of them."""
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
    results: dict[tuple[str, int], dict[str, Trial]] = field(default_factory=dict)
    reaches: dict[str, TrustRegion] = field(default_factory=dict)

    # -- looking

    def trial(self, family: Family, point: Point, records: int) -> Trial:
        """Look at a point, once."""
        own = self.results.setdefault((family.name, records), {})
        name = str(family.settings(point))
        if name not in own:
            own[name] = self.trials.trial(family, point, records, self.replications)
            self.judge.pool(own.values())
        return own[name]

    def seen(self, family: Family, records: int) -> list[Trial]:
        """Return what was seen of a family on a part with `records` records."""
        return [trial for trial in self.results.get((family.name, records), {}).values() if trial.observed]

    def start(self, family: Family, records: int) -> None:
        """Look at the first grid of a family; a sample of points where it has more than two parameters."""
        if len(family.axes) <= 2 or self.sampler is None:
            per_axis = self.effort.grid[min(max(len(family.axes), 1), 2) - 1]
            for point in family.grid(per_axis):
                self.trial(family, point, records)
        else:
            self.sampler(family, lambda point: self.trial(family, point, records))

    def refine(
        self,
        family: Family,
        records: int,
        count: int,
        calibrated: Mapping[int, float] | None = None,
        moved: float = 1.0,
    ) -> None:
        """Close in on the best safe point of a family with a limited number of further points."""
        if not family.axes:
            return
        generator = self.trials.draws.generator(f"refine/{family.name}/{records}")
        for _ in range(count):
            own = self.seen(family, records)
            reach = self.reaches.get(family.name, TrustRegion())
            if not own or reach.spent:
                return
            verdicts = [self.judge.verdict(trial, moved, calibrated) for trial in own]
            best = max(verdicts, key=lambda v: v.rank)
            if len(family.axes) == 1 and reach.radius < 0.1 and best.safe and best.excess > -_CLOSE:
                return  # on the edge: with one parameter there is no way along it
            point = propose(family, [trial.point for trial in own], verdicts, reach, generator)
            if point is None:
                self.reaches[family.name] = reach.after(False)
                continue
            found = self.judge.verdict(self.trial(family, point, records), moved, calibrated)
            self.reaches[family.name] = reach.after(better(found, verdicts))

    # -- comparing

    def best(
        self, family: Family, records: int, band: float = 1.0, calibrated: Mapping[int, float] | None = None
    ) -> tuple[PointVerdict, Trial] | None:
        """Return the best point of a family under thresholds multiplied by `band`."""
        judged = [(self.judge.verdict(trial, band, calibrated), trial) for trial in self.seen(family, records)]
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
                short[name] = min(short[name], 0.0 if gain == top else top - gain)  # both may be infinite
            for name, pair in found.items():  # not safe on this part: after all that are, the nearest first
                if name not in safe and pair is not None:
                    short[name] = min(short[name], 1e6 + pair[0].excess)
        order = sorted(families, key=lambda f: (short[f.name], families.index(f)))
        kept = {f.name for f in order[:count]}
        return [f for f in families if f.name in kept]


def better(found: PointVerdict, verdicts: Sequence[PointVerdict]) -> bool:
    """Whether a point is better than the best so far by more than a hair."""
    best = max(verdicts, key=lambda v: v.rank)
    if found.safe and best.safe:
        gains = [v.gain for v in verdicts if math.isfinite(v.gain)] or [0.0]  # a utility without error is infinite
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
