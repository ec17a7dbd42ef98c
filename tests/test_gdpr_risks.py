"""Singling out, linkability and inference: against brute force, enumeration and what must come out."""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import amounts, microdata

from sfumato.attacks import InferValue, LinkColumns, SingleOut
from sfumato.attacks.holdout_attacks import alone, random_overlap
from sfumato.contract import Draws, Holdout, Release, Snooper, Success, hold_out, wilson
from sfumato.data.microdata import Microdata
from sfumato.datasets import census
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import KimNoise
from sfumato.risk import Inference, Linkability, SinglingOut
from sfumato.risk.gdpr_risks import residual

FACTS = {"x": {"scale": "ordered"}, "y": {"scale": "ordered"}}


def people(n: int, seed: int, levels: int = 4) -> Microdata:
    g = np.random.default_rng(seed)
    x = g.normal(0, 1, n).round(2)
    return microdata(
        {**FACTS, "y": {"scale": "ordered", "role": "confidential"}},
        x=pa.array(x, mask=g.random(n) < 0.1), y=2 * x + g.normal(0, 1, n).round(2),
        c=np.array(list("abcdefghij"))[g.integers(0, levels, n)], d=np.array(["u", "v"])[g.integers(0, 2, n)],
    )  # fmt: skip


def released(original: Microdata, held: Microdata, masked: Microdata) -> Release:
    """Here the holdout may be the original itself, where a test does not look at it."""
    return dataclasses.replace(Release.of(original, masked), holdout=Holdout.of(held))


def rows(data: Microdata) -> list[dict[str, object]]:
    return data.batch().rows.to_arrow().to_pylist()


ALL = (SinglingOut(), SinglingOut(describe="one column"), Linkability(), Inference("y"), Inference("c"))


# -- the residual


def outcome_of(right: float, n: int) -> Success:
    return Success(n, right / n, wilson(right, n), 0.0)


@given(st.integers(1, 400), st.integers(1, 400), st.floats(0, 1), st.floats(0, 0.99))
def test_the_residual_lies_in_its_interval_which_never_exceeds_one(n: int, m: int, a: float, c: float) -> None:
    inside, outside = outcome_of(a * n, n), outcome_of(c * m, m)
    value, (low, high) = residual(inside, outside)
    assert value == pytest.approx((a - c) / (1 - c), abs=1e-9)
    assert low <= value <= high <= 1


def test_with_many_guesses_the_interval_is_that_of_error_propagation() -> None:
    """First order, as in Giomi et al. (2022): with f = (a - c) / (1 - c), df/da = 1/(1 - c), df/dc = (a - 1)/(1 - c)²."""
    a, c, n, z = 0.4, 0.25, 200_000, 1.959964
    _, (low, high) = residual(outcome_of(a * n, n), outcome_of(c * n, n))
    parts = math.sqrt(a * (1 - a) / n) / (1 - c), math.sqrt(c * (1 - c) / n) * (a - 1) / (1 - c) ** 2
    half = z * math.hypot(*parts)
    assert (high - low) / 2 == pytest.approx(half, rel=1e-3)
    assert (high + low) / 2 == pytest.approx((a - c) / (1 - c), abs=1e-4)


