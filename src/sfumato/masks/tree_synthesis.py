"""Sequential synthesis by trees: each column is drawn from the leaves of a tree, given the columns before it (Reiter 2005)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato import kernels
from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.data import Batch, Column, Kind, Microdata, Rows
from sfumato.data.condition import Condition
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.masks.gadp import describes_household, is_number
from sfumato.masks.normal_synthesis import (
    Raw,
    Uniques,
    alone,
    compared_columns,
    copies_counted,
    implicates_parameter,
    new_columns_parameter,
    new_file_columns,
    new_records,
    originals_avoided,
    size_parameter,
    synthetic_schema,
    uniques_parameter,
)
from sfumato.schema import Role, Schema
from sfumato.typing import Flags, Numbers, Whole

LEVELS = 60
"""Most categories of a column that a tree tells apart: the most frequent ones."""
MANY = 20
"""A column of more categories than this is drawn after the others, unless its place is chosen."""

# --- One column: how trees read it.


@dataclass(frozen=True, eq=False)
class TreeColumn:
    """How trees read one column: as numbers, or as codes of categories, then one for the rare ones and one for a missing value."""

    name: str
    ordered: bool
    """Whether it explains other columns by its numbers."""
    numeric: bool
    """Whether its values are drawn as numbers; else as categories."""
    levels: tuple[object, ...] = ()
    """Categories that trees tell apart."""
    rare: tuple[object, ...] = ()
    shares: Numbers | None = None
    """Of the rare categories: how they divide."""

    @property
    def width(self) -> int:
        """The number of codes."""
        return len(self.levels) + 2

    @property
    def values(self) -> tuple[object, ...]:
        """All categories."""
        return self.levels + self.rare

    def codes(self, batch: Batch) -> Whole:
        """Return the code of each record's category, shape (n,)."""
        codes, values = batch.column(self.name).codes
        place = {v: i for i, v in enumerate(self.levels)}
        table = np.array([*(place.get(v, len(place)) for v in values), len(place) + 1], np.int64)
        return np.where(batch.missing(self.name), len(place) + 1, table[codes])

    def read(self, batch: Batch) -> kernels.cart.Predictor:
        """Return what explains other columns, shape (n,): numbers, NaN where missing, or codes."""
        one = alone(batch, self.name)
        return one.numbers(self.name) if self.ordered else self.codes(one).astype(np.uint8)

    def column(self, raw: NDArray[Any], like: Column) -> Column:
        """Return numbers, or places in `values` (-1 missing), as a column of the type that it had."""
        if self.numeric:
            return Column.from_numbers(raw, np.isnan(raw))
        return Column.from_codes(raw, self.values, like)


def learn_tree_column(data: Microdata, batch: Batch, name: str, leaf: int) -> TreeColumn:
    """Learn the categories of a column; those of fewer records than a leaf has count as one."""
    ordered = is_number(data, name)
    if ordered and data.kind(name) is Kind.NUMBER:
        return TreeColumn(name, True, True)
    codes, values = batch.codes(name)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    ranked = sorted(np.flatnonzero(counts).tolist(), key=lambda i: (-counts[i], i))
    own = [i for i in ranked[:LEVELS] if counts[i] >= leaf]
    rare = ranked[len(own) :]
    shares = counts[rare] / counts[rare].sum() if rare else None
    return TreeColumn(name, ordered, False, tuple(values[i] for i in own), tuple(values[i] for i in rare), shares)


# --- Draws from the leaves of a tree.


