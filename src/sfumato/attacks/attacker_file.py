"""The attacker's file: whom the snooper has, what he knows of them and how well, in the terms of the release.

First the keys that he looks records up by; then how errors, coverage and precision change what he knows, and what a recoding made
of each value. On these stand three views: pairs of keys for record linkage, people to look up for attribution, and points for
distances. Categories of several files have one numbering in all of them (`common_codes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.contract import Draws, Release, Snooper, param
from sfumato.data import Batch, Column, Kind, Microdata
from sfumato.data.classes import Missing, classes_of, common_codes
from sfumato.errors import DataError, NotApplicable, ParameterError, plural, refuse_unknown, unknown_name
from sfumato.schema import Role, Scale
from sfumato.typing import Coded, Flags, Numbers, Whole

Value = TypeVar("Value", bound=np.generic)

RULES = {
    "wildcard": "a missing key matches anything",
    "value": "missing is a value of its own",
    "ignored": "records with a missing key are left out",
}
"""The one rule for missing keys, in words."""


def missing_rule() -> Any:
    """Declare the parameter `missing`, which every measure from counts has."""
    return param(
        default="wildcard",
        doc="what a missing key means: it matches anything, is a value of its own, or its record is left out",
        choices=tuple(RULES),
    )


def link_column() -> Any:
    """Declare the parameter `link`, which every linkage attack has."""
    return param(
        default=None,
        doc="column that tells which original record each record of the snooper's own file is; an identifier, if none",
        columns="one",
        holds="anything",
    )


def key_names(outcome: Release, snooper: Snooper) -> tuple[str, ...]:
    """Return the columns that the snooper looks for records by; refuse if there are none, or the release lacks one."""
    schema, released = outcome.original.schema, outcome.masked.engine.kinds
    names = snooper.keys or schema.names(role="key")
    if not names:
        raise NotApplicable(
            "there are no keys: no column has the role 'key', and the snooper has none. "
            "Name what a snooper may know of a person with Snooper(keys=...), or give columns the role 'key' in the schema."
        )
    for name in names:
        if name in released:
            continue
        if name in schema:
            raise NotApplicable(
                f"key '{name}' is not in the released file, so nobody can look for records by it. "
                "Leave it out of the snooper's keys."
            )
        raise NotApplicable(unknown_name("key", name, released, "the released file"))
    for name in snooper.precision:
        if name not in names:
            raise NotApplicable(unknown_name("key", name, names, "the snooper's keys, which his precision is about"))
    return names


def attribution_keys(outcome: Release, snooper: Snooper, column: str) -> tuple[str, ...]:
    """Return the keys that a snooper looks a person up by who wants to know a column; refuse what cannot be compared."""
    schema, released = outcome.original.schema, outcome.masked.engine.kinds
    if column not in schema:
        raise NotApplicable(unknown_name("column", column, schema.names(), "the original file"))
    if column not in released:
        raise NotApplicable(f"column '{column}' is not in the released file, so nothing is attributed from it.")
    if column in snooper.keys:
        raise NotApplicable(f"the snooper is said to know '{column}' already. Leave it out of his keys.")
    names = tuple(name for name in key_names(outcome, snooper) if name != column)
    if not names:
        raise NotApplicable(
            f"there are no keys besides '{column}'. Name what the snooper knows with Snooper(keys=...)."
        )
    before, after = outcome.original.kind(column), outcome.masked.kind(column)
    if Kind.OTHER in (before, after):
        raise NotApplicable(f"column '{column}' holds {Kind.OTHER}, which cannot be compared.")
    if before is not after:
        raise NotApplicable(
            f"column '{column}' holds {before} in the original and {after} in the release, so nobody can tell which answers "
            "are right. Recode the original alike, and compare with that."
        )
    check_keys(outcome, snooper, names)
    return names


def check_keys(outcome: Release, snooper: Snooper, names: Sequence[str]) -> None:
    """Refuse keys by which nobody can be looked up: other kinds of values in the release, where no recoding can be learned."""
    for name in names:
        if name not in outcome.original.schema:
            raise NotApplicable(unknown_name("key", name, outcome.original.schema.names(), "the original file"))
        before, after = outcome.original.kind(name), outcome.masked.kind(name)
        if Kind.OTHER in (before, after):
            raise NotApplicable(
                f"key '{name}' holds {Kind.OTHER}, which cannot be compared. Leave it out of the snooper's keys."
            )
        if name in snooper.precision and (before is not Kind.NUMBER or after is not Kind.NUMBER):
            _refuse_precision(name, after if before is Kind.NUMBER else before)
        if before is not after and not (outcome.aligned and after is Kind.CATEGORY):
            raise NotApplicable(
                f"key '{name}' holds {before} in the original and {after} in the release. A snooper recodes what he knows in "
                "the same way; for that, say which record is whose with Release.of(original, released, align=...), or recode "
                "the key alike in the original file."
            )


def check_in_common(name: str, mine: Coded, theirs: Coded) -> None:
    """Refuse a key of which the two files have no value in common, though both have some: nobody can be looked up by it."""
    here, there = ({values[c] for c in np.unique(codes) if c >= 0} for codes, values in (mine, theirs))
    if not here or not there or here & there:
        return
    if all(isinstance(v, int | float) for v in here):
        way = f"Say how well the snooper knows it, with Snooper(precision={{'{name}': ...}})"
    else:
        way = (
            "If it was recoded, say which record is whose with Release.of(original, released, align=...), or recode the key "
            "alike in the original file"
        )
    raise NotApplicable(
        f"key '{name}' has no value that is in both the original and the released file, so nobody can be looked up by it, which "
        f"does not mean that the file is safe. {way}; or leave the key out of the snooper's keys."
    )


def _refuse_precision(name: str, kind: Kind) -> NoReturn:
    raise ParameterError(f"precision is the width of intervals of numbers, but '{name}' holds {kind}.")


# --- How well the snooper knows the keys of his targets, and how he recodes them as the release was: for every attack alike.


def with_errors(
    values: NDArray[Value], missing: Flags, ids: Whole, name: str, share: float, draws: Draws
) -> NDArray[Value]:
    """Replace each value of a key, with the probability `share`, by that of a random record that has one; shape (n,)."""
    if share <= 0:
        return values
    order = np.argsort(ids, kind="stable")  # the same on every engine
    pool = values[order][~missing[order]]
    wrong = ~missing & (draws.uniforms(ids, f"{name} wrong") < share)
    drawn = (draws.uniforms(ids[wrong], f"{name} value") * len(pool)).astype(np.int64)
    out = values.copy()
    out[wrong] = pool[drawn]
    return out


def covered(ids: Whole, share: float, draws: Draws) -> Flags:
    """Return whom the snooper has, shape (n,): a random share of the persons, at least one."""
    if share >= 1 or not len(ids):
        return np.ones(len(ids), bool)
    inside = np.zeros(len(ids), bool)
    count = max(round(share * len(ids)), 1)
    inside[np.argsort(draws.uniforms(ids, "covered"), kind="stable")[:count]] = True
    return inside


def to_precision(values: Numbers, width: float | None) -> Numbers:
    """Return the middle of the interval, of this width, that each number lies in; the number itself without a width."""
    return values if width is None else (np.floor(values / width) + 0.5) * width


def _recoding(outcome: Release, original: Coded, released: Coded, last: bool) -> tuple[dict[Any, Any], int, int]:
    """Return what became of each original value in most of its records, how many values that gave, and how many records tell.

    Of released values that are equally frequent the first is taken, or the last.
    """
    left, right = outcome.matched
    old, new = (original[0], released[0]) if left is None else (original[0][left], released[0][right])
    both, width = (old >= 0) & (new >= 0), len(released[1])
    pairs, counts = np.unique(old[both].astype(np.int64) * width + new[both], return_counts=True)
    pairs = pairs[np.lexsort([-pairs if last else pairs, -counts])]
    values, first = np.unique(pairs // width, return_index=True)
    table = {original[1][v]: released[1][pairs[at] % width] for v, at in zip(values, first, strict=True)}
    return table, len(np.unique(pairs % width)), int(counts.sum())


# --- Pairs of keys for record linkage: what the snooper knows of each target, and what each released record says.

_TO_LABELS = [Kind.NUMBER, Kind.CATEGORY]
"""Numbers that he knows, and labels of intervals in the release."""
_NUMBERS = {Kind.NUMBER, Kind.BOOLEAN}


@dataclass(frozen=True, eq=False)
class LinkageKey:
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

    def fill(self, value: float) -> LinkageKey:
        """Return the key with a number in place of what is missing, on both sides."""
        known, released = (np.where(np.isnan(side), value, side) for side in (self.known, self.released))
        return replace(self, known=known, released=released)


@dataclass(frozen=True, eq=False)
class LinkageFiles:
    """The snooper's file of m targets and the released file of t records, both in the order of their ids."""

    targets: Whole
    """Original record of each target, shape (m,)."""
    released: Whole
    """Original record of each released one, shape (t,); negative for simulated records."""
    keys: tuple[LinkageKey, ...]

    @property
    def own(self) -> Whole:
        """Row of each target's own record in the release, shape (m,); -1 if it was not released."""
        place = np.searchsorted(self.released, self.targets)
        place = np.minimum(place, max(len(self.released) - 1, 0))
        found = self.released[place] == self.targets if len(self.released) else np.zeros(len(self.targets), bool)
        return np.where(found, place, -1)

    def take(self, targets: Flags, released: Flags) -> LinkageFiles:
        """Return some of the targets, and some of the released records."""
        keys = tuple(replace(k, known=k.known[targets], released=k.released[released]) for k in self.keys)
        return LinkageFiles(self.targets[targets], self.released[released], keys)


