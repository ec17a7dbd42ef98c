"""Do the tests that the papers' rows name notice when the function that the row names is wrong?

    python tests/row_mutants.py                      # mutants of each built row's function; takes an hour
    python tests/row_mutants.py --ids gdr- -n 20     # rows whose id matches an expression, 20 mutants each

A row of `src/sfumato/papers/*.toml` says that a function implements a line of a paper, and names the tests that check it. Each
mutant (tests/mutants.py) changes one place of that function, or of functions of its module that the tests run, and the row's own
tests must fail. Refusals of arguments are left alone: they are no part of a paper. A survivor has no effect, or a row's tests do
not check what the row says: somebody has to read it.

Each attempt is a fork of one process that has collected the tests: it takes as long as the row's tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import gc
import importlib
import inspect
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
LIMIT = 90
"""Seconds for the tests of a row."""
MOST = 60
"""Tests of a row that are run: of a parametrised one with more instances, some from everywhere."""


@dataclass(frozen=True)
class Claim:
    """Rows that name the same function and the same tests."""

    ids: tuple[str, ...]
    by: str
    tests: tuple[str, ...]


def claims(pattern: str) -> list[Claim]:
    """Return the built rows whose id matches a pattern, joined where function and tests are the same."""
    joined: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for path in sorted((SOURCE / "papers").glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["row"]:
            if row["status"] == "built" and re.search(pattern, row["id"]):
                joined.setdefault((row["by"], tuple(row["tests"])), []).append(row["id"])
    return [Claim(tuple(ids), by, tests) for (by, tests), ids in joined.items()]


# ---- a plugin of pytest that tries every claim in forks of one process, after the tests are collected


class Attempts:
    """Tries the mutants of every claim: each in a fork that has the tests already, with one function's code exchanged."""

    def __init__(self, tried: Sequence[Claim], number: int, enough: int, seed: int) -> None:
        self._claims, self._number, self._enough, self._seed = tried, number, enough, seed

    def pytest_configure(self) -> None:
        """A failure is enough: no time is spent on the smallest example of it."""
        from hypothesis import Phase, settings  # pytest wants to be there before it

        quick = settings(settings.get_profile("sfumato"), phases=(Phase.explicit, Phase.generate))
        settings.register_profile("mutants", quick)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.freeze()
        for claim in self._claims:
            items = [item for item in session.items if _named(item, claim.tests)]
            items = items[:: -(-len(items) // MOST)] or items
            say(attempt(claim, items, self._number, self._enough, self._seed))
        return True


def _named(item: pytest.Item, tests: Sequence[str]) -> bool:
    return any(item.nodeid == test or item.nodeid.startswith(f"{test}[") for test in tests)


def say(text: str) -> None:
    """Write to the terminal that pytest took away."""
    with contextlib.suppress(OSError):
        os.write(TERMINAL, f"{text}\n".encode())


class _Reports:
    """What became of the tests that run in this process."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed
        self.skipped += report.skipped


def _run(items: Sequence[pytest.Item]) -> _Reports:
    """Run tests until one fails."""
    reports = _Reports()
    manager = items[0].config.pluginmanager
    manager.unregister(name="terminalreporter")
    manager.register(reports)
    for item, following in itertools.zip_longest(items, items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if reports.failed:
            break
    return reports


def _forked(job: Callable[[], object]) -> object:
    """Return what a function returns in a process of its own, or None when it dies or takes too long."""
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                os.setpgid(0, 0)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                answer.write(json.dumps(job()).encode())
                answer.flush()
            os._exit(0)
        end = monotonic() + LIMIT
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            signal.sigtimedwait([signal.SIGCHLD], 0.1)
        answer.seek(0)
        return json.loads(answer.read() or b"null")


def unchanged(claim: Claim, items: Sequence[pytest.Item]) -> dict[str, Any] | None:
    """Run the tests of a row as they are; say where its function stands and which functions the tests run."""

    def job() -> dict[str, Any]:
        codes: set[CodeType] = set()
        stands = place(claim.by)  # imported before the tests, so that what runs at import does not count

        def note(frame: FrameType, event: str, arg: object) -> None:
            codes.add(frame.f_code)

        sys.settrace(note)
        reports = _run(items)
        sys.settrace(None)
        run = sorted({(inside, c.co_firstlineno) for c in codes if (inside := _inside(c.co_filename))})
        return {**vars(reports), "place": stands, "run": run}

    answer = _forked(job)
    return answer if isinstance(answer, dict) else None


def survives(mutant: Mutant, items: Sequence[pytest.Item]) -> bool:
    """Return whether the row's tests pass on a mutant."""

    def job() -> int:
        exchange(mutant)
        return _run(items).failed

    return _forked(job) == 0


def exchange(mutant: Mutant) -> None:
    """Give the function of a mutant its changed code, wherever it is referred to; defaults of parameters as well."""
    name = "sfumato." + mutant.module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(name)
    path = SOURCE / mutant.module
    changed = compile(mutant.source(path.read_text(encoding="utf-8")), str(path), "exec", dont_inherit=True)
    codes = {(c.co_qualname, c.co_firstlineno): c for c in _codes(changed)}
    gc.unfreeze()
    for function in [f for f in gc.get_objects() if isinstance(f, FunctionType)]:
        code = function.__code__
        new = codes.get((code.co_qualname, code.co_firstlineno))
        if code.co_filename == module.__file__ and new is not None and new.co_freevars == code.co_freevars:
            function.__code__ = new


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _inside(filename: str) -> str | None:
    path = Path(filename)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else None


def place(dotted: str) -> tuple[str, int, int]:
    """Return module, first and last line of what a dotted name stands for."""
    parts = dotted.split(".")
    found: object = None
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = inspect.getattr_static(found, name) if inspect.isclass(found) else getattr(found, name)
        break
    for attribute in ("fget", "func", "__func__", "py_func"):
        found = getattr(found, attribute, None) or found
    if isinstance(found, functools.partial):
        found = found.func
    if inspect.ismodule(found):
        return str(_inside(str(found.__file__))), 1, 10**6
    if not inspect.isclass(found) and not inspect.isroutine(found):
        found = type(found)
    lines, first = inspect.getsourcelines(inspect.unwrap(found))  # type: ignore[arg-type]
    return str(_inside(str(inspect.getsourcefile(found)))), first, first + len(lines) - 1  # type: ignore[arg-type]


# ---- mutants of a row


def candidates(stand: dict[str, Any], number: int, seed: int) -> list[Mutant]:
    """Return mutants, in random order: half of the row's function, half of other functions of its module that the tests run."""
    module, first, last = stand["place"]
    run = {line for name, line in stand["run"] if name == module}
    text = (SOURCE / module).read_text(encoding="utf-8")
    left_out = _left_out(ast.parse(text))
    fit = [
        m for m in mutants_of(module, text)
        if not any(a <= m.start[0] <= b for a, b in left_out) and (m.function is None or m.function in run)
    ]  # fmt: skip
    random.Random(seed).shuffle(fit)
    own = [m for m in fit if first <= m.start[0] <= last]
    near = [m for m in fit if not first <= m.start[0] <= last and m.function is not None]
    mixed = [m for pair in itertools.zip_longest(own, near) for m in pair if m is not None]
    return mixed[:number]


def mutable(stand: dict[str, Any]) -> bool:
    """Return whether the row's function has anything to change, were it run."""
    module, first, last = stand["place"]
    text = (SOURCE / module).read_text(encoding="utf-8")
    left_out = _left_out(ast.parse(text))
    return any(
        first <= m.start[0] <= last and not any(a <= m.start[0] <= b for a, b in left_out)
        for m in mutants_of(module, text)
    )


def _left_out(tree: ast.Module) -> list[tuple[int, int]]:
    """Return the lines of refusals, which are no part of a paper, and of compiled functions, whose code is not exchanged."""
    lines = []
    for node in ast.walk(tree):
        refusal = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
        check = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "check" in ast.unparse(node.value.func)
        )
        compiled = isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)
        if refusal or check or compiled or isinstance(node, ast.Raise | ast.Assert):
            lines.append((node.lineno, getattr(node, "end_lineno", 0) or 0))
    return lines


