"""Charts of a file: its risk profile, and a release before and after."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from sfumato.charts import theme
from sfumato.charts.captions import short
from sfumato.charts.scales import Axis
from sfumato.charts.theme import FAINT, INK, PAPER, RISK_SHADES, SERIES, SIZE, SOFT, WIDTH, layered, text_width, themed
from sfumato.lazy import pd

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


_BEFORE, _AFTER = FAINT, SERIES[0]
_NAMES, _SIDE, _GAP = 136, 196, 30
"""Pixels for names at the left, for numbers at the right, and between two panels side by side."""
_WIDE = WIDTH - _NAMES - _SIDE
_ROW, _TALL = 19, 25
_MOST_ROWS, _PAIRS = 12, 8
_KEY = "grey: before; blue: after"
_QUARTILES = ("lower quartile", "median", "upper quartile")
_SLIVER = 0.01
"""A bar is never shorter, so that it shows."""
_FAR = 4.0
"""Standard deviations from the mean at which the picture ends."""


def release_summary_chart(
    statistics: pd.DataFrame, distributions: pd.DataFrame, tables: pd.DataFrame, correlations: pd.DataFrame
) -> alt.VConcatChart:
    """Draw the frames of a ReleaseSummary, each in a panel of its own; a frame without rows has none.

    At most twelve columns of numbers and twelve categories are drawn, and eight pairs of columns: those that changed most.
    Before is grey, after is blue.
    """
    panels: list[Any] = []
    if len(statistics):
        panels.append(_numbers(statistics))
    if len(distributions):
        panels.append(_categories(distributions))
    halves = [draw(frame) for draw, frame in ((_tables, tables), (_correlations, correlations)) if len(frame)]
    if halves:
        panels.append(alt.hconcat(*halves, spacing=_GAP) if len(halves) > 1 else halves[0])
    return themed(alt.vconcat(*panels, spacing=24))


# -- panels


def _numbers(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw quartiles and mean of each column, in the original's standard deviations from its mean."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for column, what, before, after, _ in frame.itertuples(index=False, name=None):
        found.setdefault(column, {})[what] = (before, after)
    drawn = sorted(found, key=lambda name: -_moved(found[name]))[:_MOST_ROWS]
    names = [name for name in found if name in drawn]
    bars: theme.Rows = []
    ticks: theme.Rows = []
    dots: theme.Rows = []
    texts: theme.Rows = []
    for i, name in enumerate(names):
        (mean, _), (spread, _) = found[name]["mean"], found[name]["standard deviation"]
        for k, shade in enumerate((_BEFORE, _AFTER)):
            place: dict[str, Any] = {"y": i + 0.34 + 0.34 * k, "colour": shade, "column": name}
            value = {w: _standard(both[k], mean, spread) for w, both in found[name].items() if w != "missing"}
            dots.append({**place, "x": value["mean"], "what": "mean"})
            if all(w in value for w in _QUARTILES):
                low, middle, high = (value[w] for w in _QUARTILES)
                bars.append({**place, "x": low, "x2": max(high, low + _SLIVER), "what": "quartiles"})
                ticks.append({**place, "x": middle, "what": "median"})
        texts += [
            {"y": i + 0.5, "at": _WIDE + start, "text": _joined(*map(short, found[name][what])), "what": what}
            for start, what in ((10, "mean"), (10 + _SIDE / 2, "standard deviation"))
        ]
    heads = [{"at": t["at"], "text": head} for t, head in zip(texts, ("mean", "standard dev."), strict=False)]
    ends = [r[f] for r in [*bars, *dots] for f in ("x", "x2") if f in r and not math.isnan(r[f])]
    axis = Axis.over([-0.5, 0.5, *(min(max(e, -_FAR), _FAR) for e in ends)], False)
    x = theme.x_axis("x", axis, "standard deviations from the original's mean", _WIDE, 7, grid=True)
    y, height = _rows(names, _TALL)
    colour = alt.Color("colour:N", scale=None)
    zero = theme.draw("rule", [{"x": 0}], {"color": SOFT, "strokeWidth": 0.8}, x=x)
    layers = [
        zero,
        theme.draw("rule", bars, {"strokeWidth": 7, "clip": True}, x=x, x2=alt.X2("x2:Q"), y=y, color=colour),
        theme.draw("tick", ticks, {"color": PAPER, "thickness": 2, "height": 7, "orient": "vertical", "clip": True}, x=x, y=y),
        theme.draw(
            "point", dots,
            {"filled": True, "size": 26, "stroke": PAPER, "strokeWidth": 1, "opacity": 1, "shape": "diamond", "clip": True},
            x=x, y=y, color=colour,
        ),
        *_beside(texts, y), *_heads(heads),
    ]  # fmt: skip
    left = "" if len(names) == len(found) else f" ({len(names)} of {len(found)} columns, those that changed most)"
    return _panel(layers, height, f"Numbers{left}", f"{_KEY}; bars: quartiles, cut at the median; diamond: mean", _WIDE)


def _categories(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw the shares of the categories that changed most."""
    order = (-frame["difference"].abs().to_numpy()).argsort(kind="stable")  # the largest differences, either way
    top = frame.iloc[order[:_MOST_ROWS]]
    names = [_fitted((column, category), ": ") for column, category in zip(top["column"], top["category"], strict=True)]
    before, after = (100 * top[side] for side in ("before", "after"))
    texts = [f"{_joined(_share(b), _share(a))} %" for b, a in zip(before, after, strict=True)]
    axis = Axis(0.0, max(1.06 * float(max(before.max(), after.max())), 1.0), False)
    x = theme.x_axis("x", axis, "share of the records, in percent", _WIDE, 7, grid=True)
    which = "" if len(top) == len(frame) else ": the shares that changed most"
    return _dumbbells(names, before.tolist(), after.tolist(), texts, x, f"Categories{which}", _WIDE)


