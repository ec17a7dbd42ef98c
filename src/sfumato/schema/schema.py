"""The schema, the only source of what columns mean; and the guess at one, with reasons that a person can correct."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, overload

from sfumato.errors import SchemaError, join_names, repeated, unknown_name
from sfumato.files import write_text
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.schema.dependence import FunctionalDependence, frame_dependences
from sfumato.schema.facts import (
    BODY,
    CONFIDENTIAL,
    CONTRIBUTOR,
    DATES,
    GROUP_NUMBER,
    HOUSEHOLD,
    IDENTIFIERS,
    KEYS,
    MONEY,
    NAME,
    NUMBERS,
    OTHER,
    PERSON_NUMBER,
    PLACE,
    SERIAL,
    STRATUM,
    TALL,
    TEXT,
    TIME,
    WEIGHT,
    YES_NO,
    ZIP,
    ColumnFacts,
    Hint,
    facts_of,
    first_hint,
    first_records,
    with_identifiers,
    words,
)
from sfumato.schema.formula import ColumnFormula
from sfumato.schema.hierarchy import Hierarchy, PrefixHierarchy
from sfumato.schema.interval_hierarchy import DateHierarchy
from sfumato.toml import dump, parse

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Schema:
    """A validated tuple of attributes.

    Examples
    --------
    >>> schema = Schema((Attribute("age", role="key"), Attribute("salary", role="confidential")))
    >>> schema.names(role="confidential")
    ('salary',)
    >>> schema.change("age", integer=True)["age"].integer
    True
    """

    attributes: tuple[Attribute, ...]
    reading: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """How the file that the schema describes is read, such as ``{"separator": ";", "decimal": ","}``; never published."""
    _by_name: ClassVar[Mapping[str, Attribute]]

    def __post_init__(self) -> None:
        attributes = tuple(self.attributes)
        object.__setattr__(self, "attributes", attributes)
        if wrong := [a for a in attributes if not isinstance(a, Attribute)]:
            raise SchemaError(f"a schema is made of attributes, not of {type(wrong[0]).__name__}.")
        names = [a.name for a in attributes]
        if twice := repeated(names):
            raise SchemaError(f"the schema names these columns more than once: {join_names(sorted(twice))}.")
        object.__setattr__(self, "_by_name", {a.name: a for a in attributes})  # no field: not compared, not shown
        for role in (Role.WEIGHT, Role.HOUSEHOLD):
            if len(many := [a.name for a in attributes if a.role is role]) > 1:
                raise SchemaError(f"only one column can have the role '{role}', but the schema has {join_names(many)}.")
        for a in attributes:
            for source in self.sources(a.name):
                if source not in self:
                    raise SchemaError(
                        f"'{a.name}' follows another, but " + unknown_name("column", source, names, "the schema")
                    )

    # -- looking things up

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __getitem__(self, name: str) -> Attribute:
        if name in self:
            return self._by_name[name]
        raise SchemaError(unknown_name("column", name, self.names(), "the schema"))

    @overload
    def names(self) -> tuple[str, ...]: ...
    @overload
    def names(self, *, role: str) -> tuple[str, ...]: ...
    def names(self, *, role: str | None = None) -> tuple[str, ...]:
        """Return the column names, or those of one role."""
        if role is not None and role not in (allowed := [r.value for r in Role]):
            raise SchemaError(unknown_name("role", role, allowed, "the list of roles"))
        return tuple(a.name for a in self.attributes if role is None or a.role == role)

    def one(self, role: str) -> str | None:
        """Return the column that has this role, or ``None`` (for weight, household and the like)."""
        names = self.names(role=role)
        return names[0] if names else None

    def formula(self, name: str) -> ColumnFormula | None:
        """Return the formula of columns that a column follows; ``None`` if it follows one column as it is, or nothing."""
        follows = self[name].follows
        if follows is None or follows in self or re.fullmatch(r"[\w. ]+", follows):
            return None
        return ColumnFormula(follows)

    def sources(self, name: str) -> tuple[str, ...]:
        """Return the columns that a column follows: none, one, or those of its formula."""
        follows, formula = self[name].follows, self.formula(name)
        return formula.columns if formula is not None else () if follows is None else (follows,)

    def free(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the columns that follow none of the others: masks change these, and the others follow."""
        names = tuple(names)
        return tuple(n for n in names if not set(names).intersection(self.sources(n)))

    def with_followers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns and all that follow them: a function of a column reveals part of it."""
        found = list(names)
        while new := [a.name for a in self if a.name not in found and set(found).intersection(self.sources(a.name))]:
            found += new
        return tuple(found)

    # -- changing (a schema is immutable: these return another one)

    def change(self, name: str, **changes: Any) -> Schema:
        """Return a schema with one attribute corrected; its guessed reason becomes "set by hand"."""
        new = self[name].with_(**{"reason": "set by hand", **changes})
        return replace(self, attributes=tuple(new if a.name == name else a for a in self.attributes))

    def roles(self, **roles: Iterable[str] | str) -> Schema:
        """Return a schema with roles set: ``schema.roles(key=["age", "zip"], confidential="income")``."""
        new: dict[str, Attribute] = {}
        for role, names in roles.items():
            for name in [names] if isinstance(names, str) else names:
                new[name] = (new.get(name) or self[name]).with_(reason="set by hand", role=role)
        return replace(self, attributes=tuple(new.get(a.name, a) for a in self.attributes))

    def keep(self, predicate: Callable[[Attribute], bool]) -> Schema:
        """Return a schema of the attributes for which `predicate` holds; links to dropped ones are cut."""
        kept = [a for a in self.attributes if predicate(a)]
        names = {a.name for a in kept}
        return Schema(tuple(a if names.issuperset(self.sources(a.name)) else a.with_(follows=None) for a in kept))

    # -- TOML

    def to_toml(self) -> str:
        """Return the schema as TOML, for a person to read and correct."""
        header: dict[str, Any] = {"version": SCHEMA_VERSION}
        if self.reading:
            header["read"] = {name: list(v) if isinstance(v, tuple) else v for name, v in self.reading.items()}
        return dump(header, "attribute", [a.to_dict() for a in self.attributes])

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        try:
            table = parse(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"the schema is not valid TOML: {error}.") from None
        return cls.from_dict(table)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Schema:
        """Build from a parsed TOML table."""
        check_version("schema", table.get("version", SCHEMA_VERSION), SCHEMA_VERSION)
        attributes = table.get("attribute")
        if not isinstance(attributes, list):
            raise SchemaError("a schema file holds one [[attribute]] table per column; this one has none.")
        reading = table.get("read", {})
        if not isinstance(reading, Mapping):
            raise SchemaError('read is a table of options, such as read = { separator = ";", decimal = "," }.')
        return cls(tuple(Attribute.from_dict(a) for a in attributes), dict(reading))

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        write_text(path, self.to_toml())

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        try:
            return cls.from_toml(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise SchemaError(f"there is no schema file at {path}. `sfumato schema DATA` writes one.") from None
        except UnicodeDecodeError:
            raise SchemaError(f"{path} is not a schema: it is not UTF-8 text.") from None

    # -- guessing

    @classmethod
    def guess(cls, frame: object) -> Schema:
        """Guess what the columns of a frame mean; each attribute carries the reason, for a person to correct.

        Nothing here is a verdict: read the reasons, then use `change` or edit the TOML.
        """
        return guess_schema(frame)


def check_version(what: str, version: object, newest: int) -> None:
    """Refuse a file written by a newer sfumato, in words."""
    if not isinstance(version, int) or version < 1:
        raise SchemaError(f"the {what} has version {version!r}; versions are whole numbers from 1 to {newest}.")
    if version > newest:
        raise SchemaError(
            f"the {what} has version {version}, but this sfumato reads versions up to {newest}. "
            f"It was written by a newer sfumato: upgrade this one, or write the {what} again."
        )


# Guess what columns mean, with reasons that a person can correct.
#
# Where names and values leave it open, the guess errs towards protection, and says so. A reason never quotes a value.


_FOLLOWED = 2_000
"""Values of a column that another is looked up by."""
_FEW_CODES = 200
"""Whole numbers with fewer different values than this may be ages, counts or codes."""
_SAYS_SOMETHING = 20
"""Of fewer records it is not said that their texts seldom repeat."""
_DESIGN = (Role.HOUSEHOLD, Role.CONTRIBUTOR, Role.STRATUM, Role.WEIGHT)
"""Roles that texts do not take away from a column."""
_LONG = 80
"""Text of at least this many characters is no category, but somebody's words."""


