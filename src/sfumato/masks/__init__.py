"""Masking methods: one method, one file."""

from sfumato.masks.identity import Identity
from sfumato.masks.noise import IndependentNoise, KimNoise
from sfumato.masks.remove_identifiers import RemoveIdentifiers
from sfumato.masks.top_code import BottomCode, TopCode

__all__ = ["BottomCode", "Identity", "IndependentNoise", "KimNoise", "RemoveIdentifiers", "TopCode"]
