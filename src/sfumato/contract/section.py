"""What a part of the system has to say to a disclosure review board; reports/ sets it in type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A small table for people: column heads and rows of text or numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart as a Vega-Lite specification, and what it shows in words (also its text alternative)."""

    spec: Mapping[str, Any]
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, sentences, then tables and figures, in order."""

    title: str
    sentences: tuple[str, ...] = ()
    content: Sequence[Table | Figure] = ()
