"""CAP, TCAP and WEAP against a slow twin and by hand."""

from __future__ import annotations

import math
from typing import Any

import attribution_twin as twin
import numpy as np
import pytest
from attribution_twin import Person, there
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sfumato import Draws, Release, Snooper
from sfumato.attacks import Attribution
from sfumato.contract import success
from sfumato.errors import NotApplicable
from sfumato.risk import CAP, TCAP, WEAP

RULES = ("wildcard", "value", "ignored")
keys = st.tuples(st.sampled_from(["p", "q", None]), st.sampled_from(["x", "y", "z", None]))
words = st.sampled_from(["no", "yes", "perhaps", None])
amounts = st.sampled_from([0.0, 10.0, 10.4, 11.0, -20.0, 20.5, None])


def files(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[list[Person], list[Person]]]:
    people = st.lists(st.tuples(keys, values), min_size=1, max_size=12)
    return st.tuples(people.filter(_some), people.filter(_some)).filter(lambda pair: not twin.apart(*pair))


def _some(people: list[Person]) -> bool:
    return any(p[1] is not None for p in people)


slowly = settings(max_examples=60, deadline=None, derandomize=True)


def same_word(value: Any, truth: Any) -> bool:
    return bool(value == truth)


def within(share: float) -> twin.Same:
    return lambda value, truth: truth - share * abs(truth) <= value <= truth + share * abs(truth)


def check(measure: Any, made: Release, expected: float | None, **details: float) -> None:
    if expected is None:
        with pytest.raises(NotApplicable):
            measure.score(made)
        return
    score = measure.score(made)
    assert_allclose(score.value, expected, atol=1e-12)
    for name, value in details.items():
        assert_allclose(score.details[name], value, atol=1e-12)


# -- CAP


def slow_cap(original: list[Person], released: list[Person], rule: str, unmatched: str, same: twin.Same) -> list[float]:
    held = there(released, rule)
    probabilities = [
        twin.drawn(truth, twin.found(k, held, rule, unmatched == "nearest"), same) for k, truth in there(original, rule)
    ]
    return [0.0 if math.isnan(p) and unmatched == "wrong" else p for p in probabilities]


@slowly
@given(files(words), st.sampled_from(RULES), st.sampled_from(["left out", "wrong", "nearest"]))
def test_cap_of_a_category_is_that_of_the_slow_twin(pair: Any, rule: str, unmatched: str) -> None:
    original, released = pair
    made = twin.release(original, released)
    right = slow_cap(original, released, rule, unmatched, same_word)
    rate = twin.mean(right)
    plain = [p[1] for p in there(original, rule)]
    shares = [plain.count(t) / len(plain) if not math.isnan(r) else math.nan for t, r in zip(plain, right, strict=True)]
    baseline = twin.mean(shares)
    check(CAP("t", missing=rule, unmatched=unmatched, what="rate"), made, rate)  # type: ignore[arg-type]
    value = None if rate is None or baseline is None else twin.excess(rate, baseline)
    check(CAP("t", missing=rule, unmatched=unmatched), made, value, **({} if rate is None else {"rate": rate}))  # type: ignore[arg-type]
    if rate is not None:
        expected = iter(right)
        records = [next(expected) if p in there([p], rule) else math.nan for p in original]
        assert_allclose(CAP("t", missing=rule, unmatched=unmatched).score(made).records, records)  # type: ignore[arg-type]


