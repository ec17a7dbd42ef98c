"""sfumato: statistical disclosure control, from a confidential file to a release that can be trusted.

The front door: a few names, and the sub-packages (``sfumato.masks.MDAV``); all are imported when first used.
"""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names
from sfumato.version import VERSION

__version__ = VERSION
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
__all__ += ["__version__"]

if TYPE_CHECKING:
    from sfumato.contract import Draws as Draws
    from sfumato.contract import Recipe as Recipe
    from sfumato.contract import Release as Release
    from sfumato.contract import Snooper as Snooper
    from sfumato.data import Microdata as Microdata
    from sfumato.errors import SfumatoError as SfumatoError
    from sfumato.maps import ru_map as ru_map
    from sfumato.maps import search as search
    from sfumato.mas import Policy as Policy
    from sfumato.mas import Vault as Vault
    from sfumato.schema import Attribute as Attribute
    from sfumato.schema import Role as Role
    from sfumato.schema import Schema as Schema
    from sfumato.tables import Table as Table
