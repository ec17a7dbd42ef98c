"""The mechanism of the analysis system, checked by somebody who did not write it: every value of one record, every kind of sum."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mas_neighbours import (
    EDGES,
    HIGH,
    LOW,
    Rows,
    cells,
    charged,
    codes,
    contributions,
    frozen,
    policy,
    protected,
    schema,
    survey,
    totals,
    universe,
    values_of,
)
from scipy.linalg import block_diag

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.data.warehouse import open_warehouse
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints
from sfumato.mas.accounts import Accounts
from sfumato.mas.dataset import Dataset
from sfumato.mas.drop_q import DropQ
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.sums import Moment, ProtectedSums, Request, TableSums, TotalSums
from sfumato.mas.value_counts import contents_of
from sfumato.mas.variable import VariableBins
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

KINDS = {
    "plain": {"n": 30, "gaps": False, "weighted": False}, "gaps": {"n": 12, "gaps": True, "weighted": False},
    "weights": {"n": 40, "gaps": True, "weighted": True}, "five": {"n": 5, "gaps": True, "weighted": True},
}  # fmt: skip
Made = tuple[Dataset, pd.DataFrame]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """Tiny data sets, frozen once each."""
    made: dict[str, Made] = {}

    def one(kind: str, **settings: Any) -> Made:
        key = f"{kind} {settings}"
        if key not in made:
            frame = survey(seed=len(kind), **{**KINDS[kind], **settings})
            made[key] = frozen(tmp_path_factory.mktemp("tiny"), frame), frame
        return made[key]

    return one


def parts_of(sums: ProtectedSums, asked: Request) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Sums and variances by name, flat."""
    if isinstance(asked, TotalSums):
        found = sums.totals("part")
        return {"totals": (found.values, found.variances)}
    table = sums.cells("part")
    return {name: (table.sums[name].ravel(), table.variances[name].ravel()) for name in table.sums}


def factor_of(mechanism: Mechanism, asked: Request, frame: pd.DataFrame) -> np.ndarray:
    """What each record's values are multiplied by: 0 if it is dropped, else records by kept ones in its cell of known variables."""
    if not mechanism.policy.scaled:
        return np.ones(len(frame))
    found = mechanism.dataset.warehouse.ask(
        f"SELECT CASE WHEN {mechanism._kept} THEN 1 ELSE 0 END AS kept FROM records"
    )
    kept, known = found["kept"].astype(bool), charged_part(mechanism, frame)
    sides = [v for v in asked.sides if v.known] if isinstance(asked, TableSums) else []
    shape = [len(v.levels) for v in sides]
    cell = np.ravel_multi_index([codes(frame, v) for v in sides], shape) if sides else np.zeros(len(frame), int)
    n, left = (np.bincount(cell[known & some], minlength=cell.max() + 1) for some in (np.ones_like(kept), kept))
    return np.where(kept, n[cell] / np.maximum(left[cell], 1), 0.0)


def charged_part(mechanism: Mechanism, frame: pd.DataFrame) -> np.ndarray:
    """Which records are in the known part of the universe."""
    plain = mechanism._known.plain
    at = tuple(codes(frame, v) for v in plain.variables)
    return plain.chosen[at] if at else np.full(len(frame), bool(plain.chosen))


def balanced(mechanism: Mechanism, asked: Request, name: str) -> list[int]:
    """The numbers of levels of sides, confidential ones as negatives, where the noise of counts adds up to 0 over these."""
    if name != "n" or not isinstance(asked, TableSums) or mechanism._hidden or all(v.known for v in asked.sides):
        return []
    return [len(v.levels) * (1 if v.known else -1) for v in asked.sides]


def distance(change: np.ndarray, variances: np.ndarray, lengths: list[int]) -> np.ndarray:
    """The squared length of changes of sums in units of their noise; shape of all axes but the last."""
    moved = (change != 0).reshape(-1, change.shape[-1]).any(axis=0)
    assert (variances[moved] > 0).all()
    if lengths:  # independent noise less its mean: its pseudo-inverse applies to what adds up to 0
        hidden = tuple(i - len(lengths) for i, n in enumerate(lengths) if n < 0)
        assert np.abs(change.reshape(*change.shape[:-1], *np.abs(lengths)).sum(axis=hidden)).max() < 1e-9
        cells = int(np.prod([-n for n in lengths if n < 0]))
        variances = variances * cells / (cells - 1)
    return (np.square(change[..., moved]) / variances[moved]).sum(axis=-1)


