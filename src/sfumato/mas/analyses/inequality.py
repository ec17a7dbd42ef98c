"""Inequality of an amount: shares of records below a line, the Gini coefficient, and shares of the total; from sums in bins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import DataError, ParameterError
from sfumato.mas.analyses.distributions import (
    BinCounts,
    Distribution,
    DistributionCurve,
    Place,
    bin_counts,
    bins_for,
    curves_of,
    effects_of,
    error_notes,
    grid_bins,
    groups_of,
    left_out,
    share_variance,
    weight_moments,
)
from sfumato.mas.analyses.tables import plain_numbers, weight_of
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Weight
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.perturbation import significant
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question, Result, Steps
from sfumato.mas.register import Register
from sfumato.mas.sums import Moment, ProtectedCells, SumsRequest, TableSums
from sfumato.mas.survey_design import design_notes
from sfumato.mas.variable import Variable, VariableBins
from sfumato.typing import Numbers

# --- share below a line


class ShareBelow(Distribution):
    """The share of the records, or of their weights, whose number is at most a line.

    The line is given, or a share of the median of the whole universe, as lines of poverty are. Standard errors then allow for
    the error of the median, too, by linearisation (Deville 1999; Berger and Skinner 2003).
    """

    line: float | None = param(default=None, doc="the line; none for a share of the median")
    of_median: float = param(default=0.6, low=0, above=True, doc="the line as a share of the universe's median")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")

    @override
    def validate(self) -> None:
        if self.line is not None and (isinstance(self.line, bool) or not math.isfinite(float(self.line))):
            raise ParameterError("the line of share_below is a number.")
        if self.line is not None:
            object.__setattr__(self, "line", float(self.line))

    @override
    def wording(self) -> str:
        line = f"{self.of_median!r} of median" if self.line is None else f"{self.line!r}"
        return f"share_below:{self.of}:{self.by}:{line}:{self.weighted}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variable, *sides = self.variables(question.codebook.variables)
        weight, policy = weight_of(question.codebook, self.weighted), question.policy
        facts: dict[str, float] = {}
        curves: dict[Place, DistributionCurve] = {}
        line = self.line
        if line is None:
            table, curves = yield from curves_of(question, register, variable, sides, weight, (0.5,))
            median = curves[len(table.margins(last=1)) - 1, ()].value_at(0.5)
            if math.isnan(median):
                return Refusal(
                    "few_records",
                    "There are too few records for a median.",
                    "Give a line, or choose a larger universe.",
                )
            facts["median"], line = significant(
                np.array([median, self.of_median * median]), policy.amounts.digits
            ).tolist()
        facts["line"] = line
        bins = VariableBins.of(variable, (math.floor(line) if variable.integer else line,))
        sums = yield SumsRequest({"bins": TableSums((*sides, bins), weight_moments(weight))})
        margins, rows = sums.cells("bins").margins(last=1), []
        whole = curves.get((len(margins) - 1, ()))
        for i, margin in enumerate(margins):
            effects = effects_of(question, register, variable, margin, weight)
            for place, spread in bin_counts(margin, weight, effects):
                share, error = self._share(spread, line, curves.get((i, place)), whole, policy, weight)
                shown = (
                    significant(np.array([share]), policy.amounts.digits),
                    significant(np.array([error]), policy.amounts.error_digits),
                )
                told = zip(("share", "standard error"), (plain_numbers(v)[0] for v in shown), strict=True)
                rows.append(self.cell(margin.sides, place) | dict(told))
        return Result({"shares": rows}, facts, tuple(self._notes(question, variable)))

    def _share(
        self, below: BinCounts, line: float, curve: DistributionCurve | None, whole: DistributionCurve | None,
        policy: Policy, weight: Weight | None,
    ) -> tuple[float, float]:  # fmt: skip
        """Return the share below the line in a cell, and its standard error.

        With the line at a share a of the median M, one record adds 1(x ≤ aM) − p − r (1(x ≤ M) − ½) over n, r = a f(aM) / f(M).
        """
        if below.n < max(policy.counts.least, 2 * policy.counts.beyond, 1):
            return math.nan, math.nan
        total = float(below.weights.sum())
        p = min(max(float(below.weights[0]) / total, 0.0), 1.0)
        kept = max(p, 1 / below.n) if policy.counts.sd else p  # of a share that noise made 0, the error is not
        variance = share_variance(below, kept, policy, weight)
        noise = ((1 - p) ** 2 * below.noise[0] + p**2 * below.noise[1]) / total**2
        if curve is None or whole is None:
            return p, math.sqrt(variance + noise)
        density = whole.density(0.5, share_variance(whole.spread, 0.5, policy, weight))
        here = curve.density(p, variance)
        r = self.of_median * here / density if not math.isnan(here) else 0.0
        one = share_variance(whole.spread, 0.5, policy, weight) / 0.25  # of the mean of a number with variance 1
        median = line / self.of_median
        high = curve.spread.share_below(median)
        together = one * p * (1 - (0.5 if math.isnan(high) else high))
        moved = r**2 * (0.25 * one + whole.spread.noise_below(0.5)) - 2 * r * together
        return p, math.sqrt(max(variance + moved, 0.0) + noise)

    def _notes(self, question: Question, variable: Variable) -> Iterator[str]:
        policy = question.policy
        if policy.counts.sd:
            yield f"The counts below and above the line have random noise (standard deviation {policy.counts.sd:g} or more)."
        if self.line is None:
            yield f"The line is {self.of_median:g} of the median of the universe; standard errors allow for its error."
        if question.codebook.design:
            yield from design_notes(question.codebook.design)
            yield "Standard errors include noise."
        else:
            yield "Standard errors are for records drawn one by one, and include noise."
        yield from left_out(variable)


# --- inequality
# Lorenz curve and Gini coefficient from counts and sums of bins. Within a bin, values are spread evenly about its mean.


@dataclass(frozen=True, eq=False)
class BinSums:
    """Counts and sums of the bins of a variable in one cell; shape (bins,)."""

    weights: Numbers
    sums: Numbers
    """Of the numbers above the centre, times the weights."""
    noise: Numbers
    """Variance of the noise of both, shape (2, bins)."""
    low: Numbers
    """Where bins begin; −∞ where that is open."""
    high: Numbers
    centre: float

    @staticmethod
    def merged(
        table: ProtectedCells,
        place: tuple[int, ...],
        name: str,
        ends: tuple[float, float],
        centre: float,
        fewest: float,
    ) -> BinSums | None:
        """Return the bins of a cell, merged with the next until each has so many records; None where these are too few for three."""
        edges = np.array([ends[0], *(table.sides[-1].cutpoints or Cutpoints(())).edges, ends[1]], np.float64)
        bins = len(edges) - 1
        starts, held = [0], 0.0
        counts = table.n[place][:bins]
        for i in range(bins):
            if held >= fewest and counts[i:].sum() >= fewest:
                starts.append(i)
                held = 0.0
            held += float(counts[i])
        if len(starts) < 3 or held < fewest:
            return None
        values = (table.sums[name], table.sums["s"], table.variances[name], table.variances["s"])
        w, s, vw, vs = (np.add.reduceat(v[place][:bins], starts) for v in values)
        return BinSums(w, s, np.array([vw, vs]), edges[starts], edges[[*starts[1:], bins]], centre)

    def guesses(self, weights: Any) -> Any:
        """Return the mean of each bin as the counts alone suggest it, and how far that may be off; shape (2, bins), 0 for open bins.

        Inside, the density of a bin has the slope b of its neighbours: in a bin of width w and density d the mean lies b w² / (12 d)
        beyond the middle, at most w / 6. The density of a bin at an end falls off exponentially: with n records in it and n' in the
        next, of width w', by λ = w' / log(1 + n' / n), so that the mean lies λ − w / (exp(w / λ) − 1) beyond the edge.
        """
        width = self.high - self.low
        if not np.isfinite(width).all():
            return np.zeros((2, len(width)))
        middle, density = (self.low + self.high) / 2, weights / width
        shift = np.gradient(density, middle) * width**2 / (12 * density)
        far = width / 6
        mean = middle + np.where(shift.real > far, far, np.where(shift.real < -far, -far, shift))
        off = width / 10
        for end, nearer, edge, sign in ((0, 1, self.high[0], -1), (-1, -2, self.low[-1], 1)):
            fall = width[nearer] / np.log(1 + weights[nearer] / weights[end])
            excess = fall - width[end] / (np.exp(min(width[end] / fall, 700.0, key=np.real)) - 1)
            mean[end], off[end] = edge + sign * excess, excess.real / 3
        return np.array([mean, off])

    @cached_property
    def trust(self) -> Numbers:
        """How far the noisy mean of a bin is believed, and not the one that counts suggest: all, where there is no noise."""
        square = np.square(self.sums / self.weights)
        noise = (self.noise[1] + self.noise[0] * square) / np.square(self.weights)
        off = np.square(self.guesses(self.weights)[1])
        exact = (noise <= 0) | (off <= 0)
        return np.where(exact, 1.0, off / np.where(exact, 1.0, off + noise))

    def shapes(self, weights: Any, sums: Any) -> tuple[Any, Any]:
        """Return mean and width of the values of each bin; complex numbers pass through."""
        means = self.trust * (self.centre + sums / weights) + (1 - self.trust) * self.guesses(weights)[0]
        means = np.where(means.real < self.low, self.low, np.where(means.real > self.high, self.high, means))
        low, high = (
            np.where(np.isfinite(end), end, means + far) for end, far in ((self.low, -1e300), (self.high, 1e300))
        )
        left, right = 2 * (means - low), 2 * (high - means)
        return means, np.where(left.real < right.real, left, right)

    def measures(self, parts: int, weights: Any, sums: Any) -> Any:
        """Return the Gini coefficient, and the shares of the total that equal parts of the records hold, the poorest first."""
        means, widths = self.shapes(weights, sums)
        n, t = weights.sum(), (weights * means).sum()
        lorenz = np.cumsum(weights * means) / t
        before = lorenz - weights * means / t
        f = weights / n
        gini = 1 - (f * (lorenz + before)).sum() + (f**2 * widths).sum() / (6 * t / n)
        reached = np.cumsum(weights)
        held = [0.0]
        for k in range(1, parts):
            i = int(np.searchsorted(reached.real, k / parts * n.real))
            part = (k / parts * n - (reached[i] - weights[i])) / weights[i]
            held.append(before[i] + weights[i] * (part * means[i] - part * (1 - part) * widths[i] / 2) / t)
        return np.array([gini, *np.diff([*held, 1.0])])

    def errors(self, parts: int, variance: float) -> Numbers:
        """Return standard errors of the measures, by linearisation; their derivatives are those of a complex step.

        `variance` is that of the sum of a number of variance 1 over the records, divided by the weight of all.
        """
        step = 1e-30
        slopes = []
        for values in (self.weights, self.sums):
            moved = values + 1j * step * np.eye(len(values))
            inputs = ((row, self.sums) if values is self.weights else (self.weights, row) for row in moved)
            slopes.append(np.array([self.measures(parts, *one).imag / step for one in inputs]))
        a, b = slopes  # (bins, measures)
        means, widths = self.shapes(self.weights, self.sums)
        x = (means - self.centre)[:, None]
        within = (np.square(widths) / 12)[:, None]
        sampled = (self.weights[:, None] * (np.square(a + b * x) + np.square(b) * within)).sum(axis=0)
        noise = (np.square(a) * self.noise[0][:, None] + np.square(b) * self.noise[1][:, None]).sum(axis=0)
        guessed = ((1 - self.trust) / self.trust * self.weights * self.guesses(self.weights)[1].real)[:, None]
        noise = noise + np.square(b * guessed).sum(axis=0)
        return np.asarray(np.sqrt(variance * sampled + noise))


class Inequality(Distribution):
    """The Gini coefficient of an amount, and the shares of its total that equal parts of the records hold, the poorest first.

    Both come from counts and sums of the bins of the variable's grid: the Lorenz curve is exact at the edges of bins, and within
    a bin values are spread evenly about its mean, as in the two-thirds rule between the bounds of Gastwirth (1972; Cowell 2011,
    section 5.2). Where noise is wider than a bin, the counts of the bin and its neighbours say where its mean is.
    """

    parts: int = param(
        default=5, low=2, high=20, integer=True, doc="into how many equal parts the records are cut: 5 for fifths"
    )
    weighted: bool = param(default=False, doc="whether records count by their survey weights")

    @override
    def wording(self) -> str:
        return f"inequality:{self.of}:{self.by}:{self.parts}:{self.weighted}"

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        variable, *sides = self.variables(question.codebook.variables)
        weight, policy = weight_of(question.codebook, self.weighted), question.policy
        if variable.bounds is None or variable.bounds[0] < 0:
            raise DataError(
                f"variable '{variable.name}' has no values, or may be negative: its inequality is not defined."
            )
        centre = sum(variable.bounds) / 2
        moments = {**weight_moments(weight), "s": Moment(variable, 1, 1 if weight else 0, centre)}
        bins = grid_bins(variable, bins_for(question, register, groups_of(sides)))
        sums = yield SumsRequest({"bins": TableSums((*sides, bins), moments, "amounts")})
        ends = variable.bounds if policy.amounts.clip else (-math.inf, math.inf)
        ginis, shares = [], []
        for table in sums.cells("bins").margins(last=1):
            effects = np.broadcast_to(effects_of(question, register, variable, table, weight), table.n.shape[:-1])
            for place in np.ndindex(table.n.shape[:-1]):
                cell = self.cell(table.sides, place)
                made = BinSums.merged(
                    table, place, "w" if weight else "n", ends, centre, max(policy.counts.beyond, 0.5)
                )
                gini, *held = self._measured(made, float(table.n[place].sum()), policy, weight, float(effects[place]))
                ginis.append(cell | {"gini": gini[0], "standard error": gini[1]})
                for k, (share, error) in enumerate(held):
                    shares.append(
                        cell
                        | {
                            "over": k / self.parts,
                            "up to": (k + 1) / self.parts,
                            "share": share,
                            "standard error": error,
                        }
                    )
        return Result({"inequality": ginis, "shares": shares}, notes=tuple(_inequality_notes(question, variable)))

    def _measured(
        self, made: BinSums | None, n: float, policy: Policy, weight: Weight | None, effect: float
    ) -> list[tuple[float | None, float | None]]:
        if made is None or not (made.weights > 0).all():
            return [(None, None)] * (self.parts + 1)
        effect *= weight.effect if weight else 1.0
        variance = policy.variance_inflation * effect * float(made.weights.sum()) / n
        values = significant(made.measures(self.parts, made.weights, made.sums), policy.amounts.digits)
        errors = significant(made.errors(self.parts, variance), policy.amounts.error_digits)
        return list(zip(plain_numbers(values), plain_numbers(errors), strict=True))


def _inequality_notes(question: Question, variable: Variable) -> Iterator[str]:
    policy = question.policy
    yield "All numbers come from counts and sums of bins; within a bin, values are taken to be spread evenly about their mean."
    if policy.amounts.clip and variable.bounds is not None:
        low, high = variable.bounds
        yield f"Values of {variable.title} are clipped to {low:g} and {high:g} before anything is added up."
    if policy.counts.sd:
        yield "Counts and sums have random noise, which standard errors include."
    yield from error_notes(question)
    yield from left_out(variable)
