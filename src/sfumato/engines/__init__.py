"""Where data live: memory, DuckDB, Spark. The only package that knows Arrow, DuckDB or Spark."""

from sfumato.engines.base import RECORD_ID, Engine, Groups, Rows
from sfumato.engines.columns import Column, Kind, LazyColumn
from sfumato.engines.frames import open_frame
from sfumato.engines.local import LocalEngine

__all__ = ["RECORD_ID", "Column", "Engine", "Groups", "Kind", "LazyColumn", "LocalEngine", "Rows", "open_frame"]
