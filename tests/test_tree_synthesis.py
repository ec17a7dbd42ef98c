"""Synthesis by trees: splits against brute force, draws from leaves, rules, missing values, and what is never released."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats
from small_files import column as values

from sfumato.contract import Draws, Mask, Recipe
from sfumato.data.microdata import Batch, Microdata
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.cart import CartTree, grow_cart, leaf_noise, leaves_of
from sfumato.masks import CopulaSynthesis, FullTreeSynthesis, TreeSynthesis
from sfumato.schema import Attribute, Schema
from sfumato.utility import PMSE, TableDistance
from sfumato.utility.regression import combine, synthesised

Numbers = NDArray[np.float64]
CONFIDENTIAL, KEY, PLAIN = {"role": "confidential"}, {"role": "key"}, {"role": "key", "scale": "unordered"}


def listed(batch: Batch, name: str) -> list[Any]:
    return batch.column(name).arrow.to_pylist()


def microdata(facts: dict[str, dict[str, Any]] | None = None, **columns: Any) -> Microdata:
    facts = facts or {}
    table = pa.table({n: v if isinstance(v, pa.Array) else pa.array(v, from_pandas=False) for n, v in columns.items()})
    return Microdata(table, Schema(tuple(Attribute(n, **facts.get(n, {})) for n in columns)))


# Trees


def impurity(code: NDArray[Any], value: Numbers, k: int) -> float:
    """Σ (value - mean)² of a number; n times the Gini index of classes."""
    if k == 1:
        return float(((value - value.mean()) ** 2).sum()) if len(value) else 0.0
    shares = np.bincount(code, minlength=k) / max(len(code), 1)
    return float(len(code) * (1 - (shares**2).sum()))


def every_split(x: Numbers, category: bool) -> list[NDArray[np.bool_]]:
    """All ways in which one column divides rows: cuts with the missing on either side, or sets of categories."""
    if category:
        levels = np.unique(x)
        return [np.isin(x, some) for r in range(1, len(levels)) for some in combinations(levels.tolist(), r)]
    known = np.unique(x[~np.isnan(x)])
    return [np.where(np.isnan(x), side, x <= cut) for cut in known for side in (False, True)]


def best_gain(x: Numbers, kinds: NDArray[Any], code: NDArray[Any], value: Numbers, k: int, smallest: int) -> float:
    whole, best = impurity(code, value, k), 0.0
    for j in range(len(kinds)):
        for left in every_split(x[j], bool(kinds[j])):
            left = left.astype(bool)
            if min(left.sum(), (~left).sum()) >= smallest:
                parts = sum(impurity(code[s], value[s], k) for s in (left, ~left))
                best = max(best, whole - parts)
    return best


def as_columns(x: Numbers, kinds: NDArray[Any]) -> list[NDArray[Any]]:
    return [column.astype(np.uint8) if kind else column for column, kind in zip(x, kinds, strict=True)]


def root_gain(tree: CartTree, x: Numbers, kinds: NDArray[Any], code: NDArray[Any], value: Numbers, k: int) -> float:
    if tree.column[0] < 0:
        return 0.0
    stump = tree._replace(column=np.where(np.arange(len(tree.column)) == 0, tree.column, -1))
    left = leaves_of(stump, as_columns(x, kinds), x.shape[1]) == tree.left[0]
    return impurity(code, value, k) - sum(impurity(code[s], value[s], k) for s in (left, ~left))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_split_is_the_best_of_all_splits(k: int) -> None:
    """For numbers and two classes always; of more classes the order of categories is a heuristic, seldom short of the best."""
    g, found, best = np.random.default_rng(k), [], []
    for _ in range(150):
        n = int(g.integers(6, 30))
        x = np.stack([
            np.where(g.random(n) < 0.2, np.nan, g.integers(0, 6, n)), g.integers(0, 5, n), g.normal(size=n), g.integers(0, 3, n),
        ]).astype(float)  # fmt: skip
        kinds, smallest = np.array([0, 1, 0, 1]), int(g.integers(1, 5))
        code = g.integers(0, k, n) if k > 1 else np.zeros(n, np.int64)
        value = g.normal(size=n).round(1) if k == 1 else np.ones(n)
        tree = grow_cart(
            as_columns(x, kinds), np.arange(n), None if k == 1 else code, value - value.mean(), k, smallest, 0.0
        )
        found.append(root_gain(tree, x, kinds, code, value, k))
        best.append(best_gain(x, kinds, code, value, k, smallest))
    if k <= 2:
        np.testing.assert_allclose(found, best, atol=1e-9)
    else:
        assert (np.array(found) <= np.array(best) + 1e-9).all()
        assert np.mean(np.isclose(found, best)) > 0.8
        assert sum(found) > 0.97 * sum(best)


def test_leaves_hold_enough_rows_and_those_that_fall_into_them() -> None:
    g = np.random.default_rng(4)
    x = np.stack([np.where(g.random(900) < 0.1, np.nan, g.normal(size=900)), g.integers(0, 30, 900).astype(float)])
    kinds, y = np.array([0, 1]), g.normal(size=900)
    columns = as_columns(x, kinds)
    tree = grow_cart(columns, np.arange(900), None, y - y.mean(), 1, 7, 1e-8)
    leaf = leaves_of(tree, columns, 900)
    for node in np.flatnonzero(tree.column < 0):
        members = tree.rows[tree.first[node] : tree.first[node] + tree.size[node]]
        assert len(members) >= 7
        assert (leaf[members] == node).all()
    assert sorted(tree.rows) == list(range(900))


def test_a_split_must_explain_the_share_that_is_asked_for() -> None:
    g = np.random.default_rng(5)
    x = g.normal(size=(1, 2_000))
    y = 3.0 * (x[0] > 0) + g.normal(size=2_000)
    args = ([x[0]], np.arange(2_000), None, y - y.mean(), 1, 5)
    share = best_gain(x[:, ::10], np.array([0]), np.zeros(200, np.int64), y[::10], 1, 5) / impurity(
        np.zeros(200), y[::10], 1
    )
    assert len(grow_cart(*args, 0.9 * share).column) == 3
    assert len(grow_cart(*args, 1.1 * share).column) == 1
    assert len(grow_cart(*args, 1e-8).column) > 100


# Draws


def drawn(mask: Mask, data: Microdata, name: str, times: int) -> NDArray[Any]:
    """Return a column of the file drawn again and again, shape (times, n)."""
    fitted = mask.fit(data, Draws(0))
    return np.array([listed(fitted.transform(data.batch(), Draws(s)), name) for s in range(times)])


def test_a_value_is_drawn_with_the_shares_of_its_leaf() -> None:
    """Two leaves, since nothing but x tells categories apart: 6, 3, 1 of a, b, c; and 2, 8 of a, d."""
    data = microdata({"x": PLAIN, "y": PLAIN}, x=[*("l" * 10), *("r" * 10)], y=[*"aaaaaabbbc", *"aadddddddd"])
    made = drawn(TreeSynthesis("y", given=["x"], leaf=1, complexity=0.02), data, "y", 600)
    left, right = made[:, :10].ravel(), made[:, 10:].ravel()
    assert stats.chisquare([(left == c).sum() for c in "abc"], [3600, 1800, 600]).pvalue > 1e-4
    assert stats.chisquare([(right == c).sum() for c in "ad"], [1200, 4800]).pvalue > 1e-4
    assert not ({*left} | {*right}) - {*"abcd"}


def test_a_bayesian_bootstrap_varies_the_shares_of_a_leaf_by_implicate() -> None:
    """Of n values with weights of a Dirichlet(1, ..., 1), the mean has the variance s²/(n + 1) about the leaf's."""
    y = np.arange(40.0) + 0.5
    data = microdata({"x": KEY, "y": CONFIDENTIAL}, x=np.zeros(4_000), y=np.repeat(y, 100))
    small = data.take(np.arange(0, 4_000, 100))
    for proper, extra in ((False, 0.0), (True, y.var() / 41)):
        mask = TreeSynthesis("y", given=["x"], shared=1, proper=proper).fit(small, Draws(0))
        means = [mask.transform(data.batch(), Draws(s)).numbers("y").mean() for s in range(500)]
        expected = y.var() / 4_000 + extra * (1 - 1 / 4_000)
        assert np.var(means) == pytest.approx(expected, rel=5 * math.sqrt(2 / 500))


