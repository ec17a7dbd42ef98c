"""Which protections a map tries, at which values of their parameters."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.contract import Parameter
from sfumato.errors import ParameterError, unknown_name
from sfumato.tables.protection import Protection

_SWEPT = 5
"""Values of a parameter that are tried where none are given."""


def named_protections(given: Any) -> dict[str, Protection]:
    """Return the protections by name: their own, or their label where a name stands twice."""
    if isinstance(given, Mapping):
        found = dict(given)
    else:
        several = list(given) if isinstance(given, list | tuple) else [given]
        count = Counter(getattr(p, "name", "") for p in several)
        found = {p.name if count[p.name] == 1 else p.label(): p for p in several if isinstance(p, Protection)}
        if len(found) < len(several):
            raise ParameterError("protections must be protections, each with other parameters than the others.")
    if not found or not all(isinstance(p, Protection) for p in found.values()):
        raise ParameterError("give at least one protection to try, such as Suppression(rules=PPercent(p=10)).")
    return found


def swept(
    protections: Mapping[str, Protection], over: Mapping[str, Sequence[Any]] | None
) -> Iterator[tuple[str, Protection, dict[str, Any]]]:
    """Yield every protection at every combination of its swept values."""
    asked = dict(over or {})
    owners = {path: [n for n, p in protections.items() if path.rpartition(".")[0] in (n, p.name)] for path in asked}
    for path, names in owners.items():
        known = [f"{n}.{f}" for n, p in protections.items() for f in p.parameters()]
        field_ = path.rpartition(".")[2]
        if not names or any(field_ not in protections[n].parameters() for n in names):
            raise ParameterError(unknown_name("parameter", path, known, "the protections"))
        if isinstance(asked[path], str | Mapping) or not len(list(asked[path])):
            raise ParameterError(f"give a list of values for {path}, such as [3, 5, 10].")
    for name, protection in protections.items():
        mine = {path: list(values) for path, values in asked.items() if name in owners[path]}
        if over is None:
            mine = _usual(name, protection)
        for values in itertools.product(*mine.values()):
            settings = {
                f"{name}.{path.rpartition('.')[2]}": v.item() if isinstance(v, np.generic) else v
                for path, v in zip(mine, values, strict=True)
            }
            changes = {path.rpartition(".")[2]: v for path, v in settings.items()}
            yield name, protection.with_(**changes) if changes else protection, settings


def _usual(name: str, protection: Protection) -> dict[str, list[Any]]:
    """Return values of the first parameter that has a usual range."""
    for field_, parameter in protection.parameters().items():
        if parameter.usual is not None and not isinstance(getattr(protection, field_), Mapping):
            return {f"{name}.{field_}": _spread(parameter)}
    return {}


def _spread(parameter: Parameter) -> list[Any]:
    assert parameter.usual is not None  # noqa: S101 - whoever calls has looked
    a, b = parameter.usual
    values = np.geomspace(a, b, _SWEPT) if a > 0 and b > 0 else np.linspace(a, b, _SWEPT)
    if parameter.integer:
        return sorted({int(v) for v in np.round(values)})
    return [float(f"{v:.3g}") for v in values]
