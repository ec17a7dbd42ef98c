"""Normal noise with a covariance matrix of your own: M = X + C, C ~ N(0, Ω) (matrix-masking paper, section IV)."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import (
    Draws,
    Guarantee,
    Mask,
    MatrixForm,
    check_numbers,
    check_values,
    learned,
    numeric_targets,
    param,
)
from sfumato.errors import ParameterError, listing, some
from sfumato.kernels.moments import covariance_root
from sfumato.masks.noise import rooted_noise
from sfumato.masks.noise_level import needed
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level, Schema

Numbers = NDArray[np.float64]


class StructuredNoise(Mask):
    """Additive normal noise whose covariance matrix is given, in the units of the columns.

    Noise need not lie the same in all directions: a covariance of rank one moves a record along one line only, and every
    combination of columns that is constant along it is released exactly. `best_mask` finds the covariance that hides a target
    and leaves most of the rest.
    """

    columns: tuple[str, ...] = param(doc="columns that get noise, in the order of the covariance", columns="many")
    covariance: Any = param(
        doc="variances and covariances of the noise: rows of numbers, a row for each column",
        of_data="nothing",  # of the noise: analysts need it, and it is no record's value
    )
    order: Any = learned("columns", default=None)
    root: Any = learned("columns", "covariance", default=None)

    def validate(self) -> None:
        """Turn the covariance into plain numbers, and check that it is one."""
        super().validate()
        object.__setattr__(self, "covariance", _plain(self.covariance, len(self.columns)))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Put household columns first, so that their noise hangs on household draws alone, and take the triangular root."""
        names = numeric_targets(self.columns, data)
        check_values(data, names)
        order = tuple(sorted(names, key=lambda n: data.schema[n].level is not Level.HOUSEHOLD))
        at = [names.index(n) for n in order]
        return self.learn(order=order, root=covariance_root(np.array(self.covariance)[np.ix_(at, at)]))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise of each record: the root times its standard normal draws."""
        check_numbers(batch, self.order)
        out = batch
        for name, noise in zip(self.order, rooted_noise(batch, self.order, self.root, draws), strict=True):
            out = out.replace(name, partial(_sum, batch, name, noise))
        return out

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = X + C: a random displacement, zero where a value is missing."""
        fitted = self if self.is_fitted else self.fit(data, draws)
        batch = needed(data, fitted.order)
        gaps = np.column_stack([np.isnan(batch.numbers(name)) for name in fitted.order])
        noise = np.where(gaps, 0.0, np.column_stack(rooted_noise(batch, fitted.order, fitted.root, draws)))
        return MatrixForm(fitted.order, fitted.order, C=noise, random=("C",))

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers:
        """Return the covariance of the noise on these columns as it is drawn, zero for those not masked."""
        root = covariance_root(np.array(self.covariance))
        place = np.array([[float(n == c) for c in self.columns] for n in names])
        return np.asarray(place @ (root @ root.T) @ place.T)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say how many combinations of columns are released exactly, and what bounds and rounding do to the noise."""
        names = listing(self.columns)
        drawn = int((np.diag(self.root) > 0).sum())
        exact = len(self.columns) - drawn
        says = f"{names}: normal noise with the stated covariance is added" + (
            f"; {some(exact, 'combination')} of these columns {'has' if exact == 1 else 'have'} none and may be computed exactly"
            if exact
            else ""
        )
        said = [Guarantee(step, says, f"by construction; the rank of the covariance is {drawn} of {len(self.columns)}")]
        if kept := [n for n in self.columns if before.schema[n].integer or before.schema[n].bounds != (None, None)]:
            says = "values are whole where the schema says so, and moved to its bounds where noise passes them"
            said.append(Guarantee(step, f"{listing(kept)}: {says}", "by construction"))
        return tuple(said)


def _sum(batch: Batch, name: str, noise: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        return np.asarray(batch.numbers(name) + noise)


def _plain(given: Any, size: int) -> tuple[tuple[float, ...], ...]:
    """Return a covariance matrix as rows of numbers; refuse what is none."""
    try:
        matrix = np.array(given, np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(())
    matrix = matrix.reshape(1, 1) if matrix.ndim == 0 and matrix.size and size == 1 else matrix
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise ParameterError(
            f"covariance of structured_noise must be a matrix of {size} × {size} finite numbers: a row for each column."
        )
    variance = np.diag(matrix)
    sd = np.sqrt(np.maximum(variance, 0.0))
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    scaled = matrix * np.outer(unit, unit)
    lone = (matrix[sd == 0] != 0).any()
    if (variance < 0).any() or lone or np.abs(scaled - scaled.T).max() > 1e-9 or np.linalg.eigvalsh(scaled)[0] < -1e-9:
        raise ParameterError(
            "covariance of structured_noise must be symmetric and positive semi-definite, as the variances and covariances of "
            "random numbers are."
        )
    return tuple(map(tuple, ((matrix + matrix.T) / 2).tolist()))
