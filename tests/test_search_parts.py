"""The parts of a search: spaces, limits, the frontier, the archive, and closing in on the best safe point."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sfumato import Draws, Recipe, Snooper
from sfumato.errors import DataError, ParameterError, RecipeError
from sfumato.maps import Range
from sfumato.maps.judge import PointVerdict, against, excess_of, non_dominated, reweighted, scenarios_of
from sfumato.maps.race import TrustRegion, propose
from sfumato.maps.search_space import Family, Values, as_axis, families_of
from sfumato.maps.trials import Archive, ReleaseSpread, release_limit
from sfumato.masks import MDAV, PRAM, CopulaSynthesis, Generalise, IndependentNoise, KimNoise, RankSwap
from sfumato.risk import AttributeRisk
from sfumato.utility import EstimatorUtility

# -- where a search looks


def test_a_range_goes_by_equal_factors_or_steps_as_the_parameter_declares() -> None:
    (family,) = families_of(
        Recipe.of(noise=KimNoise(), groups=MDAV()), {"noise.lambda2": (0.01, 1), "groups.k": (3, 48)}
    )
    assert family.settings((0.5, 0.5)) == {"noise.lambda2": 0.1, "groups.k": 12}
    assert family.settings((0.0, 1.0)) == {"noise.lambda2": 0.01, "groups.k": 48}
    (plain,) = families_of(PRAM(), {"pram.pd": (0.9, 0.3)})
    assert plain.settings((0.5,)) == {"pram.pd": pytest.approx(0.6)}
    (forced,) = families_of(KimNoise(), {"kim_noise.lambda2": Range(0, 1, scale="linear")})
    assert forced.settings((0.25,)) == {"kim_noise.lambda2": 0.25}


def test_a_pair_of_numpy_numbers_is_a_range_and_a_pair_of_truths_a_list() -> None:
    assert as_axis("mdav.k", (np.int64(3), np.float32(48))) == Range(3, 48)
    assert as_axis("x.flag", (True, False)) == Values((True, False))


def test_whole_numbers_and_listed_values_are_points_of_their_own() -> None:
    (family,) = families_of(MDAV(), {"mdav.k": (3, 6)})
    assert [family.settings(p)["mdav.k"] for p in family.grid(50)] == [3, 4, 5, 6]
    for point in family.grid(50):
        assert family.settings(family.snapped(point)) == family.settings(point)
    (listed,) = families_of(MDAV(), {"mdav.aggregate": ["mean", "median"], "mdav.k": [3, 9]})
    found = [tuple(listed.settings(p).values()) for p in listed.grid(7)]
    assert found == [("mean", 3), ("mean", 9), ("median", 3), ("median", 9)]


def test_masks_are_searched_over_their_usual_ranges_and_recipes_over_all_of_theirs() -> None:
    families = families_of([KimNoise(), MDAV(), RankSwap(), KimNoise() >> PRAM()])
    assert [f.name for f in families] == ["kim_noise", "mdav", "rank_swap", "kim_noise then pram"]
    assert [list(f.over) for f in families] == [
        ["kim_noise.lambda2"], ["mdav.k"], ["rank_swap.p"], ["kim_noise.lambda2", "pram.pd"],
    ]  # fmt: skip
    (fixed,) = families_of({"as it is": (KimNoise(lambda2=0.2), {})})
    assert fixed.over == {}
    assert fixed.grid(7) == [()]


def test_sequences_are_all_orders_without_repetition() -> None:
    singles = {"noise": KimNoise(), "groups": MDAV(), "swap": RankSwap()}
    families = families_of(singles, sequences=3)
    want = [" then ".join(names) for r in (1, 2, 3) for names in itertools.permutations(singles, r)]
    assert sorted(f.name for f in families) == sorted(want)
    both = next(f for f in families if f.name == "groups then noise")
    assert [s.name for s in both.recipe.steps] == ["identifiers", "mdav", "kim_noise"]
    assert list(both.over) == ["mdav.k", "kim_noise.lambda2"]


def test_a_sequence_of_two_recipes_with_the_same_mask_keeps_their_parameters_apart() -> None:
    _, _, *rest = families_of({"salary": KimNoise(columns="salary"), "income": KimNoise(columns="income")}, sequences=2)
    assert list(rest[0].over) == ["kim_noise.lambda2", "kim_noise_2.lambda2"]
    made = rest[0].recipe.with_(rest[0].settings((0.0, 1.0)))
    assert (made["kim_noise"].lambda2, made["kim_noise_2"].lambda2) == (0.01, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("recipes", "over", "words"),
    [
        (KimNoise(), {"kim_noise.lambda2": (0.1, 0.1)}, "is empty"),
        (KimNoise(), {"kim_noise.lambda2": []}, "list of values to search is empty"),
        (KimNoise(), {"kim_noise.lambda2": (-1, 1)}, "at least 0"),
        (KimNoise(), {"kim_noise.lamda2": (0.1, 1)}, "Did you mean 'kim_noise.lambda2'"),
        (MDAV(), {"mdav.k": (1, 5)}, "at least 2"),
        (KimNoise(), {"kim_noise.lambda2": "wide"}, "ends of a range"),
        ([], None, "at least one recipe"),
        ({"a": 3}, None, "must be a mask or a recipe"),
        ([KimNoise(), KimNoise()], None, "two recipes are called 'kim_noise'"),
        ("kim_noise", None, "mask, a recipe, or several"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_words(recipes: object, over: object, words: str) -> None:
    with pytest.raises((ParameterError, RecipeError), match=words):
        families_of(recipes, over)  # type: ignore[arg-type]


def test_ranges_that_are_no_ranges_are_refused() -> None:
    for make in (lambda: Range(0, 1, scale="log"), lambda: Range(math.nan, 1), lambda: Range(0, 1, scale="cubic")):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(ParameterError, match="1 \\(each alone\\) to 4"):
        families_of(KimNoise(), sequences=9)


# -- limits


def test_the_limit_is_the_prediction_limit_of_the_textbook() -> None:
    values = np.array([0.11, 0.09, 0.1, 0.12, 0.095])
    logs = np.log(values)
    want = math.exp(logs.mean() + stats.t.ppf(0.95, 4) * logs.std(ddof=1) * math.sqrt(1 + 1 / 5))
    assert release_limit(values) == pytest.approx(want)
    signed = values - 0.1
    want = signed.mean() + stats.t.ppf(0.95, 4) * signed.std(ddof=1) * math.sqrt(1 + 1 / 5)
    assert release_limit(signed) == pytest.approx(want)


@pytest.mark.parametrize("m", [2, 5, 20])
def test_a_further_release_stays_below_the_limit_in_95_percent(m: int) -> None:
    g = np.random.default_rng(m)
    x = np.exp(g.normal(-2, 0.3, (4_000, m + 1)))
    held = [row[-1] <= release_limit(row[:-1]) for row in x]
    assert np.mean(held) == pytest.approx(0.95, abs=4 * math.sqrt(0.05 * 0.95 / 4_000))


def test_few_releases_borrow_the_spread_of_other_points() -> None:
    g = np.random.default_rng(1)
    held = []
    for _ in range(800):
        points = [level * np.exp(g.normal(0, 0.1, 2)) for level in np.exp(g.normal(0, 2, 10))]
        spread = ReleaseSpread.pooled(points)
        assert spread.freedom == 10
        held += [math.exp(g.normal(0, 0.1)) <= release_limit(np.exp(g.normal(0, 0.1, 2)), spread) for _ in range(5)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_one_release_alone_has_no_limit_and_equal_ones_have_their_own_value() -> None:
    assert release_limit(np.array([0.2])) == math.inf
    assert release_limit(np.array([0.2, 0.2, 0.2])) == pytest.approx(0.2)
    assert release_limit(np.array([0.0, 0.0])) == 0
    assert release_limit(np.array([np.inf, 0.2])) == math.inf
    assert math.isnan(release_limit(np.array([np.nan, 0.2])))


def test_a_threshold_of_nothing_is_met_by_nothing_alone() -> None:
    assert excess_of(0.0, 0.0) <= 0
    assert 0 < excess_of(1e-4, 0.0) < excess_of(1e-2, 0.0)


# -- the frontier


def beaten(risk: np.ndarray, utility: np.ndarray) -> list[bool]:
    return [
        not any(r2 <= r and u2 >= u and (r2 < r or u2 > u) for r2, u2 in zip(risk, utility, strict=True))
        for r, u in zip(risk, utility, strict=True)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_frontier_is_what_comparing_every_pair_gives(seed: int) -> None:
    g = np.random.default_rng(seed)
    risk, utility = g.integers(0, 6, (2, 5, 12)).astype(float)  # many ties
    found = non_dominated(risk, utility)
    for r, u, f in zip(risk, utility, found, strict=True):
        assert f.tolist() == beaten(r, u)


@pytest.mark.parametrize("m", [2, 4, 30])
def test_reweighted_releases_vary_as_much_as_the_mean_of_so_many_does(m: int) -> None:
    measure = AttributeRisk("salary")  # value: the reciprocal of the mean
    g = np.random.default_rng(m)
    spreads = []
    for _ in range(300):
        o = 1 / (0.1 * np.exp(g.normal(0, 0.05, (m, 1))))
        drawn = reweighted(measure, [o], ["a"], g, 200)
        spreads.append(float(np.log(drawn).var()))
    assert np.mean(spreads) == pytest.approx(0.05**2 / m, rel=0.15)


def test_what_points_of_one_recipe_have_in_common_cancels() -> None:
    measure, g = AttributeRisk("salary"), np.random.default_rng(3)
    o = 1 / (0.1 * np.exp(g.normal(0, 0.2, (6, 1))))
    drawn = reweighted(measure, [o, 1.01 * o], ["a", "a"], g, 500)
    assert (drawn[:, 0] > drawn[:, 1]).all()  # a hundredth less, in every draw
    apart = reweighted(measure, [o, 1.01 * o], ["a", "b"], g, 500)
    assert 0.3 < (apart[:, 0] > apart[:, 1]).mean() < 0.8


# -- closing in


def closed_in(family: Family, respond, steps: int = 40) -> tuple[dict[str, float], PointVerdict]:  # type: ignore[no-untyped-def]
    """Refine a made-up response surface from its first grid, as a race does."""
    points = family.grid(4)
    seen = [respond(*family.settings(p).values()) for p in points]
    reach, g = TrustRegion(), np.random.default_rng(5)
    for _ in range(steps):
        point = propose(family, points, seen, reach, g)
        if point is None or reach.spent:
            break
        found = respond(*family.settings(point).values())
        better = found.rank > max(s.rank for s in seen)
        points.append(point)
        seen.append(found)
        reach = reach.after(better)
    best = max(range(len(points)), key=lambda i: seen[i].rank)
    return family.settings(points[best]), seen[best]


def test_one_parameter_ends_on_the_edge_of_what_is_safe() -> None:
    family = Family("x", KimNoise().as_recipe(), {"kim_noise.lambda2": Range(0.01, 2)})
    found, standing = closed_in(family, lambda x: PointVerdict(math.log(0.1413 / x), -x), 15)
    assert standing.safe
    assert found["kim_noise.lambda2"] == pytest.approx(0.1413, rel=0.02)


def test_one_parameter_finds_a_top_inside_what_is_safe() -> None:
    family = Family("x", KimNoise().as_recipe(), {"kim_noise.lambda2": Range(0.01, 2)})
    found, _ = closed_in(family, lambda x: PointVerdict(math.log(0.02 / x), -((math.log(x / 0.3)) ** 2)), 20)
    assert found["kim_noise.lambda2"] == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("weight", [0.3, 1.0, 4.0])
def test_two_parameters_find_the_point_of_the_edge_that_algebra_gives(weight: float) -> None:
    # minimise x + w y subject to x y >= 0.04, so x = sqrt(0.04 w), y = sqrt(0.04 / w)
    recipe = Recipe.of(a=IndependentNoise("salary"), b=IndependentNoise("income"))
    family = Family("xy", recipe, {"a.lambda2": Range(0.01, 2), "b.lambda2": Range(0.01, 2)})
    _, standing = closed_in(family, lambda x, y: PointVerdict(math.log(0.04 / (x * y)), -(x + weight * y)), 40)
    best = 2 * math.sqrt(0.04 * weight)
    assert standing.safe
    assert -standing.gain == pytest.approx(best, rel=0.03)


def test_a_family_without_a_safe_point_ends_where_the_risk_is_least() -> None:
    family = Family("x", KimNoise().as_recipe(), {"kim_noise.lambda2": Range(0.01, 2)})
    found, standing = closed_in(family, lambda x: PointVerdict(1 + (math.log(x / 0.5)) ** 2, -x), 20)
    assert not standing.safe
    assert found["kim_noise.lambda2"] == pytest.approx(0.5, rel=0.1)


def test_whole_numbers_are_looked_at_once_each() -> None:
    (family,) = families_of(MDAV(), {"mdav.k": (3, 8)})
    looked: list[int] = []

    def respond(k: int) -> PointVerdict:
        looked.append(k)
        return PointVerdict(math.log(5.5 / k), -k)

    found, _ = closed_in(family, respond)
    assert found == {"mdav.k": 6}
    assert len(looked) == len(set(looked))


def test_listed_values_stay_those_of_the_best_point_while_numbers_are_refined() -> None:
    recipe = Generalise(columns="age") >> PRAM()
    family = Family("g", recipe, {"generalise.level": Values((0, 1)), "pram.pd": Range(0.99, 0.2)})
    found, _ = closed_in(
        family, lambda level, pd: PointVerdict(math.log((pd + 0.2 * (1 - level)) / 0.6), pd - 0.05 * level), 25
    )
    # level 0: pd at most 0.4, gain 0.4; level 1: pd at most 0.6, gain 0.55
    assert found["generalise.level"] == 1
    assert found["pram.pd"] == pytest.approx(0.6, rel=0.02)


# -- the archive, and several snoopers


def test_the_archive_gives_back_what_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    first = Archive(Draws(1), "about", path)
    key = first.key("noise", {"lambda2": 0.1}, 300, 2, "search")
    seen = (np.array([[0.1, math.inf], [0.2, math.nan]]), np.array([[1 / 3], [2.0]]))
    first.put(key, seen)
    first.put(first.key("other"), "not applicable")
    again = Archive(Draws(1), "about", path)
    assert again.taken_up == 2
    for a, b in zip(again.get(key) or (), seen, strict=True):
        assert np.array_equal(a, b, equal_nan=True)  # type: ignore[arg-type]
    assert again.get(again.key("other")) == "not applicable"
    assert path.stat().st_mode & 0o077 == 0


def test_a_line_cut_short_by_a_crash_is_left_out_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    first = Archive(Draws(1), "about", path)
    first.put("a", (np.ones((2, 1)),))
    path.write_text(path.read_text() + '{"key": "b", "obs')
    again = Archive(Draws(1), "about", path)
    assert again.taken_up == 1
    again.put("b", (np.zeros((2, 1)),))
    assert Archive(Draws(1), "about", path).taken_up == 2


@pytest.mark.parametrize(("draws", "about"), [(Draws(2), "about"), (Draws(1), "other")])
def test_an_archive_of_another_search_is_refused(tmp_path: Path, draws: Draws, about: str) -> None:
    Archive(Draws(1), "about", tmp_path / "s").put("a", (np.ones((2, 1)),))
    with pytest.raises(DataError, match="another search"):
        Archive(draws, about, tmp_path / "s")


def test_a_file_that_is_no_archive_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear colleague,\n")
    with pytest.raises(DataError, match="name a new file"):
        Archive(Draws(1), "about", path)
    assert path.read_text() == "Dear colleague,\n"


def test_every_risk_is_set_against_every_snooper_and_utilities_are_not() -> None:
    risks = [AttributeRisk("salary"), EstimatorUtility("salary")]
    found = against(risks, scenarios_of({"naive": Snooper(), "clever": Snooper(strategy="bayes")}))
    assert [m.label() for m in found] == ["risk for salary, naive", "risk for salary, clever", "mean salary"]
    assert against(risks, scenarios_of(None)) == risks
    with pytest.raises(ParameterError, match="several by name"):
        scenarios_of({})


def test_copula_synthesis_is_among_the_masks_with_a_usual_range() -> None:
    assert list(families_of(CopulaSynthesis())[0].over) == ["copula_synthesis.smooth"]
