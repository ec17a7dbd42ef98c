"""Synthesis under a privacy bound: noisy margins, chosen for a workload, and a graphical model fitted to them (AIM)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, Mask, Scope, learned, param
from sfumato.data import Batch, Column, Kind, Microdata, Rows
from sfumato.errors import DataError, ParameterError, join_names, refuse_unknown
from sfumato.kernels import graphical_model as graph
from sfumato.kernels.graphical_model import Group, JunctionTree, NoisyMargin
from sfumato.lazy import special
from sfumato.masks.normal_synthesis import (
    Raw,
    implicates_parameter,
    new_columns_parameter,
    new_file_columns,
    new_records,
    size_parameter,
    synthetic_schema,
)
from sfumato.schema import Attribute, Scale, Schema, TreeHierarchy
from sfumato.schema.hierarchy import label_of
from sfumato.typing import Numbers, Whole

# --- The accounts: zero-concentrated differential privacy (Bun and Steinke 2016).

MEASURED = 0.9
"""Share of a round's ρ that is spent on the noise of its margin; the rest is spent on choosing it."""


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a δ for which ρ-zCDP is (ε, δ)-private: Canonne, Kamath and Steinke (2020), corollary 13.

    min over α > 1 of exp((α - 1)(αρ - ε)) (1 - 1/α)^α / (α - 1), by bisection of the derivative of its logarithm.
    """
    low, high = 1.0 + 1e-9, 2.0 + (epsilon + 1) / (2 * rho)

    def slope(a: float) -> float:
        return (2 * a - 1) * rho - epsilon + math.log1p(-1 / a)

    while slope(high) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    log_delta = (high - 1) * (high * rho - epsilon) + high * math.log1p(-1 / high) - math.log(high - 1)
    return min(1.0, math.exp(min(log_delta, 0.0)))


@cache
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP is (ε, δ)-private by `zcdp_delta`."""
    low, high = 1e-14, epsilon + 1.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if zcdp_delta(middle, epsilon) <= delta else (low, middle)
    return low


def choice_mu(epsilon: float) -> float:
    """Return the μ of Gaussian differential privacy that the exponential mechanism has: 2Φ⁻¹(1/(1 + e^(-ε/2))).

    Its log-likelihood ratio has a range of ε, so that a trade-off between two points is the worst (Dong, Durfee and Rogers 2020);
    the normal one with this μ lies below it.
    """
    return float(2 * special.ndtri(special.expit(epsilon / 2)))


@dataclass(frozen=True)
class Spending:
    """One use of the records: measuring a margin with noise, or choosing one."""

    group: Group
    """Variables of the margin; empty for a choice."""
    rho: float
    mu: float


@dataclass
class ZCDPAccount:
    """What has been spent of a promised ρ; spending more is refused."""

    promise: float
    spent: list[Spending] = field(default_factory=list)

    @property
    def used(self) -> float:
        """The sum of all ρ."""
        return math.fsum(s.rho for s in self.spent)

    @property
    def mu(self) -> float:
        """The μ of Gaussian differential privacy of everything together: the root of the sum of squares."""
        return math.sqrt(math.fsum(s.mu**2 for s in self.spent))

    @property
    def left(self) -> float:
        """What may still be spent."""
        return self.promise - self.used

    def measure(self, group: Group, sigma: float) -> None:
        """Charge normal noise on counts of which one record changes one, by one: ρ = 1/2σ², μ = 1/σ."""
        self._charge(Spending(group, 1 / (2 * sigma**2), 1 / sigma))

    def choose(self, epsilon: float) -> None:
        """Charge a choice by the exponential mechanism: ρ = ε²/8 (Cesar and Rogers 2021)."""
        self._charge(Spending((), epsilon**2 / 8, choice_mu(epsilon)))

    def _charge(self, spending: Spending) -> None:
        if self.used + spending.rho > self.promise * (1 + 1e-9):
            raise DataError("the privacy budget is spent; nothing is released.")
        self.spent.append(spending)


# --- The mechanism.

ROUNDS = 16
"""Rounds for each column, before noise is lowered: the first noise is that of ρ divided by all rounds."""
STEPS, LAST_STEPS = 40, 1000
"""Steps of the fit after each round, and after the last."""
GRID = 1024
"""Steps of the grid in a standard deviation: the last digits of a noisy count tell nothing (Mironov 2012)."""
Counts = Callable[[Group], Numbers]