def request(rng: np.random.Generator, dataset: Dataset) -> Request:
    return totals(rng, dataset) if rng.random() < 0.3 else cells(rng, dataset)


# --- the loss


@pytest.mark.parametrize("kind", KINDS)
def test_no_confidential_value_of_a_record_moves_sums_by_more_than_is_charged(
    tiny: Callable[..., Made], kind: str
) -> None:
    dataset, frame = tiny(kind)
    shares = []
    for seed in range(70):
        rng = np.random.default_rng([seed, len(kind)])
        asked, chosen, settings = request(rng, dataset), universe(rng, dataset), policy(rng, drops=seed % 3 == 0)
        sums, losses, mechanism = protected(dataset, settings, chosen, asked)
        factor = factor_of(mechanism, asked, frame)
        bill = charged(frame, losses)
        for who in {1, int(rng.integers(len(frame)))}:  # record 1 has a weight far above all others
            variants = pd.DataFrame(
                [{**frame.iloc[who], **values} for values in values_of(dataset, KINDS[kind]["gaps"])]
            )
            made = contributions(variants, dataset, chosen, asked, np.full(len(variants), factor[who]))
            told = np.zeros((len(variants), len(variants)))
            for name, (_, variances) in parts_of(sums, asked).items():
                told += distance(made[name][:, None] - made[name][None], variances, balanced(mechanism, asked, name))
            assert told.max() <= bill[who] * (1 + 1e-9), (seed, who, told.max(), bill[who])
            if told.max():
                shares.append(told.max() / bill[who])
    assert max(shares) > 0.999  # the charge is no larger than it must be
    assert len(shares) > 45


@pytest.mark.parametrize("kind", KINDS)
def test_sums_without_noise_to_speak_of_are_those_of_a_slow_twin(tiny: Callable[..., Made], kind: str) -> None:
    dataset, frame = tiny(kind)
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        asked, chosen = request(rng, dataset), universe(rng, dataset)
        settings = policy(rng, drops=seed % 3 == 0).set({f"{part}.{what}": value for part in ("counts", "amounts", "models")
                                                         for what, value in (("sd", 1e-9), ("growth", 0.0))})  # fmt: skip
        sums, _, mechanism = protected(dataset, settings, chosen, asked)
        made = contributions(frame, dataset, chosen, asked, factor_of(mechanism, asked, frame))
        for name, (values, variances) in parts_of(sums, asked).items():
            assert (np.abs(values - made[name].sum(axis=0)) <= 8 * np.sqrt(variances) + 1e-6).all()
            assert (np.sqrt(variances) <= 1e-7 * (1 + np.abs(made[name]).max(initial=130.0**3 * 1600))).all()


def test_an_establishment_is_charged_for_all_its_records_together(tiny: Callable[..., Made]) -> None:
    dataset, frame = tiny("gaps", establishments=6)
    assert dataset.together == 2
    few = [
        {"sick": a, "work": b, "pay": c}
        for a, b, c in itertools.product(("no", "yes"), ("full", "none"), (-1e6, 60.0, 1e6))
    ]
    for seed in range(60):
        rng = np.random.default_rng([seed, 11])
        asked, chosen = request(rng, dataset), universe(rng, dataset)
        sums, losses, mechanism = protected(dataset, policy(rng), chosen, asked)
        bill = charged(frame, losses)
        mine = np.flatnonzero(frame["firm"] == "e1")
        told = 0.0
        for name, (_, variances) in parts_of(sums, asked).items():
            each = [
                contributions(
                    pd.DataFrame([{**frame.iloc[i], **v} for v in few]), dataset, chosen, asked, np.ones(len(few))
                )[name]
                for i in mine
            ]
            both = (each[0][:, None] + each[1][None]).reshape(len(few) ** 2, -1)
            change = both[:, None] - both[None]
            told += distance(change, variances, balanced(mechanism, asked, name)).max(initial=0.0)
        assert told <= bill[mine].mean() * (1 + 1e-9)  # so that it is within the limit of the account that spent most
    alone = replace(dataset)
    alone.__dict__["together"] = 1
    settings = policy(np.random.default_rng(0))
    asked = TableSums((dataset.variables["sick"],))
    (wide, _, _), (narrow, _, _) = protected(dataset, settings, None, asked), protected(alone, settings, None, asked)
    assert wide.cells("part").variances["n"].min() > narrow.cells("part").variances["n"].min()


