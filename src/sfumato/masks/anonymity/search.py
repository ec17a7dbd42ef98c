"""The best choice of one level for each key: a search of the lattice of levels that is exact, or says how far from it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.errors import plural
from sfumato.lazy import pd
from sfumato.masks.anonymity.candidates import Candidate, KeyedFile, Levels, Rules, Verdict
from sfumato.masks.anonymity.key_levels import KeyLevels, RecodingSolution
from sfumato.typing import Codes, Flags, Numbers, Whole

if TYPE_CHECKING:
    import altair as alt
    import pandas

Objective = Literal["granularity", "discernibility", "class_size"]
"""What makes one release better than another; more is better."""

MOST_NODES = 4_000_000
"""A lattice with more nodes is not written out: it is climbed, and its best score bounded by those of smaller lattices."""
_EXACT = 1e-12

Score = Callable[[Candidate, Verdict], float]


@dataclass(frozen=True)
class CheckedNode:
    """A node of the lattice that was looked at."""

    levels: Levels
    score: float | None
    """None where it is no release."""
    suppressed: int
    """Records that had to be left out: all of them, or as many as were counted before that was too many."""
    reason: str
    detail: float
    """The granularity if no record had to be left out."""


@dataclass(frozen=True, eq=False)
class LatticeSolution(RecodingSolution):
    """The levels that a search has chosen, and what it has looked at; confidential, as it counts records."""

    keys: tuple[str, ...]
    heights: tuple[int, ...]
    levels: Levels
    score: float
    bound: float
    """No choice of levels has a better score than this."""
    suppressed: int
    nodes: int
    """Nodes of the lattice."""
    checked: tuple[CheckedNode, ...] = field(repr=False)
    objective: str
    records: int
    allowed: int
    """Records of the file, and how many of them may be suppressed."""

    @property
    def optimal(self) -> bool:
        """Whether no choice of levels is better."""
        return self.bound <= self.score + 1e-9

    @property
    def rules(self) -> dict[str, int]:
        """The level of each key: as the parameter `levels` of a mask it makes the same release, without a search."""
        return dict(zip(self.keys, self.levels, strict=True))

    def labels(self, keys: Sequence[KeyLevels], codes: Codes) -> Codes:
        """Return the label of each key for each record, shape (keys, n): the one on its level."""
        return np.stack([key.paths[level][own] for key, level, own in zip(keys, self.levels, codes, strict=True)])

    def frame(self) -> pandas.DataFrame:
        """Return the nodes that were looked at, the best first: levels, score, suppressed records, and why one is no release."""
        rows = sorted(self.checked, key=lambda c: (c.score is None, -(c.score or 0.0), c.levels))
        table = [
            {**dict(zip(self.keys, c.levels, strict=True)), self.objective: c.score, "suppressed": c.suppressed, "why not": c.reason}
            for c in rows
        ]  # fmt: skip
        return pd.DataFrame(table)

    def chart(self) -> alt.LayerChart:
        """Draw the nodes that were looked at: what each suppresses, and how fine it is."""
        from sfumato.charts.file_charts import lattice_chart

        drawn = pd.DataFrame(
            {
                "detail": [c.detail for c in self.checked],
                "share": [c.suppressed / max(self.records, 1) for c in self.checked],
                "release": [c.score is not None for c in self.checked],
                "best": [c.levels == self.levels for c in self.checked],
            }
        )
        return lattice_chart(drawn, self.allowed / max(self.records, 1))

    def words(self) -> str:
        """Return in words how good the solution is."""
        if self.nodes == 1:
            return f"at the levels that were given {self.objective} is {self.score:.4f}"
        looked = f"{plural(len(self.checked), 'choice')} of {self.nodes:,} looked at"
        if math.isinf(self.bound):
            return f"the search was stopped: {self.objective} is {self.score:.4f}, and another choice may have more ({looked})"
        if self.optimal:
            return f"no choice of levels is better in {self.objective} ({looked})"
        return (
            f"the search was stopped: {self.objective} is {self.score:.4f}, and no choice of levels has more than "
            f"{self.bound:.4f} ({looked})"
        )


def granularity(candidate: Candidate, verdict: Verdict) -> float:
    """Return 1 - the mean loss over keys and records of (leaves - 1)/(leaves of the root - 1); suppressed records lose 1."""
    return float(candidate.gains()[verdict.kept].sum()) + candidate.file.unknown


def discernibility(candidate: Candidate, verdict: Verdict) -> float:
    """Return -DM/n²: minus the sum of squared class sizes, n for a suppressed record (Bayardo and Agrawal 2005)."""
    n = candidate.file.records
    return (
        -float((candidate.sizes[verdict.kept].astype(np.float64) ** 2).sum() + verdict.suppressed * n) / max(n, 1) ** 2
    )


def class_size(candidate: Candidate, verdict: Verdict) -> float:
    """Return -(records/classes)/n, the average class size that C_AVG divides by k (LeFevre, DeWitt and Ramakrishnan 2006)."""
    return -1.0 / max(int(verdict.kept.sum()), 1)


SCORES: dict[str, Score] = {"granularity": granularity, "discernibility": discernibility, "class_size": class_size}


class LatticeSearch:
    """A search for the best node; what was looked at stays in `checked`, in order."""

    def __init__(
        self,
        file: KeyedFile,
        rules: Rules,
        allowed: int,
        ranges: tuple[tuple[int, int], ...],
        objective: str = "granularity",
        seconds: float = math.inf,
        measure: Score | None = None,
    ) -> None:
        self.file, self.rules, self.allowed, self.ranges = file, rules, allowed, ranges
        self.objective, self.seconds = objective, seconds
        self._score = measure or SCORES[objective]
        self._additive = objective == "granularity" and measure is None
        self._shrinks = measure is None and not self._additive
        self.lowest = np.array([low for low, _ in ranges])
        self.shape = tuple(high - low + 1 for low, high in ranges)
        self.nodes = math.prod(self.shape)
        self.checked: dict[Levels, CheckedNode] = {}
        self.best: Levels | None = None
        self.score = -math.inf
        self.stopped = False

    # -- one node

    def look(self, levels: Levels) -> tuple[Candidate, Verdict] | None:
        """Judge a node, and keep it if it is the best so far; None if it was looked at already."""
        if levels in self.checked:
            return None
        candidate = self.file.at(levels)
        verdict = candidate.judge(self.rules, self.allowed)
        score = None if verdict.reason else self._score(candidate, verdict)
        parts = (part[v - low] for part, v, (low, _) in zip(self._marginals, levels, self.ranges, strict=True))
        detail = float(sum(parts)) + self.file.unknown
        self.checked[levels] = CheckedNode(levels, score, verdict.suppressed, verdict.reason, detail)
        if score is not None and score > self.score + _EXACT:
            self.best, self.score = levels, score
        return candidate, verdict

    # -- the whole lattice, written out

    def run(self) -> LatticeSolution | None:
        """Return the best node and a bound on all; None if no node is a release."""
        start = time.monotonic()
        bound = self._walk(start) if self.nodes <= MOST_NODES else self._climb(start)
        self.stopped = time.monotonic() - start > self.seconds
        if self.best is None:
            self.look(tuple(high for _, high in self.ranges))
        if self.best is None:
            return None
        return LatticeSolution(
            tuple(k.name for k in self.file.keys), tuple(k.height for k in self.file.keys), self.best, self.score,
            max(bound, self.score), self.checked[self.best].suppressed, self.nodes, tuple(self.checked.values()),
            self.objective, self.file.records, self.allowed,
        )  # fmt: skip

    def reasons(self) -> str:
        """Return why the most general node is no release."""
        top = tuple(high for _, high in self.ranges)
        self.look(top)
        return self.checked[top].reason

    def levels_at(self, at: tuple[int, ...]) -> Levels:
        """Return the levels of a place in the lattice."""
        return tuple(int(v) for v in self.lowest + at)

    def _marginal(self, weights: Numbers | None = None) -> list[Numbers]:
        """Return for each key what its levels add to the score of all rows, or of rows with some weights, shape (levels,)."""
        return _marginal_gains(self.file, self.ranges, self.file.counts if weights is None else weights)

    def _walk(self, start: float) -> float:
        """Look at every node that may be best, most promising first; return a bound on those that were not reached in time."""
        bound = np.full(self.shape, 0.0 if self._shrinks else math.inf)
        if self._additive:
            bound = additive_bounds(self.file, self.ranges)
        order = np.argsort(-bound if self._additive else _coarseness(self.shape), axis=None, kind="stable")
        dead, flat = np.zeros(self.shape, bool), bound.reshape(-1)
        static = flat.copy() if self._additive else None
        for place in order.tolist():
            if static is not None and static[place] <= self.score + _EXACT:
                break
            at = tuple(int(v) for v in np.unravel_index(place, self.shape))
            if dead[at] or flat[place] <= self.score + _EXACT or self.levels_at(at) in self.checked:
                continue
            if time.monotonic() - start > self.seconds:
                for levels in self.checked:
                    dead[tuple(int(v) for v in levels - self.lowest)] = True
                return float(bound[~dead].max(initial=-math.inf))
            self._resolve(at, bound, dead)
        return self.score

    def _resolve(self, at: tuple[int, ...], bound: Numbers, dead: Flags) -> None:
        """Find on a chain from a node to the root where the closed models begin to hold (Kohlmayer and others 2012: Flash)."""
        chain = list(node_chain(at, self.shape, bound, dead))
        low, high = 0, len(chain) - 1
        while low <= high:
            middle = (low + high) // 2
            self._visit(chain[middle], bound, dead)
            if dead[chain[middle]]:
                low = middle + 1
            else:
                high = middle - 1
        self._visit(at, bound, dead)

    def _visit(self, at: tuple[int, ...], bound: Numbers, dead: Flags) -> None:
        """Look at a node that was not looked at, and note what follows for others."""
        if dead[at] or (looked := self.look(self.levels_at(at))) is None:
            return
        candidate, verdict = looked
        below = tuple(slice(0, v + 1) for v in at)
        if verdict.closed:
            dead[below] = True
            return
        if self._additive:
            self._tighten(candidate, verdict, below, bound)
        elif self._shrinks:
            above = tuple(slice(v, None) for v in at)
            whole = Verdict(np.ones(len(candidate.sizes), bool), 0)
            np.minimum(bound[above], self._score(candidate, whole), out=bound[above])

    def _tighten(self, candidate: Candidate, verdict: Verdict, below: tuple[slice, ...], bound: Numbers) -> None:
        """Lower the bound of finer nodes: records that are suppressed here for the size of their class are suppressed there too."""
        small = candidate.sizes < self.rules.least(self.file.complete)
        if not small.any():
            return
        lost = np.where(small[candidate.labels[: self.file.own]], self.file.counts, 0)
        gone = [part[cut] for part, cut in zip(self._marginal(lost), below, strict=True)]
        whole = [part[cut] for part, cut in zip(self._marginals, below, strict=True)]
        left = _outer([a - b for a, b in zip(whole, gone, strict=True)]) + self.file.unknown
        np.minimum(bound[below], left, out=bound[below])

    @cached_property
    def _marginals(self) -> list[Numbers]:
        return self._marginal()

    # -- a lattice that is too large to be written out

    def _climb(self, start: float) -> float:
        """Go down from the root greedily, and from each best node sideways, until nothing gets better or time is over."""
        top = tuple(high for _, high in self.ranges)
        self.look(top)
        here: Levels | None = top if self.best is None else self.best
        while here is not None and time.monotonic() - start < self.seconds:
            self._descend(here, start)
            before, here = self.score, None
            base = self.best or top
            for j in range(len(base)):
                if time.monotonic() - start > self.seconds:
                    break
                for up in range(base[j] + 1, self.ranges[j][1] + 1):
                    self._descend((*base[:j], up, *base[j + 1 :]), start, spare=j)
            if self.score > before + _EXACT:
                here = self.best
        return self._bound_by_parts(start)

    def _descend(self, levels: Levels, start: float, spare: int | None = None) -> None:
        """Make one key finer at a time, the one with the best score, as long as there is a release."""
        while time.monotonic() - start < self.seconds:
            steps = []
            for j, level in enumerate(levels):
                if level > self.ranges[j][0] and j != spare:
                    finer = (*levels[:j], level - 1, *levels[j + 1 :])
                    self.look(finer)
                    if (score := self.checked[finer].score) is not None:
                        steps.append((score, finer))
            if not steps:
                return
            levels = max(steps)[1]

    def _bound_by_parts(self, start: float) -> float:
        """Return a bound from smaller lattices: what is no release by some of the keys alone, is none by all of them."""
        if not self._additive:
            return math.inf if not self._shrinks else 0.0
        count, total = len(self.file.keys), self.file.unknown
        parts = np.array_split(
            np.argsort([-n for n in self.shape], kind="stable"),
            max(2, math.ceil(math.log(self.nodes, min(20_000, MOST_NODES)))),
        )
        whole = self._marginals
        for part in parts:
            rest = set(range(count)) - {int(j) for j in part}
            ranges = tuple((high, high) if j in rest else (low, high) for j, (low, high) in enumerate(self.ranges))
            left = max(self.seconds - (time.monotonic() - start), self.seconds / 10)
            alone = LatticeSearch(
                self.file, Rules(self.rules.least(self.file.complete)), self.allowed, ranges, seconds=left
            )
            found = alone.run()
            total += (
                (sum(float(whole[int(j)].max()) for j in part)) if found is None else found.bound - self.file.unknown
            )
        return total


def _marginal_gains(file: KeyedFile, ranges: tuple[tuple[int, int], ...], amounts: Numbers | Whole) -> list[Numbers]:
    found = []
    for j, (key, (low, high)) in enumerate(zip(file.keys, ranges, strict=True)):
        mass = np.bincount(file.codes[j], amounts, len(key.values) + 1)
        found.append(file.scale[j] * (key.gains[low : high + 1] * mass).sum(axis=1))
    return found


def additive_bounds(file: KeyedFile, ranges: tuple[tuple[int, int], ...]) -> Numbers:
    """Return the granularity of every node of a lattice if nothing had to be suppressed, shape (levels of each key)."""
    return _outer(_marginal_gains(file, ranges, file.counts)) + file.unknown


def _outer(parts: list[Numbers]) -> Numbers:
    """Return the sums of one number of each part, shape (levels of each)."""
    total = np.zeros(())
    for part in parts:
        total = total[..., None] + part
    return total


def _coarseness(shape: tuple[int, ...]) -> Numbers:
    """Return the sum of the levels of each node: finer ones first, where nothing else tells which to begin with."""
    return _outer([np.arange(n, dtype=np.float64) for n in shape])


def node_chain(at: tuple[int, ...], shape: tuple[int, ...], bound: Numbers, dead: Flags) -> Iterator[tuple[int, ...]]:
    """Yield a node and ever coarser ones up to the root, each time the one with the best bound that is not settled."""
    yield at
    while True:
        steps = [(*at[:j], v + 1, *at[j + 1 :]) for j, v in enumerate(at) if v + 1 < shape[j]]
        if not steps:
            return
        at = max(steps, key=lambda node: (not dead[node], bound[node], node))
        yield at
