"""Full-domain recoding: the search against every node, the models against slow twins, and what it says when it cannot."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import anonymity_twin as twin
import numpy as np
import pandas as pd
import pytest
from anonymity_twin import SALARY, adult, adult_rows, adult_trees
from chart_specs import layers
from numpy.typing import NDArray
from scipy import special
from small_files import column, microdata, release

import sfumato.masks.anonymity.search as search
from sfumato import Draws, Microdata, Recipe, Snooper
from sfumato.contract import AtMost
from sfumato.data.classes import classes_of
from sfumato.errors import DataError, ParameterError, SchemaError, SfumatoError
from sfumato.kernels.lattice import CodedRows
from sfumato.masks import FullDomainRecoding
from sfumato.masks.anonymity.search import LatticeSolution
from sfumato.risk import (
    AlphaK,
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    KAnonymity,
    KMap,
    LDiversity,
    PopulationUniques,
    Reidentification,
    TCloseness,
)
from sfumato.schema import Attribute, Role, Scale, Schema, TreeHierarchy
from sfumato.utility import AverageClassSize, Granularity, NonUniformEntropy

LIMITS = (0.0, 0.02, 0.05, 1.0)
FEW = ("age", "education", "marital-status", "workclass", "sex")


@functools.cache
def adult_nine() -> Microdata:
    return adult()


@functools.cache
def adult_eight() -> Microdata:
    return adult((SALARY,))


def solved(mask: FullDomainRecoding, data: Microdata) -> LatticeSolution:
    found: LatticeSolution = mask.fit(data, Draws(1)).solution
    return found


# --- Adult


def test_nine_keys_of_adult_reach_the_published_optimum() -> None:
    """PEERS.md: granularity .6425 with 2 % suppression for k = 5."""
    fitted = FullDomainRecoding(k=5, suppression=0.02).fit(adult_nine(), Draws(1))
    made = fitted.apply(adult_nine(), Draws(1))
    assert round(Granularity().score(made).value, 4) == 0.6425
    assert fitted.solution.optimal
    assert len(made.masked) >= 0.98 * 30_162
    assert min(Counter(zip(*(column(made.masked, n) for n in made.masked.schema.names()), strict=True)).values()) >= 5


def test_the_search_equals_a_plain_enumeration_of_five_keys_of_adult() -> None:
    truth = twin.best_by_counting(FEW, 5, LIMITS)
    for limit in LIMITS:
        found = solved(FullDomainRecoding(FEW, k=5, suppression=limit), adult_nine())
        assert math.isclose(found.score, truth[limit], rel_tol=1e-9)
        assert found.optimal
        assert len(found.checked) < found.nodes


@pytest.mark.verify
def test_the_search_equals_a_plain_enumeration_of_nine_keys_of_adult() -> None:
    truth = twin.best_by_counting(adult_rows()[0], 5, LIMITS)
    for limit in LIMITS:
        found = solved(FullDomainRecoding(k=5, suppression=limit), adult_nine())
        assert math.isclose(found.score, truth[limit], rel_tol=1e-9)


MODELS: list[tuple[Any, twin.Test]] = [
    (LDiversity([SALARY], l=2), twin.distinct(2)),
    (LDiversity([SALARY], l=1.7, kind="entropy"), twin.entropy(1.7)),
    (LDiversity([SALARY], l=2, kind="recursive", c=4), twin.recursive(4, 2)),
    (TCloseness(SALARY, t=0.2), twin.close(0.2)),
]


Shares = NDArray[np.float64]
RICH: list[tuple[Any, Callable[[Shares, float], Any]]] = [
    (MODELS[0][0], lambda q, p: (q > 0) & (q < 1)),
    (MODELS[1][0], lambda q, p: np.exp(special.entr(q) + special.entr(1 - q)) >= 1.7 * (1 - 1e-9)),
    (MODELS[2][0], lambda q, p: np.maximum(q, 1 - q) < 4 * np.minimum(q, 1 - q) * (1 - 1e-9)),
    (MODELS[3][0], lambda q, p: np.abs(q - p) <= 0.2 + 1e-9),
]
"""Models of salary-class, and whether they hold for classes with a share q of the rich, of whom the file has a share p."""


@pytest.mark.verify
@pytest.mark.parametrize(("model", "holds"), RICH)
def test_diversity_and_closeness_of_adult_reach_what_every_node_does(
    model: Any, holds: Callable[[Shares, float], Any]
) -> None:
    names = [n for n in adult_rows()[0] if n != SALARY]
    truth = twin.best_by_counting(names, 5, (0.02,), holds)
    found = solved(FullDomainRecoding(k=5, suppression=0.02, models=[model]), adult_eight())
    assert found.score >= truth[0.02] - 1e-9
    assert truth[0.02] > 0.1


@pytest.mark.parametrize(("model", "test"), MODELS)
def test_diversity_and_closeness_of_three_keys_of_adult_reach_what_every_node_does(model: Any, test: twin.Test) -> None:
    names = ["education", "marital-status", "race"]
    header, rows = adult_rows()
    records = [(tuple(row[header.index(n)] for n in names), row[header.index(SALARY)]) for row in rows[:3_000]]
    truth = twin.best(records, adult_trees(names), [twin.k_anonymous(5), test], [0.02])
    data = adult_eight().take(np.arange(3_000))
    found = solved(FullDomainRecoding(names, k=5, suppression=0.02, models=[model]), data)
    assert truth[0.02] is not None
    assert math.isclose(found.score, truth[0.02], rel_tol=1e-9)


# --- Every model on small files, against loops


SMALL: list[tuple[Any, twin.Test]] = [
    (LDiversity(["secret"], l=2), twin.distinct(2)),
    (LDiversity(["secret"], l=1.6, kind="entropy"), twin.entropy(1.6)),
    (LDiversity(["secret"], l=2, kind="recursive", c=2), twin.recursive(2, 2)),
    (TCloseness("secret", t=0.3), twin.close(0.3)),
    (BetaLikeness("secret", beta=0.8), twin.likely(0.8)),
    (DeltaDisclosure("secret", delta=1.5), twin.disclosing(1.5)),
    (
        AlphaK("secret", alpha=0.6, k=2),
        lambda values, whole, n: max(Counter(values).values()) <= 0.6 * len(values) + 1e-9,
    ),
]


def small(seed: int) -> tuple[twin.Records, list[list[twin.Row]]]:
    g = np.random.default_rng(seed)
    trees = [twin.random_tree(g, int(v), int(h)) for v, h in ((6, 3), (4, 2), (5, 3))]
    keys = [tuple(f"v{g.integers(0, len(tree))}" for tree in trees) for _ in range(60)]
    return [(row, f"s{g.choice(3, p=[0.5, 0.3, 0.2])}") for row in keys], trees


@pytest.mark.parametrize(("model", "test"), SMALL)
def test_a_search_with_any_model_finds_the_best_of_all_nodes(model: Any, test: twin.Test) -> None:
    limits = (0.0, 0.1, 0.4)
    for seed in range(4):
        records, trees = small(seed)
        truth = twin.best(records, trees, [twin.k_anonymous(2), test], limits)
        data = twin.people([row for row, _ in records], trees, [s for _, s in records])
        for limit in limits:
            mask = FullDomainRecoding(k=2, suppression=limit, models=[model])
            if truth[limit] is None:
                with pytest.raises(DataError, match="cannot be reached"):
                    mask.fit(data, Draws(1))
            else:
                assert math.isclose(solved(mask, data).score, truth[limit] or 0.0, abs_tol=1e-9)
                assert len(mask.apply(data, Draws(1)).guarantees) == 4


def test_several_models_hold_together() -> None:
    records, trees = small(11)
    data = twin.people([row for row, _ in records], trees, [s for _, s in records])
    models = [LDiversity(["secret"], l=2), TCloseness("secret", t=0.4), AtMost(Reidentification(), 0.2)]
    made = release(FullDomainRecoding(k=3, suppression=0.2, models=models), data)
    classes = classes_of(made.masked, ["a", "b", "c"], "value")
    assert classes.sizes.min() >= 3
    assert len(classes) / classes.sizes.sum() <= 0.2
    assert LDiversity(["secret"], l=2).score(made).value == 0
    assert TCloseness("secret").score(made).value <= 0.4


def test_closeness_in_order_and_along_a_hierarchy_is_searched_for() -> None:
    records, trees = small(3)
    ordered = twin.people([row for row, _ in records], trees, [s for _, s in records], Scale.ORDERED)
    truth = twin.best(records, trees, [twin.k_anonymous(2), twin.close_in_order(0.2)], [0.1])
    found = solved(FullDomainRecoding(k=2, suppression=0.1, models=[TCloseness("secret", t=0.2)]), ordered)
    assert math.isclose(found.score, truth[0.1] or 0.0, abs_tol=1e-9)
    flat = TreeHierarchy([[f"s{i}", "*"] for i in range(3)])  # a tree of one level is no more than equality
    named = ordered.with_schema(ordered.schema.change("secret", hierarchy=flat, scale=Scale.UNORDERED, values={}))
    for distance in ("hierarchical", "unordered"):
        model = TCloseness("secret", t=0.3, distance=distance)  # type: ignore[arg-type]
        truth = twin.best(records, trees, [twin.k_anonymous(2), twin.close(0.3)], [0.1])
        assert math.isclose(
            solved(FullDomainRecoding(k=2, suppression=0.1, models=[model]), named).score,
            truth[0.1] or 0.0,
            abs_tol=1e-9,
        )


# --- A table of the population


def populated(seed: int) -> tuple[Microdata, Microdata, list[twin.Row], list[twin.Row], list[list[twin.Row]]]:
    g = np.random.default_rng(seed)
    trees = [twin.random_tree(g, 6, 3), twin.random_tree(g, 4, 2)]
    everybody = [tuple(f"v{g.integers(0, len(tree))}" for tree in trees) for _ in range(120)]
    file = everybody[:40]
    return (
        twin.people(file, trees, ["s"] * 40),
        twin.people(everybody, trees, ["s"] * 120),
        file,
        everybody,
        trees,
    )


def generalised(rows: list[twin.Row], trees: list[list[twin.Row]], node: tuple[int, ...]) -> Counter[twin.Row]:
    paths = [{row[0]: row for row in tree} for tree in trees]
    return Counter(tuple(p[v][level] for p, v, level in zip(paths, row, node, strict=True)) for row in rows)


@pytest.mark.parametrize(
    "model", [KMap(k=8), DeltaPresence(delta_max=0.5), DeltaPresence(delta_max=0.6, delta_min=0.1)]
)
def test_models_of_the_population_reach_the_best_of_all_nodes(model: Any) -> None:
    for seed in range(3):
        data, people, file, everybody, trees = populated(seed)
        scores = []
        for node in twin.every_node(trees):
            mine, all_ = generalised(file, trees, node), generalised(everybody, trees, node)
            if isinstance(model, KMap):
                kept = {key for key in mine if all_[key] >= 8}
            else:
                kept = {
                    key for key in mine if model.delta_min - 1e-9 <= mine[key] / all_[key] <= model.delta_max + 1e-9
                }
            if sum(mine[key] for key in kept) < 0.9 * 40 or (
                isinstance(model, DeltaPresence) and model.delta_min and kept != set(all_)
            ):
                continue
            leaves = [Counter(label for row in tree for label in set(row)) for tree in trees]
            scores.append(
                sum(
                    mine[key]
                    * sum(1 - (c[x] - 1) / (len(t) - 1) for x, c, t in zip(key, leaves, trees, strict=True))
                    / 2
                    for key in kept
                )
                / 40
            )
        mask = FullDomainRecoding(k=1, suppression=0.1, models=[model]).with_population(people)
        if not scores:
            with pytest.raises(DataError, match="cannot be reached"):
                mask.fit(data, Draws(1))
            continue
        assert math.isclose(solved(mask, data).score, max(scores), abs_tol=1e-9)
        assert len(mask.apply(data, Draws(1)).guarantees) == 3


def test_the_population_may_be_a_file_with_counts(tmp_path: Any) -> None:
    data, _, _, everybody, _ = populated(1)
    counts = Counter(everybody)
    table = pd.DataFrame([{"a": a, "b": b, "weight": n} for (a, b), n in counts.items()])
    table.to_csv(tmp_path / "people.csv", index=False)
    mask = FullDomainRecoding(k=1, suppression=0.1, models=[KMap(k=8)], population_file=str(tmp_path / "people.csv"))
    same = FullDomainRecoding(k=1, suppression=0.1, models=[KMap(k=8)]).with_population(populated(1)[1])
    assert solved(mask, data).levels == solved(same, data).levels
    with pytest.raises(DataError, match="with_population"):
        FullDomainRecoding(models=[KMap(k=8)]).fit(data, Draws(1))


# --- Limits on numbers for the whole file


@pytest.mark.parametrize(
    "model",
    [
        AtMost(Reidentification(), 0.1),
        AtMost(KAnonymity(k=2), 0.05),
        AtMost(Reidentification(attacker="marketer"), 0.15),
    ],
)
def test_a_limit_for_the_file_holds_with_the_fewest_small_classes_suppressed(model: AtMost) -> None:
    """Slow twin: at each node the smallest classes go, size by size, until the limit holds."""
    for seed in range(3):
        records, trees = small(seed)
        data = twin.people([row for row, _ in records], trees, [s for _, s in records])
        best = 0.0
        for node in twin.every_node(trees):
            counts = generalised([row for row, _ in records], trees, node)
            for least in range(1, 61):
                kept = {key: n for key, n in counts.items() if n >= least}
                total = sum(kept.values())
                value = sum(n == 1 for n in kept.values()) if isinstance(model.measure, KAnonymity) else len(kept)
                if total and value <= model.limit * total * (1 + 1e-9):
                    break
            if not total or 60 - total > 6:
                continue
            leaves = [Counter(label for row in tree for label in set(row)) for tree in trees]
            gain = sum(
                n * sum(1 - (c[x] - 1) / max(len(t) - 1, 1) for x, c, t in zip(key, leaves, trees, strict=True)) / 3
                for key, n in kept.items()
            )
            best = max(best, gain / 60)
        found = solved(FullDomainRecoding(k=1, suppression=0.1, models=[model]), data)
        assert math.isclose(found.score, best, abs_tol=1e-9)


def test_population_uniques_stay_below_their_limit() -> None:
    made = release(
        FullDomainRecoding(FEW, k=1, models=[AtMost(PopulationUniques(fraction=0.1), 0.002)], suppression=0.01),
        adult_nine(),
    )
    unique = KAnonymity(k=2, missing="value").score(made, Snooper(keys=FEW)).details["unique records"]
    assert not unique or PopulationUniques(fraction=0.1).score(made, Snooper(keys=FEW)).value <= 0.002


# --- Other objectives, weights, ranges of levels


@pytest.mark.parametrize("objective", ["discernibility", "class_size"])
def test_other_objectives_reach_the_best_of_all_nodes(objective: str) -> None:
    for seed in range(4):
        records, trees = small(seed)
        data = twin.people([row for row, _ in records], trees, [s for _, s in records])
        for limit in (0.0, 0.2):
            scores = []
            for node in twin.every_node(trees):
                counts = generalised([row for row, _ in records], trees, node).values()
                kept = [n for n in counts if n >= 3]
                lost = 60 - sum(kept)
                if kept and lost <= limit * 60 + 1e-9:
                    dm = sum(n * n for n in kept) + lost * 60
                    scores.append(-dm / 3_600 if objective == "discernibility" else -1 / len(kept))
            found = solved(FullDomainRecoding(k=3, suppression=limit, objective=objective), data)
            assert math.isclose(found.score, max(scores), rel_tol=1e-9)
            assert found.optimal


def test_any_measure_of_utility_can_be_the_objective() -> None:
    records, trees = small(5)
    data = twin.people([row for row, _ in records], trees, [s for _, s in records])
    for measure in (NonUniformEntropy(), AverageClassSize()):
        mask = FullDomainRecoding(k=4, suppression=0.2, objective=measure)
        values = []
        for node in twin.every_node(trees):
            levels = dict(zip("abc", node, strict=True))
            try:
                made = release(FullDomainRecoding(k=4, suppression=0.2, levels=levels), data)
            except DataError:
                continue
            values.append(measure.score(made).value)
        assert math.isclose(solved(mask, data).score, max(values), rel_tol=1e-9)
    with pytest.raises(ParameterError, match="measure of utility"):
        FullDomainRecoding(objective=KAnonymity())
    with pytest.raises(ParameterError, match="granularity"):
        FullDomainRecoding(objective="beauty")


def test_a_key_with_more_weight_stays_finer() -> None:
    names = ("age", "education")
    plain = solved(FullDomainRecoding(names, k=50), adult_nine()).rules
    aged = solved(FullDomainRecoding(names, k=50, weights={"age": 10}), adult_nine()).rules
    learnt = solved(FullDomainRecoding(names, k=50, weights={"education": 10}), adult_nine()).rules
    assert aged["age"] <= plain["age"]
    assert learnt["education"] <= plain["education"]
    assert aged != learnt


def test_lowest_and_highest_levels_are_kept() -> None:
    found = solved(FullDomainRecoding(FEW, k=5, suppression=0.05, lowest={"sex": 1}, highest={"age": 2}), adult_nine())
    assert found.rules["sex"] == 1
    assert found.rules["age"] <= 2
    with pytest.raises(SfumatoError, match="above its highest"):
        FullDomainRecoding(FEW, lowest={"age": 3}, highest={"age": 2}).fit(adult_nine(), Draws(1))
    with pytest.raises(SfumatoError, match="0 to 4"):
        FullDomainRecoding(FEW, lowest={"age": 9}).fit(adult_nine(), Draws(1))


# --- Large lattices


def test_a_lattice_that_is_climbed_says_how_far_from_the_best_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = solved(FullDomainRecoding(FEW, k=5, suppression=0.02), adult_nine())
    monkeypatch.setattr(search, "MOST_NODES", 100)
    climbed = solved(FullDomainRecoding(FEW, k=5, suppression=0.02), adult_nine())
    assert climbed.score <= exact.score + 1e-12 <= climbed.bound + 1e-9
    assert climbed.score >= 0.95 * exact.score


def test_thirteen_keys_are_searched_within_the_time_that_is_given() -> None:
    g = np.random.default_rng(13)
    trees = [twin.random_tree(g, 8, 4) for _ in range(13)]
    shares = [g.dirichlet(np.full(8, 0.3)) for _ in trees]
    rows = list(zip(*([f"v{i}" for i in g.choice(8, 500, p=p)] for p in shares), strict=True))
    data = twin.people(rows, trees, ["s"] * 500)
    mask = FullDomainRecoding(k=5, suppression=0.05, seconds=0.5)
    found = solved(mask, data)
    assert found.nodes > search.MOST_NODES
    assert found.score <= found.bound <= 1
    assert "no choice of levels has more than" in found.words() or found.optimal
    made = release(mask.with_(seconds=0.3), data)
    assert classes_of(made.masked, tuple("abcdefghijklm"), "value").sizes.min() >= 5


def test_a_search_that_is_stopped_by_time_gives_a_bound_on_the_rest() -> None:
    whole = solved(FullDomainRecoding(k=5, suppression=0.02), adult_nine())
    stopped = solved(FullDomainRecoding(k=5, suppression=0.02, seconds=0.01), adult_nine())
    assert stopped.score <= whole.score + 1e-12 <= stopped.bound + 1e-9


# --- The solution: looked at, kept, applied again


def test_the_solution_lists_what_was_looked_at_and_why_it_failed() -> None:
    found = solved(FullDomainRecoding(FEW, k=5, suppression=0.02), adult_nine())
    frame = found.frame()
    assert list(frame.columns) == [*FEW, "granularity", "suppressed", "why not"]
    assert dict(frame.loc[0, list(FEW)]) == found.rules
    failed = frame[frame["granularity"].isna()]
    assert (failed["why not"].str.contains("would be suppressed")).all()
    assert (frame.loc[frame["granularity"].notna(), "suppressed"] <= 0.02 * 30_162).all()


def test_the_chart_shows_each_node_that_was_looked_at() -> None:
    found = solved(FullDomainRecoding(FEW, k=5, suppression=0.02), adult_nine())
    line, hollow, filled, ringed = (rows for _, rows in layers(found.chart().to_dict()))
    assert [row["share"] for row in line] == [603 / 30_162]
    assert len(hollow) + len(filled) == len(found.checked)
    assert len(filled) == sum(c.score is not None for c in found.checked)
    assert all(row["share"] <= 0.02 for row in filled)
    assert len(ringed) == 1
    truth = {c.levels: c.detail for c in found.checked}[found.levels]
    whole = release(FullDomainRecoding(FEW, k=1, levels=found.rules), adult_nine())  # nobody has to be suppressed
    assert math.isclose(ringed[0]["detail"], truth)
    assert math.isclose(truth, Granularity(over=FEW).score(whole).value, rel_tol=1e-9)


def test_a_solution_is_written_as_levels_and_makes_the_same_release() -> None:
    mask = FullDomainRecoding(FEW, k=5, suppression=0.02)
    kept = Recipe.from_toml(mask.with_(levels=solved(mask, adult_nine()).rules).as_recipe().to_toml())
    one, two = release(mask, adult_nine()), kept.apply(adult_nine(), Draws(1))
    assert one.masked.digest() == two.masked.digest()


def test_a_fitted_mask_keeps_its_levels_on_other_data_and_counts_anew() -> None:
    names = ("age", "education", "sex")
    first, second = adult_nine().take(np.arange(20_000)), adult_nine().take(np.arange(20_000, 30_162))
    fitted = FullDomainRecoding(names, k=5, suppression=0.05).fit(first, Draws(1))
    again = fitted.apply(second, Draws(1))
    assert classes_of(again.masked, names, "value").sizes.min() >= 5
    levels = fitted.solution.rules
    tree = {n: second.schema[n].hierarchy for n in names}
    ids = again.align
    for n in names:
        before = dict(zip(second.batch([]).ids.tolist(), column(second, n), strict=True))
        expected = tree[n].generalise([before[i] for i in ids.tolist()], levels[n]).tolist()  # type: ignore[union-attr]
        assert column(again.masked, n) == expected
    with pytest.raises(DataError, match="Allow more suppression"):
        fitted.with_(suppression=0).learn(rule=fitted.rule).apply(second.take(np.arange(300)), Draws(1))


def test_models_are_written_to_a_recipe_and_read_again() -> None:
    mask = FullDomainRecoding(
        k=3,
        models=[LDiversity(["secret"], l=2), AtMost(Reidentification(), 0.05)],
        objective=NonUniformEntropy(),
        weights={"a": 2},
    )
    recipe = Recipe.from_toml(mask.as_recipe().to_toml())
    assert recipe["full_domain_recoding"] == mask


# --- Keys without a hierarchy, missing values


def test_rare_categories_become_other_and_rare_numbers_ranges() -> None:
    job = ["cook"] * 40 + ["smith"] * 30 + ["bishop"] * 2 + ["spy"] * 2 + ["miner"] * 2
    age = [20 + i % 30 for i in range(76)]
    data = microdata({"age": {"scale": "ordered"}}, job=job, age=age)
    made = release(FullDomainRecoding(k=3, suppression=0.1), data)
    labels = set(column(made.masked, "job")) - {"*"}
    assert labels <= {*job, *(x for x in labels if x.startswith("other (below"))}
    for label in set(column(made.masked, "age")) - {"*"}:
        assert label.isdigit() or label[0] in "[<≥"
    truth = dict(zip(data.batch([]).ids.tolist(), age, strict=True))
    for i, label in zip(made.align.tolist(), column(made.masked, "age"), strict=True):
        if label.startswith("["):
            low, high = label.strip("[)").split(", ")
            assert float(low) <= truth[i] < float(high)
    counts = Counter(zip(column(made.masked, "job"), column(made.masked, "age"), strict=True))
    assert min(counts.values()) >= 3


def test_a_missing_key_is_a_value_of_its_own_that_only_the_root_covers() -> None:
    tree = TreeHierarchy([["x", "both", "*"], ["y", "both", "*"]])
    data = microdata({"a": {"hierarchy": tree}}, a=["x"] * 4 + ["y"] * 4 + [None] * 2)
    fine = release(FullDomainRecoding(k=2), data)
    assert Counter(column(fine.masked, "a")) == {"x": 4, "y": 4, None: 2}
    coarse = release(FullDomainRecoding(k=3), data)
    assert column(coarse.masked, "a") == ["*"] * 10
    gone = release(FullDomainRecoding(k=3, suppression=0.2), data)
    assert Counter(column(gone.masked, "a")) == {"x": 4, "y": 4}
    assert KAnonymity(k=3).score(gone).value == 0


def test_codes_for_missing_count_as_missing_and_stay() -> None:
    data = microdata({"a": {"missing": ("none",)}}, a=["x"] * 4 + ["none"] * 2 + [None] * 2)
    made = release(FullDomainRecoding(k=4), data)
    assert Counter(column(made.masked, "a")) == {"x": 4, "none": 2, None: 2}


def test_survey_weights_make_up_for_suppressed_records() -> None:
    data = microdata(
        {"w": {"role": "weight", "scale": "ordered"}}, a=["x"] * 5 + ["y"] * 1, w=[1.0, 2.0, 3.0, 4.0, 5.0, 15.0]
    )
    made = release(FullDomainRecoding(k=2, suppression=0.2), data)
    assert math.isclose(sum(column(made.masked, "w")), 30.0)
    assert column(made.masked, "w")[:2] == [2.0, 4.0]


# --- Bad input


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    trees = [[("x", "*"), ("y", "*")]]
    data = twin.people([("x",)] * 3 + [("y",)] * 3, trees, list("abcabc"))
    cases: list[tuple[FullDomainRecoding, str]] = [
        (FullDomainRecoding(k=7), "more than the 6 records"),
        (
            FullDomainRecoding(k=2, models=[LDiversity(["secret"], l=4)]),
            "the models cannot be reached.*Nothing is released",
        ),
        (FullDomainRecoding(("a", "secret"), models=[LDiversity(["secret"], l=2)]), "is a key.*and confidential"),
        (FullDomainRecoding(("b",)), "'b' is not in the data"),
        (FullDomainRecoding(k=2, weights={"b": 1}), "'b' is not in the keys"),
        (FullDomainRecoding(k=2, weights={"a": 0}), "zero for all keys"),
        (FullDomainRecoding(k=2, levels={"b": 1}), "'b' is not in"),
        (FullDomainRecoding(k=2, models=[TCloseness("other")]), "'other' is not in the data"),
        (FullDomainRecoding(k=2, models=[KMap(k=2)]), "needs a table of the population"),
        (FullDomainRecoding(k=2, models=[AtMost(PopulationUniques(), 0.1)]), "fraction=0.1"),
    ]
    for mask, sentence in cases:
        with pytest.raises(SfumatoError, match=sentence):
            mask.apply(data, Draws(1))
    empty = microdata({"b": {"scale": "unordered"}}, a=["x"] * 4, b=np.full(4, np.nan))
    with pytest.raises(DataError, match="'b' has no values at all"):
        FullDomainRecoding(k=2).apply(empty, Draws(1))


def test_a_hierarchy_that_misses_values_counts_them_and_quotes_none() -> None:
    tree = TreeHierarchy([["x", "*"], ["y", "*"]])
    data = microdata({"a": {"hierarchy": tree}}, a=["x"] * 3 + ["secretum", "arcanum"])
    with pytest.raises(DataError, match=r"column 'a': 2 distinct values are not in this hierarchy") as refusal:
        FullDomainRecoding(k=2).apply(data, Draws(1))
    assert "secretum" not in str(refusal.value)
    with pytest.raises(SchemaError, match="stands under both"):
        TreeHierarchy([["x", "g", "h", "*"], ["y", "g", "i", "*"]])
    with pytest.raises(SchemaError, match="same root"):
        TreeHierarchy([["x", "g"], ["y", "h"]])


def test_several_confidential_columns_are_looked_at_one_by_one() -> None:
    data = microdata(
        {n: {"role": "confidential"} for n in ("s", "t")}, a=["x"] * 4, s=["p", "q", "p", "q"], t=["u", "u", "v", "v"]
    )
    with pytest.raises(ParameterError, match="others = 'ignored'"):
        FullDomainRecoding(k=2, models=[LDiversity(["s", "t"], l=2)]).apply(data, Draws(1))
    made = release(FullDomainRecoding(k=2, models=[LDiversity(["s", "t"], l=2, others="ignored")]), data)
    assert len(made.guarantees) == 4


def test_a_class_without_any_confidential_value_is_not_judged_by_its_diversity() -> None:
    data = microdata({"s": {"role": "confidential"}}, a=["x"] * 2 + ["y"], s=["p", "q", None])
    model = LDiversity(["s"], l=2)
    made = release(FullDomainRecoding(k=1, models=[model]), data)
    assert column(made.masked, "a") == ["x", "x", "y"]
    assert model.score(made).value == 0


def test_classes_of_many_wide_columns_are_counted_exactly() -> None:
    """The product of 12 columns of 1,000 codes does not fit in 64 bits."""
    g = np.random.default_rng(0)
    codes = g.integers(0, 1_000, (12, 40))[:, g.integers(0, 40, 500)].astype(np.int32)
    codes[11] = g.integers(0, 2, 500)
    rows = CodedRows(codes, np.arange(1, 501))
    labels, sizes, firsts = rows.classes([np.arange(1_000)] * 12, [1_000] * 12)
    truth, counts = np.unique(codes, axis=1, return_inverse=True)[1].ravel(), len(np.unique(codes, axis=1).T)
    assert len(sizes) == counts
    assert len({*zip(labels.tolist(), truth.tolist(), strict=True)}) == counts
    assert sizes.tolist() == np.bincount(labels, np.arange(1, 501)).tolist()
    assert labels[firsts].tolist() == list(range(counts))


def test_models_that_are_none_are_refused() -> None:
    with pytest.raises(ParameterError, match="must be a list of measures"):
        FullDomainRecoding(models="k_anonymity")
    with pytest.raises(ParameterError, match="classes of equal keys decide"):
        FullDomainRecoding(models=[Granularity()])
    with pytest.raises(ParameterError, match="AtMost"):
        FullDomainRecoding(models=[Reidentification()])
    with pytest.raises(ParameterError, match="classes of equal keys decide"):
        AtMost(Granularity(), 0.5)


def test_new_values_go_where_the_hierarchy_says_or_are_counted() -> None:
    tree = TreeHierarchy([["x", "g", "*"], ["y", "g", "*"], ["z", "h", "*"]])
    data = microdata({"a": {"hierarchy": tree}}, a=["x"] * 3 + ["y"] * 3)
    fitted = FullDomainRecoding(k=3, lowest={"a": 1}, suppression=0.5).fit(data, Draws(1))
    other = microdata({"a": {"hierarchy": tree}}, a=["y"] * 4 + ["z"] * 2)
    assert column(fitted.apply(other, Draws(1)).masked, "a") == ["g"] * 4
    plain = microdata(a=["x"] * 3 + ["y"] * 3)
    fitted = FullDomainRecoding(k=3).fit(plain, Draws(1))
    with pytest.raises(DataError, match=r"no hierarchy says where they belong|have to be suppressed"):
        fitted.apply(microdata(a=["x"] * 4 + ["q"] * 2), Draws(1))


def test_every_combination_of_two_models_is_verified_on_the_released_file() -> None:
    """The guarantees name each model, and the measures, scored here from outside, agree."""
    records, trees = small(8)
    data = twin.people([row for row, _ in records], trees, [s for _, s in records])
    models = [LDiversity(["secret"], l=2), TCloseness("secret", t=0.45), BetaLikeness("secret", beta=1.5)]
    for pair in itertools.combinations(models, 2):
        made = release(FullDomainRecoding(k=2, suppression=0.3, models=pair), data)
        said = [g.says for g in made.guarantees[2:]]
        assert len(said) == 3
        for model in pair:
            score = model.score(made)
            assert score.value <= (0.45 if isinstance(model, TCloseness) else 0) + 1e-9


def test_a_file_of_attributes_alone_can_be_searched_on_the_roles_of_its_schema() -> None:
    frame = pd.DataFrame({"a": ["x", "y"] * 5, "pay": np.arange(10.0)})
    data = Microdata(frame, Schema((Attribute("a", Role.KEY, Scale.UNORDERED), Attribute("pay", Role.CONFIDENTIAL))))
    made = release(FullDomainRecoding(k=5), data)
    assert column(made.masked, "pay") == list(np.arange(10.0))


def test_dates_are_merged_into_ranges_and_new_ones_are_released_truly() -> None:
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i) for i in range(40)]
    first = microdata({"day": {"scale": "ordered"}}, day=days[::2])
    fitted = FullDomainRecoding(k=4, lowest={"day": 1}, suppression=0.9).fit(first, Draws(1))
    made = fitted.apply(microdata({"day": {"scale": "ordered"}}, day=days), Draws(1))
    truth = dict(enumerate(days))
    for i, label in zip(made.align.tolist(), column(made.masked, "day"), strict=True):
        low, _, high = label.partition(" to ")
        assert label == "*" or low <= str(truth[i]) <= high
    assert {label for label in column(made.masked, "day") if " to " in label}


def test_what_holds_with_missing_as_a_value_holds_where_it_matches_anything() -> None:
    g, held = np.random.default_rng(4), 0
    for seed in range(4):
        records, trees = small(seed)
        names = "abc"
        columns: dict[str, Any] = {
            n: [None if g.random() < 0.15 else row[j] for row, _ in records] for j, n in enumerate(names)
        }
        facts: dict[str, dict[str, Any]] = {
            n: {"hierarchy": TreeHierarchy(t)} for n, t in zip(names, trees, strict=True)
        }
        data = microdata({**facts, "secret": {"role": "confidential"}}, **columns, secret=[s for _, s in records])
        for model in (*(m for m, _ in SMALL), KAnonymity(k=4)):
            try:
                made = release(FullDomainRecoding(k=1, suppression=0.5, models=[model]), data)
            except DataError:
                continue
            assert model.missing == "wildcard"
            assert model.allows(model.score(made))
            held += 1
    assert held >= 20


def test_a_journalists_risk_is_limited_by_the_population() -> None:
    data, people, *_ = populated(2)
    model = AtMost(Reidentification(attacker="journalist"), 0.08)
    mask = FullDomainRecoding(k=1, suppression=0.2, models=[model]).with_population(people)
    made = mask.apply(data, Draws(1))
    assert "journalist" in made.guarantees[-1].says
    assert mask.fit(data, Draws(1)).solution.optimal


def test_sensitive_values_of_a_model_are_not_published() -> None:
    recipe = FullDomainRecoding(models=[AlphaK("secret", values=("qzxv",))]).as_recipe()
    assert "qzxv" not in recipe.to_toml(withhold=True)
    assert "qzxv" in recipe.to_toml()
    open_ = FullDomainRecoding(models=[LDiversity(["secret"], l=2), AtMost(Reidentification(), 0.05)]).as_recipe()
    assert "l_diversity" in open_.to_toml(withhold=True)
