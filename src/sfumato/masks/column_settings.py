"""Settings of masks by column: how they are declared, checked and looked up; and columns of numbers that are replaced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from sfumato.contract import check_numbers, param
from sfumato.data import Batch
from sfumato.errors import ParameterError, join_names
from sfumato.schema import Schema
from sfumato.typing import Numbers


def numeric_columns(verb: str) -> Any:
    """Declare the parameter `columns` of a mask of numbers; `verb` says what is done to them."""
    return param(default=None, doc=f"columns to {verb}; all confidential numbers if none", columns="many")


def value_limit(doc: str) -> Any:
    """Declare a limit in the unit of the column, which may differ by column."""
    return param(default=None, doc=doc, low=-1e300, high=1e300, per_column=True, of_data="numbers")


def check_by_column(
    field: str, noun: str, setting: object, columns: Collection[str] | None, verb: str = "masked"
) -> None:
    """Refuse a setting by column that leaves out a masked column, or names one that is not masked.

    Where no columns are named, those of the data are: they are checked when the mask is fitted.
    """
    if columns is None or not isinstance(setting, Mapping):
        return
    if absent := [c for c in columns if c not in setting]:
        raise ParameterError(f"{field} gives no {noun} for {join_names(absent)}.")
    if extra := [c for c in setting if c not in columns]:
        raise ParameterError(f"{field} names columns that are not {verb}: {join_names(extra)}.")


def of_column(setting: Any, name: str) -> Any:
    """Return a setting that may be given by column; None for a column that it does not name."""
    return setting.get(name) if isinstance(setting, Mapping) else setting


def limited_columns(names: Iterable[str], schema: Schema) -> list[str]:
    """Return the columns that the schema limits: to whole numbers, or by a bound."""
    return [n for n in names if schema[n].integer or schema[n].bounds != (None, None)]


def replace_numbers(
    batch: Batch, names: Collection[str], function: Callable[..., Numbers], *facts: Iterable[Any]
) -> Batch:
    """Return the batch with columns of numbers replaced by what a function returns, when somebody looks at them.

    The function takes the name of a column, and what each of `facts` has for it.
    """
    check_numbers(batch, names)
    for name, *own in zip(names, *facts, strict=True):
        batch = batch.replace(name, partial(function, name, *own))
    return batch
