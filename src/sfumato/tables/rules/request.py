"""The request rule of foreign trade statistics: protection for those who asked for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import param
from sfumato.errors import DataError
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import settings
from sfumato.tables.rules.minimum_frequency import margin_of, records_in
from sfumato.tables.rules.standing import listed_in, requests_of, standing
from sfumato.tables.table import Table


class Request(SensitivityRule):
    """A cell is unsafe if its largest contributor asked for protection and has more than `share` percent of the total.

    Requests come in two codes with a share each (`share` for code 1, `second` for code 2; the same if not given). If anybody
    in the cell asked, it is unsafe as well if it has fewer than `minimum` records: a larger one who did not ask could find
    out the one who did. Where several are equally large, it is enough that one of them asked.

    Who asked is a column of the data (Table.of(..., request=...)), or a list of names here, who have code 1.

    τ-ARGUS manual, section 2.2 (request rule).
    """

    share: float = param(
        default=70.0, doc="share of the total above which a request counts, in percent", low=0, high=100
    )
    second: float | None = param(
        default=None, doc="the same for requests with code 2; as `share` if not given", low=0, high=100
    )
    minimum: int = param(default=0, doc="records below which any request counts", low=0, integer=True)
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    requested: tuple[str, ...] | None = param(
        default=None, doc="names of contributors who asked, beside those the table knows"
    )
    weights: str = settings.weights()
    negative: str = settings.negative()
    levels: str = settings.levels()

    def validate(self) -> None:
        """Check the list of names."""
        object.__setattr__(self, "requested", settings.names_of("requested of request", self.requested))

    def label(self) -> str:
        """Return the rule in a few words."""
        return f"request rule, share {self.share:g}%"

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        codes = self._codes(table)
        largest = standing(table, 1, self.weights, self.negative)
        total, unsafe = largest.total, np.zeros(len(table), bool)
        for code, share in ((1, self.share), (2, self.share if self.second is None else self.second)):
            if not (codes == code).any():
                continue
            asking = standing(table, 1, self.weights, self.negative, codes == code)
            is_largest = (asking.who[:, 0] >= 0) & (asking.values[:, 0] == largest.values[:, 0])
            unsafe |= is_largest & (asking.values[:, 0] > share / 100 * total)
        if self.minimum:
            unsafe |= (requests_of(table, codes).sum(axis=1) > 0) & (records_in(table) < self.minimum)
        return settings.levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())

    def _codes(self, table: Table) -> NDArray[np.int64]:
        contributions = table.contributions
        if contributions is None or (contributions.requests is None and not self.requested):
            raise DataError(
                "the table does not say who asked for protection. Name the column with the requests (Table.of(..., "
                "request=...)), or the contributors who asked (requested)."
            )
        codes = np.zeros(len(contributions), np.int64)
        if contributions.requests is not None:
            codes = contributions.requests.copy()
        if self.requested:
            if contributions.names is None:
                raise DataError("the records have no contributors by name. Give the column with the contributors.")
            asked = listed_in(contributions.names, self.requested)
            if not asked.any():
                raise DataError(
                    "none of the contributors in `requested` is one of the table's: a request would be overlooked. Check how "
                    "their names are written."
                )
            codes[asked] = 1
        return codes
