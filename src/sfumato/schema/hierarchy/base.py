"""What every hierarchy can do, whatever its labels look like."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SchemaError, listing, unknown_name

ROOT = "*"

Labels = NDArray[np.object_]


@dataclass(frozen=True)
class Hierarchy(ABC):
    """A tree of labels over the values of one column.

    Level 0 is the value itself, level `height` is the root ``*``. Values that are already generalised
    ("482**", "[20, 30)") are values too: they stand at their own level.

    A label may stand on several adjacent levels, where a value is not generalised further. It then counts as standing
    on the lowest of them (`level_of`, `path`), and covers all that it covers on the highest (`contains`, `leaves`).

    Errors name labels of the hierarchy and counts, never a value of the data.
    """

    kind: ClassVar[str] = ""
    _kinds: ClassVar[dict[str, type[Hierarchy]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind:
            Hierarchy._kinds[cls.kind] = cls

    # -- what a kind must say

    @property
    @abstractmethod
    def height(self) -> int:
        """Level of the root."""

    @abstractmethod
    def leaves(self, value: object) -> int:
        """Return how many level-0 values stand under `value`: 1 for a value itself."""

    @abstractmethod
    def _path(self, value: object) -> tuple[str, ...] | None:
        """Return the path of a value that is not missing, or ``None`` if it is not in the hierarchy."""

    @abstractmethod
    def _why_unknown(self, values: Sequence[object]) -> str:
        """Say what to check, given the values that are not in the hierarchy. Never quote one."""

    @property
    def lists_values(self) -> bool:
        """Whether it names single values of the column one by one, as a tree does."""
        return False

    def limited_to(self, texts: Collection[str]) -> Hierarchy:
        """Return a hierarchy that names no value besides these: for what is published. Rules and intervals name none."""
        return self

    # -- what follows from it

    @property
    def root(self) -> str:
        """The label that stands for every value."""
        return ROOT

    def generalise(self, values: Iterable[object], level: int) -> Labels:
        """Return the labels of `values` on one level, an array of text of the same length.

        Missing values (None, NaN, NaT) stay missing (None). A value that already stands above `level` stays as it is.
        """
        level = self._checked_level(level)
        codes, distinct = _factorise(values)
        labels = self._labels(distinct, level)
        unknown = [value for value, label in zip(distinct.tolist(), labels, strict=True) if label is None]
        if unknown:
            raise self._unknown(unknown)
        missing_last = np.append(labels, np.array([None], dtype=object))  # the code of a missing value is -1
        return missing_last[codes]

    def path(self, value: object) -> tuple[str, ...]:
        """Return the value's label and its ancestors, up to the root.

        The path of a level-0 value has ``height + 1`` labels, so that ``path[i]`` is the label on level i.
        """
        if _is_missing(value):
            raise SchemaError("a missing value has no place in a hierarchy. Leave missing values out.")
        path = self._path(value)
        if path is None:
            raise self._unknown([value])
        return path

    def level_of(self, value: object) -> int:
        """Return the level on which a value stands: 0 for a value itself, `height` for the root."""
        return self.height + 1 - len(self.path(value))

    def contains(self, general: object, value: object) -> bool:
        """Whether `value` is `general`, or stands under it."""
        return self.path(general)[0] in self.path(value)

    def common(self, a: object, b: object) -> str:
        """Return the lowest label that contains both values; the root if nothing else does."""
        above_b = set(self.path(b))
        return next(label for label in self.path(a) if label in above_b)

    def to_dict(self) -> dict[str, Any]:
        """Return what TOML needs; the inverse of `from_dict`."""
        table: dict[str, Any] = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value != ():
                table[field.name] = _plain(value)
        return table

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Hierarchy:
        """Build a hierarchy of any kind from a TOML table; `kind` says which."""
        parameters = dict(table)
        kind = parameters.pop("kind", None)
        kinds = Hierarchy._kinds
        if kind is None:
            raise SchemaError(f"a hierarchy needs a kind. The kinds are: {listing(kinds)}.")
        if kind not in kinds:
            raise SchemaError(unknown_name("kind", str(kind), kinds, "the list of hierarchy kinds"))
        built = kinds[kind]
        known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(built)}
        for name in parameters:
            if name not in known:
                raise SchemaError(unknown_name("field", str(name), known, f"a hierarchy of kind '{kind}'"))
        if absent := [name for name, required in known.items() if required and name not in parameters]:
            raise SchemaError(f"a hierarchy of kind '{kind}' also needs: {listing(absent)}.")
        return built(**parameters)

    # -- inside

    def _labels(self, distinct: NDArray[Any], level: int) -> Labels:
        """Return the label of each distinct value on a level, None where the value is unknown."""
        labels = np.empty(len(distinct), dtype=object)
        for i, value in enumerate(distinct.tolist()):
            path = self._path(value)
            labels[i] = None if path is None else path[max(0, level + len(path) - self.height - 1)]
        return labels

    def _checked_level(self, level: int) -> int:
        try:
            whole = operator.index(level)
        except TypeError:
            whole = -1
        if not 0 <= whole <= self.height:
            raise SchemaError(f"the level of this hierarchy is a whole number from 0 to {self.height}, not {level!r}.")
        return whole

    def _unknown(self, values: Sequence[object]) -> SchemaError:
        n = len(values)
        count = "1 value is" if n == 1 else f"{n:,} distinct values are"
        return SchemaError(f"{count} not in this hierarchy. {self._why_unknown(values)}")


def number_label(number: int | float) -> str:
    """Print a number the way a person writes it: 20, not 20.0.

    >>> number_label(20.0), number_label(0.5)
    ('20', '0.5')
    """
    if isinstance(number, float) and not (number.is_integer() and abs(number) < 1e15):
        return repr(number)
    return str(int(number))


def label_of(value: object) -> str:
    """Return the text by which a hierarchy knows a value: the same for 7, 7.0 and "7"."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_label(value)
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"
    return str(value)


def whole_number(value: object, name: str, least: int) -> int:
    """Return a parameter as an int, or refuse it in words."""
    whole = value if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None
    if whole is None or whole < least:
        raise SchemaError(f"{name} must be a whole number, at least {least}.")
    return int(whole)


def items(value: object, name: str, example: str) -> tuple[Any, ...]:
    """Return a parameter that must be a list as a tuple, or refuse it in words."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise SchemaError(f"{name} must be a list, such as {example}.")
    return tuple(value)


def _plain(value: object) -> object:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _is_missing(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or bool(value != value)  # NaN differs from itself


def _factorise(values: Iterable[object]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return a code per value (-1 for missing), and the distinct values as objects that codes point into."""
    import pandas as pd

    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError("give a list or a column of values; for a single value use `path`.")
    # a plain list goes in as objects: numpy would turn [1.0, "a"] into the text "1.0"
    array = np.asarray(values) if hasattr(values, "__array__") else np.fromiter(values, dtype=object)
    if array.ndim != 1:
        raise SchemaError(f"give one column of values, not an array of {array.ndim} dimensions.")
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")  # numpy turns nanoseconds into whole numbers, microseconds into dates
    try:
        codes, distinct = pd.factorize(array)
    except TypeError:
        raise SchemaError(
            "a column with a hierarchy holds text, numbers or dates; this one holds other things."
        ) from None
    return codes, np.asarray(distinct)
