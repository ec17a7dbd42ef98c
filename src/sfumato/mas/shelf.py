"""The shelf: tables that are published once for everybody, made consistent; what they answer is free.

Tables of a shelf have normal noise, the same in every cell of a table. By least squares over all of them each set of variables A has
an effect: the part of its table that smaller tables do not tell. A table S tells the effect of A ⊆ S with a variance proportional to
v_S N_(S∖A), where N counts cells, so that the estimates are averaged with inverse variances; effects of different sets are
independent. Tables put together from effects add up exactly. docs/mas/shelf.md explains it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.errors import DataError, ParameterError
from sfumato.files import whole_file, write_text
from sfumato.mas.accounts import loss_of
from sfumato.mas.analyses.tables import TOTAL, Amount, CrossTab, plain_numbers
from sfumato.mas.answer import Answer
from sfumato.mas.dataset import Dataset
from sfumato.mas.drop_q import DropQ
from sfumato.mas.ledger import Entry
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.perturbation import Amounts, Counts
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question, numbers_in
from sfumato.mas.sums import _SEAL, Moment, ProtectedCells, SumsRequest, TableSums
from sfumato.mas.universe import Universe, spread
from sfumato.mas.variable import Variable
from sfumato.toml import dump, parse
from sfumato.typing import Numbers, Whole

Names = tuple[str, ...]
"""Variables of a table, in order of their names."""
_CELLS = 100_000
"""Most cells of a table on a shelf."""
_ROUNDS = 3_000
_AT_ONCE = 4_000_000
_FILES = ("shelf.npz", "shelf.toml")

# --- least squares


def subsets(names: Names) -> Iterator[Names]:
    """Yield every choice of some names, the smallest first."""
    for size in range(len(names) + 1):
        yield from itertools.combinations(names, size)


def pure(table: Numbers) -> Numbers:
    """Return a table less all that its margins tell: it sums to 0 along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


