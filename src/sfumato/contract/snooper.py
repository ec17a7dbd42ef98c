"""What the attacker knows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sfumato.contract.parameters import Parametric, param
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata

Strategy = Literal["naive", "bayes"]


def _file() -> Any:
    """Declare a file that he has: like what is learned from data it is never written or shown, but it tells snoopers apart."""
    return dataclasses.field(default=None, repr=False, metadata={"learned": ()})


class Snooper(Parametric, family="snooper"):
    """What a data snooper knows about a target, and how cleverly he uses it.

    The snooper of the R-U paper has index knowledge (he knows which record is the target's) and takes the released
    value as it is: that is ``Snooper()``. A Bayes snooper also knows the mean and spread of the variable, and shrinks;
    he can do so only if the noise level is published, or if he can work it out because he knows the variance.

    To find a record in the first place he compares what he knows of the target (`keys`, numbers to within `precision`) with
    the released file. What he knows stands in a file of his own (`external`), or is taken from the original: for a share of
    the persons (`coverage`), each value wrong with some probability (`errors`). A `population` table tells how many persons
    outside the release look the same: records, or counts in a column with the role weight. Neither file is ever written.

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
    keys: tuple[str, ...] = param(
        default=(), doc="columns he knows of a target; the schema's keys if none", columns="many", holds="anything"
    )
    precision: Mapping[str, float] = param(
        default={}, doc="width of the intervals to which he knows a numeric key", columns="weights", low=0, above=True
    )
    coverage: float = param(default=1.0, doc="share of the persons that his file covers", low=0, above=True, high=1)
    errors: float = param(default=0.0, doc="probability that a value in his file is wrong", low=0, high=1)
    external: Microdata | None = _file()
    population: Microdata | None = _file()

    def validate(self) -> None:
        """Check combinations."""
        if not isinstance(self.parameter_published, bool):
            raise ParameterError("parameter_published of snooper must be true or false.")

    def __hash__(self) -> int:
        return hash((*self.precision.items(), *(v for k, v in vars(self).items() if k != "precision")))

    def describe(self) -> str:
        """Return the snooper's knowledge in words."""
        parts = []
        if self.match_probability == 1:
            parts.append("knows which record is the target's")
        else:
            parts.append(f"links the right record with probability {self.match_probability:g}")
        if self.covariates:
            parts.append("knows " + ", ".join(self.covariates))
        if self.keys:
            parts.append("looks for records by " + ", ".join(self.keys))
        parts += [f"knows {name} to within {width:g}" for name, width in self.precision.items()]
        parts += self._files()
        parts.append("shrinks" if self.strategy == "bayes" else "takes the released value as it is")
        parts.append("is told the noise level" if self.parameter_published else "is not told the noise level")
        return "; ".join(parts)

    def looks_by(self, keys: Iterable[str]) -> str:
        """Return in words how he finds records, given the keys that he looks by (his own, or the schema's)."""
        widths = self.precision
        named = [f"{name} (to within {widths[name]:g})" if name in widths else name for name in keys]
        return "; ".join([f"knows {', '.join(named)} of a person", *self._files()])

    def _files(self) -> list[str]:
        parts = []
        if self.external is not None:
            parts.append("has a file of his own")
        if self.coverage < 1:
            parts.append(f"has {100 * self.coverage:g} % of the persons in his file")
        if self.errors > 0:
            parts.append(f"has {100 * self.errors:g} % wrong values in his file")
        if self.population is not None:
            parts.append("has a table of the population")
        return parts
