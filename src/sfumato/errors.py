"""Errors that speak plainly: what was wrong, what is allowed, what to try.

An error never quotes a record's value. Where the cause is a lower-level exception that may quote one,
raise with ``from None`` so that the chain does not carry it either.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any


class SfumatoError(Exception):
    """Base class of everything sfumato raises on purpose."""


class SchemaError(SfumatoError):
    """The schema is wrong, or does not fit the data."""


class DataError(SfumatoError):
    """The data cannot be used for what was asked."""


class ParameterError(SfumatoError):
    """A parameter of a method, measure or call is out of its range."""


class RecipeError(SfumatoError):
    """A recipe cannot be read, built or applied."""


class NotApplicable(SfumatoError):  # noqa: N818 - it is an answer as much as an error
    """A measure does not apply to this outcome; the message says what it would need."""


class DataWarning(UserWarning):
    """Something in a file that was read is probably a mistake; the message says what was done about it."""


class MissingExtra(SfumatoError):  # noqa: N818
    """An optional package is not installed; the message says which command installs it."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return `` Did you mean 'income'?`` for the nearest allowed name, or an empty string.

    >>> did_you_mean("incme", ["age", "income"])
    " Did you mean 'income'?"
    >>> did_you_mean("age", ["wage", "age (years)"])
    " Did you mean 'age (years)'?"
    """
    names = [str(a) for a in allowed]
    folded = {n.casefold(): n for n in names}
    words = [n for n in folded if re.split(r"\W", n)[0] == name.casefold()]  # the name without its unit
    close = words or difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean '{folded[close[0]]}'?" if close else ""


def join_names(names: Iterable[str], limit: int = 12) -> str:
    """Name at most `limit` things in a sentence: ``age, income, salary and 3 more``.

    Names that have commas in them, such as those of cells, are kept apart by semicolons.
    """
    names = [str(n) for n in names]
    if not names:
        return "none"
    shown = ("; " if any(", " in n for n in names[:limit]) else ", ").join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def repeated(names: Iterable[str], fold: Callable[[str], str] = str) -> list[str]:
    """Return the names that stand more than once, each once and in order; `fold` says which names are the same.

    >>> repeated(["b", "a", "b", "B"]), repeated(["b", "a", "B"], str.casefold)
    (['b'], ['b', 'B'])
    """
    listed = list(names)
    counts = Counter(map(fold, listed))
    return list(dict.fromkeys(name for name in listed if counts[fold(name)] > 1))


def shorten(text: object, most: int = 80) -> str:
    """Return what somebody wrote, cut where it is too long to be shown again.

    >>> shorten("incme"), shorten("x" * 1_000, 5)
    ('incme', 'xxxxx…')
    """
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[:most]}…"


_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, all but tab and line end
    r"\u2028\u2029\u202a-\u202e\u2066-\u2069"  # ends of lines, and turns of the writing's direction
    r"\ud800-\udfff\ufffe\uffff]"  # no characters at all
)


def visible(text: str) -> str:
    """Return a text whose control characters are seen and do nothing: no colours on a terminal, no crash of a chart.

    Different texts stay different. Tabs and line ends stay as they are.

    >>> visible("\\x1b[31mred\\x07"), visible("a\\x9bb")
    ('␛[31mred␇', 'a<U+009B>b')
    """

    def picture(found: re.Match[str]) -> str:
        code = ord(found[0])
        return chr(0x2400 + code) if code < 0x20 else "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"

    return _UNSEEN.sub(picture, text)


def plural(count: int, noun: str = "record") -> str:
    """Return a number of things in words.

    >>> plural(1), plural(30_000), plural(1, "household")
    ('1 record', '30,000 records', '1 household')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def count_of(count: int | str, total: int, verbs: tuple[str, str], noun: str = "record") -> str:
    """Return how many of all things are or do something, with the verb for one and the verb for several.

    >>> count_of(1, 30_000, ("is", "are")), count_of(2, 2, ("matches", "match")), count_of("0.5", 1, ("is", "are"))
    ('1 of 30,000 records is', '2 of 2 records match', '0.5 of 1 record are')
    """
    number = count if isinstance(count, str) else f"{count:,}"
    return f"{number} of {plural(total, noun)} {verbs[0] if number == '1' else verbs[1]}"


def unknown_name(what: str, name: str, allowed: Iterable[str], where: str) -> str:
    """Return the sentence for a name that is not there.

    >>> unknown_name("column", "incme", ["age", "income"], "the data")
    "column 'incme' is not in the data. Did you mean 'income'? It has: age, income."
    """
    allowed, name = list(allowed), shorten(name)
    return f"{what} '{name}' is not in {where}.{did_you_mean(name, allowed)} It has: {join_names(allowed)}."


def refuse_unknown(
    what: str, allowed: Collection[Any], where: str, *names: Any, error: type[SfumatoError] = ParameterError
) -> None:
    """Refuse the first of some names that is not among the allowed ones.

    >>> refuse_unknown("column", ["age", "income"], "the data", "age")
    """
    for name in names:
        if name not in allowed:
            raise error(unknown_name(what, str(name), allowed, where))


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """Return the error for an optional package that is not installed."""
    return MissingExtra(
        f"{purpose} needs the package {package}, which is not installed. Try: pip install 'sfumato[{extra}]'"
    )
