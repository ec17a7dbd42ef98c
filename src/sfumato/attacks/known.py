"""What the snooper knows of his targets, beside what was released: the two sides of a linkage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.keys import key_names
from sfumato.classes import Missing
from sfumato.contract import Draws, Release, Snooper, param
from sfumato.engines import Column, Kind
from sfumato.errors import DataError, NotApplicable, ParameterError, some, unknown_name
from sfumato.microdata import Batch, Microdata, missing_of
from sfumato.schema import Scale

Numbers = NDArray[np.float64]
Ids = NDArray[np.int64]
Coded = tuple[NDArray[np.int32], Sequence[Any]]

_TO_LABELS = [Kind.NUMBER, Kind.CATEGORY]
"""Numbers that he knows, and labels of intervals in the release."""
_NUMBERS = {Kind.NUMBER, Kind.BOOLEAN}


@dataclass(frozen=True, eq=False)
class Key:
    """One key as the snooper knows it and as it was released: numbers, or codes of categories; NaN is missing."""

    name: str
    ordered: bool
    """Whether the numbers can be subtracted; if not, they are codes, which agree or do not."""
    known: Numbers
    """Of each target, shape (m,)."""
    released: Numbers
    """Of each released record, shape (t,)."""
    values: Sequence[Any] = ()
    """What the codes stand for."""


@dataclass(frozen=True, eq=False)
class Known:
    """The snooper's file of m targets and the released file of t records, both in the order of their ids."""

    targets: Ids
    """Original record of each target, shape (m,)."""
    released: Ids
    """Original record of each released one, shape (t,); negative for simulated records."""
    keys: tuple[Key, ...]

    @property
    def own(self) -> Ids:
        """Row of each target's own record in the release, shape (m,); -1 if it was not released."""
        place = np.searchsorted(self.released, self.targets)
        place = np.minimum(place, max(len(self.released) - 1, 0))
        found = self.released[place] == self.targets if len(self.released) else np.zeros(len(self.targets), bool)
        return np.where(found, place, -1)


def link_column() -> Any:
    """Declare the parameter `link`, which every linkage attack has."""
    return param(
        default=None,
        doc="column that tells which original record each record of the snooper's own file is; an identifier, if none",
        columns="one",
        holds="anything",
    )


def known_keys(
    outcome: Release,
    snooper: Snooper,
    draws: Draws,
    missing: Missing,
    link: str | None = None,
    names: tuple[str, ...] | None = None,
) -> Known:
    """Return what the snooper has to compare: his keys of each target, and those of each released record.

    He has a file of his own (`snooper.external`; `link` names the column that tells who is who), or else the original's keys;
    of a random share of the persons (`coverage`), each value replaced with some probability (`errors`) by that of a random
    record of his. Numbers are known to the middle of their interval (`precision`). A key is compared as numbers if its scale is
    ordered and both files have numbers for it; else as categories. Where a key was recoded, he recodes what he knows in the
    same way. Under "ignored" records with a missing key are left out on both sides.
    """
    outcome.check_aligned("a linkage attack")
    names = key_names(outcome, snooper) if names is None else names
    released, rows = _sorted(outcome.masked.batch(names))
    theirs, places = _sorted(_own_file(outcome, snooper, names, link).batch(names))
    targets = theirs.ids[places]
    inside = targets >= 0
    if snooper.coverage < 1 and inside.any():
        persons = np.flatnonzero(inside)
        count = max(round(snooper.coverage * len(persons)), 1)
        inside[:] = False
        inside[persons[np.argsort(draws.uniforms(targets[persons], "covered"), kind="stable")[:count]]] = True
    keys = []
    for name in names:
        key = _compared(name, outcome, snooper, theirs, released)
        known, there = key.known[places], key.released[rows]
        if snooper.errors > 0:
            known = _with_errors(known, targets, name, snooper.errors, draws)
        keys.append(Key(name, key.ordered, known[inside], there, key.values))
    found = Known(targets[inside], released.ids[rows], tuple(keys))
    return _complete(found) if missing == "ignored" else found


