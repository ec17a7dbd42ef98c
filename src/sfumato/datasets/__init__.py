"""Documented generators of realistic data: nothing confidential is needed to try sfumato."""

from sfumato.datasets.teachers import teachers

__all__ = ["teachers"]
