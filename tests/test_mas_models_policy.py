"""Models under a policy: noise of the stated size, rules that refuse, and the same answers on Spark."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from mas_survey import microdata, survey

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.mas.analyses import OLS, Correlation, Logistic, Multinomial
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.perturbation import Amounts, Models, Secret
from sfumato.mas.policy import Policy
from sfumato.mas.question import Analysis, Question
from sfumato.mas.rules import CloseFit, DummySize, HighCorrelation, Leverage, ModelForm, ModelSize
from sfumato.mas.universe import Universe
from sfumato.mas.vault import Vault, answer
from sfumato.schema import Attribute, Schema

if TYPE_CHECKING:
    pass

EXACT = Policy(title="exact")
NOISY = Policy(title="noisy", models=Models(sd=2.0))
MUCH = Policy(title="much", models=Models(sd=8.0))
HARDENED = Policy.named("hardened").with_(accounts=None, per_minute=None)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    made = survey()
    made.loc[0, "race"] = "one person"
    return made


@pytest.fixture(scope="module")
def vault(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Vault:
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    vault.freeze("survey", microdata(frame))
    return vault


def ask(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = HARDENED) -> Answer:
    found = vault.ask("survey", universe, analysis, policy)
    assert isinstance(found, Answer), str(found)
    return found


def under(vault: Vault, analysis: Analysis, policy: Policy, seed: int, universe: Any = None) -> pd.DataFrame:
    """Return the coefficients under another secret."""
    data = dataclasses.replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
    found, _ = answer(Question(data, policy, Universe.of(universe), analysis))
    assert isinstance(found, Answer), str(found)
    return found.frame("coefficients")


# -- noise


def test_noise_on_cross_products_has_the_stated_size_and_is_in_the_standard_errors(
    vault: Vault, frame: pd.DataFrame
) -> None:
    """The spread over secrets is that of (X'X)^-1 e, worked out here in full for one number and one indicator."""
    model = OLS("income ~ age + sex")
    exact = ask(vault, model, policy=EXACT).frame("coefficients")
    tries = [under(vault, model, NOISY, seed) for seed in range(200)]
    found = np.array([t["coefficient"] for t in tries]) - exact["coefficient"].to_numpy()
    middle, half_age = (frame["age"].max() + frame["age"].min()) / 2, (frame["age"].max() - frame["age"].min()) / 2
    half = (frame["income"].max() - frame["income"].min()) / 2
    half, half_age = (2 ** (np.ceil(4 * np.log2(h)) / 4) for h in (half, half_age))  # up to a quarter of a power of two
    x = np.column_stack([np.ones(len(frame)), frame["sex"] == "F", frame["age"] - middle]).astype(float)
    bread = np.linalg.inv(x.T @ x)
    variance = bread @ np.diag((2 * half * np.array([1, 1, half_age])) ** 2) @ bread
    to_user = np.eye(3)
    to_user[0, 2] = -middle
    expected = np.sqrt(np.diag(to_user @ variance @ to_user.T))
    assert found.std(axis=0) == pytest.approx(expected, rel=0.2)  # four standard errors of a standard deviation of 200
    assert (np.abs(found.mean(axis=0)) < 4 * expected / np.sqrt(200)).all()
    added = np.median([t["standard error"] for t in tries], axis=0) ** 2 - exact["standard error"].to_numpy() ** 2
    assert np.sqrt(added) == pytest.approx(expected, rel=0.1)


def test_noise_on_the_score_has_the_stated_size(vault: Vault, frame: pd.DataFrame) -> None:
    model = Logistic("sick ~ age")
    exact = ask(vault, model, policy=EXACT).frame("coefficients")
    found = (
        np.array([under(vault, model, NOISY, seed)["coefficient"] for seed in range(200)])
        - exact["coefficient"].to_numpy()
    )
    age = frame["age"].to_numpy()
    middle, half_age = (age.max() + age.min()) / 2, (age.max() - age.min()) / 2
    x = np.column_stack([np.ones(len(age)), age - middle])
    intercept, slope = exact["coefficient"]
    p = 1 / (1 + np.exp(-intercept - slope * age))
    bread = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)
    variance = bread @ np.diag(np.array([1, half_age]) ** 2) @ bread  # 2 × max|x| × half the range of 0 and 1
    assert found[:, 1].std() == pytest.approx(np.sqrt(variance[1, 1]), rel=0.2)


