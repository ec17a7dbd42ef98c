"""The shape of the analysis system: no way from a question to a record but through noise and accounts."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from mas_cases import UNLIMITED

import sfumato.mas
from sfumato import Microdata
from sfumato.contract import Draws, registered
from sfumato.contract.parameters import param
from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError, SfumatoError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.cube import Cube, Cubes, UnitCounts
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Result, Steps
from sfumato.mas.register import Register
from sfumato.mas.rule import ConfidentialityRule, Evidence, ModelEvidence
from sfumato.mas.sums import (
    Confidential,
    Piece,
    ProtectedCells,
    ProtectedSums,
    ProtectedTotals,
    RecordFunction,
    SumsRequest,
    TableSums,
    TotalSums,
)
from sfumato.mas.universe import Selection, Universe
from sfumato.mas.variable import Variable
from sfumato.mas.vault import DryRun, Vault, question_of
from sfumato.schema import Attribute, Schema
from sfumato.typing import Numbers

N = 2_500
HOME = Path(sfumato.mas.__file__).parent
HIDDEN = ("sick", "work", "income", "wealth")
POLICIES = (
    Policy.named("hardened").with_(per_minute=None), Policy.named("guaranteed").with_(per_minute=None),
    Policy.named("hardened").with_(per_minute=None, accounts=UNLIMITED, title="uncharged"), Policy.named("census2009"),
    Policy.named("hardened").with_(rules=(), per_minute=None, accounts=UNLIMITED, title="no rules"),
)  # fmt: skip


def people() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({
        "sex": rng.choice(["F", "M"], N), "state": rng.choice(["S1", "S2", "S3", "S4"], N, p=[0.5, 0.3, 0.15, 0.05]),
        "age": rng.integers(18, 90, N).astype(float), "hours": np.round(rng.gamma(3, 10, N), 1),
        "sick": rng.choice(["no", "yes"], N, p=[0.7, 0.3]), "work": rng.choice(["full", "none", "part"], N, p=[0.5, 0.3, 0.2]),
        "income": np.round(np.exp(rng.normal(10, 0.7, N)), 2), "wealth": np.round(rng.normal(100, 50, N), 1),
        "weight": np.round(rng.uniform(1, 9, N), 3),
    })  # fmt: skip
    frame.loc[rng.choice(N, 60, replace=False), "income"] = np.nan
    return frame


def other_values(frame: pd.DataFrame) -> pd.DataFrame:
    """The same persons with other confidential values: every one is somebody else's, and amounts are smaller."""
    rng = np.random.default_rng(12)
    changed = frame.copy()
    for name in HIDDEN:
        changed[name] = frame[name].to_numpy()[rng.permutation(N)]
    changed[["income", "wealth"]] = (changed[["income", "wealth"]] * 0.83).round(2)
    return changed


def frozen(folder: Path, frame: pd.DataFrame) -> Vault:
    texts = ("sex", "state", "sick", "work")
    roles = dict.fromkeys(HIDDEN, "confidential") | {"weight": "weight"}
    schema = Schema(tuple(
        Attribute(c, role=roles.get(c, "key"), scale="unordered" if c in texts else "ordered", integer=c == "age") for c in frame
    ))  # fmt: skip
    vault = Vault.create(folder, POLICIES[0], secret=Draws(3))
    vault.ledger = Ledger(folder / "quick.sqlite", b"key", lasting=False)
    bins = {"age": Cutpoints((29, 44, 59, 74), whole=True), "income": Cutpoints((12_000.0, 22_000.0, 40_000.0))}
    vault.freeze("survey", Microdata(frame, schema), bins)
    return vault


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    """Two files of the same persons, that differ in all confidential values."""
    frame = people()
    return tuple(frozen(tmp_path_factory.mktemp(f"v{i}") / "v", f) for i, f in enumerate((frame, other_values(frame))))  # type: ignore[return-value]


# -- random questions


def analyses() -> list[type[Analysis]]:
    """Every analysis that a user can ask for."""
    found = [
        c for c in registered("analysis").values() if c.__module__.startswith("sfumato.") and issubclass(c, Analysis)
    ]
    return [c for c in found if c is not DryRun]


