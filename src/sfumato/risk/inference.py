"""Inference, one of the three risks of the Article 29 Working Party (Opinion 05/2014; Giomi et al. 2022)."""

from __future__ import annotations

from typing import ClassVar

from sfumato.attacks.controlled import ControlledAttack
from sfumato.attacks.inference import InferValue, Wanted
from sfumato.risk.controlled import ControlledRisk


class Inference(ControlledRisk, Wanted):
    """How much better a snooper infers a value of people of the file from the release than a value of other people.

    A guess is the value of the released record that is closest to what he knows. What can be said of people outside the file as
    well is science, not disclosure. Per original record: the probability that the guess is right, NaN if it was not attacked.
    """

    attack: ClassVar[type[ControlledAttack]] = InferValue

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"inference of {self.column}"

    @property
    def achieved(self) -> str:
        """A value that was inferred."""
        return f"of {self.column} are right"

    @property
    def variant(self) -> str:
        """When a number is right."""
        return f"numbers within {100 * self.tolerance:.3g} %; {super().variant}"
