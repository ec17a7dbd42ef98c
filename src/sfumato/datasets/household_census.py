"""A census of persons in households, what its columns mean, a sample of its households, and its earners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.data import Column, LocalEngine, Microdata, Rows
from sfumato.errors import ParameterError
from sfumato.schema import Attribute, IntervalHierarchy, Level, Role, Scale, Schema, TreeHierarchy
from sfumato.typing import Flags, Numbers, Whole

REGIONS = ("Nordmark", "Ostland", "Sudhaven", "Westfold")
AREAS = ("rural", "urban")
RELATIONSHIPS = ("head", "spouse", "partner", "child", "parent", "other")
MARITAL = ("never married", "married", "divorced", "widowed")
EDUCATION = {"none": 0, "compulsory": 9, "secondary": 12, "vocational": 13, "bachelor": 16, "master": 18}
"""Highest degree, and the years it takes."""
EMPLOYMENT = ("child", "employed", "self-employed", "unemployed", "student", "retired", "at home")
TENURES = ("owner", "renter")
NO_ANSWER = 9_999_999
"""Code for an amount of money that was not given."""
_GROUPS = {
    "managers": ("shop manager", "director", "mayor"),
    "professionals": ("teacher", "nurse", "physician"),
    "technicians": ("laboratory technician", "draughtsman", "pilot"),
    "clerks": ("office clerk", "bank clerk", "librarian"),
    "crafts": ("carpenter", "electrician", "watchmaker"),
    "machines": ("lorry driver", "assembler", "train driver"),
    "services": ("shop assistant", "cook", "lifeguard"),
    "elementary": ("cleaner", "farm hand", "street vendor"),
}
OCCUPATIONS = tuple(name for names in _GROUPS.values() for name in names)
"""Three occupations for each of eight groups, in a group the most common one first."""


@dataclass(frozen=True)
class Tract:
    """A small area, inside a district, inside a region."""

    code: str
    district: str
    region: int
    urban: bool

    @property
    def region_code(self) -> str:
        """The region's one-digit code."""
        return str(self.region + 1)


@cache
def tracts() -> tuple[Tract, ...]:
    """Return all tracts: 4 regions of 3 to 6 districts of 12 tracts, the first ones of a district urban."""
    return tuple(
        Tract(f"{r + 1}{d:02d}{t:02d}", f"{r + 1}{d:02d}", r, t <= 4 + 2 * (d == 1))
        for r, districts in enumerate((6, 5, 4, 3))
        for d in range(1, districts + 1)
        for t in range(1, 13)
    )


@cache
def census_schema() -> Schema:
    """Return what the columns of the census sample mean."""
    key, plain, home = Role.KEY, Scale.UNORDERED, Level.HOUSEHOLD
    tree = Scale.PARTIALLY_ORDERED
    places = tracts()
    up = TreeHierarchy.from_levels({p.code: [p.district, REGIONS[p.region]] for p in places})
    districts = TreeHierarchy.from_levels({p.district: [REGIONS[p.region]] for p in places})
    work = TreeHierarchy.from_levels({name: [group] for group, names in _GROUPS.items() for name in names})
    ages = IntervalHierarchy.from_widths([5, 10, 20])
    money: dict[str, Any] = {"role": Role.CONFIDENTIAL, "unit": "crowns a year", "integer": True}
    gap: dict[str, Any] = {"missing": (NO_ANSWER,)}
    return Schema(
        (
            Attribute("person", Role.IDENTIFIER, plain, label="number in the population register"),
            Attribute("household", Role.HOUSEHOLD, plain, label="number of the household"),
            Attribute("region", key, plain, level=home, follows="district", label="code of the region"),
            Attribute("region_name", key, plain, level=home, follows="region", label="name of the region"),
            Attribute("district", key, tree, districts, level=home, follows="tract"),
            Attribute("tract", key, tree, up, level=home),
            Attribute("area", key, plain, level=home, follows="tract", label="kind of area"),
            Attribute("stratum", Role.STRATUM, plain, level=home),
            Attribute("size", key, level=home, unit="persons", integer=True, bounds=(1, None)),
            Attribute("rooms", Role.OTHER, level=home, unit="rooms", integer=True, bounds=(1, None)),
            Attribute("tenure", Role.OTHER, plain, level=home),
            Attribute("rent", Role.CONFIDENTIAL, level=home, unit="crowns a month", integer=True, bounds=(0, None), **gap),
            Attribute("relationship", key, plain, label="relationship to the head of the household"),
            Attribute("sex", key, plain),
            Attribute("age", key, hierarchy=ages, unit="years", integer=True, bounds=(0, 110)),
            Attribute("marital", key, plain, label="marital status"),
            Attribute("education", key, label="highest degree", values=EDUCATION),
            Attribute("employment", key, plain),
            Attribute("occupation", key, tree, work, label="occupation of those who work"),
            Attribute("salary", bounds=(0, None), **money, **gap),
            Attribute("business", label="income from a business; a loss is negative", **money, **gap),
            Attribute("interest", bounds=(0, None), **money, **gap),
            Attribute("benefits", bounds=(0, None), label="pensions and benefits", **money),
            Attribute("weight", Role.WEIGHT, label="households in the stratum for each one drawn"),
        )
    )  # fmt: skip


