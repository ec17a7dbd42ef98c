"""Sums, means and standard errors of a variable in the cells of a table, as they leave: coded, with noise, rounded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.data.exact_sums import scale_of
from sfumato.errors import DataError
from sfumato.mas.aggregate import AggregateRequest, CellAggregates, Sum, weight_sum
from sfumato.mas.amount_rules import CellRule, unsafe_cells
from sfumato.mas.dataset import Weight
from sfumato.mas.perturbation import purpose_of, significant
from sfumato.mas.question import Question
from sfumato.mas.universe import Selection
from sfumato.mas.variable import MISSING, Variable
from sfumato.typing import Flags, Numbers


@dataclass(frozen=True)
class Amount:
    """A variable of numbers whose sums are asked for, with or without survey weights."""

    question: Question
    variable: Variable
    weight: Weight | None
    design: bool = False
    """Whether standard errors are those of the survey's design."""

    def __post_init__(self) -> None:
        if self.variable.top is None:
            raise DataError(f"variable '{self.variable.name}' has no values to add up. Choose another one.")

    @cached_property
    def rules(self) -> list[CellRule]:
        """The rules that look at contributions."""
        return [rule for rule in self.question.policy.rules if isinstance(rule, CellRule)]

    @property
    def looked_at(self) -> bool:
        """Whether rules look at contributions: where sums have no noise, or establishments contribute, for which it is small."""
        question = self.question
        return bool(self.rules) and (not question.policy.amounts.sd or "e" in question.dataset.units)

    @property
    def about(self) -> str:
        """What the numbers are, for keys."""
        return f"{'weighted ' if self.weight else ''}sum of {self.variable.name}"

    @property
    def coded(self) -> tuple[str, str, float]:
        """SQL for the value v, for what it is more than the variable's centre, and a power of two that this does not exceed."""
        value, bound = self.question.policy.amounts.coded(self.variable)
        centre = self.variable.centre
        return value, f"(v - {centre!r})" if centre else "v", scale_of(bound)

    def asked(self) -> AggregateRequest:
        """Return what one pass over the records adds up: moments of the values, the largest, and how many there are.

        The sums hold w in place of 1 where there are weights: n values, Σw, Σwx, and Σw², Σw²x, Σw²x² for the standard error,
        x a value less the variable's centre.
        """
        amounts = self.question.policy.amounts
        value, x, bound = self.coded
        # with noise, 2^-30 of the top code is fine enough; without, squares are tiny beside that of an outlier
        parts, more = (1, 1) if amounts.sd and amounts.top_coded else (3, 4)
        values = {"v": value}
        sums = {"s": Sum(x, bound, parts), "vv": Sum(f"{x} * {x}", bound**2, more)}
        size = "v" if self.variable.bottom is None else "abs(v)"
        if self.variable.gaps:
            sums["n"] = Sum("CASE WHEN v IS NULL THEN 0 ELSE 1 END", parts=0)
        if self.weight is not None:
            w, size = self.weight.scale, f"w * {size}"
            values["w"] = "w"
            here = "CASE WHEN v IS NULL THEN NULL ELSE w END" if self.variable.gaps else "w"
            sums |= {
                "records": weight_sum(self.question, self.weight), "s": Sum(f"w * {x}", w * bound, parts),
                "ww": Sum(f"{here} * w", w * w, parts),
                "wv": Sum(f"w * w * {x}", w * w * bound, more), "vv": Sum(f"w * w * {x} * {x}", (w * bound) ** 2, more),
            }  # fmt: skip
            if self.variable.gaps:
                sums["w"] = weight_sum(self.question, self.weight, here)
        if self.looked_at and self.variable.bottom is not None:
            most = scale_of(bound + abs(self.variable.centre)) * (self.weight.scale if self.weight else 1.0)
            sums["sizes"] = Sum(size, most, parts)
        return AggregateRequest(values, sums, size if self.looked_at else None)

    def of(self, table: CellAggregates) -> CellAmounts:
        """Return the amounts of a table that was asked for so."""
        return CellAmounts(self, table)