@dataclass(frozen=True, eq=False)
class LeafDraws:
    """A tree with the values of its leaves: a record gets the value of a donor, drawn among those of its leaf.

    A number that few records share gets noise.
    """

    tree: kernels.cart.CartTree
    donors: Numbers | NDArray[np.uint8]
    """Numbers or codes, leaf by leaf, each leaf in order of value."""
    noise: kernels.cart.DonorNoise | None = None
    """None: every value is released as it is."""

    @classmethod
    def of_codes(
        cls, explaining: Explaining, rows: Whole, y: Whole, classes: int, leaf: int, complexity: float
    ) -> Self:
        """Grow a tree for codes below `classes`; the rows' order makes no difference."""
        tree = kernels.cart.grow_cart(explaining, rows, y.astype(np.int32), np.zeros(0), classes, leaf, complexity)
        return cls(*_sorted_leaves(tree, y.astype(np.uint8)))

    @classmethod
    def of_numbers(cls, explaining: Explaining, rows: Whole, y: Numbers, leaf: int, complexity: float) -> Self:
        """Grow a tree for numbers."""
        known = y[rows]
        centre = known.mean()
        scale = float(np.abs(known - centre).max()) or 1.0  # squares of huge numbers have no room
        tree = kernels.cart.grow_cart(explaining, rows, None, (y - centre) / scale, 1, leaf, complexity)
        return cls(*_sorted_leaves(tree, y))

    def draw(self, explaining: Explaining, units: Whole, draws: Draws, name: str, proper: bool) -> NDArray[Any]:
        """Draw a value for each unit, given columns of shape (n,); units (n,) are what random numbers depend on.

        If `proper`, donors have the weights of a Bayesian bootstrap (Rubin 1981), drawn anew for each implicate.
        """
        leaf = kernels.cart.leaves_of(self.tree, explaining, len(units))
        first, count = self.tree.first[leaf].astype(np.int64), self.tree.size[leaf]
        u = draws.uniforms(units, f"{name} donor")
        if proper:
            weights = -np.log(draws.uniforms(np.arange(len(self.donors)), f"{name} bootstrap"))
            upto = np.concatenate([[0.0], np.cumsum(weights)])
            wanted = upto[first] + u * (upto[first + count] - upto[first])
            at = np.clip(np.searchsorted(upto, wanted, side="right") - 1, first, first + count - 1)
        else:
            at = first + np.minimum((u * count).astype(np.int64), count - 1)
        y = self.donors[at]
        return y if self.noise is None else self.noise.add(y, at, draws.normals(units, f"{name} smooth"))

    def smoothed(self, shared: int, leaf: int) -> LeafDraws:
        """Return the draws with noise on numbers that fewer than `shared` records have; see `kernels.cart.leaf_noise`."""
        ends = _ends(self.tree)
        noise = kernels.cart.leaf_noise(np.asarray(self.donors, np.float64), self.tree.size[ends], shared, leaf)
        return self if noise is None else replace(self, noise=noise)


Explaining = Sequence[Numbers | NDArray[np.uint8]]
"""Columns that explain, shape (n,) each: numbers, NaN where missing, or codes of categories."""
Reads = Mapping[str, Numbers | NDArray[np.uint8]]
"""The same by the name of the column."""


def _sorted_leaves(tree: kernels.cart.CartTree, y: NDArray[Any]) -> tuple[kernels.cart.CartTree, NDArray[Any]]:
    """Return a tree without its rows, and their values leaf by leaf, each leaf in order of value."""
    ends = _ends(tree)
    leaf_of = np.repeat(np.arange(len(ends), dtype=np.int32), tree.size[ends])
    values = y[tree.rows]
    return tree._replace(rows=np.zeros(0, np.int32)), values[np.lexsort((values, leaf_of))]


def _ends(tree: kernels.cart.CartTree) -> Whole:
    """Return the leaves in the order of their rows."""
    ends = np.flatnonzero(tree.column < 0)
    return ends[np.argsort(tree.first[ends])]


class FixedValue(NamedTuple):
    """A rule: where a condition holds, a column has one value; an empty text is a missing one."""

    condition: Condition
    value: Any

    def wrong(self, batch: Batch, name: str) -> int:
        """Return how many records the condition holds for that have another value."""
        holds = self.condition.holds(batch)
        return int((holds & ~self.agrees(batch, name)).sum())

    def agrees(self, batch: Batch, name: str) -> Flags:
        """Return which records have the value."""
        if self.value == "":
            return batch.missing(name)
        codes, values = batch.codes(name)
        return np.array([*(v == self.value for v in values), False], bool)[codes]


