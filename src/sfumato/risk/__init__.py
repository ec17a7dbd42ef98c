"""What a snooper learns: measures of disclosure risk, by family."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.risk.anonymity import DeltaPresence as DeltaPresence
    from sfumato.risk.anonymity import KAnonymity as KAnonymity
    from sfumato.risk.anonymity import KMap as KMap
    from sfumato.risk.attribute_risk import AttributeRisk as AttributeRisk
    from sfumato.risk.attribute_risk import CodedValueRisk as CodedValueRisk
    from sfumato.risk.attribution import CAP as CAP
    from sfumato.risk.attribution import TCAP as TCAP
    from sfumato.risk.attribution import WEAP as WEAP
    from sfumato.risk.attribution import Disco as Disco
    from sfumato.risk.classification import EqualWeights as EqualWeights
    from sfumato.risk.classification import GeometricWeights as GeometricWeights
    from sfumato.risk.classification import GivenWeights as GivenWeights
    from sfumato.risk.classification import PowerWeights as PowerWeights
    from sfumato.risk.classification import StabilityWeights as StabilityWeights
    from sfumato.risk.classification import ThresholdWeights as ThresholdWeights
    from sfumato.risk.classification import UniqueWeights as UniqueWeights
    from sfumato.risk.classification import WeightMatrix as WeightMatrix
    from sfumato.risk.closest_records import DCR as DCR
    from sfumato.risk.closest_records import IMS as IMS
    from sfumato.risk.closest_records import NNDR as NNDR
    from sfumato.risk.distinction import Distinction as Distinction
    from sfumato.risk.distinction import Separation as Separation
    from sfumato.risk.distinction import distinguishing_keys as distinguishing_keys
    from sfumato.risk.diversity import AlphaK as AlphaK
    from sfumato.risk.diversity import BetaLikeness as BetaLikeness
    from sfumato.risk.diversity import DeltaDisclosure as DeltaDisclosure
    from sfumato.risk.diversity import LDiversity as LDiversity
    from sfumato.risk.diversity import TCloseness as TCloseness
    from sfumato.risk.gdpr_risks import Inference as Inference
    from sfumato.risk.gdpr_risks import Linkability as Linkability
    from sfumato.risk.gdpr_risks import SinglingOut as SinglingOut
    from sfumato.risk.global_risk import GlobalRisk as GlobalRisk
    from sfumato.risk.global_risk import subset_risks as subset_risks
    from sfumato.risk.individual_risk import AnyIdentified as AnyIdentified
    from sfumato.risk.individual_risk import IndividualRisk as IndividualRisk
    from sfumato.risk.individual_risk import Reidentification as Reidentification
    from sfumato.risk.interval_disclosure import IntervalDisclosure as IntervalDisclosure
    from sfumato.risk.linkage import DistanceLinkage as DistanceLinkage
    from sfumato.risk.linkage import ProbabilisticLinkage as ProbabilisticLinkage
    from sfumato.risk.linkage import RankLinkage as RankLinkage
    from sfumato.risk.log_linear import LogLinearRisk as LogLinearRisk
    from sfumato.risk.membership import Membership as Membership
    from sfumato.risk.population_uniques import PopulationUniques as PopulationUniques
    from sfumato.risk.prediction_risk import RAPID as RAPID
    from sfumato.risk.prediction_risk import PredictionRisk as PredictionRisk
    from sfumato.risk.profile import RiskProfile as RiskProfile
    from sfumato.risk.profile import risk_profile as risk_profile
    from sfumato.risk.special_uniques import SUDA as SUDA
    from sfumato.risk.special_uniques import UnsafeCombinations as UnsafeCombinations
    from sfumato.risk.unique_matches import MatchRisk as MatchRisk
    from sfumato.risk.unique_matches import ReplicatedUniques as ReplicatedUniques
