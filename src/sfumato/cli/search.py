"""`sfumato search`: the best recipe of many that is safe enough."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sfumato import maps
from sfumato.cli.console import Misuse, Screen, percent
from sfumato.cli.files import check_chart, check_report, refuse_existing, save_chart
from sfumato.cli.map_output import exit_infeasible, show_choice, show_refused
from sfumato.cli.options import (
    ConfidentialFile,
    Only,
    OutputOptions,
    SnooperOptions,
    SourceOptions,
    Weighted,
    expand_options,
    max_error_option,
    max_risk_option,
    option,
    output_field,
    seed_option,
    snooper_field,
)
from sfumato.cli.parse import axes, recipes_of, risk_measure, snoopers_of, thresholds, utility_of
from sfumato.lazy import pd

if TYPE_CHECKING:
    from sfumato.contract import Measure, Recipe, Snooper
    from sfumato.data.microdata import Microdata
    from sfumato.maps.rumap import RUMap

_ROWS = 12
"""Points of the frontier that are shown."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of `sfumato search`."""

    file: ConfidentialFile
    risk: list[str] | None = option(
        "What must stay low: a column that a snooper wants to know, or a measure by name: 'k_anonymity; k=5', "
        "'cap; column=salary'. The confidential numbers of the schema if not given."
    )
    utility: list[str] | None = option(
        "What must stay high: a measure by name ('hellinger', 'correlations_kept; over=age,salary'), or an estimate: a column "
        "(its mean), 'salary ~ age'. Distributions and correlations of the confidential numbers if not given."
    )
    max_risk: list[str] | None = max_risk_option()
    max_error: list[str] | None = max_error_option()
    masks: list[str] | None = option(
        "A mask to try, with parameters if need be: mdav, 'rank_swap; columns=salary,income'. Noise, microaggregation and rank "
        "swapping of the confidential numbers if none is given.",
        "--mask",
    )
    recipes: list[Path] | None = option("A recipe file (TOML) to try.", "--recipe")
    over: list[str] | None = option(
        "What to search instead of the usual ranges: kim_noise.lambda2=0.01:1 is a range, mdav.k=3,5,10 a list.",
        metavar="PARAMETER=VALUES",
    )
    sequences: int = option(
        "Also try sequences of the recipes, in every order, up to this number in a row.", default=1, min=1, max=4
    )
    maximise: str | None = option(
        "Which of several utilities to maximise. Without it, the smallest share of the unmasked file's.",
        metavar="UTILITY",
    )
    effort: Literal["quick", "usual", "thorough"] = option("How hard to look.", default="usual")
    confirm: int = option("How often the winner is masked again with fresh random numbers.", default=20, min=3)
    weighted: Weighted = False
    snooper: list[str] | None = snooper_field(
        "One of several snoopers, by name: 'neighbour; keys=age,sex; precision=age:5'. The risk must hold against each.",
        metavar="NAME; WHAT HE KNOWS",
    )
    single: Annotated[SnooperOptions, Only("keys", "precision")]
    source: Annotated[SourceOptions, Only("schema", "read")]
    seed: int | None = seed_option()
    resume: Path | None = option("Keep what was seen in this file, and go on from it if it is there. Needs --seed.")
    save_recipe: Path | None = output_field("Write the chosen recipe (TOML), for `sfumato mask`.")
    out: Path | None = output_field("Write a report for the review board (.html or .pdf), with a .json beside it.")
    page: Path | None = output_field("Write an interactive page (.html): move the threshold, switch snoopers.")
    chart: Path | None = output_field("Draw all recipes (.svg or .png).")
    output: OutputOptions

    def check_files(self) -> None:
        """Refuse, before any work is done, what cannot be written."""
        replace, resume = self.output.replace, self.resume
        for path, what in ((self.page, "the page"), (self.save_recipe, "the recipe"), (self.chart, "the chart")):
            if path is not None:
                refuse_existing(path, replace, what)
        check_report(self.out, replace)
        check_chart(self.chart, replace)
        if self.out is not None and resume is not None and resume.resolve() == self.out.with_suffix(".json").resolve():
            raise Misuse(f"the report writes its numbers to {resume.name}, too; name another file for --resume.")

    def limits(self, risks: list[Measure]) -> dict[str, float]:
        """Return how large each risk may be."""
        if self.max_error and (other := [r.label() for r in risks if r.name != "attribute_risk"]):
            raise Misuse(f"--max-error is about the error in a column's value; {other[0]} is none. Use --max-risk.")
        limits = thresholds(self.max_risk, self.max_error, risks, zero=True)
        if not limits and self.risk:
            raise Misuse(
                "say how much risk is allowed: --max-risk 0.05, or --max-error 5 for an error in a column's own unit."
            )
        return limits

    def snoopers(self) -> Snooper | dict[str, Snooper]:
        """Return the snooper, or several by name."""
        if self.snooper and (self.single.keys or self.single.precision):
            raise Misuse("give several snoopers with --snooper, or one with --keys and --precision, not both.")
        return snoopers_of(self.snooper) if self.snooper else self.single.build()


