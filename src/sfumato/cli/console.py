"""Output and end of the commands: answers, notes, progress, errors in one sentence, exit codes, stopping."""

from __future__ import annotations

import json
import math
import os
import re
import select
import shlex
import signal
import sqlite3
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup

from sfumato.contract.score import digits, number
from sfumato.errors import SfumatoError, visible
from sfumato.files import full_disk
from sfumato.version import VERSION

_OPTIONS = (
    ("Release.of(original, masked, align=...)", "--align"),
    ("Release.of(original, released, align=...)", "--align"),
    ("Snooper(keys=...)", "--keys"),
    ("Snooper(population=...)", "--population"),
    ("Snooper(precision=...)", "--precision"),
    ("(fraction)", "(--fraction)"),
    ("fraction=...", "--fraction"),
    ("missing = 'value'", "--missing value"),
    ("mean 'not shown' (marks)", "mean 'not shown' (--mark)"),
    ("(say within how much of the true one they are)", "(--within says how far off they may be)"),
    ("(say that absent rows are suppressed)", "(--absent suppressed)"),
    ("leave the column of marks out", "leave the column of marks out of the file"),
    ("(missing='leave out')", "(--leave-out-missing)"),
    ("read the file with decimal=','.", "read the file with --read 'decimal=,'."),
    ("(size=...)", "(--size)"),
    ("(per_size=...)", "(--per-size)"),
    ("Say where the .rda file is (metadata)", "Say where the .rda file is (--schema)"),
    ("(decimals=...)", "(--decimals)"),
    ("margins='compute'", "--margins compute"),
    ("say nonnegative=False", "say --negative"),
    ("(dimensions=...)", "(--dimensions)"),
    ("(top=...)", "(--top)"),
    ("(value=...)", "(--value)"),
    ("(count=...)", "(--count)"),
    ("Table.of(..., contributor=...)", "--contributor"),
    ("Table.of(..., request=...)", "--request"),
    ("as a table of their own (a list of frames)", "as a table of their own, in a file of its own"),
    ("top, count and contributors", "--top, --count and --contributors"),
    ("Make one with Vault.create, or with sfumato vault add.", "Make one with sfumato vault add."),
    ("vault.ledger.seal(), or sfumato vault log", "sfumato vault log"),
    ("or lower d.", "or lower --least."),
    ("name it as identity.", "name it with --identity."),
)
_PATTERNS = (
    (re.compile(r"dimensions=\{'([^']*)': \.\.\.\}"), r"--hierarchy '\1=FILE'"),
    (re.compile(r"total=\{'([^']*)': '([^']*)'\}"), r"--total '\1=\2'"),
    (re.compile(r"total=\{'([^']*)': None\}"), r"--total '\1=none'"),
    (re.compile(r"\(value='([^']*)'\)"), r"(--value '\1')"),
    (re.compile(r"\b(sizes|variances)='(\w+)'"), r"--set \1=\2"),
)


def on_command_line(text: str) -> str:
    """Return a sentence of the library with the options that do what it advises.

    >>> on_command_line("Name fewer keys with Snooper(keys=...).")
    'Name fewer keys with --keys.'
    """
    for said, option in _OPTIONS:
        text = text.replace(said, option)
    for pattern, option in _PATTERNS:
        text = pattern.sub(option, text)
    return text


def quoted(*words: object) -> str:
    """Return a command, or a part of one, that can be copied to a shell: names with spaces stand in quotes.

    >>> quoted("sfumato", "schema", Path("my data.csv"))
    "sfumato schema 'my data.csv'"
    """
    return shlex.join(map(str, words))


# Ctrl-C and a polite kill: the command is left by an exception, so that half-written folders are removed on the way.
#
# An exception that a signal raises can be lost. Inside a finaliser or a weak reference's callback Python prints it and goes on
# (it is not printed here, and raised again at once); a library may swallow it (it is raised again every few seconds, until
# the command is being left), or raise an error of its own in its place, as DuckDB does: `asked_to_stop` then says that the command
# was stopped, and did not fail.


_AGAIN = 5.0
"""Seconds until it is raised again where a library swallowed it; tidying up takes less."""

_AT_ONCE = 0.01
"""Seconds until it is raised again where Python itself says that it was lost."""


_asked: list[int] = []
"""The signal that asked the command to stop, if one did."""


