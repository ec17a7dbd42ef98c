"""Deciding: inferential disclosure and matrix masks, the general disclosure-control model, and the search for the best recipe."""

from sfumato.decision.best_matrix_mask import BestMask, best_mask
from sfumato.decision.best_recipe import Family, Range, SearchChoice, SearchResult, search
from sfumato.decision.bivariate import BivariateMask, best_bivariate
from sfumato.decision.certainty import Certainty, RelativeCertainty, Risk, Utility, relative
from sfumato.decision.conditional import conditional_variance, explained
from sfumato.decision.exchangeable import ExchangeableRecords, SeenFile
from sfumato.decision.file_disclosure import InferentialRisk, inferential_risk
from sfumato.decision.inferential import Disclosure, InferentialDisclosure
from sfumato.decision.loss import Absolute, Loss, Quadratic, ZeroOne
from sfumato.decision.naive_masks import NaiveMask
from sfumato.decision.noisy_records import NoisyRecords
from sfumato.decision.observation import AddedNoise, Linear, Method, Observation, Publication
from sfumato.decision.prior import Normal, Sampled
from sfumato.decision.problem import Problem
from sfumato.decision.random_matrix import RandomMatrix
from sfumato.decision.release_region import RegionPicture, ReleaseRegion
from sfumato.decision.simple_rta import Published, SimpleRTA
from sfumato.decision.simulation import Estimate, Simulation
from sfumato.decision.solution import NoSolution, Solution
from sfumato.decision.target import Target, User, prior_uncertainty
from sfumato.decision.tradeoff import MaskTradeoff, mask_tradeoff
from sfumato.decision.uncertainty import Posterior, posterior, posterior_uncertainty
from sfumato.decision.verdict import Verdict

__all__ = [
    "Absolute", "AddedNoise", "BestMask", "BivariateMask", "Certainty", "Disclosure", "Estimate",
    "ExchangeableRecords", "Family", "InferentialDisclosure", "InferentialRisk", "Linear", "Loss", "MaskTradeoff",
    "Method", "NaiveMask", "NoSolution", "NoisyRecords", "Normal", "Observation", "Posterior", "Problem",
    "Publication", "Published", "Quadratic", "RandomMatrix", "Range", "RegionPicture", "RelativeCertainty",
    "ReleaseRegion", "Risk", "Sampled", "SearchChoice", "SearchResult", "SeenFile", "SimpleRTA", "Simulation",
    "Solution", "Target", "User", "Utility", "Verdict", "ZeroOne", "best_bivariate", "best_mask",
    "conditional_variance", "explained", "inferential_risk", "mask_tradeoff", "posterior", "posterior_uncertainty",
    "prior_uncertainty", "relative", "search",
]  # fmt: skip
