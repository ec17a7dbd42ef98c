"""The policy of the room: the settings by which outputs are checked before they leave."""

from __future__ import annotations

from typing_extensions import override

from sfumato.contract import param
from sfumato.errors import ParameterError
from sfumato.mas.policy import PolicyFile
from sfumato.tables import NK, MinimumContributors, PPercent, SensitivityRule


class OutputPolicy(PolicyFile, family="output policy"):
    """The rules by which tables and models are checked before they leave; a plain TOML file.

    Tables are judged by the sensitivity rules of `sfumato.tables.rules`. A contributor is a record, unless a table is requested
    with `contributor=`. Dominance rules apply to values, not to counts of records.

    Examples
    --------
    >>> OutputPolicy.named("standard").residual_df
    10
    >>> OutputPolicy.named("standard").rules[0].label()
    'fewer than 10 contributors'
    """

    built_in = ("standard",)
    home = "sfumato.room.policies"
    listed = "the list of output policies"
    rule_family = "rule"

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

    @override
    def validate(self) -> None:
        if not self.rules or not all(isinstance(rule, SensitivityRule) for rule in self.rules):
            raise ParameterError(
                "an output policy needs at least one sensitivity rule, such as MinimumContributors(n=10)."
            )
