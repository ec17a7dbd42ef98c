"""`sfumato vault`: bring data sets into a vault, choose cutpoints, freeze them, and see what was asked."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato import mas
from sfumato.cli.console import Misuse, Screen, quoted
from sfumato.cli.files import check_chart, load, load_guessed, refuse_absent, save_chart
from sfumato.cli.options import (
    Engine,
    Json,
    Read,
    argument,
    expand_options,
    flag,
    option,
    output_field,
    reading_field,
)
from sfumato.cli.parse import names, pair

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata
    from sfumato.mas.ledger import Entry
    from sfumato.mas.usage import UsageReport


Folder = Annotated[Path, typer.Argument(metavar="VAULT", help="The folder of the vault.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the data set: a plain word, such as cps.")]


@dataclass(frozen=True, kw_only=True)
class VaultLogOptions:
    """The options of `sfumato vault log`."""

    vault: Folder
    dataset: str | None = option("One data set; all of them if not given.", metavar="NAME")
    last: int = option("How many of the last lines are shown.", default=20, metavar="N", min=0)
    expect: str | None = option(
        "A head that was kept elsewhere: refuse a log that no longer holds that line.", metavar="N:HASH"
    )
    seal: bool = flag("Take the log as it is: one of an earlier version, or a copy that had to be put back.")
    as_json: Json = False


@expand_options
def log(options: VaultLogOptions) -> None:
    """See who asked what, check that the log is whole, and see accounts and overlap alerts.

    For the custodian alone: users must not see what others asked.
    """
    screen, last = Screen(options.as_json), options.last
    line = None if options.expect is None else _head(options.expect)
    opened = open_vault(options.vault)
    if line is not None:
        opened.ledger.expect(*line)
    if options.seal:
        opened.ledger.seal()
    entries = list(opened.ledger.entries())
    names = opened.names() if options.dataset is None else [opened.dataset(options.dataset).name]
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
    usages = [opened.usage(name) for name in names]
    for usage in usages:
        _show(screen, usage)
    screen.answer({
        "lines": seq, "hash": head, "head": f"{seq}:{head}",
        "log": [{"line": e.seq, "moment": e.moment, "user": e.user, **e.content} for e in shown],
        "datasets": [usage.to_json() for usage in usages],
    })  # fmt: skip


def _head(text: str) -> tuple[int, str]:
    """Return the number and the hash of a line that a text says."""
    seq, _, hashed = text.strip().partition(":")
    if not re.fullmatch(r"\d{1,18}", seq) or not re.fullmatch("[0-9a-f]{64}", hashed):
        raise Misuse(
            "--expect takes a head as `sfumato vault log` prints it: a number, a colon and 64 hexadecimal digits."
        )
    return int(seq), hashed


def _show(screen: Screen, usage: UsageReport) -> None:
    mine, ours = usage.limits or (None, None)
    screen.say()
    screen.say(f"{usage.dataset}, policy {usage.policy}", strong=True)
    screen.say()
    rows: list[tuple[object, ...]] = [
        (u.user, u.asked, u.refused, u.errors, u.busiest, round(u.right, 1), mine) for u in usage.users
    ]
    sums = (sum(getattr(u, counted) for u in usage.users) for counted in ("asked", "refused", "errors"))
    rows.append(("all users", *sums, None, round(usage.right, 1), ours))
    heads = ("user", "asked", "refused", "errors", "most in a minute", "right of 100", "limit")
    screen.table(heads, rows, numbers=range(1, 7))
    screen.say()
    if usage.per_minute is not None:
        screen.say(f"A user may ask {usage.per_minute:,} questions in a minute.")
    screen.say(
        "Right of 100: how often whoever knows everything else tells two values of one person apart with all these answers, at "
        f"most. The frozen file alone: {usage.frozen:.1f}."
    )
    screen.say(f"Overlap alerts: {len(usage.alerts):,}.")
    for alert in usage.alerts:
        screen.say(str(alert))


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


def open_vault(folder: Path) -> mas.Vault:
    """Open a vault that is there."""
    return mas.Vault.open(folder)


@dataclass(frozen=True, kw_only=True)
class VaultAddOptions:
    """The options of `sfumato vault add`."""

    vault: Folder
    name: Name
    file: Path = argument("FILE", "The confidential records: CSV, Parquet, Stata, ...", required=True)
    schema: Path | None = reading_field(
        "The meaning of the columns: TOML as `sfumato schema` writes it, or a DDI-Codebook (.xml)."
    )
    title: str = option("A title that users see.", default="")
    identity: str | None = option("The column that tells records apart in every version.", metavar="COLUMN")
    known: str | None = option(
        "Variables that others may know of a person, with commas between; the schema's keys if not given.",
        metavar="COLUMNS",
    )
    bounds: list[str] | None = option(
        "Public bounds of a variable of numbers, once for each: income=0:250000. Otherwise those of the schema, or noisy counts.",
        metavar="VARIABLE=LOW:HIGH",
    )
    keep_rare: bool = flag(
        "Show users the names of levels that fewer than 20 records have, instead of making one level of them."
    )
    complete: str | None = option(
        "Confidential variables without gaps, and with no levels but those of the schema, as everybody may know; all others have a "
        "level 'missing'.",
        metavar="COLUMNS",
    )
    recodes: Path | None = option("Groups of levels: a TOML file with a table for each recode.")
    policy: str = option("For a new vault: census2009, hardened, guaranteed, or a TOML file.", default="hardened")
    read: Read = None
    engine: Engine = "memory"
    as_json: Json = False

    def load(self, screen: Screen) -> tuple[Microdata, str, tuple[mas.LevelRecode, ...]]:
        """Read the records, with the title that a codebook gives them ("" without one), and the groups of levels."""
        from sfumato.mas.registration import described_by

        schema, known, title = self.schema, None, ""
        if schema is not None:
            refuse_absent(schema)
        recodes = mas.LevelRecode.read(self.recodes) if self.recodes is not None else ()
        if schema is not None and schema.suffix.lower() == ".xml":
            known, title = described_by(schema, lambda: load_guessed(self.file, self.read).schema.names())
            schema = None
        return load(screen, self.file, schema, self.read, self.engine, known), title, recodes


@expand_options
def add(options: VaultAddOptions) -> None:
    """Bring a data set into a vault, and see what has to be decided before it is frozen.

    The vault is made if it is not there. It keeps a copy of the records that only its owner can read, until they are frozen.
    """
    screen, vault, name = Screen(options.as_json), options.vault, options.name
    data, title, recodes = options.load(screen)
    known = None if options.known is None else names(options.known)
    new = not (vault / "secret.toml").is_file()
    opened = mas.Vault.create(vault, options.policy) if new else mas.Vault.open(vault)
    try:
        made = opened.add(
            name, data, title=options.title or title, identity=options.identity, known=known, recodes=recodes,
            bounds=_bounds(options.bounds or ()), keep_rare=options.keep_rare,
            complete=() if options.complete is None else names(options.complete),
        )  # fmt: skip
    except BaseException:
        if new:  # an error leaves nothing behind
            shutil.rmtree(vault)
        raise
    screen.say(f"{name}: {len(made.data):,} records are in {vault}, and not yet frozen.", strong=True)
    screen.say()
    screen.table(("column", "taken as"), list(made.marks.items()))
    screen.say()
    screen.say(
        "Drops and noise depend on what others may know: correct this where it is wrong, and add the data set again."
    )
    for note in made.notes():
        screen.say(note)
    for question in made.questions():
        screen.say(f"Asked: {question}")
    if made.cutpoints:
        screen.say(f"With the cutpoints that were chosen before: {', '.join(made.cutpoints)}.")
    if made.without_levels:
        screen.say(f"Without cutpoints, and so not for universes: {', '.join(made.without_levels)}.")
        screen.say(f"Next: {quoted('sfumato', 'vault', 'cutpoints', vault, name, made.without_levels[0])}")
    confirm = " --confirm" if made.questions() else ""
    screen.say(
        f"{'Then' if made.without_levels else 'Next'}: {quoted('sfumato', 'vault', 'freeze', vault, name)}{confirm}"
    )
    screen.answer({
        "name": name, "records": len(made.data), "marks": made.marks, "questions": made.questions(),
        "dependent": [pair.to_dict() for pair in made.dependent], "cutpoints": list(made.cutpoints),
        "without_cutpoints": list(made.without_levels), "without_bounds": list(made.without_bounds),
    })  # fmt: skip


def _bounds(given: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return the bounds that texts say, such as "income=0:250000"."""
    found = {}
    for text in given:
        name, values = pair(text, "--bounds", "income=0:250000")
        try:
            low, high = map(float, values.split(":"))
        except ValueError:
            raise Misuse(
                f"--bounds takes two numbers with a colon between, such as income=0:250000; got '{text}'."
            ) from None
        found[name] = (low, high)
    return found


