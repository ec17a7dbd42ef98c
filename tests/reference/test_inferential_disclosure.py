"""The matrix-masking paper, sections II to V, as far as ERRATA leaves it: what is disclosed, and what is acceptable.

The best mask and the rest of the bivariate illustration are in test_matrix_masking_paper.py.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato import Draws
from sfumato.contract import MatrixForm
from sfumato.datasets import teachers
from sfumato.errors import NotApplicable, ParameterError
from sfumato.masks import SuppressExtremes
from sfumato.papers.conditional import conditional_variance, explained
from sfumato.papers.exchangeable import ExchangeableRecords
from sfumato.papers.inferential import InferentialDisclosure, RandomMatrix
from sfumato.papers.release_region import ReleaseRegion

Numbers = NDArray[np.float64]


def bivariate(rho: float, rho1: float, rho2: float) -> InferentialDisclosure:
    """Section V: unit variances, correlation rho; Y correlates rho1 and rho2. X₁ and X₂ are stacked, so that A = [a, 1]."""
    return InferentialDisclosure(1.0, [rho1, rho2], [[1.0, rho], [rho, 1.0]], records=2)


CASES = [(0.6, 0.5, 0.3), (-0.4, 0.5, 0.3), (0.2, -0.5, 0.6), (0.0, 0.4, 0.4), (0.95, 0.5, 0.5)]


def test_a_release_discloses_if_it_lets_a_value_be_determined_more_accurately() -> None:
    """Section II: disclosure is a smaller posterior than prior variance; an unrelated release discloses nothing."""
    before = 4.0
    assert conditional_variance(before, [1.0], 1.0)[0, 0] < before
    assert conditional_variance(before, [0.0], 1.0)[0, 0] == before


def test_the_conditional_variance_does_not_depend_on_what_x_turns_out_to_be() -> None:
    """Section III, after (3.1): residuals of the regression are spread alike near and far from the mean of X."""
    g = np.random.default_rng(1)
    S = np.array([[1.0, 0.5, 0.4], [0.5, 1.0, 0.3], [0.4, 0.3, 1.0]])
    draws = g.multivariate_normal(np.zeros(3), S, 400_000)
    rest = draws[:, 0] - draws[:, 1:] @ np.linalg.solve(S[1:, 1:], S[1:, 0])
    far = np.abs(draws[:, 1:]).sum(axis=1) > 2.5
    expected = conditional_variance(1.0, S[0, 1:], S[1:, 1:])[0, 0]
    assert rest[far].var() == pytest.approx(expected, rel=0.02)
    assert rest[~far].var() == pytest.approx(expected, rel=0.02)


def test_targets_that_are_a_matrix_have_a_matrix_of_t_u_by_t_u() -> None:
    """Erratum 2.7: for Y of t × u, S_yx is tu × np and G is tu × tu; each entry is that of its own pair of targets."""
    t, u, n, p = 2, 3, 2, 2
    loads = np.random.default_rng(2).normal(size=(t * u + n * p, 12))
    S = loads @ loads.T
    yy, yx, xx = S[:6, :6], S[:6, 6:], S[6:, 6:]
    found = InferentialDisclosure(yy, yx, xx, records=n).unmasked()
    assert found.explained.shape == (t * u, t * u)
    for i, j in itertools.product(range(6), repeat=2):
        assert found.explained[i, j] == pytest.approx(yx[i] @ np.linalg.inv(xx) @ yx[j])


def test_exchangeable_records_have_the_block_structure_and_its_singular_cases() -> None:
    """Section III's aside, and erratum 2.9: V = K = 1 has full-rank V, yet the whole matrix is all ones."""
    whole = np.ones((4, 4))
    assert explained([1.0] * 4, whole)[0, 0] == pytest.approx(1.0)
    same = ExchangeableRecords(("x",), 1.0, 4, 1.0).seen(["x"], ["x"])
    assert same.explained(outside=True)[0, 0, 0] == pytest.approx(1.0)


