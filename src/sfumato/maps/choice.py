"""The choice on a map: maximise U subject to R ≤ r, on the upper limit of R, and confirmed with fresh random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract.parameters import Parameter
from sfumato.contract.score import Score, Side, digits, number
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.maps.replication import Settings

if TYPE_CHECKING:
    from sfumato.maps.rumap import MapPoint, RUMap

Estimate = tuple[float, tuple[float, float] | None]
"""A value, and its 95 % interval where there is one."""


@dataclass(frozen=True)
class Choice:
    """The choice on a map, with its risk and utility; or the reason why there is none."""

    feasible: bool
    settings: Mapping[str, Any]
    """The chosen parameters; of a protection or a policy, with its name."""
    reason: str
    risks: tuple[Score, ...] = ()
    utilities: tuple[Score, ...] = ()
    max_risk: Mapping[str, float] = field(default_factory=dict)
    family: str = ""
    """The name of the chosen recipe, protection or policy."""
    method: Any = field(default=None, compare=False)
    """The recipe, protection or policy with the chosen parameters; None if nothing was chosen."""
    limits: Mapping[str, float] | None = None
    """For a search, by risk: the value below which 95 % of the releases stay."""

    def __str__(self) -> str:
        if not self.feasible:
            return f"infeasible: {self.reason}"
        if self.limits is None:
            return f"{named(self.settings)}: {self.reason}"
        return f"{self.family}{f' with {named(self.settings)}' if self.settings else ''}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return the choice for machines."""
        facts = {
            "feasible": self.feasible, "settings": dict(self.settings), "reason": self.reason,
            "max_risk": dict(self.max_risk), "risks": [s.to_dict() for s in self.risks],
            "utilities": [s.to_dict() for s in self.utilities],
        }  # fmt: skip
        if self.limits is None:
            return facts
        return {**facts, "family": self.family, "limits": {k: number(v) for k, v in self.limits.items()}}


def named(settings: Mapping[str, Any]) -> str:
    """Return settings in words: ``noise.lambda2 = 0.1413``."""
    return ", ".join(f"{k} = {v:.4g}" if isinstance(v, int | float) else f"{k} = {v}" for k, v in settings.items())


def choose(
    m: RUMap, max_risk: float | Mapping[str, float] | None, utility: str | None, refine: bool, confirm: int
) -> Choice:
    """Return what has the largest utility among all whose risk stays within its limit; see `RUMap.choose`."""
    if confirm < m.subject.fewest:
        raise ParameterError("confirm must be at least 2: the winner's risk needs an interval of its own.")
    task = ChoiceTask(m, max_risk, utility)
    safe = [p for p, (excess, _) in enumerate(task.verdicts) if excess <= 1]
    safe.sort(key=lambda p: -task.verdicts[p][1])
    choice: Choice | None = m.subject.choose(task, safe, refine, confirm) if safe else None
    return choice or Choice(
        False, {}, m.subject.why_not(task), max_risk=task.allowed, limits={} if m.subject.predicts else None
    )


