"""Random rounding: every cell goes up or down to a multiple of the base, without bias."""

from __future__ import annotations

import numpy as np

from sfumato.contract import Draws, Guarantee, param
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable
from sfumato.tables.rounding.cell_ids import cell_ids, leaf_numbers
from sfumato.tables.rounding.multiples import check_base, reach, rounded, split
from sfumato.tables.table import Table


class RandomRounding(Protection):
    """Every value is rounded to one of the two multiples of the base beside it, at random, so that its expectation is right.

    A value with the rest r above a multiple goes up with probability r / base; multiples stay. The draw hangs on the labels
    of the cell, the variable and the period: the same cell is rounded in the same way in every table and every run with one
    seed, and nothing is gained by asking again. Cells that are rounded one by one (`by="cell"`) do not add up; with
    `by="leaf"` the leaves are rounded and summed, which adds up, but moves totals further.

    Fellegi, Controlled random rounding, Survey Methodology 1 (1975), for the unbiased scheme.
    """

    base: float = param(default=5, doc="values become multiples of this", low=0, above=True, scale="log", usual=(3, 10))
    by: str = param(
        default="cell", choices=("cell", "leaf"),
        doc="what is rounded: every 'cell' by itself, which does not add up, or every 'leaf', of which the cells are sums",
    )  # fmt: skip
    period: str = param(default="", doc="what sets this table apart from others of the same variable, such as its year")

    def label(self) -> str:
        """Return the method in a few words."""
        return f"random rounding to {self.base:g}" + (", leaves" if self.by == "leaf" else "")

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with every cell rounded."""
        check_base(self.base, table, self.name)
        draws = draws.child(self.name, table.variable, str(self.period))
        near = f"less than {self.base:g} from its value"
        said = Guarantee(self.name, f"every cell is a multiple of {self.base:g}", "by construction")
        if self.by == "cell":
            times, rest = split(table.value, self.base)
            times = times + (draws.uniforms(cell_ids(table.cells), "cell") < rest / self.base)
            apart = Guarantee(
                self.name, f"every cell is {near}; cells are rounded one by one and do not add up", "by construction"
            )
            return rounded(table, times, self.base, reach(self.base, table.integer), self, said, apart)
        times, rest = split(table.totals, self.base)
        times = times + (draws.uniforms(leaf_numbers(table.cells), "leaf") < rest / self.base)
        adds = Guarantee(self.name, f"cells add up; every leaf is {near}", "cells are sums of rounded leaves")
        whole = table.integer and bool((table.totals == np.rint(table.totals)).all())
        far = reach(self.base, whole) * table.cells.sizes.astype(np.float64)
        return rounded(table, table.cells.sums(times), self.base, far, self, said, adds)
