"""Sums that are the same in every order: numbers are cut into whole multiples of a unit and of a much smaller one.

An engine adds in whatever order its threads finish, and floating-point sums depend on it. Whole numbers do not.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.typing import Numbers, Whole

_STEPS = 2**30
"""Each part is below this in size: sums over 2^32 records fit in 64 bits."""


def scale_of(largest: float) -> float:
    """Return a power of two that a number does not exceed in size."""
    return 2.0 ** math.ceil(math.log2(largest)) if largest > 0 and math.isfinite(largest) else 1.0


def exact_sums(name: str, expression: str, scale: float, parts: int = 2, signed: bool = False) -> list[str]:
    """Return SQL for the parts of a sum of numbers that a scale bounds; null counts as 0.

    Two parts hold numbers down to scale / 2^60, three down to scale / 2^90: squares of numbers that are small beside the largest
    need the third. No parts: the numbers are whole, and are added as they are. `signed` cuts the sizes of numbers, and gives each
    part the sign: 1 less a tiny number would lose its last digits.
    """
    return [f"{text} AS {name}_{part}" for part, text in enumerate(_parts(expression, scale, parts, signed))]


def exact_sum(expression: str, scale: float, parts: int = 2) -> str:
    """Return SQL for the sum itself: of its parts as doubles, the smallest first."""
    texts = [
        f"{text} * {scale / float(_STEPS) ** (i + 1)!r}" for i, text in enumerate(_parts(expression, scale, parts))
    ]
    return " + ".join(reversed(texts))


def _parts(expression: str, scale: float, parts: int, signed: bool = False) -> list[str]:
    if not parts:
        return [f"COALESCE(sum(CAST({expression} AS BIGINT)), 0)"]
    listed, rest = [], f"{'abs' if signed else ''}({expression}) * {_STEPS / scale!r}"
    sign = f" * CASE WHEN ({expression}) < 0 THEN -1 ELSE 1 END" if signed else ""
    for _ in range(parts):
        whole = f"floor({rest})"
        listed.append(f"COALESCE(sum(CAST({whole} AS BIGINT){sign}), 0)")
        rest = f"({rest} - {whole}) * {_STEPS}.0"
    return listed


def combined(parts: Whole, scale: float, number: int = 2) -> Numbers:
    """Return the sums from their parts, which lie along the first axis."""
    if not number:
        return np.asarray(parts[0], np.float64)
    total = np.zeros(parts.shape[1:])
    for part in reversed(range(number)):
        total += parts[part].astype(np.float64) * (scale / float(_STEPS) ** (part + 1))
    return total


def parts_of(numbers: Numbers, scale: float, parts: int) -> list[Whole]:
    """Return the parts of numbers in memory, as SQL cuts them with their signs; NaN counts as 0."""
    numbers = np.nan_to_num(numbers, nan=0.0)
    if not parts:
        return [numbers.astype(np.int64)]
    cut, rest = [], np.abs(numbers) * (_STEPS / scale)
    for _ in range(parts):
        whole = np.floor(rest)
        cut.append(np.copysign(whole, numbers).astype(np.int64))
        rest = (rest - whole) * _STEPS
    return cut


def exact_total(parts: Whole, scale: float) -> Numbers:
    """Return the sums from their parts to the last digit, also where these nearly cancel; shape of one part.

    All parts but the first become digits from 0 to 2^30 - 1, those of a negative sum after a change of sign.
    """
    digits = _carried(parts)
    negative = digits[0] < 0
    digits = np.where(negative, _carried(-digits), digits)
    total = np.zeros(parts.shape[1:])
    for place in reversed(range(1, len(digits))):
        total += digits[place] * (scale / float(_STEPS) ** (place + 1))
    first = digits[0] % _STEPS, digits[0] - digits[0] % _STEPS  # a large one has more digits than a double
    total = total + first[0] * (scale / _STEPS) + first[1] * (scale / _STEPS)
    return np.asarray(np.where(negative, -total, total), np.float64)


def _carried(parts: Whole) -> Whole:
    digits = parts.copy()
    for place in reversed(range(1, len(digits))):
        digits[place - 1] += digits[place] // _STEPS
        digits[place] %= _STEPS
    return digits
