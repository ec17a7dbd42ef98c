"""Every row-scope mask on 1M records that stay in DuckDB: the same release as in memory, within 3 × the Arrow size + 300 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.every_mask import RECORDS, SETTINGS, schema, touch
from benchmarks.files import baseline, path, peak, table


def one(name: str) -> dict[str, float]:
    """Mask once from DuckDB, in this process; then in memory, and compare."""
    from sfumato.contract import Draws, build
    from sfumato.microdata import Microdata

    mask, meaning = build("mask", {"mask": name, **SETTINGS.get(name, {})}), schema()
    touch(mask.apply(Microdata(table("survey_4580"), meaning), Draws(1)).masked)  # compile
    before = baseline()
    made = mask.apply(Microdata.read(path(f"survey_{RECORDS}"), meaning, engine="duckdb"), Draws(1)).masked
    memory = peak() - before
    here = mask.apply(Microdata(table(f"survey_{RECORDS}"), meaning), Draws(1)).masked
    allowed = 3 * table(f"survey_{RECORDS}").nbytes / 2**20 + 300
    return {"memory": memory / allowed, "same": float(same(made, here))}


def same(one: Any, two: Any) -> bool:
    """Whether two files hold the same records, numbers to 1e-9 of their spread: sums are added up in another order."""
    import numpy as np

    from sfumato.engines import Kind

    a, b = one.batch(), two.batch()
    rows = np.argsort(a.ids, kind="stable"), np.argsort(b.ids, kind="stable")
    if not np.array_equal(a.ids[rows[0]], b.ids[rows[1]]):
        return False
    for name, column in a.rows.columns.items():
        left, right = column.take(rows[0]), b.column(name).take(rows[1])
        if column.kind is Kind.NUMBER:
            close = 1e-9 * float(np.nanstd(right.numbers))
            if not np.allclose(left.numbers, right.numbers, rtol=1e-9, atol=close, equal_nan=True):
                return False
        elif not np.array_equal(left.hashes, right.hashes):
            return False
    return True


def run() -> dict[str, float]:
    from sfumato.contract import Scope, registered

    result: dict[str, float] = {}
    table(f"survey_{RECORDS}")
    for name, cls in sorted(registered("mask").items()):
        if getattr(cls, "scope", None) is not Scope.ROW:
            continue
        code = f"import json; from benchmarks import streamed_masks as b; print(json.dumps(b.one('{name}')))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
            result[f"{name}: failed"] = 1.0
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        result[f"{name}: same as in memory"] = found["same"]
        result[f"{name}: memory / allowed"] = found["memory"]
    return result


def holds(result: dict[str, float]) -> bool:
    def fine(what: str, value: float) -> bool:
        return value == 1 if what.endswith("in memory") else value <= 1 and not what.endswith("failed")

    return all(fine(what, value) for what, value in result.items())
