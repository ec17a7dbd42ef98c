"""The custodian's settings: which rules hold, what is dropped, what is perturbed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.mas.accounts import Accounts
from sfumato.mas.evaluation.drops import Drop, DropQ, DropShare
from sfumato.mas.explaining import explain
from sfumato.mas.perturbation import Amounts, Counts, Models
from sfumato.mas.policy_file import PolicyFile
from sfumato.mas.rule import ConfidentialityRule

_PERTURBATION = ("keyed", "drop", "counts", "amounts", "models")


class Policy(PolicyFile, family="policy"):
    """Rules, drops and perturbation; a plain TOML file that a custodian edits a copy of.

    Examples
    --------
    >>> Policy.named("census2009").drop.q
    2
    """

    built_in = ("census2009", "hardened", "strict")
    home = "sfumato.mas.policies"
    listed = "the list of policies"
    rule_family = "confidentiality rule"

    keyed: str = param(
        default="known", choices=("known", "records"),
        doc="what drops and noise hang on: the records that known variables select, or the set of records itself",
    )  # fmt: skip
    drop: Drop = param(default=DropQ(q=0), doc="which records are dropped before computing")
    counts: Counts = param(default=Counts(), doc="noise and rounding of counts")
    amounts: Amounts = param(default=Amounts(), doc="top-coding, noise and rounding of sums and means")
    models: Models = param(default=Models(), doc="noise and rounding of models")
    accounts: Accounts | None = param(default=None, doc="what may be spent on a record")
    per_minute: int | None = param(default=None, doc="most questions of a user in a minute", low=1, integer=True)
    rules: tuple[ConfidentialityRule, ...] = param(
        default=(), doc="the confidentiality rules, in the order they are checked"
    )

    def validate(self) -> None:
        """Refuse parts that are not what they should be: a policy that only looks like one would protect nobody."""
        parts = {"drop": Drop, "counts": Counts, "amounts": Amounts, "models": Models, "accounts": Accounts}
        for name, kind in parts.items():
            given = getattr(self, name)
            if not isinstance(given, kind) and not (given is None and name == "accounts"):
                usual = {"drop": 'drop = "drop_share"', "accounts": 'accounts = "accounts"'}
                first = usual.get(name, f'perturbation = "{name}"')
                raise ParameterError(
                    f"{name} of a policy is a table that says what it is: {name} = {{ {first}, ... }}."
                )
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, ConfidentialityRule) for rule in self.rules):
            raise ParameterError("the rules of a policy are [[rule]] tables, each with the name of a rule.")

    @property
    def drops(self) -> bool:
        """Whether any records are dropped."""
        return self.drop not in (DropQ(q=0), DropShare(share=0))

    @property
    def scaled(self) -> bool:
        """Whether results are scaled back to all records, so that they do not reveal the drop."""
        return isinstance(self.drop, DropShare)

    @property
    def perturbation(self) -> bytes:
        """A digest of all that decides about drops, noise and rounding."""
        parts = {name: value for name, value in self.to_dict().items() if name in _PERTURBATION}
        return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).digest()

    @property
    def variance_inflation(self) -> float:
        """By what a result of kept records, scaled back, varies more than one of all records would: a factor of the variance."""
        share = self.drop.share if isinstance(self.drop, DropShare) else 0.0
        return 1 / (1 - share) if share < 1 else 1.0

    def explain(self) -> str:
        """Return what the policy demands and what it does to answers, in sentences for users."""
        return explain(self)

    def rule(self, name: str) -> ConfidentialityRule | None:
        """Return the rule of a name, if the policy has it."""
        return next((rule for rule in self.rules if rule.name == name), None)

    def set(self, settings: Mapping[str, Any]) -> Policy:
        """Return the policy with settings changed by dotted names.

        The part stands before the point: ``drop``, ``counts``, ``amounts``, ``models``, ``accounts``, or the name of a rule. A
        parameter of another kind of drop puts that kind in the place of the policy's own; accounts are opened where there are
        none.

        Examples
        --------
        >>> policy = Policy.named("census2009").set({"drop.share": 0.2, "universe_size.gamma": 100, "counts.sd": 5})
        >>> policy.drop.label(), policy.rule("universe_size").gamma, policy.counts.sd
        ('20 % of the records', 100, 5.0)
        """
        from sfumato.mas.settings import with_settings

        return with_settings(self, settings)

    def without(self, *names: str) -> Self:
        """Return the policy without some rules, for the study of what they are good for."""
        return self.with_(rules=tuple(rule for rule in self.rules if rule.name not in names))