def linkage_keys(
    outcome: Release,
    snooper: Snooper,
    draws: Draws,
    missing: Missing,
    link: str | None = None,
    names: tuple[str, ...] | None = None,
) -> LinkageFiles:
    """Return what the snooper has to compare: his keys of each target, and those of each released record.

    He has a file of his own (`snooper.external`; `link` names the column that tells who is who), or else the original's keys;
    of a random share of the persons (`coverage`), each value replaced with some probability (`errors`) by that of a random
    record of his. Numbers are known to the middle of their interval (`precision`). A key is compared as numbers if its scale is
    ordered and both files have numbers for it; else as categories. Where a key was recoded, he recodes what he knows in the
    same way. Under "ignored" records with a missing key are left out on both sides.
    """
    outcome.check_aligned("a linkage attack")
    names = key_names(outcome, snooper) if names is None else names
    theirs, released = (data.batch(names) for data in (_own_file(outcome, snooper, names, link), outcome.masked))
    places, rows = (np.argsort(batch.ids, kind="stable") for batch in (theirs, released))  # the same on every engine
    targets = theirs.ids[places]
    keys = []
    for name in names:
        key = _compared(name, outcome, snooper, theirs, released)
        known = key.known[places]
        known = with_errors(known, np.isnan(known), targets, name, snooper.errors, draws)
        keys.append(replace(key, known=known, released=key.released[rows]))
    inside, there = targets >= 0, np.ones(len(rows), bool)
    inside[inside] = covered(targets[inside], snooper.coverage, draws)
    for key in keys if missing == "ignored" else ():
        inside &= ~np.isnan(key.known)
        there &= ~np.isnan(key.released)
    return LinkageFiles(targets, released.ids[rows], tuple(keys)).take(inside, there)