def asked_to_stop() -> int | None:
    """Return the exit code of a command that was asked to stop: 130 after Ctrl-C, 143 after a polite kill; None if it was not."""
    return 128 + _asked[0] if _asked else None


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGINT stop what runs inside."""
    _asked.clear()
    signal.signal(signal.SIGTERM, _handler(lambda: SystemExit(128 + signal.SIGTERM)))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored where the shell says so
        signal.signal(signal.SIGINT, _handler(KeyboardInterrupt))
    told, sys.unraisablehook = sys.unraisablehook, _lost
    try:
        yield
    except KeyboardInterrupt:  # raised where no command was running any more
        sys.exit(128 + signal.SIGINT)
    finally:
        leaving()
        _asked.clear()
        sys.unraisablehook = told


def leaving() -> None:
    """Say that the command is being left: nothing is raised again."""
    _raise_again(0)


def _handler(error: Callable[[], BaseException]) -> Callable[[int, Any], None]:
    def stop(number: int, frame: FrameType | None) -> None:
        if not _asked:  # later it comes as an alarm
            _asked.append(number)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, stop)
            if _inside(frame, _lost):  # a busy machine is not through with it yet: raised there, it would be printed
                _raise_again(_AT_ONCE)
                return
        _raise_again(_AGAIN)
        if (
            engine := sys.modules.get("sfumato.data.duckdb_engine")
        ) is not None:  # nothing to stop where it was not loaded
            engine.interrupt_queries()
        raise error()

    return stop


def _inside(frame: FrameType | None, function: Callable[..., None]) -> bool:
    code = function.__code__
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _lost(unraisable: Any) -> None:
    """Python's word that an exception came to nothing; ours comes again, and the person at the screen need not know."""
    # without a handler the alarm would kill
    stopped = hasattr(signal, "SIGALRM") and callable(signal.getsignal(signal.SIGALRM))
    if stopped and isinstance(unraisable.exc_value, SystemExit | KeyboardInterrupt):
        _raise_again(_AT_ONCE)
    else:
        sys.__unraisablehook__(unraisable)


