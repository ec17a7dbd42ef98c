"""TOML written for people reads back as what was written."""

from __future__ import annotations

import math
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato
from sfumato import Recipe, Schema
from sfumato.errors import ParameterError, SfumatoError
from sfumato.formats.codebook import read_ddi
from sfumato.mas.policy import Policy
from sfumato.toml import dump

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers() | st.floats(allow_nan=False)
scalars = numbers | st.booleans() | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=8
)


def same(a: Any, b: Any) -> bool:
    """Equality that also tells 1 from 1.0 and from True."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(texts, values, max_size=4), st.lists(st.dictionaries(texts, values, max_size=4), max_size=3))
def test_whatever_is_written_reads_back_the_same(header: dict[str, Any], tables: list[dict[str, Any]]) -> None:
    header.pop("step", None)
    read = tomllib.loads(dump(header, "step", tables))
    assert same(read.pop("step", []), tables)
    assert same(read, header)


@given(texts)
def test_any_text_reads_back_the_same_in_one_line(text: str) -> None:
    made = dump({"note": text}, "step", [])
    assert made.count("\n") == 1
    assert tomllib.loads(made)["note"] == text


@pytest.mark.parametrize(
    "text",
    ["\x00", "\x1f", "\x7f", "\x85", "\u2028", '"', "\\", "\\u0041", "a\r\nb", "\t", "'''", '"""', "λ²", "🂡", "\ufeff"],
)
def test_control_characters_quotes_and_foreign_letters_survive(text: str) -> None:
    assert tomllib.loads(dump({text: text}, "step", [])) == {text: text}


@pytest.mark.parametrize("number", [0.1, 1e16, 1e22, 5e-324, -0.0, 1.7976931348623157e308, 2**63, -(2**80), 1 / 3])
def test_numbers_keep_every_digit(number: float) -> None:
    read = tomllib.loads(dump({"x": number}, "step", []))["x"]
    assert type(read) is type(number)
    assert read == number
    assert math.copysign(1, read) == math.copysign(1, number)


def test_infinities_and_not_a_number_have_their_toml_names() -> None:
    assert dump({"a": math.inf, "b": -math.inf, "c": math.nan}, "step", []) == "a = inf\nb = -inf\nc = nan\n"


def test_numpy_numbers_are_written_as_numbers() -> None:
    table = {"i": np.int64(3), "f": np.float64(0.5), "g": np.float32(0.25), "b": np.bool_(True), "l": [np.int8(1)]}
    assert dump(table, "step", []) == "i = 3\nf = 0.5\ng = 0.25\nb = true\nl = [1]\n"


def test_yes_and_no_are_not_numbers() -> None:
    assert dump({"a": True, "b": False, "c": 1, "d": 0}, "step", []) == "a = true\nb = false\nc = 1\nd = 0\n"


def test_plain_names_are_written_bare_and_others_in_quotes() -> None:
    made = dump({"net_pay-2": 1, "net pay": 2, "a.b": 3, "": 4}, "step", [])
    assert made == 'net_pay-2 = 1\n"net pay" = 2\n"a.b" = 3\n"" = 4\n'


def test_tables_come_after_the_header_with_a_blank_line_between() -> None:
    made = dump({"version": 1}, "step", [{"name": "a", "lambda2": {"x": 0.1}}, {"name": "b", "columns": ("x", "y")}])
    assert made == (
        'version = 1\n\n[[step]]\nname = "a"\nlambda2 = { x = 0.1 }\n\n[[step]]\nname = "b"\ncolumns = ["x", "y"]\n'
    )


@pytest.mark.parametrize("value", [None, object(), {1, 2}, b"bytes", [None], {"a": None}, np.array([1, 2])])
def test_what_toml_cannot_hold_is_refused_in_words(value: object) -> None:
    with pytest.raises(ParameterError, match=r"cannot be written to a TOML file.*\.$") as caught:
        dump({"x": value}, "step", [])
    assert "NoneType" not in str(caught.value)


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "9" * 10_000])
def test_a_document_that_is_nested_too_deeply_or_has_too_long_a_number_is_refused_as_any_other(text: str) -> None:
    for read in (Schema.from_toml, Recipe.from_toml, Policy.parse):
        with pytest.raises(SfumatoError, match="TOML"):
            read(text)


def test_a_codebook_nested_deeper_than_the_stack_is_read(tmp_path: Path) -> None:
    deep = "<a>" * 5_000 + '<var name="age"/>' + "</a>" * 5_000
    (tmp_path / "book.xml").write_text(f"<codeBook>{deep}</codeBook>")
    assert read_ddi(tmp_path / "book.xml")[0].names() == ("age",)


def test_schemas_and_codebooks_of_many_variables_take_time_in_proportion(tmp_path: Path) -> None:
    listed = "".join(f'<var name="v{i}" wgt="wgt"/>' for i in range(10_000))
    (tmp_path / "book.xml").write_text(f"<codeBook>{listed}</codeBook>")
    begun = time.process_time()
    schema = read_ddi(tmp_path / "book.xml")[0].roles(key=[f"v{i}" for i in range(10_000)])
    assert all(name in schema and schema[name].role == "key" for name in schema.names())
    assert time.process_time() - begun < 10  # a wide margin: time in proportion to the variables


def test_toml_and_json_that_others_wrote_are_parsed_in_one_place() -> None:
    source = Path(sfumato.__file__).parent
    calls = re.compile(r"tomllib\.loads?\(|json\.loads?\(")
    found = {str(p.relative_to(source)) for p in source.rglob("*.py") if calls.search(p.read_text("utf-8"))}
    own = {"charts/theme.py", "papers/paper_rows.py", "data/duckdb_engine.py", "data/spark_engine.py"}  # ours
    assert found == {"toml.py", "files.py"} | own
