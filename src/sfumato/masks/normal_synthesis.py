"""Synthetic numbers from a multivariate normal model, the model behind their analytic maps, and shared functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Mask, Scope, check_numbers, learned, numeric_targets, param
from sfumato.contract.release_model import NoiseModel, ReleaseModel, Target
from sfumato.data import Batch, Column, Microdata, Rows
from sfumato.errors import DataError, join_names
from sfumato.kernels.classes import mix64
from sfumato.masks.gadp import (
    PIECE,
    ConditionalNormal,
    Regression,
    check_freedom,
    check_spread,
    describes_household,
    standard_normals,
)
from sfumato.schema import Level, Role, Schema
from sfumato.typing import Numbers, Whole


def new_ids(start: int, count: int) -> Whole:
    """Return ids of simulated records: negative, counted down from -1."""
    return -1 - np.arange(start, start + count, dtype=np.int64)


def synthetic_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """Return the schema of synthetic records with these columns: they belong to no household."""
    kept = schema.keep(lambda a: a.name in names)
    return Schema(tuple(a.with_(level=Level.PERSON) for a in kept))


@dataclass(frozen=True, eq=False)
class Originals:
    """The original records as 64-bit hashes of all their values, with the number of records of each."""

    names: tuple[str, ...]
    prints: NDArray[np.uint64]
    counts: Whole

    @classmethod
    def of(cls, batch: Batch, names: Sequence[str]) -> Originals:
        """Take these columns of the original records."""
        return cls(tuple(names), *np.unique(_prints(batch, names), return_counts=True))

    def copied(self, synthetic: Batch) -> Whole:
        """Return how many originals each synthetic record agrees with in all the columns, missing values included."""
        if not len(self.prints):
            return np.zeros(len(synthetic), np.int64)
        wanted = _prints(synthetic, self.names)
        at = np.minimum(np.searchsorted(self.prints, wanted), len(self.prints) - 1)
        return np.where(self.prints[at] == wanted, self.counts[at], 0)


def _prints(batch: Batch, names: Sequence[str]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of all values of each record, computed column by column to save memory."""
    made = np.zeros(len(batch), np.uint64)
    for name in names:
        one = alone(batch, name)
        values = np.where(one.missing(name), 0, one.column(name).hashes)
        made = mix64(made * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64) + np.uint64(1))
    return made


Raw = dict[str, NDArray[Any]]
"""For each column numbers (NaN missing), or places in a list of categories (-1 missing)."""
ROUNDS = 20
"""Largest number of rounds in which records that copy a unique original are redrawn."""


def new_records(
    size: int, draw: Callable[[Whole], Raw], built: Callable[[Whole, Raw], Batch], originals: Originals | None
) -> Batch:
    """Return new records, which `draw` makes of ids and `built` brings into their columns; copies of uniques are redrawn.

    `originals` is None where records may copy an original that is unique.
    """
    need, start = size, 0
    found: list[tuple[Whole, Raw]] = []
    for _ in range(ROUNDS):
        wanted, need = need, 0
        for at in range(start, start + wanted, PIECE):
            ids = new_ids(at, min(PIECE, start + wanted - at))
            raw = draw(ids)
            good = np.ones(len(ids), bool)
            if originals is not None:
                good = originals.copied(built(ids, raw)) != 1
            found.append((ids[good], {name: values[good] for name, values in raw.items()}))
            need += int((~good).sum())
        start += wanted
        if not need:
            ids = np.concatenate([i for i, _ in found])
            return built(ids, {name: np.concatenate([r.pop(name) for _, r in found]) for name in tuple(found[0][1])})
    raise DataError(
        f"{need:,} synthetic records still copy a record that is unique in the original, after {ROUNDS} rounds. Add a "
        "column of numbers, take coarser categories, or set uniques = 'keep'."
    )


def copies_counted(
    before: Microdata, after: Microdata, names: Sequence[str], uniques: str, step: str
) -> tuple[Guarantee, Guarantee]:
    """Compare the synthetic records with all original ones; refuse copies of unique ones that should have been redrawn."""
    same = Originals.of(before.batch(names), names).copied(after.batch(names))
    unique, shared = int((same == 1).sum()), int((same > 1).sum())
    if unique and uniques == "redraw":
        raise DataError(f"{unique:,} synthetic records copy an original record that is unique; nothing is released.")
    how = "every synthetic record compared with every original one, in all columns but weights"
    says = f"all {len(after):,} records are synthetic; {unique:,} copy a record that is unique in the original"
    others = f"{shared:,} synthetic records agree in every column with two or more original ones"
    return Guarantee(step, says, how), Guarantee(step, others, how)


