"""What can be said of a column without naming any of its values: counts, lengths, ends, and hints in its name."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from sfumato.errors import DataError, join_names, repeated
from sfumato.schema.attribute import Role
from sfumato.schema.direct_identifiers import IdentifiersInText, frame_identifiers

# What a column's name hints at: words of survey questionnaires and registers, in four languages.


@dataclass(frozen=True)
class Hint:
    """A thing that columns are often about.

    Parameters
    ----------
    role
        What such a column is for a snooper, or in the survey's design.
    about
        The thing in words: "The name suggests {about}."
    pattern
        Matches the words of a name as `words` writes them.
    shape
        "ordered" for numbers with an order, "codes" for codes that generalise by their first characters,
        "plain" for categories, "" where the values must tell.
    """

    role: Role
    about: str
    pattern: re.Pattern[str]
    shape: str = ""


def words(name: str) -> str:
    """Write a column name as plain words: small letters without accents, parted by single spaces.

    >>> words("ZIPCode"), words("ori_hid"), words("Größe2")
    ('zip code', 'ori hid', 'grosse 2')
    """
    parted = re.sub(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    plain = unicodedata.normalize("NFKD", parted.casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])", " ", plain)
    return " ".join(re.split(r"[\W_]+", plain)).strip()


def first_hint(name: str, hints: Iterable[Hint]) -> Hint | None:
    """Return the first hint that fits the name."""
    plain = words(name)
    return next((hint for hint in hints if hint.pattern.search(plain)), None)


def _hint(role: Role, about: str, listed: str, *patterns: str, shape: str = "") -> Hint:
    """Make a hint from words, and from patterns where words do not say it.

    In the words, "educ~" is every word that begins so, and "zip_code" is written as one word or as two.
    """
    alternatives = "|".join(listed.split()).replace("_", " ?").replace("~", r"[^\W_]*")
    return Hint(role, about, re.compile("|".join([rf"\b({alternatives})\b", *patterns])), shape)


_NUMBER = "(id|ids|identifier|nr|no|num|number|nummer|numero|key|code|serial)"
_PERSON = (
    "(person|persona|personal|pers|people|patient|paciente|respondent|resp|member|case|record|row|student|pupil|employee|"
    "participant|subject|client|customer|user|voter|taxpayer|interview|questionnaire|individual|indiv|ind|"
    "child|mother|father)"
)
_HOUSE = "(hh|household|families|family|fam|haushalt|haushalts|hogar|menage|foyer|dwelling|hushold)"
_FIRM = (
    "(firm|firma|company|enterprise|establishment|estab|ent|business|holding|farm|utility|unternehmen|unternehmens|"
    "betrieb|betriebs|entreprise|empresa|corporation)"
)

# -- the survey's design

HOUSEHOLD = _hint(
    Role.HOUSEHOLD,
    "a household number",
    "hid hhid hhnr hhno hhnum hhserial idhh idhog idmen",
    rf"\b{_HOUSE} ?{_NUMBER}\b",
    rf"\b{_NUMBER} (de |del |du |der )?{_HOUSE}$",
    rf"^{_HOUSE}$",
    "^serial$",
)
CONTRIBUTOR = _hint(
    Role.CONTRIBUTOR,
    "the number or name of an enterprise",
    "siren siret duns",
    rf"^{_FIRM}$",
    rf"\b{_FIRM} ?{_NUMBER}$",
)
WEIGHT = _hint(
    Role.WEIGHT,
    "a survey weight",
    """
    weights? wei wgts? wts? wghts? perwt hhwt gewicht gewichte gewichtung poids ponder~ peso hochrechnung~ fexp~
    (expansion|grossing|raising|sampling)_factor factor_(de_)?expansion
    """,
    r"(wgt|wght|weight|gewicht)s?$",
    "^w$",
)
BODY = _hint(
    Role.CONFIDENTIAL,
    "the weight of a body",
    "body birth~ kg lbs? pounds? loss gain geburtsgewicht korpergewicht naissance corporal",
    r"(birth|body)(weight|wgt|wt)",
    shape="ordered",
)
TALL = _hint(
    Role.KEY,
    "the height of a body",
    "height bmi body_mass~ korpergrosse estatura",
    "^(grosse|taille|talla)$",
    shape="ordered",
)
STRATUM = _hint(Role.STRATUM, "a sampling stratum", "strat(um|a|e|es|ums) schicht~ estratos?")

# -- what names a person

PERSON_NUMBER = _hint(
    Role.IDENTIFIER,
    "a number that stands for one person",
    "pid pnr iid uid uuid guid lfdnr laufnummer idno mrn rownum~",
    rf"\b{_PERSON} ?{_NUMBER}\b",
    rf"\b(id|nr|numero) ?{_PERSON}$",
    "^(id|ids|identifier|idx|index|key|nr|no|number|unnamed 0)$",
)
GROUP_NUMBER = _hint(Role.IDENTIFIER, "a number of something", "id ids identifier")
SERIAL = _hint(
    Role.IDENTIFIER,
    "a number that one record has",
    "insee matricul[ae]~ dossier~ aktenzeichen fallnr expediente folio cedula rut registration~ barcode~",
    rf"^{_PERSON}s?$",
    r"\b(id|ids|identifier|nr|no|num|number|nummer|numero|serial|ref|reference|card|file)( \d+)?$",
)
"""Only of values that hardly repeat: the code of a commune (code INSEE) repeats, the number of a person does not."""
NAME = _hint(
    Role.IDENTIFIER,
    "a name",
    "name names vorname nachname nom noms prenom apellidos? familienname",
    "names?$",
    "^nombres?$",
)
IDENTIFIERS = (
    _hint(
        Role.IDENTIFIER,
        "an official number",
        f"""
        ssn nino nhs nif dni curp cpf nir ahv svnr iban passport~ passnr passeport pasaporte social_security~
        national_(id|number|insurance)~ steuernummer steuerid kontonummer driver~_licen[cs]e medicare~ kennzeichen
        (tax|steuer|insurance|policy|account|card|konto|license|licence)_{_NUMBER} (license|licence|number)_plate
        """,
    ),
    _hint(
        Role.IDENTIFIER,
        "how to reach a person",
        """
        e_mails? mail phone~ telephone~ telefon~ tel mobile fax address~ adress~ direccion street~ strasse~ calle rue
        domicilio url website ip ip_address
        """,
    ),
    _hint(
        Role.IDENTIFIER,
        "an exact place",
        """
        lat latitude lon lng longitude gps~ coord~ easting northing geo_point geo_location breitengrad langengrad
        """,
    ),
)

# -- what respondents expect to stay secret

MONEY = _hint(
    Role.CONFIDENTIAL,
    "money",
    """
    income~ inc revenue~ salar~ wages? pay paid payments? pensions? benefits? turnover sales profits? losses costs?
    expen(d|s)~ spending savings? debts? loans? mortgages? credits? rents? assets? wealth capital money amount
    budget bills? charges? fees? price dividends? interest taxes tax(inc|able|paid|due)~ ~tax earn~ net_worth
    gehalt lohn~ umsatz~ gewinn~ vermogen~ schulden steuern? miete ausgaben kosten
    revenus? depenses? epargne dettes? impots? loyers?
    ingresos? gastos? ahorros? deudas? impuestos? renta sueldos? ventas beneficios?
    """,
    r"(income|revenue|salary|salaries|expenditure|savings|earnings|sales|turnover|profit)s?\b",
    r"(einkommen|umsatz|salaire|salario)s?\b",
)
CONFIDENTIAL = (
    MONEY,
    _hint(
        Role.CONFIDENTIAL,
        "health",
        """
        diagnos~ disease~ disab~ icd~ health~ illness~ sick~ symptom~ medic~ drugs? hiv aids cancer~ tumou?r diabet~
        blood~ ldl hdl cholesterol bmi glucose hba pregnan~ smok~ alcohol~ mental depress~ therap~ treatment~ surgery
        krank~ gesund~ behinder~ maladie~ sante handicap~ enfermedad~ salud discapacidad~
        """,
    ),
    _hint(
        Role.CONFIDENTIAL,
        "beliefs, private life or offences",
        """
        relig~ faith politic~ party voted? votes union trade_union sexual~ orientation crim~ convict~ offen[cs]es?
        arrest~ abus~ violence konfession glaube partei croyance creencia
        """,
    ),
    _hint(
        Role.CONFIDENTIAL,
        "a result or a judgement of a person",
        "scores? grades? marks? gpa iq exam~ rating noten calificacion~",
    ),
)

# -- what others may know

ZIP = _hint(
    Role.KEY,
    "a postal code",
    "zips? zip_codes? zcta post_codes? postal_codes? postleitzahl plz code_postal codigo_postal",
    shape="codes",
)
PLACE = _hint(
    Role.KEY,
    "a place",
    """
    regions? state county city town village municip~ provinc~ district area urb~ rural~ neighbo~ block tract ward
    parish residence place country continent geo~ nuts puma msa fips cluster psu
    kreis landkreis bundesland kanton gemeinde~ wohnort ort stadt commune departement canton ville pays
    ciudad pueblo barrio comunidad pais fylke kommune mun
    """,
)
KEYS = (
    ZIP,
    _hint(Role.KEY, "an age", "age alter altersgruppe edad", r"\bage(?!n)[^\W_]*\b", shape="ordered"),
    _hint(
        Role.KEY,
        "a birth or its time",
        "birth~ dob yob byear born geburt~ geb gebdatum gebjahr naissance nacimiento",
        shape="ordered",
    ),
    _hint(Role.KEY, "a person's sex", "sex sexe sexo gender geschlecht genre genero", shape="plain"),
    _hint(
        Role.KEY,
        "origin",
        """
        race racial ethni~ etni~ nation nationalit~ citizen~ immigra~ migra~ native~ foreign~ language~ ancestry origin
        staatsangehorigkeit herkunft sprache langue origine nacionalidad origen lengua idioma raza
        """,
        shape="plain",
    ),
    PLACE,
    _hint(
        Role.KEY,
        "marital status",
        "marstat marri~ spouse familienstand matrimon~ estado_civil",
        r"(marital|civil)[^\W_]*\b",
        shape="plain",
    ),
    _hint(
        Role.KEY,
        "education",
        """
        educ~ school~ degree~ qualif~ literacy bildung~ abschluss~ schul~ diplome~ formation estudios escolaridad
        """,
    ),
    _hint(
        Role.KEY,
        "work",
        """
        occu~ profession~ jobs? employ~ work~ industr~ sector~ labou?r~ nace~ isic~ isco~ naics sic soc
        beruf~ erwerb~ branche~ beschaftigung~ emploi metier ocupacion trabajo actividad
        """,
    ),
    _hint(
        Role.KEY,
        "a number that others can count",
        "size persons? children kids kinder enfants hijos members rooms cars vehicles hhsize",
        r"^(n|num|nb|nbr|anzahl|nombre|numero|number) [a-z]",
        r"^num[^\W_]+$",
        shape="ordered",
    ),
    _hint(
        Role.KEY,
        "something that others can see",
        """
        relat~ roof~ walls? floor~ water~ toilet~ elect~ housing tenure dwelling~ veteran military
        hair eyes? colou?r hospital~ clinic~ admission~ discharge~ death~ died deceased
        """,
    ),
    TALL,
)

TIME = _hint(
    Role.OTHER,
    "the time that the record is about",
    "(survey|ref|reference|reporting)_(year|month|quarter|week|period)",
    "^(year|month|quarter|week|period|wave|round|jahr|monat|annee|mois|ano|mes)$",
    shape="ordered",
)

NUMBERS, TEXT, DATES, YES_NO, OTHER = "numbers", "text", "dates", "yes/no values", "values of another kind"

_CODES = [-1, *(sign * int(digit * width) for sign in (1, -1) for digit in "789" for width in range(1, 8))]
_CODES += [sign * (10**width - k) for sign in (1, -1) for width in range(2, 8) for k in (2, 3, 4)]
"""Numbers that surveys use for "no answer": 7, 8, 9, 77, 97, 98, 99, 999, …, also negative; and -1."""

_BY_CHANCE = 7
"""So many repeats expected, none is no chance: its probability is below exp(-7), one in a thousand."""

_NO_ANSWER = (
    "?|-|--|.|na|n/a|n.a.|nan|null|none|nil|missing|unknown|not known|refused|don't know|dont know|dk|not stated|"
    "no answer|unbekannt|keine angabe|k.a.|inconnu|desconocido|no sabe|sin respuesta"
)
_NO_ANSWERS = _NO_ANSWER.split("|")
_PATTERNS = {
    "digits": re.compile("^[0-9]+$"),
    "iso_dates": re.compile("^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    "commas": re.compile("^-?[0-9]+,?[0-9]*$"),
    "points_between": re.compile(r"^-?[0-9]{1,3}([.][0-9]{3})*(,[0-9]*)?$"),
    "commas_between": re.compile(r"^-?[0-9]{1,3}(,[0-9]{3})*([.][0-9]*)?$"),
    "blanks_between": re.compile("^-?[0-9]{1,3}([ \u00a0\u202f'’][0-9]{3})*([.,][0-9]*)?$"),
}
"""Texts that are not what they look like: numbers, dates, numbers with a decimal comma or with marks between thousands."""
_MARKS = {
    "commas": ",",
    "points_between": "[.][0-9]{3}",
    "commas_between": ",[0-9]{3}([.]|,|$)",
    "blanks_between": "[^0-9.,-][0-9]{3}",
}
"""What some of the texts must have."""
_FEW = 2_000
"""So many different texts are looked at one by one: asking an engine takes longer."""


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about one column; none of them goes into a reason as a number.

    Parameters
    ----------
    name, kind
        Column name, and what sort of values it holds, in words.
    records, missing, distinct
        How many records, null or NaN values, and different values that are neither.
    whole
        All numbers are whole.
    low, high
        Smallest and largest number.
    plain_low, plain_high
        The same among numbers that surveys do not use for "no answer".
    shortest, longest
        Lengths of text that is not blank.
    digits, iso_dates
        All text that is not blank consists of digits, or looks like 2026-11-16.
    no_answer
        Some text is blank or reads like "no answer".
    commas
        All text that is not blank is numbers, some of them with a decimal comma.
    points_between, commas_between, blanks_between
        All text that is not blank is numbers, some of them with such marks between thousands (an apostrophe is taken as a blank).
    identifiers
        E-mail addresses, telephone numbers and the like that its texts hold; ``None`` if there are none.
    """

    name: str
    kind: str
    records: int
    missing: int
    distinct: int = 0
    whole: bool = False
    low: float | None = None
    high: float | None = None
    plain_low: float | None = None
    plain_high: float | None = None
    shortest: int = 0
    longest: int = 0
    digits: bool = False
    iso_dates: bool = False
    no_answer: bool = False
    commas: bool = False
    points_between: bool = False
    commas_between: bool = False
    blanks_between: bool = False
    identifiers: IdentifiersInText | None = None

    @property
    def present(self) -> int:
        """Number of values that are not missing."""
        return self.records - self.missing

    @property
    def few(self) -> bool:
        """Whether few different values repeat often, as categories do."""
        return 0 < self.distinct <= 20 and 2 * self.distinct <= self.present

    @property
    def codes(self) -> bool:
        """Whether the numbers look like the codes of categories: few, whole, small."""
        small = self.plain_high is None or -100 < (self.plain_low or 0) <= self.plain_high < 100
        return self.kind == NUMBERS and self.few and self.whole and small

    @property
    def constant(self) -> bool:
        """Whether there is one value only, in more than one record."""
        return self.distinct == 1 and self.records > 1

    @property
    def nearly_unique(self) -> bool:
        """Whether almost every record has its own value; never said of very few records."""
        return self.present >= 10 and self.distinct >= 0.9 * self.present

    @property
    def numbered(self) -> bool:
        """Whether whole numbers lie close together, and repeat far less than if each were drawn independently of the others.

        Then somebody gave each record its own: n draws from R numbers have n - R(1 - exp(-n/R)) repeats on average, and more
        where some numbers are likelier than others, as with amounts. Incomes that happen to be all different are not numbered:
        they spread over a range too wide for repeats. That at least one number in five is used keeps out amounts of a file from
        which somebody removed the repeats (the CASC project's Census file is one).
        """
        if not (self.kind == NUMBERS and self.whole and self.nearly_unique):
            return False
        low = self.low if self.plain_low is None else self.plain_low
        high = self.high if self.plain_high is None else self.plain_high
        size = float(high or 0) - float(low or 0) + 1
        repeats = self.present + size * math.expm1(-self.present / size)
        return size <= 5 * self.present and repeats >= _BY_CHANCE and self.present - self.distinct <= repeats / 10

    @property
    def stands_apart(self) -> str:
        """Which end of the range looks like a code for "no answer": "smallest", "largest", or neither."""
        if None in (self.low, self.high, self.plain_low, self.plain_high):
            return ""
        low, high, first, last = (float(x or 0) for x in (self.low, self.high, self.plain_low, self.plain_high))
        if low < 0 <= first:
            return "smallest"
        if self.whole and high - low + 1 == self.distinct:  # a run of numbers, such as a scale from 1 to 9
            return ""
        gap = max((last - first) / 10, 1.0)
        return "smallest" if first - low > gap else "largest" if high - last > gap else ""


