"""From microdata to a frozen version of a data set: written whole, or not at all."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sfumato.contract import Draws
from sfumato.engines.warehouse import Warehouse, open_warehouse
from sfumato.errors import DataError
from sfumato.files import whole_folder
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset, save
from sfumato.mas.prepare import BITS, check_weights, find_variables, prepare
from sfumato.mas.recode import Recode
from sfumato.mas.tails import weight_facts, with_tails
from sfumato.mas.versions import check_version
from sfumato.microdata import Microdata


@dataclass(frozen=True)
class Plan:
    """What the custodian has decided about a data set."""

    name: str
    data: Microdata
    cutpoints: Mapping[str, Cutpoints] = field(default_factory=dict)
    title: str = ""
    identity: str | None = None
    recodes: Sequence[Recode] = ()
    registered: str = ""
    """The id of the registration that is frozen, if it is one."""


def write_version(plan: Plan, folder: Path, secret: Draws, earlier: Sequence[Dataset], spark: Any = None) -> None:
    """Prepare the records of a new version in a folder that only its owner may read."""
    data = plan.data
    if not len(data):
        raise DataError("the data set has no records.")
    check_weights(data)
    found = find_variables(data, plan.cutpoints, plan.recodes)
    if not found:
        raise DataError("the data set has no variables besides identifiers and columns of the survey's design.")
    for home in (folder.parent.parent, folder.parent):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(home, 0o700)
    with whole_folder(folder, mode=0o700) as temporary:
        records = temporary / ("records" if data.engine.name == "Spark" else "records.parquet")
        prepare(data, found, secret, records, plan.identity)
        warehouse = open_warehouse(records, spark)
        if plan.identity is not None:
            _check_identity(warehouse, plan.identity)
        variables = {v.name: with_tails(v, warehouse) if v.numeric else v for v in found}
        check_version(warehouse, variables, earlier)
        facts: dict[str, Any] = {
            "name": plan.name, "version": int(folder.name), "title": plan.title, "engine": data.engine.name,
        }  # fmt: skip
        if plan.registered:
            facts["registered"] = plan.registered
        if (weight := weight_facts(warehouse)) is not None:
            facts["weight"] = asdict(weight)
        save(temporary, facts, variables, warehouse)


def _check_identity(warehouse: Warehouse, identity: str) -> None:
    """Refuse an identity that many records share: they would have one random number, and be dropped together or not at all.

    Random numbers of n records that differ meet by chance in about n² / 2^(BITS + 1) cases.
    """
    found = warehouse.ask("SELECT count(*) AS n, count(DISTINCT r) AS d FROM records")
    n, distinct = int(found["n"][0]), int(found["d"][0])
    chance = n * n / 2 ** (BITS + 1)
    if n - distinct > chance + 6 * math.sqrt(chance) + 3:
        raise DataError(
            f"the column '{identity}' does not tell records apart: several have the same value, or none. Name as identity a "
            "column in which every record has a value of its own, or no column."
        )
