"""Top and bottom coding, truncation, and top coding of several columns at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.kernels.classes import classes
from sfumato.kernels.moments import complete, is_constant, robust_location_scatter, whitened
from sfumato.lazy import stats
from sfumato.masks.column_settings import numeric_columns, of_column, replace_numbers, value_limit
from sfumato.schema import Level
from sfumato.typing import Flags, Numbers, Whole

Replace = Literal["threshold", "mean"]


MEAN_OF = 3
"""Smallest number of values behind a released mean: one value is the mean itself, and of two each holder knows the other's."""


class Coding(Mask, abstract=True):
    """Values beyond a threshold are replaced by the threshold, or by the mean of the values beyond it."""

    preserves_order: ClassVar[bool] = True
    top: ClassVar[bool]

    columns: tuple[str, ...] | None = numeric_columns("code")
    quantile: float | Mapping[str, float] | None = param(
        default=None, doc="share of the values at or below the threshold", low=0, high=1, per_column=True
    )
    value: float | Mapping[str, float] | None = value_limit("threshold as a value, instead of a quantile")
    replace: Replace = param(default="threshold", doc="release the threshold itself, or the mean of the values beyond")
    codes: Any = learned("columns", "quantile", "value", "replace", default=None)

    @override
    def validate(self) -> None:
        if self.quantile is not None and self.value is not None:
            raise ParameterError(f"give {self.name} a quantile or a value, not both.")
        if self.columns is not None:
            self._check_named(self.columns)

    def _check_named(self, columns: tuple[str, ...]) -> None:
        """Check that thresholds by column name exactly these columns."""
        for setting in (self.quantile, self.value):
            if not isinstance(setting, Mapping):
                continue
            if absent := [c for c in columns if c not in setting]:
                raise ParameterError(
                    f"{self.name} gives no threshold for {join_names(absent)}. Give one, or name only the columns to code (columns)."
                )
            if extra := [c for c in setting if c not in columns]:
                raise ParameterError(
                    f"{self.name} gives thresholds for columns that are not coded: {join_names(extra)}. Name them in columns too, "
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
        if (value := of_column(self.value, name)) is not None:
            return float(value)
        quantile = of_column(self.quantile, name)
        # an observed value: some record then has the threshold
        return float(np.quantile(known, default if quantile is None else quantile, method="inverted_cdf"))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Replace the values beyond the threshold."""
        return replace_numbers(batch, self.codes, partial(self._coded, batch))

    def _coded(self, batch: Batch, name: str) -> Numbers:
        numbers, (threshold, code) = batch.numbers(name), self.codes[name]
        return np.where(numbers > threshold if self.top else numbers < threshold, code, numbers)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no released value lies beyond its code, and count the coded ones."""
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


TAIL = 0.01


class Truncate(Mask):
    """Values beyond limits are released as missing (matrix-masking paper, section IV: truncating distributions).

    Top coding moves an extreme value to the limit, where analysts see it; truncation removes it and leaves the distribution
    between the limits. The record stays, with its other columns.
    """

    preserves_order: ClassVar[bool] = True
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = (
        "whether a value is removed depends on the value (truncating, matrix-masking paper, section IV)"
    )

    columns: tuple[str, ...] | None = numeric_columns("truncate")
    low: float | Mapping[str, float] | None = value_limit("values below this are removed")
    high: float | Mapping[str, float] | None = value_limit("values above this are removed")
    tail: float | Mapping[str, float] | None = param(
        default=None,
        doc="share of the values removed at each end, if no limits are given (0.01)",
        low=0,
        high=0.5,
        per_column=True,
    )
    limits: Any = learned("columns", "low", "high", "tail", default=None)

    @override
    def validate(self) -> None:
        if self.tail is not None and (self.low is not None or self.high is not None):
            raise ParameterError("give truncate limits (low, high) or a share of each end (tail), not both.")
        named = [n for limit in (self.low, self.high) if isinstance(limit, Mapping) for n in limit]
        for name in dict.fromkeys([*(self.columns or ()), *named] or [""]):
            low, high = of_column(self.low, name), of_column(self.high, name)
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
                    f"truncate gives limits for columns that are not truncated: {join_names(extra)}. Name them in columns too, or "
                    "leave their limits out."
                )
        return self.learn(limits={name: self._limits(name, data) for name in names})

    def _limits(self, name: str, data: Microdata) -> tuple[float, float]:
        if self.low is not None or self.high is not None:
            low, high = of_column(self.low, name), of_column(self.high, name)
            if low is None and high is None:
                raise ParameterError(
                    f"truncate gives no limit for '{name}'. Give one, or name only the columns to truncate (columns)."
                )
            return -np.inf if low is None else low, np.inf if high is None else high
        tail = TAIL if self.tail is None else of_column(self.tail, name)
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
        return replace_numbers(batch, self.limits, partial(self._within, batch))

    def _within(self, batch: Batch, name: str) -> Numbers:
        numbers, (low, high) = batch.numbers(name), self.limits[name]
        return np.where((numbers < low) | (numbers > high), np.nan, numbers)

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


# --- Top coding of several columns at once: jointly extreme records are pulled back to the edge of an ellipsoid.

_SLACK = 1 + 1e-9  # rounding of the last digit
_STEPS = 400


class Ellipsoid(NamedTuple):
    """Centre (p,) and scatter (p, p) of some columns."""

    names: tuple[str, ...]
    centre: Numbers
    scatter: Numbers


