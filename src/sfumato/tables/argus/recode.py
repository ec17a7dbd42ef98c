"""Recodings of τ-ARGUS (.grc): codes put together, or branches of a hierarchy folded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import DataError, did_you_mean, listing, some
from sfumato.microdata import Microdata
from sfumato.schema import Scale
from sfumato.schema.hierarchy import TreeHierarchy
from sfumato.schema.hierarchy.base import label_of
from sfumato.tables.argus.text import read_text


@dataclass(frozen=True)
class ArgusRecoding:
    """What a .grc file says; see `recode_by_argus`."""

    path: str
    groups: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """For each new code the ranges of old ones, both ends included; an empty end is open."""
    folded: tuple[str, ...] = ()
    """Labels of a hierarchy that are not broken down any more (<TREERECODE>)."""
    missing: tuple[str, ...] = ()


def read_argus_recoding(path: str | Path) -> ArgusRecoding:
    """Read a .grc file: `new: old, from-to, -to, from-` on every line, or labels to fold after <TREERECODE>."""
    lines = [line.strip() for line in read_text(path, "recoding file").split("\n")]
    kept = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("//")]
    if kept and kept[0][1].upper() == "<TREERECODE>":
        return ArgusRecoding(str(path), folded=tuple(line for _, line in kept[1:]))
    groups: dict[str, list[tuple[str, str]]] = {}
    missing: tuple[str, ...] = ()
    for number, line in kept:
        keyword = re.match(r"<(\w+)>\s*(.*)", line)
        if keyword is not None:
            if keyword[1].upper() == "MISSING":
                missing = tuple(m.strip('" ') for m in re.findall(r'"[^"]*"|\S+', keyword[2]))
            continue  # a new code list has no meaning here
        new, colon, olds = line.partition(":")
        ranges = [_range(part) for part in olds.split(",") if part.strip()]
        if not colon or not new.strip() or not ranges or any(r is None for r in ranges):
            raise DataError(
                f"line {number} of the recoding file {path} cannot be understood. It needs a new code, a colon, and old codes or "
                "ranges of them: 'small: 1-3, 5'."
            )
        groups.setdefault(new.strip().strip('"'), []).extend(r for r in ranges if r is not None)
    if not groups:
        raise DataError(f"the recoding file {path} says nothing. It needs lines such as 'small: 1-3, 5'.")
    return ArgusRecoding(str(path), groups, missing=missing)


def recode_by_argus(data: Microdata, column: str, path: str | Path | int) -> Microdata:
    """Return records with one column recoded by a .grc file, or a hierarchical one cut at a level.

    Old codes are compared as numbers where all of them and the ends of all ranges are numbers, else as text, as τ-ARGUS does for
    codes of one width. Codes that no line names stay as they are.

    Parameters
    ----------
    data
        The records.
    column
        Which column.
    path
        The .grc file; or for a hierarchical column how many levels below the total are kept.
    """
    data.kind(column)  # refuses an unknown name
    hierarchy = data.schema[column].hierarchy
    codes, values = data.batch([column]).column(column).codes
    old = [label_of(v).strip() for v in values]
    if isinstance(path, int):
        new, tree = _cut(old, _tree(hierarchy, column), path)
        return _replaced(data, column, codes, new, tree)
    recoding = read_argus_recoding(path)
    if recoding.folded:
        new, tree = _folded(old, _tree(hierarchy, column), recoding, column)
        return _replaced(data, column, codes, new, tree)
    return _replaced(data, column, codes, _grouped(old, recoding, column), None, recoding.missing)


def _range(text: str) -> tuple[str, str] | None:
    parts = [p.strip().strip('"') for p in text.strip().split("-")]
    if len(parts) == 1 and parts[0]:
        return parts[0], parts[0]
    return (parts[0], parts[1]) if len(parts) == 2 and any(parts) else None


def _grouped(old: list[str], recoding: ArgusRecoding, column: str) -> list[str]:
    ends = [e for ranges in recoding.groups.values() for pair in ranges for e in pair if e]
    as_numbers = all(_number(x) is not None for x in (*ends, *(o for o in old if o)))
    key = _number if as_numbers else str

    def within(code: str, low: str, high: str) -> bool:
        at: Any = key(code)
        return (not low or key(low) <= at) and (not high or at <= key(high))

    found = []
    for code in old:
        new = [n for n, ranges in recoding.groups.items() if code and any(within(code, *r) for r in ranges)]
        if len(new) > 1:
            raise DataError(
                f"the recoding file {recoding.path} puts a code of '{column}' into both {new[0]} and {new[1]}."
            )
        found.append(new[0] if new else code)
    if found == old and not any(code in recoding.groups for code in old):
        raise DataError(
            f"the recoding file {recoding.path} names no code of '{column}'. Check how they are written: 01 is not 1."
        )
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _tree(hierarchy: Any, column: str) -> TreeHierarchy:
    if isinstance(hierarchy, TreeHierarchy):
        return hierarchy
    raise DataError(
        f"'{column}' has no hierarchy to fold. Recode it by groups (a .grc file with lines such as 'small: 1-3, 5')."
    )


def _folded(
    old: list[str], tree: TreeHierarchy, recoding: ArgusRecoding, column: str
) -> tuple[list[str], TreeHierarchy]:
    known = dict.fromkeys(label.strip() for row in tree.rows for label in row)
    if strange := [label for label in recoding.folded if label not in known]:
        raise DataError(
            f"the recoding file {recoding.path} folds {some(len(strange), 'label')} that the hierarchy of '{column}' does not "
            f"have: {listing(strange, 5)}.{did_you_mean(strange[0], known)}"
        )

    def ends(row: Sequence[str]) -> int:
        """Return the position of the highest folded label of a path, or of its own."""
        return max((i for i, label in enumerate(row) if label.strip() in recoding.folded), default=0)

    return _shortened(old, tree, ends)


def _cut(old: list[str], tree: TreeHierarchy, levels: int) -> tuple[list[str], TreeHierarchy]:
    if levels < 1:
        raise DataError("a hierarchy is cut below at least one level.")

    def ends(row: Sequence[str]) -> int:
        kept = list(dict.fromkeys(row[::-1]))[: levels + 1]  # the total, and as many levels below it
        return list(row).index(kept[-1])

    return _shortened(old, tree, ends)


def _shortened(
    old: list[str], tree: TreeHierarchy, ends: Callable[[Sequence[str]], int]
) -> tuple[list[str], TreeHierarchy]:
    """Return the codes and the hierarchy with every path cut off below one of its labels."""
    at = {row[0].strip(): row[ends(row)] for row in tree.rows}
    rows = [(row[ends(row)],) * ends(row) + tuple(row[ends(row) :]) for row in tree.rows]
    return [at.get(code, code) for code in old], TreeHierarchy(list(dict.fromkeys(rows)))


def _replaced(
    data: Microdata, column: str, codes: Any, new: list[str], tree: TreeHierarchy | None, missing: tuple[str, ...] = ()
) -> Microdata:
    """Return the data with other codes in a column."""
    distinct = list(dict.fromkeys(new))
    place = {label: i for i, label in enumerate(distinct)}
    at = np.array([*(place[label] for label in new), -1], np.int64)  # -1 stays: no value
    scale = Scale.UNORDERED if tree is None else Scale.PARTIALLY_ORDERED
    gone = {"missing": missing} if missing else {}
    schema = data.schema.change(column, hierarchy=tree, scale=scale, integer=False, **gone)
    return data.transform(lambda batch: batch.with_codes(column, at[codes], distinct), schema)
