"""Differential privacy by a sample and generalisation: records that nobody resembles are not released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, Release, Snooper, build, learned, param
from sfumato.contract.linked_columns import run_linked
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import DataError, ParameterError, SchemaError, count_of, refuse_unknown
from sfumato.lazy import special
from sfumato.masks.anonymity.candidates import KeyedFile, Levels, keyed_file
from sfumato.masks.anonymity.generalisation import relabelled_batch
from sfumato.masks.anonymity.key_levels import KeyLevels, checked_levels, key_levels
from sfumato.masks.anonymity.search import LatticeSolution
from sfumato.masks.recoding import as_text
from sfumato.masks.record_choice import Keys, Rule, at_key, combined
from sfumato.schema import Scale, Schema
from sfumato.typing import Flags, Numbers

_MOST_NODES = 200_000


def tail(n: int, gamma: float, beta: float) -> float:
    """Return P(more than γn of n records are sampled), each with probability β."""
    most = math.floor(gamma * n + 1e-12)
    return float(special.bdtrc(most, n, beta)) if most < n else 0.0


def delta_of(k: int, beta: float, epsilon: float) -> float:
    """Return δ = max over n of P(more than γn of n are sampled), γ = (e^ε - 1 + β)/e^ε (Li, Qardaji and Su 2012, theorem 1).

    n runs from the smallest class of which k may be sampled, n ≥ k/γ - 1. Chernoff's bound e^(-n·KL(γ, β)), which falls in n, says
    where to stop.

    >>> 0 < delta_of(50, 0.5, 1.0) < delta_of(20, 0.5, 1.0) < 1
    True
    """
    gamma = (math.exp(epsilon) - 1 + beta) / math.exp(epsilon)
    apart = gamma * math.log(gamma / beta) + ((1 - gamma) * math.log((1 - gamma) / (1 - beta)) if gamma < 1 else 0.0)
    n, largest = max(math.ceil(k / gamma - 1), 1), 0.0
    while True:
        largest = max(largest, tail(n, gamma, beta))
        n += 1
        if math.exp(-n * apart) <= largest or math.exp(-n * apart) < 1e-300:
            return largest


def least_k(epsilon: float, delta: float, beta: float) -> int:
    """Return the smallest k for which sampling and k-anonymity are (ε, δ)-differentially private together."""
    high = 2
    while delta_of(high, beta, epsilon) > delta:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if delta_of(middle, beta, epsilon) <= delta else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class PrivateFacts:
    """The levels of a release, and hashes of the combinations of keys that enough sampled records have, in order."""

    keys: tuple[KeyLevels, ...]
    solution: LatticeSolution
    kept: Keys


class SafePub(Mask):
    """(ε, δ)-differential privacy by a random sample and generalisation (Bild, Kuhn and Prasser 2018: SafePub).

    Each record is sampled with probability β, generalised, and released if at least k sampled records look the same. With k from
    ε, δ and β this is (ε, δ)-differentially private, if the levels do not depend on the data (Li, Qardaji and Su 2012). Levels that
    are not given are drawn by the exponential mechanism, which costs `epsilon_search`. Only keys are released, and each
    needs a hierarchy.
    """

    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"

    columns: tuple[str, ...] | None = param(
        default=None, doc="keys to release; all keys with a hierarchy if none", columns="many", holds="categories"
    )
    _: KW_ONLY
    epsilon: float = param(default=2.0, doc="ε, all in all", low=0, above=True, high=20, usual=(10.0, 0.5))
    delta: float = param(
        default=1e-5, doc="δ: at most 1/records, and better much less", low=0, above=True, high=0.1, scale="log"
    )
    epsilon_search: float = param(
        default=0.1,
        doc="the part of ε that is spent on choosing levels, if they are not given",
        low=0,
        above=True,
        high=10,
    )
    fraction: float | None = param(
        default=None, doc="β, the probability with which a record is sampled; 1 - e^-ε, the largest that is allowed, if none",
        low=0, above=True, high=1,
    )  # fmt: skip
    levels: Mapping[str, int] | None = param(
        default=None, doc="the level of each key, chosen without looking at the data", columns="weights", low=0, integer=True,
        of_data="nothing",
    )  # fmt: skip
    weights: Mapping[str, float] | None = param(
        default=None, doc="how much each key matters when levels are chosen; 1 if not named", columns="weights", low=0,
        of_data="nothing",
    )  # fmt: skip
    rule: Any = learned("columns", "epsilon", "delta", "epsilon_search", "fraction", "levels", "weights", default=None)

    @override
    def validate(self) -> None:
        if self.levels is None and self.epsilon_search >= self.epsilon:
            raise ParameterError(
                "epsilon_search of safe_pub is a part of epsilon, so it must be less. Lower it, or give levels."
            )
        if self.fraction is not None and self.fraction > (most := -math.expm1(-self._spent)) * (1 + 1e-12):
            raise ParameterError(
                f"fraction of safe_pub must be at most 1 - e^-ε = {most:.4g}, ε being what is left for the sample. Lower it, or "
                "raise epsilon."
            )

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed and without what was learned, which depends on all of them."""
        made = super().with_(**changes)
        return made.forget() if changes else made

    @property
    def _spent(self) -> float:
        """ε of the sample and the generalisation."""
        return self.epsilon if self.levels is not None else self.epsilon - self.epsilon_search

    @property
    def beta(self) -> float:
        """The probability with which a record is sampled: 1 - e^-ε, the largest that the theorem allows, unless another is given."""
        return -math.expm1(-self._spent) if self.fraction is None else self.fraction

    @property
    def k(self) -> int:
        """How many sampled records must look the same."""
        return least_k(self._spent, self.delta, self.beta)

    def targets(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys: those named, or all with a hierarchy."""
        return self.columns or tuple(n for n in schema.names(role="key") if schema[n].hierarchy is not None)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return schema.names()

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys: no other column is released."""
        return self.targets(schema)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the keys, as text on levels of their hierarchies."""
        names = self.targets(schema)
        kept = [
            as_text(a, Scale.PARTIALLY_ORDERED if a.scale is Scale.ORDERED else a.scale, a.hierarchy)
            for a in schema
            if a.name in names
        ]
        if not kept:
            raise DataError(
                "no key has a hierarchy in the schema, so nothing would be released. Give the keys hierarchies."
            )
        return Schema(tuple(kept))

    def _read(self, data: Microdata) -> tuple[Batch, tuple[KeyLevels, ...]]:
        schema, names = data.schema, self.targets(data.schema)
        self.schema_after(schema)
        refuse_unknown("column", schema.names(), "the data", *names, error=DataError)
        for name in names:
            hierarchy = schema[name].hierarchy
            if hierarchy is None:
                raise DataError(
                    f"column '{name}' has no hierarchy in the schema, and one made from the data would tell of them. Give it one."
                )
            try:
                hierarchy.leaves(hierarchy.root)
            except SchemaError as error:
                raise DataError(f"column '{name}': {error}") from None
        batch = data.batch(names)
        return batch, tuple(key_levels(batch, name) for name in names)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Draw the levels, then the sample, and count who looks the same there."""
        batch, keys = self._read(data)
        file, _ = keyed_file(batch, keys, (), self.weights, None)
        levels = self._levels(file, draws)
        solution = LatticeSolution(
            tuple(k.name for k in keys), tuple(k.height for k in keys), levels, 0.0, 0.0, 0, 1, (), "granularity", 0, 0
        )
        drawn = self._drawn(batch, draws)
        labels = solution.labels(keys, np.stack([key.codes(batch) for key in keys]))
        found, counts = np.unique(
            combined(relabelled_batch(batch, keys, labels), [k.name for k in keys])[drawn], return_counts=True
        )
        if not (counts >= self.k).any():
            raise DataError(
                f"no {self.k:,} of the {int(drawn.sum()):,} sampled records look the same, so nothing can be released with ε = "
                f"{self.epsilon:g} and δ = {self.delta:g}. Use fewer keys, coarser levels, or a larger ε or δ."
            )
        return self.learn(rule=Rule(PrivateFacts(keys, solution, found[counts >= self.k]), data, _stamp(draws)))

    def _levels(self, file: KeyedFile, draws: Draws) -> Levels:
        """Return the levels: those given, or drawn with probability ∝ e^(ε·score) (McSherry and Talwar 2007).

        The score is the granularity of the records in classes that are expected to be released, in units of the largest change that
        one record makes: classes of k/β lose or win all their records at once. It never falls when a record is added, so that ε need
        not be halved.
        """
        if self.levels is not None:
            return checked_levels(self.levels, file.keys)
        shape = [key.height + 1 for key in file.keys]
        if math.prod(shape) > _MOST_NODES:
            raise DataError(
                f"there are {math.prod(shape):,} choices of levels, more than the {_MOST_NODES:,} that are drawn from. Give levels, "
                "or use fewer keys."
            )
        nodes = list(product(*(range(n) for n in shape)))
        least = math.ceil(self.k / self.beta)
        scores = np.array([_score(file, levels, least) for levels in nodes])
        uniform = draws.uniforms(np.arange(len(nodes)), "levels")
        gumbel = -np.log(-np.log(np.clip(uniform, 1e-300, 1 - 1e-16)))
        return nodes[int(np.argmax(self.epsilon_search * scores + gumbel))]

    def _drawn(self, batch: Batch, draws: Draws) -> Flags:
        return np.asarray(draws.uniforms(batch.ids, "sample") < self.beta)

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Release the records; other data, or other draws, make another release."""
        if not self.rule.is_for(data, _stamp(draws)):
            return run_linked(self.fit(data, draws), data, draws)
        return super().run(data, draws, function)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Generalise the sampled records, and release those whose class is large enough."""
        facts: PrivateFacts = self.rule.facts
        names = [key.name for key in facts.keys]
        labels = facts.solution.labels(facts.keys, np.stack([key.codes(batch) for key in facts.keys]))
        out = relabelled_batch(batch, facts.keys, labels)
        out = out.drop([n for n in out.rows.columns if n not in names])
        keep = self._drawn(batch, draws) & (at_key(facts.kept, combined(out, names)) >= 0)
        return out.keep(keep)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify k in the released file, and state ε and δ."""
        names = self.targets(before.schema)
        measure = build("measure", {"measure": "k_anonymity", "k": self.k, "missing": "value"})
        score = measure.score(Release(before, (after,)), Snooper(keys=names))
        if score.value:
            raise DataError(f"{score.words} Nothing is released.")
        part = "" if self.levels is not None else f", of which {self.epsilon_search:g} were spent on the levels"
        says = (
            f"the release is ({self.epsilon:g}, {self.delta:g})-differentially private{part}: a sample with β = {self.beta:.4g} and "
            f"k = {self.k:,}; {count_of(len(after), len(before), ('is', 'are'))} released"
        )
        found = delta_of(self.k, self.beta, self._spent)
        yield Guarantee(step, says, f"δ(k, β, ε) = {found:.3g} worked out; {score.words}; no other column is released")


def _score(file: KeyedFile, levels: Levels, least: int) -> float:
    """Return the granularity of all records in classes that are large enough, by `least`: one record changes it by 1 at most."""
    candidate = file.at(levels)
    gains: Numbers = np.zeros(len(candidate.sizes))
    for j, (key, level) in enumerate(zip(file.keys, levels, strict=True)):
        gains += file.weights[j] * key.gains[level][file.codes[j, candidate.firsts]]
    return float((candidate.sizes * gains)[candidate.sizes >= least].sum()) / least


def _stamp(draws: Draws) -> float:
    return float(draws.uniforms(np.zeros(1, np.int64), "stamp")[0])
