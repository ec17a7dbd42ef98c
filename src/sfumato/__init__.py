"""sfumato: statistical disclosure control, from a confidential file to a release that can be trusted.

The front door: names are imported when first used, so that ``import sfumato`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sfumato.version import VERSION as __version__

_HOMES = {
    "Attribute": "sfumato.schema", "Hierarchy": "sfumato.schema", "Role": "sfumato.schema", "Scale": "sfumato.schema",
    "Schema": "sfumato.schema",
    "Microdata": "sfumato.microdata",
    "Draws": "sfumato.contract", "Mask": "sfumato.contract", "Measure": "sfumato.contract", "Recipe": "sfumato.contract",
    "Release": "sfumato.contract", "Score": "sfumato.contract", "Snooper": "sfumato.contract",
    "Weighted": "sfumato.contract", "Worst": "sfumato.contract",
    "BottomCode": "sfumato.masks", "Identity": "sfumato.masks", "IndependentNoise": "sfumato.masks",
    "KimNoise": "sfumato.masks", "RemoveIdentifiers": "sfumato.masks", "TopCode": "sfumato.masks",
    "AttributeRisk": "sfumato.risk", "CodedValueRisk": "sfumato.risk",
    "EstimatorUtility": "sfumato.utility",
    "NormalPopulation": "sfumato.rumap", "RUMap": "sfumato.rumap", "ru_map": "sfumato.rumap",
    "Report": "sfumato.reports",
    "SfumatoError": "sfumato.errors",
}  # fmt: skip

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sfumato' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


if TYPE_CHECKING:
    from sfumato.contract import Draws, Mask, Measure, Recipe, Release, Score, Snooper, Weighted, Worst
    from sfumato.errors import SfumatoError
    from sfumato.masks import BottomCode, Identity, IndependentNoise, KimNoise, RemoveIdentifiers, TopCode
    from sfumato.microdata import Microdata
    from sfumato.reports import Report
    from sfumato.risk import AttributeRisk, CodedValueRisk
    from sfumato.rumap import NormalPopulation, RUMap, ru_map
    from sfumato.schema import Attribute, Hierarchy, Role, Scale, Schema
    from sfumato.utility import EstimatorUtility
