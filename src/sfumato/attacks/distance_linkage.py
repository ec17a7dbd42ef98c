"""Distance-based record linkage: each target is taken for the released record that is nearest (Pagliuca and Seri 1999)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.keys import missing_rule
from sfumato.attacks.known import Key, known_keys, link_column
from sfumato.classes import Missing
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable, SchemaError
from sfumato.schema import Hierarchy, Schema

Numbers = NDArray[np.float64]
Unit = Literal["sd", "range", "robust"]


class Nearness(Parametric, abstract=True):
    """How near two records are: shared by the attack and the measure that scores it."""

    unit: Unit = param(
        default="sd",
        doc="in what numbers are compared, of the released column: standard deviations, its range, or the robust "
        "standard deviation (from the median absolute deviation)",
        choices=("sd", "range", "robust"),
    )
    categories: Literal["equal", "hierarchy"] = param(
        default="equal",
        doc="what categories add if they differ: 1, or where a key has a hierarchy the share of its levels on which they do",
        choices=("equal", "hierarchy"),
    )
    missing: Missing = missing_rule()
    link: str | None = link_column()


class LinkByDistance(Attack, Nearness):
    """The snooper takes each target for the nearest released record, or one of the nearest.

    The squared distance adds up over the keys: of numbers the squared difference, in units of the released column; of
    categories 1 if they differ, or the share of the levels of their hierarchy on which they do. A missing key adds nothing
    ("wildcard"), or as much as two random records differ on average, unless it is missing in both ("value"). The search is
    exact.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Link every target."""
        from sfumato.attacks.linking import link
        from sfumato.kernels.nearest_rows import Metric

        known = known_keys(outcome, snooper, draws, self.missing, self.link)
        keys, cost = known.keys, np.ones(len(known.keys))
        if self.categories == "hierarchy":
            keys, cost = _by_level(keys, outcome.original.schema)
        units = np.array([_per_unit(key, self.unit) for key in keys])
        ordered = np.array([key.ordered for key in keys])
        gaps = np.array([apart(key, unit) for key, unit in zip(keys, units, strict=True)]) * cost
        if self.missing == "wildcard":
            gaps = np.zeros(len(gaps))
        metric = Metric(units, np.where(ordered, -1.0, 0.0), cost, gaps, np.zeros(len(units)))
        return link(known, keys, metric)[0]


def _by_level(keys: tuple[Key, ...], schema: Schema) -> tuple[tuple[Key, ...], Numbers]:
    """Return keys that have a hierarchy as one key for each of its levels below the root, and what each key costs, (k,)."""
    out: list[tuple[Key, float]] = []
    for key in keys:
        hierarchy = None if key.ordered else schema[key.name].hierarchy
        if hierarchy is None:
            out.append((key, 1.0))
            continue
        paths = [_levels(hierarchy, value) for value in key.values]
        for labels in zip(*paths, strict=True):
            numbering = {label: float(i) for i, label in enumerate(dict.fromkeys(labels))}
            table = np.array([*(numbering[label] for label in labels), np.nan])
            known, released = (table[np.where(np.isnan(s), -1, s).astype(np.int64)] for s in (key.known, key.released))
            out.append((Key(key.name, False, known, released), 1 / hierarchy.height))
    if len(out) == len(keys) and all(cost == 1 for _, cost in out):
        raise NotApplicable(
            "none of the snooper's keys that are categories has a hierarchy of several levels. Give it one in the schema, or "
            "say categories='equal'."
        )
    return tuple(key for key, _ in out), np.array([cost for _, cost in out])


def _levels(hierarchy: Hierarchy, value: object) -> tuple[str, ...]:
    """Return the label of a value on each level below the root; one that is not there is like no other on any level."""
    try:
        path = hierarchy.path(value)
    except SchemaError:
        return (f"outside: {value}",) * hierarchy.height
    return (path[0],) * (hierarchy.height + 1 - len(path)) + path[:-1]


def _per_unit(key: Key, unit: Unit) -> float:
    """Return one over the unit of a key; 0 where the released column does not vary, and so tells nobody apart."""
    from sfumato.kernels.robust import MAD

    known = key.released[~np.isnan(key.released)]
    if not key.ordered or not len(known) or known.min() == known.max():
        return 0.0
    scale = int(np.frexp(np.abs(known).max())[1])
    known = np.ldexp(known, -scale)  # exact; squares of huge numbers would not be finite
    size = float(np.ptp(known)) if unit == "range" else 0.0
    if unit == "robust":
        size = MAD * float(np.median(np.abs(known - np.median(known))))
    size = size or float(known.std())  # more than half of the records may have one value
    if size == 0:
        return 0.0
    with np.errstate(over="ignore"):
        return min(float(np.ldexp(1 / size, -scale)), float(np.finfo(float).max))


def apart(key: Key, per_unit: float) -> float:
    """Return the mean of what a key adds to the squared distance of two random released records."""
    known = key.released[~np.isnan(key.released)]
    if not len(known):
        return 0.0
    if key.ordered:
        mean = float(2 * (known * per_unit).var())
        return 2.0 if abs(mean - 2) < 1e-12 else mean  # 2 for every key in standard deviations: so they tie
    return 1 - float(((np.unique(known, return_counts=True)[1] / len(known)) ** 2).sum())
