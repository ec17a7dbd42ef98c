"""Multiplicative noise: each value is multiplied by its own random factor."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, learned, param
from sfumato.data import Batch, Microdata
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.kernels.moments import covariance_root
from sfumato.lazy import optimize, special
from sfumato.masks.column_settings import replace_numbers
from sfumato.masks.noise import NoiseLevel, check_spread, derived, spread_of
from sfumato.typing import Numbers

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
