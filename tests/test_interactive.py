"""The interactive page, in Debian's Chromium: what it chooses is what a computation over the frame says."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from search_frames import RISKS, SCENARIOS, UTILITIES, Trial, frame_of, frontier_of, many_methods, sequences

from sfumato.charts.map_data import COMBINED
from sfumato.charts.search_page import interactive_page
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WORST = ""


def chosen_by_hand(
    frame: pd.DataFrame, thresholds: dict[str, float], scenario: str = WORST, utility: str | None = None
) -> int | None:
    """Return the most useful point all of whose limits meet the thresholds; a risk that the scenario lacks counts as it is."""
    risks = frame[frame["side"] == "risk"]
    if scenario != WORST:
        has = set(risks.loc[risks["scenario"] == scenario, "measure"])
        risks = risks[(risks["scenario"] == scenario) | ~risks["measure"].isin(has)]
    over = risks[risks["limit"] > risks["measure"].map(thresholds)]
    safe = set(frame["point"]) - set(over["point"])
    useful = frame[frame["side"] == "utility"]
    useful = useful[useful["measure"] == utility] if utility else useful
    best = useful[useful["point"].isin(safe)].groupby("point")["value"].min()
    return int(best.idxmax()) if len(best) else None


# -- the page as text


@pytest.fixture(scope="module")
def searched() -> pd.DataFrame:
    return many_methods(sequences(), 5)


@pytest.fixture(scope="module")
def frame(searched: pd.DataFrame) -> pd.DataFrame:
    """The points, without the unmasked file."""
    return searched[searched["masked"]]


@pytest.fixture(scope="module")
def html(searched: pd.DataFrame) -> str:
    return interactive_page(
        searched, frontier_of(searched), "Teachers & <pupils>", subtitle="25 families", units={RISKS[0]: "share"}
    )


def model_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_names_nothing_outside_itself(html: str) -> None:
    assert not re.search(r"\b(?:src|href)\s*=|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(", html)
    assert re.findall(r"https?://[^\s\"']+", html) == ["http://www.w3.org/2000/svg"]  # a name, not an address
    assert "default-src 'none'" in html


def test_titles_and_names_are_text_not_markup(html: str) -> None:
    assert "<h1>Teachers &amp; &lt;pupils&gt;</h1>" in html
    risks = {("</script><script>alert(1)</script>", ""): 0.1}
    wicked = frame_of([Trial("<b>a</b>", {"x.y": 1.0}, risks, {"<i>u</i>": 0.5})], {})
    page = interactive_page(wicked)
    assert page.count("</script>") == 2
    assert "<b>a</b>" not in page
    assert "<i>u</i>" not in page
    assert model_of(page)["points"][0]["family"] == "<b>a</b>"


def test_the_page_holds_the_numbers_of_the_frame(frame: pd.DataFrame, html: str) -> None:
    model = model_of(html)
    assert [r["name"] for r in model["risks"]] == list(RISKS)
    assert [u["name"] for u in model["utilities"]] == [COMBINED, *UTILITIES]
    assert model["scenarios"] == list(SCENARIOS)
    for point in model["points"]:
        own = frame[frame["point"] == point["id"]]
        for row in own[own["side"] == "risk"].itertuples():
            given = point["risks"][RISKS.index(row.measure)][row.scenario]
            assert given == [row.value, row.low, row.high, row.limit]
        for row in own[own["side"] == "utility"].itertuples():
            assert point["utilities"][1 + UTILITIES.index(row.measure)][:3] == [row.value, row.low, row.high]


def test_what_was_not_measured_or_is_infinite_is_still_json(searched: pd.DataFrame) -> None:
    odd = searched.copy()
    odd.loc[odd["point"] == 0, ["value", "low", "high", "limit"]] = math.nan
    odd.loc[(odd["point"] == 1) & (odd["side"] == "risk"), ["value", "high", "limit"]] = math.inf
    points = model_of(interactive_page(odd))["points"]
    assert points[0]["utilities"] == [None, None, None]
    assert points[1]["risks"][0][SCENARIOS[0]][0] == 1e300


def test_a_utility_that_is_not_there_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ParameterError, match="Did you mean"):
        interactive_page(frame, utility="variance kep")


# -- in a browser


PATIENCE = 300_000  # milliseconds: a busy machine is no fault of the page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync = pytest.importorskip(
        "playwright.sync_api", reason="SKIPPED LOUDLY: playwright is not installed (pip install playwright)"
    )
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip(
            "SKIPPED LOUDLY: no Chromium here, so the interactive chart is not tested; run: apt-get install chromium"
        )
    with sync.sync_playwright() as play:
        one = play.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=PATIENCE)
        yield one
        one.close()


class Watched:
    """A page with everything it asked for and complained about."""

    def __init__(self, browser: Browser, text: str, folder: Path, width: int = 1000) -> None:
        (folder / "page.html").write_text(text, "utf-8")
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(PATIENCE)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.on("console", lambda m: self.complaints.append(m.text))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
        self.page.goto((folder / "page.html").as_uri())

    def chosen(self) -> int | None:
        """Return the chosen point, which the chart, the table and the words must agree on."""
        marked = [
            int(e.get_attribute("data-point") or -1)
            for e in self.page.locator('[role=option][aria-selected="true"]').all()
        ]
        row = [int(e.get_attribute("data-point") or -1) for e in self.page.locator("tbody tr[aria-current]").all()]
        assert marked == row
        rings = self.page.locator("#chart .ring").count()
        assert rings == len(row)
        said = self.page.locator("#choice").inner_text()
        assert ("the choice is" in said) == bool(row)
        return row[0] if row else None

    def tolerate(self, threshold: float) -> None:
        """Type a threshold."""
        self.page.locator("#threshold").fill(str(threshold))
        self.page.locator("#threshold").press("Enter")


@pytest.fixture
def page(browser: Browser, html: str, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(browser, html, tmp_path)
    yield watched
    assert all(url.startswith("file:") for url in watched.asked)
    assert len(watched.asked) == 1  # the page itself, and nothing else
    assert watched.complaints == []
    watched.page.close()


def test_the_page_starts_with_the_choice_of_the_search(page: Watched, frame: pd.DataFrame) -> None:
    assert page.chosen() == frame.loc[frame["chosen"], "point"].iloc[0]
    assert page.page.locator("[role=option]").count() == frame["point"].nunique()
    assert "Also required: risk for salary at most 0.04." in page.page.locator("#others").inner_text()


def test_the_slider_moves_the_choice_to_what_a_computation_says(page: Watched, frame: pd.DataFrame) -> None:
    slider = page.page.locator("#slider")
    seen = set()
    for position in (0, 40, 90, 150, 200, 240, 300, 360, 400):
        slider.fill(str(position))
        threshold = float(page.page.locator("#threshold").input_value())
        assert slider.get_attribute("aria-valuetext") == f"{threshold:.3g}"
        wanted = chosen_by_hand(frame, {RISKS[0]: threshold, RISKS[1]: 0.04})
        assert page.chosen() == wanted
        seen.add(wanted)
    assert len(seen) > 3
    low, high = slider_ends(frame)
    slider.fill("200")
    assert float(page.page.locator("#threshold").input_value()) == pytest.approx(
        math.sqrt(low * high), rel=0.005
    )  # log


def slider_ends(frame: pd.DataFrame) -> tuple[float, float]:
    limits = frame.loc[frame["measure"] == RISKS[0], "limit"]
    return 0.8 * float(limits.min()), 1.1 * float(limits.max())


def test_the_slider_works_from_the_keyboard(page: Watched, frame: pd.DataFrame) -> None:
    page.page.locator("#slider").focus()
    before = float(page.page.locator("#threshold").input_value())
    for _ in range(25):
        page.page.keyboard.press("ArrowLeft")
    after = float(page.page.locator("#threshold").input_value())
    assert after < before
    assert page.chosen() == chosen_by_hand(frame, {RISKS[0]: after, RISKS[1]: 0.04})


def test_the_scenario_switch_judges_by_that_snooper_alone(page: Watched, frame: pd.DataFrame) -> None:
    for threshold in (0.03, 0.011):
        page.tolerate(threshold)
        for scenario in (*SCENARIOS, WORST):
            page.page.locator(f'input[name=scenario][value="{scenario}"]').check()
            assert page.chosen() == chosen_by_hand(frame, {RISKS[0]: threshold, RISKS[1]: 0.04}, scenario)
    page.page.locator(f'input[name=scenario][value="{SCENARIOS[0]}"]').check()
    assert f"under the scenario {SCENARIOS[0]}" in page.page.locator("#choice").inner_text()
    point = int(page.page.locator("[role=option]").first.get_attribute("data-point") or -1)
    row = frame[(frame["point"] == point) & (frame["measure"] == RISKS[0]) & (frame["scenario"] == SCENARIOS[0])].iloc[
        0
    ]
    shown = page.page.locator(f'tbody tr[data-point="{point}"] td').nth(2).inner_text()
    assert float(shown) == pytest.approx(row["value"], rel=5e-3)


def test_each_risk_keeps_its_own_threshold_and_each_utility_its_own_choice(page: Watched, frame: pd.DataFrame) -> None:
    page.tolerate(0.02)
    page.page.locator("#risk").select_option(RISKS[1])
    assert float(page.page.locator("#threshold").input_value()) == 0.04
    page.tolerate(0.025)
    assert page.chosen() == chosen_by_hand(frame, {RISKS[0]: 0.02, RISKS[1]: 0.025})
    page.page.locator("#utility").select_option(UTILITIES[0])
    assert page.chosen() == chosen_by_hand(frame, {RISKS[0]: 0.02, RISKS[1]: 0.025}, WORST, UTILITIES[0])
    assert "Also required: records linked by distance at most 0.02." in page.page.locator("#others").inner_text()


def test_where_no_point_is_safe_the_page_says_why_and_rings_nothing(page: Watched, frame: pd.DataFrame) -> None:
    page.tolerate(1e-6)
    assert page.chosen() is None
    said = page.page.locator("#choice").inner_text()
    least = frame[frame["measure"] == RISKS[0]].groupby("point")["limit"].max().min()
    assert said.startswith("No point is safe: even the safest")
    assert f"has a limit of {least:.3g} for {RISKS[0]}" in said
    page.page.locator("#risk").select_option(RISKS[1])
    assert f"none of them also meets that of {RISKS[0]}" in page.page.locator("#choice").inner_text()


def test_a_threshold_that_is_no_number_is_put_back(page: Watched) -> None:
    before = page.chosen()
    for bad in ("", "-1"):
        page.page.locator("#threshold").fill(bad)
        page.page.locator("#threshold").press("Enter")
        assert page.page.locator("#threshold").input_value() == "0.05"
    assert page.chosen() == before


def test_the_choice_is_told_to_screen_readers_when_the_slider_rests(page: Watched) -> None:
    from playwright.sync_api import expect

    status = page.page.locator("#status")
    assert status.get_attribute("role") == "status"
    page.tolerate(0.02)
    expect(status).to_contain_text("With at most 0.02 tolerated")
    assert status.text_content() == page.page.locator("#choice").text_content()


def test_pointing_at_a_mark_tells_its_recipe_and_numbers(page: Watched, frame: pd.DataFrame) -> None:
    details = page.page.locator("#details")
    assert details.is_hidden()
    lonely = lonely_point(page)
    mark = page.page.locator(f"#point-{lonely}")
    mark.scroll_into_view_if_needed()
    mark.hover(force=True)
    own = frame[frame["point"] == lonely]
    said = details.inner_text()
    assert f"{own['family'].iloc[0]}: {own['settings'].iloc[0]}." in said
    worst = own[own["measure"] == RISKS[0]].sort_values("value").iloc[-1]
    assert f"{worst['value']:.3g} (95 % interval {worst['low']:.3g} to {worst['high']:.3g})" in said
    assert f"95 % of releases stay below {worst['limit']:.3g}." in said
    assert page.page.locator("tbody tr.looked").get_attribute("data-point") == str(lonely)
    page.page.mouse.move(1, 1)
    assert details.is_hidden()


def lonely_point(page: Watched) -> int:
    """Return the point that is farthest from its nearest neighbour."""
    found: int = page.page.evaluate(
        """() => {
          const away = (p) => Math.min(...places.filter((q) => q !== p).map((q) => Math.hypot(q.x - p.x, q.y - p.y)));
          return places.reduce((a, b) => (away(b) > away(a) ? b : a)).point.id;
        }"""
    )
    return found


def focused(page: Watched) -> int:
    return int(page.page.evaluate("document.activeElement.dataset.point ?? -1"))


def test_the_tab_key_reaches_the_chart_and_arrows_step_along_the_points(page: Watched, frame: pd.DataFrame) -> None:
    page.page.locator("#utility").focus()
    page.page.keyboard.press("Tab")
    chosen = page.chosen()
    assert focused(page) == chosen
    useful = frame[frame["side"] == "utility"].groupby("point")["value"].min()
    order = [int(p) for p in useful.sort_values(kind="stable").index]
    at = order.index(chosen)
    for key, wanted in (
        ("ArrowRight", order[at + 1]),
        ("ArrowLeft", order[at]),
        ("ArrowLeft", order[at - 1]),
        ("Home", order[0]),
        ("ArrowLeft", order[0]),
        ("End", order[-1]),
    ):
        page.page.keyboard.press(key)
        assert focused(page) == wanted
    risky = frame[frame["measure"] == RISKS[0]].groupby("point")["value"].max().sort_values(kind="stable")
    order = [int(p) for p in risky.index]
    at = order.index(focused(page))
    page.page.keyboard.press("ArrowDown")
    assert focused(page) == order[at - 1]
    own = frame[frame["point"] == focused(page)]
    assert own["settings"].iloc[0] in page.page.locator("#details").inner_text()
    label = page.page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert own["settings"].iloc[0] in label
    assert page.page.locator('[role=option][tabindex="0"]').count() == 1
    page.page.keyboard.press("Escape")
    assert page.page.locator("#details").is_hidden()
    page.page.keyboard.press("Tab")
    assert focused(page) == -1  # and out again with one key


def test_the_table_sorts_by_every_column_both_ways(page: Watched, frame: pd.DataFrame) -> None:
    def shown(column: int) -> list[str]:
        return page.page.locator(f"tbody tr > *:nth-child({column})").all_inner_texts()

    assert int(shown(1)[0]) == page.chosen()  # the choice first, until the reader sorts
    risk = page.page.locator('[data-sort="risk"]')
    risk.click()
    assert page.page.locator('th[aria-sort="descending"]').inner_text().startswith(RISKS[0])
    r = frame[frame["measure"] == RISKS[0]].groupby("point")["value"].max().sort_values(ascending=False)
    assert [int(p) for p in shown(1)] == list(r.index)
    risk.press("Enter")
    assert page.page.evaluate("document.activeElement.dataset.sort") == "risk"
    assert [int(p) for p in shown(1)] == list(r.index)[::-1]
    page.page.locator('[data-sort="family"]').click()
    assert shown(2) == sorted(shown(2))
    page.page.locator('[data-sort="id"]').click()
    assert [int(p) for p in shown(1)] == sorted(frame["point"].unique())
    assert page.page.locator("th[aria-sort]:not([aria-sort=none])").count() == 1
    assert page.page.locator("caption").inner_text().startswith(f"{frame['point'].nunique()} recipes")


def test_the_frontier_has_the_probabilities_of_the_search(page: Watched, frame: pd.DataFrame) -> None:
    sure = frontier_of(frame).set_index("point")["probability"]
    for row in page.page.locator("tbody tr").all():
        told = row.locator("> *:nth-child(7)").inner_text()
        point = int(row.get_attribute("data-point") or -1)
        assert told == (f"{sure[point] * 100:.0f}\N{NO-BREAK SPACE}%" if point in sure else "no")


def test_on_a_narrow_screen_nothing_runs_out_of_the_page(browser: Browser, html: str, tmp_path: Path) -> None:
    for width in (400, 700, 1400):
        watched = Watched(browser, html, tmp_path, width)
        assert watched.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        boxes = watched.page.locator("#chart text").evaluate_all(
            "all => all.map((e) => e.getBBox()).map((b) => [b.x, b.x + b.width])"
        )
        wide = watched.page.evaluate("document.getElementById('chart').viewBox.baseVal.width")
        assert all(left >= -1 and right <= wide + 1 for left, right in boxes)
        assert watched.complaints == []
        watched.page.close()


def test_the_page_prints_without_its_controls_and_with_every_recipe(page: Watched) -> None:
    page.page.emulate_media(media="print")
    assert page.page.locator("#controls").is_hidden()
    assert page.page.locator("#choice").is_visible()
    assert page.page.locator("tbody tr").last.is_visible()
    assert page.page.pdf().startswith(b"%PDF")


def test_text_and_marks_keep_the_contrast_of_wcag_aa(page: Watched) -> None:
    """4.5 to 1 for text, 3 to 1 for marks, against white (WCAG 2.2, 1.4.3 and 1.4.11)."""
    colours = page.page.evaluate(
        """() => [...document.querySelectorAll('h1, p, label, legend, button, caption, td, th, #chart text, #legend span')]
          .map((e) => [e.tagName, getComputedStyle(e)[e instanceof SVGElement ? 'fill' : 'color']])"""
    )
    assert colours
    for tag, colour in colours:
        assert contrast([int(v) for v in re.findall(r"\d+", colour)[:3]]) >= 4.5, (tag, colour)
    for look in model_of(page.page.content())["families"].values():
        assert contrast([int(look["colour"][k : k + 2], 16) for k in (1, 3, 5)]) >= 3


def contrast(rgb: list[int]) -> float:
    """Return the contrast with white, as WCAG defines it."""
    parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 1.05 / (0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)


def test_every_control_has_a_name(page: Watched) -> None:
    for control in page.page.locator("input, select, button").all():
        assert control.evaluate(
            "e => (e.labels?.length ? e.labels[0].textContent : e.textContent || e.ariaLabel).trim()"
        )


def test_a_risk_without_a_threshold_is_not_limited_until_the_reader_limits_it(browser: Browser, tmp_path: Path) -> None:
    trials = [Trial("a", {"a.x": float(k)}, {("risk", ""): 0.1 * k}, {"use": 0.5 + 0.1 * k}) for k in range(1, 4)]
    frame = frame_of(trials, {})
    watched = Watched(browser, interactive_page(frame), tmp_path)
    assert watched.chosen() == 2
    assert "not limited" in watched.page.locator("#of").inner_text()
    watched.tolerate(0.25)  # limits are 1.18 × 0.1, 0.2 and 0.3
    assert watched.chosen() == 1
    assert watched.page.locator("input[name=scenario]").count() == 0
    assert "scenario" not in watched.page.locator("#choice").inner_text()
    assert watched.complaints == []
    watched.page.close()


def test_a_risk_of_zero_can_be_asked_for(browser: Browser, tmp_path: Path) -> None:
    pairs = ((0.0, 0.4), (0.001, 0.6), (0.2, 0.9))
    trials = [Trial("a", {"a.x": float(k)}, {("risk", ""): r}, {"use": u}) for k, (r, u) in enumerate(pairs)]
    watched = Watched(browser, interactive_page(frame_of(trials, {"risk": 0.1})), tmp_path)
    assert watched.chosen() == 1
    watched.page.locator("#slider").fill("0")
    assert watched.page.locator("#threshold").input_value() == "0"
    assert watched.chosen() == 0
    assert watched.complaints == []
    watched.page.close()


def test_a_search_that_chose_nothing_is_believed(browser: Browser, searched: pd.DataFrame, tmp_path: Path) -> None:
    watched = Watched(browser, interactive_page(searched.assign(chosen=False)), tmp_path)
    assert watched.chosen() is None
    assert "did not hold with fresh seeds" in watched.page.locator("#choice").inner_text()
    watched.page.close()
