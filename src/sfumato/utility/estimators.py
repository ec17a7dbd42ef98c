"""What an analyst estimates from a file: means, combinations of means, slopes, or a function of one's own."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import NoiseModel, Parametric, ReleaseModel, param
from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.microdata import Microdata, check_numeric
from sfumato.schema import Schema

Numbers = NDArray[np.float64]
Target = Literal["population", "file"]
WEIGHTED = "whether the survey weights that the schema names are used"


class Estimator(Parametric, family="estimator", abstract=True):
    """A number computed from a file, the same way from the original and from the released one."""

    @abstractmethod
    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the estimate; `published` holds the recipe's parameters, for estimators that correct for them."""

    @abstractmethod
    def label(self) -> str:
        """Return a few words for a legend."""

    @abstractmethod
    def columns(self) -> tuple[str, ...] | None:
        """Return the columns it looks at, besides survey weights; None for all."""

    @property
    def is_weighted(self) -> bool:
        """Whether it uses the survey weights that the schema names."""
        return bool(getattr(self, "weighted", False))

    def unit(self, schema: Schema) -> str:
        """Return the unit of the estimate, in words."""
        return ""

    def check(self, data: Microdata) -> None:
        """Refuse data it cannot be computed from."""
        for name in self.columns() or ():
            check_numeric(data, name)

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return its mean squared error in files released under a normal model, where a formula is known."""
        return None

    def true_value(self, model: NoiseModel) -> float | None:
        """Return what it estimates under a normal model, where that is known."""
        return None


class MeanCombination(Estimator):
    """A linear combination of means: ``MeanCombination({"income": 1, "salary": -1})`` is the difference of two.

    Under additive noise its mean squared error is c'(Σ + Ω)c / n (R-U paper, section 5; ERRATA 0.8).
    """

    weights: Mapping[str, float] = param(doc="weight of each column's mean", columns="weights", low=-1e300, high=1e300)
    weighted: bool = param(default=False, doc=WEIGHTED)

    def validate(self) -> None:
        """At least one weight must differ from zero."""
        check_flag(self, "weighted")
        if not isinstance(self.weights, Mapping) or not any(self.weights.values()):
            raise ParameterError(
                "a combination of means needs a weight other than zero, such as {'income': 1, 'salary': -1}."
            )

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return Σ weight × mean, over the records that have all the columns."""
        batch = data.batch(list(self.weights))
        survey = survey_weights(data) if self.weighted else None
        means = (
            []
            if self.weighted
            else [weight * float(batch.numbers(name).mean()) for name, weight in self.weights.items() if len(batch)]
        )
        if means and not math.isnan(sum(means)):
            return sum(means)
        total = np.zeros(len(batch))  # some values are missing: over the records that have all the columns
        for name, weight in self.weights.items():
            total = total + weight * batch.numbers(name)
        return mean_of(total, self.label(), survey)

    def label(self) -> str:
        """Return the combination as text."""
        terms = [
            f"{'−' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):g} × '}mean {n}"
            for n, w in self.weights.items()
        ]
        text = " ".join(terms)
        return (text[2:] if text.startswith("+ ") else text) + (", weighted" if self.weighted else "")

    def columns(self) -> tuple[str, ...]:
        """Return the columns that are averaged."""
        return tuple(self.weights)

    def unit(self, schema: Schema) -> str:
        """Return the columns' common unit, if they have one."""
        units = {schema[n].unit for n in self.weights}
        return units.pop() if len(units) == 1 else ""

    def true_value(self, model: NoiseModel) -> float | None:
        """Return Σ weight × population mean."""
        return float(sum(weight * model.mean[model.at(name)] for name, weight in self.weights.items()))

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return its error: under additive noise, c'(Σ + Ω)c / n about the population's value, c'Ωc / n about the file's own."""
        if self.weighted or any(n not in model.names for n in self.weights):
            return None
        c = np.zeros(len(model.names))
        for name, weight in self.weights.items():
            c[model.at(name)] = weight
        return model.mean_error(c, target)


class Mean(Estimator):
    """The mean of a column."""

    column: str = param(doc="column to average", columns="one")
    weighted: bool = param(default=False, doc=WEIGHTED)

    def validate(self) -> None:
        """Check the flag."""
        check_flag(self, "weighted")

    def _combination(self) -> MeanCombination:
        return MeanCombination({self.column: 1.0}, self.weighted)

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the mean over the records that have the column."""
        return mean_of(data.numbers(self.column), self.label(), survey_weights(data) if self.weighted else None)

    def label(self) -> str:
        """Return "mean of column"."""
        return f"mean {self.column}" + (", weighted" if self.weighted else "")

    def columns(self) -> tuple[str, ...]:
        """Return the column."""
        return (self.column,)

    def unit(self, schema: Schema) -> str:
        """Return the column's unit."""
        return schema[self.column].unit

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the population mean."""
        return float(model.mean[model.at(self.column)])

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return (σ² + ω²) / n about the population's mean, ω² / n about the file's own."""
        return self._combination().mse(model, target)


