"""What a DDI-Codebook says of the variables of a data set, as a schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from sfumato.errors import SchemaError
from sfumato.schema import Attribute, Role, Scale, Schema


@dataclass
class _Element:
    """An element of the document, without its namespace."""

    tag: str
    attributes: dict[str, str]
    children: list[_Element] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    def each(self, tag: str) -> Iterator[_Element]:
        return (child for child in self.children if child.tag == tag)

    def all(self, tag: str) -> Iterator[_Element]:
        """Yield the elements of a name anywhere below."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.all(tag)

    def said(self, *path: str) -> str:
        """Return the text of the first element along a path; empty if there is none."""
        found: _Element | None = self
        for tag in path:
            found = next(found.each(tag), None) if found is not None else None
        return found.text if found is not None else ""


def read_ddi(path: str | Path) -> tuple[Schema, str]:
    """Read a DDI-Codebook (2.5 and its relatives): return the schema, and the title of the study.

    Variables, labels, categories, missing codes, valid ranges and weights are taken. DDI does not say what others may know of a
    person: no variable is marked as known, and all count as confidential until the custodian says otherwise.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError:
        raise SchemaError(f"there is no file at {path} that can be read.") from None
    root = _parsed(raw, str(path))
    found = [_attribute(var) for var in root.all("var") if var.attributes.get("name")]
    if not found:
        raise SchemaError(f"{path} describes no variables: it has no <var name=...> of a DDI-Codebook.")
    if len(weights := [a.name for a in found if a.role is Role.WEIGHT]) > 1:
        found = [a.with_(role=Role.OTHER) if a.name in weights[1:] else a for a in found]
    title = next((t for t in (study.said("citation", "titlStmt", "titl") for study in root.all("stdyDscr")) if t), "")
    return Schema(tuple(found)), title


def _parsed(raw: bytes, where: str) -> _Element:
    """Return the document; a document type, and with it every entity of its own, is refused."""
    root = _Element("", {})
    open_ = [root]

    def start(name: str, attributes: dict[str, str]) -> None:
        made = _Element(name.rpartition(" ")[2], attributes)
        open_[-1].children.append(made)
        open_.append(made)

    def refuse(*_: Any) -> None:
        raise SchemaError(
            f"{where} declares a document type, which could bring in other files. Remove the <!DOCTYPE ...>."
        )

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: open_.pop()
    parser.CharacterDataHandler = lambda text: open_[-1].parts.append(text)
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(raw, True)
    except (expat.ExpatError, LookupError, ValueError, RecursionError):
        raise SchemaError(f"{where} is not XML that can be read.") from None
    return root


def _attribute(var: _Element) -> Attribute:
    name = var.attributes["name"]
    text = next((f.attributes.get("type") == "character" for f in var.each("varFormat")), False)
    labels: dict[str, str] = {}
    missing: list[float | str] = []
    for category in var.each("catgry"):
        value = category.said("catValu")
        if not value:
            continue
        if label := category.said("labl"):
            labels[value] = label
        if category.attributes.get("missing") == "Y":
            missing += _codes(value, text)
    for bad in var.each("invalrng"):
        missing += [c for i in bad.each("item") if "VALUE" in i.attributes for c in _codes(i.attributes["VALUE"], text)]
    shown = [value for value in labels if value not in missing]
    numbers = var.attributes.get("intrvl") == "contin" or (not shown and not text)
    bounds: tuple[float | None, float | None] = (None, None)
    for good in (r for valid in var.each("valrng") for r in valid.each("range")):
        bounds = (_number(good.attributes.get("min")), _number(good.attributes.get("max")))
    weight = var.attributes.get("wgt") == "wgt"
    return Attribute(
        name, role=Role.WEIGHT if weight else Role.OTHER, scale=Scale.ORDERED if numbers or weight else Scale.UNORDERED,
        label=var.said("labl"), bounds=bounds if numbers else (None, None), missing=tuple(dict.fromkeys(missing)),
        integer=numbers and var.attributes.get("dcml") == "0", labels=labels, reason="from the DDI-Codebook",
    )  # fmt: skip


def _codes(value: str, text: bool) -> list[float | str]:
    """Return a code for "no answer" as text and, if it may be, as a number: the file may hold either."""
    number = None if text else _number(value)
    return [value] if number is None else [value, number]


def _number(text: str | None) -> float | None:
    try:
        found = float(text) if text is not None else None
    except ValueError:
        return None
    return int(found) if found is not None and found.is_integer() else found
