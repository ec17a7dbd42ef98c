"""The R-U confidentiality map: sweep, analytic curves, choice under a threshold."""

from sfumato.rumap.choice import Choice
from sfumato.rumap.figures import figure1, figure2, slope_map
from sfumato.rumap.key_experiments import KeyExperiments, key_experiments, masking_floors
from sfumato.rumap.overlay import Overlay
from sfumato.rumap.population import NormalPopulation
from sfumato.rumap.rumap import RUMap, ru_map

__all__ = [
    "Choice", "KeyExperiments", "NormalPopulation", "Overlay", "RUMap", "figure1", "figure2", "key_experiments",
    "masking_floors", "ru_map", "slope_map",
]  # fmt: skip
