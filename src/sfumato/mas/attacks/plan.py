"""Questions about sets with a target, and about the same sets without: what they can tell, and what they cost its account."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.mas.accounts import Accounts
from sfumato.mas.analyses import CrossTab, Logistic
from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.joint import Reading
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import LEVELS, Piece, Target
from sfumato.mas.attacks.world import SHARES, World
from sfumato.mas.cube import Cube

_SIZES = (45, 1_000)
"""Sets of so few are not shown, sets of more tell little."""
_MODELS = (600, 20)
"""Fewest records of a model, and of a level that has a coefficient, a little above what policies demand."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A question: a table of the attribute, or a logistic model of it on a side, in a universe."""

    universe: Piece
    side: str | None
    own: str
    """The target's level of the side; none for a plain table."""
    model: bool
    reading: Reading
    cost: float
    """What it takes from the target's account, about."""

    def analysis(self, attribute: str) -> Analysis:
        """Return what is asked of the universe."""
        if self.model:
            return Logistic(f"{attribute} ~ C(`{self.side}`)", event="yes")
        return CrossTab((attribute,) if self.side is None else (self.side, attribute))

    def told(self, found: Answer, attribute: str) -> float:
        """Return how many of the set have the attribute, as far as the answer tells; NaN if it does not."""
        if self.model:
            return self._fitted(found)
        rows = {
            row[attribute]: row["count"]
            for row in found.tables["cells"]
            if self.side is None or row[self.side] == self.own
        }
        yes, no = (float(v) if isinstance(v := rows[level], int | float) else math.nan for level in ("yes", "no"))
        return float(np.mean([yes, self.reading.n - no]))

    def _fitted(self, found: Answer) -> float:
        """Return the fitted probability of the target's level times its records."""
        linear, terms = 0.0, found.tables["coefficients"]
        for row in terms:
            term, value = str(row["term"]), row["coefficient"]
            if not isinstance(value, int | float):
                return math.nan
            if row is terms[0] or term.endswith(f"[{self.own}]"):
                linear += value
        return self.reading.n / (1 + math.exp(-linear))


