"""Policies as plain TOML files: a head of settings, and a [[rule]] table for each rule."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self

from sfumato.contract import Parametric, param
from sfumato.errors import ParameterError, unknown_name
from sfumato.files import write_text
from sfumato.toml import dump, parse


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
        return dump(whole, "rule", ({"name": rule.pop(self.rule_family), **rule} for rule in map(dict, rules)))

    def write(self, path: str | Path) -> None:
        """Write the policy to a TOML file."""
        write_text(path, self.to_toml())