def test_noise_on_correlations_has_the_stated_size_and_is_in_the_standard_errors(vault: Vault) -> None:
    data = vault.dataset("survey")
    model = Correlation(("age", "income"))
    rows = []
    for seed in range(200):
        other = dataclasses.replace(data, secret=Secret(Draws(seed)))
        found, _ = answer(Question(other, NOISY, Universe(), model))
        assert isinstance(found, Answer)
        rows.append(found.tables["pairs"][0])
    exact = ask(vault, model, policy=EXACT).tables["pairs"][0]
    spread = np.std([r["correlation"] for r in rows])
    added = np.median([r["standard error"] for r in rows]) ** 2 - exact["standard error"] ** 2
    assert np.sqrt(added) == pytest.approx(spread, rel=0.2)


def test_the_standard_error_of_a_correlation_varies_with_the_noise_on_squares(
    vault: Vault, frame: pd.DataFrame
) -> None:
    """It is nearly in proportion to 1/√Σ(x - m)² of the incomes: by exact squares, one far out would be seen in it."""
    few, model = frame[frame["race"].isin(["A", "O"])], Correlation(("age", "income"))
    half = 2 ** (np.ceil(4 * np.log2((frame["income"].max() - frame["income"].min()) / 2)) / 4)
    moved = (frame["income"].max() + frame["income"].min()) / 2 - few["income"].mean()
    noise = 8 * np.hypot(
        half**2, 2 * moved * half
    )  # squares are taken from the middle, so that the noise on sums is in them
    expected = noise / float(((few["income"] - few["income"].mean()) ** 2).sum()) / 2  # of its logarithm
    found = []
    for seed in range(120):
        data = dataclasses.replace(vault.dataset("survey"), secret=Secret(Draws(seed)))
        told, _ = answer(Question(data, MUCH, Universe.of({"race": ["A", "O"]}), model))
        assert isinstance(told, Answer)
        found.append(np.log(told.tables["pairs"][0]["standard error"]))
    assert np.std(found) > 0.8 * expected


def test_a_pair_has_the_same_robust_standard_error_whatever_else_is_asked_for(vault: Vault) -> None:
    """Also in the other order, and though the noise on it hangs on the pair."""
    some = [Correlation(of, errors="hc1") for of in (("age", "income"), ("z", "income", "age"))]
    rows = [
        [r for r in ask(vault, one).tables["pairs"] if {r["variable"], r["with"]} == {"age", "income"}] for one in some
    ]
    assert rows[0] == rows[1]


def test_another_model_does_not_redraw_the_noise_of_a_column(vault: Vault, frame: pd.DataFrame) -> None:
    """X'X b - X'y is the noise: that of the centred age is the same in three models."""
    middle = (frame["age"].max() + frame["age"].min()) / 2
    woman = (frame["sex"] == "F").to_numpy(float)
    age, y = frame["age"].to_numpy() - middle, frame["income"].to_numpy()
    mean, sd = frame["age"].mean(), frame["age"].std(ddof=0)
    ones = np.ones(len(age))
    drawn = []
    for formula, x, to_centred in (
        ("income ~ age", [ones, age], [[1, middle], [0, 1]]),
        ("income ~ age + sex", [ones, woman, age], [[1, 0, middle], [0, 1, 0], [0, 0, 1]]),
        ("income ~ standardise(age)", [ones, age], [[1, (middle - mean) / sd], [0, 1 / sd]]),
    ):
        b = (
            np.array(to_centred)
            @ ask(vault, OLS(formula), policy=NOISY).frame("coefficients")["coefficient"].to_numpy()
        )
        columns = np.column_stack(x)
        drawn.append((columns.T @ (columns @ b - y))[[0, -1]])
    assert drawn[1] == pytest.approx(drawn[0], rel=1e-6)
    assert drawn[2] == pytest.approx(drawn[0], rel=1e-6)
    assert (np.abs(drawn[0]) > 1).all()


def test_a_variable_that_some_lack_draws_other_noise_so_that_models_with_and_without_it_do_not_cancel(
    vault: Vault, frame: pd.DataFrame
) -> None:
    """X'X b - X'y is the noise; of 60 secrets, that of all records has nothing to do with that of those who have z."""
    middle, drawn = (frame["age"].max() + frame["age"].min()) / 2, []
    for formula, rows in (("income ~ age", frame), ("income ~ age + z", frame.dropna(subset="z"))):
        x = np.column_stack([np.ones(len(rows)), rows["age"] - middle, *([rows["z"]] if "z" in formula else [])])
        to_centred = np.eye(x.shape[1])
        to_centred[0, 1] = middle
        fitted = np.array([under(vault, OLS(formula), NOISY, seed)["coefficient"] for seed in range(60)])
        drawn.append((x.T @ (x @ to_centred @ fitted.T - rows["income"].to_numpy()[:, None]))[0])
    assert abs(np.corrcoef(drawn)[0, 1]) < 0.5  # four standard errors
    assert np.std(drawn[0] - drawn[1]) == pytest.approx(np.hypot(*np.std(drawn, axis=1)), rel=0.4)


