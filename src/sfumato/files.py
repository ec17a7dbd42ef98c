"""Files appear whole or not at all: write beside, then rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import DataError


@contextmanager
def whole_file(path: str | Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place when the block ends well, remove it when not."""
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target} is a folder; give the name of a file to write.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(mode)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, replace: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `path`; move it into place when the block ends well.

    An existing folder is replaced only if `replace` is set; otherwise it is refused before any work is done.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; give the name of a folder to write.")
    if target.exists() and any(target.iterdir()) and not replace:
        raise DataError(f"the folder {target} already holds files. Choose another one, or ask to replace it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
            os.replace(target, old)
            os.replace(temporary, target)
            shutil.rmtree(old)
        else:
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str, confidential: bool = False) -> None:
    """Write a text file whole; a confidential one can be read by its owner only."""
    with whole_file(path, 0o600 if confidential else 0o644) as temporary:
        temporary.write_text(text, encoding="utf-8")
