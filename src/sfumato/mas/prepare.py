"""From confidential microdata to prepared records: level numbers, numbers, and one keyed random number each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.engines import Column, Engine, Kind, Rows
from sfumato.engines.warehouse import build
from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.kernels.digest import mix64, row_hashes
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.recode import Recode, with_recodes
from sfumato.mas.variable import MISSING, Variable, level_text
from sfumato.microdata import Microdata, missing_of, numbers_of
from sfumato.schema import Attribute, Level, Role, Scale, Schema

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


def find_variables(data: Microdata, bins: Bins, recodes: Sequence[Recode] = ()) -> tuple[Variable, ...]:
    """Return the variables of a data set, and their recodes; those of numbers have levels where cutpoints are given for them.

    Numbers that the schema says have no order are codes of categories.
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
        if name in bins and numeric:
            levels = (*bins[name].labels, *_missing_level(data, attribute))
        elif name in bins:
            raise DataError(
                f"variable '{name}' does not hold numbers, so it takes no cutpoints. Group its levels by a recode."
            )
        elif coded or kind in (Kind.CATEGORY, Kind.BOOLEAN):
            levels = _levels(data, attribute)
        elif kind is not Kind.NUMBER:
            none = ", or none at all" if kind is Kind.OTHER else ""
            raise DataError(
                f"variable '{name}' holds {kind}{none}, which the analysis system cannot use. Leave it out (role = 'identifier' "
                "in the schema), or make levels or numbers of it first."
            )
        variables.append(Variable(
            name, place, attribute.role is Role.KEY, levels, bins.get(name), numeric, attribute.integer,
            attribute.label, attribute.unit, attribute.level.value, words=_words(levels, attribute),
        ))  # fmt: skip
    return with_recodes(variables, recodes)


def _words(levels: Sequence[str], attribute: Attribute) -> tuple[str, ...]:
    """Return what the schema says that each level means, if it says so of any."""
    words = tuple(attribute.labels.get(level, level) for level in levels)
    return words if words != tuple(levels) and len(set(words)) == len(words) else ()


def _levels(data: Microdata, attribute: Attribute) -> tuple[str, ...]:
    """Return the levels of categories: in the order of the schema's numbers or labels, else of the alphabet."""
    column = data.engine.group([attribute.name]).columns[attribute.name]
    gone = missing_of(column, attribute)
    codes, values = column.codes
    found = {level_text(values[code]) for code in codes[~gone]}
    if len(found) > _MOST_LEVELS:
        raise DataError(
            f"variable '{attribute.name}' has more than {_MOST_LEVELS} levels. Recode it, or give it the role of an identifier."
        )
    order = [v for v in (attribute.values or attribute.labels) if v in found]
    if attribute.values:
        order.sort(key=lambda v: attribute.values[v])
    listed = [*order, *sorted(found - set(order), key=_by_number)]
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


def _missing_level(data: Microdata, attribute: Attribute) -> tuple[str, ...]:
    name, schema = attribute.name, data.schema

    def gaps(rows: Rows) -> NDArray[np.float64]:
        return np.array([float(np.isnan(numbers_of(rows.columns[name], schema[name])).sum())])

    return (MISSING,) if data.engine.reduce(gaps, [name])[0] else ()


def prepare(
    data: Microdata, variables: Sequence[Variable], secret: Draws, path: Path, identity: str | None = None
) -> None:
    """Write the prepared records.

    `identity` names the column that tells records apart in every version of the data; without it they are told apart by what
    others may know of them, and by their order among those who are alike in that. The random number of a record hangs on this
    alone: when a confidential value changes, no drop and no noise does, so that none of them tells of it.
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
    """Return the level numbers of a variable from the column that it, or what it is a recode of, comes from."""
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
        table = np.array([last if v in attribute.missing else place.get(level_text(v), last) for v in values] + [last])
        found = table[codes]
    return found.astype(np.int8 if last < 127 else np.int16)


def _design(column: Column, attribute: Attribute, role: Role, own: NDArray[np.uint64]) -> Column:
    """Return weights, or a number for each household, establishment or stratum; a record without one is one of its own."""
    if role is Role.WEIGHT:
        weights = numbers_of(column, attribute)
        if bad_weights(weights):
            raise DataError(_WEIGHTS.format(attribute.name))
        return Column.from_numbers(weights)
    hashes = np.where(missing_of(column, attribute), own.view(np.uint64), column.hashes.view(np.uint64))
    return Column.from_values(mix64(hashes).view(np.int64))


def bad_weights(weights: NDArray[np.float64]) -> int:
    """Return how many weights are no positive finite numbers."""
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
    """Return for each record how many like it came before, by position; shape (n,)."""
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
    """Return how each variable is taken, in words, for the custodian to confirm."""
    words = {Role.KEY: "known to others", Role.IDENTIFIER: "left out", Role.CONFIDENTIAL: "confidential"}
    return {a.name: words.get(a.role, f"the {a.role}" if a.role in _DESIGN else "confidential") for a in schema}
