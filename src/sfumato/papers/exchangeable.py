"""Exchangeable records: what M = AXB + C discloses about one of them, without any np × np matrix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract.draws import Draws
from sfumato.contract.mask import Mask, Recipe, matrix_steps, run_steps
from sfumato.contract.matrix import LARGEST, MatrixForm
from sfumato.data.microdata import Microdata, check_numeric
from sfumato.errors import NotApplicable, ParameterError, join_names, refuse_unknown
from sfumato.lazy import csgraph
from sfumato.masks.aggregation import RandomAggregation
from sfumato.masks.identifiers import Identity, RandomOrder, RemoveIdentifiers
from sfumato.masks.matrix_mask import MultiplyColumns, MultiplyRecords
from sfumato.masks.sampling import Sample
from sfumato.papers.conditional import SINGULAR, SLACK, check_flat, numbers, square, whiten
from sfumato.papers.file_covariance import NOT_DATA, measurements
from sfumato.papers.inferential import (
    NO_NOISE,
    HiddenNoise,
    carried_on,
    check_independent,
    noise_of,
    numbers_in,
    sampled_noise,
)
from sfumato.schema import Level, Schema
from sfumato.typing import Flags, Numbers, Whole


@dataclass(frozen=True, eq=False)
class Hat:
    """Entries of H(π) = A′(π AA′ + (1 - π) I)⁻ A, for c values of π at once.

    π is the share of a released direction's variance (of an A with unit rows) that is data; 1 - π is noise. Without noise H is
    the projection onto the row space of A. With A = I it is the identity, whatever π.
    """

    diagonal: Numbers
    """Hᵢᵢ, shape (n, c), or (1, c) if it is the same for every record."""
    row_sums: Numbers
    """(H1)ᵢ, shape as of the diagonal."""
    total: Numbers
    """1′H1, shape (c,)."""


def hat_of(A: Any, n: int, share: Numbers) -> Hat:
    """Return H(π) of an r × n matrix A (dense, sparse, or None for the identity) for each π in `share`, shape (c,).

    Rows of A that share no record are taken apart, so that samples, averages over groups and factors take one pass; what hangs
    together needs a singular value decomposition of its block.
    """
    c = len(share)
    if A is None:
        return Hat(np.ones((1, c)), np.ones((1, c)), np.full(c, float(n)))
    from scipy.sparse import block_array, csr_array

    a: Any = csr_array(A)
    a.eliminate_zeros()
    r = a.shape[0]
    diagonal, row_sums = np.zeros((n, c)), np.zeros((n, c))
    count, part = csgraph.connected_components(block_array([[None, a], [a.T, None]]), directed=False)
    rows, columns = (np.bincount(p, minlength=count) for p in (part[:r], part[r:]))

    # a single row a over some records: H = aa′ / (π|a|² + 1 - π)
    row_of = np.repeat(np.arange(r), np.diff(a.indptr))
    alone = rows[part[row_of]] == 1
    if alone.any():
        lengths, sums = np.bincount(row_of, a.data**2, r), np.bincount(row_of, a.data, r)
        at, of, value = a.indices[alone], row_of[alone], a.data[alone][:, None]
        weight = 1 / (np.outer(lengths[of], share) + (1 - share))
        diagonal[at] = value**2 * weight
        row_sums[at] = value * sums[of][:, None] * weight

    row_sets, column_sets = (
        np.split(np.argsort(p, kind="stable"), np.cumsum(s)[:-1]) for p, s in ((part[:r], rows), (part[r:], columns))
    )
    for number in np.flatnonzero((rows > 1) & (columns > 0)):
        inside, across = row_sets[number], column_sets[number]
        if max(len(inside), len(across)) > LARGEST:
            raise NotApplicable(
                f"A combines more than {LARGEST:,} records or rows that all hang together, which is not worked out. Use groups "
                "that do not overlap, or a random sample."
            )
        block = a[inside][:, across].toarray()
        _, size, basis = np.linalg.svd(block, full_matrices=False)
        kept = size > size[0] * max(block.shape) * np.finfo(float).eps
        square = size[kept, None] ** 2
        weight = square / (square * share + (1 - share))
        diagonal[across] = (basis[kept] ** 2).T @ weight
        row_sums[across] = basis[kept].T @ (weight * basis[kept].sum(axis=1)[:, None])
    return Hat(diagonal, row_sums, row_sums.sum(axis=0))


# Exchangeable records: what M = AXB + C discloses about one of them, without any np × np matrix (section III's aside).
#
# Var(vec X) has V on the diagonal and K off it, so that it is I ⊗ (V - K) + 11′ ⊗ K, with the eigenvalues of V - K and of
# V + (n - 1)K (erratum 2.9: a generalised inverse is needed if any of these is singular). With P = B′(V - K)B and Q = B′KB, and
# noise of covariance N that is independent between released records,
#
#     Var(vec M) = AA′ ⊗ P + A11′A′ ⊗ Q + I ⊗ N,        Cov(yᵢ, vec M) = Aeᵢ ⊗ d + A1 ⊗ k,
#
# where d and k are the covariances of the target with its own record, less those with another, and with another record.
# Coordinates in which P + N is the identity and P diagonal (π) take it apart into H(π) of `hat`, and a c × c problem along A1.


@dataclass(frozen=True, eq=False)
class ExchangeableRecords:
    """n records that the spy takes for exchangeable: V within a record, K between any two.

    Examples
    --------
    >>> file = ExchangeableRecords(("salary", "rent"), [[1.0, 0.5], [0.5, 1.0]], n=1_000)
    >>> file.seen(["salary"], released=["rent"]).explained().round(2).tolist()
    [[[0.25]]]
    """

    names: tuple[str, ...]
    V: Any
    """Covariance of the attributes of one record, shape (q, q): of all that are released, and of all targets."""
    n: int
    K: Any = None
    """Covariance of the attributes of two records, shape (q, q); zero, if not given: the spy knows the population."""
    mean: Any = field(default=None)
    """Mean of the attributes, shape (q,); matters only for hidden factors. Zero, if not given."""

    def __post_init__(self) -> None:
        V = square(self.V, "V")
        q = len(self.names)
        K = np.zeros_like(V) if self.K is None else square(self.K, "K")
        mean = np.zeros(q) if self.mean is None else numbers(self.mean, "the mean")
        if V.shape != (q, q) or K.shape != (q, q) or mean.shape != (q,):
            raise ParameterError(f"{q} attributes need {q} × {q} matrices V and K, and a mean of {q} numbers.")
        if self.n < 1:
            raise ParameterError("a file needs at least one record.")
        whiten(V, "V")
        if self.n > 1 and K.any():
            _check(V - K, V, "V - K")
            _check(V + (self.n - 1) * K, V, "V + (n - 1)K")
        for name, value in (("V", V), ("K", K), ("mean", mean)):
            object.__setattr__(self, name, value)

    def at(self, names: Sequence[str]) -> list[int]:
        """Return the positions of attributes."""
        refuse_unknown("attribute", self.names, "the model", *names)
        return [self.names.index(name) for name in names]

    def seen(
        self,
        targets: Sequence[str],
        released: Sequence[str],
        A: Any = None,
        B: ArrayLike | None = None,
        noise: ArrayLike | None = None,
    ) -> SeenFile:
        """Return the second moments of M = AXB + C, X being the attributes `released`, and of targets of one record.

        A, of shape (r, n), and B, of shape (p, c), are known to the spy; `noise` is the covariance (c, c) of a C that is not.
        """
        x, y = self.at(released), self.at(targets)
        b = np.eye(len(x)) if B is None else numbers(B, "B")
        if b.ndim != 2 or len(b) != len(x):
            raise ParameterError(f"B must have {len(x)} rows, one for each attribute that is released.")
        if A is not None and A.shape[1] != self.n:
            raise ParameterError(
                f"A has {A.shape[1]:,} columns, but there are {self.n:,} records: it needs one for each."
            )
        N = np.zeros((b.shape[1],) * 2) if noise is None else square(noise, "the covariance of the noise")
        if len(N) != b.shape[1]:
            raise ParameterError(f"the covariance of the noise must be {b.shape[1]} × {b.shape[1]}, as M has columns.")
        whiten(N, "the covariance of the noise")
        P, Q = (b.T @ S[np.ix_(x, x)] @ b for S in (self.V - self.K, self.K))
        d, k = (S[np.ix_(y, x)] @ b for S in (self.V - self.K, self.K))
        return SeenFile(self.V[np.ix_(y, y)], P, Q, N, d, k, self.n, A)


@dataclass(frozen=True, eq=False)
class SeenFile:
    """Second moments of a release of exchangeable records, and of u targets that belong to one record, as the spy has them."""

    prior: Numbers
    """Variance of the targets, shape (u, u)."""
    P: Numbers
    """B′(V - K)B, shape (c, c)."""
    Q: Numbers
    """B′KB, shape (c, c)."""
    N: Numbers
    """Covariance of the noise of a released record, shape (c, c)."""
    d: Numbers
    """Cov(target, its own record) - Cov(target, another one), shape (u, c)."""
    k: Numbers
    """Cov(target, another record), shape (u, c)."""
    n: int
    A: Any = None
    exact: bool = True
    """Whether Y and M are jointly normal if X is; else all is about the best linear prediction."""
    shuffled: bool = False
    """Whether the spy is not told which record is where."""

    def explained(self, outside: bool = False, kinds: slice = slice(None)) -> Numbers:
        """Return G for targets of each kind of record, those that show differently through A; shape (m, u, u).

        `outside` is about the targets of a record that is not in the file. `kinds` picks some: there may be as many as records.
        """
        diagonal, sums = self._shown(outside)
        return self._split.joint(diagonal[kinds], sums[kinds], self._also(outside))

    def variances_explained(self, outside: bool = False) -> Numbers:
        """Return the variance explained of each target alone, the diagonals of `explained`, shape (m, u)."""
        return self._split.alone(*self._shown(outside), self._also(outside))

    def classes(self) -> Whole:
        """Return for every record the number of its row in `explained`, shape (n,)."""
        return np.zeros(self.n, np.int64) if self.shuffled else self._kinds[2]

    @cached_property
    def _kinds(self) -> tuple[Numbers, Numbers, Whole]:
        """Hᵢᵢ and (H1)ᵢ of each kind of record, shapes (m, c), and the kind of each record, shape (n,)."""
        hat = self._split.hat
        if len(hat.diagonal) == 1:
            return hat.diagonal, hat.row_sums, np.zeros(self.n, np.int64)
        both = np.ascontiguousarray(np.hstack([hat.diagonal, hat.row_sums]).round(12) + 0.0)
        rows = both.view(np.dtype((np.void, both.itemsize * both.shape[1]))).ravel()  # compared as bytes
        _, first, kind = np.unique(rows, return_index=True, return_inverse=True)
        return hat.diagonal[first], hat.row_sums[first], kind.ravel()

    def _shown(self, outside: bool) -> tuple[Numbers, Numbers]:
        c = self._split.hat.diagonal.shape[1]
        return (np.zeros((1, c)), np.zeros((1, c))) if outside or self.shuffled else self._kinds[:2]

    def _also(self, outside: bool) -> float:
        """Return the share of d that the target has in common with every released record: E[A]eᵢ = A1/n if shuffled."""
        return 1 / self.n if self.shuffled and not outside else 0.0

    @cached_property
    def _split(self) -> _Split:
        """Take the release apart: P + N = I and P = diag(π) in the coordinates F; U holds what varies only between files."""
        both = self.P + self.N
        scale = np.sqrt(np.abs(np.diag(both)) + np.abs(np.diag(self.Q)))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        values, vectors = np.linalg.eigh(both * np.outer(unit, unit))
        kept = values > SINGULAR * len(values)
        F = (vectors[:, kept] / np.sqrt(values[kept])).T * unit
        share, turn = np.linalg.eigh(F @ self.P @ F.T)
        share = np.where(share > 1 - 1e-12, 1.0, share.clip(min=0.0))
        F, U = turn.T @ F, vectors[:, ~kept].T * unit
        check_flat(self.d @ U.T, np.sqrt(np.diag(self.prior)))
        hat = hat_of(self.A, self.n, share if len(share) else np.ones(1))
        total = hat.total.clip(min=0.0)[: len(share)]
        ones = float(self.n) if self.A is None else float(np.square(np.asarray(self.A.sum(axis=1))).sum())
        along = np.vstack([np.sqrt(total)[:, None] * F, np.sqrt(ones) * U])
        root = _root_along(along @ self.Q @ along.T, len(F), ones)
        return _Split(self.d @ F.T, self.k @ along.T, self.d @ along.T, total, root, hat)

    def hidden_order(self) -> SeenFile:
        """Return the file to a spy who is not told which record is where in A: A = A₀Π with a random permutation Π.

        Samples, random groups and random order. E[A]eᵢ = A1/n, the same for every record; AA′ and A1 are known.
        """
        return replace(self, shuffled=True, exact=False)

    def hidden_record_factors(self, variance: Numbers, mean: Numbers) -> SeenFile:
        """Return the file to a spy who is not told the factors of the records: mean 1, independent between records.

        `variance` is that of the factor for each column of M, the same number or zero, and `mean` that of XB, shape (c,) both:
        Var = E[A S A′] + Var(Aμ).
        """
        if self.A is not None:
            raise ParameterError("hidden factors take the place of A, which must not be given as well.")
        spread = np.sqrt(np.outer(variance, variance))
        return replace(self, P=self.P + spread * (self.P + self.Q + np.outer(mean, mean)), exact=False)

    def hidden_column_factors(self, variance: Numbers, mean: Numbers) -> SeenFile:
        """Return the file to a spy who is not told the factors of M's columns: mean 1, independent between columns.

        `variance` is that of each column's factor, and `mean` that of XB, shape (c,) both.
        """
        P, Q = (S + np.diag(variance * np.diag(S)) for S in (self.P, self.Q))
        return replace(self, P=P, Q=Q + np.diag(variance * mean**2), exact=False)


def _check(S: Numbers, V: Numbers, name: str) -> None:
    """Refuse a matrix with a negative eigenvalue; measured by V, since a difference of equals is zero only up to rounding."""
    sd = np.sqrt(np.diag(V))
    unit = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    values = np.linalg.eigvalsh(S * np.outer(unit, unit))
    if values.min() < -SLACK * max(1.0, values.max()) or S[sd == 0].any():
        raise ParameterError(
            f"{name} is not positive semi-definite: no records that are exchangeable have these covariances V within and K "
            "between them. Make K smaller."
        )


def _root_along(between: Numbers, rank: int, ones: float) -> Numbers:
    """Return W with W′W a generalised inverse of diag(1, ..., 1, 0, ...) + between: the variance of M along A1.

    Each coordinate is measured against what it is made of, so that what cancels to rounding is taken for zero.
    """
    size = np.concatenate([1 + np.abs(np.diag(between)[:rank]), np.full(len(between) - rank, ones)])
    unit = np.divide(1.0, np.sqrt(size), out=np.zeros_like(size), where=size > 0)
    small = between + np.diag(np.arange(len(between)) < rank)
    values, vectors = np.linalg.eigh((small + small.T) / 2 * np.outer(unit, unit))
    kept = values > SINGULAR * len(values)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * unit)


@dataclass(frozen=True, eq=False)
class _Split:
    """A release in coordinates that do not covary, but for those along A1."""

    d: Numbers
    """Shape (u, rank)."""
    k: Numbers
    """Along A1, shape (u, rank + what varies only between files)."""
    own: Numbers
    """d along A1, shape as of k."""
    total: Numbers
    root: Numbers
    hat: Hat

    def _factors(self, diagonal: Numbers, sums: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return the factors of d across A1 and along it, shapes (m, rank) and (m, all coordinates), and d in all coordinates."""
        rank = self.d.shape[1]
        sums = sums[:, :rank]
        length = np.sqrt(self.total)
        along = np.divide(sums, length, out=np.zeros_like(sums), where=length > 1e-150)
        padded, wide = (np.pad(part, ((0, 0), (0, self.k.shape[1] - rank))) for part in (along, self.d))
        return (diagonal[:, :rank] - along**2).clip(min=0.0), padded, wide

    def joint(self, diagonal: Numbers, sums: Numbers, also: float) -> Numbers:
        """Return G, shape (m, u, u)."""
        across, padded, wide = self._factors(diagonal, sums)
        z = (padded[:, None, :] * wide + self.k + also * self.own) @ self.root.T
        return np.asarray((self.d * across[:, None, :]) @ self.d.T + z @ np.swapaxes(z, 1, 2))

    def alone(self, diagonal: Numbers, sums: Numbers, also: float) -> Numbers:
        """Return the diagonals of G, shape (m, u)."""
        across, padded, wide = self._factors(diagonal, sums)
        out = across @ (self.d**2).T
        for j, (own, other) in enumerate(zip(wide, self.k + also * self.own, strict=True)):
            z = (padded * own + other) @ self.root.T
            out[:, j] += (z**2).sum(axis=1)
        return out


