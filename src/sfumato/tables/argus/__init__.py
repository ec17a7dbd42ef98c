"""What users of τ-ARGUS have: hierarchies, metadata, microdata, tables, a-priori, recoding and batch files."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.tables.argus.batch import ArgusJob as ArgusJob
    from sfumato.tables.argus.batch import ArgusResult as ArgusResult
    from sfumato.tables.argus.batch import read_argus_batch as read_argus_batch
    from sfumato.tables.argus.batch import run_argus_batch as run_argus_batch
    from sfumato.tables.argus.cell_files import read_argus_a_priori as read_argus_a_priori
    from sfumato.tables.argus.cell_files import recode_by_argus as recode_by_argus
    from sfumato.tables.argus.data_files import ArgusTable as ArgusTable
    from sfumato.tables.argus.data_files import read_argus_microdata as read_argus_microdata
    from sfumato.tables.argus.data_files import read_argus_table as read_argus_table
    from sfumato.tables.argus.hierarchy_files import read_argus_hierarchy as read_argus_hierarchy
    from sfumato.tables.argus.metadata import ArgusMetadata as ArgusMetadata
    from sfumato.tables.argus.metadata import ArgusVariable as ArgusVariable
    from sfumato.tables.argus.metadata import read_argus_metadata as read_argus_metadata
