"""The attack bench: every recipe of MAS.md, run against a policy."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.mas.attacks.budget import EverybodysBudget as EverybodysBudget
    from sfumato.mas.attacks.budget import WholeBudget as WholeBudget
    from sfumato.mas.attacks.budget import WholeBudgetSkewed as WholeBudgetSkewed
    from sfumato.mas.attacks.differencing import AmountDifferencing as AmountDifferencing
    from sfumato.mas.attacks.differencing import Differencing as Differencing
    from sfumato.mas.attacks.differencing import DominantContributor as DominantContributor
    from sfumato.mas.attacks.differencing import EqualAnswers as EqualAnswers
    from sfumato.mas.attacks.differencing import LargestQuantile as LargestQuantile
    from sfumato.mas.attacks.differencing import ModelDifferencing as ModelDifferencing
    from sfumato.mas.attacks.differencing import MovedCutpoints as MovedCutpoints
    from sfumato.mas.attacks.differencing import NarrowDifferencing as NarrowDifferencing
    from sfumato.mas.attacks.differencing import OutlierDifferencing as OutlierDifferencing
    from sfumato.mas.attacks.differencing import PaddedPairs as PaddedPairs
    from sfumato.mas.attacks.differencing import SkewedDifferencing as SkewedDifferencing
    from sfumato.mas.attacks.leaks import RefusalReasons as RefusalReasons
    from sfumato.mas.attacks.leaks import RefusalReasonsCombined as RefusalReasonsCombined
    from sfumato.mas.attacks.leaks import TopCodeTable as TopCodeTable
    from sfumato.mas.attacks.leaks import VersionAccount as VersionAccount
    from sfumato.mas.attacks.leaks import VersionAmounts as VersionAmounts
    from sfumato.mas.attacks.leaks import VersionDifferencing as VersionDifferencing
    from sfumato.mas.attacks.linear_attacks import InformedBudget as InformedBudget
    from sfumato.mas.attacks.linear_attacks import InformedEverybody as InformedEverybody
    from sfumato.mas.attacks.linear_attacks import KnownAmountCorrelations as KnownAmountCorrelations
    from sfumato.mas.attacks.linear_attacks import KnownAmountSlopes as KnownAmountSlopes
    from sfumato.mas.attacks.linear_attacks import KnownAmountSums as KnownAmountSums
    from sfumato.mas.attacks.linear_attacks import KnownAmountSumsEverybody as KnownAmountSumsEverybody
    from sfumato.mas.attacks.model_attacks import PictureDifferencing as PictureDifferencing
    from sfumato.mas.attacks.model_attacks import Probes as Probes
    from sfumato.mas.attacks.model_attacks import RepeatedPicture as RepeatedPicture
    from sfumato.mas.attacks.model_attacks import SaturatedModel as SaturatedModel
    from sfumato.mas.attacks.model_attacks import SeparationAttack as SeparationAttack
    from sfumato.mas.attacks.model_attacks import StandardErrors as StandardErrors
    from sfumato.mas.attacks.trackers import GeneralTracker as GeneralTracker
    from sfumato.mas.attacks.trackers import IndividualTracker as IndividualTracker
    from sfumato.mas.attacks.trackers import RefusalOracle as RefusalOracle
    from sfumato.mas.attacks.trackers import Rewording as Rewording
    from sfumato.mas.attacks.trackers import Timing as Timing
