"""How large a share of the population the released file holds: given, or told by the survey weights."""

from __future__ import annotations

from typing import Any

from sfumato.classes import Classes
from sfumato.contract import Release, param
from sfumato.errors import NotApplicable


def fraction_parameter() -> Any:
    """Declare the parameter `fraction`, which every estimator of population risk has."""
    return param(
        default=None,
        doc="records of the file for each person of the population; told by the survey weights if it is not given",
        low=0,
        above=True,
        high=1,
    )


def fraction_source(given: float | None) -> str:
    """Return where the sampling fraction comes from, for a measure's variant."""
    return "sampling fraction from the weights" if given is None else f"sampling fraction {given:g}"


def sampling_fraction(found: Classes, given: float | None) -> float:
    """Return records / persons of the population: as given, or the number of records over the sum of their weights.

    Refuse in a sentence where neither is known. The classes must have been counted with weights.
    """
    if given is not None:
        return given
    if found.weights is None:
        raise NotApplicable(
            "how large a share of the population the file holds is not known. "
            "Say so with fraction=..., or give the column of survey weights the role 'weight'."
        )
    fraction = float(found.sizes.sum() / found.weights.sum())
    if fraction > 1 + 1e-9:
        raise NotApplicable(
            "the survey weights add up to fewer persons than there are records, so they do not say how large the "
            "population is. Correct them, or say how large a share of it the file is, with fraction=0.1 for a tenth."
        )
    return min(fraction, 1.0)


def household_warning(outcome: Release) -> str:
    """Return what a reader must know where whole households may have been drawn, which is not Bernoulli sampling of persons.

    Members who look alike come into the file together, as if many persons outside it looked like a record.
    """
    if outcome.masked.schema.one("household") is None:
        return ""
    return "; far too low if whole households were drawn and their members look alike"
