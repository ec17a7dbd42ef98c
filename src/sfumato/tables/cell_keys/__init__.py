"""Cell-key perturbation: noise that hangs on the records of a cell, by a perturbation table."""

from sfumato.tables.cell_keys.cell_key import CellKey
from sfumato.tables.cell_keys.generated import count_table, magnitude_table
from sfumato.tables.cell_keys.perturbation_table import PerturbationTable, Row

__all__ = ["CellKey", "PerturbationTable", "Row", "count_table", "magnitude_table"]
