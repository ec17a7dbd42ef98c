"""DiSCO: disclosive in the release, correct in the original (Raab, Nowok and Dibben 2024)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.attribution import Attributed
from sfumato.charts.words import counted
from sfumato.contract import Release, Score, Snooper
from sfumato.risk.attribution import AttributionMeasure, average, excess_of, nobody, own_file
from sfumato.risk.excess import share

Numbers = NDArray[np.float64]


class Disco(AttributionMeasure):
    """The share of original records whose confidential value the release gives away with certainty, and rightly.

    All released records with a person's keys have the same value, and it is the person's. Every original record that has a
    value counts, also those whose keys are not in the release, so that a smaller release scores lower. The steps on the way
    stand in the details, as in synthpop: the share in the release (iS), disclosive there (DiS), and disclosive in both files
    (DiSDiO), beside the share that the original itself would disclose (Dorig). Per record: 1 where it is disclosed, else 0.

    Examples
    --------
    >>> from sfumato import Release, Snooper
    >>> from sfumato.datasets import five
    >>> people = Release.of(five(), five())
    >>> Disco("zip", what="rate").score(people, Snooper(keys=("sex",))).details["DiS"]
    0.0
    """

    short: ClassVar[str] = "Disco"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the records that are disclosed, and compare."""
        attack, holdout = self.attack(answer="best"), self.holdout(outcome)
        found = attack.attributed(outcome, snooper, self.draws)
        counts, disclosed = found.targets.count, self._disclosed(found)
        rest = None
        if holdout is not None:
            others = attack.attributed(outcome, snooper, self.draws, holdout)
            rest = average(self._disclosed(others), others.targets.count, nobody(others, self.column, "the holdout"))
        # somebody who has the column alone answers for the same people
        plain = np.where(self._disclosive(found), attack.marginal(outcome, snooper, found.targets).best, 0.0)
        excess = excess_of(found, disclosed, plain, rest, self.column)
        value, interval = excess.choose(self.what)
        truly = attack.people(outcome, snooper.with_(coverage=1.0, errors=0.0), self.draws)
        itself = attack.between(outcome, snooper, attack.people(outcome, snooper, self.draws), truly)
        hit = disclosed > 0

        def of_all(which: NDArray[np.bool_]) -> float:
            return float(counts[which].sum()) / excess.n

        number = round(float((counts * disclosed).sum()))
        return self.result(
            value,
            f"the release gives {self.column} away with certainty, and is {self.right_means(outcome)}, for {number:,} of "
            f"{counted(excess.n, 'record')}; {self.compared} it would be {share(excess.baseline)} of them{own_file(snooper)}",
            interval=interval,
            details={
                **excess.details,
                "iS": of_all(found.matched > 0),
                "DiS": of_all(self._disclosive(found)),
                "DiSDiO": of_all(hit & self._disclosive(itself)),
                "Dorig": of_all(self._disclosive(itself)),
                "mean released records behind a disclosure": float(np.average(found.matched[hit], weights=counts[hit]))
                if hit.any()
                else 0.0,
            },
            find_records=lambda: found.targets.per_record(disclosed),
        )

    @staticmethod
    def _disclosive(found: Attributed) -> NDArray[np.bool_]:
        """Whether all released records with a cell's keys agree on the value, shape (m,)."""
        return np.nan_to_num(found.sure) >= 1

    def _disclosed(self, found: Attributed) -> Numbers:
        return np.where(self._disclosive(found), np.nan_to_num(found.best), 0.0)