def test_noise_is_as_wide_as_the_formulas_say() -> None:
    """Silverman's bandwidth of a leaf and the way to the third value of the file, number by number."""
    g = np.random.default_rng(6)
    leaves = [np.sort(np.round(g.gamma(2, 10, size), 1)) for size in (8, 11, 9)]
    leaves[1][:4] = 2.5  # shared by four
    donors = np.concatenate(leaves)
    noise = leaf_noise(donors, np.array([8, 11, 9], np.int32), 4, 3)
    assert noise is not None
    everyone, at = np.sort(donors), 0
    for leaf in leaves:
        rare = np.array([v for v in leaf if (donors == v).sum() < 4])
        quarter = (np.quantile(rare, 0.75) - np.quantile(rare, 0.25)) / 1.34
        wide = 0.9 * min(rare.std(ddof=1), quarter) * len(rare) ** -0.2
        for v in leaf:
            below, above = everyone[everyone < v][::-1], everyone[everyone > v]
            ways = [v - below[2]] if len(below) >= 3 else []
            ways += [above[2] - v] if len(above) >= 3 else []
            expected = 0.0 if v not in rare else max(wide, min(ways))
            assert noise.spread[at] == pytest.approx(expected, abs=1e-12)
            at += 1
    for i, leaf in enumerate(leaves):
        rare = np.array([v for v in leaf if (donors == v).sum() < 4])
        spread = noise.spread[(noise.leaf == i) & (noise.spread > 0)]
        kept = rare.std(ddof=1) / math.sqrt(rare.var(ddof=1) + (spread**2).mean())
        assert noise.centre[i] == pytest.approx(rare.mean())
        assert noise.shrink[i] == pytest.approx(max(kept, 0.8))