def guess_schema(frame: object) -> Schema:
    """Guess the schema of a pandas, polars, Arrow, DuckDB or Spark frame; every attribute says why.

    >>> import pandas as pd
    >>> guessed = guess_schema(pd.DataFrame({"age": [30, 41], "salary": [50.0, 61.5]}))
    >>> guessed["salary"].role.value, guessed["age"].reason
    ('confidential', 'The name suggests an age.')
    """
    first, more = first_records(frame)
    guessed = schema_of(with_identifiers(facts_of(frame), first, more))
    names = [a.name for a in guessed if a.role in (Role.KEY, Role.CONFIDENTIAL)]
    return with_dependences(guessed, *frame_dependences(first, names, more))


def with_dependences(schema: Schema, found: Iterable[FunctionalDependence], sure: bool) -> Schema:
    """Return a schema that says which columns others determine; if that is sure of all records, they follow.

    A column that goes with more than a few thousand values of another is only named: to follow, it needs a formula.
    """
    told = {one.name: one for one in found}
    attributes = []
    for a in schema:
        if (one := told.get(a.name)) is not None:
            follows = sure and one.values <= _FOLLOWED
            how = (
                "Masks carry it along (follows)."
                if follows
                else f'Set follows = "{one.follows}" so that masks carry it along.'
            )
            a = a.with_(reason=f"{a.reason} {one.words()} {how}", follows=one.follows if follows else None)
        attributes.append(a)
    return Schema(tuple(attributes))


