"""Local recoding and Mondrian: classes counted by hand, what a record is released as, and solutions applied again."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import anonymity_twin as twin
import numpy as np
import pytest
from anonymity_twin import SALARY, adult
from small_files import column, microdata, release

from sfumato import Draws, Microdata, Release
from sfumato.contract import AtMost
from sfumato.errors import DataError, ParameterError
from sfumato.masks import FullDomainRecoding, LocalRecoding, Mondrian
from sfumato.risk import KMap, LDiversity, Reidentification, TCloseness
from sfumato.schema import TreeHierarchy
from sfumato.utility import Granularity


def classes(data: Microdata, names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column(data, n) for n in names), strict=True))


def true_of_its_record(made: Release, names: list[str]) -> bool:
    """Whether each released label stands above the record's own value in the hierarchy."""
    for name in names:
        tree = made.original.schema[name].hierarchy
        assert tree is not None
        before = dict(zip(made.original.batch([]).ids.tolist(), column(made.original, name), strict=True))
        pairs = {(before[i], label) for i, label in zip(made.align.tolist(), column(made.masked, name), strict=True)}
        if not all(label in tree.path(value) for value, label in pairs):
            return False
    return True


def test_local_recoding_of_adult_is_at_least_as_fine_as_published_and_suppresses_nobody() -> None:
    """PEERS.md: granularity .9409 with nothing suppressed, nine keys, k = 5."""
    made = release(LocalRecoding(k=5), adult())
    names = list(made.masked.schema.names())
    assert len(made.masked) == 30_162
    assert Granularity().score(made).value >= 0.9409
    assert min(classes(made.masked, names).values()) >= 5
    assert true_of_its_record(made, names)


@pytest.mark.parametrize("mask", [LocalRecoding, Mondrian])
def test_classes_hold_under_every_model_that_is_asked_for(mask: Any) -> None:
    names = ["education", "marital-status", "race", "sex"]
    data = adult((SALARY,)).take(np.arange(2_000)).local([*names, SALARY])
    models = [LDiversity([SALARY], l=2), TCloseness(SALARY, t=0.3), AtMost(Reidentification(), 0.05)]
    for chosen in ([], models[:1], models[1:2], models[2:], models):
        made = release(mask(k=4, models=chosen), data)
        found = classes(made.masked, names)
        assert min(found.values()) >= 4
        assert len(made.masked) == 2_000
        assert true_of_its_record(made, names)
        secrets: dict[Any, list[str]] = {}
        for key, value in zip(
            zip(*(column(made.masked, n) for n in names), strict=True), column(made.masked, SALARY), strict=True
        ):
            secrets.setdefault(key, []).append(value)
        whole = Counter(column(data, SALARY))
        if models[0] in chosen:
            assert all(len(set(v)) == 2 for v in secrets.values())
        if models[1] in chosen:
            assert all(twin.close(0.3)(v, whole, 2_000) for v in secrets.values())
        if models[2] in chosen:
            assert len(found) / 2_000 <= 0.05


def test_local_recoding_is_finer_than_the_best_full_domain_recoding() -> None:
    for seed in range(5):
        g = np.random.default_rng(seed)
        trees = [twin.random_tree(g, int(v), int(h)) for v, h in ((6, 3), (4, 2), (5, 3))]
        data = twin.people([tuple(f"v{g.integers(0, len(t))}" for t in trees) for _ in range(80)], trees, ["s"] * 80)
        local, full = (
            Granularity().score(release(m, data)).value for m in (LocalRecoding(k=3), FullDomainRecoding(k=3))
        )
        assert local >= full


@pytest.mark.parametrize("mask", [LocalRecoding(k=5), Mondrian(k=5), Mondrian(k=5, cuts="relaxed")])
def test_the_score_of_a_solution_is_the_granularity_of_its_release(mask: Any) -> None:
    data = adult().take(np.arange(3_000))
    fitted = mask.fit(data, Draws(1))
    assert math.isclose(fitted.solution.score, Granularity().score(fitted.apply(data, Draws(1))).value, rel_tol=1e-9)


def test_what_is_left_at_the_end_joins_the_coarsest_classes() -> None:
    """Seven records of x, one of y: y cannot stand alone, and only one class goes up with it."""
    tree = TreeHierarchy([["x", "*"], ["y", "*"]])
    data = microdata({n: {"hierarchy": tree} for n in "ab"}, a=["x"] * 7 + ["y"], b=["x"] * 4 + ["y"] * 4)
    found = classes(release(LocalRecoding(k=3), data).masked, ["a", "b"])
    assert sum(found.values()) == 8
    assert min(found.values()) >= 3
    assert found[("x", "x")] == 4


def test_a_local_solution_is_written_read_and_applied_to_new_records(tmp_path: Path) -> None:
    data = adult().take(np.arange(6_000))
    names = list(data.schema.names())
    fitted = LocalRecoding(k=5).fit(data, Draws(1))
    fitted.solution.write(tmp_path / "solution.json")
    again = LocalRecoding(k=5).read_solution(tmp_path / "solution.json", data).apply(data, Draws(1))
    assert classes(again.masked, names) == classes(fitted.apply(data, Draws(1)).masked, names)
    assert "sizes" not in (tmp_path / "solution.json").read_text()
    other = adult().take(np.arange(6_000, 12_000))
    with pytest.raises(DataError, match="have to be suppressed"):
        fitted.apply(other, Draws(1))
    loose = LocalRecoding(k=5, suppression=0.5).learn(rule=fitted.rule).apply(other, Draws(1))
    assert 3_000 <= len(loose.masked) < 6_000
    assert min(classes(loose.masked, names).values()) >= 5
    assert true_of_its_record(loose, names)
    with pytest.raises(DataError, match="other keys"):
        LocalRecoding(("age",), k=5).read_solution(tmp_path / "solution.json", data)
    with pytest.raises(DataError, match="no solution file"):
        LocalRecoding(k=5).read_solution(tmp_path / "none.json", data)


