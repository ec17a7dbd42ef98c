"""Run every benchmark in a process of its own, print what was measured, and fail if a claim does not hold."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

CLAIMS = (
    "ru_map",
    "draws",
    "hierarchies",
    "csv_files",
    "microaggregation",
    "mdav",
    "rank_swap",
    "pram",
    "synthesis",
    "inversions",
    "counts",
    "diversity",
    "suda",
    "local_suppression",
    "anonymity",
    "calibration",
    "linkage",
    "inferential",
    "search",
    "suppression",
    "rta",
    "mas_tables",
    "mas_attacks",
    "mas_limits",
    "mas_residuals",
    "mas_models",
    "mas_spark",
    "every_mask",
    "streamed_masks",
    "tables_on_disk",
)


def main(names: list[str]) -> int:
    failed = 0
    for name in names or CLAIMS:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n{name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
        code = f"import json; from benchmarks import {name} as b; print(json.dumps(b.run()))"
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        result = json.loads(out.splitlines()[-1])
        for what, value in result.items():
            print(f"  {what:<40}{value:>12.3f}")
        ok = module.holds(result)
        failed += not ok
        print("  holds" if ok else "  DOES NOT HOLD")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
