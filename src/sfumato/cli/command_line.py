"""The commands, grouped, and the entry point."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from sfumato.cli import vault
from sfumato.cli.ask import ask
from sfumato.cli.attack import attack
from sfumato.cli.audit import audit
from sfumato.cli.console import EXIT_CODES, Commands, stoppable
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
from sfumato.cli.vault import log
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
_PANELS = (
    ("Start here", (("demo", demo), ("schema", schema))),
    ("Protect", (("mask", mask), ("table", table))),
    (
        "Measure and decide",
        (
            ("risk", risk),
            ("utility", utility),
            ("map", map_),
            ("table-map", table_map),
            ("search", search_),
            ("report", report),
            ("audit", audit),
        ),
    ),
    ("Analysis system", (("ask", ask), ("attack", attack))),
    ("About", (("papers", papers),)),
)
_VAULT: tuple[tuple[str, Callable[..., None]], ...] = (
    ("add", vault.add),
    ("cutpoints", vault.cutpoints),
    ("freeze", vault.freeze),
    ("log", log),
)


def _words(function: Callable[..., None]) -> str:
    """Return a docstring with each paragraph on one line, so that a terminal of any width can set it."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _panel, _commands in _PANELS:
    for _name, _function in _commands:
        app.command(_name, help=_words(_function), rich_help_panel=_panel, epilog=EXIT_CODES)(_function)
_vault = typer.Typer(no_args_is_help=True, epilog=EXIT_CODES)
for _step, _does in _VAULT:
    _vault.command(_step, help=_words(_does), epilog=EXIT_CODES)(_does)
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
