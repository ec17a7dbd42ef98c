"""Singling out, one of the three risks of the Article 29 Working Party (Opinion 05/2014; Giomi et al. 2022)."""

from __future__ import annotations

from typing import ClassVar

from sfumato.attacks.controlled import ControlledAttack
from sfumato.attacks.singling_out import Describing, SingleOut
from sfumato.errors import some
from sfumato.risk.controlled import ControlledRisk


class SinglingOut(ControlledRisk, Describing):
    """How much better a snooper can single people of the file out by descriptions from the release than other people.

    A guess is right if a description that fits one released record alone fits exactly one person. The holdout must be as large
    as the original. Per original record: 1 if some description singles it out, NaN if none does.
    """

    attack: ClassVar[type[ControlledAttack]] = SingleOut

    def label(self) -> str:
        """Return a few words for a legend."""
        return "singling out"

    @property
    def achieved(self) -> str:
        """A description that fits one person."""
        return "single one person out"

    @property
    def variant(self) -> str:
        """What a description is."""
        what = "one column" if self.describe == "one column" else some(self.width, "column")
        return f"descriptions by {what}; {super().variant}"
