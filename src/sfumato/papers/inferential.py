"""Inferential disclosure: what a masked file M = AXB + C lets a spy infer, with matrices or noise that he is not told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract import Mask, MatrixForm
from sfumato.data import Kind, Microdata
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks.corrected_noise import CorrectedNoise
from sfumato.masks.noise import AdditiveNoise, StructuredNoise
from sfumato.papers.conditional import (
    RuleVerdict,
    conditional_variance,
    explained,
    judge_explained,
    judge_left,
    numbers,
    square,
    whiten,
)
from sfumato.schema.schema import Schema
from sfumato.typing import Numbers

# A matrix that the spy does not know: its mean and the covariances of its entries (erratum 2.12).


@dataclass(frozen=True, eq=False)
class RandomMatrix:
    """A random A, B or C of a mask that is *not* revealed, independent of the data; what the spy believes about it.

    A matrix that is revealed is no random matrix to the spy: condition on it, that is, give the matrix itself.

    Examples
    --------
    >>> coin = RandomMatrix.over([[[1.0, 0.0]], [[0.0, 1.0]]])  # one of two records, each with probability 1/2
    >>> coin.mean.tolist()
    [[0.5, 0.5]]
    """

    mean: Numbers
    """Shape (a, b)."""
    covariance: Numbers
    """Covariance of the entries, row by row, shape (ab, ab)."""
    normal: bool = False
    """Whether the entries are jointly normal; only such a C leaves the release normal."""
    outcomes: tuple[Numbers, ...] = ()
    """All matrices that it can be, if they were given."""
    probabilities: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", np.atleast_2d(numbers(self.mean, "the mean")))
        object.__setattr__(self, "covariance", square(self.covariance, "the covariance of the entries"))
        if self.mean.ndim != 2 or not np.isfinite(self.mean).all():
            raise ParameterError("the mean of a random matrix must be a matrix of finite numbers.")
        if len(self.covariance) != self.mean.size:
            raise ParameterError(
                f"the matrix has {self.mean.size} entries, so their covariance must be {self.mean.size} × {self.mean.size}."
            )
        whiten(self.covariance, "the covariance of the entries")

    @classmethod
    def over(cls, outcomes: Sequence[ArrayLike], probabilities: Sequence[float] | None = None) -> Self:
        """Return the matrix that is one of these, with these probabilities (equal ones, if not given)."""
        matrices = [np.atleast_2d(numbers(m, "an outcome")) for m in outcomes]
        if not matrices or len({m.shape for m in matrices}) > 1:
            raise ParameterError("the outcomes of a random matrix must be matrices of one shape, at least one of them.")
        p = (
            np.full(len(matrices), 1 / len(matrices))
            if probabilities is None
            else numbers(probabilities, "probabilities")
        )
        if p.shape != (len(matrices),) or not (p >= 0).all() or not np.isclose(p.sum(), 1):
            raise ParameterError("probabilities must be as many as the outcomes, none negative, with the sum 1.")
        entries: Numbers = np.array([m.ravel() for m in matrices])
        mean: Numbers = p @ entries
        spread = (entries - mean) * np.sqrt(p)[:, None]
        return cls(mean.reshape(matrices[0].shape), spread.T @ spread, False, tuple(matrices), tuple(p.tolist()))

    @classmethod
    def noise(cls, covariance: ArrayLike, rows: int) -> Self:
        """Return normal noise of mean zero for `rows` records: independent between them, with this covariance within."""
        within = square(covariance, "the covariance of the noise")
        whole: Numbers = np.array(np.kron(np.eye(rows), within), np.float64)
        return cls(np.zeros((rows, len(within))), whole, normal=True)

    @classmethod
    def independent(cls, mean: ArrayLike, variance: ArrayLike, normal: bool = False) -> Self:
        """Return a matrix with independent entries of these means and variances (one variance, or one for each entry)."""
        centre = np.atleast_2d(numbers(mean, "the mean"))
        spread = numbers(variance, "the variance")
        if spread.shape not in ((), centre.shape):
            raise ParameterError("variance must be one number, or one for each entry of the mean.")
        spread = np.broadcast_to(spread, centre.shape)
        return cls(centre, np.diag(spread.ravel()), normal)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        a, b = self.mean.shape
        return a, b

    @property
    def second_moments(self) -> Numbers:
        """E[Aᵢⱼ Aₖₗ], shape (a, b, a, b)."""
        entries = self.mean.ravel()
        return np.asarray((self.covariance + np.outer(entries, entries)).reshape(self.shape * 2))


# Noise that the spy is not told: its covariance as it is drawn, and what later masks make of it (erratum 2.12).


@dataclass(frozen=True, eq=False)
class HiddenNoise:
    """A displacement C that the spy is not told, independent between released records."""

    names: tuple[str, ...]
    covariance: Numbers
    """Covariance of the noise on these columns of M, shape (k, k)."""
    normal: bool = True

    def on(self, released: tuple[str, ...]) -> Numbers:
        """Return its covariance on columns of M, zero on those without noise."""
        place = np.array([[float(a == b) for b in self.names] for a in released]).reshape(
            len(released), len(self.names)
        )
        return np.asarray(place @ self.covariance @ place.T)

    def plus(self, other: HiddenNoise, released: tuple[str, ...]) -> HiddenNoise:
        """Return both, independent of each other, on columns of M."""
        return HiddenNoise(released, self.on(released) + other.on(released), self.normal and other.normal)


NO_NOISE = HiddenNoise((), np.zeros((0, 0)))


def noise_of(mask: Mask, data: Microdata) -> tuple[MatrixForm, HiddenNoise] | None:
    """Return the matrices, but for C, of a fitted mask that adds noise, and the noise as it is drawn; None for other masks."""
    schema = data.schema
    if isinstance(mask, AdditiveNoise):
        names, learned = tuple(mask.names), mask.root @ mask.root.T
        drawn = AdditiveNoise.noise(mask, names, learned, schema)
        if isinstance(mask, CorrectedNoise):  # noise added, and the sum drawn back to the mean
            back = mask.shrinkage()
            form = MatrixForm(names, names, B=np.diag(back))
            return form, HiddenNoise(names, np.asarray(drawn) * np.outer(back, back))
        if mask.noise(names, learned, schema) is None:
            return None
        return MatrixForm(names, names), HiddenNoise(names, np.asarray(drawn))
    names = tuple(n for n in numbers_in(data, schema) if n in mask.touches(schema))
    if not names or mask.noise(names, np.eye(len(names)), schema) is None:
        return None
    drawn = mask.noise(names, data.moments(names).covariance, schema)
    return MatrixForm(names, names), HiddenNoise(names, drawn, isinstance(mask, StructuredNoise))


def carried_on(noise: HiddenNoise, released: tuple[str, ...], form: MatrixForm) -> HiddenNoise | None:
    """Return earlier noise after the next mask, B′NB times AA′; None if AA′ is no multiple of the identity."""
    onward = replace(MatrixForm(released, released).then(replace(form, C=None)), C=None)
    b = np.eye(len(onward.names)) if onward.B is None else onward.B
    covariance = b.T @ noise.on(onward.names) @ b
    if form.A is not None and covariance.any():
        from scipy.sparse import csr_array

        a: Any = csr_array(form.A)
        square = (a @ a.T).tocoo()
        size = float(square.diagonal().mean())
        off = np.abs(square.data - size * (square.row == square.col))
        if off.max(initial=0.0) > 1e-12 * size or (square.diagonal() == 0).any():
            return None
        covariance = size * covariance
    return HiddenNoise(onward.released, covariance, noise.normal)


def sampled_noise(form: MatrixForm, revealed: Collection[str]) -> HiddenNoise:
    """Return the noise of a hidden C that was drawn: its rows are taken for independent draws and give the covariance."""
    if "C" not in form.random or "C" in revealed or form.C is None:
        return NO_NOISE
    if len(form.C) < 2:
        raise NotApplicable(
            "C is random and has a single row, from which its covariance cannot be told. Count it as revealed, which is safe."
        )
    return HiddenNoise(form.released, np.atleast_2d(np.cov(form.C, rowvar=False)), normal=False)


def numbers_in(data: Microdata, schema: Schema) -> tuple[str, ...]:
    """Return the columns of numbers that a schema, perhaps of a release, still has."""
    return tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER and n in schema)


# Inferential disclosure: what a masked file M = AXB + C lets a spy infer about targets Y (matrix-masking paper, III to V).


Part = ArrayLike | RandomMatrix | None

LARGEST = 3_000
"""The most entries that X or M may have here; `inferential_risk` takes files of any length."""

_LINEAR = (
    "What is not revealed makes M not normal: the value is about the best linear prediction, and a spy who computes the whole "
    "posterior explains at least as much"
)


@dataclass(frozen=True, eq=False)
class Disclosure:
    """What a release explains about the targets.

    If every hidden matrix is a normal C, Y and M are jointly normal: `explained` is exact, and Var(Y | M) is `left`. Else it is
    about the best linear prediction of Y from M, and in the order of covariance matrices

        explained ≤ Var(E[Y | M]) ≤ at_most,        left ≥ E[Var(Y | M)] ≥ prior - at_most.
    """

    prior: Numbers
    """S_yy, shape (tu, tu): targets record by record, attributes within."""
    explained: Numbers
    """G = S_ym S_mm⁻ S_my, shape (tu, tu)."""
    left: Numbers
    """prior - explained, never negative; shape (tu, tu)."""
    exact: bool = True
    at_most: Numbers | None = None
    """The variance explained on average if hidden matrices (but a normal C) were revealed; None if that is not known."""

    @property
    def shares(self) -> Numbers:
        """Share of each target's variance that is explained (squared multiple correlations), shape (tu,)."""
        before, after = np.diag(self.prior), np.diag(self.left)
        return 1 - np.divide(after, before, out=np.ones_like(before), where=before > 0)

    @property
    def worst(self) -> int:
        """The position of the target of which the largest share is explained."""
        return int(self.shares.argmax())

    def acceptable(
        self, tau: float, functional: str = "trace", *, relative: bool = False, safe: bool = False
    ) -> RuleVerdict:
        """Say whether the mask is τ-acceptable: Ω{G} < τ (equation 5.1). τ is the most that may be *explained*.

        `relative` counts in shares of the prior variance. `safe` judges what could be explained at most, where A or B is hidden.
        """
        G = self.explained
        if safe and not self.exact:
            if self.at_most is None:
                raise NotApplicable(
                    "at most how much is explained is not known: it needs all outcomes of the hidden A and B "
                    "(RandomMatrix.over), or the matrices themselves, as if they were revealed."
                )
            G = self.at_most
        return judge_explained(self.prior, G, tau, functional, relative, self._note(safe))

    def uncertain(self, tau: float, functional: str = "trace", *, relative: bool = False) -> RuleVerdict:
        """Say whether to release by the spy's Bayes risk: release if it exceeds τ. τ is the least that must be *left*."""
        return judge_left(self.prior, self.left, tau, functional, relative, self._note(False))

    def _note(self, safe: bool) -> str:
        if self.exact:
            return ""
        return "It is the most that is explained on average, as if all were revealed." if safe else f"{_LINEAR}."


