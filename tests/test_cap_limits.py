"""CAP, TCAP and WEAP at their limits, on other engines, for snoopers who know more or less, and with their intervals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import attribution_twin as twin
import numpy as np
import pandas as pd
import pytest
from attribution_twin import Person
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.stats import binom
from statsmodels.stats.proportion import proportion_confint

from sfumato import Draws, Microdata, Release, Snooper
from sfumato.attacks import Attribution
from sfumato.datasets import five
from sfumato.errors import NotApplicable, ParameterError
from sfumato.risk import CAP, RAPID, TCAP, WEAP, Disco, ReplicatedUniques
from sfumato.risk.attribution import Excess
from sfumato.schema import Attribute, Schema

RULES = ("wildcard", "value", "ignored")


# -- limits


def people(n: int, seed: int) -> list[Person]:
    """Three keys' worth of people whose value depends on the keys."""
    g = np.random.default_rng(seed)
    a, b = g.integers(0, 3, n), g.integers(0, 4, n)
    t = np.where(g.random(n) < 0.6, (a + b) % 3, g.integers(0, 3, n))
    return [((f"a{i}", f"b{j}"), f"t{k}") for i, j, k in zip(a, b, t, strict=True)]


def test_an_exact_copy_with_unique_keys_is_attributed_wholly() -> None:
    original = [((str(i), "x"), str(i % 3)) for i in range(30)]
    made = twin.release(original, original)
    for measure in (
        CAP("t"),
        CAP("t", unmatched="nearest"),
        TCAP("t"),
        TCAP("t", by="released"),
        TCAP("t", denominator="all"),
    ):
        score = measure.score(made)
        assert score.value == 1
        assert score.interval is not None
        assert score.interval[1] == 1
    assert_allclose(CAP("t").score(made).records, 1)


def test_values_that_have_nothing_to_do_with_the_keys_score_about_zero() -> None:
    g = np.random.default_rng(3)
    draw = lambda: [((f"a{g.integers(3)}", f"b{g.integers(3)}"), f"t{g.integers(4)}") for _ in range(6000)]  # noqa: E731
    score = CAP("t").score(twin.release(draw(), draw()))
    assert abs(score.value) < 0.02  # a standard error is 0.007
    assert score.interval is not None
    assert score.interval[0] < 0 < score.interval[1]


def test_against_a_holdout_an_independent_file_scores_about_zero_though_it_predicts() -> None:
    """Over many fresh files the mean is 0 within four standard errors, and intervals miss 0 no more often than they may."""
    measures = (
        CAP("t", against="holdout"), CAP("t", against="holdout", unmatched="wrong"), Disco("u", against="holdout"),
        TCAP("t", against="holdout", threshold=0.6), TCAP("t", against="holdout", threshold=0.6, by="released"),
    )  # fmt: skip
    tries = 40
    scores: list[list[float]] = [[] for _ in measures]
    missed = [0] * len(measures)
    for seed in range(tries):
        files_ = [people(300, 3 * seed + k) for k in (1, 2, 3)]
        made = {"t": twin.release(*files_), "u": twin.release(*([fine(p, i) for i, p in enumerate(f)] for f in files_))}
        assert CAP("t").score(made["t"]).value > 0.1  # science: strangers are predicted as well
        for i, measure in enumerate(measures):
            score = measure.with_(column="t").score(made[measure.column])
            assert score.interval is not None
            scores[i].append(score.value)
            missed[i] += not score.interval[0] <= 0 <= score.interval[1]
    for values, count in zip(scores, missed, strict=True):
        assert abs(np.mean(values)) < 4 * np.std(values, ddof=1) / math.sqrt(tries)
        assert count <= binom.ppf(0.999, tries, 0.05)
    copied = twin.release(people(200, 1), people(200, 1), people(200, 3))
    assert CAP("t", against="holdout").score(copied).value > 0.02


def fine(person: Person, i: int) -> Person:
    """The same person with finer keys, so that some keys are certain in a release."""
    (a, b), t = person
    return (f"{a}{i % 5}", f"{b}{i % 3}"), t


def test_the_holdouts_rate_is_the_rate_of_the_holdout_as_original() -> None:
    original, released, holdout = people(40, 1), people(50, 2), people(30, 3)
    made, swapped = twin.release(original, released, holdout), twin.release(holdout, released)
    for measure in (CAP("t"), CAP("t", unmatched="wrong"), TCAP("t"), TCAP("t", by="released", denominator="matched")):
        compared = measure.with_(against="holdout").score(made)
        alone = measure.with_(what="rate").score(swapped)
        assert_allclose(compared.details["baseline"], alone.value)
        rate = measure.with_(what="rate").score(made).value
        assert_allclose(compared.value, twin.excess(rate, alone.value), atol=1e-12)