@dataclass(frozen=True, kw_only=True)
class CutpointOptions:
    """The options of `sfumato vault cutpoints`."""

    vault: Folder
    name: Name
    variable: str = argument("VARIABLE", "A variable of numbers.", required=True)
    strategy: str | None = option(
        "Choose one: fixed, minimum, increasing, partitioned or hybrid. Without it nothing is chosen."
    )
    edges: str | None = option(
        "Choose your own: the last value of every bin but the last, with commas between: 29,39,64.", metavar="NUMBERS"
    )
    least: int = option("Fewest records in each bin.", default=75, min=1)
    exact: bool = flag(
        "Choose from exact counts, though the variable is confidential. No account holds what they tell; the data set says so."
    )
    chart: Path | None = output_field("Draw histogram and cutpoints (.svg or .png): confidential.")
    as_json: Json = False


@expand_options
def cutpoints(options: CutpointOptions) -> None:
    """See what each strategy makes of a variable, and choose one, or edges of your own. What is shown is confidential."""
    screen, vault, name, variable = Screen(options.as_json), options.vault, options.name, options.variable
    strategy, edges, d, chart = options.strategy, options.edges, options.least, options.chart
    check_chart(chart, False)
    if strategy is not None and edges is not None:
        raise Misuse("give --strategy or --edges, not both.")
    opened = open_vault(vault)
    own = None if edges is None else opened.registration(name).preview(variable, d).own(_numbers(edges))
    shown = opened.cutpoints(name, variable, own or strategy, d, exact=options.exact)
    chosen = None if strategy is None and own is None else shown.chosen
    screen.set_lines(str(shown))
    if chart is not None:
        save_chart(shown.chart(), chart)
        screen.say(f"Wrote {chart}.")
    screen.say()
    if chosen is None:
        screen.say(f"Choose one: {quoted('sfumato', 'vault', 'cutpoints', vault, name, variable)} --strategy hybrid")
    else:
        screen.say(f"Chosen: {chosen}. Next, when all are chosen: {quoted('sfumato', 'vault', 'freeze', vault, name)}")
    bins = len(shown.choose(shown.chosen).labels)
    if (form := opened.policy_of(name).rule("universe_form")) is not None and bins > (
        most := getattr(form, "levels", bins)
    ):
        screen.note(
            f"a universe may select {most} levels of a variable, and this has {bins}. For fewer and wider ones: a larger "
            "--least, or a recode."
        )
    screen.answer({
        "variable": variable, "least": d, "chosen": chosen, "strategies": shown.frame().to_dict("records"),
        "bins": list(shown.choose(shown.chosen).labels), "chart": chart,
    })  # fmt: skip


