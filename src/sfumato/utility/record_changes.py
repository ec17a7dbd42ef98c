"""How far each released record is from its original: IL1s and the share of variance kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Measure, Need, NoiseModel, Release, Snooper, learned, param
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Kind
from sfumato.data.microdata import Microdata, check_numeric
from sfumato.errors import DataError, NotApplicable, join_names
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers
from sfumato.utility.comparison import NUMBER, ColumnUtility, compared_columns, over_columns, weighted_flag, weights_of
from sfumato.utility.moments import ColumnSpread, check_numbers, check_size, released_numbers, spread, worst_of


class IL1s(ColumnUtility):
    """U = 1 - IL1s, where IL1s is the mean over all values of |o - y| / (√2 sd), sd being that of the original column.

    √2 sd is the root mean square difference between two records drawn at random, so a loss of 1 is a release in which each
    value is as far off as another record's would be. It is a mean: it does not grow with the number of records or columns.

    A value that is not released (suppressed, its record dropped, or its whole column) counts as off by its distance from the
    mean, and by √2 sd at least: never less than any released value between the mean and the truth. A column that is not
    released so loses from 1 to 1.125, whatever its distribution. A value that was missing before is left out, and so are
    columns that do not vary. Source: Mateo-Sanz, Sebé and Domingo-Ferrer 2004.
    """

    title: ClassVar[str] = "1 - IL1s"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = over_columns("numbers")
    weighted: bool = weighted_flag()
    names: Any = learned("over", default=None)

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"values are off by {digits(math.sqrt(2) * (1 - value))} standard deviations on average (IL1s {digits(1 - value)})"

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Learn which columns there are; refuse data in which no column varies."""
        names = compared_columns(data, self.over, NUMBER)
        self._spreads(data, names)
        return self.learn(names=names)

    @np.errstate(over="ignore", invalid="ignore")  # huge values are refused where the loss is
    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare value by value."""
        original = outcome.original
        spreads = self._spreads(original, self.names or compared_columns(original, self.over, NUMBER))
        check_numbers(outcome, list(spreads), "IL1s")
        weights = weights_of(original, self.weighted)
        sums = {n: np.zeros(3) for n in spreads}
        for one in _each(outcome):
            for name, total in sums.items():
                total += _sum(*_losses(one, name, spreads[name]), weights)
        lost, gone, known = np.sum(list(sums.values()), axis=0)
        loss, share = float(lost / known), float(gone / known)
        of = {n: float(column / count) for n, (column, _, count) in sums.items()}
        check_size(join_names(sums), loss)
        worst = max(of, key=lambda n: of[n])
        more = worst_of(worst, digits(math.sqrt(2) * of[worst]), len(of)) if loss else ""
        more += f"; {digits(100 * share)} % of the values are not released, and count as lost" if share else ""
        return self.result(
            1 - loss,
            self.words(1 - loss, original.schema) + more,
            details={
                "IL1s": loss,
                "largest IL1s of a column": of[worst],
                "share of values not released": share,
                **{f"IL1s of {n}": of[n] for n in of},
            },
            find_records=lambda: _records(outcome, spreads),
        )

    def _spreads(self, data: Microdata, names: tuple[str, ...]) -> dict[str, ColumnSpread]:
        """Return mean and variance of the columns that vary; refuse data without any."""
        weights = weights_of(data, self.weighted)
        spreads = {n: s for n in names if (s := spread(data, n, weights)).variance > 0}
        if not spreads:
            raise DataError(
                f"{join_names(names)}: nothing varies, so there is no standard deviation to measure a difference in."
            )
        return spreads

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the value under additive noise: E|N(0, ω)| / (√2 σ) = √(ω/σ²) / √π, which is λ/√π for noise of λ²σ²."""
        names = self.names or self.over or ()
        if self.weighted or not names or any(n not in model.names for n in names):
            return None
        used = [model.at(n) for n in names]
        variance, noise = np.diag(model.covariance)[used], np.diag(model.noise)[used]
        return 1 - float(np.sqrt(noise / (math.pi * variance)).mean()) if (variance > 0).all() else None


def _each(outcome: Release) -> list[Release]:
    """Return one release for each implicate."""
    if len(outcome.implicates) == 1:
        return [outcome]
    return [replace(outcome, implicates=(data,), memory={}) for data in outcome.implicates]


def _losses(one: Release, name: str, of: ColumnSpread) -> tuple[Numbers, Flags]:
    """Return |o - y| / (√2 sd) of each original record, NaN where there was no value, and which are not released; (n,) each."""
    scale = math.sqrt(2 * of.variance)
    x, y = one.original.numbers(name), released_numbers(one.masked, name)
    left, right = one.matched
    if left is not None:
        paired = np.full(len(x), np.nan)
        paired[left] = y[right]
        y = paired
    losses: Numbers = np.abs(x - y)
    losses /= scale
    gone = np.isnan(y)
    if gone.any():
        gone &= ~np.isnan(x)
        losses[gone] = np.maximum(np.abs(x[gone] - of.mean) / scale, 1.0)
    return losses, gone