HEAD, SPOUSE, PARTNER, CHILD, PARENT, OTHER = range(6)
SINGLE, COUPLE, FAMILY, LONE_PARENT, THREE_GENERATIONS, SHARED = range(6)
_TYPES = [0.31, 0.27, 0.25, 0.08, 0.03, 0.06]
_HEAD_AGE = np.array([[19, 96], [20, 92], [22, 58], [20, 58], [34, 68], [18, 50]])
"""Youngest and oldest head of each type of household."""
_CHILD, _EMPLOYED, _SELF, _UNEMPLOYED, _STUDENT, _RETIRED, _AT_HOME = range(7)


@dataclass(frozen=True, eq=False)
class Census:
    """A sample, as a custodian would hold it, and the population that it was drawn from."""

    sample: Microdata
    """Some households with all their members, survey weights, and answers that are missing."""
    population: Microdata
    """Everybody, with true answers and without weights."""


def census(households: int = 20_000, fraction: float = 0.05, seed: int = 1990) -> Census:
    """Return a generated census of the given number of households, and a stratified sample of about `fraction` of them.

    Persons live in households (singles, couples, families, lone parents, three generations, shared flats) with ages that fit
    each other; households live in tracts of very different size, inside districts and regions. Education depends on the year
    of birth and runs in households; work on age and education; salaries on all of these, with a Pareto tail; interest grows
    with age; a business may make a loss. Rent, rooms and tenure describe the household.

    The sample takes whole households at random within strata (region and kind of area), more densely where strata are small:
    n_h is proportional to √N_h. The weight is N_h / n_h, the reciprocal of the probability of being drawn. Some answers are
    missing in the sample: null for age and education, a declared code for money. Owners have no rent, and who does not work
    has no occupation, in the population too.

    Examples
    --------
    >>> data = census(households=1_000)
    >>> len(data.sample) < len(data.population)
    True
    >>> data.sample.schema.one("household")
    'household'
    """
    if households < 1 or not 0 < fraction <= 1:
        raise ParameterError("a census needs at least one household, and a sampling fraction above 0 and at most 1.")
    g = Draws(seed).generator("census")
    home = _homes(g, households)
    person = _persons(g, home)
    home |= _dwellings(g, person, home)
    everybody = _columns(person, home)
    stratum = home["stratum"]
    drawn, weight = _drawn(g, stratum, fraction)
    inside = np.flatnonzero(drawn[person["home"]])
    sampled = {name: column.take(inside) for name, column in everybody.items()}
    sampled |= _with_gaps(g, {n: v[inside] for n, v in person.items()}, home)
    sampled["weight"] = Column.from_numbers(weight[stratum][person["home"]][inside])
    schema = census_schema()
    return Census(
        Microdata(LocalEngine(Rows(np.arange(len(inside), dtype=np.int64), sampled)), schema),
        Microdata(
            LocalEngine(Rows(np.arange(len(person["home"]), dtype=np.int64), everybody)),
            schema.keep(lambda a: a.role is not Role.WEIGHT),
        ),
    )


