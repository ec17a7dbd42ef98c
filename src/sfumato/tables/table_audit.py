"""The audit of a published table: what a reader can work out, whoever protected it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.lazy import optimize
from sfumato.tables.attacker import Attacker, Insider, by_bounds, by_equations
from sfumato.tables.audit_result import Audit
from sfumato.tables.cells import TOTAL, Cells, Status
from sfumato.tables.certificates import PublishedSum
from sfumato.tables.knowledge import Combinations, KnownBounds, sums_table
from sfumato.tables.published import PublishedTable
from sfumato.tables.rules import Together, rules_of
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.tables.rta.posterior_audit import PairAudit
    from sfumato.tables.rta.priors import Prior


def contradictions(known: KnownBounds) -> Whole:
    """Return cells that cannot all be right; none if some leaves agree with everything published.

    A linear program finds the smallest changes of cells, by the sum of absolute values, that make the table possible. The
    binding cells, by its dual solution, contradict each other (Farkas' lemma).
    """
    from scipy import sparse

    count, leaves = known.cells.incidence.shape
    finite = np.concatenate([b[np.isfinite(b)] for b in (known.low, known.high)])
    scale = max(1.0, float(np.abs(finite).max(initial=0.0))) / 1e3
    identity = sparse.eye_array(count, format="csr")
    upper, lower = np.flatnonzero(np.isfinite(known.high)), np.flatnonzero(np.isfinite(known.low))
    rows = sparse.hstack([known.cells.incidence, identity, -identity], format="csr")
    found = optimize.linprog(
        np.concatenate([np.zeros(leaves), np.ones(2 * count)]),
        A_ub=sparse.vstack([rows[upper], -rows[lower]], format="csr"),
        b_ub=np.concatenate([known.high[upper], -known.low[lower]]) / scale,
        bounds=[*zip(known.leaf_low / scale, known.leaf_high / scale, strict=True), *[(0, None)] * (2 * count)],
        method="highs",
    )
    if found.status != 0 or not found.fun or found.fun <= 1e-7:
        return np.zeros(0, np.int64)
    limiting = np.abs(found.ineqlin.marginals) > 1e-7
    return np.unique(np.concatenate([upper, lower])[limiting])


def contradiction_sentence(known: KnownBounds) -> str:
    """Name the cells that contradict each other, in a sentence."""
    cells = contradictions(known)
    names = join_names((f"[{known.cells.name(int(c))}]" for c in cells), 6)
    where = f" These cannot all be right: {names}." if len(cells) else ""
    return (
        f"no figures can give this table: what is published does not add up.{where} Look for figures that were rounded one by "
        "one (say within how much of the true one they are), hierarchies that do not fit, and rows that were left out because "
        "they were suppressed (say that absent rows are suppressed)."
    )


def unsafe_sums(
    published: PublishedTable, knows: KnownBounds, rules: Sequence[SensitivityRule], counted: bool, notes: list[str]
) -> tuple[PublishedSum, ...]:
    """Return sums that follow from published cells, exactly or nearly, and are unsafe by a rule: the smallest of them.

    Each is assessed as if it were a cell, so that contributors, holdings and coalitions who subtract their own are reckoned
    with. Sums of other sums are left out.
    """
    table = published.source("a rule")
    if not rules:
        return ()
    combinations = Combinations.of(table.cells)
    changed = (published.status == Status.CHANGED) & np.isfinite(knows.low) & np.isfinite(knows.high)
    unsafe: list[tuple[sparse.csr_array, Flags, bool]] = []
    complete = True
    truth = _truth(knows, published) if (changed & ~knows.shown).any() else None
    for shown in [knows.shown] if truth is None else [knows.shown, knows.shown | changed]:
        rows, all_found = combinations.sums(~shown)
        complete &= all_found
        levels = _levels(table, rows, rules)
        at = np.flatnonzero(levels.unsafe) if levels is not None else np.zeros(0, np.int64)
        if truth is not None and levels is not None and shown is not knows.shown and len(at):
            value = rows[at] @ truth
            low, high = (end + value for end in _attacker(knows, truth).bounds_of(sparse.csr_array(rows[at])))
            at = at[_same(low, high, counted, _scale(knows)) | ~levels.reached(low, high, value, _slack(value), at)]
        unsafe += [(sparse.csr_array(rows[[i]]), shown, shown is knows.shown) for i in at]
    if not complete:
        notes.append(
            "Sums of cells that readers can work out were looked at as totals less their parts, not in every combination: too "
            "many cells depend on each other."
        )
    return tuple(PublishedSum.of(knows, *one) for one in _smallest(unsafe))


def _levels(table: Table, rows: sparse.csr_array, rules: Sequence[SensitivityRule]) -> Sensitivity | None:
    """Assess sums of leaves by the rules that can; None if there is nothing to assess."""
    found: Sensitivity | None = None
    for rule in rules if rows.shape[0] else ():
        try:
            one = rule.assess(sums_table(table, rows))
        except DataError:
            continue  # the rule needs data that only cells have
        found = one if found is None else found | one
    return found


def _smallest(unsafe: Sequence[tuple[sparse.csr_array, Flags, bool]]) -> list[tuple[sparse.csr_array, Flags, bool]]:
    """Return the sums that contain no other one, each once."""
    sets = [frozenset(row.indices.tolist()) for row, _, _ in unsafe]
    smallest = []
    for i, leaves in enumerate(sets):
        if leaves not in sets[:i] and not any(other < leaves for other in sets):
            smallest.append(unsafe[i])
    return smallest


def pair_audit(published: PublishedTable, prior: Prior | None, shown: Flags, notes: list[str]) -> PairAudit | None:
    """Return what every contributor learns of every other, with noise or without; `notes` gets what was not examined."""
    if prior is None:
        if published.variance is not None or published.leaf_variance is not None:
            notes.append(
                "Noise was added to this table. What contributors learn of each other needs a prior, and none was given."
            )
        return None
    from sfumato.tables.rta.posterior_audit import audit_pairs

    table = published.source("an audit with a prior")
    if table.nonnegative:
        notes.append(
            "What contributors learn of each other was worked out for normal priors. That nobody contributes less than nothing "
            "was not used in it: whoever does may be a little surer, where little is known before."
        )
    noise, hidden = _noise(published), published.suppressed
    if noise is not None:
        return audit_pairs(table, prior, noise, published=~hidden if hidden.any() else None)
    if (published.status == Status.CHANGED).any():
        notes.append(
            "Rounded and changed cells were taken for measurements: how far off each is counts with what all of them together "
            "are off, relative to the interval (or, without one, to the value) of each."
        )
        return _measured(published, prior)
    return audit_pairs(table, prior, np.zeros(table.cells.leaves), published=shown)


def _noise(published: PublishedTable) -> Numbers | sparse.csr_array | None:
    """Return the covariance or variances of the noise on the leaves, where they are known or published."""
    from sfumato.tables.reader import leaf_noise

    if (noise := leaf_noise(published)) is not None or published.variance is None:
        return noise
    at = published.cells.of_leaf
    found = published.variance[at]
    if (at < 0).any() or np.isnan(found).any():
        raise NotApplicable(
            "what contributors learn needs the variance of the noise on every leaf, which is not known here."
        )
    return np.asarray(found)


def _measured(published: PublishedTable, prior: Prior) -> PairAudit:
    """Audit a rounded or perturbed table: published cells are measurements with the error of their intervals."""
    from sfumato.tables.reader import contributor_posterior
    from sfumato.tables.rta.posterior_audit import PairAudit

    if prior.unknowns != "contributor" or prior.controllers is not None:
        raise NotApplicable(
            "a rounded or perturbed table is audited with contributors as unknowns who attack one by one: leave unknowns and "
            "controllers out of the prior."
        )
    required = prior.of(published.source("an audit with a prior")).required
    found = contributor_posterior(published, prior)
    nobody = np.full(len(required), np.nan)
    who = np.arange(len(required))
    return PairAudit(who, found.variance, found.attacker, required, prior.threshold, nobody, exact=False, measured=True)


def intervals(known: KnownBounds, low: Numbers, high: Numbers, cells: Whole) -> tuple[Numbers, Numbers]:
    """Return `low` and `high` with those of some cells made exact for leaves that are whole numbers.

    Fractional leaves can reach values that whole ones cannot, in three dimensions and in linked tables. Every solution of a
    program is checked against all cells: an end that some solution reaches needs no program of its own.
    """
    low, high = low.copy(), high.copy()
    limits = np.isfinite(known.low) | np.isfinite(known.high)
    rows = sparse.csc_array(known.cells.incidence[limits])
    within = optimize.LinearConstraint(rows, np.ceil(known.low[limits] - 1e-6), np.floor(known.high[limits] + 1e-6))
    bounds = optimize.Bounds(np.ceil(known.leaf_low - 1e-6), np.floor(known.leaf_high + 1e-6))
    reached_low, reached_high = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    for cell in cells:
        costs = known.cells.incidence[[cell]].toarray().ravel()
        for sign, ends, reached in ((1.0, low, reached_low), (-1.0, high, reached_high)):
            if not np.isfinite(ends[cell]) or reached[cell] == ends[cell]:
                continue
            found = optimize.milp(
                sign * costs, constraints=within, bounds=bounds, integrality=np.ones(known.cells.leaves, np.int64),
                options={"mip_rel_gap": 0.0},  # a ten-thousandth of a large value is more than one
            )  # fmt: skip
            if found.status == 2:
                raise DataError(
                    "no whole numbers can give this table, although fractions could. Are its figures counts?"
                )
            if found.x is None:
                continue  # not solved: the wider interval stays
            values = known.cells.sums(np.round(found.x))
            np.minimum(reached_low, values, out=reached_low)
            np.maximum(reached_high, values, out=reached_high)
            ends[cell] = values[cell]
    return low, high


_LEAVES = 300
"""Largest number of unknown leaves, and of short intervals, for integer programs."""
_SHORT = 100
"""Longest intervals for which whole numbers can matter."""
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
    """Return what a reader of a published table can work out about the cells that it does not publish.

    The interval of a cell that is not published exactly runs from the smallest to the largest value that agrees with everything
    published; rounded and perturbed cells count with their certain bounds. A cell is exactly disclosed if both ends are the
    same, and approximately if they are close. If the table was made here from records, contributors who know their own figures
    are examined too; and with a `prior`, what every contributor learns of every other.

    Parameters
    ----------
    published
        A table protected by sfumato, or one from elsewhere (`PublishedTable.from_frame`).
    prior
        Prior knowledge of the contributors, and how much must stay unknown: then the posterior variance of every contributor is
        computed for every attacker. Needs the original table.
    known
        What else a reader knows: for cells by their position a value, or a lower and an upper bound.
    rules
        Sensitivity rules, or texts such as "p% 10": their protection levels then say which intervals are too short. Needs the
        original table.
    tolerance
        How long an interval must be, relative to the value (to its middle where the value is not known), where no rule says so.
        0.1 is 10 %.
    insiders
        Which contributors are examined, if known: "equations", those who are alone in a part of the table, for exact
        disclosure; "bounds", every contributor, also for approximate disclosure (linear programs for each: small tables); or
        "none".
    integer
        Whether everybody knows that only whole numbers are possible; taken from the original if not given.
    nonnegative
        Whether everybody knows that no figure is below 0; taken from the original or the published bounds if not given.
    cells
        Positions of the cells to examine; all that are not published if not given.

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
    knows = KnownBounds.of(published, nonnegative).with_cells(known or {})
    counted = bool(integer if integer is not None else original is not None and original.integer)
    sensitivity, names = _assessed(published, rules)
    shown = knows.shown | (published.status == Status.SHOWN)  # the latter may be rounded to the last published digit
    asked = _asked(published, shown, cells)
    bounds = _intervals(knows, published, asked)
    notes: list[str] = []
    low, high = _whole(*bounds, asked, knows, notes) if counted else bounds
    exact = asked & _same(low, high, counted, _scale(knows))
    value = original.value if original is not None else None
    near = _near(published, low, high, value, sensitivity, tolerance) & asked & ~exact
    if sensitivity is not None:  # unsafe, and published
        exact |= sensitivity.unsafe & shown
    sensitive = _sensitive(published, sensitivity)
    found = _insiders(knows, published, np.flatnonzero(asked & sensitive), tolerance, insiders, counted, notes)
    if original is None and (apart := _never_together(published.cells)):
        notes.append(
            f"No row is broken down by both {apart[0]} and {apart[1]}. If labels of one are parts of labels of the other, "
            "readers know more than was reckoned with here: write both in one column with a hierarchy, or audit with the records."
        )
    sums = () if sensitivity is None else unsafe_sums(published, knows, _several(rules), counted, notes)
    return Audit(
        published, knows, asked, low, high, exact, near, sensitive, tolerance, names, sensitivity, tuple(found),
        pair_audit(published, prior, knows.shown, notes), tuple(notes), bounds, sums,
    )  # fmt: skip


def _never_together(cells: Cells) -> tuple[str, str] | None:
    """Return two dimensions of a table that no cell combines; None where there are none."""
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
    """Return which cells to examine, among those that are not published exactly."""
    if cells is None:
        return ~shown
    wanted = np.asarray(cells, np.int64)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= len(published)):
        raise ParameterError(f"cells must be positions from 0 to {len(published) - 1:,}.")
    asked = np.zeros(len(published), bool)
    asked[wanted] = True
    return np.asarray(asked & ~shown)


