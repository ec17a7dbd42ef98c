"""Charts to pictures, on this machine and without a browser; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.files import write_bytes

if TYPE_CHECKING:
    import altair as alt


def to_svg(chart: alt.TopLevelMixin | Mapping[str, Any]) -> str:
    """Return a chart, or its Vega-Lite specification, as SVG text."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_spec(chart), allowed_base_urls=[]))


def to_png(
    chart: alt.TopLevelMixin | Mapping[str, Any], path: str | Path, scale: float = 2, confidential: bool = False
) -> None:
    """Write a chart, or its Vega-Lite specification, as a PNG file; `scale` 2 suits print.

    A confidential one can be read by its owner only.
    """
    import vl_convert

    image = vl_convert.vegalite_to_png(_spec(chart), scale=scale, allowed_base_urls=[])
    write_bytes(path, image, confidential)


def _spec(chart: alt.TopLevelMixin | Mapping[str, Any]) -> dict[str, Any]:
    return dict(chart) if isinstance(chart, Mapping) else chart.to_dict()
