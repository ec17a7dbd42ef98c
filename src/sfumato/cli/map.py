"""`sfumato map`: risk against utility over the parameters of a mask, and the best choice that is safe enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato import maps
from sfumato.cli.console import Screen, percent
from sfumato.cli.files import check_chart, check_report, save_chart
from sfumato.cli.map_output import exit_infeasible, show_choice, show_points, show_refused
from sfumato.cli.options import (
    ConfidentialFile,
    Only,
    OutputOptions,
    RecipeOptions,
    SnooperOptions,
    SourceOptions,
    Weighted,
    expand_options,
    max_error_option,
    max_risk_option,
    measure_names,
    option,
    output_field,
    seed_option,
)
from sfumato.cli.parse import grid, risk_measure, thresholds, utility_of

if TYPE_CHECKING:
    from sfumato.contract.score import Score
    from sfumato.data.microdata import Microdata
    from sfumato.maps import Choice, RUMap


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """The options of `sfumato map`."""

    file: ConfidentialFile
    over: list[str] = option(
        "What to sweep: noise.lambda2=0.01:1:25 is 25 values from 0.01 to 1 by equal factors, noise.lambda2=0.05,0.1,0.2 these "
        "three. Give it twice to sweep two parameters.",
        required=True,
        metavar="PARAMETER=VALUES",
    )
    risk: list[str] = option(
        "A column that a snooper wants to know, or with parameters of the measure: 'salary; low=0.99' for the top one percent; or "
        "a measure by name: 'k_anonymity; k=5'.",
        required=True,
    )
    utility: list[str] = option(
        "What an analyst estimates: a column (its mean), 'income - salary' (of means), 'salary ~ age', or 'salary ~ age + "
        "C(region); age'; or a measure by name: variance_kept, 'variance_kept; over=salary,income'.",
        required=True,
    )
    weighted: Weighted = False
    recipe: RecipeOptions
    measure: str = option(
        "Which risk measure; `sfumato risk --list` shows all.", default="attribute_risk", autocompletion=measure_names
    )
    max_risk: list[str] | None = max_risk_option("COLUMN=R for one of several columns")
    max_error: list[str] | None = max_error_option()
    replications: int = option("How often the file is masked at each point; 0 for formulas alone.", default=200, min=0)
    snooper: Annotated[SnooperOptions, Only("strategy", "match_probability", "knows", "published", "keys", "precision")]
    source: Annotated[SourceOptions, Only("schema", "read")]
    seed: int | None = seed_option()
    out: Path | None = output_field("Write a report (HTML).")
    chart: Path | None = output_field("Draw the map (.svg or .png).")
    output: OutputOptions


@expand_options
def map_(options: MapOptions) -> None:
    """Trace disclosure risk against data utility over the parameters of a mask, and choose.

    With --max-risk or --max-error, the most useful point whose risk stays below is found, between the points too, and
    confirmed with fresh random numbers. If there is none, the answer is "infeasible" and the exit code 3.
    """
    screen = options.output.screen()
    check_report(options.out, options.output.replace, json=False)
    check_chart(options.chart, options.output.replace)
    recipe = options.recipe.load()
    swept = grid(options.over, recipe)
    risks = [risk_measure(text, options.measure) for text in options.risk]
    limits = thresholds(options.max_risk, options.max_error, risks)
    snooper = options.snooper.build()
    data = options.source.load(screen, options.file)
    utilities = [utility_of(text, data.schema.names(), options.weighted) for text in options.utility]
    choice: Choice | None = None
    with screen.progress() as tell:
        m = maps.ru_map(
            data, recipe, swept, risks, utilities, snooper=snooper, replications=options.replications, draws=options.seed,
            progress=lambda done, total: tell("Masking at every point", done, total),
        )  # fmt: skip
        if limits:
            tell("Looking for the best point that is safe", 0, 0)
            choice = m.choose(limits)
        _draw(m, choice, limits, data, options, tell)
    _show(screen, m, choice)
    show_refused(screen, m)
    screen.answer({
        "file": options.file, **m.to_dict(), "choice": None if choice is None else choice.to_dict(), "report": options.out,
        "chart": options.chart,
    })  # fmt: skip
    exit_infeasible(choice)


def _draw(
    m: RUMap, choice: Choice | None, limits: dict[str, float], data: Microdata, options: MapOptions, tell: Any
) -> None:
    """Write the report and the chart."""
    if options.chart is not None:
        tell("Drawing", 0, 0)
        save_chart(m.chart(limits or None, choice), options.chart)
    if options.out is not None:
        from sfumato.reports import Report, data_section

        tell("Writing the report", 0, 0)
        title = f"R-U map of {options.file.name}"
        Report(title, [data_section(data), m.section(limits or None, choice)]).write(options.out)


def _show(screen: Screen, m: RUMap, choice: Choice | None) -> None:
    how = f"{m.replications:,} replications" if m.replications else "by formula"
    screen.say(f"The snooper {m.subject.evaluator.snooper.describe()}. {len(m.points):,} points, {how}.")
    screen.say()
    how = "U = 1 / mean squared error of an estimate" if any("estimator" in u.parameters() for u in m.measures) else "U"
    columns = {name: lambda point, name=name: float(point.settings[name]) for name in m.parameters}
    show_points(screen, m, columns, f"R: lower is safer. {how}: higher is more useful.", "unmasked")
    kept: dict[str, float] = {}
    if choice is not None and choice.feasible:
        from sfumato.maps.rumap import precision_kept

        kept = precision_kept(m, choice)

    def precision(score: Score) -> str:
        share = kept.get(score.measure, math.nan)
        return "" if math.isnan(share) else f" ({percent(share)} of the unmasked file's precision)"

    show_choice(
        screen, choice, "Add --max-error or --max-risk to choose the most useful point that is safe enough.", precision
    )
