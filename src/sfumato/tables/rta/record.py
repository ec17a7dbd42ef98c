"""What was published, with its noise: what a later table of the same data must not contradict. Confidential."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import ParameterError
from sfumato.files import parse_json, write_text
from sfumato.tables.cells import Cells

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
_WARNING = "CONFIDENTIAL: holds true values and their noise. Keep it with the seed, apart from what is published."


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The leaves of a published table: true totals, what was published of them in whole units, and how noise was drawn.

    Whoever publishes another table of the same variable and period starts from it (`RTA.protect_later`), so that noise under
    cells already published is not drawn again. It holds what the table hides: only its owner can read the file.
    """

    cells: Cells
    totals: Numbers
    """The true value of each leaf, shape (leaves,)."""
    units: Whole
    """What each leaf became, in units of the last digit published; shape (leaves,)."""
    decimals: int
    covariance: sparse.csr_array
    """Of the noise of the leaves, leaves × leaves; diagonal for a first publication."""
    variable: str = ""
    period: str = ""

    def __repr__(self) -> str:
        return f"Record({len(self.cells):,} cells of {self.cells.leaves:,} leaves; confidential)"

    def write(self, path: str | Path) -> None:
        """Write it to a file that only its owner can read."""
        write_text(path, self.text(), confidential=True)

    def text(self) -> str:
        """Return what stands in its file: a secret."""
        covariance = self.covariance.tocoo()
        incidence = self.cells.incidence.tocoo()
        table = {
            "warning": _WARNING, "version": 1, "variable": self.variable, "period": self.period, "decimals": self.decimals,
            "dimensions": list(self.cells.dimensions), "labels": self.cells.labels.tolist(),
            "incidence": [incidence.row.tolist(), incidence.col.tolist()], "totals": self.totals.tolist(),
            "units": self.units.tolist(),
            "covariance": [covariance.row.tolist(), covariance.col.tolist(), covariance.data.tolist()],
        }  # fmt: skip
        return json.dumps({**table, "digest": _digest(table)}, ensure_ascii=False)

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read what `write` wrote."""
        try:
            table = parse_json(Path(path).read_text("utf-8"))
            return cls._from_dict(table)
        except FileNotFoundError:
            raise ParameterError(f"there is no record of a published table at {path}.") from None
        except Exception:  # whatever is wrong with it: messages from below quote true values
            raise ParameterError(f"{path} is not the record of a published table, or is damaged.") from None

    @classmethod
    def _from_dict(cls, table: dict[str, Any]) -> Record:
        if table["version"] != 1:
            raise ValueError("another version")
        if table.get("digest", digest := _digest(table)) != digest:  # earlier ones have none
            raise ValueError("a number or a label was changed")
        if not isinstance(table["dimensions"], list) or not all(isinstance(d, str) for d in table["dimensions"]):
            raise TypeError("dimensions that are no names")
        wide = len(table["dimensions"])
        if not all(isinstance(row, list) and [type(x) for x in row] == [str] * wide for row in table["labels"]):
            raise ValueError("labels that are no texts, or not one for each dimension")
        labels = np.array(table["labels"], object).reshape(-1, wide)
        totals = np.array(table["totals"], np.float64)
        row, column = (np.array(part, np.int64) for part in table["incidence"])
        incidence = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(len(labels), len(totals)))
        a, b, data = table["covariance"]
        covariance = sparse.csr_array(
            (np.array(data, np.float64), (np.array(a, np.int64), np.array(b, np.int64))),
            shape=(len(totals), len(totals)),
        )
        units = np.array(table["units"], np.int64)
        if units.shape != totals.shape or totals.ndim != 1:
            raise ValueError("not one unit for each leaf")
        if not (np.isfinite(totals).all() and np.isfinite(covariance.data).all() and abs(table["decimals"]) <= 30):
            raise ValueError("numbers that are none")
        return cls(
            Cells(tuple(map(str, table["dimensions"])), labels, incidence), totals, units, int(table["decimals"]), covariance,
            str(table["variable"]), str(table["period"]),
        )  # fmt: skip


def _digest(table: dict[str, Any]) -> str:
    """Return a digest of all that a record says, so that a damaged one is not used for later tables."""
    said = {key: value for key, value in table.items() if key != "digest"}
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()
