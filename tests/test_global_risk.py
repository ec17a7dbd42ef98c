"""Global risk: the measure against loops over the records, the factors of its keys, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import Draws, Microdata, Release, Snooper
from sfumato.datasets import billing
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import (
    MDAV,
    PRAM,
    AddSimulatedRecords,
    Generalise,
    IndependentNoise,
    RandomOrder,
    Sample,
    SuppressValues,
    TopCode,
)
from sfumato.risk import GlobalRisk
from sfumato.risk.classification import WeightMatrix
from sfumato.risk.global_risk import subset_risks
from sfumato.risk.key_changes import change_between, inversion_factor, weak_change_steps
from sfumato.schema import Attribute, PrefixHierarchy, Schema, TreeHierarchy
from tests.global_risk_files import FAMILIES, KEYS, File, factors, files, release
from tests.global_risk_twin import every_subset

# -- the measure, against the loops


def everybody(i: int, j: int) -> float:
    """The weights of the maximal risk."""
    return 1.0


def unique_in_both(i: int, j: int) -> float:
    """The weights of the minimal risk."""
    return float(i == j == 1)


def weights_of(w: WeightMatrix) -> Callable[[int, int], float]:
    return lambda i, j: float(w.at(np.array([i]), np.array([j]))[0])


@given(files(), st.sampled_from(FAMILIES))
@settings(max_examples=100, deadline=None)
def test_every_subset_has_the_risk_that_the_papers_loops_give(file: File, w: WeightMatrix) -> None:
    found = subset_risks(release(file), weights=w).set_index("keys")
    assert len(found) == 7
    for column, weight in (("DR_min", unique_in_both), ("DR_max", everybody), ("DR_W", weights_of(w))):
        for subset, value in every_subset(*file, factors(file), weight).items():
            assert found[column][", ".join(KEYS[k] for k in subset)] == pytest.approx(value, abs=1e-12)
    for subset in every_subset(*file, factors(file), everybody):
        kept = math.prod(1 - factors(file)[k] for k in subset)
        assert found["kept"][", ".join(KEYS[k] for k in subset)] == pytest.approx(kept, abs=1e-12)
    assert found["DR_max"].is_monotonic_decreasing


def test_the_risks_of_each_subset_of_two_keys_are_those_worked_out_by_hand() -> None:
    original = pd.DataFrame({"sex": ["f", "f", "m", "m"], "town": ["a", "b", "a", "a"]})
    masked = original.assign(town=["a", "b", "a", "b"])  # one of four was changed: icf is 1/4, that of sex 0
    keys = Schema((Attribute("sex", "key", "unordered"), Attribute("town", "key", "unordered")))
    found = subset_risks(Release.of(Microdata(original, keys), Microdata(masked, keys), align="rows")).set_index("keys")
    # sex: everybody is in a class of 2 before and after: c22 = 4
    # town: original a has 3, b 1; released a has 2, b 2: c23 = 2 (a stays a), c21 = 1 (b stays b), c23 = 1 (a becomes b)
    # both: original (f,a) 1, (f,b) 1, (m,a) 2; released all 1: c11 = 2, c12 = 2
    expected = {
        "sex": (1, 0, 4 / 2 / 4),
        "town": (3 / 4, 0, 3 / 4 * (3 / 3 + 1 / 2) / 4),
        "sex, town": (3 / 4, 3 / 4 * 2 / 4, 3 / 4 * (2 + 2 / 2) / 4),
    }
    for subset, numbers in expected.items():
        assert found.loc[subset, ["kept", "DR_min", "DR_max"]].tolist() == pytest.approx(numbers)


@given(files(missing=True), st.sampled_from(FAMILIES), st.sampled_from(["wildcard", "value"]))
@settings(max_examples=100, deadline=None)
def test_the_risk_is_the_largest_over_all_subsets_for_any_weights(file: File, w: WeightMatrix, rule: Any) -> None:
    kinds: list[tuple[Any, WeightMatrix | None, Callable[[int, int], float]]] = [
        ("min", None, unique_in_both), ("max", None, everybody), ("weighted", w, weights_of(w)),
    ]  # fmt: skip
    for kind, matrix, weight in kinds:
        twin = every_subset(*file, factors(file), weight, rule)
        measure = GlobalRisk(kind=kind, weights=matrix, missing=rule)
        score = measure.score(release(file))
        assert score.value == pytest.approx(max(twin.values()), abs=1e-12)
        best = tuple(KEYS.index(name) for name in measure.best_keys(release(file)))
        assert score.value == pytest.approx(twin.get(best, 0.0), abs=1e-12)
        assert (score.details["keys used"], score.details["expected records"]) == pytest.approx(
            (len(best), score.value * len(file[0]))
        )
        quick = GlobalRisk(kind=kind, weights=matrix, missing=rule, search="greedy").score(release(file))
        assert score.details["greedy search finds"] == pytest.approx(quick.value, abs=1e-12)
        assert score.details["gap of the greedy search"] == pytest.approx(score.value - quick.value, abs=1e-12)
        assert quick.value - 1e-12 <= score.value <= quick.details["at most"] + 1e-12


@given(files(missing=True))
@settings(max_examples=100, deadline=None)
def test_records_with_a_missing_key_can_be_left_out_of_both_files(file: File) -> None:
    original, masked, align = file
    rows = [k for k, r in enumerate(original) if None not in r]
    kept = [(r, rows.index(a) if a in rows else -1) for r, a in zip(masked, align, strict=True) if None not in r]
    if not rows or not kept:
        with pytest.raises(NotApplicable, match="left out"):
            GlobalRisk(missing="ignored").score(release(file))
        return
    fewer: File = ([original[k] for k in rows], [r for r, _ in kept], [a for _, a in kept])
    twin = every_subset(*fewer, factors(fewer), lambda i, j: 1.0)
    assert GlobalRisk(missing="ignored").score(release(file)).value == pytest.approx(max(twin.values()), abs=1e-12)


@given(files(missing=True), st.sampled_from(["min", "max", "weighted"]))
@settings(max_examples=100, deadline=None)
def test_the_shares_of_the_records_add_up_to_the_risk(file: File, kind: Any) -> None:
    score = GlobalRisk(kind=kind).score(release(file))
    assert score.records is not None
    assert score.records.shape == (len(file[0]),)
    assert np.nansum(score.records) / len(file[0]) == pytest.approx(score.value, abs=1e-12)
    assert [not math.isnan(r) for r in score.records] == [k in file[2] for k in range(len(file[0]))]


def test_the_best_subset_is_named_and_so_is_the_key_that_misleads() -> None:
    original = [(30, "f", "111"), (31, "m", "112"), (32, "f", "121"), (33, "m", "211")]
    masked = [(a, "m" if s == "f" else "f", z) for a, s, z in original]
    score = GlobalRisk().score(release((original, masked, [0, 1, 2, 3])))
    assert score.value == 1
    assert score.details["change of sex"] == 1
    assert score.words == "4 of 4 records are expected to be found by age, zip; a snooper does best without sex"
    assert "30" not in score.words


def test_a_key_that_changed_throughout_is_left_out_and_if_all_did_nothing_is_found() -> None:
    original = [(30, "f", "111"), (31, "m", "211")]
    masked = [(31, "m", "211"), (30, "f", "111")]
    score = GlobalRisk().score(release((original, masked, [0, 1])))
    assert score.value == 0
    assert [score.details[f"change of {k}"] for k in KEYS] == [1, 1, 1]
    assert "no record is expected to be found" in score.words


def test_an_unmasked_file_has_the_risk_of_its_classes() -> None:
    """Every factor is 0: DR_min is the share of uniques, DR_max the number of classes over n, as in the earlier measures."""
    data = billing(1_000)
    score = {kind: GlobalRisk(kind=kind).score(RandomOrder().apply(data, Draws(1))) for kind in ("min", "max")}
    _, sizes = np.unique(
        np.column_stack([data.batch([k]).column(k).codes[0] for k in KEYS]), axis=0, return_counts=True
    )
    assert score["min"].value == pytest.approx((sizes == 1).sum() / 1_000)
    assert score["max"].value == pytest.approx(len(sizes) / 1_000)
    assert score["max"].details["keys used"] == 3


def test_simulated_records_hide_real_ones_but_are_not_found_themselves() -> None:
    data = billing(1_000)
    plain = GlobalRisk().score(RandomOrder().apply(data, Draws(1)))
    more = GlobalRisk().score(AddSimulatedRecords(share=0.5).apply(data, Draws(1)))
    assert more.value < plain.value
    assert more.records is not None
    assert more.records.shape == (1_000,)


def test_a_sample_is_found_only_as_far_as_it_was_drawn() -> None:
    data = billing(1_000)
    release = Sample(fraction=0.2).apply(data, Draws(1))
    assert GlobalRisk().score(release).value <= 0.2


def test_a_key_known_in_intervals_is_told_apart_in_intervals_in_both_files() -> None:
    original = [(30, "f", "111"), (31, "f", "111"), (39, "f", "111")]
    masked = [(31, "f", "111"), (30, "f", "111"), (39, "f", "111")]
    file = release((original, masked, [0, 1, 2]))
    assert GlobalRisk().score(file, Snooper(keys=("age",))).details["change of age"] == pytest.approx(2 / 3)
    coarse = GlobalRisk().score(file, Snooper(keys=("age",), precision={"age": 5}))
    assert coarse.details["change of age"] == 0
    assert coarse.value == pytest.approx(2 / 3)


# -- factors


def test_no_pair_of_records_has_no_inversion_factor() -> None:
    assert [inversion_factor(0, r) for r in (0, 1, 2)] == [0, 0, 0]
    assert inversion_factor(1, 2) == 1  # half of the pairs would be enough


@pytest.mark.parametrize(
    ("mask", "key"),
    [
        (TopCode(columns=("age",), value=60), "age"),
        (MDAV(columns=("age",), k=5), "age"),
        (Generalise(("age",), 2), "age"),
    ],
)
def test_methods_that_keep_the_order_have_no_inversions(mask: Any, key: str) -> None:
    assert GlobalRisk().score(mask.apply(billing(500), Draws(1))).details[f"change of {key}"] == 0


def test_the_more_often_a_category_changes_the_larger_its_factor() -> None:
    """Each sex is kept with probability k, so the factor is 1 - k but for chance (three standard errors)."""
    data = billing(5_000)
    for k in (0.9, 0.7, 0.5):
        mask = PRAM(
            ("sex",),
            matrix={"sex": {"female": {"female": k, "male": 1 - k}, "male": {"female": 1 - k, "male": k}}},
            invariant=False,
        )
        factor = GlobalRisk().score(mask.apply(data, Draws(1))).details["change of sex"]
        assert abs(factor - (1 - k)) < 3 * math.sqrt(k * (1 - k) / 5_000)


def test_a_suppressed_value_is_a_strong_change_of_any_key() -> None:
    original = [(30 + k % 3, "fm"[k % 2], f"1{k % 2 + 1}1") for k in range(10)]
    masked = [(None, None, None) if k < 4 else r for k, r in enumerate(original)]
    score = GlobalRisk().score(release((original, masked, list(range(10)))))
    assert [score.details[f"change of {key}"] for key in KEYS] == [pytest.approx(0.4)] * 3
    both = GlobalRisk().score(release((masked, masked, list(range(10)))))
    assert [both.details[f"change of {key}"] for key in KEYS] == [0, 0, 0]


def test_weak_and_strong_changes_of_other_trees_count_by_level() -> None:
    tree = TreeHierarchy.from_tree(
        {"Europe": {"Italy": ["Rome", "Pisa"], "Norway": ["Oslo"]}, "Asia": {"Japan": ["Kyoto"]}}
    )
    assert weak_change_steps(tree).tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    kinds = [change_between(tree, "Rome", other) for other in ("Rome", "Italy", "Pisa", "Oslo", "Kyoto", "*")]
    assert kinds == ["none", "weak", "weak", "weak", "strong", "strong"]


def test_prefixes_that_the_tree_does_not_have_do_not_make_a_change_weak() -> None:
    assert weak_change_steps(PrefixHierarchy(5, keep=(3, 2))).tolist() == [0, 0.4, 0.6, 1]
    assert change_between(PrefixHierarchy(5, keep=(3, 2)), "48201", "49301") == "strong"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ([0.5, 0.75], (0.5 + 0.75 + 1) / 4),
        (lambda a, b: 0.25, (0.25 + 0.25 + 1) / 4),
        ({"112": {"111": 0.125}}, (0.125 + 2 / 3 + 1) / 4),
    ],
)
def test_the_custodian_may_say_what_a_weak_change_counts(rule: Any, expected: float) -> None:
    original = [(30, "f", "111"), (30, "f", "111"), (30, "f", "111"), (30, "f", "111")]
    masked = [(30, "f", "112"), (30, "f", "121"), (30, "f", "211"), (30, "f", "111")]
    score = GlobalRisk(weak_changes={"zip": rule}).score(release((original, masked, [0, 1, 2, 3])))
    assert score.details["change of zip"] == pytest.approx(expected)
    listed = subset_risks(release((original, masked, [0, 1, 2, 3])), weak_changes={"zip": rule}).set_index("keys")
    assert listed.loc["zip", "kept"] == pytest.approx(1 - expected)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"zip": [0.5]}, "2 levels between the values and the root"),
        ({"zip": [0, 1]}, "not above 0"),
        ({"zip": lambda a, b: 2.0}, "at most 1"),
        ({"zpi": [0.5, 0.5]}, "Did you mean 'zip'"),
        ({"sex": [0.5]}, "unordered"),
        ({"zip": [0.1, 0.2, 0.3]}, "given by 3 numbers"),
        ({"zip": 0.5}, "must give numbers"),
        ({"zip": "half"}, "must give numbers"),
        ({"zip": {"111": {"112": "half"}}}, "must give numbers"),
        ({"zip": lambda a, b: None}, "must give numbers"),
        ({"zip": {"111": {"11200": 0.5}}}, "has the label '11200', which its hierarchy does not have"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_in_a_sentence(rules: Any, says: str) -> None:
    original, masked = [(30, "f", "111"), (31, "f", "121")], [(30, "f", "112"), (31, "f", "111")]
    with pytest.raises((NotApplicable, ParameterError), match=says):
        GlobalRisk(weak_changes=rules).score(release((original, masked, [0, 1])))


# -- what it refuses


def test_it_needs_to_know_which_record_came_from_which() -> None:
    data = billing(10)
    with pytest.raises(NotApplicable, match="align"):
        GlobalRisk().score(Release.of(data, data))
    with pytest.raises(NotApplicable, match="align"):
        subset_risks(Release.of(data, data))


def test_no_keys_and_unknown_keys_are_refused_in_a_sentence() -> None:
    data = billing(10)
    same = Release.of(data, data, "rows")
    with pytest.raises(NotApplicable, match="Did you mean 'zip'"):
        GlobalRisk().score(same, Snooper(keys=("zpi",)))
    bare = Microdata(pd.DataFrame({"x": [1.0]}), Schema((Attribute("x"),)))
    with pytest.raises(NotApplicable, match="no keys"):
        GlobalRisk().score(Release.of(bare, bare, "rows"))


def test_ordered_text_without_numbers_is_refused_and_with_numbers_compared() -> None:
    frame = pd.DataFrame({"size": ["small", "large", "medium"]})
    other = pd.DataFrame({"size": ["medium", "large", "small"]})
    plain = Schema((Attribute("size", "key"),))
    with pytest.raises(DataError, match="order is not known"):
        GlobalRisk().score(Release.of(Microdata(frame, plain), Microdata(other, plain), "rows"))
    numbers = Schema((Attribute("size", "key", values={"small": 1, "medium": 2, "large": 3}),))
    score = GlobalRisk().score(Release.of(Microdata(frame, numbers), Microdata(other, numbers), "rows"))
    assert score.details["change of size"] == pytest.approx(4 * 1 / 6)


def test_values_outside_the_hierarchy_are_refused_without_quoting_them() -> None:
    original, masked = [(30, "f", "111")], [(30, "f", "99999")]
    with pytest.raises(DataError, match="key 'zip'") as caught:
        GlobalRisk().score(release((original, masked, [0])))
    assert "99999" not in str(caught.value)


def test_too_many_keys_to_list_every_subset_are_refused() -> None:
    names = [f"k{i}" for i in range(17)]
    data = Microdata(
        pd.DataFrame({n: ["a", "b"] for n in names}), Schema(tuple(Attribute(n, "key", "unordered") for n in names))
    )
    with pytest.raises(NotApplicable, match="131,071 subsets"):
        subset_risks(Release.of(data, data, "rows"))
    assert GlobalRisk().score(Release.of(data, data, "rows")).value == 1


def test_several_methods_in_succession_are_measured_like_one() -> None:
    data = billing(500)
    noise, swap = IndependentNoise(columns=("age",), lambda2=0.05), PRAM(("sex",), pd=0.8)
    recipe = noise >> swap >> SuppressValues(("zip",), where="age > 70") >> Sample(fraction=0.5)
    score = GlobalRisk().score(recipe.apply(data, Draws(1)))
    assert all(score.details[f"change of {key}"] > 0 for key in KEYS)
    assert 0 < score.value < 0.5
