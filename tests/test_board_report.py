"""Reports for a review board: the numbers are the measures' own, and the publishable version tells nothing confidential."""

from __future__ import annotations

import json
import math
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_reports import Page

from sfumato import (
    Attribute,
    AttributeRisk,
    Draws,
    KAnonymity,
    KimNoise,
    Microdata,
    Recipe,
    Release,
    Role,
    Scale,
    Schema,
    Snooper,
    Weighted,
    search,
)
from sfumato.cli.listing import risk_measures
from sfumato.contract import Figure, Section, Table
from sfumato.contract.score import digits
from sfumato.datasets import teachers
from sfumato.decision import SearchResult
from sfumato.errors import DataError, MissingExtra, NotApplicable, ParameterError
from sfumato.masks import MDAV, Displace
from sfumato.reports import BoardReport, Check, Report, board_report
from sfumato.reports.checks import FEWEST, run_checks
from sfumato.reports.examined import SORTS, sort_of, sorts_of
from sfumato.reports.found import Found
from sfumato.reports.pdf import to_pdf
from sfumato.reports.public_sections import rough
from sfumato.risk import DCR, DistanceLinkage, IndividualRisk
from sfumato.utility import Hellinger, VarianceKept

SEED = 8675309123
TITLE = "Teachers of 2004"


