"""What a policy costs honest users: refusals by rule, and how far answers are from those without protection."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.ordinary import Ordinary
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault

SIZES = ((20, 50), (50, 100), (100, 300), (300, 1_000), (1_000, math.inf))
"""Cells are told apart by how many records they hold."""
OPEN = Policy(title="open")
"""Answers without rules, drops and noise, to compare with; for the custodian alone."""


@dataclass(frozen=True)
class Honest:
    """How a policy served a workload."""

    asked: int
    refused: Mapping[str, int]
    """How many questions each rule refused."""
    errors: Mapping[str, float]
    """Median relative error of the counts that are shown, by size of the cell."""
    shown: Mapping[str, float]
    """Share of the cells of each size that are shown, in the tables that were answered."""
    overlap: float
    """Median overlap of confidence intervals of coefficients with those without protection; NaN without regressions."""
    error: float = math.nan
    """Median relative error of the counts of cells and totals with 20 records or more, in the tables that were answered; one that
    is not shown counts as 1. NaN without tables."""
    tables: float = math.nan
    """Share of the tables that were answered; NaN if none was asked."""
    models: float = math.nan
    """Share of the regressions that were answered; NaN if none was asked."""

    @property
    def answered(self) -> float:
        """Share of questions that were answered."""
        return 1 - sum(self.refused.values()) / self.asked


def honest(
    vault: Vault,
    dataset: Dataset,
    policy: Policy,
    asked: Iterable[Ordinary],
    truths: dict[int, Answer | Refusal] | None = None,
) -> Honest:
    """Ask a workload under a policy, each user from an account of its own; the rate of questions is not limited.

    `truths` keeps the answers without protection by the number of the question, for whoever asks under several policies.
    """
    policy, refused, number = policy.with_(per_minute=None), Counter[str](), 0
    kept = {} if truths is None else truths
    cells: list[tuple[float, float]] = []
    overlaps: list[float] = []
    served: dict[bool, list[bool]] = {True: [], False: []}
    for question in asked:
        number += 1
        found = vault.ask(dataset, question.universe, question.analysis, policy, user=question.user)
        tabled = isinstance(question.analysis, CrossTab)
        served[tabled].append(isinstance(found, Answer))
        if isinstance(found, Refusal):
            refused[found.rule] += 1
            continue
        if number not in kept:
            kept[number] = vault.ask(dataset, question.universe, question.analysis, OPEN)
        truth = kept[number]
        if isinstance(truth, Refusal):
            continue
        if tabled:
            cells += _cells(found, truth)
        else:
            overlaps += _overlaps(found, truth)
    every = np.array(cells or [(0.0, 0.0)])
    errors, shown = _by_size(every)
    return Honest(
        number, dict(refused.most_common()), errors, shown, float(np.median(overlaps)) if overlaps else math.nan,
        _error(every), _share(served[True]), _share(served[False]),
    )  # fmt: skip


def _share(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _error(cells: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """Return the median relative error of cells that are not small; of those that are not shown it is 1."""
    large = cells[cells[:, 0] >= SIZES[0][0]]
    off = np.abs(large[:, 1] - large[:, 0]) / np.maximum(large[:, 0], 1)
    return float(np.median(np.where(np.isnan(off), 1.0, off))) if len(large) else math.nan


def _cells(found: Answer, truth: Answer) -> list[tuple[float, float]]:
    """Return the true and the published count of each cell, NaN where it is not shown."""
    rows = zip(truth.tables["cells"], found.tables["cells"], strict=True)
    return [(_number(true["count"]), _number(told["count"])) for true, told in rows]


def _overlaps(found: Answer, truth: Answer) -> list[float]:
    """Return the overlap of the 95 % intervals of each coefficient: the mean share of either (Karr et al. 2006)."""
    exact = {str(row["term"]): row for row in truth.tables["coefficients"]}
    out = []
    for row in found.tables["coefficients"]:
        if (twin := exact.get(str(row["term"]))) is None:
            continue
        (a, b), (c, d) = (_interval(r["coefficient"], r["standard error"]) for r in (row, twin))
        both = max(0.0, min(b, d) - max(a, c))
        if b > a and d > c:
            out.append((both / (b - a) + both / (d - c)) / 2)
    return out


def _interval(coefficient: object, error: object) -> tuple[float, float]:
    b, e = _number(coefficient), _number(error)
    return b - 1.96 * e, b + 1.96 * e


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _by_size(cells: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[dict[str, float], dict[str, float]]:
    errors, shown = {}, {}
    for low, high in SIZES:
        here = cells[(cells[:, 0] >= low) & (cells[:, 0] < high)]
        if len(here):
            name = f"{low:,} or more" if math.isinf(high) else f"{low:,} to {high:,.0f}"
            told = here[~np.isnan(here[:, 1])]
            shown[name] = len(told) / len(here)
            errors[name] = float(np.median(np.abs(told[:, 1] - told[:, 0]) / told[:, 0])) if len(told) else math.nan
    return errors, shown
