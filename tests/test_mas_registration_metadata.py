"""Metadata from DDI, and variables that are counted where the data live."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sfumato.mas.value_counts as tallying
from sfumato import Microdata
from sfumato.errors import DataError, SchemaError
from sfumato.formats.codebook import read_ddi
from sfumato.mas.analyses import CrossTab
from sfumato.mas.attacks.base import analysis_named
from sfumato.mas.policy import Policy
from sfumato.mas.value_counts import count_values, decile_edges
from sfumato.mas.vault import Vault
from sfumato.schema import Attribute, Role, Scale, Schema

DDI = """<?xml version="1.0" encoding="UTF-8"?>
<codeBook xmlns="ddi:codebook:2_5" version="2.5">
  <stdyDscr><citation><titlStmt><titl>Survey of
     Households 2019</titl></titlStmt></citation></stdyDscr>
  <dataDscr>
    <var ID="V1" name="caseid"><labl>Case number</labl><varFormat type="numeric"/></var>
    <var ID="V2" name="sex" intrvl="discrete"><labl>Sex of respondent</labl>
      <catgry><catValu>1</catValu><labl>male</labl></catgry>
      <catgry><catValu>2</catValu><labl>female</labl></catgry>
      <catgry missing="Y"><catValu>9</catValu><labl>no answer</labl></catgry>
      <varFormat type="numeric"/></var>
    <var ID="V3" name="age" intrvl="contin" dcml="0"><labl>Age</labl>
      <valrng><range min="0" max="110"/></valrng><invalrng><item VALUE="-1"/></invalrng></var>
    <var ID="V4" name="region" intrvl="discrete"><labl>Region</labl><varFormat type="character"/></var>
    <var ID="V5" name="wt" wgt="wgt" intrvl="contin"><labl>Weight</labl></var>
  </dataDscr>
</codeBook>
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "study.xml").write_text(DDI)
    return tmp_path / "study.xml"


def test_a_codebook_becomes_a_schema(book: Path) -> None:
    schema, title = read_ddi(book)
    assert title == "Survey of Households 2019"
    assert schema.names() == ("caseid", "sex", "age", "region", "wt")
    sex, age = schema["sex"], schema["age"]
    assert (sex.scale, sex.labels["2"], 9 in sex.missing) == (Scale.UNORDERED, "female", True)
    assert (age.scale, age.integer, -1 in age.missing) == (Scale.ORDERED, True, True)
    assert age.bounds == (
        None,
        None,
    )  # the range may be the least and the largest value of the data, which no label shows
    assert schema["wt"].role is Role.WEIGHT
    assert schema["region"].scale is Scale.UNORDERED
    assert not schema.names(role="key")


