"""Checks for people who write their own analyses and rules: a sound one passes, and a cheat is named in a sentence."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from mas_cheats import TRIES

from sfumato.contract import param
from sfumato.mas import Analysis, ConfidentialityRule
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.question import Question, Result, Steps, levels_of
from sfumato.mas.register import Register
from sfumato.mas.rule import UniverseEvidence
from sfumato.mas.sums import SumsRequest, TableSums
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Answering
from sfumato.testing import check_analysis, check_confidentiality_rule
from sfumato.testing.analyses import (
    answers_alike_in_other_words,
    answers_or_refuses_extreme_data,
    depends_on_protected_sums_alone,
    gives_evidence_for,
    is_answered,
    is_charged_for_what_it_asks,
    keeps_nothing_of_what_it_saw,
    quotes_no_record,
)
from sfumato.testing.instances import keep
from sfumato.testing.survey import POLICIES, survey_frame

Act = Callable[[Question, Register], Steps]


class Frequencies(Analysis):
    """Count the records of each level of a variable."""

    kind: ClassVar[Literal["table", "model"]] = "table"
    act: ClassVar[Act | None] = None
    of: str = param(doc="the variable", columns="one", holds="categories")

    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return levels_of((self.of,), known)

    def wording(self) -> str:
        return f"frequencies:{self.of}"

    def steps(self, question: Question, register: Register) -> Steps:
        act = type(self).act
        if act is not None:
            return (yield from act(question, register))
        sums = yield one_table(question)
        return counted(question, sums.cells("levels").n)


def one_table(question: Question) -> SumsRequest:
    return SumsRequest({"levels": TableSums(question.analysis.variables(question.codebook.variables))})


def counted(question: Question, n: Any, *notes: str) -> Result:
    (side,) = question.analysis.variables(question.codebook.variables)
    shown = question.policy.counts.shown(n)
    rows = [{side.name: a, "count": float(b)} for a, b in zip(side.levels, shown, strict=True)]
    return Result({"levels": rows}, notes=tuple(notes))


def test_a_sound_analysis_passes() -> None:
    check_analysis(Frequencies)


# -- cheats that the pipeline stops


@pytest.mark.parametrize(("name", "sentence"), [
    *((name, "TypeError: the register holds known variables alone") for name in TRIES if name.startswith("register_")),
    ("factors_confidential", "It raised (KeyError|TypeError)"), ("overwritten", "ValueError: assignment destination is read-only"),
    ("forged", "protected sums are made by the mechanism"), ("question_dataset", "has no attribute 'dataset'"),
    ("endless", "takes too many steps"),
])  # fmt: skip
def test_an_analysis_that_wants_more_than_protected_sums_is_told_so(
    name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frequencies, "act", staticmethod(TRIES[name]))
    with pytest.raises(AssertionError, match=rf"Frequencies\(of='sick'\) breaks a promise\. .*{sentence}"):
        check_analysis(Frequencies)


# -- cheats that no pipeline can stop: Python hides nothing


def caller(kind: type) -> Any:
    """The nearest object of some kind that a caller holds."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        found = [one for one in frame.f_locals.values() if isinstance(one, kind)]
        if found:
            return found[0]
    raise LookupError


