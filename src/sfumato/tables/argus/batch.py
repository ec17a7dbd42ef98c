"""Batch files of τ-ARGUS (.arb): read, and run with the methods here."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PureWindowsPath

from sfumato.errors import DataError, did_you_mean
from sfumato.tables.argus.text import beside, read_text

COMMANDS = (
    "OPENMICRODATA", "OPENTABLEDATA", "OPENMETADATA", "SPECIFYTABLE", "SAFETYRULE", "READMICRODATA", "READTABLE", "APRIORI",
    "RECODE", "SUPPRESS", "WRITETABLE", "CLEAR", "LOGBOOK", "VERSIONINFO", "SOLVER", "GOINTERACTIVE",
)  # fmt: skip
_NOTHING = ("LOGBOOK", "VERSIONINFO", "SOLVER", "GOINTERACTIVE", "READMICRODATA")
_SUPPRESSION = ("GH", "MOD", "OPT", "NET")
_METHODS = (*_SUPPRESSION, "RND", "CTA")


@dataclass(frozen=True)
class ArgusJob:
    """One table of a batch file: what it is made of, what makes its cells unsafe, how it is protected and where it goes."""

    data: Path
    metadata: Path | None
    tabular: bool
    """Whether the data are cells, not records."""
    dimensions: tuple[str, ...]
    response: str | None
    """None for a table of counts."""
    cost: str = "value"
    rules: str = ""
    """As τ-ARGUS writes them, without WGT, MIS and MAN."""
    margin: float = 20.0
    """Of cells made unsafe by hand, in percent (MAN)."""
    weighted: bool = False
    missing_safe: bool = False
    compute: bool = False
    a_priori: tuple[tuple[Path, str | None, bool], ...] = ()
    """Files, their separators, and whether errors are ignored."""
    recode: tuple[tuple[str, Path | int], ...] = ()
    method: str = ""
    """GH, MOD, OPT, NET, RND or CTA; empty for a table that is only looked at."""
    numbers: tuple[float, ...] = ()
    """What stands in the brackets after the table's number."""
    out: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    """What has no counterpart here, in sentences."""

    @property
    def random(self) -> bool:
        """Whether its protection draws random numbers, so that the seed must be kept."""
        return self.method == "RND"


@dataclass
class _Reading:
    path: Path
    data: Path | None = None
    tabular: bool = False
    metadata: Path | None = None
    tables: list[ArgusJob] = field(default_factory=list)
    done: list[ArgusJob] = field(default_factory=list)


def read_argus_batch(path: str | Path) -> list[ArgusJob]:
    """Read a batch file: a job for each of its tables, in their order."""
    found = _Reading(Path(path))
    for number, line in enumerate(read_text(path, "batch file").split("\n"), 1):
        text = re.sub(r"(?<!:)//.*", "", line).strip()
        if not text:
            continue
        command = re.match(r"<\s*(\w+)\s*>\s*(.*)", text)
        where = f"line {number} of the batch file {path}"
        if command is None or command[1].upper() not in COMMANDS:
            word = text.split()[0] if command is None else f"<{command[1]}>"
            raise DataError(
                f"{where} begins with '{word}', which is not understood."
                + did_you_mean(word.strip("<>").upper(), COMMANDS)
            )
        try:
            _take(found, command[1].upper(), command[2].strip())
        except (ValueError, IndexError, StopIteration, csv.Error):
            raise DataError(
                f"{where} cannot be understood: {_EXPECTED.get(command[1].upper(), 'see the manual')}."
            ) from None
    jobs = [*found.done, *found.tables]
    if not jobs:
        raise DataError(f"the batch file {path} specifies no table (<SPECIFYTABLE>).")
    return jobs


_EXPECTED = {
    "SPECIFYTABLE": 'it needs variables in quotes, and the response: "Region""Size"|"Turnover"||',
    "SAFETYRULE": "it needs rules such as P(10,1)|FREQ(3,10), after a table was specified",
    "APRIORI": 'it needs a file and a table\'s number: "wishes.hst",1,";",0,0',
    "RECODE": 'it needs a table\'s number, a variable, and a file or level: 1, Size, "size.grc"',
    "SUPPRESS": f"it needs one of {', '.join(_METHODS)} with a table's number, such as MOD(1)",
    "WRITETABLE": 'it needs a table\'s number, a form, options and a file: (1,3,AS-,"safe.txt")',
    "OPENMICRODATA": "the file is not there", "OPENTABLEDATA": "the file is not there",
    "OPENMETADATA": "the file is not there",
}  # fmt: skip


def _take(found: _Reading, command: str, text: str) -> None:
    if command in _NOTHING:
        return
    if command == "CLEAR":
        found.done += found.tables
        found.tables, found.data, found.metadata = [], None, None
    elif command in ("OPENMICRODATA", "OPENTABLEDATA"):
        found.data, found.tabular = _file(found, text), command == "OPENTABLEDATA"
    elif command == "OPENMETADATA":
        found.metadata = _file(found, text)
    elif command == "SPECIFYTABLE":
        found.tables.append(_table(found, text))
    elif command == "SAFETYRULE":
        found.tables[-1] = _rules(found.tables[-1], text)
    elif command == "READTABLE":
        found.tables = [replace(t, compute=text.startswith("1")) for t in found.tables]
    else:
        number, rest = _numbered(command, text)
        found.tables[number] = _on_table(found, command, found.tables[number], rest)


