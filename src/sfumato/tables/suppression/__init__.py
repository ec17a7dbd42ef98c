"""Cell suppression: safe patterns, fast for large tables and exact for small ones."""

from sfumato.tables.suppression.suppression import Suppression

__all__ = ["Suppression"]
