"""How the values of a confidential column are distributed in each class of records that match on the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato import kernels
from sfumato.attacks.attacker_file import key_names
from sfumato.contract import Release, Snooper
from sfumato.data import Kind
from sfumato.data.classes import Classes, Missing
from sfumato.errors import NotApplicable, unknown_name
from sfumato.kernels.classes import ClassCells, class_cells, classes
from sfumato.risk.keys import of_original, released_classes
from sfumato.typing import Codes, Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Distributions:
    """The values of one confidential column, by class of the keys; c classes, m values that occur.

    Records whose value is missing are left out: a gap tells nobody anything, and does not make a class diverse.
    """

    keys: tuple[str, ...]
    column: str
    values: Sequence[Any]
    """What the m values are: for the custodian's eyes."""
    whole: Whole
    """Records of the file with each value, shape (m,)."""
    codes: tuple[Codes, ...]
    """Per key, the code of each class, shape (c,); -1 is missing."""
    exact: ClassCells
    """The distributions among the records that are exactly alike, for all c classes."""
    rule: Missing
    fine: Classes
    """The classes by the keys and the column together, or by more columns."""
    place: Whole
    """The class of each of those, -1 where they are left out."""

    def __len__(self) -> int:
        return len(self.exact.distinct)

    @property
    def sizes(self) -> Whole:
        """Records of each class, those left out not counted, shape (c,)."""
        return self.exact.totals

    @property
    def n(self) -> int:
        """Records that are not left out."""
        return int(self.whole.sum())

    @property
    def left_out(self) -> int:
        """Records of the file without a value, or left out by the rule for missing keys."""
        return self.fine.records - self.n

    def cells(self) -> Iterator[tuple[Any, ClassCells]]:
        """Yield the distributions among the records that match each class under the rule: class numbers, and their cells.

        All at once where no two classes match, else in pieces that fit in memory.
        """
        if self.rule != "wildcard" or not any((codes < 0).any() for codes in self.codes):
            yield slice(None), self.exact
            return
        exact, levels = self.exact, len(self.whole)
        for rows, starts, values, counts in kernels.matching.wildcard_tables(
            np.column_stack(self.codes), exact.starts, exact.values, exact.counts, levels
        ):
            yield rows, ClassCells(starts, values, counts)

    def each(self, function: Callable[[ClassCells], NDArray[Any]]) -> Numbers:
        """Return what depends on the distribution of a class, for each, shape (c, ...); the function gets r classes at a time."""
        out: Numbers | None = None
        for rows, cells in self.cells():
            here = function(cells)
            if out is None:
                out = np.empty((len(self), *here.shape[1:]))
            out[rows] = here
        return np.empty(0) if out is None else out

    def records_in(self, which: Flags) -> int:
        """Return how many records are in some of the classes."""
        return int(self.sizes[which].sum())

    def per_original(self, outcome: Release, values: Numbers) -> Numbers:
        """Return numbers of the classes for each original record, shape (n,); NaN for those not released or left out."""
        return np.asarray(of_original(outcome, self.fine, np.append(values, np.nan)[self.place]))


def keys_beside(outcome: Release, snooper: Snooper, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the keys by which a snooper looks for records whose value in some columns he wants to learn.

    A column of the schema's keys that he wants to learn is no key; one that he has named as his key he knows already.
    """
    released = outcome.masked.engine.kinds
    for name in columns:
        if name not in released:
            if name in outcome.original.schema:
                raise NotApplicable(f"column '{name}' is not in the released file, so nobody can learn it from there.")
            raise NotApplicable(unknown_name("column", name, released, "the released file"))
        if released[name] is Kind.OTHER:
            raise NotApplicable(f"column '{name}' holds {Kind.OTHER}, which cannot be told apart.")
        if name in snooper.keys or name in snooper.precision:
            raise NotApplicable(
                f"the snooper knows '{name}' already, as one of his keys, so he learns nothing about it. "
                "Leave it out of his keys, or choose another column."
            )
    keys = tuple(name for name in key_names(outcome, snooper) if name not in columns)
    if not keys:
        raise NotApplicable(
            "there are no keys besides the columns that a snooper wants to learn. "
            "Name what he knows of a person with Snooper(keys=...)."
        )
    return keys


def distributions(
    outcome: Release,
    snooper: Snooper,
    missing: Missing,
    column: str,
    keys: tuple[str, ...],
    names: tuple[str, ...] | None = None,
) -> Distributions:
    """Return how the values of a column are distributed in each class of the released records by some keys.

    Counted where the data live, and once per release. `names` are more columns, by which `fine` tells records apart.
    """
    names = (*keys, column) if names is None else names
    memory = ("distributions", names, keys, column, missing, tuple(sorted(snooper.precision.items())))
    if memory not in outcome.memory:
        fine = released_classes(outcome, snooper, "value", names=names)  # the rule is applied below
        outcome.memory[memory] = _distributions(fine, missing, column, keys)
    found: Distributions = outcome.memory[memory]
    return found


def _distributions(fine: Classes, missing: Missing, column: str, keys: tuple[str, ...]) -> Distributions:
    by_name = dict(zip(fine.names, fine.codes, strict=True))
    by_key, values = [by_name[name] for name in keys], by_name[column]
    known = values >= 0
    if not known.any():
        raise NotApplicable(f"no released record has a value in '{column}', so there is nothing to learn there.")
    if missing == "ignored":
        for codes in by_key:
            known = known & (codes >= 0)
        if not known.any():
            raise NotApplicable(
                f"every record with a value in '{column}' has a missing key, and records with a missing key are left out."
            )
    labels, _ = classes([codes[known] for codes in by_key], int(known.sum()))
    whole = np.bincount(values[known], fine.sizes[known]).astype(np.int64)
    used = np.flatnonzero(whole)  # those that only occur where records are left out are no values
    recoded = (np.cumsum(whole > 0) - 1)[values[known]]
    first = np.empty(int(labels.max()) + 1, np.int64)
    first[labels] = np.flatnonzero(known)
    place = np.full(len(fine), -1, np.int64)
    place[known] = labels
    exact = class_cells(labels, recoded, fine.sizes[known], len(used))
    standing = fine.values[fine.names.index(column)]
    occurring = standing if len(used) == len(standing) else [standing[i] for i in used.tolist()]
    by_class = tuple(codes[first] for codes in by_key)
    return Distributions(keys, column, occurring, whole[used], by_class, exact, missing, fine, place)
