"""Business microdata: enterprises in holdings, by region and sector, as a structural business survey collects them."""

from __future__ import annotations

import numpy as np

from sfumato.contract.draws import Draws
from sfumato.data import Column, LocalEngine, Microdata, Rows
from sfumato.errors import ParameterError
from sfumato.schema import Attribute, Role, Scale, Schema, TreeHierarchy
from sfumato.typing import Numbers, Whole

REGION_GROUPS = ("North", "East", "South", "West")
SECTOR_GROUPS = ("Manufacturing", "Construction", "Trade", "Services")
KINDS = ("company", "partnership", "sole owner")
SIZE_CLASSES = ("micro", "small", "medium", "large")
_BOUNDS = (10, 50, 250)
"""Employees from which an enterprise is small, medium and large."""
_DRAWN = np.array([0.125, 0.4, 1.0, 1.0])
"""The probability to be in the survey, by size class: medium and large enterprises are all in it."""
_OUTPUT = np.array([4.6, 4.3, 5.4, 4.1])
"""Logarithm of the turnover per employee, in thousand euros, by group of sectors."""


def business(
    n: int = 8_000, *, regions: int = 12, sectors: int = 10, hierarchies: bool = True, seed: int = 2006
) -> Microdata:
    """Return n enterprises of a business survey: who owns them, where they are, what they do, how large they are.

    Regions stand in four groups and so do sectors; both come as columns of their own (`region_group`, `sector_group`) and,
    unless `hierarchies` is false, as hierarchies of `region` and `sector` in the schema. Regions differ much in size and each
    has sectors that are rare in it, so that some cells have one or two contributors. About one enterprise in six belongs to a
    `holding` that owns several, often in more than one region and sector; the others are holdings of their own. `employees` is a
    size that anybody can look up. Turnover follows it, log-normally, with a Pareto tail: a few enterprises dominate their cells.

    The survey takes all medium and large enterprises (weight 1) and a sample of the small ones, by stratum (size class and group
    of regions); the weight is the number of enterprises in the stratum for each one drawn. A holding may have signed a `waiver`
    (its figures may be found out), or have made a `request` to be protected (1 or 2, for the request rule; 0 for none).

    Parameters
    ----------
    n
        How many enterprises are in the file.
    regions, sectors
        How many of them there are.
    hierarchies
        Whether regions and sectors have a hierarchy in the schema, so that a table of regions has cells for their groups. Set
        it to False to name the groups in the formula instead: ``region * sector + region_group * sector``.
    seed
        Another seed gives another file. The records of a smaller file are not the first of a larger one.

    Examples
    --------
    >>> data = business(500)
    >>> len(data), data.schema.one("contributor"), data.schema.one("weight")
    (500, 'holding', 'weight')
    """
    if n < 1 or regions < 1 or sectors < 1:
        raise ParameterError("a business survey needs at least one enterprise, one region and one sector.")
    g = Draws(seed).generator(f"business-{n}-{regions}-{sectors}")
    region, sector = _places(g, n, regions, sectors)
    employees = _employees(g, n)
    holding, region = _holdings(g, employees, region)
    of_region, of_sector = _groups(regions, REGION_GROUPS), _groups(sectors, SECTOR_GROUPS)
    turnover = _turnover(g, employees, of_sector[sector])
    size = np.searchsorted(_BOUNDS, employees, side="right")
    stratum = len(SIZE_CLASSES) * of_region[region] + size
    kind = np.where(employees >= _BOUNDS[1], 0, np.where(employees < 5, 2 - (g.random(n) < 0.3), g.integers(0, 3, n)))
    waiver, request = g.random(n) < 0.02, g.choice(3, n, p=[0.985, 0.01, 0.005])
    region_codes, sector_codes = _codes(regions, REGION_GROUPS), _codes(sectors, SECTOR_GROUPS)
    yes_no = ["no", "yes"]
    columns = {
        "enterprise": Column.from_values([f"E{k:07d}" for k in (g.permutation(n) + 1).tolist()]),
        "holding": Column.from_values([f"H{k:07d}" for k in (g.permutation(n) + 1)[holding].tolist()]),
        "region": Column.from_codes(region, region_codes),
        "region_group": Column.from_codes(of_region[region], list(REGION_GROUPS)),
        "sector": Column.from_codes(sector, sector_codes),
        "sector_group": Column.from_codes(of_sector[sector], list(SECTOR_GROUPS)),
        "kind": Column.from_codes(kind.astype(np.int64), list(KINDS)),
        "employees": Column.from_numbers(employees, integer=True),
        "turnover": Column.from_numbers(turnover, integer=True),
        "waiver": Column.from_codes(waiver[holding].astype(np.int64), yes_no),
        "request": Column.from_numbers(np.where(waiver, 0, request)[holding], integer=True),
        "stratum": Column.from_codes(stratum, [f"{r}-{s}" for r in REGION_GROUPS for s in SIZE_CLASSES]),
        "weight": Column.from_numbers(_weights(g, stratum, size)),
    }
    schema = business_schema(regions, sectors, hierarchies)
    return Microdata(LocalEngine(Rows(np.arange(n, dtype=np.int64), columns)), schema)


def _groups(count: int, groups: tuple[str, ...]) -> Whole:
    """Return the group of each region or sector: as many in each as possible, the first ones first."""
    return np.arange(count, dtype=np.int64) * len(groups) // max(count, len(groups))