def test_smoothed_numbers_have_the_mean_and_the_variance_of_their_leaf() -> None:
    g = np.random.default_rng(7)
    y = g.normal(50, 9, 300)
    data = microdata({"x": KEY, "y": CONFIDENTIAL}, x=np.repeat([0.0, 1.0], 150), y=y + np.repeat([0, 100], 150))
    made = drawn(TreeSynthesis("y", given=["x"], complexity=0.3), data, "y", 300).astype(float)
    for part in (slice(0, 150), slice(150, 300)):
        leaf = data.numbers("y")[part]
        assert made[:, part].mean() == pytest.approx(leaf.mean(), abs=4 * leaf.std() / math.sqrt(45_000))
        assert made[:, part].std() == pytest.approx(leaf.std(), rel=0.03)


def test_no_number_of_few_records_is_released_and_those_of_many_are_kept() -> None:
    g = np.random.default_rng(8)
    pay = np.where(g.random(2_000) < 0.3, 0.0, np.exp(g.normal(3, 1, 2_000)))
    data = microdata({"age": KEY, "pay": CONFIDENTIAL}, age=g.integers(20, 60, 2_000), pay=pay)
    for mask in (TreeSynthesis("pay"), FullTreeSynthesis(leaf=20)):
        release = mask.apply(data, Draws(3))
        made = release.masked.numbers("pay")
        assert not np.isin(made[made > 0], pay).any()
        assert abs((made == 0).mean() - 0.3) < 0.05
        assert made.min() >= 0
        assert made.max() <= pay.max()
        assert any("pay: 0 of 2,000 drawn values" in g.says or " 0 of" in g.says for g in release.guarantees)
    assert np.isin(TreeSynthesis("pay", shared=1).apply(data, Draws(3)).masked.numbers("pay"), pay).all()


