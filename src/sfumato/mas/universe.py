"""The records that a question is about: a union of pieces, and the cells of a data set that it selects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.data.condition import Comparison, Condition, Joined
from sfumato.errors import DataError, ParameterError, shorten
from sfumato.files import parse_json
from sfumato.mas.variable import MISSING, Variable, level_text, need_variable
from sfumato.typing import Flags

# --- universe
# A universe: a union of pieces, each a choice of levels of some variables.

Spec = Any
"""Forms of a universe: nothing, a text, a mapping of variables to levels, a list of such mappings, a Universe."""

_MOST_PIECES = 1_000
_MOST_LEVELS = 10_000
_MOST_SIGNS = 1_000_000
_FORMS = (
    "a universe is a text, a mapping of variables to levels, or a list of such mappings: "
    "{'sex': 'F', 'age': ['60 to 69', '70 to 89']}."
)


@dataclass(frozen=True)
class LevelChoice:
    """Some levels of a variable, or all others."""

    texts: tuple[str, ...]
    """Levels, or ranges of numbers such as "60-89"."""
    others: bool = False
    """Whether the levels that are not named are chosen."""
    also: tuple[LevelChoice, ...] = ()
    """Further choices for the same variable; the intersection is chosen: age >= 30 and age < 50."""

    @classmethod
    def of(cls, given: Any, variable: str) -> LevelChoice:
        """Read "F", 3, ["F", "M"], {"not": ["F"]}, or {"all": [">= 30", "< 50"]}."""
        if isinstance(given, LevelChoice):
            return given
        if isinstance(given, Mapping):
            return cls._joined(given, variable)
        listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
        if not listed or not all(isinstance(v, str | Real | np.bool_) for v in listed):
            raise ParameterError(f"the levels of '{shorten(variable)}' are texts or numbers, at least one.")
        if len(listed) > _MOST_LEVELS:
            raise ParameterError(f"a universe names more than {_MOST_LEVELS:,} levels of '{shorten(variable)}'.")
        return cls(tuple(dict.fromkeys(level_text(v) for v in listed)))

    @classmethod
    def _joined(cls, given: Mapping[Any, Any], variable: str) -> LevelChoice:
        """Read {"not": ...} and {"all": [...]}; they contain a level, a list of levels, or {"not": ...}."""
        if set(given) == {"not"} and not (inner := cls.of(given["not"], variable)).also:
            return cls(inner.texts, not inner.others)
        if set(given) == {"all"} and isinstance(given["all"], list | tuple) and 0 < len(given["all"]) <= _MOST_PIECES:
            return reduce(cls.__and__, [cls.of(part, variable) for part in given["all"]])
        raise ParameterError(
            f'the levels of \'{shorten(variable)}\' are a list, {{"not": [...]}} for all others, or {{"all": [...]}} for what '
            "several choices have in common."
        )

    def __and__(self, other: LevelChoice) -> LevelChoice:
        mine = (replace(self, also=()), *self.also)
        more = tuple(c for c in (replace(other, also=()), *other.also) if c not in mine)
        return replace(self, also=(*self.also, *more))

    def among(self, variable: Variable) -> set[int]:
        """Return the numbers of the chosen levels of a variable."""
        absent = self.others and MISSING not in variable.levels  # no record needs to be excluded
        named = set(variable.pick(t for t in self.texts if not (absent and t == MISSING)))
        found = set(range(len(variable.levels))) - named if self.others else named
        return found.intersection(*(choice.among(variable) for choice in self.also))

    def to_json(self) -> Any:
        """Return the inverse of `of`."""
        if self.also:
            return {"all": [choice.to_json() for choice in (replace(self, also=()), *self.also)]}
        return {"not": list(self.texts)} if self.others else list(self.texts)


Piece = Mapping[str, LevelChoice]


@dataclass(frozen=True)
class Universe:
    """A union of pieces (section 3.2 of the paper); without pieces, everybody.

    Examples
    --------
    >>> Universe.of("sex == 'F' and age in ('60 to 69', '70 to 89') or state == 'S03'") == Universe.of(
    ...     [{"sex": "F", "age": ["60 to 69", "70 to 89"]}, {"state": "S03"}])
    True
    """

    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, spec: Spec = None, /, **levels: Any) -> Universe:
        """Make a universe from any of its forms; keywords are one piece."""
        if levels:
            if spec is not None:
                raise ParameterError("give a universe, or levels by name, not both.")
            spec = levels
        if spec is None or isinstance(spec, Universe):
            return spec or cls()
        if isinstance(spec, str):
            return cls.parse(spec)
        if isinstance(spec, Mapping):
            spec = [spec]
        listed: list[Any] = list(spec) if isinstance(spec, Iterable) else [None]
        if not all(isinstance(piece, Mapping) for piece in listed):
            raise ParameterError(_FORMS)
        _check_pieces(len(listed))
        pieces = tuple({str(k): LevelChoice.of(v, str(k)) for k, v in piece.items()} for piece in listed)
        if len(pieces) > 1 and not all(pieces):
            raise ParameterError(
                "a piece of the universe has no condition, and is everybody. Leave it out, or ask about everybody."
            )
        return cls(pieces if any(pieces) else ())

    @classmethod
    def parse(cls, text: str) -> Universe:
        """Read JSON, or the small language: ``sex == 'F' and age == '60 to 69' or state in ('S01', 'S03')``."""
        if len(text) > _MOST_SIGNS:
            raise ParameterError(
                f"the universe is a text of more than {_MOST_SIGNS:,} signs. Write it with fewer pieces."
            )
        if text.strip()[:1] in ("{", "["):
            try:
                return cls.of(parse_json(text, object_pairs_hook=_each_once))
            except ValueError:
                raise ParameterError(
                    'the universe begins like JSON, but is not JSON such as {"sex": ["F"]}: check brackets and double quotes.'
                ) from None
        if text.strip().lower() in ("", "all", "everybody"):
            return cls()
        pieces = tuple(_pieces(Condition.parse(_plain_ranges(text)).tree))
        _check_pieces(len(pieces))
        return cls(pieces)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that form it, each once, in order of their names."""
        return tuple(sorted({name for piece in self.pieces for name in piece}))

    def __or__(self, other: Universe) -> Universe:
        return Universe(self.pieces + other.pieces) if self.pieces and other.pieces else Universe()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the pieces in the form of JSON."""
        return [{name: choice.to_json() for name, choice in piece.items()} for piece in self.pieces]


_QUOTED = re.compile(r"""('(?:[^']|'')*'|"[^"]*")""")
_AMOUNT = r"-?\d[\d,]*(?:\.\d+)?"
_BETWEEN = re.compile(rf"({_AMOUNT})\s*(<=?)\s*(\w+|`[^`]+`)\s*(<=?)\s*({_AMOUNT})")
_COMPARED = re.compile(r"(?<=[<>=])\s*(-?\d{1,3}(?:,\d{3})+)(?![\d,])")