# A mask as the spy sees it: its matrices where they are revealed, their second moments where they are not (erratum 2.12).


Hide = Callable[[SeenFile, Numbers, tuple[str, ...]], SeenFile]
"""Takes a file as one sees it who knows A and B, the mean of XB and the names of M's columns, to the file as the spy sees it."""


@dataclass(frozen=True, eq=False)
class SeenMask:
    """The matrices of a mask, and what of them the spy is not told."""

    form: MatrixForm
    noise: HiddenNoise | None = None
    hide: tuple[Hide, ...] = ()
    factored: tuple[str, ...] = ()
    """Columns of M that are multiplied by hidden factors."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of X."""
        return self.form.names

    def of(self, records: ExchangeableRecords, targets: Sequence[str]) -> SeenFile:
        """Return the release of such records, and the targets, as the spy sees them."""
        x = records.at(self.names)
        noise = None if self.noise is None else self.noise.on(self.form.released)
        file = records.seen(targets, self.names, self.form.A, self.form.B, noise)
        mean = records.mean[x] if self.form.B is None else records.mean[x] @ self.form.B
        for hide in self.hide:
            file = hide(file, mean, self.form.released)
        return replace(file, exact=file.exact and (self.noise is None or self.noise.normal))

    def reveals(self) -> tuple[Flags, Flags]:
        """Return which records (n,) and which attributes (p,) of X the spy can compute exactly.

        From combinations of M's columns that have no hidden noise and no hidden factor; from none, if it is hidden which record
        is where.
        """
        form = self.form
        if self.noise is not None or self.factored:
            b = np.eye(len(form.released)) if form.B is None else form.B
            form = replace(form, B=b @ self._bare())
        records, attributes = form.reveals()
        return records & (not self.hide or bool(self.factored)), attributes

    def _bare(self) -> Numbers:
        """Return combinations of M's columns without hidden noise or factors, shape (c, k)."""
        released = self.form.released
        if self.noise is None:  # a column of its own factor
            return np.asarray(np.eye(len(released))[:, [n not in self.factored for n in released]])
        noise = self.noise.on(released)
        still = np.diag(noise) == 0
        return np.hstack([whiten(noise, "the covariance of the noise").null.T, np.eye(len(released))[:, still]])


