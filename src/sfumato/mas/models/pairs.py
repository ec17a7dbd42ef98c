"""Moments of every two of some numbers over the records that have both."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.mas.models.design import Bounds, Number, bounds_of, literal
from sfumato.mas.models.layout import Complete, Piece
from sfumato.mas.models.noise import INTERCEPT, blurred, drawn_of, key_of, pair_key, unit_of
from sfumato.mas.question import Question
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

Place = tuple[int, int]


class _Sums:
    """For every pair: records, weights, sums and squares of the first where both are there, and products; shape (5, m, m)."""

    def __init__(self, numbers: Sequence[Number], centre: Numbers, scale: Numbers, weighted: bool) -> None:
        self.numbers, self.centre, self.scale, self.weighted = numbers, centre, scale, weighted

    def read(self, piece: Piece) -> tuple[Numbers, Numbers, Numbers]:
        """Return values (0 where missing), whether they are there, and weights."""
        x = np.array([number.values(piece) for number in self.numbers])
        there = np.isfinite(x)
        x = np.where(there, (x - self.centre[:, None]) / self.scale[:, None], 0.0)
        w = np.asarray(piece["w"], np.float64) if self.weighted else np.ones(x.shape[1])
        return x, there.astype(np.float64), w

    def __call__(self, piece: Piece) -> Numbers:
        x, there, w = self.read(piece)
        sums = np.array(
            [there @ there.T, (there * w) @ there.T, (x * w) @ there.T, (x * x * w) @ there.T, (x * w) @ x.T]
        )
        return np.concatenate([[x.shape[1]], sums.ravel()])


class _Influence:
    """Sums of products of what each record adds to the correlations of some pairs; shape (pairs, pairs)."""

    def __init__(self, sums: _Sums, places: Sequence[Place], pairs: PairMoments) -> None:
        self.sums, self.places = sums, places
        self.shape = [pairs.moments_of(at) for at in places]
        self.exact = [float(pairs.noisy[at]) for at in places]

    def __call__(self, piece: Piece) -> Numbers:
        x, there, w = self.sums.read(piece)
        added = np.empty((len(self.places), x.shape[1]))
        for row, (i, j), (a, b, s, t, total), r in zip(added, self.places, self.shape, self.exact, strict=True):
            u, v = (x[i] - a) / s, (x[j] - b) / t
            row[:] = (u * v - r * (u * u + v * v) / 2) * w * there[i] * there[j] / total
        return np.asarray(added @ added.T)


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Sums over pairs, of numbers moved and scaled; confidential."""

    question: Question
    numbers: tuple[Number, ...]
    bounds: tuple[Bounds, ...]
    centre: Numbers
    scale: Numbers
    weighted: bool
    kept: float
    constant: bool
    sums: Numbers
    """Shape (5, m, m)."""

    @property
    def counts(self) -> Numbers:
        """Records with both."""
        return np.asarray(self.sums[0])

    @cached_property
    def _noisy_sums(self) -> Numbers:
        """Sums and squares of the first of each pair, and products, with noise; shape (3, m, m)."""
        return np.asarray(self.sums[2:] + self._noise())

    @cached_property
    def noisy(self) -> Numbers:
        """Correlations from noisy sums; what noise makes impossible is 0."""
        (firsts, squares, products), weight = self._noisy_sums, self.sums[1]
        spread = squares - firsts**2 / weight
        with np.errstate(invalid="ignore", divide="ignore"):
            made = (products - firsts * firsts.T / weight) / np.sqrt(spread * spread.T)
        return np.asarray(np.clip(np.nan_to_num(made, nan=0.0, posinf=1.0, neginf=-1.0), -1, 1), np.float64)

    def _noise(self) -> Numbers:
        """Return noise on sums and squares of the first of each pair, and on products; shape (3, m, m).

        It hangs on the variables of the sum, and on the records that have both of the pair.
        """
        m, unit = len(self.numbers), unit_of(self.question, self.weighted)
        if not unit:
            return np.zeros((3, m, m))
        numbers, half, moved = (
            list(zip(self.numbers, self.bounds, strict=True)),
            [b.half for b in self.bounds],
            self._moved,
        )
        keys = []
        for a, b in itertools.product(numbers, numbers):
            both, one, other = Complete.of(self.question, [a, b], {}), a[0].name, b[0].name
            keys += [pair_key(both, one, to, self.weighted) for to in (INTERCEPT, one, other)]
        first, square, product = np.moveaxis(drawn_of(self.question, keys).reshape(m, m, 3), 2, 0) * unit
        first = first * np.array(half)[:, None]
        squares = square * np.square(half)[:, None] + 2 * moved[:, None] * first
        products = product * np.outer(half, half) + moved[:, None] * first.T + moved * first
        scale = self.scale[:, None]
        return np.array([first / scale, squares / scale**2, products / (scale * self.scale)])

    @property
    def _moved(self) -> Numbers:
        return np.array([b.middle for b in self.bounds]) - self.centre

    @cached_property
    def _half(self) -> Numbers:
        """Half the range of each number, as read."""
        return np.array([b.half for b in self.bounds]) / self.scale

    def noise_variance(self, at: Place) -> float:
        """Return what noise adds to the variance of a correlation, to first order."""
        unit = unit_of(self.question, self.weighted)
        r, (*means, s, t, total) = float(self.noisy[at]), self.moments_of(at)
        spreads = np.array([s, t])
        half = self._half[list(at)] / spreads
        d = ((self._moved / self.scale)[list(at)] - means) / spreads
        parts = [
            half[0] * half[1],
            half[0] * (d[1] - r * d[0]),
            half[1] * (d[0] - r * d[1]),
            r / 2 * half[0] ** 2,
            r / 2 * half[1] ** 2,
        ]
        return float(np.square(np.array(parts) * unit / total).sum())

    def moments_of(self, at: Place) -> tuple[float, float, float, float, float]:
        """Return means and standard deviations of the two of a pair, as read, and the weight.

        They have the noise of the sums: standard errors would else tell how a number varies, and one value far out makes up much
        of that. The sum of squares is at least the standard deviation of its noise.
        """
        i, j = at
        weight, least = self.sums[1], unit_of(self.question, self.weighted) * np.square(self._half)[:, None]
        mean = self._noisy_sums[0] / weight
        spread = np.sqrt(np.maximum(self._noisy_sums[1] / weight - mean**2, least / weight))
        spread = np.where(spread > 0, spread, 1.0)  # one that does not vary adds nothing to speak of
        return float(mean[i, j]), float(mean[j, i]), float(spread[i, j]), float(spread[j, i]), float(weight[i, j])

    def variances(self, places: Sequence[Place], kind: str) -> Numbers:
        """Return the variances of correlations: (1 - r²) / (n - 2), or linearised."""
        n = np.array([self.counts[at] for at in places])
        r = np.array([self.noisy[at] for at in places])
        if kind == "classical":
            return np.asarray((1 - r**2) / (n - 2))
        sums = _Sums(self.numbers, self.centre, self.scale, self.weighted)
        columns = _columns(self.numbers, self.weighted)
        found = self.question.dataset.warehouse.reduce(_Influence(sums, places, self), columns, self.question.records)
        if kind == "design":
            made = self.question.dataset.design.covariances(self._sql(places), np.eye(len(places)), found)[0]
        else:
            made = np.diag(found) * (n / (n - 1) if kind == "hc1" else 1.0)
        keys = [self._variance_key(at, kind) for at in places]
        return blurred(self.question, kind, made, np.array([self._reach(at) ** 2 for at in places]), keys)

    def _reach(self, at: Place) -> float:
        """Return the most that one record can add to a correlation, by noisy moments."""
        a, b, s, t, total = self.moments_of(at)
        middles, weight = self._moved / self.scale, self.question.dataset.weight
        u, v = ((abs(middles[i] - mean) + self._half[i]) / sd for i, mean, sd in zip(at, (a, b), (s, t), strict=True))
        record = weight.large if self.weighted and weight is not None else 1.0
        return float(record * (u * v + abs(self.noisy[at]) * (u * u + v * v) / 2) / total)

    def _variance_key(self, at: Place, kind: str) -> bytes:
        both = Complete.of(self.question, [(self.numbers[i], self.bounds[i]) for i in at], {})
        names = sorted(self.numbers[i].name for i in at)
        mark = "weighted" if self.weighted else ""
        return key_of(self.question, "variance", *names, kind, mark, among=both.key)

    def _sql(self, places: Sequence[Place]) -> str:
        """Return SQL for what each record adds to the correlation of each pair."""
        clusters = self.question.dataset.design.columns
        read = [
            f"({x.sql()} - {literal(float(c))}) / {literal(float(s))} AS u{i}"
            for i, (x, c, s) in enumerate(zip(self.numbers, self.centre, self.scale, strict=True))
        ]
        weight = "w AS q" if self.weighted else "1.0E0 AS q"
        base = f"SELECT {', '.join([*clusters, weight, *read])} FROM records WHERE {self.question.records}"  # noqa: S608
        added = []
        for g, at in enumerate(places):
            a, b, s, t, total = (literal(v) for v in self.moments_of(at))
            u, v = f"((u{at[0]} - {a}) / {s})", f"((u{at[1]} - {b}) / {t})"
            r = literal(float(self.noisy[at]) / 2)
            added.append(f"COALESCE(({u} * {v} - {r} * ({u} * {u} + {v} * {v})) * q / {total}, 0.0E0) AS g{g}")
        return f"SELECT {', '.join([*clusters, *added])} FROM ({base}) AS b"  # noqa: S608 - our own names


