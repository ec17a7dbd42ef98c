"""Judging what was seen: is it safe enough, and how useful is it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Measure, Side
from sfumato.decision.best_recipe.limits import Spread, limit_noise, release_limit
from sfumato.decision.best_recipe.scenarios import Against
from sfumato.decision.best_recipe.trials import Look
from sfumato.errors import ParameterError, listing, unknown_name

Numbers = NDArray[np.float64]
_TINY = 1e-6
"""Stands for nothing where a threshold of 0 is asked for, so that less is still nearer than more."""
_FAR = 30.0


@dataclass(frozen=True)
class Standing:
    """How a point stands: the logarithm of its worst risk limit over the threshold (safe up to 0), and its utility."""

    excess: float
    gain: float

    @property
    def safe(self) -> bool:
        """Whether every risk stays within its threshold; a point without a utility is none to choose."""
        return self.excess <= 0 and self.gain > -math.inf

    @property
    def rank(self) -> tuple[bool, float]:
        """Better is larger: safe before unsafe, then more useful, or less far from safe."""
        return self.safe, self.gain if self.safe else -max(self.excess, 0.0)


@dataclass(eq=False)
class Judge:
    """Thresholds for the risks, and what utilities are held against."""

    measures: tuple[Measure, ...]
    thresholds: Mapping[int, float]
    anchors: Mapping[int, float]
    """Each utility that counts, and what it is divided by: 1, or its value for the unmasked file where there are several."""
    spreads: dict[tuple[str, int, int], Spread] = field(default_factory=dict)
    """By family, records and measure: how much releases differ, pooled over the points seen."""

    def pool(self, looks: Iterable[Look]) -> None:
        """Learn how much the releases of each family differ."""
        groups: dict[tuple[str, int], list[Look]] = {}
        for look in looks:
            if look.observed:
                groups.setdefault((look.family.name, look.records), []).append(look)
        for (family, records), own in groups.items():
            for i in self.thresholds:
                self.spreads[family, records, i] = Spread.pooled(look.values(i, self.measures) for look in own)

    def limit(self, look: Look, measure: int, own: bool = False) -> float:
        """Return the risk below which 95 % of the releases at this point stay; from its `own` releases alone, if asked for."""
        spread = None if own else self.spreads.get((look.family.name, look.records, measure))
        return release_limit(look.values(measure, self.measures), spread)

    def noise(self, look: Look) -> float:
        """Return the standard error of the logarithm of a point's worst limit, as its own releases give it."""
        worst = max(self.thresholds, key=lambda i: excess_of(self.limit(look, i, own=True), self.thresholds[i]))
        return limit_noise(look.values(worst, self.measures))

    def verdict(
        self, look: Look, moved: float = 1.0, calibrated: Mapping[int, float] | None = None, own: bool = False
    ) -> Standing:
        """Judge a point, under thresholds multiplied by `moved`, and as a smaller file's risks are (`calibrated`)."""
        if not look.observed:
            return Standing(_FAR, -math.inf)
        scale = calibrated or {}
        excess = max(
            excess_of(self.limit(look, i, own), r * moved * scale.get(i, 1.0)) for i, r in self.thresholds.items()
        )
        gains = [self.utility(look, i) / a for i, a in self.anchors.items()]
        return Standing(excess, -math.inf if any(map(math.isnan, gains)) else min(gains))

    def utility(self, look: Look, measure: int) -> float:
        """Return a utility over all releases at a point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.measures[measure].value(look.observed[measure].mean(axis=0)))


def excess_of(limit: float, threshold: float) -> float:
    """Return log(limit / threshold), at most ±30; a threshold of 0 is met only by 0.

    >>> round(excess_of(0.02, 0.01), 3), excess_of(0.0, 0.0), excess_of(float("inf"), 1.0)
    (0.693, 0.0, 30.0)
    """
    if math.isnan(limit) or limit == math.inf:
        return _FAR
    if threshold <= 0:
        return math.log((limit + _TINY) / _TINY) if limit > 0 else 0.0
    return max(math.log(limit / threshold), -_FAR) if limit > 0 else -_FAR


def thresholds_of(measures: Sequence[Measure], titles: Sequence[str], max_risk: object) -> dict[int, float]:
    """Return the threshold of each risk measure, by its position, from one number for all or one for each by title.

    A title of a measure serves for all its scenarios.
    """
    risks = [i for i, m in enumerate(measures) if m.side is Side.RISK]
    names = {i: {titles[i], measures[i].label(), *_plain(measures[i])} for i in risks}
    if isinstance(max_risk, Mapping):
        for name in max_risk:
            if not any(name in known for known in names.values()):
                raise ParameterError(unknown_name("risk measure", str(name), [titles[i] for i in risks], "the search"))
        asked = {i: next((r for n, r in max_risk.items() if n in names[i]), None) for i in risks}
    else:
        asked = dict.fromkeys(risks, max_risk)
    if absent := [titles[i] for i, r in asked.items() if r is None]:
        raise ParameterError(f"max_risk gives no threshold for {listing(absent)}.")
    found = {}
    for i, r in asked.items():
        if isinstance(r, bool) or not isinstance(r, Real) or not 0 <= float(r) < math.inf:
            raise ParameterError(f"max_risk must be a number of at least 0; got {r!r}.")
        found[i] = float(r)
    return found


def _plain(measure: Measure) -> set[str]:
    return {measure.measure.label()} if isinstance(measure, Against) else set()


def anchors_of(
    measures: Sequence[Measure], titles: Sequence[str], utility: str | None, unmasked: Sequence[Numbers]
) -> dict[int, float]:
    """Return the utilities that count, with what each is divided by; see `Judge.anchors`."""
    own = [i for i, m in enumerate(measures) if m.side is Side.UTILITY]
    if utility is not None:
        known = {measures[i].label(): i for i in reversed(own)} | {titles[i]: i for i in own}
        if utility not in known:
            raise ParameterError(unknown_name("utility measure", utility, [titles[i] for i in own], "the search"))
        own = [known[utility]]
    if len(own) == 1:
        return {own[0]: 1.0}
    anchors = {i: float(measures[i].value(unmasked[i].mean(axis=0))) for i in own}
    if not all(0 < a < math.inf for a in anchors.values()):
        raise ParameterError(
            "several utilities are compared by their share of the unmasked file's, which is not a positive number for all of "
            f"{listing(titles[i] for i in own)}. Say which to maximise (maximise=...), or combine them (Weighted, Worst)."
        )
    return anchors
