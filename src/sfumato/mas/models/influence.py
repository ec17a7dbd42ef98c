"""Variances of coefficients, leverages, and what a second pass over the records finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.mas.aggregate import around
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.design import literal
from sfumato.mas.models.layout import Complete, Layout, LevelOutcome, Piece
from sfumato.mas.models.noise import turn_of
from sfumato.mas.question import Question
from sfumato.mas.universe import Selection
from sfumato.typing import Numbers

# --- errors
# Variances of coefficients: classical, robust, and of a design with strata and clusters drawn with replacement.

ERRORS = ("usual", "classical", "hc0", "hc1", "design")


def sandwich(bread: Numbers, meat: Numbers) -> Numbers:
    """Return bread × meat × bread."""
    return np.asarray(bread @ meat @ bread)


def default_covariance_type(errors: str, weighted: bool, dataset: Dataset) -> str:
    """Return the kind of errors that is meant: of the design with weights, where there is one, else classical."""
    if errors != "usual":
        return errors
    if not weighted:
        return "classical"
    return "design" if dataset.design.columns else "hc1"


def scores_sql(question: Question, layout: Layout, beta: Numbers) -> str:
    """Return SQL for the scores g0, g1, ... of every complete record of a model, with its stratum and household.

    `beta` (equations, columns) are coefficients of the columns of the layout; so are the scores, equation by equation.
    """
    kept = [*question.dataset.design.columns, "q", "y"]
    k, categorical = len(layout.design.columns), isinstance(layout.outcome, LevelOutcome)
    made = _columns_sql(question, layout, kept)
    linear = [_combined(row, "z") for row in beta]
    z = [f"z{j}" for j in range(k)]
    if categorical:
        # the largest logit is taken off before anything is raised, so that nothing overflows
        logits = [f"{text} AS l{a}" for a, text in enumerate(linear)]
        made = _select([*kept, *z, *logits], made)
        top = f"greatest(0.0E0, {', '.join(f'l{a}' for a in range(len(beta)))})"
        made = _select(
            [*kept, *z, *(f"exp(l{a} - {top}) AS p{a}" for a in range(len(beta))), f"exp(-{top}) AS p"], made
        )
        total = " + ".join(["p", *(f"p{a}" for a in range(len(beta)))])
        rests = [
            f"((CASE WHEN y = {a + 1} THEN 1.0E0 ELSE 0.0E0 END) - p{a} / ({total})) * q AS e{a}"
            for a in range(len(beta))
        ]
    else:
        rests = [f"(y - ({linear[0]})) * q AS e0"]
    made = _select([*kept[:-2], *z, *rests], made)
    scores = [f"e{a} * z{j} AS g{a * k + j}" for a in range(len(beta)) for j in range(k)]
    return _select([*kept[:-2], *scores], made)


def _columns_sql(question: Question, layout: Layout, kept: Sequence[str]) -> str:
    """Return SQL for the columns z0, z1, ... of complete records, with stratum, household, weight q and outcome y."""
    design, outcome, clusters = layout.design, layout.outcome, question.dataset.design.columns
    numbers = [
        f"({x.sql()} - {literal(float(c))} - {literal(float(r))}) / {literal(float(s))} AS u{i}"
        for i, (x, c, r, s) in enumerate(zip(layout.factors, layout.centre, layout.rest, layout.scale, strict=True))
    ]
    complete = [f"u{i} IS NOT NULL" for i in range(len(numbers))]
    complete += [f"{c.column} <> {c.missing}" for c in design.categories if c.missing >= 0]
    last = f"u{len(numbers) - 1} AS y"
    if isinstance(outcome, LevelOutcome):
        numbers.append(f"{_placed(outcome)} AS y")
        complete.append("y >= 0")
        last = "y"
    passed = [*clusters, *(["w"] if layout.weighted else []), *(c.column for c in design.categories)]
    base = f"{_select(dict.fromkeys([*passed, *numbers]), 'records')} WHERE {question.records}"
    columns = []
    for i, column in enumerate(design.columns):
        parts = [f"u{j}" for j in column.numbers]
        parts += [
            f"(CASE WHEN {design.categories[c].column} = {level} THEN 1.0E0 ELSE 0.0E0 END)"
            for c, level in column.cells
        ]
        columns.append(f"{' * '.join(parts) or '1.0E0'} AS z{i}")
    made = _select([*clusters, f"{'w' if layout.weighted else '1.0E0'} AS q", last, *columns], base)
    made += f" WHERE {' AND '.join(complete) or 'TRUE'}"
    if layout.turn is None:
        return made
    return _select([*kept, *(f"{_combined(row, 'z')} AS z{i}" for i, row in enumerate(layout.turn))], made)


def _select(listed: Iterable[str], source: str) -> str:
    """Return SQL for some expressions of another query, or of the records."""
    return f"SELECT {', '.join(listed)} FROM {source if source == 'records' else f'({source}) AS made'}"  # noqa: S608


def _combined(row: Numbers, letter: str) -> str:
    """Return SQL for a linear combination of numbered columns."""
    return " + ".join(f"{letter}{j} * {literal(float(b))}" for j, b in enumerate(row) if b) or "0.0E0"


def _placed(outcome: LevelOutcome) -> str:
    if outcome.binary is not None:
        y = outcome.binary.sql()
        return f"(CASE WHEN {y} = 1 THEN 1 WHEN {y} = 0 THEN 0 ELSE -1 END)"
    whens = " ".join(f"WHEN {level} THEN {place}" for level, place in enumerate(outcome.place))
    return f"(CASE {outcome.column} {whens} END)"


# --- second pass
# What a second pass over the records finds once a model is fitted: squares, products of scores, leverages, influences.


BINS = 1000
"""Leverages are counted in so many bins between 0 and 1."""
_POWER = 16


@dataclass(frozen=True, eq=False)
class SecondPass:
    """Sums over the records; confidential."""

    squares: float
    """Of residuals."""
    meat: Numbers
    """Products of scores, shape (coefficients, coefficients)."""
    leverage: float
    """The largest."""
    influence: Numbers
    """The largest square of what a residual of 1 adds to each coefficient, or a little more, over the coefficient's diagonal
    element of the bread; shape (coefficients,)."""

    @classmethod
    def of(cls, sums: Numbers, k: int) -> SecondPass:
        """Take apart what the pieces of a pass added up, for k coefficients."""
        squares, meat, counts, powers = np.split(sums, np.cumsum([1, k**2, BINS + 1]))
        return cls(float(squares[0]), meat.reshape(k, k), largest_leverage(counts), np.asarray(powers ** (1 / _POWER)))

    @staticmethod
    def sums(squares: float, meat: Numbers, leverage: Numbers, influence: Numbers) -> Numbers:
        """Return what one piece adds: leverages (n,) are counted, squared influences (coefficients, n) raised and added.

        A maximum cannot be added up. The 16th root of the sum of 16th powers can, and is at least the largest, and of n that are
        all the same it is n^(1/16) times that: 1.2 of 25, 1.5 of 500.
        """
        for _ in range(_POWER.bit_length() - 1):
            influence = np.square(influence)
        return np.concatenate([[squares], meat.ravel(), leverage_counts(leverage), influence.sum(axis=1)])


def scaled_influence(influence: Numbers, variance: Numbers) -> Numbers:
    """Return what a score adds to each coefficient (coefficients, scores), over the root of its diagonal element."""
    return np.asarray(influence / np.sqrt(np.where(variance > 0, variance, 1.0))[:, None])


def leverage_counts(leverage: Numbers) -> Numbers:
    """Return how many leverages lie up to each thousandth; a maximum cannot be added up, counts can."""
    at = np.clip(np.ceil(leverage * BINS - 1e-9), 0, BINS).astype(np.int64)
    return np.bincount(at, minlength=BINS + 1).astype(np.float64)


def largest_leverage(counts: Numbers) -> float:
    """Return the largest leverage, to a thousandth upwards."""
    found = np.flatnonzero(counts)
    return float(found[-1]) / BINS if len(found) else 0.0


# --- hat
# Leverages that no confidential value decides: of the columns that others may know, over everybody who could be a record.
#
# A refusal must not tell whether a person with a leverage near the limit has a confidential value far out, or is in a universe
# that asks for one. What a confidential value could add is judged by noisy cross-products (`Phantoms.potential`).


class _Hat:
    """Counts leverages of some columns: of records as they are, of others as they would be if they were records, too."""

    def __init__(self, layout: Layout, places: list[int], products: Numbers, universe: Selection) -> None:
        self.layout, self.whole, self.universe = layout.only(places), layout, universe
        self.turn = turn_of(products)

    def __call__(self, piece: Piece) -> Numbers:
        layout, design = self.layout, self.layout.design
        used = sorted({i for column in design.columns for i in column.numbers})
        groups = sorted({c for column in design.columns for c, _ in column.cells})
        n = len(next(iter(piece.values())))
        numbers = np.zeros((len(design.numbers), n))
        for i in used:
            numbers[i] = (design.numbers[i].values(piece) - layout.centre[i] - layout.rest[i]) / layout.scale[i]
        codes = [np.asarray(piece[category.column]) for category in design.categories]
        there = np.isfinite(numbers).all(axis=0)
        for c in groups:
            there &= codes[c] != design.categories[c].missing
        square = np.square(self.turn @ design.matrix(numbers, codes, n)).sum(axis=0)
        if layout.weighted:
            square *= np.asarray(piece["w"], np.float64)
        chosen = self.universe.chosen[tuple(np.asarray(piece[v.codes], np.int64) for v in self.universe.variables)]
        record = self.whole.complete(piece) & chosen
        return leverage_counts(np.where(record, square, square / (1 + square))[there])


def leverage_of(complete: Complete, layout: Layout, products: Numbers, exact: Callable[[], float]) -> float:
    """Return the largest leverage, as the rule may see it; `products` are X'X before columns are turned.

    Where all is known, it is `exact`, as it is where the policy sets no limit to what a confidential value could add.
    """
    question, design = complete.question, layout.design
    known = question.dataset.variables
    hidden = {v.numbers for v in known.values() if not v.known and v.numeric}
    places = [
        i for i, column in enumerate(design.columns)
        if not any(design.numbers[j].column in hidden for j in column.numbers)
        and all(known[design.categories[c].name].known for c, _ in column.cells)
    ]  # fmt: skip
    limited = getattr(question.policy.rule("leverage"), "potential", None) is not None
    if not limited or not question.policy.models.sd or (complete.known and len(places) == len(design.columns)):
        return exact()
    if not places:
        return 0.0
    plain = question.selection.plain
    hat = _Hat(layout, places, products[np.ix_(places, places)], plain)
    columns = list(dict.fromkeys([*layout.columns, *(v.codes for v in plain.variables)]))
    where = f"({around(question)}) AND ({question.kept})"
    return largest_leverage(question.dataset.warehouse.reduce(hat, columns, where))
