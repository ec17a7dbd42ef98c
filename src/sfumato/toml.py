"""TOML: read what anybody wrote; write what people like to read, one [[table]] per thing and one line per field."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from sfumato.errors import ParameterError


def parse(text: str) -> dict[str, Any]:
    """Return a TOML document as a table. Whatever cannot be read, also for its depth or its length, is a TOMLDecodeError.

    >>> parse("version = 1")
    {'version': 1}
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise tomllib.TOMLDecodeError("its brackets are nested too deeply") from None
    except ValueError:  # such as a number of ten thousand digits
        raise tomllib.TOMLDecodeError("a number or a date in it cannot be read") from None


def dump(header: Mapping[str, Any], name: str, tables: Iterable[Mapping[str, Any]]) -> str:
    """Return TOML text: the header's fields, then a [[name]] table each.

    >>> print(dump({"version": 1}, "step", [{"name": "noise", "lambda2": 0.15}]), end="")
    version = 1
    <BLANKLINE>
    [[step]]
    name = "noise"
    lambda2 = 0.15
    """
    parts = [_fields(header), *(f"[[{name}]]\n{_fields(table)}" for table in tables)]
    return "\n".join(part for part in parts if part)


def _fields(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(k)} = {_value(v)}\n" for k, v in table.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if callable(item := getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        value = item()  # a NumPy number
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(str(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(float(value))
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(v) for v in value)}]"
    what = "an empty value" if value is None else f"a value of type {type(value).__name__}"
    raise ParameterError(f"{what} cannot be written to a TOML file; numbers, text, yes/no, lists and mappings can.")
