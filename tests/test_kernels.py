"""The array functions, each against a slow twin, a published vector or algebra."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri
from threadpoolctl import threadpool_info

from sfumato.data import Column
from sfumato.kernels.classes import combine, mix64, row_digest
from sfumato.kernels.keyed_numbers import midpoints, normals_from, uniforms, words
from sfumato.kernels.moments import centred_products, complete, covariance_root, first_pass, is_constant, one_thread

MASK = 0xFFFFFFFF


# ChaCha, the slow and obvious way


def rotated(x: int, k: int) -> int:
    return ((x << k) | (x >> (32 - k))) & MASK


def quarter_round(s: list[int], a: int, b: int, c: int, d: int) -> None:
    s[a] = (s[a] + s[b]) & MASK
    s[d] = rotated(s[d] ^ s[a], 16)
    s[c] = (s[c] + s[d]) & MASK
    s[b] = rotated(s[b] ^ s[c], 12)
    s[a] = (s[a] + s[b]) & MASK
    s[d] = rotated(s[d] ^ s[a], 8)
    s[c] = (s[c] + s[d]) & MASK
    s[b] = rotated(s[b] ^ s[c], 7)


COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def chacha_block(key: bytes, last_row: Sequence[int], rounds: int) -> bytes:
    """One block of 64 bytes; `last_row` is words 12 to 15 of the state, however a variant shares them out."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *last_row]
    state = list(start)
    for turn in range(rounds):
        for place in COLUMNS if turn % 2 == 0 else DIAGONALS:
            quarter_round(state, *place)
    return struct.pack("<16I", *((x + y) & MASK for x, y in zip(state, start, strict=True)))


def twin_word(key: bytes, counter: int) -> int:
    """The 64-bit word of a counter: eight to a block, block number in words 12 and 13, no nonce."""
    block = counter // 8
    made = chacha_block(key, [block & MASK, block >> 32, 0, 0], rounds=12)
    return struct.unpack("<8Q", made)[counter % 8]


def test_the_slow_twin_gives_the_block_of_rfc_8439_section_2_3_2() -> None:
    nonce = struct.unpack("<3I", bytes.fromhex("000000090000004a00000000"))
    made = chacha_block(bytes(range(32)), [1, *nonce], rounds=20)
    assert made == bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_kernel_gives_the_published_chacha12_stream_of_the_zero_key() -> None:
    # draft-strombergson-chacha-test-vectors, TC1, 12 rounds, 256-bit key; Rust's StdRng of a zero seed starts the same
    published = bytes.fromhex(
        "9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f"
        "0564f879d27ae3c02ce82834acfa8c793a629f2ca0de6919610be82f411326be"
    )
    assert words(bytes(32), np.arange(8, dtype=np.uint64)).astype("<u8").tobytes() == published


COUNTERS = [
    *range(40), 1000, 2**32 - 1, 2**32, 8 * (2**32 - 1) + 7, 8 * 2**32, 8 * 2**32 + 1, 2**40 + 5, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip


@pytest.mark.parametrize("key", [bytes(32), bytes(range(32)), b"\xff" * 32, bytes(range(224, 256))])
def test_the_kernel_equals_the_twin_at_every_sort_of_counter(key: bytes) -> None:
    got = words(key, np.array(COUNTERS, np.uint64))
    assert [int(w) for w in got] == [twin_word(key, c) for c in COUNTERS]


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12))
def test_the_kernel_equals_the_twin_for_any_key_and_counters(key: bytes, counters: list[int]) -> None:
    assert [int(w) for w in words(key, np.array(counters, np.uint64))] == [twin_word(key, c) for c in counters]


def test_words_do_not_depend_on_the_order_or_repetition_of_counters() -> None:
    key = bytes(range(32))
    counters = np.arange(500, dtype=np.uint64)
    straight = words(key, counters)
    order = np.random.default_rng(1).integers(0, 500, 3000)
    np.testing.assert_array_equal(words(key, counters[order]), straight[order])
    np.testing.assert_array_equal(words(key, counters[::-1]), straight[::-1])


def test_words_have_the_shape_of_the_counters() -> None:
    key = bytes(32)
    assert words(key, np.zeros((3, 4), np.uint64)).shape == (3, 4)
    assert words(key, np.zeros(0, np.uint64)).shape == (0,)
    assert words(key, np.array(7, np.uint64)).shape == ()


def test_every_bit_of_a_key_matters() -> None:
    counters = np.arange(8, dtype=np.uint64)
    plain = words(bytes(32), counters)
    for bit in range(256):
        key = (1 << bit).to_bytes(32, "little")
        changed = np.bitwise_count(words(key, counters) ^ plain).sum()
        assert 180 < changed < 332  # half of 512 bits, give or take six and a half standard deviations


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        words(bytes(length), np.zeros(1, np.uint64))


