"""What the commands print: answers on stdout, notes and progress on stderr; never a record's value."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.contract.score import digits, number
from sfumato.errors import visible
from sfumato.version import VERSION

Tell = Callable[[str, int, int], None]
"""Progress: a stage in words, how much of it is done, and of how much (0 if that is not known)."""

_EVERY = 5.0  # seconds between progress lines where there is no terminal
_UNSEEN = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""What JSON leaves as it is, and a terminal does not."""


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
    """Return a cell for people: numbers with four digits, ∞ and – where there is none."""
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
