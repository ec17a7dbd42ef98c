"""Local suppression: k = 3 on 8 keys of 50,000 records in 1 CPU second, with fewer than 1,821 values, and k counted anew."""

from __future__ import annotations

import time

from benchmarks.files import KEYS, measured, table, within_limits

LIMITS = {50_000: 1.0, 200_000: 3.0}
MOST_VALUES = 1_821
"""Values that sdcMicro suppresses in 50,000 records."""


def run() -> dict[str, float]:
    from sfumato.contract import Draws, Release, Snooper
    from sfumato.data.microdata import Microdata
    from sfumato.masks import LocalSuppression
    from sfumato.risk import KAnonymity
    from sfumato.schema import Attribute, Role, Scale, Schema

    keys = (*KEYS, "age")
    result: dict[str, float] = {}

    def seconds(records: int) -> float:
        frame = table(f"survey_{records}").select(list(keys))
        data = Microdata(frame, Schema(tuple(Attribute(n, Role.KEY, Scale.UNORDERED) for n in frame.column_names)))
        for column in data.batch(keys).rows.columns.values():
            len(column.codes[0])  # keys come coded
        start = time.process_time()
        release = LocalSuppression(keys, k=3).apply(data, Draws(1))
        passed = time.process_time() - start
        after = release.masked.batch(keys)
        result[f"values suppressed of {records:,} records"] = float(sum(int(after.missing(n).sum()) for n in keys))
        below = KAnonymity(3).score(Release(data, (release.masked,)), Snooper(keys=keys)).details["records below k"]
        result[f"records of {records:,} below k"] = below
        return passed

    return {**measured(seconds, LIMITS), **result}


def holds(result: dict[str, float]) -> bool:
    fewer = result["values suppressed of 50,000 records"] < MOST_VALUES
    return within_limits(result) and fewer and not any(v for n, v in result.items() if n.endswith("below k"))
