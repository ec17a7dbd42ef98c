"""SUDA: minimal sample uniques against their definition, and the scores of published examples."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import as_it_is, microdata
from small_files import of_keys as file

from sfumato import Draws, Release, Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import NotApplicable
from sfumato.kernels.uniques import minimal_uniques
from sfumato.masks import Sample
from sfumato.risk import SUDA
from sfumato.risk.special_uniques import points
from sfumato.schema import Attribute, Schema

Row = tuple[int | None, ...]
RULES = ("wildcard", "value", "ignored")


def scores_of(measure: SUDA, data: Microdata, snooper: Snooper | None = None) -> list[float]:
    records = measure.score(as_it_is(data), snooper).records
    assert records is not None
    return records.tolist()


def minimal_sets(rows: list[Row], most: int, rule: str) -> list[list[tuple[int, ...]] | None]:
    """The slow twin: every set of keys of every record, compared with every other record, as the definition says."""
    taking_part = [rule != "ignored" or None not in row for row in rows]

    def alike(a: Row, b: Row, places: tuple[int, ...]) -> bool:
        either = (None,) if rule == "wildcard" else ()
        return all(a[j] == b[j] or a[j] in either or b[j] in either for j in places)

    out: list[list[tuple[int, ...]] | None] = []
    for i, row in enumerate(rows):
        found: list[tuple[int, ...]] = []
        for k in range(1, most + 1):
            for places in combinations(range(len(row)), k):
                if rule == "wildcard" and any(row[j] is None for j in places):
                    continue
                others = (rows[o] for o in range(len(rows)) if o != i and taking_part[o])
                smaller = any(set(s) <= set(places) for s in found)
                if not smaller and not any(alike(row, other, places) for other in others):
                    found.append(places)
        out.append(found if taking_part[i] else None)
    return out


@st.composite
def files(draw: st.DrawFn) -> list[Row]:
    keys, most = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    value = st.one_of(st.integers(0, most), st.integers(0, most), st.none())
    return draw(st.lists(st.tuples(*[value] * keys), min_size=1, max_size=14))


@given(files(), st.integers(1, 5), st.sampled_from(RULES))
def test_minimal_uniques_and_scores_are_those_of_the_definition(rows: list[Row], most: int, rule: Any) -> None:
    keys = len(rows[0])
    most = min(most, keys)
    expected = minimal_sets(rows, most, rule)
    measure = SUDA(max_size=most, missing=rule)
    if all(sets is None for sets in expected):
        with pytest.raises(NotApplicable, match="left out"):
            measure.score(as_it_is(file(rows)))
        return
    score = measure.score(as_it_is(file(rows)))
    worth = [np.prod([keys - i for i in range(k, min(most, keys - 1) + 1)]) for k in range(1, most + 1)]
    sums = [np.nan if sets is None else sum(worth[len(s) - 1] for s in sets) for sets in expected]
    np.testing.assert_array_equal(score.records, sums)
    counted = [sets for sets in expected if sets is not None]
    assert score.value == sum(bool(sets) for sets in counted) / len(counted)
    for k in range(1, most + 1):
        what = "1 key" if k == 1 else f"{k} keys"
        assert score.details[f"minimal uniques of {what}"] == sum(len(s) == k for sets in counted for s in sets)
        smallest = sum(min(map(len, sets), default=0) == k for sets in counted)
        assert score.details[f"records whose smallest minimal unique has {what}"] == smallest
    total = np.nansum(sums)
    for j in range(keys):
        part = sum(worth[len(s) - 1] for sets in counted for s in sets if j in s)
        assert score.groups[f"key{j}"] == pytest.approx(100 * part / total if total else 0)
    by_value = measure.contributions(as_it_is(file(rows)))
    for (key, value), part in by_value.set_index(["key", "value"])["contribution"].items():
        j = int(key[3:])
        here = [
            s for s, row in zip(expected, rows, strict=True) if s and str(row[j]) == value.replace("missing", "None")
        ]
        assert part == pytest.approx(100 * sum(worth[len(s) - 1] for sets in here for s in sets if j in s) / total)
    for j in range(keys):
        assert by_value.loc[by_value["key"] == f"key{j}", "contribution"].sum() == pytest.approx(
            score.groups[f"key{j}"]
        )


@pytest.mark.parametrize("wildcard", [False, True])
@pytest.mark.parametrize("bits", [0, 2**31], ids=["by list", "by bits"])
def test_the_walk_finds_what_a_look_at_every_set_finds_on_larger_files(
    wildcard: bool, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.kernels.uniques._MOST_BITS", bits)
    g = np.random.default_rng(5)
    for keys, most in ((9, 4), (12, 3), (7, 7)):
        codes = g.integers(0, [2, 3, 4, 5, 2, 3, 9, 30, 3, 2, 4, 3][:keys], (400, keys)).astype(np.int32)
        codes[g.random(codes.shape) < 0.02] = -1
        codes, sizes = np.unique(codes, axis=0, return_counts=True)
        found = {
            (r, s) for r, s in zip(*(a.tolist() for a in minimal_uniques(codes, sizes, most, wildcard)), strict=True)
        }
        unique: dict[int, list[int]] = {i: [] for i in range(len(codes))}
        for k in range(1, most + 1):
            for places in combinations(range(keys), k):
                part, bits = codes[:, places], sum(1 << j for j in places)
                alike = part[:, None] == part[None]
                if wildcard:
                    alike |= (part[:, None] < 0) | (part[None] < 0)
                counts = alike.all(axis=2) @ sizes
                for row in np.flatnonzero((counts == 1) & ((part >= 0).all(axis=1) | (not wildcard))).tolist():
                    if all(smaller & ~bits for smaller in unique[row]):
                        unique[row].append(bits)
        assert found == {(row, bits) for row, sets in unique.items() for bits in sets}


# Published examples


GUIDE = """Urban;Female;Secondary incomplete;Employed
Urban;Female;Secondary incomplete;Employed
Urban;Female;Primary incomplete;Non-LF
Urban;Male;Secondary complete;Employed
Rural;Female;Secondary complete;Unemployed
Urban;Male;Secondary complete;Employed
Urban;Female;Primary complete;Non-LF
Urban;Male;Post-secondary;Unemployed
Urban;Female;Secondary incomplete;Non-LF
Urban;Female;Secondary incomplete;Non-LF"""


def guide() -> Microdata:
    """Benschop, Machingauta and Welch, Statistical Disclosure Control: A Practice Guide, tables 4.4 and 4.5."""
    columns = zip(*(line.split(";") for line in GUIDE.splitlines()), strict=True)
    return microdata(**dict(zip(("residence", "gender", "education", "labour"), map(list, columns), strict=True)))


def test_the_practice_guide_s_suda_scores() -> None:
    """Table 4.5, with minimal uniques of up to three of the four keys."""
    assert scores_of(SUDA(max_size=3), guide()) == [0, 0, 6, 0, 12, 0, 6, 10, 0, 0]


def test_the_practice_guide_s_dis_suda_scores_come_from_ihsn_s_points() -> None:
    """Table 4.5 prints DIS-SUDA scores, for a sampling fraction of 1 %; the scores behind them are in sdcMicro issue 227."""
    ihsn = SUDA(max_size=4, scores="ihsn")
    assert scores_of(ihsn, guide()) == [0, 0, 1.75, 0, 3.25, 0, 1.75, 2.75, 0, 0]
    dis = scores_of(ihsn.with_(summary="dis", fraction=0.01), guide())
    assert np.round(dis, 4).tolist() == [0, 0, 0.0051, 0, 0.0107, 0, 0.0051, 0.0088, 0, 0]


def test_templ_s_scores() -> None:
    """Templ, Statistical Disclosure Control for Microdata (2017), section on SUDA; printed in sdcMicro issue 263."""
    data = microdata(
        age=["20s"] * 7 + ["60s"],
        gender=["male"] * 4 + ["female"] * 3 + ["male"],
        income=["50k+"] * 2 + ["50k-"] * 6,
        education=["highschool"] * 4 + ["university", "highschool", "middleschool", "university"],
    )
    assert scores_of(SUDA(max_size=4), data) == [0, 0, 0, 0, 4, 2, 6, 8]
    assert scores_of(SUDA(max_size=4, scores="ihsn"), data)[-1] == 2.25


def test_contributions_of_the_keys_worked_out_by_hand() -> None:
    """R. Bild's example, sdcMicro issue 275: five minimal uniques worth 2 + 2 + 2 + 1 + 1."""
    data = microdata(a=[2, 1, 1], b=[0, 3, 0], c=[0, 6, 0])
    score = SUDA(max_size=3).score(as_it_is(data))
    assert score.groups == {"a": 50.0, "b": 37.5, "c": 37.5}
    frame = SUDA(max_size=3).contributions(as_it_is(data)).set_index(["key", "value"])["contribution"]
    assert frame[("a", "1")] == frame[("a", "2")] == 25
    assert frame[("c", "6")] == 25
    assert frame[("c", "0")] == 12.5


