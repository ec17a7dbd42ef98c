"""What the rules say of a model: does it leave freedom, and does a coefficient speak of a few records only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import listing
from sfumato.mas.secure_room.output import Status
from sfumato.mas.secure_room.policy import OutputPolicy

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float64]


def check_model(
    df_resid: float, rsquared: float, columns: Numbers | None, names: tuple[str, ...], policy: OutputPolicy
) -> pd.DataFrame:
    """Return a row for each check: status and finding. Without the columns (n, k) of the model a person must look."""
    import pandas as pd

    rows: dict[str, tuple[Status, str]] = {}
    enough = df_resid >= policy.residual_df
    rows["residual degrees of freedom"] = (
        "pass" if enough else "fail",
        "enough" if enough else f"fewer than {policy.residual_df} residual degrees of freedom",
    )
    if columns is None:
        rows["records behind coefficients"] = ("review", "the columns of the model are not known")
    else:
        few = [names[j] for j in np.flatnonzero(set_apart(columns) < policy.group)]
        rows["records behind coefficients"] = (
            ("fail", f"set apart fewer than {policy.group} records: {listing(few, 5)}") if few else ("pass", "enough")
        )
        saturated = fewest_in_saturated(columns)
        if saturated is not None:
            small = saturated < policy.group
            rows["groups of a saturated model"] = (
                "fail" if small else "pass",
                f"a group has fewer than {policy.group} records" if small else "enough records",
            )
        high = leverage(columns).max() > policy.leverage
        rows["leverage"] = (
            "fail" if high else "pass",
            f"a record has a leverage above {policy.leverage:g}" if high else "no record decides its own fit",
        )
    close = not rsquared <= policy.r_squared
    rows["fit"] = (
        "review" if close else "pass",
        f"R² is above {policy.r_squared:g}, or not known" if close else "leaves outcomes uncertain",
    )
    return pd.DataFrame(
        {"status": [s for s, _ in rows.values()], "finding": [f for _, f in rows.values()]}, index=list(rows)
    )


def set_apart(columns: Numbers) -> NDArray[np.int64]:
    """Return for each column how many records do not have its most frequent value, shape (k,); n for a constant.

    >>> set_apart(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 5.0]])).tolist()
    [3, 1]
    """
    n = len(columns)
    out = np.empty(columns.shape[1], np.int64)
    for j, column in enumerate(columns.T):
        counts = np.unique(column, return_counts=True)[1]
        out[j] = n if len(counts) == 1 else n - counts.max()
    return out


def fewest_in_saturated(columns: Numbers) -> int | None:
    """Return the size of the smallest group of a saturated model, whose coefficients are a table of means; else None."""
    k = columns.shape[1]
    if len(np.unique(columns[: 50 * k], axis=0)) > k:
        return None
    counts = np.unique(columns, axis=0, return_counts=True)[1]
    return int(counts.min()) if len(counts) <= k else None


def leverage(columns: Numbers) -> Numbers:
    """Return the leverage of each record, shape (n,): 1 where the model has to pass through it."""
    from sfumato.kernels.least_squares import orthonormal

    q = orthonormal(columns).columns
    return np.asarray(np.einsum("ij,ij->i", q, q))
