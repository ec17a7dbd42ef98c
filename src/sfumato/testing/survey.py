"""The vaults that analyses are checked on: one survey, frozen as it is, with other confidential values, and in extreme forms."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from sfumato.contract import Draws
from sfumato.data import Microdata
from sfumato.files import private, private_folder, remove_private
from sfumato.mas import Analysis, Answer, Cutpoints, Policy, Refusal, Vault
from sfumato.mas.accounts import Accounts
from sfumato.mas.dataset import Dataset
from sfumato.mas.ledger import Ledger
from sfumato.mas.mechanism import Mechanism
from sfumato.mas.sums import PrivacyLoss, SumsRequest
from sfumato.mas.universe import Spec
from sfumato.mas.vault import Answering, question_of
from sfumato.schema import Attribute, Schema

# --- records

PEOPLE = 2_400
AMOUNTS = ("pay", "wealth", "age")
"""Columns of numbers that analyses are built with; the first two are confidential."""
GROUPS = ("sick", "sex")
"""Columns of categories; the first is confidential."""
HIDDEN = ("sick", "work", "pay", "wealth")
ROLES = {**dict.fromkeys(HIDDEN, "confidential"), "home": "household", "weight": "weight", "person": "identifier"}
BINS = {
    "age": Cutpoints((29, 44, 59, 74), whole=True),
    "pay": Cutpoints((12_000.0, 22_000.0, 40_000.0)),
}


def survey_frame(n: int = PEOPLE, seed: int = 1986) -> pd.DataFrame:
    """Return people in households, with gaps and survey weights: pay depends on age and sex, being sick on age."""
    g = np.random.default_rng(seed)
    age = g.integers(18, 90, n).astype(float)
    sex = g.choice(["F", "M"], n)
    frame = pd.DataFrame({
        "person": np.arange(n), "home": g.integers(0, max(n // 2, 1), n), "sex": sex,
        "region": g.choice(["East", "North", "South", "West"], n, p=[0.4, 0.3, 0.2, 0.1]), "age": age,
        "hours": np.round(g.gamma(3, 10, n), 1),
        "sick": np.where(g.uniform(size=n) < 0.1 + 0.004 * age, "yes", "no"),
        "work": g.choice(["full", "none", "part"], n, p=[0.5, 0.3, 0.2]),
        "pay": np.round(np.exp(9.5 + 0.008 * age + 0.2 * (sex == "M") + g.normal(0, 0.6, n)), 2),
        "wealth": np.round(g.gamma(2, 50, n), 3), "weight": np.round(g.uniform(1, 9, n), 3),
    })  # fmt: skip
    frame.loc[g.uniform(size=n) < 0.03, "pay"] = np.nan
    return frame


def with_other_values(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same persons with other confidential values: every one is somebody else's, and amounts are smaller."""
    g = np.random.default_rng(2014)
    changed = frame.copy()
    for name in HIDDEN:
        changed[name] = frame[name].to_numpy()[g.permutation(len(frame))]
    changed[["pay", "wealth"]] = (changed[["pay", "wealth"]] * 0.83).round(2)
    return changed


EXTREME_SURVEYS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "constant numbers": lambda f: f.assign(pay=31_337.1, age=40.0),
    "no answers": lambda f: f.assign(pay=np.nan, wealth=np.nan),
    "one level": lambda f: f.assign(sick="no", sex="F"),
    "huge values": lambda f: f.assign(
        pay=(31_337.1 + np.arange(len(f))) * 1e150, wealth=np.where(np.arange(len(f)) % 40, 1e-9, 1e12)
    ),
    "twelve records": lambda f: f.head(12),
    "two records": lambda f: f.head(2),
}
"""Extreme forms of the survey; an analysis answers or refuses, under every policy."""


def survey_schema(frame: pd.DataFrame) -> Schema:
    """Return what the columns of a survey mean."""
    texts = ("sex", "region", "sick", "work")
    return Schema(tuple(
        Attribute(c, role=ROLES.get(c, "key"), scale="unordered" if c in texts else "ordered", integer=c == "age")  # type: ignore[arg-type]
        for c in map(str, frame)
    ))  # fmt: skip


# --- vaults


@cache
def survey_vault(kind: str = "") -> Vault:
    """Return a vault with the survey: as it is, with "other values", or in an extreme form. It is frozen once and kept."""
    frame = survey_frame()
    if kind:
        frame = with_other_values(frame) if kind == "other values" else EXTREME_SURVEYS[kind](frame)
    return frozen(frame)