@dataclass(frozen=True, eq=False)
class MarginalFit:
    """A graphical model of noisy margins, and what they cost."""

    tree: JunctionTree
    margins: tuple[Numbers, ...]
    total: float
    account: ZCDPAccount


def workload_weights(workload: Sequence[Group]) -> dict[Group, float]:
    """Return all margins of the workload's margins, each with the number of variables that it shares with them, summed up."""
    parts = {p for group in workload for k in range(1, len(group) + 1) for p in combinations(group, k)}
    ordered = sorted(parts, key=lambda p: (len(p), p))
    return {p: float(sum(len(set(p) & set(group)) for group in workload)) for p in ordered}


@dataclass(eq=False)
class AdaptiveMargins:
    """AIM (McKenna, Mullins, Sheldon and Miklau 2022, algorithm 4): in each round the margin is measured that the model has worst.

    `counts` returns a margin of the records: whatever is asked of it is charged to the account before it is used.
    """

    counts: Counts
    sizes: tuple[int, ...]
    workload: Sequence[Group]
    account: ZCDPAccount
    draws: Draws
    cells: int

    def fit(self) -> MarginalFit:
        """Measure all columns, then margins chosen one by one until the budget is spent."""
        weights = workload_weights(self.workload)
        columns = [(v,) for v in range(len(self.sizes))]
        rho = self.account.promise / (ROUNDS * len(self.sizes))
        sigma, epsilon = _noise_and_choice(rho)
        measured = [self._measured(group, sigma) for group in columns]
        tree = graph.junction_tree(self.sizes, columns)
        theta, margins = graph.fit_margins(tree, measured, {}, graph.total_of(measured), STEPS)
        last = False
        while not last:
            if self.account.left < 2 * rho:
                last, rho = True, self.account.left
                sigma, epsilon = _noise_and_choice(rho)
            share = (self.account.used + rho) / self.account.promise
            groups = {m.group for m in measured}
            group = self._chosen(self._small(weights, groups, tree, share), tree, margins, sigma, epsilon)
            before = graph.margin_of(tree, margins, group)
            measured.append(self._measured(group, sigma))
            tree = graph.junction_tree(self.sizes, groups | {group})
            total = graph.total_of(measured)
            theta, margins = graph.fit_margins(tree, measured, theta, total, STEPS)
            moved = np.abs(graph.margin_of(tree, margins, group) - before).sum()
            if (
                moved <= math.sqrt(2 / math.pi) * sigma * before.size
            ):  # noise is all that was learned: less noise from now on
                rho *= 4
                sigma, epsilon = sigma / 2, epsilon * 2
        total = graph.total_of(measured)
        _, margins = graph.fit_margins(tree, measured, theta, total, LAST_STEPS)
        return MarginalFit(tree, tuple(margins), total, self.account)

    def _measured(self, group: Group, sigma: float) -> NoisyMargin:
        """Return a margin with normal noise, rounded to a grid on which sums are exact."""
        self.account.measure(group, sigma)
        exact = self.counts(group)
        place = f"margin {len(self.account.spent)}"
        noise = self.draws.normals(np.arange(exact.size), place).reshape(exact.shape)
        step = 2.0 ** math.floor(math.log2(sigma / GRID))
        return NoisyMargin(group, exact + np.round(noise * sigma / step) * step, sigma)

    def _small(
        self, weights: Mapping[Group, float], groups: set[Group], tree: JunctionTree, share: float
    ) -> dict[Group, float]:
        """Return the margins with which the model is small enough: its size may grow as the budget is spent."""
        limit = self.cells * share
        return {
            g: w
            for g, w in weights.items()
            if graph.home_of(tree, g) >= 0 or graph.junction_tree(self.sizes, groups | {g}).cells <= limit
        }

    def _chosen(
        self,
        weights: Mapping[Group, float],
        tree: JunctionTree,
        margins: Sequence[Numbers],
        sigma: float,
        epsilon: float,
    ) -> Group:
        """Choose a margin by the exponential mechanism: score w(|count - model|₁ - √(2/π)σ cells), of sensitivity max w."""
        self.account.choose(epsilon)
        groups = list(weights)
        scores = np.array([self.score(g, weights[g], graph.margin_of(tree, margins, g), sigma) for g in groups])
        u = self.draws.uniforms(np.arange(len(groups)), f"choice {len(self.account.spent)}")
        gumbel = -np.log(-np.log(u))
        return groups[int(np.argmax(epsilon * scores / (2 * max(weights.values())) + gumbel))]

    def score(self, group: Group, weight: float, model: Numbers, sigma: float) -> float:
        """Return how much worse than noise the model has a margin; one record more or less moves it by the weight at most."""
        off = float(np.abs(self.counts(group) - model).sum())
        return weight * (off - math.sqrt(2 / math.pi) * sigma * model.size)


