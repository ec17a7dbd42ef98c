"""The one way from records to numbers: aggregate bounded sums, add noise, and say what it tells of each record.

Noise is scaled to what one record's confidential values can move, and grows with the sampling error of the sum, so that large
sets cost their members little. What a request tells of a record is μ² = max over its confidential values of Σ (change of sum)² /
(variance of its noise): Gaussian differential privacy (Dong, Roth and Su 2022), with known variables given. docs/mas/losses.md
derives it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from sfumato.data.aggregates import Aggregate, Sum, aggregate_sql
from sfumato.data.exact_sums import scale_of
from sfumato.mas.cube import in_cells
from sfumato.mas.dataset import Dataset
from sfumato.mas.drop_q import CellTable, Drop, DropEnough, DropQ, DropRange, DropShare
from sfumato.mas.perturbation import Noise
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.sums import (
    _SEAL,
    CellSums,
    Confidential,
    Loss,
    Moment,
    Piece,
    ProtectedCells,
    ProtectedSums,
    ProtectedTotals,
    RecordFunction,
    Sealed,
    SumsRequest,
    TotalSums,
)
from sfumato.mas.universe import Selection, split
from sfumato.mas.variable import Variable
from sfumato.typing import Flags, Numbers, Whole

_FINE = 16
"""The largest loss of a record is found to a factor of 2^(1/16), from counts of records by their loss."""
_LOWEST, _HIGHEST = -60, 20
"""Losses are counted between these powers of two."""
_BY = 2_000
"""Records are charged by at most this many groups."""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The records of a data set behind one policy. Only `protect` looks at confidential values."""

    dataset: Dataset
    policy: Policy
    question: Question

    def protect(self, request: SumsRequest) -> tuple[ProtectedSums, tuple[Loss, ...]]:
        """Return the protected sums of a request, and what they tell of each record; the caller charges before it tells."""
        parts: dict[str, ProtectedCells | ProtectedTotals] = {}
        losses: list[Loss] = []
        for name, part in request.parts.items():
            made, loss = self._cells(part) if isinstance(part, CellSums) else self._totals(part)
            parts[name] = made
            losses += [loss] if loss is not None else []
        return ProtectedSums(_SEAL, parts), tuple(losses)

    # -- the universe

    @cached_property
    def _known(self) -> Selection:
        """The known part of the universe."""
        return known_part(self.question.selection)

    @cached_property
    def _hidden(self) -> tuple[Variable, ...]:
        """The confidential variables that form the universe."""
        return split(self.question.selection.plain.variables)[1]

    @cached_property
    def _hidden_words(self) -> str:
        """What the universe asks of confidential variables, as keys have it."""
        return self.question.selection.words() if self._hidden else ""

    @cached_property
    def _hidden_share(self) -> float:
        """Nominal share of the known part of the universe that meets its confidential conditions."""
        plain = self.question.selection.plain
        known = [i for i, v in enumerate(plain.variables) if v.known]
        asked = plain.chosen.mean(axis=tuple(known)) if known else plain.chosen.astype(np.float64)
        asked = asked / max(float(asked.max()), 1e-300)
        return float((asked * _joint(self._hidden)).sum()) if self._hidden else 1.0

    def _contents(self, variables: Sequence[Variable]) -> str:
        """Return digests of the confidential values that sums depend on: noise is fresh where any of them changed."""
        hidden = {(v.base or v).plain_name for v in (*variables, *self._hidden) if not v.known}
        return ",".join(f"{name}={self.dataset.contents[name]}" for name in sorted(hidden))

    @cached_property
    def _kept(self) -> str:
        """The SQL condition that a record of the universe is not dropped; the same set, the same drops."""
        return kept(self.policy.drop, self.dataset, self.question)

    @property
    def _where(self) -> str:
        """The SQL condition of the records that are added up."""
        where = self.question.selection.where()
        return where if self._kept == "TRUE" else f"({where}) AND ({self._kept})"

    @cached_property
    def _register(self) -> Register:
        return self.dataset.register(self.policy)

    # -- tables

    def _cells(self, asked: CellSums) -> tuple[ProtectedCells, Loss | None]:
        """Return the cells of a table, and their loss."""
        shape = [len(v.levels) for v in asked.sides]
        known = tuple(v for v in asked.sides if v.known)
        hidden = tuple(i for i, v in enumerate(asked.sides) if not v.known)
        if not asked.moments:
            self.dataset.cubes.foresee((*self.question.selection.plain.variables, *asked.sides))  # one pass in place of two
        counts, digests = self._register.cells(known, self._known)
        flat = [len(v.levels) if v.known else 1 for v in asked.sides]
        sizes, digests = counts.reshape(flat), digests.reshape(flat)
        moments = {"n": Moment(), **asked.moments}
        exact = self._exact_cells(asked.sides, moments, shape)
        if self.policy.scaled:
            exact = self._scaled_back(exact, known, counts, flat)
        p = self._nominal(asked.sides, hidden)
        sums, variances, losses, about = {}, {}, np.zeros(flat), []
        for name, moment in moments.items():
            noise = self.policy.counts if name == "n" else self.policy.noise(asked.noise)
            secret = bool(hidden or self._hidden or moment.confidential)
            variance, loss = self._cell_noise(moment, noise, sizes, p, hidden, secret)
            if secret:
                losses = losses + loss
                about.append(f"{name}:{moment.wording()}")
            variances[name] = np.array(np.broadcast_to(variance, shape))
            sums[name] = exact[name] + self._drawn(moment, asked.sides, sizes, digests, variances[name], noise, secret)
        noisy = self._register.noisy(sizes, digests)
        made = ProtectedCells(_SEAL, asked.sides, sums, variances, noisy)
        if not about:
            return made, None
        contents = self._contents((*asked.sides, *(m.variable for m in asked.moments.values() if m.variable is not None)))
        parted = sorted(v.name for v in asked.sides if not v.known)  # a cell of known variables is the same in every table
        whole = "|".join([*parted, *about, self._hidden_words, contents, self._tag])
        keys = tuple(_hashed(f"{n}/{d}/{whole}") for n, d in zip(sizes.ravel().tolist(), digests.ravel().tolist(), strict=True))
        return made, Loss(self._known, known, losses.reshape([len(v.levels) for v in known]), keys)

    @cached_property
    def _tag(self) -> str:
        """What names the noise of the policy: other noise of the same sum is another answer."""
        return self.policy.perturbation.hex()

    def _exact_cells(self, sides: Sequence[Variable], moments: Mapping[str, Moment], shape: Sequence[int]) -> dict[str, Numbers]:
        """Add up moments where the records live."""
        cells = [f"c{i}" for i in range(len(sides))]
        cube = self.dataset.cubes
        plain = self.question.selection.plain
        if list(moments) == ["n"] and self._kept == "TRUE" and cube.ready((*plain.variables, *sides)):
            return {"n": cube.within(plain, sides)[0].astype(np.float64)}
        columns = {c: v.codes for c, v in zip(cells, sides, strict=True)}
        sums: dict[str, Aggregate] = {}
        for place, (name, moment) in enumerate(moments.items()):
            if name == "n":
                continue
            columns[f"v{place}"], scale = self._moment_sql(moment)
            sums[name] = Sum(f"v{place}", scale=scale, parts=3 if moment.power else 2)
        listed = ", ".join(f"{sql} AS {name}" for name, sql in columns.items()) or "1 AS one"
        texts = ["count(*) AS n", *(text for name, one in sums.items() for text in one.select(f"s_{name}"))]
        found = self.dataset.warehouse.ask(
            aggregate_sql({c: c for c in cells}, texts, f"(SELECT {listed} FROM records WHERE {self._where}) AS chosen")  # noqa: S608
        )
        out = {"n": in_cells(found, cells, shape, "n").astype(np.float64)}
        for name, one in sums.items():
            out[name] = in_cells({**found, "value": one.read(f"s_{name}", found)}, cells, shape, "value")
        return out

    def _moment_sql(self, moment: Moment) -> tuple[str, float]:
        """Return SQL for what a record adds, null where it adds nothing, and a power of two that none exceeds."""
        weight, sql, scale = self.dataset.weight, [], 1.0
        if moment.variable is not None:
            x = self.policy.amounts.clipped(moment.variable)
            centred = f"({x} - {moment.centre!r})" if moment.centre else x
            size = max(abs(end - moment.centre) for end in self._ends(moment.variable))
            if moment.power == 0:
                sql.append(f"CASE WHEN {x} IS NULL THEN NULL ELSE 1.0E0 END")
            sql += [centred] * moment.power
            scale *= size**moment.power
        sql += ["w"] * moment.weights
        scale *= (weight.scale if weight is not None else 1.0) ** moment.weights
        return " * ".join(f"({part})" for part in sql) or "1.0E0", scale_of(scale)

    def _ends(self, variable: Variable) -> tuple[float, float]:
        """Return ends that no number of a variable exceeds as it enters a sum."""
        if self.policy.amounts.clip and variable.bounds is not None:
            return variable.bounds
        return variable.centre - variable.scale, variable.centre + variable.scale

    def _scaled_back(self, exact: dict[str, Numbers], known: Sequence[Variable], counts: Whole, flat: Sequence[int]) -> dict[str, Numbers]:
        """Return sums over all records from sums over those that were not dropped, in each cell of the known sides."""
        columns = [f"c{i}" for i in range(len(known))]
        coded = {c: v.codes for c, v in zip(columns, known, strict=True)}
        where = f"({self._known.where()}) AND ({self._kept})"
        found = self.dataset.warehouse.ask(aggregate_sql(coded, ["count(*) AS n"], "records", where))
        left = in_cells(found, columns, counts.shape, "n")
        factor = np.divide(counts, left, out=np.zeros(counts.shape), where=left > 0).reshape(flat)
        return {name: values * factor for name, values in exact.items()}

    def _nominal(self, sides: Sequence[Variable], hidden: Sequence[int]) -> Numbers:
        """Return the nominal share of a known cell's records in each confidential cell, that of the universe included."""
        shares = np.full([len(v.levels) if i in hidden else 1 for i, v in enumerate(sides)], self._hidden_share)
        for axis in hidden:
            shares = shares * _levels(sides[axis]).reshape([-1 if i == axis else 1 for i in range(len(sides))])
        return np.asarray(shares)

    def _cell_noise(
        self, moment: Moment, noise: Noise, sizes: Whole, p: Numbers, hidden: Sequence[int], secret: bool
    ) -> tuple[Numbers, Numbers]:
        """Return the variance of the noise on each cell, and what the sums of a known cell tell of its records."""
        reach, spread = self._reach(moment)
        heavy = self._heavy(moment)
        unit = reach / 2 if moment.power == 1 and moment.confidential else reach  # about the middle of the bounds
        grown = sizes * np.maximum(p * spread**2 - (p * 0.0 if moment.power else p**2), 0.0) if secret else 0.0
        variance = noise.variance(reach, np.asarray(grown, np.float64))
        if not secret or not noise.sd:
            return np.asarray(variance), np.zeros(sizes.shape)
        each = heavy**2 / np.broadcast_to(variance, np.broadcast_shapes(sizes.shape, p.shape))
        if not hidden:
            # the record stays in its cell: its number moves from one bound to the other, or it leaves the universe
            return np.asarray(variance), np.asarray(each * reach**2)
        flat = np.moveaxis(each, hidden, range(-len(hidden), 0))
        flat = flat.reshape(*flat.shape[: each.ndim - len(hidden)], -1)
        two = np.sort(flat, axis=-1)[..., -2:].sum(axis=-1) * unit**2  # it leaves one confidential cell and enters another
        one = flat.max(axis=-1) * reach**2 if moment.confidential else 0.0  # or its number moves within its cell
        return np.asarray(variance), np.maximum(two, one).reshape(sizes.shape)

    def _reach(self, moment: Moment) -> tuple[float, float]:
        """Return by what a record's confidential values can move what it adds, and its nominal root mean square; public."""
        weight = self.dataset.weight.large**moment.weights if self.dataset.weight is not None else 1.0
        if moment.variable is None or moment.power == 0:
            return weight, weight
        if moment.variable.bounds is None:
            return 0.0, 0.0
        low, high = (end - moment.centre for end in moment.variable.bounds)
        largest = max(abs(low), abs(high)) ** moment.power
        if not moment.confidential:
            return largest * weight, largest * weight / 2
        reach = (high - low if moment.power % 2 else largest) if low <= 0 <= high else largest
        middle = moment.variable.middle - moment.centre
        square = (moment.variable.spread * (high - low)) ** 2 + middle**2
        rms = math.sqrt(square) if moment.power == 1 else math.sqrt(min(3 * square**2, largest**2))
        return reach * weight, min(rms, largest) * weight

    def _heavy(self, moment: Moment) -> float:
        """Return how much more the heaviest record adds than noise is scaled to."""
        weight = self.dataset.weight
        return (weight.heaviest / weight.large) ** moment.weights if weight is not None else 1.0

    def _drawn(
        self, moment: Moment, sides: Sequence[Variable], sizes: Whole, digests: Whole, variance: Numbers, noise: Noise, secret: bool
    ) -> Numbers:
        """Return the noise of each cell: keyed by the records that known variables select, and by what is asked of them."""
        shape = variance.shape
        if not noise.sd:
            return np.zeros(shape)
        if not secret and moment.variable is None and not moment.weights:
            n, d = (np.broadcast_to(v, shape) for v in (sizes, digests))
            return self._register.noisy(n, d) - n  # a count by known variables: the noise that rules see
        variables = (*sides, *([moment.variable] if moment.variable is not None else []))
        about = "|".join([moment.wording(), self._hidden_words, self._contents(variables), noise.wording(), self._kept])
        hidden = sorted((v.name, axis) for axis, v in enumerate(sides) if not v.known)
        place, names = np.zeros([1] * len(sides), np.int64), ",".join(f"{name}:{shape[axis]}" for name, axis in hidden)
        for _, axis in hidden:  # in order of their names: however the table is turned, the same noise
            place = place * shape[axis] + np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(sides))])
        placed = (np.broadcast_to(v, shape).ravel().tolist() for v in (sizes, digests, place))
        keys = [_hashed(f"{a}/{b}/{names}/{c}/{about}") for a, b, c in zip(*placed, strict=True)]
        return (np.sqrt(variance).ravel() * self.dataset.secret.normals(keys, "sum")).reshape(shape)

    # -- totals

    def _totals(self, asked: TotalSums) -> tuple[ProtectedTotals, Loss | None]:
        """Return sums over the records of the universe, and their loss."""
        columns = {c for v in asked.variables if v.known for c in (v.codes_column, v.numbers)} | {"w", "s", "h", "r"}
        if not set(asked.factors.columns) <= columns:
            raise TypeError("the factors of a sum are of known variables")
        warehouse, noise = self.dataset.warehouse, self.policy.models
        clip = bool(noise.sd)
        work = _Totals(asked.factors, asked.confidential, asked.bounds, asked.pairs, clip)
        values = warehouse.reduce(work, work.columns, self._where)
        n, digest = (int(v.sum()) for v in self._register.cells((), self._known))
        if not noise.sd:
            return ProtectedTotals(_SEAL, values, np.zeros(len(values))), None
        reach = np.array([self._bounds(asked.bounds[g])[1] for _, g in asked.pairs])
        spread = np.array([asked.bounds[g].spread for _, g in asked.pairs])
        rows = [u for u, _ in asked.pairs]
        squares, largest = self._sizes(asked.factors)
        variance = noise.variance(reach * np.sqrt(largest[rows]), squares[rows] * spread**2) / asked.share
        variance = np.where(reach > 0, np.maximum(variance, 1e-300), 0.0)
        about = "|".join([asked.name, self._hidden_words, self._contents(asked.variables), noise.wording(), self._kept, f"{asked.share!r}"])
        keys = [_hashed(f"{n}/{digest}/{about}/{t}") for t in range(len(values))]
        drawn = np.sqrt(variance) * self.dataset.secret.normals(keys, "total")
        loss = self._loss(asked, rows, np.divide(reach**2, variance, out=np.zeros(len(values)), where=variance > 0))
        key = _hashed(f"{n}/{digest}/{about}/{self._tag}")
        sides = self._by(asked)
        cells = math.prod(len(v.levels) for v in sides)
        named = tuple(_hashed(f"{key.hex()}/{i}") for i in range(cells))
        return ProtectedTotals(_SEAL, values + drawn, variance), Loss(self._known, sides, loss, named)

    def _bounds(self, one: Confidential) -> tuple[float, float]:
        """Return the low bound and the reach of a factor; what a record outside of a confidential condition adds is 0."""
        low, high = (min(one.low, 0.0), max(one.high, 0.0)) if self._hidden else (one.low, one.high)
        return low, high - low

    def _by(self, asked: TotalSums) -> tuple[Variable, ...]:
        sides: list[Variable] = []
        for v in asked.by:
            if v.known and math.prod(len(x.levels) for x in (*sides, v)) <= _BY:
                sides.append(v)
        return tuple(sides)

    def _sizes(self, factors: RecordFunction) -> tuple[Numbers, Numbers]:
        """Return Σ u² of each known factor, and the largest u², found to a factor of 2^(1/16)."""
        work = _Squares(factors)
        found = self._register.reduce(work, work.columns, self._known)
        m = len(found) // (1 + _Squares.bins)
        squares, counts = found[:m], found[m:].reshape(m, -1)
        return squares, _top(counts)

    def _loss(self, asked: TotalSums, rows: Sequence[int], price: Numbers) -> Numbers:
        """Return the largest Σ u² reach² / variance of the records of each group; one axis per side."""
        sides = self._by(asked)
        shape = [len(v.levels) for v in sides]
        weights = np.zeros(max(rows, default=0) + 1)
        np.add.at(weights, rows, price)
        work = _LossCounts(asked.factors, weights, tuple(v.codes_column for v in sides), tuple(shape))
        found = self._register.reduce(work, work.columns, self._known)
        return _top(found.reshape(math.prod(shape), -1)).reshape(shape)


