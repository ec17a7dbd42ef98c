"""The schema: what it refuses, in which words, and that TOML gives it back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import (
    Attribute,
    DateHierarchy,
    Hierarchy,
    IntervalHierarchy,
    Level,
    PrefixHierarchy,
    Role,
    Scale,
    Schema,
    TreeHierarchy,
)

ZIP = PrefixHierarchy(5)
PEOPLE = Schema(
    (
        Attribute("name", role="identifier", scale="unordered"),
        Attribute("age", role="key", integer=True, bounds=(0, 120)),
        Attribute("zip", role="key", scale="partially ordered", hierarchy=ZIP),
        Attribute("income", role="confidential", unit="euros", missing=(-9,)),
        Attribute("tax", role="confidential", follows="income"),
        Attribute("hid", role="household", scale="unordered"),
        Attribute("w", role="weight"),
    )
)


# -- attributes


def test_roles_scales_and_levels_may_be_given_as_words() -> None:
    attribute = Attribute("rent", role="confidential", scale="ordered", level="household")
    assert (attribute.role, attribute.scale, attribute.level) == (Role.CONFIDENTIAL, Scale.ORDERED, Level.HOUSEHOLD)


@pytest.mark.parametrize(
    ("field", "given_value", "near"),
    [("role", "keys", "key"), ("scale", "orderd", "ordered"), ("level", "Household", "household")],
)
def test_an_unknown_word_is_refused_with_the_nearest_one(field: str, given_value: str, near: str) -> None:
    with pytest.raises(SchemaError, match=rf"'{given_value}' .*'age'.*Did you mean '{near}'\? It has: "):
        Attribute("age", **{field: given_value})


@pytest.mark.parametrize("name", ["", None, 7])
def test_an_attribute_needs_a_name(name: Any) -> None:
    with pytest.raises(SchemaError, match="needs a name, a non-empty text"):
        Attribute(name)


@pytest.mark.parametrize("bounds", [5, (1,), (1, 2, 3), ("a", None), "ab", None])
def test_bounds_are_two_numbers(bounds: Any) -> None:
    with pytest.raises(SchemaError, match="bounds of 'age' must be two numbers"):
        Attribute("age", bounds=bounds)


def test_bounds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(SchemaError, match="bounds of 'age' are 120 and 0: the lower one must come first"):
        Attribute("age", bounds=(120, 0))


def test_a_bound_that_is_nan_is_refused_and_an_infinite_one_is_none() -> None:
    with pytest.raises(SchemaError, match="a bound of 'age' is NaN"):
        Attribute("age", bounds=(float("nan"), None))
    assert Attribute("age", bounds=(0, float("inf"))).bounds == (0, None)


def test_partially_ordered_needs_a_hierarchy() -> None:
    with pytest.raises(SchemaError, match="'zip' is partially ordered, so it needs a hierarchy"):
        Attribute("zip", scale="partially ordered")


def test_a_hierarchy_is_a_hierarchy() -> None:
    with pytest.raises(SchemaError, match="hierarchy of 'zip' must be a Hierarchy"):
        Attribute("zip", hierarchy={"kind": "prefix"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"values": 3}, "the values of 'a' must be a mapping"),
        ({"values": {"low": "one"}}, "the values of 'a' must be numbers, but that of 'low' is not"),
        ({"values": {"low": float("nan")}}, "the values of 'a' must be numbers"),
        ({"labels": ["male"]}, "the labels of 'a' must be a mapping"),
        ({"missing": [None]}, "the missing codes of 'a' must be numbers or texts"),
        ({"missing": [float("nan")]}, "the missing codes of 'a' must be numbers or texts"),
        ({"integer": "yes"}, "integer of 'a' must be true or false"),
    ],
)
def test_other_fields_are_checked_in_words(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(sentence)):
        Attribute("a", **fields)


def test_one_missing_code_needs_no_list() -> None:
    assert Attribute("a", missing=99).missing == (99,)  # type: ignore[arg-type]
    assert Attribute("a", missing="unknown").missing == ("unknown",)  # type: ignore[arg-type]
    assert Attribute("a", missing=np.int64(99)).missing == (99,)  # type: ignore[arg-type]


def test_changing_an_unknown_field_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SchemaError, match=r"field 'bound' is not in an attribute\. Did you mean 'bounds'\?"):
        Attribute("age").with_(bound=(0, 1))


def test_an_attribute_keeps_its_own_copy_of_maps() -> None:
    values = {"low": 1.0}
    attribute = Attribute("a", values=values)
    values["high"] = 2.0
    assert attribute.values == {"low": 1.0}


def test_design_columns_are_told_apart() -> None:
    assert [a.name for a in PEOPLE if a.is_design] == ["hid", "w"]


# -- schemas


def test_names_stand_once() -> None:
    with pytest.raises(SchemaError, match="names these columns more than once: age, zip"):
        Schema(tuple(Attribute(n) for n in ("zip", "age", "age", "sex", "zip")))


@pytest.mark.parametrize("role", ["weight", "household"])
def test_there_is_one_weight_and_one_household(role: str) -> None:
    with pytest.raises(SchemaError, match=f"only one column can have the role '{role}', but the schema has a, b"):
        Schema((Attribute("a", role=role), Attribute("b", role=role)))


def test_a_column_follows_a_column_that_is_there() -> None:
    sentence = r"'tax' follows another, but column 'incme' is not in the schema\. Did you mean 'income'\?"
    with pytest.raises(SchemaError, match=sentence):
        Schema((Attribute("income"), Attribute("tax", follows="incme")))


def test_a_schema_is_made_of_attributes() -> None:
    with pytest.raises(SchemaError, match="made of attributes, not of str"):
        Schema(("age",))  # type: ignore[arg-type]


def test_columns_are_found_by_name_and_role() -> None:
    assert PEOPLE["age"].bounds == (0, 120)
    assert "age" in PEOPLE
    assert "Age" not in PEOPLE
    assert len(PEOPLE) == 7
    assert PEOPLE.names(role="key") == ("age", "zip")
    assert PEOPLE.one("weight") == "w"
    assert PEOPLE.one("stratum") is None


def test_unknown_columns_and_roles_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(SchemaError, match=r"column 'incme' is not in the schema\. Did you mean 'income'\?"):
        PEOPLE["incme"]
    with pytest.raises(SchemaError, match=r"role 'keys' .*Did you mean 'key'\?"):
        PEOPLE.names(role="keys")
    with pytest.raises(SchemaError, match=r"role 'wieght' .*Did you mean 'weight'\?"):
        PEOPLE.one("wieght")


# -- changing


def test_change_corrects_one_attribute_and_says_so() -> None:
    guessed = Schema((Attribute("age", reason="The name suggests an age."), Attribute("zip", reason="…")))
    changed = guessed.change("age", role="key", integer=True)
    assert (changed["age"].role, changed["age"].integer, changed["age"].reason) == (Role.KEY, True, "set by hand")
    assert changed["zip"].reason == "…"
    assert guessed["age"].role is Role.OTHER  # the first one is as it was
    assert guessed.change("age", reason="asked the data owner")["age"].reason == "asked the data owner"


def test_roles_sets_many_at_once() -> None:
    schema = PEOPLE.roles(key=["income", "tax"], other="w")
    assert schema.names(role="key") == ("age", "zip", "income", "tax")
    assert schema.names(role="weight") == ()
    with pytest.raises(SchemaError, match=r"role 'keys' .*Did you mean 'key'"):
        PEOPLE.roles(keys=["income"])
    with pytest.raises(SchemaError, match=r"Did you mean 'income'"):
        PEOPLE.roles(key="incom")


def test_keep_cuts_links_to_what_is_gone() -> None:
    kept = PEOPLE.keep(lambda a: a.name != "income")
    assert "income" not in kept
    assert kept["tax"].follows is None
    assert PEOPLE["tax"].follows == "income"
    assert PEOPLE.keep(lambda a: a.role is Role.CONFIDENTIAL)["tax"].follows == "income"


def test_equal_schemas_are_equal_whatever_the_reasons() -> None:
    assert Schema((Attribute("a", reason="x"),)) == Schema((Attribute("a", reason="y"),))
    assert len({Attribute("a"), Attribute("a", reason="y"), Attribute("b")}) == 2


# -- TOML

names = st.text(min_size=1, max_size=8)
words = st.text(max_size=12)
finite = st.floats(allow_nan=False, allow_infinity=False)
labels_of = st.text("abcdefgh", min_size=1, max_size=3)
hierarchies: st.SearchStrategy[Hierarchy] = st.one_of(
    st.builds(PrefixHierarchy, st.integers(1, 9), alphabet=st.integers(2, 36)),
    st.just(PrefixHierarchy(5, keep=[3, 2], fill="#")),
    st.builds(
        lambda widths, bottom: IntervalHierarchy.from_widths(widths, bottom=bottom, top=bottom + 100),
        st.sampled_from([[5], [5, 10, 20], [0.5, 1.5]]),
        st.integers(-50, 50),
    ),
    st.lists(st.integers(-99, 99), min_size=1, max_size=6, unique=True).map(lambda e: IntervalHierarchy([sorted(e)])),
    st.sampled_from([DateHierarchy(), DateHierarchy(["day", "year"], [1900, 2030])]),
    st.lists(words.filter(bool).filter(lambda w: w != "*"), min_size=1, max_size=5, unique=True).map(
        lambda values: TreeHierarchy([[v, "*"] for v in values])
    ),
)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    hierarchy = draw(st.none() | hierarchies)
    scales = [s.value for s in Scale if hierarchy is not None or s is not Scale.PARTIALLY_ORDERED]
    low, high = sorted((draw(finite), draw(finite)))
    return Attribute(
        name,
        role=draw(st.sampled_from(["identifier", "key", "confidential", "other", "stratum", "contributor"])),
        scale=draw(st.sampled_from(scales)),
        hierarchy=hierarchy,
        label=draw(words),
        unit=draw(words),
        level=draw(st.sampled_from(["person", "household"])),
        bounds=(draw(st.sampled_from([None, low])), draw(st.sampled_from([None, high]))),
        integer=draw(st.booleans()),
        missing=draw(st.lists(finite | st.integers() | words, max_size=3).map(tuple)),
        values=draw(st.dictionaries(words, finite | st.integers(), max_size=3)),
        labels=draw(st.dictionaries(words, words, max_size=3)),
        reason=draw(words),
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    columns = [draw(attributes(n)) for n in draw(st.lists(names, min_size=1, max_size=4, unique=True))]
    if len(columns) > 1 and draw(st.booleans()):
        columns[0] = columns[0].with_(follows=columns[1].name, role="weight")
    return Schema(tuple(columns))


@given(schemas())
def test_toml_gives_back_the_same_schema(schema: Schema) -> None:
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert [a.reason for a in again] == [a.reason for a in schema]
    assert [type(a.hierarchy) for a in again] == [type(a.hierarchy) for a in schema]


def test_a_file_gives_back_the_same_schema(tmp_path: Path) -> None:
    schema = Schema((Attribute("Größe der Wohnung", label='with "quotes"\nand lines', missing=(-9, "weiß nicht")),))
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema
    assert "\r" not in (tmp_path / "schema.toml").read_text("utf-8")


def test_toml_says_only_what_differs_from_the_defaults() -> None:
    assert Schema((Attribute("age"),)).to_toml() == (
        'version = 1\n\n[[attribute]]\nname = "age"\nrole = "other"\nscale = "ordered"\n'
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version = 1\n[[attribute]\n", "the schema is not valid TOML"),
        ("version = 1\n", "holds one [[attribute]] table per column; this one has none"),
        ("version = 1\nattribute = 3\n", "holds one [[attribute]] table per column"),
        ("attribute = [3]\n", "every [[attribute]] is a table"),
        ('[[attribute]]\nrole = "key"\n', "every [[attribute]] needs a name"),
        ("[[attribute]]\nname = 3\n", "an attribute needs a name"),
        ('[[attribute]]\nname = "age"\nrol = "key"\n', "field 'rol' is not in attribute 'age'. Did you mean 'role'?"),
        ('[[attribute]]\nname = "age"\nminimun = 0\n', "Did you mean 'minimum'?"),
        ('[[attribute]]\nname = "age"\nbounds = [0, 1]\n', "write the bounds of 'age' as minimum"),
        ('[[attribute]]\nname = "age"\nrole = "kye"\n', "Did you mean 'key'?"),
        ('[[attribute]]\nname = "z"\n[attribute.hierarchy]\nkind = "prefx"\nlength = 5\n', "Did you mean 'prefix'?"),
        ('[[attribute]]\nname = "z"\n[attribute.hierarchy]\nkind = "prefix"\n', "also needs: length"),
        ('version = 2\n[[attribute]]\nname = "a"\n', "has version 2, but this sfumato reads versions up to 1"),
        ('version = "one"\n[[attribute]]\nname = "a"\n', "versions are whole numbers from 1 to 1"),
        ('version = 0\n[[attribute]]\nname = "a"\n', "versions are whole numbers from 1 to 1"),
    ],
)
def test_a_wrong_file_is_refused_in_words(text: str, sentence: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(sentence)):
        Schema.from_toml(text)


def test_a_newer_file_says_to_upgrade() -> None:
    with pytest.raises(SchemaError, match="written by a newer sfumato: upgrade"):
        Schema.from_toml('version = 9\n[[attribute]]\nname = "a"\nfrom_the_future = true\n')


def test_a_file_that_is_not_there_or_not_text_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="there is no schema file at"):
        Schema.read(tmp_path / "nowhere.toml")
    (tmp_path / "picture.toml").write_bytes(b"\xff\xd8\xff")
    with pytest.raises(SchemaError, match="is not UTF-8 text"):
        Schema.read(tmp_path / "picture.toml")
