"""Files appear whole or not at all: write beside, then rename."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from secrets import token_hex
from typing import Any

from sfumato.errors import DataError, join_names

try:
    import fcntl
except ImportError:  # Windows has no such locks: what a killed process left stays there
    fcntl = None  # type: ignore[assignment]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_WORDS = re.compile(
    r"no space left|disk is full|quota exceeded|file too large|not enough (disk )?space", re.IGNORECASE
)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}(\.\w+)?")
_HOME = "sfumato-private-"
_locks: dict[str, int] = {}
"""Descriptors that hold the locks of this process's temporary files and folders; the system frees them when it dies."""


# -- temporary files and folders: locked by whoever writes them, so that a sweep removes only those of the dead


@contextmanager
def whole_file(path: str | Path, mode: int = 0o644) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place when the block ends well, remove it when not.

    Only its owner can read the temporary file. The finished one gets the rights that `mode` and the user's umask both allow,
    and never more than a private file that it replaces. Temporary files that a killed process left for `path` are removed.
    """
    target = Path(path)
    if target.is_dir():
        raise DataError(f"{target} is a folder; give the name of a file to write.")
    with _in_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep_for(target)
        temporary, allowed = _new_file(target, mode)
    if target.is_file() and not target.stat().st_mode & 0o077:
        allowed &= 0o700
    try:
        with _room_for(target):
            yield temporary
            temporary.chmod(allowed)
            os.replace(temporary, target)
        if str(target) in _locks:  # it is itself a temporary file: the lock goes with what stands there now
            _unlock(target)
            _locks[str(target)] = _locks.pop(str(temporary), -1)
    finally:
        temporary.unlink(missing_ok=True)
        _unlock(temporary)


@contextmanager
def whole_folder(path: str | Path, replace: bool = False, mode: int = 0o755) -> Iterator[Path]:
    """Give a temporary folder beside `path`; move it into place when the block ends well.

    An existing folder is replaced only if `replace` is set; otherwise it is refused before any work is done. Where the system
    can, the two are exchanged in one step; if not, and the process is killed between two steps, the next call puts the old
    folder back.
    """
    target = Path(path).absolute()
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; give the name of a folder to write.")
    with _in_words(target):
        _put_back(target)
    if target.exists() and any(target.iterdir()) and not replace:
        raise DataError(f"the folder {target} already holds files. Choose another one, or ask to replace it.")
    with _in_words(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep_for(target)
        temporary = _new_folder(lambda: _made(_beside(target), mode))
    old = _beside(target, ".old")
    try:
        with _room_for(target):
            yield temporary
            if target.exists() and not _exchange(temporary, target):
                os.replace(target, old)
            if not target.exists():
                os.replace(temporary, target)
    finally:
        if old.exists() and not target.exists():
            os.replace(old, target)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)
        _unlock(temporary)


@contextmanager
def publishing(
    *appearing: AbstractContextManager[Path], secrets: Mapping[Path, str], with_old: bool = False
) -> Iterator[list[Path]]:
    """Let files and folders appear after their secrets are kept: ``with publishing(whole_file(out), secrets={seed: text})``.

    Every command that publishes what a secret belongs to (a seed, a record) writes both here. Gives the temporary paths to write
    to. When the block ends well, the secrets are written durably, each for its owner alone; then what is published appears. So
    whoever is killed at any step may have kept a secret without a use, but has never published anything whose secret is lost. A
    secret that another one takes the place of lies beside it, named "….before-…", until the new publication is there;
    not so where the new text holds the old secret, too (`with_old`).
    """
    with ExitStack() as stack:
        yield [stack.enter_context(a) for a in appearing]
        before = _keep(secrets, with_old)
    for old in before:
        old.unlink(missing_ok=True)


def _keep(secrets: Mapping[Path, str], with_old: bool) -> list[Path]:
    """Write all secrets durably, or none; return where the ones that were there before lie now."""
    undo: list[tuple[Path, Path | None]] = []
    try:
        for path, text in secrets.items():
            target = path.absolute()
            old = None
            if target.is_file() and not with_old:
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
        for target, old in [] if with_old else undo:
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


def private_folder() -> Path:
    """Make a folder for confidential temporary files, which only this user can read; remove it with `remove_private`.

    It stands under the system's folder for temporary files (TMPDIR). What killed processes left there is removed first.
    """
    system = Path(tempfile.gettempdir()).resolve()
    with _home_lock:
        home = _homes.get((os.getpid(), system))  # a forked child needs its own
        if home is None or not home.is_dir():
            for left in system.glob(f"{_HOME}*"):
                _remove_if_dead(left)
            home = _new_folder(lambda: Path(tempfile.mkdtemp(prefix=_HOME, dir=system)))  # made with mode 700
            _homes[os.getpid(), system] = home
        return Path(tempfile.mkdtemp(prefix="part-", dir=home))


def remove_private(folder: str | Path, owner: int) -> None:
    """Remove a private folder, if this is the process that made it: a forked child must not remove its parent's data."""
    if os.getpid() != owner:
        return
    home = Path(folder).parent
    shutil.rmtree(folder, ignore_errors=True)
    with _home_lock, suppress(OSError):
        home.rmdir()  # fails while other parts stand in it
        _unlock(home)
        _homes.pop((owner, home.parent), None)


