"""Additive and multiplicative noise: one meaning of the noise level; correlated, independent, bounded; a given covariance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, check_values, learned, numeric_targets, param
from sfumato.data import Batch, Column, Microdata, Rows
from sfumato.errors import DataError, ParameterError, join_names, plural
from sfumato.kernels.moments import Moments, covariance_root, is_constant
from sfumato.lazy import optimize, special
from sfumato.masks.column_settings import (
    check_by_column,
    limited_columns,
    numeric_columns,
    of_column,
    replace_numbers,
    value_limit,
)
from sfumato.schema import Level, Schema
from sfumato.typing import Numbers


class NoiseLevel(Mask, abstract=True):
    """A mask whose noise has variance λ² times the variance of the column, in every method the same λ²."""

    columns: tuple[str, ...] | None = numeric_columns("mask")
    lambda2: float | Mapping[str, float] = param(
        default=0.15,
        doc="λ²: noise variance divided by the variance of the column",
        low=0,
        high=1e6,
        scale="log",
        per_column=True,
        usual=(0.01, 2),
    )

    @override
    def validate(self) -> None:
        check_by_column("lambda2", "level", self.lambda2, self.columns)

    def targets(self, data: Microdata) -> tuple[str, ...]:
        """Return the columns to mask, those of households first; each has a level."""
        names = numeric_targets(self.columns, data)
        check_by_column("lambda2", "level", self.lambda2, names)
        # household columns first: a triangular root then gives them noise that depends only on household draws
        return tuple(sorted(names, key=lambda n: data.schema[n].level is not Level.HOUSEHOLD))

    def _level(self, names: tuple[str, ...]) -> Numbers:
        """Return λ per column, shape (k,)."""
        if isinstance(self.lambda2, Mapping):
            if absent := [n for n in names if n not in self.lambda2]:
                raise ParameterError(f"lambda2 gives no level for {join_names(absent)}.")
            return np.sqrt([self.lambda2[n] for n in names])
        return np.full(len(names), np.sqrt(self.lambda2))


def spread_of(data: Microdata, names: Iterable[str]) -> tuple[Numbers, Numbers]:
    """Return the mean and the variance of each column over its answers, shape (k,) each; refuse constant columns."""
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
            f"{join_names(empty or moments.names)}: fewer than two records have {where}, so there is no variance to scale "
            "the noise by. Mask columns with more answers, or in separate steps."
        )
    variance = np.diag(moments.covariance)
    if wild := [n for n, v in zip(moments.names, variance, strict=True) if not np.isfinite(v)]:
        raise DataError(
            f"{join_names(wild)}: some values are infinite or too large to square, so there is no variance to scale the "
            "noise by. Set them to missing, or leave the column out of columns=."
        )
    constant = is_constant(moments.mean, variance)
    if still := [n for n, c in zip(moments.names, constant, strict=True) if c]:
        raise DataError(
            f"{join_names(still)} is constant, so noise in proportion to its variance would be no noise at all. "
            "Leave it out of columns=, or release it as it is."
        )


def derived(data: Microdata, names: tuple[str, ...], function: Callable[[Batch], list[Numbers]]) -> Microdata:
    """Return data with only these columns, with `function` applied to each piece where the data are stored."""
    schema = data.schema.keep(lambda a: a.name in names)
    plain = Schema(tuple(a.with_(missing=(), integer=False, bounds=(None, None), level=Level.PERSON) for a in schema))
    return data.transform(partial(_derived, names, function), plain)


def _derived(names: tuple[str, ...], function: Callable[[Batch], list[Numbers]], batch: Batch) -> Batch:
    made = dict(zip(names, function(batch), strict=True))
    return Batch(
        Rows(batch.ids, {n: Column.from_numbers(made[n]) for n in batch.rows.columns if n in made}), batch.schema
    )


def needed(data: Microdata, names: tuple[str, ...]) -> Batch:
    """Bring the columns into memory, with the household number that their draws may depend on."""
    household = data.schema.one("household")
    return data.batch(list(dict.fromkeys([*names, *([household] if household else [])])))


def moments_kept(step: str, before: Moments, after: Moments, over: str, schema: Schema, refit: bool) -> Guarantee:
    """Verify that means and covariances are those of the original, except for whole numbers and bounds in the schema.

    `refit`: the mask keeps moments only roughly with other records or draws than it was fitted with; otherwise this is refused.
    """
    what = f"{join_names(before.names)}: mean and {'covariance' if len(before.names) > 1 else 'variance'} over {over}"
    mean, covariance = apart(before, after)
    how = f"compared on the released data: means within {mean:.1g} standard deviations, covariances within {covariance:.1g}"
    if limited_columns(before.names, schema):
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
    """Return the largest difference of means, in standard deviations, and of covariances, in products of these."""
    scale = np.sqrt(np.diag(one.covariance))
    scale = np.where(scale > 0, scale, 1.0)
    means = np.abs(two.mean - one.mean) / scale
    products = np.abs(two.covariance - one.covariance) / np.outer(scale, scale)
    return float(means.max(initial=0)), float(products.max(initial=0))


# --- Additive noise, with one meaning of its level: the noise variance as a share of the variable's own variance.


class RootedNoise(Mask, abstract=True):
    """Y = X + ε, ε normal: a level for each column times a triangular root times the record's standard normal draws."""

    if TYPE_CHECKING:  # each kind of noise learns its own

        @property
        def names(self) -> Any: ...  # noqa: D102

        @property
        def root(self) -> Any: ...  # noqa: D102

    def _level(self, names: tuple[str, ...]) -> Numbers:
        """Return what the noise of each column is multiplied by, shape (k,)."""
        return np.ones(len(names))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Add the noise of each record."""
        noise = self.unit_noise(batch, draws)
        return replace_numbers(batch, self.names, partial(_add, batch), self._level(self.names), noise)

    def unit_noise(self, batch: Batch, draws: Draws) -> list[Numbers]:
        """Return each column's noise at level 1, shape (n,) each; it does not depend on the level.

        The order of the sum is the same for every record.
        """

        def make() -> list[Numbers]:
            standard = [draws.normals(batch.units(name), name) for name in self.names]
            noise = [np.zeros(len(batch)) for _ in self.names]
            for j, row in enumerate(self.root):
                for weight, z in zip(row[: j + 1], standard, strict=False):
                    noise[j] += weight * z
            return noise

        made: list[Numbers] = draws.remember((batch.ids, self.root), make)
        return made

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = X + C: a random displacement, zero where a value is missing."""
        batch = needed(data, self.names)
        noise = np.column_stack(self.unit_noise(batch, draws)) * self._level(self.names)
        gaps = np.column_stack([np.isnan(batch.numbers(name)) for name in self.names])
        return MatrixForm(self.names, self.names, C=np.where(gaps, 0.0, noise), random=("C",))

    def limits_stated(self, schema: Schema, step: str, how: str) -> list[Guarantee]:
        """Say that whole numbers and bounds of the schema change the noise."""
        says = "values are whole where the schema says so, and moved to its bounds where noise passes them"
        limited = limited_columns(self.names, schema)
        return [Guarantee(step, f"{join_names(limited)}: {says}", how)] if limited else []


