"""Correlations of numbers, each pair over the records that have both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import param
from sfumato.errors import ParameterError
from sfumato.mas.accounts import Sets
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.models.influence import ERRORS, default_covariance_type
from sfumato.mas.models.layout import Complete
from sfumato.mas.models.model import EMPTY, notes_of
from sfumato.mas.models.noise import key_of
from sfumato.mas.models.pairs import PairMoments, pairs_of
from sfumato.mas.perturbation import significant
from sfumato.mas.question import Analysis, Findings, Question, numbers_in
from sfumato.mas.variable import Variable


class Correlation(Analysis):
    """Pearson's correlation of every two of some variables, with standard errors.

    Pairwise complete: a pair has the same answer in every question, whatever other variables are asked for with it.
    """

    of: tuple[str, ...] = param(doc="the variables, at least two", columns="many")
    weighted: bool = param(default=False, doc="whether records count by their survey weights")
    errors: str = param(
        default="usual", choices=ERRORS,
        doc="standard errors: classical, robust (hc0, hc1), of the survey's design, or the usual ones for the weights",
    )  # fmt: skip

    @override
    def validate(self) -> None:
        if len(self.of) < 2:
            raise ParameterError("a correlation needs at least two variables.")

    @override
    def wording(self) -> str:
        return f"correlation:{sorted(self.of)}:{self.weighted}:{self.errors}"

    @override
    def wording_for(self, dataset: Dataset) -> str:
        return self.with_(errors=default_covariance_type(self.errors, self.weighted, dataset)).wording()

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        """Return the variables, in order of their names."""
        return tuple(numbers_in(name, known) for name in sorted(self.of))

    def run(self, question: Question) -> Findings | Refusal:
        """Add up products, let the rules look, add noise, and round."""
        if self.weighted and question.dataset.weight is None:
            raise ParameterError("this data set has no survey weights. Ask for the correlation without weights.")
        variables = self.variables(question.dataset.variables)
        names = [v.name for v in variables]
        pairs = pairs_of(question, variables, self.weighted)
        places = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
        sizes = {} if pairs is None else {at: _size(question, pairs, at) for at in places}
        question.results.update(n=min((float(one.sizes) for one in sizes.values()), default=0.0), coefficients=0)
        if (refusal := question.refused("result")) is not None:
            return refusal
        if pairs is None:
            return EMPTY
        if pairs.counts.min() < 3 or (pairs.constant and not question.policy.models.sd):
            return Refusal(
                "no_variation", "A variable does not vary here.", "Leave it out, or choose a larger universe."
            )
        question.results["correlation"] = max(abs(float(pairs.noisy[at])) for at in places)
        if (refusal := question.refused("result")) is not None:
            return refusal
        kind = default_covariance_type(self.errors, self.weighted, question.dataset)
        rows = _rows(question, pairs, names, places, kind, sizes)
        found = {(row["variable"], row["with"]): row["correlation"] for row in rows}
        matrix = [
            {"variable": a, **{b: 1.0 if a == b else found.get((a, b), found.get((b, a))) for b in names}}
            for a in names
        ]
        notes = notes_of(question, kind, gaps=False, weighted=self.weighted)
        notes.insert(0, "Each correlation is over the records that have both variables (pairwise complete).")
        return Findings(
            {"correlations": matrix, "pairs": rows}, {}, tuple(notes), _sets(question, names, places, sizes)
        )


def _size(question: Question, pairs: PairMoments, at: tuple[int, int]) -> Sets:
    """Return how many records have both of a pair, as rules and answers see it."""
    both = [(pairs.numbers[i], pairs.bounds[i]) for i in at]
    return Complete.of(question, both, {}).count(float(pairs.counts[at]), pairs.kept)


def _rows(
    question: Question, pairs: PairMoments, names: list[str], places: list[tuple[int, int]], kind: str,
    sizes: Mapping[tuple[int, int], Sets],
) -> list[dict[str, Any]]:  # fmt: skip
    settings, counts = question.policy.models, question.policy.counts
    variances = pairs.variances(places, kind)
    rows = []
    for at, variance in zip(places, variances, strict=True):
        value = significant(np.clip(pairs.noisy[at], -1, 1), settings.digits)
        error = significant(np.sqrt(variance + pairs.noise_variance(at)), settings.error_digits)
        n = float(counts.shown(sizes[at].sizes.reshape(1))[0])
        rows.append({
            "variable": names[at[0]], "with": names[at[1]], "correlation": float(value), "standard error": float(error),
            "n": None if np.isnan(n) else n,
        })  # fmt: skip
    return rows


def _sets(
    question: Question, names: list[str], places: list[tuple[int, int]], sizes: Mapping[tuple[int, int], Sets]
) -> tuple[Sets, ...]:
    """Return two charges for each pair: of the correlation, and of how many records have both."""
    plain = question.selection.plain
    keys = [key_of(question, "answer", "correlation", names[i], names[j]) for i, j in places]
    made = [Sets(plain, (), (key,), sizes[at].sizes) for key, at in zip(keys, places, strict=True)]
    return (*made, *sizes.values())
