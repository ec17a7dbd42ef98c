"""What users ask for, from the log: estimands and how often, ready as the utility of an R-U map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.contract import Measure, Weighted
from sfumato.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.mas.log import Entry


_MODELS: dict[str, Literal["linear", "logistic"]] = {"linear model": "linear", "logistic model": "logistic"}


@dataclass(frozen=True)
class Estimand:
    """Something that users ask for: a table, a mean, a regression, a correlation; whatever the universe."""

    kind: str
    """A "table", "linear model", "logistic model" or "correlation"."""
    about: tuple[str, ...]
    """The sides of the table, the formula, or the variables."""
    weighted: bool = False

    def measure(self) -> Measure:
        """Return how much of it a masked file keeps: 1 if nothing is lost."""
        from sfumato.utility import CorrelationsKept, IntervalOverlap, TableDistance

        if self.kind == "table":
            return TableDistance(over=self.about, order=len(self.about), weighted=self.weighted)
        if self.kind == "correlation":
            return CorrelationsKept(over=self.about, weighted=self.weighted)
        return IntervalOverlap(self.about[0], model=_MODELS[self.kind], weighted=self.weighted)


@dataclass(frozen=True)
class Workload:
    """Estimands and how often they were asked for and answered."""

    counts: Mapping[Estimand, int]
    skipped: int = 0
    """Questions for which there is no measure of a masked file, such as quantiles."""

    def frame(self) -> pd.DataFrame:
        """Return a row for each estimand, the most frequent first."""
        import pandas as pd

        total = sum(self.counts.values())
        return pd.DataFrame([
            {"kind": e.kind, "about": ", ".join(e.about), "weighted": e.weighted, "asked": n, "share": n / total}
            for e, n in self.counts.items()
        ])  # fmt: skip

    def utility(self) -> Weighted:
        """Return the utility of a masked file for these users: each estimand counts as often as it was asked for."""
        if not self.counts:
            raise DataError("the log holds no question that a masked file could answer.")
        total = sum(self.counts.values())
        shares = tuple(n / total for n in self.counts.values())
        return Weighted(parts=tuple(estimand.measure() for estimand in self.counts), weights=shares)


def workload(log: Iterable[Entry | Mapping[str, Any]]) -> Workload:
    """Return what was asked for in a log (`vault.ledger.entries()`) and answered, the most frequent first.

    Examples
    --------
    >>> asked = workload([{"outcome": "answered", "analysis": "cross_tab", "by": ["sex", "race"]}] * 3)
    >>> dict(asked.counts)
    {Estimand(kind='table', about=('race', 'sex'), weighted=False): 3}
    """
    found: Counter[Estimand] = Counter()
    skipped = 0
    for entry in log:
        content = entry if isinstance(entry, Mapping) else entry.content
        if content.get("outcome") != "answered":
            continue
        estimands = _estimands(content)
        skipped += not estimands
        found.update(estimands)
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0].kind, item[0].about))
    return Workload(dict(ordered), skipped)


def _estimands(content: Mapping[str, Any]) -> list[Estimand]:
    weighted = bool(content.get("weighted", False))
    match content.get("analysis"):
        case "cross_tab":
            made = [Estimand("table", tuple(sorted(content["by"])), weighted)]
            if of := content.get("of"):
                made.append(Estimand("linear model", (str(of),), weighted))
            return made
        case "ols":
            return [Estimand("linear model", (str(content["formula"]),), weighted)]
        case "logistic":
            return [Estimand("logistic model", (str(content["formula"]),), weighted)]
        case "correlation":
            return [Estimand("correlation", tuple(sorted(content["of"])), weighted)]
    return []
