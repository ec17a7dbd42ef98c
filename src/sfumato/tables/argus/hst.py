"""A-priori files of τ-ARGUS (.hst): what is wanted of single cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, did_you_mean
from sfumato.tables.a_priori import APriori, Labels
from sfumato.tables.argus.text import read_text, sniff, split
from sfumato.tables.dimension import TOTAL
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