def _tables(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw how far the two-way tables are apart that changed most."""
    top = frame.head(_PAIRS)
    names = [_fitted((one, two), " × ") for one, two in zip(top["first"], top["second"], strict=True)]
    width = (WIDTH - _GAP) // 2 - _NAMES - 36
    y, height = _rows(names, _ROW)
    most = max(100 * float(top["distance"].max()), 0.1)
    x = alt.X("x:Q", title=None, axis=None, scale=alt.Scale(domain=[0, most], nice=False, zero=True))
    bars = [{"y": i + 0.5, "x": 100 * d, "zero": 0, "what": "distance"} for i, d in enumerate(top["distance"].tolist())]
    texts = [{**bar, "what": "number", "text": f"{_share(bar['x'])} %"} for bar in bars]
    style = {"size": _ROW * 0.6, "color": _AFTER, "orient": "horizontal"}
    layers = [
        theme.draw("bar", bars, style, x=x, x2=alt.X2("zero:Q"), y=y),
        theme.draw("text", texts, {"align": "left", "dx": 5, "color": INK, "fontSize": SIZE}, x=x, y=y),
    ]  # fmt: skip
    return _panel(layers, height, "Two-way tables", "records that would have to change cell", width)


def _correlations(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw the correlations that changed most."""
    top = frame.head(_PAIRS)
    names = [_fitted((one, two), ", ") for one, two in zip(top["first"], top["second"], strict=True)]
    both = [[f"{v:.2f}".replace("-", "−").replace("nan", "–") for v in top[side]] for side in ("before", "after")]
    texts = [_joined(b, a) for b, a in zip(*both, strict=True)]
    width = (WIDTH - _GAP) // 2 - _NAMES - 76
    values = [v for side in ("before", "after") for v in top[side].tolist() if not math.isnan(v)]
    axis = Axis(min(-0.05, 1.1 * min(values)), max(0.05, 1.1 * max(values)), False)
    x = theme.x_axis("x", axis, "", width, 3, grid=True)
    return _dumbbells(names, top["before"].tolist(), top["after"].tolist(), texts, x, "Correlations", width)


# -- what panels share


def _dumbbells(
    names: Sequence[str], before: Sequence[float], after: Sequence[float], texts: Sequence[str], x: alt.X, title: str, width: int
) -> alt.LayerChart:  # fmt: skip
    """Draw two dots in each row, joined by a line, and both numbers beside them."""
    y, height = _rows(names, _ROW)
    pairs = [
        {"y": i + 0.5, "x": b, "x2": a, "row": n} for i, (n, b, a) in enumerate(zip(names, before, after, strict=True))
    ]
    old = [{**pair, "what": "before"} for pair in pairs]
    new = [{**pair, "x": pair["x2"], "what": "after"} for pair in pairs]
    beside = [{"y": i + 0.5, "at": width + 10, "text": text} for i, text in enumerate(texts)]
    dot = {"size": 42, "opacity": 1, "strokeWidth": 1.8}
    layers = [
        theme.draw("rule", pairs, {"strokeWidth": 2, "color": _BEFORE, "opacity": 0.7}, x=x, x2=alt.X2("x2:Q"), y=y),
        theme.draw("point", old, {**dot, "filled": False, "stroke": _BEFORE, "fill": PAPER}, x=x, y=y),
        theme.draw("point", new, {**dot, "filled": True, "color": _AFTER}, x=x, y=y),
        *_beside(beside, y),
    ]
    return _panel(layers, height, title, _KEY, width)


def _rows(names: Sequence[str], tall: int) -> tuple[alt.Y, int]:
    """Return the vertical axis of named rows, row i from i to i + 1, and its height."""
    words = json.dumps([_fitted((name,), "") for name in names])
    axis = alt.Axis(
        values=[i + 0.5 for i in range(len(names))], labelExpr=f"{words}[floor(datum.value)]", labelLimit=_NAMES,
        minExtent=_NAMES, maxExtent=_NAMES, grid=False, ticks=False, domain=False, labelPadding=6,
    )  # fmt: skip
    scale = alt.Scale(domain=[len(names), 0], nice=False, zero=False, padding=0)
    return alt.Y("y:Q", scale=scale, axis=axis, title=None), tall * len(names)


def _fitted(parts: Sequence[str], between: str) -> str:
    """Return parts of a name in one line; where there is no room, the longest lose letters in their middle."""
    shown = list(parts)
    cut = [0] * len(parts)
    # the sign for what is left out is a whole font size wide
    while text_width(text := between.join(shown)) + 0.5 * SIZE * text.count("…") > _NAMES - 16:
        i = max(range(len(parts)), key=lambda k: len(shown[k]))
        if len(shown[i]) < 6:
            break
        cut[i] += 1 if cut[i] else 2
        keep = len(parts[i]) - cut[i]
        shown[i] = f"{parts[i][: (keep + 1) // 2]}…{parts[i][len(parts[i]) - keep // 2 :]}"
    return text


def _beside(texts: list[dict[str, Any]], y: alt.Y) -> list[alt.Chart]:
    """Write the numbers of each row at a pixel to the right of the panel."""
    style = {"align": "left", "color": INK, "fontSize": SIZE}
    starts = dict.fromkeys(text["at"] for text in texts)
    return [theme.draw("text", [t for t in texts if t["at"] == at], style, y=y, **theme.at(x=at)) for at in starts]


def _heads(heads: list[dict[str, Any]]) -> list[alt.Chart]:
    """Write what the numbers at the right are, above them."""
    style = {"align": "left", "color": SOFT, "fontSize": SIZE}
    return [theme.draw("text", [h], style, **theme.at(x=h["at"], y=-6)) for h in heads]


def _panel(layers: list[Any], height: int, title: str, subtitle: str, width: int) -> alt.LayerChart:
    heading = alt.TitleParams(
        title, subtitle=subtitle, subtitleColor=SOFT, subtitleFontSize=SIZE, frame="bounds", fontWeight="bold"
    )
    return theme.layered(*layers, width=width, height=height, title=heading)


def _standard(value: float, mean: float, spread: float) -> float:
    return (value - mean) / spread if spread > 0 else 0.0


def _moved(found: dict[str, tuple[float, float]]) -> float:
    """Return how much a column of numbers changed: its mean in standard deviations, or its spread in factors."""
    (mean, new), (spread, wide) = found["mean"], found["standard deviation"]
    if math.isnan(new):
        return math.inf
    shift = abs(_standard(new, mean, spread))
    return max(shift, abs(math.log(wide / spread))) if spread > 0 and wide > 0 else shift


def _joined(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _share(value: float) -> str:
    return f"{value:.1f}" if value >= 0.05 or value == 0 else "< 0.1"


_LATTICE = 330


def lattice_chart(frame: pd.DataFrame, allowed: float) -> alt.LayerChart:
    """Draw the choices of levels that a search has looked at (columns detail, share, release, best).

    `detail` is the granularity if nobody were suppressed, `share` how many records are, `allowed` how many may be. Releases are
    filled, other choices hollow; the best is ringed.
    """
    rows = theme.frame_rows(frame, ("detail", "share", "release", "best"))
    across = Axis.over([0.0, allowed, *(row["share"] for row in rows)], log=False)
    x = theme.x_axis("share", across, "share of the records suppressed", WIDTH)
    up = Axis.over([row["detail"] for row in rows], log=False)
    y = theme.y_axis("detail", up, "granularity, had nobody been suppressed", _LATTICE)
    shape = {"shape": "circle", "size": 26, "strokeWidth": 1.2, "opacity": 0.75, "clip": True}
    layers = [
        theme.reference([{"share": allowed}], x=x),
        theme.draw(
            "point", [r for r in rows if not r["release"]], {**shape, "filled": False, "stroke": FAINT}, x=x, y=y
        ),
        theme.draw("point", [r for r in rows if r["release"]], {**shape, "filled": True, "color": SERIES[0]}, x=x, y=y),
        theme.ring([r for r in rows if r["best"]], x=x, y=y),
    ]
    title = theme.heading(
        ["filled: a release; hollow: a model does not hold, or too many records are suppressed; ringed: the best"]
    )
    return themed(layered(*layers, width=WIDTH, height=_LATTICE, title=title))
