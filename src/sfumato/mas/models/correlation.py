"""Correlations of numbers from protected products, each pair over the records that have both."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.answer import Refusal
from sfumato.mas.codebook import Codebook
from sfumato.mas.models.design import Number
from sfumato.mas.models.model import EMPTY, ERRORS, ERRORS_DOC, clips, kind_of_errors, model_notes
from sfumato.mas.models.products import ONE, ComposedFunction, Factors, Monomial, MonomialRows, Products, WholeRows
from sfumato.mas.perturbation import significant
from sfumato.mas.question import Analysis, Question, Result, Steps, numbers_in
from sfumato.mas.register import Register
from sfumato.mas.rule import CorrelationEvidence
from sfumato.mas.sums import Confidential, Piece, ProtectedSums, SumsRequest, TotalSums
from sfumato.mas.survey_design import SurveyCorrelation
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

_FIRST: Monomial = ((0,), ())
_SECOND: Monomial = ((1,), ())
_ROUGH = 0.05
"""Part of the noise's precision that robust errors need."""
_FAR = 4.0
"""What a record adds to a robust error is cut off at so many standard deviations of each number."""
CONSTANT = Refusal("no_variation", "A variable does not vary here.", "Leave it out, or choose a larger universe.")


class Correlation(Analysis):
    """Pearson's correlation of every two of some variables, with standard errors that include the noise.

    Pairwise complete: a pair has the same answer in every question, whatever other variables are asked for with it.
    """

    kind = "correlation"
    of: tuple[str, ...] = param(doc="the variables, at least two", columns="many", holds="numbers")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")
    errors: str = param(
        default="usual",
        choices=ERRORS,
        doc=ERRORS_DOC,
    )

    @override
    def validate(self) -> None:
        if len(set(self.of)) < 2 or len(set(self.of)) < len(self.of):
            raise ParameterError("a correlation needs at least two different variables.")

    @override
    def wording(self) -> str:
        return f"correlation:{sorted(self.of)}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, codebook: Codebook) -> str:
        return self.with_(errors=self.covariance(codebook)).wording()

    def covariance(self, codebook: Codebook) -> str:
        """Return the kind of errors that is meant."""
        return kind_of_errors(self.errors, codebook, self.weighted)

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return tuple(numbers_in(name, known) for name in sorted(self.of))

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        if self.weighted and not question.codebook.weighted:
            raise ParameterError("this data set has no survey weights. Ask for the correlation without weights.")
        names = [v.name for v in self.variables(question.codebook.variables)]
        found = yield from _pairs(question, register, list(itertools.combinations(names, 2)), self.weighted)
        if isinstance(found, Refusal):
            return found
        errors = self.covariance(question.codebook)
        base = errors if errors != "design" else "hc1" if self.weighted else "classical"
        variances = yield from _sampled(question, found, base)
        if errors == "design":
            effects = (_effect(question, register, pair) for pair in found)
            variances = [effect * variance for effect, variance in zip(effects, variances, strict=True)]
        rows = [_row(question, pair, variance) for pair, variance in zip(found, variances, strict=True)]
        told = {(row["variable"], row["with"]): row["correlation"] for row in rows}
        matrix = [
            {"variable": a, **{b: 1.0 if a == b else told.get((a, b), told.get((b, a))) for b in names}} for a in names
        ]
        own = model_notes(question, errors, False, self.weighted)
        notes = (
            "Each correlation is over the records that have both variables (pairwise complete).",
            *(note.replace("Coefficients have", "Correlations have") for note in own),
        )  # fmt: skip
        evidence = CorrelationEvidence(max(abs(pair.r) for pair in found), min(pair.n for pair in found))
        return Result({"correlations": matrix, "pairs": rows}, {}, notes, (evidence,))


@dataclass(frozen=True, eq=False)
class PairSums:
    """Σ w, Σ wx, Σ wx² and Σ wxy of two numbers over the records that have both, and the variances of their noise."""

    products: Products
    values: Numbers
    """Shape (3, 3): of 1 and the two numbers as they are read."""
    noise: Numbers
    n: float

    @property
    def names(self) -> tuple[str, str]:
        """The two variables."""
        first, second = (x.name for x in self.products.factors.numbers)
        return first, second

    @cached_property
    def means(self) -> Numbers:
        """Means of the two, as they are read."""
        return np.asarray(self.values[0, 1:] / self.values[0, 0])

    @cached_property
    def covariance(self) -> Numbers:
        """Variances and covariance of the two."""
        return np.asarray(self.values[1:, 1:] / self.values[0, 0] - np.outer(self.means, self.means))

    @property
    def constant(self) -> bool:
        """Whether one of the two varies by no more than the noise would have it."""
        least = 2 * np.sqrt(np.diag(self.noise)[1:]) / self.values[0, 0]
        return bool((np.diag(self.covariance) <= np.maximum(least, 1e-20)).any())

    @cached_property
    def r(self) -> float:
        """The correlation."""
        c = self.covariance
        return float(np.clip(c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]), -1, 1))

    @property
    def of_noise(self) -> float:
        """Variance that the noise gives the correlation, to first order: the squared gradient in each sum times its variance."""
        w, (a, b), c = self.values[0, 0], self.means, self.covariance
        s, t, r = np.sqrt(c[0, 0]), np.sqrt(c[1, 1]), self.r
        u, v = a / s, b / t
        far = 2 * (u**2 + v**2) - self.values[1, 1] / w / c[0, 0] - self.values[2, 2] / w / c[1, 1]
        gradient = np.array([
            [2 * u * v - self.values[1, 2] / w / (s * t) - r / 2 * far,
             (r * u - v) / s, (r * v - u) / t],
            [0.0, -r / (2 * c[0, 0]), 1 / (s * t)],
            [0.0, 0.0, -r / (2 * c[1, 1])],
        ]) / w  # fmt: skip
        return float((gradient**2 * np.triu(self.noise)).sum())


