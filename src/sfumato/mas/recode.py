"""Recodes: the levels of a variable in groups, under a name of their own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import DataError, ParameterError, unknown_name
from sfumato.mas.variable import MISSING, Variable, level_text
from sfumato.toml import parse


@dataclass(frozen=True)
class Recode:
    """Groups of the levels of a variable.

    A universe that is formed with a recode is one of the variable itself: the same records, the same drops and the same noise.
    Levels that no group names stay as they are.

    Examples
    --------
    >>> race = Variable("race", 0, True, ("A", "B", "O", "W"))
    >>> Recode("race3", "race", {"other": ["A", "O"]}).made(race, 1).levels
    ('other', 'B', 'W')
    """

    name: str
    of: str
    """The variable whose levels are grouped."""
    groups: Mapping[str, Iterable[str]]
    """Levels by the name of their group; ranges such as "60-79" for a variable with cutpoints."""
    label: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) and text for text in (self.name, self.of)):
            raise ParameterError("a recode has a name, and the name of the variable whose levels it groups ('of').")
        if not isinstance(self.groups, Mapping) or not self.groups:
            raise ParameterError(
                f"the groups of the recode '{self.name}' are lists of levels by the name of their group."
            )
        if not all(
            isinstance(v, str) or (isinstance(v, Iterable) and not isinstance(v, bytes)) for v in self.groups.values()
        ):
            raise ParameterError(f"a group of the recode '{self.name}' is no list of levels.")
        listed = {str(k): (v,) if isinstance(v, str) else tuple(map(level_text, v)) for k, v in self.groups.items()}
        if not all(listed.values()):
            raise ParameterError(f"a group of the recode '{self.name}' has no level. Leave it out.")
        object.__setattr__(self, "groups", listed)

    def made(self, variable: Variable, place: int) -> Variable:
        """Return the recode of a variable, as a variable; a recode of a recode groups the levels that are below both."""
        if not variable.levels:
            raise DataError(
                f"the recode '{self.name}' groups levels of '{variable.name}', which has none: choose cutpoints for it first."
            )
        taken: dict[int, str] = {}
        for group, texts in self.groups.items():
            for level in variable.pick(texts):
                if level in taken:
                    raise DataError(f"the recode '{self.name}' has '{variable.levels[level]}' in two groups.")
                taken[level] = group
        names = [taken.get(i, level) for i, level in enumerate(variable.levels)]
        whole = {names[i] for i in set(range(len(names))) - set(taken)}
        if mixed := whole & set(taken.values()):
            raise DataError(
                f"the recode '{self.name}' has a group and a level that are both called '{min(mixed)}'. Rename the group."
            )
        levels = list(dict.fromkeys(names))
        if MISSING in levels:  # always the last one
            levels = [*(level for level in levels if level != MISSING), MISSING]
        groups = [levels.index(name) for name in names]
        base = variable
        if variable.base is not None:
            base, groups = variable.base, [groups[level] for level in variable.groups]
        return Variable(
            self.name, place, variable.known, tuple(levels), label=self.label, level=variable.level,
            base=base, groups=tuple(groups),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return what TOML needs."""
        out: dict[str, Any] = {"name": self.name, "of": self.of}
        out |= {"label": self.label} if self.label else {}
        return {**out, "groups": {group: list(texts) for group, texts in self.groups.items()}}

    @classmethod
    def from_dict(cls, table: Any) -> Recode:
        """Build from a TOML table; the inverse of `to_dict`."""
        known = ("name", "of", "groups", "label")
        if not isinstance(table, Mapping) or not {"name", "of", "groups"} <= set(table):
            raise ParameterError("every [[recode]] has a name, the variable that it is of, and groups.")
        for field in table:
            if field not in known:
                raise ParameterError(unknown_name("field", field, known, "a recode"))
        return cls(**table)

    @classmethod
    def read(cls, path: str | Path) -> tuple[Recode, ...]:
        """Read the [[recode]] tables of a TOML file."""
        try:
            table = parse(Path(path).read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            raise ParameterError(f"there is no file of recodes at {path} that can be read.") from None
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"{path} is not TOML: {error}.") from None
        found = table.get("recode")
        if not isinstance(found, list) or set(table) != {"recode"}:
            raise ParameterError(f"{path} holds [[recode]] tables, and nothing else.")
        return tuple(map(cls.from_dict, found))


def with_recodes(variables: Iterable[Variable], recodes: Sequence[Recode]) -> tuple[Variable, ...]:
    """Return the variables of a data set, with their recodes after them."""
    found = {v.name: v for v in variables}
    check_names(recodes, found)
    for recode in recodes:
        place = 1 + max(v.place for v in found.values())
        found[recode.name] = recode.made(found[recode.of], place)
    return tuple(found.values())


def check_names(recodes: Iterable[Recode], variables: Iterable[str]) -> None:
    """Refuse recodes that are of no variable, or have the name of one."""
    known = list(variables)
    for recode in recodes:
        if recode.of not in known:
            raise ParameterError(unknown_name("variable", recode.of, known, f"the data set (recode '{recode.name}')"))
        if recode.name in known:
            raise ParameterError(f"the recode '{recode.name}' has a name that is taken. Choose another one.")
        known.append(recode.name)
