"""The snooper as code: what he has, what he does with it, what he guesses."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.attacks.attribution import Attribution as Attribution
    from sfumato.attacks.holdout_attacks import InferValue as InferValue
    from sfumato.attacks.holdout_attacks import LinkColumns as LinkColumns
    from sfumato.attacks.holdout_attacks import SingleOut as SingleOut
    from sfumato.attacks.holdout_attacks import TellMembers as TellMembers
    from sfumato.attacks.linkage import LinkByDistance as LinkByDistance
    from sfumato.attacks.linkage import LinkByRank as LinkByRank
    from sfumato.attacks.linkage import LinkByWeight as LinkByWeight
    from sfumato.attacks.prediction import PredictByModel as PredictByModel