def pairs_of(question: Question, variables: Sequence[Variable], weighted: bool) -> PairMoments | None:
    """Make two passes: one for means and spreads, one for products; None where a pair has no records."""
    numbers = tuple(Number.of(v, "", question.policy.amounts.top_coded) for v in variables)
    bounds = tuple(bounds_of(question.dataset.warehouse, numbers))
    centre, scale, m = np.array([b.middle for b in bounds]), np.ones(len(numbers)), len(numbers)
    constant = False
    for _ in range(2):
        found = question.dataset.warehouse.reduce(
            _Sums(numbers, centre, scale, weighted), _columns(numbers, weighted), question.records
        )
        sums = found[1:].reshape(5, m, m)
        if not (sums[0] > 0).all():
            return None
        used, mean = (centre, scale), np.diag(sums[2]) / np.diag(sums[1])
        spread = np.sqrt(np.maximum(np.diag(sums[3]) / np.diag(sums[1]) - mean**2, 0)) * scale
        centre = centre + mean * scale
        constant = bool((spread <= 1e-10 * np.abs(centre)).any())
        scale = np.where(spread > 0, spread, 1.0)
    return PairMoments(question, numbers, bounds, *used, weighted, float(found[0]), constant, sums)


def _columns(numbers: Sequence[Number], weighted: bool) -> list[str]:
    return list(dict.fromkeys([*(x.column for x in numbers), *(["w"] if weighted else [])]))
