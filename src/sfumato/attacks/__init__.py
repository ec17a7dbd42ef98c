"""The snooper as code: what he has, what he does with it, what he guesses."""

from sfumato.attacks.attribution import Attribution
from sfumato.attacks.distance_linkage import LinkByDistance
from sfumato.attacks.inference import InferValue
from sfumato.attacks.linkability import LinkColumns
from sfumato.attacks.membership import TellMembers
from sfumato.attacks.model import PredictByModel
from sfumato.attacks.probabilistic_linkage import LinkByWeight
from sfumato.attacks.rank_linkage import LinkByRank
from sfumato.attacks.singling_out import SingleOut

__all__ = [
    "Attribution",
    "InferValue",
    "LinkByDistance",
    "LinkByRank",
    "LinkByWeight",
    "LinkColumns",
    "PredictByModel",
    "SingleOut",
    "TellMembers",
]
