"""Membership: how well a snooper tells, from the release alone, whose records are behind it (Carlini et al. 2022)."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

import numpy as np
from typing_extensions import override

from sfumato.attacks.holdout_attacks import Telling, TellMembers
from sfumato.contract import Draws, Need, Release, Score, Snooper, param, wilson
from sfumato.errors import plural
from sfumato.lazy import optimize, special, stats
from sfumato.risk.keys import RiskMeasure, of_targets
from sfumato.schema import Schema
from sfumato.typing import Numbers

Report = Literal["true positive rate", "advantage"]


class Membership(RiskMeasure, Telling):
    """How many members a snooper finds while he takes few others for members: the true positive rate at a false positive rate.

    On average over all thresholds he may do no better than chance and still be sure of a few people: so the rate at few false
    alarms comes first, and the area under the curve (AUC) stands beside it. The advantage is 2·AUC - 1. Both count ties as a
    snooper who breaks them at random would. Per original record: the share of the others that look less like a member (ties
    count half); the mean of this is the AUC.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.HOLDOUT})

    report: Report = param(default="true positive rate", doc="which number is the value")
    false_positives: float = param(
        default=0.01, doc="largest share of the others that the snooper takes for members", low=0, above=True, high=1
    )
    seed: int = param(default=1, doc="seed of the choice of targets, where there are too many", low=0, integer=True)

    @override
    def label(self) -> str:
        at = f"members found at {100 * self.false_positives:.3g} % false alarms"
        return "membership: " + (at if self.report == "true positive rate" else "advantage")

    @override
    @property
    def variant(self) -> str:
        number = "2·AUC - 1" if self.report == "advantage" else f"TPR at {100 * self.false_positives:.3g} % FPR"
        return f"{number}, by {self.evidence} from the release"

    @override
    def words(self, value: float, schema: Schema) -> str:
        if self.report == "advantage":
            return f"of a member and another person the snooper picks the right one in {50 * (1 + value):.3g} % of the cases"
        allowed = 100 * self.false_positives
        return f"{100 * value:.3g} % of the members are found at {allowed:.3g} % false alarms; by chance {allowed:.3g} % are"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Rank members and others by the evidence."""
        attack = TellMembers(**{name: getattr(self, name) for name in TellMembers.parameters()})
        guesses = attack.run(outcome, snooper, Draws(self.seed).child(self.name))
        is_member = guesses.truth == 1
        sure = guesses.sure if guesses.sure is not None else guesses.right
        curve = RocCurve(sure[is_member], sure[~is_member])
        auc, tpr = curve.area(), curve.true_positives(self.false_positives)
        auc_ends, tpr_ends = curve.area_interval(), curve.true_positives_interval(self.false_positives)
        advantage = self.report == "advantage"
        value = 2 * auc - 1 if advantage else tpr
        low, high = (2 * auc_ends[0] - 1, 2 * auc_ends[1] - 1) if advantage else tpr_ends
        members, others = len(curve.members), len(curve.others)
        return self.result(
            value,
            f"{100 * tpr:.3g} % of {plural(members, 'member')} are found when {100 * self.false_positives:.3g} % of "
            f"{plural(others, 'other')} are taken for members too; of a member and another person the right one is picked in "
            f"{100 * auc:.3g} % of the cases (50 % is chance)",
            interval=(min(low, value), max(high, value)),
            details={
                "AUC": auc, "AUC, lower limit": auc_ends[0], "AUC, upper limit": auc_ends[1],
                "true positive rate": tpr, "its lower limit": tpr_ends[0], "its upper limit": tpr_ends[1],
                "members": float(members), "others": float(others),
            },
            find_records=lambda: of_targets(outcome, guesses.target[is_member], curve.placements()),
        )  # fmt: skip


class RocCurve(NamedTuple):
    """The scores of members and of others; larger speaks for a member. Ties are broken at random, in expectation."""

    members: Numbers
    others: Numbers

    def placements(self) -> Numbers:
        """Return the share of the others below each member, ties count half; shape (members,)."""
        others = np.sort(self.others)
        below, up_to = (np.searchsorted(others, self.members, side) for side in ("left", "right"))
        return (below + up_to) / (2.0 * len(others))

    def area(self) -> float:
        """Return the area under the ROC curve: the Mann-Whitney statistic over the number of pairs."""
        return float(self.placements().mean())

    def true_positives(self, false_positives: float) -> float:
        """Return the share of members found if this share of the others is taken for members: Neyman and Pearson's test.

        Everybody above a threshold is taken for a member, and at the threshold as many, at random, as the share allows.
        """
        others = np.sort(self.others)[::-1]
        allowed = false_positives * len(others)
        if allowed >= len(others):
            return 1.0
        limit = others[int(allowed)]
        above, tied = int((self.others > limit).sum()), int((self.others == limit).sum())
        at = (allowed - above) / tied
        return float((self.members > limit).mean() + at * (self.members == limit).mean())

    def area_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return Newcombe's score interval for the area (2006, part 2, method 5)."""
        m, n, area = len(self.members), len(self.others), self.area()
        z, more = float(special.ndtri(0.5 + level / 2)), (m + n) / 2 - 1

        def off(theta: float) -> float:
            spread = theta * (1 - theta) * (1 + more * ((1 - theta) / (2 - theta) + theta / (1 + theta))) / (m * n)
            return float((theta - area) ** 2 - z * z * spread)

        tiny = 1e-12  # at 0 and 1 the equation has the end itself as a second root
        low = 0.0 if area == 0 else float(optimize.brentq(off, 0.0, min(area, 1 - tiny)))
        return low, 1.0 if area == 1 else float(optimize.brentq(off, max(area, tiny), 1.0))

    def true_positives_interval(self, false_positives: float, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for the share of members found, which also allows for the threshold being an estimate.

        The number of others above the true threshold is binomial; at both ends of its range the share of members has Wilson's
        interval. Each half of the error is allowed for, so that the whole holds by Bonferroni.
        """
        each = 1 - (1 - level) / 2
        count, members = len(self.others), len(self.members)
        fewest, most = (float(stats.binom.ppf(end, count, false_positives)) for end in ((1 - each) / 2, (1 + each) / 2))
        low, high = (self.true_positives(min(k / count, 1.0)) for k in (fewest, most + 1))
        return wilson(low * members, members, each)[0], wilson(high * members, members, each)[1]
