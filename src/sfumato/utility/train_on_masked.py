"""Train on masked, test on real: how well a model that learned from the release predicts real records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.attacks.attacker_file import people_of
from sfumato.attacks.prediction import Features
from sfumato.contract import DirectMeasure, NoiseModel, Release, Snooper, learned, param
from sfumato.contract.score import Score, Side, digits
from sfumato.data import Batch, Kind, Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names, plural, refuse_unknown
from sfumato.schema import Scale, Schema
from sfumato.typing import Numbers, Whole
from sfumato.utility.comparison import COMPARED, compared_columns, weighted_flag, weights_of
from sfumato.utility.propensity import folds_after, folds_of

Model = Literal["linear", "forest"]
PENALTY = 1.0
"""Weight of the squared coefficients, of columns that are standardised or 0 and 1."""
ROWS = 10_000
"""Most records that a logistic model, or a tree, is fitted to: enough for a few hundred coefficients."""
TREES = 30
NEAR = 1e-10
"""How near a logistic model comes to its best fit: scores are right to five digits, in half the time of the last ones."""
PIECE = 20_000


class Training:
    """Records to learn from: what is predicted, from which columns, with which weights and folds."""

    def __init__(self, batch: Batch, names: tuple[str, ...], y: Numbers, weights: Numbers, folds: Whole) -> None:
        self.batch, self.names, self.y, self.weights, self.folds = batch, names, y, weights, folds

    def number(self, model: Model, test: Batch, folds: Whole) -> Numbers:
        """Return the predicted number of each test record by a model trained on the records of other folds, shape (m,).

        It goes no further beyond the values that the model learned from than they are apart: where a released column hardly
        varies, real values lie millions of its standard deviations away.
        """
        if model == "forest":
            return self._forest(test, folds, 0)[:, 0]
        features = Features.of(self.batch, self.names, {}, self.y, numeric=True)
        products = {int(f): 0.0 for f in np.unique(self.folds)}
        for start in range(0, len(self.y), PIECE):
            part = np.arange(start, min(start + PIECE, len(self.y)))
            z = np.column_stack([np.ones(len(part)), features.design(self.batch.keep(part)), self.y[part]])
            for fold in np.unique(self.folds[part]):
                own = self.folds[part] == fold
                v = z[own] * np.sqrt(self.weights[part][own])[:, None]
                products[int(fold)] = products[int(fold)] + v.T @ v
        total = sum(products.values())
        out = np.empty(len(folds))
        for fold in np.unique(folds):
            gram = np.asarray(total - products.get(int(fold), 0.0))
            penalty = np.full(len(gram) - 1, PENALTY)
            penalty[0] = 1e-9 * max(gram[0, 0], 1.0)  # the intercept is free
            slopes = np.linalg.solve(gram[:-1, :-1] + np.diag(penalty), gram[:-1, -1])
            asked, learned = np.flatnonzero(folds == fold), self.y[self.folds != fold]
            low, high, room = learned.min(), learned.max(), np.ptp(learned)
            for start in range(0, len(asked), PIECE):
                rows = asked[start : start + PIECE]
                guess = slopes[0] + features.design(test.keep(rows)) @ slopes[1:]
                out[rows] = guess.clip(low - room, high + room)
        return out

    def shares(self, model: Model, k: int, test: Batch, folds: Whole) -> Numbers:
        """Return the probability of each of k classes for each test record, shape (m, k), in the same way."""
        if model == "forest":
            return self._forest(test, folds, k)
        code = self.y.astype(np.int64)
        features = Features.of(self.batch, self.names, {}, self.y, numeric=False)
        out = np.zeros((len(folds), k))
        for fold in np.unique(folds):
            rows = np.flatnonzero(self.folds != fold)
            rows = rows[:: max(1, -(-len(rows) // ROWS))]
            present, here = np.unique(code[rows], return_inverse=True)
            design = features.design(self.batch.keep(rows))
            found = kernels.regression.multinomial(design, here, len(present), PENALTY, self.weights[rows], NEAR)
            asked = np.flatnonzero(folds == fold)
            for start in range(0, len(asked), PIECE):
                part = asked[start : start + PIECE]
                out[np.ix_(part, present)] = kernels.regression.probabilities(*found, features.design(test.keep(part)))
        return out

    def _forest(self, test: Batch, folds: Whole, k: int) -> Numbers:
        """Return means, or shares of k classes, by a forest for each fold; survey weights are not used in growing it."""
        out = np.zeros((len(folds), k or 1))
        for fold in np.unique(folds):
            rows, asked = self.folds != fold, folds == fold
            batch, y = self.batch.keep(rows), self.y[rows]
            features = Features.of(batch, self.names, {}, y, numeric=not k)
            code = y.astype(np.int64) if k else np.zeros(len(y), np.int64)
            trees = kernels.forest.grow_forest(
                features.bins(batch), code, np.ones(len(y)) if k else y, k or 1, TREES, most=ROWS
            )
            out[asked] = kernels.forest.predict_forest(trees, features.bins(test.keep(asked)))
        return out


By = Literal["accuracy", "brier"]
CLASSES = 100
"""Most categories that are predicted."""
FEWEST = 10
"""Fewest records to learn from, and to test on."""


class TrainOnMasked(DirectMeasure):
    """U = 1 - (score of a model trained on the original - score of one trained on the release), both tested on real records.

    The score of a number is R² on the tested records, 1 - Σ(y - ŷ)²/Σ(y - ȳ)²; of a category the share guessed right, or minus
    the Brier score, the mean of Σ(p - hit)² over the categories. 1 is a file that was not changed; a release that teaches
    better than the original, which happens by chance, gains nothing.

    Neither model is tested on what it learned from. Records set aside before masking are the test, where the release has them
    (`hold_out`). Else the original is split into folds, by household where the schema names one: a fold is predicted by a
    model trained on the other folds of the original, and by one trained on the released records that come from the other
    folds. Simulated records are split at random, and so are the records of a release whose alignment is not known, in which a
    record may then learn from itself.

    A missing predictor is a category of its own, and one that was not released is not used. Where a predictor was recoded, the
    tested records are recoded alike. Records without a value of the column are left out.
    """

    side: ClassVar[Side] = Side.UTILITY

    column: str = param(doc="the column that is predicted", columns="one", holds="anything")
    given: tuple[str, ...] | None = param(
        default=None,
        doc="what it is predicted from; all other columns if none are named",
        columns="many",
        holds="anything",
    )
    model: Model = param(default="linear", doc="linear or logistic with a ridge, or a random forest")
    by: By = param(default="accuracy", doc="how predictions of a category are scored")
    folds: int = param(default=3, doc="number of folds, where there is no holdout", low=2, high=20, integer=True)
    weighted: bool = weighted_flag()
    memo: Any = learned("column", "given", "model", "by", "folds", "weighted", default=None)

    @override
    def validate(self) -> None:
        if self.given is not None and self.column in self.given:
            raise ParameterError(f"'{self.column}' cannot be predicted from itself. Leave it out of given=.")

    @override
    def label(self) -> str:
        return f"{self.column} predicted from " + (join_names(self.given, 3) if self.given else "the other columns")

    @override
    @property
    def variant(self) -> str:
        return f"trained on masked, tested on real, {self.model}" + (", weighted" if self.weighted else "")

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"a model trained on the release scores {digits(1 - value)} less on real records than one trained on the original"

    @override
    def columns(self, schema: Schema) -> tuple[str, ...]:
        names = self.given or tuple(a.name for a in schema if a.role in COMPARED and a.name != self.column)
        beside = (schema.one("weight") if self.weighted else None, schema.one("household"))
        return (self.column, *names, *(n for n in beside if n is not None and n not in names and n != self.column))

    def prepare(self, data: Microdata, model: NoiseModel | None = None) -> Self:
        """Make room for the original's own score, which many releases of the same file share."""
        return self.learn(memo=[])

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Train on both files, and test on the holdout or on the folds of the original."""
        names = self._predictors(outcome)
        released = self._released(outcome, names)
        target = _Target.of(outcome, self.column)
        real, folds = outcome.original, folds_of(outcome.original, self.folds)
        test, asked = (real, folds) if outcome.holdout is None else (outcome.holdout, np.full(len(outcome.holdout), -1))
        with np.errstate(over="ignore", invalid="ignore"):
            before = self._before(
                outcome, lambda: self._score(self._training(real, names, target, folds), target, test, test, asked)
            )
            recoded = people_of(outcome, Snooper(), test, released, None, None)
            after = []
            for data in outcome.implicates:
                own = folds_after(real, data, folds, self.folds)
                after.append(self._score(self._training(data, released, target, own), target, test, recoded, asked))
        masked = float(np.mean(after))
        loss = before - masked if target.values is None or self.by == "accuracy" else masked - before
        title = "R²" if target.values is None else "Brier score" if self.by == "brier" else "share guessed right"
        where = "on records set aside" if outcome.holdout is not None else f"in {self.folds} folds"
        words = (
            f"{title} {digits(masked)} on real records if trained on the release, {digits(before)} if on the original; "
            f"tested {where}"
        )
        if outcome.holdout is None and outcome.recipe is None and not outcome.aligned:
            words += (
                "; it is not known which record is whose, so the release may be tested on what it taught (give align=... or a "
                "holdout)"
            )
        details = {f"{title}, trained on the original": before, f"{title}, trained on the release": masked}
        return self.result(1.0 - max(loss, 0.0), words, details=details)

    def _before(self, outcome: Release, find: Callable[[], float]) -> float:
        """Return the score of the model trained on the original; it is found once for the same files."""
        files = (outcome.original, outcome.holdout)
        for known, score in self.memo or ():
            if all(a is b for a, b in zip(known, files, strict=True)):
                return float(score)
        score = find()
        if self.memo is not None:
            self.memo[:] = [(files, score)]
        return score

    def _predictors(self, outcome: Release) -> tuple[str, ...]:
        refuse_unknown("column", outcome.original.engine.kinds, "the data", self.column, error=DataError)
        names = tuple(n for n in compared_columns(outcome.original, self.given) if n != self.column)
        if not names:
            raise NotApplicable(
                f"there is no other column to predict '{self.column}' from (a key, confidential or other one)."
            )
        return names

    def _released(self, outcome: Release, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the predictors that the release has; refuse those whose values cannot be put in the release's terms."""
        kept = tuple(n for n in names if n in outcome.masked.engine.kinds)
        if not kept:
            raise NotApplicable(f"nothing is released that '{self.column}' could be predicted from.")
        for name in kept:
            was, now = outcome.original.kind(name), outcome.masked.kind(name)
            if was is not now and not (outcome.aligned and now is Kind.CATEGORY):
                way = (
                    "Say which record is whose with Release.of(original, masked, align=...), or leave it out of given=."
                )
                raise NotApplicable(
                    f"column '{name}' holds {was} in the original and {now} in the release, so a model of the one cannot be "
                    f"tested on the other. {way if now is Kind.CATEGORY else 'Leave it out of given=.'}"
                )
        return kept

    def _training(self, data: Microdata, names: tuple[str, ...], target: _Target, folds: Whole) -> Training:
        y, weights = target.read(data), weights_of(data, self.weighted)
        weights = np.ones(len(y)) if weights is None else weights / (weights.mean() or 1.0)
        batch = data.batch([*names])
        order = np.argsort(batch.ids, kind="stable")  # the same records in another order teach the same
        rows = order[(~np.isnan(y) & (weights > 0))[order]]
        enough = len(rows) if (folds[rows] < 0).any() or not len(rows) else len(rows) - np.bincount(folds[rows]).max()
        if enough < FEWEST:
            raise NotApplicable(
                f"'{self.column}' has values in too few records to learn from: {plural(int(enough))} in the smallest part, and "
                f"at least {FEWEST} are needed."
            )
        return Training(batch.keep(rows), names, y[rows], weights[rows], folds[rows])

    def _score(self, training: Training, target: _Target, test: Microdata, seen: Microdata, folds: Whole) -> float:
        """Return R², the share guessed right or the Brier score on test records; `seen` has what is known of them."""
        y, weights = target.read(test), weights_of(test, self.weighted)
        weights = np.ones(len(y)) if weights is None else weights
        known = ~np.isnan(y) & (weights > 0)
        if known.sum() < FEWEST:
            raise NotApplicable(
                f"'{self.column}' has values in too few records to test on; at least {FEWEST} are needed."
            )
        y, w, batch = y[known], weights[known] / weights[known].sum(), seen.batch([*training.names]).keep(known)
        if target.values is None:
            spread = float(w @ (y - w @ y) ** 2)
            if not spread > 1e-24 * float(w @ (y * y)):
                raise DataError(f"'{self.column}' does not vary in the tested records, so there is nothing to predict.")
            return 1.0 - float(w @ (y - training.number(self.model, batch, folds[known])) ** 2) / spread
        shares = training.shares(self.model, len(target.values), batch, folds[known])
        code = y.astype(np.int64)
        if self.by == "accuracy":
            return float(w @ (shares.argmax(axis=1) == code))
        own = shares[np.arange(len(code)), code]
        return float(w @ ((shares**2).sum(axis=1) - 2 * own + 1))


