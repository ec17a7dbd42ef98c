"""The papers' formulas refuse arguments for which they mean nothing, and take NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
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
    "a number beyond floats": (ru_paper.utility_mean, (0.1, 10**400, 10), "variance"),
    "several numbers for one": (ru_paper.variance_slope_case1, ([0.1, 0.2], 1.0, 10), "residual"),
    "a slope of 0 with something explained": (ru_paper.utility_slope_case3, (0.1, 0.0, 0.5, 10), "too near 0"),
    "numbers too large together": (ru_paper.variance_slope_case3, (0.0, 7.0, 1e308, 7.0, 7), "too large"),
    "several numbers for a variance": (SimpleRTA.from_sizes([40, 30], 0.5, 0.25).risk, ([1.0, 2.0],), "sigma2"),
    "a text for a variance": (SimpleRTA.from_sizes([40, 30], 0.5, 0.25).utility, ("a",), "sigma2"),
    "a threshold beyond floats": (SimpleRTA.from_sizes([40, 30], 0.5, 0.25).solve, (10**400,), "threshold"),
    "sizes beyond floats": (SimpleRTA.from_sizes, ([10**400, 2], 0.5, 0.25), "sizes"),
    "variances beyond floats": (SimpleRTA.from_sizes, ([1e308, 2], 10, 0.25), "finite"),
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


def test_formulas_take_any_real_number_and_return_those_of_python() -> None:
    assert ru_paper.r_squared(Fraction(1, 2), np.float32(4), True) == 0.5
    mask = best_bivariate(np.float32(0.5), Fraction(3, 5), np.float64(0.2), np.float16(0.1))
    assert {type(v) for v in (mask.a, mask.kept, mask.disclosed, mask.rho, mask.tau)} == {float}
    assert mask.indifferent is False
