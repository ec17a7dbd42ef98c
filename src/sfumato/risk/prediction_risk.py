"""Prediction risk and RAPID: how closely a model fitted to the release predicts a person's value."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.attacks.prediction import MODELS, Model, PredictByModel, Predicted
from sfumato.charts.captions import counted
from sfumato.contract import Measure, NoiseModel, Release, ReleaseModel, Score, Side, Snooper, param, reciprocal
from sfumato.data import Kind
from sfumato.data.microdata import Microdata, check_numeric
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.risk.attribute_risk import typical_error
from sfumato.risk.attribution import (
    AGAINST,
    Against,
    Excess,
    What,
    against_rule,
    holdout_of,
    own_file,
    seed_rule,
    share,
    snoopers_draws,
    what_rule,
)
from sfumato.risk.keys import RiskMeasure
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers


class PredictionRisk(Measure):
    """R = 1 / E(τ̂ - τ)² of a snooper who fits a regression to the released file and applies it to a person he knows.

    He knows the columns `given` of the person, exactly, and predicts `column` by least squares; with none, by the mean. He
    needs no record of the person, so the measure applies to synthetic files. Of several implicates the predictions are
    averaged. Part of this is science: what the same fit to the original file achieves is in the score's details.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the column a snooper wants to know", columns="one")
    given: tuple[str, ...] = param(default=(), doc="columns of numbers that he knows of a person", columns="many")

    @override
    def validate(self) -> None:
        if self.column in self.given:
            raise ParameterError(f"'{self.column}' cannot be predicted from itself. Take it out of given.")

    @override
    def label(self) -> str:
        return f"prediction of {self.column}" + (f" from {', '.join(self.given)}" if self.given else "")

    @override
    def words(self, value: float, schema: Schema) -> str:
        return typical_error("a prediction from the file is typically off by", value, schema, self.column)

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
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

    @override
    def value(self, means: Numbers) -> Numbers:
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


Error = Literal["symmetric", "relative", "sd"]
ERRORS = {
    "symmetric": "of the mean of the true and the predicted size",
    "relative": "of the true value",
    "sd": "of a standard deviation",
}
"""What a tolerance is a share of, in words."""