@contextmanager
def private() -> Iterator[Path]:
    """Give a private folder for the block."""
    folder = private_folder()
    try:
        yield folder
    finally:
        remove_private(folder, os.getpid())


_homes: dict[tuple[int, Path], Path] = {}
"""The folder for confidential temporary files of each process and system folder."""
_home_lock = threading.RLock()  # a finalizer may run at any moment


def sweep(folder: Path) -> None:
    """Remove the temporary files and folders that killed processes left in a folder and those below it."""
    for left in [p for p in folder.rglob(".*") if _TEMPORARY.fullmatch(p.name) and not p.name.endswith(".old")]:
        _remove_if_dead(left)


def _sweep_for(target: Path) -> None:
    for left in _left_for(target):
        if not left.name.endswith(".old") or target.exists():
            _remove_if_dead(left)


def _left_for(target: Path) -> list[Path]:
    """Return the temporary names beside a target that `_beside` may have given for it."""
    start = f".{target.name[:100]}."
    try:
        names = [entry.name for entry in os.scandir(target.parent) if entry.name.startswith(start)]
    except OSError:
        return []
    endings = {"", ".old", target.suffix}
    return [target.with_name(n) for n in names if (m := _TEMPORARY.fullmatch(n)) and (m[1] or "") in endings]


def _put_back(target: Path) -> None:
    """Put an old folder back that a killed process had moved aside, if nothing took its place."""
    olds = [left for left in _left_for(target) if left.name.endswith(".old")] if not target.exists() else []
    if olds:
        os.replace(max(olds, key=lambda p: p.stat().st_mtime), target)


def _remove_if_dead(path: Path) -> None:
    """Remove what nobody holds a lock on any more; leave what is somebody else's, or cannot be locked."""
    try:
        if fcntl is None or path.is_symlink() or path.lstat().st_uid != os.getuid():
            return
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        return
    finally:
        os.close(lock)


def _new_file(target: Path, mode: int) -> tuple[Path, int]:
    """Make and lock a temporary file that only its owner can read; return it with the rights that it is to have."""
    while True:
        temporary = _beside(target, target.suffix)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        allowed = temporary.stat().st_mode & 0o777
        temporary.chmod(0o600)
        if _lock(temporary):
            return temporary, allowed


def _new_folder(make: Callable[[], Path]) -> Path:
    while True:
        folder = make()
        if _lock(folder):
            return folder


def _made(folder: Path, mode: int) -> Path:
    folder.mkdir(mode)
    return folder


def _lock(path: Path) -> bool:
    """Hold a lock on what was just made; say whether it is still there, since a sweep may have been faster."""
    if fcntl is None:
        return True  # type: ignore[unreachable]
    try:
        lock = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    except OSError:  # a file system without locks: nothing is swept there either
        os.close(lock)
        return True
    if not path.exists():
        os.close(lock)
        return False
    _locks[str(path)] = lock
    return True


def _unlock(path: Path) -> None:
    if (lock := _locks.pop(str(path), -1)) >= 0:
        os.close(lock)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, so that no kill can come between; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2  # Linux
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _beside(target: Path, ending: str = "") -> Path:
    """Return a name in the same folder that nobody else uses."""
    return target.with_name(f".{target.name[:100]}.{token_hex(8)}{ending}")


# -- what went wrong, in words


def full_disk(error: BaseException, folder: str | Path) -> DataError | None:
    """Return the sentence for a disk that is full, if that is what an error of any library says; else None."""
    if getattr(error, "errno", None) == errno.EFBIG or "file too large" in str(error).lower():
        return DataError(
            f"a file in {folder} would be larger than this disk or this account allows. Choose another place."
        )
    if getattr(error, "errno", None) in _FULL or _FULL_WORDS.search(str(error)):
        return DataError(
            f"the disk is full: there is no room left in {folder}. Make room there, or choose another place."
        )
    return None


@contextmanager
def _room_for(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if (full := full_disk(error, target.parent)) is not None:
            raise DataError(f"{target} cannot be written: {full}") from None
        raise


@contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        with _room_for(target):
            yield
    except OSError as error:
        raise DataError(f"{target} cannot be written: {(error.strerror or 'no reason given').lower()}.") from None


def check_replaceable(path: str | Path, known: Sequence[str]) -> None:
    """Refuse to replace a folder that holds anything besides files of these names; patterns such as "masked.*" count."""
    target = Path(path)
    inside = sorted(target.iterdir()) if target.is_dir() else []
    if others := [p.name for p in inside if p.is_dir() or not any(fnmatch(p.name, name) for name in known)]:
        raise DataError(
            f"the folder {target} also holds what sfumato did not write ({join_names(others, 3)}), so it is not replaced. "
            "Choose another folder, or move these away."
        )


def write_text(path: str | Path, text: str, confidential: bool = False) -> None:
    """Write a text file whole; a confidential one can be read by its owner only."""
    write_bytes(path, text.encode("utf-8"), confidential)


def write_bytes(path: str | Path, content: bytes, confidential: bool = False) -> None:
    """Write a file whole; a confidential one can be read by its owner only."""
    with whole_file(path, 0o600 if confidential else 0o644) as temporary:
        temporary.write_bytes(content)


def parse_json(text: str, **options: Any) -> Any:
    """Return a JSON document; one that is nested too deeply is a ValueError as every other that cannot be read."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None
