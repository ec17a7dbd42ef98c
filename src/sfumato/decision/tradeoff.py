"""What masks lose of X against how much of the targets they may explain: the best ones beside the usual ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.decision.keep_most import keep_most
from sfumato.decision.masking_problem import MaskingProblem, problem_of
from sfumato.decision.naive_masks import DROPPING, all_subsets, naive_masks
from sfumato.decision.projections import best_projection, lost
from sfumato.errors import ParameterError
from sfumato.microdata import Microdata

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

BEST, EXACT = "best mask", "best without noise"


@dataclass(frozen=True, eq=False)
class MaskTradeoff:
    """How much of X is lost at each τ: tr Var(X | M), as a share of tr Var X, by mask."""

    columns: tuple[str, ...]
    targets: tuple[str, ...]
    frame: pd.DataFrame
    """Columns tau, mask, lost (the weighted trace of Var(X | M)) and share (of that of Var X)."""
    unmasked: float
    """What X itself explains: from there on nothing need be lost."""

    def chart(self) -> alt.LayerChart:
        """Draw the share lost against τ, a line for each mask."""
        from sfumato.charts.mask_tradeoff import mask_tradeoff_chart

        return mask_tradeoff_chart(self.frame, ", ".join(self.targets), (DROPPING,))


def mask_tradeoff(
    source: Microdata | Any,
    targets: Sequence[str] | str,
    taus: Sequence[float] | None = None,
    *,
    columns: Sequence[str] | None = None,
    functional: str = "trace",
    relative: bool = True,
    importance: Mapping[str, float] | None = None,
    shrinkage: str | float = "auto",
    weighted: bool = False,
) -> MaskTradeoff:
    """Return what the best masks and the usual ones lose at each τ; parameters as for `best_mask`.

    Where a mask can only come near its best, its limit is given. Without `taus`, forty values up to what X itself explains.
    """
    import pandas as pd

    problem = problem_of(source, targets, 1.0, columns, functional, relative, importance, shrinkage, weighted)
    if taus is None:
        taus = np.linspace(0, problem.unmasked, 41)[1:].tolist()
    if not len(taus):
        raise ParameterError("taus is empty. Name at least one, or leave taus out.")
    subsets = all_subsets(problem)
    rows: list[dict[str, Any]] = []
    for tau in taus:
        now = problem.at(tau)
        found = {**_best(now), **{n.name: n.lost for n in naive_masks(now, subsets)}}
        rows += [{"tau": now.tau, "mask": mask, "lost": v, "share": v / now.total} for mask, v in found.items()]
    return MaskTradeoff(problem.columns, problem.targets, pd.DataFrame(rows), problem.unmasked)


def _best(problem: MaskingProblem) -> dict[str, float]:
    """Return what the best mask with noise loses, and the best without."""
    H, J = problem.worth, problem.link / np.sqrt(problem.tau)
    whole = keep_most(H, J, problem.functional)
    exact = best_projection(H, J, problem.functional, whole.multiplier)
    # leaving out one direction for each target is always enough, so there is one
    out = np.zeros((len(H), 0)) if exact is None else exact.out
    return {BEST: max(problem.total - float(np.sum(H * whole.F)), 0.0), EXACT: lost(H, out)}
