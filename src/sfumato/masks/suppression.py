"""Suppression of records, of single values and of attributes, by rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, MatrixForm, learned, numeric_targets, param
from sfumato.contract.linked_columns import run_linked
from sfumato.data import Condition, Kind
from sfumato.data.households import unit_ids
from sfumato.data.microdata import Batch, Microdata, by_level
from sfumato.errors import DataError, ParameterError, join_names
from sfumato.masks.record_choice import (
    Keys,
    RecordChoice,
    Rule,
    among,
    at_key,
    checked_weights,
    combined,
    strata_columns,
)
from sfumato.schema import Level, Role, Schema
from sfumato.typing import Flags, Numbers, Whole


class RecordSuppression(RecordChoice, abstract=True):
    """Records that a rule selects are not released (matrix-masking paper, section IV: suppression of records).

    The survey weights of the others are multiplied, in each stratum of the schema or overall, by the ratio of the weights
    before and after, so that the weighted number of records does not change. With unit = 'household', all members of the
    household of a selected record are suppressed as well.
    """

    @abstractmethod
    def learn_rule(self, batch: Batch) -> Any:
        """Return the facts about all records that `picks` needs."""

    @abstractmethod
    def picks(self, batch: Batch, known: Any) -> Flags:
        """Return which records the rule selects, shape (n,)."""

    @abstractmethod
    def words(self, known: Any, noun: str) -> str:
        """Return a text that says which records are suppressed; `noun` names the units."""

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the strata and the household number."""
        return (*strata_columns(schema), *super().needs(schema))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn the rule, the households that it selects, and the ratio of weights in each stratum."""
        batch = data.batch(self.touches(data.schema))
        known, drop = self._dropped(batch)
        units = np.sort(unit_ids(batch, self.unit)[drop]) if self.unit == "household" else np.zeros(0, np.int64)
        keys, ratio = weight_ratios(batch, ~drop, checked_weights(batch))
        return self.learn(rule=Rule((known, units, keys, ratio), data, None))

    def _dropped(self, batch: Batch) -> tuple[Any, Flags]:
        """Return the result of `learn_rule`, and which records are suppressed, with all members of their households."""
        known = self.learn_rule(batch)
        drop = self.picks(batch, known)
        if self.unit == "household":
            units = unit_ids(batch, self.unit)
            drop = among(units, units[drop])
        return known, drop

    def choice(self, batch: Batch, draws: Draws) -> tuple[Flags, Numbers]:
        """Drop the selected records and their households."""
        known, units, keys, ratio = self.rule.facts
        drop = self.picks(batch, known)
        if self.unit == "household":
            drop = drop | (at_key(units, unit_ids(batch, self.unit)) >= 0)
        at = at_key(keys, combined(batch, strata_columns(batch.schema)))
        return ~drop, np.where(at >= 0, ratio[at], 1.0) if len(ratio) else np.ones(len(batch))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return A with a single 1 in each row; the rows depend on the data, and weights are not in X."""
        return self.chosen_form(data, draws, random=(), depends=("A",))

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that the rule selects no released record, that households are whole, and the weighted totals."""
        names = self.touches(before.schema)
        old, new = before.batch(names), after.batch(names)
        known, drop = self._dropped(old)
        if self.picks(new, known).any() or len(new) != int((~drop).sum()) or among(old.ids[drop], new.ids).any():
            raise DataError("some released records should have been suppressed, or the other way; nothing is released.")
        self.check_released(new)
        noun = "households" if self.unit == "household" and old.schema.one("household") else "records"
        whole = ", with all members of their households" if noun == "households" else ""
        says = f"{int(drop.sum()):,} of {len(old):,} records are suppressed: {self.words(known, noun)}{whole}"
        said = [Guarantee(step, says, "the rule applied to the released records picks none")]
        weights = checked_weights(old)
        if weights is None:
            says = "no survey weight is adjusted: the data have none"
            return (*said, Guarantee(step, says, "the schema names no weight"))
        strata = strata_columns(old.schema)
        keys, at = np.unique(combined(old, strata), return_inverse=True)
        now = checked_weights(new)
        sums = np.bincount(at_key(keys, combined(new, strata)), now, len(keys))
        if not np.allclose(sums, np.bincount(at, weights, len(keys)), rtol=1e-9):
            raise DataError("the survey weights do not add up to what they were; nothing is released.")
        where = f"in each of the {len(keys):,} strata" if strata else "overall"
        says = f"the survey weights of the released records add up to those of all records {where}"
        return (*said, Guarantee(step, says, "the sums of the weights compared"))

    def check_released(self, batch: Batch) -> None:
        """Refuse a release that breaks another promise of the method."""


class SuppressRecords(RecordSuppression):
    """Suppress the records that a condition picks, such as ``age > 90 and region == 'north'``.

    A comparison with a missing value selects nothing; write ``age is missing`` to select missing values.
    """

    where: str = param(
        doc="which records to suppress, as a condition such as \"age > 90 and region == 'north'\"", of_data="rule"
    )

    @override
    def validate(self) -> None:
        Condition.parse(self.where)

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the condition, the strata, and the household number."""
        return (*Condition.parse(self.where).columns, *super().needs(schema))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Check that the data have the columns of the condition, and learn the ratio of weights."""
        Condition.parse(self.where).check(data.schema)
        return super().fit(data, draws)

    def learn_rule(self, batch: Batch) -> Any:
        """Return nothing: the condition is sufficient."""
        return ()

    def picks(self, batch: Batch, known: Any) -> Flags:
        """Return where the condition is true."""
        return Condition.parse(self.where).holds(batch)

    @override
    def words(self, known: Any, noun: str) -> str:
        return f"those with {self.where}"


class SuppressExtremes(RecordSuppression):
    """Suppress the records with extreme values: beyond a quantile of a column, or beyond a limit given by value.

    Without any quantile or limit, records above the 0.99 quantile of a confidential column are suppressed. Missing values
    are not extreme.
    """

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns that the quantiles are of; all confidential numbers if none", columns="many"
    )
    lower_quantile: float | Mapping[str, float] | None = param(
        default=None, doc="records with a value below this quantile are suppressed", low=0, high=1, per_column=True
    )
    upper_quantile: float | Mapping[str, float] | None = param(
        default=None, doc="records with a value above this quantile are suppressed", low=0, high=1, per_column=True
    )
    low: Mapping[str, float] | None = param(
        default=None,
        doc="limits by column: records with a value below are suppressed",
        columns="weights",
        of_data="numbers",
    )
    high: Mapping[str, float] | None = param(
        default=None,
        doc="limits by column: records with a value above are suppressed",
        columns="weights",
        of_data="numbers",
    )

    @override
    def validate(self) -> None:
        for limits in (self.low, self.high):
            if limits is not None and not (isinstance(limits, Mapping) and limits):
                raise ParameterError("low and high give a limit for each column, such as high = {salary = 300}.")
        if self.columns is not None and self._by_limits:
            raise ParameterError(
                "columns are those of the quantiles: give lower_quantile or upper_quantile too, or leave columns out."
            )
        if (
            isinstance(self.lower_quantile, Mapping)
            and isinstance(self.upper_quantile, Mapping)
            and set(self.lower_quantile) != set(self.upper_quantile)
        ):
            raise ParameterError(
                "lower_quantile and upper_quantile name different columns. Name the same, or use two steps."
            )
        named = [set(q) for q in (self.lower_quantile, self.upper_quantile) if isinstance(q, Mapping)]
        if named and self.columns is not None and set(self.columns) != named[0]:
            raise ParameterError(
                "lower_quantile and upper_quantile must be given for each of the columns, and for no other."
            )

    @property
    def _by_limits(self) -> bool:
        """Whether only limits are given, and no quantiles."""
        return (
            self.lower_quantile is None
            and self.upper_quantile is None
            and (self.low is not None or self.high is not None)
        )

    def _quantile_columns(self) -> tuple[str, ...] | None:
        named = next((tuple(q) for q in (self.lower_quantile, self.upper_quantile) if isinstance(q, Mapping)), None)
        return self.columns if named is None else named

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the rule, the strata, and the household number."""
        limited = (*(self.low or ()), *(self.high or ()))
        quantiles = () if self._by_limits else self._quantile_columns() or schema.names(role="confidential")
        return (*limited, *quantiles, *super().needs(schema))

    def learn_rule(self, batch: Batch) -> dict[str, tuple[float, float]]:
        """Return the smallest and the largest released value of each column."""
        limits: dict[str, list[float]] = {}
        if not self._by_limits:
            lower, upper = (
                self.lower_quantile,
                0.99 if self.lower_quantile is None and self.upper_quantile is None else self.upper_quantile,
            )
            for name in _numeric(self._quantile_columns(), batch):
                numbers = batch.numbers(name)
                if not len(numbers := numbers[~np.isnan(numbers)]):
                    raise DataError(f"column '{name}' has no values at all, so it has no quantiles. Leave it out.")
                low, high = (q[name] if isinstance(q, Mapping) else q for q in (lower, upper))
                limits[name] = [
                    beyond if q is None else float(np.quantile(numbers, q, method="inverted_cdf"))
                    for q, beyond in ((low, -np.inf), (high, np.inf))
                ]
        for side, given in enumerate((self.low or {}, self.high or {})):
            for name in _numeric(tuple(given), batch):
                limit = limits.setdefault(name, [-np.inf, np.inf])
                limit[side] = (max, min)[side](limit[side], given[name])
        return {name: (low, high) for name, (low, high) in limits.items()}

    def picks(self, batch: Batch, known: Any) -> Flags:
        """Return the records with a value beyond a limit."""
        drop = np.zeros(len(batch), bool)
        for name, (low, high) in known.items():
            numbers = batch.numbers(name)
            drop |= (numbers < low) | (numbers > high)
        return drop

    @override
    def words(self, known: Any, noun: str) -> str:
        return f"those with an extreme value of {join_names(known)}"