def test_a_smaller_release_attributes_less_when_all_originals_count() -> None:
    original = [((str(i), "x"), str(i % 3)) for i in range(30)]
    half = twin.release(original, original[:15])
    assert CAP("t", what="rate").score(half).value == 1
    assert CAP("t", unmatched="wrong", what="rate").score(half).value == 0.5


# -- engines, precision, refusals


@pytest.mark.parametrize("column", ["word", "number"])
@pytest.mark.parametrize("missing", RULES)
def test_duckdb_gives_the_same_scores(column: str, missing: str) -> None:
    import duckdb

    g = np.random.default_rng(5)

    def table() -> pd.DataFrame:
        made = pd.DataFrame(
            {
                "age": g.integers(20, 40, 300).astype(float),
                "sex": np.where(g.random(300) < 0.1, None, np.where(g.random(300) < 0.5, "f", "m")),
                "word": np.array(["no", "yes", "perhaps", None], object)[g.integers(0, 4, 300)],
                "number": np.round(g.lognormal(2, 0.4, 300), 1),
            }
        )
        made.loc[::17, "number"] = np.nan
        made.loc[::23, "age"] = np.nan
        return made

    schema = Schema(
        (
            Attribute("age", "key"), Attribute("sex", "key", "unordered"),  # type: ignore[arg-type]
            Attribute("word", "confidential", "unordered"), Attribute("number", "confidential"),  # type: ignore[arg-type]
        )
    )  # fmt: skip
    before, after = table(), table()
    here = Release.of(Microdata(before, schema), Microdata(after, schema))
    connection = duckdb.connect()
    for name, part in (("one", before), ("two", after)):
        connection.from_df(part).create(name)
    there_ = Release.of(*(Microdata(connection.table(n), schema) for n in ("one", "two")))
    snooper = Snooper(precision={"age": 5})
    for measure in (
        CAP(column, unmatched="nearest"),
        CAP(column, near="bins", bins=5),
        TCAP(column, near="sd", denominator="all"),
        WEAP(column),
    ):
        one, two = (measure.with_(missing=missing).score(made, snooper) for made in (here, there_))
        assert_allclose(two.value, one.value)
        assert_allclose(list(two.details.values()), list(one.details.values()))
        if one.records is not None:
            assert_allclose(two.records, one.records)


def test_precision_makes_the_keys_coarser() -> None:
    schema = Schema((Attribute("age", "key"), Attribute("t", "confidential", "unordered")))  # type: ignore[arg-type]
    before = pd.DataFrame({"age": [31, 33, 47], "t": ["a", "b", "c"]})
    after = pd.DataFrame({"age": [34, 32, 49], "t": ["a", "b", "c"]})
    made = Release.of(Microdata(before, schema), Microdata(after, schema))
    score = CAP("t", what="rate").score(made, Snooper(precision={"age": 10}))
    assert_allclose(score.records, [0.5, 0.5, 1])


@pytest.mark.parametrize(
    "measure", [CAP("t", unmatched="wrong"), TCAP("t", denominator="all"), Disco("t"), ReplicatedUniques()]
)
def test_a_key_without_a_common_value_is_refused_and_not_taken_for_safety(measure: Any) -> None:
    """Whoever adds noise to the ages, or recodes the towns, has not made the file safe: the snooper compares as he can."""
    schema = Schema(
        (Attribute("age", "key"), Attribute("town", "key", "unordered"), Attribute("t", "confidential", "unordered"))  # type: ignore[arg-type]
    )
    before = pd.DataFrame({"age": [31.0, 33.0, 47.0], "town": ["Ulm", "Bonn", "Ulm"], "t": ["a", "b", "c"]})
    original = Microdata(before, schema)
    noisy = Microdata(before.assign(age=before["age"] + 0.25), schema)
    with pytest.raises(NotApplicable, match=r"key 'age' has no value .* Snooper\(precision=\{'age': ...\}\)"):
        measure.score(Release.of(original, noisy))
    assert measure.score(Release.of(original, noisy), Snooper(precision={"age": 1})).value > 0
    recoded = Microdata(before.assign(town=["South", "West", "South"]), schema)
    with pytest.raises(NotApplicable, match=r"key 'town' has no value .* align=...") as found:
        measure.score(Release.of(original, recoded))
    assert not any(word in str(found.value) for word in ("Ulm", "Bonn", "South", "31"))
    gone = Microdata(before.assign(town=pd.array([None] * 3, "string")), schema)
    assert measure.score(Release.of(original, gone)).value > 0  # suppressed, not recoded: the ages are left


