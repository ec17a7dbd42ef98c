"""What a DDI-Codebook says of the variables of a data set, as a schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from sfumato.errors import SchemaError
from sfumato.schema import Attribute, Role, Scale, Schema

_XML = "http://www.w3.org/XML/1998/namespace"
_MOST_CODES = 1_000
"""A range of invalid values has no more codes than these."""


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
        waiting = self.children[::-1]
        while waiting:  # not by recursion: a document may be nested deeper than Python's stack
            element = waiting.pop()
            if element.tag == tag:
                yield element
            waiting += element.children[::-1]

    @property
    def language(self) -> str:
        """The language that it says it is in."""
        return self.attributes.get(f"{_XML} lang", self.attributes.get("xml-lang", "")).lower()

    def text_at(self, *path: str, language: str = "") -> str:
        """Return the text of the first element along a path, of several the one in a language; empty if there is none."""
        found: _Element | None = self
        for tag in path:
            every = list(found.each(tag)) if found is not None else []
            found = next((e for e in every if e.language == language), every[0] if every else None)
        return found.text if found is not None else ""


def read_ddi(path: str | Path, columns: Callable[[], Collection[str]] | None = None) -> tuple[Schema, str]:
    """Read a DDI-Codebook (2.5 and its relatives): return the schema, and the title of the study.

    Variables, labels, categories, missing codes and weights are taken. DDI does not say what others may know of a person: no
    variable is marked as known, and all count as confidential until the custodian says otherwise. Nor are valid ranges taken as
    bounds that everybody knows: many archives write the smallest and the largest value of the data there.

    Of a codebook of several files (households, persons) that one is taken whose variables are the `columns` of the data.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError:
        raise SchemaError(f"there is no file at {path} that can be read.") from None
    root = _parsed(raw, str(path))
    language = next((book.language for book in root.all("codeBook")), "")
    listed = _of_one_file([var for var in root.all("var") if var.attributes.get("name")], str(path), columns)
    found = [_attribute(var, language) for var in listed]
    if not found:
        raise SchemaError(f"{path} describes no variables: it has no <var name=...> of a DDI-Codebook.")
    if len(weights := [a.name for a in found if a.role is Role.WEIGHT]) > 1:
        others = set(weights[1:])
        found = [a.with_(role=Role.OTHER) if a.name in others else a for a in found]
    titles = (study.text_at("citation", "titlStmt", "titl", language=language) for study in root.all("stdyDscr"))
    title = next(filter(None, titles), "")
    return Schema(tuple(found)), title


def _of_one_file(listed: list[_Element], where: str, columns: Callable[[], Collection[str]] | None) -> list[_Element]:
    """Return the variables of the file that has the columns of the data."""
    homes: dict[str, list[_Element]] = {}
    for var in listed:
        for home in var.attributes.get("files", "").split() or [""]:
            homes.setdefault(home, []).append(var)
    if len(homes) < 2:
        return listed
    if columns is None:
        raise SchemaError(f"{where} describes {len(homes)} files. Say which columns the data have (columns=...).")
    have = set(columns())
    return max(homes.values(), key=lambda some: -len(have ^ {var.attributes["name"] for var in some}))


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


def _attribute(var: _Element, language: str) -> Attribute:
    name = var.attributes["name"]
    text = next((f.attributes.get("type") == "character" for f in var.each("varFormat")), False)
    labels: dict[str, str] = {}
    missing: dict[float | str, None] = {}
    for category in var.each("catgry"):
        value = category.text_at("catValu")
        if not value:
            continue
        if label := category.text_at("labl", language=language):
            labels[value] = label
        if category.attributes.get("missing") == "Y":
            missing |= dict.fromkeys(_codes(value, text))
    for bad in var.each("invalrng"):
        items = [i.attributes["VALUE"] for i in bad.each("item") if "VALUE" in i.attributes]
        items += [str(value) for r in bad.each("range") for value in _whole_range(r, name)]
        missing |= dict.fromkeys(code for item in items for code in _codes(item, text))
    shown = [value for value in labels if value not in missing]
    numbers = var.attributes.get("intrvl") == "contin" or (not shown and not text)
    weight = var.attributes.get("wgt") == "wgt"
    return Attribute(
        name, role=Role.WEIGHT if weight else Role.OTHER, scale=Scale.ORDERED if numbers or weight else Scale.UNORDERED,
        label=var.text_at("labl", language=language), missing=tuple(missing),
        integer=numbers and var.attributes.get("dcml") == "0", labels=labels, reason="from the DDI-Codebook",
    )  # fmt: skip


def _whole_range(given: _Element, name: str) -> range:
    """Return the codes of a range of invalid values."""
    low, high = (_number(given.attributes.get(end)) for end in ("min", "max"))
    if low is None or high is None or low % 1 or high % 1 or not 0 <= high - low < _MOST_CODES:
        raise SchemaError(
            f"the invalid values of variable '{name}' are a range that is open, wide, or not from one whole number to another. "
            "List them in the codebook, as in <item VALUE='-9'/>."
        )
    return range(int(low), int(high) + 1)


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
