"""Record linkage by distance, by probabilities and by ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from sfumato import kernels
from sfumato.attacks.attacker_file import LinkageFiles, LinkageKey, key_names, link_column, linkage_keys, missing_rule
from sfumato.contract import Attack, Draws, Guesses, Parametric, Release, Snooper, param
from sfumato.data.classes import Missing
from sfumato.errors import NotApplicable, ParameterError, SchemaError, join_names
from sfumato.kernels.classes import classes, number_codes
from sfumato.kernels.neighbours import GAP, Metric, distances, nearest_by_class
from sfumato.lazy import special
from sfumato.schema import Hierarchy, Schema
from sfumato.typing import Numbers, Whole


def link(
    known: LinkageFiles, keys: tuple[LinkageKey, ...], metric: Metric, reach: tuple[Numbers, Numbers] | None = None
) -> tuple[Guesses, Numbers, Numbers]:
    """Link every target to the nearest released record; return the guesses, the distance of each link, and the ties, (m,).

    The snooper is surest of the shortest links, of equally short ones where he sees the fewest ties. Records that tie share the
    probability of being right; a target that has no record within reach is not linked (guess -1), and neither that nor the link
    of a person who was not released can be right. Records and targets that are the same are looked for once.
    """
    rows, targets = (_matrix([getattr(k, side) for k in keys]) for side in ("released", "known"))
    own, count = known.own, len(rows)
    place, first_row, sizes = _distinct(rows)
    wanted, first_target, _ = _distinct(targets if reach is None else np.hstack([targets, *reach]))
    hint = own[first_target]
    hint = np.where(hint < 0, -1, place[hint]) if count else hint
    near = None if reach is None else (reach[0][first_target], reach[1][first_target])
    found = nearest_by_class(rows[first_row], targets[first_target], metric, sizes.astype(np.float64), hint, near)
    distance, ties, nearest = found.distance[wanted], found.ties[wanted], found.row[wanted]
    guess = np.where(nearest < 0, -1, known.released[first_row[nearest]]) if count else nearest
    right = np.zeros(len(targets))
    inside = np.flatnonzero(own >= 0)
    part = None if reach is None else (reach[0][inside], reach[1][inside])
    true = distances(rows[own[inside]], targets[inside], metric, part)
    hit = np.isfinite(true) & (true == distance[inside])
    right[inside[hit]] = 1 / ties[inside[hit]]
    chance = np.where(own >= 0, 1 / max(count, 1), 0.0)
    return Guesses(known.targets, guess, known.targets, right, chance, -_order(distance, ties)), distance, ties


def _order(distance: Numbers, ties: Numbers) -> Numbers:
    """Return the places of the links by distance, then by ties; equal ones have one place."""
    order = np.lexsort([ties, distance])
    changes = (distance[order][1:] != distance[order][:-1]) | (ties[order][1:] != ties[order][:-1])
    place = np.zeros(len(order))
    place[order[1:]] = np.cumsum(changes)
    return place


def _matrix(columns: list[Numbers]) -> Numbers:
    matrix = np.column_stack(columns)
    matrix[np.isnan(matrix)] = GAP
    return matrix


def _distinct(matrix: Numbers) -> tuple[Whole, Whole, Whole]:
    """Return which distinct row each row is, one row number for each distinct one, and how often it occurs."""
    labels, sizes = classes([number_codes(column) for column in matrix.T], len(matrix))
    first = np.empty(len(sizes), np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    return labels, first, sizes


# --- Distance-based record linkage: each target is taken for the released record that is nearest (Pagliuca and Seri 1999).

Unit = Literal["sd", "range", "robust"]


class Nearness(Parametric, abstract=True):
    """How near two records are: shared by the attack and the measure that scores it."""

    unit: Unit = param(
        default="sd",
        doc="in what numbers are compared, of the released column: standard deviations, its range, or the robust "
        "standard deviation (from the median absolute deviation)",
    )
    categories: Literal["equal", "hierarchy"] = param(
        default="equal",
        doc="what categories add if they differ: 1, or where a key has a hierarchy the share of its levels on which they do",
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
        known = linkage_keys(outcome, snooper, draws, self.missing, self.link)
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


def _by_level(keys: tuple[LinkageKey, ...], schema: Schema) -> tuple[tuple[LinkageKey, ...], Numbers]:
    """Return keys that have a hierarchy as one key for each of its levels below the root, and what each key costs, (k,)."""
    out: list[tuple[LinkageKey, float]] = []
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
            out.append((LinkageKey(key.name, False, known, released), 1 / hierarchy.height))
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


def _per_unit(key: LinkageKey, unit: Unit) -> float:
    """Return one over the unit of a key; 0 where the released column does not vary, and so tells nobody apart."""
    known = key.released[~np.isnan(key.released)]
    if not key.ordered or not len(known) or known.min() == known.max():
        return 0.0
    scale = int(np.frexp(np.abs(known).max())[1])
    known = np.ldexp(known, -scale)  # exact; squares of huge numbers would not be finite
    size = float(np.ptp(known)) if unit == "range" else 0.0
    if unit == "robust":
        size = kernels.moments.MAD * float(np.median(np.abs(known - np.median(known))))
    size = size or float(known.std())  # more than half of the records may have one value
    if size == 0:
        return 0.0
    with np.errstate(over="ignore"):
        return min(float(np.ldexp(1 / size, -scale)), float(np.finfo(float).max))


def apart(key: LinkageKey, per_unit: float) -> float:
    """Return the mean of what a key adds to the squared distance of two random released records."""
    known = key.released[~np.isnan(key.released)]
    if not len(known):
        return 0.0
    if key.ordered:
        mean = float(2 * (known * per_unit).var())
        return 2.0 if abs(mean - 2) < 1e-12 else mean  # 2 for every key in standard deviations: so they tie
    return 1 - float(((np.unique(known, return_counts=True)[1] / len(known)) ** 2).sum())


# --- Probabilistic record linkage: agreement on a key weighs more the rarer it is by chance (Fellegi and Sunter 1969).

MOST_PAIRS = 20_000_000
"""So many pairs at most are looked at to learn the weights, where classes cannot be joined."""
MOST_KEYS = 14
JOINED_KEYS = 10
"""With at most this many keys classes are joined: there are 2^k joins."""


class Weighing(Parametric, abstract=True):
    """How pairs of records are weighed: shared by the attack and the measure that scores it."""

    tolerance: float | Mapping[str, float] = param(
        default=0.1,
        doc="numbers agree if they differ by at most this many standard deviations of the released column",
        low=0,
        per_column=True,
    )
    weights: Literal["learnt", "true"] = param(
        default="learnt",
        doc="weights learnt from the files alone, or the true ones, of a snooper who knows what the mask does",
    )
    block: tuple[str, ...] = param(
        default=(), doc="keys on which a pair must agree to be considered at all", columns="many", holds="categories"
    )
    missing: Missing = missing_rule()
    link: str | None = link_column()


class LinkByWeight(Attack, Weighing):
    """The snooper takes each target for the released record with the greatest match weight, or one of them.

    The weight of a pair adds up over the keys: log(m/u) where they agree, log((1-m)/(1-u)) where they do not, where m and u
    are the probabilities of agreement of a person's two records and of two other records. He estimates both from the pairs
    themselves (EM): he knows no match, only that each target has one record there. Or he knows m (`weights="true"`).
    `Guesses.sure` is the posterior probability that the pair is a match, and at most 1/t where t records tie.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Learn the weights, then link every target."""
        names = key_names(outcome, snooper)
        self._check(names)
        known = linkage_keys(outcome, snooper, draws, self.missing, self.link, names)
        keys = tuple(k for k in known.keys if k.name not in self.block)
        blocks = tuple(k for k in known.keys if k.name in self.block)
        limits = np.array([self._limit(key) for key in keys])
        model = self._model(known, keys, blocks, limits, draws)
        agree, differ = model.agreement, model.disagreement
        wild = self.missing == "wildcard"
        # what is missed of the greatest weight: the nearest record has the greatest. Keys that say most stand first, so that
        # a sum is soon too large to go on with
        cost = agree - differ
        order, none = np.argsort(-cost, kind="stable"), np.zeros(len(blocks))
        columns = (limits, cost, agree if wild else cost, agree if wild else np.zeros(len(keys)))
        limit, step, one_gap, two_gaps = (np.concatenate([none, column[order]]) for column in columns)
        metric = Metric(np.zeros(len(limit)), limit, step, one_gap, two_gaps)
        looked_at = (*map(_with_gaps, blocks), *(keys[i] for i in order))
        guesses, missed, ties = link(known, looked_at, metric, _same_block(known, len(keys), blocks))
        return _sure(guesses, agree.sum() - missed, ties, model.share)

    def _check(self, names: tuple[str, ...]) -> None:
        for name in self.block:
            if name not in names:
                raise NotApplicable(
                    f"block names '{name}', which the snooper does not know: his keys are {join_names(names)}."
                )
        rest = [n for n in names if n not in self.block]
        if not rest:
            raise NotApplicable("every key is in block, so there is none left to weigh. Leave one out of block.")
        if len(rest) > MOST_KEYS:
            raise NotApplicable(
                f"probabilistic linkage weighs at most {MOST_KEYS} keys, and there are {len(rest)}. "
                "Name fewer with Snooper(keys=...), or move some to block."
            )
        if isinstance(self.tolerance, Mapping) and (extra := [n for n in self.tolerance if n not in rest]):
            raise ParameterError(
                f"tolerance names {join_names(extra)}, but the keys that are weighed are {join_names(rest)}."
            )

    def _limit(self, key: LinkageKey) -> float:
        """Return how far apart two values of a key may be and still agree, in the key's own units."""
        known = key.released[~np.isnan(key.released)]
        share = self.tolerance.get(key.name, 0.0) if isinstance(self.tolerance, Mapping) else self.tolerance
        if not key.ordered or not share or not len(known):
            return 0.0
        largest = float(np.abs(known).max()) or 1.0
        return share * largest * float((known / largest).std())

    def _model(
        self,
        known: LinkageFiles,
        keys: tuple[LinkageKey, ...],
        blocks: tuple[LinkageKey, ...],
        limits: Numbers,
        draws: Draws,
    ) -> kernels.agreement.AgreementModel:
        """Return the model of the pairs."""
        m, t = len(known.targets), len(known.released)
        both = [kernels.classes.number_codes(np.concatenate([k.known, k.released])) for k in blocks]
        labels, _ = kernels.classes.classes(both, m + t)
        here, there = labels[:m], labels[m:]
        a, b = (np.column_stack([getattr(k.fill(GAP), side) for k in keys]) for side in ("known", "released"))
        wild = self.missing == "wildcard"
        some = np.arange(m)
        if (limits == 0).all() and len(keys) <= JOINED_KEYS:
            codes = np.column_stack([kernels.classes.number_codes(np.concatenate([k.known, k.released])) for k in keys])
            codes = codes if wild else codes + 1  # missing is a value like any other
            patterns, counts = kernels.agreement.exact_patterns(codes[:m], codes[m:], (here, there))
        else:
            some = _sample(here, there, draws)  # each with all its candidates, so matches are as frequent as among all
            patterns, counts = kernels.agreement.near_patterns(a[some], b, limits, (here[some], there), wild)
        if not counts.sum():
            return kernels.agreement.AgreementModel(np.full(len(keys), 0.5), np.full(len(keys), 0.5), 0.0)
        if self.weights == "true":
            own = known.own[some]
            some, own = some[own >= 0], own[own >= 0]
            met = here[some] == there[own]
            return kernels.agreement.true_model(a[some[met]], b[own[met]], limits, patterns, counts, wild)
        # each target has one record there, for all he knows, unless there are too few
        return kernels.agreement.fit(patterns, counts, len(some) * min(1.0, t / m))


