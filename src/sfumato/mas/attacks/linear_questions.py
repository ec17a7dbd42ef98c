"""Questions whose answers are weighted numbers of those who have an attribute: what they tell of one person, what they cost him,
and the best guess from all answers together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from sfumato.mas.accounts import CELLS
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import LEVELS, BaseData, Piece, Server, analysis_named
from sfumato.mas.question import Analysis
from sfumato.mas.variable import Variable, finest
from sfumato.typing import Flags, Numbers, Whole

# --- what the attacker knows
# A register of the known variables of everybody.


@dataclass(frozen=True, eq=False)
class KnownCells:
    """The cells of all known variables that hold records, and the moments of a known amount in each."""

    variables: tuple[Variable, ...]
    place: Whole
    """The cell of each record, shape (n,)."""
    levels: Whole
    """Level numbers of each cell, shape (variables, cells)."""
    amounts: Numbers
    """The known amount of each record, shape (n,); zeros where there is none."""

    @classmethod
    def of(cls, base: BaseData, amount: str | None = None) -> KnownCells:
        """Find the cells of some data; a known amount has its moments in them."""
        codes = np.stack([base.codes[v.name] for v in base.variables])
        levels, place = np.unique(codes, axis=1, return_inverse=True)
        n = codes.shape[1]
        return cls(base.variables, place.ravel(), levels, base.numbers[amount] if amount else np.zeros(n))

    @cached_property
    def sizes(self) -> Numbers:
        """Records of each cell."""
        return np.bincount(self.place, minlength=self.levels.shape[1]).astype(np.float64)

    @cached_property
    def sums(self) -> tuple[Numbers, Numbers]:
        """Sums of the known amount and of its square in each cell."""
        first, second = (np.bincount(self.place, x, minlength=len(self.sizes)) for x in (self.amounts, self.amounts**2))
        return np.asarray(first, np.float64), np.asarray(second, np.float64)

    def inside(self, piece: Piece) -> Flags:
        """Return which cells a piece selects."""
        chosen = np.ones(self.levels.shape[1], bool)
        for axis, v in enumerate(self.variables):
            if v.name in piece:
                chosen &= np.isin(self.levels[axis], [v.levels.index(text) for text in piece[v.name]])
        return chosen

    def rows(self, readings: Sequence[Reading], row: int) -> Numbers:
        """Return a row for each reading; the product of two is the covariance by others, but for share (1 - share).

        In a cell the sums of weights a + b x of its records, without one person, have a covariance that is a product of their
        square roots: [[n, Σx], [Σx, Σx²]] = L L'.
        """
        n, (x, xx), at = self.sizes.copy(), self.sums, self.place[row]
        x, xx = x.copy(), xx.copy()
        n[at], x[at], xx[at] = n[at] - 1, x[at] - self.amounts[row], xx[at] - self.amounts[row] ** 2
        first = np.sqrt(n)
        second = np.divide(x, first, out=np.zeros(len(n)), where=n > 0)
        third = np.sqrt(np.maximum(xx - second**2, 0.0))
        inside = np.stack([r.inside for r in readings]).astype(np.float64)
        a, b = (np.array([[getattr(r, name)] for r in readings]) for name in ("a", "b"))
        if not b.any():
            return np.asarray(inside * a * first)
        return np.concatenate([inside * (a * first + b * second), inside * b * third], axis=1)

    def weights(self, reading: Reading) -> Numbers:
        """Return the weight of each record in a reading, shape (n,)."""
        return np.asarray(np.where(reading.inside[self.place], reading.a + reading.b * self.amounts, 0.0))

    def weights_of(self, reading: Reading, row: int) -> float:
        """Return the weight of one record in a reading."""
        return (reading.a + reading.b * float(self.amounts[row])) * float(reading.inside[self.place[row]])

    def total(self, reading: Reading) -> float:
        """Return the sum of the weights of all records in a reading."""
        inside = reading.inside
        return float(reading.a * self.sizes[inside].sum() + reading.b * self.sums[0][inside].sum())

    def square(self, reading: Reading) -> float:
        """Return the sum of their squares."""
        a, b, inside = reading.a, reading.b, reading.inside
        x, xx = self.sums
        return float(a * a * self.sizes[inside].sum() + 2 * a * b * x[inside].sum() + b * b * xx[inside].sum())


known_cells = lru_cache(maxsize=16)(KnownCells.of)

# --- questions

Kind = Literal["count", "sum", "correlation", "slope", "logit"]
"""A table of the attribute; of the known amount by the attribute; their correlation; a regression of the attribute on the amount; a
logistic model of it by the levels of a variable."""
_MODEL = 600
"""Fewest records of a model, a little above what policies demand."""
_SIZES = (24, 1_000)
"""Smaller cells are not shown, larger ones tell little."""
_UNIVERSE = 80
_LEVEL = 24
"""Fewest records of a universe, and of a level in it, a little above what policies demand."""
_READINGS = 40
"""Most numbers that are read off an answer."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Σ (a + b x) y over the records of some cells, with x a known amount and y the attribute, 1 or 0."""

    inside: Flags
    """Shape (cells,)."""
    variance: float
    """Of noise and rounding."""
    a: float = 1.0
    b: float = 0.0
    cell: tuple[str, ...] = ()
    """Levels of the sides, in the answer."""
    n: float = 0.0
    offset: float = 0.0
    """Sum of the weights of all records; of slopes the sum of their squares."""


