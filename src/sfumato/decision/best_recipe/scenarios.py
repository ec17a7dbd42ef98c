"""Several snoopers at once: the same risk measure, against each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Design, Measure, NoiseModel, Release, Score, Side, Snooper, param
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


class Against(Measure, abstract=True):
    """A risk measure against one of several snoopers, by name."""

    measure: Measure = param(doc="the risk measure")
    snooper: Snooper = param(doc="what this snooper knows")
    scenario: str = param(doc="what this snooper is called")

    @property
    def side(self) -> Side:  # type: ignore[override]
        """That of the measure."""
        return self.measure.side

    @property
    def design(self) -> Design:
        """That of the measure."""
        return self.measure.design

    @property
    def size(self) -> int:
        """That of the measure."""
        return self.measure.size

    @property
    def replications(self) -> int:
        """That of the measure."""
        return self.measure.replications

    @property
    def variant(self) -> str:
        """That of the measure."""
        return self.measure.variant

    def label(self) -> str:
        """Return the measure's label, and the snooper's name."""
        return f"{self.measure.label()}, {self.scenario}"

    def words(self, value: float, schema: Schema) -> str:
        """Return the measure's words."""
        return self.measure.words(value, schema)

    def columns(self, schema: Schema) -> tuple[str, ...] | None:
        """Return the columns of the measure, and those that this snooper knows."""
        own = self.measure.columns(schema)
        known = (*self.snooper.covariates, *self.snooper.keys)
        return None if own is None else tuple(dict.fromkeys((*own, *known)))

    def check(self, outcome: Release, snooper: Snooper | None = None) -> None:
        """Check the measure against this snooper."""
        self.measure.check(outcome, self.snooper)

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Prepare the measure."""
        return self.with_(measure=self.measure.prepare(data, model))

    def observe(self, outcome: Release, snooper: Snooper) -> Numbers:
        """Observe what this snooper learns."""
        return self.measure.observe(outcome, self.snooper)

    def value(self, means: Numbers) -> Numbers:
        """Return the measure's value."""
        return self.measure.value(means)

    def analytic(self, model: NoiseModel, snooper: Snooper) -> float | None:
        """Return the measure's formula against this snooper."""
        return self.measure.analytic(model, self.snooper)

    def score(self, outcome: Release, snooper: Snooper | None = None) -> Score:
        """Measure one release against this snooper."""
        return self.measure.score(outcome, self.snooper)

    def of_records(self, values: Numbers) -> float | None:
        """Return what the measure makes of the values of some records."""
        return self.measure.of_records(values)


def scenarios_of(snooper: Any) -> dict[str, Snooper]:
    """Return snoopers by name, from one, several by name, or none (the paper's own, with index knowledge)."""
    if snooper is None or isinstance(snooper, Snooper):
        return {"": snooper or Snooper()}
    if not isinstance(snooper, Mapping) or not snooper or not all(isinstance(s, Snooper) for s in snooper.values()):
        raise ParameterError(
            "snooper must be a Snooper, or several by name: {'neighbour': Snooper(...), 'journalist': Snooper(...)}."
        )
    return {str(name): s for name, s in snooper.items()}


def against(measures: list[Measure], scenarios: Mapping[str, Snooper]) -> list[Measure]:
    """Return the measures with each risk set against every snooper, where there are several."""
    if len(scenarios) == 1:
        return measures
    out: list[Measure] = []
    for measure in measures:
        if measure.side is Side.UTILITY:
            out.append(measure)
        else:
            out += [Against(measure, snooper, name) for name, snooper in scenarios.items()]
    return out
