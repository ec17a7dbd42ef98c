"""What every protection of tables and every sensitivity rule must do, whoever wrote it."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Draws, Microdata, Schema
from sfumato.contract import registered
from sfumato.contract.parameters import build
from sfumato.errors import ParameterError, SfumatoError
from sfumato.tables import (
    MinimumFrequency,
    PPercent,
    Protection,
    PublishedTable,
    RandomRounding,
    SensitivityRule,
    Status,
    Table,
)
from sfumato.toml import dump

PROTECTIONS = {n: cls for n, cls in sorted(registered("protection").items()) if cls.__module__.startswith("sfumato.")}
RULES = {n: cls for n, cls in sorted(registered("rule").items()) if cls.__module__.startswith("sfumato.")}
SEED = Draws(20_061)


def firms(n: int = 150, seed: int = 6) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(["N", "S", "W", "E"], n), "sector": g.choice(["a", "b", "c"], n), "staff": g.integers(1, 90, n),
        "turnover": np.round(g.lognormal(4, 1.3, n)), "owner": [f"o{k}" for k in g.integers(0, n, n)],
    })  # fmt: skip


def table(
    frame: pd.DataFrame, variable: str | None = "turnover", formula: str = "region * sector", **options: Any
) -> Table:
    text = ("region", "sector", "owner")
    schema = Schema(tuple(
        Attribute(c, scale="unordered" if c in text else "ordered", role="contributor" if c == "owner" else "other",
                  integer=c in ("turnover", "staff")) for c in frame
    ))  # fmt: skip
    return Table.of(Microdata(frame, schema), formula, variable, **options)


def equal() -> pd.DataFrame:
    return firms().assign(turnover=7.0, staff=3)


SMALL: dict[str, Table] = {
    "magnitudes": table(firms(45), size="staff"),
    "counts": table(firms().drop(columns="owner"), None),
    "counts with empty cells": table(firms(25).drop(columns="owner"), None, empty=True),
    "one cell": table(firms(30).assign(region="N"), formula="region - 1"),
    "one record": table(firms(1)),
    "all equal": table(equal()),
    "zeros": table(firms().assign(turnover=0.0)),
    "some zeros": table(firms().assign(turnover=lambda f: np.where(f.index % 3 == 0, 0.0, f.turnover))),
}
"""Tables that a method may refuse, but must not stumble over."""


def protection(name: str, t: Table) -> Protection:
    """Return a protection with its defaults; with a rule that suits the table where it needs one."""
    cls: Any = PROTECTIONS[name]
    rules = MinimumFrequency(n=3) if t.is_count else PPercent(p=10)
    fields = {"rules": rules} if "rules" in cls.parameters() and name != "cell_key" else {}
    made = cls(**fields)
    assert isinstance(made, Protection)
    return made


def rule(name: str) -> SensitivityRule:
    cls: Any = RULES[name]
    made = cls((PPercent(p=10), MinimumFrequency(n=3))) if name == "together" else cls()
    assert isinstance(made, SensitivityRule)
    return made


def through_toml(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(dump({}, "step", [fields]))["step"][0]
    return found


def protect(name: str, t: Table, draws: Draws = SEED) -> PublishedTable | None:
    """Return the protected table; None where the method refuses it in words of its own."""
    try:
        return protection(name, t).protect(t, draws)
    except SfumatoError:
        return None


CASES = [(n, k) for n in PROTECTIONS for k in SMALL]
each = pytest.mark.parametrize("name", list(PROTECTIONS))
each_rule = pytest.mark.parametrize("name", list(RULES))
cases = pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{n}-{k}" for n, k in CASES])


def test_there_are_protections_and_rules() -> None:
    assert {"rta", "suppression", "controlled_rounding", "random_rounding", "cell_key"} <= set(PROTECTIONS)
    assert {"p_percent", "pq", "nk", "minimum_frequency", "minimum_contributors", "ptn", "request"} <= set(RULES)


@each
def test_every_protection_has_a_table_it_protects(name: str) -> None:
    assert any(protect(name, SMALL[kind]) is not None for kind in ("magnitudes", "counts"))


@cases
def test_what_is_published_keeps_its_shape_and_its_word(name: str, kind: str) -> None:
    t = SMALL[kind]
    p = protect(name, t)
    if p is None:
        return
    shape = (len(t),)
    assert p.values.shape == p.low.shape == p.high.shape == p.status.shape == shape
    assert p.original is t
    assert p.protection is not None
    slack = 1e-6 * np.maximum(np.abs(t.value), 1.0)
    assert (p.low <= t.value + slack).all()
    assert (t.value <= p.high + slack).all()
    assert not np.isnan(p.low).any()
    assert not np.isnan(p.high).any()
    hidden = np.isin(p.status, (Status.PRIMARY, Status.SECONDARY))
    assert np.array_equal(np.isnan(p.values), hidden)
    shown = p.status == Status.SHOWN
    assert np.allclose(p.values[shown], t.value[shown])
    if t.nonnegative and t.integer:
        assert (p.values[~hidden] == np.round(p.values[~hidden])).all()
    if p.variance is not None:
        assert p.variance.shape == shape
        assert (p.variance[~np.isnan(p.variance)] >= 0).all()


@cases
def test_the_same_seed_gives_the_same_table_and_leaves_the_input_alone(name: str, kind: str) -> None:
    t = SMALL[kind]
    before = t.value.copy(), t.totals.copy(), t.counts.copy()
    one, two = protect(name, t), protect(name, t, Draws(20_061))
    assert (one is None) == (two is None)
    if one is not None and two is not None:
        assert np.array_equal(one.values, two.values, equal_nan=True)
        assert np.array_equal(one.status, two.status)
    for then, now in zip(before, (t.value, t.totals, t.counts), strict=True):
        assert np.array_equal(then, now)


@each
def test_a_method_that_is_not_random_does_not_look_at_the_seed(name: str) -> None:
    t = SMALL["magnitudes"]
    one, two = protect(name, t, Draws(1)), protect(name, t, Draws(2))
    t = t if one is not None else SMALL["counts"]
    one, two = protect(name, t, Draws(1)), protect(name, t, Draws(2))
    assert one is not None
    assert two is not None
    same = np.array_equal(one.values, two.values, equal_nan=True)
    assert same or PROTECTIONS[name].random  # type: ignore[attr-defined]
    if name in ("rta", "random_rounding", "cell_key"):
        assert not same


@cases
def test_guarantees_of_sums_are_kept(name: str, kind: str) -> None:
    t = SMALL[kind]
    p = protect(name, t)
    if p is None or not any(_adds_up(g.says) for g in p.guarantees):
        return
    leaves = p.values[t.cells.of_leaf]
    if (t.cells.of_leaf < 0).any() or np.isnan(leaves).any():
        return
    full = ~np.isnan(p.values)
    assert t.cells.sums(leaves)[full] == pytest.approx(p.values[full], rel=1e-9, abs=1e-6)


def _adds_up(says: str) -> bool:
    return "add up" in says and "not add up" not in says


@each
def test_the_order_of_records_does_not_matter(name: str) -> None:
    frame = firms()
    shuffled = frame.sample(frac=1, random_state=5)
    for variable in ("turnover", None):
        one, two = (
            protect(name, table(f.drop(columns=[] if variable else "owner"), variable)) for f in (frame, shuffled)
        )
        assert (one is None) == (two is None)
        if one is not None and two is not None and not _by_record(name):
            assert np.array_equal(one.cells.labels, two.cells.labels)
            assert np.allclose(one.values, two.values, equal_nan=True, rtol=1e-9)


def _by_record(name: str) -> bool:
    """Whether noise hangs on record keys, which are those of the file's rows."""
    return name == "cell_key"


