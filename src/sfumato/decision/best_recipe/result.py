"""What a search found: every point with its risk and utility, the frontier, and the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Measure, Side, Snooper
from sfumato.contract.score import number
from sfumato.decision.best_recipe.chances import Chances, between, chance_of
from sfumato.decision.best_recipe.choice import SearchChoice, choice_of
from sfumato.decision.best_recipe.finals import Confirmed
from sfumato.decision.best_recipe.judge import Judge
from sfumato.decision.best_recipe.scenarios import Against
from sfumato.decision.best_recipe.space import Family
from sfumato.decision.best_recipe.trials import Look
from sfumato.errors import ParameterError, unknown_name
from sfumato.microdata import Microdata
from sfumato.rumap.choice import named

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Numbers = NDArray[np.float64]
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
    looks: tuple[Look, ...]
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
    def points(self) -> tuple[tuple[Look, bool], ...]:
        """The points seen on the whole file, and whether each was confirmed with fresh seeds (then that is what counts)."""
        fresh = {_name(c.look): c.look for c in self.confirmed}
        own = {_name(look): look for look in self.looks if self._whole(look)}
        return tuple((fresh.get(key, look), key in fresh) for key, look in {**own, **fresh}.items())

    def _whole(self, look: Look) -> bool:
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
        from sfumato.charts.search import methods_chart

        return methods_chart(self.frame, self.frontier(risk, utility), risk, utility or self.maximised)

    def page(self, title: str = "") -> str:
        """Return an interactive page: a slider for the threshold, a switch for the snooper, the recipes in a table.

        It is one HTML file that needs no network, and holds measures and parameters only.
        """
        from sfumato.charts.interactive import interactive_page

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


def _name(look: Look) -> tuple[str, str]:
    return look.family.name, str(look.settings)


def _json(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return number(value) if isinstance(value, float) else value