def _plain_ranges(text: str) -> str:
    """Return a text in which a variable between two numbers is two comparisons, and numbers have no marks of thousands.

    >>> _plain_ranges("28,501 <= income <= 39,500 and state == '1 <= x <= 2'")
    "(income >= 28501 and income <= 39500) and state == '1 <= x <= 2'"
    """

    def two(found: re.Match[str]) -> str:
        low, above, name, through, high = found.groups()
        return f"({name} {above.replace('<', '>')} {low.replace(',', '')} and {name} {through} {high.replace(',', '')})"

    def said(part: str) -> str:
        return _COMPARED.sub(lambda m: f" {m[1].replace(',', '')}", _BETWEEN.sub(two, part))

    return "".join(part if i % 2 else said(part) for i, part in enumerate(_QUOTED.split(text)))


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from JSON; refuse a repeated name, whose first value would be lost silently."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ParameterError("a piece of the universe names a variable twice. List its levels in one place.")
    return dict(pairs)


def _check_pieces(count: int) -> None:
    if count > _MOST_PIECES:
        raise ParameterError(
            f"the universe has more than {_MOST_PIECES:,} pieces. List several levels in one comparison."
        )


def _pieces(tree: Comparison | Joined) -> list[Piece]:
    """Read a condition as a union of pieces: each part of an "or" is a piece."""
    if isinstance(tree, Comparison):
        return [{tree.column: _choice(tree, False)}]
    if tree.sign == "not":
        inner = tree.parts[0]
        if isinstance(inner, Comparison):
            return [{inner.column: _choice(inner, True)}]
        if inner.sign == "not":
            return _pieces(inner.parts[0])
        turned = tuple(Joined("not", (part,)) for part in inner.parts)
        return _pieces(Joined("and" if inner.sign == "or" else "or", turned))
    if tree.sign == "or":
        return [piece for part in tree.parts for piece in _pieces(part)]
    pieces: list[Piece] = [{}]
    for part in tree.parts:
        pieces = [_both(one, other) for one in pieces for other in _pieces(part)]
        _check_pieces(len(pieces))
    return pieces