def test_an_outlier_of_one_person_is_not_released_by_and_large() -> None:
    """Alone among zeros, its noise is as wide as the way to them."""
    y = np.zeros(400)
    y[7] = 5_000.0
    made = drawn(
        TreeSynthesis("y", given=["x"], leaf=5),
        microdata({"x": KEY, "y": CONFIDENTIAL}, x=np.arange(400.0), y=y),
        "y",
        80,
    )
    hit = made[made.astype(float) > 0].astype(float)
    assert len(hit) > 30
    assert (np.abs(hit - 5_000) < 50).mean() < 0.1
    assert hit.std() > 500


def test_whole_numbers_of_one_person_come_back_no_more_often_than_their_neighbours() -> None:
    g = np.random.default_rng(9)
    y = g.permutation(np.arange(0, 2_000, 5))
    facts = {"x": KEY, "y": CONFIDENTIAL | {"integer": True}}
    made = drawn(TreeSynthesis("y", given=["x"]), microdata(facts, x=np.arange(400.0) % 7, y=y), "y", 60).astype(float)
    same = np.isin(made, y).mean()
    error = math.sqrt(0.16 / made.size)
    assert same < 0.2 + 4.5 * error  # every fifth number is somebody's


def test_whether_a_number_is_missing_is_drawn_before_its_value() -> None:
    g = np.random.default_rng(10)
    age = g.integers(20, 80, 6_000)
    pay = np.round(np.where(g.random(6_000) < (age - 20) / 80, np.nan, 10.0 * age + g.normal(size=6_000)), 3)
    data = microdata(
        {"age": KEY, "pay": CONFIDENTIAL | {"missing": (-1,)}}, age=age, pay=np.where(g.random(6_000) < 0.05, -1, pay)
    )
    made = TreeSynthesis("pay").apply(data, Draws(2)).masked.numbers("pay")
    before = data.numbers("pay")
    assert (np.isnan(made) != np.isnan(before)).any()
    for low in (20, 40, 60):
        some = (age >= low) & (age < low + 20)
        assert np.isnan(made[some]).mean() == pytest.approx(np.isnan(before[some]).mean(), abs=0.05)
        assert np.nanmean(made[some]) == pytest.approx(np.nanmean(before[some]), rel=0.02)
    category = np.where(g.random(6_000) < (age > 50) * 0.5, None, "a")
    data = microdata({"age": KEY, "c": PLAIN | CONFIDENTIAL}, age=age, c=pa.array(category.tolist()))
    gone = np.array([v is None for v in values(TreeSynthesis("c").apply(data, Draws(2)).masked, "c")])
    assert not gone[age <= 50].any()
    assert gone[age > 50].mean() == pytest.approx(0.5, abs=0.05)


def test_numbers_that_explain_are_cut_with_the_missing_on_the_better_side() -> None:
    x = np.array([np.nan] * 50 + [1.0] * 50 + [2.0] * 50)
    y = np.array(["gap"] * 50 + ["no"] * 50 + ["gap"] * 50)
    data = microdata({"x": KEY, "y": PLAIN | CONFIDENTIAL}, x=x, y=y)
    assert values(TreeSynthesis("y").apply(data, Draws(1)).masked, "y") == y.tolist()


# Rules and the order


def people(n: int = 3_000) -> Microdata:
    g = np.random.default_rng(11)
    age = g.integers(0, 90, n)
    sex = np.array(["f", "m"])[g.integers(0, 2, n)]
    marital = np.where(age < 16, "single", np.array(["single", "married", "widowed"])[g.integers(0, 3, n)])
    children = np.where((sex == "m") | (age < 16), np.nan, g.integers(0, 5, n))
    facts = {
        "age": KEY | {"integer": True},
        "sex": PLAIN,
        "marital": PLAIN,
        "children": CONFIDENTIAL | {"integer": True},
    }
    return microdata(facts, marital=marital, age=age, sex=sex, children=pa.array(children, from_pandas=True))


RULES = {"marital": {"age < 16": "single"}, "children": {"sex == 'm' or age < 16": None}}


