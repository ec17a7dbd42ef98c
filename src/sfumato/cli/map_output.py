"""Output of the commands that trace risk against utility: the points, and the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import typer

from sfumato.cli.console import INFEASIBLE, Screen
from sfumato.contract.score import Score, Side

if TYPE_CHECKING:
    from sfumato.maps import Choice, MapPoint, RUMap


def show_points(
    screen: Screen, m: RUMap, columns: Mapping[str, Callable[[MapPoint], object]], words: str, baseline: str = ""
) -> None:
    """Print a row for each point and one for the baseline, then what the numbers are; `columns` say what a point is."""
    labels = [f"{'R' if measure.side is Side.RISK else 'U'}: {measure.label()}" for measure in m.measures]
    rows: list[list[object]] = [
        [*(of(point) for of in columns.values()), *(m.estimate(i, p)[0] for i in range(len(labels)))]
        for p, point in enumerate(m.points)
    ]
    if baseline:
        rows.append([baseline, *[""] * (len(columns) - 1), *(m.unmasked(i) for i in range(len(labels)))])
    heads = [*columns, *labels]
    numbers = [i for i in range(len(heads)) if i >= len(columns) or isinstance(rows[0][i], float)]
    screen.table(heads, rows, numbers)
    screen.say(f"{words} 95 % intervals: --json or --out.")


def show_choice(screen: Screen, choice: Choice | None, hint: str, more: Callable[[Score], str] | None = None) -> None:
    """Print what was chosen with its scores, and `more` about each; where nothing was asked for, how to ask."""
    if choice is None:
        screen.say(hint)
        return
    screen.say()
    screen.say(str(choice), strong=True)
    for score in (*choice.risks, *choice.utilities):
        screen.say(f"  {score.measure}: {score.words}{'' if more is None else more(score)}")


def show_refused(screen: Screen, m: RUMap) -> None:
    """Print what could not be measured or tried, and why."""
    for label, reason in m.refused.items():
        screen.note(f"{label}: {reason}")


def exit_infeasible(choice: Choice | None) -> None:
    """End with exit code 3 where nothing is safe enough."""
    if choice is not None and not choice.feasible:
        raise typer.Exit(INFEASIBLE)
