"""Global disclosure risk of a masked file: minimal, maximal and weighted, over the subsets of keys (Truta et al. 2004)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from typing_extensions import override

from sfumato.attacks.attacker_file import RULES, missing_rule
from sfumato.contract import Need, Release, Snooper, param
from sfumato.contract.score import Score, digits
from sfumato.data import Kind, Microdata
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable, ParameterError, join_names, plural, refuse_unknown
from sfumato.lazy import pd
from sfumato.risk.classification import Crossed, EqualWeights, PowerWeights, UniqueWeights, WeightMatrix, crossed
from sfumato.risk.key_changes import KeyChange, WeakRule, key_change
from sfumato.risk.keys import RiskMeasure
from sfumato.schema import Scale, Schema
from sfumato.typing import Numbers

# A subset S of the keys has the value Π(1 - icf_k) · base(S): keys that were changed cost a factor each, and make classes smaller.

Subset = tuple[int, ...]
"""Numbers of the keys, in order."""


@dataclass
class KeySubsets:
    """The values of the subsets of p keys, each worked out once."""

    factors: Sequence[float]
    """icf of each key, from 0 to 1."""
    base: Callable[[Subset], float]
    """What a subset would be worth if no key had been changed."""
    ceiling: Callable[[Subset], float]
    """At least the base of this subset and of all its subsets."""
    growing: bool
    """Whether the base never falls when a key is added."""
    seen: dict[Subset, float] = field(default_factory=dict)
    bounds: dict[Subset, float] = field(default_factory=dict)

    def kept(self, subset: Subset) -> float:
        """Return Π(1 - icf_k) over the subset."""
        return math.prod(1 - self.factors[k] for k in subset)

    def value(self, subset: Subset) -> float:
        """Return what a subset is worth."""
        if subset not in self.seen:
            kept = self.kept(subset)
            self.seen[subset] = kept * self.base(subset) if kept > 0 else 0.0
        return self.seen[subset]

    def bound(self, chosen: Subset, open_: Subset) -> float:
        """Return at least the value of all subsets that have the chosen keys, and any of the open ones."""
        union = tuple(sorted(chosen + open_))
        if union not in self.bounds:
            self.bounds[union] = self.ceiling(union)
        return self.kept(chosen) * self.bounds[union]

    @property
    def useful(self) -> Subset:
        """Keys that were not changed throughout: with one that was, every subset is worth nothing."""
        return tuple(k for k, factor in enumerate(self.factors) if factor < 1)

    def all(self) -> list[Subset]:
        """Return every subset but the empty one."""
        keys = range(len(self.factors))
        return [subset for size in range(1, len(keys) + 1) for subset in itertools.combinations(keys, size)]


def greedy(subsets: KeySubsets) -> Subset:
    """Return a good subset: from all useful keys drop one as long as that helps; or from the best single key add one; the better.

    About p² values are worked out. What is found is the best among its neighbours, not always of all.
    """
    useful = subsets.useful
    if not useful:
        return ()
    down = _climb(subsets, useful, lambda s: [tuple(k for k in s if k != gone) for gone in s] if len(s) > 1 else [])
    best_one = max(((k,) for k in useful), key=subsets.value)
    up = _climb(subsets, best_one, lambda s: [tuple(sorted((*s, k))) for k in useful if k not in s])
    return max(down, up, key=subsets.value)


def _climb(subsets: KeySubsets, start: Subset, neighbours: Callable[[Subset], list[Subset]]) -> Subset:
    here = start
    while steps := neighbours(here):
        best = max(steps, key=subsets.value)
        if subsets.value(best) <= subsets.value(here):
            break
        here = best
    return here


def exact(subsets: KeySubsets) -> Subset:
    """Return a subset of the largest value, by branch and bound; () if all are worth nothing.

    A key with factor 1 is never used. One with factor 0 is always used, but only if the base grows with every key; the paper
    says "for any weights", which is wrong for weights that depend on more than the larger class.
    """
    useful = subsets.useful
    fixed = tuple(k for k in useful if subsets.growing and subsets.factors[k] == 0)
    # keys that cost most are decided first: leaving them in or out changes the bound most
    rest = tuple(sorted((k for k in useful if k not in fixed), key=lambda k: -subsets.factors[k]))
    best = greedy(subsets)

    def explore(chosen: Subset, open_: Subset) -> None:
        nonlocal best
        if not chosen and not open_:
            return
        if subsets.bound(chosen, open_) <= (subsets.value(best) if best else 0.0):
            return
        if not open_:
            if subsets.value(tuple(sorted(chosen))) > (subsets.value(best) if best else 0.0):
                best = tuple(sorted(chosen))
            return
        explore((*chosen, open_[0]), open_[1:])
        explore(chosen, open_[1:])

    explore(fixed, rest)
    return best if best and subsets.value(best) > 0 else ()


def at_most(subsets: KeySubsets) -> float:
    """Return a bound on the value of every subset that needs no search: each uses some key, and pays for it."""
    useful = subsets.useful
    return max((subsets.bound((k,), tuple(o for o in useful if o != k)) for k in useful), default=0.0)


RiskKind = Literal["min", "max", "weighted"]
_IN_ORDER = (Kind.NUMBER, Kind.BOOLEAN, Kind.DATE)
_MOST_LISTED = 16


class GlobalRisk(RiskMeasure):
    """The share of the original records that a snooper who knows every key is expected to find in the release.

    DR = max over the subsets v of the keys of Π(1 - icf_k) · Σ w_ij c_ij / max(i, j) / (n w_11): a record in a class of i
    released and j original records is found with probability 1 / max(i, j); a key that was changed misleads him by its
    inversion-change factor icf, so he may do better without it. The minimal risk counts records that are unique in both files,
    the maximal all of them, the weighted as much as a weight matrix says (global-risk paper, (3.6) to (3.11)).
    Source: Truta, Fotouhi and Barth-Jones 2004.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({Need.ALIGNMENT})

    kind: RiskKind = param(
        default="max", doc="which records count: those unique in both files, all, or by a weight matrix"
    )
    weights: WeightMatrix | None = param(
        default=None, doc="weight matrix of kind 'weighted'; PowerWeights() if none is given"
    )
    search: Literal["exact", "greedy"] = param(
        default="exact", doc="how the best subset of the keys is found; greedy may miss it"
    )
    weak_changes: Mapping[str, WeakRule] = param(
        default={}, doc="what a weak change of a partially ordered key counts, by key; by its hierarchy if not given"
    )
    missing: Missing = missing_rule()

    @override
    def validate(self) -> None:
        if self.weights is not None and self.kind != "weighted":
            raise ParameterError(f"weights of global_risk are for kind = 'weighted'; this one is '{self.kind}'.")
        if self.weights is not None and not isinstance(self.weights, WeightMatrix):
            raise ParameterError(
                "weights of global_risk must be a weight matrix, such as PowerWeights(1) or GivenWeights([...])."
            )
        if not isinstance(self.weak_changes, Mapping):
            raise ParameterError(
                "weak_changes of global_risk must be a rule for each key, such as {'zip': [0.1, 0.3, 0.6, 0.9]}."
            )

    @property
    def matrix(self) -> WeightMatrix:
        """The weight matrix: that of the minimal and of the maximal risk is known."""
        if self.kind == "weighted":
            return self.weights or PowerWeights()
        return UniqueWeights() if self.kind == "min" else EqualWeights()

    @override
    def label(self) -> str:
        return {"min": "minimal", "max": "maximal", "weighted": "weighted"}[self.kind] + " global risk"

    @override
    @property
    def variant(self) -> str:
        parts = [self.matrix.name.replace("_", " ")] if self.kind == "weighted" else []
        return ", ".join([*parts, *(["greedy search"] if self.search == "greedy" else []), RULES[self.missing]])

    @override
    def words(self, value: float, schema: Schema) -> str:
        return f"{100 * value:.3g} % of the records are expected to be found{self._which()}"

    def _which(self) -> str:
        return {
            "min": ", counting those unique in both files alone",
            "max": "",
            "weighted": ", counted by their weights",
        }[self.kind]

    def assess(self, outcome: Release, snooper: Snooper) -> Score:
        """Find the subset of the keys that serves the snooper best, and what he finds with it."""
        found, changes, subsets, best = self._searched(outcome, snooper)
        value = subsets.value(best) if best else 0.0
        details = {f"change of {change.name}": change.factor for change in changes}
        if self.search == "exact":
            quick = greedy(subsets)
            details["greedy search finds"] = subsets.value(quick) if quick else 0.0
            details["gap of the greedy search"] = value - details["greedy search finds"]
        else:
            details["at most"] = at_most(subsets)
        details["keys used"] = float(len(best))
        details["subsets looked at"] = float(len(subsets.seen))
        details["expected records"] = value * found.originals
        used = tuple(found.names[k] for k in best)
        return self.result(
            value,
            self._say(value * found.originals, found, used, changes),
            details=details,
            find_records=lambda: self._records(outcome, found, used, subsets.kept(best)),
        )

    def _searched(
        self, outcome: Release, snooper: Snooper
    ) -> tuple[Crossed, tuple[KeyChange, ...], KeySubsets, Subset]:
        found = crossed(outcome, snooper, self.missing)
        changes = key_changes(outcome, found, self.weak_changes)
        subsets = key_subsets(found, changes, self.matrix)
        return found, changes, subsets, exact(subsets) if self.search == "exact" else greedy(subsets)

    def best_keys(self, outcome: Release, snooper: Snooper | None = None) -> tuple[str, ...]:
        """Return the keys by which a snooper finds most, one such set if there are several; none if no key is of use."""
        self.check(outcome, snooper)
        found, _, _, best = self._searched(outcome, snooper or Snooper())
        return tuple(found.names[k] for k in best)

    def _say(self, expected: float, found: Crossed, used: tuple[str, ...], changes: tuple[KeyChange, ...]) -> str:
        recoded = [change.name for change in changes if change.foreign]
        hint = ""
        if recoded:
            hint = f"; no released value of {join_names(recoded)} is an original one: if it was recoded, give it a hierarchy"
        if not used:
            return self._nobody(found, changes) + hint
        left = [name for name in found.names if name not in used]
        without = f"; a snooper does best without {join_names(left)}" if left else ""
        shown = digits(expected, 4)
        share = f"{shown} of {plural(found.originals)} {'is' if shown == '1' else 'are'}"
        return f"{share} expected to be found by {join_names(used)}{self._which()}{without}{hint}"

    def _nobody(self, found: Crossed, changes: tuple[KeyChange, ...]) -> str:
        """Say why no record is expected to be found."""
        nobody = "no record is expected to be found"
        if not found.counts.sum():
            return f"none of the original records was released: {nobody}"
        if all(change.factor >= 1 for change in changes):
            return f"every key was changed so much that none is of use: {nobody}"
        why = {"min": "no record is unique in both files by keys that are of use", "max": ""}
        return f"{why.get(self.kind) or 'every record is in classes whose weight is zero'}: {nobody}"

    def _records(self, outcome: Release, found: Crossed, used: tuple[str, ...], kept: float) -> Numbers:
        """Return the share that each original record contributes, NaN for one that was not released; shape (n,)."""
        one = np.ones(1, np.int64)
        each = np.zeros(len(found.counts))
        if used:
            i, j = found.sizes(used)
            each = kept * self.matrix.at(i, j) / np.maximum(i, j) / self.matrix.at(one, one)
        return outcome.per_original(found.per_matched(outcome, each))


