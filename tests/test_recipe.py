"""Recipes: steps and their names, changed parameters, TOML."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask, Recipe, Scope, Snooper, Step, learned, param, parameters, registered
from sfumato.contract.parameters import Parameter, build, find, snake
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import ParameterError, RecipeError, SfumatoError
from sfumato.masks import BottomCode, Identity, IndependentNoise, KimNoise, RemoveIdentifiers, TopCode
from sfumato.schema import Attribute, Schema
from sfumato.toml import dump
from sfumato.version import VERSION

X = [5.0, 1.0, 9.0, 7.0, 7.5, 3.0, 10.0, 2.0, 8.0, 6.0]


def microdata(**columns: Any) -> Microdata:
    return Microdata(pa.table(columns), Schema(tuple(Attribute(n, role="confidential") for n in columns)))  # type: ignore[arg-type]


def names(recipe: Recipe) -> list[str]:
    return [step.name for step in recipe.steps]


# Steps and their names


def test_masks_are_chained_with_arrows_and_named_after_themselves() -> None:
    recipe = KimNoise() >> TopCode() >> BottomCode()
    assert names(recipe) == ["identifiers", "kim_noise", "top_code", "bottom_code"]


def test_the_same_mask_twice_gets_a_number() -> None:
    assert names(KimNoise() >> TopCode() >> KimNoise() >> KimNoise()) == [
        "identifiers", "kim_noise", "top_code", "kim_noise_2", "kim_noise_3",
    ]  # fmt: skip
    assert names(Recipe.of(KimNoise(), KimNoise())) == ["identifiers", "kim_noise", "kim_noise_2"]


def test_recipes_chain_with_recipes_and_keep_the_names_of_their_steps() -> None:
    first, second = Recipe.of(noise=KimNoise()), Recipe.of(noise=TopCode(), last=BottomCode())
    assert names(first >> second) == ["identifiers", "noise", "noise_2", "last"]
    assert names(first >> TopCode()) == ["identifiers", "noise", "top_code"]
    assert names(TopCode() >> first) == ["identifiers", "top_code", "noise"]


def test_chaining_does_not_change_the_noise_of_a_named_step() -> None:
    data = microdata(x=X)
    alone = Recipe.of(noise=KimNoise()).apply(data, Draws(1)).masked.numbers("x")
    chained = (Recipe.of(noise=KimNoise()) >> Identity()).apply(data, Draws(1)).masked.numbers("x")
    np.testing.assert_array_equal(alone, chained)


@pytest.mark.parametrize(
    "recipe",
    [
        KimNoise().as_recipe(),
        Recipe.of(KimNoise()),
        Recipe.of(noise=KimNoise()),
        Recipe((Step("noise", KimNoise()),)),
        Recipe(()),
        Recipe.of(),
        KimNoise() >> RemoveIdentifiers(),
        Recipe((Step("noise", KimNoise()), Step("late", RemoveIdentifiers()))),
        Recipe.of(RemoveIdentifiers(), KimNoise()),
        Recipe.of(KimNoise()).with_none(),
        Recipe.of(KimNoise()).with_({"kim_noise.lambda2": 0.3}),
        Recipe.from_toml('[[step]]\nmask = "kim_noise"\n'),
        Recipe.from_toml("step = []\n"),
    ],
)
def test_the_first_step_always_removes_identifiers(recipe: Recipe) -> None:
    assert isinstance(recipe.steps[0].mask, RemoveIdentifiers)
    data = Microdata(
        pa.table({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]}),
        Schema((Attribute("id", "identifier", "unordered"), Attribute("x", "confidential"))),  # type: ignore[arg-type]
    )
    made = recipe.apply(data, Draws(1))
    assert made.masked.schema.names() == ("x",)
    assert list(made.masked.engine.kinds) == ["x"]


def test_the_removal_of_identifiers_may_have_a_name_of_ones_own() -> None:
    assert names(Recipe((Step("names out", RemoveIdentifiers()), Step("noise", KimNoise())))) == ["names out", "noise"]


def test_a_step_is_found_by_its_name() -> None:
    recipe = Recipe.of(noise=KimNoise(lambda2=0.3))
    assert recipe["noise"] == KimNoise(lambda2=0.3)
    with pytest.raises(RecipeError, match=r"step 'nose' is not in the recipe. Did you mean 'noise'\?"):
        recipe["nose"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Recipe((Step("a", KimNoise()), Step("a", TopCode()))), "these step names stand more than once: a"),
        (lambda: Recipe.of(identifiers=KimNoise()), "these step names stand more than once: identifiers"),
        (lambda: Recipe((Step("a.b", KimNoise()),)), "a step's name is a text without a dot"),
        (lambda: Recipe((Step("", KimNoise()),)), "a step's name is a text without a dot"),
        (lambda: Recipe.of(3), "a recipe is made of masks, not of int"),  # type: ignore[arg-type]
        (lambda: Recipe.of(KimNoise), "a recipe is made of masks, not of type"),  # type: ignore[arg-type]
        (lambda: Recipe.of(noise="kim"), "a recipe is made of masks"),  # type: ignore[arg-type]
        (lambda: Recipe((KimNoise(),)), "a recipe is made of masks"),  # type: ignore[arg-type]
        (lambda: KimNoise() >> 5, "a recipe is made of masks, not of int"),  # type: ignore[operator]
        (lambda: KimNoise().as_recipe() >> "top", "a recipe is made of masks, not of str"),  # type: ignore[operator]
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_a_recipes_scope_is_the_widest_and_its_order_kept_only_if_every_step_keeps_it() -> None:
    assert (KimNoise() >> TopCode()).scope is Scope.ROW
    assert (TopCode() >> BottomCode()).preserves_order
    assert not (KimNoise() >> TopCode()).preserves_order


def test_an_error_names_the_step_it_comes_from() -> None:
    with pytest.raises(SfumatoError, match=r"^step 'hide the rich': column 'incme' is not in"):
        Recipe((Step("hide the rich", TopCode(columns="incme")),)).apply(microdata(income=X), Draws(1))


# Changing parameters


def test_settings_and_parameters_are_named_by_step_and_parameter() -> None:
    recipe = KimNoise(columns=("x",), lambda2=0.2) >> TopCode(quantile=0.9)
    assert recipe.settings() == {
        "identifiers.pseudonyms": None, "kim_noise.columns": ("x",), "kim_noise.lambda2": 0.2,
        "top_code.columns": None, "top_code.quantile": 0.9, "top_code.value": None, "top_code.replace": "threshold",
    }  # fmt: skip
    assert recipe.settings().keys() == recipe.parameters().keys()
    level = recipe.parameters()["kim_noise.lambda2"]
    assert (level.low, level.scale, level.integer, level.per_column, level.published) == (0, "log", False, True, True)


def test_a_changed_recipe_is_a_new_one() -> None:
    recipe = KimNoise(lambda2=0.1) >> TopCode(quantile=0.9)
    changed = recipe.with_({"kim_noise.lambda2": 0.2, "top_code.quantile": 0.8})
    assert (changed["kim_noise"], changed["top_code"]) == (KimNoise(lambda2=0.2), TopCode(quantile=0.8))
    assert recipe == KimNoise(lambda2=0.1) >> TopCode(quantile=0.9)


@pytest.mark.parametrize(
    ("mask", "changes", "expected"),
    [
        (KimNoise(columns=("a", "b"), lambda2={"a": 0.1, "b": 0.2}), {"lambda2.a": 0.5}, {"a": 0.5, "b": 0.2}),
        (KimNoise(columns=("a", "b"), lambda2=0.3), {"lambda2.a": 0.5}, {"a": 0.5, "b": 0.3}),
        (KimNoise(columns=("a", "b"), lambda2=0.3), {"lambda2.a": 0.5, "lambda2.b": 0.1}, {"a": 0.5, "b": 0.1}),
        (KimNoise(columns=("a", "b"), lambda2=0.3), {"lambda2": 0.1, "lambda2.a": 0.5}, {"a": 0.5, "b": 0.1}),
        (KimNoise(columns=("a", "net.pay")), {"lambda2.net.pay": 0.5}, {"a": 0.15, "net.pay": 0.5}),
        (KimNoise(), {"lambda2.a": 0.5}, {"a": 0.5}),
    ],
)
def test_one_columns_level_is_changed_by_adding_its_name(
    mask: KimNoise, changes: dict[str, float], expected: dict[str, float]
) -> None:
    changed = Recipe.of(noise=mask).with_({f"noise.{k}": v for k, v in changes.items()})["noise"]
    assert isinstance(changed, KimNoise)
    assert changed.lambda2 == expected


def test_parameters_of_one_step_are_changed_together() -> None:
    recipe = Recipe.of(top=TopCode(quantile=0.9), noise=KimNoise(columns=("a",), lambda2={"a": 0.1}))
    changed = recipe.with_({"top.value": 5, "top.quantile": None, "noise.columns": ("b",), "noise.lambda2": {"b": 0.2}})
    assert changed["top"] == TopCode(value=5)
    assert changed["noise"] == KimNoise(columns=("b",), lambda2={"b": 0.2})


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("kim_noise.lamda2", r"parameter 'kim_noise.lamda2' is not in the recipe. Did you mean 'kim_noise.lambda2'\?"),
        ("kimnoise.lambda2", r"Did you mean 'kim_noise.lambda2'\?"),
        ("lambda2", r"parameter 'lambda2' is not in the recipe. .*It has: .*kim_noise.columns, kim_noise.lambda2"),
        ("kim_noise", "parameter 'kim_noise' is not in the recipe"),
        ("", "parameter '' is not in the recipe"),
        ("kim_noise.root", "parameter 'kim_noise.root' is not in the recipe"),
        ("top_code.replace.x", "replace of top_code is one setting for all columns; leave the column out"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest_name(path: str, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        (KimNoise() >> TopCode()).with_({path: 0.2})


def test_a_value_out_of_range_is_refused_when_it_is_set() -> None:
    with pytest.raises(ParameterError, match="lambda2 of kim_noise must be a number of at least 0"):
        KimNoise().as_recipe().with_({"kim_noise.lambda2": -1})


def test_a_changed_step_is_fitted_again_only_if_it_must_be_and_later_steps_always() -> None:
    data = microdata(x=X)
    recipe = BottomCode(quantile=0.1) >> KimNoise() >> TopCode(quantile=0.9)
    fitted = recipe.fit(data, Draws(1))
    assert all(step.mask.is_fitted for step in fitted.steps)
    assert not any(step.mask.is_fitted for step in recipe.steps[1:])

    def states(changes: Mapping[str, Any]) -> list[bool]:
        return [step.mask.is_fitted for step in fitted.with_(changes).steps[1:]]

    assert states({"kim_noise.lambda2": 0.3}) == [True, True, False]
    assert states({"bottom_code.quantile": 0.2}) == [False, False, False]
    assert states({"top_code.quantile": 0.8}) == [True, True, False]
    assert states({}) == [True, True, True]


def test_a_fitted_recipe_with_a_changed_level_masks_like_one_fitted_afresh() -> None:
    data = microdata(x=X, y=X[::-1])
    recipe = KimNoise() >> TopCode(quantile=0.6, replace="mean")
    fitted = recipe.fit(data, Draws(3))
    for lambda2 in (0.0, 0.1, 2.0):
        changes = {"kim_noise.lambda2": lambda2}
        one, two = (r.with_(changes).apply(data, Draws(3)).masked for r in (fitted, recipe))
        for name in ("x", "y"):
            np.testing.assert_array_equal(one.numbers(name), two.numbers(name))


def test_each_step_is_fitted_on_what_the_steps_before_it_made() -> None:
    data = microdata(x=X)
    recipe = (TopCode(value=5) >> BottomCode(quantile=0.9)).fit(data, Draws(1))
    after = recipe.apply(data, Draws(1)).masked.numbers("x")
    assert after.tolist() == [5.0] * 10  # nine tenths of the top-coded values are at most 5


def test_the_recipe_that_masks_nothing_still_removes_identifiers() -> None:
    assert (KimNoise() >> TopCode()).with_none() == Recipe(())


def test_columns_touched_are_those_of_all_steps() -> None:
    schema = microdata(a=X, b=X, c=X).schema.roles(key="c")
    assert (KimNoise(columns="c") >> TopCode()).touches(schema) == ("c", "a", "b")
    assert Identity().as_recipe().touches(schema) == ()


def test_noise_adds_up_over_steps_and_is_unknown_after_any_other_mask() -> None:
    schema = microdata(a=X, b=X).schema
    sigma = np.array([[4.0, 1.0], [1.0, 9.0]])
    twice = (KimNoise(lambda2=0.5) >> KimNoise(lambda2=0.5)).noise(("a", "b"), sigma, schema)
    np.testing.assert_allclose(twice, 1.25 * sigma)  # Σ/2, then half of 3Σ/2
    one = KimNoise(columns="a", lambda2=0.5).as_recipe().noise(("a", "b"), sigma, schema)
    np.testing.assert_allclose(one, [[2.0, 0], [0, 0]])
    by_column = KimNoise(lambda2={"a": 0.04, "b": 0.25}).as_recipe().noise(("a", "b"), sigma, schema)
    np.testing.assert_allclose(by_column, [[0.16, 0.1], [0.1, 2.25]])
    own = IndependentNoise(lambda2=0.5).as_recipe().noise(("a", "b"), sigma, schema)
    np.testing.assert_allclose(own, [[2.0, 0], [0, 4.5]])
    assert (KimNoise() >> TopCode()).noise(("a", "b"), sigma, schema) is None


# TOML

columns = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def setting(parameter: Parameter, masked: tuple[str, ...] | None) -> st.SearchStrategy[Any]:
    """Any value that a parameter says it takes."""
    if parameter.columns == "many":
        return st.just(masked)
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    number = (
        st.integers(int(parameter.low or 0), int(parameter.high or 100))
        if parameter.integer
        else st.floats(parameter.low, parameter.high, exclude_min=parameter.above)
    )
    if parameter.per_column and masked:
        return number | st.fixed_dictionaries(dict.fromkeys(masked, number))
    return number


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    ours = [
        c for c in registered("mask").values() if c.__module__.startswith("sfumato.")
    ]  # other tests register theirs
    kind = draw(st.sampled_from(sorted(ours, key=lambda c: c.name)))
    masked = draw(st.none() | st.lists(columns, min_size=1, max_size=3, unique=True).map(tuple))
    known = {n: p for n, p in kind.parameters().items() if p.numeric or p.choices or p.columns == "many"}
    chosen = draw(st.lists(st.sampled_from(sorted(known)), unique=True)) if known else []
    if "columns" in chosen and masked is None:
        chosen.remove("columns")
    values = {name: draw(setting(known[name], masked if "columns" in chosen else None)) for name in chosen}
    if "value" in values:
        values.pop("quantile", None)
    try:
        made = kind(**values)
    except (ParameterError, TypeError):  # needs what is not drawn here, or takes no two of these together
        reject()
    assert isinstance(made, Mask)
    return made


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.lists(masks(), max_size=2))
def test_any_recipe_of_registered_masks_survives_toml(chosen: list[Mask]) -> None:
    assume(sum(mask.versions > 1 for mask in chosen) < 2)  # a recipe has one step that makes several implicates at most
    recipe = Recipe.of(*chosen)
    assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_a_recipe_reads_well() -> None:
    recipe = Recipe.of(noise=KimNoise(columns=("net pay",), lambda2={"net pay": 0.15}), top=TopCode(quantile=0.99))
    assert recipe.to_toml() == (
        f'version = 1\nsfumato = "{VERSION}"\n\n'
        '[[step]]\nname = "identifiers"\nmask = "remove_identifiers"\n\n'
        '[[step]]\nname = "noise"\nmask = "kim_noise"\ncolumns = ["net pay"]\nlambda2 = { "net pay" = 0.15 }\n\n'
        '[[step]]\nname = "top"\nmask = "top_code"\nquantile = 0.99\nreplace = "threshold"\n'
    )


def test_a_recipe_survives_a_file(tmp_path: Path) -> None:
    recipe = dataclasses.replace(KimNoise() >> TopCode(), digest="00ff")
    recipe.write(tmp_path / "recipe.toml")
    assert Recipe.read(tmp_path / "recipe.toml") == recipe


def test_neither_the_seed_nor_anything_learned_is_written() -> None:
    planted = 7654321.987654321
    data = microdata(x=[1.0, 2.0, 3.0, planted, planted])
    draws = Draws("the planted seed")
    recipe = (TopCode(quantile=0.9) >> BottomCode(quantile=1.0) >> Identity()).fit(data, draws)
    assert recipe["top_code"].is_fitted
    noisy = KimNoise().as_recipe().fit(data, draws)
    for text in (recipe.to_toml(), repr(recipe), str(list(recipe.describe())), noisy.to_toml(), repr(noisy)):
        assert "7654321" not in text
        assert "planted seed" not in text
        assert draws._key.hex() not in text
    numbers = [v for step in tomllib.loads(noisy.to_toml())["step"] for v in step.values() if isinstance(v, float)]
    assert numbers == [0.15]


def test_a_level_for_a_column_that_is_called_like_a_family_survives_toml() -> None:
    names_ = ("mask", "measure", "estimator", "snooper", "name", "step", "version")
    recipe = Recipe.of(KimNoise(columns=names_, lambda2=dict.fromkeys(names_, 0.2)))
    assert Recipe.from_toml(recipe.to_toml()) == recipe


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "version = 2\nsfumato = '9.9'\nstep = []",
            r"the recipe has version 2, .*written by sfumato 9.9: upgrade this one",
        ),
        ("version = 0\nstep = []", "versions are whole numbers from 1 to 1"),
        ("version = 'new'\nstep = []", "versions are whole numbers from 1 to 1"),
        ("version = true\nstep = []", "versions are whole numbers from 1 to 1"),
        ("version = 1", r"a recipe file holds one \[\[step\]\] table per mask; this one has none"),
        ("step = 5", "this one has none"),
        ("step = ['kim_noise']", "this one has none"),
        ("[[step]\n", "the recipe is not valid TOML"),
        ("[[step]]\nname = 'a'\n", "step 1 of the recipe does not say which mask it is"),
        ("[[step]]\nmask = 'kim_nose'\n", r"mask 'kim_nose' is not in the list of masks. Did you mean 'kim_noise'\?"),
        ("[[step]]\nmask = 'kim_noise'\nlamda2 = 1\n", r"parameter 'lamda2' .* Did you mean 'lambda2'\?"),
        ("[[step]]\nmask = 'kim_noise'\nlambda2 = -1\n", "lambda2 of kim_noise must be a number of at least 0"),
        ("[[step]]\nmask = 'kim_noise'\nroot = [[1.0]]\n", "parameter 'root' is not in kim_noise"),
        (
            "[[step]]\nmask = 'kim_noise'\n[[step]]\nmask = 'kim_noise'\n",
            "these step names stand more than once: kim_noise",
        ),
        ("[[step]]\nmask = 5\n", "mask '5' is not in the list of masks"),
    ],
)
def test_a_recipe_file_that_makes_no_sense_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence) as caught:
        Recipe.from_toml(text)
    assert str(caught.value).rstrip().endswith((".", "?"))


def test_a_recipe_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="there is no recipe file at"):
        Recipe.read(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes("# größe\n".encode("latin-1"))
    with pytest.raises(RecipeError, match="must be a text file in UTF-8"):
        Recipe.read(tmp_path / "latin.toml")
    with pytest.raises(RecipeError, match="cannot be read as a recipe"):
        Recipe.read(tmp_path)


# Registration


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten when it ends."""
    registry = {family: dict(classes) for family, classes in parameters._REGISTRY.items()}
    monkeypatch.setattr(parameters, "_REGISTRY", registry)


