"""The R-U map of protected tables: which protections are tried, the points, the choice, and the section of a report."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from sfumato.charts.captions import counted, first_line, short, spoken, tabled
from sfumato.contract.draws import Draws
from sfumato.contract.parameters import Parameter
from sfumato.contract.score import Figure, Section, Side
from sfumato.errors import NotApplicable, ParameterError, SfumatoError, unknown_name
from sfumato.maps.choice import Choice, named
from sfumato.maps.points import Estimate, MapTrial, PointMap, best, limits_of, nothing, points_table
from sfumato.tables.measures import TableMeasure
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.table import Table
from sfumato.typing import Numbers

if TYPE_CHECKING:
    import altair as alt

# --- swept
# The protections of a map, and the values of their parameters.

_SWEPT = 5
"""Number of values of a parameter that are tried where none are given."""


def named_protections(given: Any) -> dict[str, Protection]:
    """Return the protections by name: their own, or their label where a name occurs twice."""
    if isinstance(given, Mapping):
        found = dict(given)
    else:
        several = list(given) if isinstance(given, list | tuple) else [given]
        count = Counter(getattr(p, "name", "") for p in several)
        found = {p.name if count[p.name] == 1 else p.label(): p for p in several if isinstance(p, Protection)}
        if len(found) < len(several):
            raise ParameterError("protections must be protections, each with other parameters than the others.")
    if not found or not all(isinstance(p, Protection) for p in found.values()):
        raise ParameterError("give at least one protection to try, such as Suppression(rules=PPercent(p=10)).")
    return found


def swept(
    protections: Mapping[str, Protection], over: Mapping[str, Sequence[Any]] | None
) -> Iterator[tuple[str, Protection, dict[str, Any]]]:
    """Yield every protection at every combination of its swept values."""
    asked = dict(over or {})
    owners = {path: [n for n, p in protections.items() if path.rpartition(".")[0] in (n, p.name)] for path in asked}
    for path, names in owners.items():
        known = [f"{n}.{f}" for n, p in protections.items() for f in p.parameters()]
        field_ = path.rpartition(".")[2]
        if not names or any(field_ not in protections[n].parameters() for n in names):
            raise ParameterError(unknown_name("parameter", path, known, "the protections"))
        if isinstance(asked[path], str | Mapping) or not len(list(asked[path])):
            raise ParameterError(f"give a list of values for {path}, such as [3, 5, 10].")
    for name, protection in protections.items():
        mine = {path: list(values) for path, values in asked.items() if name in owners[path]}
        if over is None:
            mine = _usual(name, protection)
        for values in itertools.product(*mine.values()):
            settings = {
                f"{name}.{path.rpartition('.')[2]}": v.item() if isinstance(v, np.generic) else v
                for path, v in zip(mine, values, strict=True)
            }
            changes = {path.rpartition(".")[2]: v for path, v in settings.items()}
            yield name, protection.with_(**changes) if changes else protection, settings


def _usual(name: str, protection: Protection) -> dict[str, list[Any]]:
    """Return values of the first parameter that has a usual range."""
    for field_, parameter in protection.parameters().items():
        if parameter.usual is not None and not isinstance(getattr(protection, field_), Mapping):
            return {f"{name}.{field_}": _spread(parameter)}
    return {}


def _spread(parameter: Parameter) -> list[Any]:
    assert parameter.usual is not None  # noqa: S101 - whoever calls has looked
    a, b = parameter.usual
    values = np.geomspace(a, b, _SWEPT) if a > 0 and b > 0 else np.linspace(a, b, _SWEPT)
    if parameter.integer:
        return sorted({int(v) for v in np.round(values)})
    return [float(f"{v:.3g}") for v in values]


# --- map points
# The points of a map, and their measures, replicated where a protection is random.


_ALIKE = 4
"""A random method that makes the same table this many times in a row is assumed not to use its draws here."""


@dataclass(frozen=True, eq=False)
class TablePoint(MapTrial):
    """One protection with its parameters, and the observations of the measures."""

    protection: Protection
    observations: tuple[Numbers, ...]
    """Per measure, shape (replications, k); NaN where it does not apply. One replication where nothing is random."""

    @override
    @property
    def label(self) -> str:
        return self.protection.label()


def estimate(measure: TableMeasure, observations: Numbers) -> Estimate:
    """Return a value with its interval; where nothing is random, the interval is the value."""
    if len(observations) == 1 or np.allclose(observations, observations[0], rtol=1e-9, atol=0):
        value = float(measure.value(observations[0]))
        return value, None if np.isnan(value) else (value, value)
    return measure.estimate(observations)


def observe(
    table: Table, protection: Protection, measures: Sequence[TableMeasure], draws: Draws, replications: int
) -> tuple[tuple[Numbers, ...], dict[str, str]]:
    """Return each measure's observations, shape (replications, k), one where nothing is random; and why some do not apply."""
    found: list[list[Numbers]] = [[] for _ in measures]
    reasons: dict[str, str] = {}
    first: Numbers | None = None
    differ = False
    for number_ in range(replications if protection.random else 1):
        outcome = protection.protect(table, draws.replicate(number_))
        first = outcome.values if first is None else first
        differ = differ or not np.array_equal(outcome.values, first, equal_nan=True)
        for measure, seen in zip(measures, found, strict=True):
            try:
                seen.append(measure.observe(outcome))
            except NotApplicable as reason:
                reasons[measure.label()] = str(reason)
                seen.append(np.full(measure.size, np.nan))
        if not differ and number_ + 1 == _ALIKE:
            return tuple(np.stack(seen[:1]) for seen in found), reasons
    return tuple(np.stack(seen) for seen in found), reasons


