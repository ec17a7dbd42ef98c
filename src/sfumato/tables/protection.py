"""The shape of every method that protects a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from sfumato.contract import Draws, Method
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table


class Protection(Method[Table, PublishedTable], family="protection", abstract=True):
    """A method that makes a table publishable: a table in, a published table out.

    To add one, subclass it in a file of its own and write `protect`. It must keep what it promises or refuse; whatever it
    returns adds up, says in `low` and `high` what a reader can be sure of, and carries the guarantees it verified.
    """

    random: ClassVar[bool] = True
    """Whether it draws random numbers: then there is a seed to be kept secret."""

    @abstractmethod
    def protect(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the protected table."""

    def apply(self, x: Table, draws: Draws) -> PublishedTable:
        """Protect a table."""
        return self.protect(x, draws)

    @abstractmethod
    def label(self) -> str:
        """Return a few words for a legend."""