class Slope(Estimator):
    """The least-squares slope of one column on another (R-U paper, equation 4.1).

    With `corrected_by="noise.lambda2"` the slope is multiplied by 1 + λ², which removes the attenuation when only the
    independent variable is masked (the estimator β* of section 5); the analyst must then be told λ².
    """

    y: str = param(doc="dependent variable", columns="one")
    x: str = param(doc="independent variable", columns="one")
    corrected_by: str | None = param(
        default=None, doc="published parameter λ² to correct the attenuation with, as step.parameter"
    )
    weighted: bool = param(default=False, doc=WEIGHTED)

    def validate(self) -> None:
        """The two columns must differ."""
        check_flag(self, "weighted")
        if self.y == self.x:
            raise ParameterError("a slope needs two different columns.")

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the slope over the records that have both columns."""
        batch = data.batch([self.x, self.y])
        x, y = batch.numbers(self.x), batch.numbers(self.y)
        if self.weighted:
            count, squares, products = _weighted_sums(x, y, survey_weights(data))
        else:
            from sfumato.kernels.linear import regression_sums  # brings the compiler

            count, squares, products = regression_sums(x, y)
        if count <= 3:
            raise DataError(
                f"a slope of '{self.y}' on '{self.x}' needs more than 3 records that have both; its variance is infinite "
                f"for 3 or fewer. There are {count}."
            )
        if squares == 0:
            raise DataError(f"'{self.x}' is constant, so it has no slope. Choose another independent variable.")
        return self._correction(published) * products / squares

    def _correction(self, published: Mapping[str, Any]) -> float:
        if self.corrected_by is None:
            return 1.0
        if published and self.corrected_by not in published:
            raise ParameterError(unknown_name("parameter", self.corrected_by, published, "what is published"))
        level = published.get(self.corrected_by, 0.0)  # nothing is published of an unmasked file
        if isinstance(level, Mapping):
            level = level.get(self.x, 0.0)
        return 1.0 + float(level)

    def label(self) -> str:
        """Return "slope of y on x"."""
        extra = (", corrected" if self.corrected_by else "") + (", weighted" if self.weighted else "")
        return f"slope of {self.y} on {self.x}{extra}"

    def columns(self) -> tuple[str, ...]:
        """Return both columns."""
        return (self.x, self.y)

    def true_value(self, model: NoiseModel) -> float | None:
        """Return the population slope."""
        i, j = model.at(self.x), model.at(self.y)
        self._check_varies(float(model.covariance[i, i]))
        return float(model.covariance[i, j] / model.covariance[i, i])

    def _check_varies(self, variance: float) -> None:
        if not variance > 0:
            raise DataError(f"'{self.x}' is constant in the model, so it has no slope.")

    def mse(self, model: ReleaseModel, target: Target) -> float | None:
        """Return bias² + variance about the population's slope; see `NoiseModel.slope_error`."""
        if self.weighted or self.x not in model.names or self.y not in model.names:
            return None
        i, j = model.at(self.x), model.at(self.y)
        if model.n > 3:
            self._check_varies(float(model.covariance[i, i]))
        return model.slope_error(i, j, self._correction(model.published), target)


