"""Draw the charts of the documentation: ``python docs/make_figures.py`` writes docs/img/*.svg and their numbers.

The numbers are kept beside the pictures (numbers.json), so that a test can tell when a picture has grown old.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sfumato import Recipe, ru_map
from sfumato.charts.measures import loss_chart
from sfumato.charts.theme import to_svg
from sfumato.cli.demo import LEVELS, MAX_ERROR, SEED
from sfumato.datasets import BILLING_SIZES, billing, teachers
from sfumato.datasets.analysis_survey import coarse_cutpoints, fine_cutpoints, survey20k
from sfumato.maps import Overlay, RUMap
from sfumato.mas import Preview
from sfumato.mas.attacks import Differencing, SkewedDifferencing
from sfumato.mas.attacks.bench import Bench
from sfumato.mas.attacks.reference_workload import HonestUsers, ordinary_questions
from sfumato.mas.models.residual_pictures import ResidualPicture
from sfumato.mas.policy import Policy
from sfumato.mas.policy_trials import policy_map
from sfumato.masks import KimNoise
from sfumato.papers import (
    KeyExperiments,
    MaskTradeoff,
    RegionPicture,
    ReleaseRegion,
    figure1,
    figure2,
    key_experiments,
    mask_tradeoff,
)
from sfumato.utility import EstimatorUtility, Formula, Mean, MeanCombination

IMG = Path(__file__).resolve().parent / "img"
MAX_RISK = 1 / MAX_ERROR**2


def tutorial_map() -> RUMap:
    """The map of the tutorial: the page's own code, as it stands there."""
    schema = teachers(1).schema
    namespace: dict[str, Any] = {"data": teachers(2_000).with_schema(schema)}
    exec(_code("tutorial.md", "ru_map(", "rows ="), namespace)  # noqa: S102 - it is our own page
    m: RUMap = namespace["m"]
    return m


def sequences() -> RUMap:
    """The search of the page on sequences of methods: the page's own code."""
    namespace: dict[str, Any] = {}
    exec(_code("decision/sequences.md", "search(", "print("), namespace)  # noqa: S102 - it is our own page
    found: RUMap = namespace["found"]
    return found


def compare_methods() -> RUMap:
    """The search of the page on comparing methods: the page's own code."""
    namespace: dict[str, Any] = {}
    exec(_code("howto/compare-methods.md", "search(", "print("), namespace)  # noqa: S102 - it is our own page
    found: RUMap = namespace["found"]
    return found


def _code(page: str, call: str, until: str) -> str:
    """Return the block of a page that makes a call, up to where it goes on to something else."""
    text = (IMG.parent / page).read_text("utf-8")
    block = next(code for code in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if call in code)
    return str(block[: block.index(until)])


def demo_map() -> RUMap:
    """The map of ``make demo``, with fewer replications."""
    estimators = (
        Mean("salary"),
        MeanCombination({"income": 1, "salary": -1}),
        Formula("salary ~ age + C(region)", term="age"),
    )
    return ru_map(
        teachers(30_000, SEED), Recipe.of(noise=KimNoise(columns=("salary", "income"))), {"noise.lambda2": LEVELS[::2]},
        risk="salary", utility=[EstimatorUtility(e) for e in estimators], replications=200, draws=SEED,
    )  # fmt: skip


def global_risk() -> KeyExperiments:
    """Figures 4.1 to 4.3 of the global-risk paper, on generated bills."""
    return key_experiments({f"{n:,} records": billing(n) for n in BILLING_SIZES})


def release_region() -> RegionPicture:
    """The example of the page on inferential disclosure: two attributes that correlate at 0.6, half the variance."""
    region = ReleaseRegion([[1.0, 0.6], [0.6, 1.0]], tau=0.5)
    cases = {"A": (0.1, 0.3), "B": (0.4, -0.4), "C": (0.62, 0.45), "D": (-0.8, -0.4)}
    return region.picture(cases, limits=0.25, names=("rent", "income"))


def mask_curves() -> MaskTradeoff:
    """The curves on the page of the best matrix mask."""
    return mask_tradeoff(teachers(2_000), "income", columns=["age", "experience", "salary"])


def cutpoints() -> Preview:
    """The preview of the page on cutpoints: the page's own code."""
    namespace: dict[str, Any] = {}
    exec(_code("mas/cutpoints.md", "preview(", "print("), namespace)  # noqa: S102 - it is our own page
    seen: Preview = namespace["seen"]
    return seen


