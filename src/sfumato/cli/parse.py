"""Text from the command line to parameters, recipes, grids, measures, protections and hierarchies."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato import tables
from sfumato.cli.console import Misuse
from sfumato.cli.listing import risk_measures, utility_measures
from sfumato.contract import Recipe, Snooper, find
from sfumato.errors import (
    DataError,
    ParameterError,
    SfumatoError,
    did_you_mean,
    join_names,
    refuse_unknown,
    unknown_name,
)
from sfumato.maps.rumap import DEFAULT_GRID
from sfumato.toml import parse
from sfumato.utility import EstimatorUtility, Formula, Mean, MeanCombination

if TYPE_CHECKING:
    from sfumato.cli.console import Screen
    from sfumato.contract import Measure, Parameter, Parametric
    from sfumato.data.microdata import Microdata
    from sfumato.schema.hierarchy import Hierarchy
    from sfumato.tables import APriori, Protection, Table
    from sfumato.utility.estimators import Estimator

T = TypeVar("T")


_MOST = 10_000


def pair(text: str, option: str, example: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise Misuse(f"{option} takes NAME=VALUE, such as {example}; got '{text}'.")
    return name.strip(), value.strip()


def convert(parameter: Parameter | None, text: str) -> Any:
    """Return the value that a text stands for, by what the parameter takes; brackets and quotes are read as TOML."""
    if text[:1] in ("[", "{", '"', "'"):
        try:
            return parse(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise ParameterError(f"'{text}' starts like a TOML value, but is not one.") from None
    if text.lower() in ("", "none"):
        return None
    if parameter is None or parameter.choices or parameter.columns == "one":
        return text
    if parameter.columns == "many":
        return tuple(name.strip() for name in text.split(","))
    if ":" in text and (parameter.per_column or parameter.columns == "weights"):
        pairs = (part.rpartition(":") for part in text.split(","))
        return {name.strip(): number(value) for name, _, value in pairs}
    if parameter.numeric:
        return number(text)
    parts = [number(part) for part in text.split(",")]
    if len(parts) > 1 and all(isinstance(part, float) for part in parts):
        return tuple(parts)
    return {"true": True, "false": False}.get(text.lower(), text)


def names(text: str | None) -> tuple[str, ...]:
    """Return names with commas between, one by one."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def number(text: str) -> Any:
    """Return the number that a text is, or the text itself."""
    try:
        return float(text)
    except ValueError:
        return text  # the parameter's own check says what is allowed