# Uniform numbers


def test_the_extreme_words_stay_inside_the_open_interval() -> None:
    low, high = midpoints(np.array([0, 2**64 - 1], np.uint64))
    assert 0 < low < high < 1
    assert low == 1 - high == 2.0**-53
    assert np.isfinite(normals_from(np.array([low, high]))).all()


def test_a_million_uniforms_are_uniform() -> None:
    u = uniforms(b"sfumato tests: a million numbers", np.arange(1_000_000, dtype=np.uint64))
    n = len(u)
    assert ((u > 0) & (u < 1)).all()
    assert abs(u.mean() - 0.5) < 4.5 * np.sqrt(1 / 12 / n)
    assert abs(u.var() - 1 / 12) < 4.5 * np.sqrt(1 / 180 / n)  # Var(U - 1/2)² = 1/80 - 1/144 = 1/180
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    for lag in (1, 7, 8, 9, 64):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 4.5 / np.sqrt(n)


# Normal numbers


def test_normals_are_scipys_quantiles_everywhere_in_the_unit_interval() -> None:
    tails = np.geomspace(2.0**-53, 0.5, 20_000)
    grid = np.concatenate(
        [tails, 1 - tails, np.linspace(0.001, 0.999, 20_001), [0.075, 0.925, 0.5, np.exp(-25), 1e-300]]
    )
    np.testing.assert_allclose(normals_from(grid), ndtri(grid), rtol=1e-13, atol=1e-16)


def test_normals_are_exactly_zero_at_a_half_and_odd_around_it() -> None:
    assert normals_from(np.array([0.5]))[0] == 0
    p = np.arange(1, 2**10) / 2**11  # these and one minus these are exact in binary
    np.testing.assert_array_equal(normals_from(p), -normals_from(1 - p))


def test_normals_have_the_shape_of_what_is_given() -> None:
    assert normals_from(np.full((2, 3), 0.25)).shape == (2, 3)
    assert normals_from(np.empty(0)).shape == (0,)


# Moments


def with_gaps(n: int = 200) -> NDArray[np.float64]:
    g = np.random.default_rng(3)
    x = g.normal(size=(n, 3)) @ np.array([[1, 0.5, 0], [0, 1, -2], [0, 0, 3.0]]) + [10, -1000, 1e6]
    x[g.random((n, 3)) < 0.1] = np.nan
    return x


def test_moments_over_pieces_are_numpys_covariance_of_complete_cases() -> None:
    x = with_gaps()
    pieces = np.array_split(x, [1, 1, 50, 199])
    total = sum(first_pass(p) for p in pieces)
    mean = total[1:] / total[0]
    products = sum(centred_products(p, mean) for p in pieces)
    whole = x[~np.isnan(x).any(axis=1)]
    assert total[0] == len(whole) < len(x)
    np.testing.assert_allclose(mean, whole.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(products / (len(whole) - 1), np.cov(whole, rowvar=False), rtol=1e-9)


def test_the_second_pass_survives_a_mean_that_dwarfs_the_spread() -> None:
    x = (1e9 + np.arange(5.0))[:, None]  # one-pass formulas lose all digits here
    count, total = first_pass(x)
    assert centred_products(x, np.array([total / count]))[0, 0] == 10.0


def test_moments_of_nothing_are_zero() -> None:
    x = np.full((4, 2), np.nan)
    assert len(complete(x)) == 0
    np.testing.assert_array_equal(first_pass(x), [0, 0, 0])
    np.testing.assert_array_equal(centred_products(x, np.zeros(2)), np.zeros((2, 2)))
    np.testing.assert_array_equal(first_pass(np.empty((0, 2))), [0, 0, 0])


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e15, -7.3e-8, 0.0])
@pytest.mark.parametrize("n", [2, 10, 1000, 99_999])
def test_a_constant_is_seen_as_constant_in_spite_of_rounding(value: float, n: int) -> None:
    x = np.full((n, 1), value)
    count, total = first_pass(x)
    mean = np.array([total / count])
    assert is_constant(mean, np.diag(centred_products(x, mean)) / (n - 1)).all()


def test_a_small_spread_about_a_large_mean_is_not_constant() -> None:
    assert not is_constant(np.array([1e6]), np.array([1e-6**2])).any()
    assert not is_constant(np.array([0.0]), np.array([1e-300])).any()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_root_of_a_positive_definite_matrix_is_numpys_cholesky(size: int, seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=(size, size + 3))
    covariance = a @ a.T
    np.testing.assert_allclose(covariance_root(covariance), np.linalg.cholesky(covariance), rtol=1e-8, atol=1e-10)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.data())
