"""Checks for people who write their own classes: a sound class passes, and a broken promise is named in a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sfumato import Draws, Release, Snooper, Table
from sfumato.contract import DirectMeasure, Mask, Score, Side, param
from sfumato.data import Batch
from sfumato.errors import DataError
from sfumato.masks import KimNoise
from sfumato.risk import AttributeRisk
from sfumato.tables import NK, Protection, PublishedTable, RandomRounding, Sensitivity, SensitivityRule
from sfumato.testing import (
    CODES,
    check_estimator,
    check_mask,
    check_measure,
    check_protection,
    check_rule,
    microdata,
    rows,
    variants,
)
from sfumato.utility import Mean


class RoundOff(Mask):
    """Round values to multiples of a base."""

    columns: tuple[str, ...] = param(doc="columns to round", columns="many")
    base: float = param(5.0, doc="round to multiples of this", low=0, above=True, high=1e6)
    way: str = param("nearest", doc="which multiple", choices=("nearest", "below"))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        go = np.floor if self.way == "below" else np.round
        for name in self.columns:
            x = batch.numbers(name)
            batch = batch.replace(name, lambda x=x: go(x / self.base) * self.base)
        return batch


Numbers = Callable[[Batch, str, Draws], Any]


def each(function: Numbers) -> Callable[[RoundOff, Batch, Draws], Batch]:
    """Return a `transform` that does this to the numbers of each column."""

    def transform(self: RoundOff, batch: Batch, draws: Draws) -> Batch:
        out = batch
        for name in self.columns:
            out = out.replace(name, lambda name=name: function(batch, name, draws))
        return out

    return transform


OUTSIDE = np.random.default_rng(1)


def refuse_with_a_value(self: RoundOff, batch: Batch, draws: Draws) -> Batch:
    x = batch.numbers("pay")
    if np.isinf(x).any():
        raise DataError(f"pay has infinite values, and also {x[0]}, which is not one of them.")
    return batch


def stumble_over_no_records(self: RoundOff, batch: Batch, draws: Draws) -> Batch:
    first = batch.numbers("pay")[0]
    return batch.replace("pay", lambda: batch.numbers("pay") + 0 * first)


def change_ages(self: RoundOff, batch: Batch, draws: Draws) -> Batch:
    return batch.replace("age", lambda: 0 * batch.numbers("age") + 40)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"__doc__": None}, r"The class and each of its parameters are described\. RoundOff has no docstring"),
    ({"transform": each(lambda b, n, d: b.numbers(n) + d.normals(b.ids, n))}, r"A household has one value .* batch\.units"),
    ({"transform": each(lambda b, n, d: b.numbers(n) + OUTSIDE.normal(size=len(b.ids)))},
     r"The same seed gives the same release\. Column 'rent' differs"),
    ({"transform": each(lambda b, n, d: b.numbers(n) - np.nansum(b.numbers(n)) / 480)},
     r"A mask of scope ROW gives the same for any part .* Use fit, or another scope"),
    ({"transform": each(lambda b, n, d: 50 - b.numbers(n) / 1e6), "preserves_order": True}, "Two records have changed their order"),
    ({"transform": refuse_with_a_value}, r"Data: infinite values\. The refusal quotes a value of column 'pay'"),
    ({"transform": stumble_over_no_records}, "It raised IndexError: index 0 is out of bounds"),
    ({"transform": change_ages}, "Column 'age' has changed, but `touches` does not name it"),
    ({"noise": lambda self, names, c, s: np.diag([1.0, -1.0, 1.0])}, "`noise` returns a covariance matrix.* negative"),
    ({"matrices": lambda self, x, d: KimNoise().fit(x, d).matrices(x, d)}, "A matrix mask is its matrices.* AXB"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "sentence"), BROKEN, ids=[s for _, s in BROKEN])
def test_a_mask_that_breaks_a_promise_is_told_which(
    body: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in body.items():
        monkeypatch.setattr(RoundOff, name, value, raising=False)
    with pytest.raises(AssertionError, match=sentence) as caught:
        check_mask(RoundOff)
    assert str(caught.value).startswith(
        "RoundOff(columns=('pay', 'rent', 'hours'), base=5.0, way='nearest') breaks a promise."
    )


def test_a_sound_mask_passes_and_soon() -> None:
    check_mask(RoundOff)
    start = time.process_time()
    check_mask(RoundOff)
    assert time.process_time() - start < 5


def test_a_class_is_built_with_each_choice_and_keeps_the_values_that_are_given() -> None:
    assert [v.way for v in variants(RoundOff)] == ["nearest", "below"]
    given = list(variants(RoundOff, {"columns": ("pay",), "way": "below"}))
    assert given == [RoundOff(("pay",), way="below")]


def test_a_parameter_that_cannot_be_guessed_is_asked_for() -> None:
    class Plain(Mask):
        """Change nothing."""

        pattern: str = param(doc="a pattern")

        def transform(self, batch: Batch, draws: Draws) -> Batch:
            return batch

    with pytest.raises(AssertionError, match=r"no value for pattern of plain .* values=\{'pattern': \.\.\.\}"):
        check_mask(Plain)
    with pytest.raises(AssertionError, match=r"It cannot be pickled\. Define the class in a module"):
        check_mask(Plain, values={"pattern": "a*"})


def test_only_what_a_check_is_for_is_checked() -> None:
    with pytest.raises(TypeError, match="a class derived from Mask"):
        check_mask(AttributeRisk)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a class derived from Protection"):
        check_protection(NK)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="values are for a class"):
        check_mask(RoundOff("pay"), values={"base": 3})


def test_parameters_that_do_not_suit_the_file_are_told() -> None:
    with pytest.raises(AssertionError, match=r"It raised DataError: .*'region' holds .* give others: values="):
        check_mask(RoundOff, values={"columns": ("region",)})


class Share(DirectMeasure):
    """The share of records whose pay is released as it was."""

    side = Side.RISK

    def label(self) -> str:
        return "share unchanged"

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        before, after = outcome.pair("pay")
        return self.result(self.share(before == after), "of the records show their pay")

    def share(self, same: Any) -> float:
        return float(same.mean()) if len(same) else 0.0


def test_a_measure_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_measure(Share)
    monkeypatch.setattr(Share, "share", lambda self, same: float(same.mean()) if len(same) else float("nan"))
    with pytest.raises(AssertionError, match=r"Extreme data are scored.* Data: no .* The value is not a number"):
        check_measure(Share)
    monkeypatch.setattr(Share, "share", lambda self, same: OUTSIDE.random())
    with pytest.raises(AssertionError, match="The same release has the same score"):
        check_measure(Share())


def test_an_estimator_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_estimator(Mean)
    monkeypatch.setattr(Mean, "check", lambda self, data: None)
    with pytest.raises(AssertionError, match="It does not notice that column 'pay' is not there"):
        check_estimator(Mean)


class Shift(Protection):
    """Publish every cell as it is."""

    random = False
    by = 0.0

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        published = PublishedTable.unprotected(table, self)
        published.values[:] += self.by
        return published

    def label(self) -> str:
        return "as it is"


def test_a_protection_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_protection(Shift)
    check_protection(RandomRounding(base=3))
    monkeypatch.setattr(Shift, "by", 2.0)
    with pytest.raises(AssertionError, match=r"Data: magnitudes\. A cell with the status shown has another value"):
        check_protection(Shift)


class Largest(SensitivityRule):
    """The largest cell is unsafe."""

    level = 1.0

    def assess(self, table: Table) -> Sensitivity:
        unsafe = table.value == table.value.max()
        level = np.where(unsafe, self.level, 0.0)
        return Sensitivity(unsafe, level, level, level, np.where(unsafe, "largest", "").astype(object))

    def label(self) -> str:
        return "largest"


def test_a_rule_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_rule(Largest)
    monkeypatch.setattr(Largest, "level", -1.0)
    with pytest.raises(AssertionError, match=r"A rule says of each cell .* A protection level is negative"):
        check_rule(Largest)


def test_the_file_has_gaps_and_codes_to_be_kept() -> None:
    values = rows(microdata())
    for name, codes in CODES.items():
        assert np.isin(values[name], codes).sum() > 10
        assert np.isnan(values[name]).sum() > 10
