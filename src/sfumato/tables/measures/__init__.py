"""Measures of published tables: what an attacker learns from one, and what a reader keeps."""

from sfumato.tables.measures.analyst_certainty import AnalystCertainty
from sfumato.tables.measures.cell_certainty import CellCertainty
from sfumato.tables.measures.interval_lengths import IntervalLengths
from sfumato.tables.measures.known_closely import KnownClosely
from sfumato.tables.measures.published_value import PublishedValue
from sfumato.tables.measures.relative_certainty import RelativeCertainty
from sfumato.tables.measures.table_accuracy import TableAccuracy
from sfumato.tables.measures.table_distance import TableDistance

__all__ = [
    "AnalystCertainty", "CellCertainty", "IntervalLengths", "KnownClosely", "PublishedValue", "RelativeCertainty",
    "TableAccuracy", "TableDistance",
]  # fmt: skip
