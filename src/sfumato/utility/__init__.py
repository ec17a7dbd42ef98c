"""What an analyst keeps: one measure, one file; and the estimators that analysts use."""

from sfumato.utility.estimators import Estimator, Function, Mean, MeanCombination, Slope, as_estimator
from sfumato.utility.formula import Formula
from sfumato.utility.mse import EstimatorUtility
from sfumato.utility.sse import VarianceKept

__all__ = [
    "Estimator",
    "EstimatorUtility",
    "Formula",
    "Function",
    "Mean",
    "MeanCombination",
    "Slope",
    "VarianceKept",
    "as_estimator",
]
