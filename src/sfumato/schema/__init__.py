"""What columns mean: roles, scales, hierarchies, and the schema that holds them."""

from sfumato.schema.attribute import Attribute, Level, Role, Scale
from sfumato.schema.hierarchy import Hierarchy
from sfumato.schema.schema import Schema

__all__ = ["Attribute", "Hierarchy", "Level", "Role", "Scale", "Schema"]