@dataclass(frozen=True, eq=False)
class InferentialDisclosure:
    """Targets Y and a file X with a joint covariance: the spy's beliefs, as the agency perceives them.

    X is `records` × p and Y is t × u, both stacked record by record, attributes within. Of (3.1) and (5.1) only covariances
    matter, and the mean of X only if A or B is random and not revealed.

    Examples
    --------
    >>> spy = InferentialDisclosure(1.0, [0.6, 0.6], np.eye(2), records=2)
    >>> print(spy.after(A=[[1.0, 1.0]]).acceptable(0.5))  # their sum is released
    the variance explained (trace of G) is 0.72 ≥ 0.5, the threshold of what may be explained: the mask is not τ-acceptable.
    """

    S_yy: Any
    """Prior variance of the targets, shape (tu, tu)."""
    S_yx: Any
    """Covariances of the targets with X, shape (tu, np)."""
    S_xx: Any
    """Variance of X, shape (np, np)."""
    records: int = 1
    """n, the number of records of X."""
    mean: Any = None
    """Mean of X, shape (n, p); zero, if not given."""

    def __post_init__(self) -> None:
        yy, yx, xx = (np.atleast_2d(numbers(getattr(self, name), name)) for name in ("S_yy", "S_yx", "S_xx"))
        conditional_variance(yy, yx, xx)  # refuses what is no joint covariance
        if self.records < 1 or len(xx) % self.records:
            raise ParameterError(
                f"S_xx is about {len(xx)} values, which are not {self.records} records of equally many attributes."
            )
        if len(xx) > LARGEST:
            raise ParameterError(
                f"X has {len(xx):,} values, more than {LARGEST:,}. For whole files use inferential_risk, which takes the records "
                "for exchangeable."
            )
        p = len(xx) // self.records
        mean = np.zeros((self.records, p)) if self.mean is None else numbers(self.mean, "the mean of X")
        if mean.size != len(xx) or not np.isfinite(mean).all():
            raise ParameterError(f"the mean of X must be {self.records} × {p} finite numbers.")
        for name, value in (("S_yy", yy), ("S_yx", yx), ("S_xx", xx), ("mean", mean.reshape(self.records, p))):
            object.__setattr__(self, name, value)

    @property
    def attributes(self) -> int:
        """p, the number of attributes of X."""
        return len(self.S_xx) // self.records

    def unmasked(self) -> Disclosure:
        """Return what X itself would disclose, equation (3.1)."""
        return self.after()

    def after(self, A: Part = None, B: Part = None, C: Part = None) -> Disclosure:
        """Return what M = AXB + C discloses.

        A matrix is known to the spy; a `RandomMatrix` is not revealed, and independent of X and of the others. What is not given
        is the identity or zero. A known C has no effect, since the spy takes it off.
        """
        a, b, c = self._parts(A, B, C)
        moments = self._moments(a, b)
        noise = c.covariance if isinstance(c, RandomMatrix) else 0.0
        S_ym, S_mm = moments[0], moments[1] + noise
        exact = not any(isinstance(part, RandomMatrix) for part in (a, b)) and (
            not isinstance(c, RandomMatrix) or c.normal or not c.covariance.any()
        )
        left = conditional_variance(self.S_yy, S_ym, S_mm)
        G = explained(S_ym, S_mm, self.S_yy)
        known = (
            noise if isinstance(c, RandomMatrix) and c.normal else 0.0
        )  # other noise is bounded as if it were revealed too
        return Disclosure(self.S_yy, G, left, exact, None if exact else self._revealed(a, b, known))

    def of(
        self, form: MatrixForm, revealed: Collection[str] = (), hidden: Mapping[str, RandomMatrix] | None = None
    ) -> Disclosure:
        """Return what a mask's matrices disclose. Of those that are random, say which are revealed, or what is believed of them.

        Refused if A, B or C depends on the data: then they say more about X than M does, and (5.1) does not apply.
        """
        hidden = dict(hidden or {})
        check_independent(form)
        if wrong := sorted({*revealed, *hidden} - set("ABC")):
            raise ParameterError(f"'{wrong[0]}' is no part of a mask: there are A, B and C.")
        if open_ := [part for part in form.random if part not in revealed and part not in hidden]:
            raise ParameterError(
                f"{' and '.join(open_)} of the mask {'is' if len(open_) == 1 else 'are'} random. Say whether the spy is told "
                "(revealed=...), or what the spy believes (hidden={...: RandomMatrix(...)})."
            )
        dense = {"A": form.A, "B": form.B, "C": form.C}
        return self.after(**{part: hidden.get(part, _dense(matrix)) for part, matrix in dense.items()})

    def _parts(self, A: Part, B: Part, C: Part) -> tuple[Any, Any, Any]:
        n, p = self.records, self.attributes
        a, b = _part(A, n), _part(B, p)
        if a.shape[1] != n:
            raise ParameterError(f"A has {a.shape[1]} columns, but X has {n} records: it needs a column for each.")
        if b.shape[0] != p:
            raise ParameterError(f"B has {b.shape[0]} rows, but X has {p} attributes: it needs a row for each.")
        r, c = a.shape[0], b.shape[1]
        shift = np.zeros((r, c)) if C is None else _part(C, 0)
        if shift.shape != (r, c) and (isinstance(shift, RandomMatrix) or shift.shape != (1, c)):
            raise ParameterError(f"C has the shape {shift.shape[0]} × {shift.shape[1]}, but M is {r} × {c}.")
        if r * c > LARGEST or any(isinstance(m, RandomMatrix) and m.mean.size > LARGEST for m in (a, b)):
            raise ParameterError(
                f"M or a random matrix has more than {LARGEST:,} entries. For whole files use inferential_risk."
            )
        return a, b, shift

    def _moments(self, a: Any, b: Any) -> tuple[Numbers, Numbers]:
        """Return S_ym and S_mm without C: Var = E[K S K′] + Var(K μ) with K = A ⊗ B′ (erratum 2.12)."""
        K = np.kron(_mean(a), _mean(b).T)
        S_ym = self.S_yx @ K.T
        if not isinstance(a, RandomMatrix) and not isinstance(b, RandomMatrix):
            return S_ym, K @ self.S_xx @ K.T
        n, p = self.records, self.attributes
        mu = self.mean.ravel()
        raw = (self.S_xx + np.outer(mu, mu)).reshape(n, p, n, p)
        second_a, second_b = _second(a), _second(b)
        m = len(K)
        total = np.einsum("risk,ijkl,jcld->rcsd", second_a, raw, second_b, optimize=True).reshape(m, m)
        centre = K @ mu
        return S_ym, total - np.outer(centre, centre)

    def _revealed(self, a: Any, b: Any, noise: Any) -> Numbers | None:
        """Return E[G] over the outcomes of A and B, as if they were revealed: an upper bound on Var(E[Y | M])."""
        if any(isinstance(m, RandomMatrix) and not m.outcomes for m in (a, b)):
            return None
        total: Numbers = np.zeros(self.S_yy.shape)
        for known_a, pa in _outcomes(a):
            for known_b, pb in _outcomes(b):
                S_ym, S_mm = self._moments(known_a, known_b)
                total += pa * pb * explained(S_ym, S_mm + noise, self.S_yy)
        return total


