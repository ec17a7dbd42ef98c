"""Data swapping: tables stay as they were, the rate is reached, and every refusal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from small_files import amounts as microdata
from small_files import column as values
from small_files import release as swapped

from sfumato.contract import Draws, Recipe
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.kernels.swapping import pairs_of_different
from sfumato.masks import DataSwap

Numbers = NDArray[np.float64]
ALPHA = 1e-4
"""Chance that a test of frequencies fails although all is right."""


def slow_pairs(
    queue: list[int], label: list[int], cell: list[int], pool: list[int], uniforms: Numbers, pairs: int
) -> list[int]:
    """The same pairs with one list per class."""
    partner = list(range(len(label)))
    pools = {c: [i for i in pool if label[i] == c] for c in set(label)}
    for i in queue:
        free = pools[label[i]]
        if pairs == 0 or partner[i] != i or all(cell[j] == cell[i] for j in free):
            continue

        def take(j: int, free: list[int] = free) -> None:
            free[free.index(j)] = free[-1]
            free.pop()

        take(i)
        start = int(uniforms[i] * len(free))
        j = next(j for j in free[start:] + free[:start] if cell[j] != cell[i])
        take(j)
        partner[i], partner[j] = j, i
        pairs -= 1
    return partner


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.integers(0, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_pairs_are_those_of_the_slow_twin(n: int, groups: int, levels: int, pairs: int, seed: int) -> None:
    g = np.random.default_rng(seed)
    label = np.unique(g.integers(0, groups, n), return_inverse=True)[1]
    value = g.integers(0, levels, n)
    cell = np.unique(label * levels + value, return_inverse=True)[1]
    queue, pool, u = g.permutation(n), np.lexsort([g.random(n), label]), g.random(n)
    found = pairs_of_different(queue, label, cell, pool, u, pairs)
    assert found.tolist() == slow_pairs(queue.tolist(), label.tolist(), cell.tolist(), pool.tolist(), u, pairs)
    moved = np.flatnonzero(found != np.arange(n))
    assert len(moved) <= 2 * pairs
    assert (found[found] == np.arange(n)).all()
    assert (label[found[moved]] == label[moved]).all()
    assert (value[found[moved]] != value[moved]).all()


def test_every_record_with_another_value_has_the_same_chance_to_be_the_partner() -> None:
    data = microdata({"x": {"role": "key", "scale": "unordered"}}, x=["a", "a", "b", "b", "c"])
    seen: Counter[int] = Counter()
    for seed in range(3_000):
        made = swapped(DataSwap("x", rate=0.4), data, seed)
        after = values(made.masked, "x")
        if after[0] != "a":  # who got record 0's value
            changed = [i for i in range(1, 5) if after[i] != ["a", "a", "b", "b", "c"][i]]
            assert len(changed) == 1
            seen[changed[0]] += 1
    # a pair is drawn by its first record, then its second: 0 with 2: 1/5·1/3 + 1/5·1/3; 0 with 4: 1/5·1/3 + 1/5·1/4
    chances = np.array([2 / 15, 2 / 15, 7 / 60])
    assert set(seen) == {2, 3, 4}
    assert stats.chisquare([seen[k] for k in (2, 3, 4)], chances / chances.sum() * seen.total()).pvalue > ALPHA


KEY = {"role": "key", "scale": "unordered"}


def people(n: int = 4_000) -> Microdata:
    g = np.random.default_rng(13)
    region = g.integers(0, 5, n)
    facts = dict.fromkeys(("region", "sex", "job", "edu"), KEY)
    return microdata(
        facts,
        region=[f"R{r}" for r in region],
        sex=np.array(["f", "m"])[g.integers(0, 2, n)].tolist(),
        job=[f"J{j}" for j in (region + g.integers(0, 6, n)) % 8],
        edu=g.integers(1, 4, n),
        pay=g.normal(size=n),
    )


def table(data: Microdata, *names: str) -> Counter[Any]:
    return Counter(zip(*(values(data, n) for n in names), strict=True))


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_the_table_of_kept_and_swapped_columns_stays_and_the_rate_is_reached(rate: float) -> None:
    data = people()
    made = swapped(DataSwap(["region"], rate=rate, keep=["sex", "edu"]), data)
    assert table(made.masked, "sex", "edu", "region") == table(data, "sex", "edu", "region")
    changed = sum(a != b for a, b in zip(values(data, "region"), values(made.masked, "region"), strict=True))
    assert changed == 2 * round(rate * 4_000 / 2)
    assert table(made.masked, "job", "region") != table(data, "job", "region")
    for name in ("sex", "job", "edu", "pay"):
        assert values(made.masked, name) == values(data, name)


def test_every_table_that_is_named_stays_exactly() -> None:
    data = people()
    margins = [["region", "job"], ["region", "sex"], ["edu", "sex"]]
    made = swapped(DataSwap(["region"], rate=0.2, margins=margins), data)
    for margin in margins:
        assert table(made.masked, *margin) == table(data, *margin)
    assert table(made.masked, "region", "edu") != table(data, "region", "edu")
    assert made.guarantees[-2].says == (
        "these tables are kept exactly: region; region by job; region by sex; edu by sex"
    )


def test_columns_that_are_swapped_together_stay_together() -> None:
    data = people()
    made = swapped(DataSwap(["region", "job"], rate=0.3), data)
    assert table(made.masked, "region", "job") == table(data, "region", "job")
    changed = [a != b for a, b in zip(table_rows(data), table_rows(made.masked), strict=True)]
    assert sum(changed) == 1_200


def table_rows(data: Microdata) -> list[tuple[Any, ...]]:
    return list(zip(values(data, "region"), values(data, "job"), strict=True))


def test_the_rarest_combinations_of_keys_are_exchanged_first() -> None:
    region = ["A"] * 200 + ["B"] * 200 + [f"X{i}" for i in range(6)]
    data = microdata({"region": KEY, "sex": KEY}, region=region, sex=["f"] * 406)
    made = swapped(DataSwap(["region"], rate=12 / 406, target="rare"), data)
    after = values(made.masked, "region")
    assert all(a != b for a, b in zip(after[400:], region[400:], strict=True))
    at_random = [
        sum(a != b for a, b in zip(values(swapped(DataSwap(["region"], rate=12 / 406), data, s).masked, "region")[400:],
                                   region[400:], strict=True))
        for s in range(20)
    ]  # fmt: skip
    assert max(at_random) < 6


def test_a_rate_that_cannot_be_reached_is_said() -> None:
    # in each class nine records have one value and one has another: one pair each can be exchanged, and no more
    data = microdata({"x": KEY, "c": KEY}, x=(["a"] * 9 + ["b"]) * 5, c=np.repeat(np.arange(5), 10))
    made = swapped(DataSwap(["x"], rate=0.9, keep=["c"]), data)
    assert "10 of 50 records have another's values (20.00%; rate = 0.9); no further pair was left" in (
        made.guarantees[-1].says
    )
    assert sum(a != b for a, b in zip(values(data, "x"), values(made.masked, "x"), strict=True)) == 10


def test_records_without_an_answer_are_left_alone() -> None:
    x: list[Any] = ["a", None, "b", "?", "a", "b", None, "?"] * 10
    data = microdata({"x": {**KEY, "missing": ("?",)}}, x=x)
    after = values(swapped(DataSwap(["x"], rate=1.0), data).masked, "x")
    assert [v for v in after if v in (None, "?")] == [v for v in x if v in (None, "?")]
    assert all((a in (None, "?")) == (b in (None, "?")) for a, b in zip(after, x, strict=True))
    assert sum(a != b for a, b in zip(after, x, strict=True)) >= 36


def test_households_are_exchanged_whole_with_households_of_their_size() -> None:
    g = np.random.default_rng(14)
    home = np.repeat(np.arange(400), g.integers(1, 5, 400))
    region, tenure = g.integers(0, 6, 400), g.integers(0, 2, 400)
    facts = {"home": {"role": "household"}, "region": {**KEY, "level": "household"},
             "tenure": {**KEY, "level": "household"}, "sex": KEY}  # fmt: skip
    data = microdata(facts, home=home, region=region[home], tenure=tenure[home], sex=g.integers(0, 2, len(home)))
    made = swapped(DataSwap(["region"], rate=0.3, keep=["tenure"]), data)
    after = np.array(values(made.masked, "region"))
    assert all(len(set(after[home == h])) == 1 for h in range(400))
    assert table(made.masked, "region", "tenure") == table(data, "region", "tenure")  # counted in persons
    assert "of 400 households have another's values" in made.guarantees[-1].says
    with pytest.raises(DataError, match="members of one household differ in 'sex'"):
        swapped(DataSwap(["region"], keep=["sex"]), data)
    with pytest.raises(DataError, match="Swap them in two steps"):
        swapped(DataSwap(["region", "sex"]), data)


def test_a_table_that_changed_stops_the_release() -> None:
    data = people(200)
    fitted = DataSwap(["region"], keep=["sex"]).fit(data, Draws(1))
    wrong = values(data, "region")
    i, j = values(data, "sex").index("f"), values(data, "sex").index("m")
    wrong[i], wrong[j] = "R0", "R4"
    bad = data.with_schema(data.schema).transform(
        lambda b: b.with_columns({"region": microdata(x=wrong).batch(["x"]).column("x")}), data.schema
    )
    with pytest.raises(DataError, match=r"is not the one it was; nothing is released\."):
        fitted.guarantees(data, bad, "s")


@pytest.mark.parametrize(
    ("settings_", "sentence"),
    [
        ({"columns": ["x"], "keep": ["x"]}, "cannot be swapped and be kept at once"),
        ({"columns": ["x"], "rate": 0}, "above 0"),
        ({"columns": ["x"], "rate": 1.5}, "at most 1"),
        ({"columns": ["x"], "margins": ["x"]}, "must be a list of tables"),
        ({"columns": ["x"], "margins": [[]]}, "must be a list of tables"),
        ({"columns": ["x"], "margins": [[1]]}, "must be a list of tables"),
        ({"columns": ["x"], "margins": 3}, "must be a list of tables"),
        ({"columns": ["x"], "target": "old"}, "one of 'random', 'rare'"),
    ],
)
def test_settings_of_a_data_swap_that_make_no_sense_are_refused(settings_: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        DataSwap(**settings_)


def test_data_in_which_nothing_can_be_exchanged_are_refused() -> None:
    data = microdata({"x": KEY, "y": KEY}, x=["a"] * 4, y=["p", "q", "r", "s"])
    with pytest.raises(DataError, match="no two records have different values in x"):
        swapped(DataSwap(["x"]), data)
    with pytest.raises(DataError, match="none agree on y and have different values"):
        swapped(DataSwap(["x"], keep=["y"]), data)
    with pytest.raises(DataError, match="every key of categories is in keep"):
        swapped(DataSwap(keep=["x", "y"]), data)
    with pytest.raises(SfumatoError, match="not in the data"):
        swapped(DataSwap(["x"], margins=[["x", "z"]]), data)


def test_margins_travel_in_a_recipe_file() -> None:
    recipe = Recipe.of(DataSwap(["region"], margins=[["region", "sex"], ["region", "edu"]]))
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    data = people(500)
    assert (
        recipe.apply(data, Draws(2)).masked.digest()
        == Recipe.from_toml(recipe.to_toml()).apply(data, Draws(2)).masked.digest()
    )


def test_a_key_of_a_hundred_thousand_levels_is_swapped_in_time_that_grows_with_the_records() -> None:
    n = 100_000
    data = microdata({"x": KEY, "c": KEY}, x=np.random.default_rng(15).permutation(n), c=np.arange(n) % 7)
    made = swapped(DataSwap(["x"], rate=1.0, keep=["c"]), data)
    assert table(made.masked, "c", "x") == table(data, "c", "x")
    assert (data.numbers("x") == made.masked.numbers("x")).sum() <= 7
