"""The trials of a search: mask, measure, remember; and the limit for the one file that will be released."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.contract import Draws, Holdout, Measure, Snooper, hold_out
from sfumato.contract.score import number
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, SfumatoError
from sfumato.files import parse_json
from sfumato.lazy import special
from sfumato.maps.replication import UNMASKED, Evaluator
from sfumato.maps.search_space import Family, Point
from sfumato.typing import Numbers
from sfumato.version import VERSION

LEVEL = 0.95
"""Share of releases that stay below the limit."""


def release_values(measure: Measure, observations: Numbers) -> Numbers:
    """Return the measure's value for each single release, shape (m,), from observations of shape (m, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(measure.value(observations), np.float64)


@dataclass(frozen=True)
class ReleaseSpread:
    """The spread of a measure between releases: a standard deviation, its degrees of freedom, and its scale."""

    sd: float
    freedom: int
    log: bool

    @classmethod
    def pooled(cls, several: Iterable[Numbers]) -> ReleaseSpread:
        """Return the spread pooled over points, each with its values by release.

        On the logarithm if all values are positive, or 0 at some points: those tell nothing of how much others differ. On the
        plain scale if some are negative, or no point is free of 0.
        """
        used = [v for v in several if len(v) > 1 and np.isfinite(v).all()]
        positive = [v for v in used if (v > 0).all()]
        log = not used or (bool(positive) and all((v >= 0).all() for v in used))
        used = positive if log else used
        freedom = sum(len(v) - 1 for v in used)
        if not freedom:
            return cls(0.0, 0, log)
        total = sum(float(((w - w.mean()) ** 2).sum()) for w in (np.log(v) if log else v for v in used))
        return cls(math.sqrt(total / freedom), freedom, log)


@cache
def _student(freedom: int, level: float) -> float:
    return float(special.stdtrit(freedom, level))


def release_limit(values: Numbers, spread: ReleaseSpread | None = None, level: float = LEVEL) -> float:
    """Return the value below which a further release stays with probability `level`.

    A one-sided prediction limit from m releases under the normal model: mean + t s √(1 + 1/m), on the logarithm where all
    values are positive. `spread` is a standard deviation pooled over other points, for when m is small. Infinite where one
    release alone says nothing of how much they differ.
    """
    if not len(values) or np.isnan(values).any():
        return math.nan
    if not np.isfinite(values).all():
        return math.inf
    own = ReleaseSpread.pooled([values])
    known = spread if spread is not None and spread.freedom > own.freedom else own
    if not known.freedom:
        return math.inf
    half = _student(known.freedom, level) * math.sqrt(1 + 1 / len(values))
    if known.log and (values > 0).all():
        return float(np.exp(np.log(values).mean() + half * known.sd))
    sd = known.sd * abs(float(values.mean())) if known.log else known.sd
    return float(values.mean() + half * sd)


def limit_noise(values: Numbers, level: float = LEVEL) -> float:
    """Return about how well the logarithm of `release_limit` is known from m releases: s √(1/m + t²/(2(m - 1))).

    The two terms are the variances of the mean and of t times the standard deviation under the normal model. 0 where the limit
    is not a positive number.
    """
    m, own, limit = len(values), ReleaseSpread.pooled([values]), release_limit(values, level=level)
    if m < 2 or not 0 < limit < math.inf:
        return 0.0
    relative = own.sd if own.log else own.sd / limit
    return relative * math.sqrt(1 / m + _student(m - 1, level) ** 2 / (2 * (m - 1)))


# What a search has seen so far, in a file: so that it can be stopped and taken up again.
#
# It holds measures of releases, which are the custodian's business, but no record's value and no seed. What is looked up is keyed
# with the seed, so that the file is of use only together with the same data, recipes, measures, snoopers, seed and version.


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
        """Number of results found in the file."""
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


@dataclass(frozen=True, eq=False)
class Trial:
    """The observations of each measure at one point, shape (m, k); or the reason why there are none."""

    family: Family
    point: Point
    records: int
    observed: tuple[Numbers, ...] = ()
    refused: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters."""
        return self.family.settings(self.point)

    @property
    def replications(self) -> int:
        """Number of times the file was masked."""
        return len(self.observed[0]) if self.observed else 0

    def values(self, measure: int, measures: Sequence[Measure]) -> Numbers:
        """Return a measure's value for each release, shape (m,)."""
        return release_values(measures[measure], self.observed[measure])


@dataclass(eq=False)
class Trials:
    """Masks and measures at any point of any family, on the whole file or on a part of it, and remembers what it saw."""

    data: Microdata
    measures: tuple[Measure, ...]
    snooper: Snooper
    draws: Draws
    archive: Archive
    holdout: Holdout | None = None
    workers: int = 1
    after_each: Callable[[], None] = lambda: None
    """Called after each point that was looked at."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Families to which a measure does not apply, with the reason."""
    _parts: dict[int, Microdata] = field(default_factory=dict)
    _evaluators: dict[tuple[str, int], Evaluator] = field(default_factory=dict)

    def part(self, records: int) -> Microdata:
        """Return a random part of the file with about `records` records; whole households, where the schema names them."""
        if records >= len(self.data):
            return self.data
        if records not in self._parts:
            kept, _ = hold_out(self.data.local(), 1 - records / len(self.data), self.draws.child("part", records))
            self._parts[records] = kept
        return self._parts[records]

    def trial(self, family: Family, point: Point, records: int, replications: int, stream: str = "search") -> Trial:
        """Mask and measure at one point; a point that cannot be masked or measured is told from the others by its reason."""
        settings = family.settings(point)
        key = self.archive.key(family.name, settings, min(records, len(self.data)), replications, stream)
        seen = self.archive.get(key)
        if seen is None:
            seen = self._observe(family, settings, records, replications, stream)
            self.archive.put(key, seen)
        self.after_each()
        if isinstance(seen, str):
            return Trial(family, point, records, refused=seen)
        return Trial(family, point, records, seen)

    def _observe(self, family: Family, settings: Any, records: int, replications: int, stream: str) -> Seen:
        try:
            found = self._evaluator(family, records).observe([settings], replications, stream)
        except NotApplicable as reason:
            self.unfit.setdefault(family.name, str(reason))
            return str(reason)
        except SfumatoError as error:
            return str(error)
        return tuple(o[0] for o in found)

    def _evaluator(self, family: Family, records: int) -> Evaluator:
        if (family.name, records) not in self._evaluators:
            made = Evaluator.make(self.part(records), family.recipe, self.measures, self.snooper, self.draws)
            made = replace(made, workers=self.workers, holdout=self.holdout)
            self._evaluators[family.name, records] = made
        return self._evaluators[family.name, records]

    def unmasked(self, family: Family, records: int) -> tuple[Numbers, ...]:
        """Return what is seen of the file as it is; again and again where records are drawn afresh from the population."""
        key = self.archive.key("unmasked", min(records, len(self.data)))
        seen = self.archive.get(key)
        if seen is None:
            drawn = any(m.design == "population" for m in self.measures)
            found = self._evaluator(family, records).observe([UNMASKED], 30 if drawn else 2, "search")
            seen = tuple(o[0] for o in found)
            self.archive.put(key, seen)
        return seen  # type: ignore[return-value]
