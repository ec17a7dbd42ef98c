"""Accounts where others are not known: all answers together tell what the formula with whole matrices says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sfumato.mas.accounts import Balance, Charge
from sfumato.mas.sums import Company

COUNTS = np.random.default_rng(4).poisson(3, (6, 5, 3))


@dataclass(frozen=True)
class Sides:
    """A known variable, as accounts see it."""

    name: str
    levels: tuple[str, ...]


VARIABLES = tuple(
    Sides(name, tuple(f"{name}{i}" for i in range(k))) for name, k in zip("abc", COUNTS.shape, strict=True)
)


def charges(n: int, seed: int) -> list[Charge]:
    """Return charges of random tables: some cells are free, some are added up, some depend on a variable of another table."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        sides = [v for v in VARIABLES if rng.random() < 0.7] or [VARIABLES[0]]
        if rng.random() < 0.1:
            sides.append(Sides("z", ("z0", "z1")))
        shape = [len(v.levels) for v in sides]
        amounts = 0.05 * rng.random(shape) * (rng.random(shape) < 0.8)
        groups = rng.integers(0, rng.integers(1, 20), shape)
        about = rng.choice(["x", "y"], rng.integers(1, 3), replace=False)
        company = tuple(Company((str(name),), float(rng.choice([0.25, 0.2, 0.0])), 0.5) for name in about)
        found.append(Charge(tuple((v.name, v.levels) for v in sides), amounts, groups, company))
    return found


def told(every: list[Charge]) -> np.ndarray:
    """Return min(Σ of losses, Σ of h / (1 − v h) by confidential variable), each M and its inverse written out."""
    n = COUNTS.ravel().astype(float)
    formal, matrices, least, alone = np.zeros(n.size), {}, {}, {}
    for charge in every:
        names = [name for name, _ in charge.variables]
        base = [v.name for v in VARIABLES]
        extra = "z" in names
        laid, groups = np.zeros(COUNTS.shape), np.zeros(COUNTS.shape, int)
        for place in np.ndindex(*COUNTS.shape):
            here = tuple(place[base.index(name)] for name in names if name != "z")
            laid[place] = charge.amounts[here].max() if extra else charge.amounts[here]
            groups[place] = 0 if extra else charge.groups[here]
        loss, group = laid.ravel(), groups.ravel()
        formal += loss
        for company in charge.company:
            (name,) = company.about
            if extra or company.variance == 0:
                alone[name] = alone.get(name, 0) + company.part * loss
                continue
            m = matrices.setdefault(name, np.zeros((n.size, n.size)))
            least[name] = min(least.get(name, 1.0), company.variance)
            for k in np.unique(group):
                roots = np.where(group == k, np.sqrt(loss), 0.0)
                m += company.part * np.outer(roots, roots)
    best = np.zeros(n.size)
    lived = n > 0
    for name in {*matrices, *alone}:
        sums = np.zeros(n.size) + alone.get(name, 0.0)
        if name in matrices:
            m, v = matrices[name][np.ix_(lived, lived)], least[name]
            h = np.diag(m @ np.linalg.inv(np.eye(lived.sum()) + np.diag(v * n[lived]) @ m))
            sums[lived] += np.minimum(h / (1 - v * h), np.diag(m))
        best = np.maximum(best, sums)
    return np.minimum(best, formal).reshape(COUNTS.shape)


@pytest.mark.parametrize("seed", range(4))
def test_all_answers_together_tell_what_whole_matrices_say(seed: int) -> None:
    balance, every = Balance(VARIABLES, lambda: COUNTS), charges(12, seed)  # type: ignore[arg-type]
    for i, charge in enumerate(every):
        balance.pay(charge)
        if i % 5 == 0:
            balance.settle()
    balance.settle()
    assert balance.spent == pytest.approx(told(every), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_fits_as_far_as_all_answers_with_it_tell(seed: int) -> None:
    balance, every = Balance(VARIABLES, lambda: COUNTS), charges(10, 10 + seed)  # type: ignore[arg-type]
    for charge in every[:8]:
        balance.pay(charge)
    before, after = told(every[:8]), told(every)
    most = after[after > before * (1 + 1e-9)].max()
    assert balance.fits(every[8:], most * (1 + 1e-9))
    assert not balance.fits(every[8:], most * (1 - 1e-6))
    assert balance.spent == pytest.approx(before, abs=1e-12)  # nothing was charged
