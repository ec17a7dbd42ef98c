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
from mas_cheats import TRIES, Copies, asks

import sfumato.mas
from sfumato import Microdata
from sfumato.contract import registered
from sfumato.contract.parameters import param
from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError, SfumatoError
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.cube import Cube, Cubes, UnitCounts
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question, Steps
from sfumato.mas.register import Register
from sfumato.mas.rule import ConfidentialityRule, Evidence, ModelEvidence
from sfumato.mas.sums import Confidential, Piece, ProtectedCells, ProtectedSums, ProtectedTotals, SumsRequest, TotalSums
from sfumato.mas.universe import Universe
from sfumato.mas.variable import Variable
from sfumato.mas.vault import DryRun, Vault, question_of
from sfumato.testing.analyses import told_about
from sfumato.testing.survey import NOISE_ALONE, PEOPLE, fresh_accounts, same_sums, survey_vault
from sfumato.typing import Numbers

HOME = Path(sfumato.mas.__file__).parent
POLICIES = (
    Policy.named("hardened").with_(per_minute=None), Policy.named("guaranteed").with_(per_minute=None),
    Policy.named("hardened").with_(per_minute=None, accounts=UNLIMITED, title="uncharged"), Policy.named("census2009"),
    NOISE_ALONE,
)  # fmt: skip


@pytest.fixture
def vaults() -> Iterator[tuple[Vault, Vault]]:
    """Two files of the same persons, that differ in all confidential values."""
    with fresh_accounts(survey_vault()) as one, fresh_accounts(survey_vault("other values")) as two:
        yield one, two


# -- random questions


def analyses() -> list[type[Analysis]]:
    """Every analysis that a user can ask for."""
    found = [
        c for c in registered("analysis").values() if c.__module__.startswith("sfumato.") and issubclass(c, Analysis)
    ]
    return sorted((c for c in found if c is not DryRun), key=lambda c: c.name)


_TEXTS, _NUMBERS = ("sex", "region", "sick", "work", "age", "pay"), ("age", "hours", "pay", "wealth")
_TERMS = (
    "age",
    "hours",
    "C(sex)",
    "C(region)",
    "pay",
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
        "sex": ["F", "M"], "region": ["East", "North", "South", "West"], "sick": ["no", "yes"], "work": ["full", "none", "part"],
        "age": ["29 or less", "30 to 44", "45 to 59", "60 to 74", "75 or more"],
    }  # fmt: skip
    pieces = []
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        names = rng.choice(list(levels), rng.choice([1, 2, 3, 4]), replace=False)
        pieces.append({
            str(n): [str(v) for v in rng.choice(levels[n], rng.integers(1, len(levels[n])), replace=False)] for n in names
        })  # fmt: skip
    return pieces or None


def compared(number: int, seed: int) -> dict[str, int]:
    """Ask both files the same random questions with one file's protected sums; return how many came to what."""
    rng, seen, kinds = np.random.default_rng(seed), {"answered": 0, "refused": 0, "error": 0}, analyses()
    with same_sums() as pair:
        for i in range(number):
            kind, policy = kinds[i % len(kinds)], POLICIES[rng.integers(len(POLICIES))]
            fields, universe = random_fields(kind, rng), random_universe(rng)
            try:
                analysis = kind.from_dict(fields)
            except SfumatoError:
                continue
            told = [told_about(vault, data, analysis, policy, universe) for vault, data in pair]
            assert told[0] == told[1], (kind.name, fields, universe, policy.title)
            assert "could not be computed" not in told[0][-1], (kind.name, fields, universe)
            seen["error" if len(told[0]) == 2 else "refused" if len(told[0]) == 3 else "answered"] += 1
        lines = [[(e.user, e.family, dict(e.content)) for e in vault.ledger.entries()] for vault, _ in pair]
        assert lines[0] == lines[1]
        for payer in ("ann", ""):
            spent = [vault.ledger.spent(payer, "survey", pair[0][1].variables) for vault, _ in pair]
            assert spent[0] == spent[1]
        assert str(pair[0][0].usage("survey")).partition("\n")[0] == str(pair[1][0].usage("survey")).partition("\n")[0]
    return seen


def test_random_questions_with_protected_sums_held_fixed_are_told_nothing_of_confidential_values() -> None:
    """A contract test does it for every analysis; here parameters and universes are random, and accounts run out."""
    seen = compared(40, 1)
    assert min(seen["answered"], seen["refused"]) > 4, seen


@pytest.mark.verify
def test_two_thousand_questions_with_protected_sums_held_fixed() -> None:
    seen = compared(2_000, 2)
    assert min(seen["answered"], seen["refused"]) > 200, seen


def test_answers_differ_where_the_sums_do(vaults: tuple[Vault, Vault]) -> None:
    """The test above would see it."""
    table = CrossTab(("region",), of="pay")
    told = [told_about(v, v.dataset("survey"), table, POLICIES[2], None) for v in vaults]
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
    assert refused > 4


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
    question = question_of(vaults[0].dataset("survey"), POLICIES[0], universe, CrossTab(("sick",), of="pay"))
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
    assert -1 < values[0] < PEOPLE + 1


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
