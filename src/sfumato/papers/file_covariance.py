"""Covariances of a file's columns: weighted if asked for, and shrunk where the records are too few to tell them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.data import Kind, Microdata, Rows
from sfumato.data.microdata import check_numeric, numbers_of
from sfumato.errors import DataError, ParameterError, join_names, plural
from sfumato.kernels.moments import is_constant
from sfumato.schema import Role, Schema
from sfumato.typing import Numbers
from sfumato.utility.estimators import survey_weights

NOT_DATA = (Role.IDENTIFIER, Role.HOUSEHOLD, Role.WEIGHT)
"""Roles of columns that are no measurements."""
ENOUGH = 10
"""With at least this many records for each column, shrinkage = "auto" shrinks nothing."""


@dataclass(frozen=True, eq=False)
class FileCovariance:
    """Means and covariances over the records that have all columns."""

    names: tuple[str, ...]
    mean: Numbers
    """Shape (k,)."""
    matrix: Numbers
    """Shape (k, k); zero in columns that do not vary."""
    records: int
    """Number of records with all columns, and a weight above zero if weights count."""
    effective: float
    """(Σw)²/Σw², the number of equally weighted records that would tell as much (Kish 1965); `records` without weights."""
    shrinkage: float
    """δ: the correlations were multiplied by 1 - δ."""


def file_covariance(
    data: Microdata, names: Sequence[str], shrinkage: str | float = "auto", weighted: bool = False
) -> FileCovariance:
    """Return the covariances of columns, the correlations multiplied by 1 - δ.

    `shrinkage` is δ itself, from 0 to 1, or "ledoit-wolf", which estimates the δ that is best on average (Ledoit and Wolf 2004,
    on standardised columns, so that units do not matter and variances stay), or "auto": that, if there are fewer than ten
    (effective) records for each column, else none. To shrink understates what exact sums among the columns give away.

    `weighted` uses the survey weights, for the covariances of the population that the file is a sample of:
    Σw(x - x̄)(x - x̄)′/(Σw - Σw²/Σw), which with equal weights has the divisor n - 1.
    """
    _check(shrinkage, weighted)
    for name in names:
        check_numeric(data, name)
    found = _plain(data, names, weighted)
    if found.records < 2:
        raise DataError(
            f"{plural(found.records)} {'has' if found.records == 1 else 'have'} all of {join_names(names)}, but a covariance needs "
            "at least two. Leave out columns that are often missing."
        )
    if not (np.isfinite(found.mean).all() and np.isfinite(found.matrix).all()):
        raise DataError(
            f"{join_names(names)}: some values are infinite, or too large for a variance. Set them to missing."
        )
    variance = np.diag(found.matrix)
    flat = is_constant(found.mean, variance)
    matrix = np.where(flat[:, None] | flat[None, :], 0.0, found.matrix)
    found = replace(found, matrix=matrix)
    few = found.effective < ENOUGH * len(names)
    if isinstance(shrinkage, str):
        delta = ledoit_wolf(data, found, weighted) if few or shrinkage == "ledoit-wolf" else 0.0
    else:
        delta = float(shrinkage)
    return replace(found, matrix=(1 - delta) * matrix + delta * np.diag(np.diag(matrix)), shrinkage=delta)


def shrunk(delta: float) -> str:
    """Return what shrinkage does to an answer, as a sentence after another; nothing if there is none."""
    if not delta:
        return ""
    return (
        f" Correlations were shrunk by {delta:.0%}, as records are few or as asked: what is explained may well be more."
    )


def measurements(data: Microdata, schema: Schema) -> tuple[str, ...]:
    """Return the columns of numbers in a schema, perhaps that of a release, but for identifiers, households and weights."""
    return tuple(
        n for n, kind in data.engine.kinds.items()
        if kind is Kind.NUMBER and n in schema and schema[n].role not in NOT_DATA
    )  # fmt: skip


def ledoit_wolf(data: Microdata, found: FileCovariance, weighted: bool = False) -> float:
    """Return the estimated best δ for the correlation matrix, shrunk towards the identity (Ledoit and Wolf 2004, section 3.3).

    δ = min(b², d²)/d², where d² = ‖R - I‖² and b² = Σₜ pₜ²‖zₜzₜ′ - R‖² over the standardised records zₜ, of which each counts
    pₜ = 1/n, or its share of the survey weights: b² is the variance of R as a mean over the records.
    """
    scale = np.sqrt(np.diag(found.matrix) * (1 - 1 / found.effective))
    varies = scale > 0
    if varies.sum() < 2:
        return 0.0
    mean, scale = found.mean[varies], scale[varies]
    R = found.matrix[np.ix_(varies, varies)] * (1 - 1 / found.effective) / np.outer(scale, scale)

    def spread(matrix: Numbers, w: Numbers) -> Numbers:
        z = (matrix[:, varies] - mean) / scale
        length = np.square(z).sum(axis=1)
        # ‖zz′ - R‖² = |z|⁴ - 2z′Rz + ‖R‖²
        far = np.square(length) - 2 * np.einsum("ij,jk,ik->i", z, R, z, optimize=True) + np.square(R).sum()
        return np.array([w.sum(), (w**2 * far).sum()])

    total, noise = _reduce(data, found.names, weighted, spread)
    far = float(np.square(R - np.eye(len(R))).sum())
    return min(noise / total**2, far) / far if far > 0 else 0.0


def _plain(data: Microdata, names: Sequence[str], weighted: bool) -> FileCovariance:
    """Return means and covariances as they are, in two passes."""
    if not weighted:
        moments = data.moments(names)
        return FileCovariance(moments.names, moments.mean, moments.covariance, moments.count, float(moments.count), 0.0)
    survey_weights(data)  # refuses weights that are none
    with np.errstate(over="ignore", invalid="ignore"):  # infinite or huge values: for the caller to refuse
        first = _reduce(data, names, True, lambda x, w: np.array([len(w), w.sum(), (w**2).sum(), *(w @ x)]))
        count, total, squares = first[:3]
        if not count:
            return FileCovariance(tuple(names), first[3:], np.zeros((len(names),) * 2), 0, 0.0, 0.0)
        mean = first[3:] / total

        def products(x: Numbers, w: Numbers) -> Numbers:
            return np.asarray((w[:, None] * (x - mean)).T @ (x - mean))

        matrix = _reduce(data, names, True, products) / max(total - squares / total, np.finfo(float).tiny)
    return FileCovariance(tuple(names), mean, matrix, int(count), float(total**2 / squares), 0.0)


def _reduce(
    data: Microdata, names: Sequence[str], weighted: bool, function: Callable[[Numbers, Numbers], Numbers]
) -> Numbers:
    """Add up a function of the records that have all columns, shape (n, k), and their weights, shape (n,), piece by piece."""
    schema = data.schema
    weight = schema.one("weight") if weighted else None

    def piece(rows: Rows) -> Numbers:
        x = np.column_stack([numbers_of(rows.columns[n], schema[n]) for n in names])
        w = np.ones(len(x)) if weight is None else numbers_of(rows.columns[weight], schema[weight])
        whole = ~np.isnan(x).any(axis=1) & (w > 0)
        return function(x[whole], w[whole])

    return data.engine.reduce(piece, list(dict.fromkeys([*names, *([weight] if weight else [])])))


def _check(shrinkage: str | float, weighted: bool) -> None:
    if not isinstance(weighted, bool):
        raise ParameterError("weighted must be true or false.")
    if isinstance(shrinkage, str):
        if shrinkage not in ("auto", "ledoit-wolf"):
            raise ParameterError(
                f"shrinkage is '{shrinkage}', which is not known. Give 'auto', 'ledoit-wolf', or a number from 0 to 1."
            )
    elif isinstance(shrinkage, bool) or not 0 <= shrinkage <= 1:
        raise ParameterError("shrinkage must be 'auto', 'ledoit-wolf', or a number from 0 to 1.")