def test_rules_hold_for_every_synthetic_record() -> None:
    release = FullTreeSynthesis(rules=RULES, size=8_000).apply(people(), Draws(1))
    made = release.masked
    age, sex = made.numbers("age"), np.array(values(made, "sex"))
    assert {v for v, a in zip(values(made, "marital"), age, strict=True) if a < 16} == {"single"}
    assert np.isnan(made.numbers("children")[(sex == "m") | (age < 16)]).all()
    assert (~np.isnan(made.numbers("children")[(sex == "f") & (age >= 16)])).mean() > 0.99
    assert sum("a rule on" in g.says for g in release.guarantees) == 2
    again = Recipe.from_toml(FullTreeSynthesis(rules=RULES).as_recipe().to_toml())
    assert again["full_tree_synthesis"].rules == {
        "marital": {"age < 16": "single"},
        "children": {"sex == 'm' or age < 16": ""},
    }


def test_columns_of_a_rule_are_drawn_before_the_column_that_it_is_about() -> None:
    mask = FullTreeSynthesis(rules=RULES).fit(people(), Draws(1))
    assert [m.column.name for m in mask.models] == ["age", "marital", "sex", "children"]
    with pytest.raises(DataError, match="depends on columns that are drawn after it: age"):
        FullTreeSynthesis(rules=RULES, visit=["marital"]).fit(people(), Draws(1))
    circle = {"marital": {"age < 16": "single"}, "age": {"marital == 'widowed'": 80}}
    with pytest.raises(DataError, match="drawn after it"):
        FullTreeSynthesis(rules=circle).fit(people(), Draws(1))


def test_rules_that_the_data_break_or_that_cannot_hold_are_refused() -> None:
    data = people()
    age, marital = data.numbers("age"), values(data, "marital")
    wrong = sum(a < 30 and m != "single" for a, m in zip(age, marital, strict=True))
    with pytest.raises(DataError, match=f'{wrong:,} records meet "age < 30" and have another value of .marital.'):
        TreeSynthesis("marital", rules={"marital": {"age < 30": "single"}}).apply(data, Draws(1))
    with pytest.raises(DataError, match="no record has this category"):
        TreeSynthesis("marital", rules={"marital": {"age < 16": "engaged"}}).apply(data, Draws(1))
    with pytest.raises(DataError, match="a number is needed"):
        TreeSynthesis("children", rules={"children": {"age < 16": "none"}}).apply(data, Draws(1))
    with pytest.raises(DataError, match="children, which is neither given nor synthetic"):
        TreeSynthesis("marital", given=["age"], rules={"marital": {"children > 2": "married"}}).apply(data, Draws(1))
    with pytest.raises(DataError, match="'maritl' is not in"):
        TreeSynthesis("marital", rules={"maritl": {"age < 16": "single"}}).apply(data, Draws(1))
    with pytest.raises(ParameterError, match="depends on 'age' itself"):
        TreeSynthesis("age", rules={"age": {"age < 16": 3}})
    with pytest.raises(ParameterError, match="is not understood"):
        TreeSynthesis("age", rules={"age": {"sex ==": 3}})
    with pytest.raises(ParameterError, match="must be given by column"):
        TreeSynthesis("age", rules=["age < 16"])  # type: ignore[arg-type]


def test_predictors_and_the_order_can_be_chosen() -> None:
    g = np.random.default_rng(12)
    x = g.normal(size=4_000)
    data = microdata(dict.fromkeys("xyz", KEY), x=x, y=x + 0.1 * g.normal(size=4_000), z=x + 0.1 * g.normal(size=4_000))
    mask = FullTreeSynthesis(visit=["z"], predictors={"y": ["x"], "x": []}).fit(data, Draws(1))
    assert [m.column.name for m in mask.models] == ["z", "x", "y"]
    assert [[p.name for p in m.predictors] for m in mask.models] == [[], [], ["x"]]
    made = mask.transform(data.batch(), Draws(1))
    numbers = np.stack([made.numbers(c) for c in "xyz"])
    correlation = np.corrcoef(numbers)
    assert correlation[0, 1] > 0.98
    assert abs(correlation[0, 2]) < 0.08


