"""DiSCO and replicated uniques against a slow twin, by hand, and at their limits."""

from __future__ import annotations

from typing import Any

import attribution_twin as twin
import numpy as np
import pandas as pd
import pytest
from attribution_twin import Person, there
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom

from sfumato import Microdata, Release, Snooper
from sfumato.errors import NotApplicable
from sfumato.risk import TCAP, Disco, IndividualRisk, ReplicatedUniques
from sfumato.schema import Attribute, Schema

RULES = ("wildcard", "value", "ignored")
keys = st.tuples(st.sampled_from(["p", "q", None]), st.sampled_from(["x", "y", "z", None]))
people = st.lists(st.tuples(keys, st.sampled_from(["no", "yes", None])), min_size=1, max_size=10)
slowly = settings(max_examples=80, deadline=None, derandomize=True)


def same(value: Any, truth: Any) -> bool:
    return bool(value == truth)


@slowly
@given(people, people, st.sampled_from(RULES))
def test_disco_and_its_steps_are_those_of_the_slow_twin(
    original: list[Person], released: list[Person], rule: str
) -> None:
    assume(not twin.apart(original, released))
    made = twin.release(original, released)
    held, targets = there(released, rule), there(original, rule)
    if not targets:
        with pytest.raises(NotApplicable):
            Disco("t", missing=rule).score(made)  # type: ignore[arg-type]
        return
    n, truths = len(targets), [t for _, t in targets]
    values = [twin.found(k, held, rule) for k, _ in targets]
    own = [twin.found(k, targets, rule) for k, _ in targets]
    one = [len(set(v)) == 1 for v in values]
    disclosed = [c and v[0] == t for c, v, t in zip(one, values, truths, strict=True)]
    score = Disco("t", missing=rule).score(made)  # type: ignore[arg-type]
    plain = sum(twin.best(t, truths, same, False) for t, c in zip(truths, one, strict=True) if c) / n
    assert_allclose(score.value, twin.excess(sum(disclosed) / n, plain), atol=1e-12)
    steps = {
        "rate": sum(disclosed), "iS": sum(bool(v) for v in values), "DiS": sum(one), "Dorig": sum(len(set(v)) == 1 for v in own),
        "DiSDiO": sum(d and len(set(v)) == 1 for d, v in zip(disclosed, own, strict=True)),
    }  # fmt: skip
    for name, count in steps.items():
        assert_allclose(score.details[name], count / n)
    behind = [len(v) for v, d in zip(values, disclosed, strict=True) if d]
    assert_allclose(score.details["mean released records behind a disclosure"], np.mean(behind) if behind else 0)
    expected = iter(disclosed)
    assert_allclose(score.records, [float(next(expected)) if there([p], rule) else np.nan for p in original])
    whole = TCAP("t", missing=rule, denominator="all").score(made)  # type: ignore[arg-type]
    assert_allclose(score.value, whole.value)


def test_disco_of_a_small_file_by_hand() -> None:
    """Raab, Nowok and Dibben (2024), appendix: the sums of d over the cells with a released share of 1."""
    original = [(("p", "x"), "no")] * 3 + [(("p", "x"), "yes")] + [(("p", "y"), "no")] * 2 + [(("q", "x"), "yes")] * 4
    released = [(("p", "x"), "no")] * 2 + [(("p", "y"), "yes")] + [(("q", "y"), "no")]
    score = Disco("t", what="rate").score(twin.release(original, released))
    assert_allclose(score.value, 3 / 10)  # (p, x) says no with certainty, and is right for three of four
    assert {k: round(score.details[k], 9) for k in ("iS", "DiS", "DiSDiO", "Dorig")} == {
        "iS": 0.6, "DiS": 0.6, "DiSDiO": 0.0, "Dorig": 0.6,
    }  # fmt: skip
    assert "for 3 of 10 records" in score.words


def test_a_value_that_nearly_everybody_has_is_no_disclosure_beyond_the_column() -> None:
    original = [((str(i), "x"), "no") for i in range(95)] + [((str(i), "x"), "yes") for i in range(95, 100)]
    everybody = [(k, "no") for k, _ in original]
    score = Disco("t").score(twin.release(original, everybody))
    assert_allclose(score.details["rate"], 0.95)
    assert_allclose(score.value, 0)
    copied = Disco("t").score(twin.release(original, original))
    assert_allclose((copied.details["rate"], copied.value), (1, 1))


def test_a_number_is_disclosed_within_the_tolerance() -> None:
    original = [(("p", "x"), 100.0), (("p", "y"), 100.0), (("q", "x"), 7.0)]
    released = [(("p", "x"), 104.0), (("p", "y"), 106.0), (("q", "x"), 7.0), (("q", "x"), 9.0)]
    made = twin.release(original, released)
    assert_allclose(Disco("t").score(made).records, [1, 0, 0])
    assert_allclose(Disco("t", tolerance=0.3).score(made).records, [1, 1, 1])
    assert_allclose(Disco("t", near="equal").score(made).records, [0, 0, 0])


amounts = st.sampled_from([0.0, -10.0, 10.0, 10.4, 11.0, 20.5, None])
payments = st.lists(st.tuples(keys, amounts), min_size=1, max_size=10)


