"""`sfumato audit`: what a reader can work out from a published table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from sfumato import tables
from sfumato.cli.console import INFEASIBLE, Misuse, Screen
from sfumato.cli.files import load_cells, load_table, refuse_absent, refuse_existing
from sfumato.cli.options import (
    OutputOptions,
    Read,
    argument,
    expand_options,
    flag,
    option,
    output_field,
    per_size_option,
    reading_field,
)
from sfumato.cli.parse import named_hierarchies, names, number, total_labels, with_hierarchies
from sfumato.cli.table_source import HierarchyFiles, TableSchema, records
from sfumato.errors import DataError, did_you_mean, join_names, unknown_name
from sfumato.files import write_text

if TYPE_CHECKING:
    from sfumato.tables import Audit, Cells, ReadBack

ORIGINAL = "If you hold the records"
original_field = partial(option, rich_help_panel=ORIGINAL)


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The options of `sfumato audit`."""

    file: Path = argument("PUBLISHED", "The published table: a row for each cell.", required=True)
    dimensions: str | None = reading_field(
        "The columns of labels, with commas between. All but value, status, variance and quality if not given.",
        metavar="COLUMNS",
    )
    value: str = reading_field("The column of figures.", default="value", metavar="COLUMN")
    status: str | None = reading_field(
        "A column of flags that say which figures are not shown. 'status' if there is one.", metavar="COLUMN"
    )
    hierarchy: HierarchyFiles = None
    total: list[str] | None = reading_field(
        "The label of a total, where it is not one of the usual names.", metavar="LABEL|COLUMN=LABEL"
    )
    mark: list[str] | None = reading_field(
        "A mark that stands for a figure that is not shown, besides the usual x, c, : and .."
    )
    absent: Literal["empty", "suppressed"] = reading_field(
        "The meaning of a combination of labels without a row.", default="empty"
    )
    read: Read = None
    within: float = option(
        "How far a shown figure may be from the true one: the base, if figures were rounded.", default=0.0, min=0
    )
    whole: bool = flag("Only whole numbers are possible: counts.")
    negative: bool = flag("Figures may be below 0.")
    tolerance: float = option(
        "Least length of an interval, as a share of the value, if no rule says another.", default=0.1, min=0
    )
    known: list[str] | None = option(
        "A cell that a reader knows: 'North,coal=120', or 'North,coal=100:150' for a value between two numbers; or a "
        ".csv with the labels and a column value, or low and high.",
        metavar="LABELS=VALUE|FILE",
    )
    original: Path | None = original_field(
        "The confidential records that the table was made from: for rules and contributors.", metavar="RECORDS"
    )
    read_original: list[str] | None = original_field(
        "How to read the records, as --read says how to read the table.", metavar="NAME=VALUE"
    )
    variable: str | None = original_field("Which column of the records was summed; without it they are counted.")
    contributor: str | None = original_field("Who contributed a record; the schema's if not given.", metavar="COLUMN")
    rule: list[str] | None = original_field(
        "Which cells are unsafe, and how uncertain they must be: 'p% 10', 'nk 2 85', 'minimum 3'."
    )
    insiders: Literal["none", "equations", "bounds"] = original_field(
        "Contributors who know their own figures: not examined, exactly (equations), or nearly, too (bounds; slow).",
        default="equations",
    )
    prior_cv: float | None = original_field(
        "How closely contributors know each other's figures before publication, as a share of their size."
    )
    base_cv: float | None = original_field("How closely they may know them afterwards, as a share of their size.")
    size: str | None = original_field("A public measure of the contributors' size.", metavar="COLUMN")
    per_size: str | None = per_size_option(ORIGINAL)
    schema: TableSchema = None
    out: Path | None = output_field("Write every cell with its interval and verdict (.csv): confidential.")
    output: OutputOptions


_OURS = ("value", "status", "variance", "quality")


class PublishedColumns(NamedTuple):
    """The published file, and which columns of it are what."""

    cells: Any
    nested: dict[str, Any]
    """The columns of labels, each with its hierarchy or None."""
    status: str | None
    variance: str | None


