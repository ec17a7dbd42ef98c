"""What a snooper knows: in words, in TOML, and what is refused."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from sfumato import Release, Snooper
from sfumato.contract import build
from sfumato.datasets import five
from sfumato.errors import NotApplicable, ParameterError
from sfumato.risk import KAnonymity
from sfumato.toml import dump

FULL = Snooper(keys=("zip", "age"), precision={"age": 5}, coverage=0.25, errors=0.01)


def test_what_a_snooper_knows_is_told_in_words() -> None:
    words = FULL.learn(external=five(), population=five()).describe()
    for part in (
        "looks for records by zip, age",
        "knows age to within 5",
        "has a file of his own",
        "has 25 % of the persons in his file",
        "has 1 % wrong values in his file",
        "has a table of the population",
    ):
        assert part in words
    plain = Snooper().describe()
    assert plain == "knows which record is the target's; takes the released value as it is; is not told the noise level"


def test_toml_gives_back_the_same_snooper_without_his_files() -> None:
    rich = FULL.learn(external=five(), population=five())
    text = dump(rich.to_dict(), "x", [])
    assert "external" not in text
    assert "population" not in text
    back = Snooper.from_dict(tomllib.loads(text))
    assert back == FULL == rich.forget()
    assert back.external is None
    assert back.population is None
    assert back.precision == {"age": 5.0}
    assert build("snooper", {"snooper": "snooper", **FULL.to_dict()}) == FULL


def test_his_files_are_not_shown() -> None:
    shown = repr(FULL.learn(external=five(), population=five()))
    assert "Microdata" not in shown
    assert "external" not in shown


def test_files_stay_when_something_else_changes_and_can_be_forgotten() -> None:
    rich = FULL.learn(population=five())
    assert rich.with_(coverage=0.5).population is rich.population
    assert rich.forget().population is None


def test_one_key_may_be_given_by_name() -> None:
    assert Snooper(keys="zip").keys == ("zip",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"keys": ("zip", "zip")}, "keys of snooper names a column twice"),
        ({"keys": 5}, "keys of snooper must be a list of column names"),
        ({"precision": 5}, "precision of snooper must be a number for each column"),
        ({"precision": {"age": 0}}, "precision of snooper of 'age' must be a number above 0; got 0"),
        ({"precision": {"age": "five"}}, "precision of snooper of 'age' must be a number above 0"),
        ({"coverage": 0}, "coverage of snooper must be a number above 0 and at most 1; got 0"),
        ({"coverage": 1.5}, "coverage of snooper must be a number above 0 and at most 1"),
        ({"errors": -0.1}, "errors of snooper must be a number of at least 0 and at most 1"),
        ({"errors": None}, "snooper needs errors: probability that a value in his file is wrong"),
    ],
)
def test_what_a_snooper_cannot_know_is_refused(facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        Snooper(**facts)


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    with pytest.raises(ParameterError, match=r"Did you mean 'coverage'\?"):
        Snooper.from_dict({"coverrage": 0.5})
    with pytest.raises(ParameterError, match="external"):
        Snooper.from_dict({"external": "people.csv"})


def test_keys_that_the_files_do_not_have_are_refused_when_they_are_looked_for() -> None:
    people = five()
    made = Release.of(people, people, align="rows")
    with pytest.raises(NotApplicable, match=r"key 'zipp' is not in the released file. Did you mean 'zip'\?"):
        KAnonymity().score(made, Snooper(keys=("zipp",)))
    with pytest.raises(NotApplicable, match="which his precision is about"):
        KAnonymity().score(made, Snooper(keys=("sex",), precision={"age": 5}))
    with pytest.raises(ParameterError, match="precision is the width of intervals of numbers, but 'sex' holds text"):
        KAnonymity().score(made, Snooper(keys=("sex",), precision={"sex": 5}))