def compared_columns(names: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """Return the columns in which records are compared: all but the weights, which are rescaled."""
    weight = schema.one("weight")
    return tuple(n for n in names if n != weight) or names


def originals_avoided(batch: Batch, names: tuple[str, ...], uniques: str) -> Originals | None:
    """Return the original records that no synthetic one may copy; None if it may."""
    return Originals.of(batch, compared_columns(names, batch.schema)) if uniques == "redraw" and len(batch) else None


def new_file_columns(columns: tuple[str, ...] | None, schema: Schema) -> tuple[str, ...]:
    """Return the columns of a new file: those named, or all but identifiers, households and contributors."""
    out = (Role.IDENTIFIER, Role.HOUSEHOLD, Role.CONTRIBUTOR)
    return columns or tuple(a.name for a in schema if a.role not in out)


def alone(batch: Batch, name: str) -> Batch:
    """Return one column by itself: codes and numbers computed from it are freed with it, and not kept with the file."""
    return Batch(Rows(batch.ids, {name: batch.column(name).bare()}), batch.schema)


# --- The effect of normal synthesis on normal records: the models behind analytic R-U maps of synthetic data.
#
# Parameters are estimated from n records, and drawn from their posterior where synthesis is `proper`; then values are drawn.
# With ν degrees of freedom of the residuals of p columns, a residual variance drawn from its posterior is ν/(ν - p - 1) times
# too large on average. An analyst takes the mean of the estimates from m implicates.


def _inflation(freedom: int, columns: int) -> float:
    """Return E Σ* / Σ for a covariance drawn from its posterior, with the estimate of Σ unbiased; infinite for few records."""
    return freedom / (freedom - columns - 1) if freedom > columns + 1 else math.inf


@dataclass(frozen=True, eq=False)
class PartialSynthesisModel(ReleaseModel):
    """Normal records of which some columns are drawn anew, from their regression on given columns (Reiter 2003)."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    masked: tuple[int, ...]
    given: tuple[int, ...]
    implicates: int
    proper: bool
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: NoiseModel, masked: Sequence[str], given: Sequence[str], implicates: int, proper: bool
    ) -> PartialSynthesisModel | None:
        """Make it, if there is no noise yet and the model holds every column that is masked or given."""
        if before.is_masked or any(n not in before.names for n in (*masked, *given)):
            return None
        m, z = tuple(map(before.at, masked)), tuple(map(before.at, given))
        return cls(before.names, before.mean, before.covariance, before.n, m, z, implicates, proper, before.published)

    @property
    def _explaining(self) -> Numbers:
        """P with E(X | Z) = PX for every column, shape (k, k): the projection on the given columns."""
        S, z = self.covariance, list(self.given)
        P = np.zeros_like(S)
        if z:
            P[:, z] = S[:, z] @ np.linalg.pinv(S[np.ix_(z, z)], rcond=1e-12, hermitian=True)
        return P

    @property
    def _known(self) -> Numbers:
        """The part of each released column that is not drawn: its prediction, or itself; X̃ = KX, shape (k, k)."""
        K = np.eye(len(self.names))
        K[list(self.masked)] = self._explaining[list(self.masked)]
        return K

    @property
    def _drawn(self) -> Numbers:
        """Covariance of the drawn part, zero outside the masked columns, shape (k, k)."""
        S, at = self.covariance, np.ix_(self.masked, self.masked)
        out = np.zeros_like(S)
        P = self._explaining
        out[at] = (S - P @ S @ P.T)[at]
        return out

    @property
    def _inflated(self) -> float:
        """E Σ* / Σ where parameters are drawn, 1 where they are the estimates."""
        return _inflation(self.n - 1 - len(self.given), len(self.masked)) if self.proper else 1.0

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return c'Σc/n + κ(1 or 2)c'Σₑc/(nm): 2 if the means are drawn too; exact."""
        sampling = float(weights @ self.covariance @ weights) if target == "population" else 0.0
        drawn = float(weights @ self._drawn @ weights)
        extra = self._inflated * (2 if self.proper else 1) * drawn if drawn else 0.0
        return (sampling + extra / self.implicates) / self.n

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return bias² + variance; exact if x is not masked, and is given if y is masked; else for large n.

        The slope is off by the mean of x̃ r̃ + x̃ e_r + r̃ e_x + e_x e_r over records, divided by σ_x², where r = y - βx of the
        released population. The first term, a quadratic form, varies with the sample; the others vary with the draws.
        """
        if target == "file":
            return None
        if self.n <= 3:
            return math.inf
        S, K, P, E = self.covariance, self._known, self._explaining, self._drawn
        released = (K @ S @ K.T + E)[x, y]
        slope, square = released / S[x, x], S[x, x]
        form = self._form(x, y) - slope * self._form(x, x)
        sampling = 2 * np.trace(form @ S @ form @ S)
        c = np.eye(len(S))[x]
        r = np.eye(len(S))[y] - slope * c
        drawn = _drawn_variance(c @ K, r @ K, S, c @ E @ c, r @ E @ r, c @ E @ r)
        if self.proper and drawn:
            drawn = self._inflated * (drawn + _drawn_variance(c @ K @ P, r @ K @ P, S, c @ E @ c, r @ E @ r, c @ E @ r))
        variance = (sampling + drawn / self.implicates) / ((self.n - 3) * square**2)
        return float((correction * slope - S[x, y] / square) ** 2 + correction**2 * variance)

    def _form(self, j: int, k: int) -> Numbers:
        """Return Q with the released second moment of two columns, as the sample has it, about the mean of X'QX."""
        e, P = np.eye(len(self.names)), self._explaining
        one, two = (j, k) if j in self.masked else (k, j)
        if one not in self.masked or two in self.masked or two in self.given:
            made = np.outer(e[j], e[k])  # the moment is kept
        else:  # only the relation through the given columns is kept
            made = np.outer(P[one], e[two]) + np.outer(P[two], e[one]) - np.outer(P[one], P[two])
        return np.asarray((made + made.T) / 2)

    def joint(self, names: tuple[str, ...]) -> tuple[Numbers, Numbers] | None:
        """Return the moments of (x, ȳ, z...), ȳ the mean of the implicates; exact."""
        if any(name not in self.names for name in names):
            return None
        x, *z = (self.at(name) for name in names)
        if any(i in self.masked for i in z):
            return None
        where = [x, x, *z]
        covariance = self.covariance[np.ix_(where, where)]
        if x not in self.masked:
            return self.mean[where], covariance
        S, P, hat = (
            self.covariance,
            self._explaining,
            (1 + len(self.given)) / self.n,
        )  # mean leverage: the share of its own residual
        explained = P @ S  # covariance of a prediction with any column
        residual = S[x, x] - explained[x, x]
        covariance[0, 1] = covariance[1, 0] = explained[x, x] + hat * residual
        noise = self._inflated * (1 + (hat if self.proper else 0.0)) * residual
        covariance[1, 1] = explained[x, x] + hat * residual + noise / self.implicates
        for k, i in enumerate(z, 2):
            covariance[1, k] = covariance[k, 1] = explained[x, i] + hat * (S[x, i] - explained[x, i])
        return self.mean[where], covariance


def _drawn_variance(a: Numbers, b: Numbers, S: Numbers, xx: float, rr: float, xr: float) -> float:
    """Return the variance of a'X e_r + b'X e_x + e_x e_r for independent normal X and e."""
    return float((a @ S @ a) * rr + (b @ S @ b) * xx + 2 * (a @ S @ b) * xr + xx * rr + xr**2)


@dataclass(frozen=True, eq=False)
class FullSynthesisModel(ReleaseModel):
    """New records of some columns, drawn from their joint normal distribution (Raghunathan, Reiter and Rubin 2003)."""

    names: tuple[str, ...]
    mean: Numbers
    covariance: Numbers
    n: int
    columns: tuple[int, ...]
    size: int
    """Records of each implicate."""
    implicates: int
    proper: bool
    published: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, before: NoiseModel, columns: Sequence[str], size: int | None, implicates: int, proper: bool
    ) -> FullSynthesisModel | None:
        """Make it, if there is no noise yet and the model holds every column of the new file."""
        if before.is_masked or any(n not in before.names for n in columns):
            return None
        at = tuple(map(before.at, columns))
        made = size or before.n
        return cls(
            before.names, before.mean, before.covariance, before.n, at, made, implicates, proper, before.published
        )

    def _fitted(self, regressors: int) -> float:
        """Return the squared difference of fits of 1 + q coefficients to the new and the original file, in units of σₑ²(1 + q)."""
        if not self.proper:
            return 1 / (self.size * self.implicates)
        return _inflation(self.n - 1, len(self.columns)) * (1 / self.n + 1 / self.size) / self.implicates

    def mean_error(self, weights: Numbers, target: Target) -> float | None:
        """Return c'Σc(1/n + 1/(m n*)), with drawn parameters c'Σc(1/n + κ(1/n + 1/n*)/m); exact."""
        if any(w for i, w in enumerate(weights) if i not in self.columns):
            return None
        sampling = 1 / self.n if target == "population" else 0.0
        return float(weights @ self.covariance @ weights) * (sampling + self._fitted(0))

    def slope_error(self, x: int, y: int, correction: float, target: Target) -> float | None:
        """Return the variance about the population's slope, plus the squared bias of a correction; exact.

        Given the sample, the slope of drawn parameters varies by A_y.x/((ν - 2)A_xx), and a slope of n* records about it by
        (ν - 1)A_y.x/((ν - 2)(n* - 3)A_xx), with A the cross products and ν = n + 1 - p.
        """
        if x not in self.columns or y not in self.columns:
            return None
        if self.n <= 3 or self.size <= 3:
            return math.inf
        freedom = self.n + 1 - len(self.columns)
        if self.proper and freedom <= 2:
            return math.inf
        extra = 1 / (self.size - 3)
        if self.proper:
            extra = (1 + (freedom - 1) / (self.size - 3)) / (freedom - 2)
        S = self.covariance
        residual = max(S[y, y] - S[x, y] ** 2 / S[x, x], 0.0) / ((self.n - 3) * S[x, x])
        sampling = 1.0 if target == "population" else (correction - 1) ** 2 / correction**2
        bias = (correction - 1) * S[x, y] / S[x, x]
        return float(bias**2 + correction**2 * residual * (sampling + (self.n - 2) * extra / self.implicates))

    def joint(self, names: tuple[str, ...]) -> None:
        """Return nothing: no released record belongs to a person."""
        return

    def prediction_error(self, x: int, given: tuple[int, ...]) -> float | None:
        """Return σₑ²(1 - (1 + q)/n + (1 + q)·error of the new file's fit): posterior prediction; exact without covariates."""
        if any(i not in self.columns for i in (x, *given)):
            return None
        S, z, q = self.covariance, list(given), len(given)
        explained = S[x, z] @ np.linalg.pinv(S[np.ix_(z, z)], rcond=1e-12, hermitian=True) @ S[z, x] if z else 0.0
        return float((S[x, x] - explained) * (1 - (1 + q) / self.n + (1 + q) * self._fitted(q)))


