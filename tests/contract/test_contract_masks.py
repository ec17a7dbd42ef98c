"""Promises kept by every registered mask."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from contract_cases import (
    CODES,
    DRAWS,
    EDGES,
    MASKS,
    NUMBERS,
    SCHEMA,
    N,
    assert_same,
    assert_sentence,
    assert_valid,
    local,
    rows,
    table,
)

from sfumato.contract import Draws, Mask, Recipe, Scope
from sfumato.data import RECORD_ID, Kind
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.schema import Schema

# Masks


@pytest.mark.parametrize("mask", MASKS)
def test_the_same_seed_gives_the_same_release(mask: Mask, data: Microdata) -> None:
    one, two = (mask.apply(data, Draws(5)).masked for _ in range(2))
    assert one.digest() == two.digest()
    assert_same(one, two)


@pytest.mark.parametrize("mask", MASKS)
def test_another_seed_gives_another_release_if_the_mask_draws_at_all(
    mask: Mask, data: Microdata, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    stream = Draws._stream
    monkeypatch.setattr(Draws, "_stream", lambda self, name: asked.append(name) or stream(self, name))
    made = [mask.apply(data, Draws(seed)).masked for seed in (5, 6)]
    one, two = ((m.digest(), m.batch([]).ids.tolist()) for m in made)  # a digest is the same in any order
    assert (one != two) is bool(asked)


@pytest.mark.parametrize("mask", MASKS)
def test_masking_leaves_the_original_untouched(mask: Mask) -> None:
    source = table()
    data = Microdata(source, SCHEMA)
    made = mask.apply(data, DRAWS)
    rows(made.masked)  # columns are worked out when looked at
    assert Microdata(source, SCHEMA).digest() == data.digest() == local().digest()
    assert_same(Microdata(source, SCHEMA), local())
    assert made.original is data


@pytest.mark.parametrize("mask", MASKS)
def test_what_comes_out_fits_the_schema_that_was_announced(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    announced = mask.schema_after(made.recipe.steps[0].mask.schema_after(SCHEMA))  # type: ignore[union-attr]
    assert made.masked.schema == announced
    assert list(made.masked.engine.kinds) == list(announced.names())
    assert_valid(made.masked)
    assert all(g.says and g.verified for g in made.guarantees)


@pytest.mark.parametrize("mask", MASKS)
def test_identifiers_are_gone(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS).masked
    assert "tag" not in made.engine.kinds
    assert "Zebra" not in str(made.to_native().to_pylist())
    assert RECORD_ID not in made.to_native().column_names


@pytest.mark.parametrize("mask", MASKS)
def test_columns_that_a_mask_does_not_touch_stay_as_they_were(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    touched = mask.touches(data.schema)
    if mask.keeps_records:
        np.testing.assert_array_equal(np.sort(made.align), np.sort(data.batch([]).ids))
        in_order = made.masked.batch([]).ids.tolist() == data.batch([]).ids.tolist()
    if mask.keeps_records and in_order:
        for name in set(made.masked.schema.names()) & set(data.schema.names()) - set(touched):
            assert made.masked.batch([name]).column(name).equals(data.batch([name]).column(name)), name


@pytest.mark.parametrize("mask", MASKS)
def test_missing_values_and_their_codes_stay_where_they_are(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS)
    if not (mask.keeps_missing and mask.keeps_records):
        return
    for name in NUMBERS:
        before, after = made.pair(name)
        np.testing.assert_array_equal(np.isnan(before), np.isnan(after))
    for name, codes in CODES.items():
        coded = np.isin(rows(data)[name], codes)
        assert coded.sum() > 10
        np.testing.assert_array_equal(np.isin(rows(made.masked)[name], codes), coded)


@pytest.mark.parametrize("mask", MASKS)
def test_a_household_has_one_value_in_a_household_column(mask: Mask, data: Microdata) -> None:
    made = mask.apply(data, DRAWS).masked
    if not {"home", "rent"} <= set(made.schema.names()) or made.kind("rent") is not Kind.NUMBER:
        return
    homes, rent = made.numbers("home"), made.numbers("rent")
    assert all(len(np.unique(rent[homes == home])) == 1 for home in np.unique(homes))


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_that_says_it_preserves_order_turns_no_two_records_round(mask: Mask, data: Microdata) -> None:
    if not mask.preserves_order:
        return
    made = mask.apply(data, DRAWS)
    for name in made.masked.schema.names():
        if made.masked.kind(name) is Kind.NUMBER:
            before, after = made.pair(name)
            assert not ((before[:, None] < before) & (after[:, None] > after)).any(), name


@pytest.mark.parametrize("mask", MASKS)
def test_a_row_mask_gives_the_same_in_any_pieces_and_order(mask: Mask, data: Microdata) -> None:
    if mask.scope is not Scope.ROW:
        return
    fitted = mask if mask.is_fitted else mask.fit(data, DRAWS)
    whole = fitted.transform(data.batch(), DRAWS)
    place = {i: k for k, i in enumerate(whole.ids.tolist())}
    order = np.random.default_rng(0).permutation(N)
    for piece in (order[:1], order[1:100], order[100:], order[:0]):
        part = fitted.transform(Batch(data.batch().rows.take(piece), data.schema), DRAWS)
        assert list(part.rows.columns) == list(whole.rows.columns)
        at = np.array([place[i] for i in part.ids.tolist()], np.int64)
        if not mask.keeps_records:  # which records stay must not hang on the piece
            assert set(part.ids.tolist()) == set(data.batch().ids[piece].tolist()) & set(place)
        for name, column in part.rows.columns.items():
            assert column.equals(whole.rows.columns[name].take(at)), name


def assert_same_release(mask: Mask, one: Microdata, two: Microdata) -> None:
    here, there = mask.apply(one, DRAWS), mask.apply(two, DRAWS)
    # covariances are summed in another order there, so the last digits may differ
    assert_same(here.masked, there.masked, tolerance=1e-9)
    assert [(g.step, g.says) for g in here.guarantees] == [(g.step, g.says) for g in there.guarantees]


@pytest.mark.parametrize("mask", MASKS)
def test_duckdb_gives_the_same_release(mask: Mask, data: Microdata, on_duckdb: Microdata) -> None:
    assert_same_release(mask, data, on_duckdb)


@pytest.mark.parametrize("mask", [m for m in MASKS if str(m.id).endswith("-0")])  # Spark takes seconds for each
def test_spark_gives_the_same_release(mask: Mask, data: Microdata, on_spark: Microdata) -> None:
    assert_same_release(mask, data, on_spark)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("edge", EDGES)
def test_a_mask_masks_extreme_data_or_refuses_them_in_a_sentence(mask: Mask, edge: str) -> None:
    data = local(edge)
    try:
        made = mask.apply(data, DRAWS)
        rows(made.masked)
    except SfumatoError as error:
        assert_sentence(error, data)
        return
    assert_valid(made.masked)
    if not (mask.keeps_records and mask.keeps_missing):
        return
    assert len(made.masked) == len(data)
    for name in NUMBERS:
        before, after = (np.isnan(d.numbers(name))[np.argsort(d.batch([]).ids)] for d in (data, made.masked))
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("mask", MASKS)
def test_what_a_mask_learned_is_not_shown_and_travels_with_it(mask: Mask, data: Microdata) -> None:
    fitted = mask.fit(data, DRAWS)
    assert fitted.is_fitted
    assert fitted == mask
    assert repr(fitted) == repr(mask)
    assert fitted.to_dict() == mask.to_dict()
    sent: Mask = pickle.loads(pickle.dumps(fitted))
    assert sent.is_fitted
    assert_same(sent.apply(data, DRAWS).masked, fitted.apply(data, DRAWS).masked)


@pytest.mark.parametrize("mask", MASKS)
def test_a_fitted_recipe_masks_like_one_that_fits_as_it_goes(mask: Mask, data: Microdata) -> None:
    recipe = Recipe.of(step=mask)
    assert_same(recipe.fit(data, DRAWS).apply(data, DRAWS).masked, recipe.apply(data, DRAWS).masked)


@pytest.mark.parametrize("mask", MASKS)
def test_the_noise_a_mask_speaks_of_is_a_covariance(mask: Mask) -> None:
    sigma = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    noise = mask.noise(NUMBERS, sigma, SCHEMA)
    if noise is not None:
        assert noise.shape == (3, 3)
        np.testing.assert_allclose(noise, noise.T)
        assert np.linalg.eigvalsh(noise).min() >= -1e-12


@pytest.mark.parametrize("mask", MASKS)
def test_a_matrix_mask_is_its_matrices_and_any_other_says_why_not(mask: Mask, data: Microdata) -> None:
    plain = data.with_schema(Schema(tuple(a.with_(bounds=(None, None), integer=False) for a in data.schema)))
    try:
        form = mask.as_matrix(plain, DRAWS)
    except NotApplicable as reason:
        assert_sentence(reason, data)
        return
    made = mask.run(plain, DRAWS) if mask.is_fitted else mask.fit(plain, DRAWS).run(plain, DRAWS)
    m = form.apply(np.column_stack([plain.numbers(n) for n in form.names]))
    released = np.column_stack([made.numbers(n) for n in form.released])
    np.testing.assert_allclose(m, released, rtol=1e-9, equal_nan=True)