def test_a_predictor_that_is_not_known_is_refused_with_those_that_are() -> None:
    data = people(300)
    with pytest.raises(
        DataError,
        match=r"'children' cannot explain 'sex': .* Known then: marital, age",
    ):
        FullTreeSynthesis(predictors={"sex": ["children"]}).fit(data, Draws(1))
    with pytest.raises(DataError, match="Known then: age"):
        TreeSynthesis("children", given=["age"], predictors={"children": ["age", "sex", "marital"]}).fit(data, Draws(1))
    with pytest.raises(ParameterError, match="cannot explain itself"):
        TreeSynthesis("children", predictors={"children": ["children"]})
    with pytest.raises(ParameterError, match="cannot draw age and take it as given"):
        TreeSynthesis(["age"], given=["age"])


# Bad input, and columns that are hardly columns


def test_constants_empty_columns_and_a_level_for_each_record_come_out_as_something_sensible() -> None:
    g = np.random.default_rng(13)
    facts = dict.fromkeys(["one", "none", "x"], KEY) | dict.fromkeys(["word", "empty", "tag"], PLAIN)
    data = microdata(
        facts, one=np.full(300, 3.5), none=pa.array([None] * 300, pa.float64()), word=["same"] * 300,
        empty=pa.array([None] * 300, pa.string()), tag=[f"t{i}" for i in range(300)], x=g.normal(size=300),
    )  # fmt: skip
    release = FullTreeSynthesis(size=400).apply(data, Draws(1))
    made = release.masked
    assert {*values(made, "one")} == {3.5}
    assert {*values(made, "none")} == {*values(made, "empty")} == {None}
    assert {*values(made, "word")} == {"same"}
    assert {*values(made, "tag")} <= {*values(data, "tag")}
    assert any("tag: 300 rare categories are drawn without regard" in g.says for g in release.guarantees)


def test_files_that_cannot_be_learned_from_are_refused() -> None:
    with pytest.raises(DataError, match="3 records are fewer than a leaf has"):
        FullTreeSynthesis().apply(microdata(x=[1.0, 2.0, 3.0]), Draws(1))
    few = microdata(x=[1.0, 2.0, *([math.nan] * 10)], y=np.arange(12.0))
    with pytest.raises(DataError, match="'x' has values in fewer than 5 records"):
        FullTreeSynthesis().apply(few, Draws(1))
    dates = pa.array(np.arange(9), pa.int32()).cast(pa.date32())
    with pytest.raises(DataError, match="'x' holds dates"):
        FullTreeSynthesis().apply(microdata(x=dates), Draws(1))
    with pytest.raises(DataError, match="'y' holds infinite values"):
        TreeSynthesis("y").apply(
            microdata({"y": CONFIDENTIAL}, x=np.arange(9.0), y=[*np.arange(8.0), math.inf]), Draws(1)
        )
    with pytest.raises(DataError, match="no column to synthesise"):
        TreeSynthesis().apply(microdata({"x": KEY}, x=np.arange(9.0)), Draws(1))


def test_a_household_has_one_drawn_value_that_depends_on_no_member() -> None:
    g = np.random.default_rng(14)
    home = np.repeat(np.arange(400), 3)
    rooms, rent = np.repeat(g.integers(1, 6, 400), 3), np.repeat(g.normal(900, 200, 400), 3)
    facts = {
        "home": {"role": "household"}, "rooms": KEY | {"level": "household"}, "age": KEY,
        "rent": CONFIDENTIAL | {"level": "household"}, "pay": CONFIDENTIAL,
    }  # fmt: skip
    data = microdata(
        facts, home=home, rooms=rooms, age=g.integers(20, 80, 1_200), rent=rent + 150 * rooms, pay=g.normal(size=1_200)
    )
    mask = TreeSynthesis().fit(data, Draws(1))
    assert {m.column.name: [p.name for p in m.predictors] for m in mask.models} == {
        "rent": ["rooms"], "pay": ["rooms", "age", "rent"],
    }  # fmt: skip
    assert mask.models[0].value.tree.size[0] == 400
    made = mask.apply(data, Draws(1)).masked.numbers("rent").reshape(400, 3)
    assert (made == made[:, :1]).all()
    assert np.corrcoef(made[:, 0], rooms[::3])[0, 1] > 0.6
    with pytest.raises(DataError, match="describes persons and not households"):
        TreeSynthesis(predictors={"rent": ["age"]}).fit(data, Draws(1))


