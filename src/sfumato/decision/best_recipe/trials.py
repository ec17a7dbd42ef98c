"""Looking at points of a search: mask, measure, remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Holdout, Measure, Snooper, hold_out
from sfumato.decision.best_recipe.archive import Archive, Seen
from sfumato.decision.best_recipe.limits import release_values
from sfumato.decision.best_recipe.space import Family, Point
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.microdata import Microdata
from sfumato.rumap.evaluate import UNMASKED, Evaluator

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen at one point: observations of each measure, shape (m, k); or why there are none."""

    family: Family
    point: Point
    records: int
    observed: tuple[Numbers, ...] = ()
    refused: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters."""
        return self.family.settings(self.point)

    @property
    def replications(self) -> int:
        """How often the file was masked."""
        return len(self.observed[0]) if self.observed else 0

    def values(self, measure: int, measures: Sequence[Measure]) -> Numbers:
        """Return a measure's value for each release, shape (m,)."""
        return release_values(measures[measure], self.observed[measure])


@dataclass(eq=False)
class Trials:
    """Masks and measures at any point of any family, on the whole file or on a part of it, and remembers what it saw."""

    data: Microdata
    measures: tuple[Measure, ...]
    snooper: Snooper
    draws: Draws
    archive: Archive
    holdout: Holdout | None = None
    workers: int = 1
    told: Callable[[], None] = lambda: None
    """Called after each point that was looked at."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Families to which a measure does not apply, with the reason."""
    _parts: dict[int, Microdata] = field(default_factory=dict)
    _evaluators: dict[tuple[str, int], Evaluator] = field(default_factory=dict)

    def part(self, records: int) -> Microdata:
        """Return a random part of the file with about so many records; whole households, where the schema names them."""
        if records >= len(self.data):
            return self.data
        if records not in self._parts:
            kept, _ = hold_out(self.data.local(), 1 - records / len(self.data), self.draws.child("part", records))
            self._parts[records] = kept
        return self._parts[records]

    def look(self, family: Family, point: Point, records: int, replications: int, stream: str = "search") -> Look:
        """Mask and measure at one point; a point that cannot be masked or measured is told from the others by its reason."""
        settings = family.settings(point)
        key = self.archive.key(family.name, settings, min(records, len(self.data)), replications, stream)
        seen = self.archive.get(key)
        if seen is None:
            seen = self._observe(family, settings, records, replications, stream)
            self.archive.put(key, seen)
        self.told()
        if isinstance(seen, str):
            return Look(family, point, records, refused=seen)
        return Look(family, point, records, seen)

    def _observe(self, family: Family, settings: Any, records: int, replications: int, stream: str) -> Seen:
        try:
            found = self._evaluator(family, records).observe([settings], replications, stream)
        except NotApplicable as reason:
            self.unfit.setdefault(family.name, str(reason))
            return str(reason)
        except SfumatoError as error:
            return str(error)
        return tuple(o[0] for o in found)

    def _evaluator(self, family: Family, records: int) -> Evaluator:
        if (family.name, records) not in self._evaluators:
            made = Evaluator.make(self.part(records), family.recipe, self.measures, self.snooper, self.draws)
            made = replace(made, workers=self.workers, holdout=self.holdout)
            self._evaluators[family.name, records] = made
        return self._evaluators[family.name, records]

    def unmasked(self, family: Family, records: int) -> tuple[Numbers, ...]:
        """Return what is seen of the file as it is; again and again where records are drawn afresh from the population."""
        key = self.archive.key("unmasked", min(records, len(self.data)))
        seen = self.archive.get(key)
        if seen is None:
            drawn = any(m.design == "population" for m in self.measures)
            found = self._evaluator(family, records).observe([UNMASKED], 30 if drawn else 2, "search")
            seen = tuple(o[0] for o in found)
            self.archive.put(key, seen)
        return seen  # type: ignore[return-value]
