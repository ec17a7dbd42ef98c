"""A risk profile: every measure that applies to a file, the verdict in words, and where the risk comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato import charts
from sfumato.attacks.attacker_file import key_names
from sfumato.contract import Measure, Release, Snooper
from sfumato.contract.score import Figure, Score, Section, TextTable, digits
from sfumato.data import Kind, Microdata
from sfumato.data.classes import Classes, Missing
from sfumato.data.engine import LocalEngine
from sfumato.errors import NotApplicable, SfumatoError, count_of, join_names, plural
from sfumato.lazy import pd
from sfumato.risk.anonymity import DeltaPresence, KAnonymity, KMap
from sfumato.risk.attribute_risk import AttributeRisk
from sfumato.risk.attribution import CAP
from sfumato.risk.closest_records import DCR, IMS
from sfumato.risk.diversity import LDiversity, TCloseness
from sfumato.risk.global_risk import GlobalRisk
from sfumato.risk.individual_risk import (
    AnyIdentified,
    ClassRisks,
    IndividualRisk,
    Reidentification,
    expected_in_population,
    in_population,
    in_release,
)
from sfumato.risk.interval_disclosure import IntervalDisclosure
from sfumato.risk.keys import of_original, released_classes
from sfumato.risk.linkage import DistanceLinkage
from sfumato.risk.log_linear import LogLinearRisk
from sfumato.risk.membership import Membership
from sfumato.risk.population_uniques import PopulationUniques
from sfumato.risk.special_uniques import SUDA
from sfumato.risk.telling_columns import determined_columns
from sfumato.risk.unique_matches import MatchRisk
from sfumato.typing import Flags

if TYPE_CHECKING:
    import altair as alt

LINKED = 100_000
"""Linkage takes its time; of larger files it is worked out only when it is asked for."""


def default_measures(
    outcome: Release, snooper: Snooper, k: int, missing: Missing, fraction: float | None
) -> list[Measure]:
    """Return the measures to try: from counts, within classes, and where they apply against an original or a holdout."""
    measures = [*_identity(outcome, snooper, k, missing, fraction), *_within_classes(outcome, missing)]
    if outcome.changed:
        measures += _against_original(outcome, missing)
    if outcome.holdout is not None:
        measures += [DCR(), IMS(), Membership()]
    return measures


def _identity(outcome: Release, snooper: Snooper, k: int, missing: Missing, fraction: float | None) -> list[Measure]:
    schema = outcome.masked.schema
    sample = fraction is not None or schema.one("weight") is not None
    measures: list[Measure] = [KAnonymity(k=k, missing=missing), Reidentification(missing=missing)]
    if snooper.population is not None:
        measures += [
            KMap(k=k, missing=missing),
            Reidentification(attacker="journalist", missing=missing),
            DeltaPresence(missing=missing),
        ]
    measures.append(IndividualRisk(fraction=fraction, missing=missing))
    if schema.one("household") is not None:
        measures.append(IndividualRisk(per="household", fraction=fraction, missing=missing))
    attacker: Literal["journalist", "prosecutor"] = (
        "journalist" if sample or snooper.population is not None else "prosecutor"
    )
    measures.append(AnyIdentified(attacker=attacker, fraction=fraction, missing=missing))
    if sample:
        measures += [
            MatchRisk(fraction=fraction, missing=missing),
            LogLinearRisk(fraction=fraction, missing=missing),
            PopulationUniques(fraction=fraction, missing=missing),
        ]
    return [*measures, SUDA(missing=missing)]


def _within_classes(outcome: Release, missing: Missing) -> list[Measure]:
    confidential = _confidential(outcome)
    few = [name for name, kind in confidential.items() if kind is not Kind.NUMBER]
    diverse: list[Measure] = [LDiversity(over=(name,), missing=missing) for name in few]
    return diverse + [TCloseness(column=name, missing=missing) for name in confidential]


def _against_original(outcome: Release, missing: Missing) -> list[Measure]:
    confidential = _confidential(outcome)
    compared: list[Measure] = [GlobalRisk(kind="max", missing=missing), GlobalRisk(kind="min", missing=missing)]
    if len(outcome.masked) <= LINKED:
        compared.append(DistanceLinkage())
    if Kind.NUMBER in confidential.values():
        compared.append(IntervalDisclosure(within="any"))
    for name, kind in confidential.items():
        compared.append(AttributeRisk(name) if kind is Kind.NUMBER else CAP(column=name, missing=missing))
    return compared


def _confidential(outcome: Release) -> dict[str, Kind]:
    kinds = outcome.masked.engine.kinds
    plain = (Kind.NUMBER, Kind.CATEGORY, Kind.BOOLEAN)
    names = [n for n in outcome.original.schema.names(role="confidential") if n in kinds]
    return {name: kinds[name] for name in names if kinds[name] in plain}


ARE = ("is", "are")
_MANY = 0.05
"""A larger share of missing keys than this is worth a warning."""


def verdict(profile: RiskProfile) -> tuple[str, ...]:
    """Return the sentences; the first says whether anybody can be found at all."""
    sentences = [
        _records(profile),
        _identified(profile),
        _missing(profile),
        _by_rule(profile),
        _keys(profile),
        _determined(profile),
        *_learned(profile),
        _linked(profile),
    ]
    return tuple(s for s in [*sentences, _sure(profile)] if s)


def _records(profile: RiskProfile) -> str:
    found, k, names = profile.classes, profile.k, ", ".join(profile.keys)
    counted, f, rest = ~_blank(found), found.matches, ""
    blank = profile.left_out + int(found.sizes[~counted].sum())
    if not counted.all():
        f = np.round(found.matching(np.where(counted, found.sizes, 0))).astype(np.int64)
    if blank:
        which = "1 record of which nearly every key is missing, and which" if blank == 1 else (
            f"{blank:,} records of which nearly every key is missing, and which")  # fmt: skip
        rest = f" Left out: {which} would match everybody."
    sizes, f = found.sizes[counted], f[counted]
    n, unique, below = int(sizes.sum()), int(sizes[f == 1].sum()), int(sizes[f < k].sum())
    if unique:
        known = "this" if len(profile.keys) == 1 else "these"
        return f"{count_of(unique, n, ARE)} unique on {names}: who knows {known} of a person finds one record.{rest}"
    if below:
        few = count_of(below, n, ("matches", "match"))
        return f"No record is unique on {names}, but {few} fewer than {k} records.{rest}"
    return f"Every record matches at least {int(f.min()):,} records on {names}, itself included.{rest}"


def _blank(found: Classes) -> Flags:
    """Return the classes that lack more than three keys in four, shape (c,): a verdict does not rest on whom they match.

    Those that lack half of the keys are among them where they are one record in a hundred at most: subtotals lack as many.
    None where a missing key does not match anything, and none where there are no others.
    """
    missing = np.sum([codes < 0 for codes in found.codes], axis=0)
    blank: Flags = 4 * missing > 3 * len(found.codes)
    half = (2 * missing >= len(found.codes)) & (missing > 1)
    if 100 * int(found.sizes[half].sum()) <= int(found.sizes.sum()):
        blank = blank | half
    return blank if found.rule == "wildcard" and not blank.all() else np.zeros(len(found), bool)


def _answered(outcome: Release, snooper: Snooper, missing: Missing) -> tuple[Release, Classes | None]:
    """Return a file that is looked at as it is without its blank records, and the classes of all if there are such.

    In a masked file they stay: there a method may have suppressed the keys.
    """
    data = outcome.masked
    if outcome.changed or not isinstance(data.engine, LocalEngine):
        return outcome, None
    found = released_classes(outcome, snooper, missing)
    blank = _blank(found)
    if not blank.any():
        return outcome, None
    rows = data.batch().keep(~blank[found.labels]).rows
    kept = Microdata(data.engine.hold(rows), data.schema)
    return replace(outcome, original=kept, implicates=(kept,), memory={}), found


def _by_rule(profile: RiskProfile) -> str:
    """Say how many records are unique under each rule for missing keys, where that makes a difference."""
    found = profile.every or profile.classes
    complete = np.all([codes >= 0 for codes in found.codes], axis=0)
    if profile.missing != "wildcard" or complete.all():
        return ""
    alone = found.sizes == 1
    counts = [int(found.sizes[found.matches == 1].sum()), int(alone.sum()), int((alone & complete).sum())]
    if len(set(counts)) == 1:
        return ""
    anything, own, left_out = (f"{count:,}" for count in counts)
    return (
        f"The unique records depend on what a missing key means: {anything} if it matches anything, {own} if it is a value of its "
        f"own, {left_out} if records with one are left out."
    )


def _identified(profile: RiskProfile) -> str:
    risks = profile.risks
    identified = f"{count_of(digits(risks.expected), risks.records, ARE)} expected to be identified"
    if profile.among == "file":
        return (
            f"If the file is everybody there is, or the snooper knows who is in it, {identified}. "
            "If it is a sample, survey weights or the sampling fraction tell how much less it is."
        )
    if profile.among == "table":
        return (
            f"Among everybody in the population table, {identified}; the largest risk of any record is "
            f"{digits(risks.largest, 2)}."
        )
    if not risks.variance.any():
        return f"The file is everybody there is, by its survey weights or the sampling fraction: {identified}."
    estimates = _of_uniques(profile)
    if len(estimates) == 1:
        return f"Among everybody in the population, {identified} (individual risk)."
    (low, lower), *_, (high, higher) = estimates
    unique = int(profile.classes.sizes[profile.classes.matches == 1].sum())
    return (
        f"How many of the {plural(unique, 'unique record')} would be identified among everybody in the population can only be "
        f"estimated, and the estimates go from {digits(low)} ({lower}) to {digits(high)} ({higher}): plan for the larger one. "
        f"By individual risk, which counts the other records too, {identified}."
    )


def _of_uniques(profile: RiskProfile) -> list[tuple[float, str]]:
    """Return how many of the unique records are expected to be identified by each estimator, the smallest first."""
    risks, alone = profile.risks, profile.risks.classes.matches == 1
    found = [(float(risks.classes.sizes[alone] @ risks.risk[alone]), "individual risk")]
    for measure, score in zip(profile.measures, profile.scores, strict=True):
        if measure.name == "log_linear_risk":
            found.append((score.value * risks.records, "log-linear model"))
        if measure.name == "match_risk":
            found.append((score.value * int(risks.classes.sizes[alone].sum()), "risk of a unique match"))
    return sorted(found)


def _missing(profile: RiskProfile) -> str:
    """Warn where many keys are missing: what does not apply to somebody is known, not unknown."""
    if profile.missing != "wildcard":
        return ""
    found = profile.classes
    n = int(found.sizes.sum())
    shares = {name: int(found.sizes[c < 0].sum()) for name, c in zip(found.names, found.codes, strict=True)}
    name = max(shares, key=lambda key: shares[key])
    if shares[name] <= _MANY * n:
        return ""
    return (
        f"{name} is missing for {shares[name]:,} of {plural(n)}, and is taken to match anything. If it is missing because it "
        "does not apply to them, that is known too, and the risk is larger: use missing = 'value'."
    )


def _keys(profile: RiskProfile) -> str:
    found = profile.contributions
    below = int(found["without"].iloc[0] + found["less"].iloc[0])
    telling = found[found["less"] > 0]
    if not below or not len(telling):
        return ""
    first = telling.iloc[0]
    others = ", ".join(telling["key"].iloc[1:3])
    return (
        f"The key that singles out most is {first['key']}: without it {plural(int(first['without']))} would match fewer than "
        f"{profile.k}, not {below:,}{f'; then come {others}' if others else ''}."
    )


def _determined(profile: RiskProfile) -> str:
    """Say which columns determine others, and which of these no mask carries along."""
    data = profile.outcome.original
    found = [one for one in determined_columns(data) if one.name in profile.outcome.masked.schema]
    if not found:
        return ""
    said = [
        f"{one.name} is told by {join_names(one.sources)}" if one.values else f"{one.name} equals {one.follows}"
        for one in found
    ]
    listed = "; ".join(said)
    if alone := [one.name for one in found if data.schema[one.name].follows is None]:
        return (
            f"Some columns are functions of others, and a mask that changes one alone hides nothing: {listed}. The schema does not "
            f"say so of {join_names(alone)}: add follows to it, so that masks change both."
        )
    return f"Some columns are functions of others: {listed}. Masks carry them along, as the schema says (follows)."


def _learned(profile: RiskProfile) -> list[str]:
    """Say which confidential columns are known without telling records apart, and which numbers are known as they were."""
    found = list(zip(profile.measures, profile.scores, strict=True))
    sentences = [_sentence(s) for m, s in found if m.name == "l_diversity" and s.value > 0]
    numbers = [(m.columns(profile.outcome.original.schema) or ("",), s) for m, s in found if m.name == "attribute_risk"]
    worked_out = [s for _, s in numbers if ", since " in s.words]  # from other columns
    if exact := [name for (name, *_), s in numbers if math.isinf(s.value) and s not in worked_out]:
        sentences.append(f"Who finds a record knows {join_names(exact)} exactly: the values are released as they were.")
    return sentences + [_sentence(s) for _, s in numbers if math.isfinite(s.value) or s in worked_out]


def _sentence(score: Score) -> str:
    return f"{score.measure[:1].upper()}{score.measure[1:]}: {score.words}."


def _linked(profile: RiskProfile) -> str:
    score = profile.score("distance_linkage")
    return "" if score is None or not score.value > 0 else f"By linking the nearest records: {score.words}."


def _sure(profile: RiskProfile) -> str:
    estimates = sum(s.interval is not None and math.isfinite(s.value) for s in profile.scores)
    counted = len(profile.scores) - estimates
    parts = [f"{counted} {'measure is' if counted == 1 else 'measures are'} exact for this snooper and this file"]
    if estimates:
        parts.append(f"{estimates} {'is an estimate' if estimates == 1 else 'are estimates'} with an interval")
    if profile.refused:
        why = "reason" if len(profile.refused) == 1 else "reasons"
        parts.append(f"{len(profile.refused)} could not be had, for the {why} below")
    return "; ".join(parts) + ". A snooper who knows more than these keys learns more."


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
    every: Classes | None = None
    """The classes of all records, where some were left out since nearly every key is missing."""

    def __repr__(self) -> str:
        return f"RiskProfile({len(self.scores)} measures of {len(self.outcome.masked):,} records, by {', '.join(self.keys)})"

    def __str__(self) -> str:
        return "\n".join(self.verdict)

    def _repr_html_(self) -> str:
        """Return the verdict and every score for a notebook."""
        import html

        rows = [{"measure": s.measure, "value": s.value, "in words": s.words} for s in self.scores]
        said = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.verdict)
        return f"{said}{pd.DataFrame(rows).to_html(index=False)}"

    @property
    def keys(self) -> tuple[str, ...]:
        """What the snooper looks for records by."""
        return key_names(self.outcome, self.snooper)

    @property
    def left_out(self) -> int:
        """Records of the file that were left out."""
        return 0 if self.every is None else int(self.every.sizes.sum() - self.classes.sizes.sum())

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
        """Return the number of records by how many records match them on the keys: columns matches, records, share."""
        f, sizes = self.classes.matches, self.classes.sizes
        place = np.searchsorted(_EDGES, f, side="right") - 1
        records = np.bincount(place, sizes, len(_EDGES)).astype(int)
        return pd.DataFrame({"matches": _ranges(_EDGES), "records": records, "share": records / sizes.sum()})

    def risk_distribution(self) -> pd.DataFrame:
        """Return how many records have a risk in each interval: columns above, up_to, records, share."""
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
        below, n = self._below(self.classes), int(self.classes.sizes.sum())
        all_alike = n if n < self.k else 0
        rows = []
        for key in self.keys:
            others = [name for name in self.keys if name != key]
            without = self._below(self.classes.among(others)) if others else all_alike
            rows.append((key, without, below - without))
        frame = pd.DataFrame(rows, columns=["key", "without", "less"])
        return frame.sort_values("less", ascending=False, kind="stable", ignore_index=True)

    def _below(self, released: Classes) -> int:
        return int(released.sizes[released.matches < self.k].sum())

    def riskiest(self, count: int = 20) -> pd.DataFrame:
        """Return the records that are most at risk, for the custodian's eyes only: columns row, matches, risk.

        `row` counts the records of the original from 1, in the order in which they were read. No value of a record is shown.
        """
        self.outcome.check_aligned("the list of the riskiest records")
        risk = of_original(self.outcome, self.risks.classes, self.risks.risk)
        matches = of_original(self.outcome, self.classes, self.classes.matches)
        order = np.argsort(-np.nan_to_num(risk, nan=-1.0), kind="stable")[:count]
        order = order[~np.isnan(risk[order])]
        rows = (
            np.sort(self.outcome.original.batch([]).ids)[order] + 1
        )  # an id is the position at which a record was read
        return pd.DataFrame({"row": rows, "matches": matches[order].astype(int), "risk": risk[order]})

    def by_group(self, column: str) -> pd.DataFrame:
        """Return the risk of the records that share each value of a released column, the riskiest group first.

        Columns: the group, records, unique (on the keys, in the whole file), below_k, expected (number identified), mean_risk,
        largest_risk. Records that the rule for missing keys leaves out are not in it.
        """
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
        where = {
            "file": "1/f: of being identified in the file",
            "sample": "individual risk, an estimate",
            "table": "1/F: in the population",
        }[self.among]
        return charts.file_charts.risk_profile_chart(
            self.class_sizes(), self.risk_distribution(), self.contributions, self.k, where
        )

    def section(self) -> Section:
        """Return the profile for a report: no record is in it."""
        rows = tuple((s.measure, digits(s.value), _interval(s), s.words) for s in self.scores)
        content: list[TextTable | Figure] = [
            TextTable(("measure", "value", "95 % interval", "in words"), rows, "Lower is safer in every row.")
        ]
        if self.refused:
            content.append(TextTable(("not applicable", "why"), tuple(self.refused.items())))
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
    outcome, every = _answered(outcome, snooper, missing)
    applied, scores, refused = [], [], {}
    asked = [*default_measures(outcome, snooper, k, missing, fraction), *measures]
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
    return RiskProfile(outcome, snooper, k, missing, fraction, tuple(applied), tuple(scores), refused, every)


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