class MultivariateTopCode(Mask):
    """Records whose Mahalanobis distance passes a quantile of χ² are pulled back towards the centre, to that distance.

    Univariate top coding misses a record that is extreme only as a combination; here the combination counts (Templ and
    Meindl 2008, on outliers in disclosure control). A record with missing values is judged by the columns it has.
    Columns that describe households are coded separately from those that describe persons.
    """

    no_matrix: ClassVar[str] = "how far a record is pulled back depends on the record"

    columns: tuple[str, ...] | None = numeric_columns("code together")
    quantile: float = param(
        default=0.99, doc="share of normal records within the ellipsoid", low=0.5, high=0.999999, above=True
    )
    estimate: Literal["robust", "classical"] = param(
        default="robust", doc="centre and spread that outliers do not move, or mean and covariance"
    )
    ellipsoids: Any = learned("columns", "estimate", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn centre and scatter of the columns."""
        names = numeric_targets(self.columns, data)
        return self.learn(ellipsoids=tuple(self._ellipsoid(data, part) for part in by_level(data.schema, names)))

    def _ellipsoid(self, data: Microdata, names: tuple[str, ...]) -> Ellipsoid:
        moments = data.moments(names)
        if not moments.count:
            raise DataError(
                f"no record has a value in all of {join_names(names)}, so there is no centre to pull records to. Leave out "
                "the columns that are mostly missing."
            )
        variances = np.diag(moments.covariance)
        if not np.isfinite(moments.covariance).all():
            raise DataError(
                f"one of {join_names(names)} holds infinite values, or values too large to square. Set them to missing."
            )
        if is_constant(moments.mean, variances).all():
            raise DataError(
                f"{join_names(names)}: there is no spread, so no record is far out and nothing can be coded. Choose other columns."
            )
        if self.estimate == "classical":
            return Ellipsoid(names, moments.mean, moments.covariance)
        x = complete(np.column_stack([data.numbers(n) for n in names]))
        return Ellipsoid(names, *robust_location_scatter(x))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Pull back the records that lie outside."""
        out = batch
        for ellipsoid in self.ellipsoids:
            names = ellipsoid.names
            check_numbers(batch, names)
            x = np.column_stack([batch.numbers(n) for n in names])
            new = x.copy()
            for rows, known in _patterns(x):
                whole = np.array([batch.schema[n].integer for n in names])[known]
                new[np.ix_(rows, known)] = _pulled(x[np.ix_(rows, known)], *self._edge(ellipsoid, known), whole)
            for j, name in enumerate(names):
                out = out.replace(name, lambda values=new[:, j]: values)  # type: ignore[misc]
        return out

    def _edge(self, ellipsoid: Ellipsoid, known: Flags) -> tuple[Numbers, Numbers, float]:
        """Return centre (p,), the whitening axes (p, rank), and the largest squared distance."""
        centre, scatter = ellipsoid.centre[known], ellipsoid.scatter[np.ix_(known, known)]
        axes = whitened(np.eye(len(centre)), np.zeros(len(centre)), scatter)
        return centre, axes, float(stats.chi2.ppf(self.quantile, axes.shape[1])) if axes.shape[1] else np.inf

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that no released record lies outside, and count the records that were moved."""
        for ellipsoid in self.ellipsoids:
            outside = []
            for data in (before, after):
                x = np.column_stack([data.numbers(n) for n in ellipsoid.names])
                edges = [(x[np.ix_(rows, known)], *self._edge(ellipsoid, known)) for rows, known in _patterns(x)]
                outside.append(sum(int((_squared(y, c, a) > limit * _SLACK**2).sum()) for y, c, a, limit in edges))
            if outside[1]:
                raise DataError(
                    f"{outside[1]:,} records could not be pulled back within the ellipsoid of {join_names(ellipsoid.names)}; "
                    "nothing is released."
                )
            says = f"{join_names(ellipsoid.names)}: no record lies beyond the {self.quantile:g} quantile of χ² from the centre"
            yield Guarantee(step, f"{says}; {outside[0]:,} did", "all distances computed on the released values")


def _patterns(x: Numbers) -> list[tuple[Whole, Flags]]:
    """Return the rows of each pattern of answered columns, with those columns; rows without answers are left out."""
    label, sizes = classes([np.isnan(column).astype(np.int64) for column in x.T], len(x))
    blocks = np.split(np.argsort(label, kind="stable"), np.cumsum(sizes)[:-1]) if len(sizes) else []
    return [(rows, known) for rows in blocks if (known := ~np.isnan(x[rows[0]])).any()]


def _squared(x: Numbers, centre: Numbers, axes: Numbers) -> Numbers:
    """Return squared distances, shape (n,); summed axis by axis, so that each is independent of other records."""
    total = np.zeros(len(x))
    for axis in axes.T:
        z = np.zeros(len(x))
        for weight, column, middle in zip(axis, x.T, centre, strict=True):
            z += weight * (column - middle)
        total += z * z
    return total


def _pulled(x: Numbers, centre: Numbers, axes: Numbers, limit: float, whole: Flags) -> Numbers:
    """Return x with the rows outside moved along the ray to the centre, whole numbers rounded, until they lie inside."""
    distance = _squared(x, centre, axes)
    out = np.flatnonzero(distance > limit)
    share = np.sqrt(limit / distance[out])
    new = x.copy()
    for _ in range(_STEPS):
        new[out] = centre + share[:, None] * (x[out] - centre)
        new[np.ix_(out, whole)] = np.round(new[np.ix_(out, whole)])
        left = _squared(new[out], centre, axes) > limit * _SLACK
        if not left.any():
            break
        out, share = out[left], share[left] * 0.98  # rounding to whole numbers moved it outside again
    return new
