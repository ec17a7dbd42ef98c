"""`sfumato demo`: the whole way, on generated data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.options import OUTPUT, Json, Replace
from sfumato.cli.screen import Screen, percent

if TYPE_CHECKING:
    from sfumato.demo import DemoResult


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the release.", rich_help_panel=OUTPUT)] = Path("out"),
    records: Annotated[int, typer.Option(help="How many teachers to generate.", min=100, max=10_000_000)] = 30_000,
    replications: Annotated[
        int, typer.Option(help="How often the file is masked at each level of noise.", min=10, max=100_000)
    ] = 200,
    seed: Annotated[
        int | None, typer.Option(help="A number of your own for the random numbers. A fixed one if not given.")
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """See it work: mask a generated teacher survey as far as needed, and no further.

    Writes the masked data, the recipe and a report to one folder, and the seed to another beside it.
    """
    from sfumato.demo import run_demo

    screen = Screen(as_json)
    with screen.progress() as tell:
        result = run_demo(out, records, replications, seed, replace, tell)
    _show(screen, result)
    screen.answer(result.to_dict())


def _show(screen: Screen, result: DemoResult) -> None:
    n = len(result.release.original)
    screen.say(
        f"{n:,} teachers, generated: nobody's real data. Their salary and household income get noise with λ² times the "
        "variance of the data. This is the most useful λ² that keeps a snooper at least 5 thousand dollars off a salary."
    )
    screen.say()
    rows = [
        (score.measure, score.words.removeprefix("the estimate is "), percent(result.kept[score.measure]))
        for score in result.choice.utilities
    ]
    screen.table(("estimate from the masked file", "", "precision kept"), rows, (2,))
    screen.say()
    screen.say(result.sentence(), strong=True)
    screen.say()
    screen.say(f"Wrote {_here(result.folder)}{os.sep}: {', '.join(result.files)}.")
    known = "fixed, so that you get these numbers again" if result.fixed_seed else "made from the number you gave"
    screen.say(
        f"The seed went to {_here(result.seed_file)}, since whoever has it can subtract the noise. Here it is {known}; "
        "for real data `sfumato mask` draws a fresh secret one."
    )
    screen.say(
        f"Next: open {_here(result.folder / 'report.html')} in a browser; then try a file of yours: sfumato schema FILE"
    )


def _here(path: Path) -> str:
    """Return a path from the current folder where it lies inside it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
