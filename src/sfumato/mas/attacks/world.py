"""Worlds for the bench: the data with planted confidential variables, frozen in a vault, so that no real value is attacked."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws
from sfumato.engines import Column, Rows
from sfumato.mas.attacks.server import Server, Tally
from sfumato.mas.attacks.target import Target
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger
from sfumato.mas.policy import Policy
from sfumato.mas.prepare import codes_of, find_variables
from sfumato.mas.secrets import Secret, ledger_key
from sfumato.mas.variable import Variable
from sfumato.mas.vault import Vault
from sfumato.microdata import Microdata
from sfumato.schema import Attribute, Role, Scale, Schema

HALF, THIRTY, RARE, AMOUNT = "planted_half", "planted_thirty", "planted_rare", "planted_amount"
"""Confidential variables: yes for half of all, for 30 %, for 2 % of all but half of the targets; an amount of money."""
LARGE = "planted_large"
"""An amount that outliers alone have to speak of: of most sums one person makes up more than 90 %."""
LARGEST = 600_000.0
"""No ordinary amount is larger."""
_ACCOUNTS = itertools.count()
"""No two servers share accounts."""
SHARES = {HALF: 0.5, THIRTY: 0.3, RARE: 0.02}


@dataclass(frozen=True, eq=False)
class World:
    """One planting: every target has each attribute, or not, by the toss of a coin."""

    vault: Vault
    dataset: Dataset
    number: int
    truths: Mapping[str, NDArray[np.float64]]
    """Of each record: 1 for yes and 0 for no; the amount. Shape (n,)."""
    outliers: frozenset[int]
    """Rows whose amount is far above all others."""
    codes: Mapping[str, NDArray[np.int64]]
    """Level numbers of the known variables, shape (n,) each."""
    numbers: Mapping[str, NDArray[np.float64]]
    """Known variables of numbers, shape (n,) each."""

    def server(self, policy: Policy, tally: Tally, trial: int) -> Server:
        """Return a server with a secret and accounts of its own."""
        secret = Secret(Draws(f"attack {self.number} {trial}"))
        fresh = dataclasses.replace(
            self.dataset, name=f"{self.dataset.name}_{next(_ACCOUNTS)}", secret=secret, decided={}
        )
        return Server(self.vault, fresh, policy.with_(per_minute=None), tally)


@dataclass(frozen=True, eq=False)
class Ground:
    """Data to attack, and how to freeze worlds of them."""

    data: Microdata
    cutpoints: Mapping[str, Cutpoints]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The known variables that have levels."""
        return tuple(v for v in find_variables(self.data, self.cutpoints) if v.known and v.levels)

    @cached_property
    def codes(self) -> dict[str, NDArray[np.int64]]:
        """Level numbers of the known variables, shape (n,) each."""
        columns, schema = self.data.batch().rows.columns, self.data.schema
        return {v.name: codes_of(columns[v.name], schema[v.name], v).astype(np.int64) for v in self.variables}

    @cached_property
    def numbers(self) -> dict[str, NDArray[np.float64]]:
        """Known variables of numbers, shape (n,) each."""
        return {v.name: self.data.numbers(v.name) for v in self.variables if v.numeric}

    def world(self, folder: Path, number: int, targets: Sequence[Target]) -> World:
        """Plant and freeze a world."""
        n, rng = len(self.data), Draws(f"world {number}").generator("planted")
        rows = np.unique([target.row for target in targets])
        truths: dict[str, NDArray[np.float64]] = {}
        for name, share in SHARES.items():
            truths[name] = (rng.random(n) < share).astype(np.float64)
        truths[RARE][rows] = (rng.random(len(rows)) < SHARES[HALF]).astype(np.float64)
        fewest = min(
            len(target.universe) for target in targets
        )  # the universes that the attacks on amounts are made with
        few = rng.permutation(np.unique([t.row for t in targets if len(t.universe) == fewest]))[: max(1, n // 1000)]
        amount = np.minimum(np.exp(rng.normal(10.5, 0.7, n)), LARGEST)
        amount[few] = LARGEST * np.exp(rng.uniform(0.2, 1.6, len(few)))
        truths[AMOUNT] = np.asarray(np.round(amount, 2), np.float64)
        truths[LARGE] = np.where(amount > LARGEST, truths[AMOUNT], np.round(amount / 1e5, 2))
        batch = self.data.batch().rows
        words = np.array(["no", "yes"], object)
        planted = {name: Column.from_values(words[truths[name].astype(int)]) for name in SHARES}
        columns = {**batch.columns, **planted, **{name: Column.from_numbers(truths[name]) for name in (AMOUNT, LARGE)}}
        marks = [Attribute(name, role=Role.CONFIDENTIAL, scale=Scale.UNORDERED) for name in SHARES]
        marks += [Attribute(name, role=Role.CONFIDENTIAL) for name in (AMOUNT, LARGE)]
        schema = Schema((*self.data.schema, *marks))
        whole = Microdata(self.data.engine.hold(Rows(batch.ids, columns)), schema)
        folder.mkdir(parents=True, exist_ok=True)
        secret = Draws(f"vault {number}")
        vault = Vault(folder, secret, Policy(title="open"))
        vault.ledger = Ledger(folder / "attacks.sqlite", ledger_key(secret), lasting=False)
        dataset = vault.freeze("survey", whole, self.cutpoints)
        return World(vault, dataset, number, truths, frozenset(int(i) for i in few), self.codes, self.numbers)
