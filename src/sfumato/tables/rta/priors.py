"""Attackers' prior knowledge, as unknowns that enter the leaves of a table, and how well each must stay protected."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sfumato.contract.parameters import param
from sfumato.errors import DataError, NotApplicable, ParameterError, plural
from sfumato.lazy import csgraph
from sfumato.tables.contributions import Contributions
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

Unknowns = Literal["contributor", "contribution"]


def prior_cv() -> Any:
    """Declare ε; usually contributions are known to within half of their size."""
    return param(
        0.5, doc="to within which share of its size attackers know a contribution beforehand (ε)", low=0, above=True
    )


def base_cv() -> Any:
    """Declare η."""
    return param(
        0.15, doc="to within which share of its size anybody may know it afterwards, at best (η)", low=0, above=True,
        usual=(0.05, 0.4),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prior:
    """Who attacks, what each attacker knows beforehand, and how much must stay unknown.

    Every contributor is an attacker who knows his own contribution exactly and those of the others to within the prior
    variances; there is also an outsider who knows none exactly. Make a prior with `from_sizes` or `given`.

    Examples
    --------
    >>> Prior.from_sizes(prior_cv=0.5, base_cv=0.25)
    Prior(prior_cv=0.5, base_cv=0.25)
    """

    prior_cv: float | None = None
    """ε: a contribution is known beforehand to within this share of its size."""
    base_cv: float | None = None
    """η: a contribution may be known afterwards to within this share of its size, at best."""
    sizes: Numbers | None = None
    """Shape (contributors,); None for the sizes of the table, or else the contributors' own values."""
    variance: Numbers | None = None
    """Prior variances, shape (contributors,), if given; infinite for a contributor of whom nothing is known."""
    base: Numbers | None = None
    """Base variances w², shape (contributors,); 0 for a contribution that is not confidential."""
    means: Numbers | None = None
    """Prior means, shape (contributors,); only posterior means need them."""
    threshold: float = 1.0
    """r: the largest relative certainty w²/posterior variance that is allowed."""
    unknowns: Unknowns = "contributor"
    attackers: Flags | None = None
    """Which contributors attack, shape (contributors,); None for all of them."""
    controllers: Whole | None = None
    """Who controls each contributor, shape (contributors,): those with the same number attack together."""

    @classmethod
    def from_sizes(cls, prior_cv: float, base_cv: float, sizes: ArrayLike | None = None, **more: Any) -> Prior:
        """Return priors by size: v = ε²s² and w² = η²s² (RTA paper, section 3.3).

        Parameters
        ----------
        prior_cv, base_cv
            ε and η: nobody who knew another's contribution to within the share ε of its size may learn it better than to within
            the share η.
        sizes
            A public measure of every contributor's size. If not given, that of the table; if the table has none, the
            contributors' own values. Published variances may then disclose them: see `AttackerKnowledge.public`.
        more
            `threshold`, `unknowns`, `attackers`, `controllers`: see the fields. With ``unknowns="contribution"`` each
            contribution to a leaf is an unknown of its own, and nobody knows how a total divides among leaves.
        """
        for name, cv in (("prior_cv", prior_cv), ("base_cv", base_cv)):
            if isinstance(cv, bool) or not isinstance(cv, int | float) or not 0 <= cv < math.inf:
                raise ParameterError(f"{name} must be a number of at least 0; got {cv}.")
        return _checked(
            cls(float(prior_cv), float(base_cv), None if sizes is None else _list(sizes, "sizes"), **_arrays(more))
        )

    @classmethod
    def from_variances(cls, variance: ArrayLike, base: ArrayLike, means: ArrayLike | None = None, **more: Any) -> Prior:
        """Return priors with given variances of each contributor's total, and base variances w².

        A single number applies to all contributors. A contributor whose contribution is known has the variance 0, one of whom
        nothing is known an infinite one; a contribution that is not confidential has the base variance 0.
        """
        v, w = _list(variance, "prior variances", infinite=True), _list(base, "base variances")
        m = None if means is None else _list(means, "means", negative=True)
        return _checked(cls(variance=v, base=w, means=m, **_arrays(more)))

    def __repr__(self) -> str:
        said = (
            f"prior_cv={self.prior_cv:g}, base_cv={self.base_cv:g}"
            if self.prior_cv is not None and self.base_cv is not None
            else "given"
        )
        said += "" if self.threshold == 1 else f", threshold={self.threshold:g}"
        return f"Prior({said}{'' if self.unknowns == 'contributor' else ', unknowns=contribution'})"

    def with_(self, **changes: Any) -> Prior:
        """Return a copy with some fields changed."""
        return _checked(replace(self, **_arrays(changes)))

    def of(self, table: Table) -> AttackerKnowledge:
        """Return the attackers' knowledge for a table: the unknowns, how they enter the leaves, and who knows which.

        Each contributor has one unknown, its total: `loading` then holds weight × share of the total in the leaf. Attackers are
        assumed to know the shares, which errs on the safe side: an attacker who does not know them learns less of the total.
        For a contributor with contributions of both signs the total is the sum of their absolute values.
        """
        given = table.contributions
        if given is None:
            raise NotApplicable(
                "random adjustment needs to know who contributed what. Make the table from microdata (Table.of)."
            )
        n = len(given)
        loading, public = _loadings(given), self.variance is not None
        if self.variance is not None and self.base is not None:
            v, w = _spread(self.variance, n, "prior variances"), _spread(self.base, n, "base variances")
        else:
            s, public = self._sizes(given)
            v, w = (self.prior_cv or 0.0) ** 2 * s**2, (self.base_cv or 0.0) ** 2 * s**2
        means = None if self.means is None else _spread(self.means, n, "means")
        attacks = np.ones(n, bool) if self.attackers is None else _spread(self.attackers, n, "attackers")
        owner = np.arange(n) if self.controllers is None else _spread(self.controllers, n, "controllers")
        _, owner = np.unique(owner, return_inverse=True)
        who = np.arange(n)
        if self.unknowns == "contribution":
            loading, share, who = _apart(loading, given)
            part = share > 0  # a share of 0 of an infinite variance is 0
            v, w = np.multiply(v[who], share**2, out=np.zeros(len(share)), where=part), w[who] * share**2
            owner, attacks = owner[who], attacks[who]
            means = None if means is None else means[who] * share
        if (w == 0).all():
            raise ParameterError("no contributor has a base variance above 0: there is nothing to protect.")
        return AttackerKnowledge(
            loading, v, w / self.threshold, means, owner.ravel().astype(np.int64), attacks, who, self.threshold, public
        )

    def _sizes(self, given: Contributions) -> tuple[Numbers, bool]:
        """Return the sizes, and whether they are public."""
        if self.sizes is not None:
            return _spread(self.sizes, len(given), "sizes"), True
        if given.size is not None:
            return given.size, True
        return np.asarray(abs(given.own).sum(axis=0), np.float64).ravel(), False


