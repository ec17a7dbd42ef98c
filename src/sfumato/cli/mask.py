"""`sfumato mask`: mask a file and write what may be published."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING

from typing_extensions import override

from sfumato.cli.console import Misuse, Screen, quoted
from sfumato.cli.demo import PUBLISHED
from sfumato.cli.listing import show_masks
from sfumato.cli.options import (
    METHOD,
    OutputOptions,
    RecipeOptions,
    SourceOptions,
    argument,
    expand_options,
    flag,
    output_field,
)
from sfumato.contract.draws import Draws
from sfumato.errors import DataError, SfumatoError, refuse_unknown
from sfumato.files import check_replaceable

if TYPE_CHECKING:
    from sfumato.contract.release import Release

_FORMS = ("csv", "csv.gz", "tsv", "parquet", "arrow", "feather", "dta", "sav", "zsav", "por", "xpt", "xlsx")


@dataclass(frozen=True, kw_only=True)
class MaskOptions:
    """The options of `sfumato mask`."""

    file: Path | None = argument("FILE", "The confidential file.")
    recipe: RecipeOptions
    list_: bool = flag("Show every mask, or with --mask NAME that one's parameters, and stop.", panel=METHOD)
    source: SourceOptions
    out: Path | None = output_field("Folder for what may be published.", metavar="FOLDER")
    seed_file: Path | None = output_field(
        "Where to keep the secret seed, outside the folder; needed if a mask is random. Whoever has it can subtract the noise."
    )
    seed_from: Path | None = output_field("Use the seed in this file, to make an earlier release again.")
    form: list[str] | None = output_field("csv, parquet, sav, dta, xlsx or another form; csv and parquet if not given.")
    output: OutputOptions


@expand_options
def mask(options: MaskOptions) -> None:
    """Mask a file, and write what may be published to a folder.

    The folder gets the masked data, schema.toml and recipe.toml. Identifiers are always removed first.
    """
    screen, file, out, replace = options.output.screen(), options.file, options.out, options.output.replace
    if options.list_:
        show_masks(screen, options.recipe.mask)
        return
    if file is None:
        raise Misuse("the name of the file to mask is missing. To see the masks: sfumato mask --list")
    if out is None:
        raise Misuse("--out is missing: the folder that gets what may be published.")
    forms = [f.lower().lstrip(".") for f in options.form or ("csv", "parquet")]
    refuse_unknown("form", _FORMS, "the list of forms that can be written", *forms)
    recipe = options.recipe.load()
    draws, secret = _seed(options.seed_file, options.seed_from, replace)
    _check_out(out, file, secret, replace)
    data = options.source.load(screen, file)
    with screen.progress() as tell:
        tell(f"Masking {file.name}", 0, 0)
        release = recipe.apply(data, draws)
        if options.seed_from is not None:
            draws.check_purpose(options.seed_from, release.purpose(draws))
        _write(release, out, draws, secret, forms, replace)
    _show(screen, release, out, secret, _next(release, file, out, options.source))


class UnkeptDraws(Draws):
    """Draws from a secret that is thrown away: for a recipe that draws nothing, which `used` tells afterwards."""

    __slots__ = ("used",)

    def __init__(self, seed: int | str | bytes, used: list[str] | None = None) -> None:
        super().__init__(seed)
        self.used = [] if used is None else used

    @override
    def child(self, *names: str | int) -> Draws:
        child = UnkeptDraws(0, self.used)
        child._key, child._path, child._memory = self._key, (*self._path, *map(str, names)), self._memory
        return child

    @override
    def _stream(self, name: str) -> bytes:
        self.used.append(name)
        return super()._stream(name)


def _seed(seed_file: Path | None, seed_from: Path | None, replace: bool) -> tuple[Draws, Path | None]:
    """Return the randomness, and where its seed is kept."""
    if seed_from is not None:
        return Draws.read(seed_from), seed_file or seed_from
    if seed_file is None:
        return UnkeptDraws(token_bytes(32)), None
    if seed_file.exists() and not replace:
        raise DataError(
            f"{seed_file} is there already, and a new seed would take the place of an old one. To use that seed again: "
            f"--seed-from {quoted(seed_file)}. To make a new one: another name, or --replace."
        )
    return Draws.secret(), seed_file


def _check_out(out: Path, file: Path, secret: Path | None, replace: bool) -> None:
    """Refuse to put the seed among what is published, or to replace a folder that holds anything else."""
    folder = out.resolve()
    if secret is not None and folder in (secret.resolve(), *secret.resolve().parents):
        raise DataError(f"the seed must be kept apart from what is published: choose a place outside {out} for it.")
    if folder in file.resolve().parents:
        raise DataError(f"the original, {file}, lies in {out}: choose another folder for what may be published.")
    if folder.is_dir() and any(folder.iterdir()) and not replace:
        raise DataError(f"the folder {out} already holds files. Choose another one, or add --replace.")
    check_replaceable(folder, PUBLISHED)


def _write(release: Release, out: Path, draws: Draws, secret: Path | None, forms: list[str], replace: bool) -> None:
    def check_kept(folder: Path) -> None:
        if isinstance(draws, UnkeptDraws) and draws.used:
            raise Misuse(
                "--seed-file is missing: where to keep the secret seed, outside the folder of --out. (Or --seed-from, to use the "
                "seed of an earlier release again.)"
            )

    try:
        release.write(out, draws, secret, forms=forms, replace=replace, more=check_kept)
    except SfumatoError as error:  # it names the hidden folder that files are first written to
        folder = out.resolve()
        hidden = re.escape(str(folder.with_name(f".{folder.name}."))) + rf"[^{re.escape(os.sep)}]+"
        raise type(error)(re.sub(hidden, lambda _: str(out), str(error))) from None


def _next(release: Release, file: Path, out: Path, source: SourceOptions) -> str:
    """Return what to do next: `risk` can compare the files only if both list the same records in the same order."""
    masked = next(path for path in sorted(out.iterdir()) if path.name.startswith("masked"))
    options = [
        *(["--schema", source.schema] if source.schema else []),
        *(part for text in source.read or () for part in ("--read", text)),
    ]
    files = (file, masked)
    if release.matched[0] is None:
        command = quoted("sfumato", "risk", *files, "--align", "rows", *options)
        return f"Next, what a snooper learns from it: {command}"
    command = quoted("sfumato", "utility", *files, *options)
    return (
        f"Next, what an analyst keeps: {command} --estimator COLUMN. (sfumato risk cannot compare the two files: the masked one "
        "does not list the original's records in their order, and nothing in it says which is whose. sfumato map knows, and "
        "measures the risk.)"
    )


def _show(screen: Screen, release: Release, out: Path, secret: Path | None, advice: str) -> None:
    files = sorted(p.name for p in out.iterdir())
    steps = list(release.recipe.describe()) if release.recipe is not None else []
    screen.say(f"Masked {len(release.masked):,} records.", strong=True)
    screen.say()
    screen.table(("step", "mask", "parameters"), steps)
    screen.say()
    rows = [(g.step, g.says, g.verified) for g in release.guarantees]
    screen.table(("step", "what holds", "how that is known"), rows)
    screen.say()
    screen.say(f"Wrote {out}{os.sep}: {', '.join(files)}.")
    screen.say(
        "Nothing in it is random, so that there is no seed to keep."
        if secret is None
        else f"The seed is in {secret}. Never publish it: whoever has it can subtract the noise."
    )
    screen.say(advice)
    screen.answer(
        {
            "records": len(release.masked), "columns": list(release.masked.schema.names()), "folder": out, "files": files,
            "seed_file": secret, "steps": [{"name": n, "mask": m, "parameters": p} for n, m, p in steps],
            "guarantees": [{"step": g.step, "says": g.says, "verified": g.verified} for g in release.guarantees],
        }
    )  # fmt: skip
