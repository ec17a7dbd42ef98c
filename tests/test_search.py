"""`search`: the best recipe of one and of many, against algebra, brute force and fresh seeds; and what cannot be searched."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato import Draws, Recipe, Snooper, search
from sfumato.contract import Measure, Release, Side, hold_out, param
from sfumato.datasets import billing, teachers
from sfumato.errors import DataError, MissingExtra, NotApplicable, ParameterError
from sfumato.maps.race import EFFORTS
from sfumato.masks import MDAV, PRAM, CopulaSynthesis, IndependentNoise, KimNoise, RankSwap, RecodeRare
from sfumato.risk import CAP, DCR, AttributeRisk, GlobalRisk
from sfumato.schema import Schema
from sfumato.utility import CorrelationsKept, Hellinger, NonUniformEntropy, VarianceKept

DATA = teachers(400)
TWO = Recipe.of(a=IndependentNoise("salary"), b=IndependentNoise("income"))


class Surface(Measure, abstract=True):
    """A made-up measure that reads the recipe's parameters, with a little noise that hangs on the release."""

    formula: Any = param(doc="from parameters to the value")
    noise: float = param(default=0.0, doc="relative spread between releases", low=0)

    def observe(self, outcome: Release, snooper: Snooper) -> np.ndarray:
        x = outcome.masked.numbers("salary")
        luck = math.sqrt(len(x)) * float(np.tanh(x - outcome.original.numbers("salary")).mean())
        settings = {} if outcome.recipe is None else outcome.recipe.settings()
        return np.array([self.formula(settings) * (1 + self.noise * luck)])

    def label(self) -> str:
        return f"made-up {self.side}"

    def words(self, value: float, schema: Schema) -> str:
        return f"{value:.3g}"


class MadeUpRisk(Surface, abstract=True):
    side = Side.RISK


class MadeUpUse(Surface, abstract=True):
    side = Side.UTILITY


def of(path: str, formula: Any) -> Any:
    return lambda settings: formula(settings.get(path, 0.0))


def quick(**more: Any) -> Any:
    asked = {"risk": "salary", "utility": VarianceKept("salary"), "max_risk": 0.04, "effort": "quick", "draws": 7}
    return search(DATA, **{"recipes": KimNoise(columns="salary"), **asked, **more})


# -- the answer


def test_the_noise_level_is_where_95_percent_of_releases_keep_the_threshold() -> None:
    found = quick()
    choice = found.choice
    level = choice.settings["kim_noise.lambda2"]

    # by simulation that uses nothing of the search: releases at the chosen level, and at one slightly milder
    def share(lambda2: float, seeds: range) -> float:
        recipe, measure = KimNoise(columns="salary", lambda2=lambda2), AttributeRisk("salary")
        return float(np.mean([measure.score(recipe.apply(DATA, Draws(s))).value <= 0.04 for s in seeds]))

    assert choice.feasible
    assert share(level, range(5000, 5200)) >= 0.9
    assert share(0.97 * level, range(5000, 5200)) < 0.97
    assert choice.limits["risk for salary"] <= 0.04
    assert choice.risks[0].value < choice.limits["risk for salary"]


def test_two_parameters_meet_the_best_of_a_brute_force_grid() -> None:
    risk = MadeUpRisk(lambda s: 0.01 / (s.get("a.lambda2", 1e-9) * s.get("b.lambda2", 1e-9)), 0.01)
    use = MadeUpUse(lambda s: 1 - s.get("a.lambda2", 0) - 2 * s.get("b.lambda2", 0))
    found = search(DATA, TWO, risk, use, 1.0, effort="thorough", draws=3)
    grid = np.geomspace(0.01, 2, 400)
    a, b = np.meshgrid(grid, grid)
    best = float((1 - a - 2 * b)[0.01 / (a * b) <= 1].max())  # without noise
    assert found.choice.feasible
    assert found.choice.utilities[0].value == pytest.approx(best, abs=0.01)
    assert found.choice.utilities[0].value <= best + 1e-3