def unprotected(table: Table, measures: Sequence[TableMeasure]) -> tuple[float, ...]:
    """Return each measure of the unprotected table; NaN where it does not apply."""
    shown, found = PublishedTable.unprotected(table), []
    for measure in measures:
        try:
            found.append(float(measure.assess(shown).value))
        except NotApplicable:
            found.append(np.nan)
    return tuple(found)


def measures_of(table: Table, risk: Any, utility: Any) -> tuple[TableMeasure, ...]:
    """Return the measures of a map, risks first; if none are given, those that apply to every method."""
    from sfumato.tables.measures import KnownClosely, RelativeCertainty, TableAccuracy

    if risk is None:
        amounts = table.contributions is not None and not table.is_count
        risk = RelativeCertainty() if amounts else KnownClosely()
    sides = ((risk, Side.RISK), (TableAccuracy() if utility is None else utility, Side.UTILITY))
    found: list[TableMeasure] = []
    for given, side in sides:
        for measure in list(given) if isinstance(given, list | tuple) else [given]:
            if not isinstance(measure, TableMeasure) or measure.side is not side:
                raise ParameterError(f"{side} must be a {side} measure of tables, or several.")
            found.append(measure)
    if twice := [label for label, count in Counter(m.label() for m in found).items() if count > 1]:
        raise ParameterError(f"two measures are called '{twice[0]}'. Leave one out.")
    return tuple(found)


# --- map choice
# Choosing from a map: the most useful protection that is safe enough, confirmed with fresh tables.


@dataclass(frozen=True)
class TableChoice(Choice):
    """A chosen protection with its risk and utility, or the reason why there is none."""

    protection: Protection | None = None


def chosen(m: TableMap, max_risk: float | Mapping[str, float], utility: str | None, confirm: int) -> TableChoice:
    """Return the protection with the largest utility among those within the limits; see `TableMap.choose`."""
    limits = limits_of(m, max_risk)
    allowed = {m.measures[i].label(): limit for i, limit in limits.items()}

    def again(p: int) -> tuple[tuple[Numbers, ...], list[Estimate]]:
        seen = m.points[p].observations
        if _random(seen):
            seen = observe(m.table, m.points[p].protection, m.measures, m.draws.child("confirm"), confirm)[0]
        return seen, [estimate(measure, o) for measure, o in zip(m.measures, seen, strict=True)]

    found = best(m, limits, m.position(Side.UTILITY, utility), again)
    if found is None:
        return TableChoice(False, {}, nothing(m, limits, "protection"), max_risk=allowed)
    point, seen = m.points[found[0]], found[1]
    how = f", confirmed with {confirm:,} fresh tables" if _random(point.observations) else ""
    scores = [measure.to_score(o) for measure, o in zip(m.measures, seen, strict=True)]
    risks, utilities = (tuple(scores[i] for i in m.of_side(side)) for side in (Side.RISK, Side.UTILITY))
    return TableChoice(
        True, {"protection": point.family, **point.settings}, f"the most useful table within the risk threshold{how}",
        risks, utilities, allowed, point.protection,
    )  # fmt: skip