def test_a_data_set_is_registered_with_a_codebook(book: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n = 1_500
    frame = pd.DataFrame({
        "caseid": np.arange(n), "sex": rng.choice([1, 2, 9], n, p=[0.45, 0.45, 0.1]), "age": rng.integers(18, 90, n),
        "region": rng.choice(["N", "S"], n), "wt": rng.uniform(0.5, 2, n),
    })  # fmt: skip
    frame.loc[:9, "age"] = -1
    vault = Vault.create(tmp_path / "v")
    added = vault.add("hs", frame, book, identity="caseid", known=["sex", "age", "region"])
    assert added.title == "Survey of Households 2019"
    assert added.marks == {
        "caseid": "left out", "sex": "known to others", "age": "known to others", "region": "known to others",
        "wt": "the weight",
    }  # fmt: skip
    vault.cutpoints("hs", "age", "fixed", d=75)
    frozen = vault.freeze("hs", confirm=True)
    assert frozen.variables["sex"].levels == ("1", "2", "missing")
    assert frozen.variables["age"].levels[-1] == "missing"
    assert frozen.weighted
    counts = (
        vault.ask("hs", None, CrossTab(("sex",)), Policy.open().with_(title="exact")).frame().set_index("sex")["count"]
    )
    assert counts["missing"] == (frame["sex"] == 9).sum()
    same = [vault.ask("hs", {"sex": level}, CrossTab(("region",))).to_bytes() for level in ("female", 2)]
    assert same[0] == same[1]
    told = [
        vault.ask("hs", None, analysis_named("ols", formula=f)).notes[-1]
        for f in ("age ~ region + sex", "age ~ sex + region")
    ]
    assert told == ["Levels of sex: 1 = male, 2 = female."] * 2  # answers have codes, and say what they mean
    models = [
        vault.ask("hs", None, analysis_named("logistic", formula="sex ~ age", event=e)).to_bytes()
        for e in ("male", "1")
    ]
    assert models[0] == models[1]
    with pytest.raises(DataError, match="It has: 1, 2, male, female"):
        vault.ask("hs", None, analysis_named("logistic", formula="sex ~ age", event="missing"))


_PEOPLE = """<codeBook xmlns="ddi:codebook:2_5" xml:lang="en">
  <fileDscr ID="F1"/><fileDscr ID="F2"/>
  <dataDscr>
    <var name="home" files="F1" intrvl="contin"/><var name="rooms" files="F1" intrvl="contin"/>
    <var name="home" files="F2" intrvl="contin"/>
    <var name="age" files="F2" intrvl="contin"><labl xml:lang="fr">Âge</labl><labl xml:lang="en">Age</labl>
      <invalrng><range UNITS="INT" min="-9" max="-7"/></invalrng></var>
    <var name="sex" files="F2"><labl xml:lang="de">Geschlecht</labl>
      <catgry><catValu>1</catValu><labl xml:lang="fr">homme</labl><labl xml:lang="en">man</labl></catgry></var>
  </dataDscr>
</codeBook>
"""


def test_of_a_codebook_of_several_files_and_languages_one_of_each_is_taken(tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(_PEOPLE, "utf-8")
    schema, _ = read_ddi(tmp_path / "s.xml", lambda: ("home", "age", "sex", "extra"))
    assert schema.names() == ("home", "age", "sex")
    assert (schema["age"].label, schema["sex"].label, schema["sex"].labels) == ("Age", "Geschlecht", {"1": "man"})
    assert {-9, -8, -7} <= set(schema["age"].missing)
    homes = read_ddi(tmp_path / "s.xml", lambda: ("home", "rooms"))[0]
    assert homes.names() == ("home", "rooms")
    with pytest.raises(SchemaError, match="describes 2 files"):
        read_ddi(tmp_path / "s.xml")
    frame = pd.DataFrame({"home": [1, 2] * 40, "rooms": [3, 4] * 40})
    assert list(Vault.create(tmp_path / "v").add("homes", frame, tmp_path / "s.xml").marks) == ["home", "rooms"]


@pytest.mark.parametrize(
    "ends", ['max="-1"', 'min="-9"', 'min="0.5" max="3"', 'min="-9" max="99999"', 'min="a" max="b"']
)
def test_a_range_of_invalid_values_that_is_no_list_of_codes_is_refused_and_not_passed_over(
    tmp_path: Path, ends: str
) -> None:
    (tmp_path / "s.xml").write_text(_PEOPLE.replace('min="-9" max="-7"', ends), "utf-8")
    with pytest.raises(SchemaError, match="invalid values of variable 'age'"):
        read_ddi(tmp_path / "s.xml", lambda: ("home", "age", "sex"))


def test_a_codebook_cannot_bring_in_other_files_or_grow(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("swordfish")
    outside = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{secret}">]>'
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    for kind, entity in ((outside, "&e;"), (bomb, "&b;"), ('<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">', "")):
        path = tmp_path / "bad.xml"
        path.write_text(DDI.replace("<codeBook", f"{kind}<codeBook", 1).replace("Age<", f"Age{entity}<"))
        with pytest.raises(SchemaError, match="document type") as told:
            read_ddi(path)
        assert "swordfish" not in str(told.value)


@pytest.mark.parametrize("text", ["", "not xml", "<codeBook><var name=", "<a/>", DDI[:900]])
def test_what_is_no_codebook_is_refused_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"XML that can be read|describes no variables"):
        read_ddi(path)


# -- counting where the data live


def variable(kind: str, n: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(11)
    return {
        "ages": rng.integers(0, 100, n).astype(float), "incomes": rng.lognormal(10, 1.5, n).round(2),
        "both signs": rng.normal(0, 1e-3, n), "large whole": rng.integers(-10**9, 10**9, n).astype(float),
        "one value": np.full(n, 7.25), "with zeros": np.where(rng.random(n) < 0.7, 0, rng.exponential(1e6, n)),
        "an outlier": np.r_[rng.normal(50, 5, n - 1), 1e12],
    }[kind]  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["ages", "incomes", "both signs", "large whole", "one value", "with zeros", "an outlier"]
)
def test_counts_on_a_grid_give_bins_that_hold_what_they_say(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    x = variable(kind)
    x[:50] = np.nan
    data = Microdata(pd.DataFrame({"x": x}), Schema((Attribute("x"),)))
    monkeypatch.setattr(tallying, "_EXACT", 0)
    counted = count_values(data, "x")
    assert counted.tally.total == np.isfinite(x).sum()
    assert counted.tally.missing == 50
    from sfumato.mas import preview

    shown = preview(counted.tally.values, counted.tally.counts, 200, whole=counted.tally.whole)
    for cut in shown.cutpoints.values():
        settled = counted.settled(cut)
        codes = settled.codes(x)
        assert np.bincount(codes[codes >= 0], minlength=len(settled)).min() >= 200
    exact = np.nanquantile(x, np.arange(1, 10) / 10, method="inverted_cdf")
    near = decile_edges(counted.tally)
    width = np.nanquantile(x, 0.995) - np.nanquantile(x, 0.005)
    assert all(min(abs(edge - exact)) <= 1e-3 * width for edge in near)


def test_a_variable_without_values_counts_as_none_however_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Microdata(pd.DataFrame({"x": [np.nan, np.nan]}), Schema((Attribute("x"),)))
    for limit in (10, 0):
        monkeypatch.setattr(tallying, "_EXACT", limit)
        assert count_values(data, "x") is None


def test_a_file_with_a_column_of_which_every_value_is_missing_is_added_and_asked(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    n = 1_500
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 90, n), "gone": np.nan, "no": 99})
    schema = Schema((
        Attribute("sex", role="key", scale="unordered"), Attribute("age", role="key"),
        Attribute("gone", role="confidential"), Attribute("no", role="key", missing=(99,)),
    ))  # fmt: skip
    vault = Vault.create(tmp_path / "v")
    assert vault.add("people", frame, schema).without_levels == ("age", "gone", "no")
    with pytest.raises(DataError, match="every value of variable 'gone' is missing"):
        vault.cutpoints("people", "gone")
    vault.freeze("people")
    for name in ("gone", "no"):
        for formula in (f"{name} ~ age", f"age ~ {name}"):
            with pytest.raises(DataError, match=f"variable '{name}' has no public bounds"):
                vault.ask("people", None, analysis_named("ols", formula=formula))
        for analysis in (
            CrossTab(("sex",), of=name),
            analysis_named("quantiles", of=name),
            analysis_named("histogram", of=name),
        ):
            with pytest.raises(DataError, match=f"variable '{name}' has"):
                vault.ask("people", None, analysis)