def _numbers(text: str) -> list[float]:
    """Return the numbers that a text lists."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Misuse(f"--edges takes numbers with commas between, such as 29,39,64; got '{text}'.") from None


def freeze(
    vault: Folder,
    name: Name,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Freeze the data set as it is, although `vault add` asked questions.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Freeze a data set as the next version of its name, and remove the copy of the records as they came.

    From then on it does not change, and can be asked: sfumato ask.
    """
    from sfumato.mas.accounts import right_of

    screen = Screen(as_json)
    opened = open_vault(vault)
    frozen = opened.finish_freezing(name)
    if frozen is None:
        waiting = opened.registration(name)
        if waiting.questions() and not confirm:
            raise Misuse(
                f"there are questions about '{name}': {' '.join(waiting.questions())} If it stays so, add --confirm."
            )
        with screen.progress() as tell:
            tell("Preparing the records", 0, 0)
            frozen = opened.freeze(name, confirm=confirm)
    screen.say(f"{frozen.label} is frozen, with {len(frozen.variables)} variables.", strong=True)
    for v in frozen.variables.values():
        if not v.levels:
            screen.note(f"'{v.name}' has no cutpoints: it is for analyses, not for universes.")
    if frozen.frozen_loss:
        screen.say(
            "Bounds, shares and levels that were read off noisy counts let whoever knows everything else tell two values of one "
            f"person apart in at most {100 * right_of(frozen.frozen_loss):.1f} of 100 cases; this is charged to every account."
        )
    screen.say(f"Next: {quoted('sfumato', 'ask', vault, name)}")
    screen.answer({**frozen.describe(), "frozen": 100 * right_of(frozen.frozen_loss)})


