"""A spanning variable: its values, and the labels that each of them stands under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, listing, some
from sfumato.schema import Hierarchy
from sfumato.schema.hierarchy.base import label_of

TOTAL = "Total"
MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Dimension:
    """One column that a table is broken down by.

    `above` has a row for each value of the column and a column for each level below the total, finest first; its entries
    point into `labels`. A value that is not grouped on some level stands there under its own label.

    Examples
    --------
    >>> from sfumato.schema.hierarchy import TreeHierarchy
    >>> d = Dimension.of("town", ["Oslo", "Pisa", "Rome"], TreeHierarchy.from_levels(
    ...     {"Oslo": ["Norway"], "Pisa": ["Italy"], "Rome": ["Italy"]}))
    >>> d.labels, d.above.tolist()
    (('Oslo', 'Pisa', 'Rome', 'Norway', 'Italy'), [[0, 3], [1, 4], [2, 4]])
    """

    name: str
    labels: tuple[str, ...]
    above: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, values: Sequence[object], hierarchy: Hierarchy | None = None) -> Dimension:
        """Return the dimension of a column with these distinct values; None stands for "missing"."""
        own = [MISSING if v is None else label_of(v) for v in values]
        if TOTAL in own:
            raise DataError(
                f"column '{name}' has the value '{TOTAL}', which is the name of a margin here. Are there totals among the "
                "records? Leave them out, or read the file as a table (Table.from_cells)."
            )
        if len(set(own)) < len(own):
            raise DataError(
                f"column '{name}' has different values that read the same. Make its values text or numbers."
            )
        columns = [own]
        if hierarchy is not None:
            for level in range(1, hierarchy.height):
                raised = hierarchy.generalise(values, level)
                columns.append([MISSING if label is None else str(label) for label in raised])
        labels: dict[str, int] = {}
        above = np.array([[labels.setdefault(v, len(labels)) for v in column] for column in columns], np.int64)
        _refuse_mixed(name, tuple(labels), above)
        return cls(name, tuple(labels), above.reshape(len(columns), len(own)).T)


def _refuse_mixed(name: str, labels: Sequence[str], above: NDArray[np.int64]) -> None:
    """Refuse a label that stands for more values on one level than on another: one cell would hide the other.

    The smaller one could then be worked out as a difference, and no rule would look at it.
    """
    held = np.array([np.bincount(level, minlength=len(labels)) for level in above.reshape(len(above), -1)])
    fewest = np.where(held > 0, held, np.iinfo(np.int64).max).min(axis=0)
    if (mixed := np.flatnonzero(held.max(axis=0) > fewest)).size:
        names = listing((labels[i] for i in mixed.tolist()), 5)
        raise DataError(
            f"{some(len(mixed), 'label')} of '{name}' {'is' if len(mixed) == 1 else 'are'} a group of others and a value of its "
            f"own: {names}. Give the records that have the group as their value a label of their own below it, such as "
            f"'{labels[int(mixed[0])]}, other', in the data and in the hierarchy."
        )