def _own_file(outcome: Release, snooper: Snooper, names: tuple[str, ...], link: str | None) -> Microdata:
    """Return the snooper's file, each record with the id of its original: negative if there is none."""
    external = snooper.external
    if external is None:
        return outcome.original
    refuse_unknown("key", external.engine.kinds, "the snooper's own file", *names, error=NotApplicable)
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
            f"link='rows' needs files of the same length, but the original has {plural(len(outcome.original))} and the snooper's "
            f"own file {plural(len(external))}. Name a column that both have with link=...."
        )
    return Release.of(outcome.original, external, align=link).masked


def _compared(name: str, outcome: Release, snooper: Snooper, theirs: Batch, released: Batch) -> LinkageKey:
    """Return a key of both files as numbers or as codes, in the order of the batches."""
    kinds = [batch.column(name).kind for batch in (theirs, released)]
    _check_kinds(name, outcome, snooper, kinds)
    numeric = [_has_numbers(batch, name) for batch in (theirs, released)]
    width = snooper.precision.get(name)
    if width is not None and not all(numeric):
        _refuse_precision(name, kinds[numeric.index(False)])
    if all(numeric) and (width is not None or outcome.original.schema[name].scale is Scale.ORDERED):
        known, there = theirs.numbers(name), released.numbers(name)
        if np.isinf(known).any() or np.isinf(there).any():
            raise DataError(f"key '{name}' holds infinite values, which cannot be compared. Set them to missing.")
        known = to_precision(known, width)
        return LinkageKey(
            name, True, _in_intervals(name, outcome, known, there) if kinds == _TO_LABELS else known, there
        )
    coded = released.codes(name)
    codes, values = common_codes(coded, _recoded_alike(name, outcome, theirs.codes(name), coded))
    there, known = (np.where(part < 0, np.nan, part) for part in codes)
    return LinkageKey(name, False, known, there, values)


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