def _loadings(given: Contributions) -> sparse.csr_array:
    """Return weight × share of the contributor's total, leaves × contributors, with an entry wherever there is a record."""
    own, grossed = given.own, given.grossed
    total = given.totals
    absolute = np.asarray(abs(own).sum(axis=0), np.float64).ravel()
    # one sign: the total itself; both signs: the sum of absolute values, so that no share is above 1
    unit = np.where(absolute > np.abs(total) * (1 + 1e-12), absolute, total)
    leaves = np.bincount(own.indices, minlength=len(given))
    unit_of = unit[own.indices]
    with np.errstate(divide="ignore", invalid="ignore"):
        # nothing contributed: all shares are equally good, and equal ones are as safe as any
        data = np.where(unit_of == 0, 1.0 / leaves[own.indices], grossed.data / unit_of)
    return sparse.csr_array((data, own.indices.copy(), own.indptr.copy()), shape=own.shape)


def _apart(loading: sparse.csr_array, given: Contributions) -> tuple[sparse.csr_array, Numbers, Whole]:
    """Return loadings with one unknown per entry, each entry's share of its contributor's total, and the contributor."""
    own = given.own
    absolute = np.asarray(abs(own).sum(axis=0), np.float64).ravel()[own.indices]
    leaves = np.bincount(own.indices, minlength=len(given))[own.indices]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(absolute == 0, 1.0 / leaves, np.abs(own.data) / absolute)
        weight = np.where(share == 0, 1.0, loading.data / share)
    count = len(own.data)
    apart = sparse.csr_array((weight, np.arange(count), own.indptr.copy()), shape=(own.shape[0], count))
    return apart, share, own.indices.astype(np.int64)


