"""The custodian's settings as TOML: which rules hold, what is dropped and perturbed; in sentences, and by dotted names."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self

from typing_extensions import override

from sfumato.contract.parameters import Parameter, Parametric, param
from sfumato.errors import ParameterError, unknown_name
from sfumato.files import write_text
from sfumato.mas.accounts import Accounts
from sfumato.mas.drop_q import Drop, DropEnough, DropQ, DropRange, DropShare
from sfumato.mas.perturbation import Amounts, Counts, Models, Noise
from sfumato.mas.rule import ConfidentialityRule
from sfumato.toml import dump, parse

# --- policy file
# Policies as plain TOML files: a head of settings, and a [[rule]] table for each rule.


class PolicyFile(Parametric, abstract=True):
    """What every policy has: a title, a version, rules, and its form as a file."""

    built_in: ClassVar[tuple[str, ...]]
    """Names of the policies that come with sfumato."""
    home: ClassVar[str]
    """The package that holds them."""
    listed: ClassVar[str]
    """What a user would call all of them."""
    rule_family: ClassVar[str]
    """The word before the name of a rule, where rules are read."""

    _: KW_ONLY
    title: str = param(default="custom", doc="name of the policy")
    version: int = param(default=1, doc="raised with every change: each answer records it", low=1, integer=True)

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.title} {self.version}"

    @classmethod
    def named(cls, name: str) -> Self:
        """Return one of the policies that come with sfumato, or the one in a TOML file."""
        if name in cls.built_in:
            return cls.parse(resources.files(cls.home).joinpath(f"{name}.toml").read_text("utf-8"), name)
        if Path(name).suffix == ".toml":
            return cls.read(name)
        problem = unknown_name("policy", name, cls.built_in, cls.listed)
        raise ParameterError(f"{problem} A file of your own ends in .toml.")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a policy from a TOML file."""
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise ParameterError(f"there is no policy at {path} that can be read.") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str = "the policy") -> Self:
        """Read a policy from TOML."""
        try:
            table = parse(text)
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"{where} is not TOML: {error}.") from None
        rules = table.pop("rule", None)
        if "rules" in table or not isinstance(rules, list | None):
            raise ParameterError(f"the rules of {where} are [[rule]] tables, each with the name of a rule.")
        return cls.from_dict(table if rules is None else {**table, "rules": [cls._rule(rule, where) for rule in rules]})

    @classmethod
    def _rule(cls, table: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise ParameterError(f"every [[rule]] of {where} needs a name.")
        return {cls.rule_family: table["name"], **{k: v for k, v in table.items() if k != "name"}}

    def to_toml(self) -> str:
        """Return the policy as TOML; `parse` reads it back."""
        whole = self.to_dict()
        rules = whole.pop("rules")
        whole |= {} if rules else {"rule": []}
        return dump(whole, "rule", ({"name": rule.pop(self.rule_family), **rule} for rule in map(dict, rules)))

    def write(self, path: str | Path) -> None:
        """Write the policy to a TOML file."""
        write_text(path, self.to_toml())


# --- explaining
# A policy in sentences, for those who ask under it.


_SAME = "the same for the same set of records"


def explain(policy: Policy) -> str:
    """Return what a policy demands and what it does to answers, a line for each rule and change."""
    parts = [f"Policy {policy.label}"]
    if policy.rules:
        parts += ["", "A question is answered only if", *(f"- {rule.title}: {rule.words()}" for rule in policy.rules)]
    parts += ["", "What is done to answers", *(f"- {line}" for line in changes(policy))]
    return "\n".join(parts)


def changes(policy: Policy) -> list[str]:
    """Return what a policy does to answers, a sentence for each change."""
    counts, amounts, models = policy.counts, policy.amounts, policy.models
    lines = [_drop(policy)]
    if counts.sd:
        lines.append(
            f"Counts have random noise with a standard deviation of at least {counts.sd:g}, more in large sets, {_SAME}."
        )
    if counts.base > 1:
        lines.append(f"Counts are rounded to multiples of {counts.base}.")
    if counts.least:
        lines.append(f"Counts below {counts.least} are not shown.")
    if amounts.clip:
        lines.append("Numbers are clipped to the public bounds of their variable before anything is added up.")
    if amounts.sd:
        lines.append(
            f"Sums have random noise with a standard deviation of at least {amounts.sd:g} times what one record can move."
        )
    if amounts.digits < 15:
        lines.append(f"Sums and means have {amounts.digits} significant digits.")
    if models.sd:
        lines.append("Models are fitted to sums with random noise, which their standard errors include.")
    if models.digits < 15:
        lines.append(f"Coefficients have {models.digits} significant digits, standard errors {models.error_digits}.")
    if (accounts := policy.accounts).everybody < 100:
        lines.append(
            f"{attacker(accounts.others)} tells two values of one person apart in at most "
            f"{accounts.user:g} of 100 cases with all answers to one user, and in {accounts.everybody:g} with those to all users: "
            "each record has accounts, and an answer that would spend more is refused."
        )
        shares = ", ".join(f"{name} {share:.0%}" for name, share in accounts.projects.items())
        if shares:
            lines.append(f"Of the common account, projects have shares: {shares}.")
    else:
        lines.append("There are NO accounts: anybody may ask anything again and again.")
    if not (counts.sd and amounts.sd and models.sd):
        lines.append("Answers have NO noise: rules and drops alone protect, and attacks are known that break them.")
    if policy.per_minute is not None:
        lines.append(f"A user may ask {policy.per_minute} questions in a minute.")
    return lines


def attacker(others: str) -> str:
    """Return whom limits of accounts hold for, as the beginning of a sentence."""
    if others == "known":
        return "Whoever knows everything but one confidential value of one person"
    return "Whoever knows all known variables, but not the confidential values of others,"


def _drop(policy: Policy) -> str:
    drop = policy.drop
    if isinstance(drop, DropQ) and not drop.q:
        return "No record is dropped."
    back = " Results are scaled back." if policy.scaled else ""
    if isinstance(drop, DropShare):
        return f"{drop.label()} are dropped at random before anything is computed, {_SAME}.{back}"
    return f"Records are dropped at random before anything is computed ({drop.label()}), {_SAME}.{back}"


# --- policy
# The custodian's settings: which rules hold, what is dropped, what is perturbed.


_PERTURBATION = ("drop", "counts", "amounts", "models")


class Policy(PolicyFile, family="policy"):
    """Rules, drops and perturbation; a plain TOML file that a custodian edits a copy of.

    Examples
    --------
    >>> Policy.named("census2009").drop.q
    2
    """

    built_in = ("census2009", "hardened", "guaranteed")
    home = "sfumato.mas.policies"
    listed = "the list of policies"
    rule_family = "confidentiality rule"

    drop: Drop = param(doc="which records are dropped before computing")
    counts: Counts = param(doc="noise and rounding of counts")
    amounts: Amounts = param(doc="clipping, noise and rounding of sums and means")
    models: Models = param(doc="noise and rounding of models")
    accounts: Accounts = param(doc="what answers may tell of a record")
    rules: tuple[ConfidentialityRule, ...] = param(doc="the confidentiality rules, in the order they are checked")
    per_minute: int | None = param(default=None, doc="most questions of a user in a minute", low=1, integer=True)

    @classmethod
    def open(cls) -> Policy:
        """Return a policy without rules, drops, noise and accounts: answers are exact, and protect nobody. For the custodian."""
        return cls(
            drop=DropQ(q=0),
            counts=Counts(beyond=0),
            amounts=Amounts(),
            models=Models(),
            accounts=Accounts(user=100, everybody=100),
            rules=(),
            title="open",
        )

    @override
    def validate(self) -> None:
        parts = {"drop": Drop, "counts": Counts, "amounts": Amounts, "models": Models, "accounts": Accounts}
        for name, kind in parts.items():
            given = getattr(self, name)
            if not isinstance(given, kind):
                usual = {"drop": 'drop = "drop_share"', "accounts": 'accounts = "accounts"'}
                first = usual.get(name, f'perturbation = "{name}"')
                raise ParameterError(
                    f"{name} of a policy is a table that says what it is: {name} = {{ {first}, ... }}."
                )
        if not isinstance(self.rules, tuple) or not all(isinstance(rule, ConfidentialityRule) for rule in self.rules):
            raise ParameterError("the rules of a policy are [[rule]] tables, each with the name of a rule.")
        self._check_accounts()
        if not self.amounts.sd and (named := [rule.name for rule in self.rules if rule.needs_noise]):
            raise ParameterError(
                f"the rule {named[0]} looks at noisy sums, and amounts have no noise. Set amounts.sd, or leave the rule out."
            )

    def _check_accounts(self) -> None:
        """Refuse accounts over answers that have no noise, or that depend on more than one record's confidential values."""
        if min(self.accounts.user, self.accounts.everybody) == 100:
            return
        if without := [name for name in ("counts", "amounts", "models") if not self.noise(name).sd]:
            raise ParameterError(
                f"accounts limit what noisy answers tell, and an answer without noise tells everything. Set {without[0]}.sd, or "
                "accounts of 100."
            )
        if self.drops and not self.scaled:
            raise ParameterError(
                "accounts hold where drops depend on known variables alone. Drop a share of the records (drop_share), or none, or "
                "set accounts of 100."
            )

    @property
    def drops(self) -> bool:
        """Whether any records are dropped."""
        return self.drop not in (DropQ(q=0), DropShare(share=0))

    @property
    def scaled(self) -> bool:
        """Whether results are scaled back to all records, so that they do not reveal the drop."""
        return isinstance(self.drop, DropShare)

    def noise(self, kind: str) -> Noise:
        """Return the noise of one kind of sums: counts, amounts or models."""
        found: Noise = {"counts": self.counts, "amounts": self.amounts, "models": self.models}[kind]
        return found

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

        return with_settings(self, settings)

    def without(self, *names: str) -> Self:
        """Return the policy without some rules, for the study of what they are good for."""
        return self.with_(rules=tuple(rule for rule in self.rules if rule.name not in names))


# --- settings
# Settings of a policy by dotted names, such as drop.share or universe_size.gamma: what a map sweeps.


_PARTS = ("counts", "amounts", "models")
_DROPS: tuple[type[Drop], ...] = (DropQ, DropShare, DropRange, DropEnough)


def settings_of(policy: Policy) -> dict[str, Parameter]:
    """Return everything of a policy that has a dotted name: of its drop, its perturbations, its accounts and its rules.

    The parameters of every kind of drop are there, since a setting may bring another kind; so are those of accounts.
    """
    found = {f"drop.{field}": p for cls in _DROPS for field, p in cls.parameters().items()}
    parts: list[tuple[str, Parametric]] = [(part, getattr(policy, part)) for part in _PARTS]
    parts += [("accounts", policy.accounts), *((rule.name, rule) for rule in policy.rules)]
    return found | {f"{name}.{field}": p for name, part in parts for field, p in part.parameters().items()}


def check_settings(policy: Policy, names: Iterable[str]) -> None:
    """Refuse names that the policy does not have, and those of two kinds of drop together."""
    listed, known = list(names), settings_of(policy)
    for name in listed:
        if name not in known:
            raise ParameterError(unknown_name("setting", name, known, f"the policy {policy.title}"))
    fields = {name.partition(".")[2] for name in listed if name.startswith("drop.")}
    if fields and not any(fields <= set(cls.parameters()) for cls in _DROPS):
        raise ParameterError(
            "drop.q, drop.share, drop.low with drop.high, and drop.below are for different drops: choose one."
        )


def with_settings(policy: Policy, settings: Mapping[str, Any]) -> Policy:
    """Return a policy with some settings changed; see `Policy.set`."""
    check_settings(policy, settings)
    parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        part, _, field = name.partition(".")
        parts.setdefault(part, {})[field] = value
    changes: dict[str, Any] = {part: getattr(policy, part).with_(**parts[part]) for part in _PARTS if part in parts}
    if "drop" in parts:
        changes["drop"] = _dropped(policy.drop, parts["drop"])
    if "accounts" in parts:
        changes["accounts"] = policy.accounts.with_(**parts["accounts"])
    rules = tuple(rule.with_(**parts.get(rule.name, {})) for rule in policy.rules)
    return policy.with_(**changes, rules=rules)


def _dropped(drop: Drop, fields: Mapping[str, Any]) -> Drop:
    """Return the drop with other values, of its own kind if it has such parameters, else of the kind that has."""
    if set(fields) <= set(drop.parameters()):
        return drop.with_(**fields)
    return next(cls for cls in _DROPS if set(fields) <= set(cls.parameters()))(**fields)
