"""Fully synthetic data of mixed columns: columns are functions of normal variables, joined by a normal copula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.data import Batch, Column, Kind, Microdata, Rows
from sfumato.errors import DataError
from sfumato.kernels.copula import (
    Pieces,
    hermite_weights,
    latent_correlation,
    midranks,
    normal_scores,
    pairwise_moments,
    regress,
    repaired,
)
from sfumato.kernels.moments import covariance_root
from sfumato.lazy import special
from sfumato.masks.gadp import LEVELS, PIECE, RARE, is_number
from sfumato.masks.normal_synthesis import (
    Raw,
    Uniques,
    alone,
    compared_columns,
    copies_counted,
    implicates_parameter,
    new_columns_parameter,
    new_file_columns,
    new_records,
    originals_avoided,
    size_parameter,
    synthetic_schema,
    uniques_parameter,
)
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers, Whole

STEPS = 2000
"""Steps of a distribution function at which correlations are computed."""


@dataclass(frozen=True, eq=False)
class LatentColumn:
    """One column: yes-no questions, each with its own normal variable; then, for numbers, a normal variable for the value.

    The first question is whether the value is missing. An unordered category is a chain of questions, the most frequent category
    first: is it this one; if not, is it the next; and so on. Rare categories are the end of the chain, and are drawn in
    proportion. A number, or an ordered category, is a point of its distribution.
    """

    name: str
    missing: float
    """Share of missing values."""
    shares: tuple[float, ...] = ()
    """For each yes-no question: the share of yes among those asked."""
    values: tuple[object, ...] = ()
    """Categories: ordered ones in order, unordered ones by frequency."""
    rest: Numbers | None = None
    """Shares among the rare categories, which are the last ones of `values`."""
    knots: tuple[Numbers, Numbers] | None = None
    """For a number: distribution function and values, interpolated between."""
    cuts: Numbers | None = None
    """For ordered categories: the distribution function at each but the last."""
    weights: Numbers | None = None
    """Hermite weights of a number's normal score, or of an ordered category's index; None for chains and constants."""

    @property
    def asks(self) -> int:
        """The number of yes-no questions."""
        return len(self.shares)

    @property
    def _chain_from(self) -> int:
        return int(0 < self.missing < 1)

    # -- from the data to answers

    def read(self, batch: Batch) -> NDArray[Any]:
        """Return normal scores of a number (NaN missing), or the index of each category in `values` (-1 missing)."""
        if not self.values:
            return normal_scores(midranks(batch.numbers(self.name)))
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.values)}
        table = np.array([place.get(v, -1) for v in values] + [-1], np.int32)
        return np.where(batch.missing(self.name), np.int32(-1), table[codes])

    def _gap(self, read: NDArray[Any]) -> Flags:
        return np.asarray(read < 0 if self.values else np.isnan(read))

    def indicators(self, read: NDArray[Any]) -> Numbers:
        """Return whether a value is missing and which category it is, one column for each question, shape (n, asks)."""
        first = [self._gap(read)] if self._chain_from else []
        return (
            np.array([*first, *(read == k for k in range(self.asks - len(first)))], np.float64).reshape(-1, len(read)).T
        )

    def answers(self, read: NDArray[Any]) -> Numbers:
        """Return the answer to each question, shape (n, asks), NaN where it is not asked."""
        out = self.indicators(read)
        for k in range(self.asks - self._chain_from):
            out[self._gap(read) | (read < k), self._chain_from + k] = np.nan
        return out

    def score(self, read: NDArray[Any]) -> Numbers:
        """Return the number's normal score or the ordered category's index, shape (n,), NaN where missing."""
        return np.where(self._gap(read), np.nan, read)

    # -- from normal variables to values

    def answered(self, z: Numbers, u: Numbers) -> NDArray[Any]:
        """Return the result of `read` from the questions' normal variables (n, asks), with 0 as a number's score.

        `u` are uniform numbers for the draw among the rare categories.
        """
        yes = z > -_ndtri(np.array(self.shares))
        gap = yes[:, 0] if self._chain_from else np.full(len(z), self.missing == 1)
        if not self.values or self.cuts is not None:
            return np.where(gap, -1, 0).astype(np.int32) if self.values else np.where(gap, np.nan, 0.0)
        place = np.column_stack([yes[:, self._chain_from :], np.ones(len(z), bool)]).argmax(axis=1)
        if self.rest is not None:
            own = self.asks - self._chain_from
            drawn = np.searchsorted(np.cumsum(self.rest)[:-1], u, side="right")
            place = np.where(place == own, own + drawn, place)
        return np.where(gap, -1, place).astype(np.int32)

    def synthesise(self, read: NDArray[Any], u: Numbers) -> NDArray[Any]:
        """Return numbers (NaN missing) or indices in `values` (-1 missing) from the answers and points of the distribution."""
        if self.cuts is not None:
            return np.where(read < 0, -1, np.searchsorted(self.cuts, u)).astype(np.int32)
        return read if self.knots is None else np.where(np.isnan(read), np.nan, np.interp(u, *self.knots))


def _ndtri(p: Numbers) -> Numbers:
    return np.asarray(special.ndtri(p))


def learn_column(data: Microdata, batch: Batch, name: str, smooth: int) -> LatentColumn:
    """Learn one column's distribution; every learned number is based on at least `smooth` records."""
    numeric = is_number(data, name)
    gap = np.isnan(batch.numbers(name)) if numeric else batch.missing(name)
    missing = float(gap.mean())
    asked = (missing,) if 0 < missing < 1 else ()
    if gap.all():
        return LatentColumn(name, 1.0, values=(None,))
    if numeric:
        known = np.sort(batch.numbers(name)[~gap])
        if not np.isfinite(known).all():
            raise DataError(f"column '{name}' holds infinite values. Set them to missing, or leave it out of columns=.")
        if len(known) < smooth:
            raise DataError(
                f"column '{name}' has values in fewer than {smooth} records, too few to learn from. Leave it out of columns=."
            )
        held = _counted(known)
        ordered = batch.column(name).kind is not Kind.NUMBER or (len(held) <= LEVELS and held.min() >= smooth)
        if not ordered:
            weights = _stepped(held) if len(held) > 1 else None
            return LatentColumn(name, missing, asked, knots=_knots(known, smooth), weights=weights)
    codes, values = batch.column(name).codes
    counts = np.bincount(codes[~gap], minlength=len(values))
    order = np.flatnonzero(counts).tolist()
    if numeric:  # few values, or ordered categories: in the order of their numbers
        given = batch.schema[name].values
        order.sort(key=lambda i: given.get(str(values[i]), 0.0) if batch.column(name).kind is Kind.CATEGORY else i)
        cuts = np.cumsum(counts[order])[:-1] / counts.sum()
        weights = hermite_weights(_ndtri(cuts), np.arange(len(order), dtype=np.float64)) if len(order) > 1 else None
        return LatentColumn(name, missing, asked, tuple(values[i] for i in order), cuts=cuts, weights=weights)
    ranked = sorted(order, key=lambda i: (-counts[i], i))
    own = int((counts[ranked[:LEVELS]] >= RARE).sum())
    rare = counts[ranked[own:]]
    questions = own if len(rare) else own - 1  # without rare categories, the last one needs no question
    left = counts.sum() - np.cumsum(counts[ranked]) + counts[ranked]
    shares = (*asked, *(counts[ranked] / left)[:questions].tolist())
    rest = rare / rare.sum() if len(rare) else None
    return LatentColumn(name, missing, shares, tuple(values[i] for i in ranked), rest)


