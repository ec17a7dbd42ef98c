"""The records that a question is about: a union of pieces, each a choice of levels of some variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from typing import Any

import numpy as np

from sfumato.condition import Comparison, Condition, Joined
from sfumato.errors import ParameterError, brief
from sfumato.files import parse_json
from sfumato.mas.variable import MISSING, Variable, level_text

Spec = Any
"""What a universe can be made from: nothing, a text, a mapping of variables to levels, a list of such mappings, a Universe."""

_MOST_PIECES = 1_000
_MOST_LEVELS = 10_000
_MOST_SIGNS = 1_000_000
_FORMS = (
    "a universe is a text, a mapping of variables to levels, or a list of such mappings: "
    "{'sex': 'F', 'age': ['60 to 69', '70 to 89']}."
)


@dataclass(frozen=True)
class Choice:
    """Some levels of a variable, or all others."""

    texts: tuple[str, ...]
    """Levels, or ranges of numbers such as "60-89"."""
    others: bool = False
    """Whether the levels that are not named are meant."""
    also: tuple[Choice, ...] = ()
    """Other choices of levels of the same variable; what all of them choose is meant: age >= 30 and age < 50."""

    @classmethod
    def of(cls, given: Any, variable: str) -> Choice:
        """Read "F", 3, ["F", "M"], {"not": ["F"]}, or {"all": [">= 30", "< 50"]}."""
        if isinstance(given, Choice):
            return given
        if isinstance(given, Mapping):
            return cls._joined(given, variable)
        listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
        if not listed or not all(isinstance(v, str | Real | np.bool_) for v in listed):
            raise ParameterError(f"the levels of '{brief(variable)}' are texts or numbers, at least one.")
        if len(listed) > _MOST_LEVELS:
            raise ParameterError(f"a universe names more than {_MOST_LEVELS:,} levels of '{brief(variable)}'.")
        return cls(tuple(dict.fromkeys(level_text(v) for v in listed)))

    @classmethod
    def _joined(cls, given: Mapping[Any, Any], variable: str) -> Choice:
        """Read {"not": ...} and {"all": [...]}; inside them stands a level or a list of levels, or {"not": ...}."""
        if set(given) == {"not"} and not (inner := cls.of(given["not"], variable)).also:
            return cls(inner.texts, not inner.others)
        if set(given) == {"all"} and isinstance(given["all"], list | tuple) and 0 < len(given["all"]) <= _MOST_PIECES:
            return reduce(cls.__and__, [cls.of(part, variable) for part in given["all"]])
        raise ParameterError(
            f'the levels of \'{brief(variable)}\' are a list, {{"not": [...]}} for all others, or {{"all": [...]}} for what '
            "several choices have in common."
        )

    def __and__(self, other: Choice) -> Choice:
        mine = (replace(self, also=()), *self.also)
        more = tuple(c for c in (replace(other, also=()), *other.also) if c not in mine)
        return replace(self, also=(*self.also, *more))

    def among(self, variable: Variable) -> set[int]:
        """Return the numbers of the levels of a variable that are chosen."""
        absent = self.others and MISSING not in variable.levels  # nobody has to be left out
        named = set(variable.pick(t for t in self.texts if not (absent and t == MISSING)))
        found = set(range(len(variable.levels))) - named if self.others else named
        return found.intersection(*(choice.among(variable) for choice in self.also))

    def to_json(self) -> Any:
        """Return the inverse of `of`."""
        if self.also:
            return {"all": [choice.to_json() for choice in (replace(self, also=()), *self.also)]}
        return {"not": list(self.texts)} if self.others else list(self.texts)


Piece = Mapping[str, Choice]


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
        pieces = tuple({str(k): Choice.of(v, str(k)) for k, v in piece.items()} for piece in listed)
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
        pieces = tuple(_pieces(Condition.parse(text).tree))
        _check_pieces(len(pieces))
        return cls(pieces)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it is formed with, each once, in order of their names."""
        return tuple(sorted({name for piece in self.pieces for name in piece}))

    def __or__(self, other: Universe) -> Universe:
        return Universe(self.pieces + other.pieces) if self.pieces and other.pieces else Universe()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the pieces as JSON has them."""
        return [{name: choice.to_json() for name, choice in piece.items()} for piece in self.pieces]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON; of two values of one name the first would be lost without a word."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ParameterError("a piece of the universe names a variable twice. List its levels in one place.")
    return dict(pairs)


def _check_pieces(count: int) -> None:
    if count > _MOST_PIECES:
        raise ParameterError(
            f"the universe has more than {_MOST_PIECES:,} pieces. List several levels in one comparison."
        )


def _pieces(tree: Comparison | Joined) -> list[Piece]:
    """Read a condition as a union of pieces: what is said of each part of an "or" is a piece of its own."""
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
    """Join the conditions of two pieces; several of one variable must all hold."""
    return {**one, **other, **{name: one[name] & other[name] for name in one if name in other}}


def _choice(part: Comparison, turned: bool) -> Choice:
    if part.sign == "is missing":
        return Choice((MISSING,), turned)
    given = getattr(part.value, "name", part.value)  # sex = F, without quotes
    values = given if isinstance(given, tuple) else (given,)
    if part.sign in ("==", "in", "!="):
        choice = Choice.of(list(values), part.column)
        return Choice(choice.texts, turned != (part.sign == "!="))
    return Choice((f"{part.sign} {given if isinstance(given, str) else level_text(given)}",), turned)