def _homes(g: np.random.Generator, count: int) -> dict[str, Whole]:
    """Return what describes each household: where it is, of which type, its head's age, its number."""
    places = tracts()
    size = g.lognormal(0, 0.9, len(places)) * np.array([1.6 if p.urban else 0.6 for p in places])
    tract = np.sort(g.choice(len(places), count, p=size / size.sum()))
    kind = g.choice(6, count, p=_TYPES)
    low, high = _HEAD_AGE[kind].T
    age = low + ((high - low + 1) * g.beta(1.7, 2.2, count)).astype(np.int64)
    region, urban = (
        np.array([getattr(p, fact) for p in places])[tract].astype(np.int64) for fact in ("region", "urban")
    )
    owner = g.random(count) < np.clip(0.2 + 0.013 * (age - 20) + 0.2 * (kind == FAMILY) - 0.15 * urban, 0.02, 0.9)
    return {
        "number": g.permutation(count) + 1, "tract": tract, "kind": kind, "age": age, "tenure": 1 - owner,
        "stratum": 2 * region + urban,
    }  # fmt: skip


def _persons(g: np.random.Generator, home: dict[str, Whole]) -> dict[str, Whole]:
    """Return the members of all households, household by household, the head first."""
    kind, age = home["kind"], home["age"]
    count = len(kind)
    paired = np.isin(kind, (COUPLE, FAMILY, THREE_GENERATIONS))
    married = paired & (g.random(count) < np.clip(0.35 + 0.015 * (age - 20), 0.35, 0.93))
    sex = (g.random(count) < np.where(kind == LONE_PARENT, 0.18, 0.52)).astype(np.int64)  # 1 is male
    other_age = np.clip(np.round(age + g.normal(-1.5, 4, count)), 18, 99).astype(np.int64)
    youngest = np.where(paired, np.minimum(age, other_age), age)
    children = np.where(
        np.isin(kind, (FAMILY, LONE_PARENT, THREE_GENERATIONS)), 1 + g.choice(4, count, p=[0.42, 0.4, 0.13, 0.05]), 0
    )
    lodgers = np.where(kind == SHARED, 1 + g.choice(3, count, p=[0.55, 0.3, 0.15]), 0)

    def members(homes: Whole, role: Whole | int, ages: Whole, sexes: Whole) -> dict[str, Whole]:
        return {"home": homes, "role": np.broadcast_to(role, homes.shape).astype(np.int64), "age": ages, "sex": sexes}

    everyone = np.arange(count)
    pair, old = np.flatnonzero(paired), np.flatnonzero(kind == THREE_GENERATIONS)
    parent, flat = np.repeat(everyone, children), np.repeat(everyone, lodgers)
    same = g.random(len(pair)) < 0.02
    # nobody has a child before 17 or after 45
    oldest_child = np.minimum(youngest[parent] - 17, 27)
    youngest_child = np.minimum(np.maximum(youngest[parent] - 45, 0), oldest_child)
    child_age = youngest_child + (g.random(len(parent)) * (oldest_child - youngest_child + 1)).astype(np.int64)
    parts = [
        members(everyone, HEAD, age, sex),
        members(pair, np.where(married[pair], SPOUSE, PARTNER), other_age[pair], np.where(same, sex[pair], 1 - sex[pair])),
        members(parent, CHILD, child_age, g.integers(0, 2, len(parent))),
        members(old, PARENT, age[old] + g.integers(18, 31, len(old)), (g.random(len(old)) < 0.3).astype(np.int64)),
        members(flat, OTHER, g.integers(18, 55, len(flat)), g.integers(0, 2, len(flat))),
    ]  # fmt: skip
    person = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort([-person["age"], person["role"], person["home"]])
    person = {name: values[order] for name, values in person.items()}
    person["marital"] = _marital(g, person, married)
    return person | _work_and_money(g, person, count)


def _marital(g: np.random.Generator, person: dict[str, Whole], married: Flags) -> Whole:
    """Return never married, married, divorced or widowed."""
    age, role, u = person["age"], person["role"], g.random(len(person["age"]))
    is_married = married[person["home"]] & np.isin(role, (HEAD, SPOUSE))
    divorced = np.clip(0.012 * (age - 25), 0, 0.4)
    widowed = np.where(role == PARENT, 0.6, np.clip(0.02 * (age - 58), 0, 0.65))
    alone = np.select([(age < 22) | (role == CHILD), u < divorced, u < divorced + widowed], [0, 2, 3], 0)
    return np.where(is_married, 1, alone)