def test_a_standardised_outcome_tells_neither_the_mean_nor_the_noise_on_it(vault: Vault, frame: pd.DataFrame) -> None:
    """With mean and deviation without noise, the intercept would be that noise over n deviations, to three digits."""
    off = []
    for seed in range(5):
        plain, standard = (
            under(vault, OLS(f"{y} ~ standardise(age)"), NOISY, seed)["coefficient"]
            for y in ("income", "standardise(income)")
        )
        assert standard[0] == 0.0
        mean, deviation = plain[0] / frame["income"].mean(), plain[1] / standard[1] / frame["income"].std(ddof=0)
        off.append([abs(mean - 1), abs(deviation - 1)])
    assert (np.median(off, axis=0) > 1e-4).all()  # one may be near by chance


def test_a_standardised_confidential_predictor_does_not_tell_its_mean(vault: Vault, frame: pd.DataFrame) -> None:
    told = []
    for seed in range(60):
        plain, standard = (
            under(vault, OLS(f"age ~ {x}"), NOISY, seed)["coefficient"] for x in ("income", "standardise(income)")
        )
        told.append((standard[0] - plain[0]) / plain[1] - frame["income"].mean())
    # the noise of a sum, 2 half ranges, over the number of records
    half = 2 ** (np.ceil(4 * np.log2((frame["income"].max() - frame["income"].min()) / 2)) / 4)
    assert np.std(told) == pytest.approx(2 * half / len(frame), rel=0.4)


def test_hardened_answers_have_three_digits_and_are_near_the_truth(vault: Vault) -> None:
    model = OLS("log(income) ~ age + sex")
    rows = ask(vault, model).tables["coefficients"]
    exact = ask(vault, model, policy=EXACT).tables["coefficients"]
    for row, true in zip(rows, exact, strict=True):
        assert row["coefficient"] == float(f"{row['coefficient']:.2e}")
        assert row["standard error"] == float(f"{row['standard error']:.1e}")
        assert abs(row["coefficient"] - true["coefficient"]) < 4 * row["standard error"]
        assert row["standard error"] > true["standard error"]


def test_amounts_are_top_coded_where_the_policy_says_so(vault: Vault, frame: pd.DataFrame) -> None:
    limit, mean = vault.dataset("survey").variables["income"].top or (0.0, 0.0)
    assert 10 <= (frame["income"] > limit).sum() <= 30  # about half a percent of 3,000
    coded = frame["income"].where(frame["income"] < limit, mean)  # as in tables
    found = ask(vault, OLS("income ~ 1"), policy=Policy(title="coded", amounts=Amounts(top_coded=True)))
    assert found.tables["coefficients"][0]["coefficient"] == pytest.approx(coded.mean(), rel=1e-10)


# -- rules


def refused(vault: Vault, analysis: Analysis, universe: Any = None, policy: Policy = HARDENED) -> str:
    found = vault.ask("survey", universe, analysis, policy)
    assert isinstance(found, Refusal), str(found)
    assert not re.search(r"\d{3}", found.reason + found.suggestion), "a refusal tells no count"
    return found.rule


def test_the_leverage_that_the_rule_sees_is_that_of_the_hat_matrix(vault: Vault, frame: pd.DataFrame) -> None:
    whole = frame.dropna(subset=["z"])
    x = np.column_stack([np.ones(len(whole)), whole["age"], whole["z"] ** 2])
    largest = np.einsum("ij,jk,ik->i", x, np.linalg.inv(x.T @ x), x).max()
    for most, allowed in ((largest + 0.0011, True), (largest - 0.0001, False)):
        policy = Policy(title="leverage", rules=(Leverage(most=float(most)),))
        assert bool(vault.ask("survey", None, OLS("income ~ age + square(z)"), policy)) is allowed


