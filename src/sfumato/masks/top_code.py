"""Top and bottom coding: values beyond a threshold are released as one value."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level

Numbers = NDArray[np.float64]
Replace = Literal["threshold", "mean"]


MEAN_OF = 3
"""A mean is released only of at least so many values: of one it is the value, of two each holder knows the other's."""


class Coding(Mask, abstract=True):
    """Values beyond a threshold are replaced by the threshold, or by the mean of the values beyond it."""

    preserves_order: ClassVar[bool] = True
    top: ClassVar[bool]

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to code; all confidential numbers if none", columns="many"
    )
    quantile: float | Mapping[str, float] | None = param(
        default=None, doc="share of the values at or below the threshold", low=0, high=1, per_column=True
    )
    value: float | Mapping[str, float] | None = param(
        default=None,
        doc="threshold as a value, instead of a quantile",
        low=-1e300,
        high=1e300,
        per_column=True,
        of_data="numbers",
    )
    replace: Replace = param(
        default="threshold",
        doc="release the threshold itself, or the mean of the values beyond",
        choices=("threshold", "mean"),
    )
    codes: Any = learned("columns", "quantile", "value", "replace", default=None)

    def validate(self) -> None:
        """Exactly one of quantile and value may be given."""
        super().validate()
        if self.quantile is not None and self.value is not None:
            raise ParameterError(f"give {self.name} a quantile or a value, not both.")
        if self.columns is not None:
            self._check_named(self.columns)

    def _check_named(self, columns: tuple[str, ...]) -> None:
        """Check that thresholds given by column are given for these columns, and for no others."""
        for setting in (self.quantile, self.value):
            if not isinstance(setting, Mapping):
                continue
            if absent := [c for c in columns if c not in setting]:
                raise ParameterError(
                    f"{self.name} gives no threshold for {listing(absent)}. Give one, or name only the columns to code (columns)."
                )
            if extra := [c for c in setting if c not in columns]:
                raise ParameterError(
                    f"{self.name} gives thresholds for columns that are not coded: {listing(extra)}. Name them in columns too, "
                    "or leave their thresholds out."
                )

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the threshold and the released value of each column."""
        codes: dict[str, tuple[float, float]] = {}
        targets = numeric_targets(self.columns, data)
        self._check_named(targets)
        for name in targets:
            shared = data.schema[name].level is Level.HOUSEHOLD
            batch = data.batch([name, *(data.schema.names(role="household") if shared else ())])
            numbers = batch.numbers(name)
            there = ~np.isnan(numbers)
            known, units = numbers[there], batch.units(name)[there]
            if not len(known):
                raise DataError(
                    f"column '{name}' has no values at all, so there is no threshold to find. Leave it out."
                )
            threshold = self._threshold(name, known)
            far = known > threshold if self.top else known < threshold
            beyond = known[far]
            if self.replace == "mean" and 0 < len(np.unique(units[far])) < MEAN_OF:
                whose = "households" if shared else "records"
                raise DataError(
                    f"the mean of the values of '{name}' beyond the threshold would be that of fewer than {MEAN_OF} {whose}, "
                    f"and would tell what they are. Choose a threshold that codes more {whose}, or replace = 'threshold'."
                )
            code = float(beyond.mean()) if self.replace == "mean" and len(beyond) else threshold
            if (round(code) if data.schema[name].integer else code) in data.schema[name].missing:
                raise DataError(
                    f"the coded values of '{name}' would be released as a value that the schema says is missing. "
                    "Choose another threshold."
                )
            codes[name] = (threshold, code)
        return self.learn(codes=codes)

    def _threshold(self, name: str, known: Numbers) -> float:
        default = 0.99 if self.top else 0.01
        if (value := _for_column(self.value, name)) is not None:
            return value
        quantile = _for_column(self.quantile, name)
        # an observed value: the threshold itself is then a value that some record has
        return float(np.quantile(known, default if quantile is None else quantile, method="inverted_cdf"))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Replace the values beyond the threshold."""
        check_numbers(batch, self.codes)
        out = batch
        for name, (threshold, code) in self.codes.items():
            out = out.replace(name, partial(self._coded, batch, name, threshold, code))
        return out

    def _coded(self, batch: Batch, name: str, threshold: float, code: float) -> Numbers:
        numbers = batch.numbers(name)
        return np.where(numbers > threshold if self.top else numbers < threshold, code, numbers)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no released value lies beyond its code, and count those that did."""
        coded = []
        for name, (threshold, code) in self.codes.items():
            limit = round(code) if before.schema[name].integer else code
            numbers = after.numbers(name)
            worst = np.nanmax(numbers, initial=threshold) if self.top else np.nanmin(numbers, initial=threshold)
            if (worst > max(limit, threshold)) if self.top else (worst < min(limit, threshold)):
                raise DataError(f"column '{name}' still has values beyond its code; nothing is released.")
            was = before.numbers(name)
            far = int((was > threshold).sum() if self.top else (was < threshold).sum())
            coded.append(f"{name}: {far:,} of {int((~np.isnan(was)).sum()):,}")
        side = "above" if self.top else "below"
        says = f"no value {side} the code is released; coded: {'; '.join(coded)}"
        return (Guarantee(step, says, "all released values checked"),)


class TopCode(Coding):
    """Values above a threshold are released as one value (R-U paper, section 3; Duncan and Stokes 2004).

    Give the threshold as a quantile (0.99 if nothing is given) or as a value. Order is kept.
    """

    top: ClassVar[bool] = True


class BottomCode(Coding):
    """Values below a threshold are released as one value; the mirror image of top coding (quantile 0.01 by default)."""

    top: ClassVar[bool] = False


def _for_column(setting: float | Mapping[str, float] | None, name: str) -> float | None:
    return setting.get(name) if isinstance(setting, Mapping) else setting
