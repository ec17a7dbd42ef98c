"""Variances of coefficients: classical, robust, and of a design with strata and clusters drawn with replacement."""

from __future__ import annotations

import numpy as np

from sfumato.mas.dataset import Dataset
from sfumato.mas.exact import combined, exact_sums, scale_of
from sfumato.mas.models.layout import Layout, LevelOutcome
from sfumato.mas.models.moments import condition_of
from sfumato.mas.models.numbers import Numbers, literal
from sfumato.mas.question import Question

ERRORS = ("usual", "classical", "hc0", "hc1", "design")
_BITS = 2.0**50
_PARTS = 3


def sandwich(bread: Numbers, meat: Numbers) -> Numbers:
    """Return bread × meat × bread."""
    return np.asarray(bread @ meat @ bread)


def usual(errors: str, weighted: bool, dataset: Dataset) -> str:
    """Return the kind of errors that is meant: of the design with weights, where there is one, else classical."""
    if errors != "usual":
        return errors
    if not weighted:
        return "classical"
    return "design" if {"h", "s"} & set(dataset.warehouse.columns) else "hc1"


def design_variances(question: Question, source: str, influence: Numbers, meat: Numbers, n: float | Numbers) -> Numbers:
    """Return linearised variances of estimates, shape (estimates,).

    `source` is SQL for the scores g0, g1, ... of each record, with its stratum and cluster; `influence` (estimates, scores)
    takes them to what the record adds to each estimate; `meat` are the products of scores, over n records. Within a stratum of
    m clusters with totals t the variance is m / (m - 1) Σ (t - mean)²; a stratum with one cluster is taken about 0. The totals
    of clusters are made where the records live, in whole numbers, so that no order of adding matters.
    """
    columns = set(question.dataset.warehouse.columns)
    size = len(influence)
    robust = np.einsum("ij,jk,ik->i", influence, meat, influence)
    if not {"h", "s"} & columns:
        return np.asarray(robust * n / (n - 1))
    strata, clusters = [c for c in ("s",) if c in columns], clusters_of(question)
    steps = [_BITS / scale_of(float(np.sqrt(m))) if m > 0 else 1.0 for m in np.diag(meat)]
    largest = 1.0
    if "h" in columns:
        totals = ", ".join(
            f"sum(CAST(floor(g{i} * {literal(step)}) AS BIGINT)) AS t{i}" for i, step in enumerate(steps)
        )
        by = ", ".join(clusters)
        source = f"SELECT {by}, {totals} FROM ({source}) AS scores GROUP BY {by}"  # noqa: S608 - our own names
        found = question.dataset.warehouse.ask(
            "SELECT max(m) AS m FROM (SELECT count(*) AS m FROM records GROUP BY h) AS c"
        )
        largest = float(found["m"][0])
        influence = influence / np.array(steps)[None, :]
    letter = "t" if "h" in columns else "g"
    added = [
        " + ".join(f"{letter}{j} * {literal(float(a))}" for j, a in enumerate(row) if a) or "0.0" for row in influence
    ]
    listed = ", ".join([*strata, *(f"{text} AS v{i}" for i, text in enumerate(added))])
    bounds = [scale_of(largest * float(v)) for v in robust]
    sums = [
        part
        for i, bound in enumerate(bounds)
        for part in (
            *exact_sums(f"a{i}", f"v{i}", scale_of(float(np.sqrt(bound))), _PARTS),
            *exact_sums(f"b{i}", f"v{i} * v{i}", bound, _PARTS),
        )
    ]  # fmt: skip
    by = " GROUP BY s" if strata else ""
    rows = question.dataset.warehouse.ask(
        f"SELECT {', '.join([*strata, 'count(*) AS m', *sums])} FROM (SELECT {listed} FROM ({source}) AS c) AS v{by}"  # noqa: S608
    )
    m = rows["m"].astype(np.float64)
    out = np.empty(size)
    for i, bound in enumerate(bounds):
        first, second = (
            combined(np.array([rows[f"{name}{i}_{part}"] for part in range(_PARTS)]), scale, _PARTS)
            for name, scale in (("a", scale_of(float(np.sqrt(bound)))), ("b", bound))
        )
        about = np.where(m > 1, m / np.maximum(m - 1, 1) * (second - first**2 / m), second)
        out[i] = np.sort(about).sum()
    return out


