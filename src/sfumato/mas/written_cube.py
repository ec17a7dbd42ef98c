"""The cube of known variables that a frozen version keeps beside its records: what it tells needs no pass over these.

Confidential, as the records are. It is a table, and not the records in other words: at most one cell for 100 of them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sfumato.engines.warehouse import Warehouse
from sfumato.errors import DataError
from sfumato.files import whole_file
from sfumato.mas.cube import Cube, Cubes
from sfumato.mas.variable import Variable, finest

_FILE = "cube.npz"
_CELLS = 100_000
_RECORDS = 100
"""Records for each cell on average, at least: so it is an aggregate, also as what leaves Spark."""


def write_cube(folder: Path, warehouse: Warehouse, variables: Mapping[str, Variable]) -> str:
    """Write the cube of as many known variables as there is room for; return a digest of the file."""
    n = int(warehouse.ask("SELECT count(*) AS n FROM records")["n"][0])
    cube = Cubes(warehouse).of(finest(variables, min(_CELLS, n // _RECORDS)))
    packed = io.BytesIO()
    names = np.array([v.name for v in cube.variables], np.str_)
    np.savez(packed, allow_pickle=False, names=names, counts=cube.counts, digests=cube.digests)
    with whole_file(folder / _FILE, mode=0o600) as temporary:
        temporary.write_bytes(packed.getbuffer())
    return _digest(packed.getvalue())


def read_cube(folder: Path, digest: str, variables: Mapping[str, Variable]) -> Cube | None:
    """Read the cube again; None if it is gone, for all of it can be found in the records. Another one is refused."""
    path = folder / _FILE
    if not path.exists():
        return None
    content = path.read_bytes()
    if _digest(content) != digest:
        raise DataError(
            f"{path} is damaged, or was written for other records. Remove it: counts are then taken from the records, as before, "
            "and only first questions take longer."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return Cube(tuple(variables[name] for name in found["names"].tolist()), found["counts"], found["digests"])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
