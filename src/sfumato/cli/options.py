"""Options that several commands share, and how a command takes a group of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from sfumato.cli.console import Misuse, Screen
from sfumato.cli.files import load, load_like, load_population, shuffled_column
from sfumato.cli.listing import completion, risk_measures
from sfumato.cli.parse import names, number, pair, recipe_of
from sfumato.contract import Holdout, Release, Snooper, registered

if TYPE_CHECKING:
    from sfumato.contract.mask import Recipe
    from sfumato.data.microdata import Microdata


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
    members = {
        f.name: (_annotation(f, hints[f.name]), inspect.Parameter.empty if f.default is MISSING else f.default)
        for f in fields(kind)
    }
    names = next((mark.names for mark in marks if isinstance(mark, Only)), members)
    return kind, {name: members[name] for name in names}  # type: ignore[return-value]


def _annotation(member: Field[Any], kind: Any) -> Any:
    """Return the type of a field with its option; flags have no counterpart, and help says which options may be repeated."""
    if "option" not in member.metadata:
        return Annotated[kind, member.metadata["argument"]] if "argument" in member.metadata else kind
    names, settings = member.metadata["option"]
    if any(get_origin(part) is list for part in get_args(kind)):
        settings = {**settings, "help": f"{settings['help']} May be repeated."}
    own = (
        () if kind is not bool and not member.name.endswith("_") else (f"--{member.name.strip('_').replace('_', '-')}",)
    )
    return Annotated[kind, typer.Option(*(names or own), **settings)]


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


SNOOPER, READING, OUTPUT, METHOD = "What the snooper knows", "Reading the files", "Output", "The method"
snooper_option, reading_option, output_option, method_option = (
    functools.partial(typer.Option, rich_help_panel=panel) for panel in (SNOOPER, READING, OUTPUT, METHOD)
)


def option(help: str, *names: str, default: Any = None, required: bool = False, **settings: Any) -> Any:
    """Return a field of a group that is an option of the command."""
    return field(default=MISSING if required else default, metadata={"option": (names, {"help": help, **settings})})


def flag(help: str, *names: str, panel: str | None = None) -> Any:
    """Return a field of a group that is an option without a value."""
    return option(help, *names, default=False, rich_help_panel=panel)


def argument(metavar: str, help: str, default: Any = None, required: bool = False) -> Any:
    """Return a field of a group that stands in the command without a name."""
    declared = typer.Argument(metavar=metavar, help=help)
    return field(default=MISSING if required else default, metadata={"argument": declared})


snooper_field, reading_field, output_field, method_field = (
    functools.partial(option, rich_help_panel=panel) for panel in (SNOOPER, READING, OUTPUT, METHOD)
)


def per_size_option(panel: str) -> Any:
    """Return the option --per-size, for the part of the help where --size stands."""
    return option(
        "How much of the variable one unit of size stands for, where the two have different units; 'ratio' takes that of the "
        "records.", "--per-size", rich_help_panel=panel, metavar="NUMBER|ratio",
    )  # fmt: skip


def max_risk_option(names: str = "NAME=R for one of several risks") -> Any:
    """Return the option --max-risk."""
    return option(f"Choose the most useful one with a risk of at most R; {names}.", metavar="R")


def max_error_option() -> Any:
    """Return the option --max-error."""
    return option(
        "The same in a column's own unit: a snooper is to be off by at least this (R = 1/ERROR²).", metavar="ERROR"
    )


def seed_option() -> Any:
    """Return the option --seed of what may be computed again, but is no release."""
    return option("A number for the random numbers, to get the same answer again. Not for a release.")


mask_names = completion(lambda: registered("mask"))
measure_names = completion(risk_measures)
Weighted = Annotated[
    bool, typer.Option("--weighted", help="Use the survey weights that the schema names in every estimate.")
]
SchemaFile = Annotated[
    Path | None, reading_option(help="The meaning of the columns, as `sfumato schema` writes it. Guessed if not given.")
]
Read = Annotated[
    list[str] | None,
    reading_option(
        metavar="NAME=VALUE",
        help="How to read the file, where that cannot be seen from it: separator=';' decimal=, thousands=. encoding=cp1252 skip=3 "
        "null_values=NA,. text=zip sheet=2 leave_out=732. May be repeated.",
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
ConfidentialFile = Annotated[Path, typer.Argument(metavar="FILE", help="The confidential file.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Whether files are replaced, and in which form the answer is printed."""

    replace: bool = flag("Replace what is there already.", panel=OUTPUT)
    as_json: Json = False

    def screen(self) -> Screen:
        """Return the screen that the answer goes to."""
        return Screen(self.as_json)


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options for reading a file of records."""

    schema: SchemaFile = None
    read: Read = None
    engine: Engine = "memory"

    def load(self, screen: Screen, file: Path) -> Microdata:
        """Read the file; where there is no schema it is guessed, and the guess is told."""
        return load(screen, file, self.schema, self.read, self.engine)


@dataclass(frozen=True, kw_only=True)
class ReleaseOptions:
    """Options for reading an original file and the masked one."""

    align: str | None = reading_field(
        "Which masked record is whose: rows, if both files list the same records in the same order, or a column of both files "
        "that is unique. Without it, measures that compare record by record do not apply.",
        metavar="rows|COLUMN",
    )
    holdout: Path | None = reading_field("Records that were set aside before masking.")
    schema: SchemaFile = None
    read: Read = None
    read_masked: list[str] | None = reading_field(
        "The same for the masked file; --read holds for the original alone.", metavar="NAME=VALUE"
    )

    def load(self, screen: Screen, original: Path, masked: Path) -> Release:
        """Read both files, without the records that were set aside; the original's schema holds for both."""
        before = load(screen, original, self.schema, self.read)
        after = load_like(before, masked, self.read_masked)
        release = Release.of(before, after, self.align)
        if self.align == "rows" and (name := shuffled_column(before, after)):
            screen.note(
                f"'{name}' has the same values in both files, but in another order, and no column agrees row by row. Unless it was "
                "swapped, --align rows does not hold: the risk would look smaller than it is."
            )
        return release

    def with_holdout(self, release: Release) -> Release:
        """Return the release with the records that were set aside, if there are any."""
        if self.holdout is None:
            return release
        return release.with_holdout(Holdout.of(load_like(release.original, self.holdout)))


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """The recipe: a file, or a mask by name."""

    recipe: Path | None = method_field("A recipe in TOML.")
    mask: str | None = method_field(
        "A mask by name, for a recipe of one step. `sfumato mask --list` shows all.", autocompletion=mask_names
    )
    set_: list[str] | None = method_field(
        "A parameter of the mask: lambda2=0.15, columns=salary,income, lambda2=salary:0.1,income:0.2. "
        "With --recipe name the step too: noise.lambda2=0.15.",
        metavar="NAME=VALUE",
    )

    def load(self) -> Recipe:
        """Read the recipe, or make one of the mask."""
        return recipe_of(self.recipe, self.mask, self.set_)


