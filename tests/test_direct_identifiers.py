"""Direct identifiers within texts: published examples are found, other texts are not, and the guess says which columns."""

from __future__ import annotations

import datetime as dt
import random
import re
import uuid
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from sfumato.data.microdata import Microdata
from sfumato.schema import Role, Schema
from sfumato.schema.direct_identifiers import found_in

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TEXT = "patient reports mild pain in the left knee since winter and takes no drugs price was paid for work at school"
WORDS = TEXT.split()
MAIL, WEB, HANDLE, PHONE, STREET = (
    "e-mail addresses",
    "web addresses",
    "user names",
    "telephone numbers",
    "street addresses",
)
IBAN, CARD, OFFICIAL = "account numbers (IBAN)", "credit card numbers", "official numbers of persons"


def kinds(text: str) -> set[str]:
    return {one.kind for one, passed in found_in(text) if passed}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("write to anna.berg@example.org please", MAIL),
        ("see https://example.org/x", WEB),
        ("www.example.org", WEB),
        ("thanks to @anna_berg for it", HANDLE),
        ("GB82 WEST 1234 5698 7654 32", IBAN),  # examples of the registry of ISO 13616
        ("paid from DE89370400440532013000 again", IBAN),
        ("FR1420041010050500013M02606", IBAN),
        ("card 4111 1111 1111 1111 was used", CARD),  # test numbers of the issuers
        ("378282246310005", CARD),
        ("3782-822463-10005", CARD),
        ("219-09-9999", OFFICIAL),  # United States: an advertisement of 1940
        ("2 55 08 14 168 025 38", OFFICIAL),  # France: the example of INSEE's documentation
        ("12345678Z", OFFICIAL),  # Spain
        ("X1234567L", OFFICIAL),
        ("RSSMRA85T10A562S", OFFICIAL),  # Italy: the specimen of the tax agency
        ("756.9217.0769.85", OFFICIAL),  # Switzerland: the specimen card
        ("811228-9874", OFFICIAL),  # Sweden: the specimen of the tax agency
        ("131052-308T", OFFICIAL),  # Finland: the specimen of the population register
        ("529.982.247-25", OFFICIAL),  # Brazil
        ("44051401359", OFFICIAL),  # Poland: the ministry's example
        ("111222333", OFFICIAL),  # Netherlands: a test number
        ("86095742719", OFFICIAL),  # Germany: the tax office's example
        ("AB 12 34 56 C", OFFICIAL),  # United Kingdom
        ("+49 30 1234567", PHONE),
        ("ring +1 (212) 555-0123", PHONE),
        ("0049 30 1234567", PHONE),
        ("0171-2345678", PHONE),
        ("(030) 123 45 67", PHONE),
        ("01.23.45.67.89", PHONE),
        ("(212) 555-0123", PHONE),
        ("on 01.02.2003 10:30 call 07911123456", PHONE),
        ("tel. 5551234", PHONE),
        ("lives at 221B Baker Street, London", STREET),
        ("Hauptstraße 12", STREET),
        ("12 rue de la Paix", STREET),
        ("Calle Mayor 12", STREET),
    ],
)
def test_published_examples_are_found(text: str, kind: str) -> None:
    assert kinds(text) == {kind}


@pytest.mark.parametrize(
    "text",
    [
        "GB82 WEST 1234 5698 7654 32", "4111 1111 1111 1111", "2 55 08 14 168 025 38", "12345678Z", "756.9217.0769.85",
        "811228-9874", "131052-308T", "529.982.247-25", "44051401359", "111222333", "86095742719",
    ],
)  # fmt: skip
def test_a_number_with_one_digit_changed_has_no_right_check_digit(text: str) -> None:
    """Every check digit notices every change of one digit; what is left may still read like a telephone number."""
    for place, sign in enumerate(text):
        if sign.isdigit():
            changed = f"{text[:place]}{(int(sign) + 1) % 10}{text[place + 1 :]}"
            assert not kinds(changed) & {IBAN, CARD, OFFICIAL}


R = random.Random(7)


def sentence(length: int = 8) -> str:
    return " ".join(R.choice(WORDS) for _ in range(length))


