"""Options that several commands share, and how a command takes a group of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer

from sfumato.cli.console import Misuse, Screen
from sfumato.cli.files import load, load_like, load_population, load_release
from sfumato.cli.parse import names, number, pair, recipe_of

if TYPE_CHECKING:
    from sfumato.contract.mask import Recipe
    from sfumato.contract.release import Release
    from sfumato.contract.snooper import Snooper
    from sfumato.data.microdata import Microdata

# --- groups
# A group is a frozen dataclass; its fields are options, or groups. A command takes groups, the command line their options.


class Only:
    """Marks a group of which a command takes some options only, in this order: Annotated[Group, Only("schema", "read")]."""

    def __init__(self, *names: str) -> None:
        self.names = names


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups in their place, for the command line to read its signature."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    members = {p.name: (p.annotation, p.default) for p in own}

    @functools.wraps(command)
    def called(**values: Any) -> None:
        command(**_fill(members, values))

    called.__signature__ = inspect.Signature(list(_flatten(members)))  # type: ignore[attr-defined]
    return called


def _group(annotation: Any) -> tuple[Callable[..., Any], dict[str, tuple[Any, Any]]] | None:
    """Return a group's class, and annotation and default of each of its fields; None for an option."""
    kind, *marks = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
    if not is_dataclass(kind):
        return None
    hints = get_type_hints(kind, include_extras=True)
    defaults = {f.name: inspect.Parameter.empty if f.default is MISSING else f.default for f in fields(kind)}
    names = next((mark.names for mark in marks if isinstance(mark, Only)), defaults)
    return kind, {name: (hints[name], defaults[name]) for name in names}  # type: ignore[return-value]


def _flatten(members: Mapping[str, tuple[Any, Any]]) -> Iterator[inspect.Parameter]:
    for name, (annotation, default) in members.items():
        if (group := _group(annotation)) is None:
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        else:
            yield from _flatten(group[1])


