"""Global recoding: every value of a column is released as a broader category, by one rule for the whole file."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from sfumato.contract import Draws, learned, param
from sfumato.errors import DataError, ParameterError
from sfumato.masks.recoded_schema import as_number
from sfumato.masks.recoding import Recoding, Rule, count_values, no_rule
from sfumato.microdata import Microdata, check_numeric
from sfumato.schema import Schema
from sfumato.schema.hierarchy.base import label_of


class Recode(Recoding):
    """Global recoding by rules: lists of old and new values, intervals, or a level of the hierarchy (Willenborg, de Waal 2001).

    Examples
    --------
    >>> recode = Recode({"marital": {"widowed": "single", "divorced": "single"}, "age": [18, 65], "zip": 2}, unlisted="keep")
    >>> recode.rules["age"]
    (18.0, 65.0)
    """

    rules: Mapping[str, Any] = param(
        doc="for each column: old values and their new labels, or where intervals begin, or a level of its hierarchy",
        of_data="values",
    )
    unlisted: Literal["refuse", "keep", "merge"] = param(
        default="refuse",
        doc="what to do with values that a list of old and new values does not name",
        choices=("refuse", "keep", "merge"),
    )
    other: str = param(
        default="other", doc="label of the values that are not named, if they are merged", of_data="categories"
    )
    checked: Any = learned("rules", "unlisted", default=None)

    def validate(self) -> None:
        """Read each rule, and refuse what is none."""
        super().validate()
        if not isinstance(self.rules, Mapping) or not self.rules:
            raise ParameterError(
                "rules of recode must name columns and their rules, such as { age = [18, 65], zip = 2 }."
            )
        if not isinstance(self.other, str) or not self.other:
            raise ParameterError("other of recode must be a label, such as 'other'.")
        object.__setattr__(self, "rules", {str(n): _rule(str(n), rule) for n, rule in self.rules.items()})

    def plan(self, schema: Schema) -> Mapping[str, Rule]:
        """Return the rules; level 0 changes nothing."""
        for name in self.rules:
            schema[name]
        return {n: rule for n, rule in self.rules.items() if not (isinstance(rule, int) and rule == 0)}

    def unlisted_label(self, value: str) -> str | None:
        """Return the value itself, the common label, or None to refuse it."""
        return {"refuse": None, "keep": value, "merge": self.other}[self.unlisted]

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Count, in the whole file, the records that have no rule."""
        for name, rule in self.rules.items():
            if isinstance(rule, tuple):
                check_numeric(data, name)
            elif isinstance(rule, Mapping):
                counts = count_values(data, name)
                left = {v: n for v, n in counts.items() if label_of(v) not in rule}
                if counts and len(left) == len(counts):
                    raise DataError(
                        f"'{name}' has none of the values that its rule names, so the rule would do nothing. Check how the "
                        "values are written."
                    )
                if left and self.unlisted == "refuse":
                    raise DataError(
                        no_rule(name, f"{sum(left.values()):,} records, with {len(left):,} different values,")
                    )
        return self.learn(checked=True)


def _rule(name: str, given: Any) -> Rule:
    """Return a rule in its plain form, or refuse what is none."""
    if isinstance(given, Mapping) and given:
        return {label_of(old): label_of(new) for old, new in given.items()}
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 0:
        return int(given)
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes) and len(given):
        cuts = [as_number(c) if not isinstance(c, str | bool) else None for c in given]
        if all(c is not None for c in cuts) and all(a < b for a, b in itertools.pairwise(cuts)):  # type: ignore[operator]
            return tuple(float(c) for c in cuts if c is not None)
        raise ParameterError(f"the intervals of '{name}' must begin at numbers that rise, such as [18, 40, 65].")
    raise ParameterError(
        f"the rule of '{name}' must be old values and new labels, such as {{ widowed = 'single' }}, numbers where intervals "
        "begin, such as [18, 65], or a level of its hierarchy, such as 2."
    )
