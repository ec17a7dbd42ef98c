"""The risk profile of a file: records by how many look the same, by risk, and what each key contributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts.marks import layered
from sfumato.charts.theme import INK, RISK_SHADES, SIZE, SOFT, themed

if TYPE_CHECKING:
    import pandas as pd

_WIDTH, _BAR = 150, 19
_MOST = 12


def risk_profile_chart(
    sizes: pd.DataFrame, risks: pd.DataFrame, keys: pd.DataFrame, k: int, where: str
) -> alt.HConcatChart:
    """Draw three panels from the frames of a RiskProfile.

    `sizes` has columns matches, records, share; `risks` above, up_to, records, share; `keys` key, without, less, of which the
    first twelve are drawn. Bars of records that match fewer than k are dark. `where` says in which set of persons the snooper
    looks.
    """
    first = [
        {"what": what, "records": records, "high": int(what.split("–")[0].split()[0]) < k}
        for what, records in zip(sizes["matches"].tolist(), sizes["records"].tolist(), strict=True)
    ]
    ends = zip(risks["above"].tolist(), risks["up_to"].tolist(), risks["records"].tolist(), strict=True)
    second = [{"what": f"{low:g} to {high:g}", "records": count, "high": False} for low, high, count in ends][::-1]
    drawn = keys.head(_MOST)
    third = [
        {"what": key, "records": max(less, 0), "high": False}
        for key, less in zip(drawn["key"].tolist(), drawn["less"].tolist(), strict=True)
    ]
    panels = [
        _bars(first, "Records by how many match", f"dark: fewer than {k}"),
        _bars(second, "Records by risk", where),
        _bars(third, "What each key contributes", f"fewer records below {k} without it"),
    ]
    return themed(alt.hconcat(*panels, spacing=26))


def _bars(rows: list[dict[str, Any]], title: str, subtitle: str) -> alt.LayerChart:
    """Draw horizontal bars in the order of the rows, each with its number at the end."""
    most = max((row["records"] for row in rows), default=0)
    data = alt.Data(values=[{**row, "text": f"{row['records']:,}"} for row in rows])  # type: ignore[no-untyped-call]
    y = alt.Y(
        "what:N",
        sort=[row["what"] for row in rows],
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=110),
    )
    # room at the right for the number of the longest bar
    x = alt.X("records:Q", title=None, axis=None, scale=alt.Scale(domain=[0, max(1.35 * most, 1)], nice=False))
    colour = alt.condition("datum.high", alt.value(RISK_SHADES[3]), alt.value(RISK_SHADES[1]))
    base = alt.Chart(data).encode(y=y, x=x)
    bars = base.mark_bar(height=_BAR * 0.68).encode(color=colour)
    numbers = base.mark_text(align="left", dx=4, color=INK, fontSize=SIZE).encode(text="text:N")
    heading = alt.TitleParams(title, subtitle=subtitle, subtitleColor=SOFT, subtitleFontSize=SIZE)
    return layered(bars, numbers, width=_WIDTH, height=_BAR * max(len(rows), 1), title=heading)
