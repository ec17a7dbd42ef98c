"""Keyed noise on the cross-products of a model with its outcome (MAS.md, "Models").

What is published depends on the outcome through X'y + e alone: coefficients are (X'X)^-1 (X'y + e), and their variance has
(X'X)^-1 D (X'X)^-1 more, D the variance of e. Each element of e belongs to one product of numbers and indicators, with numbers
taken from the middle of their range, and hangs on the outcome, the numbers and the complete records that have the levels:
another model of these records with the same column has the same noise on it, and so has another universe that holds them. What
a record can add to a sum is at most the product of half ranges; the standard deviation is a multiple of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.mas.models.complete import Complete
from sfumato.mas.models.design import Design, Key, expanded
from sfumato.mas.models.layout import Layout
from sfumato.mas.models.moments import Moments
from sfumato.mas.models.numbers import Bounds, Numbers
from sfumato.mas.perturbation import purpose_of
from sfumato.mas.question import Question

INTERCEPT = "1"


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise on the products of the columns (as a layout reads them) with one outcome."""

    values: Numbers
    """Shape (columns,)."""
    variance: Numbers
    """Shape (columns, columns)."""
    of_total: float
    """The noise on the sum of the outcome itself."""

    def scaled(self, factor: float) -> Noise:
        """Return the noise of an outcome in another unit."""
        return Noise(self.values * factor, self.variance * factor**2, self.of_total * factor)


def key_of(question: Question, *parts: str, among: bytes | None = None) -> bytes:
    """Return what a number's noise hangs on: the set of records, and what is summed; `among` is the key of another set."""
    key = question.key if among is None else among
    if len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        key = hashlib.blake2b(key).digest()
    return hashlib.blake2b("\x1f".join(("model", *parts)).encode(), key=key, digest_size=32).digest()


def unit_of(question: Question, weighted: bool) -> float:
    """Return the standard deviation for a record that can add 1: the policy's, times a large survey weight."""
    weight = question.dataset.weight
    return question.policy.models.sd * (weight.large if weighted and weight is not None else 1.0)


def pair_key(complete: Complete, one: str, other: str, weighted: bool) -> bytes:
    """Return the key of the sum of products of two columns; the same in either order."""
    return key_of(complete.question, *sorted((one, other)), "weighted" if weighted else "", among=complete.key)


def noise_of(
    complete: Complete,
    layout: Layout,
    bounds: Sequence[Bounds],
    outcome: str,
    half: float,
    ordered: bool = False,
) -> Noise:
    """Return the noise of an outcome whose values lie within `half` of the middle; no noise, if the policy has none.

    With `ordered`, the outcome is a level: its products have keys of their own, which no regression on that level shares.
    """
    question, design = complete.question, layout.design
    k = len(design.numbers)
    middles = np.array([b.middle for b in bounds[:k]])
    gain, shift = 1 / layout.scale[:k], (middles - layout.centre[:k]) / layout.scale[:k]
    keys: dict[Key, int] = {((), ()): 0}
    rows = [expanded(column, gain, shift) for column in design.columns]
    for row in rows:
        for key in row:
            keys.setdefault(key, len(keys))
    mix = np.zeros((len(rows), len(keys)))
    for i, row in enumerate(rows):
        for key, weight in row.items():
            mix[i, keys[key]] = weight
    unit = unit_of(question, layout.weighted) * half
    sd = np.array([unit * float(np.prod([bounds[i].half for i in key[0]])) for key in keys])
    if not unit:
        return Noise(np.zeros(len(rows)), np.zeros((len(rows), len(rows))), 0.0)
    raw = "" if design.intercept else " without intercept"
    known, mark = question.dataset.variables, "weighted" if layout.weighted else ""
    hashed: list[bytes] = []
    sets: dict[tuple[tuple[int, int], ...], bytes] = {(): complete.key}
    for some, cells in keys:
        if cells not in sets:
            sets[cells] = complete.key_within({known[design.categories[c].name]: (i,) for c, i in cells})
        names = [design.numbers[i].name for i in some] or [INTERCEPT]
        parts = ["outcome", outcome + raw, *sorted(names)] if ordered else sorted([outcome + raw, *names])
        hashed.append(key_of(question, *parts, mark, among=sets[cells]))
    drawn = drawn_of(question, hashed)
    values, variance = mix @ (sd * drawn), (mix * sd**2) @ mix.T
    if layout.turn is not None:
        values, variance = layout.turn @ values, layout.turn @ variance @ layout.turn.T
    return Noise(values, variance, float(sd[0] * drawn[0]))


def title_of(design: Design, key: Key) -> str:
    """Return the name of a product of plain numbers and indicators."""
    parts = [design.numbers[i].name for i in key[0]] + [design.categories[c].title(i) for c, i in key[1]]
    return ":".join(sorted(parts)) or INTERCEPT


def drawn_of(question: Question, keys: list[bytes]) -> Numbers:
    """Return the standard normal numbers of some keys; others under a policy with more or less noise, or the two would cancel."""
    return question.secret.normals(keys, purpose_of("cross-product", question.policy.models.sd))


def blurred(question: Question, errors: str, variances: Numbers, largest: Numbers, keys: list[bytes]) -> Numbers:
    """Return variances that are sums of squared residuals, with keyed noise; `largest` is what one record can add to each.

    A residual far out would show in the standard error of a small group. Of households, whose members add up before they
    are squared, one record can add more.
    """
    sd = question.policy.models.sd / 2  # in ranges, not in halves
    if not sd:
        return variances
    if errors == "design":
        largest = largest * (2 * question.dataset.design.largest - 1)
    return np.maximum(variances + sd * largest * drawn_of(question, keys), 0.0)


def squares_noise(complete: Complete, outcome: str, bounds: Bounds, weighted: bool) -> float:
    """Return the noise on the sum of squares of a number, taken from the middle of its range."""
    sd = unit_of(complete.question, weighted) * bounds.half**2
    if not sd:
        return 0.0
    return sd * float(drawn_of(complete.question, [pair_key(complete, outcome, outcome, weighted)])[0])


def standard_moments(
    complete: Complete, layout: Layout, bounds: Sequence[Bounds], moments: Moments
) -> tuple[Numbers, Numbers]:
    """Return the means and standard deviations that standardise() takes, from sums and squares with their noise.

    Taken without it, they would be told by the coefficients of a variable and of the same one standardised; and of a
    standardised outcome the intercept would tell the noise on the sum. Of known predictors in known sets they are as they are.
    """
    numbers, weighted = layout.factors, layout.weighted
    unit = unit_of(complete.question, weighted)
    if not unit or not numbers:
        return moments.means, moments.spreads
    names = [number.name for number in numbers]
    keys = [pair_key(complete, name, to, weighted) for name in names for to in (INTERCEPT, name)]
    drawn = drawn_of(complete.question, keys).reshape(-1, 2) * unit / moments.weight
    half, middle = np.array([b.half for b in bounds]), np.array([b.middle for b in bounds])
    known = {v.numbers for v in complete.question.dataset.variables.values() if v.known and complete.known}
    drawn[[x.column in known and x is not layout.outcome for x in numbers]] = 0.0
    means = moments.means + drawn[:, 0] * half
    squares = moments.spreads**2 + (moments.means - middle) ** 2 + drawn[:, 1] * half**2
    return means, np.sqrt(np.maximum(squares - (means - middle) ** 2, 0.0))
