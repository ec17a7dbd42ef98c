"""What a search has seen so far, in a file: so that it can be stopped and taken up again.

It holds measures of releases, which are the custodian's business, but no record's value and no seed. What is looked up is keyed
with the seed, so that the file is of use only together with the same data, recipes, measures, snoopers, seed and version.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.contract.score import number
from sfumato.errors import DataError
from sfumato.files import parse_json
from sfumato.version import VERSION

Numbers = NDArray[np.float64]
Seen = tuple[Numbers, ...] | str
"""Observations of each measure, shape (m, k); or why there are none."""
_FORM = 1


class Archive:
    """Results by key, in memory, and in a file if one is named: a line each, written as soon as it is known."""

    def __init__(self, draws: Draws, about: str, path: str | Path | None = None) -> None:
        self._draws, self._about = draws, about
        self._known: dict[str, Seen] = {}
        self._path = None if path is None else Path(path)
        self.taken_up = 0
        """How many results were found in the file."""
        if self._path is not None:
            self._open(self._path)

    def _open(self, path: Path) -> None:
        header = {"sfumato search": _FORM, "version": VERSION, "about": self._draws.digest(self._about.encode())}
        try:
            first = json.dumps(header) + "\n"
            text = path.read_text("utf-8") if path.exists() else ""
            if not first.startswith(text):  # else it is empty, or was cut short in its first line
                lines = text.splitlines(keepends=True)
                self._check(lines[0], header)
                whole = [line for line in lines if line.endswith("\n")]  # one cut short by a crash is worked out again
                for line in whole[1:]:
                    entry = parse_json(line)
                    self._known[entry["key"]] = _read(entry)
                self.taken_up = len(self._known)
                if len(whole) < len(lines):
                    path.write_text("".join(whole), "utf-8")
            else:
                path.touch(mode=0o600)
                path.write_text(first, "utf-8")
        except OSError as error:
            raise DataError(f"the search cannot be kept in {path}: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} does not hold a search that can be taken up; name a new file.") from None

    @staticmethod
    def _check(line: str, header: dict[str, Any]) -> None:
        with contextlib.suppress(ValueError):
            found = parse_json(line)
            if isinstance(found, dict) and found.get("sfumato search") == _FORM:
                if found == header:
                    return
                raise DataError(
                    "the file holds another search: with other data, recipes, measures or snoopers, another seed or version "
                    "of sfumato. Name a new file, or repeat that search exactly to take it up."
                )
        raise ValueError

    def key(self, *parts: Any) -> str:
        """Return the name under which a result is kept."""
        return self._draws.digest(json.dumps([self._about, *parts], default=str).encode())

    def get(self, key: str) -> Seen | None:
        """Return a result that is known."""
        return self._known.get(key)

    def put(self, key: str, seen: Seen) -> None:
        """Keep a result."""
        self._known[key] = seen
        if self._path is not None:
            entry: dict[str, Any] = {"key": key}
            if isinstance(seen, str):
                entry["refused"] = seen
            else:
                entry["observed"] = [[[number(float(v)) for v in row] for row in o] for o in seen]
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            except OSError as error:
                raise DataError(f"the search cannot be kept in {self._path}: {error.strerror}.") from None


def _read(entry: dict[str, Any]) -> Seen:
    if "refused" in entry:
        return str(entry["refused"])
    return tuple(_array(o) for o in entry["observed"])


def _array(rows: Sequence[Sequence[float | str | None]]) -> Numbers:
    return np.array([[np.nan if v is None else float(v) for v in row] for row in rows], np.float64)
