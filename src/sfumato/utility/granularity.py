"""Granularity: how fine the released values still are (the loss metric of Iyengar 2002)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sfumato.contract import DirectMeasure, Release, Score, Side, Snooper
from sfumato.contract.score import digits
from sfumato.errors import NotApplicable, listing
from sfumato.microdata import Microdata
from sfumato.schema import Schema
from sfumato.utility.compared import over_columns, weighted_flag
from sfumato.utility.leaves import each_implicate, key_columns, known_mass, leaves_of_root, leaves_of_values


class Granularity(DirectMeasure):
    """How fine recoded values still are: 1 minus the mean over columns and records of (leaves(value) - 1)/(leaves(root) - 1).

    leaves(value) counts the values at the bottom of the column's hierarchy that a released value stands for. A value itself
    loses nothing; the root, a suppressed value, a record or a column that is not released loses 1; a value that was missing
    before is left out. Columns count alike. It looks at how much a value says, not at whether it is true.
    """

    side: ClassVar[Side] = Side.UTILITY

    over: tuple[str, ...] | None = over_columns()
    weighted: bool = weighted_flag()

    def label(self) -> str:
        """Return a few words for a legend."""
        return "granularity" + (f" of {listing(self.over, 3)}" if self.over else "")

    @property
    def variant(self) -> str:
        """How columns and records are averaged."""
        return "plain mean over columns" + (", weighted" if self.weighted else "")

    def words(self, value: float, schema: Schema) -> str:
        """Return what is lost, in percent."""
        return f"{digits(100 * (1 - value))} % of the detail is lost that the hierarchies hold"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the recoded columns, and the weights where they are used."""
        weight = schema.one("weight")
        return (*(self.over or schema.names(role="key")), *((weight,) if self.weighted and weight else ()))

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Average what each released value covers."""
        losses, before = {}, []
        for name in key_columns(outcome.original, self.over):
            if not known_mass(outcome.original, name, self.weighted).sum():
                continue  # nothing was known, so nothing can be lost
            each = [_lost(one, one.masked, name, self.weighted) for one in each_implicate(outcome)]
            losses[name] = float(np.mean(each))
            before.append(_lost(outcome, outcome.original, name, self.weighted))
        if not losses:
            raise NotApplicable("no value of these columns is known in the original, so there is nothing to lose.")
        value = 1.0 - float(np.mean([*losses.values()]))
        details = {"loss": 1.0 - value, "granularity of the original": 1.0 - float(np.mean(before))}
        words = self.words(value, outcome.original.schema)
        return self.result(value, words, details={**details, **{f"loss of {n}": v for n, v in losses.items()}})


def _lost(outcome: Release, data: Microdata, name: str, weighted: bool) -> float:
    """Return the mean loss of one column, by LM = (leaves - 1)/(leaves of the root - 1) for each value."""
    before = float(known_mass(outcome.original, name, weighted).sum())
    if name not in data.engine.kinds:
        return 1.0
    mass, root = known_mass(data, name, weighted), leaves_of_root(outcome, name)
    known = float(mass.sum())
    share = (leaves_of_values(outcome, data, name) - 1) / max(root - 1, 1.0)
    # what was known before and is not now was suppressed, alone or with its record
    return (float(mass @ share) + max(before - known, 0.0)) / max(before, known)
