"""Hypothesis tests from protected sums: independence, means of groups, and ranks. Their levels allow for noise.

Each statistic is a quadratic form of protected sums in the inverse of their variance under the hypothesis, that of noise
included; without noise it is the statistic of the textbooks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.analyses.distributions import bins_for, grid_bins, groups_of
from sfumato.mas.analyses.tables import Amount, CellMeans, plain_numbers
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.correlation import CONSTANT
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Result, Steps, levels_of, numbers_in
from sfumato.mas.register import Register
from sfumato.mas.sums import ProtectedCells, ProtectedSums, SumsRequest, TableSums
from sfumato.mas.survey_design import SurveyCorrelation
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Numbers

# --- counts


@dataclass(frozen=True, eq=False)
class CountTable:
    """Protected counts of two sides, without records that miss either, and without levels that are too small."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Numbers
    noise: Numbers
    """Variance of the noise of each count."""

    @staticmethod
    def of(table: ProtectedCells, fewest: float) -> CountTable:
        """Return the counts of levels that have at least so many records."""
        rows, columns = (np.array([level != MISSING for level in side.levels]) for side in table.sides)
        there = np.where(np.outer(rows, columns), table.n, 0.0)
        rows, columns = rows & (there.sum(axis=1) >= fewest), columns & (there.sum(axis=0) >= fewest)
        cells = np.ix_(rows, columns)
        a, b = (tuple(np.array(s.levels)[kept].tolist()) for s, kept in zip(table.sides, (rows, columns), strict=True))
        return CountTable(a, b, table.n[cells], table.variances["n"][cells])

    @property
    def n(self) -> float:
        """Number of records."""
        return float(self.counts.sum())

    @property
    def expected(self) -> Numbers:
        """Counts if both sides were independent."""
        return np.outer(self.counts.sum(axis=1), self.counts.sum(axis=0)) / self.n

    def statistic(self, scores: Numbers | None = None, inflation: float = 1.0) -> tuple[float, int]:
        """Return a χ² statistic of independence, and its degrees of freedom.

        With y = Bᵣ' (n − e) / √e B꜀, where Bᵣ and B꜀ are orthonormal and at right angles to the roots of the shares of rows and
        columns, Pearson's X² is |y|², and y has the unit matrix as its variance. Noise with variances V adds that of B'(V / e)B.
        The statistic is y'(variance)⁻¹y. With scores of the columns, B꜀ is one column: the component along the scores.
        `inflation` is by how much more the counts vary than those of all records.
        """
        p, q = (self.counts.sum(axis=axis) / self.n for axis in (1, 0))
        left = _complement(p)
        right = _complement(q) if scores is None else _along(scores, q)
        y = left.T @ ((self.counts - self.expected) / np.sqrt(self.expected)) @ right
        noise = np.einsum("ia,jb,ij,ic,jd->abcd", left, right, self.noise / self.expected, left, right, optimize=True)
        variance = inflation * np.eye(y.size) + noise.reshape(y.size, y.size)
        return float(y.ravel() @ np.linalg.solve(variance, y.ravel())), y.size


def _complement(shares: Numbers) -> Numbers:
    """Return orthonormal columns at right angles to the roots of some shares."""
    return np.asarray(np.linalg.qr(np.column_stack([np.sqrt(shares), np.eye(len(shares))]))[0][:, 1 : len(shares)])


def _along(scores: Numbers, shares: Numbers) -> Numbers:
    """Return scores less their mean, times the roots of the shares, with length 1."""
    column = np.sqrt(shares) * (scores - scores @ shares)
    return np.asarray(column / np.linalg.norm(column))[:, None]


def _inflation(question: Question, register: Register, sides: Sequence[Variable]) -> float:
    """Return by how much more counts vary than those of all records, drawn one by one; those of known variables are scaled back
    exactly.

    The design enters by its mean effect (Rao and Scott 1981, the first-order correction): if two variables are independent, also
    between members of a household, their product has the product of their correlations.
    """
    hidden = not all(v.known for v in (*sides, *question.selection.variables))
    effect = float(register.design_effects(question.selection, (), SurveyCorrelation.of_product(*sides)))
    return effect * (question.policy.variance_inflation if hidden else 1.0)


