"""The records that the keys of a table's cells hang on: those of known variables, whatever is asked of confidential ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.cube import Cube
from sfumato.mas.question import Question
from sfumato.mas.selection import Selection, condition, spread
from sfumato.mas.set_key import split
from sfumato.mas.variable import Variable

Whole = NDArray[np.int64]


def hidden_parts(question: Question) -> Selection | None:
    """Return what the universe asks of confidential variables, if it asks the same everywhere; None if not."""
    plain = question.selection.plain
    known, hidden = split(plain.variables)
    if not hidden:
        return Selection((), (np.ones((), bool),))
    axes = tuple(plain.variables.index(v) for v in known)
    asked = np.asarray(plain.chosen.any(axis=axes), bool)
    wide = np.logical_or.reduce(plain.chosen, axis=tuple(plain.variables.index(v) for v in hidden), keepdims=True)
    same = (plain.chosen == (wide & np.expand_dims(asked, axes))).all()
    return Selection(hidden, (asked,)) if same else None


def around(question: Question) -> str:
    """Return SQL for the cells of known variables of which the universe asks for any record."""
    cells = _known(question)
    return condition(cells.variables, cells.chosen)


def conditions(question: Question) -> tuple[str, str]:
    """Return SQL for what the universe asks of known variables, and for the rest."""
    parts = hidden_parts(question)
    if parts is None or question.policy.keyed == "records":
        return question.selection.where(), "TRUE"
    return around(question), parts.where()


def in_cube(question: Question, variables: Sequence[Variable]) -> tuple[Whole, Whole] | None:
    """Return how many records the keys of each cell hang on, and their digests, from a cube that is there; None if none is.

    Only sums over confidential sides matter: what belongs to a known cell lies at the first level of each of these.
    """
    if question.policy.keyed == "records" or hidden_parts(question) is None:
        return None
    known, cubes = _known(question), question.dataset.cubes
    sides = sorted((v for v in variables if v.known), key=lambda v: v.name)
    if not cubes.ready((*known.variables, *sides)):
        return None
    cells = _within(cubes.of((*known.variables, *sides)), known, sides)
    order = [sides.index(v) for v in variables if v.known]
    place = tuple(slice(None) if v.known else 0 for v in variables)
    laid = [np.zeros([len(v.levels) for v in variables], np.int64) for _ in range(2)]
    for out, values in zip(laid, (cells.counts, cells.digests), strict=True):
        out[place] = values.transpose(order)
    return laid[0], laid[1]


def counts_in_cube(question: Question, variables: Sequence[Variable]) -> Whole | None:
    """Return how many records of the universe each cell has, from a cube that is there; None if none is."""
    plain, cubes = question.selection.plain, question.dataset.cubes
    every = (*plain.variables, *variables)
    if not cubes.ready(every):
        return None
    sides = sorted(variables, key=lambda v: v.name)
    return _within(cubes.of(every), plain, sides).counts.transpose([sides.index(v) for v in variables])


def _within(cube: Cube, selection: Selection, sides: Sequence[Variable]) -> Cube:
    """Return the cube of some of the variables, of the records of a selection alone."""
    inside = spread(selection, cube.variables)
    return Cube(cube.variables, np.where(inside, cube.counts, 0), np.where(inside, cube.digests, 0)).margin(sides)


def _known(question: Question) -> Selection:
    """Return the cells of known variables of which the universe asks for any record."""
    plain = question.selection.plain
    known, hidden = split(plain.variables)
    return Selection(known, (np.asarray(plain.chosen.any(axis=tuple(plain.variables.index(v) for v in hidden)), bool),))
