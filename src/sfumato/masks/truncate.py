"""Truncation: values beyond limits are taken out of the distribution."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.errors import DataError, ParameterError, listing
from sfumato.microdata import Batch, Microdata

Numbers = NDArray[np.float64]

TAIL = 0.01


class Truncate(Mask):
    """Values beyond limits are released as missing (matrix-masking paper, section IV: truncating distributions).

    Top coding moves an extreme value to the limit, where analysts see that it is there; truncation takes it out, and what is
    left is the distribution between the limits. The record stays, with its other columns.
    """

    preserves_order: ClassVar[bool] = True
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = (
        "whether a value is removed hangs on the value (truncating, matrix-masking paper, section IV)"
    )

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to truncate; all confidential numbers if none", columns="many"
    )
    low: float | Mapping[str, float] | None = param(
        default=None, doc="values below this are removed", low=-1e300, high=1e300, per_column=True, of_data="numbers"
    )
    high: float | Mapping[str, float] | None = param(
        default=None, doc="values above this are removed", low=-1e300, high=1e300, per_column=True, of_data="numbers"
    )
    tail: float | Mapping[str, float] | None = param(
        default=None,
        doc="share of the values removed at each end, if no limits are given (0.01)",
        low=0,
        high=0.5,
        per_column=True,
    )
    limits: Any = learned("columns", "low", "high", "tail", default=None)

    def validate(self) -> None:
        """Limits or a share, not both; and the lower limit first."""
        super().validate()
        if self.tail is not None and (self.low is not None or self.high is not None):
            raise ParameterError("give truncate limits (low, high) or a share of each end (tail), not both.")
        named = [n for limit in (self.low, self.high) if isinstance(limit, Mapping) for n in limit]
        for name in dict.fromkeys([*(self.columns or ()), *named] or [""]):
            low, high = _for(self.low, name), _for(self.high, name)
            if low is not None and high is not None and not low <= high:
                whose = f" of '{name}'" if name else ""
                raise ParameterError(
                    f"the limits{whose} are {low:g} and {high:g}: the lower one must not be the larger."
                )

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the two limits of each column."""
        names = numeric_targets(self.columns, data)
        for setting in (self.low, self.high, self.tail):
            if isinstance(setting, Mapping) and (extra := [n for n in setting if n not in names]):
                raise ParameterError(
                    f"truncate gives limits for columns that are not truncated: {listing(extra)}. Name them in columns too, or "
                    "leave their limits out."
                )
        return self.learn(limits={name: self._limits(name, data) for name in names})

    def _limits(self, name: str, data: Microdata) -> tuple[float, float]:
        if self.low is not None or self.high is not None:
            low, high = _for(self.low, name), _for(self.high, name)
            if low is None and high is None:
                raise ParameterError(
                    f"truncate gives no limit for '{name}'. Give one, or name only the columns to truncate (columns)."
                )
            return -np.inf if low is None else low, np.inf if high is None else high
        tail = TAIL if self.tail is None else _for(self.tail, name)
        if tail is None:
            raise ParameterError(
                f"truncate gives no share for '{name}'. Give one, or name only the columns to truncate (columns)."
            )
        numbers = data.numbers(name)
        known = np.sort(numbers[~np.isnan(numbers)])
        if not len(known):
            raise DataError(f"column '{name}' has no values at all, so there are no limits to find. Leave it out.")
        cut = min(int(tail * len(known) + 1e-9), (len(known) - 1) // 2)  # never more than that share, ties included
        return float(known[cut]), float(known[-1 - cut])

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Remove the values beyond the limits."""
        check_numbers(batch, self.limits)
        out = batch
        for name, (low, high) in self.limits.items():
            out = out.replace(name, partial(_within, batch, name, low, high))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no released value lies beyond the limits, and count those removed."""
        removed = []
        for name, (low, high) in self.limits.items():
            x, y = before.numbers(name), after.numbers(name)
            if ((y < low) | (y > high)).any():
                raise DataError(f"column '{name}' still has values beyond its limits; nothing is released.")
            removed.append(f"{name}: {int(np.isnan(y).sum() - np.isnan(x).sum()):,} of {int((~np.isnan(x)).sum()):,}")
        says = f"no value beyond the limits is released; removed: {'; '.join(removed)}"
        return (Guarantee(step, says, "all released values checked"),)


def _within(batch: Batch, name: str, low: float, high: float) -> Numbers:
    numbers = batch.numbers(name)
    return np.where((numbers < low) | (numbers > high), np.nan, numbers)


def _for(setting: float | Mapping[str, float] | None, name: str) -> float | None:
    return setting.get(name) if isinstance(setting, Mapping) else setting
