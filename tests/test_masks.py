"""What masks have in common: identifiers go, what is learned stays within, and every refusal is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_files import amounts as microdata
from small_files import release, values

from sfumato.contract import Draws, Mask
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.masks import BottomCode, Identity, IndependentNoise, KimNoise, RemoveIdentifiers, TopCode
from sfumato.schema import Attribute, Schema

X = [5.0, 1.0, 9.0, 7.0, 7.0, 3.0, 10.0, 2.0, 8.0, 6.0]


# Identifiers


def test_identifiers_are_removed_and_nothing_else() -> None:
    data = Microdata(
        pd.DataFrame({"name": ["Ann", "Bob"], "age": [30, 40], "id": [7, 8]}),
        Schema((Attribute("name", "identifier", "unordered"), Attribute("age", "key"), Attribute("id", "identifier"))),  # type: ignore[arg-type]
    )
    made = release(RemoveIdentifiers(), data)
    assert made.masked.schema.names() == ("age",)
    assert values(made.masked, "age") == [30, 40]
    assert made.guarantees[0].says == "no identifier is released (removed: name, id)"
    assert made.guarantees[0].verified == "the columns are absent from the released data"


def test_a_column_that_followed_an_identifier_follows_nothing_afterwards() -> None:
    data = microdata({"id": {"role": "identifier"}, "block": {"follows": "id"}}, id=[1.0, 2.0], block=[1.0, 1.0])
    assert release(Identity(), data).masked.schema["block"].follows is None


def test_a_file_of_identifiers_alone_is_refused() -> None:
    data = microdata({"id": {"role": "identifier"}}, id=[1.0, 2.0])
    with pytest.raises(DataError, match="every column is an identifier: nothing would be left to release"):
        release(RemoveIdentifiers(), data)


def test_masking_nothing_still_removes_identifiers_and_changes_no_value() -> None:
    data = microdata({"age": {"role": "identifier"}}, income=X, salary=X[::-1], age=X)
    made = release(Identity(), data)
    assert made.masked.schema.names() == ("income", "salary")
    for name in ("income", "salary"):
        assert made.masked.batch([name]).column(name).equals(data.batch([name]).column(name))


# What a mask learns


def test_a_fitted_mask_refuses_data_without_its_column() -> None:
    fitted = KimNoise().fit(microdata(salary=X), Draws(1))
    with pytest.raises(SfumatoError, match=r"column 'salary' is not in the .*\. Did you mean 'salry'"):
        release(fitted, microdata(salry=X))


@pytest.mark.parametrize("mask", [KimNoise(), IndependentNoise(), TopCode(), BottomCode(quantile=0.5)])
def test_a_fitted_mask_refuses_data_whose_column_holds_text_at_once(mask: Mask) -> None:
    fitted = mask.fit(microdata(salary=X), Draws(1))
    with pytest.raises(DataError, match=r"column 'salary' holds text or categories, where numbers are needed\.$"):
        release(fitted, microdata(salary=["a", "b"]))


@pytest.mark.parametrize(
    ("mask", "change", "stays"),
    [
        (KimNoise(), {"lambda2": 0.3}, True),
        (IndependentNoise(), {"lambda2": 0.3}, True),
        (KimNoise(columns=("x", "y")), {"columns": ("x",)}, False),
        (TopCode(quantile=0.9), {"quantile": 0.8}, False),
        (TopCode(quantile=0.9), {"replace": "mean"}, False),
        (BottomCode(value=2), {"value": 3}, False),
        (BottomCode(value=2), {"columns": ("y",)}, False),
    ],
)
def test_what_was_learned_stays_unless_a_parameter_it_depends_on_changes(
    mask: Mask, change: dict[str, Any], stays: bool
) -> None:
    data = microdata(x=X, y=X[::-1])
    assert not mask.is_fitted
    fitted = mask.fit(data, Draws(1))
    assert fitted.is_fitted
    assert fitted.with_(**change).is_fitted is stays
    assert not fitted.forget().is_fitted
    assert fitted == mask  # what is learned is no part of what a mask is
    assert repr(fitted) == repr(mask)


def test_what_was_learned_is_never_shown() -> None:
    x = [12345.678, 23456.789, 34567.891, 987654.321]
    for mask in (KimNoise(), TopCode(quantile=0.5), BottomCode(quantile=1.0, replace="mean")):
        fitted = mask.fit(microdata(x=x), Draws(1))
        for shown in (repr(fitted), str(fitted), str(fitted.to_dict())):
            assert not any(digits in shown for digits in ("12345", "23456", "98765"))


# Refusals


def small(**changes: dict[str, Any]) -> Microdata:
    return microdata(changes, income=X, salary=X[::-1], word=["a"] * 10, yes=[True, False] * 5)


REFUSALS: list[tuple[str, Callable[[], object], type[SfumatoError], str]] = [
    ("unknown column", lambda: release(KimNoise(columns="incme"), small()), DataError,
     r"step 'kim_noise': column 'incme' is not in the data. Did you mean 'income'\? It has: income, salary, word, yes."),
    ("unknown column to code", lambda: release(TopCode(columns="Salary"), small()), DataError,
     r"column 'Salary' is not in the data. Did you mean 'salary'\?"),
    ("text", lambda: release(KimNoise(columns="word"), small()), DataError,
     "column 'word' holds text or categories, where numbers are needed. Columns of numbers: income, salary."),
    ("text with an order", lambda: release(TopCode(columns="word"), small(word={"values": {"a": 1}})), DataError,
     "column 'word' holds text or categories, where numbers are needed."),
    ("yes and no", lambda: release(IndependentNoise(columns="yes"), small()), DataError,
     "column 'yes' holds yes/no values, where numbers are needed. Columns of numbers: income, salary."),
    ("no numbers at all", lambda: release(KimNoise(), microdata(word=["a", "b"])), DataError,
     "there is no confidential column of numbers to mask. Name the columns"),
    ("constant", lambda: release(KimNoise(), microdata(x=[0.1] * 10, y=X)), DataError,
     "x is constant, so noise in proportion to its variance would be no noise at all."),
    ("constant and independent", lambda: release(IndependentNoise(), microdata(x=[3.0] * 10)), DataError, "x is constant"),
    ("all missing", lambda: release(KimNoise(), microdata(x=pa.array([None] * 9, pa.float64()))), DataError,
     "x: fewer than two records have an answer there"),
    ("all coded as missing", lambda: release(KimNoise(), microdata({"x": {"missing": (9,)}}, x=[9.0, 9.0])), DataError,
     "x: fewer than two records have an answer there"),
    ("no record has both", lambda: release(KimNoise(), microdata(x=[1.0, None, 3.0], y=[None, 2.0, 1.0])), DataError,
     "x, y: fewer than two records have all of them"),
    ("one is empty", lambda: release(KimNoise(), microdata(x=[1.0, 2.0], y=pa.array([None, None], pa.float64()))), DataError,
     "y: fewer than two records have an answer there"),
    ("all missing, to code", lambda: release(TopCode(), microdata(x=pa.array([None] * 9, pa.float64()))), DataError,
     "column 'x' has no values at all, so there is no threshold to find."),
    ("one record", lambda: release(KimNoise(), microdata(x=[1.0])), DataError, "fewer than two records"),
    ("no records", lambda: release(KimNoise(), microdata(x=pa.array([], pa.float64()))), DataError, "fewer than two records"),
    ("infinite", lambda: release(KimNoise(), microdata(x=[1.0, np.inf, 2.0])), DataError,
     "x: some values are infinite or too large to square"),
    ("negative level", lambda: KimNoise(lambda2=-0.1), ParameterError,
     r"lambda2 of kim_noise must be a number of at least 0 and at most 1e\+06; got -0.1."),
    ("negative NumPy level", lambda: KimNoise(lambda2=np.float64(-0.1)), ParameterError, "got -0.1."),
    ("not a number", lambda: IndependentNoise(lambda2=float("nan")), ParameterError,
     r"lambda2 of independent_noise must be a number .*; got nan."),
    ("infinite level", lambda: KimNoise(lambda2=float("inf")), ParameterError, "got inf."),
    ("text for a level", lambda: KimNoise(lambda2="much"), ParameterError, "got 'much'."),  # type: ignore[arg-type]
    ("yes for a level", lambda: KimNoise(lambda2=True), ParameterError, "got True."),
    ("no level", lambda: KimNoise(lambda2=None), ParameterError,  # type: ignore[arg-type]
     "kim_noise needs lambda2: λ²: noise variance divided by the variance of the column."),
    ("negative level of a column", lambda: KimNoise(lambda2={"x": -1}), ParameterError, "lambda2 of kim_noise of 'x' must be"),
    ("level missing", lambda: KimNoise(columns=("x", "y"), lambda2={"x": 0.1}), ParameterError,
     "lambda2 gives no level for y."),
    ("level missing, found late", lambda: release(KimNoise(lambda2={"income": 0.1}), small()), ParameterError,
     "lambda2 gives no level for salary."),
    ("level too many", lambda: KimNoise(columns=("x",), lambda2={"x": 0.1, "y": 0.1}), ParameterError,
     "lambda2 names columns that are not masked: y."),
    ("level too many, found late", lambda: release(KimNoise(lambda2={"income": 0.1, "salary": 0.1, "pay": 0.2}), small()),
     ParameterError, "lambda2 names columns that are not masked: pay."),
    ("column twice", lambda: KimNoise(columns=("x", "x")), ParameterError, "columns of kim_noise names a column twice."),
    ("column twice, to code", lambda: TopCode(columns=["x", "x"]), ParameterError, "names a column twice."),  # type: ignore[arg-type]
    ("no columns", lambda: KimNoise(columns=()), ParameterError, "columns of kim_noise is an empty list."),
    ("no columns to code", lambda: BottomCode(columns=()), ParameterError, "columns of bottom_code is an empty list."),
    ("a number for columns", lambda: TopCode(columns=5), ParameterError, "must be a list of column names."),  # type: ignore[arg-type]
    ("a mapping for columns", lambda: KimNoise(columns={"x": 0.1}), ParameterError, "must be a list of column names."),  # type: ignore[arg-type]
    ("quantile and value", lambda: TopCode(quantile=0.9, value=5), ParameterError,
     "give top_code a quantile or a value, not both."),
    ("quantile of 99", lambda: TopCode(quantile=99), ParameterError,
     "quantile of top_code must be a number of at least 0 and at most 1; got 99."),
    ("threshold missing", lambda: TopCode(columns=("x", "y"), value={"x": 1}), ParameterError,
     "top_code gives no threshold for y."),
    ("threshold missing, found late", lambda: release(BottomCode(quantile={"income": 0.1}), small()), ParameterError,
     "bottom_code gives no threshold for salary."),
    ("threshold too many", lambda: release(TopCode(value={"income": 1, "salary": 1, "pay": 1}), small()), ParameterError,
     "top_code gives thresholds for columns that are not coded: pay."),
    ("unknown replacement", lambda: TopCode(replace="median"), ParameterError,  # type: ignore[arg-type]
     "replace of top_code must be one of 'threshold', 'mean'; got 'median'."),
    ("a code that means missing", lambda: release(TopCode(value=99), microdata({"x": {"missing": (99,)}}, x=[1.0, 120.0])),
     DataError, "the coded values of 'x' would be released as a value that the schema says is missing."),
    ("unknown parameter", lambda: KimNoise().with_(lamda2=1), ParameterError, r"Did you mean 'lambda2'\?"),
    ("a frame instead of microdata", lambda: KimNoise().apply(pd.DataFrame({"x": X}), Draws(1)), DataError,  # type: ignore[arg-type]
     "a recipe masks Microdata, not DataFrame"),
    ("a number instead of draws", lambda: KimNoise().apply(small(), 7), ParameterError, "randomness must be given as Draws"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("attempt", "kind", "sentence"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_what_cannot_be_done_is_refused_in_a_sentence(
    attempt: Callable[[], object], kind: type[SfumatoError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        attempt()
    text = str(caught.value)
    assert text.endswith((".", "?"))
    assert "NoneType" not in text
    assert caught.value.__cause__ is None
