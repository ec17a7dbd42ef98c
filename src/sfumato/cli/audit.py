"""`sfumato audit`: what a reader can work out from a published table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.audit_reading import known_cells, original_table, published_table, read_columns
from sfumato.cli.given import number
from sfumato.cli.handling import INFEASIBLE, Misuse
from sfumato.cli.load import refuse_existing
from sfumato.cli.options import OUTPUT, READING, Json, Read, Replace, per_size_option
from sfumato.cli.screen import Screen
from sfumato.cli.table_options import HierarchyFiles, TableSchema

if TYPE_CHECKING:
    from sfumato.tables import Audit
    from sfumato.tables.rta.priors import Prior

ORIGINAL = "If you hold the records"


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="PUBLISHED", help="The published table: a row for each cell.", show_default=False)
    ],
    dimensions: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The columns of labels, with commas between. All but value, status, variance and quality if not given.",
            rich_help_panel=READING,
        ),
    ] = None,
    value: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column of figures.", rich_help_panel=READING)
    ] = "value",
    status: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of flags that say which figures are not shown. 'status' if there is one.",
            rich_help_panel=READING,
        ),
    ] = None,
    hierarchy: HierarchyFiles = None,
    total: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL|COLUMN=LABEL",
            help="The label of a total, where it is not one of the usual names. May be repeated.",
            rich_help_panel=READING,
        ),
    ] = None,
    mark: Annotated[
        list[str] | None,
        typer.Option(
            help="A mark that stands for a figure that is not shown, besides the usual x, c, : and .. May be repeated.",
            rich_help_panel=READING,
        ),
    ] = None,
    absent: Annotated[
        Literal["empty", "suppressed"],
        typer.Option(help="What it means that a combination of labels has no row.", rich_help_panel=READING),
    ] = "empty",
    read: Read = None,
    within: Annotated[
        float,
        typer.Option(help="How far a shown figure may be from the true one: the base, if figures were rounded.", min=0),
    ] = 0.0,
    whole: Annotated[bool, typer.Option("--whole", help="Only whole numbers are possible: counts.")] = False,
    negative: Annotated[bool, typer.Option("--negative", help="Figures may be below 0.")] = False,
    tolerance: Annotated[
        float,
        typer.Option(help="How long an interval must be, as a share of the value, if no rule says so.", min=0),
    ] = 0.1,
    known: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABELS=VALUE|FILE",
            help="What a reader knows besides: 'North,coal=120', or 'North,coal=100:150' where he knows it to lie between; or a "
            ".csv with the labels and a column value, or low and high. May be repeated.",
        ),
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(
            metavar="RECORDS",
            help="The confidential records that the table was made from: for rules and contributors.",
            show_default=False,
            rich_help_panel=ORIGINAL,
        ),
    ] = None,
    read_original: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How to read the records, as --read says how to read the table. May be repeated.",
            rich_help_panel=ORIGINAL,
        ),
    ] = None,
    variable: Annotated[
        str | None,
        typer.Option(
            help="Which column of the records was summed; without it they are counted.", rich_help_panel=ORIGINAL
        ),
    ] = None,
    contributor: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Who contributed a record; the schema's if not given.", rich_help_panel=ORIGINAL
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="Which cells are unsafe, and how uncertain they must be: 'p% 10', 'nk 2 85', 'minimum 3'. May be repeated.",
            rich_help_panel=ORIGINAL,
        ),
    ] = None,
    insiders: Annotated[
        Literal["none", "equations", "bounds"],
        typer.Option(
            help="Contributors who know their own: not looked at, what follows exactly, or also nearly (slow).",
            rich_help_panel=ORIGINAL,
        ),
    ] = "equations",
    prior_cv: Annotated[
        float | None,
        typer.Option(
            help="To within which share of its size contributors know each other's figure beforehand.",
            rich_help_panel=ORIGINAL,
        ),
    ] = None,
    base_cv: Annotated[
        float | None,
        typer.Option(help="To within which share they may know it afterwards, at best.", rich_help_panel=ORIGINAL),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A public measure of the contributors' size.", rich_help_panel=ORIGINAL),
    ] = None,
    per_size: Annotated[str | None, per_size_option(ORIGINAL)] = None,
    schema: TableSchema = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write every cell with its interval and verdict (.csv): confidential.", rich_help_panel=OUTPUT
        ),
    ] = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Tell what a reader can work out from a published table: which cells are disclosed, and by which equations.

    The table may come from anywhere: a row for each cell, the totals among them, marks where figures are not shown. If a
    sensitive cell is disclosed, exactly or approximately, the exit code is 3.
    """
    screen = Screen(as_json)
    if out is not None:
        refuse_existing(out, replace, "the cells")
    rules = _rules(rule, original)
    prior = _prior(prior_cv, base_cv, original)
    columns = read_columns(file, dimensions, value, status, hierarchy, read)
    before = (
        None
        if original is None
        else original_table(screen, original, columns, variable, contributor, size, per_size, schema, read_original)
    )
    published = published_table(columns, value, total, mark, absent, within, negative, before)
    also = known_cells(known or (), published.cells)
    from sfumato.tables import audit as look

    with screen.progress() as tell:
        tell("Working out what can be worked out", 0, 0)
        found = look(
            published, prior, also, rules=rules, tolerance=tolerance, insiders=insiders, integer=True if whole else None,
        )  # fmt: skip
        if out is not None:
            _write(found, out)
    _show(screen, found, out)
    if not found.safe:
        raise typer.Exit(INFEASIBLE)


def _rules(given: list[str] | None, original: Path | None) -> Any:
    if not given:
        return None
    if original is None:
        raise Misuse("a rule looks at the contributions to each cell: give the records with --original.")
    from sfumato.tables import rules_of

    return rules_of(list(given))


def _prior(prior_cv: float | None, base_cv: float | None, original: Path | None) -> Prior | None:
    if prior_cv is None and base_cv is None:
        return None
    if prior_cv is None or base_cv is None:
        raise Misuse("--prior-cv and --base-cv belong together: what is known before, and what may be known after.")
    if original is None:
        raise Misuse("what contributors learn of each other needs the records: give them with --original.")
    from sfumato.tables.rta.priors import Prior

    return Prior.from_sizes(float(number(str(prior_cv))), float(number(str(base_cv))))


def _write(found: Audit, out: Path) -> None:
    from sfumato.files import write_text

    write_text(out, found.frame().to_csv(index=False), confidential=True)


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
