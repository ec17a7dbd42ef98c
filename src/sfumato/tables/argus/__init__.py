"""What users of τ-ARGUS have: hierarchies, metadata, microdata, tables, a-priori, recoding and batch files."""

from sfumato.tables.argus.batch import ArgusJob, read_argus_batch
from sfumato.tables.argus.hrc import read_argus_hierarchy
from sfumato.tables.argus.hst import read_argus_a_priori
from sfumato.tables.argus.metadata import ArgusMetadata, ArgusVariable, read_argus_metadata
from sfumato.tables.argus.microdata import read_argus_microdata
from sfumato.tables.argus.recode import recode_by_argus
from sfumato.tables.argus.running import ArgusResult, run_argus_batch
from sfumato.tables.argus.tab import ArgusTable, read_argus_table

__all__ = [
    "ArgusJob", "ArgusMetadata", "ArgusResult", "ArgusTable", "ArgusVariable", "read_argus_a_priori", "read_argus_batch",
    "read_argus_hierarchy", "read_argus_metadata", "read_argus_microdata", "read_argus_table", "recode_by_argus",
    "run_argus_batch",
]  # fmt: skip
