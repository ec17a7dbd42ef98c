"""Every row-scope mask on 1M records that stay in DuckDB: the same release as in memory, within 3 × the Arrow size + 300 MB."""

from __future__ import annotations

from typing import Any

from benchmarks.every_mask import RECORDS, SETTINGS, schema, touch
from benchmarks.files import baseline, in_processes, path, peak, table


def one(name: str) -> dict[str, float]:
    """Mask once from DuckDB, in this process; then in memory, and compare."""
    from sfumato.contract import Draws, build
    from sfumato.data.microdata import Microdata

    mask, meaning = build("mask", {"mask": name, **SETTINGS.get(name, {})}), schema()
    touch(mask.apply(Microdata(table("survey_4580"), meaning), Draws(1)).masked)  # compile
    before = baseline()
    made = mask.apply(Microdata.read(path(f"survey_{RECORDS}"), meaning, engine="duckdb"), Draws(1)).masked
    memory = peak() - before
    here = mask.apply(Microdata(table(f"survey_{RECORDS}"), meaning), Draws(1)).masked
    allowed = 3 * table(f"survey_{RECORDS}").nbytes / 2**20 + 300
    return {"same as in memory": float(same(made, here)), "memory / allowed": memory / allowed}


def same(one: Any, two: Any) -> bool:
    """Whether two files hold the same records, numbers to 1e-9 of their spread: sums are added up in another order."""
    import numpy as np

    from sfumato.data import Kind

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

    table(f"survey_{RECORDS}")
    rows = [n for n, cls in sorted(registered("mask").items()) if getattr(cls, "scope", None) is Scope.ROW]
    return in_processes("streamed_masks", rows)


def holds(result: dict[str, float]) -> bool:
    def fine(what: str, value: float) -> bool:
        return value == 1 if what.endswith("in memory") else value <= 1 and not what.endswith("failed")

    return all(fine(what, value) for what, value in result.items())
