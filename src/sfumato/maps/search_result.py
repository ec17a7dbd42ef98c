"""What a search found: every point, the frontier, and the choice, confirmed with fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from sfumato.contract.draws import Draws
from sfumato.contract.mask import Recipe
from sfumato.contract.measure import Measure
from sfumato.contract.score import Side, number
from sfumato.contract.snooper import Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError, join_names, unknown_name
from sfumato.maps.choice import Choice, named
from sfumato.maps.judge import Against, Chances, Judge, PointVerdict, between, chance_of
from sfumato.maps.race import Race, TrustRegion
from sfumato.maps.search_space import Family
from sfumato.maps.trials import Trial
from sfumato.typing import Numbers

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# --- finals
# The last round: the best points of a search are masked again with fresh seeds, and moved until their risk holds there.

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

    look: Trial
    standing: PointVerdict


@dataclass(eq=False)
class Finals:
    """Confirms candidates of a race, each family by itself."""

    race: Race
    records: int
    replications: int
    confirmed: list[Confirmed] = field(default_factory=list)

    def run(self, families: Sequence[Family]) -> Confirmed | None:
        """Return the most useful point that is safe under fresh seeds; None if no family has one. The best family first."""
        for place, family in enumerate(families):
            if place >= _FAMILIES and self.best is not None:
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

    def _doubt(self, best: Confirmed, look: Trial) -> float:
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
            race.reaches[family.name] = TrustRegion(0.06)
            race.refine(family, self.records, _FURTHER, moved=moved)

    def _next(self, family: Family, moved: float, tried: Mapping[str, Confirmed]) -> Trial | None:
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


# --- choice
# The choice of a search: the recipe with its risk and utility, or why there is none.


@dataclass(frozen=True)
class SearchChoice(Choice):
    """The chosen recipe with its risk and utility, or the reason why there is none."""

    family: str = ""
    recipe: Recipe | None = field(default=None, compare=False)
    limits: Mapping[str, float] = field(default_factory=dict)
    """By risk: the value below which 95 % of the releases stay."""

    def __str__(self) -> str:
        if not self.feasible:
            return f"infeasible: {self.reason}"
        with_ = f" with {named(self.settings)}" if self.settings else ""
        return f"{self.family}{with_}: {self.reason}"

    @override
    def to_dict(self) -> dict[str, Any]:
        limits = {k: number(v) for k, v in self.limits.items()}
        return {**super().to_dict(), "family": self.family, "limits": limits}


def choice_of(found: SearchResult) -> SearchChoice:
    """Return the most useful recipe within the thresholds, confirmed with fresh seeds; or why there is none.

    Risks, utilities and limits are all of the fresh releases.
    """
    allowed = {found.titles[i]: r for i, r in found.judge.thresholds.items()}
    if found.winner is None:
        return SearchChoice(False, {}, _why_not(found), max_risk=allowed)
    return _chosen(found, found.winner, allowed)


def _chosen(found: SearchResult, winner: Confirmed, allowed: Mapping[str, float]) -> SearchChoice:
    look = winner.look
    scores = [
        replace(m.to_score(o, found.data.schema), measure=title)
        for m, o, title in zip(found.measures, look.observed, found.titles, strict=True)
    ]
    reason = (
        f"the most useful release whose risk holds; masked {look.replications:,} times with fresh seeds, 95 % of the "
        "releases stay within the threshold"
    )
    return SearchChoice(
        True, look.settings, reason,
        tuple(scores[i] for i in found.of_side(Side.RISK)), tuple(scores[i] for i in found.of_side(Side.UTILITY)),
        allowed, look.family.name, look.family.recipe.with_(look.settings),
        {found.titles[i]: found.judge.limit(look, i, own=True) for i in found.judge.thresholds},
    )  # fmt: skip


def _why_not(found: SearchResult) -> str:
    """Return which point came nearest, and by how much it misses."""
    judge = found.judge
    judged = [(judge.verdict(look, own=fresh), look, fresh) for look, fresh in found.points]
    if not judged:
        return "no recipe could be judged on the whole file."
    tried = join_names((f.name for f in found.families if f.name not in found.refused), 6)
    if any(v.excess <= 0 and not v.safe for v, _, _ in judged) and not any(v.safe for v, _, _ in judged):
        uses = join_names(found.titles[i] for i in judge.anchors)
        return (
            f"where the risk of the recipes ({tried}) holds, they leave nothing to work out {uses} from. Allow more risk, or "
            "measure another utility."
        )
    # what fresh seeds have shown not to hold is nearer to the truth than what a few of the search's own say
    fresh_first = [j for j in judged if j[2]] or judged
    _, look, fresh = min(fresh_first, key=lambda j: j[0].excess)
    closest = ", and ".join(
        f"{found.titles[i]} stays below {judge.limit(look, i, fresh):.4g} in 95 % of the releases, where {r:.4g} is allowed"
        for i, r in judge.thresholds.items()
    )
    settings = f" at {named(look.settings)}" if look.settings else ""
    return (
        f"none of the recipes ({tried}) reaches the threshold. Nearest is {look.family.name}{settings}: {closest}. "
        "Allow more risk, widen the ranges, or add a stronger recipe."
    )


# --- result
# What a search found: every point with its risk and utility, the frontier, and the choice.


ONLY = "the snooper"
"""The scenario where there is one snooper alone."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Every point that a search looked at, the frontier, and the choice; made by `search`."""

    families: tuple[Family, ...]
    measures: tuple[Measure, ...]
    titles: tuple[str, ...]
    scenarios: Mapping[str, Snooper]
    judge: Judge
    data: Microdata
    looks: tuple[Trial, ...]
    confirmed: tuple[Confirmed, ...]
    winner: Confirmed | None
    refused: Mapping[str, str]
    """Recipes that could not be judged, with the reason."""
    draws: Draws
    taken_up: int = 0
    """How many points were found in the file of an earlier, interrupted search."""
    whole: tuple[Numbers, ...] = field(default=(), repr=False)
    """What each measure observed of the file as it is."""

    def of_side(self, side: Side) -> tuple[int, ...]:
        """Return the positions of the risk or utility measures."""
        return tuple(i for i, m in enumerate(self.measures) if m.side is side)

    @cached_property
    def points(self) -> tuple[tuple[Trial, bool], ...]:
        """The points seen on the whole file, and whether each was confirmed with fresh seeds (then that is what counts)."""
        fresh = {_name(c.look): c.look for c in self.confirmed}
        own = {_name(look): look for look in self.looks if self._whole(look)}
        return tuple((fresh.get(key, look), key in fresh) for key, look in {**own, **fresh}.items())

    def _whole(self, look: Trial) -> bool:
        return bool(look.observed) and look.records >= len(self.data)

    @cached_property
    def choice(self) -> SearchChoice:
        """The most useful recipe within the thresholds, confirmed with fresh seeds; or why there is none."""
        return choice_of(self)

    # -- as frames

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every point seen on the whole file: one row per point and measure; risks once for each snooper.

        Values and intervals are of the `replications` that the search saw, with the same seeds at all points, so that they can
        be compared. Where a point was masked again with fresh seeds, `confirmed` says how often, and `limit` and `meets` are of
        those releases alone.
        """
        import pandas as pd

        paths = tuple(dict.fromkeys(p for f in self.families for p in f.over))
        chances = chance_of(*self._plane(None, None)) if self.points else np.empty(0)
        rows: list[dict[str, Any]] = []
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = zip(self.measures, self.whole, strict=True) if self.whole else ()
            unmasked = [float(m.value(o.mean(axis=0))) for m, o in seen] or [np.nan] * len(self.measures)
        for p, (look, fresh) in enumerate(self.points):
            verdict = self.judge.verdict(look, own=fresh)
            about = {
                "point": p, "family": look.family.name, "recipe": named(look.settings) or "as it is",
                **{path: look.settings.get(path, np.nan) for path in paths}, "replications": self._chances.looks[p].replications,
                "confirmed": look.replications if fresh else 0,
            }  # fmt: skip
            chosen = self.winner is not None and look is self.winner.look
            for i, measure in enumerate(self.measures):
                value, low, high = self._chances.intervals[i][:, p]
                risk = measure.side is Side.RISK
                rows.append(
                    {
                        **about, "side": measure.side.value, "measure": self._plain(i),
                        "scenario": self._scenario(i) if risk else "", "value": value, "low": low, "high": high,
                        "limit": self.judge.limit(look, i, fresh) if risk else np.nan,
                        "threshold": self.judge.thresholds[i] if risk else np.nan,
                        "unmasked": np.nan if risk else unmasked[i],
                        "meets": verdict.excess <= 0, "chosen": chosen, "probability": chances[p],
                    }
                )  # fmt: skip
        return pd.DataFrame(rows)

    def _plain(self, i: int) -> str:
        """Return a measure's title without the scenario."""
        measure = self.measures[i]
        return measure.measure.label() if isinstance(measure, Against) else self.titles[i]

    def _scenario(self, i: int) -> str:
        measure = self.measures[i]
        return measure.scenario if isinstance(measure, Against) else ONLY

    def _axis(self, side: Side, name: str | None) -> list[int]:
        """Return the measures that make an axis: a risk against every snooper, or a utility."""
        own = self.of_side(side)
        wanted = self._plain(own[0]) if name is None else name
        found = [i for i in own if wanted in (self._plain(i), self.titles[i], self.measures[i].label())]
        if not found:
            known = list(dict.fromkeys(self._plain(i) for i in own))
            raise ParameterError(unknown_name(f"{side} measure", wanted, known, "the search"))
        return found

    @cached_property
    def _chances(self) -> Chances:
        own = {_name(look): look for look in self.looks if self._whole(look)}
        return Chances(self.measures, [own.get(_name(look), look) for look, _ in self.points], self.draws)

    def _plane(self, risk: str | None, utility: str | None) -> tuple[Numbers, Numbers]:
        uses = self.judge.anchors if utility is None else {self._axis(Side.UTILITY, utility)[0]: 1.0}
        return self._chances.plane(self._axis(Side.RISK, risk), uses)

    def frontier(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Return the points that may well be on the frontier, with the probability that no other beats them; safest first.

        `risk` and `utility` name measures; without names, the first risk (against the worst of the snoopers) and the utility
        that is maximised. Points that are beaten by the estimates but may not be in truth (probability above 0.05) are in it.
        """
        import pandas as pd

        if not self.points:
            return pd.DataFrame()
        r, u = self._plane(risk, utility)
        chance, risks = chance_of(r, u), self._axis(Side.RISK, risk)
        (r_low, r_high), (u_low, u_high) = between(r), between(u)
        rows = [
            {
                "point": p, "family": look.family.name, "recipe": named(look.settings) or "as it is", "risk": r[0, p],
                "risk_low": r_low[p], "risk_high": r_high[p],
                "limit": max(self.judge.limit(look, i, fresh) for i in risks), "utility": u[0, p],
                "utility_low": u_low[p], "utility_high": u_high[p], "probability": chance[p],
                "meets": self.judge.verdict(look, own=fresh).excess <= 0,
                "chosen": self.winner is not None and look is self.winner.look,
            }
            for p, (look, fresh) in enumerate(self.points) if not math.isnan(chance[p])
        ]  # fmt: skip
        return pd.DataFrame(rows).sort_values("risk", ignore_index=True) if rows else pd.DataFrame(rows)

    @cached_property
    def parts(self) -> pd.DataFrame:
        """What was seen on parts of the file: point by point, with the number of records; for charts of parameters."""
        import pandas as pd

        rows = []
        for look in self.looks:
            if look.observed:
                values = {self.titles[i]: float(m.estimate(look.observed[i])[0]) for i, m in enumerate(self.measures)}
                rows.append({"family": look.family.name, "records": look.records, **look.settings, **values})
        return pd.DataFrame(rows)

    # -- for people and machines

    @property
    def maximised(self) -> str | None:
        """The title of the utility that counts; None where it is the smallest share of several."""
        own = tuple(self.judge.anchors)
        return self._plain(own[0]) if len(own) == 1 else None

    def chart(self, risk: str | None = None, utility: str | None = None) -> alt.TopLevelMixin:
        """Draw every point, risk against utility, with the frontier, the threshold and the choice."""
        from sfumato.charts.search_chart import methods_chart

        return methods_chart(self.frame, self.frontier(risk, utility), risk, utility or self.maximised)

    def page(self, title: str = "") -> str:
        """Return an interactive page: a slider for the threshold, a switch for the snooper, the recipes in a table.

        It is one HTML file that needs no network, and holds measures and parameters only.
        """
        from sfumato.charts.search_chart import interactive_page

        name = title or "Risk and utility of the recipes tried"
        return interactive_page(self.frame, self.frontier(), name, utility=self.maximised)

    def __str__(self) -> str:
        return str(self.choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the search for machines; no seed and no record's value is in it."""
        rows = self.frame.to_dict(orient="records")
        clean = [{str(k): _json(v) for k, v in row.items()} for row in rows]
        front = [{str(k): _json(v) for k, v in row.items()} for row in self.frontier().to_dict(orient="records")]
        return {
            "families": [{"name": f.name, "recipe": f.recipe.to_toml(withhold=True), "searched": f.describe()}
                         for f in self.families],
            "snoopers": {name or ONLY: s.describe() for name, s in self.scenarios.items()},
            "thresholds": {self.titles[i]: r for i, r in self.judge.thresholds.items()},
            "refused": dict(self.refused), "choice": self.choice.to_dict(), "frontier": front, "points": clean,
            "records": len(self.data),
        }  # fmt: skip


def _name(look: Trial) -> tuple[str, str]:
    return look.family.name, str(look.settings)


def _json(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return number(value) if isinstance(value, float) else value