def see(
    data: Microdata,
    mask: Mask | Recipe | MatrixForm | None,
    revealed: Collection[str],
    beside: Sequence[str] | None,
    draws: Draws,
) -> SeenMask:
    """Return the mask as the spy sees it; refuse one that is no matrix mask, or depends on the data."""
    if wrong := sorted({*revealed} - set("ABC")):
        raise ParameterError(f"'{wrong[0]}' is no part of a mask: there are A, B and C.")
    if mask is None:
        mask = Identity()
    if isinstance(mask, MatrixForm):
        seen, after = _of_form(mask, revealed), data.schema.keep(lambda a: a.name not in mask.names)
    else:
        recipe = mask.as_recipe() if isinstance(mask, Mask) else mask
        seen, after = _of_recipe(data, recipe, revealed, draws), _after(recipe, data.schema)
    for name in seen.names:
        check_numeric(data, name)
    seen = replace(seen, form=_without_labels(seen.form, after))
    return replace(seen, form=_with_others(seen.form, data, after, beside))


def _of_recipe(data: Microdata, recipe: Recipe, revealed: Collection[str], draws: Draws) -> SeenMask:
    """Fold the steps: their matrices, and beside them the covariance of the noise that the spy is not told."""
    _, start, _ = run_steps(recipe.steps[:1], data, draws, verify=False)
    numbers = numbers_in(start, _after(recipe, data.schema))
    form, noise = MatrixForm((), ()), NO_NOISE
    told: list[tuple[MatrixForm, HiddenNoise] | None] = []
    others: list[Mask] = []

    def form_of(mask: Mask, now: Microdata, own: Draws) -> MatrixForm:
        told.append(None if "C" in revealed else noise_of(mask, now))
        return mask.matrices(now, own) if told[-1] is None else told[-1][0]

    even = True
    for mask, mine, together in matrix_steps(recipe.steps[1:], start, draws, form_of):
        check_independent(mine)
        known = told[-1]
        if known is None and not isinstance(mask, Identity | RemoveIdentifiers):
            others.append(mask)
        added = sampled_noise(mine, revealed) if known is None else known[1]
        carried = carried_on(noise, form.released, mine)
        even, noise = even and carried is not None, (carried or NO_NOISE).plus(added, together.released)
        form = replace(together, C=None)
    seen = SeenMask(form if form.names else MatrixForm(numbers, numbers), noise if noise.covariance.any() else None)
    if not even:  # released records have noise of different sizes: what was drawn tells how much, on average
        seen = _of_form(recipe.as_matrix(data, draws), {*revealed, "A", "B"})
    hidden = [part for part in "AB" if part in form.random and part not in revealed]
    hide = tuple(_hider(others, part, seen, data.schema) for part in hidden)
    if hidden and isinstance(
        others[0], MultiplyRecords | MultiplyColumns
    ):  # beliefs about the factors take their place
        return replace(seen, form=replace(form, A=None, B=None), hide=hide, factored=form.released)
    return replace(seen, hide=hide)


