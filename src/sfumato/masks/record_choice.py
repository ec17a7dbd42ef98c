"""Shared by the methods on records: units, survey weights, strata, and the matrix A that selects records."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.contract import Draws, Mask, MatrixForm, learned, param
from sfumato.contract.linked_columns import run_linked
from sfumato.data import Batch, Column, Kind, Microdata
from sfumato.data.households import Unit
from sfumato.errors import DataError
from sfumato.kernels.classes import mix64
from sfumato.schema import Schema
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Keys = NDArray[np.uint64]


class Rule:
    """The learned rule of a method on records, with the draws and the data it belongs to; other data need a new rule."""

    def __init__(self, facts: Any, data: Microdata, stamp: float | None) -> None:
        self.facts = facts
        self._engine: weakref.ref[Any] | None = weakref.ref(data.engine)
        self._stamp = stamp

    def __getstate__(self) -> dict[str, Any]:
        return {"facts": self.facts, "_engine": None, "_stamp": self._stamp}  # the data are not pickled with the rule

    def is_for(self, data: Microdata, stamp: float | None) -> bool:
        """Whether it was learned on these data with these draws."""
        return self._engine is not None and self._engine() is data.engine and stamp == self._stamp


class RecordChoice(Mask, abstract=True):
    """Some records are released and the others are not; survey weights of the released ones make up for it.

    Once fitted, whether a record is released depends only on that record. A fitted choice that is applied to other data, or
    with other draws, is learned again by the same design.
    """

    keeps_records: ClassVar[bool] = False
    draws_at_all: ClassVar[bool] = False

    _: KW_ONLY
    unit: Unit = param(
        default="household",
        doc="what is kept or dropped whole: households, where the schema names them, or single records",
    )
    rule: Any = learned("unit", default=None)

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed and without the rule, which depends on all of them."""
        made = super().with_(**changes)
        return made.forget() if changes else made

    @abstractmethod
    def choice(self, batch: Batch, draws: Draws) -> tuple[Flags, Numbers]:
        """Return which records are released, and the factor of their survey weights; shape (n,) each."""

    def stamp(self, draws: Draws) -> float | None:
        """Return a number that identifies the draws; None if the method draws nothing."""
        return float(draws.uniforms(np.zeros(1, np.int64), "stamp")[0]) if self.draws_at_all else None

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Choose records by the rule, or by a fresh one if it was learned on other data or with other draws."""
        if not self.rule.is_for(data, self.stamp(draws)):
            return run_linked(self.fit(data, draws), data, draws)
        return super().run(data, draws, function)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Keep the chosen records, with new weights."""
        keep, factor = self.choice(batch, draws)
        return reweighted(batch, factor).keep(keep)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema, where survey weights need no longer be whole."""
        return free_weights(schema)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*schema.names(role="weight"), *self.needs(schema))))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the survey weight: no other value changes."""
        return schema.names(role="weight")

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that decide which records are released."""
        return schema.names(role="household") if self.unit == "household" else ()

    def chosen_form(
        self, data: Microdata, draws: Draws, random: tuple[str, ...], depends: tuple[str, ...]
    ) -> MatrixForm:
        """Return M = AX: each row of A has a single 1, in the column of the record that is released there."""
        keep, _ = self.choice(data.batch(self.touches(data.schema)), draws)
        names = unchanged_numbers(data)
        return MatrixForm(names, names, A=picks(np.flatnonzero(keep), len(keep)), random=random, depends=depends)


def unchanged_numbers(data: Microdata) -> tuple[str, ...]:
    """Return the numeric columns that a method on records releases unchanged: all but the survey weight."""
    schema = data.schema
    return tuple(
        n for n, k in data.engine.kinds.items() if k is Kind.NUMBER and schema[n].role not in ("weight", "identifier")
    )


def picks(rows: Whole, n: int) -> csr_array:
    """Return the matrix of zeros and ones, shape (r, n), whose product with X holds these rows of X."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows)), rows, np.arange(len(rows) + 1)), shape=(len(rows), n))


# Survey weights


def checked_weights(batch: Batch) -> Numbers | None:
    """Return the survey weights, shape (n,); None if the schema names none. Missing, negative or all-zero ones are refused."""
    name = batch.schema.one("weight")
    if name is None:
        return None
    weights = batch.numbers(name)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise DataError(
            f"some survey weights in '{name}' are missing, negative or infinite. Every record needs one of at least 0."
        )
    if len(weights) and not weights.any():
        raise DataError(
            f"all survey weights in '{name}' are zero, so no record counts. Correct them, or give the column another role."
        )
    return weights


def reweighted(batch: Batch, factor: Numbers) -> Batch:
    """Return the records with their survey weights, if they have any, multiplied by a factor, shape (n,)."""
    name = batch.schema.one("weight")
    if name is None:
        return batch
    return batch.with_columns({name: Column.from_numbers(batch.numbers(name) * factor)})


def free_weights(schema: Schema) -> Schema:
    """Return the schema with a survey weight that may be any number of at least 0."""
    name = schema.one("weight")
    if name is None or (not schema[name].integer and schema[name].bounds == (None, None)):
        return schema
    return schema.change(name, integer=False, bounds=(0, None), reason=schema[name].reason)


# Strata


def strata_columns(schema: Schema) -> tuple[str, ...]:
    """Return the columns that the schema calls strata."""
    return schema.names(role="stratum")


def combined(batch: Batch, names: Sequence[str]) -> Keys:
    """Return a 64-bit number for each record's combination of values, the same on every engine; missing is a value too."""
    keys = np.zeros(len(batch), np.uint64)
    for name in names:
        keys = mix64(keys ^ mix64(batch.column(name).bare().hashes.view(np.uint64)))
    return keys


def at_key(table: NDArray[Any], keys: NDArray[Any]) -> Whole:
    """Return the index of each key in a sorted table, -1 if it is not there."""
    if not len(table):
        return np.full(len(keys), -1, np.int64)
    at = np.minimum(np.searchsorted(table, keys), len(table) - 1)
    return np.where(table[at] == keys, at, -1)


def among(keys: NDArray[Any], table: NDArray[Any]) -> Flags:
    """Return which keys are in an unsorted table; by sorting, which is faster than NumPy's hashing on long random keys."""
    return at_key(np.sort(table), keys) >= 0
