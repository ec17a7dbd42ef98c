"""Local recoding: each class of records has the finest levels at which it can be released, and nothing is suppressed."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import param
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError
from sfumato.files import parse_json, write_text
from sfumato.kernels.classes import find_rows, row_finder
from sfumato.masks.anonymity.candidates import Candidate, KeyedFile, Levels, Rules
from sfumato.masks.anonymity.generalisation import Generalisation
from sfumato.masks.anonymity.key_levels import KeyLevels, RecodingSolution
from sfumato.masks.anonymity.mondrian import Partition
from sfumato.masks.anonymity.search import additive_bounds, node_chain
from sfumato.typing import Codes, Whole

_MOST_NODES = 1_000_000
"""A lattice with more nodes is gone through along chains only."""


@dataclass(frozen=True, eq=False)
class LocalStep:
    """Classes that were released on one choice of levels: their labels, shape (keys, c)."""

    levels: Levels
    labels: Codes
    sizes: Whole


@dataclass(frozen=True, eq=False)
class LocalSolution(RecodingSolution):
    """The classes of a local recoding, step by step from fine to coarse; confidential, as it counts records."""

    keys: tuple[KeyLevels, ...]
    steps: tuple[LocalStep, ...]
    codes: Codes
    """The rows of the file, shape (keys, r)."""
    released: Codes
    """Their labels, shape (keys, r)."""
    score: float

    def words(self) -> str:
        """Return in words how good it is."""
        classes = sum(len(step.sizes) for step in self.steps)
        known = "" if math.isnan(self.score) else f"granularity {self.score:.4f}, "
        return f"{known}{classes:,} classes on {len(self.steps):,} choices of levels"

    def frame(self) -> Any:
        """Return the choices of levels, from fine to coarse: classes and records that are released on each."""
        from sfumato.lazy import pd

        names = [key.name for key in self.keys]
        return pd.DataFrame(
            [
                {**dict(zip(names, s.levels, strict=True)), "classes": len(s.sizes), "records": int(s.sizes.sum())}
                for s in self.steps
            ]
        )

    def labels(self, keys: Sequence[KeyLevels], codes: Codes) -> Codes:
        """Return the labels of records, shape (keys, n): as in the file, or of the first class that covers a new one, else -1."""
        mine = np.stack([_as_before(own, key, at) for own, key, at in zip(self.keys, keys, codes, strict=True)])
        found = find_rows(list(self.codes), list(mine)) if self.codes.shape[1] else np.full(codes.shape[1], -1)
        out = np.where(found >= 0, self.released[:, found], -1) if self.codes.shape[1] else np.full(codes.shape, -1)
        left = np.flatnonzero(found < 0)
        for step in self.steps:
            if not len(left):
                break
            there = np.stack(
                [key.paths[level][own[left]] for key, level, own in zip(keys, step.levels, codes, strict=True)]
            )
            at = row_finder(list(step.labels))(list(there))
            out[:, left[at >= 0]] = there[:, at >= 0]
            left = left[at < 0]
        return out.astype(np.int32)

    def write(self, path: str | Path) -> None:
        """Write the solution to a JSON file: levels and labels of the released classes, and no count of records."""
        steps = [
            {
                "levels": dict(zip([k.name for k in self.keys], s.levels, strict=True)),
                "classes": [
                    [key.labels[label] for key, label in zip(self.keys, column, strict=True)]
                    for column in s.labels.T.tolist()
                ],
            }
            for s in self.steps
        ]
        write_text(path, json.dumps({"keys": [k.name for k in self.keys], "steps": steps}, ensure_ascii=False))


def _as_before(own: KeyLevels, key: KeyLevels, codes: Codes) -> Codes:
    """Return codes in terms of fewer values: -2 for a value that is new."""
    before, now = len(own.values), len(key.values)
    return np.where(codes == now, before, np.where(codes >= before, -2, codes)).astype(np.int32)


class LocalRecoding(Generalisation):
    """Local recoding: every record is released at the finest levels at which its class holds, and none is suppressed.

    From the finest choice of levels to the coarsest, the classes that hold are released, and the rest goes on (as ARX's local
    recoding iterates full-domain recoding; here over all choices of levels). What is left at the end does not hold by itself: it is
    partitioned along the hierarchies together with some of the coarsest classes, as many as is best. A value may be released as
    itself in one class and as a coarser label in another.

    Examples
    --------
    >>> from sfumato import Draws
    >>> from sfumato.datasets import teachers
    >>> release = LocalRecoding(k=5).apply(teachers(2_000), Draws(1))
    >>> len(release.masked)
    2000
    """

    _: KW_ONLY
    seconds: float = param(default=60.0, doc="how long to look for fine classes at most", low=0, above=True, high=3600)

    @override
    def solve(self, file: KeyedFile, data: Microdata) -> LocalSolution:
        return _Recoder(file.all_released(), self.rules(), self.seconds).run()

    def read_solution(self, path: str | Path, data: Microdata) -> Self:
        """Return the mask with a solution that was written, for these data: its classes stay, records are counted anew."""
        from sfumato.masks.anonymity.key_levels import key_levels

        batch = self._read(data)
        keys = tuple(key_levels(batch, name) for name in self.targets(data.schema))
        return self._learn(data, batch, keys, read_local(path, keys))


def read_local(path: str | Path, keys: tuple[KeyLevels, ...]) -> LocalSolution:
    """Read a solution, for keys of the same names with hierarchies that hold its labels."""
    try:
        table = parse_json(Path(path).read_text("utf-8"))
        names, steps = [str(n) for n in table["keys"]], list(table["steps"])
    except FileNotFoundError:
        raise DataError(f"there is no solution file at {path}.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{path} cannot be read as a solution; it must be one that `solution.write` made.") from None
    if names != [key.name for key in keys]:
        raise DataError(f"the solution in {path} is for other keys. Name the same ones, in the same order.")
    found = []
    for step in steps:
        rows = []
        for cells in step["classes"]:
            row = [key.labels.index(cell) if cell in key.labels else -2 for key, cell in zip(keys, cells, strict=True)]
            rows.append(row)  # a label that no record of these data has is never met
        labels = np.array(rows, np.int32).reshape(-1, len(keys)).T
        found.append(LocalStep(tuple(int(step["levels"][n]) for n in names), labels, np.zeros(len(rows), np.int64)))
    nothing = np.zeros((len(keys), 0), np.int32)
    return LocalSolution(keys, tuple(found), nothing, nothing, math.nan)


class _Recoder:
    """The rows that are still to be released, and the classes that were."""

    def __init__(self, file: KeyedFile, rules: Rules, seconds: float) -> None:
        self.file, self.rules, self.seconds = file, rules, seconds
        self.rest = file
        self.last: Candidate | None = None
        self.released = np.full((len(file.keys), file.own), -1, np.int32)
        self.left, self.score = np.arange(file.own), file.unknown
        self.steps: list[tuple[LocalStep, list[Whole], list[float]]] = []
        self.back: list[tuple[int, Whole, Codes, float, int]] = []

    def run(self) -> LocalSolution:
        """Release class after class, then what is left together with the coarsest of them."""
        start = time.monotonic()
        for levels in self._nodes():
            enough = self.rest.records >= self.rules.least(self.rest.complete)
            if not enough or time.monotonic() - start > self.seconds:
                break
            self._take(levels)
        if len(self.left):
            self._finish()
        steps = tuple(step for step, _, _ in self.steps if len(step.sizes))
        return LocalSolution(self.file.keys, steps, self.file.codes, self.released, self.score)

    def _nodes(self) -> Iterator[Levels]:
        """Yield choices of levels from fine to coarse, but those on which no class of what is left is large enough."""
        keys = self.file.keys
        shape = tuple(key.height + 1 for key in keys)
        if math.prod(shape) > _MOST_NODES:
            yield from _along_chains(self.file)
            return
        bound = additive_bounds(self.file, tuple((0, key.height) for key in keys))
        dead = np.zeros(shape, bool)
        for place in np.argsort(-bound, axis=None, kind="stable").tolist():
            at = tuple(int(v) for v in np.unravel_index(place, shape))
            if dead[at]:
                continue
            if self._large(at):
                yield at
                if self.rules.settled:  # a class of a finer choice would have been part of one that was released
                    dead[tuple(slice(0, v + 1) for v in at)] = True
                continue
            chain = list(node_chain(at, shape, bound, dead))
            low, high = 0, len(chain) - 1
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (low, middle - 1) if self._large(chain[middle]) else (middle, high)
            dead[tuple(slice(0, v + 1) for v in chain[low])] = True

    def _large(self, levels: Levels) -> bool:
        """Whether a class of what is left is large enough on some levels."""
        self.last = self.rest.at(levels)
        return bool(self.last.sizes.max(initial=0) >= self.rules.least(self.rest.complete))

    def _take(self, levels: Levels) -> None:
        """Release the classes of what is left that hold on some levels."""
        looked = self.last is not None and self.last.file is self.rest and self.last.levels == levels
        candidate = self.last if looked and self.last is not None else self.rest.at(levels)
        verdict = candidate.judge(self.rules, self.rest.records)
        if not verdict.kept.any():
            return
        self._release(candidate, levels, verdict.kept)
        stay = np.flatnonzero(~verdict.kept[candidate.labels])
        self.left = self.left[stay]
        self.rest = self.rest.among(stay)

    def _release(self, candidate: Candidate, levels: Levels, kept: Any) -> None:
        rest = candidate.file
        mine = kept[candidate.labels]
        for j, (key, level) in enumerate(zip(rest.keys, levels, strict=True)):
            self.released[j, self.left[mine]] = key.paths[level][rest.codes[j, mine]]
        gains = candidate.gains()[kept]
        firsts = rest.codes[:, candidate.firsts[kept]]
        labels = np.stack([key.paths[v][own] for key, v, own in zip(rest.keys, levels, firsts, strict=True)])
        classes = (np.cumsum(kept) - 1)[candidate.labels[mine]]
        order = np.argsort(classes, kind="stable")
        rows = np.split(self.left[mine][order], np.cumsum(np.bincount(classes))[:-1])
        self.steps.append((LocalStep(levels, labels, candidate.sizes[kept]), rows, gains.tolist()))
        self.score += float(gains.sum())

    def _finish(self) -> None:
        """Release what is left together with the coarsest classes, partitioned along the hierarchies: with as many as is best."""
        best: tuple[float, int, Partition] | None = None
        taken, worse = 0, 0
        while worse < 3:
            part = Partition(self.file.among(self.left), self.rules, np.zeros(len(self.file.keys), bool), relaxed=False)
            if part.holds():
                part.run()
                score = self.score + part.score()
                worse = 0 if best is None or score > best[0] else worse + 1
                best = (score, taken, part) if not worse else best
            more = max(1, taken)
            done = sum(self._undo() for _ in range(more))
            taken += done
            if not done:
                break
        if best is None:
            raise DataError(
                "the models cannot be reached, even where all records look the same. Nothing is released. Loosen a model."
            )
        self._redo(best[1])
        self._release_boxes(best[2])

    def _redo(self, taken: int) -> None:
        """Release classes again until only so many are taken back."""
        while len(self.back) > taken:
            number, rows, labels, gain, size = self.back.pop()
            step, others, gains = self.steps[number]
            whole = LocalStep(step.levels, np.hstack([step.labels, labels]), np.append(step.sizes, size))
            self.steps[number] = (whole, [*others, rows], [*gains, gain])
            self.released[:, rows], self.score = labels, self.score + gain
            self.left = self.left[: len(self.left) - len(rows)]

    def _release_boxes(self, part: Partition) -> None:
        """Release what is left as the boxes of a partition."""
        levels, labels, sizes = part.lowest.astype(np.int64), part.labels(), part.sizes()
        self.released[:, self.left] = labels[:, part.box]
        self.score += part.score()
        distinct, group = np.unique(levels, axis=1, return_inverse=True)
        for g, column in enumerate(distinct.T.tolist()):
            mine = np.asarray(group).reshape(-1) == g
            self.steps.append((LocalStep(tuple(column), labels[:, mine], sizes[mine]), [], []))

    def _undo(self) -> bool:
        """Take the last class that was released back."""
        for number in range(len(self.steps) - 1, -1, -1):
            step, rows, gains = self.steps[number]
            if rows:
                self.left = np.concatenate([self.left, rows[-1]])
                self.back.append((number, rows[-1], step.labels[:, -1:], gains[-1], int(step.sizes[-1])))
                self.released[:, rows[-1]] = -1
                self.score -= gains[-1]
                self.steps[number] = (
                    LocalStep(step.levels, step.labels[:, :-1], step.sizes[:-1]),
                    rows[:-1],
                    gains[:-1],
                )
                return True
        return False


def _along_chains(file: KeyedFile) -> Iterator[Levels]:
    """Yield choices of levels on chains from the values to the root: keys that lose least first, each key last on one chain."""
    keys, losses = file.keys, []
    for key, codes in zip(file.keys, file.codes, strict=True):
        mass = np.bincount(codes, file.counts, len(key.values) + 1)
        losses.append([1 - float((gains * mass).sum() / max(mass[:-1].sum(), 1)) for gains in key.gains])
    chains = []
    for spared in itertools.chain(
        [()], itertools.combinations(range(len(keys)), 1), itertools.combinations(range(len(keys)), 2)
    ):
        at, chain = [0] * len(keys), [(0,) * len(keys)]
        while any(v < key.height for v, key in zip(at, keys, strict=True)):
            steps = [
                (j in spared, losses[j][at[j] + 1] - losses[j][at[j]], j)
                for j, key in enumerate(keys)
                if at[j] < key.height
            ]
            at[min(steps)[2]] += 1
            chain.append(tuple(at))
        chains.append(chain)
    seen = dict.fromkeys(itertools.chain.from_iterable(chains))
    loss = {node: sum(losses[j][v] * file.weights[j] for j, v in enumerate(node)) for node in seen}
    yield from sorted(seen, key=lambda node: (loss[node], node))