def _read_columns(options: AuditOptions) -> PublishedColumns:
    """Read a published table, and find out which columns are labels."""
    file, value, status, hierarchy = options.file, options.value, options.status, options.hierarchy
    asked = names(options.dimensions)
    if (read_back := _standard(file)) is not None:
        if options.dimensions is not None or value != "value" or status is not None:
            raise Misuse(f"{file.name} says itself what its columns are: leave out --dimensions, --value and --status.")
        own_nested = {**read_back.nested, **named_hierarchies(hierarchy, read_back.nested)}
        return PublishedColumns(read_back.cells, own_nested, "status", read_back.variance)
    frame = load_table(file, options.read, value, asked)
    columns = list(frame.column_names)
    if value not in columns:
        raise Misuse(
            f"{file} has no column '{value}': say with --value which one holds the figures. It has: {join_names(columns)}."
        )
    ours = value == "value"
    own = set(_OURS) if ours else {value}
    chosen = list(asked) or [c for c in columns if c not in own | {value, status}]
    flags = status or ("status" if ours and "status" in columns else None)
    noise = "variance" if ours and "variance" in columns and "variance" not in chosen else None
    nested: dict[str, Any] = {**dict.fromkeys(chosen), **named_hierarchies(hierarchy, chosen)}
    return PublishedColumns(frame, nested, flags, noise)


def _standard(file: Path) -> ReadBack | None:
    """Return what is in a file of JSON-stat or SDMX-CSV; None for any other."""
    name = file.name.casefold()
    if not name.endswith((".json", ".jsonstat", ".sdmx.csv")):
        return None
    refuse_absent(file)
    return tables.read_sdmx_csv(file) if name.endswith(".csv") else tables.read_json_stat(file)


def _published_table(screen: Screen, options: AuditOptions) -> tables.PublishedTable:
    """Return the published table, with the one that it was made from where the records are there."""
    columns = _read_columns(options)
    before = None if options.original is None else _original_table(screen, options, options.original, columns)
    return tables.PublishedTable.from_frame(
        columns.cells, columns.nested, options.value, status=columns.status, variance=columns.variance,
        total=total_labels(options.total), marks=options.mark or (), within=options.within, absent=options.absent,
        nonnegative=False if options.negative else None, original=before,
    )  # fmt: skip


def _original_table(screen: Screen, options: AuditOptions, path: Path, columns: PublishedColumns) -> tables.Table:
    """Return the table that the published one was made from, with the same cells."""
    formula = " * ".join(f"`{n}`" for n in columns.nested)
    data, marks = records(screen, path, options.schema, options.read_original)
    return tables.Table.of(
        with_hierarchies(data, columns.nested), formula, options.variable, contributor=options.contributor, size=options.size,
        per_size=None if options.per_size is None else number(options.per_size), request=marks.request,
        record_key=marks.record_key,
    )  # fmt: skip


def known_cells(given: Iterable[str], cells: Cells) -> dict[int, float | tuple[float, float]]:
    """Return what is known of cells by their position, from 'North,coal=120', 'North,coal=100:150', or files."""
    place = {tuple(row): i for i, row in enumerate(cells.labels.tolist())}
    found: dict[int, float | tuple[float, float]] = {}
    for text in given:
        labels, sign, value = text.rpartition("=")
        if not sign and Path(text).suffix.lower() in (".csv", ".parquet", ".xlsx"):
            pairs = _from_file(Path(text), cells)
        elif sign and labels.strip():
            pairs = [(tuple(part.strip() for part in labels.split(",")), _known(value))]
        else:
            raise Misuse(_HOW.format(text))
        for cell, what in pairs:
            if cell not in place:
                raise DataError(_unknown(cell, cells))
            found[place[cell]] = what
    return found


_HOW = (
    "--known takes LABELS=VALUE, LABELS=LOW:HIGH, or the name of a .csv file, such as 'North,coal=100:150'; got '{}'."
)


def _known(text: str) -> float | tuple[float, float]:
    ends = [number(part.strip()) for part in text.split(":")]
    if not 1 <= len(ends) <= 2 or not all(isinstance(e, float) and not math.isnan(e) for e in ends):
        raise Misuse(f"what is known of a cell is a number, or LOW:HIGH; '{text.strip()}' is neither.")
    return float(ends[0]) if len(ends) == 1 else (float(ends[0]), float(ends[1]))


