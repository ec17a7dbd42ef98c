"""Which label of a dimension stands for the total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, listing, unknown_name
from sfumato.schema.hierarchy import Hierarchy
from sfumato.tables.dimension import TOTAL

Numbers = NDArray[np.float64]
USUAL = ("total", "tot", "totaal", "gesamt", "insgesamt", "ensemble", "totale", "all", "_t", "_z", "*")
"""How totals are mostly called, in small letters; "_T" is SDMX's."""


def find_total(
    labels: Mapping[str, Sequence[str | None]],
    hierarchies: Mapping[str, Hierarchy | None],
    total: str | Mapping[str, str | None] | None,
) -> dict[str, str | None]:
    """Return the label of each dimension's total: as named, else the top of its hierarchy, else one with a usual name.

    None where a dimension has no total among its labels. Missing labels are totals too, as GROUP BY CUBE writes them.
    """
    if isinstance(total, Mapping):
        for name in total:
            if name not in labels:
                raise ParameterError(unknown_name("dimension", name, labels, "the table"))
    found: dict[str, str | None] = {}
    for name, column in labels.items():
        distinct = dict.fromkeys(x for x in column if x is not None)
        if isinstance(total, Mapping) and name in total:
            found[name] = _named(name, total[name], distinct)
        elif isinstance(total, str):
            found[name] = total if total in distinct else None
        else:
            found[name] = _found(name, distinct, hierarchies[name], None in column)
        if found[name] != TOTAL and TOTAL in distinct:
            raise DataError(
                f"'{TOTAL}' is a label of '{name}' but not its total, which is called so here. Give the label another name, or "
                f"say total={{'{name}': '{TOTAL}'}}."
            )
    if isinstance(total, str) and not any(found.values()):
        raise ParameterError(f"no dimension has the label '{total}', which was named as the total.")
    return found


def suspect_total(name: str, dimension: int, labels: NDArray[np.object_], values: Numbers) -> None:
    """Refuse a label that is the sum of all others of its dimension wherever it occurs: it must be a total."""
    others = np.delete(labels, dimension, axis=1).astype(str)
    _, group = (
        np.unique(others, axis=0, return_inverse=True) if others.size else (None, np.zeros(len(labels), np.int64))
    )
    group = group.ravel()
    both = np.bincount(group, values)
    column = labels[:, dimension]
    distinct = dict.fromkeys(column)
    if TOTAL in distinct or len(distinct) < 3 or not values.any():
        return
    for label in distinct:
        own = np.bincount(group, np.where(column == label, values, 0.0))
        if np.allclose(2 * own, both, rtol=1e-9, atol=0.0):
            raise DataError(
                f"label '{label}' of '{name}' is everywhere the sum of the others: is it the total? Say so with "
                f"total={{'{name}': '{label}'}}; if it is not, with total={{'{name}': None}}."
            )


def _named(name: str, label: str | None, distinct: Mapping[str, None]) -> str | None:
    if label is not None and label not in distinct:
        raise ParameterError(unknown_name("label", label, distinct, f"dimension '{name}'"))
    return label


def _found(name: str, distinct: Mapping[str, None], hierarchy: Hierarchy | None, blank: bool) -> str | None:
    if hierarchy is not None and hierarchy.root in distinct and TOTAL not in distinct:
        return hierarchy.root
    usual = [x for x in distinct if x.strip().casefold() in USUAL]
    if len(usual) + blank > 1:
        raise DataError(
            f"several labels of '{name}' could be its total: {listing([*usual, *(['a missing label'] if blank else [])])}. "
            f"Say which, with total={{'{name}': '{usual[0]}'}}."
        )
    return usual[0] if usual else None
