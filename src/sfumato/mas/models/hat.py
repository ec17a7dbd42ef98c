"""Leverages that no confidential value decides: of the columns that others may know, over everybody who could be a record.

A refusal must not tell whether a person with a leverage near the limit has a confidential value far out, or is in a universe
that asks for one. What a confidential value could add is judged by noisy cross-products (`Phantoms.potential`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.mas.around import around
from sfumato.mas.models.algebra import turn_of
from sfumato.mas.models.complete import Complete
from sfumato.mas.models.layout import Layout, Piece
from sfumato.mas.models.numbers import Numbers
from sfumato.mas.models.second_pass import largest_leverage, leverage_counts
from sfumato.mas.selection import Selection


class _Hat:
    """Counts leverages of some columns: of records as they are, of others as they would be if they were records, too."""

    def __init__(self, layout: Layout, places: list[int], products: Numbers, universe: Selection) -> None:
        self.layout, self.whole, self.universe = layout.only(places), layout, universe
        self.turn = turn_of(products)

    def __call__(self, piece: Piece) -> Numbers:
        layout, design = self.layout, self.layout.design
        used = sorted({i for column in design.columns for i in column.numbers})
        groups = sorted({c for column in design.columns for c, _ in column.cells})
        n = len(next(iter(piece.values())))
        numbers = np.zeros((len(design.numbers), n))
        for i in used:
            numbers[i] = (design.numbers[i].values(piece) - layout.centre[i] - layout.rest[i]) / layout.scale[i]
        codes = [np.asarray(piece[category.column]) for category in design.categories]
        there = np.isfinite(numbers).all(axis=0)
        for c in groups:
            there &= codes[c] != design.categories[c].missing
        square = np.square(self.turn @ design.matrix(numbers, codes, n)).sum(axis=0)
        if layout.weighted:
            square *= np.asarray(piece["w"], np.float64)
        chosen = self.universe.chosen[tuple(np.asarray(piece[v.codes], np.int64) for v in self.universe.variables)]
        record = self.whole.complete(piece) & chosen
        return leverage_counts(np.where(record, square, square / (1 + square))[there])


def leverage_of(complete: Complete, layout: Layout, products: Numbers, exact: Callable[[], float]) -> float:
    """Return the largest leverage, as the rule may see it; `products` are X'X before columns are turned.

    Where all is known, it is `exact`, as it is where the policy sets no limit to what a confidential value could add.
    """
    question, design = complete.question, layout.design
    known = question.dataset.variables
    hidden = {v.numbers for v in known.values() if not v.known and v.numeric}
    places = [
        i for i, column in enumerate(design.columns)
        if not any(design.numbers[j].column in hidden for j in column.numbers)
        and all(known[design.categories[c].name].known for c, _ in column.cells)
    ]  # fmt: skip
    limited = getattr(question.policy.rule("leverage"), "potential", None) is not None
    if not limited or not question.policy.models.sd or (complete.known and len(places) == len(design.columns)):
        return exact()
    if not places:
        return 0.0
    plain = question.selection.plain
    hat = _Hat(layout, places, products[np.ix_(places, places)], plain)
    columns = list(dict.fromkeys([*layout.columns, *(v.codes for v in plain.variables)]))
    where = f"({around(question)}) AND ({question.kept})"
    return largest_leverage(question.dataset.warehouse.reduce(hat, columns, where))