def _random(observations: tuple[Numbers, ...]) -> bool:
    return any(len(o) > 1 for o in observations)


# --- map section
# A map of protected tables as a section of a report.


def table_map_section(map: TableMap, max_risk: float | None = None, choice: Choice | None = None) -> Section:
    """Return a map as a section, for a given threshold and choice; nothing is computed anew."""
    families = list(dict.fromkeys(p.family.replace("_", " ") for p in map.points))
    said = []
    if choice is not None:
        limits = spoken(f"{label} at most {short(limit)}" for label, limit in choice.max_risk.items())
        said.append(f"What was asked: the most useful table with {limits}.")
        if choice.feasible:
            words = spoken(f"{s.measure} {tabled(s.value)} ({s.words})" for s in (*choice.risks, *choice.utilities))
            said.append(f"The answer is {_chosen(choice)}: {choice.reason}. There, {words}.")
        else:
            said.append(f"There is no answer: {choice.reason}")
    said.append(
        f"The same table was protected by {spoken(families)}, at {counted(len(map.points), 'setting')}; where something is "
        f"random, {map.replications:,} times, with 95 % intervals over these."
    )
    sorts = {type(m): first_line(m) for m in map.measures}
    said += [f"{words}." for words in sorts.values()]
    said += [f"Not in the map: {what}. {reason}" for what, reason in map.refused.items()]
    figure = Figure(map.chart(max_risk, choice).to_dict(), _caption(map, max_risk))
    return Section("Risk and utility of protections", tuple(said), (figure, points_table(map, "protection")))


def _chosen(choice: Choice) -> str:
    settings = dict(choice.settings)
    name = str(settings.pop("protection", "")).replace("_", " ")
    at = spoken(
        f"{k.rpartition('.')[2].replace('_', ' ')} = {v if isinstance(v, str) else short(float(v))}"
        for k, v in settings.items()
    )
    return f"{name} with {at}" if at else name


def _caption(map: TableMap, max_risk: float | None) -> str:
    risk, utility = (map.measures[map.of_side(side)[0]].label() for side in (Side.RISK, Side.UTILITY))
    limit = "" if max_risk is None else f" Dashed level line: the largest tolerable risk, {short(max_risk)}."
    return f"R-U confidentiality map: {risk} against {utility}, one curve for each protection.{limit}"