def _sum(losses: Numbers, gone: Flags, weights: Numbers | None) -> Numbers:
    """Return the sum of the losses, how many are not released, and how many there are, in weights if given; shape (3,)."""
    known = ~np.isnan(losses)
    if not known.all():
        losses, gone, weights = losses[known], gone[known], weights if weights is None else weights[known]
    if weights is None:
        return np.array([losses.sum(), gone.sum(), len(losses)], np.float64)
    return np.array([losses @ weights, weights[gone].sum(), weights.sum()])


def _records(outcome: Release, spreads: Mapping[str, ColumnSpread]) -> Numbers:
    """Return 1 - the mean loss of each original record's values, in id order, shape (n,); NaN where it had none."""
    sums, counts = np.zeros((2, len(outcome.original)))
    for one in _each(outcome):
        for name, of in spreads.items():
            losses, _ = _losses(one, name, of)
            sums += np.nan_to_num(losses)
            counts += ~np.isnan(losses)
    values: Numbers = 1 - np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return values[np.argsort(outcome.original.batch([]).ids, kind="stable")]


class VarianceKept(Measure):
    """U = 1 - SSE/SST: the share of the variance of the original records that the released ones keep.

    SSE is the sum of squared differences between each original value and what is released for it, SST the sum of squared
    deviations from the mean; columns are divided by their standard deviation first, so that all count alike and units do not
    matter. 100·SSE/SST is the information loss of the microaggregation literature. It does not grow with the number of
    records. A value that is not released (suppressed, its record dropped, or its whole column) loses its whole deviation, as
    if the mean stood for it; a value that was missing before is left out.

    1 is a file that was not changed, 0 one of means only; noise with a variance above the data's own goes below 0.
    Source: Domingo-Ferrer and Mateo-Sanz 2002.
    """

    side: ClassVar[Side] = Side.UTILITY
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = param(
        default=None, doc="columns to compare; all confidential numbers if none", columns="many"
    )
    names: Any = learned("over", default=None)

    @override
    def label(self) -> str:
        return "variance kept" + (f" of {join_names(self.over, 3)}" if self.over else "")

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"{digits(100 * (1 - value))} % of the variance lost (100·SSE/SST)"

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        return self.over or schema.names(role="confidential")

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Learn which columns there are; refuse data in which no column varies."""
        if self.over is None:
            names = tuple(n for n in data.schema.names(role="confidential") if data.kind(n) is Kind.NUMBER)
        else:
            names = self.over
        for name in names:
            check_numeric(data, name)
        if not names:
            raise DataError(
                "there is no confidential column of numbers to compare. Name some: VarianceKept(over=[...])."
            )
        if not any(spread(data, name).variance for name in names):
            raise DataError(f"{join_names(names)}: nothing varies, so there is no variance to keep or to lose.")
        return self.learn(names=names)

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return SSE/SST, shape (1,): the mean over the implicates, if there are several."""
        if len(outcome.implicates) == 1:
            return np.array([self._lost(outcome)])
        each = [replace(outcome, implicates=(data,), memory={}) for data in outcome.implicates]
        return np.array([np.mean([self._lost(one) for one in each])])

    def value(self, means: Numbers) -> Numbers:
        """Return what is not lost."""
        return 1.0 - means[..., 0]

    def _lost(self, outcome: Release) -> float:
        kept = outcome.masked.engine.kinds
        if grouped := [n for n in self.names if n in kept and kept[n] is not Kind.NUMBER]:
            raise NotApplicable(
                f"{join_names(grouped)}: released as categories, which have no distance from the original numbers. Name the other "
                "columns: VarianceKept(over=[...])."
            )
        lost, total = 0.0, 0.0
        for name in self.names:
            of = spread(outcome.original, name)
            if not of.variance:
                continue  # a constant has no variance to lose
            total += of.count - 1
            lost += of.count - 1
            if name in kept:
                x, y = outcome.pair(name)
                known = ~(np.isnan(x) | np.isnan(y))
                x, y = x[known], y[known]
                lost += float((np.square(x - y).sum() - np.square(x - of.mean).sum()) / of.variance)
        return lost / total

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the value under additive noise: the mean noise variance ratio is lost."""
        used = [model.at(name) for name in self.names or self.over or () if name in model.names]
        if not used or len(used) < len(self.names or self.over or ()):
            return None
        variance, noise = np.diag(model.covariance)[used], np.diag(model.noise)[used]
        return 1.0 - float(np.mean(noise / variance)) * model.n / (model.n - 1) if (variance > 0).all() else None
