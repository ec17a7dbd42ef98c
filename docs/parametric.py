"""Teach the reference pages the habits of the house.

Masks, measures and estimators declare what they take with `param`; short docstrings show an example without a heading.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import griffe

from sfumato.contract import Parameter, Parametric


class ParametricClasses(griffe.Extension):
    """Give every class of the house a signature and a list of parameters, read off the class itself."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Put a heading over an example that has none, so that it is set as code."""
        if obj.docstring is not None and "\nExamples\n---" not in obj.docstring.value:
            obj.docstring.value = obj.docstring.value.replace("\n>>> ", "\nExamples\n--------\n>>> ", 1)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Visit every class of the package."""
        for shown in _classes(pkg):
            cls = getattr(importlib.import_module(shown.module.path), shown.name, None)
            if isinstance(cls, type) and is_dataclass(cls) and issubclass(cls, Parametric) and cls.parameters():
                _describe(shown, cls)


def _classes(module: griffe.Module) -> Iterator[griffe.Class]:
    for member in module.members.values():
        if member.is_alias:
            continue
        if member.is_class:
            yield member  # type: ignore[misc]
        elif member.is_module and not member.name.startswith("__"):
            yield from _classes(member)  # type: ignore[arg-type]


def _describe(shown: griffe.Class, cls: type[Parametric]) -> None:
    known, made, lines = cls.parameters(), [], []
    for field in fields(cls):  # type: ignore[arg-type]
        if field.name not in known:
            continue
        default = None if field.default is MISSING else repr(field.default)
        annotation = str(field.type)
        made.append(griffe.Parameter(field.name, annotation=annotation, kind=_KIND, default=default))
        lines += [f"{field.name}", f"    {_sentence(known[field.name])}"]
    shown.set_member(
        "__init__",
        griffe.Function("__init__", parameters=griffe.Parameters(_SELF, *made), returns="None", parent=shown),
    )
    if shown.docstring is not None and "\nParameters\n" not in shown.docstring.value:
        before, examples, after = shown.docstring.value.partition("Examples\n--------")
        section = "\n".join(["Parameters", "----------", *lines])
        shown.docstring.value = f"{before.rstrip()}\n\n{section}\n\n{examples}{after}"


def _sentence(parameter: Parameter) -> str:
    """Return the parameter's own words and its allowed values."""
    allowed = parameter.allowed() if parameter.choices or parameter.numeric else ""
    also = " It may be a mapping from column to number." if parameter.per_column else ""
    if "1e+300" in allowed:  # that is to say, any
        allowed = ""
    first = parameter.doc[:1].upper() if parameter.doc.isascii() or parameter.doc[0] != "λ" else "λ"
    return f"{first}{parameter.doc[1:]}{f'; {allowed}' if allowed else ''}.{also}"


_KIND = griffe.ParameterKind.positional_or_keyword
_SELF = griffe.Parameter("self", kind=_KIND)
