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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from typing_extensions import override

from sfumato.data.aggregates import Aggregate, Sum, aggregate_sql
from sfumato.data.exact_sums import scale_of
from sfumato.errors import DataError, SfumatoError
from sfumato.mas.cube import in_cells
from sfumato.mas.dataset import Dataset
from sfumato.mas.drop_q import CellTable, Drop, DropEnough, DropQ, DropRange, DropShare
from sfumato.mas.perturbation import Counts, Noise
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.rule import UniverseEvidence
from sfumato.mas.sums import (
    _SEAL,
    Company,
    Confidential,
    Moment,
    Piece,
    PrivacyLoss,
    ProtectedCells,
    ProtectedSums,
    ProtectedTotals,
    RecordFunction,
    SumsRequest,
    TableSums,
    TotalSums,
    whole,
)
from sfumato.mas.universe import Selection, Universe, in_base, split
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers, Whole

_FINE = 16
"""The largest loss of a record is found to a factor of 2^(1/16), from counts of records by their loss."""
_LOWEST, _HIGHEST = -100, 100
"""Losses are counted between these powers of two."""
_LEFT = 10
"""A universe has at least this many times the records that are dropped from it."""
_BY = 1_000
"""Records are charged by at most this many groups."""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The records of a data set behind one policy. Only `protect` looks at confidential values."""

    dataset: Dataset
    policy: Policy
    question: Question
    blind: bool = False
    """Whether confidential values are not looked at: sums are 0 and have no noise, and only losses mean anything."""

    def losses(self, request: SumsRequest) -> tuple[PrivacyLoss, ...]:
        """Return what a request would tell of each record: from known variables and public facts, without adding anything up."""
        blind = replace(self, blind=True)
        parts = [
            blind._cells(part) if isinstance(part, TableSums) else blind._totals(part)
            for part in request.parts.values()
        ]
        return tuple(loss for _, losses in parts for loss in losses)

    def protect(self, request: SumsRequest) -> tuple[ProtectedSums, tuple[PrivacyLoss, ...]]:
        """Return the protected sums of a request, and what they tell of each record; the caller charges before it tells."""
        parts: dict[str, ProtectedCells | ProtectedTotals] = {}
        losses: list[PrivacyLoss] = []
        for name, part in request.parts.items():
            made, told = self._cells(part) if isinstance(part, TableSums) else self._totals(part)
            parts[name] = made
            losses += told
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

    def _digests(self, variables: Sequence[Variable]) -> tuple[tuple[str, str], ...]:
        """Return names and digests of the confidential columns that sums depend on."""
        hidden = {(v.base or v).plain_name for v in (*variables, *self._hidden) if not v.known}
        return tuple((name, self.dataset.contents[name]) for name in sorted(hidden))

    def _contents(self, variables: Sequence[Variable]) -> str:
        """Return the digests as keys have them: noise is fresh where any of these columns changed."""
        return ",".join(f"{name}={digest}" for name, digest in self._digests(variables))

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

    def _cells(self, asked: TableSums) -> tuple[ProtectedCells, list[PrivacyLoss]]:
        """Return the cells of a table, and what they tell; the order of its sides does not matter."""
        axes = sorted(range(len(asked.sides)), key=lambda i: asked.sides[i].name)
        made, told = self._table(replace(asked, sides=tuple(asked.sides[i] for i in axes)))
        back = np.argsort(axes) if axes else axes
        sums, variances = ({k: v.transpose(back) for k, v in d.items()} for d in (made.sums, made.variances))
        return ProtectedCells(_SEAL, asked.sides, sums, variances, made.sizes.transpose(back)), told

    def _table(self, asked: TableSums) -> tuple[ProtectedCells, list[PrivacyLoss]]:
        shape = [len(v.levels) for v in asked.sides]
        known = tuple(v for v in asked.sides if v.known)
        hidden = tuple(i for i, v in enumerate(asked.sides) if not v.known)
        if not asked.moments and not self.blind:
            self.dataset.cubes.foresee(
                (*self.question.selection.plain.variables, *asked.sides)
            )  # one pass in place of two
        counts, digests = self._register.cells(known, self._known)
        flat = [len(v.levels) if v.known else 1 for v in asked.sides]
        sizes, digests = counts.reshape(flat), digests.reshape(flat)
        moments = {"n": Moment(), **asked.moments}
        exact = self._exact_cells(asked, moments, shape)
        back = self._scaled_back(known, counts).reshape(flat)
        p = self._nominal(asked.sides, hidden)
        sums, variances = {}, {}
        told: dict[bool, tuple[Numbers, str]] = {}
        for name, moment in moments.items():
            noise = self.policy.counts if name == "n" else self.policy.noise(asked.noise)
            secret = bool(hidden or self._hidden or moment.confidential)
            balanced = name == "n" and p.size > 1 and not self._hidden and noise.sd > 0  # how many there are is known
            if balanced:
                variance, loss = self._balanced_noise(noise, sizes, p, back)
            else:
                variance, loss = self._cell_noise(moment, noise, sizes, p, hidden, secret, back)
            about = self._about(moment, asked.sides, noise, p) if noise.sd else ""
            if secret and noise.sd:
                before, words = told.get(name == "n", (np.zeros(flat), ""))
                told[name == "n"] = before + loss, f"{words}|{about}"
            variances[name] = np.array(np.broadcast_to(variance, shape))
            drawn = self._drawn(
                about, asked.sides, sizes, digests, variances[name], noise, secret or moment != Moment()
            )
            if balanced:
                drawn = (drawn - drawn.mean(axis=hidden, keepdims=True)) * math.sqrt(p.size / (p.size - 1))
            sums[name] = exact[name] * np.maximum(back, 1.0) + drawn
        made = ProtectedCells(_SEAL, asked.sides, sums, variances, self._register.noisy(sizes, digests))
        lengths = [len(v.levels) for v in known]
        return made, [
            PrivacyLoss(
                self._known, known, loss.reshape(lengths), tuple(_hashed(f"{key}/{about}") for key in _sets(sizes, digests)),
                self._company(asked, p, hidden, counts=of_counts),
            )
            for of_counts, (loss, about) in told.items()
        ]  # fmt: skip

    def _company(self, asked: TableSums, p: Numbers, hidden: Sequence[int], counts: bool) -> tuple[Company, ...]:
        """Return how much other records of a known cell hide one of them, by what is nominally known of the variables."""
        moved = [m.variable for m in asked.moments.values() if m.variable is not None and m.confidential and not counts]
        names = sorted({asked.sides[i].plain_name for i in hidden} | {v.plain_name for v in (*self._hidden, *moved)})
        variance = float((p * (1 - p)).min()) if p.size > 1 or self._hidden else 1.0
        uneven = (
            m.weights or (m.variable is not None and m.power and not m.confidential) for m in asked.moments.values()
        )
        if not counts and any(uneven):  # who has most of a known amount, or of the weights, is hidden by nobody
            variance = 0.0
        cells = math.prod(len(asked.sides[i].levels) for i in hidden)
        if cells > 2:  # a record leaves one of several cells and enters another
            variance /= 2
        whose = self._digests((*(asked.sides[i] for i in hidden), *moved))
        found = [Company(tuple(names), min([variance, *(v.spread**2 for v in moved)]), contents=whose)]
        if len(names) > 1 and not self._hidden and not moved:
            for i in hidden:
                shares, levels = _levels(asked.sides[i]), len(asked.sides[i].levels)
                own = float((shares * (1 - shares)).min()) / (2 if levels > 2 else 1)
                one = asked.sides[i]
                found.append(Company((one.plain_name,), own, levels / cells, self._digests((one,))))
        return tuple(found)

    def _about(self, moment: Moment, sides: Sequence[Variable], noise: Noise, p: Numbers) -> str:
        """Return all that the noise of a sum is drawn for, beside its records: another one is another sum, or other noise.

        What a user was told under the same words is not charged again.
        """
        x = moment.variable
        hidden = ",".join(f"{v.name}:{len(v.levels)}:{v.groups}" for v in sides if not v.known)
        nominal = hashlib.blake2b(np.ascontiguousarray(p).tobytes(), digest_size=16).hexdigest()
        size = f"{None if x is None else x.bounds}/{self._reach(moment)!r}/{nominal}/{self.dataset.together}"
        contents = self._contents((*sides, *([x] if x is not None else [])))
        return "|".join([moment.wording(), size, hidden, self._hidden_words, contents, noise.wording(), self._kept])

    def _exact_cells(self, asked: TableSums, moments: Mapping[str, Moment], shape: Sequence[int]) -> dict[str, Numbers]:
        """Add up moments where the records live."""
        if self.blind:
            return {name: np.zeros(shape) for name in moments}
        sides = asked.sides
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
            columns[f"v{place}"], scale = self._moment_sql(moment, self._clips(self.policy.noise(asked.noise)))
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

    def _clips(self, noise: Noise) -> bool:
        """Whether numbers are clipped to their bounds: noise is made for what is between them."""
        return self.policy.amounts.clip or noise.sd > 0

    def _moment_sql(self, moment: Moment, clip: bool) -> tuple[str, float]:
        """Return SQL for what a record adds, null where it adds nothing, and a power of two that none exceeds."""
        weight, sql, scale = self.dataset.weight, [], 1.0
        if moment.variable is not None:
            x = clipped_sql(moment.variable) if clip else moment.variable.numbers
            centred = f"({x} - {moment.centre!r})" if moment.centre else x
            held = self.dataset.variables[moment.variable.plain_name]
            size = max(abs(end - moment.centre) for end in _ends(held, clip))
            if moment.power == 0:
                sql.append(f"CASE WHEN {x} IS NULL THEN NULL ELSE 1.0E0 END")
            sql += [centred] * moment.power
            scale *= size**moment.power
        sql += ["w"] * moment.weights
        scale *= (weight.scale if weight is not None else 1.0) ** moment.weights
        return " * ".join(f"({part})" for part in sql) or "1.0E0", scale_of(scale)

    def _scaled_back(self, known: Sequence[Variable], counts: Whole) -> Numbers:
        """Return by what sums over records that were not dropped are multiplied, in each cell of known sides; 0 if none is left."""
        if not self.policy.scaled:
            return np.ones(counts.shape)
        columns = [f"c{i}" for i in range(len(known))]
        coded = {c: v.codes for c, v in zip(columns, known, strict=True)}
        where = f"({self._known.where()}) AND ({self._kept})"
        found = self.dataset.warehouse.ask(aggregate_sql(coded, ["count(*) AS n"], "records", where))
        left = in_cells(found, columns, counts.shape, "n")
        return np.asarray(np.divide(counts, left, out=np.zeros(counts.shape), where=left > 0), np.float64)

    def _nominal(self, sides: Sequence[Variable], hidden: Sequence[int]) -> Numbers:
        """Return the nominal share of a known cell's records in each confidential cell, that of the universe included."""
        shares = np.full([len(v.levels) if i in hidden else 1 for i, v in enumerate(sides)], self._hidden_share)
        for axis in hidden:
            shares = shares * _levels(sides[axis]).reshape([-1 if i == axis else 1 for i in range(len(sides))])
        return np.asarray(shares)

    def _cell_noise(
        self, moment: Moment, noise: Noise, sizes: Whole, p: Numbers, hidden: Sequence[int], secret: bool, back: Numbers
    ) -> tuple[Numbers, Numbers]:  # fmt: skip
        """Return the variance of the noise on each cell, and what the sums of a known cell tell of its records."""
        if not noise.sd:
            return np.zeros(()), np.zeros(sizes.shape)
        reach, largest, spread = self._reach(moment)
        if not secret:
            return noise.variance(reach, 0.0), np.zeros(sizes.shape)
        grown = np.asarray(sizes * np.maximum(p * spread**2 - (p * 0.0 if moment.power else p**2), 0.0), np.float64)
        many, back = self.dataset.together, np.maximum(back, 1.0)
        variance = np.asarray(noise.variance(reach * many, grown) * back**2)
        each = (self._heavy(moment) * many * back) ** 2 / variance
        one = (
            each * reach**2
        )  # the number of a record moves from one bound to the other, or the record leaves the universe
        if not hidden:
            return variance, np.asarray(one)
        # or it leaves one confidential cell and enters another
        flat = np.moveaxis(each, hidden, range(-len(hidden), 0)).reshape(sizes.size, -1)
        two = np.sort(flat, axis=-1)[:, -2:].sum(axis=-1) * largest**2
        return variance, np.maximum(two.reshape(sizes.shape), one.max(axis=tuple(hidden), keepdims=True))

    def _balanced_noise(self, noise: Noise, sizes: Whole, p: Numbers, back: Numbers) -> tuple[Numbers, Numbers]:
        """Return variance and loss of counts of confidential cells that add up to a known number, as their noise does to 0.

        Independent noise of variance s² less its mean has the variance v = s² (L − 1) / L in each of L cells, and a record that
        leaves one cell for another loses 2 / s²: with two levels half of what independent noise of variance v would cost.
        """
        many, back = self.dataset.together, np.maximum(back, 1.0)
        grown = np.asarray(sizes * float((p * (1 - p)).mean()), np.float64)
        variance = np.asarray(noise.variance(many, grown) * back**2)
        return variance, np.asarray(2 * (p.size - 1) / p.size * (many * back) ** 2 / variance)

    def unit(self, moment: Moment, sides: Sequence[Variable]) -> tuple[float, float, float]:
        """Return the variance of noise with standard deviation 1, its loss, and the nominal size of what a record adds.

        The variance is that of the independent noise of cells, before it is made to sum to 0 over confidential ones.
        """
        hidden = [v for v in sides if not v.known]
        ones = np.ones([1] * len(hidden))
        p = np.ones([len(v.levels) for v in hidden])
        if moment == Moment() and p.size > 1:
            variance, loss = self._balanced_noise(Counts(sd=1.0), whole(0 * ones), p, ones)
            variance = variance * p.size / (p.size - 1)
        else:
            variance, loss = self._cell_noise(
                moment, Counts(sd=1.0), whole(0 * ones), p, tuple(range(len(hidden))), True, ones
            )
        return float(variance.max()), float(loss.max()), self._reach(moment)[2]

    def _reach(self, moment: Moment) -> tuple[float, float, float]:
        """Return by what a record's confidential values can move what it adds, the most that it adds, and its nominal root mean
        square; all public. What a record without a number, or outside of the universe, adds is 0."""
        weight = self.dataset.weight.large**moment.weights if self.dataset.weight is not None else 1.0
        if moment.variable is None or moment.power == 0:
            return weight, weight, weight
        if moment.variable.bounds is None:
            raise DataError(
                f"variable '{moment.variable.name}' has no public bounds, so that no noise can be made for its sums. The custodian "
                "can give it bounds in the schema."
            )
        low, high = (end - moment.centre for end in moment.variable.bounds)
        ends = (low**moment.power, high**moment.power, 0.0)
        largest = max(map(abs, ends))
        if not moment.confidential:
            return largest * weight, largest * weight, largest * weight / 2
        reach = max(ends) - min(ends)
        middle = moment.variable.middle - moment.centre
        square = (moment.variable.spread * (high - low)) ** 2 + middle**2
        rms = math.sqrt(square) if moment.power == 1 else math.sqrt(min(3 * square**2, largest**2))
        return reach * weight, largest * weight, min(rms, largest) * weight

    def _heavy(self, moment: Moment) -> float:
        """Return how much more the heaviest record adds than noise is scaled to."""
        weight = self.dataset.weight
        return (weight.heaviest / weight.large) ** moment.weights if weight is not None else 1.0

    def _drawn(
        self, about: str, sides: Sequence[Variable], sizes: Whole, digests: Whole, variance: Numbers, noise: Noise, own: bool
    ) -> Numbers:  # fmt: skip
        """Return the noise of each cell: keyed by the records that known variables select, and by what is asked of them."""
        shape = variance.shape
        if not noise.sd or self.blind:
            return np.zeros(shape)
        if not own:  # a count by known variables: the noise that rules see
            return np.broadcast_to(self._register.noisy(sizes, digests) - sizes, shape)
        place = np.arange(math.prod(len(v.levels) for v in sides if not v.known))
        place = place.reshape([len(v.levels) if not v.known else 1 for v in sides])
        sets = np.array(_sets(sizes, digests), object).reshape(sizes.shape)
        full, words = (np.broadcast_to(v, shape) for v in (sets, place)), _hashed(about).hex()
        keys = [_hashed(f"{key}/{at}/{words}") for key, at in zip(*(v.ravel().tolist() for v in full), strict=True)]
        return (np.sqrt(variance).ravel() * self.dataset.secret.normals(keys, "sum")).reshape(shape)

    # -- totals

    def _totals(self, asked: TotalSums) -> tuple[ProtectedTotals, list[PrivacyLoss]]:
        """Return sums over the records of the universe, and what they tell."""
        for function, read in ((asked.factors, split(asked.variables)[0]), (asked.confidential, asked.variables)):
            if not set(function.columns) <= {"w", "s", "h", "r"}.union(*((v.codes_column, v.numbers) for v in read)):
                raise TypeError("the factors of a sum are of known variables, and none is of others than the sum says")
        warehouse, noise = self.dataset.warehouse, self.policy.models
        bounds = [self._bounds(asked, one) for one in asked.bounds]
        if asked.exclusive and any(b.low < 0 or b.high > 1 for b in bounds):
            raise TypeError("shares of a record lie between 0 and 1")
        work = _Totals(asked, bounds, bool(noise.sd))
        back = float(self._scaled_back((), np.array(self._register.cells((), self._known)[0])))
        sums = np.zeros(len(asked.pairs)) if self.blind else warehouse.reduce(work, work.columns, self._where)
        values = sums * max(back, 1.0)
        n, digest = (int(v.sum()) for v in self._register.cells((), self._known))
        if not noise.sd:
            return ProtectedTotals(_SEAL, values, np.zeros(len(values))), []
        reach = np.array([bounds[g].reach for _, g in asked.pairs]) * self.dataset.together
        spread = np.array([asked.bounds[g].spread for _, g in asked.pairs])
        rows = [u for u, _ in asked.pairs]
        squares, largest, marks = self._sizes(asked.factors)
        variance = noise.variance(reach * np.sqrt(largest[rows]), squares[rows] * spread**2) / asked.share
        variance = np.where(reach > 0, np.maximum(variance, 1e-300), 0.0)
        loss, even = self._loss(
            asked, rows, np.divide(reach**2, variance, out=np.zeros(len(values)), where=variance > 0)
        )
        variance = variance * max(back, 1.0) ** 2
        contents = self._contents(asked.variables)
        about = "|".join([asked.name, self._hidden_words, contents, noise.wording(), self._kept, f"{asked.share!r}"])
        about += "|exclusive" if asked.exclusive else ""
        sized = [
            f"{bounds[g].low!r}:{bounds[g].high!r}:{marks[u]}:{v:.9g}"
            for (u, g), v in zip(asked.pairs, variance, strict=True)
        ]
        keys = [_hashed(f"{n}/{digest}/{about}/{t}/{words}") for t, words in enumerate(sized)]
        drawn = np.zeros(len(keys)) if self.blind else np.sqrt(variance) * self.dataset.secret.normals(keys, "total")
        sides, key = self._by(asked), _hashed(f"{n}/{digest}/{about}/{sized}").hex()
        named = tuple(_hashed(f"{key}/{i}") for i in range(math.prod(len(v.levels) for v in sides)))
        told = PrivacyLoss(self._known, sides, loss, named, self._outcome_company(asked, even))
        return ProtectedTotals(_SEAL, values + drawn, variance), [told]

    def _outcome_company(self, asked: TotalSums, even: float) -> tuple[Company, ...]:
        """Return how much others hide a record in sums of one confidential outcome; nothing is said where it has several parts.

        `even` is what other records of its group lose at least, as a share of what the record loses: whose known factors are small
        hides it little.
        """
        hidden = tuple(sorted({v.plain_name for v in (*asked.variables, *self._hidden) if not v.known}))
        if len(hidden) != 1 or self._hidden or asked.exclusive:
            return (Company(hidden, 0.0),)  # others may be known from other answers
        variance = even * min((b.spread / b.reach) ** 2 if b.reach else 0.0 for b in asked.bounds)
        return (Company(hidden, variance, contents=self._digests(asked.variables)),)

    def _bounds(self, asked: TotalSums, one: Confidential) -> Confidential:
        """Return the bounds of a factor: what a record outside of a confidential condition, or without a number, adds is 0."""
        if self._hidden or any(v.gaps for v in asked.variables if not v.known):
            return replace(one, low=min(one.low, 0.0), high=max(one.high, 0.0))
        return one

    def _by(self, asked: TotalSums) -> tuple[Variable, ...]:
        sides: list[Variable] = []
        for v in asked.by:  # an outcome may be a predictor, too
            if v.known and v not in sides and math.prod(len(x.levels) for x in (*sides, v)) <= _BY:
                sides.append(v)
        return tuple(sides)

    def _sizes(self, factors: RecordFunction) -> tuple[Numbers, Numbers, list[str]]:
        """Return Σ u² of each known factor, the largest u² (found to a factor of 2^(1/16)), and a mark that no other factor has.

        The mark is Σ u r / √Σ u², with r the random numbers of the records. Sums of other factors, such as those of records that
        have other gaps, have noise of their own, whatever their name is.
        """
        work = _Squares(factors)
        found = self._register.reduce(work, work.columns, self._known)
        m = len(found) // (2 + _Squares.bins)
        squares, mixed, counts = found[:m], found[m : 2 * m], found[2 * m :].reshape(m, -1)
        marks = [f"{mark:.7f}" for mark in np.divide(mixed, np.sqrt(squares), out=np.zeros(m), where=squares > 0)]
        return squares, _top(counts), marks

    def _loss(self, asked: TotalSums, rows: Sequence[int], price: Numbers) -> tuple[Numbers, float]:
        """Return the largest Σ u² reach² / variance of the records of each group, one axis per side; and the smallest ratio, in any
        group, of the mean to the largest."""
        sides = self._by(asked)
        shape = [len(v.levels) for v in sides]
        weights = np.zeros(max(rows, default=0) + 1)
        for u in set(rows):
            own = np.sort(price[np.asarray(rows) == u])
            weights[u] = own[-2:].sum() if asked.exclusive else own.sum()
        work = _LossCounts(asked.factors, weights, tuple(v.codes_column for v in sides), tuple(shape))
        found = self._register.reduce(work, work.columns, self._known)
        counts = found.reshape(math.prod(shape), -1)
        top, n = _top(counts), counts.sum(axis=1)
        ends = np.where(
            np.arange(_Squares.bins), 2.0 ** (_LOWEST + (np.arange(_Squares.bins) - 1) / _FINE), 0.0
        )  # lower ones
        mean = np.divide(counts @ ends, n, out=np.zeros(len(n)), where=n > 0)
        lived = (top > 0) & np.isfinite(top)
        return top.reshape(shape), float(min(1.0, (mean[lived] / top[lived]).min(initial=1.0)))


