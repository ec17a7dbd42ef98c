"""Numbers given other columns: the normal regression behind GADP and synthesis; GADP itself, and IPSO, which is exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, Scope, learned, numeric_targets, param
from sfumato.data import Kind, Rows
from sfumato.data.microdata import Batch, Microdata, check_numeric
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.kernels.copula import regress
from sfumato.kernels.moments import centred_products, covariance_root, first_pass, is_constant
from sfumato.lazy import special
from sfumato.masks.column_settings import limited_columns, numeric_columns, replace_numbers
from sfumato.schema import Level, Scale, Schema
from sfumato.typing import Flags, Numbers

PIECE = 1 << 16
"""Rows of regressors in memory at once."""
LEVELS = 25
"""Largest number of categories of a column with their own indicator: the most frequent ones."""
RARE = 10
"""Smallest number of records of a category with an indicator: fewer records would be matched one by one."""


@dataclass(frozen=True)
class Given:
    """A given column as regressors: a number and whether it is missing, or indicators of categories."""

    name: str
    levels: tuple[object, ...] | None
    """Categories with their own indicator; None for numbers."""
    gaps: bool
    """Whether some values are missing; this adds a regressor."""
    mean: float = 0.0
    """Value that replaces a missing number."""
    pooled: int = 0
    """Number of rare categories that are pooled."""

    @property
    def width(self) -> int:
        """The number of regressors."""
        return (1 if self.levels is None else len(self.levels)) + self.gaps

    def read(self, batch: Batch) -> NDArray[Any]:
        """Return the numbers (NaN missing), or the index of each category among the indicators (-1: the reference)."""
        if self.levels is None:
            return batch.numbers(self.name)
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.levels)}
        table = np.array([place.get(v, -1) for v in values] + [-1], np.int64)
        return np.where(batch.missing(self.name), len(self.levels) if self.gaps else -1, table[codes])

    def matrix(self, read: NDArray[Any]) -> Numbers:
        """Return the regressors of values from `read`, shape (n, width)."""
        if self.levels is not None:
            return np.asarray(read[:, None] == np.arange(self.width), np.float64)
        gap = np.isnan(read)
        columns = [np.where(gap, self.mean, read)] + [gap.astype(np.float64)] * self.gaps
        return np.column_stack(columns)

    def times(self, read: NDArray[Any], weights: Numbers) -> Numbers:
        """Return the regressors times weights (width, p), shape (n, p), without forming the indicators."""
        if self.levels is not None:
            return np.asarray(np.vstack([weights, np.zeros((1, weights.shape[1]))])[read])
        return self.matrix(read) @ weights


def learn_given(data: Microdata, names: Sequence[str]) -> tuple[Given, ...]:
    """Learn in one pass how to write columns as regressors."""
    if not names:
        return ()
    counts: dict[str, Counter[object]] = {name: Counter() for name in names}
    sums = {name: np.zeros(2) for name in names}
    gaps = dict.fromkeys(names, False)
    numeric = {name: is_number(data, name) for name in names}
    for rows in data.engine.batches(list(names)):
        batch = Batch(rows, data.schema)
        for name in names:
            missing = np.isnan(batch.numbers(name)) if numeric[name] else batch.missing(name)
            gaps[name] |= bool(missing.any())
            if numeric[name]:
                with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge: refused below
                    sums[name] += [batch.numbers(name)[~missing].sum(), (~missing).sum()]
                continue
            codes, values = batch.column(name).codes
            found = np.bincount(codes[~missing], minlength=len(values))
            counts[name].update({values[i]: int(found[i]) for i in np.flatnonzero(found)})
    made = []
    for name in names:
        total, known = sums[name]
        if not np.isfinite(total):
            raise DataError(
                f"given column '{name}' holds infinite or huge values. Set them to missing, or leave it out."
            )
        levels, pooled = (None, 0) if numeric[name] else _levels(counts[name])
        made.append(Given(name, levels, gaps[name], total / max(known, 1), pooled))
    return tuple(made)


def is_number(data: Microdata, name: str) -> bool:
    """Whether a column counts as a number: a column that is unordered in the schema is a category, whatever its type."""
    kind, attribute = data.kind(name), data.schema[name]
    if kind in (Kind.DATE, Kind.OTHER):
        raise DataError(f"column '{name}' holds {kind}, where numbers or categories are needed. Leave it out.")
    if attribute.scale is not Scale.ORDERED or (kind is Kind.CATEGORY and not attribute.values):
        return False
    check_numeric(data, name)
    return True


def _levels(counts: Counter[object]) -> tuple[tuple[object, ...], int]:
    """Return the categories that get an indicator, and how many are pooled; without a pool the most frequent is the reference."""
    ranked = sorted(counts, key=lambda v: (-counts[v], str(v)))
    kept = [v for v in ranked[:LEVELS] if counts[v] >= RARE]
    pooled = len(ranked) - len(kept)
    return tuple(kept if pooled else kept[1:]), pooled


def pooled_guarantee(given: Sequence[Given], step: str) -> tuple[Guarantee, ...]:
    """Say which given columns have categories that are too rare for their own indicator."""
    return tuple(
        Guarantee(
            step,
            f"{g.name}: {g.pooled:,} of its categories count as one, so relations with each of them are not kept",
            f"counted: fewer than {RARE} records each, or beyond the {LEVELS} most frequent",
        )
        for g in given
        if g.pooled
    )


def describes_household(schema: Schema, name: str) -> bool:
    """Whether a column has one value per household."""
    return schema[name].level is Level.HOUSEHOLD and schema.one("household") is not None


class MaskGiven(Mask, abstract=True):
    """A mask of numbers conditional on given columns, which are released unchanged; relations with them are kept."""

    columns: tuple[str, ...] | None = numeric_columns("mask")
    given: tuple[str, ...] | None = param(
        default=None,
        doc="columns that are released as they are, and whose relations with the masked ones are kept; all keys if none",
        columns="many",
        holds="anything",
    )

    @override
    def validate(self) -> None:
        self._check_apart(self.columns or ())

    def _check_apart(self, masked: Sequence[str]) -> None:
        if both := [c for c in masked if c in (self.given or ())]:
            raise ParameterError(
                f"{self.name} cannot mask {join_names(both)} and take it as given, too. Name it in one of the two."
            )

    def given_names(self, masked: Sequence[str], schema: Schema) -> tuple[str, ...]:
        """Return the given columns: those named, or every key that is not masked."""
        if self.given is not None:
            self._check_apart(masked)
            return self.given
        return tuple(n for n in schema.names(role="key") if n not in (masked or self.columns or ()))

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*super().touches(schema), *self.given_names((), schema)]))


# --- Numbers given other columns: the normal regression behind GADP and normal synthesis.


@dataclass(frozen=True, eq=False)
class Regression:
    """Normal regression of some columns on others: X = x̄ + (Z - z̄)β + e, e ~ N(0, Σ)."""

    targets: tuple[str, ...]
    given: tuple[Given, ...]
    earlier: tuple[str, ...]
    """Household columns that are already masked and serve as regressors too."""
    count: int
    z_mean: Numbers
    x_mean: Numbers
    beta: Numbers
    """Shape (q, p)."""
    residual: Numbers
    """Σ (p, p), divisor n - 1."""
    half: Numbers
    """H (q, q) with HH' = ((Z - z̄)'(Z - z̄))⁺."""
    rank: int
    """The rank of (Z - z̄)'(Z - z̄)."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.count - 1 - self.rank

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

    def draw(self, draws: Draws, proper: bool) -> Regression:
        """Return the regression with parameters drawn from their posterior, or with the estimates.

        Under the prior |Σ|^(-(p+1)/2), Σ ~ inverse Wishart(ν, E'E) with ν the degrees of freedom of the residuals E, the
        coefficients are normal about the estimates with covariance Σ ⊗ (Z'Z)⁻¹, and the mean with Σ/n.
        """
        products = self.residual * (self.count - 1)
        if not proper:
            return replace(self, residual=products / self.freedom)
        p, q, label = len(self.targets), len(self.half), "/".join(self.targets)
        z = draws.normals(np.arange(p * (p + q + 1)), f"posterior normals {label}").reshape(-1, p)
        u = draws.uniforms(np.arange(p), f"posterior chi-square {label}")
        # Bartlett (1933): a Wishart matrix is AA', A triangular, its squared diagonal chi-square
        a = np.tril(z[:p], -1) + np.diag(np.sqrt(2 * special.gammaincinv((self.freedom - np.arange(p)) / 2, u)))
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

    Two regressions are needed because a household's value must not depend on one member. Moments are over the records that
    have all the columns. `why` says in an error what the regressions are for.
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
        # a column that is already masked may determine another, a column that is released unchanged may not
        _check_determined(targets, regress(products[np.ix_([*z, *x], [*z, *x])], len(z)).residual, np.diag(products)[x])
        z += [q + every.index(n) for n in earlier]
        fit = regress(products[np.ix_([*z, *x], [*z, *x])], len(z))
        spread = fit.residual / max(count - 1, 1)
        model = Regression(targets, tuple(used), earlier, count, mean[z], mean[x], fit.beta, spread, fit.half, fit.rank)
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
    """Refuse columns without enough answers, without a variance, or with values too large for one."""
    if count < 3:
        raise DataError(
            f"{join_names(names)}: fewer than three records have an answer in {'all of them' if len(names) > 1 else 'it'}, too "
            f"few {why}. Mask columns with more answers, or in separate steps."
        )
    if wild := [n for n, v in zip(names, variance, strict=True) if not np.isfinite(v)]:
        raise DataError(
            f"{join_names(wild)}: some values are infinite or too large to square. Set them to missing, or leave the column out."
        )
    if still := [n for n, c in zip(names, is_constant(mean, variance), strict=True) if c]:
        raise DataError(
            f"{join_names(still)} is constant, so there is no distribution to draw from. Leave it out of columns=."
        )


