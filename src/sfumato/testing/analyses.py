"""The promises of every analysis of the analysis system, and of every confidentiality rule."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from sfumato.data.warehouse import Warehouse
from sfumato.errors import DataError, SfumatoError
from sfumato.files import parse_json
from sfumato.mas import Analysis, Answer, ConfidentialityRule, Policy, Refusal, Vault
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.question import Question
from sfumato.mas.register import Register
from sfumato.mas.rule import NO_EVIDENCE
from sfumato.mas.sums import Sealed
from sfumato.mas.universe import Spec
from sfumato.mas.vault import DryRun, cell_counts
from sfumato.testing.instances import (
    GENERAL_PROMISES,
    Promises,
    Values,
    instances_of,
    keep,
    require,
    round_trip,
)
from sfumato.testing.records import require_words
from sfumato.testing.survey import (
    AMOUNTS,
    EXTREME_SURVEYS,
    GROUPS,
    HIDDEN,
    NOISE_ALONE,
    OPEN,
    POLICIES,
    UNIVERSES,
    answer_of,
    fresh_accounts,
    frozen,
    questions,
    same_sums,
    survey_frame,
    survey_vault,
    watched_losses,
)

# --- comparisons


def bytes_of(found: Answer | Refusal) -> bytes:
    """Return the canonical bytes of an answer or a refusal."""
    return found.to_bytes() if isinstance(found, Answer) else json.dumps(found.to_json(), sort_keys=True).encode()


def require_same_answer(one: Answer | Refusal, other: Answer | Refusal, tolerance: float = 0.0) -> None:
    """Require the same answer or refusal; numbers that are no counts up to a relative tolerance."""
    if not tolerance or not (isinstance(one, Answer) and isinstance(other, Answer)):
        require(bytes_of(one) == bytes_of(other), f"One is {one}, the other {other}.")
        return
    require((one.notes, one.citation) == (other.notes, other.citation), "The notes or citations differ.")
    require(list(one.tables) == list(other.tables), "The tables differ.")
    pairs = [(a, b) for name, rows in one.tables.items() for a, b in zip(rows, other.tables[name], strict=True)]
    for a, b in [*pairs, (one.facts, other.facts)]:
        require(list(a) == list(b), "The columns or facts differ.")
        for name, value in a.items():
            require(_near(name, value, b[name], tolerance), f"'{name}' is {value} in one and {b[name]} in the other.")


def _near(name: str, value: Any, other: Any, tolerance: float) -> bool:
    if name in ("count", "n") or not (isinstance(value, float) and isinstance(other, float)):
        return bool(value == other)
    both = math.isnan(value) and math.isnan(other)
    return both or math.isclose(value, other, rel_tol=tolerance, abs_tol=1e-12)


def require_no_value(*texts: str) -> None:
    """Require that no text quotes a confidential amount of the survey."""
    frame = survey_frame()
    numbers = set(re.findall(r"\d+\.\d{2,}", " ".join(texts).replace(",", "")))
    for name in HIDDEN:
        quoted = numbers & {str(v) for v in frame[name].dropna()}
        require(not quoted, f"A text quotes a value of column '{name}'.")


def told_about(vault: Vault, dataset: Dataset, analysis: Analysis, policy: Policy, universe: Spec) -> tuple[str, ...]:
    """Return all that a user is told: the price, and an answer with its chart, a refusal, or an error."""
    try:
        price = str(vault.price(dataset, universe, analysis, policy, user="ann"))
        found = vault.ask(dataset, universe, analysis, policy, user="ann")
    except SfumatoError as error:
        return type(error).__name__, str(error)
    if isinstance(found, Refusal):
        return price, str(found), repr(found.to_json())
    chart = found.chart().to_json() if analysis.drawn else ""
    return price, str(found), repr(found.to_bytes()), chart


# --- promises of analyses


def survives_json(analysis: Analysis) -> None:
    """Written to JSON and read back, it is the same, and asks the same."""
    again = type(analysis).from_dict(parse_json(json.dumps(analysis.to_dict())))
    require(again == analysis and again.wording() == analysis.wording() != "", "What is read back differs.")


def is_answered(analysis: Analysis) -> None:
    """Where there are no rules and no accounts it is answered, in tables of plain values, with and without noise."""
    for policy in (NOISE_ALONE, OPEN):
        found = answer_of(analysis, policy)
        if not isinstance(found, Answer):
            raise AssertionError(f"Under the policy '{policy.title}' it is refused: {found}")
        require_plain(found, analysis)


def require_plain(answer: Answer, analysis: Analysis) -> None:
    """Require an answer that says what it is of, in tables with the same columns in each row."""
    require(answer.analysis == analysis.name, "The answer has the name of another analysis.")
    require(answer.tables and all(answer.tables.values()), "The answer has no table, or one without rows.")
    for name, rows in answer.tables.items():
        require(len({tuple(row) for row in rows}) == 1, f"The rows of table '{name}' have different columns.")
    values = [value for rows in answer.tables.values() for row in rows for value in row.values()]
    for value in (*values, *answer.facts.values()):
        require(value is None or type(value) in (str, int, float, bool), f"{value!r} is no plain value.")
    require(all(re.fullmatch(r".*[.?]", note, re.DOTALL) for note in answer.notes), "A note is no sentence.")
    require(
        parse_json(answer.to_bytes().decode())["analysis"] == analysis.name and str(answer), "It cannot be written."
    )
    if analysis.drawn:
        require(answer.chart().to_dict(), "The chart is empty.")
        return
    try:
        answer.chart()
    except DataError as error:
        require_words(error)
        return
    raise AssertionError("It has a chart, but `drawn` is false.")


def answers_alike_in_other_words(analysis: Analysis) -> None:
    """Another wording, and a vault that was opened again, get the same bytes under every policy; none misses its evidence."""
    again = Vault.open(survey_vault().folder).dataset("survey")
    read = round_trip(analysis)
    for policy, universe, reworded in questions():
        one, other = answer_of(analysis, policy, universe), answer_of(read, policy, reworded, again)
        require_judged(one, policy)
        require(bytes_of(one) == bytes_of(other), f"Under '{policy.title}', of {universe}: {one}\nand then: {other}")


def depends_on_protected_sums_alone(analysis: Analysis) -> None:
    """With the same protected sums all that is told is the same for other confidential values: answer, refusal, price, chart."""
    with same_sums() as pair:
        for policy, universe, _ in questions():
            one, other = (told_about(vault, data, analysis, policy, universe) for vault, data in pair)
            require(
                one == other,
                f"Under '{policy.title}', of {universe}, another file gets something else. Make it of the sums.",
            )
        lines = [[(e.user, e.family, dict(e.content)) for e in vault.ledger.entries()] for vault, _ in pair]
        require(lines[0] == lines[1], "The lines of the log differ.")
        spent = [vault.ledger.spent("ann", "survey", pair[0][1].variables) for vault, _ in pair]
        require(spent[0] == spent[1], "What is charged differs.")


def is_charged_for_what_it_asks(analysis: Analysis) -> None:
    """Every sum that it gets is charged, whether it is answered or refused, and its price was no less."""
    for name in ("hardened", "guaranteed"):
        accounts = POLICIES[name].accounts.with_(user=99.99, everybody=99.999)
        policy = POLICIES[name].with_(accounts=accounts)
        for universe, _ in (UNIVERSES["everybody"], UNIVERSES["confidential"]):
            paid, due, price = _bill(analysis, policy, universe)
            require(math.isclose(paid, due, rel_tol=1e-9), f"It is charged {paid:.3g}, and was told {due:.3g}.")
            fine = price.at_least or paid <= price.loss * (1 + 1e-5)  # the ledger keeps six digits
            require(fine, f"The price was {price.loss:.3g}, and {paid:.3g} is charged. Ask for all sums in one step.")


def _bill(analysis: Analysis, policy: Policy, universe: Spec) -> tuple[float, float, Any]:
    """Return what a question is charged, what it is told, and its price."""
    vault = survey_vault()
    data = vault.dataset("survey")
    counts = cell_counts(data, policy)
    with fresh_accounts(vault) as one, fresh_accounts(vault) as other:
        price = one.price("survey", universe, analysis, policy, user="ann")
        with watched_losses() as losses:
            one.ask("survey", universe, analysis, policy, user="ann")
        other.ledger.settle("ann", "survey", {}, losses, policy.accounts, data.variables, counts=counts)
        paid, due = (v.ledger.spent("ann", "survey", data.variables, counts) for v in (one, other))
    return paid, due, price


def quotes_no_record(analysis: Analysis) -> None:
    """No text that comes with an answer or a refusal quotes a value of a record."""
    for policy in (NOISE_ALONE, POLICIES["hardened"]):
        for universe, _ in (UNIVERSES["everybody"], UNIVERSES["small"]):
            found = answer_of(analysis, policy, universe)
            if isinstance(found, Answer):
                texts = [
                    v for rows in found.tables.values() for row in rows for v in row.values() if isinstance(v, str)
                ]
                require_no_value(*found.notes, *texts)
            else:
                require_no_value(str(found))


def keeps_nothing_of_what_it_saw(analysis: Analysis) -> None:
    """After a question neither it nor its class leads to a register, to sums or to records."""
    kinds = (Register, Sealed, Dataset, Warehouse, Mechanism, Question, Vault, pd.DataFrame)
    answer_of(analysis, NOISE_ALONE)
    for start in (vars(analysis), *(dict(vars(c)) for c in type(analysis).__mro__ if c is not object)):
        left = [type(one).__name__ for one in reachable(start) if isinstance(one, kinds)]
        require(not left, f"It keeps {', '.join(sorted(set(left)))}. What steps needs belongs in its own variables.")


def reachable(start: object, steps: int = 6) -> Iterator[object]:
    """Yield all objects that can be reached from one by some attributes and members, one after another."""
    seen: dict[int, object] = {}
    level = [start]
    for _ in range(steps):
        following: list[object] = []
        for one in level:
            if id(one) in seen or isinstance(one, str | bytes | int | float | type | None):
                continue
            seen[id(one)] = one
            yield one
            if isinstance(one, Mapping):
                following += one.values()
            elif isinstance(one, Sequence | set | frozenset):
                following += one
            elif dataclasses.is_dataclass(one):
                following += vars(one).values()
        level = following


def gives_evidence_for(analysis: Analysis, rule: ConfidentialityRule) -> None:
    """It gives the evidence that a rule about its kind needs, where this is the only rule; otherwise it would be refused."""
    policy = NOISE_ALONE.with_(rules=(rule,))
    require_judged(answer_of(analysis, policy, UNIVERSES["a union"][0]), policy)


def require_judged(found: Answer | Refusal, policy: Policy) -> None:
    """Require that no rule of a policy refuses for want of evidence."""
    if isinstance(found, Refusal) and found.reason == NO_EVIDENCE:
        needed = {rule.name: rule.needs.__name__ for rule in policy.rules if rule.needs is not None}[found.rule]
        raise AssertionError(
            f"Rule '{found.rule}' finds no {needed}. Return it with the result: Result(..., evidence=(...,))."
        )


def answers_or_refuses_extreme_data(analysis: Analysis, kind: str) -> None:
    """Extreme data are answered, or refused in a sentence, under every policy."""
    data = survey_vault(kind).dataset("survey")
    for policy in (*POLICIES.values(), NOISE_ALONE):
        try:
            found = answer_of(analysis, policy, None, data)
        except SfumatoError as error:
            require_words(error)
            continue
        if isinstance(found, Answer):
            require_plain(found, analysis)
        else:
            require(found.reason.endswith(".") and found.suggestion.endswith("."), f"A refusal is no sentence: {found}")


def answers_alike_elsewhere(analysis: Analysis, elsewhere: Vault) -> None:
    """Records on another engine give the same answers, to the last digits of sums."""
    data = elsewhere.dataset("survey")
    for policy in (NOISE_ALONE, OPEN):
        one, other = answer_of(analysis, policy), answer_of(analysis, policy, None, data)
        require_same_answer(one, other, tolerance=1e-9)


ANALYSIS_PROMISES: Promises = (
    survives_json, is_answered, keeps_nothing_of_what_it_saw, answers_alike_in_other_words, depends_on_protected_sums_alone,
    is_charged_for_what_it_asks, quotes_no_record,
)  # fmt: skip
"""On the ordinary survey; `gives_evidence_for` for every rule, `answers_or_refuses_extreme_data` on `EXTREME_SURVEYS`."""


# --- promises of confidentiality rules


def says_what_it_demands(rule: ConfidentialityRule) -> None:
    """It says in a sentence what it demands."""
    require(re.fullmatch(r"[A-Z].*\.", rule.words()), f"This is no sentence: {rule.words()}")
    require(all(isinstance(kind, str) for kind in rule.about) and rule.about, "`about` names no kind of analysis.")


def refuses_where_evidence_is_absent(rule: ConfidentialityRule) -> None:
    """Where the evidence that it needs is absent, it refuses every analysis that it is about."""
    for kind in rule.about if rule.needs is not None else ():
        found = rule.judged(kind, ())
        require(isinstance(found, Refusal), f"An answer of a {kind} without {rule.needs} is allowed.")


def decides_by_known_variables_and_protected_sums(rule: ConfidentialityRule) -> None:
    """It decides alike for files that differ in confidential values alone, where protected sums are the same."""
    policy = NOISE_ALONE.with_(rules=(rule,))
    with same_sums() as pair:
        for universe, _ in UNIVERSES.values():
            found = [answer_of(DryRun(), policy, universe, data) for _, data in pair]
            require(bytes_of(found[0]) == bytes_of(found[1]), f"Of {universe}, another file gets something else.")
            for refusal in (one for one in found if isinstance(one, Refusal)):
                refuses_in_one_wording(rule, refusal)
    allowed = [
        rule.allows(
            data.register(policy), data.units, tuple(data.variables[name] for name in ("region", "sex", "sick"))
        )
        for data in (survey_vault(kind).dataset("survey") for kind in ("", "other values"))
    ]
    require(allowed[0] == allowed[1], "Which variables go together depends on confidential values.")


def refuses_in_one_wording(rule: ConfidentialityRule, refusal: Refusal) -> None:
    """A refusal names the rule, and no number but those of its parameters."""
    require(refusal.rule == rule.name, f"The refusal names the rule '{refusal.rule}'.")
    require(refusal.reason.endswith(".") and refusal.suggestion.endswith("."), f"A refusal is no sentence: {refusal}")
    numbers = set(re.findall(r"\d+(?:\.\d+)?", f"{refusal.reason} {refusal.suggestion}"))
    own = {f"{v:g}" for v in rule.to_dict().values() if isinstance(v, int | float)}
    require(numbers <= own, f"A refusal tells a number that is no parameter of the rule: {refusal}")


CONFIDENTIALITY_PROMISES: Promises = (
    says_what_it_demands, refuses_where_evidence_is_absent, decides_by_known_variables_and_protected_sums,
)  # fmt: skip


# --- checks


def analyses_of(analysis: Analysis | type[Analysis], values: Values | None = None) -> list[Analysis]:
    """Return the instance that is to be checked, or those of a class: with each other choice, and each flag set otherwise."""
    found = instances_of(Analysis, analysis, values, AMOUNTS, GROUPS)  # type: ignore[type-abstract]
    if isinstance(analysis, type):
        flags = [f.name for f in dataclasses.fields(analysis) if f.type == "bool" and f.name not in (values or {})]
        found += [found[0].with_(**{name: not getattr(found[0], name)}) for name in flags]
    return found


def check_analysis(
    analysis: Analysis | type[Analysis],
    values: Values | None = None,
    rules: Sequence[ConfidentialityRule] | None = None,
    spark: Any = None,
) -> None:
    """Check an analysis against every promise of the contract; raise an AssertionError that names the first one that it breaks.

    A class is built from its declared parameters: with its defaults, then with each other choice. `values` gives the parameters
    that cannot be guessed, such as a formula. An instance is checked as it is.

    The survey has 2,400 people. Known columns are sex, region, age and hours; confidential ones are sick (yes, no), work (full,
    none, part), pay and wealth. It is asked under every policy that comes with sfumato, under noise alone, and under each of
    `rules` alone (by default those of the policy hardened); with a Spark session, on Spark too.

    Examples
    --------
    >>> from sfumato.mas import CrossTab
    >>> check_analysis(CrossTab(("sex", "sick")))
    """
    there = None if spark is None else survey_on_spark(spark)
    for thing in analyses_of(analysis, values):
        for promise in (*GENERAL_PROMISES, *ANALYSIS_PROMISES):
            keep(promise, thing, thing)
        for rule in POLICIES["hardened"].rules if rules is None else rules:
            keep(gives_evidence_for, thing, thing, rule, on=f"rule {rule.name}")
        for kind in EXTREME_SURVEYS:
            keep(answers_or_refuses_extreme_data, thing, thing, kind, on=kind)
        if there is not None:
            keep(answers_alike_elsewhere, thing, thing, there, on="Spark")


def survey_on_spark(spark: Any) -> Vault:
    """Return a vault with the survey in Spark."""
    frame = survey_frame()
    return frozen(frame, spark.createDataFrame(frame), spark)


def check_confidentiality_rule(
    rule: ConfidentialityRule | type[ConfidentialityRule], values: Values | None = None
) -> None:
    """Check a confidentiality rule against every promise of the contract, on the survey of `check_analysis`.

    Examples
    --------
    >>> from sfumato.mas import LevelSize
    >>> check_confidentiality_rule(LevelSize(30))
    """
    for thing in instances_of(ConfidentialityRule, rule, values):  # type: ignore[type-abstract]
        for promise in (*GENERAL_PROMISES, *CONFIDENTIALITY_PROMISES):
            keep(promise, thing, thing)
