"""`sfumato table`: make a table or take one that exists, protect it, and write what may be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import tables
from sfumato.cli.console import Misuse, Screen, quoted
from sfumato.cli.files import check_chart, check_report, refuse_absent, refuse_existing, save_chart
from sfumato.cli.listing import show_tables
from sfumato.cli.options import METHOD, OUTPUT, OutputOptions, expand_options, flag, method_field, output_field
from sfumato.cli.parse import note_rules, protection_of, with_wishes
from sfumato.cli.table_source import APrioriFile, Rule, Source, protection_names
from sfumato.contract.draws import Draws
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.tables import ArgusJob, Protection, PublishedTable, Record, Table


@dataclass(frozen=True, kw_only=True)
class ProtectionOptions:
    """The options of `sfumato table` besides what the table is."""

    method: str | None = method_field(
        "How to protect it: suppression, rta, controlled_rounding, cell_key, ... `--list` shows all.",
        autocompletion=protection_names,
    )
    rule: Rule = None
    a_priori: APrioriFile = None
    set_: list[str] | None = method_field(
        "A parameter of the method: base=5, prior_cv=0.5, table=ptable.txt.", metavar="NAME=VALUE"
    )
    list_: bool = flag(
        "Show every method and rule, or with --method NAME or --rule NAME that one's parameters, and stop.",
        panel=METHOD,
    )
    out: Path | None = output_field("File for the protected table (.csv, .xlsx, .json, ...).")
    form: str | None = output_field("csv, xlsx, json-stat, sdmx-csv, ...; from the name of the file if not given.")
    seed_file: Path | None = output_field(
        "Where to keep the secret seed of a random method. Whoever has it can undo the protection."
    )
    seed_from: Path | None = output_field(
        "Use the seed in this file: for the same table again, and for other tables of the same data."
    )
    record_file: Path | None = output_field(
        "Where to keep the record of a random adjustment for later tables: it holds true values."
    )
    record_from: Path | None = output_field(
        "The record of a table of these data that is published already: this one will agree with it."
    )
    report: Path | None = output_field("Write a report for the review board (.html or .pdf): confidential.")
    publishable: bool = flag("Make the report and the chart for the public.", panel=OUTPUT)
    chart: Path | None = output_field("Draw what happened to each cell (.svg or .png): confidential.")
    output: OutputOptions

    def describe_a_table(self) -> bool:
        """Whether an option says how to protect a table, or where it goes: a batch file says that itself."""
        own = (
            self.method,
            self.rule,
            self.set_,
            self.a_priori,
            self.out,
            self.record_file,
            self.record_from,
            self.report,
        )
        return any(option is not None for option in own)


def is_batch(files: list[Path] | None) -> bool:
    """Whether a batch file is to be run."""
    return bool(files) and any(f.suffix.lower() == ".arb" for f in files or ())


def run_batch(screen: Screen, files: list[Path], source: Source, options: ProtectionOptions) -> None:
    """Run a batch file, and tell what became of its tables."""
    if len(files) > 1 or source != Source(files) or options.describe_a_table():
        raise Misuse(
            "a batch file says itself what its tables are, how they are protected and where they go: give nothing with it but "
            "--seed-file or --seed-from, --replace and --json."
        )
    refuse_absent(files[0])
    jobs = [job for job in tables.read_argus_batch(files[0]) if job.method]
    inputs = {p.resolve() for job in jobs for p in (job.data, job.metadata, files[0]) if p is not None}
    targets = [out for job in jobs for out in job.out]
    for out in targets:
        refuse_existing(out, options.output.replace, "the table")
        if out.resolve() in inputs:
            raise DataError(
                f"the batch file writes to {out}, which it reads. Choose another file for what may be published."
            )
    draws, secrets = _seed(jobs, options, [*inputs, *(out.resolve() for out in targets)])
    with screen.progress() as tell:
        tell(f"Running {files[0].name}", 0, 0)
        results = tables.run_argus_batch(files[0], draws, secrets=secrets)
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


def _seed(jobs: list[ArgusJob], options: ProtectionOptions, taken: list[Path]) -> tuple[Draws, dict[Path, str]]:
    """Return the randomness, and the seed that is to be kept before any table appears."""
    seed_file, seed_from = options.seed_file, options.seed_from
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
    refuse_existing(seed_file, options.output.replace, "the seed")
    return draws, {seed_file: draws.seed_text()}


@dataclass(frozen=True)
class Secrets:
    """The randomness of a table, an earlier table's record, and where both are kept."""

    draws: Draws
    seed: Path | None
    """Where the seed is; None where nothing is random."""
    new_seed: bool
    record_file: Path | None
    earlier: Record | None

    @classmethod
    def of(cls, chosen: Protection, out: Path, options: ProtectionOptions, inputs: Sequence[Path]) -> Secrets:
        """Read what is kept already, and refuse what cannot be kept, before any work is done.

        No secret may take the place of the `inputs`, or of another file of the command.
        """
        seed_file, record_file, record_from = options.seed_file, options.record_file, options.record_from
        others = (*inputs, options.report, options.chart, options.seed_from, record_from)
        if (record_file is not None or record_from is not None) and not isinstance(chosen, tables.RTA):
            raise Misuse(
                f"only random adjustment (--method rta) has a record for later tables; {chosen.name} needs none. "
                "Leave --record-file and --record-from out."
            )
        for what, path in (("seed", seed_file), ("record", record_file)):
            if path is not None and path.resolve() == out.resolve():
                raise DataError(f"the {what} must be kept apart from what is published: choose another file for it.")
            if path is not None and path.resolve() in {p.resolve() for p in others if p is not None}:
                raise DataError(
                    f"--{what}-file names a file that the command reads or writes; choose another one for the {what}."
                )
            if path is not None and path.is_dir():
                raise DataError(f"{path} is a folder; give the name of a file for the {what}.")
        if record_file is not None and seed_file is not None and record_file.resolve() == seed_file.resolve():
            raise Misuse("--seed-file and --record-file name the same file.")
        draws, seed = _table_secrets_seed(chosen, seed_file, options.seed_from, options.output.replace)
        if record_file is not None and record_file.exists() and not options.output.replace:
            raise DataError(
                f"{record_file} is there already: the record of an earlier table, which later ones need. Choose another name, or "
                "add --replace."
            )
        earlier = None if record_from is None else tables.Record.read(record_from)
        return cls(draws, seed, options.seed_from is None and seed is not None, record_file, earlier)

    def protect(self, chosen: Protection, table: Table) -> PublishedTable:
        """Protect a table, in agreement with the earlier one where there is one."""
        if self.earlier is not None and isinstance(chosen, tables.RTA):
            return chosen.protect_later(table, self.earlier, self.draws)
        return chosen.protect(table, self.draws)

    def texts(self, published: PublishedTable) -> dict[Path, str]:
        """Return what must be kept before the table appears: the text of each confidential file."""
        kept = {}
        if self.new_seed and self.seed is not None:
            kept[self.seed] = self.draws.seed_text()
        if self.record_file is not None:
            if published.record is None:
                raise DataError("this table has no record for later ones.")
            kept[self.record_file] = published.record.text()
        return kept

    def words(self, published: PublishedTable) -> list[str]:
        """Say where the secrets are, and what they are for."""
        said = []
        if self.seed is not None:
            said.append(
                f"The seed is in {self.seed}. Never publish it; use it (--seed-from {quoted(self.seed)}) for all tables of "
                "these data, so that nobody can average the noise away."
            )
        if self.record_file is not None:
            said.append(
                f"The record is in {self.record_file}. It holds true values: never publish it; a later table of these data needs "
                f"it (--record-from {quoted(self.record_file)})."
            )
        elif published.record is not None:
            said.append("Other tables of these data may follow? Keep the record for them, too: --record-file.")
        return said