@dataclass(frozen=True, eq=False)
class TreeModel:
    """One column given others: whether its value is missing, then the value; and values that rules fix."""

    column: TreeColumn
    predictors: tuple[TreeColumn, ...]
    gap: LeafDraws | None
    """Of a number: code 1 where it is missing; None if all or none are."""
    value: LeafDraws | None
    """None if it is always missing."""
    rules: tuple[FixedValue, ...] = ()

    def draw(self, out: Batch, reads: Reads, units: Whole, draws: Draws, proper: bool) -> NDArray[Any]:
        """Return numbers (NaN missing) or places in the column's values (-1 missing) of records drawn so far in `out`."""
        name, column = self.column.name, self.column
        x = [reads[c.name] for c in self.predictors]
        if column.numeric:
            raw = np.full(len(units), np.nan) if self.value is None else self.value.draw(x, units, draws, name, proper)
            if self.gap is not None:
                raw = np.where(self.gap.draw(x, units, draws, f"{name} missing", proper) > 0, np.nan, raw)
        else:
            missing = np.full(len(units), column.width - 1)
            code = missing if self.value is None else self.value.draw(x, units, draws, name, proper).astype(np.int64)
            raw = np.where(code == column.width - 1, -1, code)
            if column.shares is not None:
                u = draws.uniforms(units, f"{name} rare")
                rare = len(column.levels) + np.searchsorted(np.cumsum(column.shares)[:-1], u, side="right")
                raw = np.where(code == len(column.levels), rare, raw)
        for rule in self.rules:
            raw = np.where(rule.condition.holds(out), self._place(rule.value), raw)
        return raw

    def _place(self, value: Any) -> Any:
        if self.column.numeric:
            return np.nan if value == "" else float(value)
        return -1 if value == "" else self.column.values.index(value)


# --- The masks.


def _fixed_values(rules: Mapping[str, Mapping[str, Any]] | None, name: str) -> tuple[FixedValue, ...]:
    return tuple(FixedValue(Condition.parse(text), value) for text, value in ((rules or {}).get(name) or {}).items())


