"""Reports for a review board: the numbers are the measures' own, and what was not examined is said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from board_reports import CHECKS, SNOOPER, confidential, found, planted, release, section, tables, text_of
from test_reports import Page

from sfumato import Attribute, Draws, Microdata, Release, Role, Schema, Snooper
from sfumato.cli.listing import risk_measures
from sfumato.contract import Figure, TextTable, Weighted
from sfumato.contract.score import digits
from sfumato.datasets import teachers
from sfumato.errors import DataError, ParameterError
from sfumato.maps import RUMap
from sfumato.masks import KimNoise
from sfumato.reports import BoardReport, Check, board_report
from sfumato.reports.checks import FEWEST, SORTS, run_checks, sort_of, sorts_of
from sfumato.reports.sections import SearchFindings
from sfumato.risk import DCR, AttributeRisk, IndividualRisk, KAnonymity
from sfumato.schema import Scale
from sfumato.utility import Hellinger

__all__ = ["confidential", "found", "release"]  # fixtures

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


def test_the_chosen_recipe_is_told_with_the_scores_of_the_search(found: RUMap) -> None:
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
        own = found.frame()[found.frame()["family"] == name].drop_duplicates("point")
        assert (points, safe) == (str(len(own)), str(int(own["meets"].sum())))


def test_a_search_read_from_a_file_gives_the_same_pages(found: RUMap, tmp_path: Path) -> None:
    path = tmp_path / "search.json"
    path.write_text(json.dumps({"file": "x.csv", **found.to_dict()}), "utf-8")
    first, second = board_report(found, title="T"), board_report(SearchFindings.read(path), title="T")
    for title in ("Methods tried", "The chosen recipe"):
        a, b = section(first, title), section(second, title)
        assert a.sentences == b.sentences
        assert [p for p in a.content if isinstance(p, TextTable)] == [p for p in b.content if isinstance(p, TextTable)]
    assert "The data" not in [s.title for s in second.sections]


def test_a_release_is_checked_with_the_measures_of_the_search(found: RUMap) -> None:
    recipe = found.choose().method
    assert recipe is not None
    report = board_report(found, recipe.apply(found.subject.data, Draws(1)), title="T")
    assert [(c.title, c.check.limit) for c in report.checked] == [
        ("risk for salary", 0.05), ("linked by distance", 1.0), ("variance kept", None),
        ("1 - Hellinger distance of salary", None),
    ]  # fmt: skip


def test_a_search_without_an_answer_says_so(found: RUMap) -> None:
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
        SearchFindings.read(path)
    with pytest.raises(DataError, match="there is no file"):
        SearchFindings.read(tmp_path / "absent.json")


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


# -- what cannot be asked


def test_a_report_needs_something_to_report_on() -> None:
    with pytest.raises(ParameterError, match="a search, a release or both"):
        board_report(title="T")


def test_checks_need_a_release(found: RUMap) -> None:
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
    made = board_report(release=release, title="T", checks=[Check(KAnonymity())], by=["salary"])
    said = " ".join(section(made, "Worst subgroups").sentences)
    assert "Subgroups by salary were not looked at: column 'salary' has" in said
    assert "too many" in said
    assert made.to_dict()["data"]["checks"][0]["by"]["salary"]["worst_first"] == []


def test_subgroups_of_fewer_than_ten_records_are_small() -> None:
    assert FEWEST == 10
