"""What all noise methods share: one meaning of the noise level, the variance it is a share of, and kept moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Guarantee, Mask, numeric_targets, param
from sfumato.engines import Column, Rows
from sfumato.errors import DataError, ParameterError, listing
from sfumato.kernels.moments import Moments, is_constant
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level, Schema

Numbers = NDArray[np.float64]


class NoiseLevel(Mask, abstract=True):
    """A mask whose noise has variance λ² times the variance of the column, in every method the same λ²."""

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to mask; all confidential numbers if none", columns="many"
    )
    lambda2: float | Mapping[str, float] = param(
        default=0.15,
        doc="λ²: noise variance divided by the variance of the column",
        low=0,
        high=1e6,
        scale="log",
        per_column=True,
        usual=(0.01, 2),
    )

    def validate(self) -> None:
        """Check that a level is given for each column, where levels are given by column."""
        super().validate()
        if self.columns is not None:
            check_by_column("lambda2", "level", self.lambda2, self.columns)

    def targets(self, data: Microdata) -> tuple[str, ...]:
        """Return the columns to mask, those of households first; each has a level."""
        names = numeric_targets(self.columns, data)
        check_by_column("lambda2", "level", self.lambda2, names)
        # household columns first: a triangular root then gives them noise that hangs on household draws alone
        return tuple(sorted(names, key=lambda n: data.schema[n].level is not Level.HOUSEHOLD))

    def _level(self, names: tuple[str, ...]) -> Numbers:
        """Return λ per column, shape (k,)."""
        if isinstance(self.lambda2, Mapping):
            if absent := [n for n in names if n not in self.lambda2]:
                raise ParameterError(f"lambda2 gives no level for {listing(absent)}.")
            return np.sqrt([self.lambda2[n] for n in names])
        return np.full(len(names), np.sqrt(self.lambda2))


def check_by_column(field: str, noun: str, setting: object, columns: tuple[str, ...]) -> None:
    """Refuse a setting by column that leaves out a masked column, or names one that is not masked."""
    if not isinstance(setting, Mapping):
        return
    if absent := [c for c in columns if c not in setting]:
        raise ParameterError(f"{field} gives no {noun} for {listing(absent)}.")
    if extra := [c for c in setting if c not in columns]:
        raise ParameterError(f"{field} names columns that are not masked: {listing(extra)}.")


def spread_of(data: Microdata, names: Iterable[str]) -> tuple[Numbers, Numbers]:
    """Return the mean and the variance of each column over its own answers, shape (k,) each; refuse what has no spread."""
    found = [data.moments((name,)) for name in names]
    for moments in found:
        check_spread(moments, data)
    return np.array([m.mean[0] for m in found]), np.array([m.covariance[0, 0] for m in found])


def check_spread(moments: Moments, data: Microdata) -> None:
    """Refuse columns that have no variance to scale the noise by."""
    if moments.count < 2:
        empty = [name for name in moments.names if data.moments((name,)).count < 2]
        where = "all of them" if not empty and len(moments.names) > 1 else "an answer there"
        raise DataError(
            f"{listing(empty or moments.names)}: fewer than two records have {where}, so there is no variance to scale "
            "the noise by. Mask columns with more answers, or in separate steps."
        )
    variance = np.diag(moments.covariance)
    if wild := [n for n, v in zip(moments.names, variance, strict=True) if not np.isfinite(v)]:
        raise DataError(
            f"{listing(wild)}: some values are infinite or too large to square, so there is no variance to scale the "
            "noise by. Set them to missing, or leave the column out of columns=."
        )
    constant = is_constant(moments.mean, variance)
    if still := [n for n, c in zip(moments.names, constant, strict=True) if c]:
        raise DataError(
            f"{listing(still)} is constant, so noise in proportion to its variance would be no noise at all. "
            "Leave it out of columns=, or release it as it is."
        )


def derived(data: Microdata, names: tuple[str, ...], function: Callable[[Batch], list[Numbers]]) -> Microdata:
    """Return data with these columns only, holding what `function` makes of each piece, where the data live."""
    schema = data.schema.keep(lambda a: a.name in names)
    plain = Schema(tuple(a.with_(missing=(), integer=False, bounds=(None, None), level=Level.PERSON) for a in schema))
    return data.transform(partial(_derived, names, function), plain)


def _derived(names: tuple[str, ...], function: Callable[[Batch], list[Numbers]], batch: Batch) -> Batch:
    made = dict(zip(names, function(batch), strict=True))
    return Batch(
        Rows(batch.ids, {n: Column.from_numbers(made[n]) for n in batch.rows.columns if n in made}), batch.schema
    )


def needed(data: Microdata, names: tuple[str, ...]) -> Batch:
    """Bring the columns into memory, with the household number that their draws may hang on."""
    household = data.schema.one("household")
    return data.batch(list(dict.fromkeys([*names, *([household] if household else [])])))


def moments_kept(step: str, before: Moments, after: Moments, over: str, schema: Schema, refit: bool) -> Guarantee:
    """Verify that means and covariances are those of the original; up to whole numbers and bounds, where there are any.

    `refit`: the mask was fitted to certain records and draws, and keeps moments only roughly with others; else that is refused.
    """
    what = f"{listing(before.names)}: mean and {'covariance' if len(before.names) > 1 else 'variance'} over {over}"
    mean, covariance = apart(before, after)
    how = f"compared on the released data: means within {mean:.1g} standard deviations, covariances within {covariance:.1g}"
    if any(schema[n].integer or schema[n].bounds != (None, None) for n in before.names):
        says = "are those of the original, up to values made whole or moved to the bounds of the schema"
        return Guarantee(step, f"{what} {says}", how)
    scale = np.sqrt(np.diag(before.covariance))
    offset = float(np.max(np.abs(before.mean) / np.where(scale > 0, scale, 1), initial=0))
    if max(mean, covariance) <= 1e-8 + 1e-12 * offset:
        return Guarantee(step, f"{what} are exactly those of the original", how)
    if not refit:
        raise DataError(f"{what} are not those of the original; nothing is released.")
    says = (
        "are near those of the original but not equal, since the mask was fitted to other records or with another seed"
    )
    return Guarantee(step, f"{what} {says}", how)


def apart(one: Moments, two: Moments) -> tuple[float, float]:
    """Return how far means are apart, in standard deviations, and covariances, in products of them; the largest of each."""
    scale = np.sqrt(np.diag(one.covariance))
    scale = np.where(scale > 0, scale, 1.0)
    means = np.abs(two.mean - one.mean) / scale
    products = np.abs(two.covariance - one.covariance) / np.outer(scale, scale)
    return float(means.max(initial=0)), float(products.max(initial=0))