def _list(values: ArrayLike, name: str, infinite: bool = False, negative: bool = False) -> Numbers:
    try:
        made = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, one for each contributor or one for all.") from None
    allowed = np.isfinite(made) | ((made == np.inf) & infinite)
    if made.ndim > 1 or not (allowed & ((made >= 0) | negative)).all():
        words = "finite numbers" if negative else "numbers of at least 0" + ("" if infinite else ", not infinite")
        raise ParameterError(f"{name} must be {words}, one for each contributor or one for all.")
    return made


def _spread(values: Any, n: int, name: str) -> Any:
    if values.ndim == 0:
        return np.full(n, values[()])
    if values.shape != (n,):
        raise DataError(
            f"there are {plural(len(values), 'value')} for {name}, but the table has {plural(n, 'contributor')}."
        )
    return values


def _arrays(more: dict[str, Any]) -> dict[str, Any]:
    """Return further fields with lists converted to arrays."""
    made = dict(more)
    if made.get("attackers") is not None:
        made["attackers"] = np.asarray(made["attackers"], bool)
    if made.get("controllers") is not None:
        made["controllers"] = np.asarray(made["controllers"]).astype(np.int64)
    return made


def _checked(prior: Prior) -> Prior:
    if isinstance(prior.threshold, bool) or not 0 < prior.threshold < math.inf:
        raise ParameterError(f"threshold must be a number above 0; got {prior.threshold}.")
    if prior.unknowns not in ("contributor", "contribution"):
        raise ParameterError(f"unknowns must be 'contributor' or 'contribution'; got '{prior.unknowns}'.")
    return prior


def conjugate_gradients(s: sparse.csr_array, b: Numbers, tolerance: float = 1e-12) -> Numbers:
    """Return S⁻¹b for a symmetric positive definite S, all columns of b at once, to a relative tolerance."""
    diagonal = s.diagonal()
    scale = np.where(diagonal > 0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)[:, None]
    x, r = np.zeros_like(b), scale * b
    p, size = r.copy(), (r * r).sum(axis=0)
    goal = tolerance**2 * size
    for _ in range(10 * len(b) + 100):
        if (size <= goal).all():
            break
        ap = scale * (s @ (scale * p))
        step = _over(size, (p * ap).sum(axis=0))
        x += step * p
        r -= step * ap
        new = (r * r).sum(axis=0)
        p = r + _over(new, size) * p
        size = new
    return np.asarray(scale * x)


def _over(a: Numbers, b: Numbers) -> Numbers:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))


_LARGE = 1e6
"""An infinite prior variance becomes this times the largest finite one: less is safer, and the difference does not matter."""