def test_the_criterion_of_a_scalar_target_is_an_ellipsoid_that_no_marginal_standard_gives() -> None:
    """Section III: "demonstrates how amiss can be setting standards for release marginally by individual attribute"."""
    region = ReleaseRegion([[1.0, 0.6], [0.6, 1.0]], tau=0.5)
    passes_each_discloses, fails_each_is_safe = [0.4, -0.4], [0.62, 0.45]
    assert region.accepts_each(passes_each_discloses, limits=0.25).all()
    assert not region.accepts(passes_each_discloses).any()
    assert not region.accepts_each(fails_each_is_safe, limits=0.25).any()
    assert region.accepts(fails_each_is_safe).all()


@pytest.mark.parametrize(("rho", "rho1", "rho2"), CASES)
@pytest.mark.parametrize("a", [-3.0, -1.0, 0.0, 0.5, 1.0, 7.0])
def test_the_constraint_is_that_of_the_illustration(rho: float, rho1: float, rho2: float, a: float) -> None:
    """Section V, displayed constraint (erratum 2.3), from (5.1) itself."""
    found = bivariate(rho, rho1, rho2).after(A=[[a, 1.0]]).acceptable(0.5)
    assert found.value == pytest.approx((rho1 * a + rho2) ** 2 / (a**2 + 2 * rho * a + 1))
    assert found.accepted == (found.value < 0.5)


@pytest.mark.parametrize(("rho", "rho1", "rho2"), CASES)
def test_the_constraint_at_plus_and_minus_one(rho: float, rho1: float, rho2: float) -> None:
    """Section V: erratum 2.4 for a = +1; the value at a = -1 is as printed."""
    spy = bivariate(rho, rho1, rho2)
    assert spy.after(A=[[1.0, 1.0]]).explained[0, 0] == pytest.approx((rho1 + rho2) ** 2 / (2 * (1 + rho)))
    assert spy.after(A=[[-1.0, 1.0]]).explained[0, 0] == pytest.approx((rho1 - rho2) ** 2 / (2 * (1 - rho)))


def test_a_known_square_mask_of_full_rank_gives_everything_back() -> None:
    """Section V: A⁻¹ times AX recovers X; so does any A of full column rank with B of full row rank (erratum 2.15)."""
    loads = np.random.default_rng(3).normal(size=(6, 6))
    xx = loads @ loads.T
    for i in range(6):  # every value of X as a target
        spy = InferentialDisclosure(xx[i, i], xx[i], xx, records=3)
        square = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, 3.0]])
        tall = np.vstack([square, [1.0, 1.0, 1.0]])
        wide = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
        for A, B in ((square, None), (tall, wide)):
            assert spy.after(A, B).left[0, 0] == pytest.approx(0.0, abs=1e-9)
            assert not spy.after(A, B).acceptable(xx[i, i])


def test_other_masks_compromise_some_records_and_not_others() -> None:
    """Section V: what `reveals` names is disclosed completely, what it does not name is not."""
    A = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    form = MatrixForm(("x",), ("x",), A=A)
    xx = 0.2 + 0.8 * np.eye(4)
    records, _ = form.reveals()
    left = [InferentialDisclosure(1.0, xx[i], xx, records=4).of(form).left[0, 0] for i in range(4)]
    assert records.tolist() == [True, True, False, False]
    assert [v == pytest.approx(0.0, abs=1e-9) for v in left] == records.tolist()


def test_the_sample_of_records_2_and_3() -> None:
    """Section IV, sampling: A is 2 × n with a₁₂ = a₂₃ = 1 and all others 0."""
    n = 5
    A = np.zeros((2, n))
    A[0, 1] = A[1, 2] = 1.0
    x = np.arange(10.0).reshape(n, 2)
    np.testing.assert_array_equal(MatrixForm(("a", "b"), ("a", "b"), A=A).apply(x), x[[1, 2]])
    seen = ExchangeableRecords(("a",), 1.0, n).seen(["a"], ["a"], A=A)
    assert seen.variances_explained()[seen.classes()].ravel().tolist() == pytest.approx([0, 1, 1, 0, 0])


