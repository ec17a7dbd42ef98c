"""Linkage by rank: nearest ranks, windows of ranks, and what they do to rank swapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import microdata

from sfumato import Draws, Release, Snooper
from sfumato.attacks import LinkByRank
from sfumato.data.microdata import Microdata
from sfumato.errors import SfumatoError
from sfumato.masks import RankSwap
from sfumato.risk import DistanceLinkage, RankLinkage

NUMBER = {"scale": "ordered"}


def numbers(**columns: Any) -> Microdata:
    return microdata(dict.fromkeys(columns, NUMBER), **columns)


def ranks(values: Any, value: float) -> tuple[int, int]:
    """The first and the last rank of a value among others, from 1; the last is before the first where it is not there."""
    return 1 + sum(v < value for v in values), sum(v <= value for v in values)


def slow_rank_links(before: Any, after: Any, window: float | None) -> list[float]:
    """The definition, pair by pair, for files without gaps, shape (n, p)."""
    n = len(before)
    right = []
    for i, record in enumerate(before):
        distance: dict[int, float] = {}
        for k, released in enumerate(after):
            total, inside = 0.0, True
            for j in range(before.shape[1]):
                mine = ranks(after[:, j] if window is not None else before[:, j], record[j])
                theirs = ranks(after[:, j], released[j])
                if window is not None:
                    gap = max(theirs[0] - mine[1], mine[0] - theirs[1], 0)
                    inside &= gap <= int(window * n + 1e-9)
                total += (sum(mine) - sum(theirs)) ** 2  # twice the difference of the mean ranks
            if inside:
                distance[k] = total
        best = min(distance.values(), default=0)
        near = [k for k, d in distance.items() if d == best]
        right.append(1 / len(near) if i in near else 0.0)
    return right


@given(st.integers(0, 10_000), st.integers(1, 14), st.integers(1, 3), st.sampled_from([None, 0.0, 0.1, 0.29, 0.5, 1.0]))
def test_every_pair_compared_by_rank_gives_the_same_links(seed: int, n: int, p: int, window: float | None) -> None:
    g = np.random.default_rng(seed)
    before = g.integers(0, 12, (n, p)).astype(float)
    after = (
        np.column_stack([g.permutation(c) for c in before.T]) if seed % 2 else g.integers(0, 12, (n, p)).astype(float)
    )
    names = [f"x{j}" for j in range(p)]
    outcome = Release.of(
        numbers(**dict(zip(names, before.T, strict=True))), numbers(**dict(zip(names, after.T, strict=True))), "rows"
    )
    guesses = LinkByRank(window=window).run(outcome, Snooper(), Draws(1))
    np.testing.assert_allclose(guesses.right, slow_rank_links(before, after, window))


def test_a_mask_that_keeps_the_order_protects_nobody_from_ranks() -> None:
    g = np.random.default_rng(4)
    x, y = g.normal(size=300), g.normal(size=300)
    outcome = Release.of(numbers(x=x, y=y), numbers(x=np.exp(3 * x), y=y**3 - 7), "rows")
    assert RankLinkage().score(outcome).value == 1
    assert DistanceLinkage().score(outcome).value < 0.2


def test_a_sample_is_ranked_by_itself() -> None:
    x = np.arange(1000.0)
    outcome = Release.of(numbers(x=x), numbers(x=np.exp(x[::2] / 100)), np.arange(0, 1000, 2))
    score = RankLinkage().score(outcome)
    assert score.details["targets without a record to find"] == 500
    # the 500 who are there stand at the middle of every second rank: none is nearer, their neighbours tie with them
    assert score.value == pytest.approx(0.5, abs=0.01)


def test_with_the_published_window_everybody_s_own_record_is_among_the_candidates() -> None:
    """Nin, Herranz and Torra (2008): the intersection over the columns is small, and the target is in it."""
    g = np.random.default_rng(6)
    shared = g.normal(size=(600, 1))
    x = shared + 0.7 * g.normal(size=(600, 5))
    names = tuple(f"x{j}" for j in range(5))
    data = numbers(**dict(zip(names, x.T.round(1), strict=True)))  # with ties
    for p in (0.02, 0.1):
        released = RankSwap(columns=names, p=p).apply(data, Draws(3))
        guesses = LinkByRank(window=p).run(released, Snooper(), Draws(1))
        assert (guesses.guess >= 0).all()
        before, after = (np.column_stack([d.numbers(n) for n in names]) for d in (data, released.masked))
        after = after[np.argsort(released.masked.batch([]).ids)]
        for i in range(0, 600, 50):
            for j in range(5):
                mine, theirs = ranks(after[:, j], before[i, j]), ranks(after[:, j], after[i, j])
                assert max(theirs[0] - mine[1], mine[0] - theirs[1]) <= p * 600
        plain = DistanceLinkage().score(released)
        told = RankLinkage(window=p).score(released)
        assert told.value >= plain.value
    assert told.value > 1.2 * plain.value  # the wider the swaps, the more the window helps


def test_where_no_record_is_in_the_window_nobody_is_linked() -> None:
    outcome = Release.of(numbers(x=[1.0, 2.0], y=[1.0, 2.0]), numbers(x=[1.0, 2.0], y=[2.0, 1.0]), "rows")
    guesses = LinkByRank(window=0.0).run(outcome, Snooper(), Draws(1))
    assert guesses.guess.tolist() == [-1, -1]
    assert guesses.right.tolist() == [0, 0]
    one = LinkByRank(window={"x": 0.0}).run(outcome, Snooper(), Draws(1))
    assert one.right.tolist() == [1, 1]


def test_missing_values_and_categories_have_no_ranks() -> None:
    before = microdata({"x": NUMBER}, x=[1.0, 2.0, None, 4.0], y=["a", "b", "c", "d"])
    after = microdata({"x": NUMBER}, x=[2.0, None, 1.0, 4.0], y=["a", "b", "c", "a"])
    assert LinkByRank(missing="ignored").run(
        Release.of(before, after, "rows"), Snooper(), Draws(1)
    ).target.tolist() == [0, 1, 3]
    wild = LinkByRank(window=0.25).run(Release.of(before, after, "rows"), Snooper(), Draws(1))
    assert wild.right.tolist()[1:3] == [1, 1]  # b by its letter, c by its letter, whatever the rank
    with pytest.raises(SfumatoError, match="none of the snooper's keys is in order"):
        RankLinkage().score(Release.of(before, after, "rows"), Snooper(keys=("y",)))
    with pytest.raises(SfumatoError, match="window names y, but the keys that have ranks are x"):
        RankLinkage(window={"y": 0.1}).score(Release.of(before, after, "rows"))


def test_the_variant_names_the_window() -> None:
    data = numbers(x=[1.0, 2.0])
    outcome = Release.of(data, data, "rows")
    assert RankLinkage(window=0.05).score(outcome).variant == "within 5 % of the ranks; a missing key matches anything"
    assert RankLinkage().score(outcome).variant == "nearest ranks; a missing key matches anything"