def _sorted(batch: Batch) -> tuple[Batch, Ids]:
    """Return records with the row numbers that put them into the order of their ids: the same on every engine."""
    return batch, np.argsort(batch.ids, kind="stable")


def _own_file(outcome: Release, snooper: Snooper, names: tuple[str, ...], link: str | None) -> Microdata:
    """Return the snooper's file, each record with the id of its original: negative if there is none."""
    external = snooper.external
    if external is None:
        return outcome.original
    for name in names:
        if name not in external.engine.kinds:
            raise NotApplicable(unknown_name("key", name, external.engine.kinds, "the snooper's own file"))
    if link is None:
        both = [n for n in outcome.original.schema.names(role="identifier") if n in external.engine.kinds]
        if len(both) != 1:
            raise NotApplicable(
                "nobody can tell which original record each record of the snooper's own file is. Name a column that both "
                "files have with link=..., or say link='rows' if they are in the same order."
            )
        link = both[0]
    for data, where in ((outcome.original, "the original"), (external, "the snooper's own file")):
        if link != "rows" and link not in data.engine.kinds:
            raise NotApplicable(unknown_name("column", link, data.engine.kinds, where))
    if link == "rows" and len(external) != len(outcome.original):
        raise NotApplicable(
            f"link='rows' needs files of the same length, but the original has {some(len(outcome.original))} and the snooper's "
            f"own file {some(len(external))}. Name a column that both have with link=...."
        )
    return Release.of(outcome.original, external, align=link).masked


def _compared(name: str, outcome: Release, snooper: Snooper, theirs: Batch, released: Batch) -> Key:
    """Return a key of both files as numbers or as codes, in the order of the batches."""
    sides = ((theirs, theirs.column(name)), (released, released.column(name)))
    _check_kinds(name, outcome, snooper, [column.kind for _, column in sides])
    numeric = all(_has_numbers(column, batch, name) for batch, column in sides)
    rounded = name in snooper.precision
    if rounded and not numeric:
        kind = next(column.kind for batch, column in sides if not _has_numbers(column, batch, name))
        raise ParameterError(f"precision is the width of intervals of numbers, but '{name}' holds {kind}.")
    if numeric and (rounded or outcome.original.schema[name].scale is Scale.ORDERED):
        known, there = (batch.numbers(name) for batch, _ in sides)
        if np.isinf(known).any() or np.isinf(there).any():
            raise DataError(f"key '{name}' holds infinite values, which cannot be compared. Set them to missing.")
        if rounded:
            known = (np.floor(known / snooper.precision[name]) + 0.5) * snooper.precision[name]
        kinds = [column.kind for _, column in sides]
        return Key(name, True, _in_intervals(name, outcome, known, there) if kinds == _TO_LABELS else known, there)
    mine, there_coded = (_coded(column, batch, name) for batch, column in sides)
    mine = _recoded_alike(name, outcome, mine, there_coded)
    return Key(name, False, *_in_one_numbering(mine, there_coded))


def _check_kinds(name: str, outcome: Release, snooper: Snooper, kinds: list[Kind]) -> None:
    """Refuse values that cannot be compared, and a file of the snooper's own with another kind of values than both others."""
    if Kind.OTHER in kinds:
        raise DataError(
            f"key '{name}' holds {Kind.OTHER}, which cannot be compared. Leave it out of the snooper's keys."
        )
    here, original = kinds[0], outcome.original.kind(name)
    if snooper.external is not None and here not in (original, kinds[1]) and {here, original} != _NUMBERS:
        raise NotApplicable(
            f"key '{name}' holds {here} in the snooper's own file, but {original} in the original, so no two would agree. "
            "Write it there as it is in the original, or as it was released."
        )


def _has_numbers(column: Column, batch: Batch, name: str) -> bool:
    """Whether a column holds numbers, or categories that the schema gives numbers, all of them."""
    attribute = batch.schema[name]
    if column.kind is Kind.CATEGORY and attribute.values:
        codes, values = _coded(column, batch, name)
        return all(str(values[code]) in attribute.values for code in np.unique(codes) if code >= 0)
    return column.kind in _NUMBERS


