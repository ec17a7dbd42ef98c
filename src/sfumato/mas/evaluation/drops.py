"""The variants of drop q: which records a universe loses before it is analysed."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import ParameterError
from sfumato.mas.evaluation.cell_table import CellTable, Counts
from sfumato.mas.evaluation.choosing import smallest_q
from sfumato.mas.evaluation.clean_tables import CleanTables, clean_tables, success_probability
from sfumato.mas.evaluation.dropped_share import share_clean_tables
from sfumato.mas.evaluation.dropping import Places, drop_each, drop_numbers


class Drop(Parametric, family="drop", abstract=True):
    """A way to choose the records to drop; every universe is treated on its own, independently of others."""

    @abstractmethod
    def label(self) -> str:
        """Return what is dropped, in a few words."""

    def for_table(self, table: CellTable) -> Drop:
        """Return the drop that is applied to a table, where it depends on the table."""
        return self

    @abstractmethod
    def approximate(self, table: CellTable) -> float:
        """Return the probability of a clean difference by (4.3.4); NaN where it does not apply."""

    @abstractmethod
    def clean(self, table: CellTable) -> CleanTables:
        """Return how often a difference is clean: exactly for counts, by (4.3.4) for proportions."""

    @abstractmethod
    def expected(self, table: CellTable) -> float:
        """Return how many records a universe loses on average."""

    def spread(self, table: CellTable) -> float:
        """Return what the variances of the numbers dropped from small cells sum to: about as many as are dropped."""
        return self.expected(table)

    @abstractmethod
    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Places | None = None
    ) -> Counts:
        """Drop at random, `size` times: what each occupied cell loses, shape (size, occupied cells).

        `without` names, per replication, the occupied cell that has one record less: U(n − 1) in place of U(n).
        """


class DropQ(Drop):
    """The rule as printed: the same number of records from every universe (section 4.2)."""

    q: int = param(default=2, doc="records dropped from every universe", low=0, integer=True)

    def label(self) -> str:
        """Return ``q = 2``."""
        return f"q = {self.q:,}"

    def approximate(self, table: CellTable) -> float:
        """Return (4.3.4)."""
        return success_probability(table, self.q)

    def clean(self, table: CellTable) -> CleanTables:
        """Return how often a difference is clean."""
        return clean_tables(table, self.q)

    def expected(self, table: CellTable) -> float:
        """Return q."""
        return float(self.q)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Places | None = None
    ) -> Counts:
        """Drop q records, `size` times."""
        return drop_numbers(table, np.full(size, self.q, dtype=np.int64), generator, without)


class DropRange(Drop):
    """A number of records drawn for each universe, every number from `low` to `high` with the same probability.

    The difference can be clean only if both universes lose equally many, so that the probability is Σ_q w² P(q), with
    w = 1/(high − low + 1): the mean over the range, divided by how many numbers are in it.
    """

    low: int = param(default=1, doc="fewest records dropped", low=0, integer=True)
    high: int = param(default=10, doc="most records dropped", low=0, integer=True)

    def validate(self) -> None:
        """Refuse a range that ends before it begins."""
        if self.high < self.low:
            raise ParameterError("high of drop_range must be at least low.")

    def label(self) -> str:
        """Return ``q from 1 to 10``."""
        return f"q from {self.low:,} to {self.high:,}"

    def _range(self) -> range:
        return range(self.low, self.high + 1)

    def approximate(self, table: CellTable) -> float:
        """Return Σ w² times (4.3.4)."""
        return math.fsum(success_probability(table, q) for q in self._range()) / len(self._range()) ** 2

    def clean(self, table: CellTable) -> CleanTables:
        """Return how often a difference is clean."""
        each = [clean_tables(table, q) for q in self._range()]
        right, wrong = (sum(getattr(c, side) for c in each) / len(each) ** 2 for side in ("right", "wrong"))
        return CleanTables(right, wrong, table.proportions)

    def expected(self, table: CellTable) -> float:
        """Return the middle of the range."""
        return (self.low + self.high) / 2

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Places | None = None
    ) -> Counts:
        """Draw q from the range and drop so many, `size` times."""
        return drop_numbers(table, generator.integers(self.low, self.high + 1, size=size), generator, without)


class DropShare(Drop):
    """Every record is dropped with the same probability, on its own; the number of records dropped varies."""

    share: float = param(default=0.10, doc="probability that a record is dropped", low=0, high=1)

    def label(self) -> str:
        """Return ``10 % of the records``."""
        return f"{100 * self.share:g} % of the records"

    def approximate(self, table: CellTable) -> float:
        """Return NaN: (4.3.4) is for a fixed number of records."""
        return math.nan

    def clean(self, table: CellTable) -> CleanTables:
        """Return how often a difference is clean, a product over cells."""
        return share_clean_tables(table, self.share)

    def expected(self, table: CellTable) -> float:
        """Return the share of n."""
        return self.share * table.need_counts()

    def spread(self, table: CellTable) -> float:
        """Return n p (1 − p)."""
        return self.expected(table) * (1 - self.share)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Places | None = None
    ) -> Counts:
        """Decide for each record on its own, `size` times."""
        return drop_each(table, self.share, size, generator, without)


class DropEnough(Drop):
    """As many records as bring (4.3.4) below a threshold for the table at hand."""

    below: float = param(default=0.01, doc="largest probability of disclosure by (4.3.4)", low=0, above=True, high=1)

    def label(self) -> str:
        """Return ``q for 0.01``."""
        return f"q for {self.below:g}"

    def for_table(self, table: CellTable) -> DropQ:
        """Return the drop of the smallest q that suffices; refused where none does."""
        return DropQ(q=smallest_q(table, self.below))

    def approximate(self, table: CellTable) -> float:
        """Return (4.3.4) at that q."""
        return self.for_table(table).approximate(table)

    def clean(self, table: CellTable) -> CleanTables:
        """Return how often a difference is clean at that q."""
        return self.for_table(table).clean(table)

    def expected(self, table: CellTable) -> float:
        """Return that q."""
        return self.for_table(table).expected(table)

    def sample(
        self, table: CellTable, size: int, generator: np.random.Generator, without: Places | None = None
    ) -> Counts:
        """Drop that q, `size` times."""
        return self.for_table(table).sample(table, size, generator, without)