def attempt(claim: Claim, items: Sequence[pytest.Item], number: int, enough: int, seed: int) -> str:
    """Return one paragraph on a claim: how many mutants were tried until enough were killed, and those that survived."""
    head = f"{', '.join(claim.ids)}: {claim.by}"
    stand = unchanged(claim, items)
    if stand is None or stand["failed"] or not stand["passed"]:
        why = "they take too long" if stand is None else f"{stand['failed']} fail, {stand['skipped']} are skipped"
        return f"BROKEN    {head}: its tests do not pass as they are: {why}"
    alive, killed = [], 0
    for mutant in candidates(stand, number, seed):
        if survives(mutant, items) if mutant.function else survives_apart(mutant, claim):
            alive.append(mutant)
        else:
            killed += 1
        if killed == enough:
            break
    word = "noticed  " if killed else "unnoticed" if alive else "nothing  "
    if word == "nothing  " and mutable(stand):
        word = "not run  "
    skipped = f", {stand['skipped']} tests skipped" if stand["skipped"] else ""
    lines = [f"{word} {head}: {killed} of {killed + len(alive)} mutants killed{skipped}"]
    return "\n".join([*lines, *(f"    {m}" for m in alive)])


def survives_apart(mutant: Mutant, claim: Claim) -> bool:
    """Return whether the row's tests pass on a mutant of a class's or module's constants, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="row-mutants-") as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
        path = Path(folder) / "src" / "sfumato" / mutant.module
        path.write_text(mutant.source(path.read_text(encoding="utf-8")), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-m",
            "",
            *claim.tests,
        ]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path.parents[1]), *sys.path[:4]])}
        try:
            return not subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return False


TERMINAL = os.dup(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Change what a paper's row names, and see whether its tests notice.")
    parser.add_argument("--ids", default="", help="only rows whose id matches this regular expression")
    parser.add_argument("-n", "--number", type=int, default=20, help="mutants that are tried for a row, at most")
    parser.add_argument("--enough", type=int, default=2, help="killed mutants after which a row is done")
    parser.add_argument("--seed", type=int, default=18)
    chosen = parser.parse_args()
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "src"), str(ROOT / "tests"), str(ROOT / "tests" / "contract")]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    tried = claims(chosen.ids)
    tests = sorted({test.partition("[")[0] for claim in tried for test in claim.tests})
    pytest.main(["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", "", *tests],
                [Attempts(tried, chosen.number, chosen.enough, chosen.seed)])  # fmt: skip


if __name__ == "__main__":
    main()