_TOGETHER = 25
"""Columns that are asked for in one query."""
_WIDEST = 2_000
"""Columns of data in a database that are asked for by their facts; of more, some at a time are read into memory."""
_FIRST = 5_000
"""Records of data in a database whose texts are read, and whose columns are compared."""
_BLOCK, _CELLS = 2_500, 2**24
"""Columns, and values, that are read at a time."""


def facts_of(frame: object) -> list[ColumnFacts]:
    """Look at every column of a pandas, polars, Arrow, DuckDB or Spark frame.

    Data in a database or on a cluster are asked for many columns together; DuckDB's time for one question grows with the
    square of the number of columns in it.
    """
    wrapped = _wrapped(frame)
    if isinstance(wrapped, nw.DataFrame):
        return [_local_facts(wrapped, name) for name in wrapped.columns]
    schema = wrapped.collect_schema()
    if len(schema) > _WIDEST:
        return _wide_facts(wrapped, schema.names())
    dtypes = list(schema.values())
    kinds = [_kind(dtype) for dtype in dtypes]
    names = own = schema.names()
    if wrapped.implementation.is_spark_like():  # Spark reads "a.b" as a field b inside a column a
        names = [f"column_{i}" for i in range(len(names))]
        wrapped = nw.from_native(wrapped.to_native().toDF(*names))
    found = []
    for start in range(0, len(names), _TOGETHER):
        some = range(start, min(start + _TOGETHER, len(names)))
        asked = [{f"{fact}_{i}": e for fact, e in _expressions(names[i], kinds[i], dtypes[i]).items()} for i in some]
        listed = [e.alias(key) for one in asked for key, e in one.items()]
        part = wrapped.select(*names[some.start : some.stop])  # an expression's time grows with the width of its frame
        answers = part.select(nw.len().alias("records"), *listed).collect().rows(named=True)[0]
        for i, one in zip(some, asked, strict=True):
            mine = {key.rsplit("_", 1)[0]: answers[key] for key in one}
            missing = int(mine.pop("missing") or 0)
            if "distinct" in mine:  # a gap is counted as a value
                mine["distinct"] = int(mine["distinct"] or 0) - (missing > 0)
            found.append(_facts(own[i], kinds[i], int(answers["records"]), missing, mine))
    return found


