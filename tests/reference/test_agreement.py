"""Empirical and analytic values agree: records drawn afresh, one simultaneous 99 % band for all.

The settings of the paper are replicated 2,000 times, other snoopers 500 times: enough to tell a wrong formula, which is tried
with each of them (it lies at 6 standard errors or more, the band at 3.9). `make verify` replicates five times as often.

The band is on the scale on which replications are averaged, the mean squared error: mean ± z · sd / √B, with z from
Bonferroni over every comparison in this file. Each test takes its share of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import norm

from sfumato import Snooper, ru_map
from sfumato.contract import Mask, Side
from sfumato.maps import NormalPopulation, RUMap
from sfumato.masks import IndependentNoise, KimNoise
from sfumato.papers import figure1, slope_map
from sfumato.papers.ru_paper import TEACHERS
from sfumato.risk import AttributeRisk
from sfumato.utility import Estimator, EstimatorUtility, Mean, MeanCombination, Slope

REPLICATIONS = 2_000
SEED = 20041116
WITH_AGE = NormalPopulation(
    {"salary": 62.0, "age": 44.0}, [[13.3**2, 0.6 * 13.3 * 10.5], [0.6 * 13.3 * 10.5, 10.5**2]], n=200
)
"""Salary with an unmasked covariate of correlation .6."""

PLAIN = Slope("y", "x")
CORRECTED = Slope("y", "x", corrected_by="kim_noise.lambda2")
EVERYONE, TOP, MIDDLE = AttributeRisk("salary"), AttributeRisk("salary", low=0.9), AttributeRisk("salary", 0.25, 0.75)


@dataclass(frozen=True)
class Setting:
    name: str
    population: NormalPopulation
    mask: Mask
    levels: tuple[float, ...]
    risks: tuple[AttributeRisk, ...]
    utilities: tuple[Estimator, ...]
    snooper: Snooper | None = None
    replications: int = REPLICATIONS
    wrong: tuple[tuple[int, int, float], ...] = ()
    """Values that the band must tell from the right one: (measure, level, factor on the right value)."""

    @property
    def comparisons(self) -> int:
        """Every measure at every level, and the utilities of the unmasked file."""
        return len(self.levels) * (len(self.risks) + len(self.utilities)) + len(self.utilities)

    def map(self) -> RUMap:
        return ru_map(
            self.population, self.mask, {f"{self.mask.name}.lambda2": self.levels}, list(self.risks),
            [EstimatorUtility(u) for u in self.utilities], snooper=self.snooper, replications=self.replications, draws=SEED,
            workers=1,
        )  # fmt: skip


def regression(name: str, r2: float, n: int, columns: tuple[str, ...], slopes: tuple[Slope, ...]) -> Setting:
    wrong = ((1, 0, (n - 1) / (n - 3)),) if n == 12 else ()  # n - 1 in place of n - 3
    return Setting(
        name, NormalPopulation.regression(r2, n), KimNoise(columns=columns), (0.02, 0.15, 1.0), (AttributeRisk(columns[0]),),
        slopes, wrong=wrong,
    )  # fmt: skip


def attack(
    name: str, risks: tuple[AttributeRisk, ...], snooper: Snooper, replications: int = 500, factor: float = 1.5
) -> Setting:
    return Setting(
        name, WITH_AGE, KimNoise(columns=("salary",)), (0.15, 0.6), risks, (Mean("salary"),), snooper, replications,
        wrong=((0, 0, factor),),
    )  # fmt: skip


def bayes(published: bool = True, **knows: object) -> Snooper:
    return Snooper(strategy="bayes", parameter_published=published, **knows)  # type: ignore[arg-type]


SETTINGS = [
    Setting(
        "figure 1", TEACHERS, KimNoise(), (0.01, 0.05, 0.15, 0.4, 1.0), (EVERYONE,),
        (Mean("salary"), MeanCombination({"income": 1, "salary": -1})),
    ),
    Setting(
        "figure 1 with independent noise", TEACHERS, IndependentNoise(), (0.15, 1.0), (EVERYONE,),
        (MeanCombination({"income": 1, "salary": -1}), Slope("salary", "income")),
    ),
    regression("figure 2, R² = .3", 0.3, 200, ("x",), (PLAIN, CORRECTED)),
    regression("figure 2, R² = .5", 0.5, 200, ("x",), (PLAIN, CORRECTED)),
    regression("case 1", 0.3, 200, ("x", "y"), (PLAIN,)),
    regression("case 3", 0.3, 200, ("y",), (PLAIN,)),
    regression("case 1, 12 records", 0.5, 12, ("x", "y"), (PLAIN,)),
    regression("case 2, 12 records", 0.5, 12, ("x",), (PLAIN, CORRECTED)),
    regression("case 3, 12 records", 0.5, 12, ("y",), (PLAIN,)),
    attack("links with probability .8", (EVERYONE, TOP, MIDDLE), Snooper(match_probability=0.8)),
    attack("shrinks, told the noise level", (EVERYONE, TOP, MIDDLE), bayes(), REPLICATIONS, 1 / 1.15),  # (4.8), without shrinking
    attack("shrinks, knows an unmasked covariate", (EVERYONE, TOP), bayes(covariates=("age",))),
    attack("shrinks, links with probability .8", (EVERYONE, TOP), bayes(covariates=("age",), match_probability=0.8)),
    attack("not told the noise level", (EVERYONE,), bayes(published=False, covariates=("age",))),
]  # fmt: skip
TOTAL = sum(s.comparisons for s in SETTINGS)
BAND = float(norm.ppf(1 - 0.01 / (2 * TOTAL)))


def distance(m: RUMap, measure: int, point: int, value: float) -> float:
    """Return how far a value of a measure lies from its replications, in standard errors of the mean squared error.

    For some targets only, a replication gives its squared errors and its number of targets: the mean of
    (squared errors - targets / value) is then zero.
    """
    observed = m.observations[measure][point]
    targets = observed[:, 1] if observed.shape[1] == 2 else np.ones(len(observed))
    gaps = observed[:, 0] - targets / value
    return float(abs(gaps.mean()) / (gaps.std(ddof=1) / math.sqrt(len(gaps))))


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.verify)])
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_every_analytic_value_lies_in_the_simultaneous_band(setting: Setting, times: int) -> None:
    m = replace(setting, replications=times * setting.replications).map()
    unmasked = len(m.points)
    checked = {}
    for i, measure in enumerate(m.measures):
        for p in range(unmasked + (measure.side is Side.UTILITY)):
            checked[measure.label(), p] = distance(m, i, p, float(m.analytic[i][p]))
    assert len(checked) == setting.comparisons
    assert {where: far for where, far in checked.items() if not far < BAND} == {}
    for i, p, factor in setting.wrong:
        assert distance(m, i, p, factor * float(m.analytic[i][p])) > BAND
    for i in m.of_side(Side.RISK):
        assert m.unmasked(i) == m.analytic[i][unmasked] or (setting.snooper and setting.snooper.match_probability < 1)


def test_the_figures_are_the_settings_compared_here() -> None:
    for figure, setting in ((figure1([0.15]), SETTINGS[0]), (slope_map([0.15]), SETTINGS[2])):
        found, level = figure.subject.evaluator, setting.levels.index(0.15)
        assert found.recipe.steps[-1].mask == setting.mask
        assert [m.label() for m in found.measures] == [
            *(r.label() for r in setting.risks), *(u.label() for u in setting.utilities)
        ]  # fmt: skip
        again = ru_map(
            setting.population, setting.mask, {"kim_noise.lambda2": setting.levels}, list(setting.risks),
            [EstimatorUtility(u) for u in setting.utilities], replications=0,
        )  # fmt: skip
        for a, b in zip(figure.analytic, again.analytic, strict=True):
            assert a[0] == b[level]