@dataclass(frozen=True, eq=False)
class Planner:
    """Plans questions about one target: the attacker has a register of what is known of everybody."""

    target: Target
    world: World
    server: Server
    attribute: str
    rng: np.random.Generator
    models: bool = True

    @cached_property
    def cube(self) -> Cube:
        """The table of all known variables."""
        return self.world.dataset.cubes.of([v for v in self.world.dataset.variables.values() if v.known and v.levels])

    @cached_property
    def others(self) -> NDArray[np.float32]:
        """Records of each cell but the target, shape (cells,)."""
        counts = self.cube.counts.astype(np.float32)
        counts[tuple(self._own)] -= 1
        return counts.ravel()

    @cached_property
    def _own(self) -> list[int]:
        return [int(self.world.codes[v.name][self.target.row]) for v in self.cube.variables]

    @cached_property
    def _allowed(self) -> list[tuple[int, ...]]:
        """Axes of the variables that may form universes together, as the published list says."""
        names, axes = [v.name for v in self.cube.variables], range(len(self.cube.variables))
        some = (c for size in range(1, 5) for c in itertools.combinations(axes, size))
        return [c for c in some if self.server.dataset.allowed([names[i] for i in c], self.server.policy)]

    def asks(self, tries: int) -> list[Ask]:
        """Return questions that differ by company: universes with some levels of some variables, as they are or by a side."""
        found: dict[str, Ask] = {}
        for _ in range(tries):
            used = self._allowed[int(self.rng.integers(len(self._allowed)))]
            pick = [np.arange(len(v.levels)) for v in self.cube.variables]
            for axis in used:
                levels = len(pick[axis])
                mates = self.rng.permutation(levels)[: int(self.rng.integers(0, min(LEVELS, levels)))]
                pick[axis] = np.unique([self._own[axis], *mates])
            for ask in self._forms(used, pick):
                found.setdefault(f"{sorted(ask.universe.items())}{ask.side}{ask.model}", ask)
        return list(found.values())

    def _forms(self, used: tuple[int, ...], pick: list[NDArray[np.intp]]) -> Iterator[Ask]:
        """Yield what can be asked of a universe: a table, one by a side, a model, and a table of the rest without the target."""
        universe = {
            self.cube.variables[i].name: self._texts(i, pick[i]) for i in used if len(pick[i]) < self._levels(i)
        }
        whole = self._size(pick)
        if not universe:
            return
        if _SIZES[0] <= whole <= _SIZES[1]:
            yield self._table(universe, None, pick, whole, whole)
            for axis in used:
                rest = pick[axis][pick[axis] != self._own[axis]]
                company = [*pick[:axis], rest, *pick[axis + 1 :]]
                n = self._size(company)
                if len(rest) and n >= _SIZES[0]:
                    name = self.cube.variables[axis].name
                    yield self._table({**universe, name: self._texts(axis, rest)}, None, company, n, n)
        for axis in range(len(pick)):
            if len(pick[axis]) < 2:
                continue
            cell = [*pick[:axis], np.array([self._own[axis]]), *pick[axis + 1 :]]
            n = self._size(cell)
            if _SIZES[0] <= n <= _SIZES[1]:
                yield self._table(universe, axis, cell, n, whole)
            if self.models and whole >= _MODELS[0] and _MODELS[1] <= n <= _SIZES[1]:
                levels = [self._size([*pick[:axis], np.array([i]), *pick[axis + 1 :]]) for i in pick[axis]]
                yield self._model(universe, axis, cell, n, whole, levels)

    def _table(self, universe: Piece, axis: int | None, cells: list[NDArray[np.intp]], n: float, whole: float) -> Ask:
        counts = self.server.policy.counts
        noise = (counts.sd**2 + (counts.base**2 - 1) / 12) / 2
        reading = self._reading(cells, n, noise)
        sizes = [n] if axis is None else [n, whole]
        cost = sum(self._known(size) + self._price(size / 2) for size in sizes) if reading.holds else 0.0
        return Ask(universe, *self._side(axis), False, reading, cost)

    def _model(
        self, universe: Piece, axis: int, cells: list[NDArray[np.intp]], n: float, whole: float, levels: list[float]
    ) -> Ask:
        noise = (self.server.policy.models.sd / 2 / (1 - self._dropped)) ** 2
        fitted = self._accounts.coefficient * sum(self._price(size) for size in levels)
        cost = fitted + self._known(whole) + 2 * self._price(whole / 2) + self._known(n)
        return Ask(universe, *self._side(axis), True, self._reading(cells, n, noise), cost)

    def _reading(self, cells: list[NDArray[np.intp]], n: float, noise: float) -> Reading:
        share, drop = SHARES[self.attribute], self.server.policy.drop
        lost = self._dropped * n / (1 - self._dropped) if self._dropped else float(getattr(drop, "q", 0))
        inside = np.zeros(self.cube.counts.shape, np.float32)
        inside[np.ix_(*cells)] = 1
        holds = bool(inside[tuple(self._own)])
        return Reading(inside.ravel(), n, holds, noise + share * (1 - share) * lost + 0.01)

    @property
    def _dropped(self) -> float:
        return float(getattr(self.server.policy.drop, "share", 0.0))

    @property
    def _accounts(self) -> Accounts:
        return self.server.policy.accounts or Accounts()

    def _price(self, n: float) -> float:
        return float(self._accounts.price(np.array(n)))

    def _known(self, n: float) -> float:
        return self._accounts.known * self._price(n)

    def _side(self, axis: int | None) -> tuple[str | None, str]:
        if axis is None:
            return None, ""
        variable = self.cube.variables[axis]
        return variable.name, variable.levels[self._own[axis]]

    def _texts(self, axis: int, pick: NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(self.cube.variables[axis].levels[i] for i in pick)

    def _levels(self, axis: int) -> int:
        return len(self.cube.variables[axis].levels)

    def _size(self, pick: list[NDArray[np.intp]]) -> float:
        return float(self.cube.counts[np.ix_(*pick)].sum())
