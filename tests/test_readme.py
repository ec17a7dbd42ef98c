"""The README: its example runs, its links lead somewhere, and it fetches nothing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import outputs  # noqa: E402

README = (ROOT / "README.md").read_text("utf-8")


def test_the_example_runs_and_is_about_ten_lines_long() -> None:
    (block,) = outputs.blocks(README)
    code = [line for line in block.code.splitlines() if line.strip()]
    assert len(code) <= 12
    (printed,) = outputs.run(ROOT / "README.md")
    assert "the most useful release within the risk threshold" in printed
    assert "a snooper is typically off by 5" in printed


def test_links_and_pictures_are_files_of_the_repository() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert len(targets) > 5
    for target in targets:
        assert "://" not in target
        assert (ROOT / target.split("#")[0]).exists(), target


def test_it_names_the_two_commands_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for command in ("demo", "test", "docs"):
        assert f"make {command}" in README
        assert re.search(rf"^{command}:", makefile, re.M)