class AdditiveNoise(NoiseLevel, RootedNoise, abstract=True):
    """Y = X + ε on chosen columns, ε normal with mean zero and variance λ² times the column's variance."""

    names: Any = learned("columns", default=None)
    root: Any = learned("columns", default=None)

    @abstractmethod
    def shape(self, covariance: Numbers) -> Numbers:
        """Return the covariance of the noise at λ² = 1, given the data's, shape (k, k)."""

    @abstractmethod
    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the groups of columns whose covariances are used: moments are over the records that have all of a group."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance of the columns and its triangular root."""
        names = self.targets(data)
        covariance = np.zeros((len(names), len(names)))
        for group in self.together(names):
            moments = data.moments(group)
            check_spread(moments, data)
            at = [names.index(n) for n in group]
            covariance[np.ix_(at, at)] = moments.covariance
        return self.learn(names=names, root=covariance_root(self.shape(covariance)))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say how bounds, rounding and linear dependence change the noise."""
        how = "by construction; analytic curves do not include this, empirical ones do"
        said = self.limits_stated(before.schema, step, how)
        if (np.diag(self.root) == 0).any():
            says = f"{join_names(self.names)}: the columns are linearly dependent, and their noise is too, so sums still add up"
            said.append(
                Guarantee(step, says, "the covariance is singular; its root has rank below the number of columns")
            )
        return tuple(said)

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers | None:
        """Return the covariance of the noise on these columns, zero for those not masked."""
        masked = self.columns if self.columns is not None else schema.names(role="confidential")
        inside = np.array([n in masked for n in names])
        level = np.zeros(len(names))
        level[inside] = self._level(tuple(n for n in names if n in masked))
        return self.shape(covariance) * np.outer(level, level)


def _add(batch: Batch, name: str, level: float, unit: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        scaled = np.multiply(unit, level)
        return np.add(scaled, batch.numbers(name), out=scaled)


class CorrelatedNoise(AdditiveNoise, abstract=True):
    """Additive noise with the correlations of the data: ε ~ N(0, λ²Σ); with levels by column, λᵢλⱼΣᵢⱼ."""

    def shape(self, covariance: Numbers) -> Numbers:
        """Return Σ itself."""
        return covariance

    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return all columns at once."""
        return [names]