def synthetic_residuals() -> ResidualPicture:
    """The picture of the page on diagnostics: the page's own code."""
    namespace: dict[str, Any] = {}
    exec(_code("mas/diagnostics.md", "picture(", "print("), namespace)  # noqa: S102 - it is our own page
    picture: ResidualPicture = namespace["picture"]
    return picture


def policy_settings() -> RUMap:
    """The larger map on the page about maps of policies: the rules as printed over q and noise on counts."""
    data = survey20k()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(data, fine_cutpoints(), Path(folder) / "bench", worlds=2, trials=100)
        users = HonestUsers(data, coarse_cutpoints(), Path(folder) / "users", ordinary_questions()[::4])
        return policy_map(
            Policy.named("census2009"), {"drop.q": [0, 2, 10, 50], "counts.sd": [0.0, 2.0, 5.0]}, bench=bench, users=users,
            recipes=[Differencing(), SkewedDifferencing()],
        )  # fmt: skip


Drawn = RUMap | Overlay | KeyExperiments | RegionPicture | MaskTradeoff | Preview | ResidualPicture

MAPS: Mapping[str, tuple[Callable[[], Drawn], float | None]] = {
    "figure1": (figure1, MAX_RISK),
    "figure2": (figure2, None),
    "tutorial-map": (tutorial_map, MAX_RISK),
    "ru-map": (demo_map, MAX_RISK),
    "global-risk": (global_risk, None),
    "release-region": (release_region, None),
    "mask-tradeoff": (mask_curves, None),
    "sequences": (sequences, None),
    "compare-methods": (compare_methods, 0.2),
    "cutpoints": (cutpoints, None),
    "synthetic-residuals": (synthetic_residuals, None),
    "policy-map": (policy_settings, None),
}
"""Each picture's map, and the largest tolerable risk in it."""


def chart_of(m: Drawn, max_risk: float | None) -> dict[str, Any]:
    """Return the specification of a map's chart, with the choice ringed where there is a threshold."""
    if isinstance(m, RUMap) and m.choice is not None:
        return (loss_chart(m.frame()) if max_risk is None else m.chart()).to_dict()
    if isinstance(m, KeyExperiments | RegionPicture | MaskTradeoff | Preview | ResidualPicture):
        return m.chart().to_dict()
    if isinstance(m, Overlay):
        return m.chart(max_risk, {"kim_noise.lambda2": 0.15}).to_dict()
    choice = None if max_risk is None else m.choose(max_risk)
    return m.chart(max_risk, choice).to_dict()


def values(m: Drawn) -> list[float]:
    """Return every finite number of a map, to six digits, in the order of its frame."""
    if isinstance(m, Preview):
        return [float(f"{e:.6g}") for e in m.choose().edges]
    if isinstance(m, ResidualPicture):
        return [float(f"{t:.6g}") for t in m.points["residual"]]
    if isinstance(m, RUMap) and m.choice is not None:
        return [float(f"{row['value']:.6g}") for row in m.rows if row["masked"] and math.isfinite(row["value"])]
    column = "share" if isinstance(m, MaskTradeoff) else "value"
    return [float(f"{v:.6g}") for v in m.frame()[column] if math.isfinite(v)]


def numbers(spec: Any) -> list[float]:
    """Return every number that a chart was drawn from, in order: those in its rows of data."""
    if isinstance(spec, list | tuple) and spec and all(_is_row(part) for part in spec):
        cells = (value for row in spec for _, value in sorted(row.items()))
        return [float(v) for v in cells if isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)]
    parts = spec.values() if isinstance(spec, Mapping) else spec if isinstance(spec, list | tuple) else ()
    return [number for part in parts for number in numbers(part)]


def _is_row(part: Any) -> bool:
    return isinstance(part, Mapping) and all(v is None or isinstance(v, str | int | float) for v in part.values())


def main(names: list[str]) -> None:
    """Draw some figures, or all."""
    IMG.mkdir(exist_ok=True)
    kept = IMG / "numbers.json"
    known = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for name in names or MAPS:
        make, max_risk = MAPS[name]
        m = make()
        (IMG / f"{name}.svg").write_text(to_svg(chart_of(m, max_risk)), "utf-8")
        known[name] = values(m)
        print(f"{name}: {len(known[name]):,} numbers")
    lines = ",\n".join(f'"{name}": {json.dumps(known[name])}' for name in MAPS if name in known)
    kept.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
