"""`sfumato ask`: a question to a data set of a vault; what comes back is an answer, or a refusal."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato import mas
from sfumato.cli.console import INFEASIBLE, Misuse, Screen
from sfumato.cli.files import check_chart, save_chart
from sfumato.cli.listing import completion, show
from sfumato.cli.options import METHOD, Json, argument, expand_options, flag, method_field, option, output_field
from sfumato.cli.parse import names, settings
from sfumato.cli.vault import open_vault
from sfumato.contract.parameters import find, registered
from sfumato.files import write_text

if TYPE_CHECKING:
    from sfumato.mas.dataset import Dataset
    from sfumato.mas.question import Analysis


_analyses = completion(lambda: registered("analysis"))


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """The options of `sfumato ask`."""

    vault: Path | None = argument("VAULT", "The folder of the vault.")
    dataset: str | None = argument("DATASET", "The name of a frozen data set.")
    universe: str = option(
        "The persons that it is about: \"sex == 'F' and age in ('60 to 69', '70 to 89')\", or JSON. Everybody if not given.",
        default="",
    )
    crosstab: str | None = method_field("A table of counts by variables, with commas between.", metavar="VARIABLES")
    ols: str | None = method_field("A linear regression: 'log(income) ~ age + C(race)'.", metavar="FORMULA")
    logit: str | None = method_field("A logistic regression.", metavar="FORMULA")
    analysis: str | None = method_field(
        "Any other analysis, by name: quantiles, correlation, ... `--list` shows all.", autocompletion=_analyses
    )
    set_: list[str] | None = method_field(
        "A parameter of the analysis: of=income, weighted=true.", metavar="NAME=VALUE"
    )
    list_: bool = flag("Show every analysis with its parameters, and stop.", panel=METHOD)
    wide: bool = flag("Print a cross-tabulation with its last variable across.")
    out: Path | None = output_field("Write the first table of the answer to this file (.csv).")
    chart: Path | None = output_field("Draw the answer (.svg or .png); residuals have a chart.")
    user: str | None = option("Who asks, for the accounts and the log; your name on this machine if not given.")
    price: bool = flag("Say what the question would cost, and do not ask it.")
    as_json: Json = False


@expand_options
def ask(options: AskOptions) -> None:
    """Ask a frozen data set a question; get an answer, or a refusal with the rule and the way forward (exit code 3).

    Without an analysis: what may be asked, variables and their levels.
    """
    screen, chart = Screen(options.as_json), options.chart
    if options.list_:
        show(screen, registered("analysis"), "analyses")
        return
    if options.vault is None or options.dataset is None:
        raise Misuse(
            "the vault and the data set are missing: sfumato ask VAULT DATASET. To see the analyses: sfumato ask --list"
        )
    chosen = _analysis(options)
    if chart is not None and (chosen is None or not chosen.drawn):
        raise Misuse("--chart is for an answer that can be drawn: give --analysis residuals.")
    check_chart(chart, False)
    if options.out is not None and options.out.suffix.lower() != ".csv":
        raise Misuse(f"--out is a file that ends in .csv; got '{options.out.name}'.")
    if options.wide and (chosen is None or chosen.name != "cross_tab"):
        raise Misuse("--wide is for a cross-tabulation: give --crosstab.")
    opened = open_vault(options.vault)
    found = opened.dataset(options.dataset)
    if chosen is None:
        _describe(screen, found)
        return
    user = options.user or getpass.getuser()
    if options.price:
        price = opened.price(found, options.universe, chosen, user=user)
        screen.say(str(price))
        screen.answer(price.to_json())
        return
    answer = opened.ask(found, options.universe, chosen, user=user)
    screen.say(answer.text(options.wide) if isinstance(answer, mas.Answer) else str(answer))
    screen.answer(answer.to_json())
    if isinstance(answer, mas.Refusal):
        raise typer.Exit(INFEASIBLE)
    if options.out is not None:
        table = answer.wide().reset_index() if options.wide else answer.frame()
        write_text(options.out, table.to_csv(index=False))
        screen.say(f"Wrote {options.out}.")
    if chart is not None:
        save_chart(answer.chart(), chart, confidential=False)
        screen.say(f"Wrote {chart}.")


def _analysis(options: AskOptions) -> Analysis | None:
    """Return the one analysis that is asked for, or None."""
    shortcuts = (
        ("cross_tab", "by", options.crosstab), ("ols", "formula", options.ols), ("logistic", "formula", options.logit)
    )  # fmt: skip
    given = [(name, {field: value}) for name, field, value in shortcuts if value is not None]
    asked: list[tuple[str, dict[str, Any]]] = [
        *given,
        *([(options.analysis, {})] if options.analysis is not None else []),
    ]
    if len(asked) > 1:
        raise Misuse("give one of --crosstab, --ols, --logit and --analysis.")
    if not asked:
        if options.set_:
            raise Misuse("--set is for an analysis: give --crosstab, --ols, --logit or --analysis.")
        return None
    name, fields = asked[0]
    if "by" in fields:
        fields = {"by": names(fields["by"])}
    cls = find("analysis", name)
    return cls.from_dict({**fields, **settings(cls, options.set_ or ())})  # type: ignore[return-value]


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