def _has_numbers(batch: Batch, name: str) -> bool:
    """Whether a column holds numbers, or categories that the schema gives numbers, all of them."""
    attribute, kind = batch.schema[name], batch.column(name).kind
    if kind is Kind.CATEGORY and attribute.values:
        codes, values = batch.codes(name)
        return all(str(values[code]) in attribute.values for code in np.unique(codes) if code >= 0)
    return kind in _NUMBERS


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


def _recoded_alike(name: str, outcome: Release, mine: Coded, released: Coded) -> Coded:
    """Recode what the snooper knows as the release was: each original value became what most records with it have there.

    What is written as in the release stays; what is in neither file is missing. It is no recoding if there are only values that
    were not there before, as many as records: noise on a code, say.
    """
    original = outcome.original.batch([name]).codes(name)
    there = {released[1][code] for code in np.unique(released[0]) if code >= 0}
    if there <= set(original[1]):
        return mine
    table, labels, records = _recoding(outcome, original, released, last=False)
    if labels > len(table) or (labels == len(table) and records < 2 * len(table)):
        return mine
    place = {value: i for i, value in enumerate(released[1])}
    codes = {value: place[value] for value in there} | {value: place[label] for value, label in table.items()}
    return np.array([*(codes.get(v, -1) for v in mine[1]), -1], np.int32)[mine[0]], released[1]


_NOWHERE = "\0"
"""What a value is recoded to that nobody in both files has: it agrees with no released value."""


def people_of(
    outcome: Release, snooper: Snooper, data: Microdata, names: tuple[str, ...], column: str | None, draws: Draws | None
) -> Microdata:
    """Return the people of a file as the snooper knows them; the file itself, if he knows everything as it stands there.

    Each known key is wrong with the probability `errors`: it is that of a random person. Where a key was recoded, he recodes
    what he knows in the same way. Whom he does not have (`coverage`) is no target, and loses the value of the column.
    """
    recoded = {name: table for name in names if (table := _labels_of(outcome, name)) is not None}
    chance = draws if snooper.errors > 0 or (column is not None and snooper.coverage < 1) else None
    if not recoded and chance is None:
        return data
    stream = None if chance is None else chance.uniforms(np.arange(2), "stream").tobytes()  # tells draws apart
    key = ("people", id(data), names, column, snooper.coverage, snooper.errors, stream)
    if key not in outcome.memory:
        batch = data.batch([*names, *([] if column is None else [column])])
        if chance is not None:
            batch = _as_known(batch, names, column, snooper, chance)
        for name, table in recoded.items():
            batch = _recode(batch, name, table)
        kept = data.schema.keep(lambda a: a.name in batch.rows.columns)
        outcome.memory[key] = Microdata(data.engine.hold(batch.rows), kept)
    found: Microdata = outcome.memory[key]
    return found


def _as_known(batch: Batch, names: Sequence[str], column: str | None, snooper: Snooper, draws: Draws) -> Batch:
    """Return people with the snooper's errors in their keys; those whom he does not have lose the value of the column."""
    for name in names if snooper.errors > 0 else ():
        codes, _ = batch.codes(name)
        batch = batch.with_codes(name, with_errors(codes, codes < 0, batch.ids, name, snooper.errors, draws))
    if column is None or snooper.coverage >= 1:
        return batch
    inside = covered(batch.ids, snooper.coverage, draws)
    if batch.column(column).kind is Kind.NUMBER:
        return batch.with_columns({column: Column.from_numbers(np.where(inside, batch.numbers(column), np.nan))})
    return batch.with_codes(column, np.where(inside, batch.codes(column)[0], np.int32(-1)))


def _labels_of(outcome: Release, name: str) -> Mapping[Any, Any] | None:
    """Return the label that each original value of a key became, in most records with it; None if it was not recoded.

    A key was recoded if the release has labels for it that the original does not have.
    """
    if not outcome.aligned or outcome.masked.kind(name) is not Kind.CATEGORY or outcome.masked is outcome.original:
        return None
    key = ("recoding", name)
    if key not in outcome.memory:
        files = outcome.original, outcome.masked
        before, after = (_values_that_occur(data, name) for data in files)
        coded = None if after <= before else [data.batch([name]).codes(name) for data in files]
        outcome.memory[key] = None if coded is None else _recoding(outcome, coded[0], coded[1], last=True)[0]
    found: Mapping[Any, Any] | None = outcome.memory[key]
    return found


