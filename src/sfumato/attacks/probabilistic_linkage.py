"""Probabilistic record linkage: agreement on a key weighs more the rarer it is by chance (Fellegi and Sunter 1969)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.attacks.keys import key_names, missing_rule
from sfumato.attacks.known import Key, Known, known_keys, link_column
from sfumato.classes import Missing
from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable, ParameterError, listing

if TYPE_CHECKING:
    from sfumato.kernels.agreement import Model

Numbers = NDArray[np.float64]

MOST_PAIRS = 20_000_000
"""So many pairs at most are looked at to learn the weights, where classes cannot be joined."""
MOST_KEYS = 14
JOINED_KEYS = 10
"""Up to so many keys classes are joined: there are 2^k joins."""


class Weighing(Parametric, abstract=True):
    """How pairs of records are weighed: shared by the attack and the measure that scores it."""

    tolerance: float | Mapping[str, float] = param(
        default=0.1,
        doc="numbers agree if they differ by at most so many standard deviations of the released column",
        low=0,
        per_column=True,
    )
    weights: Literal["learnt", "true"] = param(
        default="learnt",
        doc="weights learnt from the files alone, or the true ones, of a snooper who knows what the mask does",
        choices=("learnt", "true"),
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
        from sfumato.attacks.linking import link
        from sfumato.kernels.nearest_rows import Metric

        names = key_names(outcome, snooper)
        self._check(names)
        known = known_keys(outcome, snooper, draws, self.missing, self.link, names)
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
                    f"block names '{name}', which the snooper does not know: his keys are {listing(names)}."
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
                f"tolerance names {listing(extra)}, but the keys that are weighed are {listing(rest)}."
            )

    def _limit(self, key: Key) -> float:
        """Return how far apart two values of a key may be and still agree, in the key's own units."""
        known = key.released[~np.isnan(key.released)]
        share = self.tolerance.get(key.name, 0.0) if isinstance(self.tolerance, Mapping) else self.tolerance
        if not key.ordered or not share or not len(known):
            return 0.0
        largest = float(np.abs(known).max()) or 1.0
        return share * largest * float((known / largest).std())

    def _model(
        self, known: Known, keys: tuple[Key, ...], blocks: tuple[Key, ...], limits: Numbers, draws: Draws
    ) -> Model:
        """Return the model of the pairs."""
        from sfumato.kernels.agreement import Model, exact_patterns, fit, near_patterns, true_model
        from sfumato.kernels.classes import classes, number_codes

        m, t = len(known.targets), len(known.released)
        both = [number_codes(np.concatenate([k.known, k.released])) for k in blocks]
        labels, _ = classes(both, m + t)
        here, there = labels[:m], labels[m:]
        a, b = (np.column_stack([getattr(_as_gap(k), side) for k in keys]) for side in ("known", "released"))
        wild = self.missing == "wildcard"
        some = np.arange(m)
        if (limits == 0).all() and len(keys) <= JOINED_KEYS:
            codes = np.column_stack([number_codes(np.concatenate([k.known, k.released])) for k in keys])
            codes = codes if wild else codes + 1  # missing is a value like any other
            patterns, counts = exact_patterns(codes[:m], codes[m:], (here, there))
        else:
            some = _sample(here, there, draws)  # each with all its candidates, so matches are as frequent as among all
            patterns, counts = near_patterns(a[some], b, limits, (here[some], there), wild)
        if not counts.sum():
            return Model(np.full(len(keys), 0.5), np.full(len(keys), 0.5), 0.0)
        if self.weights == "true":
            own = known.own[some]
            some, own = some[own >= 0], own[own >= 0]
            met = here[some] == there[own]
            return true_model(a[some[met]], b[own[met]], limits, patterns, counts, wild)
        # each target has one record there, for all he knows, unless there are too few
        return fit(patterns, counts, len(some) * min(1.0, t / m))


def _sample(here: NDArray[np.int64], there: NDArray[np.int64], draws: Draws) -> NDArray[np.int64]:
    """Return targets, in random order but all if that is not too much, whose candidates are not too many together."""
    candidates = np.bincount(there, minlength=int(here.max(initial=0)) + 1)[here]
    if candidates.sum() <= MOST_PAIRS:
        return np.arange(len(here))
    order = draws.generator("pairs").permutation(len(here))
    return np.sort(order[np.cumsum(candidates[order]) <= MOST_PAIRS])


def _as_gap(key: Key) -> Key:
    known, released = (np.where(np.isnan(side), -np.inf, side) for side in (key.known, key.released))
    return Key(key.name, key.ordered, known, released)


def _with_gaps(key: Key) -> Key:
    """Return a blocking key in which missing is a value: the records without one are a block."""
    lowest = min(np.nanmin(np.append(side, 0.0)) for side in (key.known, key.released)) - 1
    known, released = (np.where(np.isnan(side), lowest, side) for side in (key.known, key.released))
    return Key(key.name, key.ordered, known, released)


def _same_block(known: Known, free: int, blocks: tuple[Key, ...]) -> tuple[Numbers, Numbers] | None:
    """Return the range of each key that a target's candidates lie in: any, but for blocking keys the target's own."""
    if not blocks:
        return None
    own = np.column_stack([_with_gaps(key).known for key in blocks])
    anything = np.full((len(known.targets), free), np.inf)
    return np.hstack([own, -anything]), np.hstack([own, anything])


def _sure(guesses: Guesses, weight: Numbers, ties: Numbers, share: float) -> Guesses:
    """Return guesses with the posterior probability of a match of that weight: no more than 1/t, where t records tie."""
    from dataclasses import replace

    from scipy.special import expit

    if share <= 0:
        return guesses
    return replace(guesses, sure=np.minimum(expit(weight + np.log(share / (1 - share))), 1 / np.maximum(ties, 1)))