def test_of_many_recipes_the_best_wins_and_it_is_the_best_of_each_alone() -> None:
    recipes = {"noise": KimNoise(columns=("salary", "income")), "swap": RankSwap(columns=("salary", "income"))}
    asked: dict[str, Any] = {
        "risk": "salary", "utility": VarianceKept(("salary", "income")), "max_risk": 0.03, "effort": "quick",
    }  # fmt: skip
    together = search(DATA, recipes, draws=1, **asked)
    alone = {name: search(DATA, {name: recipe}, draws=1, **asked).choice for name, recipe in recipes.items()}
    best = max(choice.utilities[0].value for choice in alone.values())
    assert together.choice.utilities[0].value >= best - 0.01


def test_sequences_are_found_where_they_are_better() -> None:
    first, second = KimNoise(columns="salary"), PRAM("region")
    risk = MadeUpRisk(lambda s: 1 - 0.5 * ("kim_noise.lambda2" in s) - 0.4 * ("pram.pd" in s))
    use = MadeUpUse(lambda s: 1 - 0.1 * s.get("kim_noise.lambda2", 0) - 0.1 * (1 - (s.get("pram.pd") or 1)))
    found = search(DATA, [first, second], risk, use, 0.2, sequences=2, effort="quick", draws=1)
    assert "then" in found.choice.family
    assert len(found.subject.families) == 4
    alone = search(DATA, [first, second], risk, use, 0.2, effort="quick", draws=1)
    assert not alone.choice.feasible


def test_categories_are_chosen_among() -> None:
    use = MadeUpUse(lambda s: {"mean": 0.2, "median": 0.9, "mode": 0.5}.get(s.get("mdav.aggregate"), 1.0))
    risk = MadeUpRisk(of("mdav.k", lambda k: 1 / max(k, 1e-9)))
    over = {"mdav.k": (3, 30), "mdav.aggregate": ["mean", "median", "mode"]}
    found = search(DATA, (MDAV("salary"), over), risk, use, 0.11, effort="quick", draws=1)
    assert found.choice.settings["mdav.aggregate"] == "median"
    assert found.choice.settings["mdav.k"] >= 10


def test_more_than_two_parameters_are_searched_with_optuna_and_refined() -> None:
    pytest.importorskip("optuna")
    three = Recipe.of(a=IndependentNoise("salary"), b=IndependentNoise("income"), c=IndependentNoise("experience"))
    logs = lambda s: [math.log(s.get(f"{n}.lambda2", 1e-9) / 0.1) for n in "abc"]  # noqa: E731
    use = MadeUpUse(lambda s: 1 - sum(0.1 * v * v for v in logs(s)))
    risk = MadeUpRisk(lambda s: math.exp(-min(sum(logs(s)), 50)))
    found = search(DATA, three, risk, use, math.exp(-1.5), effort="usual", draws=1)
    # the smallest sum of squares with a sum of 1.5 is 3 · 0.5²
    assert found.choice.feasible
    assert found.choice.utilities[0].value == pytest.approx(1 - 0.1 * 3 * 0.25, abs=0.03)


def test_points_of_many_parameters_that_cannot_be_judged_are_passed_over() -> None:
    pytest.importorskip("optuna")
    three = Recipe.of(a=IndependentNoise("salary"), b=IndependentNoise("income"), c=IndependentNoise("experience"))
    use = MadeUpUse(lambda s: math.nan if s.get("c.lambda2", 0) > 0.1 else 1 - s.get("a.lambda2", 0) / 10)
    risk = MadeUpRisk(lambda s: 1 / (1 + s.get("a.lambda2", 0)))
    found = search(DATA, three, risk, use, 0.95, effort="quick", draws=1)
    assert found.choice.feasible
    assert found.choice.settings["c.lambda2"] <= 0.1