@given(st.integers(1, 60), st.integers(2, 60), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_each_limit_solves_the_equation_that_defines_it(n: int, m: int, a: float, c: float) -> None:
    """A limit R of q/r is where q - R r has 0 as a limit: (q - R r)² = (q - its limit)² + R² (r - its other limit)²."""
    inside, outside = outcome_of(a * n, n), outcome_of(c * m, m)
    _, (low, high) = residual(inside, outside)
    q, r = 1 - a, 1 - c
    q_ends, r_ends = ([1 - v for v in s.interval] for s in (inside, outside))
    for ratio, q_end, r_end in ((1 - high, q_ends[1], r_ends[0]), (1 - low, q_ends[0], r_ends[1])):
        square = (q - q_end) ** 2 + (ratio * (r - r_end)) ** 2
        assert (q - ratio * r) ** 2 == pytest.approx(square, rel=1e-6, abs=1e-12)


def test_the_interval_covers_the_truth() -> None:
    g = np.random.default_rng(3)
    for a, c, n in ((0.3, 0.3, 100), (0.05, 0.01, 300), (0.95, 0.6, 80)):
        missed = 0
        for _ in range(400):
            low, high = residual(outcome_of(g.binomial(n, a), n), outcome_of(g.binomial(n, c), n))[1]
            missed += not low <= (a - c) / (1 - c) <= high
        assert missed <= 34  # 5 % of 400 is 20; 34 or more have probability 0.002


def test_nothing_left_to_learn_is_refused() -> None:
    with pytest.raises(NotApplicable, match="nothing left to learn"):
        residual(outcome_of(5, 10), outcome_of(10, 10))


# -- all three


def test_an_exact_copy_is_the_worst() -> None:
    kept, held = hold_out(people(400, 1), 0.5, Draws(1))
    outcome = Release.of(kept, kept).with_holdout(held)
    made = KimNoise(columns=("x", "y"), lambda2=0.5).apply(kept, Draws(1)).with_holdout(held)
    snooper = Snooper(keys=("x", "c", "d"))
    for measure in ALL:
        score = measure.score(outcome, snooper)
        assert score.value > measure.score(made, snooper).value
        assert score.details["informative"] == 1
    assert SinglingOut().score(outcome).value == 1


def test_an_independent_release_has_a_risk_of_about_nothing() -> None:
    snooper = Snooper(keys=("x", "c", "d"))
    missed = dict.fromkeys(range(len(ALL)), 0)
    for seed in range(20):
        outcome = released(*(people(150, 3 * seed + i) for i in range(3)))
        for i, measure in enumerate(ALL):
            low, high = measure.with_(attacks=300).score(outcome, snooper).interval  # type: ignore[misc]
            missed[i] += not low <= 0 <= high
    assert max(missed.values()) <= 5


def test_the_same_seed_gives_the_same_score_and_another_seed_another() -> None:
    kept, held = hold_out(people(400, 1), 0.5, Draws(1))
    made = KimNoise(columns=("x", "y"), lambda2=0.1).apply(kept, Draws(1)).with_holdout(held)
    for measure in ALL:
        few = measure.with_(attacks=50)
        one, two, other = (few.with_(seed=s).score(made) for s in (1, 1, 2))
        assert one == two
        assert one.details != other.details
        assert one.details["guesses"] <= 50
        assert one.records is not None
        assert len(one.records) == 200
        assert set(one.records[~np.isnan(one.records)]) <= {0.0, 1.0} or isinstance(measure, Inference)


def test_an_attack_that_is_no_better_than_guessing_says_so() -> None:
    g = np.random.default_rng(0)
    files = [
        microdata(
            {"y": {"role": "confidential"}}, x=g.integers(0, 5, 300).astype(str), y=g.integers(0, 3, 300).astype(str)
        )
        for _ in range(3)
    ]
    score = Inference("y").score(released(*files), Snooper(keys=("x",)))
    assert score.details["informative"] == 0
    assert "not informative: the attack is no stronger than random guessing" in score.words


def test_without_a_holdout_each_is_refused() -> None:
    data = people(20, 1)
    for measure in ALL:
        with pytest.raises(NotApplicable, match="records set aside before masking"):
            measure.score(Release.of(data, data))
    for attack in (SingleOut(), LinkColumns(), InferValue("c")):
        with pytest.raises(NotApplicable, match="set some records aside"):
            attack.control(Release.of(data, data), Snooper(), Draws(1))


def test_an_empty_release_is_refused_by_each() -> None:
    data = people(20, 1)
    for measure in ALL:
        with pytest.raises(NotApplicable, match=r"no records|no more than 1"):
            measure.score(released(data, data, data.take(np.zeros(0, np.int64))), Snooper(keys=("x", "d")))


# -- singling out


def fits(person: dict[str, object], names: tuple[str, ...], low: np.ndarray, high: np.ndarray, codes: dict) -> bool:
    """Whether a description fits a person, column by column, in words of the definition."""
    for j, name in enumerate(names):
        value = person[name]
        number = -np.inf if value is None else codes[name][value] if name in codes else float(value)  # type: ignore[arg-type]
        if not low[j] <= number <= high[j]:
            return False
    return True


@pytest.mark.parametrize("describe", ["one column", "several columns"])
def test_descriptions_fit_one_released_record_and_are_counted_as_written(describe: str) -> None:
    original, held, masked = people(40, 1), people(40, 2), people(35, 3)
    attack = SingleOut(describe=describe, attacks=60, width=2)  # type: ignore[arg-type]
    outcome = released(original, held, masked)
    from sfumato.attacks.attacker_file import exact_tables

    names = ("x", "y", "c", "d")
    tables = exact_tables(names, masked, original)
    numbers = np.array([True, True, False, False])
    found = attack.descriptions(tables[0], numbers, Draws(9).generator("descriptions"))
    codes = {n: dict(zip([r[n] for r in rows(masked)], tables[0][:, j], strict=True)) for j, n in ((2, "c"), (3, "d"))}
    codes["c"].update(zip([r["c"] for r in rows(original)], tables[1][:, 2], strict=True))
    for data, is_release in ((masked, True), (original, False)):
        counts = [
            sum(fits(person, names, low, high, codes) for person in rows(data))
            for low, high in zip(found.low, found.high, strict=True)
        ]
        if is_release:
            assert set(counts) == {1}
        else:
            guesses = attack.run(outcome, Snooper(), Draws(9))
            np.testing.assert_array_equal(guesses.truth, counts)
            np.testing.assert_array_equal(guesses.right, np.array(counts) == 1)
    bounded = (found.low > -np.inf) | (found.high < np.inf)
    width = bounded.sum(axis=1)
    assert width.max() <= (1 if describe == "one column" else 2)
    assert len({tuple(r) for r in np.hstack([found.low, found.high]).tolist()}) == len(found.low)


def test_values_that_occur_once_and_ends_are_the_descriptions_by_one_column() -> None:
    data = microdata({"x": {"scale": "ordered"}}, x=[1.0, 1.0, 2.0, 5.0, 5.0, 9.0], c=list("aabbbz"))
    from sfumato.attacks.attacker_file import exact_tables

    (table,) = exact_tables(("x", "c"), data)
    found = SingleOut(describe="one column").descriptions(table, np.array([True, False]), Draws(1).generator(""))
    written = sorted(
        (a, b) for a, b in zip(found.low[:, 0], found.high[:, 0], strict=True) if np.isfinite([a, b]).all()
    )
    top = np.finfo(np.float64).max
    assert written == [(2.0, 2.0), (9.0, 9.0), (9.0, top)]  # "at most 1" fits two
    assert len(found.low) == 4  # and c = z


def test_one_of_k_in_a_part_is_hypergeometric() -> None:
    """Every part of 4 of 7 people, written out."""
    for count in range(8):
        parts = list(combinations(range(7), 4))
        exact = np.mean([sum(i < count for i in part) == 1 for part in parts])
        assert alone(np.array([count]), 7, 4)[0] == pytest.approx(exact, abs=1e-12)


def test_a_larger_holdout_is_no_easier_or_harder_to_single_out_in() -> None:
    values = []
    for seed in range(12):
        outcome = released(people(100, 3 * seed), people(400, 3 * seed + 1), people(100, 3 * seed + 2))
        values.append(SinglingOut(attacks=300).score(outcome).value)
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(12)


def test_a_smaller_holdout_is_refused_and_no_description_is_no_risk() -> None:
    with pytest.raises(NotApplicable, match="as many records as the original"):
        SinglingOut().score(released(people(40, 1), people(20, 2), people(40, 3)))
    same = microdata(c=["a", "a", "b", "b"])
    score = SinglingOut().score(released(same, same, same))
    assert score.value == 0
    assert "no guess at all" in score.words


# -- linkability


def test_random_sets_overlap_as_counted() -> None:
    for n, k in ((5, 1), (6, 2), (7, 3), (4, 3)):
        sets = [set(s) for s in combinations(range(n), k)]
        assert random_overlap(n, k) == pytest.approx(np.mean([bool(a & b) for a in sets for b in sets]))


def test_halves_are_linked_as_brute_force_links_them() -> None:
    g = np.random.default_rng(2)
    original, masked = (amounts(**{f"x{j}": g.normal(0, 1, n) for j in range(4)}) for n in (60, 50))
    outcome = released(original, original, masked)
    for k in (1, 3):
        attack = LinkColumns(left=("x0", "x1"), right=("x2", "x3"), k=k)
        guesses = attack.run(outcome, Snooper(), Draws(1))
        linked = []
        x, y = (np.column_stack([d.numbers(f"x{j}") for j in range(4)]) for d in (original, masked))
        y, x = y / y.std(axis=0), x / y.std(axis=0)
        for person in x:
            near = [set(np.argsort(((y[:, part] - person[part]) ** 2).sum(axis=1))[:k]) for part in ([0, 1], [2, 3])]
            linked.append(bool(near[0] & near[1]))
        np.testing.assert_array_equal(guesses.right, linked)
        assert guesses.baseline[0] == random_overlap(50, k)


def test_ties_are_broken_for_each_half_on_its_own() -> None:
    """All released records are alike: the two halves meet as often as random records do."""
    masked = microdata(a=["u"] * 20, b=["v"] * 20)
    data = microdata(a=["u"] * 500, b=["v"] * 500)
    rates = [LinkColumns().run(released(data, data, masked), Snooper(keys=("a",)), Draws(s)).right for s in range(40)]
    assert np.mean(rates) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 40))


