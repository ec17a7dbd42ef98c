"""The page that `sfumato risk FILE` prints, and the score of one measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.cli.screen import Screen, percent, shown
from sfumato.cli.words import on_command_line
from sfumato.errors import NotApplicable, some

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release, Score, Snooper
    from sfumato.risk.profile import RiskProfile


def show_page(screen: Screen, profile: RiskProfile, riskiest: int, by: str | None) -> None:
    """Print the verdict, then every measure, then where the risk comes from."""
    first, *rest = map(on_command_line, profile.verdict)
    screen.say(first, strong=True)
    for sentence in rest:
        screen.say(sentence)
    screen.say()
    screen.say(f"The snooper {profile.snooper.looks_by(profile.keys)}. {some(len(profile.outcome.masked))}.")
    screen.say()
    rows = [(s.measure, s.value, _interval(s)) for s in profile.scores]
    words = [_short(s.words, profile.keys) for s in profile.scores]
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
    screen.say(f"The snooper {knows}. {some(len(release.masked))}.")
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
    from sfumato.risk.keys import key_names

    if all("missing" in measure.parameters() for measure in measures):
        return snooper.looks_by(key_names(release, snooper))
    return snooper.describe()


def _short(words: str, keys: Sequence[str]) -> str:
    """Return the words without the list of keys, which stands above the table."""
    return words.replace(", ".join(keys), "the keys") if len(keys) > 2 else words


def _interval(score: Score) -> str:
    if score.interval is None or not math.isfinite(score.value):
        return "–"
    return f"{shown(score.interval[0])} to {shown(score.interval[1])}"