def test_weights_of_a_new_file_add_up_to_the_population() -> None:
    g = np.random.default_rng(15)
    age = g.integers(20, 80, 4_000)
    data = microdata({"age": KEY, "w": {"role": "weight"}}, w=age + g.uniform(50, 150, 4_000), age=age)
    mask = FullTreeSynthesis(size=9_000, uniques="keep").fit(data, Draws(1))
    assert [m.column.name for m in mask.models] == ["age", "w"]
    assert mask.apply(data, Draws(1)).masked.numbers("w").sum() == pytest.approx(data.numbers("w").sum(), rel=0.01)


# A whole file


@pytest.mark.parametrize("mask", [FullTreeSynthesis(uniques="keep"), FullTreeSynthesis()])
def test_tables_and_propensities_are_those_of_the_original_where_the_copulas_are_not(mask: Mask) -> None:
    """Interactions that a normal copula cannot have: y is x where z says so, and -x elsewhere."""
    g = np.random.default_rng(16)
    x, z = g.normal(size=6_000), g.integers(0, 2, 6_000)
    y = np.where(z == 1, x, -x) + 0.3 * g.normal(size=6_000)
    kind = np.where(y > 0, np.where(x > 0, "pp", "pn"), np.where(x > 0, "np", "nn"))
    facts = {"x": KEY, "z": PLAIN, "y": CONFIDENTIAL, "kind": PLAIN}
    data = microdata(facts, x=x, z=np.array(["a", "b"])[z], y=y, kind=kind)
    trees, copula = (m.apply(data, Draws(1)) for m in (mask, CopulaSynthesis()))
    assert synthesised(trees) == "estimated"
    assert PMSE().score(trees).details["pMSE ratio"] < 3
    assert PMSE(model="tree").score(trees).details["pMSE"] < 0.2 * PMSE(model="tree").score(copula).details["pMSE"]
    assert TableDistance().score(trees).value > TableDistance().score(copula).value
    made = trees.masked
    b = np.array(values(made, "z")) == "b"
    assert np.corrcoef(made.numbers("x")[b], made.numbers("y")[b])[0, 1] > 0.9
    assert np.corrcoef(made.numbers("x")[~b], made.numbers("y")[~b])[0, 1] < -0.9


def test_cells_that_are_empty_stay_empty_where_a_leaf_is_pure() -> None:
    g = np.random.default_rng(17)
    sex = g.integers(0, 2, 3_000)
    state = np.where(sex == 0, g.choice(["pregnant", "not"], 3_000, p=[0.1, 0.9]), "not")
    data = microdata({"sex": PLAIN, "state": PLAIN}, sex=np.array(["f", "m"])[sex], state=state)
    made = FullTreeSynthesis(size=5_000).apply(data, Draws(1)).masked
    assert ("m", "pregnant") not in {*zip(values(made, "sex"), values(made, "state"), strict=True)}


def test_copies_of_a_unique_original_are_drawn_again_or_counted() -> None:
    g = np.random.default_rng(3)
    names = np.array([*"abcdefghijkl"])
    codes = g.choice(12, (300, 3), p=np.arange(12, 0, -1) / 78)
    data = microdata(dict.fromkeys("xyz", PLAIN), **{c: names[codes[:, k]] for k, c in enumerate("xyz")})
    before = [*zip(*(values(data, c) for c in "xyz"), strict=True)]
    unique = {r for r in before if before.count(r) == 1}
    made = FullTreeSynthesis(size=2_000).apply(data, Draws(1)).masked
    assert not unique & {*zip(*(values(made, c) for c in "xyz"), strict=True)}
    kept = FullTreeSynthesis(size=2_000, uniques="keep").apply(data, Draws(1))
    copies = sum(r in unique for r in zip(*(values(kept.masked, c) for c in "xyz"), strict=True))
    assert copies > 0
    assert any(f"{copies:,} copy a record that is unique" in g.says for g in kept.guarantees)