@pytest.mark.usefixtures("own_registry")
def test_a_mask_of_ones_own_is_a_subclass_and_nothing_more() -> None:
    class Halve(Mask):
        """Halve every number."""

        preserves_order: ClassVar[bool] = True
        by: int = param(2, doc="what to divide by", low=1, integer=True)
        seen: Any = learned("by", default=None)

        def fit(self, data: Microdata, draws: Draws) -> Halve:
            return self.learn(seen=len(data))

        def transform(self, batch: Batch, draws: Draws) -> Batch:
            out = batch
            for name in batch.rows.columns:
                out = out.replace(name, partial(self.halved, batch.numbers(name)))
            return out

        def halved(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
            return numbers / self.by

    assert find("mask", "halve") is Halve
    recipe = Recipe.from_toml('[[step]]\nname = "half"\nmask = "halve"\nby = 4\n')
    assert recipe.apply(microdata(x=[4.0, 8.0]), Draws(1)).masked.numbers("x").tolist() == [1, 2]
    assert recipe.with_({"half.by": 2}).settings() == {"identifiers.pseudonyms": None, "half.by": 2}
    with pytest.raises(ParameterError, match=r"by of halve must be a whole number of at least 1; got 2\.5"):
        Halve(by=2.5)  # type: ignore[arg-type]


@pytest.mark.usefixtures("own_registry")
def test_a_second_mask_of_the_same_name_from_elsewhere_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"there is already a mask named 'kim_noise', in sfumato.masks.noise"):
        type("KimNoise", (Identity,), {"__module__": "elsewhere", "__doc__": "Another."})
    assert find("mask", "kim_noise") is KimNoise


