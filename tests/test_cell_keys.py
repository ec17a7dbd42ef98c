"""Cell keys: tables of τ-ARGUS, a slow twin cell by cell, and the distribution over many seeds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from argus_tables import argus, by_hand

from sfumato import Attribute, Microdata, Schema
from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables import CellKey, PerturbationTable, PPercent, Status, Table
from sfumato.tables.cell_key import PerturbationRow, count_table, magnitude_table


def people(n: int = 300, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "id": [f"p{i}" for i in range(n)], "region": g.choice(list("abcdef"), n, p=[0.4, 0.3, 0.2, 0.07, 0.02, 0.01]),
        "sector": g.choice(["x", "y", "z"], n), "income": np.round(g.lognormal(3, 1, n), 2),
    })  # fmt: skip


def microdata(frame: pd.DataFrame, **roles: str) -> Microdata:
    numbers = ("income", "weight", "key")
    return Microdata(frame, Schema(tuple(
        Attribute(n, scale="ordered" if n in numbers else "unordered", role=roles.get(n, "other")) for n in frame
    )))  # fmt: skip


def test_a_count_is_the_frequency_and_what_the_table_gives_for_the_sum_of_the_record_keys() -> None:
    frame = pd.read_csv(argus("microdata.csv"), sep=";", header=None, names=["sex", "age", "c", "savings", "d", "key"])
    given = pd.read_csv(argus("ptab_freq.txt"), sep=";")
    schema = Schema(tuple(Attribute(n, scale="unordered" if n in ("sex", "age") else "ordered") for n in frame))
    table = Table.of(Microdata(frame, schema), "sex * age", record_key="key")
    published = CellKey(table=argus("ptab_freq.txt")).protect(table, Draws(1))
    for cell, (sex, age) in enumerate(table.cells.labels):
        part = frame[
            ((sex == "Total") | (frame.sex.astype(str) == sex)) & ((age == "Total") | (frame.age.astype(str) == age))
        ]
        key = math.fsum(part.key) % 1
        assert published.values[cell] == len(part) + by_hand(given, len(part), key)


def test_the_same_records_have_the_same_noise_in_every_table_and_order() -> None:
    frame = people()
    shuffled = frame.sample(frac=1, random_state=4)
    method, draws = CellKey(maximum=5, variance=3), Draws(7)
    wide = method.protect(Table.of(microdata(frame, id="identifier"), "region * sector"), draws)
    for other, formula in (
        (frame, "region"),
        (shuffled, "sector * region"),
        (shuffled, "region + sector"),
        (frame, "region:sector - 1"),
    ):
        again = method.protect(Table.of(microdata(other, id="identifier"), formula), draws)
        for cell, labels in enumerate(again.cells.labels):
            place = wide.cells.find(dict(zip(again.cells.dimensions, labels, strict=True)))
            assert again.values[cell] == wide.values[place]
    # a subset of records that makes up the cell elsewhere, by another name
    renamed = frame[frame.region == "a"].assign(area="first")
    part = method.protect(Table.of(microdata(renamed, id="identifier"), "area"), draws)
    assert part.values[part.cells.find()] == wide.values[wide.cells.find(region="a")]
    other_seed = method.protect(Table.of(microdata(frame, id="identifier"), "region * sector"), Draws(8))
    assert not np.array_equal(other_seed.values, wide.values)


def test_over_many_cells_and_seeds_the_noise_has_the_distribution_of_the_table() -> None:
    from scipy.stats import chisquare

    sizes = np.repeat((1, 3, 40), 400)
    frame = pd.DataFrame({"region": np.repeat([f"{i:04d}" for i in range(len(sizes))], sizes)})
    table = Table.of(Microdata(frame), "region - 1")
    method = CellKey(maximum=4, variance=2.5)
    noise = count_table(4, 2.5)
    drawn = np.array([method.protect(table, Draws(seed)).values for seed in range(10)])
    for count in (1, 3, 40):
        values = drawn[:, table.value == count].ravel()
        row = noise.rows["all"][min(count, 4)]
        seen = [(values - count == v).sum() for v in row.change]
        assert sum(seen) == 4000
        assert chisquare(seen, 4000 * row.probability / row.probability.sum()).pvalue > 1e-4
        assert values.mean() == pytest.approx(count, abs=5 * math.sqrt(2.5 / 4000))


def test_zeros_stay_counts_stay_counts_and_everybody_is_sure_of_no_more_than_is_true() -> None:
    table = Table.of(microdata(people()), "region * sector", empty=True)
    assert (table.value == 0).any()
    for method in (
        CellKey(),
        CellKey(maximum=5, variance=3, smallest=2, stay=0.5, monotone=True),
        CellKey(maximum=1, variance=0.5),
    ):
        for seed in range(20):
            published = method.protect(table, Draws(seed))
            assert (published.values[table.value == 0] == 0).all()
            assert (published.values >= 0).all()
            assert (published.values == np.round(published.values)).all()
            assert (np.abs(published.values - table.value) <= method.maximum).all()
            assert not np.isin(published.values, np.arange(1, method.smallest + 1)).any()
            assert ((published.low <= table.value) & (table.value <= published.high)).all()
            assert (published.low >= np.maximum(published.values - method.maximum, 0)).all()
            assert (published.status == Status.CHANGED).all()  # which cells stayed is not for the public
    assert "zeros stay" in published.guarantees[0].says


def test_bounds_are_those_of_the_counts_that_can_become_this_one() -> None:
    noise = count_table(5, 3.0, smallest=2)
    shown = np.array([0.0, 3, 4, 7, 20, 1000])
    low, high = noise.could_be(shown)
    for published, least, most in zip(shown, low, high, strict=True):
        able = [
            i for i in range(1010)
            if any(v == published - i and p > 0 for v, p in zip(*_entries(noise, i), strict=True))
        ]  # fmt: skip
        assert (least, most) == (min(able), max(able))
    with pytest.raises(DataError, match="no count can be published"):
        noise.could_be(np.array([2.0]))


def _entries(table: PerturbationTable, count: int) -> tuple[list[float], list[float]]:
    row = table.rows["all"][min(count, len(table.rows["all"]) - 1)]
    return row.change.tolist(), row.probability.tolist()


def test_survey_weights_keep_the_mean_weight_of_a_cell() -> None:
    frame = people().assign(weight=lambda d: 1.0 + d.index % 3)
    table = Table.of(microdata(frame, weight="weight"), "region")
    plain = Table.of(microdata(frame.drop(columns="weight")), "region")
    method = CellKey(maximum=3, variance=2)
    weighted, counts = method.protect(table, Draws(3)), method.protect(plain, Draws(3))
    assert weighted.values == pytest.approx(counts.values * table.value / plain.value, abs=0.5)
    # all digits of 26.2857… = 8 · 23 / 7 would tell that there are 7 records, whatever was added to them
    assert all(Fraction(v).limit_denominator(1000).denominator == 1 for v in weighted.values)
    assert (
        method.protect(table.with_(decimals=1), Draws(3)).values
        == np.round(counts.values * table.value / plain.value, 1)
    ).all()
    assert ((weighted.low <= table.value) & (table.value <= weighted.high)).all()


def test_counted_rows_have_keys_too_and_tables_without_records_are_refused() -> None:
    frame = pd.DataFrame({"region": list("aabb"), "sector": list("xyxy"), "n": [3, 0, 7, 9]})
    table = Table.of(Microdata(frame), "region * sector", count="n")
    published = CellKey().protect(table, Draws(2))
    assert published.values[table.cells.find(region="a", sector="y")] == 0
    with pytest.raises(DataError, match="cell keys depend on records"):
        CellKey().protect(table.with_(records=None), Draws(2))
    with pytest.raises(ParameterError, match="is for magnitudes"):
        CellKey(table=magnitude_table(5, 1.0)).protect(table, Draws(2))
    with pytest.raises(DataError, match=r"outside \[0, 1\)"):
        Table.of(Microdata(frame), "region", record_key="n")


# magnitudes


def twin(
    total: float, largest: list[float], key: float, table: PerturbationTable, small: PerturbationTable | None, share: float,
    large: float, point: float, power: float, parts: list[float], kind: str = "all", extra: float = 0.0,
) -> float:  # fmt: skip
    """Return a perturbed total, one contribution after the other, as Giessing and Tent (2019) describe it."""

    def look(which: PerturbationTable, a: float, u: float, kind: str) -> float:
        rows = {r.value: r for r in which.rows[kind]}
        at = sorted(rows)
        a = min(a, at[-1])

        def v(i: float) -> float:
            return next(float(c) for c, b in zip(rows[i].change, rows[i].bound, strict=True) if u < b)

        if a in rows:
            return v(a)
        below, above = max(i for i in at if i < a), min(i for i in at if i > a)
        part = (a - below) / (above - below)
        return (1 - part) * v(below) + part * v(above)

    separation = 0.0
    if small is not None:
        last = small.rows["all"][-1]
        spread = sum(p * v * v for p, v in zip(last.probability, last.change, strict=True))
        separation = math.sqrt(spread) / (math.sqrt(sum(e * e for e in parts)) * share)
    y = total
    for j, (x, part) in enumerate(zip(largest, parts, strict=True)):
        u = (key * 10**j) % 1
        if y == 0 or x == 0:
            continue
        if x < separation:
            step, is_small = 1.0, True
        else:
            m = (
                share
                if x < point
                else large * (1 + (share * x - large * point) / (large * point) * (2 * point / (point + x)) ** power)
            )
            step, is_small = part * m * x, False
            if y < step:
                is_small = y / (share * part) < separation
                step = 1.0 if is_small else y
        if is_small and j > 0:
            continue
        v = look(small if is_small and small is not None else table, y / step, u, "all" if is_small else kind)
        if j == 0:
            v += extra if v >= 0 else -extra
        y += max(step * v, -y)
    return y


CASES: list[dict[str, Any]] = [
    {"share": 0.1}, {"share": 0.4, "top": 3, "parts": (1, 0.6, 0.3)}, {"share": 0.25, "flex_point": 40.0, "large_share": 0.05},
    {"share": 0.3, "small": "small"},
    {"share": 0.2, "flex_point": 25.0, "large_share": 0.03, "flex_power": 2.0, "top": 2, "small": "small"},
    {"share": 1.0, "top": 2},
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: ", ".join(c))
def test_magnitudes_are_those_of_the_slow_twin(case: dict[str, Any]) -> None:
    g = np.random.default_rng(5)
    frame = people(80).assign(key=np.round(g.random(80), 8), income=lambda d: d.income / 10)
    small = magnitude_table(8, 2.0, 2, monotone=False) if "small" in case else None
    method = CellKey(maximum=5, variance=1.0, **{**case, **({"small": small} if small else {})})
    table = Table.of(microdata(frame), "region * sector", "income", record_key="key")
    published = method.protect(table, Draws(0))
    top = case.get("top", 1)
    for cell, (region, sector) in enumerate(table.cells.labels):
        part = frame[
            ((region == "Total") | (frame.region == region)) & ((sector == "Total") | (frame.sector == sector))
        ]
        largest = [*part.income.sort_values(ascending=False).tolist(), 0.0, 0.0][:top]
        expected = twin(
            math.fsum(part.income), largest, math.fsum(part.key) % 1, magnitude_table(5, 1.0), small, case["share"],
            case.get("large_share", case["share"]), case.get("flex_point", math.inf), case.get("flex_power", 3.0),
            list(case.get("parts", (1,) * top)),
        )  # fmt: skip
        assert published.values[cell] == pytest.approx(expected, abs=0.5e-3 + 1e-9)  # incomes have three digits
    assert (published.values >= 0).all()
    assert ((published.low <= table.value + 1e-9) & (table.value <= published.high + 1e-9)).all()


def test_the_magnitude_files_of_argus_give_what_the_twin_gives() -> None:
    frame = pd.read_csv(argus("microdata.csv"), sep=";", header=None, names=["sex", "age", "c", "savings", "d", "key"])
    schema = Schema(tuple(Attribute(n, scale="unordered" if n in ("sex", "age") else "ordered") for n in frame))
    table = Table.of(Microdata(frame, schema), "sex * age", "savings", record_key="key")
    big, small = (PerturbationTable.read(argus(f"ptab_savings_{n}.txt"), "all") for n in ("all", "smallcells"))
    method = CellKey(
        table=argus("ptab_savings_all.txt"), small=argus("ptab_savings_smallcells.txt"), share=0.25, large_share=0.05,
        flex_point=100.0, top=2, parts=(1.0, 0.5),
    )  # fmt: skip
    published = method.protect(table, Draws(0))
    for cell, (sex, age) in enumerate(table.cells.labels):
        part = frame[
            ((sex == "Total") | (frame.sex.astype(str) == sex)) & ((age == "Total") | (frame.age.astype(str) == age))
        ]
        largest = [*part.savings.sort_values(ascending=False).astype(float).tolist(), 0.0][:2]
        expected = twin(
            float(part.savings.sum()), largest, math.fsum(part.key) % 1, big, small, 0.25, 0.05, 100.0, 3.0, [1.0, 0.5]
        )  # fmt: skip
        assert published.values[cell] == pytest.approx(expected, abs=0.5 + 1e-9)  # savings have none


def test_even_and_odd_numbers_of_contributors_have_tables_of_their_own_and_unsafe_cells_get_more() -> None:
    up, down = (PerturbationRow.of(5, np.array([v]), np.ones(1)) for v in (1.0, -1.0))
    zero = PerturbationRow.of(0, np.zeros(1), np.ones(1))
    table = PerturbationTable({"even": (zero, up), "odd": (zero, down)})
    frame = pd.DataFrame({"region": list("aabbb"), "owner": list("uvwwx"), "income": [10.0, 10, 30, 30, 40]})
    data = Table.of(microdata(frame, owner="contributor"), "region", "income")
    published = CellKey(table=table, share=0.1).protect(data, Draws(1))
    at = [data.cells.find(region=r) for r in "ab"]
    # a: two contributors, largest 10; b: two, largest 60 (w has two records)
    assert published.values[at] == pytest.approx([20 + 1, 100 + 6])
    assert published.values[data.cells.find()] == pytest.approx(120 + 6)  # four contributors
    extra = CellKey(table=table, share=0.1, extra=2, rules=("p% 10",)).protect(data, Draws(1))
    unsafe = PPercent(10).assess(data).unsafe
    assert extra.values[at] == pytest.approx([20 + (3 if unsafe[at[0]] else 1), 100 + (18 if unsafe[at[1]] else 6)])
    assert unsafe.any()
    with pytest.raises(ParameterError, match="top = 1"):
        CellKey(table=table, top=2)


def test_rows_for_small_cells_may_stand_in_the_same_file(tmp_path: Path) -> None:
    big, small = magnitude_table(5, 1.0), magnitude_table(8, 2.0)
    PerturbationTable({"all": big.rows["all"], "small_cells": small.rows["all"]}).write(tmp_path / "both.txt")
    table = Table.of(microdata(people(80)), "region * sector", "income")
    together = CellKey(table=tmp_path / "both.txt", share=0.3).protect(table, Draws(4))
    apart = CellKey(table=big, small=small, share=0.3).protect(table, Draws(4))
    assert together.values == pytest.approx(apart.values, rel=1e-9)
    assert not np.allclose(together.values, CellKey(table=big, share=0.3).protect(table, Draws(4)).values)


def test_a_method_is_written_and_read_again() -> None:
    for method in (CellKey(), CellKey(top=3, parts=(1, 0.5, 0.2)), CellKey(extra=1, rules=["p% 10", "minimum 3"])):
        assert CellKey.from_dict(method.to_dict()) == method
        assert method.with_(maximum=7, top=3).maximum == 7
    by_file = CellKey(table=argus("ptab_freq.txt"))
    assert CellKey.from_dict(by_file.to_dict()) == by_file


def test_noise_of_magnitudes_has_no_bias_and_the_variance_that_was_asked_for() -> None:
    frame = pd.DataFrame({"region": ["a"] * 6, "income": [50.0, 40, 30, 20, 10, 5]})
    table = Table.of(Microdata(frame), "region - 1", "income")
    method = CellKey(maximum=5, variance=1.0, share=0.1)
    drawn = np.array([method.protect(table, Draws(s)).values[0] for s in range(4000)])
    assert drawn.mean() == pytest.approx(155, abs=5 * 5 / math.sqrt(4000))
    assert drawn.var() == pytest.approx((0.1 * 50) ** 2 * 1.0, rel=0.1)


def test_no_digit_is_published_that_the_contributions_do_not_have() -> None:
    # 0.037 / 2 · k · x1 with all its digits tells x1 modulo 2000 for each k: with a rough idea of x1, all of it
    frame = pd.DataFrame({"region": ["a"] * 3 + ["b"] * 3, "income": [812.34, 77.5, 60.25, 431.17, 12.0, 99.9]})
    table = Table.of(Microdata(frame), "region", "income")
    for seed in range(20):
        published = CellKey(share=0.037).protect(table, Draws(seed))
        assert (published.values == np.round(published.values, 2)).all()
        assert ((published.low <= table.value) & (table.value <= published.high)).all()


def test_negative_magnitudes_keep_their_sign_and_digits_are_kept() -> None:
    frame = pd.DataFrame({"region": list("aabbcc"), "income": [-50.0, 10, 30, -5, 5.0, -5.0]})
    table = Table.of(Microdata(frame), "region", "income", decimals=1)
    for seed in range(30):
        published = CellKey(maximum=5, variance=2, share=0.5, top=2).protect(table, Draws(seed))
        assert (np.sign(published.values) * np.sign(table.value) >= 0).all()
        assert published.values[table.cells.find(region="c")] == 0
        assert published.values == pytest.approx(np.round(published.values, 1))
        assert np.isinf(published.high).all()


def test_the_share_of_very_large_contributions_goes_down_to_what_was_asked() -> None:
    from sfumato.tables.cell_key import FlexScale

    for small, large, power in itertools.product((0.25, 0.2), (0.05, 0.01), (1.5, 2.0, 3.0, 5.0)):
        scale = FlexScale(small, large, 100.0, power, (1.0,))
        x = np.concatenate([np.linspace(0, 100, 50), 100 * np.logspace(0, 9, 20_000)])
        share = scale.share(x)
        assert share[:50] == pytest.approx(small)
        assert share[-1] == pytest.approx(large, rel=1e-2 if power >= 2 else 2)
        assert scale.highest == pytest.approx(share.max(), rel=1e-5)
        assert scale.highest >= share.max() - 1e-12
