"""How many persons are unique in the population, estimated from a sample of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, out_of, some
from sfumato.risk.fraction import fraction_parameter, fraction_source, household_warning, sampling_fraction
from sfumato.risk.frequencies import Frequencies, frequencies_of
from sfumato.risk.keys import RULES, missing_rule, released_classes
from sfumato.risk.superpopulation import Estimate, pitman, poisson_gamma, slide_negative_binomial, zayatz
from sfumato.schema import Schema

Model = Literal["dankar", "zayatz", "pitman", "snb", "poisson_gamma"]
MODELS: dict[str, Callable[[Frequencies, float], Estimate]] = {
    "zayatz": zayatz,
    "pitman": pitman,
    "snb": slide_negative_binomial,
    "poisson_gamma": poisson_gamma,
}
NAMES = {
    "dankar": "rule of Dankar et al.",
    "zayatz": "equivalence class model of Zayatz",
    "pitman": "model of Pitman",
    "snb": "slide negative binomial model",
    "poisson_gamma": "Poisson-gamma model",
}
SMALL = 0.1
"""Sampling fraction up to which the rule of Dankar et al. takes Pitman's model."""


class PopulationUniques(DirectMeasure):
    """The share of persons whose keys nobody else in the population has, estimated from the released file as a sample.

    The same share of the released records is expected to be unique in the population: whoever knows their keys, and that the
    person is in the file or not, cannot mistake them. The models differ in what they assume of the sizes of the population's
    classes; "dankar" chooses between three of them by the sampling fraction and by their estimates.
    """

    side: ClassVar[Side] = Side.RISK

    model: Model = param(
        default="dankar",
        doc="what is assumed of the sizes of the population's classes; 'dankar' chooses between the models",
        choices=tuple(NAMES),
    )
    fraction: float | None = fraction_parameter()
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "records unique in the population"

    @property
    def variant(self) -> str:
        """The model, the source of the sampling fraction, and the rule for missing keys."""
        return f"{NAMES[self.model]}; {fraction_source(self.fraction)}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the share in words."""
        return f"about {digits(100 * value)} % of the records are unique in the population"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Fit the model to the sizes of the released classes."""
        found = released_classes(outcome, snooper, self.missing, weighted=self.fraction is None)
        pi = sampling_fraction(found, self.fraction)
        seen = frequencies_of(found)
        n, unique = seen.records, seen.at(1)
        if unique == 0:
            raise NotApplicable(
                "no released record is unique on the keys, so none of them is unique in the population either, and nothing tells "
                "how many other persons are. Try more keys."
            )
        used, estimate = ("", Estimate(unique / n, (unique / n,) * 2, {})) if pi == 1 else chosen(self.model, seen, pi)
        share = estimate.share
        how = f" ({NAMES[used]})" if used else " (the file is the whole population)"
        score = self.result(
            share,
            f"{out_of(round(unique), round(n), ('is', 'are'))} unique in the file; about {digits(share * n)} of them would be "
            f"unique among the {some(round(n / pi), 'person')} of the population{how}"
            f"{household_warning(outcome) if pi < 1 else ''}",
            interval=estimate.interval,
            details={
                "unique records": unique,
                "released records unique in the population": share * n,
                "persons unique in the population": share * n / pi,
                "sampling fraction": pi,
                **estimate.parameters,
            },
        )
        return score if used in ("", self.model) else replace(score, variant=f"{self.variant}; took the {NAMES[used]}")


def chosen(model: str, seen: Frequencies, pi: float) -> tuple[str, Estimate]:
    """Return a model's estimate and its name; "dankar" chooses (Dankar, El Emam, Neisa and Roffey 2012).

    Up to a sampling fraction of 0.1: Pitman. Beyond: the lower of Zayatz and SNB. Where a model has no valid estimate the rule
    falls back on Zayatz, whose formula always has one.
    """
    if model != "dankar":
        return model, MODELS[model](seen, pi)
    first = "pitman" if pi <= SMALL else "snb"
    fallback = zayatz(seen, pi)
    try:
        estimate = MODELS[first](seen, pi)
    except NotApplicable:
        return "zayatz", fallback
    return ("zayatz", fallback) if first == "snb" and fallback.share < estimate.share else (first, estimate)
