"""Evaluation of drop q: how often the difference of two universes gives a record away."""

from sfumato.mas.evaluation.cell_table import CellTable
from sfumato.mas.evaluation.choosing import smallest_q
from sfumato.mas.evaluation.clean_tables import (
    CleanTables,
    clean_tables,
    least_success_probability,
    same_drop_probability,
    success_probability,
)
from sfumato.mas.evaluation.dropped_share import share_clean_tables
from sfumato.mas.evaluation.drops import Drop, DropEnough, DropQ, DropRange, DropShare
from sfumato.mas.evaluation.guessing import LargestCell, largest_cell
from sfumato.mas.evaluation.report import DropEvaluation, DropRow, evaluate_drops
from sfumato.mas.evaluation.simulation import Frequency, Simulation, simulate_drops

__all__ = [
    "CellTable", "CleanTables", "Drop", "DropEnough", "DropEvaluation", "DropQ", "DropRange", "DropRow", "DropShare",
    "Frequency", "LargestCell", "Simulation", "clean_tables", "evaluate_drops", "largest_cell",
    "least_success_probability", "same_drop_probability", "share_clean_tables", "simulate_drops", "smallest_q",
    "success_probability",
]  # fmt: skip
