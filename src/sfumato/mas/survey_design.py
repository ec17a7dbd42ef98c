"""A survey of households drawn with replacement within strata: what sums over its records vary by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.exact_sums import combined, exact_sum, exact_sums, scale_of
from sfumato.data.warehouse import Warehouse
from sfumato.typing import Numbers


class SurveyDesign:
    """Strata and households, as far as the records have them: without strata there is one, without households each record is one.

    Facts about them are found once, by aggregates, and kept. Confidential.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.columns = tuple(c for c in ("s", "h") if c in warehouse.columns)
        """The columns that say which stratum and household a record is of."""
        self._strata = [c for c in self.columns if c == "s"]

    @cached_property
    def _sizes(self) -> tuple[NDArray[np.generic], Numbers, float]:
        """The strata in order, how many households each has, and the records of the largest household."""
        by = f" GROUP BY {', '.join(self.columns)}"
        source = f"SELECT {', '.join(self.columns)}, count(*) AS n FROM records{by}"  # noqa: S608 - our own names
        if "h" not in self.columns:
            source = f"SELECT {', '.join([*self._strata, '1 AS n'])} FROM records"  # noqa: S608 - our own names
        listed = ", ".join([*self._strata, "count(*) AS m", "max(n) AS n"])
        by = " GROUP BY s" if self._strata else ""
        found = self._warehouse.ask(f"SELECT {listed} FROM ({source}) AS households{by}")  # noqa: S608 - our own names
        strata = found["s"] if self._strata else np.zeros(1)
        order = np.argsort(strata)
        return strata[order], found["m"][order].astype(np.float64), float(found["n"].max())

    @property
    def largest(self) -> float:
        """How many records the largest household has."""
        return self._sizes[2]

    def covariances(
        self,
        source: str,
        influence: Numbers,
        meat: Numbers,
        pairs: Sequence[tuple[int, int]] | None = None,
        shape: Sequence[int] = (),
    ) -> Numbers:
        """Return covariances of sums over records; shape (cells, pairs), with one cell where there is no table.

        `source` is SQL for some records: their cells c0, c1, ... in a table of some shape, their `columns`, and scores g0, g1,
        ...; `influence` (sums, scores) takes these to what a record adds to each sum; of `meat`, the products of scores over
        all records or more than that, bounds are made. `pairs` of sums are multiplied; each with itself, if none are named.

        A stratum of m households with totals t and u adds m / (m − 1) Σ (t − mean)(u − mean). Households of which no record is in
        the source count with totals of 0: what is asked for is a domain of the survey, and who is in it was drawn, too. A
        stratum with one household is taken about 0. Totals are made where the records live, in whole numbers, so that no order
        of adding matters.
        """
        few = 3 if shape else 2  # parts of exact sums: in a small cell they are tiny beside the bounds
        by = [*(f"c{i}" for i in range(len(shape))), *self._strata]
        if "h" in self.columns:
            scales = (scale_of(float(np.sqrt(m))) for m in np.diag(meat))
            totals = [f"{exact_sum(f'g{j}', scale, few)} AS g{j}" for j, scale in enumerate(scales)]
            source = f"SELECT {', '.join([*by, *totals])} FROM ({source}) AS one GROUP BY {', '.join([*by, 'h'])}"  # noqa: S608
        added = [
            " + ".join(f"g{j} * ({float(a):.17e})" for j, a in enumerate(row) if a) or "0.0E0" for row in influence
        ]
        listed = [*by, *(f"{text} AS v{i}" for i, text in enumerate(added))]
        size = self.largest * np.sqrt(np.einsum("ij,jk,ik->i", influence, meat, influence))
        pairs = [(i, i) for i in range(len(influence))] if pairs is None else pairs
        asked = {f"a{i}": (f"v{i}", scale_of(float(size[i])), few) for i in range(len(influence))}
        asked |= {f"b{i}_{j}": (f"v{i} * v{j}", scale_of(float(size[i] * size[j])), few + 1) for i, j in pairs}
        sums = [part for name, one in asked.items() for part in exact_sums(name, *one)]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        rows = self._warehouse.ask(
            f"SELECT {', '.join([*by, *sums])} FROM (SELECT {', '.join(listed)} FROM ({source}) AS c) AS v{group}"  # noqa: S608
        )
        found = {
            name: combined(np.array([rows[f"{name}_{part}"] for part in range(parts)]), scale, parts)
            for name, (_, scale, parts) in asked.items()
        }
        m = self._households(rows, len(found["a0"]))
        at = np.ravel_multi_index([rows[f"c{i}"] for i in range(len(shape))], shape) if shape else np.zeros(len(m), int)
        out = np.empty((int(np.prod(shape, dtype=int)), len(pairs)))
        for place, (i, j) in enumerate(pairs):
            product, means = found[f"b{i}_{j}"], found[f"a{i}"] * found[f"a{j}"] / m
            about = np.where(m > 1, m / np.maximum(m - 1, 1) * (product - means), product)
            order = np.lexsort((about, at))  # added in one order, whatever the engine's
            out[:, place] = np.bincount(at[order], about[order], minlength=len(out))
        return out

    def _households(self, rows: Mapping[str, NDArray[Any]], number: int) -> Numbers:
        """Return how many households the stratum of each row has."""
        strata, sizes, _ = self._sizes
        return sizes[np.searchsorted(strata, rows["s"])] if self._strata else np.full(number, sizes[0])
