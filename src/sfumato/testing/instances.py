"""Instances of a class, built from the declarations of its parameters, and the promises that classes of every family keep."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sfumato.contract import Parametric, build, registered
from sfumato.contract.parameters import Parameter, snake
from sfumato.errors import ParameterError, SfumatoError
from sfumato.toml import dump, parse

T = TypeVar("T", bound=Parametric)
Values = Mapping[str, Any]
Promises = tuple[Callable[..., None], ...]

NUMBERS = ("pay", "rent", "hours")
CATEGORIES = ("region", "sex")
DATES = ("born", "arrived", "seen")
"""Columns of the file that instances name, where their parameters do not say more; where one date is named, it is the last."""


# --- instances
# Built from the parameters' declarations.


def number_for(parameter: Parameter) -> float | int:
    """Return a number in the middle of a parameter's range."""
    low = max(parameter.low if parameter.low is not None else -1e9, -1e9)
    high = min(parameter.high if parameter.high is not None else 1e9, 1e9)
    middle = (
        math.sqrt(max(low, 0.01) * high)
        if parameter.scale == "log"
        else 50.0
        if (low, high) == (-1e9, 1e9)
        else (low + high) / 2
    )
    return math.floor(middle) if parameter.integer else middle


def needs_value(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is a parameter without a default."""
    missing = dataclasses.MISSING
    return "param" in field.metadata and field.default is missing and field.default_factory is missing


def required(
    cls: type[Parametric],
    values: Values | None = None,
    numbers: Sequence[str] = NUMBERS,
    categories: Sequence[str] = CATEGORIES,
) -> dict[str, Any]:
    """Return values for the parameters that have no default: those in `values`, and guesses from the declarations.

    `numbers` and `categories` are the columns that they may name.
    """
    found = dict(values or {})
    columns = iter(numbers)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in found or not needs_value(field):
            continue
        parameter: Parameter = field.metadata["param"]
        if parameter.columns == "one":
            one_of = {"numbers": lambda: next(columns), "dates": lambda: DATES[-1]}
            found[field.name] = one_of.get(parameter.holds, lambda: categories[0])()
        elif parameter.columns == "many":
            many = {"numbers": numbers, "dates": DATES[:-1]}
            found[field.name] = tuple(many.get(parameter.holds, categories))
        elif parameter.columns == "weights":
            found[field.name] = {"pay": 1.0, "rent": -0.5}
        elif parameter.choices:
            found[field.name] = parameter.choices[0]
        elif parameter.numeric:
            found[field.name] = number_for(parameter)
        else:
            raise AssertionError(
                f"no value for {field.name} of {cls.name} follows from its declaration. "
                f"Give one: values={{'{field.name}': ...}}."
            )
    return found


def variants(
    cls: type[T],
    values: Values | None = None,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
    numbers: Sequence[str] = NUMBERS,
    categories: Sequence[str] = CATEGORIES,
) -> Iterator[T]:
    """Yield the class with its defaults, then with each parameter set to something else.

    A parameter in `values` keeps that value. `beside` says, for a parameter that is set to something else, which other ones
    must then be set too. `numbers` and `categories` are the columns that parameters may name.
    """
    base, beside = required(cls, values, numbers, categories), beside or {}
    first = cls(**base)
    yield first
    parameters = cls.parameters()
    for name, parameter in parameters.items():
        if name in (values or {}):
            continue
        others = {**base, **beside.get(name, {})}
        if parameter.columns == "many" and name not in base:
            yield cls(**{**others, name: tuple(numbers[:2] if parameter.holds == "numbers" else categories[:1])})
        for choice in parameter.choices:
            if choice != getattr(first, name):
                yield cls(**{**others, name: choice})
        if parameter.per_column and "columns" in parameters:
            level = number_for(parameter)
            yield cls(**{**others, "columns": tuple(numbers[:2]), name: dict.fromkeys(numbers[:2], level)})


def round_trip(thing: T) -> T:
    """Write an instance to TOML and read it back."""
    text = dump({}, "step", [{thing.family: thing.name, **thing.to_dict()}])
    again: T = build(thing.family, parse(text)["step"][0])
    return again


def require(holds: object, sentence: str) -> None:
    """Raise an AssertionError with a sentence unless something holds; unlike `assert`, under ``python -O`` too."""
    if not holds:
        raise AssertionError(sentence)


def require_refusal(make: Callable[[], object], pattern: str, what: str) -> None:
    """Require a ParameterError whose message matches a pattern."""
    try:
        make()
    except ParameterError as error:
        require(re.search(pattern, str(error)), f"The refusal of {what} does not say what is allowed: {error}")
        return
    raise AssertionError(f"There is no ParameterError for {what}.")


# --- promises of every class


def is_described(thing: Parametric) -> None:
    """The class and each of its parameters are described."""
    cls = type(thing)
    own = cls.__dict__.get("__doc__") and not str(inspect.getdoc(cls)).startswith(f"{cls.__name__}(")
    require(own, f"{cls.__name__} has no docstring of its own.")
    own_name = thing.name == snake(cls.__name__) or registered(cls.family).get(thing.name) is cls
    require(own_name, f"The name '{thing.name}' is not that of the class.")
    for name, parameter in cls.parameters().items():
        require(parameter.doc, f"Parameter {name} has no doc.")
        require(name not in ("name", "step", thing.family), f"{name} means something else in a recipe file.")
        ordered = parameter.low is None or parameter.high is None or parameter.low < parameter.high
        require(ordered, f"The bounds of {name} are not in order.")
        require(all(isinstance(c, str) for c in parameter.choices), f"The choices of {name} are not texts.")


def survives_toml(thing: Parametric) -> None:
    """Written to TOML and read back, it is the same; a function as parameter is refused in a sentence."""
    if holds_function(thing):
        require_refusal(thing.to_dict, "cannot be written to a file", "a function as parameter")
    else:
        require(round_trip(thing) == thing, "What is read back differs.")


def holds_function(thing: Parametric) -> bool:
    """Whether a parameter is a function, which cannot be written to a file."""
    values = [getattr(thing, name) for name in thing.parameters()]
    return any(callable(v) or (isinstance(v, Parametric) and holds_function(v)) for v in values)


def copies_itself(thing: Parametric) -> None:
    """A copy with nothing changed is the same, and an unknown parameter is refused."""
    require(thing.with_() == thing, "The copy differs.")
    require_refusal(lambda: thing.with_(no_such_parameter=1), "is not in", "an unknown parameter")


def refuses_wrong_parameters(thing: Parametric) -> None:
    """A parameter out of its range is refused at once, with the values that are allowed."""
    for name, parameter in thing.parameters().items():
        wrong: list[Any] = []
        if parameter.numeric:
            wrong = [float("nan"), float("inf"), "much", True, [1]]
            wrong += [parameter.low - 1] if parameter.low is not None and parameter.low > -1e299 else []
            wrong += [parameter.high + 1] if parameter.high is not None and parameter.high < 1e299 else []
        if parameter.choices:
            wrong = ["no such choice", 5]
        if parameter.columns in ("one", "many"):
            wrong = [5, [1], b"pay", {"pay": 1}]
        for value in wrong:
            change = functools.partial(thing.with_, **{name: value})
            require_refusal(change, rf"{name} .*must be .*\.$", f"{name} = {value!r}")


GENERAL_PROMISES: Promises = (is_described, survives_toml, copies_itself, refuses_wrong_parameters)


# --- checks


def keep(promise: Callable[..., None], thing: Parametric, *arguments: Any, on: str = "") -> None:
    """Try a promise; where it is broken, raise an error that names the instance, the promise and the data."""
    try:
        promise(*arguments)
    except Exception as error:
        sentence = str(promise.__doc__).splitlines()[0]
        data = f" Data: {on}." if on else ""
        said = str(error) if isinstance(error, AssertionError) else f"It raised {type(error).__name__}: {error}"
        if isinstance(error, SfumatoError):
            said += " If these parameters do not suit the data of this check, give others: values={'parameter': value}."
        raise AssertionError(f"{thing!r} breaks a promise. {sentence}{data} {said}") from error


def keep_all(
    thing: Parametric, promises: Promises, data: object, extreme: Callable[..., None], extremes: Mapping[str, object]
) -> None:
    """Try the general promises, those about ordinary data, and the one about extreme data."""
    for promise in GENERAL_PROMISES:
        keep(promise, thing, thing)
    for promise in promises:
        keep(promise, thing, thing, data)
    for name, other in extremes.items():
        keep(extreme, thing, thing, other, on=name)


def check_type(family: type[T], given: T | type[T], values: Values | None) -> None:
    """Refuse what is of another family."""
    if not isinstance(given, family) and not (isinstance(given, type) and issubclass(given, family)):
        raise TypeError(f"a class derived from {family.__name__}, or an instance of one, can be checked here.")
    if values and isinstance(given, family):
        raise TypeError("values are for a class; this is an instance, which has its own.")


def instances_of(
    family: type[T],
    given: T | type[T],
    values: Values | None,
    numbers: Sequence[str] = NUMBERS,
    categories: Sequence[str] = CATEGORIES,
) -> list[T]:
    """Return the instance that is to be checked, or those that the declarations of a class give."""
    check_type(family, given, values)
    if not isinstance(given, type):
        return [given]
    try:
        return list(variants(given, values, None, numbers, categories))
    except SfumatoError as error:
        raise AssertionError(f"{given.__name__} cannot be built from its declarations: {error}") from error
