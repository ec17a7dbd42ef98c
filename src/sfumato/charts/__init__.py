"""Altair builders from tidy frames, and one theme; nothing else draws. Import the module of the chart you need."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from . import analysis_charts as analysis_charts
    from . import file_charts as file_charts
    from . import map_chart as map_chart
    from . import map_data as map_data
    from . import measures as measures
    from . import paper_charts as paper_charts
    from . import parameter_surface as parameter_surface
    from . import search_page as search_page
    from . import table_charts as table_charts
    from . import theme as theme