@dataclass(frozen=True, eq=False)
class Effects:
    """The best estimates of all tables of one kind of sum, from some noisy ones."""

    values: Mapping[Names, Numbers]
    """The effect of each set of variables, one axis per variable."""
    variances: Mapping[Names, float]
    """Variance of the noise of each effect, before it is made to sum to 0 along every axis."""

    @classmethod
    def of(
        cls,
        tables: Mapping[Names, Numbers],
        variances: Mapping[Names, float],
        silent: Mapping[Names, Names] | None = None,
    ) -> Effects:
        """Return the least-squares estimates from noisy tables; the noise of a table has the same variance in each cell.

        A table is not asked for the effects of its `silent` variables among themselves.
        """
        added: dict[Names, Numbers] = {}
        precisions: dict[Names, float] = {}
        for names in sorted(tables):
            for inside in subsets(names):
                if silent and names in silent and set(inside) <= set(silent[names]):
                    continue
                gone = tuple(i for i, name in enumerate(names) if name not in inside)
                margin = tables[names].sum(axis=gone)
                precision = 1 / (variances[names] * (tables[names].size // max(margin.size, 1)))
                added[inside] = added.get(inside, 0.0) + precision * pure(np.asarray(margin))
                precisions[inside] = precisions.get(inside, 0.0) + precision
        return cls({a: added[a] / q for a, q in precisions.items()}, {a: 1 / q for a, q in precisions.items()})

    def table(self, names: Names, lengths: Sequence[int]) -> Numbers:
        """Return the table of some variables."""
        out = np.zeros(lengths)
        for inside in subsets(names):
            shape = [n if name in inside else 1 for name, n in zip(names, lengths, strict=True)]
            out += self.values[inside].reshape(shape) * (np.prod(shape) / out.size)
        return out

    def variance(self, names: Names, lengths: Sequence[int], sums: Whole, count: int) -> Numbers:
        """Return the variance of sums of cells of a table: `sums` says for each cell which one it is in, -1 for none."""
        size, axes = int(np.prod(lengths, dtype=int)), range(len(names))
        out = np.zeros(count)
        step = max(_AT_ONCE // max(size, 1), 1)
        for start in range(0, count, step):
            rows = np.arange(start, min(start + step, count))
            chosen = (sums.ravel() == rows[:, None]).astype(np.float64).reshape(len(rows), *lengths)
            for inside in subsets(names):
                gone = tuple(1 + i for i in axes if names[i] not in inside)
                kept = chosen.sum(axis=gone)
                for axis in range(1, kept.ndim):
                    kept = kept - kept.mean(axis=axis, keepdims=True)
                cells = size / (kept.size / len(rows))
                out[rows] += self.variances[inside] / cells**2 * np.square(kept).reshape(len(rows), -1).sum(axis=1)
        return out


# --- how noise is split


@dataclass(frozen=True)
class ShelfTable:
    """A table that is to be published, of one kind of sum."""

    measure: str
    names: Names
    lengths: tuple[int, ...]
    cost: float
    """Loss of a record times the variance of the noise; 0 where nothing confidential is told."""
    weight: float
    """How much the mean variance of its cells counts."""
    fixed: float = 0.0
    """Precision of the noise that it has without cost."""
    silent: Names | None = None
    """Known variables whose own effects it does not tell: how many records there are is told by tables of known variables."""

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.lengths)

    def most(self, loss: float) -> float:
        """Return the precision of its noise, if a whole loss were spent on it; 0 where it costs nothing."""
        return loss / self.cost if self.cost else 0.0


def precisions(tables: Sequence[ShelfTable], loss: float) -> Numbers:
    """Return the inverse of the noise variance of each table: those with the least weighted error for a loss.

    The error of a table is the mean variance of its cells after least squares. It is convex in the precisions; these are found by
    the multiplicative algorithm of A-optimal design (Silvey, Titterington and Torsney 1978).
    """
    places: dict[tuple[str, Names], int] = {}
    for table in tables:
        for inside in subsets(table.names):
            places.setdefault((table.measure, inside), len(places))
    tells, needed = np.zeros((len(tables), len(places))), np.zeros(len(places))
    for i, table in enumerate(tables):
        length = dict(zip(table.names, table.lengths, strict=True))
        for inside in subsets(table.names):
            at, cells = places[table.measure, inside], math.prod(length[n] for n in inside)
            if table.silent is None or not set(inside) <= set(table.silent):
                tells[i, at] = cells / table.size
            needed[at] += table.weight / table.size * math.prod(length[n] - 1 for n in inside) * cells / table.size
    fixed, cost = (np.array([getattr(table, name) for table in tables]) for name in ("fixed", "cost"))
    paid = cost > 0
    most = np.array([table.most(loss) for table in tables])
    share = paid / max(paid.sum(), 1)
    for _ in range(_ROUNDS if paid.any() else 0):
        variance = 1 / ((fixed + share * most) @ tells)
        gain = share * np.sqrt(most * (tells @ (needed * variance**2)))
        before, share = share, gain / gain.sum()
        if np.abs(share - before).max() < 1e-9:
            break
    return np.asarray(fixed + share * most)


def error_of(tables: Sequence[ShelfTable], chosen: Numbers) -> float:
    """Return the weighted mean variance of cells after least squares."""
    total = 0.0
    for measure in sorted({t.measure for t in tables}):
        mine = [(t, p) for t, p in zip(tables, chosen, strict=True) if t.measure == measure]
        used = {t.names: (np.zeros(t.lengths), 1 / p) for t, p in mine if p}
        found = Effects.of(
            {names: zeros for names, (zeros, _) in used.items()}, {names: v for names, (_, v) in used.items()}
        )
        for t, _ in mine:
            whole = np.where(np.arange(t.size) == 0, 0, -1)
            total += t.weight * float(found.variance(t.names, t.lengths, whole, 1)[0])
    return total


# --- the shelf


@dataclass(frozen=True, eq=False)
class Shelf:
    """Tables of a version of a data set that everybody may have."""

    right: float
    """Guesses between two values, of 100, that are right by all its tables together, at most."""
    loss: float
    effects: Mapping[str, Effects]
    """By the name of the sum: n for the number of records, else the moment and its variable."""
    tables: tuple[str, ...] = field(default=())
    """What was published, for people."""

    def answer(self, question: Question, dataset: Dataset) -> Answer | None:
        """Answer a cross-tabulation from the shelf; None where it does not have all of it."""
        tab, known = question.analysis, question.codebook.variables
        if not isinstance(tab, CrossTab) or tab.weighted:
            return None
        amount = None if tab.of is None else Amount(numbers_in(tab.of, known), None)
        moments = {"n": "n"} | ({name: f"{name} {tab.of}" for name in amount.moments()} if amount is not None else {})
        sides, plain = tab.sides(known), question.selection.plain
        found = {v.name: v for v in (*plain.variables, *(side.base or side for side in sides))}
        names = tuple(sorted(found))
        if not all(name in self.effects and names in self.effects[name].values for name in moments.values()):
            return None
        variables = [found[name] for name in names]
        rows: list[dict[str, Any]] = []
        register = dataset.register(question.policy)
        policy = question.policy.with_(drop=DropQ(q=0), amounts=question.policy.amounts.with_(digits=10))
        errors = []
        for size in range(len(sides), -1, -1):
            for kept in itertools.combinations(sides, size):
                made = self._cells(moments, kept, variables, spread(plain, variables))
                errors.append(float(np.sqrt(made.variances["n"].max())))
                columns = {"count": np.round(made.n, 1) + 0.0} | (
                    amount.shown(made, policy, amount.effects(question, register, made.sides))
                    if amount is not None
                    else {}
                )
                levels = {v.name: v.levels for v in kept}
                cells = itertools.product(*(levels.get(name, (TOTAL,)) for name in tab.by))
                shown = [plain_numbers(np.ravel(values)) for values in columns.values()]
                rows += [
                    dict(zip((*tab.by, *columns), (*cell, *v), strict=True))
                    for cell, *v in zip(cells, *shown, strict=True)
                ]
        label = f"shelf ({self.right:g} of 100)"
        citation = dataset.secret.citation(dataset.label, label, question.wording)
        return Answer(tab.name, {"cells": rows}, tuple(self._notes(errors, amount)), dataset.label, label, citation, {})

    def _cells(
        self, moments: Mapping[str, str], sides: Sequence[Variable], variables: Sequence[Variable], inside: Any
    ) -> ProtectedCells:
        """Return the cells of some sides within chosen cells of the table of all variables."""
        names, lengths = tuple(v.name for v in variables), [len(v.levels) for v in variables]
        shape = [len(v.levels) for v in sides]
        here = np.indices(lengths, sparse=True)
        at = [(v.base or v).name for v in sides]
        places = [
            np.broadcast_to(
                here[names.index(a)] if v.base is None else np.array(v.groups)[here[names.index(a)]], lengths
            )
            for v, a in zip(sides, at, strict=True)
        ]
        flat = np.ravel_multi_index(places, shape) if sides else np.zeros(lengths, np.int64)
        flat = np.where(inside, flat, -1)
        count = math.prod(shape)
        sums: dict[str, Numbers] = {}
        variances: dict[str, Numbers] = {}
        for name, stored in moments.items():
            whole = self.effects[stored].table(names, lengths)
            sums[name] = np.asarray(np.bincount(flat[flat >= 0], whole[flat >= 0], count).reshape(shape), np.float64)
            variances[name] = self.effects[stored].variance(names, lengths, flat, count).reshape(shape)
        hidden = tuple(i for i, v in enumerate(sides) if not v.known)
        return ProtectedCells(_SEAL, tuple(sides), sums, variances, np.array(sums["n"].sum(axis=hidden, keepdims=True)))

    def _notes(self, errors: Sequence[float], amount: Amount | None) -> Iterator[str]:
        yield (
            f"From the shelf: published once for everybody, and free. Counts have random noise (standard deviation up to "
            f"{max(errors):.2g}) and add up before they are rounded; small ones may be below 0."
        )
        if amount is not None and amount.variable.bounds is not None:
            low, high = amount.variable.bounds
            yield f"Values of {amount.variable.title} are clipped to {low:g} and {high:g} before anything is added up."
            if amount.variable.gaps:
                yield f"Records without a value of {amount.variable.title} are counted, but are in no mean and no sum."

    # -- files

    def write(self, folder: Path) -> None:
        """Write the shelf beside a frozen version: `shelf.npz`, and `shelf.toml`, with which it counts."""
        listed = [(m, names) for m, one in sorted(self.effects.items()) for names in sorted(one.values)]
        packed = io.BytesIO()
        arrays: dict[str, Any] = {f"a{i}": self.effects[m].values[names] for i, (m, names) in enumerate(listed)}
        np.savez(packed, allow_pickle=False, **arrays)
        with whole_file(folder / _FILES[0], mode=0o600) as temporary:
            temporary.write_bytes(packed.getbuffer())
        head = {
            "right": self.right, "loss": self.loss, "tables": list(self.tables),
            "digest": hashlib.sha256(packed.getvalue()).hexdigest(),
        }  # fmt: skip
        effects = (
            {"sum": m, "variables": list(names), "variance": float(self.effects[m].variances[names])}
            for m, names in listed
        )
        write_text(folder / _FILES[1], dump(head, "effect", effects), confidential=True)

    @classmethod
    def read(cls, folder: Path) -> Shelf | None:
        """Read the shelf of a frozen version; None if it has none."""
        if not (folder / _FILES[1]).is_file():
            return None
        try:
            table = parse((folder / _FILES[1]).read_text("utf-8"))
            content = (folder / _FILES[0]).read_bytes()
            values: dict[str, dict[Names, Numbers]] = {}
            variances: dict[str, dict[Names, float]] = {}
            if hashlib.sha256(content).hexdigest() != table["digest"]:
                raise ValueError("another file")
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                for i, one in enumerate(table["effect"]):
                    names = tuple(one["variables"])
                    values.setdefault(one["sum"], {})[names] = arrays[f"a{i}"]
                    variances.setdefault(one["sum"], {})[names] = float(one["variance"])
            effects = {m: Effects(values[m], variances[m]) for m in values}
            return cls(float(table["right"]), float(table["loss"]), effects, tuple(table["tables"]))
        except (OSError, KeyError, TypeError, ValueError):
            raise DataError(
                f"the shelf in {folder} is damaged. Restore {_FILES[0]} and {_FILES[1]} from a copy: what they told is charged."
            ) from None


# --- publishing


def all_tables(variables: Mapping[str, Variable], sides: int = 2) -> dict[CrossTab, float]:
    """Return all tables of counts with at most so many variables, and not too many cells."""
    usable = sorted((v for v in variables.values() if v.levels and v.base is None), key=lambda v: v.name)
    return {
        CrossTab(tuple(v.name for v in some)): 1.0
        for size in range(1, sides + 1)
        for some in itertools.combinations(usable, size)
        if size <= 2 or math.prod(len(v.levels) for v in some) <= _CELLS
    }


def workload(entries: Iterable[Entry], dataset: Dataset, most: int = 100) -> dict[CrossTab, float]:
    """Return the tables that users asked for most often, with the variables of their universes, and how often."""
    variables, found = dataset.variables, Counter[CrossTab]()
    for entry in entries:
        content = entry.content
        if entry.family != dataset.name or content.get("analysis") != "cross_tab" or content.get("weighted"):
            continue
        named = {*content.get("by", ()), *(name for piece in content.get("universe", ()) for name in piece)}
        if not all(name in variables and variables[name].levels for name in named):
            continue
        sides = {variables[name].base or variables[name] for name in named}
        if math.prod(len(v.levels) for v in sides) <= _CELLS:
            found[CrossTab(tuple(sorted(v.name for v in sides)), of=content.get("of"))] += 1
    return {tab: float(n) for tab, n in sorted(found.most_common(most), key=lambda pair: (-pair[1], pair[0].wording()))}


def published(dataset: Dataset, policy: Policy, tables: Mapping[CrossTab, float], right: float) -> Shelf:
    """Return a shelf with some tables, whose noise is split by how often each is asked for."""
    if not policy.counts.sd:
        raise ParameterError(
            "this policy adds no noise to counts, so that a shelf would protect nobody. Choose another policy."
        )
    moments = _moments(dataset, tables)
    mechanism = Mechanism(dataset, policy, Question(dataset.codebook, policy, Universe(), next(iter(tables))))
    planned = [
        _planned(mechanism, measure, names, moment, weight) for (measure, names), (moment, weight) in moments.items()
    ]
    loss, sums, noise = 0.0, dict[str, dict[Names, Numbers]](), dict[str, dict[Names, float]]()
    for table, precision in zip(planned, precisions(planned, loss_of(right / 100)), strict=True):
        if precision <= 1e-9 * table.most(loss_of(right / 100)):
            continue  # the others tell it better
        told, values, variance = _noisy(mechanism, table, moments[table.measure, table.names][0], precision)
        sums.setdefault(table.measure, {})[table.names] = values
        noise.setdefault(table.measure, {})[table.names] = variance
        loss += told
    silent = {t.names: t.silent for t in planned if t.silent is not None and t.measure == "n"}
    effects = {m: Effects.of(sums[m], noise[m], silent if m == "n" else None) for m in sorted(sums)}
    return Shelf(right, loss, effects, tuple(tab.wording() for tab in tables))


def _moments(dataset: Dataset, tables: Mapping[CrossTab, float]) -> dict[tuple[str, Names], tuple[Moment, float]]:
    """Return the sums that tables need, each with what it is and how much it counts."""
    found: dict[tuple[str, Names], tuple[Moment, float]] = {}
    for tab, weight in tables.items():
        if not isinstance(tab, CrossTab) or tab.weighted:
            raise ParameterError("tables of a shelf are names of variables, or CrossTab without weights.")
        sides = tab.sides(dataset.variables)
        if recodes := [v.name for v in sides if v.base is not None]:
            raise ParameterError(
                f"'{recodes[0]}' is a recode. Put the variable that it groups on the shelf: it is made from that."
            )
        if math.prod(len(v.levels) for v in sides) > _CELLS:
            raise ParameterError(
                f"a table of {', '.join(tab.by)} has more than {_CELLS:,} cells. Use fewer or coarser variables."
            )
        names = tuple(sorted(v.name for v in sides))
        needed = {"n": Moment()}
        if tab.of is not None:
            amount = Amount(numbers_in(tab.of, dataset.variables), None)
            needed |= {f"{name} {tab.of}": moment for name, moment in amount.moments().items()}
        for measure, moment in needed.items():
            before = found[measure, names][1] if (measure, names) in found else 0.0
            found[measure, names] = moment, before + weight
        known = tuple(sorted(v.name for v in sides if v.known))
        found.setdefault(("n", known), (Moment(), 0.0))
    return found


def _planned(mechanism: Mechanism, measure: str, names: Names, moment: Moment, weight: float) -> ShelfTable:
    variables = [mechanism.dataset.variables[name] for name in names]
    lengths = tuple(len(v.levels) for v in variables)
    variance, loss, rms = mechanism.unit(moment, variables)
    if moment.confidential or not all(v.known for v in variables):
        silent = tuple(v.name for v in variables if v.known) if measure == "n" else None
        return ShelfTable(measure, names, lengths, variance * loss, weight / rms**2, silent=silent)
    sd = mechanism.policy.noise("counts" if measure == "n" else "amounts").sd
    return ShelfTable(measure, names, lengths, 0.0, weight / rms**2, 1 / (sd**2 * variance))


def _noisy(mechanism: Mechanism, table: ShelfTable, moment: Moment, precision: float) -> tuple[float, Numbers, float]:
    """Return what a noisy table tells of a record, the table, and the variance of its noise."""
    dataset, policy = mechanism.dataset, mechanism.policy
    sides = tuple(dataset.variables[name] for name in table.names)
    variance = 0.0
    if table.cost:
        unit = mechanism.unit(moment, sides)[0]
        sd = float(f"{math.sqrt(1 / (precision * unit)) * 1.000001:.6g}")
        variance = sd**2 * unit
        only: dict[str, Any] = (
            {"counts": Counts(sd=sd)} if table.measure == "n" else {"amounts": Amounts(sd=sd, clip=True)}
        )
        policy = Policy.open().with_(**only)
    question = Question(dataset.codebook, policy, Universe(), mechanism.question.analysis)
    keeper = Mechanism(dataset, policy.with_(drop=DropQ(q=0)), question)
    parts = {} if table.measure == "n" else {"m": moment}
    sums, losses = keeper.protect(SumsRequest({"table": TableSums(sides, parts, "amounts")}))
    cells, name = sums.cells("table"), "m" if parts else "n"
    return (
        sum(float(loss.amounts.max()) for loss in losses),
        cells.sums[name],
        variance or float(cells.variances[name].max()),
    )
