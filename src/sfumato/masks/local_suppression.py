"""Local suppression: single values of keys are released as missing, so that every record looks like enough others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.data import Batch, Kind, Microdata
from sfumato.data.classes import checked_weights
from sfumato.data.households import unit_ids
from sfumato.data.microdata import by_level
from sfumato.errors import DataError, ParameterError, join_names, plural, refuse_unknown
from sfumato.kernels.classes import classes
from sfumato.masks.suppression import without_values
from sfumato.schema import Level, Role, Schema
from sfumato.typing import Codes, Numbers, Whole

_BLOCK = 4_000
"""As many records below k are treated together: the time grows with the square."""
_FEW, _MOST = 12, 40
"""Records below k in problems that are solved exactly, if nothing is said, and if it is asked for."""
_SETS, _MOST_SETS = 300, 2_000
"""The same where missing is a value of its own: records times sets of keys."""
_NODES, _MOST_NODES = 2_000, 200_000
"""How far an integer program branches, so that the outcome does not depend on the speed of the machine."""
_ROUNDS = 20
"""How often the sets of keys are gone through where missing is a value of its own."""


@dataclass(frozen=True)
class MatchRequirement:
    """Of the records that agree on these keys, given by place, there must be enough: ``limits[n]`` of n, the last of more."""

    keys: tuple[int, ...]
    limits: Numbers


class CellSuppression(Mask, abstract=True):
    """Values of keys are suppressed in the records that look like too few others, the cheapest ones that suffice."""

    scope: ClassVar[Scope] = Scope.GLOBAL
    preserves_order: ClassVar[bool] = True
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "values are removed one by one, not whole records or whole attributes"

    keys: tuple[str, ...] | None = param(
        default=None,
        doc="columns by which a snooper looks for records; all keys of the schema if none",
        columns="many",
        holds="categories",
    )
    importance: tuple[str, ...] | None = param(
        default=None,
        doc="keys, the most important first: a value of each costs twice as much as one of the next; keys not named come last",
        columns="many",
        holds="categories",
    )
    costs: Mapping[str, float] | None = param(
        default=None, doc="what a suppressed value of a key costs; 1 for keys that are not named", low=0, above=True,
        columns="weights", holds="categories", of_data="nothing",
    )  # fmt: skip
    sacrifice: Literal["own", "any"] = param(
        default="own",
        doc="how much a record may lose for others: no more than it would need by itself, or any number of values",
    )
    names: Any = learned("keys", default=None)

    @override
    def validate(self) -> None:
        if self.importance is not None and self.costs is not None:
            raise ParameterError(f"{self.name} takes the order of the keys (importance) or their costs, not both.")
        if self.keys == ():
            raise ParameterError(f"keys of {self.name} is an empty list. Name at least one key, or leave keys out.")

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        household = [n for n in (schema.one("household"),) if n is not None]
        return tuple(dict.fromkeys((*self.changes(schema), *household, *self._further(schema))))

    @override
    def changes(self, schema: Schema) -> tuple[str, ...]:
        return self.names or self._named_keys(schema)

    def _named_keys(self, schema: Schema) -> tuple[str, ...]:
        """Return the keys that are named, or those of the schema that nothing else is done with; without what follows others."""
        others = self._further(schema)
        return schema.free(self.keys or (n for n in schema.names(role="key") if n not in others))

    def _further(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that the method needs beside the keys."""
        return ()

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the keys."""
        schema = data.schema
        for name in (*(self.keys or ()), *self._further(schema)):
            data.kind(name)
        names = self._named_keys(schema)
        if not names:
            raise DataError("there are no keys: name them (keys=...), or give columns the role 'key' in the schema.")
        if len(names) > kernels.gaps.MOST_COLUMNS:
            raise DataError(
                f"{len(names)} keys are too many: at most {kernels.gaps.MOST_COLUMNS} can be taken together."
            )
        for name in names:
            _check_key(data, name, names)
        for field, given in (("importance", self.importance), ("costs", self.costs)):
            refuse_unknown("key", names, f"the keys ({field})", *(given or ()), error=ParameterError)
        if both := [n for n in names if n in self._further(schema)]:
            raise ParameterError(f"{join_names(both)}: a column cannot be a key and be used beside the keys at once.")
        return self.learn(names=names)

    def _costs(self) -> Numbers:
        if self.costs is not None:
            return np.array([self.costs.get(name, 1.0) for name in self.names])
        ranked = self.importance or ()
        return np.array([2.0 ** (len(ranked) - ranked.index(n)) if n in ranked else 1.0 for n in self.names])

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Suppress the values."""
        if not len(batch):
            return batch
        codes = _codes(batch, self.names)
        for name, row in zip(self.names, (codes >= 0).T, strict=True):
            if not row.any():
                raise no_values(name)
        hidden = kernels.gaps.as_flags(self.search_gaps(batch, codes), len(self.names))
        out = batch
        for name, hit in zip(self.names, hidden.T, strict=True):
            if batch.schema[name].level is Level.HOUSEHOLD:  # one member's value would tell that of another
                units = unit_ids(batch, "household")
                hit = np.isin(units, units[hit])
            if hit.any():
                out = without_values(out, name, hit)
        return out

    @abstractmethod
    def search_gaps(self, batch: Batch, codes: Codes) -> Whole:
        """Return which keys each record loses, as sets of bits, shape (n,); `codes` has shape (n, keys)."""

    def _suppressed(self, before: Batch, after: Batch) -> str:
        """Return how many values were suppressed, in words."""
        gone = {n: int((after.missing(n) & ~before.missing(n)).sum()) for n in self.names}
        by_key = ", ".join(f"{n} {count:,}" for n, count in gone.items() if count)
        total, cells = sum(gone.values()), len(before) * len(self.names)
        return f"{total:,} of {cells:,} values are suppressed{f' ({by_key})' if total else ''}"

    def _check_unchanged(self, before: Batch, after: Batch) -> None:
        """Refuse a release in which a value of a key became another value."""
        for name in self.names:
            was, now = before.column(name).hashes, after.column(name).hashes
            if (was[order_of(before)] != now[order_of(after)])[~after.missing(name)[order_of(after)]].any():
                raise DataError(f"some values of '{name}' were changed, not suppressed; nothing is released.")
        for level in by_level(after.schema, self.names):
            after.members(level)


