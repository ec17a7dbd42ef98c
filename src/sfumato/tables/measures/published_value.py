"""How much of a table is published at all."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import Score, Side, param
from sfumato.errors import out_of
from sfumato.tables.measure import TableMeasure
from sfumato.tables.published import PublishedTable


class PublishedValue(TableMeasure):
    """Share of the table that is published: of the cells, or of the value in them.

    The usual utility of suppression. A value that was adjusted or rounded counts as published.
    """

    side: ClassVar[Side] = Side.UTILITY

    of: str = param(
        default="value", doc="share of what: the value in all cells, or the number of cells", choices=("value", "cells")
    )

    def assess(self, outcome: PublishedTable) -> Score:
        """Return the share."""
        shown = ~np.isnan(outcome.values)
        weight = np.ones(len(outcome))
        if self.of == "value":
            weight = np.abs(outcome.source(self.label()).value)
        total = weight.sum()
        share = float(weight[shown].sum() / total) if total > 0 else float(shown.all())
        words = f"{out_of(int(shown.sum()), len(outcome), ('is', 'are'), 'cell')} published"
        more = f", with {100 * share:.3g} % of the value in all cells" if self.of == "value" else ""
        return self.result(share, words + more)

    def words(self, value: float) -> str:
        """Return the share in words."""
        what = "the value in all cells" if self.of == "value" else "the cells"
        return f"{100 * value:.3g} % of {what} is published"

    def label(self) -> str:
        """Return "published value" or "published cells"."""
        return f"published {self.of}"
