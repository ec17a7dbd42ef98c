"""What the rules say of the cells of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.secure_room.grid import Grid, Mask, Numbers
from sfumato.mas.secure_room.policy import OutputPolicy
from sfumato.mas.secure_room.sensitivity_table import sensitivity_table
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import MinimumContributors, MinimumFrequency, Together

COUNTS = "count"
OF_VALUES = ("sum", "mean", "std", "var")
"""Statistics by which a dominant contributor could be told; the median's is the threshold alone."""
STATISTICS = (COUNTS, *OF_VALUES, "median")
EMPTY, FULL, SAME = "nobody is in it", "everybody of its row or column is in it", "all values are the same"
NEGATIVE, MISSING = "negative values", "missing values"


@dataclass(frozen=True, eq=False)
class Verdict:
    """For each reason the cells that it holds for; arrays have the shape of the grid's cells with totals."""

    fail: dict[str, Mask] = field(default_factory=dict)
    review: dict[str, Mask] = field(default_factory=dict)

    def failing(self, shape: tuple[int, int]) -> Mask:
        """Return the cells that some rule fails."""
        return _any(self.fail, shape)

    def reviewed(self, shape: tuple[int, int]) -> Mask:
        """Return the cells that a person must look at."""
        return _any(self.review, shape)

    def words(self, shape: tuple[int, int]) -> NDArray[np.object_]:
        """Return "ok" or the reasons for every cell."""
        out = np.full(shape, "", object)
        for reason, where in {**self.fail, **self.review}.items():
            out[where] = [f"{old}; {reason}" if old else reason for old in out[where]]
        out[out == ""] = "ok"
        return out


@dataclass(frozen=True, eq=False)
class Content:
    """What a statistic is computed from: a column of values, or nothing for counts of records."""

    statistic: str
    values: Numbers | None = None
    """Shape (n,); NaN where missing."""
    contributor: NDArray[np.int64] | None = None
    """Who each record belongs to, as numbers, shape (n,); None where everybody has one record."""

    def present(self, size: int) -> Mask:
        """Return which records have a value, shape (n,)."""
        return np.ones(size, bool) if self.values is None else ~np.isnan(self.values)


def judge(grid: Grid, content: Content, policy: OutputPolicy) -> Verdict:
    """Return what a policy says of one statistic in every cell and total."""
    verdict = sensitivity(grid, content, policy)
    present = content.present(len(grid.row))
    classes = {"fail": verdict.fail, "review": verdict.review, "off": {}}[policy.class_disclosure]
    count = grid.count(present)
    classes.update(_class_disclosure(grid, content, count, present))
    if content.values is not None and content.statistic != COUNTS and policy.missing == "review":
        _note(verdict.review, MISSING, grid.count(~present) > 0)
    return verdict


def sensitivity(grid: Grid, content: Content, policy: OutputPolicy) -> Verdict:
    """Return what the sensitivity rules say of every cell and total that has records."""
    present = content.present(len(grid.row))
    shape = (grid.rows + 1, grid.columns + 1)
    fail: dict[str, Mask] = {}
    review: dict[str, Mask] = {}
    if not (grid.inside & present).any():
        return Verdict(fail, review)
    rules = [
        rule for rule in _single(policy.rules)
        if content.statistic in OF_VALUES or isinstance(rule, MinimumContributors | MinimumFrequency)
    ]  # fmt: skip
    values = content.values if content.statistic in OF_VALUES else None
    below = np.zeros(shape, bool) if values is None else grid.count(present & (values < 0)) > 0
    table, at = sensitivity_table(grid, present, values, content.contributor, rules)
    for rule in rules:
        # a rule about positive values has to be told what to do with others
        positive = "negative" in rule.parameters()
        found = np.zeros(shape, bool)
        found[at] = (rule.with_(negative="absolute") if positive else rule).assess(table).unsafe
        if positive and policy.negative == "review":
            found &= ~below
            _note(review, NEGATIVE, below)
        _note(fail, rule.label(), found)
    return Verdict(fail, review)


def _single(rules: Iterable[SensitivityRule]) -> list[SensitivityRule]:
    """Return rules one by one, those of several together apart."""
    return [single for rule in rules for single in (rule.rules if isinstance(rule, Together) else (rule,))]


def _note(reasons: dict[str, Mask], reason: str, where: Mask) -> None:
    if where.any():
        reasons[reason] = where


def _any(reasons: dict[str, Mask], shape: tuple[int, int]) -> Mask:
    out = np.zeros(shape, bool)
    for where in reasons.values():
        out |= where
    return out


def _class_disclosure(grid: Grid, content: Content, count: Numbers, present: Mask) -> dict[str, Mask]:
    """Return the cells that tell something of everybody in a group."""
    found: dict[str, Mask] = {}
    _note(found, EMPTY, (count == 0) & grid.shown)
    if content.values is None:
        full = np.zeros(count.shape, bool)
        if grid.columns > 1:
            full |= count == count[:, -1:]
        if grid.rows > 1:
            full |= count == count[-1:, :]
        _note(found, FULL, full & (count > 0) & grid.cells)
    elif content.statistic != COUNTS:
        low, high = grid.range(content.values, present)
        _note(found, SAME, (low == high) & (count > 0))
    return found
