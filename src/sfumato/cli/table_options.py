"""Options that say what a table is: those of `table` and `table-map`, and some of `audit`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from sfumato.cli.options import METHOD, READING, Read, per_size_option

RECORDS, CELLS = "The table, from records", "The table, from cells that exist already"


def protection_names(incomplete: str) -> list[str]:
    """Complete the name of a protection."""
    from sfumato.contract import registered

    return [name for name in registered("protection") if name.startswith(incomplete)]


HierarchyFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--hierarchy",
        metavar="COLUMN=FILE",
        help="For labels with subtotals, how they nest: an .hrc file, or a .csv with the labels above each value. "
        "May be repeated.",
        rich_help_panel=READING,
    ),
]
TableSchema = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="What the columns mean, as `sfumato schema` writes it, or an .rda file of τ-ARGUS. Guessed if not given.",
        rich_help_panel=READING,
    ),
]
Rule = Annotated[
    list[str] | None,
    typer.Option(
        help="Which cells are unsafe: 'p% 10', 'nk 2 85', 'minimum 3'. May be repeated: one is enough to be unsafe.",
        show_default=False,
        rich_help_panel=METHOD,
    ),
]
APrioriFile = Annotated[
    Path | None,
    typer.Option(
        "--a-priori",
        help="What is wanted of single cells, for suppression: an .hst file of τ-ARGUS, or a table with columns status, cost, "
        "lower, upper, lower_level, upper_level.",
        rich_help_panel=METHOD,
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """What the table is: each field is an option of the commands that take one."""

    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="The confidential records; or the cells of a table that exists already (a file for each of several linked "
            "ones): a row for each cell, or a .tab file of τ-ARGUS.",
            show_default=False,
        ),
    ] = None
    formula: Annotated[
        str | None,
        typer.Option(
            help="Which cells: 'region * sector' with all margins, 'region * sector + group * sector' for linked tables.",
            show_default=False,
            rich_help_panel=RECORDS,
        ),
    ] = None
    variable: Annotated[
        str | None,
        typer.Option(
            help="The column to sum; without it records are counted.", show_default=False, rich_help_panel=RECORDS
        ),
    ] = None
    contributor: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Who contributed a record. The schema's contributor, else every record for itself, if not given.",
            rich_help_panel=RECORDS,
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="A public measure of the contributors' size, for random adjustment; added up over a contributor's records.",
            rich_help_panel=RECORDS,
        ),
    ] = None
    per_size: Annotated[str | None, per_size_option(RECORDS)] = None
    waiver: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Says yes where a contributor waived protection.", rich_help_panel=RECORDS),
    ] = None
    request: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The contributor's request for protection (1 or 2; 0 for none), for the rule 'request'.",
            rich_help_panel=RECORDS,
        ),
    ] = None
    record_key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Keys of the records in [0, 1), for cell keys.", rich_help_panel=RECORDS),
    ] = None
    empty: Annotated[
        bool,
        typer.Option(
            "--empty", help="Combinations that could occur and do not are cells too.", rich_help_panel=RECORDS
        ),
    ] = False
    leave_out: Annotated[
        bool,
        typer.Option(
            "--leave-out-missing", help="Leave out records without a value of the variable.", rich_help_panel=RECORDS
        ),
    ] = False
    recode: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=FILE",
            help="Recode a column by a .grc file of τ-ARGUS. May be repeated.",
            rich_help_panel=RECORDS,
        ),
    ] = None
    dimensions: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="The columns of labels, with commas between.", rich_help_panel=CELLS),
    ] = None
    value: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column of figures; without it --count is what is published.",
            rich_help_panel=CELLS,
        ),
    ] = None
    top: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="The largest contributions to each cell, with commas between.",
            rich_help_panel=CELLS,
        ),
    ] = None
    contributors: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="How many contributors each cell has, where that is not the number of records (--count).",
            rich_help_panel=CELLS,
        ),
    ] = None
    total: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL|COLUMN=LABEL",
            help="The label of a total, where it is not one of the usual names. May be repeated.",
            rich_help_panel=CELLS,
        ),
    ] = None
    margins: Annotated[
        Literal["check", "compute", "given"] | None,
        typer.Option(
            help="check: those given must add up, others are computed; compute: replace them by sums; given: have no others. "
            "check if not given.",
            show_default=False,
            rich_help_panel=CELLS,
        ),
    ] = None
    negative: Annotated[bool, typer.Option("--negative", help="Figures may be below 0.", rich_help_panel=CELLS)] = False
    count: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="How many records each cell has; in a file of records, for counts: for how many a row stands.",
            rich_help_panel=READING,
        ),
    ] = None
    hierarchy: HierarchyFiles = None
    decimals: Annotated[
        int | None, typer.Option(help="Digits after the point that are published.", rich_help_panel=READING)
    ] = None
    schema: TableSchema = None
    read: Read = None


def taking(kind: type[TableOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command whose first parameter is the table: on the command line it is given as its options."""
    hints = get_type_hints(kind, include_extras=True)
    options = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(kind)
    ]

    def expanded(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        @functools.wraps(command)
        def called(**given: Any) -> None:
            command(kind(**{option.name: given.pop(option.name) for option in options}), **given)

        together = [*options, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own)]
        called.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        return called

    return expanded