def test_what_cannot_be_attributed_is_refused_in_a_sentence() -> None:
    people_ = five()
    made = Release.of(people_, people_)
    with pytest.raises(NotApplicable, match=r"column 'salery' is not in the original file. Did you mean 'salary'\?"):
        CAP("salery").score(made)
    with pytest.raises(NotApplicable, match="said to know 'zip' already"):
        CAP("zip").score(made, Snooper(keys=("zip", "sex")))
    with pytest.raises(NotApplicable, match="key 'sexx' is not in the released file"):
        CAP("zip").score(made, Snooper(keys=("sexx",)))
    with pytest.raises(NotApplicable, match="compared with a holdout, but the release has none"):
        CAP("zip", against="holdout").score(made)
    schema = Schema((Attribute("a", "key", "unordered"), Attribute("t", "confidential")))  # type: ignore[arg-type]
    one = Microdata(pd.DataFrame({"a": ["x", "y"], "t": [1.0, 2.0]}), schema)
    two = Microdata(pd.DataFrame({"a": ["x", "y"], "t": ["low", "high"]}), schema)
    with pytest.raises(NotApplicable, match="'t' holds numbers in the original and text or categories in the release"):
        CAP("t").score(Release.of(one, two))
    empty = Microdata(pd.DataFrame({"a": ["x", "y"], "t": [np.nan, np.nan]}), schema)
    with pytest.raises(NotApplicable, match="no released record has a value of 't'"):
        CAP("t").score(Release.of(one, empty))
    with pytest.raises(NotApplicable, match="no record of the original has a value of 't'"):
        CAP("t").score(Release.of(empty, one))
    different = twin.release(
        [(("p", "x"), "no")], [(("p", "y"), "no"), (("q", "x"), "no")], [(("q", "y"), "no"), (("q", "y"), None)]
    )
    with pytest.raises(
        NotApplicable, match="no record of the original that has 't' finds a released one with the same keys"
    ):
        CAP("t").score(different)
    with pytest.raises(NotApplicable, match="no value is attributed to anybody with certainty"):
        TCAP("t").score(different)
    with pytest.raises(NotApplicable, match="nobody's keys are in both files"):
        TCAP("t", denominator="matched").score(different)
    matched = twin.release([(("p", "y"), "no")], [(("p", "y"), "no"), (("q", "x"), "no")], [(("q", "y"), "no")])
    with pytest.raises(NotApplicable, match="no record of the holdout that has 't' finds"):
        CAP("t", against="holdout").score(matched)
    with pytest.raises(NotApplicable, match="nothing to take a share of in the holdout"):
        TCAP("t", against="holdout").score(matched)
    assert TCAP("t", denominator="all").score(different).value == 0
    assert CAP("t", unmatched="wrong", what="rate").score(different).value == 0


# -- what the snooper has


def lookup(n: int) -> list[Person]:
    """People who have each a key and a value of their own."""
    return [((str(i), "x"), str(i)) for i in range(n)]


@pytest.mark.parametrize(
    "measure", [CAP("t", unmatched="wrong"), TCAP("t", threshold=0.6), Disco("t"), RAPID("t")], ids=lambda m: m.name
)
def test_a_snooper_who_has_a_part_of_the_people_attacks_those_alone(measure: Any) -> None:
    measure = measure.with_(what="rate")
    before, after = ([fine(p, i) for i, p in enumerate(people(400, seed))] for seed in (1, 2))
    made = twin.release(before, after)
    full, some, again = (measure.score(made, Snooper(coverage=c)) for c in (1.0, 0.25, 0.25))
    known = np.isfinite(some.records)
    assert_allclose(some.records[known], full.records[known])
    assert_allclose(again.records, some.records)
    other = measure.with_(seed=2).score(made, Snooper(coverage=0.25)).records
    assert not np.array_equal(np.isfinite(other), known)
    if isinstance(measure, TCAP):
        assert 0 < known.sum() < 100
    else:
        assert known.sum() == some.details["targets"] == 100
    if not isinstance(measure, RAPID):  # whose records are probabilities
        assert_allclose(some.value, np.mean(some.records[known]))