def _raise_again(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


FINE, ERROR, USAGE, INFEASIBLE, INTERRUPTED, PIPE = 0, 1, 2, 3, 130, 141

EXIT_CODES = (
    "Exit codes: 0 fine; 1 an error, explained in one sentence; 2 a mistake in the command; "
    "3 the answer is that nothing is safe enough (infeasible); 130 stopped with Ctrl-C."
)


class Misuse(SfumatoError):  # noqa: N818 - the command was written wrongly
    """Something is missing from the command, or stands where it cannot; the exit code is 2."""


class PlainHelp:
    """A command, or a group of commands, whose help says in words what an option takes."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments: FILE, TEXT and NUMBER in place of types, and nothing for a flag."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if isinstance(parameter, TyperArgument):
                parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]
            elif parameter.metavar is None:
                kind = re.sub(r"^<(?:list\[)?(.*?)( range)?\]?>$", r"\1", parameter.display_type(ctx))
                parameter.metavar = _TAKES.get(kind, kind)
        return parameters


_TAKES = {"bool": "", "str": "TEXT", "path": "FILE", "Path": "FILE", "int": "NUMBER", "float": "NUMBER"}


class PlainCommand(PlainHelp, TyperCommand):
    """One command."""


class PlainGroup(PlainHelp, TyperGroup):
    """A group of commands."""


class Commands(PlainGroup):
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


Tell = Callable[[str, int, int], None]
"""Progress: a stage in words, how much of it is done, and of how much (0 if that is not known)."""

_EVERY = 5.0  # seconds between progress lines where there is no terminal
_UNSEEN = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that JSON leaves as they are, and a terminal does not."""


class Screen:
    """Where one command prints. With `as_json`, stdout gets one JSON document and nothing else."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def say(self, text: str = "", strong: bool = False) -> None:
        """Print a sentence of the answer."""
        if not self.as_json:
            _print(self._out, text, "bold" if strong else "")

    def note(self, text: str) -> None:
        """Print a remark that is not part of the answer."""
        _print(self._err, f"note: {text}", "dim")

    def set_lines(self, text: str) -> None:
        """Print lines that are set already: nothing is wrapped."""
        if not self.as_json:
            print(visible(text))

    def table(
        self, heads: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[int] = (), indent: int = 0
    ) -> None:
        """Print a table; the columns at the positions `numbers` are set flush right. Nothing is ever cut off."""
        if self.as_json:
            return
        heads, cells = _lines(heads, rows)
        if self._out.is_terminal:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for i, head in enumerate(heads):
                table.add_column(Text(head), justify="right" if i in numbers else "left", overflow="fold")
            for line in cells:
                table.add_row(*map(Text, line))
            self._out.print(Padding(table, (0, 0, 0, indent)))
        else:
            print("\n".join(" " * indent + line for line in plain_table(heads, cells, numbers)))

    def described(
        self, heads: Sequence[str], rows: Sequence[Sequence[object]], words: Sequence[str], numbers: Sequence[int] = ()
    ) -> None:
        """Print a table with a sentence about each row below it, as wide as the screen."""
        if self.as_json:
            return
        heads, cells = _lines(heads, rows)
        head, rule, *lines = plain_table(heads, cells, numbers)
        room = self._out.width - 4 if self._out.is_terminal else sys.maxsize
        _print(self._out, head, "bold")
        _print(self._out, rule, "")
        for line, sentence in zip(lines, words, strict=True):
            _print(self._out, line, "")
            for part in textwrap.wrap(sentence, max(room, 20)):
                _print(self._out, f"    {part}", "dim")

    def answer(self, document: Mapping[str, Any]) -> None:
        """Print the JSON document, where one was asked for."""
        if self.as_json:
            wide = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
            full = {"sfumato": VERSION, **document}
            text = json.dumps(clean(full), ensure_ascii=not wide, allow_nan=False, indent=2)
            print(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))  # the same document, to a machine

    @contextmanager
    def progress(self) -> Iterator[Tell]:
        """Give a function to tell progress to: bars on a terminal, a plain line now and then elsewhere."""
        if not self._err.is_terminal or self._err.is_dumb_terminal:
            yield _plain_progress()
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = [TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[count]")]
        task: Any = None
        stage_now = ""
        with Progress(
            columns[0],
            BarColumn(),
            columns[1],
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bars:

            def tell(stage: str, done: int, total: int) -> None:
                nonlocal task, stage_now
                stage = visible(stage)
                count = f"{done:,} of {total:,}" if total else ""
                if stage != stage_now:
                    if task is not None:
                        bars.remove_task(task)
                    task, stage_now = bars.add_task(stage, total=total or None, count=count), stage
                bars.update(task, completed=done, total=total or None, count=count)

            yield tell


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=False)


def _print(console: Console, text: str, style: str) -> None:
    if console.is_terminal:
        console.print(Text(visible(text), style=style))
    else:
        print(visible(text), file=console.file)


def complain(text: str) -> None:
    """Print what went wrong on stderr, in one line or several."""
    print(visible(text), file=sys.stderr)


def _plain_progress() -> Tell:
    stage_now, said_at = "", 0.0

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal stage_now, said_at
        stage = visible(stage)
        if stage != stage_now:
            print(f"{stage} ...", file=sys.stderr, flush=True)
        elif total and done < total and time.monotonic() - said_at > _EVERY:
            print(f"{stage}: {done:,} of {total:,}", file=sys.stderr, flush=True)
        else:
            return
        stage_now, said_at = stage, time.monotonic()

    return tell


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table without control characters, each column as wide as its widest cell.

    >>> plain_table(("column", "n"), (("age", "1"), ("zip", "20")), (1,))
    ['column   n', '------  --', 'age      1', 'zip     20']
    """
    lines = [list(heads), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(heads))]
    lines.insert(1, ["-" * width for width in widths])

    def padded(cell: str, i: int) -> str:
        gap = " " * (widths[i] - cell_len(cell))
        return gap + cell if i in numbers else cell + gap

    return ["  ".join(padded(cell, i) for i, cell in enumerate(line)).rstrip() for line in lines]


def _lines(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[list[str], list[list[str]]]:
    """Return a table's texts as they are shown: one line each, and no control character."""
    return [_one_line(visible(h)) for h in heads], [[_one_line(visible(shown(cell))) for cell in row] for row in rows]


def _one_line(cell: str) -> str:
    return " ".join(cell.split()) if "\n" in cell else cell


def shown(value: object) -> str:
    """Return a cell for people: numbers with four digits, ∞ and – where there is none.

    >>> shown(12_345.6), shown(0.04), shown(2.1e-13), shown(None)
    ('12,350', '0.04', '2.1 × 10⁻¹³', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return digits(value, 4)
    return f"{value:,}" if isinstance(value, int) else str(value)


def percent(share: float) -> str:
    """Return a share in words: "88 %", "0.12 %".

    >>> percent(0.8756), percent(0.00123), percent(0.0)
    ('88 %', '0.12 %', '0 %')
    """
    value = 100 * share
    if not math.isfinite(value):
        return shown(value)
    return f"{value:.0f} %" if value == 0 or abs(value) >= 9.95 else f"{value:.2g} %"


def clean(value: Any) -> Any:
    """Return what JSON can hold: infinities as text, NaN as null, NumPy numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [clean(v) for v in value]
    if isinstance(value, Enum):
        return clean(value.value)
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str | bool | int | float) and hasattr(value, "item"):
        value = value.item()
    return number(value) if isinstance(value, float) else value
