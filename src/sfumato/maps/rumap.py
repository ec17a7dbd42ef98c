"""The R-U confidentiality map: disclosure risk R and data utility U over the parameters of a method."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.contract.mask import Mask, Recipe
from sfumato.contract.measure import Measure
from sfumato.contract.release import Holdout, Release
from sfumato.contract.score import Score, Section, Side
from sfumato.contract.snooper import Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable, ParameterError, RecipeError, unknown_name
from sfumato.maps.choice import Choice
from sfumato.maps.points import undominated
from sfumato.maps.replication import UNMASKED, Evaluator, NormalPopulation, Progress, Settings
from sfumato.risk.attribute_risk import AttributeRisk
from sfumato.typing import Numbers
from sfumato.utility.estimator_utility import EstimatorUtility

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# --- overlay
# Several maps on the same axes: methods compared, or one method under several circumstances.


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

    @property
    def frame(self) -> pd.DataFrame:
        """The maps as one tidy frame; the column `map` says which."""
        import pandas as pd

        return pd.concat([m.frame.assign(map=name) for name, m in self.maps.items()], ignore_index=True)

    def chart(self, max_risk: float | None = None, chosen: Mapping[str, Any] | None = None) -> alt.TopLevelMixin:
        """Draw the maps on the same axes: colour tells the utility, the dash the map; `chosen` is ringed on every curve."""
        from sfumato.charts.map_chart import overlay_chart

        parameters = next(iter(self.maps.values())).parameters
        return overlay_chart({name: m.frame for name, m in self.maps.items()}, parameters, max_risk, chosen)


# --- rumap
# The R-U confidentiality map: disclosure risk R and data utility U over the parameters of a method.


DEFAULT_GRID = tuple(float(v) for v in np.geomspace(0.01, 1.0, 25))


@dataclass(frozen=True, eq=False)
class RUMap:
    """Risk and utility at every point of a parameter grid, with intervals; made by `ru_map`.

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

    evaluator: Evaluator
    parameters: tuple[str, ...]
    points: tuple[Settings, ...]
    replications: int
    observations: tuple[Numbers, ...]
    """Per measure, shape (points + 1, replications, k); the last point is the unmasked file."""
    analytic: tuple[Numbers, ...]
    """Per measure, shape (points + 1,); NaN where there is no formula."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Measures that do not apply, with the reason."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Every measure of the map."""
        return self.evaluator.measures

    def of_side(self, side: Side) -> tuple[int, ...]:
        """Return the positions of the risk or utility measures."""
        return tuple(i for i, m in enumerate(self.measures) if m.side is side)

    def estimate(self, measure: int, point: int) -> tuple[float, tuple[float, float] | None]:
        """Return a measure's value and interval at a point: by replication where there is any, else by formula."""
        if self.replications:
            return self.measures[measure].estimate(self.observations[measure][point])
        value = float(self.analytic[measure][point])
        return value, (value, value)

    def unmasked(self, measure: int) -> float:
        """Return a measure's value for the unmasked file."""
        return self.estimate(measure, len(self.points))[0]

    @property
    def frame(self) -> pd.DataFrame:
        """The map as a tidy frame: one row per point, measure and source (empirical or analytic)."""
        import pandas as pd

        rows = []
        for p, settings in enumerate((*self.points, UNMASKED)):
            named = {name: settings.get(name, np.nan) for name in self.parameters}
            for i, measure in enumerate(self.measures):
                about = {
                    "point": p, **named, "masked": settings is not UNMASKED, "side": measure.side.value,
                    "measure": measure.label(), "variant": measure.variant,
                }  # fmt: skip
                if self.replications:
                    value, interval = self.estimate(i, p)
                    low, high = interval or (np.nan, np.nan)
                    rows.append({**about, "source": "empirical", "value": value, "low": low, "high": high})
                if not np.isnan(formula := float(self.analytic[i][p])):
                    rows.append({**about, "source": "analytic", "value": formula, "low": formula, "high": formula})
        return pd.DataFrame(rows)

    def choose(self, max_risk: float | Mapping[str, float], utility: str | None = None, **options: Any) -> Choice:
        """Maximise utility subject to risk ≤ max_risk, judged on the upper limit of the risk.

        See `sfumato.maps.choice.choose`.
        """
        from sfumato.maps.choice import choose

        return choose(self, max_risk, utility, **options)

    def frontier(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Return the points that no other point beats in both risk and utility, safest first."""
        import pandas as pd

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        pairs = [(self.estimate(r, p)[0], self.estimate(u, p)[0]) for p in range(len(self.points))]
        rows = [
            {**{n: self.points[p].get(n, np.nan) for n in self.parameters}, "risk": pairs[p][0], "utility": pairs[p][1]}
            for p in undominated(pairs)
        ]
        return pd.DataFrame(rows).sort_values("risk", ignore_index=True)

    @property
    def titles(self) -> tuple[str, ...]:
        """A name for each measure that no other has: its label, with the variant where a label stands twice."""
        return titles(self.measures)

    def position(self, side: Side, label: str | None) -> int:
        """Return which measure a title or label names; the first of its side if none is named."""
        own = self.of_side(side)
        if label is None:
            return own[0]
        known = {self.measures[i].label(): i for i in reversed(own)} | {self.titles[i]: i for i in own}
        if label not in known:
            raise ParameterError(unknown_name(f"{side} measure", label, [self.titles[i] for i in own], "the map"))
        return known[label]

    def chart(
        self, max_risk: float | Mapping[str, float] | None = None, choice: Choice | None = None
    ) -> alt.TopLevelMixin:
        """Draw log R against U with the unmasked utility and the threshold; beside it R and U against the parameter."""
        from sfumato.charts.map_chart import map_chart

        settings = choice.settings if choice is not None and choice.feasible else None
        return map_chart(self.frame, self.parameters, max_risk, settings)

    def report(self, max_risk: float | Mapping[str, float] | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""
        from sfumato.maps.section import map_section

        return map_section(self, max_risk, choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the map for machines."""
        from sfumato.contract.score import number

        rows = self.frame.to_dict(orient="records")
        clean = [{str(k): number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
        return {
            "parameters": list(self.parameters), "replications": self.replications,
            "snooper": self.evaluator.snooper.describe(), "not_applicable": dict(self.refused), "points": clean,
        }  # fmt: skip

    def score(self, measure: int, observations: Numbers) -> Score:
        """Return the score of replicated observations of one measure."""
        return self.measures[measure].to_score(observations, self.evaluator.source.schema)


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
    points: tuple[Settings, ...] = tuple(
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    )
    everything = (*points, UNMASKED)
    formulas = evaluator.analytic(everything)
    without = [i for i, f in enumerate(formulas) if np.isnan(f[:-1]).all()]
    if without and not replications:
        names = ", ".join(evaluator.measures[i].label() for i in without)
        raise RecipeError(f"there is no formula for {names} with this recipe; ask for replications instead.")
    for i in without:
        formulas[i][-1] = np.nan  # a formula for the unmasked file alone is no curve
    observed = evaluator.observe(everything, replications, progress=progress) if replications else []
    return RUMap(evaluator, tuple(grid), points, replications, tuple(observed), tuple(formulas), refused)


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


# --- kept
# How much of an estimate's precision a choice keeps.


def precision_kept(m: RUMap, choice: Choice) -> dict[str, float]:
    """Return each utility at the chosen parameters as a share of the unmasked file's, by label; of estimates only.

    By formula where there is one. Else from the map's points, which share their random numbers with the unmasked file, so
    that the share is much less noisy than the two numbers; between points of one parameter it is interpolated.
    """
    formulas = m.evaluator.analytic([choice.settings])
    kept = {}
    for i in m.of_side(Side.UTILITY):
        if not isinstance(m.measures[i], EstimatorUtility):
            continue  # a share of the variance is no precision
        share = float(formulas[i][0]) / float(m.analytic[i][-1])
        kept[m.measures[i].label()] = _from_points(m, i, choice) if math.isnan(share) else share
    return kept


def _from_points(m: RUMap, measure: int, choice: Choice) -> float:
    whole = m.unmasked(measure)
    if not (m.replications and 0 < whole < math.inf):
        return math.nan
    for p, settings in enumerate(m.points):
        if dict(settings) == dict(choice.settings):
            return m.estimate(measure, p)[0] / whole
    if len(m.parameters) > 1:
        return math.nan
    name = m.parameters[0]
    order = sorted(range(len(m.points)), key=lambda p: float(m.points[p][name]))
    grid = np.array([float(m.points[p][name]) for p in order])
    values = [m.estimate(measure, p)[0] for p in order]
    at = float(choice.settings[name])
    if grid[0] > 0 and at > 0:
        return float(np.interp(math.log(at), np.log(grid), values)) / whole
    return float(np.interp(at, grid, values)) / whole
