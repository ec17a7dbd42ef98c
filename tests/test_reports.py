"""Reports: one page that stands on its own, says the right numbers, and shows no record's value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sfumato import Attribute, Draws, Microdata, Release, Role, Schema, ru_map
from sfumato.charts.captions import short, tabled
from sfumato.cli.console import shown
from sfumato.contract import Figure, Score, Section, Side, TextTable
from sfumato.contract.score import digits
from sfumato.datasets import teachers
from sfumato.errors import DataError
from sfumato.maps import NormalPopulation, RUMap
from sfumato.masks import IndependentNoise, KimNoise, TopCode
from sfumato.papers import figure1
from sfumato.reports import Report, data_section, recipe_section
from sfumato.reports.report import cell
from sfumato.schema import Scale
from sfumato.utility import EstimatorUtility
from sfumato.version import VERSION

LAMBDA = "kim_noise.lambda2"
SALARY, EXTRA = 13.3**2, 17.5**2 + 13.3**2 - 2 * 8.3**2
VOID = {"meta", "path", "rect", "line", "circle", "br"}


class Page(HTMLParser):
    """A parsed page: tags must be balanced; text, attributes and structure are kept."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html.replace("<wbr>", ""))  # where a long word may break
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


def rows(section: Section) -> list[tuple[Any, ...]]:
    return [row for part in section.content if isinstance(part, TextTable) for row in part.rows]


@pytest.fixture(scope="module")
def first() -> RUMap:
    return figure1()


@pytest.fixture(scope="module")
def full(first: RUMap) -> str:
    data = teachers(300)
    release = (KimNoise(lambda2=0.15) >> TopCode(quantile=0.99)).apply(data, Draws(8675309123))
    sections = [data_section(data), recipe_section(release), first.section(0.04, first.choose(0.04))]
    return Report("Teachers", sections, "For the board", ("A note.",)).html()


# -- the page


@pytest.mark.parametrize("show", [cell, digits, short, tabled, shown])
def test_no_number_for_people_is_written_with_an_e(show: Callable[[float], str]) -> None:
    for power in range(-300, 300, 7):
        assert "e" not in show(2.13 * 10.0**power)
    assert show(2.1e-13) == "2.1 × 10⁻¹³"
    assert show(-2.1e-13) in ("-2.1 × 10⁻¹³", "−2.1 × 10⁻¹³")
    assert show(4e18) == "4 × 10¹⁸"


def test_a_score_is_told_without_an_e() -> None:
    score = Score("risk", Side.RISK, 2.1e-13, "tiny", interval=(1e-14, 1.5e6))
    assert str(score) == "risk: 2.1 × 10⁻¹³ (95 % interval 1 × 10⁻¹⁴ to 1,500,000); tiny"


def test_the_page_stands_on_its_own(full: str) -> None:
    page = Page(full)
    assert "http://" not in full
    assert "https://" not in full
    assert not page.of("script")
    assert not page.of("link")
    assert not page.of("img")
    assert not page.of("iframe")
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in full
    assert "url(http" not in full


