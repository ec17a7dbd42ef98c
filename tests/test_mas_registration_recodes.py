"""Recodes: other names for sets of records that the variable itself can name, with the same drops and the same noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.mas import Cutpoints
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.rules import UniverseForm
from sfumato.mas.universe import in_base
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Schema

EXACT = Policy.open().with_(title="exact")
AGES = Cutpoints((9, 19, 29, 39, 49, 59, 69), whole=True, low=0, high=99)
RECODES = (
    LevelRecode(
        "age20", "age", {"young": ["0-19"], "middle": ["20-59"], "old": ["60-99"]}, label="age in three groups"
    ),
    LevelRecode("adult", "age20", {"no": ["young"], "yes": ["middle", "old"]}),
    LevelRecode("health", "illness", {"well": ["none", "cold"], "ill": ["flu", "gout"]}),
)


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, pd.DataFrame]:
    rng = np.random.default_rng(4)
    n = 6_000
    frame = pd.DataFrame({
        "age": rng.integers(0, 80, n), "sex": rng.choice(["F", "M"], n),
        "illness": rng.choice(["none", "cold", "flu", "gout"], n, p=[0.4, 0.3, 0.2, 0.1]),
    })  # fmt: skip
    schema = Schema((
        Attribute("age", role="key", integer=True), Attribute("sex", role="key", scale="unordered"),
        Attribute("illness", role="confidential", scale="unordered"),
    ))  # fmt: skip
    vault = Vault.create(tmp_path_factory.mktemp("vault") / "v")
    vault.freeze("survey", Microdata(frame, schema), {"age": AGES}, recodes=RECODES)
    return vault, frame


@pytest.mark.parametrize(
    ("coarse", "fine"),
    [
        ({"age20": "middle"}, {"age": "20-59"}),
        ("age20 != 'old'", "age in ('0-19', '20-59')"),
        ({"adult": "yes"}, {"age20": ["middle", "old"]}),
        ({"adult": "yes", "age20": ["young", "middle"]}, {"age": "20-59"}),
        ({"health": "ill", "sex": "F"}, {"illness": ["flu", "gout"], "sex": "F"}),
        (
            [{"age20": "young"}, {"health": "ill", "age": "60-99"}],
            [{"age": "0-19"}, {"illness": ["flu", "gout"], "age20": "old"}],
        ),
    ],
)  # fmt: skip
def test_a_universe_formed_with_a_recode_gives_the_bytes_of_the_variable_itself(
    survey: tuple[Vault, pd.DataFrame], coarse: object, fine: object
) -> None:
    vault, _ = survey
    for analysis in (CrossTab(("sex",)), CrossTab(("illness", "age20")), CrossTab(("health",))):
        unchecked = vault.policy.with_(rules=())
        first, second = (vault.ask("survey", universe, analysis, unchecked) for universe in (coarse, fine))
        assert isinstance(first, Answer)
        assert isinstance(second, Answer)
        assert first.to_bytes() == second.to_bytes()


@pytest.mark.parametrize("policy", ["hardened", "census2009"])
def test_a_cell_of_a_recode_has_the_noise_of_the_same_records_in_the_variable(
    survey: tuple[Vault, pd.DataFrame], policy: str
) -> None:
    vault, _ = survey
    chosen = Policy.named(policy).with_(drop=EXACT.drop)
    table = vault.ask("survey", None, CrossTab(("health", "age20")), chosen).frame()
    cell = table.query("health == 'ill' and age20 == 'old'")["count"].item()
    asked = vault.ask("survey", {"age": "60-99"}, CrossTab(("health",)), chosen).frame()
    assert cell == asked.query("health == 'ill'")["count"].item()


def test_counts_of_recodes_are_those_of_pandas(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, frame = survey
    found = vault.ask("survey", {"adult": "yes"}, CrossTab(("age20", "health")), EXACT).frame()
    age20 = pd.cut(frame["age"], [-1, 19, 59, 99], labels=["young", "middle", "old"])
    health = np.where(frame["illness"].isin(["flu", "gout"]), "ill", "well")
    truth = pd.crosstab(age20[frame["age"] > 19], health[frame["age"] > 19])
    for (age, state), n in truth.stack().items():
        assert found[(found["age20"] == age) & (found["health"] == state)]["count"].item() == n


def test_a_table_of_a_recode_is_charged_to_the_records_of_its_levels(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    data = vault.dataset("survey")
    unchecked = vault.policy.with_(rules=())
    assert vault.ask("survey", {"adult": "no"}, CrossTab(("age20", "illness")), unchecked, user="bob")
    balance = vault.ledger.balance("bob", "survey", data.variables)
    assert [v.name for v in balance.variables] == ["age", "sex"]  # a recode has no account of its own
    charged = balance.spent.max(axis=1) > 0
    assert charged.tolist() == [True, True, *([False] * 6)]  # 0 to 9 and 10 to 19


def test_an_array_in_the_levels_of_the_base_is_that_of_a_slow_twin() -> None:
    base, other = Variable("b", 0, True, ("0", "1", "2", "3")), Variable("a", 1, True, ("x", "y"))
    coarse = Variable("z", 2, True, ("p", "q"), base=base, groups=(0, 1, 0, 1))
    values = np.arange(2 * 2 * 4).reshape(2, 2, 4)
    variables, found = in_base((coarse, other, base), values)
    assert [v.name for v in variables] == ["a", "b"]
    for a in range(2):
        for b in range(4):
            assert found[a, b] == values[(0, 1, 0, 1)[b], a, b]


def test_a_recode_is_kept_with_the_data_set(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    again = Vault.open(vault.folder).dataset("survey").variables["adult"]
    assert again.base is not None
    assert again.base.name == "age"
    assert again.levels == ("no", "yes")
    assert again.known


def test_recodes_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "recodes.toml"
    path.write_text(
        '[[recode]]\nname = "region"\nof = "state"\nlabel = "Region"\ngroups = { north = ["S1", "S2"], south = "S3" }\n'
    )
    (read,) = LevelRecode.read(path)
    assert read == LevelRecode("region", "state", {"north": ("S1", "S2"), "south": ("S3",)}, "Region")
    assert LevelRecode.from_dict(read.to_dict()) == read
    for text in ("[[recode]]\nname = 'x'\n", "recode = 3\n", "[[recode]\n"):
        path.write_text(text)
        with pytest.raises(ParameterError):
            LevelRecode.read(path)


@pytest.mark.parametrize(
    ("recode", "said"),
    [
        (LevelRecode("x", "racee", {"o": ["A"]}), "Did you mean 'race'"),
        (LevelRecode("race", "race", {"o": ["A"]}), "name that is taken"),
        (LevelRecode("x", "race", {"o": ["A", "C"]}), "level 'C' is not in variable 'race'"),
        (LevelRecode("x", "race", {"o": ["A"], "p": ["A"]}), "'A' in two groups"),
        (LevelRecode("x", "race", {"W": ["A"]}), "both called 'W'"),
    ],
)
def test_mistakes_in_recodes_are_told(recode: LevelRecode, said: str) -> None:
    from sfumato.mas.preparation import with_recodes

    with pytest.raises((DataError, ParameterError), match=said):
        with_recodes([Variable("race", 0, True, ("A", "B", "W"))], [recode])


@pytest.mark.parametrize("levels", [None, 3, [], b"A"])
def test_a_group_of_a_recode_is_a_list_of_levels(levels: object) -> None:
    with pytest.raises(ParameterError, match="a group of the recode 'x'"):
        LevelRecode("x", "race", {"o": levels})


def test_levels_that_no_group_names_stay_and_missing_stays_last() -> None:
    variable = Variable("race", 0, True, ("A", "B", "W", "missing"))
    made = LevelRecode("x", "race", {"not white": ["A", "B"]}).made(variable, 1)
    assert made.levels == ("not white", "W", "missing")
    assert made.groups == (0, 0, 1, 2)


def test_a_universe_of_many_levels_may_be_named_by_few_groups(survey: tuple[Vault, pd.DataFrame]) -> None:
    vault, _ = survey
    policy = vault.policy.with_(rules=(UniverseForm(variables=2, levels=3),))
    assert isinstance(vault.ask("survey", {"age20": "middle"}, CrossTab(("sex",)), policy), Answer)
    refused = vault.ask("survey", {"age": "20-59"}, CrossTab(("sex",)), policy)
    assert isinstance(refused, Refusal)
    assert refused.rule == "universe_form"


def test_conditions_on_a_recode_and_its_variable_that_exclude_each_other_are_refused(
    survey: tuple[Vault, pd.DataFrame],
) -> None:
    vault, _ = survey
    with pytest.raises(DataError, match="conditions that no level meets"):
        vault.ask("survey", {"age20": "young", "age": "60-99"}, CrossTab(("sex",)))
