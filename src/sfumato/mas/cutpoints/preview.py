"""The custodian's preview: what each strategy would make of a variable. Confidential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import ParameterError, unknown_name
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.cutpoints.fixed import Fixed
from sfumato.mas.cutpoints.hybrid import Hybrid, alike
from sfumato.mas.cutpoints.increasing import Increasing
from sfumato.mas.cutpoints.minimum import Minimum
from sfumato.mas.cutpoints.partitioned import Partitioned
from sfumato.mas.cutpoints.strategy import CutpointStrategy
from sfumato.mas.cutpoints.tally import Tally

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

STRATEGIES: tuple[type[CutpointStrategy], ...] = (Fixed, Minimum, Increasing, Partitioned)
_SHOWN = 12


@dataclass(frozen=True)
class Preview:
    """A variable under every strategy, for the custodian to choose from; confidential."""

    variable: str
    tally: Tally
    cutpoints: Mapping[str, Cutpoints]
    """By strategy; "hybrid" is what the shape suggests, "own" what the custodian brought."""
    chosen: str = "hybrid"
    """The strategy whose bins are shown."""

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each strategy.

        `bins`; `smallest` and `largest`, the counts of the emptiest and the fullest bin; `narrowest` and `widest`, widths of the
        inner bins (NaN with fewer than three bins, since the end bins are open); `loss`, the share of the variance that is lost
        if every value is replaced by the mean of its bin; `alike`, the chance that two records share a bin.
        """
        import pandas as pd

        rows = []
        for name, cut in self.cutpoints.items():
            held, widths = self.tally.bins(cut.edges), np.diff(cut.edges)
            rows.append(
                {
                    "strategy": name, "bins": len(cut), "smallest": int(held.min()), "largest": int(held.max()),
                    "narrowest": float(widths.min()) if len(widths) else np.nan,
                    "widest": float(widths.max()) if len(widths) else np.nan,
                    "loss": loss(self.tally, cut), "alike": alike(self.tally, list(cut.edges)),
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def choose(self, strategy: str = "hybrid") -> Cutpoints:
        """Return the cutpoints of one strategy, to be frozen."""
        if strategy not in self.cutpoints:
            raise ParameterError(unknown_name("strategy", strategy, self.cutpoints, "the preview"))
        return self.cutpoints[strategy]

    def own(self, edges: Sequence[float]) -> Cutpoints:
        """Return cutpoints at the custodian's own edges, in the unit and within the bounds of the variable."""
        return replace(self.choose(), edges=tuple(edges), strategy="own", why="", counts=None)

    def bins(self, strategy: str = "hybrid") -> pd.DataFrame:
        """Return the bins of one strategy, with label and count."""
        import pandas as pd

        cut = self.choose(strategy)
        return pd.DataFrame({"bin": cut.labels, "count": self.tally.bins(cut.edges)})

    def __str__(self) -> str:
        chosen = self.choose(self.chosen)
        lines = [
            f"{self.variable}: at least {self.choose().d} observations in each bin. CONFIDENTIAL: for the custodian.",
            "",
        ]
        table = self.frame.assign(
            loss=lambda f: f["loss"].map("{:.1%}".format), alike=lambda f: f["alike"].map("{:.1%}".format)
        )
        lines += [table.to_string(index=False, float_format=lambda v: f"{v:,.6g}", na_rep="–"), ""]
        lines.append(f"The bins of {self.chosen}: {chosen.why}." if chosen.why else f"The bins of {self.chosen}:")
        bins = self.bins(self.chosen)
        if self.tally.missing:
            bins.loc[len(bins)] = ("missing", self.tally.missing)
        shown = bins if len(bins) <= _SHOWN else bins.iloc[[*range(_SHOWN // 2), *range(-_SHOWN // 2, 0)]]
        wide = max(len(label) for label in shown["bin"])
        for place, (label, count) in enumerate(zip(shown["bin"], shown["count"], strict=True)):
            if len(bins) > _SHOWN and place == _SHOWN // 2:
                lines.append(f"  {'…':<{wide}}")
            lines.append(f"  {label:<{wide}}  {count:>9,}")
        return "\n".join(lines)

    def chart(self) -> alt.VConcatChart:
        """Draw the histogram with the cutpoints of every strategy; confidential."""
        from sfumato.charts.cutpoints import cutpoints_chart

        return cutpoints_chart(
            self.histogram(), self.frame, {k: c.edges for k, c in self.cutpoints.items()}, self.axis_title, self.chosen
        )

    @property
    def axis_title(self) -> str:
        """The variable with its unit."""
        unit = self.choose().unit
        return f"{self.variable} ({unit})" if unit else self.variable

    def histogram(self, bars: int = 80) -> pd.DataFrame:
        """Return counts in equal bars from the 0.5th to the 99.5th percentile: columns low, high, count.

        Whole numbers are not cut through: a bar then holds a whole number of them. The first bar holds its lower end, too.
        """
        import pandas as pd

        low, high = self.tally.quantile(0.005), self.tally.quantile(0.995)
        if low == high:
            low, high = low - 0.5, high + 0.5
        if self.tally.whole:
            wide = max(1, int(np.ceil((high - low + 1) / bars)))
            ends = np.arange(np.floor(low) - 0.5, np.ceil(high) + wide + 0.4, wide)
        else:
            ends = np.linspace(low, high, bars + 1)
        upto = np.array([self.tally.up_to(e) for e in ends])
        upto[0] = self.tally.up_to(np.nextafter(ends[0], -np.inf))  # many may have the least value: no income at all
        return pd.DataFrame({"low": ends[:-1], "high": ends[1:], "count": np.diff(upto)})


def preview(
    values: Any, counts: Any = None, d: int = 75, *, variable: str = "value", rounding: bool = True,
    unit: str = "", whole: bool | None = None, low: float | None = None, high: float | None = None,
) -> Preview:  # fmt: skip
    """Return what every strategy makes of a variable; arguments as for `CutpointStrategy.cut`."""
    tally = Tally.of(values, counts, whole)
    made = [strategy(d=d, rounding=rounding) for strategy in (*STRATEGIES, Hybrid)]
    return Preview(variable, tally, {s.name: s.cut_tally(tally, unit=unit, low=low, high=high) for s in made})


def loss(tally: Tally, cut: Cutpoints) -> float:
    """Return the share of the variance that is lost if values are replaced by the means of their bins; 0 if there is none."""
    scale = max(abs(tally.low), abs(tally.high), 1e-300)
    x, n = tally.values / scale, tally.counts.astype(float)
    x = x - np.average(x, weights=n)
    total = float((n * x**2).sum())
    if total == 0:
        return 0.0
    codes = cut.codes(tally.values)
    size = np.bincount(codes, n, len(cut))
    means = np.bincount(codes, n * x, len(cut)) / np.maximum(size, 1)
    return float((n * (x - means[codes]) ** 2).sum()) / total
