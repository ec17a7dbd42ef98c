"""The best recipe: over one or many, sequences included, the most useful release whose risk holds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sfumato.contract import Draws, Holdout, Measure, Side, Snooper
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names, plural
from sfumato.maps.judge import Judge, PointVerdict, against, anchors_of, scenarios_of, thresholds_of
from sfumato.maps.race import EFFORTS, Effort, Race, calibration, load_optuna, optuna_sampler, parts_of
from sfumato.maps.rumap import RUMap, applicable, measures_of, titles
from sfumato.maps.search_map import Confirmation, ConfirmedTrial, SearchSubject
from sfumato.maps.search_space import Family, families_of
from sfumato.maps.trials import Archive, Trial, Trials

Progress = Callable[[str, int, int, str], None]
"""Told the stage, how many points of it are done and of about how many, and the best so far in words."""


def search(
    data: Microdata,
    recipes: Any,
    risk: Any,
    utility: Any,
    max_risk: float | Mapping[str, float],
    *,
    over: Mapping[str, Any] | None = None,
    sequences: int = 1,
    snooper: Snooper | Mapping[str, Snooper] | None = None,
    maximise: str | None = None,
    effort: Literal["quick", "usual", "thorough"] = "usual",
    confirm: int = 20,
    holdout: Holdout | None = None,
    draws: Draws | int | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
    workers: int = 1,
) -> RUMap:
    """Find the recipe and the parameters with the most utility among those whose risk stays at or below `max_risk`.

    A point is safe when 95 % of the releases made there stay below the threshold: judged on a prediction limit for one further
    release, which is larger than the upper limit of the mean risk. The winner is masked again with fresh seeds, and moved until
    that holds there. A large file is first searched in a small part: recipes that are clearly less useful there fall out, and
    the better ones are looked at on the whole file.

    Parameters
    ----------
    data
        The file.
    recipes
        A mask or a recipe, or several in a list or by name. Each is searched over the parameters that have a usual range (the
        noise level, the size of groups, ...), unless it comes with its own: ``(recipe, {"noise.lambda2": (0.01, 1)})``. A pair of
        numbers is a range, a list holds values to choose from, categories included; `Range` says more.
    risk, utility
        Measures, as for `ru_map`; with several risks every one has to hold.
    max_risk
        The largest risk that is acceptable: one number, or one for each risk by its title.
    over
        Ranges for all recipes that have the parameter, instead of the usual ones.
    sequences
        Also try sequences of the recipes, in every order, up to this number in a row.
    snooper
        What the attacker knows, or several by name: then every risk has to hold against each of them.
    maximise
        Which of several utilities counts; without it, the smallest share of the unmasked file's utility.
    effort
        How hard to look: "quick", "usual" or "thorough".
    confirm
        How often the winner is masked again with fresh seeds.
    holdout
        Records set aside before masking (`hold_out`), for the measures that need them.
    draws
        Randomness; a fresh secret seed if not given. The same seed gives the same answer.
    resume
        A file that keeps what was seen, so that a search can be stopped and taken up. It needs `draws`.
    progress
        Told the stage, how many points are done, of about how many, and the best so far.
    workers
        How many replications run side by side; the answer does not depend on it.

    Examples
    --------
    >>> from sfumato import search
    >>> from sfumato.masks import KimNoise
    >>> from sfumato.datasets import teachers
    >>> found = search(teachers(500), KimNoise(), risk="salary", utility="salary", max_risk=0.04, draws=1)
    >>> found.choice.feasible, found.choice.family
    (True, 'kim_noise')
    """
    families, measures, scenarios = _checked(data, recipes, over, sequences, risk, utility, snooper, effort, confirm)
    if resume is not None and draws is None:
        raise ParameterError("a search that can be taken up again needs its own seed: give draws as well as resume.")
    source = draws if isinstance(draws, Draws) else Draws.secret() if draws is None else Draws(draws)
    measures, refused = applicable(data, families[0].recipe, measures, next(iter(scenarios.values())), holdout)
    if refused:
        raise NotApplicable(" ".join(refused.values()))
    names = titles(measures)
    thresholds = thresholds_of(measures, names, max_risk)
    archive = Archive(source, _about(data, families, measures, scenarios, holdout), resume)
    trials = Trials(data, tuple(measures), next(iter(scenarios.values())), source, archive, holdout, max(1, workers))
    return _RecipeSearch(
        trials, families, thresholds, maximise, EFFORTS[effort], confirm, names, scenarios, progress
    ).run()


class _RecipeSearch:
    """One search, stage by stage."""

    def __init__(
        self,
        trials: Trials,
        families: tuple[Family, ...],
        thresholds: Mapping[int, float],
        maximise: str | None,
        effort: Effort,
        confirm: int,
        names: tuple[str, ...],
        scenarios: Mapping[str, Snooper],
        progress: Progress | None,
    ) -> None:
        self.trials, self.families, self.names, self.scenarios = trials, families, names, scenarios
        self.effort = effort
        self.parts = parts_of(len(trials.data), effort)
        self.stage, self.done, self.total, self.progress = "", 0, 0, progress
        self.bests: dict[str, tuple[int, tuple[PointVerdict, Trial] | None]] = {}
        self.whole = trials.unmasked(families[0], self.parts[-1])
        judge = Judge(trials.measures, thresholds, anchors_of(trials.measures, names, maximise, self.whole))
        seed = int(trials.draws.generator("optuna").integers(2**31))
        least = max(effort.replications, *(m.replications for m in trials.measures))
        self.race = Race(trials, judge, effort, optuna_sampler(judge, effort.sampled, seed), least)
        self.confirm = max(confirm, least)
        trials.after_each = self._count

    def run(self) -> RUMap:
        """Race the families, then confirm the best."""
        left = list(self.families)
        for number, records in enumerate(self.parts):
            last = number == len(self.parts) - 1
            scale = {} if last else self._scale(records)
            fit = self._stage(left, records, number, scale)
            if last:
                left = fit
                break
            kept = self.race.keep(fit, records, max(self.effort.rounds[0][0], math.ceil(len(fit) / 3)), scale)
            # what a part of the file is too small for may still work on more of it; a measure that does not apply never does
            again = [f for f in left if f not in fit and f.name not in self.trials.unfit]
            left = [f for f in left if f in kept or f in again]
        if not left:
            raise NotApplicable(self._nothing())
        confirmation = self._confirmation(left)
        winner = confirmation.run(self._ranked(left, len(left)))
        return self._result(confirmation, winner)

    def _stage(self, left: list[Family], records: int, number: int, scale: Mapping[int, float]) -> list[Family]:
        """Look at every family that is left, on a part with `records` records, and refine; return those that could be judged."""
        whole = number == len(self.parts) - 1
        what = "the whole file" if whole else f"{records:,} records"
        self._begin(f"Looking at {plural(len(left), 'recipe')} on {what}", sum(self._planned(f, number) for f in left))
        fit = []
        for family in left:
            if number == 0 or not self.race.seen(family, self.parts[number - 1]):
                self.race.start(family, records)
            else:
                self._carry(family, self.parts[number - 1], records)
            if self.race.seen(family, records):
                fit.append(family)
                if not whole:
                    self.race.refine(family, records, self.effort.first, scale)
        if whole and fit:
            for count, points in self.effort.rounds:
                best = self._ranked(fit, count)
                self._begin(f"Refining {plural(len(best), 'recipe')} on {what}", len(best) * points)
                for family in best:
                    self.race.refine(family, records, points)
        return fit

    def _carry(self, family: Family, before: int, records: int) -> None:
        """Look again, on more records, at what was best on fewer: at several thresholds, since those are not the same."""
        known = self._scale(before)
        for band in (0.4, 0.7, 1.0, 1.5, 2.5):
            found = self.race.best(family, before, band, known)
            if found is not None:
                self.race.trial(family, found[1].point, records)

    def _scale(self, records: int) -> dict[int, float]:
        """Return by what factor a part of the file shows each risk too large."""
        return calibration(self.race.judge, self.trials.unmasked(self.families[0], records), self.whole)

    def _ranked(self, families: Sequence[Family], count: int) -> list[Family]:
        """Return the best families on the whole file, the best first."""
        judged = {f.name: self.race.best(f, self.parts[-1]) for f in families}
        known = [f for f in families if judged[f.name] is not None]
        return sorted(known, key=lambda f: judged[f.name][0].rank, reverse=True)[:count]  # type: ignore[index]

    def _confirmation(self, left: Sequence[Family]) -> Confirmation:
        best = self._ranked(left, 3)
        self._begin(f"Masking the best again with {self.confirm} fresh seeds", 2 * len(best))
        return Confirmation(self.race, self.parts[-1], self.confirm)

    def _result(self, confirmation: Confirmation, winner: ConfirmedTrial | None) -> RUMap:
        subject = SearchSubject(
            self.families, self.trials, self.names, self.scenarios, self.race.judge, tuple(self._results()),
            tuple(confirmation.confirmed), winner, tuple(self.whole),
        )  # fmt: skip
        return subject.map(self._refused())

    def _results(self) -> list[Trial]:
        return [trial for own in self.race.results.values() for trial in own.values()]

    def _refused(self) -> dict[str, str]:
        """Return why families could not be judged at all, by name."""
        out = {}
        for family in self.families:
            seen = [trial for trial in self._results() if trial.family.name == family.name]
            if seen and not any(trial.observed for trial in seen):
                out[family.name] = self.trials.unfit.get(family.name, seen[0].refused)
        return out

    def _nothing(self) -> str:
        reasons = "; ".join(f"{name}: {why}" for name, why in self._refused().items())
        return f"none of the recipes could be judged. {reasons}"

    # -- progress

    def _planned(self, family: Family, number: int) -> int:
        first = len(family.grid(self.effort.grid[min(max(len(family.axes), 1), 2) - 1]))
        first = first if len(family.axes) <= 2 else self.effort.sampled
        return (first if number == 0 else 4) + (self.effort.first if number < len(self.parts) - 1 else 0)

    def _begin(self, stage: str, total: int) -> None:
        self.stage, self.done, self.total = stage, 0, total
        self._say()

    def _count(self) -> None:
        self.done = self.done + 1
        self._say()

    def _say(self) -> None:
        if self.progress is not None:
            self.progress(self.stage, min(self.done, self.total), self.total, self._best())

    def _best(self) -> str:
        safe = [b for f in self.families if (b := self._best_of(f)) is not None and b[0].safe]
        if not safe:
            return ""
        verdict, trial = max(safe, key=lambda pair: pair[0].gain)
        return f"{trial.family.name}, utility {verdict.gain:.4g}"

    def _best_of(self, family: Family) -> tuple[PointVerdict, Trial] | None:
        """Return the best point of a family on the whole file; judged again only after a new look at it."""
        count = len(self.race.seen(family, self.parts[-1]))
        if self.bests.get(family.name, (0, None))[0] != count:
            self.bests[family.name] = count, self.race.best(family, self.parts[-1])
        return self.bests.get(family.name, (0, None))[1]


def _checked(
    data: Any, recipes: Any, over: Any, sequences: int, risk: Any, utility: Any, snooper: Any, effort: str, confirm: int
) -> tuple[tuple[Family, ...], list[Measure], dict[str, Snooper]]:
    """Return families, measures and snoopers, checked before anything is run."""
    if not isinstance(data, Microdata):
        raise DataError(f"a search looks at Microdata, not at {type(data).__name__}: try Microdata(frame, schema).")
    if effort not in EFFORTS:
        raise ParameterError(f"effort must be one of {join_names(EFFORTS)}; got '{effort}'.")
    if isinstance(confirm, bool) or not isinstance(confirm, int) or confirm < 3:
        raise ParameterError(
            "confirm must be a whole number of at least 3: the winner's risk needs a limit of its own."
        )
    if len(data) < 2:
        raise DataError("there are fewer than two records; there is nothing to mask.")
    families = families_of(recipes, over, sequences)
    for family in families:
        if len(family.axes) > 2:
            load_optuna(family)
    scenarios = scenarios_of(snooper)
    measures = against(measures_of(risk, utility), scenarios)
    if twice := sorted(t for t, count in Counter(titles(measures)).items() if count > 1):
        raise ParameterError(f"two measures are called '{twice[0]}'. Leave one out.")
    if not {m.side for m in measures} >= {Side.RISK, Side.UTILITY}:
        raise ParameterError("a search needs at least one risk and one utility.")
    return families, measures, scenarios


def _about(
    data: Microdata,
    families: Sequence[Family],
    measures: Sequence[Measure],
    scenarios: Mapping[str, Snooper],
    holdout: Holdout | None,
) -> str:
    """Return everything that what is seen depends on, as text; it is only ever used keyed with the seed."""
    files = [f for s in scenarios.values() for f in (s.external, s.population) if f is not None]
    return json.dumps(
        [
            data.digest().hex(),
            [f.digest().hex() for f in ([holdout, *files] if holdout is not None else files)],
            [(f.name, f.recipe.to_toml()) for f in families],
            [(m.name, m.label(), m.variant, m.to_dict()) for m in measures],
            [(name, s.describe()) for name, s in scenarios.items()],
        ],
        default=lambda thing: getattr(thing, "__qualname__", type(thing).__name__),
    )