def test_many_keys_are_recoded_along_chains() -> None:
    g = np.random.default_rng(5)
    trees = [twin.random_tree(g, 6, 4) for _ in range(13)]
    rows = [tuple(f"v{min(int(g.exponential(1)), 5)}" for _ in trees) for _ in range(400)]
    data = twin.people(rows, trees, ["s"] * 400)
    made = release(LocalRecoding(k=4, seconds=20), data)
    assert min(classes(made.masked, list("abcdefghijklm")).values()) >= 4
    assert Granularity().score(made).value > 0.1


# --- Mondrian


@pytest.mark.parametrize("k", [2, 3, 5])
def test_strict_cuts_of_distinct_numbers_leave_boxes_of_k_to_2k_minus_1(k: int) -> None:
    """LeFevre, DeWitt and Ramakrishnan 2006, theorem 2: in one dimension without ties."""
    data = microdata({"x": {"scale": "ordered"}}, x=np.random.default_rng(0).permutation(97) + 3)
    sizes = classes(release(Mondrian(k=k), data).masked, ["x"]).values()
    assert min(sizes) >= k
    assert max(sizes) <= 2 * k - 1


def test_strict_boxes_do_not_overlap_and_ranges_end_in_values_of_the_box() -> None:
    g = np.random.default_rng(2)
    data = microdata(
        {n: {"scale": "ordered"} for n in "xy"}, x=g.integers(0, 20, 150).tolist(), y=g.integers(0, 20, 150).tolist()
    )
    made = release(Mondrian(k=4), data)

    def ends(label: str) -> tuple[float, float]:
        low, _, high = label.strip("[]").partition(", ")
        return float(low), float(high or low)

    boxes = {tuple(map(ends, key)) for key in classes(made.masked, ["x", "y"])}
    for one, two in itertools.combinations(boxes, 2):
        assert any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, two, strict=True))
    truth = {
        i: (x, y) for i, x, y in zip(data.batch([]).ids.tolist(), column(data, "x"), column(data, "y"), strict=True)
    }
    for i, *labels in zip(made.align.tolist(), column(made.masked, "x"), column(made.masked, "y"), strict=True):
        assert all(ends(label)[0] <= v <= ends(label)[1] for label, v in zip(labels, truth[i], strict=True))
    for (low, high), name in itertools.product({side for box in boxes for side in box[:1]}, "x"):
        assert {low, high} <= set(column(data, name))


def test_relaxed_cuts_divide_equal_values_where_strict_ones_cannot() -> None:
    """All x are equal or next to it: a strict cut leaves 3 beside 9; a relaxed one halves the file."""
    data = microdata({n: {"scale": "ordered"} for n in "xy"}, x=[1] * 9 + [2] * 3, y=list(range(12)))
    strict = release(Mondrian(("x",), k=6), data)
    assert list(classes(strict.masked, ["x"]).values()) == [12]
    relaxed = release(Mondrian(("x", "y"), k=6, cuts="relaxed"), data)
    assert sorted(classes(relaxed.masked, ["x", "y"]).values()) == [6, 6]


def test_a_key_with_a_hierarchy_is_cut_along_it_unless_ranges_are_asked_for() -> None:
    data = adult().take(np.arange(2_000))
    masks = (Mondrian(("age", "sex"), k=20), Mondrian(("age", "sex"), k=20, ranges=("age",)))
    along, ranged = (release(mask, data).masked for mask in masks)
    tree = data.schema["age"].hierarchy
    assert tree is not None
    assert all(tree.path(label) for label in set(column(along, "age")))
    assert any(label.startswith("[") for label in column(ranged, "age"))
    assert len(classes(ranged, ["age", "sex"])) > len(classes(along, ["age", "sex"]))
    with pytest.raises(DataError, match="have no order"):
        Mondrian(("age", "sex"), ranges=("sex",)).apply(data, Draws(1))


def test_a_missing_number_is_apart_or_covered_by_the_root() -> None:
    data = microdata({"x": {"scale": "ordered"}}, x=[1.0, 2.0, 3.0, 4.0, None, None, None])
    assert classes(release(Mondrian(k=3), data).masked, ["x"]) == {("[1, 4]",): 4, (None,): 3}
    assert classes(release(Mondrian(k=4), data).masked, ["x"]) == {("*",): 7}


def test_boxes_take_new_records_that_they_cover() -> None:
    data = microdata({"x": {"scale": "ordered"}}, x=list(range(0, 40, 2)))
    fitted = Mondrian(k=5, suppression=0.5).fit(data, Draws(1))
    other = microdata({"x": {"scale": "ordered"}}, x=[1, 3, 5, 1, 3, 1_000])
    made = fitted.apply(other, Draws(1))
    assert len(made.masked) == 5
    assert len(set(column(made.masked, "x"))) == 1


def test_what_cannot_be_reached_is_refused() -> None:
    data = twin.people([("v0",), ("v1",)] * 3, [[("v0", "*"), ("v1", "*")]], ["s"] * 6)
    for mask in (LocalRecoding, Mondrian):
        with pytest.raises(DataError, match=r"cannot be reached.*Nothing is released"):
            mask(k=2, models=[LDiversity(["secret"], l=2)]).apply(data, Draws(1))
        with pytest.raises(ParameterError, match="full_domain_recoding"):
            mask(models=[KMap(k=2)])