def _pairs(
    question: Question, register: Register, pairs: Sequence[tuple[str, str]], weighted: bool
) -> Generator[SumsRequest, ProtectedSums, list[PairSums] | Refusal]:
    """Ask for the sums of all pairs; without noise once more, about their means, so that no digits are lost."""
    known, exact = question.codebook.variables, not question.policy.models.sd
    factors = [
        Factors(tuple(Number.of(known[name], "", clips(question)) for name in pair), (), known, (True, True)) for pair in pairs
    ]  # fmt: skip
    places = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    found: list[PairSums] = []
    for _ in range(2 if exact else 1):
        asked: dict[str, TotalSums] = {}
        made = []
        for at, one in enumerate(factors):
            sums = Products(question, register, one, (ONE, _FIRST, _SECOND), places, int(weighted))
            size = Products(question, register, one, (ONE,), ((0, 0),))
            made.append((sums, size))
            for name, part in ((f"sums {at}", sums.request()), (f"n {at}", size.request() if weighted else None)):
                asked |= {name: part} if part is not None else {}
        told = (yield SumsRequest(asked)) if asked else None
        found = []
        for at, (sums, size) in enumerate(made):
            totals = [
                told.totals(name) if told is not None and name in asked else None for name in (f"sums {at}", f"n {at}")
            ]
            values, noise = sums.matrices(totals[0])
            n = float(size.matrices(totals[1])[0][0, 0]) if weighted else float(values[0, 0])
            found.append(PairSums(sums, values, noise, n))
            if not (n >= 3 and values[0, 0] > 2 * np.sqrt(noise[0, 0])):
                return EMPTY
        if any(pair.constant for pair in found):
            return CONSTANT
        factors = [_about_means(pair) for pair in found]
    return found


def _about_means(pair: PairSums) -> Factors:
    factors = pair.products.factors
    spread = np.sqrt(np.diag(pair.covariance)) * factors.scale
    means = pair.means * factors.scale + factors.centre
    moments = {i: (float(means[i]), 0.0, float(spread[i])) for i in range(2)}
    return replace(factors, moments=moments, exact=True)


def _row(question: Question, pair: PairSums, variance: float) -> dict[str, Any]:
    settings = question.policy.models
    n = float(question.policy.counts.shown(np.array([pair.n]))[0])
    error = np.sqrt(question.policy.variance_inflation * variance + pair.of_noise)
    return {
        "variable": pair.names[0], "with": pair.names[1],
        "correlation": float(significant(np.array([pair.r]), settings.digits)[0]),
        "standard error": float(significant(np.array([error]), settings.error_digits)[0]), "n": None if np.isnan(n) else n,
    }  # fmt: skip


def _effect(question: Question, register: Register, pair: PairSums) -> float:
    """Return the design effect of a correlation.

    What two members add, uv − r (u² + v²) / 2, has the product of the correlations of both numbers as its own, for normal numbers
    of which those of two members have the correlations ρ(u), ρ(v) and between u and v r √(ρ(u) ρ(v)).
    """
    alike = SurveyCorrelation.of_product(*(x.variable for x in pair.products.factors.numbers))
    return float(register.design_effects(question.selection, (), alike, bool(pair.products.weights)))


# --- robust errors


class InfluenceSquares(ComposedFunction):
    """The square of what a record adds to a correlation, uv − r (u² + v²) / 2 of standardised u and v, cut off far out."""

    def __init__(self, pair: PairSums, far: float) -> None:
        self.rows = WholeRows(pair.products.factors, (_FIRST, _SECOND))
        self.parts = (self.rows,)
        self.means, self.spread, self.r, self.far = pair.means, np.sqrt(np.diag(pair.covariance)), pair.r, far

    @override
    def __call__(self, piece: Piece) -> Numbers:
        x = self.rows(piece)
        u, v = np.clip((x - self.means[:, None]) / self.spread[:, None], -self.far, self.far)
        complete = self.rows.complete(piece)
        return np.asarray(np.square((u * v - self.r * (u * u + v * v) / 2) * complete)[None, :])


def _sampled(
    question: Question, pairs: Sequence[PairSums], errors: str
) -> Generator[SumsRequest, ProtectedSums, list[float]]:  # fmt: skip
    """Return the sampling variances of correlations: (1 − r²) / (n − 2), or by what each record adds, to first order."""
    classical = [(1 - pair.r**2) / max(pair.n - 2, 1.0) for pair in pairs]
    if errors == "classical":
        return classical
    noisy, asked = bool(question.policy.models.sd), {}
    for at, pair in enumerate(pairs):
        products = pair.products
        far = _FAR if noisy else np.inf
        most = ((1 + abs(pair.r)) * _FAR**2) ** 2
        words = ",".join(f"{v:.12g}" for v in (*pair.means, *np.diag(pair.covariance), pair.r))
        asked[f"squares {at}"] = TotalSums(
            f"correlation squares w{products.weights} {pair.names} at {words}",
            MonomialRows(products.factors, True, [ONE], 2 * products.weights), InfluenceSquares(pair, far),
            (Confidential(0.0, most, most / 16),), ((0, 0),), products.variables, (), _ROUGH if noisy else 1.0,
        )  # fmt: skip
    sums = yield SumsRequest(asked)
    out = []
    for at, (pair, least) in enumerate(zip(pairs, classical, strict=True)):
        factor = pair.n / (pair.n - 1) if errors == "hc1" else 1.0
        found = float(sums.totals(f"squares {at}").values[0]) / pair.values[0, 0] ** 2 * factor
        out.append(max(found, least / 2) if noisy else found)
    return out