@dataclass(frozen=True, kw_only=True)
class ShelfOptions:
    """The options of `sfumato vault shelf`."""

    vault: Folder
    name: Name
    right: float | None = option(
        "Publish: at most so many guesses between two values, of 100, are right with all tables together.",
        metavar="GUESSES",
    )
    tables: str | None = option(
        "The tables, with + between variables and commas between tables: sex,sex+sick; all one- and two-way tables if not given.",
        metavar="TABLES",
    )
    sides: int = option("Most variables of a table, where no tables are given.", default=2, min=1, max=3)
    of: str | None = option("A variable of numbers whose means and sums these tables have, too.", metavar="VARIABLE")
    log: bool = flag("Take the tables that users asked for most often, as the log says.", "--from-log")
    as_json: Json = False


@expand_options
def shelf(options: ShelfOptions) -> None:
    """Publish tables for everybody, once: what they answer is free and unlimited from then on. Without --right, list them."""
    from sfumato.mas.analyses.tables import CrossTab
    from sfumato.mas.shelf import workload

    screen, opened, right = Screen(options.as_json), open_vault(options.vault), options.right
    if options.log and (options.tables is not None or options.of is not None):
        raise Misuse("give --from-log, or --tables and --of, not both.")
    if right is None:
        found = opened.shelf(options.name)
    elif options.log:
        found = opened.shelve(
            options.name, workload(opened.ledger.entries(), opened.dataset(options.name)), right=right
        )
    elif options.tables is None:
        if options.of is not None:
            raise Misuse("--of goes with --tables.")
        found = opened.shelve(options.name, right=right, sides=options.sides)
    else:
        sides = [tuple(name.strip() for name in table.split("+")) for table in names(options.tables)]
        found = opened.shelve(options.name, [CrossTab(some, of=options.of) for some in sides], right=right)
    if found is None:
        screen.say(f"{options.name} has no shelf. Publish one with --right, such as --right 57.")
        screen.answer({"tables": [], "right": None, "loss": 0.0})
        return
    screen.say(f"On the shelf of {options.name}, for everybody and free of charge: {len(found.tables):,}.", strong=True)
    screen.say(
        f"With all of them at most {found.right:g} of 100 guesses between two values of a person are right; every account is "
        f"charged {found.loss:.3g} for them."
    )
    screen.answer({"tables": list(found.tables), "right": found.right, "loss": found.loss})