def first_records(frame: object) -> tuple[nw.DataFrame[Any], bool]:
    """Return a frame in memory, or the first records of one in a database; and whether there may be more records."""
    wrapped = _wrapped(frame)
    if isinstance(wrapped, nw.DataFrame):
        return wrapped, False
    width = len(wrapped.collect_schema())
    wanted = max(min(_FIRST, _CELLS // max(width, 1)), 1)
    first = wrapped.head(wanted).collect()  # all columns: to Spark a name with a point is a field
    return first, len(first) == wanted


def with_identifiers(columns: list[ColumnFacts], first: nw.DataFrame[Any], more: bool) -> list[ColumnFacts]:
    """Return the facts with the direct identifiers that texts hold, in these records."""
    texts = {facts.name: facts.present for facts in columns if facts.kind == TEXT and facts.present}
    found = frame_identifiers(first, texts, more)
    return [replace(facts, identifiers=found.get(facts.name)) for facts in columns]


def _wide_facts(wrapped: nw.LazyFrame[Any], names: list[str]) -> list[ColumnFacts]:
    """Read some columns at a time into memory, and look at them there."""
    records = int(wrapped.select(nw.len()).collect().item())
    block = min(_BLOCK, _CELLS // max(records, 1))
    if block < _TOGETHER or not wrapped.implementation.is_duckdb():
        raise DataError(
            f"the data have {len(names):,} columns, and a schema is guessed for at most {_WIDEST:,} in a database: it would "
            "take very long. Read the data into memory, leave columns out, or give a schema."
        )
    facts = []
    for start in range(0, len(names), block):
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names[start : start + block])
        # as text: for an expression DuckDB looks at all columns of the relation
        part = nw.from_native(wrapped.to_native().select(quoted).to_arrow_table(), eager_only=True)
        facts += [_local_facts(part, name) for name in part.columns]
    return facts


def _wrapped(frame: Any) -> nw.DataFrame[Any] | nw.LazyFrame[Any]:
    try:
        wrapped: nw.DataFrame[Any] | nw.LazyFrame[Any] = nw.from_native(frame)
        names = wrapped.collect_schema().names()
    except TypeError:
        raise DataError(
            f"an object of type {type(frame).__name__} is not a frame that sfumato knows. "
            "Give a pandas, polars, Arrow, DuckDB or Spark frame."
        ) from None
    except nw.exceptions.DuplicateError:
        raise DataError("some column names stand more than once. Rename them so that each is one.") from None
    if not all(isinstance(n, str) for n in names):
        raise DataError(
            "column names must be text, but some are not. In pandas, try: frame.columns = frame.columns.astype(str)"
        )
    if twice := repeated(names):
        raise DataError(f"these column names stand more than once: {join_names(sorted(twice))}. Rename them.")
    return wrapped


def _local_facts(frame: nw.DataFrame[Any], name: str) -> ColumnFacts:
    """Look at a column in memory: once for the gaps, then only at its different values."""
    column = frame.get_column(name)
    if column.dtype == nw.Object:  # pandas: dates, yes/no values with gaps, or a mixture
        try:
            column = nw.new_series(name, column.to_arrow(), backend="pyarrow")
        except Exception:  # what Arrow raises quotes values
            return ColumnFacts(name, OTHER, len(frame), column.null_count())
    kind, values = _kind(column.dtype), column.drop_nulls()
    if kind == NUMBERS:
        return _number_facts(name, values, len(frame))
    if kind == OTHER:
        return ColumnFacts(name, kind, len(frame), len(frame) - len(values))
    different = values.unique()
    answers: dict[str, Any] = {"distinct": len(different)}
    if kind == TEXT and len(different) > _FEW:
        asked = _expressions(name, kind, column.dtype)
        listed = [asked[fact].alias(fact) for fact in asked if fact not in ("missing", "distinct")]
        answers |= different.to_frame().select(*listed).rows(named=True)[0]
    elif kind == TEXT:
        answers |= _text_facts([str(text).strip() for text in different.to_list()])
    return _facts(name, kind, len(frame), len(frame) - len(values), answers)


def _number_facts(name: str, values: nw.Series[Any], records: int) -> ColumnFacts:
    """Look at the different numbers of a column without nulls."""
    present = len(values)
    integer = values.dtype.is_integer()
    numbers = values.unique().to_numpy() if integer else values.cast(nw.Float64).to_numpy()
    if not integer:
        numbers = numbers[~np.isnan(numbers)]
        present = len(numbers)
        numbers = np.unique(numbers)
    if not len(numbers):
        return ColumnFacts(name, NUMBERS, records, records - present)
    plain = numbers[~np.isin(numbers, _CODES)]
    with np.errstate(invalid="ignore"):  # infinity is not whole
        answers = {"distinct": len(numbers), "whole": integer or bool((numbers % 1 == 0).all())}
    ends = {"low": numbers.min(), "high": numbers.max()}
    ends |= {"plain_low": plain.min(), "plain_high": plain.max()} if len(plain) else {}
    return _facts(name, NUMBERS, records, records - present, {**answers, **ends})


def _text_facts(texts: list[str]) -> dict[str, Any]:
    """Look at the different texts of a column, without blanks around them."""
    filled = [text for text in texts if text]
    lengths = [len(text) for text in filled]
    return {
        "shortest": min(lengths, default=None),
        "longest": max(lengths, default=None),
        **{
            fact: all(pattern.search(text) for text in filled)
            for fact, pattern in _PATTERNS.items()
            if fact not in _MARKS
        },
        **{
            fact: all(_PATTERNS[fact].search(text) for text in filled) and any(re.search(mark, text) for text in filled)
            for fact, mark in _MARKS.items()
        },
        "no_answer": any(not text or text.lower() in _NO_ANSWERS for text in texts),
    }


def _facts(name: str, kind: str, records: int, missing: int, answers: Mapping[str, Any]) -> ColumnFacts:
    facts: dict[str, Any] = {key: value for key, value in answers.items() if value is not None}
    for key in ("low", "high", "plain_low", "plain_high"):
        if key in facts:
            facts[key] = float(facts[key])
    for key in ("whole", "digits", "iso_dates", "no_answer"):
        if key in facts:  # "all" holds for no values, too
            facts[key] = bool(facts[key]) and records > missing
    return ColumnFacts(name, kind, records, missing, **facts)


def _kind(dtype: Any) -> str:
    if dtype.is_numeric():
        return NUMBERS
    if dtype == nw.Boolean:
        return YES_NO
    if dtype in (nw.Date, nw.Datetime):
        return DATES
    return TEXT if dtype in (nw.String, nw.Categorical, nw.Enum) else OTHER


def _expressions(name: str, kind: str, dtype: Any) -> dict[str, nw.Expr]:
    """Return what to ask of a column: each expression gives one value."""
    column = nw.col(name)
    if kind == NUMBERS:
        numbers: nw.Expr = column
        codes: list[int] | list[float] = [code for code in _CODES if _fits(code, dtype)]
        if not dtype.is_integer():  # not cast for the rest: whole numbers beyond 2^53 have no exact float
            numbers = column.cast(nw.Float64)
            numbers = nw.when(~numbers.is_nan()).then(numbers)
            codes = [float(code) for code in _CODES]
        plain = nw.when(~numbers.is_in(codes)).then(numbers)
        return {
            "missing": numbers.null_count(),
            "distinct": numbers.n_unique(),
            "whole": ((numbers % 1 == 0) | numbers.is_null()).all(),  # to pandas what is missing is not whole
            "low": numbers.min(),
            "high": numbers.max(),
            "plain_low": plain.min(),
            "plain_high": plain.max(),
        }
    asked = {"missing": column.null_count()}
    if kind == OTHER:
        return asked
    asked["distinct"] = column.n_unique()
    if kind == TEXT:
        text = column.cast(nw.String).str.strip_chars()
        filled = nw.when(text != "").then(text)

        def each(pattern: str) -> nw.Expr:
            return (filled.str.contains(pattern) | filled.is_null()).all()  # to pandas what is missing does not match

        asked |= {
            "shortest": filled.str.len_chars().min(),
            "longest": filled.str.len_chars().max(),
            "digits": each(_PATTERNS["digits"].pattern),
            "iso_dates": each(_PATTERNS["iso_dates"].pattern),
            **{fact: each(_PATTERNS[fact].pattern) & filled.str.contains(mark).any() for fact, mark in _MARKS.items()},
            "no_answer": ((text == "") | text.str.to_lowercase().is_in(_NO_ANSWERS)).any(),
        }
    return asked


def _fits(code: int, dtype: Any) -> bool:
    """Whether a column of this type could hold the code; some engines refuse to look for what it cannot hold."""
    bits = {nw.Int8: 7, nw.UInt8: 8, nw.Int16: 15, nw.UInt16: 16}.get(type(dtype), 31)
    return abs(code) < 2**bits and (code > 0 or not dtype.is_unsigned_integer())
