"""Which sorts of risk were examined, and which were not: worked out from what was run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sfumato.contract import Combination, Measure, Side
from sfumato.decision.best_recipe.scenarios import Against


@dataclass(frozen=True)
class Sort:
    """A sort of disclosure: what it is called, the question, and the measures that answer it."""

    name: str
    question: str
    measures: tuple[str, ...]


SORTS = (
    Sort(
        "finding a person in the file",
        "Whose record could be found by what somebody knows of a person?",
        ("k_anonymity", "reidentification", "any_identified", "suda", "unsafe_combinations", "distinction", "separation",
         "global_risk", "replicated_uniques", "singling_out"),
    ),
    Sort(
        "finding a person in the population",
        "If the file is a sample, how sure can somebody be that a record found is the right person's?",
        ("individual_risk", "match_risk", "log_linear_risk", "population_uniques", "k_map"),
    ),
    Sort(
        "linking records",
        "How many released records could be linked to a file that somebody else has?",
        ("distance_linkage", "probabilistic_linkage", "rank_linkage", "linkability"),
    ),
    Sort(
        "learning a value from those who look alike",
        "What is learned of a person because all who look like him have the same value?",
        ("l_diversity", "t_closeness", "beta_likeness", "delta_disclosure", "alpha_k"),
    ),
    Sort(
        "guessing a value",
        "How well can a person's value be worked out or predicted from the release?",
        ("attribute_risk", "coded_value_risk", "interval_disclosure", "prediction_risk", "cap", "tcap", "weap", "disco",
         "rapid", "inference"),
    ),
    Sort(
        "telling who is in the file",
        "Could somebody tell that a person took part at all?",
        ("membership", "delta_presence", "dcr", "nndr", "ims"),
    ),
)  # fmt: skip
"""Every risk measure of sfumato is in one of them."""
LEARNED = ("learning a value from those who look alike", "guessing a value")
"""The sorts that are about single columns."""


def parts_of(measure: Measure) -> Iterator[Measure]:
    """Yield a measure, or those that it is made of."""
    if isinstance(measure, Against):
        yield from parts_of(measure.measure)
    elif isinstance(measure, Combination):
        for part in measure.parts:
            yield from parts_of(part)
    else:
        yield measure


def sort_of(measure: Measure) -> Sort | None:
    """Return the sort of risk that a measure is about; None for a utility, and for a measure that is not of the house."""
    return next((s for s in SORTS if any(part.name in s.measures for part in parts_of(measure))), None)


def sorts_of(measures: Iterable[Measure]) -> tuple[tuple[Sort, ...], tuple[Sort, ...]]:
    """Return the sorts of risk that some measure is about, and the others."""
    names = {part.name for m in measures if m.side is Side.RISK for part in parts_of(m)}
    looked = tuple(s for s in SORTS if names & {*s.measures})
    return looked, tuple(s for s in SORTS if s not in looked)