def test_the_two_files_are_the_keys_and_the_rest_unless_they_are_named() -> None:
    sample = census(400, 0.5).sample
    outcome = Release.of(sample, sample)
    left, right = LinkColumns().split(outcome, Snooper(), sample)
    assert set(left) <= set(sample.schema.names(role="key"))
    assert not set(left) & set(right)
    assert LinkColumns(right=("age", "sex")).split(outcome, Snooper(keys=("age", "region")), sample)[0] == ("region",)
    with pytest.raises(ParameterError, match="'age' is in both files"):
        Linkability(left=("age",), right=("age", "sex"))
    one = microdata(a=["u", "v"])
    with pytest.raises(NotApplicable, match="at least two columns"):
        Linkability().score(released(one, one, one))
    with pytest.raises(NotApplicable, match="tell nothing"):
        Linkability(k=5).score(released(people(9, 1), people(9, 2), people(5, 3)))


def test_files_that_are_linked_hold_numbers_to_within_the_precision() -> None:
    """Ages 30 and 34 are both known as 30, the middle of 20 to 40: the second person's halves part."""
    data = microdata({"age": {"scale": "ordered"}}, age=[30.0, 34.0], c=["a", "b"])
    outcome = released(data, data, data)
    for width, right in ((1.0, [1, 1]), (20.0, [1, 0])):
        guesses = LinkColumns().run(outcome, Snooper(keys=("age",), precision={"age": width}), Draws(1))
        np.testing.assert_array_equal(guesses.right, right)


