"""A board's report as a page, as a PDF and as JSON."""

from __future__ import annotations

import json
import re
import sys
from io import BytesIO
from pathlib import Path

import pytest
from board_reports import TITLE, confidential, found, publishable, release
from test_reports import Page

from sfumato.contract import Section, TextTable
from sfumato.contract.score import digits
from sfumato.errors import DataError, MissingExtra
from sfumato.maps import RUMap
from sfumato.reports import BoardReport, Report
from sfumato.reports.report import to_pdf
from sfumato.reports.sections import SearchFindings

__all__ = ["confidential", "found", "publishable", "release"]  # fixtures


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
        p.rows for s in confidential.sections for p in s.content if isinstance(p, TextTable)
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


def test_what_is_half_a_search_is_refused_in_words(found: RUMap) -> None:
    facts = found.to_dict()
    facts["points"] = [{k: v for k, v in row.items() if k != "threshold"} for row in facts["points"]]
    with pytest.raises(DataError, match=r"'points\.threshold' is missing"):
        SearchFindings.of(facts)


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
