"""The folder for the output checker: results, checks, the researcher's words, and checksums; whole or not at all."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, ParameterError, listing
from sfumato.files import whole_folder
from sfumato.mas.secure_room.output import Output
from sfumato.mas.secure_room.page import page
from sfumato.mas.secure_room.policy import OutputPolicy
from sfumato.version import VERSION

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
            f"these outputs fail, and no exception is requested: {listing(bare)}. Make them again with suppress=True, take them "
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
    """Return what to look at across outputs, in words.

    Another table may show the true totals of hidden cells; and two outputs of the same variables, of which one has a few records
    more, differ by what these records say.
    """
    tables = [o for o in outputs if o.kind == "table"]
    notes = []
    for hidden in (o for o in tables if o.suppressed):
        near = [o.name for o in tables if o is not hidden and _related(hidden, o)]
        if near:
            notes.append(
                f"{hidden.name} hides cells, and tables of the same variables are beside it: {listing(near)}. "
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


def _related(one: Output, other: Output) -> bool:
    return bool(set(one.variables) & set(other.variables))


def _write(output: Output, folder: Path) -> list[str]:
    """Write the files of an output; return their names, what would leave first."""
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
    """Return facts for JSON, which has no word for what is not a number."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


def _digest(path: str | os.PathLike[str]) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
