"""The large files of ../shared/data/scale_up.py, made once in the folder for temporary files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "scale_up.py"
KEYS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")
AMOUNTS = ("expend", "income", "savings")


def table(name: str) -> pa.Table:
    """Return a file such as "survey_1000000" as Arrow; whole numbers in 64 bits, as a reader gives them."""
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path(name))


def path(name: str) -> Path:
    """Return where such a file is, as Parquet; it is made if it is not there."""
    import pyarrow.csv
    import pyarrow.parquet

    folder = Path(tempfile.gettempdir()) / "sfumato-bench"
    kept = folder / f"{name}.parquet"
    if not kept.exists():
        if not SHARED.exists():
            raise SystemExit(f"the benchmark files are made by {SHARED}, which is not there.")
        subprocess.run([sys.executable, str(SHARED), str(folder), _job(name)], check=True, stdout=subprocess.DEVNULL)
        for made in folder.glob("*.csv"):
            pyarrow.parquet.write_table(pyarrow.csv.read_csv(made), made.with_suffix(".parquet"))
            made.unlink()
    return kept


def _job(name: str) -> str:
    kind = name.partition("_")[0]
    return {"numeric6": "numeric", "business": "tables"}.get(kind, kind)


def baseline() -> float:
    """Return the memory that the process holds now, in MB."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process holds")


def peak() -> float:
    """Return the most memory that the process has held, in MB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_processes(module: str, names: Iterable[str]) -> dict[str, float]:
    """Return what `one(name)` of a benchmark finds for each name, each in a process of its own, by "name: what"."""
    result: dict[str, float] = {}
    for name in names:
        code = f"import json; from benchmarks import {module} as b; print(json.dumps(b.one('{name}')))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
            result[f"{name}: failed"] = 1.0
            continue
        result |= {f"{name}: {what}": value for what, value in json.loads(done.stdout.splitlines()[-1]).items()}
    return result


TIMES = 5
"""Best of so many runs, as the peers were timed; a fresh file each time, so that nothing is worked out already."""


def measured(seconds: Callable[[int], float], limits: Mapping[int, float]) -> dict[str, float]:
    """Return the CPU seconds on survey files of several sizes, the memory, and their ratios to what is allowed."""
    seconds(4_580)  # compile
    before = baseline()
    result: dict[str, float] = {}
    for records, limit in limits.items():
        best = min(seconds(records) for _ in range(TIMES))
        result[f"CPU seconds, {records:,} records"] = best
        result[f"ratio to the limit, {records:,} records"] = best / limit
    allowed = 3 * table("survey_1000000").nbytes / 2**20 + 300
    result["peak memory above the imports, MB"] = peak() - before
    result["ratio to the memory allowed"] = (peak() - before) / allowed
    return result


def within_limits(result: dict[str, float]) -> bool:
    """Return whether every ratio is within its limit."""
    return all(value <= 1 for what, value in result.items() if what.startswith("ratio"))
