"""How an answer reads when it is printed."""

from __future__ import annotations

from sfumato.mas.answer import Answer


def test_a_printed_answer_has_the_digits_that_were_published_and_no_word_for_nothing() -> None:
    rows = [
        {"term": "Intercept", "n": 1005.0, "coefficient": 10.2, "standard error": 0.047, "p": 3.94e-17},
        {"term": "2019", "n": None, "coefficient": -0.000467, "standard error": float("nan"), "p": 0.0},
    ]
    facts = {"n": 4470.0, "R²": 0.00011, "sum": 1.33e10, "F": None}
    printed = str(Answer("ols", {"coefficients": rows}, ("A note.",), "survey 1", "hardened 1", "abc", facts))
    lines = [line.split() for line in printed.splitlines()]
    assert ["Intercept", "1,005", "10.2", "0.047", "3.94e-17"] in lines
    assert ["2019", "–", "-0.000467", "–", "0"] in lines
    assert printed.endswith("n: 4,470\nR²: 0.00011\nsum: 13,300,000,000\nF: –\n\nA note.")
    assert "None" not in printed
    assert "nan" not in printed


def test_numbers_that_no_policy_has_rounded_are_printed_with_six_digits() -> None:
    printed = str(Answer("x", {"t": [{"a": 29736.0384756, "b": 1234567.891, "c": 0.123456789}]}, (), "d", "p", "c"))
    assert printed.splitlines()[4].split() == ["29,736", "1,234,568", "0.123457"]