def _both(one: Piece, other: Piece) -> Piece:
    """Join the conditions of two pieces; several conditions on one variable must all hold."""
    return {**one, **other, **{name: one[name] & other[name] for name in one if name in other}}


def _choice(part: Comparison, turned: bool) -> LevelChoice:
    if part.sign == "is missing":
        return LevelChoice((MISSING,), turned)
    given = getattr(part.value, "name", part.value)  # sex = F, without quotes
    values = given if isinstance(given, tuple) else (given,)
    if part.sign in ("==", "in", "!="):
        choice = LevelChoice.of(list(values), part.column)
        return LevelChoice(choice.texts, turned != (part.sign == "!="))
    return LevelChoice((f"{part.sign} {given if isinstance(given, str) else level_text(given)}",), turned)


# --- selection
# A universe in the levels of a data set: which cells of the table of its variables are selected.


T = TypeVar("T", bound=np.generic)
_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected cells of an m-way table; arrays have one axis per variable, as long as its number of levels."""

    variables: tuple[Variable, ...]
    """In order of their names."""
    pieces: tuple[Flags, ...]
    """The cells that each piece selects; for everybody, one piece with all cells."""

    @classmethod
    def of(cls, universe: Universe, variables: Mapping[str, Variable]) -> Selection:
        """Find the levels that a universe names; refuse unknown names, and pieces without a level."""
        used = tuple(need_variable(name, variables) for name in universe.variables)
        for variable in used:
            variable.need_levels()
        if math.prod(len(v.levels) for v in used) > _CELLS:
            raise DataError(
                f"the table that the universe is chosen from would have more than {_CELLS:,} cells. "
                "Form it with fewer variables, or with coarser ones."
            )
        pieces = []
        for piece in universe.pieces or ({},):
            flags = np.ones([len(v.levels) for v in used], bool)
            for axis, variable in enumerate(used):
                if (choice := piece.get(variable.name)) is None:
                    continue
                chosen = np.zeros(len(variable.levels), bool)
                chosen[list(choice.among(variable))] = True
                if not chosen.any():
                    raise DataError(f"a piece of the universe leaves no level of '{variable.name}'. Name at least one.")
                flags &= along(chosen, axis, len(used))
            pieces.append(flags)
        if len({(v.base or v).name for v in used}) < len(
            used
        ):  # with a recode beside its base variable, some cells are impossible
            laid = [in_base(used, flags) for flags in pieces]
            used, pieces = laid[0][0], [flags for _, flags in laid]
            if not all(flags.any() for flags in pieces):
                raise DataError("a piece of the universe has conditions that no level meets. Leave one of them out.")
        return cls(used, tuple(pieces))

    @cached_property
    def chosen(self) -> Flags:
        """The cells that any piece selects."""
        return np.asarray(np.logical_or.reduce(self.pieces), bool)

    @cached_property
    def plain(self) -> Selection:
        """The same records without pieces: recodes replaced by base levels, variables without effect removed."""
        variables, chosen = in_base(self.variables, self.chosen)
        kept = list(variables)
        for variable in variables:
            axis = kept.index(variable)
            if (chosen == chosen.take([0], axis)).all():
                chosen = np.asarray(chosen.take(0, axis), bool)
                kept.remove(variable)
        return Selection(tuple(kept), (chosen,))

    def joined(self, other: Selection) -> Selection:
        """Return the intersection of two selections, over the variables of both."""
        names = {v.name: v for v in (*self.variables, *other.variables)}
        both = tuple(names[name] for name in sorted(names))
        return Selection(both, (spread(self, both) & spread(other, both),))

    def where(self) -> str:
        """Return the condition on prepared records, as SQL."""
        plain = self.plain
        return condition(plain.variables, plain.chosen)

    def words(self) -> str:
        """Return the canonical wording: the same for the same cells, however they were written."""
        plain = self.plain
        if not plain.variables:
            return "all" if plain.chosen.all() else "none"
        cells = np.flatnonzero(plain.chosen.ravel())
        names = ",".join(f"{v.name!r}" for v in plain.variables)
        return f"{names}:{'x'.join(map(str, plain.chosen.shape))}:{','.join(map(str, cells))}"


def split(variables: Sequence[Variable]) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """Return the known and the confidential variables, each in the order given."""
    return tuple(v for v in variables if v.known), tuple(v for v in variables if not v.known)


def in_base(variables: Sequence[Variable], values: NDArray[T]) -> tuple[tuple[Variable, ...], NDArray[T]]:
    """Return an array with recodes replaced by the levels that they group; axes in order of their names.

    A cell of the base variable gets the value of the recode's cell. Where both are axes, impossible cells are removed.
    """
    if all(v.base is None for v in variables):
        return tuple(variables), values
    found = list(variables)
    for axis, variable in enumerate(variables):
        if variable.base is not None:
            values, found[axis] = values.take(variable.groups, axis), variable.base
    for axis in range(len(found) - 1, -1, -1):
        names = [v.name for v in found]
        if (first := names.index(names[axis])) < axis:
            values = np.moveaxis(np.diagonal(values, axis1=first, axis2=axis), -1, first)
            del found[axis]
    order = sorted(range(len(found)), key=lambda i: found[i].name)
    return tuple(found[i] for i in order), values.transpose(order)


def along(flags: NDArray[np.bool_], axis: int, dimensions: int) -> Flags:
    """Reshape a vector along one of several axes."""
    return flags.reshape([-1 if i == axis else 1 for i in range(dimensions)])


def spread(selection: Selection, variables: Sequence[Variable]) -> Flags:
    """Return the selected cells in the table of more variables, in order of their names."""
    names = [v.name for v in selection.variables]
    shape = [len(v.levels) if v.name in names else 1 for v in variables]
    return np.broadcast_to(selection.chosen.reshape(shape), [len(v.levels) for v in variables])


def condition(variables: Sequence[Variable], chosen: Flags) -> str:
    """Return the SQL condition for selected cells: a list of levels of each variable, or of rows, where they do not factor."""
    if not len(variables):
        return "TRUE" if chosen.all() else "FALSE"
    if not chosen.any():
        return "FALSE"
    axes = range(chosen.ndim)
    levels: list[Flags] = [np.asarray(chosen.any(axis=tuple(j for j in axes if j != i)), bool) for i in axes]
    product = reduce(np.logical_and, (along(flags, i, chosen.ndim) for i, flags in enumerate(levels)))
    if (product == chosen).all():
        return (
            " AND ".join(_one_of(v, flags) for v, flags in zip(variables, levels, strict=True) if not flags.all())
            or "TRUE"
        )
    # group the levels of the first variable that select the same remainder
    rest = chosen.reshape(chosen.shape[0], -1)
    _, first, same = np.unique(rest, axis=0, return_index=True, return_inverse=True)
    parts = []
    for group, start in enumerate(first):
        if rest[start].any():
            inner = condition(variables[1:], chosen[start])
            parts.append(f"({_one_of(variables[0], same.ravel() == group)} AND {inner})")
    return "(" + " OR ".join(parts) + ")"


def _one_of(variable: Variable, flags: Flags) -> str:
    return f"{variable.codes} IN ({', '.join(map(str, np.flatnonzero(flags)))})"
