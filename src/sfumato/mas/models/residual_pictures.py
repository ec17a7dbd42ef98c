"""Pictures of residuals as data, charts and words, and tests on their points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.typing import Numbers

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# --- reading
# Reading a picture of residuals: tests on its points alone, so that they tell nothing the picture does not.


def curvature(x: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that the square and the cube of x add to a straight line."""
    z = _scaled(x)
    return _f_test(np.vander(z, 2), np.vander(z, 4), t)


def changing_spread(x: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that the size of the residuals about a cubic curve changes with x, linearly."""
    z = _scaled(x)
    cubic = np.vander(z, 4)
    size = np.abs(t - cubic @ np.linalg.lstsq(cubic, t, rcond=None)[0])
    return _f_test(np.ones((len(z), 1)), np.vander(z, 2), size)


def different_levels(codes: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that levels differ in their means."""
    return _f_test(np.ones((len(t), 1)), _indicators(codes), t)


def different_spreads(codes: Numbers, t: Numbers) -> float:
    """Return the p-value of the F test that levels differ in the size of the residuals about their medians (Levene)."""
    size = np.empty(len(t))
    for level in np.unique(codes):
        mine = codes == level
        size[mine] = np.abs(t[mine] - np.median(t[mine]))
    return different_levels(codes, size)


def _indicators(codes: Numbers) -> Numbers:
    return np.asarray(codes[:, None] == np.unique(codes)[None, :], np.float64)


def _scaled(x: Numbers) -> Numbers:
    spread = float(x.std())
    return (x - x.mean()) / spread if spread > 0 else np.zeros(len(x))


def _f_test(small: Numbers, large: Numbers, y: Numbers) -> float:
    from scipy.stats import f

    rests, ranks = [], []
    for matrix in (small, large):
        coefficients, _, rank, _ = np.linalg.lstsq(matrix, y, rcond=None)
        rests.append(float(np.sum((y - matrix @ coefficients) ** 2)))
        ranks.append(int(rank))
    more, left = ranks[1] - ranks[0], len(y) - ranks[1]
    if more <= 0 or left <= 0 or rests[1] <= 0:
        return 1.0
    return float(f.sf((rests[0] - rests[1]) / more / (rests[1] / left), more, left))


# --- picture
# Pictures of residuals: as data, as a chart and in words. They may be published.


_LEVEL = 0.01


@dataclass(frozen=True)
class ResidualPicture:
    """Synthetic residuals against a synthetic axis. None of its points is a record."""

    axis: str
    points: pd.DataFrame
    """Columns x (a number, or the name of a level) and residual."""
    levels: tuple[str, ...] | None = None
    """The names of the levels that are shown; None if the axis is a number."""

    @classmethod
    def of(cls, axis: str, x: Numbers, residuals: Numbers, names: tuple[str, ...] | None) -> ResidualPicture:
        """Make a picture of places and residuals; with names, places are positions among them."""
        import pandas as pd

        if names is None:
            return cls(axis, pd.DataFrame({"x": x, "residual": residuals}))
        shown = np.unique(x.astype(np.int64))
        labels = np.asarray(names, object)[x.astype(np.int64)]
        return cls(axis, pd.DataFrame({"x": labels, "residual": residuals}), tuple(names[i] for i in shown))

    def tests(self) -> dict[str, float]:
        """Return p-values of F tests on the synthetic points alone: "curve" and "spread" ("levels" and "spread" for levels)."""
        t = self.points["residual"].to_numpy(np.float64)
        if self.levels is not None:
            codes = np.array([self.levels.index(name) for name in self.points["x"]], np.float64)
            return {"levels": different_levels(codes, t), "spread": different_spreads(codes, t)}
        x = self.points["x"].to_numpy(np.float64)
        return {"curve": curvature(x, t), "spread": changing_spread(x, t)}

    def __str__(self) -> str:
        found = self.tests()
        shape = ("no curve is visible", "they bend: a term is missing, or a transformation")
        if self.levels is not None:
            shape = ("levels have the same mean", "levels differ in their means: a term is missing")
        spread = ("the spread is even", "the spread changes along the axis: prefer robust standard errors")
        first, second = found.values()
        return (
            f"{len(self.points):,} synthetic residuals against {self.axis}; no point is a record.\n"
            f"{shape[first < _LEVEL]} (p = {_p(first)}); {spread[second < _LEVEL]} (p = {_p(second)})."
        )

    def chart(self) -> alt.LayerChart:
        """Draw the points, with a line through the middle of them."""
        from sfumato.charts.analysis_charts import residual_chart

        return residual_chart(self.points, self.axis, self.levels)


@dataclass(frozen=True)
class BinnedPicture:
    """Mean residuals in bins, with noise: for outcomes that happen or do not."""

    axis: str
    outcome: str
    points: pd.DataFrame
    """A row for each bin: x, where it lies; residual, the mean of outcome minus probability with noise; band, twice the standard
    error of that under the model, the noise included."""

    @property
    def outside(self) -> int:
        """How many bins lie outside the band; about one in twenty does if the model is right."""
        return int((self.points["residual"].abs() > self.points["band"]).sum())

    def mirrored(self, outcome: str, shares: bool) -> BinnedPicture:
        """Return the picture of the other one of two outcomes; with `shares` the axis is its probability."""
        x = (1 - self.points["x"]).round(10) if shares else self.points["x"]
        return BinnedPicture(self.axis, outcome, self.points.assign(x=x, residual=-self.points["residual"]))

    def test(self) -> float:
        """Return the p-value of the chi-squared test that all means are zero, on what is shown alone."""
        from scipy.stats import chi2

        z = 2 * self.points["residual"] / self.points["band"]
        return float(chi2.sf(float((z**2).sum()), len(z)))

    def __str__(self) -> str:
        p = self.test()
        words = (
            "no pattern is visible" if p >= _LEVEL else "the model does not fit: a term is missing, or a transformation"
        )
        return (
            f"mean residuals of {self.outcome} in {len(self.points)} bins of {self.axis}, with noise; "
            f"{self.outside} outside the band of two standard errors.\n{words} (p = {_p(p)})."
        )

    def chart(self) -> alt.LayerChart:
        """Draw the means and the band."""
        from sfumato.charts.analysis_charts import binned_chart

        return binned_chart(self.points, self.axis, self.outcome)


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
