"""Record linkage: how many released records a snooper links to the persons they came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.attacks.attacker_file import RULES
from sfumato.attacks.linkage import LinkByDistance, LinkByRank, LinkByWeight, Nearness, Ranking, Weighing
from sfumato.contract import Attack, Draws, Guesses, Need, Release, Score, Snooper, param, success
from sfumato.errors import plural
from sfumato.risk.keys import RiskMeasure, of_targets
from sfumato.typing import Numbers

_SUREST = 0.1
"""Share of the links that the snooper is surest of, which he would act on first."""


class Linkage(RiskMeasure, abstract=True):
    """The share of the snooper's targets that he links to their own record: the score of a linkage attack."""

    sentence: ClassVar[str] = "{percent:.3g} % of the snooper's targets are linked to their own record"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})
    attack: ClassVar[type[Attack]]

    seed: int = param(
        default=1,
        doc="seed of the random part of the snooper's file: which persons it covers, which values are wrong",
        low=0,
        integer=True,
    )

    def of_records(self, values: Numbers) -> float:
        """Return the share of some targets that are linked rightly."""
        return float(values.mean())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Run the attack and score what it guessed."""
        attack = self.attack(**{name: getattr(self, name) for name in self.attack.parameters()})
        guesses = attack.run(outcome, snooper, Draws(self.seed).child(self.name))
        found = success(guesses)
        right, chance = float(guesses.right.sum()), float(guesses.baseline.sum())
        whose = "its" if found.targets == 1 else "their"
        return self.result(
            found.rate,
            f"{_count(right)} of {plural(found.targets, 'target')} linked to {whose} own record, {_count(chance)} by chance",
            interval=found.interval,
            details={
                "targets": float(found.targets),
                "linked rightly": right,
                "rightly by chance": chance,
                "beyond chance": found.excess,
                "linked rightly without a tie": float((guesses.right == 1).sum()),
                f"right among the surest {100 * _SUREST:g} %": _among_surest(guesses),
                "targets without a record to find": float((guesses.baseline == 0).sum()),
            },
            find_records=lambda: of_targets(outcome, guesses.target, guesses.right),
        )


class DistanceLinkage(Linkage, Nearness):
    """The share of targets whose nearest released record is their own; t records that tie count 1/t."""

    title: ClassVar[str] = "linked by distance"
    attack: ClassVar[type[Attack]] = LinkByDistance

    @override
    @property
    def variant(self) -> str:
        units = {"sd": "standard deviations", "range": "the range", "robust": "robust standard deviations"}
        levels = "categories by the levels of their hierarchy; " if self.categories == "hierarchy" else ""
        return f"in units of {units[self.unit]}; {levels}{RULES[self.missing]}"


class ProbabilisticLinkage(Linkage, Weighing):
    """The share of targets whose record of the greatest match weight is their own; t records that tie count 1/t."""

    title: ClassVar[str] = "linked by match weight"
    attack: ClassVar[type[Attack]] = LinkByWeight

    @override
    @property
    def variant(self) -> str:
        named = isinstance(self.tolerance, Mapping)
        near = (
            "numbers agree within a tolerance of each key" if named else f"numbers agree within {self.tolerance:g} sd"
        )
        blocks = f"; within {', '.join(self.block)}" if self.block else ""
        return f"{self.weights} weights; {near}{blocks}; {RULES[self.missing]}"


class RankLinkage(Linkage, Ranking):
    """The share of targets whose released record of the nearest ranks is their own; t records that tie count 1/t."""

    title: ClassVar[str] = "linked by rank"
    attack: ClassVar[type[Attack]] = LinkByRank

    @override
    @property
    def variant(self) -> str:
        if self.window is None:
            return f"nearest ranks; {RULES[self.missing]}"
        window = "each key's window" if isinstance(self.window, Mapping) else f"{100 * self.window:g} % of the ranks"
        return f"within {window}; {RULES[self.missing]}"


def _count(number: float) -> str:
    """Return an expected number of records for people: ties make fractions.

    >>> _count(412.0), _count(0.97), _count(0.0)
    ('412', '1', '0')
    """
    return f"{number:,.0f}" if number >= 1 or number == 0 else f"{number:.1g}"


def _among_surest(guesses: Guesses) -> float:
    """Return the share of right links among those that the snooper is surest of; of equally sure ones, the mean counts."""
    sure = guesses.right if guesses.sure is None else guesses.sure
    count = max(round(_SUREST * len(sure)), 1)
    least = np.sort(sure)[-count]
    above, equal = sure > least, sure == least
    rest = count - int(above.sum())
    return float((guesses.right[above].sum() + rest * guesses.right[equal].mean()) / count)
