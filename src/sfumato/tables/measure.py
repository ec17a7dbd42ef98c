"""The shape of every measure of a published table: risk and utility alike."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Estimated, Score
from sfumato.tables.published import PublishedTable

Numbers = NDArray[np.float64]


class TableMeasure(Estimated, family="table measure", abstract=True):
    """A number about a published table: what an attacker learns from it, or what a reader keeps."""

    @abstractmethod
    def assess(self, outcome: PublishedTable) -> Score:
        """Return the score of one published table; see `result`. Refused (NotApplicable) where it says nothing."""

    @abstractmethod
    def words(self, value: float) -> str:
        """Return what a value means, in natural units."""

    def observe(self, outcome: PublishedTable) -> Numbers:
        """Return what one published table contributes, shape (1,)."""
        return np.array([self.assess(outcome).value])

    def score(self, outcome: PublishedTable) -> Score:
        """Measure one published table."""
        return self.assess(outcome)

    def result(self, value: float, words: str, **facts: Any) -> Score:
        """Return a score of this measure; `facts` are the other fields of a Score."""
        return Score(self.label(), self.side, float(value), words, variant=self.variant, **facts)

    def to_score(self, observations: Numbers) -> Score:
        """Return the score of replicated observations, shape (replications, k)."""
        value, interval = self.estimate(observations)
        return self.result(value, self.words(value), interval=interval)
