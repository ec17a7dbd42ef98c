"""The two things that a user can get back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError, unknown_name

if TYPE_CHECKING:
    import altair as alt

_LONG, _HEAD = 200, 10
"""Of a table with more rows than the first, so many are printed; all of them are in `frame` and in JSON."""
_VALUES = str | float | int | bool | None


@dataclass(frozen=True)
class Refusal:
    """No answer: the rule that forbids it and what the user can do, never a count."""

    rule: str
    """Name of the rule."""
    reason: str
    suggestion: str
    nearest: Mapping[str, Any] | None = None
    """The nearest question that would pass, as JSON has it: a universe, and the analysis with its parameters."""

    def __str__(self) -> str:
        said = f"Refused by the {self.rule.replace('_', ' ')} rule: {self.reason} {self.suggestion}"
        return said if self.nearest is None else f"{said} Nearest question that would pass: {_question(self.nearest)}."

    def __bool__(self) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        told = {"refused": True, "rule": self.rule, "reason": self.reason, "suggestion": self.suggestion}
        return told if self.nearest is None else {**told, "nearest": dict(self.nearest)}


def _question(asked: Mapping[str, Any]) -> str:
    """Return a question in words for people.

    >>> _question({"universe": [{"sex": ["F"]}], "analysis": "cross_tab", "by": ["state"]})
    'cross_tab(by=["state"]) of [{"sex": ["F"]}]'
    """
    fields = ", ".join(
        f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in asked.items() if k not in ("universe", "analysis")
    )
    about = json.dumps(asked["universe"], ensure_ascii=False) if asked["universe"] else "everybody"
    return f"{asked['analysis']}({fields}) of {about}" if "analysis" in asked else f"the universe {about}"


@dataclass(frozen=True)
class Answer:
    """What an analysis found, protected and rounded. It carries neither a time nor a user: the same question, the same bytes."""

    analysis: str
    tables: Mapping[str, Sequence[Mapping[str, _VALUES]]]
    """Named tables, each a list of rows."""
    notes: tuple[str, ...]
    """What was done to protect the answer, in sentences."""
    dataset: str
    policy: str
    citation: str
    facts: Mapping[str, _VALUES] = field(default_factory=dict)
    """Single numbers, such as R²."""

    def frame(self, table: str = "") -> Any:
        """Return one of the tables as a pandas frame; the first, if none is named."""
        import pandas as pd

        return pd.DataFrame(list(self.tables[table or next(iter(self.tables))]))

    def wide(self, value: str = "count") -> Any:
        """Return a cross-tabulation as people print it, as a pandas frame: the last variable across, the others down."""
        cells = self.tables.get("cells")
        if self.analysis != "cross_tab" or cells is None:
            raise DataError(f"an answer of {self.analysis} is no cross-tabulation. Take its table: answer.frame().")
        table = self.frame("cells")
        sides = list(table.columns[: list(table.columns).index("count")])
        if value not in table.columns[len(sides) :]:
            raise DataError(unknown_name("column", value, table.columns[len(sides) :], "the cross-tabulation"))
        if len(sides) == 1:
            return table.set_index(sides)[[value]]
        order = [list(dict.fromkeys(table[side])) for side in sides]
        found = table.set_index(sides)[value].unstack(sides[-1])[order[-1]]
        return found.reindex(order[0]) if len(sides) == 2 else found

    def chart(self) -> alt.TopLevelMixin:
        """Draw it, if its analysis has a chart."""
        from sfumato.contract.parameters import find
        from sfumato.mas import analyses  # noqa: F401 - they are registered when they are read

        return find("analysis", self.analysis).chart(self)  # type: ignore[attr-defined, no-any-return]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "analysis": self.analysis, "dataset": self.dataset, "policy": self.policy, "citation": self.citation,
            "facts": _plain(self.facts), "tables": {k: [_plain(r) for r in rows] for k, rows in self.tables.items()},
            "notes": list(self.notes),
        }  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: equal for equal answers."""
        return json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()

    def __str__(self) -> str:
        return self.text()

    def text(self, wide: bool = False) -> str:
        """Return it for people; a cross-tabulation with its last variable across, if asked for."""
        parts = [f"{self.analysis} · {self.dataset} · {self.policy} · {self.citation}"]
        if wide:
            values = list(self.frame("cells").columns)
            for value in values[values.index("count") :]:
                parts += ["", value, self.wide(value).astype(object).map(_said).to_string()]
        for name in () if wide else self.tables:
            table = self.frame(name)
            shown = table if len(table) <= _LONG else table.head(_HEAD)
            parts += ["", name, shown.astype(object).map(_said).to_string(index=False)]
            parts += [f"… and {len(table) - _HEAD:,} more rows."] if len(table) > _LONG else []
        if self.facts:
            parts += ["", *(f"{name}: {_said(value)}" for name, value in self.facts.items())]
        return "\n".join([*parts, "", *self.notes])


def _said(value: _VALUES) -> str:
    """Return a value for people: no digit that was not published, thousands apart, and – where there is none.

    >>> _said(1005.0), _said(0.00074), _said(1.33e10), _said(3.94e-17), _said(None), _said("1 to 4")
    ('1,005', '0.00074', '13,300,000,000', '3.94e-17', '–', '1 to 4')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    whole = abs(value) < 1e15 and (value == int(value) or abs(value) >= 1e6)
    return f"{value:,.0f}" if whole else f"{value:,.6g}"


def _plain(row: Mapping[str, _VALUES]) -> dict[str, _VALUES]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
