"""Targets: persons who are the difference between two universes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.variable import Variable

Piece = dict[str, tuple[str, ...]]
Codes = Mapping[str, NDArray[np.int64]]
LEVELS = 8
"""Most levels of a variable that a universe chooses: more are refused by the rules as printed."""


@dataclass(frozen=True)
class Target:
    """A record that is alone in what a universe holds and another does not."""

    row: int
    """Its place in the data; the custodian's knowledge."""
    universe: Piece
    """A piece that holds the target."""
    without: Piece
    """The same records without the target."""
    pads: tuple[Piece, ...]
    """Other pieces, without a record of the universe."""

    def alone(self) -> Piece:
        """Return the cell that the target is alone in."""
        return {
            n: tuple(v for v in levels if v not in self.without[n]) or levels for n, levels in self.universe.items()
        }

    def pair(self, pad: int | None = None) -> tuple[list[Piece], list[Piece]]:
        """Return the two universes; with a pad, both have it in common."""
        more = [] if pad is None else [self.pads[pad]]
        return [self.universe, *more], [self.without, *more]


def find_targets(
    variables: Sequence[Variable], codes: Codes, conditions: int, smallest: int = 100, most: int = 400
) -> list[Target]:
    """Return targets of universes that are formed with so many known variables (2 to 4), at most one for each record;
    none, if nobody is alone in the difference of two.

    A universe fixes a level of all but two of them; of one it takes up to eight levels, of the last it leaves out, or not,
    the level that the target alone has there: {F, S03, 60-89} against the same with race in {W, B, A}.
    """
    found: dict[int, Target] = {}
    for chosen in itertools.permutations(variables, conditions):
        if list(chosen[:-2]) == sorted(chosen[:-2], key=lambda v: v.name):
            for target in _targets(chosen, codes, smallest):
                found.setdefault(target.row, target)
        if len(found) >= 4 * most:
            break
    rows = sorted(found)
    spaced = [rows[i * len(rows) // min(most, len(rows))] for i in range(min(most, len(rows)))]
    return [found[row] for row in spaced]


def _targets(chosen: Sequence[Variable], codes: Codes, smallest: int) -> Iterator[Target]:
    """Yield targets; the last variable tells the target apart, the one before it gives a range of levels."""
    shape = tuple(len(v.levels) for v in chosen)
    flat = np.ravel_multi_index([codes[v.name] for v in chosen], shape)
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    order = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[order], np.arange(counts.size))
    for place in zip(*np.nonzero(counts == 1), strict=True):
        fixed, last = place[:-2], place[-1]
        near = counts[fixed]  # levels of the range × levels of the last
        if len(chosen) == 2:
            # one level of the first; up to eight of the last, among them the target's
            others = [i for i in np.argsort(-counts[place[0]], kind="stable") if i != last][: LEVELS - 1]
            total, span = 1 + int(counts[place[0]][others].sum()), [place[0]]
        else:
            free = [i for i in np.argsort(-near.sum(1), kind="stable") if near[i, last] == 0 and i != place[-2]]
            span = [place[-2], *free[: LEVELS - 1]]
            others = [i for i in range(shape[-1]) if i != last][: LEVELS - 1]
            total = 1 + int(near[np.ix_(span, others)].sum())
        if total < smallest:
            continue
        base: Piece = {v.name: (v.levels[i],) for v, i in zip(chosen, fixed, strict=False)}
        base[chosen[-2].name] = tuple(chosen[-2].levels[i] for i in sorted(span))
        end = chosen[-1]
        without = {**base, end.name: tuple(end.levels[i] for i in sorted(others))}
        universe = {**base, end.name: tuple(end.levels[i] for i in sorted([*others, last]))}
        row = int(order[starts[np.ravel_multi_index(place, shape)]])
        yield Target(row, universe, without, tuple(_pads(chosen, base)))


def _pads(chosen: Sequence[Variable], base: Piece) -> Iterator[Piece]:
    """Yield pieces of other levels of the variable with most levels that the universe fixes: one, two or three of them."""
    fixed = max((v for v in chosen if len(base.get(v.name, ())) == 1), key=lambda v: len(v.levels), default=None)
    if fixed is None:
        return
    others = [level for level in fixed.levels if level not in base[fixed.name]]
    for size in (1, 2, 3):
        for some in itertools.islice(itertools.combinations(others, size), 40):
            yield {fixed.name: some}