def _hider(masks: Sequence[Mask], part: str, seen: SeenMask, schema: Schema) -> Hide:
    """Return what hiding a random A or B does, for the masks of which it is known: those that are no hidden noise."""
    form = seen.form
    shared = [n for n in form.names if schema[n].level is Level.HOUSEHOLD]
    if len(masks) == 1 and not shared:  # members of a household share their draws, which are then not independent
        mask = masks[0]
        if isinstance(mask, MultiplyRecords | MultiplyColumns) and seen.noise is None:
            return partial(_no_factors, mask, form.released)
        by_record = type(mask) is Sample and (mask.unit == "record" or schema.one("household") is None)
        if by_record or isinstance(mask, RandomOrder) or (isinstance(mask, RandomAggregation) and not mask.within):
            return lambda file, mean, released: file.hidden_order()
    raise NotApplicable(
        f"what a spy who is not told {part} would believe about it is not worked out for {join_names(m.name for m in masks)}. Count "
        f"{part} as revealed, which is safe, or give InferentialDisclosure a RandomMatrix."
    )


def _no_factors(
    mask: MultiplyRecords | MultiplyColumns,
    masked: tuple[str, ...],
    file: SeenFile,
    mean: Numbers,
    released: tuple[str, ...],
) -> SeenFile:
    hide = file.hidden_record_factors if isinstance(mask, MultiplyRecords) else file.hidden_column_factors
    return hide(np.array([mask.factor_variance if n in masked else 0.0 for n in released]), mean)