def test_the_leverage_of_logistic_models_is_that_of_the_weighted_hat_matrix(vault: Vault, frame: pd.DataFrame) -> None:
    whole = frame.dropna(subset=["z"])
    b = ask(vault, Logistic("sick ~ z"), policy=EXACT).frame("coefficients")["coefficient"]
    p = 1 / (1 + np.exp(-b[0] - b[1] * whole["z"].to_numpy()))
    x = np.column_stack([np.ones(len(whole)), whole["z"]]) * np.sqrt(p * (1 - p))[:, None]
    largest = np.einsum("ij,jk,ik->i", x, np.linalg.inv(x.T @ x), x).max()
    for most, allowed in ((largest + 0.0011, True), (largest - 0.0001, False)):
        policy = Policy(title="leverage", rules=(Leverage(most=float(most)),))
        assert bool(vault.ask("survey", None, Logistic("sick ~ z"), policy)) is allowed


def test_models_that_would_disclose_are_refused_by_their_rule(vault: Vault) -> None:
    alone = HARDENED.without("no_marginal")  # which refuses universes by race, where one level has one person
    assert refused(vault, OLS("income ~ age"), {"race": "O"}, alone) == "model_size"
    assert refused(vault, OLS("income ~ age - 1")) == "model_form"
    assert refused(vault, OLS("income ~ age*z*sex*race")) == "model_form"
    assert refused(vault, OLS("income ~ age + square(age) + sqrt(age) + log(age) + log1p(age)")) == "high_correlation"
    assert refused(vault, OLS("log(age) ~ age + square(age)"), policy=EXACT.with_(rules=(CloseFit(),))) == "close_fit"
    assert refused(vault, Logistic("C(race) ~ age", event="one person")) == "dummy_size"
    assert refused(vault, Multinomial("race ~ age")) == "dummy_size"
    assert refused(vault, Correlation(("age", "income")), {"race": "O"}, alone) == "model_size"
    many = " + ".join(["age", "z", "year", "sqrt(age)", "sqrt(z)", "log(z)", "log(age)", "sex", "race", "work"])
    pairs = " + ".join(f"{a}:{b}" for a in ("age", "z", "sqrt(age)") for b in ("sex", "race", "work", "year"))
    assert refused(vault, OLS(f"income ~ {many} + {pairs}")) == "model_form"
    small = EXACT.with_(rules=(DummySize(small="refuse"),))
    assert refused(vault, OLS("income ~ race"), policy=small) == "dummy_size"


def test_a_model_has_at_most_twenty_terms_besides_the_intercept(vault: Vault) -> None:
    numbers, groups = ["age", "z", "year", "income"], ["sex", "race", "work"]
    twenty = [*numbers, *groups, *(f"{a}:{b}" for a in numbers for b in groups), "sqrt(age)"]
    assert len(twenty) == 20
    for terms, allowed in ((twenty, True), ([*twenty, "sqrt(z)"], False)):
        model = OLS(f"log(age) ~ {' + '.join(terms)}")
        question = Question(vault.dataset("survey"), EXACT, Universe.of(None), model)
        assert (ModelForm().check(question) is None) is allowed


def test_a_level_with_one_outcome_only_is_refused_whatever_the_noise(tmp_path: Path) -> None:
    data = survey()
    data.loc[data["race"] == "O", ["sick", "work"]] = "no", "full"
    vault = Vault.create(tmp_path / "v")
    vault.freeze("survey", microdata(data))
    for policy in (EXACT, HARDENED):
        for model in (Logistic("sick ~ race + age"), Logistic("sick ~ race*sex"), Multinomial("work ~ age + race")):
            assert refused(vault, model, policy=policy) == "separation"
    assert refused(vault, Logistic("sick ~ race"), {"race": ["O", "A"]}, EXACT) == "separation"


def test_rules_say_in_words_what_they_demand() -> None:
    for rule in (CloseFit(), DummySize(), HighCorrelation(), Leverage(), ModelForm(), ModelSize()):
        assert rule.words().endswith(".")
        assert Policy.named("hardened").rule(rule.name) is not None


def test_an_indicator_of_one_person_is_absorbed_into_the_reference_and_said(vault: Vault, frame: pd.DataFrame) -> None:
    for policy in (Policy.named("census2009"), HARDENED):
        found = ask(vault, OLS("income ~ race"), policy=policy)
        assert "C(race)[one person]" not in {row["term"] for row in found.tables["coefficients"]}
        assert "Too few records, so part of the reference: C(race)[one person]." in found.notes
    absorbed = ask(vault, OLS("income ~ race"), policy=EXACT.with_(rules=(DummySize(),))).tables["coefficients"]
    reference = frame.loc[frame["race"].isin(["W", "one person"]), "income"].mean()
    assert absorbed[0]["coefficient"] == pytest.approx(reference, rel=1e-10)


