"""What τ-ARGUS wants of single cells and codes: a-priori files (.hst) and recodings (.grc)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, did_you_mean, join_names, plural
from sfumato.schema.attribute import Scale
from sfumato.schema.hierarchy import TreeHierarchy, label_of
from sfumato.tables.argus.hierarchy_files import read_text, sniff, split
from sfumato.tables.cells import TOTAL
from sfumato.tables.sensitivity import APriori, Labels
from sfumato.tables.table import Table

_STATUS = {"S": "safe", "U": "unsafe", "P": "protected", "M": "unsafe", "ML": "unsafe"}
_ACTIONS = ("S", "U", "P", "M", "ML", "C", "W", "PL", "AB")


def read_argus_a_priori(
    path: str | Path,
    table: Table,
    *,
    separator: str | None = None,
    total: str | Mapping[str, str] = TOTAL,
    ignore_errors: bool = False,
) -> APriori:
    """Read an a-priori file for a table: the labels of a cell, an action, and its numbers on every line.

    The actions are those of τ-ARGUS: S safe, U unsafe, P protected; C or W a cost; PL the lower and upper protection level;
    AB bounds that are known a priori; M and ML a cell that τ-ARGUS suppressed to protect others, which is unsafe here: never
    shown, and never less protected than a rule wants. A later line counts over an earlier one.

    Parameters
    ----------
    path
        The .hst file.
    table
        The table that it is for.
    separator
        What stands between fields; found if not given.
    total
        The label of the total in the file, one for all dimensions or one for each; an empty label is a total too.
    ignore_errors
        Whether lines about labels that the table does not have are left out, as τ-ARGUS can. Lines that cannot be understood
        never are.
    """
    text = read_text(path, "a-priori file")
    names = table.cells.dimensions
    totals = {n: (total if isinstance(total, str) else total.get(n, TOTAL)) for n in names}
    known = {tuple(row) for row in table.cells.labels.tolist()}
    found: dict[str, dict[Labels, Any]] = {
        n: {} for n in ("statuses", "costs", "lower", "upper", "lower_level", "upper_level")
    }
    for number, fields in split(text, separator or sniff(text), f"the a-priori file {path}"):
        where = f"line {number} of the a-priori file {path}"
        if fields[0].startswith("//"):
            continue
        if len(fields) <= len(names):
            raise DataError(
                f"{where} has {len(fields)} fields; it needs {len(names)} labels and what is wanted of the cell. Check the "
                "separator."
            )
        cell = tuple(TOTAL if x in ("", totals[n]) else x for n, x in zip(names, fields[: len(names)], strict=True))
        action, rest = fields[len(names)].upper(), [f for f in fields[len(names) + 1 :] if f]
        if action not in _ACTIONS:
            raise DataError(
                f"{where} wants '{fields[len(names)]}' of a cell, which is none of: S, U, P, M, ML, C, W, PL, AB."
                + did_you_mean(action, _ACTIONS)
            )
        if cell not in known:
            if ignore_errors:
                continue
            raise DataError(_unknown(where, cell, table))
        _apply(found, cell, action, rest, where)
    return APriori(**found)


def _apply(found: dict[str, dict[Labels, Any]], cell: Labels, action: str, rest: list[str], where: str) -> None:
    if action in _STATUS:
        found["statuses"][cell] = _STATUS[action]
    elif action in ("C", "W"):
        (cost,) = _numbers(rest, 1, where, "a cost")
        found["costs"][cell] = cost if cost > 0 else 1.0  # as τ-ARGUS does
    else:
        words = "two protection levels" if action == "PL" else "two bounds"
        low, high = _numbers(rest, 2, where, words)
        if action == "PL" and (low < 0 or high < 0):
            raise DataError(f"{where} has a protection level below 0.")
        if action == "AB" and low > high:
            raise DataError(f"{where} has its bounds the wrong way round.")
        names = ("lower_level", "upper_level") if action == "PL" else ("lower", "upper")
        found[names[0]][cell], found[names[1]][cell] = low, high


def _numbers(rest: list[str], count: int, where: str, words: str) -> list[float]:
    try:
        found = [float(x.replace(",", ".")) for x in rest[:count]]
    except ValueError:
        found = []
    if len(found) < count or not all(math.isfinite(x) for x in found):
        raise DataError(f"{where} needs {words} at its end.")
    return found


def _unknown(where: str, cell: Labels, table: Table) -> str:
    for i, (name, label) in enumerate(zip(table.cells.dimensions, cell, strict=True)):
        labels = sorted(set(table.cells.labels[:, i]))
        if label not in labels:
            return f"{where} has the label '{label}', which is not in dimension '{name}'.{did_you_mean(label, labels)}"
    return f"{where} is about a cell that the table does not have: its labels do not occur together."


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
            f"the recoding file {recoding.path} folds {plural(len(strange), 'label')} that the hierarchy of '{column}' does not "
            f"have: {join_names(strange, 5)}.{did_you_mean(strange[0], known)}"
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