@dataclass(frozen=True, eq=False)
class _Target:
    """How the predicted column is read, alike from all files."""

    column: str
    scale: float
    """What numbers are divided by, so that their squares have room."""
    values: Mapping[Any, int] | None
    """The code of each category that any of the files has; None for numbers."""

    @classmethod
    def of(cls, outcome: Release, column: str) -> _Target:
        """Look at the column in every file; refuse one that was not released, or holds something else there."""
        kind = outcome.original.kind(column)
        if column not in outcome.masked.engine.kinds:
            raise NotApplicable(f"column '{column}' is not released, so no model of it can be trained on the release.")
        if kind is Kind.OTHER or outcome.masked.kind(column) is not kind:
            raise NotApplicable(
                f"column '{column}' holds {kind} in the original and {outcome.masked.kind(column)} in the release, so that "
                "predictions of the one cannot be tested on the other. Recode the original alike, or predict another column."
            )
        files = [outcome.original, *outcome.implicates, *(() if outcome.holdout is None else (outcome.holdout,))]
        if kind is Kind.NUMBER and outcome.original.schema[column].scale is Scale.ORDERED:
            numbers = [data.numbers(column) for data in files]
            if any(np.isinf(x).any() for x in numbers):
                raise DataError(
                    f"column '{column}' holds infinite values, which cannot be compared. Set them to missing."
                )
            return cls(column, float(np.nanmax(np.abs(numbers[0]), initial=0.0)) or 1.0, None)
        values: dict[Any, int] = {}
        for data in files:
            batch = data.batch([column])
            codes, own = batch.column(column).codes
            for at in np.unique(codes[~batch.missing(column)]):
                values.setdefault(own[at], len(values))
        if len(values) > CLASSES:
            raise NotApplicable(
                f"column '{column}' has {len(values):,} categories, and at most {CLASSES} are predicted. Recode it to fewer."
            )
        return cls(column, 1.0, values)

    def read(self, data: Microdata) -> Numbers:
        """Return numbers, or codes of categories, shape (n,); NaN where missing."""
        if self.values is None:
            return data.numbers(self.column) / self.scale
        batch: Batch = data.batch([self.column])
        codes, own = batch.column(self.column).codes
        table = np.array([*(self.values.get(v, np.nan) for v in own), np.nan])
        return np.where(batch.missing(self.column), np.nan, table[codes])