def clusters_of(question: Question) -> list[str]:
    """Return the columns that say which stratum and cluster a record is of."""
    return [c for c in ("s", "h") if c in question.dataset.warehouse.columns]


def scores_sql(question: Question, layout: Layout, beta: Numbers) -> str:
    """Return SQL for the scores g0, g1, ... of every complete record of a model.

    `beta` (equations, columns) are coefficients of the columns as read, without turning.
    """
    design, outcome, clusters = layout.design, layout.outcome, clusters_of(question)
    numbers = [
        f"({x.sql()} - {literal(float(c))}) / {literal(float(s))} AS u{i}"
        for i, (x, c, s) in enumerate(zip(layout.factors, layout.centre, layout.scale, strict=True))
    ]
    passed = [*clusters, *(["w"] if layout.weighted else []), *(c.column for c in design.categories)]
    complete = [f"u{i} IS NOT NULL" for i in range(len(numbers))]
    complete += [f"{c.column} <> {c.missing}" for c in design.categories if c.missing >= 0]
    if isinstance(outcome, LevelOutcome):
        numbers.append(f"{_placed(outcome)} AS y")
        complete.append("y >= 0")
    listed = ", ".join(dict.fromkeys([*passed, *numbers]))
    base = f"SELECT {listed} FROM records WHERE {condition_of(question)}"  # noqa: S608 - our own names
    columns = []
    for i, column in enumerate(design.columns):
        parts = [f"u{j}" for j in column.numbers]
        parts += [
            f"(CASE WHEN {design.categories[c].column} = {level} THEN 1.0E0 ELSE 0.0E0 END)"
            for c, level in column.cells
        ]
        columns.append(f"{' * '.join(parts) or '1.0E0'} AS z{i}")
    weight = "w" if layout.weighted else "1.0E0"
    last = "y" if isinstance(outcome, LevelOutcome) else f"u{len(numbers) - 1}"
    keep = [*clusters, f"{weight} AS q", f"{last} AS y", *columns]
    shaped = f"SELECT {', '.join(keep)} FROM ({base}) AS b WHERE {' AND '.join(complete) or 'TRUE'}"  # noqa: S608 - our own names
    linear = [" + ".join(f"z{j} * {literal(float(b))}" for j, b in enumerate(row)) for row in beta]
    kept = [*clusters, "q", "y", *(f"z{i}" for i in range(len(columns)))]
    if isinstance(outcome, LevelOutcome):
        raised = ", ".join([*kept, *(f"exp({text}) AS p{a}" for a, text in enumerate(linear))])
        total = " + ".join(["1.0E0", *(f"p{a}" for a in range(len(beta)))])
        rests = [
            f"((CASE WHEN y = {a + 1} THEN 1.0E0 ELSE 0.0E0 END) - p{a} / ({total})) * q AS e{a}"
            for a in range(len(beta))
        ]
        shaped = f"SELECT {raised} FROM ({shaped}) AS x"  # noqa: S608 - our own names
    else:
        rests = [f"(y - ({linear[0]})) * q AS e0"]
    with_rests = f"SELECT {', '.join([*clusters, *kept[len(clusters) + 2 :], *rests])} FROM ({shaped}) AS r"  # noqa: S608 - our own names
    scores = [f"e{a} * z{j} AS g{a * len(columns) + j}" for a in range(len(beta)) for j in range(len(columns))]
    return f"SELECT {', '.join([*clusters, *scores])} FROM ({with_rests}) AS e"  # noqa: S608 - our own names


def _placed(outcome: LevelOutcome) -> str:
    if outcome.binary is not None:
        y = outcome.binary.sql()
        return f"(CASE WHEN {y} = 1 THEN 1 WHEN {y} = 0 THEN 0 ELSE -1 END)"
    whens = " ".join(f"WHEN {level} THEN {place}" for level, place in enumerate(outcome.place))
    return f"(CASE {outcome.column} {whens} END)"
