"""The R-U confidentiality map: disclosure risk R and data utility U of all that was tried, and the best safe choice."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato import charts
from sfumato.contract import Draws, Holdout, Mask, Measure, Recipe, Release, Score, Section, Side, Snooper
from sfumato.contract.score import digits, number
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError, RecipeError, unknown_name
from sfumato.lazy import pd
from sfumato.maps.choice import (
    Choice,
    ChoiceTask,
    Estimate,
    Refinement,
    choose,
    choose_between,
    choose_point,
    limits_of,
    named,
    share_kept,
)
from sfumato.maps.replication import UNMASKED, Evaluator, NormalPopulation, Progress, Settings
from sfumato.risk.attribute_risk import AttributeRisk
from sfumato.typing import Numbers
from sfumato.utility.estimator_utility import EstimatorUtility

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, eq=False)
class MapPoint:
    """Something that was tried: a recipe, a protection or a policy, at some values of its parameters."""

    family: str
    settings: Mapping[str, Any]
    """The parameters that were swept; empty for what was tried as it is."""
    method: Any
    """The recipe, protection or policy with these settings."""
    seen: Any = None
    """The observations, in the form that the map's subject reads; None where there are formulas alone."""
    at: str = ""
    """The settings in words."""
    label: str = ""
    """The recipe, protection or policy in words."""
    formulas: tuple[float, ...] = ()
    """Each measure by formula; NaN where there is none."""


class MapSubject(ABC):
    """The subject of a map: it measures its points, tries them again, and describes the map to people and machines."""

    noun: ClassVar[str]
    """The word for a point: a "protection"."""
    outcome: ClassVar[str]
    """The word for its result: a "table"."""
    confirm: ClassVar[int] = 1
    """Default number of times that the winner is tried again."""
    fewest: int = 0
    """Least number of times that the winner is tried again."""
    predicts: ClassVar[bool] = False
    """Whether a limit is one that 95 % of the outcomes stay below, not the upper end of the mean's interval."""
    positive_limits: ClassVar[bool] = False
    """Whether a limit of 0 is refused."""
    every_limit: ClassVar[bool] = True
    """Whether each risk needs a limit."""
    shares: ClassVar[bool] = False
    """Whether of several utilities the smallest share of the unmasked file's counts; else the first."""
    layout: ClassVar[str] = "families"
    """The layout of the chart."""
    measures: tuple[Any, ...]
    replications: int

    @abstractmethod
    def estimate(self, measure: int, point: MapPoint) -> Estimate:
        """Return a measure's value and its 95 % interval from what was seen at a point."""

    @abstractmethod
    def score(self, measure: int, point: MapPoint) -> Score:
        """Return a measure's value at a point with its meaning."""

    def limit(self, measure: int, point: MapPoint) -> float:
        """Return what is held against a threshold: the upper end of the interval, or the value where there is none."""
        value, interval = self.estimate(measure, point)
        return value if interval is None else interval[1]

    def titles(self) -> tuple[str, ...]:
        """Return a name for each measure that no other has."""
        return titles(self.measures)

    def settings_of(self, point: MapPoint) -> dict[str, Any]:
        """Return what tells a point from all others."""
        return {self.noun: point.family, **point.settings}

    def limits(self, m: RUMap, max_risk: Any) -> dict[int, float]:
        """Return what is allowed of each risk, by its position."""
        return limits_of(m, max_risk)

    def columns(self, measure: int, point: MapPoint) -> dict[str, Any]:
        """Return further columns of the frame."""
        return {}

    def fresh(self) -> MapSubject:
        """Return the subject with unused random numbers, for one choice."""
        return self

    def again(self, point: MapPoint, times: int) -> tuple[MapPoint, str]:
        """Return a point as seen with fresh random numbers, and how, in words; the same point where nothing is random."""
        return point, ""

    def choose(self, task: ChoiceTask, safe: Sequence[int], refine: bool, confirm: int) -> Choice | None:
        """Return the most useful of the safe points whose risk holds when it is tried again; None if none does."""
        return choose_point(task, safe, confirm)

    def why_not(self, task: ChoiceTask) -> str:
        """Say that nothing is safe enough, and what comes nearest."""
        m, nearest = task.map, task.nearest
        shown = ", ".join(
            f"{m.measures[i].label()} {digits(m.estimate(i, nearest)[0], 4)}, where {digits(limit, 4)} is allowed"
            for i, limit in task.limits.items()
        )
        point = m.points[nearest]
        return f"no {self.noun} that was tried is safe enough. The nearest is {point.family} ({point.at}): {shown}."

    def frontier(self, m: RUMap, risk: str | None, utility: str | None) -> list[dict[str, Any]]:
        """Return the rows of `RUMap.frontier`."""
        r, u = m.position(Side.RISK, risk), m.position(Side.UTILITY, utility)
        pairs = [(m.estimate(r, p)[0], m.estimate(u, p)[0]) for p in range(len(m.points))]
        common = [name for name in m.parameters if all(name in q.settings for q in m.points)]
        return [
            {"point": p, "family": q.family, "settings": q.at, **{n: q.settings[n] for n in common},
             "risk": pairs[p][0], "utility": pairs[p][1]}
            for p in undominated(pairs) for q in (m.points[p],)
        ]  # fmt: skip

    def drawing(
        self, m: RUMap, max_risk: Any, choice: Choice | None, risk: str | None, utility: str | None
    ) -> dict[str, Any]:
        """Return what a chart of families needs besides the frame."""
        r, u = (m.measures[m.position(s, n)].label() for s, n in ((Side.RISK, risk), (Side.UTILITY, utility)))
        limits = max_risk if isinstance(max_risk, Mapping) else {r: max_risk}
        if max_risk is None and choice is not None and choice.feasible:
            limits = choice.max_risk
        return {"risk": r, "utility": u, "threshold": limits.get(r), "chosen": m.chosen_point(choice)}

    def chosen_words(self, choice: Choice) -> str:
        """Return what was chosen, as a sentence names it."""
        return str(choice)

    @abstractmethod
    def section(self, m: RUMap, max_risk: Any, choice: Choice | None) -> Section:
        """Return the map as a section of a report."""

    @abstractmethod
    def facts(self, m: RUMap) -> dict[str, Any]:
        """Return the map for machines."""