def test_a_key_that_is_not_there_is_no_column_of_a_file() -> None:
    data = microdata(a=["u", "v"], b=["v", "w"])
    with pytest.raises(NotApplicable, match="key 'aa' is not in the released file"):
        Linkability().score(released(data, data, data), Snooper(keys=("aa", "b")))


def test_one_closest_record_is_told_in_the_singular() -> None:
    assert Linkability().variant.startswith("1 closest released record;")
    assert SinglingOut(width=1).variant.startswith("descriptions by 1 column;")
    one = microdata(a=["u"], b=["v"])
    with pytest.raises(NotApplicable, match="no more than 1 record,"):
        Linkability().score(released(one, microdata(a=["x"], b=["y"]), one))


# -- inference


def test_values_are_inferred_as_brute_force_infers_them() -> None:
    original, masked = people(50, 1), people(40, 2)
    outcome = released(original, original, masked)
    for column, keys in (("y", ("c", "d")), ("c", ("d",)), ("d", ("c",))):
        guesses = InferValue(column, tolerance=0.3).run(outcome, Snooper(keys=keys), Draws(1))
        right, chance = [], []
        for person in rows(original):
            truth = person[column]

            def good(record: dict[str, object], truth: object = truth, column: str = column) -> bool:
                if column != "y":
                    return record[column] == truth
                return abs(float(record["y"]) - float(truth)) <= 0.3 * abs(float(truth)) + 1e-12  # type: ignore[arg-type]

            differ = [sum(record[n] != person[n] for n in keys) for record in rows(masked)]
            nearest = [r for r, far in zip(rows(masked), differ, strict=True) if far == min(differ)]
            right.append(np.mean([good(r) for r in nearest]))
            chance.append(np.mean([good(r) for r in rows(masked)]))
        np.testing.assert_allclose(guesses.right, right)
        np.testing.assert_allclose(guesses.baseline, chance)