def _table_secrets_seed(
    chosen: Protection, seed_file: Path | None, seed_from: Path | None, replace: bool
) -> tuple[Draws, Path | None]:
    """Return the randomness, and where its seed is kept; a method without randomness needs none."""
    if seed_file is not None and seed_from is not None:
        raise Misuse("give --seed-file for a new seed, or --seed-from for one that is kept already, not both.")
    if not chosen.random:
        return Draws("no randomness"), None
    if seed_from is not None:
        return Draws.read(seed_from), seed_from
    if seed_file is None:
        raise Misuse(
            f"{chosen.name} is random: say with --seed-file where to keep its secret seed. (Or --seed-from, to use a seed again: "
            "all tables of the same data should have the same one.)"
        )
    if seed_file.exists() and not replace:
        raise DataError(
            f"{seed_file} is there already, and a new seed would take the place of an old one. To use that seed again, as for "
            f"another table of the same data: --seed-from {quoted(seed_file)}. To make a new one: another name, or --replace."
        )
    return Draws.secret(), seed_file


@expand_options
def table(source: Source, options: ProtectionOptions) -> None:
    """Make a table, or linked tables, from records or from cells; protect it; write what may be published.

    Records become a table by --formula; a table that exists already is read with --dimensions, or as a .tab file of τ-ARGUS;
    a batch file of it (.arb) is run. What cannot be protected as asked is refused, with the reason. The original values stay
    where they are.
    """
    screen, out, a_priori = options.output.screen(), options.out, options.a_priori
    if options.list_:
        show_tables(screen, options.method, None if not options.rule else options.rule[0])
        return
    files = source.files or []
    if is_batch(files):
        run_batch(screen, files, source, options)
        return
    source.check()
    if options.method is None:
        raise Misuse("--method is missing: how to protect the table, such as --method suppression. --list shows all.")
    if out is None:
        raise Misuse("--out is missing: the file that gets what may be published.")
    marked = a_priori is not None or source.argus
    chosen = protection_of(options.method, options.set_ or (), options.rule, marked=marked)
    inputs = [p for p in (*files, source.schema, a_priori) if p is not None]
    _check_files(inputs, out, options)
    secrets = Secrets.of(chosen, out, options, inputs)
    with screen.progress() as tell:
        tell("Reading the table", 0, 0)
        made, given = source.table(screen)
        note_rules(screen, options.rule, made)
        chosen = with_wishes(screen, chosen, source.wanted(made, given, a_priori), asked=a_priori is not None)
        tell("Protecting the table", 0, 0)
        published = secrets.protect(chosen, made)
        published.write(out, options.form, secrets=secrets.texts(published))
        _extras(published, options, tell)
    _show(screen, made, published, chosen, out, secrets, options)