class ChoiceTask:
    """One question to one map: what is allowed of each risk, and which utilities count."""

    def __init__(self, m: RUMap, max_risk: float | Mapping[str, float] | None, utility: str | None) -> None:
        self.map = m
        self.limits: dict[int, float] = m.subject.limits(m, max_risk)
        """By the position of the risk."""
        everything = m.of_side(Side.UTILITY)
        if utility is not None or not m.subject.shares:
            everything = (m.position(Side.UTILITY, utility),)
        self.anchors = dict.fromkeys(everything, 1.0)
        """Each utility that counts, and what it is divided by."""
        if len(everything) > 1:
            self.anchors = {i: m.unmasked(i) for i in everything}
            if not all(math.isfinite(a) and a > 0 for a in self.anchors.values()):
                names = join_names(m.measures[i].label() for i in everything)
                raise ParameterError(
                    f"say which utility to maximise (utility=...), or combine them. The map has: {names}."
                )

    @property
    def allowed(self) -> dict[str, float]:
        """Limit by the risk's name."""
        return {self.map.titles[i]: r for i, r in self.limits.items()}

    def verdict(self, values: Mapping[int, tuple[float, float]]) -> tuple[float, float]:
        """Return (largest upper risk / limit, smallest utility / anchor) from value and upper limit by measure."""
        excess = max(_excess(values[i][1], r) for i, r in self.limits.items())
        gain = float(np.min([values[i][0] / a for i, a in self.anchors.items()]))
        return excess, -math.inf if math.isnan(gain) else gain

    def at(self, point: int) -> tuple[float, float]:
        """Judge a point of the map."""
        m = self.map
        return self.verdict({i: (m.estimate(i, point)[0], m.limit(i, point)) for i in (*self.limits, *self.anchors)})

    @cached_property
    def verdicts(self) -> list[tuple[float, float]]:
        """The verdict on each point of the map."""
        return [self.at(p) for p in range(len(self.map.points))]

    @property
    def nearest(self) -> int:
        """The point that comes nearest to being safe."""
        return min(range(len(self.verdicts)), key=lambda p: self.verdicts[p][0])

    def chosen(self, point: MapPoint, how: str) -> Choice:
        """Return a point as the choice, with what was seen of it."""
        m, subject = self.map, self.map.subject
        scores = [subject.score(i, point) for i in range(len(m.measures))]
        risks, utilities = (tuple(scores[i] for i in m.of_side(side)) for side in (Side.RISK, Side.UTILITY))
        reason = f"the most useful {subject.outcome} within the risk threshold{how}"
        settings, allowed = subject.settings_of(point), self.allowed
        limits = {m.titles[i]: subject.limit(i, point) for i in self.limits} if subject.predicts else None
        return Choice(True, settings, reason, risks, utilities, allowed, point.family, point.method, limits)


def limits_of(m: RUMap, max_risk: float | Mapping[str, float] | None) -> dict[int, float]:
    """Return what is allowed of each risk, by its position."""
    risks, subject = m.of_side(Side.RISK), m.subject
    asked = max_risk if isinstance(max_risk, Mapping) else {m.titles[i]: max_risk for i in risks}
    limits = {m.position(Side.RISK, label): limit for label, limit in asked.items()}  # refuses an unknown name
    for limit in limits.values():
        is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
        if subject.positive_limits and not (is_number and limit and limit > 0):
            raise ParameterError(
                f"max_risk must be a number above 0; got {limit!r}. For an error of 5 it is 1/5² = 0.04."
            )
        if limit is None or not (is_number and limit >= 0):
            raise ParameterError(f"max_risk must be a number of at least 0; got {limit!r}.")
    absent = [m.titles[i] for i in risks if i not in limits]
    if absent and (subject.every_limit or not limits):
        raise ParameterError(f"max_risk gives no threshold for {join_names(absent)}.")
    return {i: float(limit) for i, limit in limits.items() if limit is not None}


def _excess(upper: float, limit: float) -> float:
    """Return an upper risk as a share of its limit; infinite where it is not known."""
    if math.isnan(upper):
        return math.inf
    if 0 < limit < math.inf:
        return upper / limit
    return 0.0 if upper <= limit else math.inf


def choose_point(task: ChoiceTask, safe: Sequence[int], confirm: int) -> Choice | None:
    """Return the most useful safe point whose risk holds when it is tried again; None if none does."""
    m = task.map
    subject = m.subject.fresh() if confirm else m.subject
    for p in (p for p in safe if task.verdicts[p][1] > -math.inf):
        point, how = subject.again(m.points[p], confirm) if confirm else (m.points[p], "")
        values = {i: (subject.estimate(i, point)[0], subject.limit(i, point)) for i in (*task.limits, *task.anchors)}
        if task.verdict(values)[0] <= 1:
            return task.chosen(point, how)
    return None


def share_kept(m: RUMap, measure: int, choice: Choice) -> float:
    """Return a utility at the chosen point as a share of the unmasked file's, both with the map's own random numbers."""
    whole = m.unmasked(measure)
    if not 0 < whole < math.inf:
        return math.nan
    if (same := m.chosen_point(choice)) is not None:
        return m.estimate(measure, same)[0] / whole
    if len(m.parameters) > 1:
        return math.nan
    name = m.parameters[0]
    order = sorted(range(len(m.points)), key=lambda p: float(m.points[p].settings[name]))
    grid = np.array([float(m.points[p].settings[name]) for p in order])
    values = [m.estimate(measure, p)[0] for p in order]
    at = float(choice.settings[name])
    if grid[0] > 0 and at > 0:
        return float(np.interp(math.log(at), np.log(grid), values)) / whole
    return float(np.interp(at, grid, values)) / whole


