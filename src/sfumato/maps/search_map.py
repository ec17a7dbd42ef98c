"""The end of a search: its best points are masked again with fresh seeds, and all that it saw becomes a map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from sfumato.charts.captions import counted
from sfumato.contract import Figure, Measure, Score, Section, Side, Snooper
from sfumato.contract.score import digits
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, join_names, unknown_name
from sfumato.lazy import pd
from sfumato.maps.choice import Choice, ChoiceTask, Estimate, named
from sfumato.maps.judge import Against, Chances, Judge, PointVerdict, between, chance_of, thresholds_of
from sfumato.maps.race import Race, TrustRegion
from sfumato.maps.rumap import MapPoint, MapSubject, RUMap, plain_rows
from sfumato.maps.search_space import Family
from sfumato.maps.trials import Trial, Trials
from sfumato.typing import Numbers

_ROUNDS = 4
"""Rounds in which a family is masked again in full, at points ever nearer to its threshold."""
_BACK = 6
"""Further rounds where no point was safe, each a step further back from the threshold."""
_FAMILIES = 3
"""Families that are confirmed; others follow only while none has a safe point."""
_FURTHER = 4
_CLOSE = 0.01
"""A limit this near below its threshold, as a share of it, is near enough."""


@dataclass(frozen=True, eq=False)
class ConfirmedTrial:
    """A point with what was seen of it under fresh seeds."""

    trial: Trial
    verdict: PointVerdict


@dataclass(eq=False)
class Confirmation:
    """Confirms candidates of a race, each family by itself."""

    race: Race
    records: int
    replications: int
    confirmed: list[ConfirmedTrial] = field(default_factory=list)

    def run(self, families: Sequence[Family]) -> ConfirmedTrial | None:
        """Return the most useful point that is safe under fresh seeds; None if no family has one. The best family first."""
        for place, family in enumerate(families):
            if place >= _FAMILIES and self.best is not None:
                break
            if self._worth(family):
                self._settle(family)
        return self.best

    @property
    def best(self) -> ConfirmedTrial | None:
        """The most useful safe point so far."""
        safe = [c for c in self.confirmed if c.verdict.safe]
        return max(safe, key=lambda c: c.verdict.gain) if safe else None

    def _worth(self, family: Family) -> bool:
        """Whether a family could still win: what the search saw of it is not clearly behind what was confirmed already."""
        found = self.race.best(family, self.records)
        if self.best is None or found is None:
            return found is not None
        return found[0].safe and found[0].gain > self.best.verdict.gain - self._doubt(self.best, found[1])

    def _doubt(self, best: ConfirmedTrial, trial: Trial) -> float:
        """Return how far apart two gains may be by chance: three standard errors of what the search saw of the second."""
        worst = 0.0
        for i, anchor in self.race.judge.anchors.items():
            value, interval = self.race.judge.measures[i].estimate(best.trial.observed[i], 0.683)
            if interval is not None:  # a standard error from many releases, widened to the few that the search saw
                wide = math.sqrt(best.trial.replications / max(trial.replications, 1))
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
        tried: dict[str, ConfirmedTrial] = {}
        for attempt in range(_ROUNDS + _BACK):
            found = self._next(family, moved, tried)
            if found is None:
                return
            seen = race.judge.verdict(found)
            trial = race.trials.trial(family, found.point, self.records, self.replications, f"confirm-{attempt}")
            if not trial.observed:
                return
            fresh = ConfirmedTrial(trial, race.judge.verdict(trial, own=True))
            self.confirmed.append(fresh)
            tried[str(trial.settings)] = fresh
            noise, held = race.judge.noise(trial), any(c.verdict.safe for c in tried.values())
            if -max(_CLOSE, noise) <= fresh.verdict.excess <= 0 or not family.axes or (held and attempt >= _ROUNDS - 1):
                return
            shifts.append(fresh.verdict.excess - seen.excess)
            behind = max(0, attempt + 2 - _ROUNDS)  # nothing held so far: step back in earnest
            moved = math.exp(-sum(shifts) / len(shifts) - _CLOSE / 3 - noise * (0.5 + behind))
            race.reaches[family.name] = TrustRegion(0.06)
            race.refine(family, self.records, _FURTHER, moved=moved)

    def _next(self, family: Family, moved: float, tried: Mapping[str, ConfirmedTrial]) -> Trial | None:
        """Return the best point not yet confirmed that is safe as far as known; None if none is better than one that holds."""
        judge = self.race.judge
        judged = [
            (judge.verdict(trial, moved), trial)
            for trial in self.race.seen(family, self.records) if str(trial.settings) not in tried
        ]  # fmt: skip
        if not judged:
            return None
        verdict, trial = max(judged, key=lambda pair: pair[0].rank)
        held = max((c.verdict.gain for c in tried.values() if c.verdict.safe), default=-math.inf)
        return trial if verdict.safe and verdict.gain > held else None


ONLY = "the snooper"
"""The scenario where there is one snooper alone."""


class SearchTrial(NamedTuple):
    """The trials of a search at a point, on the whole file."""

    number: int
    shared: Trial
    """With the seeds that all points share, so that points can be compared,"""
    judged: Trial
    """and what counts: with fresh seeds, where it was masked again."""
    fresh: bool


@dataclass(frozen=True, eq=False)
class SearchSubject(MapSubject):
    """Recipes that a search looked at; safe is what stays within its limit in 95 % of the releases."""

    families: tuple[Family, ...]
    trials: Trials = field(repr=False)
    names: tuple[str, ...]
    scenarios: Mapping[str, Snooper]
    judge: Judge
    results: tuple[Trial, ...]
    """Everything that was seen, on parts of the file, too."""
    confirmed: tuple[ConfirmedTrial, ...]
    winner: ConfirmedTrial | None
    whole: tuple[Numbers, ...] = field(default=(), repr=False)
    """The observations of each measure on the file as it is."""
    noun: ClassVar[str] = "recipe"
    outcome: ClassVar[str] = "release"
    confirm: ClassVar[int] = 20
    predicts: ClassVar[bool] = True
    shares: ClassVar[bool] = True

    def map(self, refused: Mapping[str, str]) -> RUMap:
        """Return the map of the points seen on the whole file, with the choice; `refused` are recipes that could not be judged."""
        paths = tuple(dict.fromkeys(p for f in self.families for p in f.over))
        unmasked = MapPoint("unmasked", {}, None, self.whole, "unmasked")
        m = RUMap(self, self.points, paths, unmasked if self.whole else None, refused)
        return replace(m, choice=self._choice(m))

    @cached_property
    def points(self) -> tuple[MapPoint, ...]:
        """The points seen on the whole file."""
        own = {_name(trial): trial for trial in self.results if trial.observed and trial.records >= len(self.data)}
        fresh = {_name(c.trial): c.trial for c in self.confirmed}
        points = []
        for number, (key, trial) in enumerate({**own, **fresh}.items()):
            seen = SearchTrial(number, own.get(key, trial), fresh.get(key, trial), key in fresh)
            recipe, at = trial.family.recipe.with_(trial.settings), named(trial.settings) or "as it is"
            points.append(MapPoint(trial.family.name, trial.settings, recipe, seen, at))
        return tuple(points)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]
        """Every measure; a risk once for each snooper."""
        return self.trials.measures

    @property
    def replications(self) -> int:  # type: ignore[override]
        """Least number of times a point was masked."""
        return min(trial.replications for trial in self.results if trial.observed)

    @property
    def data(self) -> Microdata:
        """The file that was searched."""
        return self.trials.data

    @property
    def taken_up(self) -> int:
        """Number of points found in the file of an earlier, interrupted search."""
        return self.trials.archive.taken_up

    @override
    def titles(self) -> tuple[str, ...]:
        return self.names

    @override
    def settings_of(self, point: MapPoint) -> dict[str, Any]:
        return dict(point.settings)

    @override
    def limits(self, m: RUMap, max_risk: Any) -> dict[int, float]:
        return thresholds_of(self.measures, self.names, max_risk)

    # -- numbers

    @cached_property
    def chances(self) -> Chances:
        """The evidence on which points are on the frontier."""
        return Chances(self.measures, [p.seen.shared for p in self.points], self.trials.draws)

    @override
    def estimate(self, measure: int, point: MapPoint) -> Estimate:
        if not isinstance(point.seen, SearchTrial):
            with np.errstate(divide="ignore", invalid="ignore"):
                return float(self.measures[measure].value(point.seen[measure].mean(axis=0))), None
        if point.seen.number < 0:
            return self.measures[measure].estimate(point.seen.judged.observed[measure])
        value, low, high = self.chances.intervals[measure][:, point.seen.number]
        return float(value), (float(low), float(high))

    @override
    def limit(self, measure: int, point: MapPoint) -> float:
        if not isinstance(point.seen, SearchTrial):
            return math.nan
        return self.judge.limit(point.seen.judged, measure, point.seen.fresh)

    @override
    def score(self, measure: int, point: MapPoint) -> Score:
        score = self.measures[measure].to_score(point.seen.judged.observed[measure], self.data.schema)
        return replace(score, measure=self.names[measure])

    @override
    def again(self, point: MapPoint, times: int) -> tuple[MapPoint, str]:
        trial = point.seen.judged
        fresh = self.trials.trial(trial.family, trial.point, len(self.data), times, "choose again")
        how = f"; masked {times:,} times with fresh seeds, 95 % of the releases stay within the threshold"
        return replace(point, seen=SearchTrial(-1, trial, fresh, True)), how

    def _choice(self, m: RUMap) -> Choice:
        """Return the most useful recipe within the thresholds, confirmed with fresh seeds; or why there is none."""
        task = ChoiceTask(m, {self.names[i]: r for i, r in self.judge.thresholds.items()}, self.maximised)
        if self.winner is None:
            return Choice(False, {}, self._why_not(m), max_risk=task.allowed, limits={})
        (point,) = (p for p in m.points if p.seen.judged is self.winner.trial)
        reason = (
            f"the most useful release whose risk holds; masked {self.winner.trial.replications:,} times with fresh seeds, "
            "95 % of the releases stay within the threshold"
        )
        return replace(task.chosen(point, ""), reason=reason)

    def _why_not(self, m: RUMap) -> str:
        """Return which point came nearest, and by how much it misses."""
        judge = self.judge
        judged = [(judge.verdict(p.seen.judged, own=p.seen.fresh), p) for p in m.points]
        if not judged:
            return "no recipe could be judged on the whole file."
        tried = join_names((f.name for f in self.families if f.name not in m.refused), 6)
        if any(v.excess <= 0 and not v.safe for v, _ in judged) and not any(v.safe for v, _ in judged):
            uses = join_names(self.names[i] for i in judge.anchors)
            return (
                f"where the risk of the recipes ({tried}) holds, they leave nothing to work out {uses} from. Allow more risk, or "
                "measure another utility."
            )
        # what fresh seeds have shown not to hold is nearer to the truth than what a few of the search's own say
        fresh_first = [j for j in judged if j[1].seen.fresh] or judged
        _, point = min(fresh_first, key=lambda j: j[0].excess)
        closest = ", and ".join(
            f"{self.names[i]} stays below {digits(self.limit(i, point), 4)} in 95 % of the releases, where {digits(r, 4)} is "
            "allowed"
            for i, r in judge.thresholds.items()
        )
        settings = f" at {point.at}" if point.settings else ""
        return (
            f"none of the recipes ({tried}) reaches the threshold. Nearest is {point.family}{settings}: {closest}. "
            "Allow more risk, widen the ranges, or add a stronger recipe."
        )

    # -- the frame and the frontier

    @override
    def columns(self, measure: int, point: MapPoint) -> dict[str, Any]:
        risk, seen = self.measures[measure].side is Side.RISK, point.seen
        if not isinstance(seen, SearchTrial):
            counts = {"replications": len(seen[measure]), "confirmed": 0}
            state = {"meets": False, "chosen": False, "probability": np.nan}
        else:
            counts = {
                "replications": seen.shared.replications,
                "confirmed": seen.judged.replications if seen.fresh else 0,
            }
            state = {**self._state(seen), "probability": self._sure[seen.number]}
        return {
            "measure": self._plain(measure), "scenario": self._scenario(measure) if risk else "", **counts,
            "threshold": self.judge.thresholds[measure] if risk else np.nan, **state,
        }  # fmt: skip

    def _state(self, seen: SearchTrial) -> dict[str, Any]:
        meets = self.judge.verdict(seen.judged, own=seen.fresh).excess <= 0
        return {"meets": meets, "chosen": self.winner is not None and seen.judged is self.winner.trial}

    @cached_property
    def _sure(self) -> Numbers:
        return chance_of(*self._plane(None, None))

    def _plain(self, i: int) -> str:
        """Return a measure's title without the scenario."""
        measure = self.measures[i]
        return measure.measure.label() if isinstance(measure, Against) else self.names[i]

    def _scenario(self, i: int) -> str:
        measure = self.measures[i]
        return measure.scenario if isinstance(measure, Against) else ONLY

    def _axis(self, side: Side, name: str | None) -> list[int]:
        """Return the measures that make an axis: a risk against every snooper, or a utility."""
        own = [i for i, m in enumerate(self.measures) if m.side is side]
        wanted = self._plain(own[0]) if name is None else name
        axis = [i for i in own if wanted in (self._plain(i), self.names[i], self.measures[i].label())]
        if not axis:
            known = list(dict.fromkeys(self._plain(i) for i in own))
            raise ParameterError(unknown_name(f"{side} measure", wanted, known, "the search"))
        return axis

    def _plane(self, risk: str | None, utility: str | None) -> tuple[Numbers, Numbers]:
        uses = self.judge.anchors if utility is None else {self._axis(Side.UTILITY, utility)[0]: 1.0}
        return self.chances.plane(self._axis(Side.RISK, risk), uses)

    @override
    def frontier(self, m: RUMap, risk: str | None, utility: str | None) -> list[dict[str, Any]]:
        if not m.points:
            return []
        r, u = self._plane(risk, utility)
        chance, risks = chance_of(r, u), self._axis(Side.RISK, risk)
        (r_low, r_high), (u_low, u_high) = between(r), between(u)
        return [
            {
                "point": p, "family": q.family, "settings": q.at, "risk": r[0, p], "risk_low": r_low[p],
                "risk_high": r_high[p], "limit": max(self.limit(i, q) for i in risks), "utility": u[0, p],
                "utility_low": u_low[p], "utility_high": u_high[p], "probability": chance[p], **self._state(q.seen),
            }
            for p, q in enumerate(m.points) if not math.isnan(chance[p])
        ]  # fmt: skip

    @cached_property
    def parts(self) -> pd.DataFrame:
        """The trials on parts of the file, point by point, with the number of records."""
        rows = []
        for trial in (trial for trial in self.results if trial.observed):
            values = {self.names[i]: float(m.estimate(trial.observed[i])[0]) for i, m in enumerate(self.measures)}
            rows.append({"family": trial.family.name, "records": trial.records, **trial.settings, **values})
        return pd.DataFrame(rows)

    # -- for people and machines

    @property
    def maximised(self) -> str | None:
        """The title of the utility that counts; None where it is the smallest share of several."""
        own = tuple(self.judge.anchors)
        return self._plain(own[0]) if len(own) == 1 else None

    @override
    def drawing(
        self, m: RUMap, max_risk: Any, choice: Choice | None, risk: str | None, utility: str | None
    ) -> dict[str, Any]:
        return {"frontier": m.frontier(risk, utility), "risk": risk, "utility": utility or self.maximised}

    @override
    def section(self, m: RUMap, max_risk: Any, choice: Choice | None) -> Section:
        choice = m.choice if choice is None else choice
        sentences = [f"{counted(len(self.families), 'recipe')} at {counted(len(m.points), 'setting')}: {choice}."]
        figure = Figure(m.chart(max_risk, choice).to_dict(), "Every setting that was tried: risk and utility.")
        return Section("Risk and utility of recipes", tuple(sentences), (figure,))

    @override
    def facts(self, m: RUMap) -> dict[str, Any]:
        first, then = ("replications", "confirmed", "side", "measure", "scenario"), ("value", "low", "high", "limit")
        last = ("threshold", "unmasked", "meets", "chosen", "probability")
        names = {n: n for n in (*m.parameters, *first, *then, *last)}
        points = m.records({"point": "point", "family": "family", "recipe": "settings", **names}, "unmasked")
        for row in points:
            row["unmasked"] = None if row["side"] == "risk" else row["unmasked"]
        front = plain_rows(m.frontier().rename(columns={"settings": "recipe"}))
        assert m.choice is not None  # noqa: S101 - a search always chooses, or says why not
        return {
            "families": [{"name": f.name, "recipe": f.recipe.to_toml(withhold=True), "searched": f.describe()}
                         for f in self.families],
            "snoopers": {name or ONLY: s.describe() for name, s in self.scenarios.items()},
            "thresholds": {self.names[i]: r for i, r in self.judge.thresholds.items()},
            "refused": dict(m.refused), "choice": m.choice.to_dict(), "frontier": front, "points": points,
            "records": len(self.data),
        }  # fmt: skip


def _name(trial: Trial) -> tuple[str, str]:
    return trial.family.name, str(trial.settings)
