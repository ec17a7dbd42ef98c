"""SafePub: δ by its definition, the privacy of a class enumerated, and what is released."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from anonymity_twin import adult
from scipy import stats
from small_files import column, microdata, release

from sfumato import Draws
from sfumato.data.classes import classes_of
from sfumato.errors import DataError, ParameterError
from sfumato.masks import SafePub
from sfumato.masks.anonymity.safe_pub import delta_of, least_k
from sfumato.schema import TreeHierarchy

TREE = TreeHierarchy([["x", "*"], ["y", "*"]])


@pytest.mark.parametrize(("epsilon", "beta"), [(0.5, 0.3), (1.0, 0.6), (2.0, 0.8)])
@pytest.mark.parametrize("k", [5, 20, 60])
def test_delta_is_the_largest_tail_of_its_definition(epsilon: float, beta: float, k: int) -> None:
    """Li, Qardaji and Su 2012, theorem 1, over all n up to 3,000."""
    gamma = (math.exp(epsilon) - 1 + beta) / math.exp(epsilon)
    n = np.arange(max(math.ceil(k / gamma - 1), 1), 3_000)
    truth = stats.binom.sf(np.floor(gamma * n + 1e-12), n, beta).max()
    assert math.isclose(delta_of(k, beta, epsilon), truth, rel_tol=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-4), (2.0, 1e-5)])
def test_no_count_of_a_class_tells_more_of_one_record_than_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """Every size of a class and one record more: Σ max(0, P(j) - e^ε·Q(j)) ≤ δ both ways, where fewer than k are shown as 0."""
    beta = -math.expm1(-epsilon)
    k = least_k(epsilon, delta, beta)

    def shown(n: int) -> np.ndarray:
        p = stats.binom.pmf(np.arange(402), n, beta)
        return np.concatenate([[p[:k].sum()], p[k:]])

    worst = 0.0
    for n in range(400):
        one, two = shown(n), shown(n + 1)
        for p, q in ((one, two), (two, one)):
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
    assert worst <= delta


def test_k_is_the_smallest_that_delta_allows() -> None:
    for epsilon, delta in ((1.0, 1e-5), (2.0, 1e-6)):
        beta = -math.expm1(-epsilon)
        k = least_k(epsilon, delta, beta)
        assert delta_of(k, beta, epsilon) <= delta < delta_of(k - 1, beta, epsilon)


def test_a_release_has_sampled_records_in_classes_of_k_and_no_other_column() -> None:
    data = adult(("salary-class",))
    mask = SafePub(("age", "sex", "race"), epsilon=1.5, delta=1e-6)
    made = release(mask, data)
    assert made.masked.schema.names() == ("sex", "age", "race")
    assert classes_of(made.masked, ["sex", "age", "race"]).sizes.min() >= mask.k
    assert abs(len(made.masked) / 30_162 - mask.beta) < 0.05
    assert "differentially private" in made.guarantees[-1].says
    assert made.masked.digest() != release(mask, data, 2).masked.digest()


def test_fixed_levels_spend_nothing_on_the_search() -> None:
    data = microdata({"a": {"hierarchy": TREE}}, a=["x"] * 400 + ["y"] * 5)
    fixed, searched = SafePub(epsilon=1.0, levels={"a": 0}), SafePub(epsilon=1.0)
    assert fixed.beta > searched.beta
    made = release(fixed, data)
    assert set(column(made.masked, "a")) == {"x"}
    assert abs(len(made.masked) - 400 * fixed.beta) < 5 * math.sqrt(400 * fixed.beta * (1 - fixed.beta))


def test_levels_are_drawn_in_proportion_to_the_exponential_of_their_score() -> None:
    """Two levels: the values themselves, with all 200 records in large classes, or the root, which gains nothing."""
    data = microdata({"a": {"hierarchy": TREE}}, a=["x"] * 100 + ["y"] * 100)
    mask = SafePub(epsilon=1.0, delta=0.05, epsilon_search=0.2)
    least = math.ceil(mask.k / mask.beta)
    assert least <= 100
    odds = math.exp(0.2 * 200 / least)
    drawn = Counter(mask.fit(data, Draws(seed)).rule.facts.solution.levels for seed in range(300))
    expected = odds / (1 + odds)
    assert abs(drawn[(0,)] / 300 - expected) < 4 * math.sqrt(expected * (1 - expected) / 300) + 1e-9


def test_what_would_tell_of_the_data_is_refused() -> None:
    data = microdata({"a": {"hierarchy": TREE}}, a=["x"] * 30, b=["u"] * 30)
    with pytest.raises(DataError, match="no hierarchy"):
        SafePub(("a", "b")).apply(data, Draws(1))
    with pytest.raises(DataError, match="nothing can be released"):
        SafePub().apply(data, Draws(1))
    with pytest.raises(ParameterError, match="a part of epsilon"):
        SafePub(epsilon=0.1, epsilon_search=0.2)
    with pytest.raises(ParameterError, match="levels are 0 to 1"):
        SafePub(levels={"a": 3}).apply(data, Draws(1))
