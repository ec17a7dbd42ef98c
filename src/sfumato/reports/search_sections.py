"""Sections about a search, for the board: the methods tried, the frontier, and the chosen recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.charts.words import counted, spoken, tabled
from sfumato.contract import Figure, Section, Table
from sfumato.errors import ParameterError
from sfumato.reports.found import Found
from sfumato.rumap.choice import named

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 12
"""Points of the frontier that are tabled."""


def tried_section(found: Found) -> Section:
    """Return which recipes were tried, over which parameters, and how many settings of each kept the risk low."""
    searched = {str(f["name"]): str(f["searched"]) for f in found.facts["families"]}
    rows = []
    for name, over in searched.items():
        own = found.frame[found.frame["family"] == name] if len(found.frame) else found.frame
        if name in found.facts["refused"] or not len(own):
            why = found.facts["refused"].get(name, "less useful on a part of the file; not looked at on all of it")
            rows.append((name, over, "–", "–", why))
            continue
        points = own.drop_duplicates("point")
        meets = int(points["meets"].sum())
        chosen = "chosen" if bool(points["chosen"].any()) else "" if meets else "no setting is safe enough"
        rows.append((name, over, str(len(points)), str(meets), chosen or "–"))
    heads = ("recipe", "searched", "settings on all records", "safe enough", "remark")
    total = found.frame["point"].nunique() if len(found.frame) else 0
    sentences = (
        (
            f"The search tried {counted(len(searched), 'recipe')} on a file of {counted(int(found.facts['records']), 'record')}, "
            f"at {counted(int(total), 'setting')} of {'its' if len(searched) == 1 else 'their'} parameters on all the records. "
            f"{_limits(found)}"
        ),
    )
    caption = (
        "The recipes that were tried. Safe enough: every risk stays within its limit in 95 % of the releases made so."
    )
    return Section("Methods tried", sentences, (Table(heads, tuple(rows), caption),))


def _limits(found: Found) -> str:
    risks = found.frame[found.frame["side"] == "risk"] if len(found.frame) else found.frame
    named = dict(zip(risks["measure"], risks["threshold"], strict=True)) if len(risks) else found.facts["thresholds"]
    return f"The largest risk allowed was {spoken(f'{v:g} for {k}' for k, v in named.items())}."


def frontier_section(found: Found) -> Section:
    """Return the settings that no other beats in both risk and utility, as a chart and as a table."""
    sentences = [
        (
            "A setting is on the frontier if no other has both less risk and more utility. Risk and utility were estimated by "
            "masking again and again, so each setting has a probability of truly being there."
        )
    ]
    if not len(found.frontier):
        return Section("The frontier", ("No setting could be measured on all the records, so there is no frontier.",))
    from sfumato.charts.search import methods_chart

    risk, frontier = _plane(found)
    several = found.frame.loc[found.frame["side"] == "risk", "scenario"].nunique() > 1
    worst = " (against the snooper who learns most)" if several else ""
    figure = Figure(
        methods_chart(found.frame, frontier, risk).to_dict(),
        f"Every setting that was tried: {risk}{worst} and utility. Lower is safer, further right is more useful.",
    )
    if found.feasible and not frontier["chosen"].any():
        sentences.append(
            f"The chosen setting is not on it: others are better in {risk} and in utility, but pass the limit of another risk."
        )
    return Section("The frontier", tuple(sentences), (figure, _frontier(frontier, risk)))


def _plane(found: Found) -> tuple[str, pd.DataFrame]:
    """Return the risk that leaves least room at the chosen setting, and the frontier for it; of mere data, the first risk."""
    risks = [row for row in found.frame.to_dict("records") if row["side"] == "risk"]
    chosen = [row for row in risks if row["chosen"] and row["threshold"] > 0]
    if found.search is None or not chosen:
        return str(risks[0]["measure"]), found.frontier
    tight = str(max(chosen, key=lambda row: row["limit"] / row["threshold"])["measure"])
    return tight, found.search.frontier(risk=tight)


def _frontier(frontier: pd.DataFrame, risk: str) -> Table:
    rows = frontier.to_dict("records")
    kept = sorted(range(len(rows)), key=lambda i: (not rows[i]["chosen"], -rows[i]["probability"]))[:_ROWS]
    shown = [rows[i] for i in sorted(kept)]
    body = tuple(
        (
            f"{row['family']}, {row['recipe']}" + (" (chosen)" if row["chosen"] else ""),
            _estimate(row["risk"], row["risk_low"], row["risk_high"]), tabled(row["limit"]),
            _estimate(row["utility"], row["utility_low"], row["utility_high"]),
            f"{100 * row['probability']:.0f}\N{NO-BREAK SPACE}%", "yes" if row["meets"] else "no",
        )
        for row in shown
    )  # fmt: skip
    less = f" The {len(shown)} of {len(rows)} most likely to be on it." if len(shown) < len(rows) else ""
    heads = ("setting", "risk", "95 % of releases stay below", "utility", "on the frontier", "safe enough")
    return Table(heads, body, f"The frontier for {risk}, safest first; 95 % intervals in brackets.{less}")


def _estimate(value: float, low: float, high: float) -> str:
    if math.isnan(low) or math.isclose(low, high, rel_tol=1e-9):  # nothing random about it
        return tabled(value)
    space = "\N{NO-BREAK SPACE}"
    return f"{tabled(value)} ({tabled(low)}{space}to{space}{tabled(high)})"


def choice_section(found: Found) -> Section:
    """Return the chosen recipe with every risk and utility, in natural units and with intervals; or why there is none."""
    if not found.feasible:
        return Section("The chosen recipe", (f"There is no answer: {found.choice['reason']}",))
    choice = found.choice
    at = f" with {named(choice['settings'])}" if choice["settings"] else ""
    sentences = [f"The chosen recipe is {choice['family']}{at}: {choice['reason']}."]
    content: list[Table | Figure] = [_measured(choice, found.facts["thresholds"])]
    from sfumato.charts.measures import measures_chart
    from sfumato.charts.parameters import parameters_chart

    content.append(Figure(measures_chart(found.frame).to_dict(), _DOTS))
    with suppress(ParameterError):  # it has fewer than two parameters
        chart = parameters_chart(found.frame)
        content.append(
            Figure(chart.to_dict(), "Utility over the parameters of the chosen recipe, with lines of equal risk.")
        )
    return Section("The chosen recipe", tuple(sentences), tuple(content))


_DOTS = (
    "The chosen recipe, measure by measure. Each risk is divided by its own limit, so that 1 is the limit; the thin line "
    "ends where 95 % of the releases stay below. Each utility is a share of that of the unmasked file, where that is known."
)


def _measured(choice: Mapping[str, Any], thresholds: Mapping[str, float]) -> Table:
    rows: list[tuple[str, ...]] = []
    scores: Sequence[Mapping[str, Any]] = (*choice["risks"], *choice["utilities"])
    for score in scores:
        name, value = str(score["measure"]), _number(score["value"])
        low, high = (_number(v) for v in score["interval"] or (None, None))
        limit, stays = thresholds.get(name), _number(choice["limits"].get(name))
        held = "–" if limit is None else "passes" if stays <= limit else "fails"
        interval = (
            "–" if math.isnan(low) or math.isclose(low, high, rel_tol=1e-9) else f"{tabled(low)} to {tabled(high)}"
        )
        within = "–" if limit is None else f"at\N{NO-BREAK SPACE}most\N{NO-BREAK SPACE}{limit:g}"
        rows.append((name, tabled(value), interval, tabled(stays), within, held, str(score["words"])))
    heads = ("measure", "value", "95 % interval", "95 % of releases stay below", "limit", "result", "in words")
    return Table(
        heads, tuple(rows), "What to expect of a release made with the chosen recipe, over fresh random numbers."
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
