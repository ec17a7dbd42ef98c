"""The people whom a snooper looks up in a release: what he knows of them, in the release's own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.keys import key_names
from sfumato.classes import classes_of
from sfumato.contract import Draws, Release, Snooper
from sfumato.engines import Column, Kind
from sfumato.errors import NotApplicable, ParameterError, unknown_name
from sfumato.microdata import Batch, Microdata

Codes = NDArray[np.int32]
_NOWHERE = "\0"
"""What a value is recoded to that nobody in both files has: it agrees with no released value."""


def known_keys(outcome: Release, snooper: Snooper, column: str) -> tuple[str, ...]:
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
            kind = after if before is Kind.NUMBER else before
            raise ParameterError(f"precision is the width of intervals of numbers, but '{name}' holds {kind}.")
        if before is not after and not (outcome.aligned and after is Kind.CATEGORY):
            raise NotApplicable(
                f"key '{name}' holds {before} in the original and {after} in the release. A snooper recodes what he knows in "
                "the same way; for that, say which record is whose with Release.of(original, released, align=...), or recode "
                "the key alike in the original file."
            )


def check_in_common(name: str, mine: tuple[Codes, Sequence[Any]], theirs: tuple[Codes, Sequence[Any]]) -> None:
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


def people_of(
    outcome: Release, snooper: Snooper, data: Microdata, names: tuple[str, ...], column: str | None, draws: Draws | None
) -> Microdata:
    """Return the people of a file as the snooper knows them; the file itself, if he knows everything as it stands there.

    Each known key is wrong with the probability `errors`: it is that of a random person. Where a key was recoded, he recodes
    what he knows in the same way. Whom he does not have (`coverage`) is no target, and loses the value of the column.
    """
    recoded = {name: table for name in names if (table := _recoding(outcome, name)) is not None}
    chance = draws if snooper.errors > 0 or (column is not None and snooper.coverage < 1) else None
    if not recoded and chance is None:
        return data
    stream = None if chance is None else chance.uniforms(np.arange(2), "stream").tobytes()  # tells draws apart
    key = ("people", id(data), names, column, snooper.coverage, snooper.errors, stream)
    if key not in outcome.memory:
        batch = data.batch([*names, *([] if column is None else [column])])
        if chance is not None:
            batch = _with_errors(batch, names, snooper.errors, chance)
            batch = batch if column is None else _covered(batch, column, snooper.coverage, chance)
        for name, table in recoded.items():
            batch = _recode(batch, name, table)
        kept = data.schema.keep(lambda a: a.name in batch.rows.columns)
        outcome.memory[key] = Microdata(data.engine.hold(batch.rows), kept)
    found: Microdata = outcome.memory[key]
    return found


def _coded(batch: Batch, name: str) -> tuple[Codes, Sequence[Any]]:
    codes, values = batch.column(name).codes
    return np.where(batch.missing(name), np.int32(-1), codes), values


def _recoding(outcome: Release, name: str) -> Mapping[Any, Any] | None:
    """Return what became of each original value of a key: what most records with it have. None if it was not recoded.

    A key was recoded if the release has labels for it that the original does not have.
    """
    if not outcome.aligned or outcome.masked.kind(name) is not Kind.CATEGORY or outcome.masked is outcome.original:
        return None
    key = ("recoding", name)
    if key not in outcome.memory:
        before, after = (_labels(data, name) for data in (outcome.original, outcome.masked))
        outcome.memory[key] = None if after <= before else _most_frequent(outcome, name)
    found: Mapping[Any, Any] | None = outcome.memory[key]
    return found


def _labels(data: Microdata, name: str) -> set[Any]:
    """Return the values of a key that occur, found where the data live."""
    found = classes_of(data, [name], "ignored")
    return {found.values[0][code] for code in found.codes[0]}


def _most_frequent(outcome: Release, name: str) -> Mapping[Any, Any]:
    before, after = (_coded(data.batch([name]), name) for data in (outcome.original, outcome.masked))
    left, right = outcome.matched
    old, new = (before[0], after[0]) if left is None else (before[0][left], after[0][right])
    both, width = (old >= 0) & (new >= 0), len(after[1])
    pairs, counts = np.unique(old[both].astype(np.int64) * width + new[both], return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")[::-1]]
    values, first = np.unique(pairs // width, return_index=True)
    return {before[1][v]: after[1][pairs[at] % width] for v, at in zip(values, first, strict=True)}


def _recode(batch: Batch, name: str, table: Mapping[Any, Any]) -> Batch:
    """Return the batch with a key recoded; a number that nobody in both files has goes with the nearest one."""
    codes, values = _coded(batch, name)
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


def _with_errors(batch: Batch, names: Sequence[str], share: float, draws: Draws) -> Batch:
    """Replace each known key with some probability by that of a random person who has one."""
    order = np.argsort(batch.ids, kind="stable")  # the same on every engine
    for name in names if share > 0 else ():
        codes, _ = _coded(batch, name)
        pool = codes[order][codes[order] >= 0]
        wrong = (codes >= 0) & (draws.uniforms(batch.ids, f"{name} wrong") < share)
        drawn = (draws.uniforms(batch.ids[wrong], f"{name} value") * len(pool)).astype(np.int64)
        codes[wrong] = pool[drawn]
        batch = batch.with_codes(name, codes)
    return batch


def _covered(batch: Batch, column: str, share: float, draws: Draws) -> Batch:
    """Take the value of the column from the people whom the snooper does not have."""
    if share >= 1 or not len(batch):
        return batch
    out = np.ones(len(batch), bool)
    count = max(round(share * len(batch)), 1)
    out[np.argsort(draws.uniforms(batch.ids, "covered"), kind="stable")[:count]] = False
    if batch.column(column).kind is Kind.NUMBER:
        return batch.with_columns({column: Column.from_numbers(np.where(out, np.nan, batch.numbers(column)))})
    return batch.with_codes(column, np.where(out, np.int32(-1), _coded(batch, column)[0]))
