"""Randomness: a pure function of seed, path, name and record id; and a secret."""

from __future__ import annotations

import copy
import pickle
import secrets
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

from sfumato.contract import Draws
from sfumato.errors import ParameterError

IDS = np.arange(1000, dtype=np.int64)
N = 200_000
MANY = np.arange(N, dtype=np.int64)


def pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float(np.corrcoef(x, y)[0, 1])


# A pure function


def test_the_same_seed_path_and_name_give_the_same_numbers() -> None:
    a = Draws(7).child("noise").replicate(3).normals(IDS, "salary")
    b = Draws(7).child("noise").replicate(3).normals(IDS, "salary")
    np.testing.assert_array_equal(a, b)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40, unique=True), st.randoms())
def test_numbers_do_not_depend_on_the_order_or_the_batches_of_the_records(ids: list[int], random: object) -> None:
    draws = Draws("order")
    alone = {i: float(draws.normals(np.array([i], np.int64), "x")[0]) for i in ids}
    shuffled = sorted(ids, key=lambda _: random.random())  # type: ignore[attr-defined]
    together = draws.normals(np.array(shuffled, np.int64), "x")
    assert dict(zip(shuffled, together.tolist(), strict=True)) == alone


def test_a_draw_looked_at_many_times_stays_the_same() -> None:
    draws = Draws(1)
    first = draws.uniforms(IDS, "x")
    draws.generator("x").random(10)
    draws.normals(IDS, "y")
    np.testing.assert_array_equal(draws.uniforms(IDS, "x"), first)


@pytest.mark.parametrize(
    "other",
    [
        Draws(8).child("noise").normals(IDS, "salary"),
        Draws("7").child("noise").normals(IDS, "salary"),
        Draws(7).normals(IDS, "salary"),
        Draws(7).child("noise2").normals(IDS, "salary"),
        Draws(7).child("noise", "salary").normals(IDS, ""),
        Draws(7).child("noise").replicate(0).normals(IDS, "salary"),
        Draws(7).child("noise").normals(IDS, "income"),
        Draws(7).child("noise").normals(IDS, "Salary"),
        Draws(7).child("noise").normals(IDS + 1000, "salary"),
    ],
    ids=["seed", "kind of seed", "no step", "step", "split", "replicate", "column", "capital", "records"],
)
def test_another_seed_step_replicate_column_or_record_gives_other_numbers(other: NDArray[np.float64]) -> None:
    mine = Draws(7).child("noise").normals(IDS, "salary")
    assert not np.isin(mine, other).any()
    assert abs(pearson(mine, other)) < 4.5 / np.sqrt(len(IDS))


def test_replications_differ_from_each_other() -> None:
    drawn = np.stack([Draws(7).replicate(r).normals(IDS, "x") for r in range(20)])
    assert len(np.unique(drawn)) == drawn.size


def test_children_can_be_named_one_by_one_or_at_once() -> None:
    a = Draws(3).child("a").child("b", 2).normals(IDS, "x")
    np.testing.assert_array_equal(a, Draws(3).child("a", "b", 2).normals(IDS, "x"))


def test_making_a_child_does_not_change_the_parent() -> None:
    parent = Draws(3)
    before = parent.normals(IDS, "x")
    parent.child("a")
    np.testing.assert_array_equal(parent.normals(IDS, "x"), before)


def test_simulated_records_with_negative_ids_have_numbers_of_their_own() -> None:
    ids = np.concatenate([IDS, -1 - IDS])
    assert len(np.unique(Draws(1).uniforms(ids, "x"))) == len(ids)


def test_ids_of_another_whole_number_type_give_the_same_numbers() -> None:
    np.testing.assert_array_equal(Draws(1).uniforms(IDS.astype(np.int32), "x"), Draws(1).uniforms(IDS, "x"))


def test_no_records_give_no_numbers() -> None:
    assert Draws(1).normals(np.empty(0, np.int64), "x").shape == (0,)


def test_normals_are_the_normal_quantiles_of_the_uniforms() -> None:
    draws = Draws(11)
    np.testing.assert_allclose(draws.normals(IDS, "x"), ndtri(draws.uniforms(IDS, "x")), rtol=1e-13)


# Distribution


def test_normals_are_standard_normal() -> None:
    z = Draws(2024).child("noise").normals(MANY, "salary")
    assert abs(z.mean()) < 4.5 / np.sqrt(N)
    assert abs(z.var() - 1) < 4.5 * np.sqrt(2 / N)
    assert stats.kstest(z, "norm").pvalue > 1e-4


def test_columns_replicates_and_steps_are_uncorrelated() -> None:
    draws = Draws(2024)
    sources = [
        draws.child("a").normals(MANY, "salary"),
        draws.child("a").normals(MANY, "income"),
        draws.child("b").normals(MANY, "salary"),
        draws.child("a").replicate(1).normals(MANY, "salary"),
        draws.child("a").replicate(2).normals(MANY, "salary"),
    ]
    off = np.corrcoef(np.stack(sources))[np.triu_indices(len(sources), 1)]
    assert np.abs(off).max() < 4.5 / np.sqrt(N)


def test_records_next_to_each_other_are_uncorrelated() -> None:
    z = Draws(2024).normals(MANY, "salary")
    for lag in (1, 2, 7, 8, 16):
        assert abs(pearson(z[:-lag], z[lag:])) < 4.5 / np.sqrt(N)


def test_squares_of_two_columns_are_uncorrelated_too() -> None:
    draws = Draws(2024)
    assert abs(pearson(draws.normals(MANY, "a") ** 2, draws.normals(MANY, "b") ** 2)) < 4.5 / np.sqrt(N)


