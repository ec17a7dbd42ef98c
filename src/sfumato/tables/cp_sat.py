"""Controlled rounding by CP-SAT, as a separate program: it reads a problem from standard input and writes an answer.

It runs in a child process, since ortools and highspy cannot be loaded together. It imports nothing of sfumato, writes no file,
and prints nothing: output of ortools is discarded, and an error is an exit code.
"""

from __future__ import annotations

import io
import os
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MISSING, FAILED = 3, 4
"""Exit codes: ortools is not installed; the solver failed."""
_EXACT = 2000  # up to this many quantities the optimum is sought before a gap is accepted


def solve(problem: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the rounding with the smallest cost: status, the quantities (empty if none was found) and a bound.

    Quantity i is floor + (0 or `room`) + over - under; going up costs `up`, every step over or under costs `outer`, and all are
    between `lower` and `upper`. Free quantities cost nothing. It ends before `until` (seconds since 1970). If `settled`, the
    start is a solution already, and only a bound is needed.
    """
    from ortools.sat.python import cp_model

    p = {name: array.tolist() for name, array in problem.items()}
    count = len(p["floor"])
    model = cp_model.CpModel()
    quantities, terms, costs, hints = _quantities(model, p)
    for a, b in zip(p["starts"][:-1], p["starts"][1:], strict=True):
        model.add(cp_model.LinearExpr.weighted_sum([quantities[j] for j in p["columns"][a:b]], p["signs"][a:b]) == 0)
    constant = p["constant"][0] - sum(p["up"][i] * p["floor"][i] for i in range(count) if not p["free"][i])
    model.minimize(cp_model.LinearExpr.weighted_sum(terms, costs) + constant)
    limit, gap = p["limit"][0], p["gap"][0]
    # the time to answer is part of the limit too: half a second, or a few percent of it
    left = p["until"][0] - max(0.03 * limit, 0.5) - time.time()
    if left <= 0:
        return _answer(3, [], np.nan)
    solver = cp_model.CpSolver()
    settings = solver.parameters
    settings.num_workers = 1  # with more, the answer would depend on which finishes first
    settings.random_seed = 0
    settings.log_search_progress = False
    settings.max_time_in_seconds = left
    # limits that do not depend on the load of the machine; a bound comes soon, and more time hardly improves the answer
    settings.max_deterministic_time = (0.2 if p["settled"][0] else 0.35) * limit
    settings.relative_gap_limit = 0.0 if count <= _EXACT else gap
    status = solver.solve(model)
    bound = solver.best_objective_bound
    left -= solver.wall_time
    if status in (cp_model.FEASIBLE, cp_model.UNKNOWN) and not p["settled"][0] and left > 0:
        # the start helps where the solver finds nothing by itself, and hinders otherwise
        for made, hint in hints:
            model.add_hint(made, solver.value(made) if status == cp_model.FEASIBLE else hint)
        settings.max_time_in_seconds = left
        settings.max_deterministic_time = 0.15 * limit
        settings.relative_gap_limit = gap
        status = solver.solve(model)
        bound = max(bound, solver.best_objective_bound)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    known = {cp_model.OPTIMAL: 0, cp_model.FEASIBLE: 1, cp_model.INFEASIBLE: 2}
    values = [solver.value(q) for q in quantities] if found else []
    return _answer(known.get(status, 3), values, bound)


def _quantities(
    model: cp_model.CpModel, p: dict[str, list[Any]]
) -> tuple[list[Any], list[Any], list[int], list[tuple[Any, int]]]:
    """Return the quantities, the terms of the objective with their costs, and where each variable starts."""
    quantities: list[Any] = []
    terms: list[Any] = []
    costs: list[int] = []
    hints: list[tuple[Any, int]] = []

    def variable(low: int, high: int, hint: int) -> Any:
        made = model.new_int_var(low, high, "")
        hints.append((made, hint))
        return made

    for i in range(len(p["floor"])):
        floor, room, low, high, hint = (p[name][i] for name in ("floor", "room", "lower", "upper", "hint"))
        if p["free"][i]:
            quantities.append(variable(low, high, hint))
            continue
        if floor <= low and high <= floor + room:
            quantities.append(variable(low, high, hint))
            terms.append(quantities[-1])
            costs.append(p["up"][i])
            continue
        inner = min(max(hint, floor), floor + room)
        inside = variable(floor, floor + room, inner)
        over = variable(0, max(high - floor - room, 0), max(hint - inner, 0))
        under = variable(0, max(floor - low, 0), max(inner - hint, 0))
        quantities.append(inside + over - under)
        model.add_linear_constraint(inside + over - under, low, high)
        terms += [inside, over, under]
        costs += [p["up"][i], p["outer"][i], p["outer"][i]]
    return quantities, terms, costs, hints


def _answer(status: int, quantities: list[int], bound: float) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "status": np.array(status), "quantities": np.array(quantities, np.int64), "bound": np.array(bound),
    }  # fmt: skip


def _import_the_solver() -> None:
    """Import CP-SAT without pandas, which it names for columns of variables alone: nearly half of a small problem's time."""
    stand_in = ModuleType("pandas")
    vars(stand_in).update(Index=type("Index", (), {}), Series=type("Series", (), {}))
    sys.modules["pandas"] = stand_in
    try:
        import ortools.sat.python.cp_model
    except AttributeError:  # a release of ortools that looks for more in pandas
        del sys.modules["pandas"]
        import ortools.sat.python.cp_model  # noqa: F401


def main() -> int:
    """Solve the problem on the standard input."""
    answer = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        _import_the_solver()
    except ImportError:
        return MISSING
    try:
        with np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False) as given:
            found = solve({name: given[name] for name in given.files})
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **found)
        with os.fdopen(answer, "wb") as out:
            out.write(packed.getvalue())
    except BaseException:  # any message might quote a value
        return FAILED
    return 0


if __name__ == "__main__":
    os._exit(main())  # not sys.exit: the interpreter could print errors at its end
