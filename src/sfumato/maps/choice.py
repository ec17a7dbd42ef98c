"""The choice on a map: maximise U subject to R ≤ r, on the upper limit of R, and confirmed with fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract.parameters import Parameter
from sfumato.contract.score import Score, Side
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.maps.replication import Settings

if TYPE_CHECKING:
    from sfumato.maps.rumap import RUMap

# --- choice
# What a choice says: the parameters with their risk and utility, or why there are none.


@dataclass(frozen=True)
class Choice:
    """The chosen parameters with their risk and utility, or the reason why there are none."""

    feasible: bool
    settings: Mapping[str, Any]
    reason: str
    risks: tuple[Score, ...] = ()
    utilities: tuple[Score, ...] = ()
    max_risk: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.feasible:
            return f"infeasible: {self.reason}"
        return f"{named(self.settings)}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for machines."""
        return {
            "feasible": self.feasible, "settings": dict(self.settings), "reason": self.reason,
            "max_risk": dict(self.max_risk), "risks": [s.to_dict() for s in self.risks],
            "utilities": [s.to_dict() for s in self.utilities],
        }  # fmt: skip


def named(settings: Mapping[str, Any]) -> str:
    """Return settings in words: ``noise.lambda2 = 0.1413``."""
    return ", ".join(f"{k} = {_shown(v)}" for k, v in settings.items())


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


# --- choose
# Maximise U subject to R ≤ r: on the upper limit of R, between grid points too, and confirmed with fresh seeds.


_STEPS = 14
_CLOSE = 2e-4  # how far below the threshold the search may stop, as a share of it
_TRIES = 8


def choose(
    m: RUMap,
    max_risk: float | Mapping[str, float],
    utility: str | None = None,
    *,
    refine: bool = True,
    confirm: int = 200,
) -> Choice:
    """Return the parameters with the largest utility among those whose risk stays at or below `max_risk`.

    Risk is judged on the upper end of its 95 % interval. `max_risk` is one threshold for every risk measure, or one per
    label. With several utilities and none named, the smallest share of the unmasked file's utility is maximised. For one
    parameter the search goes on between grid points. The winner is estimated again with `confirm` replications from fresh
    seeds; if its risk does not hold there, the search steps back towards less risk.
    """
    if m.replications and confirm < 2:
        raise ParameterError("confirm must be at least 2: the winner's risk needs an interval of its own.")
    task = _Task(m, _thresholds(m, max_risk), utility)
    grid = task.judge(*m.points) if not m.replications else [task.at(p) for p in range(len(m.points))]
    safe = [p for p, (excess, _) in enumerate(grid) if excess <= 1]
    if not safe:
        return _infeasible(task, grid)
    best = max(safe, key=lambda p: grid[p][1])
    settings = dict(m.points[best])
    if refine and len(m.parameters) == 1 and _is_continuous(m):
        settings = task.refine(best, grid)
    return _edge_noted(m, task.confirmed(settings, confirm if m.replications else 0))


def _edge_noted(m: RUMap, choice: Choice) -> Choice:
    """Say so where the choice is at an end of the swept range: a better one may lie beyond it."""
    for name in m.parameters if choice.feasible else ():
        swept = [p[name] for p in m.points]
        if len(set(map(str, swept))) < 2 or not all(isinstance(v, int | float) for v in swept):
            continue
        parameter, value = _parameter(m, name), choice.settings[name]
        if value in (min(swept), max(swept)) and value not in (parameter.low, parameter.high):
            note = f"; {name} is at the end of the swept range, and a wider one may hold a more useful release"
            choice = replace(choice, reason=choice.reason + note)
    return choice


def _thresholds(m: RUMap, max_risk: float | Mapping[str, float]) -> dict[int, float]:
    risks = m.of_side(Side.RISK)
    asked = max_risk if isinstance(max_risk, Mapping) else {m.titles[i]: max_risk for i in risks}
    found = {m.position(Side.RISK, label): r for label, r in asked.items()}  # refuses an unknown name
    for r in found.values():
        if isinstance(r, bool) or not (isinstance(r, int | float) and r > 0):
            raise ParameterError(f"max_risk must be a number above 0; got {r!r}. For an error of 5 it is 1/5² = 0.04.")
    if absent := [m.titles[i] for i in risks if i not in found]:
        raise ParameterError(f"max_risk gives no threshold for {join_names(absent)}.")
    return {i: float(r) for i, r in found.items()}


