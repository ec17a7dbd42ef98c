"""Global risk of files that real masks made, several in a row: against loops over the records."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Draws, Microdata, Release
from sfumato.errors import DataError, NotApplicable
from sfumato.masks import (
    MDAV,
    PRAM,
    AddSimulatedRecords,
    DataSwap,
    Generalise,
    IndependentNoise,
    RandomOrder,
    RankSwap,
    RecodeRare,
    Sample,
    SuppressValues,
    TopCode,
)
from sfumato.risk import GivenWeights, GlobalRisk, PowerWeights, StabilityWeights, subset_risks
from sfumato.schema import Attribute, IntervalHierarchy, PrefixHierarchy, Schema, TreeHierarchy
from tests.global_risk_twin import changed_share, every_subset, interval_factor, tree_factor, zip_factor

KEYS = ("age", "sex", "zip", "city", "income")
CITIES = {"Europe": {"Italy": ["Rome", "Pisa"], "Norway": ["Oslo"]}, "Asia": {"Japan": ["Kyoto", "Osaka"]}}
ABOVE = {
    "Rome": "Italy", "Pisa": "Italy", "Oslo": "Norway", "Kyoto": "Japan", "Osaka": "Japan",
    "Italy": "Europe", "Norway": "Europe", "Japan": "Asia", "Europe": "*", "Asia": "*",
}  # fmt: skip
AGES = IntervalHierarchy.from_widths([5, 10, 20], bottom=0, top=90)
SCHEMA = Schema(
    (
        Attribute("age", "key", integer=True, missing=(999,), hierarchy=AGES),
        Attribute("sex", "key", "unordered"),
        Attribute("zip", "key", "partially ordered", hierarchy=PrefixHierarchy(4)),
        Attribute("city", "key", "partially ordered", hierarchy=TreeHierarchy.from_tree(CITIES)),
        Attribute("income", "key"),
    )
)  # fmt: skip
WEIGHTS = [PowerWeights(0.7), StabilityWeights(0.9, 0.3), GivenWeights([[1, 0.1], [0.1, 0.8]])]


def people(g: random.Random) -> Microdata:
    """A few persons, some with missing values, a code for missing ages, and some codes and cities that are general already."""
    n, gaps = g.choice([2, 3, 8, 15, 25]), g.choice([0, 0, 0.15])

    def column(draw: Any) -> list[Any]:
        return [None if g.random() < gaps else draw() for _ in range(n)]

    return Microdata(
        pd.DataFrame(
            {
                "age": pd.array(column(lambda: 999 if g.random() < gaps else g.randint(0, 95)), "Int64"),
                "sex": pd.Series(column(lambda: g.choice("fm")), dtype="str"),
                "zip": pd.Series(column(lambda: g.choice(["1111", "1112", "1121", "12**", "2111", "211*"])), dtype="str"),
                "city": pd.Series(column(lambda: g.choice([*list(ABOVE)[:5], "Italy"])), dtype="str"),
                "income": pd.array(column(lambda: round(g.gauss(0, 1), 1)), "Float64"),
            }
        ),
        SCHEMA,
    )  # fmt: skip


def recipe(g: random.Random) -> Any:
    masks = [
        IndependentNoise(columns=("income",), lambda2=0.5),
        IndependentNoise(columns=("age",), lambda2=0.3),
        RecodeRare(("age",), least=g.choice([2, 3, 100])),
        RecodeRare(("zip",), least=3),
        RecodeRare(("city",), least=3),
        Generalise(("age",), g.choice([1, 2, 3])),
        Generalise(("city",), g.choice([1, 2])),
        PRAM(("sex",), pd=0.6),
        RankSwap(columns=("income",), p=0.3),
        DataSwap(("sex", "zip"), rate=0.4),
        MDAV(columns=("income",), k=3),
        TopCode(columns=("income",), value=0.5),
        SuppressValues(("zip", "age"), where="sex == 'f'"),
        Sample(fraction=0.6),
        AddSimulatedRecords(share=0.4),
        RandomOrder(),
    ]
    first, *others = g.sample(masks, g.randint(1, 3))
    for mask in others:
        first = first >> mask
    return first


def records(data: Microdata) -> list[tuple[Any, ...]]:
    columns = []
    for name in KEYS:
        codes, values = data.batch([name]).column(name).codes
        columns.append([None if c < 0 or str(values[c]) == "999" else values[c] for c in codes])
    return list(zip(*columns, strict=True))


def aligned(outcome: Release) -> list[int]:
    """For each released record the original one, -1 for a simulated one."""
    left, right = outcome.matched
    size = len(outcome.masked.batch().ids)
    if left is None or right is None:
        return list(range(size))
    align = np.full(size, -1)
    align[right] = left
    return align.tolist()


@pytest.mark.parametrize("rule", ["wildcard", "value"])
@pytest.mark.parametrize("seed", range(4))
def test_recipes_of_several_masks_have_the_risk_that_loops_over_the_records_give(seed: int, rule: Any) -> None:
    g, done = random.Random(f"{seed} {rule}"), 0
    while done < 4:
        data, w = people(g), g.choice(WEIGHTS)
        try:
            outcome = recipe(g).apply(data, Draws(g.randint(0, 999)))
            score = GlobalRisk(kind="weighted", weights=w, missing=rule).score(outcome)
        except (DataError, NotApplicable):  # a mask that such a short file does not allow, or nobody released
            continue
        done += 1
        original, masked, align = records(outcome.original), records(outcome.masked), aligned(outcome)
        sides = [[[r[k] for r in side] for k in range(5)] for side in zip(*[
            (original[a], m) for a, m in zip(align, masked, strict=True) if a >= 0
        ], strict=True)] or [[[]] * 5] * 2  # fmt: skip
        before, after = sides
        factors = [
            interval_factor(before[0], after[0]),
            changed_share(before[1], after[1]),
            zip_factor(before[2], after[2], 4),
            tree_factor(before[3], after[3], ABOVE),
            interval_factor(before[4], after[4]),
        ]
        assert [score.details[f"change of {key}"] for key in KEYS] == pytest.approx(factors, abs=1e-12)
        twin = every_subset(
            original, masked, align, factors, lambda i, j, w=w: float(w.at(np.array([i]), np.array([j]))[0]), rule
        )
        table = subset_risks(outcome, weights=w, missing=rule).set_index("keys")["DR_W"]
        for subset, value in twin.items():
            assert table[", ".join(KEYS[k] for k in subset)] == pytest.approx(value, abs=1e-12)
        assert score.value == pytest.approx(max(twin.values()), abs=1e-12)


# -- ordered keys that are released as labels


def ages(values: list[Any], **changes: Any) -> Microdata:
    kind: Any = "str" if any(isinstance(v, str) for v in values) else "Int64"
    return Microdata(pd.DataFrame({"age": pd.array(values, kind)}), Schema((Attribute("age", "key", **changes),)))


BANDS = IntervalHierarchy.from_widths([10, 50], bottom=0, top=100)


@pytest.mark.parametrize("scale", ["ordered", "unordered"])
@pytest.mark.parametrize("hierarchy", [None, BANDS])
def test_intervals_that_hold_the_true_value_turn_no_pair_round(scale: str, hierarchy: Any) -> None:
    """As microaggregation does not: what recoding protects shows in the classes alone, here 2 of 4 records."""
    original = ages([31, 37, 42, 48], hierarchy=hierarchy)
    released = ages(["[30, 40)", "[30, 40)", "[40, 50)", "[40, 50)"], scale=scale)
    score = GlobalRisk().score(Release.of(original, released, "rows"))
    assert score.details["change of age"] == 0
    assert score.value == 2 / 4


def test_values_and_intervals_side_by_side_are_compared_by_what_lies_wholly_above() -> None:
    """Of the 6 pairs only (37, 42) turned round: 45 is above [30, 40); 33 is in [30, 40), and < 60 says nothing of any."""
    original, released = ages([33, 37, 42, 80]), ages(["33", "45", "[30, 40)", "< 60"])
    score = GlobalRisk().score(Release.of(original, released, "rows"))
    assert score.details["change of age"] == pytest.approx(4 * 1 / (4 * 3))


def test_the_same_released_file_has_the_same_risk_however_it_was_made() -> None:
    from sfumato.datasets import billing

    one, other = (
        m.apply(billing(200), Draws(1)) for m in (Generalise(("age",), 2), RecodeRare(("age",), least=10_000))
    )
    assert records_of(one) == records_of(other)
    assert GlobalRisk().score(one).value == GlobalRisk().score(other).value


def records_of(outcome: Release) -> list[Any]:
    codes, values = outcome.masked.batch(["age"]).column("age").codes
    return [values[c] for c in codes]


def test_labels_of_a_tree_over_ordered_text_are_compared_by_the_numbers_below_them() -> None:
    values = {"none": 0, "primary": 1, "bachelor": 3, "master": 4}
    tree = TreeHierarchy.from_tree({"school": ["none", "primary"], "degree": ["bachelor", "master"]})

    def degrees(labels: list[str], **changes: Any) -> Microdata:
        return Microdata(pd.DataFrame({"level": labels}), Schema((Attribute("level", "key", **changes),)))

    original = degrees(["none", "primary", "bachelor", "master"], values=values, hierarchy=tree)
    kept = degrees(["school", "school", "degree", "degree"], scale="unordered")
    turned = degrees(["degree", "school", "school", "master"], scale="unordered")
    assert GlobalRisk().score(Release.of(original, kept, "rows")).details["change of level"] == 0
    # "none" came to lie above two others: 2 of 6 pairs
    assert GlobalRisk().score(Release.of(original, turned, "rows")).details["change of level"] == pytest.approx(
        4 * 2 / 12
    )


def test_an_ordered_key_released_as_other_text_is_refused_not_taken_for_useless() -> None:
    original, released = ages([31, 42]), ages(["thirties", "forties"], scale="unordered")
    with pytest.raises(DataError, match="released as text whose order is not known") as caught:
        GlobalRisk().score(Release.of(original, released, "rows"))
    assert "thirties" not in str(caught.value)


def test_a_recoded_key_without_order_or_hierarchy_is_pointed_out() -> None:
    def places(labels: list[str]) -> Microdata:
        return Microdata(pd.DataFrame({"city": labels}), Schema((Attribute("city", "key", "unordered"),)))

    recoded = GlobalRisk().score(Release.of(places(["Rome", "Oslo"]), places(["Italy", "Norway"]), "rows"))
    swapped = GlobalRisk().score(Release.of(places(["Rome", "Oslo"]), places(["Oslo", "Rome"]), "rows"))
    assert recoded.words.endswith(
        "no released value of city is an original one: if it was recoded, give it a hierarchy"
    )
    assert "recoded" not in swapped.words


def test_ages_known_in_intervals_meet_in_their_hierarchy_where_the_intervals_do() -> None:
    """To within 10 years, 12 and 31 are [10, 20) and [30, 40): they meet in [0, 50), on level 2 of 3; 31 and 38 are the same."""
    from sfumato import Snooper

    before, after = (
        ages(values, scale="partially ordered", hierarchy=BANDS) for values in ([12, 31, 60], [31, 38, 12])
    )
    outcome = Release.of(before, after, "rows")
    assert GlobalRisk().score(outcome).details["change of age"] == pytest.approx((2 / 3 + 1 / 3 + 1) / 3)
    coarse = GlobalRisk().score(outcome, Snooper(precision={"age": 10}))
    assert coarse.details["change of age"] == pytest.approx((2 / 3 + 0 + 1) / 3)


# -- what it says where nobody is found


def test_one_record_is_one_record_in_words() -> None:
    one, two = ages([31]), ages([31, 31])
    assert GlobalRisk().score(Release.of(one, one, "rows")).words == "1 of 1 record is expected to be found by age"
    assert GlobalRisk().score(Release.of(two, two, "rows")).words == "1 of 2 records is expected to be found by age"


@pytest.mark.parametrize(
    ("kind", "align", "says"),
    [
        ("min", [0, 1, 2, 3], "no record is unique in both files"),
        ("max", [-1, -1, -1, -1], "none of the original records was released"),
    ],
)
def test_where_nobody_is_found_the_reason_is_the_true_one(kind: Any, align: list[int], says: str) -> None:
    """Not that keys were changed: they were not."""
    data = ages([31, 31, 42, 42])
    score = GlobalRisk(kind=kind).score(Release.of(data, data, align=np.array(align)))
    assert score.value == 0
    assert says in score.words
    assert "changed" not in score.words
