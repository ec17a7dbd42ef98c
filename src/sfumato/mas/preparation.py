"""From confidential microdata to prepared records: recodes, dependent variables, level numbers, random numbers."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.data.columns import Column, Kind
from sfumato.data.engine import Engine, Rows
from sfumato.data.microdata import Microdata, missing_of, numbers_of
from sfumato.data.warehouse import build
from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.kernels.classes import mix64, row_hashes
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.variable import MISSING, Variable, level_text
from sfumato.schema.attribute import Attribute, Level, Role, Scale
from sfumato.schema.schema import Schema
from sfumato.toml import parse
from sfumato.typing import Numbers

# --- recode
# Recodes: groups of levels of a variable, under a new name.


@dataclass(frozen=True)
class LevelRecode:
    """Groups of the levels of a variable.

    A universe formed with a recode is one of the variable itself: the same records, the same drops and the same noise.
    Levels in no group stay as they are.

    Examples
    --------
    >>> race = Variable("race", 0, True, ("A", "B", "O", "W"))
    >>> LevelRecode("race3", "race", {"other": ["A", "O"]}).made(race, 1).levels
    ('other', 'B', 'W')
    """

    name: str
    of: str
    """The variable whose levels are grouped."""
    groups: Mapping[str, Iterable[str]]
    """Levels by the name of their group; ranges such as "60-79" for a variable with cutpoints."""
    label: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) and text for text in (self.name, self.of)):
            raise ParameterError("a recode has a name, and the name of the variable whose levels it groups ('of').")
        if not isinstance(self.groups, Mapping) or not self.groups:
            raise ParameterError(
                f"the groups of the recode '{self.name}' are lists of levels by the name of their group."
            )
        if not all(
            isinstance(v, str) or (isinstance(v, Iterable) and not isinstance(v, bytes)) for v in self.groups.values()
        ):
            raise ParameterError(f"a group of the recode '{self.name}' is no list of levels.")
        listed = {str(k): (v,) if isinstance(v, str) else tuple(map(level_text, v)) for k, v in self.groups.items()}
        if not all(listed.values()):
            raise ParameterError(f"a group of the recode '{self.name}' has no level. Leave it out.")
        object.__setattr__(self, "groups", listed)

    def made(self, variable: Variable, place: int) -> Variable:
        """Return the recode as a variable; a recode of a recode groups the levels of the base variable."""
        if not variable.levels:
            raise DataError(
                f"the recode '{self.name}' groups levels of '{variable.name}', which has none: choose cutpoints for it first."
            )
        taken: dict[int, str] = {}
        for group, texts in self.groups.items():
            for level in variable.pick(texts):
                if level in taken:
                    raise DataError(f"the recode '{self.name}' has '{variable.levels[level]}' in two groups.")
                taken[level] = group
        names = [taken.get(i, level) for i, level in enumerate(variable.levels)]
        whole = {names[i] for i in set(range(len(names))) - set(taken)}
        if mixed := whole & set(taken.values()):
            raise DataError(
                f"the recode '{self.name}' has a group and a level that are both called '{min(mixed)}'. Rename the group."
            )
        levels = list(dict.fromkeys(names))
        if MISSING in levels:  # always the last one
            levels = [*(level for level in levels if level != MISSING), MISSING]
        groups = [levels.index(name) for name in names]
        base = variable
        if variable.base is not None:
            base, groups = variable.base, [groups[level] for level in variable.groups]
        return Variable(
            self.name, place, variable.known, tuple(levels), label=self.label, level=variable.level,
            base=base, groups=tuple(groups),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the table to write as TOML."""
        out: dict[str, Any] = {"name": self.name, "of": self.of}
        out |= {"label": self.label} if self.label else {}
        return {**out, "groups": {group: list(texts) for group, texts in self.groups.items()}}

    @classmethod
    def from_dict(cls, table: Any) -> LevelRecode:
        """Build from a TOML table; the inverse of `to_dict`."""
        known = ("name", "of", "groups", "label")
        if not isinstance(table, Mapping) or not {"name", "of", "groups"} <= set(table):
            raise ParameterError("every [[recode]] has a name, the variable that it is of, and groups.")
        for field in table:
            if field not in known:
                raise ParameterError(unknown_name("field", field, known, "a recode"))
        return cls(**table)

    @classmethod
    def read(cls, path: str | Path) -> tuple[LevelRecode, ...]:
        """Read the [[recode]] tables of a TOML file."""
        try:
            table = parse(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            raise ParameterError(f"there is no file of recodes at {path} that can be read.") from None
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"{path} is not TOML: {error}.") from None
        found = table.get("recode")
        if not isinstance(found, list) or set(table) != {"recode"}:
            raise ParameterError(f"{path} holds [[recode]] tables, and nothing else.")
        return tuple(map(cls.from_dict, found))