def _from_file(path: Path, cells: Cells) -> list[tuple[tuple[str, ...], float | tuple[float, float]]]:
    import numpy as np

    from sfumato.tables.from_cells import labels_in

    data = load_cells(path, None, cells.dimensions)
    present = data.schema.names()
    if absent := [n for n in cells.dimensions if n not in present]:
        raise DataError(unknown_name("column", absent[0], present, f"{path}, which needs a label for each dimension"))
    if not ("value" in present or {"low", "high"} <= set(present)):
        raise DataError(
            f"{path} needs a column 'value', or two, 'low' and 'high', that say what is known of each cell."
        )
    sides = ("value", "value") if "value" in present else ("low", "high")
    low, high = (data.numbers(side) for side in sides)
    if np.isnan(low).any() or np.isnan(high).any():
        raise DataError(f"{path} has cells without a known value. Leave out their rows.")
    return list(
        zip(labels_in(data, list(cells.dimensions)), zip(low.tolist(), high.tolist(), strict=True), strict=True)
    )


def _unknown(cell: tuple[str, ...], cells: Cells) -> str:
    if len(cell) != len(cells.dimensions):
        needed = join_names(cells.dimensions)
        return f"--known needs a label for each of {needed}, with 'Total' for a margin; got '{','.join(cell)}'."
    for i, label in enumerate(cell):
        if label not in (labels := list(dict.fromkeys(cells.labels[:, i].tolist()))):
            return f"--known names '{label}', which is not a label of '{cells.dimensions[i]}'.{did_you_mean(label, labels)}"
    return f"--known names a cell that the table does not have: {', '.join(cell)}."


@expand_options
def audit(options: AuditOptions) -> None:
    """Tell what a reader can work out from a published table: which cells are disclosed, and by which equations.

    The table may come from anywhere: a row for each cell, the totals among them, marks where figures are not shown. If a
    sensitive cell is disclosed, exactly or approximately, the exit code is 3.
    """
    from sfumato.tables.table_audit import audit as look

    screen, out = options.output.screen(), options.out
    if out is not None:
        refuse_existing(out, options.output.replace, "the cells")
    rules = _rules(options.rule, options.original)
    prior = _prior(options.prior_cv, options.base_cv, options.original)
    published = _published_table(screen, options)
    known = known_cells(options.known or (), published.cells)
    with screen.progress() as tell:
        tell("Working out what can be worked out", 0, 0)
        found = look(
            published, prior, known, rules=rules, tolerance=options.tolerance, insiders=options.insiders,
            integer=True if options.whole else None,
        )  # fmt: skip
        if out is not None:
            write_text(out, found.frame().to_csv(index=False), confidential=True)
    _show(screen, found, out)
    if not found.safe:
        raise typer.Exit(INFEASIBLE)


def _rules(given: list[str] | None, original: Path | None) -> Any:
    if not given:
        return None
    if original is None:
        raise Misuse("a rule looks at the contributions to each cell: give the records with --original.")
    return tables.rules_of(list(given))


def _prior(prior_cv: float | None, base_cv: float | None, original: Path | None) -> tables.Prior | None:
    if prior_cv is None and base_cv is None:
        return None
    if prior_cv is None or base_cv is None:
        raise Misuse("--prior-cv and --base-cv belong together: what is known before, and what may be known after.")
    if original is None:
        raise Misuse("what contributors learn of each other needs the records: give them with --original.")
    return tables.Prior.from_sizes(float(number(str(prior_cv))), float(number(str(base_cv))))


def _show(screen: Screen, found: Audit, out: Path | None) -> None:
    headline, *rest = str(found).splitlines()
    screen.say(headline, strong=True)
    for line in rest:
        screen.say(line)
    if out is not None:
        screen.say()
        screen.say(
            f"Wrote {out}: every cell with its interval. It is confidential: the intervals are what must not be known."
        )
    screen.answer({**found.to_dict(), "out": out})
