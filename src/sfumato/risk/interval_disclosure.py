"""Interval disclosure: released values that are so near the true ones that they give them away."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Need, Release, Score, Snooper, param, wilson
from sfumato.data import Kind
from sfumato.data.microdata import check_numeric
from sfumato.errors import DataError, NotApplicable, count_of
from sfumato.risk.keys import RiskMeasure
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers


class IntervalDisclosure(RiskMeasure):
    """The share of records whose true values lie in an interval around the released ones.

    The half width of the interval is `width` times the standard deviation of the released column ("sd"), or times the number
    of released values, counted in ranks ("rank"), or times the robust standard deviation of the original column and the
    robust Mahalanobis distance of the record from the centre ("robust"): who lies far out is recognised from afar. "rmd" is
    the disclosure by robust Mahalanobis distance of Templ and Meindl (2008), as sdcMicro computes it. A record for which too
    many other released ones lie near its own (`crowd`) is safe all the same: nobody can tell which it is.
    """

    title: ClassVar[str] = "interval disclosure"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    over: tuple[str, ...] | None = param(
        default=None, doc="columns to compare; all confidential numbers if none", columns="many"
    )
    kind: Literal["sd", "rank", "robust", "rmd"] = param(default="sd", doc="what the interval is measured in")
    width: float = param(
        default=0.05, doc="half width of the interval, in that measure", low=0, above=True, high=10, scale="log"
    )
    within: Literal["all", "any", "each"] = param(
        default="all", doc="a record counts if all its values are inside, or any; or each value counts by itself"
    )
    crowd: int = param(
        default=0,
        doc="a record with at least this many other released records near its own is safe; 0: no such rule",
        low=0,
        integer=True,
    )
    near: float = param(
        default=0.05, doc="how near these lie, in standard deviations (robust ones, if robust)", low=0, above=True
    )

    @override
    @property
    def variant(self) -> str:
        measures = {
            "sd": f"{self.width:g} standard deviations",
            "rank": f"{100 * self.width:g} % of the ranks",
            "robust": f"{self.width:g} robust Mahalanobis distances",
            "rmd": f"{self.width:g} · {_RMD:g} robust Mahalanobis distances of the standardised files",
        }
        counts = {"all": "all columns", "any": "any column", "each": "value by value"}
        rule = f"; fewer than {self.crowd} others within {self.near:g}" if self.crowd else ""
        return f"within {measures[self.kind]}; {counts[self.within]}{rule}"

    @override
    def words(self, value: float, schema: Schema) -> str:
        what = "values" if self.within == "each" else "records"
        return f"{100 * value:.3g} % of the {what} are released within the interval around the true ones"

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        return self.over or schema.names(role="confidential")

    def of_records(self, values: Numbers) -> float | None:
        """Return the share of some records that are within; a share of values is not made of records' shares."""
        return None if self.within == "each" and len(self.over or ()) != 1 else float(values.mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records within the intervals."""
        names = self._names(outcome)
        pairs = [outcome.pair(name) for name in names]
        x, y = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
        more = _unmatched(outcome, names)
        if np.isinf(y).any() or np.isinf(more).any():
            raise DataError("some released values are infinite, which cannot be compared. Set them to missing.")
        known = ~(np.isnan(x) | np.isnan(y))
        usable = known.any(axis=1)
        if not usable.any():
            raise NotApplicable(f"no record has both a true and a released value of {', '.join(names)}.")
        size = np.frexp(np.nanmax(np.abs(np.vstack([x, y, more])), axis=0, initial=0.0))[1]
        x, y, more = (
            np.ldexp(part, -size) for part in (x, y, more)
        )  # exact; squares of huge numbers would not be finite
        everybody = np.vstack([y, more])
        if self.kind == "rank":
            inside = known & self._in_rank(x, y, everybody)
        elif self.kind == "rmd":
            inside = known & self._in_distance(x, y, everybody)
        else:
            inside = known & (np.abs(y - x) <= self.width * self._scale(x, everybody))
        if self.crowd:
            inside &= ~self._crowded(x, y, everybody)[:, None]
        counted = known.sum(axis=1) if self.within == "each" else usable.astype(np.int64)
        hits = inside.sum(axis=1)
        if self.within != "each":
            hits = ((inside | ~known).all(axis=1) & usable if self.within == "all" else inside.any(axis=1)).astype(
                np.int64
            )
        total, right = int(counted.sum()), int(hits.sum())
        noun, ones = "value" if self.within == "each" else "record", "one" if right == 1 else "ones"
        details = {f"{name}: share inside": float(inside[known[:, j], j].mean())
                   for j, name in enumerate(names) if known[:, j].any()}  # fmt: skip
        with np.errstate(invalid="ignore"):
            each = np.where(counted > 0, hits / counted, np.nan)
        return self.result(
            right / total,
            f"{count_of(right, total, ('is', 'are'), noun)} released within the interval around the true {ones}",
            interval=wilson(right, total),
            details={"compared": float(total), "inside": float(right), **details},
            find_records=lambda: outcome.per_original(each),
        )

    def _names(self, outcome: Release) -> tuple[str, ...]:
        """Return the columns to compare; refuse those that hold no numbers, before or after."""
        data = outcome.original
        names = self.over or tuple(n for n in data.schema.names(role="confidential") if data.kind(n) is Kind.NUMBER)
        if not names:
            raise NotApplicable("there is no confidential column of numbers to compare. Name some with over=[...].")
        for name in names:
            check_numeric(data, name)
            if name not in outcome.masked.engine.kinds:
                raise NotApplicable(f"column '{name}' is not in the released file. Leave it out of over.")
            check_numeric(outcome.masked, name)
        return names

    def _scale(self, x: Numbers, released: Numbers) -> Numbers:
        """Return what the width is multiplied by, for each value, shape (r, p) or (1, p)."""
        if self.kind == "sd":
            return _sd(released)[None, :]
        unit, distance = _outlying(x)
        return distance[:, None] * unit

    def _in_rank(self, x: Numbers, y: Numbers, released: Numbers) -> Flags:
        """Return which true values stand within the window of ranks around their released ones, in the released column.

        A value is as far off as there are ranks between those of the true value and those of the released one.
        """
        inside = np.zeros(x.shape, bool)
        for j in range(x.shape[1]):
            column = np.sort(released[~np.isnan(released[:, j]), j])
            steps = int(np.floor(self.width * len(column) + 1e-9))  # 0.29 of 100 is 29, whatever the floats say
            below, upto = (np.searchsorted(column, y[:, j], side) for side in ("left", "right"))
            if len(column):
                low, high = (column[np.clip(at, 0, len(column) - 1)] for at in (below - steps, upto - 1 + steps))
                inside[:, j] = (low <= x[:, j]) & (x[:, j] <= high)
        return inside

    def _in_distance(self, x: Numbers, y: Numbers, released: Numbers) -> Flags:
        """Return which values, each file standardised by itself, are nearer than the record's distance from the mean allows."""
        whole = [int((~np.isnan(one).any(axis=1)).sum()) for one in (x, released)]
        if min(whole) < 2 * (x.shape[1] + 1):
            raise NotApplicable(
                "too few records have all their values for a robust Mahalanobis distance. Leave out columns with many gaps."
            )
        before, after = _standardised(x, x), _standardised(y, released)
        _, scatter = kernels.moments.determinant_scatter(before)
        if np.linalg.matrix_rank(scatter) < len(scatter):
            raise NotApplicable(
                "half of the records lie in a plane, so there is no robust Mahalanobis distance. Leave out columns that others "
                "determine, or that have one value for most records."
            )
        z = kernels.moments.whitened(np.nan_to_num(before), np.zeros(len(scatter)), scatter)
        distance = np.sqrt(np.einsum("ij,ij->i", z, z))
        return np.asarray(np.abs(after - before) < self.width * _RMD * distance[:, None])

    def _crowded(self, x: Numbers, y: Numbers, released: Numbers) -> Flags:
        """Return which records have enough other released ones near their own; those with a missing value have not."""
        from scipy.spatial import cKDTree

        unit = _outlying(x)[0] if self.kind == "robust" else _sd(released)
        whole = ~np.isnan(y).any(axis=1)
        unit = np.where(unit > 0, unit, 1.0)
        points = y[whole] / unit
        everybody = released[~np.isnan(released).any(axis=1)] / unit
        crowded = np.zeros(len(y), bool)
        if len(everybody) > self.crowd and len(points):
            # the nearest of them is the record itself, or one that is the same
            limit = np.nextafter(self.near, np.inf)
            apart = np.asarray(cKDTree(everybody).query(points, k=[self.crowd + 1], distance_upper_bound=limit)[0])
            crowded[whole] = apart[:, 0] <= self.near
        return crowded


_RMD = 0.05
"""Of a robust Mahalanobis distance, the half width in standard deviations, before `width`: a constant of sdcMicro's."""


def _standardised(values: Numbers, by: Numbers) -> Numbers:
    """Return values less the mean of their column of another array, in its standard deviations."""
    unit = _sd(by)
    return np.asarray((values - np.nanmean(by, axis=0)) / np.where(unit > 0, unit, 1.0))


def _unmatched(outcome: Release, names: tuple[str, ...]) -> Numbers:
    """Return the released records that came from no original one, shape (s, p)."""
    _, right = outcome.matched
    if right is None:
        return np.empty((0, len(names)))
    others = np.delete(np.arange(len(outcome.masked)), right)
    return np.column_stack([outcome.masked.numbers(name)[others] for name in names])


def _sd(y: Numbers) -> Numbers:
    """Return the standard deviation (n - 1) of the values of each column that are there, shape (p,)."""
    columns = [column[~np.isnan(column)] for column in y.T]
    return np.array([float(np.std(c, ddof=1)) if len(c) > 1 else 0.0 for c in columns])


def _outlying(x: Numbers) -> tuple[Numbers, Numbers]:
    """Return robust standard deviations (p,), and how many of them each record lies from the centre (r,): Mahalanobis.

    A record with a missing value has the distance of its other values, as if the missing one lay in the centre.
    """
    whole = ~np.isnan(x).any(axis=1)
    if not whole.any():
        raise NotApplicable("no record has all of the columns, so there is no robust distance. Name fewer columns.")
    centre, scatter = kernels.moments.robust_location_scatter(x[whole])
    z = kernels.moments.whitened(np.where(np.isnan(x), centre, x), centre, scatter)
    return np.sqrt(np.maximum(np.diag(scatter), 0.0)), np.sqrt(np.einsum("ij,ij->i", z, z))