@dataclass(frozen=True, kw_only=True)
class SnooperOptions:
    """Options that describe the snooper's knowledge."""

    keys: str | None = snooper_field(
        "Columns by which the snooper looks for a person, with commas between. The schema's keys if not given.",
        metavar="COLUMNS",
    )
    precision: list[str] | None = snooper_field(
        "Width of the intervals to within which the snooper knows a key of numbers: age=5.", metavar="COLUMN=WIDTH"
    )
    population: Path | None = snooper_field(
        "A file of the population with the same keys: a record for each person, or a table with a column of counts."
    )
    population_count: str | None = snooper_field(
        "The column that counts persons, if --population is a table.", metavar="COLUMN"
    )
    coverage: float = snooper_field("Share of the persons that the snooper's file covers.", default=1.0, min=0, max=1)
    errors: float = snooper_field("Probability that a value in the snooper's file is wrong.", default=0.0, min=0, max=1)
    strategy: Literal["naive", "bayes"] | None = snooper_field(
        "naive takes the released value as it is; bayes uses the rest of what the snooper knows, too. "
        "naive if not given, bayes with --knows or --published."
    )
    match_probability: float = snooper_field(
        "Probability that the snooper links the right record.", default=1.0, min=0, max=1
    )
    knows: str | None = snooper_field(
        "Unmasked columns that the snooper knows of the target, with commas between.", metavar="COLUMNS"
    )
    published: bool = flag("The noise level is published.", panel=SNOOPER)

    def build(self) -> Snooper:
        """Build the snooper; one who knows more than the released value is taken to use it."""
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
