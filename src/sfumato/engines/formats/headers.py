"""Column names of files: each there, each one of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfumato.engines.frames import check_names
from sfumato.errors import DataError, ParameterError, unknown_name


def checked_header(header: list[str], path: Path, names: Sequence[str] | None) -> list[str]:
    """Return the column names: those asked for, else the header's, each there and each one of its kind."""
    if names is not None:
        if len(names) != len(header):
            raise ParameterError(f"names has {len(names)} names, but {path} has {len(header)} columns.")
        header = list(names)
    if nameless := [i for i, name in enumerate(header, 1) if not name]:
        raise DataError(
            f"column {nameless[0]} of {path} has no name in the header row. R and pandas write row names there: "
            f"write the file with row.names = FALSE (R) or index=False (pandas), or give all names with names=."
        )
    check_names(header)
    return header


def chosen(columns: Sequence[str], header: Sequence[str], path: Path) -> set[str]:
    """Return the columns asked for as text, if the file has them."""
    for name in columns:
        if name not in header:
            raise ParameterError(unknown_name("column", name, header, f"{path} (asked for as text)"))
    return set(columns)
