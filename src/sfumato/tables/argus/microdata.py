"""Microdata of τ-ARGUS: a fixed-format (.asc) or separated file, with its .rda."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import DataError, some
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Role, Scale, Schema
from sfumato.tables.argus.metadata import ArgusMetadata, ArgusVariable, read_argus_metadata
from sfumato.tables.argus.text import metadata_of, numbers, read_text, split

_ROLES = {"numeric": Role.CONFIDENTIAL, "weight": Role.WEIGHT, "holding": Role.CONTRIBUTOR}
_NUMBERS = ("numeric", "weight", "record key")


def read_argus_microdata(path: str | Path, metadata: str | Path | ArgusMetadata | None = None) -> Microdata:
    """Read microdata with the metadata of an .rda file: fixed or free format, with hierarchies, weights and holdings.

    Parameters
    ----------
    path
        The data file. It has no line of names; where its first line names the columns all the same, that is left out.
    metadata
        The .rda file; if not given, the one of the same name.
    """
    described = metadata if isinstance(metadata, ArgusMetadata) else read_argus_metadata(metadata or metadata_of(path))
    what = f"the data file {path}"
    text = read_text(path, "data file")
    columns, lines = _fixed(text, described, what) if described.separator is None else _free(text, described, what)
    if not lines:
        raise DataError(f"{what} has no records.")
    import pandas as pd

    frame: dict[str, Any] = {}
    attributes = []
    for variable in described.variables:
        raw = columns[variable.name]
        frame[variable.name], attribute = _column(variable, raw, lines, described, what)
        attributes.append(attribute)
    return Microdata(pd.DataFrame(frame), Schema(tuple(attributes)))


def _fixed(text: str, described: ArgusMetadata, what: str) -> tuple[dict[str, list[str]], list[int]]:
    kept = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    columns: dict[str, list[str]] = {}
    longest = max((len(line) for _, line in kept), default=0)
    for v in described.variables:
        if v.position is None or v.width is None:
            raise DataError(f"the metadata {described.path} do not say where '{v.name}' stands.")
        if kept and v.position > longest:
            raise DataError(
                f"'{v.name}' starts at position {v.position}, but no line of {what} is that long. Do the metadata belong to it?"
            )
        columns[v.name] = [line[v.position - 1 : v.position - 1 + v.width] for _, line in kept]
    return columns, [n for n, _ in kept]


def _free(text: str, described: ArgusMetadata, what: str) -> tuple[dict[str, list[str]], list[int]]:
    rows = split(text, described.separator or ";", what)
    names = [v.name for v in described.variables]
    if rows and [f.casefold() for f in rows[0][1][: len(names)]] == [n.casefold() for n in names]:
        rows = rows[1:]
    short = [n for n, fields in rows if len(fields) < len(names)]
    if short:
        raise DataError(
            f"{some(len(short), 'line')} of {what} {'has' if len(short) == 1 else 'have'} fewer than {len(names)} fields, the "
            f"first is line {short[0]}. Check the separator in the metadata ('{described.separator}')."
        )
    return {name: [fields[i] for _, fields in rows] for i, name in enumerate(names)}, [n for n, _ in rows]


def _column(
    variable: ArgusVariable, raw: list[str], lines: list[int], described: ArgusMetadata, what: str
) -> tuple[Any, Attribute]:
    """Return a column's values, and what they mean."""
    if variable.role == "request":
        asked = {code: i for i, code in enumerate(variable.requests, 1)}
        return np.array([asked.get(x.strip(), 0) for x in raw]), Attribute(
            variable.name, scale=Scale.ORDERED, integer=True
        )
    if variable.role in _NUMBERS:
        found = numbers(raw, variable.name, what, lines)
        gaps = tuple(_missing_numbers(variable))
        known = found[~np.isnan(found) & ~np.isin(found, gaps)]
        whole = not variable.decimals and bool((known == np.round(known)).all())
        role = _ROLES.get(variable.role, Role.OTHER)
        return found, Attribute(
            variable.name, role, Scale.ORDERED, integer=whole and role is not Role.WEIGHT, missing=gaps
        )
    codes = [x.strip() for x in raw]
    role = Role.CONTRIBUTOR if variable.role == "holding" else Role.KEY if variable.recodeable else Role.OTHER
    # levels by digits count from the left of the field: there, and nowhere else, its spaces matter
    hierarchy = described.hierarchy(variable, [x.rjust(variable.width or 0) for x in raw]) if role is Role.KEY else None
    scale = Scale.UNORDERED if hierarchy is None else Scale.PARTIALLY_ORDERED
    attribute = Attribute(
        variable.name, role, scale, hierarchy, missing=variable.missing, labels=described.labels(variable)
    )
    return [c or None for c in codes], attribute


def _missing_numbers(variable: ArgusVariable) -> list[float]:
    found = []
    for code in variable.missing:
        try:
            found.append(float(code.replace(",", ".")))
        except ValueError:
            continue
    return found