def _is_continuous(m: RUMap) -> bool:
    parameter = _parameter(m, m.parameters[0])
    numbers = all(isinstance(p[m.parameters[0]], int | float) for p in m.points)  # not, say, levels by column
    return parameter.numeric and not parameter.integer and numbers and len(m.points) > 1


def _parameter(m: RUMap, path: str) -> Parameter:
    return m.evaluator.recipe.parameters()[".".join(path.split(".")[:2])]


class _Task:
    """One question to one map."""

    def __init__(self, m: RUMap, thresholds: dict[int, float], utility: str | None) -> None:
        self.m = m
        self.thresholds = thresholds
        everything = m.of_side(Side.UTILITY)
        self.utilities = (m.position(Side.UTILITY, utility),) if utility is not None else everything
        self.anchors = dict.fromkeys(self.utilities, 1.0)
        if len(self.utilities) > 1:
            self.anchors = {i: m.unmasked(i) for i in self.utilities}
            if not all(math.isfinite(a) and a > 0 for a in self.anchors.values()):
                names = join_names(m.measures[i].label() for i in self.utilities)
                raise ParameterError(
                    f"say which utility to maximise (utility=...), or combine them. The map has: {names}."
                )

    @property
    def limits(self) -> dict[str, float]:
        """Threshold by the risk's name."""
        return {self.m.titles[i]: r for i, r in self.thresholds.items()}

    def _verdict(self, values: dict[int, tuple[float, float]]) -> tuple[float, float]:
        """Return (largest upper risk / threshold, smallest utility / anchor) from value and upper limit by measure."""
        excess = float(np.max([values[i][1] / r for i, r in self.thresholds.items()]))  # NaN, if one is not known
        gain = float(np.min([values[i][0] / a for i, a in self.anchors.items()]))
        return excess, -math.inf if math.isnan(gain) else gain

    def at(self, point: int) -> tuple[float, float]:
        """Judge a point of the grid."""
        return self._verdict({i: _upper(self.m.estimate(i, point)) for i in range(len(self.m.measures))})

    def judge(self, *several: Settings) -> list[tuple[float, float]]:
        """Judge any parameter values, with the map's own random numbers."""
        if not self.m.replications:
            values = np.array(self.m.evaluator.analytic(several)).T
            return [self._verdict({i: (float(v), float(v)) for i, v in enumerate(here)}) for here in values]
        observed = self.m.evaluator.observe(several, self.m.replications)
        return [
            self._verdict(
                {i: _upper(mm.estimate(o[p])) for i, (mm, o) in enumerate(zip(self.m.measures, observed, strict=True))}
            )
            for p in range(len(several))
        ]

    def excess(self, settings: Settings) -> float:
        """Return the largest upper risk / threshold; where masking is replicated, the utilities are not computed."""
        if not self.m.replications:
            return self.judge(settings)[0][0]
        asked = tuple(self.m.measures[i] for i in self.thresholds)
        observed = replace(self.m.evaluator, measures=asked).observe([settings], self.m.replications)
        uppers = (_upper(measure.estimate(o[0]))[1] for measure, o in zip(asked, observed, strict=True))
        return float(np.max([upper / r for upper, r in zip(uppers, self.thresholds.values(), strict=True)]))

    def excess_beyond(self, settings: Settings) -> float | None:
        """Return the same at a value outside the grid; None if the data do not allow it, as groups of more than all records."""
        try:
            return self.excess(settings)
        except DataError:
            return None

    def refine(self, best: int, grid: list[tuple[float, float]]) -> dict[str, Any]:
        """Search between the best grid point and its neighbours: first the edge of what is safe, then the top of U."""
        name = self.m.parameters[0]
        order = sorted(range(len(self.m.points)), key=lambda p: self.m.points[p][name])
        where = order.index(best)
        low = self.m.points[order[max(where - 1, 0)]][name]
        high = self.m.points[order[min(where + 1, len(order) - 1)]][name]
        middle = self.m.points[best][name]
        safe = {order[i]: grid[order[i]][0] <= 1 for i in (max(where - 1, 0), min(where + 1, len(order) - 1))}
        if not safe[order[max(where - 1, 0)]]:
            low = self._edge(name, (low, grid[order[where - 1]][0]), (middle, grid[best][0]))
        if not safe[order[min(where + 1, len(order) - 1)]]:
            high = self._edge(name, (high, grid[order[where + 1]][0]), (middle, grid[best][0]))
        found = {middle: grid[best][1], **self._golden(name, low, high)}
        return {name: max(found, key=lambda v: found[v])}

    def _edge(self, name: str, unsafe: tuple[float, float], safe: tuple[float, float]) -> float:
        """Close in on where the risk meets its threshold, from (value, excess) on either side; return the safe side."""
        (outside, above), (inside, below) = unsafe, safe
        steps = 60 if not self.m.replications else _STEPS
        for step in range(steps):
            middle = _between(outside, inside)
            if self.m.replications:  # each look is dear: interpolate, the risk is close to a power of the parameter
                if below > 1 - _CLOSE:
                    break
                share = (
                    math.log((1 - _CLOSE / 2) / below) / math.log(above / below)
                    if 0 < below < above < math.inf
                    else 0.5
                )
                middle = _between(outside, inside, share) if step % 3 < 2 else middle
            if middle in (outside, inside):
                break
            excess = self.excess({name: middle})
            if excess <= 1:
                inside, below = middle, excess
            else:
                outside, above = middle, excess
        return inside

    def _golden(self, name: str, low: float, high: float) -> dict[float, float]:
        """Golden-section search for the top of U between two safe values; none if U falls from one end inwards."""
        hair = (high - low) / 100
        found = self._safe_utilities(name, low, low + hair, high - hair, high)
        if found[low] >= found[low + hair] or found[high] >= found[high - hair]:
            return found
        share = (math.sqrt(5) - 1) / 2
        steps = 50 if not self.m.replications else _STEPS // 2
        a, b = low + (1 - share) * (high - low), low + share * (high - low)
        for _ in range(steps):
            if not low < a < b < high:
                break
            found.update(self._safe_utilities(name, *(v for v in (a, b) if v not in found)))
            if found[b] >= found[a]:
                low, a = a, b
                b = low + share * (high - low)
            else:
                high, b = b, a
                a = low + (1 - share) * (high - low)
        return found

    def _safe_utilities(self, name: str, *values: float) -> dict[float, float]:
        """Return the utility at each value, minus infinity where it is not safe."""
        judged = zip(values, self.judge(*({name: v} for v in values)), strict=True)
        return {v: gain if excess <= 1 else -math.inf for v, (excess, gain) in judged}

    def confirmed(self, settings: dict[str, Any], replications: int) -> Choice:
        """Estimate the winner again with fresh seeds; step back while its risk does not hold."""
        for attempt in range(_TRIES):
            risks, utilities, excess = self._scores(settings, replications, attempt)
            if excess <= 1:
                how = f"confirmed with {replications:,} fresh replications" if replications else "by formula"
                return Choice(
                    True,
                    settings,
                    f"the most useful release within the risk threshold, {how}",
                    risks,
                    utilities,
                    self.limits,
                )
            back = self._step_back(settings, excess)
            if back is None:
                break
            settings = back
        return Choice(
            False, settings, "the risk of the best point did not hold with fresh seeds; sweep a wider grid or use more "
            "replications.", risks, utilities, self.limits,
        )  # fmt: skip

    def _scores(
        self, settings: Settings, replications: int, attempt: int
    ) -> tuple[tuple[Score, ...], tuple[Score, ...], float]:
        schema = self.m.evaluator.source.schema
        if replications:
            observed = self.m.evaluator.observe([settings], max(replications, 2), stream=f"confirm {attempt}")
            scores = [self.m.score(i, o[0]) for i, o in enumerate(observed)]
        else:
            values = [float(v[0]) for v in self.m.evaluator.analytic([settings])]
            scores = [
                Score(mm.label(), mm.side, v, mm.words(v, schema), (v, v), variant=mm.variant)
                for mm, v in zip(self.m.measures, values, strict=True)
            ]
        excess, _ = self._verdict({i: _upper((s.value, s.interval)) for i, s in enumerate(scores)})
        risks = tuple(scores[i] for i in self.m.of_side(Side.RISK))
        # a formula's own rounding must not turn a binding constraint into a broken one
        return risks, tuple(scores[i] for i in self.m.of_side(Side.UTILITY)), excess if replications else excess - 1e-12

    def _step_back(self, settings: Settings, excess: float) -> dict[str, Any] | None:
        """Return the nearest safer settings: a little along the parameter, or the next best safe grid point."""
        if len(self.m.parameters) == 1 and _is_continuous(self.m):
            name = self.m.parameters[0]
            here, parameter = self.excess(settings), _parameter(self.m, name)
            for value in (settings[name] * excess * 1.002, settings[name] / (excess * 1.002)):
                if not _allows(parameter, value):
                    continue
                if (there := self.excess_beyond({name: value})) is not None and there < here:
                    return {name: value}
        safer = [
            (gain, p) for p, (level, gain) in enumerate(self.at(q) for q in range(len(self.m.points)))
            if level <= 1 / excess and dict(self.m.points[p]) != dict(settings)
        ]  # fmt: skip
        return dict(self.m.points[max(safer)[1]]) if safer else None