@dataclass(frozen=True, eq=False)
class LinearQuestion:
    """A question in a universe, and what can be read off its answer."""

    universe: Piece
    kind: Kind
    sides: tuple[str, ...]
    readings: tuple[Reading, ...]
    """The first one holds the target."""
    loss: float
    """What it tells of the target, for whoever knows all others: μ²."""
    names: tuple[str, str]
    """The attribute and the known amount."""
    dearest: float = 0.0
    """What it costs those who pay most: the members of the smallest cell."""

    def analysis(self) -> Analysis:
        """Return the analysis to ask for."""
        attribute, amount = self.names
        if self.kind == "correlation":
            return analysis_named("correlation", of=(amount, attribute))
        if self.kind == "slope":
            return analysis_named("ols", formula=f"`{attribute}` ~ `{amount}`")
        if self.kind == "logit":
            return analysis_named("logistic", formula=f"`{attribute}` ~ C(`{self.sides[0]}`)", event="yes")
        return CrossTab((*self.sides, attribute), of=amount if self.kind == "sum" else None)

    def told(self, found: Answer, digits: int) -> list[Reading]:
        """Return what is read off an answer: readings whose offset is the value, less those that are not shown."""
        if self.kind in ("count", "sum"):
            values = [self._of_table(found, r, digits) for r in self.readings]
        elif self.kind == "logit":
            values = [(self._fitted(found, r), 0.0) for r in self.readings]
        else:
            values = self._of_model(found, digits)
        return [
            replace(r, offset=value, variance=r.variance + rounding)
            for r, (value, rounding) in zip(self.readings, values, strict=True)
            if math.isfinite(value)
        ]

    def _of_table(self, found: Answer, reading: Reading, digits: int) -> tuple[float, float]:
        what, attribute = "sum" if reading.b else "count", self.names[0]
        cell = dict(zip(self.sides, reading.cell, strict=True)).items()
        rows = {row[attribute]: row[what] for row in found.tables["cells"] if cell <= row.items()}
        yes, no = (_number(rows[level]) for level in ("yes", "no"))
        both = [v for v in (yes, reading.offset - no) if not math.isnan(v)]
        if not both:
            return math.nan, 0.0
        alone = reading.variance if reading.b and len(both) == 1 else 0.0  # sums have their own noise, counts add up
        return float(np.mean(both)), alone + (_rounding(both[0], digits) if reading.b else 0.0)

    def _fitted(self, found: Answer, reading: Reading) -> float:
        """Return the fitted share of a level times its records."""
        linear, terms = 0.0, found.tables["coefficients"]
        named = [str(row["term"]) for row in terms]
        for row, term in zip(terms, named, strict=True):
            if row is terms[0] or term.endswith(f"[{reading.cell[0]}]"):
                linear += _number(row["coefficient"])
        return reading.n / (1 + math.exp(-linear)) if abs(linear) < 30 else math.nan

    def _of_model(self, found: Answer, digits: int) -> list[tuple[float, float]]:
        """Return Σ (x - mean) y, and of a slope Σ y, with the variance of their rounding."""
        first, *rest = self.readings
        if self.kind == "correlation":  # the attribute is had by about half of all
            r = _number(found.tables["pairs"][0]["correlation"])
            size = math.sqrt(first.offset * first.n) / 2
            return [(r * size if 0 < abs(r) < 1 else math.nan, _rounding(r, digits) * size**2)]
        b0, b1 = (_number(row["coefficient"]) for row in found.tables["coefficients"])
        middle, n = -first.a, first.n
        rounded = _rounding(b0, digits) + middle**2 * _rounding(b1, digits)
        total = [(n * (b0 + b1 * middle), n**2 * rounded)] if rest else []
        return [(b1 * first.offset, first.offset**2 * _rounding(b1, digits)), *total]


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _rounding(value: float, digits: int) -> float:
    """Return the variance of rounding to significant digits."""
    if not value or not math.isfinite(value) or digits > 9:
        return 0.0
    return float(10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)) ** 2 / 12