def _work_and_money(g: np.random.Generator, person: dict[str, Whole], count: int) -> dict[str, Whole]:
    """Return education, employment, occupation and income by kind, each on the ones before."""
    age, n = person["age"], len(person["age"])
    drive = 0.5 * g.standard_normal(count)[person["home"]] + np.sqrt(0.75) * g.standard_normal(n)
    level = 1 + np.searchsorted([-0.9, 0.0, 0.55, 1.25], drive - 0.015 * np.maximum(age - 40, 0))
    education = np.minimum(level, np.searchsorted([16, 19, 21, 23, 25], age, side="right"))
    years = np.array(list(EDUCATION.values()))[education]
    u, v = g.random(n), g.random(n)
    works = np.where(v < 0.11, _SELF, _EMPLOYED)
    studies = np.select([age < 19, age < 25, age < 30], [0.9, 0.45, 0.08], 0.0)
    retires = np.select([age >= 67, age >= 60], [0.93, 0.35], 0.0)
    busy = 0.66 + 0.011 * years
    employment = np.select(
        [age < 16, u < studies, u < retires, v < busy, v < busy + 0.06],
        [_CHILD, _STUDENT, _RETIRED, works, _UNEMPLOYED], _AT_HOME,
    )  # fmt: skip
    working = np.isin(employment, (_EMPLOYED, _SELF))
    skill = 7 - np.searchsorted([2.6, 3.2, 3.7, 4.2, 4.8, 5.4, 6.2], years / 3 + g.normal(0, 0.8, n))
    within = np.floor(3 * g.beta(1, 3, n)).astype(np.int64)  # three occupations in each group, the first most common
    occupation = np.where(working, 3 * skill + within, -1)
    pay = np.array([0.45, 0.33, 0.16, 0.0, -0.02, -0.05, -0.18, -0.32])[skill]
    experience = np.clip(age - 6 - years, 0, 45)
    log_pay = 9.75 + 0.055 * years + 0.035 * experience - 0.0005 * experience**2 + pay + 0.12 * person["sex"]
    tail = np.where(g.random(n) < 0.01, (1 - g.random(n)) ** (-1 / 2.2), 1.0)  # Pareto, finite variance
    salary = np.exp(log_pay + 0.38 * g.standard_normal(n)) * tail
    profit = np.exp(log_pay - 0.2 + 0.9 * g.standard_normal(n)) * np.where(g.random(n) < 0.07, -0.35, 1.0)
    saves = (age >= 18) & (g.random(n) < 0.25 + 0.006 * age)
    interest = np.exp(3.2 + 0.045 * age + 0.25 * drive + 1.5 * g.standard_normal(n))
    benefit = np.exp(np.select([employment == _RETIRED, employment == _UNEMPLOYED], [9.6, 9.2], 8.4) + 0.3 * drive)
    receives = np.isin(employment, (_RETIRED, _UNEMPLOYED)) | ((age >= 18) & ~working & (g.random(n) < 0.4))
    money = {
        "salary": np.where(employment == _EMPLOYED, salary, 0), "business": np.where(employment == _SELF, profit, 0),
        "interest": np.where(saves, interest, 0), "benefits": np.where(receives, benefit, 0),
    }  # fmt: skip
    rounded = {name: np.round(values).astype(np.int64) for name, values in money.items()}
    return {
        "education": education,
        "employment": employment,
        "occupation": occupation,
        **rounded,
        "number": g.permutation(n),
    }


