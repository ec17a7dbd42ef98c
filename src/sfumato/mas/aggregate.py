"""One pass over the records for a table: counts, sums that are the same in every order, and counts as published."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.aggregates import Aggregate, aggregate_sql, bins_sql
from sfumato.data.aggregates import Sum as Sum
from sfumato.data.exact_sums import combined
from sfumato.errors import DataError, ParameterError
from sfumato.mas.accounts import Sets
from sfumato.mas.cube import Cube, in_cells
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Weight
from sfumato.mas.keying import hashed_key, hashed_records, split
from sfumato.mas.question import Question
from sfumato.mas.universe import Selection, condition, spread
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Numbers, Whole

# --- bins
# A variable of numbers as the side of a table: bins that are made while the table is.


@dataclass(frozen=True)
class VariableBins(Variable):
    """Bins of a variable that is not coded so in the prepared records; the last level holds records without a value.

    Bin i holds what is above edge i − 1 and at most edge i, as with cutpoints.
    """

    @classmethod
    def of(cls, variable: Variable, edges: Sequence[float]) -> VariableBins:
        """Return a variable cut at some edges. Its name says where, so that other edges are another variable."""
        cut = Cutpoints(tuple(edges), whole=variable.integer, unit=variable.unit)
        taken = {f.name: getattr(variable, f.name) for f in fields(variable)}
        name = f"{variable.name}\x1f{','.join(f'{e!r}' for e in cut.edges)}"
        return cls(**{**taken, "name": name, "levels": (*cut.labels, MISSING), "cutpoints": cut})

    @property
    def edges(self) -> tuple[float, ...]:
        """Where the bins end; the last one is open."""
        return self.cutpoints.edges if self.cutpoints is not None else ()

    @property
    def codes(self) -> str:
        """Return SQL for the number of a record's bin."""
        return bins_sql(self.numbers, self.edges)


# --- around
# The records that the keys of a table's cells hang on: those of known variables, whatever is asked of confidential ones.


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


# --- grouped
# One pass over the records for a table: how many there are in each cell, how many are kept, sums, and what noise hangs on.


_CELLS = 1_000_000


def weight_sum(question: Question, weight: Weight, expression: str = "w") -> Sum:
    """Return the sum of survey weights: with noise on counts 2^-30 of the largest is fine enough."""
    return Sum(expression, weight.scale, 1 if question.policy.counts.sd else 2)


@dataclass(frozen=True)
class AggregateRequest:
    """What is added up in each cell, beside records."""

    values: Mapping[str, str] = field(default_factory=dict)
    """Names for expressions of the columns, which sums may use; null where a record is not kept."""
    sums: Mapping[str, Sum] = field(default_factory=dict)
    largest: str | None = None
    """An expression of the values whose largest in each cell is asked for; not below 0."""


