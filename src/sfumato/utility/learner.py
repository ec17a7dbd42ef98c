"""A prediction from other columns, trained on the records of other folds: linear with a ridge, or a forest."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.model import Features
from sfumato.microdata import Batch

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]
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

    def __init__(self, batch: Batch, names: tuple[str, ...], y: Numbers, weights: Numbers, folds: Codes) -> None:
        self.batch, self.names, self.y, self.weights, self.folds = batch, names, y, weights, folds

    def number(self, model: Model, test: Batch, folds: Codes) -> Numbers:
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
            z = _with_one(features.design(self.batch.keep(part)), self.y[part])
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

    def shares(self, model: Model, k: int, test: Batch, folds: Codes) -> Numbers:
        """Return the probability of each of k classes for each test record, shape (m, k), in the same way."""
        if model == "forest":
            return self._forest(test, folds, k)
        from sfumato.kernels.linear_models import multinomial, probabilities

        code = self.y.astype(np.int64)
        features = Features.of(self.batch, self.names, {}, self.y, numeric=False)
        out = np.zeros((len(folds), k))
        for fold in np.unique(folds):
            rows = np.flatnonzero(self.folds != fold)
            rows = rows[:: max(1, -(-len(rows) // ROWS))]
            present, here = np.unique(code[rows], return_inverse=True)
            design = features.design(self.batch.keep(rows))
            found = multinomial(design, here, len(present), PENALTY, self.weights[rows], NEAR)
            asked = np.flatnonzero(folds == fold)
            for start in range(0, len(asked), PIECE):
                part = asked[start : start + PIECE]
                out[np.ix_(part, present)] = probabilities(*found, features.design(test.keep(part)))
        return out

    def _forest(self, test: Batch, folds: Codes, k: int) -> Numbers:
        """Return means, or shares of k classes, by a forest for each fold; survey weights are not used in growing it."""
        from sfumato.kernels.forest import grow_forest, predict_forest

        out = np.zeros((len(folds), k or 1))
        for fold in np.unique(folds):
            rows, asked = self.folds != fold, folds == fold
            batch, y = self.batch.keep(rows), self.y[rows]
            features = Features.of(batch, self.names, {}, y, numeric=not k)
            code = y.astype(np.int64) if k else np.zeros(len(y), np.int64)
            trees = grow_forest(features.bins(batch), code, np.ones(len(y)) if k else y, k or 1, TREES, most=ROWS)
            out[asked] = predict_forest(trees, features.bins(test.keep(asked)))
        return out


def _with_one(design: Numbers, y: Numbers) -> Numbers:
    return np.column_stack([np.ones(len(design)), design, y])
