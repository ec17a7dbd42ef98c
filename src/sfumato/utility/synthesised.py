"""How a release was synthesised, as far as its recipe tells: which null distributions and combining rules hold."""

from __future__ import annotations

from typing import Literal

from sfumato.contract import Release

Parameters = Literal["estimated", "drawn"]


def synthesised(outcome: Release) -> Parameters | None:
    """Return whether all records of a release were drawn from a model, and whether its parameters were drawn too.

    "estimated" is a model with the estimates put in for its parameters, "drawn" one whose parameters were drawn from their
    posterior (proper synthesis). None is any other release: records that were masked, synthetic columns beside real ones
    (partial synthesis), and files whose recipe is not known.
    """
    from sfumato.masks import CopulaSynthesis, FullNormalSynthesis

    found: Parameters | None = None
    for step in outcome.recipe.steps if outcome.recipe is not None else ():
        if isinstance(step.mask, CopulaSynthesis):
            found = "estimated"
        elif isinstance(step.mask, FullNormalSynthesis):
            found = "drawn" if step.mask.proper else "estimated"
    return found
