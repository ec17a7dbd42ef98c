"""For researchers inside a secure room: the calls of pandas and statsmodels, with every output checked and recorded."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.room.models import ModelSummary as ModelSummary
    from sfumato.room.models import RoomModel as RoomModel
    from sfumato.room.outputs import Output as Output
    from sfumato.room.policy import OutputPolicy as OutputPolicy
    from sfumato.room.room import SecureRoom as SecureRoom
