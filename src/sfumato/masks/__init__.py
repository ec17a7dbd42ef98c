"""Masking methods: one method, one file."""

from sfumato.masks.add_simulated import AddSimulatedRecords
from sfumato.masks.aggregate_columns import AggregateColumns
from sfumato.masks.aggregate_records import AggregateRecords
from sfumato.masks.bounded_noise import BoundedNoise
from sfumato.masks.change_rare import ChangeRare
from sfumato.masks.cluster_microaggregation import ClusterMicroaggregation
from sfumato.masks.copula_synthesis import CopulaSynthesis
from sfumato.masks.corrected_noise import CorrectedNoise
from sfumato.masks.data_swap import DataSwap
from sfumato.masks.displace import Displace
from sfumato.masks.gadp import GADP
from sfumato.masks.gaussian_mechanism import GaussianMechanism
from sfumato.masks.generalise import Generalise
from sfumato.masks.gower_microaggregation import GowerMicroaggregation
from sfumato.masks.identity import Identity
from sfumato.masks.individual_ranking import IndividualRanking
from sfumato.masks.kim_transformation import KimTransformation
from sfumato.masks.laplace_noise import LaplaceNoise
from sfumato.masks.matrix_mask import MatrixMask
from sfumato.masks.mdav import MDAV
from sfumato.masks.merge_rare import MergeRare
from sfumato.masks.multiplicative_noise import MultiplicativeNoise
from sfumato.masks.multiply_columns import MultiplyColumns
from sfumato.masks.multiply_records import MultiplyRecords
from sfumato.masks.multivariate_top_code import MultivariateTopCode
from sfumato.masks.noise import IndependentNoise, KimNoise
from sfumato.masks.normal_synthesis import FullNormalSynthesis, NormalSynthesis
from sfumato.masks.optimal_univariate import OptimalUnivariate
from sfumato.masks.outlier_noise import OutlierNoise
from sfumato.masks.pram import PRAM, published_matrix
from sfumato.masks.projection_microaggregation import ProjectionMicroaggregation
from sfumato.masks.pseudonyms import Pseudonyms
from sfumato.masks.random_aggregation import RandomAggregation
from sfumato.masks.random_order import RandomOrder
from sfumato.masks.rank_swap import RankSwap
from sfumato.masks.recode import Recode
from sfumato.masks.recode_rare import RecodeRare
from sfumato.masks.remove_identifiers import RemoveIdentifiers
from sfumato.masks.robust_microaggregation import RobustMicroaggregation
from sfumato.masks.romm import ROMM
from sfumato.masks.round import RandomRound, Round
from sfumato.masks.sample import Sample
from sfumato.masks.shuffle import Shuffle
from sfumato.masks.stratified_sample import StratifiedSample
from sfumato.masks.structured_noise import StructuredNoise
from sfumato.masks.suppress_columns import SuppressColumns
from sfumato.masks.suppress_records import SuppressExtremes, SuppressRecords, SuppressSmallAreas
from sfumato.masks.suppress_values import SuppressValues
from sfumato.masks.top_code import BottomCode, TopCode
from sfumato.masks.truncate import Truncate
from sfumato.masks.v_mdav import VMDAV
from sfumato.masks.weighted_sample import WeightedSample

__all__ = [
    "GADP",
    "MDAV",
    "PRAM",
    "ROMM",
    "VMDAV",
    "AddSimulatedRecords",
    "AggregateColumns",
    "AggregateRecords",
    "BottomCode",
    "BoundedNoise",
    "ChangeRare",
    "ClusterMicroaggregation",
    "CopulaSynthesis",
    "CorrectedNoise",
    "DataSwap",
    "Displace",
    "FullNormalSynthesis",
    "GaussianMechanism",
    "Generalise",
    "GowerMicroaggregation",
    "Identity",
    "IndependentNoise",
    "IndividualRanking",
    "KimNoise",
    "KimTransformation",
    "LaplaceNoise",
    "MatrixMask",
    "MergeRare",
    "MultiplicativeNoise",
    "MultiplyColumns",
    "MultiplyRecords",
    "MultivariateTopCode",
    "NormalSynthesis",
    "OptimalUnivariate",
    "OutlierNoise",
    "ProjectionMicroaggregation",
    "Pseudonyms",
    "RandomAggregation",
    "RandomOrder",
    "RandomRound",
    "RankSwap",
    "Recode",
    "RecodeRare",
    "RemoveIdentifiers",
    "RobustMicroaggregation",
    "Round",
    "Sample",
    "Shuffle",
    "StratifiedSample",
    "StructuredNoise",
    "SuppressColumns",
    "SuppressExtremes",
    "SuppressRecords",
    "SuppressSmallAreas",
    "SuppressValues",
    "TopCode",
    "Truncate",
    "WeightedSample",
    "published_matrix",
]
