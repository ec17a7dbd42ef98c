"""Before and after a question: what it would cost, and the nearest one that would be answered, where it is refused.

Both are functions of known variables, public facts (nominal shares of levels, bounds), and the accounts; nothing here looks at
a confidential value. How many questions are tried is limited by their number, not by time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import override

from sfumato.errors import SfumatoError
from sfumato.mas.answer import Refusal
from sfumato.mas.dataset import Dataset
from sfumato.mas.mechanism import Mechanism, universe_sums
from sfumato.mas.models.design import FormulaAnalysis, Term, Terms
from sfumato.mas.models.model import allowed_levels
from sfumato.mas.question import Analysis, Question
from sfumato.mas.register import Register, known_part
from sfumato.mas.rule import ModelEvidence, UniverseEvidence
from sfumato.mas.sums import PrivacyLoss
from sfumato.mas.universe import LevelChoice, Selection, Universe, split
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

UNIVERSE_RULES = ("universe_form", "universe_size", "level_size", "left_out", "piece_difference", "no_marginal")
MODEL_RULES = ("dummy_size", "model_size")
_MOST = 60
"""Most questions that are tried."""
_PRICED = 6
"""Most questions whose price is found."""
_MARGIN = 0.5
"""Sets with confidential conditions are taken to have this part of the records that they nominally have."""

# --- price


@dataclass(frozen=True)
class Price:
    """What a question would tell of the record that it places worst, before it is asked: in losses μ², which add up."""

    loss: float
    """Of the record, and the payer, for which it can be asked fewest times; 0 where the question is free."""
    left: Mapping[str, float]
    """What the accounts of the user ("user") and of all users or the project ("common") have left of such a record."""
    at_least: bool = False
    """Whether later steps of the analysis may add to it: what they ask depends on the protected sums of the first one."""
    times: float = math.inf
    """How many questions like this one the accounts have room for."""

    @property
    def words(self) -> str:
        """What the accounts have room for, in words."""
        if not self.loss:
            return "free"
        if self.times < 1:
            return "more than is left for some of these records"
        number = f"{'at most' if self.at_least else 'about'} {int(self.times):,}"
        return f"{number} more question{'s' if int(self.times) > 1 else ''} like this one"

    def __str__(self) -> str:
        if not self.loss:
            return "Price: free."
        least = "at least " if self.at_least else ""
        left = ", ".join(f"{value:.3g} left in the account {name!r}" for name, value in self.left.items())
        return f"Price: {self.words}. It costs the worst-placed record {least}{self.loss:.3g}; {left}."

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"loss": self.loss, "left": dict(self.left), "at_least": self.at_least, "words": self.words}


def losses_of(dataset: Dataset, question: Question) -> tuple[PrivacyLoss, ...]:
    """Return what the first step of a question would tell, with the counts that rules on its universe need; nothing is added up."""
    found: list[PrivacyLoss] = []
    if (counted := universe_sums(question)) is not None:
        about, request = counted
        found += Mechanism(dataset, question.policy, about).losses(request)
    steps = question.analysis.steps(question, dataset.register(question.policy))
    first = next(steps, None)
    steps.close()
    if first is not None:
        found += Mechanism(dataset, question.policy, question).losses(first)
    return tuple(found)


def takes_one_step(question: Question) -> bool:
    """Return whether an analysis asks for sums once."""
    return question.analysis.kind in ("table", "test", "check")


# --- what would pass
# Sets with confidential conditions have the records that they nominally have, less a margin.


@dataclass(frozen=True, eq=False)
class NominalUniverse(UniverseEvidence):
    """What the counts of a universe's sets are expected to be, from the register and the nominal shares of levels."""

    register: Register | None = None

    @override
    def count(self, selection: Selection, unit: str = "") -> float:
        assert self.register is not None  # noqa: S101 - always given
        plain = selection.plain
        known, hidden = split(plain.variables)
        n = self.register.noisy(*self.register.cells(known, Selection((), (np.ones((), bool),))))
        shape = [len(v.levels) if v.known else 1 for v in plain.variables]
        expected = np.maximum(n, 0.0).reshape(shape) * plain.chosen
        for v in hidden:
            axis = plain.variables.index(v)
            expected = expected * _shares(v).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return float(expected.sum()) * (_MARGIN if hidden else 1.0) * (self.units.get(unit, 0.0) if unit else 1.0)


def _shares(variable: Variable) -> Numbers:
    if len(variable.shares) == len(variable.levels):
        return np.array(variable.shares, np.float64)
    return np.full(len(variable.levels), 1 / len(variable.levels))


