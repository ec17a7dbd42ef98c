"""Which records a file tells apart: its classes by the keys, and the records that are in none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import classes_of
from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.microdata import Microdata
from sfumato.schema.hierarchy import ROOT
from sfumato.utility.leaves import hierarchies_of


@dataclass(frozen=True, eq=False)
class ToldApart:
    """The classes of a file by its keys; a missing key is a value of its own."""

    sizes: NDArray[np.int64]
    """Records of each class, shape (c,)."""
    suppressed: int
    """Records that are not released, or of which every key is missing or generalised to the root."""

    @property
    def records(self) -> int:
        """All records: those in classes, and those suppressed."""
        return int(self.sizes.sum()) + self.suppressed

    @property
    def discernibility(self) -> float:
        """The sum of the squared class sizes, each suppressed record counted as alike to all (Bayardo and Agrawal 2005)."""
        return float(np.square(self.sizes.astype(np.float64)).sum()) + float(self.suppressed) * self.records


def told_apart(outcome: Release, data: Microdata, names: Sequence[str]) -> ToldApart:
    """Return the classes of a file of the release; a key that is not released tells nothing apart."""
    gone = max(len(outcome.original) - len(data), 0)
    here = [name for name in names if name in data.engine.kinds]
    if not here:
        return ToldApart(np.zeros(0, np.int64), len(data) + gone)
    found = classes_of(data, here, "value")
    said = np.zeros(len(found), bool)
    for name, codes, values in zip(here, found.codes, found.values, strict=True):
        empty = codes < 0
        if data.kind(name) is Kind.CATEGORY:
            roots = {ROOT, *(hierarchy.root for hierarchy in hierarchies_of(outcome, name))}
            empty = empty | np.isin(codes, [i for i, value in enumerate(values) if value in roots])
        said |= ~empty
    return ToldApart(found.sizes[said], int(found.sizes[~said].sum()) + gone)
