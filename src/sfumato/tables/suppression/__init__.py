"""Cell suppression: safe patterns, fast for large tables and exact for small ones."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.tables.suppression.suppression import Suppression as Suppression