def _intervals(knows: KnownBounds, published: PublishedTable, asked: Flags) -> tuple[Numbers, Numbers]:
    low, high = knows.low.copy(), knows.high.copy()
    at = np.flatnonzero(asked)
    try:
        low[at], high[at] = _attacker(knows, _truth(knows, published)).intervals(at)
    except DataError:
        raise DataError(contradiction_sentence(knows)) from None
    return low, high


def _attacker(knows: KnownBounds, truth: Numbers | None) -> Attacker:
    return Attacker(knows.cells, knows.low, knows.high, knows.leaf_low, knows.leaf_high, near=truth)


def _whole(low: Numbers, high: Numbers, asked: Flags, knows: KnownBounds, notes: list[str]) -> tuple[Numbers, Numbers]:
    """Return the smallest and the largest value in whole numbers, for the examined cells."""
    slack = 1e-6 + 1e-9 * _scale(knows)
    low, high = np.where(asked, np.ceil(low - slack), low), np.where(asked, np.floor(high + slack), high)
    short = np.flatnonzero(asked & (low < high) & (high - low <= _SHORT))
    unknown = int((~knows.known_leaves).sum())
    if max(unknown, len(short)) <= _LEAVES:
        return intervals(knows, low, high, short)
    notes.append(
        f"Whole numbers were used by rounding the ends of intervals: with {unknown:,} unknown leaves and {len(short):,} short "
        "intervals, programs in whole numbers would take too long."
    )
    return low, high


