"""The schema: the only source of what columns mean."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, overload

from sfumato.errors import SchemaError, listing, repeated, unknown_name
from sfumato.files import write_text
from sfumato.schema.attribute import Attribute, Role
from sfumato.toml import dump, parse

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Schema:
    """A validated tuple of attributes.

    Examples
    --------
    >>> schema = Schema((Attribute("age", role="key"), Attribute("salary", role="confidential")))
    >>> schema.names(role="confidential")
    ('salary',)
    >>> schema.change("age", integer=True)["age"].integer
    True
    """

    attributes: tuple[Attribute, ...]
    _by_name: ClassVar[Mapping[str, Attribute]]

    def __post_init__(self) -> None:
        attributes = tuple(self.attributes)
        object.__setattr__(self, "attributes", attributes)
        if wrong := [a for a in attributes if not isinstance(a, Attribute)]:
            raise SchemaError(f"a schema is made of attributes, not of {type(wrong[0]).__name__}.")
        names = [a.name for a in attributes]
        if twice := repeated(names):
            raise SchemaError(f"the schema names these columns more than once: {listing(sorted(twice))}.")
        object.__setattr__(self, "_by_name", {a.name: a for a in attributes})  # no field: not compared, not shown
        for role in (Role.WEIGHT, Role.HOUSEHOLD):
            if len(many := [a.name for a in attributes if a.role is role]) > 1:
                raise SchemaError(f"only one column can have the role '{role}', but the schema has {listing(many)}.")
        for a in attributes:
            if a.follows is not None and a.follows not in self:
                raise SchemaError(
                    f"'{a.name}' follows another, but " + unknown_name("column", a.follows, names, "the schema")
                )

    # -- looking things up

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __getitem__(self, name: str) -> Attribute:
        if name in self:
            return self._by_name[name]
        raise SchemaError(unknown_name("column", name, self.names(), "the schema"))

    @overload
    def names(self) -> tuple[str, ...]: ...
    @overload
    def names(self, *, role: str) -> tuple[str, ...]: ...
    def names(self, *, role: str | None = None) -> tuple[str, ...]:
        """Return the column names, or those of one role."""
        if role is not None and role not in (allowed := [r.value for r in Role]):
            raise SchemaError(unknown_name("role", role, allowed, "the list of roles"))
        return tuple(a.name for a in self.attributes if role is None or a.role == role)

    def one(self, role: str) -> str | None:
        """Return the column that has this role, or ``None`` (for weight, household and the like)."""
        names = self.names(role=role)
        return names[0] if names else None

    # -- changing (a schema is immutable: these return another one)

    def change(self, name: str, **changes: Any) -> Schema:
        """Return a schema with one attribute corrected; its guessed reason becomes "set by hand"."""
        new = self[name].with_(**{"reason": "set by hand", **changes})
        return Schema(tuple(new if a.name == name else a for a in self.attributes))

    def roles(self, **roles: Iterable[str] | str) -> Schema:
        """Return a schema with roles set: ``schema.roles(key=["age", "zip"], confidential="income")``."""
        new: dict[str, Attribute] = {}
        for role, names in roles.items():
            for name in [names] if isinstance(names, str) else names:
                new[name] = (new.get(name) or self[name]).with_(reason="set by hand", role=role)
        return Schema(tuple(new.get(a.name, a) for a in self.attributes))

    def keep(self, predicate: Callable[[Attribute], bool]) -> Schema:
        """Return a schema of the attributes for which `predicate` holds; links to dropped ones are cut."""
        kept = [a for a in self.attributes if predicate(a)]
        names = {a.name for a in kept}
        return Schema(tuple(a if a.follows is None or a.follows in names else a.with_(follows=None) for a in kept))

    # -- TOML

    def to_toml(self) -> str:
        """Return the schema as TOML, for a person to read and correct."""
        return dump({"version": SCHEMA_VERSION}, "attribute", [a.to_dict() for a in self.attributes])

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        try:
            table = parse(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"the schema is not valid TOML: {error}.") from None
        return cls.from_dict(table)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Schema:
        """Build from a parsed TOML table."""
        check_version("schema", table.get("version", SCHEMA_VERSION), SCHEMA_VERSION)
        attributes = table.get("attribute")
        if not isinstance(attributes, list):
            raise SchemaError("a schema file holds one [[attribute]] table per column; this one has none.")
        return cls(tuple(Attribute.from_dict(a) for a in attributes))

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        write_text(path, self.to_toml())

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        try:
            return cls.from_toml(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise SchemaError(f"there is no schema file at {path}. `sfumato schema DATA` writes one.") from None
        except UnicodeDecodeError:
            raise SchemaError(f"{path} is not a schema: it is not UTF-8 text.") from None

    # -- guessing

    @classmethod
    def guess(cls, frame: object) -> Schema:
        """Guess what the columns of a frame mean; each attribute carries the reason, for a person to correct.

        Nothing here is a verdict: read the reasons, then use `change` or edit the TOML.
        """
        from sfumato.schema.guess import guess_schema

        return guess_schema(frame)


def check_version(what: str, version: object, newest: int) -> None:
    """Refuse a file written by a newer sfumato, in words."""
    if not isinstance(version, int) or version < 1:
        raise SchemaError(f"the {what} has version {version!r}; versions are whole numbers from 1 to {newest}.")
    if version > newest:
        raise SchemaError(
            f"the {what} has version {version}, but this sfumato reads versions up to {newest}. "
            f"It was written by a newer sfumato: upgrade this one, or write the {what} again."
        )