def _dwellings(g: np.random.Generator, person: dict[str, Whole], home: dict[str, Whole]) -> dict[str, Whole]:
    """Return size, rooms and monthly rent of each household."""
    count = len(home["kind"])
    size = np.bincount(person["home"], minlength=count)
    income = person["salary"] + np.maximum(person["business"], 0) + person["benefits"]
    rooms = np.clip(1 + size // 2 + g.integers(0, 3, count) + (home["tenure"] == 0), 1, 9)
    level = 5.75 + 0.11 * rooms + 0.25 * (home["stratum"] % 2) + 0.17 * g.standard_normal(count)
    rent = np.exp(level) + 0.006 * np.bincount(person["home"], income, count)
    return {"size": size, "rooms": rooms, "rent": 5 * np.round(rent / 5).astype(np.int64)}


def _columns(person: dict[str, Whole], home: dict[str, Whole]) -> dict[str, Column]:
    """Return the columns of the population, in the order of the schema."""
    at = person["home"]
    places = tracts()
    tract = home["tract"][at]

    def text(codes: Whole, values: list[str]) -> Column:
        return Column.from_codes(codes, values)

    def number(values: Whole, null: Flags | None = None) -> Column:
        return Column.from_numbers(values, null, integer=True)

    return {
        "person": Column.from_values([f"P{k:07d}" for k in person["number"].tolist()]),
        "household": number(home["number"][at]),
        "region": text(tract, [p.region_code for p in places]),
        "region_name": text(tract, [REGIONS[p.region] for p in places]),
        "district": text(tract, [p.district for p in places]),
        "tract": text(tract, [p.code for p in places]),
        "area": text(home["stratum"][at] % 2, list(AREAS)),
        "stratum": text(home["stratum"][at], [f"{r}-{a}" for r in range(1, len(REGIONS) + 1) for a in AREAS]),
        "size": number(home["size"][at]),
        "rooms": number(home["rooms"][at]),
        "tenure": text(home["tenure"][at], list(TENURES)),
        "rent": number(home["rent"][at], home["tenure"][at] == 0),
        "relationship": text(person["role"], list(RELATIONSHIPS)),
        "sex": text(person["sex"], ["female", "male"]),
        "age": number(person["age"]),
        "marital": text(person["marital"], list(MARITAL)),
        "education": text(person["education"], list(EDUCATION)),
        "employment": text(person["employment"], list(EMPLOYMENT)),
        "occupation": text(person["occupation"], list(OCCUPATIONS)),
        **{name: number(person[name]) for name in ("salary", "business", "interest", "benefits")},
    }


def _drawn(g: np.random.Generator, stratum: Whole, fraction: float) -> tuple[Flags, Numbers]:
    """Return which households are drawn, and the weight in each stratum: households there for each one drawn."""
    sizes = np.bincount(stratum, minlength=2 * len(REGIONS))
    share = np.sqrt(sizes) / np.sqrt(sizes).sum()
    wanted = np.round(fraction * len(stratum) * share).astype(np.int64)
    take = np.clip(wanted, np.minimum(sizes, 2), sizes) if fraction < 1 else sizes
    order = np.lexsort([g.random(len(stratum)), stratum])
    place = np.arange(len(stratum)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    drawn = np.zeros(len(stratum), bool)
    drawn[order] = place < np.repeat(take, sizes)
    return drawn, sizes / np.maximum(take, 1)


def _with_gaps(g: np.random.Generator, person: dict[str, Whole], home: dict[str, Whole]) -> dict[str, Column]:
    """Return the columns of the sample in which some answers are missing."""
    at, n = person["home"], len(person["home"])
    silent = g.random(len(home["rent"])) < 0.04
    columns = {
        "rent": Column.from_numbers(
            np.where(silent, NO_ANSWER, home["rent"])[at], home["tenure"][at] == 0, integer=True
        ),
        "age": Column.from_numbers(person["age"], g.random(n) < 0.004, integer=True),
        "education": Column.from_codes(np.where(g.random(n) < 0.015, -1, person["education"]), list(EDUCATION)),
    }
    for name, rate in (("salary", 0.03), ("business", 0.02), ("interest", 0.05)):
        refuses = (person["age"] >= 16) & (g.random(n) < rate)
        columns[name] = Column.from_numbers(np.where(refuses, NO_ANSWER, person[name]), integer=True)
    return columns


COLUMNS = ("region", "area", "size", "sex", "age", "marital", "education", "occupation", "salary", "interest")
_EARNERS = 0.85
"""Complete earners per household, at least: about 0.9."""


def earners(n: int = 30_000, seed: int = 1990) -> Microdata:
    """Return n persons of `census` who earn a salary and gave every answer, without households and weights.

    Keys: region, kind of area, household size, sex, age, marital status, education and occupation (with its groups as a
    hierarchy). Confidential: salary and interest.

    Examples
    --------
    >>> data = earners(500)
    >>> len(data), data.schema.names(role="confidential")
    (500, ('salary', 'interest'))
    """
    if n < 1:
        raise ParameterError("a file needs at least one record.")
    data = census(int(n / _EARNERS) + 400, 1.0, seed).sample.local(COLUMNS)
    batch = data.batch()
    known = ~np.any([batch.missing(name) for name in COLUMNS], axis=0)
    rows = np.flatnonzero(known & (batch.numbers("salary") > 0))
    return data.take(rows[:n])