def yes_no(share: float) -> Numbers:
    """Return the Hermite weights of a question with this share of yes."""
    return hermite_weights(_ndtri(np.array([1 - share])), np.array([0.0, 1.0]))


def _counted(ordered: Numbers) -> Numbers:
    """Return how many records have each distinct value, in order."""
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return np.asarray(np.diff(np.r_[starts, len(ordered)]), np.float64)


def _stepped(counts: Numbers) -> Numbers:
    """Return the Hermite weights of the normal score of a number, given how many records share each value."""
    upto = np.cumsum(counts)
    if len(upto) > STEPS:  # finer steps would not show in the correlations
        upto = upto[np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, STEPS + 1) / STEPS))]
        counts = np.diff(upto, prepend=0.0)
    scores = _ndtri((upto - counts / 2) / upto[-1])
    return hermite_weights(_ndtri(upto[:-1] / upto[-1]), scores)


def _knots(ordered: Numbers, smooth: int) -> tuple[Numbers, Numbers]:
    """Return points of the quantile function, each the mean of `smooth` neighbouring values (the last may have more)."""
    groups = max(len(ordered) // smooth, 1)
    group = np.minimum(np.arange(len(ordered)) // smooth, groups - 1)
    sizes = np.bincount(group)
    # about the smallest value of each group: the mean of equal numbers is then that number
    low = ordered[np.concatenate([[0], np.cumsum(sizes)[:-1]])]
    means = low + np.bincount(group, ordered - low[group]) / sizes
    middle = (np.cumsum(sizes) - sizes / 2) / len(ordered)
    return middle, means


Reads = Sequence[NDArray[Any]]
GRID = np.linspace(-9.0, 9.0, 1801)
"""Points at which the distribution function of a number's normal variable is computed."""


@dataclass(frozen=True, eq=False)
class MixedCopula:
    """Missing values and categories come from correlated normal variables, one for each yes-no question.

    The normal scores of numbers and ordered categories are then normal given these, with means linear in the indicators D
    of missing values and categories (the general location model; Olkin and Tate 1961): Z = (D - D̄)β + e.
    """

    parts: tuple[LatentColumn, ...]
    questions: Numbers
    """Triangular root of the correlations of the questions' normal variables (q, q)."""
    centre: Numbers
    """D̄ (q,)."""
    beta: Numbers
    """Shape (q, p)."""
    root: Numbers
    """Triangular root of the covariance of e (p, p)."""
    curves: Numbers
    """Distribution function of each Z on GRID, shape (p, len(GRID)): it is a mixture, not quite normal."""

    def draw(self, ids: Whole, draws: Draws) -> Raw:
        """Return numbers (NaN missing), or indices of categories (-1 missing), of new records; each depends only on its id."""
        asked = [(part.name, k) for part in self.parts for k in range(part.asks)]
        z = _stacked([draws.normals(ids, f"{name} question {k}") for name, k in asked], len(ids)) @ self.questions.T
        reads, at = [], 0
        for part in self.parts:
            u = draws.uniforms(ids, f"{part.name} rare") if part.rest is not None else np.zeros(0)
            reads.append(part.answered(z[:, at : at + part.asks], u))
            at += part.asks
        scored = [part.name for part in self.parts if part.weights is not None]
        noise = _stacked([draws.normals(ids, f"{name} score") for name in scored], len(ids)) @ self.root.T
        scores = (_indicators(self.parts, reads) - self.centre) @ self.beta + noise
        made: Raw = {}
        for part, read in zip(self.parts, reads, strict=True):
            j = scored.index(part.name) if part.weights is not None else -1
            u = np.interp(scores[:, j], GRID, self.curves[j]) if j >= 0 else np.full(len(ids), 0.5)
            made[part.name] = part.synthesise(read, u)
        return made


def learn_copula(parts: tuple[LatentColumn, ...], reads: Reads) -> MixedCopula:
    """Learn the correlations of the normal variables from the values that each column's `read` returned."""
    n = len(reads[0])
    scored = [i for i, part in enumerate(parts) if part.weights is not None]
    shares = [share for part in parts for share in part.shares]
    q, p = len(shares), len(scored)

    def slices() -> Iterator[Reads]:
        for start in range(0, n, PIECE):
            yield [read[start : start + PIECE] for read in reads]

    def answers() -> Iterator[Numbers]:
        for some in slices():
            yield np.column_stack([part.answers(read) for part, read in zip(parts, some, strict=True)])

    def everything() -> Iterator[Numbers]:
        for some in slices():
            yield np.column_stack([_indicators(parts, some), *(parts[i].score(some[i]) for i in scored)])

    questions = latent_correlation(_standardised(answers), _weights([yes_no(share) for share in shares]))
    at = 0
    for (
        part
    ) in parts:  # each further question of a column is asked of fewer records: their normal variables are independent
        questions[at : at + part.asks, at : at + part.asks] = np.eye(part.asks)
        at += part.asks
    observed = _standardised(everything)
    steps = _weights([w for part in parts if (w := part.weights) is not None])
    observed[q:, q:] = latent_correlation(observed[q:, q:], steps)
    observed[q:, :q] /= steps[:, :1]  # an index or a tied score is correlated with its normal variable by less than one
    observed[:q, q:] = observed[q:, :q].T
    np.fill_diagonal(observed, 1.0)
    beta, residual, *_ = regress(repaired(np.clip(observed, -1, 1)), q)
    share = np.sum([_indicators(parts, some).sum(axis=0) for some in slices()], axis=0) / n
    spread = np.sqrt(share * (1 - share))
    beta = beta / np.where(spread > 0, spread, np.inf)[:, None]
    means = np.concatenate([(_indicators(parts, some) - share) @ beta for some in slices()])
    curves = np.array([_mixture(means[:, j], float(residual[j, j])) for j in range(p)]).reshape(p, len(GRID))
    return MixedCopula(parts, covariance_root(repaired(questions)), share, beta, covariance_root(residual), curves)


def _indicators(parts: Sequence[LatentColumn], reads: Reads) -> Numbers:
    return np.column_stack([part.indicators(read) for part, read in zip(parts, reads, strict=True)])


def _stacked(columns: list[Numbers], n: int) -> Numbers:
    return np.column_stack(columns) if columns else np.zeros((n, 0))


def _weights(weights: list[Numbers]) -> Numbers:
    return np.stack(weights) if weights else np.zeros((0, 1))


def _standardised(pieces: Pieces) -> Numbers:
    """Return the covariance of each pair of columns, divided by standard deviations over all records that have one of them.

    Not over records that have both: who is asked the second question of a chain depends on the answer to the first, whose
    normal variable is independent of the second's.
    """
    covariance, variance = pairwise_moments(pieces)
    spread = np.sqrt(np.outer(np.diag(variance), np.diag(variance)))
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)


def _mixture(means: Numbers, variance: float) -> Numbers:
    """Return the distribution function on GRID of a normal variable with this variance about means drawn from these."""
    lowest, highest = float(means.min()), float(means.max())
    counts, edges = np.histogram(means, bins=400, range=(lowest - 1e-9, highest + 1e-9))
    middle = (edges[1:] + edges[:-1]) / 2
    used = counts > 0
    spread = np.sqrt(max(variance, 1e-12))
    share = counts[used] / counts.sum()
    return np.asarray(special.ndtr((GRID[:, None] - middle[used]) / spread) @ share)


class CopulaSynthesis(Mask):
    """A new file of synthetic records: each column has about the distribution it had, and pairs are related by a normal copula.

    Numbers are interpolated between means of a few neighbouring values, so none is the value of one record. Categories and
    missing values keep their shares. Correlations are those of normal variables behind the columns, estimated from normal scores
    and from yes-no questions (the page lists what this keeps and what it loses). Synthetic records belong to no household;
    survey weights are synthesised as a number, and scaled to the size of the new file.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = CopulaSynthesis(["age", "sex", "salary"], size=100).apply(teachers(500), Draws(1))
    >>> release.masked.schema.names(), len(release.masked)
    (('age', 'sex', 'salary'), 100)
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its records are drawn from a model, and are not records of the original"

    columns: tuple[str, ...] | None = new_columns_parameter()
    size: int | None = size_parameter()
    implicates: int = implicates_parameter()
    smooth: int = param(
        default=3,
        doc="how many neighbouring values a released number's range is averaged over",
        low=1,
        high=1000,
        integer=True,
        scale="log",
        usual=(3, 300),
    )
    uniques: Uniques = uniques_parameter()
    model: Any = learned("columns", "smooth", default=None)
    records: Any = learned("columns", "smooth", default=None)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return schema.free(new_file_columns(self.columns, schema))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the new file."""
        return synthetic_schema(schema, new_file_columns(self.columns, schema))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn each column's distribution, and the correlations of the normal variables behind them."""
        if len(data) < 3:
            raise DataError("a synthetic file needs at least three records to learn from.")
        names = self.touches(data.schema)
        if not names:
            raise DataError("there is no column to synthesise. Name the columns (columns=...).")
        batch = data.batch(names)
        parts, reads = [], []
        for name in names:
            one = alone(batch, name)
            parts.append(learn_column(data, one, name, self.smooth))
            reads.append(parts[-1].read(one))
        return self.learn(model=learn_copula(tuple(parts), reads), records=len(data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw new records; those that copy a unique original are drawn again."""
        return new_records(
            self.size or self.records,
            lambda ids: self.model.draw(ids, draws),
            lambda ids, raw: self._built(ids, raw, batch),
            originals_avoided(batch, self.touches(batch.schema), self.uniques),
        )

    def _built(self, ids: Whole, raw: Mapping[str, NDArray[Any]], batch: Batch) -> Batch:
        """Return new records with the types of the original's columns; columns that follow another are filled in later."""
        schema = self.schema_after(batch.schema)
        parts: dict[str, LatentColumn] = {part.name: part for part in self.model.parts}
        columns, numbers = {}, dict[str, Numbers]()
        for name in (n for n in batch.rows.columns if n in schema):
            like = batch.column(name)
            if name not in parts:
                columns[name] = Column.from_codes(np.full(len(ids), -1), [], like)
                continue
            part, values = parts[name], raw[name]
            if part.knots is None and name != schema.one("weight"):
                columns[name] = Column.from_codes(values, part.values, like)
                continue
            if part.knots is None:  # weights of a few different values
                values = np.array([*part.values, np.nan], np.float64)[values]
            scale = self.records / (self.size or self.records) if name == schema.one("weight") else 1.0
            numbers[name] = values * scale
            columns[name] = Column.from_numbers(numbers[name], np.isnan(numbers[name]))
        out = Batch(Rows(ids, columns), schema)
        for name, values in numbers.items():
            out = out.replace(name, lambda values=values: values)  # type: ignore[misc]
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Compare the synthetic records with all original ones."""
        names = compared_columns(self.touches(before.schema), before.schema)
        said = list(copies_counted(before, after, names, self.uniques, step))
        pooled = [part for part in self.model.parts if part.rest is not None]
        said += [
            Guarantee(
                step, f"{p.name}: {len(p.rest):,} rare categories are drawn without regard to other columns", "counted"
            )
            for p in pooled
        ]
        return tuple(said)
