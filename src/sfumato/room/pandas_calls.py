"""Tables requested with the signatures of pandas: the keys and values of every record, and how to compute the table again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sfumato.errors import DataError, ParameterError, did_you_mean, join_names, unknown_name
from sfumato.room.checks import COUNTS, STATISTICS
from sfumato.typing import Flags, Numbers, Whole

Functions = Mapping[str, tuple[str, ...]]
"""For each column of values its statistics; the key is empty for counts of records."""


@dataclass(frozen=True, eq=False)
class TableRequest:
    """A table requested by a researcher."""

    run: Callable[[Flags | None], pd.DataFrame]
    """Compute the table of some records (shape n), or of all."""
    raw: Callable[[Flags | None], pd.DataFrame]
    """The same before conversion to shares."""
    rows: pd.DataFrame
    """The keys of the rows, shape (n, keys)."""
    columns: pd.DataFrame | None
    """The keys of the columns; None for a table without columns."""
    values: Mapping[str, Numbers]
    functions: Functions
    style: str
    """How pandas names columns: "one" function, a "list" of them, or "each" value its own list."""
    margins: bool
    margins_name: str
    dropna: bool
    command: str
    who: pd.Series[Any] | None = None
    """The contributor of each record; None if every record is its own."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the table."""
        keys = [*self.rows.columns, *(() if self.columns is None else self.columns.columns)]
        return tuple(dict.fromkeys([*map(str, keys), *self.values]))


def statistics(aggfunc: Any, values: Sequence[str]) -> tuple[Functions, str]:
    """Return the statistics of each column of values, and the style of column names in pandas."""
    if isinstance(aggfunc, Mapping):
        if unknown := [str(v) for v in aggfunc if v not in values]:
            raise ParameterError(unknown_name("column", unknown[0], values, "the values of the table"))
        listed = any(isinstance(f, list | tuple) for f in aggfunc.values())
        return {str(v): _listed(f) for v, f in aggfunc.items()}, "each" if listed else "one"
    found = _listed(aggfunc)
    return dict.fromkeys(values, found), "list" if isinstance(aggfunc, list | tuple) else "one"


def _listed(aggfunc: Any) -> tuple[str, ...]:
    several = tuple(aggfunc) if isinstance(aggfunc, list | tuple) else (aggfunc,)
    names = tuple(f if isinstance(f, str) else str(getattr(f, "__name__", type(f).__name__)) for f in several)
    if not names or len(set(names)) < len(names):
        raise ParameterError("aggfunc names each statistic once, and at least one.")
    for name in names:
        if name not in STATISTICS:
            near = (
                "" if hasattr(pd.Series, name) else did_you_mean(name, STATISTICS)
            )  # min is not a misspelling of median
            raise ParameterError(
                f"aggfunc '{name}' has no check here.{near} There are: {join_names(STATISTICS)}. "
                "Least and largest values are those of single records; other outputs go through custom_output."
            )
    return names


def numbers(column: pd.Series[Any], name: str, wanted: Sequence[str]) -> Numbers:
    """Return a column as numbers, NaN where missing; a column that is only counted may hold text."""
    if set(wanted) == {COUNTS}:
        return np.where(column.isna().to_numpy(), np.nan, 1.0)
    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
        other = next(statistic for statistic in wanted if statistic != COUNTS)
        raise DataError(
            f"column '{name}' does not hold numbers, and has no {other}. Count its values (aggfunc='count'), or make it a key of "
            "the table."
        )
    out = column.to_numpy(np.float64, na_value=np.nan)
    if np.isinf(out).any():
        raise DataError(f"column '{name}' holds infinite values. Correct them first.")
    return np.asarray(out)


def as_pandas(data: Any) -> Any:
    """Convert an object of another library to pandas, if that library offers it."""
    if isinstance(data, pd.DataFrame | pd.Series):
        return data
    convert = getattr(data, "to_pandas", None)
    return convert() if callable(convert) else data


def aligned(arrays: Sequence[Any]) -> list[pd.Series[Any]]:
    """Return arrays as series over the same records: by index where all have one, else by position.

    Series with different indexes are restricted to the records that all of them have, as in pandas. The index is then dropped, so
    that repeated labels do no harm.
    """
    found = [as_pandas(a) for a in arrays]
    indexes = [a.index for a in found if isinstance(a, pd.Series)]
    if any(isinstance(a, pd.DataFrame) for a in found):
        raise DataError("give single columns, or a list of columns, rather than a data frame.")
    if indexes and all(i.equals(indexes[0]) for i in indexes):
        shared = indexes[0]
    elif indexes:
        if len(indexes) < len(found) or not all(i.is_unique for i in indexes):
            raise DataError(
                "the columns have different indexes, so that it is not clear which entries belong together. Take them from "
                "one data frame."
            )
        shared = indexes[0]
        for index in indexes[1:]:
            shared = shared.intersection(index, sort=False)
        found = [a.loc[shared] for a in found]
    else:
        shared = None
    own = (pd.Series, pd.api.extensions.ExtensionArray)  # a Categorical keeps its empty categories
    plain = (a if isinstance(a, own) else np.asarray(a) for a in _sized(found, shared))
    series = [a if isinstance(a, pd.Series) else pd.Series(a, index=shared) for a in plain]
    if len({len(s) for s in series}) > 1:
        raise DataError("the columns have different lengths.")
    return [s.reset_index(drop=True) for s in series]