# --- the sums that rules on universes look at


def universe_sums(question: Question) -> tuple[Question, SumsRequest] | None:
    """Return the cells in which sets with confidential conditions are counted, and of whom; None where no rule needs them."""
    selection = question.selection
    base = in_base(selection.variables, selection.chosen)[0]
    hidden = tuple(v for v in base if not v.known)
    if not hidden or not any(rule.needs is UniverseEvidence for rule in question.policy.rules):
        return None
    exact = not question.policy.counts.sd
    sides = hidden if not exact and len(selection.pieces) == 1 and _is_product(selection) else base
    around = replace(question, universe=Universe())
    around.__dict__["selection"] = Selection((), (np.ones((), bool),)) if exact else known_part(selection)
    return around, SumsRequest({"cells": TableSums(sides)})


def _is_product(selection: Selection) -> bool:
    """Return whether a universe asks the same of confidential variables wherever its known part is."""
    plain = selection.plain
    known = tuple(i for i, v in enumerate(plain.variables) if v.known)
    hidden = tuple(i for i, v in enumerate(plain.variables) if not v.known)
    whole = plain.chosen.any(axis=known, keepdims=True) & plain.chosen.any(axis=hidden, keepdims=True)
    return bool((whole == plain.chosen).all())


# --- reductions over records


