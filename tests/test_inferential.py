"""Inferential disclosure: conditional variances, functionals, hidden and revealed masks, against algebra and simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.contract import MatrixForm
from sfumato.errors import NotApplicable, ParameterError
from sfumato.papers.conditional import (
    FUNCTIONALS,
    conditional_variance,
    explained,
    judge_explained,
    judge_left,
    of_explained,
    of_remaining,
    whiten,
)
from sfumato.papers.inferential import InferentialDisclosure, RandomMatrix

Numbers = NDArray[np.float64]


def joint(t: int, p: int, seed: int, rank: int | None = None) -> tuple[Numbers, Numbers, Numbers]:
    """Return S_yy, S_yx, S_xx of variables that are combinations of `rank` independent ones."""
    loads = np.random.default_rng(seed).normal(size=(t + p, rank or t + p + 1))
    S = loads @ loads.T
    return S[:t, :t], S[:t, t:], S[t:, t:]


# -- Var(Y | X) and G


@pytest.mark.parametrize(("t", "p"), [(1, 1), (1, 4), (3, 2), (2, 6)])
def test_the_conditional_variance_is_the_inverse_of_a_block_of_the_joint_precision(t: int, p: int) -> None:
    yy, yx, xx = joint(t, p, seed=t * 10 + p)
    precision = np.linalg.inv(np.block([[yy, yx], [yx.T, xx]]))
    left = conditional_variance(yy, yx, xx)
    np.testing.assert_allclose(left, np.linalg.inv(precision[:t, :t]), rtol=1e-9)
    np.testing.assert_allclose(explained(yx, xx), yy - left, rtol=1e-9)


def test_the_conditional_variance_is_the_residual_variance_of_a_regression() -> None:
    import statsmodels.api as sm

    yy, yx, xx = joint(1, 3, seed=5)
    draws = np.random.default_rng(6).multivariate_normal(np.zeros(4), np.block([[yy, yx], [yx.T, xx]]), 200_000)
    fit = sm.OLS(draws[:, 0], sm.add_constant(draws[:, 1:])).fit()
    assert fit.mse_resid == pytest.approx(conditional_variance(yy, yx, xx)[0, 0], rel=0.015)
    assert fit.rsquared == pytest.approx(explained(yx, xx)[0, 0] / yy[0, 0], abs=0.005)


def test_columns_that_depend_on_others_say_nothing_new() -> None:
    yy, yx, xx = joint(2, 3, seed=7)
    B = np.array([[1, 0, 0, 1, 2], [0, 1, 0, 1, 0], [0, 0, 1, 1, -1.0]])  # a sum, and a difference
    np.testing.assert_allclose(
        conditional_variance(yy, yx @ B, B.T @ xx @ B), conditional_variance(yy, yx, xx), atol=1e-9
    )
    np.testing.assert_allclose(
        explained(yx @ B, B.T @ xx @ B), yx @ B @ np.linalg.pinv(B.T @ xx @ B, hermitian=True) @ B.T @ yx.T, rtol=1e-9
    )


@pytest.mark.parametrize("rank", [2, 3, 8])
def test_units_do_not_matter_even_where_the_covariance_is_singular(rank: int) -> None:
    yy, yx, xx = joint(2, 5, seed=rank, rank=rank)
    D, E = np.diag(10.0 ** np.array([-9, 0, 4, 11, -3])), np.diag([1e6, 1e-7])
    there = conditional_variance(E @ yy @ E, E @ yx @ D, D @ xx @ D)
    sd = np.sqrt(np.diag(E @ yy @ E))
    here = E @ conditional_variance(yy, yx, xx) @ E
    np.testing.assert_allclose(there / np.outer(sd, sd), here / np.outer(sd, sd), atol=1e-9)


@pytest.mark.parametrize(("far", "close"), [(1e-1, 1e-9), (1e-2, 1e-9), (1e-4, 1e-6)])
def test_a_near_duplicate_is_told_from_a_duplicate(far: float, close: float) -> None:
    """The difference of two columns tells Y; a regression by orthogonal columns is the judge."""
    g = np.random.default_rng(8)
    x, other, noise = g.normal(size=(3, 200))
    y = x + other + 0.5 * noise
    columns = np.column_stack([x, x + far * other])
    S = np.cov(np.column_stack([y, columns]), rowvar=False)
    apart = np.column_stack([x - x.mean(), other - other.mean()])
    rest = (y - y.mean()) - apart @ np.linalg.lstsq(apart, y - y.mean(), rcond=None)[0]
    left = conditional_variance(S[0, 0], S[0, 1:], S[1:, 1:])[0, 0]
    assert left == pytest.approx(rest @ rest / 199, rel=close)


def test_a_difference_that_covariances_no_longer_hold_is_refused_rather_than_forgotten() -> None:
    far = 5e-7
    S = np.array([[1.0, 1.0], [1.0, 1.0 + far**2]])  # x, and x + far · y: their difference is y
    with pytest.raises(ParameterError, match="does not vary, or hardly"):
        conditional_variance(1.0, [0.0, far], S)


def test_what_is_among_the_released_is_disclosed_completely() -> None:
    _, _, xx = joint(1, 4, seed=3)
    assert (conditional_variance(xx[:1, :1], xx[:1], xx) == 0).all()
    assert conditional_variance(4.0, [0.0, 0.0], np.zeros((2, 2))).tolist() == [[4.0]]  # constants say nothing


def test_the_whitening_is_a_generalised_inverse() -> None:
    _, _, S = joint(1, 5, seed=2, rank=3)
    white = whiten(S)
    assert white.rank == 3
    np.testing.assert_allclose(S @ white.inverse @ S, S, atol=1e-9)
    np.testing.assert_allclose(white.root @ S @ white.root.T, np.eye(3), atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1.0, [0.9, 0.9], np.eye(2)), "too large for their variances"),
        ((1.0, [0.3, -0.3], np.ones((2, 2))), "does not vary"),
        ((1.0, [0.5, 0.5], [[1, 2], [2, 1]]), "not positive semi-definite"),
        ((1.0, [0.5, 0.5], [[1, 0.5], [0.2, 1]]), "not symmetric"),
        ((1.0, [0.5, 0.5], [[1, 0], [0, -1]]), "negative variance"),
        ((1.0, [0.5, 0.5], [[1, 0.1], [0.1, 0]]), "variance is zero"),
        ((1.0, [0.5], np.eye(2)), "2 columns"),
        ((np.eye(2), [0.5, 0.5], np.eye(2)), "2 targets, but S_yx about 1"),
        ((1.0, [0.5, np.nan], np.eye(2)), "missing or infinite"),
        ((1.0, [0.5, 0.5], [[1, np.inf], [np.inf, 1]]), "missing or infinite"),
        ((1.0, [0.5, 0.5], np.ones((2, 3))), "square matrix"),
    ],
)
def test_what_is_no_joint_covariance_is_refused_with_a_sentence(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        conditional_variance(*arguments)  # type: ignore[arg-type]


# -- functionals and the two rules


def test_the_functionals_are_those_of_the_definition() -> None:
    yy, yx, xx = joint(3, 2, seed=9)
    G, left = explained(yx, xx), conditional_variance(yy, yx, xx)
    assert of_explained("trace", yy, G) == pytest.approx(np.trace(G))
    assert of_explained("largest eigenvalue", yy, G) == pytest.approx(np.linalg.norm(G, 2))
    assert of_explained("log-determinant", yy, G) == pytest.approx(np.log(np.linalg.det(yy) / np.linalg.det(left)))
    assert of_remaining("trace", yy, left) == pytest.approx(np.trace(left))
    assert of_remaining("largest eigenvalue", yy, left) == pytest.approx(1 / np.linalg.norm(np.linalg.inv(left), 2))
    assert of_remaining("log-determinant", yy, left) == pytest.approx(np.log(np.linalg.det(left)))
    assert of_explained("each target", yy, G) == G.diagonal().max()
    assert of_remaining("each target", yy, left) == left.diagonal().min()


def test_each_target_by_itself_is_its_squared_multiple_correlation() -> None:
    yy, yx, xx = joint(3, 2, seed=9)
    G, left = explained(yx, xx), conditional_variance(yy, yx, xx)
    each = [yx[j] @ np.linalg.solve(xx, yx[j]) / yy[j, j] for j in range(3)]
    assert judge_explained(yy, G, 0.5, "each target", relative=True).value == pytest.approx(max(each))
    assert judge_left(yy, left, 0.5, "each target", relative=True).value == pytest.approx(1 - max(each))
    # a target that was known beforehand counts for nothing
    yy[0], yy[:, 0], G[0], G[:, 0], left[0], left[:, 0] = [0.0] * 6
    assert judge_left(yy, left, 0.5, "each target", relative=True).value == pytest.approx(1 - max(each[1:]))


def test_the_fall_of_the_log_determinant_is_twice_the_mutual_information_of_normal_variables() -> None:
    rho = 0.7  # of two standard normals: -log(1 - rho²)/2
    assert of_explained("log-determinant", np.eye(1), np.array([[rho**2]])) == pytest.approx(-np.log(1 - rho**2))


def test_the_determinant_of_g_is_refused_because_it_cannot_see_a_disclosure() -> None:
    G = np.diag([1.0, 0.0])  # the first target is disclosed completely
    assert np.linalg.det(G) == 0
    with pytest.raises(ParameterError, match="even if another is disclosed completely"):
        of_explained("determinant", np.eye(2), G)
    assert of_explained("largest eigenvalue", np.eye(2), G) == of_explained("trace", np.eye(2), G) == 1
    assert of_explained("log-determinant", np.eye(2), G) == np.inf
    assert of_remaining("log-determinant", np.eye(2), np.eye(2) - G) == -np.inf
    assert of_remaining("largest eigenvalue", np.eye(2), np.eye(2) - G) == 0


def test_an_unknown_functional_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="Did you mean 'trace'"):
        of_explained("trac", np.eye(1), np.eye(1))


def test_targets_that_were_known_beforehand_do_not_make_every_release_unsafe() -> None:
    yy = np.array([[1.0, 1.0], [1.0, 1.0]])  # two names of one target
    assert of_explained("log-determinant", yy, 0.5 * yy) == pytest.approx(np.log(2))
    assert of_remaining("largest eigenvalue", yy, 0.5 * yy) == pytest.approx(1.0)


@pytest.mark.parametrize("functional", FUNCTIONALS)
def test_shares_of_the_prior_variance_do_not_hang_on_units(functional: str) -> None:
    yy, yx, xx = joint(3, 2, seed=11)
    E = np.diag([1e-4, 1.0, 1e5])
    G, left = explained(yx, xx), conditional_variance(yy, yx, xx)
    for judge, matrix in ((judge_explained, G), (judge_left, left)):
        here = judge(yy, matrix, 0.5, functional, relative=True).value
        assert judge(E @ yy @ E, E @ matrix @ E, 0.5, functional, relative=True).value == pytest.approx(here)


def test_the_largest_share_is_the_largest_squared_canonical_correlation() -> None:
    from scipy.linalg import sqrtm

    yy, yx, xx = joint(3, 4, seed=12)
    root = np.linalg.inv(sqrtm(yy).real) @ yx @ np.linalg.inv(sqrtm(xx).real)
    verdict = judge_explained(yy, explained(yx, xx), 1.0, "largest eigenvalue", relative=True)
    assert verdict.value == pytest.approx(np.linalg.svd(root)[1][0] ** 2)


def test_the_two_thresholds_are_kept_apart() -> None:
    G, left = np.array([[0.3]]), np.array([[0.7]])
    may, must = judge_explained(np.eye(1), G, 0.4), judge_left(np.eye(1), left, 0.4)
    assert (may.rule, may.value, may.accepted) == ("explained", 0.3, True)
    assert (must.rule, must.value, must.accepted) == ("left", 0.7, True)
    assert not judge_explained(np.eye(1), G, 0.2)
    assert not judge_left(np.eye(1), left, 0.8)
    assert "0.3 < 0.4, the threshold of what may be explained: the mask is τ-acceptable" in may.words
    assert "0.7 > 0.4, the threshold of what must be left: release" in must.words


def test_at_the_threshold_itself_nothing_is_released() -> None:
    assert not judge_explained(np.eye(1), np.array([[0.1 + 0.2]]), 0.3)
    assert not judge_explained(np.eye(1), np.array([[0.3 - 1e-17]]), 0.3)
    assert not judge_left(np.eye(1), np.array([[0.3]]), 0.1 + 0.2)
    assert not judge_explained(np.eye(1), np.zeros((1, 1)), 0.0)  # nothing is strictly below zero


@pytest.mark.parametrize("tau", [-0.1, float("nan"), "0.5", None, True])
def test_a_threshold_that_is_no_variance_is_refused(tau: object) -> None:
    with pytest.raises(ParameterError, match="threshold tau"):
        judge_explained(np.eye(1), np.eye(1) / 2, tau)  # type: ignore[arg-type]


def test_a_log_determinant_may_have_a_negative_threshold() -> None:
    assert judge_left(np.eye(1), np.eye(1) / 2, -1.0, "log-determinant")
    assert not judge_left(np.eye(1), np.eye(1) / 2, -0.5, "log-determinant")


# -- masks that are known


def test_a_mask_discloses_what_its_kronecker_product_says() -> None:
    yy, yx, xx = joint(2, 6, seed=20)
    g = np.random.default_rng(21)
    A, B = g.normal(size=(2, 3)), g.normal(size=(2, 2))  # three records, two attributes
    K = np.zeros((4, 6))
    for r, c, i, j in itertools.product(range(2), range(2), range(3), range(2)):
        K[r * 2 + c, i * 2 + j] = A[r, i] * B[j, c]  # M_rc = Σ A_ri X_ij B_jc
    N = np.array([[0.3, 0.1], [0.1, 0.2]])
    spy = InferentialDisclosure(yy, yx, xx, records=3)
    noise = np.zeros((4, 4))
    noise[:2, :2] = noise[2:, 2:] = N
    expected = yy - yx @ K.T @ np.linalg.inv(K @ xx @ K.T + noise) @ K @ yx.T
    found = spy.after(A, B, RandomMatrix.noise(N, 2))
    np.testing.assert_allclose(found.left, expected, rtol=1e-9)
    assert found.exact
    assert found.at_most is None


def test_a_known_displacement_hides_nothing_and_an_unknown_one_does() -> None:
    spy = InferentialDisclosure(1.0, [0.8], 1.0)
    plain = spy.after().explained
    assert spy.after(C=[[1e6]]).explained == pytest.approx(plain)
    assert spy.after(C=RandomMatrix.noise(1.0, 1)).explained[0, 0] == pytest.approx(0.32)


def test_the_form_of_a_mask_says_which_matrices_need_a_belief() -> None:
    spy = InferentialDisclosure(1.0, [0.5, 0.2], np.eye(2), records=2)
    form = MatrixForm(("x",), ("x",), A=np.array([[1.0, 0.0]]), C=np.array([[0.3]]), random=("A", "C"))
    with pytest.raises(ParameterError, match="C of the mask is random"):
        spy.of(form, revealed="A")
    found = spy.of(form, revealed="A", hidden={"C": RandomMatrix.noise(1.0, 1)})
    assert found.explained[0, 0] == pytest.approx(0.125)
    with pytest.raises(ParameterError, match="no part of a mask"):
        spy.of(form, revealed="D")


def test_a_mask_that_depends_on_the_data_is_refused() -> None:
    spy = InferentialDisclosure(1.0, [0.5, 0.2], np.eye(2), records=2)
    form = MatrixForm(("x",), ("x",), A=np.array([[1.0, 0.0]]), depends=("A",))
    with pytest.raises(NotApplicable, match="does not apply"):
        spy.of(form)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ({"A": np.eye(3)}, "A has 3 columns, but X has 2 records"),
        ({"B": np.eye(2)}, "B has 2 rows, but X has 1 attributes"),
        ({"C": np.ones((3, 1))}, "C has the shape 3 × 1"),
        ({"A": [[np.nan, 1.0]]}, "finite numbers"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask: dict[str, object], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        InferentialDisclosure(1.0, [0.5, 0.2], np.eye(2), records=2).after(**mask)  # type: ignore[arg-type]


def test_a_model_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ParameterError, match="not 2 records"):
        InferentialDisclosure(1.0, [0.1] * 3, np.eye(3), records=2)
    with pytest.raises(ParameterError, match="mean of X"):
        InferentialDisclosure(1.0, [0.1] * 4, np.eye(4), records=2, mean=[1.0])


# -- masks that are hidden (erratum 2.12)


def simulated(spy: InferentialDisclosure, A: list[Numbers], B: list[Numbers], count: int) -> tuple[Numbers, Numbers]:
    """Return draws of Y and of M, where A and B are drawn from lists."""
    g = np.random.default_rng(30)
    n, p = spy.records, spy.attributes
    whole = np.block([[spy.S_yy, spy.S_yx], [spy.S_yx.T, spy.S_xx]])
    t = len(spy.S_yy)
    both = g.multivariate_normal(np.concatenate([np.zeros(t), spy.mean.ravel()]), whole, count)
    X = both[:, t:].reshape(count, n, p)
    pick_a, pick_b = g.integers(0, len(A), count), g.integers(0, len(B), count)
    M = np.einsum("mri,mij,mjc->mrc", np.array(A)[pick_a], X, np.array(B)[pick_b])
    return both[:, :t], M.reshape(count, -1)


def test_a_hidden_mask_has_the_moments_of_simulation() -> None:
    yy, yx, xx = joint(1, 4, seed=31)
    spy = InferentialDisclosure(yy, yx, xx, records=2, mean=[[1.0, -2.0], [0.5, 3.0]])
    A = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]])]
    B = [np.diag([0.8, 1.1]), np.diag([1.3, 0.9])]
    Y, M = simulated(spy, A, B, 400_000)
    found = spy.after(RandomMatrix.over(A), RandomMatrix.over(B))
    centred = M - M.mean(axis=0)
    S_mm, S_ym = centred.T @ centred / len(M), (Y - Y.mean(axis=0)).T @ centred / len(M)
    assert found.explained[0, 0] == pytest.approx((S_ym @ np.linalg.inv(S_mm) @ S_ym.T)[0, 0], rel=0.03)
    assert not found.exact


def test_the_linear_value_and_the_revealed_one_enclose_what_a_spy_explains() -> None:
    """One of two records, by lot; the whole posterior is worked out by Bayes on a grid of M."""
    rho = np.array([0.9, 0.1])
    spy = InferentialDisclosure(1.0, rho, np.eye(2), records=2, mean=[[3.0], [-3.0]])
    A = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]
    found = spy.after(RandomMatrix.over(A))
    grid = np.linspace(-12, 12, 48_001)
    density = np.array([np.exp(-((grid - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (3.0, -3.0)])
    posterior_mean = (density * np.array([r * (grid - m) for r, m in zip(rho, (3.0, -3.0), strict=True)])).sum(axis=0)
    marginal = density.sum(axis=0)
    true = np.trapezoid(posterior_mean**2 / marginal / 2, grid)  # Var(E[Y | M])
    assert found.at_most is not None
    assert found.at_most[0, 0] == pytest.approx((0.81 + 0.01) / 2)
    assert found.explained[0, 0] < 0.05 < 0.4 < true < found.at_most[0, 0]
    assert found.acceptable(0.2)
    assert not found.acceptable(0.2, safe=True)
    assert "at least as much" in found.acceptable(0.2).words


def test_hidden_factors_have_the_moments_of_their_definition() -> None:
    """M = f X with f of mean 1 and variance v: Var M = (1 + v) S + v mu²."""
    spy = InferentialDisclosure(1.0, [0.6], 1.0, mean=[[2.0]])
    found = spy.after(A=RandomMatrix.independent([[1.0]], 0.25))
    assert found.explained[0, 0] == pytest.approx(0.36 / (1.25 + 0.25 * 4))
    with pytest.raises(NotApplicable, match="all outcomes of the hidden A and B"):
        found.acceptable(0.5, safe=True)


def test_noise_that_is_not_normal_is_bounded_as_if_it_were_revealed() -> None:
    spy = InferentialDisclosure(1.0, [0.6], 1.0)
    coin = spy.after(C=RandomMatrix.over([[[10.0]], [[-10.0]]]))  # M tells the coin, hence X, nearly
    assert coin.explained[0, 0] == pytest.approx(0.36 / 101)
    assert coin.at_most == pytest.approx(0.36)
    assert not coin.exact


@pytest.mark.parametrize(
    "call",
    [
        lambda: conditional_variance("a", [1.0], [1.0]),
        lambda: InferentialDisclosure([[1.0], [1.0, 2.0]], [0.5, 0.3], np.eye(2)),
        lambda: InferentialDisclosure(1.0, [0.5, 0.3], np.eye(2), mean="x"),
        lambda: InferentialDisclosure(1.0, [0.5, 0.3], np.eye(2)).after(B="x"),
        lambda: RandomMatrix.over(["x"]),
    ],
)
def test_what_holds_no_numbers_is_refused_with_a_sentence(call: Callable[[], object]) -> None:
    with pytest.raises(ParameterError, match="must be numbers"):
        call()


def test_random_matrices_that_cannot_be_are_refused() -> None:
    with pytest.raises(ParameterError, match="one shape"):
        RandomMatrix.over([np.eye(2), np.eye(3)])
    with pytest.raises(ParameterError, match="sum 1"):
        RandomMatrix.over([np.eye(2)], [0.4])
    with pytest.raises(ParameterError, match="4 entries"):
        RandomMatrix(np.eye(2), np.eye(3))
    with pytest.raises(ParameterError, match="negative variance"):
        RandomMatrix.independent([[1.0]], -1.0)


# -- several targets


def test_targets_are_told_one_by_one_and_the_worst_is_named() -> None:
    yy, yx, xx = joint(4, 3, seed=40)  # vec of a 2 × 2 matrix of targets
    found = InferentialDisclosure(yy, yx, xx).unmasked()
    assert found.explained.shape == (4, 4)
    alone = [float(explained(yx[i], xx)[0, 0] / yy[i, i]) for i in range(4)]
    np.testing.assert_allclose(found.shares, alone, rtol=1e-9)
    assert found.worst == int(np.argmax(alone))