def key_changes(outcome: Release, found: Crossed, rules: Mapping[str, WeakRule]) -> tuple[KeyChange, ...]:
    """Return how much each key was changed."""
    original, masked = outcome.original, outcome.masked
    for name in rules:
        refuse_unknown("key", found.names, "the snooper's keys, which weak_changes is about", name, error=NotApplicable)
        if original.schema[name].scale is not Scale.PARTIALLY_ORDERED:
            raise NotApplicable(
                f"weak_changes has a rule for '{name}', which is {original.schema[name].scale.value}: only values of a partially "
                "ordered key change weakly or strongly."
            )
    return tuple(
        key_change(
            found.pairs(name),
            original.schema[name],
            masked.schema[name],
            (_in_order(original, name), _in_order(masked, name)),
            rules.get(name),
        )
        for name in found.names
    )


def _in_order(data: Microdata, name: str) -> bool:
    """Whether the codes of a column follow the order of its values."""
    return data.kind(name) in _IN_ORDER


def key_subsets(found: Crossed, changes: tuple[KeyChange, ...], matrix: WeightMatrix) -> KeySubsets:
    """Return what each subset of the keys is worth to a snooper under a weight matrix."""
    n, t = found.originals, found.released
    matrix.check(t, n)
    top = n * float(matrix.at(np.ones(1, np.int64), np.ones(1, np.int64))[0])

    def names(subset: Subset) -> tuple[str, ...]:
        return tuple(found.names[k] for k in subset)

    def base(subset: Subset) -> float:
        c = found.matrix(names(subset))
        return float((matrix.at(c.released, c.original) * c.counts / c.larger).sum()) / top

    def ceiling(subset: Subset) -> float:
        c = found.matrix(names(subset))
        return float((matrix.most(c.released, c.original, t, n) * c.counts).sum()) / top

    return KeySubsets([change.factor for change in changes], base, ceiling, matrix.by_larger)


