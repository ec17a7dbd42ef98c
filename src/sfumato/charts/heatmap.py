"""A map over two parameters: a heat map for each measure, with the feasible region outlined and the chosen cell framed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from sfumato.charts.cells import Band, Cells, Place
from sfumato.charts.sheet import Sheet
from sfumato.charts.theme import RISK_SHADES, SIZE, SOFT, UTILITY_SHADES
from sfumato.charts.tidy import Measured, Numbers
from sfumato.charts.words import parameter_words, short, symbol


def heat_chart(sheet: Sheet) -> alt.ConcatChart:
    """Draw every utility, then every risk, over the two parameters."""
    data = sheet.data
    sides = [sorted({float(v) for v in data.points[:, k]}) for k in (0, 1)]
    lead = "share of the unmasked utility: " if sheet.share else "data utility U: "
    panels = [_panel(sheet, sides, u, lead + u.label, UTILITY_SHADES) for u in data.utilities]
    panels += [_panel(sheet, sides, r, f"disclosure risk R: {r.label}", RISK_SHADES, log=True) for r in data.risks]
    key = alt.Title(text=_key(sheet), fontSize=SIZE, color=SOFT, anchor="start", offset=10)
    return alt.concat(*panels, columns=2, title=key, spacing=18)


def _key(sheet: Sheet) -> list[str]:
    """Say what the outline and the frame mean."""
    limits, said = sheet.limits, []
    if limits:
        each = " and ".join(f"{short(v)} ({label})" if len(limits) > 1 else short(v) for label, v in limits.items())
        good = int(sheet.data.feasible(limits).sum())
        said.append(
            f"outlined: the upper limit of the risk is at most {each}" if good
            else f"no cell keeps the upper limit of the risk at or below {each}"
        )  # fmt: skip
    if sheet.data.nearest(sheet.chosen) is not None:
        named = ", ".join(f"{symbol(n)} = {short(float(sheet.chosen[n]))}" for n in sheet.data.parameters)
        said.append(f"framed: chosen, {named}")
    return ["; ".join(said)] if said else [""]


def _panel(
    sheet: Sheet,
    sides: Sequence[Sequence[float]],
    measure: Measured,
    title: str,
    shades: Sequence[str],
    log: bool = False,
) -> alt.LayerChart:
    """Draw one measure."""
    data = sheet.data
    bands = [
        Band.of([short(v) for v in side], parameter_words(n)) for side, n in zip(sides, data.parameters, strict=True)
    ]

    def place(point: Numbers) -> Place:
        return sides[0].index(float(point[0])), sides[1].index(float(point[1]))

    items = [_item(sheet, p, place(data.points[p]), float(v), log) for p, v in enumerate(measure.judged[:, 0])]
    good = {place(point) for point in data.points[data.feasible(sheet.limits)]} if sheet.limits else set()
    nearest = data.nearest(sheet.chosen)
    chosen = None if nearest is None else place(data.points[nearest])
    return Cells(bands[0], bands[1]).panel(items, title, shades, log, good, chosen)


def _item(sheet: Sheet, p: int, place: Place, value: float, risk: bool) -> dict[str, Any]:
    named = {f"parameter_{k + 1}": float(v) for k, v in enumerate(sheet.data.points[p])}
    text = f"{100 * value:.0f} %" if sheet.share and not risk else short(value)
    return {**named, "value": value, "text": text, "i": place[0], "j": place[1]}
