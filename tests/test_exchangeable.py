"""Exchangeable records: the shortcut against the whole np × np matrix, and hidden matrices against all their outcomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sfumato.errors import ParameterError
from sfumato.papers.exchangeable import ExchangeableRecords, hat_of
from sfumato.papers.inferential import InferentialDisclosure, RandomMatrix

Numbers = NDArray[np.float64]
NAMES = ("a", "b", "c", "d")


def covariance(q: int, rank: int, g: np.random.Generator) -> Numbers:
    loads = g.normal(size=(q, rank))
    return loads @ loads.T


def dense(
    V: Numbers, K: Numbers, n: int, targets: list[int], released: list[int], record: int, mean: Numbers | None = None
) -> InferentialDisclosure:
    """Return the targets of a record, and all n records: the twin that writes the np × np matrix down.

    Record number n is not in the file.
    """
    q = len(V)
    whole = np.empty((n + 1, q, n + 1, q))
    for i, k in itertools.product(range(n + 1), repeat=2):
        whole[i, :, k, :] = V if i == k else K
    xx = whole[:n][:, released][:, :, :n][:, :, :, released].reshape(n * len(released), -1)
    yx = whole[record][targets][:, :n][:, :, released].reshape(len(targets), -1)
    centre = None if mean is None else np.tile(mean[released], (n, 1))
    return InferentialDisclosure(V[np.ix_(targets, targets)], yx, xx, records=n, mean=centre)


def named(positions: list[int]) -> list[str]:
    return [NAMES[i] for i in positions]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_explained_is_what_the_whole_matrix_says(seed: int) -> None:
    g = np.random.default_rng(seed)
    n, q = int(g.integers(2, 6)), 4
    K = covariance(q, int(g.integers(1, 5)), g) * g.choice([0.0, 0.3])
    V = K + covariance(q, int(g.integers(1, 5)), g) * g.choice([0.0, 1.0, 1.0])  # V - K of any rank, zero among them
    if seed % 4 == 0:
        K = -0.6 * V / n  # records may also be negatively related
    released, targets = ([int(i) for i in g.permutation(q)[: g.integers(1, q + 1)]] for _ in range(2))
    A = g.choice([0.0, 0.0, 1.0, -1.0, 0.5], size=(int(g.integers(1, n + 2)), n))
    c = int(g.integers(1, len(released) + 2))
    B = g.normal(size=(len(released), c))
    N = covariance(c, int(g.integers(1, c + 1)), g) * g.choice([0.0, 0.5])
    file = ExchangeableRecords(NAMES, V, n, K)
    seen = file.seen(named(targets), named(released), A=csr_array(A), B=B, noise=N)
    G = seen.explained()[seen.classes()]
    for record in range(n):
        twin = dense(V, K, n, targets, released, record).after(A, B, RandomMatrix.noise(N, len(A)))
        np.testing.assert_allclose(G[record], twin.explained, atol=1e-6)
    np.testing.assert_allclose(seen.variances_explained()[seen.classes()], np.diagonal(G, axis1=1, axis2=2), atol=1e-8)
    twin = dense(V, K, n, targets, released, n).after(A, B, RandomMatrix.noise(N, len(A)))
    np.testing.assert_allclose(seen.explained(outside=True)[0], twin.explained, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_all_records_released_as_they_are_disclose_alike(share: float) -> None:
    g = np.random.default_rng(1)
    V = covariance(4, 5, g)
    K = share * V
    seen = ExchangeableRecords(NAMES, V, 6, K).seen(["a", "d"], ["b", "c"])
    np.testing.assert_allclose(seen.explained()[0], dense(V, K, 6, [0, 3], [1, 2], 4).after().explained, atol=1e-9)


def test_singular_sums_of_v_and_k_need_no_inverse() -> None:
    """Erratum 2.9: V = K = 1 makes all records one; V = 1, K = -1/(n - 1) fixes their sum."""
    n = 5
    same = ExchangeableRecords(("x",), 1.0, n, 1.0)
    assert same.seen(["x"], ["x"]).explained().ravel() == pytest.approx([1.0])
    assert same.seen(["x"], ["x"]).explained(outside=True).ravel() == pytest.approx([1.0])  # it is that one number
    one = csr_array(np.eye(n)[:1])
    assert same.seen(["x"], ["x"], A=one).variances_explained().ravel() == pytest.approx([1.0, 1.0])
    fixed = ExchangeableRecords(("x",), 1.0, n, -1 / (n - 1))
    all_but_one = csr_array(np.eye(n)[1:])
    seen = fixed.seen(["x"], ["x"], A=all_but_one)
    np.testing.assert_allclose(
        seen.variances_explained()[seen.classes()].ravel(), np.ones(n)
    )  # the last is minus their sum


@pytest.mark.parametrize("n", [3, 4, 7, 11, 50])
def test_rounding_does_not_make_possible_covariances_impossible(n: int) -> None:
    V = np.array([[0.1, 0.03], [0.03, 0.7]])
    for K in (V * (1 / 3) * 3, -V / (n - 1), V @ np.linalg.inv(V) @ V):
        seen = ExchangeableRecords(("a", "b"), V, n, (K + K.T) / 2).seen(["a"], ["a", "b"])
        assert seen.explained().ravel() == pytest.approx([0.1])


def test_averages_of_groups_explain_a_share_of_one_in_the_size_of_the_group() -> None:
    groups = csr_array(np.kron(np.eye(3), np.full((1, 4), 0.25)))
    seen = ExchangeableRecords(("x",), 4.0, 12).seen(["x"], ["x"], A=groups)
    assert seen.variances_explained().ravel() == pytest.approx([1.0])  # of a variance of 4


def test_a_sample_discloses_its_members_and_of_the_others_only_what_is_common() -> None:
    seen = ExchangeableRecords(("x",), 1.0, 4, 0.2).seen(["x"], ["x"], A=csr_array(np.eye(4)[[1, 2]]))
    found = seen.variances_explained()[seen.classes()].ravel()
    # two records of variance 1 and covariance 0.2: c′S⁻¹c with c = (0.2, 0.2) is 2·0.04/1.2
    assert found == pytest.approx([0.08 / 1.2, 1, 1, 0.08 / 1.2])


# -- what is hidden


@pytest.mark.parametrize("A", [np.eye(3), np.eye(3)[:2], np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])])
def test_a_hidden_order_has_the_moments_of_all_permutations(A: Numbers) -> None:
    g = np.random.default_rng(5)
    n, K = 3, covariance(2, 2, g)
    V = K + covariance(2, 3, g)
    mean = np.array([1.0, -2.0])
    shuffled = RandomMatrix.over([A[:, list(order)] for order in itertools.permutations(range(n))])
    seen = ExchangeableRecords(("a", "b"), V, n, K, mean).seen(["a"], ["b"], A=csr_array(A)).hidden_order()
    inside = dense(V, K, n, [0], [1], 1, mean).after(shuffled)
    outside = dense(V, K, n, [0], [1], n, mean).after(shuffled)
    np.testing.assert_allclose(seen.explained()[0], inside.explained, atol=1e-9)
    np.testing.assert_allclose(seen.explained(outside=True)[0], outside.explained, atol=1e-9)
    assert not seen.exact
    assert seen.classes().tolist() == [0, 0, 0]


def test_hidden_factors_of_records_have_the_moments_of_independent_factors() -> None:
    g = np.random.default_rng(6)
    n, v, K = 3, 0.3, covariance(3, 3, g)
    V = K + covariance(3, 4, g)
    mean = np.array([0.7, -1.0, 2.0])
    spread = np.zeros((n * n, n * n))
    spread[:: n + 1, :: n + 1] = v * np.eye(n)  # of the entries on the diagonal of A
    seen = ExchangeableRecords(NAMES[:3], V, n, K, mean).seen(["a"], ["a", "b", "c"])
    found = seen.hidden_record_factors(np.full(3, v), mean).explained()[0]
    twin = dense(V, K, n, [0], [0, 1, 2], 1, mean).after(A=RandomMatrix(np.eye(n), spread))
    np.testing.assert_allclose(found, twin.explained, atol=1e-9)


def test_hidden_factors_of_columns_have_the_moments_of_independent_factors() -> None:
    g = np.random.default_rng(7)
    n, K = 3, covariance(2, 2, g)
    V = K + covariance(2, 3, g)
    mean, v = np.array([3.0, -1.0]), np.array([0.2, 0.0])  # the second column is not multiplied
    spread = np.zeros((4, 4))
    spread[0, 0] = v[0]
    seen = ExchangeableRecords(("a", "b"), V, n, K, mean).seen(["a"], ["a", "b"])
    twin = dense(V, K, n, [0], [0, 1], 0, mean).after(B=RandomMatrix(np.eye(2), spread))
    np.testing.assert_allclose(seen.hidden_column_factors(v, mean).explained()[0], twin.explained, atol=1e-9)


def test_factors_of_some_columns_leave_the_others_as_they_are() -> None:
    """Simulated: the first column of each record is multiplied by a factor of its own, the second is not."""
    g = np.random.default_rng(8)
    V, mean, v, count = np.array([[1.0, 0.4], [0.4, 2.0]]), np.array([2.0, 5.0]), 0.25, 400_000
    X = g.multivariate_normal(mean, V, count)
    factor = 1 + np.sqrt(v) * g.choice([-1.0, 1.0], count)
    M = np.column_stack([X[:, 0] * factor, X[:, 1]])
    S = np.cov(np.column_stack([X[:, 0], M]), rowvar=False)
    seen = ExchangeableRecords(("a", "b"), V, 1, mean=mean).seen(["a"], ["a", "b"])
    found = seen.hidden_record_factors(np.array([v, 0.0]), mean).explained()[0, 0, 0]
    assert found == pytest.approx((S[0, 1:] @ np.linalg.inv(S[1:, 1:]) @ S[1:, 0]).item(), rel=0.02)


# -- how records show through A


@pytest.mark.parametrize("seed", range(8))
def test_the_hat_of_a_matrix_is_that_of_its_definition(seed: int) -> None:
    g = np.random.default_rng(seed)
    r, n = int(g.integers(1, 9)), 7
    A = g.choice([0.0, 0.0, 0.0, 1.0, -0.5], size=(r, n))
    share = np.array([1.0, 0.6, 0.0])
    hat = hat_of(csr_array(A), n, share)
    for j, s in enumerate(share):
        H = A.T @ np.linalg.pinv(s * A @ A.T + (1 - s) * np.eye(r), rcond=1e-10) @ A
        np.testing.assert_allclose(hat.diagonal[:, j], np.diag(H), atol=1e-9)
        np.testing.assert_allclose(hat.row_sums[:, j], H.sum(axis=1), atol=1e-9)
        assert hat.total[j] == pytest.approx(H.sum(), abs=1e-9)


# -- what cannot be


@pytest.mark.parametrize(
    ("V", "K", "n", "says"),
    [
        ([[1.0, 0.2], [0.2, 1.0]], 2 * np.eye(2), 3, "V - K is not positive"),
        ([[1.0, 0.2], [0.2, 1.0]], -0.6 * np.eye(2), 3, r"V \+ \(n - 1\)K"),
        ([[1.0, 2.0], [2.0, 1.0]], None, 3, "V is not positive"),
        (np.eye(3), None, 3, "2 × 2"),
        (np.eye(2), None, 0, "at least one record"),
    ],
)
def test_records_that_cannot_be_exchangeable_are_refused(V: Numbers, K: Numbers | None, n: int, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        ExchangeableRecords(("a", "b"), V, n, K)


def test_a_release_that_does_not_fit_is_refused() -> None:
    file = ExchangeableRecords(("a", "b"), np.eye(2), 3)
    with pytest.raises(ParameterError, match="attribute 'c' is not in the model"):
        file.seen(["c"], ["a"])
    with pytest.raises(ParameterError, match="A has 2 columns, but there are 3 records"):
        file.seen(["b"], ["a"], A=np.eye(2))
    with pytest.raises(ParameterError, match="B must have 1 rows"):
        file.seen(["b"], ["a"], B=np.eye(2))
    with pytest.raises(ParameterError, match="must be 1 × 1"):
        file.seen(["b"], ["a"], noise=np.eye(2))