class SuppressSmallAreas(RecordSuppression):
    """Suppress the records of small areas: a combination of columns that fewer than `least` records, or households, have.

    A missing area is an area too. If a suppressed household has members in another area, which then becomes too small, that
    area is suppressed as well, until all remaining areas are large enough.
    """

    columns: tuple[str, ...] = param(doc="columns that make up an area", columns="many", holds="categories")
    least: int = param(
        default=10, doc="smallest number of records or households (see unit) of an area", low=1, high=1e9, integer=True
    )

    def needs(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the areas, the strata, and the household number."""
        return (*self.columns, *super().needs(schema))

    def learn_rule(self, batch: Batch) -> Keys:
        """Return the keys of the areas that are too small, in order."""
        keys, area = np.unique(combined(batch, self.columns), return_inverse=True)
        named, units = np.unique(unit_ids(batch, self.unit), return_inverse=True)
        lives, who = np.divmod(
            np.unique(area * max(len(named), 1) + units), max(len(named), 1)
        )  # distinct pairs of unit and area
        small, here = np.zeros(len(keys), bool), np.ones(len(named), bool)
        while True:
            counts = np.bincount(lives[here[who]], minlength=len(keys))
            more = (counts < self.least) & ~small
            if not more.any():
                return keys[small]
            small |= more
            here[who[more[lives]]] = False

    def picks(self, batch: Batch, known: Any) -> Flags:
        """Return the records of small areas."""
        return at_key(known, combined(batch, self.columns)) >= 0

    def check_released(self, batch: Batch) -> None:
        """Count the released areas."""
        if len(self.learn_rule(batch)):
            raise DataError(
                f"some released areas have fewer than {self.least} records or households; nothing is released."
            )

    @override
    def words(self, known: Any, noun: str) -> str:
        return f"those of small areas of {join_names(self.columns)}, with fewer than {self.least} {noun} ({len(known):,} such)"


def _numeric(columns: tuple[str, ...] | None, batch: Batch) -> tuple[str, ...]:
    from sfumato.data.engine import LocalEngine

    if columns == ():
        return ()
    return numeric_targets(
        columns, Microdata(LocalEngine(batch.rows), batch.schema.keep(lambda a: a.name in batch.rows.columns))
    )


def weight_ratios(batch: Batch, keep: Flags, weights: Numbers | None) -> tuple[Keys, Numbers]:
    """Return the strata's keys, and the factor of the kept records' weights in each."""
    keys, at = np.unique(combined(batch, strata_columns(batch.schema)), return_inverse=True)
    size = np.ones(len(batch)) if weights is None else weights
    before, after = np.bincount(at, size, len(keys)), np.bincount(at[keep], size[keep], len(keys))
    if not len(keep):
        raise DataError("the data have no records, so there is nothing to suppress.")
    if not keep.any():
        raise DataError("all records would be suppressed, and nothing would be left to release. Use a narrower rule.")
    if gone := int((np.bincount(at[keep], minlength=len(keys)) == 0).sum()):
        raise DataError(
            f"{gone:,} of {len(keys):,} strata would lose all their records, and no weight could stand for them. "
            "Use a narrower rule, or merge strata first."
        )
    if ((after == 0) & (before > 0)).any():
        raise DataError(
            "only records with survey weight 0 would be left, overall or in a stratum, and nothing could stand for the "
            "suppressed ones. Use a narrower rule."
        )
    return keys, np.where(after > 0, before / np.where(after > 0, after, 1.0), 1.0)


class SuppressValues(Mask):
    """Values of some columns are released as missing where a rule holds, such as ``age > 90 and region == 'north'``.

    If a value in the rule is missing, the rule does not hold. A household column is suppressed for all members if the rule
    holds for one. For values beyond quantiles see Truncate, for whole records SuppressRecords, for whole columns
    SuppressColumns.
    """

    preserves_order: ClassVar[bool] = True
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "values are removed one by one, not whole records or whole attributes"

    columns: tuple[str, ...] = param(doc="columns whose values are suppressed", columns="many", holds="anything")
    where: str = param(
        doc="rule that says for which records, such as \"age > 90 and region == 'north'\"", of_data="rule"
    )
    homes: Any = learned("columns", "where", default=None)

    @override
    def validate(self) -> None:
        Condition.parse(self.where)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns, *Condition.parse(self.where).columns)))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Learn for which households the rule holds, if a column describes households; sorted ids."""
        rule, household = Condition.parse(self.where), data.schema.one("household")
        rule.check(data.schema)
        for name in self.columns:
            if data.kind(name) is Kind.OTHER:
                raise DataError(f"column '{name}' holds {data.kind(name)}, which cannot be suppressed one by one.")
            if data.schema[name].role is Role.WEIGHT:
                raise DataError(
                    f"'{name}' is the survey weight, and a record without one counts nowhere. To leave records out, use "
                    "suppress_records: it adjusts the weights of the others."
                )
        found = [np.zeros(0, np.int64)]
        if household is not None and any(data.schema[n].level is Level.HOUSEHOLD for n in self.columns):
            for rows in data.engine.batches([*rule.columns, household]):
                batch = Batch(rows, data.schema)
                found.append(np.unique(unit_ids(batch, "household")[rule.holds(batch)]))
        return self.learn(homes=Rule(np.unique(np.concatenate(found)), data, None))

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Suppress the values; the rule is learned again for other data than it was fitted on."""
        if not self.homes.is_for(data, None):
            return run_linked(self.fit(data, draws), data, draws)
        return super().run(data, draws, function)

    def _hit(self, batch: Batch, name: str, homes: Whole) -> Flags:
        """Return where the rule holds, for the record or for its household."""
        hit = Condition.parse(self.where).holds(batch)
        if batch.schema[name].level is not Level.HOUSEHOLD:
            return hit
        return hit | np.isin(unit_ids(batch, "household"), homes)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Suppress the values."""
        out = batch
        for name in self.columns:
            out = without_values(out, name, self._hit(batch, name, self.homes.facts))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Verify that no value is left where the rule holds and that household members agree; count the suppressed values."""
        schema = before.schema
        household = [n for n in (schema.one("household"),) if n is not None]
        batch = before.batch([*dict.fromkeys([*self.touches(schema), *household])])
        released = after.batch([*dict.fromkeys([*self.columns, *household])])
        for names in by_level(after.schema, self.columns):
            released.members(names)
        homes = unit_ids(batch, "household")[Condition.parse(self.where).holds(batch)]
        for name in self.columns:
            hit, gone = self._hit(batch, name, homes), released.missing(name)
            if (hit & ~gone).any():
                raise DataError(f"some values of '{name}' are still there where the rule holds; nothing is released.")
            count = int((gone & ~batch.missing(name)).sum())
            says = f"{name}: no value is released where {self.where}; {count:,} of {len(hit):,} are suppressed"
            yield Guarantee(step, says, "all released values checked")


def without_values(batch: Batch, name: str, hit: Flags) -> Batch:
    """Return the batch with a column's values missing where `hit` (n,) is true."""
    if batch.column(name).kind is Kind.NUMBER:
        values = np.where(hit, np.nan, batch.numbers(name))
        return batch.replace(name, lambda: values)
    return batch.with_codes(name, np.where(hit & ~batch.missing(name), -1, batch.column(name).codes[0]))


class SuppressColumns(Mask):
    """Do not release some columns, nor any that follows them (matrix-masking paper, section IV: B picks the columns that stay).

    A column that follows a suppressed one is a function of it and would reveal part of it.
    """

    preserves_order: ClassVar[bool] = True

    columns: tuple[str, ...] = param(doc="columns to leave out", columns="many", holds="anything")

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return schema.with_followers(schema[name].name for name in self.columns)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema without the suppressed columns."""
        gone = self.touches(schema)
        after = schema.keep(lambda a: a.name not in gone)
        if not len(after):
            raise DataError("every column would be suppressed: nothing would be left to release.")
        return after

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Drop the columns."""
        return batch.drop(self.touches(batch.schema))

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return M = XB: B is the identity without the removed columns."""
        names = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        kept = [i for i, n in enumerate(names) if n not in self.touches(data.schema)]
        b: Numbers = np.eye(len(names))[:, kept]
        return MatrixForm(names, tuple(names[i] for i in kept), B=b)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> tuple[Guarantee, ...]:
        """Verify that the columns are removed."""
        gone = self.touches(before.schema)
        if left := [name for name in gone if name in after.engine.kinds]:
            raise DataError(f"these columns are still in the data: {join_names(left)}; nothing is released.")
        linked = [name for name in gone if name not in self.columns]
        says = f"{join_names(self.columns)}: not released" + (
            f", nor what follows ({join_names(linked)})" if linked else ""
        )
        return (Guarantee(step, says, "the columns are absent from the released data"),)
