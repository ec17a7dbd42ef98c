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
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(
    r"^```(?P<kind>python|bash)(?P<note>[^\n]*)\n(?P<code>.*?)^```\n(?:\n?^```text\n(?P<printed>.*?)^```\n)?",
    re.M | re.S,
)
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_PROCESSES = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
_PROCESSES.set_forkserver_preload(["docs.preloaded"])  # found from the root of the repository; else pages only take longer


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
        process = _PROCESSES.Process(target=_inside, args=(page, folder))
        process.start()
        process.join()
        if process.exitcode:
            raise RuntimeError(f"{page.relative_to(ROOT)}: {(folder / 'said').read_text('utf-8', 'replace')[-4500:]}")
        return list(json.loads((folder / "printed.json").read_text("utf-8")))


def _inside(page: Path, folder: Path) -> None:
    os.chdir(folder / "here")
    said = os.open(folder / "said", os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    bin_folder = str(Path(sys.executable).parent)
    os.environ |= {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", "NO_COLOR": "1"}
    os.environ["PYTHONWARNINGS"] = ""
    script = sys.modules["__main__"] = ModuleType("__main__")  # classes of a page can be pickled, as those of a script
    namespace = vars(script)
    printed = []
    for block in blocks(page.read_text("utf-8")):
        where = f"{page.name}, line {block.line}"
        out = io.StringIO()
        if "Spark" in block.note and not (shutil.which("java") and importlib.util.find_spec("pyspark")):
            printed.append(block.printed or "")  # nothing to run it with
            continue
        if block.kind == "bash":
            shell = ["bash", "-euo", "pipefail", "-c", block.code]
            done = subprocess.run(shell, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                sys.exit(f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
            out.write(done.stdout)
        else:
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile("\n" * block.line + block.code, page.name, "exec"), namespace)  # noqa: S102
            except Exception:
                sys.exit(f"{where}:\n{traceback.format_exc()}")
        printed.append(out.getvalue())
    (folder / "printed.json").write_text(json.dumps(printed), "utf-8")


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
