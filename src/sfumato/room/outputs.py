"""Outputs of the room and the folder for the output checker: results, checks, the researcher's comments, checksums."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from sfumato.errors import DataError, ParameterError, join_names
from sfumato.files import whole_folder
from sfumato.room.policy import OutputPolicy
from sfumato.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Template

Status = Literal["pass", "review", "fail"]
Kind = Literal["table", "model", "custom"]


@dataclass(frozen=True, eq=False)
class Output:
    """One recorded output; `SecureRoom.outputs` has them by name.

    A status of "pass" breaks no rule; "review" needs a person; "fail" breaks a rule, and leaves only with an exception that the
    researcher requests and a checker grants.
    """

    name: str
    kind: Kind
    status: Status
    command: str
    """The call, with the names of the columns."""
    summary: str
    """The checks in one line."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """The parts that would leave: the table, or the coefficients of a model."""
    outcome: pd.DataFrame | None = None
    """For a table "ok" or the reasons, cell by cell; for a model a row for each check."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Single numbers of a model, such as its R²."""
    variables: tuple[str, ...] = ()
    records: int = 0
    """Number of records it is computed from; 0 if unknown."""
    suppressed: bool = False
    """Whether cells were hidden."""
    path: Path | None = None
    """The file of a custom output."""
    digest: str = ""
    """SHA-256 of that file when it was recorded."""
    comments: tuple[str, ...] = ()
    exception: str = ""
    """The researcher's reason why it should leave although it fails."""

    @property
    def failures(self) -> pd.DataFrame:
        """The cells or checks that are not "ok", a row each: where, and why."""
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


def page(outputs: Sequence[Output], files: Mapping[str, list[str]], policy: str, notes: Sequence[str]) -> str:
    """Return the index as HTML; researchers' comments and labels of data are escaped."""
    counts = {s: sum(o.status == s for o in outputs) for s in ("fail", "review", "pass")}
    shown = [{"output": o, "files": files[o.name], "tables": _tables(o)} for o in outputs]
    return _template().render(outputs=shown, policy=policy, notes=notes, counts=counts)


@cache
def _template() -> Template:
    from jinja2 import Environment

    text = resources.files("sfumato.room").joinpath("page.html.j2").read_text("utf-8")
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


# --- The folder for the output checker: results, checks, the researcher's comments, and checksums; whole or not at all.

CHECKSUMS = "checksums.sha256"


def write_folder(folder: str | Path, outputs: Sequence[Output], policy: OutputPolicy) -> Path:
    """Write index.html, index.json, policy.toml, the outputs and their checksums to a folder that does not exist yet."""
    target = Path(folder).absolute()
    if target.exists() or target.is_symlink():
        raise DataError(f"{target} exists already. Give the name of a new folder, so that nothing is mixed up.")
    if not outputs:
        raise ParameterError("nothing has been recorded yet, so that there is nothing to write.")
    if bare := [o.name for o in outputs if o.status == "fail" and not o.exception]:
        raise ParameterError(
            f"these outputs fail, and no exception is requested: {join_names(bare)}. Make them again with suppress=True, take them "
            "out (remove_output), or say why they should leave (add_exception)."
        )
    notes = together(outputs, policy.group)
    with whole_folder(target) as temporary:
        files = {output.name: _write(output, temporary) for output in outputs}
        (temporary / "policy.toml").write_text(policy.to_toml(), "utf-8")
        index = _index(outputs, files, policy, notes, temporary)
        text = json.dumps(index, indent=2, ensure_ascii=False, allow_nan=False)
        (temporary / "index.json").write_text(text + "\n", "utf-8")
        (temporary / "index.html").write_text(page(outputs, files, policy.label, notes), "utf-8")
        written = sorted(p.relative_to(temporary).as_posix() for p in temporary.rglob("*") if p.is_file())
        lines = "".join(f"{_digest(temporary / name)}  {name}\n" for name in written)
        (temporary / CHECKSUMS).write_text(lines, "utf-8")
        if target.exists():
            raise DataError(f"{target} exists already. Give the name of a new folder, so that nothing is mixed up.")
    return target


def together(outputs: Sequence[Output], fewest: int) -> list[str]:
    """Return points to check across outputs, in sentences.

    Another table may show the true totals of hidden cells. Two outputs of the same variables, one with a few more records,
    disclose these records by their difference.
    """
    tables = [o for o in outputs if o.kind == "table"]
    notes = []
    for hidden in (o for o in tables if o.suppressed):
        near = [o.name for o in tables if o is not hidden and {*hidden.variables} & {*o.variables}]
        if near:
            notes.append(
                f"{hidden.name} hides cells, and tables of the same variables are beside it: {join_names(near)}. "
                "Check that no hidden cell is the difference of two of them."
            )
    for one, other in itertools.combinations(outputs, 2):
        alike = one.kind == other.kind and one.variables and set(one.variables) == set(other.variables)
        if alike and one.records and 0 < abs(one.records - other.records) < fewest:
            notes.append(
                f"{one.name} and {other.name} have the same variables, and differ by fewer than {fewest} records. Check that "
                "their difference does not tell of these."
            )
    return notes


def _write(output: Output, folder: Path) -> list[str]:
    """Write the files of an output; return their names, those that would leave first."""
    home = folder / "outputs"
    home.mkdir(exist_ok=True)
    written = []
    if output.path is not None:
        target = home / f"{output.name}{output.path.suffix}"
        try:
            shutil.copyfile(output.path, target)
        except OSError:
            raise DataError(f"the file of '{output.name}' cannot be read any more; record it again.") from None
        if _digest(target) != output.digest:
            raise DataError(f"the file of '{output.name}' has changed since it was recorded. Record it again.")
        written.append(target)
    for name, table in output.tables.items():
        target = home / f"{output.name}.{name}.csv"
        table.to_csv(target)
        written.append(target)
    if output.facts:
        target = home / f"{output.name}.json"
        target.write_text(json.dumps(_plain(output.facts), indent=2, ensure_ascii=False) + "\n", "utf-8")
        written.append(target)
    if output.outcome is not None:
        checks = folder / "checks"
        checks.mkdir(exist_ok=True)
        target = checks / f"{output.name}.csv"
        output.outcome.to_csv(target)
        written.append(target)
    return [p.relative_to(folder).as_posix() for p in written]


def _index(
    outputs: Sequence[Output], files: Mapping[str, list[str]], policy: OutputPolicy, notes: list[str], folder: Path
) -> dict[str, Any]:
    return {
        "sfumato": VERSION,
        "policy": policy.label,
        "notes": notes,
        "outputs": [
            {
                "name": o.name,
                "kind": o.kind,
                "status": o.status,
                "summary": o.summary,
                "command": o.command,
                "suppressed": o.suppressed,
                "comments": list(o.comments),
                "exception": o.exception,
                "failures": [dict(zip(("where", "why"), row, strict=True)) for row in o.failures.to_numpy().tolist()],
                "files": [{"path": name, "sha256": _digest(folder / name)} for name in files[o.name]],
            }
            for o in outputs
        ],
    }


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts for JSON, which cannot represent NaN."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


def _digest(path: str | os.PathLike[str]) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
