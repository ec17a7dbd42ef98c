"""The result of an audit, as arrays and in words: never a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract.score import Section
from sfumato.contract.score import TextTable as Grid
from sfumato.errors import ParameterError, count_of, plural
from sfumato.lazy import pd
from sfumato.tables.attacker import Insider
from sfumato.tables.cells import Cells, Status
from sfumato.tables.certificates import Certificate, PublishedSum, bound, equation
from sfumato.tables.knowledge import KnownBounds
from sfumato.tables.published import PublishedTable
from sfumato.tables.sensitivity import Sensitivity
from sfumato.typing import Flags, Numbers, Objects

if TYPE_CHECKING:
    from sfumato.tables.rta.posterior_audit import PairAudit

_LISTED, EXPLAINED = 10, 20
"""Number of disclosed cells that are listed, and that are explained by default."""


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What a reader of a published table can work out: for the custodian, who decides whether to publish it.

    Its sentences and `frame()` hold what follows from the published table alone, and no contributor's value;
    `frame(custodian=True)` adds true values and protection levels.
    """

    published: PublishedTable
    known: KnownBounds = field(repr=False)
    """The knowledge that the reader is assumed to have."""
    examined: Flags
    """Which cells were examined: those that are not published exactly; shape (cells,), as for the next five."""
    low: Numbers
    """The smallest value that agrees with everything published."""
    high: Numbers
    exact: Flags
    """Cells whose value follows exactly, or that are published although a rule calls them unsafe."""
    near: Flags
    """Cells whose value follows approximately: the interval is shorter than required."""
    sensitive: Flags
    """Cells that must not be worked out: those that the rules call unsafe, else the primary suppressions, else all."""
    tolerance: float
    rules: tuple[str, ...] = ()
    """The sensitivity rules in words, where there are any."""
    sensitivity: Sensitivity | None = field(default=None, repr=False)
    insiders: tuple[Insider, ...] = field(default=(), repr=False)
    """Contributors who can work out a sensitive cell because they know their own figures: confidential."""
    pairs: PairAudit | None = None
    """What every contributor learns of every other, if a prior was given."""
    notes: tuple[str, ...] = ()
    """What was not examined."""
    bounds: tuple[Numbers, Numbers] | None = field(default=None, repr=False)
    """`low` and `high` before restriction to whole numbers."""
    differences: tuple[PublishedSum, ...] = ()
    """Combinations of published cells that are no cell and unsafe by a rule: a total less its published parts."""

    def __repr__(self) -> str:
        return f"Audit({self.headline})"

    def __str__(self) -> str:
        lines = [self.headline, "", *self._sentences()]
        rows = self._reasons()
        if rows:
            lines += ["", "Disclosed cells, and how:"]
            for name, verdict, because in rows:
                lines.append(f"  {name}: {verdict}")
                lines += [f"      {part}" for part in because.split("; ") if part]
            left = self.counts["exactly disclosed"] + self.counts["approximately disclosed"]
            left += self.counts["known to a contributor"] + len(self.differences) - len(rows)
            if left > 0:
                lines.append(f"  and {plural(left, 'more cell')}: see the frame of the audit.")
        worst = self.worst
        if not rows and worst is not None and np.isfinite(self.relative_width[worst]):
            name = self.published.cells.name(worst)
            lines += ["", f"The shortest interval, relative to its value, is that of {name}."]
        return "\n".join(lines)

    @property
    def shown(self) -> Flags:
        """Cells that are published exactly, or that the reader is assumed to know; shape (cells,)."""
        return np.asarray(self.known.shown | (self.published.status == Status.SHOWN))

    @property
    def disclosed(self) -> Flags:
        """Sensitive cells that are disclosed to everybody, exactly or nearly; shape (cells,)."""
        return (self.exact | self.near) & self.sensitive

    @property
    def safe(self) -> bool:
        """Whether nothing sensitive was found to be disclosed, to everybody or to a contributor."""
        learned = self.pairs is not None and not self.pairs.holds
        return not (self.disclosed.any() or self.insiders or self.differences or learned)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of cells with each verdict."""
        insiders = {i.cell for i in self.insiders if not self.disclosed[i.cell]}
        return {
            "cells": len(self.published),
            "not shown": int(self.examined.sum()),
            "exactly disclosed": int((self.exact & self.sensitive).sum()),
            "approximately disclosed": int((self.near & self.sensitive).sum()),
            "known to a contributor": len(insiders),
            "harmless": int(((self.exact | self.near) & ~self.sensitive).sum()),
            "protected": int((self.examined & ~self.exact & ~self.near).sum()) - len(insiders),
        }

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        counts = self.counts
        exact, near, known = (
            counts[k] for k in ("exactly disclosed", "approximately disclosed", "known to a contributor")
        )
        parts = [
            f"{plural(n, 'cell')} {'is' if n == 1 else 'are'} {what}"
            for n, what in (
                (exact, "exactly disclosed"), (near, "approximately disclosed"), (known, "known to a contributor who knows his own"),
            ) if n
        ]  # fmt: skip
        if n := len(self.differences):
            parts.append(f"{plural(n, 'difference')} of shown cells {'is' if n == 1 else 'are'} unsafe")
        if self.pairs is not None and not self.pairs.holds:
            perhaps = "" if self.pairs.exact or self.pairs.measured else "perhaps "  # a bound does not prove it
            parts.append(f"some contributors {perhaps}learn more of others than they may")
        if parts:
            return f"Not safe: {_and(parts)}."
        if not counts["not shown"] and self.pairs is None:
            return "Every cell is shown as it is: there is nothing to work out."
        published = self.published
        if self.pairs is None and (published.variance is not None or published.leaf_variance is not None):
            return "Nothing sensitive can be worked out for sure; whether the noise suffices was not looked at, for want of a prior."
        return "Nothing sensitive can be worked out from what is published."

    def _sentences(self) -> list[str]:
        """Return what was examined, by which criterion, and what was not."""
        counts = self.counts
        said = [f"{count_of(counts['not shown'], counts['cells'], ('is', 'are'), 'cell')} hidden or changed."]
        if self.rules:
            said.append(
                f"An interval must reach as far as these rules ask: {'; '.join(self.rules)}. Other cells that are suppressed must "
                f"be uncertain by {100 * self.tolerance:g} % of their value."
            )
        elif self.published.suppressed.any():
            said.append(
                "A suppressed cell counts as approximately disclosed if the interval that a reader can work out is no longer than "
                f"{100 * self.tolerance:g} % of its value."
            )
        if counts["harmless"]:
            said.append(
                f"{plural(counts['harmless'], 'other cell')} can be worked out too, but none of these is sensitive."
            )
        if self.pairs is not None:
            said.append(_learned(self.pairs))
        return [*said, *self.notes]

    def _reasons(self) -> list[tuple[str, str, str]]:
        """Return the first disclosed cells: name, verdict, and the equations."""
        cells, verdicts = self.published.cells, self.verdicts
        rows = []
        why: dict[int, list[str]] = {}
        for proof in self.certificates:  # the same cells, and more
            why.setdefault(proof.cell, []).append(proof.words)
        for cell in self._first():
            because = why.get(cell, [])
            if self.exact[cell] and self.bounds is not None and self.bounds[1][cell] - self.bounds[0][cell] > 1e-3:
                because.append("only one whole number fits")
            if self.shown[cell]:
                because = ["it is shown, although a rule calls it unsafe"]
            rows.append((cells.name(cell), str(verdicts[cell]), "; ".join(because)))
        seen: set[int] = set(self._first())
        for insider in self.insiders:
            if len(rows) >= _LISTED or insider.cell in seen or self.disclosed[insider.cell]:
                continue
            seen.add(insider.cell)
            own = [cells.name(int(c)) for c in cells.of_leaf[list(insider.alone)] if c >= 0]
            alone = f"whoever is alone in [{own[0]}]" if own else "one of its contributors"
            more = f" and {len(own) - 1} other cells" if len(own) > 1 else ""
            rows.append((cells.name(insider.cell), "known to a contributor", f"{alone}{more} can work it out"))
        for difference in self.differences[: max(_LISTED - len(rows), 0)]:
            which = "both are" if len(difference.coefficients) == 2 else "all are"
            left = f"{which} shown, and what is left is in no cell and unsafe by a rule"
            rows.append((difference.words, f"{'exactly' if difference.exact else 'approximately'} disclosed", left))
        return rows

    def _first(self, count: int = _LISTED) -> list[int]:
        """Return the first disclosed cells, exactly disclosed ones first."""
        at = np.flatnonzero(self.disclosed)
        return [int(c) for c in at[np.lexsort((at, ~self.exact[at]))][:count]]

    @cached_property
    def relative_width(self) -> Numbers:
        """Length of each cell's interval, relative to the value (to its middle where the value is not known)."""
        original = self.published.original
        with np.errstate(invalid="ignore"):
            return self._width_of((self.low + self.high) / 2 if original is None else original.value)

    def _width_of(self, value: Numbers) -> Numbers:
        with np.errstate(invalid="ignore", divide="ignore"):
            width = np.where(np.isinf(self.high) | np.isinf(self.low), np.inf, self.high - self.low)
            return np.asarray(np.where(width == 0, 0.0, width / np.abs(value)))

    @property
    def worst(self) -> int | None:
        """The examined sensitive cell with the shortest interval relative to its value; None if there is none."""
        here = np.flatnonzero((self.examined | self.exact) & self.sensitive)
        if not len(here):
            return None
        return int(here[np.lexsort((self.relative_width[here], ~self.exact[here]))[0]])

    def explain(self, cell: int) -> tuple[Certificate, ...]:
        """Return the equations from which a cell follows: one, or two where bounds are needed, above and below.

        Protected cells have them too: why their interval is no longer. None for a published cell, and where nothing is known.
        """
        if not 0 <= cell < len(self.published):
            raise ParameterError(f"there is no cell {cell}: the table has {len(self.published):,}, counted from 0.")
        if self.shown[cell]:
            return ()
        if self.exact[cell] and (found := equation(self.known, cell)) is not None:
            return (found,)
        low, high = (self.low, self.high) if self.bounds is None else self.bounds
        sides = (
            bound(self.known, cell, "≥", float(low[cell])) if np.isfinite(low[cell]) else None,
            bound(self.known, cell, "≤", float(high[cell])) if np.isfinite(high[cell]) else None,
        )
        return tuple(side for side in sides if side is not None)

    @cached_property
    def certificates(self) -> tuple[Certificate, ...]:
        """Why the first disclosed cells are disclosed, exactly disclosed ones first; see `explain` for any other."""
        return tuple(found for cell in self._first(EXPLAINED) for found in self.explain(cell))

    @property
    def verdicts(self) -> Objects:
        """For every cell: "shown", "exactly disclosed", "approximately disclosed", "known to a contributor" or "protected"."""
        said = np.where(self.examined, "protected", np.where(self.shown, "shown", "not examined")).astype(object)
        said[list({i.cell for i in self.insiders})] = "known to a contributor"
        said[self.near] = "approximately disclosed"
        said[self.exact] = "exactly disclosed"
        return said

    def frame(self, custodian: bool = False) -> pd.DataFrame:
        """Return every cell with its interval and verdict; `custodian` adds true values and the required levels."""
        cells = self.published.cells
        why: dict[int, str] = {}
        for found in self.certificates:
            why[found.cell] = "; ".join(filter(None, (why.get(found.cell, ""), found.words)))
        with np.errstate(invalid="ignore"):
            public = self._width_of((self.low + self.high) / 2)  # of the middle, which everybody can compute
        columns: dict[str, Any] = {d: cells.labels[:, i] for i, d in enumerate(cells.dimensions)}
        columns |= {
            "low": self.low, "high": self.high, "relative_width": self.relative_width if custodian else public,
            "verdict": self.verdicts, "sensitive": self.sensitive & (self.examined | self.exact),
            "because": [why.get(i, "") for i in range(len(cells))],
        }  # fmt: skip
        if custodian:
            columns["value"] = self.published.source("the custodian's frame").value
            if self.sensitivity is not None:
                names = ("upper", "lower", "width")
                columns |= {f"required_{name}": getattr(self.sensitivity, name) for name in names}
                columns["rule"] = self.sensitivity.reasons
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as a dictionary: counts, and the disclosed cells with their equations; no values."""
        verdicts, cells = self.verdicts, self.published.cells
        told = np.flatnonzero(self.disclosed | (verdicts == "known to a contributor"))
        why: dict[int, list[dict[str, Any]]] = {}
        for found in self.certificates:
            entry = {
                "words": found.words, "sign": found.sign,
                "cells": [
                    {**dict(zip(cells.dimensions, cells.labels[c], strict=True)), "times": str(times)}
                    for c, times in found.coefficients.items()
                ],
            }  # fmt: skip
            why.setdefault(found.cell, []).append(entry)
        return {
            "safe": self.safe,
            "headline": self.headline,
            "counts": dict(self.counts),
            "tolerance": self.tolerance,
            "rules": list(self.rules),
            "disclosed": [
                {
                    **dict(zip(cells.dimensions, cells.labels[c], strict=True)),
                    "verdict": verdicts[c],
                    "because": why.get(int(c), []),
                }
                for c in told
            ],
            "differences": [_difference(found, cells) for found in self.differences],
            "posterior": None if self.pairs is None else _posterior(self.pairs),
            "notes": list(self.notes),
        }

    def section(self) -> Section:
        """Return the audit as a section of a report."""
        counts = Grid(("what", "cells"), tuple(self.counts.items()), "What a reader can work out.")
        rows = self._reasons()
        content = [counts]
        if rows:
            content.append(
                Grid(
                    ("cell", "verdict", "because"),
                    tuple(rows),
                    "Disclosed cells, and the equations that disclose them.",
                )
            )
        return Section("Audit of the published table", (self.headline, *self._sentences()), tuple(content))


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _learned(pairs: PairAudit) -> str:
    """Describe what contributors learn of each other."""
    asked = pairs.ratio[np.isfinite(pairs.ratio)]
    failing = len(pairs.failing)
    at_least = "" if pairs.exact else "about " if pairs.measured else "at least "
    worst = (
        f"the smallest posterior variance is {at_least}{asked.min():.3g} of what is required"
        if len(asked)
        else "none is required"
    )
    are = "are" if pairs.exact or pairs.measured else "may be"
    told = (
        "no attacker learns more than is allowed" if not failing else f"{failing:,} {are} known better than is allowed"
    )
    return f"Of {plural(len(pairs.ratio), 'contribution')} with a prior, {told}; {worst}."


def _difference(difference: PublishedSum, cells: Cells) -> list[str]:
    """Return a cell and the one inside it; any other combination in words."""
    pair = [*difference.coefficients.values()] == [1, -1]
    return [cells.name(c) for c in difference.coefficients] if pair else [difference.words]


def _posterior(pairs: PairAudit) -> dict[str, Any]:
    asked = pairs.ratio[np.isfinite(pairs.ratio)]
    return {
        "contributions": len(pairs.ratio),
        "known better than allowed": len(pairs.failing),
        "smallest ratio to what is required": float(asked.min()) if len(asked) else None,
        "holds": pairs.holds,
        "exact": pairs.exact,
    }
