"""A frozen data set: the metadata of its variables, and the location of its prepared records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.data.warehouse import Warehouse, open_warehouse
from sfumato.errors import DataError
from sfumato.files import write_text
from sfumato.mas.codebook import Codebook, Weight
from sfumato.mas.cube import UNITS, Cubes, UnitCounts, largest_establishment, read_cube, write_cube
from sfumato.mas.perturbation import Secret
from sfumato.mas.policy import Policy
from sfumato.mas.register import Register
from sfumato.mas.survey_design import SurveyDesign
from sfumato.mas.variable import Variable, need_variable
from sfumato.toml import dump, parse

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
        return Register(self.warehouse, self.cubes, self.linked, self.secret, policy.counts, columns, self.design)

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
