"""Errors in one plain sentence, exit codes, and the switch --debug."""

from __future__ import annotations

import os
import select
import sqlite3
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from sfumato.cli.screen import complain
from sfumato.cli.stopping import asked_to_stop, leaving
from sfumato.cli.words import on_command_line
from sfumato.errors import SfumatoError
from sfumato.files import full_disk

FINE, ERROR, USAGE, INFEASIBLE, INTERRUPTED, PIPE = 0, 1, 2, 3, 130, 141

EXIT_CODES = (
    "Exit codes: 0 fine; 1 an error, told in one sentence; 2 the command was written wrongly; "
    "3 the question has an answer, and it is that nothing is safe enough (infeasible); 130 stopped with Ctrl-C."
)


class Misuse(SfumatoError):  # noqa: N818 - the command was written wrongly
    """Something is missing from the command, or stands where it cannot; the exit code is 2."""


class Commands(TyperGroup):
    """The group of all commands: whatever goes wrong inside one is told here, without a record's value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take --debug wherever it stands."""
        own = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:own]:
            args = ["--debug", *(a for i, a in enumerate(args) if i >= own or a != "--debug")]
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Read what stands before the command's name."""
        try:
            return super().make_context(*args, **more)
        except typer.TyperException as error:
            _misused(error)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                leaving()
                sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except typer.TyperException as error:
            _misused(error)
        except BrokenPipeError as error:
            if not _reader_left():  # another pipe broke, such as that to a cluster
                _fail(error, debug=bool(ctx.params.get("debug")))
            # whoever read our output has left; Python must not complain when it closes stdout
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE) from None
        except KeyboardInterrupt:
            _stopped(asked_to_stop() or INTERRUPTED)
        except Exception as error:
            if (code := asked_to_stop()) is not None:  # a library's own error, in place of what the signal raised
                _stopped(code)
            _fail(error, debug=bool(ctx.params.get("debug")))


def _reader_left() -> bool:
    """Whether nobody reads our output, or our notes, any more: a pager was closed, `head` has seen enough."""
    if not hasattr(select, "poll"):
        return True
    for stream in (sys.stdout, sys.stderr):
        try:
            asked = select.poll()
            asked.register(stream.fileno(), 0)
            if any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in asked.poll(0)):
                return True
        except (OSError, ValueError):  # it has no number, or is closed
            continue
    return False


def _stopped(code: int) -> NoReturn:
    if code == INTERRUPTED:
        complain("sfumato: stopped.")
    raise typer.Exit(code) from None


def _misused(error: typer.TyperException) -> NoReturn:
    """Tell in one sentence what is wrong with the command; typer's own boxes do not fit every screen."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error  # the help has been shown
    said = error.format_message().replace("Value error, ", "")
    said += "" if said.endswith((".", "?")) else "."
    where = context.command_path if context is not None else "sfumato"
    complain(f"sfumato: {said[:1].lower()}{said[1:]} See {where} -h")
    raise typer.Exit(USAGE) from None


def _fail(error: Exception, debug: bool) -> NoReturn:
    if debug:
        complain("The last line below may quote data: read it before you send it to anyone.")
        complain("".join(traceback.format_exception(error)).rstrip())  # no local variables: they hold records
    complain(f"sfumato: {sentence(error, debug)}")
    raise typer.Exit(USAGE if isinstance(error, Misuse) else ERROR) from None


def sentence(error: Exception, debug: bool = False) -> str:
    """Return what went wrong, in words that quote no data."""
    if isinstance(error, SfumatoError):
        return on_command_line(" ".join(str(error).split()))
    folder = Path(getattr(error, "filename", None) or tempfile.gettempdir())
    if isinstance(error, OSError | sqlite3.Error) and (full := full_disk(error, folder)) is not None:
        return str(full)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"the operating system refused: {error.strerror.lower()}{where}."
    if isinstance(error, MemoryError):
        return "the memory of this machine does not suffice. Try --engine duckdb where there is one, or fewer columns."
    more = "" if debug else " Run the same command with --debug to see where."
    return f"an unexpected {type(error).__name__}: a mistake in sfumato, not in your command.{more}"
