"""`sfumato risk`: what a snooper could learn from a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sfumato.cli.console import Misuse, Screen, on_command_line, percent, shown
from sfumato.cli.files import check_chart, load, save_chart
from sfumato.cli.listing import risk_measures, show_measures
from sfumato.cli.options import (
    Engine,
    ListMeasures,
    OutputOptions,
    ReleaseOptions,
    SnooperOptions,
    argument,
    expand_options,
    measure_names,
    option,
    output_field,
)
from sfumato.cli.parse import settings
from sfumato.contract.release import Release
from sfumato.data.columns import Kind
from sfumato.errors import DataError, NotApplicable, plural, refuse_unknown

if TYPE_CHECKING:
    from sfumato.contract import Measure, Score, Snooper
    from sfumato.risk.profile import RiskProfile


def _scores(
    release: Release, cls: type[Measure], facts: dict[str, Any], columns: list[str], snooper: Snooper
) -> tuple[list[tuple[str, Score, float]], dict[str, str]]:
    """Return (column, score, error / standard deviation), the worst first, and why columns were left out."""
    named = bool(columns)
    before, after = release.original, release.masked.engine.kinds
    columns = columns or [n for n in before.schema.names(role="confidential") if before.kind(n) is Kind.NUMBER]
    if not columns:
        raise DataError(
            "there is no confidential column of numbers. Name one with --column, or give one the role "
            "'confidential' in a schema."
        )
    scores, refused = [], {}
    for name in dict.fromkeys(columns):
        before.kind(name)  # refuses an unknown name
        try:
            if name not in after:
                raise NotApplicable(f"column '{name}' is not in the masked file, so nothing is released of it.")
            score = cls.from_dict({"column": name, **facts}).score(release, snooper)
        except NotApplicable as reason:
            if named:
                raise
            refused[name] = str(reason)
        else:
            spread = math.sqrt(float(before.moments([name]).covariance[0, 0]))
            scores.append((name, score, _error(score) / spread if spread > 0 else math.nan))
    if not scores:
        raise NotApplicable(" ".join(refused.values()))
    return sorted(scores, key=lambda s: (math.isnan(s[2]), s[2])), refused


def _error(score: Score) -> float:
    return 1 / math.sqrt(score.value) if score.value > 0 else math.inf


def show_columns(
    screen: Screen, release: Release, cls: type[Measure], facts: dict[str, Any], columns: list[str], snooper: Snooper
) -> None:
    """Score columns one by one, and print the one that is known best first."""
    scores, refused = _scores(release, cls, facts, columns, snooper)
    screen.say(_verdict(*scores[0]), strong=True)
    screen.say(f"The snooper {snooper.describe()}. {len(release.masked):,} masked records.")
    screen.say()
    schema = release.original.schema
    rows = [
        (n, s.value, _interval(s), _error(s), schema[n].unit, None if math.isnan(r) else percent(r))
        for n, s, r in scores
    ]
    heads = ("column", "risk R", "95 % interval", "typical error", "unit", "of the standard deviation")
    screen.table(heads, rows, (1, 3, 5))
    for n, s, _ in scores:
        if s.groups:
            screen.say()
            screen.table((f"{n}, by group of targets", "risk R"), list(s.groups.items()), (1,))
    if len(scores) > 1:
        screen.say("The column that a snooper knows best, for its spread, stands first; R itself depends on the unit.")
    for column, reason in refused.items():
        screen.note(f"{column}: {reason}")
    screen.answer(
        {
            "records": len(release.masked),
            "snooper": {"words": snooper.describe(), **snooper.to_dict()},
            "scores": [
                {"column": n, **s.to_dict(), "typical_error": _error(s), "error_over_sd": r} for n, s, r in scores
            ],
            "not_applicable": refused,
        }
    )


def _verdict(column: str, score: Score, share: float) -> str:
    if score.value == math.inf:
        return f"{column} is released as it was: a snooper who finds the record knows the value exactly."
    relative = "" if math.isnan(share) else f", {percent(share)} of the column's standard deviation"
    return f"For {column} {score.words}{relative}."


def _interval(score: Score) -> str:
    if score.interval is None or not math.isfinite(score.value):
        return "–"
    return f"{shown(score.interval[0])} to {shown(score.interval[1])}"


def show_page(screen: Screen, profile: RiskProfile, riskiest: int, by: str | None) -> None:
    """Print the verdict, then every measure, then where the risk comes from."""
    first, *rest = map(on_command_line, profile.verdict)
    screen.say(first, strong=True)
    for sentence in rest:
        screen.say(sentence)
    screen.say()
    screen.say(f"The snooper {profile.snooper.looks_by(profile.keys)}. {plural(len(profile.outcome.masked))}.")
    screen.say()
    rows = [(s.measure, s.value, _interval(s)) for s in profile.scores]
    words = [s.words for s in profile.scores]
    if len(profile.keys) > 2:  # their list stands above the table
        words = [w.replace(", ".join(profile.keys), "the keys") for w in words]
    screen.described(("measure (lower is safer)", "value", "95 % interval"), rows, words, (1,))
    screen.say()
    sizes = profile.class_sizes()
    rows_of_sizes = list(zip(sizes["matches"], sizes["records"].tolist(), map(percent, sizes["share"]), strict=True))
    screen.table(("records that match, itself included", "records", "share"), rows_of_sizes, (1, 2))
    screen.say()
    keys = profile.contributions
    rows_of_keys = list(zip(keys["key"], keys["without"].tolist(), keys["less"].tolist(), strict=True))
    screen.table(("key", f"records below {profile.k} without it", "fewer"), rows_of_keys, (1, 2))
    answer = profile.to_dict()
    if by is not None:
        groups = profile.by_group(by)
        answer["groups"] = groups.to_dict("records")
        screen.say()
        heads = (by, "records", "unique", f"below {profile.k}", "expected identified", "mean risk", "largest risk")
        screen.table(heads, list(zip(*(groups[c].tolist() for c in groups), strict=True)), range(1, 7))
    if riskiest:
        screen.say()
        listed = profile.riskiest(riskiest)
        answer["riskiest"] = listed.to_dict("records")
        screen.table(
            ("row in the file (for your eyes only)", "records that match", "risk"),
            list(zip(listed["row"].tolist(), listed["matches"].tolist(), listed["risk"].tolist(), strict=True)),
            (0, 1, 2),
        )
    if profile.refused:
        screen.say()
        reasons = list(map(on_command_line, profile.refused.values()))
        screen.described(("not applicable",), [(label,) for label in profile.refused], reasons)
    screen.answer(answer)


def show_scores(screen: Screen, release: Release, snooper: Snooper, measures: list[Measure]) -> None:
    """Print scores one by one: the words first, then the number and its companions."""
    scores, refused = [], {}
    with screen.progress() as tell:
        for i, measure in enumerate(measures):
            tell("Measuring", i, len(measures))
            try:
                scores.append((measure, measure.score(release, snooper)))
            except NotApplicable as reason:
                if len(measures) == 1:
                    raise
                refused[measure.label()] = str(reason)
    if not scores:
        raise NotApplicable(" ".join(refused.values()))
    for _, score in scores:
        screen.say(f"{score.words[:1].upper()}{score.words[1:]}.", strong=True)
    knows = _knows(release, snooper, measures)
    screen.say(f"The snooper {knows}. {plural(len(release.masked))}.")
    screen.say()
    rows = [(s.measure, s.value, _interval(s)) for _, s in scores]
    screen.described(("measure (lower is safer)", "value", "95 % interval"), rows, [s.variant for _, s in scores], (1,))
    for _, score in scores:
        for head, facts in ((f"beside {score.measure}", score.details), (f"{score.measure}, by group", score.groups)):
            if facts:
                screen.say()
                screen.table((head, "value"), list(facts.items()), (1,))
    for label, why in refused.items():
        screen.note(f"{label}: {on_command_line(why)}")
    screen.answer(
        {
            "records": len(release.masked),
            "snooper": {"words": knows, **snooper.to_dict()},
            "scores": [{"name": m.name, "parameters": m.to_dict(), **s.to_dict()} for m, s in scores],
            "not_applicable": refused,
        }
    )


def _knows(release: Release, snooper: Snooper, measures: list[Measure]) -> str:
    """Return what matters of the snooper: how he finds records, for measures of keys, which all have a rule for missing ones."""
    from sfumato.attacks.attacker_file import key_names

    if all("missing" in measure.parameters() for measure in measures):
        return snooper.looks_by(key_names(release, snooper))
    return snooper.describe()


@dataclass(frozen=True, kw_only=True)
class RiskOptions:
    """The options of `sfumato risk`."""

    file: Path | None = argument("FILE", "The file that would be released; the original, if a second is given.")
    masked: Path | None = argument("MASKED", "The masked file, if there is one.")
    k: int | None = option("Count the records that fewer than this many match; 3 if not given.", min=2)
    missing: Literal["wildcard", "value", "ignored"] | None = option(
        "The meaning of a missing key: it matches anything (wildcard, if not given), is a value of its own, or its record "
        "is left out."
    )
    fraction: float | None = option(
        "Share of the population that is in the file; from the survey weights if not given.", max=1
    )
    measure: str | None = option("One measure instead of the page; --list shows all.", autocompletion=measure_names)
    column: list[str] | None = option(
        "A column that the snooper wants to know, for measures of one column (attribute_risk if no other is named)."
    )
    set_: list[str] | None = option("A parameter of the measure, such as k=5.", metavar="NAME=VALUE")
    list_: ListMeasures = False
    snooper: SnooperOptions
    source: ReleaseOptions
    engine: Engine = "memory"
    by: str | None = output_field("Also tell the risk of each subgroup by this column.", metavar="COLUMN")
    chart: Path | None = output_field("Draw the risk profile (.svg or .png).")
    riskiest: int = output_field(
        "List this many of the riskiest records by row number: for the custodian's eyes only.", default=0, min=0
    )
    output: OutputOptions

    def chosen(self) -> tuple[type[Measure] | None, dict[str, Any]]:
        """Return the one measure that is asked for, and its parameters; None for the page of all measures."""
        cls = _class(self.measure) if self.measure else _class("attribute_risk") if self.column else None
        if cls is None:
            if self.set_:
                raise Misuse("--set is for the parameters of one measure: name it with --measure.")
            return None, {}
        own = {"k": self.k, "missing": self.missing, "fraction": self.fraction}
        facts = _with_options(cls, settings(cls, self.set_ or ()), own)
        for_page = (("--by", self.by), ("--chart", self.chart), ("--riskiest", self.riskiest))
        if extra := [name for name, value in for_page if value]:
            raise Misuse(f"{extra[0]} is for the page of all measures: leave --measure and --column out.")
        if "column" in cls.parameters():
            cls.from_dict({"column": "-", **facts})  # refuses a wrong parameter before the files are read
        return cls, facts


@expand_options
def risk(options: RiskOptions) -> None:
    """Tell how much a snooper could learn from a file: the verdict first, then every measure that applies.

    With one file, the file is looked at as it is. With two, the second was made of the first by masking.
    """
    from sfumato.risk.profile import risk_profile

    screen = options.output.screen()
    if options.list_:
        show_measures(screen, None if options.measure is None else _class(options.measure).name)
        return
    if options.file is None:
        raise Misuse("a file is needed: the one that would be released, or the original and then the masked one.")
    check_chart(options.chart, options.output.replace)
    cls, facts = options.chosen()
    snooper = options.snooper.build()
    release = _release(screen, options.file, options)
    snooper = options.snooper.with_population(screen, snooper, release.original)
    release = options.source.with_holdout(release)
    if cls is not None and cls.name in ("attribute_risk", "coded_value_risk") and "column" not in facts:
        show_columns(screen, release, cls, facts, options.column or [], snooper)
        return
    if cls is not None:
        show_scores(screen, release, snooper, _measures(cls, facts, options.column, release))
        return
    if options.by is not None:
        release.masked.kind(options.by)  # refuses an unknown name before anything takes long
    if options.riskiest:
        release.check_aligned("the list of the riskiest records")
    with screen.progress() as tell:
        profile = risk_profile(
            release, snooper, k=options.k or 3, missing=options.missing or "wildcard", fraction=options.fraction,
            progress=tell,
        )  # fmt: skip
        if options.chart is not None:
            tell("Drawing", 0, 0)
            save_chart(profile.chart(), options.chart)
    show_page(screen, profile, options.riskiest, options.by)


def _release(screen: Screen, file: Path, options: RiskOptions) -> Release:
    if options.masked is not None and options.engine != "memory":
        raise Misuse("--engine duckdb is for one file: a masked file is compared with its original in memory.")
    if options.masked is not None:
        return options.source.load(screen, file, options.masked)
    if options.source.align is not None:
        raise Misuse(
            "--align says which masked record is whose, so it needs two files: the original, then the masked one."
        )
    return Release.as_it_is(load(screen, file, options.source.schema, options.source.read, options.engine))


def _class(name: str) -> type[Measure]:
    known = risk_measures()
    refuse_unknown("measure", known, "the list of risk measures", name)
    return known[name]


def _with_options(cls: type[Measure], facts: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return a measure's parameters with those that have an option of their own; refuse one that it does not have."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in cls.parameters():
            raise Misuse(f"{cls.name} has no parameter {name}, so --{name} would change nothing.")
        if name in facts:
            raise Misuse(f"give --{name} or --set {name}=..., not both.")
    return {**facts, **given}


def _measures(cls: type[Measure], facts: dict[str, Any], columns: list[str] | None, release: Release) -> list[Measure]:
    """Return the measure, or where it looks at one column, one for each that is named: all confidential ones if none is."""
    if "column" in cls.parameters() and "column" not in facts:
        names = columns or release.original.schema.names(role="confidential")
        if not names:
            raise Misuse(f"{cls.name} looks at one column: name it with --column.")
        return [cls.from_dict({**facts, "column": name}) for name in names]
    if not columns:
        return [cls.from_dict(facts)]
    named = [name for name in ("columns", "over") if name in cls.parameters()]
    if not named:
        raise Misuse(f"{cls.name} does not look at single columns, so --column would change nothing.")
    return [cls.from_dict({**facts, named[0]: tuple(columns)})]