def _of_form(form: MatrixForm, revealed: Collection[str]) -> SeenMask:
    """Return the matrices as the spy sees them."""
    check_independent(form)
    if hidden := [part for part in form.random if part in "AB" and part not in revealed]:
        raise NotApplicable(
            f"what the spy believes about {' and '.join(hidden)} is not known from the matrices alone. Count it as revealed, "
            "which is safe, or give the mask itself."
        )
    noise = sampled_noise(form, revealed)
    return SeenMask(replace(form, C=None), noise if noise.covariance.any() else None)


def _after(recipe: Recipe, schema: Schema) -> Schema:
    for step in recipe.steps:
        schema = step.mask.schema_after(schema)
    return schema


def _without_labels(form: MatrixForm, after: Schema) -> MatrixForm:
    """Return the form without released columns that are no measurements: household numbers, weights."""
    kept = [j for j, n in enumerate(form.released) if n not in after or after[n].role not in NOT_DATA]
    if len(kept) == len(form.released):
        return form
    b = np.eye(len(form.names)) if form.B is None else form.B
    used = [i for i in range(len(b)) if form.B is not None or i in kept]
    return replace(
        form,
        names=tuple(form.names[i] for i in used),
        released=tuple(form.released[j] for j in kept),
        B=None if form.B is None else b[np.ix_(used, kept)],
    )


def _with_others(form: MatrixForm, data: Microdata, after: Schema, beside: Sequence[str] | None) -> MatrixForm:
    """Return the form with the columns that are released as they are."""
    if beside is None:
        known = {*form.names, *form.released}
        beside = [n for n in measurements(data, after) if n not in known]
    for name in beside:
        check_numeric(data, name)
    others = [n for n in beside if n not in form.released]
    if others and form.A is not None:
        raise NotApplicable(
            f"the mask transforms records in {join_names(form.names)}, while {join_names(others)} would be released as they are, so "
            "that the release is not one matrix mask. Let the mask name all columns, or set beside = () to leave "
            "the others out of account."
        )
    if not others:
        return form
    names = tuple(dict.fromkeys((*form.names, *others)))
    released = (*form.released, *others)
    if form.B is None:
        return replace(form, names=names, released=released)
    b = np.zeros((len(names), len(released)))
    b[: form.B.shape[0], : form.B.shape[1]] = form.B
    for j, name in enumerate(others, form.B.shape[1]):
        b[names.index(name), j] = 1.0
    return replace(form, names=names, released=released, B=b)