def subset_risks(
    outcome: Release,
    snooper: Snooper | None = None,
    weights: WeightMatrix | None = None,
    missing: Missing = "wildcard",
    weak_changes: Mapping[str, WeakRule] | None = None,
) -> pd.DataFrame:
    """Return DR_min, DR_max and DR_W for every subset of the keys, largest first (global-risk paper, (3.6) to (3.8)).

    `kept` is Π(1 - icf_k). Without `weights`, DR_W is that of PowerWeights(). `missing` and `weak_changes` are as in GlobalRisk.
    """
    outcome.check_aligned("the risk of each subset of the keys")
    found = crossed(outcome, snooper or Snooper(), missing)
    if len(found.names) > _MOST_LISTED:
        raise NotApplicable(
            f"{len(found.names)} keys have {2 ** len(found.names) - 1:,} subsets, too many to list. "
            f"Name at most {_MOST_LISTED} keys, or score GlobalRisk(), which finds the best one."
        )
    changes = key_changes(outcome, found, weak_changes or {})
    kinds = {"DR_min": UniqueWeights(), "DR_max": EqualWeights(), "DR_W": weights or PowerWeights()}
    parts = {column: key_subsets(found, changes, matrix) for column, matrix in kinds.items()}
    rows = [
        {
            "keys": ", ".join(found.names[k] for k in subset),
            "kept": parts["DR_max"].kept(subset),
            **{column: part.value(subset) for column, part in parts.items()},
        }
        for subset in parts["DR_max"].all()
    ]
    return pd.DataFrame(rows).sort_values("DR_max", ascending=False, kind="stable", ignore_index=True)
