"""Records set aside before masking: drawn at random, whole households, and nothing else is taken for them."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from small_files import amounts, microdata

from sfumato.contract import DirectMeasure, Draws, Holdout, Release, Snooper, hold_out
from sfumato.data.microdata import Microdata
from sfumato.datasets import census, teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import KimNoise
from sfumato.risk import DCR, IMS, Inference, LDiversity, Linkability, Membership, SinglingOut


def ids(data: Microdata) -> list[int]:
    return data.batch([]).ids.tolist()


def test_every_record_is_on_one_side_with_its_own_id_and_values() -> None:
    data = teachers(301)
    kept, held = hold_out(data, 0.3, Draws(1))
    assert len(held) == 91  # the share is rounded up
    assert sorted(ids(kept) + ids(held)) == ids(data)
    for part in (kept, held):
        np.testing.assert_array_equal(part.numbers("salary"), data.numbers("salary")[ids(part)])
        assert part.schema == data.schema


def test_the_same_draws_give_the_same_split_and_others_another() -> None:
    data = teachers(200)
    one, two, other = (hold_out(data, 0.5, Draws(seed))[1] for seed in (1, 1, 2))
    assert ids(one) == ids(two) != ids(other)


def test_every_record_is_equally_likely_to_be_set_aside() -> None:
    data = teachers(40)
    counts = np.zeros(40)
    for seed in range(600):
        counts[ids(hold_out(data, 0.25, Draws(seed))[1])] += 1
    assert counts.sum() == 600 * 10
    z = (counts - 150) / np.sqrt(600 * 0.25 * 0.75)
    assert np.abs(z).max() < 4


def test_households_stay_whole() -> None:
    data = census(2_000, 0.5).sample
    kept, held = hold_out(data, 0.5, Draws(3))
    homes = [set(part.batch(["household"]).column("household").codes[1]) for part in (kept, held)]
    assert not homes[0] & homes[1]
    assert len(data) / 2 <= len(held) <= len(data) / 2 + 12


def test_a_record_without_a_household_stands_for_itself() -> None:
    facts = {"home": {"role": "household"}}
    data = microdata(facts, home=pa.array([1, 1, 1, None, None, None]), x=list("abcdef"))
    sizes = {len(hold_out(data, 0.5, Draws(seed))[1]) for seed in range(30)}
    assert sizes <= {3, 4, 5}
    assert all(len({i in ids(hold_out(data, 0.5, Draws(s))[1]) for i in (0, 1, 2)}) == 1 for s in range(30))


def test_the_split_is_the_same_in_duckdb_and_stays_there() -> None:
    here = teachers(500)
    connection = duckdb.connect()
    connection.from_arrow(here.batch().rows.to_arrow()).create("people")
    there = Microdata(connection.table("people"), here.schema)
    for one, two in zip(hold_out(here, 0.4, Draws(5)), hold_out(there, 0.4, Draws(5)), strict=True):
        assert ids(one) == ids(two)
        assert one.digest() == two.digest()
        assert two.engine.name == "DuckDB" or two.engine.name != one.engine.name


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), "half", True])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ParameterError, match="above 0 and below 1"):
        hold_out(teachers(10), share, Draws(1))


def test_at_least_one_record_is_set_aside_and_never_all() -> None:
    data = teachers(10)
    assert [len(part) for part in hold_out(data, 1e-6, Draws(1))] == [9, 1]
    assert [len(part) for part in hold_out(data, 0.999, Draws(1))] == [1, 9]
    with pytest.raises(DataError, match="at least two records"):
        hold_out(teachers(10).take(np.array([0])), 0.5, Draws(1))
    one_home = microdata({"home": {"role": "household"}}, home=[7, 7], x=["a", "b"])
    with pytest.raises(DataError, match="at least two households"):
        hold_out(one_home, 0.5, Draws(1))


# -- into a release


def test_a_release_takes_its_holdout_and_is_otherwise_the_same() -> None:
    kept, held = hold_out(teachers(200), 0.5, Draws(1))
    made = KimNoise(lambda2=0.2).apply(kept, Draws(2))
    made.pair("salary")
    beside = made.with_holdout(held)
    assert beside.holdout is held
    assert beside.masked is made.masked
    assert made.holdout is None
    assert not beside.memory


def test_records_that_the_mask_has_seen_are_refused() -> None:
    data = teachers(200)
    _, held = hold_out(data, 0.5, Draws(1))
    with pytest.raises(DataError, match="100 records of the holdout are in the original as well"):
        KimNoise().apply(data, Draws(2)).with_holdout(held)


def test_one_record_that_the_mask_has_seen_is_told_in_the_singular() -> None:
    data = amounts(a=[1.0, 2.0])
    _, held = hold_out(data, 0.5, Draws(1))
    with pytest.raises(DataError, match="1 record of the holdout is in the original as well, so the mask has seen it"):
        KimNoise().apply(data, Draws(2)).with_holdout(held)


def test_the_original_read_again_is_no_holdout() -> None:
    """Its rows get other numbers, but they are the same people: an exact copy would get a perfect score."""
    data, again, others = teachers(80, seed=1), teachers(80, seed=1), teachers(80, seed=2)
    made = KimNoise().apply(data, Draws(1))
    with pytest.raises(DataError, match="the holdout is the original itself"):
        made.with_holdout(Holdout.of(again))
    assert made.with_holdout(Holdout.of(others)).holdout is not None
    kept, held = hold_out(microdata(c=["a", "a"]), 0.5, Draws(1))  # two people who are alike are two people
    assert Release.of(kept, kept).with_holdout(held).holdout is held


def test_masked_records_are_refused() -> None:
    kept, held = hold_out(teachers(200), 0.5, Draws(1))
    made = KimNoise().apply(kept, Draws(2))
    for wrong in (KimNoise().apply(held, Draws(2)).masked, KimNoise().apply(held, Draws(2)), made.masked, None):
        with pytest.raises(DataError, match="set aside before masking"):
            made.with_holdout(wrong)  # type: ignore[arg-type]


def test_other_columns_are_refused() -> None:
    kept, held = hold_out(amounts(a=[1.0, 2.0, 3.0], b=[1.0, 2.0, 3.0]), 0.3, Draws(1))
    made = KimNoise(columns=("a",)).apply(kept, Draws(1))
    with pytest.raises(DataError, match="'b' is not in both"):
        made.with_holdout(Holdout.of(held.local(["a"])))
    with pytest.raises(DataError, match="'b' is not in both, or holds another kind"):
        made.with_holdout(Holdout.of(amounts(a=[1.0], b=["x"])))


def test_a_holdout_needs_no_identifiers() -> None:
    data, others = teachers(50, seed=1), teachers(50, seed=2)
    without = others.local(set(others.schema.names()) - {"teacher_id"})
    assert KimNoise().apply(data, Draws(1)).with_holdout(Holdout.of(without)).holdout is not None


def test_another_file_of_people_can_be_the_holdout_though_its_rows_have_the_same_numbers() -> None:
    data, others = teachers(100, seed=1), teachers(80, seed=2)
    made = KimNoise().apply(data, Draws(1)).with_holdout(Holdout.of(others))
    assert made.holdout is not None
    np.testing.assert_array_equal(made.holdout.numbers("salary"), others.numbers("salary"))
    assert not set(ids(made.holdout)) & set(ids(data))


def test_a_measure_that_needs_a_holdout_says_so() -> None:
    with pytest.raises(NotApplicable, match="needs records set aside before masking"):
        DCR().score(KimNoise().apply(teachers(20), Draws(1)))


def test_an_empty_holdout_is_refused() -> None:
    data = teachers(20)
    nobody = Holdout.of(data.take(np.zeros(0, np.int64)))
    for measure in (DCR(), IMS()):
        with pytest.raises(NotApplicable, match="holdout has no records"):
            measure.score(Release.of(data, data).with_holdout(nobody))


def test_splitting_after_masking_gives_a_perfect_score_to_an_exact_copy() -> None:
    """The mistake that `with_holdout` refuses: both halves were seen by the mask, so neither is favoured."""
    data = teachers(600)
    part, rest = hold_out(data, 0.5, Draws(1))
    wrong = Release(part, (data,), holdout=rest, aligned=False)  # the release is a copy of everything
    right = Release.of(part, part).with_holdout(rest)
    assert abs(DCR().score(wrong).value) < 0.06
    assert DCR().score(right).value > 0.49


@pytest.mark.parametrize(
    "measure",
    [DCR(), IMS(using=("sex", "age")), Membership(), Membership(targets=40), SinglingOut(attacks=80),
     Linkability(attacks=80), Inference("salary", attacks=80), LDiversity(["occupation"])],
    ids=lambda m: m.name,
)  # fmt: skip
def test_records_are_told_in_the_order_of_their_ids_whatever_the_order_of_the_original(measure: DirectMeasure) -> None:
    kept, held = hold_out(census(300, 0.5).sample, 0.5, Draws(1))
    made = KimNoise(lambda2=0.1).apply(kept, Draws(2))
    rows = kept.batch().rows
    mixed = Microdata(kept.engine.hold(rows.take(np.random.default_rng(1).permutation(len(rows)))), kept.schema)
    sorted_file, mixed_file = made.with_holdout(held), Release(mixed, made.implicates).with_holdout(held)
    one, two = (measure.score(r, Snooper(keys=("sex", "marital"))) for r in (sorted_file, mixed_file))
    assert one.value == pytest.approx(two.value)
    assert one.records is not None
    np.testing.assert_allclose(one.records, two.records)