class RAPID(RiskMeasure):
    """The risk of attribute prediction-induced disclosure: the share of people whose value a model predicts too well.

    A snooper fits a model to the release and predicts the confidential value of every original record from its keys. A number
    is at risk when the error is below `tolerance`. A category is at risk when the probability g that the model gives to the
    true value gains more than `gain` on the value's share b in the original: (g - b) / (1 - b) > gain. Good models predict
    strangers too, so compare with a holdout where there is one. Per record: g, or for a number 1 if at risk, else 0.
    Source: Templ, Thees and Müller 2026.
    """

    title: ClassVar[str] = "RAPID of {self.column}"

    column: str = param(doc="the confidential column a snooper wants to know", columns="one", holds="anything")
    model: Model = param(default="forest", doc="what the snooper fits to the release", choices=tuple(MODELS))
    gain: float = param(
        default=0.3, doc="normalised gain in probability from which a category is at risk", low=0, high=1
    )
    tolerance: float = param(default=0.1, doc="error below which a number is at risk", low=0, above=True)
    error: Error = param(
        default="symmetric",
        doc="what the tolerance is a share of: the mean of true and predicted size, the true value, a standard deviation",
    )
    against: Against = against_rule()
    what: What = what_rule()
    seed: int = seed_rule()

    @override
    @property
    def variant(self) -> str:
        beyond = AGAINST[self.against] if self.what == "excess" else "plain rate"
        return f"{MODELS[self.model]}; {beyond}; a missing key is a value of its own"

    @override
    def words(self, value: float, schema: Schema) -> str:
        beyond = "" if self.what == "rate" else ", beyond the baseline"
        return f"a model predicts {self.column} too well for {share(value)} of the records{beyond}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit, predict, count and compare."""
        attack = PredictByModel(column=self.column, model=self.model, tolerance=self.tolerance)
        holdout = holdout_of(outcome, self.label()) if self.against == "holdout" else None
        draws = snoopers_draws(self.seed)
        found = attack.predicted(outcome, snooper, draws)
        if not len(found.truth):
            raise NotApplicable(
                f"no original record has a value of '{self.column}', so that there is nothing to disclose."
            )
        shares = _Shares(found)
        at_risk = self._at_risk(found, shares)
        rate, n = float(at_risk.mean()), len(at_risk)
        if holdout is None:
            excess = Excess(rate, n, float(self._by_column(found, shares).mean()))
        else:
            others = attack.predicted(outcome, snooper, draws, holdout)
            if not len(others.truth):
                raise NotApplicable(
                    f"no record of the holdout has a value of '{self.column}', so that nothing can be compared."
                )
            excess = Excess(rate, n, float(self._at_risk(others, shares).mean()), len(others.truth))
        value, interval = excess.choose(self.what)
        how = (
            f"within {self.tolerance:.3g} {ERRORS[self.error]}"
            if found.values is None
            else f"with a gain of more than {self.gain:g} on its share"
        )
        where = "from the column alone" if holdout is None else "for people who are not in the file"
        right = found.guess == found.truth
        details = {"rms error": float(np.sqrt(((found.guess - found.truth) ** 2).mean()))}
        if found.values is not None:
            details = {"share predicted rightly": float(right.mean())}
        return self.result(
            value,
            f"with {MODELS[self.model]} a snooper predicts {self.column} {how} for {int(at_risk.sum()):,} of "
            f"{counted(n, 'record')}; {where} it is {share(excess.baseline)}{own_file(snooper)}",
            interval=interval,
            details={**excess.details, "records at risk": float(at_risk.sum()), **details},
            find_records=lambda: self._per_record(found, at_risk),
        )

    def _at_risk(self, found: Predicted, shares: _Shares) -> Flags:
        if found.values is None:
            return self._errors(found.guess, found.truth, shares) < self.tolerance
        return shares.gains(found) > self.gain

    def _by_column(self, found: Predicted, shares: _Shares) -> Flags:
        """Whether each target is at risk from somebody who knows the column's distribution alone: he gains nothing on it."""
        if found.values is not None:
            return np.zeros(len(found.truth), bool)
        return self._errors(np.full(len(found.truth), np.median(found.truth)), found.truth, shares) < self.tolerance

    def _errors(self, guess: Numbers, truth: Numbers, shares: _Shares) -> Numbers:
        size = {
            "symmetric": (np.abs(truth) + np.abs(guess)) / 2,
            "relative": np.abs(truth),
            "sd": np.full(len(truth), shares.sd),
        }[self.error]
        off = np.abs(guess - truth)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(off == 0, 0.0, off / size)  # what is known exactly has no error, of whatever size

    @staticmethod
    def _per_record(found: Predicted, at_risk: Flags) -> Numbers:
        spread = np.full(len(found.known), np.nan)
        spread[found.known] = at_risk if found.probability is None else found.probability
        return spread


class _Shares:
    """How the column is distributed in the original: the share of each value, or the standard deviation."""

    def __init__(self, original: Predicted) -> None:
        self.sd = float(original.truth.std()) if original.values is None else 0.0
        counts = np.zeros(0) if original.values is None else np.bincount(original.truth.astype(np.int64))
        # by value, since others' codes may stand for other values
        self.of = dict(zip(original.values or (), counts / max(counts.sum(), 1), strict=False))

    def gains(self, found: Predicted) -> Numbers:
        """Return (g - b) / (1 - b), shape (m,); 0 where everybody has the value."""
        assert found.probability is not None  # noqa: S101 - categories have one
        values = found.values or ()
        # codes past the values are of values that the release does not have, so that g is 0 whatever b is
        table = np.array([self.of.get(v, 0.0) for v in values] + [0.0])
        b = table[np.minimum(found.truth.astype(np.int64), len(values))]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(b >= 1, 0.0, (found.probability - b) / (1 - b))