@dataclass(frozen=True, eq=False)
class RUMap:
    """Risk and utility of all that was tried, with intervals; made by `ru_map`, `search`, `table_map` or `policy_map`.

    Examples
    --------
    >>> from sfumato import ru_map
    >>> from sfumato.maps import NormalPopulation
    >>> from sfumato.masks import KimNoise
    >>> teachers = NormalPopulation({"income": 80, "salary": 50}, [[17.5**2, 8.3**2], [8.3**2, 13.3**2]], n=1000)
    >>> m = ru_map(teachers, KimNoise(), over="kim_noise.lambda2", risk="salary", utility="salary", replications=0)
    >>> round(m.choose(max_risk=1 / 5**2).settings["kim_noise.lambda2"], 4)
    0.1413
    """

    subject: Any
    """The `MapSubject`: recipes on data, protections on a table, or policies on a bench."""
    points: tuple[MapPoint, ...]
    parameters: tuple[str, ...]
    """The parameters that were swept."""
    baseline: MapPoint | None = None
    """The file as it is, or the table without protection."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Measures that do not apply, and what could not be tried, with the reason."""
    choice: Choice | None = None
    """The choice of a search; None for a map that was only traced."""

    @property
    def measures(self) -> tuple[Any, ...]:
        """Every measure of the map."""
        return tuple(self.subject.measures)

    @property
    def replications(self) -> int:
        """Number of times each point was tried; 0 for formulas alone."""
        return int(self.subject.replications)

    @property
    def titles(self) -> tuple[str, ...]:
        """A name for each measure that no other has: its label, with the variant where a label stands twice."""
        return tuple(self.subject.titles())

    def of_side(self, side: Side) -> tuple[int, ...]:
        """Return the positions of the risk or utility measures."""
        return tuple(i for i, m in enumerate(self.measures) if m.side is side)

    def position(self, side: Side, label: str | None) -> int:
        """Return which measure a title or label names; the first of its side if none is named."""
        own = self.of_side(side)
        if label is None:
            return own[0]
        known = {self.measures[i].label(): i for i in reversed(own)} | {self.titles[i]: i for i in own}
        if label not in known:
            raise ParameterError(unknown_name(f"{side} measure", label, [self.titles[i] for i in own], "the map"))
        return known[label]

    # -- numbers

    @property
    def _everything(self) -> tuple[MapPoint, ...]:
        return self.points if self.baseline is None else (*self.points, self.baseline)

    def estimate(self, measure: int, point: int) -> Estimate:
        """Return a measure's value and 95 % interval at a point: as observed where anything was, else by formula.

        The point after the last is the baseline.
        """
        at = self._everything[point]
        if at.seen is not None:
            found: Estimate = self.subject.estimate(measure, at)
            return found
        return at.formulas[measure], (at.formulas[measure],) * 2

    def limit(self, measure: int, point: int) -> float:
        """Return what is held against a threshold: the upper end of the risk's interval; for a search a prediction limit."""
        at = self._everything[point]
        return at.formulas[measure] if at.seen is None else float(self.subject.limit(measure, at))

    def unmasked(self, measure: int) -> float:
        """Return a measure's value for the baseline; NaN where there is none."""
        return math.nan if self.baseline is None else self.estimate(measure, len(self.points))[0]

    @property
    def observations(self) -> tuple[Numbers, ...]:
        """Per measure, shape (points + 1, replications, k), for a map of a recipe; the last point is the unmasked file."""
        return tuple(np.stack([p.seen[i] for p in self._everything]) for i in range(len(self.measures)))

    @property
    def analytic(self) -> tuple[Numbers, ...]:
        """Per measure its values by formula, shape (points + 1,), for a map of a recipe; NaN where there is none."""
        return tuple(np.array([p.formulas[i] for p in self._everything]) for i in range(len(self.measures)))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the frame."""
        rows = []
        for p, point in enumerate(self._everything):
            swept = {name: point.settings.get(name, np.nan) for name in self.parameters}
            about = {"point": p, "family": point.family, "settings": point.at, **swept, "masked": p < len(self.points)}
            for i, measure in enumerate(self.measures):
                row = {**about, "side": measure.side.value, "measure": measure.label(), "variant": measure.variant}
                risk = measure.side is Side.RISK
                if point.seen is not None:
                    value, interval = self.estimate(i, p)
                    low, high = interval or (np.nan, np.nan)
                    ends = {"low": low, "high": high, "limit": self.limit(i, p) if risk else np.nan}
                    rows.append(
                        {**row, "source": "empirical", "value": value, **ends, **self.subject.columns(i, point)}
                    )
                if point.formulas and not math.isnan(formula := point.formulas[i]):
                    ends = {"low": formula, "high": formula, "limit": formula if risk else np.nan}
                    rows.append({**row, "source": "analytic", "value": formula, **ends})
        return rows

    def frame(self) -> pd.DataFrame:
        """Return the map as a tidy frame: one row per point, measure and source.

        The columns are the point's number, `family`, `settings` in words and one column for each swept parameter; `masked`
        (False for the baseline); `side`, `measure` and `variant`; `source` (empirical or analytic); `value` with its 95 %
        interval from `low` to `high`; and `limit`, what is held against a threshold. The frame of a search has more: see
        `search`.
        """
        return pd.DataFrame(self.rows)

    def frontier(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Return the points that no other point beats in both risk and utility, safest first.

        The frontier of a search has intervals, and the probability that no other point beats a point: points that are beaten
        by the estimates, but may not be in truth (probability above 0.05), are in it.
        """
        rows = self.subject.frontier(self, risk, utility)
        return pd.DataFrame(rows).sort_values("risk", ignore_index=True) if rows else pd.DataFrame()

    # -- for people and machines

    def choose(
        self,
        max_risk: float | Mapping[str, float] | None = None,
        utility: str | None = None,
        *,
        refine: bool = True,
        confirm: int | None = None,
    ) -> Choice:
        """Return what has the largest utility among all whose risk stays at or below `max_risk`.

        Parameters
        ----------
        max_risk
            One limit for every risk measure, or one for each by its label; a search has chosen under its own already. A risk is
            judged on the upper end of its 95 % interval; in the map of a search, on the value below which 95 % of the
            releases stay.
        utility
            Which of several utilities to maximise. If not given: in a map of recipes the smallest share of the unmasked
            file's utility, else the first.
        refine
            Whether to go on between the points of a map over one parameter of a recipe.
        confirm
            How often the winner is tried again with fresh random numbers. If its risk does not hold there, a safer one is
            taken.
        """
        if max_risk is None and self.choice is not None:
            return self.choice
        return choose(self, max_risk, utility, refine, self.subject.confirm if confirm is None else int(confirm))

    def chosen_point(self, choice: Choice | None) -> int | None:
        """Return the number of the point that was chosen; None if none was, or if it lies between the points."""
        if choice is None or not choice.feasible:
            return None
        wanted = choice.family, dict(choice.settings)
        own = ((q.family, dict(self.subject.settings_of(q))) for q in self.points)
        return next((p for p, settings in enumerate(own) if settings == wanted), None)

    def chart(
        self,
        max_risk: float | Mapping[str, float] | None = None,
        choice: Choice | None = None,
        risk: str | None = None,
        utility: str | None = None,
    ) -> alt.TopLevelMixin:
        """Draw risk against utility with the frontier or the curves, the threshold, the unmasked utility and the choice.

        A map over one parameter of a recipe also has R and U against the parameter, one over two has heat maps. `risk` and
        `utility` name the measures to draw where there are several; a search draws its own choice.
        """
        choice = self.choice if choice is None else choice
        if self.subject.layout == "families":
            return charts.map_chart.methods_chart(
                self.frame(), **self.subject.drawing(self, max_risk, choice, risk, utility)
            )
        frame = self.frame()
        for side, name in ((Side.RISK, risk), (Side.UTILITY, utility)):
            if name is not None:
                own = self.measures[self.position(side, name)].label()
                frame = frame[(frame["side"] != side.value) | (frame["measure"] == own)]
        return charts.map_chart.map_chart(
            frame, self.parameters, max_risk, choice.settings if choice and choice.feasible else None
        )

    def section(self, max_risk: float | Mapping[str, float] | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""
        section: Section = self.subject.section(self, max_risk, choice)
        return section

    def page(self, title: str = "Risk and utility of the recipes tried") -> str:
        """Return the map of a search as an interactive page: a slider for the threshold, a switch for the snooper, a table.

        It is one HTML file that needs no network, and holds measures and parameters only.
        """
        return charts.search_page.interactive_page(self.frame(), self.frontier(), title, utility=self.subject.maximised)

    def to_dict(self) -> dict[str, Any]:
        """Return the map for machines; no seed and no record's value is in it."""
        facts: dict[str, Any] = self.subject.facts(self)
        return facts

    def records(self, columns: Mapping[str, str], baseline: str = "") -> list[dict[str, Any]]:
        """Return the rows of all points for machines, from new to old names of columns.

        With `baseline`, a column of that name holds what each measure is for the baseline.
        """
        frame = pd.DataFrame([row for row in self.rows if row["masked"]])
        if baseline:
            whole = [self.unmasked(i) for i in range(len(self.measures))]
            frame[baseline] = [whole[k % len(whole)] for k in range(len(frame))]
        if frame.empty:
            return []
        return plain_rows(frame[list(columns.values())].set_axis(list(columns), axis=1))

    def __repr__(self) -> str:
        over = f" over {', '.join(self.parameters)}" if self.parameters else ""
        return f"RUMap({len(self.points):,} points{over}: {', '.join(self.titles)})"

    def _repr_html_(self) -> str:
        """Return the points as a table for a notebook, a row each, the first and the last of many."""
        rows = [
            {
                self.subject.noun: p.family,
                "settings": p.at,
                **{t: self.estimate(i, k)[0] for i, t in enumerate(self.titles)},
            }
            for k, p in enumerate(self._everything)
        ]
        return str(pd.DataFrame(rows).to_html(index=False, max_rows=20))

    def __str__(self) -> str:
        return repr(self) if self.choice is None else str(self.choice)


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame for JSON: numbers that it cannot hold become words or null."""
    rows = frame.to_dict(orient="records")
    return [{str(k): _plain(v) for k, v in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return number(value) if isinstance(value, float) else value


def undominated(pairs: Sequence[tuple[float, float]]) -> list[int]:
    """Return which pairs of risk and utility no other pair beats; those with NaN are left out.

    >>> undominated([(1.0, 1.0), (0.5, 1.0), (0.1, 0.2), (0.2, 0.1)])
    [1, 2]
    """
    return [
        p
        for p, (a, b) in enumerate(pairs)
        if not np.isnan(a + b) and not any((c <= a and d >= b) and (c < a or d > b) for c, d in pairs)
    ]


# -- the map of a recipe on data

DEFAULT_GRID = tuple(float(v) for v in np.geomspace(0.01, 1.0, 25))


@dataclass(frozen=True, eq=False)
class RecipeSubject(MapSubject):
    """A recipe on data, masked again and again at every point, or by formula."""

    evaluator: Evaluator
    replications: int
    noun: ClassVar[str] = "recipe"
    outcome: ClassVar[str] = "release"
    confirm: ClassVar[int] = 200
    positive_limits: ClassVar[bool] = True
    shares: ClassVar[bool] = True
    layout: ClassVar[str] = "sweep"

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]
        """Every measure of the map."""
        return self.evaluator.measures

    @override
    def settings_of(self, point: MapPoint) -> dict[str, Any]:
        return dict(point.settings)

    @override
    def estimate(self, measure: int, point: MapPoint) -> Estimate:
        return self.measures[measure].estimate(point.seen[measure])

    @override
    def limit(self, measure: int, point: MapPoint) -> float:
        interval = self.estimate(measure, point)[1]
        return math.inf if interval is None else interval[1]  # what has no interval is not known to be safe

    @override
    def score(self, measure: int, point: MapPoint) -> Score:
        return self.measures[measure].to_score(point.seen[measure], self.evaluator.source.schema)

    @property
    def fewest(self) -> int:  # type: ignore[override]
        """With formulas alone, nothing is confirmed."""
        return 2 if self.replications else 0

    @override
    def choose(self, task: ChoiceTask, safe: Sequence[int], refine: bool, confirm: int) -> Choice:
        return choose_between(task, safe[0], refine, confirm)

    @override
    def why_not(self, task: ChoiceTask) -> str:
        return Refinement(task).why_not()

    @override
    def section(self, m: RUMap, max_risk: Any, choice: Choice | None) -> Section:
        from sfumato.maps.section import sweep_section

        return sweep_section(m, max_risk, choice)

    @override
    def facts(self, m: RUMap) -> dict[str, Any]:
        shown = [*m.parameters, "masked", "side", "measure", "variant", "source", "value", "low", "high"]
        return {
            "parameters": list(m.parameters), "replications": m.replications,
            "snooper": self.evaluator.snooper.describe(), "not_applicable": dict(m.refused),
            "points": plain_rows(m.frame()[["point", *shown]]),
        }  # fmt: skip


def ru_map(
    data: Microdata | NormalPopulation,
    method: Mask | Recipe,
    over: str | Mapping[str, Sequence[float]],
    risk: Any,
    utility: Any,
    *,
    snooper: Snooper | None = None,
    replications: int = 200,
    draws: Draws | int | None = None,
    progress: Progress | None = None,
    workers: int = 1,
    holdout: Holdout | None = None,
) -> RUMap:
    """Trace risk and utility over the parameters of a method.

    Parameters
    ----------
    data
        The file, or a `NormalPopulation` from which every replication draws afresh.
    method
        A mask or a recipe.
    over
        Parameter(s) to sweep: ``"kim_noise.lambda2"`` (25 values from 0.01 to 1), or a mapping from parameter to values,
        such as ``{"kim_noise.lambda2": [0.05, 0.1, 0.2]}``; with several parameters, all combinations.
    risk, utility
        One measure or several. A column's name is short for `AttributeRisk` or for the mean's utility; a formula
        ("salary ~ age"), weights of means or a function is short for an estimator's utility.
    snooper
        What the attacker knows; the paper's index-knowledge snooper if not given.
    replications
        How often each point is masked; 0 for formulas alone.
    draws
        Randomness; a fresh secret seed if not given.
    progress
        Told after each replication how many are done, and of how many.
    workers
        How many replications run side by side; the result does not depend on it.
    holdout
        Records set aside before masking (`hold_out`), for the measures that need them.
    """
    recipe = method if isinstance(method, Recipe) else method.as_recipe()
    grid = _grid(recipe, over)
    if not isinstance(replications, int) or replications < 0 or replications == 1:
        raise ParameterError("replications must be 0 (formulas alone), or at least 2 so that there is an interval.")
    source = draws if isinstance(draws, Draws) else Draws.secret() if draws is None else Draws(draws)
    measures = measures_of(risk, utility)
    measures, refused = applicable(data, recipe, measures, snooper or Snooper(), holdout)
    if twice := sorted(t for t, count in Counter(titles(measures)).items() if count > 1):
        raise ParameterError(
            f"two measures are called '{twice[0]}'. Leave one out, or give it a name of its own (title=)."
        )
    evaluator = replace(
        Evaluator.make(data, recipe, measures, snooper or Snooper(), source), workers=max(1, workers), holdout=holdout
    )
    settings = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    everything: tuple[Settings, ...] = (*settings, UNMASKED)
    formulas = evaluator.analytic(everything)
    without = [i for i, f in enumerate(formulas) if np.isnan(f[:-1]).all()]
    if without and not replications:
        names = ", ".join(evaluator.measures[i].label() for i in without)
        raise RecipeError(f"there is no formula for {names} with this recipe; ask for replications instead.")
    for i in without:
        formulas[i][-1] = np.nan  # a formula for the unmasked file alone is no curve
    observed = evaluator.observe(everything, replications, progress=progress) if replications else []
    family = " then ".join(step.name for step in recipe.steps[1:]) or recipe.steps[0].name

    def point(p: int) -> MapPoint:
        seen = tuple(o[p] for o in observed) if replications else None
        by_formula = tuple(float(f[p]) for f in formulas)
        if p == len(settings):
            return MapPoint(family, {}, recipe.with_none(), seen, "unmasked", "", by_formula)
        return MapPoint(family, settings[p], recipe.with_(settings[p]), seen, named(settings[p]), "", by_formula)

    subject = RecipeSubject(evaluator, replications)
    points = tuple(map(point, range(len(settings))))
    return RUMap(subject, points, tuple(grid), point(len(settings)), refused)


def titles(measures: Sequence[Measure]) -> tuple[str, ...]:
    """Return each measure's label, with the variant where a label stands more than once."""
    count = Counter(m.label() for m in measures)
    return tuple(f"{m.label()} ({m.variant})" if count[m.label()] > 1 and m.variant else m.label() for m in measures)


def applicable(
    data: Microdata | NormalPopulation,
    recipe: Recipe,
    measures: list[Measure],
    snooper: Snooper,
    holdout: Holdout | None = None,
) -> tuple[list[Measure], dict[str, str]]:
    """Tell the measures that apply from those that do not, with the reason, before anything is run."""
    outcome = None if isinstance(data, NormalPopulation) else Release(data, (data,), recipe)
    if outcome is not None and holdout is not None:
        outcome = outcome.with_holdout(holdout)
    kept, refused = [], {}
    for measure in measures:
        try:
            if outcome is not None:
                measure.check(outcome, snooper)
            kept.append(measure)
        except NotApplicable as reason:
            refused[measure.label()] = str(reason)
    for side in Side:
        if not any(m.side is side for m in kept):
            raise NotApplicable(" ".join([f"no {side} measure applies; a map needs one.", *refused.values()]))
    return kept, refused


def _grid(recipe: Recipe, over: str | Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    asked = {over: DEFAULT_GRID} if isinstance(over, str) else dict(over)
    if not asked:
        raise ParameterError("name at least one parameter to sweep, such as over='kim_noise.lambda2'.")
    known = recipe.parameters()
    grid: dict[str, tuple[float, ...]] = {}
    for path, values in asked.items():
        step, field_ = (*path.split("."), "")[:2]
        if f"{step}.{field_}" not in known:
            raise ParameterError(unknown_name("parameter", path, known, "the recipe"))
        if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
            raise ParameterError(f"give a list of values for {path}, such as [0.05, 0.1, 0.2].")
        listed = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
        if not listed:
            raise ParameterError(f"no values are given for {path}.")
        for value in listed:
            recipe.with_({path: value})  # refuses a value out of range
        grid[path] = listed
    return grid


def measures_of(risk: Any, utility: Any) -> list[Measure]:
    """Return the measures that are asked for, risks first; a column, a formula or a function is short for one.

    See `ru_map` for what may be given.
    """
    return [*(_risk(r) for r in _several(risk)), *(_utility(u) for u in _several(utility))]


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _risk(given: Any) -> Measure:
    measure = AttributeRisk(given) if isinstance(given, str) else given
    if not isinstance(measure, Measure) or measure.side is not Side.RISK:
        raise ParameterError("risk must be a column's name or a risk measure.")
    return measure


def _utility(given: Any) -> Measure:
    measure = given if isinstance(given, Measure) else EstimatorUtility(given)
    if measure.side is not Side.UTILITY:
        raise ParameterError("utility must be an estimator or a utility measure.")
    return measure


def precision_kept(m: RUMap, choice: Choice) -> dict[str, float]:
    """Return each utility at the chosen parameters as a share of the unmasked file's, by label; of estimates only.

    By formula where there is one. Else from the map's points, which share their random numbers with the unmasked file, so
    that the share is much less noisy than the two numbers; between points of one parameter it is interpolated.
    """
    formulas = m.subject.evaluator.analytic([choice.settings])
    kept = {}
    for i in m.of_side(Side.UTILITY):
        if not isinstance(m.measures[i], EstimatorUtility):
            continue  # a share of the variance is no precision
        share = float(formulas[i][0]) / float(m.analytic[i][-1])
        kept[m.measures[i].label()] = share_kept(m, i, choice) if math.isnan(share) else share
    return kept


@dataclass(frozen=True, eq=False)
class Overlay:
    """Maps over the same parameter, by name; one risk each, in the same unit.

    Examples
    --------
    >>> from sfumato.papers import figure2
    >>> list(figure2().maps)
    ['R² = 0.3', 'R² = 0.5']
    """

    maps: Mapping[str, RUMap]

    def __post_init__(self) -> None:
        if not self.maps:
            raise ParameterError("an overlay needs at least one map.")
        if len({m.parameters for m in self.maps.values()}) > 1:
            raise ParameterError("an overlay shows maps over the same parameter; these are swept over different ones.")

    def __getitem__(self, name: str) -> RUMap:
        return self.maps[name]

    def frame(self) -> pd.DataFrame:
        """Return the maps as one tidy frame; the column `map` says which."""
        return pd.concat([m.frame().assign(map=name) for name, m in self.maps.items()], ignore_index=True)

    def chart(self, max_risk: float | None = None, chosen: Mapping[str, Any] | None = None) -> alt.TopLevelMixin:
        """Draw the maps on the same axes: colour tells the utility, the dash the map; `chosen` is ringed on every curve."""
        parameters = next(iter(self.maps.values())).parameters
        return charts.map_chart.overlay_chart(
            {name: m.frame() for name, m in self.maps.items()}, parameters, max_risk, chosen
        )