def passes(question: Question, register: Register) -> bool:
    """Return whether the rules would let a question pass, by known variables and nominal shares."""
    try:
        question.analysis.variables(question.codebook.variables)
        if any(rule.before(question, register) is not None for rule in question.policy.rules):
            return False
        known = known_part(question.selection)
        n = max(register.count(known), 1.0)
        units = {unit: register.count(known, unit) / n for unit in question.codebook.units}
        nominal = NominalUniverse(question, None, units, register)
        evidence = [nominal, *_model(question, nominal)]
    except SfumatoError:
        return False
    names = UNIVERSE_RULES if len(evidence) == 1 else (*UNIVERSE_RULES, *MODEL_RULES)
    judged = (rule for rule in question.policy.rules if rule.name in names)
    return all(rule.judged(question.analysis.kind, evidence) is None for rule in judged)


def _model(question: Question, nominal: NominalUniverse) -> Iterator[ModelEvidence]:
    """Yield what a model is expected to have: records, coefficients, and records behind its levels."""
    if not isinstance(question.analysis, FormulaAnalysis):
        return
    known = question.codebook.variables
    terms = question.analysis.terms(known)
    n = nominal.count(question.selection)
    sizes: dict[str, float] = {}
    coefficients = int(terms.intercept)
    for term in terms.terms:
        groups = [known[name] for function, name in term if function == "C"]
        coefficients += math.prod(max(len(allowed_levels(question, v)) - 1, 1) for v in groups)
        shown = [_levels(question, nominal, v) for v in groups]
        for combined in itertools.product(*shown) if groups else ():
            part = math.prod(share for _, share in combined)
            sizes[":".join(level for level, _ in combined)] = n * part
    function, name = terms.outcome
    outcome = [n * share for _, share in _levels(question, nominal, known[name])] if function == "C" else [math.inf]
    yield ModelEvidence(n, coefficients, sizes, min(outcome, default=0.0), 0.0, 0.0)


def _levels(question: Question, nominal: NominalUniverse, variable: Variable) -> list[tuple[str, float]]:
    """Return the levels of a variable that the universe has, and what share of its records each is expected to have."""
    allowed = allowed_levels(question, variable)
    if not variable.known:
        return [(f"{variable.name}={variable.levels[i]}", float(_shares(variable)[i])) for i in allowed]
    register = nominal.register
    assert register is not None  # noqa: S101 - always given
    counts = np.maximum(register.noisy(*register.cells((variable,), known_part(question.selection))), 0.0)
    whole = max(float(counts.sum()), 1.0)
    return [(f"{variable.name}={variable.levels[i]}", float(counts[i]) / whole) for i in allowed]


# --- candidates
# Questions near one that is refused, the nearest first.

Pieces = tuple[Mapping[str, LevelChoice], ...]


def nearest(
    dataset: Dataset, question: Question, refusal: Refusal, affordable: Callable[[Question], bool]
) -> Mapping[str, Any] | None:
    """Return the nearest question that would be answered in place of one that was refused, as JSON has it; None if none is found.

    A condition is widened by a neighbouring level, or left out; a table loses a side, or has coarser levels; a formula loses a
    term. Rules look at known variables and nominal shares; `affordable` says whether the accounts have room for a question.
    """
    if refusal.rule not in (*UNIVERSE_RULES, *MODEL_RULES, "accounts"):
        return None
    register = dataset.register(question.policy)
    priced = 0
    for universe, analysis in itertools.islice(_candidates(question, refusal.rule), _MOST):
        other = replace(question, universe=universe, analysis=analysis)
        if not passes(other, register):
            continue
        priced += 1
        if affordable(other):
            asked = {name: value for name, value in other.to_json().items() if name != "dataset"}
            return asked if analysis.kind != "check" else {"universe": asked["universe"]}
        if priced == _PRICED:
            return None
    return None