def order_of(batch: Batch) -> Whole:
    """Return the rows in the order of their ids."""
    return np.argsort(batch.ids, kind="stable")


def no_values(name: str) -> DataError:
    """Return the refusal of a key that no record has a value of."""
    return DataError(f"key '{name}' has no values at all, so that it tells nobody apart. Leave it out of the keys.")


def _check_key(data: Microdata, name: str, names: Sequence[str]) -> None:
    """Refuse a column that is no key."""
    schema, attribute = data.schema, data.schema[name]
    if data.kind(name) is Kind.OTHER:
        if data.batch([name]).missing(name).all():
            raise no_values(name)
        raise DataError(f"column '{name}' holds {data.kind(name)}, where categories are needed.")
    if attribute.role is Role.CONFIDENTIAL:
        raise DataError(
            f"'{name}' is confidential in the schema: nobody knows it beforehand, so it is no key. Leave it out of keys, or give "
            "it the role 'key'."
        )
    if attribute.role in (Role.WEIGHT, Role.HOUSEHOLD, Role.IDENTIFIER):
        raise DataError(f"'{name}' has the role '{attribute.role}', so it is no key. Leave it out of keys.")
    if tellers := [n for n in schema.sources(name) if n in schema and n not in names]:
        raise DataError(
            f"'{name}' follows {join_names(tellers)}, which is released and tells a suppressed '{name}'. Make "
            f"{join_names(tellers)} a key instead, or do not release it (suppress_columns)."
        )


def _codes(batch: Batch, names: Sequence[str]) -> Codes:
    """Return the codes of columns, shape (n, p); missing is -1, whatever the way it was told."""
    columns = [np.where(batch.missing(n), np.int32(-1), batch.column(n).ranks[0]) for n in names]
    return np.ascontiguousarray(np.column_stack(columns), np.int32)