def day() -> dt.date:
    return dt.date(1950, 1, 1) + dt.timedelta(R.randrange(27_000))


def moment() -> str:
    return f"{R.randrange(24):02d}:{R.randrange(60):02d}:{R.randrange(60):02d}"


HARMLESS: dict[str, Callable[[], str]] = {
    "sentences": sentence,
    "sentences with dates": lambda: (
        f"{sentence(4)} on {day():%d.%m.%Y %H:%M} and {day():%d/%m/%y} or {day()} {sentence(3)}"
    ),
    "dates": lambda: f"{day():%d.%m.%Y}",
    "American dates": lambda: f"{day():%m/%d/%Y}",
    "times with a zone": lambda: f"{day()} {moment()}.123456+02:00",
    "hours": lambda: f"{moment()[:5]}-{moment()[:5]}",
    "amounts": lambda: f"{sentence(3)} £{R.randrange(10**7):,}.{R.randrange(100):02d}",
    "decimals": lambda: f"{R.random():.9f}",
    "decimal commas": lambda: f"{R.random() * 1e5:.4f}".replace(".", ","),
    "signed numbers": lambda: f"{R.uniform(-1e6, 1e6):+.3f}",
    "grouped numbers": lambda: f"{R.randrange(10**9):,}".replace(",", R.choice(" .'")),
    **{f"{n} digits": (lambda n=n: f"{R.randrange(10**n):0{n}d}") for n in (5, 9, 10, 11, 13, 15, 16)},  # type: ignore[misc]
    "zip codes": lambda: f"{R.randrange(10**5):05d}-{R.randrange(10**4):04d}",
    "diagnoses": lambda: f"{R.choice('ABCDEFG')}{R.randrange(100):02d}.{R.randrange(10)}",
    "products": lambda: f"A{R.choice('ABC')}-{R.randrange(10**4):04d}-{R.randrange(100):02d}",
    "letters and digits": lambda: (
        f"{R.choice('ABCXYZ')}{R.choice('ABC')}{R.randrange(10**6):06d}{R.choice('ABCDEFGHIJKLMNOP')}"
    ),
    "digits and a letter": lambda: f"{R.randrange(10**8):08d}{R.choice('ABCDEFGHJKLMNPQRSTVWXYZ')}",
    "uuids": lambda: str(uuid.UUID(int=R.getrandbits(128))),
    "books": lambda: f"978-{R.randrange(10)}-{R.randrange(1000):03d}-{R.randrange(10**5):05d}-{R.randrange(10)}",
    "networks": lambda: ".".join(str(R.randrange(256)) for _ in range(4)),
    "intervals": lambda: f"[{R.randrange(1000)}, {R.randrange(1000, 10**5)})",
    "years": lambda: f"{R.randrange(1950, 2020)}-{R.randrange(1950, 2020)} {sentence(3)}",
    "prices": lambda: f"{R.randrange(9)} items @ {R.randrange(99)}.50",
    "places on earth": lambda: f"{R.uniform(-90, 90):.5f}, {R.uniform(-180, 180):.5f}",
    "doses": lambda: (
        f"{sentence(2)} {R.randrange(500)} mg {R.randrange(4)}x daily, BP {R.randrange(90, 180)}/{R.randrange(50, 110)}"
    ),
    "results": lambda: (
        f"{R.randrange(6)}-{R.randrange(6)} {R.randrange(6)}-{R.randrange(6)} {R.randrange(6)}-{R.randrange(6)}"
    ),
}


def holds(schema: Schema) -> dict[str, str]:
    """Return what the guess says that columns hold."""
    told = {a.name: re.search(r"It holds [^.]* in (all|less|\d+ %)[^:.]*", a.reason) for a in schema}
    return {name: match.group() for name, match in told.items() if match}


@pytest.mark.parametrize("name", HARMLESS)
def test_other_texts_hold_none(name: str) -> None:
    schema = Schema.guess(pa.table({"x": [HARMLESS[name]() for _ in range(1_000)]}))
    assert holds(schema) == {}


