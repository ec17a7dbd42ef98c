"""Simple random sampling, and what every way of sampling records or households has in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, MatrixForm, param
from sfumato.errors import DataError, ParameterError
from sfumato.households import Unit, unit_ids
from sfumato.masks.records import Flags, Keys, Numbers, RecordChoice, Rule, at_key, checked_weights, combined
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Level, Schema

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Frame:
    """The units that can be drawn: their ids (shape m), a row of each, the unit of each record (shape n), their name."""

    batch: Batch
    units: NDArray[np.int64]
    first: NDArray[np.int64]
    member: NDArray[np.int64]
    noun: str

    @classmethod
    def of(cls, batch: Batch, unit: Unit) -> Frame:
        """List the units of some records."""
        if unit == "record" or batch.schema.one("household") is None:
            everyone = np.arange(len(batch))
            return cls(batch, batch.ids, everyone, everyone, "records")
        units, first, member = np.unique(unit_ids(batch, unit), return_index=True, return_inverse=True)
        return cls(batch, units, first, member, "households")

    def totals(self, name: str) -> Numbers:
        """Return a column's number for each unit, shape (m,): the household's own, or the total of its members."""
        numbers = self.batch.numbers(name)
        if self.noun == "records":
            return numbers
        if self.batch.schema[name].level is Level.HOUSEHOLD:
            self.batch.members((name,))  # refuses households whose members disagree
            return numbers[self.first]
        return np.bincount(self.member, numbers, len(self.units)).astype(np.float64)


class Sampling(RecordChoice, abstract=True):
    """A probability sample without replacement, of a size fixed in advance; survey weights are divided by π.

    Which units are drawn hangs on the seed and on their ids, not on the engine or the order of the records.
    """

    draws_at_all: ClassVar[bool] = True

    fraction: float | None = param(
        default=None,
        doc="share of the records or households to draw; a tenth if no size is given",
        low=0,
        above=True,
        high=1,
    )
    size: int | None = param(
        default=None, doc="how many records or households to draw, instead of a share", low=1, high=1e12, integer=True
    )

    def validate(self) -> None:
        """Refuse a fraction and a size together."""
        super().validate()
        if self.fraction is not None and self.size is not None:
            raise ParameterError(f"give {self.name} a fraction or a size, not both.")

    @abstractmethod
    def inclusion(self, frame: Frame) -> Numbers:
        """Return π of each unit, shape (m,): with what probability the design draws it."""

    @abstractmethod
    def drawn(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
        """Return what says of any record whether it is drawn, and its π."""

    def total(self, frame: Frame) -> int:
        """Return how many units to draw."""
        count = len(frame.units)
        if not count:
            raise DataError("the data have no records, so there is nothing to draw from.")
        if self.size is not None and self.size > count:
            raise DataError(f"size = {self.size:,} is more than the {count:,} {frame.noun} there are. Lower it.")
        fraction = 0.1 if self.fraction is None else self.fraction
        size = self.size or int(np.floor(fraction * count + 0.5))
        if not size:
            raise DataError(f"a share of {fraction:g} of {count:,} {frame.noun} is none at all. Raise the fraction.")
        return size

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Draw the sample."""
        batch = data.batch(self.touches(data.schema))
        checked_weights(batch)
        frame = Frame.of(batch, self.unit)
        return self.learn(rule=Rule(self.drawn(frame, self.inclusion(frame), draws), data, self.stamp(draws)))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A with a single 1 in each row (matrix-masking paper, section IV: sampling); weights are not in X."""
        return self.chosen_form(data, draws, random=("A",), depends=())

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify the number of units drawn, that they are whole, and the new weights."""
        names = self.touches(before.schema)
        frame, released = Frame.of(before.batch(names), self.unit), Frame.of(after.batch(names), self.unit)
        pi, n = self.inclusion(frame), len(released.units)
        order = np.argsort(frame.batch.ids)
        rows = order[np.searchsorted(frame.batch.ids[order], released.batch.ids)]
        drawn = np.zeros(len(pi), bool)
        drawn[frame.member[rows]] = True
        if n != round(float(pi.sum())) or int(drawn[frame.member].sum()) != len(after):
            raise DataError(f"the sample is not the planned one, or {frame.noun} were torn apart; nothing is released.")
        self.check(frame, pi, drawn)
        says = (
            f"{n:,} of {len(pi):,} {frame.noun} are released, a fraction of {n / len(pi):.4g}{self.design(frame, pi)}"
        )
        said = [Guarantee(step, says, f"released {frame.noun} counted; each is whole")]
        if (old := checked_weights(frame.batch)) is None:
            says = "no survey weight is released: the data had none, and none was invented"
            return (*said, Guarantee(step, says, "the schema names no weight"))
        new = checked_weights(released.batch)
        if not np.allclose(new, old[rows] / pi[frame.member[rows]], rtol=1e-12):  # type: ignore[arg-type]
            raise DataError("the survey weights were not divided by the inclusion probabilities; nothing is released.")
        says = "survey weights are divided by the inclusion probability, so weighted totals are unbiased"
        return (*said, Guarantee(step, says, "every released weight compared with the original's"))

    def check(self, frame: Frame, pi: Numbers, drawn: Flags) -> None:
        """Refuse a sample that misses what else the design promises."""

    def design(self, frame: Frame, pi: Numbers) -> str:
        """Return what else to say about the design."""
        return ""


