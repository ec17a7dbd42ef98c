"""The two ways to ask for a table, with pandas' signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.mas.secure_room.asked import Asked, aligned, as_pandas, numbers, quietly, statistics
from sfumato.mas.secure_room.checks import COUNTS
from sfumato.mas.secure_room.grid import Mask

if TYPE_CHECKING:
    import pandas as pd


def ask_crosstab(
    index: Any, columns: Any, values: Any, rownames: Any, colnames: Any, aggfunc: Any, margins: bool, margins_name: str,
    dropna: bool, normalize: Any, contributor: Any,
) -> Asked:  # fmt: skip
    """Return what `pandas.crosstab` is asked for."""
    import pandas as pd

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

    def make(keep: Mask | None, shares: Any) -> pd.DataFrame:
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

    def raw(keep: Mask | None) -> pd.DataFrame:
        return make(keep, False)

    return Asked(
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
) -> Asked:  # fmt: skip
    """Return what `pandas.pivot_table` is asked for."""
    import pandas as pd

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
    if given is None:
        used = [c for c in frame.columns if c not in (*rows, *over) and pd.api.types.is_numeric_dtype(frame[c])]
    else:
        used = _columns(frame, given, "values")
    if not used or set(used) & {*rows, *over}:
        raise ParameterError("a pivot table needs a column of values that is not one of its keys.")
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

    def make(keep: Mask | None) -> pd.DataFrame:
        part = frame if keep is None else frame[keep]
        table = once(part, given if isinstance(given, str) else list(functions), _plain(aggfunc))
        if several:
            # pandas leaves a record out of all margins if one of several values is missing, but not out of the cells
            for place, label in enumerate(table.columns):
                value, function, key = column_label(label, asked)
                alone = once(part, value, function)
                at = (key if len(key) > 1 else key[0]) if over else value
                if at in alone.columns:
                    table.isetitem(place, alone[at].reindex(table.index).to_numpy())
        return table

    told = {"values": used, "index": rows, "columns": over or None, "aggfunc": _told(aggfunc)}
    asked = Asked(
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


def column_label(label: Any, asked: Asked) -> tuple[str, str, tuple[Any, ...]]:
    """Return the column of values, the statistic and the keys that a column of a pandas table stands for."""
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
    import pandas as pd

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
    import pandas as pd

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
