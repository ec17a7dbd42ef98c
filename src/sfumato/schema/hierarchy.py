"""Hierarchies: what every one can do, those written out in full, those by the first characters of a code, and CSV files."""

from __future__ import annotations

import csv
import io
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from sfumato.errors import SchemaError, join_names, refuse_unknown
from sfumato.files import whole_file
from sfumato.lazy import pd
from sfumato.typing import Objects

ROOT = "*"


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

    def generalise(self, values: Iterable[object], level: int) -> Objects:
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
            raise SchemaError(f"a hierarchy needs a kind. The kinds are: {join_names(kinds)}.")
        refuse_unknown("kind", kinds, "the list of hierarchy kinds", kind, error=SchemaError)
        built = kinds[kind]
        known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(built)}
        refuse_unknown("field", known, f"a hierarchy of kind '{kind}'", *parameters, error=SchemaError)
        if absent := [name for name, required in known.items() if required and name not in parameters]:
            raise SchemaError(f"a hierarchy of kind '{kind}' also needs: {join_names(absent)}.")
        return built(**parameters)

    # -- inside

    def _labels(self, distinct: NDArray[Any], level: int) -> Objects:
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
    return value is None or value is pd.NA or value is pd.NaT or bool(value != value)  # NaN differs from itself


def _factorise(values: Iterable[object]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return a code per value (-1 for missing), and the distinct values as objects that codes point into."""
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


Row = tuple[str, ...]
Tree = Mapping[str, Any]  # label -> tree below it, or a list of values, or None for a value


@dataclass(frozen=True, repr=False)
class TreeHierarchy(Hierarchy):
    """A table of values and their ancestors, as in an ARX hierarchy file.

    Parameters
    ----------
    rows
        One row per value: the value, its ancestors, and last the root, which is the same in all rows.
        Where a value is not generalised further its label is repeated.

    Examples
    --------
    >>> work = TreeHierarchy([["nurse", "health", "*"], ["doctor", "health", "*"], ["farmer", "farmer", "*"]])
    >>> work.path("nurse")
    ('nurse', 'health', '*')
    >>> work.generalise(["farmer", None, "doctor"], 1).tolist()
    ['farmer', None, 'health']
    """

    kind: ClassVar[str] = "tree"
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        rows = [
            tuple(label_of(label) for label in items(row, "a row of a hierarchy", "['nurse', 'health', '*']"))
            for row in items(self.rows, "the rows of a hierarchy", "[['nurse', 'health', '*']]")
        ]
        _check_shape(rows)
        object.__setattr__(self, "rows", tuple(dict.fromkeys(rows)))
        _check_parents(self.rows)

    @classmethod
    def from_levels(cls, levels: Mapping[Any, Sequence[object]]) -> TreeHierarchy:
        """Build from ``{value: [label on level 1, label on level 2, ...]}``; a root is added if the lists have none.

        >>> TreeHierarchy.from_levels({"Rome": ["Italy"], "Oslo": ["Norway"]}).path("Oslo")
        ('Oslo', 'Norway', '*')
        """
        example = "{'Rome': ['Italy'], 'Oslo': ['Norway']}"
        if not isinstance(levels, Mapping):
            raise SchemaError(f"the levels must be a mapping, such as {example}.")
        ancestors = {label_of(k): items(v, "the labels above a value", "['Italy', '*']") for k, v in levels.items()}
        return cls(with_root([(value, *map(label_of, above)) for value, above in ancestors.items()]))

    @classmethod
    def from_tree(cls, tree: Tree, root: str = ROOT) -> TreeHierarchy:
        """Build from nested mappings, the labels below the root first; shallow values are repeated to equal depth.

        >>> places = TreeHierarchy.from_tree({"Europe": {"Italy": ["Rome", "Pisa"]}, "at sea": None})
        >>> places.path("at sea")
        ('at sea', 'at sea', 'at sea', '*')
        """
        paths = list(_paths(tree, (root,)))
        depth = max((len(path) for path in paths), default=0)
        return cls([(path[0],) * (depth - len(path)) + path for path in paths])

    def __repr__(self) -> str:
        return f"TreeHierarchy({len(self.rows):,} values, height {self.height})"

    @override
    @property
    def height(self) -> int:
        return len(self.rows[0]) - 1

    @property
    def root(self) -> str:
        """The last label of every row; mostly ``*``, but a file may name it."""
        return self.rows[0][-1]

    @property
    def values(self) -> tuple[str, ...]:
        """The values on level 0, in the order of the rows."""
        return tuple(row[0] for row in self.rows)

    @property
    def lists_values(self) -> bool:
        """Whether it names single values: it does."""
        return True

    def limited_to(self, texts: Collection[str]) -> TreeHierarchy:
        """Return the tree of these labels alone, of the same height: what stands below a label that is no value is cut."""
        rows = [row for row in self.rows if row[0] in texts]
        known, width = {label for row in rows for label in row}, self.height + 1
        for label, path in self._path_of.items():
            if label in texts and label not in known:
                rows.append((label,) * (width - len(path)) + path)
                known |= set(path)
        return TreeHierarchy(rows or [(self.root,) * width])

    def leaves(self, value: object) -> int:
        """Return the number of rows in which the label stands."""
        return self._leaf_counts[self.path(value)[0]]

    @cached_property
    def _leaf_counts(self) -> Counter[str]:
        return Counter(label for row in self.rows for label in set(row))

    @cached_property
    def _path_of(self) -> dict[str, Row]:
        paths: dict[str, Row] = {}
        for level in range(self.height):
            for row in self.rows:
                paths.setdefault(row[level], tuple(row[level:]))
        top = (self.root,)
        paths.setdefault(ROOT, top)  # a suppressed value is '*' whatever the file calls its root
        paths[self.root] = top
        return paths

    def _path(self, value: object) -> Row | None:
        return self._path_of.get(label_of(value))

    def _why_unknown(self, values: Sequence[object]) -> str:
        return (
            f"It lists {len(self.rows):,} values. Compare the column's distinct values with `hierarchy.values`: "
            f"look for spelling, spaces, capitals, and codes for missing answers that the schema does not name."
        )


def with_root(rows: Sequence[Row]) -> list[Row]:
    """Add the level ``*`` unless all rows end in the same label already."""
    rooted = len({row[-1] for row in rows if row}) == 1 and all(len(row) > 1 for row in rows)
    return list(rows) if rooted else [(*row, ROOT) for row in rows]


def _paths(tree: object, above: Row) -> Iterable[Row]:
    if isinstance(tree, Mapping):
        for label, below in tree.items():
            path = (label_of(label), *above)
            if below is None or (isinstance(below, (Mapping, list, tuple)) and not below):
                yield path
            else:
                yield from _paths(below, path)
    else:
        for value in items(tree, "what stands under a label", "['Rome', 'Pisa'] or {'Italy': ['Rome', 'Pisa']}"):
            yield (label_of(value), *above)


def _check_shape(rows: Sequence[Row]) -> None:
    if not rows:
        raise SchemaError("a hierarchy needs at least one value.")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise SchemaError(f"row {number} of the hierarchy has {len(row)} labels, but row 1 has {width}.")
        if "" in row:
            raise SchemaError(f"row {number} of the hierarchy has an empty label. Give every level a label.")
    if width < 2:
        raise SchemaError("a row of a hierarchy needs at least the value and the root '*'.")
    roots = sorted({row[-1] for row in rows})
    if len(roots) > 1:
        raise SchemaError(
            f"all rows of a hierarchy must end in the same root, but these end in '{roots[0]}' and '{roots[1]}'"
            f"{'' if len(roots) == 2 else ' and others'}. Add '*' to every row, or use `TreeHierarchy.from_levels`."
        )


def _check_parents(rows: Sequence[Sequence[str]]) -> None:
    """Refuse a label with two parents: it would be unclear what contains it."""
    seen: dict[str, tuple[int, str]] = {}  # label -> the highest level it stands on, and its parent there
    for level in range(len(rows[0])):
        here: dict[str, str] = {}
        for row in rows:
            label, parent = row[level], row[level + 1] if level + 1 < len(row) else ""
            if here.setdefault(label, parent) != parent:
                raise SchemaError(
                    f"'{label}' on level {level} stands under both '{here[label]}' and '{parent}', "
                    f"but a label has one parent. Rename one of the two, or correct its path."
                )
        for label, parent in here.items():
            if label in seen and seen[label] != (level - 1, label):
                lower, other = seen[label]
                raise SchemaError(
                    f"'{label}' stands on level {lower} under '{other}' and again on level {level}, which is another "
                    f"place. A label may recur only directly above itself. Rename one of the two."
                )
            seen[label] = (level, parent)


@dataclass(frozen=True)
class PrefixHierarchy(Hierarchy):
    """Codes of fixed length that lose characters from the right.

    Numbers, also as text, are padded with zeros on the left. "482*" is read as "482**".

    Parameters
    ----------
    length
        Number of characters of a code.
    keep
        How many characters stay on each level, from fine to coarse. Unless told otherwise every shorter length is a
        level: (4, 3, 2, 1) for zip codes of length 5.
    fill
        The sign that stands for a dropped character.
    alphabet
        How many characters are possible in each place: 10 for digits, 36 with capitals. Only `leaves` uses it.

    Examples
    --------
    >>> PrefixHierarchy(5).path(48201)
    ('48201', '4820*', '482**', '48***', '4****', '*')
    >>> PrefixHierarchy(5).common("48201", "49301")
    '4****'
    """

    kind: ClassVar[str] = "prefix"
    length: int
    keep: Sequence[int] | None = None
    fill: str = "*"
    alphabet: int = 10

    def __post_init__(self) -> None:
        length = whole_number(self.length, "the length of a prefix hierarchy", 1)
        given = tuple(range(length - 1, 0, -1)) if self.keep is None else items(self.keep, "keep", "[3, 2]")
        keep = tuple(whole_number(k, "each number in keep", 1) for k in given)
        if any(below <= above for below, above in zip((length, *keep), keep, strict=False)):
            raise SchemaError(
                f"keep must fall from level to level and stay under the length {length}, such as [3, 2]; "
                f"it is {list(keep)}."
            )
        if not isinstance(self.fill, str) or len(self.fill) != 1 or self.fill.isalnum() or self.fill.isspace():
            raise SchemaError("the fill must be one sign that is neither a letter, a digit nor a space, such as '*'.")
        for name, value in (("length", length), ("keep", keep)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "alphabet", whole_number(self.alphabet, "the size of the alphabet", 2))

    @override
    @property
    def height(self) -> int:
        return len(self._kept) + 1

    def leaves(self, value: object) -> int:
        """Return the number of possible codes under `value`: alphabet ** (number of dropped characters).

        The codes are those that could exist, since the hierarchy holds no list of those that do.
        """
        label = self.path(value)[0]
        kept = 0 if label == ROOT else len(label.rstrip(self.fill))
        return int(self.alphabet ** (self.length - kept))

    @property
    def _kept(self) -> tuple[int, ...]:
        return tuple(self.keep or ())

    def _path(self, value: object) -> tuple[str, ...] | None:
        code = label_of(value)
        prefix = code.rstrip(self.fill)
        if code in (ROOT, self.fill * self.length):
            return (ROOT,)
        if prefix == code and code.isascii() and code.isdigit():
            prefix = code = code.zfill(self.length)
        elif prefix != code and len(code) < self.length:
            code = code.ljust(self.length, self.fill)
        known = len(prefix) in (self.length, *self._kept)
        if isinstance(value, bool) or len(code) != self.length or not known or self.fill in prefix:
            return None
        kept = [k for k in (self.length, *self._kept) if k <= len(prefix)]
        return (*(prefix[:k].ljust(self.length, self.fill) for k in kept), ROOT)

    def _why_unknown(self, values: Sequence[object]) -> str:
        long = sum(len(label_of(value)) > self.length for value in values)
        cause = f"{long:,} of them have more than {self.length} characters, the length of its codes. " if long else ""
        return (
            f"{cause}It takes codes of {self.length} characters, numbers (padded with zeros), and codes that keep "
            f"{' or '.join(map(str, self._kept)) or 'no'} characters followed by '{self.fill}'. "
            f"Look for extensions, spaces, and codes for missing answers."
        )


# Hierarchies as CSV files, the way ARX writes them: no header, the value first, the root last.


SEPARATORS = (";", "\t", ",")  # in order of preference: labels hold commas more often than semicolons

Line = tuple[int, tuple[str, ...]]


def read_hierarchy_csv(path: str | Path, separator: str | None = None) -> TreeHierarchy:
    """Read a hierarchy file: one line per value, the value first, then its label on every level.

    If the last column is not the same label throughout, the root ``*`` is added above it.
    Unless told, the separator is found among semicolon, tab and comma.
    """
    text = _read(path)
    lines = _lines(text, _sniff(text, path) if separator is None else _checked(separator), path)
    if not lines:
        raise SchemaError(f"the hierarchy file {path} is empty. It needs one line per value.")
    _, first = lines[0]
    for number, cells in lines:
        if len(cells) != len(first):
            raise SchemaError(
                f"line {number} of the hierarchy file {path} has {_columns(len(cells))}, but the first line has "
                f"{_columns(len(first))}. Every line needs the value and one label per level; check the separator too."
            )
        if "" in cells:
            raise SchemaError(
                f"line {number} of the hierarchy file {path} has an empty cell. Give every level a label."
            )
    try:
        return TreeHierarchy(with_root([cells for _, cells in lines]))
    except SchemaError as error:
        raise SchemaError(f"in the hierarchy file {path}: {error}") from None


def write_hierarchy_csv(hierarchy: Hierarchy, path: str | Path, values: Iterable[object] | None = None) -> None:
    """Write a hierarchy as ARX reads it, semicolon separated.

    Parameters
    ----------
    hierarchy
        Any hierarchy.
    path
        File to write.
    values
        Level-0 values to write, each once. A `TreeHierarchy` knows its values; other kinds need them here.
    """
    if values is not None:
        rows = dict.fromkeys(hierarchy.path(value) for value in values)
        if short := sum(len(row) <= hierarchy.height for row in rows):
            raise SchemaError(f"{short:,} of the values are generalised already. Give the values of level 0 only.")
    elif isinstance(hierarchy, TreeHierarchy):
        rows = dict.fromkeys(tuple(row) for row in hierarchy.rows)
    else:
        raise SchemaError(
            f"a hierarchy of kind '{hierarchy.kind}' holds no list of values. Give the values to write, "
            f"for example the column's distinct values."
        )
    if not rows:
        raise SchemaError("there are no values to write.")
    out = io.StringIO()
    csv.writer(out, delimiter=SEPARATORS[0]).writerows(rows)  # lines end in CR LF, so either in a label is quoted
    with whole_file(path) as temporary:
        temporary.write_bytes(out.getvalue().encode("utf-8"))


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"the hierarchy file {path} is not UTF-8 text. Save it as UTF-8.") from None
    except OSError as error:
        raise SchemaError(f"cannot read the hierarchy file {path}: {error.strerror or 'unknown reason'}.") from None


def _checked(separator: str) -> str:
    if not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n':
        raise SchemaError("the separator must be one sign, such as ';'.")
    return separator


def _lines(text: str, separator: str, path: str | Path) -> list[Line]:
    """Return the lines that are not blank, each with its number in the file."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return [(reader.line_num, tuple(cells)) for cells in reader if cells]
    except csv.Error:
        raise SchemaError(f"line {reader.line_num} of the hierarchy file {path} cannot be read as CSV.") from None


def _sniff(text: str, path: str | Path) -> str:
    """Return the separator that splits all lines alike; failing that, the one that splits the first line most."""
    widths = {s: [len(cells) for _, cells in _lines(text, s, path)] for s in SEPARATORS}
    for separator, found in widths.items():
        if len(set(found)) == 1 and found[0] > 1:
            return separator
    return max(SEPARATORS, key=lambda s: widths[s][0] if widths[s] else 0)


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"
