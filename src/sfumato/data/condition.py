"""Rules in words: which records a condition such as ``age > 90 and region == 'north'`` picks; parsed here, never evaluated.

    condition   = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" condition ")" | comparison
    comparison  = column ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
                | column [ "not" ] "in" "(" value { "," value } ")"
                | column "is" [ "not" ] "missing"
    value       = a number | a text in quotes | true | false | column

A date is a text such as '2020-01-31'. A column whose name is no plain word stands in backticks.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.data.columns import Kind
from sfumato.data.microdata import Batch
from sfumato.errors import DataError, ParameterError, SfumatoError, shorten, unknown_name
from sfumato.schema.schema import Schema
from sfumato.typing import Flags, Numbers

Literal = float | str | bool

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<column>`[^`]+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>==|!=|<>|<=|>=|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ALSO = {"=": "==", "<>": "!="}
_WORDS = {"and", "or", "not", "in", "is", "missing", "true", "false"}
_DEPTH = 40
_HELP = (
    "Write it like \"age > 90 and region == 'north'\"; not, or, in ('a', 'b'), is missing and parentheses are known too. "
    "A name that is no plain word stands in backticks."
)


class TruthValues(NamedTuple):
    """Where a condition is true and where it is false, shape (n,) each; elsewhere a missing value leaves it open."""

    true: Flags
    false: Flags


class _Name(NamedTuple):
    """A column on the right of a comparison."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """One column compared with a value, with another column, or with a list of values."""

    column: str
    sign: str
    value: Literal | _Name | tuple[Literal, ...] | None

    def answer(self, batch: Batch) -> TruthValues:
        """Compare; where a value is missing the answer is open, except to "is missing"."""
        if self.sign == "is missing":
            missing = batch.missing(self.column)
            return TruthValues(missing, ~missing)
        known = ~batch.missing(self.column)
        if isinstance(self.value, _Name):
            x, y = _plain_numbers(batch, self.column), _plain_numbers(batch, self.value.name)
            known &= ~batch.missing(self.value.name)
            holds = np.asarray(_COMPARE[self.sign](x, y), bool)
        elif self.sign == "in":
            assert isinstance(self.value, tuple)  # noqa: S101 - the parser made it so
            holds = np.zeros(len(batch), bool)
            for value in self.value:
                holds |= _compared(batch, self.column, "==", value)
        else:
            holds = _compared(batch, self.column, self.sign, self.value)
        return TruthValues(holds & known, ~holds & known)

    def columns(self) -> Iterator[str]:
        """Yield the columns it looks at."""
        yield self.column
        if isinstance(self.value, _Name):
            yield self.value.name

    def literals(self) -> Iterator[Literal]:
        """Yield the values that are written in it."""
        if isinstance(self.value, tuple) and not isinstance(self.value, _Name):
            yield from self.value
        elif self.value is not None and not isinstance(self.value, _Name):
            yield self.value


@dataclass(frozen=True)
class Joined:
    """Several conditions joined by "and", "or", or one turned round by "not"; as in SQL, what is open stays open."""

    sign: str
    parts: tuple[Comparison | Joined, ...]

    def answer(self, batch: Batch) -> TruthValues:
        """Join the answers of the parts (Kleene's three-valued logic)."""
        found = [part.answer(batch) for part in self.parts]
        if self.sign == "not":
            return TruthValues(found[0].false, found[0].true)
        true, false = [a.true for a in found], [a.false for a in found]
        if self.sign == "and":
            return TruthValues(reduce(np.logical_and, true), reduce(np.logical_or, false))
        return TruthValues(reduce(np.logical_or, true), reduce(np.logical_and, false))

    def columns(self) -> Iterator[str]:
        """Yield the columns that its parts look at."""
        for part in self.parts:
            yield from part.columns()

    def literals(self) -> Iterator[Literal]:
        """Yield the values that are written in its parts."""
        for part in self.parts:
            yield from part.literals()


@dataclass(frozen=True)
class Condition:
    """A rule that picks records: true for a record, or not (false, or open because a value is missing).

    Examples
    --------
    >>> rule = Condition.parse("age > 80 or not sex in ('f', 'm')")
    >>> rule.columns
    ('age', 'sex')
    >>> from sfumato.datasets import five
    >>> rule.holds(five().batch()).tolist()
    [False, False, False, False, True]
    """

    text: str
    tree: Comparison | Joined = field(repr=False)

    @classmethod
    def parse(cls, text: object) -> Condition:
        """Read a condition; what cannot be read is refused in a sentence."""
        if not isinstance(text, str) or not text.strip():
            raise ParameterError(f"a condition is a text. {_HELP}")
        return cls(text, _Parser(text).whole())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at, each once."""
        return tuple(dict.fromkeys(self.tree.columns()))

    @property
    def literals(self) -> tuple[Literal, ...]:
        """The values that are written in it: what it compares columns with."""
        return tuple(self.tree.literals())

    def check(self, schema: Schema) -> None:
        """Refuse columns that are not there; a word on the right is most often a text without its quotes."""
        for name in self.columns:
            if name not in schema:
                raise DataError(
                    f'the condition "{self.text}": {unknown_name("column", name, schema.names(), "the data")} '
                    "If it is a value and no column, put it in quotes."
                )

    def holds(self, batch: Batch) -> Flags:
        """Return for which records the condition is true, shape (n,); a comparison with a missing value is not true."""
        try:
            return self.tree.answer(batch).true
        except SfumatoError as error:
            raise type(error)(f'the condition "{self.text}": {error}') from None


# Comparing


def _compared(batch: Batch, name: str, sign: str, value: Any) -> Flags:
    """Compare a column of any kind with one value; what is missing is not looked at."""
    kind, attribute = batch.column(name).kind, batch.schema[name]
    if not isinstance(value, bool) and value in attribute.missing:
        raise DataError(
            f"a value compared with '{name}' is a code for missing. Write \"{_name(name)} is missing\" instead."
        )
    if kind is Kind.CATEGORY and attribute.values and (sign not in ("==", "!=") or not isinstance(value, str)):
        return _ordered(batch, name, sign, value)
    if kind in (Kind.NUMBER, Kind.BOOLEAN):
        if isinstance(value, str) or isinstance(value, bool) is not (kind is Kind.BOOLEAN):
            wanted = "a number" if kind is Kind.NUMBER else "true or false"
            raise DataError(f"column '{name}' holds {kind}: compare it with {wanted}.")
        return np.asarray(_COMPARE[sign](batch.numbers(name), float(value)), bool)
    if kind is Kind.CATEGORY:
        if sign not in ("==", "!="):
            raise DataError(
                f"column '{name}' holds {kind}, which have no order to compare by. Use ==, != or in, or give its values "
                "numbers in the schema (values = {...})."
            )
        codes, values = batch.column(name).codes
        if isinstance(value, bool) or (not isinstance(value, str) and any(isinstance(v, str) for v in values)):
            raise DataError(f"column '{name}' holds {kind}: put the value it is compared with in quotes.")
        return _looked_up(codes, [bool(_COMPARE[sign](v, value)) for v in values])
    if kind is Kind.DATE:
        codes, values = batch.column(name).codes
        return _looked_up(codes, [bool(_COMPARE[sign](v, _moment(value, v, name))) for v in values])
    raise DataError(f"column '{name}' holds {kind}, which cannot be compared.")


def _looked_up(codes: NDArray[Any], holds: Sequence[bool]) -> Flags:
    found: Flags = np.array([*holds, False], bool)[codes]  # the code of a missing value is -1
    return found


def _ordered(batch: Batch, name: str, sign: str, value: Any) -> Flags:
    """Compare ordered categories through the numbers that the schema gives them."""
    numbers = batch.schema[name].values
    if isinstance(value, bool) or (isinstance(value, str) and value not in numbers):
        raise DataError(f"a value compared with '{name}' has no number in the schema's value map.")
    return np.asarray(_COMPARE[sign](batch.numbers(name), numbers[value] if isinstance(value, str) else value), bool)


def _plain_numbers(batch: Batch, name: str) -> Numbers:
    if batch.column(name).kind is not Kind.NUMBER and not batch.schema[name].values:
        raise DataError(f"column '{name}' holds {batch.column(name).kind}; two columns are compared as numbers only.")
    return batch.numbers(name)


def _moment(value: Any, like: Any, name: str) -> Any:
    """Return a text as the kind of date or time that a column holds."""
    try:
        moment = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise DataError(f"column '{name}' holds dates: compare it with a text such as '2020-01-31'.") from None
    if not isinstance(like, datetime.datetime):
        return moment.date()
    if like.tzinfo is None and moment.tzinfo is not None:
        raise DataError(f"column '{name}' holds times without a time zone: leave the zone out of the condition.")
    return moment.replace(tzinfo=like.tzinfo) if moment.tzinfo is None else moment


def _name(column: str) -> str:
    return column if re.fullmatch(r"[^\W\d]\w*", column) and column.lower() not in _WORDS else f"`{column}`"


# Reading


class _Parser:
    """Recursive descent over the tokens; each method reads one line of the grammar."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.tokens = list(self._tokens())

    def _tokens(self) -> Iterator[tuple[str, str]]:
        at, end = 0, len(self.text.rstrip())
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self.error(f"what begins with '{self.text[at:].lstrip()[:12]}' cannot be read")
            kind, token = str(found.lastgroup), str(found[str(found.lastgroup)])
            if kind == "word" and token.lower() in _WORDS:
                kind, token = "key", token.lower()
            yield kind, _ALSO.get(token, token) if kind == "sign" else token
            at = found.end()
        yield "end", ""

    def error(self, what: str) -> ParameterError:
        return ParameterError(f'the condition "{shorten(self.text, 200)}" is not understood: {what}. {_HELP}')

    def take(self, *wanted: str) -> str | None:
        """Take the next token if it is one of these words or signs."""
        kind, token = self.tokens[self.at]
        if kind in ("key", "sign") and token in wanted:
            self.at += 1
            return token
        return None

    def need(self, wanted: str, where: str) -> None:
        if self.take(wanted) is None:
            raise self.error(f"'{wanted}' is missing {where}")

    def whole(self) -> Comparison | Joined:
        tree = self.condition()
        if self.tokens[self.at][0] != "end":
            raise self.error(f"something is wrong before '{self.tokens[self.at][1]}'")
        return tree

    def condition(self) -> Comparison | Joined:
        parts = [self.conjunction()]
        while self.take("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def conjunction(self) -> Comparison | Joined:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def negation(self) -> Comparison | Joined:
        self.depth += 1
        if self.depth > _DEPTH:
            raise self.error(f"more than {_DEPTH} parentheses or nots stand inside one another")
        tree: Comparison | Joined
        if self.take("not"):
            tree = Joined("not", (self.negation(),))
        elif self.take("("):
            tree = self.condition()
            self.need(")", "at the end of a part in parentheses")
        else:
            tree = self.comparison()
        self.depth -= 1
        return tree

    def comparison(self) -> Comparison | Joined:
        column = self.column()
        if column is None:
            raise self.error("a comparison begins with the name of a column")
        if self.take("is"):
            turned = self.take("not")
            if self.take("missing") is None:
                raise self.error("'is' is followed by 'missing' or 'not missing'; for a value write ==")
            tree = Comparison(column, "is missing", None)
            return Joined("not", (tree,)) if turned else tree
        if sign := self.take(*_COMPARE):
            return Comparison(column, sign, self.value())
        turned = self.take("not")
        if self.take("in") is None:
            raise self.error(f"after '{column}' there is neither a sign such as == or >, nor 'in', nor 'is missing'")
        self.need("(", "after 'in'")
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        self.need(")", "at the end of the list of values")
        if any(isinstance(v, _Name) for v in values):
            raise self.error("the list after 'in' holds values, and texts stand in quotes")
        listed = Comparison(column, "in", tuple(v for v in values if not isinstance(v, _Name)))
        return Joined("not", (listed,)) if turned else listed

    def column(self) -> str | None:
        kind, token = self.tokens[self.at]
        if kind not in ("word", "column"):
            return None
        self.at += 1
        return token.strip("`")

    def value(self) -> Literal | _Name:
        kind, token = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return float(token)
        if kind == "text":
            self.at += 1
            return token[1:-1].replace(token[0] * 2, token[0])
        if flag := self.take("true", "false"):
            return flag == "true"
        if self.take("missing"):
            raise self.error("of records without a value write 'is missing'")
        column = self.column()
        if column is None:
            raise self.error(f"a value or a column is expected after '{self.tokens[self.at - 1][1]}'")
        return _Name(column)
