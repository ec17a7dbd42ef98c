"""100M records out of core on DuckDB: the measures from counts within 6 GB, with the counts of a plain SQL query.

    make bench-large [RECORDS=100000000]

The file has 7 keys with 13.7M possible combinations, the common ones more common, and a survey weight; it is made once in the
folder for temporary files (about 0.4 GB), and each measure runs in a process of its own. Not part of `make bench`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.files import peak

RECORDS = int(os.environ.get("RECORDS", "100000000"))
LIMIT = 6 * 1024
"""MB that a process may hold."""
LEVELS = {"region": 17, "sex": 2, "age": 100, "marital": 4, "education": 6, "employment": 7, "occupation": 24}
MEASURES: dict[str, dict[str, Any]] = {
    "KAnonymity": {"k": 3},
    "IndividualRisk": {},
    "Reidentification": {"summary": "share at risk", "threshold": 0.2},
}


def file() -> Path:
    """Return the file; it is made if it is not there."""
    import duckdb

    path = Path(tempfile.gettempdir()) / "sfumato-bench" / f"large_{RECORDS}.parquet"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        part = path.with_suffix(".part")
        number = "(hash(i * 16 + {}) >> 32) / 4294967296.0"
        keys = [
            f"CAST(floor({levels} * pow({number.format(place)}, 2)) AS UTINYINT) AS {name}"
            for place, (name, levels) in enumerate(LEVELS.items())
        ]
        columns = ", ".join([*keys, "CAST(5 + hash(i * 16 + 15) % 26 AS UTINYINT) AS weight"])
        duckdb.execute(f"COPY (SELECT {columns} FROM range({RECORDS}) t(i)) TO '{part}' (FORMAT parquet)")
        part.rename(path)
    return path


def plain_counts() -> dict[str, float]:
    """Return what a SQL query counts, in a process of its own; the largest risk is that of a unique record, ln(w) / (w - 1)."""
    import duckdb

    query = f"""
        SELECT count(*), sum(f) FILTER (f < 3), sum(f) FILTER (f < 5), min(f),
            max(ln(w) / (w - 1)) FILTER (f = 1)
        FROM (SELECT count(*) AS f, CAST(sum(weight) AS DOUBLE) AS w FROM '{file()}' GROUP BY {", ".join(LEVELS)})
    """
    start = time.perf_counter()
    found = duckdb.execute(query).fetchall()[0]
    names = ("classes", "below 3", "below 5", "smallest", "largest risk")
    return {**dict(zip(names, map(float, found), strict=True)), "seconds": time.perf_counter() - start}


def scored(name: str) -> dict[str, float]:
    """Score the file once, in this process; no record's own risk is looked at."""
    from sfumato import risk
    from sfumato.contract import Release
    from sfumato.data.microdata import Microdata
    from sfumato.schema import Attribute, Role, Scale, Schema

    start, cpu = time.perf_counter(), time.process_time()
    keys = [Attribute(key, Role.KEY, Scale.UNORDERED) for key in LEVELS]
    data = Microdata.read(file(), Schema((*keys, Attribute("weight", Role.WEIGHT))), engine="duckdb")
    score = getattr(risk, name)(**MEASURES[name]).score(Release(data, (data,)))
    used = {"seconds": time.perf_counter() - start, "CPU seconds": time.process_time() - cpu, "peak memory, MB": peak()}
    return {"value": score.value, **score.details, **used}


def same(name: str, score: dict[str, float], plain: dict[str, float]) -> bool:
    """Whether a measure counted what the query did."""
    if name == "KAnonymity":
        pairs = [
            (score["records below k"], plain["below 3"]),
            (score["smallest class"], plain["smallest"]),
            (score["value"], plain["below 3"] / RECORDS),
        ]
    elif name == "IndividualRisk":
        pairs = [(score["largest risk"], plain["largest risk"])]
    else:
        pairs = [
            (score["records above the threshold"], plain["below 5"]),
            (score["mean risk"], plain["classes"] / RECORDS),
            (score["largest risk"], 1 / plain["smallest"]),
        ]
    return all(abs(a - b) <= 1e-12 * abs(b) for a, b in [*pairs, (score["classes"], plain["classes"])])


def alone(call: str) -> dict[str, float]:
    """Return what a call in a process of its own finds."""
    code = f"import json; from benchmarks import large as b; print(json.dumps(b.{call}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    size = file().stat().st_size / 2**20
    plain = alone("plain_counts()")
    print(
        f"{RECORDS:,} records, {plain['classes']:,.0f} classes, {size:,.0f} MB of Parquet; "
        f"the query alone {plain['seconds']:.0f} s"
    )
    failed = 0
    for name in MEASURES:
        score = alone(f"scored('{name}')")
        ok = same(name, score, plain) and score["peak memory, MB"] <= LIMIT
        failed += not ok
        print(
            f"{name:<18} value {score['value']:.6f}   {score['seconds']:6.1f} s ({score['CPU seconds']:.1f} CPU)   "
            f"peak {score['peak memory, MB']:,.0f} MB   {'holds' if ok else 'DOES NOT HOLD'}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
