"""The R-U confidentiality map: sweep, analytic curves, choice under a threshold."""

from sfumato.rumap.choice import Choice
from sfumato.rumap.figures import figure1, figure2, slope_map
from sfumato.rumap.overlay import Overlay
from sfumato.rumap.population import NormalPopulation
from sfumato.rumap.rumap import RUMap, ru_map

__all__ = ["Choice", "NormalPopulation", "Overlay", "RUMap", "figure1", "figure2", "ru_map", "slope_map"]
