"""What all masks share that generalise keys until anonymity models hold: their parameters, their release, and its proof."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, Release, Snooper, build, learned, param
from sfumato.contract.class_model import AtMost, Model, checked_models, model_allows, model_measure, model_words
from sfumato.contract.linked_columns import run_linked
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, count_of, plural, refuse_unknown
from sfumato.masks.anonymity.candidates import KeyedFile, Rules, keyed_file
from sfumato.masks.anonymity.key_levels import KeyLevels, RecodingSolution, coded_missing, key_levels
from sfumato.masks.recoding import as_text
from sfumato.masks.record_choice import (
    Keys,
    Rule,
    at_key,
    checked_weights,
    combined,
    free_weights,
    reweighted,
    strata_columns,
)
from sfumato.masks.suppression import weight_ratios
from sfumato.schema import Scale, Schema
from sfumato.typing import Codes, Flags, Numbers


@dataclass(frozen=True, eq=False)
class Facts:
    """What a mask has learned of one file."""

    keys: tuple[KeyLevels, ...]
    solution: Any
    kept: Keys | None
    """Hashes of the released combinations of keys, in order; None if all records are released."""
    suppressed: int
    strata: Keys
    ratio: Numbers
    """The strata's keys, and the factor of survey weights in each."""


class Generalisation(Mask, abstract=True):
    """Keys are generalised, each record by its own class or all alike, until k-anonymity and other models hold.

    A model is a measure of risk that classes of equal keys decide; the release is verified by that measure. Where no
    generalisation reaches the models, nothing is released. A missing key counts as a value of its own, which only the root covers:
    what holds then also holds where a missing key matches anything. Suppressed records are not released, and the survey weights of
    the others make up for them, in each stratum of the schema or overall.
    """

    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "it groups values, which no matrix does (matrix-masking paper, section IV)"
    takes_population: ClassVar[bool] = False

    columns: tuple[str, ...] | None = param(
        default=None, doc="keys to generalise; all keys if none", columns="many", holds="categories"
    )
    _: KW_ONLY
    k: int = param(
        default=5, doc="how many records must look the same; 1 asks for the models alone", low=1, high=1e9, integer=True,
        usual=(2, 50),
    )  # fmt: skip
    models: Any = param(
        default=(),
        doc="further models: measures of risk that classes of equal keys decide, or limits on such measures",
    )
    weights: Mapping[str, float] | None = param(
        default=None,
        doc="how much each key matters for the score; 1 if not named",
        columns="weights",
        low=0,
        of_data="nothing",
    )
    suppression: float = param(
        default=0.0,
        doc="share of the records that may be suppressed where a solution is applied again to other data",
        low=0,
        high=1,
    )
    rule: Any = learned("columns", "k", "models", "weights", "suppression", default=None)
    population: Any = field(default=None, repr=False, compare=False)

    @override
    def validate(self) -> None:
        object.__setattr__(self, "models", checked_models(self.models, self.name))
        if not self.takes_population and any(model_measure(m).uses_population for m in self.models):  # type: ignore[attr-defined]
            raise ParameterError(
                f"{self.name} releases labels that overlap, which a table of the population cannot be counted by. Use "
                "full_domain_recoding, where all records have the same level."
            )

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed and without what was learned, which depends on all of them."""
        made = super().with_(**changes)
        return made.forget() if changes else made

    # -- columns

    def targets(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys to generalise: those named, or all keys that follow no other."""
        return self.columns or schema.free(schema.names(role="key"))

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        own = (*self.targets(schema), *schema.names(role="weight"), *strata_columns(schema), *self._confidential)
        return tuple(dict.fromkeys(own))

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys, and the survey weight."""
        return (*self.targets(schema), *schema.names(role="weight"))

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema: keys are text on levels of their hierarchies, and survey weights need no longer be whole."""
        names = self.targets(schema)
        after = []
        for old in free_weights(schema):
            scale = Scale.PARTIALLY_ORDERED if old.scale is Scale.ORDERED else old.scale
            after.append(as_text(old, scale, old.hierarchy) if old.name in names else old)
        return Schema(tuple(after))

    @property
    def _confidential(self) -> tuple[str, ...]:
        return self.rules().confidential

    def rules(self) -> Rules:
        """Return k and the models."""
        return Rules(self.k, self.models)

    # -- learning

    @abstractmethod
    def solve(self, file: KeyedFile, data: Microdata) -> RecodingSolution:
        """Return what to release, by a search; refuse if the models cannot be reached."""

    def allowed(self, records: int) -> int:
        """Return how many records may be suppressed."""
        return math.floor(self.suppression * records + 1e-9)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Search for the best release."""
        batch = self._read(data)
        keys = tuple(key_levels(batch, name) for name in self.targets(data.schema))
        file, _ = keyed_file(batch, keys, self._confidential, self.weights, self._people(keys))
        return self._learn(data, batch, keys, self.solve(file, data))

    def _read(self, data: Microdata) -> Batch:
        """Return the columns that are needed, in memory; refuse those that do not go together."""
        names, schema = self.targets(data.schema), data.schema
        if not names:
            raise DataError("there is no key to generalise. Name columns, or give one the role 'key' in the schema.")
        refuse_unknown("column", schema.names(), "the data", *names, *self._confidential, error=DataError)
        if both := [name for name in self._confidential if name in names]:
            raise DataError(
                f"column '{both[0]}' is a key, which a snooper knows, and confidential in a model, which he wants to learn. Give it "
                "the role 'confidential' in the schema, or name the other keys (columns=...)."
            )
        if self.weights is not None:
            refuse_unknown("column", names, "the keys", *self.weights)
            if not any(self.weights.get(name, 1.0) for name in names):
                raise ParameterError(f"weights of {self.name} must not be zero for all keys.")
        batch = data.batch(self.touches(schema))
        if self.k > len(batch):
            raise DataError(
                f"k = {self.k:,} is more than the {plural(len(batch))} of the file, so no {self.k:,} can look the same. Lower k."
            )
        return batch

    def _people(self, keys: Sequence[KeyLevels]) -> Batch | None:
        return None

    def _learn(self, data: Microdata, batch: Batch, keys: tuple[KeyLevels, ...], solution: RecodingSolution) -> Self:
        """Return the mask with a solution, and with the records that are suppressed in these data."""
        keys = tuple(solution.relabelled(keys))
        file, rows = keyed_file(batch, keys, self._confidential, self.weights, self._people(keys))
        labels = solution.labels(keys, file.rows.codes)
        kept_rows = self._kept_rows(file, labels)
        keep = kept_rows[rows]
        lost = int(len(keep) - keep.sum())
        if lost > self.allowed(len(batch)):
            raise DataError(
                f"{count_of(lost, len(batch), ('would', 'would'))} have to be suppressed, and at most "
                f"{self.allowed(len(batch)):,} may. Allow more suppression, or search anew on these data."
            )
        if len(batch) and not keep.any():
            raise DataError("all records would have to be suppressed, and nothing would be left to release.")
        kept: Keys | None = None
        strata, ratio = np.zeros(0, np.uint64), np.zeros(0)
        if lost:
            released = combined(relabelled_batch(batch, keys, labels[:, rows]), [key.name for key in keys])
            kept = np.unique(released[keep])
            keep = at_key(kept, released) >= 0
            strata, ratio = weight_ratios(batch, keep, checked_weights(batch))
        facts = Facts(keys, solution, kept, int(len(keep) - keep.sum()), strata, ratio)
        return self.learn(rule=Rule(facts, data, None))

    def _kept_rows(self, file: KeyedFile, labels: Codes) -> Flags:
        """Return which rows of a file can be released under some labels, counted anew; shape (r,)."""
        known = np.flatnonzero((labels[:, : file.own] >= 0).all(axis=0))
        found = np.zeros(file.own, bool)
        if not len(known):
            return found
        part = file.among(known)
        labels = np.hstack([labels[:, known], labels[:, file.own :]]) if part.own < len(part.rows) else labels[:, known]
        shown = replace(part, rows=kernels.lattice.CodedRows(labels, part.rows.weights))
        candidate = shown.under([(np.arange(len(key.labels)), len(key.labels)) for key in file.keys])
        verdict = candidate.judge(self.rules(), file.records)
        if verdict.reason:
            raise DataError(
                f"the models do not hold on these data: {verdict.reason}. Search anew, or loosen the models."
            )
        found[known] = verdict.kept[candidate.labels[: shown.own]]
        return found

    # -- masking

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Release the records; on other data than it was fitted on the same solution, with the records counted anew."""
        if not self.rule.is_for(data, None):
            return run_linked(self.again(data), data, draws)
        return super().run(data, draws, function)

    def again(self, data: Microdata) -> Self:
        """Return the mask for other data: its solution stays, what has to be suppressed is counted there."""
        batch, facts = self._read(data), self.rule.facts
        keys = tuple(key.with_values(data.schema[key.name], batch) for key in facts.keys)
        return self._learn(data, batch, keys, facts.solution)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Generalise the keys, and leave suppressed records out."""
        facts: Facts = self.rule.facts
        codes = np.stack([key.codes(batch) for key in facts.keys])
        out = relabelled_batch(batch, facts.keys, facts.solution.labels(facts.keys, codes))
        if facts.kept is None:
            return out
        keep = at_key(facts.kept, combined(out, [key.name for key in facts.keys])) >= 0
        at = at_key(facts.strata, combined(batch, strata_columns(batch.schema)))
        return reweighted(out, np.where(at >= 0, facts.ratio[at], 1.0)).keep(keep)

    @property
    def solution(self) -> Any:
        """What the search has chosen, and what it has looked at; confidential."""
        if self.rule is None:
            raise ParameterError(
                f"{self.name} has not been fitted, so it has no solution yet. Call fit(data, draws) first."
            )
        return self.rule.facts.solution

    # -- proof

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify every model on the released file, by the measure of risk that it is."""
        fresh = self.rule.is_for(before, None)
        facts: Facts = (self if fresh else self.again(before)).rule.facts
        names = [key.name for key in facts.keys]
        gone = len(before) - len(after)
        says = f"{count_of(gone, len(before), ('is', 'are'))} suppressed; "
        says += facts.solution.words() if fresh else "the solution was found before, and records were counted anew"
        yield Guarantee(step, says, "released records counted")
        outcome = Release(before, (after,))
        snooper = Snooper(keys=tuple(names)).learn(population=self._released_people(facts))
        asked: list[Model] = [_k_anonymity(self.k)] if self.k > 1 else []
        for model in (*asked, *self.models):
            yield self._verified(model, outcome, snooper, step)

    def _verified(self, model: Model, outcome: Release, snooper: Snooper, step: str) -> Guarantee:
        measure = model_measure(model).with_(missing="value")
        words = model_words(model)
        try:
            score = measure.score(outcome, snooper)
        except NotApplicable as reason:
            if isinstance(model, AtMost) and measure.name == "population_uniques" and _no_unique(outcome, snooper):
                return Guarantee(step, f"{words}: no released record is unique", "counted in the released file")
            raise DataError(f"{words} cannot be verified: {reason} Nothing is released.") from None
        if not model_allows(model, score):
            raise DataError(f"{words} does not hold in the released file: {score.words} Nothing is released.")
        return Guarantee(step, f"{words}: {score.words}", f"counted anew by {measure.name}, {score.variant}")

    def _released_people(self, facts: Facts) -> Microdata | None:
        return None


