"""The shape of every method that protects a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from sfumato.contract import Draws, Method, check_draws
from sfumato.errors import ParameterError
from sfumato.tables.published import PublishedTable
from sfumato.tables.table import Table


class Protection(Method[Table, PublishedTable], family="protection", abstract=True):
    """A method that makes a table publishable: a table in, a published table out.

    To add one, subclass it in a file of its own and write `publish`. It must keep what it promises or refuse; whatever it
    returns adds up, says in `low` and `high` what a reader can be sure of, and carries the guarantees it verified.
    """

    random: ClassVar[bool] = True
    """Whether it draws random numbers: then there is a seed to be kept secret."""

    def protect(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the protected table."""
        if not isinstance(table, Table):
            raise ParameterError("a table is protected: make one with Table.of(data, 'region * sector', 'turnover').")
        return self.publish(table, check_draws(draws))

    @abstractmethod
    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Make what `protect` returns."""

    def apply(self, x: Table, draws: Draws) -> PublishedTable:
        """Protect a table."""
        return self.protect(x, draws)

    @abstractmethod
    def label(self) -> str:
        """Return a few words for a legend."""
