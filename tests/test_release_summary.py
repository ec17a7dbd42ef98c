"""Before and after: figures against pandas and NumPy, small cells that are never shown, the chart's data, and edges."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_files import amounts, microdata

from sfumato import Draws, Release
from sfumato.charts.theme import to_svg
from sfumato.contract import Recipe
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import (
    PRAM,
    FullNormalSynthesis,
    Generalise,
    KimNoise,
    Recode,
    Sample,
    SuppressColumns,
    SuppressValues,
)
from sfumato.schema import IntervalHierarchy
from sfumato.utility import ReleaseSummary, release_summary


def frame_of(data: Microdata) -> pd.DataFrame:
    """A file as pandas, NaN for codes of no answer."""
    frame = data.batch().rows.to_arrow().to_pandas()
    return frame.assign(**{a.name: frame[a.name].mask(frame[a.name].isin(a.missing)) for a in data.schema if a.missing})


def figure(frame: pd.DataFrame, **where: Any) -> pd.Series:
    for name, value in where.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, where
    return frame.iloc[0]


@pytest.fixture(scope="module")
def people() -> Microdata:
    return census(households=1_000, fraction=0.5).sample


@pytest.fixture(scope="module")
def release(people: Microdata) -> Release:
    recipe = (
        KimNoise(columns=("salary", "rent"), lambda2=0.3) >> PRAM(("marital",), pd=0.6) >> SuppressColumns("tenure")
    )
    return recipe.apply(people, Draws(4))


@pytest.fixture(scope="module")
def summary(release: Release) -> ReleaseSummary:
    return release_summary(release)


# -- figures


def test_statistics_are_those_of_pandas(summary: ReleaseSummary, release: Release) -> None:
    before, after = frame_of(release.original), frame_of(release.masked)
    for name in ("salary", "rent", "size"):
        for what, compute in {
            "mean": lambda x: x.mean(), "standard deviation": lambda x: x.std(), "missing": lambda x: x.isna().mean(),
            "median": lambda x: x.median(),
            "upper quartile": lambda x: np.quantile(x.dropna(), 0.75, method="averaged_inverted_cdf"),
        }.items():  # fmt: skip
            row = figure(summary.statistics, column=name, statistic=what)
            assert row["before"] == pytest.approx(compute(before[name]), rel=1e-9), (name, what)
            assert row["after"] == pytest.approx(compute(after[name]), rel=1e-9), (name, what)
            assert row["difference"] == pytest.approx(row["after"] - row["before"])


def test_shares_are_those_of_pandas(summary: ReleaseSummary, release: Release) -> None:
    before, after = (
        frame_of(d)["marital"].fillna("missing").value_counts(normalize=True)
        for d in (release.original, release.masked)
    )
    for row in summary.distributions[summary.distributions["column"] == "marital"].itertuples():
        if "rare" not in row.category:
            assert row.before == pytest.approx(before[row.category])
            assert row.after == pytest.approx(after.get(row.category, 0.0))
    sums = summary.distributions.groupby("column")[["before", "after"]].sum()
    np.testing.assert_allclose(sums, 1)


def test_a_two_way_table_of_categories_is_apart_by_total_variation(summary: ReleaseSummary, release: Release) -> None:
    one, two = (
        pd.crosstab(f["sex"], f["marital"].fillna("-"), normalize="all")
        for f in map(frame_of, (release.original, release.masked))
    )
    want = float(one.sub(two, fill_value=0).abs().to_numpy().sum()) / 2
    assert figure(summary.tables, first="sex", second="marital")["distance"] == pytest.approx(want)
    assert summary.tables["distance"].is_monotonic_decreasing
    assert figure(summary.tables, first="area", second="sex")["distance"] == pytest.approx(0, abs=1e-12)


def test_correlations_are_those_of_pandas_over_the_records_that_have_both(
    summary: ReleaseSummary, release: Release
) -> None:
    before, after = frame_of(release.original), frame_of(release.masked)
    row = figure(summary.correlations, first="rent", second="salary")
    assert row["before"] == pytest.approx(before["rent"].corr(before["salary"]))
    assert row["after"] == pytest.approx(after["rent"].corr(after["salary"]))
    assert summary.correlations["difference"].abs().is_monotonic_decreasing


def test_weights_count_persons(people: Microdata, release: Release) -> None:
    found = release_summary(release, ["salary", "rent", "marital"], weighted=True)
    for data, side in ((people, "before"), (release.masked, "after")):
        frame = frame_of(data)
        known = frame["salary"].notna()
        x, w = frame.loc[known, "salary"].to_numpy(float), frame.loc[known, "weight"].to_numpy(float)
        mean = np.average(x, weights=w)
        assert figure(found.statistics, column="salary", statistic="mean")[side] == pytest.approx(mean)
        spread = np.sqrt(np.cov(x, aweights=w, ddof=0) * len(x) / (len(x) - 1))
        assert figure(found.statistics, column="salary", statistic="standard deviation")[side] == pytest.approx(spread)
        order = np.argsort(x, kind="stable")
        median = x[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]
        assert figure(found.statistics, column="salary", statistic="median")[side] == pytest.approx(median)
        share = frame.loc[frame["marital"] == "married", "weight"].sum() / frame["weight"].sum()
        assert figure(found.distributions, column="marital", category="married")[side] == pytest.approx(share)
        both = frame[["rent", "salary", "weight"]].dropna().to_numpy(float)
        r = np.cov(both[:, 0], both[:, 1], aweights=both[:, 2])
        want = r[0, 1] / np.sqrt(r[0, 0] * r[1, 1])
        assert figure(found.correlations, first="salary", second="rent")[side] == pytest.approx(want)
    assert "weighted" in found.verdict[0]
    with pytest.raises(DataError, match="needs survey weights"):
        release_summary(Release.as_it_is(teachers(100)), weighted=True)


def test_the_share_of_changed_values_is_told_where_records_are_aligned(
    summary: ReleaseSummary, release: Release
) -> None:
    before, after = frame_of(release.original), frame_of(release.masked)
    changed = (before["marital"].fillna("-") != after["marital"].fillna("-")).mean()
    assert summary.changed["marital"] == pytest.approx(changed)
    assert summary.changed["sex"] == 0
    assert summary.absent == ("tenure",)
    assert "Not released: tenure." in summary.verdict
    assert not release_summary(Release.of(release.original, release.masked)).changed


def test_an_unchanged_file_has_nothing_to_tell(people: Microdata) -> None:
    found = release_summary(Release.as_it_is(people))
    assert (found.frame()["difference"] == 0).all()
    assert found.verdict == (
        f"{len(people):,} original records and {len(people):,} released.",
        f"None of {len(found.names)} columns were changed.",
        "None of the figures changed.",
    )


# -- recoding


def test_what_was_recoded_is_compared_as_it_is_released() -> None:
    g = np.random.default_rng(2)
    ages = IntervalHierarchy.from_widths([10, 20], bottom=0, top=80)
    data = microdata(
        {"age": {"hierarchy": ages, "scale": "ordered"}, "job": {}},
        age=g.integers(20, 60, 300).astype(float), job=g.choice(["cook", "nurse", "doctor"], 300).tolist(),
    )  # fmt: skip
    rule = Recode({"job": {"nurse": "health", "doctor": "health"}}, unlisted="keep")
    found = release_summary((Generalise(columns="age", level=1) >> rule).apply(data, Draws(1)))
    assert found.distributions["difference"].abs().max() == pytest.approx(0, abs=1e-12)
    assert set(found.distributions["category"]) == {"[20, 30)", "[30, 40)", "[40, 50)", "[50, 60)", "cook", "health"}
    middles = data.numbers("age") // 10 * 10 + 5
    mean = figure(found.statistics, column="age", statistic="mean")["after"]
    assert mean == pytest.approx(
        middles.mean(), abs=0.5001
    )  # an interval stands for its middle, of whole numbers or of all


def test_suppressed_values_are_missing(people: Microdata) -> None:
    made = SuppressValues(("marital",), where="age > 60").apply(people, Draws(1))
    found = release_summary(made, ["marital", "sex"])
    row = figure(found.distributions, column="marital", category="missing")
    before, after = (frame_of(d)["marital"].isna().mean() for d in (people, made.masked))
    assert after > before
    assert (row["before"], row["after"]) == pytest.approx((before, after))


# -- what must not be shown


def test_categories_of_few_records_stand_together_and_never_alone() -> None:
    data = microdata(x=["a"] * 50 + ["b"] * 30 + ["c"] * 4 + ["d"] * 3 + [None] * 2)
    rows = release_summary(Release.as_it_is(data)).distributions
    assert rows["category"].tolist() == ["a", "4 rare ones"]  # c, d and missing are nine: b joins them
    assert rows["before"].tolist() == pytest.approx([50 / 89, 39 / 89])
    all_shown = release_summary(Release.as_it_is(data), fewest=2).distributions["category"].tolist()
    assert all_shown == ["a", "b", "c", "d", "missing"]


def test_numbers_of_few_records_have_no_quartiles_and_no_mean() -> None:
    x = [1.0] * 20 + [2.0] * 15 + [np.nan] * 60
    rows = release_summary(Release.as_it_is(amounts(x=x, y=[3.0] * 95))).statistics
    assert set(rows[rows["column"] == "x"]["statistic"]) == {"mean", "standard deviation", "missing"}
    few = amounts(x=[1.0] * 9 + [np.nan] * 91, y=np.arange(100.0).tolist())
    assert set(release_summary(Release.as_it_is(few)).statistics["column"]) == {"y"}
    gaps = amounts(x=[*np.arange(96.0).tolist(), np.nan, np.nan, np.nan, np.nan])
    assert "missing" not in set(release_summary(Release.as_it_is(gaps)).statistics["statistic"])


def test_neither_the_smallest_nor_the_largest_value_is_anywhere() -> None:
    data = amounts(
        pay=[*np.linspace(1000, 2000, 200).tolist(), 987_654.25], rent=[*np.linspace(10, 90, 200).tolist(), -54_321.5]
    )
    found = release_summary(KimNoise(columns=("pay",), lambda2=0.0).apply(data, Draws(1)))
    everything = str(found) + json.dumps(found.to_dict()) + json.dumps(found.chart().to_dict())
    for value in ("987654", "987,654", "54321", "54,321"):
        assert value not in everything


def test_a_file_of_few_records_shows_nothing() -> None:
    data = microdata(x=["a", "b", "b"], y=["1", "1", "2"])
    found = release_summary(Release.as_it_is(data))
    assert not len(found.frame())
    assert found.verdict[-1] == "No figure is shown, since none would rest on 10 original records."
    with pytest.raises(NotApplicable, match="nothing to draw"):
        found.chart()
    assert found.section().content == []


# -- chart, report, JSON


def test_the_chart_shows_the_numbers_of_the_frames(summary: ReleaseSummary) -> None:
    drawn: list[dict[str, Any]] = []

    def gather(node: Any) -> None:
        if isinstance(node, dict) and ("what" in node or "row" in node):
            drawn.append(node)
        elif isinstance(node, dict | list | tuple):
            for below in node.values() if isinstance(node, dict) else node:
                gather(below)

    spec = summary.chart().to_dict()
    gather(spec)
    distances = sorted(r["x"] for r in drawn if r.get("what") == "distance")
    assert len(distances) == 6  # three columns changed, and each stands in two tables at most
    assert distances[-1] == pytest.approx(100 * summary.tables["distance"].max())
    share = summary.distributions.iloc[summary.distributions["difference"].abs().to_numpy().argmax()]
    label = f"{share['column']}: {share['category']}"
    (after,) = [r["x"] for r in drawn if r.get("row") == label and r.get("what") == "after"]
    assert after == pytest.approx(100 * share["after"])
    mean = figure(summary.statistics, column="salary", statistic="mean")
    spread = figure(summary.statistics, column="salary", statistic="standard deviation")["before"]
    means = [r["x"] for r in drawn if r.get("what") == "mean" and r.get("column") == "salary"]
    assert means == pytest.approx([0, mean["difference"] / spread])
    assert to_svg(spec).startswith("<svg")


def test_the_frame_is_tidy_and_json_holds_no_nan(summary: ReleaseSummary) -> None:
    assert list(summary.frame()) == ["section", "column", "other", "figure", "before", "after", "difference"]
    assert set(summary.frame()["section"]) == {"statistics", "distributions", "tables", "correlations"}
    document = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert document["not_released"] == ["tenure"]
    section = summary.section()
    assert section.title == "Before and after"
    assert [t.heads[0] for t in section.content[:-1]] == ["column", "column", "table", "columns"]  # type: ignore[union-attr]
    assert "Numbers, before → after" in str(summary)


# -- edges


@pytest.mark.parametrize(
    "columns",
    [
        {"x": pa.array([], pa.float64()), "y": pa.array([], pa.string())},
        {"x": [1.0], "y": ["a"]},
        {"x": [np.nan] * 30, "y": ["a"] * 30},
        {"x": [np.inf, *range(29)], "y": ["a", None] * 15},
        {"x": (np.arange(1, 31) * 1e300).tolist(), "y": ["b"] * 30},
        {"x": [7.0] * 30, "y": [str(i) for i in range(30)]},
    ],
)
def test_extreme_files_are_summed_up_all_the_same(columns: dict[str, Any]) -> None:
    data = amounts({"x": {"scale": "ordered"}, "y": {"scale": "unordered"}}, **columns)
    found = release_summary(Release.of(data, data))
    json.dumps(found.to_dict(), allow_nan=False)
    assert str(found)
    if len(found.frame()):
        to_svg(found.chart())


def test_a_release_without_records_a_sample_and_synthetic_implicates(people: Microdata) -> None:
    empty = release_summary(Release.of(people, people.take(np.arange(0))))
    assert figure(empty.statistics, column="salary", statistic="mean")[["after"]].isna().all()
    assert "Released without any number" in " ".join(empty.verdict)
    to_svg(empty.chart())
    half = release_summary(Sample(size=300, unit="record").apply(people, Draws(1)))
    assert half.records == (len(people), 300)
    made = FullNormalSynthesis(columns=("salary", "interest"), implicates=3).apply(people, Draws(1))
    found = release_summary(made, ["salary", "interest"])
    each = [np.nanmean(d.numbers("salary")) for d in made.implicates]
    assert figure(found.statistics, column="salary", statistic="mean")["after"] == pytest.approx(np.mean(each))


def test_many_columns_make_the_tables_that_changed_most() -> None:
    g = np.random.default_rng(0)
    data = amounts(**{f"x{i:02d}": g.normal(size=200) for i in range(25)})
    made = Recipe.of(KimNoise(columns=("x07",), lambda2=2.0)).apply(data, Draws(1))
    found = release_summary(made)
    assert len(found.tables) == 20 * 19 / 2
    assert "x07" in (found.tables["first"][0], found.tables["second"][0])
    listed = [row[0] for t in found.text_tables() if t.heads[0] == "table" for row in t.rows]
    assert sum("x07" in row for row in listed) == 2  # one column does not fill the list
    to_svg(found.chart())


def test_tables_of_a_few_records_in_each_cell_are_left_out_and_codes_are_no_numbers() -> None:
    g = np.random.default_rng(0)
    facts = {"zip": {"scale": "unordered", "role": "key"}, "sex": {"scale": "unordered", "role": "key"}}
    data = amounts(facts, zip=g.integers(0, 40, 400), sex=g.choice(["f", "m"], 400).tolist(), pay=g.normal(size=400))
    found = release_summary(Release.as_it_is(data))
    assert set(found.statistics["column"]) == {"pay"}
    assert set(found.distributions["column"]) == {"sex", "zip"}
    assert list(zip(found.tables["first"], found.tables["second"], strict=True)) == [
        ("zip", "sex"),
        ("sex", "pay"),
    ]  # zip × pay: 200 cells


def test_bad_questions_are_refused_in_a_sentence(people: Microdata) -> None:
    as_it_is = Release.as_it_is(people)
    with pytest.raises(DataError, match="Did you mean 'salary'"):
        release_summary(as_it_is, ["slary"])
    for wrong in (0, True, 2.5):
        with pytest.raises(ParameterError, match="fewest must be a whole number of records"):
            release_summary(as_it_is, fewest=wrong)  # type: ignore[arg-type]


def test_numbers_cut_by_pandas_are_read_by_their_brackets() -> None:
    x = np.random.default_rng(2).uniform(0, 100, 400)
    cut = pd.cut(pd.Series(x), [0, 25, 50, np.inf]).astype(str)
    release = Release.of(amounts(x=x), amounts(x=cut.tolist()))
    summary = release_summary(release)
    counted = cut.value_counts(normalize=True)
    for label in ("(0.0, 25.0]", "(25.0, 50.0]"):
        row = figure(summary.distributions, category=label)
        assert row["before"] == row["after"] == pytest.approx(counted[label])
    middles = cut.map({"(0.0, 25.0]": 12.5, "(25.0, 50.0]": 37.5, "(50.0, inf]": (50 + x.max()) / 2})
    assert figure(summary.statistics, statistic="mean")["after"] == pytest.approx(middles.mean())
    assert "without any number" not in str(summary)


def test_what_cannot_be_told_is_a_dash_and_a_lost_spread_is_minus_100_percent() -> None:
    g = np.random.default_rng(1)
    data = {"x": g.normal(40, 9, 100), "y": g.normal(0, 1, 100)}
    text = str(release_summary(Release.of(amounts(**data), amounts(**{**data, "y": np.full(100, 3.0)}))))
    assert "nan" not in text
    assert "(-100 %)" in text
