"""The R-U map of protected tables: which protections are tried, how they are measured, and what the map says."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.charts.captions import counted, first_line, short, spoken, tabled
from sfumato.contract import Draws, Parameter, Score, Section, Side
from sfumato.errors import NotApplicable, ParameterError, SfumatoError, unknown_name
from sfumato.maps.choice import Choice, Estimate, named
from sfumato.maps.rumap import MapPoint, MapSubject, RUMap
from sfumato.maps.section import points_section
from sfumato.tables.measures import TableMeasure
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.table import Table
from sfumato.typing import Numbers

Progress = Callable[[int, int], None]

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


_ALIKE = 4
"""A random method that makes the same table this many times in a row is assumed not to use its draws here."""


@dataclass(frozen=True, eq=False)
class TableSubject(MapSubject):
    """Protections of one table, each applied again and again where it is random."""

    table: Table
    measures: tuple[TableMeasure, ...]
    replications: int
    draws: Draws = field(repr=False)
    noun: ClassVar[str] = "protection"
    outcome: ClassVar[str] = "table"
    confirm: ClassVar[int] = 20

    @override
    def estimate(self, measure: int, point: MapPoint) -> Estimate:
        """Return a value with its interval; where nothing is random, the interval is the value."""
        observations = point.seen[measure]
        if len(observations) == 1 or np.allclose(observations, observations[0], rtol=1e-9, atol=0):
            value = float(self.measures[measure].value(observations[0]))
            return value, None if np.isnan(value) else (value, value)
        return self.measures[measure].estimate(observations)

    @override
    def score(self, measure: int, point: MapPoint) -> Score:
        return self.measures[measure].to_score(point.seen[measure])

    @override
    def columns(self, measure: int, point: MapPoint) -> dict[str, Any]:
        return {"label": point.label, "replications": len(point.seen[measure])}

    @override
    def again(self, point: MapPoint, times: int) -> tuple[MapPoint, str]:
        if all(len(o) == 1 for o in point.seen):
            return point, ""
        fresh = observe(self.table, point.method, self.measures, self.draws.child("confirm"), times)[0]
        return replace(point, seen=fresh), f", confirmed with {times:,} fresh tables"

    @override
    def section(self, m: RUMap, max_risk: Any, choice: Choice | None) -> Section:
        families = dict.fromkeys(p.family.replace("_", " ") for p in m.points)
        sentences = [
            (
                f"The same table was protected by {spoken(families)}, at {counted(len(m.points), 'setting')}; where something is "
                f"random, {m.replications:,} times, with 95 % intervals over these."
            ),
            *(f"{words}." for words in {type(measure): first_line(measure) for measure in self.measures}.values()),
        ]
        return points_section(
            m, max_risk, choice, "Risk and utility of protections", sentences,
            scored=lambda s: f"{tabled(s.value)} ({s.words})", more="one curve for each protection",
        )  # fmt: skip

    @override
    def chosen_words(self, choice: Choice) -> str:
        at = spoken(
            f"{k.rpartition('.')[2].replace('_', ' ')} = {v if isinstance(v, str) else short(float(v))}"
            for k, v in choice.settings.items()
            if k != self.noun
        )
        return choice.family.replace("_", " ") + (f" with {at}" if at else "")

    @override
    def facts(self, m: RUMap) -> dict[str, Any]:
        same = (*m.parameters, "side", "measure", "variant", "value", "low", "high", "replications", "unprotected")
        columns = {"point": "point", "family": "family", "label": "label", "at": "settings", **{n: n for n in same}}
        points = m.records(columns, "unprotected")
        return {"replications": m.replications, "refused": dict(m.refused), "points": points}


def observe(
    table: Table, protection: Protection, measures: Sequence[TableMeasure], draws: Draws, replications: int
) -> tuple[tuple[Numbers, ...], dict[str, str]]:
    """Return each measure's observations, shape (replications, k), one where nothing is random; and why some do not apply."""
    observations: list[list[Numbers]] = [[] for _ in measures]
    reasons: dict[str, str] = {}
    first: Numbers | None = None
    differ = False
    for number_ in range(replications if protection.random else 1):
        outcome = protection.protect(table, draws.replicate(number_))
        first = outcome.values if first is None else first
        differ = differ or not np.array_equal(outcome.values, first, equal_nan=True)
        for measure, seen in zip(measures, observations, strict=True):
            try:
                seen.append(measure.observe(outcome))
            except NotApplicable as reason:
                reasons[measure.label()] = str(reason)
                seen.append(np.full(measure.size, np.nan))
        if not differ and number_ + 1 == _ALIKE:
            return tuple(np.stack(seen[:1]) for seen in observations), reasons
    return tuple(np.stack(seen) for seen in observations), reasons


def _unprotected(table: Table, measures: Sequence[TableMeasure]) -> MapPoint:
    """Return the table without protection; each measure's value is as of one by formula, NaN where it does not apply."""
    shown, values = PublishedTable.unprotected(table), []
    for measure in measures:
        try:
            values.append(float(measure.assess(shown).value))
        except NotApplicable:
            values.append(np.nan)
    return MapPoint("unprotected", {}, None, at="unprotected", formulas=tuple(values))


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
) -> RUMap:
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
            points.append(MapPoint(family, settings, protection, seen, _at(settings), protection.label()))
        if progress is not None:
            progress(done + 1, len(everything))
    if not points:
        raise NotApplicable(
            " ".join(["no protection could be applied to this table.", *dict.fromkeys(refused.values())])
        )
    for side in Side:
        own = [i for i, m in enumerate(measures) if m.side is side]
        if all(np.isnan(p.seen[i]).all() for p in points for i in own):
            raise NotApplicable(
                " ".join([f"no {side} measure applies; a map needs one.", *dict.fromkeys(refused.values())])
            )
    parameters = tuple(dict.fromkeys(name for p in points for name in p.settings))
    subject = TableSubject(table, measures, replications, source)
    return RUMap(subject, tuple(points), parameters, _unprotected(table, measures), refused)


def _at(settings: Mapping[str, Any]) -> str:
    """Return the swept parameters in words: ``sd = 2, base = 5``."""
    words = (
        f"{k.rpartition('.')[2]} = {short(float(v)) if isinstance(v, int | float) else v}" for k, v in settings.items()
    )
    return ", ".join(words) or "as it is"
