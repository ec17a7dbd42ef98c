"""Files appear whole or not at all: write beside, then rename."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, listing


@contextmanager
def whole_file(path: str | Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place when the block ends well, remove it when not.

    The file gets the rights that `mode` and the user's umask both allow.
    """
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target} is a folder; give the name of a file to write.")
    temporary = _beside(target, target.suffix)
    with _in_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        allowed = temporary.stat().st_mode & 0o777
    try:
        yield temporary
        temporary.chmod(allowed)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `path`; move it into place when the block ends well.

    An existing folder is replaced only if `replace` is set; otherwise it is refused before any work is done.
    """
    target = Path(path).absolute()
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; give the name of a folder to write.")
    if target.exists() and any(target.iterdir()) and not replace:
        raise DataError(f"the folder {target} already holds files. Choose another one, or ask to replace it.")
    temporary, old = _beside(target), _beside(target, ".old")
    with _in_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir(0o755)
    try:
        yield temporary
        if target.exists():
            os.replace(target, old)
        os.replace(temporary, target)
    finally:
        if old.exists() and not target.exists():
            os.replace(old, target)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(target: Path, ending: str = "") -> Path:
    """Return a name in the same folder that nobody else uses."""
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}{ending}")


@contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"{target} cannot be written: {(error.strerror or 'no reason given').lower()}.") from None


def check_replaceable(path: str | Path, known: Sequence[str]) -> None:
    """Refuse to replace a folder that holds anything besides files of these names; patterns such as "masked.*" count."""
    target = Path(path)
    inside = sorted(target.iterdir()) if target.is_dir() else []
    if others := [p.name for p in inside if p.is_dir() or not any(fnmatch(p.name, name) for name in known)]:
        raise DataError(
            f"the folder {target} also holds what sfumato did not write ({listing(others, 3)}), so it is not replaced. "
            "Choose another folder, or move these away."
        )


def write_text(path: str | Path, text: str, confidential: bool = False) -> None:
    """Write a text file whole; a confidential one can be read by its owner only."""
    write_bytes(path, text.encode("utf-8"), confidential)


def parse_json(text: str, **options: Any) -> Any:
    """Return a JSON document; one that is nested too deeply is a ValueError as every other that cannot be read."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_bytes(path: str | Path, content: bytes, confidential: bool = False) -> None:
    """Write a file whole; a confidential one can be read by its owner only."""
    with whole_file(path, 0o600 if confidential else 0o644) as temporary:
        temporary.write_bytes(content)
