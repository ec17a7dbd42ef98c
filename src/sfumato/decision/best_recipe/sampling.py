"""The first look at a family with more than two parameters: optuna's multi-objective sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.decision.best_recipe.judge import Judge
from sfumato.decision.best_recipe.space import Family, Point, Range, Values
from sfumato.decision.best_recipe.trials import Look
from sfumato.errors import MissingExtra


def optuna_sampler(judge: Judge, count: int, seed: int) -> Callable[[Family, Callable[[Point], Look]], None]:
    """Return a sampler that looks at `count` points of a family: less risk and more utility, both at once."""

    def sample(family: Family, look: Callable[[Point], Look]) -> None:
        optuna = load_optuna(family)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=count // 2)
        study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
        for _ in range(count):
            trial = study.ask()
            point = family.snapped([_asked(trial, path, axis) for path, axis in family.over.items()])
            verdict = judge.verdict(look(point))
            fine = verdict.gain > float("-inf")
            study.tell(trial, [verdict.excess, verdict.gain] if fine else None,
                       state=None if fine else optuna.trial.TrialState.FAIL)  # fmt: skip

    return sample


def _asked(trial: Any, path: str, axis: Range | Values) -> float:
    if isinstance(axis, Values):
        return axis.centre(trial.suggest_categorical(path, list(range(len(axis.values)))))
    return float(trial.suggest_float(path, 0.0, 1.0))


def load_optuna(family: Family) -> Any:
    """Return optuna, or say what a family with many parameters needs."""
    try:
        import optuna
    except ImportError:
        raise MissingExtra(
            f"the recipe '{family.name}' has {len(family.axes)} parameters to search; more than two need optuna: "
            "pip install 'sfumato[search]'. Or name at most two, and fix the others in the recipe."
        ) from None
    return optuna
