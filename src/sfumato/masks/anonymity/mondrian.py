"""Mondrian: the file is cut, key by key, into boxes that hold; each record is released as its box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

import numpy as np
from typing_extensions import override

from sfumato.contract import param
from sfumato.data import Kind
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, refuse_unknown
from sfumato.kernels.classes import find_rows
from sfumato.masks.anonymity.candidates import KeyedFile, Rules
from sfumato.masks.anonymity.generalisation import Generalisation
from sfumato.masks.anonymity.key_levels import KeyLevels, RecodingSolution
from sfumato.typing import Codes, Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class BoxSolution(RecodingSolution):
    """The boxes of a partition, b of them; confidential, as it counts records."""

    keys: tuple[KeyLevels, ...]
    """With the labels of the boxes."""
    boxes: Codes
    """The label of each key of each box, shape (keys, b)."""
    ends: Whole
    """The first and the last code that a box covers of an ordered key, shape (keys, 2, b); -1 where its label is of a hierarchy."""
    sizes: Whole
    """Records of each box."""
    codes: Codes
    """The rows of the file, shape (keys, r)."""
    place: Whole
    """The box of each, shape (r,)."""
    score: float

    def relabelled(self, keys: Sequence[KeyLevels]) -> Sequence[KeyLevels]:
        """Return the keys with the labels of the boxes: those of levels come first in both, as far as these were known."""
        return [_with_labels(key, own) for key, own in zip(keys, self.keys, strict=True)]

    def words(self) -> str:
        """Return in words how good it is."""
        return f"granularity {self.score:.4f}, {len(self.sizes):,} boxes"

    def labels(self, keys: Sequence[KeyLevels], codes: Codes) -> Codes:
        """Return the labels of records, shape (keys, n): as in the file, or of the smallest box that covers a new one, else -1."""
        old = np.stack(
            [np.where(c == len(k.values), len(o.values), c) for o, k, c in zip(self.keys, keys, codes, strict=True)]
        )
        new = np.any(
            [(c >= len(o.values)) & (c < len(k.values)) for o, k, c in zip(self.keys, keys, codes, strict=True)], axis=0
        )
        found = find_rows(list(self.codes), list(old)) if self.codes.shape[1] else np.full(codes.shape[1], -1)
        box = np.where((found >= 0) & ~new, self.place[found], -1)
        order = np.argsort(self.sizes, kind="stable")
        for i in np.flatnonzero(box < 0).tolist():
            inside = np.ones(len(order), bool)
            for j, key in enumerate(keys):
                inside &= self._covers(j, key, int(codes[j, i]))[order]
            if inside.any():
                box[i] = order[np.argmax(inside)]
        return np.where(box >= 0, self.boxes[:, box], -1).astype(np.int32)

    def _covers(self, j: int, key: KeyLevels, code: int) -> Flags:
        """Return which boxes cover a value of a key, shape (b,)."""
        path = key.paths[:, code]
        if key.places is None or code == len(key.values) or (self.ends[j] < 0).all():
            return np.isin(self.boxes[j], path)
        low, high = self.ends[j]
        ranged = low >= 0
        own, place = self.keys[j].places, key.places[code]
        inside = (own[low] <= place) & (place <= own[high]) if own is not None else np.zeros(len(low), bool)
        return np.where(ranged, inside, np.isin(self.boxes[j], path))


def _with_labels(key: KeyLevels, own: KeyLevels) -> KeyLevels:
    """Return a key whose labels begin with those of another, so that the other's numbers of labels hold."""
    labels = [*own.labels, *(label for label in key.labels if label not in own.labels)]
    place = np.array([labels.index(label) for label in key.labels])
    losses = np.full(len(labels), np.nan)
    losses[place], losses[: len(own.labels)] = key.losses, own.losses
    return replace(key, labels=tuple(labels), losses=losses, paths=place[key.paths].astype(np.int32))


