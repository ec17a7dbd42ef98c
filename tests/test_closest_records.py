"""Distance to the closest record, distance ratios, exact copies: against brute force, closed forms and simulation."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import amounts, microdata

from sfumato.attacks.attacker_file import Points, as_points, comparable
from sfumato.contract import Draws, Holdout, Release, hold_out
from sfumato.data.microdata import Microdata
from sfumato.datasets import census
from sfumato.errors import DataError, NotApplicable
from sfumato.kernels.boxes import box_counts, holds_one
from sfumato.kernels.neighbours import k_nearest, nearest_votes
from sfumato.masks import KimNoise, Recode
from sfumato.risk import DCR, IMS, NNDR
from sfumato.risk.closest_records import any_of, corrected, nearest_share

FACTS = {"x": {"scale": "ordered"}, "y": {"scale": "ordered"}}


def people(n: int, seed: int, levels: int = 3) -> Microdata:
    g = np.random.default_rng(seed)
    y = g.normal(50, 10, n).round(1)
    y[g.random(n) < 0.1] = np.nan
    return microdata(
        FACTS, x=g.normal(0, 1, n), y=pa.array(y, from_pandas=False),
        c=np.array(list("abcdefghij"))[g.integers(0, levels, n)], d=np.array(["u", "v"])[g.integers(0, 2, n)],
    )  # fmt: skip


def cloud(n: int, seed: int, columns: int = 4) -> Microdata:
    x = np.random.default_rng(seed).normal(0, 1, (n, columns))
    return amounts(**{f"x{j}": x[:, j] for j in range(columns)})


def released(original: Microdata, held: Microdata, masked: Microdata) -> Release:
    return Release.of(original, masked).with_holdout(Holdout.of(held))


def slow_distances(names: tuple[str, ...], one: Microdata, two: Microdata, scale: Microdata) -> np.ndarray:
    """Every pair, column by column, from the definition."""
    out = np.zeros((len(one), len(two)))
    for name in names:
        if name in FACTS:
            a, b, s = (np.array(d.batch([name]).column(name).numbers) for d in (one, two, scale))
            sd = np.std(s[~np.isnan(s)], ddof=1)
            for i, u in enumerate(a):
                for j, v in enumerate(b):
                    if np.isnan(u) and np.isnan(v):
                        continue
                    mean = s[~np.isnan(s)].mean()
                    if np.isnan(u) or np.isnan(v):  # a missing number: 1 away, and at the mean besides
                        out[i, j] += 1 + ((u if np.isnan(v) else v) - mean) ** 2 / sd**2
                    else:
                        out[i, j] += ((u - v) / sd) ** 2
        else:
            a, b = (np.array(d.batch([name]).column(name).arrow.to_pylist(), object) for d in (one, two))
            out += a[:, None] != b[None, :]
    return np.sqrt(out)


# -- kernels


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 2), st.integers(0, 3))
def test_the_nearest_rows_are_those_of_a_full_scan(seed: int, k: int, p: int, q: int) -> None:
    g = np.random.default_rng(seed)
    n, m = int(g.integers(k, 90)), int(g.integers(1, 20))
    q = max(q, 1 - p)
    x, y = (np.hstack([g.integers(0, 4, (r, p)) / 2, g.integers(0, 3, (r, q)) * 0.7]) for r in (n, m))
    d = ((y[:, None, :p] - x[None, :, :p]) ** 2).sum(2) + (y[:, None, p:] != x[None, :, p:]).sum(2)
    order = np.argsort(d, axis=1, kind="stable")[:, :k]  # of equal distances the lower row
    rows, far, tied = k_nearest(x, y, k, p)
    np.testing.assert_array_equal(rows, order)
    np.testing.assert_array_equal(far, np.take_along_axis(d, order, 1))
    value, low = g.integers(0, 3, n).astype(float), g.integers(0, 3, m).astype(float)
    first, nearest, ties, hits = nearest_votes(x, y, value, low, low + 1, p)
    np.testing.assert_array_equal(first, order[:, 0])
    least = d == d.min(axis=1)[:, None]
    np.testing.assert_array_equal(nearest, d.min(axis=1))
    np.testing.assert_array_equal(ties, least.sum(axis=1))
    np.testing.assert_array_equal(tied, ties)
    np.testing.assert_array_equal(hits, (least & (value >= low[:, None]) & (value <= low[:, None] + 1)).sum(axis=1))


@given(st.integers(0, 10_000))
def test_boxes_hold_what_a_full_scan_finds(seed: int) -> None:
    g = np.random.default_rng(seed)
    x = g.integers(0, 5, (int(g.integers(1, 40)), 3)).astype(float)
    x[g.random(x.shape) < 0.1] = -np.inf
    low, high = g.integers(0, 5, (12, 3)).astype(float), g.integers(0, 5, (12, 3)).astype(float)
    free = g.random((12, 3)) < 0.4
    low[free], high[free] = -np.inf, np.inf
    inside = ((x >= low[:, None]) & (x <= high[:, None])).all(axis=2)
    counts, last = box_counts(x, low, high)
    np.testing.assert_array_equal(counts, inside.sum(axis=1))
    np.testing.assert_array_equal(holds_one(x, low, high), inside.sum(axis=1) == 1)
    for b in range(12):
        assert last[b] == max(np.flatnonzero(inside[b]), default=-1)


# -- points


def test_points_are_as_far_apart_as_the_definition_says() -> None:
    files = people(40, 1), people(30, 2), people(20, 3, levels=5)
    names = ("x", "y", "c", "d")
    at = as_points(names, *files)
    for one in range(3):
        for two in range(3):
            slow = slow_distances(names, files[one], files[two], files[0])
            np.testing.assert_allclose(at[one].distances(at[two], 2), np.sort(slow, axis=1)[:, :2], atol=1e-12)


def test_a_constant_number_counts_as_a_category() -> None:
    one = microdata(FACTS, x=[5.0, 5.0, 5.0], c=["a", "a", "b"])
    two = microdata(FACTS, x=[5.0, 900.0], c=["a", "b"])
    a, b = as_points(("x", "c"), one, two)
    np.testing.assert_allclose(b.distances(a)[:, 0], [0.0, 1.0])


def test_columns_that_say_nothing_of_a_person_are_not_compared() -> None:
    sample = census(400, 0.5).sample
    names = comparable(Release.of(sample, sample))
    assert {"age", "sex", "salary"} <= set(names)
    for role in ("identifier", "weight", "household", "stratum"):
        assert not set(names) & set(sample.schema.names(role=role))


def test_a_column_of_another_kind_is_left_out_or_refused_by_name() -> None:
    kept, held = hold_out(census(400, 0.5).sample, 0.5, Draws(1))
    made = Recode(rules={"age": [30, 60]}).apply(kept, Draws(1)).with_holdout(held)
    assert "age" not in comparable(made)
    with pytest.raises(NotApplicable, match="'age' holds another kind of values"):
        DCR(using=("age",)).score(made)
    with pytest.raises(NotApplicable, match="Did you mean 'salary'"):
        DCR(using=("salry",)).score(made)


def test_a_column_that_only_the_release_has_is_refused_by_name() -> None:
    data, more = microdata(c=["a", "b"]), microdata(c=["a", "b"], d=["u", "v"])
    with pytest.raises(NotApplicable, match="column 'd' is not in the original"):
        DCR(using=("d",)).score(released(data, microdata(c=["a", "c"]), more))


@pytest.mark.parametrize("value", [np.inf, 1e300])
def test_values_that_cannot_be_compared_are_refused(value: float) -> None:
    data = microdata(FACTS, x=[1.0, 2.0, value, -value], c=list("abab"))
    with pytest.raises(DataError, match="column 'x' holds infinite or very large values"):
        DCR().score(released(data, people(5, 1).local(["x", "c"]), data))


def test_one_number_so_large_that_no_distance_from_it_is_finite_is_refused_wherever_it_stands() -> None:
    usual = [cloud(20, seed, 1) for seed in range(3)]
    beyond = amounts(x0=[*np.linspace(-1, 1, 19), 1e200])
    for place in range(3):
        files = [beyond if i == place else data for i, data in enumerate(usual)]
        for measure in (DCR(), NNDR()):
            with pytest.raises(DataError, match="column 'x0' holds infinite or very large values"):
                measure.score(released(*files))


# -- DCR


@given(st.integers(0, 5_000), st.integers(1, 3))
def test_dcr_is_the_share_of_nearest_records_that_are_original(seed: int, levels: int) -> None:
    original, held, masked = people(25, seed, levels), people(14, seed + 1, levels), people(12, seed + 2, levels)
    names = ("c", "d")  # many ties
    d = np.hstack([slow_distances(names, masked, f, original) for f in (original, held)])
    least = np.isclose(d, d.min(axis=1)[:, None])
    share = (least[:, :25].sum(axis=1) / least.sum(axis=1)).mean()
    score = DCR(using=names).score(released(original, held, masked))
    assert score.details["share before correction for size"] == pytest.approx(share)
    odds = share / (1 - share) * 14 / 25 if share < 1 else math.inf
    assert score.value == pytest.approx((1.0 if share == 1 else odds / (1 + odds)) - 0.5)


def test_an_exact_copy_is_the_worst_and_independent_data_are_at_the_baseline() -> None:
    for sizes in ((300, 300), (400, 100), (100, 400)):
        original, held = people(sizes[0], 1), people(sizes[1], 2)
        measures = (DCR, NNDR, IMS) if sizes[0] <= sizes[1] else (DCR, IMS)
        copy = {m: m().score(released(original, held, original)) for m in measures}
        assert copy.pop(DCR).value == 0.5
        assert all(score.value == 1 for score in copy.values())
        fresh = {m: m().score(released(original, held, people(1_000, 3))) for m in measures}
        for score in fresh.values():
            low, high = score.interval  # type: ignore[misc]
            assert low - 0.02 <= 0 <= high + 0.02
        assert abs(fresh[DCR].value) < 0.06
        assert NNDR not in fresh or abs(fresh[NNDR].value) < 0.1
        assert fresh[IMS].value == 0


def test_dcr_is_unbiased_for_files_of_different_size_with_ties() -> None:
    """Exchangeable records: the share of the pooled nearest that are original is N / (N + M) on average."""
    shares = []
    for seed in range(150):
        a, b, c = as_points(("c", "d"), people(60, 3 * seed), people(20, 3 * seed + 1), people(25, 3 * seed + 2))
        shares.append(nearest_share(c.near(a), c.near(b)).mean())
    assert np.mean(shares) == pytest.approx(0.75, abs=4 * np.std(shares) / math.sqrt(150))
    assert corrected(0.75, 60, 20) == pytest.approx(0.5)


def test_noise_lowers_every_one_of_them() -> None:
    kept, held = hold_out(cloud(800, 1), 0.5, Draws(1))
    made = [KimNoise(lambda2=v).apply(kept, Draws(2)).with_holdout(held) for v in (0.001, 0.1, 3.0)]
    for measure in (DCR(), NNDR()):
        values = [measure.score(m).value for m in made]
        assert values[0] > values[1] > values[2]
        assert "nothing of whether a person's presence" in measure.score(made[0]).words


@pytest.mark.parametrize(
    ("measure", "sizes"),
    [(DCR(), (100, 100, 300)), (DCR(), (200, 50, 60)), (NNDR(), (100, 100, 300)), (NNDR(), (80, 80, 40))],
)
def test_the_interval_covers_no_difference_where_there_is_none(
    measure: DCR | NNDR, sizes: tuple[int, int, int]
) -> None:
    """Files drawn afresh from one population each time: released records that share a closest record count as few."""
    missed = 0
    for seed in range(200):
        files = [cloud(n, 1_000 + 3 * seed + i, 2) for i, n in enumerate(sizes)]
        low, high = measure.score(released(*files)).interval  # type: ignore[misc]
        missed += not low <= 0 <= high
    assert missed <= 22  # 95 % nominal; 22 of 200 or more misses have probability 0.0005 if it holds


def test_companions_and_records_are_quantiles_and_distances() -> None:
    original, held, masked = people(50, 1), people(40, 2), people(30, 3)
    score = DCR().score(released(original, held, masked))
    names = ("x", "y", "c", "d")
    for other, key in ((original, "original"), (held, "holdout")):
        d = slow_distances(names, masked, other, original).min(axis=1)
        assert score.details[f"5th percentile of distance to the {key}"] == pytest.approx(np.quantile(d, 0.05))
    np.testing.assert_allclose(score.records, slow_distances(names, original, masked, original).min(axis=1))


def test_a_sample_of_the_released_records_is_drawn_by_the_seed() -> None:
    outcome = released(people(60, 1), people(60, 2), people(300, 3))
    one, two, other = (DCR(sample=50, seed=s).score(outcome) for s in (1, 1, 2))
    assert one == two != other
    assert one.details["released records looked at"] == 50


# -- NNDR


def test_nndr_compares_mean_ratios() -> None:
    original, held, masked = people(50, 1), people(50, 2), people(30, 3)
    names = ("x", "y", "c", "d")
    means = []
    for other in (original, held):
        d = np.sort(slow_distances(names, masked, other, original), axis=1)
        means.append((d[:, 0] / d[:, 1]).mean())
    score = NNDR().score(released(original, held, masked))
    assert score.value == pytest.approx(1 - means[0] / means[1])
    assert score.interval is not None
    assert score.interval[0] < score.value < score.interval[1]


def test_nndr_of_numbers_in_p_columns_is_p_over_p_plus_one() -> None:
    """Volumes of nearest neighbours of uniform points are exponential, so (d1/d2)^p is uniform: E[d1/d2] = p / (p + 1)."""
    g = np.random.default_rng(5)
    for p in (1, 3):
        inside, cloud = g.uniform(0.2, 0.8, (4_000, p)), g.uniform(0, 1, (20_000, p))
        d = Points(inside, p).distances(Points(cloud, p), 2)
        assert (d[:, 0] / d[:, 1]).mean() == pytest.approx(p / (p + 1), abs=0.02)


def categories(n: int, g: np.random.Generator, columns: int = 4) -> Microdata:
    """Columns of three values each, the third three times as frequent as the first."""
    return microdata(**{f"c{j}": g.choice(["a", "b", "c"], n, p=[1 / 6, 2 / 6, 3 / 6]) for j in range(columns)})


def test_nndr_of_categories_favours_nobody_when_the_holdout_is_larger() -> None:
    """Of 300 records more are equally close than of 100: compared as they are, the ratios differ by a sixth."""
    g = np.random.default_rng(1)
    values = [NNDR().score(released(*(categories(n, g) for n in (100, 300, 300)))).value for _ in range(60)]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / math.sqrt(60))
    assert np.std(values) < 0.12


def test_nndr_of_categories_refuses_a_smaller_holdout_but_numbers_do_not_care() -> None:
    g = np.random.default_rng(1)
    with pytest.raises(NotApplicable, match="the holdout must have as many records as the original"):
        NNDR().score(released(categories(300, g), categories(100, g), categories(300, g)))
    values = [NNDR().score(released(cloud(300, s), cloud(80, s + 1), cloud(200, s + 2))).value for s in range(0, 90, 3)]
    assert np.mean(values) == pytest.approx(0, abs=4 * np.std(values) / math.sqrt(30))


def test_one_record_is_too_few_for_a_ratio() -> None:
    one = people(1, 1)
    for files in (
        (people(9, 2), one, people(9, 3)),
        (one, people(9, 2), people(9, 3)),
        (people(9, 3), people(9, 2), one),
    ):
        with pytest.raises(NotApplicable, match="at least two records"):
            NNDR().score(released(*files))


def test_the_interval_of_a_few_ratios_is_as_wide_as_so_few_allow() -> None:
    """Student's factor for five released records is 2.78, not 1.96."""
    missed = 0
    for seed in range(200):
        files = [cloud(n, 5_000 + 3 * seed + i, 2) for i, n in enumerate((40, 40, 5))]
        low, high = NNDR().score(released(*files)).interval  # type: ignore[misc]
        missed += not low <= 0 <= high
    assert missed <= 22  # as above


