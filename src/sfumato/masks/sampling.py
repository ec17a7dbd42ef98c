"""Sampling of records or households: simple, stratified, and with unequal probabilities."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, MatrixForm, param
from sfumato.data import Batch, Microdata
from sfumato.data.households import Unit, unit_ids
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.masks.record_choice import Keys, RecordChoice, Rule, at_key, checked_weights, combined
from sfumato.schema import Level, Schema
from sfumato.typing import Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Frame:
    """The units that can be drawn: their ids (shape m), a row of each, the unit of each record (shape n), their name."""

    batch: Batch
    units: Whole
    first: Whole
    member: Whole
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

    Which units are drawn depends on the seed and on their ids, not on the engine or the order of the records.
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

    @override
    def validate(self) -> None:
        if self.fraction is not None and self.size is not None:
            raise ParameterError(f"give {self.name} a fraction or a size, not both.")

    @abstractmethod
    def inclusion(self, frame: Frame) -> Numbers:
        """Return π, the inclusion probability of each unit, shape (m,)."""

    @abstractmethod
    def draw(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
        """Return the rule that decides for any record whether it is drawn, and its π."""

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
        return self.learn(rule=Rule(self.draw(frame, self.inclusion(frame), draws), data, self.stamp(draws)))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
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
        """Refuse a sample that breaks another promise of the design."""

    def design(self, frame: Frame, pi: Numbers) -> str:
        """Return further text about the design."""
        return ""


class StratifiedDraw(Sampling, abstract=True):
    """In each stratum the units with the smallest random numbers: a smaller sample is part of a larger one."""

    @abstractmethod
    def by(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the strata."""

    @abstractmethod
    def sizes(self, frame: Frame, stratum: Whole, units: Whole) -> Whole:
        """Return how many to draw in each stratum, shape (H,), given each unit's stratum and the units of each."""

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata, and the household number."""
        return (*self.by(schema), *super().needs(schema))

    def inclusion(self, frame: Frame) -> Numbers:
        """Return n of N in the unit's stratum."""
        _, stratum, units = self.grouped(frame)
        return (self.sizes(frame, stratum, units) / np.maximum(units, 1))[stratum]

    def draw(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
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

    def grouped(self, frame: Frame) -> tuple[Keys, Whole, Whole]:
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

    def sizes(self, frame: Frame, stratum: Whole, units: Whole) -> Whole:
        """Return the size of the sample."""
        return np.array([self.total(frame)])


class StratifiedSample(StratifiedDraw):
    """A simple random sample in each stratum, with sizes allocated to the strata (Cochran 1977, chapter 5).

    Allocation is proportional to the units of a stratum, equal, or by Neyman's rule: proportional to N·S, with S the
    standard deviation of a column there. Sizes are rounded by the Sainte-Laguë rule, so that they add up exactly and none
    shrinks when the sample grows.
    """

    _: KW_ONLY
    within: tuple[str, ...] | None = param(
        default=None,
        doc="columns of the strata; those with the role stratum if none",
        columns="many",
        holds="categories",
    )
    allocation: Literal["proportional", "equal"] = param(
        default="proportional", doc="how the sample is divided among strata"
    )
    neyman: str | None = param(
        default=None, doc="column whose mean is to be as precise as can be: Neyman allocation", columns="one"
    )
    least: int = param(default=1, doc="smallest number drawn in a stratum", low=1, high=1e9, integer=True)

    @override
    def validate(self) -> None:
        super().validate()
        if self.neyman is not None and self.allocation != "proportional":
            raise ParameterError("allocation is equal, or by Neyman's rule (neyman = a column), not both.")

    def by(self, schema: Schema) -> tuple[str, ...]:
        """Return the named strata, or the schema's."""
        names = self.within or schema.names(role="stratum")
        if not names:
            raise DataError("no column has the role 'stratum'. Name the columns of the strata (within = [...]).")
        return names

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata, the column of Neyman's rule, and the household number."""
        return (*super().needs(schema), *filter(None, [self.neyman]))

    def sizes(self, frame: Frame, stratum: Whole, units: Whole) -> Whole:
        """Allocate the sample to the strata."""
        total, least = self.total(frame), self.least
        if small := int((units < least).sum()):
            raise DataError(
                f"{small:,} of {len(units):,} strata have fewer than least = {least} {frame.noun}. Merge strata, or lower least."
            )
        if total < least * len(units):
            raise DataError(
                f"a sample of {total:,} {frame.noun} cannot have at least {least} in each of {len(units):,} strata. "
                "Draw more, or use coarser strata."
            )
        if self.neyman is not None:
            measure = units * self._spread(frame, stratum, len(units))
        else:
            measure = np.ones(len(units)) if self.allocation == "equal" else units.astype(np.float64)
        return allocate(total, measure, least, units)

    def _spread(self, frame: Frame, stratum: Whole, count: int) -> Numbers:
        """Return the standard deviation of the column among the units of each stratum, 0 where there is none."""
        name = str(self.neyman)
        values = frame.totals(name)
        known = np.isfinite(values)
        at, x = stratum[known], values[known]
        n = np.bincount(at, minlength=count)
        mean = np.bincount(at, x, count) / np.maximum(n, 1)
        spread: Numbers = np.sqrt(np.bincount(at, (x - mean[at]) ** 2, count) / np.maximum(n - 1, 1))
        if not spread.any():
            raise DataError(
                f"column '{name}' does not vary in any stratum, so Neyman's rule allocates nothing. Leave it out."
            )
        return spread

    def check(self, frame: Frame, pi: Numbers, drawn: Flags) -> None:
        """Verify the number drawn in each stratum."""
        _, stratum, units = self.grouped(frame)
        planned = np.bincount(stratum, pi, len(units))
        if not np.allclose(np.bincount(stratum[drawn], minlength=len(units)), planned, atol=1e-6):
            raise DataError("a stratum has another number of units than was allocated to it; nothing is released.")

    def design(self, frame: Frame, pi: Numbers) -> str:
        """Say how many strata there are."""
        _, stratum, units = self.grouped(frame)
        smallest = round(float(np.bincount(stratum, pi, len(units)).min()))
        names = join_names(self.by(frame.batch.schema))
        return f"; at least {smallest:,} in each of the {len(units):,} strata of {names}"


def allocate(total: int, measure: Numbers, least: int, most: Whole) -> Whole:
    """Return whole numbers between `least` and `most` that add up to `total`, in proportion to `measure` (Sainte-Laguë).

    Each unit is given where measure / (given + 1/2) is largest, so no number shrinks when the total grows.
    """

    def given(scale: float) -> Whole:
        return np.clip(np.floor(np.minimum(scale * measure, 2.0**62) + 0.5), least, most).astype(np.int64)

    low, high = 0.0, (float(most.max(initial=0)) + 1) / max(float(measure[measure > 0].min(initial=np.inf)), 1e-300)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if given(middle).sum() <= total else (low, middle)
    counts = given(low)
    next_ones = [(-measure[h] / (counts[h] + 0.5), h) for h in np.flatnonzero(counts < most).tolist()]
    heapq.heapify(next_ones)
    for _ in range(total - int(counts.sum())):
        _, h = heapq.heappop(next_ones)
        counts[h] += 1
        if counts[h] < most[h]:
            heapq.heappush(next_ones, (-measure[h] / (counts[h] + 0.5), h))
    return counts


class WeightedSample(Sampling):
    """A sample with probabilities proportional to size, drawn systematically in random order (Hartley and Rao 1962).

    The inclusion probability of a unit is exactly n times its share of the total size. Units whose share is 1/n or more are
    drawn with certainty, and the rest of the sample is drawn from the others. The size is a column, or the survey weight;
    that of a household is the sum over its members, unless the column describes the household.
    """

    by: str | None = param(
        default=None,
        doc="column of numbers that probabilities are proportional to; the survey weight if none",
        columns="one",
    )

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the size and the household number."""
        return (self._measure(schema), *super().needs(schema))

    def _measure(self, schema: Schema) -> str:
        name = self.by or schema.one("weight")
        if name is None:
            raise DataError("weighted_sample needs a size: name a column (by = ...), or give one the role 'weight'.")
        return name

    def inclusion(self, frame: Frame) -> Numbers:
        """Return min(1, c·size), with c such that the probabilities add up to the size of the sample."""
        name = self._measure(frame.batch.schema)
        size, total = frame.totals(name), self.total(frame)
        if not (np.isfinite(size) & (size >= 0)).all():
            raise DataError(
                f"some values of '{name}' are missing, negative or infinite, so they cannot be sizes. Correct "
                "them, or choose another column (by)."
            )
        positive = int((size > 0).sum())
        if self.by is not None and positive < len(size):
            raise DataError(
                f"{len(size) - positive:,} {frame.noun} have size 0 in '{name}': they would never be drawn, and no weight "
                "could stand for them. Give them a positive size."
            )
        if total > positive:
            raise DataError(f"only {positive:,} {frame.noun} have a positive size: a sample of {total:,} is too large.")
        return proportional(size, total)

    def draw(self, frame: Frame, pi: Numbers, draws: Draws) -> Any:
        """Lay the probabilities end to end in random order, and draw where whole numbers plus a random start fall."""
        order = np.argsort(draws.uniforms(frame.units, "sample"), kind="stable")
        ends = np.cumsum(pi[order])
        ends[-1] = round(float(ends[-1]))
        start = float(draws.uniforms(np.zeros(1, np.int64), "start")[0])
        hits = np.diff(np.ceil(ends - start), prepend=0.0) > 0
        chosen = np.sort(order[hits])
        by_id = chosen[np.argsort(frame.units[chosen])]
        return frame.units[by_id], pi[by_id]

    def choice(self, batch: Batch, draws: Draws) -> tuple[Flags, Numbers]:
        """Keep the records whose unit was drawn."""
        units, pi = self.rule.facts
        at = at_key(units, unit_ids(batch, self.unit))
        return at >= 0, 1 / pi[at] if len(pi) else np.ones(len(batch))

    def design(self, frame: Frame, pi: Numbers) -> str:
        """State the probabilities."""
        certain = int((pi == 1).sum())
        also = f"; {certain:,} of them with certainty" if certain else ""
        return f", with probabilities proportional to {self._measure(frame.batch.schema)}{also}"


def proportional(size: Numbers, total: int) -> Numbers:
    """Return inclusion probabilities proportional to size, at most 1, that add up to `total`."""
    pi = np.zeros(len(size))
    certain = np.zeros(len(size), bool)
    while True:
        left = total - int(certain.sum())
        rest = ~certain & (size > 0)
        pi[certain] = 1.0
        pi[rest] = left * (size[rest] / size[rest].sum()) if rest.any() else 0.0
        more = rest & (pi >= 1 - 1e-12)
        if not more.any():
            return pi
        certain |= more