@dataclass(frozen=True, eq=False, repr=False)
class AttackerKnowledge:
    """Unknowns d with prior variances, seen in the leaves as loading @ d + noise: confidential.

    An unknown is the total of a contributor or, where contributions are unknowns of their own, one contribution to a leaf.
    """

    loading: sparse.csr_array
    """M, leaves × unknowns: weight × share."""
    given_variance: Numbers
    """v, shape (unknowns,); may be infinite."""
    required: Numbers
    """w²/r: the smallest posterior variance that is allowed, shape (unknowns,); 0 for what is not confidential."""
    means: Numbers | None
    owner: Whole
    """The owner, who knows the unknown: contributors under one control share a number. Shape (unknowns,)."""
    attacks: Flags
    """Whether the unknown's contributor is an attacker."""
    contributor: Whole
    """The contributor of each unknown, by position."""
    threshold: float
    public: bool
    """Whether variances come from public information; if not, publishing them exactly may disclose a contribution."""
    position: Whole = field(default_factory=lambda: np.zeros(0, np.int64))
    """For a part of the knowledge: the positions of its unknowns in the whole."""

    def __len__(self) -> int:
        return len(self.required)

    def __repr__(self) -> str:
        return f"Knowledge({len(self):,} unknowns in {self.loading.shape[0]:,} leaves)"

    @cached_property
    def variance(self) -> Numbers:
        """The prior variances v, finite."""
        v = self.given_variance
        gone = np.isinf(v)
        if not gone.any():
            return v
        largest = max(float(v[~gone].max(initial=0.0)), float(self.required.max(initial=0.0)), 1e-300)
        return np.where(gone, _LARGE * largest, v)

    @cached_property
    def by_unknown(self) -> sparse.csc_array:
        """The loadings by unknown."""
        made = sparse.csc_array(self.loading)
        made.sort_indices()
        return made

    @cached_property
    def leaves_of(self) -> Whole:
        """Number of leaves of each unknown, shape (unknowns,)."""
        return np.diff(self.by_unknown.indptr).astype(np.int64)

    @cached_property
    def side(self) -> Whole:
        """The attacking side that knows each unknown: its owner, or a distinct negative number if he does not attack."""
        attacking = np.zeros(int(self.owner.max(initial=0)) + 1, bool)
        np.logical_or.at(attacking, self.owner, self.attacks)
        return np.where(attacking[self.owner], self.owner, -1 - np.arange(len(self)))

    @cached_property
    def spread(self) -> Numbers:
        """The prior variance of every leaf's total, shape (leaves,)."""
        return np.asarray(self.loading.power(2) @ self.variance)

    @cached_property
    def block(self) -> Whole:
        """The block of each leaf: leaves are linked through contributors in several of them."""
        return blocks_of(self)

    def part(self, leaves: Whole) -> AttackerKnowledge:
        """Restrict the knowledge to some leaves, which must be whole blocks."""
        loading = self.loading[leaves]
        inside = np.unique(loading.indices[loading.data != 0])
        made = sparse.csr_array(loading[:, inside])
        made.sort_indices()
        return replace(
            self, loading=made, given_variance=self.variance[inside], required=self.required[inside],
            means=None if self.means is None else self.means[inside], owner=self.owner[inside],
            attacks=self.attacks[inside], contributor=self.contributor[inside], position=inside,
        )  # fmt: skip

    def known_before(self) -> Flags:
        """Return which unknowns nobody can protect: the prior variance is no larger than the required one."""
        return (self.required > 0) & (self.given_variance <= self.required)

    def covariance(self, omega: Numbers | sparse.csr_array, but: Whole | None = None) -> sparse.csr_array:
        """Return the covariance of what is published, M V M' + Ω, leaves × leaves; unknowns in `but` do not vary."""
        v = self.variance
        if but is not None and len(but):
            v = v.copy()
            v[but] = 0.0
        scaled = self.loading.multiply(np.sqrt(v)[None, :]).tocsr()
        single = (self.leaves_of == 1)[scaled.indices]
        rows = np.repeat(np.arange(scaled.shape[0]), np.diff(scaled.indptr))
        own = np.bincount(rows[single], scaled.data[single] ** 2, scaled.shape[0])
        multi = sparse.csr_array((scaled.data[~single], (rows[~single], scaled.indices[~single])), shape=scaled.shape)
        noise = sparse.diags_array(omega) if isinstance(omega, np.ndarray) else omega
        return sparse.csr_array(multi @ multi.T + sparse.diags_array(own.astype(np.float64)) + noise)


def blocks_of(known: AttackerKnowledge, noise: sparse.csr_array | None = None) -> Whole:
    """Return the block of each leaf: leaves that share an unknown, or correlated noise, are in one block."""
    loading = known.loading
    leaves, unknowns = loading.shape
    rows = np.repeat(np.arange(leaves), np.diff(loading.indptr))
    several = ((known.leaves_of > 1) & (known.variance > 0))[loading.indices]
    start, end = rows[several], leaves + loading.indices[several]
    if noise is not None:
        entries = noise.tocoo()
        start, end = np.concatenate([start, entries.row]), np.concatenate([end, entries.col])
    graph = sparse.csr_array((np.ones(len(start)), (start, end)), shape=(leaves + unknowns,) * 2)
    found = csgraph.connected_components(graph, directed=False)[1][:leaves]
    return np.unique(found, return_inverse=True)[1].ravel().astype(np.int64)


def checked_noise(noise: Numbers | sparse.csr_array, leaves: int) -> Numbers | sparse.csr_array:
    """Check Ω, variances per leaf or a covariance matrix, and return it."""
    if isinstance(noise, np.ndarray) and noise.ndim == 1:
        if noise.shape != (leaves,) or not (noise >= 0).all() or not np.isfinite(noise).all():
            raise DataError(f"the noise must have one finite variance of at least 0 for each of the {leaves:,} leaves.")
        return noise
    matrix = sparse.csr_array(noise)
    if (
        matrix.shape != (leaves, leaves)
        or not np.isfinite(matrix.data).all()
        or abs(matrix - matrix.T).max() > 1e-9 * abs(matrix).max()
    ):
        raise DataError(f"the covariance of the noise must be symmetric, with a row for each of the {leaves:,} leaves.")
    if (matrix.diagonal() < 0).any():
        raise DataError("the covariance of the noise has negative variances.")
    return matrix
