"""What a batch file of τ-ARGUS asks for, done with the methods here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError
from sfumato.files import publishing, whole_file
from sfumato.tables.a_priori import APriori
from sfumato.tables.argus.batch import ArgusJob, read_argus_batch
from sfumato.tables.argus.hst import read_argus_a_priori
from sfumato.tables.argus.metadata import read_argus_metadata
from sfumato.tables.argus.microdata import read_argus_microdata
from sfumato.tables.argus.recode import recode_by_argus
from sfumato.tables.argus.tab import read_argus_table
from sfumato.tables.published import PublishedTable
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.table import Table

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
    found = []
    for result in _results(jobs, draws or Draws.secret()):
        more = (_TOGETHER,) if several else ()
        found.append(result._replace(notes=(*result.notes, *more)))
    if write:
        _write(found, secrets or {})
    return found


def _write(results: list[ArgusResult], secrets: Mapping[Path, str]) -> None:
    from sfumato.tables.exports.write import table_writer

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
        table, wanted = _cells(job) if job.tabular else _records(job)
        for file, separator, ignore in job.a_priori:
            wanted |= read_argus_a_priori(file, table, separator=separator, ignore_errors=ignore)
        if job.missing_safe:
            at = [tuple(row) for row in table.cells.labels.tolist() if _MISSING in row]
            wanted |= APriori(statuses=dict.fromkeys(at, "safe"))
        yield ArgusResult(job, _protect(job, table, wanted, draws), job.notes)


def _cells(job: ArgusJob) -> tuple[Table, APriori]:
    return read_argus_table(
        job.data,
        job.metadata,
        value=job.response,
        dimensions=job.dimensions,
        margins="compute" if job.compute else "check",
    )


def _records(job: ArgusJob) -> tuple[Table, APriori]:
    described = read_argus_metadata(job.metadata) if job.metadata is not None else None
    data = read_argus_microdata(job.data, described)
    if not job.weighted and (weight := data.schema.one("weight")) is not None:
        data = data.with_schema(data.schema.change(weight, role="other"))
    for column, what in job.recode:
        data = recode_by_argus(data, column, what)
    asked = next((v.name for v in described.of_role("request")), None) if described is not None else None
    formula = " * ".join(f"`{name}`" for name in job.dimensions)
    return Table.of(data, formula, job.response, request=asked), APriori()


def _protect(job: ArgusJob, table: Table, wanted: APriori, draws: Draws) -> PublishedTable:
    from sfumato.tables.controlled_adjustment import ControlledAdjustment
    from sfumato.tables.rounding import ControlledRounding
    from sfumato.tables.suppression import Suppression

    if job.method == "RND":
        return ControlledRounding(base=job.numbers[0]).protect(table, draws)
    rules = _rules(job)
    if job.method == "CTA":
        return ControlledAdjustment(rules=rules).protect(table, draws)
    bounds = job.numbers[0] if job.method == "GH" and job.numbers and job.numbers[0] > 0 else None
    return Suppression(rules=rules, cost=job.cost, a_priori=wanted, bounds=bounds).protect(table, draws)


def _rules(job: ArgusJob) -> SensitivityRule:
    from sfumato.tables.rules import rules_of

    return rules_of(f"{job.rules}|MAN({job.margin:g})")


__all__ = ["ArgusResult", "run_argus_batch"]
