"""Tables before protection, against plain group-bys of pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Schema
from sfumato.errors import DataError, ParameterError
from sfumato.schema import TreeHierarchy
from sfumato.tables import Table
from sfumato.tables.cells import terms

NORTH = TreeHierarchy.from_levels({"a": ["north"], "b": ["north"], "c": ["south"], "d": ["d"]})


def firms(n: int = 200, seed: int = 1) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    return pd.DataFrame({
        "region": g.choice(list("abcd"), n), "sector": g.choice(["x", "y", "z"], n), "kind": g.integers(0, 3, n),
        "owner": g.integers(0, 60, n), "turnover": np.round(g.lognormal(3, 1.5, n), 1), "weight": g.choice([1.0, 2.5, 4.0], n),
    })  # fmt: skip


def microdata(frame: pd.DataFrame, **roles: Any) -> Microdata:
    schema = Schema(tuple(
        Attribute(n, scale="unordered" if n in ("region", "sector", "kind", "owner") else "ordered",
                  role=roles.get(n, "other"), hierarchy=NORTH if n == "region" else None) for n in frame
    ))  # fmt: skip
    return Microdata(frame, schema)


def brute_force(frame: pd.DataFrame, labels: dict[str, str], values: np.ndarray) -> float:
    """Return the sum over the records that a cell's labels describe."""
    inside = np.ones(len(frame), bool)
    for column, label in labels.items():
        if label != "Total":
            groups = frame[column].astype(str)
            if column == "region":
                groups = groups.where(groups == label, groups.map({v: NORTH.path(v)[1] for v in "abcd"}))
            inside &= (groups == label).to_numpy()
    return float(values[inside].sum())


def test_every_cell_is_the_sum_of_its_records() -> None:
    frame = firms()
    table = Table.of(microdata(frame), "region * sector + kind * sector", "turnover")
    for cell in range(len(table)):
        labels = dict(zip(table.cells.dimensions, table.cells.labels[cell], strict=True))
        assert table.value[cell] == pytest.approx(brute_force(frame, labels, frame.turnover.to_numpy()))
        assert table.frequency[cell] == brute_force(frame, labels, np.ones(len(frame)))
    # a label that stands on two levels (d) is one cell: 4 values and 2 groups of them, 3 sectors, 3 kinds
    regions = 1 + 4 + 2
    assert len(table) == regions * 4 + 3 * 4
    assert table.cells.leaves == len(frame.groupby(["region", "sector", "kind"]))


def test_leaves_are_as_coarse_as_the_cells_allow() -> None:
    table = Table.of(microdata(firms()), "region : sector - 1", "turnover")
    assert table.cells.leaves == 4 * 3
    assert (table.cells.sizes[table.cells.of_leaf] == 1).all()
    assert len(set(table.cells.of_leaf)) == 12
    margins = Table.of(microdata(firms()), "region + sector", "turnover")
    assert margins.cells.leaves == 4 * 3
    assert (margins.cells.of_leaf == -1).all()


def test_weights_gross_up_and_the_contributors_are_holdings() -> None:
    frame = firms()
    data = microdata(frame, weight="weight", owner="contributor")
    table = Table.of(data, "region * sector", "turnover")
    assert table.value[table.cells.find()] == pytest.approx((frame.turnover * frame.weight).sum())
    largest = table.largest(3)
    cell = table.cells.find(region="north", sector="x")
    part = frame[frame.region.isin(["a", "b"]) & (frame.sector == "x")]
    by_owner = part.groupby("owner").turnover.sum().sort_values(ascending=False)
    assert largest.contributors[cell] == len(by_owner)
    assert largest.values[cell] == pytest.approx(by_owner.to_numpy()[:3])
    grossed = part.assign(g=part.turnover * part.weight).groupby("owner").g.sum()
    assert largest.values[cell] * largest.weights[cell] == pytest.approx(grossed[by_owner.index[:3]].to_numpy())


def test_contributions_that_cancel_still_have_a_contributor() -> None:
    frame = pd.DataFrame({"region": ["a", "b"], "owner": [1, 1], "turnover": [5.0, -5.0]})
    table = Table.of(microdata(frame, owner="contributor"), "region", "turnover")
    assert table.largest(1).contributors.tolist() == [1, 1, 1, 1]
    assert not table.nonnegative


def test_counts_and_counted_rows_are_the_same() -> None:
    frame = firms()
    table = Table.of(microdata(frame), "region * sector")
    counted = frame.groupby(["region", "sector"]).size().rename("turnover").reset_index()
    again = Table.of(microdata(counted), "region * sector", count="turnover")
    assert table.is_count
    assert again.is_count
    assert np.array_equal(table.value, again.value)


def test_empty_cells_respect_what_determines_what() -> None:
    frame = pd.DataFrame({
        "region": ["r1", "r1", "r2", "r3"], "group": ["g1", "g1", "g1", "g2"], "sector": ["x", "y", "x", "x"],
        "turnover": [1.0, 2, 3, 4],
    })  # fmt: skip
    table = Table.of(Microdata(frame), "region * sector + group * sector", "turnover", empty=True)
    assert table.cells.leaves == 3 * 2
    assert len(table) == (1 + 3 + 2) * 3
    assert table.value[table.cells.find(group="g2", sector="y")] == 0
    assert table.cells.sizes[table.cells.find(group="g1", sector="x")] == 2


