"""From names on the command line to microdata, schemas and releases; charts and reports to files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato import charts
from sfumato.cli.console import Misuse, Screen, complain
from sfumato.cli.parse import pair, toml_file
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, DataWarning, ParameterError, SfumatoError, did_you_mean, join_names
from sfumato.files import write_text
from sfumato.formats.data_files import parts_of, read_file
from sfumato.schema.schema import Schema

if TYPE_CHECKING:
    import altair as alt


_CHARTS = (".svg", ".png")
_REPORTS = (".html", ".htm", ".pdf")


def check_chart(path: Path | None, replace: bool) -> None:
    """Refuse, before any work is done, a file that a chart cannot be written to."""
    if path is None:
        return
    refuse_existing(path, replace, "the chart")
    if path.suffix.lower() not in _CHARTS:
        raise ParameterError(f"a chart is drawn as .svg or .png; {path.name} is neither.")


def check_report(path: Path | None, replace: bool, json: bool = True) -> None:
    """Refuse, before any work is done, a file that a report cannot be written to, or with `json` the one beside it."""
    if path is None:
        return
    if path.suffix.lower() not in _REPORTS:
        raise Misuse(f"a report is written as .html or .pdf; got '{path.name}'.")
    refuse_existing(path, replace, "the report")
    if json:
        refuse_existing(path.with_suffix(".json"), replace, "the report for machines")
    if path.suffix.lower() == ".pdf":
        from sfumato.reports.report import load_weasyprint

        load_weasyprint()


def save_chart(picture: alt.TopLevelMixin, path: Path, confidential: bool = True) -> None:
    """Write a chart as the suffix says; what is not for the public can be read by its owner only."""
    if path.suffix.lower() == ".svg":
        write_text(path, charts.theme.to_svg(picture), confidential)
    else:
        charts.theme.to_png(picture, path, confidential=confidential)


T = TypeVar("T")
_LISTS = ("null_values", "text", "names", "leave_out")
_TEXT_FORMS = ("csv", "tsv", "txt", "gz", "xlsx")
"""Forms in which a column of codes can be asked for as text."""


def load(
    screen: Screen,
    path: Path,
    schema: Path | None,
    read: list[str] | None,
    engine: str = "memory",
    known: Schema | None = None,
) -> Microdata:
    """Read a file with its schema, which may be known already; where none is given it is guessed, and the guess is told."""
    known = known if schema is None else toml_file("schema", schema, Schema.read)
    data = _read(path, read, known, engine)
    if known is None:
        screen.note(f"no --schema, so the roles of the columns are guesses: {roles_in_words(data.schema)}. {_HOW}")
    return data


def load_guessed(path: Path, read: list[str] | None) -> Microdata:
    """Read a file whose schema is to be guessed."""
    return _read(path, read)


def _read(
    path: Path, read: list[str] | None, schema: Schema | None = None, engine: str = "memory", text: Sequence[str] = ()
) -> Microdata:
    refuse_absent(path)
    options = reading_options(read)
    if text:
        options["text"] = (*options.get("text", ()), *text)
    try:
        with warnings.catch_warnings(record=True) as noticed:
            warnings.simplefilter("always", DataWarning)
            data = Microdata.read(path, schema, engine=engine, **options)
        for warning in noticed:
            if issubclass(warning.category, DataWarning):
                complain(f"note: {warning.message}".replace("read the file with ", "add --read "))
        return data
    except SfumatoError as error:
        if re.search(
            r"\b(form|separator|decimal|encoding|null_values|text|names|sheet|skip|thousands|leave_out|all_records)=",
            str(error),
        ):
            raise type(error)(f"{error} (On the command line: --read NAME=VALUE.)") from None
        raise


def refuse_absent(path: Path) -> None:
    """Refuse a file that is not there; the nearest name is offered. A folder and a pattern stand for files."""
    if not path.exists() and parts_of(path.expanduser()) == [path.expanduser()]:
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()]) if path.parent.is_dir() else ""
        raise DataError(f"there is no file {path}.{near}")


_HOW = "`sfumato schema FILE --out schema.toml` writes them to a file that you can correct."


def roles_in_words(schema: Schema) -> str:
    """Return which columns are identifiers, keys and confidential; and whose weights and contributors change results."""
    named = [(role, schema.names(role=role)) for role in ("identifier", "key", "confidential")]
    named += [(role, names) for role in ("contributor", "weight") if (names := schema.names(role=role))]
    return "; ".join(f"{role}: {join_names(names)}" for role, names in named)


def shuffled_column(before: Microdata, after: Microdata) -> str:
    """Return a column that speaks against the rows being in the same order, if none speaks for it."""
    import numpy as np

    suspect = ""
    for name in (n for n in after.engine.kinds if n in before.engine.kinds):
        x, y = (data.batch([name]).column(name).hashes for data in (before, after))
        if len(np.unique(x)) > 1 and np.array_equal(x, y):
            return ""
        if not suspect and np.array_equal(np.sort(x), np.sort(y)) and len(np.unique(x)) > 1:
            suspect = name
    return suspect


def load_like(original: Microdata, path: Path, read: list[str] | None = None) -> Microdata:
    """Read another file with columns of the same names; the original's schema holds for them."""
    masked = _read(path, read)
    known = {a.name: a for a in original.schema}
    there = set(masked.schema.names())
    attributes = [known.get(a.name, a) for a in masked.schema]
    cut = [a.name in known and not there.issuperset(original.schema.sources(a.name)) for a in attributes]
    return masked.with_schema(
        Schema(tuple(a.with_(follows=None) if c else a for a, c in zip(attributes, cut, strict=True)))
    )


