"""The outcome and the columns of a model, from arrays or from a formula with functions that are on a list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError, ParameterError, some, unknown_name
from sfumato.kernels.least_squares import independent
from sfumato.mas.secure_room.asked import as_pandas
from sfumato.utility.formula import TRANSFORMS, named_in

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Design:
    """n records of an outcome and of k columns."""

    outcome: Numbers
    """Shape (n,)."""
    columns: Numbers
    """Shape (n, k)."""
    names: tuple[str, ...]
    outcome_name: str
    constant: bool
    """Whether the columns hold a constant, or add up to one."""


def from_arrays(endog: Any, exog: Any, missing: str, hasconst: bool | None) -> Design:
    """Return the design of an outcome and columns, as statsmodels takes them: a constant is a column like any other."""
    import pandas as pd

    if missing not in ("none", "drop", "raise"):
        raise ParameterError(f"missing must be 'none', 'drop' or 'raise'; got '{missing}'.")
    outcome, columns = as_pandas(endog), as_pandas(exog)
    if exog is None:
        raise ParameterError("a model needs columns to explain the outcome (exog), or a formula and data.")
    indexed = [a for a in (outcome, columns) if isinstance(a, pd.Series | pd.DataFrame)]
    if len(indexed) == 2 and not indexed[0].index.equals(indexed[1].index):
        raise DataError("outcome and columns have different indexes. Take them from one data frame.")
    names = _names(columns)
    y, x = _array(outcome), _array(columns)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if x.ndim == 1:
        x = x[:, None]
    if y.ndim != 1 or x.ndim != 2 or len(y) != len(x):
        raise DataError("the outcome is one column, and as long as the columns that explain it.")
    known = ~(np.isnan(y) | np.isnan(x).any(axis=1))
    if not known.all():
        if missing != "drop":
            raise DataError("the outcome or a column has missing values. Leave these records out (missing='drop').")
        y, x = y[known], x[known]
    name = getattr(outcome, "name", None)
    if name is None and isinstance(outcome, pd.DataFrame):
        name = outcome.columns[0]
    return _checked(y, x, names, str(name) if name is not None else "y", hasconst)


def from_formula(formula: str, data: Any, subset: Any = None, drop_cols: Any = None) -> Design:
    """Return the design of a formula such as ``"income ~ age + C(region)"``; records with a missing value are left out."""
    import pandas as pd
    from formulaic import model_matrix
    from formulaic.errors import FormulaicError

    frame = as_pandas(data)
    if not isinstance(frame, pd.DataFrame):
        raise DataError("a formula needs a data frame (data=...).")
    for name in named_in(re.sub(r"\bnp\.", "", formula)):  # refuses functions that are not on the list
        if name not in frame.columns:
            raise DataError(unknown_name("column", name, map(str, frame.columns), "the data"))
    if subset is not None:
        try:
            frame = frame.loc[subset]
        except (KeyError, IndexError, ValueError, TypeError, pd.errors.IndexingError):
            raise DataError("subset must select records of the data: a true or false for each, or labels.") from None
    context = {"np": SimpleNamespace(**TRANSFORMS), **TRANSFORMS}
    try:
        with np.errstate(all="ignore"):
            made = model_matrix(
                formula, frame.reset_index(drop=True), context=context, na_action="drop", cluster_by="numerical_factors"
            )
    except (FormulaicError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(
            "the formula does not fit the data. Check that its columns hold numbers, or categories where it says C(column)."
        ) from None
    left, right = pd.DataFrame(made.lhs), pd.DataFrame(made.rhs).iloc[:, _categories_first(made.rhs.model_spec)]
    if left.shape[1] != 1:
        raise DataError("the outcome of a model is one column of numbers; make 0 and 1 of an outcome in words.")
    unwanted = [] if drop_cols is None else [drop_cols] if isinstance(drop_cols, str) else list(drop_cols)
    right = right.drop(columns=[c for c in right.columns if c in unwanted])
    y, x = left.to_numpy(np.float64)[:, 0], right.to_numpy(np.float64)
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise DataError("a function in the formula has no value for some records, such as the logarithm of 0.")
    return _checked(y, x, tuple(map(str, right.columns)), str(left.columns[0]), None)


def _categories_first(spec: Any) -> list[int]:
    """Return the columns in the order of statsmodels: those of categories alone, then each number with its products."""
    told = [
        (any(f not in spec.factor_contrasts for f in term.factors if f.eval_method.value != "literal"), at)
        for term, at in spec.term_indices.items()
    ]
    return [i for numbers in (False, True) for has, at in told if has is numbers for i in at]


def _array(given: Any) -> Numbers:
    import pandas as pd

    try:
        if isinstance(given, pd.DataFrame | pd.Series):
            return np.asarray(given.astype("Float64").to_numpy(np.float64, na_value=np.nan))
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise DataError("outcome and columns of a model hold numbers; a formula takes categories too.") from None


def _names(columns: Any) -> tuple[str, ...]:
    import pandas as pd

    if isinstance(columns, pd.DataFrame):
        return tuple(map(str, columns.columns))
    if isinstance(columns, pd.Series):
        return (str(columns.name) if columns.name is not None else "x1",)
    array = np.asarray(columns)
    x = array[:, None] if array.ndim == 1 else array
    if x.ndim != 2:
        return ()
    first = int(x.dtype.kind in "fiub" and len(x) > 0 and x.shape[1] > 0 and bool((x[:, 0] == 1).all()))
    return ("const",) * first + tuple(f"x{i}" for i in range(1, x.shape[1] + 1 - first))


def _checked(y: Numbers, x: Numbers, names: tuple[str, ...], outcome: str, hasconst: bool | None) -> Design:
    if not x.shape[1]:
        raise DataError("the model has no columns.")
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise DataError("the outcome or a column holds infinite values. Correct them first.")
    if len(y) <= x.shape[1]:
        raise DataError(
            f"the model has {some(x.shape[1], 'coefficient')}, and not more records than that with all its columns."
        )
    told = independent(x)
    if not told.all():
        raise DataError(
            f"column '{names[int(np.flatnonzero(~told)[0])]}' is a combination of others, so that their coefficients cannot be "
            "told apart. Leave it out."
        )
    constant = not bool(independent(np.column_stack([x, np.ones(len(x))]))[-1]) if hasconst is None else bool(hasconst)
    return Design(y, x, names, outcome, constant)