def _numbered(command: str, text: str) -> tuple[int, list[str]]:
    """Return the position of the table that a command is for, and its other arguments."""
    if command == "SUPPRESS":
        found = re.fullmatch(r"(\w+)\s*\(([^)]*)\)", text)
        if found is None:
            raise ValueError(text)
        method, inside = found.groups()
        number, *rest = [part.strip() for part in inside.split(",")]
        rest = [method.upper(), *rest]
    elif command == "APRIORI":
        words = _words(text)
        number, rest = words[1], [words[0], *words[2:]]
    else:
        number, *rest = _words(text.strip("()"))
    if int(number) < 1:
        raise ValueError(number)
    return int(number) - 1, rest


def _on_table(found: _Reading, command: str, job: ArgusJob, rest: Sequence[str]) -> ArgusJob:
    if command == "APRIORI":
        separator = rest[1] if len(rest) > 1 and rest[1] else None
        ignore = len(rest) > 2 and rest[2] == "1"
        return replace(job, a_priori=(*job.a_priori, (_file(found, rest[0]), separator, ignore)))
    if command == "RECODE":
        what = int(rest[1]) if rest[1].isdigit() else _file(found, rest[1])
        return replace(job, recode=(*job.recode, (rest[0], what)))
    if command == "SUPPRESS":
        if rest[0] not in _METHODS:
            raise ValueError(rest[0])
        numbers = tuple(float(x) for x in rest[1:] if x)
        if not all(map(math.isfinite, numbers)):
            raise ValueError(rest)
        return replace(job, method=rest[0], numbers=numbers)
    if len(rest) < 3 or not rest[2]:
        raise ValueError(rest)
    out = _target(found.path.parent, rest[2])
    notes = []
    if "AS+" in rest[1].upper().replace(" ", ""):
        notes.append(
            f"{out.name} is written without the values of cells that are not published (AS+ would have had them)."
        )
    return replace(job, out=(*job.out, out), notes=(*job.notes, *notes))


def _table(found: _Reading, text: str) -> ArgusJob:
    if found.data is None:
        raise ValueError("no data")
    spanning, response, shadow, cost, *_ = [*text.split("|"), "", "", "", ""]
    names = re.findall(r'"([^"]+)"', spanning)
    word = response.strip().strip('"')
    if not names or not word:
        raise ValueError(text)
    notes, costs = [], cost.strip().strip('"')
    if (own := shadow.strip().strip('"')) and own.casefold() != word.casefold():
        notes.append(f"rules look at {word} itself, not at the shadow variable {own}.")
    weighing = {"-1": "frequency", "-2": "unity", "": "value"}.get(costs, "value")
    if costs not in ("", "-1", "-2") and costs.casefold() != word.casefold() and not found.tabular:
        notes.append(
            "the cost of a cell is its value: other cost variables of microdata, and distances, have no counterpart."
        )
    return ArgusJob(
        found.data, found.metadata, found.tabular, tuple(names), None if word.casefold() == "<freq>" else word, weighing,
        notes=tuple(notes),
    )  # fmt: skip


def _rules(job: ArgusJob, text: str) -> ArgusJob:
    kept, changes = [], {}
    for part in filter(None, (p.strip() for p in text.split("|"))):
        switch = re.fullmatch(r"(WGT|MIS|MAN)\s*\(\s*([\d.]+)\s*\)", part, re.IGNORECASE)
        if switch is None:
            kept.append(part)
        else:
            name = {"WGT": "weighted", "MIS": "missing_safe", "MAN": "margin"}[switch[1].upper()]
            changes[name] = float(switch[2]) if name == "margin" else switch[2] == "1"
    return replace(job, rules="|".join(kept), **changes)  # type: ignore[arg-type]


def _file(found: _Reading, text: str) -> Path:
    name = text.strip().strip('"')
    there = beside(found.path, name)
    if there is None:
        raise DataError(
            f"the file {name}, which the batch file {found.path} names, is not there. Put it beside the batch file."
        )
    return there


def _target(folder: Path, name: str) -> Path:
    """Return where a table goes: beside the batch file, also if that names a folder of another machine."""
    given = PureWindowsPath(name)
    out = folder / (given.name if given.drive else given.as_posix())
    if not out.resolve().is_relative_to(folder.resolve()) or out.resolve() == folder.resolve():
        raise DataError(
            f"the batch file writes a table to {name}, outside its own folder. Tables go beside the batch file: name a file in "
            f'its folder, such as "safe.csv".'
        )
    return out


def _words(text: str) -> list[str]:
    """Return arguments with commas between, without quotes; a comma inside quotes does not count."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True))]