def implicates_parameter() -> Any:
    """Declare the parameter `implicates`."""
    doc = "how many versions of the file are released, for the combining rules"
    return param(default=1, doc=doc, low=1, high=1000, integer=True)


def size_parameter() -> Any:
    """Declare the parameter `size`."""
    doc = "number of new records; as many as the original has if none"
    return param(default=None, doc=doc, low=1, high=1e9, integer=True)


def new_columns_parameter() -> Any:
    """Declare the parameter `columns` of a new file of any columns."""
    doc = "columns of the new file; all but identifiers, households and contributors if none"
    return param(default=None, doc=doc, columns="many", holds="anything")


Uniques = Literal["redraw", "keep"]


def uniques_parameter() -> Any:
    """Declare the parameter `uniques`."""
    doc = "what to do with a synthetic record that copies, in every column, an original record that is unique there"
    return param(default="redraw", doc=doc)


def proper_parameter() -> Any:
    """Declare the parameter `proper`."""
    doc = "draw the model's parameters too, from their posterior, rather than take the estimates"
    return param(default=True, doc=doc)


class NormalSynthesis(ConditionalNormal):
    """Partially synthetic data (Reiter 2003): columns are replaced by draws given the others, from a normal regression.

    The draws come from the posterior predictive distribution (`proper`), or from the estimated regression. Each implicate has
    its own parameters and draws. Columns that describe households are drawn once per household, given those that describe
    households; the others are then drawn given all of these.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = NormalSynthesis("salary", given=["age", "sex"], implicates=3).apply(teachers(500), Draws(1))
    >>> len(release.implicates)
    3
    """

    no_matrix: ClassVar[str] = "what is released for the synthetic columns is drawn anew, not computed from the records"

    implicates: int = implicates_parameter()
    proper: bool = proper_parameter()

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw parameters, then each record's values."""
        check_numbers(batch, self.masked)
        out, new = batch, dict[str, Numbers]()
        for model in self.models:
            drawn = model.draw(draws, self.proper)
            noise = standard_normals(batch, model.targets, draws) @ drawn.root.T
            y = drawn.predict(batch, [new[n] for n in model.earlier]) + noise
            for name, values in zip(model.targets, y.T, strict=True):
                # values are also drawn for households with a missing value, but not released
                new[name] = np.where(np.isnan(batch.numbers(name)), np.nan, values)
                out = out.replace(name, partial(np.asarray, values))
        return out

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return the effect of synthesis given numbers on normal records; None for household columns."""
        masked = self.columns or tuple(n for n in schema.names(role="confidential") if n in before.names)
        given = self.given_names(masked, schema)
        if any(describes_household(schema, n) for n in (*masked, *given) if n in schema):
            return None
        return PartialSynthesisModel.of(before, masked, given, self.implicates, self.proper)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Say what the released values depend on."""
        given = [g.name for g in self.models[-1].given]
        says = f"{join_names(self.masked)}: released values depend on a record's own {join_names(given)} alone"
        return (
            Guarantee(step, says, "by construction: drawn from a normal regression"),
            *self.limits_stated(before.schema, step),
        )