# --- table map
# The R-U map of protected tables: risk and utility of several methods on the same table, on the same axes.


Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class TableMap(PointMap):
    """Risk and utility of protections of one table; made by `table_map`."""

    table: Table
    points: tuple[TablePoint, ...]
    measures: tuple[TableMeasure, ...]
    replications: int
    draws: Draws = field(repr=False)
    unprotected: tuple[float, ...] = ()
    """Each measure of the unprotected table; NaN where it does not apply."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Protections that could not keep their guarantee, and measures that do not apply, with the reason."""

    @override
    def estimate(self, measure: int, point: int) -> Estimate:
        return estimate(self.measures[measure], self.points[point].observations[measure])

    def _facts(self, measure: int, point: int) -> dict[str, Any]:
        seen = self.points[point].observations[measure]
        return {"replications": len(seen), "unprotected": self.unprotected[measure]}

    def choose(
        self, max_risk: float | Mapping[str, float], utility: str | None = None, *, confirm: int = 20
    ) -> TableChoice:
        """Return the protection with the largest utility among those whose risks stay at or below `max_risk`.

        A risk is judged by the upper end of its 95 % interval. Where something is random, the winner is protected `confirm`
        times again with fresh random numbers; if its risk is too large there, the next best is taken.
        """
        return chosen(self, max_risk, utility, confirm)

    def chart(
        self,
        max_risk: float | None = None,
        choice: Choice | None = None,
        risk: str | None = None,
        utility: str | None = None,
    ) -> alt.TopLevelMixin:
        """Draw risk against utility: a curve for each protection, the frontier, the threshold and the choice."""
        from sfumato.charts.point_map import table_map_chart

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        if choice is not None and choice.feasible:
            max_risk = max_risk if max_risk is not None else choice.max_risk.get(self.measures[r].label())
        names = (self.measures[r].label(), self.measures[u].label())
        return table_map_chart(self.frame, *names, max_risk, self.marked(choice, "protection"))

    def report(self, max_risk: float | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""

        return table_map_section(self, max_risk, choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the map as a dictionary."""
        return {"replications": self.replications, "refused": dict(self.refused), "points": self.records()}


def table_map(
    table: Table,
    protections: Protection | Sequence[Protection] | Mapping[str, Protection],
    over: Mapping[str, Sequence[Any]] | None = None,
    risk: TableMeasure | Sequence[TableMeasure] | None = None,
    utility: TableMeasure | Sequence[TableMeasure] | None = None,
    *,
    replications: int = 20,
    draws: Draws | int | None = None,
    progress: Progress | None = None,
) -> TableMap:
    """Protect a table in several ways, and measure them all alike.

    Parameters
    ----------
    table
        The table before protection.
    protections
        The protections to try: one, several, or several by a name of your own.
    over
        Values of parameters to sweep: ``{"controlled_rounding.base": [3, 5, 10]}``, with the protection's name before the dot.
        A protection that is not named is tried over the usual range of its first parameter that has one, otherwise unchanged;
        ``over={}`` sweeps nothing.
    risk, utility
        Measures; `RelativeCertainty` (for counts `KnownClosely`) and `TableAccuracy` if not given: they apply to every method.
    replications
        Number of tables made at each point; one where nothing is random.
    draws
        Randomness; a fresh secret seed if not given.
    progress
        Called after each point with the number done and the total.

    Examples
    --------
    >>> from sfumato.datasets import business
    >>> from sfumato.tables import RandomRounding
    >>> data = business(300, regions=4, sectors=4, hierarchies=False)
    >>> table = Table.of(data, "region * sector")
    >>> m = table_map(table, RandomRounding(), over={"random_rounding.base": [3, 10]}, replications=5, draws=1)
    >>> len(m.points)
    2
    """
    if isinstance(replications, bool) or not isinstance(replications, int) or replications < 2:
        raise ParameterError("replications must be a whole number of at least 2, so that there is an interval.")
    source = draws if isinstance(draws, Draws) else Draws.secret() if draws is None else Draws(draws)
    measures = measures_of(table, risk, utility)
    tried = named_protections(protections)
    refused: dict[str, str] = {}
    points = []
    everything = list(swept(tried, over))
    for done, (family, protection, settings) in enumerate(everything):
        try:
            seen, reasons = observe(table, protection, measures, source.child("map"), replications)
        except SfumatoError as error:
            refused[f"{family} ({named(settings) or 'as it is'})"] = str(error)
        else:
            refused |= {f"{label} of {family}": reason for label, reason in reasons.items()}
            points.append(TablePoint(family, settings, protection, seen))
        if progress is not None:
            progress(done + 1, len(everything))
    if not points:
        raise NotApplicable(
            " ".join(["no protection could be applied to this table.", *dict.fromkeys(refused.values())])
        )
    for side in Side:
        own = [i for i, m in enumerate(measures) if m.side is side]
        if all(np.isnan(p.observations[i]).all() for p in points for i in own):
            raise NotApplicable(
                " ".join([f"no {side} measure applies; a map needs one.", *dict.fromkeys(refused.values())])
            )
    return TableMap(table, tuple(points), measures, replications, source, unprotected(table, measures), refused)