class LocalSuppression(CellSuppression):
    """Values of keys are suppressed until every record matches at least k records on the keys (Samarati and Sweeney 1998).

    If missing is a wildcard, a suppressed value matches any. A record that is safe loses nothing; one at risk loses no more than
    it would need if it were the only one (`sacrifice`). Fewest values: small problems are solved exactly as an integer program,
    others by a search whose result is counted anew. For values above a risk, with survey weights, see RiskSuppression.
    """

    k: int = param(default=3, doc="how many records must look the same", low=2, integer=True, usual=(2, 20))
    within: tuple[str, ...] | None = param(
        default=None, doc="strata: records must match k of their own stratum", columns="many", holds="categories"
    )
    subsets: Mapping[str, int] | None = param(
        default=None,
        doc="own k for sets of keys: by their number, or their names, such as {'2': 20, 'age * sex': 10}",
        of_data="nothing",
    )
    missing: Literal["wildcard", "value"] = param(
        default="wildcard", doc="what a missing key means: it matches anything, or it is a value of its own"
    )
    search: Literal["auto", "exact", "heuristic"] = param(
        default="auto", doc="fewest values, proven or refused; by search; or proven where the problem is small"
    )

    @override
    def validate(self) -> None:
        super().validate()
        if self.subsets is None:
            return
        if not isinstance(self.subsets, Mapping) or not self.subsets:
            raise ParameterError(
                "subsets of local_suppression gives a k for sets of keys, by their number or names: {'2': 20, 'age * sex': 10}."
            )
        for name, k in self.subsets.items():
            if isinstance(k, bool) or not isinstance(k, int) or k < 2:
                raise ParameterError(
                    f"subsets of local_suppression: the k of '{name}' must be a whole number of at least 2."
                )
        if self.search == "exact":
            raise ParameterError(
                "search='exact' is for one k on all keys; leave subsets out, or use search='heuristic'."
            )
        object.__setattr__(self, "subsets", {str(name): k for name, k in self.subsets.items()})

    @override
    def _further(self, schema: Schema) -> tuple[str, ...]:
        return self.within or ()

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the keys and the sets of keys."""
        fitted = super().fit(data, draws)
        if self.missing == "value" and (homes := [n for n in fitted.names if data.schema[n].level is Level.HOUSEHOLD]):
            raise DataError(
                f"{join_names(homes)} describes households, whose members lose a value together; that is done for "
                "missing='wildcard' alone. Leave it out of keys, or split the file (split_households)."
            )
        fitted.demands()
        return fitted

    def demands(self) -> list[tuple[tuple[int, ...], int]]:
        """Return the places of all keys and of each set of keys, with its k; a set of several demands has the largest."""
        from itertools import combinations

        found = {tuple(range(len(self.names))): self.k}
        for text, k in (self.subsets or {}).items():
            if text.isdigit():
                if not 1 <= int(text) <= len(self.names):
                    raise ParameterError(
                        f"subsets: there are no sets of {text} among {plural(len(self.names), 'key')}."
                    )
                sets = list(combinations(range(len(self.names)), int(text)))
            else:
                named = [part.strip() for part in text.split("*")]
                refuse_unknown("key", self.names, "the keys (subsets)", *named, error=ParameterError)
                sets = [tuple(sorted(self.names.index(n) for n in named))]
            for places in sets:
                found[places] = max(k, found.get(places, 0))
        return list(found.items())

    def search_gaps(self, batch: Batch, codes: Codes) -> Whole:
        """Find the values stratum by stratum."""
        strata, sizes = classes([batch.column(n).codes[0] for n in self.within or ()], len(batch))
        demands = self.demands()
        most = max(k for _, k in demands)
        if sizes.min() < most:
            if not self.within:
                raise DataError(
                    f"k is {most}, but there are only {plural(len(batch))}, so no record can match {most}. Use a smaller k."
                )
            raise DataError(
                f"{int((sizes < most).sum()):,} of {len(sizes):,} strata of {join_names(self.within)} have fewer than {most} "
                "records, so none of theirs can match so many. Merge strata first, or use a smaller k."
            )
        out = np.zeros(len(batch), np.int64)
        for members in np.split(np.argsort(strata, kind="stable"), np.cumsum(sizes)[:-1]):
            rows = members[np.lexsort([batch.ids[members], *codes[members].T])]
            find = self._wildcards if self.missing == "wildcard" else self._levels
            out[rows] = find(codes[rows], demands)
        return out

    def _wildcards(self, codes: Codes, demands: list[tuple[tuple[int, ...], int]]) -> Whole:
        if self.search != "heuristic" and len(demands) == 1:
            found = _exact_wildcards(codes, self._costs(), self.k, self.sacrifice == "any", self.search == "exact")
            if found is not None:
                return found
        wanted = [MatchRequirement(places, np.array([float(k)])) for places, k in demands]
        return _wildcard_gaps(codes, np.ones(len(codes)), self._costs(), wanted, self.sacrifice == "any")

    def _levels(self, codes: Codes, demands: list[tuple[tuple[int, ...], int]]) -> Whole:
        cost = self._costs()
        if self.search != "heuristic" and len(demands) == 1:
            size = len(codes) << min(len(cost), 20)
            if self.search == "exact" or size <= _SETS:
                found = (
                    kernels.gap_programs.cheapest_level_gaps(codes, cost, self.k, _MOST_NODES)
                    if size <= _MOST_SETS
                    else None
                )
                if found is not None or self.search == "exact":
                    return _proven(found)
        out = np.zeros(len(codes), np.int64)
        for _ in range(_ROUNDS):
            before = out.copy()
            for places, k in demands:
                here = list(places)
                part = _without(codes, out)[:, here]
                sets = kernels.gap_programs.level_gaps(part, cost[here], k)
                out |= kernels.gaps.as_flags(sets, len(here)) @ (1 << np.array(here))
            if (out == before).all():
                return out
        raise DataError(
            "no pattern was found that keeps k on all sets of keys at once where missing is a value of its own. Use "
            "missing='wildcard', fewer sets, or recode keys first."
        )

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Count the matching records of every set of keys anew."""
        names = self.touches(before.schema)
        old, new = before.batch(names), after.batch(names)
        if not len(new):
            return
        self._check_unchanged(old, new)
        codes, was = _codes(new, self.names), _codes(old, self.names)
        strata, _ = classes([new.column(n).codes[0] for n in self.within or ()], len(new))
        place = f" of the same {' and '.join(self.within)}" if self.within else ""
        means = "matches anything" if self.missing == "wildcard" else "is a value of its own"
        demands = self.demands()
        for places, k in demands:
            fewest = self._matches(codes[:, list(places)], strata).min()
            if fewest < k:
                raise DataError(
                    f"some records would match only {fewest:,} records on {join_names(self.names[i] for i in places)}, fewer "
                    f"than {k}; nothing is released."
                )
        on = join_names(self.names)
        says = f"every record matches at least {self.k} records{place} on {on}, where a missing key {means}; "
        yield Guarantee(step, says + self._suppressed(old, new), "matching records counted anew in the released data")
        if len(demands) > 1:
            parts = [
                f"{k} records on any {text} keys" if text.isdigit() else f"{k} records on {text}"
                for text, k in (self.subsets or {}).items()
            ]
            says = f"every record matches at least {'; '.join(parts)}"
            yield Guarantee(step, says, f"counted on all {len(demands):,} sets of keys")
        if self.missing == "wildcard" and all(before.schema[n].level is not Level.HOUSEHOLD for n in self.names):
            lost = (codes[order_of(new)] < 0).sum(axis=1) > (was[order_of(old)] < 0).sum(axis=1)
            old_strata, _ = classes([old.column(n).codes[0] for n in self.within or ()], len(old))
            safe = np.ones(len(old), bool)
            for places, k in demands:
                safe &= self._matches(was[:, list(places)], old_strata) >= k
            if (lost & safe[order_of(old)]).any():
                raise DataError("some records lost a value although they were safe; nothing is released.")
            says = f"{int(lost.sum()):,} of the {int((~safe).sum()):,} records that matched too few lost values, no other did"
            yield Guarantee(step, says, "compared record by record")

    def _matches(self, codes: Codes, strata: Whole) -> Whole:
        """Return how many records of its stratum match each record under the rule for missing keys, shape (n,)."""
        columns = [strata, *codes.T]
        labels, sizes = classes(columns, len(codes))
        if self.missing == "value":
            return np.asarray(sizes[labels], np.int64)
        first = np.empty(len(sizes), np.int64)
        first[labels] = np.arange(len(codes))
        rows = np.column_stack(columns)[first].astype(np.int32)
        matched = kernels.matching.wildcard_sums(rows, sizes[:, None].astype(np.float64))
        return np.asarray(np.round(matched[labels, 0]), np.int64)


