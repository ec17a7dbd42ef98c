"""Earners: a file of mixed columns in which every answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.datasets import census, earners
from sfumato.errors import ParameterError


@pytest.mark.parametrize("n", [1, 37, 3_000, 30_000])
def test_as_many_as_asked_for_and_every_answer_known(n: int) -> None:
    data = earners(n)
    assert len(data) == n
    batch = data.batch()
    assert not any(batch.missing(name).any() for name in data.schema.names())
    assert (data.numbers("salary") > 0).all()


def test_they_are_persons_of_the_census_and_another_seed_gives_others() -> None:
    data = earners(200)
    everybody = census(int(200 / 0.85) + 400, 1.0, 1990).sample
    assert np.isin(data.numbers("salary"), everybody.numbers("salary")).all()
    assert not np.array_equal(data.numbers("salary"), earners(200, seed=7).numbers("salary"))
    with pytest.raises(ParameterError, match="at least one"):
        earners(0)
