"""Controlled rounding, against every additive rounding of small tables; and its child process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding_tables import SmallValues, adds_up, all_roundings, counted, linked, shared
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import DataError, MissingExtra, ParameterError, SfumatoError
from sfumato.kernels.table_algebra import partitions
from sfumato.tables import ControlledRounding, Status, Table, cp_sat
from sfumato.tables import controlled_rounding as child
from sfumato.tables.attacker import Attacker
from sfumato.tables.controlled_rounding import RoundingProblem, Slabs
from sfumato.tables.linear_program import Equations

pytest.importorskip("numba")
HAS_ORTOOLS = subprocess.run([sys.executable, "-c", "import ortools"], capture_output=True).returncode == 0
needs_ortools = pytest.mark.skipif(not HAS_ORTOOLS, reason="ortools is not installed")
INFEASIBLE = [[[1, 0, 1], [0, 1, 0]], [[1, 1, 1], [0, 1, 1]]]
"""Found by trying all roundings of random tables: none to multiples of 2 is additive and zero-restricted."""


# -- the equations


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_equations_say_exactly_what_the_incidence_says(seed: int) -> None:
    for formula in ("region * sector + kind * sector", "region + sector + kind", "region : sector - 1 + kind"):
        table = linked(seed, formula=formula)
        e = Equations.of(table.cells)
        quantities = np.zeros(e.sums.shape[1])
        quantities[e.of_leaf], quantities[e.of_cell] = table.totals, table.value
        assert np.abs(e.sums @ quantities).max(initial=0) == 0
        # as many independent equations as there are quantities beyond the leaves: so they say all there is to say
        assert e.sums.shape[1] - e.sums.shape[0] == table.cells.leaves
        assert np.linalg.matrix_rank(e.sums.toarray()) == e.sums.shape[0] if e.sums.shape[0] else True
        assert (e.of_cell[e.cell[e.cell >= 0]] == np.flatnonzero(e.cell >= 0)).all()


def test_partitions_are_disjoint_unions() -> None:
    sets = [{0}, {1}, {2, 3}, {0, 1}, {0, 1, 2, 3}, {1, 2, 4}]
    ptr = np.cumsum([0, *map(len, sets)]).astype(np.int64)
    members = np.array([m for s in sets for m in sorted(s)], np.int64)
    inner = [sorted((j for j in range(6) if sets[j] < sets[c]), key=lambda j: -len(sets[j])) for c in range(6)]
    inner_ptr = np.cumsum([0, *map(len, inner)]).astype(np.int64)
    starts, found = partitions(ptr, members, inner_ptr, np.array([j for c in inner for j in c], np.int64), 5)
    for c in range(6):
        pieces = [sets[f] if f >= 0 else {-1 - f} for f in found[starts[c] : starts[c + 1]].tolist()]
        if len(sets[c]) > 1:
            assert set().union(*pieces) == sets[c]
            assert sum(map(len, pieces)) == len(sets[c])
        else:
            assert not pieces
    assert found[starts[4] : starts[5]].tolist() == [2, 3]


# -- the rounding


@needs_ortools
@pytest.mark.parametrize(("shape", "base"), [((3, 3), 5), ((2, 2, 2), 3), ((2, 3), 10), ((2, 2, 3), 4)])
def test_the_distance_is_the_smallest_of_all_additive_roundings(shape: tuple[int, ...], base: int) -> None:
    g = np.random.default_rng(sum(shape) + base)
    for _ in range(2):
        table = counted(g.integers(0, 2 * base, shape))
        best = min((np.abs(y - table.value).sum() for y in all_roundings(table, base)), default=None)
        assert best is not None
        published = ControlledRounding(base).apply(table, Draws(1))
        assert np.abs(published.values - table.value).sum() == best
        assert adds_up(table, published.values)
        assert "least there is" in published.guarantees[2].says


@needs_ortools
@pytest.mark.parametrize("seed", range(4))
def test_linked_and_hierarchical_tables_are_rounded_together(seed: int) -> None:
    for formula in ("region * sector + kind * sector", "region + sector"):
        table = linked(seed, 80, formula)
        published = ControlledRounding(3, steps=1).apply(table, Draws(seed))
        assert adds_up(table, published.values)
        assert (published.values % 3 == 0).all()
        assert ((published.low <= table.value) & (table.value <= published.high)).all()
        assert (published.status == Status.CHANGED).all()
        near = np.abs(published.values - table.value)
        assert near.max() < 6
        if near.max() < 3:
            multiples = table.value % 3 == 0
            assert (published.values[multiples] == table.value[multiples]).all()


@needs_ortools
def test_hidden_leaves_do_not_bind() -> None:
    """Margins only: every pair of margins with the same grand total will do, so each margin can go to the nearest."""
    table = counted([[1, 1, 1], [1, 1, 1], [1, 1, 1]]).with_()
    frame = pd.DataFrame([{"a": f"a{i}", "b": f"b{j}"} for i in range(3) for j in range(3)])
    margins = Table.of(Microdata(frame), "a + b")
    published = ControlledRounding(2).apply(margins, Draws(1))
    # 3 goes to 2 or 4 and 9 to 8 or 10; 2 + 2 + 4 = 8 at the least distance: 3 + 3 + 1
    assert np.abs(published.values - margins.value).sum() == 7
    assert len(table) == 16


@needs_ortools
def test_where_there_is_none_the_fewest_steps_are_named_and_used() -> None:
    table = counted(INFEASIBLE)
    assert next(all_roundings(table, 2), None) is None
    best = min(np.abs(y - table.value).sum() for y in all_roundings(table, 2, steps=1))
    with pytest.raises(
        DataError,
        match=r"there is no additive rounding .*smallest relaxation that works is steps=1: \d cells? then moves? further: \w",
    ):
        ControlledRounding(2).apply(table, Draws(1))
    published = ControlledRounding(2, steps=3).apply(table, Draws(1))
    assert np.abs(published.values - table.value).sum() == best
    assert adds_up(table, published.values)
    assert (published.high == published.values + 3).all()
    assert "less than 2 times 2" in published.guarantees[1].says


@needs_ortools
def test_magnitudes_are_rounded_too() -> None:
    g = np.random.default_rng(1)
    frame = pd.DataFrame({"a": list("uvw") * 4, "b": list("xxxyyyzzzxyz"), "t": g.lognormal(2, 1, 12)})
    table = Table.of(Microdata(frame), "a * b", "t")
    best = min(np.abs(y - table.value).sum() for y in all_roundings(table, 5))
    published = ControlledRounding(5).apply(table, Draws(1))
    assert np.abs(published.values - table.value).sum() == pytest.approx(best, rel=1e-5)
    assert (published.high == published.values + 5).all()


@needs_ortools
def test_a_rounding_does_not_depend_on_the_order_of_rows() -> None:
    g = np.random.default_rng(1)
    frame = pd.DataFrame({"a": g.choice(list("uvw"), 90), "b": g.choice(list("xyz"), 90)})
    first = ControlledRounding(4).apply(Table.of(Microdata(frame), "a * b"), Draws(1))
    again = ControlledRounding(4).apply(Table.of(Microdata(frame.sample(frac=1, random_state=3)), "a * b"), Draws(1))
    assert np.array_equal(first.values, again.values)


@needs_ortools
def test_protection_levels_hold_against_an_attacker_who_adds_up() -> None:
    table = counted([[1, 2, 9], [3, 8, 6], [7, 4, 11]])
    rule = SmallValues(most=4, level=2)
    published = ControlledRounding(5, rules=rule).apply(table, Draws(1))
    s = rule.assess(table)
    unsafe = np.flatnonzero(s.unsafe)
    low, high = Attacker.of(published).intervals(unsafe)
    assert (high >= table.value[unsafe] + s.upper[unsafe] - 1e-6).all()
    assert (low <= table.value[unsafe] - s.lower[unsafe] + 1e-6).all()
    # 4 must be published so that 10 and 0 are possible: as 0 with a base of 11, of which 10 is the largest rest
    with pytest.raises(ParameterError, match=r"rounding to 5 does not protect .* A base of 11 works"):
        ControlledRounding(5, rules=SmallValues(most=4, level=6)).apply(table, Draws(1))


@needs_ortools
def test_a_base_that_is_far_too_small_is_refused_with_one_that_works() -> None:
    frame = pd.DataFrame({"region": list("xxyyz"), "t": [1e6, 2, 30, 40, 5]})
    table = Table.of(Microdata(frame), "region", "t")
    with pytest.raises(ParameterError, match=r"does not protect .* A base of [\d.]+ works") as caught:
        ControlledRounding(5, rules="p% 20").apply(table, Draws(1))
    base = float(re.findall(r"A base of ([\d.]+) works", str(caught.value))[0])
    # x must reach 199,998 above and below 1,000,002
    assert 199_998 <= base < 2.5 * 199_998
    published = ControlledRounding(base, rules="p% 20").apply(table, Draws(1))
    at = table.cells.find(region="x")
    low, high = Attacker.of(published).interval(at)
    assert low <= 1_000_002 - 199_998 + 1e-3
    assert high >= 1_000_002 + 199_998 - 1e-3


@needs_ortools
@pytest.mark.parametrize(
    ("name", "formula"), [("z1", "region * hovedint"), ("z3", "region * hovedint * mnd + fylke * mnd2")]
)
def test_the_shared_frequency_files_are_rounded(name: str, formula: str) -> None:
    table = shared(name, formula)
    published = ControlledRounding(5).apply(table, Draws(1))
    assert np.abs(published.values - table.value).max() < 5
    assert (table.cells.sums(published.values[table.cells.of_leaf]) == published.values).all()


# -- slabs


def three_way(shape: tuple[int, int, int], seed: int = 3) -> tuple[RoundingProblem, np.ndarray[Any, Any]]:
    """Return the rounding of a table to multiples of 5, and a first solution."""
    g = np.random.default_rng(seed)
    table = counted(g.negative_binomial(1, 0.3, shape))
    problem = RoundingProblem(table, 5, Equations.of(table.cells))
    start = problem.start(g.random(table.cells.leaves))
    low, high = problem.bounds(0)
    times = table.cells.sums(start)
    assert ((low <= times) & (times <= high)).all()
    return problem, start


def test_a_slab_is_rounded_as_well_as_any_solver_can() -> None:
    problem, start = three_way((12, 10, 8))
    table, (low, high) = problem.table, problem.bounds(0)
    R = table.cells.incidence.toarray()
    slabs = Slabs(problem, start, low, high)
    for label in (f"a{i}" for i in range(12)):
        at = np.flatnonzero(R[table.cells.find(a=label)])
        slabs._again(at)
        if (slabs.leaves != start).any():
            break
    # all leaves, and how far each cell then is from its value, by scipy's branch and bound
    cells, leaves = R.shape
    move = np.zeros(leaves)
    move[at] = 1
    off = np.vstack([np.hstack([5 * R, -np.eye(cells)]), np.hstack([-5 * R, -np.eye(cells)])])
    best = milp(
        np.concatenate([np.zeros(leaves), np.ones(cells)]), integrality=np.concatenate([np.ones(leaves), np.zeros(cells)]),
        constraints=[
            LinearConstraint(np.hstack([R, np.zeros((cells, cells))]), low, high),
            LinearConstraint(off, -np.inf, np.concatenate([table.value, -table.value])),
        ],
        bounds=Bounds(
            np.concatenate([start * (1 - move), np.zeros(cells)]),
            np.concatenate([np.where(move, np.inf, start), np.full(cells, np.inf)]),
        ),
    )  # fmt: skip
    times = np.rint(R @ slabs.leaves).astype(int)
    assert ((low <= times) & (times <= high)).all()
    assert problem.distance(times) == pytest.approx(best.fun)
    assert problem.distance(times) < problem.distance(np.rint(R @ start).astype(int))


def test_slabs_come_near_to_the_least_distance_of_a_large_table() -> None:
    problem, start = three_way((14, 12, 10))
    table, (low, high) = problem.table, problem.bounds(0)
    R = table.cells.incidence
    # a bound that is none of ours: the linear relaxation, by scipy
    shared = np.flatnonzero(table.cells.sizes > 1)
    up = np.where(problem.rest > 0, 5 - 2 * problem.rest, 0)
    relaxed = linprog(
        R.T @ up, A_ub=sparse.vstack([R[shared], -R[shared]]), b_ub=np.concatenate([high[shared], -low[shared]]),
        bounds=np.column_stack([low[table.cells.of_leaf], high[table.cells.of_leaf]]),
    )  # fmt: skip
    least = relaxed.fun + (problem.rest - up * problem.floor).sum()
    slabs = Slabs(problem, start, low, high)
    slabs.improve(0.0, np.random.default_rng(1), np.inf)
    times = np.rint(table.cells.sums(slabs.leaves)).astype(int)
    first = problem.distance(np.rint(table.cells.sums(start)).astype(int))
    assert ((low <= times) & (times <= high)).all()
    assert first > 1.1 * least
    assert least <= problem.distance(times) < 1.07 * least


def test_a_bound_that_says_nothing_is_not_told() -> None:
    problem, start = three_way((4, 3, 2))
    times = np.rint(problem.table.cells.sums(start)).astype(int)
    distance = float(np.abs(5 * times - problem.table.value).sum())
    assert problem.above(times, distance) == 0
    assert problem.above(times, distance / 1.25) == pytest.approx(0.25)
    assert problem.above(times, 0.0) == problem.above(times, np.nan) == np.inf


# -- the child


def small_problem() -> dict[str, Any]:
    table = counted([[1, 2], [3, 4]])
    problem = RoundingProblem(table, 5, Equations.of(table.cells))
    return problem.arrays(problem.bounds(0), problem.start(np.linspace(0.1, 0.9, 4)))


def test_without_ortools_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ortools.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingExtra, match=r"pip install 'sfumato\[rounding\]'"):
        ControlledRounding(5).apply(counted([[1, 2], [3, 4]]), Draws(1))


def test_a_child_that_fails_says_nothing_about_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    for package in ("ortools", "ortools/sat", "ortools/sat/python"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "ortools/sat/python/cp_model.py").write_text(
        "import sys\nprint('secret 4711')\nprint('secret 4711', file=sys.stderr)\n"
        "class CpModel:\n    def __init__(self): raise ValueError('secret 4711')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(SfumatoError, match="without an answer") as found:
        ControlledRounding(5).apply(counted([[4711, 2], [3, 4]]), Draws(1))
    seen = capfd.readouterr()
    assert "4711" not in str(found.value) + seen.out + seen.err
    assert found.value.__cause__ is None


SLOW = 600


def slow_ortools(folder: Path) -> None:
    (folder / "ortools.py").write_text(f"import time\ntime.sleep({SLOW})\n")


def children() -> set[str]:
    mine = str(os.getpid())
    return {p.name for p in Path("/proc").glob("[0-9]*") if _parent(p) == mine and b"cp_sat" in _command(p)}


def _parent(process: Path) -> str:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return ""


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_child_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_ortools(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = time.monotonic()
    answer = child.solve(small_problem(), limit=1.0, gap=0.0)
    assert answer.status == child.UNKNOWN
    assert np.isnan(answer.bound)
    assert time.monotonic() - started < SLOW / 2
    assert not children()


def test_at_the_time_limit_the_best_found_by_local_search_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_ortools(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    table = counted([[1, 2, 9], [3, 8, 6], [7, 4, 11]])
    published = ControlledRounding(5, time_limit=1).apply(table, Draws(1))
    assert adds_up(table, published.values)
    assert np.abs(published.values - table.value).max() < 5
    assert "within the time limit" in published.guarantees[2].says


class Clock:
    """A clock that only the solver moves: what the machine does meanwhile does not count."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_solver_that_does_not_end_does_not_stretch_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []

    def never_ends(problem: Any, limit: float, *_: Any) -> child.SolverResult:
        ends.append(clock.now + limit)
        clock.now += limit  # until it is killed
        return child.SolverResult(child.UNKNOWN, None)

    clock = Clock()
    monkeypatch.setattr(child, "time", clock)
    monkeypatch.setattr(child, "solve", never_ends)
    with pytest.raises(DataError, match=r"within the time limit .* What works is steps=1"):
        ControlledRounding(2, time_limit=3).apply(counted(INFEASIBLE), Draws(1))
    assert ends
    assert max(ends) <= 3


def test_an_interrupt_kills_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_ortools(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def interrupted(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.solve(small_problem(), limit=60.0, gap=0.0)
    assert not children()


@needs_ortools
def test_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert child.solve(small_problem(), limit=100.0, gap=0.0).status == child.OPTIMAL
    assert list(tmp_path.rglob("*")) == []


def test_the_program_of_the_child_imports_nothing_of_sfumato() -> None:
    text = Path(cp_sat.__file__).read_text("utf-8")
    assert "import sfumato" not in text
    assert "from sfumato" not in text
