"""A release and a search that reports for a review board are made of, and how to read such a report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Attribute, Draws, Microdata, Release, Role, Schema, Snooper, search
from sfumato.contract import Section, TextTable
from sfumato.datasets import teachers
from sfumato.maps import RUMap
from sfumato.masks import MDAV, Displace, KimNoise
from sfumato.reports import BoardReport, Check, Report, board_report
from sfumato.risk import DCR, AttributeRisk, DistanceLinkage, KAnonymity
from sfumato.schema import Scale
from sfumato.utility import Hellinger, VarianceKept

SEED = 8675309123
TITLE = "Teachers of 2004"


def tables(report: Report) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table by its caption."""
    found = [p for s in report.sections for p in s.content if isinstance(p, TextTable)]
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
def found() -> RUMap:
    recipes = {"noise": KimNoise(columns=("salary",)), "groups": MDAV(columns=("salary",))}
    return search(
        teachers(200), recipes, [AttributeRisk("salary"), DistanceLinkage()], [VarianceKept(), Hellinger(over=("salary",))],
        {"risk for salary": 0.05, "linked by distance": 1.0}, effort="quick", confirm=4, draws=SEED,
    )  # fmt: skip