# --- planning


@dataclass(frozen=True, eq=False)
class Planner:
    """Plans questions about one person; the attacker has a register of the known variables of everybody, and the policy."""

    known: KnownCells
    row: int
    server: Server
    attribute: str
    """The attribute by its levels, yes and no."""
    share: float
    rng: np.random.Generator
    amount: str = ""
    flag: str = ""
    """The attribute as a number, for models."""

    @cached_property
    def _own(self) -> tuple[str, ...]:
        at = self.known.place[self.row]
        return tuple(v.levels[int(c)] for v, c in zip(self.known.variables, self.known.levels[:, at], strict=True))

    @cached_property
    def _allowed(self) -> list[tuple[str, ...]]:
        """Variables that may form universes together, by the published list."""
        names = [v.name for v in self.known.variables]
        some = (c for size in range(1, 5) for c in itertools.combinations(names, size))
        return [c for c in some if self.server.dataset.allowed(c, self.server.policy)]

    def questions(self, kinds: Sequence[Kind], tries: int) -> list[LinearQuestion]:
        """Return questions of some kinds about different sets; those about the same set draw the same noise."""
        found: dict[tuple[str, bytes], LinearQuestion] = {}
        for universe in self._universes(tries):
            inside = self.known.inside(universe)
            for kind in kinds:
                for one in self._of_kind(kind, universe, inside):
                    key = f"{kind if kind != 'sum' else 'count'} {'' if one.readings[0].b else kind}"
                    found.setdefault((key, one.readings[0].inside.tobytes()), one)
        return list(found.values())

    def _universes(self, tries: int) -> Iterator[Piece]:
        """Yield universes that hold the target, and that rules on known variables allow."""
        levels = {v.name: v.levels for v in self.known.variables}
        own = dict(zip(levels, self._own, strict=True))
        for turn in range(tries):
            piece: Piece = {}
            if turn and self._allowed:
                for name in self._allowed[int(self.rng.integers(len(self._allowed)))]:
                    others = [text for text in levels[name] if text != own[name]]
                    mates = self.rng.permutation(len(others))[: int(self.rng.integers(0, min(LEVELS, len(others) + 1)))]
                    if len(mates) < len(others):
                        pick = {own[name], *(others[i] for i in mates)}
                        piece[name] = tuple(text for text in levels[name] if text in pick)
            if self._fits(piece):
                yield piece

    def _fits(self, piece: Piece) -> bool:
        sizes = self.known.sizes * self.known.inside(piece)
        if sizes.sum() < _UNIVERSE:
            return False
        for axis, v in enumerate(self.known.variables):
            if v.name in piece:
                by = np.bincount(self.known.levels[axis], sizes, minlength=len(v.levels))
                if min(by[v.levels.index(text)] for text in piece[v.name]) < _LEVEL:
                    return False
        return True

    def _of_kind(self, kind: Kind, universe: Piece, inside: Flags) -> Iterator[LinearQuestion]:
        n = float(self.known.sizes[inside].sum())
        if kind in ("slope", "correlation"):
            if n >= _MODEL:
                yield self._line(kind, universe, inside, n)
            return
        free = [i for i, v in enumerate(self.known.variables) if len(universe.get(v.name, v.levels)) > 1]
        if kind == "logit":
            for axis in free:
                if n >= _MODEL:
                    yield from self._table(kind, universe, inside, (axis,))
            return
        chosen = {()} | {tuple(sorted(self.rng.permutation(free)[: int(self.rng.integers(1, 4))])) for _ in range(3)}
        for sides in sorted(chosen):
            yield from self._table(kind, universe, inside, sides)

    def _table(self, kind: Kind, universe: Piece, inside: Flags, sides: tuple[int, ...]) -> Iterator[LinearQuestion]:
        """Yield a table or a model by some sides, if the target's cell is neither too small nor too large."""
        known, at = self.known, self.known.place[self.row]
        codes = known.levels[list(sides)]
        shape = [len(known.variables[i].levels) for i in sides]
        flat = np.ravel_multi_index(list(codes), shape) if sides else np.zeros(len(inside), np.int64)
        sizes = np.bincount(flat, known.sizes * inside)
        if not _SIZES[0] <= sizes[flat[at]] <= (math.inf if kind == "sum" else _SIZES[1]):
            return
        fits = np.flatnonzero((sizes >= _SIZES[0]) & (sizes <= _SIZES[1]))
        others = fits[np.argsort(sizes[fits], kind="stable")]
        readings: list[Reading] = []
        for cell in (flat[at], *others[others != flat[at]][: _READINGS - 1]):
            chosen = inside & (flat == cell)
            first = int(np.argmax(chosen))
            texts = tuple(known.variables[i].levels[int(known.levels[i, first])] for i in sides)
            readings += self._cell(kind, chosen, texts, float(sizes[cell]))
        names = tuple(known.variables[i].name for i in sides)
        whole = float(known.sizes[inside].sum())
        loss, smallest = self._loss(kind, float(sizes[flat[at]]), whole), float(sizes[sizes > 0].min())
        one = LinearQuestion(universe, kind, names, tuple(readings), loss, (self.attribute, self.amount))
        hidden = self.share * (1 - self.share) * (smallest - 1) if self.accounted(one) else 0.0
        yield replace(one, dearest=1 / (1 / self._loss(kind, smallest, whole) + hidden))

    def _cell(self, kind: Kind, chosen: Flags, texts: tuple[str, ...], n: float) -> Iterator[Reading]:
        """Yield what a cell of a table, or a level of a model, tells."""
        policy, spread = self.server.policy, self.share * (1 - self.share)
        lost = float(getattr(policy.drop, "q", 0)) * spread + 0.01
        if kind == "sum":
            yield Reading(
                chosen, self._amount_variance(n) / 2 + lost, 0.0, 1.0, texts, n, float(self.known.sums[0][chosen].sum())
            )
        if kind == "logit":
            yield Reading(chosen, float(policy.models.variance(1.0, n * spread)) + lost, cell=texts, n=n, offset=n)
        else:
            rounding = (policy.counts.base**2 - 1) / 12
            yield Reading(
                chosen, float(policy.counts.variance(1.0, n * spread)) + rounding + lost, cell=texts, n=n, offset=n
            )

    def _amount_variance(self, n: float) -> float:
        """Return the variance of the noise on a sum of the known amount: it is as large as the amount's public bound."""
        noise, bounds = self.server.policy.amounts, self.server.dataset.variables[self.amount].bounds
        largest = max(map(abs, bounds)) if bounds is not None else float(self.known.amounts.max())
        return float(noise.variance(largest, n * self.share * (largest / 2) ** 2))

    def _line(self, kind: Kind, universe: Piece, inside: Flags, n: float) -> LinearQuestion:
        """Return a slope on the known amount, or a correlation: sums of orthonormal columns, each with its noise."""
        known, noise = self.known, self.server.policy.models
        x = known.amounts[inside[known.place]]
        middle = float(x.mean())
        square, farthest = float(((x - middle) ** 2).sum()), float(((x - middle) ** 2).max())
        own = (float(known.amounts[self.row]) - middle) ** 2
        spread = self.share * (1 - self.share)
        total, slope = (float(noise.variance(math.sqrt(top), spread)) for top in (1 / n, farthest / square))
        lost = float(getattr(self.server.policy.drop, "q", 0)) * spread
        readings = [Reading(inside, square * (slope + 1e-7) + lost * farthest + 0.01, -middle, 1.0, (), n, square)]
        if kind == "slope":
            readings.append(Reading(inside, n * total + lost + 0.01, 1.0, 0.0, (), n, n))
        loss = 1 / n / total + own / square / slope if noise.sd else 2.0
        return LinearQuestion(universe, kind, (), tuple(readings), loss, (self.flag, self.amount))

    def _loss(self, kind: Kind, n: float, whole: float) -> float:
        """Return what an answer tells of each record of the target's cell: the mechanism charges the same."""
        policy, spread = self.server.policy, self.share * (1 - self.share)
        noise = policy.models if kind == "logit" else policy.counts
        if not noise.sd:
            return 1.0
        loss = 1 / float(noise.variance(1.0, n * spread))
        if kind == "logit":  # the record adds to the intercept, and to its own indicator
            loss += 1 / float(noise.variance(1.0, whole * spread))
        if kind == "sum":  # a record of the largest amount leaves one cell for another
            bound = self.server.dataset.variables[self.amount].bounds
            loss += 2 * (max(map(abs, bound)) if bound else 1.0) ** 2 / max(self._amount_variance(n), 1e-9)
        return loss

    def accounted(self, question: LinearQuestion) -> bool:
        """Return whether the accounts know how others hide the target in the answer: by cells of their table, and by no others."""
        accounts, variables = self.server.policy.accounts, self.server.dataset.variables
        if accounts.others == "known":
            return False
        table = {v.name for v in finest(variables, CELLS["unknown"])}
        used = {
            *question.universe,
            *question.sides,
            *([self.amount] if question.kind in ("slope", "correlation") else []),
        }
        return used <= table


