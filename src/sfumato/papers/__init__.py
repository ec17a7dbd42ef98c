"""The five papers behind sfumato: their theory, figures and experiments, and each of their statements with what implements it."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.papers.best_matrix_mask import BestMask as BestMask
    from sfumato.papers.best_matrix_mask import MaskTradeoff as MaskTradeoff
    from sfumato.papers.best_matrix_mask import NaiveMask as NaiveMask
    from sfumato.papers.best_matrix_mask import best_mask as best_mask
    from sfumato.papers.best_matrix_mask import mask_tradeoff as mask_tradeoff
    from sfumato.papers.conditional import RuleVerdict as RuleVerdict
    from sfumato.papers.conditional import conditional_variance as conditional_variance
    from sfumato.papers.conditional import explained as explained
    from sfumato.papers.disclosure_model import Absolute as Absolute
    from sfumato.papers.disclosure_model import AddedNoise as AddedNoise
    from sfumato.papers.disclosure_model import DisclosureMethod as DisclosureMethod
    from sfumato.papers.disclosure_model import Linear as Linear
    from sfumato.papers.disclosure_model import Loss as Loss
    from sfumato.papers.disclosure_model import Normal as Normal
    from sfumato.papers.disclosure_model import Observation as Observation
    from sfumato.papers.disclosure_model import Publication as Publication
    from sfumato.papers.disclosure_model import Quadratic as Quadratic
    from sfumato.papers.disclosure_model import Sampled as Sampled
    from sfumato.papers.disclosure_model import Target as Target
    from sfumato.papers.disclosure_model import User as User
    from sfumato.papers.disclosure_model import ZeroOne as ZeroOne
    from sfumato.papers.disclosure_model import prior_uncertainty as prior_uncertainty
    from sfumato.papers.disclosure_problem import NoisyRecords as NoisyRecords
    from sfumato.papers.disclosure_problem import NoSolution as NoSolution
    from sfumato.papers.disclosure_problem import Problem as Problem
    from sfumato.papers.disclosure_problem import Solution as Solution
    from sfumato.papers.drop_q_study import DropEvaluation as DropEvaluation
    from sfumato.papers.drop_q_study import DropRow as DropRow
    from sfumato.papers.drop_q_study import DropSimulation as DropSimulation
    from sfumato.papers.drop_q_study import Frequency as Frequency
    from sfumato.papers.drop_q_study import LargestCell as LargestCell
    from sfumato.papers.drop_q_study import evaluate_drops as evaluate_drops
    from sfumato.papers.drop_q_study import largest_cell as largest_cell
    from sfumato.papers.drop_q_study import simulate_drops as simulate_drops
    from sfumato.papers.exchangeable import ExchangeableRecords as ExchangeableRecords
    from sfumato.papers.exchangeable import SeenFile as SeenFile
    from sfumato.papers.file_disclosure import InferentialRisk as InferentialRisk
    from sfumato.papers.file_disclosure import inferential_risk as inferential_risk
    from sfumato.papers.global_risk_experiments import KeyExperiments as KeyExperiments
    from sfumato.papers.global_risk_experiments import key_experiments as key_experiments
    from sfumato.papers.global_risk_experiments import masking_floors as masking_floors
    from sfumato.papers.inferential import Disclosure as Disclosure
    from sfumato.papers.inferential import InferentialDisclosure as InferentialDisclosure
    from sfumato.papers.inferential import RandomMatrix as RandomMatrix
    from sfumato.papers.paper_rows import Paper as Paper
    from sfumato.papers.paper_rows import PaperRow as PaperRow
    from sfumato.papers.paper_rows import papers as papers
    from sfumato.papers.paper_rows import parse as parse
    from sfumato.papers.paper_rows import rows as rows
    from sfumato.papers.paper_rows import to_markdown as to_markdown
    from sfumato.papers.release_region import BivariateMask as BivariateMask
    from sfumato.papers.release_region import RegionPicture as RegionPicture
    from sfumato.papers.release_region import ReleaseRegion as ReleaseRegion
    from sfumato.papers.release_region import best_bivariate as best_bivariate
    from sfumato.papers.ru_paper import figure1 as figure1
    from sfumato.papers.ru_paper import figure2 as figure2
    from sfumato.papers.ru_paper import slope_map as slope_map
    from sfumato.papers.simple_rta import Published as Published
    from sfumato.papers.simple_rta import SimpleRTA as SimpleRTA
    from sfumato.papers.uncertainty import Certainty as Certainty
    from sfumato.papers.uncertainty import Posterior as Posterior
    from sfumato.papers.uncertainty import RelativeCertainties as RelativeCertainties
    from sfumato.papers.uncertainty import Risk as Risk
    from sfumato.papers.uncertainty import SimulatedEstimate as SimulatedEstimate
    from sfumato.papers.uncertainty import Simulation as Simulation
    from sfumato.papers.uncertainty import Utility as Utility
    from sfumato.papers.uncertainty import posterior as posterior
    from sfumato.papers.uncertainty import posterior_uncertainty as posterior_uncertainty
    from sfumato.papers.uncertainty import relative as relative
