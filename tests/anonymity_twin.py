"""Slow twins of anonymity models and of the search over levels: dictionaries, loops, and every node of the lattice."""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato import Microdata
from sfumato.schema import Attribute, Role, Scale, Schema, TreeHierarchy, read_hierarchy_csv

ARX = Path(__file__).resolve().parents[2] / "shared" / "data" / "arx"
SALARY = "salary-class"

Row = tuple[str, ...]
Records = list[tuple[Row, str]]
"""Keys and a confidential value of each record."""
Test = Callable[[list[str], Counter[str], int], bool]
"""Whether a class holds: its confidential values, those of all released records, and how many of these there are."""


def adult(confidential: Sequence[str] = (), file: str = "adult.csv") -> Microdata:
    """Return Adult with ARX's hierarchies; all columns are keys but the confidential ones."""
    if not ARX.is_dir():
        pytest.skip("ARX's public files are not here (../shared/data/arx)")
    data = Microdata.read(ARX / file)
    schema = data.schema
    for name in schema.names():
        role = Role.CONFIDENTIAL if name in confidential else Role.KEY
        schema = schema.change(name, role=role, hierarchy=read_hierarchy_csv(ARX / f"adult_hierarchy_{name}.csv"))
    return data.with_schema(schema)


def adult_rows(file: str = "adult.csv") -> tuple[list[str], list[Row]]:
    """Return the header and the records of Adult, read without sfumato."""
    with (ARX / file).open(newline="") as lines:
        header, *rows = csv.reader(lines, delimiter=";")
    return header, [tuple(row) for row in rows]


def adult_trees(names: Sequence[str]) -> list[list[Row]]:
    """Return the rows of ARX's hierarchy files, read without sfumato."""
    found = []
    for name in names:
        with (ARX / f"adult_hierarchy_{name}.csv").open(newline="") as lines:
            found.append([tuple(row) for row in csv.reader(lines, delimiter=";")])
    return found


def people(
    keys: Sequence[Sequence[str]], trees: Sequence[list[Row]], secret: Sequence[str], scale: Scale = Scale.UNORDERED
) -> Microdata:
    """Return a file with keys a, b, ... and a confidential column `secret`."""
    import pandas as pd

    names = "abcdefghijklmnopq"[: len(trees)]
    frame = pd.DataFrame({**{n: [row[j] for row in keys] for j, n in enumerate(names)}, "secret": list(secret)})
    attributes = [
        Attribute(n, Role.KEY, Scale.UNORDERED, hierarchy=TreeHierarchy(tree))
        for n, tree in zip(names, trees, strict=True)
    ]
    places = {v: float(i) for i, v in enumerate(sorted(set(secret)))} if scale is Scale.ORDERED else {}
    return Microdata(frame, Schema((*attributes, Attribute("secret", Role.CONFIDENTIAL, scale, values=places))))


