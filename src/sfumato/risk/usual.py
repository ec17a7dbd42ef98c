"""The measures that a custodian usually wants of a file."""

from __future__ import annotations

from typing import Literal

from sfumato.classes import Missing
from sfumato.contract import Measure, Release, Snooper
from sfumato.engines import Kind
from sfumato.risk.any_identified import AnyIdentified
from sfumato.risk.attribute import AttributeRisk
from sfumato.risk.cap import CAP
from sfumato.risk.closest_records import DCR
from sfumato.risk.delta_presence import DeltaPresence
from sfumato.risk.global_risk import GlobalRisk
from sfumato.risk.identical_matches import IMS
from sfumato.risk.individual_risk import IndividualRisk
from sfumato.risk.interval_disclosure import IntervalDisclosure
from sfumato.risk.k_anonymity import KAnonymity
from sfumato.risk.k_map import KMap
from sfumato.risk.l_diversity import LDiversity
from sfumato.risk.linkage import DistanceLinkage
from sfumato.risk.log_linear import LogLinearRisk
from sfumato.risk.match_risk import MatchRisk
from sfumato.risk.membership import Membership
from sfumato.risk.population_uniques import PopulationUniques
from sfumato.risk.reidentification import Reidentification
from sfumato.risk.suda import SUDA
from sfumato.risk.t_closeness import TCloseness

LINKED = 100_000
"""Linkage takes its time; of larger files it is worked out only when it is asked for."""


def usual_measures(
    outcome: Release, snooper: Snooper, k: int, missing: Missing, fraction: float | None
) -> list[Measure]:
    """Return the measures to try: from counts, within classes, and where they apply against an original or a holdout."""
    measures = [*_identity(outcome, snooper, k, missing, fraction), *_within_classes(outcome, missing)]
    if outcome.changed:
        measures += _against_original(outcome, missing)
    if outcome.holdout is not None:
        measures += [DCR(), IMS(), Membership()]
    return measures


def _identity(outcome: Release, snooper: Snooper, k: int, missing: Missing, fraction: float | None) -> list[Measure]:
    schema = outcome.masked.schema
    sample = fraction is not None or schema.one("weight") is not None
    measures: list[Measure] = [KAnonymity(k=k, missing=missing), Reidentification(missing=missing)]
    if snooper.population is not None:
        measures += [
            KMap(k=k, missing=missing),
            Reidentification(attacker="journalist", missing=missing),
            DeltaPresence(missing=missing),
        ]
    measures.append(IndividualRisk(fraction=fraction, missing=missing))
    if schema.one("household") is not None:
        measures.append(IndividualRisk(per="household", fraction=fraction, missing=missing))
    attacker: Literal["journalist", "prosecutor"] = (
        "journalist" if sample or snooper.population is not None else "prosecutor"
    )
    measures.append(AnyIdentified(attacker=attacker, fraction=fraction, missing=missing))
    if sample:
        measures += [
            MatchRisk(fraction=fraction, missing=missing),
            LogLinearRisk(fraction=fraction, missing=missing),
            PopulationUniques(fraction=fraction, missing=missing),
        ]
    return [*measures, SUDA(missing=missing)]


def _within_classes(outcome: Release, missing: Missing) -> list[Measure]:
    confidential = _confidential(outcome)
    few = [name for name, kind in confidential.items() if kind is not Kind.NUMBER]
    diverse: list[Measure] = [LDiversity(over=(name,), missing=missing) for name in few]
    return diverse + [TCloseness(column=name, missing=missing) for name in confidential]


def _against_original(outcome: Release, missing: Missing) -> list[Measure]:
    confidential = _confidential(outcome)
    compared: list[Measure] = [GlobalRisk(kind="max", missing=missing), GlobalRisk(kind="min", missing=missing)]
    if len(outcome.masked) <= LINKED:
        compared.append(DistanceLinkage())
    if Kind.NUMBER in confidential.values():
        compared.append(IntervalDisclosure(within="any"))
    for name, kind in confidential.items():
        compared.append(AttributeRisk(name) if kind is Kind.NUMBER else CAP(column=name, missing=missing))
    return compared


def _confidential(outcome: Release) -> dict[str, Kind]:
    kinds = outcome.masked.engine.kinds
    plain = (Kind.NUMBER, Kind.CATEGORY, Kind.BOOLEAN)
    names = [n for n in outcome.original.schema.names(role="confidential") if n in kinds]
    return {name: kinds[name] for name in names if kinds[name] in plain}
