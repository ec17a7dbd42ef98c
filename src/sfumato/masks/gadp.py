"""General additive data perturbation: numbers replaced so that their covariances with other columns stay."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, MatrixForm, check_numbers, param
from sfumato.errors import NotApplicable, listing
from sfumato.masks.conditional_normal import ConditionalNormal, standard_normals
from sfumato.microdata import Batch, Microdata

Numbers = NDArray[np.float64]


class GADP(ConditionalNormal):
    """General additive data perturbation (Muralidhar, Parsa and Sarathy 1999): Y = μ + κ(X - μ) + ε.

    μ = E(X | S) is the normal regression of the masked columns X on the given columns S, and ε ~ N(0, (1 - κ²) Σ(X|S)).
    Then (Y, S) has the mean and the covariance of (X, S), whatever κ. With κ = 0 (`similarity`), Y says nothing about X
    that S does not say already. Columns that describe households are masked once per household, given those of S that describe
    households; the others are then masked given S and what is released for the household.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = GADP("salary", given=["age", "sex"]).apply(teachers(500), Draws(1))
    >>> len(release.masked)
    500
    """

    no_matrix: ClassVar[str] = "its given columns hold categories, or values are missing"

    similarity: float = param(
        default=0.0,
        doc="κ: correlation of released and original value given the other columns; 0 is the safest",
        low=0,
        high=0.999,
    )

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw the released values of each record."""
        check_numbers(batch, self.masked)
        out = batch
        for name, values in self._released(batch, draws).items():
            out = out.replace(name, partial(np.asarray, values))
        return out

    def _released(self, batch: Batch, draws: Draws) -> dict[str, Numbers]:
        """Return what is released for each column, before whole numbers and bounds."""
        k, new = self.similarity, dict[str, Numbers]()
        for model in self.models:
            x = np.column_stack([batch.numbers(n) for n in model.targets])
            centre = model.predict(batch, [new[n] for n in model.earlier])
            was = model.predict(batch, [batch.numbers(n) for n in model.earlier]) if model.earlier else centre
            noise = standard_normals(batch, model.targets, draws) @ model.root.T
            y = centre + k * (x - was) + np.sqrt(1 - k**2) * noise
            new |= dict(zip(model.targets, y.T, strict=True))
        return new

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB + C on the masked and the given columns, if all are numbers and none is missing."""
        fitted = self if self.is_fitted else self.fit(data, draws)
        given = fitted.models[-1].given
        names = (*fitted.masked, *(g.name for g in given))
        batch = data.batch()
        if any(g.levels is not None or g.gaps for g in given) or any(np.isnan(batch.numbers(n)).any() for n in names):
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C here: {self.no_matrix}.")
        k, b = self.similarity, np.eye(len(names))
        for model in fitted.models:
            z = [names.index(g.name) for g in model.given]
            earlier, x = [names.index(n) for n in model.earlier], [names.index(n) for n in model.targets]
            on_given, on_earlier = model.beta[: len(z)], model.beta[len(z) :]
            b[:, x] *= k
            b[np.ix_(z, x)] += (1 - k) * on_given
            b[:, x] += b[:, earlier] @ on_earlier
            b[np.ix_(earlier, x)] -= k * on_earlier
        numbers = np.column_stack([batch.numbers(n) for n in names])
        released = fitted._released(batch, draws)
        c = np.column_stack([released.get(n, batch.numbers(n)) for n in names]) - numbers @ b
        return MatrixForm(names, names, B=b, C=c, random=("C",), depends=("B", "C"))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what the released values depend on."""
        given = [g.name for g in self.models[-1].given]
        says = f"{listing(self.masked)}: means and covariances with each other and with {listing(given)} are kept on average"
        first = Guarantee(step, says, "by construction: drawn from the regression learned from the data")
        if self.similarity:
            return (first, *self.said(before.schema, step))
        says = (
            f"{listing(self.masked)}: released values depend on a record's given columns alone, not on its own values"
        )
        return (first, Guarantee(step, says, "by construction: similarity = 0"), *self.said(before.schema, step))
