"""Cell keys: tables of τ-ARGUS, a slow twin cell by cell, and the distribution over many seeds."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.tables import CellKey, PerturbationTable, PPercent, Status, Table
from sfumato.tables.cell_keys import Row, count_table, magnitude_table
from sfumato.tables.cell_keys.entropy import most_entropy, variances

ARGUS = Path(__file__).parents[2] / "shared" / "data" / "tables" / "tauargus"
FILES = ["ptab_freq.txt", "ptab_savings_all.txt", "ptab_savings_smallcells.txt", "tau_testW_ptable.txt"]


def argus(name: str) -> Path:
    if not (ARGUS / name).exists():
        pytest.skip(f"the shared reference file {ARGUS / name} is not here")
    return ARGUS / name


def by_hand(frame: pd.DataFrame, i: float, key: float) -> float:
    """Return the first v of row i whose upper bound is above the key; beyond the last row the last holds."""
    row = frame[frame.i == min(i, frame.i.max())]
    for v, bound in zip(row.v, row.iloc[:, 4], strict=True):
        if key < bound:
            return float(v)
    raise AssertionError("a key beyond the last bound")


def people(n: int = 300, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "id": [f"p{i}" for i in range(n)], "region": g.choice(list("abcdef"), n, p=[0.4, 0.3, 0.2, 0.07, 0.02, 0.01]),
        "sector": g.choice(["x", "y", "z"], n), "income": np.round(g.lognormal(3, 1, n), 2),
    })  # fmt: skip


def microdata(frame: pd.DataFrame, **roles: str) -> Microdata:
    return Microdata(frame, Schema(tuple(
        Attribute(n, scale="ordered" if n in ("income", "weight", "key") else "unordered", role=roles.get(n, "other")) for n in frame
    )))  # fmt: skip


# perturbation tables


@pytest.mark.parametrize("name", FILES)
def test_a_table_of_argus_is_looked_up_as_its_columns_say(name: str) -> None:
    frame, table = pd.read_csv(argus(name), sep=";"), PerturbationTable.read(argus(name))
    keys = np.concatenate(
        [np.linspace(0, 0.999999, 401), frame.iloc[:, 4][frame.iloc[:, 4] < 1] - 1e-9, frame.iloc[:-1, 4] % 1]
    )
    for row in table.rows["all"]:
        expected = [by_hand(frame, row.value, key) for key in keys]
        assert row.at(keys).tolist() == expected
        assert table.between(np.full(len(keys), row.value), keys).tolist() == expected
        assert row.mean == pytest.approx(0, abs=2e-6)
    if table.whole:
        counts = np.arange(25)
        for key in (0.0, 0.3, 0.77, 0.999):
            assert table.at(counts, np.full(25, key)).tolist() == [by_hand(frame, c, key) for c in counts]


def test_values_between_rows_get_a_mixture_of_both(tmp_path: Path) -> None:
    table = magnitude_table(5, 1.0)
    low, high = (next(r for r in table.rows["all"] if r.value == v) for v in (1, 5))
    keys = np.array([0.01, 0.4, 0.93])
    assert table.between(np.full(3, 2.0), keys) == pytest.approx(0.75 * low.at(keys) + 0.25 * high.at(keys))
    assert table.between(np.full(3, 0.5), keys) == pytest.approx(0.5 * low.at(keys))
    assert table.between(np.full(3, 99.0), keys) == pytest.approx(high.at(keys))
    assert (table.between(np.linspace(0, 6, 3), np.zeros(3)) >= -np.linspace(0, 6, 3)).all()
    table.write(tmp_path / "table.txt")
    again = PerturbationTable.read(tmp_path / "table.txt")
    assert np.array_equal(again.between(np.linspace(0, 6, 3), keys), table.between(np.linspace(0, 6, 3), keys))


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("ptab_freq.txt", lambda: count_table(5, 3.0, smallest=2, stay=0.5, monotone=True)),
        ("tau_testW_ptable.txt", lambda: count_table(7, 4.0, smallest=2, monotone=True)),
        ("ptab_savings_all.txt", lambda: magnitude_table(5, 1.0, monotone=True)),
    ],
)
def test_generated_tables_are_those_that_argus_ships(name: str, made: Any) -> None:
    """The files were made by the R package ptable, with another solver; they are rounded to 8 digits or so."""
    theirs, ours = PerturbationTable.read(argus(name)).rows["all"], made().rows["all"]
    assert [r.value for r in theirs] == [r.value for r in ours]
    for a, b in zip(theirs, ours, strict=True):
        assert a.change.tolist() == b.change.tolist()
        assert b.probability == pytest.approx(a.probability, abs=1e-7)


@pytest.mark.parametrize(
    ("maximum", "variance", "smallest", "stay", "monotone"),
    [(5, 2.0, 0, 0.0, False), (5, 3.0, 2, 0.5, True), (3, 1.0, 1, 0.0, False), (10, 3.0, 0, 0.2, True), (1, 0.5, 0, 0.0, False), (4, 4.0, 0, 0, False)],
)  # fmt: skip
def test_generated_noise_keeps_what_it_promises(
    maximum: int, variance: float, smallest: int, stay: float, monotone: bool
) -> None:
    table = count_table(maximum, variance, smallest, stay, monotone)
    assert table.whole
    assert len(table.rows["all"]) == maximum + smallest + (smallest > 0) + 1
    for row in table.rows["all"][1:]:
        assert row.probability.sum() == pytest.approx(1, abs=1e-13)
        assert row.mean == pytest.approx(0, abs=1e-12)
        assert row.variance == pytest.approx(variance, abs=1e-12)
        target = row.value + row.change
        assert np.abs(row.change).max() <= maximum
        assert ((target == 0) | (target > smallest)).all()
        if stay and (row.change == 0).any():
            assert row.probability[row.change == 0][0] >= stay - 1e-12
        if monotone:
            for side in (row.change <= 0, row.change >= 0):
                assert (np.diff(row.probability[side]) * (1 if side[0] else -1) >= -1e-12).all()
    last = table.rows["all"][-1]
    assert last.probability == pytest.approx(last.probability[::-1], abs=1e-10)
    assert table.at(np.array([0, 0]), np.array([0.1, 0.9])).tolist() == [0, 0]


def test_no_other_noise_with_these_moments_has_more_entropy() -> None:
    g = np.random.default_rng(0)
    for v, variance, stay, monotone in (
        (np.arange(-3.0, 6), 2.0, 0.0, False), (np.arange(-5.0, 6), 3.0, 0.5, True), (np.array([-4.0, -1, 0, 1, 2, 3, 4, 5]), 3.0, 0.3, True),
    ):  # fmt: skip
        p = most_entropy(v, variance, stay, monotone)
        assert p is not None
        moments = np.vstack([np.ones_like(v), v, v**2])
        free = np.linalg.svd(moments)[2][3:]
        best = -(p * np.log(p)).sum()
        tried = 0
        for _ in range(3000):
            q = p + g.normal(size=len(free)) * 10.0 ** g.uniform(-5, -2) @ free
            away = [np.diff(q[v <= 0]).min() >= 0, np.diff(q[v >= 0]).max() <= 0] if monotone else []
            if (q > 0).all() and all(away) and q[v == 0][0] >= stay:
                tried += 1
                assert -(q * np.log(q)).sum() <= best + 1e-12
        assert tried > 20 or monotone


def test_without_inequalities_the_logarithm_is_a_parabola() -> None:
    p = most_entropy(np.arange(-1.0, 6), 2.0)
    assert p is not None
    assert np.diff(np.log(p), 3) == pytest.approx(np.zeros(4), abs=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: count_table(5, 6.0), "value 1 can have a variance between 0 and 5; got 6"),
        (lambda: count_table(5, 1.0, smallest=2), "value 1 can have a variance between 2 and 5"),
        (lambda: count_table(5, 3.0, stay=0.9), "can stay as it is with a probability of at most 0.4"),
        (lambda: CellKey(maximum=2, variance=3), "variance between 0 and 2"),
        (lambda: CellKey(flex_point=100.0), "together"),
        (lambda: CellKey(top=2, parts=(1, 2)), "never rise"),
        (lambda: CellKey(extra=1), "extra and rules together"),
        (lambda: CellKey(table="nowhere.txt"), "no perturbation table at"),
        (lambda: CellKey(table=3), "must be a perturbation table"),
        (lambda: CellKey(share=0.05, flex_point=10.0, large_share=0.2), "at most share"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_the_range_of_variances_is_that_of_two_point_noise() -> None:
    # −1 with 5/6 and 5 with 1/6; −1 with 2/3 and 2 with 1/3 where counts of 1 and 2 are not published
    assert variances(np.arange(-1.0, 6)) == pytest.approx((0, 5))
    assert variances(np.array([-1.0, 2, 3, 4, 5])) == pytest.approx((2, 5))
    edge = most_entropy(np.array([-1.0, 2, 3, 4, 5]), 2.0)
    assert edge == pytest.approx([2 / 3, 1 / 3, 0, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2\n", "first line must be"),
        ("i;j;p;v;p_int_ub\n0;0;one;0;1\n", "line 2 .* five numbers"),
        ("i;j;p;v;p_int_ub\n1;2;1;0;1\n", "not v away"),
        ("i;j;p;v;p_int_ub\n1;0;0.5;-1;0.5\n", "do not add up to 1"),
        ("i;j;p;v;p_int_ub\n1;0;0.5;-1;0.5\n1;2;0.5;1;0.9\n", "running sums"),
        ("i;j;p;v;p_int_ub\n1;-1;1;-2;1\n", "leads below zero"),
        ("i;j;p;v;p_int_ub\n0;1;1;1;1\n", "changes a zero"),
        ("i;j;p;v;p_int_ub;type\n0;0;1;0;1;big\n", "unknown type"),
        ("i;j;p;v;p_int_ub;type\n0;0;1;0;1;even\n", "needs one for odd"),
        ("", "first line"),
    ],
)
def test_files_that_are_no_perturbation_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        PerturbationTable.read(tmp_path / "table.txt")


# counts


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


def test_over_many_seeds_the_noise_has_the_distribution_of_the_table() -> None:
    from scipy.stats import chisquare

    frame = pd.DataFrame({"region": ["a"] * 1 + ["b"] * 3 + ["c"] * 40})
    table = Table.of(Microdata(frame), "region - 1")
    method = CellKey(maximum=4, variance=2.5)
    noise = count_table(4, 2.5)
    drawn = np.array([method.protect(table, Draws(seed)).values for seed in range(4000)])
    for cell, count in enumerate((1, 3, 40)):
        row = noise.rows["all"][min(count, 4)]
        seen = [(drawn[:, cell] - count == v).sum() for v in row.change]
        assert sum(seen) == 4000
        assert chisquare(seen, 4000 * row.probability / row.probability.sum()).pvalue > 1e-4
        assert drawn[:, cell].mean() == pytest.approx(count, abs=5 * math.sqrt(2.5 / 4000))


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
    for published in (0, 3, 4, 7, 20):
        able = [
            i for i in range(40)
            if any(v == published - i and p > 0 for v, p in zip(*_entries(noise, i), strict=True))
        ]  # fmt: skip
        assert noise.could_be(published) == (min(able), max(able))


def _entries(table: PerturbationTable, count: int) -> tuple[list[float], list[float]]:
    row = table.rows["all"][min(count, len(table.rows["all"]) - 1)]
    return row.change.tolist(), row.probability.tolist()


def test_survey_weights_keep_the_mean_weight_of_a_cell() -> None:
    frame = people().assign(weight=lambda d: 1.0 + d.index % 3)
    table = Table.of(microdata(frame, weight="weight"), "region")
    plain = Table.of(microdata(frame.drop(columns="weight")), "region")
    method = CellKey(maximum=3, variance=2)
    weighted, counts = method.protect(table, Draws(3)), method.protect(plain, Draws(3))
    assert weighted.values == pytest.approx(counts.values * table.value / plain.value)
    assert ((weighted.low <= table.value) & (table.value <= weighted.high)).all()


def test_counted_rows_have_keys_too_and_tables_without_records_are_refused() -> None:
    frame = pd.DataFrame({"region": list("aabb"), "sector": list("xyxy"), "n": [3, 0, 7, 9]})
    table = Table.of(Microdata(frame), "region * sector", count="n")
    published = CellKey().protect(table, Draws(2))
    assert published.values[table.cells.find(region="a", sector="y")] == 0
    with pytest.raises(DataError, match="cell keys hang on records"):
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
    {"share": 0.3, "small": "small"}, {"share": 0.2, "flex_point": 25.0, "large_share": 0.03, "flex_power": 2.0, "top": 2, "small": "small"},
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
        assert published.values[cell] == pytest.approx(expected, rel=1e-9, abs=1e-9)
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
        assert published.values[cell] == pytest.approx(expected, rel=1e-9)


def test_even_and_odd_numbers_of_contributors_have_tables_of_their_own_and_unsafe_cells_get_more() -> None:
    up, down = (Row.of(5, np.array([v]), np.ones(1)) for v in (1.0, -1.0))
    zero = Row.of(0, np.zeros(1), np.ones(1))
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


def test_noise_of_magnitudes_has_no_bias_and_the_variance_that_was_asked_for() -> None:
    frame = pd.DataFrame({"region": ["a"] * 6, "income": [50.0, 40, 30, 20, 10, 5]})
    table = Table.of(Microdata(frame), "region - 1", "income")
    method = CellKey(maximum=5, variance=1.0, share=0.1)
    drawn = np.array([method.protect(table, Draws(s)).values[0] for s in range(4000)])
    assert drawn.mean() == pytest.approx(155, abs=5 * 5 / math.sqrt(4000))
    assert drawn.var() == pytest.approx((0.1 * 50) ** 2 * 1.0, rel=0.1)


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
    from sfumato.tables.cell_keys.magnitude import Scale

    for small, large, power in itertools.product((0.25, 0.2), (0.05, 0.01), (1.5, 2.0, 3.0, 5.0)):
        scale = Scale(small, large, 100.0, power, (1.0,))
        x = np.concatenate([np.linspace(0, 100, 50), 100 * np.logspace(0, 9, 20_000)])
        share = scale.share(x)
        assert share[:50] == pytest.approx(small)
        assert share[-1] == pytest.approx(large, rel=1e-2 if power >= 2 else 2)
        assert scale.highest == pytest.approx(share.max(), rel=1e-5)
        assert scale.highest >= share.max() - 1e-12
