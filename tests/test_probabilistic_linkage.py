"""Linkage by match weight: patterns against every pair, the estimates against known truth, links against the definition."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from small_files import microdata

import sfumato.attacks.linkage as attack_module
from sfumato import Draws, Release, Snooper
from sfumato.attacks import LinkByWeight
from sfumato.contract import success
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.kernels.agreement import LEAST, AgreementModel, _log_sum, exact_patterns, fit, near_patterns, true_model
from sfumato.kernels.neighbours import GAP
from sfumato.masks import PRAM, KimNoise, Sample
from sfumato.risk import DistanceLinkage, ProbabilisticLinkage

NUMBER = {"scale": "ordered"}
Numbers = NDArray[np.float64]


# -- patterns


def slow_patterns(a: Any, b: Any, blocks: Any, limits: Any, gap: float, wildcard: bool) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for (i, x), (k, y) in itertools.product(enumerate(a), enumerate(b)):
        if blocks[0][i] != blocks[1][k]:
            continue
        pattern = []
        for v, w, limit in zip(x, y, limits, strict=True):
            if v == gap or w == gap:
                pattern.append(-1 if wildcard else int(v == w))
            else:
                pattern.append(int(abs(v - w) <= limit))
        found[tuple(pattern)] += 1
    return found


def counted(found: tuple[Any, Any]) -> Counter[tuple[int, ...]]:
    return Counter({tuple(p): int(c) for p, c in zip(found[0].tolist(), found[1].tolist(), strict=True)})


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 15), st.integers(0, 15), st.integers(1, 3))
def test_joined_classes_count_the_patterns_of_every_pair(seed: int, k: int, m: int, n: int, blocks: int) -> None:
    g = np.random.default_rng(seed)
    a, b = (g.integers(-1, 3, (size, k)) for size in (m, n))
    block = g.integers(0, blocks, m), g.integers(0, blocks, n)
    assert counted(exact_patterns(a, b, block)) == slow_patterns(a, b, block, [0] * k, -1, True)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 15), st.integers(1, 15), st.booleans())
def test_near_numbers_are_counted_as_agreeing(seed: int, k: int, m: int, n: int, wildcard: bool) -> None:
    g = np.random.default_rng(seed)
    a, b = (g.integers(0, 6, (size, k)).astype(float) for size in (m, n))
    a[g.random(a.shape) < 0.2] = GAP
    b[g.random(b.shape) < 0.2] = GAP
    block = g.integers(0, 3, m), g.integers(0, 3, n)
    limits = g.integers(0, 3, k).astype(float)
    assert counted(near_patterns(a, b, limits, block, wildcard)) == slow_patterns(a, b, block, limits, GAP, wildcard)


@pytest.mark.parametrize("seed", range(40))
def test_the_sum_of_exponentials_is_that_of_scipy_bit_by_bit(seed: int) -> None:
    g = np.random.default_rng(seed)
    weight = g.normal(0, 30, int(g.integers(1, 90)))
    weight[g.integers(0, len(weight), 2)] = weight.max()
    counts = g.integers(seed % 2, 10**6, len(weight)).astype(float)
    counts[0] += 1
    assert _log_sum(weight, counts) == logsumexp(weight, b=counts)


# -- the model


def expected_counts(m: Any, u: Any, share: float, pairs: float) -> tuple[Any, Numbers]:
    """Return how many pairs are expected to have each pattern, if the model is true."""
    patterns = np.array(list(itertools.product([0, 1], repeat=len(m))), np.int8)
    under = [np.prod(np.where(patterns == 1, p, 1 - np.asarray(p)), axis=1) for p in (m, u)]
    return patterns, pairs * (share * under[0] + (1 - share) * under[1])


@pytest.mark.parametrize(
    ("m", "u", "share"),
    [
        ([0.9, 0.8, 0.95], [0.1, 0.3, 0.05], 0.01),  # as many unknowns as patterns: one solution
        ([0.9, 0.8, 0.95, 0.7], [0.02, 0.3, 0.005, 0.1], 0.001),
        ([0.99, 0.6, 0.9, 0.85, 0.97], [0.5, 0.1, 0.02, 0.03, 0.2], 1e-4),
    ],
)
def test_the_probabilities_that_made_the_patterns_are_found_again(m: Any, u: Any, share: float) -> None:
    patterns, counts = expected_counts(m, u, share, 1e8)
    found = fit(patterns, counts, share * 1e8, rounds=100_000, close=1e-12)
    np.testing.assert_allclose(found.m, m, atol=1e-3)
    np.testing.assert_allclose(found.u, u, atol=1e-5)
    assert found.share == pytest.approx(share, rel=1e-2)


def slow_fit(pairs: Any, matches: float, rounds: int) -> AgreementModel:
    """The same estimate, pair by pair, with the prior found by halving."""
    k = len(pairs[0])
    m = [0.9] * k
    u = [min(max(np.mean([p[j] for p in pairs if p[j] >= 0] or [0.5]), LEAST), 1 - LEAST) for j in range(k)]
    prior = 0.0
    for _ in range(rounds):
        ratios = []
        for pair in pairs:
            ratio = 1.0
            for j, agree in enumerate(pair):
                ratio *= 1.0 if agree < 0 else m[j] / u[j] if agree else (1 - m[j]) / (1 - u[j])
            ratios.append(ratio)
        low, high = -80.0, 80.0
        for _ in range(200):
            prior = (low + high) / 2
            chance = [r * np.exp(prior) / (1 + r * np.exp(prior)) for r in ratios]
            low, high = (prior, high) if sum(chance) < matches else (low, prior)
        for j in range(k):
            compared = [(c, p[j]) for c, p in zip(chance, pairs, strict=True) if p[j] >= 0]
            new = [sum(w * a for w, a in part) / sum(w for w, _ in part) for part in
                   (compared, [(1 - c, a) for c, a in compared])]  # fmt: skip
            m[j], u[j] = (min(max(v, LEAST), 1 - LEAST) for v in new)
    return AgreementModel(np.array(m), np.array(u), float(1 / (1 + np.exp(-prior))))


def test_a_fit_by_patterns_is_the_fit_by_pairs() -> None:
    g = np.random.default_rng(8)
    a = g.integers(0, 4, (14, 3))
    b = np.where(g.random(a.shape) < 0.2, g.integers(0, 4, a.shape), a)
    a[2, 0] = b[5, 1] = -1
    pairs = [[-1 if min(v, w) < 0 else int(v == w) for v, w in zip(x, y, strict=True)] for x in a for y in b]
    zero = np.zeros(14, np.int64)
    fast = fit(*exact_patterns(a, b, (zero, zero)), 14, rounds=12, close=0)
    slow = slow_fit(pairs, 14, 12)
    np.testing.assert_allclose(fast.m, slow.m, rtol=1e-9)
    np.testing.assert_allclose(fast.u, slow.u, rtol=1e-9)
    assert fast.share == pytest.approx(slow.share, rel=1e-9)


def test_a_key_on_which_matches_agree_no_more_than_others_weighs_nothing() -> None:
    model = AgreementModel(np.array([0.5, 0.2]), np.array([0.1, 0.4]), 0.01)
    np.testing.assert_allclose(model.agreement, [np.log(5), 0])
    np.testing.assert_allclose(model.disagreement, [np.log(0.5 / 0.9), 0])


@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 3), st.booleans())
def test_true_weights_are_the_rates_among_matches_and_among_all_other_pairs(
    seed: int, n: int, k: int, wildcard: bool
) -> None:
    g = np.random.default_rng(seed)
    a, b = (g.integers(0, 5, (n, k)).astype(float) for _ in range(2))
    a[g.random(a.shape) < 0.15] = GAP
    limits, block = g.integers(0, 2, k).astype(float), (np.zeros(n, np.int64), np.zeros(n, np.int64))
    model = true_model(a, b, limits, *near_patterns(a, b, limits, block, wildcard), wildcard)
    for j in range(k):
        for same, found in ((True, model.m[j]), (False, model.u[j])):
            seen = [
                x[j] == y[j] if GAP in (x[j], y[j]) else abs(x[j] - y[j]) <= limits[j]
                for (i, x), (o, y) in itertools.product(enumerate(a), enumerate(b))
                if (i == o) is same and not (wildcard and GAP in (x[j], y[j]))
            ]
            assert found == pytest.approx(np.clip(np.mean(seen), LEAST, 1 - LEAST) if seen else 0.5)
    assert model.share == pytest.approx(1 / n)


def test_a_snooper_who_knows_the_mask_does_better_where_learning_goes_astray() -> None:
    g = np.random.default_rng(3)
    n = 800
    kind = g.integers(0, 6, n)  # people of a kind agree on three keys, which looks like being one person
    alike = {f"a{j}": np.where(g.random(n) < 0.05, g.integers(0, 6, n), kind).astype(str) for j in range(3)}
    own = {f"b{j}": g.integers(0, 9, n).astype(str) for j in range(3)}
    after = {c: np.where(g.random(n) < 0.6, g.integers(0, 6, n).astype(str), v) for c, v in alike.items()}
    after |= {c: np.where(g.random(n) < 0.1, g.integers(0, 9, n).astype(str), v) for c, v in own.items()}
    outcome = Release.of(microdata(None, **alike, **own), microdata(None, **after), "rows")
    learnt, true = (ProbabilisticLinkage(weights=w).score(outcome).value for w in ("learnt", "true"))
    assert true > 1.5 * learnt


# -- links


def surveyed(n: int = 60, seed: int = 1, errors: float = 0.15) -> Release:
    g = np.random.default_rng(seed)
    x, y, z = g.normal(50, 10, n).round(), g.choice(list("abcdefgh"), n), g.choice(list("pqr"), n)
    z = np.where(g.random(n) < 0.1, None, z)
    before = microdata({"x": NUMBER}, x=x, y=list(y), z=list(z))
    y2 = np.where(g.random(n) < errors, g.choice(y, n), y)
    z2 = np.where(g.random(n) < errors, g.choice(list("pqr"), n), z)
    after = microdata({"x": NUMBER}, x=x + g.integers(-2, 3, n), y=list(y2), z=list(z2))
    return Release.of(before, after, "rows")


@pytest.mark.parametrize("missing", ["wildcard", "value", "ignored"])
@pytest.mark.parametrize("block", [(), ("z",)])
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_the_record_of_the_greatest_weight_is_the_one_found_by_weighing_every_pair(
    missing: Any, block: Any, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = surveyed()
    used: list[AgreementModel] = []
    monkeypatch.setattr("sfumato.kernels.agreement.fit", lambda *a: used.append(fit(*a)) or used[-1])
    guesses = LinkByWeight(missing=missing, block=block, tolerance=tolerance).run(outcome, Snooper(), Draws(1))
    model = used[0]
    names = [n for n in "xyz" if n not in block]
    limit = tolerance * outcome.masked.numbers("x").std()

    def values(data: Microdata, i: int) -> dict[str, Any]:
        return {n: data.batch([n]).column(n).arrow.to_pylist()[i] for n in "xyz"}

    ours = [values(outcome.original, i) for i in range(60)]
    theirs = [values(outcome.masked, i) for i in range(60)]
    whole = [i for i in range(60) if missing != "ignored" or None not in ours[i].values()]
    assert guesses.target.tolist() == whole
    for target, right, sure in zip(whole, guesses.right, guesses.sure, strict=True):  # type: ignore[arg-type]
        weights = {}
        for k, record in enumerate(theirs):
            if missing == "ignored" and None in record.values():
                continue
            if block and record["z"] != ours[target]["z"]:
                continue
            total = 0.0
            for j, name in enumerate(names):
                one, two = ours[target][name], record[name]
                if one is None or two is None:
                    if missing == "wildcard":
                        continue
                    agree = one is two
                else:
                    agree = abs(one - two) <= limit if name == "x" else one == two
                total += model.agreement[j] if agree else model.disagreement[j]
            weights[k] = total
        best = max(weights.values(), default=-np.inf)
        near = [k for k, w in weights.items() if w > best - 1e-9]
        assert right == pytest.approx(1 / len(near) if target in near else 0.0)
        odds = model.share / (1 - model.share) * np.exp(best)
        assert sure == pytest.approx(min(odds / (1 + odds), 1 / max(len(near), 1)))


def independent_keys(n: int, levels: int, errors: float) -> Release:
    g = np.random.default_rng(7)
    names = [f"k{j}" for j in range(5)]
    before = {name: g.integers(0, levels, n).astype(str) for name in names}
    after = {c: np.where(g.random(n) < errors, g.integers(0, levels, n).astype(str), v) for c, v in before.items()}
    return Release.of(microdata(**before), microdata(**after), "rows")


def test_the_weights_are_those_of_the_errors_that_were_made_and_a_sure_snooper_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcome = independent_keys(2000, 7, 0.15)
    used: list[AgreementModel] = []
    monkeypatch.setattr("sfumato.kernels.agreement.fit", lambda *a: used.append(fit(*a)) or used[-1])
    guesses = LinkByWeight().run(outcome, Snooper(), Draws(1))
    # a value that was drawn anew is the old one by chance
    np.testing.assert_allclose(used[0].m, 1 - 0.15 * 6 / 7, atol=0.05)
    np.testing.assert_allclose(used[0].u, 1 / 7, atol=0.01)
    assert used[0].share == pytest.approx(1 / 2000, rel=0.15)
    assert guesses.sure is not None
    # the best of all records is right more often than any pair of that weight is a match
    assert 0 < guesses.right.mean() - guesses.sure.mean() < 0.1
    surest = guesses.sure >= np.quantile(guesses.sure, 0.7)
    assert guesses.right[surest].mean() > guesses.right[~surest].mean() + 0.1


def test_keys_that_say_much_count_for_more_than_in_a_distance() -> None:
    """Where one key is noise and others are not, weights learn it; a distance counts each key alike."""
    g = np.random.default_rng(9)
    n = 1500
    good = {f"k{j}": g.integers(0, 12, n).astype(str) for j in range(3)}
    noisy = {f"n{j}": g.integers(0, 3, n).astype(str) for j in range(3)}
    after = {c: np.where(g.random(n) < 0.05, g.integers(0, 12, n).astype(str), v) for c, v in good.items()}
    after |= {c: g.permutation(v) for c, v in noisy.items()}
    outcome = Release.of(microdata(**good, **noisy), microdata(**after), "rows")
    by_weight, by_distance = ProbabilisticLinkage().score(outcome), DistanceLinkage().score(outcome)
    assert by_weight.value > 1.3 * by_distance.value


def test_weights_are_learnt_from_some_of_the_pairs_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = microdata({"x": NUMBER, "y": NUMBER}, x=np.arange(500.0), y=np.arange(500.0) ** 2 % 97)
    outcome = KimNoise(columns=("x", "y"), lambda2=0.0001).apply(data, Draws(1))
    everyone = ProbabilisticLinkage().score(outcome)
    monkeypatch.setattr(attack_module, "MOST_PAIRS", 50_000)
    some = ProbabilisticLinkage().score(outcome)
    assert some.value == pytest.approx(everyone.value, rel=0.2)


def test_where_fewer_are_released_than_he_knows_only_so_many_matches_are_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = microdata({"x": NUMBER, "y": NUMBER}, x=np.arange(1000.0), y=np.arange(1000.0) ** 2 % 97)
    outcome = Sample(fraction=0.1).apply(data, Draws(1))
    share = len(outcome.masked) / 1000
    expected: list[tuple[float, float]] = []
    monkeypatch.setattr("sfumato.kernels.agreement.fit", lambda p, c, m: expected.append((c.sum(), m)) or fit(p, c, m))
    ProbabilisticLinkage().score(outcome)
    monkeypatch.setattr(attack_module, "MOST_PAIRS", 5_000)
    ProbabilisticLinkage().score(outcome)
    for (
        pairs,
        matches,
    ) in expected:  # each target has a tenth of a chance to be there, whichever part of them is looked at
        targets = pairs / len(outcome.masked)
        assert matches == pytest.approx(targets * share)
    assert expected[1][0] < expected[0][0]


def test_more_keys_than_can_be_joined_give_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = independent_keys(200, 4, 0.1)
    joined = LinkByWeight().run(outcome, Snooper(), Draws(1))
    monkeypatch.setattr(attack_module, "JOINED_KEYS", 2)
    counted_ = LinkByWeight().run(outcome, Snooper(), Draws(1))
    np.testing.assert_allclose(joined.sure, counted_.sure, rtol=1e-9)  # type: ignore[arg-type]
    np.testing.assert_array_equal(joined.right, counted_.right)


def test_randomised_categories_are_linked_better_by_weight_than_by_distance() -> None:
    from sfumato.datasets import census

    data = census(1500, 0.3).sample
    keys = ("tract", "size", "relationship", "sex", "marital", "employment", "occupation")
    released = PRAM(columns=keys[:1] + keys[2:]).apply(data, Draws(1))
    snooper = Snooper(keys=keys)
    right = success(LinkByWeight(tolerance=0.0).run(released, snooper, Draws(1))).rate
    assert right > DistanceLinkage().score(released, snooper).value


@pytest.mark.parametrize(
    ("measure", "keys", "sentence"),
    [
        (ProbabilisticLinkage(block=("y",)), ("x",), "block names 'y', which the snooper does not know"),
        (ProbabilisticLinkage(block=("x",)), ("x",), "every key is in block"),
        (ProbabilisticLinkage(tolerance={"q": 1.0}), ("x",), "tolerance names q"),
        (ProbabilisticLinkage(), tuple(f"c{i}" for i in range(15)), "at most 14 keys, and there are 15"),
    ],
)
def test_what_cannot_be_weighed_is_refused_in_a_sentence(measure: Any, keys: Any, sentence: str) -> None:
    data = microdata({"x": NUMBER}, x=[1.0, 2.0], y=["a", "b"], **{f"c{i}": ["a", "b"] for i in range(15)})
    with pytest.raises(SfumatoError, match=sentence):
        measure.score(Release.of(data, data, "rows"), Snooper(keys=keys))


def test_one_record_is_linked_and_so_is_nobody_in_an_empty_block() -> None:
    data = microdata(x=["a"])
    one = ProbabilisticLinkage().score(Release.of(data, data, "rows"))
    assert one.value == 1
    assert one.words == "1 of 1 target linked to its own record, 1 by chance"
    before, after = microdata(x=["a", "b"], y=["p", "q"]), microdata(x=["a", "b"], y=["q", "p"])
    score = ProbabilisticLinkage(block=("y",)).score(Release.of(before, after, "rows"))
    assert score.value == 0  # each looks in the other's block


def test_the_words_say_what_was_compared_how() -> None:
    data = microdata({"x": NUMBER}, x=[1.0, 2.0], y=["a", "b"])
    score = ProbabilisticLinkage(block=("y",)).score(Release.of(data, data, "rows"))
    assert score.variant == "learnt weights; numbers agree within 0.1 sd; within y; a missing key matches anything"
    assert score.words == "2 of 2 targets linked to their own record, 1 by chance"