def _without(codes: Codes, hidden: Whole) -> Codes:
    return np.where(kernels.gaps.as_flags(hidden, codes.shape[1]), np.int32(-1), codes)


def _proven(found: Whole | None) -> Whole:
    if found is None:
        raise DataError(
            "the fewest values could not be proven for so many records. Use search='heuristic', whose result is verified just "
            "the same."
        )
    return found


def _exact_wildcards(codes: Codes, cost: Numbers, k: int, shared: bool, asked: bool) -> Whole | None:
    """Return the cheapest sets of keys; None if the problem is too large and a proof was not asked for."""
    entities = _Entities(codes, np.ones(len(codes)), np.array([float(k)]))
    at_risk = entities.at_risk
    if not len(at_risk):
        return np.zeros(len(codes), np.int64)
    if len(at_risk) > (_MOST if asked else _FEW):
        return _proven(None) if asked else None
    rows, sizes, amounts = entities.split(at_risk)
    limits = np.array([float(k)])
    own = kernels.gaps.own_sets(rows, sizes, amounts, len(at_risk), cost, limits)
    some = kernels.gaps.wildcard_gaps(rows, sizes, amounts, len(at_risk), cost, limits, own, shared)
    budget = np.full(len(at_risk), cost.sum()) if shared else kernels.gaps.price(own, cost)
    found = kernels.gap_programs.cheapest_wildcard_gaps(
        rows, sizes, len(at_risk), cost, k, budget, float(kernels.gaps.price(some, cost).sum()),
        _MOST_NODES if asked else _NODES,
    )  # fmt: skip
    if found is None:
        return _proven(None) if asked else None
    out = np.zeros(len(codes), np.int64)
    out[at_risk] = found
    return out


