"""Keyed noise: the same leaf, the same number; two levels of noise tell no more than the lower one."""

from __future__ import annotations

import numpy as np
import pytest
from rta_tables import firms, microdata, table_of

from sfumato import Microdata
from sfumato.contract import Draws
from sfumato.errors import ParameterError
from sfumato.tables import RTA, Table
from sfumato.tables.rta.drawing import brownian, leaf_draws, leaf_ids, leaf_labels

N = 20_000
IDS = np.arange(N)


def test_the_path_has_the_covariance_of_brownian_motion() -> None:
    times = [0.3, 1.0, 2.5, 2.5000001, 77.09, 1e6]
    paths = np.array([brownian(np.full(N, t), IDS, Draws(3)) for t in times])
    for i, s in enumerate(times):
        for j, t in enumerate(times):
            # the sample covariance of N pairs has the standard error sqrt((st + min²)/N)
            error = np.sqrt((s * t + min(s, t) ** 2) / N)
            assert np.mean(paths[i] * paths[j]) == pytest.approx(min(s, t), abs=4.5 * error)
    from scipy.stats import kstest

    assert kstest(paths[4] / np.sqrt(77.09), "norm").pvalue > 1e-4


def test_a_second_publication_with_more_noise_tells_nothing_more() -> None:
    """y2 - y1 does not depend on y1, so that the better of both estimates is y1 alone; scaled noise would give t away."""
    low, high = brownian(np.full(N, 4.0), IDS, Draws(1)), brownian(np.full(N, 9.0), IDS, Draws(1))
    assert np.corrcoef(low, high - low)[0, 1] == pytest.approx(0, abs=4.5 / np.sqrt(N))
    best = np.linalg.lstsq(np.column_stack([high - low]), low, rcond=None)
    assert np.var(low - (high - low) * best[0][0]) == pytest.approx(4, rel=0.05)


def test_no_variance_no_noise_and_tiny_ones_work() -> None:
    noise = brownian(np.array([0.0, 1e-30, 1e-20, 1.0, 1e60]), np.arange(5), Draws(1))
    assert noise[0] == 0
    assert np.isfinite(noise).all()
    assert (noise[1:] != 0).all()
    with pytest.raises(ParameterError, match="not finite"):
        brownian(np.array([np.inf]), np.arange(1), Draws(1))


def test_noise_hangs_on_labels_and_not_on_order() -> None:
    frame = firms(200)
    one, two = table_of(frame), table_of(frame.sample(frac=1, random_state=3), "sector * region")
    first = dict(zip(leaf_labels(one.cells), leaf_ids(one), strict=True))
    second = dict(zip(leaf_labels(two.cells), leaf_ids(two), strict=True))
    assert first == second
    assert len(set(first.values())) == one.cells.leaves


def test_a_column_that_groups_another_does_not_change_the_noise() -> None:
    frame = firms(200)
    frame["zone"] = frame.region.map({"a": "n", "b": "n", "c": "s", "d": "s", "e": "s"})
    plain = table_of(frame, "region * sector")
    linked = Table.of(microdata(frame), "region * sector + zone * sector", "turnover", size="staff")
    assert set(leaf_ids(plain)) == set(leaf_ids(linked))


def test_variable_and_period_and_seed_change_the_noise() -> None:
    frame = firms(200)
    frame["costs"] = frame.turnover
    rta, draws = RTA(), Draws(5)
    base = rta.protect(table_of(frame), draws)
    again = rta.protect(table_of(frame.sample(frac=1, random_state=1)), Draws(5))
    assert np.array_equal(base.values, again.values)
    others = [
        rta.protect(Table.of(microdata(frame), "region * sector", "costs", size="staff"), draws),
        rta.with_(period="2025").protect(table_of(frame), draws),
        rta.protect(table_of(frame), Draws(6)),
    ]
    changed = base.variance > 1
    assert changed.sum() > 5
    for other in others:
        assert (other.values != base.values)[changed].mean() > 0.9


def test_streams_of_two_variables_are_independent() -> None:
    a = brownian(np.ones(N), IDS, leaf_draws(Draws(1), "turnover", "2024"))
    b = brownian(np.ones(N), IDS, leaf_draws(Draws(1), "turnover", "2025"))
    assert np.corrcoef(a, b)[0, 1] == pytest.approx(0, abs=4.5 / np.sqrt(N))


@pytest.mark.parametrize("named", [True, False])
def test_another_population_under_the_same_labels_has_other_noise_and_a_correction_has_the_same(named: bool) -> None:
    """With one noise for both, the difference of two tables would be the contribution of whoever is in one of them."""
    frame = firms(200)
    frame["owner"] = [f"firm {i}" for i in range(200)]
    schema = microdata(frame).schema if named else None

    def noise(part: object) -> dict[str, int]:
        table = Table.of(Microdata(part, schema), "region", "turnover")
        return dict(zip(leaf_labels(table.cells), leaf_ids(table).tolist(), strict=True))

    all_of_them, without = noise(frame), noise(frame[frame.index != 7])
    changed = {label for label in all_of_them if all_of_them[label] != without[label]}
    assert len(changed) == 1
    assert frame.region[7] in next(iter(changed))
    corrected = frame.assign(turnover=frame.turnover.where(frame.index != 7, 1.0))
    assert noise(corrected) == all_of_them
    assert noise(frame.sample(frac=1, random_state=1)) == all_of_them