_TEXTS, _NUMBERS = ("sex", "state", "sick", "work", "age", "income"), ("age", "hours", "income", "wealth")
_TERMS = (
    "age",
    "hours",
    "C(sex)",
    "C(state)",
    "income",
    "wealth",
    "C(sick)",
    "C(work)",
    "log1p(hours)",
    "age:hours",
    "C(sex):age",
)
_OUTCOMES = {"logistic": ("sick", "sex"), "multinomial": ("work",)}


def random_fields(kind: type[Analysis], rng: np.random.Generator) -> dict[str, Any]:
    """Parameters of an analysis; not all of them make sense."""
    fields: dict[str, Any] = {}
    for name, one in kind.parameters().items():
        given = rng.random() < 0.5
        required = {
            f.name: f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
            for f in dataclasses.fields(kind)
        }
        if name == "formula":
            outcome = rng.choice(_OUTCOMES.get(kind.name, _NUMBERS))
            terms = rng.choice(_TERMS, rng.integers(1, 4), replace=False)
            fields[name] = f"{outcome} ~ {' + '.join(terms)}"
        elif not (given or required[name]):
            continue
        elif one.columns == "many":
            names = _NUMBERS if one.holds == "numbers" else _TEXTS
            fields[name] = [str(v) for v in rng.choice(names, rng.integers(1, 4), replace=False)]
        elif one.columns == "one":
            fields[name] = str(rng.choice(_NUMBERS if one.holds == "numbers" else _TEXTS))
        elif one.choices:
            fields[name] = str(rng.choice(one.choices))
        elif name == "weighted":
            fields[name] = bool(rng.random() < 0.3)
    return fields


def random_universe(rng: np.random.Generator) -> Any:
    levels = {
        "sex": ["F", "M"], "state": ["S1", "S2", "S3", "S4"], "sick": ["no", "yes"], "work": ["full", "none", "part"],
        "age": ["29 or less", "30 to 44", "45 to 59", "60 to 74", "75 or more"],
    }  # fmt: skip
    pieces = []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        names = rng.choice(list(levels), rng.choice([1, 1, 2, 3]), replace=False)
        pieces.append({
            str(n): [str(v) for v in rng.choice(levels[n], rng.integers(1, len(levels[n])), replace=False)] for n in names
        })  # fmt: skip
    return pieces or None


def outcome(
    vault: Vault, data: Dataset, universe: Any, kind: type[Analysis], fields: Mapping[str, Any], policy: Policy
) -> str:
    """All that comes back: an answer with its chart, a refusal, or an error."""
    try:
        found = vault.ask(data, universe, kind.from_dict(fields), policy, user="ann")
    except SfumatoError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        raise AssertionError(f"{kind.name} {dict(fields)} of {universe}: {error}") from error
    if isinstance(found, Refusal):
        return repr(found.to_json())
    chart = found.chart().to_json() if kind.drawn else ""
    return f"{found.to_bytes()!r}{found}{chart}"


def compared(vaults: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch, number: int, seed: int) -> dict[str, int]:
    """Ask both files the same with one file's protected sums; return how many questions came to what."""
    fixed, other = (vault.dataset("survey") for vault in vaults)
    # bounds, shares and grids were read off noisy counts at freezing: protected sums, too
    # and what was told before is known by keyed digests, which the fixed sums bring along
    there = replace(other, variables=fixed.variables, frozen_loss=fixed.frozen_loss, contents=fixed.contents)
    protect = Mechanism.protect
    monkeypatch.setattr(
        Mechanism, "protect", lambda self, asked: protect(Mechanism(fixed, self.policy, self.question), asked)
    )
    rng, seen = np.random.default_rng(seed), {"answered": 0, "refused": 0, "error": 0}
    kinds = analyses()
    for i in range(number):
        kind, policy = kinds[i % len(kinds)], POLICIES[rng.integers(len(POLICIES))]
        fields, universe = random_fields(kind, rng), random_universe(rng)
        told = [
            outcome(vault, data, universe, kind, fields, policy)
            for vault, data in zip(vaults, (fixed, there), strict=True)
        ]
        assert told[0] == told[1], (kind.name, fields, universe, policy.title)
        seen["refused" if told[0].startswith("{") else "answered" if told[0].startswith("b") else "error"] += 1
    lines = [[(e.user, e.family, dict(e.content)) for e in vault.ledger.entries()] for vault in vaults]
    assert lines[0] == lines[1]
    for payer in ("ann", ""):
        spent = [vault.ledger.spent(payer, "survey", fixed.variables) for vault in vaults]
        assert spent[0] == spent[1]
    assert str(vaults[0].usage("survey")).partition("\n")[0] == str(vaults[1].usage("survey")).partition("\n")[0]
    return seen


