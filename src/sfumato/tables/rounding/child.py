"""Running CP-SAT in a child process: arrays by pipes, no file, a time limit, and no word about the values."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SfumatoError, missing_extra
from sfumato.tables.rounding import cp_sat

Whole = NDArray[np.int64]
OPTIMAL, FEASIBLE, INFEASIBLE, UNKNOWN = range(4)


@dataclass(frozen=True, eq=False)
class Answer:
    """What the solver found: a status (OPTIMAL to UNKNOWN), the quantities if there are any, and a bound of all costs."""

    status: int
    quantities: Whole | None
    bound: float = np.nan


def solve(problem: dict[str, NDArray[Any]], limit: float, gap: float, settled: bool = False) -> Answer:
    """Return the answer to a problem of `cp_sat.solve` within `limit` seconds, of which starting Python is a part.

    The child is killed if it takes longer, and whenever this call ends early, by Ctrl-C for instance.
    """
    packed = io.BytesIO()
    started, until = time.monotonic(), time.time() + limit
    np.savez(
        packed, allow_pickle=False, **problem, limit=np.array([limit]), gap=np.array([gap]), until=np.array([until]),
        settled=np.array([settled]),
    )  # fmt: skip
    # -P: what lies beside the script must not be taken for a module
    command = [sys.executable, "-P", str(Path(cp_sat.__file__))]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        try:
            out, _ = child.communicate(packed.getvalue(), timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            return Answer(UNKNOWN, None)
        except BaseException:
            child.kill()
            raise
    if child.returncode == cp_sat.MISSING:
        raise missing_extra("ortools", "rounding", "controlled rounding")
    if child.returncode:
        took = time.monotonic() - started
        raise SfumatoError(
            f"the solver of controlled rounding stopped after {took:.0f} seconds without an answer (code {child.returncode}). "
            "It may have run out of memory: try a table with fewer cells."
        )
    with np.load(io.BytesIO(out), allow_pickle=False) as found:
        status = int(found["status"])
        some = found["quantities"] if status in (OPTIMAL, FEASIBLE) else None
        return Answer(status, some, float(found["bound"]))
