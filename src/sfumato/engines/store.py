"""From a file to an engine, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.base import Engine
from sfumato.engines.columns import check_dates
from sfumato.engines.formats import FileContents, read_file, stream_file, write_file
from sfumato.engines.local import LocalEngine
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.schema import Schema

_STREAMED = {".csv": "csv", ".parquet": "parquet"}


def open_file(path: str | Path, engine: str = "memory", **options: Any) -> tuple[Engine, dict[str, dict[str, Any]]]:
    """Return the engine of a file, and per column what the file says of it (label, labels, missing)."""
    if engine == "duckdb":
        return _on_disk(Path(path).expanduser(), options)
    if engine != "memory":
        raise ParameterError(
            f"'{engine}' is not an engine for files; use 'memory' or 'duckdb'. Spark frames go to Microdata."
        )
    contents = read_file(path, **options)
    check_dates(contents.table)
    return LocalEngine.from_arrow(contents.table), _notes(contents)


def _notes(contents: FileContents) -> dict[str, dict[str, Any]]:
    notes: dict[str, dict[str, Any]] = {}
    for field, facts in (("label", contents.labels), ("labels", contents.value_labels), ("missing", contents.missing)):
        for column, fact in facts.items():
            if column in contents.table.column_names:
                notes.setdefault(column, {})[field] = fact
    return notes


def _on_disk(path: Path, options: dict[str, Any]) -> tuple[Engine, dict[str, dict[str, Any]]]:
    from sfumato.engines.duckdb import DuckDBEngine

    contents, pieces = stream_file(path, **options)
    if pieces is not None:
        return DuckDBEngine.from_pieces(pieces, contents.table.schema), {}
    return DuckDBEngine.from_file(path, contents.table.column_names), _notes(contents)


def save_file(engine: Engine, schema: Schema, path: str | Path, **options: Any) -> None:
    """Write an engine's data in the form the suffix says, with the schema's labels, whole or not at all.

    Labels of codes that no record has are left out, as `published_schema` does.
    """
    target = Path(path)
    form = _STREAMED.get(target.suffix.lower())
    if engine.name == "Spark" and form is not None:
        engine.write(str(path), form)  # a folder of part files, which Spark itself commits
    elif not isinstance(engine, LocalEngine) and form is not None:
        engine.write(str(target), form)
    else:
        table = engine.collect(list(engine.kinds)).to_arrow()
        schema = published_schema([engine], schema)
        labels = {a.name: a.label for a in schema if a.label}
        value_labels = {a.name: a.labels for a in schema if a.labels}
        missing = {a.name: a.missing for a in schema if a.missing}
        write_file(FileContents(table, labels, value_labels, missing), target, **options)


def published_schema(engines: Sequence[Engine], schema: Schema) -> Schema:
    """Return the schema with labels, numbers of categories and trees of only those values that some of these records have.

    A list of value labels or a tree is often made from the data themselves, so it may name what was removed from them.
    """
    from sfumato.engines.formats.contents import code_text
    from sfumato.schema import Schema
    from sfumato.schema.hierarchy.base import label_of

    def occurring(name: str) -> set[str]:
        texts: set[str] = set()
        for engine in engines:
            for value in engine.group([name]).columns[name].arrow.to_pylist():
                if isinstance(value, bool):
                    texts |= {"true", "True", "1"} if value else {"false", "False", "0"}
                elif value is not None:
                    texts |= {str(value), code_text(value), label_of(value)}
        return texts

    return Schema(tuple(a.limited_to(occurring(a.name)) if a.lists_values else a for a in schema))
