"""Attacks that are also run on people who are not in the release: what succeeds there too is true of anybody."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Attack, Draws, Guesses, Release, Snooper, param
from sfumato.contract.parameters import Parametric
from sfumato.errors import NotApplicable
from sfumato.microdata import Microdata


class Repeated(Parametric, abstract=True):
    """How often an attack is made: shared by the attacks and the measures that score them."""

    attacks: int = param(default=2_000, doc="how many guesses he makes at most", low=1, high=1e6, integer=True)


class ControlledAttack(Attack, Repeated, abstract=True):
    """An attack on random people of the original, which can be repeated on people of the holdout (Giomi et al. 2022)."""

    @abstractmethod
    def against(self, people: Microdata, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack some people by means of the release."""

    def run(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack people of the original."""
        return self.against(outcome.original, outcome, snooper, draws)

    def control(self, outcome: Release, snooper: Snooper, draws: Draws) -> Guesses:
        """Attack people of the holdout in the same way."""
        return self.against(holdout_of(outcome), outcome, snooper, draws)


def holdout_of(outcome: Release) -> Microdata:
    """Return the records that were set aside before masking; refuse if there are none."""
    if outcome.holdout is None:
        raise NotApplicable(
            "this attack is compared with the same on people who are not in the release: set some records aside before masking, "
            "with hold_out, and give them with release.with_holdout(held)."
        )
    if not len(outcome.holdout):
        raise NotApplicable("the holdout has no records.")
    return outcome.holdout


def some_of(ids: NDArray[np.int64], count: int, draws: Draws) -> NDArray[np.int64]:
    """Return row numbers of at most `count` records, drawn at random by their ids; all of them if there are no more."""
    if len(ids) <= count:
        return np.arange(len(ids))
    return np.sort(np.argsort(draws.uniforms(ids, "targets"), kind="stable")[:count])
