"""Text from the command line to what a search tries: recipes, ranges of their parameters, and the snoopers they must stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.given import convert, full_path, number, pair, parameter_path, settings
from sfumato.cli.handling import Misuse
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.contract import Parameter, Recipe


def recipes_of(masks: list[str] | None, recipes: list[Path] | None) -> dict[str, Recipe]:
    """Return the recipes to search, by name: masks with their parameters after a semicolon, and recipe files."""
    from sfumato.cli.load import toml_file
    from sfumato.contract import Recipe, find

    found: dict[str, Recipe] = {}
    for text in masks or ():
        name, _, rest = text.partition(";")
        cls = find("mask", name.strip())
        mask = cls.from_dict(settings(cls, (part for part in rest.split(";") if part.strip()), "--mask"))
        own = text.strip() if name.strip() in found else name.strip()
        if own in found:
            raise Misuse(f"--mask {own} is given twice; leave one out, or give it other parameters.")
        found[own] = mask.as_recipe()  # type: ignore[attr-defined]
    for path in recipes or ():
        if path.stem in found:
            raise Misuse(f"two recipes are called '{path.stem}'; give the file another name.")
        found[path.stem] = toml_file("recipe", path, Recipe.read)
    if not found:
        raise Misuse("name what to try: --mask kim_noise --mask mdav, or recipe files (--recipe).")
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
    from sfumato.contract import Snooper

    found: dict[str, Any] = {}
    for text in given:
        name, _, rest = text.partition(";")
        if not name.strip() or "=" in name or name.strip() in found:
            raise Misuse("--snooper starts with a name of its own: 'neighbour; keys=age,sex'.")
        facts = settings(Snooper, (part for part in rest.split(";") if part.strip()), "--snooper")
        found[name.strip()] = Snooper.from_dict(facts)
    return found
