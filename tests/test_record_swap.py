"""Targeted record swapping: who must move moves, households stay whole, tables of profiles stay; and substitution."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata
from sfumato.contract import Recipe
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import RecordSwap, Substitution
from sfumato.schema import Attribute, Schema

AREAS = ["region", "district"]


def people(homes: int = 600, seed: int = 1, jobs: int = 12) -> pd.DataFrame:
    """Return persons of households of one to four, in 4 regions with 5 districts each; some jobs are rare."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(homes), rng.integers(1, 5, homes))
    district = rng.integers(0, 20, homes)[home]
    share = 1 / np.arange(1, jobs + 1) ** 1.5
    return pd.DataFrame({
        "home": home,
        "region": district // 5,
        "district": district,
        "grid": district * 1000 + 7,
        "sex": rng.integers(0, 2, len(home)),
        "job": rng.choice(jobs, len(home), p=share / share.sum()),
        "tenure": rng.integers(0, 2, homes)[home],
        "pay": rng.normal(size=len(home)),
    })  # fmt: skip


def file_of(frame: pd.DataFrame, **changes: Any) -> Microdata:
    roles = {"home": "household", "pay": "confidential", "grid": "other", "tenure": "other"}
    attributes = [
        Attribute(n, roles.get(n, "key"), "ordered" if n == "pay" else "unordered", **changes.get(n, {}))  # type: ignore[arg-type]
        for n in frame.columns
    ]
    return Microdata(frame, Schema(tuple(attributes)))


def at_risk(frame: pd.DataFrame, areas: list[str], keys: list[str], k: int) -> set[int]:
    """Return the households of whom somebody is one of fewer than k in the area, counted one by one."""
    counts = Counter(tuple(row) for row in frame[[*areas, *keys]].itertuples(index=False))
    rows = frame[["home", *areas, *keys]].itertuples(index=False)
    return {row[0] for row in rows if counts[tuple(row[1:])] < k}


def members(frame: pd.DataFrame, names: list[str]) -> dict[int, tuple[Any, ...]]:
    """Return what each household looks like by a profile: its members' values, in order."""
    return {h: tuple(sorted(map(tuple, g[names].to_numpy().tolist()))) for h, g in frame.groupby("home")}


def swapped(frame: pd.DataFrame, mask: RecordSwap, seed: int = 1) -> pd.DataFrame:
    after = mask.apply(file_of(frame), Draws(seed)).masked.to_native()
    assert (
        (after[["home", "sex", "job", "tenure", "pay"]] == frame[["home", "sex", "job", "tenure", "pay"]]).all().all()
    )
    return after


def test_households_at_risk_move_across_the_level_at_which_they_are_at_risk_if_a_donor_is_left() -> None:
    frame = people()
    after = swapped(frame, RecordSwap(AREAS, similar=(("sex",), ("tenure",)), k=3, rate=0.0, keys=["sex", "job"]))
    before_home, after_home = (f.groupby("home")[AREAS].first() for f in (frame, after))
    moved = set(before_home.index[(before_home != after_home).any(axis=1)])
    profiles = [members(frame, ["sex"]), members(frame, ["tenure"])]
    for level in range(2):
        names = AREAS[: level + 1]
        risky = at_risk(frame, names, ["sex", "job"], 3)
        assert len(risky) > 20
        for home in risky:
            if (before_home.loc[home, names] == after_home.loc[home, names]).all():
                free = [h for h in before_home.index if h not in moved]
                assert home in moved or not any(
                    p[h] == p[home] and (before_home.loc[h, names] != before_home.loc[home, names]).any()
                    for h in free
                    for p in profiles
                )
    risky = at_risk(frame, AREAS[:1], ["sex", "job"], 3)
    crossed = {h for h in risky if before_home.region[h] != after_home.region[h]}
    assert len(crossed) > 0.9 * len(risky)


