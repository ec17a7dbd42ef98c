"""What a notebook shows at the end of a cell: short, no record's value, and nothing fetched from elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from sfumato import Attribute, Microdata, Release, Role, Schema, ru_map
from sfumato.datasets import teachers
from sfumato.maps import RUMap
from sfumato.masks import KimNoise
from sfumato.risk import risk_profile


@pytest.fixture(scope="module")
def m() -> RUMap:
    return ru_map(
        teachers(200), KimNoise(), "kim_noise.lambda2", "salary", ["salary", "income"], replications=2, draws=1
    )


def test_a_chart_is_a_picture_that_fetches_nothing(m: RUMap) -> None:
    bundle = m.chart(0.04)._repr_mimebundle_(None, None)
    (picture,) = bundle.values() if isinstance(bundle, dict) else bundle[0].values()
    assert picture.startswith("<svg")
    for word in ("<script", "<image", "@import", "src=", "href="):
        assert word not in picture


def test_a_renderer_that_was_chosen_before_stays() -> None:
    code = "import altair as alt; alt.renderers.enable('png'); import sfumato.charts.theme; print(alt.renderers.active)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "png"


def test_a_map_is_told_in_a_line_and_shown_as_a_table(m: RUMap) -> None:
    assert repr(m) == "RUMap(25 points over kim_noise.lambda2: risk for salary, mean salary, mean income)"
    assert str(m) == repr(m)
    page = m._repr_html_()
    assert page.count("<tr") <= 23  # a head, twenty of 26 rows, and a row of dots
    assert "risk for salary" in page


def test_a_profile_is_told_by_its_verdict() -> None:
    profile = risk_profile(Release.as_it_is(teachers(300)))
    assert len(repr(profile)) < 200
    assert str(profile).splitlines() == list(profile.verdict)
    assert all(score.measure in profile._repr_html_() for score in profile.scores)


def test_microdata_show_their_columns_and_no_value() -> None:
    frame = pd.DataFrame({"name": ["Zacharias"], "pay": [98765.4321]})
    data = Microdata(
        frame, Schema((Attribute("name", Role.IDENTIFIER), Attribute("pay", Role.CONFIDENTIAL, unit="<euros>")))
    )
    page = data._repr_html_()
    assert "confidential" in page
    assert "&lt;euros&gt;" in page
    assert "Zacharias" not in page
    assert "98765" not in page
    assert len(repr(data)) < 80