def _sample(here: Whole, there: Whole, draws: Draws) -> Whole:
    """Return targets, in random order but all if that is not too much, whose candidates are not too many together."""
    candidates = np.bincount(there, minlength=int(here.max(initial=0)) + 1)[here]
    if candidates.sum() <= MOST_PAIRS:
        return np.arange(len(here))
    order = draws.generator("pairs").permutation(len(here))
    return np.sort(order[np.cumsum(candidates[order]) <= MOST_PAIRS])


def _with_gaps(key: LinkageKey) -> LinkageKey:
    """Return a blocking key in which missing is a value: the records without one are a block."""
    return key.fill(min(np.nanmin(np.append(side, 0.0)) for side in (key.known, key.released)) - 1)


def _same_block(known: LinkageFiles, free: int, blocks: tuple[LinkageKey, ...]) -> tuple[Numbers, Numbers] | None:
    """Return the range of each key that a target's candidates lie in: any, but for blocking keys the target's own."""
    if not blocks:
        return None
    own = np.column_stack([_with_gaps(key).known for key in blocks])
    anything = np.full((len(known.targets), free), np.inf)
    return np.hstack([own, -anything]), np.hstack([own, anything])


def _sure(guesses: Guesses, weight: Numbers, ties: Numbers, share: float) -> Guesses:
    """Return guesses with the posterior probability of a match of that weight: no more than 1/t, where t records tie."""
    if share <= 0:
        return guesses
    return replace(
        guesses, sure=np.minimum(special.expit(weight + np.log(share / (1 - share))), 1 / np.maximum(ties, 1))
    )