def _noise_and_choice(rho: float) -> tuple[float, float]:
    """Return σ of a round's margin and ε of its choice, which together cost ρ."""
    return math.sqrt(1 / (2 * MEASURED * rho)), math.sqrt(8 * (1 - MEASURED) * rho)


# --- The values that a column can have, as the public knows them.


@dataclass(frozen=True, eq=False)
class PublicDomain:
    """The values that a column can have: listed categories, or intervals between public bounds; and last, a missing value."""

    name: str
    values: tuple[Any, ...] | None
    edges: Numbers | None
    integer: bool = False

    @property
    def size(self) -> int:
        """The number of codes."""
        return 1 + (len(self.values) if self.values is not None else len(self.edges) - 1)  # type: ignore[arg-type]

    def codes(self, batch: Batch) -> Whole:
        """Return the code of each record: numbers beyond the bounds are in the outer intervals, unlisted categories missing."""
        gap = batch.missing(self.name)
        if self.edges is not None:
            x = np.nan_to_num(batch.numbers(self.name))
            found = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, self.size - 2)
        else:
            place = {label_of(v): i for i, v in enumerate(self.values or ())}
            codes, values = batch.column(self.name).codes
            found = np.array([*(place.get(label_of(v), self.size - 1) for v in values), self.size - 1])[codes]
        return np.where(gap, self.size - 1, found).astype(np.int64)

    def drawn(self, codes: Whole, u: Numbers) -> Any:
        """Return numbers drawn evenly within their intervals (NaN missing), or places among the values (-1 missing)."""
        gap = codes == self.size - 1
        if self.edges is None:
            return np.where(gap, -1, codes)
        at = np.minimum(codes, self.size - 2)
        x = self.edges[at] + u * (self.edges[at + 1] - self.edges[at])
        return np.where(gap, np.nan, np.round(x) if self.integer else x)


def public_domain(data: Microdata, name: str, bins: int, public: bool) -> PublicDomain:
    """Return the values that a column can have, from the schema; from the file only if they are declared to be public."""
    attribute, kind = data.schema[name], data.kind(name)
    if kind in (Kind.DATE, Kind.OTHER):
        raise DataError(
            f"column '{name}' holds {kind}, where numbers or categories are needed. Leave it out of columns=."
        )
    if kind is Kind.BOOLEAN:
        return PublicDomain(name, (False, True), None)
    low, high = attribute.bounds
    if kind is Kind.NUMBER and attribute.scale is Scale.ORDERED and not public and not _listed(attribute):
        if low is None or high is None:
            raise DataError(
                f"column '{name}' has no bounds in the schema, and the smallest and largest value of the file are somebody's. "
                "Give it public ones: bounds = (0, 120), say."
            )
        return PublicDomain(name, None, _edges(low, high, bins, attribute.integer), attribute.integer)
    if public:
        batch = data.batch([name])
        return PublicDomain(name, tuple(v for v in batch.codes(name)[1] if v not in attribute.missing), None)
    listed = _listed(attribute)
    if not listed:
        raise DataError(
            f"the schema does not list the categories of '{name}', and those of the file may tell who is in it. List them (labels, "
            f"values or a tree in the schema), or name the column in public= if they are known to anybody."
        )
    typed = [_number(text, name) if kind is Kind.NUMBER else text for text in listed]
    return PublicDomain(name, tuple(typed), None)


def _listed(attribute: Attribute) -> list[str]:
    """Return the categories that the schema lists, in its order."""
    leaves = attribute.hierarchy.values if isinstance(attribute.hierarchy, TreeHierarchy) else ()
    codes = {label_of(code) for code in attribute.missing}
    return [text for text in dict.fromkeys((*attribute.values, *attribute.labels, *leaves)) if text not in codes]


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"the schema lists categories of '{name}' that are no numbers, as its values are.") from None


def _edges(low: float, high: float, bins: int, integer: bool) -> Numbers:
    """Return the ends of intervals of equal width; of whole numbers each holds as many, as far as they can."""
    if not integer:
        return np.linspace(low, high, bins + 1) if high > low else np.array([low, low + 1e-9 * max(abs(low), 1.0)])
    first, last = math.ceil(low), math.floor(high)
    count = last - first + 1
    return np.unique(np.round(np.linspace(0, count, min(bins, count) + 1))) + first - 0.5


