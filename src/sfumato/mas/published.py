"""Counts of the cells of a table as they are published."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.errors import ParameterError
from sfumato.mas.dataset import Weight
from sfumato.mas.grouped import Grouped, Numbers
from sfumato.mas.question import Question


def weight_of(question: Question, weighted: bool) -> Weight | None:
    """Return the survey weights if they are asked for; refuse if there are none."""
    if weighted and question.dataset.weight is None:
        raise ParameterError("this data set has no survey weights. Ask for plain counts.")
    return question.dataset.weight if weighted else None


def cell_counts(table: Grouped, weight: Weight | None) -> Numbers:
    """Return the counts of cells as they are published, weighted if there are weights; raveled, NaN where too small."""
    noisy = noisy_counts(table)
    shown = table.question.policy.counts.shown(noisy)
    if weight is not None:
        rounded = table.question.policy.counts.shown_weighted(noisy_counts(table, weight), weight.mean)
        shown = np.where(np.isnan(shown), np.nan, rounded)
    return shown


def noisy_counts(table: Grouped, weight: Weight | None = None) -> Numbers:
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
