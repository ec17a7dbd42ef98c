"""Drop q: guessing and simulation against enumeration, the tables that are read, and the custodian's report."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from drop_q_twin import Drops, drawn, fixed, outcome, share
from numpy.testing import assert_allclose

from sfumato import Draws
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.mas import (
    CellTable,
    Drop,
    DropEnough,
    DropQ,
    DropRange,
    DropShare,
    clean_tables,
    least_success_probability,
    same_drop_probability,
    success_probability,
)
from sfumato.papers import evaluate_drops, largest_cell, simulate_drops

SEED = Draws(11)
BALANCED = np.array([[123, 111, 145, 152], [116, 133, 101, 119]])
DOMINATED = np.array([[16, 17, 88, 7], [9814, 20, 15, 23]])


def near(found: Any, expected: float, replications: int) -> bool:
    """Within five standard errors, so that one test in millions fails by chance."""
    error = math.sqrt(max(expected * (1 - expected), 1 / replications) / replications)
    return abs(found.value - expected) < 5 * error


# -- naming the largest cell


@pytest.mark.parametrize(
    ("counts", "q"), [((2, 3), 1), ((1, 1, 4), 2), ((3, 0, 2, 1), 3), ((1, 1, 1, 1, 1), 2), ((4, 3), 6)]
)
def test_the_largest_cell_is_right_as_often_as_over_all_choices_of_records(counts: tuple[int, ...], q: int) -> None:
    result = largest_cell(counts, q)
    for cell, count in enumerate(counts):
        if count:
            assert_allclose(result.right[cell], float(outcome(counts, cell, fixed(q)).largest), rtol=1e-10)
        else:
            assert math.isnan(result.right[cell])


def test_the_largest_cell_of_proportions_is_the_limit_of_large_counts() -> None:
    proportions = np.array([0.5, 0.3, 0.15, 0.05])
    assert_allclose(largest_cell(proportions, 4).right, largest_cell((proportions * 10**7).round(), 4).right, rtol=1e-4)


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_the_mean_of_several_pairs_agrees_with_the_pairs_written_out(pairs: int) -> None:
    """In the approximation; enumerated from counts so large that it hardly matters would be too slow, so simulated."""
    proportions = np.array([0.45, 0.35, 0.2])
    exact = largest_cell(proportions, 3, pairs=pairs)
    found = simulate_drops(proportions, 3, pairs=pairs, replications=60_000, draws=SEED.child(pairs))
    assert near(found.averaged, exact.mean, 60_000)
    one = simulate_drops(proportions, 3, pairs=pairs, sensitive=(2,), replications=60_000, draws=SEED.child(pairs))
    assert near(one.averaged, float(exact.right[2]), 60_000)


def test_a_table_too_large_for_the_exact_probability_is_sent_to_the_simulation() -> None:
    with pytest.raises(NotApplicable, match="Use simulate_drops"):
        largest_cell(np.arange(1, 2001), 100)


# -- simulation


@pytest.mark.parametrize(
    ("drop", "every"),
    [(DropQ(q=2), fixed(2)), (DropRange(low=1, high=3), drawn(1, 3)), (DropShare(share=0.25), share(Fraction(1, 4)))],
    ids=["q = 2", "a range", "a share"],
)
@pytest.mark.parametrize("cell", [0, 2])
def test_simulated_frequencies_agree_with_all_choices_of_records(drop: Drop, every: Drops, cell: int) -> None:
    counts, times = (2, 1, 3), 40_000
    expected = outcome(counts, cell, every)
    found = simulate_drops(counts, drop, pairs=1, sensitive=(cell,), replications=times, draws=SEED.child(cell))
    assert near(found.right, float(expected.right), times)
    assert near(found.wrong, float(expected.wrong), times)
    assert near(found.largest, float(expected.largest), times)
    assert found.averaged.value == pytest.approx(found.largest.value, abs=0.02)


def test_the_mean_over_two_pairs_agrees_with_all_choices_of_records() -> None:
    counts, times = (2, 1, 2), 40_000
    expected = outcome(counts, 0, fixed(1), pairs=2)
    found = simulate_drops(counts, 1, pairs=2, sensitive=(0,), replications=times, draws=SEED)
    assert near(found.averaged, float(expected.largest), times)


@pytest.mark.parametrize("table", [BALANCED, DOMINATED, BALANCED / 1000], ids=["balanced", "dominated", "proportions"])
@pytest.mark.parametrize("drop", [DropQ(q=2), DropQ(q=6), DropRange(low=1, high=4), DropEnough(below=0.95)], ids=repr)
def test_formulas_agree_with_the_simulation_for_the_papers_tables(table: Any, drop: Drop) -> None:
    cells, times = CellTable.of(table), 30_000
    found = simulate_drops(cells, drop, pairs=1, replications=times, draws=SEED)
    clean = drop.clean(cells)
    assert near(found.right, clean.mean_right, times)
    assert near(found.wrong, clean.mean_wrong, times)
    chosen = drop.for_table(cells)
    for axis, name in enumerate(cells.variables):
        assert near(found.alone[name], chosen.clean(cells.alone(axis)).mean_right, times)
    if isinstance(chosen, DropQ):
        assert near(found.largest, largest_cell(cells, chosen.q).mean, times)


def test_a_share_of_the_records_agrees_with_the_simulation() -> None:
    times = 60_000
    found = simulate_drops([30, 20, 10], DropShare(share=0.05), pairs=1, replications=times, draws=SEED)
    clean = DropShare(share=0.05).clean(CellTable.of([30, 20, 10]))
    assert near(found.right, clean.mean_right, times)
    assert near(found.wrong, clean.mean_wrong, times)


@pytest.mark.parametrize("cells", [64, 65], ids=["cell by cell", "record by record"])
def test_records_are_dropped_the_same_way_from_few_and_from_many_cells(cells: int) -> None:
    """65 cells go by record numbers, 64 cell by cell: the first two hold nearly everything, so that hits are frequent."""
    counts = np.ones(cells, dtype=int)
    counts[:2] = 500, 300
    times = 30_000
    found = simulate_drops(counts, 3, pairs=1, replications=times, draws=SEED)
    clean = clean_tables(counts, 3)
    assert near(found.right, clean.mean_right, times)
    assert near(found.wrong, clean.mean_wrong, times)
    mixed = simulate_drops(counts, DropRange(low=1, high=4), pairs=1, replications=times, draws=SEED)
    assert near(mixed.right, DropRange(low=1, high=4).clean(CellTable.of(counts)).mean_right, times)


def test_a_table_of_many_millions_is_simulated_record_by_record() -> None:
    counts = np.array([6 * 10**9, 3 * 10**9, 10**9])
    found = simulate_drops(counts, 3, pairs=1, replications=20_000, draws=SEED)
    assert near(found.right, clean_tables(counts, 3).mean_right, 20_000)
    with pytest.raises(ParameterError, match="smaller q"):
        simulate_drops(counts, 10**6, replications=10)


def test_without_drops_every_conclusion_is_right() -> None:
    found = simulate_drops(BALANCED, 0, pairs=2, replications=200, draws=SEED)
    assert {found.right.value, found.largest.value, found.informed.value, found.averaged_informed.value} == {1.0}
    assert found.wrong.value == 0.0


def test_an_informed_guess_beats_both_the_largest_cell_and_the_commonest_one() -> None:
    found = simulate_drops(DOMINATED, 10, pairs=1, replications=20_000, draws=SEED)
    assert found.informed.interval[0] > found.largest.interval[1]
    assert found.informed.interval[1] > 0.9814
    balanced = simulate_drops(BALANCED, 2, pairs=1, replications=20_000, draws=SEED)
    assert balanced.informed.interval[1] > balanced.largest.value > 0.152


def test_the_same_seed_gives_the_same_simulation_and_another_seed_another() -> None:
    one, two = (simulate_drops(BALANCED, 2, pairs=2, replications=500, draws=Draws(3)) for _ in range(2))
    assert one == two
    assert one != simulate_drops(BALANCED, 2, pairs=2, replications=500, draws=Draws(4))
    assert simulate_drops(BALANCED, 2, pairs=2, replications=500) == simulate_drops(
        BALANCED, 2, pairs=2, replications=500
    )


@pytest.mark.parametrize("cell", [(0,), (0, 9), (-1, 0), (0, 0, 0)])
def test_a_sensitive_cell_that_is_not_in_the_table_is_refused(cell: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="its place on each axis"):
        simulate_drops(BALANCED, 2, sensitive=cell)


def test_an_empty_sensitive_cell_and_numbers_below_one_are_refused() -> None:
    with pytest.raises(ParameterError, match="must hold a record"):
        simulate_drops([5, 0, 3], 1, sensitive=(1,))
    for arguments in ({"pairs": 0}, {"replications": 0}, {"pairs": 1.5}, {"replications": "many"}):
        with pytest.raises(ParameterError, match="whole number of at least 1"):
            simulate_drops([5, 3], 1, **arguments)  # type: ignore[arg-type]


# -- the tables that are read


def people() -> pd.DataFrame:
    g = SEED.generator("people")
    return pd.DataFrame(
        {"sex": g.choice(list("mf"), 400), "race": g.choice(list("wba"), 400), "state": g.choice([1, 2], 400)}
    )


def test_a_crosstab_is_read_with_the_names_of_its_variables_whatever_way_it_is_laid_out() -> None:
    frame = people()
    wide = CellTable.of(pd.crosstab(frame["sex"], [frame["race"], frame["state"]]))
    long = CellTable.of(frame.groupby(["sex", "race", "state"]).size())
    assert wide.variables == long.variables == ("sex", "race", "state")
    assert wide.values.shape == long.values.shape == (2, 3, 2)
    assert sorted(wide.values.ravel()) == sorted(long.values.ravel())
    assert success_probability(wide, 3) == pytest.approx(success_probability(long, 3))
    for axis, name in enumerate(wide.variables):
        counts = frame[name].value_counts()
        assert sorted(wide.alone(axis).values) == sorted(counts)
        assert wide.alone(axis).variables == (name,)


def test_a_crosstab_with_its_margins_is_refused() -> None:
    frame = people()
    with pytest.raises(DataError, match="margins=False"):
        CellTable.of(pd.crosstab(frame["sex"], frame["race"], margins=True))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([3, -1], "negative"),
        ([3, math.nan], "missing or infinite"),
        ([3, math.inf], "missing or infinite"),
        (np.ma.masked_array([3, 4], [False, True]), "missing or infinite"),
        (pd.Series([3, None, 4], dtype="Int64"), "missing or infinite"),
        ([0, 0], "every cell is 0"),
        ([], "no cells"),
        ([1.5, 3.2], "whole counts of records, or proportions that sum to 1"),
        ([0.5, 0.4], "whole counts of records, or proportions that sum to 1"),
        ([[1, 2], [3]], "an array of numbers"),
        (["a", "b"], "an array of numbers"),
        (None, "missing or infinite|an array of numbers"),
        ([1 + 2j], "an array of numbers"),
        (pd.DataFrame({"a": ["x", "y"]}), "counts of records in every cell"),
        (pd.Series([1, 2], index=["a", "a"]), "same name"),
        ([2**53, 2**53], "more than 2"),
    ],
)
def test_a_table_that_cannot_be_evaluated_is_refused_in_a_sentence(table: Any, words: str) -> None:
    for call in (success_probability, clean_tables, largest_cell):
        with pytest.raises(DataError, match=words):
            call(table, 1)
    with pytest.raises(DataError, match=words):
        evaluate_drops(table, 1)


@pytest.mark.parametrize("q", [-1, 1.5, math.nan, math.inf, "2", None, True, [2]])
def test_a_q_that_is_not_a_whole_number_of_records_is_refused(q: Any) -> None:
    for call in (success_probability, clean_tables, largest_cell, same_drop_probability):
        with pytest.raises(ParameterError, match="whole number of records"):
            call([5, 5], q)
    with pytest.raises(ParameterError, match="whole number of records"):
        least_success_probability(2, q)


def test_a_q_of_more_than_the_records_is_refused_without_saying_how_many_there_are() -> None:
    for call in (
        success_probability,
        same_drop_probability,
        clean_tables,
        largest_cell,
        evaluate_drops,
        simulate_drops,
    ):
        with pytest.raises(ParameterError, match="too large for this table") as caught:
            call([5, 6], 12)  # type: ignore[operator]
        assert "11" not in str(caught.value)
    with pytest.raises(ParameterError, match="one fewer loses q as well"):
        clean_tables([5, 6], 11)
    assert same_drop_probability([5, 6], 11) == 1.0
    assert success_probability([0.5, 0.5], 12) > 0


def test_whole_numbers_that_sum_to_one_are_counts_and_fractions_proportions() -> None:
    assert CellTable.of([0, 1]).records == 1
    assert CellTable.of([0.0, 1.0]).records is None
    assert CellTable.of(np.array([2.0, 5.0])).records == 7
    assert CellTable.of([0.333, 0.333, 0.333]).proportions.sum() == pytest.approx(1)


# -- the report


def test_the_report_holds_what_its_parts_say() -> None:
    report = evaluate_drops(BALANCED, [2, 6], pairs=3, replications=2000, draws=SEED)
    row = report.rows[1]
    cells = CellTable.of(BALANCED)
    assert row.approximate == success_probability(BALANCED, 6)
    assert row.least == least_success_probability(8, 6) < row.approximate
    assert row.right == clean_tables(BALANCED, 6).mean_right
    assert row.worst == clean_tables(BALANCED, 6).worst_right > row.right
    assert row.wrong == clean_tables(BALANCED, 6).mean_wrong
    assert row.alone == {v: clean_tables(cells.alone(i), 6).mean_right for i, v in enumerate(cells.variables)}
    assert row.largest.value == largest_cell(BALANCED, 6).mean
    assert row.simulation is not None
    assert (row.simulation.pairs, row.simulation.replications) == (3, 2000)
    assert report.enough == 4
    assert report.baseline == 0.152


def test_the_report_reads_as_a_table_of_q_against_probability() -> None:
    gender_race = pd.DataFrame(
        BALANCED, index=pd.Index(["male", "female"], name="gender"), columns=pd.Index(list("wbao"), name="race")
    )
    text = str(evaluate_drops(gender_race, replications=1000))
    assert "1,000 records in 2 × 4 = 8 cells" in text
    assert "gender alone  race alone" in text
    lines = [line.split() for line in text.splitlines() if line.startswith("q = ")]
    assert [line[2] for line in lines] == 2 * ["2", "3", "4", "6", "8", "10", "15", "20"]
    assert lines[0][3] == "0.0301"
    assert "The smallest q with (4.3.4) below 0.01 is 4." in text
    assert "without any table: 0.1520" in text


def test_the_frame_has_one_row_for_each_variant_with_intervals() -> None:
    drops = [2, DropRange(low=1, high=5), DropShare(share=0.1), DropEnough(below=0.5)]
    report = evaluate_drops(DOMINATED, drops, replications=1000)
    frame = report.frame()
    assert frame["drop"].tolist() == ["q = 2", "q from 1 to 5", "10 % of the records", "q for 0.5: q = 20"]
    assert frame["expected"].tolist() == [2, 3, 1000, 20]
    assert frame["approximate"].isna().tolist() == [False, False, True, False]
    assert (frame["largest_low"] <= frame["largest"]).all()
    assert (frame["informed"] <= frame["informed_high"]).all()
    assert (frame["baseline"] == 0.9814).all()
    assert "–" in str(report)


def test_a_report_without_simulation_says_what_is_known_exactly() -> None:
    report = evaluate_drops(BALANCED, 2, replications=0)
    assert report.rows[0].simulation is None
    assert "informed" not in str(report)
    assert "informed" not in report.frame().columns
    assert math.isnan(evaluate_drops(BALANCED, DropShare(share=0.1), replications=0).rows[0].largest.value)


def test_a_report_on_proportions_has_no_exact_columns() -> None:
    text = str(evaluate_drops(BALANCED / 1000, [2], replications=1000))
    assert "worst cell" not in text
    assert "Table: proportions in 2 × 4 = 8 cells" in text


def test_a_report_says_if_no_q_suffices() -> None:
    report = evaluate_drops([995, 5], [2], below=1e-4, replications=1000)
    assert report.enough is None
    assert "does not exist" in str(report)


def test_a_report_needs_a_q_that_the_table_can_lose() -> None:
    with pytest.raises(ParameterError, match="nothing to evaluate"):
        evaluate_drops([1, 1])
    assert [r.label for r in evaluate_drops([2, 2], replications=1000).rows] == ["q = 2", "q = 3"]
    with pytest.raises(ParameterError, match="replications must be"):
        evaluate_drops([5, 5], 1, replications=-1)
    with pytest.raises(ParameterError, match="the threshold must be"):
        evaluate_drops([5, 5], 1, below=2)


def test_the_evaluation_does_not_wait_for_the_compiler_or_for_pandas() -> None:
    code = (
        "import sys; from sfumato.papers import evaluate_drops; str(evaluate_drops([[5, 6], [7, 8]], 2));"
        "assert not {'numba', 'pandas', 'altair'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
