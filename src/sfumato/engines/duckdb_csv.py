"""A CSV file left on disk: typed by the same rules as one read into memory, in one pass, so that no code loses its zeros.

DuckDB's own guess would turn the zip code 01234 into 1234. Here every cell is first text; a column becomes whole
numbers, numbers, true/false or dates only if every cell of the file allows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_RULES = (
    ("BIGINT", r"-?(0|[1-9][0-9]{0,17})"),
    ("DOUBLE", r"-?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?|NaN|-?[iI]nf"),
    ("BOOLEAN", r"true|false|True|False|TRUE|FALSE"),
    ("DATE", r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    ("TIMESTAMP", r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"),
)


def typed_csv(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation:
    """Return a relation over the file, its columns typed by what all of their cells allow."""
    cells = connection.read_csv(str(path), header=True, all_varchar=True, sample_size=-1, allow_quoted_nulls=False)
    names = list(cells.columns)
    questions = [
        f"coalesce(bool_and(regexp_full_match({_quoted(name)}, '{rule}') OR {_quoted(name)} = 'NA'), false), "
        f"coalesce(bool_and(TRY_CAST(nullif({_quoted(name)}, 'NA') AS {kind}) IS NOT NULL OR {_quoted(name)} = 'NA'), false), "
        f"coalesce(bool_and({_quoted(name)} = 'NA'), true)"
        for name in names
        for kind, rule in _RULES
    ]
    answers = cells.aggregate(", ".join(questions)).fetchall()[0]
    chosen = []
    for i, name in enumerate(names):
        kind = "VARCHAR"
        for j, (candidate, _) in enumerate(_RULES):
            fits, casts, only_na = answers[3 * (i * len(_RULES) + j) : 3 * (i * len(_RULES) + j) + 3]
            if fits and casts and not only_na:
                kind = candidate
                break
        cell = _quoted(name) if kind == "VARCHAR" else f"nullif({_quoted(name)}, 'NA')"
        chosen.append(f"CAST({cell} AS {kind}) AS {_quoted(name)}")
    return cells.project(", ".join(chosen))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
