"""The papers' formulas refuse arguments for which they mean nothing, and take NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.papers import ru_paper
from sfumato.papers.release_region import best_bivariate
from sfumato.papers.simple_rta import SimpleRTA

WRONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "a negative noise level": (ru_paper.index_risk, (-0.5, 1.0), "lambda2"),
    "a text for a noise level": (ru_paper.attenuation, ("a",), "lambda2"),
    "a probability above 1": (ru_paper.linkage_risk, (0.1, 1.0, 2.0), "m"),
    "a correlation above 1": (ru_paper.bayes_risk, (0.1, 1.0, 1.5), "rho"),
    "no explained variance": (ru_paper.utility_slope_case2, (0.1, 1.0, 0.0, 100), "r2"),
    "half a record": (ru_paper.utility_mean, (0.1, 1.0, 10.5), "n"),
    "a slope on a constant": (ru_paper.variance_slope_case1, (1.0, 0.0, 100), "variance"),
    "nothing to explain": (ru_paper.r_squared, (0.0, 1.0, 0.0), "nothing to explain"),
    "a text for a correlation": (best_bivariate, ("a", 0.1, 0.1, 0.1), "rho"),
    "a text for a criterion": (best_bivariate, (0.5, 0.1, 0.1, "a"), "tau"),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_without_a_meaning_are_refused_in_a_sentence(case: str) -> None:
    formula, arguments, says = WRONG[case]
    with pytest.raises(ParameterError, match=says):
        formula(*arguments)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_a_cell_takes_numbers_of_numpy(kind: Any) -> None:
    cell = SimpleRTA.from_sizes([40, 30, 15], prior_cv=kind(1), base_cv=kind(0))
    assert cell.solve(kind(1)).parameters == {"sigma2": 0.0}
