"""A survey of 20,000 persons with a planted target, for the analysis system and the attacks on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato import mas
from sfumato.data.microdata import Microdata
from sfumato.errors import ParameterError
from sfumato.lazy import pd
from sfumato.schema import Attribute, Role, Scale, Schema

if TYPE_CHECKING:
    pass

TARGET: dict[str, int | float | str] = {
    "age": 89,
    "sex": "F",
    "race": "other",
    "state": "S03",
    "income": 1_234_567.89,
    "disability": "yes",
}
"""The planted target: the only woman of her age and race in her state, and by far the largest income."""
RACES = ("white", "black", "asian", "other")
STATES = tuple(f"S{i:02}" for i in range(1, 21))
UNIFORM_STATE = "S20"
"""A state in which 98 of 100 persons are white women."""


def survey20k(n: int = 20_000, seed: int = 2009) -> Microdata:
    """Return a sample survey: age, sex, race and state are known to others; income and disability are confidential.

    States differ in size (Zipf's law); income rises with age up to 55 and is log-normal around that; disability becomes more
    frequent with age. In the smallest state nearly everybody is a white woman. The last record is the planted target. Weights
    lie between 20 and 400, larger in large states.

    Examples
    --------
    >>> data = survey20k(1_000)
    >>> len(data), data.schema.names(role=Role.CONFIDENTIAL)
    (1000, ('income', 'disability'))
    """
    if n < 100:
        raise ParameterError("the survey needs at least 100 records: one of them is the planted target.")
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(STATES) + 1)
    state = rng.choice(len(STATES), n, p=share / share.sum())
    age = np.clip(np.round(rng.gamma(6.5, 7.0, n)), 18, 95)
    sex = rng.choice(["F", "M"], n, p=[0.52, 0.48])
    race = rng.choice(RACES, n, p=[0.68, 0.16, 0.12, 0.04])
    alike = (state == STATES.index(UNIFORM_STATE)) & (rng.random(n) < 0.98)
    sex[alike], race[alike] = "F", "white"
    level = 9.2 + 0.035 * np.minimum(age, 55) - 0.0025 * np.maximum(age - 55, 0) ** 1.2 + 0.12 * (sex == "M")
    income = np.round(np.minimum(np.exp(level + rng.normal(0, 0.6, n)), 600_000 * rng.uniform(0.8, 1, n)), 2)
    income[rng.random(n) < 0.06] = 0.0
    disabled = rng.random(n) < 1 / (1 + np.exp(4.2 - 0.05 * age))
    weight = np.round(rng.gamma(8, 12, n) * (0.6 + 0.8 * share[state] / share[0]) + 20, 1)
    frame = pd.DataFrame({
        "age": age.astype(int), "sex": sex, "race": race, "state": np.array(STATES)[state], "income": income,
        "disability": np.where(disabled, "yes", "no"), "weight": np.minimum(weight, 400.0),
    })  # fmt: skip
    alone = (frame["sex"] == "F") & (frame["state"] == "S03") & (frame["race"] == "other") & (frame["age"] >= 60)
    frame.loc[alone, "race"] = "asian"  # nobody else is what the target is
    for name, value in TARGET.items():
        frame.loc[n - 1, name] = value
    return Microdata(frame, _schema())


def coarse_cutpoints() -> dict[str, mas.Cutpoints]:
    """Return cutpoints as a custodian would choose them: ages by ten years, eight bins of income."""
    income = (10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000)
    return {
        "age": mas.Cutpoints((24, 34, 44, 54, 64, 74), whole=True, low=18),
        "income": mas.Cutpoints(income, unit="$"),
    }


def fine_cutpoints() -> dict[str, mas.Cutpoints]:
    """Return cutpoints that leave more persons alone in a cell, for the attack bench: two years each above the age of 70."""
    age = mas.Cutpoints((*range(24, 70, 5), *range(71, 94, 2)), whole=True, low=18)
    return {**coarse_cutpoints(), "age": age}


def _schema() -> Schema:
    return Schema((
        Attribute("age", role=Role.KEY, integer=True, label="age", unit="years", bounds=(18, None)),
        Attribute("sex", role=Role.KEY, scale=Scale.UNORDERED, label="sex"),
        Attribute("race", role=Role.KEY, scale=Scale.UNORDERED, label="race"),
        Attribute("state", role=Role.KEY, scale=Scale.UNORDERED, label="state"),
        Attribute("income", role=Role.CONFIDENTIAL, label="yearly income", unit="$", bounds=(0, None)),
        Attribute("disability", role=Role.CONFIDENTIAL, scale=Scale.UNORDERED, label="has a disability"),
        Attribute("weight", role=Role.WEIGHT, label="survey weight"),
    ))  # fmt: skip
