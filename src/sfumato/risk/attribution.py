"""Attribution: the rate of right answers beyond a baseline. CAP, TCAP, WEAP and DiSCO."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.attacks.attribution import (
    NEAR,
    Attributed,
    Attribution,
    Near,
    Unmatched,
    ValueCells,
    bins_rule,
    near_rule,
    tolerance_rule,
)
from sfumato.charts.captions import counted
from sfumato.contract import Draws, Release, Score, Snooper, Success, param, wilson
from sfumato.data import Kind, Microdata
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable
from sfumato.risk.gdpr_risks import residual
from sfumato.risk.keys import RiskMeasure, spread_released
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers

Against = Literal["marginal", "holdout"]
What = Literal["excess", "rate"]
AGAINST = {
    "marginal": "beyond a guess from the column alone",
    "holdout": "beyond the same attack on people who are not in the file",
}
"""What a rate is compared with, in words."""


def against_rule() -> Any:
    """Declare the parameter `against`, which every measure that has a baseline has."""
    return param(
        default="marginal",
        doc="what the attack is compared with: guessing from the column alone, or the same attack on a holdout",
        choices=tuple(AGAINST),
    )


def what_rule() -> Any:
    """Declare the parameter `what`."""
    return param(
        default="excess",
        doc="whether the score is what the release adds to the baseline, or the plain rate",
        choices=("excess", "rate"),
    )


@dataclass(frozen=True)
class Excess:
    """A rate of right answers among n targets, and the rate of a baseline: known, or estimated from `n_baseline` people.

    >>> Excess(0.6, 100, 0.5).value
    0.2
    """

    rate: float
    n: int
    baseline: float
    n_baseline: int | None = None
    """How many people the baseline was measured on; None where it is known."""
    effective: float | None = None
    """How many independent answers the rate is worth; n, if None."""
    effective_baseline: float | None = None
    """The same of the baseline."""

    @property
    def value(self) -> float:
        """(rate - baseline) / (1 - baseline): what the release added, as a share of what was left to learn."""
        if self.baseline >= 1:
            self._check_left()
            return 0.0
        return round((self.rate - self.baseline) / (1 - self.baseline), 15)  # 0.6 - 0.5 is not 0.1

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the rate, moved; with an estimated baseline that of a ratio of two shares (see `residual`)."""
        if self.n_baseline is not None:
            self._check_left()
            sides = (self.rate, self.effective or self.n), (self.baseline, self.effective_baseline or self.n_baseline)
            inside, outside = (Success(round(n), rate, wilson(rate * n, n), 0.0) for rate, n in sides)
            return residual(inside, outside)[1]
        if self.baseline >= 1:
            return (0.0, 0.0)
        low, high = self._of_rate
        return (low - self.baseline) / (1 - self.baseline), min(1.0, (high - self.baseline) / (1 - self.baseline))

    @property
    def _of_rate(self) -> tuple[float, float]:
        n = self.effective or self.n
        return wilson(self.rate * n, n)

    def _check_left(self) -> None:
        """Refuse a share of nothing: what a few others would not have told is not known."""
        if self.n_baseline is not None and self.baseline >= 1:
            raise NotApplicable(
                f"the same attack is right about all of the {counted(self.n_baseline, 'record')} of the holdout that it answers "
                "for, so that nothing is left of which the release could add a share. Take a larger holdout, more keys, or "
                "what='rate'."
            )

    def choose(self, what: What) -> tuple[float, tuple[float, float]]:
        """Return the value that was asked for, and its interval."""
        return (self.rate, self._of_rate) if what == "rate" else (self.value, self.interval)

    @property
    def details(self) -> dict[str, float]:
        """What stands beside the score."""
        found = {
            "rate": self.rate, "baseline": self.baseline, "rate minus baseline": self.rate - self.baseline,
            "targets": float(self.n),
        }  # fmt: skip
        return found if self.n_baseline is None else {**found, "holdout targets": float(self.n_baseline)}


def holdout_of(outcome: Release, who: str) -> Microdata:
    """Return the records set aside before masking, or refuse."""
    if outcome.holdout is None:
        raise NotApplicable(
            f"'{who}' is compared with a holdout, but the release has none. Set records aside before masking, "
            "or compare with against='marginal'."
        )
    return outcome.holdout


def share(value: float) -> str:
    """Return a share for people: '12.5 %'.

    >>> share(0.12543)
    '12.5 %'
    """
    return f"{100 * value:.3g} %"


# --- What the attribution measures have in common: the column, when an answer is right, and what it is compared with.


def seed_rule() -> Any:
    """Declare the parameter `seed`, which every measure has for which `Snooper.coverage` and `Snooper.errors` matter."""
    return param(
        default=1,
        doc="seed of the random part of the snooper's file: which persons it covers, which keys are wrong",
        low=0,
        integer=True,
    )


