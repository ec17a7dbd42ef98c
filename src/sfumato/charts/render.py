"""Charts to pictures, on this machine and without a browser; nothing is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import visible
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


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
"""A text inside an expression of Vega, written as in JSON: control characters have a backslash there."""
_EXPRESSIONS = ("labelExpr", "expr", "test", "calculate", "filter", "signal")


def _spec(chart: alt.TopLevelMixin | Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification as it is drawn: with a control character in any text the drawing library ends the process."""
    spec: dict[str, Any] = _drawable(dict(chart) if isinstance(chart, Mapping) else chart.to_dict())
    return spec


def _drawable(part: Any, key: str = "") -> Any:
    if isinstance(part, Mapping):
        return {visible(str(k)): _drawable(v, str(k)) for k, v in part.items()}
    if isinstance(part, list | tuple):
        return [_drawable(v, key) for v in part]
    if not isinstance(part, str):
        return part
    if key in _EXPRESSIONS:
        part = _QUOTED.sub(_requoted, part)
    return visible(part)


def _requoted(found: re.Match[str]) -> str:
    try:
        return json.dumps(visible(json.loads(found[0])), ensure_ascii=False)
    except ValueError:  # no text as in JSON
        return found[0]