def _k_anonymity(k: int) -> Any:
    return build("measure", {"measure": "k_anonymity", "k": k})


def _no_unique(outcome: Release, snooper: Snooper) -> bool:
    score = _k_anonymity(2).with_(missing="value").score(outcome, snooper)
    return bool(score.details["unique records"] == 0)


def relabelled_batch(batch: Batch, keys: Sequence[KeyLevels], labels: Codes) -> Batch:
    """Return records with their keys released as labels, shape (keys, n); codes for missing stay where nothing covers them."""
    out = batch
    for key, mine in zip(keys, labels, strict=True):
        table = [label for label in key.labels if label is not None]
        place = np.array([-1 if label is None else table.index(label) for label in key.labels] + [-1], np.int32)
        codes = place[mine]
        coded, words = coded_missing(batch, key.name)
        if words:
            extra = list(dict.fromkeys(words))
            spoken = np.array([len(table) + extra.index(word) for word in words], np.int32)
            codes[coded] = np.where(codes[coded] < 0, spoken, codes[coded])
            table = [*table, *extra]
        out = out.with_codes(key.name, codes, table)
    return out


def relabelled(data: Microdata, keys: Sequence[KeyLevels], solution: RecodingSolution) -> Microdata:
    """Return a file with its keys released as a solution says, no record left out."""
    batch = data.batch()
    codes = np.stack([key.codes(batch) for key in keys])
    out = relabelled_batch(batch, keys, solution.labels(keys, codes))
    return Microdata(data.engine.hold(out.rows), data.schema)