# --- information
# What answers tell together: others have the attribute independently, with a known probability.


@dataclass(eq=False)
class JointReadings:
    """What is left to learn from each reading, given those that are known: their covariances, and their shifts by the target."""

    covariance: Numbers
    signal: Numbers

    @classmethod
    def of(cls, known: KnownCells, readings: Sequence[Reading], row: int, share: float | None) -> JointReadings:
        """Work them out; without a share, the attribute of all others is known."""
        signal = np.array([float(known.weights_of(r, row)) for r in readings])
        found = np.diag([max(r.variance, 1e-9) for r in readings])
        if share is not None:
            rows = known.rows(readings, row)
            found = found + rows @ rows.T * share * (1 - share)
        return cls(found, signal)

    def gain(self, some: Sequence[int]) -> float:
        """Return the information of some readings: the squared distance of yes and no, in standard deviations."""
        return float(self.gains([some])[0])

    def gains(self, blocks: Sequence[Sequence[int]]) -> Numbers:
        """Return the information of each of several sets of readings; sets of one size are worked out together."""
        found, lengths = np.zeros(len(blocks)), np.array([len(some) for some in blocks])
        for k in np.unique(lengths):
            places = np.flatnonzero(lengths == k)
            some = np.array([list(blocks[int(i)]) for i in places], np.intp)
            own = self.signal[some]
            inner = self.covariance[some[:, :, None], some[:, None, :]] + 1e-9 * np.eye(k)
            found[places] = (own * np.linalg.solve(inner, own[:, :, None])[:, :, 0]).sum(axis=1)
        return found

    def learn(self, some: Sequence[int]) -> None:
        """Take what some readings tell off all others."""
        chosen = list(some)
        across = self.covariance[:, chosen]
        inner = self.covariance[np.ix_(chosen, chosen)] + 1e-9 * np.eye(len(chosen))
        solved = np.linalg.solve(inner, np.column_stack([across.T, self.signal[chosen]]))
        self.covariance = self.covariance - across @ solved[:, :-1]
        self.signal = self.signal - across @ solved[:, -1]
        np.fill_diagonal(self.covariance, np.maximum(np.diag(self.covariance), 1e-9))


