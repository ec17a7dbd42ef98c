"""Tables from microdata."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import DataError, ParameterError, some
from sfumato.microdata import Batch, Microdata, check_numeric, missing_of
from sfumato.tables.cells import make_cells
from sfumato.tables.contributions import Contributions
from sfumato.tables.dimension import Dimension
from sfumato.tables.empty import with_empty
from sfumato.tables.formula import terms
from sfumato.tables.marks import records_of, requests_of, said_yes

if TYPE_CHECKING:
    from sfumato.tables.table import Table

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_APART = 5.0
"""By which factor all sizes together may differ from all values before they are taken to be in another unit."""


class Marks(NamedTuple):
    """The columns that say more of a record than its value."""

    waiver: str | None = None
    request: str | None = None
    record_key: str | None = None


def from_records(
    data: Microdata,
    formula: str,
    variable: str | None,
    contributor: str | None,
    count: str | None,
    size: str | None,
    per_size: float | str | None,
    empty: bool,
    missing: str,
    decimals: int | None,
    marks: Marks = Marks(),  # noqa: B008 - it cannot be changed
) -> Table:
    """Make a table from records; see `Table.of`."""
    from sfumato.tables.table import Table

    wanted = terms(formula)
    if variable is not None and count is not None:
        raise ParameterError("a table is one of magnitudes (variable) or of counts (count), not both.")
    if missing not in ("refuse", "leave out"):
        raise ParameterError(f"missing must be 'refuse' or 'leave out'; got '{missing}'.")
    contributor = contributor or data.schema.one("contributor")
    weight = data.schema.one("weight")
    names = list(dict.fromkeys(n for term in wanted for n in term))
    identifiers = data.schema.names(role="identifier")
    identifier = identifiers[0] if len(identifiers) == 1 else None
    needed = (variable, contributor, count, size, weight, identifier, *marks)
    batch = data.batch(list(dict.fromkeys([*names, *(n for n in needed if n)])))
    summed = variable or count
    values = np.ones(len(batch))
    if summed is not None:
        check_numeric(data, summed)
        values = batch.numbers(summed)
        batch, values = _known(batch, values, summed, missing)
    if not len(batch):
        raise DataError("there are no records to make a table of.")
    dimensions, codes = _dimensions(batch, names)
    distinct, row = np.unique(codes, axis=0, return_inverse=True)
    cells, leaf_of = make_cells(dimensions, with_empty(distinct) if empty else distinct, wanted)
    leaf = leaf_of[row.ravel()]
    weights = _weights(batch, weight)
    order = _summing_order(leaf, values, weights)
    records = records_of(batch, leaf, identifier, marks.record_key)
    if count is not None:
        if (values < 0).any() or (values != np.round(values)).any():
            raise DataError(f"column '{count}' holds counts, so it must hold whole numbers of at least 0.")
        counts = _by_leaf(leaf, values, cells.leaves)
        return Table(
            cells, _by_leaf(leaf[order], (values * weights)[order], cells.leaves), counts, integer=weight is None,
            decimals=decimals, records=records,
        )  # fmt: skip
    who, known_as = _contributors(batch, contributor)
    shape = (cells.leaves, int(who.max()) + 1)
    at = leaf[order], who[order]
    own = sparse.csr_array((values[order], at), shape=shape)
    grossed = own if weight is None else sparse.csr_array(((values * weights)[order], at), shape=shape)
    for matrix in (own, grossed):
        matrix.sum_duplicates()
        matrix.sort_indices()
    attribute = None if variable is None else data.schema[variable]
    return Table(
        cells,
        _by_leaf(leaf[order], (values * weights)[order], cells.leaves),
        _by_leaf(leaf, np.ones(len(leaf)), cells.leaves),
        variable or "",
        Contributions(
            own,
            grossed,
            _sizes(batch, size, who, values, per_size),
            known_as,
            said_yes(batch, marks.waiver, who, everywhere=True) if marks.waiver else None,
            requests_of(batch, marks.request, who) if marks.request else None,
        ),
        unit="" if attribute is None else attribute.unit,
        integer=weight is None if attribute is None else attribute.integer and weight is None,
        decimals=decimals,
        nonnegative=attribute is None or not (values < 0).any(),
        records=records,
    )


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _summing_order(leaf: Whole, values: Numbers, weights: Numbers) -> Whole | slice:
    """Return an order in which to add up: the last bits of a sum hang on it, and must not hang on the order of the records."""
    if all((part == np.rint(part)).all() for part in (values, weights)):
        return slice(None)  # whole numbers add up exactly
    return np.lexsort((weights, values, leaf))


def _by_leaf(leaf: Whole, values: Numbers, leaves: int) -> Numbers:
    return np.asarray(np.bincount(leaf, values, leaves), np.float64)


def _known(batch: Batch, values: Numbers, name: str, missing: str) -> tuple[Batch, Numbers]:
    """Leave out the records that have no value, or refuse them."""
    gone = np.isnan(values)
    if np.isinf(values).any():
        raise DataError(
            f"column '{name}' holds {some(int(np.isinf(values).sum()), 'infinite value')}. Correct them first."
        )
    if gone.any() and missing == "refuse":
        raise DataError(
            f"{some(int(gone.sum()))} of {len(batch):,} {_have(int(gone.sum()))} no value of '{name}'. Impute them first, or "
            "leave them out of the table (missing='leave out')."
        )
    return (batch.keep(~gone), values[~gone]) if gone.any() else (batch, values)


def _dimensions(batch: Batch, names: list[str]) -> tuple[list[Dimension], Whole]:
    dimensions, columns = [], []
    for name in names:
        column, attribute = batch.column(name), batch.schema[name]
        codes, values = column.codes
        gone = missing_of(column, attribute)
        used, place = np.unique(np.where(gone, len(values), codes), return_inverse=True)
        found = [None if u == len(values) else values[u] for u in used]
        dimensions.append(Dimension.of(name, found, attribute.hierarchy))
        columns.append(place.ravel())
    return dimensions, np.column_stack(columns).astype(np.int64)


def _weights(batch: Batch, name: str | None) -> Numbers:
    if name is None:
        return np.ones(len(batch))
    weights = batch.numbers(name)
    if bad := int((~(weights >= 1)).sum()):
        raise DataError(
            f"{some(bad)} {_have(bad)} a survey weight in '{name}' that is missing or below 1. A record stands for itself at "
            "least; correct the weights, or give the column the role 'other' to make a table without them."
        )
    return weights


def _contributors(batch: Batch, name: str | None) -> tuple[Whole, NDArray[np.object_] | None]:
    """Return a position for each record's contributor, and their names; a record without one stands for itself."""
    if name is None:
        return np.arange(len(batch)), None
    column = batch.column(name)
    codes, values = column.codes
    alone = missing_of(column, batch.schema[name])
    _, who = np.unique(np.where(alone, len(values) + np.arange(len(batch)), codes), return_inverse=True)
    who = who.ravel().astype(np.int64)
    names = np.empty(int(who.max()) + 1, object)
    names[who] = np.array([*values, None], object)[np.where(alone, len(values), codes)]
    return who, names


