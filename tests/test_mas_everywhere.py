"""What holds for every analysis: the same answers in every process and on every engine, and what leaves the engines is cells."""

from __future__ import annotations

import gc
import json
import logging
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mas_everything
import pytest
from mas_everything import ANALYSES, EXACT, HARDENED, asked, digests, filled, people
from mas_survey import microdata

from sfumato.contract import Draws, registered
from sfumato.data.warehouse import DuckDBWarehouse
from sfumato.mas.analyses import CrossTab
from sfumato.mas.drop_q import DropShare
from sfumato.mas.question import Analysis
from sfumato.mas.rules import AmountPPercent, Dominance
from sfumato.mas.vault import DryRun, Vault
from sfumato.testing.analyses import require_same_answer

N = 1_500
PARTS = 2_048
"""Most bins of a fine histogram."""


CELLS = 2 * 4 * 66
"""Cells at most: a grid of 64 bins, an open and a missing one, by up to three levels and a missing one, asked for twice."""


def test_every_analysis_is_among_the_questions() -> None:
    built_in = {kind for kind in registered("analysis").values() if kind.__module__.startswith("sfumato.")}
    assert {type(one) for one, _ in ANALYSES} == built_in - {DryRun}


def test_another_process_user_and_wording_get_the_same_bytes(tmp_path: Path) -> None:
    vault = filled(Vault.create(tmp_path / "v"), N)
    here = digests(vault, reworded=False, user="custodian")
    command = [sys.executable, mas_everything.__file__, str(vault.folder)]
    there = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(there) == here
    assert len(set(here)) == 2 * len(ANALYSES)


# -- what crosses


class Watch:
    """Counts what leaves the engine: the most rows of an aggregate, and the most numbers of a sum over pieces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = self.numbers = 0
        run, reduce = DuckDBWarehouse._run, DuckDBWarehouse.reduce

        def watched_run(warehouse: DuckDBWarehouse, *given: Any) -> Any:
            found = run(warehouse, *given)
            self.rows = max(self.rows, found.num_rows)
            return found

        def watched_reduce(warehouse: DuckDBWarehouse, *given: Any) -> Any:
            found = reduce(warehouse, *given)
            self.numbers = max(self.numbers, found.size)
            return found

        monkeypatch.setattr(DuckDBWarehouse, "_run", watched_run)
        monkeypatch.setattr(DuckDBWarehouse, "reduce", watched_reduce)

    def of(self, work: Callable[[], object]) -> tuple[int, int]:
        """Return the most rows and numbers while something is done."""
        self.rows = self.numbers = 0
        work()
        return self.rows, self.numbers


def test_what_leaves_the_engine_is_cells_whatever_the_number_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    found: list[dict[str, tuple[int, int]]] = []
    for n in (3 * N, 12 * N):  # enough that grids have all their bins
        vault = Vault.create(tmp_path / str(n))
        frame = people(n)
        crossed = {}

        def register(vault: Vault = vault, frame: Any = frame) -> None:
            vault.add("survey", microdata(frame), identity="person")
            vault.cutpoints("survey", "age", "minimum", d=len(frame) // 6)
            vault.freeze("survey", confirm=True)

        rows, _ = watch.of(register)
        assert rows <= 2 * PARTS  # bins of fine histograms
        for policy in (HARDENED, EXACT):
            for one, _ in ANALYSES:
                got = watch.of(lambda vault=vault, one=one, policy=policy: asked(vault, one, policy))
                crossed[f"{policy.title} {one}"] = got
        found.append(crossed)
    for name, (rows, numbers) in found[0].items():  # four times the records, and not a row more
        assert found[1][name][0] <= max(rows, CELLS), name
        assert found[1][name][1] <= numbers, name
    assert any(rows for rows, _ in found[0].values())
    assert any(numbers for _, numbers in found[0].values())
    assert max(rows for run in found for rows, _ in run.values()) <= CELLS


def test_nothing_of_a_record_is_written_or_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    for folder in (here, temporary):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    caplog.set_level(logging.DEBUG)
    frame = people(N)
    value = 98_765_432.125
    frame.loc[[0, 1], "income"] = value, 2 * value  # neither the largest, nor where a tail begins
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", microdata(frame), identity="person")
    before = set(vault.folder.rglob("*"))
    for policy in (HARDENED, EXACT):
        for one, _ in ANALYSES:
            if "age" not in str(getattr(one, "by", "")):
                asked(vault, one, policy)
    gc.collect()
    assert set(vault.folder.rglob("*")) == before
    assert list(here.iterdir()) == [p for p in temporary.rglob("*") if p.is_file()] == []
    written = [p.read_bytes() for p in vault.folder.rglob("*") if p.is_file() and p.suffix != ".parquet"]
    assert written
    for mark in (b"98765432", struct.pack("<d", value), struct.pack(">d", value)):
        assert not any(mark in content for content in written)
    said = caplog.text + "".join(capfd.readouterr())
    assert "98765432" not in said


# -- engines


FIRST = {"cross_tab", "logistic", "ols", "quantiles"}
"""Tables, several steps, totals and the design; contract/test_contract_analyses.py compares the answers of all."""


@pytest.mark.parametrize(
    "questions",
    [
        pytest.param([one for one, _ in ANALYSES if one.name in FIRST], id="of each kind"),
        pytest.param([one for one, _ in ANALYSES if one.name not in FIRST], id="others", marks=pytest.mark.verify),
    ],
)
def test_spark_gives_the_numbers_of_duckdb_and_lets_only_cells_out(
    questions: list[Analysis], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    here = filled(Vault.create(tmp_path / "duckdb", secret=Draws("both")), N)
    there = filled(Vault.create(tmp_path / "spark", spark=spark, secret=Draws("both")), N, spark)
    assert [v.dataset("survey").warehouse.name for v in (here, there)] == ["DuckDB", "Spark"]
    taken: list[int] = []

    def watched(plain: Callable[..., Any]) -> Callable[..., Any]:
        def way_out(*given: Any, **named: Any) -> Any:
            found = plain(*given, **named)
            taken.append(len(found))
            return found

        return way_out

    for way in ("collect", "toArrow", "toPandas", "toLocalIterator"):
        monkeypatch.setattr(DataFrame, way, watched(getattr(DataFrame, way)))
    dropped = EXACT.with_(drop=DropShare(share=0.1))  # drops, counts and moments before rounding
    for one in questions:
        require_same_answer(asked(here, one, dropped), asked(there, one, dropped), tolerance=1e-9)
    table = CrossTab(("sex", "sick"), of="income", weighted=True)
    contributions = HARDENED.with_(rules=(Dominance(k=20.0), AmountPPercent(p=2_000.0)))
    for policy in (HARDENED, contributions):
        assert asked(here, table, policy).to_bytes() == asked(there, table, policy).to_bytes()
    assert taken
    assert max(taken) <= CELLS
