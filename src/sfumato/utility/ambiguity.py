"""Ambiguity: how many different original records a released one could be (Goldberger and Tassa 2010)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, listing
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.compared import over_columns, weighted_flag, weights_of
from sfumato.utility.leaves import each_implicate, key_columns, known_codes, leaves_of_root, leaves_of_values


class Ambiguity(DirectMeasure):
    """How few records a released one could stand for: AM is the mean over records of the product of leaves(value) over columns.

    leaves(value) counts the values at the bottom of the column's hierarchy that a released value stands for; a missing value,
    a record or a column that is not released could be any. AM grows by factors, so U is on a log scale: 1 for the original's
    own AM, 0 where every record could be any: U = 1 - log(AM/AM of the original) / log(all combinations/AM of the original).
    It ranks files as AM does. It looks at how much a record says, not at whether it is true.
    """

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "unambiguity" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """The scale, and whether weights are used."""
        return "log scale" + (", weighted" if self.weighted else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return the loss on the log scale."""
        return f"{digits(100 * (1 - value))} % of the way, in factors, to records that could be any"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the recoded columns, and the weights where they are used."""
        weight = schema.one("weight")
        return (*(self.over or schema.names(role="key")), *((weight,) if self.weighted and weight else ()))

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Average the products of what the values cover."""
        names = key_columns(outcome.original, self.over)
        if not len(outcome.original):
            raise NotApplicable("the original has no records, so there is nothing to lose.")
        most = sum(np.log(leaves_of_root(outcome, name)) for name in names)
        before = _log_ambiguity(outcome, outcome.original, names, self.weighted)
        each = [_log_ambiguity(one, one.masked, names, self.weighted) for one in each_implicate(outcome)]
        now, room = float(np.mean(each)), most - before
        loss = min(max((now - before) / room, 0.0), 1.0) if room > 0 else 0.0
        with np.errstate(over="ignore"):
            am, am_before, combinations = (float(np.exp(v)) for v in (now, before, most))
        return self.result(
            1.0 - loss,
            f"a released record could stand for {digits(am)} different records on average, an original one for "
            f"{digits(am_before)}, of {digits(combinations)} combinations",
            details={
                "ambiguity": am,
                "ambiguity of the original": am_before,
                "combinations": combinations,
                "share of all combinations": float(np.exp(now - most)),
            },
        )


def _log_ambiguity(outcome: Release, data: Microdata, names: tuple[str, ...], weighted: bool) -> float:
    """Return log AM; products are added up as logarithms, since they can be larger than any float."""
    products, most = np.zeros(len(data)), 0.0
    for name in names:
        root = float(np.log(leaves_of_root(outcome, name)))
        most += root
        if name in data.engine.kinds:
            sizes = np.log(leaves_of_values(outcome, data, name))
            products += np.append(sizes, root)[known_codes(data, name)]
        else:
            products += root
    weights, others = weights_of(data, weighted), weights_of(outcome.original, weighted)
    here = np.ones(len(data)) if weights is None else weights
    total = float(len(outcome.original) if others is None else others.sum())
    lost = max(total - float(here.sum()), 0.0)
    top = max(float(products.max(initial=0.0)), most if lost else 0.0)
    added = float(here @ np.exp(products - top)) + lost * float(np.exp(most - top))
    return top + float(np.log(added / max(total, float(here.sum()))))