def test_columns_that_follow_another_follow_it_in_a_partly_synthetic_file() -> None:
    g = np.random.default_rng(18)
    town = g.integers(0, 6, 600)
    facts = {"town": PLAIN | CONFIDENTIAL, "county": PLAIN | {"follows": "town"}, "pay": KEY}
    data = microdata(
        facts, town=np.array([*"abcdef"])[town], county=np.array([*"xyz"])[town // 2], pay=g.normal(size=600)
    )
    mask = TreeSynthesis().fit(data, Draws(1))
    assert [p.name for p in mask.models[0].predictors] == ["pay"]
    made = mask.apply(data, Draws(1)).masked
    assert {*zip(values(made, "town"), values(made, "county"), strict=True)} == {*zip("abcdef", "xxyyzz", strict=True)}
    assert values(made, "town") != values(data, "town")


def test_implicates_differ_and_kept_columns_do_not() -> None:
    data = teachers(400)
    release = TreeSynthesis("salary", given=["age", "sex"], implicates=3).apply(data, Draws(1))
    first, *others = (m.numbers("salary") for m in release.implicates)
    assert all((first != other).mean() > 0.9 for other in others)
    assert all((m.numbers("age") == data.numbers("age")).all() for m in release.implicates)
    assert release.align.tolist() == data.batch([]).ids.tolist()


# Intervals


def population(n: int, seed: int) -> Microdata:
    """x is normal, c depends on x, y on both, z on x and y."""
    g = np.random.default_rng(seed)
    x = g.normal(size=n)
    c = (g.random(n) < 0.3 + 0.4 * (x > 0)).astype(int)
    y = 1 + 0.5 * x + 0.8 * c + g.normal(size=n)
    z = 0.5 * y - 0.3 * x + g.normal(size=n)
    facts = {"x": KEY, "c": PLAIN, "y": CONFIDENTIAL, "z": CONFIDENTIAL}
    return microdata(facts, x=x, c=np.array(["a", "b"])[c], y=y, z=z)


TRUTH = np.array([0.7, 0.5, 0.5, 0.8, -0.3, 0.5])


def analysis(data: Any) -> list[tuple[float, float]]:
    """The mean of z, the share of c, the slopes of y on x and c, and of z on x and y, with the textbook's variances."""
    x, y, z = (data.numbers(name) for name in "xyz")
    c = (np.array(listed(data, "c")) == "b").astype(float)
    found = [(v.mean(), v.var(ddof=1) / len(v)) for v in (z, c)]
    for response, regressors in ((y, (x, c)), (z, (x, y))):
        d = np.column_stack([np.ones(len(x)), *regressors])
        b = np.linalg.lstsq(d, response)[0]
        left = response - d @ b
        variance = np.linalg.inv(d.T @ d) * (left @ left) / (len(x) - 3)
        found += [(b[1], variance[1, 1]), (b[2], variance[2, 2])]
    return found


@pytest.mark.parametrize("times", [30, pytest.param(500, marks=pytest.mark.verify)])
@pytest.mark.parametrize("mask", [FullTreeSynthesis(implicates=5), TreeSynthesis(["y", "z"], implicates=5)])
def test_intervals_from_implicates_cover_the_truth_within_two_points_of_nominal(mask: Mask, times: int) -> None:
    """Each of six estimates; of few samples their average."""
    covered = np.zeros((times, len(TRUTH)))
    for seed in range(times):
        data = population(500, seed)
        fitted, draws = mask.fit(data, Draws(seed)), Draws(seed)
        found = [analysis(fitted.transform(data.batch(), draws.child(k))) for k in range(mask.versions)]
        for k, true in enumerate(TRUTH):
            low, high = combine([f[k][0] for f in found], [f[k][1] for f in found]).interval()
            covered[seed, k] = low <= true <= high
    error = 100 * math.sqrt(0.95 * 0.05 / times)
    each = 100 * covered.mean(axis=0)
    if times < 500:
        assert abs(each.mean() - 95) < 2 + 3 * error / math.sqrt(2)  # estimates of one sample are correlated
    else:
        assert (np.abs(each - 95) <= 2).all()