def test_the_generalised_inverse_lets_duplicates_and_totals_be_released() -> None:
    """Erratum 2.8: S_mm of an aggregate beside its parts is singular, and (5.1) is about what it says all the same."""
    spy = InferentialDisclosure(1.0, [0.4, 0.3], np.eye(2))
    parts = spy.after().explained
    assert spy.after(B=[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]).explained == pytest.approx(parts)


def test_the_determinant_of_g_is_no_measure() -> None:
    """Erratum 2.10: it is zero although the first of two targets is disclosed completely."""
    found = InferentialDisclosure(np.eye(2), [[1.0], [0.0]], 1.0).unmasked()
    assert np.linalg.det(found.explained) == 0
    assert found.shares.tolist() == [1.0, 0.0]
    with pytest.raises(ParameterError, match="determinant of G"):
        found.acceptable(0.5, "determinant")
    assert not found.acceptable(0.5, "largest eigenvalue")


def test_the_two_rules_have_thresholds_of_their_own() -> None:
    """Erratum 2.11: the same number as a threshold of both can release by one and not by the other."""
    found = InferentialDisclosure(1.0, [0.5], 1.0).unmasked()  # a quarter is explained, three quarters are left
    assert found.acceptable(0.4)
    assert found.uncertain(0.4)
    assert not found.acceptable(0.2)
    assert found.uncertain(0.2)
    assert found.acceptable(0.8)
    assert not found.uncertain(0.8)


def test_a_random_mask_that_is_revealed_is_conditioned_on() -> None:
    """Erratum 2.12: conditioning gives the value of the drawn matrix; hiding it cannot explain more on average."""
    xx = 0.3 + 0.7 * np.eye(3)
    spy = InferentialDisclosure(1.0, 0.8 * xx[0], xx, records=3, mean=[[1.0], [1.0], [1.0]])
    draws = [np.eye(3)[[i, j]] for i, j in itertools.permutations(range(3), 2)]
    revealed = [spy.after(A).explained[0, 0] for A in draws]
    hidden = spy.after(RandomMatrix.over(draws))
    assert hidden.at_most is not None
    assert hidden.at_most[0, 0] == pytest.approx(np.mean(revealed))
    assert hidden.explained[0, 0] < np.mean(revealed)


def test_masks_that_look_at_the_data_are_outside_the_criterion() -> None:
    """Erratum 2.13: suppression of records with extreme values."""
    data = teachers(40)
    form = SuppressExtremes(["salary"], upper_quantile=0.9).as_matrix(data, Draws(1))
    spy = InferentialDisclosure(
        1.0, np.zeros(len(data) * len(form.names)), np.eye(len(data) * len(form.names)), len(data)
    )
    with pytest.raises(NotApplicable, match="does not apply"):
        spy.of(form)


def test_deterministic_noise_protects_only_while_it_is_not_revealed() -> None:
    """Section IV, displacing masks."""
    spy = InferentialDisclosure(1.0, [0.9], 1.0)
    assert spy.after(C=[[5.0]]).explained == pytest.approx(0.81)
    believed = RandomMatrix.independent([[0.0]], 25.0, normal=True)
    assert spy.after(C=believed).explained == pytest.approx(0.81 / 26)


def test_a_spy_for_whom_no_inference_costs_the_threshold_is_deterred_exactly_if_the_file_is_released() -> None:
    """Section II: the Bayes risk of the best guess, simulated, against what it costs to make none."""
    g = np.random.default_rng(7)
    for noise in (0.2, 1.0, 4.0):
        y, m = g.multivariate_normal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0 + noise]], 200_000).T
        risk = np.mean((y - m / (1 + noise)) ** 2)  # squared error of the posterior mean
        found = InferentialDisclosure(1.0, [1.0], 1.0).after(C=RandomMatrix.noise(noise, 1))
        for cost in (0.1, 0.4, 0.6, 0.9):
            assert found.uncertain(cost).accepted == (risk > cost)
        assert found.uncertain(0.5).value == pytest.approx(risk, rel=0.01)
