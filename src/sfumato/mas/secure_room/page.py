"""The index that an output checker reads in a browser: no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from sfumato.mas.secure_room.output import Output

if TYPE_CHECKING:
    from jinja2 import Template


def page(outputs: Sequence[Output], files: Mapping[str, list[str]], policy: str, notes: Sequence[str]) -> str:
    """Return the index as HTML; words of researchers and labels of data are escaped."""
    counts = {s: sum(o.status == s for o in outputs) for s in ("fail", "review", "pass")}
    shown = [{"output": o, "files": files[o.name], "tables": _tables(o)} for o in outputs]
    return _template().render(outputs=shown, policy=policy, notes=notes, counts=counts)


@cache
def _template() -> Template:
    from jinja2 import Environment

    text = resources.files("sfumato.mas.secure_room").joinpath("page.html.j2").read_text("utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


def _tables(output: Output) -> list[dict[str, Any]]:
    """Return tables as rows of texts; cells that do not pass carry their reason."""
    found = []
    for name, table in output.tables.items():
        why = output.outcome.to_numpy() if output.kind == "table" and output.outcome is not None else None
        rows = []
        for i, label in enumerate(table.index):
            cells = [
                {
                    "text": _text(value),
                    "why": "" if why is None or why[i, j] == "ok" or not isinstance(why[i, j], str) else why[i, j],
                }
                for j, value in enumerate(table.iloc[i])
            ]
            rows.append({"label": _label(label), "cells": cells})
        corner = " / ".join(str(n) for n in table.index.names if n is not None)
        found.append({"name": name, "corner": corner, "heads": [_label(c) for c in table.columns], "rows": rows})
    return found


def _label(label: object) -> str:
    return " / ".join(str(p) for p in label if str(p)) if isinstance(label, tuple) else str(label)


def _text(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"
    return str(value)
