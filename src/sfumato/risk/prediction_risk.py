"""Prediction risk: how closely a person's value is predicted from the released file, without finding any record."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure, NoiseModel, Release, ReleaseModel, Score, Side, Snooper, param, reciprocal
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.microdata import Microdata, check_numeric
from sfumato.risk.attribute import typical_error
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class PredictionRisk(Measure):
    """R = 1 / E(τ̂ - τ)² of a snooper who fits a regression to the released file and applies it to a person he knows.

    He knows the columns `given` of the person, exactly, and predicts `column` by least squares; with none, by the mean. He
    needs no record of the person, so the measure applies to synthetic files. Of several implicates the predictions are
    averaged. Part of this is science: what the same fit to the original file achieves is in the score's details.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the column a snooper wants to know", columns="one")
    given: tuple[str, ...] = param(default=(), doc="columns of numbers that he knows of a person", columns="many")

    def validate(self) -> None:
        """Refuse to predict a column from itself."""
        if self.column in self.given:
            raise ParameterError(f"'{self.column}' cannot be predicted from itself. Take it out of given.")

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"prediction of {self.column}" + (f" from {', '.join(self.given)}" if self.given else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the typical error in the column's unit."""
        return typical_error("a prediction from the file is typically off by", value, schema, self.column)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the column and those it is predicted from."""
        return (self.column, *self.given)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Refuse columns that hold no numbers."""
        for name in (self.column, *self.given):
            check_numeric(data, name)
        return self

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean squared error of the predictions, shape (1,)."""
        return np.array([self._error(outcome.original, outcome.implicates)])

    def _error(self, original: Microdata, released: tuple[Microdata, ...]) -> float:
        x, z = self._read(original, "the original file")
        with np.errstate(over="ignore", invalid="ignore"):
            fits = [_fit(*self._read(data, "the released file")) for data in released]
            guess = np.mean([intercept + z @ slopes for intercept, slopes in fits], axis=0)
            error = float(np.mean((guess - x) ** 2))
        if not math.isfinite(error):
            raise DataError(
                f"values in {' or '.join((self.column, *self.given))} are too large to square. Rescale them."
            )
        return error

    def _read(self, data: Microdata, where: str) -> tuple[Numbers, Numbers]:
        """Return the values and what is known besides, of records that have all of them, shapes (n,) and (n, q)."""
        for name in (self.column, *self.given):
            if name not in data.engine.kinds or data.kind(name) is not Kind.NUMBER:
                raise NotApplicable(
                    f"'{name}' is no column of numbers in {where}, so no regression can be fitted with it."
                )
        batch = data.batch([self.column, *self.given])
        x, z = batch.numbers(self.column), [batch.numbers(name) for name in self.given]
        both = np.column_stack([x, *z])
        both = both[~np.isnan(both).any(axis=1)]
        if not len(both):
            raise DataError(f"no record of {where} has {' and '.join((self.column, *self.given))}.")
        if not np.isfinite(both).all():
            raise DataError(
                f"{where} holds infinite values in {' or '.join((self.column, *self.given))}. Set them to missing."
            )
        return both[:, 0], both[:, 1:]

    def value(self, means: Numbers) -> Numbers:
        """Return the reciprocal of the mean squared error."""
        return reciprocal(means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the details say how far off a fit to the original file is."""
        score = super().score(outcome, snooper)
        own = math.sqrt(self._error(outcome.original, (outcome.original,)))
        error = 1 / math.sqrt(score.value) if score.value > 0 else math.inf
        return replace(score, details={"rms error": error, "rms error of the original file's own fit": own})

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the risk under additive noise, of a prediction by the mean."""
        return self.by_formula(model, snooper)

    def by_formula(self, model: ReleaseModel, snooper: Snooper) -> float | None:
        """Return the risk under the model of any recipe, where the error of its fit has a formula."""
        if any(name not in model.names for name in (self.column, *self.given)):
            return None
        error = model.prediction_error(model.at(self.column), tuple(model.at(name) for name in self.given))
        return None if error is None else float(reciprocal(np.asarray(error)))


def _fit(x: Numbers, z: Numbers) -> tuple[float, Numbers]:
    """Return intercept and slopes of least squares, whatever the units; the least-norm ones where columns depend on others."""
    centre, middle = z.mean(axis=0), float(x.mean())
    scale = np.abs(z - centre).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    slopes = np.linalg.lstsq((z - centre) / scale, x - middle, rcond=1e-12)[0] / scale
    return float(middle - centre @ slopes), slopes
