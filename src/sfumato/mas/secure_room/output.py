"""An output of the room: what was asked, what came out, what the checks say, what the researcher says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["pass", "review", "fail"]
Kind = Literal["table", "model", "custom"]


@dataclass(frozen=True, eq=False)
class Output:
    """One recorded output; `SecureRoom.outputs` has them by name.

    A status of "pass" breaks no rule; "review" needs a person's eye; "fail" breaks a rule, and leaves only with an exception
    that the researcher requests and a checker grants.
    """

    name: str
    kind: Kind
    status: Status
    command: str
    """What was called, with the names of the columns."""
    summary: str
    """The checks in one line."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """What would leave: the table, or the coefficients of a model."""
    outcome: pd.DataFrame | None = None
    """For a table "ok" or the reasons, cell by cell; for a model a row for each check."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Single numbers of a model, such as its R²."""
    variables: tuple[str, ...] = ()
    records: int = 0
    """How many records it is made of; 0 where that is not known."""
    suppressed: bool = False
    """Whether cells were hidden."""
    path: Path | None = None
    """The file of a custom output."""
    digest: str = ""
    """SHA-256 of that file when it was recorded."""
    comments: tuple[str, ...] = ()
    exception: str = ""
    """Why it should leave although it fails: the researcher's request."""

    @property
    def failures(self) -> pd.DataFrame:
        """The cells or checks that are not "ok", a row each: where, and why."""
        import pandas as pd

        if self.outcome is None:
            return pd.DataFrame({"where": [], "why": []})
        if self.kind == "model":
            bad = self.outcome[self.outcome["status"] != "pass"]
            return pd.DataFrame({"where": bad.index, "why": bad["finding"].to_numpy()})
        texts = self.outcome.to_numpy()
        at = [(i, j) for i in range(texts.shape[0]) for j in range(texts.shape[1]) if texts[i, j] != "ok"]
        rows, columns = self.outcome.index, self.outcome.columns
        where = [" / ".join([*_words(rows[i]), *_words(columns[j])]) for i, j in at]
        return pd.DataFrame({"where": where, "why": [texts[i, j] for i, j in at]})

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.summary}", f"  {self.command}"]
        lines += [f"  comment: {comment}" for comment in self.comments]
        lines += [f"  exception requested: {self.exception}"] if self.exception else []
        return "\n".join(lines)


def _words(label: object) -> list[str]:
    return [str(part) for part in label if str(part)] if isinstance(label, tuple) else [str(label)]
