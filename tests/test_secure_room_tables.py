"""Tables in a secure room: what pandas would give, judged cell by cell, and hidden so that nothing can be worked back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.errors import DataError, ParameterError
from sfumato.room import OutputPolicy, SecureRoom
from sfumato.tables.rules import PTN, MinimumContributors, MinimumFrequency, PPercent, Together, ZeroCells

STANDARD = OutputPolicy.named("standard")


def firms(seed: int = 0, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "west"], n, p=[0.6, 0.34, 0.06]),
            "sector": rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1]),
            "size": rng.choice(["small", "large"], n),
            "turnover": np.round(rng.lognormal(3, 1.5, n), 2),
            "staff": rng.integers(1, 90, n).astype(float),
        },
        index=rng.permutation(n) + 1000,
    )
    frame.loc[frame.index[:12], "staff"] = np.nan
    return frame


def quiet(**fields: Any) -> SecureRoom:
    policy = STANDARD.with_(**fields) if fields else STANDARD
    return SecureRoom(policy, tell=None)


def slow_reasons(values: pd.Series[float], statistic: str) -> set[str]:
    """Return the rules that one cell breaks, by the definitions."""
    x = sorted(values.dropna(), reverse=True)
    found = set()
    if 0 < len(x) < 10:
        found.add("fewer than 10 contributors")
    if not x:
        return {"nobody is in it"}
    if statistic in ("sum", "mean", "std", "var"):
        total = sum(x)
        if sum(x[:2]) > 0.9 * total:
            found.add("(n, k) rule, n = 2, k = 90")
        if total - sum(x[:2]) < 0.1 * x[0]:
            found.add("p% rule, p = 10")
    if statistic != "count" and len(set(x)) == 1:
        found.add("all values are the same")
    return found


# -- the same table as pandas


@pytest.mark.parametrize("kind", ["object", "category"])
def test_values_that_are_text_are_counted_and_have_no_other_statistics(kind: str) -> None:
    frame = firms()
    frame["size"] = frame["size"].where(frame["staff"].notna()).astype(kind)
    room = quiet()
    found = room.crosstab(frame["region"], frame["sector"], values=frame["size"], aggfunc="count", suppress=False)
    expected = pd.crosstab(frame["region"], frame["sector"], values=frame["size"], aggfunc="count")
    pd.testing.assert_frame_equal(found, expected)
    reasons = room.last.outcome
    assert (reasons.eq("fewer than 10 contributors") == ((expected < 10) & (expected > 0))).all(axis=None)
    for wanted in ("mean", ["count", "mean"]):
        with pytest.raises(DataError, match=r"has no mean\. Count its values"):
            room.pivot_table(frame, values="size", index="region", columns="sector", aggfunc=wanted)


@pytest.mark.parametrize("normalize", [False, True, "index", "columns"])
@pytest.mark.parametrize("margins", [False, True])
def test_a_crosstab_of_counts_is_that_of_pandas(margins: bool, normalize: Any) -> None:
    data = firms()
    keys = [data["region"], data["size"]]
    mine = quiet().crosstab(keys, data["sector"], margins=margins, normalize=normalize)
    theirs = pd.crosstab(keys, data["sector"], margins=margins, normalize=normalize)
    pd.testing.assert_frame_equal(mine, theirs)


@pytest.mark.parametrize("aggfunc", ["count", "sum", "mean", "median", "std", "var", ["mean", "std"]])
def test_a_crosstab_of_values_is_that_of_pandas(aggfunc: Any) -> None:
    data = firms()
    asked = {"values": data["staff"], "aggfunc": aggfunc, "margins": True, "margins_name": "Everywhere"}
    mine = quiet().crosstab(data["region"], data["sector"], **asked)
    pd.testing.assert_frame_equal(mine, pd.crosstab(data["region"], data["sector"], **asked))


@pytest.mark.parametrize(
    "asked",
    [
        {"values": "turnover", "index": "region", "columns": "sector"},
        {"values": "turnover", "index": ["region", "size"], "margins": True},
        {"values": ["turnover"], "index": "region", "columns": ["sector", "size"], "aggfunc": ["sum", "count"]},
        {"values": ["turnover", "staff"], "index": "region", "aggfunc": {"turnover": ["mean", "sum"], "staff": ["std"]}},
        {"index": "region", "columns": "size", "aggfunc": {"turnover": "mean", "staff": "sum"}},
        {"values": "turnover", "index": "region", "columns": "sector", "aggfunc": "sum", "fill_value": 0},
    ],
)  # fmt: skip
def test_a_pivot_table_is_that_of_pandas(asked: dict[str, Any]) -> None:
    data = firms()
    pd.testing.assert_frame_equal(quiet().pivot_table(data, **asked), pd.pivot_table(data, **asked))


def test_margins_of_several_values_count_every_record_that_has_the_value() -> None:
    data = firms()
    mine = quiet().pivot_table(data, ["turnover", "staff"], "region", "size", aggfunc="sum", margins=True)
    for value in ("turnover", "staff"):
        alone = pd.pivot_table(data, value, "region", "size", aggfunc="sum", margins=True)
        pd.testing.assert_frame_equal(mine[value], alone, check_names=False)


def test_columns_with_different_indexes_are_joined_by_index_and_never_by_place() -> None:
    data = firms()
    sector = data["sector"].sample(frac=1, random_state=3).iloc[:200]
    pd.testing.assert_frame_equal(
        quiet().crosstab(data["region"], sector), pd.crosstab(data["region"], sector)
    )  # fmt: skip


def test_keys_with_one_name_and_labels_that_occur_twice_do_no_harm() -> None:
    data = firms()
    twice = quiet().crosstab([data["region"], data["region"]], data["sector"])
    np.testing.assert_array_equal(twice, pd.crosstab(data["region"], data["sector"]))
    same = data.set_axis(np.zeros(len(data), int))
    np.testing.assert_array_equal(quiet().crosstab(same["region"], same["sector"]), twice)


def test_frames_of_polars_are_taken_as_they_are() -> None:
    polars = pytest.importorskip("polars")
    data = firms()
    other = polars.from_pandas(data)
    np.testing.assert_array_equal(
        quiet().crosstab(other["region"], other["sector"]), pd.crosstab(data["region"], data["sector"])
    )
    np.testing.assert_allclose(
        quiet().pivot_table(other, "turnover", "region", "size"), data.pivot_table("turnover", "region", "size")
    )


def test_records_without_a_key_are_left_out_and_counted_where_missing_is_a_category() -> None:
    data = firms()
    data.loc[data.index[:20], "sector"] = None
    pd.testing.assert_frame_equal(
        quiet().crosstab(data["region"], data["sector"], margins=True),
        pd.crosstab(data["region"], data["sector"], margins=True),
    )
    room = quiet()
    table = room.crosstab(data["region"], data["sector"], dropna=False, margins=True)
    pd.testing.assert_frame_equal(table, pd.crosstab(data["region"], data["sector"], dropna=False, margins=True))
    small = table.iloc[:-1, :-1].to_numpy() < 10
    assert ((room.last.outcome.iloc[:-1, :-1] != "ok").to_numpy() == small).all()


def test_categories_that_nobody_has_are_empty_cells() -> None:
    data = firms()
    data["sector"] = pd.Categorical(data["sector"], ["a", "b", "c", "d"])
    room = quiet()
    table = room.pivot_table(data, "turnover", "region", "sector", observed=False, dropna=False)
    assert table["d"].isna().all()
    assert (room.last.outcome["d"] == "nobody is in it").all()
    keys = data["region"].to_numpy(), pd.Categorical(data["sector"], ["a", "b", "c", "d"])
    pd.testing.assert_frame_equal(room.crosstab(*keys, dropna=False), pd.crosstab(*keys, dropna=False))


# -- the rules, cell by cell


@pytest.mark.parametrize("statistic", ["count", "sum", "mean", "median", "std"])
@pytest.mark.parametrize("seed", range(4))
def test_the_reasons_are_those_that_the_definitions_give(seed: int, statistic: str) -> None:
    data = firms(seed, 150)
    room = quiet()
    room.crosstab(
        [data["region"], data["size"]], data["sector"], values=data["staff"], aggfunc=statistic, margins=True
    )  # fmt: skip
    outcome = room.last.outcome
    assert outcome is not None
    seen = set()
    for (region, size), row in outcome.iterrows():
        for sector, words in row.items():
            part = data[
                ((data["region"] == region) & (data["size"] == size) | (region == "All"))
                & ((data["sector"] == sector) | (sector == "All"))
            ]
            wanted = slow_reasons(part["staff"], statistic)
            assert set(str(words).split("; ")) == (wanted or {"ok"})
            seen |= wanted
    assert "fewer than 10 contributors" in seen


def test_a_cell_of_ten_passes_and_one_of_nine_fails() -> None:
    room = quiet(class_disclosure="off")
    region = pd.Series(["n"] * 19, name="region")
    room.crosstab(region, pd.Series(["a"] * 10 + ["b"] * 9, name="sector"))
    assert room.last.outcome.loc["n"].tolist() == ["ok", "fewer than 10 contributors"]
    assert room.last.status == "fail"
    assert room.last.failures.to_numpy().tolist() == [["n / b", "fewer than 10 contributors"]]


def test_empty_cells_and_cells_with_everybody_of_a_row_disclose_a_class() -> None:
    region = pd.Series(["n"] * 20 + ["s"] * 30, name="region")
    ill = pd.Series(["yes"] * 20 + ["yes"] * 15 + ["no"] * 15, name="ill")
    room = quiet()
    room.crosstab(region, ill)
    outcome = room.last.outcome
    assert outcome.loc["n", "yes"] == "everybody of its row or column is in it"
    assert outcome.loc["n", "no"] == "nobody is in it"
    assert outcome.loc["s", "no"] == "everybody of its row or column is in it"
    assert outcome.loc["s", "yes"] == "ok"
    room = quiet(class_disclosure="review")
    room.crosstab(region, ill)
    assert room.last.status == "review"
    room = quiet(class_disclosure="off")
    room.crosstab(region, ill)
    assert room.last.status == "pass"


def test_a_mean_of_values_that_are_all_the_same_tells_everybodys() -> None:
    data = pd.DataFrame({"g": ["a"] * 12 + ["b"] * 12, "x": [5.0] * 12 + list(range(1, 13))})
    room = quiet()
    room.pivot_table(data, "x", "g")
    assert room.last.outcome["x"].tolist() == ["all values are the same", "ok"]


def test_cells_with_negative_values_are_for_a_person_and_the_others_are_judged() -> None:
    data = pd.DataFrame(
        {"g": np.repeat(["a", "b", "c"], 12), "x": [-1.0, *range(2, 13), 1000.0, *range(2, 13), *range(1, 13)]}
    )
    room = quiet()
    room.pivot_table(data, "x", "g", aggfunc="sum")
    outcome = room.last.outcome["x"]
    assert outcome["a"] == "negative values"
    assert "(n, k) rule" in outcome["b"]
    assert "p% rule" in outcome["b"]
    assert outcome["c"] == "ok"
    room = quiet(negative="absolute")
    data.loc[0, "x"] = -1000.0
    room.pivot_table(data, "x", "g", aggfunc="sum")
    assert "p% rule" in room.last.outcome["x"]["a"]


def test_missing_values_do_not_count_and_are_for_a_person_where_the_policy_says_so() -> None:
    data = pd.DataFrame({"g": ["a"] * 14 + ["b"] * 14, "x": [np.nan] * 5 + list(range(9)) + list(range(10, 24))})
    room = quiet()
    room.pivot_table(data, "x", "g")
    assert room.last.outcome["x"].tolist() == ["fewer than 10 contributors", "ok"]
    data.loc[4, "x"] = 3.5
    room = quiet(missing="review")
    room.pivot_table(data, "x", "g")
    assert room.last.outcome["x"].tolist() == ["missing values", "ok"]
    assert room.last.status == "review"


def test_ten_records_of_one_household_are_one_contributor() -> None:
    data = pd.DataFrame({"g": ["a"] * 12 + ["b"] * 12, "x": np.arange(1.0, 25.0), "who": [1] * 12 + list(range(12))})
    room = quiet()
    room.pivot_table(data, "x", "g", contributor="who")
    assert room.last.outcome["x"]["a"].startswith("fewer than 10 contributors")
    assert room.last.outcome["x"]["b"] == "ok"
    room.crosstab(data["g"], data["g"].str.upper().where(data.index % 2 == 0, "C"), contributor=data["who"])
    assert "fewer than 10 contributors" in room.last.outcome.loc["a", "A"]


def test_rules_that_need_every_contributor_judge_as_their_twins_do() -> None:
    data = firms(5)
    short = quiet(rules=(PPercent(p=10), MinimumContributors(n=10)))
    whole = quiet(rules=(PTN(p=10, q=100), Together((MinimumFrequency(n=10),))))
    for room in (short, whole):
        room.crosstab(data["region"], data["sector"], values=data["turnover"], aggfunc="sum", margins=True)
    assert ((short.last.outcome == "ok") == (whole.last.outcome == "ok")).all(axis=None)
    assert (short.last.outcome != "ok").any(axis=None)


# -- hiding cells


def published(room: SecureRoom, data: pd.DataFrame, **asked: Any) -> pd.DataFrame:
    return room.pivot_table(data, "turnover", ["region", "size"], "sector", suppress=True, **asked)


@pytest.mark.parametrize("aggfunc", ["count", "sum", "mean", ["count", "mean", "std"]])
@pytest.mark.parametrize("seed", range(6))
def test_nothing_shown_depends_on_the_records_that_are_hidden(seed: int, aggfunc: Any) -> None:
    data = firms(seed, 160)
    room = quiet()
    table = published(room, data, aggfunc=aggfunc, margins=True)
    first = table[aggfunc[0]] if isinstance(aggfunc, list) else table
    hidden = first.iloc[:-1, :-1].isna()
    assert hidden.any(axis=None)
    assert room.last.suppressed
    assert room.last.status == "review"
    gone = [bool(hidden.loc[(r, s), c]) for r, s, c in zip(data["region"], data["size"], data["sector"], strict=True)]
    left = pd.pivot_table(
        data[~np.array(gone)], "turnover", ["region", "size"], "sector", aggfunc=aggfunc, margins=True
    )  # fmt: skip
    if aggfunc == "count":
        assert table.loc[("All", ""), "All"] == (~np.array(gone)).sum()
    pd.testing.assert_frame_equal(
        table.dropna(how="all").dropna(how="all", axis=1), left, check_dtype=False, check_like=True
    )
    changed = data.copy()
    changed.loc[np.array(gone), "turnover"] *= 3
    again = published(quiet(), changed, aggfunc=aggfunc, margins=True)
    shown = table.notna() & again.notna()
    assert (table[shown].fillna(0) - again[shown].fillna(0)).abs().max(axis=None) == 0


@pytest.mark.parametrize("seed", range(6))
def test_every_cell_and_total_that_is_shown_passes(seed: int) -> None:
    data = firms(seed, 160)
    table = published(quiet(), data, aggfunc="count", margins=True)
    values = table.to_numpy()
    assert (values[~np.isnan(values)] >= 10).all()
    sums = table.iloc[:-1, :-1].sum(axis=1)
    whole = table.iloc[:-1, -1]
    assert (whole.dropna() == sums[whole.notna()]).all()
    assert (sums[whole.isna()] == 0).all()


def test_the_hidden_cell_of_a_row_is_not_its_total_less_the_others() -> None:
    region = pd.Series(["n"] * 53 + ["s"] * 60, name="region")
    sector = pd.Series(["a"] * 30 + ["b"] * 20 + ["c"] * 3 + ["a"] * 20 + ["b"] * 20 + ["c"] * 20, name="sector")
    table = quiet().crosstab(region, sector, margins=True, suppress=True)
    assert np.isnan(table.loc["n", "c"])
    assert table.loc["n", "All"] == 50
    assert table.loc["All", "c"] == 20
    assert table.loc["All", "All"] == 110
    shares = quiet().crosstab(region, sector, normalize="index", suppress=True)
    assert shares.loc["n"].dropna().tolist() == [0.6, 0.4]


def test_a_total_that_fails_although_its_cells_pass_takes_them_along() -> None:
    data = pd.DataFrame({"row": ["r"] * 20 + ["s"] * 20, "column": (["a"] * 10 + ["b"] * 10) * 2})
    data["x"] = [1.0] * 10 + [-1.0] * 10 + [2.0] * 20
    room = quiet(rules=(ZeroCells(), MinimumContributors(n=10)), class_disclosure="off")
    table = room.pivot_table(data, "x", "row", "column", "sum", margins=True, suppress=True)
    assert table.loc["r"].isna().all()
    assert table.loc["s"].tolist() == table.loc["All"].tolist() == [20.0, 20.0, 40.0]
    assert "zero cells" in room.last.summary


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_holdings_with_records_in_many_cells_pass_too(seed: int) -> None:
    data = firms(seed)
    data["who"] = np.random.default_rng(seed).integers(0, 60, len(data))
    table = quiet().pivot_table(
        data, "turnover", "region", "sector", "sum", margins=True, contributor="who", suppress=True
    )
    shown = table.iloc[:-1, :-1].notna()
    left = data[[bool(shown.loc[r, c]) for r, c in zip(data["region"], data["sector"], strict=True)]]
    for region in table.index[table["All"].notna()]:
        part = left if region == "All" else left[left["region"] == region]
        x = part.groupby("who")["turnover"].sum().sort_values(ascending=False).to_numpy()
        assert len(x) >= 10
        assert x[:2].sum() <= 0.9 * x.sum()
        assert x[2:].sum() >= 0.1 * x[0]


def test_rows_that_pandas_drops_still_stand_behind_totals_and_are_taken_out_of_them() -> None:
    region = pd.Series(["n"] * 20 + ["s"] * 20 + ["w"], name="region")
    sector = pd.Series((["a"] * 10 + ["b"] * 10) * 2 + ["a"], name="sector")
    value = pd.Series([*range(40), 900.0], name="x")
    room = quiet()
    open_table = room.crosstab(region, sector, values=value, aggfunc="std", margins=True)
    assert "w" not in open_table.index
    assert room.last.status == "fail"
    assert "not shown" in room.last.summary
    safe = room.crosstab(region, sector, values=value, aggfunc="std", margins=True, suppress=True)
    assert safe.loc["All", "All"] == pytest.approx(np.std(np.arange(40), ddof=1))


def test_hiding_every_cell_leaves_an_empty_table() -> None:
    table = quiet().crosstab(
        pd.Series(list("ab"), name="r"), pd.Series(list("cd"), name="c"), margins=True, suppress=True
    )
    assert table.isna().all(axis=None)
    assert list(table.index) == ["a", "b", "All"]


def test_a_table_without_failing_cells_is_the_same_with_and_without_hiding() -> None:
    data = firms(1, 2000)
    room = quiet()
    plain = room.crosstab(data["region"], data["size"], margins=True)
    pd.testing.assert_frame_equal(room.crosstab(data["region"], data["size"], margins=True, suppress=True), plain)
    assert [o.status for o in room.outputs.values()] == ["pass", "pass"]
    assert SecureRoom(suppress=True, tell=None).suppress


# -- bad input


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"values": "turnovr", "index": "region"}, "Did you mean 'turnover'"),
        ({"values": "turnover", "index": "regio"}, "Did you mean 'region'"),
        ({"values": "turnover"}, "needs a key for its rows"),
        ({"values": "region", "index": "sector"}, "does not hold numbers"),
        ({"values": "turnover", "index": "region", "aggfunc": "max"}, "custom_output"),
        ({"values": "turnover", "index": "region", "aggfunc": "meen"}, "Did you mean 'mean'"),
        ({"values": "turnover", "index": "region", "aggfunc": "min"}, "'min' has no check here. There are"),
        ({"values": "turnover", "index": "region", "aggfunc": []}, "at least one"),
        ({"values": "turnover", "index": "region", "contributor": "house"}, "not in the data"),
        ({"values": "turnover", "index": "turnover"}, "not one of its keys"),
    ],
)
def test_a_mistake_is_named_with_the_way_forward(asked: dict[str, Any], words: str) -> None:
    room = quiet()
    with pytest.raises((DataError, ParameterError), match=words):
        room.pivot_table(firms(), **asked)
    assert not room.outputs


def test_shares_of_something_else_are_refused_with_what_there_is() -> None:
    data = firms()
    with pytest.raises(ParameterError, match="normalize is True or 'all'"):
        quiet().crosstab(data["region"], data["sector"], normalize="rows")


def test_errors_of_pandas_are_retold_without_a_value() -> None:
    data = firms()
    with pytest.raises(DataError) as raised:
        quiet().crosstab(data["region"], data["sector"], margins=True, margins_name="north")
    assert "north" not in str(raised.value)
    assert raised.value.__cause__ is None
    with pytest.raises(DataError, match="different lengths"):
        quiet().crosstab(["a", "b"], ["a", "b", "c"])
    with pytest.raises(DataError, match="use pivot_table"):
        quiet().crosstab("region", "sector")
    with pytest.raises(DataError, match="several columns 'staff'"):
        quiet().pivot_table(pd.concat([data, data[["staff"]]], axis=1), "staff", "region")
    with pytest.raises(ParameterError, match="come together"):
        quiet().crosstab(data["region"], data["sector"], values=data["staff"])
    with pytest.raises(DataError, match="no records"):
        quiet().crosstab(data["region"][:0], data["sector"][:0])
    with pytest.raises(DataError, match="infinite"):
        quiet().pivot_table(data.assign(staff=np.inf), "staff", "region")
    with pytest.raises(DataError, match="no cells"):
        quiet().pivot_table(data.assign(staff=np.nan), "staff", "region", "sector")