def test_a_large_file_is_first_searched_in_part() -> None:
    data = teachers(EFFORTS["quick"].part * 4)
    found = search(data, [KimNoise(columns="salary"), RankSwap(columns="salary")], "salary", VarianceKept("salary"), 0.04,
                   effort="quick", draws=1)  # fmt: skip
    sizes = {trial.records for trial in found.subject.results}
    assert sizes == {EFFORTS["quick"].part, len(data)}
    assert set(found.subject.parts["records"]) == sizes
    assert found.frame().loc[found.frame()["masked"], "point"].nunique() == len(found.points)
    assert all(p.seen.judged.records == len(data) for p in found.points)


# -- the same again


def test_the_same_seed_gives_the_same_answer_and_so_do_two_workers() -> None:
    first, again, side_by_side = quick(), quick(), quick(workers=2)
    assert first.choice == again.choice == side_by_side.choice
    assert first.frame().equals(again.frame())
    assert quick(draws=8).choice != first.choice
    assert quick(max_risk=np.float32(0.04)).choice.settings == first.choice.settings


def test_a_search_can_be_stopped_and_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "seen.jsonl"
    whole = quick()

    class StopError(Exception):
        pass

    def stop(stage: str, done: int, total: int, best: str) -> None:
        if done == 3:
            raise StopError

    with pytest.raises(StopError):
        quick(resume=path, progress=stop)
    kept = len(path.read_text().splitlines())
    assert kept > 2
    found = quick(resume=path)
    assert found.subject.taken_up >= kept - 1
    assert found.choice == whole.choice
    assert quick(resume=path).subject.taken_up > found.subject.taken_up  # now all of it
    with pytest.raises(DataError, match="another search"):
        quick(resume=path, utility=VarianceKept("income"))
    with pytest.raises(ParameterError, match="give draws as well"):
        quick(resume=path, draws=None)


def test_the_file_of_a_search_holds_no_record_and_no_seed(tmp_path: Path) -> None:
    quick(resume=tmp_path / "seen.jsonl")
    text = (tmp_path / "seen.jsonl").read_text()
    keys = {k for line in text.splitlines()[1:] for k in json.loads(line)}
    assert keys <= {"key", "observed", "refused"}
    assert not any(f"{v:.6g}" in text for v in DATA.numbers("salary")[:50])


def test_progress_is_told_with_the_best_so_far() -> None:
    told: list[tuple[str, int, int, str]] = []
    quick(progress=lambda *facts: told.append(facts))
    assert {stage.split()[0] for stage, *_ in told} == {"Looking", "Refining", "Masking"}
    assert all(0 <= done <= total for _, done, total, _ in told)
    assert told[-1][3].startswith("kim_noise, utility 0.")


# -- frames


def test_the_frame_says_of_each_point_what_the_measures_said() -> None:
    found = quick(snooper={"naive": Snooper(), "clever": Snooper(strategy="bayes", parameter_published=True)})
    frame = found.frame()
    assert set(frame["scenario"]) == {"naive", "clever", ""}
    assert set(frame["measure"]) == {"risk for salary", "variance kept of salary"}
    one = frame[frame["chosen"]]
    assert len(one) == 3
    risks = one[one["side"] == "risk"].set_index("scenario")
    assert risks.loc["clever", "value"] > risks.loc["naive", "value"]  # who shrinks is nearer
    assert (risks["limit"] <= 0.04).all()
    assert risks["threshold"].tolist() == [0.04, 0.04]
    (use,) = one[one["side"] == "utility"]["value"]
    assert use == pytest.approx(found.choice.utilities[0].value, rel=0.05)  # the search's seeds, and fresh ones
    level = found.choice.settings["kim_noise.lambda2"]
    assert one["kim_noise.lambda2"].tolist() == [level] * 3


def test_the_frontier_of_one_noise_is_all_of_it() -> None:
    found = quick()
    front = found.frontier()
    assert len(front) == len(found.points)  # more noise: less risk and less kept, at every point
    assert front["probability"].min() > 0.9
    assert front["risk"].is_monotonic_increasing
    assert front["utility"].is_monotonic_increasing


