"""`sfumato audit`: what a reader can work out from a published table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sfumato.cli.given import number, pair
from sfumato.cli.handling import INFEASIBLE, Misuse
from sfumato.cli.load import load, load_table, refuse_existing
from sfumato.cli.options import OUTPUT, READING, Json, PerSize, Read, Replace, SchemaFile
from sfumato.cli.screen import Screen
from sfumato.errors import listing

if TYPE_CHECKING:
    from sfumato.tables import Audit, PublishedTable, Table
    from sfumato.tables.rta.priors import Prior

ORIGINAL = "If you hold the records"
_OURS = ("value", "status", "variance", "quality")


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
    hierarchy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=FILE",
            help="For labels with subtotals, how they nest: an .hrc file, or a .csv with the labels above each value. "
            "May be repeated.",
            rich_help_panel=READING,
        ),
    ] = None,
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
    original: Annotated[
        Path | None,
        typer.Option(
            metavar="RECORDS",
            help="The confidential records that the table was made from: for rules and contributors.",
            show_default=False,
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
    per_size: PerSize = None,
    schema: SchemaFile = None,
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
    read_columns = _columns(file, dimensions, value, status, hierarchy, read)
    known = (
        None
        if original is None
        else _original(screen, original, read_columns, variable, contributor, size, per_size, schema)
    )
    published = _published(read_columns, value, total, mark, absent, within, negative, known)
    from sfumato.tables import audit as look

    with screen.progress() as tell:
        tell("Working out what can be worked out", 0, 0)
        found = look(
            published, prior, rules=rules, tolerance=tolerance, insiders=insiders, integer=True if whole else None,
        )  # fmt: skip
        if out is not None:
            _write(found, out)
    _show(screen, found, out)
    if not found.safe:
        raise typer.Exit(INFEASIBLE)


class _Read:
    """The published file, and which columns of it are what."""

    def __init__(self, frame: Any, nested: dict[str, Any], status: str | None, variance: str | None) -> None:
        self.frame, self.nested, self.status, self.variance = frame, nested, status, variance


def _columns(
    file: Path,
    dimensions: str | None,
    value: str,
    status: str | None,
    hierarchy: list[str] | None,
    read: list[str] | None,
) -> _Read:
    names = None if dimensions is None else [n.strip() for n in dimensions.split(",") if n.strip()]
    frame = load_table(file, read, value, names)
    columns = list(frame.column_names)
    if value not in columns:
        raise Misuse(
            f"{file} has no column '{value}': say with --value which one holds the figures. It has: {listing(columns)}."
        )
    ours = value == "value"
    own = set(_OURS) if ours else {value}
    chosen = names or [c for c in columns if c not in own | {value, status}]
    flags = status or ("status" if ours and "status" in columns else None)
    noise = "variance" if ours and "variance" in columns and "variance" not in chosen else None
    nested: dict[str, Any] = dict.fromkeys(chosen)
    for text in hierarchy or ():
        name, path = pair(text, "--hierarchy", "region=regions.hrc")
        if name not in nested:
            raise Misuse(f"--hierarchy names '{name}', which is not a column of labels. These are: {listing(nested)}.")
        nested[name] = _hierarchy(Path(path))
    return _Read(frame, nested, flags, noise)


def _hierarchy(path: Path) -> Any:
    if not path.exists():
        raise Misuse(f"there is no file {path} with a hierarchy.")
    if path.suffix.lower() == ".csv":
        from sfumato.schema.hierarchy import read_hierarchy_csv

        return read_hierarchy_csv(path)
    from sfumato.tables.argus import read_argus_hierarchy

    return read_argus_hierarchy(path)


def _published(
    columns: _Read,
    value: str,
    total: list[str] | None,
    marks: list[str] | None,
    absent: Literal["empty", "suppressed"],
    within: float,
    negative: bool,
    original: Table | None,
) -> PublishedTable:
    from sfumato.tables import PublishedTable

    return PublishedTable.from_frame(
        columns.frame, columns.nested, value, status=columns.status, variance=columns.variance, total=_total(total),
        marks=marks or (), within=within, absent=absent, nonnegative=False if negative else None, original=original,
    )  # fmt: skip


def _total(given: list[str] | None) -> str | dict[str, str | None] | None:
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    return dict(pair(text, "--total", "region=All regions") for text in given)


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


def _original(
    screen: Screen,
    path: Path,
    columns: _Read,
    variable: str | None,
    contributor: str | None,
    size: str | None,
    per_size: str | None,
    schema: Path | None,
) -> Table:
    """Return the table that the published one was made from, with the same cells."""
    from sfumato.tables import Table

    formula = " * ".join(f"`{n}`" for n in columns.nested)
    data = load(screen, path, schema, None)
    for name, hierarchy in columns.nested.items():
        if hierarchy is not None and name in data.schema:
            data = data.with_schema(data.schema.change(name, hierarchy=hierarchy, scale="partially ordered"))
    return Table.of(
        data, formula, variable, contributor=contributor, size=size,
        per_size=None if per_size is None else number(per_size),
    )  # fmt: skip


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
