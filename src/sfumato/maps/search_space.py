"""Where a search looks: recipes, each with ranges or lists of values for some of its parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from sfumato.contract import Mask, Parameter, Recipe
from sfumato.errors import ParameterError, SfumatoError, join_names, repeated, unknown_name

Point = tuple[float, ...]
"""Coordinates in the unit cube, one for each axis of a family."""


def _real(value: object) -> bool:
    """Whether it is a number, NumPy's included; True and False are choices, not numbers."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


@dataclass(frozen=True)
class Range:
    """All values from one end to the other: by equal factors or equal steps, whole numbers only or not.

    What is not said is taken from the parameter's own declaration.

    >>> Range(0.01, 1, scale="log").at(0.5)
    0.1
    """

    start: float
    end: float
    scale: str | None = None
    integer: bool | None = None

    def __post_init__(self) -> None:
        ends = (self.start, self.end)
        if not all(_real(v) and math.isfinite(v) for v in ends):
            raise ParameterError("a range goes from one number to another, such as Range(0.01, 1).")
        if self.start == self.end:
            raise ParameterError(
                f"a range from {self.start:g} to {self.end:g} is empty. Give two different ends, or fix the parameter in the "
                "recipe."
            )
        if self.scale not in (None, "linear", "log"):
            raise ParameterError(f"the scale of a range is 'linear' or 'log'; got '{self.scale}'.")
        if self.scale == "log" and min(ends) <= 0:
            raise ParameterError("a range by equal factors (scale='log') needs both ends above 0.")

    def of(self, parameter: Parameter) -> Range:
        """Return the range with scale and whole numbers as the parameter declares them."""
        log = parameter.scale == "log" and min(self.start, self.end) > 0
        scale = self.scale or ("log" if log else "linear")
        return Range(self.start, self.end, scale, parameter.integer if self.integer is None else self.integer)

    def at(self, u: float) -> float:
        """Return the value at a share of the way."""
        log = self.scale == "log"
        value = float(self.start ** (1 - u) * self.end**u) if log else self.start + u * (self.end - self.start)
        if self.integer:
            return round(value)
        return self.start if u <= 0 else self.end if u >= 1 else float(f"{value:.6g}")

    def words(self) -> str:
        """Return the range in words."""
        return f"{self.start:g} to {self.end:g}"


@dataclass(frozen=True)
class Values:
    """A list of values, in the order given."""

    values: tuple[Any, ...]

    def at(self, u: float) -> Any:
        """Return the value at a share of the way."""
        return self.values[min(int(u * len(self.values)), len(self.values) - 1)]

    def centre(self, index: int) -> float:
        """Return the coordinate of a value."""
        return (index + 0.5) / len(self.values)

    def words(self) -> str:
        """Return the values in words."""
        return join_names(map(str, self.values), 6)


Axis = Range | Values


@dataclass(frozen=True)
class Family:
    """A recipe with the parameters to be searched; without any, the recipe as it is.

    Examples
    --------
    >>> from sfumato.masks import KimNoise
    >>> Family("noise", KimNoise().as_recipe(), {"kim_noise.lambda2": Range(0.01, 1)}).settings((0.5,))
    {'kim_noise.lambda2': 0.1}
    """

    name: str
    recipe: Recipe
    over: Mapping[str, Axis]
    parts: tuple[str, ...] = ()
    """The families that it is a sequence of; its own name alone, if it is none."""

    def __post_init__(self) -> None:
        known, axes = self.recipe.parameters(), {}
        for path, axis in self.over.items():
            declared = ".".join(path.split(".")[:2])
            if declared not in known:
                raise ParameterError(unknown_name("parameter", path, known, f"the recipe '{self.name}'"))
            axes[path] = axis.of(known[declared]) if isinstance(axis, Range) else axis
            ends = (axis.start, axis.end) if isinstance(axis, Range) else axis.values
            for value in ends:
                try:
                    self.recipe.with_({path: value})
                except SfumatoError as error:
                    raise ParameterError(f"in the recipe '{self.name}': {error}") from None
        object.__setattr__(self, "over", axes)
        object.__setattr__(self, "parts", self.parts or (self.name,))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, in order."""
        return tuple(self.over.values())

    def settings(self, point: Point) -> dict[str, Any]:
        """Return the parameters at a point of the unit cube."""
        return {path: axis.at(u) for (path, axis), u in zip(self.over.items(), point, strict=True)}

    def snapped(self, point: Sequence[float]) -> Point:
        """Return the point moved to where values lie: the middle of a listed value, a whole number's own place."""
        return tuple(_snap(axis, min(max(float(u), 0.0), 1.0)) for axis, u in zip(self.axes, point, strict=True))

    def grid(self, per_axis: int) -> list[Point]:
        """Return a grid over the cube, ends included; listed values all stand in it."""
        rows = []
        for axis in self.axes:
            count = len(axis.values) if isinstance(axis, Values) else per_axis
            places = [axis.centre(i) for i in range(count)] if isinstance(axis, Values) else np.linspace(0, 1, count)
            rows.append(list(dict.fromkeys(_snap(axis, float(u)) for u in places)))
        return list(itertools.product(*rows))

    def describe(self) -> str:
        """Return what is searched, in words."""
        return ", ".join(f"{path} from {axis.words()}" if isinstance(axis, Range) else f"{path} among {axis.words()}"
                         for path, axis in self.over.items()) or "nothing to search: the recipe as it is"  # fmt: skip

    def then(self, other: Family) -> Family:
        """Return the sequence of two families: the second masks what the first releases."""
        joined = self.recipe >> other.recipe
        later = joined.steps[len(self.recipe.steps) :]
        fresh = {old.name: new.name for old, new in zip(other.recipe.steps[1:], later, strict=True)}
        renamed = {".".join([fresh[p.split(".")[0]], *p.split(".")[1:]]): axis for p, axis in other.over.items()}
        return Family(f"{self.name} then {other.name}", joined, {**self.over, **renamed}, self.parts + other.parts)


