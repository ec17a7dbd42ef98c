"""What the attacker knows."""

from __future__ import annotations

from typing import Literal

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import ParameterError

Strategy = Literal["naive", "bayes"]


class Snooper(Parametric, family="snooper"):
    """What a data snooper knows about a target, and how cleverly he uses it.

    The snooper of the R-U paper has index knowledge (he knows which record is the target's) and takes the released
    value as it is: that is ``Snooper()``. A Bayes snooper also knows the mean and spread of the variable, and shrinks;
    he can do so only if the noise level is published, or if he can work it out because he knows the variance.

    Examples
    --------
    >>> Snooper(match_probability=0.8).describe()
    'links the right record with probability 0.8; takes the released value as it is; is not told the noise level'
    """

    strategy: Strategy = param(
        default="naive", doc="takes the released value as it is, or shrinks", choices=("naive", "bayes")
    )
    match_probability: float = param(
        default=1.0, doc="probability that his linkage finds the right record", low=0, high=1
    )
    covariates: tuple[str, ...] = param(default=(), doc="unmasked columns he also knows of the target", columns="many")
    parameter_published: bool = param(default=False, doc="whether the noise level is published")

    def validate(self) -> None:
        """Check combinations."""
        if not isinstance(self.parameter_published, bool):
            raise ParameterError("parameter_published of snooper must be true or false.")

    def describe(self) -> str:
        """Return the snooper's knowledge in words."""
        parts = []
        if self.match_probability == 1:
            parts.append("knows which record is the target's")
        else:
            parts.append(f"links the right record with probability {self.match_probability:g}")
        if self.covariates:
            parts.append("knows " + ", ".join(self.covariates))
        parts.append("shrinks" if self.strategy == "bayes" else "takes the released value as it is")
        parts.append("is told the noise level" if self.parameter_published else "is not told the noise level")
        return "; ".join(parts)