def _in_intervals(name: str, outcome: Release, known: Numbers, released: Numbers) -> Numbers:
    """Return for each number he knows the one that stands for its interval in the release.

    If numbers became labels by more than intervals, noise say, there is none: the number itself.
    """
    before = outcome.original.numbers(name)
    left, right = outcome.matched
    old, new = (before, released) if left is None else (before[left], released[right])
    both = ~(np.isnan(old) | np.isnan(new))
    pairs = np.unique(np.column_stack([old[both], new[both]]), axis=0)  # sorted
    values, labels = pairs.T
    if not len(pairs) or (np.diff(values) == 0).any() or (np.diff(labels) < 0).any():
        return known
    above = np.minimum(np.searchsorted(values, known), len(values) - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(known - values[below] <= values[above] - known, below, above)
    return np.where(np.isnan(known), np.nan, labels[nearest])


def _coded(column: Column, batch: Batch, name: str) -> Coded:
    """Return the codes of a column and what they stand for; missing is -1, whatever the way it was told."""
    codes, values = column.codes
    return np.where(missing_of(column, batch.schema[name]), np.int32(-1), codes), values


def _recoded_alike(name: str, outcome: Release, mine: Coded, released: Coded) -> Coded:
    """Recode what the snooper knows as the release was: each original value became what most records with it have there.

    What is written as in the release stays; what is in neither file is missing. It is no recoding if there are only values that
    were not there before, as many as records: noise on a code, say.
    """
    original = outcome.original.batch([name])
    before, values = _coded(original.column(name), original, name)
    original_values, there = set(values), {released[1][code] for code in np.unique(released[0]) if code >= 0}
    if there <= original_values:
        return mine
    left, right = outcome.matched
    old, new = (before, released[0]) if left is None else (before[left], released[0][right])
    both = (old >= 0) & (new >= 0)
    width = len(released[1])
    pairs, counts = np.unique(old[both].astype(np.int64) * width + new[both], return_counts=True)
    order = np.lexsort([pairs, -counts])
    first, at = np.unique(pairs[order] // width, return_index=True)
    coarser = len(np.unique(new[both])) - len(first)
    if coarser > 0 or (coarser == 0 and both.sum() < 2 * len(first)):
        return mine
    became = {value: value for value in there}
    became |= {values[v]: released[1][pairs[order[a]] % width] for v, a in zip(first, at, strict=True)}
    codes, names = mine
    known = {v: i for i, v in enumerate(dict.fromkeys(became.values()))}
    table = np.array([*(known[became[v]] if v in became else -1 for v in names), -1], np.int32)
    return table[codes], list(known)


def _in_one_numbering(mine: Coded, released: Coded) -> tuple[Numbers, Numbers, Sequence[Any]]:
    """Return both files' codes in one numbering, in the order of the released values, and these; NaN is missing."""
    numbering = {value: i for i, value in enumerate(released[1])}
    for value in mine[1]:
        numbering.setdefault(value, len(numbering))
    table = np.array([*(numbering[v] for v in mine[1]), np.nan])
    there = released[0].astype(np.float64)
    there[released[0] < 0] = np.nan
    return table[mine[0]], there, tuple(numbering)


def _with_errors(known: Numbers, ids: Ids, name: str, share: float, draws: Draws) -> Numbers:
    """Replace values, each with a probability, by that of a random record that has one."""
    pool = known[~np.isnan(known)]
    wrong = ~np.isnan(known) & (draws.uniforms(ids, f"{name} wrong") < share)
    drawn = (draws.uniforms(ids[wrong], f"{name} value") * len(pool)).astype(np.int64)
    out = known.copy()
    out[wrong] = pool[drawn]
    return out


def _complete(found: Known) -> Known:
    """Leave out targets and released records with a missing key."""
    here, there = np.ones(len(found.targets), bool), np.ones(len(found.released), bool)
    for key in found.keys:
        here &= ~np.isnan(key.known)
        there &= ~np.isnan(key.released)
    keys = tuple(Key(k.name, k.ordered, k.known[here], k.released[there], k.values) for k in found.keys)
    return Known(found.targets[here], found.released[there], keys)
