"""Direct identifiers within texts: e-mail and web addresses, telephone numbers, street addresses, official numbers.

Names of people are not looked for: no pattern tells them from other words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw

MAINLY = 0.5
"""A column of which at least this share of the values holds one of a kind consists of them."""
_MOST = 5_000
"""Texts of a column that are looked at one by one; of more candidates some at even distances."""
_ALL, _FEWEST = 200_000, 100
"""The same for all columns together, and for one of very many."""
_LENGTH = 2_000
"""Characters of a text that are looked at."""
_CHANCE = 1e-3
"""Numbers that pass a check are reported if chance alone would pass so many of the candidates less often than this."""


_FORM = 1e-4
"""That chance where the form alone says nearly enough, such as four groups of four digits."""


# --- check digits


def _digits(text: str) -> list[int]:
    return [int(c) for c in text if c.isdigit()]


def _luhn(text: str) -> bool:
    """Whether a number has the check digit of ISO/IEC 7812-1, annex B."""
    digits = _digits(text)
    doubled = [sum(divmod(2 * d, 10)) if i % 2 else d for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0 and len(set(digits)) > 1


def _iban(text: str) -> bool:
    """Whether an account number has the check digits of ISO 13616 (ISO/IEC 7064, mod 97-10)."""
    plain = text.replace(" ", "").upper()
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def _french(text: str) -> bool:
    """Whether a French social security number (NIR, by INSEE) has its key: 97 minus the rest by 97; Corsica is 2A and 2B."""
    plain = re.sub(r"\W", "", text).upper().replace("2A", "19").replace("2B", "18")
    return plain.isdigit() and int(plain[-2:]) == 97 - int(plain[:-2]) % 97


def _spanish(text: str) -> bool:
    """Whether a Spanish identity number (DNI, NIE) has its letter: the rest of the number by 23."""
    plain = re.sub(r"\W", "", text).upper()
    plain = str("XYZ".index(plain[0])) + plain[1:] if plain[0] in "XYZ" else plain
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(plain[:-1]) % 23] == plain[-1]


_ODD = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23]


def _italian(text: str) -> bool:
    """Whether an Italian tax code has its last letter (decree of 23 December 1976)."""
    values = [int(c) if c.isdigit() else ord(c) - 65 for c in text.upper()]
    total = sum(_ODD[v] if i % 2 == 0 else v for i, v in enumerate(values[:15]))
    return total % 26 == values[15]


def _swiss(text: str) -> bool:
    """Whether a Swiss insurance number (AHV) has the check digit of an EAN-13."""
    digits = _digits(text)
    return sum(d * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10 == 0


def _swedish(text: str) -> bool:
    """Whether a Swedish personal number has its check digit, that of Luhn over the last ten digits."""
    return _luhn("".join(map(str, _digits(text)[-10:])))


def _finnish(text: str) -> bool:
    """Whether a Finnish identity code has its check character: the rest of the nine digits by 31."""
    digits = "".join(map(str, _digits(text[:-1])))
    return "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits) % 31] == text[-1].upper()


def _weighted(weights: Sequence[int], modulus: int, rest: int = 0) -> Callable[[str], bool]:
    """Return the check of a number whose weighted sum of digits has a certain rest."""

    def check(text: str) -> bool:
        digits = _digits(text)
        return sum(w * d for w, d in zip(weights, digits, strict=True)) % modulus == rest and len(set(digits)) > 1

    return check


def _telephone(fewest: int) -> Callable[[str], bool]:
    """Return the check of a telephone number: some digits, at most the 15 of ITU-T E.164, and no number of another kind."""

    def check(text: str) -> bool:
        amount = re.fullmatch(r"[+]?\d+[.,]\d+", text)
        plain = text.startswith("0") and text.isdigit()  # a code or a number with zeros in front
        american_zip = re.fullmatch(r"0\d{4}-\d{4}", text)
        return fewest <= len(_digits(text)) <= 15 and not (amount or plain or american_zip)

    return check


def _british(text: str) -> bool:
    """Whether a British insurance number has letters that are given out (HM Revenue and Customs, NIM39110)."""
    plain = text.replace(" ", "")
    return re.fullmatch("[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z].{6}[A-D]", plain) is not None


_polish = _weighted((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10)
"""PESEL: act of 24 September 2010, annex."""
_dutch = _weighted((9, 8, 7, 6, 5, 4, 3, 2, -1), 11)
"""BSN: the eleven test."""


def _brazilian(text: str) -> bool:
    """Whether a Brazilian CPF has its two check digits."""
    digits = _digits(text)
    for n in (9, 10):
        rest = sum(d * (n + 1 - i) for i, d in enumerate(digits[:n])) * 10 % 11 % 10
        if rest != digits[n]:
            return False
    return len(set(digits)) > 1


def _german(text: str) -> bool:
    """Whether a German tax number of a person has its check digit (ISO/IEC 7064, mod 11,10)."""
    digits = _digits(text)
    product = 10
    for digit in digits[:10]:
        product = 2 * ((digit + product) % 10 or 10) % 11
    return (11 - product) % 10 == digits[10] and len(set(digits[:10])) in (8, 9)


# --- kinds


@dataclass(frozen=True)
class IdentifierPattern:
    """A way to write one kind of identifier.

    Parameters
    ----------
    kind
        The kind in words, in the plural.
    pattern
        What a text holds that is a candidate.
    needs
        A sign that each such text has, by which others are passed over; "0" for five digits.
    check
        Whether a candidate has the right check digits; without one the form is enough.
    chance
        How often a candidate that is something else passes the check.
    """

    kind: str
    pattern: re.Pattern[str]
    needs: str = "0"
    check: Callable[[str], bool] | None = None
    chance: float = 0.0


EMAIL, WEB, HANDLE, PHONE, STREET = (
    "e-mail addresses", "web addresses", "user names", "telephone numbers", "street addresses",
)  # fmt: skip
IBAN, CARD, OFFICIAL = "account numbers (IBAN)", "credit card numbers", "official numbers of persons"


def _of(
    kind: str, pattern: str, needs: str = "0", check: Callable[[str], bool] | None = None, chance: float = 0.0
) -> Any:
    if needs == "0":
        pattern = rf"(?<![\w.,+/-])(?:{pattern})(?!\w|[-./,]\w)"
    return IdentifierPattern(kind, re.compile(pattern), needs, check, chance)


_CALL = "tel|phone|mobile?|handy|cell|fax|call|t[ée]l"
_ENGLISH = r"(?:Street|Avenue|Road|Lane|Drive|Boulevard|Close)\b"
_FRENCH = "(?:rue|avenue|boulevard|chemin|impasse|all[ée]e)"
_SOUTHERN = "(?:[Cc]alle|[Aa]venida|[Vv]ia|[Vv]iale)"
_PATTERNS: tuple[IdentifierPattern, ...] = (
    _of(EMAIL, r"[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}\b", "@"),
    _of(HANDLE, r"(?<![\w@.%+-])@[A-Za-z_]\w{2,29}\b(?!\.\w|@)", "@"),
    _of(WEB, r"(?i:\bhttps?://[^\s/]|\bwww\.[a-z0-9-]+\.[a-z])", "w"),
    _of(IBAN, r"[A-Z]{2}\d\d(?: ?[A-Z0-9]){11,30}", check=_iban, chance=_FORM),
    _of(CARD, r"(?:\d{4}[ -]){3}\d{4}|\d{4}[ -]\d{6}[ -]\d{5}", check=_luhn, chance=_FORM),
    _of(CARD, r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6\d{3})\d{12}|3[47]\d{13}", check=_luhn, chance=0.1),
    _of(OFFICIAL, r"(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}"),  # United States
    _of(OFFICIAL, r"[12] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d", check=_french, chance=1 / 97),
    _of(OFFICIAL, r"[A-Z]{2} ?\d\d ?\d\d ?\d\d ?[A-Z]", check=_british, chance=0.1),  # United Kingdom
    _of(OFFICIAL, r"(?:\d{8}|[XYZ]-?\d{7})-?[A-HJ-NP-TV-Z]", check=_spanish, chance=1 / 23),
    _of(OFFICIAL, r"[A-Z]{6}\d\d[A-EHLMPR-T][0-7]\d[A-Z]\d{3}[A-Z]", check=_italian, chance=_FORM),
    _of(OFFICIAL, r"756\.\d{4}\.\d{4}\.\d\d", check=_swiss, chance=_FORM),
    _of(OFFICIAL, r"(?:\d\d)?\d\d(?:0[1-9]|1[0-2])[0-3]\d[-+]\d{4}", check=_swedish, chance=0.1),
    _of(OFFICIAL, r"[0-3]\d(?:0\d|1[0-2])\d\d[-+A]\d{3}[0-9A-FHJ-NPR-Y]", check=_finnish, chance=1 / 31),
    _of(OFFICIAL, r"\d{3}\.\d{3}\.\d{3}-\d\d", check=_brazilian, chance=_FORM),
    _of(OFFICIAL, r"\d\d(?:[02468][1-9]|[13579][0-2])[0-3]\d{6}", check=_polish, chance=0.1),
    _of(OFFICIAL, r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}", check=_german, chance=0.1),
    _of(OFFICIAL, r"\d{9}", check=_dutch, chance=1 / 11),
    _of(PHONE, r"(?:\+|00 ?)[1-9]\d{0,2}(?:[ ./-]{0,2}\(?\d{1,5}\)?){2,6}", check=_telephone(8)),
    _of(PHONE, r"\(?0[1-9]\d{0,4}\)?(?:[ /-]{1,3}\d{2,8}){1,4}|0[1-9](?:[ .-]\d\d){4}", check=_telephone(9)),
    _of(PHONE, r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}"),  # North America
    _of(PHONE, rf"(?i:{_CALL})[a-zé]{{0,8}}[.:]{{0,2}} {{0,2}}[+(]?\d(?:[ ()./-]{{0,2}}\d){{6,14}}", check=_telephone(7)),
    _of(STREET, r"\b\d{1,5}[A-Za-z]? (?:[NSEW]\.? )?(?:[A-Z][\w'’.-]+ ){1,3}" + _ENGLISH, "s"),
    _of(STREET, r"\b[A-ZÄÖÜ][\w.-]*(?:stra(?:ße|sse)|[Ss]tr\.|gasse|allee|platz|[a-zäöü]weg) \d{1,4}\s?[a-z]?\b", "s"),
    _of(STREET, r"\b\d{1,4}(?: ?(?:bis|ter))?,? " + _FRENCH + r" (?:d\w* )?(?:l\w* |l')?[A-ZÉÈ]\w+", "s"),
    _of(STREET, rf"\b{_SOUTHERN} " + r"(?:[Dd]\w+ )?(?:[A-ZÁÉÍÓÚ][\wáéíóúñ]+ ?){1,4},? (?:n\.? ?)?\d{1,4}\b", "s"),
)  # fmt: skip
_TIMES = re.compile(
    r"(?<![\d./-])\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)(?![./-]?\d)(?:,? \d{1,2}(?::\d\d)*)?"
    r"|\b\d{4}[./-]\d{1,2}[./-]\d{1,2}(?!\d)|\d{1,2}:\d\d(?::\d\d)?"
)
"""Dates and times of day, in which a telephone number might be seen."""
_CANDIDATES = (
    r"@|://|(?i:www)[.]",
    r"[0-9][0-9 ()./-]{5,}[0-9]",
    r"[0-9][^0-9]{0,3}[0-9][^0-9]{0,3}[0-9][^0-9]{0,3}[0-9][^0-9]{0,3}[0-9]|[0-9].{0,9}[A-Za-z]{3}|[a-zß.] [0-9]",
)
"""Texts that may hold one of these, the likeliest first, so that a few are found among very many; every engine's regular
expressions have these forms."""


def found_in(text: str) -> list[tuple[IdentifierPattern, bool]]:
    """Return the patterns of which a text holds a candidate, each once, and whether one of the candidates passes the check."""
    has = {"@": "@" in text, "w": "://" in text or "www." in text.lower(), "s": any(c.isdigit() for c in text)}
    plain = text
    if has["s"]:
        plain = _TIMES.sub("·", text)
        has["0"] = sum(map(str.isdigit, plain)) >= 5
    found = []
    for one in _PATTERNS:  # telephone numbers come after those with check digits
        if not has.get(one.needs, False):
            continue
        hits = [m.group() for m in one.pattern.finditer(plain if one.kind == PHONE else text)]
        passed = [hit for hit in hits if one.check is None or one.check(hit)]
        if hits:
            found.append((one, bool(passed)))
        if one.kind != PHONE and one.needs == "0" and one.chance < 0.05:
            for hit in passed:
                plain = plain.replace(hit, "·")
    return found


@dataclass(frozen=True)
class IdentifiersInText:
    """How many of a column's texts hold direct identifiers.

    Parameters
    ----------
    shares
        The share of the records, by kind, the largest first.
    mainly
        The kind that at least half of the values hold, or nothing.
    first
        How many records were looked at, if only the first; 0 for all.
    """

    shares: tuple[tuple[str, float], ...]
    mainly: str = ""
    first: int = 0

    def words(self) -> str:
        """Return what the column holds, as the end of a sentence.

        >>> IdentifiersInText((("e-mail addresses", 0.031), ("web addresses", 0.0001)), first=5000).words()
        'e-mail addresses in 3 % of its first 5,000 records, web addresses in less than 1 %'
        """
        of = f"its first {self.first:,} records" if self.first else "its records"
        told = [f"{kind} in {_percent(share)}" for kind, share in self.shares]
        return ", ".join([f"{told[0]} of {of}", *told[1:]])


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.005 else "all" if share == 1 else f"{min(100 * share, 99):.0f} %"


def identifiers_in(texts: Mapping[str, float], records: int, present: int, first: int) -> IdentifiersInText | None:
    """Return which identifiers texts hold, each with how many records it stands for; `present` have a text."""
    hits: dict[str, float] = {}
    candidates: Counter[IdentifierPattern] = Counter()
    passes: Counter[IdentifierPattern] = Counter()
    by_text = []
    for text, weight in texts.items():
        found = found_in(text[:_LENGTH])
        by_text.append((found, weight))
        for one, passed in found:
            candidates[one] += 1
            passes[one] += passed
    sure = {one for one, n in candidates.items() if _beyond_chance(passes[one], n, one.chance)}
    for found, weight in by_text:
        for kind in {one.kind for one, passed in found if passed and one in sure}:
            hits[kind] = hits.get(kind, 0.0) + weight
    if not hits:
        return None
    shares = [(kind, min(round(n / records, 9), 1.0)) for kind, n in sorted(hits.items(), key=lambda hit: -hit[1])]
    main = shares[0][0] if shares[0][1] * records >= MAINLY * present else ""
    return IdentifiersInText(tuple(shares), main, first)


def _beyond_chance(passed: int, candidates: int, chance: float) -> bool:
    """Whether most candidates pass the check, and more than chance explains (Hoeffding 1963, theorem 1: a bound of the tail)."""
    share = passed / candidates
    if chance == 0 or not passed:
        return passed > 0
    if share < max(MAINLY, 2 * chance):
        return False
    rest = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return candidates * (share * math.log(share / chance) + rest) > -math.log(_CHANCE)


# --- columns of a frame


def frame_identifiers(
    frame: nw.DataFrame[Any], present: Mapping[str, int], first: bool
) -> dict[str, IdentifiersInText]:
    """Return which columns of text hold direct identifiers; `present` counts the texts of each column that is looked at.

    Every text is asked whether it may hold one; of those that may, at most some thousands are looked at one by one. `first`
    says that the frame is only the first records of a longer one.
    """
    found = {}
    most = max(_FEWEST, min(_MOST, _ALL // max(len(present), 1)))
    for name in present:
        column = frame.get_column(name)
        if column.dtype == nw.Object:
            column = nw.new_series(name, column.to_arrow(), backend="pyarrow")
        texts = column.cast(nw.String).drop_nulls()
        weights: dict[str, float] = {}
        left = texts
        for pattern in _CANDIDATES if len(texts) else ():
            may = left.str.contains(pattern)
            some, left = left.filter(may), left.filter(~may)
            looked = some.gather_every(max(-(-len(some) // most), 1)).to_list()
            for text, count in Counter(looked).items():
                weights[text] = count * len(some) / len(looked)
        held = identifiers_in(weights, len(frame), len(texts), len(frame) if first else 0) if weights else None
        if held is not None:
            found[name] = held
    return found
