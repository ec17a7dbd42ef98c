"""A report: formatted sections, as one self-contained HTML page, as PDF, and as data."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from sfumato.charts.theme import to_svg
from sfumato.contract.score import Figure, Section, TextTable, digits, number
from sfumato.errors import DataError, MissingExtra, missing_extra
from sfumato.files import publishing, whole_file
from sfumato.version import VERSION


def load_weasyprint() -> ModuleType:
    """Return WeasyPrint, or refuse with a sentence on how to install it."""
    try:
        import weasyprint
        import weasyprint.urls
    except ImportError:
        raise missing_extra("weasyprint", "pdf", "a PDF report") from None
    except OSError:  # the package is installed, but not its system libraries
        raise MissingExtra(
            "a PDF report needs the system library Pango, which WeasyPrint did not find. On Debian: "
            "apt install libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0; or write the report as .html and print it."
        ) from None
    made: ModuleType = weasyprint
    return made


def to_pdf(html: str) -> bytes:
    """Return a page as PDF, tagged for screen readers; a page that points outside itself is refused."""
    weasyprint = load_weasyprint()
    nothing = weasyprint.urls.URLFetcher(allowed_protocols=(), fail_on_errors=True)
    remarks = logging.getLogger("weasyprint")
    before = remarks.level
    remarks.setLevel(logging.ERROR)  # it warns about styles that are for screens
    try:
        return bytes(weasyprint.HTML(string=html, url_fetcher=nothing).write_pdf(pdf_variant="pdf/ua-1"))
    except weasyprint.urls.FatalURLFetchingError:
        raise DataError("the report points outside the page; a report must stand on its own.") from None
    finally:
        remarks.setLevel(before)


_NUMBER = re.compile(r"^(about |< ?|[−-])?[\d,.]+(e[+-]?\d+)?(\s?%)?( \(.*\))?$|^[–∞]$")

_LONG = 18
"""Letters of a word that fit into the narrowest column."""

Version = Literal["", "confidential", "publishable"]


@dataclass(frozen=True)
class Report:
    """A title and sections, for a disclosure review board.

    The page contains everything it shows (style and pictures inside, no script, nothing fetched), so that it opens on a
    computer without a network and prints on A4. The sections that sfumato builds contain no record's value, but for those on
    tables (`shows_cells`); see `sfumato.reports` for what may be published. A report that has a `version` shows it on every
    printed page.

    Examples
    --------
    >>> from sfumato.contract import TextTable
    >>> table = TextTable(("column", "missing"), (("salary", "2 %"),), "What is missing.")
    >>> page = Report("Teachers 2004", [Section("The data", ("There are 5,000 records.",), (table,))]).html()
    >>> "<script" in page, "There are 5,000 records." in page
    (False, True)
    """

    title: str
    sections: Sequence[Section]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    version: Version = ""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The numbers behind the sections, for machines; as little of them as the version may tell."""
    shows_cells: bool = field(default=False, compare=False)
    """Whether cells of a table are shown as they were before protection: one can be the value of a single contributor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", tuple(self.sections))
        object.__setattr__(self, "notes", tuple(self.notes))

    def html(self) -> str:
        """Return the page."""
        from jinja2 import Environment, StrictUndefined

        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        environment.filters |= {"cell": cell, "breakable": breakable}
        folder = files("sfumato.reports")
        template = environment.from_string((folder / "report.html.j2").read_text("utf-8"))
        style = (folder / "report.css").read_text("utf-8")
        return template.render(report=self, sections=_set(self.sections), style=style, version=VERSION)

    def pdf(self) -> bytes:
        """Return the page as PDF, by WeasyPrint (``pip install 'sfumato[pdf]'``)."""
        return to_pdf(self.html())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data: the text of every section, and the numbers behind them in `data`."""
        sections = [
            {"title": s.title, "sentences": list(s.sentences), "content": [_part(p) for p in s.content]}
            for s in self.sections
        ]
        about = {"sfumato": VERSION, "title": self.title, "subtitle": self.subtitle, "version": self.version}
        return {**about, "sections": sections, "notes": list(self.notes), "data": _plain(self.data)}

    def write(self, path: str | Path, json: bool = False) -> None:
        """Write the report to a file, whole or not at all: PDF if its name ends in .pdf, else HTML.

        With `json`, also write the data to a second file: report.json beside report.html or report.pdf. Only a report whose
        version is "publishable" can be read by others than its owner.
        """
        target, confidential = Path(path), self.version != "publishable"
        beside = target.with_suffix(".json")
        if beside == target:
            raise DataError(
                "a report is written as .html or .pdf, and with json=True as .json beside it: choose such a name."
            )
        contents = {target: self.pdf() if target.suffix.lower() == ".pdf" else self.html().encode("utf-8")}
        if json:  # written last, it appears first: no report stands without its data
            contents[beside] = self.to_json().encode("utf-8")
        with publishing(
            *(whole_file(file, 0o600 if confidential else 0o644) for file in contents), secrets={}
        ) as files:
            for file, content in zip(files, contents.values(), strict=True):
                file.write_bytes(content)

    def to_json(self) -> str:
        """Return the report's data as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def _part(part: TextTable | Figure) -> dict[str, Any]:
    if isinstance(part, Figure):
        return {"kind": "figure", "caption": part.caption}
    rows = [[_plain(value) for value in row] for row in part.rows]
    return {"kind": "table", "caption": part.caption, "heads": list(part.heads), "rows": rows}


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return number(value) if isinstance(value, float) else str(value)


def _set(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return the sections with their tables and figures numbered through the report."""
    tables = figures = 0
    out = []
    for section in sections:
        items: list[dict[str, Any]] = []
        for part in section.content:
            if isinstance(part, TextTable):
                tables += 1
                items.append({"table": part, "number": tables, "numeric": _numeric(part)})
            else:
                figures += 1
                items.append({"figure": part, "number": figures, "svg": picture(part, figures)})
        out.append({"title": section.title, "sentences": section.sentences, "items": items})
    return out