def with_recodes(variables: Iterable[Variable], recodes: Sequence[LevelRecode]) -> tuple[Variable, ...]:
    """Return the variables of a data set, with their recodes after them."""
    found = {v.name: v for v in variables}
    check_names(recodes, found)
    for recode in recodes:
        place = 1 + max(v.place for v in found.values())
        found[recode.name] = recode.made(found[recode.of], place)
    return tuple(found.values())


def check_names(recodes: Iterable[LevelRecode], variables: Iterable[str]) -> None:
    """Refuse recodes of unknown variables, or with the name of a variable."""
    known = list(variables)
    for recode in recodes:
        if recode.of not in known:
            raise ParameterError(unknown_name("variable", recode.of, known, f"the data set (recode '{recode.name}')"))
        if recode.name in known:
            raise ParameterError(f"the recode '{recode.name}' has a name that is taken. Choose another one.")
        known.append(recode.name)


# --- dependence
# Variables of which one nearly determines another: reported at registration, for the custodian to decide about.


NEARLY = 0.9
RARE = 20
_CELLS = 4_000_000


@dataclass(frozen=True)
class Dependence:
    """One variable that nearly determines another; confidential."""

    one: str
    other: str
    share: float
    """The share of wrong guesses of the other variable that this one corrects: see `foretold`."""
    marks: tuple[str, str] = ("known", "known")

    def __str__(self) -> str:
        first = f"'{self.one}' tells '{self.other}' of nearly every record."
        if self.marks == ("known", "confidential"):
            return (
                f"{first} Who knows the first knows the second, which is marked confidential: mark it as known, leave one "
                "out, or make the first coarser."
            )
        if self.marks == ("confidential", "known"):
            return f"{first} Answers about the second tell the first: mark it as known, or leave one out."
        return (
            f"{first} Universes formed with both differ by few records, so that the rules on universes protect less: leave one "
            "out, or group its levels by a recode."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table to write as TOML."""
        return {"one": self.one, "other": self.other, "share": round(self.share, 4), "marks": list(self.marks)}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Dependence:
        """Build from a TOML table; the inverse of `to_dict`."""
        return cls(table["one"], table["other"], float(table["share"]), (table["marks"][0], table["marks"][1]))


def foretold(table: Numbers) -> float:
    """Return the share of wrong guesses of the column that knowing the row corrects; shape of the table (rows, columns).

    Goodman and Kruskal's λ (1954): (right with the row − right without) / (wrong without). It is 0 if the row does not help, and 1
    if it determines the column. Unlike the share of right guesses, it is not high merely because nearly all records have the same
    column. Each record is guessed from the others of its row: a row of one record predicts nothing about its column.

    >>> foretold(np.array([[50.0, 0.0], [0.0, 50.0]])), foretold(np.array([[97.0, 1.0], [97.0, 1.0]]))
    (1.0, 0.0)
    """
    total, most = table.sum(), table.sum(axis=0).max(initial=0)
    if total <= most or table.shape[1] < 2:
        return 0.0  # the column has one level
    two = np.sort(table, axis=1)[:, -2:]
    right = two[:, 1][two[:, 1] - 1 > two[:, 0]].sum()
    return float(max(right - most, 0.0) / (total - most))


def pair_tables(data: Microdata, variables: Sequence[Variable]) -> Iterator[tuple[Variable, Variable, Numbers]]:
    """Yield the table of every pair of variables, counted where the data live; several in one pass."""
    pairs: list[tuple[Variable, Variable]] = []
    cells = 0
    for one, other in itertools.combinations([v for v in variables if v.levels], 2):
        size = len(one.levels) * len(other.levels)
        if pairs and cells + size > _CELLS:
            yield from _tables(data, pairs)
            pairs, cells = [], 0
        pairs.append((one, other))
        cells += size
    if pairs:
        yield from _tables(data, pairs)


def _tables(
    data: Microdata, pairs: Sequence[tuple[Variable, Variable]]
) -> Iterator[tuple[Variable, Variable, Numbers]]:
    used = list({v.name: v for pair in pairs for v in pair}.values())
    schema = data.schema

    def counted(rows: Rows) -> Numbers:
        codes = {v.name: codes_of(rows.columns[v.name], schema[v.name], v).astype(np.int64) for v in used}
        return np.concatenate([
            np.bincount(codes[a.name] * len(b.levels) + codes[b.name], minlength=len(a.levels) * len(b.levels))
            for a, b in pairs
        ]).astype(np.float64)  # fmt: skip

    found = data.engine.reduce(counted, [v.name for v in used])
    start = 0
    for one, other in pairs:
        shape = (len(one.levels), len(other.levels))
        yield one, other, found[start : start + shape[0] * shape[1]].reshape(shape)
        start += shape[0] * shape[1]


def find_dependent(data: Microdata, variables: Sequence[Variable]) -> tuple[Dependence, ...]:
    """Return the pairs of which one variable nearly determines the other, the strongest first."""
    found = []
    for one, other, table in pair_tables(data, variables):
        for a, b, counts in ((one, other, table), (other, one, table.T)):
            if (share := foretold(counts)) >= NEARLY:
                marks = ("known" if a.known else "confidential", "known" if b.known else "confidential")
                found.append(Dependence(a.name, b.name, share, marks))
    return tuple(sorted(found, key=lambda d: (-d.share, d.one, d.other)))


def find_rare(data: Microdata, variables: Sequence[Variable]) -> dict[str, tuple[str, ...]]:
    """Return the levels with fewer than 20 records, by variable: their names are shown to users."""
    counted = level_counts(data, [v for v in variables if v.levels and v.cutpoints is None])
    shown = {v.name: v.levels for v in variables}
    rare = {
        name: tuple(level for level, n in zip(shown[name], counts, strict=True) if n < RARE)
        for name, counts in counted.items()
    }
    return {name: levels for name, levels in rare.items() if levels}


def level_counts(data: Microdata, variables: Sequence[Variable]) -> dict[str, Numbers]:
    """Return how many records have each level, by variable; confidential."""
    schema = data.schema
    if not variables:
        return {}

    def counted(rows: Rows) -> Numbers:
        return np.concatenate([
            np.bincount(codes_of(rows.columns[v.name], schema[v.name], v), minlength=len(v.levels)) for v in variables
        ]).astype(np.float64)  # fmt: skip

    found = data.engine.reduce(counted, list(dict.fromkeys((v.base or v).name for v in variables)))
    parts = np.split(found, np.cumsum([len(v.levels) for v in variables])[:-1])
    return {v.name: part for v, part in zip(variables, parts, strict=True)}


OTHER_LEVELS = "other levels"
"""The level of records whose own level only a few records have."""


# --- prepare
# From confidential microdata to prepared records: level numbers, numbers, and one keyed random number each.


BITS = 31
"""Bits of the random number of a record."""
_DESIGN = {Role.WEIGHT: "w", Role.HOUSEHOLD: "h", Role.CONTRIBUTOR: "e", Role.STRATUM: "s"}
_LEFT_OUT = (Role.IDENTIFIER, *_DESIGN)
_MOST_LEVELS = 500
_WEIGHTS = (
    "the survey weights in '{}' must be positive numbers, without gaps. Leave records out that stand for nobody, or give the "
    "column another role."
)

Bins = Mapping[str, Cutpoints]


def find_variables(
    data: Microdata, bins: Bins, recodes: Sequence[LevelRecode] = (), candidates: Callable[[Attribute], bool | None] | None = None
) -> tuple[Variable, ...]:  # fmt: skip
    """Return the variables of a data set, and their recodes; numerical variables have levels where cutpoints are given.

    Numbers without order in the schema are codes of categories. Levels are those of the file, and "missing" is one of them where
    records without a value exist. But `candidates` says of a column whether it is complete; None: take the file as it is. Then
    the levels are all that records may have, those that the schema lists and nobody has among them.
    """
    variables = []
    used = [a for a in data.schema if a.role not in _LEFT_OUT]
    for name in bins:
        if name not in [a.name for a in used]:
            raise DataError(unknown_name("variable", name, [a.name for a in used], "the data set (cutpoints)"))
    for name, given in bins.items():
        if not isinstance(given, Cutpoints):
            raise ParameterError(f"the cutpoints of '{name}' are Cutpoints, such as Cutpoints((29, 39), whole=True).")
    for place, attribute in enumerate(used):
        kind, name = data.kind(attribute.name), attribute.name
        coded = kind is Kind.NUMBER and attribute.scale is not Scale.ORDERED
        numeric = (kind is Kind.NUMBER and not coded) or bool(attribute.values)
        if attribute.level is Level.HOUSEHOLD and data.schema.one(Role.HOUSEHOLD) is None:
            raise DataError(
                f"variable '{name}' describes households, and no column says which records are one. Give it the role household."
            )
        levels: tuple[str, ...] = ()
        complete = None if candidates is None else candidates(attribute)
        if name in bins and numeric:
            levels = (*bins[name].labels, *_missing_level(data, attribute, complete))
        elif name in bins:
            raise DataError(
                f"variable '{name}' does not hold numbers, so it takes no cutpoints. Group its levels by a recode."
            )
        elif coded or kind in (Kind.CATEGORY, Kind.BOOLEAN):
            levels = _levels(data, attribute, complete)
        elif kind is not Kind.NUMBER:
            none = ", or none at all" if kind is Kind.OTHER else ""
            raise DataError(
                f"variable '{name}' holds {kind}{none}, which the analysis system cannot use. Leave it out (role = 'identifier' "
                "in the schema), or make levels or numbers of it first."
            )
        variables.append(Variable(
            name, place, attribute.role is Role.KEY, levels, bins.get(name), numeric, attribute.integer,
            attribute.label, attribute.unit, attribute.level.value, words=level_words(levels, attribute),
        ))  # fmt: skip
    return with_recodes(variables, recodes)


def level_words(levels: Sequence[str], attribute: Attribute) -> tuple[str, ...]:
    """Return the schema's meaning of each level; empty if it gives none."""
    words = tuple(attribute.labels.get(level, level) for level in levels)
    return words if words != tuple(levels) and len(set(words)) == len(words) else ()


def listed_levels(attribute: Attribute) -> tuple[str, ...]:
    """Return the levels that the schema lists, in its order; codes for missing are none."""
    gone = {level_text(code) for code in attribute.missing}
    listed = [v for v in (attribute.values or attribute.labels) if v not in gone]
    return tuple(sorted(listed, key=lambda v: attribute.values[v]) if attribute.values else listed)


def _levels(data: Microdata, attribute: Attribute, complete: bool | None) -> tuple[str, ...]:
    """Return the levels of categories: in the order of the schema's numbers or labels, else alphabetical."""
    column = data.engine.group([attribute.name]).columns[attribute.name]
    gone = missing_of(column, attribute)
    codes, values = column.codes
    found = {level_text(values[code]) for code in codes[~gone]}
    if len(found) > _MOST_LEVELS:
        raise DataError(
            f"variable '{attribute.name}' has more than {_MOST_LEVELS} levels. Recode it, or give it the role of an identifier."
        )
    order = [v for v in listed_levels(attribute) if v in found or complete is not None]
    listed = [*order, *sorted(found - set(order), key=_by_number)]
    if complete:
        if gone.any() or len(listed) > len(order):
            raise DataError(_NOT_COMPLETE.format(attribute.name))
        return tuple(listed)
    if complete is not None:
        return (*(v for v in listed if v not in (OTHER_LEVELS, MISSING)), OTHER_LEVELS, MISSING)
    if MISSING in found and gone.any():
        raise DataError(
            f"variable '{attribute.name}' has a level called '{MISSING}' and missing values. Rename the level."
        )
    return (*listed, *([MISSING] if gone.any() else []))


def _by_number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


_NOT_COMPLETE = (
    "variable '{}' is said to be complete, but some records have no value, or one that the schema does not list. List all levels in "
    "the schema (labels), or leave the variable out of those that are complete."
)


def _missing_level(data: Microdata, attribute: Attribute, complete: bool | None) -> tuple[str, ...]:
    return (MISSING,) if complete is False or (complete is None and has_gaps(data, attribute)) else ()


def check_complete(data: Microdata, names: Iterable[str]) -> None:
    """Refuse variables that are said to be complete, and have gaps."""
    for name in names:
        if has_gaps(data, data.schema[name]):
            raise DataError(_NOT_COMPLETE.format(name))


def has_gaps(data: Microdata, attribute: Attribute) -> bool:
    """Return whether some records have no number; confidential."""
    name, schema = attribute.name, data.schema

    def gaps(rows: Rows) -> NDArray[np.float64]:
        return np.array([float(np.isnan(numbers_of(rows.columns[name], schema[name])).sum())])

    return bool(data.engine.reduce(gaps, [name])[0])


def prepare(
    data: Microdata, variables: Sequence[Variable], secret: Draws, path: Path, identity: str | None = None
) -> None:
    """Write the prepared records.

    `identity` names the column that identifies records in every version of the data. Without it records are identified by their
    known variables, and by their order among records alike in these. The random number of a record depends on this alone: a
    changed confidential value changes no drop and no noise, so that neither discloses it.
    """
    schema, draws = data.schema, secret.child("records")
    columns = [a.name for a in schema]
    known = [a.name for a in schema if a.role is Role.KEY]
    extra = None if identity else _occurrence(data.engine, known)

    def work(rows: Rows) -> Rows:
        made: dict[str, Column] = {}
        for variable in variables:
            source = variable.base or variable
            column, attribute = rows.columns[source.name], schema[source.name]
            if variable.levels:
                made[variable.codes] = Column.from_values(codes_of(column, attribute, variable))
            if variable.numeric:
                numbers = numbers_of(column, attribute)
                made[variable.numbers] = Column.from_numbers(numbers, np.isnan(numbers))
        tell = [*([identity] if identity else []), *known]
        number = rows.ids * 0 if extra is None else extra[rows.ids]
        who = row_hashes(number, {n: rows.columns[n] for n in tell})[0]
        for role, short in _DESIGN.items():
            if (name := schema.one(role)) is not None:
                made[short] = _design(rows.columns[name], schema[name], role, who)
        drawn = draws.uniforms(mix64(who).view(np.int64), "r")
        made["r"] = Column.from_values((drawn * 2.0**BITS).astype(np.int32))
        return Rows(rows.ids, made)

    build(data.engine, work, columns, path)


def codes_of(column: Column, attribute: Attribute, variable: Variable) -> NDArray[Any]:
    """Return the level numbers of a variable from its column, or from the column of its base variable."""
    last = len(variable.levels) - 1
    if variable.base is not None:
        groups: NDArray[Any] = np.array(variable.groups, np.int8 if last < 127 else np.int16)
        return groups.take(codes_of(column, attribute, variable.base))
    if variable.cutpoints is not None:
        found = variable.cutpoints.codes(numbers_of(column, attribute))
        found = np.where(found < 0, last, found)
    else:
        codes, values = column.codes
        place = {level: i for i, level in enumerate(variable.levels)}
        other = place.get(OTHER_LEVELS, last)
        table = np.array([last if v in attribute.missing else place.get(level_text(v), other) for v in values] + [last])
        found = table[codes]
    return found.astype(np.int8 if last < 127 else np.int16)


def _design(column: Column, attribute: Attribute, role: Role, own: NDArray[np.uint64]) -> Column:
    """Return weights, or a number for each household, establishment or stratum; a record without one counts as its own."""
    if role is Role.WEIGHT:
        weights = numbers_of(column, attribute)
        if bad_weights(weights):
            raise DataError(_WEIGHTS.format(attribute.name))
        return Column.from_numbers(weights)
    hashes = np.where(missing_of(column, attribute), own.view(np.uint64), column.hashes.view(np.uint64))
    return Column.from_values(mix64(hashes).view(np.int64))


def bad_weights(weights: NDArray[np.float64]) -> int:
    """Count the weights that are not positive finite numbers."""
    return int((~((weights > 0) & np.isfinite(weights))).sum())


def check_weights(data: Microdata) -> None:
    """Refuse survey weights that are not positive, before anything is written."""
    if (name := data.schema.one(Role.WEIGHT)) is None:
        return
    attribute = data.schema[name]
    wrong = data.engine.reduce(
        lambda rows: np.array([float(bad_weights(numbers_of(rows.columns[name], attribute)))]), [name]
    )
    if wrong[0]:
        raise DataError(_WEIGHTS.format(name))


def _occurrence(engine: Engine, columns: Sequence[str]) -> NDArray[np.int64]:
    """Return for each record how many equal records precede it, by position; shape (n,)."""
    if engine.name == "Spark":
        raise DataError("records in Spark need a column that tells them apart in every version: name it as identity.")
    if not columns:
        return np.arange(engine.count(), dtype=np.int64)
    zero = np.zeros(0, np.uint64)
    hashes = np.concatenate(
        [zero, *(row_hashes(rows.ids * 0, rows.columns)[0] for rows in engine.batches(list(columns)))]
    )
    order = np.argsort(hashes, kind="stable")
    starts = np.r_[True, hashes[order][1:] != hashes[order][:-1]] if len(order) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order)) - first
    return found


def schema_marks(schema: Schema) -> dict[str, str]:
    """Return how each variable is used, in words, for the custodian to confirm."""
    words = {Role.KEY: "known to others", Role.IDENTIFIER: "left out", Role.CONFIDENTIAL: "confidential"}
    return {a.name: words.get(a.role, f"the {a.role}" if a.role in _DESIGN else "confidential") for a in schema}
