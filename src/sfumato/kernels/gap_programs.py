"""Cheapest values to leave out of rows as integer programs; and the search where a missing value agrees only with a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.kernels.classes import classes
from sfumato.lazy import optimize
from sfumato.typing import Codes, Flags, Numbers, Whole

_MANY = 10
"""With more columns than this, sets of up to three columns are looked through, not all."""
_ROUNDS, _WORK = 60, 100_000
"""How often groups are formed again at most, and how many rows times sets of columns are looked at for it."""


class Program:
    """An integer program that is written row by row: the smallest cost of variables between 0 and 1."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.whole: list[bool] = []
        self._entries: list[tuple[int, int, float]] = []
        self._limits: list[tuple[float, float]] = []

    def variable(self, cost: float = 0.0, whole: bool = True) -> int:
        """Add a variable, and return its number."""
        self.cost.append(cost)
        self.whole.append(whole)
        return len(self.cost) - 1

    def require(self, terms: list[tuple[int, float]], low: float = -np.inf, high: float = np.inf) -> None:
        """Add a row: the sum of variables times factors lies between two limits."""
        self._entries += [(len(self._limits), at, factor) for at, factor in terms]
        self._limits.append((low, high))

    def solve(self, nodes: int) -> Flags | None:
        """Return which variables are 1 in an optimal solution; None if that is not proven within a number of nodes."""
        if not self._limits:
            return np.zeros(len(self.cost), bool)
        row, column, factor = zip(*self._entries, strict=True)
        low, high = zip(*self._limits, strict=True)
        matrix = sparse.csr_array((factor, (row, column)), shape=(len(low), len(self.cost)))
        found = optimize.milp(
            np.array(self.cost),
            integrality=np.array(self.whole, np.int64),
            bounds=optimize.Bounds(0, 1),
            constraints=optimize.LinearConstraint(matrix, np.array(low), np.array(high)),
            options={"node_limit": nodes, "mip_rel_gap": 1e-9},
        )
        return None if found.status != 0 else np.asarray(found.x > 0.5)


def cheapest_wildcard_gaps(
    codes: Codes,
    sizes: Whole,
    rows: int,
    cost: Numbers,
    k: int,
    budget: Numbers,
    most: float,
    nodes: int,
) -> Whole | None:
    """Return the cheapest columns to leave out of each of the first rows, so that k rows agree with each of them; (rows,).

    A missing value agrees with anything; a row leaves out no more than its `budget`. `most` is what some solution costs.
    Two rows agree if each column in which they differ is left out of one of them: a variable for each pair that can.
    """
    p = codes.shape[1]
    program = Program()
    for _ in range(rows):
        for c in range(p):
            program.variable(float(cost[c]))
    room = np.append(np.minimum(budget, most), 0.0)
    held = sizes[:rows].astype(np.int64).copy()
    gains: list[list[tuple[int, float]]] = [[] for _ in range(rows)]
    for a in range(rows):
        differ = (codes[a] != codes) & (codes[a] >= 0) & (codes >= 0)
        differ[a] = False
        price = differ @ cost
        held[a] = sizes[price == 0].sum()
        for b in np.flatnonzero(
            (price > 0) & (price <= room[a] + room[np.minimum(np.arange(len(codes)), rows)] + 1e-9)
        ):
            if b < a:
                continue  # written when it was the first of the two
            pair = program.variable(whole=False)
            gains[a].append((pair, float(sizes[b])))
            if b < rows:
                gains[b].append((pair, 1.0))
            for column in np.flatnonzero(differ[b]).tolist():
                both = [(a * p + column, 1.0), *([(int(b) * p + column, 1.0)] if b < rows else [])]
                program.require([*both, (pair, -1.0)], low=0.0)
    for a in range(rows):
        program.require(gains[a], low=float(k - held[a]))
        program.require([(a * p + c, float(cost[c])) for c in range(p)], high=float(budget[a]) + 1e-9)
    program.require([(a * p + c, float(cost[c])) for a in range(rows) for c in range(p)], high=most + 1e-9)
    found = program.solve(nodes)
    return None if found is None else found[: rows * p].reshape(rows, p) @ (1 << np.arange(p))


def cheapest_level_gaps(codes: Codes, cost: Numbers, k: int, nodes: int) -> Whole | None:
    """Return the cheapest columns to leave out of each row, so that each is one of k equal rows; shape (n,).

    A missing value equals a missing one alone. A variable for each row and set of columns, and one for each row that comes of it.
    """
    n, p = codes.shape
    program = Program()
    members: dict[tuple[int, ...], list[int]] = {}
    used: dict[int, dict[tuple[int, ...], int]] = {}
    for i in range(n):
        seen: dict[tuple[int, ...], int] = {}
        for t in range(1 << p):
            left_out = (t >> np.arange(p)) & 1 == 1
            if (left_out & (codes[i] < 0)).any():
                continue  # it is missing already
            pattern = tuple(np.where(left_out, -1, codes[i]).tolist())
            seen[pattern] = at = program.variable(float(left_out @ cost))
            members.setdefault(pattern, []).append(at)
        program.require([(at, 1.0) for at in seen.values()], 1.0, 1.0)
        used[i] = seen
    for variables in members.values():
        if len(variables) < k:
            for at in variables:
                program.require([(at, 1.0)], high=0.0)
            continue
        opened = program.variable()
        program.require([*((at, 1.0) for at in variables), (opened, -float(k))], low=0.0)
        for at in variables:
            program.require([(at, 1.0), (opened, -1.0)], high=0.0)
    found = program.solve(nodes)
    if found is None:
        return None
    out = np.zeros(n, np.int64)
    for i, seen in used.items():
        (pattern,) = (pattern for pattern, at in seen.items() if found[at])
        out[i] = sum(1 << c for c in range(p) if pattern[c] < 0 <= codes[i, c])
    return out