def schema_of(columns: Sequence[ColumnFacts]) -> Schema:
    """Guess from facts alone."""
    named = {facts.name: _named(facts, columns) for facts in columns}
    design = {role: _chosen(role, columns, named) for role in (Role.WEIGHT, Role.HOUSEHOLD, Role.CONTRIBUTOR)}
    guessed = Schema(tuple(_attribute(facts, named[facts.name], design) for facts in columns))
    if len(columns) == 1 and columns[0].kind == TEXT and (signs := separators_in(columns[0].name)):
        (a,) = guessed
        said = join_names([repr(s) for s in signs])
        doubt = f"The file has one column, and its name holds {said}: was it read with another separator than it has?"
        return Schema((a.with_(reason=f"{a.reason} {doubt}"),))
    return guessed


def separators_in(name: str) -> list[str]:
    """Return the signs in the name of an only column that may stand between the names of several, the most frequent first.

    >>> separators_in("age;sex;income"), separators_in("full name")
    ([';'], [])
    """
    signs = Counter(re.findall(r"[^\w\s().'\"-]|\t| ", name))
    return [sign for sign, n in signs.most_common() if n >= (3 if sign == " " else 1)]


# -- what the name says, where the values do not speak against it


def _named(facts: ColumnFacts, columns: Sequence[ColumnFacts]) -> Hint | None:
    name = facts.name
    repeats = 1 < facts.distinct < facts.present
    if facts.kind == OTHER and facts.missing < facts.records:
        return None
    if first_hint(name, [HOUSEHOLD]) and (repeats or not facts.present) and not _amounts(facts):
        return HOUSEHOLD
    if first_hint(name, [CONTRIBUTOR]) and repeats and not _categories(facts) and not _amounts(facts):
        return CONTRIBUTOR
    if facts.kind == NUMBERS and first_hint(name, [WEIGHT]):
        # "weight" beside "height" is a body's, "sampling_weight" is not
        bare = words(name) in ("weight", "wt", "gewicht", "poids", "peso")
        if first_hint(name, [BODY]) or (bare and any(first_hint(other.name, [TALL]) for other in columns)):
            return BODY
        if ((facts.plain_low if facts.stands_apart else facts.low) or 0) >= 0:
            return WEIGHT
    if first_hint(name, [STRATUM]):
        return STRATUM
    identifier = first_hint(name, (*IDENTIFIERS, PERSON_NUMBER, HOUSEHOLD, CONTRIBUTOR))
    if identifier and not _categories(facts) and not _amounts(facts):
        return Hint(Role.IDENTIFIER, identifier.about, identifier.pattern)
    if (first_hint(name, [NAME]) and not first_hint(name, [PLACE])) and facts.kind == TEXT and facts.distinct != 2:
        return NAME
    hint = first_hint(name, (*CONFIDENTIAL, TIME, *KEYS))
    if hint is None and first_hint(name, [GROUP_NUMBER]) and not _categories(facts) and not _amounts(facts):
        return GROUP_NUMBER
    return Hint(Role.KEY, "a date", hint.pattern) if hint is TIME and facts.kind == DATES else hint


