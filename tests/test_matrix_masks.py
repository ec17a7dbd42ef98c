"""Matrix masks M = AXB + C: the algebra, the mask of its own, and each kind that the paper names."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.contract import Draws, Mask, MatrixForm, Recipe, Scope, registered
from sfumato.data.microdata import Microdata
from sfumato.datasets import five, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError, SchemaError
from sfumato.masks import (
    AggregateColumns,
    AggregateRecords,
    Displace,
    KimNoise,
    MatrixMask,
    MultiplyColumns,
    MultiplyRecords,
    RandomAggregation,
    TopCode,
)
from sfumato.schema import Attribute, Level, Role, Schema

Numbers = NDArray[np.float64]
XY = ("x", "y")


def numbers(n: int = 60, p: int = 2, seed: int = 3) -> Numbers:
    g = np.random.default_rng(seed)
    return g.normal(50, 10, (n, p)) + g.normal(0, 5, (n, 1))


def data_of(x: Numbers, names: tuple[str, ...] = XY, **more: Any) -> Microdata:
    frame = pa.table({**{n: x[:, j] for j, n in enumerate(names)}, **more})
    roles = {"weight": Role.WEIGHT, "stratum": Role.KEY}
    scales = {"stratum": "unordered"}
    return Microdata(
        frame,
        Schema(
            tuple(Attribute(n, roles.get(n, Role.CONFIDENTIAL), scales.get(n, "ordered")) for n in frame.column_names)
        ),  # type: ignore[arg-type]
    )


def released(mask: Mask | Recipe, data: Microdata, names: tuple[str, ...] = XY, seed: int = 1) -> Numbers:
    masked = mask.apply(data, Draws(seed)).masked
    return np.column_stack([masked.numbers(n) for n in names])


# The algebra of MatrixForm


def random_form(g: np.random.Generator, n: int, r: int, names: tuple[str, ...], out: tuple[str, ...]) -> MatrixForm:
    A, B, C = g.normal(size=(r, n)), g.normal(size=(len(names), len(out))), g.normal(size=(r, len(out)))
    return MatrixForm(names, out, A, B, C)


def test_two_masks_one_after_the_other_are_one_mask() -> None:
    g = np.random.default_rng(1)
    first = random_form(g, 7, 5, ("a", "b", "c"), ("d", "e"))
    second = random_form(g, 5, 4, ("e", "d"), ("f", "g", "h"))
    x = g.normal(size=(7, 3))
    both = first.then(second)
    assert (both.names, both.released) == (("a", "b", "c"), ("f", "g", "h"))
    np.testing.assert_allclose(both.apply(x), second.apply(first.apply(x)[:, ::-1]))


@pytest.mark.parametrize("with_a", [True, False])
def test_one_row_of_displacement_stands_for_every_record(with_a: bool) -> None:
    g = np.random.default_rng(2)
    first = MatrixForm(XY, XY, C=g.normal(size=(1, 2)))
    second = MatrixForm(XY, XY, A=csr_array(g.normal(size=(3, 6))) if with_a else None, B=g.normal(size=(2, 2)))
    x = g.normal(size=(6, 2))
    np.testing.assert_allclose(first.then(second).apply(x), second.apply(first.apply(x)))


def test_columns_that_only_one_mask_changes_are_carried_through_the_other() -> None:
    g = np.random.default_rng(3)
    first = MatrixForm(("a", "b"), ("a", "b"), B=g.normal(size=(2, 2)), C=g.normal(size=(4, 2)))
    second = MatrixForm(("c", "a"), ("t",), B=np.array([[2.0], [3.0]]))
    x = g.normal(size=(4, 3))  # a, b, c
    both = first.then(second)
    assert (both.names, both.released) == (("a", "b", "c"), ("t", "b"))
    after_first = first.apply(x[:, :2])
    np.testing.assert_allclose(both.apply(x), np.column_stack([2 * x[:, 2] + 3 * after_first[:, 0], after_first[:, 1]]))


def test_a_column_that_first_kept_its_records_cannot_join_one_that_did_not() -> None:
    first = MatrixForm(("a",), ("a",), A=np.eye(3)[:2])
    with pytest.raises(NotApplicable, match="transformed in a, but not in b"):
        first.then(MatrixForm(("a", "b"), ("t",), B=np.ones((2, 1))))


def test_a_missing_value_spreads_only_where_its_factor_is_not_zero() -> None:
    x = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    form = MatrixForm(XY, XY, A=np.array([[1.0, 1, 0], [0, 0, 1]]), B=np.diag([2.0, 3.0]))
    np.testing.assert_array_equal(form.apply(x), [[8.0, np.nan], [10.0, 18.0]])


def brute_reveals(form: MatrixForm, n: int) -> NDArray[np.bool_]:
    """Which entries of X are the same in all X that give this M: those on which the null space of A ⊗ B′ is zero."""
    A = np.eye(n) if form.A is None else np.asarray(form.A if isinstance(form.A, np.ndarray) else form.A.toarray())
    B = np.eye(len(form.names)) if form.B is None else form.B
    big = np.kron(A, B.T)
    _, size, right = np.linalg.svd(big)
    null = right[(size > 1e-10).sum() :]
    return (np.abs(null) < 1e-8).all(axis=0).reshape(n, len(form.names))


@pytest.mark.parametrize("seed", range(20))
def test_what_the_matrices_reveal_is_where_no_other_file_would_give_the_same_release(seed: int) -> None:
    g = np.random.default_rng(seed)
    n, p = 5, 3
    A = g.integers(-1, 2, (g.integers(1, 6), n)) * g.integers(0, 2, n).astype(float)
    B = g.integers(-1, 2, (p, g.integers(1, 4))).astype(float)
    form = MatrixForm(("a", "b", "c"), tuple("defg"[: B.shape[1]]), A=csr_array(A), B=B)
    records, attributes = form.reveals()
    np.testing.assert_array_equal(np.outer(records, attributes), brute_reveals(form, n))


def test_full_column_rank_of_a_with_full_row_rank_of_b_reveals_everything_though_a_is_not_square() -> None:
    """Erratum 2.15: not only r = n."""
    g = np.random.default_rng(5)
    x, A, B = g.normal(size=(4, 2)), g.normal(size=(6, 4)), g.normal(size=(2, 3))
    form = MatrixForm(XY, ("m1", "m2", "m3"), A=A, B=B)
    records, attributes = form.reveals()
    assert records.all()
    assert attributes.all()
    np.testing.assert_allclose(np.linalg.pinv(A) @ form.apply(x) @ np.linalg.pinv(B), x)


def test_averages_over_disjoint_groups_reveal_nobody_but_overlapping_ones_may() -> None:
    pairs = csr_array(np.kron(np.eye(5_000), [[0.5, 0.5]]))
    assert not MatrixForm(XY, XY, A=pairs).reveals()[0].any()
    # with pairs (1,2), (2,3), (1,3) everybody is known
    ring = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    assert MatrixForm(XY, XY, A=ring).reveals()[0].all()


# Given matrices


def test_a_matrix_mask_releases_axb_plus_c() -> None:
    x = numbers(9, 3)
    g = np.random.default_rng(4)
    A, B, C = g.normal(size=(4, 9)), g.normal(size=(3, 2)), g.normal(size=(4, 2))
    data = data_of(x, ("x", "y", "z"))
    mask = MatrixMask(["x", "y", "z"], A=A, B=B, C=C)
    release = mask.apply(data, Draws(1))
    assert release.masked.schema.names() == ("m1", "m2")
    np.testing.assert_allclose(released(mask, data, ("m1", "m2")), A @ x @ B + C)
    assert (release.align < 0).all()


def test_matrices_may_be_lists_arrays_or_sparse_and_a_recipe_file_gives_them_back() -> None:
    data = data_of(numbers(4))
    A = [[1, 0, 0, 0], [0, 0.5, 0.5, 0]]
    masks = [MatrixMask(XY, A=form) for form in (A, np.array(A), csr_array(np.array(A)))]
    triplets = {"shape": [2, 4], "rows": [0, 1, 1], "columns": [0, 1, 2], "values": [1, 0.5, 0.5]}
    masks.append(MatrixMask(XY, A=triplets))
    assert masks[0] == masks[1]
    assert masks[2] == masks[3]
    results = [released(mask, data) for mask in masks]
    for mask, result in zip(masks, results, strict=True):
        np.testing.assert_array_equal(result, results[0])
        recipe = mask.as_recipe()
        assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_a_record_made_from_one_record_alone_still_belongs_to_it() -> None:
    A = [[0, 0, 1, 0, 0], [2, 0, 0, 0, 0], [0, 0.5, 0, 0.5, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]]
    release = MatrixMask("salary", A=A).apply(five(), Draws(1))
    assert release.align.tolist() == [2, 0, -3, -4, -5]  # the last record stands twice, so neither is it alone
    before, after = release.pair("salary")
    assert dict(zip(before.tolist(), after.tolist(), strict=True)) == {67.0: 67.0, 41.0: 82.0}


def test_without_a_other_columns_stay_and_the_mask_works_record_by_record() -> None:
    mask = MatrixMask(["salary", "rent"], B=[[1.0], [12 / 1000]], released="total")
    assert mask.scope is Scope.ROW
    assert mask.keeps_records
    made = mask.apply(five(), Draws(1)).masked
    assert made.schema.names() == ("household", "zip", "sex", "age", "weight", "total")
    np.testing.assert_allclose(made.numbers("total"), [51.8, 49.3, 81.4, 60.4, 317.8])
    assert MatrixMask("salary", A=[[1, 0, 0, 0, 0]]).scope is Scope.GLOBAL
    assert MatrixMask("salary", C=[[1], [2], [3], [4], [5]]).scope is Scope.GLOBAL


def test_bounds_whole_numbers_and_codes_of_the_original_do_not_bind_what_is_released() -> None:
    schema = Schema((Attribute("x", "confidential", bounds=(0, 10), integer=True, missing=(5,)),))  # type: ignore[arg-type]
    data = Microdata(pa.table({"x": [1, 2, 5, 3]}), schema)
    made = MatrixMask("x", B=[[2.5]]).apply(data, Draws(1)).masked
    np.testing.assert_array_equal(made.numbers("x"), [2.5, 5.0, np.nan, 7.5])
    after = made.schema["x"]
    assert (after.bounds, after.integer, after.missing) == ((None, None), False, ())


def test_a_released_column_describes_the_household_only_if_all_it_is_made_from_does() -> None:
    both = MatrixMask(["rent", "salary"], B=[[1.0, 0.5], [0.0, 1.0]])
    after = both.schema_after(five().schema)
    assert (after["rent"].level, after["salary"].level) == (Level.HOUSEHOLD, Level.PERSON)


def test_a_missing_value_that_would_spread_to_other_records_is_refused() -> None:
    x = numbers(4)
    x[2, 1] = np.nan
    data = data_of(x)
    with pytest.raises(DataError, match="y: A combines records of which some have no value there"):
        MatrixMask(XY, A=[[0, 0.5, 0.5, 0]]).apply(data, Draws(1))
    alone = released(MatrixMask(XY, A=[[0, 0.5, 0, 0.5], [0, 0, 2, 0]]), data)
    np.testing.assert_allclose(alone, [(x[1] + x[3]) / 2, 2 * x[2]])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "needs at least one of A, B and C"),
        ({"B": [[1.0]]}, "B has 1 rows, but X has 2 columns"),
        ({"B": [[1.0], [2.0, 3.0]]}, "B of matrix_mask must be a matrix"),
        ({"B": [[1.0, float("nan")], [1, 2]]}, "with finite numbers"),
        ({"B": "much"}, "B of matrix_mask must be a matrix"),
        ({"B": {"shape": [2, 2]}}, "A may also be given by its entries"),
        ({"A": {"shape": [2, 2], "rows": [2], "columns": [0], "values": [1.0]}}, "lie within the shape"),
        ({"A": []}, "A of matrix_mask must be a matrix"),
        ({"C": [1.0, 2.0, 3.0]}, "C has 3 columns, but M has 2"),
        ({"A": [[1, 0], [0, 1], [1, 1]], "C": [[1, 2], [3, 4]]}, "C has 2 rows, but M has 3"),
        ({"B": [[1.0], [1.0]], "released": ["a", "b"]}, "a list of 1 different names"),
        ({"C": [1.0, 2.0], "released": ["a", "a"]}, "a list of 2 different names"),
    ],
)  # fmt: skip
def test_matrices_that_do_not_fit_are_refused_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        MatrixMask(XY, **given)


def test_matrices_that_do_not_fit_the_data_are_refused() -> None:
    data = data_of(numbers(4))
    with pytest.raises(DataError, match="A has 3 columns, but there are 4 records"):
        MatrixMask(XY, A=np.eye(3)).apply(data, Draws(1))
    with pytest.raises(DataError, match="C has 3 rows, but M has 4"):
        MatrixMask(XY, C=np.ones((3, 2))).apply(data, Draws(1))
    with pytest.raises(SchemaError, match="which the data have already"):
        MatrixMask("salary", B=[[2.0]], released="age").apply(five(), Draws(1))


def said(mask: Mask, data: Microdata) -> str:
    return "\n".join(g.says for g in mask.apply(data, Draws(1)).guarantees)


def test_the_guarantee_says_what_the_matrices_give_away() -> None:
    data = data_of(numbers(4))
    assert "x, y of 4 of the 4 records exactly" in said(MatrixMask(XY, A=np.tri(4) + np.eye(4)), data)
    assert "x of 1 of the 4 records exactly" in said(
        MatrixMask(XY, A=[[1, 0, 0, 0], [0, 1, 1, 1]], B=[[1.0], [0.0]]), data
    )
    assert "no single value of X" in said(MatrixMask(XY, A=[[0.25] * 4]), data)
    assert "no single value of X" in said(MatrixMask(XY, B=[[1.0], [1.0]]), data)
    assert "A of 2 × 4 (rank 1)" in said(MatrixMask(XY, A=[[1, 1, 1, 1], [2, 2, 2, 2]]), data)


# Aggregation across records


@pytest.mark.parametrize("mask", [AggregateRecords(k=4), RandomAggregation(k=4)], ids=lambda m: m.name)
def test_one_record_is_released_for_each_group_of_k(mask: Mask) -> None:
    data = data_of(numbers(50))
    form = mask.as_matrix(data, Draws(1))
    sizes = np.diff(csr_array(form.A).indptr)
    assert sorted(sizes.tolist()) == [4] * 11 + [6]
    release = mask.apply(data, Draws(1))
    assert len(release.masked) == 12
    assert (release.align < 0).all()


@pytest.mark.parametrize("mask", [AggregateRecords(k=3), RandomAggregation(k=3)], ids=lambda m: m.name)
def test_weighted_totals_and_weights_are_those_of_the_original(mask: Mask) -> None:
    x, w = numbers(50), np.random.default_rng(6).uniform(1, 9, 50)
    made = mask.apply(data_of(x, weight=w), Draws(1)).masked
    weight = made.numbers("weight")
    assert weight.sum() == pytest.approx(w.sum())
    for j, name in enumerate(XY):
        assert (weight * made.numbers(name)).sum() == pytest.approx((w * x[:, j]).sum())


def test_similar_records_follow_each_other_along_the_first_principal_component() -> None:
    x = numbers(60)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    # of two standardised columns with a positive correlation the component is their sum
    assert np.corrcoef(x.T)[0, 1] > 0
    order = np.argsort(z.sum(axis=1))
    means = x[order].reshape(20, 3, 2).mean(axis=1)
    got = released(AggregateRecords(k=3), data_of(x))
    np.testing.assert_allclose(got[np.argsort(got[:, 0])], means[np.argsort(means[:, 0])])


def test_averages_of_similar_records_keep_more_variance_than_those_of_random_ones() -> None:
    data = data_of(numbers(3_000))
    similar, random = (released(m, data).var(axis=0) for m in (AggregateRecords(k=5), RandomAggregation(k=5)))
    assert (similar > 2 * random).all()


def test_the_variance_of_random_averages_is_a_kth_of_the_original() -> None:
    x = numbers(400)
    variances = [released(RandomAggregation(k=4), data_of(x), seed=s).var(axis=0, ddof=1) for s in range(200)]
    np.testing.assert_allclose(np.mean(variances, axis=0), x.var(axis=0, ddof=1) / 4, rtol=0.03)


def test_groups_do_not_cross_strata_and_the_strata_are_released() -> None:
    x = numbers(30)
    stratum = np.array(["a", "b", "c"])[np.arange(30) % 3]
    made = AggregateRecords(XY, k=5, within="stratum").apply(data_of(x, stratum=stratum), Draws(1)).masked
    assert made.schema.names() == ("x", "y", "stratum")
    codes, values = made.batch(["stratum"]).column("stratum").codes
    for i, value in enumerate(values):
        assert made.numbers("x")[codes == i].mean() == pytest.approx(x[stratum == value, 0].mean())
    assert np.bincount(codes).tolist() == [2, 2, 2]


def test_records_that_answered_other_columns_are_not_mixed() -> None:
    x = numbers(20)
    x[:8, 1] = np.nan
    got = released(AggregateRecords(k=4), data_of(x))
    gaps = np.isnan(got[:, 1])
    assert (len(got), gaps.sum()) == (5, 2)
    assert got[gaps, 0].mean() == pytest.approx(x[:8, 0].mean())
    assert got[~gaps].mean(axis=0) == pytest.approx(x[8:].mean(axis=0))


def test_records_in_too_small_a_stratum_are_refused_or_suppressed_and_the_weights_make_up_for_them() -> None:
    x, w = numbers(20), np.full(20, 10.0)
    data = data_of(x, weight=w, stratum=["a"] * 18 + ["b"] * 2)
    with pytest.raises(DataError, match=r"2 records share their stratum .* fewer than k = 3"):
        AggregateRecords(XY, within="stratum").apply(data, Draws(1))
    release = AggregateRecords(XY, within="stratum", rare="suppress").apply(data, Draws(1))
    assert len(release.masked) == 6
    assert release.masked.numbers("weight").sum() == pytest.approx(200)
    assert any("2 records are suppressed" in g.says for g in release.guarantees)


@pytest.mark.parametrize("kind", [AggregateRecords, RandomAggregation])
def test_the_value_of_a_household_is_not_the_average_of_its_own_members(kind: Any) -> None:
    home = np.repeat(np.arange(10), 3)
    rent = 100.0 + home
    frame = pa.table({"home": home, "rent": rent})
    schema = Schema((Attribute("home", "household"), Attribute("rent", "confidential", level="household")))  # type: ignore[arg-type]
    data = Microdata(frame, schema)
    form = kind(k=3).as_matrix(data, Draws(1))
    groups = [set(home[row]) for row in np.split(form.A.indices, form.A.indptr[1:-1])]
    assert sorted(map(len, groups)) == [3, 3, 4]
    assert not set.intersection(*groups)
    release = kind(k=3).apply(data, Draws(1))
    assert not np.isin(release.masked.numbers("rent"), rent).all()
    assert "average over at least 3 households" in release.guarantees[-1].says


def test_bad_weights_and_impossible_groups_are_refused() -> None:
    x = numbers(6)
    for bad in (-1.0, np.nan, 0.0):
        with pytest.raises(DataError, match="zero, negative, missing or infinite for 1 records"):
            AggregateRecords().apply(data_of(x, weight=[bad, 1, 1, 1, 1, 1]), Draws(1))
    with pytest.raises(DataError, match="k = 7 is more than the number of records"):
        AggregateRecords(k=7).apply(data_of(x), Draws(1))
    with pytest.raises(DataError, match="survey weight, which is added up, not averaged"):
        AggregateRecords(columns=["x", "weight"]).apply(data_of(x, weight=np.ones(6)), Draws(1))
    with pytest.raises(ParameterError, match="cannot be both averaged"):
        AggregateRecords(columns=["x"], within=["x"])


# Multiplication


@pytest.mark.parametrize("variance", [0.02, 0.3])
def test_record_factors_have_mean_one_and_the_stated_variance(variance: float) -> None:
    data = data_of(np.ones((200_000, 1)), ("x",))
    factor = released(MultiplyRecords(factor_variance=variance), data, ("x",))[:, 0]
    assert (factor > 0).all()
    assert factor.mean() == pytest.approx(1, abs=4 * np.sqrt(variance / len(factor)))
    assert factor.var() == pytest.approx(variance, rel=0.03)


def test_all_columns_of_a_record_share_its_factor_and_zeros_stay() -> None:
    x = numbers(40)
    x[3, 0] = 0.0
    got = released(MultiplyRecords(factor_variance=0.2), data_of(x))
    rest = np.delete(np.arange(40), 3)
    np.testing.assert_allclose(got[rest, 0] / x[rest, 0], got[rest, 1] / x[rest, 1])
    assert len(np.unique(np.round(got[:, 1] / x[:, 1], 9))) == 40
    assert got[3, 0] == 0


def test_members_of_a_household_share_a_factor_where_one_column_describes_the_household() -> None:
    made = MultiplyRecords(["rent", "salary"]).apply(five(), Draws(1))
    ratio = made.masked.numbers("salary") / five().numbers("salary")
    assert ratio[0] == pytest.approx(ratio[1])
    alone = MultiplyRecords("salary").apply(five(), Draws(1)).masked.numbers("salary") / five().numbers("salary")
    assert alone[0] != pytest.approx(alone[1])


def test_each_column_has_one_factor_and_its_logarithm_has_the_variance_of_the_definition() -> None:
    x = numbers(20)
    factors = []
    for seed in range(400):
        got = released(MultiplyColumns(factor_variance=0.1), data_of(x), seed=seed)
        ratio = got / x
        np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape))
        factors += ratio[0].tolist()
    assert np.mean(factors) == pytest.approx(1, abs=4 * np.sqrt(0.1 / 800))
    assert np.var(np.log(factors)) == pytest.approx(np.log(1.1), rel=0.2)


def test_one_known_value_gives_a_multiplied_column_away_and_the_guarantee_says_so() -> None:
    x = numbers(20)
    got = released(MultiplyColumns(factor_variance=0.5), data_of(x))
    np.testing.assert_allclose(got[:, 0] * x[0, 0] / got[0, 0], x[:, 0])
    assert "one true value that somebody knows gives away the factor" in said(MultiplyColumns(), data_of(x))


# Attributes and displacement


def test_a_total_is_released_in_place_of_its_parts() -> None:
    x = numbers(10, 3)
    x[4, 1] = np.nan
    data = data_of(x, ("a", "b", "c"))
    made = AggregateColumns(["a", "b"], total="sum").apply(data, Draws(1)).masked
    assert made.schema.names() == ("c", "sum")
    np.testing.assert_allclose(made.numbers("sum"), x[:, 0] + x[:, 1])
    weighted = AggregateColumns(["a", "c"], weights={"a": 1, "c": -2.0}, parts="keep").apply(data, Draws(1))
    np.testing.assert_allclose(weighted.masked.numbers("total"), x[:, 0] - 2 * x[:, 2])
    assert {"a", "b", "c"} <= set(weighted.masked.schema.names())
    assert "this hides nothing" in weighted.guarantees[-1].says


def test_a_total_of_nothing_or_with_a_taken_name_is_refused() -> None:
    with pytest.raises(ParameterError, match="at least two columns"):
        AggregateColumns("x")
    with pytest.raises(ParameterError, match="weights must name the same columns"):
        AggregateColumns(XY, weights={"x": 1.0})
    with pytest.raises(ParameterError, match="weight 0"):
        AggregateColumns(XY, weights={"x": 1.0, "y": 0})
    with pytest.raises(SchemaError, match="have a column 'age' already"):
        AggregateColumns(["rent", "salary"], total="age").apply(five(), Draws(1))


@pytest.mark.parametrize("mask", [AggregateColumns(XY), MatrixMask(XY, B=[[1.0], [1.0]])], ids=lambda m: m.name)
def test_what_follows_a_column_that_goes_goes_with_it(mask: Mask) -> None:
    data = data_of(numbers(6, 3), ("x", "y", "z"), code=["a", "a", "b", "c", "b", "a"])
    linked = data.with_schema(data.schema.change("code", follows="z").change("z", follows="y"))
    assert set(mask.apply(linked, Draws(1)).masked.schema.names()) <= {"total", "m1"}


def test_a_step_may_mask_what_an_earlier_step_made() -> None:
    from sfumato import ru_map
    from sfumato.risk import AttributeRisk

    recipe = AggregateColumns(["salary", "income"]) >> KimNoise(columns=["total"])
    made = recipe.apply(teachers(200), Draws(1)).masked
    assert "total" in made.schema
    assert set(recipe.touches(teachers(10).schema)) == {"salary", "income"}
    # so that a map of such a recipe works too
    keep = AggregateColumns(["salary", "income"], parts="keep") >> KimNoise(columns=["total"])
    grid = {"kim_noise.lambda2": [0.1, 0.2]}
    m = ru_map(teachers(200), keep, grid, risk=AttributeRisk("salary"), utility="salary", replications=2, draws=1)
    assert m.estimate(0, 0)[0] == np.inf


def test_an_amount_is_added_to_every_value_and_is_not_published() -> None:
    x = numbers(10)
    mask = Displace({"x": 5.0, "y": -3.0})
    release = mask.apply(data_of(x), Draws(1))
    np.testing.assert_allclose(released(mask, data_of(x)), x + np.array([5.0, -3.0]))
    assert "displace.amount" not in release.published
    with pytest.raises(ParameterError, match="amount gives no amount for y"):
        Displace({"x": 5.0}, columns=XY)
    with pytest.raises(ParameterError, match="not masked: y"):
        Displace({"x": 5.0, "y": 1.0}, columns=["x"])


def test_what_must_stay_secret_is_not_in_the_folder_that_is_published(tmp_path: Path) -> None:
    draws = Draws(3)
    recipe = Displace({"salary": 7.25}) >> MatrixMask("rent", B=[[1.375]])
    recipe.apply(five(), draws).write(tmp_path / "out", draws, tmp_path / "seed.toml", forms=("csv",))
    text = (tmp_path / "out" / "recipe.toml").read_text("utf-8")
    assert "displace" in text
    assert "7.25" not in text
    assert "1.375" not in text
    assert "7.25" in recipe.to_toml()


# Composition


def test_a_recipe_of_matrix_masks_is_one_matrix_mask() -> None:
    x = numbers(30)
    data = data_of(x, weight=np.random.default_rng(8).uniform(1, 2, 30))
    recipe = Recipe.of(
        Displace({"x": 4.0, "y": 1.0}),
        MultiplyRecords(),
        MultiplyColumns("y"),
        AggregateRecords(),
        AggregateColumns(XY),
    )
    form = recipe.as_matrix(data, Draws(9))
    assert (form.names, form.released) == (XY, ("total",))
    assert form.random == ("A", "B")
    assert form.depends == ("A",)
    np.testing.assert_allclose(form.apply(x)[:, 0], recipe.apply(data, Draws(9)).masked.numbers("total"))


def matrix_masks() -> list[Mask]:
    """Every registered mask that is built from columns alone and has a matrix form."""
    kinds: list[Any] = [c for c in registered("mask").values() if c.__module__.startswith("sfumato.")]
    some = [c for c in kinds if c.matrices is not Mask.matrices and "columns" in c.parameters()]
    bare = [c for c in some if all(f.default is not MISSING or f.default_factory is not MISSING for f in fields(c))]
    return [c(columns=XY) for c in bare if c is not AggregateColumns]


@pytest.mark.parametrize("mask", matrix_masks(), ids=lambda m: m.name)
def test_every_matrix_mask_of_the_house_can_stand_between_two_others(mask: Mask) -> None:
    x = numbers(80)
    data = data_of(x)
    recipe = Recipe.of(first=Displace({"x": 3.0, "y": 2.0}), middle=mask, last=KimNoise(columns=XY))
    try:
        form = recipe.as_matrix(data, Draws(4))
    except NotApplicable as reason:
        assert "step 'middle'" in str(reason)  # noqa: PT017
        return
    masked = recipe.apply(data, Draws(4)).masked
    assert (form.names, form.released) == (XY, XY)
    np.testing.assert_allclose(form.apply(x), np.column_stack([masked.numbers(n) for n in XY]))


def test_a_recipe_that_masks_nothing_is_the_identity_on_all_numbers() -> None:
    form = Recipe(()).as_matrix(five(), Draws(1))
    assert form.A is form.B is form.C is None
    assert set(form.names) == {"household", "age", "rent", "salary", "weight"}


def test_a_recipe_with_another_kind_of_step_says_which_and_why() -> None:
    with pytest.raises(NotApplicable, match="step 'top_code': top_code is not a matrix mask"):
        (Displace(1.0) >> TopCode()).as_matrix(data_of(numbers()), Draws(1))


def test_attribute_specific_transformation_of_records_is_no_matrix_mask_of_the_whole() -> None:
    """The paper: some attributes as they are, others aggregated over records."""
    data = data_of(numbers())
    with pytest.raises(
        NotApplicable, match="step 'multiply_records': it transforms the records in other columns than x"
    ):
        (Displace({"x": 1.0}) >> MultiplyRecords("y")).as_matrix(data, Draws(1))
    with pytest.raises(NotApplicable, match="transformed in y, but not in x"):
        (MultiplyRecords("y") >> Displace(1.0)).as_matrix(data, Draws(1))


@pytest.mark.parametrize("mask", [MultiplyRecords(), MultiplyColumns(), Displace(1.0), AggregateColumns(XY)])
def test_a_column_without_values_or_with_infinite_ones_is_refused(mask: Mask) -> None:
    for wrong, words in ((np.nan, "no values at all|no record has a value in all of"), (np.inf, "infinite")):
        x = numbers(10)
        x[:, 1] = wrong
        with pytest.raises(DataError, match=words):
            mask.apply(data_of(x), Draws(1))


def test_values_that_a_factor_would_make_infinite_are_refused() -> None:
    with pytest.raises(DataError, match="too large to be multiplied"):
        MultiplyRecords(factor_variance=10).apply(data_of(np.full((50, 2), 1e308)), Draws(1))