def _sizes(batch: Batch, name: str | None, who: Whole, values: Numbers, per_size: float | str | None) -> Numbers | None:
    if name is None:
        if per_size is not None:
            raise ParameterError(
                "per_size says what one unit of a size stands for: name the column with the size, too."
            )
        return None
    sizes = batch.numbers(name)
    if bad := int((~(sizes >= 0) | np.isinf(sizes)).sum()):
        raise DataError(
            f"{some(bad)} {_have(bad)} a size in '{name}' that is missing, negative or infinite. Correct them first."
        )
    found = np.zeros(int(who.max()) + 1)
    np.add.at(found, who, sizes)
    found *= _unit_of_size(found, values, per_size)
    return found


def _unit_of_size(sizes: Numbers, values: Numbers, per_size: float | str | None) -> float:
    """Return how much of the variable one unit of size stands for; a ratio is rounded, so that no total follows from it."""
    all_sizes, all_values = float(sizes.sum()), float(np.abs(values).sum())
    if per_size is None:
        if all_values > 0 and not all_values / _APART <= all_sizes <= all_values * _APART:
            raise DataError(
                "the sizes are far from the values, in all: are they in another unit? Say how much of the variable one unit of "
                "size stands for (per_size=...), or 1 if they are right as they are."
            )
        return 1.0
    if per_size == "ratio":
        if not all_sizes > 0 or not all_values > 0:
            raise DataError("sizes or values add up to nothing, so they have no ratio. Give per_size as a number.")
        return float(f"{all_values / all_sizes:.0e}")
    if isinstance(per_size, bool) or not isinstance(per_size, int | float) or not 0 < per_size < np.inf:
        raise ParameterError(f"per_size must be a number above 0, or 'ratio'; got {per_size!r}.")
    return float(per_size)
