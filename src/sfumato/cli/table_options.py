"""Options that say what a table is: those of `table` and `table-map`, and some of `audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sfumato.cli.options import METHOD, READING, per_size_option

RECORDS, CELLS = "The table, from records", "The table, from cells that exist already"


def protection_names(incomplete: str) -> list[str]:
    """Complete the name of a protection."""
    from sfumato.contract import registered

    return [name for name in registered("protection") if name.startswith(incomplete)]


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="The confidential records; or the cells of a table that exists already (a file for each of several linked ones): "
        "a row for each cell, or a .tab file of τ-ARGUS.",
        show_default=False,
    ),
]
Formula = Annotated[
    str | None,
    typer.Option(
        help="Which cells: 'region * sector' with all margins, 'region * sector + group * sector' for linked tables.",
        show_default=False,
        rich_help_panel=RECORDS,
    ),
]
Variable = Annotated[
    str | None,
    typer.Option(
        help="The column to sum; without it records are counted.", show_default=False, rich_help_panel=RECORDS
    ),
]
Contributor = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Who contributed a record. The schema's contributor, else every record for itself, if not given.",
        rich_help_panel=RECORDS,
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A public measure of the contributors' size, for random adjustment; added up over a contributor's records.",
        rich_help_panel=RECORDS,
    ),
]
PerSize = Annotated[str | None, per_size_option(RECORDS)]
Waiver = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Says yes where a contributor waived protection.", rich_help_panel=RECORDS),
]
Request = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The contributor's request for protection (1 or 2; 0 for none), for the rule 'request'.",
        rich_help_panel=RECORDS,
    ),
]
RecordKey = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Keys of the records in [0, 1), for cell keys.", rich_help_panel=RECORDS),
]
Empty = Annotated[
    bool,
    typer.Option("--empty", help="Combinations that could occur and do not are cells too.", rich_help_panel=RECORDS),
]
LeaveOut = Annotated[
    bool,
    typer.Option(
        "--leave-out-missing", help="Leave out records without a value of the variable.", rich_help_panel=RECORDS
    ),
]
Recode = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=FILE",
        help="Recode a column by a .grc file of τ-ARGUS. May be repeated.",
        rich_help_panel=RECORDS,
    ),
]
Dimensions = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="The columns of labels, with commas between.", rich_help_panel=CELLS),
]
Value = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column of figures; without it --count is what is published.", rich_help_panel=CELLS
    ),
]
Top = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS", help="The largest contributions to each cell, with commas between.", rich_help_panel=CELLS
    ),
]
Contributors = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="How many contributors each cell has, where that is not the number of records (--count).",
        rich_help_panel=CELLS,
    ),
]
Total = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL|COLUMN=LABEL",
        help="The label of a total, where it is not one of the usual names. May be repeated.",
        rich_help_panel=CELLS,
    ),
]
Margins = Annotated[
    Literal["check", "compute", "given"] | None,
    typer.Option(
        help="check: those given must add up, others are computed; compute: replace them by sums; given: have no others. "
        "check if not given.",
        show_default=False,
        rich_help_panel=CELLS,
    ),
]
Negative = Annotated[bool, typer.Option("--negative", help="Figures may be below 0.", rich_help_panel=CELLS)]
Count = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="How many records each cell has; in a file of records, for counts: for how many a row stands.",
        rich_help_panel=READING,
    ),
]
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
Decimals = Annotated[
    int | None, typer.Option(help="Digits after the point that are published.", rich_help_panel=READING)
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