def looks_at_records(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    data = caller(Answering).dataset
    rich = int(
        data.warehouse.ask(f"SELECT count(*) AS n FROM records WHERE {data.variables['wealth'].numbers} > 200")["n"][0]
    )
    return counted(question, sums.cells("levels").n, f"There are {'many' if rich > 175 else 'few'} rich persons.")


def sums_without_charge(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    sides = tuple(question.codebook.variables[name] for name in ("sex", "sick", "work"))
    caller(Mechanism).protect(SumsRequest({"more": TableSums(sides)}))
    return counted(question, sums.cells("levels").n)


def two_steps_of_a_table(question: Question, register: Register) -> Steps:
    yield SumsRequest({"first": TableSums(())})
    sums = yield one_table(question)
    return counted(question, sums.cells("levels").n)


def keeps_the_sums(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    Frequencies.kept = [sums]  # type: ignore[attr-defined]
    return counted(question, sums.cells("levels").n)


TIMES = itertools.count()


def never_twice_alike(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    return counted(question, sums.cells("levels").n, f"This is answer {next(TIMES)}.")


def quotes_a_value(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    return counted(question, sums.cells("levels").n, f"Somebody has {survey_frame()['wealth'][7]}.")


def divides_by_zero(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    n = sums.cells("levels").n
    if len(n) == 1:
        raise ZeroDivisionError
    return counted(question, n)


def array_in_a_cell(question: Question, register: Register) -> Steps:
    sums = yield one_table(question)
    return Result({"levels": [{"count": np.float64(sums.cells("levels").n[0])}]})


CHEATS = [
    (looks_at_records, depends_on_protected_sums_alone, "another file gets something else"),
    (sums_without_charge, is_charged_for_what_it_asks, "It is charged .*, and was told"),
    (two_steps_of_a_table, is_charged_for_what_it_asks, "The price was .* Ask for all sums in one step"),
    (keeps_the_sums, keeps_nothing_of_what_it_saw, "It keeps ProtectedSums"),
    (never_twice_alike, answers_alike_in_other_words, "This is answer"),
    (quotes_a_value, quotes_no_record, "quotes a value of column 'wealth'"),
    (array_in_a_cell, is_answered, "is no plain value"),
]


@pytest.mark.parametrize(("act", "promise", "sentence"), CHEATS, ids=lambda v: getattr(v, "__name__", None))
def test_an_analysis_that_breaks_a_promise_is_told_which(
    act: Act, promise: Callable[[Analysis], None], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frequencies, "act", staticmethod(act))
    monkeypatch.setattr(Frequencies, "kept", [], raising=False)
    with pytest.raises(AssertionError, match=rf"(?s){str(promise.__doc__).split('.')[0]}\..*{sentence}"):
        check_analysis(Frequencies("sick"))


def test_an_analysis_that_stumbles_over_extreme_data_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frequencies, "act", staticmethod(divides_by_zero))
    with pytest.raises(AssertionError, match=r"Data: one level\. It raised ZeroDivisionError"):
        keep(answers_or_refuses_extreme_data, Frequencies("sick"), Frequencies("sick"), "one level", on="one level")


def test_an_analysis_without_the_evidence_of_its_kind_is_told_what_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frequencies, "kind", "model")
    for name, needed in (("leverage", "ModelEvidence"), ("high_correlation", "CorrelationEvidence")):
        rule = POLICIES["hardened"].rule(name)
        assert rule is not None
        with pytest.raises(AssertionError, match=f"Rule '{name}' finds no {needed}"):
            gives_evidence_for(Frequencies("sick"), rule)


# -- rules


class FewPieces(ConfidentialityRule):
    """A universe is one piece."""

    def before(self, question: Question, register: Register) -> Any:
        if len(question.universe.pieces) > 1:
            return self.refuse(self.why(question), "Ask about each piece.")
        return None

    def why(self, question: Question) -> str:
        return "The universe has several pieces."

    def words(self) -> str:
        return "A universe has one piece."


class Lenient(FewPieces):
    """A universe is one piece, or nobody knows."""

    needs = UniverseEvidence

    def judged(self, kind: str, evidence: Any) -> None:
        return None


def test_a_confidentiality_rule_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_confidentiality_rule(FewPieces)
    with pytest.raises(AssertionError, match=r"An answer of a table without .* is allowed"):
        check_confidentiality_rule(Lenient)
    monkeypatch.setattr(FewPieces, "why", lambda self, question: "The universe has 37 records.")
    with pytest.raises(AssertionError, match="A refusal tells a number that is no parameter of the rule"):
        check_confidentiality_rule(FewPieces)
    monkeypatch.setattr(FewPieces, "words", lambda self: "one piece")
    with pytest.raises(AssertionError, match="This is no sentence: one piece"):
        check_confidentiality_rule(FewPieces)


def test_only_analyses_and_rules_are_checked() -> None:
    with pytest.raises(TypeError, match="a class derived from Analysis"):
        check_analysis(FewPieces)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a class derived from ConfidentialityRule"):
        check_confidentiality_rule(Frequencies)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"It raised DataError: .* give others: values="):
        check_analysis(Frequencies("pay of nobody"))