@dataclass(frozen=True)
class CellAmounts:
    """The amounts of one table; arrays have one number per cell, in the order of the raveled table."""

    amount: Amount
    table: CellAggregates

    @cached_property
    def _factor(self) -> Numbers:
        return self.table.factor().ravel()

    @cached_property
    def _kept(self) -> Numbers:
        """Records that are kept and have a value."""
        return np.asarray(self.table.sums.get("n", self.table.kept), np.float64).ravel()

    @property
    def _total(self) -> Numbers:
        """Their weights added up."""
        sums = self.table.sums
        return sums["w" if "w" in sums else "records"].ravel() if self.amount.weight else self._kept

    def _sum(self, name: str) -> Numbers:
        return self.table.sums[name].ravel()

    @cached_property
    def _keys(self) -> list[bytes]:
        """What the noise on the number of values hangs on: the cell's records that have one."""
        variable, table = self.amount.variable, self.table
        if not self.amount.question.policy.counts.sd:
            return [b""] * table.counts.size
        keys = table.thinned_keys()
        if not variable.gaps:
            return keys
        if variable.levels and not variable.known and variable.levels[-1] == MISSING:
            there = np.arange(len(variable.levels)) < len(variable.levels) - 1
            return table.thinned_keys(Selection((variable,), (there,)))
        return [key + f"{variable.name} has a value".encode() for key in keys]

    @cached_property
    def values(self) -> Numbers:
        """How many records have a value: scaled back, with noise."""
        question = self.amount.question
        return question.policy.counts.noisy(self._kept * self._factor, self._keys, question.secret)

    @cached_property
    def _weights(self) -> Numbers:
        """What means are divided by."""
        question, weight = self.amount.question, self.amount.weight
        if weight is None:
            return self.values
        return question.policy.counts.weighted(self._total * self._factor, self._keys, question.secret, weight.large)

    @cached_property
    def _noise(self) -> float:
        """The standard deviation of the noise on a sum."""
        weight = self.amount.weight
        return self.amount.question.policy.amounts.noise(self.amount.variable) * (weight.large if weight else 1.0)

    @property
    def _bound(self) -> float:
        """What a record can add to a sum: the top code, times a large weight; 0 where sums have no noise."""
        sd = self.amount.question.policy.amounts.sd
        return self._noise / sd if sd else 0.0

    def _noisy(self, values: Numbers, sd: float, purpose: str) -> Numbers:
        if not sd:
            return values
        about = purpose_of(f"{purpose}{self.amount.about}", self.amount.question.policy.amounts.sd)
        return values + sd * self.amount.question.secret.normals(self.table.thinned_keys(), about)

    @cached_property
    def _true(self) -> Numbers:
        """Sums over kept records."""
        return np.asarray(self._sum("s") + self.amount.variable.centre * self._total)

    @cached_property
    def sums(self) -> Numbers:
        """Sums: scaled back, with noise."""
        return self._noisy(self._true * self._factor, self._noise, "")

    @cached_property
    def means(self) -> Numbers:
        """Noisy sums over noisy numbers of values; NaN where these are not above 0."""
        divided = np.where(self._weights > 0, self._weights, np.nan)
        return np.asarray(self.sums / divided, np.float64)

    @cached_property
    def errors(self) -> Numbers:
        """Standard errors of the means, which allow for the sample and for the noise.

        By linearisation the variance of Σwv / Σw is n / (n − 1) Σ w²(v − m)² / (Σw)²; without weights that is s² / n. Under the
        design the squares are those of households' totals about the mean of their stratum. The noise adds its own: that of
        the sum, and of the number of values times the mean. The squares have keyed noise, too.
        """
        policy, weight = self.amount.question.policy, self.amount.weight
        unit = weight.large if weight else 1.0
        divided = np.where(self._weights > 0, self._weights, np.nan)
        noise = self._noise**2 + (policy.counts.sd * unit * self.means) ** 2
        squares = self._design_squares() if self.amount.design else self._plain_squares()
        return np.asarray(np.sqrt(policy.variance_inflation * squares + noise) / divided, np.float64)

    def _plain_squares(self) -> Numbers:
        """Return the variance of each Σ w(v − m) of records drawn one by one, with keyed noise; NaN where there is one value."""
        counted = np.where(self.values > 1, self.values, np.nan)
        ww, wv = (self._sum("ww"), self._sum("wv")) if self.amount.weight else (self._kept, self._sum("s"))
        squares, _ = self._blurred(self._sum("vv"), wv, ww, "squares of ")
        return np.asarray(squares * counted / (counted - 1), np.float64)

    def _design_squares(self) -> Numbers:
        """Return the same under the survey's design.

        A household counts for as much as all its records, so that the noise may hide the squares of a thousand. What it may
        have hidden, two standard deviations, is made up for as far as records drawn one by one vary: households rarely vary less.
        """
        vv, wv, ww, largest = self._design_sums()
        squares, sd = self._blurred(vv, wv, ww, "design squares of ", largest)
        return np.maximum(squares, np.fmin(self._plain_squares(), squares + 2 * sd))

    def _blurred(self, vv: Numbers, wv: Numbers, ww: Numbers, name: str, one: float = 1.0) -> tuple[Numbers, float]:
        """Return squares of w(v − m), scaled back and with keyed noise, and its standard deviation.

        `one` is how many records can lie together in one square.
        """
        total, sd = self._total, self.amount.question.policy.amounts.sd * one * self._bound**2
        mean = np.divide(self._sum("s"), total, out=np.zeros(total.shape), where=total > 0)  # above the centre
        squares = np.maximum(vv - 2 * mean * wv + mean**2 * ww, 0.0)
        return np.maximum(self._noisy(squares * self._factor, sd, name), 0.0), sd

    def _design_sums(self) -> tuple[Numbers, Numbers, Numbers, float]:
        """Return squares and products of households' totals of wx and w, and the records of the largest household."""
        amount, design = self.amount, self.amount.question.dataset.design
        (value, x, bound), columns = amount.coded, [*(f"c{i}" for i in range(self.table.counts.ndim)), *design.columns]
        w, scale = ("w", amount.weight.scale) if amount.weight else ("1.0E0", 1.0)
        source = (
            f"SELECT {', '.join([*columns, f'w * {x} AS g0', 'w AS g1'])} "  # noqa: S608 - our own names
            f"FROM ({self.table.records({'w': w, 'v': value})}) AS kept WHERE v IS NOT NULL"
        )
        found = design.covariances(
            source,
            np.eye(2),
            np.diag([(scale * bound) ** 2, scale**2]),
            [(0, 0), (0, 1), (1, 1)],
            self.table.counts.shape,
        )
        return found[:, 0], found[:, 1], found[:, 2], design.largest

    @cached_property
    def unsafe(self) -> Flags:
        """Which cells the rules about contributions hide.

        Where sums have noise, the rules look at noisy sums, and at what a record could add to one: by the contributions
        themselves, that a sum is hidden would tell that somebody in the cell has a large one. Where contributions of both
        signs cancel, a sum says nothing of their sizes, and noise alone protects.
        """
        amount = self.amount
        if not amount.looked_at:
            most, hidden = np.full(self.sums.shape, self._bound), np.zeros(self.sums.shape, bool)
            for rule in amount.rules if amount.variable.bottom is None else ():
                hidden |= rule.unsafe(most, rule.several * most, self.sums)
            return hidden
        value = f"abs({amount.coded[0]})"
        total = self.table.sums["sizes"] if "sizes" in self.table.sums else self._true.reshape(self.table.counts.shape)
        return unsafe_cells(self.table, f"w * {value}" if amount.weight else value, amount.rules, total).ravel()

    def shown(self) -> dict[str, Numbers]:
        """Return means, their standard errors and sums as they are published; NaN where they are not shown."""
        policy = self.amount.question.policy
        hidden = (self.values < max(policy.counts.least, 0)) | self.unsafe | (self._kept == 0) & (not policy.counts.sd)
        found = {"mean": self.means, "standard error": self.errors, "sum": self.sums}
        digits = {"standard error": policy.amounts.error_digits}
        return {
            name: significant(np.where(hidden, np.nan, values), digits.get(name, policy.amounts.digits))
            for name, values in found.items()
        }