def _upper(estimate: tuple[float, tuple[float, float] | None]) -> tuple[float, float]:
    value, interval = estimate
    return value, math.inf if interval is None else interval[1]


def _allows(parameter: Parameter, value: float) -> bool:
    low, high = parameter.low, parameter.high
    above = low is None or value > low or (value == low and not parameter.above)
    return math.isfinite(value) and above and (high is None or value <= high)


def _between(a: float, b: float, share: float = 0.5) -> float:
    """Return a value between, with this share of a: on the logarithm where both are positive."""
    return a**share * b ** (1 - share) if a > 0 and b > 0 else share * a + (1 - share) * b


def _infeasible(task: _Task, grid: list[tuple[float, float]]) -> Choice:
    m = task.m
    least = min(range(len(grid)), key=lambda p: math.inf if math.isnan(grid[p][0]) else grid[p][0])
    what = "upper limit of the risk" if m.replications else "risk"
    limits = ", ".join(
        f"{_upper(m.estimate(i, least))[1]:.4g} for {m.titles[i]}, where {r:.4g} is allowed"
        for i, r in task.thresholds.items()
    )
    closest = f"The smallest {what}, at {named(m.points[least])}, is {limits}."
    more = _beyond(task) if len(m.parameters) == 1 else ""
    swept = "; ".join(_swept(m, name) for name in m.parameters)
    return Choice(False, {}, f"no value of {swept} reaches the threshold. {closest}{more}", max_risk=task.limits)


def _swept(m: RUMap, name: str) -> str:
    values = [p[name] for p in m.points]
    if all(isinstance(v, int | float) for v in values):
        return f"{name} from {min(values):.4g} to {max(values):.4g}"
    return f"{name} among {join_names(dict.fromkeys(map(str, values)))}"


def _beyond(task: _Task) -> str:
    """Say whether the parameter's own limit would reach the threshold."""
    name = task.m.parameters[0]
    parameter = _parameter(task.m, name)
    swept = [p[name] for p in task.m.points]
    for end in (parameter.high, parameter.low):
        if end is None or end in swept or (parameter.above and end == parameter.low):
            continue
        excess = task.excess_beyond({name: end})
        if excess is None:
            return (
                " Whether a value beyond the swept range would is not known: widen the grid as far as the data allow."
            )
        if excess <= 1:
            return f" A value beyond the swept range would: widen the grid towards {end:g}."
    ends = [e for e in (parameter.low, parameter.high) if e is not None and np.isfinite(e)]
    return f" No value up to {max(ends):g} reaches it." if ends else ""
