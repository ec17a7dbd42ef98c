"""What columns mean: roles, scales, hierarchies, and the schema that holds them."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.schema.attribute import Attribute as Attribute
    from sfumato.schema.attribute import Level as Level
    from sfumato.schema.attribute import Role as Role
    from sfumato.schema.attribute import Scale as Scale
    from sfumato.schema.hierarchy import ROOT as ROOT
    from sfumato.schema.hierarchy import Hierarchy as Hierarchy
    from sfumato.schema.hierarchy import PrefixHierarchy as PrefixHierarchy
    from sfumato.schema.hierarchy import TreeHierarchy as TreeHierarchy
    from sfumato.schema.hierarchy import read_hierarchy_csv as read_hierarchy_csv
    from sfumato.schema.hierarchy import write_hierarchy_csv as write_hierarchy_csv
    from sfumato.schema.interval_hierarchy import DateHierarchy as DateHierarchy
    from sfumato.schema.interval_hierarchy import IntervalHierarchy as IntervalHierarchy
    from sfumato.schema.schema import Schema as Schema
    from sfumato.schema.schema import guess_schema as guess_schema
    from sfumato.schema.schema import schema_of as schema_of