class MarginalSynthesis(Mask):
    """A new file under differential privacy: noisy margins, chosen for a workload, and new records drawn from a model of them (AIM).

    The mechanism of McKenna, Mullins, Sheldon and Miklau (2022): all columns are counted with normal noise; then, round by round,
    the margin of the workload is chosen that the model fits worst (exponential mechanism) and counted with noise; the model is
    the graphical model that fits the noisy margins best. Nothing else is learned of the records: numbers are counted in intervals
    between the bounds of the schema, categories as the schema lists them, and the number of records is itself noisy. The bound is
    for one record more or less.

    Examples
    --------
    >>> from sfumato.contract import Draws
    >>> from sfumato.datasets import teachers
    >>> data = teachers(2_000)
    >>> schema = data.schema.change("age", bounds=(20, 70))
    >>> mask = MarginalSynthesis(["age", "sex", "school"], epsilon=2, public=["sex", "school"])
    >>> release = mask.apply(data.with_schema(schema), Draws(1))
    >>> release.masked.schema.names()
    ('age', 'sex', 'school')
    """

    scope: ClassVar[Scope] = Scope.GLOBAL
    keeps_records: ClassVar[bool] = False
    keeps_missing: ClassVar[bool] = False
    no_matrix: ClassVar[str] = "its records are drawn from a model, and are not records of the original"

    columns: tuple[str, ...] | None = new_columns_parameter()
    epsilon: float = param(
        default=1.0,
        doc="ε: any set of files is at most e^ε times as likely with a record as without it, plus δ",
        low=1e-3,
        high=1000,
        scale="log",
        usual=(10, 0.1),
    )
    delta: float = param(
        default=1e-6, doc="δ: probability that ε may be exceeded with", low=1e-30, high=0.5, scale="log"
    )
    bins: int = param(
        default=20, doc="number of intervals between the bounds of a number", low=1, high=1000, integer=True
    )
    workload: tuple[tuple[str, ...], ...] | None = param(
        default=None,
        doc="the tables that should be right, as lists of columns; all of two columns if none",
        of_data="nothing",
    )
    public: tuple[str, ...] = param(
        default=(),
        doc="columns whose values in the file are known to anybody, so that the schema need not list them",
        columns="many",
        holds="anything",
    )
    cells: int = param(
        default=1_000_000,
        doc="largest number of cells of the model's cliques: a table of more is not measured",
        low=100,
        high=1e8,
        integer=True,
        scale="log",
    )
    size: int | None = size_parameter()
    implicates: int = implicates_parameter()
    domains: Any = learned("columns", "bins", "public", default=None)
    model: Any = learned("columns", "epsilon", "delta", "bins", "workload", "public", "cells", default=None)

    @override
    def validate(self) -> None:
        if self.workload is not None:
            if not isinstance(self.workload, list | tuple):
                raise ParameterError(_EXAMPLE)
            object.__setattr__(self, "workload", tuple(_table(t) for t in self.workload))
            if not self.workload:
                raise ParameterError(
                    f"workload of {self.name} is an empty list. Name at least one table, or leave it out."
                )

    @override
    def touches(self, schema: Schema) -> tuple[str, ...]:
        named = new_file_columns(self.columns, schema)
        return named if self.columns is not None else schema.free(named)

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of the new file: columns that follow another are left out, as they could only be learned."""
        return synthetic_schema(schema, self.touches(schema))

    @property
    def rho(self) -> float:
        """The ρ of zero-concentrated differential privacy that ε and δ allow."""
        return zcdp_rho(self.epsilon, self.delta)

    @property
    def mu(self) -> float:
        """An upper bound of the μ of Gaussian differential privacy, whatever is chosen.

        Of ρ at most a tenth is spent on choices. The μ² of a choice is at most π/2 times that of noise of the same ρ.
        """
        return math.sqrt(2 * self.rho * (MEASURED + (1 - MEASURED) * math.pi / 2))

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Measure noisy margins and fit the model; all that it learns of the records is under the privacy bound."""
        names = self.touches(data.schema)
        if not names or len(names) > 50:
            raise DataError(
                f"{len(names):,} columns were named, and between 1 and 50 can be modelled. Name the columns (columns=...)."
            )
        refuse_unknown("column", names, f"the columns of {self.name}", *self.public, error=DataError)
        domains = tuple(public_domain(data, n, self.bins, n in self.public) for n in names)
        sizes = tuple(d.size for d in domains)
        workload = self._groups(names, sizes)
        batch = data.batch(names)
        codes = np.array([d.codes(batch) for d in domains]).reshape(len(names), -1)

        @cache
        def counts(group: Group) -> Numbers:
            cell = np.zeros(codes.shape[1], np.int64)
            for v in group:
                cell = cell * sizes[v] + codes[v]
            found = np.bincount(cell, minlength=graph.cells_of(sizes, group)).astype(np.float64)
            return found.reshape([sizes[v] for v in group])

        account = ZCDPAccount(self.rho)
        return self.learn(
            domains=domains, model=AdaptiveMargins(counts, sizes, workload, account, draws, self.cells).fit()
        )

    def _groups(self, names: tuple[str, ...], sizes: tuple[int, ...]) -> list[Group]:
        if self.workload is None:
            pairs = combinations(range(len(names)), 2)
            groups = [pair for pair in pairs if graph.cells_of(sizes, pair) <= self.cells]
            return [*groups, *((v,) for v in range(len(names)) if not any(v in g for g in groups))]
        found: list[Group] = []
        for table in self.workload:
            refuse_unknown("column", names, f"the columns of {self.name}", *table, error=DataError)
            group = tuple(sorted(names.index(n) for n in table))
            if graph.cells_of(sizes, group) > self.cells:
                raise DataError(
                    f"the table of {join_names(table)} has {graph.cells_of(sizes, group):,} cells, and the model at most "
                    f"{self.cells:,}. Take fewer bins, leave the table out of workload=, or allow more (cells=...)."
                )
            found.append(group)
        return list(dict.fromkeys(found))

    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Draw new records from the model."""
        size = self.size or max(round(self.model.total), 1)
        return new_records(size, partial(self._drawn, draws), partial(self._built, batch), None)

    def _drawn(self, draws: Draws, ids: Whole) -> Raw:
        tree: JunctionTree = self.model.tree
        uniforms = [draws.uniforms(ids, f"clique {i}") for i in range(len(tree.cliques))]
        cells = graph.drawn_cells(tree, self.model.margins, uniforms)
        return {
            d.name: d.drawn(c, draws.uniforms(ids, f"{d.name} within"))
            for d, c in zip(self.domains, cells, strict=True)
        }

    def _built(self, batch: Batch, ids: Whole, raw: Raw) -> Batch:
        """Return new records with the types of the original's columns."""
        schema = self.schema_after(batch.schema)
        domains = {d.name: d for d in self.domains}
        columns = {}
        for name in (n for n in batch.rows.columns if n in schema):
            domain, values = domains[name], raw[name]
            if domain.edges is None:
                columns[name] = Column.from_codes(values, domain.values or (), batch.column(name))
            else:
                columns[name] = Column.from_numbers(values, np.isnan(values))
        out = Batch(Rows(ids, columns), schema)
        for name in (n for n, d in domains.items() if d.edges is not None):
            out = out.replace(name, partial(np.asarray, raw[name]))
        return out

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterator[Guarantee]:
        """State the privacy bound, how it was spent, and what it does not cover; the original is not looked at."""
        account: ZCDPAccount = self.model.account
        right = float(special.ndtr(self.mu / 2))
        says = (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy of the file, for one record more or less: "
            f"ρ = {self.rho:.4g} (zCDP), μ at most {self.mu:.3g}, so that whether a record is in it is guessed right at most "
            f"{100 * right:.1f} % of the time"
        )
        tables = [s for s in account.spent if s.group]
        choices = len(account.spent) - len(tables)
        how = f"summed up: ρ = {account.used:.4g}, spent on {len(tables):,} noisy tables and {choices:,} choices"
        yield Guarantee(step, says, how)
        binned = join_names(d.name for d in self.domains if d.edges is not None)
        says = f"the bounds and lists of the schema are taken to be public; within their intervals, {binned} are drawn evenly"
        yield Guarantee(step, says, "by construction")
        if self.public:
            says = f"{join_names(self.public)}: which values occur was taken from the file as public knowledge, and is not protected"
            yield Guarantee(step, says, "as declared (public)")


_EXAMPLE = 'a workload is a list of tables, each a list of columns: [["age", "sex"], ["age", "school"]].'


def _table(columns: Any) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else columns
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
        raise ParameterError(_EXAMPLE)
    if len(set(names)) < len(names):
        raise ParameterError("a table of the workload names a column twice.")
    return tuple(names)
