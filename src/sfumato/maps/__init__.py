"""R-U confidentiality maps: sweep a method or search many, trace risk against utility, choose."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.maps.choice import Choice as Choice
    from sfumato.maps.recipe_search import search as search
    from sfumato.maps.replication import NormalPopulation as NormalPopulation
    from sfumato.maps.rumap import MapPoint as MapPoint
    from sfumato.maps.rumap import MapSubject as MapSubject
    from sfumato.maps.rumap import Overlay as Overlay
    from sfumato.maps.rumap import RUMap as RUMap
    from sfumato.maps.rumap import ru_map as ru_map
    from sfumato.maps.search_space import Family as Family
    from sfumato.maps.search_space import Range as Range
