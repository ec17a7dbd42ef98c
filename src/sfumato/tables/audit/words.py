"""An audit in words: the headline first, then which cells, and by which equations; never a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.contract import Section
from sfumato.contract import Table as Grid
from sfumato.errors import out_of, some

if TYPE_CHECKING:
    from sfumato.tables.audit.result import Audit
    from sfumato.tables.rta.posterior_audit import PairAudit

_LISTED = 10


def headline(audit: Audit) -> str:
    """Return the answer in one sentence."""
    counts = audit.counts
    exact, near, known = (counts[k] for k in ("exactly disclosed", "approximately disclosed", "known to a contributor"))
    parts = [
        f"{some(n, 'cell')} {'is' if n == 1 else 'are'} {what}"
        for n, what in (
            (exact, "exactly disclosed"), (near, "approximately disclosed"), (known, "known to a contributor who knows his own"),
        ) if n
    ]  # fmt: skip
    if n := len(audit.differences):
        parts.append(f"{some(n, 'difference')} of shown cells {'is' if n == 1 else 'are'} unsafe")
    if audit.pairs is not None and not audit.pairs.holds:
        perhaps = "" if audit.pairs.exact or audit.pairs.measured else "perhaps "  # a bound is no proof that they do
        parts.append(f"some contributors {perhaps}learn more of others than they may")
    if parts:
        return f"Not safe: {_and(parts)}."
    if not counts["not shown"] and audit.pairs is None:
        return "Every cell is shown as it is: there is nothing to work out."
    published = audit.published
    if audit.pairs is None and (published.variance is not None or published.leaf_variance is not None):
        return "Nothing sensitive can be worked out for sure; whether the noise suffices was not looked at, for want of a prior."
    return "Nothing sensitive can be worked out from what is published."


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def sentences(audit: Audit) -> list[str]:
    """Return what was looked at, by which yardstick, and what was not."""
    counts = audit.counts
    said = [f"{out_of(counts['not shown'], counts['cells'], ('is', 'are'), 'cell')} hidden or changed."]
    if audit.rules:
        said.append(
            f"An interval must reach as far as these rules ask: {'; '.join(audit.rules)}. Other cells that are suppressed must "
            f"be uncertain by {100 * audit.tolerance:g} % of their value."
        )
    elif audit.published.suppressed.any():
        said.append(
            "A suppressed cell counts as approximately disclosed if the interval that a reader can work out is no longer than "
            f"{100 * audit.tolerance:g} % of its value."
        )
    if counts["harmless"]:
        said.append(f"{some(counts['harmless'], 'other cell')} can be worked out too, but none of these is sensitive.")
    if audit.pairs is not None:
        said.append(_learned(audit.pairs))
    return [*said, *audit.notes]


def _learned(pairs: PairAudit) -> str:
    """Return what contributors learn of each other, in words."""
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
    return f"Of {some(len(pairs.ratio), 'contribution')} with a prior, {told}; {worst}."


def reasons(audit: Audit) -> list[tuple[str, str, str]]:
    """Return the first disclosed cells: name, verdict, and the equations."""
    cells, verdicts = audit.published.cells, audit.verdicts
    rows = []
    why: dict[int, list[str]] = {}
    for proof in audit.certificates:  # of the same cells, and more
        why.setdefault(proof.cell, []).append(proof.words)
    for cell in _first(audit):
        because = why.get(cell, [])
        if audit.exact[cell] and audit.bounds is not None and audit.bounds[1][cell] - audit.bounds[0][cell] > 1e-3:
            because.append("only one whole number fits")
        if audit.shown[cell]:
            because = ["it is shown, although a rule calls it unsafe"]
        rows.append((cells.name(cell), str(verdicts[cell]), "; ".join(because)))
    seen: set[int] = set(_first(audit))
    for insider in audit.insiders:
        if len(rows) >= _LISTED or insider.cell in seen or audit.disclosed[insider.cell]:
            continue
        seen.add(insider.cell)
        own = [cells.name(int(c)) for c in cells.of_leaf[list(insider.alone)] if c >= 0]
        alone = f"whoever is alone in [{own[0]}]" if own else "one of its contributors"
        more = f" and {len(own) - 1} other cells" if len(own) > 1 else ""
        rows.append((cells.name(insider.cell), "known to a contributor", f"{alone}{more} can work it out"))
    for whole, part in audit.differences[: max(_LISTED - len(rows), 0)]:
        told = "both are shown, and what is left is in no cell and unsafe by a rule"
        rows.append((f"[{cells.name(whole)}] − [{cells.name(part)}]", "exactly disclosed", told))
    return rows


def _first(audit: Audit) -> list[int]:
    at = np.flatnonzero(audit.disclosed)
    return [int(c) for c in at[np.lexsort((at, ~audit.exact[at]))][:_LISTED]]


def page(audit: Audit) -> str:
    """Return a page for people."""
    lines = [audit.headline, "", *sentences(audit)]
    rows = reasons(audit)
    if rows:
        lines += ["", "Disclosed cells, and how:"]
        for name, verdict, because in rows:
            lines.append(f"  {name}: {verdict}")
            lines += [f"      {part}" for part in because.split("; ") if part]
        left = audit.counts["exactly disclosed"] + audit.counts["approximately disclosed"]
        left += audit.counts["known to a contributor"] + len(audit.differences) - len(rows)
        if left > 0:
            lines.append(f"  and {some(left, 'more cell')}: see the frame of the audit.")
    worst = audit.worst
    if not rows and worst is not None and np.isfinite(audit.relative_width[worst]):
        lines += ["", f"The shortest interval, relative to its value, is that of {audit.published.cells.name(worst)}."]
    return "\n".join(lines)


def findings(audit: Audit) -> dict[str, Any]:
    """Return the findings for machines, without values."""
    verdicts, cells = audit.verdicts, audit.published.cells
    told = np.flatnonzero(audit.disclosed | (verdicts == "known to a contributor"))
    why: dict[int, list[dict[str, Any]]] = {}
    for found in audit.certificates:
        entry = {
            "words": found.words, "sign": found.sign,
            "cells": [
                {**dict(zip(cells.dimensions, cells.labels[c], strict=True)), "times": str(times)}
                for c, times in found.coefficients.items()
            ],
        }  # fmt: skip
        why.setdefault(found.cell, []).append(entry)
    return {
        "safe": audit.safe,
        "headline": audit.headline,
        "counts": dict(audit.counts),
        "tolerance": audit.tolerance,
        "rules": list(audit.rules),
        "disclosed": [
            {
                **dict(zip(cells.dimensions, cells.labels[c], strict=True)),
                "verdict": verdicts[c],
                "because": why.get(int(c), []),
            }
            for c in told
        ],
        "differences": [[cells.name(whole), cells.name(part)] for whole, part in audit.differences],
        "posterior": None if audit.pairs is None else _posterior(audit.pairs),
        "notes": list(audit.notes),
    }


def _posterior(pairs: PairAudit) -> dict[str, Any]:
    asked = pairs.ratio[np.isfinite(pairs.ratio)]
    return {
        "contributions": len(pairs.ratio),
        "known better than allowed": len(pairs.failing),
        "smallest ratio to what is required": float(asked.min()) if len(asked) else None,
        "holds": pairs.holds,
        "exact": pairs.exact,
    }


def section(audit: Audit) -> Section:
    """Return the audit as a section of a report."""
    counts = Grid(("what", "cells"), tuple(audit.counts.items()), "What a reader can work out.")
    rows = reasons(audit)
    content = [counts]
    if rows:
        content.append(
            Grid(("cell", "verdict", "because"), tuple(rows), "Disclosed cells, and the equations that disclose them.")
        )
    return Section("Audit of the published table", (audit.headline, *sentences(audit)), tuple(content))
