"""Recipe 4: one universe in other words; every answer must be the same, to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfumato.contract.attack import Guesses
from sfumato.mas.analyses import CrossTab
from sfumato.mas.answer import Answer
from sfumato.mas.attacks.recipe import Field, Recipe, leaks
from sfumato.mas.attacks.target import Target
from sfumato.mas.attacks.world import HALF
from sfumato.mas.universe import Spec
from sfumato.mas.variable import Variable


class Rewording(Recipe):
    """The same records asked for in many ways: with drops keyed on the text, the mean of the answers is the truth."""

    title = "one universe reworded"
    bar = 0.0

    def run(self, field: Field) -> Guesses:
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


def wordings(target: Target, known: Mapping[str, Variable]) -> Iterator[Spec]:
    """Yield a universe in other words: order, repetition, all but the rest, conditions without effect, a split into pieces."""
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