def test_small_cells_of_an_interaction_are_absorbed_too(vault: Vault) -> None:
    found = ask(
        vault,
        OLS("income ~ race*work"),
        {"race": ["W", "O"], "work": ["full", "part"]},
        EXACT.with_(rules=(DummySize(least=100),)),
    )
    assert "Too few records, so part of the reference: C(race)[O]:C(work)[part]." in found.notes


def test_a_coefficient_is_charged_by_the_records_of_its_level(vault: Vault, frame: pd.DataFrame) -> None:
    data = vault.dataset("survey")
    _, sets = answer(Question(data, HARDENED, Universe(), Multinomial("work ~ age + sex")))
    n, women, men = (len(frame), (frame["sex"] == "F").sum(), (frame["sex"] == "M").sum())
    model, counted = sets[-2:]  # the last is the number of complete records
    assert not counted.coefficients
    age = frame["age"] - frame["age"].mean()
    n = min(n, 3 * (age**2).sum() / (age**2).max())  # about all, for ages are spread evenly
    about = [men, n, women] * 2  # the intercept is that of men, who are more; two equations
    assert sorted(model.coefficients) == pytest.approx(sorted(about), abs=60)  # noise of five, and drops
    price = sum(1 / (1 + size / 24) for size in about)
    accounts = Policy.named("hardened").accounts
    assert accounts is not None
    assert float(model.costs(accounts)) == pytest.approx(price, rel=0.01)
    assert model.keys[0] not in {s.keys[0] for s in sets[:-2]}


def test_one_noise_serves_both_events_of_a_binary_outcome(vault: Vault) -> None:
    yes, no = (ask(vault, Logistic("sick ~ age", event=e)).tables["coefficients"] for e in ("yes", "no"))
    assert [r["coefficient"] for r in no] == [-r["coefficient"] for r in yes]
    both = ask(vault, Multinomial("sick ~ age")).tables["coefficients"]
    assert [abs(r["coefficient"]) for r in both] == [abs(r["coefficient"]) for r in yes]


@pytest.mark.parametrize(("outcomes", "most"), [(20, 5), pytest.param(60, 9, marks=pytest.mark.verify)])
def test_tests_allow_for_the_noise_so_that_they_reject_as_often_as_they_say_where_nothing_goes_with_anything(
    tmp_path: Path, outcomes: int, most: int
) -> None:
    """Outcomes that have nothing to do with the predictors: of 60 tests at 5 %, more than 9 reject in 1 of 1,000 cases.

    Of 20, more than 5 do in 3 of 10,000.
    """
    rng = np.random.default_rng(5)
    n = 900
    made = pd.DataFrame(
        {"x": rng.normal(0, 1, n), "g": rng.choice(list("abc"), n)}
        | {f"y{i}": rng.normal(0, 1, n) for i in range(outcomes)}
        | {f"z{i}": rng.choice(["no", "yes"], n) for i in range(outcomes)}
    )
    schema = Schema(tuple(
        Attribute(c, role="key" if c in "xg" else "confidential", scale="ordered" if c[0] in "xy" else "unordered")
        for c in made
    ))  # fmt: skip
    vault = Vault(tmp_path, Draws(3), HARDENED)
    vault.freeze("d", Microdata(made, schema))
    found: dict[str, list[float]] = {}
    for i in range(outcomes):
        linear, logistic = (
            vault.ask("d", None, a) for a in (OLS(f"y{i} ~ g + x"), Logistic(f"z{i} ~ g + x", event="yes"))
        )
        assert isinstance(linear, Answer)
        assert isinstance(logistic, Answer)
        anova, coefficients = linear.frame("anova").set_index("source"), linear.frame().set_index("term")
        assert anova.loc["x", "F"] == pytest.approx(coefficients.loc["x", "t"] ** 2, rel=0.1)  # t has two digits
        for term in ("C(g)", "x", "Regression"):
            found.setdefault(term, []).append(float(anova.loc[term, "p"]))
        found.setdefault("likelihood ratio", []).append(float(logistic.facts["p"] or 0))
    rejected = {test: int((np.array(p) < 0.05).sum()) for test, p in found.items()}
    assert max(rejected.values()) <= most, rejected
    assert all(abs(np.median(p) - 0.5) < 1.55 / np.sqrt(outcomes) for p in found.values())  # 3.1 standard errors
