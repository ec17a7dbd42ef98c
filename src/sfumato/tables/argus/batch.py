"""Batch files of τ-ARGUS (.arb): read, and run with the methods here."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PureWindowsPath
from typing import Literal, NamedTuple

from sfumato.contract.draws import Draws
from sfumato.errors import DataError, ParameterError, did_you_mean
from sfumato.files import publishing, whole_file
from sfumato.tables.argus.cell_files import read_argus_a_priori, recode_by_argus
from sfumato.tables.argus.data_files import read_argus_microdata, read_argus_table
from sfumato.tables.argus.hierarchy_files import beside, read_text
from sfumato.tables.argus.metadata import read_argus_metadata
from sfumato.tables.published import PublishedTable
from sfumato.tables.sensitivity import APriori
from sfumato.tables.table import Table

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


_MISSING = "missing"
"""The label of codes for missing in a table of records."""


class ArgusResult(NamedTuple):
    """One table of a batch file, protected."""

    job: ArgusJob
    published: PublishedTable
    notes: tuple[str, ...]
    """What was done otherwise than τ-ARGUS would have, in sentences."""


def run_argus_batch(
    path: str | Path,
    draws: Draws | None = None,
    *,
    write: bool = True,
    secrets: Mapping[Path, str] | None = None,
) -> list[ArgusResult]:
    """Run a batch file: make or read its tables, protect them, and write what may be published (.csv) where it says.

    GH, MOD, OPT and NET are `Suppression`, with its audit of the whole table; RND is `ControlledRounding`, CTA
    `ControlledAdjustment`. Tables that no <SUPPRESS> is for are left out. Several tables of one variable are protected one by
    one, and a note says that whoever reads all of them may work out more.

    Parameters
    ----------
    path
        The .arb file; files that it names are looked for beside it.
    draws
        Randomness, for rounding; `Draws.secret()` is a fresh seed, to be kept. Not needed where nothing is random.
    write
        Whether to write the tables: all of them, after the last one is protected.
    secrets
        Texts of confidential files, such as ``{seed_file: draws.seed_text()}``, that are kept before the first table appears.
    """
    jobs = [job for job in read_argus_batch(path) if job.method]
    if not jobs:
        raise DataError(f"the batch file {path} protects no table (<SUPPRESS>).")
    if any(job.random and not job.numbers for job in jobs):
        raise DataError("RND needs a base: <SUPPRESS> RND(1,5) rounds table 1 to multiples of 5.")
    if draws is None and write and any(job.random for job in jobs):
        raise ParameterError(
            "the batch file rounds at random (RND), and the seed must be kept: give draws=Draws.secret(), and "
            "secrets={path: draws.seed_text()} to keep it before the tables appear."
        )
    outs = [out.resolve() for job in jobs for out in job.out]
    if len(set(outs)) < len(outs):
        raise DataError(f"the batch file {path} writes two tables to one file (<WRITETABLE>). Name a file for each.")
    several = len({(j.data, j.response) for j in jobs}) < len(jobs)
    more = (_TOGETHER,) if several else ()
    found = [r._replace(notes=(*r.notes, *more)) for r in _results(jobs, draws or Draws.secret())]
    if write:
        _write(found, secrets or {})
    return found


def _write(results: list[ArgusResult], secrets: Mapping[Path, str]) -> None:
    from sfumato.tables.exports import table_writer

    writers = {out: table_writer(r.published, out, "csv") for r in results for out in r.job.out}
    with publishing(*map(whole_file, writers), secrets=secrets) as temporaries:
        for temporary, write in zip(temporaries, writers.values(), strict=True):
            write(temporary)


_TOGETHER = (
    "several tables of one variable were protected one by one, as τ-ARGUS does: what is safe in each may not be so in all "
    "together. One formula ('a * b + a * c') protects them in one go."
)


def _results(jobs: list[ArgusJob], draws: Draws) -> Iterator[ArgusResult]:
    for job in jobs:
        if job.tabular:
            margins: Literal["compute", "check"] = "compute" if job.compute else "check"
            table, wanted = read_argus_table(
                job.data, job.metadata, value=job.response, dimensions=job.dimensions, margins=margins
            )
        else:
            table, wanted = _records(job), APriori()
        for file, separator, ignore in job.a_priori:
            wanted |= read_argus_a_priori(file, table, separator=separator, ignore_errors=ignore)
        if job.missing_safe:
            at = [tuple(row) for row in table.cells.labels.tolist() if _MISSING in row]
            wanted |= APriori(statuses=dict.fromkeys(at, "safe"))
        yield ArgusResult(job, _protect(job, table, wanted, draws), job.notes)


def _records(job: ArgusJob) -> Table:
    described = read_argus_metadata(job.metadata) if job.metadata is not None else None
    data = read_argus_microdata(job.data, described)
    if not job.weighted and (weight := data.schema.one("weight")) is not None:
        data = data.with_schema(data.schema.change(weight, role="other"))
    for column, what in job.recode:
        data = recode_by_argus(data, column, what)
    asked = next((v.name for v in described.of_role("request")), None) if described is not None else None
    formula = " * ".join(f"`{name}`" for name in job.dimensions)
    return Table.of(data, formula, job.response, request=asked)


def _protect(job: ArgusJob, table: Table, wanted: APriori, draws: Draws) -> PublishedTable:
    from sfumato.tables.controlled_adjustment import ControlledAdjustment
    from sfumato.tables.controlled_rounding import ControlledRounding
    from sfumato.tables.rules import rules_of
    from sfumato.tables.suppression.suppression import Suppression

    if job.method == "RND":
        return ControlledRounding(base=job.numbers[0]).protect(table, draws)
    rules = rules_of(f"{job.rules}|MAN({job.margin:g})")
    if job.method == "CTA":
        return ControlledAdjustment(rules=rules).protect(table, draws)
    bounds = job.numbers[0] if job.method == "GH" and job.numbers and job.numbers[0] > 0 else None
    return Suppression(rules=rules, cost=job.cost, a_priori=wanted, bounds=bounds).protect(table, draws)
