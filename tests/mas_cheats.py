"""Steps of analyses that want more than protected sums: what the pipeline stops, and check_analysis names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.mas.question import Question, Result, Steps
from sfumato.mas.register import Register
from sfumato.mas.sums import Confidential, Piece, ProtectedCells, RecordFunction, SumsRequest, TableSums, TotalSums
from sfumato.mas.universe import Selection
from sfumato.typing import Numbers


class Copies(RecordFunction):
    """Rows of a column as they are."""

    def __init__(self, column: str, factor: float = 1.0) -> None:
        self.column, self.factor = column, factor

    @property
    def columns(self) -> Sequence[str]:
        return [self.column]

    def __call__(self, piece: Piece) -> Numbers:
        return np.asarray(piece[self.column], np.float64)[None, :] * self.factor


def asks(question: Question) -> SumsRequest:
    return SumsRequest({"t": TableSums((question.codebook.variables["sick"],))})


def register_cells(question: Question, register: Register) -> Steps:
    yield from ()
    register.cells((question.codebook.variables["sick"],), Selection((), (np.ones((), bool),)))
    return Result({})


def register_units(question: Question, register: Register) -> Steps:
    yield from ()
    register.units((question.codebook.variables["sick"],), "h")
    return Result({})


def register_sums(question: Question, register: Register) -> Steps:
    yield from ()
    register.reduce(Copies("x"), [question.codebook.variables["pay"].numbers], Selection((), (np.ones((), bool),)))
    return Result({})


def register_within(question: Question, register: Register) -> Steps:
    yield from ()
    register.count(Selection((question.codebook.variables["sick"],), (np.array([True, False]),)))
    return Result({})


def factors_confidential(question: Question, register: Register) -> Steps:
    x = question.codebook.variables["pay"]
    yield SumsRequest(
        {"t": TotalSums("mine", Copies(x.numbers), Copies(x.numbers), (Confidential(0, 1, 1),), ((0, 0),), (x,))}
    )
    return Result({})


def overwritten(question: Question, register: Register) -> Steps:
    sums = yield asks(question)
    sums.cells("t").sums["n"][...] = 0
    return Result({})


def forged(question: Question, register: Register) -> Steps:
    sums = yield asks(question)
    cells = sums.cells("t")
    ProtectedCells(None, cells.sides, {"n": np.zeros(2)}, {"n": np.zeros(2)}, cells.sizes)
    return Result({})


def question_dataset(question: Question, register: Register) -> Steps:
    yield from ()
    question.dataset  # type: ignore[attr-defined]  # noqa: B018
    return Result({})


def endless(question: Question, register: Register) -> Steps:
    while True:
        yield asks(question)


TRIES = {f.__name__: f for f in (
    register_cells, register_units, register_sums, register_within, factors_confidential, overwritten,
    forged, question_dataset, endless,
)}  # fmt: skip
