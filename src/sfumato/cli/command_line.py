"""The commands, grouped, and the entry point."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from sfumato.cli.ask import ask
from sfumato.cli.attack import attack
from sfumato.cli.audit import audit
from sfumato.cli.console import EXIT_CODES, Commands, PlainCommand, PlainGroup, stoppable
from sfumato.cli.demo import demo
from sfumato.cli.map import map_
from sfumato.cli.mask import mask
from sfumato.cli.papers import papers
from sfumato.cli.report import report
from sfumato.cli.risk import risk
from sfumato.cli.schema import schema
from sfumato.cli.search import search_
from sfumato.cli.table import table
from sfumato.cli.table_map import table_map
from sfumato.cli.utility import utility
from sfumato.cli.vault import add, cutpoints, freeze, log, shelf
from sfumato.version import VERSION

app = typer.Typer(
    name="sfumato",
    cls=Commands,
    help="Statistical disclosure control: mask microdata, measure what a snooper learns and what an analyst keeps.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # and its local variables would show records
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Start here": {"demo": demo, "schema": schema},
    "Protect": {"mask": mask, "table": table},
    "Measure and decide": {
        "risk": risk, "utility": utility, "map": map_, "table-map": table_map, "search": search_, "report": report,
        "audit": audit,
    },
    "Analysis system": {"ask": ask, "attack": attack},
    "About": {"papers": papers},
}  # fmt: skip


def _add(group: typer.Typer, name: str, command: Callable[..., None], panel: str | None = None) -> None:
    """Add a command; each paragraph of its docstring becomes one line, so that a terminal of any width can set it."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    group.command(name, cls=PlainCommand, help=text, rich_help_panel=panel, epilog=EXIT_CODES)(command)


for _panel, _commands in _PANELS.items():
    for _name, _command in _commands.items():
        _add(app, _name, _command, _panel)
_vault = typer.Typer(cls=PlainGroup, no_args_is_help=True, epilog=EXIT_CODES)
_STEPS: dict[str, Callable[..., None]] = {
    "add": add, "cutpoints": cutpoints, "freeze": freeze, "shelf": shelf, "log": log,
}  # fmt: skip
for _name, _command in _STEPS.items():
    _add(_vault, _name, _command)
app.add_typer(
    _vault,
    name="vault",
    rich_help_panel="Analysis system",
    help="Bring data sets into a vault that answers questions about them, and see what was asked.",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"sfumato {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and stop.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error came from; may stand anywhere in the command.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""
    if not debug:
        warnings.simplefilter("ignore")  # libraries' own, with lines of code in them


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # λ on a terminal that has no λ
    with stoppable():
        app(prog_name="sfumato")
