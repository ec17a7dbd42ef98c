"""What a column's name hints at: words of survey questionnaires and registers, in four languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from sfumato.schema.attribute import Role


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
