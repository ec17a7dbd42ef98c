"""`sfumato vault log`: the custodian's look at what was asked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.handling import Misuse
from sfumato.cli.options import Json
from sfumato.cli.screen import Screen
from sfumato.cli.vault import Folder, open_vault

if TYPE_CHECKING:
    from sfumato.mas.log import Entry
    from sfumato.mas.standing import Standing


def log(
    vault: Folder,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="One data set; all of them if not given.")] = None,
    last: Annotated[int, typer.Option(metavar="N", help="How many of the last lines are shown.", min=0)] = 20,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="N:HASH", help="A head that was kept elsewhere: refuse a log that no longer holds that line."
        ),
    ] = None,
    seal: Annotated[
        bool,
        typer.Option(
            "--seal", help="Take the log as it stands: one of an earlier version, or a copy that had to be put back."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """See who asked what, check that the log is whole, and see accounts, the accumulated loss and overlap alerts.

    For the custodian alone: users must not see what others asked.
    """
    screen = Screen(as_json)
    line = None if expect is None else _head(expect)
    opened = open_vault(vault)
    if line is not None:
        opened.ledger.expect(*line)
    if seal:
        opened.ledger.seal()
    entries = list(opened.ledger.entries())
    names = opened.names() if dataset is None else [opened.dataset(dataset).name]
    seq, head = (entries[-1].seq, entries[-1].hash) if entries else opened.ledger.head()
    screen.say(f"The log is whole: {seq:,} lines.", strong=True)
    if line is not None:
        screen.say(f"It holds line {line[0]:,} as it was when you kept its hash.")
    screen.say(f"Its head is {seq}:{head}")
    screen.say(
        "Keep it where nobody who can write to the vault can. Later, --expect with it shows if an older copy is put back."
    )
    shown = [entry for entry in entries if entry.family in (*names, "")][-last:] if last else []
    if shown:
        screen.say()
        rows = [(e.seq, e.moment[:19], e.user, e.content["dataset"], _asked(e), _outcome(e)) for e in shown]
        screen.table(("line", "when (UTC)", "user", "data set", "asked", "what came of it"), rows, numbers=(0,))
    standings = [opened.standing(name) for name in names]
    for standing in standings:
        _show(screen, standing)
    screen.answer({
        "lines": seq, "hash": head, "head": f"{seq}:{head}",
        "log": [{"line": e.seq, "moment": e.moment, "user": e.user, **e.content} for e in shown],
        "datasets": [standing.to_json() for standing in standings],
    })  # fmt: skip


def _head(text: str) -> tuple[int, str]:
    """Return the number and the hash of a line that a text says."""
    seq, _, hashed = text.strip().partition(":")
    if not re.fullmatch(r"\d{1,18}", seq) or not re.fullmatch("[0-9a-f]{64}", hashed):
        raise Misuse(
            "--expect takes a head as `sfumato vault log` prints it: a number, a colon and 64 hexadecimal digits."
        )
    return int(seq), hashed


def _show(screen: Screen, standing: Standing) -> None:
    mine, ours = standing.limits or (None, None)
    screen.say()
    screen.say(f"{standing.dataset}, policy {standing.policy}", strong=True)
    screen.say()
    rows: list[tuple[object, ...]] = [
        (u.user, u.asked, u.refused, u.errors, u.busiest, round(u.spent, 3), mine) for u in standing.users
    ]
    rows.append(("all users", *(sum(column) for column in _columns(standing)), None, round(standing.spent, 3), ours))
    heads = ("user", "asked", "refused", "errors", "most in a minute", "spent on a record", "may spend")
    screen.table(heads, rows, numbers=range(1, 7))
    screen.say()
    if standing.per_minute is not None:
        screen.say(f"A user may ask {standing.per_minute:,} questions in a minute.")
    screen.say(
        f"Accumulated zero-concentrated loss by count tables, of the record it is largest for: {standing.loss:.3g}. "
        "Drops, models, amounts and quantiles are outside it."
    )
    screen.say(f"Overlap alerts: {len(standing.alerts):,}.")
    for alert in standing.alerts:
        screen.say(str(alert))


def _columns(standing: Standing) -> tuple[list[int], list[int], list[int]]:
    users = standing.users
    return [u.asked for u in users], [u.refused for u in users], [u.errors for u in users]


def _asked(entry: Entry) -> str:
    """Return a question in one line."""
    left_out = {"dataset", "universe", "analysis", "policy", "outcome", "rule", "citation", "near", "written"}
    given: dict[str, Any] = {
        k: v for k, v in entry.content.items() if k not in left_out and v not in (None, False, "usual", [])
    }
    words = [
        str(entry.content["analysis"]),
        *(f"{k}={v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}" for k, v in given.items()),
    ]
    universe = json.dumps(entry.content["universe"], ensure_ascii=False)
    return " ".join(words) + ("" if universe == "[]" else f" of {universe}")


def _outcome(entry: Entry) -> str:
    outcome = str(entry.content["outcome"]) + (f" by {entry.content['rule']}" if "rule" in entry.content else "")
    return outcome + (" (alert)" if "near" in entry.content else "")
