"""Linkability, one of the three risks of the Article 29 Working Party (Opinion 05/2014; Giomi et al. 2022)."""

from __future__ import annotations

from typing import ClassVar

from sfumato.attacks.controlled import ControlledAttack
from sfumato.attacks.linkability import LinkColumns, TwoFiles
from sfumato.errors import some
from sfumato.risk.controlled import ControlledRisk


class Linkability(ControlledRisk, TwoFiles):
    """How much better a snooper can join two files about people of the file, through the release, than about other people.

    A guess is right if the two halves of a person's record have one of their k closest released records in common. Per original
    record: 1 if its halves were linked, 0 if not, NaN if it was not attacked.
    """

    attack: ClassVar[type[ControlledAttack]] = LinkColumns

    def label(self) -> str:
        """Return a few words for a legend."""
        return "linkability"

    @property
    def achieved(self) -> str:
        """Two halves that were linked."""
        return "link the two halves of a record"

    @property
    def variant(self) -> str:
        """How many records are looked at."""
        return f"{some(self.k, 'closest released record')}; {super().variant}"
