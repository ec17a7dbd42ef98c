"""The R-U map of protected tables: risk and utility of several methods on the same table, on the same axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract import Draws, Section, Side
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.rumap.choice import Choice, named
from sfumato.rumap.points import Estimate, PointMap
from sfumato.tables.map_choice import TableChoice, chosen
from sfumato.tables.map_points import TablePoint, estimate, measures_of, observe, unprotected
from sfumato.tables.measure import TableMeasure
from sfumato.tables.protection import Protection
from sfumato.tables.swept import named_protections, swept
from sfumato.tables.table import Table

if TYPE_CHECKING:
    import altair as alt

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
    """Each measure of the table as it is; NaN where it does not apply."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Protections that could not keep what they promise, and measures that do not apply, with the reason."""

    def estimate(self, measure: int, point: int) -> Estimate:
        """Return a measure's value and its 95 % interval at a point."""
        return estimate(self.measures[measure], self.points[point].observations[measure])

    def _facts(self, measure: int, point: int) -> dict[str, Any]:
        seen = self.points[point].observations[measure]
        return {"replications": len(seen), "unprotected": self.unprotected[measure]}

    def choose(
        self, max_risk: float | Mapping[str, float], utility: str | None = None, *, confirm: int = 20
    ) -> TableChoice:
        """Return the protection with the largest utility among those whose risks stay at or below `max_risk`.

        A risk is judged on the upper end of its 95 % interval. Where something is random, the winner is protected `confirm`
        times again with fresh random numbers; if its risk does not hold there, the next best is taken.
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
        from sfumato.charts.table_map import table_map_chart

        r, u = self.position(Side.RISK, risk), self.position(Side.UTILITY, utility)
        if choice is not None and choice.feasible:
            max_risk = max_risk if max_risk is not None else choice.max_risk.get(self.measures[r].label())
        names = (self.measures[r].label(), self.measures[u].label())
        return table_map_chart(self.frame, *names, max_risk, self.marked(choice, "protection"))

    def report(self, max_risk: float | None = None, choice: Choice | None = None) -> Section:
        """Return the map as a section of a report."""
        from sfumato.tables.map_section import table_map_section

        return table_map_section(self, max_risk, choice)

    def to_dict(self) -> dict[str, Any]:
        """Return the map for machines."""
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
