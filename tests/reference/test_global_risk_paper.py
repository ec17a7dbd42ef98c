"""The global-risk paper, with its errata: what it prints, what is right, and what can be derived for its experiments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sfumato import Draws, Microdata, Release, Snooper
from sfumato.datasets import billing
from sfumato.masks import IndependentNoise
from sfumato.risk import GlobalRisk
from sfumato.risk.classification import GivenWeights, broken_property, crossed
from sfumato.risk.global_risk import subset_risks
from sfumato.risk.key_changes import change_between, inversion_factor
from sfumato.schema import Attribute, PrefixHierarchy, Schema
from tests.global_risk_files import KEYS, File, factors, files, release
from tests.global_risk_twin import matrix, printed_sum

ZIPS = PrefixHierarchy(5)


def pair(before: pd.DataFrame, after: pd.DataFrame, *attributes: Attribute) -> Release:
    schema = Schema(attributes)
    return Release.of(Microdata(before, schema), Microdata(after, schema), "rows")


# -- section 2


def test_the_pairs_that_the_paper_calls_weak_and_strong_are_so() -> None:
    assert change_between(ZIPS, 48201, 48301) == "weak"
    assert change_between(ZIPS, 48202, 88202) == "strong"
    assert change_between(ZIPS, 48201, 49301) == "weak"  # every prefix is in the tree: erratum 4.17
    assert change_between(ZIPS, 48201, "*") == "strong"


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [("48201", "48202", 0.2), ("48201", "48301", 0.6), ("48201", "49301", 0.8), ("48202", "88202", 1.0), ("48201", "48201", 0.0),
     ("48201", "482**", 0.4), ("482**", "482**", 0.0), ("482**", "483**", 0.6)],
)  # fmt: skip
def test_the_weak_change_factor_of_zip_codes_is_five_minus_the_digits_in_common_over_five(
    before: str, after: str, counts: float
) -> None:
    """Erratum 4.2: (5 - k)/5, and 0 for equal values, generalised ones too."""
    files = (pd.DataFrame({"zip": [value]}) for value in (before, after))
    outcome = pair(*files, Attribute("zip", "key", "partially ordered", hierarchy=ZIPS))
    assert GlobalRisk().score(outcome).details["change of zip"] == pytest.approx(counts)


def test_an_inversion_is_a_pair_that_changed_its_order_not_one_that_kept_it() -> None:
    """Erratum 4.1: the text has x′_i < x′_j, which would count the pairs that stayed in order."""
    up, down = pd.DataFrame({"x": [1.0, 2.0, 3.0]}), pd.DataFrame({"x": [3.0, 2.0, 1.0]})
    assert GlobalRisk().score(pair(up, up, Attribute("x", "key"))).details["change of x"] == 0
    assert GlobalRisk().score(pair(up, down, Attribute("x", "key"))).details["change of x"] == 1


def test_the_inversion_factor_is_zero_where_there_is_no_pair() -> None:
    """Erratum 4.3: (2.5) would be 0/0."""
    one = pd.DataFrame({"x": [1.0]})
    assert GlobalRisk().score(pair(one, one + 1, Attribute("x", "key"))).details["change of x"] == 0
    assert inversion_factor(0, 0) == inversion_factor(0, 1) == 0


# -- section 3


@given(files())
@settings(max_examples=150, deadline=None)
def test_the_classification_matrix_is_that_of_the_papers_algorithm(file: File) -> None:
    found = crossed(release(file), Snooper(), "value")
    for keys in [(0,), (1, 2), (0, 1, 2)]:
        c = found.matrix([KEYS[k] for k in keys])
        mine = dict(zip(zip(c.released.tolist(), c.original.tolist(), strict=True), c.counts.tolist(), strict=True))
        assert mine == matrix(*file, keys)


@given(files())
@settings(max_examples=150, deadline=None)
def test_the_printed_double_sums_are_sums_of_entries_over_the_larger_size(file: File) -> None:
    """Erratum 4.14, for any numbers of records, with simulated ones (t > n) too."""
    c = matrix(*file, (0, 1, 2))
    n, t = len(file[0]), len(file[1])
    assert printed_sum(c, t, n, lambda i, j: 1.0) == pytest.approx(sum(v / max(i, j) for (i, j), v in c.items()))


W_45 = [[1, 0.1], [0.1, 0.8]]


def test_the_counter_example_to_fixing_unchanged_keys_for_any_weights() -> None:
    """Erratum 4.5, to the digit: both factors are 0, yet a snooper does better without the second key."""
    assert broken_property(np.array(W_45)) == ""
    outcome = pair(
        pd.DataFrame({"k1": ["a", "a"], "k2": [30, 30]}), pd.DataFrame({"k1": ["a", "a"], "k2": [29, 31]}),
        Attribute("k1", "key", "unordered"), Attribute("k2", "key"),
    )  # fmt: skip
    by_subset = subset_risks(outcome, weights=GivenWeights(W_45)).set_index("keys")
    assert by_subset["kept"].tolist() == [1, 1, 1]
    assert by_subset["DR_W"].to_dict() == pytest.approx({"k1": 0.4, "k2": 0.05, "k1, k2": 0.05})
    score = GlobalRisk(kind="weighted", weights=GivenWeights(W_45)).score(outcome)
    assert score.value == pytest.approx(0.4)
    assert GlobalRisk(kind="weighted", weights=GivenWeights(W_45)).best_keys(outcome) == ("k1",)
    # for the minimal and the maximal risk the paper is right: an unchanged key never hurts
    assert by_subset["DR_max"]["k1, k2"] == by_subset["DR_max"].max()
    assert by_subset["DR_min"]["k1, k2"] == by_subset["DR_min"].max()


@given(files(missing=True))
@settings(max_examples=150, deadline=None)
def test_an_unchanged_key_never_lowers_the_minimal_or_the_maximal_risk(file: File) -> None:
    table = subset_risks(release(file)).set_index("keys")
    icf = factors(file)
    for k, name in enumerate(KEYS):
        if icf[k] > 0:
            continue
        for subset in table.index:
            names = subset.split(", ")
            more = ", ".join(key for key in KEYS if key in names or key == name)
            for risk in ("DR_min", "DR_max"):
                assert table[risk][more] >= table[risk][subset] - 1e-12


@st.composite
def valid_weights(draw: st.DrawFn) -> GivenWeights:
    """Square matrices with all the properties: a diagonal that falls, and fractions of it that fall away from the diagonal."""
    size = draw(st.integers(1, 4))
    steps = st.floats(0, 1)
    diagonal = np.cumprod([draw(st.floats(0.1, 5)), *(draw(steps) for _ in range(size - 1))])
    right, below = ([1.0, *np.cumprod([draw(steps) for _ in range(size)])] for _ in range(2))
    w = [[diagonal[max(i, j)] * (right[j - i] if j >= i else below[i - j]) for j in range(size)] for i in range(size)]
    return GivenWeights(w)


@given(files(missing=True), valid_weights())
@settings(max_examples=200, deadline=None)
def test_the_weighted_risk_lies_between_the_minimal_and_the_maximal_and_they_within_0_and_1(file: File, w: Any) -> None:
    """(3.12) and (3.13), with simulated records too: the sum of C is r <= n, whatever t is (erratum 4.13)."""
    outcome = release(file)
    least, most = (GlobalRisk(kind=kind).score(outcome).value for kind in ("min", "max"))  # type: ignore[arg-type]
    weighted = GlobalRisk(kind="weighted", weights=w).score(outcome).value
    assert 0 <= least <= weighted + 1e-12 <= most + 2e-12 <= 1 + 3e-12


def test_if_every_key_changed_throughout_every_risk_is_zero() -> None:
    """Erratum 4.6."""
    outcome = pair(
        pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]}), pd.DataFrame({"a": ["y", "x"], "b": ["v", "u"]}),
        Attribute("a", "key", "unordered"), Attribute("b", "key", "unordered"),
    )  # fmt: skip
    assert (subset_risks(outcome)[["DR_min", "DR_max", "DR_W"]] == 0).all(axis=None)
    assert GlobalRisk().score(outcome).value == 0
    assert GlobalRisk().best_keys(outcome) == ()


# -- section 4: noise on age


def test_without_coding_the_inversion_factor_of_normal_data_is_the_arc_tangent_of_the_root_of_c() -> None:
    """Erratum 4.4: (2/π) atan √c, which tends to 1. A pair is inverted with probability arccos(ρ)/π, ρ² = 1/(1 + c)."""
    n = 20_000
    x = np.random.default_rng(4).standard_normal(n)
    data = Microdata(pd.DataFrame({"x": x}), Schema((Attribute("x", "key"),)))
    for c in (0.01, 0.25, 1.0, 9.0, 400.0):
        outcome = IndependentNoise(columns=("x",), lambda2=c).apply(data, Draws(3))
        factor = GlobalRisk().score(outcome).details["change of x"]
        assert factor == pytest.approx(min(1, 2 / math.pi * math.atan(math.sqrt(c))), abs=0.012)


def expected_factor(ages: np.ndarray, c: float) -> float:
    """The expected inversion factor of whole ages with rounded normal noise, coded to 0 and 100: from the probabilities alone."""
    share = np.bincount(ages.astype(int), minlength=101) / len(ages)
    edges = np.array([-np.inf, *np.arange(0.5, 100), np.inf])
    after = np.diff(norm.cdf(edges[None, :], np.arange(101)[:, None], math.sqrt(c * ages.var(ddof=1))), axis=1)
    above = 1 - np.cumsum(after, axis=1)  # P(Y > y) for each true age
    larger = above @ after.T  # [a, b]: P(Y_a > Y_b)
    inverted = sum(share[a] * share[b] * larger[a, b] for a in range(101) for b in range(a + 1, 101))
    return min(1.0, 2 * 2 * inverted)  # ordered pairs are half of all


def test_coded_to_0_and_100_the_inversion_factor_peaks_and_falls_back_to_one_half() -> None:
    """Erratum 4.4: it does not go on rising with the variance. Rounded before coding (erratum 4.16).

    The top is flat: about .63 at c = 5, and a little more near c = 11.
    """
    data = billing(5_000)
    ages = data.numbers("age")
    grid = np.array([0.1, 1, 2, 3, 5, 8, 12, 20, 100, 10_000])
    expected = np.array([expected_factor(ages, c) for c in grid])
    assert 5 <= grid[expected.argmax()] <= 20
    assert expected[grid == 5].item() == pytest.approx(0.63, abs=0.01)
    assert expected.max() - expected[grid == 5].item() < 0.02
    assert expected[-1] == pytest.approx(0.5, abs=0.01)
    for c, value in zip(grid, expected, strict=True):
        outcome = IndependentNoise(columns=("age",), lambda2=float(c)).apply(data, Draws(5))
        numbers = outcome.masked.numbers("age")
        assert numbers.min() >= 0
        assert numbers.max() <= 100
        assert (numbers == np.round(numbers)).all()
        assert GlobalRisk().score(outcome).details["change of age"] == pytest.approx(value, abs=0.02)


@given(files(), st.floats(0.01, 1000))
@settings(max_examples=50, deadline=None)
def test_the_sum_of_the_weights_is_mere_scaling(file: File, scale: float) -> None:
    """Erratum 4.10: that they add up to n changes nothing, since DR_W divides by w_11."""
    outcome = release(file)
    plain, scaled = (
        GlobalRisk(kind="weighted", weights=GivenWeights([[c * v for v in row] for row in W_45])).score(outcome).value
        for c in (1.0, scale)
    )
    assert scaled == pytest.approx(plain)


@given(
    st.lists(
        st.tuples(st.integers(30, 32), st.sampled_from("fm"), st.sampled_from(["111", "112"])), min_size=1, max_size=12
    )
)
@settings(max_examples=50, deadline=None)
def test_the_classes_are_counted_as_the_paper_counts_clusters(records: list[tuple[Any, ...]]) -> None:
    """F classes, F_i of size i, n_i = i F_i records in them; unmasked, C has them on its diagonal: f = F, t_i = n_i."""
    found = crossed(release((records, records, list(range(len(records))))), Snooper(), "value")
    sizes = [records.count(record) for record in set(records)]
    assert len(found.before) == len(found.after) == len(sizes)
    assert sorted(found.before.sizes) == sorted(found.after.sizes) == sorted(sizes)
    c = found.matrix(KEYS)
    assert dict(zip(c.released.tolist(), c.counts.tolist(), strict=True)) == {i: i * sizes.count(i) for i in sizes}
    assert c.released.tolist() == c.original.tolist()
