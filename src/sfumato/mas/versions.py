"""A new version of a data set differs from every earlier one by enough records, and its cutpoints do too.

Whoever asks the same of two versions that differ by one record has that record. So a version is refused that differs from an
earlier one by few records, or whose cutpoints were moved past few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.mas.bins import Bins
from sfumato.mas.dataset import Dataset
from sfumato.mas.exact import scale_of
from sfumato.mas.variable import Variable

FEWEST = 20
_BUCKETS = 2**10
_MASK = 2**31 - 1
_FINE = 2**20
_MULTIPLIERS = (0x2545F491, 0x1B873593)

Variables = Mapping[str, Variable]


def check_version(warehouse: Warehouse, variables: Variables, earlier: Sequence[Dataset]) -> None:
    """Refuse prepared records that are too near to those of an earlier version."""
    for dataset in earlier:
        same = _same(variables, dataset.variables)
        changed = records_changed(warehouse, variables, dataset, same)
        more = set(variables) - set(dataset.variables)
        if changed == 0 and not more:
            raise DataError(f"these are the records of version {dataset.version}: there is nothing new to freeze.")
        if 0 < changed < FEWEST:
            raise DataError(
                f"a new version must differ from each earlier one by at least {FEWEST} records, and this one is nearer to "
                f"version {dataset.version}: the difference of two answers would tell about few. Wait until more have changed."
            )
        _check_edges(warehouse, variables, dataset)


def records_changed(warehouse: Warehouse, variables: Variables, dataset: Dataset, same: Sequence[str]) -> int:
    """Return a number of records that are in one version and not in the other, at least; the larger of those gone and come.

    Records are told apart by what both versions have of them. They are put into buckets by a hash, and buckets are compared by
    their size and by the sum of a second hash: only these sums leave the engines.
    """
    weighted = "w" in warehouse.columns and "w" in dataset.warehouse.columns
    new = _buckets(warehouse, [variables[n] for n in same], [dataset.variables[n] for n in same], weighted)
    old = _buckets(dataset.warehouse, [dataset.variables[n] for n in same], [variables[n] for n in same], weighted)
    more = new[0] - old[0]
    exchanged = (more == 0) & (new[1] != old[1])
    return int(exchanged.sum() + max(more[more > 0].sum(), -more[more < 0].sum()))


def _same(one: Variables, other: Variables) -> list[str]:
    """Return the variables that both versions have with the same levels, or as numbers."""
    names = [n for n in one if n in other and one[n].base is None and one[n].numeric == other[n].numeric]
    return sorted(n for n in names if one[n].numeric or one[n].levels == other[n].levels)


def _buckets(
    warehouse: Warehouse, variables: Sequence[Variable], others: Sequence[Variable], weighted: bool
) -> NDArray[np.int64]:
    """Return the size of each bucket, and the sum of a hash of its records; shape (2, 1,024)."""
    terms = []
    for variable, other in zip(variables, others, strict=True):
        if variable.numeric:
            centre = min(variable.centre, other.centre)
            scale = scale_of(max(v.centre - centre + v.scale for v in (variable, other)))
            terms.append(f"CAST(floor(COALESCE(({variable.numbers} - {centre!r}) / {scale!r}, 2) * {_FINE}) AS BIGINT)")
        else:
            terms.append(f"CAST({variable.codes} AS BIGINT)")
    if weighted:
        terms.append(f"CAST(floor(w * {_FINE}) AS BIGINT)")
    hashes = []
    for multiplier in _MULTIPLIERS:
        value = "0"
        for term in terms:  # ((h + term) × odd number) mod 2^31, one term after another
            value = f"(((({value}) + ({term} & {_MASK})) * {multiplier}) & {_MASK})"
        hashes.append(value)
    bucket = f"CAST(floor({hashes[0]} / {(_MASK + 1) // _BUCKETS}) AS BIGINT)"
    found = warehouse.ask(
        f"SELECT b, count(*) AS n, sum(h) AS h FROM (SELECT {bucket} AS b, {hashes[1]} AS h FROM records) AS hashed GROUP BY b"  # noqa: S608
    )
    out = np.zeros((2, _BUCKETS), np.int64)
    out[:, np.asarray(found["b"], np.int64)] = found["n"], found["h"]
    return out


def _check_edges(warehouse: Warehouse, variables: Variables, dataset: Dataset) -> None:
    """Refuse cutpoints between which and those of an earlier version few records lie."""
    for name, variable in variables.items():
        before = dataset.variables.get(name)
        if variable.cutpoints is None or before is None or before.cutpoints is None:
            continue
        new, old = set(map(float, variable.cutpoints.edges)), set(map(float, before.cutpoints.edges))
        if new == old:
            continue
        edges = sorted(new | old)
        whole = Bins.of(variable, edges)
        found = warehouse.ask(f"SELECT {whole.codes} AS bin, count(*) AS n FROM records GROUP BY {whole.codes}")  # noqa: S608
        counts = np.zeros(len(edges) + 2, np.int64)
        counts[np.asarray(found["bin"], np.int64)] = found["n"]
        for i in range(1, len(edges)):
            moved = (edges[i - 1] in new) != (edges[i] in new) or (edges[i - 1] in old) != (edges[i] in old)
            if moved and 0 < counts[i] < FEWEST:
                raise DataError(
                    f"a cutpoint of '{name}' lies so near to one of version {dataset.version} that few records are between them. "
                    "Keep the cutpoints of that version, or move them further."
                )