def test_seven_records_scored_by_hand() -> None:
    """V. Bansal's example, sdcMicro issue 356."""
    rows = ("AXP", "BXQ", "AYQ", "CZR", "BYR", "AXP", "BZQ")
    data = microdata(**{f"var{j + 1}": [row[j] for row in rows] for j in range(3)})
    assert scores_of(SUDA(max_size=3), data) == [0, 2, 3, 3, 3, 0, 2]


# Scores


def test_the_largest_size_looked_for_may_be_all_keys_or_all_but_one() -> None:
    """∏ (p - i) up to i = p would be 0 for every set."""
    assert points(4, 4, "elliot").tolist() == [6, 2, 1, 1]
    assert points(4, 3, "elliot").tolist() == [6, 2, 1]
    assert points(8, 2, "elliot").tolist() == [42, 6]
    assert points(1, 1, "elliot").tolist() == [1]


def weighted(n: int = 60) -> Microdata:
    g = np.random.default_rng(2)
    columns = {f"k{j}": g.integers(0, 2 + j, n) for j in range(5)}
    schema = Schema((*(Attribute(name, "key", "unordered") for name in columns), Attribute("w", "weight")))  # type: ignore[arg-type]
    return Microdata(pa.table({**columns, "w": np.full(n, 20.0)}), schema)


