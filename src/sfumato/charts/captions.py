"""Words and numbers for people: what axes, labels and captions say."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sfumato.contract.score import digits

_SYMBOLS = {"lambda2": "λ²"}
_AXES = {"lambda2": "noise level λ²"}


def symbol(path: str) -> str:
    """Return a parameter as it stands in a formula or a label.

    >>> symbol("kim_noise.lambda2"), symbol("top_code.quantile.salary")
    ('λ²', 'quantile of salary')
    """
    return _named(path, _SYMBOLS)


def parameter_words(path: str) -> str:
    """Return a parameter as an axis title names it.

    >>> parameter_words("kim_noise.lambda2")
    'noise level λ² (kim noise)'
    """
    return f"{_named(path, _AXES)} ({_words(path.partition('.')[0])})" if "." in path else _words(path)


def _named(path: str, table: dict[str, str]) -> str:
    parts = path.split(".", 2)
    field = parts[1] if len(parts) > 1 else path
    return table.get(field, _words(field)) + (f" of {parts[2]}" if len(parts) > 2 else "")


def _words(name: str) -> str:
    return name.replace("_", " ")


def short(value: float) -> str:
    """Return a number with three significant digits, as a label shows it.

    >>> short(0.14133), short(26200), short(float("inf")), short(2.5e-8)
    ('0.141', '26,200', '∞', '2.5 × 10⁻⁸')
    """
    return digits(value).replace("-", "−")


def tabled(value: float) -> str:
    """Return a number with three significant digits, zeros at the end kept, as a column of a table shows it.

    >>> tabled(5.6), tabled(0.04), tabled(26240), tabled(float("inf"))
    ('5.60', '0.0400', '26,200', '∞')
    """
    plain = math.isfinite(value) and 0 < abs(value) < 100 and "e" not in f"{value:.3g}"
    return f"{value:#.3g}".replace("-", "−") if plain else short(value)


def spoken(items: Iterable[str]) -> str:
    """Return things as a sentence lists them.

    >>> spoken(["age", "sex", "zip"])
    'age, sex and zip'
    """
    words = list(items)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def counted(number: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "record"), counted(30000, "record")
    ('1 record', '30,000 records')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def first_line(documented: object) -> str:
    """Return the first line of a docstring, without its full stop or marks of code: what the thing is, in one sentence."""
    return (documented.__doc__ or "").strip().partition("\n")[0].rstrip(".").replace("`", "")