def test_those_at_risk_in_a_district_alone_stay_in_their_region_if_they_can() -> None:
    frame = people(2_000)
    after = swapped(frame, RecordSwap(AREAS, k=3, rate=0.0, keys=["sex", "job"]))
    wide = at_risk(frame, AREAS[:1], ["sex", "job"], 3)
    narrow = at_risk(frame, AREAS, ["sex", "job"], 3) - wide
    one, two = (f.groupby("home")[AREAS].first() for f in (frame, after))
    moved = [h for h in narrow if one.district[h] != two.district[h]]
    assert len(moved) > 50
    stayed = [one.region[h] == two.region[h] for h in moved]
    assert np.mean(stayed) > 0.8  # the others were donors of those who had to leave their region


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_the_rate_is_reached_and_households_are_whole_and_moved_once(rate: float) -> None:
    frame = people()
    after = swapped(frame, RecordSwap(AREAS, similar=(("sex",),), k=1, rate=rate))
    assert (after.groupby("home")[AREAS].nunique() == 1).all().all()
    one, two = (f.groupby("home").district.first() for f in (frame, after))
    assert int((one != two).sum()) == 2 * int(rate * 600 / 2 + 0.5)  # nobody is at risk with k = 1
    pairs = Counter(zip(one[one != two], two[one != two], strict=True))
    assert all(pairs[b, a] == n for (a, b), n in pairs.items())  # exchanges, so none moved twice


def test_the_table_of_the_profile_by_area_does_not_change_and_other_tables_do() -> None:
    frame = people()
    after = swapped(frame, RecordSwap(AREAS, similar=(("sex", "tenure"),), rate=0.3))

    def table(f: pd.DataFrame, names: list[str]) -> Counter[tuple[Any, ...]]:
        return Counter(f[names].itertuples(index=False, name=None))

    for names in (["district"], ["district", "sex"], ["region", "sex", "tenure"], ["district", "sex", "tenure"]):
        assert table(frame, names) == table(after, names)
    assert table(frame, ["district", "job"]) != table(after, ["district", "job"])


def test_what_is_carried_and_what_follows_moves_with_the_area() -> None:
    frame = people()
    frame["name"] = "region " + frame.region.astype(str)
    data = file_of(frame, name={"follows": "region"})
    release = RecordSwap(AREAS, rate=0.3, carry=["grid"]).apply(data, Draws(1))
    after = release.masked.to_native()
    assert (after.grid == after.district * 1000 + 7).all()
    assert (after.name == "region " + after.region.astype(str)).all()
    mask = RecordSwap(AREAS, rate=0.3, carry=["grid"])
    moved = np.flatnonzero((frame.district != after.district).to_numpy())
    assert mask.swapped_records(release).tolist() == moved.tolist()


def test_another_seed_gives_another_swap_and_the_same_seed_the_same() -> None:
    frame = people(200)
    mask = RecordSwap(AREAS, rate=0.3)
    one, other = swapped(frame, mask), swapped(frame, mask, 2)
    assert (one.district != other.district).any()
    assert one.equals(swapped(frame, mask))


def test_a_file_without_households_swaps_persons() -> None:
    frame = people().drop(columns="home")
    data = file_of(frame)
    release = RecordSwap(AREAS, k=1, rate=0.2, similar=(("sex",),)).apply(data, Draws(1))
    moved = (release.masked.to_native().district != frame.district).sum()
    assert moved == 2 * int(0.2 * len(frame) / 2 + 0.5)


def refusal(mask: Any, data: Microdata) -> str:
    with pytest.raises(SfumatoError) as refused:
        mask.apply(data, Draws(1))
    return str(refused.value)


