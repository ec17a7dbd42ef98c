"""`sfumato vault`: bring data sets into a vault, choose cutpoints, and freeze them."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.handling import Misuse
from sfumato.cli.load import load, load_guessed, refuse_absent
from sfumato.cli.options import OUTPUT, READING, Engine, Json, Read
from sfumato.cli.screen import Screen

if TYPE_CHECKING:
    from sfumato.mas.vault import Vault

Folder = Annotated[Path, typer.Argument(metavar="VAULT", help="The folder of the vault.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the data set: a plain word, such as cps.")]


def open_vault(folder: Path) -> Vault:
    """Open a vault that is there."""
    from sfumato.mas.vault import Vault

    return Vault.open(folder)


def add(
    vault: Folder,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The confidential records: CSV, Parquet, Stata, ...")],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="What the columns mean: TOML as `sfumato schema` writes it, or a DDI-Codebook (.xml).",
            rich_help_panel=READING,
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="A title that users see.")] = "",
    identity: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that tells records apart in every version.")
    ] = None,
    known: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Variables that others may know of a person, with commas between; the schema's keys if not given.",
        ),
    ] = None,
    recodes: Annotated[Path | None, typer.Option(help=r"Groups of levels: \[\[recode]] tables in TOML.")] = None,
    policy: Annotated[
        str, typer.Option(help="For a new vault: census2009, hardened, strict, or a TOML file.")
    ] = "hardened",
    read: Read = None,
    engine: Engine = "memory",
    as_json: Json = False,
) -> None:
    """Bring a data set into a vault, and see what has to be decided before it is frozen.

    The vault is made if it is not there. It keeps a copy of the records that only its owner can read, until they are frozen.
    """
    from sfumato.mas.recode import Recode
    from sfumato.mas.registration import described_by
    from sfumato.mas.vault import Vault

    screen = Screen(as_json)
    if schema is not None:
        refuse_absent(schema)
    groups = Recode.read(recodes) if recodes is not None else ()
    ddi = schema is not None and schema.suffix.lower() == ".xml"
    described, said = described_by(schema, lambda: load_guessed(file, read).schema.names()) if ddi else (None, "")
    data = load(screen, file, None if ddi else schema, read, engine, described)
    listed = [n.strip() for n in known.split(",") if n.strip()] if known is not None else None
    new = not (vault / "secret.toml").is_file()
    opened = Vault.create(vault, policy) if new else Vault.open(vault)
    try:
        made = opened.add(name, data, title=title or said, identity=identity, known=listed, recodes=groups)
    except BaseException:
        if new:  # an error leaves nothing behind
            shutil.rmtree(vault)
        raise
    screen.say(f"{name}: {len(made.data):,} records are in {vault}, and not yet frozen.", strong=True)
    screen.say()
    screen.table(("column", "taken as"), list(made.marks.items()))
    screen.say()
    screen.say(
        "Drops and noise hang on what others may know: correct this where it is wrong, and add the data set again."
    )
    for question in made.questions():
        screen.say(f"Asked: {question}")
    if made.cutpoints:
        screen.say(f"With the cutpoints that were chosen before: {', '.join(made.cutpoints)}.")
    if made.without_levels:
        screen.say(f"Without cutpoints, and so not for universes: {', '.join(made.without_levels)}.")
        screen.say(f"Next: sfumato vault cutpoints {vault} {name} {shlex.quote(made.without_levels[0])}")
    confirm = " --confirm" if made.questions() else ""
    screen.say(f"{'Then' if made.without_levels else 'Next'}: sfumato vault freeze {vault} {name}{confirm}")
    screen.answer({
        "name": name, "records": len(made.data), "marks": made.marks, "questions": made.questions(),
        "dependent": [pair.to_dict() for pair in made.dependent], "cutpoints": list(made.cutpoints),
        "without_cutpoints": list(made.without_levels),
    })  # fmt: skip


def cutpoints(
    vault: Folder,
    name: Name,
    variable: Annotated[str, typer.Argument(metavar="VARIABLE", help="A variable of numbers.")],
    strategy: Annotated[
        str | None,
        typer.Option(
            help="Choose one: fixed, minimum, increasing, partitioned or hybrid. Without it nothing is chosen."
        ),
    ] = None,
    edges: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Choose your own: the last value of every bin but the last, with commas between: 29,39,64.",
        ),
    ] = None,
    d: Annotated[int, typer.Option("--least", help="Fewest records in each bin.", min=1)] = 75,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw histogram and cutpoints (.svg or .png): confidential.", rich_help_panel=OUTPUT),
    ] = None,
    as_json: Json = False,
) -> None:
    """See what each strategy makes of a variable, and choose one, or edges of your own. What is shown is confidential."""
    from sfumato.cli.drawing import check_chart, save_chart

    screen = Screen(as_json)
    check_chart(chart, False)
    if strategy is not None and edges is not None:
        raise Misuse("give --strategy or --edges, not both.")
    opened = open_vault(vault)
    own = None if edges is None else opened.registration(name).preview(variable, d).own(_numbers(edges))
    shown = opened.cutpoints(name, variable, own or strategy, d)
    chosen = None if strategy is None and own is None else shown.chosen
    screen.set_lines(str(shown))
    if chart is not None:
        save_chart(shown.chart(), chart)
        screen.say(f"Wrote {chart}.")
    screen.say()
    if chosen is None:
        screen.say(f"Choose one: sfumato vault cutpoints {vault} {name} {shlex.quote(variable)} --strategy hybrid")
    else:
        screen.say(f"Chosen: {chosen}. Next, when all are chosen: sfumato vault freeze {vault} {name}")
    bins = len(shown.choose(shown.chosen).labels)
    if (form := opened.policy_of(name).rule("universe_form")) is not None and bins > (
        most := getattr(form, "levels", bins)
    ):
        screen.note(
            f"a universe may select {most} levels of a variable, and this has {bins}. For fewer and wider ones: a larger "
            "--least, or a recode."
        )
    frame = shown.frame
    screen.answer({
        "variable": variable, "least": d, "chosen": chosen, "strategies": frame.to_dict("records"),
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
        bool, typer.Option("--confirm", help="The questions that `vault add` asked are read, and it stays so.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Freeze a data set as the next version of its name, and remove the copy of the records as they came.

    From then on it does not change, and can be asked: sfumato ask.
    """
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
    screen.say(f"Next: sfumato ask {vault} {name}")
    screen.answer(frozen.describe())
