"""`sfumato demo`: a generated teacher survey from the file to the release, with the decision in between."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato import reports
from sfumato.cli.console import Screen, percent
from sfumato.cli.options import OutputOptions, expand_options, output_option
from sfumato.contract import Draws, Recipe, Release
from sfumato.datasets.teacher_survey import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.files import check_replaceable
from sfumato.maps.choice import Choice
from sfumato.maps.rumap import RUMap, precision_kept, ru_map
from sfumato.masks.noise import KimNoise
from sfumato.utility import EstimatorUtility, Formula, Mean, MeanCombination

SEED = 2004
MAX_ERROR = 5.0
"""A snooper is to be off by at least 5 thousand dollars for a salary (R-U paper, section 5; ERRATA 0.1)."""
LEVELS = tuple(float(v) for v in np.geomspace(0.01, 1.0, 25))
PUBLISHED = ("masked.*", "masked_*.*", "schema.toml", "recipe.toml", "report.html")
"""Names of the files that sfumato writes to a folder; any other file in it is somebody's own."""

_LAMBDA2 = "noise.lambda2"
Progress = Callable[[str, int, int], None]
"""Told a stage in words, how much of it is done, and of how much (0 if that is not known)."""


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The results of the demo and where it wrote them."""

    map: RUMap
    choice: Choice
    release: Release
    kept: dict[str, float]
    """Share of each estimate's precision (1 / mean squared error) that is left, by the estimate's label."""
    folder: Path
    seed_file: Path
    fixed_seed: bool
    """Whether the seed is the demo's own, which everybody knows."""

    @property
    def lambda2(self) -> float:
        """The chosen noise level."""
        return float(self.choice.settings[_LAMBDA2])

    @property
    def error(self) -> float:
        """The snooper's typical error for a salary, in thousand dollars."""
        return 1 / math.sqrt(self.choice.risks[0].value)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files in the folder."""
        return tuple(sorted(p.name for p in self.folder.iterdir()))

    def sentence(self) -> str:
        """Return in one line what the numbers mean."""
        first = next(iter(self.kept.values()))
        return (
            f"At λ² = {self.lambda2:.3f} a snooper who knows which record is the target's is typically off by "
            f"{self.error:.1f} thousand dollars; the mean salary keeps {100 * first:.0f} % of its precision."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result for machines; no seed is in it."""
        return {
            "data": "generated teacher survey", "records": len(self.release.original), "lambda2": self.lambda2,
            "max_risk": 1 / MAX_ERROR**2, "typical_error": self.error, "unit": "thousand dollars", "precision_kept": self.kept,
            "choice": self.choice.to_dict(), "means": self.sentence(), "folder": str(self.folder), "files": list(self.files),
            "seed_file": str(self.seed_file), "fixed_seed": self.fixed_seed,
        }  # fmt: skip


def run_demo(
    out: str | Path = "out",
    records: int = 30_000,
    replications: int = 200,
    seed: int | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> DemoResult:
    """Mask a generated teacher survey at the most useful level of noise that is safe enough, and write the release.

    `out` gets masked.csv, masked.parquet, schema.toml, recipe.toml and report.html, all of them or none. The seed goes to
    a folder beside it, `out`-confidential, that only its owner can read. It is a fixed one unless `seed` is given: the data
    are generated, so there is nothing to protect, and everybody gets the same numbers.
    """
    tell = progress or (lambda stage, done, total: None)
    folder = Path(out).resolve()
    secret = folder.with_name(f"{folder.name}-confidential") / "seed.toml"
    _check(records, replications, folder, secret, replace)
    tell("Generating the survey", 0, 0)
    draws = Draws(SEED if seed is None else seed)
    data = teachers(records, SEED if seed is None else seed)
    recipe = Recipe.of(noise=KimNoise(columns=("salary", "income")))
    estimators = (
        Mean("salary"),
        MeanCombination({"income": 1, "salary": -1}),
        Formula("salary ~ age + C(region)", term="age"),
    )
    stage = f"Masking at {len(LEVELS)} levels of noise, again and again"
    tell(stage, 0, replications)
    m = ru_map(
        data, recipe, {_LAMBDA2: LEVELS}, risk="salary", utility=list(map(EstimatorUtility, estimators)),
        replications=replications, draws=draws, progress=lambda done, total: tell(stage, done, total),
    )  # fmt: skip
    tell("Looking for the best level that is safe", 0, 0)
    choice = m.choose(max_risk=1 / MAX_ERROR**2, confirm=replications)
    if not choice.feasible:
        raise DataError(
            f"with {records:,} records and {replications:,} replications the demo finds no safe level: {choice.reason}"
        )
    tell("Masking and writing", 0, 0)
    release = recipe.with_(choice.settings).apply(data, draws)
    _write(release, m, choice, draws, folder, secret, replace)
    return DemoResult(m, choice, release, precision_kept(m, choice), folder, secret, seed is None)


def _check(records: int, replications: int, folder: Path, secret: Path, replace: bool) -> None:
    """Refuse what cannot end well, before any work is done."""
    if records < 100:
        raise ParameterError(f"the demo needs at least 100 records; got {records:,}.")
    if replications < 10:
        raise ParameterError(
            f"the demo needs at least 10 replications, so that it knows how sure it is; got {replications:,}."
        )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; give the name of a folder to write.")
    for path in (folder, secret):
        if not replace and (any(folder.iterdir()) if path is folder and folder.is_dir() else path.is_file()):
            raise DataError(
                f"{path} is there already. Choose another folder, or replace it (--replace; replace=True in Python)."
            )
    check_replaceable(folder, PUBLISHED)


def _write(release: Release, m: RUMap, choice: Choice, draws: Draws, folder: Path, secret: Path, replace: bool) -> None:
    """Write the release and its report to one folder and the seed to another: all of it, or nothing."""
    report = reports.Report(
        "A teacher survey, masked",
        [reports.data_section(release.original), reports.recipe_section(release), m.section(1 / MAX_ERROR**2, choice)],
        subtitle="The demo of sfumato: generated records, nobody's real data",
    )
    new = not secret.parent.exists()
    try:
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.parent.chmod(0o700)
        release.write(folder, draws, secret, replace=replace, more=lambda made: report.write(made / "report.html"))
    except BaseException:
        if new:
            with suppress(OSError):
                secret.parent.rmdir()
        raise


@expand_options
def demo(
    out: Annotated[Path, output_option(help="Folder for the release.", metavar="FOLDER")] = Path("out"),
    records: Annotated[int, typer.Option(help="How many teachers to generate.", min=100, max=10_000_000)] = 30_000,
    replications: Annotated[
        int, typer.Option(help="How often the file is masked at each level of noise.", min=10, max=100_000)
    ] = 200,
    seed: Annotated[
        int | None, typer.Option(help="A number of your own for the random numbers. A fixed one if not given.")
    ] = None,
    *,
    output: OutputOptions,
) -> None:
    """See it work: mask a generated teacher survey as far as needed, and no further.

    Writes the masked data, the recipe and a report to one folder, and the seed to another beside it.
    """
    screen = output.screen()
    with screen.progress() as tell:
        result = run_demo(out, records, replications, seed, output.replace, tell)
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