def test_with_protected_sums_held_fixed_nothing_that_is_told_depends_on_confidential_values(
    vaults: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = compared(vaults, monkeypatch, 200, 1)
    assert min(seen["answered"], seen["refused"]) > 20, seen


@pytest.mark.verify
def test_two_thousand_questions_with_protected_sums_held_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = people()
    pair = frozen(tmp_path / "a", frame), frozen(tmp_path / "b", other_values(frame))
    seen = compared(pair, monkeypatch, 2_000, 2)
    assert min(seen["answered"], seen["refused"]) > 200, seen


def test_answers_differ_where_the_sums_do(vaults: tuple[Vault, Vault]) -> None:
    """The test above would see it."""
    told = [
        outcome(v, v.dataset("survey"), None, CrossTab, {"by": ["state"], "of": "income"}, POLICIES[2]) for v in vaults
    ]
    assert told[0] != told[1]


def test_refusals_before_computing_are_the_same_for_files_that_differ_in_confidential_values_only(
    vaults: tuple[Vault, Vault],
) -> None:
    rng, refused, kinds = np.random.default_rng(5), 0, analyses()
    for i in range(300):
        kind, policy, universe = kinds[i % len(kinds)], POLICIES[rng.integers(len(POLICIES))], random_universe(rng)
        fields = random_fields(kind, rng)
        told = []
        for vault in vaults:
            data = vault.dataset("survey")
            try:
                question = question_of(data, policy, universe, kind.from_dict(fields) if i % 2 else DryRun())
                told.append([str(rule.before(question, data.register(policy))) for rule in policy.rules])
            except SfumatoError as error:
                told.append([str(error)])
        assert told[0] == told[1], (fields, universe)
        refused += any("Refused" in one for one in told[0])
    assert refused > 5


# -- no way to a record


def reached(start: object, steps: int = 9) -> Iterator[object]:
    """Yield all objects that can be reached from one by some attributes and members, one after another."""
    seen: dict[int, object] = {}
    level = [start]
    for _ in range(steps):
        following: list[object] = []
        for one in level:
            if id(one) in seen or isinstance(one, str | bytes | int | float | type | np.ndarray | None):
                continue
            seen[id(one)] = one
            yield one
            if isinstance(one, Mapping):
                following += one.values()
            elif isinstance(one, Sequence | set | frozenset):
                following += one
            elif type(one).__module__.startswith("sfumato"):
                following += vars(one).values()
                following += [
                    getattr(one, n) for n, v in vars(type(one)).items() if isinstance(v, property | cached_property)
                ]
        level = following


@pytest.mark.parametrize("universe", [None, {"sex": "F", "sick": "yes"}])
def test_no_way_leads_from_a_question_to_records(vaults: tuple[Vault, Vault], universe: Any) -> None:
    question = question_of(vaults[0].dataset("survey"), POLICIES[0], universe, CrossTab(("sick",), of="income"))
    kinds = (
        Warehouse
        | Dataset
        | Cube
        | Cubes
        | UnitCounts
        | Register
        | Mechanism
        | Microdata
        | Secret
        | Vault
        | pd.DataFrame
    )
    found = list(reached(question))
    assert len(found) > 20
    assert not [one for one in found if isinstance(one, kinds)]


def test_analyses_import_nothing_that_holds_records_and_use_no_private_names() -> None:
    forbidden = (
        "warehouse",
        "dataset",
        "mechanism",
        "vault",
        "cube",
        "ledger",
        "preparation",
        "registration",
        "value_counts",
        "microdata",
        "duckdb",
    )
    for path in [*(HOME / "analyses").glob("*.py"), *(HOME / "models").glob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        modules = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        modules += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        assert not [m for m in modules if m.rpartition(".")[2] in forbidden], path
        attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr.startswith("_"))
        private = [
            n.attr for n in attributes if not n.attr.startswith("__") and ast.unparse(n.value) not in ("self", "cls")
        ]
        assert not private, (path, private)
        assert "_SEAL" not in path.read_text("utf-8"), path


def test_the_seal_is_in_the_hands_of_the_mechanism_alone() -> None:
    holders = {p.name for p in HOME.rglob("*.py") if "_SEAL" in p.read_text("utf-8")}
    assert holders <= {"sums.py", "mechanism.py", "shelf.py", "ledger.py"}  # the shelf reads what the mechanism made
    assert "sums import" not in (HOME / "ledger.py").read_text("utf-8").replace(
        "from sfumato.mas.sums import PrivacyLoss", ""
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: ProtectedCells(object(), (), {"n": np.zeros(())}, {"n": np.zeros(())}, np.zeros(())),
        lambda: ProtectedTotals(None, np.zeros(1), np.zeros(1)),
        lambda: ProtectedSums("seal", {}),
    ],
)
def test_protected_sums_cannot_be_made_without_the_seal(make: Any) -> None:
    with pytest.raises(TypeError, match="made by the mechanism"):
        make()