def test_wrong_keys_mislead_the_snooper_as_often_as_they_are_wrong() -> None:
    """A wrong key is that of a random person: with n people who differ in all, he is right with 1 - e + e/n."""
    n, e = 2000, 0.3
    made = twin.release(lookup(n), lookup(n), [((str(i), "x"), str(i)) for i in range(500)])
    expected = 1 - e + e / n
    for measure in (CAP("t", what="rate"), TCAP("t", what="rate"), Disco("t", what="rate")):
        value = measure.score(made, Snooper(errors=e)).value
        assert abs(value - expected) < 4 * math.sqrt(expected * (1 - expected) / n)
        assert measure.score(made, Snooper(errors=e)).value == value
    compared = CAP("t", against="holdout").score(made, Snooper(errors=e))
    assert abs(compared.details["baseline"] - expected) < 4 * math.sqrt(expected * (1 - expected) / 500)
    guesses = Attribution("t").run(made, Snooper(errors=e, coverage=0.5), Draws(3))
    assert len(guesses) == n / 2
    assert abs(guesses.right.mean() - expected) < 4 * math.sqrt(expected * (1 - expected) / (n / 2))


def test_a_file_of_his_own_is_said_not_to_be_used() -> None:
    made = twin.release(people(40, 1), people(40, 2))
    own = Snooper().learn(external=twin.microdata(people(40, 1)))
    for measure in (CAP("t"), TCAP("t", denominator="all"), Disco("t")):
        assert "his own file is not used" in measure.score(made, own).words
        assert "his own file" not in measure.score(made).words


def test_one_record_is_one_record_in_words() -> None:
    one = twin.release([(("p", "x"), "no")], [(("p", "x"), "no")])
    for measure in (CAP("t"), TCAP("t"), Disco("t"), ReplicatedUniques()):
        words = measure.score(one).words
        assert "1 case;" in words or "1 record" in words or "1 original record" in words
        assert not any(f"1 {noun}s" in words for noun in ("case", "record", "original record"))


# -- recoded keys


