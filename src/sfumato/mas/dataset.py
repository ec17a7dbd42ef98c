"""A frozen data set: the metadata of its variables, and the location of its prepared records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.data.exact_sums import combined, exact_sum, exact_sums, scale_of
from sfumato.data.warehouse import Warehouse, open_warehouse
from sfumato.errors import DataError
from sfumato.files import write_text
from sfumato.mas.codebook import Codebook, Weight
from sfumato.mas.cube import UNITS, Cubes, UnitCounts, largest_establishment, read_cube, write_cube
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.register import Register
from sfumato.mas.variable import Variable, need_variable
from sfumato.toml import dump, parse
from sfumato.typing import Numbers

# --- the design of the survey
# Households drawn with replacement within strata: what sums over its records vary by.


class SurveyDesign:
    """Strata and households, as far as the records have them: without strata there is one, without households each record is one.

    Facts about them are found once, by aggregates, and kept. Confidential.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.columns = tuple(c for c in ("s", "h") if c in warehouse.columns)
        """The columns that say which stratum and household a record is of."""
        self._strata = [c for c in self.columns if c == "s"]

    @cached_property
    def _sizes(self) -> tuple[NDArray[np.generic], Numbers, float]:
        """The strata in order, how many households each has, and the records of the largest household."""
        by = f" GROUP BY {', '.join(self.columns)}"
        source = f"SELECT {', '.join(self.columns)}, count(*) AS n FROM records{by}"  # noqa: S608 - our own names
        if "h" not in self.columns:
            source = f"SELECT {', '.join([*self._strata, '1 AS n'])} FROM records"  # noqa: S608 - our own names
        listed = ", ".join([*self._strata, "count(*) AS m", "max(n) AS n"])
        by = " GROUP BY s" if self._strata else ""
        found = self._warehouse.ask(f"SELECT {listed} FROM ({source}) AS households{by}")  # noqa: S608 - our own names
        strata = found["s"] if self._strata else np.zeros(1)
        order = np.argsort(strata)
        return strata[order], found["m"][order].astype(np.float64), float(found["n"].max())

    @property
    def largest(self) -> float:
        """How many records the largest household has."""
        return self._sizes[2]

    def covariances(
        self,
        source: str,
        influence: Numbers,
        meat: Numbers,
        pairs: Sequence[tuple[int, int]] | None = None,
        shape: Sequence[int] = (),
    ) -> Numbers:
        """Return covariances of sums over records; shape (cells, pairs), with one cell where there is no table.

        `source` is SQL for some records: their cells c0, c1, ... in a table of some shape, their `columns`, and scores g0, g1,
        ...; `influence` (sums, scores) takes these to what a record adds to each sum; of `meat`, the products of scores over
        all records or more than that, bounds are made. `pairs` of sums are multiplied; each with itself, if none are named.

        A stratum of m households with totals t and u adds m / (m − 1) Σ (t − mean)(u − mean). Households of which no record is in
        the source count with totals of 0: what is asked for is a domain of the survey, and who is in it was drawn, too. A
        stratum with one household is taken about 0. Totals are made where the records live, in whole numbers, so that no order
        of adding matters.
        """
        few = 3 if shape else 2  # parts of exact sums: in a small cell they are tiny beside the bounds
        by = [*(f"c{i}" for i in range(len(shape))), *self._strata]
        if "h" in self.columns:
            scales = (scale_of(float(np.sqrt(m))) for m in np.diag(meat))
            totals = [f"{exact_sum(f'g{j}', scale, few)} AS g{j}" for j, scale in enumerate(scales)]
            source = f"SELECT {', '.join([*by, *totals])} FROM ({source}) AS one GROUP BY {', '.join([*by, 'h'])}"  # noqa: S608
        added = [
            " + ".join(f"g{j} * ({float(a):.17e})" for j, a in enumerate(row) if a) or "0.0E0" for row in influence
        ]
        listed = [*by, *(f"{text} AS v{i}" for i, text in enumerate(added))]
        size = self.largest * np.sqrt(np.einsum("ij,jk,ik->i", influence, meat, influence))
        pairs = [(i, i) for i in range(len(influence))] if pairs is None else pairs
        asked = {f"a{i}": (f"v{i}", scale_of(float(size[i])), few) for i in range(len(influence))}
        asked |= {f"b{i}_{j}": (f"v{i} * v{j}", scale_of(float(size[i] * size[j])), few + 1) for i, j in pairs}
        sums = [part for name, one in asked.items() for part in exact_sums(name, *one)]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        rows = self._warehouse.ask(
            f"SELECT {', '.join([*by, *sums])} FROM (SELECT {', '.join(listed)} FROM ({source}) AS c) AS v{group}"  # noqa: S608
        )
        found = {
            name: combined(np.array([rows[f"{name}_{part}"] for part in range(parts)]), scale, parts)
            for name, (_, scale, parts) in asked.items()
        }
        m = self._households(rows, len(found["a0"]))
        at = np.ravel_multi_index([rows[f"c{i}"] for i in range(len(shape))], shape) if shape else np.zeros(len(m), int)
        out = np.empty((int(np.prod(shape, dtype=int)), len(pairs)))
        for place, (i, j) in enumerate(pairs):
            product, means = found[f"b{i}_{j}"], found[f"a{i}"] * found[f"a{j}"] / m
            about = np.where(m > 1, m / np.maximum(m - 1, 1) * (product - means), product)
            order = np.lexsort((about, at))  # added in one order, whatever the engine's
            out[:, place] = np.bincount(at[order], about[order], minlength=len(out))
        return out

    def _households(self, rows: Mapping[str, NDArray[Any]], number: int) -> Numbers:
        """Return how many households the stratum of each row has."""
        strata, sizes, _ = self._sizes
        return sizes[np.searchsorted(strata, rows["s"])] if self._strata else np.full(number, sizes[0])