def _fill(members: Mapping[str, tuple[Any, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    filled = {}
    for name, (annotation, _) in members.items():
        group = _group(annotation)
        filled[name] = values[name] if group is None else group[0](**_fill(group[1], values))
    return filled


# --- panels
# The parts of a help page.

SNOOPER, READING, OUTPUT, METHOD = "What the snooper knows", "Reading the files", "Output", "The method"
snooper_option, reading_option, output_option, method_option = (
    functools.partial(typer.Option, rich_help_panel=panel) for panel in (SNOOPER, READING, OUTPUT, METHOD)
)


def per_size_option(panel: str) -> Any:
    """Return the option --per-size, for the part of the help where --size stands."""
    return typer.Option(
        "--per-size",
        metavar="NUMBER|ratio",
        help="How much of the variable one unit of size stands for, where the two have different units; 'ratio' takes that of "
        "the records.",
        rich_help_panel=panel,
    )


def mask_names(incomplete: str) -> list[str]:
    """Complete the name of a mask."""
    from sfumato.contract.parameters import registered

    return [name for name in registered("mask") if name.startswith(incomplete)]


def measure_names(incomplete: str) -> list[str]:
    """Complete the name of a risk measure."""
    from sfumato.cli.listing import risk_measures

    return [name for name in risk_measures() if name.startswith(incomplete)]


# --- single options

Weighted = Annotated[
    bool, typer.Option("--weighted", help="Use the survey weights that the schema names in every estimate.")
]
SchemaFile = Annotated[
    Path | None, reading_option(help="What the columns mean, as `sfumato schema` writes it. Guessed if not given.")
]
Read = Annotated[
    list[str] | None,
    reading_option(
        metavar="NAME=VALUE",
        help="How to read the file, where it does not show: separator=';' decimal=, encoding=cp1252 null_values=NA,. "
        "text=zip sheet=2. May be repeated.",
    ),
]
Engine = Annotated[
    Literal["memory", "duckdb"], reading_option(help="duckdb works on large CSV and Parquet files in pieces.")
]
Json = Annotated[bool, output_option("--json", help="Print one JSON document on stdout instead of text.")]
ListMeasures = Annotated[
    bool,
    typer.Option("--list", help="Show every measure in a line, or with --measure that one's parameters, and stop."),
]
MapSeed = Annotated[
    int | None, typer.Option(help="A number for the random numbers, to get the same map again. Not for a release.")
]
MapChart = Annotated[Path | None, output_option(help="Draw the map (.svg or .png).")]
ConfidentialFile = Annotated[Path, typer.Argument(metavar="FILE", help="The confidential file.", show_default=False)]


# --- groups of options


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Whether files are replaced, and in which form the answer is printed."""

    replace: Annotated[bool, output_option("--replace", help="Replace what is there already.")] = False
    as_json: Json = False

    def screen(self) -> Screen:
        """Return the screen that the answer goes to."""
        return Screen(self.as_json)


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How to read a file of records."""

    schema: SchemaFile = None
    read: Read = None
    engine: Engine = "memory"

    def load(self, screen: Screen, file: Path) -> Microdata:
        """Read the file; where there is no schema it is guessed, and the guess is told."""
        return load(screen, file, self.schema, self.read, self.engine)


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """How to read an original and what was made of it."""

    holdout: Annotated[Path | None, reading_option(help="Records that were set aside before masking.")] = None
    schema: SchemaFile = None
    read: Read = None
    read_masked: Annotated[
        list[str] | None,
        reading_option(metavar="NAME=VALUE", help="The same for the masked file; --read holds for the original alone."),
    ] = None

    def load(self, screen: Screen, original: Path, masked: Path, align: str | None) -> Release:
        """Read both files, without the records that were set aside."""
        return load_release(screen, original, masked, self.schema, (self.read, self.read_masked), align)

    def with_holdout(self, release: Release) -> Release:
        """Return the release with the records that were set aside, if there are any."""
        from sfumato.contract.release import Holdout

        if self.holdout is None:
            return release
        return release.with_holdout(Holdout.of(load_like(release.original, self.holdout)))


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """The recipe: a file, or a mask by name."""

    recipe: Annotated[Path | None, method_option(help="A recipe in TOML.")] = None
    mask: Annotated[
        str | None,
        method_option(
            help="A mask by name, for a recipe of one step. `sfumato mask --list` shows all.", autocompletion=mask_names
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        method_option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the mask: lambda2=0.15, columns=salary,income, lambda2=salary:0.1,income:0.2. "
            "With --recipe name the step too: noise.lambda2=0.15. May be repeated.",
        ),
    ] = None

    def load(self) -> Recipe:
        """Read the recipe, or make one of the mask."""
        return recipe_of(self.recipe, self.mask, self.set_)


@dataclass(frozen=True, kw_only=True)
class SnooperOptions:
    """What the snooper knows."""

    keys: Annotated[
        str | None,
        snooper_option(
            metavar="COLUMNS",
            help="Columns that he knows of a person and looks for records by, with commas between. The schema's keys if not given.",
        ),
    ] = None
    precision: Annotated[
        list[str] | None,
        snooper_option(
            metavar="COLUMN=WIDTH",
            help="He knows a key of numbers only to within intervals of this width: age=5. May be repeated.",
        ),
    ] = None
    population: Annotated[
        Path | None,
        snooper_option(
            help="A file of the population with the same keys: a record for each person, or a table with a column of counts."
        ),
    ] = None
    population_count: Annotated[
        str | None, snooper_option(metavar="COLUMN", help="The column that counts persons, if --population is a table.")
    ] = None
    coverage: Annotated[float, snooper_option(help="Share of the persons that his file covers.", min=0, max=1)] = 1.0
    errors: Annotated[float, snooper_option(help="Probability that a value in his file is wrong.", min=0, max=1)] = 0.0
    strategy: Annotated[
        Literal["naive", "bayes"] | None,
        snooper_option(
            help="naive takes the released value as it is; bayes also uses what else he knows. "
            "naive if not given, bayes with --knows or --published."
        ),
    ] = None
    match_probability: Annotated[
        float, snooper_option(help="Probability that he links the right record.", min=0, max=1)
    ] = 1.0
    knows: Annotated[
        str | None,
        snooper_option(metavar="COLUMNS", help="Unmasked columns that he knows of the target, with commas between."),
    ] = None
    published: Annotated[bool, snooper_option("--published", help="The noise level is published.")] = False

    def build(self) -> Snooper:
        """Build the snooper; one who knows more than the released value is taken to use it."""
        from sfumato.contract.snooper import Snooper

        covariates = names(self.knows)
        if self.strategy == "naive" and (covariates or self.published):
            raise Misuse(
                "a naive snooper takes the released value as it is, so --knows and --published would change nothing. "
                "Leave them out, or use --strategy bayes."
            )
        widths = (pair(p, "--precision", "age=5") for p in self.precision or ())
        return Snooper(
            strategy=self.strategy or ("bayes" if covariates or self.published else "naive"),
            match_probability=self.match_probability,
            covariates=covariates,
            parameter_published=self.published,
            keys=names(self.keys),
            precision={name: number(value) for name, value in widths},
            coverage=self.coverage,
            errors=self.errors,
        )

    def with_population(self, screen: Screen, snooper: Snooper, original: Microdata) -> Snooper:
        """Return the snooper with his file of the population, if he has one."""
        if self.population is None and self.population_count is not None:
            raise Misuse("--population-count names a column of the population's table: give that with --population.")
        if self.population is None:
            return snooper
        return snooper.learn(population=load_population(screen, original, self.population, self.population_count))