def _snap(axis: Axis, u: float) -> float:
    if isinstance(axis, Values):
        return axis.centre(min(int(u * len(axis.values)), len(axis.values) - 1))
    if not axis.integer:
        return u
    value = float(axis.at(u))
    if axis.scale == "log":
        return math.log(value / axis.start) / math.log(axis.end / axis.start)
    return (value - axis.start) / (axis.end - axis.start)


def families_of(recipes: Any, over: Mapping[str, Any] | None = None, sequences: int = 1) -> tuple[Family, ...]:
    """Return the families to search, from whatever was given; see `search`.

    Without ranges of their own, recipes are searched over the parameters that have a usual range.
    """
    families = [_family(name, given, over or {}) for name, given in _named(recipes)]
    if not families:
        raise ParameterError("a search needs at least one recipe.")
    if twice := repeated(f.name for f in families):
        raise ParameterError(f"two recipes are called '{twice[0]}'. Give each a name: {{'mild': ..., 'strong': ...}}.")
    paths = {p for f in families for p in f.over}
    if lost := [p for p in over or {} if p not in paths]:
        known = [p for f in families for p in f.recipe.parameters()]
        raise ParameterError(unknown_name("parameter", lost[0], known, "the recipes"))
    if not isinstance(sequences, int) or isinstance(sequences, bool) or not 1 <= sequences <= 4:
        raise ParameterError("sequences is the largest number of recipes in a row: 1 (each alone) to 4.")
    out, rows = list(families), list(families)
    for _ in range(sequences - 1):
        rows = [row.then(f) for row in rows for f in families if f.name not in row.parts]
        out += rows
    return tuple(out)


def _named(recipes: Any) -> list[tuple[str, Any]]:
    if isinstance(recipes, Mapping):
        return [(str(k), v) for k, v in recipes.items()]
    several = [recipes] if isinstance(recipes, Mask | Recipe | Family) or _with_over(recipes) else recipes
    if not isinstance(several, list | tuple):
        raise ParameterError("recipes must be a mask, a recipe, or several of them in a list or by name.")
    return [(_name(r), r) for r in several]


def _with_over(given: Any) -> bool:
    """Whether it is a recipe together with what to search."""
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping)


def _name(given: Any) -> str:
    if isinstance(given, Family):
        return given.name
    recipe = given[0] if _with_over(given) else given
    if isinstance(recipe, Mask):
        return recipe.name
    if isinstance(recipe, Recipe):
        return " then ".join(s.name for s in recipe.steps[1:]) or recipe.steps[0].name
    raise ParameterError(f"a search looks at masks and recipes, not at {type(recipe).__name__}.")


def _family(name: str, given: Any, over: Mapping[str, Any]) -> Family:
    if isinstance(given, Family):
        return Family(name, given.recipe, {**given.over, **_known(given.recipe, over)}, given.parts)
    own = None
    if _with_over(given):
        given, own = given
    if not isinstance(given, Mask | Recipe):
        raise ParameterError(
            f"'{name}' must be a mask or a recipe, alone or with what to search: (recipe, {{'noise.lambda2': Range(0.01, 1)}})."
        )
    recipe = given if isinstance(given, Recipe) else given.as_recipe()
    if own is None:
        own = _known(recipe, over) or {
            path: Range(*p.usual) for path, p in recipe.parameters().items() if p.usual is not None
        }
    return Family(name, recipe, {path: as_axis(path, axis) for path, axis in own.items()})


def _known(recipe: Recipe, over: Mapping[str, Any]) -> dict[str, Axis]:
    steps = recipe.parameters()
    return {p: as_axis(p, axis) for p, axis in over.items() if ".".join(p.split(".")[:2]) in steps}


def as_axis(path: str, given: Any) -> Axis:
    """Return an axis: a `Range`, a pair of numbers (its ends), or a list of values."""
    if isinstance(given, Range | Values):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(map(_real, given)):
        try:
            return Range(float(given[0]), float(given[1]))
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from None
    if isinstance(given, list | tuple | range | np.ndarray):
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in given)
        if values:
            return Values(values)
        raise ParameterError(f"{path}: the list of values to search is empty.")
    raise ParameterError(
        f"{path}: give the ends of a range, such as (0.01, 1), or a list of values, such as [3, 5, 10]."
    )
