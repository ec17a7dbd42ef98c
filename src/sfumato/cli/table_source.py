"""From options to a table before protection: of records, of cells that exist already, or of τ-ARGUS's files."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sfumato import tables
from sfumato.cli.console import Misuse
from sfumato.cli.files import load, load_cells, refuse_absent
from sfumato.cli.listing import completion
from sfumato.cli.options import (
    Engine,
    Read,
    argument,
    flag,
    method_option,
    option,
    per_size_option,
    reading_field,
    reading_option,
)
from sfumato.cli.parse import named_hierarchies, names, number, pair, total_labels, with_hierarchies
from sfumato.contract.parameters import registered
from sfumato.errors import DataError, unknown_name

if TYPE_CHECKING:
    from sfumato.cli.console import Screen
    from sfumato.data.microdata import Microdata
    from sfumato.tables.sensitivity import APriori
    from sfumato.tables.table import Marks, Table

RECORDS, CELLS = "The table, from records", "The table, from cells that exist already"
records_field, cells_field = (functools.partial(option, rich_help_panel=panel) for panel in (RECORDS, CELLS))


protection_names = completion(lambda: registered("protection"))
HierarchyFiles = Annotated[
    list[str] | None,
    reading_option(
        "--hierarchy",
        metavar="COLUMN=FILE",
        help="For labels with subtotals, how they nest: an .hrc file, or a .csv with the labels above each value. "
        "May be repeated.",
    ),
]
TableSchema = Annotated[
    Path | None,
    reading_option(
        "--schema",
        help="The meaning of the columns, as `sfumato schema` writes it, or an .rda file of τ-ARGUS. Guessed if not given.",
    ),
]
Rule = Annotated[
    list[str] | None,
    method_option(
        help="Which cells are unsafe: 'p% 10', 'nk 2 85', 'minimum 3'. May be repeated: one is enough to be unsafe.",
        show_default=False,
    ),
]
APrioriFile = Annotated[
    Path | None,
    method_option(
        "--a-priori",
        help="Wishes for single cells, for suppression: an .hst file of τ-ARGUS, or a table with columns status, cost, "
        "lower, upper, lower_level, upper_level.",
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """Options that describe a table; each field is one."""

    files: list[Path] | None = argument(
        "FILE",
        "The confidential records; or the cells of a table that exists already (a file for each of several linked "
        "ones): a row for each cell, or a .tab file of τ-ARGUS.",
    )
    formula: str | None = records_field(
        "Which cells: 'region * sector' with all margins, 'region * sector + group * sector' for linked tables."
    )
    variable: str | None = records_field("The column to sum; without it records are counted.")
    contributor: str | None = records_field(
        "Who contributed a record. The schema's contributor, else every record for itself, if not given.",
        metavar="COLUMN",
    )
    size: str | None = records_field(
        "A public measure of the contributors' size, for random adjustment; added up over a contributor's records.",
        metavar="COLUMN",
    )
    per_size: str | None = per_size_option(RECORDS)
    waiver: str | None = records_field("Says yes where a contributor waived protection.", metavar="COLUMN")
    request: str | None = records_field(
        "The contributor's request for protection (1 or 2; 0 for none), for the rule 'request'.", metavar="COLUMN"
    )
    record_key: str | None = records_field("Keys of the records in [0, 1), for cell keys.", metavar="COLUMN")
    empty: bool = flag("Combinations that could occur and do not are cells too.", panel=RECORDS)
    leave_out: bool = flag("Leave out records without a value of the variable.", "--leave-out-missing", panel=RECORDS)
    recode: list[str] | None = records_field("Recode a column by a .grc file of τ-ARGUS.", metavar="COLUMN=FILE")
    dimensions: str | None = cells_field("The columns of labels, with commas between.", metavar="COLUMNS")
    value: str | None = cells_field("The column of figures; without it --count is what is published.", metavar="COLUMN")
    top: str | None = cells_field("The largest contributions to each cell, with commas between.", metavar="COLUMNS")
    contributors: str | None = cells_field(
        "How many contributors each cell has, where that is not the number of records (--count).", metavar="COLUMN"
    )
    total: list[str] | None = cells_field(
        "The label of a total, where it is not one of the usual names.", metavar="LABEL|COLUMN=LABEL"
    )
    margins: Literal["check", "compute", "given"] | None = cells_field(
        "check: those given must add up, others are computed; compute: replace them by sums; given: have no others. "
        "check if not given."
    )
    negative: bool = flag("Figures may be below 0.", panel=CELLS)
    count: str | None = reading_field(
        "How many records each cell has; in a file of records, for counts: for how many a row stands.", metavar="COLUMN"
    )
    hierarchy: HierarchyFiles = None
    decimals: int | None = reading_field("Digits after the point that are published.")
    schema: TableSchema = None
    read: Read = None
    engine: Engine = "memory"


_OF_RECORDS = (
    "variable",
    "contributor",
    "size",
    "per_size",
    "waiver",
    "request",
    "record_key",
    "empty",
    "leave_out",
    "recode",
    "engine",
)
_OF_CELLS = ("dimensions", "value", "top", "contributors", "total", "margins", "negative")
_INSTEAD = {
    "variable": " The column of figures is named with --value.",
    "contributor": " How many contributors each cell has is said by --contributors, their largest contributions by --top.",
    "value": " The column to sum is named with --variable.",
    "contributors": " Who contributed a record is said by --contributor.",
    "dimensions": " Which columns a table of records is broken down by is said by --formula.",
}
_WISHES = ("status", "cost", "lower", "upper", "lower_level", "upper_level")


@dataclass(frozen=True)
class Source(TableOptions):
    """A table as the options describe it."""

    @property
    def argus(self) -> bool:
        """Whether it is a table as τ-ARGUS reads it: a .tab file with its .rda."""
        described = self.schema is not None and self.schema.suffix.lower() == ".rda"
        return self.formula is None and bool(self.files) and (self._tab or (described and self.dimensions is None))

    @property
    def _tab(self) -> bool:
        return self.files is not None and any(f.suffix.lower() == ".tab" for f in self.files)

    @property
    def cells(self) -> bool:
        """Whether the table exists already."""
        return self.formula is None and (self.argus or self.dimensions is not None)

    def check(self, command: str = "table") -> None:
        """Refuse what is missing or does not belong together, before anything is read."""
        if not self.files:
            raise Misuse(f"the name of the file to tabulate is missing. To see the methods: sfumato {command} --list")
        if self.formula is None and not self.cells:
            raise Misuse(
                "--formula is missing: which cells, such as --formula 'region * sector'. If the file holds the cells of a table "
                "that exists already, name its columns of labels: --dimensions region,sector."
            )
        strange = [n for n in (_OF_RECORDS if self.cells else _OF_CELLS) if getattr(self, n)]
        if self.engine == "memory" and "engine" in strange:
            strange.remove("engine")
        if strange:
            what = "a table that exists already" if self.cells else "a file of records (--formula)"
            named = {"leave_out": "leave-out-missing"}.get(strange[0], strange[0].replace("_", "-"))
            raise Misuse(f"--{named} does not go with {what}.{_INSTEAD.get(strange[0], '')}")
        if len(self.files) > 1 and (not self.cells or self.argus):
            raise Misuse(
                "only tables that exist already may be in several files, one for each of several linked tables (--dimensions). "
                "Linked tables of records are one formula: 'region * sector + group * sector'."
            )
        if self.argus:
            for name in ("top", "contributors", "count", "hierarchy", "total"):
                if getattr(self, name):
                    raise Misuse(f"--{name} does not go with a .tab file: its .rda file says what the columns are.")
        elif self.cells and self.value is None and self.count is None:
            raise Misuse("name the column of figures (--value), or for a table of counts that of the counts (--count).")
        _there(self.files)

    def table(self, screen: Screen) -> tuple[Table, APriori | None]:
        """Make the table, and return with it what its file says of single cells."""
        if self.argus:
            return self._argus()
        return (self._of_cells() if self.cells else self._of_records(screen)), None

    def _argus(self) -> tuple[Table, APriori]:
        made, wanted = tables.read_argus_table(
            _first(self.files), self.schema, value=self.value, margins=self.margins or "check", decimals=self.decimals,
            dimensions=None if self.dimensions is None else names(self.dimensions), nonnegative=not self.negative,
        )  # fmt: skip
        return made, wanted

    def _of_cells(self) -> tables.Table:
        columns = names(self.dimensions)
        nested: dict[str, Any] = {**dict.fromkeys(columns), **named_hierarchies(self.hierarchy, columns)}
        frames = [load_cells(file, self.read, columns) for file in self.files or ()]
        return tables.Table.from_cells(
            frames if len(frames) > 1 else frames[0], nested, self.value, count=self.count, contributors=self.contributors,
            top=names(self.top), total=total_labels(self.total), margins=self.margins or "check",
            decimals=self.decimals, nonnegative=not self.negative,
        )  # fmt: skip

    def _of_records(self, screen: Screen) -> tables.Table:
        data, marks = records(screen, _first(self.files), self.schema, self.read, self.engine)
        if self.variable is not None and self.contributor is None and data.schema.one("contributor") is None:
            screen.note(
                "no column says who contributed a record, so every record counts as a contributor of its own. If one does, name "
                "it (--contributor): rules look at contributors."
            )
        nested = dict(named_hierarchies(self.hierarchy))
        data = with_hierarchies(self._recoded(data), nested)
        return tables.Table.of(
            data, self.formula or "", self.variable, contributor=self.contributor, count=self.count, size=self.size,
            per_size=None if self.per_size is None else number(self.per_size), empty=self.empty,
            missing="leave out" if self.leave_out else "refuse", decimals=self.decimals, waiver=self.waiver,
            request=self.request or marks.request, record_key=self.record_key or marks.record_key,
        )  # fmt: skip

    def _recoded(self, data: Microdata) -> Microdata:
        for text in self.recode or ():
            name, path = pair(text, "--recode", "age=age.grc")
            data = tables.recode_by_argus(data, name, path)
        return data

    def wanted(self, table: Table, given: APriori | None, path: Path | None) -> APriori | None:
        """Return what is wanted of single cells: what the table's own file says, and over it the a-priori file."""
        if path is None:
            return given
        found = self._wishes(table, path)
        return found if given is None else given | found

    def _wishes(self, table: Table, path: Path) -> tables.APriori:
        _there([path])
        if path.suffix.lower() not in (".csv", ".parquet", ".xlsx"):
            return tables.read_argus_a_priori(path, table)
        columns = list(table.cells.dimensions)
        frame = load_cells(path, None, columns)
        present = list(frame.schema.names())
        if absent := [n for n in columns if n not in present]:
            raise DataError(
                unknown_name("column", absent[0], present, f"{path}, which must have a label for each dimension")
            )
        if strange := [n for n in present if n not in (*columns, *_WISHES)]:
            raise DataError(
                unknown_name("column", strange[0], _WISHES, "what an a-priori file can say of a cell").replace(
                    "It has", "That is"
                )
            )
        return tables.APriori.of(frame, columns, **{n: n for n in _WISHES if n in present})


def records(
    screen: Screen, path: Path, schema: Path | None, read: list[str] | None, engine: str = "memory"
) -> tuple[Microdata, Marks]:
    """Read records, with a schema or the .rda file of τ-ARGUS; and return which columns the latter says are marks."""
    from sfumato.tables.table import Marks

    if schema is None or schema.suffix.lower() != ".rda":
        return load(screen, path, schema, read, engine), Marks()
    if engine != "memory":
        raise Misuse(
            "--engine duckdb is for CSV and Parquet files: one that an .rda file describes is read into memory."
        )

    described = tables.read_argus_metadata(schema)
    request, key = (next((v.name for v in described.of_role(r)), None) for r in ("request", "record key"))
    return tables.read_argus_microdata(path, described), Marks(request=request, record_key=key)


def _first(files: Sequence[Path] | None) -> Path:
    return (files or [Path()])[0]


def _there(files: Sequence[Path]) -> None:
    for file in files:
        refuse_absent(file)
