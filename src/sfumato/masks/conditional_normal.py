"""Numbers given other columns: the normal regression behind GADP and normal synthesis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, learned, numeric_targets
from sfumato.engines import Rows
from sfumato.errors import DataError, listing
from sfumato.kernels.copula import regress
from sfumato.kernels.moments import centred_products, covariance_root, first_pass, is_constant
from sfumato.masks.given_columns import PIECE, Given, MaskGiven, describes_household, learn_given, pooled_guarantee
from sfumato.microdata import Batch, Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regression:
    """Normal regression of some columns on others: X = x̄ + (Z - z̄)β + e, e ~ N(0, Σ)."""

    targets: tuple[str, ...]
    given: tuple[Given, ...]
    earlier: tuple[str, ...]
    """Household columns that were masked before, and are regressors too."""
    count: int
    z_mean: Numbers
    x_mean: Numbers
    beta: Numbers
    """Shape (q, p)."""
    residual: Numbers
    """Σ (p, p), divisor n - 1."""
    half: Numbers
    """H (q, r) with HH' = ((Z - z̄)'(Z - z̄))⁺."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.count - 1 - int(self.half.shape[1])

    def predict(self, batch: Batch, earlier: Sequence[Numbers]) -> Numbers:
        """Return E(X | Z) of each record, shape (n, p); a missing household value counts as its mean."""
        out = np.tile(self.x_mean - self.z_mean @ self.beta, (len(batch), 1))
        at = 0
        for g in self.given:
            out += g.times(g.read(batch), self.beta[at : at + g.width])
            at += g.width
        for values in earlier:
            out += np.where(np.isnan(values), self.z_mean[at], values)[:, None] * self.beta[at]
            at += 1
        return out

    @property
    def root(self) -> Numbers:
        """A triangular root of the residual covariance, shape (p, p)."""
        return covariance_root(self.residual)

    def drawn(self, draws: Draws, proper: bool) -> Regression:
        """Return the regression with parameters drawn from their posterior, or as they are estimated.

        Under the prior |Σ|^(-(p+1)/2), Σ ~ inverse Wishart(ν, E'E) with ν the degrees of freedom of the residuals E, the
        coefficients are normal about the estimates with covariance Σ ⊗ (Z'Z)⁻¹, and the mean with Σ/n.
        """
        products = self.residual * (self.count - 1)
        if not proper:
            return replace(self, residual=products / self.freedom)
        from scipy.special import gammaincinv

        p, rank, label = len(self.targets), self.half.shape[1], "/".join(self.targets)
        z = draws.normals(np.arange(p * (p + rank + 1)), f"posterior normals {label}").reshape(-1, p)
        u = draws.uniforms(np.arange(p), f"posterior chi-square {label}")
        # Bartlett (1933): a Wishart matrix is AA', A triangular, its squared diagonal chi-square
        a = np.tril(z[:p], -1) + np.diag(np.sqrt(2 * gammaincinv((self.freedom - np.arange(p)) / 2, u)))
        root = covariance_root(products) @ np.linalg.inv(a).T
        return replace(
            self,
            residual=root @ root.T,
            x_mean=self.x_mean + root @ z[p] / np.sqrt(self.count),
            beta=self.beta + self.half @ z[p + 1 :] @ root.T,
        )


def standard_normals(batch: Batch, names: Sequence[str], draws: Draws) -> Numbers:
    """Return a draw for each record (household, where the column describes it) and column, shape (n, p)."""
    return np.column_stack([draws.normals(batch.units(name), name) for name in names])


def learn_regressions(
    data: Microdata, names: tuple[str, ...], given: tuple[Given, ...], why: str
) -> tuple[Regression, ...]:
    """Learn the regressions: of household columns on given household columns, then of the others on all of these.

    A household's value must not hang on one of its members, hence the two. Moments are over the records that have all
    the columns. `why` says in an error what they are for.
    """
    homes = tuple(n for n in names if describes_household(data.schema, n))
    people = tuple(n for n in names if n not in homes)
    every = (*homes, *people)
    mean, products, count = _moments(data, given, every)
    q = sum(g.width for g in given)
    variance = np.diag(products) / max(count - 1, 1)
    check_spread(every, count, mean[q:], variance[q:], why)
    if not np.isfinite(variance).all():
        raise DataError("a given column holds infinite or huge values. Set them to missing, or leave it out of given=.")
    starts = np.cumsum([0, *(g.width for g in given)])
    made = []
    for targets, earlier, used in (
        (homes, (), [g for g in given if describes_household(data.schema, g.name)]),
        (people, homes, list(given)),
    ):
        if not targets:
            continue
        z = [k for i, g in enumerate(given) if g in used for k in range(starts[i], starts[i + 1])]
        x = [q + every.index(n) for n in targets]
        # what is masked before may determine a column, what is released as it is may not
        _check_determined(targets, regress(products[np.ix_([*z, *x], [*z, *x])], len(z))[1], np.diag(products)[x])
        z += [q + every.index(n) for n in earlier]
        beta, residual, half = regress(products[np.ix_([*z, *x], [*z, *x])], len(z))
        model = Regression(
            targets, tuple(used), earlier, count, mean[z], mean[x], beta, residual / max(count - 1, 1), half
        )
        check_freedom(model, why)
        made.append(model)
    return tuple(made)