class KimNoise(CorrelatedNoise):
    """Correlated additive noise: ε ~ N(0, λ²Σ) (Kim 1986; R-U paper, equation 3.1).

    The masked columns keep their correlations; the correlation with an unmasked column shrinks by the factor 1/√(1+λ²). With
    levels by column, ε has covariances λᵢλⱼΣᵢⱼ.
    """


class IndependentNoise(AdditiveNoise):
    """Independent additive noise: each column gets its own, with variance λ² times the column's variance.

    Correlations between masked columns shrink by the factor 1/(1+λ²).
    """

    def shape(self, covariance: Numbers) -> Numbers:
        """Return the diagonal of Σ."""
        return np.diag(np.diag(covariance))

    def together(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the columns one by one: each has the variance over all its answers."""
        return [(name,) for name in names]


# --- Normal noise with a given covariance matrix: M = X + C, C ~ N(0, Ω) (matrix-masking paper, section IV).


class StructuredNoise(RootedNoise):
    """Additive normal noise whose covariance matrix is given, in the units of the columns.

    Noise may differ between directions: a covariance of rank one moves a record along one line only, and every combination
    of columns that is constant along this line is released exactly. `best_mask` finds the covariance that hides a target
    and leaves most of the rest.
    """

    columns: tuple[str, ...] = param(doc="columns that get noise, in the order of the covariance", columns="many")
    covariance: Any = param(
        doc="variances and covariances of the noise: rows of numbers, a row for each column",
        of_data="nothing",  # covariance of the noise: analysts need it, and it is not a value of any record
    )
    names: Any = learned("columns", default=None)
    root: Any = learned("columns", "covariance", default=None)

    @override
    def validate(self) -> None:
        object.__setattr__(self, "covariance", _plain(self.covariance, len(self.columns)))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Put household columns first, so that their noise depends only on household draws, and take the triangular root."""
        names = numeric_targets(self.columns, data)
        check_values(data, names)
        order = tuple(sorted(names, key=lambda n: data.schema[n].level is not Level.HOUSEHOLD))
        at = [names.index(n) for n in order]
        return self.learn(names=order, root=covariance_root(np.array(self.covariance)[np.ix_(at, at)]))

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Numbers:
        """Return the covariance of the noise on these columns as it is drawn, zero for those not masked."""
        root = covariance_root(np.array(self.covariance))
        place = np.array([[float(n == c) for c in self.columns] for n in names])
        return np.asarray(place @ (root @ root.T) @ place.T)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say how many combinations of columns are released exactly, and how bounds and rounding change the noise."""
        names = join_names(self.columns)
        drawn = int((np.diag(self.root) > 0).sum())
        exact = len(self.columns) - drawn
        says = f"{names}: normal noise with the stated covariance is added" + (
            f"; {plural(exact, 'combination')} of these columns {'has' if exact == 1 else 'have'} none and may be computed exactly"
            if exact
            else ""
        )
        drawn_from = f"by construction; the rank of the covariance is {drawn} of {len(self.columns)}"
        return (Guarantee(step, says, drawn_from), *self.limits_stated(before.schema, step, "by construction"))


def _plain(given: Any, size: int) -> tuple[tuple[float, ...], ...]:
    """Return a covariance matrix as rows of numbers; refuse other input."""
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


class BoundedNoise(NoiseLevel):
    """Independent normal noise of level λ², conditioned on the masked value lying in [low, high] (truncated normal).

    Bounds are given here or in the schema; a column without any gets ordinary noise. Masked values are drawn from the normal
    distribution about the value, truncated to the bounds: they do not pile up there, as clipped noise does. Near a bound the
    noise points inwards, so the mean of values near it is biased inwards and the noise there is smaller than λ² says. A value that
    lies outside the bounds is first moved to the nearer one.
    """

    no_matrix: ClassVar[str] = "the noise of a value depends on how far the value is from its bounds"

    low: float | Mapping[str, float] | None = value_limit("lowest value; that of the schema if none")
    high: float | Mapping[str, float] | None = value_limit("highest value; that of the schema if none")
    names: Any = learned("columns", default=None)
    scale: Any = learned("columns", default=None)

    @override
    def validate(self) -> None:
        super().validate()
        check_range(self.low, self.high, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the standard deviation of each column; at least one column must have a bound."""
        names = self.targets(data)
        for field, setting in (("low", self.low), ("high", self.high)):
            check_by_column(field, "bound", setting, names)
        if all(bounds_of(self.low, self.high, data.schema, n) == (-math.inf, math.inf) for n in names):
            raise ParameterError(
                f"{join_names(names)}: no bounds are given, here (low=, high=) or in the schema. For noise without bounds use "
                "independent_noise."
            )
        return self.learn(names=names, scale=np.sqrt(spread_of(data, names)[1]))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw each value from the truncated normal distribution about it."""
        bounds = [bounds_of(self.low, self.high, batch.schema, name) for name in self.names]
        sigma = self._level(self.names) * self.scale
        return replace_numbers(batch, self.names, partial(_drawn, batch, draws), sigma, bounds)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that all released values are within bounds, and count the original values that were not."""
        said, bounded = [], []
        for name in self.names:
            low, high = bounds_of(self.low, self.high, before.schema, name)
            if (low, high) == (-math.inf, math.inf):
                continue
            bounded.append(name)
            y, x = after.numbers(name), before.numbers(name)
            if ((y < low) | (y > high)).any():
                raise DataError(f"some released values of '{name}' lie outside its bounds; nothing is released.")
            if outside := int(((x < low) | (x > high)).sum()):
                says = (
                    f"{name}: {outside:,} values lay outside the bounds and were moved to them before noise was drawn"
                )
                said.append(Guarantee(step, says, "original values counted"))
        says = f"{join_names(bounded)}: every released value is within bounds; noise near them points inwards, which biases means"
        return (Guarantee(step, says, "all released values checked"), *said)


def bounds_of(low: Any, high: Any, schema: Schema, name: str) -> tuple[float, float]:
    """Return the bounds of a column: those given, else the schema's, else infinite; whole for a column of whole numbers."""
    attribute = schema[name]
    given = [of_column(setting, name) for setting in (low, high)]
    found = [theirs if ours is None else ours for ours, theirs in zip(given, attribute.bounds, strict=True)]
    bottom = -math.inf if found[0] is None else float(found[0])
    top = math.inf if found[1] is None else float(found[1])
    if attribute.integer:
        bottom = math.ceil(bottom) if math.isfinite(bottom) else bottom
        top = math.floor(top) if math.isfinite(top) else top
    if bottom > top:
        raise ParameterError(f"the bounds of '{name}' leave no room: the lowest value is above the highest.")
    return bottom, top


def check_range(low: Any, high: Any, columns: tuple[str, ...] | None) -> None:
    """Refuse bounds by column that are not given for the masked columns, and a lowest value above the highest."""
    check_by_column("low", "bound", low, columns)
    check_by_column("high", "bound", high, columns)
    given = [setting for setting in (low, high) if isinstance(setting, Mapping)]
    names = {name for setting in given for name in setting} or {""}
    for name in names:
        bottom, top = (of_column(setting, name) for setting in (low, high))
        if bottom is not None and top is not None and bottom >= top:
            raise ParameterError("low must be below high: the lowest and the highest value that may be released.")


def _drawn(batch: Batch, draws: Draws, name: str, sigma: float, bounds: tuple[float, float]) -> Numbers:
    """Return x + σε given low <= x + σε <= high, by the inverse distribution function at one uniform number per unit."""
    low, high = bounds
    x = np.clip(batch.numbers(name), low, high)
    if sigma == 0:
        return x
    # a whole number represents all values rounded to it, so the intervals at the ends are as wide as the others
    margin = 0.5 if batch.schema[name].integer else 0.0
    below, above = special.ndtr((low - margin - x) / sigma), special.ndtr((high + margin - x) / sigma)
    drawn = x + sigma * special.ndtri(below + draws.uniforms(batch.units(name), name) * (above - below))
    return np.clip(np.round(drawn) if margin else drawn, low, high)


WIDEST = 1 / 3
"""Variance of the uniform distribution on (0, 2): no normal factor truncated to (0, 2) varies more."""


class MultiplicativeNoise(NoiseLevel):
    """Each value times a random factor: large values get large noise, signs and zeros stay (Kim and Winkler 2003).

    `scheme="logarithmic"`: log Y = log X + ε, ε ~ N(0, λ²Σ), Σ the covariance of the logarithms; positive values only. With
    `centre="mean"` Y is divided by the mean of the factors, so that means are unbiased; with "median" it is not.
    `scheme="lognormal"` and `"truncated_normal"` (the normal distribution about 1, truncated to (0, 2)): independent factors with
    mean 1, and with the variance that makes the noise variance λ² times that of the column, Var(e) = λ² Var(x) / E(x²).
    """

    no_matrix: ClassVar[str] = (
        "each value is multiplied by a factor of its own, and multiplication element by element is neither a product with a "
        "matrix nor a sum"
    )

    scheme: Literal["logarithmic", "lognormal", "truncated_normal"] = param(
        default="logarithmic",
        doc="normal noise on logarithms, or independent factors that are lognormal or normal between 0 and 2",
    )
    centre: Literal["mean", "median"] = param(default="mean", doc="whether the mean or the median of a factor is 1")
    names: Any = learned("columns", "scheme", default=None)
    facts: Any = learned("columns", "scheme", default=None)
    """The triangular root of the covariance of logarithms, shape (k, k); or Var(x) / E(x²), shape (k,)."""

    @override
    def validate(self) -> None:
        super().validate()
        if self.scheme == "lognormal" and self.centre == "median":
            raise ParameterError(
                "a lognormal factor with mean 1 has no median of 1. Use centre = 'mean', or scheme = 'logarithmic'."
            )

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the covariance of the logarithms, or the spread of each column relative to its size."""
        names = self.targets(data)
        mean, variance = spread_of(data, names)
        if self.scheme != "logarithmic":
            return self.learn(names=names, facts=variance / (variance + mean**2))
        for name in names:
            low = data.engine.reduce(partial(_not_positive, data.schema, name), [name])
            if low[0]:
                raise DataError(
                    f"{int(low[0]):,} values of '{name}' are zero or negative, and have no logarithm. Use scheme = 'lognormal', "
                    "which keeps zeros and signs, or additive noise."
                )
        moments = derived(data, names, partial(_logarithms, names)).moments(names)
        check_spread(moments, data)
        return self.learn(names=names, facts=covariance_root(moments.covariance))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Multiply each value by its factor."""
        return replace_numbers(batch, self.names, partial(self._masked, batch, draws))

    def _masked(self, batch: Batch, draws: Draws, name: str) -> Numbers:
        j = self.names.index(name)
        level, x = float(self._level(self.names)[j]), batch.numbers(name)
        if self.scheme == "logarithmic":
            noise = np.zeros(len(x))
            for weight, other in zip(self.facts[j, : j + 1], self.names, strict=False):
                noise += weight * draws.normals(batch.units(other), other)
            average = 0.5 * level**2 * float(self.facts[j] @ self.facts[j]) if self.centre == "mean" else 0.0
            return x * np.exp(level * noise - average)
        variance = level**2 * float(self.facts[j])
        if self.scheme == "lognormal":
            sigma = np.sqrt(np.log1p(variance))
            return np.asarray(x * np.exp(sigma * draws.normals(batch.units(name), name) - 0.5 * sigma**2))
        return x * truncated_factor(draws.uniforms(batch.units(name), name), variance, name)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that signs are kept, and count the zeros, which no factor changes."""
        said = []
        for name in self.names:
            x, y = (b.numbers(name)[np.argsort(b.ids)] for b in (before.batch([name]), after.batch([name])))
            if (x * y < 0).any():
                raise DataError(f"some values of '{name}' changed their sign; nothing is released.")
            if zeros := int((x == 0).sum()):
                says = f"{name}: {zeros:,} values are zero and stay zero, so they are released as they are"
                said.append(Guarantee(step, says, "zeros counted in the original"))
        right = "unbiased means" if self.centre == "mean" else "unbiased medians"
        says = f"{join_names(self.names)}: no value changes its sign, and factors have {self.centre} 1 ({right})"
        return (Guarantee(step, says, "signs compared on all records; the factors by construction"), *said)


def truncated_factor(u: Numbers, variance: float, name: str) -> Numbers:
    """Return factors with mean 1 and the given variance: normal about 1, between 0 and 2, at the quantiles u."""
    if variance >= 0.99 * WIDEST:
        raise DataError(
            f"lambda2 of '{name}' asks for more noise than a factor between 0 and 2 can make. Lower it, or use "
            "scheme = 'lognormal'."
        )
    if variance == 0:
        return np.ones(len(u))

    def excess(log_sigma: float) -> float:
        a = np.exp(-log_sigma)  # variance of a normal truncated at ±1, i.e. at ±a standard deviations
        density = np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi)
        return float(np.exp(2 * log_sigma) * (1 - 2 * a * density / (2 * special.ndtr(a) - 1)) - variance)

    sigma = float(np.exp(optimize.brentq(excess, 0.5 * np.log(variance) - 1e-6, 4.0, xtol=1e-14)))
    low = special.ndtr(-1 / sigma)
    return np.asarray(1 + sigma * special.ndtri(low + u * (1 - 2 * low)))


def _logarithms(names: tuple[str, ...], batch: Batch) -> list[Numbers]:
    return [np.log(batch.numbers(name)) for name in names]


def _not_positive(schema: Any, name: str, rows: Any) -> Numbers:
    return np.array([float((Batch(rows, schema).numbers(name) <= 0).sum())])