def _categories(facts: ColumnFacts) -> bool:
    """Whether the values can hardly name people: "phone" may be a yes or no question."""
    return facts.kind == YES_NO or (facts.few and (facts.kind == NUMBERS or facts.distinct <= 2))


def _amounts(facts: ColumnFacts) -> bool:
    return facts.kind == NUMBERS and facts.present > 0 and not facts.whole


def _chosen(role: Role, columns: Sequence[ColumnFacts], named: dict[str, Hint | None]) -> str | None:
    """Return the one column that gets a role of which there is one; the weight of persons before that of households."""
    fitting = [f.name for f in columns if (hint := named[f.name]) is not None and hint.role is role]
    if role is Role.WEIGHT:
        fitting.sort(key=lambda name: "household" in name.casefold() or name.casefold().startswith("hh"))
    return fitting[0] if fitting else None


# -- one column


def _attribute(facts: ColumnFacts, hint: Hint | None, design: dict[Role, str | None]) -> Attribute:
    role, why = _role(facts, hint, design)
    scale, hierarchy, integer, notes = _scale(facts, hint, role)
    return Attribute(
        facts.name,
        role=role,
        scale=scale,
        hierarchy=hierarchy,
        integer=integer,
        reason=" ".join([why, *notes, *_doubts(facts, role)]),
    )


def _role(facts: ColumnFacts, hint: Hint | None, design: dict[Role, str | None]) -> tuple[Role, str]:
    if why := _names_one_record(facts, hint):
        return Role.IDENTIFIER, why
    if facts.identifiers is not None and facts.identifiers.mainly and (hint is None or hint.role not in _DESIGN):
        if hint is None or hint.role is Role.IDENTIFIER:
            return Role.IDENTIFIER, "Its texts name or reach a person."
        return Role.IDENTIFIER, f"The name suggests {hint.about}, but its texts name or reach a person."
    if hint is not None:
        return _role_of_hint(facts, hint, design)
    if facts.records == 0:
        return Role.OTHER, "The name says nothing, and there are no records to look at."
    if facts.missing == facts.records:
        return Role.OTHER, "Every value is missing."
    if facts.kind == OTHER:
        return Role.IDENTIFIER, (
            "It holds values that are neither numbers, text, dates nor yes or no, and that no method can mask; "
            "to be safe it is removed with the identifiers."
        )
    if facts.constant:
        return Role.OTHER, "The same value in every record that has one."
    return _role_of_values(facts)


def _names_one_record(facts: ColumnFacts, hint: Hint | None) -> str:
    """Say why the values stand for one record each, whatever else the name suggests; nothing where they do not.

    Such a column in a release names people, masked or not: as a key it would be published. Its name decides only for what is
    different in every record by nature: amounts of money, dates, codes of places that generalise.
    """
    if hint is not None and hint.role not in (Role.KEY, Role.CONFIDENTIAL, Role.STRATUM, Role.OTHER):
        return ""
    if facts.kind == TEXT:
        why = _text_of_one(facts, hint)
    elif facts.kind == NUMBERS and facts.whole and facts.nearly_unique:
        why = _number_of_one(facts, hint)
    else:
        why = ""
    return f"The name suggests {hint.about}, but: {why[:1].lower()}{why[1:]}" if why and hint is not None else why


def _text_of_one(facts: ColumnFacts, hint: Hint | None) -> str:
    seldom = facts.present >= _SAYS_SOMETHING and 2 * facts.distinct > facts.present
    if facts.iso_dates or not (facts.nearly_unique or seldom):
        return ""
    if facts.longest >= _LONG and seldom:
        return "Long text that seldom repeats may name people; to be safe it is an identifier."
    if hint is not None:
        numbers = facts.digits or facts.commas or facts.points_between or facts.commas_between or facts.blanks_between
        by_nature = hint.role is Role.CONFIDENTIAL or (hint.shape == "ordered" and numbers)
        if by_nature or not facts.nearly_unique or (hint.shape == "codes" and _prefixes(facts, hint) is not None):
            return ""
    if facts.nearly_unique:
        return _own_value(facts)
    return (
        ""
        if _alike(facts) or facts.commas
        else "Text that seldom repeats may name people; to be safe it is an identifier."
    )