# --- reductions over records


class _Totals(RecordFunction):
    def __init__(
        self, factors: RecordFunction, confidential: RecordFunction, bounds: Sequence[Confidential], pairs: Sequence[tuple[int, int]], clip: bool
    ) -> None:
        self.factors, self.confidential, self.pairs, self.clip = factors, confidential, tuple(pairs), clip
        self.low = np.array([b.low for b in bounds])[:, None]
        self.high = np.array([b.high for b in bounds])[:, None]

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.factors.columns, *self.confidential.columns])) or ["r"]

    @override
    def __call__(self, piece: Piece) -> Numbers:
        u, g = self.factors(piece), self.confidential(piece)
        g = np.nan_to_num(g, nan=0.0)
        if self.clip:
            g = np.clip(g, self.low, self.high)
        products = u @ g.T
        return np.array([products[i, j] for i, j in self.pairs])


class _Squares(RecordFunction):
    bins = (_HIGHEST - _LOWEST) * _FINE + 1

    def __init__(self, factors: RecordFunction) -> None:
        self.factors = factors

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(self.factors.columns) or ["r"]

    @override
    def __call__(self, piece: Piece) -> Numbers:
        squares = np.square(self.factors(piece))
        counts = [np.bincount(_place(row), minlength=self.bins) for row in squares]
        return np.concatenate([squares.sum(axis=1), *counts]).astype(np.float64)


