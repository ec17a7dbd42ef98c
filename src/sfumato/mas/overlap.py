"""Alerts for the custodian: universes that differ from earlier ones by few records, whoever asked for them.

It does not refuse: as a rule it grew to a quarter of honest requests, told users what others had asked, and did not stop
trackers (MAS.md). Two universes that differ by few records are nearly equal in size. So the ledger keeps a keyed mark of the
size of each, finds those near a new one by their marks, and counts the difference of these few alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.mas.selection import Selection, spread
from sfumato.mas.universe import Universe

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset
    from sfumato.mas.log import Entry

FEW = 20
"""From how many records on a difference is large enough."""
_CELLS = 100_000


@dataclass(frozen=True)
class Alert:
    """A question about a universe that differs by few records from others that were answered. For the custodian alone."""

    entry: Entry
    near: tuple[Entry, ...]
    """The earlier ones: of the same user, where that user asked about them, else the first."""

    def __str__(self) -> str:
        lines = [f"Line {self.entry.seq:,}, {self.entry.user}: {_asked(self.entry)}"]
        lines += [f"  differs by few records from line {e.seq:,}, {e.user}: {_asked(e)}" for e in self.near]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"line": self.entry.seq, "user": self.entry.user, "near": [[e.seq, e.user] for e in self.near]}


@dataclass(frozen=True, eq=False)
class Place:
    """Where an answered universe stands among those that were answered before."""

    dataset: Dataset
    selection: Selection
    judged: dict[str, bool] = field(default_factory=dict)
    """Which earlier universes differ from it by few records, as far as they were compared."""

    @cached_property
    def words(self) -> str:
        """A digest of the canonical wording."""
        return hashlib.sha256(self.selection.words().encode()).hexdigest()

    @cached_property
    def marks(self) -> tuple[str, str, str]:
        """What universes of about this size are marked with, then smaller and larger ones: told to nobody without the secret."""
        plain = self.selection.plain
        size = self.dataset.cubes.of(plain.variables).count(plain) // FEW
        own, less, more = (self.dataset.secret.citation("size", self.dataset.label, str(size + i)) for i in (0, -1, 1))
        return own, less, more

    def near(self, earlier: Mapping[str, Any]) -> list[str]:
        """Return which of some earlier universes (their pieces by their words) differ by few records, and by some."""
        for words, pieces in earlier.items():
            if words not in self.judged:
                other = Selection.of(Universe.of(pieces), self.dataset.variables)
                self.judged[words] = 0 < self._difference(other) < FEW
        return [words for words in earlier if self.judged[words]]

    def _difference(self, other: Selection) -> int:
        """Return how many records one of two universes has and the other has not: from the cube, or where the records live."""
        one, two = self.selection.plain, other.plain
        names = {v.name: v for v in (*one.variables, *two.variables)}
        both = [names[name] for name in sorted(names)]
        if math.prod(len(v.levels) for v in both) <= _CELLS:
            counts = self.dataset.cubes.of(both).counts
            return int(counts[spread(one, both) != spread(two, both)].sum())
        differs = f"SELECT count(*) AS n FROM records WHERE ({one.where()}) <> ({two.where()})"  # noqa: S608 - names of our own
        return int(self.dataset.warehouse.ask(differs)["n"][0])


def alerts_in(entries: Iterable[Entry]) -> list[Alert]:
    """Return the alerts of a log, in order."""
    seen: dict[int, Entry] = {}
    found = []
    for entry in entries:
        seen[entry.seq] = entry
        if near := entry.content.get("near"):
            found.append(Alert(entry, tuple(seen[seq] for seq in near)))
    return found


def _asked(entry: Entry) -> str:
    universe = json.dumps(entry.content.get("universe", []), ensure_ascii=False)
    return f"{entry.content.get('analysis')} of {'everybody' if universe == '[]' else universe}"