class Mondrian(Generalisation):
    """Multidimensional partition (LeFevre, DeWitt and Ramakrishnan 2006): the file is cut into boxes as long as the models hold.

    Each time the key is cut on which a box is widest. A key in order is cut at the median, and released as a range of the values
    that occur in the box; a key with a hierarchy is cut into the labels one level below, and released as the lowest label that
    covers the box. Labels that do not hold alone stay together under the label of the box. Strict cuts put equal values on one side;
    relaxed ones may divide the records at the median among both sides.

    Examples
    --------
    >>> from sfumato import Draws
    >>> from sfumato.datasets import teachers
    >>> release = Mondrian(k=5).apply(teachers(2_000), Draws(1))
    >>> len(release.masked)
    2000
    """

    _: KW_ONLY
    cuts: Literal["strict", "relaxed"] = param(
        default="strict", doc="whether equal values of an ordered key stay on one side of a cut"
    )
    ranges: tuple[str, ...] = param(
        default=(), doc="keys with an order and a hierarchy that are cut into ranges, not along the hierarchy", columns="many",
        holds="categories",
    )  # fmt: skip

    @override
    def solve(self, file: KeyedFile, data: Microdata) -> BoxSolution:
        names = {key.name: key for key in file.keys}
        refuse_unknown("column", names, "the keys", *self.ranges)
        if plain := [name for name in self.ranges if names[name].places is None]:
            raise DataError(
                f"the values of '{plain[0]}' have no order, so they cannot be cut into ranges. Leave it out of ranges."
            )
        ordered = [
            key.places is not None and (data.schema[key.name].hierarchy is None or key.name in self.ranges)
            for key in file.keys
        ]
        numeric = [data.kind(key.name) is Kind.NUMBER for key in file.keys]
        partition = Partition(file.all_released(), self.rules(), np.array(ordered), self.cuts == "relaxed")
        if file.own and not partition.holds():
            raise DataError(
                "the models cannot be reached, even where all records look the same. Nothing is released. Loosen a model."
            )
        partition.run()
        return partition.solution(numeric)


