"""Masks and measures for a file where none are named: those that suit its confidential numbers and its keys."""

from __future__ import annotations

import numpy as np

from sfumato.contract import Measure, Recipe
from sfumato.data import Kind, Microdata
from sfumato.errors import DataError
from sfumato.masks import MDAV, KimNoise, RankSwap
from sfumato.risk.anonymity import KAnonymity
from sfumato.risk.attribute_risk import AttributeRisk
from sfumato.utility import CorrelationsKept, Hellinger

ERROR = 0.25
"""The error that a snooper must have about a number, in standard deviations of its column."""


def default_recipes(data: Microdata) -> dict[str, Recipe]:
    """Return noise, microaggregation and rank swapping of all confidential numbers.

    >>> from sfumato.datasets import teachers
    >>> list(default_recipes(teachers(50)))
    ['kim_noise', 'mdav', 'rank_swap']
    """
    columns = _numbers(data)
    masks = (KimNoise(columns=columns), MDAV(columns=columns), RankSwap(columns=columns))
    return {mask.name: mask.as_recipe() for mask in masks}


def default_limits(data: Microdata) -> dict[AttributeRisk, float]:
    """Return the risk of each confidential number, with the limit at which a snooper is off by `ERROR` standard deviations.

    R = 1/error², so the limit is 1/(0.25 σ)²; a column that does not vary has nothing to hide.
    """
    columns = _numbers(data)
    spread = np.sqrt(np.diag(data.moments(columns).covariance))
    return {AttributeRisk(n): 1 / (ERROR * sd) ** 2 for n, sd in zip(columns, spread.tolist(), strict=True) if sd > 0}


def default_risks(data: Microdata) -> list[Measure]:
    """Return k-anonymity where the schema names keys, and the risk of each confidential number."""
    keys: list[Measure] = [KAnonymity(k=3)] if data.schema.names(role="key") else []
    return [*keys, *default_limits(data)]


def default_utilities(data: Microdata) -> list[Measure]:
    """Return how well distributions of the confidential numbers are kept, and their correlations where there are several."""
    columns = _numbers(data)
    return [Hellinger(over=columns), *([CorrelationsKept(over=columns)] if len(columns) > 1 else [])]


def _numbers(data: Microdata) -> tuple[str, ...]:
    found = tuple(n for n in data.schema.names(role="confidential") if data.kind(n) is Kind.NUMBER)
    if not found:
        raise DataError(
            "the schema names no confidential column of numbers, so masks and measures cannot be chosen from it. Name them, or "
            "give such a column the role 'confidential'."
        )
    return found