def _number_of_one(facts: ColumnFacts, hint: Hint | None) -> str:
    if hint is not None and (hint is MONEY or hint.shape in ("ordered", "codes")):
        return ""
    low, high = facts.low or 0.0, facts.high or 0.0
    every = facts.distinct == facts.present
    if every and high - low + 1 == facts.distinct:
        return "A running number: a different one in every record."
    if every and low >= 10_000_000 and len(f"{low:.0f}") == len(f"{high:.0f}"):
        return "A different long number in every record, all of one length, as in a register."
    if facts.numbered:
        return "Whole numbers that repeat less than chance would have it, as numbers do that are given to records one by one."
    if first_hint(facts.name, [SERIAL]):
        return f"The name suggests {SERIAL.about}. {_own_value(facts)}" if hint is None else _own_value(facts)
    return ""


def _role_of_hint(facts: ColumnFacts, hint: Hint, design: dict[Role, str | None]) -> tuple[Role, str]:
    why = f"The name suggests {hint.about}."
    taken = design.get(hint.role)
    if hint.role is Role.IDENTIFIER:
        if hint is GROUP_NUMBER and facts.present and 2 * facts.distinct < facts.present:
            return Role.KEY, "The name suggests the number of a group; to be safe it counts as known to others."
        return Role.IDENTIFIER, f"{why} {_own_value(facts)}" if facts.nearly_unique else why
    if taken is not None and taken != facts.name:
        first = f"'{taken}' is taken as that already, and there can be only one."
        return {
            Role.WEIGHT: (Role.OTHER, f"{why} {first}"),
            Role.HOUSEHOLD: (Role.IDENTIFIER, f"{why} {first} To be safe this one is removed with the identifiers."),
            Role.CONTRIBUTOR: (Role.KEY, f"{why} {first} To be safe this one counts as known to others."),
        }[hint.role]
    if hint.role is Role.HOUSEHOLD:
        why += " Columns that describe the whole household need level = 'household'; that is not guessed."
    return hint.role, why


def _own_value(facts: ColumnFacts) -> str:
    every = "every" if facts.distinct == facts.present else "almost every"
    return f"A different value in {every} record that has one."


def _role_of_values(facts: ColumnFacts) -> tuple[Role, str]:
    if facts.kind == YES_NO:
        return Role.KEY, "Yes or no; to be safe it counts as known to others."
    if facts.kind == DATES or facts.iso_dates:
        return Role.KEY, "Others may know the date of an event."
    if facts.few:
        return Role.KEY, "Few different values, as categories have; to be safe it counts as known to others."
    if facts.kind == TEXT:
        return Role.KEY, "Text that repeats, as categories do; to be safe it counts as known to others."
    if facts.whole and facts.distinct < _FEW_CODES and 10 * facts.distinct <= facts.present:
        return Role.KEY, (
            "Whole numbers that repeat often, such as ages, counts or codes; to be safe it counts as known to others. "
            "If they are codes without an order, use scale = 'unordered'."
        )
    return Role.CONFIDENTIAL, (
        "Many different numbers of unknown meaning; to be safe it counts as confidential. "
        "If others may know it, make it a key."
    )


# -- order


def _scale(facts: ColumnFacts, hint: Hint | None, role: Role) -> tuple[Scale, Hierarchy | None, bool, list[str]]:
    """Return the scale, a hierarchy where the scale needs one, whether whole numbers are meant, and what to say."""
    shape = "" if hint is None else hint.shape
    if role is Role.WEIGHT or (hint is not None and hint.role is Role.WEIGHT):
        return Scale.ORDERED, None, False, []
    if role in (Role.IDENTIFIER, Role.HOUSEHOLD, Role.STRATUM, Role.CONTRIBUTOR) or hint is GROUP_NUMBER:
        return Scale.UNORDERED, None, False, []
    if shape == "codes" or (facts.kind == TEXT and _alike(facts)):
        if found := _prefixes(facts, hint):
            notes = ["Its codes generalise by their first characters."]
            if facts.kind == NUMBERS:
                notes.append("They are stored as numbers, without zeros in front: check their length.")
            return Scale.PARTIALLY_ORDERED, found, False, notes
        notes = ["Its codes differ in length or form, so no hierarchy is guessed."] if facts.present else []
        return Scale.UNORDERED, None, False, notes
    if facts.kind == DATES:
        return Scale.ORDERED, None, False, []
    if facts.kind == TEXT and facts.iso_dates:
        return Scale.PARTIALLY_ORDERED, DateHierarchy(), False, ["Its dates generalise to months and years."]
    if facts.kind != NUMBERS or shape == "plain":
        text = shape == "ordered" and facts.kind == TEXT and facts.present > 0
        return Scale.UNORDERED, None, False, ["It holds text, so no order is assumed."] if text else []
    if shape != "ordered" and facts.whole and (facts.codes or (role is Role.KEY and (facts.few or hint is not None))):
        return Scale.UNORDERED, None, False, ["Its whole numbers are taken as codes without an order."]
    counts = hint is not BODY if shape == "ordered" else role is not Role.CONFIDENTIAL and facts.distinct < _FEW_CODES
    counted = facts.whole and counts
    return Scale.ORDERED, None, counted, _not_assumed(facts, counted)


