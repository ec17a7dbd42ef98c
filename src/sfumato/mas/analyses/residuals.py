"""Pictures of residuals: synthetic points for linear models, noisy means in bins for logistic ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.mas.analyses.regression import OLS, Logistic, Multinomial
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.design import Design, Factor, title
from sfumato.mas.models.logit import LevelsAnalysis, fitted_levels
from sfumato.mas.models.model import FormulaAnalysis
from sfumato.mas.models.residual_counts import ResidualAxis, levels_findings, linear_findings
from sfumato.mas.question import Findings, Question
from sfumato.mas.residual_pictures import BinnedPicture, ResidualPicture
from sfumato.mas.variable import Variable

if TYPE_CHECKING:
    import altair as alt

_MODELS = ("ols", "logistic", "multinomial")


class Residuals(FormulaAnalysis):
    """Residuals of a model against fitted values, or against a predictor, as a picture that shows no record.

    The model passes all rules that it would pass if it were asked for itself. Of a linear model synthetic residuals are given
    (`SyntheticResiduals`), of a logistic one means in bins with noise (`BinnedResiduals`), of a multinomial one these for each
    level of the outcome. `answer.chart()` draws them.
    """

    drawn: ClassVar[bool] = True
    model: str = param(default="ols", choices=_MODELS, doc="which model is fitted")
    against: str | None = param(
        default=None,
        doc="a predictor, as age or log(income), that residuals are shown against; fitted values, if not given",
    )
    event: str | None = param(default=None, doc="the level of the outcome that a logistic model is of")

    @override
    def validate(self) -> None:
        super().validate()
        if self.event is not None and self.model != "logistic":
            raise ParameterError("event of residuals is for the model logistic.")

    def fitted_model(self) -> OLS | Logistic | Multinomial:
        """Return the model whose residuals are asked for."""
        if self.model == "ols":
            return OLS(self.formula, weighted=self.weighted)
        if self.model == "multinomial":
            return Multinomial(self.formula, weighted=self.weighted)
        return Logistic(self.formula, weighted=self.weighted, event=self.event)

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables of the formula; refuse an axis that is not among its predictors."""
        self._factor(known)
        return super().variables(known)

    @override
    def wording(self) -> str:
        return f"residuals:{self.fitted_model().wording()}:{self.against or ''}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        factor = self._factor(dataset.variables)
        return f"residuals:{self.fitted_model().wording_for(dataset)}:{title((factor,)) if factor else ''}"

    def run(self, question: Question) -> Findings | Refusal:
        """Fit the model, let its rules look, count its residuals where the records live, and make the picture."""
        model = self.fitted_model()
        factor = self._factor(question.dataset.variables)
        if isinstance(model, LevelsAnalysis):
            if factor is not None and factor[0] == "C":
                raise ParameterError(
                    f"residuals of {self.model} are means in bins of a number, and '{factor[1]}' has levels. "
                    "Choose a predictor that is a number, or leave out against."
                )
            modelled = model.modelled(question)
            if isinstance(modelled, Refusal):
                return modelled
            made = fitted_levels(question, model, modelled)
            if isinstance(made, Refusal):
                return made
            axis = _axis(made.fitted.layout.design, factor, "fitted probability")
            return levels_findings(made, modelled, axis, every=isinstance(model, Multinomial))
        found = model.fitted(question)
        if isinstance(found, Refusal):
            return found
        return linear_findings(*found, _axis(found[1].layout.design, factor, "fitted value"))

    def _factor(self, known: Mapping[str, Variable]) -> Factor | None:
        """Return the factor of the formula that is the axis: the plain number, if there is one; None for fitted values."""
        if self.against is None:
            return None
        factors = sorted({f for term in self.terms(known).terms for f in term}, key=lambda f: (f[0] == "C", f))
        for factor in factors:
            if self.against in (factor[1], title((factor,))):
                return factor
        names = [title((f,)) for f in factors]
        if self.against in known:
            raise DataError(
                f"'{self.against}' is not a predictor of the model, so its residuals cannot be shown against it. "
                f"Predictors: {join_names(names)}."
            )
        raise DataError(unknown_name("predictor", self.against, names, "the model"))

    @classmethod
    def chart(cls, answer: Answer) -> alt.TopLevelMixin:
        """Draw the pictures of an answer, one below another."""
        from sfumato.charts.analysis_charts import one_below_another

        return one_below_another([picture.chart() for picture in pictures(answer)])


def pictures(answer: Answer) -> list[ResidualPicture | BinnedPicture]:
    """Return the pictures that an answer about residuals holds: one, or one for each level of the outcome."""
    axis = str(answer.facts["axis"])
    made: list[ResidualPicture | BinnedPicture] = []
    for name in answer.tables:
        points = answer.frame(name)
        if "band" in points:
            made.append(BinnedPicture(axis, name, points))
            continue
        levels = None if points["x"].dtype.kind == "f" else tuple(dict.fromkeys(points["x"]))
        made.append(ResidualPicture(axis, points, levels))
    return made


def _axis(design: Design, factor: Factor | None, fitted: str) -> ResidualAxis:
    if factor is None:
        return ResidualAxis(fitted, "fitted")
    function, name = factor
    if function == "C":
        return ResidualAxis(name, "category", [c.name for c in design.categories].index(name))
    number = next(i for i, x in enumerate(design.numbers) if x.title == title((factor,)))
    return ResidualAxis(design.numbers[number].name, "number", number)
