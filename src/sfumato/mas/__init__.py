"""The Microdata Analysis System: analyses on confidential microdata whose answers disclose nobody."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.mas.analyses.distributions import Histogram as Histogram
    from sfumato.mas.analyses.distributions import Quantiles as Quantiles
    from sfumato.mas.analyses.inequality import Inequality as Inequality
    from sfumato.mas.analyses.inequality import ShareBelow as ShareBelow
    from sfumato.mas.analyses.survival import Cox as Cox
    from sfumato.mas.analyses.survival import KaplanMeier as KaplanMeier
    from sfumato.mas.analyses.tables import CrossTab as CrossTab
    from sfumato.mas.analyses.tests import ANOVA as ANOVA
    from sfumato.mas.analyses.tests import Independence as Independence
    from sfumato.mas.analyses.tests import RankTest as RankTest
    from sfumato.mas.analyses.tests import TTest as TTest
    from sfumato.mas.answer import Answer as Answer
    from sfumato.mas.answer import Refusal as Refusal
    from sfumato.mas.attacks.bench import Bench as Bench
    from sfumato.mas.cutpoint_strategies import Fixed as Fixed
    from sfumato.mas.cutpoint_strategies import Hybrid as Hybrid
    from sfumato.mas.cutpoint_strategies import Increasing as Increasing
    from sfumato.mas.cutpoint_strategies import Minimum as Minimum
    from sfumato.mas.cutpoint_strategies import Partitioned as Partitioned
    from sfumato.mas.cutpoint_strategies import Preview as Preview
    from sfumato.mas.cutpoint_strategies import preview as preview
    from sfumato.mas.cutpoints import Cutpoints as Cutpoints
    from sfumato.mas.cutpoints import CutpointStrategy as CutpointStrategy
    from sfumato.mas.cutpoints import ValueCounts as ValueCounts
    from sfumato.mas.drop_q import CellTable as CellTable
    from sfumato.mas.drop_q import CleanTables as CleanTables
    from sfumato.mas.drop_q import Drop as Drop
    from sfumato.mas.drop_q import DropEnough as DropEnough
    from sfumato.mas.drop_q import DropQ as DropQ
    from sfumato.mas.drop_q import DropRange as DropRange
    from sfumato.mas.drop_q import DropShare as DropShare
    from sfumato.mas.drop_q import clean_tables as clean_tables
    from sfumato.mas.drop_q import least_success_probability as least_success_probability
    from sfumato.mas.drop_q import same_drop_probability as same_drop_probability
    from sfumato.mas.drop_q import share_clean_tables as share_clean_tables
    from sfumato.mas.drop_q import smallest_q as smallest_q
    from sfumato.mas.drop_q import success_probability as success_probability
    from sfumato.mas.models.residual_pictures import BinnedPicture as BinnedPicture
    from sfumato.mas.models.residual_pictures import ResidualPicture as ResidualPicture
    from sfumato.mas.policy import Policy as Policy
    from sfumato.mas.policy_trials import policy_map as policy_map
    from sfumato.mas.preparation import LevelRecode as LevelRecode
    from sfumato.mas.question import Analysis as Analysis
    from sfumato.mas.rule import ConfidentialityRule as ConfidentialityRule
    from sfumato.mas.rules import AmountPPercent as AmountPPercent
    from sfumato.mas.rules import CloseFit as CloseFit
    from sfumato.mas.rules import Dominance as Dominance
    from sfumato.mas.rules import DummySize as DummySize
    from sfumato.mas.rules import HighCorrelation as HighCorrelation
    from sfumato.mas.rules import LeftOut as LeftOut
    from sfumato.mas.rules import LevelSize as LevelSize
    from sfumato.mas.rules import Leverage as Leverage
    from sfumato.mas.rules import ModelForm as ModelForm
    from sfumato.mas.rules import ModelSize as ModelSize
    from sfumato.mas.rules import NoMarginal as NoMarginal
    from sfumato.mas.rules import PieceDifference as PieceDifference
    from sfumato.mas.rules import UniverseForm as UniverseForm
    from sfumato.mas.rules import UniverseSize as UniverseSize
    from sfumato.mas.synthetic_residuals import BinnedResiduals as BinnedResiduals
    from sfumato.mas.synthetic_residuals import Diagnostic as Diagnostic
    from sfumato.mas.synthetic_residuals import SyntheticResiduals as SyntheticResiduals
    from sfumato.mas.universe import Universe as Universe
    from sfumato.mas.usage import workload as workload
    from sfumato.mas.vault import Vault as Vault
