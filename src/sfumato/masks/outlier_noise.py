"""Noise on outliers only; the other values are released unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, MatrixForm, check_numbers, learned, param
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, join_names
from sfumato.kernels.classes import classes
from sfumato.kernels.moments import MAD, covariance_root
from sfumato.lazy import special
from sfumato.masks.noise import NoiseLevel, check_spread, needed, spread_of
from sfumato.typing import Flags, Numbers, Whole


class Part(NamedTuple):
    """Columns that are judged together, with the root of the noise's covariance at λ² = 1."""

    names: tuple[str, ...]
    root: Numbers
    limits: tuple[float, float] | None
    """A value outside is an outlier (one column)."""
    centre: Numbers | None
    scatter: Numbers | None
    """Robust centre and covariance: a distance beyond the χ² quantile is an outlier (several columns)."""


class OutlierNoise(NoiseLevel):
    """Noise of level λ² on outliers only (Templ and Meindl 2008).

    `share` is the share of outliers that normal data would have. `method="mad"`: a value is an outlier if it is further from the
    median than Φ⁻¹(1 - share/2) times the (scaled) median absolute deviation. `"quantile"`: if it is beyond the quantiles share/2
    and 1 - share/2. `"mahalanobis"`: a record is an outlier if its robust distance, over its answered columns, is beyond the
    χ² quantile 1 - share; centre and covariance are robust (orthogonalised Gnanadesikan-Kettenring, reweighted; Maronna and
    Zamar 2002), and the record gets correlated noise on all of them.
    """

    method: Literal["mad", "quantile", "mahalanobis"] = param(
        default="mad",
        doc="what an outlier is: a value far from the median, a value beyond quantiles, or a record at a large robust distance",
    )
    share: float = param(
        default=0.025, doc="share of outliers that normal data would have", low=0, above=True, high=0.5, scale="log"
    )
    parts: Any = learned("columns", "method", "share", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn where outliers begin, and the covariance of the noise."""
        names = self.targets(data)
        if self.method == "mahalanobis":
            return self.learn(parts=[self._jointly(data, group) for group in by_level(data.schema, names)])
        _, variance = spread_of(data, names)
        return self.learn(parts=[self._alone(data, n, v) for n, v in zip(names, variance, strict=True)])

    def _alone(self, data: Microdata, name: str, variance: float) -> Part:
        x = data.numbers(name)
        x = x[~np.isnan(x)]
        if self.method == "quantile":
            # observed values, so that the same records are beyond them on every engine
            low, high = np.quantile(x, [self.share / 2, 1 - self.share / 2], method="inverted_cdf")
        else:
            middle = np.median(x)
            reach = special.ndtri(1 - self.share / 2) * MAD * np.median(np.abs(x - middle))
            if not reach > 0:
                raise DataError(
                    f"half of the values of '{name}' or more are equal, so the median absolute deviation is zero and does not "
                    "tell outliers. Use method = 'quantile'."
                )
            low, high = middle - reach, middle + reach
        return Part((name,), np.sqrt([[variance]]), (float(low), float(high)), None, None)

    def _jointly(self, data: Microdata, names: tuple[str, ...]) -> Part:
        moments = data.moments(names)
        check_spread(moments, data)
        batch = data.batch(list(names))
        x = np.column_stack([batch.numbers(name) for name in names])
        x = x[np.argsort(batch.ids, kind="stable")]  # sums depend on the order of their terms
        centre, scatter = kernels.moments.robust_location_scatter(x)
        return Part(names, covariance_root(moments.covariance), None, centre, scatter)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add noise to the outliers."""
        out = batch
        for part in self.parts:
            check_numbers(batch, part.names)
            found = cache(partial(self.outliers, batch, part))  # computed once, with the first column
            for j, name in enumerate(part.names):
                out = out.replace(name, partial(self._masked, batch, draws, part, j, found))
        return out

    def _masked(self, batch: Batch, draws: Draws, part: Part, j: int, found: Callable[[], Flags]) -> Numbers:
        return batch.numbers(part.names[j]) + self._noise(batch, draws, part, j, found())

    def _noise(self, batch: Batch, draws: Draws, part: Part, j: int, outliers: Flags) -> Numbers:
        """Return the noise of one column, shape (n,): zero for all but outliers."""
        noise = np.zeros(len(batch))
        for weight, name in zip(part.root[j, : j + 1], part.names, strict=False):
            noise += weight * draws.normals(batch.units(name), name)
        return np.where(outliers, float(self._level((part.names[j],))[0]) * noise, 0.0)

    def outliers(self, batch: Batch, part: Part) -> Flags:
        """Return which records are outliers in these columns, shape (n,)."""
        x = [batch.numbers(name) for name in part.names]
        if part.limits is not None:
            return (x[0] < part.limits[0]) | (x[0] > part.limits[1])
        squared, rank = robust_distances(x, part.centre, part.scatter)  # type: ignore[arg-type]
        return np.asarray((rank > 0) & (squared > special.chdtri(np.maximum(rank, 1), self.share)))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = X + C: a displacement of the outliers, hence one that depends on the data."""
        names = tuple(name for part in self.parts for name in part.names)
        batch = needed(data, names)
        columns = [
            self._noise(batch, draws, part, j, self.outliers(batch, part))
            for part in self.parts
            for j in range(len(part.names))
        ]
        c = [np.where(np.isnan(batch.numbers(n)), 0.0, noise) for n, noise in zip(names, columns, strict=True)]
        return MatrixForm(names, names, C=np.column_stack(c), random=("C",), depends=("C",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Count the outliers, and verify that no other value changed."""
        for part in self.parts:
            old, new = needed(before, part.names), needed(after, part.names)
            at = np.argsort(new.ids, kind="stable")[np.argsort(np.argsort(old.ids, kind="stable"), kind="stable")]
            flagged = self.outliers(old, part)
            for name in part.names:
                x, y = old.numbers(name)[~flagged], new.numbers(name)[at][~flagged]
                allowed = old.replace(name, partial(old.numbers, name)).numbers(name)[~flagged]  # as the schema has it
                if not np.array_equal(allowed, y, equal_nan=True):
                    raise DataError(f"values of '{name}' that are no outliers were changed; nothing is released.")
                if moved := int((allowed != x)[~np.isnan(x)].sum()):
                    says = (
                        f"{name}: {moved:,} values that are no outliers were made whole or moved to the schema's bounds"
                    )
                    yield Guarantee(step, says, "all records compared")
            known = ~np.all([np.isnan(old.numbers(name)) for name in part.names], axis=0)
            count, of = int((flagged & known).sum()), int(known.sum())
            got = f"{count:,} of {of:,} records are outliers and got noise"
            if not count:
                got = f"none of {of:,} records is an outlier, so none got noise"
            yield Guarantee(
                step,
                f"{join_names(part.names)}: {got}; the others are released as they are",
                "all records compared",
            )


def robust_distances(x: list[Numbers], centre: Numbers, scatter: Numbers) -> tuple[Numbers, Whole]:
    """Return each record's squared robust distance over its answered columns, and the rank of these columns; (n,) each.

    Directions without variation (columns that add up) do not count.
    """
    squared, rank = np.zeros(len(x[0])), np.zeros(len(x[0]), np.int64)
    label, sizes = classes([np.isnan(column).astype(np.int64) for column in x], len(x[0]))
    for pattern in range(len(sizes)):
        rows = np.flatnonzero(label == pattern)
        if have := [j for j, column in enumerate(x) if not np.isnan(column[rows[0]])]:
            some = np.column_stack([x[j][rows] for j in have])
            scores = kernels.moments.whitened(some, centre[have], scatter[np.ix_(have, have)])
            squared[rows], rank[rows] = (scores**2).sum(axis=1), scores.shape[1]
    return squared, rank