# -- IMS


@given(st.integers(0, 5_000))
def test_ims_counts_exact_copies(seed: int) -> None:
    original, held, masked = people(20, seed), people(20, seed + 1), people(15, seed + 2)
    names = ("c", "d")

    def records(data: Microdata) -> list[tuple[str, ...]]:
        columns = (data.batch([n]).column(n).arrow.to_pylist() for n in names)
        return list(zip(*columns, strict=True))

    def share(other: Microdata) -> float:
        return float(np.mean([r in set(records(other)) for r in records(masked)]))

    score = IMS(using=names).score(released(original, held, masked))
    assert score.value == pytest.approx(share(original) - share(held))
    assert score.interval is not None
    assert score.interval[0] <= score.value <= score.interval[1]
    np.testing.assert_array_equal(score.records, [records(masked).count(r) for r in records(original)])


def test_a_larger_holdout_counts_as_a_part_of_it_would_on_average() -> None:
    """Every part of 3 of 7 people, written out."""
    for count in range(8):
        parts = list(combinations(range(7), 3))
        some = np.mean([any(i < count for i in part) for part in parts])
        assert any_of(np.array([count]), 7, 3)[0] == pytest.approx(some)
    assert any_of(np.array([0]), 457, 225)[0] == 0  # not almost


@pytest.mark.parametrize(("columns", "sizes"), [(4, (200, 200, 200)), (2, (60, 60, 500)), (4, (100, 300, 400))])
def test_the_interval_of_copies_by_chance_covers_no_difference(columns: int, sizes: tuple[int, int, int]) -> None:
    """Released records that are the same are copies together: 12 to 14 of 100 intervals missed when each counted as one."""
    g = np.random.default_rng(7)
    missed = 0
    for _ in range(150):
        low, high = IMS().score(released(*(categories(n, g, columns) for n in sizes))).interval  # type: ignore[misc]
        missed += not low <= 0 <= high
    assert missed <= 15  # 95 % nominal; more than 15 of 150 misses have probability 0.005 if it holds


def test_one_copy_is_told_in_the_singular() -> None:
    data = microdata(c=["a", "b"])
    score = IMS().score(released(data, microdata(c=["z", "y"]), microdata(c=["a", "q"])))
    assert score.words.startswith("1 of 2 released records is an exact copy of an original record")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_number_is_not_taken_for_a_missing_one(value: float) -> None:
    data = microdata(FACTS, x=[1.0, 2.0, value], c=list("abb"))
    gap = microdata(FACTS, x=pa.array([1.0, 2.0, None]), c=list("abb"))
    with pytest.raises(DataError, match="column 'x' holds infinite values"):
        IMS().score(released(data, people(5, 1).local(["x", "c"]), gap))


def test_missing_values_are_copied_too_and_a_small_holdout_is_named() -> None:
    data = microdata(c=pa.array(["a", None, "b"]))
    score = IMS().score(released(data, microdata(c=["z"]), microdata(c=pa.array([None, "q"], pa.string()))))
    assert score.value == 0.5
    assert "the holdout is smaller than the original" in score.words
