"""CAP: the probability that a confidential value is attributed rightly (Elliot 2014; Taub, Elliot, Pampaka and Smith 2018)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.attribution import Attributed, Unmatched
from sfumato.charts.words import counted
from sfumato.contract import Release, Score, Snooper, param
from sfumato.risk.attribution import AttributionMeasure, average, excess_of, nobody, own_file
from sfumato.risk.excess import share

Numbers = NDArray[np.float64]
UNMATCHED = {
    "left out": "keys that are not in the release are left out",
    "wrong": "keys that are not in the release count as wrong",
    "nearest": "generalised: keys that are not in the release are looked up by the nearest ones",
}


class CAP(AttributionMeasure):
    """The correct attribution probability, beyond what could be guessed without the release.

    For an original record it is the share of the released records with its keys that also have its value: what a snooper
    achieves who looks a person up and takes a matching record at random. The file's rate is the mean over the original records.
    Per record: the probability itself.

    Examples
    --------
    >>> from sfumato import Release, Snooper
    >>> from sfumato.datasets import five
    >>> people = Release.of(five(), five())
    >>> CAP("zip", what="rate").score(people, Snooper(keys=("sex", "age"))).value
    1.0
    """

    short: ClassVar[str] = "correct attribution probability"

    unmatched: Unmatched = param(
        default="left out",
        doc="an original record whose keys are not in the release is left out, counts as wrong, or takes the nearest keys",
        choices=tuple(UNMATCHED),
    )

    @property
    def definition(self) -> str:
        """What happens to keys that are not in the release."""
        return UNMATCHED[self.unmatched]

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Take the mean probability, and compare."""
        attack, holdout = self.attack(unmatched=self.unmatched), self.holdout(outcome)
        found = attack.attributed(outcome, snooper, self.draws)
        right, counts = self._right(found), found.targets.count
        rest = None
        if holdout is not None:
            others = attack.attributed(outcome, snooper, self.draws, holdout)
            rest = average(self._right(others), others.targets.count, nobody(others, self.column, "the holdout"))
        plain = attack.marginal(outcome, snooper, found.targets).drawn
        excess = excess_of(found, right, plain, rest, self.column)
        value, interval = excess.choose(self.what)
        exact = (found.matched > 0) & (found.distance[found.targets.of] == 0)
        return self.result(
            value,
            f"who takes a released record with a person's keys at random is {self.right_means(outcome)} about {self.column} "
            f"in {share(excess.rate)} of {counted(excess.n, 'case')}; {self.compared} it is {share(excess.baseline)}"
            f"{own_file(snooper)}",
            interval=interval,
            details={
                **excess.details,
                "records whose keys are in the release": float(counts[exact].sum()),
                "records certain and right": float(counts[found.agreeing == np.maximum(found.matched, 1)].sum()),
                "records left out": float(found.targets.records - excess.n),
            },
            find_records=lambda: found.targets.per_record(right),
        )

    def _right(self, found: Attributed) -> Numbers:
        return np.nan_to_num(found.drawn) if self.unmatched == "wrong" else found.drawn
