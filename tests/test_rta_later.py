"""A later table: what is published stays, the rest is drawn given it, and both together are audited; or it is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rta_tables import firms, least_posterior, microdata, table_of
from scipy import sparse

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.tables import RTA, PublishedTable, Record, Table
from sfumato.tables.rta.priors import Prior
from sfumato.tables.rta.successive_tables import Division, old_leaf
from tests.test_rta_near import by_dense_algebra


def crowd(n: int = 400, seed: int = 1) -> pd.DataFrame:
    """Return firms of which some regions and sectors have many, so that there is room for a finer table."""
    frame = firms(n, seed)
    frame["turnover"] = np.round(np.random.default_rng(seed).lognormal(3, 0.5, n), 1)
    frame["staff"] = np.round(frame.turnover) + 1
    return frame


def both(frame: pd.DataFrame, first: str, then: str, **parameters: object) -> tuple[PublishedTable, PublishedTable]:
    rta = RTA(**parameters)  # type: ignore[arg-type]
    one = rta.protect(table_of(frame, first), Draws(1))
    assert one.record is not None
    return one, rta.protect_later(table_of(frame, then), one.record, Draws(1))


def values_by_labels(published: PublishedTable) -> dict[frozenset[tuple[str, str]], float]:
    dims = published.cells.dimensions
    return {
        frozenset((d, v) for d, v in zip(dims, row, strict=True) if v != "Total"): value
        for row, value in zip(published.cells.labels.tolist(), published.values, strict=True)
    }


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("region", "region * kind"),
        ("region * sector", "region * sector + kind * sector"),
        ("sector", "sector + kind * region"),
    ],
)
def test_cells_already_published_keep_their_values_to_the_digit(first: str, then: str) -> None:
    one, two = both(crowd(), first, then)
    old, new = values_by_labels(one), values_by_labels(two)
    assert all(new[labels] == value for labels, value in old.items())
    assert len(new) > len(old)
    record = two.record
    assert record is not None
    assert np.array_equal(
        two.values, np.round(two.cells.sums(record.units.astype(float)) / 10.0**record.decimals, record.decimals)
    )
    assert (two.values >= 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base_cv", [0.1, 0.3])
@pytest.mark.parametrize(
    ("first", "then"), [("region", "region * kind"), ("region * sector", "region * sector * kind")]
)
def test_an_attacker_with_both_tables_learns_no_more_than_promised(
    seed: int, base_cv: float, first: str, then: str
) -> None:
    """Contributors in one leaf and in several, most of them without room after the first table; judged by dense algebra."""
    frame = firms(50, seed, 25 * (seed % 2))
    rta = RTA(base_cv=base_cv)
    one = rta.protect(table_of(frame, first), Draws(seed))
    finer = table_of(frame, then)
    assert one.record is not None
    two = rta.protect_later(finer, one.record, Draws(seed))
    known = Prior.from_sizes(0.5, base_cv).of(finer)
    assert two.record is not None
    omega = two.record.covariance.toarray()
    # old leaves are sums of new ones: their noise must be what the first table said it is
    sums = np.zeros((one.cells.leaves, finer.cells.leaves))
    sums[old_leaf(one.record, finer), np.arange(finer.cells.leaves)] = 1
    assert one.leaf_variance is not None
    assert sums @ omega @ sums.T == pytest.approx(np.diag(one.leaf_variance), rel=1e-9, abs=1e-6)
    assert np.linalg.eigvalsh(omega).min() >= -1e-9 * omega.max()
    old, new = values_by_labels(one), values_by_labels(two)
    assert all(new[labels] == value for labels, value in old.items())
    seen = np.vstack([np.eye(len(omega)), sums])  # both publications side by side
    left = least_posterior(seen @ known.loading.toarray(), known.variance, seen @ omega @ seen.T)
    assert (left >= known.required * (1 - 1e-5)).all()


def small_record(old: np.ndarray, group: np.ndarray) -> tuple[Table, Record]:
    """Return a table of leaves g/part, and a record of its groups with these variances and errors of 1, 2, …"""
    frame = pd.DataFrame({
        "group": [f"g{g}" for g in group], "part": [f"p{i}" for i in range(len(group))],
        "value": np.full(len(group), 100.0), "size": np.ones(len(group)),
    })  # fmt: skip
    fine = Table.of(Microdata(frame), "group * part", "value", size="size", per_size=1)
    coarse = Table.of(Microdata(frame), "group", "value", size="size", per_size=1)
    leaves = [int(coarse.cells.labels[c, 0][1:]) for c in coarse.cells.of_leaf]
    units = np.rint(coarse.totals).astype(np.int64) + 1 + np.array(leaves)
    return fine, Record(coarse.cells, coarse.totals, units, 0, sparse.csr_array(old[np.ix_(leaves, leaves)]), "value")


def test_noise_given_what_is_published_is_the_dense_conditional_normal_law() -> None:
    group = np.array([0, 0, 0, 1, 1, 2])
    old = np.diag([2.0, 9.0, 4.0])
    fine, record = small_record(old, group)
    needed = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 0.5])
    of = old_leaf(record, fine)
    by_part = [int(fine.cells.labels[c, list(fine.cells.dimensions).index("part")][1:]) for c in fine.cells.of_leaf]
    division = Division(record, of, needed[by_part], np.ones(6))
    d = division.variance
    sums = np.zeros((3, 6))
    sums[of, np.arange(6)] = 1
    assert (sums @ d >= np.maximum(np.diag(record.covariance.toarray()), sums @ needed[by_part]) - 1e-9).all()
    assert (d >= needed[by_part]).all()
    # independent N(0, D) given their sums, by the textbook formula
    gain = np.diag(d) @ sums.T @ np.linalg.inv(sums @ np.diag(d) @ sums.T)
    error = record.units - record.totals
    mean, spread = gain @ error, np.diag(d) - gain @ sums @ np.diag(d)
    count = 1500
    draws = np.array([division.draw(fine, Draws(i), "") for i in range(count)])
    assert draws @ sums.T == pytest.approx(np.tile(error, (count, 1)))
    assert draws.mean(axis=0) == pytest.approx(mean, abs=4.5 * np.sqrt(d.max() / count))
    assert np.cov(draws.T) == pytest.approx(spread, abs=6 * d.max() / np.sqrt(count))
    # with the sums themselves at random: Ω of both publications
    omega = gain @ record.covariance.toarray() @ gain.T + spread
    assert division.covariance().toarray() == pytest.approx(omega)


def test_noise_of_a_third_table_builds_on_the_correlated_noise_of_the_second() -> None:
    group = np.array([0, 0, 1, 1])
    old = np.array([[4.0, -1.5], [-1.5, 3.0]])
    fine, record = small_record(old, group)
    of = old_leaf(record, fine)
    division = Division(record, of, np.array([5.0, 3.0, 1.0, 1.0]), np.ones(4))
    d, sums = division.variance, np.zeros((2, 4))
    sums[of, np.arange(4)] = 1
    gain = np.diag(d) @ sums.T @ np.linalg.inv(sums @ np.diag(d) @ sums.T)
    omega = gain @ record.covariance.toarray() @ gain.T + np.diag(d) - gain @ sums @ np.diag(d)
    assert division.covariance().toarray() == pytest.approx(omega)
    assert sums @ division.covariance().toarray() @ sums.T == pytest.approx(record.covariance.toarray())


def test_three_tables_one_after_the_other_agree() -> None:
    frame = crowd(1500)
    rta = RTA(base_cv=0.1)
    one = rta.protect(table_of(frame, "region"), Draws(1))
    assert one.record is not None
    two = rta.protect_later(table_of(frame, "region * kind"), one.record, Draws(2))
    assert two.record is not None
    three = rta.protect_later(table_of(frame, "region * kind + sector * kind"), two.record, Draws(3))
    old, new = values_by_labels(two), values_by_labels(three)
    assert all(new[labels] == value for labels, value in old.items())


def test_leaves_with_room_are_drawn_as_if_both_tables_had_been_published_at_once() -> None:
    frame = crowd()
    rta = RTA()
    one = rta.protect(table_of(frame, "region * sector"), Draws(1))
    assert one.record is not None
    again = rta.protect_later(table_of(frame, "region * sector"), one.record, Draws(99))
    assert np.array_equal(again.values, one.values)


def test_a_pair_without_room_learns_nothing_more_from_the_parts() -> None:
    """Two firms of region a, one in each kind: each sees his own leaf and so its noise, which must say nothing of the other's.

    The first table leaves the smaller of them exactly what is required. With one part's noise free of the published one,
    d₂ + δ is all that the first ever learns.
    """
    frame = pd.DataFrame({
        "region": ["a", "a", *"b" * 40], "kind": ["k", "l", *"kl" * 20], "owner": np.arange(42),
        "turnover": [50.0, 40.0, *np.full(40, 30.0)], "staff": [45.0, 40.0, *np.full(40, 33.0)],
    })  # fmt: skip
    base_cv = 0.2
    rta = RTA(base_cv=base_cv)
    one = rta.protect(Table.of(microdata(frame), "region", "turnover", size="staff"), Draws(1))
    finer = Table.of(microdata(frame), "region * kind", "turnover", size="staff")
    assert one.record is not None
    two = rta.protect_later(finer, one.record, Draws(1))
    assert two.record is not None
    known, omega = Prior.from_sizes(0.5, base_cv).of(finer), two.record.covariance.toarray()
    left = least_posterior(known.loading.toarray(), known.variance, omega)
    assert (left >= known.required * (1 - 1e-9)).all()
    first = Prior.from_sizes(0.5, base_cv).of(one.original)  # type: ignore[arg-type]
    before = least_posterior(first.loading.toarray(), first.variance, one.record.covariance.toarray())
    who = np.argmin(before / first.required)
    assert before[who] == pytest.approx(first.required[who], rel=1e-3)  # no room
    assert left[who] > before[who] * (1 - 1e-3)


def test_a_published_table_that_tells_too_much_for_a_later_one_is_named_with_the_relaxation_that_works() -> None:
    frame = firms(50, 3)
    one = RTA(base_cv=0.1).protect(table_of(frame, "region"), Draws(1))
    finer = table_of(frame, "region * kind")
    assert one.record is not None
    strict = RTA(base_cv=0.3)
    with pytest.raises(
        NotApplicable, match=r"leaves no room for these cells: .*The published table alone tells more"
    ) as refused:
        strict.protect_later(finer, one.record, Draws(1))
    said = re.search(r"a threshold of ([\d.]+) \(or a base_cv of ([\d.]+) times", str(refused.value))
    assert said is not None
    known = Prior.from_sizes(0.5, 0.3).of(one.original)  # type: ignore[arg-type]
    left = least_posterior(known.loading.toarray(), known.variance, one.record.covariance.toarray())
    needed = float((known.required / left).max())
    assert needed < float(said[1]) <= needed * 1.02
    for relaxed in (strict.with_(threshold=float(said[1])), strict.with_(base_cv=0.3 * float(said[2]))):
        assert len(relaxed.protect_later(finer, one.record, Draws(1))) == len(finer)


def test_a_finer_table_of_firms_in_several_cells_succeeds_after_a_coarse_one() -> None:
    """As in a business register: groups of regions and sectors first, regions and sectors later; firms have several units."""
    g = np.random.default_rng(1)
    n, weight = 700, 1 / np.arange(1, 11)
    region, sector = g.choice(10, n, p=weight / weight.sum()), g.integers(0, 6, n)
    frame = pd.DataFrame({
        "region": [f"r{i:02d}" for i in region], "region_group": [f"R{i // 5}" for i in region],
        "sector": [f"s{i:02d}" for i in sector], "sector_group": [f"S{i // 3}" for i in sector],
        "owner": g.integers(0, n // 2, n), "turnover": np.round(g.lognormal(3, 1.5, n)) + 1,
    })  # fmt: skip
    rta = RTA()
    coarse, fine = (
        Table.of(Microdata(frame), formula, "turnover", contributor="owner")
        for formula in ("region_group * sector_group", "region * sector + region_group * sector_group")
    )
    one = rta.protect(coarse, Draws(1))
    assert one.record is not None
    two = rta.protect_later(fine, one.record, Draws(1))
    assert two.record is not None
    old, new = values_by_labels(one), values_by_labels(two)
    assert all(new[labels] == value for labels, value in old.items())
    known, omega = Prior.from_sizes(0.5, 0.15).of(fine), two.record.covariance.toarray()
    left = by_dense_algebra(known.loading.toarray(), known.variance, omega)
    assert (left >= known.required * (1 - 1e-6)).all()
    assert "by proven bounds" not in str(two.guarantees[0])  # exact, although leaves hang together


def test_a_later_table_must_hold_the_old_cells_and_the_same_data() -> None:
    frame = crowd(100)
    rta = RTA(period="2024")
    record = rta.protect(table_of(frame, "region * sector"), Draws(1)).record
    assert record is not None
    with pytest.raises(DataError, match="not broken down by sector"):
        rta.protect_later(table_of(frame, "region * kind"), record, Draws(1))
    with pytest.raises(DataError, match="lacks cells that are published already"):
        rta.protect_later(table_of(frame, "region + sector * kind"), record, Draws(1))
    revised = frame.assign(turnover=frame.turnover.where(frame.index != 3, 77.0))
    with pytest.raises(DataError, match="the data are not those that were published: 1 part"):
        rta.protect_later(table_of(revised, "region * sector * kind"), record, Draws(1))
    with pytest.raises(ParameterError, match="another variable or period"):
        rta.with_(period="2025").protect_later(table_of(frame, "region * sector"), record, Draws(1))
    with pytest.raises(ParameterError, match="1 digits after the point already"):
        rta.with_(decimals=0).protect_later(table_of(frame, "region * sector"), record, Draws(1))


def test_cells_that_were_exact_stay_exact_and_are_bounded_by_what_is_sure() -> None:
    frame = crowd(1500)
    frame["turnover"] += 0.25
    one = RTA(decimals=0, base_cv=0.1).protect(table_of(frame, "region"), Draws(1))
    assert one.record is not None
    two = RTA(base_cv=0.1).protect_later(table_of(frame, "region * kind * sector"), one.record, Draws(1))
    for published in (one, two):
        truth = np.round(published.original.value, 9)  # type: ignore[union-attr]  # without what adding up leaves
        assert (published.low <= truth).all()
        assert (truth <= published.high).all()
    exact = two.cells.find(region="a")
    assert two.variance is not None
    assert np.isfinite(two.low[exact])
    assert two.variance[exact] < 50  # rounding alone


def test_the_record_is_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    record = RTA(period="2024").protect(table_of(crowd(100), "region * sector"), Draws(1)).record
    assert record is not None
    path = tmp_path / "record.json"
    record.write(path)
    assert path.stat().st_mode & 0o077 == 0
    assert "CONFIDENTIAL" in path.read_text("utf-8")
    again = Record.read(path)
    assert again.period == "2024"
    assert np.array_equal(again.totals, record.totals)
    assert np.array_equal(again.units, record.units)
    assert (again.covariance != record.covariance).nnz == 0
    assert (again.cells.incidence != record.cells.incidence).nnz == 0
    assert again.cells.labels.tolist() == record.cells.labels.tolist()
    assert str(int(record.totals.max())) not in repr(record)
    later = RTA(period="2024").protect_later(table_of(crowd(100), "region * sector"), again, Draws(7))
    assert np.array_equal(later.record.units, record.units)  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "labels": 3}'])
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ParameterError, match="is not the record of a published table"):
        Record.read(path)
    with pytest.raises(ParameterError, match="there is no record"):
        Record.read(tmp_path / "none.json")


def test_a_record_with_a_wrong_number_of_leaves_is_refused(tmp_path: Path) -> None:
    record = RTA().protect(table_of(crowd(100), "region"), Draws(1)).record
    assert record is not None
    path = tmp_path / "record.json"
    record.write(path)
    table = json.loads(path.read_text("utf-8"))
    table["units"] = table["units"][1:]
    path.write_text(json.dumps(table), "utf-8")
    with pytest.raises(ParameterError, match="is not the record"):
        Record.read(path)


def test_regression_on_both_tables_predicts_a_contribution_no_better_than_promised() -> None:
    """The whole way, many times over: values drawn from the prior, two publications, and the best linear prediction from both."""
    g = np.random.default_rng(5)
    staff = np.array([90.0, 60.0, *np.full(12, 30.0), *np.full(14, 40.0)])
    frame = pd.DataFrame({
        "region": ["a"] * 14 + ["b"] * 14, "kind": ["k"] * 2 + ["l"] * 12 + ["k", "l"] * 7, "owner": range(28), "staff": staff,
    })  # fmt: skip
    prior_cv, base_cv, count = 0.3, 0.15, 120
    rta = RTA(prior_cv=prior_cv, base_cv=base_cv)
    frame["turnover"] = 1.0
    coarse, fine = table_of(frame, "region"), table_of(frame, "region * kind")

    def filled(table: Table, values: np.ndarray) -> Table:
        given = table.contributions
        assert given is not None
        own = given.own.copy()
        own.data = values[own.indices]
        return table.with_(
            totals=np.asarray(own.sum(axis=1)), contributions=replace(given, own=own, grossed=own), nonnegative=False
        )

    rows = []
    for i in range(count):
        values = np.round(staff * (1 + prior_cv * g.standard_normal(28)), 1)
        one = rta.protect(filled(coarse, values), Draws(i))
        assert one.record is not None
        two = rta.protect_later(filled(fine, values), one.record, Draws(i))
        rows.append([values[0], values[1], *one.values, *two.values])
    data = np.array(rows) - np.mean(rows, axis=0)
    predicted = data[:, 1:] @ np.linalg.lstsq(data[:, 1:], data[:, 0], rcond=1e-9)[0]  # the second firm knows its own
    rank = np.linalg.matrix_rank(data[:, 1:])
    left = ((data[:, 0] - predicted) ** 2).sum() / (count - 1 - rank)
    required = (base_cv * 90) ** 2
    assert left > required * (1 - 4 * np.sqrt(2 / count))
    assert left < (prior_cv * 90) ** 2  # it does tell something
