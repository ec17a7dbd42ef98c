"""Every mask on 1M records of a survey: seconds, and peak memory at most 3 × the Arrow size + 300 MB."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.files import AMOUNTS, KEYS, baseline, in_processes, peak, table

RECORDS, SECONDS = 1_000_000, 20.0
SETTINGS: dict[str, dict[str, Any]] = {
    "aggregate_columns": {"columns": ["income", "savings"]},
    "bounded_noise": {"low": 0.0},
    "change_rare": {"column": "sex"},
    "displace": {"amount": {"income": 5.0}},
    "full_normal_synthesis": {"columns": list(AMOUNTS)},
    "gaussian_mechanism": {"sensitivity": 1e8},
    "generalise": {"columns": ["age"], "level": 1},
    "laplace_noise": {"sensitivity": 1e8},
    "marginal_synthesis": {"columns": list(KEYS), "public": list(KEYS)},
    "matrix_mask": {"columns": ["income", "savings"], "B": [[1.0, 0.5], [0.0, 1.0]]},
    "pseudonyms": {"columns": ["ori_hid"]},
    "random_round": {"base": 1000.0},
    "recode": {"rules": {"sex": {"1": "m", "2": "f"}}},
    "recode_rare": {"columns": ["age"], "cut": 1},
    "round": {"base": 1000.0},
    "stratified_sample": {"within": ["urbrur"], "fraction": 0.1, "unit": "record"},
    "suppress_columns": {"columns": ["relat"]},
    "suppress_records": {"where": "age > 80"},
    "suppress_small_areas": {"columns": ["urbrur", "roof", "walls"]},
    "suppress_values": {"columns": ["income"], "where": "age > 80"},
}
"""Parameters without a default, on the columns of the survey."""


def schema() -> Any:
    from sfumato.schema import Attribute, IntervalHierarchy, Level, Role, Scale, Schema

    keys = [Attribute(k, Role.KEY, Scale.UNORDERED) for k in KEYS]
    amounts = [Attribute(a, Role.CONFIDENTIAL) for a in AMOUNTS]
    return Schema(
        (
            *keys,
            Attribute("age", Role.KEY, hierarchy=IntervalHierarchy.from_widths([5, 10]), integer=True),
            Attribute("hhcivil", Role.OTHER, Scale.UNORDERED),
            *amounts,
            Attribute("ori_hid", Role.HOUSEHOLD, Scale.UNORDERED, level=Level.HOUSEHOLD),
            Attribute("sampling_weight", Role.WEIGHT),
            Attribute("household_weights", Role.OTHER),
        )
    )


def one(name: str) -> dict[str, float]:
    """Mask once, in this process, and say what it took."""
    from sfumato.contract import Draws, build
    from sfumato.data.microdata import Microdata

    mask, meaning = build("mask", {"mask": name, **SETTINGS.get(name, {})}), schema()
    small = Microdata(table("survey_4580"), meaning)
    touch(mask.apply(small, Draws(1)).masked)  # compile
    before = baseline()
    records = table(f"survey_{RECORDS}")
    start = time.process_time()
    touch(mask.apply(Microdata(records, meaning), Draws(1)).masked)
    seconds = time.process_time() - start
    allowed = 3 * records.nbytes / 2**20 + 300
    return {"CPU seconds": seconds, "memory / allowed": (peak() - before) / allowed}


def touch(data: Any) -> None:
    """Work out every column: they are lazy."""
    for column in data.batch().rows.columns.values():
        len(column.arrow)


def run() -> dict[str, float]:
    from sfumato.contract import registered

    table(f"survey_{RECORDS}")
    return in_processes("every_mask", sorted(registered("mask")))


def holds(result: dict[str, float]) -> bool:
    def fine(what: str, value: float) -> bool:
        return value <= (SECONDS if what.endswith("seconds") else 1.0) and not what.endswith("failed")

    return all(fine(what, value) for what, value in result.items())