class StratifiedDraw(Sampling, abstract=True):
    """In each stratum the units with the smallest random numbers: a smaller sample is part of a larger one."""

    @abstractmethod
    def by(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the strata."""

    @abstractmethod
    def sizes(self, frame: Frame, stratum: Counts, units: Counts) -> Counts:
        """Return how many to draw in each stratum, shape (H,), given each unit's stratum and the units of each."""

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata, and the household number."""
        return (*self.by(schema), *super().needs(schema))

    def inclusion(self, frame: Frame) -> Numbers:
        """Return n of N in the unit's stratum."""
        _, stratum, units = self.grouped(frame)
        return (self.sizes(frame, stratum, units) / np.maximum(units, 1))[stratum]

    def drawn(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
        """Return for each stratum the largest random number that is drawn, and π."""
        keys, stratum, units = self.grouped(frame)
        u = draws.uniforms(frame.units, "sample")
        ordered = u[np.lexsort([u, stratum])]
        starts = np.concatenate([[0], np.cumsum(units)[:-1]]).astype(np.int64)
        rate = np.empty(len(units))
        rate[stratum] = pi
        last = starts + np.round(rate * units).astype(np.int64) - 1
        return keys, ordered[last], rate

    def choice(self, batch: Batch, draws: Draws) -> tuple[Flags, Numbers]:
        """Keep the records whose unit's random number is small enough."""
        keys, limit, rate = self.rule.facts
        at = at_key(keys, combined(batch, self.by(batch.schema)))
        if (at < 0).any():
            raise DataError("some records lie in a stratum that was not there when the sample was drawn. Fit it anew.")
        u = draws.uniforms(unit_ids(batch, self.unit), "sample")
        return u <= limit[at], 1 / rate[at]

    def grouped(self, frame: Frame) -> tuple[Keys, Counts, Counts]:
        """Return the strata's keys, each unit's stratum, and the number of units of each stratum."""
        keys = combined(frame.batch, self.by(frame.batch.schema))
        if wrong := len(np.unique(frame.member[keys != keys[frame.first][frame.member]])):
            raise DataError(
                f"the members of {wrong:,} households lie in different strata, so households cannot be drawn within strata. "
                "Use strata that describe the household, or unit = 'record'."
            )
        found, stratum, units = np.unique(keys[frame.first], return_inverse=True, return_counts=True)
        return found, stratum, units


class Sample(StratifiedDraw):
    """A simple random sample without replacement (matrix-masking paper, section IV: sampling).

    Every record, or household, is equally likely to be released; survey weights are divided by n/N.
    """

    preserves_order: ClassVar[bool] = True

    def by(self, schema: Schema) -> tuple[str, ...]:
        """Return nothing: all records are one stratum."""
        return ()

    def sizes(self, frame: Frame, stratum: Counts, units: Counts) -> Counts:
        """Return the size of the sample."""
        return np.array([self.total(frame)])