def settings(cls: type[Parametric], given: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Return the parameters of a class from NAME=VALUE texts."""
    known = cls.parameters()
    example = next((f"{name}={p.low:g}" for name, p in known.items() if p.low is not None and abs(p.low) < 1e300), "")
    pairs = (pair(text, option, example or f"{next(iter(known), 'name')}=...") for text in given)
    return {name: convert(known.get(name), value) for name, value in pairs}


def name_and_settings(text: str) -> tuple[str, list[str]]:
    """Split "k_anonymity; k=5; missing=value" into the name and its settings."""
    name, *parts = text.split(";")
    return name.strip(), [part for part in parts if part.strip()]


def _different(texts: Iterable[str], option: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each text's own name, the class's name and its settings; the second of a class is known by its whole text."""
    taken: set[str] = set()
    for text in texts:
        name, parts = name_and_settings(text)
        own = text.strip() if name in taken else name
        if own in taken:
            raise Misuse(f"{option} {own} is given twice; leave one out, or give it other parameters.")
        taken.add(own)
        yield own, name, parts


def recipe_of(recipe: Path | None, mask: str | None, given: list[str] | None) -> Recipe:
    """Return the recipe: from a file, with parameters changed, or one mask with its parameters."""
    if (recipe is None) == (mask is None):
        both = "not both" if recipe else "for example --mask kim_noise --set lambda2=0.15"
        raise Misuse(f"give a recipe file (--recipe) or a mask (--mask), {both}.")
    if recipe is None:
        cls = find("mask", str(mask))
        return cls.from_dict(settings(cls, given or ())).as_recipe()  # type: ignore[attr-defined, no-any-return]
    found = toml_file("recipe", recipe, Recipe.read)
    known = found.parameters()
    changes = {}
    for text in given or ():
        path, value = pair(text, "--set", "noise.lambda2=0.15")
        path = full_path(path, found)
        changes[path] = convert(known.get(parameter_path(path)), value)
    return found.with_(changes)


def full_path(path: str, recipe: Recipe) -> str:
    """Return "step.parameter" for a parameter's name alone, where only one step has it."""
    steps = [name for name in recipe.parameters() if name.partition(".")[2] == path]
    return steps[0] if len(steps) == 1 else path


def parameter_path(path: str) -> str:
    """Return "step.parameter" of "step.parameter.column"."""
    return ".".join(path.split(".")[:2])


def grid(over: Iterable[str], recipe: Recipe) -> dict[str, tuple[float, ...]]:
    """Return the values of each swept parameter: lo:hi:count, a list with commas, or nothing for λ² from 0.01 to 1."""
    known = recipe.parameters()
    swept: dict[str, tuple[float, ...]] = {}
    for text in over:
        name, sign, values = text.partition("=")
        path = full_path(name.strip(), recipe)
        parameter = known.get(parameter_path(path))
        if parameter is None:
            raise ParameterError(unknown_name("parameter", path, known, "the recipe"))
        if not parameter.numeric:
            numeric = join_names(p for p, declared in known.items() if declared.numeric)
            raise ParameterError(f"{path} is not a number, so it cannot be swept. Parameters that can: {numeric}.")
        if path in swept:
            raise ParameterError(f"--over names {path} twice; put all its values into one.")
        if not sign and not path.endswith(".lambda2"):
            raise Misuse(f"--over {name.strip()} says no values. Write them as a list, such as {name.strip()}=2,5,10.")
        swept[path] = values_of(path, values, parameter) if sign else DEFAULT_GRID
    return swept


def values_of(path: str, text: str, parameter: Parameter) -> tuple[float, ...]:
    """Return the values that a parameter takes: from LOW:HIGH:COUNT, or from numbers with commas between."""
    try:
        if ":" in text:
            low, high, count = text.split(":")
            values = _range(path, float(low), float(high), int(count), parameter)
        else:
            values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(
            f"the values '{text}' for {path} are neither a range LOW:HIGH:COUNT, such as 0.01:1:25, "
            "nor numbers with commas between, such as 0.05,0.1,0.2."
        ) from None
    whole = parameter.integer
    return tuple(dict.fromkeys(round(v) if whole and math.isfinite(v) and ":" in text else v for v in values))


def _range(path: str, low: float, high: float, count: int, parameter: Parameter) -> list[float]:
    import numpy as np

    if not (math.isfinite(low) and math.isfinite(high) and low < high and 2 <= count <= _MOST):
        raise ParameterError(f"the range for {path} needs LOW below HIGH, and a COUNT from 2 to {_MOST:,}.")
    if parameter.scale == "linear":
        return [float(v) for v in np.linspace(low, high, count)]
    if not low > 0:
        raise ParameterError(
            f"{path} is swept by equal factors, so its range must start above 0. To have 0 too, list the values: 0,0.1,0.2."
        )
    return [float(v) for v in np.geomspace(low, high, count)]


def risk_measure(text: str, measure: str) -> Measure:
    """Return a risk measure from a column, from "column; low=0.99", or from a measure's name: "k_anonymity; k=5"."""
    known = risk_measures()
    refuse_unknown("risk measure", known, "the list of risk measures", measure)
    name, parts = name_and_settings(text)
    cls = known.get(name, known[measure])
    facts = settings(cls, parts, "--risk")
    if name not in known and any(n not in cls.parameters() for n in facts) and did_you_mean(name, known):
        raise ParameterError(unknown_name("risk measure", name, known, "the list of risk measures"))
    return cls.from_dict(facts if name in known else {"column": name, **facts})


def thresholds(
    max_risk: list[str] | None, max_error: list[str] | None, risks: list[Measure], zero: bool = False
) -> dict[str, float]:
    """Return the largest risk allowed per measure, from "0.04", "salary=0.04", or an error of 5 (R = 1/5²).

    `zero` says whether no risk at all may be asked for.
    """
    if max_risk and max_error:
        raise Misuse("give --max-risk or --max-error, not both.")
    option = "--max-risk" if max_risk else "--max-error"
    found: dict[str, float] = {}
    for text in max_risk or max_error or ():
        column, sign, rest = text.rpartition("=")
        fitting = [r.label() for r in risks if not sign or column.strip() in (getattr(r, "column", ""), r.label())]
        if not fitting:
            names = join_names(getattr(r, "column", r.label()) for r in risks)
            raise ParameterError(f"{option} names '{column}', but the risks asked for are those of {names}.")
        try:
            value = float(rest)
        except ValueError:
            value = math.nan
        if not (0 < value < math.inf or (zero and max_risk and value == 0)):
            least = "of at least 0" if zero and max_risk else "above 0"
            raise ParameterError(
                f"{option} must be a number {least}, such as {'0.04' if max_risk else '5'}; got '{rest}'."
            )
        found.update(dict.fromkeys(fitting, value if max_risk else 1 / value**2))
    if found and (absent := [r.label() for r in risks if r.label() not in found]):
        raise ParameterError(
            f"{option} gives no threshold for {join_names(absent)}; write {option} COLUMN=VALUE for each."
        )
    return found


def estimator(text: str, columns: Iterable[str], weighted: bool = False) -> Estimator:
    """Return an estimator: a column (its mean), "income - salary" (of means), or a formula, "y ~ x + z; x"."""
    if "~" in text:
        formula, _, term = (part.strip() for part in text.partition(";"))
        return Formula(formula, term=term or _only_term(formula), weighted=weighted)
    names = list(columns)
    if text.strip() in names or not (weights := _weights(text, names)):
        return Mean(text.strip(), weighted=weighted)
    return MeanCombination(weights, weighted=weighted)


def utility_of(text: str, columns: Iterable[str], weighted: bool = False) -> Measure:
    """Return a utility measure: by its name, "variance_kept; over=salary,income", or that of an estimator."""
    if text.partition(";")[0].strip() in [*columns] or (named := _named_utility(text, weighted)) is None:
        return EstimatorUtility(estimator(text, columns, weighted))
    return named


def utility_measure(text: str, weighted: bool = False) -> Measure:
    """Return a utility measure by its name, with its parameters after a semicolon."""
    if (named := _named_utility(text, weighted, "--measure")) is None:
        raise ParameterError(no_such_utility(text.partition(";")[0].strip()))
    return named


def no_such_utility(name: str) -> str:
    """Return the sentence for a utility measure that is not there."""
    return unknown_name("utility measure", name, utility_measures(), "the list of utility measures")


def _named_utility(text: str, weighted: bool = False, option: str = "--utility") -> Measure | None:
    """Return a utility measure by its name; `weighted` holds where the measure can be weighted, and does not say otherwise."""
    name, parts = name_and_settings(text)
    if (cls := utility_measures().get(name)) is None:
        return None
    facts = settings(cls, parts, option)
    return cls.from_dict({"weighted": True, **facts} if weighted and "weighted" in cls.parameters() else facts)


def _only_term(formula: str) -> str | None:
    from sfumato.utility.estimators import parse

    terms = [":".join(f"{f}({c})" if f else c for f, c in term) for term in parse(formula)[1]]
    if len(terms) > 1 or any(term.startswith("C(") for term in terms):
        level = next((t for t in terms if not t.startswith("C(")), f"{terms[0]}[level]")
        raise ParameterError(
            f"'{formula}' has several coefficients. Name one after a semicolon: '{formula}; {level}'. "
            f"Its terms: {join_names(terms)}."
        )
    return None


def _weights(text: str, columns: list[str]) -> dict[str, float]:
    """Return weights of means from "income - 0.5 * salary"; none if it does not read like that."""
    parts = re.split(r"\s+([+-])\s+", f" + {text.strip()}")[1:]
    weights: dict[str, float] = {}
    for sign, term in zip(parts[::2], parts[1::2], strict=True):
        factor, star, name = term.rpartition("*")
        name = name.strip()
        value = number(factor) if star else 1.0
        if name not in columns or not isinstance(value, float) or name in weights:
            return {}
        weights[name] = -value if sign == "-" else value
    return weights if len(parts) > 2 or (parts and "*" in parts[1]) else {}


def toml_file(what: str, path: Path, reader: Callable[[Path], T]) -> T:
    """Read a recipe or a schema; say which file is at fault."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the name of a {what} file.")
    try:
        return reader(path)
    except SfumatoError as error:
        said = str(error)
        raise type(error)(said if str(path) in said else f"{path}: {said}") from None


def recipes_of(masks: list[str] | None, recipes: list[Path] | None) -> dict[str, Recipe]:
    """Return the recipes to search, by name: masks with their parameters after a semicolon, and recipe files."""
    found: dict[str, Recipe] = {}
    for own, name, parts in _different(masks or (), "--mask"):
        cls = find("mask", name)
        found[own] = cls.from_dict(settings(cls, parts, "--mask")).as_recipe()  # type: ignore[attr-defined]
    for path in recipes or ():
        if path.stem in found:
            raise Misuse(f"two recipes are called '{path.stem}'; give the file another name.")
        found[path.stem] = toml_file("recipe", path, Recipe.read)
    return found


def axes(over: Iterable[str], recipes: Mapping[str, Recipe]) -> dict[str, Any]:
    """Return what a search looks at: step.parameter=LOW:HIGH is a range, step.parameter=A,B,C a list of values.

    The parameter's name alone will do where only one step of each recipe has it.
    """
    known = {path: p for recipe in recipes.values() for path, p in recipe.parameters().items()}
    found: dict[str, Any] = {}
    for text in over:
        name, values = pair(text, "--over", "kim_noise.lambda2=0.01:1")
        full = dict.fromkeys(full_path(name, recipe) for recipe in recipes.values())
        paths = [path for path in full if parameter_path(path) in known] or [name]
        for path in paths:
            if path in found:
                raise ParameterError(f"--over names {path} twice; put all its values into one.")
            found[path] = _axis(path, values, known.get(parameter_path(path)))
    return found


def _axis(path: str, values: str, parameter: Parameter | None) -> Any:
    parts = values.split(":")
    ends = [number(part) for part in parts]
    if len(parts) == 2 and all(isinstance(end, float) for end in ends):
        return tuple(ends)
    if len(parts) == 1:
        listed = [part.strip() for part in values.split(",") if part.strip()]
        return [number(part) if parameter is None else convert(parameter, part) for part in listed]
    raise ParameterError(
        f"the values '{values}' for {path} are neither a range LOW:HIGH, such as 0.01:1, nor a list, such as 3,5,10."
    )


def snoopers_of(given: Iterable[str]) -> dict[str, Any]:
    """Return snoopers by name, from "neighbour; keys=age,sex"."""
    found: dict[str, Any] = {}
    for text in given:
        name, parts = name_and_settings(text)
        if not name or "=" in name or name in found:
            raise Misuse("--snooper starts with a name of its own: 'neighbour; keys=age,sex'.")
        found[name] = Snooper.from_dict(settings(Snooper, parts, "--snooper"))
    return found


def named_hierarchies(given: Iterable[str] | None, columns: Iterable[str] | None = None) -> dict[str, Hierarchy]:
    """Return hierarchies by column, from COLUMN=FILE; only for these columns, where they are known."""
    known = None if columns is None else list(columns)
    found: dict[str, Hierarchy] = {}
    for text in given or ():
        name, path = pair(text, "--hierarchy", "region=regions.hrc")
        if known is not None and name not in known:
            raise Misuse(
                f"--hierarchy names '{name}', which is not a column of labels. These are: {join_names(known)}."
            )
        if name in found:
            raise Misuse(f"--hierarchy names '{name}' twice; leave one out.")
        found[name] = read_hierarchy(Path(path))
    return found


def read_hierarchy(path: Path) -> Hierarchy:
    """Read an .hrc file, or a .csv with the labels above each value."""
    if not path.is_file():
        raise Misuse(f"there is no file {path} with a hierarchy.")
    if path.suffix.lower() == ".csv":
        from sfumato.schema.hierarchy import read_hierarchy_csv

        return read_hierarchy_csv(path)
    return tables.read_argus_hierarchy(path)


def with_hierarchies(data: Microdata, nested: dict[str, Any]) -> Microdata:
    """Return records whose schema knows how the labels of these columns nest; None says nothing."""
    for name, hierarchy in nested.items():
        if hierarchy is None:
            continue
        if name not in data.schema:
            raise Misuse(unknown_name("column", name, data.schema.names(), "the file of records (--hierarchy)"))
        data = data.with_schema(data.schema.change(name, hierarchy=hierarchy, scale="partially ordered"))
    return data


def total_labels(given: list[str] | None) -> str | dict[str, str | None] | None:
    """Return what totals are called, from LABEL or COLUMN=LABEL; `COLUMN=none` says that there is none."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = (pair(text, "--total", "region=All regions") for text in given)
    return {name: None if label.casefold() == "none" else label for name, label in pairs}


def protection_of(
    name: str, given: Iterable[str], rule: list[str] | None, marked: bool, option: str = "--set"
) -> Protection:
    """Return a method with its parameters and rules; `marked` says whether a file may say which cells are unsafe."""
    cls: Any = find("protection", name)
    fields = settings(cls, given, option)
    # rules have no part in it
    among_others = option != "--set" and "extra" in cls.parameters() and "extra" not in fields
    if rule and "rules" in cls.parameters() and not among_others:
        fields["rules"] = tables.rules_of(list(rule))
    elif rule and option == "--set":
        raise Misuse(
            f"{name} protects every contributor by its own parameters and takes no --rule. Use --set; --list shows them."
        )
    elif "rules" in _needed(cls) - fields.keys():
        if not (marked and "a_priori" in cls.parameters()):
            raise Misuse(
                f"{name} needs to know which cells are unsafe: --rule 'p% 10', --rule 'minimum 3'. --list shows the rules."
            )
        fields["rules"] = tables.ByHand()
    return cls.from_dict(fields)  # type: ignore[no-any-return]


def note_rules(screen: Screen, rule: list[str] | None, table: Table) -> None:
    """Tell where a rule may not say what was meant: a p below one percent, records counted where contributors are known."""
    found = tables.rules_of(list(rule)) if rule else None
    for one in found.rules if isinstance(found, tables.Together) else () if found is None else (found,):
        if isinstance(one, tables.PPercent) and one.p < 1:
            screen.note(
                f"p = {one.p:g} is less than one percent; for {100 * one.p:g} percent write 'p% {100 * one.p:g}'."
            )
        owners = None if table.contributions is None or table.is_count else len(table.contributions)
        if (
            isinstance(one, tables.MinimumFrequency)
            and one.count == "records"
            and owners
            and owners < table.counts.sum()
        ):
            screen.note(
                f"'minimum {one.n}' counts records, and several belong to one contributor: 'contributors {one.n}' counts those."
            )


def protections_of(given: Iterable[str], rule: list[str] | None, marked: bool) -> dict[str, Protection]:
    """Return several methods by name, each with its parameters after semicolons: 'rta; prior_cv=0.4'."""
    methods = _different(given, "--method")
    found = {own: protection_of(name, parts, rule, marked, "--method") for own, name, parts in methods}
    if not found:
        raise Misuse("name what to try: --method rta --method suppression. `sfumato table --list` shows all.")
    if rule and not any("rules" in p.parameters() for p in found.values()):
        raise Misuse("none of these methods takes a --rule: they protect every contributor by their own parameters.")
    return found


def with_wishes(screen: Screen, chosen: Protection, wanted: APriori | None, asked: bool) -> Protection:
    """Return a method that knows what is wanted of single cells; one that cannot is refused, or told if nobody asked."""
    if wanted is None or repr(wanted) == "APriori(nothing)":
        return chosen
    if "a_priori" in chosen.parameters():
        return chosen.with_(a_priori=wanted)
    if asked:
        raise Misuse(f"--a-priori is for suppression; {chosen.name} does not look at single cells.")
    screen.note(
        f"the file says more of single cells (their status, costs or levels), which {chosen.name} does not look at."
    )
    return chosen


def swept_over(over: Iterable[str], protections: Mapping[str, Protection]) -> dict[str, Any] | None:
    """Return the values of each swept parameter, by "method.parameter"; None, for the usual ranges, if nothing is named.

    The parameter's name alone will do where only one of the methods has it.
    """
    known = {f"{name}.{p}": facts for name, method in protections.items() for p, facts in method.parameters().items()}
    found: dict[str, Any] = {}
    for text in over:
        name, values = pair(text, "--over", "rta.base_cv=0.05:0.4:5")
        owners = [path for path in known if path.partition(".")[2] == name]
        path = owners[0] if len(owners) == 1 else name
        refuse_unknown("parameter", known, "the methods", path)
        if path in found:
            raise ParameterError(f"--over names {path} twice; put all its values into one.")
        numeric = known[path].numeric
        found[path] = list(values_of(path, values, known[path])) if numeric else list(names(values))
    return found or None


def _needed(cls: Any) -> set[str]:
    """Return the parameters without a default."""
    none = dataclasses.MISSING
    return {f.name for f in dataclasses.fields(cls) if f.default is none and f.default_factory is none}
