"""The attack bench: every recipe of MAS.md, run against a policy."""

from sfumato.mas.attacks.amounts import AmountDifferencing, OutlierDifferencing
from sfumato.mas.attacks.budget import EverybodysBudget, WholeBudget, WholeBudgetSkewed
from sfumato.mas.attacks.cutpoints import MovedCutpoints
from sfumato.mas.attacks.differencing import Differencing
from sfumato.mas.attacks.dominant import DominantContributor
from sfumato.mas.attacks.equal_answers import EqualAnswers
from sfumato.mas.attacks.extremes import LargestQuantile
from sfumato.mas.attacks.individual import IndividualTracker
from sfumato.mas.attacks.models import ModelDifferencing
from sfumato.mas.attacks.narrow import NarrowDifferencing
from sfumato.mas.attacks.padded import PaddedPairs
from sfumato.mas.attacks.picture import PictureDifferencing, RepeatedPicture
from sfumato.mas.attacks.probes import Probes
from sfumato.mas.attacks.refusals import RefusalOracle
from sfumato.mas.attacks.rewording import Rewording
from sfumato.mas.attacks.saturated import SaturatedModel
from sfumato.mas.attacks.separation import Separation
from sfumato.mas.attacks.skewed import SkewedDifferencing
from sfumato.mas.attacks.standard_errors import StandardErrors
from sfumato.mas.attacks.timing import Timing
from sfumato.mas.attacks.tracker import GeneralTracker

__all__ = [
    "AmountDifferencing", "Differencing", "DominantContributor", "EqualAnswers", "EverybodysBudget", "GeneralTracker",
    "IndividualTracker", "LargestQuantile", "ModelDifferencing", "MovedCutpoints", "NarrowDifferencing", "OutlierDifferencing",
    "PaddedPairs", "PictureDifferencing", "Probes", "RefusalOracle", "RepeatedPicture", "Rewording", "SaturatedModel",
    "Separation", "SkewedDifferencing", "StandardErrors", "Timing", "WholeBudget", "WholeBudgetSkewed",
]  # fmt: skip
