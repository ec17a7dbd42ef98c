"""The shares of categories before and after, for a summary of a release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.errors import SchemaError
from sfumato.microdata import Microdata
from sfumato.schema.hierarchy.base import label_of
from sfumato.schema.hierarchy.interval import written_bounds
from sfumato.utility.before_after import MISSING, Files, with_difference
from sfumato.utility.compared import Numbers
from sfumato.utility.leaves import distinct_pairs, paired_codes

if TYPE_CHECKING:
    import pandas as pd

Coded = tuple[NDArray[np.int32], Sequence[str]]


def distributions(files: Files) -> pd.DataFrame:
    """Return the share of each category: column, category, before, after, difference; in the order of the labels.

    Where a column was recoded, the original is recoded likewise. Categories of fewer original records stand together.
    """
    import pandas as pd

    rows = []
    for name in files.categories:
        if len(files.original) < files.fewest:
            continue
        coded = _recoded(files, name)
        counts, before = _amounts(coded, None), _shares(coded, files.weights(files.original))
        each = [_shares(_coded(data, name), files.weights(data)) for data in files.outcome.implicates]
        found = {*before}.union(*each)
        every = [*sorted(found - {MISSING}), *({MISSING} & found)]
        after = {label: float(np.mean([one.get(label, 0.0) for one in each])) for label in every}
        joined = _joined(every, counts, files.fewest)
        if len(joined) == 1 and len(every) > 1:
            continue  # every value is rare, as names are
        for together in joined:
            said = together[0] if len(together) == 1 else f"{len(together)} rare ones"
            rows.append((name, said, sum(before.get(v, 0.0) for v in together), sum(after[v] for v in together)))
    return with_difference(pd.DataFrame(rows, columns=["column", "category", "before", "after"]))


def _joined(labels: Sequence[str], counts: Mapping[str, float], fewest: int) -> list[list[str]]:
    """Return the labels one by one, those of too few original records together at the end, with as many more as that takes."""
    rare = sorted((v for v in labels if counts.get(v, 0) < fewest), key=lambda v: counts.get(v, 0))
    others = sorted((v for v in labels if v not in set(rare)), key=lambda v: counts[v])
    while others and 0 < sum(counts.get(v, 0) for v in rare) < fewest:
        rare.append(others.pop(0))
    alone = [[v] for v in labels if v not in set(rare)]
    return [*alone, rare] if rare else alone


def _coded(data: Microdata, name: str) -> Coded:
    """Return each record's value as a code into texts; the last text stands for missing."""
    batch = data.batch([name])
    codes, values = batch.column(name).codes
    return np.where(batch.missing(name), np.int32(len(values)), codes), [*map(label_of, values), MISSING]


def _amounts(coded: Coded, weights: Numbers | None) -> dict[str, float]:
    """Return how many records have each text, or the sum of their weights; texts of none are left out."""
    codes, texts = coded
    amounts: dict[str, float] = {}
    sizes, sums = np.bincount(codes, minlength=len(texts)), np.bincount(codes, weights, len(texts))
    for i in np.flatnonzero(sizes).tolist():
        amounts[texts[i]] = amounts.get(texts[i], 0.0) + float(sums[i])
    return amounts


def _shares(coded: Coded, weights: Numbers) -> dict[str, float]:
    """Return the share of each text."""
    amounts = _amounts(coded, weights)
    total = sum(amounts.values()) or 1.0
    return {text: amount / total for text, amount in amounts.items()}


def _recoded(files: Files, name: str) -> Coded:
    """Return each original record's value under the label that the release has for it."""
    original, masked = files.original, files.outcome.masked
    known = {text for data in files.outcome.implicates for text in _amounts(_coded(data, name), None)}
    _, values = original.batch([name]).column(name).codes
    trees = [t for t in (original.schema[name].hierarchy, masked.schema[name].hierarchy) if t is not None]
    codes, (*texts, _) = _coded(original, name)
    for tree in trees:
        for level in range(1, tree.height + 1):
            lost = [i for i, text in enumerate(texts) if text not in known]
            if not lost:
                break
            try:
                above = tree.generalise([values[i] for i in lost], level).tolist()
            except SchemaError:
                break
            for i, label in zip(lost, above, strict=True):
                texts[i] = label if label in known else texts[i]
    if original.kind(name) is Kind.NUMBER:
        texts = _by_intervals(np.asarray(values, np.float64), texts, known)
    if files.outcome.aligned and any(text not in known for text in texts):
        texts = _by_pairs(files.outcome, name, texts, known)
    return codes, [*texts, MISSING]


def _by_intervals(values: Numbers, texts: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the labels of numbers that were released as intervals, which say themselves what they hold."""
    found, held = list(texts), set(known)
    lost = np.array([text not in held for text in texts], bool)
    for label in sorted(held):
        if (bounds := written_bounds(label)) is not None and bounds[0] < bounds[1]:
            for i in np.flatnonzero(lost & (values >= bounds[0]) & (values <= bounds[1])).tolist():
                found[i] = label
    return found


def _by_pairs(outcome: Release, name: str, texts: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the labels of values that were all released under one other label, as a list of old and new values has them."""
    before, after = paired_codes(outcome, name)
    both = (before >= 0) & (after >= 0)
    _, released = outcome.masked.batch([name]).column(name).codes
    under: dict[int, list[str]] = {}
    for old, new in zip(*distinct_pairs(before[both], after[both], max(len(released), 1)), strict=True):
        under.setdefault(int(old), []).append(label_of(released[int(new)]))
    held = set(known)
    return [under[i][0] if t not in held and len(under.get(i, ())) == 1 else t for i, t in enumerate(texts)]