def test_the_page_can_be_read_by_everyone(full: str) -> None:
    page = Page(full)
    assert page.of("html")[0]["lang"] == "en"
    assert len(page.of("h1")) == 1
    assert len(page.of("h2")) == 4  # three sections and the notes
    assert all(th.get("scope") in ("col", "row") for th in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table")) == 5
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    (picture,) = page.of("svg")
    assert picture["role"] == "img"
    assert picture["aria-labelledby"] in ids
    used = set(re.findall(r"url\(#([^)]+)\)", full))
    assert used
    assert used <= set(ids)


def test_the_page_says_the_numbers_of_section_5(full: str) -> None:
    words = Page(full).words
    level = 25 / SALARY
    assert f"λ² = {level:.3f}" in words
    assert "a snooper is typically off by 5 thousand dollars" in words
    assert f"{math.sqrt((1 + level) * SALARY / 1000):.3f} thousand dollars" in words  # 0.449
    assert "keeps 88 % of the utility" in words  # 1 / 1.1413
    assert "For the disclosure review board; contains no record's value." in words
    assert f"sfumato {VERSION}" in words


def test_the_same_report_gives_the_same_page(first: RUMap) -> None:
    report = Report("Twice", [first.section(0.04)])
    assert report.html() == report.html()


def test_two_figures_on_a_page_do_not_share_ids(first: RUMap) -> None:
    section = first.section()
    page = Page(Report("Two", [section, section]).html())
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [svg["aria-labelledby"] for svg in page.of("svg")] == ["figure-1", "figure-2"]


def test_a_report_is_written_whole_and_an_empty_one_is_a_page_too(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    Report("Nothing yet", []).write(target)
    assert Page(target.read_text("utf-8")).of("h1")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_a_figure_that_reaches_out_is_refused() -> None:
    spec = {
        "data": {"values": [{"a": 1, "link": "http://example.org"}]}, "mark": "point",
        "encoding": {"x": {"field": "a", "type": "quantitative"}, "href": {"field": "link"}},
    }  # fmt: skip
    with pytest.raises(DataError, match="stand on its own"):
        Report("Out", [Section("Out", (), (Figure(spec, "a link"),))]).html()


def test_cells_are_written_for_people() -> None:
    assert [cell(v) for v in (30000, 0.14133, None, True, "a")] == ["30,000", "0.1413", "–", "yes", "a"]


# -- hostile names


HOSTILE = "<script>alert('x')</script>\"&{{7*7}}</style>"


def test_hostile_names_are_text_and_nothing_else() -> None:
    frame = pd.DataFrame({HOSTILE: np.random.default_rng(1).normal(size=50), "id": range(50)})
    schema = Schema((
        Attribute(HOSTILE, Role.CONFIDENTIAL, label="<b>bold</b>", unit="</title>"),
        Attribute("id", Role.IDENTIFIER, Scale.UNORDERED),
    ))  # fmt: skip
    data = Microdata(frame, schema)
    m = ru_map(data, KimNoise(), {LAMBDA: [0.1, 0.5, 1.0]}, HOSTILE, HOSTILE, replications=3, draws=1)
    release = KimNoise().apply(data, Draws(1))
    report = Report(HOSTILE, [data_section(data), recipe_section(release), m.section(2.0)], HOSTILE, (HOSTILE,))
    html = report.html()
    page = Page(html)
    assert not page.of("script")
    assert not page.of("b") or "bold" not in "".join(re.findall(r"<b>(.*?)</b>", html))
    assert len(page.of("style")) == len(page.of("title")) == 1
    assert "49" not in page.text[page.text.index(HOSTILE)]
    assert page.words.count("alert('x')") > 5


# -- no record's value


def planted(number: float, word: str) -> Microdata:
    """Return 200 records, one of which has a salary and a town that no other record has."""
    g = np.random.default_rng(5)
    salary = np.round(g.normal(62, 13, 200), 3)
    town = np.array(["Ayton", "Beeford"])[g.integers(0, 2, 200)].astype(object)
    salary[17], town[17] = number, word
    schema = Schema((
        Attribute("salary", Role.CONFIDENTIAL, unit="thousand dollars"), Attribute("town", Role.KEY, Scale.UNORDERED),
        Attribute("age", Role.KEY, integer=True),
    ))  # fmt: skip
    return Microdata(pd.DataFrame({"salary": salary, "town": town, "age": g.integers(20, 60, 200)}), schema)


@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(1_234_567, 9_876_543).filter(lambda n: n % 10), st.booleans())
def test_no_record_s_value_is_in_a_report(digits: int, large: bool) -> None:
    number = digits / (10 if large else 10_000)  # far out in the tail (a maximum), or among the others
    data = planted(number, "Quuxborough")
    recipe = KimNoise(columns=("salary",)) >> TopCode(columns=("salary",), quantile=0.95)
    m = ru_map(data, recipe, {LAMBDA: [0.1, 1.0]}, "salary", "salary", replications=3, draws=digits)
    sections = [data_section(data), recipe_section(recipe.apply(data, Draws(digits))), m.section(1.0)]
    text = Report("Planted", sections).html().replace(",", "")
    assert "Quuxborough" not in text
    assert "Ayton" not in text
    assert f"{number:.4f}".rstrip("0") not in text
    assert str(digits) not in text  # which is the seed, too
    numbers = data.numbers("salary")
    for value in (numbers.min(), numbers.max(), np.sort(numbers)[190]):  # the last is the top code
        assert f"{value:.3f}" not in text
        assert f"{value:.4g}" not in str([sections[0], sections[1]])


def test_nothing_learned_and_no_seed_is_in_the_recipe_section(full: str) -> None:
    data = teachers(300)
    draws = Draws(8675309123)
    fitted = (KimNoise(lambda2=0.15) >> TopCode(quantile=0.99)).fit(data, draws)
    section = recipe_section(fitted.apply(data, draws))
    text = str(section)
    learned = [*np.ravel(fitted["kim_noise"].root), *(v for pair in fitted["top_code"].codes.values() for v in pair)]
    for number in learned:
        if number:
            assert f"{number:.4g}"[:5] not in text
    assert "8675309123" not in full
    assert "seed of the random numbers must stay confidential" in text


# -- the sections


def test_the_data_section_describes_columns_without_their_values() -> None:
    frame = pd.DataFrame({
        "name": [f"N{k}" for k in range(40)], "income": [99.0 if k % 4 == 0 else float(k) for k in range(40)],
        "answer": [None if k < 10 else "dk" if k < 20 else "yes" for k in range(40)],
    })  # fmt: skip
    schema = Schema((
        Attribute("name", Role.IDENTIFIER, Scale.UNORDERED),
        Attribute("income", Role.CONFIDENTIAL, label="pay", unit="euro", missing=(99,)),
        Attribute("answer", Role.KEY, Scale.UNORDERED, missing=("dk",)),
    ))  # fmt: skip
    section = data_section(Microdata(frame, schema))
    assert rows(section) == [
        ("name", "–", "identifier", "unordered", "text or categories", "0\xa0%", "about 40"),
        ("income", "pay (euro)", "confidential", "ordered", "numbers", "25.0\xa0%", "about 30"),
        ("answer", "–", "key", "unordered", "text or categories", "50.0\xa0%", "1"),
    ]
    assert section.sentences[0] == "The file has 40 records and 3 columns: 1 identifier, 1 key and 1 confidential."


def test_the_data_section_takes_no_records_and_nothing_but_missing_values() -> None:
    empty = Microdata(pd.DataFrame({"a": pd.Series([], dtype=float)}), Schema((Attribute("a"),)))
    assert rows(data_section(empty))[0][-2:] == ("–", "0")
    gone = Microdata(pd.DataFrame({"a": [np.nan, np.nan]}), Schema((Attribute("a"),)))
    assert rows(data_section(gone))[0][-2:] == ("100\xa0%", "0")


def test_the_recipe_section_tells_steps_parameters_and_guarantees() -> None:
    data = teachers(200)
    release = (KimNoise(lambda2={"salary": 0.15, "income": 0.2}) >> TopCode(quantile=0.99)).apply(data, Draws(1))
    section = recipe_section(release)
    steps, parameters, guarantees = (part for part in section.content if isinstance(part, TextTable))
    assert [row[0] for row in steps.rows] == ["identifiers", "kim_noise", "top_code"]
    assert ("kim_noise", "lambda2", "salary: 0.15, income: 0.2") in [row[:3] for row in parameters.rows]
    assert ("top_code", "quantile", "0.99") in [row[:3] for row in parameters.rows]
    assert len(guarantees.rows) == len(release.guarantees)
    assert all(verified for *_, verified in guarantees.rows)
    assert section.sentences[0].startswith(
        "The release has 200 records made from 200 original records. It was made in 3 steps"
    )


def test_a_file_masked_elsewhere_is_said_to_be_so() -> None:
    data = teachers(50)
    section = recipe_section(Release.of(data, data, "rows"))
    assert "masked elsewhere" in section.sentences[1]
    assert not section.content


def test_the_map_section_gives_the_choice_first_and_in_natural_units(first: RUMap) -> None:
    section = first.section(0.04, first.choose(0.04))
    level = 25 / SALARY
    assert "The answer is λ² = 0.141" in section.sentences[0]
    assert "The snooper knows which record is the target's" in section.sentences[1]
    assert "41 values from 0.01 to 1" in section.sentences[1]
    figure, table = section.content
    assert isinstance(figure, Figure)
    assert isinstance(table, TextTable)
    assert len(table.rows) <= 12
    (chosen,) = [row for row in table.rows if "chosen" in row[0]]
    u, extra = 1000 / ((1 + level) * SALARY), 1000 / ((1 + level) * EXTRA)
    assert chosen == ("0.141 (chosen)", "0.0400", f"{u:.2f}", "88\xa0%", f"{extra:.2f}", "88\xa0%")
    assert table.rows[-1] == ("unmasked", "∞", f"{1000 / SALARY:.2f}", "100\xa0%", f"{1000 / EXTRA:.2f}", "100\xa0%")


def test_the_map_section_takes_the_threshold_from_the_choice(first: RUMap) -> None:
    assert "largest tolerable risk for salary is 0.04" in first.section(choice=first.choose(0.04)).sentences[0]


def test_without_a_choice_the_map_section_counts_the_points_within_the_threshold(first: RUMap) -> None:
    within = sum(p.settings[LAMBDA] >= 25 / SALARY for p in first.points)
    assert f"{within} of the 41 points keep" in first.section(0.04).sentences[0]
    assert not any("chosen" in row[0] for row in rows(first.section(0.04)))


def test_an_infeasible_threshold_is_answered_in_words(first: RUMap) -> None:
    section = first.section(1e-9, first.choose(1e-9))
    assert "There is no answer under this threshold" in section.sentences[0]
    Page(Report("None", [section]).html())


def test_replicated_maps_give_intervals_and_the_chosen_row_fits_among_its_neighbours() -> None:
    grid = {LAMBDA: [0.05, 0.1, 0.15, 0.2, 0.4]}
    m = ru_map(teachers(300), KimNoise(), grid, "salary", ["salary", "salary ~ age"], replications=20, draws=1)
    section = m.section(0.05, m.choose(0.05, confirm=10))
    body = rows(section)
    where = next(k for k, row in enumerate(body) if "chosen" in row[0])
    assert "to" in body[0][1]
    kept = [int(row[3].split("\xa0")[0]) for row in body]
    assert kept[where - 1] >= kept[where] >= kept[where + 1]
    assert kept[-1] == 100
    assert "masked 20 times" in section.sentences[1]


def test_two_parameters_are_tabled_along_the_frontier() -> None:
    population = NormalPopulation({"salary": 62}, [[SALARY]], 1000, "thousand dollars")
    grid = {LAMBDA: [0.1, 0.2], "independent_noise.lambda2": [0.1, 0.2]}
    m = ru_map(population, KimNoise() >> IndependentNoise(), grid, "salary", "salary", replications=0)
    section = m.section(0.04, m.choose(0.04))
    assert "4 combinations" in section.sentences[1]
    assert section.title == "Risk and utility over noise level λ² (kim noise) and noise level λ² (independent noise)"
    assert any("chosen" in row[0] for row in rows(section))


def test_a_measure_that_does_not_apply_is_named_with_the_reason() -> None:
    utility = EstimatorUtility("salary", target="file")
    m = ru_map(teachers(100), KimNoise(), {LAMBDA: [0.1, 1.0]}, "salary", utility, replications=3, draws=1)
    told = replace(m, refused={"some risk": "'some risk' needs a population table."}).section()
    assert "Not measured: some risk." in told.sentences[-1]
    assert (
        "kept" not in next(part for part in told.content if isinstance(part, TextTable)).heads
    )  # the unmasked utility is infinite