def tables(report: Report) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table by its caption."""
    found = [p for s in report.sections for p in s.content if isinstance(p, Table)]
    return {t.caption: list(t.rows) for t in found}


def section(report: Report, title: str) -> Section:
    return next(s for s in report.sections if s.title.startswith(title))


def text_of(report: Report) -> str:
    """Everything that a reader of the page or of the JSON could find."""
    return report.html() + report.to_json()


def planted() -> Microdata:
    """300 teachers of four towns: two have all but a handful, one has seven records, one has a single one."""
    g = np.random.default_rng(5)
    town = np.array(["Ayton", "Beeford"])[g.integers(0, 2, 300)].astype(object)
    town[:7], town[7] = "Smallham", "Quuxborough"
    salary = np.round(g.normal(62, 13, 300), 3)
    salary[7] = 181.737
    age = g.integers(25, 65, 300)
    schema = Schema((
        Attribute("person", Role.IDENTIFIER, Scale.UNORDERED), Attribute("town", Role.KEY, Scale.UNORDERED),
        Attribute("age", Role.KEY, integer=True), Attribute("salary", Role.CONFIDENTIAL, unit="thousand dollars"),
        Attribute("bonus", Role.CONFIDENTIAL, unit="thousand dollars"),
    ))  # fmt: skip
    names = [f"N{i:03}" for i in range(300)]
    frame = {"person": names, "town": town, "age": age, "salary": salary, "bonus": np.round(salary / 7, 3)}
    return Microdata(pd.DataFrame(frame), schema)


@pytest.fixture(scope="module")
def release() -> Release:
    secret = Displace(amount={"bonus": 4.6251})
    return (KimNoise(columns=("salary",), lambda2=0.1738) >> secret).apply(planted(), Draws(SEED))


SNOOPER = Snooper(keys=("town", "age"), precision={"age": 5})
CHECKS = (
    Check(KAnonymity(k=3), 0.0031), Check(AttributeRisk("salary"), 0.0613), Check(DistanceLinkage()), Check(DCR(), 0.2),
    Check(Hellinger(), 0.5), Check(VarianceKept()),
)  # fmt: skip


@pytest.fixture(scope="module")
def confidential(release: Release) -> BoardReport:
    asked = "May the file be released?\n\nIt is for schools of education."
    return board_report(release=release, title=TITLE, asked=asked, checks=CHECKS, by=["town"], snooper=SNOOPER)


@pytest.fixture(scope="module")
def publishable(release: Release) -> BoardReport:
    made = board_report(release=release, title=TITLE, checks=CHECKS, by=["town"], snooper=SNOOPER, publishable=True)
    assert isinstance(made, BoardReport)
    return made


@pytest.fixture(scope="module")
def found() -> SearchResult:
    recipes = {"noise": KimNoise(columns=("salary",)), "groups": MDAV(columns=("salary",))}
    return search(
        teachers(200), recipes, [AttributeRisk("salary"), DistanceLinkage()], [VarianceKept(), Hellinger(over=("salary",))],
        {"risk for salary": 0.05, "linked by distance": 1.0}, effort="quick", confirm=4, draws=SEED,
    )  # fmt: skip


# -- the numbers are the measures' own


def test_every_check_has_the_score_of_its_measure(release: Release, confidential: BoardReport) -> None:
    rows = {
        row[0]: row for row in tables(confidential)["Pass or fail. Lower risk is safer; higher utility is more useful."]
    }
    measured = [c for c in CHECKS if not isinstance(c.measure, DCR)]
    assert len(rows) == len(measured)
    for check in measured:
        score = check.measure.score(release, SNOOPER)
        title, value, interval, _, _, words = rows[check.measure.label()]
        assert value == digits(score.value)
        assert words == score.words
        if score.interval is not None:
            assert interval == f"{digits(score.interval[0])} to {digits(score.interval[1])}"
        assert title == score.measure


def test_salary_risk_is_one_over_the_mean_squared_difference(release: Release, confidential: BoardReport) -> None:
    before, after = release.original.numbers("salary"), release.masked.numbers("salary")
    (row,) = [r for r in confidential.to_dict()["data"]["checks"] if r["title"] == "risk for salary"]
    assert row["score"]["value"] == pytest.approx(1 / ((after - before) ** 2).mean(), rel=1e-9)
    assert row["passes"] is (row["score"]["interval"][1] <= 0.0613)


@pytest.mark.parametrize(
    ("limit", "result"), [(1.0, "passes"), (0.5, "passes"), (0.49, "fails"), (0.0, "fails"), (None, "no limit")]
)
def test_a_risk_passes_up_to_its_limit(limit: float | None, result: str) -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y", "z"]})
    data = Microdata(frame, Schema((Attribute("a", Role.KEY, Scale.UNORDERED),)))
    (found,) = run_checks(Release.as_it_is(data), [Check(KAnonymity(k=2), limit)], {"": Snooper()})
    assert found.score is not None
    assert found.score.value == 0.5  # y and z are alone
    assert found.result == result


def test_a_utility_passes_from_its_limit_on(release: Release) -> None:
    value = Hellinger().score(release).value
    done = run_checks(release, [Check(Hellinger(), value), Check(Hellinger(), value + 1e-9)], {"": Snooper()})
    assert [c.passes for c in done] == [True, False]


def test_an_estimate_passes_only_if_the_worse_end_of_its_interval_does(release: Release) -> None:
    score = AttributeRisk("salary").score(release)
    assert score.interval is not None
    between = (score.value + score.interval[1]) / 2
    done = run_checks(
        release, [Check(AttributeRisk("salary"), v) for v in (between, score.interval[1])], {"": Snooper()}
    )
    assert [c.passes for c in done] == [False, True]
    assert done[0].result == "fails: its interval reaches past the limit"


def test_what_cannot_be_measured_does_not_pass_and_says_why(confidential: BoardReport) -> None:
    (dcr,) = [c for c in confidential.checked if isinstance(c.measure, DCR)]
    assert dcr.passes is False
    assert not confidential.passes
    ((title, why),) = tables(confidential)["Measures that were asked for and have no answer."]
    assert title == dcr.title
    assert "records set aside before masking" in why
    assert "Could not be measured" in section(confidential, "What was asked").sentences[2]


def test_subgroups_are_those_of_the_measure_without_the_small_ones(release: Release, confidential: BoardReport) -> None:
    sizes = pd.Series(release.original.batch(["town"]).column("town").codes[0]).value_counts()
    assert sorted(sizes)[:2] == [1, 7]
    for c in confidential.checked:
        if c.score is None:
            continue
        own = c.measure.score_by(release, "town", SNOOPER).groups
        shown = {g.name: g.value for g in c.by["town"].shown}
        assert set(shown) == {"Ayton", "Beeford"}
        assert c.by["town"].small == 2
        assert all(value == pytest.approx(own[name]) for name, value in shown.items())
        values = [g.value for g in c.by["town"].shown]
        assert values == sorted(values, reverse=c.risk)
    text = text_of(confidential)
    assert "Smallham" not in text
    assert "Quuxborough" not in text
    assert "2 subgroups are too small to be shown" in text


def test_a_release_that_passes_on_the_whole_is_said_to_be_past_the_limit_in_a_subgroup() -> None:
    frame = pd.DataFrame({"town": ["a"] * 90 + ["b"] * 10, "age": [30] * 90 + [*range(40, 50)]})
    schema = Schema((Attribute("town", Role.KEY, Scale.UNORDERED), Attribute("age", Role.KEY)))
    whole = Release.as_it_is(Microdata(frame, schema))
    report = board_report(
        release=whole, title="T", checks=[Check(KAnonymity(k=2), 0.1)], by="town"
    )  # 10 of 100 are unique
    assert report.passes
    assert section(report, "What was asked").sentences == (
        "The release passes the one check that has a limit. In some subgroups it is past the limit of records below 2-anonymity.",
    )
    assert tables(report)["The worst subgroups by town, the worst first."] == [
        ("records below 2-anonymity", "b", "10", "1", "0.1", "no"), ("records below 2-anonymity", "a", "90", "0", "0.1", "yes")
    ]  # fmt: skip


def test_the_risk_of_a_subgroup_is_that_of_its_records_in_the_whole_file() -> None:
    g = np.random.default_rng(7)
    frame = pd.DataFrame(
        {"town": g.choice(["a", "b"], 200), "age": g.integers(20, 60, 200), "pay": g.normal(50, 9, 200)}
    )
    keys = (Attribute("town", Role.OTHER, Scale.UNORDERED), Attribute("age", Role.KEY))
    data = Microdata(frame, Schema((*keys, Attribute("pay", Role.CONFIDENTIAL))))
    rare = frame.groupby("age")["pay"].transform("size") < 5  # among all, not among those of the town
    checks = [Check(KAnonymity(k=5)), Check(Hellinger())]
    for aligned in (True, False):
        release = Release.as_it_is(data) if aligned else Release.of(data, data)
        report = board_report(release=release, title="T", checks=checks, by="town", snooper=Snooper(keys=("age",)))
        shown = {group.name: group.value for group in report.checked[0].by["town"].shown}
        own = frame.groupby(["town", "age"])["pay"].transform("size") < 5
        assert shown == pytest.approx((rare if aligned else own).groupby(frame["town"]).mean().to_dict())
        said = " ".join(section(report, "Worst subgroups").sentences)
        assert ("in the whole file" in said) is aligned
        assert (
            "as if it were the file, so that a snooper knows who belongs to it: records below 5-" in said
        ) is not aligned
        assert "for those who analyse that subgroup alone" in said
        how = report.to_dict()["data"]["checks"][0]["by"]["town"]["measured"]
        assert how == ("within the whole file" if aligned else "as files of their own")


def test_a_risk_without_bound_is_named_beside_the_chart() -> None:
    release = KimNoise(columns=("salary",)).apply(planted(), Draws(1))
    checks = [Check(AttributeRisk("salary"), 0.1), Check(AttributeRisk("bonus"), 0.1)]  # bonus is as it was
    (figure,) = [
        p
        for p in section(board_report(release=release, title="T", checks=checks), "Pass").content
        if isinstance(p, Figure)
    ]
    assert figure.caption.endswith("Not drawn, since the risk has no bound: risk for bonus.")


def test_many_measures_with_long_names_stay_on_the_page() -> None:
    weasyprint = pytest.importorskip("weasyprint")
    g = np.random.default_rng(1)
    names = [f"an_answer{'_with_a_very_long_name' * 4}_{i:02}" for i in range(20)]
    frame = pd.DataFrame({name: g.normal(size=40) for name in names})
    data = Microdata(frame, Schema(tuple(Attribute(n, Role.CONFIDENTIAL) for n in names)))
    release = KimNoise(lambda2=0.1).apply(data, Draws(1))
    checks = [Check(AttributeRisk(name), 0.1) for name in names]
    report = board_report(release=release, title="verylongword" * 12, checks=checks)
    answer = section(report, "What was asked").sentences[0]
    assert answer.startswith("The release passes 0 of 20 checks. It fails on risk for an_answer")
    assert answer.endswith("and 14 more.")
    figures = [p for p in section(report, "Pass or fail").content if isinstance(p, Figure)]
    assert [p.caption[-12:] for p in figures] == ["Part 1 of 2.", "Part 2 of 2."]
    for page in weasyprint.HTML(string=report.html()).render().pages:
        for box in page._page_box.descendants():
            assert box.element_tag != "td" or box.position_x + box.width <= page.width - 75
            assert not hasattr(box, "text") or box.position_x + box.width <= page.width - 75


def test_text_of_the_custodian_cannot_break_the_page() -> None:
    hostile = "</style><script>alert('x')</script>{{ 7*7 }}"
    checks = [Check(AttributeRisk("salary"), 1.0)]
    for public in (False, True):
        report = board_report(
            release=Release.as_it_is(planted()), title=hostile, asked=hostile, checks=checks, publishable=public
        )
        page = Page(report.html())
        assert not page.of("script")
        assert page.words.count("{{ 7*7 }}") >= 2


def test_every_snooper_has_his_own_row() -> None:
    data = teachers(200)
    scenarios = {"neighbour": Snooper(keys=("age", "sex")), "boss": Snooper(keys=("age", "school", "experience"))}
    release = Release.as_it_is(data)
    report = board_report(release=release, title="T", checks=[Check(KAnonymity(k=3), 0.1)], snooper=scenarios)
    assert [c.title for c in report.checked] == [
        "records below 3-anonymity, neighbour",
        "records below 3-anonymity, boss",
    ]
    for c, snooper in zip(report.checked, scenarios.values(), strict=True):
        assert c.score is not None
        assert c.score.value == KAnonymity(k=3).score(release, snooper).value
    assert [row[0] for row in tables(report)["The scenarios."]] == ["neighbour", "boss"]


def test_the_chart_of_a_release_has_the_numbers_of_its_table(confidential: BoardReport) -> None:
    (figure,) = [p for p in section(confidential, "Pass or fail").content if isinstance(p, Figure)]
    text = json.dumps(figure.spec)
    for c in confidential.checked:
        drawn = c.score is not None and (not c.risk or c.check.limit is not None)
        assert (f'"measure": "{c.title}"' in text) is drawn
        if drawn and c.score is not None:
            assert str(c.score.value) in text


# -- the search


def test_the_chosen_recipe_is_told_with_the_scores_of_the_search(found: SearchResult) -> None:
    report = board_report(found, title="T")
    choice = found.choice
    assert choice.feasible
    rows = tables(report)["What to expect of a release made with the chosen recipe, over fresh random numbers."]
    for row, score in zip(rows, (*choice.risks, *choice.utilities), strict=True):
        assert row[0] == score.measure
        assert float(row[1]) == pytest.approx(score.value, rel=5e-3)
        assert row[-1] == score.words
    assert [row[5] for row in rows] == ["passes", "passes", "–", "–"]
    assert choice.family in section(report, "The chosen recipe").sentences[0]
    tried = tables(report)
    (recipes,) = [rows for caption, rows in tried.items() if caption.startswith("The recipes")]
    for name, _, points, safe, _ in recipes:
        own = found.frame[found.frame["family"] == name].drop_duplicates("point")
        assert (points, safe) == (str(len(own)), str(int(own["meets"].sum())))


def test_a_search_read_from_a_file_gives_the_same_pages(found: SearchResult, tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    path.write_text(json.dumps({"file": "x.csv", **found.to_dict()}), "utf-8")
    first, second = board_report(found, title="T"), board_report(Found.read(path), title="T")
    for title in ("Methods tried", "The chosen recipe"):
        a, b = section(first, title), section(second, title)
        assert a.sentences == b.sentences
        assert [p for p in a.content if isinstance(p, Table)] == [p for p in b.content if isinstance(p, Table)]
    assert "The data" not in [s.title for s in second.sections]


def test_a_release_is_checked_with_the_measures_of_the_search(found: SearchResult) -> None:
    recipe = found.choice.recipe
    assert recipe is not None
    report = board_report(found, recipe.apply(found.data, Draws(1)), title="T")
    assert [(c.title, c.check.limit) for c in report.checked] == [
        ("risk for salary", 0.05), ("linked by distance", 1.0), ("variance kept", None),
        ("1 - Hellinger distance of salary", None),
    ]  # fmt: skip


def test_a_search_without_an_answer_says_so(found: SearchResult) -> None:
    facts = found.to_dict()
    facts["choice"] = {**facts["choice"], "feasible": False, "reason": "none of the recipes reaches the threshold."}
    for point in (*facts["points"], *facts["frontier"]):
        point["chosen"] = False
    for public in (False, True):
        text = board_report(facts, title="T", publishable=public).html()
        assert "none that is safe enough" in text or "that is safe enough found none." in text
        assert "The release" not in text  # there is none


@pytest.mark.parametrize("text", ["[1]", "{}", "no json", '{"families": []}'])
def test_another_file_than_a_search_s_is_refused_in_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"sfumato search --json"):
        Found.read(path)
    with pytest.raises(DataError, match="there is no file"):
        Found.read(tmp_path / "absent.json")


# -- what was not examined


def test_every_risk_measure_belongs_to_one_sort() -> None:
    named = [name for sort in SORTS for name in sort.measures]
    ours = [
        name for name, cls in risk_measures().items() if cls.__module__.startswith("sfumato.")
    ]  # not other tests' own
    assert sorted(named) == sorted(ours)
    assert sort_of(Hellinger()) is None
    both = Weighted([KAnonymity(), IndividualRisk()], (0.5, 0.5))
    assert {s.name for s in sorts_of([both])[0]} == {
        "finding a person in the file",
        "finding a person in the population",
    }


def test_what_was_not_examined_follows_from_what_was(confidential: BoardReport) -> None:
    rows = [row[0] for row in tables(confidential)["Sorts of risk that no measure looked at."]]
    assert rows == [
        "finding a person in the population", "learning a value from those who look alike", "telling who is in the file"
    ]  # fmt: skip
    said = " ".join(section(confidential, "What was not examined").sentences)
    assert "No risk measure looked at what is learned of bonus." in said
    assert "only the one above was examined" in said
    assert "No snooper was taken to use kim_noise.lambda2" in said
    assert "How much was not examined." in said
    assert "Subgroups were not looked at" not in said
    assert "earlier and later releases" in said


def test_a_report_with_less_says_that_more_was_not_examined() -> None:
    report = board_report(release=Release.as_it_is(planted()), title="T", checks=[Check(AttributeRisk("bonus"))])
    said = " ".join(section(report, "What was not examined").sentences)
    assert "What analysts lose was not measured." in said
    assert "Subgroups were not looked at" in said
    assert "looked at what is learned of salary." in said
    assert len(tables(report)["Sorts of risk that no measure looked at."]) == len(SORTS) - 1
    assert "No limit was set" in section(report, "What was asked").sentences[0]


# -- nothing confidential in the publishable version


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


def test_the_publishable_version_of_a_search_tells_the_choice_and_no_other_setting(found: SearchResult) -> None:
    public = board_report(found, title="T", publishable=True)
    text = text_of(public)
    assert set(public.data["search"]["choice"]["settings"]) == set(found.choice.settings)  # λ² or k may be told
    for score in found.choice.risks:
        assert score.value == 1 or repr(score.value) not in text
        assert score.words not in text
    for row in found.frame.to_dict("records"):
        if not row["chosen"]:
            assert row["recipe"] not in text
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


# -- the page, the PDF and the JSON


@pytest.mark.parametrize("which", ["confidential", "publishable"])
def test_the_page_says_which_version_it_is_and_stands_on_its_own(
    which: str, confidential: BoardReport, publishable: BoardReport
) -> None:
    report = confidential if which == "confidential" else publishable
    html = report.html()
    page = Page(html)
    assert f"This is the {which} version" in page.words
    assert "@top-right { content:" in html
    assert not page.of("script")
    assert not page.of("link")
    assert not page.of("img")
    assert "http" not in html.replace("http-equiv", "")
    assert all((a.get("href") or "#").startswith("#") for _, a in page.tags)
    assert len(page.of("h1")) == 1
    levels = [tag for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == "h1"
    assert set(levels[1:]) == {"h2"}
    assert all(th.get("scope") in ("col", "row") for th in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table"))
    assert all(svg.get("role") == "img" and svg.get("aria-labelledby") for svg in page.of("svg"))


def test_the_pdf_has_the_text_of_the_page_and_is_marked_on_every_page(confidential: BoardReport) -> None:
    pypdf = pytest.importorskip("pypdf")
    reader = pypdf.PdfReader(BytesIO(confidential.pdf()))
    pages = [" ".join(page.extract_text().split()) for page in reader.pages]
    assert len(pages) > 1
    for number, words in enumerate(pages, 1):
        assert "Confidential: for the disclosure review board alone" in words
        assert f"Page {number} of {len(pages)}" in words
    everything = " ".join(pages)
    for s in confidential.sections:
        assert s.title in everything
    for c in confidential.checked:
        if c.score is not None:
            assert digits(c.score.value) in everything
    assert reader.metadata.title == TITLE
    assert reader.trailer["/Root"]["/Lang"] == "en"
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_the_json_beside_the_page_has_the_same_numbers(confidential: BoardReport, tmp_path: Path) -> None:
    confidential.write(tmp_path / "report.html", json=True)
    assert (tmp_path / "report.html").read_text("utf-8") == confidential.html()

    def refuse(token: str) -> None:
        raise AssertionError(token)

    told = json.loads((tmp_path / "report.json").read_text("utf-8"), parse_constant=refuse)
    assert told["version"] == "confidential"
    assert [s["title"] for s in told["sections"]] == [s.title for s in confidential.sections]
    for c, row in zip(confidential.checked, told["data"]["checks"], strict=True):
        assert row["title"] == c.title
        assert row["passes"] is c.passes
        assert row["score"] == (None if c.score is None else json.loads(json.dumps(c.score.to_dict())))
    shown = [p for s in told["sections"] for p in s["content"] if p["kind"] == "table"]
    assert [tuple(map(tuple, p["rows"])) for p in shown] == [
        p.rows for s in confidential.sections for p in s.content if isinstance(p, Table)
    ]


def test_a_pdf_is_written_by_its_name_with_the_json_beside_it(tmp_path: Path) -> None:
    report = Report("T", [Section("One", ("A sentence.",))])
    report.write(tmp_path / "a.pdf", json=True)
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF-")
    assert json.loads((tmp_path / "a.json").read_text())["sections"][0]["sentences"] == ["A sentence."]
    report.write(tmp_path / "b.html")
    assert not (tmp_path / "b.json").exists()
    with pytest.raises(DataError, match=r"\.html or \.pdf"):
        report.write(tmp_path / "c.json")


def test_bars_of_colour_are_measured_in_the_picture_s_own_units() -> None:
    from sfumato.reports.report import _gradients

    gradient = '<defs><linearGradient id="g" x1="0" x2="0" y1="1" y2="0"></linearGradient></defs>'
    svg = gradient + '<path d="M0,0h10v316h-10Z" fill="url(#g)"/>'
    assert '<linearGradient id="g" x1="0" x2="0" y1="316" y2="0" gradientUnits="userSpaceOnUse">' in _gradients(svg)


def test_a_pdf_fetches_nothing() -> None:
    for outside in ('<img src="https://example.org/a.png">', '<link rel="stylesheet" href="file:///etc/hostname">'):
        with pytest.raises(DataError, match="stand on its own"):
            to_pdf(f"<html lang=en><title>T</title>{outside}</html>")


def test_what_is_half_a_search_is_refused_in_words(found: SearchResult) -> None:
    facts = found.to_dict()
    facts["points"] = [{k: v for k, v in row.items() if k != "threshold"} for row in facts["points"]]
    with pytest.raises(DataError, match=r"'points\.threshold' is missing"):
        Found.of(facts)


def test_without_weasyprint_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(MissingExtra, match=r"pip install 'sfumato\[pdf\]'"):
        to_pdf("<p>")


def test_without_its_system_library_another_sentence_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "weasyprint").mkdir()
    (tmp_path / "weasyprint" / "__init__.py").write_text("raise OSError(\"cannot load library 'pango-1.0-0'\")")
    for name in [n for n in sys.modules if n.partition(".")[0] == "weasyprint"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match="Pango"):
        to_pdf("<p>")


# -- what cannot be asked


def test_a_report_needs_something_to_report_on() -> None:
    with pytest.raises(ParameterError, match="a search, a release or both"):
        board_report(title="T")


def test_checks_need_a_release(found: SearchResult) -> None:
    with pytest.raises(ParameterError, match="about a release"):
        board_report(found, title="T", checks=[Check(KAnonymity())])


def test_wrong_checks_are_refused_in_words(release: Release) -> None:
    with pytest.raises(ParameterError, match="must be a number"):
        Check(KAnonymity(), math.nan)
    with pytest.raises(ParameterError, match="needs a measure"):
        Check("k_anonymity")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"Check\(measure, limit\)"):
        board_report(release=release, title="T", checks=[KAnonymity()])  # type: ignore[list-item]


def test_subgroups_by_a_column_that_is_not_there_or_has_too_many_values(release: Release) -> None:
    with pytest.raises(DataError, match="twon"):
        board_report(release=release, title="T", checks=[Check(KAnonymity())], by=["twon"])
    with pytest.raises(NotApplicable, match="too many"):
        board_report(release=release, title="T", checks=[Check(KAnonymity())], by=["salary"])


def test_subgroups_of_fewer_than_ten_records_are_small() -> None:
    assert FEWEST == 10