class Probe(Analysis, abstract=True):
    """An analysis written by somebody who wants more than it may have."""

    kind = "table"
    act: ClassVar[Any] = None
    again: int = param(default=0, doc="makes it another question", integer=True)

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return ()

    def wording(self) -> str:
        return f"{type(self).__name__}:{self.again}"

    def steps(self, question: Question, register: Register) -> Steps:
        return (yield from type(self).act(question, register))


class Copies(RecordFunction):
    """Rows of a column as they are."""

    def __init__(self, column: str, factor: float = 1.0) -> None:
        self.column, self.factor = column, factor

    @property
    def columns(self) -> Sequence[str]:
        return [self.column]

    def __call__(self, piece: Piece) -> Numbers:
        return np.asarray(piece[self.column], np.float64)[None, :] * self.factor


def asks(question: Question) -> SumsRequest:
    return SumsRequest({"t": TableSums((question.codebook.variables["sick"],))})


def register_cells(question: Question, register: Register) -> Steps:
    yield from ()
    register.cells((question.codebook.variables["sick"],), Selection((), (np.ones((), bool),)))
    return Result({})


def register_units(question: Question, register: Register) -> Steps:
    yield from ()
    register.units((question.codebook.variables["sick"],), "h")
    return Result({})


def register_sums(question: Question, register: Register) -> Steps:
    yield from ()
    register.reduce(Copies("x"), [question.codebook.variables["income"].numbers], Selection((), (np.ones((), bool),)))
    return Result({})


def register_within(question: Question, register: Register) -> Steps:
    yield from ()
    register.count(Selection((question.codebook.variables["sick"],), (np.array([True, False]),)))
    return Result({})


def factors_confidential(question: Question, register: Register) -> Steps:
    x = question.codebook.variables["income"]
    yield SumsRequest(
        {"t": TotalSums("mine", Copies(x.numbers), Copies(x.numbers), (Confidential(0, 1, 1),), ((0, 0),), (x,))}
    )
    return Result({})


def overwritten(question: Question, register: Register) -> Steps:
    sums = yield asks(question)
    sums.cells("t").sums["n"][...] = 0
    return Result({})


def forged(question: Question, register: Register) -> Steps:
    sums = yield asks(question)
    cells = sums.cells("t")
    ProtectedCells(None, cells.sides, {"n": np.zeros(2)}, {"n": np.zeros(2)}, cells.sizes)
    return Result({})


def question_dataset(question: Question, register: Register) -> Steps:
    yield from ()
    question.dataset  # type: ignore[attr-defined]  # noqa: B018
    return Result({})


def endless(question: Question, register: Register) -> Steps:
    while True:
        yield asks(question)