# --- the data set


@dataclass(frozen=True, eq=False)
class Dataset:
    """A frozen version of a data set. Immutable; only aggregates of its records are ever requested."""

    name: str
    version: int
    title: str
    variables: Mapping[str, Variable]
    weight: Weight | None
    """Statistics of the survey weights, if records have them."""
    units: tuple[str, ...]
    """Columns of the prepared records that identify units: "h" for households, "e" for establishments."""
    warehouse: Warehouse
    cubes: Cubes
    secret: Secret
    linked: UnitCounts
    design: SurveyDesign
    contents: Mapping[str, str]
    """A keyed digest of the values of each confidential variable: noise is fresh where it changed between versions."""
    frozen_loss: float = 0.0
    """What the facts that were read off the records at freezing tell of each of them; those of earlier versions included."""
    exact: tuple[str, ...] = ()
    """What users see of confidential variables that was read off exact counts, by the custodian's word; in no account."""

    def register(self, policy: Policy) -> Register:
        """Return what known variables alone say of the records, with the policy's noise on counts."""
        columns = [c for v in self.variables.values() if v.known for c in (v.codes_column, v.numbers)]
        return Register(self.warehouse, self.cubes, self.linked, self.secret, policy.counts, columns)

    @cached_property
    def codebook(self) -> Codebook:
        """The metadata that questions, rules and analyses see."""
        public: dict[str, Variable] = {}
        for name, v in self.variables.items():  # the units of exact sums say where the smallest and largest values are
            public[name] = replace(v, centre=0.0, scale=1.0, base=None if v.base is None else public[v.base.name])
        return Codebook(self.name, self.version, self.title, public, self.weight, self.units, self.design.columns)

    @cached_property
    def together(self) -> int:
        """How many records the largest establishment has; 1 where records are of persons. All of them are protected together."""
        return largest_establishment(self.warehouse)

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    @property
    def weighted(self) -> bool:
        """Whether records have survey weights."""
        return self.weight is not None

    def allowed(self, names: Sequence[str], policy: Policy | None = None) -> bool:
        """Return whether variables may form universes together: a function of known variables, and published."""
        chosen = policy or Policy.named("hardened")
        found = [need_variable(name, self.variables) for name in names]
        for variable in found:
            variable.need_levels()
        variables = tuple(sorted({v.name: v for v in found}.values(), key=lambda v: v.name))
        register = self.register(chosen)
        return all(rule.allows(register, self.units, variables) for rule in chosen.rules)

    def combinations(self, most: int = 2, policy: Policy | None = None) -> list[tuple[str, ...]]:
        """List the combinations of at most `most` variables that may form universes together, for publication."""
        names = sorted(v.name for v in self.variables.values() if v.levels)
        found = (some for size in range(1, most + 1) for some in itertools.combinations(names, size))
        return [some for some in found if self.allowed(some, policy)]

    def describe(self) -> dict[str, Any]:
        """Return what users may see: variables with their labels, levels and units; no count, and no value."""
        listed: list[dict[str, Any]] = []
        for v in self.variables.values():
            one = {"name": v.name, "label": v.label, "unit": v.unit, "numbers": v.numeric, "levels": list(v.levels)}
            one |= {"meanings": list(v.words)} if v.words else {}
            one |= {"groups": v.base.name} if v.base is not None else {}
            listed.append(one | ({"describes": v.level} if v.level != "person" else {}))
        return {
            "name": self.name, "version": self.version, "title": self.title, "weighted": self.weighted,
            "linked": [UNITS[unit] for unit in self.units], "variables": listed,
            **({"exact": list(self.exact)} if self.exact else {}),
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Dataset({self.label}, {len(self.variables)} variables, in {self.warehouse.name})"


def save(folder: Path, facts: Mapping[str, Any], variables: Mapping[str, Variable], warehouse: Warehouse) -> None:
    """Write the metadata of a frozen data set beside its records; confidential."""
    described = {**facts, "cube": write_cube(folder, warehouse, variables)}
    text = dump(described, "variable", (v.to_dict() for v in variables.values()))
    write_text(folder / "dataset.toml", text, confidential=True)


def load(folder: Path, secret: Secret, spark: Any = None) -> Dataset:
    """Open a frozen data set."""
    try:
        table = parse((folder / "dataset.toml").read_text("utf-8"))
        variables: dict[str, Variable] = {}
        for one in table["variable"]:
            variables[one["name"]] = Variable.from_dict(one, variables)
        records = folder / ("records" if table["engine"] == "Spark" else "records.parquet")
        name, version, title = str(table["name"]), int(table["version"]), str(table.get("title", ""))
        contents, frozen_loss = dict(table["contents"]), float(table["frozen_loss"])
        exact = tuple(map(str, table.get("exact", ())))
    except (OSError, KeyError, TypeError, ValueError):
        raise DataError(f"{folder} does not hold a frozen data set of a vault.") from None
    warehouse = open_warehouse(records, spark)
    weight = Weight(**table["weight"]) if "weight" in table else None
    written = read_cube(folder, str(table["cube"]), variables) if "cube" in table else None
    units = tuple(c for c in ("h", "e") if c in warehouse.columns)
    return Dataset(
        name, version, title, variables, weight, units, warehouse, Cubes(warehouse, written), secret, UnitCounts(warehouse),
        SurveyDesign(warehouse), contents, frozen_loss, exact,
    )  # fmt: skip
