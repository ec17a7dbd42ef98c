"""Histograms: how many records lie in each bin of a variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.contract import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses.cross_tab import TOTAL
from sfumato.mas.analysis import Analysis, Findings, levels_of, numbers_in
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.dataset import Weight
from sfumato.mas.distribution import coarser, spread_over, spreads
from sfumato.mas.grouped import Grouped
from sfumato.mas.published import count_notes, plain_numbers, weight_of
from sfumato.mas.question import Question
from sfumato.mas.variable import MISSING, Variable


class Histogram(Analysis):
    """Counts of the bins of a variable of numbers, whose edges were frozen with the data set.

    The edges are the custodian's cutpoints, or round numbers that cut the whole data set into bins of about the same number of
    records. The bins at the ends are open: no smallest and no largest value is shown, and enough records lie beyond each edge.
    """

    of: str = param(doc="the variable of numbers", columns="one", holds="numbers")
    by: tuple[str, ...] = param(
        default=(), doc="a histogram for each cell of these", columns="many", holds="categories"
    )
    bins: int | None = param(
        default=None, low=2, high=64, integer=True, doc="most bins; none for the cutpoints, or 16 where there are none"
    )
    weighted: bool = param(default=False, doc="whether survey weights are added up in place of records")

    def validate(self) -> None:
        """Refuse a side that is named twice."""
        if len(set(self.by)) < len(self.by):
            raise ParameterError("a histogram names a variable twice. Name each side once.")

    def wording(self) -> str:
        """Return the canonical wording."""
        return f"histogram:{self.of}:{self.by}:{self.bins}:{self.weighted}"

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variable of numbers and the sides."""
        return (numbers_in(self.of, known), *levels_of(self.by, known))

    def run(self, question: Question) -> Findings:
        """Count the records of each bin that are kept, scale back, perturb and round."""
        variable, *sides = self.variables(question.dataset.variables)
        weight = weight_of(question, self.weighted)
        if self.bins is None and variable.cutpoints is not None:
            table = spread_over(question, sides, variable, weight)
        else:
            if not variable.grid:
                raise DataError(f"variable '{variable.name}' has too few values for a histogram. Choose another one.")
            table = spread_over(question, sides, coarser(variable, self.bins or 16)[0], weight)
        tables = table.margins(keep=1)
        rows = [row for margin in tables for row in self._rows(margin, variable, weight)]
        sets = [margin.sets() for margin in tables]
        if weight is not None:
            sets += [margin.sets("weighted count") for margin in tables]
        return Findings({"bins": rows}, notes=tuple(_notes(question, variable, weight)), sets=tuple(sets))

    def _rows(self, table: Grouped, variable: Variable, weight: Weight | None) -> Iterator[dict[str, Any]]:
        counts, cut = table.question.policy.counts, table.variables[-1].cutpoints or Cutpoints(())
        for place, spread in spreads(table, weight):
            levels = {v.name: v.levels[i] for v, i in zip(table.variables, place, strict=False)}
            kept = spread.without_thin_ends(counts.beyond)
            shown = counts.shown(kept.counts)
            if weight is not None:
                shown = np.where(np.isnan(shown), np.nan, counts.shown_weighted(kept.weights, weight.mean))
            labels = replace(cut, edges=kept.edges).labels
            ends = zip((None, *kept.edges), (*kept.edges, None), strict=True)
            for label, (low, high), count in zip(labels, ends, plain_numbers(shown), strict=True):
                where = {name: levels.get(name, TOTAL) for name in self.by}
                yield where | {variable.name: label, "over": low, "up to": high, "count": count}


def _notes(question: Question, variable: Variable, weight: Weight | None) -> Iterator[str]:
    yield from count_notes(question, weight)
    beyond = question.policy.counts.beyond
    if beyond:
        yield f"Bins at the ends are merged until about {beyond} records lie beyond each edge."
    if variable.gaps or MISSING in variable.levels:
        yield f"Records without a value of {variable.title} are left out."