class _LossCounts(RecordFunction):
    def __init__(self, factors: RecordFunction, weights: Numbers, codes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        self.factors, self.weights, self.codes, self.shape = factors, weights, codes, shape

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.factors.columns, *self.codes])) or ["r"]

    @override
    def __call__(self, piece: Piece) -> Numbers:
        u = self.factors(piece)[: len(self.weights)]
        place = _place(self.weights @ np.square(u))
        cells, bins = math.prod(self.shape), _Squares.bins
        if self.codes:
            at = np.ravel_multi_index([np.asarray(piece[c], np.int64) for c in self.codes], self.shape)
            place = at * bins + place
        return np.bincount(place, minlength=cells * bins).astype(np.float64)


def _place(values: Numbers) -> Whole:
    """Return the bin of each number on a scale of powers of 2^(1/16); the first one holds zeros."""
    with np.errstate(divide="ignore"):
        found = np.ceil((np.log2(values) - _LOWEST) * _FINE)
    placed = np.nan_to_num(found, nan=0.0, neginf=0.0, posinf=_Squares.bins - 1)
    return np.asarray(np.clip(placed, 0, _Squares.bins - 1), np.int64)


def _top(counts: Numbers) -> Numbers:
    """Return the upper end of the last bin that holds a record, for each row; 0 where none does."""
    some = counts > 0.5
    last = counts.shape[1] - 1 - np.argmax(some[:, ::-1], axis=1)
    return np.where(some[:, 1:].any(axis=1), 2.0 ** (_LOWEST + last / _FINE), 0.0)