@dataclass(frozen=True, eq=False)
class CellAggregates:
    """The cells of a table; arrays have one axis per variable. Confidential."""

    question: Question
    variables: tuple[Variable, ...]
    """The sides of the table, in the order that was asked for."""
    counts: Whole
    """Records of the universe; only their sums over confidential sides are of use, since a cube may tell no more."""
    kept: Whole
    """Of these, records that were not dropped."""
    asked: AggregateRequest
    parts: Mapping[str, Whole]
    """Of exact sums over kept records; the first axis is that of the parts."""
    largest: Numbers
    """The largest of what was asked for; zeros, where nothing was."""
    _around: Whole
    """Records that keys hang on: where these are of known variables, whatever the universe asks of confidential ones."""
    _digests: Whole
    """Digests of these."""
    _made: dict[str, list[bytes]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, question: Question, variables: Sequence[Variable], asked: AggregateRequest | None = None
    ) -> CellAggregates:
        """Ask for the cells of a table of some variables; what a cube tells of them is not asked for."""
        asked = asked or AggregateRequest()
        shape = [len(v.levels) for v in variables]
        if np.prod([float(n) for n in shape]) > _CELLS:
            raise DataError("the table would have more than a million cells. Use fewer variables, or coarser ones.")
        around, inside = conditions(question)
        # of known cells alone as many are counted as there are, since kept records are scaled back to just these
        thinned = not question.policy.scaled or bool(asked.sums) or not all(v.known for v in variables)
        kept = question.kept if thinned else "TRUE"
        counted: Whole | None = None
        if (told := in_cube(question, variables)) is not None:
            around, inside = question.selection.where(), "TRUE"
            counted = counts_in_cube(question, variables)
            if counted is not None and kept == "TRUE" and asked == AggregateRequest():
                return cls(question, tuple(variables), counted, counted, asked, {}, np.zeros(shape), *told)
        if counted is not None:  # only those that are kept need be looked at
            around, kept = _all_of(around, kept), "TRUE"
        flags = {name: sql for name, sql in (("n", inside), ("kept", _all_of(inside, kept))) if sql != "TRUE"}
        found = question.dataset.warehouse.ask(_sql(variables, asked, around, flags, told is None))
        found = {"n": found["around"], "kept": found["around"]} | found

        def placed(name: str) -> NDArray[Any]:
            return in_cells(found, [f"c{i}" for i in range(len(shape))], shape, name)

        parts = {
            name: np.stack([placed(f"{name}_{i}").astype(np.int64) for i in range(max(one.parts, 1))])
            for name, one in asked.sums.items()
        }
        largest = placed("largest") if asked.largest is not None else np.zeros(shape)
        n, left = (np.asarray(placed(name), np.int64) for name in ("n", "kept"))
        told = told or (np.asarray(placed("around"), np.int64), np.asarray(placed("digest"), np.int64))
        return cls(question, tuple(variables), n if counted is None else counted, left, asked, parts, largest, *told)

    @cached_property
    def sums(self) -> dict[str, Numbers]:
        """Sums over kept records: of whole numbers, so that a total is the same whichever cells it is made of."""
        return {name: combined(self.parts[name], one.scale, one.parts) for name, one in self.asked.sums.items()}

    def margins(self, keep: int = 0) -> list[CellAggregates]:
        """Return the table and all its margins, the table itself first; the last `keep` sides stay in each."""
        axes = range(len(self.variables) - keep)
        last = tuple(range(len(axes), len(self.variables)))
        chosen = [kept for size in range(len(axes), -1, -1) for kept in itertools.combinations(axes, size)]
        return [self._margin((*kept, *last)) for kept in chosen]

    def _margin(self, kept: tuple[int, ...]) -> CellAggregates:
        gone = tuple(i for i in range(len(self.variables)) if i not in kept)
        if not gone:
            return self

        def total(values: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(values.sum(gone))

        return CellAggregates(
            self.question, tuple(self.variables[i] for i in kept), total(self.counts), total(self.kept),
            self.asked, {name: values.sum(tuple(i + 1 for i in gone)) for name, values in self.parts.items()},
            np.asarray(self.largest.max(gone)),
            total(self._around), total(self._digests),
        )  # fmt: skip

    def without_last(self) -> CellAggregates:
        """Return the margin of all sides but the last."""
        return self._margin(tuple(range(len(self.variables) - 1)))

    def regrouped(self, variable: Variable, starts: Sequence[int]) -> CellAggregates:
        """Return the table with a coarser variable as its last side; each of its levels starts at a level of the finer one."""

        def merged(values: NDArray[Any]) -> NDArray[Any]:
            return np.add.reduceat(values, starts, axis=-1)

        return CellAggregates(
            self.question, (*self.variables[:-1], variable), merged(self.counts), merged(self.kept),
            self.asked, {name: merged(values) for name, values in self.parts.items()},
            np.maximum.reduceat(self.largest, starts, axis=-1), merged(self._around), merged(self._digests),
        )  # fmt: skip

    @property
    def _hidden(self) -> tuple[int, ...]:
        return tuple(i for i, v in enumerate(self.variables) if not v.known)

    def factor(self) -> Numbers:
        """Return what kept records stand for: all records over kept ones, in each cell of the known variables.

        It is 1 where the policy does not scale back.
        """
        if not self.question.policy.scaled:
            return np.ones(self.counts.shape)
        counts = self.counts.sum(self._hidden, keepdims=True).astype(np.float64)
        kept = self.kept.sum(self._hidden, keepdims=True)
        return np.broadcast_to(np.divide(counts, kept, out=np.zeros(counts.shape), where=kept > 0), self.counts.shape)

    def keys(self, among: Selection | None = None) -> list[bytes]:
        """Return what the noise of each cell hangs on, in the order of the raveled arrays.

        `among` is a condition on a confidential variable that the records of all cells meet besides.
        """
        kind = "" if among is None else among.words()
        if kind not in self._made:
            self._made[kind] = self._keys(among)
        return self._made[kind]

    def thinned_keys(self, among: Selection | None = None) -> list[bytes]:
        """Return the same for numbers that hang on which records of the universe are dropped.

        A cell lacks other records in each universe. With the same noise in all of them, nothing would be left of the difference
        of two universes but fractions, of which those of many together fit one count alone: so the universe is part of the key.
        """
        keys, question = self.keys(among), self.question
        return [key + question.key for key in keys] if self.variables and question.policy.drops else keys

    def count_keys(self) -> list[bytes]:
        """Return the keys of counts: of known cells these are scaled back to just as many records as there are."""
        return self.thinned_keys() if self._hidden else self.keys()

    def _keys(self, among: Selection | None) -> list[bytes]:
        question, shape = self.question, self.counts.shape
        if question.policy.keyed == "records":
            beside = b"" if among is None else among.words().encode()
            pairs = zip(self._around.ravel().tolist(), self._digests.ravel().tolist(), strict=True)
            return [hashed_records(n, digest) + beside for n, digest in pairs]
        parts = hidden_parts(question)
        if parts is None:
            whole = question.selection if among is None else question.selection.joined(among)
            return [question.key_of(whole.joined(self.cell(i))) for i in np.ndindex(shape)]
        asked = parts if among is None else parts.joined(among)
        hidden = [self.variables[i] for i in self._hidden]
        words = [_cell(hidden, place).joined(asked).words() for place in np.ndindex(*(len(v.levels) for v in hidden))]
        # the place of each cell among those of the confidential sides
        lying = np.arange(len(words)).reshape([len(v.levels) if not v.known else 1 for v in self.variables])
        columns = (self._around.sum(self._hidden, keepdims=True), self._digests.sum(self._hidden, keepdims=True), lying)
        around, digests, places = (np.broadcast_to(column, shape).ravel().tolist() for column in columns)
        nobody = hashed_key(["nobody"])
        return [
            hashed_key([f"{n}/{digest}/{words[place]}"]) if n > 0 and words[place] != "none" else nobody
            for n, digest, place in zip(around, digests, places, strict=True)
        ]

    def known(self) -> CellAggregates:
        """Return the margin of the known variables."""
        return self._margin(tuple(i for i in range(len(self.variables)) if i not in self._hidden))

    @cached_property
    def sizes(self) -> Numbers:
        """Noisy counts of the cells of the known variables, one axis per side."""
        known, question = self.known(), self.question
        counts = known.counts.ravel().astype(np.float64)
        return question.policy.counts.noisy(counts, known.keys(), question.secret).reshape(known.counts.shape)

    def untold(self) -> NDArray[np.bool_]:
        """Return which cells are part of a known one that is too small to be shown; nothing is told of these."""
        small = np.expand_dims(self.sizes < self.question.policy.counts.least, self._hidden)
        return np.broadcast_to(small, self.counts.shape)

    def sets(self, about: str = "", least: float = 0.0) -> Sets:
        """Return the sets of records that the table is about, for the accounts.

        `about` names numbers other than counts; of sets smaller than `least` nothing is told.
        """
        known, hidden = self.known(), [self.variables[i] for i in self._hidden]
        question, names = self.question, "\x1f".join([*sorted(v.name for v in hidden), *([about] if about else [])])
        parts = int(np.prod([len(v.levels) for v in hidden], dtype=int))
        keys = known.thinned_keys() if names else known.keys()
        own = tuple(hashlib.blake2b(key + names.encode(), digest_size=16).digest() if names else key for key in keys)
        loss = 0.0 if about else question.policy.counts.loss
        plain = question.selection.plain
        told = bool(names) or any(not v.known for v in plain.variables)
        return Sets(plain, known.variables, own, self.sizes, parts, loss=loss, confidential=told, least=least)

    def records(self, values: Mapping[str, str]) -> str:
        """Return SQL for the kept records: their cells c0, c1, ..., stratum and household, and some expressions of columns."""
        question = self.question
        cells = [f"{v.codes} AS c{i}" for i, v in enumerate(self.variables)]
        listed = [*cells, *question.dataset.design.columns, *(f"{sql} AS {name}" for name, sql in values.items())]
        return f"SELECT {', '.join(listed)} FROM records WHERE {question.records}"  # noqa: S608 - our own names

    def cell(self, place: tuple[int, ...]) -> Selection:
        """Return one cell as a selection."""
        return _cell(self.variables, place)


def _cell(variables: Sequence[Variable], place: tuple[int, ...]) -> Selection:
    order = sorted(range(len(variables)), key=lambda i: variables[i].name)
    used = tuple(variables[i] for i in order)
    chosen = np.zeros([len(v.levels) for v in used], bool)
    chosen[tuple(place[i] for i in order)] = True
    return Selection(used, (chosen,))


def _sql(
    variables: Sequence[Variable], asked: AggregateRequest, where: str, flags: Mapping[str, str], digest: bool
) -> str:
    """Return the SQL of a table: the records of each cell, those that meet the conditions of flags, and sums over kept ones."""
    cells = {f"c{i}": v.codes for i, v in enumerate(variables)}
    columns = {**cells, "r": "CAST(r AS BIGINT)"}
    columns |= {name: f"CASE WHEN {sql} THEN 1 ELSE 0 END" for name, sql in flags.items()}
    for name, sql in asked.values.items():
        columns[name] = f"CASE WHEN {flags['kept']} THEN {sql} END" if "kept" in flags else sql
    listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
    measures = {"digest": Aggregate("r")} if digest else {}
    measures |= {name: Aggregate(name) for name in flags} | dict(asked.sums)
    if asked.largest is not None:
        measures["largest"] = Aggregate(f"COALESCE({asked.largest}, 0)", "max")
    return aggregate_sql(
        {cell: cell for cell in cells},
        ["count(*) AS around", *(text for name, one in measures.items() for text in one.select(name))],
        f"(SELECT {listed} FROM records WHERE {where}) AS kept_records",  # noqa: S608 - our own names
    )


def _all_of(*conditions: str) -> str:
    """Return the SQL condition that all of some hold."""
    return " AND ".join(f"({sql})" for sql in conditions if sql != "TRUE") or "TRUE"


# --- published
# Counts of the cells of a table as they are published.


def weight_of(question: Question, weighted: bool) -> Weight | None:
    """Return the survey weights if they are asked for; refuse if there are none."""
    if weighted and question.dataset.weight is None:
        raise ParameterError("this data set has no survey weights. Ask for plain counts.")
    return question.dataset.weight if weighted else None


def cell_counts(table: CellAggregates, weight: Weight | None) -> Numbers:
    """Return the counts of cells as they are published, weighted if there are weights; raveled, NaN where too small."""
    noisy = noisy_counts(table)
    shown = table.question.policy.counts.shown(noisy)
    if weight is not None:
        rounded = table.question.policy.counts.shown_weighted(noisy_counts(table, weight), weight.mean)
        shown = np.where(np.isnan(shown), np.nan, rounded)
    return shown


def noisy_counts(table: CellAggregates, weight: Weight | None = None) -> Numbers:
    """Return counts, or weighted ones, scaled back and with noise; raveled."""
    policy, secret = table.question.policy, table.question.secret
    nothing = [b""] * table.counts.size
    if weight is None:
        keys = table.count_keys() if policy.counts.sd else nothing
        return policy.counts.noisy((table.kept * table.factor()).ravel(), keys, secret)
    keys = table.thinned_keys() if policy.counts.sd else nothing
    return policy.counts.weighted((table.sums["records"] * table.factor()).ravel(), keys, secret, weight.large)


def count_notes(question: Question, weight: Weight | None) -> Iterator[str]:
    """Yield what is done to counts, in sentences."""
    counts = question.policy.counts
    if counts.sd and weight is None:
        yield f"Each count has random noise (standard deviation {counts.sd:g}); totals are not sums of cells."
    elif counts.sd:
        yield "Each weighted count has random noise to the scale of the weights; totals are not sums of cells."
    if counts.base > 1:
        yield f"Counts are rounded to multiples of {counts.base}." if weight is None else "Weighted counts are rounded."
    if counts.least:
        yield f"Counts below {counts.least}{'' if weight is None else ' records'} are not shown."


def plain_numbers(values: Numbers) -> list[float | None]:
    """Return numbers as rows of an answer have them: None for NaN."""
    return [None if np.isnan(v) else v for v in values.tolist()]
