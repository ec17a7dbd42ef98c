"""The shapes: everything a newcomer must know to add a mask or a measure."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.contract.class_model import AtMost as AtMost
    from sfumato.contract.class_model import CandidateClasses as CandidateClasses
    from sfumato.contract.class_model import ClassModel as ClassModel
    from sfumato.contract.class_model import ClassValues as ClassValues
    from sfumato.contract.draws import Draws as Draws
    from sfumato.contract.draws import check_draws as check_draws
    from sfumato.contract.mask import Mask as Mask
    from sfumato.contract.mask import Method as Method
    from sfumato.contract.mask import Recipe as Recipe
    from sfumato.contract.mask import Step as Step
    from sfumato.contract.mask import categorical_targets as categorical_targets
    from sfumato.contract.mask import check_numbers as check_numbers
    from sfumato.contract.mask import check_values as check_values
    from sfumato.contract.mask import numeric_targets as numeric_targets
    from sfumato.contract.mask import run_steps as run_steps
    from sfumato.contract.matrix import MatrixForm as MatrixForm
    from sfumato.contract.measure import Combination as Combination
    from sfumato.contract.measure import Design as Design
    from sfumato.contract.measure import DirectMeasure as DirectMeasure
    from sfumato.contract.measure import Estimated as Estimated
    from sfumato.contract.measure import Measure as Measure
    from sfumato.contract.measure import Need as Need
    from sfumato.contract.measure import Weighted as Weighted
    from sfumato.contract.measure import Worst as Worst
    from sfumato.contract.measure import reciprocal as reciprocal
    from sfumato.contract.parameters import Parameter as Parameter
    from sfumato.contract.parameters import Parametric as Parametric
    from sfumato.contract.parameters import Scope as Scope
    from sfumato.contract.parameters import build as build
    from sfumato.contract.parameters import find as find
    from sfumato.contract.parameters import learned as learned
    from sfumato.contract.parameters import param as param
    from sfumato.contract.parameters import registered as registered
    from sfumato.contract.release import Guarantee as Guarantee
    from sfumato.contract.release import Holdout as Holdout
    from sfumato.contract.release import Release as Release
    from sfumato.contract.release import hold_out as hold_out
    from sfumato.contract.release import subgroups as subgroups
    from sfumato.contract.release_model import NoiseModel as NoiseModel
    from sfumato.contract.release_model import ReleaseModel as ReleaseModel
    from sfumato.contract.release_model import check_covariance as check_covariance
    from sfumato.contract.score import Figure as Figure
    from sfumato.contract.score import Score as Score
    from sfumato.contract.score import Section as Section
    from sfumato.contract.score import Side as Side
    from sfumato.contract.score import TextTable as TextTable
    from sfumato.contract.snooper import Attack as Attack
    from sfumato.contract.snooper import Guesses as Guesses
    from sfumato.contract.snooper import Snooper as Snooper
    from sfumato.contract.snooper import Success as Success
    from sfumato.contract.snooper import success as success
    from sfumato.contract.snooper import wilson as wilson
