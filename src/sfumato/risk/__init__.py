"""What a snooper learns: one measure, one file."""

from sfumato.risk.alpha_k import AlphaK
from sfumato.risk.any_identified import AnyIdentified
from sfumato.risk.attribute import AttributeRisk
from sfumato.risk.beta_likeness import BetaLikeness
from sfumato.risk.cap import CAP
from sfumato.risk.closest_records import DCR, NNDR
from sfumato.risk.coded_value import CodedValueRisk
from sfumato.risk.delta_disclosure import DeltaDisclosure
from sfumato.risk.delta_presence import DeltaPresence
from sfumato.risk.disco import Disco
from sfumato.risk.distinction import Distinction, Separation, distinguishing_keys
from sfumato.risk.global_risk import GlobalRisk, subset_risks
from sfumato.risk.identical_matches import IMS
from sfumato.risk.individual_risk import IndividualRisk
from sfumato.risk.inference import Inference
from sfumato.risk.interval_disclosure import IntervalDisclosure
from sfumato.risk.k_anonymity import KAnonymity
from sfumato.risk.k_map import KMap
from sfumato.risk.l_diversity import LDiversity
from sfumato.risk.linkability import Linkability
from sfumato.risk.linkage import DistanceLinkage, ProbabilisticLinkage, RankLinkage
from sfumato.risk.log_linear import LogLinearRisk
from sfumato.risk.match_risk import MatchRisk
from sfumato.risk.membership import Membership
from sfumato.risk.population_uniques import PopulationUniques
from sfumato.risk.prediction_risk import PredictionRisk
from sfumato.risk.profile import RiskProfile, risk_profile
from sfumato.risk.rapid import RAPID
from sfumato.risk.reidentification import Reidentification
from sfumato.risk.replicated_uniques import ReplicatedUniques
from sfumato.risk.singling_out import SinglingOut
from sfumato.risk.suda import SUDA
from sfumato.risk.t_closeness import TCloseness
from sfumato.risk.tcap import TCAP
from sfumato.risk.unsafe_combinations import UnsafeCombinations
from sfumato.risk.weap import WEAP
from sfumato.risk.weight_matrices import (
    EqualWeights,
    GeometricWeights,
    GivenWeights,
    PowerWeights,
    StabilityWeights,
    ThresholdWeights,
    UniqueWeights,
    WeightMatrix,
)

__all__ = [
    "CAP",
    "DCR",
    "IMS",
    "NNDR",
    "RAPID",
    "SUDA",
    "TCAP",
    "WEAP",
    "AlphaK",
    "AnyIdentified",
    "AttributeRisk",
    "BetaLikeness",
    "CodedValueRisk",
    "DeltaDisclosure",
    "DeltaPresence",
    "Disco",
    "DistanceLinkage",
    "Distinction",
    "EqualWeights",
    "GeometricWeights",
    "GivenWeights",
    "GlobalRisk",
    "IndividualRisk",
    "Inference",
    "IntervalDisclosure",
    "KAnonymity",
    "KMap",
    "LDiversity",
    "Linkability",
    "LogLinearRisk",
    "MatchRisk",
    "Membership",
    "PopulationUniques",
    "PowerWeights",
    "PredictionRisk",
    "ProbabilisticLinkage",
    "RankLinkage",
    "Reidentification",
    "ReplicatedUniques",
    "RiskProfile",
    "Separation",
    "SinglingOut",
    "StabilityWeights",
    "TCloseness",
    "ThresholdWeights",
    "UniqueWeights",
    "UnsafeCombinations",
    "WeightMatrix",
    "distinguishing_keys",
    "risk_profile",
    "subset_risks",
]
