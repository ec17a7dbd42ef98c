"""Tables: sensitivity rules, random tabular adjustment, suppression, rounding, cell keys, and the attacker's audit."""

from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions
from sfumato.tables.largest import Largest
from sfumato.tables.measure import TableMeasure
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.table import Table

__all__ = [
    "Cells", "Contributions", "Largest", "Protection", "PublishedTable", "Sensitivity", "SensitivityRule", "Status", "Table",
    "TableMeasure",
]  # fmt: skip
