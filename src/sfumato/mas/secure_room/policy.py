"""What an output must fulfil to leave the room: the settings of the people who check outputs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Self

from sfumato.contract import Parametric, param
from sfumato.errors import ParameterError, unknown_name
from sfumato.files import write_text
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import NK, MinimumContributors, PPercent
from sfumato.toml import dump

BUILT_IN = ("standard",)


class OutputPolicy(Parametric, family="output policy"):
    """The rules that tables and models are checked by before they leave; a plain TOML file.

    Tables are judged by the sensitivity rules of `sfumato.tables.rules`. A contributor is a record, unless a table is asked
    for with `contributor=`. Rules of dominance are about values, not about counts of records.

    Examples
    --------
    >>> OutputPolicy.named("standard").residual_df
    10
    >>> OutputPolicy.named("standard").rules[0].label()
    'fewer than 10 contributors'
    """

    title: str = param(default="custom", doc="name of the policy")
    version: int = param(default=1, doc="raised with every change: each record names it", low=1, integer=True)
    rules: tuple[SensitivityRule, ...] = param(
        default=(MinimumContributors(n=10), NK(n=2, k=90), PPercent(p=10)),
        doc="the sensitivity rules that every cell of a table must pass",
    )
    class_disclosure: str = param(
        default="fail", choices=("fail", "review", "off"),
        doc="empty cells, cells with everybody of their row or column, and cells whose values are all the same",
    )  # fmt: skip
    negative: str = param(
        default="review", choices=("review", "absolute"),
        doc="cells with negative values: a person judges their dominance, or it is judged by absolute values",
    )  # fmt: skip
    missing: str = param(
        default="leave out", choices=("leave out", "review"),
        doc="missing values are left out of the counts that are checked; 'review' has a person look at such cells too",
    )  # fmt: skip
    residual_df: int = param(
        default=10, doc="fewest residual degrees of freedom of a model", low=1, high=10_000, integer=True
    )
    group: int = param(
        default=10, doc="fewest records that a column of a model may set apart", low=1, high=10_000, integer=True
    )
    leverage: float = param(default=0.9, doc="largest leverage of a record in a model", low=0, above=True, high=1)
    r_squared: float = param(
        default=0.99, doc="a fit better than this tells outcomes, so that a person must look", low=0, above=True, high=1
    )

    def validate(self) -> None:
        """Check that there are rules."""
        if not self.rules or not all(isinstance(rule, SensitivityRule) for rule in self.rules):
            raise ParameterError(
                "an output policy needs at least one sensitivity rule, such as MinimumContributors(n=10)."
            )

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.title} {self.version}"

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a policy that comes with sfumato, or the one in a TOML file."""
        if name in BUILT_IN:
            home = resources.files("sfumato.mas.secure_room.policies")
            return cls.parse(home.joinpath(f"{name}.toml").read_text("utf-8"), name)
        if Path(name).suffix == ".toml":
            return cls.read(name)
        problem = unknown_name("policy", name, BUILT_IN, "the list of output policies")
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
        """Read a policy from TOML; its rules are [[rule]] tables with the name of a sensitivity rule."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"{where} is not TOML: {error}.") from None
        if "rule" in table:
            rules = table.pop("rule")
            if not isinstance(rules, list):
                raise ParameterError(f"the rules of {where} are [[rule]] tables, each with the name of a rule.")
            table["rules"] = [_rule(rule, where) for rule in rules]
        return cls.from_dict(table)

    def to_toml(self) -> str:
        """Return the policy as TOML; `parse` reads it back."""
        header = {k: v for k, v in self.to_dict().items() if k != "rules"}
        return dump(header, "rule", ({"name": rule.name, **rule.to_dict()} for rule in self.rules))

    def write(self, path: str | Path) -> None:
        """Write the policy to a TOML file."""
        write_text(path, self.to_toml())


def _rule(table: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ParameterError(f"every [[rule]] of {where} needs a name.")
    return {"rule": table["name"], **{k: v for k, v in table.items() if k != "name"}}