def test_what_cannot_be_done_is_refused_in_a_sentence() -> None:
    frame = people(100)
    torn = frame.copy()
    first = torn.index[torn.groupby("home").home.transform("size") > 1][0]
    torn.loc[first, "district"] += 1
    assert "1 household have different values of 'district'" in refusal(RecordSwap(AREAS), file_of(torn))
    alone = RecordSwap(AREAS, similar=(("sex", "job", "tenure", "pay"),), k=3, no_donor="refuse")
    assert "at risk in region have no similar household" in refusal(alone, file_of(frame))
    said = RecordSwap(AREAS, similar=(("pay",),), k=3).apply(file_of(frame), Draws(1)).guarantees
    assert any("have no similar household elsewhere" in g.says for g in said)
    bare = Microdata(
        frame[["home", "region"]], Schema((Attribute("home", "household"), Attribute("region", "key", "unordered")))
    )  # type: ignore[arg-type]
    assert "no key is left beside the areas" in refusal(RecordSwap(["region"]), bare)
    with pytest.raises(ParameterError, match="move with the area"):
        RecordSwap(AREAS, keys=["region", "sex"])
    with pytest.raises(ParameterError, match="list of profiles"):
        RecordSwap(AREAS, similar=3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="leave them out of carry"):
        RecordSwap(AREAS, carry=["region"])


def test_a_release_in_which_a_household_at_risk_stayed_is_refused() -> None:
    data = file_of(people())
    mask = RecordSwap(AREAS, k=3).fit(data, Draws(1))
    with pytest.raises(DataError, match="not moved although others resemble them"):
        list(mask.guarantees(data, data, "swap"))


def test_a_recipe_is_read_back_and_one_profile_may_be_a_plain_list() -> None:
    recipe = Recipe.of(RecordSwap(AREAS, similar=["sex", "job"], carry=["grid"]), Substitution(["job"], keep=["sex"]))  # type: ignore[arg-type]
    again = Recipe.from_toml(recipe.to_toml())
    assert again["record_swap"] == RecordSwap(AREAS, similar=(("sex", "job"),), carry=["grid"])
    assert again["substitution"] == recipe["substitution"]


# --- Substitution


def test_substituted_records_have_the_values_of_a_record_that_agrees_and_differs() -> None:
    frame = people()
    release = Substitution(["job", "tenure"], rate=0.2, keep=["region", "sex"]).apply(file_of(frame), Draws(1))
    after = release.masked.to_native()
    changed = (after[["job", "tenure"]] != frame[["job", "tenure"]]).any(axis=1)
    assert int(changed.sum()) == int(0.2 * len(frame) + 0.5)
    names = ["region", "sex", "job", "tenure"]
    seen = set(frame[names].itertuples(index=False, name=None))
    assert set(after[names].itertuples(index=False, name=None)) <= seen
    assert (after[["region", "sex", "pay"]] == frame[["region", "sex", "pay"]]).all().all()


def test_every_donor_with_other_values_is_as_likely() -> None:
    """Of one record a and donors b, b, c in its class, b comes twice as often: 300 seeds, four standard errors."""
    frame = pd.DataFrame({"g": [0, 0, 0, 0], "v": ["a", "b", "b", "c"]})
    data = Microdata(frame, Schema((Attribute("g", "other", "unordered"), Attribute("v", "key", "unordered"))))  # type: ignore[arg-type]
    values = Counter()
    for seed in range(300):
        after = Substitution(["v"], rate=0.25, keep=["g"]).apply(data, Draws(seed)).masked.to_native().v
        if after[0] != "a":
            values[after[0]] += 1
    total = sum(values.values())
    assert abs(values["b"] / total - 2 / 3) < 4 * np.sqrt(2 / 9 / total)
    assert abs(total / 300 - 1 / 4) < 4 * np.sqrt(3 / 16 / 300)


def test_the_rarest_are_substituted_first_if_asked_for() -> None:
    frame = people()
    rare = Substitution(["job"], rate=0.02, target="rare").apply(file_of(frame), Draws(1)).masked.to_native()
    counts = frame.job.map(frame.job.value_counts())
    hit = (rare.job != frame.job).to_numpy()
    assert counts[hit].max() <= counts[~hit].min()


def test_substitution_refuses_what_it_cannot_do() -> None:
    frame = people(50)
    assert "no record has a donor" in refusal(Substitution(["region"], keep=["district"]), file_of(frame))
    data = file_of(frame, tenure={"level": "household"})
    assert "tenure describes households" in refusal(Substitution(["tenure"]), data)
    with pytest.raises(ParameterError, match="at once"):
        Substitution(["job"], keep=["job"])