def test_a_yes_or_no_in_a_table_costs_exactly_one_over_the_variance(tiny: Callable[..., Made]) -> None:
    dataset, frame = tiny("plain")
    settings = Policy.open().set({"counts.sd": 3.0, "amounts.sd": 4.0, "models.sd": 1.0})
    _, losses, _ = protected(dataset, settings, None, TableSums((dataset.variables["sick"],)))
    assert charged(frame, losses) == pytest.approx(1 / 9)  # one cell tells the other
    _, losses, _ = protected(dataset, settings, None, TableSums((dataset.variables["work"],)))
    assert charged(frame, losses) == pytest.approx(2 / 9 * 2 / 3)
    moved = {"s": Moment(dataset.variables["pay"], 1, 0, (LOW + HIGH) / 2)}
    _, losses, _ = protected(dataset, settings, None, TableSums((), moved, "amounts"))
    assert charged(frame, losses) == pytest.approx(1 / 16)


# --- the noise


def secrets(dataset: Dataset, count: int) -> list[Dataset]:
    return [replace(dataset, secret=Secret(Draws(f"secret {i}"))) for i in range(count)]


def requests(dataset: Dataset) -> list[tuple[Any, Request]]:
    """Universes and requests for sums that all differ."""
    v, rng = dataset.variables, np.random.default_rng(3)
    amount = {"s": Moment(v["pay"], 1, 0, 60.0), "ss": Moment(v["pay"], 2, 1, 60.0)}
    many = [
        (None, TableSums((v["sick"], v["sex"]), amount, "amounts")), (None, TableSums((v["sick"], v["work"]))),
        ([{"work": ["full"]}], TableSums((v["sick"],))), ([{"work": ["full", "part"]}], TableSums((v["sick"],))),
        (None, TableSums((VariableBins.of(v["pay"], EDGES),))),
        (None, TableSums((v["sex"],), {"t": Moment(v["pay"], 1)}, "amounts")),
    ]  # fmt: skip
    made = totals(rng, dataset)
    return [*many, (None, made), ([{"sick": ["yes"]}], made)]


@pytest.mark.parametrize("keys", [100, pytest.param(200, marks=pytest.mark.verify)])
def test_the_noise_has_the_published_variance_and_two_sums_never_share_it(tiny: Callable[..., Made], keys: int) -> None:
    """Bands of 5 standard errors; noise that two sums shared would have a correlation of 1, the band is 5.5 / √100."""
    dataset, frame = tiny("weights")
    settings = Policy.open().set({
        "counts.sd": 3.0, "amounts.sd": 4.0, "models.sd": 2.0, "counts.growth": 0.5, "amounts.growth": 0.5,
    })  # fmt: skip
    runs, expected = [], []
    for keyed in secrets(dataset, keys):
        drawn = []
        for chosen, asked in requests(dataset):
            sums, _, mechanism = protected(keyed, settings, chosen, asked)
            made = contributions(frame, dataset, chosen, asked, np.ones(len(frame))) if not runs else {}
            for name, (values, variances) in parts_of(sums, asked).items():
                drawn.append((values, variances, made.get(name)))
                lengths = balanced(mechanism, asked, name)
                expected += [_correlations(lengths) if lengths else np.eye(len(values))] if not runs else []
        runs.append([np.concatenate([d[i] for d in drawn]) for i in (0, 1)])
        if len(runs) == 1:
            exact = np.concatenate([d[2].sum(axis=0) for d in drawn])
    values, variances = (np.array([run[i] for run in runs]) for i in (0, 1))
    assert (variances == variances[0]).all()
    z = (values - exact) / np.sqrt(variances[0])
    assert z.shape[1] > 40
    assert np.abs(z.mean(axis=0)).max() < 5 / np.sqrt(keys)
    assert np.square(z).mean(axis=0) == pytest.approx(1.0, abs=5 * np.sqrt(2 / keys))
    assert np.square(z).mean() == pytest.approx(1.0, abs=5 * np.sqrt(2 / z.size))
    shared = np.corrcoef(z.T) - block_diag(*expected)
    assert np.abs(shared).max() < 5.5 / np.sqrt(keys)