def _moments(data: Microdata, given: tuple[Given, ...], names: tuple[str, ...]) -> tuple[Numbers, Numbers, int]:
    """Return mean, centred cross-products and number of the records that have all the names."""
    schema = data.schema
    columns = list(dict.fromkeys([*(g.name for g in given), *names]))

    def pieces(rows: Rows) -> Iterator[Numbers]:
        batch = Batch(rows, schema)
        reads, x = [g.read(batch) for g in given], [batch.numbers(n) for n in names]
        for start in range(0, max(len(batch), 1), PIECE):
            part = slice(start, start + PIECE)
            yield np.column_stack(
                [*(g.matrix(r[part]) for g, r in zip(given, reads, strict=True)), *(c[part] for c in x)]
            )

    sums = data.engine.reduce(lambda rows: sum(map(first_pass, pieces(rows))), columns)  # type: ignore[arg-type, return-value]
    count, mean = int(sums[0]), sums[1:] / max(sums[0], 1)
    products = data.engine.reduce(
        lambda rows: sum(centred_products(p, mean) for p in pieces(rows)),  # type: ignore[arg-type, return-value]
        columns,
    )
    return mean, products, count


def check_spread(names: tuple[str, ...], count: int, mean: Numbers, variance: Numbers, why: str) -> None:
    """Refuse columns without enough answers, without a variance, or with values that have none."""
    if count < 3:
        raise DataError(
            f"{listing(names)}: fewer than three records have an answer in {'all of them' if len(names) > 1 else 'it'}, too "
            f"few {why}. Mask columns with more answers, or in separate steps."
        )
    if wild := [n for n, v in zip(names, variance, strict=True) if not np.isfinite(v)]:
        raise DataError(
            f"{listing(wild)}: some values are infinite or too large to square. Set them to missing, or leave the column out."
        )
    if still := [n for n, c in zip(names, is_constant(mean, variance), strict=True) if c]:
        raise DataError(
            f"{listing(still)} is constant, so there is no distribution to draw from. Leave it out of columns=."
        )


def check_freedom(model: Regression, why: str) -> None:
    """Refuse more regressors than records."""
    if model.freedom < len(model.targets):
        raise DataError(
            f"{model.count:,} records with answers in {listing(model.targets)} are too few {why} given "
            f"{len(model.beta):,} regressors. Give fewer columns (given=...), or coarser ones."
        )


def _check_determined(names: tuple[str, ...], residual: Numbers, variance: Numbers) -> None:
    """Refuse columns that the given ones determine."""
    if fixed := [n for n, r, v in zip(names, np.diag(residual), variance, strict=True) if r < 1e-9 * v]:
        raise DataError(
            f"{listing(fixed)} can be computed from the given columns, so masked values would be the values themselves. "
            "Leave the columns that determine it out of given=."
        )


class ConditionalNormal(MaskGiven, abstract=True):
    """Numbers that are released as draws given other columns, under a normal regression."""

    models: Any = learned("columns", "given", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the regression of the columns on the given ones."""
        names = numeric_targets(self.columns, data)
        given = learn_given(data, self.given_names(names, data.schema))
        return self.learn(models=learn_regressions(data, names, given, "to learn how they depend on other columns"))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the masked columns."""
        return super().changes(schema) if self.models is None else self.masked

    @property
    def masked(self) -> tuple[str, ...]:
        """The masked columns, once fitted."""
        return tuple(n for model in self.models for n in model.targets)

    def said(self, schema: Schema, step: str) -> tuple[Guarantee, ...]:
        """Say what bounds and whole numbers do, and which categories are too rare to count."""
        kept = [n for n in self.masked if schema[n].integer or schema[n].bounds != (None, None)]
        says = f"{listing(kept)}: values are whole where the schema says so, and moved to its bounds where a draw passes them"
        bounded = (Guarantee(step, says, "by construction; moments are kept up to this"),) if kept else ()
        return (*bounded, *pooled_guarantee(self.models[-1].given, step))