def recoded_files() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, Schema]:
    """People, the same with recoded keys (age bands, regions; some suppressed), the original recoded by hand, the schema."""
    g = np.random.default_rng(8)
    n = 200
    before = pd.DataFrame(
        {
            "age": g.integers(20, 60, n),
            "town": g.choice(["Ulm", "Bonn", "Kiel", "Trier"], n),
            "t": g.choice(["a", "b", "c"], n),
        }
    )
    regions = {"Ulm": "South", "Bonn": "West", "Kiel": "North", "Trier": "West"}
    by_hand = before.assign(
        age=(before["age"] // 10 * 10).map(lambda a: f"{a}-{a + 9}"), town=before["town"].map(regions)
    )
    after = by_hand.copy()
    after["t"] = np.where(g.random(n) < 0.3, "b", after["t"])
    after.loc[:9, "age"] = None
    after.loc[20:24, "town"] = None
    roles = (
        Attribute("age", "key"),
        Attribute("town", "key", "unordered"),
        Attribute("t", "confidential", "unordered"),
    )  # type: ignore[arg-type]
    return before, after, by_hand, Schema(roles)


@pytest.mark.parametrize("missing", RULES)
def test_a_snooper_recodes_what_he_knows_as_the_release_was(missing: Any) -> None:
    before, after, by_hand, schema = recoded_files()
    released = Microdata(after, schema)
    made = Release.of(Microdata(before, schema), released, align="rows")
    plain = Release.of(Microdata(by_hand, schema), released)
    for measure in (
        CAP("t", missing=missing),
        CAP("t", missing=missing, unmatched="nearest"),
        TCAP("t", missing=missing, denominator="all", threshold=0.6),
        TCAP("t", missing=missing, by="released", denominator="all", threshold=0.6),
        Disco("t", missing=missing),
        ReplicatedUniques(missing=missing),
        RAPID("t"),
        RAPID("t", model="linear"),
        RAPID("t", model="classes"),
    ):
        one, two = measure.score(made), measure.score(plain)
        assert_allclose(one.value, two.value)
        assert_allclose(one.records, two.records)
    with pytest.raises(NotApplicable, match=r"key 'age' holds numbers .* recodes what he knows .* align=..."):
        CAP("t").score(Release.of(Microdata(before, schema), released))
    with pytest.raises(ParameterError, match="precision is the width of intervals of numbers, but 'age' holds text"):
        CAP("t").score(made, Snooper(keys=("age",), precision={"age": 5}))


def test_strangers_whose_age_nobody_has_are_recoded_as_the_nearest_age() -> None:
    schema = Schema((Attribute("age", "key"), Attribute("t", "confidential", "unordered")))  # type: ignore[arg-type]
    file = lambda ages, t: Microdata(pd.DataFrame({"age": ages, "t": t}), schema)  # noqa: E731
    made = Release.of(
        file([20, 25, 31, 38], ["a", "b", "c", "c"]),
        file(["young", "young", "old", "old"], ["a", "b", "c", "c"]),
        align="rows",
    )
    # 19 and 27 are young (25 is nearer than 31), 29 and 90 are old
    held = file([19, 27, 29, 90], ["a", "a", "a", "c"])
    score = CAP("t", against="holdout").score(dataclasses.replace(made, holdout=held))
    assert_allclose(score.details["baseline"], np.mean([1 / 2, 1 / 2, 0, 1]))


# -- the interval


def test_the_interval_of_the_excess_comes_from_wilson() -> None:
    low, high = proportion_confint(60, 100, method="wilson")
    assert_allclose(Excess(0.6, 100, 0.5).interval, ((low - 0.5) / 0.5, (high - 0.5) / 0.5))
    assert_allclose(Excess(0.6, 100, 0.5).choose("rate")[1], (low, high))
    assert Excess(1.0, 10, 1.0).value == 0
    assert Excess(1.0, 10, 1.0).interval == (0.0, 0.0)


def test_with_a_holdout_the_interval_is_that_of_the_ratio_of_two_shares() -> None:
    """1 - q/r: the limits θ of q/r solve (q - θr)² = (distance of q to its limit)² + θ² (distance of r to its other limit)²."""
    for hits, n, others, m in ((60, 100, 40, 80), (95, 100, 30, 40), (3, 50, 10, 60)):
        q, r = 1 - hits / n, 1 - others / m
        (ql, qu), (rl, ru) = (
            proportion_confint(n - hits, n, method="wilson"),
            proportion_confint(m - others, m, method="wilson"),
        )

        def off(theta: float, one: float, two: float, q: float = q, r: float = r) -> float:
            return float((q - theta * r) ** 2 - (q - one) ** 2 - theta**2 * (r - two) ** 2)

        least, most = brentq(off, 0, q / r, args=(ql, ru)), brentq(off, q / r, 50, args=(qu, rl))
        assert_allclose(Excess(hits / n, n, others / m, m).interval, (1 - most, 1 - least), rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "m", "rate", "baseline"),
    [(100, 100, 0.5, 0.5), (500, 50, 0.6, 0.5), (500, 50, 0.95, 0.9), (200, 200, 0.97, 0.9)],
)
def test_the_interval_of_the_excess_covers_as_often_as_it_says(n: int, m: int, rate: float, baseline: float) -> None:
    g = np.random.default_rng(2)
    truth, tries, inside = (rate - baseline) / (1 - baseline), 1000, 0
    for _ in range(tries):
        excess = Excess(g.binomial(n, rate) / n, n, min(g.binomial(m, baseline), m - 1) / m, m)
        low, high = excess.interval
        inside += low <= truth <= high
    assert (
        0.95 * tries - 4 * math.sqrt(0.95 * 0.05 * tries) < inside
    )  # a smaller share would be too small by 4 standard errors


def test_a_holdout_about_which_everything_is_right_leaves_nothing_to_compare() -> None:
    """Three of three right is no proof that strangers are always known: 0 with an interval of 0 to 0 would claim that."""
    with pytest.raises(NotApplicable, match="right about all of the 3 records of the holdout"):
        _ = Excess(1.0, 10, 1.0, 3).value
    with pytest.raises(NotApplicable, match="right about all of the 1 record of the holdout"):
        _ = Excess(0.5, 10, 1.0, 1).interval
    made = twin.release(lookup(5), lookup(5), lookup(1))
    assert CAP("t", against="holdout", what="rate").score(made).value == 1


def test_a_long_release_does_not_make_few_people_many() -> None:
    """Counted in the release, TCAP of 4,000 records is still about 200 people: its interval must be as wide as theirs."""
    tries, missed = 40, 0
    measure = TCAP("t", by="released", threshold=0.6, against="holdout")
    for seed in range(tries):
        made = twin.release(people(200, 3 * seed + 1), people(4000, 3 * seed + 2), people(200, 3 * seed + 3))
        interval = measure.score(made).interval
        assert interval is not None
        missed += not interval[0] <= 0 <= interval[1]
    assert missed <= binom.ppf(0.999, tries, 0.05)