class Partition:
    """Boxes of rows that are cut all at once, round by round."""

    def __init__(self, file: KeyedFile, rules: Rules, ordered: Flags, relaxed: bool) -> None:
        self.file, self.rules, self.ordered, self.relaxed = file, rules, ordered, relaxed
        self.box = np.zeros(file.own, np.int64)
        self.widths, self.lowest, self.highest = (np.zeros((len(file.keys), 1)) for _ in range(3))
        self.failed = np.zeros((len(file.keys), 1), bool)
        self._measure(np.arange(file.own), np.zeros(1, np.int64))

    def _measure(self, rows: Whole, boxes: Whole) -> None:
        """Work out how wide some boxes are on each key, and their first and last code or their lowest common level."""
        place = np.searchsorted(boxes, self.box[rows])
        order = np.argsort(place, kind="stable")
        starts = np.searchsorted(place[order], np.arange(len(boxes)))
        for j, key in enumerate(self.file.keys):
            codes = self.file.codes[j, rows[order]]
            if self.ordered[j]:
                low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
                known = np.where(codes == len(key.values), -1, codes)
                mixed = (high == len(key.values)) & (low < high)
                self.lowest[j, boxes], self.highest[j, boxes] = (
                    low,
                    np.where(mixed, np.maximum.reduceat(known, starts), high),
                )
                width = (high - low) / max(len(key.values) - 1, 1)
                self.widths[j, boxes] = np.where(mixed, 2.0, width)
                continue
            level = np.full(len(boxes), key.height)
            for v in range(key.height - 1, -1, -1):
                labels = key.paths[v][codes]
                one = np.minimum.reduceat(labels, starts) == np.maximum.reduceat(labels, starts)
                level = np.where(one, v, level)
            self.lowest[j, boxes] = self.highest[j, boxes] = level
            label = key.paths[level, codes[starts]]
            self.widths[j, boxes] = np.where(level > 0, np.maximum(np.nan_to_num(key.losses[label]), 1e-9), 0.0)

    def holds(self) -> bool:
        """Whether the models hold where all rows are one box."""
        return bool(self._hold(np.zeros(self.file.own, np.int64), np.arange(self.file.own)).all())

    def run(self) -> None:
        """Cut as long as a cut leaves boxes that hold."""
        while self.file.own:
            open_ = np.where(self.failed, 0.0, self.widths)
            active = np.flatnonzero(open_.max(axis=0) > 0)
            if not len(active):
                break
            self._round(active, open_[:, active].argmax(axis=0))

    def _hold(self, groups: Whole, rows: Whole) -> Flags:
        """Return which groups of some rows hold, shape (groups,)."""
        file = self.file if len(rows) == self.file.own else self.file.among(rows)
        candidate = file.grouped(groups)
        held = candidate.judge(Rules(self.rules.k, self.rules.single), file.records).kept
        if len(rows) == self.file.own and not all(limit.holds(candidate.table) for limit in self.rules.limits):
            return np.zeros(len(held), bool)
        return held

    def _parts(self, rows: Whole, part: Whole) -> tuple[Whole, Whole, Flags]:
        """Return the part of each row, numbered from 0 by box, a row of each part, and whether it holds."""
        pairs = self.box[rows] * (int(part.max()) + 2) + part[rows]
        _, first, groups = np.unique(pairs, return_index=True, return_inverse=True)
        return groups, first, self._hold(groups, rows)

    def _remainders(self, rows: Whole, chosen: Whole, groups: Whole, first: Whole, holds: Flags) -> Whole:
        """Return the rows of labels that do not hold alone, where others of the box do: together they keep the label of the box."""
        parents = self.box[rows[first]]
        along = ~self.ordered[chosen]
        some = np.bincount(parents, holds, len(along)) > 0
        return np.asarray(rows[~holds[groups] & (some & along)[self.box[rows]]])

    def _within_limits(self, good: Flags, parts: Whole) -> Flags:
        """Return which boxes to cut so that the limits for the whole file hold: the larger half of them, until they do."""
        sizes = np.bincount(self.box, self.file.counts, len(good))
        while good.any():
            cut = np.where(good[self.box], parts, -1)
            _, groups = np.unique(self.box * (int(parts.max()) + 2) + cut + 1, return_inverse=True)
            if self._hold(groups, np.arange(self.file.own)).any():
                break
            chosen = np.flatnonzero(good)
            good = good.copy()
            good[chosen[np.argsort(-sizes[chosen], kind="stable")][len(chosen) // 2 :]] = False
        return good

    def _round(self, active: Whole, keys: Whole) -> None:
        """Cut each active box on the key that was chosen for it, where all parts hold."""
        part = np.full(len(self.box), -1, np.int64)
        rows_of = np.isin(self.box, active)
        chosen = np.full(self.widths.shape[1], -1)
        chosen[active] = keys
        of_row = np.where(rows_of, chosen[self.box], -1)
        for j in np.unique(keys).tolist():
            rows = np.flatnonzero(of_row == j)
            part[rows] = self._sides(j, rows)
        rows = np.flatnonzero(rows_of)
        groups, first, holds = self._parts(rows, part)
        if len(again := self._remainders(rows, chosen, groups, first, holds)):
            part[again] = int(part.max()) + 1
            groups, first, holds = self._parts(rows, part)
        parents = self.box[rows[first]]
        count = np.bincount(parents, minlength=len(chosen))
        good = (np.bincount(parents, holds, len(chosen)) == count) & (count > 1)
        if self.rules.limits:
            good = self._within_limits(good, part)
        bad = active[~good[active]]
        self.failed[chosen[bad], bad] = True
        new = np.flatnonzero(good[parents])
        if not len(new):
            return
        later = np.concatenate([[True], parents[new][1:] != parents[new][:-1]])
        number = np.where(later, parents[new], self.widths.shape[1] + np.cumsum(~later) - 1)
        moved = np.full(len(first), -1, np.int64)
        moved[new] = number
        grown = int((~later).sum())
        for name in ("widths", "lowest", "highest"):
            setattr(self, name, np.hstack([getattr(self, name), np.zeros((len(self.file.keys), grown))]))
        self.failed = np.hstack([self.failed, np.zeros((len(self.file.keys), grown), bool)])
        mine = moved[groups] >= 0
        self.box[rows[mine]] = moved[groups][mine]
        self._measure(rows[mine], np.sort(number))

    def _sides(self, j: int, rows: Whole) -> Whole:
        """Return the part of its box that each row belongs to after a cut of key j, shape (rows,)."""
        key, codes, box = self.file.keys[j], self.file.codes[j, rows], self.box[rows]
        if not self.ordered[j]:
            level = self.lowest[j, box].astype(np.int64)
            return np.asarray(key.paths[level - 1, codes], np.int64)
        missing = codes == len(key.values)
        mixed = self.widths[j, box] > 1
        order = np.lexsort((rows, codes, box))
        counts = self.file.counts[rows[order]].astype(np.float64)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(box[order]) != 0]))
        sizes = np.diff(np.concatenate([starts, [len(order)]]))
        upto = np.cumsum(counts)
        before = np.repeat(upto[starts] - counts[starts], sizes)
        total = np.repeat(np.add.reduceat(counts, starts), sizes)
        middle = upto - before - counts / 2
        side = np.empty(len(rows), np.int64)
        if self.relaxed:
            side[order] = middle > total / 2
        else:
            side[order] = self._strict(codes[order], middle, total, starts, sizes)
        return np.where(mixed, missing, side)

    @staticmethod
    def _strict(codes: Codes, middle: Numbers, total: Numbers, starts: Whole, sizes: Whole) -> Whole:
        """Return the side of rows in order of box and code: up to the median value or beyond, so that neither side is empty."""
        median = np.maximum.reduceat(np.where(middle <= total / 2, codes, -1), starts)
        last = codes[starts + sizes - 1]
        below = np.maximum.reduceat(np.where(codes < np.repeat(last, sizes), codes, -1), starts)
        return np.asarray(codes > np.repeat(np.minimum(median, below), sizes), np.int64)

    def sizes(self) -> Whole:
        """Return the records of each box."""
        return np.bincount(self.box, self.file.counts, self.widths.shape[1]).astype(np.int64)

    def labels(self) -> Codes:
        """Return the label of each key of each box that was cut along hierarchies, shape (keys, b)."""
        first = np.zeros(self.widths.shape[1], np.int64)
        first[self.box] = np.arange(self.file.own)
        levels = self.lowest.astype(np.int64)
        return np.stack([key.paths[levels[j], self.file.codes[j, first]] for j, key in enumerate(self.file.keys)])

    def score(self) -> float:
        """Return what boxes that were cut along hierarchies add to the granularity."""
        levels, total = self.lowest.astype(np.int64), 0.0
        for j, key in enumerate(self.file.keys):
            gains = key.gains[levels[j, self.box], self.file.codes[j]]
            total += float(self.file.scale[j] * (gains * self.file.counts).sum())
        return total

    def solution(self, numeric: Sequence[bool]) -> BoxSolution:
        """Return the boxes with their labels."""
        file, count = self.file, self.widths.shape[1]
        first = np.zeros(count, np.int64)
        first[self.box] = np.arange(file.own)
        boxes, ends = np.zeros((len(file.keys), count), np.int32), np.full((len(file.keys), 2, count), -1)
        keys, score = [], file.unknown
        for j, key in enumerate(file.keys):
            if not self.ordered[j]:
                boxes[j] = key.paths[self.lowest[j].astype(np.int64), file.codes[j, first]] if file.own else 0
                keys.append(key)
            else:
                ranged, boxes[j], ends[j] = self._ranges(j, key, numeric[j])
                keys.append(ranged)
            gains = np.nan_to_num(1 - keys[-1].losses[boxes[j]], nan=0.0)
            known = file.codes[j] < len(key.values)
            score += float(file.scale[j] * (gains[self.box[known]] * file.counts[known]).sum())
        return BoxSolution(tuple(keys), boxes, ends, self.sizes(), file.codes, self.box, score)

    def _ranges(self, j: int, key: KeyLevels, numeric: bool) -> tuple[KeyLevels, Codes, Whole]:
        """Return an ordered key with the labels of ranges, the label of each box, and the codes where it begins and ends."""
        low, high = self.lowest[j].astype(np.int64), self.highest[j].astype(np.int64)
        mixed, gap = self.widths[j] > 1, low == len(key.values)
        labels, losses = list(key.labels), list(key.losses)
        place = {label: i for i, label in enumerate(labels)}
        found = np.empty(len(low), np.int32)
        for i, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            label: str | None = key.labels[key.root]
            if gap[i]:
                label = None
            elif not mixed[i]:
                ends = key.values[a], key.values[b]
                label = ends[0] if a == b else f"[{ends[0]}, {ends[1]}]" if numeric else f"{ends[0]} to {ends[1]}"
            if label not in place:
                place[label] = len(labels)
                labels.append(label)
                losses.append((b - a) / max(len(key.values) - 1, 1))
            found[i] = place[label]
        plain = mixed | gap
        return (
            replace(key, labels=tuple(labels), losses=np.array(losses)),
            found,
            np.stack([np.where(plain, -1, low), np.where(plain, -1, high)]),
        )
