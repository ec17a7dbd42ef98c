"""Linear programs over one set of bounds and many objectives, by HiGHS: the attacker's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato.errors import SfumatoError

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


_ATTEMPTS: tuple[dict[str, str | int], ...] = (
    {"presolve": "off", "simplex_strategy": 4},
    {"presolve": "off", "simplex_strategy": 1},
    {"presolve": "on", "simplex_strategy": 1},
)
"""The primal simplex method from the last vertex; where rounding stops it, the dual one from the beginning."""


class Infeasible(Exception):  # noqa: N818
    """Nothing satisfies the bounds."""


class LinearProgram:
    """Values x between bounds whose sums `rows @ x` are between bounds; minimise or maximise what is asked for.

    The model is built once. An answer is a vertex from which the next question starts, by the primal simplex method, since
    a changed objective leaves it feasible.
    """

    def __init__(
        self,
        rows: sparse.csr_array,
        row_low: Numbers,
        row_high: Numbers,
        low: Numbers,
        high: Numbers,
    ) -> None:
        self.columns = int(rows.shape[1])
        finite = np.concatenate([np.abs(b[np.isfinite(b)]) for b in (row_low, row_high, low, high)])
        self.largest_bound = float(finite.max(initial=0.0))
        # tolerances of the solver are absolute: values of about a thousand leave a dozen digits
        self.scale = self.largest_bound / 1e3 if self.largest_bound > 0 else 1.0
        self._bounds = tuple(b / self.scale for b in (row_low, row_high, low, high))
        self._rows = rows
        self._costs = np.zeros(self.columns)
        self._solver: Any = self._model()
        if (point := self._solve()) is None:
            raise Infeasible
        self.point = point
        """A solution: some x that satisfies everything."""

    def _model(self) -> Any:
        import highspy

        row_low, row_high, low, high = self._bounds
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.silent()
        for option, value in {
            "solver": "simplex", "threads": 1, "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-9, "random_seed": 0, **_ATTEMPTS[0],
        }.items():  # fmt: skip
            solver.setOptionValue(option, value)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.columns, self._rows.shape[0]
        lp.col_cost_ = np.zeros(self.columns)
        lp.col_lower_, lp.col_upper_, lp.row_lower_, lp.row_upper_ = low, high, row_low, row_high
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = self._rows.indptr.astype(np.int32)
        lp.a_matrix_.index_ = self._rows.indices.astype(np.int32)
        lp.a_matrix_.value_ = self._rows.data.astype(np.float64)
        solver.passModel(lp)
        return solver

    def _solve(self) -> Numbers | None:
        """Return a solution, or None where there is none that is finite."""
        import highspy

        status = highspy.HighsModelStatus
        x: Numbers | None = None
        for options in _ATTEMPTS:
            for option, value in options.items():
                self._solver.setOptionValue(option, value)
            if options is not _ATTEMPTS[0]:
                self._solver.clearSolver()
            self._solver.run()
            found = self._solver.getModelStatus()
            if found == status.kOptimal:
                x = np.array(self._solver.getSolution().col_value) * self.scale
                break
            if found in (status.kInfeasible, status.kUnbounded, status.kUnboundedOrInfeasible):
                self._solver.clearSolver()
                break
        else:
            raise SfumatoError(f"a linear program could not be solved ({self._solver.modelStatusToString(found)}).")
        for option, value in _ATTEMPTS[0].items():
            self._solver.setOptionValue(option, value)
        return x

    def largest(self, at: Whole, costs: Numbers) -> tuple[float, Numbers | None]:
        """Return the largest Σ costs·x over the columns `at`, and an x that has it; infinity and None if there is none."""
        change = np.union1d(np.flatnonzero(self._costs), at).astype(np.int32)
        self._costs[:] = 0.0
        self._costs[at] = -costs
        self._solver.changeColsCost(len(change), change, self._costs[change])
        x = self._solve()
        return (np.inf, None) if x is None else (float(costs @ x[at]), x)

    def smallest(self, at: Whole, costs: Numbers) -> tuple[float, Numbers | None]:
        """Return the smallest value of Σ costs·x over the columns `at`, and an x that has it; -infinity and None if none."""
        value, x = self.largest(at, -costs)
        return -value, x