class FullNormalSynthesis(Mask):
    """Fully synthetic data (Rubin 1993; Raghunathan, Reiter and Rubin 2003): new records of numbers, jointly normal.

    The released file has the named columns only, and no record of the original. The mean and the covariance are those of
    the records that have all the columns; with `proper` they are drawn from their posterior, anew for each implicate. The
    synthetic records have no missing values, no weights and no households.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = FullNormalSynthesis(["salary", "income"], size=100).apply(teachers(500), Draws(1))
    >>> release.masked.schema.names(), len(release.masked)
    (('salary', 'income'), 100)
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its records are drawn from a model, and are not records of the original"

    columns: tuple[str, ...] = param(doc="columns of the new file, all of numbers", columns="many")
    size: int | None = size_parameter()
    implicates: int = implicates_parameter()
    proper: bool = proper_parameter()
    model: Any = learned("columns", default=None)
    records: Any = learned("columns", default=None)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the named columns."""
        return synthetic_schema(schema, self.columns)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the mean and the covariance."""
        names = numeric_targets(self.columns, data)
        if (weight := data.schema.one("weight")) in names:
            raise DataError(
                f"'{weight}' holds survey weights, which are not normal. Leave it out of columns=, or use copula_synthesis."
            )
        moments = data.moments(names)
        why = "to learn a normal distribution from"
        check_spread(names, moments.count, moments.mean, np.diag(moments.covariance), why)
        p = len(names)
        model = Regression(
            names,
            (),
            (),
            moments.count,
            np.zeros(0),
            moments.mean,
            np.zeros((0, p)),
            moments.covariance,
            np.zeros((0, 0)),
            0,
        )
        check_freedom(model, why)
        return self.learn(model=model, records=len(data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw parameters, then new records."""
        drawn = self.model.draw(draws, self.proper)
        ids = new_ids(0, self.size or self.records)
        z = np.column_stack([draws.normals(ids, name) for name in drawn.targets])
        y = dict(zip(drawn.targets, (drawn.x_mean + z @ drawn.root.T).T, strict=True))
        after = self.schema_after(batch.schema)
        out = Batch(Rows(ids, {n: Column.from_numbers(y[n]) for n in batch.rows.columns if n in y}), after)
        for name in drawn.targets:
            out = out.replace(name, partial(np.asarray, y[name]))
        return out

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return the model of new records drawn from normal ones."""
        return FullSynthesisModel.of(before, self.columns, self.size, self.implicates, self.proper)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Count the synthetic records that agree with an original one in every column."""
        names = list(self.columns)
        same = int((Originals.of(before.batch(names), names).copied(after.batch(names)) > 0).sum())
        says = (
            f"all {len(after):,} records are synthetic; {same:,} of them agree with an original record in every column"
        )
        return (Guarantee(step, says, "every synthetic record compared with every original one"),)