# --- nominal shares


def _levels(variable: Variable) -> Numbers:
    """Return the nominal share of each level; the same for all where none was read off."""
    shares = np.array(variable.shares, np.float64)
    return shares if len(shares) == len(variable.levels) else np.full(len(variable.levels), 1 / len(variable.levels))


def _joint(variables: Sequence[Variable]) -> Numbers:
    found = np.ones([1] * len(variables))
    for axis, variable in enumerate(variables):
        found = found * _levels(variable).reshape([-1 if i == axis else 1 for i in range(len(variables))])
    return np.asarray(found)


def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


# --- drops


def kept(drop: Drop, dataset: Dataset, question: Question) -> str:
    """Return the SQL condition that a record of the universe is kept by the subsample (section 4)."""
    if isinstance(drop, DropShare):
        return dataset.secret.kept(_set_key(dataset, known_part(question.selection)), drop.share) if drop.share else "TRUE"
    key = _set_key(dataset, question.selection)
    if isinstance(drop, DropEnough):
        plain = question.selection.plain
        counts = dataset.cubes.of(plain.variables).counts
        return kept(drop.for_table(CellTable.of(counts[plain.chosen])), dataset, question)
    q = drop.q if isinstance(drop, DropQ) else 0
    if isinstance(drop, DropRange):
        q = drop.low + int(float(dataset.secret.uniforms([key], "how many to drop")[0]) * (drop.high - drop.low + 1))
    if not q:
        return "TRUE"
    order, where = dataset.secret.order(key), question.selection.where()
    found = dataset.warehouse.ask(
        f"SELECT place FROM (SELECT {order} AS place FROM records WHERE {where}) AS places ORDER BY place LIMIT {q}"  # noqa: S608
    )
    return f"{order} > {int(found['place'].max())}" if len(found["place"]) else "TRUE"


def _set_key(dataset: Dataset, selection: Selection) -> bytes:
    """Return a key of a set of records: however it was asked for, the same set has the same drops."""
    plain = selection.plain
    cube = dataset.cubes.of(plain.variables)
    return _hashed(f"records/{cube.count(plain)}/{cube.digest(plain)}")
