"""Estimators of population risk against the truth: bias, and how often the 95 % intervals hold it, over repeated samples.

``python -m benchmarks.calibration docs/risk/calibration.md`` measures anew and writes the tables into the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sfumato.contract import DirectMeasure, Release

FRACTIONS = (0.02, 0.1, 0.3)
SAMPLES = 40
POPULATIONS = ("census", "independent keys", "Poisson-gamma classes", "Zipf classes")
WITH_KEYS = POPULATIONS[:2]
MODELS = ("dankar", "zayatz", "pitman", "snb", "poisson_gamma")
MARK = "<!-- measured by benchmarks/calibration.py -->"


@dataclass(frozen=True)
class Population:
    """Classes of a population: the codes of their keys, shape (c, keys), and their sizes, shape (c,)."""

    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """What one estimator did on samples of one population at one fraction."""

    estimator: str
    population: str
    fraction: float
    truth: float
    estimate: float
    low: float
    high: float
    """Mean limits of the intervals."""
    coverage: float
    without: int
    """Samples for which it refused to give an estimate."""

    @property
    def bias(self) -> float:
        """How far the mean estimate is off, in percent of the truth."""
        return 100 * (self.estimate / self.truth - 1)


def population(name: str) -> Population:
    """Return a generated population of about 50,000 persons."""
    g = np.random.default_rng(1998)
    if name == "census":
        from sfumato.data.classes import classes_of
        from sfumato.datasets import census

        found = classes_of(census().population, ["region", "sex", "age", "marital", "education", "employment"], "value")
        return Population(np.column_stack(found.codes).astype(np.int64), found.sizes)
    if name == "independent keys":
        shares = [np.sort(g.dirichlet(np.ones(levels)))[::-1] for levels in (4, 2, 60, 5, 8, 6)]
        persons = np.column_stack([g.choice(len(p), 50_000, p=p) for p in shares])
        codes, sizes = np.unique(persons, axis=0, return_counts=True)
        return Population(codes, sizes)
    if name == "Poisson-gamma classes":
        sizes = g.negative_binomial(0.5, 0.05, 5_000)
    else:
        sizes = np.maximum(np.round(5_000 / np.arange(1, 8_001) ** 1.05 + g.random(8_000) - 0.5), 1).astype(np.int64)
    sizes = sizes[sizes > 0]
    return Population(np.arange(len(sizes))[:, None], sizes)


def released(codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Release:
    """Return a sample as a release without masking."""
    import pyarrow as pa

    from sfumato import Microdata, Release
    from sfumato.schema import Attribute, Schema

    names = [f"key{j}" for j in range(codes.shape[1])]
    table = pa.table({name: np.repeat(codes[:, j], counts) for j, name in enumerate(names)})
    data = Microdata(table, Schema(tuple(Attribute(name, role="key", scale="unordered") for name in names)))  # type: ignore[arg-type]
    return Release.of(data, data)


def estimators(name: str, fraction: float) -> dict[str, DirectMeasure]:
    """Return the estimators that make sense for a population, by name."""
    from sfumato.risk import IndividualRisk, LogLinearRisk, MatchRisk, PopulationUniques

    made: dict[str, DirectMeasure] = {
        "individual risk": IndividualRisk(fraction=fraction),
        "match risk": MatchRisk(fraction=fraction),
    }
    made |= {f"population uniques, {m}": PopulationUniques(m, fraction=fraction) for m in MODELS}  # type: ignore[arg-type]
    if name in WITH_KEYS:
        for which, tau in (("unique", "τ₁"), ("match", "τ₂")):
            for model in ("auto", "main", "pairs"):
                made[f"log-linear {tau}, {model}"] = LogLinearRisk(which, model, fraction=fraction)  # type: ignore[arg-type]
    return made


def truths(F: NDArray[np.int64], f: NDArray[np.int64]) -> dict[str, float]:
    """Return what the estimators are to find out of a sample with f of the F persons of each class."""
    n, unique = f.sum(), f == 1
    return {
        "individual risk": float((f / F).sum() / n),
        "match risk": float(unique.sum() / F[unique].sum()),
        "population uniques": float((F == 1).sum() / F.sum()),
        "log-linear τ₁": float((F[unique] == 1).sum() / n),
        "log-linear τ₂": float((1 / F[unique]).sum() / n),
    }


def rows_of(job: tuple[str, float]) -> list[Row]:
    """Return what all estimators did on samples of one population at one fraction."""
    from sfumato.errors import NotApplicable

    name, fraction = job
    people = population(name)
    g = np.random.default_rng([POPULATIONS.index(name), int(1000 * fraction)])
    tries: dict[str, list[tuple[float, float, float, float, bool]]] = {}
    refused: dict[str, int] = {}
    for _ in range(SAMPLES):
        f = g.binomial(people.sizes, fraction)
        sample = released(people.codes[f > 0], f[f > 0])
        known = truths(people.sizes, f)
        for estimator, measure in estimators(name, fraction).items():
            true = known[estimator.partition(",")[0]]
            try:
                score = measure.score(sample)
            except NotApplicable:
                refused[estimator] = refused.get(estimator, 0) + 1
                continue
            low, high = score.interval or (score.value, score.value)
            tries.setdefault(estimator, []).append((true, score.value, low, high, low <= true <= high))
    made = []
    for estimator, results in tries.items():
        truth, estimate, low, high, coverage = (float(v) for v in np.array(results, np.float64).mean(axis=0))
        made.append(Row(estimator, name, fraction, truth, estimate, low, high, coverage, refused.get(estimator, 0)))
    return made


def measured() -> list[Row]:
    """Return all rows, on two processes."""
    jobs = [(name, fraction) for name in POPULATIONS for fraction in FRACTIONS]
    with ProcessPoolExecutor(2) as pool:
        return [row for rows in pool.map(rows_of, jobs) for row in rows]


def run() -> dict[str, float]:
    """Return the claims of the page, as numbers."""
    return summary(measured())


def summary(rows: list[Row]) -> dict[str, float]:
    """Return what the page claims, as numbers."""

    def of(estimator: str, *names: str) -> list[Row]:
        return [r for r in rows if r.estimator == estimator and r.population in (names or POPULATIONS)]

    def coverage(found: list[Row]) -> float:
        return float(np.mean([r.coverage for r in found]))

    def off(found: list[Row]) -> float:
        return max(abs(r.bias) for r in found)

    result: dict[str, float] = {}
    for name, found in {
        "match risk": of("match risk"),
        "log-linear τ₁, auto": of("log-linear τ₁, auto"),
        "log-linear τ₂, auto": of("log-linear τ₂, auto"),
        "main effects, independent keys": of("log-linear τ₂, main", "independent keys"),
        "poisson_gamma, its own classes": of("population uniques, poisson_gamma", "Poisson-gamma classes"),
    }.items():
        result[f"{name}: coverage"] = coverage(found)
        result[f"{name}: largest bias, %"] = off(found)
    result["zayatz: least bias, %"] = min(r.bias for r in of("population uniques, zayatz"))
    few = [r for r in of("individual risk") if r.fraction == FRACTIONS[0]]
    result["individual risk, fraction 0.02: bias, %"] = max(r.bias for r in few)
    return result


LARGEST_BIAS = {
    "match risk": 6.0,
    "log-linear τ₁, auto": 15.0,
    "log-linear τ₂, auto": 6.0,
    "main effects, independent keys": 5.0,
    "poisson_gamma, its own classes": 30.0,
}
"""Percent."""


def holds(result: dict[str, float]) -> bool:
    """Return whether the claims of docs/risk/calibration.md hold."""
    return (
        all(result[f"{name}: coverage"] >= 0.9 for name in LARGEST_BIAS)
        and all(result[f"{name}: largest bias, %"] <= limit for name, limit in LARGEST_BIAS.items())
        and result["zayatz: least bias, %"] > 0
        and result["individual risk, fraction 0.02: bias, %"] < -20
    )


def pages(rows: list[Row]) -> Iterator[str]:
    """Yield the tables in Markdown, one per estimator."""
    for estimator in dict.fromkeys(r.estimator for r in rows):
        yield f"### {estimator[0].upper()}{estimator[1:]}\n"
        yield "| population | fraction | truth | mean estimate | bias | mean interval | intervals that hold the truth |"
        yield "|---|---|---|---|---|---|---|"
        for r in (r for r in rows if r.estimator == estimator):
            note = f" ({r.without} of {SAMPLES} samples refused)" if r.without else ""
            yield (
                f"| {r.population} | {r.fraction:g} | {r.truth:.4f} | {r.estimate:.4f} | {round(r.bias):+d} % | "
                f"{r.low:.3f} to {r.high:.3f} | {100 * r.coverage:.0f} %{note} |"
            )
        yield ""


def main(page: str | None) -> None:
    """Print the tables, or write them between the marks of a page."""
    text = "\n".join(pages(measured()))
    if page is None:
        print(text)
        return
    before, _, rest = Path(page).read_text("utf-8").partition(MARK)
    after = rest.partition(MARK)[2]
    Path(page).write_text(f"{before}{MARK}\n\n{text}\n{MARK}{after}", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
