"""Prediction risk: a regression fitted to the released file, applied to the people of the original one."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from sfumato import Microdata, Release, Schema
from sfumato.contract import Draws
from sfumato.datasets import teachers
from sfumato.errors import DataError, NotApplicable, ParameterError
from sfumato.masks import FullNormalSynthesis, KimNoise, Recode
from sfumato.risk import PredictionRisk


def released(original: dict[str, list[float]], masked: dict[str, list[float]]) -> Release:
    one, two = pd.DataFrame(original), pd.DataFrame(masked)
    schema = Schema.guess(one)
    return Release.of(Microdata(one, schema), Microdata(two, schema))


def test_without_anything_given_people_are_predicted_by_the_released_mean() -> None:
    release = released({"pay": [1.0, 2.0, 6.0]}, {"pay": [4.0, 4.0, 7.0]})
    score = PredictionRisk("pay").score(release)
    assert score.value == pytest.approx(3 / ((5 - 1) ** 2 + (5 - 2) ** 2 + (5 - 6) ** 2))
    assert score.details["rms error of the original file's own fit"] == pytest.approx(np.std([1, 2, 6]))


def test_with_columns_given_it_is_the_least_squares_fit_of_numpy() -> None:
    data = teachers(400)
    release = KimNoise(lambda2=0.4).apply(data, Draws(1))
    frame, masked = (
        pd.DataFrame({n: d.numbers(n) for n in ("salary", "income", "age")}) for d in (data, release.masked)
    )
    design = np.column_stack([np.ones(len(masked)), masked[["income", "age"]]])
    fit = np.linalg.lstsq(design, masked["salary"], rcond=None)[0]
    guess = np.column_stack([np.ones(len(frame)), frame[["income", "age"]]]) @ fit
    score = PredictionRisk("salary", ("income", "age")).score(release)
    assert score.value == pytest.approx(1 / np.mean((guess - frame["salary"]) ** 2))
    assert "typically off by" in score.words


def test_the_predictions_from_several_implicates_are_averaged() -> None:
    data = teachers(200)
    release = FullNormalSynthesis(("salary", "income"), size=20, implicates=3).apply(data, Draws(4))
    mean = np.mean([d.numbers("salary").mean() for d in release.implicates])
    expected = np.mean((data.numbers("salary") - mean) ** 2)
    assert PredictionRisk("salary").score(release).value == pytest.approx(1 / expected)


def test_a_file_without_variance_is_predicted_exactly() -> None:
    same = {"pay": [2.0, 2.0, 2.0], "age": [1.0, 2.0, 3.0]}
    assert PredictionRisk("pay", ("age",)).score(released(same, same)).value == math.inf


def test_what_holds_no_numbers_cannot_be_fitted() -> None:
    data = teachers(100)
    with pytest.raises(ParameterError, match="from itself"):
        PredictionRisk("salary", ("salary",))
    with pytest.raises(DataError, match="salery"):
        PredictionRisk("salery").score(Release.as_it_is(data))
    recoded = Recode({"age": [30, 50]}).apply(data, Draws(1))
    with pytest.raises(NotApplicable, match="no column of numbers in the released file"):
        PredictionRisk("salary", ("age",)).score(recoded)
    gone = released({"pay": [1.0, 2.0], "age": [3.0, 4.0]}, {"pay": [1.0, math.nan], "age": [math.nan, 3.0]})
    with pytest.raises(DataError, match="no record of the released file has pay and age"):
        PredictionRisk("pay", ("age",)).score(gone)


def test_a_dropped_column_cannot_be_predicted() -> None:
    from sfumato.masks import SuppressColumns

    with pytest.raises(NotApplicable, match="salary"):
        PredictionRisk("salary").score(SuppressColumns(("salary",)).apply(teachers(50), Draws(1)))