def snoopers_draws(seed: int) -> Draws:
    """Return the draws that the snooper's file is made with."""
    return Draws(seed).child("snooper")


def own_file(snooper: Snooper) -> str:
    """Return in words that a file of the snooper's own plays no role, if he has one."""
    return "" if snooper.external is None else "; his own file is not used: he has the original's keys"


class KeyedMeasure(RiskMeasure, abstract=True):
    """A measure of what keys say of a confidential column: when a value is right, and what a missing key means."""

    title: ClassVar[str] = "{self.short} of {self.column}"
    short: ClassVar[str] = ""
    """The name that the literature uses."""

    column: str = param(doc="the confidential column a snooper wants to know", columns="one", holds="anything")
    what: What = what_rule()
    near: Near = near_rule()
    tolerance: float = tolerance_rule()
    bins: int = bins_rule()
    missing: Missing = missing_rule()

    @property
    def definition(self) -> str:
        """Which of several definitions of the rate this is, in words."""
        return ""

    @property
    def beyond(self) -> str:
        """What the rate is compared with, in words."""
        return AGAINST["marginal"]

    @override
    @property
    def variant(self) -> str:
        parts = [self.definition, self.beyond if self.what == "excess" else "plain rate", RULES[self.missing]]
        return "; ".join(part for part in parts if part)

    @override
    def words(self, value: float, schema: Schema) -> str:
        if self.what == "rate":
            return f"{share(value)} of the answers about {self.column} are right"
        return f"the release adds {share(value)} of what was left to learn about {self.column}"

    def attack(self, **changes: Any) -> Attribution:
        """Return the attack whose answers are scored."""
        return Attribution(
            column=self.column,
            near=self.near,
            tolerance=self.tolerance,
            bins=self.bins,
            missing=self.missing,
            **changes,
        )

    def right_means(self, outcome: Release) -> str:
        """Return when an answer counts as right, in words."""
        if outcome.original.kind(self.column) is not Kind.NUMBER:
            return "right"
        return f"right ({NEAR[self.near].format(tolerance=self.tolerance, bins=self.bins)})"


class AttributionMeasure(KeyedMeasure, abstract=True):
    """A measure that scores what the attribution attack answers, minus what could be guessed without the release."""

    against: Against = against_rule()
    seed: int = seed_rule()

    @property
    def draws(self) -> Draws:
        """What is random in the snooper's file: the same for every measure with the same seed."""
        return snoopers_draws(self.seed)

    @override
    @property
    def beyond(self) -> str:
        return AGAINST[self.against]

    def holdout(self, outcome: Release) -> Microdata | None:
        """Return the people that the attack is compared on, None if it is compared with the marginal."""
        return None if self.against == "marginal" else holdout_of(outcome, self.label())

    @property
    def compared(self) -> str:
        """Where the baseline is taken from, in words."""
        return "for people who are not in the file" if self.against == "holdout" else "from the column alone"


def average(values: Numbers, counts: NDArray[Any], sentence: str) -> tuple[float, int]:
    """Return the mean of values over counted records, those without one (NaN) left out, and their number; refuse none."""
    known = ~np.isnan(values)
    n = int(counts[known].sum())
    if not n:
        raise NotApplicable(sentence)
    return float((values[known] * counts[known]).sum()) / n, n


def nobody(found: Attributed, column: str, where: str = "the original") -> str:
    """Return why there is nothing to score, in words."""
    if not len(found.targets.of):
        return f"no record of {where} has a value of '{column}' (and the keys that are needed), so there is nothing to attribute."
    if not len(found.held.of):
        return f"no released record has a value of '{column}' (and the keys that are needed), so nothing is attributed."
    return (
        f"no record of {where} that has '{column}' finds a released one with the same keys, so nothing is attributed. "
        "Use fewer or coarser keys (Snooper(precision=...)), or unmatched='wrong' or 'nearest' where there is such a choice."
    )


def excess_of(found: Attributed, right: Numbers, plain: Numbers, rest: tuple[float, int] | None, column: str) -> Excess:
    """Return the rate among those answered (NaN: not answered) with its baseline: from the marginal, or as measured on others."""
    counts = found.targets.count
    rate, n = average(right, counts, nobody(found, column))
    if rest is not None:
        return Excess(rate, n, *rest)
    return Excess(rate, n, average(np.where(np.isnan(right), np.nan, plain), counts, "")[0])


UNMATCHED = {
    "left out": "keys that are not in the release are left out",
    "wrong": "keys that are not in the release count as wrong",
    "nearest": "generalised: keys that are not in the release are looked up by the nearest ones",
}


