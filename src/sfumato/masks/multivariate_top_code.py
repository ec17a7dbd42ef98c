"""Top coding of several columns at once: records far out jointly are pulled back to the edge of an ellipsoid."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, check_numbers, learned, numeric_targets, param
from sfumato.errors import DataError, listing
from sfumato.kernels.classes import classes
from sfumato.kernels.moments import complete, is_constant
from sfumato.kernels.robust import robust_location_scatter, whitened
from sfumato.microdata import Batch, Microdata, by_level

Numbers = NDArray[np.float64]

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
    Meindl 2008, on outliers in disclosure control). A record without some of the columns is judged by those it has.
    Columns that describe households are coded apart from those that describe persons.
    """

    no_matrix: ClassVar[str] = "how far a record is pulled back hangs on the record"

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to code together; all confidential numbers if none", columns="many"
    )
    quantile: float = param(
        default=0.99, doc="share of normal records within the ellipsoid", low=0.5, high=0.999999, above=True
    )
    estimate: Literal["robust", "classical"] = param(
        default="robust",
        doc="centre and spread that outliers do not move, or mean and covariance",
        choices=("robust", "classical"),
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
                f"no record has a value in all of {listing(names)}, so there is no centre to pull records to. Leave out "
                "the columns that are mostly missing."
            )
        variances = np.diag(moments.covariance)
        if not np.isfinite(moments.covariance).all():
            raise DataError(
                f"one of {listing(names)} holds infinite values, or values too large to square. Set them to missing."
            )
        if is_constant(moments.mean, variances).all():
            raise DataError(
                f"{listing(names)}: there is no spread, so no record is far out and nothing can be coded. Choose other columns."
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

    def _edge(self, ellipsoid: Ellipsoid, known: NDArray[np.bool_]) -> tuple[Numbers, Numbers, float]:
        """Return centre (p,), the axes that make lengths of distances (p, rank), and the largest squared distance."""
        from scipy.stats import chi2

        centre, scatter = ellipsoid.centre[known], ellipsoid.scatter[np.ix_(known, known)]
        axes = whitened(np.eye(len(centre)), np.zeros(len(centre)), scatter)
        return centre, axes, float(chi2.ppf(self.quantile, axes.shape[1])) if axes.shape[1] else np.inf

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that no released record lies outside, and count those that did."""
        said = []
        for ellipsoid in self.ellipsoids:
            outside = []
            for data in (before, after):
                x = np.column_stack([data.numbers(n) for n in ellipsoid.names])
                edges = [(x[np.ix_(rows, known)], *self._edge(ellipsoid, known)) for rows, known in _patterns(x)]
                outside.append(sum(int((_squared(y, c, a) > limit * _SLACK**2).sum()) for y, c, a, limit in edges))
            if outside[1]:
                raise DataError(
                    f"{outside[1]:,} records could not be pulled back within the ellipsoid of {listing(ellipsoid.names)}; "
                    "nothing is released."
                )
            says = f"{listing(ellipsoid.names)}: no record lies beyond the {self.quantile:g} quantile of χ² from the centre"
            said.append(Guarantee(step, f"{says}; {outside[0]:,} did", "all distances computed on the released values"))
        return tuple(said)


def _patterns(x: Numbers) -> list[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Return the rows that have the same columns answered, with those columns; rows without any answer are left out."""
    label, sizes = classes([np.isnan(column).astype(np.int64) for column in x.T], len(x))
    blocks = np.split(np.argsort(label, kind="stable"), np.cumsum(sizes)[:-1]) if len(sizes) else []
    return [(rows, known) for rows in blocks if (known := ~np.isnan(x[rows[0]])).any()]


def _squared(x: Numbers, centre: Numbers, axes: Numbers) -> Numbers:
    """Return squared distances, shape (n,); summed by hand, so that a record's own does not hang on its neighbours."""
    total = np.zeros(len(x))
    for axis in axes.T:
        z = np.zeros(len(x))
        for weight, column, middle in zip(axis, x.T, centre, strict=True):
            z += weight * (column - middle)
        total += z * z
    return total


def _pulled(x: Numbers, centre: Numbers, axes: Numbers, limit: float, whole: NDArray[np.bool_]) -> Numbers:
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
        out, share = out[left], share[left] * 0.98  # rounding to whole numbers went outside again
    return new
