"""The prediction attack: fit a model to the release, and predict each person's confidential value from the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato import kernels
from sfumato.attacks.attacker_file import attribution_keys, check_in_common, people_of
from sfumato.attacks.attribution import Attribution
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.data import Batch, Kind, Microdata
from sfumato.errors import DataError, NotApplicable
from sfumato.kernels.moments import is_constant
from sfumato.typing import Flags, Numbers, Whole

Model = Literal["forest", "linear", "classes"]
MODELS = {
    "forest": "a random forest of 100 trees",
    "linear": "a linear model with a small ridge",
    "classes": "the released records with the nearest keys",
}
"""The models, in words."""
_LEVELS = 60
"""Most categories of a key that a model tells apart; the rarer ones are taken together."""
_PENALTY = 1.0
"""Weight of the squared coefficients of a linear model, whose columns are standardised or 0 and 1."""
_ROWS = 20_000
"""Most released records that a linear model is fitted to."""
_VALUES = 1_000
"""Most values of a confidential column that a model tells apart."""
Predict = Callable[[Batch], Numbers]


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a model fitted to the release says of m targets."""

    known: Flags
    """Which records of the targets' file have a value, shape (n,): the m targets."""
    truth: Numbers
    """Their values, shape (m,): numbers, or codes into `values`."""
    guess: Numbers
    """The predicted number, or the likeliest code, shape (m,)."""
    probability: Numbers | None
    """The model's probability of the true value, shape (m,); None for numbers."""
    sure: Numbers | None
    """The model's probability of its guess, shape (m,); None for numbers."""
    values: Sequence[Any] | None
    """What the codes stand for."""


class PredictByModel(Attack):
    """A snooper fits a model to the release, and predicts the confidential value of each person from the keys.

    The models are our own and small: a random forest (100 trees on at most 20,000 records each), a linear model with a ridge
    (multinomial logistic for categories, on at most 20,000 records), or the released records with the nearest keys. A cleverer
    snooper may do better. A missing key is a value of its own; records without the confidential value are left out on both
    sides. He may have some of the persons only, and some keys wrong (`Snooper.coverage`, `Snooper.errors`); a file of his own is
    not used. Where keys were recoded, he recodes what he knows in the same way, which is learned from the alignment.
    """

    column: str = param(doc="the confidential column he wants to know", columns="one", holds="anything")
    model: Model = param(default="forest", doc="what he fits to the release")
    tolerance: float = param(
        default=0.1, doc="a predicted number is right within this share of the true one", low=0, above=True
    )

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack every original record that has a value; random is only whom the snooper has, and which keys are wrong."""
        found = self.predicted(outcome, snooper, draws)
        if found.values is None:
            right = np.abs(found.guess - found.truth) <= self.tolerance * np.abs(found.truth)
            plain = np.abs(np.median(found.truth) - found.truth) <= self.tolerance * np.abs(found.truth)
        else:
            right = found.guess == found.truth
            plain = found.truth == np.argmax(np.bincount(found.truth.astype(np.int64)))
        ids = outcome.original.batch([]).ids[found.known]
        return Guesses(ids, found.guess, found.truth, right.astype(np.float64), plain.astype(np.float64), found.sure)

    def predicted(
        self, outcome: Release, snooper: Snooper, draws: Draws, targets: Microdata | None = None
    ) -> Predicted:
        """Return what the model says of the original's records, or of others (a holdout), as far as the snooper knows them."""
        keys = attribution_keys(outcome, snooper, self.column)
        if self.model == "classes":
            return self._by_classes(outcome, snooper, draws, targets)
        people = outcome.original if targets is None else targets
        people = people_of(outcome, snooper, people, keys, self.column, draws)
        batch = people.batch([*keys, self.column])
        if targets is None:
            # refuse categories that nobody has in both files; a model makes something of any number
            released = outcome.masked.batch(keys)
            for name in keys:
                if released.column(name).kind is not Kind.NUMBER:
                    check_in_common(name, batch.codes(name), released.codes(name))
        predict, values = self._fitted(outcome, snooper, keys)
        known, truth = _target(batch, self.column, values)
        prediction = predict(batch.keep(known))
        if values is None:
            return Predicted(known, truth, prediction[:, 0], None, None, None)
        own = np.zeros(len(truth))  # a value that the release does not have has probability 0
        seen = truth < prediction.shape[1]
        own[seen] = prediction[np.flatnonzero(seen), truth[seen].astype(np.int64)]
        return Predicted(
            known, truth, prediction.argmax(axis=1).astype(np.float64), own, prediction.max(axis=1), values
        )

    def _by_classes(self, outcome: Release, snooper: Snooper, draws: Draws, targets: Microdata | None) -> Predicted:
        attack = Attribution(
            column=self.column, near="relative", tolerance=self.tolerance, missing="value", unmatched="nearest"
        )
        found = attack.attributed(outcome, snooper, draws, targets)
        spread = found.targets.per_record
        known = ~np.isnan(spread(found.drawn))
        if not len(found.held.of):
            raise NotApplicable(_nothing(self.column))
        truth, guess, own, sure = (
            spread(part)[known] for part in (found.targets.value, found.guess, found.drawn, found.sure)
        )
        if found.targets.values is None:
            return Predicted(known, truth, guess, None, None, None)
        return Predicted(known, truth, guess, own, sure, found.targets.values)

    def _fitted(
        self, outcome: Release, snooper: Snooper, keys: tuple[str, ...]
    ) -> tuple[Predict, Sequence[Any] | None]:
        """Return the model fitted to the release once, and what its codes stand for."""
        key = ("model", self.column, self.model, keys, tuple(sorted(snooper.precision.items())))
        if key not in outcome.memory:
            released = outcome.masked.batch([*keys, self.column])
            numeric = outcome.masked.kind(self.column) is Kind.NUMBER
            values = None if numeric else [*released.column(self.column).codes[1]]
            known, y = _target(released, self.column, values)
            if not known.any():
                raise NotApplicable(_nothing(self.column))
            if values is not None and len(values) > _VALUES:
                raise NotApplicable(
                    f"column '{self.column}' has {len(values):,} different values, and a model tells at most {_VALUES:,} apart. "
                    "Use model='classes', or a coarser column."
                )
            features = Features.of(released.keep(known), keys, snooper.precision, y, numeric)
            fit = _forest if self.model == "forest" else _linear
            outcome.memory[key] = (
                fit(features, released.keep(known), y, None if values is None else len(values)),
                values,
            )
        found: tuple[Predict, Sequence[Any] | None] = outcome.memory[key]
        return found