@slowly
@given(
    files(amounts), st.sampled_from(RULES), st.sampled_from(["left out", "nearest"]), st.sampled_from([0.0, 0.04, 0.5])
)
def test_cap_of_a_number_counts_values_near_the_truth(pair: Any, rule: str, unmatched: str, tolerance: float) -> None:
    original, released = pair
    made = twin.release(original, released)
    rate = twin.mean(slow_cap(original, released, rule, unmatched, within(tolerance)))
    check(CAP("t", missing=rule, unmatched=unmatched, tolerance=tolerance, what="rate"), made, rate)  # type: ignore[arg-type]
    known = [p[1] for p in original if p[1] is not None]
    if len(known) > 1:
        reach = tolerance * float(np.std(known, ddof=1))
        rate = twin.mean(slow_cap(original, released, rule, unmatched, lambda v, t: bool(t - reach <= v <= t + reach)))
        check(CAP("t", missing=rule, unmatched=unmatched, near="sd", tolerance=tolerance, what="rate"), made, rate)  # type: ignore[arg-type]
    rate = twin.mean(slow_cap(original, released, rule, unmatched, same_word))
    check(CAP("t", missing=rule, unmatched=unmatched, near="equal", what="rate"), made, rate)  # type: ignore[arg-type]


def test_groups_of_equal_size_are_those_of_the_original() -> None:
    original = [(("p", "x"), float(v)) for v in range(8)]
    released = [(("p", "x"), v) for v in (0.5, 1.5, 3.0, 100.0)]
    score = CAP("t", near="bins", bins=4, what="rate").score(twin.release(original, released))
    # groups end at 1, 3 and 5: the released values are in groups 0, 1, 1 and 3; two originals are in each
    assert_allclose(score.value, np.mean([1 / 4, 2 / 4, 0, 1 / 4]))
    assert_allclose(score.details["baseline"], 1 / 4)


@slowly
@given(files(words), st.sampled_from(RULES))
def test_the_attacks_best_guess_is_that_of_the_slow_twin(pair: Any, rule: str) -> None:
    original, released = pair
    attack = Attribution("t", answer="best", missing=rule)  # type: ignore[arg-type]
    guesses = attack.run(twin.release(original, released), Snooper(), Draws(1))
    held, targets = there(released, rule), there(original, rule)
    values = [twin.found(k, held, rule) for k, _ in targets]
    right = [twin.best(t, v, same_word, False) for (_, t), v in zip(targets, values, strict=True)]
    assert_allclose(guesses.right, [r for r in right if not math.isnan(r)])
    sure = [twin.guess(v, same_word, False)[1] for v in values if v]
    assert_allclose(guesses.sure, sure)
    truths = [t for _, t in targets]
    assert_allclose(
        guesses.baseline,
        [twin.best(t, truths, same_word, False) for t, v in zip(truths, values, strict=True) if v],
    )
    if len(guesses):
        assert_allclose(success(guesses).rate, twin.mean(right))


# -- TCAP


@slowly
@given(files(words), st.sampled_from(RULES), st.sampled_from([1.0, 0.6]))
def test_tcap_counted_in_the_original_is_that_of_the_slow_twin(pair: Any, rule: str, threshold: float) -> None:
    original, released = pair
    made = twin.release(original, released)
    held, targets = there(released, rule), there(original, rule)
    values = [twin.found(k, held, rule) for k, _ in targets]
    truths = [t for _, t in targets]
    certain = [bool(v) and twin.guess(v, same_word, False)[1] >= threshold for v in values]
    right = [
        c * twin.best(t, v, same_word, False) if c else 0.0 for t, v, c in zip(truths, values, certain, strict=True)
    ]
    plain = [twin.best(t, truths, same_word, False) if c else 0.0 for t, c in zip(truths, certain, strict=True)]
    sizes = {"certain": sum(certain), "matched": sum(bool(v) for v in values), "all": len(targets)}
    for denominator, n in sizes.items():
        measure = TCAP("t", missing=rule, denominator=denominator, threshold=threshold)  # type: ignore[arg-type]
        value = None if not n else twin.excess(sum(right) / n, sum(plain) / n)
        check(measure, made, value, **({"rate": sum(right) / n} if n else {}))


