"""Models of outcomes that happen, are one of several, or are counted: logistic, probit, multinomial and Poisson regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.design import Category, Number
from sfumato.mas.models.effects import margins, odds_ratios
from sfumato.mas.models.likelihood import (
    ONE_OUTCOME,
    Fitting,
    LinkFunction,
    Logit,
    LogMean,
    Normit,
    OutcomeFit,
    Outcomes,
    fitted,
)
from sfumato.mas.models.model import (
    ModelAnalysis,
    ModelColumns,
    allowed_levels,
    clips,
    counted,
    model_columns,
    model_notes,
    rounded,
)
from sfumato.mas.question import Question, Result, Steps
from sfumato.mas.register import Register
from sfumato.mas.sums import ProtectedSums, SumsRequest
from sfumato.mas.variable import MISSING, Variable, level_text


class LikelihoodAnalysis(ModelAnalysis, abstract=True):
    """A model by likelihood with the canonical link."""

    @abstractmethod
    def outcomes(self, question: Question, register: Register) -> Generator[SumsRequest, ProtectedSums, Any]:
        """Return the factor of the outcome, how outcomes are modelled, and the size of the rarest; or a refusal."""

    @abstractmethod
    def link(self) -> LinkFunction:
        """Return means and variances for linear predictors."""

    def fitted(self, question: Question, register: Register) -> Fitting:
        """Ask for the sums of the model, and solve it."""
        self.check_weights(question)
        terms = self.terms(question.codebook.variables)
        laid = yield from self.outcomes(question, register)
        if isinstance(laid, Refusal):
            return laid
        outcome, place, rarest = laid
        columns = yield from model_columns(question, register, terms, outcome, self.weighted)
        if isinstance(columns, Refusal):
            return columns
        fit = yield from fitted(
            question, register, columns, place(columns), self.link(), self.weighted, self.covariance(question.codebook)
        )
        return (
            fit
            if isinstance(fit, Refusal)
            else replace(fit, rarest=rarest, weight=_mean_weight(question, self.weighted))
        )

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        fit = yield from self.fitted(question, register)
        if isinstance(fit, Refusal):
            return fit
        facts: dict[str, Any] = {"n": None if np.isnan(fit.shown_n) else fit.shown_n}
        facts |= rounded(fit.facts(), question.policy.models.digits)
        own = model_notes(question, self.covariance(question.codebook), fit.gaps, self.weighted)
        tables = {"coefficients": fit.rows()}
        if isinstance(self, BinaryAnalysis):
            tables |= self.more(question, register, fit)
        return Result(tables, facts, (fit.outcomes.note, *fit.columns.notes, *own), fit.evidence)


def _mean_weight(question: Question, weighted: bool) -> float:
    return question.codebook.weight.mean if weighted and question.codebook.weight is not None else 1.0


class BinaryAnalysis(LikelihoodAnalysis, abstract=True):
    """A model of one level of the outcome against all others, or of a number that is 0 or 1.

    Of two levels the second one is modelled, unless `event` names the other; of more, `event` must be given.
    """

    event: str | None = param(default=None, doc="the level of the outcome that is modelled")
    margins: bool = param(
        default=False,
        doc="whether average marginal effects are given, too: of models without products, by known predictors",
    )

    def more(self, question: Question, register: Register, fit: OutcomeFit) -> dict[str, Any]:
        """Return further tables."""
        return (
            {"marginal effects": margins(question, register, fit, self.link(), self.weighted)} if self.margins else {}
        )

    @override
    def validate(self) -> None:
        super().validate()
        if self.event is not None:
            object.__setattr__(self, "event", level_text(self.event))

    @override
    def wording(self) -> str:
        return f"{super().wording()}:{self.event or ''}{self.extras}"

    @property
    def extras(self) -> str:
        """What else is asked for, in words."""
        return ":margins" if self.margins else ""

    @override
    def wording_for(self, codebook: Codebook) -> str:
        function, name = self.terms(codebook.variables).outcome
        variable = codebook.variables[name]
        levels = [level for level in variable.levels if level != MISSING]
        usual_event = levels[-1] if function == "C" and len(levels) == 2 else "1" if not function else None
        return f"{super().wording_for(codebook)}:{self._level(variable) or usual_event}{self.extras}"

    def _level(self, variable: Variable) -> str | None:
        """Return the level that the event names: by its code, or by what the code means."""
        if self.event in variable.words:
            return variable.levels[variable.words.index(self.event)]
        return self.event

    @override
    def outcomes(self, question: Question, register: Register) -> Generator[SumsRequest, ProtectedSums, Any]:
        function, name = self.terms(question.codebook.variables).outcome
        variable = question.codebook.variables[name]
        if function not in ("", "C"):
            raise ParameterError(f"the outcome of {self.name} is a level of '{name}', not a function of it.")
        if function == "":
            if self.event not in (None, "1"):
                raise ParameterError(
                    f"the outcome '{name}' is a number: its event is 1. Write C({name}) for its levels."
                )
            number = Number.of(variable, "", False)
            if number.bounds != (0.0, 1.0):
                raise DataError(
                    "the outcome of a logistic model has two levels, or is a number with bounds of 0 and 1. Choose another outcome, "
                    "or another model."
                )

            def place_number(columns: ModelColumns) -> Outcomes:
                return Outcomes((columns.y,), (f"{name} = 0", f"{name} = 1"), f"The modelled outcome is {name} = 1.")

            return number, place_number, np.inf
        allowed = allowed_levels(question, variable)
        if len(allowed) < 2:
            return ONE_OUTCOME
        given, outcomes = self._level(variable), [level for level in variable.levels if level != MISSING]
        if given is None and len(allowed) > 2:
            raise ParameterError(
                f"'{name}' has more than two levels here. Say which one is modelled with event=, or use multinomial. "
                f"Levels: {join_names(outcomes, 20)}."
            )
        if given is not None and given not in outcomes:
            named = dict.fromkeys((*outcomes, *(word for word in variable.words if word != MISSING)))
            raise DataError(unknown_name("level", given, named, f"the outcome '{name}'"))
        event = allowed[-1] if given is None else variable.levels.index(given)
        if event not in allowed:
            return ONE_OUTCOME
        flip = len(allowed) == 2 and event == allowed[0]  # of two levels one is fitted, with one noise
        fitted_level = allowed[-1] if flip else event
        counts = yield from counted(question, register, [(name,)])
        sizes = counts[name,]
        rarest = float(min(sizes[event], sum(sizes[i] for i in allowed if i != event)))
        said = f"{name} = {variable.levels[event]}"
        names = (said, f"{name} = {variable.levels[fitted_level]}") if flip else (f"others than {said}", said)
        category = Category.of(variable, allowed, allowed[0])

        def place(columns: ModelColumns) -> Outcomes:
            at = len(columns.factors.categories) - 1
            return Outcomes((((), ((at, fitted_level),)),), names, f"The modelled outcome is {said}.", flip)

        return category, place, rarest


class Logistic(BinaryAnalysis):
    """Logistic regression of one level of the outcome against all others, or of a number that is 0 or 1."""

    odds_ratios: bool = param(default=False, doc="whether odds ratios are given, too")

    @override
    def link(self) -> LinkFunction:
        return Logit()

    @property
    @override
    def extras(self) -> str:
        return super().extras + (":odds" if self.odds_ratios else "")

    @override
    def more(self, question: Question, register: Register, fit: OutcomeFit) -> dict[str, Any]:
        odds = {"odds ratios": odds_ratios(fit.rows(), question.policy.models)} if self.odds_ratios else {}
        return odds | super().more(question, register, fit)


class Probit(BinaryAnalysis):
    """Probit regression: the chance of the event is the normal distribution function of the linear predictor.

    Its link is not the canonical one, so that a fixed number of scoring steps is asked for, with the expected information
    (McCullagh and Nelder 1989, section 4.4).
    """

    @override
    def link(self) -> LinkFunction:
        return Normit()


class Multinomial(LikelihoodAnalysis):
    """Logistic regression of every level of the outcome against its most frequent one."""

    @override
    def link(self) -> LinkFunction:
        return Logit()

    @override
    def outcomes(self, question: Question, register: Register) -> Generator[SumsRequest, ProtectedSums, Any]:
        function, name = self.terms(question.codebook.variables).outcome
        variable = question.codebook.variables[name]
        if function != "C":
            raise ParameterError(f"the outcome of multinomial is the levels of a variable: write C({name}).")
        allowed = allowed_levels(question, variable)
        counts = yield from counted(question, register, [(name,)])
        sizes: Mapping[int, float] = {i: float(counts[name,][i]) for i in allowed}
        shown = [i for i in allowed if sizes[i] >= 0.5]
        if len(shown) < 2:
            return ONE_OUTCOME
        base = max(shown, key=lambda i: (sizes[i], -i))
        flip = len(shown) == 2 and base == shown[1]  # of two levels the second one is fitted, as in logistic: one noise
        order = shown if len(shown) == 2 else [base, *(i for i in shown if i != base)]
        said = f"Coefficients compare each level of {name} with {variable.levels[base]}, the most frequent one."
        names = tuple(f"{name} = {variable.levels[i]}" for i in order)
        category = Category.of(variable, shown, base)

        def place(columns: ModelColumns) -> Outcomes:
            at = len(columns.factors.categories) - 1
            return Outcomes(tuple(((), ((at, i),)) for i in order[1:]), names, said, flip)

        return category, place, min(sizes.values())


class Poisson(LikelihoodAnalysis):
    """Poisson regression of a count, with the logarithm as its link."""

    @override
    def link(self) -> LinkFunction:
        return LogMean()

    @override
    def outcomes(self, question: Question, register: Register) -> Generator[SumsRequest, ProtectedSums, Any]:
        function, name = self.terms(question.codebook.variables).outcome
        if function:
            raise ParameterError(f"the outcome of poisson is a plain count: write {name}.")
        number = Number.of(question.codebook.variables[name], "", clips(question))
        if number.bounds[0] < 0:
            raise DataError(
                f"the outcome of poisson is a count, and '{name}' may be negative. Choose another outcome or ols."
            )

        def place(columns: ModelColumns) -> Outcomes:
            return Outcomes((columns.y,), ("", name), f"The modelled outcome is the mean of {name}.")

        yield from ()
        return number, place, np.inf
