"""How values generalise: zip code to prefix, age to band, date to year, occupation to group.

This module gathers the kinds; each lives in a file of its own. A new kind is a subclass of `Hierarchy` with a `kind`.
"""

from sfumato.schema.hierarchy.base import ROOT, Hierarchy
from sfumato.schema.hierarchy.csv import read_hierarchy_csv, write_hierarchy_csv
from sfumato.schema.hierarchy.date import DateHierarchy
from sfumato.schema.hierarchy.interval import IntervalHierarchy
from sfumato.schema.hierarchy.prefix import PrefixHierarchy
from sfumato.schema.hierarchy.tree import TreeHierarchy

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
