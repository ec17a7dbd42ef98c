"""Linkage by distance: the search against every pair, the attack against its definition, and what the snooper's file holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import microdata

import sfumato.kernels.neighbours as by_class_module
from sfumato import Draws, Release, Snooper
from sfumato.attacks import LinkByDistance
from sfumato.attacks.attacker_file import linkage_keys
from sfumato.contract import success
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.kernels.neighbours import GAP, Metric, distances, nearest_by_class, nearest_rows
from sfumato.masks import MDAV, AddSimulatedRecords, KimNoise, Recode, RemoveIdentifiers, Sample
from sfumato.risk import DistanceLinkage, RankLinkage
from sfumato.schema import Attribute, Schema, TreeHierarchy

# -- the search


def slow_distance(a: Any, b: Any, metric: Metric) -> float:
    total = 0.0
    for j, (x, y) in enumerate(zip(a, b, strict=True)):
        if x == GAP or y == GAP:
            total += metric.two_gaps[j] if x == y else metric.one_gap[j]
        elif metric.limit[j] < 0:
            total += ((x - y) * metric.unit[j]) ** 2
        else:
            total += metric.cost[j] * (abs(x - y) > metric.limit[j])
    return total


@given(st.integers(0, 10_000), st.integers(1, 90), st.integers(1, 4), st.booleans(), st.booleans())
def test_the_nearest_rows_are_those_of_a_full_scan(seed: int, n: int, p: int, gaps: bool, limited: bool) -> None:
    g = np.random.default_rng(seed)
    rows, targets = (g.integers(0, 7, (size, p)).astype(float) for size in (n, 25))
    if gaps:
        rows[g.random(rows.shape) < 0.2] = GAP
        targets[g.random(targets.shape) < 0.2] = GAP
    # powers of two, so that sums are exact and ties are ties
    metric = Metric(
        2.0 ** g.integers(-2, 2, p), g.integers(-1, 2, p).astype(float), *(g.integers(0, 9, p) / 4 for _ in range(3))
    )
    sizes = g.integers(1, 4, n).astype(float)
    own = g.integers(-1, n, 25)
    low = g.integers(-3, 3, targets.shape).astype(float)
    reach = (low, low + g.integers(0, 8, targets.shape)) if limited else None
    found = nearest_rows(rows, targets, metric, sizes, own, reach)
    for t, q in enumerate(targets):
        inside = [
            reach is None
            or all(r == GAP or lo <= r <= hi for r, lo, hi in zip(row, reach[0][t], reach[1][t], strict=True))
            for row in rows
        ]
        apart = [slow_distance(row, q, metric) if ok else math.inf for row, ok in zip(rows, inside, strict=True)]
        best = min(apart)
        nearest = [i for i, d in enumerate(apart) if d == best and d < math.inf]
        assert found.distance[t] == best
        assert found.ties[t] == sum(sizes[i] for i in nearest)
        assert found.row[t] == (nearest[0] if nearest else -1)
        if own[t] >= 0:
            part = None if reach is None else (reach[0][t : t + 1], reach[1][t : t + 1])
            assert distances(rows[own[t : t + 1]], q[None, :], metric, part)[0] == apart[own[t]]


def test_many_rows_in_many_columns_are_searched_exactly() -> None:
    g = np.random.default_rng(3)
    rows, targets = g.normal(size=(3000, 5)), g.normal(size=(400, 5))
    metric = Metric(*(np.full(5, v) for v in (1.0, -1.0, 0.0, 0.0, 0.0)))
    apart = ((rows[None] - targets[:, None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_rows(rows, targets, metric).row, apart.argmin(axis=1))


@given(
    st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 5), st.integers(0, 2), st.sampled_from([0, 0.05, 0.3]),
    st.booleans(), st.sampled_from([0, 0.2]), st.sampled_from([3, 200]),
)  # fmt: skip
def test_a_search_class_by_class_finds_what_a_full_scan_finds(
    seed: int, n: int, codes: int, p: int, gaps: float, limited: bool, few: float, most: int
) -> None:
    g = np.random.default_rng(seed)
    m, k = 30, codes + p
    rows, targets = (g.integers(0, 3, (size, k)).astype(float) for size in (n, m))
    for side in (rows, targets):
        side[g.random(side.shape) < gaps] = GAP
    coded = g.permutation(np.arange(k) < codes)  # in any order among the numbers
    # powers of two, so that sums are exact and ties are ties; costs like the distances of numbers, so that they tie often
    cost, one, two = (2.0 ** g.integers(-1, 2, k) * g.choice([1, 0], k, p=[1 - none, none]) for none in (0.1, 0.4, 0.8))
    metric = Metric(2.0 ** g.integers(-1, 2, k), np.where(coded, 0.0, -1.0), cost, one, two)
    sizes, own = g.integers(1, 4, n).astype(float), g.integers(-1, n, m)
    low = np.where(coded & (g.random(k) < 0.7), -np.inf, g.integers(-1, 2, (m, k)))
    reach = (low, np.where(np.isneginf(low), np.inf, low + g.integers(0, 3, (m, k)))) if limited else None
    with pytest.MonkeyPatch.context() as patch:  # every way to the end: few are left, or many sets were looked through
        patch.setattr(by_class_module, "_FEW", few)
        patch.setattr(by_class_module, "_MOST", most)
        found = nearest_by_class(rows, targets, metric, sizes, own, reach)
    for t, q in enumerate(targets):
        apart = np.array([slow_distance(row, q, metric) for row in rows])
        if reach is not None:
            out = (rows != GAP) & ((rows < reach[0][t]) | (rows > reach[1][t]))
            apart[out.any(axis=1)] = math.inf
        near = np.flatnonzero((apart == apart.min()) & np.isfinite(apart))
        assert found.distance[t] == apart.min()
        assert found.ties[t] == sizes[near].sum()
        assert found.row[t] == (near[0] if len(near) else -1)


def test_costs_that_no_number_holds_exactly_tie_as_the_sum_of_every_column_says() -> None:
    g = np.random.default_rng(1)
    rows = np.column_stack([g.integers(0, 4, (3000, 5)), g.integers(0, 9, (3000, 2)) / 10])
    targets = np.column_stack([g.integers(0, 4, (300, 5)), g.integers(0, 9, (300, 2)) / 10])
    metric = Metric(
        np.full(7, 0.7), np.array([0.0] * 5 + [-1.0] * 2), np.array([0.1, 0.7, 0.3, 0.2, 1.1, 0, 0]), *np.zeros((2, 7))
    )
    sizes, own = np.ones(3000), np.full(300, -1)
    fast, full = nearest_by_class(rows, targets, metric, sizes, own), nearest_rows(rows, targets, metric)
    for a, b in zip(fast, full, strict=True):
        np.testing.assert_array_equal(a, b)
    for i in range(0, 300, 30):
        apart = [distances(row[None], targets[i : i + 1], metric)[0] for row in rows]
        assert full.ties[i] == sum(d == min(apart) for d in apart)


def test_there_may_be_no_rows_and_no_targets() -> None:
    metric = Metric(*(np.ones(2) for _ in range(5)))
    assert nearest_rows(np.empty((0, 2)), np.ones((3, 2)), metric).row.tolist() == [-1, -1, -1]
    assert len(nearest_rows(np.ones((3, 2)), np.empty((0, 2)), metric).row) == 0


# -- the attack


NUMBER = {"scale": "ordered"}


def slow_links(
    original: list[tuple[Any, ...]], released: dict[int, tuple[Any, ...]], ordered: list[bool], unit: str, missing: str
) -> dict[int, float]:
    """The definition, pair by pair: the probability that each original is linked rightly; None is missing."""
    columns = list(zip(*released.values(), strict=True))
    per_unit, apart = [], []
    for column, is_number in zip(columns, ordered, strict=True):
        known = np.array([v for v in column if v is not None], float if is_number else object)
        if is_number:
            size = 0.0
            if len(known) and known.min() < known.max():
                size = known.std()
                if unit == "range":
                    size = known.max() - known.min()
                if unit == "robust":
                    size = 1.482602218505602 * np.median(np.abs(known - np.median(known))) or known.std()
            per_unit.append(1 / size if size else 0.0)
            differences = [(a - b) ** 2 * per_unit[-1] ** 2 for a in known for b in known]
        else:
            per_unit.append(1.0)
            differences = [float(a != b) for a in known for b in known]
        apart.append(float(np.mean(differences)) if differences else 0.0)

    def between(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
        total = 0.0
        for j, (x, y) in enumerate(zip(a, b, strict=True)):
            if x is None or y is None:
                total += apart[j] if missing == "value" and not (x is None and y is None) else 0.0
            else:
                total += ((x - y) * per_unit[j]) ** 2 if ordered[j] else float(x != y)
        return total

    right = {}
    candidates = {i: r for i, r in released.items() if missing != "ignored" or None not in r}
    for i, record in enumerate(original):
        if missing == "ignored" and None in record:
            continue
        distance = {k: between(record, r) for k, r in candidates.items()}
        best = min(distance.values(), default=math.inf)
        near = [k for k, d in distance.items() if d <= best + 1e-9]
        right[i] = 1 / len(near) if i in near else 0.0
        # what gaps cost on average may happen to be what numbers differ by, but for the last digit
        gaps = {tuple((x is None) + (y is None) for x, y in zip(record, released[k], strict=True)) for k in near}
        if missing == "value" and len(gaps) > 1:
            right[i] = math.nan
    return right


value = st.one_of(st.none(), st.integers(0, 5))


@given(
    st.lists(st.tuples(value, value, st.sampled_from(["a", "b", "c", None])), min_size=1, max_size=14),
    st.data(),
    st.sampled_from(["sd", "range", "robust"]),
    st.sampled_from(["wildcard", "value", "ignored"]),
)
def test_every_pair_compared_gives_the_same_links(
    original: list[tuple[Any, ...]], draw: Any, unit: Any, missing: Any
) -> None:
    n = len(original)
    which = draw.draw(st.lists(st.integers(-2, n - 1), min_size=1, max_size=n, unique=True))
    rows = [draw.draw(st.tuples(value, value, st.sampled_from(["a", "b", "c", None]))) for _ in which]
    # a released value that was never there would be taken for a recoding
    letters = {r[2] for r in original}
    rows = [(a, b, c if c in letters else None) for a, b, c in rows]
    types = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("z", pa.string())])
    schema = Schema((Attribute("x", "key"), Attribute("y", "key"), Attribute("z", "key", "unordered")))  # type: ignore[arg-type]

    def file(records: list[tuple[Any, ...]]) -> Microdata:
        columns = list(zip(*records, strict=True))
        return Microdata(pa.table(dict(zip(types.names, map(list, columns), strict=True)), schema=types), schema)

    outcome = Release.of(file(original), file(rows), align=np.array(which))
    released = {k if k >= 0 else -1 - i: r for i, (k, r) in enumerate(zip(which, rows, strict=True))}
    expected = slow_links(original, released, [True, True, False], unit, missing)
    guesses = LinkByDistance(unit=unit, missing=missing).run(outcome, Snooper(), Draws(1))
    assert guesses.target.tolist() == sorted(expected)
    for target, right in zip(guesses.target.tolist(), guesses.right.tolist(), strict=True):
        assert math.isnan(expected[target]) or right == pytest.approx(expected[target])
    t = sum(missing != "ignored" or None not in r for r in rows)
    chances = [1 / t if i in released and (missing != "ignored" or None not in released[i]) else 0 for i in expected]
    np.testing.assert_allclose(guesses.baseline, chances)


def test_a_file_as_it_is_links_everybody_and_a_constant_one_nobody_beyond_chance() -> None:
    data = microdata({"x": NUMBER}, x=[1.0, 2.0, 4.0, 8.0], y=["a", "a", "b", "b"])
    assert DistanceLinkage().score(Release.of(data, data, "rows")).value == 1
    flat = microdata({"x": NUMBER}, x=[3.0] * 4, y=["a"] * 4)
    score = DistanceLinkage().score(Release.of(data, flat, "rows"))
    assert score.value == pytest.approx(1 / 4)
    assert score.details["rightly by chance"] == pytest.approx(1)
    assert score.details["beyond chance"] == pytest.approx(0)
    assert score.words == "1 of 4 targets linked to their own record, 1 by chance"


def test_records_that_tie_share_the_probability() -> None:
    data = microdata({"x": NUMBER}, x=[1.0, 1.0, 5.0])
    score = DistanceLinkage().score(Release.of(data, data, "rows"))
    assert score.records.tolist() == [0.5, 0.5, 1]  # type: ignore[union-attr]
    assert score.details["linked rightly without a tie"] == 1
    # 3 lies between 1 and 5: either is as near
    moved = microdata({"x": NUMBER}, x=[1.0, 5.0, 9.0])
    between = microdata({"x": NUMBER}, x=[3.0, 5.0, 9.0])
    assert DistanceLinkage().score(Release.of(between, moved, "rows")).records.tolist() == [0.5, 1, 1]  # type: ignore[union-attr]


def test_noise_that_drowns_everything_leaves_what_chance_gives() -> None:
    g = np.random.default_rng(5)
    data = microdata(dict.fromkeys("xyz", NUMBER), **{n: g.normal(size=3000) for n in "xyz"})
    lost = microdata(dict.fromkeys("xyz", NUMBER), **{n: g.normal(size=3000) for n in "xyz"})
    assert DistanceLinkage().score(Release.of(data, lost, "rows")).details["linked rightly"] < 9  # Poisson(1)
    release = KimNoise(columns=("x", "y", "z"), lambda2=0.01).apply(data, Draws(1))
    score = DistanceLinkage().score(release)
    assert score.interval is not None
    assert score.value > 0.3
    assert score.interval[0] < score.value < score.interval[1]


def test_persons_who_were_not_released_cannot_be_found_and_simulated_records_lead_astray() -> None:
    g = np.random.default_rng(2)
    data = microdata(dict.fromkeys("xy", NUMBER), **{n: g.normal(size=200) for n in "xy"})
    part = Sample(fraction=0.5).apply(data, Draws(1))
    score = DistanceLinkage().score(part)
    assert score.value == pytest.approx(len(part.masked) / 200)  # each who is there is found
    assert score.details["targets without a record to find"] == 200 - len(part.masked)
    decoys = (KimNoise(columns=("x", "y"), lambda2=0.05) >> AddSimulatedRecords(count=2000)).apply(data, Draws(1))
    alone = KimNoise(columns=("x", "y"), lambda2=0.05).apply(data, Draws(1))
    assert DistanceLinkage().score(decoys).value < DistanceLinkage().score(alone).value


def test_a_recoded_key_is_compared_as_it_was_recoded() -> None:
    ages = [20, 21, 34, 36, 38, 60]
    data = microdata({"age": NUMBER}, age=ages, town=["u", "v", "w", "u", "v", "w"])
    recoded = Recode(rules={"age": [30, 50], "town": {"u": "south", "v": "south", "w": "north"}}).apply(data, Draws(1))
    # classes by (age group, town): {20, 21}, {34}, {36, 38}, {60}
    score = DistanceLinkage().score(recoded, Snooper(keys=("age", "town")))
    assert score.records.tolist() == [0.5, 0.5, 1, 0.5, 0.5, 1]  # type: ignore[union-attr]


def test_whoever_knows_the_cutpoints_puts_each_number_into_its_own_interval() -> None:
    """The number that stands for the next interval may be nearer: 48 is nearer to 52 than to the middle of 20 to 50."""
    ages = [*range(20, 50), *range(50, 54)]
    data = microdata({"age": NUMBER}, age=ages)
    for recoded in (
        Recode(rules={"age": [50]}).apply(data, Draws(1)),
        (Recode(rules={"age": [50]}) >> Sample(fraction=1.0)).apply(data, Draws(1)),
    ):
        score = DistanceLinkage().score(recoded)
        assert score.records.tolist() == pytest.approx([1 / 30] * 30 + [1 / 4] * 4)  # type: ignore[union-attr]
        assert RankLinkage().score(recoded).value == pytest.approx(2 / 34)
        known = linkage_keys(recoded, Snooper(precision={"age": 7}), Draws(1), "wildcard")  # 49 to 55: 52.5
        assert (known.keys[0].known == known.keys[0].known[-1]).sum() == 1 + 4


def test_a_recoding_after_noise_does_not_tell_the_snooper_what_the_noise_did() -> None:
    g = np.random.default_rng(4)
    data = microdata({"x": NUMBER}, x=g.normal(size=600))
    values = {f"g{i}": float(i) for i in range(-9, 10)}
    labels = [f"g{int(v)}" for v in np.clip((data.numbers("x") + 3 * g.normal(size=600)).round(), -9, 9)]
    intervals = microdata({"x": {"scale": "ordered", "values": values}}, x=labels)
    # a snooper who was told each person's interval would be right as often as there are intervals
    assert DistanceLinkage().score(Release.of(data, intervals, "rows")).details["linked rightly"] < len(set(labels)) / 2
    codes = microdata(x=g.permutation(10**6)[:300])
    lost = microdata(x=10**6 + g.permutation(10**6)[:300])
    assert DistanceLinkage().score(Release.of(codes, lost, "rows")).value == pytest.approx(
        1 / 300
    )  # new codes say nothing


def test_labels_that_the_schema_gives_no_number_are_compared_as_categories() -> None:
    grades = {"e": {"scale": "ordered", "values": {"low": 1, "mid": 2, "high": 3}}}
    before, after = (
        microdata(grades, e=["low", "mid", "high", "mid"]),
        microdata(grades, e=["low"] + ["mid or more"] * 3),
    )
    score = DistanceLinkage().score(Release.of(before, after, "rows"))
    assert score.records.tolist() == pytest.approx([1, 1 / 3, 1 / 3, 1 / 3])  # type: ignore[union-attr]


@pytest.mark.parametrize("k", [3, 5])
def test_microaggregation_of_groups_far_apart_links_one_in_k(k: int) -> None:
    g = np.random.default_rng(k)
    x, y = (100.0 * np.repeat(np.arange(40), k) * sign + g.normal(size=40 * k) for sign in (1, -1))
    data = microdata(dict.fromkeys("xy", NUMBER), x=x, y=y)
    score = DistanceLinkage().score(MDAV(columns=("x", "y"), k=k).apply(data, Draws(1)))
    assert score.value == pytest.approx(1 / k)
    assert score.details["linked rightly without a tie"] == 0


def test_of_links_that_are_equally_near_he_is_surest_where_nobody_else_is() -> None:
    """Recoded: every link has distance 0, but he sees how many records share it."""
    groups = [*range(10), *[99] * 90]
    data = microdata(x=[str(v) for v in groups])
    score = DistanceLinkage().score(Release.of(data, data, "rows"))
    assert score.value == pytest.approx(11 / 100)
    assert score.details["right among the surest 10 %"] == 1


def test_values_next_to_zero_and_values_out_of_all_proportion_are_compared() -> None:
    for values in ([0.0, 5e-324, 1e-320], [1e-200, 2e-200, 3e-200], [1e308, -1e308, 1.7e308], [0.0, 1e-300, 1e300]):
        data = microdata({"x": NUMBER}, x=values)
        for unit in ("sd", "range", "robust"):
            score = DistanceLinkage(unit=unit).score(Release.of(data, data, "rows"))  # type: ignore[arg-type]
            # squares of what is too small beside the rest are 0: then records tie
            assert score.value == 1 or (values[-1] == 1e300 and score.value == pytest.approx(2 / 3))


def test_keys_that_cost_the_same_where_they_are_missing_tie() -> None:
    """In standard deviations two random records differ by 2 on average, whatever the column."""
    g = np.random.default_rng(0)
    for _ in range(20):
        x, y = g.normal(size=9) * 10.0 ** g.integers(-3, 4), g.gamma(2, 1, 9)
        before = microdata(dict.fromkeys("xy", NUMBER), x=[x[0]] * 9, y=[y[1]] * 9)
        after = microdata(dict.fromkeys("xy", NUMBER), x=[x[0], None, *x[2:]], y=[None, y[1], *y[2:]])
        guesses = LinkByDistance(missing="value").run(Release.of(before, after, "rows"), Snooper(), Draws(1))
        near = ((x[2:] - x[0]) / np.delete(x, 1).std()) ** 2 + ((y[2:] - y[1]) / y[1:].std()) ** 2
        assert guesses.right[:2].tolist() == ([0.5, 0.5] if near.min() > 2 else [0, 0])


# -- categories in a hierarchy


TREE = TreeHierarchy.from_levels({t: [t[:2], t[0]] for t in ("n11", "n12", "n21", "s11", "s12")})


def test_categories_differ_by_the_levels_that_they_do_not_share() -> None:
    place = {"place": {"scale": "partially ordered", "hierarchy": TREE}}
    before = microdata(place, place=["n11", "n12", "s11", "n21"], sex=["f", "f", "m", None])
    after = microdata(place, place=["n12", "s12", "s11", "n1"], sex=["f", "f", "f", "f"])
    # thirds of levels, and 1 for sex: n11 is 1/3 from n12, 1/3 from n1 (only the lowest level), 1 from s11 and s12
    guesses = LinkByDistance(categories="hierarchy").run(Release.of(before, after, "rows"), Snooper(), Draws(1))
    np.testing.assert_allclose(
        guesses.right, [0.5, 0, 1, 0.5]
    )  # n21 is 2/3 from n12 and from n1: its own is one of two
    plain = LinkByDistance().run(Release.of(before, before, "rows"), Snooper(), Draws(1))
    np.testing.assert_allclose(plain.right, 1)


@given(st.integers(0, 10_000), st.integers(2, 25), st.sampled_from(["wildcard", "value"]))
def test_a_hierarchy_gives_the_links_of_every_pair_compared(seed: int, n: int, missing: Any) -> None:
    g = np.random.default_rng(seed)
    labels = np.array(["n11", "n12", "n21", "s11", "s12", None], object)
    facts = {"place": {"scale": "partially ordered", "hierarchy": TREE}, "x": NUMBER}
    here, there = (labels[g.integers(0, 6, n)] for _ in range(2))
    there[~np.isin(there.astype(str), here.astype(str))] = None  # what was never there would be taken for a recoding
    files = [
        microdata(facts, place=pa.array(places, pa.string()), x=g.integers(0, 4, n) / 2) for places in (here, there)
    ]
    before, after = (
        list(zip(places, d.numbers("x"), strict=True)) for places, d in zip((here, there), files, strict=True)
    )
    sd = np.std([x for _, x in after])
    random = [[TREE.path(p)[level] for p, _ in after if p is not None] for level in range(TREE.height)]
    apart = np.mean([np.mean([a != b for a in level for b in level]) if level else 0.0 for level in random])
    guesses = LinkByDistance(categories="hierarchy", missing=missing).run(
        Release.of(*files, "rows"), Snooper(), Draws(1)
    )
    for i, (p, x) in enumerate(before):
        distance = []
        for q, y in after:
            if p is None or q is None:
                place = apart if missing == "value" and p is not q else 0.0
            else:
                place = (TREE.path(p).index(TREE.common(p, q))) / TREE.height
            distance.append(place + (((x - y) / sd) ** 2 if sd else 0.0))
        near = [k for k, d in enumerate(distance) if d <= min(distance) + 1e-9]
        assert guesses.right[i] == pytest.approx(1 / len(near) if i in near else 0.0)


def test_a_hierarchy_is_asked_for_where_no_key_has_one_and_named_in_the_score() -> None:
    data = people(5)
    with pytest.raises(SfumatoError, match="has a hierarchy of several levels"):
        DistanceLinkage(categories="hierarchy").score(Release.of(data, data, "rows"))
    place = microdata({"place": {"scale": "partially ordered", "hierarchy": TREE}}, place=["n11", "elsewhere"])
    score = DistanceLinkage(categories="hierarchy").score(Release.of(place, place, "rows"))
    assert score.value == 1
    assert "by the levels of their hierarchy" in score.variant


# -- what the snooper has


def people(n: int = 400) -> Microdata:
    g = np.random.default_rng(11)
    return microdata(
        {"x": NUMBER, "tag": {"role": "identifier"}},
        tag=[f"p{i}" for i in range(n)],
        x=np.round(g.normal(50, 10, n), 1),
        y=g.choice(list("abcd"), n),
    )


def test_his_file_covers_a_share_of_the_persons_and_some_values_are_wrong() -> None:
    data = people(2000)
    outcome = Release.of(data, data, "rows")
    snooper = Snooper(coverage=0.25, errors=0.2)
    one = linkage_keys(outcome, snooper, Draws(4), "wildcard")
    assert len(one.targets) == 500
    truth = {"x": data.numbers("x")[one.targets], "y": data.batch(["y"]).column("y").codes[0][one.targets]}
    for key in one.keys:
        wrong = np.mean(key.known != truth[key.name])
        values, counts = np.unique(key.released, return_counts=True)
        alike = ((counts / counts.sum()) ** 2).sum()  # a random value may be the right one
        assert wrong == pytest.approx(0.2 * (1 - alike), abs=4 * math.sqrt(0.2 * 0.8 / 500))
        assert set(key.known) <= set(values)
    again = linkage_keys(outcome, snooper, Draws(4), "wildcard")
    other = linkage_keys(outcome, snooper, Draws(5), "wildcard")
    assert all(np.array_equal(a.known, b.known) for a, b in zip(one.keys, again.keys, strict=True))
    assert not np.array_equal(one.targets, other.targets)


def test_a_snooper_whose_every_value_is_wrong_does_as_well_as_chance() -> None:
    data = people(2000)
    score = DistanceLinkage().score(Release.of(data, data, "rows"), Snooper(errors=1.0))
    assert score.details["linked rightly"] < 10
    assert DistanceLinkage(seed=1).score(Release.of(data, data, "rows"), Snooper(errors=0.3)).value != pytest.approx(
        DistanceLinkage(seed=2).score(Release.of(data, data, "rows"), Snooper(errors=0.3)).value, abs=1e-12
    )


def test_precision_puts_a_number_in_the_middle_of_its_interval() -> None:
    data = microdata({"x": NUMBER}, x=[1.0, 4.9, 5.0, -0.1])
    known = linkage_keys(Release.of(data, data, "rows"), Snooper(precision={"x": 5}), Draws(1), "wildcard")
    assert known.keys[0].known.tolist() == [2.5, 2.5, 7.5, -2.5]


def test_a_file_of_his_own_is_linked_by_a_column_that_both_have() -> None:
    data = microdata({"x": NUMBER, "tag": {"role": "identifier"}}, tag=["p", "q", "r"], x=[1.0, 2.0, 3.0])
    released = microdata({"x": NUMBER}, x=[1.1, 2.1, 3.1])
    outcome = Release.of(data, released, "rows")
    his = microdata({"x": NUMBER, "tag": {"role": "identifier"}}, tag=["r", "stranger", "p"], x=[3.0, 9.0, 2.2])
    score = DistanceLinkage().score(outcome, Snooper(keys=("x",), external=his))
    np.testing.assert_array_equal(score.records, [0, np.nan, 1])  # type: ignore[arg-type]
    assert score.details["targets"] == 2
    assert DistanceLinkage(link="tag").score(outcome, Snooper(keys=("x",), external=his)) == score
    same_order = microdata({"x": NUMBER}, x=[1.0, 2.0, 3.0])
    assert DistanceLinkage(link="rows").score(outcome, Snooper(keys=("x",), external=same_order)).value == 1


@pytest.fixture(scope="module")
def register() -> tuple[Microdata, Release, Microdata, np.ndarray]:
    """Return persons with names, a file of them without names and with noisy wages, and a register of half of them.

    The register has the names, the keys (one number in four is off by a little), and strangers. The last part says which person
    each of its entries is, -1 for a stranger.
    """
    g = np.random.default_rng(77)
    n = 120
    facts = {
        "age": NUMBER,
        "tenure": NUMBER,
        "name": {"role": "identifier"},
        "wage": {"role": "confidential", "scale": "ordered"},
    }
    columns = {
        "name": [f"person {i}" for i in range(n)], "age": g.normal(45, 12, n).round(1), "tenure": g.gamma(2, 4, n).round(1),
        "sex": g.choice(["f", "m"], n), "wage": g.lognormal(10, 0.5, n).round(),
    }  # fmt: skip
    data = microdata(facts, **columns)
    released = (RemoveIdentifiers() >> KimNoise(("wage",), lambda2=0.5)).apply(data, Draws(3))
    who = np.append(g.permutation(n)[: n // 2], np.full(30, -1))
    entries = np.where(who < 0, np.arange(len(who)), who)
    age, tenure = columns["age"][entries], columns["tenure"][entries]
    his = microdata(
        {k: facts[k] for k in ("age", "tenure", "name")},
        name=[f"person {i}" if i >= 0 else f"stranger {e}" for e, i in enumerate(who)],
        age=np.where(g.random(len(who)) < 0.25, age + g.normal(0, 1, len(who)).round(1), age),
        tenure=np.where(who < 0, g.gamma(2, 4, len(who)).round(1), tenure),
        sex=np.array(columns["sex"])[entries],
    )
    return data, released, his, who


def test_names_removed_a_register_with_names_still_finds_the_persons_as_every_pair_compared_does(
    register: tuple[Microdata, Release, Microdata, np.ndarray],
) -> None:
    _, released, his, who = register
    assert "name" not in released.masked.schema.names()
    keys = ("age", "tenure", "sex")
    rows = [tuple(r) for r in released.masked.to_native().select(keys).to_pandas().to_numpy().tolist()]
    entries = {
        i: tuple(r) for i, r in zip(who, his.to_native().select(keys).to_pandas().to_numpy().tolist(), strict=True)
    }
    known = [entries.get(i, rows[i]) for i in range(len(rows))]
    expected = slow_links(known, dict(enumerate(rows)), [True, True, False], "sd", "wildcard")
    guesses = LinkByDistance().run(released, Snooper(keys=keys, external=his), Draws(1))
    assert guesses.target.tolist() == sorted(i for i in who.tolist() if i >= 0)  # strangers are nobody's targets
    np.testing.assert_allclose(guesses.right, [expected[i] for i in guesses.target.tolist()])
    np.testing.assert_allclose(guesses.baseline, 1 / len(rows))
    assert 0.75 < guesses.right.mean() < 1  # some are lost by the register's errors


def test_whoever_finds_a_person_by_keys_that_are_not_masked_reads_the_masked_value_of_that_person(
    register: tuple[Microdata, Release, Microdata, np.ndarray],
) -> None:
    data, released, his, _ = register
    guesses = LinkByDistance().run(released, Snooper(keys=("age", "tenure", "sex"), external=his), Draws(1))
    found = guesses.right == 1
    read, true = released.masked.numbers("wage")[guesses.guess], data.numbers("wage")[guesses.target]
    np.testing.assert_array_equal(guesses.guess[found], guesses.target[found])
    np.testing.assert_array_equal(guesses.truth, guesses.target)
    spread = data.numbers("wage").std()
    off = (read - true)[found] / spread  # the noise of this mask, and no more: its variance is half that of the column
    assert 0.3 < (off**2).mean() < 0.75
    assert (off != 0).all()
    assert ((read - true)[~found] ** 2).mean() > (off**2).mean() * spread**2  # the wage of somebody else


def test_his_own_file_too_covers_a_share_of_the_persons_and_holds_errors() -> None:
    data = people(1000)
    strangers = microdata(
        {"x": NUMBER, "tag": {"role": "identifier"}}, tag=[f"q{i}" for i in range(500)], x=np.zeros(500), y=["a"] * 500
    )
    table = pa.concat_tables([strangers.batch().rows.to_arrow(), data.batch().rows.to_arrow()])
    his = Microdata(table.drop_columns([c for c in table.column_names if c not in ("tag", "x", "y")]), data.schema)
    outcome = Release.of(data, data, "rows")
    half = DistanceLinkage().score(outcome, Snooper(external=his, coverage=0.5))
    assert half.details["targets"] == 500  # of the persons who are there, not of the strangers
    lost = DistanceLinkage().score(outcome, Snooper(external=his, errors=1.0))
    assert lost.details["linked rightly"] < 10


def test_his_own_file_may_be_written_as_the_original_or_as_the_release() -> None:
    data = people(60)
    recoded = Recode(rules={"x": [45, 55]}).apply(data, Draws(1))
    names = {"tag": data.batch(["tag"]).column("tag").arrow.to_pylist()}
    facts = {"tag": {"role": "identifier"}}
    labels = microdata(facts, x=recoded.masked.batch(["x"]).column("x").arrow.to_pylist(), **names)
    numbers = microdata({**facts, "x": NUMBER}, x=data.numbers("x") + 1e-7, **names)
    right = DistanceLinkage().score(recoded, Snooper(keys=("x",))).value
    for his in (labels, numbers):
        assert DistanceLinkage().score(recoded, Snooper(keys=("x",), external=his)).value == pytest.approx(right)
    text = microdata(facts, x=[str(v) for v in data.numbers("x")], **names)
    with pytest.raises(
        SfumatoError, match="holds text or categories in the snooper's own file, but numbers in the original"
    ):
        DistanceLinkage().score(Release.of(data, data, "rows"), Snooper(keys=("x",), external=text))
    flags, ones = microdata(b=[True, False]), microdata(b=[1, 0])
    link = DistanceLinkage(link="rows")
    assert link.score(Release.of(flags, flags, "rows"), Snooper(external=ones)).value == 1


@pytest.mark.parametrize(
    ("snooper", "measure", "sentence"),
    [
        (Snooper(keys=("age",)), DistanceLinkage(), "'age' is not in the released file"),
        (Snooper(keys=("x",), external=microdata(y=[1])), DistanceLinkage(), "'x' is not in the snooper's own file"),
        (Snooper(keys=("x",), external=microdata(x=[1.0])), DistanceLinkage(), "nobody can tell which original record"),
        (Snooper(keys=("x",), external=microdata(x=[1.0])), DistanceLinkage(link="id"), "'id' is not in the original"),
        (Snooper(keys=("x",), external=microdata(x=[1.0])), DistanceLinkage(link="tag"), "'tag' is not in the snooper's own"),
        (Snooper(keys=("x",), external=microdata(x=[1.0])), DistanceLinkage(link="rows"), "same length"),
        (Snooper(keys=("x", "y"), precision={"y": 2}), DistanceLinkage(), "precision is the width of intervals of numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    snooper: Snooper, measure: DistanceLinkage, sentence: str
) -> None:
    data = people(5)
    with pytest.raises(SfumatoError, match=sentence):
        measure.score(Release.of(data, data, "rows"), snooper)


def test_infinite_keys_and_a_file_without_records_are_refused() -> None:
    data = microdata({"x": NUMBER}, x=[1.0, math.inf])
    with pytest.raises(SfumatoError, match="infinite values"):
        DistanceLinkage().score(Release.of(data, data, "rows"))
    none = microdata({"x": NUMBER}, x=pa.array([], pa.float64()))
    with pytest.raises(SfumatoError, match="nobody to attack"):
        DistanceLinkage().score(Release.of(none, none, "rows"))
    loose = microdata({"x": NUMBER}, x=[1.0])
    with pytest.raises(SfumatoError, match="which released record came from which"):
        DistanceLinkage().score(Release.of(loose, loose))


def test_a_released_file_without_records_is_wrong_about_everybody() -> None:
    data, none = microdata({"x": NUMBER}, x=[1.0, 2.0]), microdata({"x": NUMBER}, x=pa.array([], pa.float64()))
    guesses = LinkByDistance().run(Release.of(data, none, np.array([], int)), Snooper(), Draws(1))
    assert guesses.guess.tolist() == [-1, -1]
    assert success(guesses).rate == 0
