"""Microdata (.asc) and tables (.tab) of τ-ARGUS, with their .rda."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, join_names, plural
from sfumato.lazy import pd
from sfumato.schema import Attribute, Role, Scale, Schema
from sfumato.tables.argus.hierarchy_files import Lines, metadata_of, numbers, read_text, split
from sfumato.tables.argus.metadata import ArgusMetadata, ArgusVariable, read_argus_metadata
from sfumato.tables.cells import TOTAL
from sfumato.tables.sensitivity import APriori, Labels
from sfumato.tables.table import Table

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
    rows, names, short = _separated(text, described, what)
    if short:
        raise DataError(
            f"{plural(len(short), 'line')} of {what} {'has' if len(short) == 1 else 'have'} fewer than {len(names)} fields, the "
            f"first is line {short[0]}. Check the separator in the metadata ('{described.separator}')."
        )
    return {name: [fields[i] for _, fields in rows] for i, name in enumerate(names)}, [n for n, _ in rows]


def _separated(text: str, described: ArgusMetadata, what: str) -> tuple[Lines, list[str], list[int]]:
    """Return the fields of every line but one of names, the names of the variables, and the lines with fewer fields than these."""
    rows = split(text, described.separator or ";", what)
    names = [v.name for v in described.variables]
    if rows and [f.casefold() for f in rows[0][1][: len(names)]] == [n.casefold() for n in names]:
        rows = rows[1:]
    return rows, names, [n for n, fields in rows if len(fields) < len(names)]


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


_STATUS: dict[str, str | None] = {
    "": None, "e": None, "m": "unsafe", "ml": "unsafe",
    **dict.fromkeys(("1", "2", "13", "14")), **dict.fromkeys(("3", "4", "5", "6", "9", "11", "12"), "unsafe"), "10": "protected",
}  # fmt: skip
"""What τ-ARGUS writes besides the codes that metadata name: empty cells, secondary ones, its numbers (manual, 4.6.1)."""


_NUMBER_ROLES = ("numeric", "frequency", "top", "shadow", "cost", "lower level", "upper level")
"""The roles of columns of numbers."""


class ArgusTable(NamedTuple):
    """A table as τ-ARGUS reads it, and what its file says of single cells."""

    table: Table
    a_priori: APriori
    """Cells that the file calls unsafe or protected, costs, and the protection levels of unsafe cells."""


def read_argus_table(
    path: str | Path,
    metadata: str | Path | ArgusMetadata | None = None,
    *,
    value: str | None = None,
    dimensions: Sequence[str] | None = None,
    margins: Literal["check", "compute", "given"] = "check",
    decimals: int | None = None,
    nonnegative: bool = True,
) -> ArgusTable:
    """Read a table with the metadata of an .rda file: ``table, a_priori = read_argus_table("pp.tab", "pp.rda")``.

    A cell that the file calls safe may still be called unsafe by a rule: nothing is said about it.

    Parameters
    ----------
    path
        The .tab file.
    metadata
        The .rda file; if not given, the one of the same name.
    value
        The column of the values, where there are several: the response, or the shadow variable.
    dimensions
        The columns of labels, if not all that are recodeable. A cell of the table is then one that has the total in the others.
    margins, decimals, nonnegative
        As for `Table.from_cells`; decimals are those of the metadata, if they say.
    """
    described = metadata
    if not isinstance(described, ArgusMetadata):
        described = read_argus_metadata(described or metadata_of(path), table=True)
    what = f"the table {path}"
    rows, lines = _rows(path, described, what)
    spanning = _spanning(described)
    chosen = [described[n] for n in dimensions] if dimensions is not None else spanning
    response = _response(described, value)
    _check_labels([*spanning, *chosen], described)
    number = {
        v.name: numbers([r[i] for r in rows], v.name, what, lines)
        for i, v in enumerate(described.variables)
        if v.role in _NUMBER_ROLES
    }
    if response is not None and response.name not in number:
        raise DataError(f"the metadata {described.path} do not say that '{response.name}' holds numbers (<NUMERIC>).")
    texts = {v.name: [r[i] for r in rows] for i, v in enumerate(described.variables) if v.name not in number}
    kept = np.ones(len(rows), bool)
    for v in spanning:
        if v not in chosen:
            kept &= np.array([_is_total(x, v) for x in texts[v.name]])
    labels = {v.name: [TOTAL if _is_total(x, v) else x for x in texts[v.name]] for v in chosen}
    frequency, top = described.of_role("frequency"), described.of_role("top")
    columns: dict[str, Any] = {
        **labels, **{v.name: number[v.name] for v in (response, *frequency, *top) if v is not None}
    }  # fmt: skip
    hierarchies = {
        v.name: described.hierarchy(replace(v, total=v.total or TOTAL), [x for x in labels[v.name] if x != TOTAL])
        for v in chosen
    }
    table = Table.from_cells(
        pd.DataFrame(columns)[kept].reset_index(drop=True),
        hierarchies,
        None if response is None else response.name,
        count=frequency[0].name if frequency else None,
        top=[v.name for v in top],
        total={v.name: TOTAL if TOTAL in labels[v.name] else None for v in chosen},
        margins=margins,
        decimals=decimals if decimals is not None or response is None else response.decimals,
        nonnegative=nonnegative,
    )
    cells = [tuple(x) for x in zip(*labels.values(), strict=True)]
    return ArgusTable(table, _a_priori(described, cells, kept, number, texts, what))


def _spanning(described: ArgusMetadata) -> list[ArgusVariable]:
    """Return the variables that the table is broken down by."""
    spanning = [v for v in described.variables if v.recodeable]
    if not spanning:
        raise DataError(
            f"the metadata {described.path} name no variable that the table is broken down by (<RECODEABLE>)."
        )
    return spanning


def _check_labels(variables: list[ArgusVariable], described: ArgusMetadata) -> None:
    if both := [v.name for v in variables if v.role in _NUMBER_ROLES]:
        raise DataError(
            f"the table cannot be broken down by '{both[0]}': the metadata {described.path} say that it holds numbers. Correct "
            "one of the two."
        )


def _rows(path: str | Path, described: ArgusMetadata, what: str) -> tuple[list[list[str]], list[int]]:
    found, names, bad = _separated(read_text(path, "table"), described, what)
    if not found:
        raise DataError(f"{what} has no cells.")
    if bad:
        raise DataError(
            f"{plural(len(bad), 'line')} of {what} {'has' if len(bad) == 1 else 'have'} fewer fields than the metadata have "
            f"variables ({len(names)}), the first is line {bad[0]}. Check the separator ('{described.separator}')."
        )
    return [fields for _, fields in found], [n for n, _ in found]


def _response(described: ArgusMetadata, value: str | None) -> ArgusVariable | None:
    if value is not None:
        return described[value]
    found = described.of_role("numeric")
    if len(found) > 1:
        raise DataError(
            f"the table has several variables: {join_names(v.name for v in found)}. Say which is wanted (value='{found[0].name}')."
        )
    if not found and not described.of_role("frequency"):
        raise DataError(f"the metadata {described.path} name neither values (<NUMERIC>) nor frequencies (<FREQUENCY>).")
    return found[0] if found else None


def _is_total(label: str, variable: ArgusVariable) -> bool:
    return label in ("", variable.total)  # τ-ARGUS reads an empty code as the total


def _a_priori(
    described: ArgusMetadata,
    cells: Sequence[Labels],
    kept: np.ndarray[Any, np.dtype[np.bool_]],
    number: dict[str, Any],
    texts: dict[str, list[str]],
    what: str,
) -> APriori:
    statuses: dict[Labels, Literal["safe", "unsafe", "protected"]] = {}
    words = {
        **_STATUS, described.safe.casefold(): None, described.unsafe.casefold(): "unsafe",
        described.protect.casefold(): "protected",
    }  # fmt: skip
    if status := described.of_role("status"):
        for cell, word, inside in zip(cells, texts[status[0].name], kept, strict=True):
            if word.casefold() not in words:
                raise DataError(
                    f"column '{status[0].name}' of {what} has the status '{word}' for {', '.join(cell)}, which is none that the "
                    f"metadata name: {join_names([described.safe, described.unsafe, described.protect])}. Name it there (<SAFE>, "
                    "<UNSAFE>, <PROTECT>)."
                )
            if inside and (meaning := words[word.casefold()]) is not None:
                statuses[cell] = meaning  # type: ignore[assignment]

    def column(role: str, wanted: Any) -> dict[Labels, float]:
        if not (found := described.of_role(role)):
            return {}
        pairs = zip(cells, number[found[0].name].tolist(), kept, strict=True)
        return {c: x for c, x, inside in pairs if inside and not np.isnan(x) and wanted(c, x)}

    levels = [column(role, lambda c, x: statuses.get(c) == "unsafe") for role in ("lower level", "upper level")]
    for found in levels:
        if below := [c for c, x in found.items() if x < 0]:
            raise DataError(f"{what} has a protection level below 0 for {', '.join(below[0])}.")
    return APriori(statuses, column("cost", lambda c, x: x > 0), lower_level=levels[0], upper_level=levels[1])
