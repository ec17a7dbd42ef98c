"""Settings of a policy by dotted names, such as drop.share or universe_size.gamma: what a map sweeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sfumato.contract import Parameter, Parametric
from sfumato.errors import ParameterError, unknown_name
from sfumato.mas.accounts import Accounts
from sfumato.mas.evaluation.drops import Drop, DropEnough, DropQ, DropRange, DropShare

if TYPE_CHECKING:
    from sfumato.mas.policy import Policy

_PARTS = ("counts", "amounts", "models")
_DROPS: tuple[type[Drop], ...] = (DropQ, DropShare, DropRange, DropEnough)


def settings_of(policy: Policy) -> dict[str, Parameter]:
    """Return everything of a policy that has a dotted name: of its drop, its perturbations, its accounts and its rules.

    The parameters of every kind of drop are there, since a setting may bring another kind; so are those of accounts.
    """
    found = {f"drop.{field}": p for cls in _DROPS for field, p in cls.parameters().items()}
    parts: list[tuple[str, Parametric]] = [(part, getattr(policy, part)) for part in _PARTS]
    parts += [("accounts", policy.accounts or Accounts()), *((rule.name, rule) for rule in policy.rules)]
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
        changes["accounts"] = (policy.accounts or Accounts()).with_(**parts["accounts"])
    rules = tuple(rule.with_(**parts.get(rule.name, {})) for rule in policy.rules)
    return policy.with_(**changes, rules=rules)


def _dropped(drop: Drop, fields: Mapping[str, Any]) -> Drop:
    """Return the drop with other values, of its own kind if it has such parameters, else of the kind that has."""
    if set(fields) <= set(drop.parameters()):
        return drop.with_(**fields)
    return next(cls for cls in _DROPS if set(fields) <= set(cls.parameters()))(**fields)