@each
def test_parameters_survive_toml(name: str) -> None:
    for t in (SMALL["magnitudes"], SMALL["counts"]):
        made = protection(name, t)
        again = build("protection", through_toml({"protection": name, **made.to_dict()}))
        assert again == made
        assert again.label() == made.label()


@each_rule
def test_rules_survive_toml(name: str) -> None:
    made = rule(name)
    again = build("rule", through_toml({"rule": name, **made.to_dict()}))
    assert again == made
    assert again.label() == made.label() != ""


@each_rule
@pytest.mark.parametrize("kind", list(SMALL))
def test_rules_say_which_cells_are_unsafe_and_by_how_much(name: str, kind: str) -> None:
    t = SMALL[kind]
    try:
        found = rule(name).assess(t)
    except SfumatoError:
        return
    assert found.unsafe.shape == (len(t),)
    for level in (found.upper, found.lower, found.width):
        assert level.shape == (len(t),)
        assert np.isfinite(level).all()
        assert (level >= 0).all()
        assert (level[~found.unsafe] == 0).all()
    assert all(bool(found.reasons[i]) == bool(found.unsafe[i]) for i in range(len(t)))


@each_rule
def test_rules_do_not_care_for_the_order_of_records(name: str) -> None:
    frame = firms()
    kinds = []
    for f in (frame, frame.sample(frac=1, random_state=2)):
        try:
            kinds.append(rule(name).assess(table(f)))
        except SfumatoError:
            kinds.append(None)
    assert (kinds[0] is None) == (kinds[1] is None)
    if kinds[0] is not None and kinds[1] is not None:
        assert np.array_equal(kinds[0].unsafe, kinds[1].unsafe)
        assert kinds[0].upper == pytest.approx(kinds[1].upper)


@cases
def test_refusals_quote_no_value(name: str, kind: str) -> None:
    t = SMALL[kind].with_(totals=SMALL[kind].totals)
    try:
        protection(name, t).protect(t, SEED)
        said = ""
    except SfumatoError as error:
        said = str(error)
    values = {f"{v:.0f}" for v in t.totals if v > 100}
    words = {w.strip(".,;:()") for w in said.replace(",", "").split()}
    assert not values & words
    assert not said or len(said) > 20  # a sentence


@each
def test_labels_are_short_and_public_frames_hide_what_must_be_hidden(name: str) -> None:
    t = next(SMALL[k] for k in ("magnitudes", "counts") if protect(name, SMALL[k]) is not None)
    p = protect(name, t)
    assert p is not None
    assert p.protection is not None
    assert 3 < len(p.protection.label()) < 90
    frame = p.frame()
    assert len(frame) == len(t)
    assert set(frame["status"]) <= {"", "suppressed", "changed"}


def test_a_plain_number_in_place_of_draws_and_a_frame_in_place_of_a_table_are_refused_in_a_sentence() -> None:
    frame = pd.DataFrame({"r": ["a", "b"], "v": [1.0, 2.0]})
    with pytest.raises(ParameterError, match="must be given as Draws"):
        RandomRounding().protect(Table.of(Microdata(frame), "r", "v"), 5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="a table is protected"):
        RandomRounding().protect(frame, Draws(1))  # type: ignore[arg-type]