def _check_files(inputs: list[Path], out: Path, options: ProtectionOptions) -> None:
    """Refuse, before any work is done, what cannot be written."""
    report, chart, replace = options.report, options.chart, options.output.replace
    refuse_existing(out, replace, "the table")
    taken = {p.resolve() for p in inputs}
    for name, path in (("--out", out), ("--report", report), ("--chart", chart)):
        if path is not None and path.resolve() in taken:
            raise DataError(f"{name} names the original; choose another file for what may be published.")
    tables.form_of(out, options.form)
    check_report(report, replace)
    check_chart(chart, replace)
    named = [p.resolve() for p in (out, report, chart) if p is not None]
    if len(set(named)) < len(named):
        raise Misuse("--out, --report and --chart name the same file twice.")


def _extras(published: PublishedTable, options: ProtectionOptions, tell: Any) -> None:
    """Write the report and the chart."""
    report, chart, publishable = options.report, options.chart, options.publishable
    if chart is not None:
        from sfumato.tables.section import heatmap

        tell("Drawing", 0, 0)
        save_chart(heatmap(published, public=publishable), chart, confidential=not publishable)
    if report is not None:
        from sfumato.reports.subject_reports import table_report

        tell("Writing the report", 0, 0)
        what = published.variable or "counts"
        table_report(published, title=f"Table of {what}", publishable=publishable).write(report, json=True)


def _show(
    screen: Screen, made: Table, published: PublishedTable, chosen: Protection, out: Path, secrets: Secrets,
    options: ProtectionOptions,
) -> None:  # fmt: skip
    status = tables.Status
    names = (
        (status.SHOWN, "shown as they are"),
        (status.CHANGED, "changed"),
        (status.PRIMARY, "not published: unsafe"),
        (status.SECONDARY, "not published: others could be worked out"),
    )
    counts = {words: int((published.status == one).sum()) for one, words in names}
    who = "" if made.contributions is None else f", {len(made.contributions):,} contributors"
    screen.say(f"A table of {len(made):,} cells{who}, protected by {chosen.label()}.", strong=True)
    screen.say()
    screen.table(("cells", "number"), [(words, n) for words, n in counts.items() if n], (1,))
    screen.say()
    if published.guarantees:
        screen.table(("what holds", "how that is known"), [(g.says, g.verified) for g in published.guarantees])
        screen.say()
    confidential = (
        " How many cells were unsafe stands above, and is not for the public." if published.suppressed.any() else ""
    )
    screen.say(f"Wrote {out}.{confidential}")
    if more := [str(p) for p in (options.report, options.chart) if p is not None]:
        screen.say(f"Wrote {', '.join(more)}.")
    for line in secrets.words(published):
        screen.say(line)
    screen.answer({
        "cells": len(made), "contributors": None if made.contributions is None else len(made.contributions),
        "protection": chosen.name, "counts": counts, "out": out, "seed_file": secrets.seed, "record_file": secrets.record_file,
        "report": options.report, "chart": options.chart,
        "guarantees": [{"says": g.says, "verified": g.verified} for g in published.guarantees],
    })  # fmt: skip
