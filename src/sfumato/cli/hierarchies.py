"""How labels nest, and what totals are called: from options to what the library takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.given import pair
from sfumato.cli.handling import Misuse
from sfumato.errors import listing, unknown_name

if TYPE_CHECKING:
    from sfumato.microdata import Microdata
    from sfumato.schema.hierarchy import Hierarchy


def named_hierarchies(given: Iterable[str] | None, columns: Iterable[str] | None = None) -> dict[str, Hierarchy]:
    """Return hierarchies by column, from COLUMN=FILE; only for these columns, where they are known."""
    known = None if columns is None else list(columns)
    found: dict[str, Hierarchy] = {}
    for text in given or ():
        name, path = pair(text, "--hierarchy", "region=regions.hrc")
        if known is not None and name not in known:
            raise Misuse(f"--hierarchy names '{name}', which is not a column of labels. These are: {listing(known)}.")
        if name in found:
            raise Misuse(f"--hierarchy names '{name}' twice; leave one out.")
        found[name] = read_hierarchy(Path(path))
    return found


def read_hierarchy(path: Path) -> Hierarchy:
    """Read an .hrc file, or a .csv with the labels above each value."""
    if not path.is_file():
        raise Misuse(f"there is no file {path} with a hierarchy.")
    if path.suffix.lower() == ".csv":
        from sfumato.schema.hierarchy import read_hierarchy_csv

        return read_hierarchy_csv(path)
    from sfumato.tables.argus import read_argus_hierarchy

    return read_argus_hierarchy(path)


def with_hierarchies(data: Microdata, nested: dict[str, Any]) -> Microdata:
    """Return records whose schema knows how the labels of these columns nest; None says nothing."""
    for name, hierarchy in nested.items():
        if hierarchy is None:
            continue
        if name not in data.schema:
            raise Misuse(unknown_name("column", name, data.schema.names(), "the file of records (--hierarchy)"))
        data = data.with_schema(data.schema.change(name, hierarchy=hierarchy, scale="partially ordered"))
    return data


def total_labels(given: list[str] | None) -> str | dict[str, str | None] | None:
    """Return what totals are called, from LABEL or COLUMN=LABEL; `COLUMN=none` says that there is none."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = (pair(text, "--total", "region=All regions") for text in given)
    return {name: None if label.casefold() == "none" else label for name, label in pairs}
