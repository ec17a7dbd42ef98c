"""Records set aside before masking: what a release is compared with to tell what it gives away from what is true of anybody."""

from __future__ import annotations

import math

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.engines import Rows
from sfumato.errors import DataError, ParameterError
from sfumato.households import unit_ids
from sfumato.microdata import Batch, Microdata

_APART = 1 << 48
"""Added to the ids of records from another file; no file has that many."""


class Holdout(Microdata):
    """Records that no mask has seen, with the columns of the original.

    `hold_out` makes one from the file itself. `Holdout.of` takes another file of the same kind of people.
    """

    __slots__ = ()

    @classmethod
    def of(cls, data: Microdata) -> Holdout:
        """Take the records of another file: its people are not in the original, and it was not masked.

        They get ids of their own, so that they are not taken for records of the original; they are brought into memory.
        """
        rows = data.batch().rows
        return cls(data.engine.hold(Rows(rows.ids + _APART, rows.columns)), data.schema)

    @property
    def from_another_file(self) -> bool:
        """Whether its records were taken from another file, so that their ids say nothing of who is in the original."""
        return bool((self.batch([]).ids >= _APART).all())


def hold_out(data: Microdata, share: float, draws: Draws) -> tuple[Microdata, Holdout]:
    """Split a file at random, before masking: the part to be masked and released, and the part that is set aside.

    Whole households are set aside where the schema names them, so that nobody's family is on the other side. At least the
    share that is asked for is set aside, at least one record, and never all. Both parts keep their records' ids, and stay
    where the data live. Survey weights are left as they are.

    Examples
    --------
    >>> from sfumato.datasets import teachers
    >>> kept, held = hold_out(teachers(1_000), 0.5, Draws(1))
    >>> len(kept), len(held)
    (500, 500)
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ParameterError("the share to hold out must be a number above 0 and below 1.")
    household = data.schema.one("household")
    batch = data.batch([] if household is None else [household])
    units, sizes = np.unique(unit_ids(batch, "household"), return_counts=True)
    if len(units) < 2:
        what = "records" if household is None else "households"
        raise DataError(f"a file needs at least two {what} to set one aside; this one has {len(units)}.")
    order = np.argsort(draws.uniforms(units, "holdout"), kind="stable")
    wanted = math.ceil(share * len(batch) - 1e-9)
    count = min(int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1, len(units) - 1)
    aside = np.sort(units[order[:count]])

    def part(batch: Batch, inside: bool) -> Batch:
        return batch.keep(np.isin(unit_ids(batch, "household"), aside) == inside)

    held = data.transform(lambda batch: part(batch, True), data.schema)
    return data.transform(lambda batch: part(batch, False), data.schema), Holdout(held.engine, held.schema)
