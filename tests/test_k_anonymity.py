"""k-anonymity: definitions, published examples, and keys that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from francdat import FRANCDAT
from small_files import as_it_is

from sfumato import Draws, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.datasets import five
from sfumato.errors import NotApplicable, ParameterError, SfumatoError
from sfumato.masks import Sample
from sfumato.risk import AttributeRisk, KAnonymity
from sfumato.schema import Attribute, Schema


def file(rule_keys: int = 2, **columns: Any) -> Microdata:
    schema = Schema(
        tuple(Attribute(n, "key" if i < rule_keys else "confidential", "unordered") for i, n in enumerate(columns))
    )  # type: ignore[arg-type]
    return Microdata(pa.table(columns), schema)


def test_the_inpatients_of_the_diversity_paper_are_4_anonymous() -> None:
    """Machanavajjhala et al. 2007, Figure 2: zip code, age, nationality of twelve inpatients in three classes of four."""
    data = file(
        3,
        zip=["130**"] * 4 + ["1485*"] * 4 + ["130**"] * 4,
        age=["<30"] * 4 + ["≥40"] * 4 + ["3*"] * 4,
        nation=["*"] * 12,
    )
    assert KAnonymity(k=4).score(as_it_is(data)).value == 0
    score = KAnonymity(k=5).score(as_it_is(data))
    assert (score.value, score.details["smallest class"], score.details["classes"]) == (1, 4, 3)


def test_missing_keys_follow_the_rule_that_is_named() -> None:
    data = file(x=["a", "a", None, "b"], y=[1, 1, 1, None])
    # wildcard: ? 1 matches a 1 (twice) and b ?; b ? matches ? 1 and itself
    assert KAnonymity(k=3).score(as_it_is(data)).records.tolist() == [3, 3, 4, 2]  # type: ignore[union-attr]
    assert KAnonymity(k=3, missing="value").score(as_it_is(data)).records.tolist() == [2, 2, 1, 1]  # type: ignore[union-attr]
    ignored = KAnonymity(k=2, missing="ignored").score(as_it_is(data))
    assert ignored.value == 0
    assert ignored.details["records left out"] == 2
    np.testing.assert_array_equal(ignored.records, [2, 2, np.nan, np.nan])  # type: ignore[arg-type]


GAPS = ((2, "Key3"), (3, "Key1"), (3, "Key2"), (4, "Key4"), (5, "Key1"))
"""The cells that sdcMicro's example for `alpha` blanks in francdat."""


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_francdat_with_gaps_has_the_counts_that_alpha_gives_by_hand(alpha: float) -> None:
    columns: dict[str, list[Any]] = {name: list(FRANCDAT[name]) for name in ("Key1", "Key2", "Key3", "Key4")}
    for row, name in GAPS:
        columns[name][row] = None
    score = KAnonymity(k=2, alpha=alpha).score(as_it_is(file(4, **columns)))
    a = alpha  # the third matches two records with (1, 2, 5, 1) and one with (1, 2, 1, 1), which are complete
    by_hand = [2 + a, 1 + a, 4, 2 + a, 1 + 2 * a, 1 + a, 1 + a, 2 + a]
    np.testing.assert_allclose(score.records, by_hand)  # type: ignore[arg-type]
    assert score.value == np.mean(np.array(by_hand) < 2)
    assert ("counts" in score.variant) == (alpha < 1)


@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_what_each_other_record_with_a_missing_key_counts_as_every_pair_compared_says(seed: int) -> None:
    g = np.random.default_rng(400 + seed)
    rows = [tuple(None if x == 3 else int(x) for x in row) for row in g.integers(0, 4, (60, 3))]
    data = file(3, **{f"k{j}": pa.array([r[j] for r in rows], pa.int64()) for j in range(3)})

    def counts(a: tuple[Any, ...], b: tuple[Any, ...], alpha: float) -> float:
        if a == b:
            return 1
        match = all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))
        return match * (alpha if None in b else 1)

    for alpha in (0.0, 0.3, 1.0):
        score = KAnonymity(k=3, alpha=alpha).score(as_it_is(data))
        expected = [sum(counts(a, b, alpha) for b in rows) for a in rows]
        np.testing.assert_allclose(score.records, expected, atol=1e-8)  # type: ignore[arg-type]
        assert score.value == np.mean(np.round(expected, 9) < 3)


def test_alpha_is_refused_where_no_missing_key_matches_anything() -> None:
    with pytest.raises(ParameterError, match="alpha of k_anonymity is for missing='wildcard'"):
        KAnonymity(missing="value", alpha=0.5)


def test_a_text_key_is_not_one_class() -> None:
    """A peer once counted f = n for everyone when a key was text."""
    data = file(x=["one", "two", "two"], y=["u", "u", "u"])
    assert KAnonymity(k=2).score(as_it_is(data)).records.tolist() == [1, 2, 2]  # type: ignore[union-attr]


def test_precision_makes_the_snooper_see_less() -> None:
    scores = [
        KAnonymity(k=2).score(as_it_is(five()), Snooper(keys=("sex", "age"), precision={"age": w} if w else {})).value
        for w in (0, 20, 200)
    ]
    assert scores == [1, 3 / 5, 0]


def test_a_sample_is_counted_as_it_is_released() -> None:
    data = file(x=["a"] * 50, y=[1] * 50)
    release = Sample(size=10).apply(data, Draws(1))
    score = KAnonymity(k=11).score(release)
    assert score.details["smallest class"] == 10
    assert score.records is not None
    assert np.isnan(score.records).sum() == 40


REFUSALS: dict[str, tuple[Snooper, str]] = {
    "unknown": (Snooper(keys=("sx",)), "key 'sx' is not in the released file. Did you mean 'sex'"),
    "precision of another column": (Snooper(precision={"rent": 5}), "key 'rent' is not in the snooper's keys"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_keys_that_cannot_be_used_are_refused_in_a_sentence(case: str) -> None:
    snooper, says = REFUSALS[case]
    with pytest.raises(SfumatoError, match=says):
        KAnonymity().score(as_it_is(five()), snooper)


def test_no_keys_at_all_is_a_sentence() -> None:
    data = Microdata(pa.table({"x": [1]}), Schema((Attribute("x", "confidential"),)))  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="there are no keys"):
        KAnonymity().score(as_it_is(data))


def test_a_key_that_is_not_released_is_a_sentence() -> None:
    data = five()
    with pytest.raises(NotApplicable, match="key 'age' is not in the released file"):
        KAnonymity().score(Release.of(data, data.local([n for n in data.schema.names() if n != "age"])))


def test_nobody_left_is_a_sentence() -> None:
    data = file(x=[None, "a"], y=["b", None])
    with pytest.raises(NotApplicable, match="every record has a missing key"):
        KAnonymity(missing="ignored").score(as_it_is(data))
    with pytest.raises(NotApplicable, match="no records"):
        KAnonymity().score(
            as_it_is(Microdata(pa.table({"x": pa.array([], pa.string()), "y": pa.array([], pa.string())}), data.schema))
        )


def test_a_file_of_another_length_still_has_its_own_classes() -> None:
    """Without alignment the counts of the release still hold, and what needs alignment says so."""
    data = five()
    loose = Release.of(data, data.take(np.arange(3)))
    score = KAnonymity(k=2).score(loose)
    assert score.details["records below k"] == 3
    assert score.records is None
    with pytest.raises(NotApplicable, match="which released record came from which"):
        AttributeRisk("salary").score(loose)
