"""Run the code of the documentation pages; check what it prints, or write it into the pages.

A block marked ``python`` or ``bash`` is run, all blocks of a page in order, in a process of its own and an empty folder. A block
marked ``text`` that follows directly is what was printed. After a change, run ``python docs/outputs.py`` and read the diff.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(
    r"^```(?P<kind>python|bash)(?P<note>[^\n]*)\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```\n)?",
    re.M | re.S,
)
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_PROCESSES = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
_PROCESSES.set_forkserver_preload(
    ["docs.preloaded"]
)  # found from the root of the repository; else pages only take longer


@dataclass(frozen=True)
class Block:
    """Code on a page, and what the page says it prints (None where it says nothing)."""

    kind: str
    note: str
    code: str
    printed: str | None
    line: int


def pages() -> list[Path]:
    """Return every page with code to run, and the README."""
    found = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    return [page for page in found if blocks(page.read_text("utf-8"))]


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page, in order."""
    return [
        Block(m["kind"], m["note"].strip(), m["code"], m["printed"], text.count("\n", 0, m.start()) + 1)
        for m in _FENCE.finditer(text)
    ]


def run(page: Path) -> list[str]:
    """Return what each block of a page prints; raises RuntimeError with the traceback if one fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "here").mkdir()
        (folder / "said").touch()
        ours, theirs = _PROCESSES.Pipe()
        process = _PROCESSES.Process(target=_inside, args=(page, folder, theirs))
        process.start()
        theirs.close()
        with contextlib.suppress(EOFError):  # when the page has ended
            while True:
                command = _PROCESSES.Process(target=_command, args=(ours.recv(), folder))
                command.start()
                command.join()
                ours.send(command.exitcode)
        process.join()
        if process.exitcode:
            raise RuntimeError(f"{page.relative_to(ROOT)}: {(folder / 'said').read_text('utf-8', 'replace')[-4500:]}")
        return list(json.loads((folder / "printed.json").read_text("utf-8")))


def _settle(folder: Path) -> None:
    """Move to the page's folder, send what is said to a file, and start with no names, as a script would."""
    os.chdir(folder / "here")
    said = os.open(folder / "said", os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    bin_folder = str(Path(sys.executable).parent)
    os.environ |= {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    os.environ["PYTHONWARNINGS"] = ""
    sys.modules["__main__"] = ModuleType("__main__")  # classes of a page can be pickled, as those of a script


def _inside(page: Path, folder: Path, commands: Connection) -> None:
    _settle(folder)
    namespace = vars(sys.modules["__main__"])
    printed = []
    for block in blocks(page.read_text("utf-8")):
        where = f"{page.name}, line {block.line}"
        if "Spark" in block.note and not (shutil.which("java") and importlib.util.find_spec("pyspark")):
            printed.append(block.printed or "")  # nothing to run it with
        elif block.kind == "bash":
            printed.append(_printed_by_shell(block.code, where, folder, commands))
        else:
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile("\n" * block.line + block.code, page.name, "exec"), namespace)  # noqa: S102
            except Exception:
                sys.exit(f"{where}:\n{traceback.format_exc()}")
            printed.append(out.getvalue())
    (folder / "printed.json").write_text(json.dumps(printed), "utf-8")


def _printed_by_shell(code: str, where: str, folder: Path, commands: Connection) -> str:
    """Return what a block of bash prints; our own commands are forks, like the page, where the block holds nothing else."""
    plain = plain_commands(code)
    if plain is None:
        shell = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            sys.exit(f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
    (folder / "out").write_text("", "utf-8")
    for arguments in plain:
        commands.send(arguments)
        exitcode = commands.recv()
        if exitcode:
            sys.exit(f"{where}: exit code {exitcode}\n{(folder / 'out').read_text('utf-8')}")
    return (folder / "out").read_text("utf-8")


def plain_commands(code: str) -> list[list[str]] | None:
    """Return the words of each command if all are `sfumato ...` or `python -c ...` and need no shell, else None."""
    commands = []
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        ours = words[:1] == ["sfumato"] or (words[:2] == ["python", "-c"] and len(words) == 3)
        quoted = re.sub(r"""'[^']*'|"[^"$`\\!]*\"""", "", line)
        if words and (not ours or re.search(r"""[^\w\s.,/=:%+-]""", quoted)):
            return None  # a shell may give another sign a meaning
        commands += [words] if words else []
    return commands


def _command(arguments: list[str], folder: Path) -> None:
    _settle(folder)
    out = os.open(folder / "out", os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    sys.argv = arguments
    with (
        open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
        open(2, "w", encoding="utf-8", closefd=False) as sys.stderr,
    ):
        if arguments[0] == "python":
            exec(arguments[2], vars(sys.modules["__main__"]))  # noqa: S102
        else:
            from sfumato.cli import main

            main()


def same(said: str, printed: str) -> bool:
    """Whether two outputs agree, apart from spaces at the ends of lines."""

    def tidy(text: str) -> list[str]:
        return [line.rstrip() for line in text.rstrip().splitlines()]

    return tidy(said) == tidy(printed)


def refresh(page: Path) -> bool:
    """Write what the code prints now into the page; return whether the page changed."""
    text = page.read_text("utf-8")
    printed = iter(run(page))

    def replaced(match: re.Match[str]) -> str:
        now = next(printed)
        if match["printed"] is None or same(match["printed"], now):
            return match[0]
        start, end = match.start("printed") - match.start(), match.end("printed") - match.start()
        tidy = "\n".join(line.rstrip() for line in now.rstrip().splitlines())
        return f"{match[0][:start]}{tidy}\n{match[0][end:]}"

    new = _FENCE.sub(replaced, text)
    if new != text:
        page.write_text(new, "utf-8")
    return new != text


if __name__ == "__main__":
    for each in [Path(a).resolve() for a in sys.argv[1:]] or pages():
        print(f"{'changed' if refresh(each) else 'as it was':<12}{each.relative_to(ROOT)}", flush=True)
