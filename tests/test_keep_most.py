"""The best release as a semidefinite programme: closed forms against an independent solver, grids and duality."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.papers.conditional import omega
from sfumato.papers.masking_problem import Functional, by_barrier, by_trace, keep_most, one_target
from sfumato.papers.optimal_masks import best_projection, lost

Numbers = NDArray[np.float64]
FUNCTIONALS: tuple[Functional, ...] = get_args(Functional)


def problem(r: int, t: int, functional: Functional, seed: int, strict: float | None = None) -> tuple[Numbers, Numbers]:
    """Random worth and links, in units in which τ = 1; `strict` is what X explains, as a multiple of τ."""
    g = np.random.default_rng(seed)
    root = g.normal(size=(r, r))
    H, J = root @ root.T / r + 0.05 * np.eye(r), g.normal(size=(t, r))
    return H, J * np.sqrt((strict or g.uniform(1.1, 20)) / omega(J @ J.T, functional))


def by_admm(H: Numbers, J: Numbers, functional: Functional, rounds: int = 4_000) -> float:
    """Most kept, by alternating directions: F in [0, I] and J F J′ within its limit are split, and pulled together."""
    r, t = len(H), len(J)
    scale = float(np.linalg.norm(H))
    both = np.vstack([np.eye(r * r), np.kron(J, J)])
    solve = np.linalg.inv(both.T @ both) @ both.T
    target, dual = np.zeros(r * r + t * t), np.zeros(r * r + t * t)
    worth = np.linalg.inv(both.T @ both) @ (H / scale).ravel()
    F = np.zeros((r, r))
    for _ in range(rounds):
        F = (solve @ (target - dual) + worth).reshape(r, r)
        wanted = both @ F.ravel() + dual
        values, V = np.linalg.eigh(_even(wanted[: r * r].reshape(r, r)))
        box = (V * values.clip(0, 1)) @ V.T
        limit = _within(_even(wanted[r * r :].reshape(t, t)), functional)
        target = np.concatenate([box.ravel(), limit.ravel()])
        dual = wanted - target
    inside = target[: r * r].reshape(r, r)
    return float(np.sum(H * inside) / max(1.0, omega(J @ inside @ J.T, functional)))


def _even(matrix: Numbers) -> Numbers:
    return (matrix + matrix.T) / 2


def _within(S: Numbers, functional: Functional) -> Numbers:
    """The nearest matrix with Ω ≤ 1."""
    if functional == "trace":
        return S - max(np.trace(S) - 1, 0) / len(S) * np.eye(len(S))
    if functional == "each target":
        return S - np.diag(np.maximum(np.diag(S) - 1, 0))
    values, V = np.linalg.eigh(S)
    return np.asarray((V * values.clip(max=1)) @ V.T)


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("t", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_an_independent_solver_keeps_as_much(functional: Functional, t: int, seed: int) -> None:
    H, J = problem(4, t, functional, seed, strict=2.0 + seed)
    best = keep_most(H, J, functional)
    assert float(np.sum(H * best.F)) == pytest.approx(by_admm(H, J, functional), rel=1e-4)


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize(("r", "t"), [(1, 1), (2, 1), (6, 1), (2, 2), (5, 3), (3, 5), (12, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_a_release_is_possible_and_almost_as_good_as_the_bound(
    functional: Functional, r: int, t: int, seed: int
) -> None:
    H, J = problem(r, t, functional, seed)
    best = keep_most(H, J, functional)
    values = np.linalg.eigvalsh(best.F)
    assert values[0] > -1e-12
    assert values[-1] < 1 + 1e-12
    assert omega(J @ best.F @ J.T, functional) <= 1 + 1e-9
    assert np.linalg.eigvalsh(best.multiplier)[0] >= 0
    kept = float(np.sum(H * best.F))
    assert -1e-9 <= (best.bound - kept) / np.trace(H) < 5e-8


def test_the_bound_holds_for_every_release_tried() -> None:
    """Weak duality, against thousands of random releases scaled to the limit."""
    g = np.random.default_rng(4)
    for functional in FUNCTIONALS:
        H, J = problem(4, 2, functional, seed=11)
        bound = keep_most(H, J, functional).bound
        for _ in range(3_000):
            V, _ = np.linalg.qr(g.normal(size=(4, 4)))
            F = (V * g.beta(0.4, 0.4, 4)) @ V.T
            assert float(np.sum(H * F)) / max(1.0, omega(J @ F @ J.T, functional)) <= bound + 1e-9


@pytest.mark.parametrize("seed", range(30))
def test_for_one_target_one_direction_alone_is_hidden_and_three_methods_agree(seed: int) -> None:
    H, J = problem(5, 1, "trace", seed)
    F, multiplier = one_target(H, J[0])
    assert np.linalg.matrix_rank(np.eye(5) - F, tol=1e-9) == 1
    kept = float(np.sum(H * F))
    assert J[0] @ F @ J[0] == pytest.approx(1, rel=1e-9)
    for other, factor in (by_trace(H, J.T @ J), by_barrier(H, J, diagonal=False)):
        assert float(np.sum(H * other)) == pytest.approx(kept, rel=1e-8)
        assert float(np.ravel(factor)[0]) == pytest.approx(multiplier, rel=1e-3)


def test_for_one_target_noise_is_used_only_while_the_threshold_is_high() -> None:
    """Below a threshold, the best of all releases has no noise: the direction is not released."""
    H = np.diag([1.0, 4.0])
    g = np.array([1.0, 1.0])
    # H⁻¹g = (1, 1/4), so φ(0) = (5/4)²/(17/16) = 25/17, and noise is needed for τ > 2 - 25/17 = 9/17
    for tau in (0.2, 0.5, 0.52):
        assert np.linalg.eigvalsh(one_target(H, g / np.sqrt(tau))[0])[0] == pytest.approx(0, abs=1e-9)
    for tau in (0.54, 1.0, 1.9):
        F = one_target(H, g / np.sqrt(tau))[0]
        assert np.linalg.eigvalsh(F)[0] == pytest.approx(1 - (2 - tau) / (25 / 17))
        # what is lost by hand: γ/(g′H⁻¹g)
        assert float(np.sum(H * (np.eye(2) - F))) == pytest.approx((2 - tau) / 1.25)


def test_as_the_threshold_falls_to_zero_the_best_predictor_is_what_is_hidden() -> None:
    H, J = problem(4, 1, "trace", seed=2)
    F, _ = one_target(H, J[0] * 1e7)
    g = J[0] / np.linalg.norm(J[0])
    np.testing.assert_allclose(np.eye(4) - F, np.outer(g, g), atol=1e-6)


def test_what_explains_little_is_released_as_it_is() -> None:
    H, J = problem(3, 2, "trace", seed=1, strict=0.99)
    best = keep_most(H, J, "trace")
    np.testing.assert_array_equal(best.F, np.eye(3))
    assert best.bound == pytest.approx(float(np.trace(H)))


# Projections


def directions(n: int = 60_000) -> Numbers:
    """Evenly spread unit vectors in space (Fibonacci's spiral), shape (n, 3)."""
    i = np.arange(n) + 0.5
    height, angle = 1 - 2 * i / n, np.pi * (1 + 5**0.5) * i
    across = np.sqrt(1 - height**2)
    return np.column_stack([across * np.cos(angle), across * np.sin(angle), height])


DIRECTIONS = directions()


def grid_of_projections(H: Numbers, J: Numbers, functional: Functional) -> float:
    """Least lost in three dimensions when one direction, two, or all are left out, over the grid."""
    best = float(np.trace(H))
    one = np.einsum("ni,ij,nj->n", DIRECTIONS, H, DIRECTIONS)
    links = DIRECTIONS @ J.T
    G = J @ J.T
    for released, losses in (
        (G - np.einsum("ni,nj->nij", links, links), one),
        (np.einsum("ni,nj->nij", links, links), np.trace(H) - one),
    ):
        if functional == "trace":
            value = np.einsum("nii->n", released)
        elif functional == "each target":
            value = np.einsum("nii->ni", released).max(axis=1)
        else:
            value = np.linalg.eigvalsh(released)[:, -1]
        best = min(best, float(losses[value <= 1].min(initial=np.inf)))
    return best


@pytest.mark.parametrize("functional", FUNCTIONALS)
@pytest.mark.parametrize("t", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_no_projection_of_a_fine_grid_loses_less(functional: Functional, t: int, seed: int) -> None:
    H, J = problem(3, t, functional, seed)
    whole = keep_most(H, J, functional)
    found = best_projection(H, J, functional, whole.multiplier)
    assert found is not None
    K = found.out @ found.out.T
    np.testing.assert_allclose(found.out.T @ found.out, np.eye(found.out.shape[1]), atol=1e-9)
    assert omega(J @ (np.eye(3) - K) @ J.T, functional) <= 1 + 1e-9
    least = lost(H, found.out)
    assert least <= grid_of_projections(H, J, functional) + 1e-9
    assert found.bound >= np.trace(H) - least - 1e-9
    if t == 1 or functional == "trace":  # Lagrange's bound is attained: proof that it is the best
        assert found.bound == pytest.approx(np.trace(H) - least, abs=1e-8 * np.trace(H))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("combinations", [1, 2, 3, 4])
def test_as_many_combinations_are_released_as_asked_for_and_none_better(seed: int, combinations: int) -> None:
    H, J = problem(5, 1, "trace", seed)
    found = best_projection(H, J, "trace", np.zeros((1, 1)), combinations)
    assert found is not None
    assert found.out.shape == (5, 5 - combinations)
    kept = float(np.trace(H)) - lost(H, found.out)
    assert found.bound == pytest.approx(kept, rel=1e-8)
    g = np.random.default_rng(seed)
    for _ in range(2_000):
        V, _ = np.linalg.qr(g.normal(size=(5, combinations)))
        if np.square(J @ V).sum() <= 1:
            assert float(np.sum(V * (H @ V))) <= kept + 1e-9


def test_where_eigenvalues_cross_the_best_projection_lies_between() -> None:
    """The target has no link with the cheapest direction, so K jumps from there to another; the best is a mixture."""
    H, J = np.diag([1.0, 2.0, 5.0]), np.array([[0.0, 1.2, 0.9]])
    found = best_projection(H, J, "trace", np.zeros((1, 1)))
    assert found is not None
    assert lost(H, found.out) <= grid_of_projections(H, J, "trace") + 1e-9
    assert found.bound == pytest.approx(8 - lost(H, found.out), rel=1e-9)
    assert float(np.square(J - J @ found.out @ found.out.T).sum()) == pytest.approx(1, rel=1e-9)


def test_all_combinations_cannot_be_released_if_they_explain_too_much() -> None:
    H, J = problem(3, 1, "trace", seed=0)
    assert best_projection(H, J, "trace", np.zeros((1, 1)), combinations=3) is None