_FEW = Refusal(
    "few_records",
    "There are too few groups or levels with enough records.",
    "Choose a larger universe, or coarser levels.",
)


def _fewest(policy: Policy) -> float:
    return max(policy.counts.least, 4 * policy.counts.sd, 0.5)


def _told(policy: Policy, **facts: float) -> dict[str, float | None]:
    """Return the facts of a test as they are published."""
    named = {name.replace("_", " "): value for name, value in facts.items()}
    told = plain_numbers(significant(np.array(list(named.values())), policy.amounts.digits))
    return dict(zip(named, told, strict=True))


def _chi_square(value: float, df: float) -> float:
    from scipy.special import chdtrc

    return float(chdtrc(df, max(value, 0.0)))


def _test_notes(question: Question, sides: Sequence[Variable]) -> Iterator[str]:
    policy = question.policy
    if policy.counts.sd or policy.amounts.sd:
        yield "Sums have random noise; the test allows for it, so that its level is what it says."
    if any(MISSING in v.levels or v.gaps for v in sides):
        yield "Records with a missing value are left out."
    if policy.counts.least:
        yield f"Levels with fewer than about {_fewest(policy):g} records are left out."
    if question.codebook.clustered:
        yield (
            "Records count once each; the survey's weights and strata are not used. The test allows for households, by correlations "
            "that were read off when the data set was frozen, and so rejects rather too seldom."
        )
    else:
        yield "Records count once each; the survey's weights and design are not used."


# --- independence


class Independence(Analysis, name="independence"):
    """Pearson's χ² test that two variables are independent, with noise allowed for.

    Counts vary by sampling and by noise of known variance; the statistic divides by both (in the manner of Kifer and Rogers 2017;
    Gaboardi et al. 2016). Without noise it is Pearson's X².
    """

    kind = "test"
    by: tuple[str, ...] = param(doc="the two variables", columns="many", holds="categories")

    @override
    def validate(self) -> None:
        if len(self.by) != 2:
            raise ParameterError("independence is about two variables: by=('sex', 'work').")

    @override
    def wording(self) -> str:
        return f"independence:{self.by}"

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of(self.by, known)

    @override
    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of(self.by, known)

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        sides, policy = self.sides(question.codebook.variables), question.policy
        sums = yield SumsRequest({"cells": TableSums(sides)})
        table = CountTable.of(sums.cells("cells"), _fewest(policy))
        if min(table.counts.shape) < 2:
            return _FEW
        value, df = table.statistic(inflation=_inflation(question, register, sides))
        smaller = min(table.counts.shape) - 1
        pearson = float((np.square(table.counts - table.expected) / table.expected).sum())
        noise = (
            float((table.noise / table.expected).sum()) * df / table.counts.size
        )  # about what noise adds to Pearson's X²
        v = np.sqrt(max(pearson - noise, 0.0) / (table.n * smaller))
        facts = _told(
            policy, chi_square=value, degrees_of_freedom=df, p_value=_chi_square(value, df), cramers_v=float(v)
        )
        counts, expected = policy.counts.shown(table.counts), significant(table.expected, policy.amounts.digits)
        rows = [
            {
                self.by[0]: a,
                self.by[1]: b,
                "count": plain_numbers(counts[i, j : j + 1])[0],
                "expected": float(expected[i, j]),
            }
            for i, a in enumerate(table.rows)
            for j, b in enumerate(table.columns)
        ]
        return Result({"cells": rows}, facts, tuple(self._notes(question, sides, table)))

    def _notes(self, question: Question, sides: Sequence[Variable], table: CountTable) -> Iterator[str]:
        yield from _test_notes(question, sides)
        if (table.expected < 5).mean() > 0.2:
            yield "More than a fifth of the expected counts are below 5: the p-value is not reliable."


# --- means of groups

_LEAST = 1e-9
"""The inverse of the most degrees of freedom: noise may have hidden all that a sample varies by."""
Means = Generator[SumsRequest, ProtectedSums, tuple[list[str], Amount, CellMeans]]