def random_tree(g: np.random.Generator, values: int, height: int) -> list[Row]:
    """Return a hierarchy of nested labels."""
    groups = list(range(values))
    rows = [[f"v{i}"] for i in range(values)]
    for level in range(1, height):
        merge = sorted(g.integers(0, max(len(set(groups)) // 2, 1), len(set(groups))).tolist())
        place = dict(zip(dict.fromkeys(groups), merge, strict=True))
        groups = [place[x] for x in groups]
        for row, x in zip(rows, groups, strict=True):
            row.append(f"L{level}-{x}")
    return [(*row, "*") for row in rows]


# --- Models.


def k_anonymous(k: int) -> Test:
    return lambda values, whole, n: len(values) >= k


def distinct(least: int) -> Test:
    return lambda values, whole, n: len(set(values)) >= least


def entropy(least: float) -> Test:
    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        shares = [c / len(values) for c in Counter(values).values()]
        return math.exp(-sum(p * math.log(p) for p in shares)) >= least * (1 - 1e-9)

    return test


def recursive(c: float, least: int) -> Test:
    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        counts = sorted(Counter(values).values(), reverse=True)
        return counts[0] < c * sum(counts[least - 1 :]) * (1 - 1e-9)

    return test


def close(t: float) -> Test:
    """All values equally far apart: half the sum of absolute differences."""

    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        own = Counter(values)
        return sum(abs(own[v] / len(values) - whole[v] / n) for v in whole) / 2 <= t + 1e-9

    return test


def close_in_order(t: float) -> Test:
    """Values in order: the sum of absolute cumulative differences over m - 1."""

    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        own, order = Counter(values), sorted(whole)
        steps = itertools.accumulate(own[v] / len(values) - whole[v] / n for v in order)
        return sum(abs(x) for x in steps) / max(len(order) - 1, 1) <= t + 1e-9

    return test


def likely(beta: float) -> Test:
    """Enhanced β-likeness: a gain of at most min(β, -ln p)."""

    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        own = Counter(values)
        return all(
            (own[v] / len(values)) / (whole[v] / n) - 1 <= min(beta, -math.log(whole[v] / n)) + 1e-9 for v in own
        )

    return test


def disclosing(delta: float) -> Test:
    def test(values: list[str], whole: Counter[str], n: int) -> bool:
        own = Counter(values)
        return all(
            own[v] and abs(math.log2((own[v] / len(values)) / (whole[v] / n))) < delta * (1 - 1e-9) for v in whole
        )

    return test


# --- Every node.


def every_node(trees: Sequence[list[Row]]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(len(tree[0])) for tree in trees))


def released(
    records: Records, trees: Sequence[list[Row]], node: Sequence[int], tests: Sequence[Test]
) -> tuple[float, int]:
    """Return granularity and suppressed records of one node: classes that break the first model that some break, again and again."""
    paths = [{row[0]: row for row in tree} for tree in trees]
    leaves = [Counter(label for row in tree for label in set(row)) for tree in trees]
    classes: dict[Row, list[str]] = defaultdict(list)
    for row, secret in records:
        classes[tuple(path[v][level] for path, v, level in zip(paths, row, node, strict=True))].append(secret)
    broken: set[Row] = {()}
    while broken:
        whole = Counter(v for values in classes.values() for v in values)
        n = sum(whole.values())
        failing = ({key for key, values in classes.items() if not test(values, whole, n)} for test in tests)
        broken = next(filter(None, failing), set())
        classes = {key: values for key, values in classes.items() if key not in broken}
    gain = 0.0
    for key, values in classes.items():
        losses = [
            (count[label] - 1) / max(len(tree) - 1, 1) for label, count, tree in zip(key, leaves, trees, strict=True)
        ]
        gain += len(values) * sum(1 - loss for loss in losses) / len(trees)
    kept = sum(len(values) for values in classes.values())
    return gain / len(records), len(records) - kept


def best(
    records: Records, trees: Sequence[list[Row]], tests: Sequence[Test], limits: Sequence[float]
) -> dict[float, float | None]:
    """Return the best granularity of any node at each suppression limit; None where no node is a release."""
    found: dict[float, float | None] = dict.fromkeys(limits)
    for node in every_node(trees):
        score, lost = released(records, trees, node, tests)
        for limit in limits:
            if lost <= limit * len(records) + 1e-9 and lost < len(records) and score > (found[limit] or -1.0):
                found[limit] = score
    return found


def best_by_counting(
    names: Sequence[str],
    k: int,
    limits: Sequence[float],
    holds: Callable[[NDArray[np.float64], float], Any] | None = None,
) -> dict[float, float]:
    """Return the best granularity of k-anonymous Adult at each limit, every node counted by sorting.

    `holds` gets the share of the rich in each class, and among all released records.
    """
    header, rows = adult_rows()
    trees = adult_trees(names)
    places = [header.index(n) for n in names]
    distinct_rows = Counter((*(row[i] for i in places), row[header.index(SALARY)] if holds else "") for row in rows)
    weight = np.array(list(distinct_rows.values()))
    rich = weight * np.array([row[-1] == ">50K" for row in distinct_rows])
    labels, gains = [], []
    for j, tree in enumerate(trees):
        at = {row[0]: i for i, row in enumerate(tree)}
        mine = np.array([at[row[j]] for row in distinct_rows])
        per = [
            np.unique([row[v] for row in tree], return_inverse=True, return_counts=True) for v in range(len(tree[0]))
        ]
        labels.append([inverse[mine] for _, inverse, _ in per])
        gains.append([(1 - (counts[inverse] - 1) / (len(tree) - 1))[mine] for _, inverse, counts in per])
    found = dict.fromkeys(limits, -1.0)
    for node in every_node(trees):
        key = np.zeros(len(weight), np.int64)
        for own, level in zip(labels, node, strict=True):
            key = key * (int(own[level].max()) + 1) + own[level]
        _, at = np.unique(key, return_inverse=True)
        sizes, shares = np.bincount(at, weight), np.bincount(at, rich) / np.bincount(at, weight)
        ok, before = sizes >= k, -1
        while holds is not None and ok.sum() not in (0, before):
            before = ok.sum()
            ok = ok & holds(shares, float(np.einsum("i,i", sizes, shares * ok) / sizes[ok].sum()))
        kept = ok[at]
        lost = int(weight[~kept].sum())
        score = (
            float((sum(g[v] for g, v in zip(gains, node, strict=True)) * weight * kept).sum()) / len(names) / len(rows)
        )
        for limit in limits:
            if lost <= limit * len(rows) + 1e-9:
                found[limit] = max(found[limit], score)
    return found