# -- between the points of a map over one parameter of a recipe

_STEPS = 14
_CLOSE = 2e-4  # how far below the threshold the search may stop, as a share of it
_TRIES = 8


def choose_between(task: ChoiceTask, best: int, refine: bool, confirm: int) -> Choice:
    """Return the best settings of a recipe between the best point and its neighbours, and say where the range ends."""
    m, refinement = task.map, Refinement(task)
    settings = dict(m.points[best].settings)
    if refine and refinement.continuous:
        settings = refinement.refine(best)
    return _edge_noted(m, refinement.confirmed(settings, confirm if m.replications else 0))


def _edge_noted(m: RUMap, choice: Choice) -> Choice:
    """Say so where the choice is at an end of the swept range: a better one may lie beyond it."""
    for name in m.parameters if choice.feasible else ():
        swept = [p.settings[name] for p in m.points]
        if len(set(map(str, swept))) < 2 or not all(isinstance(v, int | float) for v in swept):
            continue
        parameter, value = _parameter(m, name), choice.settings[name]
        if value in (min(swept), max(swept)) and value not in (parameter.low, parameter.high):
            note = f"; {name} is at the end of the swept range, and a wider one may hold a more useful release"
            choice = replace(choice, reason=choice.reason + note)
    return choice


def _parameter(m: RUMap, path: str) -> Parameter:
    parameters: Mapping[str, Parameter] = m.subject.evaluator.recipe.parameters()
    return parameters[".".join(path.split(".")[:2])]


