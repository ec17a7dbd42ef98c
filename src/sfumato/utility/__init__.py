"""What an analyst keeps: measures of utility, by family, and the estimators that analysts use."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.utility.distances import EnergyDistance as EnergyDistance
    from sfumato.utility.distances import Hellinger as Hellinger
    from sfumato.utility.distances import JointEnergyDistance as JointEnergyDistance
    from sfumato.utility.distances import KolmogorovSmirnov as KolmogorovSmirnov
    from sfumato.utility.distances import TableDistance as TableDistance
    from sfumato.utility.distances import TotalVariation as TotalVariation
    from sfumato.utility.distances import Wasserstein as Wasserstein
    from sfumato.utility.estimator_utility import EstimatorUtility as EstimatorUtility
    from sfumato.utility.estimator_utility import PRAMCorrection as PRAMCorrection
    from sfumato.utility.estimator_utility import Quantile as Quantile
    from sfumato.utility.estimator_utility import pram_correction as pram_correction
    from sfumato.utility.estimators import Estimator as Estimator
    from sfumato.utility.estimators import Formula as Formula
    from sfumato.utility.estimators import Function as Function
    from sfumato.utility.estimators import Mean as Mean
    from sfumato.utility.estimators import MeanCombination as MeanCombination
    from sfumato.utility.estimators import Slope as Slope
    from sfumato.utility.estimators import as_estimator as as_estimator
    from sfumato.utility.moments import CorrelationsKept as CorrelationsKept
    from sfumato.utility.moments import CovariancesKept as CovariancesKept
    from sfumato.utility.moments import EigenvaluesKept as EigenvaluesKept
    from sfumato.utility.moments import MeansKept as MeansKept
    from sfumato.utility.moments import SpreadsKept as SpreadsKept
    from sfumato.utility.propensity import PMSE as PMSE
    from sfumato.utility.recoding_loss import Ambiguity as Ambiguity
    from sfumato.utility.recoding_loss import AverageClassSize as AverageClassSize
    from sfumato.utility.recoding_loss import Discernibility as Discernibility
    from sfumato.utility.recoding_loss import Granularity as Granularity
    from sfumato.utility.recoding_loss import NonUniformEntropy as NonUniformEntropy
    from sfumato.utility.record_changes import IL1s as IL1s
    from sfumato.utility.record_changes import VarianceKept as VarianceKept
    from sfumato.utility.regression import CoefficientDifference as CoefficientDifference
    from sfumato.utility.regression import Combined as Combined
    from sfumato.utility.regression import IntervalOverlap as IntervalOverlap
    from sfumato.utility.regression import combine as combine
    from sfumato.utility.summary import ReleaseSummary as ReleaseSummary
    from sfumato.utility.summary import release_summary as release_summary
    from sfumato.utility.train_on_masked import TrainOnMasked as TrainOnMasked
