"""The teacher survey of the R-U paper's section 5, generated; and five people, to see what a method does."""

from __future__ import annotations

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.data import Column, LocalEngine, Microdata, Rows
from sfumato.errors import ParameterError
from sfumato.schema import Attribute, IntervalHierarchy, Level, PrefixHierarchy, Role, Scale, Schema

_PEOPLE: dict[str, list[object]] = {
    "name": ["Ada", "Ben", "Cleo", "Dora", "Egon"],
    "household": [1, 1, 2, 3, 4],
    "zip": ["48201", "48201", "48207", "48207", "10001"],
    "sex": ["f", "m", "f", "f", "m"],
    "age": [34, 36, 51, 47, 88],
    "rent": [900.0, 900.0, 1200.0, 700.0, 650.0],
    "salary": [41.0, 38.5, 67.0, 52.0, 310.0],
    "weight": [120.0, 120.0, 95.0, 110.0, 80.0],
}


def five() -> Microdata:
    """Return five people in four households: a name, keys (zip, sex, age), rent per household, salary, and a weight.

    Examples
    --------
    >>> five().numbers("salary").tolist()
    [41.0, 38.5, 67.0, 52.0, 310.0]
    """
    import numpy as np

    columns = {name: Column.from_values(values) for name, values in _PEOPLE.items()}
    plain = Scale.UNORDERED
    schema = Schema(
        (
            Attribute("name", Role.IDENTIFIER, plain),
            Attribute("household", Role.HOUSEHOLD, plain),
            Attribute("zip", Role.KEY, Scale.PARTIALLY_ORDERED, hierarchy=PrefixHierarchy(5)),
            Attribute("sex", Role.KEY, plain),
            Attribute("age", Role.KEY, hierarchy=IntervalHierarchy.from_widths([10, 20]), unit="years", integer=True),
            Attribute("rent", Role.CONFIDENTIAL, level=Level.HOUSEHOLD, unit="dollars a month", bounds=(0, None)),
            Attribute("salary", Role.CONFIDENTIAL, unit="thousand dollars", bounds=(0, None)),
            Attribute("weight", Role.WEIGHT),
        )
    )
    return Microdata(LocalEngine(Rows(np.arange(5, dtype=np.int64), columns)), schema)


# The teacher survey of the R-U paper's section 5, generated.


INCOME, SALARY = 96.0, 62.0
COVARIANCE = np.array([[17.5**2, 8.3**2], [8.3**2, 13.3**2]])
"""Household income and salary in thousand dollars, as section 5 prints it."""
_WITH_AGE = (0.30, 0.50)  # correlation of income and of salary with the latent age

_REGIONS = ("Northeast", "Midwest", "South", "West")
_RACES = ("White", "Hispanic", "Black", "Asian", "Other")
_LEVELS = ("elementary", "middle", "high")


def teachers(n: int = 30_000, seed: int = 2004) -> Microdata:
    """Return a survey of n teachers: household income and salary with the covariance of the paper, and demographics.

    Salary and income are jointly normal with the population covariance of section 5 (the means, which the paper does not
    give, are 62 and 96 thousand dollars) and rise with age. Keys: age, sex, race, region, zip code, school level, years of
    experience. `teacher_id` is an identifier.
    """
    if n < 1:
        raise ParameterError("a survey needs at least one record.")
    g = Draws(seed).generator("teachers")
    sd = np.sqrt(np.diag(COVARIANCE))
    full = np.eye(3)
    full[:2, :2] = COVARIANCE / np.outer(sd, sd)
    full[:2, 2] = full[2, :2] = _WITH_AGE
    z = g.standard_normal((n, 3)) @ np.linalg.cholesky(full).T
    age = np.clip(np.round(44 + 10.5 * z[:, 2]), 22, 70)
    years = np.clip(np.round((age - 22) * g.beta(4, 1.3, n)), 0, None)
    region = g.choice(4, n, p=[0.17, 0.21, 0.38, 0.24])
    place = np.minimum(g.gamma(0.9, 12, n).astype(int), 99)
    columns = {
        "teacher_id": Column.from_values([f"T{k:06d}" for k in g.permutation(n)]),
        "age": Column.from_numbers(age, integer=True),
        "sex": Column.from_values(np.array(["female", "male"])[(g.random(n) < 0.24).astype(int)].tolist()),
        "race": Column.from_values(np.array(_RACES)[g.choice(5, n, p=[0.72, 0.11, 0.09, 0.05, 0.03])].tolist()),
        "region": Column.from_values(np.array(_REGIONS)[region].tolist()),
        "zip": Column.from_values(
            [f"{r:d}{p:02d}{q:02d}" for r, p, q in zip(2 * region + 1, place, g.integers(1, 60, n), strict=True)]
        ),
        "school": Column.from_values(np.array(_LEVELS)[g.choice(3, n, p=[0.48, 0.22, 0.30])].tolist()),
        "experience": Column.from_numbers(years, integer=True),
        "salary": Column.from_numbers(SALARY + sd[1] * z[:, 1]),
        "income": Column.from_numbers(INCOME + sd[0] * z[:, 0]),
    }
    return Microdata(LocalEngine(Rows(np.arange(n, dtype=np.int64), columns)), teachers_schema())


def teachers_schema() -> Schema:
    """Return what the columns of the teacher survey mean."""
    key, plain = Role.KEY, Scale.UNORDERED
    money = {"role": Role.CONFIDENTIAL, "unit": "thousand dollars"}
    return Schema(
        (
            Attribute("teacher_id", Role.IDENTIFIER, plain, label="number of the teacher in the sampling frame"),
            Attribute("age", key, hierarchy=IntervalHierarchy.from_widths([5, 10, 20]), unit="years", integer=True),
            Attribute("sex", key, plain),
            Attribute("race", key, plain),
            Attribute("region", key, plain),
            Attribute("zip", key, Scale.PARTIALLY_ORDERED, hierarchy=PrefixHierarchy(5), label="zip code"),
            Attribute("school", key, plain, label="level of the school"),
            Attribute("experience", key, unit="years", integer=True, label="years of teaching"),
            Attribute("salary", label="yearly salary", **money),  # type: ignore[arg-type]
            Attribute("income", label="yearly household income", **money),  # type: ignore[arg-type]
        )
    )
