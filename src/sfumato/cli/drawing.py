"""Charts to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.load import refuse_existing
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import altair as alt

_CHARTS = (".svg", ".png")


def check_chart(path: Path | None, replace: bool) -> None:
    """Refuse, before any work is done, a file that a chart cannot be written to."""
    if path is None:
        return
    refuse_existing(path, replace, "the chart")
    if path.suffix.lower() not in _CHARTS:
        raise ParameterError(f"a chart is drawn as .svg or .png; {path.name} is neither.")


def save_chart(picture: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart as the suffix says."""
    from sfumato.charts.render import to_png, to_svg
    from sfumato.files import write_text

    if path.suffix.lower() == ".svg":
        write_text(path, to_svg(picture))
    else:
        to_png(picture, path)
