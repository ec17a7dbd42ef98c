"""`sfumato table-map`: protections of one table, risk against utility, and the best that is safe enough."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.console import Misuse, Screen
from sfumato.cli.files import check_chart, check_report, refuse_existing, save_chart
from sfumato.cli.map_output import exit_infeasible, show_choice, show_points, show_refused
from sfumato.cli.options import (
    OutputOptions,
    expand_options,
    max_risk_option,
    method_field,
    option,
    output_field,
    seed_option,
)
from sfumato.cli.parse import note_rules, number, protections_of, settings, swept_over, thresholds, with_wishes
from sfumato.cli.table_source import APrioriFile, Rule, Source, protection_names
from sfumato.errors import ParameterError, plural, unknown_name

if TYPE_CHECKING:
    from sfumato.maps import Choice, RUMap
    from sfumato.tables.measures import TableMeasure


@dataclass(frozen=True, kw_only=True)
class TableMapOptions:
    """The options of `sfumato table-map` besides what the table is."""

    method: list[str] | None = method_field(
        "A method to try, with parameters after semicolons: rta, 'cell_key; top=2'. `sfumato table --list` shows all.",
        autocompletion=protection_names,
    )
    rule: Rule = None
    a_priori: APrioriFile = None
    over: list[str] | None = method_field(
        "What to sweep: rta.base_cv=0.05:0.4:5 is five values by equal factors, controlled_rounding.base=3,5,10 these three. The "
        "usual ranges if not given.",
        metavar="PARAMETER=VALUES",
    )
    risk: list[str] | None = option(
        "A risk measure of tables, with parameters after semicolons; relative_certainty, for counts known_closely, if not given."
    )
    utility: list[str] | None = option("A utility measure of tables; table_accuracy if not given.")
    max_risk: list[str] | None = max_risk_option()
    replications: int = option("How often each random method is tried at each point.", default=20, min=2)
    seed: int | None = seed_option()
    out: Path | None = output_field("Write a report (.html or .pdf), or every point as .csv: confidential.")
    chart: Path | None = output_field("Draw the map (.svg or .png).")
    output: OutputOptions

    def check_files(self) -> None:
        """Refuse, before any work is done, what cannot be written."""
        if self.out is not None and self.out.suffix.lower() == ".csv":
            refuse_existing(self.out, self.output.replace, "the points")
        else:
            check_report(self.out, self.output.replace, json=False)
        check_chart(self.chart, self.output.replace)


@expand_options
def table_map(source: Source, options: TableMapOptions) -> None:
    """Protect one table in several ways, and trace what an attacker learns against what a reader keeps.

    The table is that of `sfumato table`. With --max-risk, the most useful point whose risk stays below is chosen, and confirmed
    with fresh random numbers. If there is none, the answer is "infeasible" and the exit code 3.
    """
    from sfumato.tables.protection_map import table_map as trace

    screen = options.output.screen()
    source.check()
    options.check_files()
    tried = protections_of(options.method or (), options.rule, marked=options.a_priori is not None or source.argus)
    swept = swept_over(options.over or (), tried)
    risks = [_measure(text, "risk") for text in options.risk or ()]
    utilities = [_measure(text, "utility") for text in options.utility or ()]
    _check_limits(options.max_risk)
    with screen.progress() as tell:
        tell("Reading the table", 0, 0)
        made, given = source.table(screen)
        note_rules(screen, options.rule, made)
        wanted = source.wanted(made, given, options.a_priori)
        takers = [name for name, protection in tried.items() if "a_priori" in protection.parameters()]
        if wanted is not None and options.a_priori is not None and not takers:
            raise Misuse("--a-priori is for suppression, which is not among the methods.")
        tried = {n: with_wishes(screen, p, wanted if n in takers else None, False) for n, p in tried.items()}
        m = trace(
            made, tried, swept, risks or None, utilities or None, replications=options.replications, draws=options.seed,
            progress=lambda done, all_: tell("Protecting at every point", done, all_),
        )  # fmt: skip
        own = [m.measures[i] for i in m.of_side(m.measures[0].side)]
        limits = thresholds(options.max_risk, None, list(own), zero=True)
        choice = m.choose(limits) if limits else None
        _draw(m, choice, limits, source, options, tell)
    _show(screen, m, choice)
    show_refused(screen, m)
    screen.answer({
        **m.to_dict(), "choice": None if choice is None else choice.to_dict(), "out": options.out, "chart": options.chart,
    })  # fmt: skip
    exit_infeasible(choice)


def _check_limits(max_risk: list[str] | None) -> None:
    """Refuse what is not a number before anything takes long; names are looked at when the measures are known."""
    for text in max_risk or ():
        if not isinstance(number(text.rpartition("=")[2]), float):
            raise ParameterError(f"--max-risk must be a number of at least 0, such as 1, or NAME=1; got '{text}'.")


def _measure(text: str, side: str) -> TableMeasure:
    """Return a measure of tables from its name, with its parameters after a semicolon."""
    from sfumato.contract.parameters import registered

    known: dict[str, Any] = {n: c for n, c in registered("table measure").items() if c.side.value == side}  # type: ignore[attr-defined]
    name, _, rest = text.partition(";")
    if name.strip() not in known:
        raise ParameterError(
            unknown_name(f"{side} measure", name.strip(), sorted(known), "the list of measures of tables")
        )
    cls = known[name.strip()]
    found: TableMeasure = cls.from_dict(settings(cls, (part for part in rest.split(";") if part.strip()), f"--{side}"))
    return found


def _draw(
    m: RUMap,
    choice: Choice | None,
    limits: dict[str, float],
    source: Source,
    options: TableMapOptions,
    tell: Any,
) -> None:
    """Write the report or the points, and the chart."""
    out, chart, files = options.out, options.chart, source.files or []
    first = limits.get(m.measures[0].label())
    if chart is not None:
        tell("Drawing", 0, 0)
        save_chart(m.chart(first, choice), chart)
    if out is None:
        return
    tell("Writing", 0, 0)
    if out.suffix.lower() == ".csv":
        from sfumato.files import write_text

        write_text(out, m.frame().to_csv(index=False), confidential=True)
    else:
        from sfumato.reports.report import Report

        Report(f"R-U map of a table from {files[0].name}", [m.section(first, choice)]).write(out)


def _show(screen: Screen, m: RUMap, choice: Choice | None) -> None:
    screen.say(
        f"A table of {plural(len(m.subject.table), 'cell')}, {plural(len(m.points), 'point')}; random ones "
        f"{m.replications:,} times."
    )
    screen.say()
    columns = {"method": lambda point: point.family, "at": lambda point: point.at}
    show_points(screen, m, columns, "R: lower is safer. U: higher is more useful.", "unprotected")
    show_choice(screen, choice, "Add --max-risk to choose the most useful point that is safe enough.")
