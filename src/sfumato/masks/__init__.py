"""Masking methods, by family."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.masks.add_simulated import AddSimulatedRecords as AddSimulatedRecords
    from sfumato.masks.aggregation import AggregateColumns as AggregateColumns
    from sfumato.masks.aggregation import AggregateRecords as AggregateRecords
    from sfumato.masks.aggregation import RandomAggregation as RandomAggregation
    from sfumato.masks.anonymity.full_domain import FullDomainRecoding as FullDomainRecoding
    from sfumato.masks.anonymity.local_recoding import LocalRecoding as LocalRecoding
    from sfumato.masks.anonymity.mondrian import Mondrian as Mondrian
    from sfumato.masks.anonymity.safe_pub import SafePub as SafePub
    from sfumato.masks.coding import BottomCode as BottomCode
    from sfumato.masks.coding import MultivariateTopCode as MultivariateTopCode
    from sfumato.masks.coding import TopCode as TopCode
    from sfumato.masks.coding import Truncate as Truncate
    from sfumato.masks.copula_synthesis import CopulaSynthesis as CopulaSynthesis
    from sfumato.masks.corrected_noise import CorrectedNoise as CorrectedNoise
    from sfumato.masks.corrected_noise import KimTransformation as KimTransformation
    from sfumato.masks.dates import AgeAt as AgeAt
    from sfumato.masks.dates import ShiftDates as ShiftDates
    from sfumato.masks.gadp import GADP as GADP
    from sfumato.masks.gadp import IPSO as IPSO
    from sfumato.masks.gower_microaggregation import GowerMicroaggregation as GowerMicroaggregation
    from sfumato.masks.identifiers import Identity as Identity
    from sfumato.masks.identifiers import Pseudonyms as Pseudonyms
    from sfumato.masks.identifiers import RandomOrder as RandomOrder
    from sfumato.masks.identifiers import RemoveIdentifiers as RemoveIdentifiers
    from sfumato.masks.local_privacy import GaussianMechanism as GaussianMechanism
    from sfumato.masks.local_privacy import LaplaceNoise as LaplaceNoise
    from sfumato.masks.local_suppression import LocalSuppression as LocalSuppression
    from sfumato.masks.local_suppression import RiskSuppression as RiskSuppression
    from sfumato.masks.marginal_synthesis import MarginalSynthesis as MarginalSynthesis
    from sfumato.masks.matrix_mask import ROMM as ROMM
    from sfumato.masks.matrix_mask import Displace as Displace
    from sfumato.masks.matrix_mask import MatrixMask as MatrixMask
    from sfumato.masks.matrix_mask import MultiplyColumns as MultiplyColumns
    from sfumato.masks.matrix_mask import MultiplyRecords as MultiplyRecords
    from sfumato.masks.microaggregation import MDAV as MDAV
    from sfumato.masks.microaggregation import VMDAV as VMDAV
    from sfumato.masks.microaggregation import ClusterMicroaggregation as ClusterMicroaggregation
    from sfumato.masks.microaggregation import IndividualRanking as IndividualRanking
    from sfumato.masks.microaggregation import OptimalUnivariate as OptimalUnivariate
    from sfumato.masks.microaggregation import ProjectionMicroaggregation as ProjectionMicroaggregation
    from sfumato.masks.microaggregation import RobustMicroaggregation as RobustMicroaggregation
    from sfumato.masks.noise import BoundedNoise as BoundedNoise
    from sfumato.masks.noise import IndependentNoise as IndependentNoise
    from sfumato.masks.noise import KimNoise as KimNoise
    from sfumato.masks.noise import MultiplicativeNoise as MultiplicativeNoise
    from sfumato.masks.noise import StructuredNoise as StructuredNoise
    from sfumato.masks.normal_synthesis import FullNormalSynthesis as FullNormalSynthesis
    from sfumato.masks.normal_synthesis import NormalSynthesis as NormalSynthesis
    from sfumato.masks.outlier_noise import OutlierNoise as OutlierNoise
    from sfumato.masks.pram import PRAM as PRAM
    from sfumato.masks.pram import published_matrix as published_matrix
    from sfumato.masks.rare_categories import ChangeRare as ChangeRare
    from sfumato.masks.rare_categories import MergeRare as MergeRare
    from sfumato.masks.rare_categories import RecodeRare as RecodeRare
    from sfumato.masks.recoding import Generalise as Generalise
    from sfumato.masks.recoding import Recode as Recode
    from sfumato.masks.record_swap import RecordSwap as RecordSwap
    from sfumato.masks.record_swap import Substitution as Substitution
    from sfumato.masks.rounding import RandomRound as RandomRound
    from sfumato.masks.rounding import Round as Round
    from sfumato.masks.sampling import Sample as Sample
    from sfumato.masks.sampling import StratifiedSample as StratifiedSample
    from sfumato.masks.sampling import WeightedSample as WeightedSample
    from sfumato.masks.shuffle import Shuffle as Shuffle
    from sfumato.masks.suppression import SuppressColumns as SuppressColumns
    from sfumato.masks.suppression import SuppressExtremes as SuppressExtremes
    from sfumato.masks.suppression import SuppressRecords as SuppressRecords
    from sfumato.masks.suppression import SuppressSmallAreas as SuppressSmallAreas
    from sfumato.masks.suppression import SuppressValues as SuppressValues
    from sfumato.masks.swapping import DataSwap as DataSwap
    from sfumato.masks.swapping import RankSwap as RankSwap
    from sfumato.masks.tree_synthesis import FullTreeSynthesis as FullTreeSynthesis
    from sfumato.masks.tree_synthesis import TreeSynthesis as TreeSynthesis