@slowly
@given(files(words), st.sampled_from(RULES), st.sampled_from([1.0, 0.6]))
def test_tcap_counted_in_the_release_is_that_of_the_slow_twin(pair: Any, rule: str, threshold: float) -> None:
    original, released = pair
    made = twin.release(original, released)
    held, targets = there(released, rule), there(original, rule)
    inside = [twin.drawn(t, twin.found(k, held, rule), same_word) for k, t in held]
    back = [twin.drawn(t, twin.found(k, targets, rule), same_word) for k, t in held]
    matched = [not math.isnan(b) for b in back]
    certain = [i >= threshold and m for i, m in zip(inside, matched, strict=True)]
    right = sum(b for b, c in zip(back, certain, strict=True) if c)
    for denominator, n in {"certain": sum(certain), "matched": sum(matched), "all": len(held)}.items():
        measure = TCAP("t", missing=rule, denominator=denominator, threshold=threshold, by="released", what="rate")  # type: ignore[arg-type]
        check(measure, made, right / n if n else None)


def test_tcap_of_a_number_is_certain_where_all_values_are_near_their_median() -> None:
    original = [(("p", "x"), 100.0), (("p", "y"), 100.0), (("q", "x"), 100.0), (("q", "y"), 50.0)]
    released = [
        (("p", "x"), 98.0), (("p", "x"), 101.0), (("p", "x"), 103.0),  # all within 5 % of 101, which is right
        (("p", "y"), 98.0), (("p", "y"), 101.0), (("p", "y"), 120.0),  # one is not near 101
        (("q", "x"), 80.0),  # certain, and wrong
    ]  # fmt: skip
    made = twin.release(original, released)
    for denominator, n in {"certain": 2, "matched": 3, "all": 4}.items():
        score = TCAP("t", denominator=denominator, what="rate").score(made)  # type: ignore[arg-type]
        assert_allclose(score.value, 1 / n)
        assert_allclose(score.records, [1, np.nan, 0, np.nan])


# -- the worked tables of the synthpop vignette: the order of the denominators


@slowly
@given(files(words))
def test_the_measures_are_ordered_as_their_denominators(pair: Any) -> None:
    """DCAP_b >= DCAP_d and TCAP >= TCAP_b >= DiSCO (Raab, Nowok and Dibben, section 3.3.2)."""
    made = twin.release(*pair)
    try:
        rates = [TCAP("t", denominator=d, what="rate").score(made).value for d in ("certain", "matched", "all")]  # type: ignore[arg-type]
        caps = [CAP("t", unmatched=u, what="rate").score(made).value for u in ("left out", "wrong")]  # type: ignore[arg-type]
    except NotApplicable:
        return
    assert rates == sorted(rates, reverse=True)
    assert caps == sorted(caps, reverse=True)
    assert rates[2] <= caps[1] + 1e-12


# -- WEAP


@slowly
@given(files(words), st.sampled_from(RULES), st.sampled_from([1.0, 0.5, 0.3]))
def test_weap_is_that_of_the_slow_twin(pair: Any, rule: str, threshold: float) -> None:
    original, released = pair
    made = twin.release(original, released)
    held = there(released, rule)
    if not held or not there(original, "value"):
        check(WEAP("t", missing=rule), made, None)  # type: ignore[arg-type]
        return
    inside = [twin.drawn(t, twin.found(k, held, rule), same_word) for k, t in held]
    truths = [t for _, t in held]
    plain = [truths.count(t) / len(truths) for t in truths]
    expected = twin.excess(float(np.mean(inside)), float(np.mean(plain)))
    check(WEAP("t", missing=rule), made, expected, rate=float(np.mean(inside)))  # type: ignore[arg-type]
    rate, base = (float(np.mean([p >= threshold for p in part])) for part in (inside, plain))
    measure = WEAP("t", missing=rule, summary="share", threshold=threshold)  # type: ignore[arg-type]
    check(measure, made, twin.excess(rate, base), rate=rate)


def test_weap_of_a_record_is_that_of_its_released_record() -> None:
    before, after = (
        [(("p", "x"), "no"), (("p", "x"), "yes")],
        [(("p", "x"), "yes"), (("p", "x"), "yes"), (("p", "y"), "no")],
    )
    made = Release.of(twin.microdata(before), twin.microdata(after), align=[1, -1, 0])
    assert_allclose(WEAP("t").score(made).records, [1, 1])
    assert WEAP("t").score(twin.release(before, after)).records is None
