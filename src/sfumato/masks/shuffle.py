"""Data shuffling: a column's values are reassigned, so that ranks are related to the given columns as before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, Scope, check_numbers, learned, numeric_targets, param
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, join_names
from sfumato.kernels import copula
from sfumato.kernels.moments import covariance_root
from sfumato.lazy import special
from sfumato.masks.gadp import PIECE, Given, MaskGiven, describes_household, learn_given, pooled_guarantee
from sfumato.typing import Numbers, Whole


class Shuffle(MaskGiven):
    """Data shuffling (Muralidhar and Sarathy 2006): the values stay, the records that hold them change.

    In the space of normal scores, Y* is drawn from the normal distribution of X* given S*, whose correlations are
    2 sin(πρ/6) for rank correlations ρ; the record with the i-th smallest Y* gets the i-th smallest value of X. Given the
    columns S, a released value says nothing about the original (`similarity` = 0); with κ > 0, Y* keeps the correlation κ
    with X* given S*. Categories in S count as indicators. Missing values stay where they are. Columns that describe households
    are shuffled among households, given those of S that describe households; the others then given S and these.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = Shuffle("salary", given=["age", "sex"]).apply(teachers(500), Draws(1))
    >>> before, after = release.pair("salary")
    >>> sorted(before) == sorted(after)
    True
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    no_matrix: ClassVar[str] = "records keep some fields and exchange others"

    similarity: float = param(
        default=0.0,
        doc="κ: correlation of released and original normal scores given the other columns; 0 is the safest",
        low=0,
        high=0.999,
    )
    names: Any = learned("columns", default=None)
    regressors: Any = learned("columns", "given", default=None)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn how the given columns are written as regressors."""
        names = numeric_targets(self.columns, data)
        given = learn_given(data, self.given_names(names, data.schema))
        for name in names:
            numbers = data.numbers(name)
            known = numbers[~np.isnan(numbers)]
            if len(known) < 3:
                raise DataError(f"column '{name}' has fewer than three values, too few to shuffle. Leave it out.")
            if known.min() == known.max():
                raise DataError(f"column '{name}' is constant, so shuffling would change nothing. Leave it out.")
        return self.learn(names=names, regressors=tuple(replace(g, mean=0.0) for g in given))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Shuffle household columns among households, then the others among records."""
        check_numbers(batch, self.names)
        out, homes = batch, tuple[str, ...]()
        for names in by_level(batch.schema, self.names) if len(batch) else []:
            first, member = batch.members(names)
            household = describes_household(batch.schema, names[0])
            given = [g for g in self.regressors if not household or describes_household(batch.schema, g.name)]
            source = self._sources(batch, out, names, homes, given, first, draws)
            for name, rows in zip(names, source, strict=True):
                own = np.isnan(batch.numbers(name))  # missing values do not change
                taken = np.where(own, np.arange(len(batch)), first[rows[member]])
                out = out.with_columns({name: batch.column(name).take(taken)})
            homes = names if household else homes
        return out

    def _sources(
        self,
        batch: Batch,
        out: Batch,
        names: Sequence[str],
        homes: Sequence[str],
        given: Sequence[Given],
        first: Whole,
        draws: Draws,
    ) -> list[Whole]:
        """Return for each column the unit whose value each unit gets, shape (u,) each; `out` has the shuffled `homes`."""
        ranks = [copula.midranks(batch.numbers(n)[first]) for n in names]
        scores = [copula.normal_scores(r) for r in ranks]
        extra = [Given(n, None, gaps=False) for n in homes]
        reads = [_read(g, batch, first) for g in (*given, *extra)]
        after = [*reads[: len(given)], *(_read(g, out, first) for g in extra)]
        beta, residual = _conditional((*given, *extra), reads, ranks, scores)
        # a column that is already shuffled may determine another, a column that is released unchanged may not
        left = _conditional(given, reads[: len(given)], ranks, scores)[1] if extra else residual
        if fixed := [n for n, v in zip(names, np.diag(left), strict=True) if v < 1e-9]:
            raise DataError(
                f"the ranks of {join_names(fixed)} can be computed from the given columns, so shuffled values would be the values "
                "themselves. Leave the columns that determine it out of given=."
            )
        z = np.column_stack([draws.normals(batch.units(n)[first], n) for n in names])
        k, x = self.similarity, np.column_stack(scores)
        y = _times((*given, *extra), after, beta) + np.sqrt(1 - k**2) * (z @ covariance_root(residual).T)
        if k:
            y += k * (x - _times((*given, *extra), reads, beta))
        return [_dealt(batch.numbers(n)[first], column) for n, column in zip(names, y.T, strict=True)]

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that each column has exactly its original values, and the same values missing."""
        household = before.schema.one("household")
        needed = list(dict.fromkeys([*self.names, *([household] if household else [])]))
        batches = before.batch(needed), after.batch(needed)
        for name in self.names:
            units = batches[0].members([name])[0]
            x, y = (batch.numbers(name)[units] for batch in batches)
            if not np.array_equal(np.sort(x), np.sort(y), equal_nan=True) or (np.isnan(x) != np.isnan(y)).any():
                raise DataError(f"the values of '{name}' are not those of the original; nothing is released.")
        says = f"{join_names(self.names)}: each column has exactly the values it had, missing ones where they were"
        said = [Guarantee(step, says, "sorted values of every column compared")]
        if not self.similarity:
            says = f"{join_names(self.names)}: which value a record gets depends on its given columns alone, not on its own value"
            said.append(Guarantee(step, says, "by construction: similarity = 0"))
        return (*said, *pooled_guarantee(self.regressors, step))


def _read(given: Given, batch: Batch, rows: Whole) -> NDArray[Any]:
    """Return a given column's normal scores, or the indices of its categories."""
    read = given.read(batch)[rows]
    return copula.normal_scores(copula.midranks(read)) if given.levels is None else read