def test_dis_is_what_taking_out_each_record_and_putting_it_back_by_chance_gives() -> None:
    data, fraction = weighted(), 0.05
    rows = list(zip(*(data.numbers(f"k{j}").tolist() for j in range(5)), strict=True))
    right = wrong = 0.0
    for i, row in enumerate(rows):
        others = sum(o != i and other == row for o, other in enumerate(rows))
        right += fraction * (others == 0)  # put back: it matches itself and the others
        wrong += (1 - fraction) * (others == 1)
    score = SUDA(summary="dis").score(as_it_is(data))
    assert score.details["DIS of the file"] == pytest.approx(right / (right + wrong))
    assert score.details["sampling fraction"] == pytest.approx(fraction)
    low, high = score.interval or (0.0, 0.0)
    assert 0 < low < score.value < high < 1


def test_dis_suda_scores_rise_with_suda_scores_and_have_the_file_s_dis_as_harmonic_mean() -> None:
    data = weighted()
    suda, dis = (np.array(scores_of(SUDA(max_size=5, summary=s), data)) for s in ("share", "dis"))  # type: ignore[arg-type]
    some = suda > 0
    assert 3 < some.sum() < len(suda)
    assert (dis[~some] == 0).all()
    assert (np.diff(dis[some][np.argsort(suda[some])]) >= 0).all()
    file = SUDA(max_size=5, summary="dis").score(as_it_is(data)).details["DIS of the file"]
    assert 1 / np.mean(1 / dis[some]) == pytest.approx(file)
    odds = dis[some] / (1 - dis[some])
    assert np.ptp(odds / suda[some] ** 1.15) < 1e-12  # Q = 1 + (8 - 5) / 20


