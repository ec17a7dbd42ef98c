"""What a map sees of a table: its points, and what the measures say of them, replicated where something is random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Side
from sfumato.errors import NotApplicable, ParameterError
from sfumato.rumap.points import Estimate, Tried
from sfumato.tables.measure import TableMeasure
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
_ALIKE = 4
"""A method that draws, and makes the same table so many times in a row, is taken not to need its draws here."""


@dataclass(frozen=True, eq=False)
class TablePoint(Tried):
    """One protection with its parameters, and what the measures saw of its tables."""

    protection: Protection
    observations: tuple[Numbers, ...]
    """Per measure, shape (replications, k); NaN where it does not apply. One replication where nothing is random."""

    @property
    def label(self) -> str:
        """The protection with all its parameters."""
        return self.protection.label()


def estimate(measure: TableMeasure, observations: Numbers) -> Estimate:
    """Return a value with its interval; where nothing is random there is nothing to estimate, and the interval is the value."""
    if len(observations) == 1 or np.allclose(observations, observations[0], rtol=1e-9, atol=0):
        value = float(measure.value(observations[0]))
        return value, None if np.isnan(value) else (value, value)
    return measure.estimate(observations)


def observe(
    table: Table, protection: Protection, measures: Sequence[TableMeasure], draws: Draws, replications: int
) -> tuple[tuple[Numbers, ...], dict[str, str]]:
    """Return what each measure sees, shape (replications, k), once where nothing is random; and why some do not apply."""
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
    """Return each measure of the table as it is; NaN where it does not apply."""
    shown, found = PublishedTable.shown(table), []
    for measure in measures:
        try:
            found.append(float(measure.assess(shown).value))
        except NotApplicable:
            found.append(np.nan)
    return tuple(found)


def measures_of(table: Table, risk: Any, utility: Any) -> tuple[TableMeasure, ...]:
    """Return the measures of a map, risks first; those that apply to every method where none are given."""
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
