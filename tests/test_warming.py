"""A few keyed random numbers are drawn without numba, and are the same, bit by bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from sfumato.kernels import keyed_numbers as chacha
from sfumato.kernels import keyed_numbers as normal
from sfumato.kernels import keyed_numbers as warming
from sfumato.kernels.keyed_numbers import Warming


@pytest.fixture
def one_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Let kernels run compiled, or without."""

    def choose(compiled: bool) -> None:
        for module in (chacha, normal):
            monkeypatch.setattr(module._compiled, "_loaded", None)
            monkeypatch.setattr(module._compiled, "_jobs", 0)
        monkeypatch.setattr(warming, "_FEW", -1 if compiled else 10**9)

    return choose


def test_few_words_are_those_of_the_compiled_cipher(one_way: Callable[[bool], None]) -> None:
    rng = np.random.default_rng(5)
    edges = [0, 7, 8, 2**35 - 1, 2**35, 2**63 - 1, 2**63, 2**64 - 1]
    counters = np.concatenate([np.array(edges, np.uint64), rng.integers(0, 2**64, 3_000, dtype=np.uint64)])
    for key in (bytes(32), b"\xff" * 32, rng.bytes(32)):
        drawn = []
        for compiled in (True, False):
            one_way(compiled)
            drawn.append((chacha.words(key, counters), chacha.uniforms(key, counters), chacha.midpoints(counters)))
        for one, other in zip(*drawn, strict=True):
            np.testing.assert_array_equal(one, other)


def test_few_normals_are_those_of_the_compiled_quantile(one_way: Callable[[bool], None]) -> None:
    centre = np.random.default_rng(6).random(200_000)
    tails = 2.0 ** -np.arange(2.0, 53.0, 0.01)
    p = np.concatenate([centre, tails, 1 - tails[tails > 2**-52]])
    drawn = []
    for compiled in (True, False):
        one_way(compiled)
        drawn.append(normal.normals_from(p))
    np.testing.assert_array_equal(*drawn)


def test_compiled_loops_are_loaded_for_a_large_job_or_after_many_small_ones() -> None:
    large = Warming(lambda: "compiled")
    assert large.for_size(1_024) is None
    assert large.for_size(1_025) == "compiled"
    assert large.for_size(1) == "compiled"
    patient = Warming(lambda: "compiled")
    assert {patient.for_size(1) for _ in range(1_000)} == {None}
    assert patient.for_size(1) == "compiled"


def test_a_few_draws_do_not_load_numba() -> None:
    code = (
        "import sys, numpy as np; from sfumato import Draws; Draws(1).normals(np.arange(9), 'noise'); "
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