def _correlations(lengths: list[int]) -> np.ndarray:
    """The correlations of noise that adds up to 0 over confidential sides, the negative lengths."""
    cells = int(np.prod([-n for n in lengths if n < 0]))
    known, hidden = np.ones((1, 1)), np.ones((1, 1))
    for n in lengths:
        known = np.kron(known, np.eye(n) if n > 0 else np.ones((-n, -n)))
        hidden = np.kron(hidden, np.eye(abs(n)))
    return known * (hidden - (1 - hidden) / (cells - 1))


def test_the_total_of_a_table_with_empty_cells_has_the_variance_that_is_published(tmp_path: Path) -> None:
    frame = pd.DataFrame({"area": ["a", "b"] * 20, "zone": ["a", "b"] * 20, "sick": ["no", "yes", "yes", "no"] * 10})
    roles = {"sick": "confidential"}
    attributes = [Attribute(c, role=roles.get(c, "key"), scale="unordered") for c in frame]
    vault = Vault(tmp_path, Draws(3), Policy.open())
    dataset = vault.freeze("tiny", Microdata(frame, Schema(tuple(attributes))))
    v = dataset.variables
    settings = Policy.open().set({"counts.sd": 3.0})
    sides = (v["area"], v["zone"])  # half the cells are empty
    for chosen, count in ((None, 40), ({"sick": "yes"}, 20)):
        found = []
        for keyed in secrets(dataset, 300):
            sums, _, _ = protected(keyed, settings, chosen, TableSums(sides))
            whole = sums.cells("part").margin(())
            found.append(float(whole.n) - count)
        assert np.square(found).mean() == pytest.approx(float(whole.variances["n"]), rel=5 * np.sqrt(2 / 300))


def test_noise_depends_on_confidential_values_through_digests_of_contents_alone(tmp_path: Path) -> None:
    frame = survey(20, 3)
    other = frame.copy()
    sick, work = ("no", "yes")[frame.loc[4, "sick"] == "no"], ("none", "full")[frame.loc[4, "work"] == "none"]
    other.loc[4, ["sick", "work", "pay"]] = [sick, work, 77.7]
    one, two = frozen(tmp_path / "one", frame), frozen(tmp_path / "two", other)
    assert all(one.contents[n] != two.contents[n] for n in ("sick", "work", "pay"))
    alike = replace(two, contents=one.contents, variables=one.variables)
    alike.__dict__.pop("codebook", None)
    for seed in range(25):
        rng = np.random.default_rng([seed, 5])
        asked, chosen, settings = request(rng, one), universe(rng, one), policy(rng)
        made = []
        for dataset, records in ((one, frame), (alike, other), (replace(two, variables=one.variables), other)):
            sums, _, _ = protected(dataset, settings, chosen, asked)
            exact = contributions(records, one, chosen, asked, np.ones(len(records)))
            made.append(np.concatenate([
                (values - exact[name].sum(axis=0))[variances > 1e-200] for name, (values, variances) in parts_of(sums, asked).items()
            ]))  # fmt: skip
        assert made[0] == pytest.approx(made[1], rel=1e-6, abs=1e-6)
        hidden = any(not v.known for v in getattr(asked, "sides", ())) or isinstance(asked, TotalSums)
        if hidden and len(made[0]):
            assert not np.isclose(made[0], made[2], rtol=1e-6).all()