def _sized(found: Sequence[Any], shared: pd.Index[Any] | None) -> Sequence[Any]:
    if any(np.ndim(a) != 1 for a in found):
        raise DataError(
            "every key is a column, such as data['region'], or a list of columns. For keys by name use pivot_table."
        )
    if shared is not None and any(len(a) != len(shared) for a in found):
        raise DataError("the columns have different lengths.")
    return found


def codes(who: pd.Series[Any]) -> Whole:
    """Return numbers for the contributors of records; a record without one is its own contributor."""
    found, _ = pd.factorize(np.asarray(who, object))
    return np.where(found < 0, found.max(initial=0) + 1 + np.arange(len(found)), found).astype(np.int64)


def quietly(make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the table of pandas; replace its errors, which may quote a value, by a sentence without one."""
    try:
        return make()
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise DataError(
            f"pandas cannot make this table ({type(error).__name__}). Check that the keys are columns of the data, that no value "
            "of a key has the name of the margins, and that names match in number."
        ) from None


# --- The two calls for a table, with pandas' signatures.


def ask_crosstab(
    index: Any, columns: Any, values: Any, rownames: Any, colnames: Any, aggfunc: Any, margins: bool, margins_name: str,
    dropna: bool, normalize: Any, contributor: Any,
) -> TableRequest:  # fmt: skip
    """Return the request of a call of `pandas.crosstab`."""
    if (values is None) != (aggfunc is None):
        raise ParameterError("values and aggfunc come together: a column, and what to compute of it.")
    if normalize not in (False, True, 0, 1, "all", "index", "columns"):
        raise ParameterError(
            "normalize is True or 'all' for shares of all records, 'index' of a row, 'columns' of a column."
        )
    rows, over = _keys(index), _keys(columns)
    if not rows or not over:
        raise ParameterError("a cross-tabulation needs a key for its rows and one for its columns.")
    extra = [] if values is None else [values]
    series = aligned([*rows, *over, *extra, *([] if contributor is None else [contributor])])
    who = None if contributor is None else series.pop()
    if not len(series[0]):
        raise DataError("there are no records to make a table of.")
    down, across = series[: len(rows)], series[len(rows) : len(rows) + len(over)]
    value = series[-1] if extra else None
    name = "" if value is None else str(value.name if value.name is not None else "values")
    functions, style = statistics(aggfunc if extra else COUNTS, [name])

    def make(keep: Flags | None, shares: Any) -> pd.DataFrame:
        some = [s if keep is None else s[keep] for s in series]
        return quietly(
            lambda: pd.crosstab(
                some[: len(rows)], some[len(rows) : len(rows) + len(over)], some[-1] if extra else None,
                rownames=rownames, colnames=colnames, aggfunc=_plain(aggfunc), margins=margins,
                margins_name=margins_name, dropna=dropna, normalize=shares,
            )
        )  # fmt: skip

    row_names, column_names = _names(down, rownames, "row"), _names(across, colnames, "col")
    told = {"values": name or None, "aggfunc": _told(aggfunc), "margins": margins or None}
    told["contributor"] = None if who is None else str(who.name if who.name is not None else "given")

    def raw(keep: Flags | None) -> pd.DataFrame:
        return make(keep, False)

    return TableRequest(
        run=raw if normalize is False else lambda keep: make(keep, normalize),
        raw=raw,
        rows=_frame(down, row_names),
        columns=_frame(across, column_names),
        values={} if value is None else {name: numbers(value, name, functions[name])},
        functions=functions,
        style=style,
        margins=margins,
        margins_name=margins_name,
        dropna=dropna,
        command=_command(
            "crosstab",
            {"index": row_names, "columns": column_names, **told, "normalize": normalize or None},
        ),
        who=who,
    )


def ask_pivot_table(
    data: Any, values: Any, index: Any, columns: Any, aggfunc: Any, fill_value: Any, margins: bool, dropna: bool,
    margins_name: str, observed: bool, sort: bool, contributor: str | None,
) -> TableRequest:  # fmt: skip
    """Return the request of a call of `pandas.pivot_table`."""
    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise DataError("data must be a data frame.")
    if not len(frame):
        raise DataError("there are no records to make a table of.")
    rows, over = _columns(frame, index, "index"), _columns(frame, columns, "columns")
    who = _columns(frame, contributor, "contributor")
    if not rows:
        raise ParameterError("a pivot table needs a key for its rows (index).")
    given = list(aggfunc) if values is None and isinstance(aggfunc, Mapping) else values
    used = _value_columns(frame, given, [*rows, *over])
    functions, style = statistics(aggfunc, used)
    columns_of = {v: numbers(frame[v], v, wanted) for v, wanted in functions.items()}

    def once(part: pd.DataFrame, what: Any, how: Any) -> pd.DataFrame:
        return quietly(
            lambda: pd.pivot_table(
                part, values=what, index=rows, columns=over or None, aggfunc=how, fill_value=fill_value, margins=margins,
                dropna=dropna, margins_name=margins_name, observed=observed, sort=sort,
            )
        )  # fmt: skip

    several = margins and dropna and len(functions) > 1 and any(np.isnan(v).any() for v in columns_of.values())

    def make(keep: Flags | None) -> pd.DataFrame:
        part = frame if keep is None else frame[keep]
        table = once(part, given if isinstance(given, str) else list(functions), _plain(aggfunc))
        if several:
            # pandas excludes a record from all margins if one of several values is missing, but not from the cells
            for place, label in enumerate(table.columns):
                value, function, key = column_label(label, asked)
                alone = once(part, value, function)
                at = (key if len(key) > 1 else key[0]) if over else value
                if at in alone.columns:
                    table.isetitem(place, alone[at].reindex(table.index).to_numpy())
        return table

    told = {"values": used, "index": rows, "columns": over or None, "aggfunc": _told(aggfunc)}
    asked = TableRequest(
        run=make,
        raw=make,
        rows=frame[rows],
        columns=frame[over] if over else None,
        values=columns_of,
        functions=functions,
        style=style,
        margins=margins,
        margins_name=margins_name,
        dropna=dropna,
        command=_command("pivot_table", {**told, "margins": margins or None, "contributor": contributor}),
        who=frame[who[0]] if who else None,
    )
    return asked


def _value_columns(frame: pd.DataFrame, values: Any, keys: list[str]) -> list[str]:
    """Return the columns of values: all numbers that are not keys, if none is named."""
    if values is None:
        used = [c for c in frame.columns if c not in keys and pd.api.types.is_numeric_dtype(frame[c])]
    else:
        used = _columns(frame, values, "values")
    if not used or set(used) & set(keys):
        raise ParameterError("a pivot table needs a column of values that is not one of its keys.")
    return used


def column_label(label: Any, asked: TableRequest) -> tuple[str, str, tuple[Any, ...]]:
    """Return the column of values, the statistic and the keys of a column of a pandas table."""
    parts = label if isinstance(label, tuple) else (label,)
    keys = 0 if asked.columns is None else asked.columns.shape[1]
    before, key = parts[: len(parts) - keys], parts[len(parts) - keys :]
    sole = next(iter(asked.functions))
    if asked.style == "list":
        value = str(before[1]) if len(before) > 1 else sole
        return value, str(before[0]), key
    value = str(before[0]) if before else sole
    function = str(before[1]) if asked.style == "each" and len(before) > 1 else asked.functions[value][0]
    return value, function, key


def _plain(aggfunc: Any) -> Any:
    """Return statistics by their names, as pandas knows them."""
    if isinstance(aggfunc, Mapping):
        return {k: _plain(f) for k, f in aggfunc.items()}
    if isinstance(aggfunc, list | tuple):
        return [_plain(f) for f in aggfunc]
    return aggfunc if aggfunc is None or isinstance(aggfunc, str) else aggfunc.__name__


def _keys(given: Any) -> list[Any]:
    """Return one key or several as a list: a list of numbers or words is one key."""
    if isinstance(given, list | tuple) and given and all(np.ndim(as_pandas(g)) == 1 for g in given):
        return list(given)
    return [given]


def _columns(frame: pd.DataFrame, given: Any, what: str) -> list[str]:
    names = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"{what} of a pivot table are names of columns; other keys can be used in crosstab.")
        if name not in frame.columns:
            raise DataError(unknown_name("column", name, map(str, frame.columns), "the data"))
        if isinstance(frame[name], pd.DataFrame):
            raise DataError(f"the data have several columns '{name}'. Give each a name of its own.")
    if len(set(names)) < len(names):
        raise ParameterError(f"{what} of a pivot table names a column twice.")
    return names


def _names(series: Sequence[pd.Series[Any]], given: Any, prefix: str) -> list[str]:
    if given is not None:
        names = [given] if isinstance(given, str) else list(given)
        if len(names) != len(series):
            raise ParameterError("rownames and colnames have a name for each key.")
        return [str(n) for n in names]
    return [str(s.name) if s.name is not None else f"{prefix}_{i}" for i, s in enumerate(series)]


def _frame(series: Sequence[pd.Series[Any]], names: Sequence[str]) -> pd.DataFrame:
    found = pd.concat([s.reset_index(drop=True) for s in series], axis=1)
    found.columns = pd.Index(names)
    return found


def _told(aggfunc: Any) -> str | None:
    if aggfunc is None:
        return None
    plain = _plain(aggfunc)
    return plain if isinstance(plain, str) else str(plain).replace("'", "")


def _command(name: str, fields: Mapping[str, Any]) -> str:
    words = [
        f"{k}={' × '.join(v) if isinstance(v, list) else v}" for k, v in fields.items() if v is not None
    ]  # columns by their names
    return f"{name}({', '.join(words)})"
