"""Draw the charts of the documentation: ``python docs/make_figures.py`` writes docs/img/*.svg and their numbers.

The numbers are kept beside the pictures (numbers.json), so that a test can tell when a picture has grown old.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato import EstimatorUtility, KimNoise, Recipe, RUMap, ru_map
from sfumato.charts.render import to_svg
from sfumato.datasets import teachers
from sfumato.demo import LEVELS, MAX_ERROR, SEED
from sfumato.rumap import figure1, figure2
from sfumato.utility import Formula, Mean, MeanCombination

IMG = Path(__file__).resolve().parent / "img"
MAX_RISK = 1 / MAX_ERROR**2

Spec = dict[str, Any]


def paper_figure1() -> Spec:
    """Figure 1 of the R-U paper, by formula."""
    m = figure1()
    return m.chart(MAX_RISK, m.choose(MAX_RISK)).to_dict()


def paper_figure2(r2: float) -> Spec:
    """Figure 2 of the R-U paper for one coefficient of determination, by formula."""
    return figure2(r2=r2).chart().to_dict()


def tutorial_map() -> Spec:
    """The map of the tutorial: the page's own code, as it stands there."""
    text = (IMG.parent / "tutorial.md").read_text("utf-8")
    call = next(code for code in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "ru_map(" in code)
    schema = teachers(1).schema
    namespace: dict[str, Any] = {"data": teachers(2_000).with_schema(schema)}
    exec(call[: call.index("rows =")], namespace)  # noqa: S102 - it is our own page
    m: RUMap = namespace["m"]
    return m.chart(MAX_RISK, m.choose(MAX_RISK)).to_dict()


def demo_map() -> Spec:
    """The map of ``make demo``, with fewer replications."""
    estimators = (
        Mean("salary"),
        MeanCombination({"income": 1, "salary": -1}),
        Formula("salary ~ age + C(region)", term="age"),
    )
    m = ru_map(
        teachers(30_000, SEED), Recipe.of(noise=KimNoise(columns=("salary", "income"))), {"noise.lambda2": LEVELS[::2]},
        risk="salary", utility=[EstimatorUtility(e) for e in estimators], replications=200, draws=SEED,
    )  # fmt: skip
    return m.chart(MAX_RISK, m.choose(MAX_RISK)).to_dict()


FIGURES: Mapping[str, Callable[[], Spec]] = {
    "figure1": paper_figure1,
    "figure2-r2-03": lambda: paper_figure2(0.3),
    "figure2-r2-05": lambda: paper_figure2(0.5),
    "tutorial-map": tutorial_map,
    "ru-map": demo_map,
}


def numbers(spec: Any) -> list[float]:
    """Return every number that a chart was drawn from, in order: those in its rows of data."""
    if isinstance(spec, list) and spec and all(_is_row(part) for part in spec):
        cells = (value for row in spec for _, value in sorted(row.items()))
        return [float(v) for v in cells if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    parts = spec.values() if isinstance(spec, Mapping) else spec if isinstance(spec, list) else ()
    return [number for part in parts for number in numbers(part)]


def _is_row(part: Any) -> bool:
    return isinstance(part, Mapping) and all(v is None or isinstance(v, str | int | float) for v in part.values())


def main(names: list[str]) -> None:
    """Draw some figures, or all."""
    IMG.mkdir(exist_ok=True)
    kept = IMG / "numbers.json"
    known = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for name in names or FIGURES:
        spec = FIGURES[name]()
        (IMG / f"{name}.svg").write_text(to_svg(spec), "utf-8")
        known[name] = [float(f"{n:.9g}") for n in numbers(spec)]
        print(f"{name}: {len(known[name]):,} numbers")
    lines = ",\n".join(f'"{name}": {json.dumps(known[name])}' for name in FIGURES if name in known)
    kept.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