def test_the_root_of_a_singular_matrix_reproduces_it_and_is_lower_triangular(
    size: int, seed: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, size - 1))
    whole = np.random.default_rng(seed).integers(-3, 4, size=(size, rank)).astype(float)  # exact in floating point
    covariance = whole @ whole.T
    root = covariance_root(covariance)
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-6)
    assert not np.triu(root, 1).any()
    assert np.isfinite(root).all()


def test_the_root_leaves_a_column_that_is_a_sum_without_noise_of_its_own() -> None:
    b, c = np.random.default_rng(5).normal(size=(2, 1000))
    covariance = np.cov(np.stack([b, c, b + c]))
    root = covariance_root(covariance)
    assert root[2, 2] == 0
    np.testing.assert_allclose(root[2], root[0] + root[1], atol=1e-12)


def test_the_root_of_zero_is_zero() -> None:
    np.testing.assert_array_equal(covariance_root(np.zeros((3, 3))), np.zeros((3, 3)))


# Digests


def digest_of(ids: Sequence[int], pieces: Sequence[Sequence[int]] | None = None, **columns: Sequence[object]) -> bytes:
    """The digest of records, computed in the given pieces (lists of row numbers)."""
    rows = pieces or [range(len(ids))]
    limbs = np.zeros(8)
    for at in rows:
        part = {n: Column.from_values([v[i] for i in at]) for n, v in columns.items()}
        limbs = limbs + row_digest(np.array([ids[i] for i in at], np.int64), part)
    return combine(list(columns), len(ids), limbs)


AGES, PAY = [30, 41, 52, 63], [1.5, 0.0, None, 2.5]


def test_the_digest_does_not_depend_on_the_pieces_or_their_order() -> None:
    whole = digest_of(range(4), age=AGES, pay=PAY)
    assert digest_of(range(4), [[0, 1], [2, 3]], age=AGES, pay=PAY) == whole
    assert digest_of(range(4), [[3], [1, 2], [0]], age=AGES, pay=PAY) == whole


@pytest.mark.parametrize(
    "other",
    [
        digest_of(range(4), age=[30, 41, 52, 64], pay=PAY),
        digest_of(range(4), age=AGES, pay=[1.5, None, None, 2.5]),
        digest_of(range(4), age=AGES, pay=[1.5, 0.0, 0.0, 2.5]),
        digest_of(range(4), age=[41, 30, 52, 63], pay=PAY),
        digest_of([1, 0, 2, 3], age=AGES, pay=PAY),
        digest_of(range(3), age=AGES[:3], pay=PAY[:3]),
        digest_of(range(4), age=AGES),
        digest_of(range(4), ages=AGES, pay=PAY),
        digest_of(range(4), pay=PAY, age=AGES),
        digest_of(range(4), age=AGES, pay=[1.5, 2.5, None, 0.0]),
    ],
    ids=[
        "value",
        "zero lost",
        "gap filled",
        "two rows",
        "ids",
        "a row less",
        "a column less",
        "name",
        "column order",
        "swap",
    ],
)
def test_the_digest_changes_with_any_value_id_name_or_order(other: bytes) -> None:
    assert other != digest_of(range(4), age=AGES, pay=PAY)


def test_the_digest_sums_are_exact_whole_numbers() -> None:
    limbs = row_digest(np.arange(100_000), {"x": Column.from_numbers(np.arange(100_000.0))})
    assert limbs.shape == (8,)
    assert (limbs == np.floor(limbs)).all()
    assert (limbs < 100_000 * 2.0**16).all()
    np.testing.assert_allclose(limbs, 100_000 * (2**16 - 1) / 2, rtol=0.01)  # each limb is uniform on 0 .. 65535


def test_mixing_is_one_step_of_splitmix64() -> None:
    # the first three outputs of SplitMix64 from state 0, as in the reference code's published test values
    golden = 0x9E3779B97F4A7C15
    states = np.array([0, golden, (2 * golden) % 2**64], np.uint64)
    assert [hex(v) for v in mix64(states)] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_products_use_one_thread_until_the_last_caller_has_left() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if "numpy" in pool["filepath"]}

    before = threads()
    first, second = one_thread(), one_thread()
    with first, ExitStack() as later:
        later.enter_context(second)
        rest = later.pop_all()
        assert threads() == {1}
    assert threads() == {1}  # the first has left, the second is still inside
    rest.close()
    assert threads() == before
