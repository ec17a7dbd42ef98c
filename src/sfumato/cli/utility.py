"""`sfumato utility`: how far estimates from a masked file are from the original's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sfumato.cli.given import estimator, utility_measure
from sfumato.cli.handling import Misuse
from sfumato.cli.load import load_release
from sfumato.cli.options import Json, Masked, Original, Read, ReadMasked, SchemaFile, Weighted
from sfumato.cli.screen import Screen, percent, shown
from sfumato.errors import ParameterError, SfumatoError

if TYPE_CHECKING:
    from sfumato.contract import Release
    from sfumato.utility import Estimator

_EXPLAINED = (
    "This is the error that masking made in this one file. How large it is on average, and how it compares with the "
    "error of sampling, takes many maskings: sfumato map."
)


def utility(
    original: Original,
    masked: Masked,
    estimators: Annotated[
        list[str] | None,
        typer.Option(
            "--estimator",
            help="What an analyst computes: a column (its mean), 'income - salary' (of means), or a regression "
            "'salary ~ age', with the coefficient after a semicolon if there are several: "
            "'salary ~ age + C(region); age'. May be repeated.",
            show_default=False,
        ),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            help="A measure of the whole file by name: variance_kept, or 'variance_kept; over=salary,income'. It needs --align. "
            "May be repeated.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        Literal["file", "population"], typer.Option(help="What the estimate is held against: the original file's own.")
    ] = "file",
    weighted: Weighted = False,
    align: Annotated[
        str | None,
        typer.Option(
            metavar="rows|COLUMN",
            help="Which masked record is whose; measures need it, estimates do not (it is checked).",
        ),
    ] = None,
    schema: SchemaFile = None,
    read: Read = None,
    read_masked: ReadMasked = None,
    as_json: Json = False,
) -> None:
    """Tell how far an analyst's estimates from a masked file are from those of the original.

    With one masked file, what can be measured is the error that masking made in it (target = file). Give --estimator,
    --measure, or both.
    """
    if not (estimators or measures):
        raise Misuse("say what to compare: --estimator, such as --estimator salary, or --measure variance_kept.")
    if target != "file":
        raise ParameterError(
            "one masked file only tells how far its estimates are from the original file's (--target file). How far they "
            "are from the population's takes many maskings of many samples: sfumato map."
        )
    screen = Screen(as_json)
    named = [utility_measure(text) for text in measures or ()]
    if named and align is None:
        raise Misuse("--measure compares record by record: say with --align which masked record is whose.")
    release = load_release(screen, original, masked, schema, (read, read_masked), align)
    scores = [measure.score(release) for measure in named]
    for score in scores:
        screen.say(f"{score.measure}: {score.words}.", strong=True)
    told = _estimates(
        screen, release, [estimator(t, release.original.schema.names(), weighted) for t in estimators or ()]
    )
    screen.answer(
        {
            "target": "file",
            "means": _EXPLAINED,
            "records": {"original": len(release.original), "masked": len(release.masked)},
            "estimates": told,
            "measures": [score.to_dict() for score in scores],
        }
    )


def _estimates(screen: Screen, release: Release, asked: list[Estimator]) -> list[dict[str, object]]:
    """Print how far each estimate is off, and return the same as data."""
    if not asked:
        return []
    found = [(e, *_error(e, release)) for e in asked]
    labels = [e.label() for e in asked]
    units = [e.unit(release.original.schema) for e in asked]
    worst = max(range(len(found)), key=lambda i: -1.0 if math.isnan(found[i][2]) else abs(found[i][2]))
    _, error, share = found[worst]
    screen.say(f"{_furthest(labels[worst], len(found))} {_off(error, share, units[worst])}.", strong=True)
    screen.say(f"{len(release.original):,} original and {len(release.masked):,} masked records. {_EXPLAINED}")
    screen.say()
    rows = [(labels[i], e, units[i], None if math.isnan(s) else percent(s)) for i, (_, e, s) in enumerate(found)]
    screen.table(("estimate", "error (masked − original)", "unit", "of the original's"), rows, (1, 3))
    return [
        {
            "estimator": labels[i], "error": e, "relative_error": s, "unit": units[i],
            "utility": math.inf if e == 0 else 1 / e**2,
        }
        for i, (_, e, s) in enumerate(found)
    ]  # fmt: skip


def _error(e: Estimator, release: Release) -> tuple[float, float]:
    """Return masked minus original, and the same as a share of the original's; the estimates themselves stay here."""
    e.check(release.original)
    before = e.estimate(release.original, {})
    try:
        after = e.estimate(release.masked, {})
    except SfumatoError as error:
        raise type(error)(f"in the masked file: {error}") from None
    off = after - before if abs(after - before) > 1e-12 * abs(before) else 0.0  # less is the computer's rounding
    return off, off / abs(before) if before else math.nan


def _furthest(label: str, count: int) -> str:
    return f"Furthest off is {label}:" if count > 1 else f"From the masked file, {label}:"


def _off(error: float, share: float, unit: str) -> str:
    if error == 0:
        return "exactly as in the original"
    relative = "" if math.isnan(share) else f", {percent(abs(share))} of the original's"
    return f"off by {shown(abs(error))}{f' {unit}' if unit else ''}{relative}"
