"""The list of registered classes, for `--list`: names, summaries, parameters and their allowed values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sfumato.contract import Combination, Measure, Side, find, registered
from sfumato.utility.estimator_utility import EstimatorUtility

if TYPE_CHECKING:
    from sfumato.cli.console import Screen
    from sfumato.contract.parameters import Parameter, Parametric


def risk_measures() -> dict[str, type[Measure]]:
    """Return every risk measure by name."""
    return {name: cls for name, cls in _measures().items() if cls.side is Side.RISK}


def utility_measures() -> dict[str, type[Measure]]:
    """Return every utility measure by name, but for that of an estimator, which is asked for by the estimator itself."""
    utilities = {name: cls for name, cls in _measures().items() if cls.side is Side.UTILITY}
    return {name: cls for name, cls in utilities.items() if not issubclass(cls, EstimatorUtility)}


def _measures() -> dict[str, type[Measure]]:
    classes = {name: cls for name, cls in registered("measure").items() if issubclass(cls, Measure)}
    return {name: cls for name, cls in classes.items() if not issubclass(cls, Combination)}


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the function that completes a name on the command line."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _show_lines(screen: Screen, headed: Mapping[str, Mapping[str, type[Parametric]]], more: str) -> None:
    """Print a line for each class under its heading, and how to see the parameters of one."""
    width = max(len(name) for classes in headed.values() for name in classes)
    for heading, classes in headed.items():
        if heading and classes:
            screen.say(heading, strong=True)
        for name, cls in classes.items():
            screen.say(f"  {name:<{width}}  {_summary(cls)}")
        if classes:
            screen.say()
    screen.say(more)


def show_measures(screen: Screen, name: str | None, command: str = "risk", example: str = "k_anonymity") -> None:
    """Print every measure of a command in a line, or one with its parameters; as JSON all that is known in both cases."""
    known = risk_measures() if command == "risk" else utility_measures()
    if name is not None or screen.as_json:
        show(screen, known if name is None else {name: known[name]}, "measures")
        return
    more = f"The parameters of one, such as {example}: sfumato {command} --list --measure {example}"
    _show_lines(screen, {"": dict(sorted(known.items()))}, more)


def show_masks(screen: Screen, name: str | None) -> None:
    """Print every mask in a line, by kind, or one with its parameters; as JSON all that is known in both cases."""
    known = registered("mask")
    if name is not None or screen.as_json:
        show(screen, known if name is None else {name: find("mask", name)}, "masks")
        return
    headed = {heading: {n: known[n] for n in names.split() if n in known} for heading, names in KINDS.items()}
    placed = {n for classes in headed.values() for n in classes}
    headed["Others"] = {n: known[n] for n in sorted(set(known) - placed)}
    _show_lines(screen, headed, "The parameters of one, such as mdav: sfumato mask --list --mask mdav")


def show_tables(screen: Screen, method: str | None, rule: str | None) -> None:
    """Print every protection of tables and every sensitivity rule in a line, or one with its parameters."""
    if method is not None or rule is not None:
        family, name = ("protection", method) if method is not None else ("rule", rule)
        show(screen, {str(name): find(family, str(name))}, f"{family}s")
        return
    known = {family: dict(sorted(registered(family).items())) for family in ("protection", "rule")}
    screen.answer({f"{family}s": [_described(n, c) for n, c in classes.items()] for family, classes in known.items()})
    headed = {"Methods": known["protection"], "Rules: which cells are unsafe": known["rule"]}
    _show_lines(screen, headed, "The parameters of one: sfumato table --list --method rta, or --rule p_percent")


KINDS = {
    "Records": "remove_identifiers sample stratified_sample weighted_sample suppress_records suppress_extremes "
    "suppress_small_areas add_simulated_records random_order pseudonyms",
    "Recoding and suppression": "recode generalise full_domain_recoding local_recoding mondrian safe_pub recode_rare "
    "merge_rare change_rare age_at top_code bottom_code "
    "multivariate_top_code truncate round random_round suppress_columns suppress_values local_suppression risk_suppression",
    "Microaggregation": "mdav vmdav individual_ranking optimal_univariate projection_microaggregation "
    "robust_microaggregation cluster_microaggregation gower_microaggregation",
    "Noise": "kim_noise independent_noise corrected_noise kim_transformation multiplicative_noise romm bounded_noise "
    "outlier_noise laplace_noise gaussian_mechanism shift_dates",
    "Swapping and randomisation": "rank_swap data_swap record_swap substitution pram shuffle",
    "Simulation": "gadp ipso normal_synthesis full_normal_synthesis copula_synthesis tree_synthesis full_tree_synthesis "
    "marginal_synthesis",
    "Matrix masks": "matrix_mask aggregate_records random_aggregation multiply_records aggregate_columns "
    "multiply_columns displace structured_noise",
    "No masking": "identity",
}
"""The masks that come with sfumato, as docs/masks/index.md has them."""


def show(screen: Screen, classes: dict[str, type[Any]], what: str) -> None:
    """Print every class with its parameters, or the same as JSON."""
    described = [_described(name, cls) for name, cls in sorted(classes.items())]
    for entry in described:
        screen.say(str(entry["name"]), strong=True)
        screen.say(f"  {entry['summary']}")
        rows = [(p["name"], p["default"], p["allowed"], p["meaning"]) for p in entry["parameters"]]
        if rows:
            screen.table(("parameter", "default", "allowed", "meaning"), rows, indent=2)
        screen.say()
    screen.answer({what: described})


def _described(name: str, cls: type[Parametric]) -> dict[str, Any]:
    defaults = {f.name: f.default for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return {
        "name": name,
        "summary": _summary(cls),
        "parameters": [
            {"name": p, "default": _default(defaults[p]), "allowed": _allowed(facts, defaults[p]), "meaning": facts.doc}
            for p, facts in cls.parameters().items()
        ],
    }


def _summary(cls: type[Parametric]) -> str:
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def _default(value: Any) -> str:
    if value is dataclasses.MISSING:
        return "needed"
    return "none" if value is None or value == () else str(value)


def _allowed(parameter: Parameter, default: Any) -> str:
    if parameter.columns == "many":
        return "columns"
    if parameter.columns == "one":
        return "a column"
    if parameter.columns == "weights":
        return "a number for each column"
    if isinstance(default, bool):
        return "true or false"
    if not (parameter.numeric or parameter.choices):
        return "numbers with commas between" if default == () else "text, or TOML"
    low, high = parameter.low, parameter.high
    plain = dataclasses.replace(
        parameter,
        low=None if low is not None and low <= -1e300 else low,
        high=None if high is not None and high >= 1e300 else high,
    )
    return plain.allowed() + (", or one for each column" if parameter.per_column else "")
