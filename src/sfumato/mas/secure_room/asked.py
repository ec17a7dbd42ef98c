"""A table as pandas is asked for it: the keys and values of every record, and how to make it again of some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, did_you_mean, listing, unknown_name
from sfumato.mas.secure_room.checks import COUNTS, STATISTICS
from sfumato.mas.secure_room.grid import Mask, Numbers

if TYPE_CHECKING:
    import pandas as pd

Functions = Mapping[str, tuple[str, ...]]
"""For each column of values its statistics; the key is empty for counts of records."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a researcher asks for."""

    run: Callable[[Mask | None], pd.DataFrame]
    """Makes the table of some records (shape n), or of all."""
    raw: Callable[[Mask | None], pd.DataFrame]
    """The same before it is turned into shares."""
    rows: pd.DataFrame
    """The keys of the rows, shape (n, keys)."""
    columns: pd.DataFrame | None
    """The keys of the columns; None for a table without."""
    values: Mapping[str, Numbers]
    functions: Functions
    style: str
    """How pandas names columns: "one" function, a "list" of them, or "each" value its own list."""
    margins: bool
    margins_name: str
    dropna: bool
    command: str
    who: pd.Series[Any] | None = None
    """Whom each record belongs to; None where everybody has one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the table."""
        keys = [*self.rows.columns, *(() if self.columns is None else self.columns.columns)]
        return tuple(dict.fromkeys([*map(str, keys), *self.values]))


def statistics(aggfunc: Any, values: Sequence[str]) -> tuple[Functions, str]:
    """Return the statistics of each column of values, and how pandas names the columns of their table."""
    if isinstance(aggfunc, Mapping):
        if unknown := [str(v) for v in aggfunc if v not in values]:
            raise ParameterError(unknown_name("column", unknown[0], values, "the values of the table"))
        listed = any(isinstance(f, list | tuple) for f in aggfunc.values())
        return {str(v): _listed(f) for v, f in aggfunc.items()}, "each" if listed else "one"
    found = _listed(aggfunc)
    return dict.fromkeys(values, found), "list" if isinstance(aggfunc, list | tuple) else "one"


def _listed(aggfunc: Any) -> tuple[str, ...]:
    import pandas as pd

    several = tuple(aggfunc) if isinstance(aggfunc, list | tuple) else (aggfunc,)
    names = tuple(f if isinstance(f, str) else str(getattr(f, "__name__", type(f).__name__)) for f in several)
    if not names or len(set(names)) < len(names):
        raise ParameterError("aggfunc names each statistic once, and at least one.")
    for name in names:
        if name not in STATISTICS:
            near = "" if hasattr(pd.Series, name) else did_you_mean(name, STATISTICS)  # min is not a misspelt median
            raise ParameterError(
                f"aggfunc '{name}' has no check here.{near} There are: {listing(STATISTICS)}. "
                "Least and largest values are those of single records; other outputs go through custom_output."
            )
    return names


def numbers(column: pd.Series[Any], name: str, wanted: Sequence[str]) -> Numbers:
    """Return a column as numbers, NaN where missing; where values are only counted, it may hold text."""
    import pandas as pd

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
    """Return a pandas object of one of another library, where that offers it."""
    import pandas as pd

    if isinstance(data, pd.DataFrame | pd.Series):
        return data
    convert = getattr(data, "to_pandas", None)
    return convert() if callable(convert) else data


def aligned(arrays: Sequence[Any]) -> list[pd.Series[Any]]:
    """Return arrays as series over the same records: by index where all have one, else by place.

    Series with different indexes are taken where all of them have a record, as pandas does. The index is not needed any more
    then, so that one with labels that occur twice does no harm.
    """
    import pandas as pd

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
    own = (pd.Series, pd.api.extensions.ExtensionArray)  # a Categorical keeps the categories that nobody has
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


def codes(who: pd.Series[Any]) -> NDArray[np.int64]:
    """Return numbers for the contributors of records; a record without one stands for itself."""
    import pandas as pd

    found, _ = pd.factorize(np.asarray(who, object))
    return np.where(found < 0, found.max(initial=0) + 1 + np.arange(len(found)), found).astype(np.int64)


def quietly(make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return what pandas makes; what it raises may quote a value, so that the sentence here does not."""
    try:
        return make()
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise DataError(
            f"pandas cannot make this table ({type(error).__name__}). Check that the keys are columns of the data, that no value "
            "of a key has the name of the margins, and that names match in number."
        ) from None
