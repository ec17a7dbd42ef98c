"""Which records of a universe are left out before anything is computed, as SQL: drop q and its variants (section 4)."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.mas.evaluation.cell_table import CellTable
from sfumato.mas.evaluation.drops import Drop, DropEnough, DropQ, DropRange, DropShare

if TYPE_CHECKING:
    from sfumato.mas.question import Question


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
