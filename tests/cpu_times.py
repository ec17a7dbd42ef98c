"""CPU seconds of every test, its child processes included: `pytest --cpu-times FILE` adds a line for each; `sort -rn FILE`.

Wall time depends on what else the machine does; CPU seconds do not. A child that is still alive (Spark's Java, a server that
forks) counts too, and so do fixtures: a shared one is charged to the test that asks for it first.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
_WORTH_A_LOOK = 0.05
"""Seconds: no test starts a process in less, and looking at all processes takes 2 ms."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", help="add a line with its CPU seconds to FILE for every test")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--cpu-times")
    if path:
        config.pluginmanager.register(_Clock(Path(path)))


class _Clock:
    """Reads the CPU time of this process and its descendants after every test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._living = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        start, before, living = perf_counter(), _ended_seconds(), self._living
        result = yield
        if perf_counter() - start > _WORTH_A_LOOK:
            self._living = _living_seconds()
        # a child that is waited for moves from living to ended; one that nobody waits for is lost
        seconds = max(_ended_seconds() - before + self._living - living, 0.0)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{seconds:.3f}\t{item.nodeid}\n")
        return result


def _ended_seconds() -> float:
    """Return the user and system seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _living_seconds() -> float:
    """Return the user and system seconds of this process's living descendants, from Linux's /proc."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process may end while we look
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            process = int(entry.parent.name)
            parents[process], seconds[process] = int(fields[1]), sum(map(int, fields[11:15])) / _TICKS
    family, grown = {os.getpid()}, True
    while grown:
        children = {process for process, parent in parents.items() if parent in family} - family
        family |= children
        grown = bool(children)
    return sum(seconds[process] for process in family - {os.getpid()})
