"""Local suppression against brute force, a slow count of matching records, and the counts that sdcMicro needs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata, Release
from sfumato.contract import Recipe, Snooper
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import LocalSuppression, RiskSuppression
from sfumato.risk import IndividualRisk, KAnonymity
from sfumato.schema import Attribute, Schema

DATA = Path(__file__).parents[2] / "shared" / "data"
KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def file_of(codes: np.ndarray, **more: Any) -> Microdata:
    """Return a file with the keys a, b, c, ...; -1 is missing."""
    names = [chr(97 + i) for i in range(codes.shape[1])]
    frame = pd.DataFrame(
        {n: [None if v < 0 else f"v{v}" for v in column] for n, column in zip(names, codes.T, strict=True)}
    )
    attributes = [Attribute(n, "key", "unordered") for n in names]  # type: ignore[arg-type]
    for name, (role, values) in more.items():
        frame[name] = values
        attributes.append(Attribute(name, role))
    return Microdata(frame, Schema(tuple(attributes)))


def codes_of(data: Microdata, names: list[str]) -> np.ndarray:
    """Return numbers for the values, the same in every file; -1 is missing."""
    frame = data.to_native()
    return np.array([[-1 if v is None or v != v else int(str(v).removeprefix("v")) for v in frame[n]] for n in names]).T


def hide(codes: np.ndarray, sets: tuple[int, ...]) -> np.ndarray:
    bits = (np.array(sets)[:, None] >> np.arange(codes.shape[1])) & 1
    return np.where(bits == 1, -1, codes)


def slow_matches(codes: np.ndarray, wildcard: bool) -> np.ndarray:
    """Count the records that match each record, pair by pair."""
    one, two = codes[:, None, :], codes[None, :, :]
    same = (one == two) | (((one < 0) | (two < 0)) & wildcard)
    return np.asarray(same.all(axis=2).sum(axis=1))


def fewest(codes: np.ndarray, k: int, wildcard: bool, sacrifice: str) -> int:
    """Return the smallest number of values to suppress by trying every pattern."""
    p = codes.shape[1]
    sizes = [bin(t).count("1") for t in range(1 << p)]
    options = []
    at_risk = slow_matches(codes, wildcard) < k
    for i in range(len(codes)):
        free = [t for t in range(1 << p) if not any(t >> c & 1 and codes[i, c] < 0 for c in range(p))]
        if wildcard and not at_risk[i]:
            free = [0]
        elif wildcard and sacrifice == "own":
            alone = [
                t
                for t in free
                if slow_matches(hide(codes, tuple(t * (j == i) for j in range(len(codes)))), True)[i] >= k
            ]
            free = [t for t in free if sizes[t] <= min(sizes[s] for s in alone)]
        options.append(free)
    best = codes.size
    for sets in itertools.product(*options):
        total = sum(sizes[t] for t in sets)
        if total < best and slow_matches(hide(codes, sets), wildcard).min() >= k:
            best = total
    return best


def random_codes(seed: int, n: int, p: int, levels: int = 3, gaps: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, (n, p))
    return np.where(rng.random((n, p)) < gaps, -1, codes)


def suppressed(data: Microdata, mask: Any) -> int:
    names = list(data.schema.names(role="key"))
    after = codes_of(mask.apply(data, Draws(1)).masked, names)
    before = codes_of(data, names)
    assert ((after == before) | (after < 0)).all()
    return int(((after < 0) & (before >= 0)).sum())


def smallest_case(seed: int, wildcard: bool) -> tuple[np.ndarray, int]:
    n, p = (6, 2 + seed % 2) if wildcard else (6, 2)
    return random_codes(seed, n, p, 2 + seed % 3, gaps=0.1 * (seed % 2)), 2 + seed % 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sacrifice", ["own", "any"])
def test_the_integer_program_needs_as_few_values_as_brute_force(seed: int, sacrifice: str) -> None:
    codes, k = smallest_case(seed, True)
    best = fewest(codes, k, True, sacrifice)
    for search, most in (("exact", best), ("heuristic", 1.1 * best)):
        mask = LocalSuppression(k=k, search=search, sacrifice=sacrifice)  # type: ignore[arg-type]
        assert best <= suppressed(file_of(codes), mask) <= most


@pytest.mark.parametrize("seed", range(6))
def test_so_it_does_where_missing_is_a_value_of_its_own(seed: int) -> None:
    codes, k = smallest_case(seed, False)
    best = fewest(codes, k, False, "any")
    assert suppressed(file_of(codes), LocalSuppression(k=k, search="exact", missing="value")) == best
    assert suppressed(file_of(codes), LocalSuppression(k=k, search="heuristic", missing="value")) >= best


def test_the_search_is_within_ten_percent_of_the_integer_program() -> None:
    found, best = [], []
    for seed in range(9):
        data, k = file_of(random_codes(100 + seed, 8 + seed % 3, 3, 3)), 2 + seed % 2
        found.append(suppressed(data, LocalSuppression(k=k, search="heuristic")))
        best.append(suppressed(data, LocalSuppression(k=k, search="exact")))
    assert (np.array(found) <= 1.1 * np.array(best)).all()


def test_where_missing_is_a_value_the_search_is_near_the_integer_program() -> None:
    found, best = 0, 0
    for seed in range(10):
        data = file_of(random_codes(200 + seed, 12, 3, 2))
        found += suppressed(data, LocalSuppression(k=3, search="heuristic", missing="value"))
        best += suppressed(data, LocalSuppression(k=3, search="exact", missing="value"))
    assert best <= found <= 1.15 * best


@pytest.mark.parametrize("missing", ["wildcard", "value"])
def test_every_record_matches_k_records_pair_by_pair(missing: str) -> None:
    for seed in range(2):
        codes = random_codes(seed, 60, 4, 4, gaps=0.05)
        stratum = np.repeat(["x", "y", "z"], 20)
        data = file_of(codes, region=("other", stratum))
        masked = LocalSuppression(k=4, missing=missing, within=["region"]).apply(data, Draws(1)).masked  # type: ignore[arg-type]
        after = codes_of(masked, list("abcd"))
        for name in "xyz":
            assert slow_matches(after[stratum == name], missing == "wildcard").min() >= 4


@pytest.mark.parametrize("missing", ["wildcard", "value"])
def test_own_k_of_sets_of_keys_is_kept_for_every_set(missing: str) -> None:
    codes = random_codes(3, 120, 4, 4)
    mask = LocalSuppression(k=3, subsets={"2": 12, "a * c * d": 6}, missing=missing)  # type: ignore[arg-type]
    release = mask.apply(file_of(codes), Draws(1))
    after = codes_of(release.masked, list("abcd"))
    demands = [((0, 1, 2, 3), 3), ((0, 2, 3), 6), *((pair, 12) for pair in itertools.combinations(range(4), 2))]
    before = [slow_matches(codes[:, list(places)], False).min() for places, _ in demands]
    assert any(least < k for least, (_, k) in zip(before, demands, strict=True))
    for places, k in demands:
        assert slow_matches(after[:, list(places)], missing == "wildcard").min() >= k
    assert "12 records on any 2 keys; 6 records on a * c * d" in " ".join(g.says for g in release.guarantees)


@pytest.mark.parametrize(("k", "most"), [(3, 293), (5, 500)])
def test_testdata_needs_fewer_values_than_with_sdcmicro(k: int, most: int) -> None:
    data = Microdata.read(DATA / "testdata.csv")
    release = LocalSuppression(KEYS, k=k).apply(data, Draws(1))
    snooper = Snooper(keys=tuple(KEYS))
    assert KAnonymity(k).score(release, snooper).value == 0
    before, after = data.batch(KEYS), release.masked.batch(KEYS)
    cells = sum(int(after.missing(n).sum() - before.missing(n).sum()) for n in KEYS)
    assert 0 < cells < most


def test_a_record_loses_no_more_than_it_would_need_by_itself_unless_it_may_be_sacrificed() -> None:
    """With sacrifice, k - 1 records without any key protect all others; without, no record is emptied for others."""
    codes = random_codes(5, 40, 5, 4)
    data, k = file_of(codes), 3
    assert suppressed(data, LocalSuppression(k=k, sacrifice="any")) <= (k - 1) * 5
    after = codes_of(LocalSuppression(k=k).apply(data, Draws(1)).masked, list("abcde"))
    lost = ((after < 0) & (codes >= 0)).sum(axis=1)
    for i in np.flatnonzero(lost):
        alone = [
            bin(t).count("1")
            for t in range(32)
            if slow_matches(hide(codes, tuple(t * (j == i) for j in range(40))), True)[i] >= k
        ]
        assert lost[i] <= min(alone)
    assert (lost[slow_matches(codes, True) >= k] == 0).all()


def test_important_keys_lose_fewer_values() -> None:
    codes = random_codes(9, 200, 4, 5)
    data = file_of(codes)

    def lost(mask: LocalSuppression) -> np.ndarray:
        return (codes_of(mask.apply(data, Draws(1)).masked, list("abcd")) < 0).sum(axis=0)

    plain, ordered = lost(LocalSuppression(k=3)), lost(LocalSuppression(k=3, importance=["b", "a"]))
    priced = lost(LocalSuppression(k=3, costs={"c": 50}))
    assert ordered[1] < plain[1]
    assert ordered[1] <= ordered[0] < plain[0]
    assert priced[2] == 0 < plain[2]


def test_members_of_a_household_lose_its_value_together() -> None:
    rng = np.random.default_rng(1)
    home = np.repeat(np.arange(60), 3)
    columns = {
        "home": home,
        "rooms": rng.integers(0, 9, 60)[home],
        "sex": rng.integers(0, 2, 180),
        "age": rng.integers(0, 5, 180),
    }
    attributes = (
        Attribute("home", "household"),  # type: ignore[arg-type]
        Attribute("rooms", "key", "unordered", level="household"),  # type: ignore[arg-type]
        *(Attribute(n, "key", "unordered") for n in ("sex", "age")),  # type: ignore[arg-type]
    )
    data = Microdata(pd.DataFrame(columns), Schema(attributes))
    release = LocalSuppression(["rooms", "sex", "age"], k=3).apply(data, Draws(1))
    after = release.masked.to_native()
    gone = after["rooms"].isna()
    assert gone.any()
    assert gone.groupby(after["home"]).nunique().max() == 1
    assert KAnonymity(3).score(release, Snooper(keys=("rooms", "sex", "age"))).value == 0


def test_columns_that_follow_a_key_lose_the_value_with_it() -> None:
    codes = random_codes(1, 60, 3, 6)
    frame = file_of(codes).to_native()
    frame["a_name"] = frame["a"].map(lambda v: f"name of {v}")
    attributes = [Attribute(n, "key", "unordered") for n in "abc"]  # type: ignore[arg-type]
    schema = Schema((*attributes, Attribute("a_name", "key", "unordered", follows="a")))  # type: ignore[arg-type]
    release = LocalSuppression(k=3).apply(Microdata(frame, schema), Draws(1))
    after = release.masked.to_native()
    assert after["a"].isna().any()
    assert (after["a"].isna() == after["a_name"].isna()).all()
    assert KAnonymity(3).score(release).value == 0
    with pytest.raises(DataError, match="follows a, which is released"):
        LocalSuppression(["a_name", "b"], k=3).apply(Microdata(frame, schema), Draws(1))


def test_the_order_of_the_records_does_not_matter() -> None:
    codes = random_codes(2, 80, 4, 4)
    order = np.random.default_rng(0).permutation(80)
    one = codes_of(LocalSuppression(k=3).apply(file_of(codes), Draws(1)).masked, list("abcd"))
    two = codes_of(LocalSuppression(k=3).apply(file_of(codes[order]), Draws(2)).masked, list("abcd"))
    gone = [sorted(map(tuple, x.tolist())) for x in (one, two)]
    assert gone[0] == gone[1]


@pytest.mark.parametrize("fraction", [None, 0.2])
def test_no_record_keeps_an_individual_risk_above_the_threshold(fraction: float | None) -> None:
    codes = random_codes(4, 150, 4, 4)
    weights = np.random.default_rng(1).integers(2, 40, 150)
    data = file_of(codes, w=("weight", weights))
    mask = RiskSuppression(threshold=0.06, fraction=fraction)
    measure = IndividualRisk(threshold=0.06, fraction=fraction)
    plain = measure.score(Release.of(data, data, align="rows"))
    release = mask.apply(data, Draws(1))
    assert plain.details["records above the threshold"] > 20
    score = measure.score(release)
    assert score.details["records above the threshold"] == 0
    assert score.details["largest risk"] <= 0.06 * (1 + 1e-9)


def test_a_guarantee_that_does_not_hold_releases_nothing() -> None:
    data = file_of(random_codes(6, 50, 4, 4))
    mask = LocalSuppression(k=3).fit(data, Draws(1))
    with pytest.raises(DataError, match=r"fewer than 3; nothing is released"):
        list(mask.guarantees(data, data, "step"))
    weighted = file_of(random_codes(6, 50, 4, 4), w=("weight", np.full(50, 3)))
    risky = RiskSuppression(threshold=0.1).fit(weighted, Draws(1))
    with pytest.raises(DataError, match=r"risk above 0.1; nothing is released"):
        list(risky.guarantees(weighted, weighted, "step"))


def refusal(mask: LocalSuppression | RiskSuppression, data: Microdata) -> str:
    with pytest.raises(SfumatoError) as refused:
        mask.apply(data, Draws(1))
    return str(refused.value)


def test_what_cannot_be_done_is_refused_in_a_sentence() -> None:
    codes = random_codes(7, 30, 3, 3)
    data = file_of(
        codes, pay=("confidential", np.arange(30.0)), w=("weight", np.ones(30)), region=("other", ["x"] * 29 + ["y"])
    )
    assert "only 30 records" in refusal(LocalSuppression(k=31), data)
    assert "1 of 2 strata of region have fewer than 3" in refusal(LocalSuppression(k=3, within=["region"]), data)
    assert "'pay' is confidential" in refusal(LocalSuppression(["a", "pay"]), data)
    assert "has the role 'weight'" in refusal(LocalSuppression(["a", "w"]), data)
    assert "cannot be a key and be used beside" in refusal(LocalSuppression(["a", "b"], within=["a"]), data)
    assert "Did you mean 'a'" in refusal(LocalSuppression(costs={"aa": 2}), data)
    assert "no sets of 4 among 3 keys" in refusal(LocalSuppression(subsets={"4": 3}), data)
    assert "has no survey weights" not in refusal(RiskSuppression(threshold=0.001), data)
    assert "even if all 30 records matched" in refusal(RiskSuppression(threshold=0.001), data)
    assert "there are none" in refusal(RiskSuppression(), file_of(codes))
    empty = np.column_stack([codes, np.full(30, -1)])
    assert "key 'd' has no values at all" in refusal(LocalSuppression(), file_of(empty))
    wide = random_codes(8, 60, 4, 6)
    assert "could not be proven" in refusal(LocalSuppression(k=5, search="exact"), file_of(wide))


def test_parameters_that_contradict_each_other_are_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="not both"):
        LocalSuppression(importance=["a"], costs={"b": 2})
    with pytest.raises(ParameterError, match="whole number of at least 2"):
        LocalSuppression(subsets={"2": 1})
    with pytest.raises(ParameterError, match="leave subsets out"):
        LocalSuppression(subsets={"2": 3}, search="exact")
    with pytest.raises(ParameterError, match="empty list"):
        LocalSuppression([])


def test_a_recipe_with_own_k_of_sets_of_keys_is_read_back() -> None:
    recipe = Recipe.of(LocalSuppression(["a", "b"], k=3, subsets={"1": 5, "a * b": 4}, costs={"a": 2.0}))
    again = Recipe.from_toml(recipe.to_toml())
    assert again["local_suppression"] == recipe["local_suppression"]


def test_more_keys_than_sets_can_be_looked_through_and_many_records_at_risk() -> None:
    codes = random_codes(11, 45, 14, 3, gaps=0.02)
    after = codes_of(LocalSuppression(k=2).apply(file_of(codes), Draws(1)).masked, [chr(97 + i) for i in range(14)])
    assert slow_matches(after, True).min() >= 2
    values = LocalSuppression(k=2, missing="value").apply(file_of(codes), Draws(1)).masked
    assert slow_matches(codes_of(values, [chr(97 + i) for i in range(14)]), False).min() >= 2
