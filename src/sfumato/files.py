"""Files appear whole or not at all: write beside, then rename."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
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

    An existing folder is replaced only if `replace` is set; otherwise it is refused before any work is done. What a process
    that died left of the same folder is removed.
    """
    target = Path(path).absolute()
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; give the name of a folder to write.")
    if target.exists() and any(target.iterdir()) and not replace:
        raise DataError(f"the folder {target} already holds files. Choose another one, or ask to replace it.")
    old = _beside(target, ".old")
    with _in_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        temporary, held = _held_folder(target)
    try:
        yield temporary
        if target.exists():
            os.replace(target, old)
        os.replace(temporary, target)
        _sweep(target)  # what stood here before another process died is not needed any more
    finally:
        if held is not None:
            os.close(held)
        if old.exists() and not target.exists():
            os.replace(old, target)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def publishing(*appearing: AbstractContextManager[Path], secrets: Mapping[Path, str]) -> Iterator[list[Path]]:
    """Let files and folders appear after their secrets are kept: ``with publishing(whole_file(out), secrets={seed: text})``.

    Every command that publishes what a secret belongs to (a seed, a record) writes both here. Gives the temporary paths to write
    to. When the block ends well, the secrets are written durably, each for its owner alone; then what is published appears. So
    whoever is killed at any step may have kept a secret without a use, but has never published anything whose secret is lost. A
    secret that another one takes the place of lies beside it, named "….before-…", until the new publication is there.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(a) for a in appearing]
        before = _keep(secrets)
    for old in before:
        old.unlink(missing_ok=True)


def _keep(secrets: Mapping[Path, str]) -> list[Path]:
    """Write all secrets durably, or none; return where the ones that were there before lie now."""
    undo: list[tuple[Path, Path | None]] = []
    try:
        for path, text in secrets.items():
            target = path.absolute()
            old = None
            if target.is_file():
                if target.read_bytes() == text.encode("utf-8"):
                    _sync(target)
                    continue
                old = target.with_name(f"{target.name[:100]}.before-{token_hex(8)}")
                with _in_words(target):
                    _same_file(target, old)
            undo.append((target, old))
            write_text(target, text, confidential=True)
            _sync(target)
    except BaseException:  # nothing is published yet
        for target, old in undo:
            with suppress(OSError):
                if old is None:
                    target.unlink(missing_ok=True)
                else:
                    os.replace(old, target)
                    old.unlink(missing_ok=True)  # still there where both are names of one file
        raise
    return [old for _, old in undo if old is not None]


def _same_file(path: Path, other: Path) -> None:
    """Give a file a second name; copy it where the file system has no links."""
    try:
        os.link(path, other)
    except OSError:
        write_bytes(other, path.read_bytes(), confidential=True)
    _sync(other)


def _sync(path: Path) -> None:
    """Wait until a file and its name are on the disk."""
    for place in (path, path.parent):
        with suppress(OSError):  # some systems cannot do it for folders
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _held_folder(target: Path) -> tuple[Path, int | None]:
    """Make a folder beside a target, and hold a lock on it, which ends with this process however it dies."""
    while True:
        temporary = _beside(target)
        temporary.mkdir(0o755)
        try:
            held = _lock(temporary)
        except FileNotFoundError:  # somebody swept it before it was locked
            continue
        if temporary.is_dir():
            return temporary, held
        if held is not None:
            os.close(held)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds the lock of a folder; None where somebody else has it, or the system has no such locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _sweep(target: Path) -> None:
    """Remove folders beside a target that a process made for it and left when it died; what one still works on stays."""
    ours = re.compile(re.escape(f".{target.name[:100]}.") + r"[0-9a-f]{16}(\.old)?")
    try:
        beside = list(target.parent.iterdir())
    except OSError:  # a folder that can be written to and not listed
        return
    for folder in beside:
        if (found := ours.fullmatch(folder.name)) is None or folder.is_symlink() or not folder.is_dir():
            continue
        if found[1] and not target.exists():  # perhaps the only one that there is
            continue
        try:
            held = _lock(folder)
        except OSError:
            continue
        if held is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _beside(target: Path, ending: str = "") -> Path:
    """Return a name in the same folder that nobody else uses."""
    return target.with_name(f".{target.name[:100]}.{token_hex(8)}{ending}")


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
