"""TCAP: attributions of which a snooper is sure (Taub et al. 2018; Little, Elliot and Allmendinger 2022; Raab et al. 2024)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.cells import Cells
from sfumato.charts.words import counted
from sfumato.contract import Release, Score, Snooper, param
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata
from sfumato.risk.attribution import AttributionMeasure, own_file
from sfumato.risk.excess import Excess, share

Numbers = NDArray[np.float64]
Denominator = Literal["certain", "matched", "all"]
OF = {
    "certain": "of those about whom a snooper is certain",
    "matched": "of those whose keys are in both files",
    "all": "of all",
}
"""The three denominators, in words."""
NONE = {
    "certain": "no value is attributed to anybody with certainty. Disco counts such a file as 0.",
    "matched": "nobody's keys are in both files. Use fewer or coarser keys (Snooper(precision=...)).",
    "all": "no record has the value and the keys that are needed.",
}
"""Why there may be none, in words."""


class TCAP(AttributionMeasure):
    """The targeted correct attribution probability: how often a snooper is right where the release makes him certain.

    He is certain where enough of the released records with the same keys agree on the value: all of them, unless `threshold`
    is lower. Three denominators are in use: the records about which he is certain (``"certain"``: Taub, Little and colleagues),
    those whose keys are in both files (``"matched"``: Raab's TCAP_b), or all (``"all"``, which is DiSCO). Records are counted in
    the original (``by="originals"``: Raab, and the code of Little), or in the release, each with the share of the originals with
    its keys that have its value (``by="released"``: the formula of Taub). Per original record: 1 if he is certain and right,
    0 if he is certain and wrong.
    """

    short: ClassVar[str] = "targeted correct attribution probability"

    denominator: Denominator = param(
        default="certain", doc="what the right and certain answers are a share of", choices=tuple(OF)
    )
    threshold: float = param(
        default=1.0,
        doc="share of the matching records that must agree for a snooper to be certain",
        low=0.5,
        above=True,
        high=1,
    )
    by: Literal["originals", "released"] = param(
        default="originals",
        doc="whether original records are counted, or released ones with the share of originals that they fit",
        choices=("originals", "released"),
    )

    @property
    def definition(self) -> str:
        """The denominator, the threshold, and what is counted."""
        counted = "original" if self.by == "originals" else "released"
        sure = "" if self.threshold == 1 else f", certain from {100 * self.threshold:g} % on"
        return f"{counted} records, right and certain, {OF[self.denominator]}{sure}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Count the certain answers, and the right ones among them."""
        holdout, attack = self.holdout(outcome), self.attack(answer="best")
        count = self._of_originals if self.by == "originals" else self._of_released
        excess = count(outcome, snooper, None)
        if holdout is not None:
            rest = count(outcome, snooper, holdout)
            excess = Excess(excess.rate, excess.n, rest.rate, rest.n, excess.effective, rest.effective)
        value, interval = excess.choose(self.what)
        found = attack.attributed(outcome, snooper, self.draws)
        sure = np.nan_to_num(found.sure) >= self.threshold
        return self.result(
            value,
            f"a snooper is certain of {self.column} and {self.right_means(outcome)} for {share(excess.rate)} "
            f"{OF[self.denominator]} ({counted(excess.n, 'record')}); {self.compared} it would be {share(excess.baseline)}"
            f"{own_file(snooper)}",
            interval=interval,
            details={
                **excess.details,
                "records certain": float(found.targets.count[sure].sum()),
                "records certain and right": float((found.targets.count * sure * np.nan_to_num(found.best)).sum()),
                "records whose keys are in the release": float(found.targets.count[found.matched > 0].sum()),
            },
            find_records=lambda: found.targets.per_record(np.where(sure, found.best, np.nan)),
        )

    def _of_originals(self, outcome: Release, snooper: Snooper, targets: Microdata | None) -> Excess:
        attack = self.attack(answer="best")
        found = attack.attributed(outcome, snooper, self.draws, targets)
        plain = attack.marginal(outcome, snooper, found.targets)
        sure = np.nan_to_num(found.sure) >= self.threshold
        right, guessed = np.where(sure, found.best, 0.0), np.where(sure, plain.best, 0.0)
        return self._share(found.targets, sure, found.matched > 0, right, guessed, targets is not None)

    def _of_released(self, outcome: Release, snooper: Snooper, targets: Microdata | None) -> Excess:
        """Count released records whose value a share `threshold` of the released records with their keys has."""
        attack = self.attack()
        among = attack.between(outcome, snooper, outcome.masked, outcome.masked)
        people = attack.people(outcome, snooper, self.draws, targets)
        back = attack.between(outcome, snooper, outcome.masked, people)
        sure = (among.drawn >= self.threshold) & (back.matched > 0)
        right = np.where(sure, np.nan_to_num(back.drawn), 0.0)
        guessed = np.where(sure, attack.marginal(outcome, snooper, among.targets).drawn, 0.0)
        excess = self._share(among.targets, sure, back.matched > 0, right, guessed, targets is not None)
        return replace(excess, effective=_effective(among.targets, self._inside(sure, back.matched > 0), back.matched))

    def _inside(self, sure: NDArray[np.bool_], matched: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which cells the denominator counts, shape (m,)."""
        return {"certain": sure, "matched": matched, "all": np.ones(len(sure), bool)}[self.denominator]

    def _share(
        self,
        cells: Cells,
        sure: NDArray[np.bool_],
        matched: NDArray[np.bool_],
        right: Numbers,
        guessed: Numbers,
        held_out: bool,
    ) -> Excess:
        counts = cells.count
        n = int(counts[self._inside(sure, matched)].sum())
        if not n:
            where = " in the holdout" if held_out else ""
            raise NotApplicable(f"there is nothing to take a share of{where}: {NONE[self.denominator]}")
        return Excess(float((counts * right).sum()) / n, n, float((counts * guessed).sum()) / n)


def _effective(cells: Cells, inside: NDArray[np.bool_], matched: Numbers) -> float:
    """Return how many independent answers a mean over released records is worth: 1 / Σ w²/d over classes (Kish 1965).

    w is a class's share of the released records, d the number of people with its keys: all its records are right or wrong by
    the same few people.
    """
    counts = np.bincount(cells.of[inside], cells.count[inside], cells.classes)
    people = np.ones(cells.classes)
    people[cells.of] = np.maximum(matched, 1)
    return float(counts.sum() ** 2 / (counts**2 / people).sum())
