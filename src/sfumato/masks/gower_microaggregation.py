"""Gower microaggregation: numbers and categories grouped together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, learned, param
from sfumato.data import Batch, Kind, Microdata
from sfumato.errors import DataError, ParameterError
from sfumato.kernels.classes import centres
from sfumato.masks.column_settings import check_by_column, of_column
from sfumato.masks.microaggregation import Microaggregation
from sfumato.schema import Attribute, Schema
from sfumato.typing import Numbers, Whole

_GROUPED = (Kind.NUMBER, Kind.BOOLEAN, Kind.CATEGORY)


class GowerMicroaggregation(Microaggregation):
    """MDAV groups of numbers, ordered categories, categories and yes/no values, by Gower's distance.

    Gower (1971); MDAV-generic: Domingo-Ferrer and Torra (2005). Two records differ by |a - b| / range in a number or an ordered
    category (with the schema's numbers), and by 0 or 1 in any other. A group is released with its mean, median or mode of
    numbers, the lower median of ordered categories, and the mode of the others.
    O(n² / k) up to `block` records. Above that the file is first cut into blocks, which groups do not cross: the groups then
    differ from those of the whole file.
    """

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to aggregate; all confidential ones if none", columns="many", holds="anything"
    )
    importance: float | Mapping[str, float] = param(
        default=1.0, doc="weight of a column in the distance", low=0, high=1e6, per_column=True
    )
    block: int = param(
        default=5_000,
        doc="most records that are searched at once, at least 2k; more are cut into blocks first",
        low=10,
        high=1e6,
        integer=True,
        scale="log",
    )
    sorts: Any = learned("columns", default=None)

    @override
    def validate(self) -> None:
        super().validate()
        if self.columns is not None:
            self._weights(self.columns)

    def _weights(self, names: tuple[str, ...]) -> dict[str, float]:
        check_by_column("importance", "weight", self.importance, names, "aggregated")
        weights = {name: of_column(self.importance, name) for name in names}
        if not any(weights.values()):
            raise ParameterError("importance is zero for every column; at least one must count in the distance.")
        return weights

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the range of each column of numbers and of each ordered category."""
        names = self.columns if self.columns is not None else data.schema.names(role="confidential")
        if not names:
            raise DataError("there is no confidential column to aggregate. Name the columns (columns=...).")
        self._weights(names)
        self.check_within(data, names)
        spread, sorts = {}, {}
        for name in names:
            if data.kind(name) not in _GROUPED:
                raise DataError(
                    f"column '{name}' holds {data.kind(name)}, where numbers, categories or yes/no values are needed."
                )
            values = self.read(data.batch([name]), name)
            known = values[~np.isnan(values)]
            self.check_enough(name, len(known))
            if np.isinf(known).any():
                raise DataError(f"column '{name}' holds infinite values. Set them to missing.")
            with np.errstate(over="ignore"):  # huge values are refused in words
                width = float(known.max() - known.min())
            if not np.isfinite(width * len(known)):
                raise DataError(f"column '{name}' holds values too large to add. Use a larger unit.")
            sorts[name] = _sort(data.schema[name], data.kind(name))
            spread[name] = (0.0, 1.0 if sorts[name] == "plain" else width or 1.0)
        return self.learn(names=names, spread=spread, sorts=sorts)

    def check_batch(self, batch: Batch) -> None:
        """Refuse records whose columns have other kinds of values than those the mask was fitted to."""
        for name in self.names:
            kind = batch.column(name).kind
            if kind not in _GROUPED or _sort(batch.schema[name], kind) != self.sorts[name]:
                raise DataError(f"column '{name}' holds {kind}, but the mask was fitted to another kind of column.")

    def read(self, batch: Batch, name: str) -> Numbers:
        """Return numbers, the schema's numbers for ordered categories, or codes; NaN where missing."""
        if _sort(batch.schema[name], batch.column(name).kind) != "plain":
            return batch.numbers(name)
        return np.where(batch.missing(name), np.nan, batch.column(name).codes[0])

    def write(self, batch: Batch, name: str, values: Numbers) -> Batch:
        """Return the batch with a column's numbers or categories replaced; missing values do not change."""
        column, attribute = batch.column(name), batch.schema[name]
        if column.kind is Kind.NUMBER:
            return super().write(batch, name, values)
        old, labels = column.codes
        gone = np.isnan(values)
        codes = np.where(gone, 0, values)
        if self.sorts[name] == "ordered":
            numbers = {attribute.values[str(v)]: c for c, v in enumerate(labels) if v not in attribute.missing}
            places = np.array(sorted(numbers))
            codes = np.array([numbers[v] for v in places])[np.clip(np.searchsorted(places, codes), 0, len(places) - 1)]
        return batch.with_codes(name, np.where(gone, np.where(batch.missing(name), old, -1), codes).astype(np.int64))

    def centres(self, x: Numbers, labels: Whole, names: tuple[str, ...], schema: Schema) -> Numbers:
        """Return means, medians or modes of numbers, lower medians of ordered categories, modes of the others."""
        out = np.empty((int(labels.max(initial=-1)) + 1, len(names)))
        for j, name in enumerate(names):
            low = self.sorts[name] == "ordered" and self.aggregate != "mode"  # a median that is a category
            how = "mode" if self.sorts[name] == "plain" else "low" if low else self.aggregate
            out[:, j] = centres(x[:, [j]], labels, how)[:, 0]
        return out

    def block_groups(self, x: Numbers, names: tuple[str, ...], ids: Whole, draws: Draws) -> Whole:
        """Return MDAV's groups by Gower's distance; x holds numbers in units of their range, and codes of categories."""
        weights = self._weights(self.names)
        weight = np.array([weights[n] for n in names])
        plain = np.array([self.sorts[n] == "plain" for n in names])
        return self._grouped(x[:, ~plain] * weight[~plain], x[:, plain].astype(np.int64), weight[plain])

    def groups(self, x: Numbers, ids: Whole, draws: Draws) -> Whole:
        """Return the groups of records with numbers only, all of weight one."""
        return self._grouped(x, np.zeros((len(x), 0), np.int64), np.zeros(0))

    def _grouped(self, x: Numbers, codes: Whole, weight: Numbers) -> Whole:
        labels, used = np.empty(len(x), np.int64), 0
        for rows in kernels.microaggregation.gower_pieces(x, codes, weight, max(self.block, 2 * self.k)):
            found = kernels.microaggregation.gower_mdav(x[rows], codes[rows], weight, self.k)
            labels[rows] = found + used
            used += int(found.max()) + 1
        return labels


def _sort(attribute: Attribute, kind: Kind) -> Literal["number", "ordered", "plain"]:
    """Return how values differ: by a distance (numbers, and categories with numbers in the schema), or by 0 or 1."""
    if kind is Kind.NUMBER:
        return "number"
    return "ordered" if kind is Kind.CATEGORY and attribute.values else "plain"
