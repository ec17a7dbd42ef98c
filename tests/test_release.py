"""Releases: which released record came from which original one, and what may leave the house."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

from sfumato.contract import Draws, Guarantee, Recipe, Release, Weighted, Worst, param, parameters
from sfumato.data import RECORD_ID
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import Identity, KimNoise, TopCode
from sfumato.risk import AttributeRisk, CodedValueRisk
from sfumato.schema import Attribute, Schema
from sfumato.utility import EstimatorUtility

PAY = [10.0, 20.0, 30.0, 40.0, 50.0]
TAGS = ["a", "b", "c", "d", "e"]


def microdata(frame: Any, **roles: str) -> Microdata:
    names = getattr(frame, "column_names", None) or list(frame.columns)
    scale = {"tag": "unordered"}
    attributes = [Attribute(n, roles.get(n, "confidential"), scale.get(n, "ordered")) for n in names]  # type: ignore[arg-type]
    return Microdata(frame, Schema(tuple(attributes)))


def original() -> Microdata:
    return microdata(pa.table({"tag": TAGS, "pay": PAY}), tag="key")


def masked(tags: list[Any], pay: list[float]) -> Microdata:
    return microdata(pa.table({"tag": tags, "pay": pay}), tag="key")


SHUFFLED = masked(["d", "a", "x", "c"], [41.0, 11.0, 99.0, 31.0])  # "x" was simulated; "b" and "e" are not released


# Alignment of files masked elsewhere


def test_rows_in_the_same_order_are_aligned_by_position() -> None:
    made = Release.of(original(), masked(TAGS, [11.0, 21.0, 31.0, 41.0, 51.0]), align="rows")
    assert made.align.tolist() == [0, 1, 2, 3, 4]
    x, y = made.pair("pay")
    assert (y - x).tolist() == [1.0] * 5


@pytest.mark.parametrize("align", ["tag", [3, 0, -1, 2], np.array([3, 0, -7, 2], np.int32), (3, 0, -1, 2)])
def test_a_common_column_or_row_numbers_align_records_and_the_rest_are_simulated(align: Any) -> None:
    made = Release.of(original(), SHUFFLED, align=align)
    assert made.align[[0, 1, 3]].tolist() == [3, 0, 2]
    assert made.align[2] < 0
    x, y = made.pair("pay")
    assert dict(zip(x.tolist(), y.tolist(), strict=True)) == {10: 11, 30: 31, 40: 41}


def test_several_simulated_records_have_ids_of_their_own() -> None:
    made = Release.of(original(), masked(["p", "q", "a"], [1.0, 2.0, 3.0]), align=[-1, -1, 0])
    assert len(set(made.align.tolist())) == 3
    assert (made.align < 0).tolist() == [True, True, False]


def test_a_file_of_simulated_records_alone_has_no_pairs() -> None:
    made = Release.of(original(), masked(["p", "q"], [1.0, 2.0]), align=[-1, -1])
    assert [len(v) for v in made.pair("pay")] == [0, 0]
    with pytest.raises(NotApplicable, match="no record has 'pay' both before and after masking"):
        AttributeRisk("pay").score(made)


def test_empty_files_are_aligned() -> None:
    none = original().take(np.empty(0, np.int64))
    made = Release.of(original(), none, align=[])
    assert made.align.tolist() == []
    made = Release.of(none, masked(["p"], [1.0]), align=[-1])
    assert made.align.tolist() == [-1]
    assert len(Release.of(none, none, align="rows").align) == 0
    assert len(Release.of(none, none, align="tag").align) == 0


def test_alignment_works_wherever_the_two_files_live() -> None:
    connection = duckdb.connect()
    connection.from_arrow(pa.table({"tag": ["e", "b"], "pay": [51.0, 21.0]})).create("released")
    made = Release.of(
        microdata(pl.DataFrame({"tag": TAGS, "pay": PAY}), tag="key"),
        microdata(connection.table("released"), tag="key"),
        align="tag",
    )
    assert made.align.tolist() == [4, 1]
    x, y = made.pair("pay")
    assert sorted((y - x).tolist()) == [1.0, 1.0]


def test_whole_numbers_align_with_the_same_numbers_stored_otherwise() -> None:
    a = microdata(pd.DataFrame({"id": [1, 2, 3], "pay": [1.0, 2.0, 3.0]}))
    b = microdata(pd.DataFrame({"id": [3.0, 1.0], "pay": [3.5, 1.5]}))
    assert Release.of(a, b, align="id").align.tolist() == [2, 0]


def test_the_released_frame_keeps_its_kind() -> None:
    frame = pd.DataFrame({"tag": TAGS, "pay": PAY}, index=[9, 8, 7, 6, 5])
    made = Release.of(original(), microdata(frame, tag="key"), align="rows")
    native = made.masked.to_native()
    assert isinstance(native, pd.DataFrame)
    assert list(native.columns) == ["tag", "pay"]
    assert native.index.tolist() == [0, 1, 2, 3, 4]


ALIGN_REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: Release.of(original(), SHUFFLED, align="rows"),
     "align='rows' needs files of the same length, but the original has 5 records and the masked file 4. Name a column"),
    (lambda: Release.of(original(), SHUFFLED, align="tga"), "column 'tga' is not in the original. Did you mean 'tag'?"),
    (lambda: Release.of(original(), microdata(pa.table({"pay": PAY})), align="tag"), "column 'tag' is not in the masked file."),
    (lambda: Release.of(original(), masked(["a", "a"], [1.0, 2.0]), align="tag"),
     "column 'tag' cannot align the files: some of its values stand more than once."),
    (lambda: Release.of(masked(["a", "a"], [1.0, 2.0]), original(), align="tag"), "some of its values stand more than once."),
    (lambda: Release.of(original(), masked(["a", None], [1.0, 2.0]), align="tag"), "some of its values are missing"),
    (lambda: Release.of(masked(["a", None], [1.0, 2.0]), original(), align="tag"), "some of its values are missing"),
    (lambda: Release.of(original(), masked(TAGS, [*PAY[:4], float("nan")]), align="pay"), "some of its values are missing"),
    (lambda: Release.of(original(), masked(["A", "B"], [1.0, 2.0]), align="tag"), "they have none of its values in common."),
    (lambda: Release.of(original(), SHUFFLED, align=[0, 1]), "align must hold 4 whole numbers, one for each released record."),
    (lambda: Release.of(original(), SHUFFLED, align=[]), "align must hold 4 whole numbers"),
    (lambda: Release.of(original(), SHUFFLED, align=[[0, 1], [2, 3]]), "align must hold 4 whole numbers"),  # type: ignore[list-item]
    (lambda: Release.of(original(), SHUFFLED, align=[0.0, 1.0, 2.0, 3.0]), "align must hold 4 whole numbers"),  # type: ignore[list-item]
    (lambda: Release.of(original(), SHUFFLED, align=[True, False, True, True]), "align must hold 4 whole numbers"),
    (lambda: Release.of(original(), SHUFFLED, align=[0, 1, 2, 5]), "align points past the original's 5 records."),
    (lambda: Release.of(original(), SHUFFLED, align=[0, 1, 2, 2]), "align points to the same original record more than once."),
]  # fmt: skip


@pytest.mark.parametrize(("attempt", "sentence"), ALIGN_REFUSALS, ids=[s[:60] for _, s in ALIGN_REFUSALS])
def test_an_alignment_that_does_not_fit_is_refused_without_quoting_values(
    attempt: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(DataError) as caught:
        attempt()
    text = str(caught.value)
    assert sentence in text
    assert text.endswith((".", "?"))
    assert not any(f"'{tag}'" in text for tag in TAGS)


# Without alignment


def test_without_alignment_what_compares_records_says_that_it_does_not_apply() -> None:
    made = Release.of(original(), SHUFFLED)
    needs = "needs to know which released record came from which original record"
    for measure in (
        AttributeRisk("pay"),
        CodedValueRisk("pay"),
        Weighted((AttributeRisk("pay"),)),
        Worst((AttributeRisk("pay"),)),
    ):
        with pytest.raises(NotApplicable, match=needs) as caught:
            measure.score(made)
        assert "Release.of(original, masked, align=...)" in str(caught.value)
    with pytest.raises(NotApplicable, match=f"comparing 'pay' record by record {needs}"):
        made.pair("pay")
    with pytest.raises(NotApplicable, match=needs):
        _ = made.align


def test_without_alignment_measures_of_whole_files_apply() -> None:
    made = Release.of(original(), SHUFFLED)
    score = EstimatorUtility("pay", target="file").score(made)
    assert score.value == pytest.approx(1 / (np.mean([41.0, 11.0, 99.0, 31.0]) - 30.0) ** 2)


# Pairs


def test_a_pair_has_missing_values_where_either_file_says_so() -> None:
    schema = Schema((Attribute("pay", "confidential", missing=(99,)),))  # type: ignore[arg-type]
    before = Microdata(pa.table({"pay": [1.0, 99.0, None, 4.0]}), schema)
    after = Microdata(pa.table({"pay": [1.5, 99.0, None, 99.0]}), schema)
    x, y = Release.of(before, after, align="rows").pair("pay")
    np.testing.assert_array_equal(x, [1, np.nan, np.nan, 4])
    np.testing.assert_array_equal(y, [1.5, np.nan, np.nan, np.nan])


def test_a_pair_of_a_recipes_release_is_the_column_before_and_after() -> None:
    data = original()
    made = TopCode(value=25).apply(data, Draws(1))
    x, y = made.pair("pay")
    assert x.tolist() == PAY
    assert y.tolist() == [10, 20, 25, 25, 25]
    assert made.pair("pay")[0] is x  # collected once


def test_values_per_matched_record_are_spread_over_all_originals() -> None:
    made = Release.of(original(), SHUFFLED, align="tag")
    x, y = made.pair("pay")
    np.testing.assert_array_equal(made.per_original(y - x), [1, np.nan, 1, 1, np.nan])
    whole = Release.of(original(), original(), align="rows")
    np.testing.assert_array_equal(whole.per_original(np.arange(5.0)), np.arange(5.0))


def test_a_column_that_was_not_released_is_named() -> None:
    made = Release.of(original(), microdata(pa.table({"pay": PAY})), align="rows")
    with pytest.raises(DataError, match="column 'tag' is not in the data"):
        made.pair("tag")


# What a release carries


def test_a_release_says_what_was_done_and_what_is_guaranteed() -> None:
    recipe = Recipe.of(top=TopCode(value=25))
    made = recipe.apply(original(), Draws(1))
    assert made.recipe == recipe
    assert [g.step for g in made.guarantees] == ["identifiers", "top"]
    assert all(isinstance(g, Guarantee) and g.says and g.verified for g in made.guarantees)
    assert made.published == {k: v for k, v in recipe.settings().items() if v is not None}
    assert made.holdout is None


def test_a_file_masked_elsewhere_has_no_recipe_and_guarantees_nothing() -> None:
    made = Release.of(original(), SHUFFLED)
    assert (made.recipe, made.guarantees, dict(made.published)) == (None, (), {})


def test_the_first_of_several_implicates_is_the_masked_file() -> None:
    made = Release(original(), (SHUFFLED, original()))
    assert made.masked is SHUFFLED


def test_a_release_shows_no_values() -> None:
    text = repr(KimNoise().apply(original(), Draws("hush")))
    assert "Microdata(" in text
    assert not any(f"{v:g}" in text for v in PAY)
    assert "hush" not in text


# What leaves the house


def people() -> Microdata:
    rng = np.random.default_rng(1)
    table = pa.table(
        {"name": [f"Person {i}" for i in range(50)], "age": rng.integers(20, 60, 50), "pay": rng.normal(50, 9, 50)}
    )
    roles = (Attribute("name", "identifier", "unordered"), Attribute("age", "key"), Attribute("pay", "confidential"))  # type: ignore[arg-type]
    return Microdata(table, Schema(roles))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_hidden_ids_and_identifiers_are_in_nothing_that_comes_out(tmp_path: Path, engine: str) -> None:
    data = people()
    if engine == "duckdb":
        connection = duckdb.connect()
        connection.from_arrow(data.to_native()).create("people")
        data = Microdata(connection.table("people"), data.schema)
    made = KimNoise().apply(data, Draws(1))
    native = made.masked.to_native()
    assert list(native.columns if engine == "duckdb" else native.column_names) == ["age", "pay"]
    for form, read in (("csv", pa.csv.read_csv), ("parquet", pa.parquet.read_table)):
        path = tmp_path / f"masked.{form}"
        made.masked.write(path)
        assert read(path).column_names == ["age", "pay"]
        content = path.read_bytes()
        assert RECORD_ID.encode() not in content
        assert b"Person" not in content


def test_a_release_is_written_whole_with_the_seed_elsewhere(tmp_path: Path) -> None:
    data, draws = people(), Draws.secret()
    made = Recipe.of(noise=KimNoise(lambda2=0.3)).apply(data, draws)
    made.write(tmp_path / "public", draws, tmp_path / "vault" / "seed.toml")
    written = sorted(p.name for p in (tmp_path / "public").iterdir())
    assert written == ["masked.csv", "masked.parquet", "recipe.toml", "schema.toml"]
    secret = tomllib.loads((tmp_path / "vault" / "seed.toml").read_text())["seed"]
    assert stat.S_IMODE((tmp_path / "vault" / "seed.toml").stat().st_mode) == 0o600
    for path in (tmp_path / "public").iterdir():
        content = path.read_bytes()
        assert not any(
            word in content for word in (secret.encode(), bytes.fromhex(secret), RECORD_ID.encode(), b"Person")
        )
    recipe = Recipe.read(tmp_path / "public" / "recipe.toml")
    assert recipe.settings() == {"identifiers.pseudonyms": None, "noise.columns": None, "noise.lambda2": 0.3}
    assert Schema.read(tmp_path / "public" / "schema.toml") == made.masked.schema


def test_the_custodian_can_make_the_same_release_again_and_check_the_data(tmp_path: Path) -> None:
    data, draws = people(), Draws.secret()
    made = KimNoise().apply(data, draws)
    made.write(tmp_path / "public", draws, tmp_path / "seed.toml")
    again, recipe = Draws.read(tmp_path / "seed.toml"), Recipe.read(tmp_path / "public" / "recipe.toml")
    np.testing.assert_array_equal(recipe.apply(data, again).masked.numbers("pay"), made.masked.numbers("pay"))
    assert recipe.digest == again.digest(data.digest())
    assert recipe.digest != Draws(1).digest(data.digest())
    assert recipe.digest != again.digest(people().take(np.arange(49)).digest())
    assert data.digest().hex() not in (tmp_path / "public" / "recipe.toml").read_text()


@pytest.mark.parametrize("place", ["public/seed.toml", "public", "public/deep/seed.toml", "other/../public/seed.toml"])
def test_the_seed_is_not_written_among_what_is_published(tmp_path: Path, place: str) -> None:
    draws = Draws(1)
    made = KimNoise().apply(people(), draws)
    with pytest.raises(DataError, match="the seed must be kept apart from what is published"):
        made.write(tmp_path / "public", draws, tmp_path / place)
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    draws = Draws(1)
    made = KimNoise().apply(people(), draws)
    with pytest.raises(DataError):
        made.write(tmp_path / "public", draws, tmp_path / "seed.toml", forms=("csv", "papyrus"))
    assert list(tmp_path.iterdir()) == []


def test_only_what_may_be_told_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = {family: dict(classes) for family, classes in parameters._REGISTRY.items()}
    monkeypatch.setattr(parameters, "_REGISTRY", registry)

    class Secretive(Identity):
        """Masks nothing, and keeps one of its two parameters to itself."""

        told: float = param(0.5, doc="a level", low=0)
        kept: float = param(0.25, doc="a level", low=0, published=False)

    made = Secretive().apply(original(), Draws(1))
    assert made.published == {"secretive.told": 0.5}


def test_a_seed_is_for_one_release_since_two_levels_of_noise_would_give_the_values_away(tmp_path: Path) -> None:
    data = Microdata(pd.DataFrame({"pay": np.arange(50.0)}), Schema((Attribute("pay", role="confidential"),)))
    draws = Draws.secret()
    first, second = (KimNoise(lambda2=level).apply(data, draws) for level in (0.1, 0.4))
    x, y = (r.masked.numbers("pay") for r in (first, second))
    np.testing.assert_allclose((2 * x - y), np.arange(50.0), atol=1e-9)  # λ is 1 and 2 times √0.1: the attack itself
    first.write(tmp_path / "one", draws, tmp_path / "seed.toml")
    with pytest.raises(ParameterError, match="was used for another release"):
        second.write(tmp_path / "two", draws, tmp_path / "seed.toml")
    assert not (tmp_path / "two").exists()
    first.write(tmp_path / "again", draws, tmp_path / "seed.toml")
    assert (tmp_path / "again" / "masked.csv").read_bytes() == (tmp_path / "one" / "masked.csv").read_bytes()


def test_another_seed_is_not_written_over_without_asking(tmp_path: Path) -> None:
    data = Microdata(pd.DataFrame({"pay": np.arange(50.0)}), Schema((Attribute("pay", role="confidential"),)))
    KimNoise().apply(data, Draws(1)).write(tmp_path / "first", Draws(1), tmp_path / "seed.toml")  # it has a purpose too
    draws = Draws(2)
    release = KimNoise().apply(data, draws)
    with pytest.raises(DataError, match="holds another seed, which would be lost"):
        release.write(tmp_path / "out", draws, tmp_path / "seed.toml")
    release.write(tmp_path / "out", draws, tmp_path / "seed.toml", replace=True)
    assert Draws.read(tmp_path / "seed.toml").digest(b"x") == draws.digest(b"x")