class GroupMeans(Analysis, abstract=True):
    """What tests of the means of an amount in groups have in common."""

    kind = "test"
    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    by: str = param(doc="the variable whose levels are the groups", columns="one", holds="categories")

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return (numbers_in(self.of, known), *levels_of((self.by,), known))

    @override
    def sides(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of((self.by,), known)

    def means(self, question: Question, register: Register) -> Means:
        """Ask for the means of all groups that are large enough."""
        variable, side = self.variables(question.codebook.variables)
        amount = Amount(variable, None)
        sums = yield SumsRequest({"cells": TableSums((side,), amount.moments(), "amounts")})
        alike = SurveyCorrelation(
            SurveyCorrelation.of(variable).households
        )  # groups of one stratum are not independent
        effects = register.design_effects(question.selection, (side,), alike)
        made = amount.means(sums.cells("cells"), effects)
        kept = (made.counts >= max(_fewest(question.policy), 2)) & np.array([level != MISSING for level in side.levels])
        chosen = (getattr(made, name)[kept] for name in CellMeans.__dataclass_fields__)
        return [level for level, there in zip(side.levels, kept, strict=True) if there], amount, CellMeans(*chosen)

    def rows(self, levels: Sequence[str], made: CellMeans, policy: Policy) -> list[dict[str, Any]]:
        """Return a row for each group."""
        columns = (
            policy.counts.shown(made.counts), significant(made.mean, policy.amounts.digits),
            significant(made.errors(policy), policy.amounts.error_digits),
        )  # fmt: skip
        found = zip(levels, *map(plain_numbers, columns), strict=True)
        return [dict(zip((self.by, "count", "mean", "standard error"), row, strict=True)) for row in found]

    def notes(self, question: Question, amount: Amount, side: Variable) -> Iterator[str]:
        """Yield what was done, in sentences."""
        policy = question.policy
        if policy.amounts.clip and amount.variable.bounds is not None:
            low, high = amount.variable.bounds
            yield f"Values of {amount.variable.title} are clipped to {low:g} and {high:g} before anything is added up."
        yield from _test_notes(question, (amount.variable, side))


class TTest(GroupMeans, name="t_test"):
    """Welch's t test that an amount has the same mean in two groups; variances may differ.

    The variance of each mean includes that of the noise, which is known: it adds nothing to the denominator of the degrees of
    freedom (Welch 1947).
    """

    between: tuple[str, ...] = param(default=(), doc="two levels of the variable; none where it has only two")

    @override
    def validate(self) -> None:
        if self.between and len(set(self.between)) != 2:
            raise ParameterError("a t_test is between two different levels.")

    @override
    def wording(self) -> str:
        return f"t_test:{self.of}:{self.by}:{self.between}"

    @override
    def wording_for(self, codebook: Codebook) -> str:
        return self.with_(between=self._two(self.sides(codebook.variables)[0])).wording()

    def _two(self, side: Variable) -> tuple[str, ...]:
        levels = [level for level in side.levels if level != MISSING]
        if not self.between and len(levels) != 2:
            raise ParameterError(
                f"'{self.by}' does not have two levels. Name two of them: between=({side.levels[0]!r}, ...)."
            )
        return tuple(side.levels[side.pick((level,))[0]] for level in self.between or levels)

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        side, policy = self.sides(question.codebook.variables)[0], question.policy
        two = self._two(side)
        levels, amount, made = yield from self.means(question, register)
        if not set(two) <= set(levels):
            return _FEW
        a, b = (levels.index(level) for level in two)
        sampled = policy.variance_inflation * made.effects * made.sampled / made.weights**2
        variances = sampled + made.noise / made.weights**2
        if not variances[a] + variances[b] > 0:
            return CONSTANT
        difference, error = made.mean[a] - made.mean[b], np.sqrt(variances[a] + variances[b])
        apart = sum((sampled[i] / (variances[a] + variances[b])) ** 2 / (made.counts[i] - 1) for i in (a, b))
        df = 1 / max(apart, _LEAST)
        from scipy.special import stdtr

        t = float(difference / error)
        facts = _told(
            policy, difference=float(difference), standard_error=float(error), t=t, degrees_of_freedom=float(df),
            p_value=2 * float(stdtr(df, -abs(t))),
        )  # fmt: skip
        rows = [row for row in self.rows(levels, made, policy) if row[self.by] in two]
        return Result({"groups": rows}, facts, tuple(self.notes(question, amount, side)))


class ANOVA(GroupMeans, name="anova"):
    """One-way analysis of variance: a test that an amount has the same mean in all groups.

    F is Σ (m − m̄)² / v over k − 1, where v is the variance of a group's mean, noise included, and m̄ the mean by 1 / v. With equal
    variances in the groups and without noise, that is the F of the textbooks; otherwise it is Welch's (1951).
    """

    variances: str = param(default="equal", choices=("equal", "unequal"), doc="whether the groups have one variance")

    @override
    def wording(self) -> str:
        return f"anova:{self.of}:{self.by}:{self.variances}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        side, policy = self.sides(question.codebook.variables)[0], question.policy
        levels, amount, made = yield from self.means(question, register)
        k, n = len(levels), float(made.counts.sum())
        if k < 2:
            return _FEW
        squares = made.sampled * (made.counts - 1) / made.counts
        own = made.sampled if self.variances == "unequal" else made.counts * squares.sum() / (n - k)
        sampled = policy.variance_inflation * made.effects * own / made.weights**2
        variances = sampled + made.noise / made.weights**2
        if not (variances > 0).all():
            return CONSTANT
        by = 1 / variances
        mean = (by * made.mean).sum() / by.sum()
        f, df = float((by * np.square(made.mean - mean)).sum() / (k - 1)), n - k
        if self.variances == "unequal":
            apart = float((np.square((1 - by / by.sum()) * sampled / variances) / (made.counts - 1)).sum())
            f, df = f / (1 + 2 * (k - 2) / (k**2 - 1) * apart), (k**2 - 1) / (3 * max(apart, _LEAST))
        from scipy.special import fdtrc

        facts = _told(
            policy, F=f, groups_less_one=float(k - 1), degrees_of_freedom=df, p_value=float(fdtrc(k - 1, df, f))
        )
        return Result({"groups": self.rows(levels, made, policy)}, facts, tuple(self.notes(question, amount, side)))


# --- ranks


class RankTest(GroupMeans, name="rank_test"):
    """The test of Kruskal and Wallis that numbers are of the same size in all groups; for two groups, Wilcoxon's.

    Ranks are those of the bins of the variable's grid: records of one bin are tied, and have its middle rank. With N records, H
    is N − 1 over N times the component of the χ² test of groups by bins along these ranks. For two groups, the answer has the
    chance that a record of the first has the larger number, ties counted half.
    """

    @override
    def wording(self) -> str:
        return f"rank_test:{self.of}:{self.by}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        (variable, side), policy = self.variables(question.codebook.variables), question.policy
        bins = grid_bins(variable, bins_for(question, register, groups_of((side,))))
        sums = yield SumsRequest({"cells": TableSums((side, bins))})
        table = CountTable.of(sums.cells("cells"), _fewest(policy))
        if min(table.counts.shape) < 2:
            return _FEW
        n, ties = table.n, table.counts.sum(axis=0)
        ranks = np.cumsum(ties) - (ties - 1) / 2
        value, df = table.statistic(ranks, _inflation(question, register, (variable, side)))
        h = value * (n - 1) / n
        groups = table.counts.sum(axis=1)
        mean = table.counts @ ranks / groups
        facts = {"H": h, "degrees_of_freedom": df, "p_value": _chi_square(h, df)}
        if len(groups) == 2:
            facts["chance_that_the_first_is_larger"] = float((mean[0] - mean[1]) / n + 0.5)
        columns = policy.counts.shown(groups), significant(mean / n, policy.amounts.digits)
        rows = [
            dict(zip((self.by, "count", "mean rank as a share"), row, strict=True))
            for row in zip(table.rows, *map(plain_numbers, columns), strict=True)
        ]
        notes = ("Records of one bin of the grid are tied.", *_test_notes(question, (variable, side)))
        return Result({"groups": rows}, _told(policy, **facts), notes)
