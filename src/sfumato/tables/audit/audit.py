"""The audit of a published table: what a reader can work out, whoever protected it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError
from sfumato.tables.attacker import Attacker
from sfumato.tables.audit import consistency, insiders, whole
from sfumato.tables.audit.differences import unsafe_differences
from sfumato.tables.audit.knowledge import Knowledge
from sfumato.tables.audit.learned import learned
from sfumato.tables.audit.result import Audit
from sfumato.tables.cells import Cells
from sfumato.tables.dimension import TOTAL
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules.together import Together, rules_of

if TYPE_CHECKING:
    from sfumato.tables.rta.priors import Prior

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
_LEAVES = 300
"""Unknown leaves, and short intervals, up to which programs in whole numbers are solved."""
_SHORT = 100
"""Intervals up to which whole numbers can matter."""
Rules = SensitivityRule | str | Mapping[str, Any] | Sequence["SensitivityRule | str | Mapping[str, Any]"]
Known = Mapping[int, "float | tuple[float, float]"]


def audit(
    published: PublishedTable,
    prior: Prior | None = None,
    known: Known | None = None,
    *,
    rules: Rules | None = None,
    tolerance: float = 0.1,
    insiders: Literal["none", "equations", "bounds"] = "equations",
    integer: bool | None = None,
    nonnegative: bool | None = None,
    cells: Whole | Sequence[int] | None = None,
) -> Audit:
    """Return what a reader of a published table can work out about the cells that it does not show.

    For every cell that is not shown as it is, the smallest and the largest value that fit everything published: rounded and
    perturbed cells count with what is sure of them. A cell is exactly disclosed if the two are the same, and approximately if
    they are close. If the table was made here from records, contributors who know their own figures are looked at too; and with
    a `prior`, what every contributor learns of every other.

    Parameters
    ----------
    published
        A table that we protected, or one from anywhere (`PublishedTable.from_frame`).
    prior
        What everybody knew of the contributors before, and how much of it must remain unknown: then the posterior variance of
        every contributor is worked out for every attacker. Needs the table it was made from.
    known
        What a reader knows besides: for cells by their position a value, or a low and a high one.
    rules
        Sensitivity rules, or texts such as "p% 10": their protection levels then say which intervals are too short. Needs the
        table it was made from.
    tolerance
        How long an interval must be, relative to the value (to its middle where the value is not known), where no rule says
        so. 0.1 is 10 %.
    insiders
        Which contributors are looked at, where they are known: "equations", those who are alone in a part of the table, by what
        follows exactly; "bounds", every contributor, also by what follows nearly (linear programs for each: small tables);
        or "none".
    integer
        Whether everybody knows that only whole numbers are possible; if not given, what the original says.
    nonnegative
        Whether everybody knows that no figure is below 0; if not given, what the original or the published bounds say.
    cells
        Positions of the cells to look at; all that are not shown if not given.

    Examples
    --------
    >>> import pandas as pd
    >>> table = PublishedTable.from_frame(pd.DataFrame(
    ...     {"region": ["N", "S", "Total"], "value": ["x", "3", "8"]}), ["region"], "value")
    >>> found = audit(table)
    >>> found.counts["exactly disclosed"], found.certificates[0].words
    (1, '[region N] = [the grand total] − [region S]')
    """
    if not 0 <= tolerance < np.inf:
        raise ParameterError(f"the tolerance must be a number of at least 0, such as 0.1 for 10 %; got {tolerance}.")
    if insiders not in ("none", "equations", "bounds"):
        raise ParameterError(f"insiders must be 'none', 'equations' or 'bounds'; got '{insiders}'.")
    original = published.original
    knows = Knowledge.of(published, nonnegative).with_cells(known or {})
    counted = bool(integer if integer is not None else original is not None and original.integer)
    sensitivity, names = _assessed(published, rules)
    shown = knows.shown | (published.status == Status.SHOWN)  # the latter may be rounded to the last digit published
    asked = _asked(published, shown, cells)
    bounds = _intervals(knows, published, asked)
    notes: list[str] = []
    low, high = _whole(*bounds, asked, knows, notes) if counted else bounds
    exact = asked & _same(low, high, counted, _scale(knows))
    value = original.value if original is not None else None
    near = _near(published, low, high, value, sensitivity, tolerance) & asked & ~exact
    if sensitivity is not None:  # unsafe, and there for everybody to read
        exact |= sensitivity.unsafe & shown
    sensitive = _sensitive(published, sensitivity)
    found = _insiders(knows, published, np.flatnonzero(asked & sensitive), tolerance, insiders, counted, notes)
    if original is None and (apart := _never_together(published.cells)):
        notes.append(
            f"No row is broken down by both {apart[0]} and {apart[1]}. If labels of one are parts of labels of the other, "
            "readers know more than was reckoned with here: write both in one column with a hierarchy, or audit with the records."
        )
    return Audit(
        published, knows, asked, low, high, exact, near, sensitive, tolerance, names, sensitivity, tuple(found),
        learned(published, prior, knows.shown, notes), tuple(notes), bounds,
        () if sensitivity is None else unsafe_differences(published.source("a rule"), knows.shown, _several(rules)),
    )  # fmt: skip


def _never_together(cells: Cells) -> tuple[str, str] | None:
    """Return two dimensions of a table that no cell is broken down by together; None where there are none."""
    by = {name: cells.labels[:, i] != TOTAL for i, name in enumerate(cells.dimensions)}
    for one, other in itertools.combinations([name for name, broken in by.items() if broken.any()], 2):
        if not (by[one] & by[other]).any():
            return one, other
    return None


def _assessed(published: PublishedTable, rules: Rules | None) -> tuple[Sensitivity | None, tuple[str, ...]]:
    if not (several := _several(rules)):
        return None, ()
    table = published.source("a sensitivity rule")
    found = several[0].assess(table)
    for rule in several[1:]:
        found = found | rule.assess(table)
    return found, tuple(rule.label() for rule in several)


def _several(rules: Rules | None) -> list[SensitivityRule]:
    """Return the rules one by one: each may be left out where it does not apply."""
    if rules is None or (isinstance(rules, Sequence) and not len(rules)):
        return []
    listed = [rules] if isinstance(rules, str | SensitivityRule | Mapping) else list(rules)
    made = [rules_of(rule) for rule in listed]
    return [one for rule in made for one in (rule.rules if isinstance(rule, Together) else (rule,))]


def _asked(published: PublishedTable, shown: Flags, cells: Whole | Sequence[int] | None) -> Flags:
    """Return which cells to look at: of those that are not shown as they are."""
    if cells is None:
        return ~shown
    wanted = np.asarray(cells, np.int64)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= len(published)):
        raise ParameterError(f"cells must be positions from 0 to {len(published) - 1:,}.")
    asked = np.zeros(len(published), bool)
    asked[wanted] = True
    return np.asarray(asked & ~shown)


def _intervals(knows: Knowledge, published: PublishedTable, asked: Flags) -> tuple[Numbers, Numbers]:
    low, high = knows.low.copy(), knows.high.copy()
    at = np.flatnonzero(asked)
    try:
        attacker = Attacker(
            knows.cells, knows.low, knows.high, knows.leaf_low, knows.leaf_high, near=_truth(knows, published)
        )
        low[at], high[at] = attacker.intervals(at)
    except DataError:
        raise DataError(consistency.told(knows)) from None
    return low, high


def _whole(low: Numbers, high: Numbers, asked: Flags, knows: Knowledge, notes: list[str]) -> tuple[Numbers, Numbers]:
    """Return the smallest and the largest value in whole numbers, of the cells that were looked at."""
    slack = 1e-6 + 1e-9 * _scale(knows)
    low, high = np.where(asked, np.ceil(low - slack), low), np.where(asked, np.floor(high + slack), high)
    short = np.flatnonzero(asked & (low < high) & (high - low <= _SHORT))
    unknown = int((~knows.known_leaves).sum())
    if max(unknown, len(short)) <= _LEAVES:
        return whole.intervals(knows, low, high, short)
    notes.append(
        f"Whole numbers were used by rounding the ends of intervals: with {unknown:,} unknown leaves and {len(short):,} short "
        "intervals, programs in whole numbers would take too long."
    )
    return low, high


def _truth(knows: Knowledge, published: PublishedTable) -> Numbers | None:
    """Return the true leaves, where they fit what is known: arithmetic is more precise near them."""
    if published.original is None:
        return None
    totals = published.original.totals
    value = knows.cells.sums(totals)
    slack = 1e-11 * np.abs(value)  # files have fifteen digits
    inside = (value >= knows.low - slack).all() and (value <= knows.high + slack).all()
    return totals if inside and (totals >= knows.leaf_low).all() else None


def _scale(knows: Knowledge) -> float:
    return float(max((np.abs(b[np.isfinite(b)]).max(initial=0.0) for b in (knows.low, knows.high)), default=0.0))


def _same(low: Numbers, high: Numbers, counted: bool, scale: float) -> Flags:
    """Return which intervals are one value: linear programs are exact to about 1e-7 of the values involved."""
    if counted:
        return np.asarray(high <= low)
    finite = np.isfinite(low) & np.isfinite(high)
    size = np.maximum(np.abs(np.where(finite, low, 0.0)), np.abs(np.where(finite, high, 0.0)))
    with np.errstate(invalid="ignore"):
        return np.asarray(finite & (high - low <= 1e-6 * size + 1e-11 * scale))


def _near(
    published: PublishedTable,
    low: Numbers,
    high: Numbers,
    value: Numbers | None,
    sensitivity: Sensitivity | None,
    tolerance: float,
) -> Flags:
    """Return which intervals are too short."""
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, np.inf)
        short = (high - low) <= tolerance * np.abs(middle if value is None else value)
        short &= np.isfinite(high - low) & published.suppressed
    if sensitivity is None or value is None:
        return np.asarray(short)
    slack = 1e-6 * np.maximum(np.abs(value), 1.0)
    enough = (
        (high >= value + sensitivity.upper - slack)
        & (low <= value - sensitivity.lower + slack)
        & (high - low >= sensitivity.width - slack)
    )
    return np.where(sensitivity.unsafe, ~enough, short)


def _sensitive(published: PublishedTable, sensitivity: Sensitivity | None) -> Flags:
    """Return which cells must not be worked out: those the rules say, else the primaries, else all that are not shown."""
    if sensitivity is not None:
        return sensitivity.unsafe
    primary = published.status == Status.PRIMARY
    if published.original is not None and primary.any():
        return np.asarray(primary)
    return np.ones(len(published), bool)


def _insiders(
    knows: Knowledge,
    published: PublishedTable,
    targets: Whole,
    tolerance: float,
    how: str,
    counted: bool,
    notes: list[str],
) -> list[insiders.Insider]:
    table = published.original
    if table is None or table.contributions is None:
        why = "only the published table is known" if table is None else "the table does not say who they are"
        notes.append(f"Contributors who know their own figures were not looked at: {why}.")
        return []
    if how == "none" or not len(targets):
        if how == "none":
            notes.append("Contributors who know their own figures were not looked at.")
        return []
    if _truth(knows, published) is None:
        notes.append("Contributors who know their own figures were not looked at: nothing is sure in this table.")
        return []
    if how == "bounds":
        return insiders.by_bounds(
            knows, table, targets, tolerance, lambda low, high: _same(low, high, counted, _scale(knows))
        )
    return insiders.by_equations(knows, table, targets)