class Function(Estimator):
    """A function of one's own: takes a frame, returns a number. It cannot be written as TOML.

    The frame is of the kind that came in; in a map of data that live in DuckDB or Spark, it is an Arrow table.
    """

    function: Callable[[Any], float] = param(doc="a Python function from a frame to a number")
    title: str = param(default="", doc="a few words for a legend")

    def validate(self) -> None:
        """The function must be callable."""
        if not callable(self.function):
            raise ParameterError("the estimator must be a Python function from a frame to a number.")

    def estimate(self, data: Microdata, published: Mapping[str, Any]) -> float:
        """Return the function's value; its own errors are not shown, since they may quote data."""
        try:
            value = float(self.function(data.to_native()))
            reason = "returned NaN" if math.isnan(value) else ""
        except Exception as error:  # its text may quote data, so it must not even be the context of ours
            value, reason = math.nan, f"failed with {type(error).__name__}"
        if reason:
            raise DataError(
                f"the estimator '{self.label()}' {reason}. Try it on the original data; it must take a frame and return "
                "one number."
            )
        return value

    def label(self) -> str:
        """Return the title, or the function's name."""
        return self.title or getattr(self.function, "__name__", "function")

    def columns(self) -> None:
        """All columns: one cannot know what the function looks at."""
        return

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a Python function cannot be written as TOML."""
        raise ParameterError(
            "a Python function cannot be written to a file; use a formula such as 'salary ~ age' instead."
        )


def survey_weights(data: Microdata) -> Numbers:
    """Return the survey weights that the schema names, shape (n,); refuse missing, negative or all-zero ones."""
    name = data.schema.one("weight")
    if name is None:
        raise DataError("a weighted estimate needs survey weights; give a column the role 'weight' in the schema.")
    weights = data.numbers(name)
    if np.isnan(weights).any() or (weights < 0).any() or np.isinf(weights).any():
        raise DataError(
            f"some survey weights in '{name}' are missing, negative or infinite. Every record needs one of at least 0."
        )
    if len(weights) and not weights.any():
        raise DataError(f"all survey weights in '{name}' are zero, so no record counts.")
    return weights


def check_flag(estimator: Estimator, name: str) -> None:
    """Refuse a flag that is neither true nor false."""
    if not isinstance(getattr(estimator, name), bool):
        raise ParameterError(f"{name} of {estimator.name} must be true or false.")


def _weighted_sums(x: Numbers, y: Numbers, weights: Numbers) -> tuple[int, float, float]:
    """Return the number of pairs that count, and the weighted sums of squares and products about the weighted means."""
    both = ~(np.isnan(x) | np.isnan(y)) & (weights > 0)
    x, y, w = x[both], y[both], weights[both]
    if not len(x):
        return 0, 0.0, 0.0
    a, b = x - np.average(x, weights=w), y - np.average(y, weights=w)
    return len(x), float((w * a * a).sum()), float((w * a * b).sum())


def mean_of(values: Numbers, what: str, weights: Numbers | None = None) -> float:
    """Return the mean of the values that are not missing, with survey weights if given."""
    if weights is not None:
        counts = ~np.isnan(values) & (weights > 0)
        if not counts.any():
            raise DataError(f"{what}: no record has a value.")
        return float(np.average(values[counts], weights=weights[counts]))
    total = float(values.mean()) if len(values) else math.nan
    if not math.isnan(total):
        return total
    known = values[~np.isnan(values)]
    if not len(known):
        raise DataError(f"{what}: no record has a value.")
    return float(known.mean())


def as_estimator(given: Any) -> Estimator:
    """Return an estimator from a formula ("salary ~ age"), a column's name (its mean), a function, or an estimator."""
    if isinstance(given, Estimator):
        return given
    if isinstance(given, str) and "~" in given:
        from sfumato.utility.formula import Formula

        return Formula(given)
    if isinstance(given, str):
        return Mean(given)
    if isinstance(given, Mapping):
        return MeanCombination(given)
    if callable(given):
        return Function(given)
    raise ParameterError(
        "an estimator is a formula such as 'salary ~ age + C(region)', a column's name (for its mean), weights of means "
        "such as {'income': 1, 'salary': -1}, or a Python function from a frame to a number."
    )
