"""Replication: mask again and again with common random numbers, records of a file or of a normal population."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract.draws import Draws
from sfumato.contract.mask import Recipe, Step, run_steps
from sfumato.contract.measure import Measure
from sfumato.contract.release import Holdout, Release
from sfumato.contract.release_model import NoiseModel, check_covariance
from sfumato.contract.score import Side
from sfumato.contract.snooper import Snooper
from sfumato.data import Column, Kind, LocalEngine, Microdata, Rows
from sfumato.errors import ParameterError
from sfumato.kernels.moments import covariance_root
from sfumato.schema import Attribute, Level, Schema
from sfumato.typing import Numbers


@dataclass(frozen=True, eq=False)
class NormalPopulation:
    """Records X ~ N(mean, covariance), n at a time; the setting of the R-U paper's sections 4 and 5.

    Examples
    --------
    >>> teachers = NormalPopulation({"income": 80, "salary": 50}, [[17.5**2, 8.3**2], [8.3**2, 13.3**2]], n=1000)
    >>> len(teachers.sample(np.random.default_rng(1)))
    1000
    """

    means: dict[str, float]
    covariance: Numbers
    n: int
    unit: str = ""

    def __init__(self, means: dict[str, float], covariance: ArrayLike, n: int, unit: str = "") -> None:
        names = tuple(means)
        matrix = np.asarray(covariance, np.float64)
        if matrix.shape != (len(names), len(names)):
            raise ParameterError(
                f"{len(names)} columns need a covariance matrix of {len(names)} × {len(names)} numbers."
            )
        check_covariance(matrix, names)
        if n < 1:
            raise ParameterError("a sample needs at least one record.")
        for name, value in (("means", dict(means)), ("covariance", matrix), ("n", int(n)), ("unit", unit)):
            object.__setattr__(self, name, value)

    @classmethod
    def regression(cls, r2: float, n: int, beta: float = 1.0, sigma: float = 1.0) -> NormalPopulation:
        """Return the population of equation 4.1: y = βx + e, Var(x) = σ², with coefficient of determination r2 (4.6)."""
        if not 0 < r2 < 1:
            raise ParameterError("r2 must lie between 0 and 1; both ends excluded.")
        xx, xy = sigma**2, beta * sigma**2
        return cls({"x": 0.0, "y": 0.0}, [[xx, xy], [xy, beta**2 * sigma**2 / r2]], n)

    @cached_property
    def schema(self) -> Schema:
        """Every column is confidential and numeric."""
        return Schema(tuple(Attribute(name, role="confidential", unit=self.unit) for name in self.means))  # type: ignore[arg-type]

    def sample(self, generator: np.random.Generator) -> Microdata:
        """Draw n records."""
        x = generator.standard_normal((self.n, len(self.means))) @ covariance_root(self.covariance).T
        columns = {name: Column.from_numbers(mean + x[:, j]) for j, (name, mean) in enumerate(self.means.items())}
        return Microdata(LocalEngine(Rows(np.arange(self.n, dtype=np.int64), columns)), self.schema)

    def model(self) -> NoiseModel:
        """Return the true moments, without noise."""
        mean = np.array(list(self.means.values()), np.float64)
        return NoiseModel(tuple(self.means), mean, self.covariance, np.zeros_like(self.covariance), self.n)

    def fit(self, recipe: Recipe, shared: dict[Any, Any] | None = None) -> Recipe:
        """Return the recipe with its noise scaled by the population's covariance, as equation 3.1 has it.

        Noise scaled by each sample's own covariance is another mask: it varies with the sample, and at λ² = 1 a slope
        on the masked column has a variance smaller by a sixth (R² = .5). From the first step that is not additive noise
        on, steps are left to be fitted on each sample. `shared` lets the points of a map share what steps have learned.
        """
        names, schema, covariance = tuple(self.means), self.schema, self.covariance
        known = {} if shared is None else shared
        steps: list[Step] = []
        for step in recipe.steps:
            added = step.mask.noise(names, covariance, schema)
            if added is None:
                break
            key = (step.name, covariance.tobytes())
            mask = known.get(key, step.mask.forget())
            changes = {f: v for f in mask.parameters() if (v := getattr(step.mask, f)) != getattr(mask, f)}
            mask = mask.with_(**changes)
            if not mask.is_fitted:
                mask = known[key] = mask.fit(self._exactly(covariance), Draws(0))
            steps.append(Step(step.name, mask))
            covariance = covariance + added
        return replace(recipe, steps=(*steps, *recipe.steps[len(steps) :]))

    def _exactly(self, covariance: Numbers) -> Microdata:
        """Return a few records whose own mean and covariance (divisor n - 1) are exactly the given ones."""
        size = len(self.means)
        arms = covariance_root(covariance).T * np.sqrt(size - 0.5)
        x = np.concatenate([arms, -arms])
        columns = {name: Column.from_numbers(mean + x[:, j]) for j, (name, mean) in enumerate(self.means.items())}
        return Microdata(LocalEngine(Rows(np.arange(2 * size, dtype=np.int64), columns)), self.schema)


Settings = Mapping[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Everything needed to put a number on any parameter value: by replication, or by formula where there is one."""

    source: Microdata | NormalPopulation
    recipe: Recipe
    measures: tuple[Measure, ...]
    snooper: Snooper
    draws: Draws
    workers: int = 1
    holdout: Holdout | None = None
    """Records set aside before masking, for the measures that need them."""
    moments: dict[Any, NoiseModel] = field(default_factory=dict, repr=False)
    """Moments of the file by the columns that were asked for: a search for a parameter asks again and again."""

    @classmethod
    def make(
        cls,
        source: Microdata | NormalPopulation,
        recipe: Recipe,
        measures: Iterable[Measure],
        snooper: Snooper,
        draws: Draws,
    ) -> Evaluator:
        """Bring the needed columns into memory and prepare the measures."""
        measures = tuple(measures)
        if isinstance(source, NormalPopulation):
            model = source.model()
            sample = source.sample(np.random.default_rng(0))
            return cls(source, recipe, tuple(m.prepare(sample, model) for m in measures), snooper, draws)
        local = source.local(needed_columns(source, recipe, measures, snooper))
        return cls(local, recipe, tuple(m.prepare(local) for m in measures), snooper, draws)

    # -- replication

    def observe(
        self, points: Sequence[Settings], replications: int, stream: str = "map", progress: Progress | None = None
    ) -> list[Numbers]:
        """Return for each measure its observations, shape (points, replications, k).

        Every point of a replication sees the same records and the same random numbers. `stream` names a family of
        seeds: another name, fresh seeds.
        """
        draws = self.draws.child(stream)
        fitted = self._fitted(points)
        done = 0

        def one(number: int) -> list[list[Numbers]]:
            return self._replication(points, fitted, draws.replicate(number).remembering())

        results: list[list[list[Numbers]]] = []
        with self._running() as run:
            for result in run(one, range(replications)):
                results.append(result)
                done += 1
                if progress is not None:
                    progress(done, replications)
        return [
            np.stack([np.stack([r[p][m] for r in results]) for p in range(len(points))])
            for m in range(len(self.measures))
        ]

    @contextmanager
    def _running(self) -> Iterator[Callable[..., Iterable[list[list[Numbers]]]]]:
        """Yield what maps a function over numbers, in their order: threads, or with one worker nothing but the caller."""
        if self.workers == 1:
            yield map
            return
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                yield pool.map
            except BaseException:  # Ctrl-C too: do not wait for what has not begun
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _replication(
        self, points: Sequence[Settings], fitted: Sequence[Recipe | None], draws: Draws
    ) -> list[list[Numbers]]:
        found: list[list[Numbers]] = [[np.empty(0)] * len(self.measures) for _ in points]
        for design in dict.fromkeys(map(self._design, self.measures)):
            runner = _Runner(fitted[0] or self.recipe, self._data(design, draws), draws, points)
            for p, settings in enumerate(points):
                release = runner.release(settings, fitted[p])
                release = release if self.holdout is None else replace(release, holdout=self.holdout)
                for i, measure in enumerate(self.measures):
                    if self._design(measure) == design:
                        found[p][i] = measure.observe(release, self.snooper)
        return found

    def _design(self, measure: Measure) -> str:
        return "population" if isinstance(self.source, NormalPopulation) else measure.design

    def _fitted(self, points: Sequence[Settings]) -> list[Recipe | None]:
        """Return the recipe of each point with noise fitted to the population's own moments; None for a file."""
        if not isinstance(self.source, NormalPopulation):
            return [None] * len(points)
        shared: dict[Any, Any] = {}
        return [self.source.fit(self.recipe.with_({} if s is UNMASKED else s), shared) for s in points]

    def _data(self, design: str, draws: Draws) -> Microdata:
        if isinstance(self.source, NormalPopulation):
            return self.source.sample(draws.generator("population"))
        if design == "file":
            return self.source
        return self.source.resample(draws.generator("resample"))

    # -- formulas

    def model(self, measure: Measure) -> NoiseModel | None:
        """Return the moments of the numbers that a measure and the recipe look at, without noise; None if there are none.

        n is the number of records that have all of the measure's columns: what its estimator can use.
        """
        if isinstance(self.source, NormalPopulation):
            return self.source.model()
        source, own = self.source, measure.columns(self.source.schema)
        if own is None:
            return None
        if measure.side is Side.UTILITY and any(source.schema[n].level is Level.HOUSEHOLD for n in own):
            return None  # formulas take records as independent; members of a household share this value and its noise
        wanted = {*own, *self.recipe.touches(source.schema), *self.snooper.covariates}
        names = tuple(n for n, kind in source.engine.kinds.items() if kind is Kind.NUMBER and n in wanted)
        used = [n for n in names if n in own]
        if not used:
            return None
        if (names, *used) not in self.moments:
            found, count = source.moments(names), source.moments(used).count
            self.moments[names, *used] = NoiseModel(names, found.mean, found.covariance, 0 * found.covariance, count)
        return self.moments[names, *used]

    def analytic(self, points: Sequence[Settings]) -> list[Numbers]:
        """Return for each measure its values by formula at every point, NaN where there is none; shape (points,)."""
        values = [np.full(len(points), np.nan) for _ in self.measures]
        recipes = [self.recipe.with_none() if s is UNMASKED else self.recipe.with_(s) for s in points]
        for measure, found in zip(self.measures, values, strict=True):
            model = self.model(measure)
            if model is None:
                continue
            for p, recipe in enumerate(recipes):
                released = recipe.release_model(model, self.source.schema)
                if released is not None:
                    value = measure.by_formula(released, self.snooper)
                    found[p] = np.nan if value is None else value
        return values


