"""MDAV loses on the three reference files of the literature what is printed there: 100·SSE/SST, standardised.

Domingo-Ferrer and Mateo-Sanz (2002) introduced the files; the losses are those of PEERS.md, in papers since and in sdcMicro 5.8.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest

from sfumato.contract import Draws
from sfumato.data.microdata import Microdata
from sfumato.masks import MDAV
from sfumato.schema import Attribute, Role, Schema
from sfumato.utility import VarianceKept

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
NOT_USED = {"UTILNAME", "STATE", "YEAR", "MONTH"}
LOSSES = {
    "CASCrefmicrodata.csv": {3: 5.692, 4: 7.495, 5: 9.088, 10: 14.156},
    "Tarragona.csv": {3: 16.933, 4: 19.546, 5: 22.462, 10: 33.193},
    "EIA.csv": {3: 0.483, 4: 0.671, 5: 1.667, 10: 3.840},
}


@pytest.mark.parametrize("name", LOSSES)
def test_mdav_loses_what_the_literature_prints(name: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip(f"the reference file {name} is not in {SHARED}")
    table = pyarrow.csv.read_csv(SHARED / name)
    table = table.select([n for n in table.column_names if n not in NOT_USED])
    data = Microdata(table, Schema(tuple(Attribute(n, Role.CONFIDENTIAL) for n in table.column_names)))
    for k, loss in LOSSES[name].items():
        kept = VarianceKept().score(MDAV(k=k).apply(data, Draws(1))).value
        assert 100 * (1 - kept) == pytest.approx(loss, abs=5.1e-4), k