# Generators


def test_a_generator_is_reproducible_and_named() -> None:
    a, b = Draws(5).child("swap").generator("order"), Draws(5).child("swap").generator("order")
    np.testing.assert_array_equal(a.permutation(100), b.permutation(100))
    c = Draws(5).child("swap").generator("other")
    assert abs(pearson(Draws(5).child("swap").generator("order").random(10_000), c.random(10_000))) < 0.05


# Remembering


def test_remembering_draws_give_the_same_numbers() -> None:
    plain, remembering = Draws(7).child("x"), Draws(7).child("x").remembering()
    np.testing.assert_array_equal(plain.normals(IDS, "a"), remembering.normals(IDS, "a"))


def test_remembering_draws_make_a_thing_once_and_others_make_it_again() -> None:
    made: list[int] = []
    key = (IDS, "what")

    def make() -> int:
        made.append(1)
        return len(made)

    remembering = Draws(7).remembering()
    assert [remembering.remember(key, make), remembering.remember(key, make)] == [1, 1]
    assert remembering.child("step").remember(key, make) == 2  # another path, another thing
    assert remembering.child("step").remember(key, make) == 2
    assert [Draws(7).remember(key, make), Draws(7).remember(key, make)] == [3, 4]


def test_what_is_remembered_for_one_array_is_not_used_for_an_equal_one() -> None:
    remembering = Draws(7).remembering()
    first, second = IDS.copy(), IDS.copy()
    assert remembering.remember((first,), lambda: "first") == "first"
    assert remembering.remember((second,), lambda: "second") == "second"


# A secret


def test_a_secret_is_never_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.contract.draws.secrets", secrets)  # the real ones
    assert not np.isin(Draws.secret().uniforms(IDS, "x"), Draws.secret().uniforms(IDS, "x")).any()


SEED_TEXT = "correct horse battery staple"


def test_the_seed_is_not_shown() -> None:
    draws = Draws(SEED_TEXT).child("noise")
    key = draws._key
    for shown in (repr(draws), str(draws), f"{draws}", "%s" % draws, repr([draws]), repr({"draws": draws})):  # noqa: UP031
        assert SEED_TEXT not in shown
        assert key.hex() not in shown
        assert repr(key)[2:-1] not in shown
    assert "noise" in repr(draws)
    assert not hasattr(draws, "__dict__")


def test_a_seed_that_was_given_as_text_is_not_kept() -> None:
    assert SEED_TEXT.encode() not in pickle.dumps(Draws(SEED_TEXT))
    assert b"20240131" not in pickle.dumps(Draws(20240131))


def test_draws_that_travel_to_a_worker_give_the_same_numbers() -> None:
    draws = Draws("travel").child("noise").replicate(4).remembering()
    draws.remember((IDS,), lambda: "kept at home")
    for copied in (pickle.loads(pickle.dumps(draws)), copy.copy(draws), copy.deepcopy(draws)):
        np.testing.assert_array_equal(copied.normals(IDS, "x"), draws.normals(IDS, "x"))
        assert repr(copied) == repr(draws)
    assert b"kept at home" not in pickle.dumps(draws)


def test_errors_do_not_quote_a_seed() -> None:
    with pytest.raises(ParameterError) as caught:
        Draws(3.14159)  # type: ignore[arg-type]
    assert "3.14" not in str(caught.value)
    assert "Draws.secret()" in str(caught.value)


@pytest.mark.parametrize("seed", [None, 1.5, True, ["a"], np.array([1, 2])])
def test_a_seed_of_another_kind_is_refused(seed: object) -> None:
    with pytest.raises(ParameterError, match="a whole number, a text or bytes"):
        Draws(seed)  # type: ignore[arg-type]


def test_a_numpy_number_is_as_good_a_seed_as_a_python_one() -> None:
    np.testing.assert_array_equal(Draws(np.int64(5)).uniforms(IDS, "x"), Draws(5).uniforms(IDS, "x"))


# Digests


def test_a_digest_needs_the_seed() -> None:
    assert Draws(1).digest(b"data") == Draws(1).child("step").digest(b"data")
    assert Draws(1).digest(b"data") != Draws(2).digest(b"data")
    assert Draws(1).digest(b"data") != Draws(1).digest(b"date")
    assert len(bytes.fromhex(Draws(1).digest(b"data"))) == 16


# The seed's own file


def test_a_seed_file_gives_the_same_draws_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "kept apart" / "seed.toml"
    draws = Draws.secret()
    draws.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    np.testing.assert_array_equal(Draws.read(path).uniforms(IDS, "x"), draws.uniforms(IDS, "x"))
    assert "CONFIDENTIAL" in path.read_text("utf-8").splitlines()[0]


def test_a_seed_file_does_not_hold_the_seed_as_it_was_given(tmp_path: Path) -> None:
    Draws(SEED_TEXT).write(tmp_path / "seed.toml")
    assert SEED_TEXT not in (tmp_path / "seed.toml").read_text("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version = 1",
        "seed = 5",
        'seed = "zz"',
        'seed = "abcd"',
        "not toml at all [",
        'seed = "' + "0" * 63 + '"',
        "\udcff",
    ],
)
def test_another_file_is_not_taken_for_a_seed_and_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ParameterError, match="is not a seed file of sfumato") as caught:
        Draws.read(path)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    if text.strip():
        assert text not in str(caught.value)


def test_a_seed_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no seed file"):
        Draws.read(tmp_path / "absent.toml")
    with pytest.raises(ParameterError, match="is not a seed file"):
        Draws.read(tmp_path)
