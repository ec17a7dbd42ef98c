"""The page that `sfumato risk FILE` prints, and the score of one measure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.cli.screen import Screen, percent, shown

if TYPE_CHECKING:
    from sfumato.contract import Measure, Release, Score, Snooper
    from sfumato.risk.profile import RiskProfile


def show_page(screen: Screen, profile: RiskProfile, riskiest: int, by: str | None) -> None:
    """Print the verdict, then every measure, then where the risk comes from."""
    first, *rest = profile.verdict
    screen.say(first, strong=True)
    for sentence in rest:
        screen.say(sentence)
    screen.say()
    screen.say(f"The snooper {profile.snooper.looks_by(profile.keys)}. {len(profile.outcome.masked):,} records.")
    screen.say()
    rows = [(s.measure, s.value, _interval(s), s.words) for s in profile.scores]
    screen.table(("measure (lower is safer)", "value", "95 % interval", "in words"), rows, (1,))
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
        screen.table(("not applicable", "why"), list(profile.refused.items()))
    screen.answer(answer)


def show_score(screen: Screen, release: Release, snooper: Snooper, measure: Measure) -> None:
    """Print the score of one measure: its words first, then the number and its companions."""
    with screen.progress() as tell:
        tell(measure.label(), 0, 0)
        score = measure.score(release, snooper)
    screen.say(f"{score.words[:1].upper()}{score.words[1:]}.", strong=True)
    screen.say(f"The snooper {snooper.describe()}. {len(release.masked):,} records.")
    screen.say()
    name = f"{score.measure} [{score.variant}]" if score.variant else score.measure
    screen.table(("measure (lower is safer)", "value", "95 % interval"), [(name, score.value, _interval(score))], (1,))
    for head, facts in (("beside it", score.details), ("group", score.groups)):
        if facts:
            screen.say()
            screen.table((head, "value"), list(facts.items()), (1,))
    screen.answer(
        {
            "records": len(release.masked),
            "snooper": {"words": snooper.describe(), **snooper.to_dict()},
            "scores": [{"name": measure.name, "parameters": measure.to_dict(), **score.to_dict()}],
        }
    )


def _interval(score: Score) -> str:
    if score.interval is None or not math.isfinite(score.value):
        return "–"
    return f"{shown(score.interval[0])} to {shown(score.interval[1])}"