def _codes(count: int, groups: tuple[str, ...]) -> list[str]:
    """Return names such as N1, N2, E1: the group's letter and a number within it.

    >>> _codes(6, REGION_GROUPS)
    ['N1', 'N2', 'E1', 'S1', 'S2', 'W1']
    """
    of = _groups(count, groups)
    width = len(str(int(np.bincount(of).max())))
    return [f"{groups[k][0]}{int((of[:i] == k).sum()) + 1:0{width}d}" for i, k in enumerate(of.tolist())]


def _places(g: np.random.Generator, n: int, regions: int, sectors: int) -> tuple[Whole, Whole]:
    """Return region and sector of each enterprise: large and small regions, each with its own mix of sectors."""
    share = 1 / np.arange(1, regions + 1) ** 0.9
    region = g.choice(regions, n, p=g.permutation(share / share.sum()))
    mix = g.gamma(0.7, 1.0, (regions, sectors)) + 1e-4
    upto = np.cumsum(mix / mix.sum(axis=1, keepdims=True), axis=1)
    sector = (g.random(n)[:, None] > upto[region][:, :-1]).sum(axis=1)
    return region.astype(np.int64), sector.astype(np.int64)


def _employees(g: np.random.Generator, n: int) -> Whole:
    tail = np.where(g.random(n) < 0.05, (1 - g.random(n)) ** (-1 / 0.9), 1.0)
    size = np.ceil(np.exp(2.0 + 1.3 * g.standard_normal(n)) * tail)
    return np.asarray(np.minimum(size, 200_000), np.int64)


def _holdings(g: np.random.Generator, employees: Whole, region: Whole) -> tuple[Whole, Whole]:
    """Return who owns each enterprise, and regions again: half of a holding's enterprises move to that of its first."""
    n = len(employees)
    owner = np.arange(n, dtype=np.int64)
    inside = g.permutation(np.flatnonzero(g.random(n) < 0.12 + 0.02 * np.log(employees)))
    sizes = np.minimum(2 + g.geometric(0.45, n) - 1, 12)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)[: len(inside)]
    owner[inside] = inside[first]
    near = np.isin(owner, owner[inside]) & (g.random(n) < 0.5)
    return owner, np.where(near, region[owner], region)


def _turnover(g: np.random.Generator, employees: Whole, group: Whole) -> Whole:
    """Return the turnover in thousand euros: in proportion to size nearly, log-normal, with a Pareto tail."""
    n = len(employees)
    tail = np.where(g.random(n) < 0.01, (1 - g.random(n)) ** (-1 / 1.3), 1.0)
    log_turnover = _OUTPUT[group] + 1.05 * np.log(employees) + 0.7 * g.standard_normal(n)
    return np.round(np.exp(log_turnover) * tail).astype(np.int64)


def _weights(g: np.random.Generator, stratum: Whole, size: Whole) -> Numbers:
    """Return enterprises in the stratum for each one drawn: N / n, N being what the sampling fraction makes likely."""
    drawn = np.bincount(stratum)
    fraction = np.ones(len(drawn))
    fraction[stratum] = _DRAWN[size]
    missed = g.negative_binomial(np.maximum(drawn, 1), fraction)  # how many were not drawn before the n-th was
    return np.asarray(((drawn + missed) / np.maximum(drawn, 1))[stratum], np.float64)


def business_schema(regions: int = 12, sectors: int = 10, hierarchies: bool = True) -> Schema:
    """Return what the columns of the business survey mean."""
    trees = {}
    for name, count, groups in (("region", regions, REGION_GROUPS), ("sector", sectors, SECTOR_GROUPS)):
        of = _groups(count, groups).tolist()
        rows = {code: [groups[k]] for code, k in zip(_codes(count, groups), of, strict=True)}
        trees[name] = TreeHierarchy([(value, *above, "*") for value, above in rows.items()])
    plain, tree = Scale.UNORDERED, Scale.PARTIALLY_ORDERED if hierarchies else Scale.UNORDERED
    region, sector = (trees["region"], trees["sector"]) if hierarchies else (None, None)
    return Schema(
        (
            Attribute("enterprise", Role.IDENTIFIER, plain, label="number of the enterprise"),
            Attribute("holding", Role.CONTRIBUTOR, plain, label="who owns it: a holding, or itself"),
            Attribute("region", Role.KEY, tree, region),
            Attribute("region_group", Role.KEY, plain, follows="region", label="group of regions"),
            Attribute("sector", Role.KEY, tree, sector),
            Attribute("sector_group", Role.KEY, plain, follows="sector", label="group of sectors"),
            Attribute("kind", Role.KEY, plain, label="legal form"),
            Attribute("employees", Role.KEY, integer=True, bounds=(1, None), unit="persons"),
            Attribute("turnover", Role.CONFIDENTIAL, integer=True, bounds=(0, None), unit="thousand euros"),
            Attribute("waiver", Role.OTHER, plain, label="the holding allows its figures to be found out"),
            Attribute("request", Role.OTHER, integer=True, bounds=(0, 2), label="the holding's request to be protected"),
            Attribute("stratum", Role.STRATUM, plain, label="group of regions and size class"),
            Attribute("weight", Role.WEIGHT, bounds=(1, None), label="enterprises in the stratum for each one drawn"),
        )
    )  # fmt: skip
