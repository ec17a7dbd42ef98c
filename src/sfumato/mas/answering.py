"""The way from what was asked to an answer: a question that makes sense, rules, computation, rules again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sfumato.errors import ParameterError, listing
from sfumato.mas.accounts import Sets
from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.rule import Stage
from sfumato.mas.selection import Selection
from sfumato.mas.universe import Spec, Universe
from sfumato.utility.formula import TooManyTerms

_LISTED = 20
"""Of more codes than these the first are explained in an answer; `Dataset.describe` has them all."""


def question_of(dataset: Dataset, policy: Policy, universe: Spec, analysis: Analysis) -> Question:
    """Return a question that makes sense: names and levels that are not there are refused before anything is done."""
    if not isinstance(analysis, Analysis):
        raise ParameterError("an analysis is an object such as CrossTab(('sex',)) or OLS('income ~ age').")
    if not isinstance(policy, Policy):
        raise ParameterError("a policy is a Policy, such as Policy.named('hardened').")
    question = Question(dataset, policy, Universe.of(universe), analysis)
    with contextlib.suppress(TooManyTerms):  # not a mistake: it is refused and logged
        analysis.variables(dataset.variables)
    Selection.of(question.universe, dataset.variables)
    return question


def answer(question: Question) -> tuple[Answer | Refusal, tuple[Sets, ...]]:
    """Go the way from a question to an answer (MAS.md, "From query to answer"); return it with the sets that it is about."""
    try:
        question.analysis.variables(question.dataset.variables)
    except TooManyTerms:
        return Refusal("formula_size", "The formula has too many terms.", "Write out the terms that matter."), ()
    asked = question.selection.plain.variables
    if not all(
        v.known for v in asked
    ):  # of known ones there may be a cube that was written when the version was frozen
        question.dataset.cubes.foresee((*asked, *question.analysis.sides(question.dataset.variables)))
    stages: tuple[Stage, ...] = ("universe", "analysis")
    for stage in stages:
        if (refusal := question.refused(stage)) is not None:
            return refusal, tuple(question.looked.values())
    found = question.analysis.run(question)
    if isinstance(found, Refusal):
        return found, tuple(question.looked.values())
    dataset, policy = question.dataset.label, question.policy.label
    citation = question.secret.citation(dataset, policy, question.wording)
    notes = (*found.notes, *_meanings(question))
    made = Answer(question.analysis.name, found.tables, notes, dataset, policy, citation, found.facts)
    return made, (*question.looked.values(), *found.sets)


def _meanings(question: Question) -> Iterator[str]:
    """Yield what the levels in the answer mean, where they are codes: in one order, however the question was written."""
    used = {v.name: v for v in question.analysis.variables(question.dataset.variables)}
    for name, variable in sorted(used.items()):
        told = [f"{a} = {b}" for a, b in zip(variable.levels, variable.words, strict=False) if a != b]
        if told:
            yield f"Levels of {name}: {listing(told, _LISTED)}."
