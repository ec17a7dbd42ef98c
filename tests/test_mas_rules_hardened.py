"""The universe rules of the hardened policy, against a slow twin on sets of cells, and what a refusal can tell."""

from __future__ import annotations

import itertools
import re
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mas_cases import UNLIMITED, asked, random_piece, refusal, rule, vault_of
from scipy import stats

from sfumato.contract import Draws
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Counts, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rules import LeftOut, LevelSize, NoMarginal, PieceDifference, UniverseSize
from sfumato.mas.sums import SumsRequest, TableSums
from sfumato.mas.universe import Universe
from sfumato.mas.vault import DryRun, Vault

HARDENED = Policy.named("hardened")
Cell = tuple[str, ...]


def survey(n: int, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M"], n), "state": rng.choice(["S1", "S2", "S3"], n, p=[0.6, 0.3, 0.1]),
        "race": rng.choice(["A", "B", "O"], n, p=[0.8, 0.17, 0.03]), "sick": rng.choice(["no", "yes"], n, p=[0.8, 0.2]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, pd.DataFrame]:
    frame = survey(3_000)
    return vault_of(tmp_path_factory.mktemp("vault") / "v", frame, {"sick": "confidential"}), frame


class Twin:
    """A universe as a set of cells of all variables, and its rules by counting."""

    def __init__(self, frame: pd.DataFrame, pieces: list[dict[str, list[str]]]) -> None:
        self.names = list(frame)
        self.levels = {n: sorted(frame[n].unique()) for n in self.names}
        self.count = defaultdict(int, frame.value_counts().to_dict())
        self.pieces = [
            {cell for cell in self.cells() if all(cell[self.names.index(n)] in v for n, v in piece.items())}
            for piece in pieces
        ]
        self.universe = set().union(*self.pieces)

    def cells(self) -> list[Cell]:
        return list(itertools.product(*self.levels.values()))

    def size(self, cells: set[Cell]) -> int:
        return sum(self.count[cell] for cell in cells)

    def deciding(self, name: str) -> bool:
        """Whether a variable matters: some cell is in the universe, and another that differs in it alone is not."""
        i = self.names.index(name)
        lines = defaultdict(set)
        for cell in self.cells():
            lines[cell[:i] + cell[i + 1 :]].add(cell in self.universe)
        return any(len(line) == 2 for line in lines.values())

    def level_sizes(self) -> list[int]:
        parts = [
            {cell for cell in self.universe if cell[i] == level}
            for i, name in enumerate(self.names) if self.deciding(name) for level in self.levels[name]
        ]  # fmt: skip
        return [self.size(part) for part in parts if part]

    def left_out(self) -> list[int]:
        sizes = []
        for i, name in enumerate(self.names):
            conditions: dict[frozenset[str], set[Cell]] = defaultdict(set)
            for rest in itertools.product(*(self.levels[n] for n in self.names if n != name)):
                line = {level: (*rest[:i], level, *rest[i:]) for level in self.levels[name]}
                chosen = frozenset(level for level, cell in line.items() if cell in self.universe)
                if chosen and len(chosen) < len(line):
                    conditions[chosen] |= {cell for level, cell in line.items() if level not in chosen}
            sizes += [self.size(cells) for cells in conditions.values()]
        return sizes

    def differences(self) -> list[int]:
        return [self.size(a - b) for a, b in itertools.permutations(self.pieces, 2) if a - b]


def test_without_noise_every_rule_decides_as_the_slow_twin(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(120):
        pieces = [random_piece(rng, {n: sorted(frame[n].unique()) for n in frame}) for _ in range(rng.integers(1, 4))]
        twin = Twin(frame, pieces)
        for kind, sizes in (
            (LevelSize, twin.level_sizes()),
            (LeftOut, twin.left_out()),
            (PieceDifference, twin.differences()),
        ):
            refused = rule(vault, pieces, Policy.open().with_(title="one", rules=(kind(least=20),))) != ""
            assert refused is (min(sizes, default=20) < 20), (kind, pieces, sizes)
            seen.add((kind, refused))
    assert len(seen) == 6


def test_noise_of_a_rule_is_that_of_the_answer_and_depends_on_the_set(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    data, true = vault.dataset("data"), int((frame["sex"] == "F").sum())
    questions = [asked(vault, form) for form in ({"sex": "F"}, "not sex == 'M'", {"sex": "F", "sick": ["no", "yes"]})]
    counts = {data.register(HARDENED).count(q.selection) for q in questions}
    for question in questions:
        sums, losses = Mechanism(data, HARDENED, question).protect(SumsRequest({"all": TableSums(())}))
        counts.add(float(sums.cells("all").n))
        assert not losses  # a count by known variables tells nothing confidential
    (found,) = counts
    assert 0 < abs(found - true) < 30


def test_the_register_refuses_confidential_conditions(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = people
    with pytest.raises(TypeError, match="known variables alone"):
        vault.dataset("data").register(HARDENED).count(asked(vault, {"sick": "yes"}).selection)


def test_the_differencing_pair_of_the_paper_is_refused(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    changed = frame.copy()
    changed.loc[(changed["state"] == "S2") & (changed["race"] == "O"), "race"] = "A"
    changed.loc[changed.index[(changed["state"] == "S2") & (changed["sex"] == "F")][0], "race"] = "O"
    other = vault_of(vault.folder.parent / "pair", changed, {"sick": "confidential"})
    policy = HARDENED.without("no_marginal")
    assert rule(other, {"sex": "F", "state": "S2"}, policy) == ""
    assert rule(other, {"sex": "F", "state": "S2", "race": ["A", "B"]}, policy) == "left_out"
    in_pieces = [{"sex": "F", "state": "S2", "race": "A"}, {"sex": "F", "state": "S2", "race": "B"}]
    assert rule(other, in_pieces, policy.without("universe_size")) == "left_out"  # no wording gets round it
    assert rule(other, {"sex": "F", "state": "S2"}, HARDENED) == ""
    assert rule(other, {"sex": "F", "state": "S2", "race": ["A", "B"]}, HARDENED) == "no_marginal"


def test_a_refusal_does_not_tell_whether_a_person_is_in_the_data(tmp_path: Path) -> None:
    frame = survey(3_000)
    alone = (frame["sex"] == "F") & (frame["state"] == "S3") & (frame["race"] == "O")
    without = frame[~alone].reset_index(drop=True)
    with_one = pd.concat([without, frame[alone].head(1)]).reset_index(drop=True)
    vaults = [vault_of(tmp_path / str(i), data, {"sick": "confidential"}) for i, data in enumerate((without, with_one))]
    policy = HARDENED.without("no_marginal")
    rest = {"sex": "F", "state": "S3", "race": ["A", "B"]}
    for universe in (
        rest,
        [{"sex": "F", "state": "S3"}, rest],
        [{"sex": "F", "race": ["B", "O"]}, {"state": "S3", "race": "O"}],
    ):
        decisions = {rule(vault, universe, policy) for vault in vaults}
        assert len(decisions) == 1
        assert decisions != {""}


def flipped(vault: Vault, folder: Path, name: str, place: int) -> Vault:
    """The vault as it would be had one record another value of a confidential variable; all else, and chance, is the same."""
    shutil.copytree(vault.folder, folder)
    path = next(folder.glob("datasets/data/*/records.parquet"))
    table = pq.read_table(path)
    column = vault.dataset("data").variables[name].codes
    codes = table[column].to_numpy().copy()
    codes[place] = 1 - codes[place]
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, pa.array(codes, table.schema.field(at).type)), path)
    return Vault(folder, Draws("cases"), vault.policy)


def test_which_universes_are_refused_does_not_depend_on_a_confidential_value(tmp_path: Path) -> None:
    frame = survey(1_200, seed=8)
    vault = vault_of(tmp_path / "v", frame, {"sick": "confidential"})
    rng = np.random.default_rng(5)
    levels = {n: sorted(frame[n].unique()) for n in frame}
    universes = [[random_piece(rng, levels) for _ in range(rng.integers(1, 3))] for _ in range(150)]
    before = [rule(vault, u) for u in universes]
    about_known = [all("sick" not in piece for piece in u) for u in universes]
    assert 30 < sum(about_known) < 120
    assert {"", "universe_size", "left_out"} <= set(before)
    changed = 0
    for i, place in enumerate(rng.choice(len(frame), 6, replace=False)):
        other = flipped(vault, tmp_path / str(i), "sick", int(place))
        after = [rule(other, u) for u in universes]
        assert [a for a, known in zip(after, about_known, strict=True) if known] == [
            b for b, known in zip(before, about_known, strict=True) if known
        ]
        changed += sum(a != b for a, b in zip(after, before, strict=True))
    assert changed <= 0.02 * 6 * (len(universes) - sum(about_known))


def test_at_the_very_threshold_a_refusal_tells_a_confidential_value_in_at_most_54_of_100_cases() -> None:
    noise = Draws("threshold").normals(np.arange(200_000), "count")
    told = np.mean((75 + 5 * noise >= 75.5) != (76 + 5 * noise >= 75.5))  # the person in the set, or not
    assert told == pytest.approx(2 * stats.norm.cdf(0.1) - 1, abs=0.003)
    assert 0.5 + told / 2 < 0.545


def test_one_wording_for_all_refusals_of_a_kind_and_no_number_of_the_data(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    rng = np.random.default_rng(9)
    levels = {n: sorted(frame[n].unique()) for n in frame}
    texts = defaultdict(set)
    for _ in range(200):
        pieces = [random_piece(rng, levels) for _ in range(rng.integers(1, 4))]
        refused = refusal(vault, pieces, HARDENED.without("no_marginal"))
        if refused is not None:
            texts[refused.rule].add(str(refused))
    assert {"universe_size", "level_size", "left_out", "piece_difference"} <= set(texts)
    for found in texts.values():
        assert len(found) == 1
        assert not re.search(r"\d", found.pop())


# -- which variables may be used together


def slow_allowed(data: Dataset, frame: pd.DataFrame, names: tuple[str, ...], policy: Policy) -> bool:
    """Whether every cell of every sub-table of known variables has a noisy count above 2, by asking for each on its own."""
    names = tuple(n for n in names if n != "sick")
    for size in range(len(names) + 1):
        for some in itertools.combinations(names, size):
            for cell in itertools.product(*(sorted(frame[n].unique()) for n in some)):
                if noisy(data, dict(zip(some, cell, strict=True)), policy) < 2.5:
                    return False
    return True


def noisy(data: Dataset, universe: dict[str, str], policy: Policy) -> float:
    question = Question(data, policy, Universe.of(universe), DryRun())
    return data.register(policy).count(question.selection)


def test_combinations_are_allowed_as_one_who_asks_for_every_cell_finds(tmp_path: Path) -> None:
    frame = survey(400, seed=3)
    data = vault_of(tmp_path / "v", frame, {"sick": "confidential"}).dataset("data")
    for policy in (HARDENED, HARDENED.with_(counts=Counts(), accounts=UNLIMITED)):
        found = [
            names for size in (1, 2, 3) for names in itertools.combinations(sorted(frame), size)
            if slow_allowed(data, frame, names, policy)
        ]  # fmt: skip
        assert data.combinations(3, policy) == found
        assert 4 < len(found) < 14, found
    assert data.allowed(["state", "sex"]) == (("sex", "state") in data.combinations(2))


def test_an_allowed_combination_has_allowed_parts(people: tuple[Vault, pd.DataFrame]) -> None:
    data = people[0].dataset("data")
    allowed = set(data.combinations(4))
    for names in allowed:
        assert all(part in allowed for size in range(1, len(names)) for part in itertools.combinations(names, size))


def test_cells_without_records_are_small_in_the_hardened_rule_and_not_in_the_printed_one(tmp_path: Path) -> None:
    rows = [("a", "x")] * 200 + [("b", "x")] * 200 + [("a", "y")] * 200
    data = vault_of(tmp_path / "v", pd.DataFrame(rows, columns=["u", "v"]), {}).dataset("data")
    exact = HARDENED.with_(counts=Counts(), accounts=UNLIMITED)
    assert not data.allowed(["u", "v"], exact)
    assert data.allowed(["u"], exact)
    assert data.allowed(["v"], exact)
    assert data.allowed(["u", "v"], Policy.named("census2009"))
    assert data.allowed(["u", "v"], Policy.open().with_(title="none"))


def test_what_is_allowed_does_not_depend_on_the_levels_asked_for(people: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = people
    names, policy = ("race", "sex", "sick", "state"), HARDENED.set({"no_marginal.most": 12})
    assert not vault.dataset("data").allowed(names, policy)
    rules = {
        rule(vault, dict(zip(names, cell, strict=True)), policy)
        for cell in itertools.product(*(sorted(frame[n].unique()) for n in names))
    }
    assert rules == {"no_marginal"}


def test_names_that_are_not_there_are_offered_the_nearest(people: tuple[Vault, pd.DataFrame]) -> None:
    with pytest.raises(Exception, match="Did you mean 'state'"):
        people[0].dataset("data").allowed(["stat"])


# -- households and establishments


def linked(n: int = 2_000) -> pd.DataFrame:
    rng = np.random.default_rng(6)
    frame = survey(n)
    frame["home"] = rng.integers(0, 700, n).astype(str)
    frame["firm"] = np.where(rng.random(n) < 0.3, None, rng.integers(0, 60, n).astype(str))
    return frame


def test_each_kind_of_unit_is_counted_on_its_own_or_by_its_share_among_the_known_records(tmp_path: Path) -> None:
    frame = linked()
    roles = {"sick": "confidential", "home": "household", "firm": "contributor"}
    vault = vault_of(tmp_path / "v", frame, roles)
    rng = np.random.default_rng(0)
    levels = {n: sorted(frame[n].unique()) for n in ("sex", "state", "race", "sick")}
    own = frame["firm"].fillna(pd.Series([f"none {i}" for i in range(len(frame))]))
    seen = set()
    for _ in range(80):
        piece = random_piece(rng, levels)
        held = np.logical_and.reduce([frame[name].isin(v).to_numpy() for name, v in piece.items()])
        known = np.logical_and.reduce(
            [frame[n].isin(v).to_numpy() for n, v in piece.items() if n != "sick"] or [held | True]
        )
        plain = "sick" not in piece
        counts = [
            held.sum(),
            *(
                (ids[held].nunique() if plain else held.sum() * ids[known].nunique() / known.sum())
                for ids in (frame["home"], own)
            ),
        ]
        for gamma in (30, 75, 300):
            refused = rule(vault, piece, Policy.open().with_(title="g", rules=(UniverseSize(gamma=gamma),))) != ""
            assert refused == (min(counts) < gamma)
            seen.add((refused, counts[0] >= gamma))
    assert (True, True) in seen  # enough records, too few units
    assert (False, True) in seen


def test_units_have_noise_of_their_own(tmp_path: Path) -> None:
    frame = linked()
    vault = vault_of(tmp_path / "v", frame, {"sick": "confidential", "home": "household", "firm": "contributor"})
    register, selection = vault.dataset("data").register(HARDENED), asked(vault, {"sex": "F"}).selection
    chosen = frame["sex"] == "F"
    true = {"": chosen.sum(), "h": frame["home"][chosen].nunique(), "e": frame["firm"][chosen].nunique()}
    true["e"] += frame["firm"][chosen].isna().sum()
    noise = {unit: register.count(selection, unit) - n for unit, n in true.items()}
    assert all(0 < abs(one) < 30 for one in noise.values())
    assert len(set(noise.values())) == 3


def test_combinations_of_variables_need_enough_units_too(tmp_path: Path) -> None:
    frame = survey(2_000)
    frame["home"] = [str(i % 500) for i in range(len(frame))]
    frame.loc[frame["race"] == "O", "home"] = "one home"
    exact = Policy.open().with_(title="exact", rules=(NoMarginal(cells=True),))
    assert vault_of(tmp_path / "a", frame.drop(columns="home"), {}).dataset("data").allowed(["race"], exact)
    assert not vault_of(tmp_path / "b", frame, {"home": "household"}).dataset("data").allowed(["race"], exact)


def test_a_table_with_many_empty_cells_is_never_allowed_whatever_the_secret(tmp_path: Path) -> None:
    rows = [(str(i), str(i)) for i in range(12) for _ in range(300)]  # 132 of 144 cells are empty
    frame = pd.DataFrame(rows, columns=["u", "v"])
    data = vault_of(tmp_path / "v", frame, {}).dataset("data")
    for seed in range(25):
        other = replace(data, secret=Secret(Draws(f"secret {seed}")))
        assert other.allowed(["u"])
        assert not other.allowed(["u", "v"])


def test_empty_cells_and_cells_of_one_are_allowed_about_as_often(tmp_path: Path) -> None:
    base = [(u, v) for u in "abc" for v in "xyz" for _ in range(60)]
    shares = []
    for n in (0, 1):
        rows = [row for row in base if row != ("a", "x")] + [("a", "x")] * n
        data = vault_of(tmp_path / str(n), pd.DataFrame(rows, columns=["u", "v"]), {}).dataset("data")
        secrets = [Secret(Draws(f"secret {seed}")) for seed in range(400)]
        shares.append(np.mean([replace(data, secret=s).allowed(["u", "v"]) for s in secrets]))
    for n, share in enumerate(shares):
        expected = stats.norm.sf((2.5 - n) / 5)  # noise lifts the cell above 2
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / 400)