class _Entities:
    """Records, and which of them agree with too few others; missing matches anything."""

    def __init__(self, codes: Codes, weights: Numbers, limits: Numbers) -> None:
        self.codes, self.weights = codes, weights
        self.labels, self.sizes = classes(list(codes.T), len(codes))
        self.first = np.empty(len(self.sizes), np.int64)
        self.first[self.labels] = np.arange(len(codes))
        self.amounts = np.asarray(np.bincount(self.labels, weights, len(self.sizes)), np.float64)
        counts, held = kernels.gaps.agreeing(codes[self.first], self.sizes, self.amounts)
        self.at_risk = np.flatnonzero((kernels.gaps.lacking(counts, held, limits) > 0)[self.labels])

    def split(self, rows: Whole) -> tuple[Codes, Whole, Numbers]:
        """Return some records, one each, and the classes of the others: codes, numbers of records and their amounts."""
        sizes = self.sizes - np.bincount(self.labels[rows], minlength=len(self.sizes))
        amounts = self.amounts - np.bincount(self.labels[rows], self.weights[rows], len(self.sizes))
        rest = np.flatnonzero(sizes)
        codes = np.ascontiguousarray(np.vstack([self.codes[rows], self.codes[self.first[rest]]]))
        ones = np.ones(len(rows), np.int64)
        return codes, np.concatenate([ones, sizes[rest]]), np.concatenate([self.weights[rows], amounts[rest]])


def _wildcard_gaps(
    codes: Codes, weights: Numbers, cost: Numbers, demands: Sequence[MatchRequirement], shared: bool
) -> Whole:
    """Return sets of keys that each record loses, so that all demands hold.

    One demand is met after the other, and one block of records after the other: a suppressed value never lets fewer records match.
    """
    out = np.zeros(len(codes), np.int64)
    for demand in demands:
        here = np.array(demand.keys)
        while True:
            entities = _Entities(_without(codes, out)[:, here], weights, demand.limits)
            rows = entities.at_risk[:_BLOCK]
            if not len(rows):
                break
            parts = entities.split(rows)
            own = kernels.gaps.own_sets(*parts, len(rows), cost[here], demand.limits)
            sets = kernels.gaps.wildcard_gaps(*parts, len(rows), cost[here], demand.limits, own, shared)
            out[rows] |= kernels.gaps.as_flags(sets, len(here)) @ (1 << here)
    return out