def frozen(frame: pd.DataFrame, data: Any = None, spark: Any = None) -> Vault:
    """Freeze a survey in a vault of its own, with a secret that is always the same; `data` has the records on another engine."""
    folder = private_folder()
    vault = Vault.create(folder / "vault", OPEN, secret=Draws("contract"), spark=spark)
    weakref.finalize(vault, remove_private, folder, os.getpid())
    vault.ledger = Ledger(folder / "quick.sqlite", b"contract", lasting=False)
    known = {name: bins for name, bins in BINS.items() if frame[name].nunique() > 1}
    records = frame if data is None else data
    vault.freeze("survey", Microdata(records, survey_schema(frame)), known, identity="person")
    return vault


@contextmanager
def fresh_accounts(vault: Vault) -> Iterator[Vault]:
    """Give the vault with accounts of which nothing is spent, and an empty log."""
    with private() as folder:
        one = copy.copy(vault)
        one.ledger = Ledger(folder / "ledger.sqlite", b"contract", lasting=False)
        yield one


# --- questions

OPEN = Policy.open()
UNCHARGED = Accounts(user=100, everybody=100)
POLICIES: dict[str, Policy] = {
    name: Policy.named(name).with_(per_minute=None) for name in ("hardened", "guaranteed", "census2009")
}
"""The policies that come with sfumato."""
NOISE_ALONE = POLICIES["hardened"].with_(rules=(), accounts=UNCHARGED, title="noise alone")
"""Noise without a rule or an account: whatever can be computed is answered."""

UNIVERSES: dict[str, tuple[Spec, Spec]] = {
    "everybody": (None, "sex in ('F', 'M')"),
    "known": ({"sex": "F"}, "sex == 'F' and region in ('East', 'North', 'South', 'West')"),
    "confidential": ({"sick": "yes", "region": ["East", "North"]}, "sick == 'yes' and region in ('North', 'East')"),
    "a union": (
        [{"sex": "F", "region": ["East", "North"]}, {"work": ["full", "part"]}],
        "work in ('part', 'full') or region in ('North', 'East') and sex == 'F'",
    ),
    "small": ({"region": "West", "sick": "yes", "age": "75 or more"}, "age == '75 or more' and sick == 'yes' and region == 'West'"),
}  # fmt: skip
"""Universes, each in two wordings."""
ASKED_OF: dict[str, tuple[str, ...]] = {
    "hardened": ("everybody", "known", "confidential", "a union"), "guaranteed": ("a union",),
    "census2009": ("confidential",), "noise alone": ("everybody", "small"),
}  # fmt: skip
"""Which universes are asked for under each policy, so that a check takes seconds."""


def questions() -> Iterator[tuple[Policy, Spec, Spec]]:
    """Yield policies, universes, and the same universes in other words."""
    for policy in (*POLICIES.values(), NOISE_ALONE):
        yield from ((policy, *UNIVERSES[name]) for name in ASKED_OF[policy.title])


def answer_of(
    analysis: Analysis, policy: Policy, universe: Spec = None, dataset: Dataset | None = None
) -> Answer | Refusal:
    """Return the answer or the refusal of a question; what goes wrong in the analysis is raised as it is."""
    data = survey_vault().dataset("survey") if dataset is None else dataset
    return Answering(data, question_of(data, policy, universe, analysis)).answer()


# --- the mechanism, held fixed or watched


@contextmanager
def same_sums() -> Iterator[tuple[tuple[Vault, Dataset], tuple[Vault, Dataset]]]:
    """Give two vaults with surveys that differ in all confidential values, where the mechanism makes the sums of the first.

    Bounds, shares and grids were read off noisy counts at freezing: these are protected sums, too.
    """
    fixed, other = (survey_vault(kind).dataset("survey") for kind in ("", "other values"))
    there = replace(other, variables=fixed.variables, frozen_loss=fixed.frozen_loss, contents=fixed.contents)
    protect = Mechanism.protect

    def protect_first(mechanism: Mechanism, request: SumsRequest) -> Any:
        return protect(Mechanism(fixed, mechanism.policy, mechanism.question), request)

    with (
        mock.patch.object(Mechanism, "protect", protect_first),
        fresh_accounts(survey_vault()) as one,
        fresh_accounts(survey_vault("other values")) as two,
    ):
        two._open = {(other.name, other.version): there}  # what the version told at freezing is held fixed, too
        yield (one, fixed), (two, there)


@contextmanager
def watched_losses() -> Iterator[list[PrivacyLoss]]:
    """Give the list of what all sums tell that the mechanism makes from now on."""
    losses: list[PrivacyLoss] = []
    protect = Mechanism.protect

    def watched(mechanism: Mechanism, request: SumsRequest) -> Any:
        made, told = protect(mechanism, request)
        losses.extend(told)
        return made, told

    with mock.patch.object(Mechanism, "protect", watched):
        yield losses
