"""Rounding: at random, of small counts, and controlled; one method in one file."""

from sfumato.tables.rounding.controlled_rounding import ControlledRounding
from sfumato.tables.rounding.random_rounding import RandomRounding
from sfumato.tables.rounding.small_counts import SmallCountRounding

__all__ = ["ControlledRounding", "RandomRounding", "SmallCountRounding"]