class Refinement:
    """The search between the points of a map of a recipe, with the map's own random numbers."""

    def __init__(self, task: ChoiceTask) -> None:
        self.task, self.m, self.evaluator = task, task.map, task.map.subject.evaluator

    @property
    def continuous(self) -> bool:
        """Whether there is one parameter, and values between those of the map can be tried."""
        if len(self.m.parameters) > 1 or len(self.m.points) < 2:
            return False
        parameter, name = _parameter(self.m, self.m.parameters[0]), self.m.parameters[0]
        numbers = all(isinstance(p.settings[name], int | float) for p in self.m.points)  # not, say, levels by column
        return parameter.numeric and not parameter.integer and numbers

    def judge(self, *several: Settings) -> list[tuple[float, float]]:
        """Judge any parameter values, with the map's own random numbers."""
        if not self.m.replications:
            values = np.array(self.evaluator.analytic(several)).T
            return [self.task.verdict({i: (float(v), float(v)) for i, v in enumerate(here)}) for here in values]
        observed = self.evaluator.observe(several, self.m.replications)
        return [
            self.task.verdict(
                {i: _upper(mm.estimate(o[p])) for i, (mm, o) in enumerate(zip(self.m.measures, observed, strict=True))}
            )
            for p in range(len(several))
        ]

    def excess(self, settings: Settings) -> float:
        """Return the largest upper risk / limit; where masking is replicated, the utilities are not computed."""
        if not self.m.replications:
            return self.judge(settings)[0][0]
        asked = tuple(self.m.measures[i] for i in self.task.limits)
        observed = replace(self.evaluator, measures=asked).observe([settings], self.m.replications)
        uppers = (_upper(measure.estimate(o[0]))[1] for measure, o in zip(asked, observed, strict=True))
        return max(_excess(upper, r) for upper, r in zip(uppers, self.task.limits.values(), strict=True))

    def excess_beyond(self, settings: Settings) -> float | None:
        """Return the same at a value outside the grid; None if the data do not allow it, as groups of more than all records."""
        try:
            return self.excess(settings)
        except DataError:
            return None

    def refine(self, best: int) -> dict[str, Any]:
        """Search between the best grid point and its neighbours: first the edge of what is safe, then the top of U."""
        name, grid = self.m.parameters[0], self.task.verdicts
        order = sorted(range(len(self.m.points)), key=lambda p: self.m.points[p].settings[name])
        where = order.index(best)
        low = self.m.points[order[max(where - 1, 0)]].settings[name]
        high = self.m.points[order[min(where + 1, len(order) - 1)]].settings[name]
        middle = self.m.points[best].settings[name]
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
        m, family, recipe = self.m, self.m.points[0].family, self.evaluator.recipe
        for attempt in range(_TRIES):
            scores = self._scores(settings, replications, attempt)
            risks, utilities = (tuple(scores[i] for i in m.of_side(side)) for side in (Side.RISK, Side.UTILITY))
            excess, _ = self.task.verdict({i: _upper((s.value, s.interval)) for i, s in enumerate(scores)})
            # a formula's own rounding must not turn a binding constraint into a broken one
            if excess <= 1 + (0 if replications else 1e-12):
                how = f"confirmed with {replications:,} fresh replications" if replications else "by formula"
                reason = f"the most useful release within the risk threshold, {how}"
                limits, method = self.task.allowed, recipe.with_(settings)
                return Choice(True, settings, reason, risks, utilities, limits, family, method)
            back = self._step_back(settings, excess)
            if back is None:
                break
            settings = back
        reason = (
            "the risk of the best point did not hold with fresh seeds; sweep a wider grid or use more replications."
        )
        return Choice(False, settings, reason, risks, utilities, self.task.allowed)

    def _scores(self, settings: Settings, replications: int, attempt: int) -> list[Score]:
        schema = self.evaluator.source.schema
        if replications:
            observed = self.evaluator.observe([settings], max(replications, 2), stream=f"confirm {attempt}")
            return [measure.to_score(o[0], schema) for measure, o in zip(self.m.measures, observed, strict=True)]
        values = [float(v[0]) for v in self.evaluator.analytic([settings])]
        return [
            Score(mm.label(), mm.side, v, mm.words(v, schema), (v, v), variant=mm.variant)
            for mm, v in zip(self.m.measures, values, strict=True)
        ]

    def _step_back(self, settings: Settings, excess: float) -> dict[str, Any] | None:
        """Return the nearest safer settings: a little along the parameter, or the next best safe grid point."""
        if self.continuous:
            name = self.m.parameters[0]
            here, parameter = self.excess(settings), _parameter(self.m, name)
            for value in (settings[name] * excess * 1.002, settings[name] / (excess * 1.002)):
                if not _allows(parameter, value):
                    continue
                if (there := self.excess_beyond({name: value})) is not None and there < here:
                    return {name: value}
        points = [dict(p.settings) for p in self.m.points]
        safer = [
            (gain, p) for p, (level, gain) in enumerate(self.task.verdicts)
            if level <= 1 / excess and points[p] != dict(settings)
        ]  # fmt: skip
        return points[max(safer)[1]] if safer else None

    def why_not(self) -> str:
        """Say that no point is safe enough, which is nearest, and whether a value beyond the swept range would be."""
        m, least = self.m, self.task.nearest
        what = "upper limit of the risk" if m.replications else "risk"
        limits = ", ".join(
            f"{digits(m.limit(i, least), 4)} for {m.titles[i]}, where {digits(r, 4)} is allowed"
            for i, r in self.task.limits.items()
        )
        closest = f"The smallest {what}, at {m.points[least].at}, is {limits}."
        more = self._beyond() if len(m.parameters) == 1 else ""
        swept = "; ".join(_swept(m, name) for name in m.parameters)
        return f"no value of {swept} reaches the threshold. {closest}{more}"

    def _beyond(self) -> str:
        name = self.m.parameters[0]
        parameter = _parameter(self.m, name)
        swept = [p.settings[name] for p in self.m.points]
        for end in (parameter.high, parameter.low):
            if end is None or end in swept or (parameter.above and end == parameter.low):
                continue
            excess = self.excess_beyond({name: end})
            if excess is None:
                return " Whether a value beyond the swept range would is not known: widen the grid as far as the data allow."
            if excess <= 1:
                return f" A value beyond the swept range would: widen the grid towards {end:g}."
        ends = [e for e in (parameter.low, parameter.high) if e is not None and np.isfinite(e)]
        return f" No value up to {max(ends):g} reaches it." if ends else ""


def _swept(m: RUMap, name: str) -> str:
    values = [p.settings[name] for p in m.points]
    if all(isinstance(v, int | float) for v in values):
        return f"{name} from {min(values):.4g} to {max(values):.4g}"
    return f"{name} among {join_names(dict.fromkeys(map(str, values)))}"


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
