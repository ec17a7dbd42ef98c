"""Which records a file tells apart: its classes by the keys, and the records that are in none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.classes import classes_of
from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.microdata import Microdata
from sfumato.schema.hierarchy import ROOT
from sfumato.utility.leaves import hierarchies_of


@dataclass(frozen=True, eq=False)
class ToldApart:
    """What a file tells apart by its keys; a key that is missing, or generalised to the root, may be any value."""

    classes: int
    """Combinations of the keys; one with a missing key counts only if it looks like no other."""
    alike: float
    """Pairs of records that look the same, each record with itself among them; those suppressed are left out."""
    told: int
    """Records that are not suppressed."""
    suppressed: int
    """Records that are not released, or of which every key is missing or generalised to the root."""

    @property
    def records(self) -> int:
        """All records."""
        return self.told + self.suppressed

    @property
    def discernibility(self) -> float:
        """The pairs that look the same, each suppressed record counted as alike to all (Bayardo and Agrawal 2005)."""
        return self.alike + float(self.suppressed) * self.records


def told_apart(outcome: Release, data: Microdata, names: Sequence[str]) -> ToldApart:
    """Return what a file of the release tells apart; a key that is not released tells nothing apart."""
    from sfumato.kernels.wildcards import wildcard_sums

    gone = max(len(outcome.original) - len(data), 0)
    here = [name for name in names if name in data.engine.kinds]
    if not here:
        return ToldApart(0, 0.0, 0, len(data) + gone)
    found = classes_of(data, here, "value")
    codes = np.column_stack(found.codes)
    for j, (name, values) in enumerate(zip(here, found.values, strict=True)):
        if data.kind(name) is Kind.CATEGORY:
            roots = {ROOT, *(hierarchy.root for hierarchy in hierarchies_of(outcome, name))}
            codes[np.isin(codes[:, j], [i for i, value in enumerate(values) if value in roots]), j] = -1
    said = (codes >= 0).any(axis=1)
    codes, sizes = codes[said], found.sizes[said].astype(np.float64)
    whole = (codes >= 0).all(axis=1)
    looks = sizes if whole.all() else wildcard_sums(codes, sizes[:, None])[:, 0]
    classes = max(int((whole | (looks == sizes)).sum()), int(said.any()))
    told = int(sizes.sum())
    return ToldApart(classes, float(sizes @ looks), told, len(data) - told + gone)