# --- A missing value is a level of its own: rows are alike in groups of at least k, and a group leaves out what differs in it.


def level_gaps(codes: Codes, cost: Numbers, k: int) -> Whole:
    """Return columns to leave out of each row, so that each is one of k equal rows where missing equals missing; shape (n,).

    Rows that are not alike to k are grouped by what is left without a set of columns, cheap sets first; a group of k leaves the
    set out. Single rows that remain join the class, or some members of a large one, for which that costs least. At the end
    values are shown again where a part of a group is large enough. Small problems are solved many times over: some groups are
    dissolved and formed again with other preferences.
    """
    n, p = codes.shape
    plain = codes.astype(np.int64)
    now, sets = plain.copy(), _sets_by_cost(cost)
    labels, counts = classes(list(now.T), n)
    _group(now, codes, counts[labels] < k, sets, cost, k)
    best = float((((now < 0) & (codes >= 0)) @ cost).sum())
    numbers = _numbers()
    for _ in range(min(_ROUNDS, _WORK // (n * len(sets)))):
        attempt = now.copy()
        labels, counts = classes(list(now.T), n)
        picked = np.array([next(numbers) < 0.4 for _ in counts])[labels]
        attempt[picked] = plain[picked]
        labels, counts = classes(list(attempt.T), n)
        open_ = counts[labels] < k
        attempt[open_] = plain[open_]
        other = cost * np.array([0.7 + 0.6 * next(numbers) for _ in cost])
        _group(attempt, codes, open_, _sets_by_cost(other), cost, k)
        price = float((((attempt < 0) & (codes >= 0)) @ cost).sum())
        if price <= best + 1e-9:
            now, best = attempt, price
    return np.asarray(((now < 0) & (codes >= 0)) @ (1 << np.arange(p)), np.int64)


def _numbers() -> Iterator[float]:
    """Yield numbers in (0, 1) of a small generator (Lehmer 1951): the same search in every run."""
    state = 12345
    while True:
        state = state * 48271 % 2147483647
        yield state / 2147483647


def _group(now: NDArray[np.int64], codes: Codes, open_: Flags, sets: list[list[int]], cost: Numbers, k: int) -> None:
    """Leave values out of the open rows, until all rows are alike to k; the others are so already."""
    for columns in sets:
        if not open_.any():
            break
        masked = now[open_].copy()
        masked[:, columns] = -1
        settled = now[~open_ & (now[:, columns] < 0).all(axis=1)]
        both = np.vstack([masked, settled])
        labels, counts = classes(list(both.T), len(both))
        large = counts[labels[: len(masked)]] >= k
        rows = np.flatnonzero(open_)[large]
        now[rows] = masked[large]
        open_[rows] = False
    for row in np.flatnonzero(open_):
        _join(now, int(row), ~open_, cost, k)
        open_[row] = False
    _show_parts(now, codes, cost, k)


def _sets_by_cost(cost: Numbers) -> list[list[int]]:
    """Return the sets of columns, cheap ones first."""
    p = len(cost)
    sizes = range(1, p + 1) if p <= _MANY else [1, 2, 3, p]
    found = [list(columns) for size in sizes for columns in combinations(range(p), size)]
    return sorted(found, key=lambda columns: float(cost[columns].sum()))


def _join(now: NDArray[np.int64], row: int, settled: Flags, cost: Numbers, k: int) -> None:
    """Let a row join a class of settled ones, or k - 1 members of one that remains large enough; change both to what is equal."""
    others = np.flatnonzero(settled)
    labels, counts = classes(list(now[others].T), len(others))
    first = np.empty(len(counts), np.int64)
    first[labels] = others
    differ = now[first] != now[row]
    own = (differ & (now[row] >= 0)) @ cost
    theirs = (differ & (now[first] >= 0)) @ cost
    lent = np.where((counts >= 2 * k - 1) & (theirs > 0), k - 1, counts)
    best = int(np.argmin(own + lent * theirs))
    members = others[labels == best][: lent[best]]
    now[np.ix_(np.append(members, row), np.flatnonzero(differ[best]))] = -1


def _show_parts(now: NDArray[np.int64], codes: Codes, cost: Numbers, k: int) -> None:
    """Show values of a column again in a part of a group, dear columns first, where the part and the rest stay large enough."""
    for c in np.argsort(-cost, kind="stable"):
        labels, counts = classes(list(now.T), len(now))
        left_out = (now[:, c] < 0) & (codes[:, c] >= 0)
        for group in np.unique(labels[left_out]):
            members = np.flatnonzero((labels == group) & left_out)
            rest = int(counts[group])
            values, sizes = np.unique(codes[members, c], return_counts=True)
            for value, size in sorted(zip(values.tolist(), sizes.tolist(), strict=True), key=lambda pair: -pair[1]):
                if size >= k and (rest - size >= k or rest == size):
                    now[members[codes[members, c] == value], c] = value
                    rest -= size
