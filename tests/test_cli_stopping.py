"""A command that is told to stop is left, even if the first exception is lost in a library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from commands import run

from sfumato.cli import console as stopping
from sfumato.data.duckdb_engine import plain_words

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")


@pytest.fixture(autouse=True)
def handlers() -> object:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    stopping._asked.clear()  # else commands of later tests would end as if they had been stopped


def loses_the_first(number: signal.Signals) -> None:
    with stopping.stoppable():
        try:
            signal.raise_signal(number)
        except BaseException:  # as in a finaliser, where Python only prints it
            time.sleep(0.01)
        time.sleep(5)
        raise AssertionError("nothing stopped it")


class Finalised:
    """Its end is where the signal arrives: an exception raised there never reaches the command."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def loses_it_in_a_finaliser(number: signal.Signals) -> None:
    with stopping.stoppable():
        Finalised(number)
        time.sleep(4)  # less than until a swallowed one comes again
        raise AssertionError("nothing stopped it")


def tidies_up(waiting: list[float]) -> None:
    """Note how many seconds it would be until it is raised again: before the command says that it is left, and after."""
    with stopping.stoppable():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            waiting.append(signal.getitimer(signal.ITIMER_REAL)[0])
            stopping.leaving()
            waiting.append(signal.getitimer(signal.ITIMER_REAL)[0])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_exception_that_was_lost_is_raised_again(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(stopping, "_AGAIN", 0.05)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(SystemExit) as left:
        loses_the_first(number)
    assert left.value.code == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_exception_lost_in_a_finaliser_is_raised_again_at_once_and_not_printed(
    capfd: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(SystemExit) as left:
        loses_it_in_a_finaliser(number)
    assert left.value.code == code
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_exception_that_comes_again_while_python_is_still_telling_of_its_loss_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    wait, early = stopping._raise_again, iter([signal.SIGALRM])

    def overtaken(seconds: float) -> None:
        wait(seconds)
        if seconds == stopping._AT_ONCE:
            for alarm in early:
                signal.raise_signal(alarm)

    monkeypatch.setattr(stopping, "_raise_again", overtaken)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(SystemExit) as left:
        loses_it_in_a_finaliser(number)
    assert left.value.code == code
    assert capfd.readouterr().err == ""


def test_any_other_exception_that_python_ignores_is_told_as_ever(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("a fault of a library")

    with stopping.stoppable():
        Broken()
    assert "a fault of a library" in capfd.readouterr().err


def test_nothing_is_raised_again_once_the_command_is_being_left() -> None:
    waiting: list[float] = []
    with pytest.raises(SystemExit):
        tidies_up(waiting)
    assert waiting[0] > 0
    assert waiting[1] == 0


@pytest.mark.parametrize("args", [("schema", "data.csv"), ("schema", "data.csv", "--json"), ("--help",)])
def test_a_closed_pager_ends_a_command_without_a_word(tmp_path: Path, args: tuple[str, ...]) -> None:
    (tmp_path / "data.csv").write_text("age,sex\n" + "30,1\n41,2\n" * 20)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "sfumato", *args]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, cwd=tmp_path)
    os.close(writing)
    assert done.returncode in (1, 141)  # 1 is typer's own, for its help
    assert done.stderr == b""


def test_a_pipe_that_breaks_elsewhere_is_an_error_and_not_silence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    (tmp_path / "data.csv").write_text("age,sex\n30,1\n41,2\n")
    monkeypatch.setattr("sfumato.data.microdata.Microdata.read", broken)
    done = run("schema", tmp_path / "data.csv")
    assert done.exit_code == 1
    assert "the operating system refused: broken pipe" in done.stderr


_LONG = """
import os, signal, sys, threading
import typer
from sfumato.cli.console import Commands, stoppable
from sfumato.data.duckdb_engine import DuckDBEngine, connect

app = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

@app.command("long")
def long() -> None:
    relation = connect().sql("SELECT sum(hash(range)) AS s FROM range(100000000000)")
    print("ready", flush=True)
    threading.Timer(0.3, os.kill, (os.getpid(), int(sys.argv[1]))).start()
    DuckDBEngine(relation).{does}

@app.callback()
def options() -> None:
    pass

with stoppable():
    app(["long"])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("does", ["count()", "collect(['s'])", "native().fetchall()"])
def test_a_command_that_is_stopped_in_the_middle_of_a_duckdb_query_leaves_as_any_other(
    number: signal.Signals, code: int, does: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LONG.replace("{does}", does), str(int(number))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ("sfumato: stopped.\n" if number is signal.SIGINT else "")


def test_who_interrupts_a_duckdb_query_in_python_gets_a_keyboard_interrupt() -> None:
    for error in (RuntimeError("Query interrupted"), duckdb.InterruptException("INTERRUPT Error: Interrupted!")):
        with pytest.raises(KeyboardInterrupt), plain_words():
            raise error