def _truth(knows: KnownBounds, published: PublishedTable) -> Numbers | None:
    """Return the true leaves, where they agree with what is known: arithmetic is more precise near them."""
    if published.original is None:
        return None
    totals = published.original.totals
    value = knows.cells.sums(totals)
    slack = 1e-11 * np.abs(value)  # files have fifteen digits
    inside = (value >= knows.low - slack).all() and (value <= knows.high + slack).all()
    return totals if inside and (totals >= knows.leaf_low).all() else None


def _scale(knows: KnownBounds) -> float:
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
    return np.where(sensitivity.unsafe, ~sensitivity.reached(low, high, value, _slack(value)), short)


def _slack(value: Numbers) -> Numbers:
    return np.asarray(1e-6 * np.maximum(np.abs(value), 1.0))


def _sensitive(published: PublishedTable, sensitivity: Sensitivity | None) -> Flags:
    """Return which cells must not be worked out: those of the rules, else the primaries, else all that are not published."""
    if sensitivity is not None:
        return sensitivity.unsafe
    primary = published.status == Status.PRIMARY
    if published.original is not None and primary.any():
        return np.asarray(primary)
    return np.ones(len(published), bool)


def _insiders(
    knows: KnownBounds,
    published: PublishedTable,
    targets: Whole,
    tolerance: float,
    how: str,
    counted: bool,
    notes: list[str],
) -> list[Insider]:
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
        return by_bounds(knows, table, targets, tolerance, lambda low, high: _same(low, high, counted, _scale(knows)))
    return by_equations(knows, table, targets)
