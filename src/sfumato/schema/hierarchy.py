"""How values generalise: zip code to prefix, age to band, date to year, occupation to group.

This module gathers the kinds; each lives in a file of its own. A new kind is a subclass of `Hierarchy` with a `kind`.
"""

from sfumato.schema.hierarchy_base import ROOT, Hierarchy
from sfumato.schema.hierarchy_csv import read_hierarchy_csv, write_hierarchy_csv
from sfumato.schema.hierarchy_date import DateHierarchy
from sfumato.schema.hierarchy_interval import IntervalHierarchy
from sfumato.schema.hierarchy_prefix import PrefixHierarchy
from sfumato.schema.hierarchy_tree import TreeHierarchy

__all__ = [
    "ROOT",
    "DateHierarchy",
    "Hierarchy",
    "IntervalHierarchy",
    "PrefixHierarchy",
    "TreeHierarchy",
    "read_hierarchy_csv",
    "write_hierarchy_csv",
]
