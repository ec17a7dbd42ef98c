"""The promises of every protection of tables, and of every sensitivity rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from sfumato.contract import Draws
from sfumato.data import Microdata
from sfumato.errors import ParameterError, SfumatoError
from sfumato.schema import Attribute, Schema
from sfumato.tables import (
    MinimumFrequency,
    PPercent,
    Protection,
    PublishedTable,
    Sensitivity,
    SensitivityRule,
    Status,
    Table,
)
from sfumato.testing.instances import (
    GENERAL_PROMISES,
    Values,
    check_type,
    instances_of,
    keep,
    require,
    required,
    round_trip,
)


def firms(n: int = 150, seed: int = 6) -> pd.DataFrame:
    """Return firms with a region, a sector, a turnover and an owner."""
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(["N", "S", "W", "E"], n), "sector": g.choice(["a", "b", "c"], n), "staff": g.integers(1, 90, n),
        "turnover": np.round(g.lognormal(4, 1.3, n)), "owner": [f"o{k}" for k in g.integers(0, n, n)],
    })  # fmt: skip


def tabulate(
    frame: pd.DataFrame, variable: str | None = "turnover", formula: str = "region * sector", **options: Any
) -> Table:
    """Tabulate firms, by region and sector."""
    text = ("region", "sector", "owner")
    schema = Schema(tuple(
        Attribute(c, scale="unordered" if c in text else "ordered", role="contributor" if c == "owner" else "other",  # type: ignore[arg-type]
                  integer=c in ("turnover", "staff")) for c in frame
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), formula, variable, **options)


TABLES: dict[str, Callable[[], Table]] = {
    "magnitudes": lambda: tabulate(firms(45), size="staff"),
    "counts": lambda: tabulate(firms().drop(columns="owner"), None),
    "counts with empty cells": lambda: tabulate(firms(25).drop(columns="owner"), None, empty=True),
    "one cell": lambda: tabulate(firms(30).assign(region="N"), formula="region - 1"),
    "one record": lambda: tabulate(firms(1)),
    "all equal": lambda: tabulate(firms().assign(turnover=7.0, staff=3)),
    "zeros": lambda: tabulate(firms().assign(turnover=0.0)),
    "some zeros": lambda: tabulate(firms().assign(turnover=lambda f: np.where(f.index % 3 == 0, 0.0, f.turnover))),
}
"""Tables that a method may refuse, but must not stumble over."""

ProtectionFor = Callable[[Table], Protection]
"""A protection with a rule that suits the table: one of magnitudes, or one of counts."""


def protection_for(cls: type[Protection], table: Table, values: Values | None = None) -> Protection:
    """Build a protection from its declarations, with a rule that suits the table where it takes one."""
    rule = MinimumFrequency(n=3) if table.is_count else PPercent(p=10)
    if "rules" in cls.parameters() and "rules" not in (values or {}):
        try:
            return cls(**required(cls, {**(values or {}), "rules": rule}))
        except ParameterError:  # it takes a rule only together with something else
            pass
    return cls(**required(cls, values))


def protect(make: ProtectionFor, table: Table, draws: Draws | None = None) -> PublishedTable | None:
    """Return the protected table; None where the method refuses it."""
    try:
        return make(table).protect(table, draws or Draws(20_061))
    except SfumatoError:
        return None


def protects_some_table(make: ProtectionFor) -> None:
    """There is a table of magnitudes or of counts that it protects; a label and public cells without secrets go with it."""
    tables = [TABLES[kind]() for kind in ("magnitudes", "counts")]
    published = [p for p in (protect(make, t) for t in tables) if p is not None]
    require(published, "It refuses both.")
    for p in published:
        require(p.protection is not None and 3 < len(p.protection.label()) < 90, "The label is no few words.")
        frame = p.frame()
        require(len(frame) == len(p), "The public frame has not one row for each cell.")
        require(set(frame["status"]) <= {"", "suppressed", "changed"}, "The public frame says why cells are hidden.")


def draws_only_if_it_says_so(make: ProtectionFor) -> None:
    """A method with `random = False` does not depend on the seed."""
    for kind in ("magnitudes", "counts"):
        table = TABLES[kind]()
        one, two = protect(make, table, Draws(1)), protect(make, table, Draws(2))
        require((one is None) == (two is None), "Whether it refuses depends on the seed.")
        if one is not None and two is not None:
            same = np.array_equal(one.values, two.values, equal_nan=True)
            require(same or make(table).random, "random is false, but another seed gives other values.")


def survives_toml_with_its_rule(make: ProtectionFor) -> None:
    """Its parameters survive TOML, and so does its label."""
    for kind in ("magnitudes", "counts"):
        made = make(TABLES[kind]())
        again = round_trip(made)
        require(again == made and again.label() == made.label(), "What is read back differs.")


def protects_records_in_any_order(make: ProtectionFor) -> None:
    """The order of the records does not matter, unless `keyed_by_record` is true."""
    frame = firms()
    for variable in ("turnover", None):
        tables = (
            tabulate(f.drop(columns=[] if variable else "owner"), variable)
            for f in (frame, frame.sample(frac=1, random_state=5))
        )
        one, two = (protect(make, t) for t in tables)
        require((one is None) == (two is None), "Whether it refuses depends on the order.")
        if one is not None and two is not None:
            require(np.array_equal(one.cells.labels, two.cells.labels), "The cells differ.")
            same = np.allclose(one.values, two.values, equal_nan=True, rtol=1e-9)
            require(same or make(one.original).keyed_by_record, "The values differ.")  # type: ignore[arg-type]


def publishes_what_it_says(make: ProtectionFor, table: Table) -> None:
    """What is published has the shape of the table, and every true value lies between `low` and `high`."""
    p = protect(make, table)
    if p is None:
        return
    shape = (len(table),)
    require(p.values.shape == p.low.shape == p.high.shape == p.status.shape == shape, "An array has another shape.")
    require(p.original is table and p.protection is not None, "It does not carry its original and its protection.")
    slack = 1e-6 * np.maximum(np.abs(table.value), 1.0)
    inside = (p.low <= table.value + slack).all() and (table.value <= p.high + slack).all()
    require(inside, "A true value is outside its interval.")
    hidden = np.isin(p.status, (Status.PRIMARY, Status.SECONDARY))
    require(np.array_equal(np.isnan(p.values), hidden), "Cells without a value are not those with the status hidden.")
    shown = p.status == Status.SHOWN
    require(np.allclose(p.values[shown], table.value[shown]), "A cell with the status shown has another value.")
    if table.nonnegative and table.integer:
        require((p.values[~hidden] == np.round(p.values[~hidden])).all(), "A count is no whole number.")
    if p.variance is not None:
        require(p.variance.shape == shape, "The variances have another shape.")
        require((p.variance[~np.isnan(p.variance)] >= 0).all(), "A variance is negative.")


def protects_alike_with_the_same_seed(make: ProtectionFor, table: Table) -> None:
    """The same seed gives the same table, and the table that came in is left alone."""
    before = table.value.copy(), table.totals.copy(), table.counts.copy()
    one, two = protect(make, table), protect(make, table)
    require((one is None) == (two is None), "It refuses only one of two times.")
    if one is not None and two is not None:
        same = np.array_equal(one.values, two.values, equal_nan=True) and np.array_equal(one.status, two.status)
        require(same, "The published cells differ the next time.")
    for then, now in zip(before, (table.value, table.totals, table.counts), strict=True):
        require(np.array_equal(then, now), "The table that came in has changed.")


def adds_up_if_it_says_so(make: ProtectionFor, table: Table) -> None:
    """Where a guarantee says that cells add up, they do."""
    p = protect(make, table)
    if p is None or not any("add up" in g.says and "not add up" not in g.says for g in p.guarantees):
        return
    leaves = p.values[table.cells.of_leaf]
    if (table.cells.of_leaf < 0).any() or np.isnan(leaves).any():
        return
    full = ~np.isnan(p.values)
    sums = table.cells.sums(leaves)[full]
    require(np.allclose(sums, p.values[full], rtol=1e-9, atol=1e-6), "A sum differs from its published value.")


def refuses_without_values(make: ProtectionFor, table: Table) -> None:
    """A refusal is a sentence that quotes no value of a cell."""
    try:
        make(table).protect(table, Draws(20_061))
    except SfumatoError as error:
        said = str(error)
        words = {w.strip(".,;:()") for w in said.replace(",", "").split()}
        require(not {f"{v:.0f}" for v in table.totals if v > 100} & words, "The refusal quotes a value.")
        require(len(said) > 20, f"The refusal is too short to help: {said}")


PROTECTION_PROMISES = (
    protects_some_table, draws_only_if_it_says_so, survives_toml_with_its_rule, protects_records_in_any_order,
)  # fmt: skip
TABLE_PROMISES = (
    publishes_what_it_says, protects_alike_with_the_same_seed, adds_up_if_it_says_so, refuses_without_values,
)  # fmt: skip
"""On each of `TABLES`."""


def assess(rule: SensitivityRule, table: Table) -> Sensitivity | None:
    """Return which cells are unsafe; None where the rule refuses the table."""
    try:
        return rule.assess(table)
    except SfumatoError:
        return None


def has_a_label(rule: SensitivityRule) -> None:
    """A rule has a label, and the same one after TOML."""
    require(round_trip(rule).label() == rule.label() != "", "The label is empty, or another one.")


def assesses_records_in_any_order(rule: SensitivityRule) -> None:
    """The order of the records does not matter."""
    frame = firms()
    one, two = (assess(rule, tabulate(f)) for f in (frame, frame.sample(frac=1, random_state=2)))
    require((one is None) == (two is None), "Whether it refuses depends on the order.")
    if one is not None and two is not None:
        require(np.array_equal(one.unsafe, two.unsafe), "Other cells are unsafe.")
        require(np.allclose(one.upper, two.upper, rtol=1e-6, atol=1e-12), "The protection levels differ.")


def says_which_cells_are_unsafe(rule: SensitivityRule, table: Table) -> None:
    """A rule says of each cell whether it is unsafe, why, and by how much it must be hidden."""
    found = assess(rule, table)
    if found is None:
        return
    require(found.unsafe.shape == (len(table),), "There is not one answer for each cell.")
    for level in (found.upper, found.lower, found.width):
        require(level.shape == (len(table),), "There is not one protection level for each cell.")
        require(np.isfinite(level).all() and (level >= 0).all(), "A protection level is negative or infinite.")
        require((level[~found.unsafe] == 0).all(), "A safe cell has a protection level.")
    explained = all(bool(found.reasons[i]) == bool(found.unsafe[i]) for i in range(len(table)))
    require(explained, "An unsafe cell has no reason, or a safe one has.")


RULE_PROMISES = (has_a_label, assesses_records_in_any_order)
"""`says_which_cells_are_unsafe` on each of `TABLES`."""


def check_protection(protection: Protection | type[Protection], values: Values | None = None) -> None:
    """Check a protection of tables against every promise of the contract, on small tables of firms.

    A class is built with its defaults; if it has a parameter `rules`, with a rule that suits the table.

    Examples
    --------
    >>> from sfumato.tables import RandomRounding
    >>> check_protection(RandomRounding)
    """
    check_type(Protection, protection, values)  # type: ignore[type-abstract]

    def make(table: Table) -> Protection:
        return protection if isinstance(protection, Protection) else protection_for(protection, table, values)

    thing = make(TABLES["magnitudes"]())
    for general in GENERAL_PROMISES:
        keep(general, thing, thing)
    for promise in PROTECTION_PROMISES:
        keep(promise, thing, make)
    for kind, tabulated in TABLES.items():
        table = tabulated()
        for promise_ in TABLE_PROMISES:
            keep(promise_, thing, make, table, on=kind)


def check_rule(rule: SensitivityRule | type[SensitivityRule], values: Values | None = None) -> None:
    """Check a sensitivity rule against every promise of the contract, on small tables of firms.

    Examples
    --------
    >>> from sfumato.tables import PPercent
    >>> check_rule(PPercent)
    """
    tables = {kind: table() for kind, table in TABLES.items()}
    for thing in instances_of(SensitivityRule, rule, values):  # type: ignore[type-abstract]
        for general in (*GENERAL_PROMISES, *RULE_PROMISES):
            keep(general, thing, thing)
        for kind, table in tables.items():
            keep(says_which_cells_are_unsafe, thing, thing, table, on=kind)