@expand_options
def search_(options: SearchOptions) -> None:
    """Find the most useful recipe among many whose risk stays below a threshold.

    Every recipe is tried over ranges of its parameters: first on a part of the file, the better ones on all of it. A choice is
    safe when 95 % of the releases made with it stay below the threshold; it is confirmed with fresh random numbers. If there is
    none, the answer is "infeasible" and the exit code 3.
    """
    from sfumato.maps.defaults import default_utilities

    screen = options.output.screen()
    options.check_files()
    families = recipes_of(options.masks, options.recipes)
    risks = [risk_measure(text, "attribute_risk") for text in options.risk or ()]
    limits = options.limits(risks) if risks else {}
    snooper = options.snoopers()
    data = options.source.load(screen, options.file)
    families = families or _usual_recipes(screen, data)
    if not risks:
        risks, limits = _usual_risks(screen, data, options)
    utilities = [utility_of(text, data.schema.names(), options.weighted) for text in options.utility or ()]
    utilities = utilities or default_utilities(data)
    with screen.progress() as tell:
        found = maps.search(
            data, families, risks, utilities, limits, over=axes(options.over or (), families), sequences=options.sequences,
            snooper=snooper, maximise=options.maximise, effort=options.effort, confirm=options.confirm, draws=options.seed,
            resume=options.resume,
            progress=lambda stage, done, total, best: tell(stage + (f" (best so far: {best})" if best else ""), done, total),
        )  # fmt: skip
        _write(found, options, tell)
    _show(screen, found)
    screen.answer({
        "file": options.file, **found.to_dict(), "report": options.out, "page": options.page, "chart": options.chart,
        "recipe": options.save_recipe if found.choose().feasible else None,
    })  # fmt: skip
    exit_infeasible(found.choose())


def _usual_recipes(screen: Screen, data: Microdata) -> dict[str, Recipe]:
    """Return masks for the confidential numbers, and tell which."""
    from sfumato.maps.defaults import default_recipes

    found = default_recipes(data)
    screen.note(f"no --mask, so these are tried on all confidential numbers: {', '.join(found)}.")
    return found


def _usual_risks(screen: Screen, data: Microdata, options: SearchOptions) -> tuple[list[Measure], dict[str, float]]:
    """Return the risks of the confidential numbers with their limits, and tell which."""
    from sfumato.maps.defaults import ERROR, default_limits

    chosen = default_limits(data)
    risks: list[Measure] = list(chosen)
    limits = options.limits(risks)
    if not limits:
        limits = {risk.label(): limit for risk, limit in chosen.items()}
        screen.note(
            f"no --risk and no limit: a snooper is to be off by {percent(ERROR)} of a standard deviation or more about "
            f"{', '.join(risk.column for risk in chosen)}."
        )
    return risks, limits


def _write(found: RUMap, options: SearchOptions, tell: Any) -> None:
    """Write what was asked for."""
    from sfumato.files import write_text

    if options.save_recipe is not None and found.choose().method is not None:
        found.choose().method.write(options.save_recipe)
    if options.chart is not None:
        tell("Drawing", 0, 0)
        save_chart(found.chart(), options.chart)
    if options.page is not None:
        tell("Writing the page", 0, 0)
        write_text(options.page, found.page(f"Recipes for {options.file.name}"), confidential=True)
    if options.out is not None:
        from sfumato.reports.board import board_report

        tell("Writing the report", 0, 0)
        board_report(found, title=f"A release of {options.file.name}").write(options.out, json=True)


def _show(screen: Screen, found: RUMap) -> None:
    tried = f"{len(found.subject.families):,} recipe{'s' if len(found.subject.families) > 1 else ''}"
    screen.say(f"{tried}, {len(found.points):,} points on all {len(found.subject.data):,} records.")
    show_refused(screen, found)
    front = _nearest(found)
    if len(front):
        screen.say()
        rows = [
            (("> " if row["chosen"] else "") + row["family"], row["settings"], row["risk"], row["limit"], row["utility"],
             f"{100 * row['probability']:.0f} %")
            for _, row in front.iterrows()
        ]  # fmt: skip
        screen.table(("recipe", "at", "risk", "95 % stay below", "utility", "on the frontier"), rows, (2, 3, 4, 5))
        screen.say(
            "The frontier near the threshold: no other point has less risk and more utility, with the probability of that. "
            "All points: --json."
        )
    show_choice(screen, found.choose(), "")


def _nearest(found: RUMap) -> pd.DataFrame:
    """Return the points of the frontier whose risk is nearest to the threshold, the chosen one among them, safest first."""
    import numpy as np

    front = found.frontier()
    if not len(front):
        return front
    allowed = max(next(iter(found.subject.judge.thresholds.values())), 1e-12)
    away = np.abs(np.log(front["limit"].clip(lower=1e-12) / allowed)) + 10 * (front["probability"] < 0.5)
    kept: pd.DataFrame = front.loc[away.where(~front["chosen"], -1.0).sort_values().index[:_ROWS]]
    return kept.sort_values("risk", ignore_index=True)
