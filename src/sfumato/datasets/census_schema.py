"""What the columns of the census mean: geography, occupations, and the schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sfumato.schema import Attribute, Level, Role, Scale, Schema
from sfumato.schema.hierarchy import IntervalHierarchy, TreeHierarchy

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