@pytest.mark.filterwarnings("ignore::sfumato.errors.DataWarning")  # one file has a row of means
@pytest.mark.parametrize("path", sorted(DATA.rglob("*.csv")), ids=lambda path: path.stem)
def test_no_reference_file_holds_any(path: Path) -> None:
    assert holds(Microdata.read(path).schema) == {}


def notes(n: int, every: int, what: str) -> list[str]:
    return [f"{sentence()} {what} {i}" if i % every == 0 else R.choice(WORDS) for i in range(n)]


def test_a_column_with_some_is_flagged_with_the_kind_and_the_share_and_no_value() -> None:
    a = Schema.guess(pa.table({"remark": notes(1_000, 32, "mail to q.zxv@example.org or"), "n": range(1_000)}))[
        "remark"
    ]
    assert a.role is Role.KEY
    assert "It holds e-mail addresses in 3 % of its records: remove or mask them." in a.reason
    assert "zxv" not in a.reason


def test_a_column_that_consists_of_them_is_an_identifier_even_if_they_repeat() -> None:
    mails = [f"p{i % 40}@example.org" if i % 3 else "none" for i in range(900)]
    plain, named = (Schema.guess(pa.table({name: mails}))[name] for name in ("contact", "region"))
    assert plain.role is named.role is Role.IDENTIFIER
    assert plain.reason == "Its texts name or reach a person. It holds e-mail addresses in 67 % of its records."
    assert named.reason.startswith("The name suggests a place, but its texts name or reach a person.")


def test_half_of_the_texts_not_of_the_records_makes_an_identifier() -> None:
    mails = [f"p{i % 40}@example.org" if i % 10 == 0 else None for i in range(900)]
    a = Schema.guess(pa.table({"contact": mails}))["contact"]
    assert a.role is Role.IDENTIFIER
    assert "in 10 % of its records" in a.reason


def test_a_household_number_stays_one_and_is_flagged() -> None:
    a = Schema.guess(pa.table({"household": [f"h{i // 3}@example.org" for i in range(300)]}))["household"]
    assert a.role is Role.HOUSEHOLD
    assert "e-mail addresses in all of its records: remove or mask them." in a.reason


def test_several_kinds_are_named_the_most_frequent_first() -> None:
    texts = notes(1_000, 20, "mail to q@example.org")
    texts[::100] = ["call 030 1234567 please"] * 10
    assert (
        "e-mail addresses in 4 % of its records, telephone numbers in 1 %: remove"
        in Schema.guess(pa.table({"x": texts}))["x"].reason
    )


def test_check_digits_that_chance_explains_are_no_card_numbers() -> None:
    """One in ten numbers has the check digit of Luhn: a column of cards is told from one of serial numbers."""
    numbers = [f"4{R.randrange(10**15):015d}" for _ in range(4_000)]
    cards = [n for n in numbers if kinds(n) == {CARD}]
    assert 300 < len(cards) < 500
    assert holds(Schema.guess(pa.table({"x": numbers}))) == {}
    assert holds(Schema.guess(pa.table({"x": cards}))) == {"x": "It holds credit card numbers in all of its records"}


def test_a_few_among_very_many_are_found() -> None:
    texts = [f"{WORDS[i % 20]} {i}" for i in range(60_000)]
    texts[777], texts[50_001] = "ask q@example.org", "call 030 1234567"
    found = holds(Schema.guess(pa.table({"x": texts})))["x"]
    assert "e-mail addresses in less than 1 %" in found
    assert "telephone numbers in less than 1 %" in found


def test_every_frame_says_the_same_and_a_database_of_which_records() -> None:
    table = pa.table({"remark": notes(6_000, 10, "mail to q@example.org or"), "n": range(6_000)})
    frame = duckdb.connect().from_arrow(table)
    here = holds(Schema.guess(table))["remark"]
    assert here == "It holds e-mail addresses in 10 % of its records"
    assert (
        holds(Schema.guess(pl.from_arrow(table)))["remark"] == holds(Schema.guess(table.to_pandas()))["remark"] == here
    )
    assert holds(Schema.guess(frame))["remark"] == "It holds e-mail addresses in 10 % of its first 5,000 records"
    short = duckdb.connect().from_arrow(table.slice(0, 400))
    assert holds(Schema.guess(short))["remark"] == here