def check_freedom(model: Regression, why: str) -> None:
    """Refuse more regressors than records."""
    if model.freedom < len(model.targets):
        raise DataError(
            f"{model.count:,} records with answers in {join_names(model.targets)} are too few {why} given "
            f"{len(model.beta):,} regressors. Give fewer columns (given=...), or coarser ones."
        )


def _check_determined(names: tuple[str, ...], residual: Numbers, variance: Numbers) -> None:
    """Refuse columns that the given ones determine."""
    if fixed := [n for n, r, v in zip(names, np.diag(residual), variance, strict=True) if r < 1e-9 * v]:
        raise DataError(
            f"{join_names(fixed)} can be computed from the given columns, so masked values would be the values themselves. "
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

    def limits_stated(self, schema: Schema, step: str) -> tuple[Guarantee, ...]:
        """Say how bounds and whole numbers change the moments, and which categories are pooled as too rare."""
        kept = limited_columns(self.masked, schema)
        says = f"{join_names(kept)}: values are whole where the schema says so, and moved to its bounds where a draw passes them"
        bounded = (Guarantee(step, says, "by construction; moments are kept up to this"),) if kept else ()
        return (*bounded, *pooled_guarantee(self.models[-1].given, step))


class GADP(ConditionalNormal):
    """General additive data perturbation (Muralidhar, Parsa and Sarathy 1999): Y = μ + κ(X - μ) + ε.

    μ = E(X | S) is the normal regression of the masked columns X on the given columns S, and ε ~ N(0, (1 - κ²) Σ(X|S)).
    Then (Y, S) has the mean and the covariance of (X, S) for every κ. With κ = 0 (`similarity`), Y adds nothing about X
    to the information in S. Columns that describe households are masked once per household, given those of S that describe
    households; the others are then masked given S and the released household values.

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
        released = self._released(batch, draws)
        return replace_numbers(batch, released, released.__getitem__)

    def _released(self, batch: Batch, draws: Draws) -> dict[str, Numbers]:
        """Return the released values of each column, before rounding and bounds."""
        k, new = self.similarity, dict[str, Numbers]()
        for model in self.models:
            x = np.column_stack([batch.numbers(n) for n in model.targets])
            centre = model.predict(batch, [new[n] for n in model.earlier])
            was = model.predict(batch, [batch.numbers(n) for n in model.earlier]) if model.earlier else centre
            noise = standard_normals(batch, model.targets, draws) @ model.root.T
            y = centre + k * (x - was) + np.sqrt(1 - k**2) * noise
            new |= dict(zip(model.targets, y.T, strict=True))
        return new

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB + C on the masked and the given columns, if all are numbers and none is missing."""
        given = self.models[-1].given
        names = (*self.masked, *(g.name for g in given))
        batch = data.batch()
        if any(g.levels is not None or g.gaps for g in given) or any(np.isnan(batch.numbers(n)).any() for n in names):
            raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C here: {self.no_matrix}.")
        k, b = self.similarity, np.eye(len(names))
        for model in self.models:
            z = [names.index(g.name) for g in model.given]
            earlier, x = [names.index(n) for n in model.earlier], [names.index(n) for n in model.targets]
            on_given, on_earlier = model.beta[: len(z)], model.beta[len(z) :]
            b[:, x] *= k
            b[np.ix_(z, x)] += (1 - k) * on_given
            b[:, x] += b[:, earlier] @ on_earlier
            b[np.ix_(earlier, x)] -= k * on_earlier
        numbers = np.column_stack([batch.numbers(n) for n in names])
        released = self._released(batch, draws)
        c = np.column_stack([released.get(n, batch.numbers(n)) for n in names]) - numbers @ b
        return MatrixForm(names, names, B=b, C=c, random=("C",), depends=("B", "C"))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what the released values depend on."""
        given = [g.name for g in self.models[-1].given]
        says = f"{join_names(self.masked)}: means and covariances with each other and with {join_names(given)} are kept on average"
        first = Guarantee(step, says, "by construction: drawn from the regression learned from the data")
        if self.similarity:
            return (first, *self.limits_stated(before.schema, step))
        says = f"{join_names(self.masked)}: released values depend on a record's given columns alone, not on its own values"
        return (
            first,
            Guarantee(step, says, "by construction: similarity = 0"),
            *self.limits_stated(before.schema, step),
        )


@dataclass(frozen=True, eq=False)
class RegressorPieces:
    """A column of ones and the regressors of a model, made piece by piece: all of them would take much memory."""

    model: Regression
    reads: tuple[NDArray[Any], ...]
    earlier: tuple[Numbers, ...]
    known: Flags
    """The records that count in a fit, shape (n,)."""
    beside: Numbers | None = None
    """More regressors, shape (n, r)."""

    @classmethod
    def of(cls, batch: Batch, model: Regression, earlier: Sequence[Numbers], known: Flags) -> RegressorPieces:
        """Read the regressors; a missing household value counts as its mean."""
        means = model.z_mean[len(model.z_mean) - len(earlier) :]
        filled = tuple(np.where(np.isnan(v), m, v) for v, m in zip(earlier, means, strict=True))
        return cls(model, tuple(g.read(batch) for g in model.given), filled, known)

    def _pieces(self) -> Iterator[tuple[slice, Numbers]]:
        size = 1 / np.sqrt(np.maximum(np.diag(self.model.half @ self.model.half.T) * self.model.count, 1e-300))
        for start in range(0, len(self.known), PIECE):
            part = slice(start, start + PIECE)
            given = [g.matrix(read[part]) for g, read in zip(self.model.given, self.reads, strict=True)]
            z = np.column_stack([np.zeros((len(self.known[part]), 0)), *given, *(v[part] for v in self.earlier)])
            more = [] if self.beside is None else [self.beside[part]]
            yield (
                part,
                np.column_stack([np.ones(len(z)), (z - self.model.z_mean) / np.where(size > 0, size, 1.0), *more]),
            )

    @cached_property
    def _inverse(self) -> tuple[Numbers, Numbers, int]:
        """The scale of each regressor, the generalised inverse of their products on that scale, and their rank."""
        products = sum(z[self.known[part]].T @ z[self.known[part]] for part, z in self._pieces())
        scale = np.sqrt(np.maximum(np.diag(products), 1e-300))
        values, vectors = np.linalg.eigh(products / np.outer(scale, scale))
        kept = values > 1e-9 * len(values)
        turned = vectors[:, kept] / np.sqrt(values[kept])
        return scale, turned @ turned.T, int(kept.sum())

    @property
    def rank(self) -> int:
        """The number of regressors that do not follow from others, the ones included."""
        return self._inverse[2]

    def times(self, weights: Numbers) -> Numbers:
        """Return the regressors times weights (q, p), shape (n, p)."""
        return np.concatenate([z @ weights for _, z in self._pieces()])

    def coefficients(self, values: Numbers) -> Numbers:
        """Return the least-squares weights of values (n, p), over the known records; what rounding left is fitted again."""
        scale, inverse, _ = self._inverse
        found = np.zeros((len(scale), values.shape[1]))
        for _ in range(2):
            products = np.zeros_like(found)
            for part, z in self._pieces():
                inside = self.known[part]
                products += z[inside].T @ (values[part] - z @ found)[inside]
            found = found + (inverse @ (products / scale[:, None])) / scale[:, None]
        return found


class IPSO(ConditionalNormal):
    """Draws with exactly the sample's moments (IPSO: Burridge 2003), or a hybrid of these and the values themselves.

    Y = μ + κ(X - μ) + ε, where μ is the regression of the masked columns X on the given columns S. ε is a normal draw that is made
    uncorrelated in the sample with S and with X - μ, and given exactly the covariance (1 - κ²) Σ of the sample's residuals. Then
    every mean, covariance and regression of (Y, S) is that of (X, S), not on average as with GADP but in the released file. κ = 0
    (`similarity`) is IPSO, and κ > 0 the hybrid of Muralidhar and Sarathy (2008).

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = IPSO("salary", given=["age", "experience"]).apply(teachers(500), Draws(1))
    >>> before, after = release.pair("salary")
    >>> bool(abs(before.var() / after.var() - 1) < 1e-9)
    True
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "its noise is fitted to the residuals of the records"

    similarity: float = param(
        default=0.0,
        doc="κ: correlation of released and original value given the other columns; 0 is IPSO, and the safest",
        low=0,
        high=0.999,
    )

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw the released values; the moments are exact over the records that have an answer in all masked columns."""
        if not len(batch):
            return batch
        new: dict[str, Numbers] = {}
        for model in self.models:
            x = np.column_stack([batch.numbers(n) for n in model.targets])
            known = np.asarray(~np.isnan(x).any(axis=1))
            was = RegressorPieces.of(batch, model, [batch.numbers(n) for n in model.earlier], known)
            now = RegressorPieces.of(batch, model, [new[n] for n in model.earlier], known) if model.earlier else was
            beta = was.coefficients(x)
            explained = was.times(beta)
            apart = x - explained
            centre = now.times(beta) if model.earlier else explained
            noise = standard_normals(batch, model.targets, draws)
            noise = noise @ covariance_root(np.cov(apart[known], rowvar=False).reshape(noise.shape[1], -1)).T
            basis = replace(now, beside=apart) if self.similarity else now
            noise = self._fitted(noise, basis, apart, model)
            y = centre + self.similarity * apart + np.sqrt(1 - self.similarity**2) * noise
            # a value is released where there was one: others of the record may be missing
            lone = np.where(np.isnan(y), centre + noise, y)
            new |= dict(zip(model.targets, np.where(np.isnan(x), np.nan, lone).T, strict=True))
        return replace_numbers(batch, new, new.__getitem__)

    @staticmethod
    def _fitted(noise: Numbers, basis: RegressorPieces, apart: Numbers, model: Regression) -> Numbers:
        """Return noise that the basis explains nothing of in the known records, with exactly the products of the residuals there."""
        known = basis.known
        left = noise - basis.times(basis.coefficients(noise))
        drawn, wanted = (covariance_root(e[known].T @ e[known]) for e in (left, apart))
        if known.sum() <= basis.rank + noise.shape[1] or not np.diag(drawn).all():
            raise DataError(
                f"{known.sum():,} records with answers in {join_names(model.targets)} are too few to give noise exactly their "
                "moments. Give fewer columns (given=...), mask fewer, or use gadp."
            )
        return np.where(known[:, None], left @ np.linalg.inv(drawn).T @ wanted.T, noise)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Compare the moments of the masked and the given columns before and after."""
        for model in self.models:
            names = (*model.earlier, *model.targets)
            (mean, products, count), (now, made, _) = (_moments(data, model.given, names) for data in (before, after))
            scale = np.sqrt(np.maximum(np.diag(products) / count, 1e-300))
            scale = np.where(np.diag(products) > 0, scale, 1.0)
            apart = (now - mean) / scale, (made - products) / count / np.outer(scale, scale)
            off = max(float(np.abs(a).max(initial=0.0)) for a in apart)
            others = [*(g.name for g in model.given), *model.earlier]
            says = f"{join_names(model.targets)}: means and covariances with each other"
            says += f" and with {join_names(others)} " if others else " "
            exact = "are exactly those of the file"
            says += (
                exact if off < 1e-8 else "are those of the file up to rounding, bounds and values drawn by household"
            )
            how = f"compared over the records that have an answer: at most {off:.1e} standard deviations (or their products) apart"
            yield Guarantee(step, says, how)
        yield from self.limits_stated(before.schema, step)