class _Runner:
    """Masks the same data at many points: what does not change between points is done once."""

    def __init__(self, recipe: Recipe, data: Microdata, draws: Draws, points: Sequence[Settings]) -> None:
        swept = {path.split(".")[0] for settings in points if settings is not UNMASKED for path in settings}
        names = [s.name for s in recipe.steps]
        self.first = min((names.index(n) for n in swept if n in names), default=0)
        self.data, self.draws, self.recipe = data, draws, recipe
        head, self.start, _ = run_steps(recipe.steps[: self.first], data, draws, verify=False)
        self.recipe = replace(recipe, steps=(*head, *recipe.steps[self.first :]))

    def release(self, settings: Settings, fitted: Recipe | None = None) -> Release:
        """Mask at one point, with the recipe as `fitted` elsewhere, or with what an earlier point learned from the data."""
        if settings is UNMASKED:
            return Release(self.data, (self.data,), self.recipe.with_none())
        recipe = self.recipe.with_(settings) if fitted is None else fitted
        tail, masked, _ = run_steps(recipe.steps[self.first :], self.start, self.draws, verify=False)
        recipe = replace(recipe, steps=(*recipe.steps[: self.first], *tail))
        if not all(s.mask.is_fitted for s in self.recipe.steps):
            self.recipe = recipe
        return Release(self.data, (masked, *recipe.further(self.data, self.draws, verify=False)), recipe)


UNMASKED: Settings = {"unmasked": True}
"""The point at which nothing is masked."""


def needed_columns(
    data: Microdata, recipe: Recipe, measures: Iterable[Measure], snooper: Snooper
) -> tuple[str, ...] | None:
    """Return the columns that the recipe, the measures or the snooper look at; None for all."""
    wanted = {*recipe.touches(data.schema), *snooper.covariates}
    for measure in measures:
        columns = measure.columns(data.schema)
        if columns is None:
            return None
        wanted |= {*columns, *measure.beside(data)}
    for name in wanted:
        data.kind(name)  # refuses an unknown name
    design = {a.name for a in data.schema if a.is_design}
    return tuple(n for n in data.engine.kinds if n in wanted | design)
