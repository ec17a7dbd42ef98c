"""`sfumato table BATCH.arb`: a batch file of τ-ARGUS, run with the methods here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.handling import Misuse
from sfumato.cli.load import refuse_absent, refuse_existing
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.cli.screen import Screen
    from sfumato.contract import Draws
    from sfumato.tables import ArgusJob


def is_batch(files: list[Path] | None) -> bool:
    """Whether a batch file is to be run."""
    return bool(files) and any(f.suffix.lower() == ".arb" for f in files or ())


def run_batch(
    screen: Screen, files: list[Path], others: bool, seed_file: Path | None, seed_from: Path | None, replace: bool
) -> None:
    """Run a batch file, and tell what became of its tables; `others` says whether other options were given."""
    from sfumato.tables import read_argus_batch, run_argus_batch

    if len(files) > 1 or others:
        raise Misuse(
            "a batch file says itself what its tables are, how they are protected and where they go: give nothing with it but "
            "--seed-file or --seed-from, --replace and --json."
        )
    refuse_absent(files[0])
    jobs = [job for job in read_argus_batch(files[0]) if job.method]
    inputs = {p.resolve() for job in jobs for p in (job.data, job.metadata, files[0]) if p is not None}
    targets = [out for job in jobs for out in job.out]
    for out in targets:
        refuse_existing(out, replace, "the table")
        if out.resolve() in inputs:
            raise DataError(
                f"the batch file writes to {out}, which it reads. Choose another file for what may be published."
            )
    draws, secrets = _seed(jobs, seed_file, seed_from, [*inputs, *(out.resolve() for out in targets)], replace)
    with screen.progress() as tell:
        tell(f"Running {files[0].name}", 0, 0)
        results = run_argus_batch(files[0], draws, secrets=secrets)
    rows = [
        (" * ".join(r.job.dimensions), r.published.variable or "counts", "" if p is None else p.label(), len(r.published),
         int(r.published.suppressed.sum()), ", ".join(map(str, r.job.out)))
        for r in results for p in (r.published.protection,)
    ]  # fmt: skip
    screen.table(("table", "of", "protected by", "cells", "not published", "written to"), rows, (3, 4))
    for note in dict.fromkeys(note for r in results for note in r.notes):
        screen.note(note)
    screen.answer({
        "tables": [
            dict(zip(("dimensions", "variable", "protection", "cells", "not published", "out"), row, strict=True)) for row in rows
        ],
        "notes": [note for r in results for note in r.notes],
    })  # fmt: skip


def _seed(
    jobs: list[ArgusJob], seed_file: Path | None, seed_from: Path | None, taken: list[Path], replace: bool
) -> tuple[Draws, dict[Path, str]]:
    """Return the randomness, and the seed that is to be kept before any table appears."""
    from sfumato.contract import Draws

    if seed_file is not None and seed_from is not None:
        raise Misuse("give --seed-file for a new seed, or --seed-from for one that is kept already, not both.")
    if seed_from is not None:
        return Draws.read(seed_from), {}
    draws = Draws.secret()
    if seed_file is None:
        if any(job.random for job in jobs):
            raise Misuse(
                "the batch file rounds at random (RND): say with --seed-file where to keep the secret seed. (Or --seed-from, to "
                "use a seed again: all tables of the same data should have the same one.)"
            )
        return draws, {}
    if seed_file.resolve() in taken:
        raise DataError(f"{seed_file} is a file that the batch reads or writes: keep the seed in another one.")
    refuse_existing(seed_file, replace, "the seed")
    return draws, {seed_file: draws.seed_text()}