def test_missing_labels_are_a_category_and_missing_values_are_asked_about() -> None:
    frame = firms()
    frame.loc[:4, "sector"] = None
    frame.loc[10:12, "turnover"] = np.nan
    with pytest.raises(DataError, match="3 records of 200 have no value of 'turnover'"):
        Table.of(microdata(frame), "sector", "turnover")
    table = Table.of(microdata(frame), "sector", "turnover", missing="leave out")
    assert table.frequency[table.cells.find(sector="missing")] == 5
    assert table.frequency[table.cells.find()] == 197


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("", "say which table"),
        ("log(region)", "is not the formula of a table"),
        ("1", "breaks nothing down"),
        ("region +", "cannot be read as a formula"),
        ("size class * region", "stands in backticks: '`size class`"),
    ],
)
def test_a_formula_that_is_none_is_refused(formula: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        terms(formula)


def test_weights_below_one_unknown_columns_and_totals_among_records_are_refused() -> None:
    frame = firms()
    with pytest.raises(DataError, match="Did you mean 'region'"):
        Table.of(microdata(frame), "regon * sector", "turnover")
    low = frame.assign(weight=0.5)
    with pytest.raises(DataError, match="200 records have a survey weight in 'weight' that is missing or below 1"):
        Table.of(microdata(low, weight="weight"), "sector", "turnover")
    with pytest.raises(DataError, match="Are there totals among the records"):
        Table.of(microdata(frame.assign(sector="Total")), "sector", "turnover")


def test_cells_are_found_by_their_labels() -> None:
    table = Table.of(microdata(firms()), "region * sector", "turnover")
    assert table.cells.name(table.cells.find(region="north", sector="x")) == "region north, sector x"
    assert table.cells.name(table.cells.find()) == "the grand total"
    with pytest.raises(ParameterError, match="Did you mean 'north'"):
        table.cells.find(region="nort")


def test_sixty_thousand_firms_are_in_a_table_without_a_dense_matrix() -> None:
    g = np.random.default_rng(3)
    n = 60_000
    frame = pd.DataFrame({c: g.integers(0, 40, n).astype(str) for c in ("r", "s", "k")} | {"v": g.lognormal(3, 2, n)})
    table = Table.of(Microdata(frame), "r * s * k", "v")
    assert table.value[table.cells.find()] == pytest.approx(frame.v.sum())
    assert table.cells.incidence.nnz < 9 * table.cells.leaves


def test_a_size_in_another_unit_is_scaled_when_asked_and_refused_otherwise() -> None:
    from sfumato.tables.rta.priors import Prior

    frame = pd.DataFrame({"region": ["a", "a", "b"], "turnover": [4000.0, 2100.0, 900.0], "staff": [40.0, 20.0, 10.0]})
    with pytest.raises(DataError, match="another unit"):
        Table.of(microdata(frame), "region", "turnover", size="staff")
    meant = Table.of(microdata(frame), "region", "turnover", size="staff", per_size=1).contributions
    assert meant is not None
    assert meant.size is not None
    assert meant.size.tolist() == [40.0, 20.0, 10.0]
    for per_size in (100, "ratio"):  # 7,000 of turnover for 70 of staff
        scaled = Table.of(microdata(frame), "region", "turnover", size="staff", per_size=per_size)
        assert scaled.contributions is not None
        assert scaled.contributions.size is not None
        assert scaled.contributions.size.tolist() == [4000.0, 2000.0, 1000.0]
        assert Prior.from_sizes(0.5, 0.2).of(scaled).variance == pytest.approx([2000.0**2, 1000.0**2, 500.0**2])
    for wrong in (0, -1, True, "much"):
        with pytest.raises(ParameterError, match="per_size must be a number above 0, or 'ratio'"):
            Table.of(microdata(frame), "region", "turnover", size="staff", per_size=wrong)
    with pytest.raises(ParameterError, match="name the column with the size"):
        Table.of(microdata(frame), "region", "turnover", per_size=3)


@pytest.mark.parametrize(
    "hierarchy",
    [
        TreeHierarchy.from_levels({"A": ["A"], "B": ["A"], "C": ["D"]}),
        TreeHierarchy([("a", "A", "*"), ("B", "A", "*"), ("C", "D", "*")]),
    ],
)
def test_a_label_that_is_a_group_and_a_value_is_refused(hierarchy: TreeHierarchy) -> None:
    # one cell "A" for both would let anybody work out the value A as A less B, and no rule would look at it
    frame = pd.DataFrame({"region": ["A", "B", "B", "C"], "v": [500.0, 90.0, 110.0, 100.0]})
    data = Microdata(frame, Schema((Attribute("region", "key", "partially ordered", hierarchy), Attribute("v"))))
    with pytest.raises(DataError, match="1 label of 'region' is a group of others and a value of its own: A"):
        Table.of(data, "region", "v")


def test_sums_are_the_same_to_the_last_bit_whatever_the_order_of_the_records() -> None:
    g = np.random.default_rng(1)
    frame = pd.DataFrame({
        "region": g.choice(list("abc"), 400), "owner": g.integers(0, 50, 400), "x": g.lognormal(0, 3, 400),
        "w": 1 + g.exponential(3, 400),
    })  # fmt: skip
    schema = Schema((
        Attribute("region", scale="unordered"), Attribute("owner", role="contributor", scale="unordered"),
        Attribute("x", scale="ordered"), Attribute("w", role="weight", scale="ordered"),
    ))  # fmt: skip
    tables = [Table.of(Microdata(frame.sample(frac=1, random_state=s), schema), "region", "x") for s in range(5)]
    for table in tables:
        assert np.array_equal(table.value, tables[0].value)
        assert table.contributions is not None
        assert tables[0].contributions is not None
        assert np.array_equal(table.contributions.grossed.data, tables[0].contributions.grossed.data)
