"""Global risk against how strongly one key was masked: a panel for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from sfumato.charts import marks
from sfumato.charts.scales import Axis
from sfumato.charts.theme import DASHES, WIDTH, themed

if TYPE_CHECKING:
    import pandas as pd

_HEIGHT = 210
_KINDS = ("maximal", "minimal")


def key_experiments_chart(frame: pd.DataFrame) -> alt.HConcatChart:
    """Draw the frame of KeyExperiments: colour tells the file, the dash the kind of risk; all panels share the risk's axis."""
    files = list(dict.fromkeys(frame["file"]))
    names = list(dict.fromkeys(frame["experiment"]))
    width = (WIDTH - 130) // len(names) - 20
    top = float(frame["value"].max())
    risk = Axis(0.0, 1.08 * top or 1.0, False)
    panels = [_panel(frame[frame["experiment"] == n], n, files, width, risk, n == names[0]) for n in names]
    page: alt.HConcatChart = alt.hconcat(*panels, spacing=16).resolve_scale(color="shared", strokeDash="shared")
    return themed(page)


def _panel(rows: pd.DataFrame, name: str, files: list[str], width: int, risk: Axis, first: bool) -> alt.LayerChart:
    log = bool((rows["setting"] > 0).all())
    across = Axis.over(rows["setting"], log, pad=0.03)
    x = marks.x_axis("setting", across, str(rows["parameter"].iloc[0]), width, 5)
    shown = {} if first else {"labels": False, "ticks": False, "domain": False}
    y = marks.y_axis("value", risk, "global risk" if first else "", _HEIGHT, 6, **shown)
    key = alt.Legend(symbolType="stroke", symbolSize=300, orient="right")
    # with one file there is nothing for colours to tell
    colour = marks.series_colour(files, key if len(files) > 1 else None, "file")
    scale = alt.Scale(domain=list(_KINDS), range=[DASHES[0], DASHES[1]])
    dash = alt.StrokeDash("kind:N", scale=scale, legend=key, title=None)
    items: marks.Rows = rows[["setting", "value", "file", "kind", "keys"]].to_dict("records")  # type: ignore[assignment]
    lines = marks.draw("line", items, {"strokeWidth": 1.8, "clip": True}, x=x, y=y, color=colour, strokeDash=dash)
    dots = marks.draw("circle", items, {"size": 16, "opacity": 1, "clip": True}, x=x, y=y, color=colour)
    title = alt.TitleParams(marks.lines(name, width) or "", frame="group")
    return marks.layered(lines, dots, width=width, height=_HEIGHT, title=title)
