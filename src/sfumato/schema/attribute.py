"""What one column means."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sfumato.errors import SchemaError, refuse_unknown, unknown_name
from sfumato.schema.hierarchy import Hierarchy


class Role(StrEnum):
    """What a column is for a snooper, or in the survey's design."""

    IDENTIFIER = "identifier"
    """Names a respondent by itself (name, passport number); always removed."""
    KEY = "key"
    """May be known to a snooper from elsewhere (age, zip code); a quasi-identifier."""
    CONFIDENTIAL = "confidential"
    """What the respondent was promised would stay secret (income, diagnosis)."""
    OTHER = "other"
    """Neither of these."""
    WEIGHT = "weight"
    """Survey weight: how many persons of the population a record stands for."""
    HOUSEHOLD = "household"
    """Household number: records that share it belong together."""
    STRATUM = "stratum"
    """Sampling stratum."""
    CONTRIBUTOR = "contributor"
    """Enterprise or holding that a record belongs to, in business data."""


class Scale(StrEnum):
    """Which order the values have (global-risk paper, section 2)."""

    ORDERED = "ordered"
    """Numbers, dates, and ordered categories with numbers assigned to them."""
    PARTIALLY_ORDERED = "partially ordered"
    """Categories in a tree, such as zip codes and their prefixes."""
    UNORDERED = "unordered"
    """Plain categories such as sex."""


class Level(StrEnum):
    """Whom the value describes."""

    PERSON = "person"
    HOUSEHOLD = "household"


_EXAMPLES = {"values": "{'low': 1, 'high': 2}", "labels": "{'1': 'male', '2': 'female'}"}
_STATA_MISSING = re.compile(r"\.[a-z]")
"""Codes for missing that are not values of the column."""
_DESIGN_ROLES = (Role.WEIGHT, Role.HOUSEHOLD, Role.STRATUM, Role.CONTRIBUTOR)


