"""SUDA: the minimal sample uniques of 7 keys, all sizes, and the scores of 1M records in 0.7 CPU seconds; exact."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.files import KEYS, measured, table, within_limits

LIMITS = {1_000_000: 0.7}


def run() -> dict[str, float]:
    from sfumato.contract import Release, Snooper
    from sfumato.data.microdata import Microdata
    from sfumato.risk import SUDA
    from sfumato.schema import Attribute, Role, Scale, Schema

    measure, snooper = SUDA(max_size=len(KEYS), summary="dis", fraction=0.01), Snooper(keys=KEYS)

    def release(records: int) -> Release:
        frame = table(f"survey_{records}")
        data = Microdata(frame, Schema(tuple(Attribute(n, Role.KEY, Scale.UNORDERED) for n in frame.column_names)))
        for column in data.batch(KEYS).rows.columns.values():
            len(column.codes[0])  # keys come coded
        return Release(data, (data,))

    def seconds(records: int) -> float:
        outcome = release(records)
        start = time.process_time()
        score = measure.score(outcome, snooper)  # minimal uniques, SUDA and DIS-SUDA scores, contributions of the keys
        assert score.records is not None
        return time.process_time() - start

    result = measured(seconds, LIMITS)
    outcome = release(4_580)
    scores = SUDA(max_size=len(KEYS)).score(outcome, snooper).records
    twin = slow_twin(np.column_stack([outcome.original.batch(KEYS).column(n).codes[0] for n in KEYS]))
    assert scores is not None
    result["records of 4,580 whose score is not the slow twin's"] = float(np.sum(scores != twin))
    result["their largest score"] = float(twin.max())
    return result


def slow_twin(codes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the SUDA scores of Elliot et al. by a look at every set of keys, all sizes; shape (n,)."""
    records, keys = codes.shape
    scores = np.zeros(records)
    unique: list[tuple[set[int], NDArray[np.bool_]]] = []
    for size in range(1, keys + 1):
        worth = float(np.prod([keys - i for i in range(size, keys)]))
        for places in combinations(range(keys), size):
            _, label, counts = np.unique(codes[:, places], axis=0, return_inverse=True, return_counts=True)
            here = counts[label.ravel()] == 1
            minimal = here.copy()
            for smaller, there in unique:
                if smaller < set(places):
                    minimal &= ~there
            scores += worth * minimal
            unique.append((set(places), here))
    return scores


def holds(result: dict[str, float]) -> bool:
    return within_limits(result) and result["records of 4,580 whose score is not the slow twin's"] == 0