class _Totals(RecordFunction):
    def __init__(self, asked: TotalSums, bounds: Sequence[Confidential], clip: bool) -> None:
        self.factors, self.confidential, self.pairs, self.clip = asked.factors, asked.confidential, asked.pairs, clip
        self.exclusive = asked.exclusive
        self.low = np.array([[b.low] for b in asked.bounds])
        self.high = np.array([[b.high] for b in asked.bounds])
        self.none = np.array(
            [[float(np.clip(0.0, b.low, b.high))] for b in bounds]
        )  # what a record without a number adds

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*(self.factors.columns or ["r"]), *self.confidential.columns]))

    @override
    def __call__(self, piece: Piece) -> Numbers:
        u = self.factors({c: piece[c] for c in (self.factors.columns or ["r"])})  # nothing else is there to be read
        g = self.confidential(piece)
        if self.clip:
            g = np.where(np.isnan(g), self.none, np.clip(g, self.low, self.high))
            g = g / np.maximum(g.sum(axis=0), 1.0) if self.exclusive else g
        products = u @ np.nan_to_num(g, nan=0.0).T
        return np.array([products[i, j] for i, j in self.pairs])


class _Squares(RecordFunction):
    bins = (_HIGHEST - _LOWEST) * _FINE + 1

    def __init__(self, factors: RecordFunction) -> None:
        self.factors = factors

    @override
    @property
    def columns(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.factors.columns, "r"]))

    @override
    def __call__(self, piece: Piece) -> Numbers:
        u = self.factors(piece)
        squares = np.square(u)
        counts = [np.bincount(_place(row), minlength=self.bins) for row in squares]
        mixed = u @ (np.asarray(piece["r"], np.float64) / 2.0**31)
        return np.concatenate([squares.sum(axis=1), mixed, *counts]).astype(np.float64)


