"""Keyed noise: the same leaf, the same number; two levels of noise tell no more than the lower one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rta_tables import firms, microdata, table_of

from sfumato import Attribute, Microdata, Schema
from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.tables import RTA, Table
from sfumato.tables.rta.drawing import brownian, leaf_draws, leaf_ids, leaf_labels

N = 20_000
IDS = np.arange(N)


def test_the_path_has_the_covariance_of_brownian_motion() -> None:
    times = [0.3, 1.0, 2.5, 2.5000001, 77.09, 1e6]
    paths = np.array([brownian(np.full(N, t), IDS, Draws(3)) for t in times])
    for i, s in enumerate(times):
        for j, t in enumerate(times):
            # the sample covariance of N pairs has the standard error sqrt((st + min²)/N)
            error = np.sqrt((s * t + min(s, t) ** 2) / N)
            assert np.mean(paths[i] * paths[j]) == pytest.approx(min(s, t), abs=4.5 * error)
    from scipy.stats import kstest

    assert kstest(paths[4] / np.sqrt(77.09), "norm").pvalue > 1e-4


def test_a_second_publication_with_more_noise_tells_nothing_more() -> None:
    """y2 - y1 does not depend on y1, so that the better of both estimates is y1 alone; scaled noise would give t away."""
    low, high = brownian(np.full(N, 4.0), IDS, Draws(1)), brownian(np.full(N, 9.0), IDS, Draws(1))
    assert np.corrcoef(low, high - low)[0, 1] == pytest.approx(0, abs=4.5 / np.sqrt(N))
    best = np.linalg.lstsq(np.column_stack([high - low]), low, rcond=None)
    assert np.var(low - (high - low) * best[0][0]) == pytest.approx(4, rel=0.05)


def test_no_variance_no_noise_and_tiny_ones_work() -> None:
    noise = brownian(np.array([0.0, 1e-30, 1e-20, 1.0, 1e60]), np.arange(5), Draws(1))
    assert noise[0] == 0
    assert np.isfinite(noise).all()
    assert (noise[1:] != 0).all()
    with pytest.raises(ParameterError, match="not finite"):
        brownian(np.array([np.inf]), np.arange(1), Draws(1))


def test_noise_hangs_on_labels_and_not_on_order() -> None:
    frame = firms(200)
    one, two = table_of(frame), table_of(frame.sample(frac=1, random_state=3), "sector * region")
    first = dict(zip(leaf_labels(one.cells), leaf_ids(one), strict=True))
    second = dict(zip(leaf_labels(two.cells), leaf_ids(two), strict=True))
    assert first == second
    assert len(set(first.values())) == one.cells.leaves


def test_a_column_that_groups_another_does_not_change_the_noise() -> None:
    frame = firms(200)
    frame["zone"] = frame.region.map({"a": "n", "b": "n", "c": "s", "d": "s", "e": "s"})
    plain = table_of(frame, "region * sector")
    linked = Table.of(microdata(frame), "region * sector + zone * sector", "turnover", size="staff")
    assert set(leaf_ids(plain)) == set(leaf_ids(linked))


def test_variable_and_period_and_seed_change_the_noise() -> None:
    frame = firms(200)
    frame["costs"] = frame.turnover
    rta, draws = RTA(), Draws(5)
    base = rta.protect(table_of(frame), draws)
    again = rta.protect(table_of(frame.sample(frac=1, random_state=1)), Draws(5))
    assert np.array_equal(base.values, again.values)
    others = [
        rta.protect(Table.of(microdata(frame), "region * sector", "costs", size="staff"), draws),
        rta.with_(period="2025").protect(table_of(frame), draws),
        rta.protect(table_of(frame), Draws(6)),
    ]
    changed = base.variance > 1
    assert changed.sum() > 5
    for other in others:
        assert (other.values != base.values)[changed].mean() > 0.9


def test_streams_of_two_variables_are_independent() -> None:
    a = brownian(np.ones(N), IDS, leaf_draws(Draws(1), "turnover", "2024"))
    b = brownian(np.ones(N), IDS, leaf_draws(Draws(1), "turnover", "2025"))
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0, abs=4.5 / np.sqrt(N))


@pytest.mark.parametrize("named", [True, False])
def test_another_population_under_the_same_labels_has_other_noise_and_a_correction_has_the_same(named: bool) -> None:
    """With one noise for both, the difference of two tables would be the contribution of whoever is in one of them."""
    frame = firms(200)
    frame["owner"] = [f"firm {i}" for i in range(200)]
    schema = microdata(frame).schema if named else None

    def noise(part: object) -> dict[str, int]:
        table = Table.of(Microdata(part, schema), "region", "turnover")
        return dict(zip(leaf_labels(table.cells), leaf_ids(table).tolist(), strict=True))

    all_of_them, without = noise(frame), noise(frame[frame.index != 7])
    changed = {label for label in all_of_them if all_of_them[label] != without[label]}
    assert len(changed) == 1
    assert frame.region[7] in next(iter(changed))
    corrected = frame.assign(turnover=frame.turnover.where(frame.index != 7, 1.0))
    assert noise(corrected) == all_of_them
    assert noise(frame.sample(frac=1, random_state=1)) == all_of_them


def test_over_seeds_one_leaf_has_exactly_the_noise_that_was_asked_for() -> None:
    """Chi-square of 20 equally likely bins over 2,000 secret seeds, and of the increment between two variances."""
    from scipy.stats import chisquare, norm

    drawn = np.array([brownian(np.array([2.5, 77.09]), np.array([5, 5]), Draws(i)) for i in range(2000)])
    for sample in (drawn[:, 0] / np.sqrt(2.5), (drawn[:, 1] - drawn[:, 0]) / np.sqrt(77.09 - 2.5)):
        bins = np.bincount(np.floor(20 * norm.cdf(sample)).astype(int), minlength=20)
        assert chisquare(bins).pvalue > 1e-4
    assert np.corrcoef(drawn[:, 0], drawn[:, 1] - drawn[:, 0])[0, 1] == pytest.approx(0, abs=4.5 / np.sqrt(2000))


# -- which leaf is which


def ids_of(frame: pd.DataFrame, formula: str = "region * sector", schema: Schema | None = None) -> dict[str, int]:
    table = Table.of(Microdata(frame, schema or microdata(frame).schema), formula, "turnover")
    return dict(zip(leaf_labels(table.cells), leaf_ids(table).tolist(), strict=True))


@pytest.mark.parametrize("dtype", ["float64", "str", "object", "category", "Int64", "string"])
def test_contributors_and_labels_are_the_same_as_numbers_and_as_text(dtype: str) -> None:
    frame = firms(60, holdings=20)
    frame["region"] = frame.region.map(dict(zip("abcde", range(1, 6), strict=True)))
    schema = microdata(frame).schema.change("region", hierarchy=None)
    other = frame.astype({"owner": dtype, "region": dtype})
    assert ids_of(other, schema=schema) == ids_of(frame, schema=schema)


def test_a_table_with_a_hierarchy_and_one_without_it_have_the_same_noise() -> None:
    """Region e is a group of its own in the hierarchy; the label below counts."""
    frame = firms(100)
    schema = microdata(frame).schema
    assert ids_of(frame, schema=schema) == ids_of(frame, schema=schema.change("region", hierarchy=None))


def test_a_table_of_one_region_has_the_noise_that_the_region_has_in_the_table_of_all() -> None:
    frame = firms(100)
    every, one = ids_of(frame), ids_of(frame[frame.region == "b"])
    assert one
    assert one.items() <= every.items()


def test_two_populations_without_names_have_noise_of_their_own_even_where_each_has_one_record() -> None:
    """With one noise for both, the only firm of kind k in a region would take its noise off the only one of kind l."""
    frame = pd.DataFrame({
        "region": list("abcabc"), "kind": list("kkklll"), "turnover": [40.0, 52, 71, 38, 55, 69], "staff": [40.0] * 6,
    })  # fmt: skip
    schema = Schema(
        tuple(Attribute(n, role="other", scale="unordered" if n in ("region", "kind") else "ordered") for n in frame)
    )
    k, both = ids_of(frame[:3], "region", schema), ids_of(frame[3:], "region", schema)
    assert k.keys() == both.keys()
    assert not set(k.values()) & set(both.values())
    values = [
        RTA(variances="none", decimals=6).protect(
            Table.of(Microdata(part, schema), "region", "turnover", size="staff"), Draws(1)
        )
        for part in (frame[:3], frame[3:])
    ]
    noise = [p.values - p.original.value for p in values]  # type: ignore[union-attr]
    assert (np.abs(noise[0] - noise[1]) > 1e-3).all()
    assert ids_of(frame[:3][::-1], "region", schema) == k


def test_more_records_of_the_same_contributors_are_another_leaf() -> None:
    frame = pd.DataFrame({"region": list("aabb"), "owner": [1, 2, 1, 2], "turnover": [3.0, 4, 5, 6]})
    more = pd.concat([frame, frame[:1]])
    assert ids_of(frame, "region") != ids_of(more, "region")


def test_records_with_an_identifier_are_known_under_any_label() -> None:
    """The leaf is the set of its records: translated labels, or fewer dimensions, do not draw noise again to be averaged."""
    frame = firms(60).rename(columns={"owner": "nr"})
    schema = microdata(frame).schema.change("nr", role="identifier").change("region", hierarchy=None)
    known = set(ids_of(frame, schema=schema).values())
    translated = frame.assign(region="region " + frame.region, nr=frame.nr.astype(str)).sample(frac=1, random_state=1)
    assert set(ids_of(translated, schema=schema).values()) == known
    alone = set(ids_of(frame[frame.region == "a"], "sector", schema).values())
    assert alone <= known
    corrected = frame.assign(turnover=frame.turnover + 1)
    assert set(ids_of(corrected, schema=schema).values()) == known
    twice = frame.assign(nr=frame.nr // 2)  # tells nobody apart
    assert len(set(ids_of(twice, schema=schema).values())) == len(known)


@pytest.mark.parametrize("seed", [7, 12, 56])
def test_noise_that_comes_from_an_iteration_does_not_hang_on_the_order_of_anything(seed: int) -> None:
    """Few holdings in all leaves: the iteration stops early, and where it stops hung on the last bits of its sums."""
    frame = firms(40, seed, 3 + seed % 9, sign=True)
    rta = RTA(prior_cv=1.0, base_cv=0.05, variances="none", decimals=1)
    seen = []
    for rows, formula in (
        (frame, "region * sector"),
        (frame.sample(frac=1, random_state=1), "region * sector"),
        (frame.sample(frac=1, random_state=2).astype({"owner": "str"}), "sector * region"),
    ):
        published = rta.protect(table_of(rows, formula), Draws(1))
        cells = published.cells
        order = [cells.dimensions.index(d) for d in ("region", "sector")]
        seen.append(dict(zip(map(tuple, cells.labels[:, order].tolist()), published.values.tolist(), strict=True)))
    assert seen[0] == seen[1] == seen[2]