def _not_assumed(facts: ColumnFacts, counted: bool) -> list[str]:
    """Say which limits were seen but not declared: clipping and rounding bias what is masked, so a person decides."""
    seen = ["integer"] if facts.whole and not counted else []
    if facts.plain_low is not None and facts.plain_low >= 0 and not counted:
        seen.append("minimum")
    if not seen:
        return []
    may = {"integer": "have decimals", "minimum": "fall below zero"}
    verb = "is" if len(seen) == 1 else "are"
    return [f"Masked values may {' or '.join(may[s] for s in seen)} unless {' and '.join(map(repr, seen))} {verb} set."]


def _alike(facts: ColumnFacts) -> bool:
    """Whether text looks like a classification: digits, all of one length, too many for plain categories."""
    return facts.digits and facts.shortest == facts.longest and 3 <= facts.longest <= 8 and facts.distinct > 20


def _prefixes(facts: ColumnFacts, hint: Hint | None) -> PrefixHierarchy | None:
    american = 5 if hint is ZIP and "zip" in words(facts.name) else 2
    low, high = (facts.plain_low, facts.plain_high) if facts.stands_apart else (facts.low, facts.high)
    if facts.kind == NUMBERS and facts.whole and low is not None and high is not None and low >= 0:
        shortest, longest = len(f"{low:.0f}"), len(f"{high:.0f}")
    elif facts.kind == TEXT and facts.digits:
        shortest, longest = facts.shortest, facts.longest
    elif facts.kind == TEXT and facts.shortest == facts.longest > 1 and not facts.no_answer:
        return PrefixHierarchy(facts.longest, alphabet=36)
    else:
        return None
    # a zero or two in front may be lost, but four digits more are an extension
    return PrefixHierarchy(max(american, longest)) if longest - shortest <= 2 or longest <= 5 else None


# -- what a person should look at


def _doubts(facts: ColumnFacts, role: Role) -> list[str]:
    doubts = []
    if facts.identifiers is not None:
        advice = "" if role is Role.IDENTIFIER else ": remove or mask them"
        doubts.append(f"It holds {facts.identifiers.words()}{advice}.")
    between = {"thousands='.', decimal=','": facts.points_between, "thousands=','": facts.commas_between}
    between["thousands=' ' (or the apostrophe that it has), and decimal=',' where it has one"] = facts.blanks_between
    if how := next((how for how, there in between.items() if there and not facts.digits), ""):
        doubts.append(f"Its numbers have marks between thousands, and were read as text: read the file with {how}.")
    elif facts.commas:
        doubts.append("Its numbers have a decimal comma, and were read as text: read the file with decimal=','.")
    if role in (Role.KEY, Role.CONFIDENTIAL) and facts.records:
        if not facts.present:
            doubts.append("Every value is missing.")
        elif facts.constant:
            doubts.append("It has the same value in every record that has one.")
        elif facts.kind == TEXT and facts.nearly_unique:
            doubts.append(f"{_own_value(facts)} If it can name a person, make it an identifier.")
        if role is Role.CONFIDENTIAL and facts.digits and not facts.few:
            doubts.append("It holds numbers written as text: turn them into numbers to mask them as such.")
    if role is not Role.IDENTIFIER and facts.stands_apart:
        doubts.append(
            f"The {facts.stands_apart} value stands apart, as a code for 'no answer' does: "
            "it counts as a value until 'missing' names it."
        )
    if role is not Role.IDENTIFIER and facts.no_answer:
        doubts.append("Some text is blank or reads like 'no answer': it counts as a value until 'missing' names it.")
    return doubts
