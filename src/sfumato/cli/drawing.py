"""Charts and reports to files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.handling import Misuse
from sfumato.cli.load import refuse_existing
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import altair as alt

_CHARTS = (".svg", ".png")
_REPORTS = (".html", ".htm", ".pdf")


def check_chart(path: Path | None, replace: bool) -> None:
    """Refuse, before any work is done, a file that a chart cannot be written to."""
    if path is None:
        return
    refuse_existing(path, replace, "the chart")
    if path.suffix.lower() not in _CHARTS:
        raise ParameterError(f"a chart is drawn as .svg or .png; {path.name} is neither.")


def check_report(path: Path | None, replace: bool, json: bool = True) -> None:
    """Refuse, before any work is done, a file that a report cannot be written to, or with `json` the one beside it."""
    if path is None:
        return
    if path.suffix.lower() not in _REPORTS:
        raise Misuse(f"a report is written as .html or .pdf; got '{path.name}'.")
    refuse_existing(path, replace, "the report")
    if json:
        refuse_existing(path.with_suffix(".json"), replace, "the report for machines")
    if path.suffix.lower() == ".pdf":
        from sfumato.reports.pdf import load_weasyprint

        load_weasyprint()


def save_chart(picture: alt.TopLevelMixin, path: Path, confidential: bool = True) -> None:
    """Write a chart as the suffix says; what is not for the public can be read by its owner only."""
    from sfumato.charts.render import to_png, to_svg
    from sfumato.files import write_text

    if path.suffix.lower() == ".svg":
        write_text(path, to_svg(picture), confidential)
    else:
        to_png(picture, path, confidential=confidential)
