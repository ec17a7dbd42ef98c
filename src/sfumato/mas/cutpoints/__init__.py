"""Cutpoints: numerical variables in bins of at least d observations, by four strategies and a hybrid of them."""

from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.cutpoints.fixed import Fixed
from sfumato.mas.cutpoints.hybrid import Hybrid
from sfumato.mas.cutpoints.increasing import Increasing
from sfumato.mas.cutpoints.minimum import Minimum
from sfumato.mas.cutpoints.partitioned import Partitioned
from sfumato.mas.cutpoints.preview import Preview, preview
from sfumato.mas.cutpoints.strategy import CutpointStrategy
from sfumato.mas.cutpoints.tally import Tally

__all__ = [
    "CutpointStrategy", "Cutpoints", "Fixed", "Hybrid", "Increasing", "Minimum", "Partitioned", "Preview", "Tally", "preview",
]  # fmt: skip
