"""A risk profile: every measure that applies to a file, the verdict in words, and where the risk comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.classes import Classes, Missing
from sfumato.contract import Measure, Release, Score, Section, Snooper, Table
from sfumato.contract.score import digits
from sfumato.contract.section import Figure
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.risk.class_risks import ClassRisks, expected_in_population, in_population, in_release
from sfumato.risk.keys import key_names, of_original, released_classes
from sfumato.risk.linkage import DistanceLinkage
from sfumato.risk.usual import LINKED, usual_measures
from sfumato.risk.verdict import verdict

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

_EDGES = (1, 2, 3, 5, 10, 20, 100)
_RISKS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
_GROUPS = 100
Progress = Callable[[str, int, int], None]
Among = Literal["table", "sample", "file"]


@dataclass(frozen=True, eq=False)
class RiskProfile:
    """What a snooper could learn from a file: the scores, why some measures do not apply, and where the risk comes from.

    All of it but `riskiest` may be shown to a review board; `riskiest` is for the custodian's eyes only.
    """

    outcome: Release
    snooper: Snooper
    k: int
    missing: Missing
    fraction: float | None
    measures: tuple[Measure, ...]
    """The measures that apply, one for each score."""
    scores: tuple[Score, ...]
    refused: Mapping[str, str]
    """Why the other measures do not apply, by their labels."""

    @property
    def keys(self) -> tuple[str, ...]:
        """What the snooper looks for records by."""
        return key_names(self.outcome, self.snooper)

    @cached_property
    def classes(self) -> Classes:
        """The classes of the released records."""
        return released_classes(self.outcome, self.snooper, self.missing)

    @cached_property
    def risks(self) -> ClassRisks:
        """The probability of being identified: in the population where that can be told, else in the file."""
        return self._found[1]

    @property
    def among(self) -> Among:
        """Whom the risks are about: a table of the population, one that is estimated from a sample, or the file alone."""
        return self._found[0]

    @cached_property
    def _found(self) -> tuple[Among, ClassRisks]:
        outcome, snooper, missing = self.outcome, self.snooper, self.missing
        if snooper.population is not None:
            with suppress(SfumatoError):
                return "table", in_population(outcome, snooper, missing)
        with suppress(SfumatoError):
            return "sample", expected_in_population(outcome, snooper, missing, self.fraction)
        return "file", in_release(outcome, snooper, missing)

    @property
    def in_population(self) -> bool:
        """Whether the risks are those of being found in the population, not in the file alone."""
        return self.among != "file"

    @cached_property
    def verdict(self) -> tuple[str, ...]:
        """What the profile comes to, in sentences: which records, which attributes, how sure."""
        return verdict(self)

    def score(self, name: str) -> Score | None:
        """Return the score of the first measure of a registered name, if it applies."""
        return next((s for m, s in zip(self.measures, self.scores, strict=True) if m.name == name), None)

    def class_sizes(self) -> pd.DataFrame:
        """Return how many records match so many records on the keys: columns matches, records, share."""
        import pandas as pd

        f, sizes = self.classes.matches, self.classes.sizes
        place = np.searchsorted(_EDGES, f, side="right") - 1
        records = np.bincount(place, sizes, len(_EDGES)).astype(int)
        return pd.DataFrame({"matches": _ranges(_EDGES), "records": records, "share": records / sizes.sum()})

    def risk_distribution(self) -> pd.DataFrame:
        """Return how many records have a risk in each interval: columns above, up_to, records, share."""
        import pandas as pd

        sizes = self.risks.classes.sizes
        place = np.clip(np.searchsorted(_RISKS, self.risks.risk * (1 - 1e-12), side="left") - 1, 0, len(_RISKS) - 2)
        records = np.bincount(place, sizes, len(_RISKS) - 1).astype(int)
        return pd.DataFrame(
            {"above": _RISKS[:-1], "up_to": _RISKS[1:], "records": records, "share": records / sizes.sum()}
        )

    @cached_property
    def contributions(self) -> pd.DataFrame:
        """Return how many records would match fewer than k without each key: columns key, without, less; largest first.

        `less` is how many records fewer that is: what the key contributes.
        """
        import pandas as pd

        below, n = self._below(self.classes), int(self.classes.sizes.sum())
        all_alike = n if n < self.k else 0
        rows = []
        for key in self.keys:
            others = [name for name in self.keys if name != key]
            without = self._below(self.classes.among(others)) if others else all_alike
            rows.append((key, without, below - without))
        frame = pd.DataFrame(rows, columns=["key", "without", "less"])
        return frame.sort_values("less", ascending=False, kind="stable", ignore_index=True)

    def _below(self, found: Classes) -> int:
        return int(found.sizes[found.matches < self.k].sum())

    def riskiest(self, count: int = 20) -> pd.DataFrame:
        """Return the records that are most at risk, for the custodian's eyes only: columns row, matches, risk.

        `row` counts the records of the original from 1, in the order in which they were read. No value of a record is shown.
        """
        import pandas as pd

        self.outcome.check_aligned("the list of the riskiest records")
        risk = of_original(self.outcome, self.risks.classes, self.risks.risk)
        matches = of_original(self.outcome, self.classes, self.classes.matches)
        order = np.argsort(-np.nan_to_num(risk, nan=-1.0), kind="stable")[:count]
        order = order[~np.isnan(risk[order])]
        return pd.DataFrame({"row": order + 1, "matches": matches[order].astype(int), "risk": risk[order]})

    def by_group(self, column: str) -> pd.DataFrame:
        """Return the risk of the records that share each value of a released column, the riskiest group first.

        Columns: the group, records, unique (on the keys, in the whole file), below_k, expected (number identified), mean_risk,
        largest_risk. Records that the rule for missing keys leaves out are not in it.
        """
        import pandas as pd

        data = self.outcome.masked
        kind = data.kind(column)
        codes, values = data.batch([column]).column(column).codes
        if len(values) > _GROUPS:
            raise NotApplicable(
                f"column '{column}' has {len(values):,} different values, too many for a table of subgroups (at most {_GROUPS}). "
                f"Recode it to fewer {'intervals' if kind is Kind.NUMBER else 'categories'} first."
            )
        f = self.classes.per_record(self.classes.matches)
        risk = self.risks.classes.per_record(self.risks.risk)
        frame = pd.DataFrame({"group": [*map(str, values), "missing"], "code": [*range(len(values)), -1]})
        known = ~np.isnan(f)
        rows = []
        for code in frame["code"]:
            mine = known & (codes == code)
            r = risk[mine]
            counts = (int(mine.sum()), int((f[mine] == 1).sum()), int((f[mine] < self.k).sum()))
            rows.append((*counts, r.sum(), r.mean() if len(r) else np.nan, r.max(initial=0.0)))
        names = ["records", "unique", "below_k", "expected", "mean_risk", "largest_risk"]
        found = pd.concat([frame[["group"]], pd.DataFrame(rows, columns=names)], axis=1)
        found = found[found["records"] > 0].rename(columns={"group": column})
        return found.sort_values("mean_risk", ascending=False, kind="stable", ignore_index=True)

    def chart(self) -> alt.HConcatChart:
        """Draw class sizes, the distribution of risk, and what each key contributes."""
        from sfumato.charts.risk_profile import risk_profile_chart

        where = {
            "file": "1/f: of being identified in the file",
            "sample": "individual risk, an estimate",
            "table": "1/F: in the population",
        }[self.among]
        return risk_profile_chart(self.class_sizes(), self.risk_distribution(), self.contributions, self.k, where)

    def section(self) -> Section:
        """Return the profile for a report: no record is in it."""
        rows = tuple((s.measure, digits(s.value), _interval(s), s.words) for s in self.scores)
        content: list[Table | Figure] = [
            Table(("measure", "value", "95 % interval", "in words"), rows, "Lower is safer in every row.")
        ]
        if self.refused:
            content.append(Table(("not applicable", "why"), tuple(self.refused.items())))
        caption = "Records by how many look the same, by risk, and what each key contributes"
        content.append(Figure(self.chart().to_dict(), caption))
        return Section("Disclosure risk", self.verdict, content)

    def to_dict(self) -> dict[str, Any]:
        """Return what may be written for machines; no record is in it."""
        return {
            "verdict": list(self.verdict),
            "records": len(self.outcome.masked),
            "keys": list(self.keys),
            "snooper": {"words": self.snooper.looks_by(self.keys), **self.snooper.to_dict()},
            "scores": [
                {"name": m.name, "parameters": m.to_dict(), **s.to_dict()}
                for m, s in zip(self.measures, self.scores, strict=True)
            ],
            "not_applicable": dict(self.refused),
            "class_sizes": self.class_sizes().to_dict("records"),
            "risk_distribution": self.risk_distribution().to_dict("records"),
            "contributions": self.contributions.to_dict("records"),
        }


def risk_profile(
    outcome: Release,
    snooper: Snooper | None = None,
    *,
    k: int = 3,
    missing: Missing = "wildcard",
    fraction: float | None = None,
    measures: Sequence[Measure] = (),
    progress: Progress | None = None,
) -> RiskProfile:
    """Score a release with every measure that applies to it, and say what it comes to.

    `fraction` is the share of the population that is in the file; told by the survey weights where the schema names them.
    `measures` are asked beside the usual ones. A measure that does not apply is listed with its reason; only keys that cannot
    be used stop the profile.

    Examples
    --------
    >>> from sfumato.datasets import five
    >>> data = five()
    >>> profile = risk_profile(Release.of(data, data, align="rows"))
    >>> profile.verdict[0]
    '5 of 5 records are unique on zip, sex, age: who knows these of a person finds one record.'
    """
    snooper = snooper or Snooper()
    key_names(outcome, snooper)
    applied, scores, refused = [], [], {}
    asked = [*usual_measures(outcome, snooper, k, missing, fraction), *measures]
    for i, measure in enumerate(asked):
        if progress is not None:
            progress("Measuring", i, len(asked))
        try:
            scores.append(measure.score(outcome, snooper))
            applied.append(measure)
        except SfumatoError as reason:
            refused[measure.label()] = str(reason)
    if outcome.changed and len(outcome.masked) > LINKED:
        refused[DistanceLinkage().label()] = (
            f"it takes long for more than {LINKED:,} records. Ask for DistanceLinkage() by name, or --measure distance_linkage."
        )
    return RiskProfile(outcome, snooper, k, missing, fraction, tuple(applied), tuple(scores), refused)


def _ranges(edges: Sequence[int]) -> list[str]:
    """Return the whole numbers from each edge to the next in words: "1", "2", "3–4", …, "100 or more"."""
    ends = [*(e - 1 for e in edges[1:]), None]
    return [
        f"{a:,} or more" if b is None else f"{a}" if a == b else f"{a}–{b}" for a, b in zip(edges, ends, strict=True)
    ]


def _interval(score: Score) -> str:
    if score.interval is None:
        return "–"
    return f"{digits(score.interval[0])} to {digits(score.interval[1])}"