def test_points_that_another_recipe_beats_are_not_on_the_frontier() -> None:
    def level(s: Mapping[str, Any]) -> float:
        return float(s.get("kim_noise.lambda2", 0) + s.get("independent_noise.lambda2", 0))

    worse = "independent_noise.lambda2"  # a twentieth riskier, and less useful
    risk = MadeUpRisk(lambda s: (0.1 + 0.005 * (worse in s)) / max(level(s), 1e-9), 0.001)
    use = MadeUpUse(lambda s: 1 - level(s) - 0.3 * (worse in s))
    found = search(DATA, [KimNoise("salary"), IndependentNoise("salary")], risk, use, 1.0, effort="quick", draws=1)
    assert set(found.frontier()["family"]) == {"kim_noise"}
    assert set(found.frame()["family"]) == {"kim_noise", "independent_noise", "unmasked"}


def test_several_utilities_count_by_their_smallest_share_unless_one_is_named() -> None:
    risk = MadeUpRisk(lambda s: 0.01)
    both = [CorrelationsKept(), Hellinger()]
    found = search(DATA, KimNoise(columns="salary"), risk, both, 1.0, effort="quick", draws=1)
    assert len(found.choice.utilities) == 2
    least = min(s.value for s in found.choice.utilities)
    assert found.frontier()["utility"].max() == pytest.approx(least, abs=0.02)
    named = search(
        DATA, KimNoise(columns="salary"), risk, both, 1.0, maximise="correlations kept", effort="quick", draws=1
    )
    assert named.subject.judge.anchors == {1: 1.0}
    with pytest.raises(ParameterError, match="Did you mean 'correlations kept'"):
        search(DATA, KimNoise(), risk, both, 1.0, maximise="correlation kept", effort="quick", draws=1)


def test_the_search_as_data_is_json_and_holds_no_seed() -> None:
    found = quick()
    text = json.dumps(found.to_dict(), allow_nan=False)
    again = json.loads(text)
    assert again["choice"]["settings"] == found.choice.settings
    assert len(again["points"]) == found.frame()["masked"].sum()
    assert '"seed"' not in text


# -- what cannot be


def test_thresholds_that_nothing_reaches_get_a_clear_answer() -> None:
    found = quick(max_risk=1e-6)
    assert not found.choice.feasible
    reason = str(found)
    assert reason.startswith(
        "infeasible: none of the recipes (kim_noise) reaches the threshold. Nearest is kim_noise at"
    )
    assert "kim_noise.lambda2 = 2" in reason
    assert "where 1 × 10⁻⁶ is allowed" in reason
    assert len(found.frontier()) > 1


def test_recipes_that_a_measure_does_not_apply_to_are_left_out_with_the_reason() -> None:
    recipes = {"noise": KimNoise(columns="salary"), "synthesis": CopulaSynthesis(("salary", "income", "age"))}
    found = quick(recipes=recipes)
    assert found.choice.family == "noise"
    assert list(found.refused) == ["synthesis"]
    assert found.refused["synthesis"]
    with pytest.raises(NotApplicable, match=r"none of the recipes could be judged\. synthesis: "):
        quick(recipes={"synthesis": recipes["synthesis"]})


def test_no_risk_at_all_can_be_asked_for() -> None:
    risk = MadeUpRisk(of("mdav.k", lambda k: 0.0 if k >= 20 else 0.5 / max(k, 1)))
    use = MadeUpUse(of("mdav.k", lambda k: 1 - k / 100))
    found = search(DATA, (MDAV("salary"), {"mdav.k": (3, 60)}), risk, use, 0.0, effort="usual", draws=1)
    assert found.choice.feasible
    assert 20 <= found.choice.settings["mdav.k"] <= 23


def test_every_risk_has_to_hold() -> None:
    one, two = MadeUpRisk(of("kim_noise.lambda2", lambda v: 0.1 / max(v, 1e-9))), AttributeRisk("salary")
    use = VarianceKept("salary")
    found = quick(risk=[one, two], utility=use, max_risk={"made-up risk": 0.2, "risk for salary": 1.0})
    assert found.choice.settings["kim_noise.lambda2"] == pytest.approx(0.5, rel=0.03)
    with pytest.raises(ParameterError, match="no threshold for risk for salary"):
        quick(risk=[one, two], max_risk={"made-up risk": 0.2})
    with pytest.raises(ParameterError, match="is not in the search"):
        quick(max_risk={"made-up": 0.2})


