"""The five papers behind sfumato, row by row: what each says, what implements it, and what tests it.

The rows live in TOML files beside this module, one per paper. `python -m sfumato.papers > docs/papers.md`
writes the page; `sfumato papers` shows the same rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

ORDER = ("ru_map", "matrix_masking", "rta", "mas", "global_risk")
KINDS = (
    *("equation", "rule", "algorithm", "example", "experiment", "figure"),
    *("table", "method", "property", "definition", "extension"),
)
STATUSES = ("built", "planned", "remark")
"""A remark is history, an assumption or an argument: there is nothing to build."""
_REQUIRED = frozenset({"id", "where", "kind", "says", "status"})
_OPTIONAL = frozenset({"erratum", "by", "tests"})


@dataclass(frozen=True)
class PaperRow:
    """One thing a paper states.

    `erratum` lists the corrections that apply, as numbers ("0.3"). `by` is the dotted name that implements the
    row, None while it is planned; `tests` are pytest ids ("tests/test_x.py::test_y").
    """

    id: str
    paper: str
    where: str
    kind: str
    says: str
    erratum: tuple[str, ...]
    status: str
    by: str | None
    tests: tuple[str, ...]

    @property
    def built(self) -> bool:
        """Whether something implements the row and something tests it."""
        return self.by is not None and bool(self.tests)


@dataclass(frozen=True)
class Paper:
    """A paper and its rows, in the order of the text; `year` is None where the text does not print one."""

    key: str
    title: str
    authors: str
    year: int | None
    rows: tuple[PaperRow, ...]

    @property
    def built(self) -> int:
        """Number of rows that are built."""
        return sum(row.built for row in self.rows)

    @property
    def status_counts(self) -> str:
        """Number of rows of each status, in words."""
        counts = {status: sum(row.status == status for row in self.rows) for status in STATUSES}
        nouns = {"remark": "remark" if counts["remark"] == 1 else "remarks"}
        return f"of {len(self.rows)} rows " + ", ".join(
            f"{n} {nouns.get(status, status)}" for status, n in counts.items()
        )


@cache
def papers() -> tuple[Paper, ...]:
    """Return the five papers, always in the same order.

    >>> [paper.key for paper in papers()]
    ['ru_map', 'matrix_masking', 'rta', 'mas', 'global_risk']
    """
    return tuple(parse(key, (files("sfumato.papers") / f"{key}.toml").read_text(encoding="utf-8")) for key in ORDER)


def rows() -> tuple[PaperRow, ...]:
    """Return the rows of all papers, in the order of `papers()`."""
    return tuple(row for paper in papers() for row in paper.rows)


def parse(key: str, text: str) -> Paper:
    """Read one paper's TOML; raises ValueError that names the row where something does not fit."""
    document: dict[str, object] = tomllib.loads(text)
    entries = document.get("row", [])
    if not isinstance(entries, list):
        raise ValueError(f"{key}.toml: rows are written as [[row]], not [row]")
    year = document.get("year")
    if year is not None and not isinstance(year, int):
        raise ValueError(f"{key}.toml: 'year' must be a whole number, not {year!r}")
    title, authors = (_text(document, name, f"{key}.toml") for name in ("title", "authors"))
    return Paper(key, title, authors, year, tuple(_row(key, n, entry) for n, entry in enumerate(entries, start=1)))


def to_markdown() -> str:
    """Return the page docs/papers.md: how much is built, then a table per paper."""
    return "\n".join([_intro(), *(_section(paper) for paper in papers())])


def _row(key: str, number: int, entry: Mapping[str, object]) -> PaperRow:
    name = f"{key}.toml, row {entry.get('id', number)}"
    if unknown := sorted(entry.keys() - _REQUIRED - _OPTIONAL):
        raise ValueError(f"{name}: unknown key {unknown[0]!r}; allowed are {', '.join(sorted(_REQUIRED | _OPTIONAL))}")
    row = PaperRow(
        id=_text(entry, "id", name),
        paper=key,
        where=_text(entry, "where", name),
        kind=_text(entry, "kind", name),
        says=_text(entry, "says", name),
        erratum=tuple(_text(entry, "erratum", name).split(", ")) if "erratum" in entry else (),
        status=_text(entry, "status", name),
        by=_text(entry, "by", name) if "by" in entry else None,
        tests=_texts(entry, "tests", name),
    )
    _check(row, name)
    return row


def _text(entry: Mapping[str, object], field: str, name: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: {field!r} must be a text that is not empty")
    return value


def _texts(entry: Mapping[str, object], field: str, name: str) -> tuple[str, ...]:
    values = entry.get(field, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name}: {field!r} must be a list of texts")
    return tuple(values)


def _check(row: PaperRow, name: str) -> None:
    if row.kind not in KINDS:
        raise ValueError(f"{name}: kind {row.kind!r} is not one of {', '.join(KINDS)}")
    if row.status not in STATUSES:
        raise ValueError(f"{name}: status {row.status!r} is not one of {', '.join(STATUSES)}")
    if row.status == "built" and not row.built:
        raise ValueError(f"{name}: a built row names what implements it ('by') and what tests it ('tests')")
    if row.status != "built" and (row.by is not None or row.tests):
        raise ValueError(f"{name}: a row that is not built carries neither 'by' nor 'tests'; is it built?")


def _intro() -> str:
    total = len(rows())
    counts = "; ".join(f"{p.title}: {p.status_counts}" for p in papers())
    return (
        "# The papers, row by row\n\n"
        f"sfumato builds on five papers; their equations, rules, algorithms, examples and proposals make {total} rows "
        f"({counts}).\n\n"
        "A row is built when a function implements it and a test checks it. Each line says what is right, which is not "
        "always what was printed: an erratum number points to the project's list of slips and reading decisions. A remark "
        "is history, an assumption or an argument: there is nothing to build.\n\n"
        "This page is generated: `python -m sfumato.papers > docs/papers.md`.\n"
    )


def _section(paper: Paper) -> str:
    year = "" if paper.year is None else f", {paper.year}"
    head = f"## {paper.title}\n\n{paper.authors}{year}: {paper.status_counts}.\n"
    table = ["| id | where | what it says | status | function | test |", "|---|---|---|---|---|---|"]
    return "\n".join([head, *table, *(_line(row) for row in paper.rows), ""])


def _line(row: PaperRow) -> str:
    numbers = ", ".join(row.erratum)
    noun = "erratum" if len(row.erratum) == 1 else "errata"
    says = _escape(row.says) + (f" ({noun} {numbers})" if numbers else "")
    function = f"`{row.by}`" if row.by else ""
    tests = "<br>".join(f"`{test}`" for test in row.tests)
    return f"| {row.id} | {_escape(row.where)} | {says} | {row.status} | {function} | {tests} |"


def _escape(text: str) -> str:
    """Keep Markdown from reading a conditional bar, an index underscore or a star as its own marks."""
    for mark in ("\\", "|", "_", "*", "[", "]", "`"):
        text = text.replace(mark, "\\" + mark)
    return text.replace("<", "&lt;")