def check_independent(form: MatrixForm) -> None:
    """Refuse a mask whose matrices depend on the data (erratum 2.13)."""
    if form.depends:
        raise NotApplicable(
            f"{' and '.join(form.depends)} of this mask {'depends' if len(form.depends) == 1 else 'depend'} on the data, so that "
            "the choice itself says something about them, and criterion (5.1) does not apply. Judge the release by attacks on "
            "it, or use a mask that is fixed or drawn without looking at the values."
        )


def _part(given: Any, size: int) -> Any:
    if given is None:
        return np.eye(size)
    if isinstance(given, RandomMatrix):
        return given
    matrix = np.atleast_2d(numbers(_dense(given), "a matrix of a mask"))
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ParameterError("A, B and C must be matrices of finite numbers, or RandomMatrix.")
    return matrix


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def _mean(part: Any) -> Numbers:
    return np.asarray(part.mean if isinstance(part, RandomMatrix) else part)


def _second(part: Any) -> Numbers:
    if isinstance(part, RandomMatrix):
        return part.second_moments
    return np.asarray(np.einsum("ij,kl->ijkl", part, part))


def _outcomes(part: Any) -> list[tuple[Numbers, float]]:
    return (
        list(zip(part.outcomes, part.probabilities, strict=True)) if isinstance(part, RandomMatrix) else [(part, 1.0)]
    )