def _values_that_occur(data: Microdata, name: str) -> set[Any]:
    """Return the values of a key that occur, found where the data live."""
    found = classes_of(data, [name], "ignored")
    return {found.values[0][code] for code in found.codes[0]}


def _recode(batch: Batch, name: str, table: Mapping[Any, Any]) -> Batch:
    """Return the batch with a key recoded; a number that nobody in both files has goes with the nearest one."""
    codes, values = batch.codes(name)
    if batch.column(name).kind is Kind.NUMBER and table:
        known = np.array(sorted(table), np.float64)
        above = np.searchsorted(known, values).clip(1, max(len(known) - 1, 1))
        near = np.where(
            np.abs(values - known[above - 1]) <= np.abs(values - known[above % len(known)]), above - 1, above
        )
        new = [table[known[at]] for at in near % len(known)]
    else:
        new = [table.get(v, _NOWHERE) for v in values]
    place = {label: i for i, label in enumerate(dict.fromkeys(new))}
    return batch.with_codes(name, np.array([*(place[v] for v in new), -1], np.int32)[codes], list(place))


# --- Files as points: how far apart two records of different files are, by numbers and categories together.

_SPREAD = 2.0
"""How far apart the codes of a category lie in the tree; distances do not depend on it."""

_FURTHEST = 1e100
"""Standard deviations beyond which a number is not compared: the square of a distance must stay finite."""


class Closest(NamedTuple):
    """The k closest records of another file, nearest first: rows and distances, shape (n, k), or fewer if there are no k."""

    rows: Whole
    distances: Numbers
    ties: Whole
    """How many records are as close as the closest, shape (n,)."""


@dataclass(frozen=True, eq=False)
class Points:
    """The records of one file in a space that it shares with others; shape (n, p), numbers first."""

    x: Numbers
    numbers: int
    """How many of the columns are numbers; the rest are categories."""

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Whole) -> Points:
        """Return some of the records."""
        return Points(self.x[rows], self.numbers)

    def near(self, others: Points, k: int = 1) -> Closest:
        """Find the k closest of the others for each record; of others that are equally close the first is taken."""
        unique, inverse = np.unique(self.x, axis=0, return_inverse=True)
        rows, squared, ties = kernels.neighbours.k_nearest(others.x, unique, min(k, len(others)), self.numbers)
        inverse = inverse.reshape(-1)
        return Closest(rows[inverse], np.sqrt(squared)[inverse], ties[inverse])

    def distances(self, others: Points, k: int = 1) -> Numbers:
        """Return the distances of each record from the k closest of the others, shape (n, k) or fewer if there are no k."""
        return self.near(others, k).distances

    def votes(self, others: Points, value: Numbers, low: Numbers, high: Numbers) -> tuple[Whole, Numbers]:
        """Return the closest of the others, and the share of all equally close whose value is between low and high; (n,) each."""
        rows, _, ties, hits = kernels.neighbours.nearest_votes(others.x, self.x, value, low, high, self.numbers)
        return rows, np.asarray(hits / ties)


def comparable(outcome: Release, names: Sequence[str] = (), *files: Microdata) -> tuple[str, ...]:
    """Return the columns by which released records can be compared with other files; refuse if there are none.

    Without `names` these are all that the files share and that say something of a person: neither identifiers nor weights,
    household numbers and the like, and the same kind of values in each file.
    """
    schema, others = outcome.original.schema, (outcome.original, *files)
    released = outcome.masked.engine.kinds
    if not names:
        found = [
            a.name
            for a in schema
            if not a.is_design
            and a.role is not Role.IDENTIFIER
            and a.name in released
            and _alike(outcome, a.name, others)
        ]
        if not found:
            raise NotApplicable(
                "the released file has no column that can be compared with the original: none is left, or each holds another "
                "kind of values than before."
            )
        return tuple(found)
    for name in names:
        if name not in released:
            where = "the released file" if name not in schema else "the released file any more"
            raise NotApplicable(unknown_name("column", name, released, where))
        if name not in outcome.original.engine.kinds:
            raise NotApplicable(f"column '{name}' is not in the original, so that records cannot be compared by it.")
        if not _alike(outcome, name, others):
            raise NotApplicable(
                f"column '{name}' holds another kind of values in the release than in the original, or values of no plain kind, "
                "so that records cannot be compared by it. Leave it out."
            )
    return tuple(names)


