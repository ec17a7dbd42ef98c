"""Tables that exist already, against group-bys of pandas and tables from the same microdata."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.cli.console import on_command_line
from sfumato.errors import DataError, ParameterError
from sfumato.schema import PrefixHierarchy, Scale, TreeHierarchy
from sfumato.tables import APriori, Table

ABOVE = {"a": "north", "b": "north", "c": "south", "d": "south"}
NORTH = TreeHierarchy.from_levels({k: [v] for k, v in ABOVE.items()})


def firms(n: int = 400, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(list("abcd"), n), "sector": g.choice(["x", "y", "z"], n), "kind": g.choice(["p", "q"], n),
        "turnover": np.round(g.lognormal(3, 1.5, n), 1),
    })  # fmt: skip


def by_pandas(frame: pd.DataFrame, dimensions: list[str], above: dict[str, str]) -> pd.DataFrame:
    """Return all cells of a table with their margins: by one group-by for each, with the two largest values."""
    rows = []
    for levels in product(*([("own", "above", "all") if d == "region" else ("own", "all") for d in dimensions])):
        labels = frame.copy()
        for d, level in zip(dimensions, levels, strict=True):
            labels[d] = "Total" if level == "all" else labels[d].map(above) if level == "above" else labels[d]
        for key, part in labels.groupby(dimensions):
            top = part.turnover.sort_values(ascending=False).to_numpy()
            rows.append([*key, part.turnover.sum(), len(part), top[0], top[1] if len(top) > 1 else 0.0])
    return pd.DataFrame(rows, columns=[*dimensions, "value", "n", "top1", "top2"])


def microdata(frame: pd.DataFrame) -> Microdata:
    scales = {"turnover": Scale.ORDERED}
    trees = {"region": NORTH}
    names = [str(n) for n in frame]
    return Microdata(
        frame, Schema(tuple(Attribute(n, scale=scales.get(n, Scale.UNORDERED), hierarchy=trees.get(n)) for n in names))
    )


def same(a: Table, b: Table) -> None:
    """Assert that two tables have the same cells and leaves, in whatever order."""
    rows = [{tuple(r): i for i, r in enumerate(t.cells.labels.tolist())} for t in (a, b)]
    assert rows[0].keys() == rows[1].keys()
    order = [rows[1][k] for k in rows[0]]
    assert a.value == pytest.approx(b.value[order])
    assert a.frequency == pytest.approx(b.frequency[order])
    columns = [sorted(map(tuple, t.cells.incidence.toarray()[o].T.tolist())) for t, o in ((a, slice(None)), (b, order))]
    assert columns[0] == columns[1]


def test_cells_are_those_of_the_microdata_with_margins_given_or_not() -> None:
    frame = firms()
    direct = Table.of(microdata(frame), "region * sector", "turnover")
    full = by_pandas(frame, ["region", "sector"], ABOVE)
    inner = full[full.region.isin(list("abcd")) & (full.sector != "Total")]
    for cells in (full, inner, full.sample(frac=1, random_state=1)):
        table = Table.from_cells(cells, {"region": NORTH, "sector": None}, "value", count="n", top=["top1", "top2"])
        same(table, direct)
        largest, expected = table.largest(2), direct.largest(2)
        for i in range(len(table)):
            j = direct.cells.find(dict(zip(table.cells.dimensions, table.cells.labels[i], strict=True)))
            assert largest.values[i] == pytest.approx(expected.values[j])
            assert largest.contributors[i] == expected.contributors[j]


@pytest.mark.parametrize("nested", [ABOVE, {"north": ["a", "b"], "south": ["c", "d"]}, "regions.hrc", NORTH])
def test_a_hierarchy_may_be_given_in_every_form(nested: Any, tmp_path: Path) -> None:
    if isinstance(nested, str):
        nested = tmp_path / nested
        nested.write_text("north\n@a\n@b\nsouth\n@c\n@d\n")
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    table = Table.from_cells(full, {"region": nested, "sector": None}, "value", count="n")
    same(table, Table.of(microdata(firms()), "region * sector", "turnover"))


def test_labels_right_below_the_total_stand_beside_groups() -> None:
    cells = pd.DataFrame({"place": ["a", "b", "c"], "value": [1.0, 2.0, 4.0]})
    for nested in ({"a": "g", "b": "g", "c": "Total"}, {"a": "g", "b": "g", "g": "Total", "c": "Total"}):
        table = Table.from_cells(cells, {"place": nested}, "value")
        shown = dict(zip(table.cells.labels[:, 0].tolist(), table.value.tolist(), strict=True))
        assert shown == {"Total": 7.0, "g": 3.0, "a": 1.0, "b": 2.0, "c": 4.0}


def test_a_hierarchy_by_prefix_needs_no_list_of_labels() -> None:
    frame = pd.DataFrame({"nace": ["11", "12", "21", "1*", "Total"], "v": [1.0, 2, 4, 3, 7]})
    table = Table.from_cells(frame, {"nace": PrefixHierarchy(2)}, "v")
    assert table.value[table.cells.find(nace="1*")] == 3
    assert table.value[table.cells.find(nace="2*")] == 4


def test_labels_of_any_type_and_frames_of_any_kind_are_read() -> None:
    import polars as pl
    import pyarrow as pa

    frame = pd.DataFrame({"year": [2020, 2021, 2022], "v": [1.0, 2.0, 4.0]}, index=[7, 7, 9])
    for form in (frame, pl.DataFrame(frame.to_dict("list")), pa.Table.from_pandas(frame), Microdata(frame)):
        table = Table.from_cells(form, ["year"], "v")
        assert table.value[table.cells.find(year="2021")] == 2
        assert table.value[table.cells.find()] == 7


@pytest.mark.parametrize("name", ["Total", "TOTAL", "_T", "*", "All", None])
def test_the_total_is_found_under_its_usual_names(name: str | None) -> None:
    frame = pd.DataFrame({"region": ["a", "b", name], "v": [1.0, 2.0, 3.0]})
    table = Table.from_cells(frame, ["region"], "v")
    assert len(table) == 3
    assert table.value[table.cells.find()] == 3


def test_a_total_with_an_unusual_name_is_asked_about_and_then_taken() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    plain = full[~full.region.isin(["north", "south"])].replace("Total", "Ensemble 3")
    with pytest.raises(
        DataError, match="'Ensemble 3' of 'region' is everywhere the sum of the others: is it the total"
    ):
        Table.from_cells(plain, ["region", "sector"], "value")
    table = Table.from_cells(plain, ["region", "sector"], "value", total="Ensemble 3")
    assert table.value[table.cells.find()] == pytest.approx(firms().turnover.sum())
    three = pd.DataFrame({"region": ["a", "b", "c"], "v": [1.0, 2.0, 3.0]})
    with pytest.raises(DataError, match="is it the total"):
        Table.from_cells(three, ["region"], "v")
    assert Table.from_cells(three, ["region"], "v", total={"region": None}).value.max() == 6


def test_a_table_that_does_not_add_up_is_refused_with_its_cells_named() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    full.loc[(full.region == "north") & (full.sector == "x"), "value"] += 1
    with pytest.raises(DataError) as error:
        Table.from_cells(full, {"region": ABOVE, "sector": None}, "value")
    assert "the table does not add up: 3 cells are not the sum of the cells below" in str(error.value)
    for cell in ("region north, sector x (over region)", "sector x (over region)", "region north (over sector)"):
        assert cell in str(error.value)
    table = Table.from_cells(full, {"region": ABOVE, "sector": None}, "value", margins="compute")
    assert table.value[table.cells.find()] == pytest.approx(firms().turnover.sum())


def test_subtotals_without_a_hierarchy_are_refused_with_what_is_missing() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    with pytest.raises(
        DataError, match=r"If labels of 'region' are sums of others, say how they nest \(dimensions="
    ) as e:
        Table.from_cells(full, ["region", "sector"], "value")
    assert "--hierarchy 'region=FILE'" in on_command_line(str(e.value))


def test_frequencies_that_do_not_add_up_are_refused_too() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    full.loc[(full.region == "Total") & (full.sector == "Total"), "n"] += 1
    with pytest.raises(DataError, match=r"the frequencies do not add up: .* the grand total"):
        Table.from_cells(full, {"region": ABOVE, "sector": None}, "value", count="n")


def test_rounding_is_allowed_for_by_half_a_digit_for_each_cell() -> None:
    # three cells of 0.5 - 1e-9 are rounded to 0, their sum to 1 or 2: at most (3 + 1) / 2 = 2 apart
    def rounded(total: float) -> pd.DataFrame:
        return pd.DataFrame({"region": ["a", "b", "c", "Total"], "v": [0.0, 0.0, 0.0, total]})

    assert len(Table.from_cells(rounded(2), ["region"], "v", decimals=0)) == 4
    with pytest.raises(DataError, match="does not add up"):
        Table.from_cells(rounded(3), ["region"], "v", decimals=0)
    with pytest.raises(DataError, match="does not add up"):
        Table.from_cells(rounded(2), ["region"], "v")
    full = by_pandas(firms(2000), ["region", "sector"], ABOVE)
    full["value"] = full.value.round(-1)
    assert len(Table.from_cells(full, {"region": ABOVE, "sector": None}, "value", decimals=-1)) == 28


def test_a_finest_cell_that_is_absent_is_empty_if_the_margins_agree() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    gone = (full.region == "a") & (full.sector == "x")
    without = full[~gone]
    with pytest.raises(DataError, match=r"region a \(over sector\)"):
        Table.from_cells(without, {"region": ABOVE, "sector": None}, "value")
    rest = firms().query("not (region == 'a' and sector == 'x')")
    cells = by_pandas(rest, ["region", "sector"], ABOVE)
    table = Table.from_cells(cells, {"region": ABOVE, "sector": None}, "value", count="n")
    same(table, Table.of(microdata(rest), "region * sector", "turnover"))
    with pytest.raises(DataError, match="1 label of the hierarchy is absent"):
        Table.from_cells(
            pd.DataFrame({"region": ["a", "north"], "v": [1.0, 3.0]}),
            {"region": {"a": "north", "b": "north", "c": "south"}},
            "v",
        )


def test_a_table_may_be_finer_in_one_part_than_in_another() -> None:
    frame = pd.DataFrame(
        [
            ("north", "x", 5.0),
            ("a", "y", 2.0),
            ("b", "y", 3.0),
            ("south", "x", 1.0),
            ("south", "y", 4.0),
            ("Total", "Total", 15.0),
        ],
        columns=["region", "sector", "v"],
    )
    table = Table.from_cells(frame, {"region": ABOVE, "sector": None}, "v")
    assert table.cells.leaves == 5
    assert table.value[table.cells.find(region="north", sector="y")] == 5
    assert table.value[table.cells.find(region="north")] == 10
    with pytest.raises(ParameterError, match="do not occur together"):
        table.cells.find(region="a")  # nobody knows how much of north's x is in a
    known = pd.concat([frame, pd.DataFrame([("a", "Total", 4.0)], columns=frame.columns)])
    with pytest.raises(DataError, match="gives region a and region north, sector x, which overlap"):
        Table.from_cells(known, {"region": ABOVE, "sector": None}, "v")
    kinds = pd.DataFrame({"kind": ["p", "q"], "v": [10.0, 5.0]})
    with pytest.raises(DataError, match="gives region a and region north, sector x, which overlap"):
        Table.from_cells([known, kinds], {"region": ABOVE, "sector": None, "kind": None}, "v")


def test_margins_alone_are_not_a_table_but_may_be_linked_ones() -> None:
    margins = pd.DataFrame(
        [("a", "Total", 5.0), ("b", "Total", 2.0), ("Total", "x", 3.0), ("Total", "y", 4.0)],
        columns=["region", "sector", "v"],
    )
    with pytest.raises(DataError, match="which overlap, but not the cells inside them"):
        Table.from_cells(margins, ["region", "sector"], "v")
    linked = [margins[:2][["region", "v"]], margins[2:][["sector", "v"]]]
    table = Table.from_cells(linked, ["region", "sector"], "v")
    assert len(table) == 5
    assert table.cells.leaves == 4
    assert table.value[table.cells.find(sector="y")] == pytest.approx(4)


@pytest.mark.parametrize(
    "formula", ["region * sector + region * kind", "region * sector + region * kind + sector * kind"]
)
def test_linked_tables_are_those_of_the_microdata(formula: str) -> None:
    frame = firms(3000)
    frames = [by_pandas(frame, term.split(" * "), ABOVE) for term in formula.split(" + ")]
    table = Table.from_cells(
        frames, {"region": NORTH, "sector": None, "kind": None}, "value", count="n", top=["top1", "top2"]
    )
    direct = Table.of(microdata(frame), formula, "turnover")
    same(table, direct)
    assert (table.totals >= 0).all()
    cell = {"region": "north", "kind": "p"}
    assert table.largest(2).values[table.cells.find(cell)] == pytest.approx(
        direct.largest(2).values[direct.cells.find(cell)]
    )


def test_linked_tables_that_disagree_are_refused() -> None:
    frame = firms(300)
    one, two = (by_pandas(frame, d, ABOVE) for d in (["region", "sector"], ["region", "kind"]))
    two.loc[(two.region == "a") & (two.kind == "Total"), "value"] += 1
    with pytest.raises(
        DataError, match="1 cell has another number in column 'value' in one linked table than in the next: region a"
    ):
        Table.from_cells([one, two], {"region": NORTH, "sector": None, "kind": None}, "value")


def test_only_given_margins_are_in_the_table_where_no_others_are_wanted() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    some = full[full.sector != "Total"]
    table = Table.from_cells(some, {"region": ABOVE, "sector": None}, "value", count="n", top=["top1"], margins="given")
    assert len(table) == len(some) == 21
    assert table.largest(1).values.shape == (21, 1)
    assert table.value[table.cells.find(region="north", sector="x")] == pytest.approx(
        some[(some.region == "north") & (some.sector == "x")].value.item()
    )


def test_counts_alone_are_a_table_of_counts() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    table = Table.from_cells(full, {"region": ABOVE, "sector": None}, count="n")
    assert table.is_count
    assert table.integer
    assert np.array_equal(table.value, table.frequency)


def test_what_is_not_known_is_not_made_up() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    table = Table.from_cells(full, {"region": ABOVE, "sector": None}, "value")
    with pytest.raises(DataError, match="does not say how many records"):
        table.frequency.sum()
    assert "records" not in table.frame()
    with pytest.raises(DataError, match="does not say who contributed"):
        table.largest(1)
    # two known contributions and a rest prove three contributors, no more
    known = Table.from_cells(full, {"region": ABOVE, "sector": None}, "value", top=["top1", "top2"])
    assert set(known.largest(1).contributors) == {3.0}
    with pytest.raises(DataError, match="has only 2"):
        known.largest(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": -1.0}, "1 cell is below zero: region a, sector x. Where contributions can be negative"),
        ({"value": np.nan}, "1 cell has no number in column 'value': region a, sector x"),
        ({"n": 1.5}, "1 cell has something else than a whole number of at least 0 in column 'n': region a, sector x"),
        ({"n": -2.0}, "1 cell has something else than a whole number of at least 0 in column 'n': region a, sector x"),
        ({"top1": 1e9}, "1 cell is less than its largest contributions together: region a, sector x"),
        ({"top2": -1.0}, "largest contribution below zero"),
        ({"n": 1.0}, "fewer contributors than largest contributions"),
        ({"n": 0.0, "top1": 0.0, "top2": 0.0}, "1 cell has a value but no contributors: region a, sector x"),
        ({"region": "e"}, "1 label of 'region' is not in its hierarchy: e"),
        ({"region": "Nort"}, "Did you mean 'north'"),
        ({"region": "b"}, "1 cell stands more than once in the table: region b, sector x"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(change: dict[str, Any], message: str) -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    inner = full[full.region.isin(list("abcd")) & (full.sector != "Total")].copy()
    at = (inner.region == "a") & (inner.sector == "x")
    inner["n"] = inner["n"].astype(float)
    for column, new in change.items():
        inner.loc[at, column] = new
    with pytest.raises(DataError, match=message) as error:
        Table.from_cells(inner, {"region": ABOVE, "sector": None}, "value", count="n", top=["top1", "top2"])
    assert "e9" not in str(error.value)  # a contribution is never quoted
    if "value" in change and change["value"] == -1.0:
        table = Table.from_cells(inner, {"region": ABOVE, "sector": None}, "value", nonnegative=False)
        assert not table.nonnegative


def test_contributors_of_a_margin_are_at_least_those_of_its_cells() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    grand = (full.region == "Total") & (full.sector == "Total")
    for column, message in (
        ("who", "fewer contributors than a cell below: the grand total"),
        ("top1", "the grand total"),
    ):
        bad = full.assign(who=full.n)
        bad.loc[grand, column] = 2
        with pytest.raises(DataError, match=message):
            Table.from_cells(
                bad, {"region": ABOVE, "sector": None}, "value", count="n", contributors="who", top=["top1", "top2"]
            )
    with pytest.raises(DataError, match="have more contributors than records"):
        Table.from_cells(
            full.assign(who=full.n + 1), {"region": ABOVE, "sector": None}, "value", count="n", contributors="who"
        )


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "'region' goes in a circle: a under b under c under a"),
        ({"a": "a"}, "goes in a circle: a under a"),
        ({"a": "Total", "Total": "x", "b": "y"}, "'Total' below its top"),
        (7, "must be a Hierarchy, the name of an .hrc file"),
    ],
)
def test_hierarchies_that_are_none_are_refused(nested: Any, message: str) -> None:
    with pytest.raises((DataError, ParameterError), match=message):
        Table.from_cells(pd.DataFrame({"region": ["a"], "v": [1.0]}), {"region": nested}, "v")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name the column of the values"),
        ({"value": "w"}, "column 'w' is not in the data"),
        ({"value": "region"}, "where numbers are needed"),
        ({"value": "v", "margins": "all"}, "margins must be 'check', 'compute' or 'given'; got 'all'"),
        ({"value": "v", "dimensions": []}, "at least one column of labels"),
        ({"value": "v", "dimensions": ["regon"]}, "Did you mean 'region'"),
        ({"value": "v", "decimals": 1.5}, "decimals must be a whole number"),
        ({"value": "v", "total": "Sum"}, "no dimension has the label 'Sum'"),
        ({"value": "v", "total": {"regon": "Sum"}}, "Did you mean 'region'"),
        ({"value": "v", "total": {"region": "tot"}}, "label 'tot' is not in dimension 'region'"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    frame = pd.DataFrame({"region": ["a", "b"], "v": [1.0, 2.0]})
    with pytest.raises((DataError, ParameterError), match=message):
        Table.from_cells(frame, **{"dimensions": ["region"], **options})
    with pytest.raises(DataError, match="has no cells"):
        Table.from_cells(frame[:0], ["region"], "v")


def test_spaces_around_labels_count_only_where_the_hierarchy_has_them() -> None:
    frame = pd.DataFrame({"region": [" 1", "2 ", " Total"], "v": [1.0, 2.0, 3.0]})
    table = Table.from_cells(frame, {"region": {"1": "n", "2": "s"}}, "v")
    assert table.value[table.cells.find(region="n")] == 1
    assert table.value[table.cells.find()] == 3
    spaced = Table.from_cells(frame, {"region": {" 1": "n", "2": "s"}}, "v")
    assert spaced.value[spaced.cells.find(region=" 1")] == 1


def test_one_cell_is_a_table() -> None:
    table = Table.from_cells(pd.DataFrame({"region": ["Total"], "v": [3.0]}), ["region"], "v")
    assert table.value.tolist() == [3.0]
    assert table.cells.name(0) == "the grand total"


def test_two_names_for_a_total_are_one_too_many() -> None:
    frame = pd.DataFrame({"region": ["a", "Total", "*"], "v": [1.0, 1.0, 1.0]})
    with pytest.raises(DataError, match=r"several labels of 'region' could be its total: Total, \*"):
        Table.from_cells(frame, ["region"], "v")
    with pytest.raises(DataError, match="'Total' is a label of 'region' but not its total"):
        Table.from_cells(frame, ["region"], "v", total={"region": "*"})


def test_what_is_wanted_of_cells_is_found_by_their_labels() -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    table = Table.from_cells(full, {"region": ABOVE, "sector": None}, "value")
    wanted = APriori(statuses={("a", "x"): "unsafe"}, costs={("Total", "x"): 2.0}, lower_level={("a", "x"): 0.5})
    statuses = wanted.on(table.cells, "statuses")
    assert np.flatnonzero(statuses == "unsafe").tolist() == [table.cells.find(region="a", sector="x")]
    assert wanted.on(table.cells, "costs", 1.0)[table.cells.find(sector="x")] == 2
    assert np.isnan(wanted.on(table.cells, "upper")).all()
    both = wanted | APriori(statuses={("a", "x"): "protected"})
    assert both.on(table.cells, "statuses")[table.cells.find(region="a", sector="x")] == "protected"
    with pytest.raises(DataError, match=r"statuses are given for the cell \(x, a\), which is not in the table"):
        APriori(statuses={("x", "a"): "safe"}).on(table.cells, "statuses")


def test_a_file_of_cells_is_read_by_its_name(tmp_path: Path) -> None:
    full = by_pandas(firms(), ["region", "sector"], ABOVE)
    full.to_csv(tmp_path / "cells.csv", index=False)
    table = Table.from_cells(tmp_path / "cells.csv", {"region": ABOVE, "sector": None}, "value", count="n")
    assert len(table) == 28


def test_statuses_and_costs_may_stand_beside_the_cells() -> None:
    frame = pd.DataFrame({
        "region": ["a", "b", "*"], "mark": ["U", "", "Protected"], "price": [np.nan, 3.0, 1.0], "low": [0.5, np.nan, np.nan],
    })  # fmt: skip
    wanted = APriori.of(frame, ["region"], status="mark", cost="price", lower_level="low")
    assert wanted.statuses == {("a",): "unsafe", ("Total",): "protected"}
    assert wanted.costs == {("b",): 3.0, ("Total",): 1.0}
    assert wanted.lower_level == {("a",): 0.5}
    with pytest.raises(ParameterError, match="that of a is not"):
        APriori.of(frame.assign(mark="unsave"), ["region"], status="mark")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"statuses": {("a",): "unsave"}}, "Did you mean 'unsafe'"),
        ({"costs": {("a",): 0.0}}, "costs must be above 0; that of a is not"),
        ({"lower_level": {("a",): -1.0}}, "lower_level must be at least 0"),
        ({"lower": {("a",): 2.0}, "upper": {("a",): 1.0}}, "wrong way round"),
    ],
)
def test_what_cannot_be_wanted_of_a_cell_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        APriori(**fields)


def test_ten_thousand_cells_are_read_at_once() -> None:
    g = np.random.default_rng(2)
    frame = pd.DataFrame(list(product(range(40), range(25), range(10))), columns=["r", "s", "k"])
    frame["v"] = g.lognormal(3, 1, len(frame))
    table = Table.from_cells(frame, {"r": {str(i): f"g{i // 5}" for i in range(40)}, "s": None, "k": None}, "v")
    assert len(table) == (40 + 8 + 1) * 26 * 11
    assert table.value[table.cells.find(r="g0", s="3")] == pytest.approx(frame[(frame.r < 5) & (frame.s == 3)].v.sum())


def random_tree(g: np.random.Generator, name: str) -> TreeHierarchy:
    """Return a tree of up to three levels whose branches have different lengths."""

    def grow(prefix: str, depth: int) -> dict[str, Any] | None:
        if depth == 0 or g.random() < 0.35:
            return None
        return {f"{prefix}{i}": grow(f"{prefix}{i}", depth - 1) for i in range(g.integers(1, 4))}

    return TreeHierarchy.from_tree({f"{name}{i}": grow(f"{name}{i}", 2) for i in range(g.integers(2, 4))})


@pytest.mark.parametrize("seed", range(40))
def test_any_table_is_read_back_and_any_wrong_margin_is_named(seed: int) -> None:
    g = np.random.default_rng(seed)
    names = ["p", "q", "r"][: g.integers(1, 4)]
    trees = {d: random_tree(g, d) if g.random() < 0.7 else None for d in names}
    finest = {d: list(t.values) if t is not None else [f"{d}{i}" for i in range(3)] for d, t in trees.items()}
    n = int(g.integers(5, 200))
    frame = pd.DataFrame({d: g.choice(finest[d], n) for d in names} | {"v": g.integers(0, 1000, n) / 8})
    attributes = [*(Attribute(d, scale=Scale.UNORDERED, hierarchy=trees[d]) for d in names), Attribute("v")]
    direct = Table.of(Microdata(frame, Schema(tuple(attributes))), " * ".join(names), "v")
    cells = direct.frame()
    inner = cells[names].isin([v for d in names for v in finest[d]]).all(axis=1)
    kept = inner | (g.random(len(cells)) < g.random())  # the finest cells, and some margins
    total = {d: "Total" if (cells.loc[kept, d] == "Total").any() else None for d in names}
    table = Table.from_cells(
        cells[kept].sample(frac=1, random_state=seed), trees, "value", count="records", total=total
    )
    same(table, direct)
    margins = np.flatnonzero(kept & ~inner)
    if len(margins):
        wrong = int(g.choice(margins))
        cells["value"] += np.where(np.arange(len(cells)) == wrong, 0.125, 0.0)
        with pytest.raises(DataError, match="does not add up") as error:
            Table.from_cells(cells[kept], trees, "value", total=total)
        # the cell itself, or it is one of the parts of every cell that is named
        assert f"{direct.cells.name(wrong)} (" in str(error.value) or "more" in str(error.value)


def test_a_linked_table_may_be_coarser_in_a_dimension_that_they_share() -> None:
    frame = firms(800)
    one = by_pandas(frame, ["region", "sector"], ABOVE)
    grouped = frame.assign(region=frame.region.map(ABOVE))
    two = by_pandas(grouped, ["region", "kind"], {v: v for v in ABOVE.values()}).drop_duplicates(["region", "kind"])
    table = Table.from_cells([one, two], {"region": NORTH, "sector": None, "kind": None}, "value", count="n")
    assert table.cells.leaves == 4 * 3 * 2
    direct = Table.of(
        Microdata(frame.assign(group=grouped.region)), "region * sector + group * sector + group * kind", "turnover"
    )
    for group, kind in product(["north", "south"], ["p", "q"]):
        expected = direct.value[direct.cells.find(group=group, kind=kind)]
        assert table.value[table.cells.find(region=group, kind=kind)] == pytest.approx(expected)
    for group, sector in product(["north", "south"], "xyz"):
        expected = direct.value[direct.cells.find(group=group, sector=sector)]
        assert table.value[table.cells.find(region=group, sector=sector)] == pytest.approx(expected)
    asked = {tuple(row) for row in table.cells.labels.tolist()}
    assert ("a", "Total", "p") not in asked  # nobody gave, or can work out, the kinds within a region


def test_linked_tables_may_be_rounded_each_on_its_own() -> None:
    frame = firms(500)
    one, two = (
        by_pandas(frame, d, {}).query("region in ['a', 'b', 'c', 'd']")
        for d in (["region", "sector"], ["region", "kind"])
    )
    one, two = (t[(t.iloc[:, 1] != "Total")].assign(value=t.value.round(-1)) for t in (one, two))
    sums = [t.groupby("region").value.sum() for t in (one, two)]
    assert (sums[0] != sums[1]).any()  # so that they do not agree to the digit
    dimensions = ["region", "sector", "kind"]
    with pytest.raises(DataError, match="contradict each other"):
        Table.from_cells([one, two], dimensions, "value")
    table = Table.from_cells([one, two], dimensions, "value", decimals=-1)
    for region, sector, value in zip(one.region, one.sector, one.value, strict=True):
        # three sectors and two kinds of a region: at most five halves of ten apart
        assert abs(table.value[table.cells.find(region=str(region), sector=str(sector))] - value) <= 25
    two = two.assign(value=two.value + np.where(np.arange(len(two)) == 0, 100.0, 0.0))
    with pytest.raises(DataError, match="contradict each other"):
        Table.from_cells([one, two], dimensions, "value", decimals=-1)


def test_a_cell_without_a_counterpart_in_a_linked_table_is_empty_or_refused() -> None:
    one = pd.DataFrame({"region": ["a", "b", "c"], "sector": ["x", "x", "y"], "v": [2.0, 3.0, 0.0]})
    two = pd.DataFrame({"region": ["a", "b"], "kind": ["p", "q"], "v": [2.0, 3.0]})
    table = Table.from_cells([one, two], ["region", "sector", "kind"], "v")
    assert table.value[table.cells.find(region="c", sector="y")] == 0
    assert table.value[table.cells.find()] == pytest.approx(5)
    with pytest.raises(DataError, match="1 cell of one linked table has no part in another: region c, sector y"):
        Table.from_cells([one.assign(v=[2.0, 3, 1]), two], ["region", "sector", "kind"], "v")


def test_linked_tables_that_nothing_could_be_made_of_are_refused() -> None:
    one = pd.DataFrame({"a": ["1", "1", "2", "2"], "b": ["1", "2", "1", "2"], "v": [5.0, 0, 0, 5]})
    two = pd.DataFrame({"b": ["1", "1", "2", "2"], "c": ["1", "2", "1", "2"], "v": [5.0, 0, 0, 5]})
    three = pd.DataFrame({"a": ["1", "1", "2", "2"], "c": ["1", "2", "1", "2"], "v": [0.0, 5, 5, 0]})
    table = Table.from_cells([one, two], ["a", "b", "c"], "v")
    assert table.value[table.cells.find(c="2")] == pytest.approx(5)
    with pytest.raises(DataError, match="the linked tables contradict each other"):
        Table.from_cells([one, two, three], ["a", "b", "c"], "v")


def test_tables_that_share_nothing_are_not_crossed_without_end() -> None:
    one = pd.DataFrame({"a": np.arange(3000), "v": 1.0})
    two = pd.DataFrame({"b": np.arange(3000), "v": 1.0})
    with pytest.raises(ParameterError, match="cut each other into more than 5,000,000 parts"):
        Table.from_cells([one, two], ["a", "b"], "v")


@pytest.mark.parametrize("seed", range(4))
def test_linked_tables_whose_parts_can_only_be_empty_are_read(seed: int) -> None:
    # with these zeros proportional fitting comes no nearer than about one over the number of its rounds
    g = np.random.default_rng(seed)
    inner = g.integers(0, 4, (3, 4, 3)) * (g.random((3, 4, 3)) < 0.5)
    inner[:2, :2, :2] = [[[0, 3], [2, 5]], [[4, 1], [6, 0]]]  # the eight move together: the two zeros hold each other
    index = pd.MultiIndex.from_product([list("abc"), list("wxyz"), list("pqr")], names=["region", "sector", "kind"])
    cells = pd.Series(inner.ravel(), index, name="n").reset_index()
    pairs = [["region", "sector"], ["sector", "kind"], ["region", "kind"]]
    frames = [cells.groupby(d, as_index=False).n.sum() for d in pairs]
    table = Table.from_cells(frames, list(index.names), count="n")
    for d, frame in zip(pairs, frames, strict=True):
        for *labels, n in frame.itertuples(index=False):
            assert table.value[table.cells.find(dict(zip(d, labels, strict=True)))] == n  # to the last digit
    assert (table.frequency == table.value).all()


def test_linked_tables_that_contradict_each_other_are_refused_with_the_cells() -> None:
    one = pd.DataFrame({"a": ["1", "1", "2", "2"], "b": ["1", "2", "1", "2"], "v": [5.0, 0, 0, 5]})
    two = pd.DataFrame({"b": ["1", "1", "2", "2"], "c": ["1", "2", "1", "2"], "v": [5.0, 0, 0, 5]})
    three = pd.DataFrame({"a": ["1", "1", "2", "2"], "c": ["1", "2", "1", "2"], "v": [0.0, 5, 5, 0]})
    with pytest.raises(DataError, match=r"These cannot all be right: \[a ., b .\].*\[b ., c .\]"):
        Table.from_cells([one, two, three], ["a", "b", "c"], "v")


def test_the_top_of_a_hierarchy_may_stand_below_the_total() -> None:
    frame = pd.DataFrame({"town": ["Rome", "Pisa", "Italy", "Total"], "v": [1.0, 2.0, 3.0, 3.0]})
    for total in (None, "Total", {"town": "Total"}):
        table = Table.from_cells(frame, {"town": {"Rome": "Italy", "Pisa": "Italy"}}, "v", total=total)
        assert dict(zip(table.cells.labels[:, 0], table.value, strict=True)) == dict(
            zip(frame.town, frame.v, strict=True)
        )


def test_a_dimension_with_one_label_has_margins_that_are_its_cells() -> None:
    frame = pd.DataFrame({
        "r": ["a", "a"], "s": ["x", "y"], "v": [100.0, 50.0], "n": [5, 6], "first": [40.0, 20.0], "second": [30.0, 10.0],
    })  # fmt: skip
    table = Table.from_cells(frame, ["r", "s"], "v", count="n", top=["first", "second"])
    largest = table.largest(2)
    for labels in ({"s": "x"}, {"r": "a", "s": "x"}):
        assert largest.values[table.cells.find(labels)].tolist() == [40.0, 30.0]
    assert largest.values[table.cells.find({})].tolist() == [40.0, 30.0]
    assert largest.contributors[table.cells.find({})] == 11