def test_built_in_classes_are_found_without_importing_them_first(tmp_path: Path) -> None:
    code = (
        "from sfumato.contract import Recipe, registered\n"
        "print(len(Recipe(()).steps), 'kim_noise' in registered('mask'), 'attribute_risk' in registered('measure'),"
        " 'mean' in registered('estimator'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.split() == ["1", "True", "True", "True"]


@pytest.mark.parametrize(
    ("name", "snaked"),
    [("KimNoise", "kim_noise"), ("PRAM", "pram"), ("MDAVGroups", "mdav_groups"), ("TopCode2", "top_code2"), ("A", "a")],
)
def test_names_are_written_in_lower_case_with_underscores(name: str, snaked: str) -> None:
    assert snake(name) == snaked


def test_a_family_or_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ParameterError, match="mask 'noise_of_kim' is not in the list of masks"):
        build("mask", {"mask": "noise_of_kim"})
    with pytest.raises(ParameterError, match="measure '' is not in the list of measures"):
        build("measure", {})
    assert registered("sorcery") == {}


def test_a_required_parameter_that_is_left_out_is_named() -> None:
    with pytest.raises(ParameterError, match="attribute_risk needs column: the column a snooper wants to know"):
        build("measure", {"measure": "attribute_risk"})


def test_a_snooper_survives_toml_and_says_what_he_knows() -> None:
    snooper = Snooper(strategy="bayes", match_probability=0.8, covariates=("age",), parameter_published=True)
    assert Snooper.from_dict(tomllib.loads(dump(snooper.to_dict(), "x", []))) == snooper
    assert snooper.describe() == (
        "links the right record with probability 0.8; knows age; shrinks; is told the noise level"
    )
    with pytest.raises(
        ParameterError, match="match_probability of snooper must be a number of at least 0 and at most 1"
    ):
        Snooper(match_probability=1.5)
    with pytest.raises(ParameterError, match="parameter_published of snooper must be true or false"):
        Snooper(parameter_published="yes")  # type: ignore[arg-type]