def _alike(outcome: Release, name: str, others: Sequence[Microdata]) -> bool:
    kinds = {outcome.masked.engine.kinds[name], *(data.engine.kinds.get(name, Kind.OTHER) for data in others)}
    return kinds <= {Kind.NUMBER, Kind.BOOLEAN} or (len(kinds) == 1 and Kind.OTHER not in kinds)


def is_number(data: Microdata, name: str) -> bool:
    """Whether a column counts as a number: ordered, and holding numbers or categories that stand for them."""
    attribute, kind = data.schema[name], data.engine.kinds[name]
    if attribute.scale is not Scale.ORDERED or kind is Kind.BOOLEAN:
        return False
    return kind is Kind.NUMBER or (kind is Kind.CATEGORY and bool(attribute.values))


def as_points(
    names: Sequence[str], *files: Microdata, precision: Mapping[str, float] | None = None
) -> tuple[Points, ...]:
    """Return each file as points: numbers in standard deviations of the first file, categories 0 or 1 apart.

    A missing value is a value of its own: it differs by 1 from any other, and not from another missing one. A missing number
    stands at the mean besides, so that it is further from an extreme one. A number that is constant in the first file counts as a
    category, and so does a date. `precision` gives the width of the intervals to which numbers of the other
    files are known: the middle is taken.
    """
    _check_records(files)
    numbers: list[Sequence[Numbers]] = []
    categories: list[Sequence[Numbers]] = []
    for name in names:
        numeric = all(is_number(data, name) for data in files)
        scaled = _scaled(name, files, (precision or {}).get(name)) if numeric else None
        if scaled is None:
            categories.append(category_codes(name, files))
            continue
        if any(np.isnan(part).any() for part in scaled):
            categories.append([np.isnan(part).astype(np.float64) for part in scaled])
        numbers.append([np.nan_to_num(part) for part in scaled])
    return tuple(Points(x, len(numbers)) for x in _tables([*numbers, *categories]))


def exact_tables(names: Sequence[str], *files: Microdata) -> tuple[Numbers, ...]:
    """Return each file as a table of numbers, and of codes of categories that are the same in all; missing is -inf; (n, p)."""
    _check_records(files)
    columns: list[Sequence[Numbers]] = []
    for name in names:
        if all(is_number(data, name) for data in files):
            parts = [data.numbers(name) for data in files]
            if any(np.isinf(x).any() for x in parts):
                raise DataError(
                    f"column '{name}' holds infinite values, which cannot be compared. Set them to missing, or leave it out."
                )
            columns.append([np.where(np.isnan(x), -np.inf, x) for x in parts])
        else:
            columns.append([np.where(codes < 0, -np.inf, codes) for codes in category_codes(name, files)])
    return _tables(columns)


def category_codes(name: str, files: Sequence[Microdata]) -> list[Numbers]:
    """Return a column's categories as numbers that are equal where the values are, in all files alike; missing is one too."""
    coded = [data.batch([name]).codes(name) for data in files]
    # a whole number is the same category in a file that has it as a float
    plain = [(codes, [float(v) if isinstance(v, int) else v for v in values]) for codes, values in coded]
    parts, values = common_codes(*plain)
    return [part.astype(np.float64) * (_SPREAD / max(len(values), 1)) for part in parts]


def _check_records(files: Sequence[Microdata]) -> None:
    if not all(len(data) for data in files):
        raise NotApplicable("one of the files that are to be compared has no records.")


def _tables(columns: Sequence[Sequence[Numbers]]) -> tuple[Numbers, ...]:
    """Return each file's columns side by side, from the parts of each column in all files."""
    return tuple(np.column_stack(parts) for parts in zip(*columns, strict=True))


def _scaled(name: str, files: Sequence[Microdata], width: float | None) -> list[Numbers] | None:
    first, *others = (data.numbers(name) for data in files)
    parts = [first, *(to_precision(part, width) for part in others)]
    known = first[~np.isnan(first)]
    if not len(known):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else 0.0
    constant = spread <= 1e-13 * abs(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = [(part - mean) / (1.0 if constant else spread) for part in parts]
    far = any(np.isinf(part).any() or (np.abs(part) > _FURTHEST).any() for part in scaled)
    if not np.isfinite([mean, spread]).all() or far:
        raise DataError(f"column '{name}' holds infinite or very large values, which cannot be compared. Leave it out.")
    return None if constant else scaled
