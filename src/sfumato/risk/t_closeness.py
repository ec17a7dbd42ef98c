"""t-closeness: classes whose confidential values are distributed unlike the whole file (Li, Li, Venkatasubramanian 2007)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.classes import Missing
from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, out_of
from sfumato.microdata import Microdata
from sfumato.risk.distributions import ROUNDING, Cells, Distributions, distributions, keys_beside
from sfumato.risk.keys import RULES, missing_rule
from sfumato.schema import Scale, Schema

Numbers = NDArray[np.float64]
Distance = Literal["ordered", "unordered", "hierarchical"]
_BY_SCALE: dict[Scale, Distance] = {
    Scale.ORDERED: "ordered",
    Scale.UNORDERED: "unordered",
    Scale.PARTIALLY_ORDERED: "hierarchical",
}


class TCloseness(DirectMeasure):
    """The largest distance between the distribution of a confidential column in a class and in the whole file, from 0 to 1.

    The distance is the earth mover's: how far shares of the values have to be moved, on average, to make one distribution the
    other. A step from one of m values in order to the next costs 1/(m - 1) (``distance="ordered"``); from any value to any other,
    1 (``"unordered"``); or as far as one has to go up the column's hierarchy until both values are one, divided by its height
    (``"hierarchical"``). If none is named, the column's scale decides. Per record: the distance of its class.
    """

    side: ClassVar[Side] = Side.RISK

    column: str = param(doc="the confidential column", columns="one", holds="anything")
    distance: Distance | None = param(
        default=None,
        doc="how far apart values are; by the column's scale if none is named",
        choices=("ordered", "unordered", "hierarchical"),
    )
    t: float = param(default=0.2, doc="the largest distance that is close enough", low=0, high=1)
    missing: Missing = missing_rule()

    def label(self) -> str:
        """Return a few words for a legend."""
        return f"t-closeness distance of {self.column}"

    @property
    def variant(self) -> str:
        """The distance and the rule for missing keys."""
        return f"{self.distance or 'by the scale of the column'}; {RULES[self.missing]}"

    def words(self, value: float, schema: Schema) -> str:
        """Return what the distance means."""
        return f"the class that is least like the whole file is {value:.3g} away from it in '{self.column}'"

    def of_records(self, values: Numbers) -> float:
        """Return how far the classes of some records are from the whole file at most."""
        return float(values.max())

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the distance of each class."""
        keys = keys_beside(outcome, snooper, [self.column])
        distance = self.distance or _BY_SCALE[outcome.masked.schema[self.column].scale]
        found = distributions(outcome, snooper, self.missing, self.column, keys)
        apart = _apart(found, distance, outcome.masked)
        beyond, n, largest = found.records_in(apart > self.t + ROUNDING), found.n, float(apart.max())
        score = self.result(
            largest,
            f"the class of {', '.join(keys)} that is least like the whole file is {largest:.3g} away from it in "
            f"'{self.column}'; {out_of(beyond, n, ('is', 'are'))} in classes more than {self.t:g} away",
            details={
                "records in classes beyond t": float(beyond),
                "mean distance": float(found.sizes @ apart) / n,
                "classes": float(len(found)),
                "records left out": float(found.left_out),
            },
            find_records=(lambda: found.per_original(outcome, apart)) if outcome.aligned else None,
        )
        return replace(score, variant=f"{distance}; {RULES[self.missing]}")


def _apart(found: Distributions, distance: Distance, data: Microdata) -> Numbers:
    """Return the distance of each class from the whole file, shape (c,)."""
    from sfumato.kernels.earth_mover import ordered_distances, tree_distances

    whole = found.whole
    if distance == "ordered":
        places = _places(found, data)
        along = np.bincount(places, whole).astype(np.int64)
        return found.each(lambda cells: ordered_distances(*_in_order(cells, places), along))
    nodes = _nodes(found, data) if distance == "hierarchical" else np.arange(len(whole), dtype=np.int32)[None, :]
    return found.each(lambda cells: tree_distances(cells.starts, cells.values, cells.counts, whole, nodes))


def _places(found: Distributions, data: Microdata) -> NDArray[np.int32]:
    """Return the place of each value in the order of values, shape (m,)."""
    attribute, kind = data.schema[found.column], data.kind(found.column)
    if kind is not Kind.CATEGORY:
        return np.arange(len(found.whole), dtype=np.int32)  # numbers, dates and yes/no come sorted
    numbers = [attribute.values.get(str(value)) for value in found.values]
    if None in numbers:
        raise NotApplicable(
            f"column '{found.column}' holds text, and the schema does not say in which order it comes. Give each of its values "
            "a number there (values = {...}), or choose distance='unordered'."
        )
    return np.unique(np.array(numbers, np.float64), return_inverse=True)[1].astype(np.int32)


def _in_order(
    cells: Cells, places: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the cells of each class in order of place."""
    here = places[cells.values]
    if (np.diff(places) > 0).all():
        return cells.starts, here, cells.counts
    order = np.lexsort((here, cells.rows))
    return cells.starts, here[order], cells.counts[order]


def _nodes(found: Distributions, data: Microdata) -> NDArray[np.int32]:
    """Return the node of each value on each level of the column's hierarchy below the root, shape (height, m)."""
    hierarchy = data.schema[found.column].hierarchy
    if hierarchy is None:
        raise NotApplicable(
            f"column '{found.column}' has no hierarchy in the schema, so values have no distance in it. "
            "Give it one, or choose distance='unordered'."
        )
    levels = [hierarchy.generalise(list(found.values), level) for level in range(hierarchy.height)]
    return np.stack([np.unique(labels.astype(str), return_inverse=True)[1] for labels in levels]).astype(np.int32)
