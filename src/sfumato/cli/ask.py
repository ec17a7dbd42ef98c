"""`sfumato ask`: a question to a data set of a vault; what comes back is an answer, or a refusal."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.console import INFEASIBLE, Misuse, Screen
from sfumato.cli.listing import show
from sfumato.cli.options import METHOD, OUTPUT, Json
from sfumato.cli.parse import settings
from sfumato.cli.vault import Folder, open_vault

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset
    from sfumato.mas.question import Analysis


def analysis_names(incomplete: str) -> list[str]:
    """Complete the name of an analysis."""
    from sfumato.contract.parameters import registered

    return [name for name in registered("analysis") if name.startswith(incomplete)]


def ask(
    vault: Folder,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The name of a frozen data set.")],
    universe: Annotated[
        str,
        typer.Option(
            help="Whom it is about: \"sex == 'F' and age in ('60 to 69', '70 to 89')\", or JSON. Everybody if not given."
        ),
    ] = "",
    crosstab: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLES", help="A table of counts by variables, with commas between.", rich_help_panel=METHOD
        ),
    ] = None,
    ols: Annotated[
        str | None,
        typer.Option(
            metavar="FORMULA", help="A linear regression: 'log(income) ~ age + C(race)'.", rich_help_panel=METHOD
        ),
    ] = None,
    logit: Annotated[
        str | None, typer.Option(metavar="FORMULA", help="A logistic regression.", rich_help_panel=METHOD)
    ] = None,
    analysis: Annotated[
        str | None,
        typer.Option(
            help="Any other analysis, by name: quantiles, correlation, ... `--list` shows all.",
            autocompletion=analysis_names,
            rich_help_panel=METHOD,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the analysis: of=income, weighted=true. May be repeated.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show every analysis with its parameters, and stop.", rich_help_panel=METHOD)
    ] = False,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw the answer (.svg or .png); residuals have a chart.", rich_help_panel=OUTPUT),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Who asks, for the accounts and the log; your name on this machine if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Ask a frozen data set a question; get an answer, or a refusal with the rule and the way forward (exit code 3).

    Without an analysis: what may be asked, variables and their levels.
    """
    from sfumato.cli.files import check_chart, save_chart
    from sfumato.contract.parameters import registered
    from sfumato.mas.answer import Refusal

    screen = Screen(as_json)
    if list_:
        show(screen, registered("analysis"), "analyses")
        return
    chosen = _analysis(crosstab, ols, logit, analysis, set_)
    if chart is not None and (chosen is None or not chosen.drawn):
        raise Misuse("--chart is for an answer that can be drawn: give --analysis residuals.")
    check_chart(chart, False)
    opened = open_vault(vault)
    found = opened.dataset(dataset)
    if chosen is None:
        _describe(screen, found)
        return
    answer = opened.ask(found, universe, chosen, user=user or getpass.getuser())
    screen.say(str(answer))
    screen.answer(answer.to_json())
    if isinstance(answer, Refusal):
        raise typer.Exit(INFEASIBLE)
    if chart is not None:
        save_chart(answer.chart(), chart, confidential=False)
        screen.say(f"Wrote {chart}.")


def _analysis(
    crosstab: str | None, ols: str | None, logit: str | None, analysis: str | None, set_: list[str] | None
) -> Analysis | None:
    """Return the one analysis that is asked for, or None."""
    from sfumato.contract.parameters import find

    shortcuts = (("cross_tab", "by", crosstab), ("ols", "formula", ols), ("logistic", "formula", logit))
    given = [(name, {field: value}) for name, field, value in shortcuts if value is not None]
    asked: list[tuple[str, dict[str, Any]]] = [*given, *([(analysis, {})] if analysis is not None else [])]
    if len(asked) > 1:
        raise Misuse("give one of --crosstab, --ols, --logit and --analysis.")
    if not asked:
        if set_:
            raise Misuse("--set is for an analysis: give --crosstab, --ols, --logit or --analysis.")
        return None
    name, fields = asked[0]
    if "by" in fields:
        fields = {"by": tuple(part.strip() for part in str(fields["by"]).split(",") if part.strip())}
    cls = find("analysis", name)
    return cls.from_dict({**fields, **settings(cls, set_ or ())})  # type: ignore[return-value]


def _describe(screen: Screen, dataset: Dataset) -> None:
    told = dataset.describe()
    screen.say(f"{dataset.label}{': ' + dataset.title if dataset.title else ''}", strong=True)
    screen.say()
    rows = [
        (
            v["name"],
            v["label"] or "–",
            "yes" if v["numbers"] else "no",
            "; ".join(
                a if a == b else f"{a} = {b}" for a, b in zip(v["levels"], v.get("meanings", v["levels"]), strict=True)
            )
            or "–",
        )
        for v in told["variables"]
    ]
    screen.table(("variable", "label", "numbers", "levels"), rows)
    if dataset.weighted:
        screen.say("Records have survey weights, which are no variable: --set weighted=true uses them.")
    screen.answer(told)
