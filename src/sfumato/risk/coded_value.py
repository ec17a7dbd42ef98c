"""Risk of a deterministic mask such as top coding (R-U paper, section 3, last paragraph)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure, Need, NoiseModel, Release, Score, Side, Snooper, param, reciprocal
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata, check_numeric
from sfumato.risk.attribute import nobody_compared, typical_error
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class CodedValueRisk(Measure):
    """R = 1 / (τ̂ - τ)² per record, where τ̂ is the released value itself and nothing is random.

    A record whose value was not changed is known exactly: its risk is infinite, and the share of such records is given
    beside the number. For the file: the mean over the coded records of their R (``average="risk"``), or the reciprocal
    of their mean squared error (``average="error"``), which is less ruled by the records just beyond the threshold.
    """

    side: ClassVar[Side] = Side.RISK
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    column: str = param(doc="the coded column", columns="one")
    average: Literal["risk", "error"] = param(
        default="risk",
        doc="mean of the records' risks, or reciprocal of their mean squared error",
        choices=("risk", "error"),
    )

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"coded-value risk for {self.column}"

    @property
    def variant(self) -> str:
        """Which average."""
        return (
            "mean risk of coded records" if self.average == "risk" else "reciprocal mean squared error of coded records"
        )

    def words(self, value: float, schema: Schema) -> str:
        """Return the typical error of a snooper for a coded record."""
        if not np.isfinite(value):
            return "no value was coded: every value is known exactly"
        lead = "the coded records' mean risk is that of an error of"
        if self.average == "error":
            lead = "for a coded value a snooper is typically off by"
        return typical_error(lead, value, schema, self.column)

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the coded column."""
        return (self.column,)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Refuse a column that holds no numbers."""
        check_numeric(data, self.column)
        return self

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Return the mean of what is averaged, over the coded records, shape (1,)."""
        errors = self._errors(outcome)
        coded = errors[errors > 0]
        if not len(coded):
            return np.array([np.inf if self.average == "risk" else 0.0])
        return np.array([np.mean(reciprocal(coded) if self.average == "risk" else coded)])

    def value(self, means: Numbers) -> Numbers:
        """Return the mean risk, or the reciprocal of the mean squared error."""
        return means[..., 0] if self.average == "risk" else reciprocal(means[..., 0])

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release; the share of records known exactly is in the details."""
        score = super().score(outcome, snooper)
        errors = self._errors(outcome)
        known = errors[~np.isnan(errors)]
        coded = known[known > 0]
        exact = len(known) - len(coded)
        details = {"share known exactly": exact / len(known), "coded records": float(len(coded))}
        if len(coded):
            details["rms error of coded records"] = float(np.sqrt(coded.mean()))
        words = f"{score.words}; {exact:,} of {len(known):,} records are known exactly"
        return replace(
            score, words=words, details=details, find_records=lambda: outcome.per_original(reciprocal(errors))
        )

    def of_records(self, values: Numbers) -> float:
        """Return the measure of some coded records; their values are 1 / squared error, infinite for those not coded."""
        coded = values[np.isfinite(values)]
        if not len(coded):
            return float(np.inf)
        return float(coded.mean() if self.average == "risk" else 1 / reciprocal(coded).mean())

    def _errors(self, outcome: Release) -> Numbers:
        """Return each matched record's squared error, NaN where a value is missing, shape (r,)."""
        x, y = outcome.pair(self.column)
        errors = (y - x) ** 2
        if np.isnan(errors).all():
            raise NotApplicable(nobody_compared(self.column))
        return errors
