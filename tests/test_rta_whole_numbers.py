"""Attackers who know that contributions are whole numbers, by enumeration of everything that they may be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from sfumato import Attribute, Microdata, Schema
from sfumato.contract import Draws
from sfumato.tables import RTA, Table
from sfumato.tables.rta.digits import for_whole_numbers, whole_variance

Numbers = NDArray[np.float64]


def prior_on(mean: float, v: float) -> tuple[NDArray[np.int64], Numbers]:
    reach = int(8 * np.sqrt(v) + 6)
    k = np.arange(int(np.floor(mean)) - reach, int(np.ceil(mean)) + reach + 1)
    p = norm.pdf(k, mean, np.sqrt(v))
    return k, p / p.sum()


def least_left(v: Numbers, omega: float, target: int, attacker: int) -> float:
    """Return the smallest posterior variance over what may be published, for prior means at and between whole numbers."""
    others = [i for i in range(len(v)) if i not in (target, attacker)]
    least = np.inf
    for mean in (0.0, 0.25, 0.5):
        k, p = prior_on(mean, v[target])
        rest, q = np.array([0]), np.array([1.0])
        for i in others:
            more, r = prior_on(0.0, v[i])
            q = np.convolve(q, r)
            rest = rest[0] + more[0] + np.arange(len(q))
        total = k[:, None] + rest
        for y in np.arange(-2, 2.01, 0.25):
            seen = norm.pdf(y, total, np.sqrt(omega)) if omega > 0 else (total == y).astype(float)
            weight = p * (seen @ q)
            if weight.sum() > 1e-12:
                weight = weight / weight.sum()
                least = min(least, (weight * k**2).sum() - (weight * k).sum() ** 2)
    return float(least)


@pytest.mark.parametrize("values", [[1], [2], [3, 2], [3, 2, 1], [2, 2, 2], [5, 5, 2, 2], [6, 6, 3], [6, 5, 1, 1]])
@pytest.mark.parametrize(("epsilon", "eta"), [(0.5, 0.15), (0.5, 0.3), (0.3, 0.15)])
def test_no_attacker_who_knows_that_contributions_are_whole_finds_less_than_was_promised(
    values: list[int], epsilon: float, eta: float
) -> None:
    schema = Schema((Attribute("cell"), Attribute("value", scale="ordered", integer=True)))
    table = Table.of(Microdata(pd.DataFrame({"cell": "c", "value": values}), schema), "cell", "value")
    published = RTA(prior_cv=epsilon, base_cv=eta, variances="none").protect(table, Draws(1))
    assert published.leaf_variance is not None
    omega, d = float(published.leaf_variance[0]), np.array(values, float)
    v, w2 = (epsilon * d) ** 2, (eta * d) ** 2
    plain = max(0.0, *(v[h] ** 2 / (v[h] - w2[h]) - v.sum() + max([0.0, *np.delete(v, h)]) for h in range(len(d))))
    assert omega >= plain * (1 - 1e-9)  # what normal priors ask for (RTA paper, 3.3)
    for h in range(len(d)):
        k, p = prior_on(0.0, v[h])
        if (p * k**2).sum() <= 1.2 * w2[h]:
            continue  # whole, and known to within less than one: nothing is left to protect
        for g in (-1, *range(len(d))):
            if g != h:
                assert least_left(v, omega, h, g) >= w2[h] * (1 - 1e-6)


@pytest.mark.parametrize("required", [0.01, 0.0225, 0.1, 0.5, 0.9, 1.0, 3.7])
def test_one_contributor_alone_is_left_what_was_promised_and_hardly_more(required: float) -> None:
    p = float(for_whole_numbers(np.array([required]))[0])
    v = np.array([4 * p])
    left = least_left(v, float(v[0] * p / (v[0] - p)), 0, -1)
    assert required * (1 - 1e-6) <= left <= required * 1.05


def test_variances_on_whole_numbers_are_sums_over_them() -> None:
    k = np.arange(-80, 81)
    for p in (0.05, 0.12, 0.4, 1.0, 3.9, 5.0):
        weight = np.exp(-(k**2) / (2 * p))
        assert whole_variance(np.array([p]))[0] == pytest.approx((weight * k**2).sum() / weight.sum(), rel=1e-6)
    assert for_whole_numbers(np.array([100.0]), 3)[0] == pytest.approx(100.18, abs=0.001)
    assert whole_variance(np.array([0.0, np.inf])).tolist() == [0, np.inf]