def _times(given: Sequence[Given], reads: Sequence[NDArray[Any]], beta: Numbers) -> Numbers:
    """Return the regressors times their weights, shape (u, p)."""
    out, at = np.zeros((len(reads[0]) if reads else 1, beta.shape[1])), 0
    for g, read in zip(given, reads, strict=True):
        out += g.times(read, beta[at : at + g.width])
        at += g.width
    return out


def _conditional(
    given: Sequence[Given], reads: Sequence[NDArray[Any]], ranks: Sequence[Numbers], scores: Sequence[Numbers]
) -> tuple[Numbers, Numbers]:
    """Return the weights of the regressors (q, p) and the covariance of X* given them (p, p).

    Correlations with numbers and between the columns come from ranks; those with indicators come from normal scores. Such a
    matrix need not be positive semi-definite. If it is moved to one that is, dependent regressors may seem to determine the
    column; then all correlations come from normal scores. They are over the records that have every column, unless these are
    too few for the number of regressors.
    """
    whole = ~np.isnan(np.column_stack(ranks)).any(axis=1)
    if not whole.all() and whole.sum() >= 3 * (len(ranks) + sum(g.width for g in given)):
        reads, scores = [r[whole] for r in reads], [s[whole] for s in scores]
        ranks = [r[whole] for r in ranks]
    p, n = len(ranks), len(ranks[0])
    starts = np.cumsum([0, *(g.width for g in given)])
    q = int(starts[-1])
    numeric = [i for i, g in enumerate(given) if g.levels is None]
    of_given = [np.nan_to_num(special.ndtr(reads[i]) - 0.5, nan=0.0) for i in numeric]  # ranks again, from their scores

    def pieces() -> Iterator[Numbers]:
        for start in range(0, n, PIECE):
            part = slice(start, start + PIECE)
            regressors = [g.matrix(r[part]) for g, r in zip(given, reads, strict=True)]
            yield np.column_stack([*regressors, *(s[part] for s in scores)])

    def in_ranks() -> Iterator[Numbers]:
        yield np.column_stack([*of_given, *(r / n - 0.5 for r in ranks)])

    correlation = copula.pairwise_correlation(pieces)
    spearman = copula.latent_from_spearman(copula.pairwise_correlation(in_ranks))
    at, x = [int(starts[i]) for i in numeric], list(range(q, q + p))
    by_rank = correlation.copy()
    by_rank[np.ix_(x, x)] = spearman[len(at) :, len(at) :]
    by_rank[np.ix_(x, at)] = spearman[len(at) :, : len(at)]
    by_rank[np.ix_(at, x)] = spearman[: len(at), len(at) :]
    np.fill_diagonal(by_rank, 1.0)
    possible = np.linalg.eigvalsh(by_rank).min() >= -1e-9
    beta, residual, *_ = copula.regress(by_rank if possible else copula.repaired(correlation), q)
    spread = np.concatenate([np.zeros(0), *(_spread(g, r) for g, r in zip(given, reads, strict=True))])
    return beta / np.where(spread > 0, spread, np.inf)[:, None], residual


def _spread(given: Given, read: NDArray[Any]) -> Numbers:
    """Return the standard deviation of each regressor of a column."""
    if given.levels is None:
        return np.asarray(given.matrix(read).std(axis=0))
    share = np.bincount(read[read >= 0], minlength=given.width) / max(len(read), 1)
    return np.asarray(np.sqrt(share * (1 - share)))


def _dealt(x: Numbers, y: Numbers) -> Whole:
    """Return for each unit the unit whose value it gets: the i-th smallest x goes to the i-th smallest y."""
    source = np.arange(len(x))
    known = np.flatnonzero(~np.isnan(x))
    source[known[np.argsort(y[known])]] = known[np.argsort(x[known])]  # equal values are interchangeable
    return source
