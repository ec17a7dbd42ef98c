"""Random order and pseudonyms: the same records, other places and other names, on every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from small_files import column as values

from sfumato.contract import Draws, Recipe
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, SchemaError
from sfumato.masks import IndependentNoise, Pseudonyms, RandomOrder, RankSwap, RemoveIdentifiers, Sample
from sfumato.schema import Attribute, Schema

N = 500
SCHEMA = Schema(
    (
        Attribute("person", "identifier", "unordered"),  # type: ignore[arg-type]
        Attribute("home", "household", missing=(-1,)),  # type: ignore[arg-type]
        Attribute("town", "key", "unordered", follows="home", level="household"),  # type: ignore[arg-type]
        Attribute("boss", "other", "unordered"),  # type: ignore[arg-type]
        Attribute("pay", "confidential"),  # type: ignore[arg-type]
    )
)


def table(n: int = N) -> pa.Table:
    i = np.arange(n)
    return pa.table(
        {
            "person": [f"P{k:05d}" for k in i],
            "home": pa.array(np.where(i % 50 == 7, -1, i // 2), mask=i % 50 == 9),
            "town": pa.array(np.array(["x", "y", "z"], object)[(i // 2) % 3], mask=np.isin(i % 50, (7, 9))),
            "boss": pa.array([f"P{k // 10 * 10:05d}" for k in i]),
            "pay": np.round(np.random.default_rng(1).gamma(2, 500, n), 2),
        }
    )


def here(n: int = N) -> Microdata:
    return Microdata(table(n), SCHEMA)


def on_duckdb(n: int = N) -> Microdata:
    connection = duckdb.connect()
    connection.from_arrow(table(n)).create("people")
    return Microdata(connection.table("people"), SCHEMA)


def in_stream(data: Microdata, name: str) -> list[Any]:
    """Return a column in the order in which the records leave."""
    return [v for rows in data.engine.batches([name]) for v in rows.columns[name].arrow.to_pylist()]


# Random order


def expected_order(draws: Draws, step: str = "random_order") -> list[int]:
    return np.argsort(draws.child(step).uniforms(np.arange(N), "order")).tolist()


def test_the_same_records_come_out_in_the_order_of_their_random_numbers() -> None:
    data, draws = here(), Draws(3)
    made = RandomOrder().apply(data, draws)
    assert made.align.tolist() == expected_order(draws) != list(range(N))
    pay = values(data, "pay")
    assert values(made.masked, "pay") == [pay[i] for i in expected_order(draws)]
    assert made.masked.digest() == RemoveIdentifiers().apply(data, draws).masked.digest()


def test_every_place_is_equally_likely() -> None:
    """The first record of 8 stands in each place about as often, in 4,000 orders: binomial error."""
    places = [np.argsort(np.argsort(Draws(s).uniforms(np.arange(8), "order")))[0] for s in range(4000)]
    counts = np.bincount(places, minlength=8)
    assert (np.abs(counts - 500) < 4.5 * np.sqrt(4000 * 7 / 64)).all()


@pytest.mark.parametrize("rows", [2**17, 64, 7])
def test_duckdb_gives_the_same_order_in_any_pieces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.data.duckdb_engine._ROWS", rows)
    draws = Draws(3)
    a, b = (RandomOrder().apply(d, draws).masked for d in (here(), on_duckdb()))
    for name in a.schema.names():
        assert in_stream(b, name) == values(a, name)
    assert values(b, "pay") == values(a, "pay")  # brought into memory, they stay in that order
    assert a.digest() == b.digest()


@pytest.mark.verify
def test_spark_gives_the_same_order(spark: Any) -> None:
    draws = Draws(3)
    frame = spark.createDataFrame(table()).repartitionByRange(4, "person")
    there = RandomOrder().apply(Microdata(frame, SCHEMA), draws).masked
    made = RandomOrder().apply(here(), draws).masked
    for name in made.schema.names():
        assert in_stream(there, name) == values(made, name)
    assert there.digest() == made.digest()
    assert len(there) == N
    assert [r.pay for r in there.to_native().select("pay").collect()] == values(made, "pay")


@pytest.mark.parametrize("data", [here, on_duckdb], ids=["memory", "DuckDB"])
def test_a_written_file_has_the_random_order_and_no_ids(data: Callable[[], Microdata], tmp_path: Path) -> None:
    draws = Draws(5)
    masked = RandomOrder().apply(data(), draws).masked
    masked.write(tmp_path / "out.csv")
    written = pa.csv.read_csv(tmp_path / "out.csv")
    assert written.column_names == ["home", "town", "boss", "pay"]
    pay = values(here(), "pay")
    assert written["pay"].to_pylist() == [pay[i] for i in expected_order(draws)]
    native = masked.to_native()
    native = native if isinstance(native, pa.Table) else native.to_arrow_table()
    assert native["pay"].to_pylist() == written["pay"].to_pylist()
    assert native.column_names == written.column_names


def test_steps_after_a_random_order_mask_the_same_records_in_the_same_way() -> None:
    draws = Draws(2)
    for other in (IndependentNoise(columns=("pay",)), Sample(size=40)):
        first = Recipe.of(RandomOrder(), other).apply(here(), draws).masked
        last = Recipe.of(other, RandomOrder()).apply(here(), draws).masked
        a, b = ((np.sort(m.batch([]).ids), m.numbers("pay")[np.argsort(m.batch([]).ids)]) for m in (first, last))
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_allclose(a[1], b[1], rtol=1e-12)  # covariances are summed in another order
        there = Recipe.of(RandomOrder(), other).apply(on_duckdb(), draws).masked
        assert in_stream(there, "pay") == pytest.approx(values(first, "pay"))


def test_a_step_that_sees_all_records_leaves_a_random_order_as_it_is(spark: Any) -> None:
    recipe = Recipe.of(RandomOrder(), RankSwap(columns=("pay",)))
    made = recipe.apply(here(), Draws(4)).masked
    assert made.batch([]).ids.tolist() != list(range(N))
    for data in (on_duckdb(), Microdata(spark.createDataFrame(table()), SCHEMA)):
        there = recipe.apply(data, Draws(4)).masked
        assert there.batch([]).ids.tolist() == made.batch([]).ids.tolist()
        assert values(there, "pay") == values(made, "pay")


def test_a_file_of_no_or_one_record_has_one_order() -> None:
    for n in (0, 1):
        for data in (here(n), on_duckdb(n)):
            assert len(RandomOrder().apply(data, Draws(1)).masked) == n


def test_a_random_order_is_a_permutation_matrix() -> None:
    form = RandomOrder().as_matrix(here(), Draws(1))
    dense = form.A.toarray()  # type: ignore[union-attr]
    assert (dense.sum(axis=0) == 1).all()
    assert (dense.sum(axis=1) == 1).all()
    assert form.random == ("A",)


# Pseudonyms


@pytest.mark.parametrize("form", ["number", "text"])
def test_the_same_value_has_the_same_pseudonym_and_no_two_values_share_one(form: Any) -> None:
    data = here()
    made = Pseudonyms(columns=("home", "boss"), form=form).apply(data, Draws(1)).masked
    for name in ("home", "boss"):
        pairs = set(zip(values(data, name), values(made, name), strict=True)) - {(None, None), (-1, None)}
        before, after = zip(*pairs, strict=True)
        assert len(set(before)) == len(set(after)) == len(pairs) > 40
        assert not set(before) & set(after)
        kind = int if form == "number" else str
        assert all(isinstance(v, kind) for v in after)
    assert made.numbers("pay").tolist() == data.numbers("pay").tolist()


def test_missing_values_and_their_codes_stay_missing() -> None:
    data = here()
    made = Pseudonyms(columns=("home",)).apply(data, Draws(1)).masked
    np.testing.assert_array_equal(made.batch().missing("home"), data.batch().missing("home"))
    assert made.batch().missing("home").sum() == 20
    assert made.schema["home"].missing == ()
    assert made.schema["home"].role == "household"


def test_what_follows_a_pseudonym_stays_as_it_is() -> None:
    data = here()
    for there in (data, on_duckdb()):
        assert values(Pseudonyms(columns=("home",)).apply(there, Draws(1)).masked, "town") == values(data, "town")


def test_the_order_of_the_values_is_lost() -> None:
    n = 4000
    data = Microdata(pa.table({"id": np.arange(n)}), Schema((Attribute("id"),)))
    numbers = Pseudonyms(columns=("id",)).apply(data, Draws(1)).masked.numbers("id")
    ranks = np.argsort(np.argsort(numbers))
    assert abs(np.corrcoef(ranks, np.arange(n))[0, 1]) < 4.5 / np.sqrt(n)
    assert numbers.max() < 2**53  # a spreadsheet or a statistics package reads it exactly
    bits = np.array([[int(v) >> b & 1 for b in range(52)] for v in numbers])
    assert (np.abs(bits.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(n)).all()


def test_pseudonyms_hang_on_the_seed_and_are_the_same_in_another_file() -> None:
    mask = Pseudonyms(columns=("home",))
    whole, part = here(), Microdata(table().slice(100, 60), SCHEMA)
    assert (
        values(mask.apply(part, Draws(1)).masked, "home") == values(mask.apply(whole, Draws(1)).masked, "home")[100:160]
    )
    other = values(mask.apply(whole, Draws(2)).masked, "home")
    assert not {v for v in other if v} & {v for v in values(mask.apply(whole, Draws(1)).masked, "home") if v}


def test_columns_of_one_domain_share_their_pseudonyms_and_others_do_not() -> None:
    two = pa.table({"child": ["a", "b", "c"], "mother": ["c", "c", "d"]})
    data = Microdata(two, Schema((Attribute("child", scale="unordered"), Attribute("mother", scale="unordered"))))  # type: ignore[arg-type]
    apart = Pseudonyms(columns=("child", "mother")).apply(data, Draws(1)).masked
    assert not set(values(apart, "child")) & set(values(apart, "mother"))
    joined = Pseudonyms(columns=("child", "mother"), domain="person").apply(data, Draws(1)).masked
    assert values(joined, "child")[2] == values(joined, "mother")[0]


def test_duckdb_and_spark_give_the_same_pseudonyms(spark: Any) -> None:
    mask = Pseudonyms(columns=("home", "boss"), form="text")
    made = mask.apply(here(), Draws(1)).masked
    for there in (on_duckdb(), Microdata(spark.createDataFrame(table()), SCHEMA)):
        again = mask.apply(there, Draws(1)).masked
        assert values(again, "home") == values(made, "home")
        assert values(again, "boss") == values(made, "boss")


def test_an_identifier_can_stay_as_a_pseudonym() -> None:
    data = here()
    made = Recipe.of(RemoveIdentifiers(pseudonyms=("person",))).apply(data, Draws(1))
    new = values(made.masked, "person")
    assert len(set(new)) == N
    assert not set(new) & set(values(data, "person"))
    assert made.masked.schema["person"].role == "other"
    assert any("person: a keyed pseudonym" in g.says for g in made.guarantees)
    plain = RandomOrder().apply(data, Draws(1)).masked
    assert "person" not in plain.schema  # nothing stays without being named


def test_large_whole_numbers_are_told_apart() -> None:
    ids = [2**60, 2**60 + 1, 2**60 + 2]
    data = Microdata(pa.table({"id": ids}), Schema((Attribute("id"),)))
    assert len(set(values(Pseudonyms(columns=("id",)).apply(data, Draws(1)).masked, "id"))) == 3


def test_two_values_with_one_pseudonym_are_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Draws, "uniforms", lambda self, ids, name: np.full(len(ids), 0.25))
    with pytest.raises(DataError, match="nothing is released"):
        Pseudonyms(columns=("home",)).apply(here(), Draws(1))


def test_a_column_that_is_not_there_or_has_no_plain_values_is_refused() -> None:
    with pytest.raises((DataError, SchemaError), match=r"column 'hme' is not in .* Did you mean 'home'\?"):
        Pseudonyms(columns=("hme",)).apply(here(), Draws(1))
    lists = Microdata(pa.table({"tags": [[1], [2, 3]]}), Schema((Attribute("tags"),)))
    with pytest.raises(DataError, match="cannot have pseudonyms"):
        Pseudonyms(columns=("tags",)).apply(lists, Draws(1))
