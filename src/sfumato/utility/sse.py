"""Information kept, record by record: 1 - SSE/SST on standardised columns (Domingo-Ferrer and Mateo-Sanz 2002)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure, Need, NoiseModel, Release, Side, Snooper, learned, param
from sfumato.contract.score import digits
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, listing
from sfumato.microdata import Microdata, check_numeric
from sfumato.schema import Schema
from sfumato.utility.moments import spread

Numbers = NDArray[np.float64]


class VarianceKept(Measure):
    """U = 1 - SSE/SST: the share of the variance of the original records that the released ones keep.

    SSE is the sum of squared differences between each original value and what is released for it, SST the sum of squared
    deviations from the mean; columns are divided by their standard deviation first, so that all count alike and units do not
    matter. 100·SSE/SST is the information loss of the microaggregation literature. It does not grow with the number of
    records. A value that is not released (suppressed, its record dropped, or its whole column) loses its whole deviation, as
    if the mean stood for it; a value that was missing before is left out.

    1 is a file that was not changed, 0 one of means only; noise with a variance above the data's own goes below 0.
    """

    side: ClassVar[Side] = Side.UTILITY
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = param(
        default=None, doc="columns to compare; all confidential numbers if none", columns="many"
    )
    names: Any = learned("over", default=None)

    def label(self) -> str:
        """Return a few words for a legend."""
        return "variance kept" + (f" of {listing(self.over, 3)}" if self.over else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss in percent."""
        return f"{digits(100 * (1 - value))} % of the variance lost (100·SSE/SST)"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns."""
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
            raise DataError(f"{listing(names)}: nothing varies, so there is no variance to keep or to lose.")
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
                f"{listing(grouped)}: released as categories, which have no distance from the original numbers. Name the other "
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