@dataclass(frozen=True, eq=False)
class Features:
    """How keys become columns of a model: learned from the release, applied to any records."""

    keys: tuple[str, ...]
    widths: Mapping[str, float]
    cuts: Mapping[str, Numbers]
    """Of numeric keys, what the bins end at."""
    scales: Mapping[str, tuple[float, float]]
    """Of numeric keys, mean and standard deviation."""
    levels: Mapping[str, Mapping[Any, int]]
    """Of the other keys, the bin of each category: by the mean of what is predicted, so that a cut sorts them."""

    @classmethod
    def of(
        cls, batch: Batch, keys: tuple[str, ...], widths: Mapping[str, float], y: Numbers, numeric: bool
    ) -> Features:
        """Learn from the released records; y is what will be predicted, shape (n,)."""
        level = y if numeric else (y == np.argmax(np.bincount(y.astype(np.int64)))).astype(np.float64)
        cuts, scales, levels = {}, {}, {}
        for name in keys:
            if batch.column(name).kind is Kind.NUMBER:
                x = _rounded(batch, name, widths)
                x = x[~np.isnan(x)]
                distinct = np.unique(x)
                ends = (
                    distinct
                    if len(distinct) < kernels.forest.BINS - 1
                    else np.unique(np.quantile(x, np.linspace(0, 1, kernels.forest.BINS - 1)))
                )
                cuts[name] = ends[:-1] if len(ends) else ends
                scales[name] = _scale(x)
            else:
                codes, values = batch.codes(name)
                counts = np.bincount(codes[codes >= 0], minlength=len(values))
                common = np.argsort(-counts, kind="stable")[:_LEVELS]
                means = np.bincount(codes[codes >= 0], level[codes >= 0], len(values)) / np.maximum(counts, 1)
                order = common[np.argsort(means[common], kind="stable")]
                levels[name] = {values[c]: i + 1 for i, c in enumerate(order) if counts[c]}
        return cls(keys, dict(widths), cuts, scales, levels)

    def bins(self, batch: Batch) -> Whole:
        """Return the keys as bins, shape (n, p): 0 is missing, or a category that is rare or not in the release."""
        columns = []
        for name in self.keys:
            if name in self.levels:
                columns.append(self._level(batch, name))
            else:
                x = _rounded(batch, name, self.widths)
                columns.append(np.where(np.isnan(x), 0, 1 + np.searchsorted(self.cuts[name], x, side="left")))
        return np.ascontiguousarray(np.column_stack(columns).astype(np.int64))

    def design(self, batch: Batch) -> Numbers:
        """Return the keys as columns of a linear model, shape (n, q): numbers standardised, categories as dummies."""
        columns: list[Numbers] = []
        for name in self.keys:
            if name in self.levels:
                level = self._level(batch, name)
                columns.append((level[:, None] == np.arange(len(self.levels[name]) + 1)).astype(np.float64))
            else:
                mean, sd = self.scales[name]
                z = (_rounded(batch, name, self.widths) - mean) / sd
                gap = np.isnan(z)
                columns.append(np.column_stack([np.where(gap, 0.0, z), gap.astype(np.float64)]))
        return np.column_stack(columns)

    def _level(self, batch: Batch, name: str) -> Whole:
        codes, values = batch.codes(name)
        return np.array([*(self.levels[name].get(v, 0) for v in values), 0], np.int64)[codes]


