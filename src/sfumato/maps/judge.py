"""Judging the points of a search: scenarios of several snoopers, the frontier and how sure it is, safe or not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Design, Draws, Measure, NoiseModel, Release, Score, Side, Snooper, param
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, join_names, unknown_name
from sfumato.maps.trials import ReleaseSpread, Trial, limit_noise, release_limit
from sfumato.schema.schema import Schema
from sfumato.typing import Flags, Numbers


class Against(Measure, abstract=True):
    """A risk measure against one of several snoopers, by name."""

    measure: Measure = param(doc="the risk measure")
    snooper: Snooper = param(doc="what this snooper knows")
    scenario: str = param(doc="what this snooper is called")

    @property
    def side(self) -> Side:  # type: ignore[override]
        """That of the measure."""
        return self.measure.side

    @property
    def design(self) -> Design:
        """That of the measure."""
        return self.measure.design

    @override
    @property
    def size(self) -> int:
        return self.measure.size

    @override
    @property
    def replications(self) -> int:
        return self.measure.replications

    @override
    @property
    def variant(self) -> str:
        return self.measure.variant

    @override
    def label(self) -> str:
        return f"{self.measure.label()}, {self.scenario}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        return self.measure.words(value, schema)

    @override
    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        own = self.measure.columns(schema)
        known = (*self.snooper.covariates, *self.snooper.keys)
        return None if own is None else tuple(dict.fromkeys((*own, *known)))

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Check the measure against this snooper."""
        self.measure.check(outcome, self.snooper)

    def beside(self, data: Microdata) -> tuple[str, ...]:
        """Return those of the measure."""
        return self.measure.beside(data)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Prepare the measure."""
        return self.with_(measure=self.measure.prepare(data, model))

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Observe what this snooper learns."""
        return self.measure.observe(outcome, self.snooper)

    def value(self, means: Numbers) -> Numbers:
        """Return the measure's value."""
        return self.measure.value(means)

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the measure's formula against this snooper."""
        return self.measure.analytic(model, self.snooper)

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release against this snooper."""
        return self.measure.score(outcome, self.snooper)

    def of_records(self, values: Numbers) -> float | None:
        """Return what the measure makes of the values of some records."""
        return self.measure.of_records(values)


def scenarios_of(snooper: Any) -> dict[str, Snooper]:
    """Return snoopers by name, from one, several by name, or none (the paper's own, with index knowledge)."""
    if snooper is None or isinstance(snooper, Snooper):
        return {"": snooper or Snooper()}
    if not isinstance(snooper, Mapping) or not snooper or not all(isinstance(s, Snooper) for s in snooper.values()):
        raise ParameterError(
            "snooper must be a Snooper, or several by name: {'neighbour': Snooper(...), 'journalist': Snooper(...)}."
        )
    return {str(name): s for name, s in snooper.items()}


def against(measures: Sequence[Measure], scenarios: Mapping[str, Snooper]) -> list[Measure]:
    """Return the measures with each risk set against every snooper, where there are several."""
    if len(scenarios) == 1:
        return list(measures)
    out: list[Measure] = []
    for measure in measures:
        if measure.side is Side.UTILITY or isinstance(measure, Against):
            out.append(measure)
        else:
            out += [Against(measure, snooper, name) for name, snooper in scenarios.items()]
    return out


_TOGETHER = 10
"""With at least this many releases, what is common to all recipes (the same resampled records) can be told from chance."""


def non_dominated(risk: Numbers, utility: Numbers) -> Flags:
    """Return which points no other point beats: no more risk and no less utility, and one of the two better; (..., q).

    >>> non_dominated(np.array([1.0, 2.0, 3.0, 3.0]), np.array([1.0, 3.0, 2.0, 3.0])).tolist()
    [True, True, False, False]
    """
    order = np.lexsort((-utility, risk), axis=-1)
    r, u = np.take_along_axis(risk, order, -1), np.take_along_axis(utility, order, -1)
    before = np.maximum.accumulate(u, axis=-1)
    best = np.concatenate([np.full((*u.shape[:-1], 1), -np.inf), before[..., :-1]], axis=-1)
    # sorted by risk, then by falling utility: a point is beaten by an earlier one, unless that one is its equal in both
    kept = u > best
    for i in range(1, u.shape[-1]):
        kept[..., i] |= kept[..., i - 1] & (r[..., i] == r[..., i - 1]) & (u[..., i] == u[..., i - 1])
    out = np.empty_like(kept)
    np.put_along_axis(out, order, kept, -1)
    return out


def reweighted(
    measure: Measure, observed: Sequence[Numbers], groups: Sequence[str], generator: np.random.Generator, draws: int
) -> Numbers:
    """Return the measure at every point as it might have come out, shape (draws, q): a Bayesian bootstrap of the releases.

    `observed` holds each point's observations, shape (m, k). Points of one group (a recipe) were masked with the same seeds, so
    their releases get the same weights, and what they have in common cancels. Weights of m releases vary too little by the
    factor √((m - 1)/(m + 1)), which is put right; on the logarithm where values are positive.
    """
    weights: dict[object, Numbers] = {}
    columns = []
    for o, group in zip(observed, groups, strict=True):
        m = len(o)
        key = m if m >= _TOGETHER else (group, m)
        if key not in weights:
            weights[key] = generator.dirichlet(np.ones(m), draws)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(measure.value(o.mean(axis=0)))
            drawn = np.asarray(measure.value(weights[key] @ o), np.float64)
        wider = np.sqrt((m + 1) / (m - 1)) if m > 1 else 1.0
        if value > 0 and (drawn > 0).all() and np.isfinite(drawn).all():
            columns.append(value * (drawn / value) ** wider)
        else:
            columns.append(value + wider * (drawn - value) if np.isfinite(value) else np.full(draws, value))
    return np.column_stack(columns)


_DRAWS = 1_000
_UNLIKELY = 0.05


@dataclass(frozen=True, eq=False)
class Chances:
    """The trials of a search at each of q points, with the same seeds everywhere, so that points can be compared."""

    measures: tuple[Measure, ...]
    results: Sequence[Trial]
    draws: Draws

    @cached_property
    def drawn(self) -> list[Numbers]:
        """Each measure at every point, shape (draws + 1, q): the estimate, then what might have come out instead."""
        groups, rows = [trial.family.name for trial in self.results], []
        for i, measure in enumerate(self.measures):
            observed = [trial.observed[i] for trial in self.results]
            with np.errstate(divide="ignore", invalid="ignore"):
                now = np.array([float(measure.value(o.mean(axis=0))) for o in observed])
            generator = self.draws.generator("frontier")  # the same weights for every measure
            rows.append(np.vstack([now, reweighted(measure, observed, groups, generator, _DRAWS)]))
        return rows

    @cached_property
    def intervals(self) -> list[Numbers]:
        """Each measure's estimate and 95 % interval at every point, shape (3, q)."""
        return [np.vstack([d[:1], *between(d)]) for d in self.drawn]

    def plane(self, risks: Sequence[int], uses: Mapping[int, float]) -> tuple[Numbers, Numbers]:
        """Return risk and utility of every point, shape (draws + 1, q) each, the estimates first.

        Of several risks the worst counts, of several utilities the smallest share of what each is divided by.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.max([self.drawn[i] for i in risks], axis=0)
            u = np.min([self.drawn[i] / a for i, a in uses.items()], axis=0)
        return r, u


def between(drawn: Numbers) -> tuple[Numbers, Numbers]:
    """Return the ends of the 95 % interval of what might have come out, shape (q,) each; `drawn` has the estimates first."""
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(drawn[1:], [0.025, 0.975], axis=0)
    return low, high


def chance_of(risk: Numbers, utility: Numbers) -> Numbers:
    """Return the probability that a point is not dominated, shape (q,); NaN where that is unlikely.

    `risk` and `utility` have the estimates first, shape (draws + 1, q).
    """
    known = np.isfinite(risk).all(axis=0) & np.isfinite(utility).all(axis=0)
    chance = np.full(risk.shape[1], np.nan)
    if known.any():
        flags = non_dominated(risk[:, known], utility[:, known])
        share = flags[1:].mean(axis=0)
        chance[known] = np.where(flags[0] | (share > _UNLIKELY), share, np.nan)
    return chance


_TINY = 1e-6
"""Stands for nothing where a threshold of 0 is asked for, so that less is still nearer than more."""
_FAR = 30.0


@dataclass(frozen=True)
class PointVerdict:
    """The verdict on a point: the logarithm of its worst risk limit over the threshold (safe up to 0), and its utility."""

    excess: float
    gain: float

    @property
    def safe(self) -> bool:
        """Whether every risk stays within its threshold; a point without a utility is none to choose."""
        return self.excess <= 0 and self.gain > -math.inf

    @property
    def rank(self) -> tuple[bool, float]:
        """Better is larger: safe before unsafe, then more useful, or less far from safe."""
        return self.safe, self.gain if self.safe else -max(self.excess, 0.0)


@dataclass(eq=False)
class Judge:
    """Thresholds for the risks, and what utilities are held against."""

    measures: tuple[Measure, ...]
    thresholds: Mapping[int, float]
    anchors: Mapping[int, float]
    """Each utility that counts, and what it is divided by: 1, or its value for the unmasked file where there are several."""
    spreads: dict[tuple[str, int, int], ReleaseSpread] = field(default_factory=dict)
    """By family, records and measure: how much releases differ, pooled over the points seen."""

    def pool(self, results: Iterable[Trial]) -> None:
        """Learn how much the releases of each family differ."""
        groups: dict[tuple[str, int], list[Trial]] = {}
        for trial in results:
            if trial.observed:
                groups.setdefault((trial.family.name, trial.records), []).append(trial)
        for (family, records), own in groups.items():
            for i in self.thresholds:
                self.spreads[family, records, i] = ReleaseSpread.pooled(trial.values(i, self.measures) for trial in own)

    def limit(self, trial: Trial, measure: int, own: bool = False) -> float:
        """Return the risk below which 95 % of the releases at this point stay; from its `own` releases alone, if asked for."""
        spread = None if own else self.spreads.get((trial.family.name, trial.records, measure))
        return release_limit(trial.values(measure, self.measures), spread)

    def noise(self, trial: Trial) -> float:
        """Return the standard error of the logarithm of a point's worst limit, as its own releases give it."""
        worst = max(self.thresholds, key=lambda i: excess_of(self.limit(trial, i, own=True), self.thresholds[i]))
        return limit_noise(trial.values(worst, self.measures))

    def verdict(
        self, trial: Trial, moved: float = 1.0, calibrated: Mapping[int, float] | None = None, own: bool = False
    ) -> PointVerdict:
        """Judge a point, under thresholds multiplied by `moved`, and as a smaller file's risks are (`calibrated`)."""
        if not trial.observed:
            return PointVerdict(_FAR, -math.inf)
        scale = calibrated or {}
        excess = max(
            excess_of(self.limit(trial, i, own), r * moved * scale.get(i, 1.0)) for i, r in self.thresholds.items()
        )
        gains = [self.utility(trial, i) / a for i, a in self.anchors.items()]
        return PointVerdict(excess, -math.inf if any(map(math.isnan, gains)) else min(gains))

    def utility(self, trial: Trial, measure: int) -> float:
        """Return a utility over all releases at a point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.measures[measure].value(trial.observed[measure].mean(axis=0)))


def excess_of(limit: float, threshold: float) -> float:
    """Return log(limit / threshold), at most ±30; a threshold of 0 is met only by 0.

    >>> round(excess_of(0.02, 0.01), 3), excess_of(0.0, 0.0), excess_of(float("inf"), 1.0)
    (0.693, 0.0, 30.0)
    """
    if math.isnan(limit) or limit == math.inf:
        return _FAR
    if threshold <= 0:
        return math.log((limit + _TINY) / _TINY) if limit > 0 else 0.0
    return max(math.log(limit / threshold), -_FAR) if limit > 0 else -_FAR


def thresholds_of(measures: Sequence[Measure], titles: Sequence[str], max_risk: object) -> dict[int, float]:
    """Return the threshold of each risk measure, by its position, from one number for all or one for each by title.

    A title of a measure serves for all its scenarios.
    """
    risks = [i for i, m in enumerate(measures) if m.side is Side.RISK]
    names = {i: {titles[i], measures[i].label(), *_plain(measures[i])} for i in risks}
    if isinstance(max_risk, Mapping):
        for name in max_risk:
            if not any(name in known for known in names.values()):
                raise ParameterError(unknown_name("risk measure", str(name), [titles[i] for i in risks], "the search"))
        asked = {i: next((r for n, r in max_risk.items() if n in names[i]), None) for i in risks}
    else:
        asked = dict.fromkeys(risks, max_risk)
    if absent := [titles[i] for i, r in asked.items() if r is None]:
        raise ParameterError(f"max_risk gives no threshold for {join_names(absent)}.")
    found = {}
    for i, r in asked.items():
        if isinstance(r, bool) or not isinstance(r, Real) or not 0 <= float(r) < math.inf:
            raise ParameterError(f"max_risk must be a number of at least 0; got {r!r}.")
        found[i] = float(r)
    return found


def _plain(measure: Measure) -> set[str]:
    return {measure.measure.label()} if isinstance(measure, Against) else set()


def anchors_of(
    measures: Sequence[Measure], titles: Sequence[str], utility: str | None, unmasked: Sequence[Numbers]
) -> dict[int, float]:
    """Return the utilities that count, with what each is divided by; see `Judge.anchors`."""
    own = [i for i, m in enumerate(measures) if m.side is Side.UTILITY]
    if utility is not None:
        known = {measures[i].label(): i for i in reversed(own)} | {titles[i]: i for i in own}
        if utility not in known:
            raise ParameterError(unknown_name("utility measure", utility, [titles[i] for i in own], "the search"))
        own = [known[utility]]
    if len(own) == 1:
        return {own[0]: 1.0}
    anchors = {i: float(measures[i].value(unmasked[i].mean(axis=0))) for i in own}
    if not all(0 < a < math.inf for a in anchors.values()):
        raise ParameterError(
            "several utilities are compared by their share of the unmasked file's, which is not a positive number for all of "
            f"{join_names(titles[i] for i in own)}. Say which to maximise (maximise=...), or combine them (Weighted, Worst)."
        )
    return anchors
