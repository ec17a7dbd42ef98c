"""Five people: small enough to see what a method does."""

from __future__ import annotations

from sfumato.engines import Column, LocalEngine, Rows
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Level, Role, Scale, Schema
from sfumato.schema.hierarchy import IntervalHierarchy, PrefixHierarchy

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
