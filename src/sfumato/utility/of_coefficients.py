"""What measures of an analyst's coefficients share: the formula, and its fits to the original and to every implicate."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sfumato.contract import DirectMeasure, NoiseModel, Release, Side, learned, param
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.analysis import Coefficients, Model, analysed, analysed_again
from sfumato.utility.compared import weighted_flag
from sfumato.utility.formula import named_in, parse


class OfCoefficients(DirectMeasure, abstract=True):
    """A measure of the coefficients of one formula, on the original and on the release."""

    side: ClassVar[Side] = Side.UTILITY

    formula: str = param(doc="R-style formula, or a column's name for its mean")
    model: Model = param(
        default="linear",
        doc="least squares, or a logistic regression of a response with two values",
        choices=("linear", "logistic"),
    )
    weighted: bool = weighted_flag()
    reference: Any = learned("formula", "model", "weighted", default=None)

    def validate(self) -> None:
        """Parse the formula."""
        if not isinstance(self.formula, str):
            raise ParameterError(f"formula of {self.name} must be a text such as 'salary ~ age', or a column's name.")
        parse(self.whole)

    @property
    def whole(self) -> str:
        """The formula; of a column alone, that of its mean."""
        return self.formula if "~" in self.formula else f"`{self.formula}` ~ 1"

    @property
    def variant(self) -> str:
        """The model, and whether weights are used."""
        return self.model + (", weighted" if self.weighted else "")

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the formula, and the survey weights if they are used."""
        weight = schema.one("weight") if self.weighted else None
        return (*named_in(self.whole), *(() if weight is None else (weight,)))

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Fit the formula to the original; where records are drawn anew, every replication has an original of its own."""
        found = analysed(data, self.whole, self.model, self.weighted)
        return self.learn(reference=found if model is None else None)

    def fits(self, outcome: Release) -> tuple[Coefficients, list[Coefficients]]:
        """Return the fit to the original, and in its terms those to the implicates."""
        before: Coefficients = self.reference or analysed(outcome.original, self.whole, self.model, self.weighted)
        return before, [
            analysed_again(data, outcome.original, before, self.whole, self.model, self.weighted)
            for data in outcome.implicates
        ]

    def titles(self, found: Coefficients) -> tuple[str, ...]:
        """Return what the coefficients are called; that of a column alone is its mean."""
        return found.titles if "~" in self.formula else (f"mean {self.formula}",)
