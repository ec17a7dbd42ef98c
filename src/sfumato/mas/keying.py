"""The key of a set of records, which its drops and noise depend on, and which records are left out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.mas.cube import Cubes
from sfumato.mas.drop_q import CellTable, Drop, DropEnough, DropQ, DropRange, DropShare
from sfumato.mas.universe import Selection
from sfumato.mas.variable import Variable
from sfumato.typing import Flags

if TYPE_CHECKING:
    from sfumato.mas.question import Question

# --- set key
# What the drops and the noise of a set of records hang on.
#
# Keyed on the records themselves, the same set has the same key however it was asked for. Where confidential variables take
# part that would tell too much: two equal answers would prove two sets to be equal. So the key depends on the records that the
# known variables select, and on the canonical wording of conditions on confidential ones (MAS.md, "hardened").


def records_key(cubes: Cubes, selection: Selection) -> bytes:
    """Return a key of the set of records alone."""
    plain = selection.plain
    cube = cubes.of(plain.variables)
    return hashed_records(cube.count(plain), cube.digest(plain))


def hashed_records(count: int, digest: int) -> bytes:
    """Return the key of a set of records from their number and their digest."""
    return _hashed("records", str(count), str(digest))


def known_key(cubes: Cubes, selection: Selection) -> bytes:
    """Return a key of the records that known variables select, and of the wording of the rest."""
    return hashed_key(known_parts(cubes, selection))


def hashed_key(parts: Sequence[str]) -> bytes:
    """Return the key of the parts of a selection."""
    return _hashed("known", *parts)


def known_parts(cubes: Cubes, selection: Selection) -> list[str]:
    """Return the parts of a selection by what they ask of confidential variables, each with the digest of its known part.

    Cells of the known variables that ask the same of the confidential ones go together; cells without records are left out.
    """
    plain = selection.plain
    known, hidden = split(plain.variables)
    cube = cubes.of(known)
    table = _known_first(plain, known, hidden)
    counts, digests = cube.counts.reshape(-1), cube.digests.reshape(-1)
    lived = np.flatnonzero((counts > 0) & table.any(axis=1))
    if not len(lived):
        return [_NOBODY]
    rows, same = np.unique(table[lived], axis=0, return_inverse=True)
    parts = []
    for i, row in enumerate(rows):
        cells = lived[same.ravel() == i]
        asked = Selection(hidden, (row.reshape([len(v.levels) for v in hidden]),)).words()
        parts.append(f"{int(counts[cells].sum())}/{int(digests[cells].sum())}/{asked}")
    return sorted(parts)


def cell_keys(cubes: Cubes, variables: Sequence[Variable], places: NDArray[np.int64], keyed: str) -> list[bytes]:
    """Return the keys of some cells of the table of all records, as `records_key` or `known_key` would; places are (n, m)."""
    if keyed == "records":
        cube = cubes.of(variables)
        at = tuple(places.T)
        return [_hashed("records", str(n), str(d)) for n, d in zip(cube.counts[at], cube.digests[at], strict=True)]
    known, hidden = split(variables)
    cube = cubes.of(known)
    order = list(variables)
    here = tuple(places[:, order.index(v)] for v in known)
    counts, digests = (np.broadcast_to(a[here], len(places)) for a in (cube.counts, cube.digests))
    words: dict[tuple[int, ...], str] = {}
    keys = []
    for n, d, place in zip(counts, digests, places[:, [order.index(v) for v in hidden]].tolist(), strict=True):
        asked = tuple(place)
        if asked not in words:
            cell = np.zeros([len(v.levels) for v in hidden], bool)
            cell[asked] = True
            words[asked] = Selection(hidden, (cell,)).words()
        keys.append(hashed_key([f"{n}/{d}/{words[asked]}"] if n else [_NOBODY]))
    return keys


def split(variables: Sequence[Variable]) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Return the known and the confidential variables, each in order of their names."""
    return tuple(v for v in variables if v.known), tuple(v for v in variables if not v.known)


def _known_first(selection: Selection, known: Sequence[Variable], hidden: Sequence[Variable]) -> Flags:
    """Return the chosen cells as a matrix: cells of the known variables × cells of the confidential ones."""
    order = [selection.variables.index(v) for v in (*known, *hidden)]
    cells = int(np.prod([len(v.levels) for v in known], dtype=int))
    return selection.chosen.transpose(order).reshape(cells, -1)


def _hashed(*parts: str) -> bytes:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=32).digest()


_NOBODY = "nobody"
NOBODY = hashed_key([_NOBODY])
"""The key of every set that known variables leave without records."""

# --- subsample
# Which records of a universe are left out before anything is computed, as SQL: drop q and its variants (section 4).


@singledispatch
def kept(drop: Drop, question: Question) -> str:
    """Return the SQL condition that a record of the universe is kept; the same set, the same drops."""
    raise ParameterError(f"{drop.name} cannot be used in a policy.")


@kept.register(DropQ)
def _(drop: DropQ, question: Question) -> str:
    return _beyond(question, drop.q)


@kept.register(DropRange)
def _(drop: DropRange, question: Question) -> str:
    drawn = float(question.secret.uniforms([question.key], "how many to drop")[0])
    return _beyond(question, drop.low + int(drawn * (drop.high - drop.low + 1)))


@kept.register(DropEnough)
def _(drop: DropEnough, question: Question) -> str:
    plain = question.selection.plain
    counts = question.dataset.cubes.of(plain.variables).counts
    chosen = drop.for_table(CellTable.of(counts[plain.chosen]))
    return kept(chosen, question)


@kept.register(DropShare)
def _(drop: DropShare, question: Question) -> str:
    return question.secret.kept(question.key, drop.share)


def _beyond(question: Question, q: int) -> str:
    """Return the condition that a record is not among the first q of its universe."""
    if q == 0:
        return "TRUE"
    order = question.secret.order(question.key)
    where = question.selection.where()
    found = question.dataset.warehouse.ask(
        f"SELECT place FROM (SELECT {order} AS place FROM records WHERE {where}) AS places ORDER BY place LIMIT {q}"  # noqa: S608
    )
    return f"{order} > {int(found['place'].max())}" if len(found["place"]) else "TRUE"