@dataclass(frozen=True)
class AnswerEvidence:
    """What all answers together say of the target."""

    ratio: float
    """Log-likelihood ratio of yes against no."""
    information: float
    """Squared distance of yes and no; at best Φ(√information / 2) of guesses are right where both are equally frequent."""


def evidence(
    known: KnownCells, answered: Sequence[Reading], row: int, share: float, others: Numbers | None = None
) -> AnswerEvidence:
    """Return the evidence of readings, whose offsets are their values, by generalised least squares (Fisher's discriminant).

    `others` holds the attribute of everybody, if the attacker knows it: answers then differ from what others add by noise alone.
    """
    prior = math.log(share / (1 - share))
    if not answered:
        return AnswerEvidence(prior, 0.0)
    joint = JointReadings.of(known, answered, row, None if others is not None else share)
    weights = np.stack([known.weights(r) for r in answered]) if others is not None else np.zeros((0, 0))
    if others is None:
        usual = np.array([share * known.total(r) for r in answered]) - share * joint.signal
    else:
        usual = weights @ others - joint.signal * others[row]
    solved = np.linalg.solve(joint.covariance, joint.signal)
    values = np.array([r.offset for r in answered])
    return AnswerEvidence(prior + float(solved @ (values - usual - joint.signal / 2)), float(solved @ joint.signal))