# --- Rank-based record linkage: what a mask did to the values matters less than where they stand among the others.


class Ranking(Parametric, abstract=True):
    """How records are compared by rank: shared by the attack and the measure that scores it."""

    window: float | Mapping[str, float] | None = param(
        default=None,
        doc="largest difference in rank, as a share of the records, if the snooper was told it (rank swapping's p)",
        low=0,
        high=1,
        per_column=True,
    )
    missing: Missing = missing_rule()
    link: str | None = link_column()


class LinkByRank(Attack, Ranking):
    """The snooper takes each target for the released record whose ranks are nearest.

    Without a window, each file is ranked by itself: a mask that keeps the order of a column does not protect it at all. With
    one, he looks only at records within the window of every key around where the target's value stands in the release (Nin,
    Herranz and Torra 2008: if a rank swap with that limit was all, the target's own record is among them), and takes the
    nearest of these; where there is none, he links nobody. Unordered categories have no ranks: they add 1 if they differ.
    """

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Link every target."""
        known = linkage_keys(outcome, snooper, draws, self.missing, self.link)
        self._check(known.keys)
        ranked, counts, low, high = zip(*(_ranked(key, self._window(key)) for key in known.keys), strict=True)
        ordered = np.array([key.ordered for key in ranked])
        # in places, not in shares: whole numbers, so that equal distances are equal to the last digit
        units = np.array([len(known.released) / count if count else 0.0 for count in counts])
        category = (2.0 * len(known.released)) ** 2
        gaps = np.array([apart(key, unit) for key, unit in zip(ranked, units, strict=True)])
        gaps = np.zeros(len(gaps)) if self.missing == "wildcard" else np.where(ordered, gaps, gaps * category)
        nothing = np.zeros(len(ranked))
        metric = Metric(units, np.where(ordered, -1.0, 0.0), nothing + category, gaps, nothing)
        reach = None if self.window is None else (np.column_stack(low), np.column_stack(high))
        return link(known, ranked, metric, reach)[0]

    def _check(self, keys: tuple[LinkageKey, ...]) -> None:
        names = [key.name for key in keys if key.ordered]
        if not names:
            raise NotApplicable("none of the snooper's keys is in order, so there are no ranks. Use distance linkage.")
        if isinstance(self.window, Mapping) and (extra := [n for n in self.window if n not in names]):
            raise ParameterError(
                f"window names {join_names(extra)}, but the keys that have ranks are {join_names(names)}."
            )

    def _window(self, key: LinkageKey) -> float | None:
        return self.window.get(key.name) if isinstance(self.window, Mapping) else self.window


def _ranked(key: LinkageKey, window: float | None) -> tuple[LinkageKey, int, Numbers, Numbers]:
    """Return a key as places among the records, the number of these, and the range that the window allows.

    A place is twice the number of records below plus those equal, so that no rounding comes between equal distances.
    """
    everywhere = np.full(len(key.known), np.inf)
    released = np.sort(key.released[~np.isnan(key.released)])
    count = len(released)
    if not key.ordered or not count:
        return key, 0, -everywhere, everywhere
    if window is None:
        own = np.sort(key.known[~np.isnan(key.known)])
        known = _places(key.known, own) * (count / max(len(own), 1))
        places = LinkageKey(key.name, True, known, _places(key.released, released))
        return places, count, -everywhere, everywhere
    steps = int(np.floor(window * count + 1e-9))  # 0.29 of 100 is 29, whatever the floats say
    places = LinkageKey(key.name, True, _places(key.known, released), _places(key.released, released))
    below, upto = (np.searchsorted(released, key.known, side) for side in ("left", "right"))
    low, high = (_places(released[np.clip(at, 0, count - 1)], released) for at in (below - steps, upto - 1 + steps))
    low, high = np.where(below - steps < count, low, np.inf), np.where(upto - 1 + steps >= 0, high, -np.inf)
    unknown = np.isnan(key.known)
    return places, count, np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)


def _places(values: Numbers, among: Numbers) -> Numbers:
    """Return where values stand among sorted ones: the number below plus the number not above; NaN where missing."""
    place = np.searchsorted(among, values, "left") + np.searchsorted(among, values, "right")
    return np.where(np.isnan(values), np.nan, place.astype(np.float64))