TRIES = {f.__name__: f for f in (
    register_cells, register_units, register_sums, register_within, factors_confidential, overwritten,
    forged, question_dataset, endless,
)}  # fmt: skip


@pytest.mark.parametrize("name", TRIES)
def test_an_analysis_that_wants_more_than_protected_sums_gets_an_error_that_tells_nothing(
    vaults: tuple[Vault, Vault], name: str
) -> None:
    probe = type(
        f"Try{name.title()}", (Probe,), {"act": staticmethod(TRIES[name]), "__module__": "tests"}, abstract=True
    )
    told = []
    for vault in vaults:
        before = vault.ledger.spent("eve", "survey", vault.dataset("survey").variables)
        with pytest.raises(DataError, match=r"could not be computed|too many steps") as caught:
            vault.ask("survey", None, probe(), POLICIES[2], user="eve")
        assert caught.value.__cause__ is None
        told.append(str(caught.value))
        spent = vault.ledger.spent("eve", "survey", vault.dataset("survey").variables) - before
        assert (spent > 0) == (name in ("overwritten", "forged", "endless") and before == 0), (
            name
        )  # what was told is paid, once
    assert told[0] == told[1]


def test_an_unbounded_row_is_clipped_to_the_bounds_that_its_noise_is_for(vaults: tuple[Vault, Vault]) -> None:
    data = vaults[0].dataset("survey")
    x, quiet = data.variables["wealth"], POLICIES[2].set({"models.growth": 0, "models.sd": 1e-6})
    question = Question(data.codebook, quiet, Universe(), DryRun())
    asked = TotalSums(
        "huge", Copies("r", 0.0), Copies(x.numbers, 1e12), (Confidential(0.0, 1.0, 0.5),), ((0, 0),), (x,)
    )
    ones = replace(asked, factors=Ones())
    values = Mechanism(data, quiet, question).protect(SumsRequest({"t": ones}))[0].totals("t").values
    assert -1 < values[0] < N + 1


class Ones(Copies):
    """One for each record."""

    def __init__(self) -> None:
        super().__init__("r")

    def __call__(self, piece: Piece) -> Numbers:
        return np.ones((1, len(piece["r"])))


# -- fails closed


def test_a_policy_cannot_be_made_by_leaving_things_out() -> None:
    with pytest.raises(TypeError, match="missing"):
        Policy()
    with pytest.raises(TypeError, match="missing"):
        Policy(title="mine")


class NeedsMore(ConfidentialityRule, abstract=True):
    """A rule about a kind of evidence that no table gives."""

    needs: ClassVar[type[Evidence] | None] = ModelEvidence

    def words(self) -> str:
        return "There is evidence."


def test_a_rule_whose_evidence_is_absent_refuses(vaults: tuple[Vault, Vault]) -> None:
    policy = POLICIES[2].with_(rules=(NeedsMore(),))
    refused = vaults[0].ask("survey", None, CrossTab(("sex",)), policy)
    assert isinstance(refused, Refusal)
    assert "nothing by which this rule can be checked" in refused.reason
    for rule in POLICIES[0].rules:
        if rule.needs is not None:
            assert all(rule.judged(kind, ()) is not None for kind in rule.about), rule.name


def test_what_is_refused_after_computing_is_paid(vaults: tuple[Vault, Vault]) -> None:
    vault = vaults[0]
    policy = POLICIES[2].with_(rules=(NeedsMore(),))
    assert isinstance(vault.ask("survey", None, CrossTab(("sick",)), policy, user="flo"), Refusal)
    assert vault.ledger.spent("flo", "survey", vault.dataset("survey").variables) > 0


def test_a_question_and_protected_sums_are_immutable(vaults: tuple[Vault, Vault]) -> None:
    data = vaults[0].dataset("survey")
    question = Question(data.codebook, POLICIES[0], Universe(), DryRun())
    for name in ("policy", "universe", "analysis", "codebook"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(question, name, None)
    sums, _ = Mechanism(data, POLICIES[0], question).protect(asks(question))
    for values in (sums.cells("t").n, sums.cells("t").variances["n"], sums.cells("t").sizes):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0
    assert isinstance(vaults[0].ask("survey", None, CrossTab(("sex",)), POLICIES[0]), Answer)