def test_other_bounds_and_other_groups_of_a_recode_have_fresh_noise(tiny: Callable[..., Made]) -> None:
    dataset, _ = tiny("plain")
    v, settings = dataset.variables, Policy.open().set({"counts.sd": 3.0, "amounts.sd": 3.0, "models.sd": 3.0})
    job, pay = v["job"], v["pay"]
    turned = replace(job, groups=tuple(1 - g for g in job.groups))
    wider = replace(pay, bounds=(LOW - 10, HIGH + 10))

    def noisy(asked: TableSums) -> np.ndarray:
        sums, _, _ = protected(dataset, settings, None, asked)
        name = "s" if "s" in asked.moments else "n"
        return np.asarray(sums.cells("part").sums[name] / np.sqrt(sums.cells("part").variances[name]))

    plain = noisy(TableSums((job,)))
    assert not np.isclose(plain - plain.mean(), noisy(TableSums((turned,))) - plain.mean()).any()
    one, two = (
        protected(dataset, settings, None, TableSums((), {"s": Moment(x, 1, 0, 60.0)}, "amounts")) for x in (pay, wider)
    )
    assert set(one[1][0].keys).isdisjoint(two[1][0].keys)


def test_sums_of_other_known_factors_have_fresh_noise_under_whatever_name(tiny: Callable[..., Made]) -> None:
    dataset, frame = tiny("plain")
    settings = Policy.open().set({"counts.sd": 3.0, "models.sd": 3.0})  # no growth: variances do not tell factors apart
    asked = replace(totals(np.random.default_rng(0), dataset), pairs=((1, 0),), by=(), share=1.0)
    women = np.flatnonzero(frame["sex"] == "F")
    other = replace(asked, factors=Others(asked.factors.places, len(women)))
    noise, keys = [], []
    for one in (asked, other):
        sums, losses, _ = protected(dataset, settings, None, one)
        made = sums.totals("part")
        u = other.factors.rows(frame) if one is other else (frame["sex"] == "F").to_numpy(float)
        noise.append(float((made.values[0] - u @ (frame["sick"] == "yes")) / np.sqrt(made.variances[0])))
        keys.append(set(losses[0].keys))
    assert abs(noise[0] - noise[1]) > 1e-6
    assert keys[0].isdisjoint(keys[1])


class Others(Rows):
    """As many records of the smallest age as there are women, in place of these."""

    def __init__(self, places: Any, count: int) -> None:
        object.__setattr__(self, "names", ("one", "F"))
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "count", count)

    @property
    def columns(self) -> list[str]:
        return ["r", self.places["land"]]

    def __call__(self, piece: Any) -> np.ndarray:
        land = np.asarray(piece[self.places["land"]], float)
        first = np.argsort(np.argsort(land, kind="stable"), kind="stable") < self.count
        return np.array([np.ones(len(land)), first], float)

    def rows(self, frame: pd.DataFrame) -> np.ndarray:
        return self({self.places["land"]: frame["land"].to_numpy()})[1]


def test_the_order_of_sides_changes_neither_noise_nor_price(tiny: Callable[..., Made]) -> None:
    dataset, _ = tiny("plain")
    v, settings = dataset.variables, Policy.open().set({"counts.sd": 3.0})
    one, told, _ = protected(dataset, settings, None, TableSums((v["sick"], v["sex"], v["work"])))
    two, again, _ = protected(dataset, settings, None, TableSums((v["work"], v["sick"], v["sex"])))
    assert np.array_equal(one.cells("part").n, two.cells("part").n.transpose(1, 2, 0))
    assert told[0].keys == again[0].keys


def test_counts_are_charged_once_whatever_is_asked_beside_them(tiny: Callable[..., Made]) -> None:
    dataset, _ = tiny("plain")
    v, settings = dataset.variables, Policy.open().set({"counts.sd": 3.0, "amounts.sd": 3.0, "models.sd": 2.0})
    _, plain, _ = protected(dataset, settings, None, TableSums((v["sick"], v["sex"])))
    asked = {kind: TableSums((v["sick"], v["sex"]), {"s": Moment(v["pay"], 1)}, kind) for kind in ("amounts", "models")}
    told = {kind: protected(dataset, settings, None, one)[1] for kind, one in asked.items()}
    assert all(plain[0].keys == losses[0].keys for losses in told.values())
    assert set(told["amounts"][1].keys).isdisjoint(told["models"][1].keys)  # other noise is another answer
    inside, _, _ = protected(dataset, settings, {"sex": "F"}, TableSums((v["sick"],)))
    table, _, _ = protected(dataset, settings, None, TableSums((v["sick"], v["sex"])))
    assert np.array_equal(inside.cells("part").n, table.cells("part").n[:, 0])  # the same set, the same noise