@dataclass(frozen=True)
class Attribute:
    """What one column means.

    Parameters
    ----------
    name
        Column name.
    role
        What the column is for a snooper; see `Role`.
    scale
        Which order the values have; see `Scale`.
    hierarchy
        How values generalise (zip code to prefix, age to bands).
    label, unit
        Words for people: "monthly salary", "thousand dollars".
    level
        Whether the value describes a person or the whole household. Household columns are masked once per household.
    bounds
        Smallest and largest possible value; ``None`` for open.
    integer
        Only whole numbers make sense; masked values are rounded.
    missing
        Codes that mean "no answer" (for example 99). Nothing is taken as missing unless it is named here.
    follows
        What this column is a function of, and must stay consistent with: the name of a column, or a formula of columns such as
        ``wage + bonus`` or ``log(wage)``.
    values
        Numbers for ordered categories: ``{"low": 1, "high": 2}``.
    labels
        Words for coded values: ``{"1": "male", "2": "female"}``.
    reason
        Why `Schema.guess` chose what it chose.

    Examples
    --------
    >>> Attribute("salary", role="confidential", unit="thousand dollars", bounds=(0, None)).scale.value
    'ordered'
    """

    name: str
    role: Role = Role.OTHER
    scale: Scale = Scale.ORDERED
    hierarchy: Hierarchy | None = None
    label: str = ""
    unit: str = ""
    level: Level = Level.PERSON
    bounds: tuple[float | None, float | None] = (None, None)
    integer: bool = False
    missing: tuple[float | str, ...] = ()
    follows: str | None = None
    values: Mapping[str, float] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reason: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("an attribute needs a name, a non-empty text.")
        for field, kind in (("role", Role), ("scale", Scale), ("level", Level)):
            object.__setattr__(self, field, self._choice(field, kind))
        object.__setattr__(self, "bounds", self._checked_bounds())
        object.__setattr__(self, "missing", self._checked_missing())
        object.__setattr__(self, "values", {k: _number(v) for k, v in self._checked_map("values").items()})
        object.__setattr__(self, "labels", {k: str(v) for k, v in self._checked_map("labels").items()})
        if wrong := [k for k, v in self.values.items() if v is None]:
            raise SchemaError(f"the values of '{self.name}' must be numbers, but that of '{wrong[0]}' is not.")
        if not isinstance(self.integer, bool):
            raise SchemaError(f"integer of '{self.name}' must be true or false.")
        if self.hierarchy is not None and not isinstance(self.hierarchy, Hierarchy):
            raise SchemaError(f"the hierarchy of '{self.name}' must be a Hierarchy.")
        if self.scale is Scale.PARTIALLY_ORDERED and self.hierarchy is None:
            raise SchemaError(
                f"'{self.name}' is partially ordered, so it needs a hierarchy that orders it. "
                f"Give one, or use scale = 'unordered'."
            )

    def _choice(self, field: str, kind: type[StrEnum]) -> StrEnum:
        given = str(getattr(self, field))
        allowed = [member.value for member in kind]
        refuse_unknown(field, allowed, f"the list of {field}s (attribute '{self.name}')", given, error=SchemaError)
        return kind(given)

    def _checked_bounds(self) -> tuple[float | None, float | None]:
        try:
            low, high = self.bounds
            low, high = (None if b is None or math.isinf(b) else float(b) for b in (low, high))
        except (TypeError, ValueError):
            raise SchemaError(
                f"the bounds of '{self.name}' must be two numbers, such as (0, None) for 'not negative'."
            ) from None
        if any(b is not None and math.isnan(b) for b in (low, high)):
            raise SchemaError(f"a bound of '{self.name}' is NaN; leave it out (None) for 'no bound'.")
        if low is not None and high is not None and not low <= high:
            raise SchemaError(f"the bounds of '{self.name}' are {low:g} and {high:g}: the lower one must come first.")
        return low, high

    def _checked_missing(self) -> tuple[float | str, ...]:
        given: Any = self.missing
        if isinstance(given, str) or not isinstance(given, Iterable):
            given = (given,)
        codes = tuple(code if isinstance(code, str) else _number(code) for code in given)
        if None in codes:
            raise SchemaError(f"the missing codes of '{self.name}' must be numbers or texts, such as 99 or 'unknown'.")
        return tuple(code for code in codes if code is not None)

    def _checked_map(self, field: str) -> dict[str, Any]:
        given = getattr(self, field)
        if not isinstance(given, Mapping):
            raise SchemaError(f"the {field} of '{self.name}' must be a mapping, such as {_EXAMPLES[field]}.")
        return {str(k): v for k, v in given.items()}

    def __hash__(self) -> int:
        return hash((self.name, self.role, self.scale))

    @property
    def is_design(self) -> bool:
        """Whether the column belongs to the survey's design (weight, household, stratum, contributor)."""
        return self.role in _DESIGN_ROLES

    def with_(self, **changes: Any) -> Attribute:
        """Return a copy with some fields changed."""
        known = [f.name for f in dataclasses.fields(self)]
        refuse_unknown("field", known, "an attribute", *changes, error=SchemaError)
        return dataclasses.replace(self, **changes)

    @property
    def lists_values(self) -> bool:
        """Whether it names single values of the column: in labels, numbers for categories, or a tree."""
        return bool(self.labels or self.values or (self.hierarchy is not None and self.hierarchy.lists_values))

    def limited_to(self, texts: Collection[str]) -> Attribute:
        """Return a copy that names only these values (as text) and the codes for missing: for what is published."""
        coded = {str(code) for code in self.missing} | {
            f"{code:g}" for code in self.missing if not isinstance(code, str)
        }
        kept = {*texts, *coded}
        return self.with_(
            labels={k: v for k, v in self.labels.items() if k in kept or _STATA_MISSING.fullmatch(k)},
            values={k: v for k, v in self.values.items() if k in kept},
            hierarchy=None if self.hierarchy is None else self.hierarchy.limited_to(texts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what TOML needs: only what differs from the defaults."""
        out: dict[str, Any] = {"name": self.name, "role": self.role.value, "scale": self.scale.value}
        for field in ("label", "unit", "integer", "follows", "reason"):
            if value := getattr(self, field):
                out[field] = value
        if self.level is not Level.PERSON:
            out["level"] = self.level.value
        low, high = self.bounds
        if low is not None:
            out["minimum"] = low
        if high is not None:
            out["maximum"] = high
        if self.missing:
            out["missing"] = list(self.missing)
        for field in ("values", "labels"):
            if value := getattr(self, field):
                out[field] = dict(value)
        if self.hierarchy is not None:
            out["hierarchy"] = self.hierarchy.to_dict()
        return out

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Attribute:
        """Build from a TOML table; the inverse of `to_dict`."""
        if not isinstance(table, Mapping):
            raise SchemaError("every [[attribute]] is a table with a name and a role.")
        fields = dict(table)
        name = str(fields.get("name", "?"))
        if "bounds" in fields:
            raise SchemaError(
                f"write the bounds of '{name}' as minimum = … and maximum = …, each on a line of its own."
            )
        fields["bounds"] = (fields.pop("minimum", None), fields.pop("maximum", None))
        if isinstance(fields.get("hierarchy"), Mapping):
            fields["hierarchy"] = Hierarchy.from_dict(fields["hierarchy"])
        known = [f.name for f in dataclasses.fields(cls)]
        for field in fields:
            if field not in known:
                raise SchemaError(unknown_name("field", field, [*known, "minimum", "maximum"], f"attribute '{name}'"))
        if "name" not in fields:
            raise SchemaError("every [[attribute]] needs a name.")
        return cls(**fields)


def _number(value: object) -> float | None:
    """Return a plain finite number, also from NumPy; None for anything else."""
    value = value.item() if hasattr(value, "item") else value
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if good else None  # type: ignore[return-value]


RECORD_ID = "__sfumato_record_id__"
"""Name of the hidden record id where an engine has to store it as a column; never released."""