class SequentialTrees(Mask, abstract=True):
    """Columns that are drawn one after the other, each from the leaves of a tree given the columns before it."""

    scope: ClassVar[Scope] = Scope.ROW
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its columns are drawn from leaves of trees, not computed from the records"

    columns: tuple[str, ...] | None = new_columns_parameter()
    leaf: int = param(
        default=5,
        doc="smallest number of records in a leaf, from whose values a record's value is drawn",
        low=1,
        high=1e6,
        integer=True,
        scale="log",
        usual=(5, 200),
    )
    complexity: float = param(
        default=1e-8,
        doc="smallest share of a column's variance (of categories: of its Gini index) that a split must explain",
        low=0,
        high=1,
    )
    shared: int = param(
        default=10,
        doc="a number that at least this many records share is released as it is, others are smoothed; 1 releases every number",
        low=1,
        high=1e6,
        integer=True,
    )
    visit: tuple[str, ...] | None = param(
        default=None,
        doc="columns that are drawn first, in this order; the others follow as in the file, those of many categories last",
        columns="many",
        holds="anything",
    )
    predictors: Mapping[str, Any] | None = param(
        default=None,
        doc="for a column, the columns that explain it; all that are known when it is drawn if none",
    )
    rules: Mapping[str, Any] | None = param(
        default=None,
        doc='values that follow from others, by column: { marital = { "age < 16" = "single" } }; an empty text is a missing value',
    )
    implicates: int = implicates_parameter()
    proper: bool = param(
        default=False, doc="draw the shares of a leaf's values too, by a Bayesian bootstrap for each implicate"
    )
    names: Any = learned("columns", "visit", default=None)
    models: Any = learned(
        "columns", "leaf", "complexity", "shared", "visit", "predictors", "rules", "given", default=None
    )

    @override
    def validate(self) -> None:
        for what, setting in (("predictors", self.predictors), ("rules", self.rules)):
            if setting is not None and not isinstance(setting, Mapping):
                raise ParameterError(f"{what} of {self.name} must be given by column, such as {_EXAMPLES[what]}.")
        if self.predictors is not None:
            listed = {str(n): self._listed(n, some) for n, some in self.predictors.items()}
            object.__setattr__(self, "predictors", listed)
        if self.rules is not None:
            checked = {str(n): self._ruled(n, some) for n, some in self.rules.items()}
            object.__setattr__(self, "rules", checked)

    def _listed(self, name: str, some: Any) -> tuple[str, ...]:
        names = (some,) if isinstance(some, str) else some
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise ParameterError(f"predictors of '{name}' must be a list of column names.")
        if name in names:
            raise ParameterError(f"'{name}' cannot explain itself. Take it out of its predictors.")
        return tuple(names)

    def _ruled(self, name: str, some: Any) -> dict[str, Any]:
        if not isinstance(some, Mapping) or not some:
            raise ParameterError(
                f"the rules of '{name}' must be conditions with a value each, such as {_EXAMPLES['rules']}."
            )
        for text, value in some.items():
            if name in Condition.parse(text).columns:
                raise ParameterError(
                    f"a rule of '{name}' depends on '{name}' itself. Write it in terms of other columns."
                )
            if not isinstance(value, str | int | float | None):
                raise ParameterError(f"the value of a rule of '{name}' must be a text, a number, or true or false.")
        return {str(text): "" if value is None else value for text, value in some.items()}

    def given_names(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that are released as they are and explain the drawn ones."""
        return ()

    @abstractmethod
    def drawn_names(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that are drawn, in the order of the file."""

    def by_household(self, schema: Schema, name: str) -> bool:
        """Whether a column is drawn once for a household."""
        return False

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Grow a tree for each column, on the records in order of their ids."""
        schema = data.schema
        names, given = self.drawn_names(schema), self._usable(data)
        if not names:
            raise DataError("there is no column to synthesise. Name the columns (columns=...).")
        self._check_named(names)
        household = schema.one("household")
        needed = [household] if household is not None and any(self.by_household(schema, n) for n in names) else []
        whole = data.batch(list(dict.fromkeys([*given, *names, *needed])))
        in_order = bool((whole.ids[1:] > whole.ids[:-1]).all())
        batch = whole if in_order else whole.keep(np.argsort(whole.ids, kind="stable"))
        if len(batch) < self.leaf:
            raise DataError(f"{len(batch):,} records are fewer than a leaf has ({self.leaf}). Take smaller leaves.")
        columns = {n: learn_tree_column(data, alone(batch, n), n, self.leaf) for n in (*given, *names)}
        order = self._order(names, given, columns, schema)
        reads = {n: columns[n].read(batch) for n in columns}
        models, before = [], list(given)
        for name in order:
            models.append(
                self._learn(batch, columns[name], [columns[n] for n in self._explaining(name, before, schema)], reads)
            )
            before.append(name)
        return self.learn(names=tuple(names), models=tuple(models))

    def _usable(self, data: Microdata) -> tuple[str, ...]:
        """Return the given columns that trees can read: dates and the like are left out."""
        return tuple(n for n in self.given_names(data.schema) if data.kind(n) not in (Kind.DATE, Kind.OTHER))

    def _check_named(self, names: Sequence[str]) -> None:
        for what in ("visit", "predictors", "rules"):
            for name in getattr(self, what) or ():
                if name not in names:
                    raise DataError(
                        f"{what} of {self.name}: {unknown_name('column', name, names, 'the synthetic columns')}"
                    )

    def _order(
        self, names: Sequence[str], given: Sequence[str], columns: Mapping[str, TreeColumn], schema: Schema
    ) -> tuple[str, ...]:
        """Return the order of drawing, such that the columns of a rule stand before the column that it is about."""
        needs = {
            n: {c for rule in _fixed_values(self.rules, n) for c in rule.condition.columns} - set(given) for n in names
        }
        for name, wanted in needs.items():
            if absent := [c for c in wanted if c not in names]:
                raise DataError(
                    f"a rule of '{name}' depends on {join_names(absent)}, which is neither given nor synthetic. Add it to given, or "
                    "to columns."
                )
        weight = schema.one("weight")

        def late(name: str) -> tuple[bool, bool, bool]:
            wide = len(columns[name].values) > MANY and not columns[name].ordered
            return not self.by_household(schema, name), name == weight, wide

        first = self.visit or ()
        left = [*first, *sorted((n for n in names if n not in first), key=late)]
        order: list[str] = []
        while left:
            ready = [n for n in left if not needs[n] - set(order)]
            if not ready or (left[0] in first and ready[0] != left[0]):
                later = join_names(sorted(needs[left[0]] - set(order)))
                raise DataError(
                    f"a rule of '{left[0]}' depends on columns that are drawn after it: {later}. Change the order (visit=...), or "
                    "the rules."
                )
            order.append(ready[0])
            left.remove(ready[0])
        return tuple(order)

    def _explaining(self, name: str, before: Sequence[str], schema: Schema) -> list[str]:
        """Return the columns that explain one; a household's value must not depend on one member."""
        known = [n for n in before if self.by_household(schema, n) or not self.by_household(schema, name)]
        if self.predictors is None or name not in self.predictors:
            return known
        for other in self.predictors[name]:
            if other not in known:
                raise DataError(
                    f"'{other}' cannot explain '{name}': it is neither given nor drawn before it"
                    + (", or it describes persons and not households" if other in before else "")
                    + f". Known then: {join_names(known) or 'none'}. Change visit=, given= or predictors=."
                )
        return list(self.predictors[name])

    def _learn(self, batch: Batch, column: TreeColumn, explaining: Sequence[TreeColumn], reads: Reads) -> TreeModel:
        name = column.name
        rows = np.arange(len(batch))
        if self.by_household(batch.schema, name):
            for other in (name, *(c.name for c in explaining)):
                rows = np.sort(batch.members([other])[0])
        rules = _fixed_values(self.rules, name)
        for rule in rules:
            rule.condition.check(batch.schema)
            self._check_rule(batch, column, rule)
            rows = rows[~rule.condition.holds(batch)[rows]]
        x, limits = [reads[c.name] for c in explaining], {"leaf": self.leaf, "complexity": self.complexity}
        one = alone(batch, name)
        if not column.numeric:
            value = LeafDraws.of_codes(x, rows, column.codes(one), column.width, **limits) if len(rows) else None  # type: ignore[arg-type]
            return TreeModel(column, tuple(explaining), None, value, rules)
        y = one.numbers(name)
        if np.isinf(y).any():
            raise DataError(f"column '{name}' holds infinite values. Set them to missing, or leave it out of columns=.")
        gap = np.isnan(y)
        known = rows[~gap[rows]]
        if 0 < len(known) < self.leaf:
            raise DataError(
                f"column '{name}' has values in fewer than {self.leaf} records, too few for a leaf. Leave it out of columns=."
            )
        missing = value = None
        if 0 < len(known) < len(rows):
            missing = LeafDraws.of_codes(x, rows, gap.astype(np.int64), 2, **limits)  # type: ignore[arg-type]
        if len(known):
            value = LeafDraws.of_numbers(x, known, y, **limits).smoothed(self.shared, self.leaf)  # type: ignore[arg-type]
        return TreeModel(column, tuple(explaining), missing, value, rules)

    def _check_rule(self, batch: Batch, column: TreeColumn, rule: FixedValue) -> None:
        name = column.name
        typed = isinstance(rule.value, int | float) and not isinstance(rule.value, bool)
        if rule.value != "" and (not typed if column.numeric else rule.value not in column.values):
            what = "a number is needed" if column.numeric else "no record has this category"
            raise DataError(f"the value of the rule \"{rule.condition.text}\" does not suit '{name}': {what}.")
        if wrong := rule.wrong(batch, name):
            raise DataError(
                f"{wrong:,} records meet \"{rule.condition.text}\" and have another value of '{name}' than its rule says. "
                "Correct the data, or the rule."
            )

    def records_drawn(self, out: Batch, like: Batch, draws: Draws) -> Batch:
        """Return records with the columns drawn; `out` has those that are given, `like` columns of the wanted types."""
        reads: dict[str, kernels.cart.Predictor] = {}
        for model in self.models:
            for other in model.predictors:
                if other.name not in reads:
                    reads[other.name] = other.read(out)
            name = model.column.name
            units = like.units(name) if self.by_household(like.schema, name) else out.ids
            raw = model.draw(out, reads, units, draws, self.proper)
            out = out.with_columns({name: model.column.column(raw, like.column(name))})
            if model.column.numeric:
                out = out.replace(name, partial(np.asarray, raw))
        return out

    def draws_said(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Yield what is said of leaves, smoothed numbers, rare categories and rules."""
        for model in self.models:
            name, column = model.column.name, model.column
            if column.numeric:
                yield self._numbers_said(before.batch([name]), after.batch([name]), name, step)
            if column.rare:
                says = f"{name}: {len(column.rare):,} rare categories are drawn without regard to other columns"
                yield Guarantee(
                    step, says, f"counted: fewer than {self.leaf} records each, or beyond the {LEVELS} most frequent"
                )
            for rule in model.rules:
                batch = after.batch([name, *rule.condition.columns])
                if wrong := rule.wrong(batch, name):
                    raise DataError(
                        f'the rule "{rule.condition.text}" is broken by {wrong:,} synthetic records; nothing is released. Its value '
                        f"may lie beyond the bounds of '{name}'."
                    )
                yield Guarantee(
                    step, f"{name}: a rule on {join_names(rule.condition.columns)} holds for every record", "counted"
                )

    def _numbers_said(self, before: Batch, after: Batch, name: str, step: str) -> Guarantee:
        x, y = before.numbers(name), after.numbers(name)
        values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        released = y[~np.isnan(y)]
        if self.shared == 1:
            return Guarantee(step, f"{name}: values of records are released as they are", "shared = 1")
        hit = int(np.isin(released, values[counts < self.shared]).sum())
        says = (
            f"{name}: {hit:,} of {len(released):,} drawn values equal one that fewer than {self.shared} records have; such values "
            "are smoothed, not copied"
        )
        return Guarantee(step, says, "every drawn value compared with every original one")


_EXAMPLES = {"predictors": '{ income = ["age", "sex"] }', "rules": '{ marital = { "age < 16" = "single" } }'}


class TreeSynthesis(SequentialTrees):
    """Partially synthetic data by trees: columns are drawn one after the other, given those that are released as they are.

    Each column has a tree (CART) on the given columns and those drawn before it. A record falls into a leaf, and gets the value of
    one of the leaf's records, drawn at random (Reiter 2005; Nowok, Raab and Dibben 2016). Numbers that few records share are
    smoothed. Whether a number is missing is drawn first. Columns that describe households are drawn once per household.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = TreeSynthesis("salary", given=["age", "sex"], implicates=3).apply(teachers(500), Draws(1))
    >>> len(release.implicates), len(release.masked)
    (3, 500)
    """

    columns: tuple[str, ...] | None = param(
        default=None, doc="columns to draw; all confidential ones if none", columns="many", holds="anything"
    )
    given: tuple[str, ...] | None = param(
        default=None,
        doc="columns that are released as they are and explain the drawn ones; all others but the survey's design if none",
        columns="many",
        holds="anything",
    )

    @override
    def validate(self) -> None:
        super().validate()
        if both := [c for c in self.columns or () if c in (self.given or ())]:
            raise ParameterError(
                f"{self.name} cannot draw {join_names(both)} and take it as given, too. Name it in one of the two."
            )

    @override
    def drawn_names(self, schema: Schema) -> tuple[str, ...]:
        named = self.columns or tuple(n for n in schema.names(role="confidential") if n not in (self.given or ()))
        return schema.free(named)

    @override
    def given_names(self, schema: Schema) -> tuple[str, ...]:
        drawn = self.drawn_names(schema)
        if self.given is not None:
            return tuple(n for n in self.given if n not in drawn)
        moved = set(schema.with_followers(drawn))
        wanted = (Role.KEY, Role.CONFIDENTIAL, Role.OTHER)
        return tuple(a.name for a in schema if a.role in wanted and a.name not in moved | set(drawn))

    @override
    def by_household(self, schema: Schema, name: str) -> bool:
        return describes_household(schema, name)

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.drawn_names(schema), *self.given_names(schema)]))

    @override
    def _usable(self, data: Microdata) -> tuple[str, ...]:
        return tuple(self.given_names(data.schema)) if self.given is not None else super()._usable(data)

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw the columns of each record."""
        return self.records_drawn(batch, batch, draws)

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Say what the released values depend on."""
        given = sorted({c.name for model in self.models for c in model.predictors} - set(self.names))
        says = f"{join_names(self.names)}: drawn among at least {self.leaf} records alike in {join_names(given) or 'nothing'}"
        yield Guarantee(step, says, "by construction: values of a leaf; a record's own value may be among them")
        yield from self.draws_said(before, after, step)


class FullTreeSynthesis(SequentialTrees):
    """Fully synthetic data by trees: a new file whose columns are drawn one after the other, each given those before it.

    The first column is drawn from its distribution. Each further one has a tree (CART) on the columns before it, from whose leaves
    values are drawn (Reiter 2005; Nowok, Raab and Dibben 2016). Numbers that few records share are smoothed. Whether a number is
    missing is drawn first. Synthetic records belong to no household; survey weights are drawn as a number, last, and scaled to
    the size of the new file.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> release = FullTreeSynthesis(["age", "sex", "salary"], size=100).apply(teachers(500), Draws(1))
    >>> release.masked.schema.names(), len(release.masked)
    (('age', 'sex', 'salary'), 100)
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False

    size: int | None = size_parameter()
    uniques: Uniques = uniques_parameter()
    records: Any = learned("columns", default=None)

    @override
    def drawn_names(self, schema: Schema) -> tuple[str, ...]:
        return schema.free(new_file_columns(self.columns, schema))

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        return self.drawn_names(schema)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the new file."""
        return synthetic_schema(schema, new_file_columns(self.columns, schema))

    @override
    def fit(self, data: Microdata, draws: Draws) -> Self:
        return super().fit(data, draws).learn(records=len(data))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw new records; those that copy a unique original are drawn again."""
        return new_records(
            self.size or self.records,
            lambda ids: self._drawn(ids, batch, draws),
            lambda ids, raw: self._built(ids, raw, batch),
            originals_avoided(batch, self.touches(batch.schema), self.uniques),
        )

    def _drawn(self, ids: Whole, batch: Batch, draws: Draws) -> Raw:
        """Return numbers, or places among the categories, of new records."""
        out = self.records_drawn(Batch(Rows(ids, {}), self.schema_after(batch.schema)), batch, draws)
        made: Raw = {}
        for column in (model.column for model in self.models):
            if column.numeric:
                made[column.name] = out.numbers(column.name)
                continue
            codes, values = out.column(column.name).codes
            place = {v: i for i, v in enumerate(column.values)}
            made[column.name] = np.array([*(place[v] for v in values), -1])[codes]
        return made

    def _built(self, ids: Whole, raw: Raw, batch: Batch) -> Batch:
        """Return new records with the types of the original's columns; columns that follow another are filled in later."""
        schema = self.schema_after(batch.schema)
        parts = {model.column.name: model.column for model in self.models}
        columns = {}
        for name in (n for n in batch.rows.columns if n in schema):
            like = batch.column(name)
            if name not in parts:
                columns[name] = Column.from_codes(np.full(len(ids), -1), [], like)
                continue
            columns[name] = parts[name].column(raw[name], like)
        out = Batch(Rows(ids, columns), schema)
        for name in (n for n, part in parts.items() if part.numeric):
            scale = self.records / (self.size or self.records) if name == schema.one("weight") else 1.0
            out = out.replace(name, partial(np.multiply, raw[name], scale))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """Compare the synthetic records with all original ones, and say how they were drawn."""
        names = compared_columns(self.touches(before.schema), before.schema)
        yield from copies_counted(before, after, names, self.uniques, step)
        yield from self.draws_said(before, after, step)