def test_missing_values_are_neither_targets_nor_answers() -> None:
    data = microdata(c=pa.array(["a", None, "b"]), k=["u", "v", "w"])
    masked = microdata(c=pa.array([None, "a"]), k=["u", "w"])
    guesses = InferValue("c").run(released(data, data, masked), Snooper(keys=("k",)), Draws(1))
    assert guesses.target.tolist() == [0, 2]
    np.testing.assert_array_equal(guesses.right, [1, 0])
    nothing = microdata(c=pa.array([None, None], pa.string()), k=["u", "v"])
    with pytest.raises(NotApplicable, match="column 'c' has no values"):
        Inference("c").score(released(data, data, nothing), Snooper(keys=("k",)))


def test_the_snooper_knows_numbers_to_within_his_precision() -> None:
    data = microdata({"age": {"scale": "ordered"}}, age=[30.0, 34.0], c=["a", "b"])
    outcome = released(data, data, data)
    for width, right in ((1.0, [1, 1]), (20.0, [1, 0])):  # the middle of 20 to 40 is 30
        guesses = InferValue("c").run(outcome, Snooper(keys=("age",), precision={"age": width}), Draws(1))
        np.testing.assert_array_equal(guesses.right, right)


def test_what_holds_for_anybody_is_no_disclosure() -> None:
    """c follows from x by a law of nature: the guesses are right about everybody, and there is nothing to measure."""
    law = microdata(
        {"x": {"scale": "ordered"}},
        x=np.arange(50.0).repeat(20),
        c=np.where(np.arange(50) % 2, "odd", "even").repeat(20),
    )
    kept, held = hold_out(law, 0.5, Draws(1))
    fresh = law.take(np.arange(0, 1_000, 2))
    with pytest.raises(NotApplicable, match="nothing left to learn"):
        Inference("c").score(Release.of(kept, fresh).with_holdout(held), Snooper(keys=("x",)))


def test_bad_columns_are_refused_in_a_sentence() -> None:
    endless = amounts(a=[1.0, np.inf], b=[1.0, 2.0])
    with pytest.raises(DataError, match="column 'a' holds infinite values"):
        Inference("a").score(released(endless, endless, endless), Snooper(keys=("b",)))
    lists = microdata(a=pa.array([[1], [2]]), b=["x", "y"])
    with pytest.raises(NotApplicable, match="values of no plain kind"):
        SinglingOut(using=("a",)).score(released(lists, lists, lists))
    outcome = released(people(20, 1), people(20, 2), people(20, 3))
    with pytest.raises(NotApplicable, match="must know something else"):
        Inference("c").score(outcome, Snooper(keys=("c",)))
    with pytest.raises(NotApplicable, match="column 'z' is not in the released file"):
        Inference("z").score(outcome, Snooper(keys=("c",)))
    with pytest.raises(NotApplicable, match="key 'q' is not in the released file"):
        Inference("c").score(outcome, Snooper(keys=("q",)))
    with pytest.raises(NotApplicable, match="column 'w' is not in the released file"):
        SinglingOut(using=("w",)).score(outcome)
