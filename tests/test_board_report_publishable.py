"""The publishable version of a board's report tells nothing confidential."""

from __future__ import annotations

import math
import re

import pytest
from board_reports import SEED, confidential, found, planted, publishable, release, tables, text_of
from test_reports import Page

from sfumato import Draws, Recipe, Release
from sfumato.contract.score import digits
from sfumato.maps import RUMap
from sfumato.masks import MDAV, KimNoise
from sfumato.reports import BoardReport, Check, board_report
from sfumato.reports.public_sections import rough
from sfumato.risk import KAnonymity
from sfumato.utility import Hellinger, VarianceKept

__all__ = ["confidential", "found", "publishable", "release"]  # fixtures


def test_the_publishable_version_tells_nothing_that_helps_an_attacker(
    release: Release, confidential: BoardReport, publishable: BoardReport
) -> None:
    text = text_of(publishable)
    words = Page(publishable.html()).words
    assert "4.6251" not in text  # a parameter that must not be told
    assert str(SEED) not in text
    for limit in ("0.0031", "0.0613"):
        assert limit in text_of(confidential)
        assert limit not in text
    for town in ("Ayton", "Beeford", "Smallham", "Quuxborough"):
        assert town not in text
    for c in confidential.checked:
        if c.score is not None:
            assert c.score.words not in text
            assert repr(c.score.value) not in text
            assert digits(c.score.value) not in words or c.score.value in (0.0, 1.0)
    assert "precision" not in words
    assert "to within 5" not in words
    assert "lambda2" in words  # this one analysts may know
    assert "0.1738" in words
    numbers = release.original.numbers("salary")
    for value in (numbers.min(), numbers.max(), numbers[7], release.masked.numbers("salary").max()):
        assert f"{value:.3f}" not in text
        assert f"{value:.4g}" not in text
    assert not re.search(r"\b[1-9] (of|records)\b", words)  # no small counts


def test_the_publishable_version_does_not_confirm_the_digest_and_counts_no_original_records() -> None:
    data = planted()
    recipe = Recipe.of(KimNoise(columns=("salary",)))
    made = recipe.apply(data, Draws(SEED))
    digest = "d1gest0123456789"
    kept = Release(data, made.implicates, Recipe(recipe.steps, digest), made.guarantees)
    checks = [Check(KAnonymity(k=3), 0.9)]
    assert digest in text_of(board_report(release=kept, title="T", checks=checks))
    public = text_of(board_report(release=kept, title="T", checks=checks, publishable=True))
    assert digest not in public
    assert "original record" not in public


def test_guarantees_of_a_step_with_a_secret_stay_with_the_board(release: Release, publishable: BoardReport) -> None:
    said = [g.says for g in release.guarantees if g.step == "displace"]
    assert said
    assert not any(says in text_of(publishable) for says in said)


def test_guarantees_that_count_records_stay_with_the_board() -> None:
    release = MDAV(columns=("salary",), k=6).apply(planted(), Draws(1))
    says = next(g.says for g in release.guarantees if g.step == "mdav")
    assert says in text_of(board_report(release=release, title="T", checks=[Check(KAnonymity())]))
    assert says not in text_of(board_report(release=release, title="T", checks=[Check(KAnonymity())], publishable=True))


def test_the_publishable_version_tells_utility_to_two_digits() -> None:
    noisy = KimNoise(columns=("salary",)).apply(planted(), Draws(1))
    checks = [Check(Hellinger(), 0.1), Check(VarianceKept(over=("salary",)))]
    public = board_report(release=noisy, title="T", checks=checks, by=["town"], publishable=True)
    rows = {row[0]: row for row in tables(public)["What analysts keep; higher is more useful."]}
    for check, told in zip(checks, public.data["utilities"], strict=True):
        value = check.measure.score(noisy).value
        assert 0 <= value - float(rows[check.measure.label()][2]) < 0.01
        assert told["value"] == float(rows[check.measure.label()][2])
    ((_, column, worst, best, whole), *_) = tables(public)["Utility in subgroups."]
    assert column == "town"
    assert float(worst) <= float(whole)
    assert float(worst) <= float(best)
    assert "Ayton" not in text_of(public)


def test_utility_in_numbers_would_give_away_a_secret_shift(release: Release, publishable: BoardReport) -> None:
    # whoever knows 1 - |mean of bonus released - original| / sd and the released sd knows the shift
    rows = tables(publishable)["What analysts keep; higher is more useful."]
    assert [row[2] for row in rows] == [
        "passes" if Hellinger().score(release).value >= 0.5 else "fails", "no limit"
    ]  # fmt: skip
    assert [u["value"] for u in publishable.data["utilities"]] == [None, None]
    assert [u["limit"] for u in publishable.data["utilities"]] == [
        None,
        None,
    ]  # "fails at least 0.5" would bound the shift
    assert "at least 0.5" not in text_of(publishable)
    assert "Subgroups" not in [s.title for s in publishable.sections]
    assert "give away a parameter" in text_of(publishable)


def test_of_a_file_masked_elsewhere_utility_is_not_told_in_numbers(release: Release) -> None:
    elsewhere = Release.of(release.original, release.masked, release.align)
    public = board_report(release=elsewhere, title="T", checks=[Check(Hellinger(), 0.1)], by="town", publishable=True)
    assert [u["value"] for u in public.data["utilities"]] == [None]
    assert "is not known here" in text_of(public)
    assert "Utility in subgroups." not in tables(public)


def test_the_publishable_version_tells_risk_as_yes_or_no(publishable: BoardReport) -> None:
    held = {row[0]: row[2] for row in tables(publishable)["The risks that were examined."]}
    assert held == {
        "finding a person in the file": "no", "guessing a value": "yes", "telling who is in the file": "not measured"
    }  # fmt: skip


def test_the_publishable_version_of_a_search_tells_the_choice_and_no_other_setting(found: RUMap) -> None:
    public = board_report(found, title="T", publishable=True)
    text = text_of(public)
    assert set(public.data["search"]["choice"]["settings"]) == set(found.choice.settings)  # λ² or k may be told
    for score in found.choice.risks:
        assert score.value == 1 or repr(score.value) not in text
        assert score.words not in text
    for row in found.frame().to_dict("records"):
        if not row["chosen"]:
            assert row["settings"] not in text
            assert row["value"] in (0, 1) or repr(row["value"]) not in text
    assert "<svg" not in text  # charts show risk


@pytest.mark.parametrize(
    ("value", "expected"), [(0.9999, 0.99), (0.5, 0.5), (1.0, 1.0), (0.0, 0.0), (-0.0351, -0.036), (1234.0, 1200.0)]
)
def test_rough_numbers_have_two_digits_and_never_promise_more(value: float, expected: float) -> None:
    assert rough(value) == pytest.approx(expected)
    assert rough(value) <= value


def test_rough_takes_infinity() -> None:
    assert rough(math.inf) == math.inf