@slowly
@given(payments, payments, st.sampled_from(RULES), st.sampled_from([0.04, 0.1, 1.0]))
def test_disco_and_tcap_of_a_number_are_those_of_the_slow_twin(
    original: list[Person], released: list[Person], rule: str, tolerance: float
) -> None:
    """Certain where enough values are near their lower median, and right if that is near the truth; 0 is near 0 alone."""
    assume(not twin.apart(original, released))
    targets, held = there(original, rule), there(released, rule)
    assume(targets and any(v is not None for _, v in released))
    made = twin.release(original, released)
    near = lambda value, truth: bool(truth - tolerance * abs(truth) <= value <= truth + tolerance * abs(truth))  # noqa: E731
    values = [twin.found(k, held, rule) for k, _ in targets]
    middles = [twin.guess(v, near, True) if v else ([], 0.0) for v in values]
    for threshold in (1.0, 0.6):
        hits = [share >= threshold and near(g[0], t) for (g, share), (_, t) in zip(middles, targets, strict=True)]
        facts: Any = {"missing": rule, "tolerance": tolerance, "what": "rate"}
        score = TCAP("t", denominator="all", threshold=threshold, **facts).score(made)
        assert_allclose(score.value, np.mean(hits))
        if threshold == 1:
            assert_allclose(Disco("t", **facts).score(made).value, np.mean(hits))


def test_against_a_holdout_a_copy_discloses_and_a_fresh_file_does_not() -> None:
    def draw(seed: int) -> list[Person]:
        g = np.random.default_rng(seed)
        return [((f"{g.integers(40)}", f"{g.integers(10)}"), f"{g.integers(3)}") for _ in range(600)]

    measure, tries, missed = Disco("t", against="holdout"), 30, 0
    for seed in range(tries):
        original, holdout = draw(3 * seed), draw(3 * seed + 1)
        copy = measure.score(twin.release(original, original, holdout)).interval
        fresh = measure.score(twin.release(original, draw(3 * seed + 2), holdout)).interval
        assert copy is not None
        assert fresh is not None
        assert copy[0] > 0
        missed += not fresh[0] <= 0 <= fresh[1]
    assert missed <= binom.ppf(0.999, tries, 0.05)


# -- replicated uniques


@slowly
@given(people, people, st.sampled_from(RULES))
def test_replicated_uniques_are_those_of_the_slow_twin(
    original: list[Person], released: list[Person], rule: str
) -> None:
    keep = lambda part: [p for p in part if rule != "ignored" or None not in p[0]]  # noqa: E731
    mine, theirs = keep(original), keep(released)
    made = twin.release(original, released)
    if not mine or not theirs or twin.apart(mine, theirs):
        with pytest.raises(NotApplicable):
            ReplicatedUniques(missing=rule).score(made)  # type: ignore[arg-type]
        return
    matches = lambda k, part: sum(twin.differ(k, p[0], rule) == 0 for p in part)  # noqa: E731
    unique = [matches(k, mine) == 1 for k, _ in mine]
    both = [u and matches(k, theirs) == 1 for u, (k, _) in zip(unique, mine, strict=True)]
    score = ReplicatedUniques(missing=rule).score(made)  # type: ignore[arg-type]
    assert_allclose(score.value, sum(both) / len(mine))
    assert_allclose(score.details["UiO"], sum(unique) / len(mine))
    found = sum(u and matches(k, theirs) > 0 for u, (k, _) in zip(unique, mine, strict=True))
    assert_allclose(score.details["UiOiS"], found / len(mine))
    assert_allclose(score.details["UiS"], sum(matches(k, theirs) == 1 for k, _ in theirs) / len(theirs))
    expected = iter(both)
    assert_allclose(score.records, [float(next(expected)) if p in keep([p]) else np.nan for p in original])


def test_a_copy_replicates_all_its_uniques_and_another_file_none() -> None:
    original = [((str(i), "x"), "no") for i in range(8)] + [(("9", "x"), "no")] * 2
    assert ReplicatedUniques().score(twin.release(original, original)).value == 0.8
    assert ReplicatedUniques().score(twin.release(original, original * 2)).value == 0
    assert ReplicatedUniques().score(twin.release(original, [(("9", "z"), "no"), (("z", "x"), "no")])).value == 0


def test_replicated_uniques_are_records_whatever_weights_were_added_up_before() -> None:
    schema = Schema((Attribute("a", "key", "unordered"), Attribute("w", "weight")))  # type: ignore[arg-type]
    people_ = Microdata(pd.DataFrame({"a": ["p", "q", "r", "r"], "w": [7.0, 9.0, 8.0, 6.0]}), schema)
    for first in (None, IndividualRisk()):
        made = Release.of(people_, people_, align="rows")
        if first is not None:
            first.score(made)
        assert ReplicatedUniques().score(made).value == 0.5


def test_keys_that_cannot_be_compared_are_refused() -> None:
    schema = Schema((Attribute("age", "key"), Attribute("t", "confidential", "unordered")))  # type: ignore[arg-type]
    one = Microdata(pd.DataFrame({"age": [31, 33], "t": ["a", "b"]}), schema)
    two = Microdata(pd.DataFrame({"age": ["30-39", "30-39"], "t": ["a", "b"]}), schema)
    for measure in (ReplicatedUniques(), Disco("t")):
        with pytest.raises(NotApplicable, match=r"key 'age' holds numbers in the original and text .* align=..."):
            measure.score(Release.of(one, two))
        with pytest.raises(NotApplicable, match="key 'agee' is not in the released file"):
            measure.score(Release.of(one, one), Snooper(keys=("agee",)))
