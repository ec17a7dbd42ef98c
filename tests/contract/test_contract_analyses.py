"""Promises kept by every registered analysis, under every rule and policy, on extreme data and on every engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import duckdb
import pytest

from sfumato.contract import registered
from sfumato.errors import DataError
from sfumato.mas import Analysis, Answer, ConfidentialityRule, CrossTab, Vault
from sfumato.mas.analyses import OLS, Histogram
from sfumato.mas.vault import DryRun
from sfumato.testing.analyses import (
    ANALYSIS_PROMISES,
    CONFIDENTIALITY_PROMISES,
    analyses_of,
    answers_alike_elsewhere,
    answers_or_refuses_extreme_data,
    gives_evidence_for,
    is_answered,
    survey_on_spark,
    survives_json,
)
from sfumato.testing.instances import GENERAL_PROMISES, variants
from sfumato.testing.survey import EXTREME_SURVEYS, NOISE_ALONE, POLICIES, answer_of, frozen, survey_frame, survey_vault

LIFE = {"time": "age", "event": "sick", "level": "yes", "by": ("sex",)}
VALUES: dict[str, dict[str, Any]] = {
    "anova": {"of": "pay", "by": "work"}, "cox": LIFE, "kaplan_meier": LIFE, "inequality": {"of": "wealth"},
    "ols": {"formula": "pay ~ age + sex"}, "residuals": {"formula": "pay ~ age + sex", "model": "ols"},
    "logistic": {"formula": "sick ~ age + sex"}, "probit": {"formula": "sick ~ age + sex"},
    "multinomial": {"formula": "work ~ age"}, "ordered_logit": {"formula": "work ~ age", "weighted": False, "errors": "usual"},
    "poisson": {"formula": "wealth ~ age + sex"},
}  # fmt: skip
"""What analyses are given that cannot be guessed."""
BESIDE: dict[str, dict[str, Any]] = {
    "cross_tab": {"of": "pay"},
    "quantiles": {"by": ("sex",)},
    "rank_test": {"by": "sex"},
    "t_test": {"by": "sex"},
}
"""What the instance has that keeps every promise: more than the declarations ask for."""
ON_SPARK = {"cross_tab", "logistic", "ols", "quantiles"}
"""Tables of counts and amounts, several steps, totals with known factors and the survey's design. The others with `make verify`."""

CLASSES = {
    name: cls
    for name, cls in registered("analysis").items()
    if cls.__module__.startswith("sfumato.") and issubclass(cls, Analysis) and cls is not DryRun
}
OF_EACH_KIND: list[Analysis] = [
    analyses_of(cls, VALUES.get(name))[0].with_(**BESIDE.get(name, {})) for name, cls in CLASSES.items()
]
VARIANTS = [one for name, cls in CLASSES.items() for one in analyses_of(cls, VALUES.get(name))]
RULES: list[ConfidentialityRule] = [
    rule
    for cls in registered("confidentiality rule").values()
    if cls.__module__.startswith("sfumato.") and issubclass(cls, ConfidentialityRule)
    for rule in list(variants(cls))[:1]
]


def named(thing: Any) -> str | None:
    return thing.name if isinstance(thing, Analysis | ConfidentialityRule) else None


every_analysis = pytest.mark.parametrize("analysis", OF_EACH_KIND, ids=named)
every_variant = pytest.mark.parametrize("analysis", VARIANTS, ids=named)


@every_analysis
@pytest.mark.parametrize("promise", ANALYSIS_PROMISES)
def test_an_analysis_keeps_every_promise(promise: Callable[[Analysis], None], analysis: Analysis) -> None:
    promise(analysis)


@every_variant
@pytest.mark.parametrize("promise", [*GENERAL_PROMISES, survives_json, is_answered])
def test_a_variant_of_an_analysis_is_answered(promise: Callable[[Analysis], None], analysis: Analysis) -> None:
    promise(analysis)


@pytest.mark.verify
@every_variant
@pytest.mark.parametrize("promise", ANALYSIS_PROMISES)
def test_a_variant_of_an_analysis_keeps_every_promise(promise: Callable[[Analysis], None], analysis: Analysis) -> None:
    promise(analysis)


@every_analysis
@pytest.mark.parametrize("rule", RULES, ids=named)
def test_an_analysis_gives_the_evidence_that_each_rule_needs(analysis: Analysis, rule: ConfidentialityRule) -> None:
    gives_evidence_for(analysis, rule)


@every_analysis
@pytest.mark.parametrize("extreme", EXTREME_SURVEYS)
def test_extreme_data_are_answered_or_refused_in_a_sentence_under_every_policy(
    analysis: Analysis, extreme: str
) -> None:
    answers_or_refuses_extreme_data(analysis, extreme)


@pytest.mark.parametrize("rule", RULES, ids=named)
@pytest.mark.parametrize("promise", [*GENERAL_PROMISES, *CONFIDENTIALITY_PROMISES])
def test_a_rule_keeps_every_promise(promise: Callable[[ConfidentialityRule], None], rule: ConfidentialityRule) -> None:
    promise(rule)


@pytest.fixture(scope="module")
def vault_from_duckdb() -> Vault:
    frame = survey_frame()
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute("CREATE TABLE survey AS SELECT * FROM frame")
    return frozen(frame, connection.table("survey"))


@pytest.fixture(scope="module")
def vault_on_spark(spark: Any) -> Vault:
    return survey_on_spark(spark)


@every_analysis
def test_records_from_duckdb_give_the_same_answers(analysis: Analysis, vault_from_duckdb: Vault) -> None:
    answers_alike_elsewhere(analysis, vault_from_duckdb)


@pytest.mark.parametrize(
    "analysis",
    [pytest.param(one, id=one.name, marks=() if one.name in ON_SPARK else pytest.mark.verify) for one in OF_EACH_KIND],
)
def test_spark_gives_the_same_answers(analysis: Analysis, vault_on_spark: Vault) -> None:
    answers_alike_elsewhere(analysis, vault_on_spark)


@pytest.mark.parametrize("errors", ["usual", "classical", "hc1"])
@pytest.mark.parametrize(
    "formula", ["hours ~ C(sex) + hours", "hours ~ C(region) + log1p(hours) + hours", "age ~ C(sex):age"]
)
def test_a_known_outcome_that_is_a_predictor_is_answered_with_nothing_left(formula: str, errors: str) -> None:
    found = answer_of(OLS(formula, errors=errors), NOISE_ALONE)
    assert isinstance(found, Answer)
    assert found.facts["R²"] == pytest.approx(1, abs=0.2 if formula.startswith("age") else 0)


def test_a_variable_that_is_named_twice_is_refused_before_anything_is_computed() -> None:
    for analysis in (Histogram("age", by=("pay", "age")), CrossTab(("age",), of="age")):
        with pytest.raises(DataError, match="named twice") if analysis.name == "histogram" else nullcontext():
            survey_vault().price("survey", None, analysis, POLICIES["guaranteed"])