def load_population(screen: Screen, original: Microdata, path: Path, count: str | None) -> Microdata:
    """Read the snooper's file of the population, and tell how persons are counted in it."""
    people = load_like(original, path)
    before = people.schema.one("weight")
    if count is not None and count != before:
        people.kind(count)  # refuses an unknown name
        schema = people.schema if before is None else people.schema.change(before, role="other")
        people = people.with_schema(schema.change(count, role="weight"))
    if (counted := people.schema.one("weight")) is None:
        screen.note(
            f"each record of {path} counts as one person of the population; if a column counts them, name it with "
            "--population-count."
        )
    else:
        screen.note(f"the persons of the population are counted by column '{counted}' of {path}.")
    return people


def reading_options(read: list[str] | None) -> dict[str, Any]:
    """Return the options that --read names."""
    options: dict[str, Any] = {}
    for text in read or ():
        name, value = pair(text, "--read", "separator=;")
        options[name] = tuple(value.split(",")) if name in _LISTS else value
        if name == "separator" and value in ("tab", "\\t"):
            options[name] = "\t"
        if name == "thousands" and value in ("", "blank", "space"):
            options[name] = " "
        if name == "sheet" and value.isdigit():
            options[name] = int(value)
    return options


def load_table(path: Path, read: list[str] | None, value: str, dimensions: Sequence[str] | None) -> Any:
    """Read a published table; all as text, where the form allows it: labels may begin with 0, and marks stand among figures."""
    import narwhals as nw

    options = reading_options(read)
    if _form(path, read) not in _TEXT_FORMS:
        return read_file(path, **options).table
    text = [value, *(dimensions or ())]
    try:
        found = read_file(path, **{**options, "text": text}).table
        if not dimensions:
            found = read_file(path, **{**options, "text": found.column_names}).table
    except SfumatoError as error:
        how = (
            " --value names the column of figures, --dimensions those of labels."
            if "asked for as text" in str(error)
            else ""
        )
        raise type(error)(str(error).replace(" (asked for as text)", "") + how) from None
    decimal = options.get("decimal")
    if decimal is not None and decimal != ".":
        points = nw.col(value).str.replace_all(decimal, ".", literal=True)
        found = nw.from_native(found, eager_only=True).with_columns(points).to_native()
    return found


def load_cells(path: Path, read: list[str] | None, labels: Sequence[str]) -> Microdata:
    """Read the cells of a table that is not yet protected: labels as text, since they may begin with 0, the rest as it is."""
    read = [*(read or ()), "all_records=yes"] if _form(path, read) in _TEXT_FORMS else read  # a total is a cell
    found = _read(path, read)
    as_text = [n for n in labels if n in found.schema]
    return _read(path, read, text=as_text) if as_text and _form(path, read) in _TEXT_FORMS else found


def _form(path: Path, read: list[str] | None) -> str:
    return str(reading_options(read).get("form", path.suffix)).lower().lstrip(".")


def refuse_existing(path: Path, replace: bool, what: str) -> None:
    """Refuse to write over a file, before any work is done."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the name of a file for {what}.")
    if path.exists() and not replace:
        raise DataError(f"{path} is there already. Choose another name for {what}, or add --replace.")
