"""Risk against utility for policies: a curve along the last swept setting for each value of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from sfumato.charts.table_map import table_map_chart
from sfumato.charts.words import short, spoken

if TYPE_CHECKING:
    import pandas as pd


def policy_map_chart(
    frame: pd.DataFrame,
    parameters: Sequence[str],
    risk: str,
    utility: str,
    max_risk: float | None = None,
    chosen: int | None = None,
) -> alt.LayerChart:
    """Draw `PolicyMap.frame` as the map of protections is drawn; its families are the curves."""
    several = frame["family"].nunique() > 1
    outer, inner = list(parameters[:-1]), list(parameters[-1:])
    curves, ats = [], []
    for row in frame.to_dict("records"):
        parts = [str(row["family"])] if several or not outer else []
        curves.append(spoken([*parts, *(_words(row, name) for name in outer)]))
        ats.append("".join(_words(row, name) for name in inner) or "as it is")
    return table_map_chart(frame.assign(family=curves, at=ats), risk, utility, max_risk, chosen, "policy", log=False)


def _words(row: dict[Any, Any], name: str) -> str:
    """Return a setting as a legend shows it.

    >>> _words({"counts.sd": 5.0}, "counts.sd")
    'counts sd 5'
    """
    value = row[name]
    return (
        f"{name.replace('.', ' ').replace('_', ' ')} {short(float(value)) if isinstance(value, int | float) else value}"
    )
