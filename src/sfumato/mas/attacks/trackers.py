"""Trackers, rewording, refusals as an oracle, and timing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np

from sfumato.contract.snooper import Guesses
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.base import (
    HALF,
    AttackTarget,
    AttackTrials,
    Piece,
    PlantedDataset,
    PolicyAttack,
    Server,
    leaks,
    yes_or_no,
)
from sfumato.mas.attacks.differencing import difference
from sfumato.mas.universe import Spec
from sfumato.mas.variable import Variable

# --- individual
# Recipe 3: individual trackers, several of them averaged.


class IndividualTracker(PolicyAttack):
    """The target is C = A and B: count(A) - count(A and not B), for every condition of C as B in turn.

    J. Schlörer, Identification and retrieval of personal records from a statistical data bank, Methods Inf. Med. 14 (1975).
    """

    title = "individual trackers, averaged"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask two questions for each tracker of a target, and sum the results."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            rows.append(target.row)
            scores.append(sum(difference(server, *pair, HALF) for pair in trackers(target, world)))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def trackers(target: AttackTarget, world: PlantedDataset) -> Iterator[tuple[Piece, Piece]]:
    """Yield A, and A without B, for every condition B of the target's cell."""
    cell = target.alone()
    for name, own in cell.items():
        others = tuple(level for level in world.dataset.variables[name].levels if level not in own)
        rest = {n: levels for n, levels in cell.items() if n != name}
        yield rest, {**rest, name: others}


# --- tracker
# Recipe 3: the general tracker, which asks about a person only together with others.


class GeneralTracker(PolicyAttack):
    """With C the target alone and T about half of all: count(C or T) + count(C or not T) - count(all) is that of C.

    D. E. Denning, P. J. Denning and M. D. Schwartz, The tracker, ACM TODS 4 (1979).
    """

    title = "general tracker"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask three questions about each target, by the attribute."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            rows.append(target.row)
            known = [v for v in world.dataset.variables.values() if v.known and v.levels]
            scores.append(tracked(server, target, min(known, key=lambda v: len(v.levels))))
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def tracked(server: Server, target: AttackTarget, by: Variable) -> float:
    """Return "yes" less "no" for the target alone; 0 if a question is refused."""
    middle = len(by.levels) // 2
    parts: list[Piece] = [{by.name: by.levels[:middle]}, {by.name: by.levels[middle:]}]
    found = [server.counts([target.alone(), part], HALF) for part in parts]
    found.append(server.counts(None, HALF) if None not in found else None)
    one, two, every = found
    if one is None or two is None or every is None:
        return 0.0
    yes, no = (one[level] + two[level] - every[level] for level in ("yes", "no"))
    return yes - no


# --- rewording
# Recipe 4: one universe in other wordings; every answer must be the same, to the byte.


class Rewording(PolicyAttack):
    """The same records in many wordings: with drops keyed on the text, the mean of the answers is the truth."""

    title = "one universe reworded"
    bar = 0.0

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for each universe in every wording; a leak is an answer that differs from the first."""
        found = []
        for server, world, target in field.each(2, min(field.trials, 40)):
            answers = set()
            for wording in wordings(target, world.dataset.variables):
                answer = server.ask(wording, CrossTab((HALF,)))
                if isinstance(answer, Answer):
                    answers.add(answer.to_bytes())
            found.append(len(answers) > 1)
        return leaks(found)


def wordings(target: AttackTarget, known: Mapping[str, Variable]) -> Iterator[Spec]:
    """Yield other wordings of a universe: order, repetition, all but the rest, conditions without effect, a split into pieces."""
    piece = target.universe
    yield piece
    yield dict(reversed([(name, tuple(reversed(levels))) for name, levels in piece.items()]))
    yield {name: [*levels, *levels] for name, levels in piece.items()}
    rest = {name: [v for v in known[name].levels if v not in levels] for name, levels in piece.items()}
    yield {name: {"not": others} for name, others in rest.items() if others}
    yield " and ".join(f"`{name}` in ({', '.join(map(_quoted, levels))})" for name, levels in piece.items())
    yield [piece, piece]
    idle = next((v for v in known.values() if v.levels and v.name not in piece), None)
    if idle is not None:
        yield {**piece, idle.name: idle.levels}
    for name, levels in piece.items():
        if len(levels) > 1:
            middle = len(levels) // 2
            yield [{**piece, name: half} for half in (levels[:middle], levels[middle:])]


def _quoted(level: str) -> str:
    doubled = level.replace("'", "''")
    return f"'{doubled}'"


# --- refusals
# Refusals as an oracle: whether a question is refused must not disclose the target's value.


class RefusalOracle(PolicyAttack):
    """A universe of those with the attribute, of a size at which the target decides: refused without, answered with."""

    title = "refusals as an oracle"

    def run(self, field: AttackTrials) -> Guesses:
        """Ask for those with the attribute and for those without, in a universe as near to the limit as possible."""
        rows, scores, truths = [], [], []
        for server, world, target in field.each(2):
            score = 0.0
            for level, sign in (("yes", 1.0), ("no", -1.0)):
                piece = tipping(target, world, level)
                if piece is not None:
                    score += sign * (server.counts(piece, HALF) is not None)
            rows.append(target.row)
            scores.append(score)
            truths.append(float(world.truths[HALF][target.row]))
        return yes_or_no(rows, scores, truths)


def tipping(target: AttackTarget, world: PlantedDataset, level: str, limit: int = 75) -> Piece | None:
    """Return the universe around the target in which the others with a level are one short of the limit, or nearly.

    The attacker is given the number of the others, which he could hardly know: without it he does worse.
    """
    known = world.dataset.variables
    name, levels = next((n, v) for n, v in reversed(target.universe.items()) if n in target.without)
    own = [v for v in levels if v not in target.without[name]]
    names = [*target.universe, HALF]
    cube = world.dataset.cubes.of([known[n] for n in names])
    order = [v.name for v in cube.variables]
    pick = [
        [known[n].levels.index(level)] if n == HALF
        else range(len(known[n].levels)) if n == name
        else [known[n].levels.index(v) for v in target.universe[n]]
        for n in order
    ]  # fmt: skip
    counts = cube.counts[np.ix_(*pick)].sum(axis=tuple(i for i, n in enumerate(order) if n != name))
    chosen: list[str] = []
    total = 0
    for i in np.argsort(-counts, kind="stable"):
        text = known[name].levels[i]
        if text not in own and total + counts[i] <= limit - 1 and len(chosen) < 7:
            chosen.append(text)
            total += int(counts[i])
    return {**target.universe, name: (*chosen, *own), HALF: (level,)} if chosen else None


# --- timing
# Recipe 14: the time of an answer must not disclose the target's value.


class Timing(PolicyAttack):
    """Universes of those with and of those without the attribute, timed: the slower one is taken as the target's."""

    title = "timing of refusals and answers"

    def run(self, field: AttackTrials) -> Guesses:
        """Time two questions about each target."""
        rows, times, truths = [], [], []
        for server, world, target in field.each(2):
            took = []
            for level in ("yes", "no"):
                piece = tipping(target, world, level) or {**target.universe, HALF: (level,)}
                start = time.perf_counter()
                server.counts(piece, HALF)
                took.append(time.perf_counter() - start)
            rows.append(target.row)
            times.append(took[0] - took[1])
            truths.append(float(world.truths[HALF][target.row]))
        scores = np.array(times) - np.median(times)  # the first question is always slower
        return yes_or_no(rows, scores.tolist(), truths)
