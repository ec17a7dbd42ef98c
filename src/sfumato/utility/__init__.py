"""What an analyst keeps: one measure, one file; and the estimators that analysts use."""

from sfumato.utility.estimators import Estimator, Function, Mean, MeanCombination, Slope, as_estimator
from sfumato.utility.formula import Formula
from sfumato.utility.implicates import Combined, combine
from sfumato.utility.mse import EstimatorUtility
from sfumato.utility.pram_correction import PRAMCorrection, pram_correction
from sfumato.utility.sse import VarianceKept

__all__ = [
    "Combined",
    "Estimator",
    "EstimatorUtility",
    "Formula",
    "Function",
    "Mean",
    "MeanCombination",
    "PRAMCorrection",
    "Slope",
    "VarianceKept",
    "as_estimator",
    "combine",
    "pram_correction",
]
