"""Medical billing records, generated: the data of the global-risk paper's section 4."""

from __future__ import annotations

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.data import Column, LocalEngine, Microdata, Rows
from sfumato.errors import ParameterError
from sfumato.schema import Attribute, IntervalHierarchy, PrefixHierarchy, Role, Scale, Schema
from sfumato.typing import Numbers

BILLING_SIZES = (1_000, 5_000, 25_000)
"""Sizes of the paper's three files."""

_AREAS = (("48", 0.62), ("49", 0.27), ("43", 0.07), ("46", 0.04))
"""First two digits of zip codes, and the share of the patients that live there."""
_TOWNS, _CODES = 10, 24
"""Third digits in each area, and codes in each town."""
_FIRST = (
    "Ada", "Amir", "Ana", "Ben", "Carla", "Chen", "Dora", "Emil", "Fatima", "George", "Hana", "Ivan", "Jane", "Karim", "Lena",
    "Marco", "Nadia", "Omar", "Petra", "Ravi", "Sara", "Tomas", "Uma", "Viktor", "Wei", "Yara", "Zoe",
)  # fmt: skip
_LAST = (
    "Adams", "Baker", "Cohen", "Diaz", "Evans", "Fischer", "Garcia", "Hughes", "Ito", "Jensen", "Khan", "Lopez", "Miller",
    "Nguyen", "Ortiz", "Patel", "Quinn", "Rossi", "Smith", "Tanaka", "Usman", "Vega", "Weber", "Xu", "Young", "Zhang",
)  # fmt: skip


def billing(n: int = 5_000, seed: int = 2004) -> Microdata:
    """Return n medical bills: name and social security number, age, sex, zip code, and the amount billed.

    The paper's simulated files are not available: these have the same columns, scales and sizes (`BILLING_SIZES`). Ages are
    whole years from 0 to 100, of all generations, more of the old, and more women among them. Zip codes lie in four areas of ten
    towns; a few codes have many patients and many have few: their number falls as a power of the code's rank. The amount rises
    with age and has a long tail.

    The keys are age (ordered), sex (unordered) and zip (partially ordered: every prefix is a level). The records of a smaller
    file are not the first of a larger one.

    Examples
    --------
    >>> billing(1_000).schema.names(role="key")
    ('age', 'sex', 'zip')
    """
    if n < 1:
        raise ParameterError("a file of bills needs at least one record.")
    g = Draws(seed).generator(f"billing-{n}")
    age = _ages(g, n)
    female = g.random(n) < 0.49 + 0.0016 * np.maximum(age - 20, 0)
    names = [
        f"{_FIRST[a]} {_LAST[b]}"
        for a, b in zip(g.integers(0, len(_FIRST), n), g.integers(0, len(_LAST), n), strict=True)
    ]
    numbers = g.choice(899_999_999, n, replace=False) + 1_000_000
    amount = np.exp(5.1 + 0.011 * age + 1.05 * g.standard_normal(n))
    columns = {
        "name": Column.from_values(names),
        "ssn": Column.from_values(
            [f"{k // 1_000_000:03d}-{k // 10_000 % 100:02d}-{k % 10_000:04d}" for k in numbers.tolist()]
        ),
        "age": Column.from_numbers(age, integer=True),
        "sex": Column.from_codes((~female).astype(np.int32), ["female", "male"]),
        "zip": _zips(g, n),
        "amount_billed": Column.from_numbers(np.round(amount, 2)),
    }
    return Microdata(LocalEngine(Rows(np.arange(n, dtype=np.int64), columns)), billing_schema())


def _ages(g: np.random.Generator, n: int) -> Numbers:
    """Return whole years: children, adults and the old, who see doctors most."""
    which = g.choice(3, n, p=[0.17, 0.53, 0.30])
    centre, spread = np.array([6.0, 42.0, 71.0])[which], np.array([5.0, 14.0, 11.0])[which]
    return np.clip(np.round(np.abs(centre + spread * g.standard_normal(n))), 0, 100)


def _zips(g: np.random.Generator, n: int) -> Column:
    """Return zip codes: within an area the number of patients of a code falls with its rank."""
    codes, chances = [], []
    for area, share in _AREAS:
        size = _TOWNS * _CODES
        falling = 1.0 / np.arange(3, size + 3) ** 1.1
        order = g.permutation(size)
        codes += [f"{area}{k // _CODES}{1 + 4 * (k % _CODES):02d}" for k in order.tolist()]
        chances.append(share * falling / falling.sum())
    sorted_codes = sorted(codes)
    place = np.array([sorted_codes.index(code) for code in codes], np.int32)
    drawn = g.choice(len(codes), n, p=np.concatenate(chances) / np.concatenate(chances).sum())
    return Column.from_codes(place[drawn], sorted_codes)


def billing_schema() -> Schema:
    """Return what the columns of the bills mean."""
    return Schema(
        (
            Attribute("name", Role.IDENTIFIER, Scale.UNORDERED, label="name of the patient"),
            Attribute("ssn", Role.IDENTIFIER, Scale.UNORDERED, label="social security number"),
            Attribute(
                "age", Role.KEY, hierarchy=IntervalHierarchy.from_widths([5, 10, 20], bottom=0, top=100), unit="years",
                bounds=(0, 100), integer=True,
            ),
            Attribute("sex", Role.KEY, Scale.UNORDERED),
            Attribute("zip", Role.KEY, Scale.PARTIALLY_ORDERED, hierarchy=PrefixHierarchy(5), label="zip code"),
            Attribute("amount_billed", Role.CONFIDENTIAL, unit="dollars", bounds=(0, None), label="amount billed"),
        )
    )  # fmt: skip
