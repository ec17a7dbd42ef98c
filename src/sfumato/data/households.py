"""Households: which records belong together, and files of households and of persons, apart and together again."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sfumato.data.columns import Column
from sfumato.data.engine import Rows
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.schema import Attribute, Level, Role, Schema
from sfumato.typing import Whole

Unit = Literal["household", "record"]


def unit_ids(batch: Batch, unit: Unit) -> Whole:
    """Return the id of the unit that each record belongs to: its household, where the schema names one, or itself.

    A record whose household is not known stands for itself.
    """
    household = batch.schema.one("household")
    if unit == "record" or household is None:
        return batch.ids
    return np.where(batch.missing(household), batch.ids, batch.column(household).hashes)


def split_households(data: Microdata) -> tuple[Microdata, Microdata]:
    """Split a file into one of households and one of persons; both hold the household number.

    The household file has one record for each household, in the order in which they first stand in the file, with the
    columns whose level is household. The person file has the other columns. The survey weight is in the person file, and
    in the household file as well if all members of each household share it. Both files are in memory.

    Examples
    --------
    >>> from sfumato.datasets import five
    >>> households, persons = split_households(five())
    >>> households.schema.names(), len(households), len(persons)
    (('household', 'rent', 'weight'), 4, 5)
    """
    number, weight = _number(data), data.schema.one("weight")
    batch = data.batch()
    if nobody := int(batch.missing(number).sum()):
        raise DataError(
            f"{nobody:,} records have no household number in '{number}', so they cannot be split off. "
            "Give each of them a number of its own, or drop them first."
        )
    _, first, member = np.unique(unit_ids(batch, "household"), return_index=True, return_inverse=True)
    shared = [a.name for a in data.schema if a.level is Level.HOUSEHOLD and a.name != number]
    if shared:
        batch.members(shared)  # refuses households whose members disagree
    if weight is not None and weight not in shared:
        weights = batch.column(weight).hashes
        shared += [weight] if bool((weights == weights[first][member]).all()) else []
    persons = [n for n in data.schema.names() if n not in shared or n == weight]
    rows = np.sort(first)
    one_each = Rows(np.arange(len(rows), dtype=np.int64), batch.keep(rows).rows.columns)
    return _part(data, one_each, {number, *shared}), _part(data, batch.rows, set(persons))


def merge_households(
    households: Microdata,
    persons: Microdata,
    schema: Schema | None = None,
    unmatched: Literal["refuse", "drop"] = "refuse",
) -> Microdata:
    """Put a household file and a person file together: every person gets the columns of the household.

    Household columns stand after the household number, unless `schema`, that of the file before it was split, says
    otherwise. Persons without a household and households without persons are refused, or dropped (`unmatched="drop"`).

    Examples
    --------
    >>> from sfumato.datasets import five
    >>> merged = merge_households(*split_households(five()), five().schema)
    >>> merged.digest() == five().digest()
    True
    """
    if unmatched not in ("refuse", "drop"):
        raise ParameterError("unmatched must be 'refuse' or 'drop'.")
    number, weight = _number(persons), persons.schema.one("weight")
    if _number(households) != number:
        raise DataError(
            "the household number has another name in the household file than in the person file. Rename one."
        )
    home, person = households.batch(), persons.batch()
    keys = home.column(number).hashes
    order = np.argsort(keys, kind="stable")
    if home.missing(number).any() or bool((np.diff(keys[order]) == 0).any()):
        raise DataError(f"some numbers in '{number}' of the household file are missing, or stand there more than once.")
    wanted = person.column(number).hashes
    at = (
        order[np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)] if len(order) else np.zeros_like(wanted)
    )
    found = (keys[at] == wanted) & ~person.missing(number) if len(order) else np.zeros(len(wanted), bool)
    _check_matched(int((~found).sum()), len(home) - len(np.unique(at[found])), unmatched)
    person, at = person.keep(found), at[found]
    added = {n: c.take(at) for n, c in home.rows.columns.items() if n != number}
    if weight is not None and weight in added:
        differ = added.pop(weight).numbers != person.column(weight).numbers
        if differ.any():
            raise DataError(
                f"the survey weight '{weight}' differs between the two files for {int(differ.sum()):,} persons. "
                "Drop it from one of the files: that of the other is then used for both."
            )
    if twice := [n for n in added if n in person.rows.columns]:
        raise DataError(f"column '{twice[0]}' is in both files. Drop or rename it in one of them.")
    meaning = schema or _merged_schema(households.schema, persons.schema, number, set(added))
    columns = {**person.rows.columns, **added}
    ordered = {n: columns[n] for n in meaning.names() if n in columns}
    return Microdata(persons.engine.hold(Rows(person.ids, {**ordered, **columns})), meaning)


def _number(data: Microdata) -> str:
    number = data.schema.one("household")
    if number is None:
        raise DataError("no column holds the household number. Give one the role 'household' in the schema.")
    return number


def _part(data: Microdata, rows: Rows, names: set[str]) -> Microdata:
    columns: dict[str, Column] = {n: c for n, c in rows.columns.items() if n in names}
    return Microdata(data.engine.hold(Rows(rows.ids, columns)), data.schema.keep(lambda a: a.name in names))


def _check_matched(alone: int, empty: int, unmatched: str) -> None:
    if unmatched == "refuse" and (alone or empty):
        raise DataError(
            f"{alone:,} persons have a household that is not in the household file, and {empty:,} households have no person "
            "in the person file. Correct the files, or use unmatched='drop' to leave them out."
        )


def _merged_schema(households: Schema, persons: Schema, number: str, added: set[str]) -> Schema:
    attributes: list[Attribute] = []
    for attribute in persons:
        attributes.append(attribute)
        if attribute.name == number:
            attributes += [a for a in households if a.name in added]
    if len([a for a in attributes if a.role is Role.WEIGHT]) > 1:
        raise DataError(
            "the household file and the person file have survey weights under different names, and a file has one. "
            "Set the role of one of them to 'other'."
        )
    return Schema(tuple(attributes))
