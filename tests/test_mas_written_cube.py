"""The cube of known variables that a version keeps beside its records: that of the records, and no pass for what it tells."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.data.warehouse import DuckDBWarehouse
from sfumato.errors import DataError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.cube import Cubes
from sfumato.mas.dataset import Dataset
from sfumato.mas.drop_q import DropQ, DropShare
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.variable import Variable, finest
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

N = 4_000
SCHEMA = Schema((
    Attribute("person", role="identifier"), Attribute("sex", role="key", scale="unordered"),
    Attribute("state", role="key", scale="unordered"), Attribute("town", role="key", scale="unordered"),
    Attribute("sick", role="confidential", scale="unordered"), Attribute("income", role="confidential"),
    Attribute("weight", role="weight"),
))  # fmt: skip
RECODES = (
    LevelRecode("part", "state", {"north": ["S1", "S4"], "south": ["S2", "S3"]}),
    LevelRecode("coast", "state", {"yes": ["S2", "S4"], "no": ["S1", "S3"]}),
)


HARDENED = Policy.named("hardened").with_(accounts=UNLIMITED, per_minute=None)
POLICIES = (
    HARDENED, HARDENED.with_(title="tenth", drop=DropShare(share=0.1)), HARDENED.with_(title="five", drop=DropQ(q=5)), Policy.open(),
)  # fmt: skip


def people() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({
        "person": np.arange(N), "sex": rng.choice(["F", "M"], N, p=[0.4, 0.6]),
        "state": rng.choice(["S1", "S2", "S3", "S4"], N, p=[0.4, 0.3, 0.2, 0.1]),
        "town": rng.choice([f"T{i}" for i in range(30)], N), "sick": rng.choice(["no", "yes"], N),
        "income": rng.lognormal(10, 1, N).round(2), "weight": rng.uniform(1, 9, N),
    })  # fmt: skip
    frame.loc[:50, "sex"] = None
    return frame


def frozen(folder: Path, frame: pd.DataFrame | None = None) -> Vault:
    vault = Vault.create(folder)
    vault.freeze("people", Microdata(people() if frame is None else frame, SCHEMA), identity="person", recodes=RECODES)
    return vault


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return frozen(tmp_path / "v")


def home(vault: Vault) -> Path:
    return vault.folder / "datasets" / "people" / "1"


def written(data: Dataset) -> Any:
    (cube,) = data.cubes._written
    return cube


def passes(vault: Vault, monkeypatch: pytest.MonkeyPatch, universe: Any, analysis: CrossTab) -> int:
    """How many aggregates an answer takes."""
    asked: list[str] = []
    run = DuckDBWarehouse._run
    with monkeypatch.context() as patch:
        patch.setattr(DuckDBWarehouse, "_run", lambda self, sql, most: asked.append(sql) or run(self, sql, most))
        assert isinstance(vault.ask("people", universe, analysis), Answer)
    return len(asked)


def test_its_cells_are_those_of_the_records(vault: Vault) -> None:
    data = vault.dataset("people")
    cube = written(data)
    assert [v.name for v in cube.variables] == ["sex", "state"]  # with the 30 towns there would be 360 cells
    records = pd.read_parquet(home(vault) / "records.parquet")
    truth = records.groupby([v.codes for v in cube.variables])["r"].agg(["size", "sum"])
    assert cube.counts.sum() == N
    for place in np.ndindex(cube.counts.shape):
        size, digest = truth.loc[place] if place in truth.index else (0, 0)
        assert (cube.counts[place], cube.digests[place]) == (size, digest)


def test_a_first_question_takes_no_pass_for_what_the_cube_tells(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    universes = ({"sex": "F"}, {"sex": "M", "state": ["S1", "S2"]}, {"part": "north"}, None)
    tables = {("state",): 0, ("part", "sex"): 0, ("sick",): 1, ("sex", "sick"): 1, ("town",): 1}
    for universe, (by, most) in itertools.product(universes, tables.items()):
        assert passes(Vault.open(vault.folder), monkeypatch, universe, CrossTab(by)) == most
    again = Vault.open(vault.folder)  # the cube of a confidential variable, and of the sides, is made on first use
    assert [passes(again, monkeypatch, {"sick": "yes"}, CrossTab(("state",))) for _ in range(2)] == [
        2,
        0,
    ]  # and what rules look at
    (home(vault) / "cube.npz").unlink()
    assert (
        passes(Vault.open(vault.folder), monkeypatch, {"sex": "F"}, CrossTab(("sick",))) == 2
    )  # known variables, cells


def test_every_margin_and_recode_of_it_is_what_the_records_give(vault: Vault) -> None:
    data = vault.dataset("people")
    slow = DuckDBWarehouse(home(vault) / "records.parquet")
    names = ("coast", "part", "sex", "state")
    for some in itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(len(names) + 1)):
        before = data.warehouse.crossed
        found = Cubes(data.warehouse, written(data)).of([data.variables[name] for name in some])
        assert data.warehouse.crossed == before
        truth = Cubes(slow)._made(found.variables)
        assert (found.counts == truth.counts).all()
        assert (found.digests == truth.digests).all()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.title)
def test_answers_are_the_same_with_it_and_without_it(vault: Vault, policy: Policy) -> None:
    universes: tuple[Any, ...] = (
        None, {"sex": "F"}, {"sick": "yes"}, {"part": "south", "sick": "yes"}, "part == 'north' and state == 'S4'",
        "sex == 'F' and sick == 'yes' or state == 'S1'",
    )  # fmt: skip
    tables = (
        CrossTab(("part", "state")), CrossTab(("sick", "state"), weighted=True), CrossTab(("sex", "sick", "part")),
        CrossTab(("state",), of="income"), CrossTab(("sick",), of="income", weighted=True), CrossTab(("town",)),
    )  # fmt: skip

    def answers() -> list[bytes]:
        opened = Vault.open(vault.folder)
        found = [opened.ask("people", universe, one, policy) for universe in universes for one in tables]
        return [one.to_bytes() if isinstance(one, Answer) else one.rule.encode() for one in found]

    first = answers()
    assert len(set(first)) > len(universes) * len(tables) / 2
    (home(vault) / "cube.npz").unlink()
    assert answers() == first


def test_a_vault_that_never_had_one_answers(vault: Vault) -> None:
    asked = ("people", {"sex": "F"}, CrossTab(("sick",)))
    first = vault.ask(*asked).to_bytes()
    described = home(vault) / "dataset.toml"
    lines = described.read_text("utf-8").splitlines(keepends=True)
    described.write_text("".join(line for line in lines if not line.startswith("cube = ")), "utf-8")
    assert Vault.open(vault.folder).dataset("people").cubes._written == ()
    assert Vault.open(vault.folder).ask(*asked).to_bytes() == first


def test_a_damaged_one_and_that_of_other_records_are_refused_with_a_way_out(vault: Vault, tmp_path: Path) -> None:
    path = home(vault) / "cube.npz"
    content = path.read_bytes()
    other = frozen(tmp_path / "other", people().sample(frac=1, random_state=1).assign(person=np.arange(N)))
    foreign = (home(other) / "cube.npz").read_bytes()
    for wrong in (b"", content[:-9], content[:300] + bytes([content[300] ^ 1]) + content[301:], foreign):
        assert wrong != content
        path.write_bytes(wrong)
        with pytest.raises(DataError, match="damaged, or was written for other records") as refused:
            Vault.open(vault.folder).dataset("people")
        assert refused.value.__cause__ is None
    path.unlink()
    assert Vault.open(vault.folder).ask("people", {"sex": "F"}, CrossTab(("sick",)))


def test_as_many_known_variables_are_chosen_as_any_table_of_so_many_cells_can_have() -> None:
    sizes = {"a": 2, "b": 7, "c": 3, "d": 5, "e": 50, "f": 1}
    listed = [Variable(n, i, True, tuple(map(str, range(size)))) for i, (n, size) in enumerate(sizes.items())]
    coarse = Variable("g", 6, True, ("0", "1"), base=listed[1], groups=(0, 0, 0, 0, 1, 1, 1))
    hidden, number = Variable("h", 7, False, ("0", "1")), Variable("i", 8, True, numeric=True)
    variables = {v.name: v for v in (number, hidden, coarse, *listed)}
    for cells in (0, 1, 2, 5, 6, 29, 30, 209, 210, 10_499, 10_500):
        fits = [
            some for size in range(len(sizes) + 1) for some in itertools.combinations(sizes, size)
            if np.prod([sizes[n] for n in some]) <= cells
        ]  # fmt: skip
        found = tuple(v.name for v in finest(variables, cells))
        assert len(found) == max(map(len, fits), default=0)
        assert found in [*fits, ()]


def test_it_has_at_most_one_cell_for_a_hundred_records(tmp_path: Path) -> None:
    for n, names in ((150, []), (299, []), (300, ["sex"]), (1_199, ["sex"]), (1_200, ["sex", "state"])):
        vault = frozen(tmp_path / str(n), people().head(n))
        cube = written(vault.dataset("people"))
        assert [v.name for v in cube.variables] == names
        assert cube.counts.sum() == n
        assert cube.counts.size <= max(n / 100, 1)


def test_spark_writes_the_same_one(spark: Any, tmp_path: Path) -> None:
    here = frozen(tmp_path / "duckdb")
    there = Vault.create(tmp_path / "spark", spark=spark, secret=Draws.read(here.folder / "secret.toml"))
    frame = people()
    distributed = Microdata(spark.createDataFrame(frame), SCHEMA)
    data = there.freeze("people", distributed, identity="person", recodes=RECODES)
    assert data.warehouse.name == "Spark"
    one, other = written(here.dataset("people")), written(data)
    slow = Cubes(data.warehouse).of(other.variables)
    for cube in (other, slow):
        assert [v.name for v in cube.variables] == [v.name for v in one.variables]
        assert (cube.counts == one.counts).all()
        assert (cube.digests == one.digests).all()
    assert home(there).stat().st_mode & 0o777 == 0o700
    assert (home(there) / "cube.npz").stat().st_mode & 0o777 == 0o600