# --- the order of questions

_FIRST = 7
"""Readings of a question that planning looks at."""
_CANDIDATES = 160
"""Questions that are compared with one another, after a look at each alone."""


class QuestionOrder:
    """Chooses questions, each time the one that adds most information for its price, given those answered."""

    def __init__(self, planner: Planner, questions: Sequence[LinearQuestion], informed: bool, fixed: float) -> None:
        """Look at each question alone, and compare the best; `fixed` is the price of asking at all."""
        share = None if informed else planner.share
        alone = [self._alone(planner, q, share) / (max(q.dearest, q.loss / 4) + fixed) for q in questions]
        best = np.argsort(-np.array(alone), kind="stable")[:_CANDIDATES]
        self.left = [questions[int(i)] for i in best]
        self._fixed = fixed
        listed, self._blocks = list[Reading](), list[list[int]]()
        for q in self.left:
            some = q.readings[:1] if informed else q.readings[:_FIRST]
            self._blocks.append(list(range(len(listed), len(listed) + len(some))))
            listed += some
        self._joint = JointReadings.of(planner.known, listed, planner.row, share) if listed else None
        charged = [
            replace(r, variance=self._charged(planner, q, r))
            for q, block in zip(self.left, self._blocks, strict=True)
            for r in q.readings[: len(block)]
        ]
        unknown = planner.server.policy.accounts.others == "unknown" and not informed
        self._account = JointReadings.of(planner.known, charged, planner.row, share) if listed and unknown else None
        self._accounted = np.array([planner.accounted(q) for q in self.left], bool)
        self._worth: Numbers | None = None

    @staticmethod
    def _alone(planner: Planner, q: LinearQuestion, share: float | None) -> float:
        first = q.readings[0]
        own = planner.known.weights_of(first, planner.row)
        hidden = planner.known.square(first) * share * (1 - share) if share is not None else 0.0
        return float(own**2 / max(first.variance + hidden, 1e-9))

    @staticmethod
    def _charged(planner: Planner, q: LinearQuestion, reading: Reading) -> float:
        """Return the variance of the noise that the accounts suppose."""
        if reading is not q.readings[0]:
            return reading.variance
        return float(planner.known.weights_of(reading, planner.row) ** 2 / max(q.loss, 1e-12)) or reading.variance

    def price(self, at: int) -> float:
        """Return what a question costs: the target, by its loss, or by what it adds where others hide him; or those who pay most."""
        return float(self._prices()[at])

    def _prices(self) -> Numbers:
        losses = np.array([one.loss for one in self.left])
        if self._account is not None:
            adds = np.minimum(losses, self._account.gains(self._blocks))
            losses = np.where(self._accounted, adds, losses)
        return np.asarray(np.maximum(losses, [one.dearest for one in self.left]), np.float64)

    def __iter__(self) -> Iterator[tuple[int, LinearQuestion]]:
        """Yield the number of the best question and the question, until all were asked."""
        left = np.ones(len(self.left), bool)
        while left.any() and self._joint is not None:
            if self._worth is None:  # what is refused changes nothing
                self._worth = self._joint.gains(self._blocks) / (self._prices() + self._fixed)
            best = int(np.argmax(np.where(left, self._worth, -np.inf)))
            left[best] = False
            yield best, self.left[best]

    def answered(self, at: int) -> None:
        """Say that a question was answered: the others tell less than before, or more."""
        assert self._joint is not None  # noqa: S101 - there are questions
        self._worth = None
        self._joint.learn(self._blocks[at])
        if self._account is not None:
            self._account.learn(self._blocks[at])