# --- an attacker


def test_the_best_attacker_is_right_as_often_as_the_bound_says_and_not_more(tmp_path: Path) -> None:
    areas, each = 24, 6
    rng = np.random.default_rng(8)
    area = np.repeat([f"a{i:02}" for i in range(areas)], each)
    target = np.arange(areas) * each
    sick = rng.choice(["no", "yes"], areas * each)
    sick[target] = np.where(np.arange(areas) % 2, "yes", "no")  # one of them in each area, as often sick as not
    frame = pd.DataFrame({"area": area, "sick": sick})
    attributes = Schema(
        tuple(Attribute(c, role="key" if c == "area" else "confidential", scale="unordered") for c in frame)
    )
    dataset = Vault(tmp_path, Draws(4), Policy.open()).freeze("tiny", Microdata(frame, attributes))
    v = dataset.variables
    settings = Policy.open().set({"counts.sd": 3.0})
    alone = TableSums((v["area"],))
    asked = [(None, TableSums((v["area"], v["sick"]))), ({"sick": "yes"}, alone), ({"sick": "no"}, alone)]
    others = np.zeros((areas, 2))
    rest = np.delete(np.arange(areas * each), target)
    np.add.at(others, (rest // each, (sick[rest] == "yes").astype(int)), 1)
    right, bill = [], np.zeros(areas)
    for i, keyed in enumerate(secrets(dataset, 200)):
        score = np.zeros(areas)  # log of the likelihood ratio of yes and no
        for chosen, one in asked:
            sums, losses, _ = protected(keyed, settings, chosen, one)
            table = sums.cells("part")
            seen, variances = table.n.reshape(areas, -1), table.variances["n"].reshape(areas, -1)
            if chosen is None:
                seen, variances = seen[:, 1:], variances[:, 1:]  # the other cell is the known number less this one
                expected = {answer: others[:, 1:] + int(answer) for answer in (False, True)}
            else:
                level = int(chosen["sick"] == "yes")
                expected = {answer: others[:, [level]] + float(int(answer) == level) for answer in (False, True)}
            away = {answer: (np.square(seen - expected[answer]) / variances).sum(axis=1) for answer in (False, True)}
            score += (away[False] - away[True]) / 2
            if i == 0:
                bill += charged(frame, losses)[target]
        right.append((score > 0) == (sick[target] == "yes"))
    hits, n = np.mean(right), np.size(right)
    bound = NormalDist().cdf(np.sqrt(bill.max()) / 2)
    assert bill == pytest.approx(3 / 9)
    assert bound == pytest.approx(0.6136, abs=1e-4)
    error = np.sqrt(0.25 / n)
    assert hits <= bound + 3.5 * error
    assert hits >= bound - 3.5 * error  # the worst case is this one: the bound cannot be lower


# --- public facts and digests


def test_facts_read_off_at_freezing_are_charged_table_by_table_and_over_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = survey(40, 2, gaps=False, weighted=False)
    drawn: list[str] = []
    plain = Secret.normals

    def counted(self: Secret, keys: list[bytes], purpose: str) -> np.ndarray:
        drawn.extend([keys[0].decode().split("/")[0]] * purpose.startswith("frozen"))
        return plain(self, keys, purpose)

    monkeypatch.setattr(Secret, "normals", counted)
    vault = Vault(tmp_path, Draws(1), Policy.open())
    cuts = {"age": Cutpoints((40, 65), whole=True)}
    loose = Schema(
        tuple(a if a.name != "pay" else Attribute("pay", role="confidential", scale="ordered") for a in schema(frame))
    )
    first = vault.freeze("tiny", Microdata(frame, loose), cuts)
    secret = [name for name in drawn if name in ("sick", "work", "pay")]
    assert first.frozen_loss == pytest.approx(len(secret) * 2 / 8.0**2)
    assert secret.count("sick") == secret.count("work") == 1 <= secret.count("pay") <= 3
    other = frame.copy()
    other.loc[:24, "sick"] = np.where(other.loc[:24, "sick"] == "yes", "no", "yes")
    second = vault.freeze("tiny", Microdata(other, loose), cuts)
    assert second.contents["work"] == first.contents["work"]
    assert second.contents["sick"] != first.contents["sick"]
    assert second.frozen_loss == pytest.approx(
        first.frozen_loss + 2 / 8.0**2
    )  # of illness alone: the rest is as it was


def digest(folder: Path, columns: dict[str, np.ndarray], variable: Any) -> str:
    path = folder / "records.parquet"
    path.unlink(missing_ok=True)
    pd.DataFrame(columns).to_parquet(path)
    return contents_of(open_warehouse(path), [variable], Secret(Draws(1)))[variable.name]


def test_digests_of_contents_see_exchanged_values_new_records_ends_gaps_and_weights(
    tiny: Callable[..., Made], tmp_path: Path
) -> None:
    dataset, _ = tiny("plain")
    sick, pay = (replace(dataset.variables[n], place=0) for n in ("sick", "pay"))
    rng = np.random.default_rng(1)
    for _ in range(40):  # two people exchange a value: with sums of hashes that nearly add up, one in four was not seen
        r = rng.integers(0, 2**31, 6, dtype=np.int32)
        k = np.array([0, 1, 0, 1, 1, 0], np.int8)
        assert digest(tmp_path, {"r": r, "k0": k}, sick) != digest(
            tmp_path, {"r": r, "k0": k[[1, 0, 2, 3, 4, 5]]}, sick
        )
    r = rng.integers(0, 2**31, 3, dtype=np.int32)
    assert digest(tmp_path, {"r": r, "k0": k[:3]}, sick) != digest(tmp_path, {"r": r[:2], "k0": k[:2]}, sick)
    numbers = replace(pay, centre=0.0, scale=8.0)
    seen = {
        digest(tmp_path, {"r": r, "x0": np.array([x, 1.0, 2.0]), "w": np.array([w, 1.0, 1.0]), "e": np.array([e, 1, 2])}, numbers)
        for x, w, e in [
            (8.0, 1.0, 1), (-8.0, 1.0, 1), (np.nan, 1.0, 1), (0.0, 1.0, 1), (np.nextafter(8, 0), 1.0, 1), (8.0, 1.001, 1),
            (8.0, 1.0, -7),
        ]
    }  # fmt: skip
    assert len(seen) == 7


# --- what is refused


def test_a_number_without_public_bounds_has_no_noisy_sum(tiny: Callable[..., Made]) -> None:
    dataset, _ = tiny("plain")
    free = replace(dataset.variables["pay"], bounds=None)
    settings = Policy.open().set({"counts.sd": 3.0, "amounts.sd": 3.0, "models.sd": 2.0})
    with pytest.raises(DataError, match="no public bounds"):
        protected(dataset, settings, None, TableSums((), {"s": Moment(free, 1)}, "amounts"))


def test_factors_of_confidential_variables_are_refused(tiny: Callable[..., Made]) -> None:
    dataset, _ = tiny("plain")
    asked = totals(np.random.default_rng(0), dataset)
    with pytest.raises(TypeError, match="known variables"):
        protected(dataset, Policy.open(), None, replace(asked, factors=asked.confidential))
    with pytest.raises(TypeError, match="none is of others"):
        protected(dataset, Policy.open(), None, replace(asked, variables=asked.variables[:2]))


def test_accounts_without_noise_or_with_drops_that_depend_on_confidential_values_cannot_be_made() -> None:
    hardened = Policy.named("hardened")
    with pytest.raises(ParameterError, match=r"models\.sd"):
        hardened.set({"models.sd": 0.0})
    with pytest.raises(ParameterError, match="drop_share"):
        hardened.with_(drop=DropQ(q=2))
    assert hardened.with_(drop=DropQ(q=2), accounts=Accounts(user=100, everybody=100)).drops
