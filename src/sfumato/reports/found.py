"""A search as a report reads it: from the search itself, or from what `sfumato search --json` wrote."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.contract import Recipe
from sfumato.decision import SearchResult
from sfumato.errors import DataError, SfumatoError
from sfumato.files import parse_json

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = {
    "families": list, "snoopers": dict, "thresholds": dict, "refused": dict, "choice": dict, "frontier": list, "points": list,
    "records": int,
}  # fmt: skip
_CHOICE = ("feasible", "family", "settings", "reason", "risks", "utilities", "limits")
_INSIDE = {
    "families": ("name", "recipe", "searched"),
    "points": (
        "point", "family", "recipe", "replications", "side", "measure", "scenario", "value", "low", "high", "limit",
        "threshold", "meets", "chosen", "probability",
    ),
    "frontier": (
        "point", "family", "recipe", "risk", "risk_low", "risk_high", "limit", "utility", "utility_low", "utility_high",
        "probability", "meets", "chosen",
    ),
}  # fmt: skip
_NUMBERS = (
    "value", "low", "high", "limit", "threshold", "unmasked", "probability", "risk", "risk_low", "risk_high", "utility",
    "utility_low", "utility_high",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found, as data: `facts` is `SearchResult.to_dict()`."""

    facts: Mapping[str, Any]
    search: SearchResult | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: SearchResult | Mapping[str, Any]) -> Found:
        """Take a search, or its data."""
        if isinstance(given, SearchResult):
            return cls(given.to_dict(), given)
        wrong = [
            k for k, sort in _NEEDED.items() if not isinstance(given, Mapping) or not isinstance(given.get(k), sort)
        ]
        wrong += [] if wrong else [k for k in _CHOICE if k not in given["choice"]]
        wrong += (
            []
            if wrong
            else [f"{k}.{n}" for k, names in _INSIDE.items() for row in given[k] for n in _absent(row, names)]
        )
        if wrong:
            raise DataError(
                f"this is not what a search writes: '{wrong[0]}' is missing or of another kind. Take the output of "
                "`sfumato search --json`, or SearchResult.to_dict()."
            )
        return cls({k: given[k] for k in _NEEDED})

    @classmethod
    def read(cls, path: str | Path) -> Found:
        """Read a file that `sfumato search --json` wrote."""
        try:
            given = parse_json(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise DataError(f"there is no file {path}.") from None
        except (OSError, ValueError):
            raise DataError(
                f"{path} cannot be read as the JSON of a search: take the output of `sfumato search --json`."
            ) from None
        try:
            return cls.of(given)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    @property
    def choice(self) -> Mapping[str, Any]:
        """The choice, as data."""
        chosen: Mapping[str, Any] = self.facts["choice"]
        return chosen

    @property
    def feasible(self) -> bool:
        """Whether there is an answer."""
        return bool(self.choice["feasible"])

    @property
    def families(self) -> tuple[str, ...]:
        """The names of the recipes that were tried."""
        return tuple(str(f["name"]) for f in self.facts["families"])

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every point on the whole file, as `SearchResult.frame`."""
        return _frame(self.facts["points"])

    @cached_property
    def frontier(self) -> pd.DataFrame:
        """The frontier, as `SearchResult.frontier()`."""
        return _frame(self.facts["frontier"])

    @cached_property
    def recipe(self) -> Recipe | None:
        """The recipe of the chosen family; None if it has parameters that were withheld, so that it cannot be read."""
        if self.search is not None:
            return self.search.choice.recipe
        text = next((f["recipe"] for f in self.facts["families"] if f["name"] == self.choice["family"]), "")
        try:
            return Recipe.from_toml(text)
        except SfumatoError:
            return None

    @property
    def secret(self) -> bool:
        """Whether the chosen recipe has, or may have, parameters that analysts must not be told."""
        return self.recipe is None or bool(secret_steps(self.recipe))

    def published(self) -> dict[str, Any]:
        """Return the chosen parameters that analysts may be told; none where that is not known."""
        known = {} if self.recipe is None else self.recipe.parameters()
        told = {path: ".".join(path.split(".")[:2]) for path in self.choice["settings"]}
        settings = self.choice["settings"]
        return {p: settings[p] for p, own in told.items() if own in known and known[own].tells(settings[p])}


def _absent(row: Any, names: Sequence[str]) -> list[str]:
    return [n for n in names if not isinstance(row, Mapping) or n not in row]


def secret_steps(recipe: Recipe) -> set[str]:
    """Return the steps that have a parameter that analysts must not be told, set or left out of a published recipe."""
    return {path.partition(".")[0] for path, parameter in recipe.parameters().items() if not parameter.published}


def _frame(rows: list[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    for name in (n for n in _NUMBERS if n in frame):
        frame[name] = [math.nan if v is None else float(v) for v in frame[name]]
    return frame
