"""Diagnostics of regressions without a single real residual."""

from sfumato.mas.diagnostics.binned import BinnedResiduals
from sfumato.mas.diagnostics.picture import BinnedPicture, ResidualPicture
from sfumato.mas.diagnostics.synthetic import Diagnostic, SyntheticResiduals

__all__ = ["BinnedPicture", "BinnedResiduals", "Diagnostic", "ResidualPicture", "SyntheticResiduals"]
