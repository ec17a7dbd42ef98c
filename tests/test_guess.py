"""Guessing what columns mean: the roles that matter on known files, the same on every frame, and no value quoted."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_files import in_duckdb

from sfumato.data.microdata import Microdata
from sfumato.errors import DataError
from sfumato.schema import Attribute, DateHierarchy, PrefixHierarchy, Role, Scale, Schema
from sfumato.schema.facts import facts_of, words

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
N = 200


def read(name: str, separator: str = ",") -> pd.DataFrame:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the reference file {path} is not here")
    return pd.read_csv(path, sep=separator)


def guess(**columns: Any) -> Schema:
    return Schema.guess(pd.DataFrame(columns))


def one(name: str, values: Any) -> Attribute:
    return guess(**{name: values})[name]


def codes(*values: Any) -> list[Any]:
    return [values[i % len(values)] for i in range(N)]


RNG = np.random.default_rng(11)
AMOUNTS = RNG.lognormal(10, 1, N)


# -- known files


def test_the_household_survey_is_understood() -> None:
    schema = Schema.guess(read("testdata.csv"))
    assert schema.one("household") == "ori_hid"
    assert schema.one("weight") == "sampling_weight"
    assert schema.names(role="key") == (
        "urbrur",
        "roof",
        "walls",
        "water",
        "electcon",
        "relat",
        "sex",
        "age",
        "hhcivil",
    )
    assert schema.names(role="confidential") == ("expend", "income", "savings")
    assert schema["household_weights"].role is Role.OTHER
    assert "'sampling_weight'" in schema["household_weights"].reason
    assert (schema["age"].scale, schema["age"].integer) == (Scale.ORDERED, True)
    assert (schema["sex"].scale, schema["sex"].integer) == (Scale.UNORDERED, False)
    assert (schema["income"].scale, schema["income"].bounds) == (Scale.ORDERED, (None, None))


def test_the_labour_force_survey_is_understood() -> None:
    schema = Schema.guess(read("free1.csv"))
    assert schema.one("weight") == "WEIGHT"
    assert schema.names(role="confidential") == ("INCOME", "MONEY", "ASSETS", "DEBTS")
    assert schema.names(role="identifier") == ()
    assert set(schema.names(role="key")) == set(schema.names()) - {"WEIGHT", "INCOME", "MONEY", "ASSETS", "DEBTS"}
    assert schema["REGION"].scale is Scale.UNORDERED
    assert "stands apart" in schema["AGEYOUNG"].reason  # 97: no young child
    assert "stands apart" not in schema["AGE"].reason


def test_the_business_file_is_understood() -> None:
    schema = Schema.guess(read("EIA.csv"))
    assert schema.one("contributor") == "UTILITYID"
    assert schema.names(role="identifier") == ("UTILNAME",)
    assert schema.names(role="key") == ("STATE",)
    assert schema.names(role="other") == ("YEAR", "MONTH")
    money = [n for n in schema.names() if n.endswith(("REVENUE", "SALES"))]
    assert schema.names(role="confidential") == tuple(money)
    assert all(not schema[n].integer for n in money)


def test_the_census_extract_is_understood() -> None:
    schema = Schema.guess(read("arx/adult.csv", ";"))
    assert schema.names(role="confidential") == ("salary-class",)
    assert set(schema.names(role="key")) == set(schema.names()) - {"salary-class"}
    assert [a.name for a in schema if a.scale is Scale.ORDERED] == ["age"]


def test_incomes_without_telling_names_are_confidential_to_be_safe() -> None:
    schema = Schema.guess(read("CASCrefmicrodata.csv"))
    assert schema.one("weight") == "AFNLWGT"
    assert set(schema.names(role="confidential")) == set(schema.names()) - {"AFNLWGT"}
    assert "to be safe" in schema["PTOTVAL"].reason


@pytest.mark.parametrize(
    ("name", "separator"),
    [("testdata.csv", ","), ("free1.csv", ","), ("EIA.csv", ","), ("arx/adult.csv", ";"), ("arx/test2.csv", ";")],
)
def test_reasons_are_there_and_quote_no_value(name: str, separator: str) -> None:
    frame = read(name, separator)
    for attribute in Schema.guess(frame):
        assert re.match(r"[A-Z'].*\.$", attribute.reason)
        assert not re.search(r"\d", attribute.reason.replace(f"'{attribute.name}'", ""))
        if not pd.api.types.is_numeric_dtype(frame[attribute.name]):
            said = re.findall(r"[\w-]+", attribute.reason)
            assert not set(said) & set(frame[attribute.name].unique())


# -- every frame


def rows() -> pd.DataFrame:
    days = [date(1950, 1, 1) + timedelta(days=37 * i) for i in range(N)]
    return pd.DataFrame(
        {
            "person id": range(N),
            "Name": [f"P{i}" for i in range(N)],
            "hhid": [i // 3 for i in range(N)],
            "weight": RNG.uniform(1, 9, N),
            "gender": codes("m", "f", None),
            "AGE": RNG.integers(16, 99, N),
            "zip.code": codes(*(f"{i:05d}" for i in range(900, 960))),
            "plz": codes(*range(10_115, 10_175)),
            "birth_date": pd.to_datetime(days),
            "seen": [d.isoformat() for d in days],
            "smoker": codes(True, False),
            "salary": np.where(np.arange(N) % 9 == 0, np.nan, AMOUNTS),
            "wealth": np.where(np.arange(N) % 10 == 0, -9, np.round(AMOUNTS)),
            "diagnosis": pd.Categorical(codes("J45", "E11.9", "unknown")),
            "q12": codes(1, 2, 3, 8),
            "q13": codes(1.0, 2.0, np.nan, 3.0),  # whole, with gaps: floats to pandas
            "ratio": RNG.normal(size=N),
            "empty": np.full(N, np.nan),
            "same": 1,
        }
    )


ROLES = {
    "person id": "identifier", "Name": "identifier", "hhid": "household", "weight": "weight", "gender": "key", "AGE": "key",
    "zip.code": "key", "plz": "key", "birth_date": "key", "seen": "key", "smoker": "confidential", "salary": "confidential",
    "wealth": "confidential", "diagnosis": "confidential", "q12": "key", "q13": "key", "ratio": "confidential", "empty": "other",
    "same": "other",
}  # fmt: skip


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with another index": lambda frame: frame.set_index(np.arange(N)[::-1] + 5),
    "pandas nullable": lambda frame: frame.convert_dtypes(),
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "duckdb": in_duckdb,
}


def test_roles_and_scales_of_every_kind_of_column() -> None:
    schema = Schema.guess(rows())
    assert {a.name: a.role.value for a in schema} == ROLES
    assert schema["zip.code"].hierarchy == schema["plz"].hierarchy == PrefixHierarchy(5)
    assert schema["seen"].hierarchy == DateHierarchy()
    assert schema["birth_date"].scale is Scale.ORDERED
    assert "smallest value stands apart" in schema["wealth"].reason
    assert "reads like 'no answer'" in schema["diagnosis"].reason
    assert schema["empty"].reason == "Every value is missing."
    assert schema["q13"].scale is Scale.UNORDERED  # codes without an order, as q12


@pytest.mark.parametrize("kind", FRAMES)
def test_the_guess_is_the_same_on_every_frame(kind: str) -> None:
    frame = rows()
    expected, found = Schema.guess(frame), Schema.guess(FRAMES[kind](frame))
    assert found == expected
    assert [a.reason for a in found] == [a.reason for a in expected]


@pytest.mark.parametrize("kind", FRAMES)
def test_microdata_without_a_schema_guess_the_same(kind: str) -> None:
    frame = rows()
    assert Microdata(FRAMES[kind](frame)).schema == Schema.guess(frame)


OF_EACH_TYPE = ["person id", "gender", "zip.code", "birth_date", "smoker", "salary", "diagnosis", "q13", "empty"]


@pytest.mark.parametrize("columns", [OF_EACH_TYPE, pytest.param(list(ROLES), marks=pytest.mark.verify)], ids=len)
def test_the_guess_is_the_same_on_spark(columns: list[str], spark: Any) -> None:
    frame = rows()[columns].copy()
    frame["birth_date"] = frame["birth_date"].dt.date
    plain = frame.astype({"diagnosis": str})
    expected, found = Schema.guess(frame), Schema.guess(spark.createDataFrame(plain))
    assert found == expected
    assert [a.reason for a in found] == [a.reason for a in expected]


def test_a_database_is_asked_for_its_facts_once_and_for_its_first_records_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import narwhals as nw

    asked = []
    collect = nw.LazyFrame.collect
    monkeypatch.setattr(nw.LazyFrame, "collect", lambda self, *a, **k: asked.append(1) or collect(self, *a, **k))
    Schema.guess(in_duckdb(rows()))
    assert asked == [1, 1]


def test_nan_and_null_are_both_missing() -> None:
    frame = pl.DataFrame({"x": [1.0, None, float("nan"), 2.0]})
    for view in (frame, frame.lazy(), frame.to_arrow()):
        (facts,) = facts_of(view)
        assert (facts.records, facts.missing, facts.distinct, facts.whole) == (4, 2, 2, True)


def test_pandas_objects_are_told_by_what_they_hold() -> None:
    schema = guess(
        joined=pd.Series([date(2020, 1, 1), None, date(2021, 1, 1)], dtype=object),
        answer=pd.Series([True, None, False], dtype=object),
    )
    assert schema["joined"].scale is Scale.ORDERED
    assert schema["answer"].reason.startswith("Yes or no")


# -- single columns


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *[
            (n, "identifier")
            for n in ("ID", "pid", "person_id", "PatientNo", "caseid", "ssn", "Passport No.", "e-mail")
        ],
        *[(n, "identifier") for n in ("phone_number", "address", "Vorname", "last.name", "IBAN", "Telefonnummer")],
        *[(n, "key") for n in ("region", "Postleitzahl", "occupation", "Beruf", "nationalité", "city_name", "country")],
        *[(n, "confidential") for n in ("disease", "Diagnose", "religion", "ICD10", "enfermedad")],
    ],
)
def test_names_of_text_columns_are_understood(name: str, role: str) -> None:
    values = [f"v{i:03d}" for i in range(N)] if role == "identifier" else codes("a1", "b22", "c3", "d4")
    assert one(name, values).role == role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        *[
            (n, "confidential")
            for n in ("income", "Total_Income", "hourlyWage", "EINKOMMEN", "revenu", "ingresos", "ldl")
        ],
        *[(n, "confidential") for n in ("statetax", "rent", "medical cost", "debts", "x17", "birthweight")],
        *[(n, "weight") for n in ("weight", "wgt", "pweight", "sampling_weight", "Hochrechnungsfaktor", "poids", "w")],
    ],
)
def test_names_of_number_columns_are_understood(name: str, role: str) -> None:
    attribute = one(name, AMOUNTS)
    assert (attribute.role.value, attribute.scale, attribute.integer) == (role, Scale.ORDERED, False)


@pytest.mark.parametrize(
    "name", ["average", "package", "parent", "taxi", "covid", "current", "latent", "agency", "sewage", "valid"]
)
def test_words_inside_other_words_do_not_count(name: str) -> None:
    assert one(name, AMOUNTS).reason.startswith("Many different numbers of unknown meaning")


@pytest.mark.parametrize("name", ["age", "Alter", "edad", "AGEYOUNG", "age_at_birth", "hhsize", "num_children", "yob"])
def test_ages_years_and_counts_are_ordered_whole_keys(name: str) -> None:
    attribute = one(name, RNG.integers(0, 80, N))
    assert (attribute.role, attribute.scale, attribute.integer) == (Role.KEY, Scale.ORDERED, True)


def test_a_different_text_in_every_record_is_an_identifier() -> None:
    attribute = one("x", [f"code {i}" for i in range(N)])
    assert attribute.role is Role.IDENTIFIER
    assert attribute.reason == "A different value in every record that has one."
    assert "almost every" in one("x", [f"code {max(i, 5)}" for i in range(N)]).reason
    assert one("x", [f"code {i}" for i in range(4)]).role is Role.KEY  # four records say nothing


def test_long_text_is_an_identifier() -> None:
    said = [
        "My neighbour, who works at the mill by the river, has told me about it. " * (1 + i % 150) for i in range(N)
    ]
    assert one("remarks", said).role is Role.IDENTIFIER


def test_running_and_register_numbers_are_identifiers() -> None:
    assert one("x", RNG.permutation(N) + 17).role is Role.IDENTIFIER
    assert one("x", RNG.choice(89_999_999, N, replace=False) + 10_000_000).role is Role.IDENTIFIER
    assert one("x", RNG.choice(89_999, N, replace=False)).role is Role.CONFIDENTIAL


M = 1000
SERIALS = {
    "a register's numbers in a sample of one in three": 1000 + 3 * np.arange(M) + RNG.integers(0, 3, M),
    "numbers with gaps, in any order": RNG.permutation(4 * M)[:M] + 1,
    "numbers of which two in a hundred stand twice": [5000 + i - (i % 50 == 1) for i in range(M)],
    "a year and a running number": 2_026_000_000 + np.arange(M) * 2,
    "numbers as they are where some are missing": np.where(np.arange(M) % 9 == 0, np.nan, np.arange(M) + 1.0),
}


@pytest.mark.parametrize("name", ["x", "employee", "hospital", "health", "region", "stratum"])
@pytest.mark.parametrize("what", SERIALS)
def test_numbers_that_are_given_to_records_one_by_one_are_identifiers_whatever_their_name(what: str, name: str) -> None:
    attribute = one(name, SERIALS[what])
    assert attribute.role is Role.IDENTIFIER
    assert not re.search(r"\d", attribute.reason)


@pytest.mark.parametrize(
    "name",
    ["patient", "case", "INSEE", "dossier", "Matricule", "Aktenzeichen", "file no", "voter", "sample ref", "member"],
)
def test_different_numbers_under_the_name_of_a_number_are_identifiers(name: str) -> None:
    spread = RNG.choice(10**6, M, replace=False) + 1  # too far apart for the numbers alone to tell
    assert one(name, spread).role is Role.IDENTIFIER
    assert one("x", spread).role is Role.CONFIDENTIAL
    assert one(name, [f"A{v}" for v in spread]).role is Role.IDENTIFIER
    assert one(name, codes(*range(30))).role is not Role.IDENTIFIER  # it repeats


AMOUNTS_OF_MONEY = {
    "to the cent": np.round(RNG.lognormal(10, 1, M), 2),
    "in cents, all different": np.unique(np.round(100 * RNG.lognormal(10, 1, 2 * M)))[:M].astype(int),
    "of large firms, of one length": RNG.choice(np.arange(100_000, 999_999), M, replace=False),
    "in whole units": np.round(RNG.lognormal(12, 1, M)).astype(int),
}


@pytest.mark.parametrize("name", ["income", "x", "Umsatz", "v"])
@pytest.mark.parametrize("what", AMOUNTS_OF_MONEY)
def test_amounts_that_happen_to_be_all_different_stay_confidential(what: str, name: str) -> None:
    assert one(name, RNG.permutation(AMOUNTS_OF_MONEY[what])).role is Role.CONFIDENTIAL
    assert one("income", np.arange(M) * 3 + 1000).role is Role.CONFIDENTIAL  # its name says so


UNIQUE_TEXT = [f"{i} Mill Lane" for i in range(N)]


@pytest.mark.parametrize(
    "name", ["residence", "occupation", "hospital", "period", "stratum", "birth", "origin", "school", "relation", "x"]
)
def test_text_that_is_different_in_every_record_is_an_identifier_and_no_key_whatever_its_name(name: str) -> None:
    assert one(name, UNIQUE_TEXT).role is Role.IDENTIFIER
    assert one(name, [max(UNIQUE_TEXT[i], UNIQUE_TEXT[i - i % 20]) for i in range(N)]).role is Role.IDENTIFIER
    assert "almost every record" in one(name, [UNIQUE_TEXT[max(i, 9)] for i in range(N)]).reason


def test_text_that_seldom_repeats_is_an_identifier_where_the_name_says_nothing() -> None:
    surnames = [f"name{v}" for v in RNG.integers(0, 3 * N // 2, N)]
    assert N // 2 < len(set(surnames)) < 0.9 * N
    assert one("x", surnames).role is Role.IDENTIFIER
    assert one("x", codes(*(f"name{i}" for i in range(50)))).role is Role.KEY
    assert one("town", surnames).role is Role.KEY


def test_text_that_differs_by_nature_keeps_the_role_of_its_name() -> None:
    assert one("zip", [f"{v:05d}" for v in RNG.choice(99_999, N, replace=False)]).role is Role.KEY  # it generalises
    assert one("birth_date", [(date(1950, 1, 1) + timedelta(days=i)).isoformat() for i in range(N)]).role is Role.KEY
    assert one("income", [f"{v:.2f}".replace(".", ",") for v in AMOUNTS]).role is Role.CONFIDENTIAL
    assert one("height", [f"1,{i:03d}" for i in range(N)]).role is Role.KEY
    assert one("diagnosis", [f"D{i}" for i in range(N)]).role is Role.CONFIDENTIAL
    assert "make it an identifier" in one("diagnosis", [f"D{i}" for i in range(N)]).reason
    assert one("health notes", [f"Case {i}: " + "was seen again. " * 6 for i in range(N)]).role is Role.IDENTIFIER


@pytest.mark.parametrize("name", ["Tarragona.csv", "EIA.csv", "testdata.csv", "testdata2.csv", "CASCrefmicrodata.csv"])
def test_no_amount_of_a_known_file_is_taken_for_an_identifier(name: str) -> None:
    frame = read(name)
    found = set(Schema.guess(frame).names(role="identifier"))
    assert not found & set(frame.select_dtypes("number").columns)


@pytest.mark.parametrize("shift", [1, 40_000, 123_456_789])
def test_a_number_of_each_record_added_to_a_known_file_is_found(shift: int) -> None:
    frame = read("testdata.csv")
    frame["v7"] = RNG.permutation(len(frame)) * 2 + shift
    assert Schema.guess(frame).names(role="identifier") == ("v7",)


def test_what_looks_like_contact_details_may_be_a_question() -> None:
    assert one("phone", codes(1, 2)).role is Role.KEY
    assert one("email", codes(True, False)).role is Role.KEY


def test_group_numbers_that_repeat_are_keys() -> None:
    assert one("school_id", codes(*range(50))).role is Role.KEY
    assert one("thing_id", codes(*range(50))).role is Role.KEY
    assert one("thing_id", range(0, 3 * N, 3)).role is Role.IDENTIFIER


def test_household_numbers_that_do_not_repeat_are_identifiers() -> None:
    assert one("household_id", range(N)).role is Role.IDENTIFIER
    assert one("household_id", [i // 2 for i in range(N)]).role is Role.HOUSEHOLD
    schema = guess(hid=[i // 2 for i in range(N)], family_id=[i // 2 for i in range(N)])
    assert schema.names(role="household") == ("hid",)
    assert "'hid' is taken as that already" in schema["family_id"].reason


def test_there_is_one_weight_and_that_of_persons_comes_first() -> None:
    schema = guess(household_weight=AMOUNTS, weight=AMOUNTS, rep_wgt_1=AMOUNTS)
    assert schema.names(role="weight") == ("weight",)
    assert schema.names(role="other") == ("household_weight", "rep_wgt_1")


def test_weights_are_not_negative_and_bodies_are_not_weights() -> None:
    assert one("weight", AMOUNTS - 99_999).role is Role.CONFIDENTIAL
    assert guess(weight=AMOUNTS, height=AMOUNTS)["weight"].reason.startswith("The name suggests the weight of a body")
    assert guess(sampling_weight=AMOUNTS, height=AMOUNTS)["sampling_weight"].role is Role.WEIGHT
    assert guess(poids=AMOUNTS, taille_menage=codes(1, 2, 3))["poids"].role is Role.WEIGHT
    assert one("weight", [-9, *AMOUNTS[1:]]).role is Role.WEIGHT  # a code for no answer


def test_a_firm_that_repeats_is_a_contributor() -> None:
    assert one("company", codes(*"abcdefgh")).role is Role.CONTRIBUTOR
    assert one("firm_id", [i // 2 for i in range(N)]).role is Role.CONTRIBUTOR
    assert one("firm_id", range(N)).role is Role.IDENTIFIER
    assert one("firm_size", codes(*range(30))).role is Role.KEY
    assert one("stratum", codes(1, 2, 3)).role is Role.STRATUM


def test_bounds_are_never_guessed_and_the_reason_says_so() -> None:
    attribute = one("income", np.round(AMOUNTS))
    assert (attribute.bounds, attribute.integer) == ((None, None), False)
    assert attribute.reason == (
        "The name suggests money. Masked values may have decimals or fall below zero unless 'integer' and 'minimum' are set."
    )
    assert "decimals" not in one("income", AMOUNTS).reason
    assert "below zero" not in one("income", AMOUNTS - 99_999).reason


@pytest.mark.parametrize(
    ("values", "end"),
    [
        (codes(*range(18), 97), "largest"),
        (codes(*range(86), 99), "largest"),
        (codes(*range(100, 5000, 100), -9), "smallest"),
        (codes(0, 1, 2, -1), "smallest"),
        (codes(*range(1, 10)), ""),
        (codes(*range(100)), ""),
        (codes(*range(-5, 6)), ""),
        (AMOUNTS, ""),
    ],
)
def test_codes_for_no_answer_are_pointed_at_and_never_named(values: Any, end: str) -> None:
    reason = one("x", values).reason
    assert ("stands apart" in reason) is bool(end)
    assert (f"The {end} value stands apart" in reason) is bool(end)
    assert not re.search(r"\d", reason)
    assert one("x", values).missing == ()


def test_zip_codes_generalise_by_their_first_characters() -> None:
    assert one("zip", codes(2139, 2140, 90210)).hierarchy == PrefixHierarchy(5)
    assert one("zip", codes(2139, 2140)).hierarchy == PrefixHierarchy(5)  # the zero in front is lost
    assert one("plz", codes("1010", "1020")).hierarchy == PrefixHierarchy(4)
    assert one("postcode", codes("K1A 0B1", "K1A 0B2")).hierarchy == PrefixHierarchy(7, alphabet=36)
    ragged = one("postcode", codes("SW1A 1AA", "E1 6AN"))
    assert (ragged.scale, ragged.hierarchy) == (Scale.UNORDERED, None)
    assert "no hierarchy is guessed" in ragged.reason
    assert one("zip", codes(2139, 902101234)).hierarchy is None
    assert one("nace", codes(*(f"{i:04d}" for i in range(0, 900, 30)))).scale is Scale.PARTIALLY_ORDERED


def test_guessed_hierarchies_take_every_value() -> None:
    for values in (codes(2139, 90210), codes("02139", "90210"), codes("K1A 0B1", "V5K 0A1")):
        hierarchy = one("zip", values).hierarchy
        assert hierarchy is not None
        assert len(hierarchy.generalise(values, 1)) == N


def test_constant_columns_say_so_and_stay_secret_where_the_name_does() -> None:
    assert one("x", [3] * N).reason.startswith("The same value in every record")
    hiv = one("hiv", ["positive"] * N)
    assert hiv.role is Role.CONFIDENTIAL
    assert "the same value in every record" in hiv.reason
    assert "positive" not in hiv.reason


def test_values_that_no_method_can_mask_are_removed() -> None:
    schema = Schema.guess(pa.table({"track": [[1, 2], [3]], "photo": [b"1", b"2"], "took": [timedelta(1), None]}))
    assert schema.names(role="identifier") == ("track", "photo", "took")


def test_mixed_columns_do_not_break_the_guess() -> None:
    schema = guess(mixed=pd.Series([1, "secret", None], dtype=object))
    assert schema["mixed"].role is Role.IDENTIFIER
    assert "secret" not in schema["mixed"].reason


def test_large_whole_numbers_and_small_types_are_fine() -> None:
    big = pa.table({"x": pa.array([2**62 + i for i in range(N)])})
    assert Schema.guess(big)["x"].role is Role.IDENTIFIER
    small = pa.table({f"x{t}": pa.array(codes(1, 2, 99), t) for t in (pa.int8(), pa.uint8(), pa.int16(), pa.float32())})
    assert {a.role for a in Schema.guess(small)} == {Role.KEY}
    assert {a.role for a in Schema.guess(duckdb.from_arrow(small))} == {Role.KEY}
    assert {a.role for a in Schema.guess(pl.from_arrow(small))} == {Role.KEY}


@pytest.mark.parametrize("n", [0, 1, 2])
def test_very_few_records_are_fine(n: int) -> None:
    frame = rows().head(n)
    for kind in ("pandas", "polars", "arrow", "duckdb", "lazy polars"):
        view = frame if kind == "pandas" else FRAMES[kind](frame)
        schema = Schema.guess(view)
        assert schema["salary"].role is Role.CONFIDENTIAL
        assert all(a.reason for a in schema)
        assert Schema.from_toml(schema.to_toml()) == schema


def test_a_frame_without_columns_gives_an_empty_schema() -> None:
    assert len(Schema.guess(pd.DataFrame())) == 0


def test_what_is_no_frame_is_refused_in_words() -> None:
    with pytest.raises(DataError, match="an object of type list is not a frame"):
        Schema.guess([1, 2])
    with pytest.raises(DataError, match="column names must be text"):
        Schema.guess(pd.DataFrame({1: [2]}))
    with pytest.raises(DataError, match="stand more than once"):
        Schema.guess(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("ZIPCode", "zip code"),
        ("ori_hid", "ori hid"),
        ("Größe", "grosse"),
        ("Nationalité", "nationalite"),
        ("EDUC1", "educ 1"),
        ("FIXED.ASSETS", "fixed assets"),
        ("salary-class", "salary class"),
        ("HouseholdID", "household id"),
        ("__x__", "x"),
        ("年齢", "年齢"),
    ],
)
def test_names_are_read_as_words(name: str, plain: str) -> None:
    assert words(name) == plain


columns = st.one_of(
    st.lists(st.none() | st.floats(), min_size=3, max_size=3).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.int64())
    ),
    st.lists(st.none() | st.text(max_size=5), min_size=3, max_size=3).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.none() | st.booleans(), min_size=3, max_size=3).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=3, max_size=3).map(
        lambda v: pa.array(v, pa.timestamp("us"))
    ),
)


@given(st.dictionaries(st.text(min_size=1, max_size=9), columns, min_size=1, max_size=4))
def test_any_table_gets_a_schema_that_fits_it(table: dict[str, pa.Array]) -> None:
    schema = Schema.guess(pa.table(table))
    assert schema.names() == tuple(table)
    assert all(a.reason for a in schema)
    assert Schema.from_toml(schema.to_toml()) == schema


def test_numbers_with_a_decimal_comma_are_told_apart_from_other_text_on_every_frame() -> None:
    frame = pd.DataFrame({
        "pay": codes("1,5", "-20", None, "3,25"), "codes": codes("1", "2", None), "towns": codes("Ulm, Donau", "Bern"),
    })  # fmt: skip
    for make in FRAMES.values():
        facts = {f.name: f for f in facts_of(make(frame))}
        assert {name: f.commas for name, f in facts.items()} == {"pay": True, "codes": False, "towns": False}
        assert facts["codes"].digits  # although some are missing
    assert "decimal=','" in Schema.guess(frame)["pay"].reason


def test_a_file_of_more_than_two_thousand_columns_is_guessed_in_duckdb_as_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = np.random.default_rng(1).integers(0, 40, (30, 2_100))
    columns: dict[str, Any] = {f'v"{i}': codes[:, i] for i in range(2_100)}
    table = pa.table({**columns, "text": [f"t{i}" for i in range(30)], "gap": pa.array([1.5, None, 99.0] * 10)})
    relation = duckdb.connect().from_arrow(table)
    assert facts_of(relation) == facts_of(table)
    monkeypatch.setattr("sfumato.schema.facts._CELLS", 700)
    with pytest.raises(DataError, match=r"2,102 columns, and a schema is guessed for at most 2,000 in a database"):
        facts_of(relation)


def test_zero_with_a_minus_sign_is_the_same_value_as_zero() -> None:
    for frame in (pa.table({"x": [0.0, -0.0, 3.0]}), pd.DataFrame({"x": [0.0, -0.0, 3.0]})):
        assert facts_of(frame)[0].distinct == 2
