"""The confidentiality rules that come with sfumato."""

from sfumato.mas.rules.close_fit import CloseFit
from sfumato.mas.rules.dominance import Dominance
from sfumato.mas.rules.dummy_size import DummySize
from sfumato.mas.rules.high_correlation import HighCorrelation
from sfumato.mas.rules.left_out import LeftOut
from sfumato.mas.rules.level_size import LevelSize
from sfumato.mas.rules.leverage import Leverage
from sfumato.mas.rules.model_form import ModelForm
from sfumato.mas.rules.model_size import ModelSize
from sfumato.mas.rules.no_marginal import NoMarginal
from sfumato.mas.rules.p_percent import PPercent
from sfumato.mas.rules.piece_difference import PieceDifference
from sfumato.mas.rules.universe_form import UniverseForm
from sfumato.mas.rules.universe_size import UniverseSize

__all__ = [
    "CloseFit", "Dominance", "DummySize", "HighCorrelation", "LeftOut", "LevelSize", "Leverage", "ModelForm",
    "ModelSize", "NoMarginal", "PPercent", "PieceDifference", "UniverseForm", "UniverseSize",
]  # fmt: skip
