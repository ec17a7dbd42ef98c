"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sfumato.cli.console import Misuse
from sfumato.cli.parse import number, pair

SNOOPER, READING, OUTPUT, METHOD = "What the snooper knows", "Reading the files", "Output", "The method"


def mask_names(incomplete: str) -> list[str]:
    """Complete the name of a mask."""
    from sfumato.contract.parameters import registered

    return [name for name in registered("mask") if name.startswith(incomplete)]


def measure_names(incomplete: str) -> list[str]:
    """Complete the name of a risk measure."""
    from sfumato.cli.listing import risk_measures

    return [name for name in risk_measures() if name.startswith(incomplete)]


Weighted = Annotated[
    bool, typer.Option("--weighted", help="Use the survey weights that the schema names in every estimate.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="What the columns mean, as `sfumato schema` writes it. Guessed if not given.",
        rich_help_panel=READING,
    ),
]
Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        metavar="NAME=VALUE",
        help="How to read the file, where it does not show: separator=';' decimal=, encoding=cp1252 null_values=NA,. "
        "text=zip sheet=2. May be repeated.",
        rich_help_panel=READING,
    ),
]
ReadMasked = Annotated[
    list[str] | None,
    typer.Option(
        "--read-masked",
        metavar="NAME=VALUE",
        help="The same for the masked file; --read holds for the original alone.",
        rich_help_panel=READING,
    ),
]
Engine = Annotated[
    Literal["memory", "duckdb"],
    typer.Option("--engine", help="duckdb works on large CSV and Parquet files in pieces.", rich_help_panel=READING),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout instead of text.", rich_help_panel=OUTPUT)
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace what is there already.", rich_help_panel=OUTPUT)]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="A recipe in TOML.", rich_help_panel=METHOD)]
MaskName = Annotated[
    str | None,
    typer.Option(
        "--mask",
        help="A mask by name, for a recipe of one step. `sfumato mask --list` shows all.",
        autocompletion=mask_names,
        rich_help_panel=METHOD,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A parameter of the mask: lambda2=0.15, columns=salary,income, lambda2=salary:0.1,income:0.2. "
        "With --recipe name the step too: noise.lambda2=0.15. May be repeated.",
        rich_help_panel=METHOD,
    ),
]
Strategy = Annotated[
    Literal["naive", "bayes"] | None,
    typer.Option(
        "--strategy",
        help="naive takes the released value as it is; bayes also uses what else he knows. "
        "naive if not given, bayes with --knows or --published.",
        rich_help_panel=SNOOPER,
    ),
]
MatchProbability = Annotated[
    float,
    typer.Option(
        "--match-probability", help="Probability that he links the right record.", min=0, max=1, rich_help_panel=SNOOPER
    ),
]
Knows = Annotated[
    str | None,
    typer.Option(
        "--knows",
        metavar="COLUMNS",
        help="Unmasked columns that he knows of the target, with commas between.",
        rich_help_panel=SNOOPER,
    ),
]
Published = Annotated[bool, typer.Option("--published", help="The noise level is published.", rich_help_panel=SNOOPER)]


Keys = Annotated[
    str | None,
    typer.Option(
        "--keys",
        metavar="COLUMNS",
        help="Columns that he knows of a person and looks for records by, with commas between. The schema's keys if not given.",
        rich_help_panel=SNOOPER,
    ),
]
Precision = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        metavar="COLUMN=WIDTH",
        help="He knows a key of numbers only to within intervals of this width: age=5. May be repeated.",
        rich_help_panel=SNOOPER,
    ),
]
Population = Annotated[
    Path | None,
    typer.Option(
        "--population",
        help="A file of the population with the same keys: a record for each person, or a table with a column of counts.",
        rich_help_panel=SNOOPER,
    ),
]
PopulationCount = Annotated[
    str | None,
    typer.Option(
        "--population-count",
        metavar="COLUMN",
        help="The column that counts persons, if --population is a table.",
        rich_help_panel=SNOOPER,
    ),
]
HoldoutFile = Annotated[
    Path | None,
    typer.Option("--holdout", help="Records that were set aside before masking.", rich_help_panel=READING),
]
Coverage = Annotated[
    float,
    typer.Option(
        "--coverage", help="Share of the persons that his file covers.", min=0, max=1, rich_help_panel=SNOOPER
    ),
]
Errors = Annotated[
    float,
    typer.Option(
        "--errors", help="Probability that a value in his file is wrong.", min=0, max=1, rich_help_panel=SNOOPER
    ),
]


def snooper_of(
    strategy: Literal["naive", "bayes"] | None,
    match_probability: float,
    knows: str | None,
    published: bool,
    keys: str | None = None,
    precision: list[str] | None = None,
    **facts: Any,
) -> Any:
    """Build the snooper; one who knows more than the released value is taken to use it."""
    from sfumato.contract.snooper import Snooper

    covariates = _names(knows)
    if strategy == "naive" and (covariates or published):
        raise Misuse(
            "a naive snooper takes the released value as it is, so --knows and --published would change nothing. "
            "Leave them out, or use --strategy bayes."
        )
    return Snooper(
        strategy=strategy or ("bayes" if covariates or published else "naive"),
        match_probability=match_probability,
        covariates=covariates,
        parameter_published=published,
        keys=_names(keys),
        precision={name: number(value) for name, value in (pair(p, "--precision", "age=5") for p in precision or ())},
        **facts,
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


def per_size_option(panel: str) -> Any:
    """Return the option --per-size, for the part of the help where --size stands."""
    return typer.Option(
        "--per-size",
        metavar="NUMBER|ratio",
        help="How much of the variable one unit of size stands for, where the two have different units; 'ratio' takes that of "
        "the records.",
        rich_help_panel=panel,
    )
