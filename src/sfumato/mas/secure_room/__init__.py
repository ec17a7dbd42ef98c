"""For researchers inside a secure room: pandas and statsmodels habits, with every output checked and recorded."""

from sfumato.mas.secure_room.model import Model, ModelSummary
from sfumato.mas.secure_room.output import Output
from sfumato.mas.secure_room.policy import OutputPolicy
from sfumato.mas.secure_room.room import SecureRoom

__all__ = ["Model", "ModelSummary", "Output", "OutputPolicy", "SecureRoom"]
