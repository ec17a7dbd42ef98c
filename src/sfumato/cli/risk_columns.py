"""What a snooper learns of single columns: the table of `sfumato risk --measure attribute_risk`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato.cli.screen import Screen, percent, shown
from sfumato.errors import DataError, NotApplicable

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release, Score, Snooper


def show_columns(
    screen: Screen, release: Release, cls: type[Measure], facts: dict[str, Any], columns: list[str], snooper: Snooper
) -> None:
    """Score columns one by one, and print the one that is known best first."""
    scores, refused = _scores(release, cls, facts, columns, snooper)
    _show(screen, release, snooper, scores, refused)


def _scores(
    release: Release, cls: type[Measure], facts: dict[str, Any], columns: list[str], snooper: Snooper
) -> tuple[list[tuple[str, Score, float]], dict[str, str]]:
    """Return (column, score, error / standard deviation), the worst first, and why columns were left out."""
    from sfumato.engines import Kind

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


def _show(
    screen: Screen,
    release: Release,
    snooper: Snooper,
    scores: list[tuple[str, Score, float]],
    refused: dict[str, str],
) -> None:
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
