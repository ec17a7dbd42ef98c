"""Documented generators of realistic data: nothing confidential is needed to try sfumato."""

from sfumato.datasets.census import Census, census
from sfumato.datasets.five import five
from sfumato.datasets.teachers import teachers

__all__ = ["Census", "census", "five", "teachers"]
