"""`sfumato map`: risk against utility over the parameters of a mask, and the best choice that is safe enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.console import INFEASIBLE, Screen, percent
from sfumato.cli.files import check_chart, check_report, save_chart
from sfumato.cli.options import (
    ConfidentialFile,
    MapChart,
    MapSeed,
    Only,
    OutputOptions,
    RecipeOptions,
    SnooperOptions,
    SourceOptions,
    Weighted,
    expand_options,
    measure_names,
    output_option,
)
from sfumato.cli.parse import grid, risk_measure, thresholds, utility_of

if TYPE_CHECKING:
    from sfumato.data.microdata import Microdata
    from sfumato.maps.choice import Choice
    from sfumato.maps.rumap import RUMap


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """The options of `sfumato map`."""

    file: ConfidentialFile
    over: Annotated[
        list[str],
        typer.Option(
            metavar="PARAMETER=VALUES",
            help="What to sweep: noise.lambda2=0.01:1:25 is 25 values from 0.01 to 1 by equal factors, "
            "noise.lambda2=0.05,0.1,0.2 these three. Give it twice to sweep two parameters.",
            show_default=False,
        ),
    ]
    risk: Annotated[
        list[str],
        typer.Option(
            help="A column that a snooper wants to know, or with parameters of the measure: 'salary; low=0.99' for the "
            "top one percent; or a measure by name: 'k_anonymity; k=5'. May be repeated.",
            show_default=False,
        ),
    ]
    utility: Annotated[
        list[str],
        typer.Option(
            help="What an analyst estimates: a column (its mean), 'income - salary' (of means), 'salary ~ age', or "
            "'salary ~ age + C(region); age'; or a measure by name: variance_kept, 'variance_kept; over=salary,income'. "
            "May be repeated.",
            show_default=False,
        ),
    ]
    weighted: Weighted = False
    recipe: RecipeOptions
    measure: Annotated[
        str, typer.Option(help="Which risk measure; `sfumato risk --list` shows all.", autocompletion=measure_names)
    ] = "attribute_risk"
    max_risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="R",
            help="Choose the most useful point with a risk of at most R; COLUMN=R for one of several columns.",
        ),
    ] = None
    max_error: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ERROR",
            help="The same in the column's own unit: a snooper is to be off by at least this (R = 1/ERROR²).",
        ),
    ] = None
    replications: Annotated[
        int, typer.Option(help="How often the file is masked at each point; 0 for formulas alone.", min=0)
    ] = 200
    snooper: Annotated[SnooperOptions, Only("strategy", "match_probability", "knows", "published", "keys", "precision")]
    source: Annotated[SourceOptions, Only("schema", "read")]
    seed: MapSeed = None
    out: Annotated[Path | None, output_option(help="Write a report (HTML).")] = None
    chart: MapChart = None
    output: OutputOptions


@expand_options
def map_(options: MapOptions) -> None:
    """Trace disclosure risk against data utility over the parameters of a mask, and choose.

    With --max-risk or --max-error, the most useful point whose risk stays below is found, between the points too, and
    confirmed with fresh random numbers. If there is none, the answer is "infeasible" and the exit code 3.
    """
    from sfumato.maps.rumap import ru_map

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
        m = ru_map(
            data, recipe, swept, risks, utilities, snooper=snooper, replications=options.replications, draws=options.seed,
            progress=lambda done, total: tell("Masking at every point", done, total),
        )  # fmt: skip
        if limits:
            tell("Looking for the best point that is safe", 0, 0)
            choice = m.choose(limits)
        _draw(m, choice, limits, data, options, tell)
    _show(screen, m, choice)
    for label, reason in m.refused.items():
        screen.note(f"{label}: {reason}")
    screen.answer({
        "file": options.file, **m.to_dict(), "choice": None if choice is None else choice.to_dict(), "report": options.out,
        "chart": options.chart,
    })  # fmt: skip
    if choice is not None and not choice.feasible:
        raise typer.Exit(INFEASIBLE)


def _draw(
    m: RUMap, choice: Choice | None, limits: dict[str, float], data: Microdata, options: MapOptions, tell: Any
) -> None:
    """Write the report and the chart."""
    if options.chart is not None:
        tell("Drawing", 0, 0)
        save_chart(m.chart(limits or None, choice), options.chart)
    if options.out is not None:
        from sfumato.reports.report import Report
        from sfumato.reports.sections import data_section

        tell("Writing the report", 0, 0)
        title = f"R-U map of {options.file.name}"
        Report(title, [data_section(data), m.section(limits or None, choice)]).write(options.out)


def _show(screen: Screen, m: RUMap, choice: Choice | None) -> None:
    how = f"{m.replications:,} replications" if m.replications else "by formula"
    screen.say(f"The snooper {m.subject.evaluator.snooper.describe()}. {len(m.points):,} points, {how}.")
    screen.say()
    labels = [f"{'R' if measure.side == 'risk' else 'U'}: {measure.label()}" for measure in m.measures]
    rows: list[list[object]] = []
    for p, point in enumerate(m.points):
        rows.append(
            [
                *(float(point.settings[name]) for name in m.parameters),
                *(m.estimate(i, p)[0] for i in range(len(labels))),
            ]
        )
    last = ["unmasked", *[""] * (len(m.parameters) - 1)]
    rows.append([*last, *(m.unmasked(i) for i in range(len(labels)))])
    heads = [*m.parameters, *labels]
    screen.table(heads, rows, range(len(heads)))
    how = "U = 1 / mean squared error of an estimate" if any("estimator" in u.parameters() for u in m.measures) else "U"
    screen.say(f"R: lower is safer. {how}: higher is more useful. 95 % intervals: --json or --out.")
    if choice is None:
        screen.say("Add --max-error or --max-risk to choose the most useful point that is safe enough.")
        return
    screen.say()
    screen.say(str(choice), strong=True)
    if choice.feasible:
        from sfumato.maps.rumap import precision_kept

        kept = precision_kept(m, choice)
        for score in (*choice.risks, *choice.utilities):
            share = kept.get(score.measure, math.nan)
            more = "" if math.isnan(share) else f" ({percent(share)} of the unmasked file's precision)"
            screen.say(f"  {score.measure}: {score.words}{more}")
