"""The release region of a scalar target: an ellipsoid, against standards set attribute by attribute (section III)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.decision.conditional import SLACK, Whitening, check_flat, numbers, square, whiten
from sfumato.decision.verdict import ROUNDING, check_threshold
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Numbers = NDArray[np.float64]

_MOST = 16


@dataclass(frozen=True, eq=False)
class ReleaseRegion:
    """The covariances c of a target with the attributes X for which X may be released: c′ S_xx⁻ c < τ, an ellipsoid.

    The target has variance 1; its covariances with attributes of variance 1 are then correlations, and τ is a share of its
    variance. A standard set attribute by attribute, cⱼ²/Sⱼⱼ < τⱼ, is a box, and no box is the ellipsoid: it lets pass what
    discloses together, or stops what does not.

    Examples
    --------
    >>> region = ReleaseRegion(np.eye(2), tau=0.5)
    >>> region.explained([0.6, 0.6]).round(2), region.accepts([0.6, 0.6]), region.accepts_each([0.6, 0.6])
    (array([0.72]), array([False]), array([ True]))
    """

    S_xx: Any
    """Variance of the attributes, shape (p, p)."""
    tau: float

    def __post_init__(self) -> None:
        S = square(self.S_xx, "S_xx")
        whiten(S)
        object.__setattr__(self, "S_xx", S)
        object.__setattr__(self, "tau", check_threshold(self.tau))

    def explained(self, c: ArrayLike) -> Numbers:
        """Return the share of the target's variance that the attributes explain together, for rows c of shape (m, p)."""
        rows, white = self._rows(c), whiten(self.S_xx)
        check_flat(self._along_nothing(rows, white), np.ones(len(rows)))
        return np.asarray(np.square(rows @ white.root.T).sum(axis=1))

    def marginal(self, c: ArrayLike) -> Numbers:
        """Return the share that each attribute explains by itself, cⱼ²/Sⱼⱼ, shape (m, p)."""
        variance = np.diag(self.S_xx)
        rows = self._rows(c)
        return np.divide(rows**2, variance, out=np.zeros_like(rows), where=variance > 0)

    def accepts(self, c: ArrayLike) -> NDArray[np.bool_]:
        """Return which rows lie in the ellipsoid, shape (m,)."""
        return np.asarray(self.explained(c) < self.tau * (1 - ROUNDING))

    def accepts_each(self, c: ArrayLike, limits: float | Sequence[float] | None = None) -> NDArray[np.bool_]:
        """Return which rows pass attribute by attribute: every share below its τⱼ (`limits`; τ, if not given), shape (m,)."""
        limit = self._limits(limits)
        return np.asarray((self.marginal(c) < limit * (1 - ROUNDING)).all(axis=1))

    def possible(self, c: ArrayLike) -> NDArray[np.bool_]:
        """Return which rows any target of variance 1 can have: what is explained is at most 1, shape (m,)."""
        rows, white = self._rows(c), whiten(self.S_xx)
        told = np.square(rows @ white.root.T).sum(axis=1) <= 1 + 1e-9
        return np.asarray(told & (np.abs(self._along_nothing(rows, white)) <= SLACK).all(axis=1))

    def half_axes(self) -> tuple[Numbers, Numbers]:
        """Return the half-lengths √(τλ) of the ellipsoid, longest first, and their directions, shapes (p,) and (p, p)."""
        values, vectors = np.linalg.eigh(self.S_xx)
        return np.sqrt(self.tau * values[::-1].clip(min=0.0)), vectors[:, ::-1].T

    def safe_limit(self) -> float:
        """Return the largest τⱼ, the same for all attributes, with which to pass one by one is to pass together.

        What is explained is largest at a corner of the box, so it is τ / max s′R⁻¹s over signs s, R the correlations. For two
        attributes it is τ(1 - |ρ|)/2. Every larger standard lets something pass that discloses more than τ.
        """
        sd = np.sqrt(np.diag(self.S_xx))
        if whiten(self.S_xx).rank < len(sd):
            raise ParameterError(
                "the attributes are linearly dependent, so that no standard for single ones is safe however small it is. Leave "
                "out those that are sums of others."
            )
        if len(sd) > _MOST:
            raise ParameterError(f"the safe standard is worked out for at most {_MOST} attributes.")
        inverse = np.linalg.inv(self.S_xx / np.outer(sd, sd))
        signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=len(sd) - 1)])
        return float(self.tau / np.einsum("ij,jk,ik->i", signs, inverse, signs).max())

    def volume(self) -> float:
        """Return the volume of the ellipsoid."""
        p = len(self.S_xx)
        return float((math.pi * self.tau) ** (p / 2) / math.gamma(p / 2 + 1) * math.sqrt(np.linalg.det(self.S_xx)))

    def box_volume(self, limits: float | Sequence[float] | None = None) -> float:
        """Return the volume of the box that standards set one by one let pass."""
        return float(np.prod(2 * np.sqrt(self._limits(limits) * np.diag(self.S_xx))))

    def picture(
        self,
        cases: Mapping[str, Sequence[float]],
        limits: float | Sequence[float] | None = None,
        names: tuple[str, str] = ("first attribute", "second attribute"),
    ) -> RegionPicture:
        """Return the region of two attributes as outlines, and cases to mark in it, on the scale of correlations."""
        import pandas as pd

        if not cases:
            raise ParameterError(
                "picture needs at least one case to mark: a name, and the covariances with the target."
            )
        if len(self.S_xx) != 2:
            raise ParameterError("only the region of two attributes can be drawn.")
        sd = np.sqrt(np.diag(self.S_xx))
        if whiten(self.S_xx).rank < 2:
            raise ParameterError("the two attributes say the same, so that the region is a line, which is not drawn.")
        turn = np.linspace(0, 2 * np.pi, 181)
        root = np.linalg.cholesky(self.S_xx / np.outer(sd, sd))
        round_ = np.stack([np.cos(turn), np.sin(turn)], axis=1) @ root.T
        a, b = np.sqrt(self._limits(limits))
        box = np.array([[a, b], [-a, b], [-a, -b], [a, -b], [a, b]])
        lines = {"possible": round_, "together": np.sqrt(self.tau) * round_, "one by one": box}
        outline = pd.concat(
            pd.DataFrame({"region": region, "order": np.arange(len(xy)), "x": xy[:, 0], "y": xy[:, 1]})
            for region, xy in lines.items()
        )
        c = self._rows(list(cases.values()))
        points = pd.DataFrame(
            {
                "case": list(cases),
                "x": c[:, 0] / sd[0],
                "y": c[:, 1] / sd[1],
                "value": self.explained(c),
                "together": self.accepts(c),
                "one_by_one": self.accepts_each(c, limits),
            }
        )
        return RegionPicture(outline, points, names, self.tau)

    def _along_nothing(self, rows: Numbers, white: Whitening) -> Numbers:
        """Return the covariances with what does not vary, shape (m, k): none has any."""
        return np.hstack([rows @ white.null.T, rows[:, np.diag(self.S_xx) == 0]])

    def _rows(self, c: ArrayLike) -> Numbers:
        rows = np.atleast_2d(numbers(c, "the covariances with the target"))
        if rows.ndim != 2 or rows.shape[1] != len(self.S_xx):
            raise ParameterError(
                f"there are {len(self.S_xx)} attributes, so there must be as many covariances with the target."
            )
        if not np.isfinite(rows).all():
            raise ParameterError("the covariances with the target hold missing or infinite numbers.")
        return rows

    def _limits(self, limits: float | Sequence[float] | None) -> Numbers:
        given = numbers(self.tau if limits is None else limits, "limits")
        if given.shape not in ((), (len(self.S_xx),)) or not (given >= 0).all():
            raise ParameterError(f"limits must be one number, or {len(self.S_xx)}, none of them negative.")
        return np.broadcast_to(given, (len(self.S_xx),))


@dataclass(frozen=True, eq=False)
class RegionPicture:
    """A release region of two attributes, ready to be drawn."""

    outline: pd.DataFrame
    """Columns region ("possible", "together", "one by one"), order, x, y."""
    points: pd.DataFrame
    """Columns case, x, y, value (share explained together), together, one_by_one (whether each rule lets it pass)."""
    names: tuple[str, str]
    tau: float

    @property
    def frame(self) -> pd.DataFrame:
        """The cases with their numbers."""
        return self.points

    def chart(self) -> alt.LayerChart:
        """Draw the ellipse, the box and the cases."""
        from sfumato.charts.release_region import release_region_chart

        return release_region_chart(self.outline, self.points, self.names, self.tau)
