"""What a file says of its records beside their values: who they are, who asked for protection, and who waived it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.engines import Column
from sfumato.errors import DataError, some
from sfumato.microdata import Batch, missing_of

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_YES = frozenset({"1", "1.0", "true", "yes", "y", "t"})
_NO = frozenset({"0", "0.0", "false", "no", "n", "f", ""})


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of a table, for noise that hangs on them: the same record has the same id in every table."""

    leaf: Whole
    """The leaf of each record, shape (records,)."""
    hidden: Whole
    """The id that each record got when it was loaded, shape (records,)."""
    identifier: Column | None = None
    """The identifier of each record, where the data have one."""
    keys: Numbers | None = None
    """The record keys that the file brought along, in [0, 1); shape (records,)."""

    def __len__(self) -> int:
        return len(self.leaf)

    @cached_property
    def ids(self) -> Whole:
        """A number for each record that does not depend on the table, shape (records,).

        It comes from the identifier if that tells all records apart, so that the order of the file does not matter; else it
        is the hidden id.
        """
        if self.identifier is None or self.identifier.missing.any():
            return self.hidden
        hashes = self.identifier.hashes
        return hashes if len(np.unique(hashes)) == len(hashes) else self.hidden


def records_of(batch: Batch, leaf: Whole, identifier: str | None, key: str | None) -> Records:
    """Return the records of a table, with their identifier and the keys that the file gives them."""
    known = None if identifier is None else batch.column(identifier)
    if key is None:
        return Records(leaf, batch.ids, known)
    keys = batch.numbers(key)
    if bad := int((~((keys >= 0) & (keys < 1))).sum()):
        raise DataError(
            f"{some(bad)} have a record key in '{key}' that is missing or outside [0, 1). Correct them, or leave the column "
            "out: keys are drawn then."
        )
    return Records(leaf, batch.ids, known, keys)


def said_yes(batch: Batch, name: str, who: Whole, everywhere: bool) -> NDArray[np.bool_]:
    """Return for each contributor whether its records say yes in a column: all of them, or any."""
    codes, values = batch.column(name).codes
    gone = missing_of(batch.column(name), batch.schema[name])
    words = [str(v).strip().lower() for v in values]
    if not set(words) <= _YES | _NO:
        raise DataError(f"column '{name}' must hold yes or no: 1 and 0, true and false, or yes and no.")
    yes = np.array([w in _YES for w in words] + [False])[np.where(gone, len(values), codes)]
    said = np.bincount(who, yes, int(who.max()) + 1)
    return np.asarray(said == np.bincount(who) if everywhere else said > 0)


def requests_of(batch: Batch, name: str, who: Whole) -> Whole:
    """Return for each contributor the code of its request for protection: 0 for none, 1, or 2; the smallest if it has two."""
    numbers = batch.numbers(name)
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    if not np.isin(numbers, (0, 1, 2)).all():
        raise DataError(f"column '{name}' must hold 0 for no request, or one of the request codes 1 and 2.")
    found = np.full(int(who.max()) + 1, 3, np.int64)
    np.minimum.at(found, who, np.where(numbers == 0, 3, numbers).astype(np.int64))
    return np.where(found == 3, 0, found)
