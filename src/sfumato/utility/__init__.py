"""What an analyst keeps: one measure, one file; and the estimators that analysts use."""

from sfumato.utility.ambiguity import Ambiguity
from sfumato.utility.average_class_size import AverageClassSize
from sfumato.utility.coefficient_difference import CoefficientDifference
from sfumato.utility.correlations import CorrelationsKept
from sfumato.utility.covariances import CovariancesKept
from sfumato.utility.discernibility import Discernibility
from sfumato.utility.eigenvalues import EigenvaluesKept
from sfumato.utility.energy_distance import EnergyDistance
from sfumato.utility.estimators import Estimator, Function, Mean, MeanCombination, Slope, as_estimator
from sfumato.utility.formula import Formula
from sfumato.utility.granularity import Granularity
from sfumato.utility.hellinger import Hellinger
from sfumato.utility.il1s import IL1s
from sfumato.utility.implicates import Combined, combine
from sfumato.utility.interval_overlap import IntervalOverlap
from sfumato.utility.joint_energy_distance import JointEnergyDistance
from sfumato.utility.kolmogorov_smirnov import KolmogorovSmirnov
from sfumato.utility.means import MeansKept
from sfumato.utility.mse import EstimatorUtility
from sfumato.utility.non_uniform_entropy import NonUniformEntropy
from sfumato.utility.pmse import PMSE
from sfumato.utility.pram_correction import PRAMCorrection, pram_correction
from sfumato.utility.quantile import Quantile
from sfumato.utility.spreads import SpreadsKept
from sfumato.utility.sse import VarianceKept
from sfumato.utility.summary import ReleaseSummary, release_summary
from sfumato.utility.table_distance import TableDistance
from sfumato.utility.total_variation import TotalVariation
from sfumato.utility.train_on_masked import TrainOnMasked
from sfumato.utility.wasserstein import Wasserstein

__all__ = [
    "PMSE",
    "Ambiguity",
    "AverageClassSize",
    "CoefficientDifference",
    "Combined",
    "CorrelationsKept",
    "CovariancesKept",
    "Discernibility",
    "EigenvaluesKept",
    "EnergyDistance",
    "Estimator",
    "EstimatorUtility",
    "Formula",
    "Function",
    "Granularity",
    "Hellinger",
    "IL1s",
    "IntervalOverlap",
    "JointEnergyDistance",
    "KolmogorovSmirnov",
    "Mean",
    "MeanCombination",
    "MeansKept",
    "NonUniformEntropy",
    "PRAMCorrection",
    "Quantile",
    "ReleaseSummary",
    "Slope",
    "SpreadsKept",
    "TableDistance",
    "TotalVariation",
    "TrainOnMasked",
    "VarianceKept",
    "Wasserstein",
    "as_estimator",
    "combine",
    "pram_correction",
    "release_summary",
]