def _candidates(question: Question, rule: str) -> Iterator[tuple[Universe, Analysis]]:
    """Yield other universes and analyses in order of nearness, each once: with one change, then with two, then of everybody."""
    known, first = question.codebook.variables, (question.universe, question.analysis)
    universes = list(_universes(question.universe, known))
    analyses = [] if rule in UNIVERSE_RULES else list(_analyses(question.analysis, known))
    one = [(universe, question.analysis) for universe in universes]
    other = [(question.universe, analysis) for analysis in analyses]
    twice = [(again, question.analysis) for universe in universes for again in _universes(universe, known)]
    both = list(itertools.product([Universe(), *universes], analyses))
    last = [(Universe(), analysis) for analysis in (question.analysis, *analyses)]
    found = itertools.chain(
        (*other, *one) if rule == "accounts" else (*one, *other),
        itertools.islice(twice if rule in UNIVERSE_RULES else both, _MOST // 2), last,
    )  # fmt: skip
    seen = {_wording(*first, known)}
    for universe, analysis in found:
        words = _wording(universe, analysis, known)
        if words is not None and words not in seen:
            seen.add(words)
            yield universe, analysis


def _wording(universe: Universe, analysis: Analysis, known: Mapping[str, Variable]) -> str | None:
    """Return what two candidates are the same by; None for a universe that chooses nothing."""
    try:
        pieces = universe.to_json() if len(universe.pieces) > 1 else ""
        return f"{Selection.of(universe, known).words()}|{pieces}|{analysis.wording()}"
    except SfumatoError:
        return None


def _universes(universe: Universe, known: Mapping[str, Variable]) -> Iterator[Universe]:
    """Yield universes with one change: pieces merged or one alone, a condition with one level more, one condition less."""
    pieces = universe.pieces
    if len(pieces) > 1:
        shared = set.intersection(*(set(piece) for piece in pieces))
        merged = {name: _levels_of(known[name], *(piece[name] for piece in pieces)) for name in sorted(shared)}
        yield Universe((merged,)) if merged else Universe()
        yield from (Universe((piece,)) for piece in pieces)
    for place, piece in enumerate(pieces):
        for name in sorted(piece):
            for choice in _wider(known[name], piece[name]):
                yield Universe((*pieces[:place], {**piece, name: choice}, *pieces[place + 1 :]))
    for place, piece in enumerate(pieces):
        for name in sorted(piece):
            left = {other: choice for other, choice in piece.items() if other != name}
            yield Universe((*pieces[:place], left, *pieces[place + 1 :])) if left else Universe()


def _levels_of(variable: Variable, *choices: LevelChoice) -> LevelChoice:
    """Return the levels that any of some choices has."""
    return LevelChoice(
        tuple(variable.levels[i] for i in sorted(set[int]().union(*(c.among(variable) for c in choices))))
    )


def _wider(variable: Variable, choice: LevelChoice) -> Iterator[LevelChoice]:
    """Yield a choice of levels with the next one below, and with the next one above."""
    chosen = choice.among(variable)
    for level in (min(chosen, default=0) - 1, max(chosen, default=-1) + 1):
        if 0 <= level < len(variable.levels) and len(chosen) + 1 < len(variable.levels):
            yield LevelChoice(tuple(variable.levels[i] for i in sorted({*chosen, level})))


def _analyses(analysis: Analysis, known: Mapping[str, Variable]) -> Iterator[Analysis]:
    """Yield analyses with one change: a variable with coarser levels, one side or variable less, one term less."""
    for fields in _changed(analysis, known):
        try:
            changed = {**analysis.to_dict(), **fields}
            yield type(analysis).from_dict({name: value for name, value in changed.items() if value is not None})
        except SfumatoError:
            continue


def _changed(analysis: Analysis, known: Mapping[str, Variable]) -> Iterator[dict[str, Any]]:
    if isinstance(analysis, FormulaAnalysis):
        terms = analysis.terms(known)
        yield from ({"formula": other.wording()} for other in _formulas(terms, known))
        return
    many = [name for name, one in analysis.parameters().items() if one.columns == "many"]
    for field in many:
        names: Sequence[str] = getattr(analysis, field)
        for place, name in enumerate(names):
            for coarser in _coarser(name, known):
                yield {field: [*names[:place], coarser, *names[place + 1 :]]}
    for field in many:
        names = getattr(analysis, field)
        for place in sorted(range(len(names)), key=lambda i: (not known[names[i]].known, -i)):  # known sides first
            yield {field: [*names[:place], *names[place + 1 :]]}
    yield from (
        {name: None} for name, one in analysis.parameters().items() if one.columns == "one" and getattr(analysis, name)
    )


def _formulas(terms: Terms, known: Mapping[str, Variable]) -> Iterator[Terms]:
    """Yield formulas with one change: coarser levels of a variable, or one term less, the longest and last first."""
    for name in dict.fromkeys(name for term in terms.terms for function, name in term if function == "C"):
        for coarser in _coarser(name, known):
            yield replace(terms, terms=tuple(_renamed(term, name, coarser) for term in terms.terms))
    for gone in sorted(terms.terms, key=len, reverse=True):
        if len(terms.terms) > 1:
            yield replace(terms, terms=tuple(term for term in terms.terms if term != gone))


def _renamed(term: Term, name: str, other: str) -> Term:
    return tuple(("C", other) if factor == ("C", name) else factor for factor in term)


def _coarser(name: str, known: Mapping[str, Variable]) -> Iterable[str]:
    """Return the recodes of a variable that have fewer levels, the finest first."""
    recodes = (v for v in known.values() if v.base is not None and v.base.name == name)
    found = [(-len(v.levels), v.name) for v in recodes if len(v.levels) < len(known[name].levels)]
    return [other for _, other in sorted(found)]