class _LossCounts(RecordFunction):
    def __init__(
        self, factors: RecordFunction, weights: Numbers, codes: tuple[str, ...], shape: tuple[int, ...]
    ) -> None:
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
    """Return the bin of each number on a scale of powers of 2^(1/16): the first one holds zeros, the last all that is larger."""
    with np.errstate(divide="ignore"):
        found = np.ceil((np.log2(values) - _LOWEST) * _FINE)
    last = _Squares.bins - 1
    placed = np.clip(np.nan_to_num(found, nan=last, neginf=0.0, posinf=last), 1, last)
    return np.where(values == 0, 0, placed).astype(np.int64)


def _top(counts: Numbers) -> Numbers:
    """Return the upper end of the last bin that holds a record, for each row; 0 where none does, and no end of the last bin."""
    some = counts > 0.5
    last = counts.shape[1] - 1 - np.argmax(some[:, ::-1], axis=1)
    ends = np.where(last == counts.shape[1] - 1, np.inf, 2.0 ** (_LOWEST + last / _FINE))
    return np.where(some[:, 1:].any(axis=1), ends, 0.0)


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


def clipped_sql(variable: Variable) -> str:
    """Return SQL for the numbers of a variable, clipped to its bounds if it has any."""
    x = variable.numbers
    if variable.bounds is None:
        return x
    low, high = variable.bounds
    return f"CASE WHEN {x} < {low!r} THEN {low!r} WHEN {x} > {high!r} THEN {high!r} ELSE {x} END"


