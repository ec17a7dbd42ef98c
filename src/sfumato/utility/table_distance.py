"""Distances between the tables that both files give: all tables of up to k columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper, param
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, listing, some
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.bins import Binning, binning_parameter, bins_parameter
from sfumato.utility.cells import coded, hellinger, mean_difference, shares, total_variation
from sfumato.utility.columnwise import check_files, check_weighted, looked_at
from sfumato.utility.compared import CATEGORY, PLAIN, compared_columns, over_columns, weighted_flag, weights_of

Distance = Literal["total variation", "hellinger", "mean difference"]
MOST = 2_000
"""The most tables that are made."""
SHOWN = 10
"""The worst tables have their loss in the details."""
_DISTANCES = {"total variation": total_variation, "hellinger": hellinger, "mean difference": mean_difference}
_WORDS = {
    "total variation": "total variation",
    "hellinger": "Hellinger distance",
    "mean difference": "mean absolute difference of cell shares",
}


class TableDistance(DirectMeasure):
    """U = 1 - the mean distance between the tables of both files, over all tables of up to `order` of the columns.

    A table has the share of the records in each combination of values; missing is a value. The distance of two tables is half
    the sum of the absolute differences (total variation), the Hellinger distance, or the whole sum divided by how many cells
    the original fills (2 at least): the mean difference of a cell. Numbers and dates are sorted into bins that are fixed from
    the original. Values released as broader categories or intervals are spread evenly over what they cover. In a table with a
    column that was not released no record is in a cell of the original. Only combinations that occur are kept.
    """

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()
    order: int = param(default=2, doc="how many columns a table has at most", low=1, high=20, integer=True)
    distance: Distance = param(default="total variation", doc="how far apart two tables are", choices=tuple(_DISTANCES))
    numbers: Literal["binned", "left out"] = param(
        default="binned", doc="whether columns of numbers take part, if none are named", choices=("binned", "left out")
    )
    bins: int = bins_parameter(5)
    binning: Binning = binning_parameter()

    def validate(self) -> None:
        """Refuse a flag that is neither true nor false."""
        check_weighted(self.name, self.weighted)

    def label(self) -> str:
        """Return a few words for a legend."""
        of = f" of {listing(self.over, 3)}" if self.over else ""
        return f"1 - {_WORDS[self.distance]} of tables of up to {some(self.order, 'column')}{of}"

    @property
    def variant(self) -> str:
        """Whether survey weights are used."""
        return "weighted" if self.weighted else ""

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss."""
        return f"the mean {_WORDS[self.distance]} of the tables is {digits(1 - value)}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the compared columns, and the weights."""
        return looked_at(schema, self.over, self.weighted)

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Compare all tables."""
        kinds = PLAIN if self.over is not None or self.numbers == "binned" else CATEGORY
        names = compared_columns(outcome.original, self.over, kinds)
        check_files(outcome, self.weighted)
        tables = self._tables(names)
        each = [self._losses(outcome.original, released, names, tables) for released in outcome.implicates]
        losses = dict(zip(tables, np.mean(each, axis=0).tolist(), strict=True))
        return self._score(losses)

    def _tables(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the columns of each table; refuse too many tables."""
        order = min(self.order, len(names))
        count = sum(math.comb(len(names), k) for k in range(1, order + 1))
        if count > MOST:
            raise NotApplicable(
                f"{some(len(names), 'column')} make {count:,} tables of up to {order} columns, more than {MOST:,}. Name fewer "
                "columns with `over`, or lower `order`."
            )
        return [table for k in range(1, order + 1) for table in combinations(names, k)]

    def _losses(
        self, original: Microdata, released: Microdata, names: tuple[str, ...], tables: list[tuple[str, ...]]
    ) -> list[float]:
        weights, theirs = weights_of(original, self.weighted), weights_of(released, self.weighted)
        columns = {n: coded(original, released, n, weights, self.bins, self.binning) for n in names}
        find = _DISTANCES[self.distance]
        return [find(shares([columns[n] for n in table], weights, theirs)) for table in tables]

    def _score(self, losses: Mapping[tuple[str, ...], float]) -> Score:
        mean, worst = float(np.mean(list(losses.values()))), max(losses, key=lambda table: losses[table])
        what = _WORDS[self.distance]
        details = {f"mean {what}": mean, f"largest {what}": losses[worst], "tables": float(len(losses))}
        for k in sorted({len(table) for table in losses}):
            here = [loss for table, loss in losses.items() if len(table) == k]
            details[f"mean {what} of tables of {some(k, 'column')}"] = float(np.mean(here))
        for table in sorted(losses, key=lambda t: -losses[t])[:SHOWN]:
            details[f"loss of {' × '.join(table)}"] = losses[table]
        words = f"the mean {what} of {some(len(losses), 'table')} is {digits(mean)}"
        if losses[worst]:
            words += f"; the largest, {digits(losses[worst])}, is that of {' × '.join(worst)}"
        return self.result(1.0 - mean, words, details=details)
