"""What a snooper learns: one measure, one file."""

from sfumato.risk.attribute import AttributeRisk
from sfumato.risk.coded_value import CodedValueRisk

__all__ = ["AttributeRisk", "CodedValueRisk"]