def _ends(variable: Variable, clip: bool) -> tuple[float, float]:
    """Return ends that no number of a variable exceeds as it enters a sum."""
    if clip and variable.bounds is not None:
        return variable.bounds
    return variable.centre - variable.scale, variable.centre + variable.scale


def _sets(sizes: Whole, digests: Whole) -> list[str]:
    """Return what names the records of each cell; empty cells are named by their place, so that each has noise of its own."""
    counted = zip(sizes.ravel().tolist(), digests.ravel().tolist(), strict=True)
    return [f"{n}/{d}" if n else f"none/{place}" for place, (n, d) in enumerate(counted)]


def _hashed(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


# --- drops


class TooFewToDropError(SfumatoError):
    """A universe of which too few records would be left."""


def kept(drop: Drop, dataset: Dataset, question: Question) -> str:
    """Return the SQL condition that a record of the universe is kept by the subsample (section 4)."""
    if isinstance(drop, DropShare):
        return (
            dataset.secret.kept(_set_key(dataset, known_part(question.selection)), drop.share) if drop.share else "TRUE"
        )
    if drop == DropQ(q=0):
        return "TRUE"
    key = _set_key(dataset, question.selection)
    if isinstance(drop, DropEnough):
        plain = question.selection.plain
        sides = question.analysis.sides(question.codebook.variables)
        counts = (
            dataset.cubes.within(plain, sides)[0] if sides else dataset.cubes.of(plain.variables).counts[plain.chosen]
        )
        return kept(drop.for_table(CellTable.of(counts.ravel())), dataset, question)
    q = drop.q if isinstance(drop, DropQ) else 0
    if isinstance(drop, DropRange):
        q = drop.low + int(float(dataset.secret.uniforms([key], "how many to drop")[0]) * (drop.high - drop.low + 1))
    if not q:
        return "TRUE"
    plain = question.selection.plain
    if dataset.cubes.of(plain.variables).count(plain) < _LEFT * q:
        raise TooFewToDropError
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