class CAP(AttributionMeasure):
    """The correct attribution probability, beyond what could be guessed without the release.

    For an original record it is the share of the released records with its keys that also have its value: what a snooper
    achieves who looks a person up and takes a matching record at random. The file's rate is the mean over the original records.
    Per record: the probability itself. Source: Elliot 2014; Taub, Elliot, Pampaka and Smith 2018.

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
    0 if he is certain and wrong. Source: Taub et al. 2018; Little, Elliot and Allmendinger 2022; Raab et al. 2024.
    """

    short: ClassVar[str] = "targeted correct attribution probability"

    denominator: Denominator = param(default="certain", doc="what the right and certain answers are a share of")
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

    def _inside(self, sure: Flags, matched: Flags) -> Flags:
        """Which cells the denominator counts, shape (m,)."""
        return {"certain": sure, "matched": matched, "all": np.ones(len(sure), bool)}[self.denominator]

    def _share(
        self,
        cells: ValueCells,
        sure: Flags,
        matched: Flags,
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


def _effective(cells: ValueCells, inside: Flags, matched: Numbers) -> float:
    """Return how many independent answers a mean over released records is worth: 1 / Σ w²/d over classes (Kish 1965).

    w is a class's share of the released records, d the number of people with its keys: all its records are right or wrong by
    the same few people.
    """
    counts = np.bincount(cells.of[inside], cells.count[inside], cells.classes)
    people = np.ones(cells.classes)
    people[cells.of] = np.maximum(matched, 1)
    return float(counts.sum() ** 2 / (counts**2 / people).sum())


class WEAP(KeyedMeasure):
    """The within-equivalence-class attribution probability: how well the release's own keys tell the release's own values.

    For a released record it is the share of the released records with its keys that have its value. The score is the mean
    (``summary="mean"``), or the share of records for which it is at least `threshold` (``"share"``), beyond what is due to the
    column's distribution alone. It looks at the release only: whether the values are true is for CAP and TCAP to say. Per
    original record: the probability of its released record, where the alignment is known. Source: Taub and Elliot 2019.
    """

    short: ClassVar[str] = "within-class attribution probability"

    summary: Literal["mean", "share"] = param(
        default="mean", doc="the mean probability, or the share of records that reach the threshold"
    )
    threshold: float = param(
        default=1.0, doc="probability from which a record counts, for summary='share'", low=0, above=True, high=1
    )

    @property
    def definition(self) -> str:
        """Mean or share."""
        return "mean" if self.summary == "mean" else f"share of records from {100 * self.threshold:g} % on"

    @override
    def words(self, value: float, schema: Schema) -> str:
        beyond = "" if self.what == "rate" else ", beyond what the column alone gives"
        if self.summary == "share":
            return f"the keys of {share(value)} of the released records tell their {self.column}{beyond}"
        return f"released records with the same keys agree on {self.column} with probability {value:.3g}{beyond}"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare each released record with those that have its keys."""
        attack = self.attack()
        found = attack.between(outcome, snooper, outcome.masked, outcome.masked)
        counts, within = found.targets.count, found.drawn
        plain = attack.marginal(outcome, snooper, found.targets, outcome.masked).drawn
        rate, n = average(self._summed(within), counts, nobody(found, self.column, "the release"))
        excess = Excess(rate, n, average(self._summed(plain), counts, "")[0])
        value, interval = excess.choose(self.what)
        certain = int(counts[within >= self.threshold].sum())
        return self.result(
            value,
            f"released records with the same keys agree on {self.column} with probability "
            f"{average(within, counts, '')[0]:.3g} on average; for {certain:,} of {n:,} it is at least {self.threshold:g}",
            interval=interval,
            details={**excess.details, "records from the threshold on": float(certain)},
            find_records=(lambda: spread_released(outcome, found.targets.per_record(within)))
            if outcome.aligned
            else None,
        )

    def _summed(self, within: Numbers) -> Numbers:
        return within if self.summary == "mean" else (within >= self.threshold).astype(np.float64)


class Disco(AttributionMeasure):
    """The share of original records whose confidential value the release gives away with certainty, and rightly.

    All released records with a person's keys have the same value, and it is the person's. Every original record that has a
    value counts, also those whose keys are not in the release, so that a smaller release scores lower. The steps on the way
    stand in the details, as in synthpop: the share in the release (iS), disclosive there (DiS), and disclosive in both files
    (DiSDiO), beside the share that the original itself would disclose (Dorig). Per record: 1 where it is disclosed, else 0.
    Source: Raab, Nowok and Dibben 2024.

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

        def of_all(which: Flags) -> float:
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
    def _disclosive(found: Attributed) -> Flags:
        """Whether all released records with a cell's keys agree on the value, shape (m,)."""
        return np.nan_to_num(found.sure) >= 1

    def _disclosed(self, found: Attributed) -> Numbers:
        return np.where(self._disclosive(found), np.nan_to_num(found.best), 0.0)