def test_a_whole_population_makes_every_unique_match_right() -> None:
    assert SUDA(summary="dis", fraction=1).score(as_it_is(guide())).value == 1


# The file


def test_who_knows_numbers_only_roughly_finds_fewer_uniques_and_values_are_named_by_interval() -> None:
    data = microdata({"age": {"scale": "ordered"}}, age=[20, 22, 23, 61], sex=["f", "f", "m", "m"])
    vague = Snooper(precision={"age": 20})
    assert scores_of(SUDA(), data) == [1, 1, 1, 1]
    assert scores_of(SUDA(), data, vague) == [0, 0, 1, 1]
    named = SUDA().contributions(as_it_is(data), vague)
    assert set(zip(named["key"], named["value"], strict=True)) == {
        ("age", "20 to 40"),
        ("age", "60 to 80"),
        ("sex", "m"),
    }


def test_records_that_are_not_released_have_no_score() -> None:
    release = Sample(fraction=0.5).apply(weighted(), Draws(1))
    score = SUDA().score(release)
    assert score.records is not None
    assert np.isnan(score.records).sum() == len(weighted()) - len(release.masked)


def test_the_same_in_duckdb() -> None:
    data = weighted()
    connection = duckdb.connect()
    connection.from_arrow(data.batch().rows.to_arrow()).create("people")
    there = Microdata(connection.table("people"), data.schema)
    for measure in (SUDA(max_size=5), SUDA(summary="dis")):
        one, other = measure.score(as_it_is(data)), measure.score(as_it_is(there))
        assert (one.value, dict(one.details), dict(one.groups)) == (
            other.value,
            dict(other.details),
            dict(other.groups),
        )
        np.testing.assert_array_equal(one.records, other.records)


def test_a_file_without_uniques_scores_zero_and_a_lone_record_is_unique_on_every_key() -> None:
    pairs = microdata(a=[1, 1, 2, 2], b=[3, 3, 4, 4])
    score = SUDA(summary="dis", fraction=0.1).score(as_it_is(pairs))
    assert (score.value, score.interval) == (0, (0, 0))
    assert score.groups == {"a": 0, "b": 0}
    assert SUDA().contributions(as_it_is(pairs)).empty
    alone = SUDA().score(as_it_is(microdata(a=[1], b=[2])))
    assert (alone.value, alone.details["minimal uniques of 1 key"]) == (1, 2)


def test_what_cannot_be_scored_is_refused_in_a_sentence() -> None:
    with pytest.raises(NotApplicable, match="fraction="):
        SUDA(summary="dis").score(as_it_is(guide()))
    many = microdata(**{f"k{j}": [0, 1] for j in range(30)})
    with pytest.raises(NotApplicable, match="lower max_size"):
        SUDA(max_size=15).score(as_it_is(many))
    with pytest.raises(NotApplicable, match="27 keys"):
        SUDA(summary="dis", fraction=0.1).score(as_it_is(many))
    with pytest.raises(NotApplicable, match="no records"):
        SUDA().score(as_it_is(microdata(a=pa.array([], pa.int64()))))
    with pytest.raises(NotApplicable, match="left out"):
        SUDA(missing="ignored").score(as_it_is(microdata(a=pa.array([None, None], pa.int64()))))


def test_a_release_without_alignment_has_a_score_but_no_vector() -> None:
    score = SUDA().score(Release.of(guide(), guide()))
    assert score.value == 0.4
    assert score.records is None