class RiskSuppression(CellSuppression):
    """Values of keys are suppressed until no record is identified with a probability above a threshold.

    The probability is the individual risk E[1/F | f] of Benedetti and Franconi (1998): f records of the file match a record, and
    their survey weights, or a sampling fraction, tell how many persons F of the population do. A missing key matches anything.
    Otherwise as LocalSuppression.
    """

    threshold: float = param(
        default=0.1, doc="largest probability that is left", low=0, above=True, high=1, usual=(0.02, 0.3)
    )
    fraction: float | None = param(
        default=None, doc="share of the population that is in the file; from the survey weights if none", low=0, above=True,
        high=1,
    )  # fmt: skip

    @override
    def _further(self, schema: Schema) -> tuple[str, ...]:
        weight = schema.one("weight")
        return () if self.fraction is not None or weight is None else (weight,)

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check the keys, and that there are survey weights, if they are needed."""
        if self.fraction is None and data.schema.one("weight") is None:
            raise DataError(
                "how many persons of the population look the same is estimated from survey weights, and there are none. Give "
                "a column the role 'weight', or the share of the population that is in the file (fraction)."
            )
        return super().fit(data, draws)

    def _weights(self, batch: Batch) -> Numbers:
        """Return how many persons each record stands for, shape (n,)."""
        name = batch.schema.one("weight")
        if self.fraction is not None or name is None:
            return np.full(len(batch), 1 / (self.fraction or 1.0))
        return checked_weights(batch.numbers(name), name)

    def _risk(self, counts: Whole, held: Numbers) -> Numbers:
        """Return the risk of records with so many matching records and persons, shape (m,)."""
        p = np.minimum(counts / held, 1.0) if self.fraction is None else np.full(len(counts), self.fraction)
        risk: Numbers = kernels.uniques.reciprocal_moments(counts, p)[0]
        return risk

    def _limits(self) -> Numbers:
        """Return how many persons f matching records must stand for, so that the risk is not above the threshold; f = 0, 1, ...

        The last is 0: with so many records 1/f alone is small enough.
        """
        counts = np.arange(1, int(np.ceil(1 / self.threshold - 1e-9)), dtype=np.int64)
        if self.fraction is not None:
            safe = self._risk(counts, counts.astype(np.float64)) <= self.threshold
            return np.concatenate([[np.inf], np.where(safe, 0.0, np.inf), [0.0]])
        low, high = counts.astype(np.float64), counts / self.threshold * 1e6
        for _ in range(200):
            middle = np.sqrt(low * high)
            above = self._risk(counts, middle) > self.threshold
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.concatenate([[np.inf], high, [0.0]])

    def search_gaps(self, batch: Batch, codes: Codes) -> Whole:
        """Find the values."""
        weights, limits = self._weights(batch), self._limits()
        if not np.isfinite(limits[1:]).all():  # with a fraction the number of records decides
            limits = np.array([float(np.argmax(limits == 0.0))])
            weights = np.ones(len(batch))
        if kernels.gaps.lacking(np.array([len(batch)]), np.array([weights.sum()]), limits)[0] > 0:
            raise DataError(
                f"even if all {plural(len(batch))} matched, the risk would be above {self.threshold:g}: they stand for too few "
                "persons. Use a higher threshold."
            )
        order = np.lexsort([batch.ids, *codes.T])
        out = np.zeros(len(batch), np.int64)
        demand = MatchRequirement(tuple(range(len(self.names))), limits)
        out[order] = _wildcard_gaps(codes[order], weights[order], self._costs(), [demand], self.sacrifice == "any")
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Work out the risks of the released records anew."""
        names = self.touches(before.schema)
        old, new = before.batch(names), after.batch(names)
        if not len(new):
            return
        self._check_unchanged(old, new)
        worst = self._largest(new)
        if worst > self.threshold * (1 + 1e-6):
            raise DataError(f"some records would have a risk above {self.threshold:g}; nothing is released.")
        says = f"no record is identified by {join_names(self.names)} with a probability above {self.threshold:g}; "
        yield Guarantee(
            step, says + self._suppressed(old, new), "individual risks worked out anew from the released data"
        )

    def _largest(self, batch: Batch) -> float:
        codes = _codes(batch, self.names)
        labels, sizes = classes(list(codes.T), len(batch))
        first = np.empty(len(sizes), np.int64)
        first[labels] = np.arange(len(batch))
        amounts = np.column_stack([sizes, np.bincount(labels, self._weights(batch), len(sizes))])
        counts, held = kernels.matching.wildcard_sums(codes[first], amounts).T
        return float(self._risk(np.round(counts).astype(np.int64), held).max())
