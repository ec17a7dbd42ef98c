"""The shapes: everything a newcomer must know to add a mask or a measure."""

from sfumato.contract.attack import Attack, Guesses, Success, success, wilson
from sfumato.contract.combine import Combination, Weighted, Worst
from sfumato.contract.draws import Draws, check_draws
from sfumato.contract.estimated import Estimated
from sfumato.contract.holdout import Holdout, hold_out
from sfumato.contract.mask import Mask, Method, Scope, categorical_targets, check_numbers, check_values, numeric_targets
from sfumato.contract.matrix import MatrixForm
from sfumato.contract.measure import Design, DirectMeasure, Measure, Need, reciprocal
from sfumato.contract.model import NoiseModel, ReleaseModel, check_covariance
from sfumato.contract.parameters import Parameter, Parametric, build, find, learned, param, registered
from sfumato.contract.recipe import Recipe, Step, run_steps
from sfumato.contract.release import Guarantee, Release
from sfumato.contract.score import Score, Side
from sfumato.contract.section import Figure, Section, Table
from sfumato.contract.snooper import Snooper
from sfumato.contract.subgroups import subgroups

__all__ = [
    "Attack", "Combination", "Design", "DirectMeasure", "Draws", "Estimated", "Figure", "Guarantee", "Guesses", "Holdout", "Mask",
    "MatrixForm", "Measure", "Method", "Need", "NoiseModel", "Parameter", "Parametric", "Recipe", "Release",
    "ReleaseModel", "Scope", "Score", "Section", "Side", "Snooper", "Step", "Success", "Table", "Weighted", "Worst",
    "build", "categorical_targets", "check_covariance", "check_draws", "check_numbers", "check_values", "find", "hold_out",
    "learned", "numeric_targets", "param", "reciprocal", "registered", "run_steps", "subgroups", "success", "wilson",
]  # fmt: skip