def picture(figure: Figure, number: int) -> Any:
    """Return a figure as inline SVG that can share a page with others: unique ids, no outside reference."""
    from markupsafe import Markup

    svg = to_svg(figure.spec)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\s+(version|xmlns(:\w+)?|role|aria-\w+)="[^"]*"', "", svg[: svg.index(">")]) + svg[svg.index(">") :]
    names = dict.fromkeys(re.findall(r'\bid="([^"]+)"', svg))
    fresh = {name: f"figure-{number}-{k}" for k, name in enumerate(names, 1)}  # Vega continues its numbering
    svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{fresh[m[1]]}"', svg)
    svg = re.sub(r"url\((['\"]?)#([^)'\"]+)\1\)", lambda m: f"url(#{fresh.get(m[2], m[2])})", svg)
    svg = re.sub(r'\b(?:xlink:)?href="#([^"]+)"', lambda m: f'href="#{fresh.get(m[1], m[1])}"', svg)
    svg = _gradients(svg)
    if re.search(r'\b(?:src|href)="(?!#)|<script|<foreignObject|url\((?!#)', svg):
        raise DataError("a figure of the report points outside the page; a report must stand on its own.")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-labelledby="figure-{number}"', 1))  # noqa: S704 - drawn by Vega, which escapes text


def _gradients(svg: str) -> str:
    """Return a picture with gradients in its own units: WeasyPrint does not draw gradients in shares of a bar."""
    for wide, high, name in re.findall(r'<path d="M0,0h([\d.]+)v([\d.]+)h-[\d.]+Z" fill="url\(#([^)]+)\)"', svg):
        opening = re.search(rf'<linearGradient id="{re.escape(name)}"[^>]*>', svg)
        if opening is not None and "gradientUnits" not in opening[0]:
            ends = opening[0]
            for axis, size in (("x", float(wide)), ("y", float(high))):
                for share, place in (("0", "0"), ("1", f"{size:g}")):
                    ends = re.sub(rf'\b({axis}[12])="{share}"', rf'\1="{place}"', ends)
            svg = svg.replace(opening[0], f'{ends[:-1]} gradientUnits="userSpaceOnUse">', 1)
    return svg


def cell(value: Any) -> str:
    """Return a table cell as text: numbers with thousands separated and four significant digits.

    >>> cell(30000), cell(0.14133), cell(None), cell(True)
    ('30,000', '0.1413', '–', 'yes')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return digits(value, 4) if isinstance(value, float) else str(value)


def breakable(text: str) -> Any:
    """Return text for a cell in which words too long for a column may be broken, after an underscore or a point if they can.

    >>> str(breakable("income_of_the_whole_household <b>"))
    'income_of_the_<wbr>whole_household &lt;b&gt;'
    """
    from markupsafe import Markup

    parts = [_broken(word) if len(word) > _LONG else [word] for word in re.split(r"(\s)", text)]
    return Markup("").join(Markup("<wbr>").join(pieces) for pieces in parts)


def _broken(word: str) -> list[str]:
    """Return a long word in pieces."""
    pieces: list[str] = []
    for part in re.findall(rf"[^_./-]{{1,{_LONG}}}[_./-]?|[_./-]", word):
        if pieces and len(pieces[-1]) + len(part) <= _LONG:
            pieces[-1] += part
        else:
            pieces.append(part)
    return pieces


def _numeric(table: TextTable) -> list[bool]:
    """Return which columns hold numbers, to be set flush right."""
    return [all(_NUMBER.match(cell(row[k])) for row in table.rows if k < len(row)) for k in range(len(table.heads))]
