"""Parameters as data: one declaration serves validation, TOML, sweeps, the command line, forms and docs.

A class of the house (a mask, a measure, an estimator) is a frozen dataclass whose fields are made with `param`.
Subclassing is all: the class becomes a dataclass and is registered under its name in lower case with underscores.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import numbers
import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, dataclass_transform, get_args, get_origin

from sfumato.errors import ParameterError, refuse_unknown, unknown_name

Step = Literal["linear", "log"]
ColumnUse = Literal["", "one", "many", "weights"]
Holds = Literal["numbers", "categories", "dates", "anything"]
OfData = Literal["nothing", "numbers", "categories", "values", "rule"]
_MISSING: Any = dataclasses.MISSING


@dataclass(frozen=True)
class Parameter:
    """What a parameter means and which values it takes."""

    doc: str
    low: float | None = None
    high: float | None = None
    above: bool = False
    """Whether `low` itself is excluded."""
    integer: bool = False
    scale: Step = "linear"
    """How a sweep steps through it."""
    choices: tuple[str, ...] = ()
    """The texts that it takes; those of the Literal that it is declared as, if not said."""
    columns: ColumnUse = ""
    """Whether it names one column, many columns, or maps columns to numbers."""
    holds: Holds = "numbers"
    """What the named columns hold."""
    per_column: bool = False
    """Whether it may be a mapping from column to number."""
    published: bool = True
    """Whether an analyst may be told its value, if `of_data` allows it too; see `tells`."""
    of_data: OfData | None = None
    """What in its value is written in the data's own values: "numbers" (a threshold), "categories", both ("values"), a "rule"
    about records, or "nothing". If not said, it is "values" unless the declaration shows that it is nothing: names of columns,
    choices, counts, and numbers that are bounded by a million, such as shares."""
    usual: tuple[float, float] | None = None
    """From the mildest to the strongest value worth trying: where a search looks, unless it is told otherwise."""
    flag: bool = False
    """Whether it is true or false; so it is, if its default is."""

    @property
    def numeric(self) -> bool:
        """Whether it is a number that can be swept."""
        return self.low is not None or self.high is not None or self.integer

    def __post_init__(self) -> None:
        if self.of_data is None:
            bounded = self.low is not None and self.high is not None and max(-self.low, self.high) <= 1e6
            harmless = self.columns in ("one", "many") or self.choices or self.integer or bounded
            object.__setattr__(self, "of_data", "nothing" if harmless else "values")

    def tells(self, value: Any, shown: Collection[str] = ()) -> bool:
        """Whether a published recipe may repeat a value.

        Somebody may have typed the value of one record: the largest salary as a top code, a rare job in a rule. So a number in
        the data's unit is told only if it is round (two significant digits), and a category only if it is among those that
        the release shows (`shown`, which names its columns too).
        """
        return self.published and (self.of_data == "nothing" or self._tells(value, shown))

    def _tells(self, value: Any, shown: Collection[str]) -> bool:
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, numbers.Real):
            return self.of_data == "categories" or float(f"{float(value):.1e}") == float(value)
        if isinstance(value, Mapping):
            named = self.per_column or self.columns == "weights" or all(str(key) in shown for key in value)
            return named and all(self._tells(v, shown) for v in value.values())
        if isinstance(value, list | tuple):
            return all(self._tells(v, shown) for v in value)
        if isinstance(value, Parametric):
            return not value.withheld(shown)
        if isinstance(value, str) and self.of_data == "rule":
            from sfumato.data.condition import Condition

            literals = Condition.parse(value).literals
            return all(v in shown if isinstance(v, str) else self._tells(v, shown) for v in literals)
        return str(value) in shown

    def allowed(self) -> str:
        """Return the allowed values, in words."""
        if self.choices:
            return "one of " + ", ".join(f"'{c}'" for c in self.choices)
        noun = "a whole number" if self.integer else "a number"
        low = "" if self.low is None else f" {'above' if self.above else 'of at least'} {self.low:g}"
        high = "" if self.high is None else f"{' and' if low else ' of'} at most {self.high:g}"
        return noun + low + high

    def check(self, where: str, value: Any) -> Any:
        """Return the value, normalised; refuse it in a sentence if it is not allowed."""
        if value is None:
            return None
        if self.columns in ("one", "many"):
            return _checked_columns(where, value, self.columns)
        if self.flag and not isinstance(value, bool):
            raise ParameterError(f"{where} must be true or false.")
        if self.choices:
            if value not in self.choices:
                raise ParameterError(f"{where} must be {self.allowed()}; got '{value}'.")
            return value
        if isinstance(value, Mapping) and (self.per_column or self.columns == "weights"):
            return {str(k): self._number(f"{where} of '{k}'", v) for k, v in value.items()}
        if self.columns == "weights":
            raise ParameterError(f"{where} must be a number for each column, by its name.")
        return self._number(where, value) if self.numeric else value

    def _number(self, where: str, value: Any) -> float | int:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        shown = repr(value) if isinstance(value, bool) or not isinstance(value, numbers.Real) else f"{number:g}"
        too_low = self.low is not None and (number < self.low or (self.above and number == self.low))
        too_high = self.high is not None and number > self.high
        if isinstance(value, bool) or not math.isfinite(number) or too_low or too_high:
            raise ParameterError(f"{where} must be {self.allowed()}; got {shown}.")
        if self.integer:
            if number != int(number):
                raise ParameterError(f"{where} must be {self.allowed()}; got {shown}.")
            return int(number)
        return number


def _checked_columns(where: str, value: Any, use: ColumnUse) -> Any:
    if use == "one":
        if not isinstance(value, str) or not value:
            raise ParameterError(f"{where} must be the name of a column.")
        return value
    listed = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes)
    names = (value,) if isinstance(value, str) else tuple(value) if listed else ()
    if not listed or not all(isinstance(n, str) and n for n in names):
        raise ParameterError(f"{where} must be a list of column names.")
    if len(set(names)) < len(names):
        raise ParameterError(f"{where} names a column twice.")
    return names


def param(default: Any = _MISSING, *, doc: str, **facts: Any) -> Any:
    """Declare a parameter: ``lambda2: float = param(0.15, doc="noise variance ratio", low=0, scale="log")``."""
    metadata = {"param": Parameter(doc, flag=isinstance(default, bool), **facts)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def learned(*depends: str, default: None = None) -> Any:
    """Declare what `fit` learns from the data: confidential, never written, never shown.

    It is forgotten when one of the parameters it depends on changes. Write ``default=None``, for the type checker's sake.
    """
    return dataclasses.field(default=default, repr=False, compare=False, metadata={"learned": depends})


def _set_choices(cls: type) -> None:
    """Let a parameter that is declared as a Literal, or by the name of one, take the texts of the Literal."""
    for name, annotation in inspect.get_annotations(cls).items():
        field = cls.__dict__.get(name)
        if not isinstance(field, dataclasses.Field) or not isinstance(annotation, str):
            continue
        own = field.metadata.get("param")
        if own is None or own.choices:
            continue
        declared = annotation.removesuffix(" | None")
        alias = vars(sys.modules[cls.__module__]).get(declared)
        if declared.startswith("Literal["):
            texts = ast.literal_eval(f"({declared.removeprefix('Literal[').removesuffix(']')},)")
        else:
            texts = get_args(alias) if get_origin(alias) is Literal else ()
        if texts:
            own = dataclasses.replace(own, choices=texts, of_data=None if own.of_data == "values" else own.of_data)
            field.metadata = MappingProxyType({**field.metadata, "param": own})


_REGISTRY: dict[str, dict[str, type[Parametric]]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(param, learned, dataclasses.field))
class Parametric:
    """Base of masks, measures and estimators: parameters, validation, TOML, registration."""

    family: ClassVar[str] = ""
    name: ClassVar[str] = ""

    def __init_subclass__(cls, family: str = "", abstract: bool = False, name: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if family:
            cls.family = family
            _REGISTRY.setdefault(family, {})
        cls.name = name or snake(cls.__name__)
        _set_choices(cls)
        dataclass(frozen=True, repr=True)(cls)
        if not abstract:
            other = _REGISTRY[cls.family].get(cls.name)
            if other is not None and other.__module__ != cls.__module__:
                raise ParameterError(f"there is already a {cls.family} named '{cls.name}', in {other.__module__}.")
            _REGISTRY[cls.family][cls.name] = cls

    def __post_init__(self) -> None:
        self.check_parameters()
        self.validate()

    def check_parameters(self) -> None:
        """Check each parameter by itself, and bring it into its normal form."""
        optional = {f.name for f in dataclasses.fields(self) if f.default is None}  # type: ignore[arg-type]
        for field, parameter in self.parameters().items():
            value = getattr(self, field)
            if value is None and field not in optional:
                raise ParameterError(f"{self.name} needs {field}: {parameter.doc}.")
            object.__setattr__(self, field, parameter.check(f"{field} of {self.name}", value))

    def validate(self) -> None:
        """Check what one parameter alone cannot tell; called once, at construction."""

    @classmethod
    def parameters(cls) -> dict[str, Parameter]:
        """Return the parameters by name."""
        return _marked(cls.__mro__[0], "param")

    @property
    def is_fitted(self) -> bool:
        """Whether everything that has to be learned from data has been learned."""
        return all(getattr(self, field) is not None for field in self._learned())

    @classmethod
    def _learned(cls) -> dict[str, tuple[str, ...]]:
        return _marked(cls.__mro__[0], "learned")

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed; what was learned stays, unless it depends on them."""
        refuse_unknown("parameter", self.parameters(), f"{self.name}", *changes)
        stale = {f: None for f, depends in self._learned().items() if set(depends) & set(changes)}
        return dataclasses.replace(self, **changes, **stale)  # type: ignore[type-var]

    def forget(self) -> Self:
        """Return a copy without anything learned from data."""
        return dataclasses.replace(self, **dict.fromkeys(self._learned())) if self._learned() else self  # type: ignore[type-var]

    def learn(self, **facts: Any) -> Self:
        """Return a copy that carries what was learned from data."""
        return dataclasses.replace(self, **facts)  # type: ignore[type-var]

    def withheld(self, shown: Collection[str] = ()) -> tuple[str, ...]:
        """Return the parameters that were set and that must not be published, given what the release shows.

        A default does not depend on the data, so it may always be told.
        """
        defaults = {f.name: f.default for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        set_ = {name: getattr(self, name) for name in self.parameters()}
        plain = {n: v for n, v in set_.items() if isinstance(v, str | int | float) and v == defaults[n]}
        return tuple(
            name for name, parameter in self.parameters().items()
            if set_[name] is not None
            and not (parameter.published and name in plain)
            and not parameter.tells(set_[name], shown)
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters for TOML; nothing learned is in it."""
        out: dict[str, Any] = {}
        for field in self.parameters():
            value = getattr(self, field)
            if value is None:
                continue
            if isinstance(value, Parametric):
                value = {value.family: value.name, **value.to_dict()}
            elif isinstance(value, tuple):
                value = [{v.family: v.name, **v.to_dict()} if isinstance(v, Parametric) else v for v in value]
            out[field] = value
        return out

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Build from a TOML table; the inverse of `to_dict`."""
        known = cls.parameters()
        values: dict[str, Any] = {}
        for field, value in table.items():
            refuse_unknown("parameter", known, cls.name, field)
            values[field] = _nested(value)
        bare = [f.name for f in dataclasses.fields(cls) if f.default is _MISSING and f.default_factory is _MISSING]  # type: ignore[arg-type]
        required = [name for name in bare if name in known]
        if absent := [f for f in required if f not in values]:
            raise ParameterError(f"{cls.name} needs {', '.join(absent)}: {known[absent[0]].doc}.")
        return cls(**values)


@cache
def _marked(cls: type, mark: str) -> dict[str, Any]:
    return {f.name: f.metadata[mark] for f in dataclasses.fields(cls) if mark in f.metadata}


def _nested(value: Any) -> Any:
    if isinstance(value, Mapping):
        for family in _REGISTRY:
            if isinstance(value.get(family), str):  # a number there belongs to a column of that name
                return build(family, value)
        return dict(value)
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


def snake(name: str) -> str:
    """Return a class name in lower case with underscores: ``KimNoise`` is ``kim_noise``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def registered(family: str) -> dict[str, type[Parametric]]:
    """Return every class of a family ("mask", "measure", "table measure") by name: installed ones and those defined so far.

    Packages offer classes by entry points, sfumato's own among them (pyproject.toml): those of the group ``sfumato.mask`` name
    modules, or packages with ``__all__``, that define masks. So a mask of your own comes to the command line by `pip install`.
    """
    _load_installed(family)
    return dict(_REGISTRY.get(family, {}))


@cache
def _load_installed(family: str) -> None:
    for point in entry_points(group=f"sfumato.{family.replace(' ', '_')}"):
        try:
            module = point.load()
            for name in getattr(module, "__all__", ()):  # packages import what they offer when it is asked for
                getattr(module, name)
        except (ImportError, AttributeError):
            raise ParameterError(
                f"'{point.value}', which is installed as a {family} for sfumato, cannot be imported. Repair or remove that package."
            ) from None


def find(family: str, name: str) -> type[Parametric]:
    """Return a registered class by name; the nearest name is offered when there is none."""
    known = registered(family)
    if name not in known:
        raise ParameterError(unknown_name(family, name, sorted(known), f"the list of {re.sub('sis$', 'se', family)}s"))
    return known[name]


def build(family: str, table: Mapping[str, Any]) -> Any:
    """Build an instance from a TOML table whose key `family` names the class."""
    fields = dict(table)
    return find(family, str(fields.pop(family, ""))).from_dict(fields)


class Scope(StrEnum):
    """How much of the data a method has to see at once, once it is fitted."""

    ROW = "row"
    """One record: runs anywhere, in any pieces, with the same result."""
    BLOCK = "block"
    """A group of records: pieces may change the result, and the method says how."""
    GLOBAL = "global"
    """All records."""
