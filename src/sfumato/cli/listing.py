"""What is registered, for `--list`: names, words, parameters and what they allow."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.cli.screen import Screen
    from sfumato.contract import Measure, Parameter, Parametric


def risk_measures() -> dict[str, type[Measure]]:
    """Return every risk measure that looks at one column, by name."""
    from sfumato.contract import Combination, Measure, Side, registered

    classes = {name: cls for name, cls in registered("measure").items() if issubclass(cls, Measure)}
    return {
        name: cls
        for name, cls in classes.items()
        if not issubclass(cls, Combination) and cls.side is Side.RISK and "column" in cls.parameters()
    }


def masks() -> dict[str, type[Parametric]]:
    """Return every mask by name."""
    from sfumato.contract import registered

    return registered("mask")


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
    summary = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
    return {
        "name": name,
        "summary": summary,
        "parameters": [
            {"name": p, "default": _default(defaults[p]), "allowed": _allowed(facts, defaults[p]), "meaning": facts.doc}
            for p, facts in cls.parameters().items()
        ],
    }


def _default(value: Any) -> str:
    if value is dataclasses.MISSING:
        return "needed"
    return "none" if value is None or value == () else str(value)


def _allowed(parameter: Parameter, default: Any) -> str:
    if parameter.columns == "many":
        return "columns"
    if parameter.columns == "one":
        return "a column"
    if not (parameter.numeric or parameter.choices):
        return "numbers with commas between" if default == () else "text"
    low, high = parameter.low, parameter.high
    plain = dataclasses.replace(
        parameter,
        low=None if low is not None and low <= -1e300 else low,
        high=None if high is not None and high >= 1e300 else high,
    )
    return plain.allowed() + (", or one for each column" if parameter.per_column else "")
