"""Models keep 8 digits where doubles nearly run out of them, against least squares in fractions, which round nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mas_survey import schema_of

from sfumato import Microdata
from sfumato.mas.analyses import OLS
from sfumato.mas.answer import Answer
from sfumato.mas.policy import Policy
from sfumato.mas.vault import Vault
from sfumato.schema import Schema

N = 200
WEIGHTS = [None, 2.0 ** np.random.default_rng(9).integers(-6, 7, N)]


def ask(folder: Path, frame: pd.DataFrame, analysis: OLS) -> Answer:
    vault = Vault.create(folder / "v")
    schema = schema_of(frame)
    ends = {c: (float(frame[c].min()), float(frame[c].max())) for c in ("age", "z", "income") if c in frame}
    bounded = [a.with_(bounds=ends[a.name]) if a.name in ends else a for a in schema]
    vault.freeze("survey", Microdata(frame, Schema(tuple(bounded))))
    answer = vault.ask("survey", None, analysis, Policy.open())
    assert isinstance(answer, Answer), str(answer)
    return answer


def dyadic(rng: np.random.Generator) -> np.ndarray:
    """Normal numbers of few binary digits: what is added to 1e9 is kept."""
    return np.round(rng.normal(size=N) * 2**20) / 2**20


@dataclass(frozen=True)
class Twin:
    """Least squares in fractions: coefficients, their errors (classical, and HC0), and the residual sum of squares."""

    beta: list[float]
    classical: list[float]
    hc0: list[float]
    squares: float


def rational_least_squares(columns: Sequence[Sequence[Fraction | float]], y: np.ndarray, w: np.ndarray | None) -> Twin:
    rows = [[Fraction(v) for v in row] for row in zip(*columns, strict=True)]
    k, outcome = len(columns), [Fraction(float(v)) for v in y]
    weights = [Fraction(1)] * N if w is None else [Fraction(float(v)) for v in w]

    def total(of: Sequence[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(weights, of, strict=True)), Fraction(0))

    work = [
        [total([r[i] * r[j] for r in rows]) for j in range(k)] + [Fraction(int(i == j)) for j in range(k)]
        for i in range(k)
    ]
    for i in range(k):
        work[i] = [v / work[i][i] for v in work[i]]
        for other in range(k):
            if other != i:
                factor = work[other][i]
                work[other] = [a - factor * b for a, b in zip(work[other], work[i], strict=True)]
    inverse = [row[k:] for row in work]
    right = [total([r[i] * v for r, v in zip(rows, outcome, strict=True)]) for i in range(k)]
    beta = [sum((a * b for a, b in zip(row, right, strict=True)), Fraction(0)) for row in inverse]
    rest = [v - sum(b * x for b, x in zip(beta, r, strict=True)) for r, v in zip(rows, outcome, strict=True)]
    squares = total([e * e for e in rest])
    added = [
        [a * e * sum(p * x for p, x in zip(row, r, strict=True)) for a, e, r in zip(weights, rest, rows, strict=True)]
        for row in inverse
    ]
    return Twin(
        [float(b) for b in beta], [float(squares / (N - k) * inverse[i][i]) ** 0.5 for i in range(k)],
        [float(sum(v * v for v in row)) ** 0.5 for row in added], float(squares),
    )  # fmt: skip


def same(
    folder: Path, frame: pd.DataFrame, formula: str, names: Sequence[str], twin: Twin, w: np.ndarray | None
) -> None:
    """Ask with each kind of errors; they must be those of the twin."""
    given = frame if w is None else frame.assign(weight=w)
    expected = {"classical": twin.classical, "hc0": twin.hc0}
    for kind, errors in expected.items():
        answer = ask(folder / kind, given, OLS(formula, weighted=w is not None, errors=kind))
        table = answer.frame("coefficients").set_index("term").loc[list(names)]
        assert table["coefficient"].to_numpy() == pytest.approx(twin.beta, rel=1e-8, abs=1e-8 * min(twin.classical))
        assert table["standard error"].to_numpy() == pytest.approx(errors, rel=1e-8)
        left = answer.frame("anova").set_index("source").loc["Residual", "sum of squares"]
        assert left == pytest.approx(twin.squares, rel=1e-8)


@pytest.mark.parametrize("w", WEIGHTS, ids=["plain", "weighted"])
def test_badly_scaled_predictors_keep_their_digits(tmp_path: Path, w: np.ndarray | None) -> None:
    rng = np.random.default_rng(1)
    x = 1e9 + rng.integers(-8, 9, N).astype(float)
    near = x * 1e-6 + rng.integers(-4, 5, N) * 2.0**-20
    y = 3 + 1e-9 * x + rng.normal(0, 1, N)
    twin = rational_least_squares([np.ones(N), x, near], y, w)
    frame = pd.DataFrame({"age": x, "z": near, "income": y})
    same(tmp_path, frame, "income ~ age + z", ["Intercept", "age", "z"], twin, w)


def standard(values: np.ndarray, w: np.ndarray | None) -> list[Fraction]:
    """The values less their mean, over their standard deviation (which is no fraction: rounded once)."""
    of = [Fraction(float(v)) for v in values]
    weights = [Fraction(1)] * N if w is None else [Fraction(float(v)) for v in w]
    mean = sum(a * b for a, b in zip(weights, of, strict=True)) / sum(weights)
    variance = sum(a * (b - mean) ** 2 for a, b in zip(weights, of, strict=True)) / sum(weights)
    return [(v - mean) / Fraction(float(variance) ** 0.5) for v in of]


@pytest.mark.parametrize("w", WEIGHTS, ids=["plain", "weighted"])
def test_standardised_numbers_far_from_zero_keep_their_digits(tmp_path: Path, w: np.ndarray | None) -> None:
    rng = np.random.default_rng(3)
    x, y = 1e9 + dyadic(rng), 1e9 + dyadic(rng)
    frame = pd.DataFrame({"age": x, "income": y})
    twin = rational_least_squares([np.ones(N), standard(x, w)], np.array([float(v) for v in standard(y, w)]), w)
    same(tmp_path, frame, "standardise(income) ~ standardise(age)", ["Intercept", "standardise(age)"], twin, w)
