"""Microdata: records and what their columns mean, in memory, in DuckDB or on Spark."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.data.classes import Classes as Classes
    from sfumato.data.classes import classes_of as classes_of
    from sfumato.data.columns import Column as Column
    from sfumato.data.columns import Kind as Kind
    from sfumato.data.columns import LazyColumn as LazyColumn
    from sfumato.data.condition import Condition as Condition
    from sfumato.data.engine import Engine as Engine
    from sfumato.data.engine import Groups as Groups
    from sfumato.data.engine import LocalEngine as LocalEngine
    from sfumato.data.engine import Rows as Rows
    from sfumato.data.households import merge_households as merge_households
    from sfumato.data.households import split_households as split_households
    from sfumato.data.microdata import Batch as Batch
    from sfumato.data.microdata import Microdata as Microdata
    from sfumato.data.store import open_frame as open_frame
    from sfumato.schema.attribute import RECORD_ID as RECORD_ID
