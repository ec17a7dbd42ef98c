"""sfumato: statistical disclosure control, from a confidential file to a release that can be trusted.

The front door: names are imported when first used, so that ``import sfumato`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.lazily import lazily
from sfumato.version import VERSION

__version__ = VERSION

_HOMES = {
    "Attribute": "sfumato.schema", "Hierarchy": "sfumato.schema", "Role": "sfumato.schema", "Scale": "sfumato.schema",
    "Schema": "sfumato.schema",
    "Microdata": "sfumato.microdata",
    "Draws": "sfumato.contract", "Mask": "sfumato.contract", "Measure": "sfumato.contract", "Recipe": "sfumato.contract",
    "Release": "sfumato.contract", "Score": "sfumato.contract", "Snooper": "sfumato.contract",
    "Weighted": "sfumato.contract", "Worst": "sfumato.contract",
    "BottomCode": "sfumato.masks", "Identity": "sfumato.masks", "IndependentNoise": "sfumato.masks",
    "KimNoise": "sfumato.masks", "RemoveIdentifiers": "sfumato.masks", "TopCode": "sfumato.masks",
    "AttributeRisk": "sfumato.risk", "CodedValueRisk": "sfumato.risk", "IndividualRisk": "sfumato.risk",
    "KAnonymity": "sfumato.risk", "risk_profile": "sfumato.risk",
    "EstimatorUtility": "sfumato.utility",
    "NormalPopulation": "sfumato.rumap", "RUMap": "sfumato.rumap", "ru_map": "sfumato.rumap",
    "Range": "sfumato.decision", "search": "sfumato.decision",
    "Table": "sfumato.tables",
    "Policy": "sfumato.mas", "Vault": "sfumato.mas",
    "Report": "sfumato.reports",
    "SfumatoError": "sfumato.errors",
}  # fmt: skip

__all__ = ["__version__", *sorted(_HOMES)]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


if TYPE_CHECKING:
    from sfumato.contract import Draws as Draws
    from sfumato.contract import Mask as Mask
    from sfumato.contract import Measure as Measure
    from sfumato.contract import Recipe as Recipe
    from sfumato.contract import Release as Release
    from sfumato.contract import Score as Score
    from sfumato.contract import Snooper as Snooper
    from sfumato.contract import Weighted as Weighted
    from sfumato.contract import Worst as Worst
    from sfumato.decision import Range as Range
    from sfumato.decision import search as search
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.mas import Policy as Policy
    from sfumato.mas import Vault as Vault
    from sfumato.masks import BottomCode as BottomCode
    from sfumato.masks import Identity as Identity
    from sfumato.masks import IndependentNoise as IndependentNoise
    from sfumato.masks import KimNoise as KimNoise
    from sfumato.masks import RemoveIdentifiers as RemoveIdentifiers
    from sfumato.masks import TopCode as TopCode
    from sfumato.microdata import Microdata as Microdata
    from sfumato.reports import Report as Report
    from sfumato.risk import AttributeRisk as AttributeRisk
    from sfumato.risk import CodedValueRisk as CodedValueRisk
    from sfumato.risk import IndividualRisk as IndividualRisk
    from sfumato.risk import KAnonymity as KAnonymity
    from sfumato.risk import risk_profile as risk_profile
    from sfumato.rumap import NormalPopulation as NormalPopulation
    from sfumato.rumap import RUMap as RUMap
    from sfumato.rumap import ru_map as ru_map
    from sfumato.schema import Attribute as Attribute
    from sfumato.schema import Hierarchy as Hierarchy
    from sfumato.schema import Role as Role
    from sfumato.schema import Scale as Scale
    from sfumato.schema import Schema as Schema
    from sfumato.tables import Table as Table
    from sfumato.utility import EstimatorUtility as EstimatorUtility