def _scale(x: Numbers) -> tuple[float, float]:
    """Return mean and standard deviation; 1 for numbers that do not vary, up to rounding."""
    if not len(x):
        return 0.0, 1.0
    mean, sd = float(x.mean()), float(x.std())
    return mean, 1.0 if is_constant(np.array(mean), np.array(sd * sd)) else sd


def _forest(features: Features, released: Batch, y: Numbers, k: int | None) -> Predict:
    code = np.zeros(len(y), np.int64) if k is None else y.astype(np.int64)
    value = y if k is None else np.ones(len(y))
    trees = kernels.forest.grow_forest(features.bins(released), code, value, k or 1)
    return lambda batch: kernels.forest.predict_forest(trees, features.bins(batch))


def _linear(features: Features, released: Batch, y: Numbers, k: int | None) -> Predict:
    step = max(1, -(-len(y) // _ROWS))  # every step-th record: enough for a few hundred coefficients
    some, known = released.keep(np.arange(0, len(y), step)), y[::step]
    if k is None:
        level, slopes = kernels.regression.ridge(features.design(some), known, _PENALTY)
        return lambda batch: _in_pieces(batch, lambda part: (level + features.design(part) @ slopes)[:, None])
    found = kernels.regression.multinomial(features.design(some), known.astype(np.int64), k, _PENALTY)
    return lambda batch: _in_pieces(batch, lambda part: kernels.regression.probabilities(*found, features.design(part)))


def _in_pieces(batch: Batch, predict: Predict) -> Numbers:
    """Predict in pieces of records: the columns of a model take more room than the keys."""
    ends = range(0, max(len(batch), 1), _ROWS)
    return np.concatenate([predict(batch.keep(np.arange(at, min(at + _ROWS, len(batch))))) for at in ends])


def _rounded(batch: Batch, name: str, widths: Mapping[str, float]) -> Numbers:
    """Return a numeric key to the precision that the snooper knows it to."""
    x = batch.numbers(name)
    return np.floor(x / widths[name]) * widths[name] if name in widths else x


def _target(batch: Batch, column: str, values: Sequence[Any] | None) -> tuple[Flags, Numbers]:
    """Return which records have a value, and those values: numbers, or codes into `values`, other ones after its end."""
    if values is None:
        y = batch.numbers(column)
        if np.isinf(y).any():
            raise DataError(f"column '{column}' holds infinite values, which cannot be compared. Set them to missing.")
        return ~np.isnan(y), y[~np.isnan(y)]
    codes, own = batch.codes(column)
    numbering = {value: i for i, value in enumerate(values)}
    table = np.array([*(numbering.setdefault(v, len(numbering)) for v in own), -1], np.float64)
    return codes >= 0, table[codes[codes >= 0]]


def _nothing(column: str) -> str:
    return f"no released record has a value of '{column}', so that there is nothing to learn from."