def test_measures_that_need_a_holdout_get_it() -> None:
    kept, held = hold_out(DATA, 0.5, Draws(1))
    asked: Mapping[str, Any] = {"risk": DCR(), "utility": VarianceKept("salary"), "max_risk": 0.6, "effort": "quick"}
    assert search(kept, KimNoise(), holdout=held, draws=1, **asked).choice.feasible
    with pytest.raises(NotApplicable, match="set aside before masking"):
        search(kept, KimNoise(), draws=1, **asked)


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"max_risk": -1}, ParameterError, "at least 0"),
        ({"max_risk": "low"}, ParameterError, "at least 0"),
        ({"effort": "heroic"}, ParameterError, "quick, usual, thorough"),
        ({"confirm": 1}, ParameterError, "at least 3"),
        ({"snooper": "everybody"}, ParameterError, "must be a Snooper"),
        ({"risk": VarianceKept("salary")}, ParameterError, "risk"),
        ({"risk": "salry"}, DataError, "Did you mean 'salary'"),
        ({"over": {"kim_noise.k": (1, 2)}}, ParameterError, "kim_noise.k"),
        ({"recipes": []}, ParameterError, "at least one recipe"),
    ],
)
def test_what_is_asked_wrongly_is_refused_before_any_work(
    wrong: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        quick(**wrong)


def test_data_without_records_are_refused() -> None:
    empty = DATA.take(np.zeros(0, np.int64))
    with pytest.raises(DataError, match="fewer than two records"):
        search(empty, KimNoise(), "salary", VarianceKept("salary"), 0.04)
    with pytest.raises(DataError, match="Microdata"):
        search([1, 2, 3], KimNoise(), "salary", "salary", 0.04)  # type: ignore[arg-type]


def test_without_optuna_many_parameters_are_refused_with_the_way_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    three = Recipe.of(a=IndependentNoise("salary"), b=IndependentNoise("income"), c=IndependentNoise("experience"))
    with pytest.raises(MissingExtra, match=r"pip install 'sfumato\[search\]'"):
        search(DATA, three, "salary", VarianceKept("salary"), 0.04)


def test_keys_and_real_measures_work_together() -> None:
    data = teachers(600)
    found = search(
        data, [PRAM(("sex", "race", "region")), KimNoise(columns=("salary", "income"))],
        CAP("salary", unmatched="nearest"), CorrelationsKept(), 0.25, snooper=Snooper(keys=("age", "sex", "race", "region")),
        effort="quick", draws=2,
    )  # fmt: skip
    assert found.choice.feasible
    assert found.choice.limits["correct attribution probability of salary"] <= 0.25
    release = found.choice.method.apply(data, Draws.secret())  # type: ignore[union-attr]
    assert len(release.masked) == 600


def test_search_is_at_the_front_door() -> None:
    assert sfumato.search is search


def test_sequences_reach_a_global_risk_that_no_single_method_reaches() -> None:
    methods = {
        "age": (IndependentNoise("age"), {"independent_noise.lambda2": (0.01, 1)}),
        "zip": (RecodeRare("zip"), {"recode_rare.least": (2, 200)}),
    }
    asked: dict[str, Any] = {
        "risk": GlobalRisk(), "utility": NonUniformEntropy(over=("age", "sex", "zip")), "max_risk": 0.4, "effort": "quick",
    }  # fmt: skip
    data = billing(400)
    alone = search(data, methods, draws=1, **asked)
    both = search(data, methods, sequences=2, draws=1, **asked)
    assert not alone.choice.feasible
    assert both.choice.feasible
    assert "then" in both.choice.family
    # and fresh releases of it hold, by the measure itself
    risks = [GlobalRisk().score(both.choice.method.apply(data, Draws(s))).value for s in range(900, 912)]  # type: ignore[union-attr]
    assert np.mean(np.array(risks) <= 0.4) > 0.7
