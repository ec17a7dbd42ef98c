"""Variances of coefficients: classical, robust, and of a design with strata and clusters drawn with replacement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sfumato.mas.dataset import Dataset
from sfumato.mas.models.layout import Layout, LevelOutcome
from sfumato.mas.models.numbers import Numbers, literal
from sfumato.mas.question import Question

ERRORS = ("usual", "classical", "hc0", "hc1", "design")


def sandwich(bread: Numbers, meat: Numbers) -> Numbers:
    """Return bread × meat × bread."""
    return np.asarray(bread @ meat @ bread)


def usual(errors: str, weighted: bool, dataset: Dataset) -> str:
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
