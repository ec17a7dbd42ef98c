"""The R-U map of protected tables: risk and utility of several methods on the same table, on the same axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.charts.words import short
from sfumato.contract import Draws, Score, Section, Side
from sfumato.contract.score import number
from sfumato.errors import NotApplicable, ParameterError, SfumatoError, listing, unknown_name
from sfumato.rumap.choice import Choice, named
from sfumato.tables.measure import TableMeasure
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable
from sfumato.tables.swept import named_protections, swept
from sfumato.tables.table import Table

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Numbers = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class TablePoint:
    """One protection with its parameters, and what the measures saw of its tables."""

    family: str
    protection: Protection
    settings: Mapping[str, Any]
    """The parameters that were swept; empty for a protection that was tried as it is."""
    observations: tuple[Numbers, ...]
    """Per measure, shape (replications, k); NaN where it does not apply. One replication where nothing is random."""

    @property
    def at(self) -> str:
        """The parameters in words."""
        words = (
            f"{k.rpartition('.')[2]} = {short(float(v)) if isinstance(v, int | float) else v}"
            for k, v in self.settings.items()
        )
        return ", ".join(words) or "as it is"


@dataclass(frozen=True)
class TableChoice(Choice):
    """A chosen protection with its risk and utility, or the reason why there is none."""

    protection: Protection | None = None


@dataclass(frozen=True, eq=False)
class TableMap:
    """Risk and utility of protections of one table; made by `table_map`."""

    table: Table
    points: tuple[TablePoint, ...]
    measures: tuple[TableMeasure, ...]
    replications: int
    draws: Draws = field(repr=False)
    unprotected: tuple[float, ...] = ()
    """Each measure of the table as it is; NaN where it does not apply."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Protections that could not keep what they promise, and measures that do not apply, with the reason."""

    def of_side(self, side: Side) -> tuple[int, ...]:
        """Return the positions of the risk or utility measures."""
        return tuple(i for i, m in enumerate(self.measures) if m.side is side)

    def estimate(self, measure: int, point: int) -> tuple[float, tuple[float, float] | None]:
        """Return a measure's value and its 95 % interval at a point."""
        return _estimate(self.measures[measure], self.points[point].observations[measure])

    def position(self, side: Side, label: str | None) -> int:
        """Return which measure a label names; the first of its side if none is named."""
        own = self.of_side(side)
        if label is None:
            return own[0]
        known = {self.measures[i].label(): i for i in reversed(own)}
        if label not in known:
            raise ParameterError(unknown_name(f"{side} measure", label, known, "the map"))
        return known[label]

    @property
    def frame(self) -> pd.DataFrame:
        """The map as a tidy frame: one row per point and measure."""
        import pandas as pd

        rows = []
        for p, point in enumerate(self.points):
            for i, measure in enumerate(self.measures):
                value, interval = self.estimate(i, p)
                low, high = interval or (np.nan, np.nan)
                rows.append({
                    "point": p, "family": point.family, "label": point.protection.label(), "at": point.at,
                    **dict(point.settings), "replications": len(point.observations[i]), "side": measure.side.value,
                    "measure": measure.label(), "variant": measure.variant, "value": value, "low": low, "high": high,
                    "unprotected": self.unprotected[i],
                })  # fmt: skip
        return pd.DataFrame(rows)

    def frontier(self, risk: str | None = None, utility: str | None = None) -> pd.DataFrame:
        """Return the points that no other point beats in both risk and utility, safest first."""
        import pandas as pd

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        pairs = [(self.estimate(r, p)[0], self.estimate(u, p)[0]) for p in range(len(self.points))]
        rows = [
            {"point": p, "family": self.points[p].family, "at": self.points[p].at, "risk": a, "utility": b}
            for p, (a, b) in enumerate(pairs)
            if not np.isnan(a + b) and not any((c <= a and d >= b) and (c < a or d > b) for c, d in pairs)
        ]
        return pd.DataFrame(rows, columns=["point", "family", "at", "risk", "utility"]).sort_values(
            "risk", ignore_index=True
        )

    def choose(
        self, max_risk: float | Mapping[str, float], utility: str | None = None, *, confirm: int = 20
    ) -> TableChoice:
        """Return the protection with the largest utility among those whose risks stay at or below `max_risk`.

        A risk is judged on the upper end of its 95 % interval. Where something is random, the winner is protected `confirm`
        times again with fresh random numbers; if its risk does not hold there, the next best is taken.
        """
        limits = self._limits(max_risk)
        u = self.position(Side.UTILITY, utility)
        safe = [p for p in range(len(self.points)) if self._excess(self.points[p].observations, limits) <= 1]
        for p in sorted(safe, key=lambda p: -self.estimate(u, p)[0]):
            point = self.points[p]
            seen = point.observations
            random = any(len(o) > 1 for o in seen)
            if random:
                seen = _observe(self.table, point.protection, self.measures, self.draws.child("confirm"), confirm)[0]
                if self._excess(seen, limits) > 1:
                    continue
            how = f", confirmed with {confirm:,} fresh tables" if random else ""
            scores = [m.to_score(o) for m, o in zip(self.measures, seen, strict=True)]
            return TableChoice(
                True, {"protection": point.family, **point.settings}, f"the most useful table within the risk threshold{how}",
                *self._by_side(scores), self._named(limits), point.protection,
            )  # fmt: skip
        return TableChoice(False, {}, self._nothing(limits), max_risk=self._named(limits))

    def _by_side(self, scores: list[Score]) -> tuple[tuple[Score, ...], tuple[Score, ...]]:
        return tuple(tuple(scores[i] for i in self.of_side(side)) for side in (Side.RISK, Side.UTILITY))  # type: ignore[return-value]

    def _limits(self, max_risk: float | Mapping[str, float]) -> dict[int, float]:
        risks = self.of_side(Side.RISK)
        asked = max_risk if isinstance(max_risk, Mapping) else {self.measures[i].label(): max_risk for i in risks}
        found = {self.position(Side.RISK, label): limit for label, limit in asked.items()}
        for limit in found.values():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0:
                raise ParameterError(f"max_risk must be a number of at least 0; got {limit!r}.")
        if absent := [self.measures[i].label() for i in risks if i not in found]:
            raise ParameterError(f"max_risk gives no threshold for {listing(absent)}.")
        return {i: float(limit) for i, limit in found.items()}

    def _named(self, limits: Mapping[int, float]) -> dict[str, float]:
        return {self.measures[i].label(): limit for i, limit in limits.items()}

    def _excess(self, observations: Sequence[Numbers], limits: Mapping[int, float]) -> float:
        """Return the largest upper risk as a share of its limit; infinite where one is not known."""
        worst = 0.0
        for i, limit in limits.items():
            value, interval = _estimate(self.measures[i], observations[i])
            upper = value if interval is None else interval[1]
            share = 0.0 if upper <= limit else upper / limit if limit > 0 and not np.isnan(upper) else np.inf
            worst = max(worst, share)
        return worst

    def _nothing(self, limits: Mapping[int, float]) -> str:
        least = min(range(len(self.points)), key=lambda p: self._excess(self.points[p].observations, limits))
        point = self.points[least]
        said = ", ".join(
            f"{self.measures[i].label()} {self.estimate(i, least)[0]:.4g}, where {limit:.4g} is allowed"
            for i, limit in limits.items()
        )
        return f"no protection that was tried is safe enough. The nearest is {point.family} ({point.at}): {said}."

    def chart(
        self,
        max_risk: float | None = None,
        choice: Choice | None = None,
        risk: str | None = None,
        utility: str | None = None,
    ) -> alt.TopLevelMixin:
        """Draw risk against utility: a curve for each protection, the frontier, the threshold and the choice."""
        from sfumato.charts.table_map import table_map_chart

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        chosen = None
        if choice is not None and choice.feasible:
            wanted = {"protection": choice.settings.get("protection")} | dict(choice.settings)
            chosen = next(
                (p for p, q in enumerate(self.points) if {"protection": q.family, **q.settings} == wanted), None
            )
            max_risk = max_risk if max_risk is not None else choice.max_risk.get(self.measures[r].label())
        names = (self.measures[r].label(), self.measures[u].label())
        return table_map_chart(self.frame, *names, max_risk, chosen)

    def report(self, max_risk: float | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""
        from sfumato.tables.map_section import table_map_section

        return table_map_section(self, max_risk, choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the map for machines."""
        rows = self.frame.to_dict(orient="records")
        clean = [{str(k): number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
        return {"replications": self.replications, "refused": dict(self.refused), "points": clean}


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
        What to try: one protection, several, or several by a name of your own.
    over
        Values of parameters to sweep: ``{"controlled_rounding.base": [3, 5, 10]}``, with the protection's name before the
        point. A protection that is not named is tried over the usual range of its first parameter that has one, else as it is;
        ``over={}`` sweeps nothing.
    risk, utility
        Measures; `RelativeCertainty` (for counts `KnownClosely`) and `TableAccuracy` if not given: they apply to every method.
    replications
        How many tables are made at each point; one where nothing is random.
    draws
        Randomness; a fresh secret seed if not given.
    progress
        Told after each point how many are done, and of how many.

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
    measures = _measures(table, risk, utility)
    tried = named_protections(protections)
    refused: dict[str, str] = {}
    points = []
    everything = list(swept(tried, over))
    for done, (family, protection, settings) in enumerate(everything):
        try:
            seen, reasons = _observe(table, protection, measures, source.child("map"), replications)
        except SfumatoError as error:
            refused[f"{family} ({named(settings) or 'as it is'})"] = str(error)
        else:
            refused |= {f"{label} of {family}": reason for label, reason in reasons.items()}
            points.append(TablePoint(family, protection, settings, seen))
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
    return TableMap(table, tuple(points), measures, replications, source, _unprotected(table, measures), refused)


def _estimate(measure: TableMeasure, observations: Numbers) -> tuple[float, tuple[float, float] | None]:
    """Return a value with its interval; where nothing is random there is nothing to estimate, and the interval is the value."""
    if len(observations) == 1 or np.ptp(observations, axis=0).max() <= 1e-9 * np.abs(observations).max():
        value = float(measure.value(observations[0]))
        return value, None if np.isnan(value) else (value, value)
    return measure.estimate(observations)


def _observe(
    table: Table, protection: Protection, measures: Sequence[TableMeasure], draws: Draws, replications: int
) -> tuple[tuple[Numbers, ...], dict[str, str]]:
    """Return what each measure sees, shape (replications, k), once where nothing is random; and why some do not apply."""
    found: list[list[Numbers]] = [[] for _ in measures]
    reasons: dict[str, str] = {}
    first: PublishedTable | None = None
    for number_ in range(replications):
        outcome = protection.protect(table, draws.replicate(number_))
        if first is not None and number_ == 1 and np.array_equal(outcome.values, first.values, equal_nan=True):
            break
        first = first or outcome
        for measure, seen in zip(measures, found, strict=True):
            try:
                seen.append(measure.observe(outcome))
            except NotApplicable as reason:
                reasons[measure.label()] = str(reason)
                seen.append(np.full(measure.size, np.nan))
    return tuple(np.stack(seen) for seen in found), reasons


def _unprotected(table: Table, measures: Sequence[TableMeasure]) -> tuple[float, ...]:
    shown, found = PublishedTable.shown(table), []
    for measure in measures:
        try:
            found.append(float(measure.assess(shown).value))
        except NotApplicable:
            found.append(np.nan)
    return tuple(found)


def _measures(table: Table, risk: Any, utility: Any) -> tuple[TableMeasure, ...]:
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
