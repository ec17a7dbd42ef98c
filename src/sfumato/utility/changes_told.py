"""The sentences of a before-and-after summary: what changed most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sfumato.contract.score import digits
from sfumato.errors import listing, some

if TYPE_CHECKING:
    import pandas as pd

    from sfumato.utility.summary import ReleaseSummary

NOTHING = 1e-9
"""Less is the computer's rounding."""


def told(summary: ReleaseSummary) -> tuple[str, ...]:
    """Return what a release changed most, in sentences."""
    return tuple(_sentences(summary))


def _sentences(s: ReleaseSummary) -> Iterator[str]:
    before, after = s.records
    yield f"{some(before, 'original record')} and {after:,} released{', weighted' if s.weighted else ''}."
    if s.absent:
        yield f"Not released: {listing(s.absent)}."
    if s.changed:
        moved = sorted((n for n in s.changed if s.changed[n] > 0), key=lambda n: -s.changed[n])
        each = listing([f"{n} ({100 * s.changed[n]:.3g} % of its values)" for n in moved], 6)
        were = "was" if len(moved) == 1 else "were"
        yield f"{len(moved) or 'None'} of {some(len(s.changed), 'column')} {were} changed{f': {each}' if moved else ''}."
    if not len(s.statistics) and not len(s.distributions):
        yield f"No figure is shown, since none would rest on {s.fewest} original records."
        return
    if not (s.frame["difference"].abs() > NOTHING).any():
        yield "None of the figures changed."
        return
    yield from _numbers(s.statistics)
    yield from _categories(s.distributions)
    if len(s.tables) and (distance := float(s.tables["distance"].iloc[0])) > NOTHING:
        one, two = s.tables["first"].iloc[0], s.tables["second"].iloc[0]
        yield (
            f"Of the two-way tables, {one} × {two} changed most: {100 * distance:.3g} % of the records would have to change "
            "cell to make it the original's."
        )
    yield from _correlation(s.correlations)


def _numbers(frame: pd.DataFrame) -> Iterator[str]:
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for column, what, before, after, _ in frame.itertuples(index=False, name=None):
        found.setdefault(column, {})[what] = (before, after)
    if lost := [name for name, figures in found.items() if math.isnan(figures["mean"][1])]:
        yield f"Released without any number: {listing(lost)}."
    shifts, factors = {}, {}
    for name, figures in found.items():
        (mean, new), (spread, wide) = figures["mean"], figures["standard deviation"]
        if spread > 0 and not math.isnan(new):
            shifts[name] = abs(new - mean) / spread
            factors[name] = wide / spread
    name = max(shifts, key=lambda n: shifts[n], default="")
    if name and shifts[name] > NOTHING:
        yield (
            f"The mean that moved furthest is that of {name}: {_from_to(found[name]['mean'])}, "
            f"{digits(shifts[name], 2)} standard deviations."
        )
    name = max(factors, key=lambda n: _factor(factors[n]), default="")
    if name and _factor(factors[name]) > NOTHING:
        yield (
            f"The standard deviation that changed most is that of {name}: {_from_to(found[name]['standard deviation'])} "
            f"({'+' if factors[name] > 1 else ''}{digits(100 * (factors[name] - 1), 2)} %)."
        )


def _from_to(pair: tuple[float, float]) -> str:
    return f"{digits(pair[0])} to {digits(pair[1])}"


def _factor(ratio: float) -> float:
    """Return how far a ratio is from 1, the same for a half and for two."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf if ratio == 0 else 0.0


def _categories(frame: pd.DataFrame) -> Iterator[str]:
    if len(frame) and (apart := frame["difference"].abs().to_numpy()).max() > NOTHING:
        row = frame.iloc[int(apart.argmax())]
        yield (
            f"The share that changed most is that of {row['column']} = {row['category']}: {100 * row['before']:.3g} % to "
            f"{100 * row['after']:.3g} %."
        )
    elif len(frame):
        yield "No share of a category changed."


def _correlation(frame: pd.DataFrame) -> Iterator[str]:
    known = frame[frame["after"].notna()]
    if len(known) and abs(known["difference"].iloc[0]) > NOTHING:
        row = known.iloc[0]
        yield (
            f"The correlation that changed most is that of {row['first']} and {row['second']}: {row['before']:.3f} to "
            f"{row['after']:.3f}."
        )
