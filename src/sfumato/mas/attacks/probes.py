"""Recipes 8, 10, 11 and 13: requests that must be refused, and must not quote the data when they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sfumato.contract.attack import Guesses
from sfumato.errors import SfumatoError
from sfumato.mas.analyses import OLS, CrossTab, Quantiles
from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Refusal
from sfumato.mas.attacks.recipe import Field, Recipe, leaks
from sfumato.mas.attacks.server import Server
from sfumato.mas.attacks.target import Target
from sfumato.mas.attacks.world import AMOUNT, HALF, World
from sfumato.mas.universe import Spec

FORMULAS = (
    "{y} ~ 1/(abs({x}-89)+1e-6)", "{y} ~ I({x}**20)", "{y} ~ power({x}, 20)", "{y} ~ exp({x})",
    "{y} ~ I({x}==89)", "{y} ~ __import__('os').getcwd()", "{y} ~ eval('1')", "{y} ~ residuals({x})",
    "{y} ~ predict({x})", "{y} ~ cooks({x})", "{y} ~ max({x})", "{y} ~ offset({x})",
    "{y} ~ {x} | {x} == 89", "{y} ~ nan * {x}", "{y} ~ lambda: {x}", "{y} ~ {x};DROP TABLE records",
    "{y} ~ C({x}, levels=[89])", "{y} ~ weights({x})", "{y} ~ {x} + offset({y})", "nan ~ {x}", "{y} ~ {x} * inf",
)  # fmt: skip
"""What a formula must not do; y is the amount, x a known variable."""


class Probes(Recipe):
    """Functions that single a person out, code in formulas, extremes, levels that are not there: a leak is an answer, or an error
    that quotes the target's amount.
    """

    title = "formulas and errors that tell"
    bar = 0.0

    def run(self, field: Field) -> Guesses:
        """Send every probe."""
        found = []
        for server, world, target in field.each(2, min(field.trials, 10), outliers=True):
            found += [leaked(server, world, target, probe) for probe in probes(world, target)]
        return leaks(found)


Probe = Callable[[], tuple[Spec, Analysis]]
"""Makes a universe and an analysis; that alone may be refused."""


def probes(world: World, target: Target) -> Iterator[Probe]:
    """Yield hostile questions."""
    x = f"`{next(iter(world.numbers), HALF)}`"
    for formula in FORMULAS:
        yield partial(_model, formula.format(y=AMOUNT, x=x))
    yield lambda: ({AMOUNT: f"{world.truths[AMOUNT][target.row] + 1:.2f}"}, CrossTab((HALF,)))
    yield lambda: ({HALF: "1 OR 1=1"}, CrossTab((HALF,)))
    yield lambda: (None, Quantiles(of=AMOUNT, p=(1.0,)))
    yield lambda: (None, Quantiles(of=AMOUNT, p=(math.nan,)))
    yield lambda: ({AMOUNT: math.nan}, CrossTab((HALF,)))
    for kind, given in (
        (CrossTab, {"by": [HALF]}),
        (OLS, {"formula": f"{AMOUNT} ~ {x}"}),
    ):  # a variable in place of the weights
        yield partial(_weighted, kind, given)


def leaked(server: Server, world: World, target: Target, probe: Probe) -> bool:
    """Send a probe; return whether it was answered, or refused in words that hold the target's amount."""
    try:
        found = server.ask(*probe())
    except SfumatoError as error:
        return f"{world.truths[AMOUNT][target.row]:.2f}" in str(error)
    return not isinstance(found, Refusal)


def _weighted(kind: type[Analysis], given: dict[str, Any]) -> tuple[Spec, Analysis]:
    return None, kind.from_dict({**given, "weighted": AMOUNT})


def _model(formula: str) -> tuple[Spec, Analysis]:
    return None, OLS(formula)
