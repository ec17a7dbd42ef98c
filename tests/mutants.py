"""Do the tests notice a wrong program? `make mutants` changes one place of the source at a time and runs the tests that touch it.

    python tests/mutants.py map            # which test touches which function: one run of all tests, traced
    python tests/mutants.py run -n 200     # 200 mutants; prints killed and survived, and lists the survivors

A mutant is one seeded change: a comparison, an arithmetic operator, a constant by one, a condition negated, a statement dropped.
It is tried in a copy of src/ against the tests that touch its function, cheapest first, and then against their whole files, as
far as the budget goes. It is killed when a test fails, does not load or runs out of time. A survivor is a line that no test
needs, or a change without effect: somebody has to read it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from time import process_time
from types import CodeType, FrameType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("masks", "risk", "tables", "mas")
MAP = ROOT / ".pytest_cache" / "touches.json"
FIRST = 150
"""So many touching tests are tried before whole files."""
UNFIT = ("test_house.py", "test_layers.py", "test_imports.py", "test_docs.py", "test_readme.py", "test_papers.py")
"""These read the source or start processes of their own: no answer of a mutant is theirs to judge."""

# ---- which test touches which function: a plugin of pytest, `-p mutants --touches FILE`


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--touches", metavar="FILE", help="write which test touches which function of sfumato (tests/mutants.py)"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--touches", None)
    if path:
        config.pluginmanager.register(_Touches(Path(path)))


class _Touches:
    """Writes {"tests": [[test, seconds], ...], "functions": {"masks/noise.py:12": [number of a test, ...]}}."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: list[tuple[str, float]] = []
        self._functions: dict[str, list[int]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        seen: dict[int, CodeType] = {}

        def note(frame: FrameType, event: str, arg: object) -> None:
            code = frame.f_code
            if id(code) not in seen:
                seen[id(code)] = code  # held, so that no other code gets its id

        before = process_time()
        sys.settrace(note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            for code in seen.values():
                _, inside, module = code.co_filename.rpartition("src/sfumato/")
                if inside and module.startswith(PACKAGES):
                    self._functions.setdefault(f"{module}:{code.co_firstlineno}", []).append(len(self._tests))
            self._tests.append((item.nodeid, round(process_time() - before, 3)))
            if nextitem is None or nextitem.path != item.path:
                self._path.parent.mkdir(exist_ok=True)
                self._path.write_text(
                    json.dumps({"tests": self._tests, "functions": self._functions}), encoding="utf-8"
                )


# ---- mutants


COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the text from `start` to `end` (line, byte) becomes `text`."""

    module: str
    function: int | None
    """The first line of the function around it, decorators included; None outside of functions."""
    start: tuple[int, int]
    end: tuple[int, int]
    kind: str
    before: str
    text: str

    def source(self, original: str) -> str:
        lines = original.encode().splitlines(keepends=True)
        (first, left), (last, right) = self.start, self.end
        head, tail = lines[first - 1][:left], lines[last - 1][right:]
        return b"".join([*lines[: first - 1], head, self.text.encode(), tail, *lines[last:]]).decode()

    def __str__(self) -> str:
        return (
            f"src/sfumato/{self.module}:{self.start[0]} {self.kind}: {_one_line(self.before)} -> {_one_line(self.text)}"
        )


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module; annotations, docstrings and what is within f-strings are left alone."""

    def visit(node: ast.AST, function: int | None) -> Iterator[Mutant]:
        for kind, old, new in _changes(node):
            yield Mutant(
                module, function, (old.lineno, old.col_offset), (old.end_lineno or 0, old.end_col_offset or 0), kind,
                ast.unparse(old), new,
            )  # fmt: skip
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr) and not _for_types(child):
                    yield from visit(child, function)

    yield from visit(ast.parse(source), None)


def _for_types(node: ast.AST) -> bool:
    """Return whether a statement speaks to the type checker alone."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING")
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and "None" in ast.unparse(node.value)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the kind of change, the part of the source, and what stands there afterwards."""
    match node:
        case ast.Compare(ops=[operator]):
            other = copy.copy(node)
            other.ops = [COMPARISONS[type(operator)]()]
            yield "comparison", node, f"({ast.unparse(other)})"
        case ast.BinOp() | ast.AugAssign() if type(node.op) in ARITHMETIC:
            other = copy.copy(node)
            other.op = ARITHMETIC[type(node.op)]()
            yield "arithmetic", node, f"({ast.unparse(other)})" if isinstance(node, ast.BinOp) else ast.unparse(other)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            for step in (1, -1):
                yield "constant", node, f"({value + step!r})"
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition", node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.comprehension():
            for test in node.ifs:
                yield "condition", test, f"(not ({ast.unparse(test)}))"
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield "statement", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement", node, "pass"


# ---- trying them


@dataclass(frozen=True)
class Touches:
    """The map of `_Touches`, read back."""

    tests: list[tuple[str, float]]
    functions: dict[str, list[int]]

    @classmethod
    def read(cls, path: Path) -> Touches:
        if not path.exists():
            raise SystemExit(f"{path} is missing: run `python tests/mutants.py map` first.")
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def touching(self, mutant: Mutant) -> list[int]:
        """Return the tests that touch the function of a mutant, or its module, cheapest first; contract tests last."""
        places = [
            place for place in self.functions
            if place == f"{mutant.module}:{mutant.function}" or (mutant.function is None and place.startswith(f"{mutant.module}:"))
        ]  # fmt: skip
        numbers = {number for place in places for number in self.functions[place]}
        fit = [n for n in numbers if not any(name in self.tests[n][0] for name in UNFIT)]
        return sorted(fit, key=lambda n: ("contract/" in self.tests[n][0], self.tests[n][1]))

    def rounds(self, mutant: Mutant, budget: float) -> Iterator[list[str]]:
        """Yield tests to run, in rounds: the first that touch the place, then the rest of their files within a budget."""
        touching = self.touching(mutant)
        yield [self.tests[n][0] for n in touching[:FIRST]]
        files = {self.tests[n][0].partition("::")[0] for n in touching}
        direct, tried = set(touching), set(touching[:FIRST])
        rest = [n for n, (test, _) in enumerate(self.tests) if test.partition("::")[0] in files and n not in tried]
        chosen: list[str] = []
        for n in sorted(rest, key=lambda n: (n not in direct, self.tests[n][1])):
            test, seconds = self.tests[n]
            budget -= seconds
            if budget < 0:
                break
            chosen.append(test)
        yield chosen


def killed(mutant: Mutant, touches: Touches, home: Path, budget: float) -> str | None:
    """Return how a mutant died, or None when it survived; `home` holds a copy of src/."""
    path = home / "src" / "sfumato" / mutant.module
    original = ROOT / "src" / "sfumato" / mutant.module
    path.write_text(mutant.source(original.read_text(encoding="utf-8")), encoding="utf-8")
    try:
        for tests in touches.rounds(mutant, budget):
            if not tests:
                continue
            listing = home / "tests.txt"
            listing.write_text("\n".join(tests), encoding="utf-8")
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", f"@{listing}"],
                    cwd=ROOT, env=_environment(home / "src"), capture_output=True, text=True, timeout=60 + 10 * budget,
                    check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return "out of time"
            if done.returncode:
                return next(
                    (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "does not load"
                )
        return None
    finally:
        shutil.copy2(original, path)


def _environment(source: Path) -> dict[str, str]:
    paths = [str(source), str(ROOT / "tests"), str(ROOT / "tests" / "contract")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def sample(number: int, seed: int) -> list[Mutant]:
    """Return mutants of random places: every line that has one is as likely as another, and then every change of it."""
    places: dict[tuple[str, int], list[Mutant]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "sfumato" / package).rglob("*.py")):
            module = path.relative_to(ROOT / "src" / "sfumato").as_posix()
            for mutant in mutants_of(module, path.read_text(encoding="utf-8")):
                places.setdefault((module, mutant.start[0]), []).append(mutant)
    rng = random.Random(seed)
    return [rng.choice(places[place]) for place in rng.sample(sorted(places), number)]


def run(number: int, seed: int, budget: float, jobs: int) -> None:
    touches = Touches.read(MAP)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        homes: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            home = Path(folder) / str(job)
            shutil.copytree(ROOT / "src", home / "src")
            homes.put(home)

        def attempt(mutant: Mutant) -> str | None:
            home = homes.get()
            try:
                death = killed(mutant, touches, home, budget)
            finally:
                homes.put(home)
            print(
                f"{'survived' if death is None else 'killed'}  {mutant}",
                *([f"   by {death}"] if death else []),
                sep="\n",
                flush=True,
            )
            return death

        mutants = sample(number, seed)
        with ThreadPoolExecutor(jobs) as pool:
            deaths = list(pool.map(attempt, mutants))
    survivors = [mutant for mutant, death in zip(mutants, deaths, strict=True) if death is None]
    print(f"\n{number - len(survivors)} of {number} mutants killed ({1 - len(survivors) / number:.0%}); survivors:")
    for mutant in survivors:
        print(f"  {mutant}" + ("" if touches.touching(mutant) else "  (no test touches it)"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Change the source, and see whether a test notices.")
    commands = parser.add_subparsers(dest="command", required=True)
    mapping = commands.add_parser(
        "map", help="run the tests and note which of them touch which function; takes options of pytest"
    )
    mapping.add_argument("tests", nargs="*", default=["tests"])
    trying = commands.add_parser("run", help="try mutants")
    trying.add_argument("-n", "--number", type=int, default=200)
    trying.add_argument("--seed", type=int, default=16)
    trying.add_argument(
        "--budget", type=float, default=60.0, help="CPU seconds of tests beyond the first, for each mutant"
    )
    trying.add_argument("--jobs", type=int, default=1)
    chosen, options = parser.parse_known_args()
    if chosen.command == "run":
        run(chosen.number, chosen.seed, chosen.budget, chosen.jobs)
    else:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "mutants",
            "--touches",
            str(MAP),
            *chosen.tests,
            *options,
        ]
        raise SystemExit(subprocess.run(command, cwd=ROOT, env=_environment(ROOT / "src"), check=False).returncode)


if __name__ == "__main__":
    main()
