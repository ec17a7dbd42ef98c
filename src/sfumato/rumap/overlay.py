"""Several maps on the same axes: methods compared, or one method under several circumstances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError
from sfumato.rumap.rumap import RUMap

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Overlay:
    """Maps over the same parameter, by name; one risk each, in the same unit.

    Examples
    --------
    >>> from sfumato.rumap import figure2
    >>> list(figure2().maps)
    ['R² = 0.3', 'R² = 0.5']
    """

    maps: Mapping[str, RUMap]

    def __post_init__(self) -> None:
        if not self.maps:
            raise ParameterError("an overlay needs at least one map.")
        if len({m.parameters for m in self.maps.values()}) > 1:
            raise ParameterError("an overlay shows maps over the same parameter; these are swept over different ones.")

    def __getitem__(self, name: str) -> RUMap:
        return self.maps[name]

    @property
    def frame(self) -> pd.DataFrame:
        """The maps as one tidy frame; the column `map` says which."""
        import pandas as pd

        return pd.concat([m.frame.assign(map=name) for name, m in self.maps.items()], ignore_index=True)

    def chart(self, max_risk: float | None = None, chosen: Mapping[str, Any] | None = None) -> alt.TopLevelMixin:
        """Draw the maps on the same axes: colour tells the utility, the dash the map; `chosen` is ringed on every curve."""
        from sfumato.charts.rumap import overlay_chart

        parameters = next(iter(self.maps.values())).parameters
        return overlay_chart({name: m.frame for name, m in self.maps.items()}, parameters, max_risk, chosen)
