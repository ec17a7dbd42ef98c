"""The .rda file: what the columns of τ-ARGUS's microdata and tables mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.errors import DataError, repeated, unknown_name
from sfumato.schema.hierarchy import TreeHierarchy
from sfumato.tables.argus.hierarchy_files import beside, levels_hierarchy, read_argus_hierarchy, read_text, split
from sfumato.tables.cells import TOTAL

_WIDEST = 100_000
"""Positions, widths and digits beyond this are mistakes."""


@dataclass
class ArgusVariable:
    """One column, as an .rda file describes it."""

    name: str
    position: int | None = None
    """Where it starts in a line of a fixed-format file, from 1."""
    width: int | None = None
    missing: tuple[str, ...] = ()
    recodeable: bool = False
    """Whether tables are broken down by it (RECODEABLE)."""
    role: str = ""
    """numeric, weight, holding, request, record key, frequency, top, status, shadow, cost, lower level, upper level; or none."""
    total: str = TOTAL
    codelist: str = ""
    hierarchical: bool = False
    levels: tuple[int, ...] = ()
    hierarchy_file: str = ""
    leader: str = "@"
    decimals: int | None = None
    requests: tuple[str, ...] = ()
    """The codes of those who asked for protection (REQUEST)."""
    distance: tuple[int, ...] = ()
    """Costs by distance, for the modular method; read and not used."""


@dataclass
class ArgusMetadata:
    """What an .rda file says; see `read_argus_metadata`."""

    path: Path
    separator: str | None = None
    """None for a fixed-format file."""
    variables: list[ArgusVariable] = field(default_factory=list)
    safe: str = "S"
    unsafe: str = "U"
    protect: str = "P"

    def __getitem__(self, name: str) -> ArgusVariable:
        for variable in self.variables:
            if variable.name.casefold() == name.casefold():
                return variable
        raise DataError(unknown_name("variable", name, [v.name for v in self.variables], f"the metadata {self.path}"))

    def of_role(self, role: str) -> list[ArgusVariable]:
        """Return the variables that have a role."""
        return [v for v in self.variables if v.role == role]

    def labels(self, variable: ArgusVariable) -> dict[str, str]:
        """Return the words for a variable's codes: its code list; empty where there is no such file."""
        found = beside(self.path, variable.codelist) if variable.codelist else None
        if found is None:
            return {}
        text = read_text(found, "code list")
        pairs = [fields for _, fields in split(text, "," if "," in text else ";", f"the code list {found}")]
        return {p[0]: ", ".join(p[1:]) for p in pairs if len(p) > 1}

    def hierarchy(self, variable: ArgusVariable, codes: Iterable[str]) -> TreeHierarchy | None:
        """Return a variable's hierarchy over the codes that occur, with their spaces; None where it has none."""
        if not variable.hierarchical:
            return None
        if variable.levels:
            shown = [c for c in codes if c.strip() not in (variable.total, "", *variable.missing)]
            return levels_hierarchy(shown, variable.levels, variable.total, variable.missing)
        if not variable.hierarchy_file:
            raise DataError(
                f"'{variable.name}' is hierarchical, but the metadata {self.path} say neither how many digits its levels have "
                '(<HIERLEVELS> 2 1 1) nor in which file they are (<HIERCODELIST> "file.hrc").'
            )
        found = beside(self.path, variable.hierarchy_file)
        if found is None:
            raise DataError(
                f"the hierarchy file {variable.hierarchy_file} of '{variable.name}' is not there. Put it beside {self.path}."
            )
        return read_argus_hierarchy(found, leader=variable.leader, total=variable.total, more=variable.missing)


def read_argus_metadata(path: str | Path, *, table: bool = False) -> ArgusMetadata:
    """Read an .rda file, of microdata or (`table`) of a table.

    A variable of fixed-format microdata has a position and a width, one of free-format microdata (<SEPARATOR>) a width, one
    of a table neither; then come its codes for missing.
    """
    text = read_text(path, "metadata file")
    if text.lstrip().upper().startswith("<SPSS>"):
        raise DataError(
            f"the metadata {path} belong to an SPSS file, which carries its own: read it with Microdata.read."
        )
    found = ArgusMetadata(Path(path), ";" if table else None)
    for number, line in enumerate(text.split("\n"), 1):
        tokens = _tokens(line)
        if tokens:
            try:
                _read_line(found, tokens, table)
            except (ValueError, IndexError):
                raise DataError(
                    f"line {number} of the metadata {path} cannot be understood: {_expected(tokens[0], table, found)}."
                ) from None
            except KeyError as unknown:
                keyword = str(unknown.args[0])
                raise DataError(
                    f"line {number} of the metadata {path}: "
                    + unknown_name("keyword", keyword, _KEYWORDS, "the list of keywords")
                ) from None
    if not found.variables:
        raise DataError(f"the metadata {path} describe no variables.")
    if twice := repeated(v.name.casefold() for v in found.variables):
        raise DataError(f"the metadata {path} describe '{twice[0]}' twice.")
    return found


def _tokens(line: str) -> list[str]:
    """Return the words of a line: quoted ones whole, comments left out."""
    line = line.replace("\t", " ").strip()
    if line.startswith("//"):
        return []
    return [q if q or not w else w for q, w in re.findall(r'"([^"]*)"|([^\s"]+)', line)]


def _read_line(found: ArgusMetadata, tokens: list[str], table: bool) -> None:
    first, rest = tokens[0], tokens[1:]
    if not first.startswith("<"):
        found.variables.append(_variable(first, rest, found, table))
        return
    keyword = first.upper()
    if keyword in _FILE:
        _FILE[keyword](found, rest[0])
        return
    if keyword not in _VARIABLE:
        raise KeyError(keyword)
    if not found.variables:
        raise ValueError
    several = next((i for i, word in enumerate(rest) if word.startswith("<")), len(rest))  # <NUMERIC> <SHADOW>
    _VARIABLE[keyword](found.variables[-1], rest[:several])
    if several < len(rest):
        _read_line(found, rest[several:], table)


def _variable(name: str, rest: list[str], found: ArgusMetadata, table: bool) -> ArgusVariable:
    rest = list(rest)
    position = int(rest.pop(0)) if not table and found.separator is None else None
    width = None if table else int(rest.pop(0))
    if not all(number is None or 1 <= number <= _WIDEST for number in (position, width)):
        raise ValueError
    return ArgusVariable(name, position, width, tuple(m.strip() for m in rest if m.strip()))


def _set_role(role: str) -> Callable[[ArgusVariable, list[str]], None]:
    def change(variable: ArgusVariable, rest: list[str]) -> None:
        # <NUMERIC> <SHADOW>, or the other way round: the more special one counts
        variable.role = variable.role or role if role == "numeric" else role

    return change


def _requests(variable: ArgusVariable, rest: list[str]) -> None:
    variable.role, variable.requests = "request", tuple(rest[:2])


def _levels(variable: ArgusVariable, rest: list[str]) -> None:
    variable.hierarchical, variable.levels = True, tuple(int(w) for w in rest)
    if not variable.levels or not all(0 <= digits <= _WIDEST for digits in variable.levels):
        raise ValueError
    if variable.width is not None and sum(variable.levels) != variable.width:
        raise ValueError


def _missing(variable: ArgusVariable, rest: list[str]) -> None:
    variable.missing = tuple(dict.fromkeys([*variable.missing, *(m.strip() for m in rest if m.strip())]))


def _hierarchy_file(variable: ArgusVariable, rest: list[str]) -> None:
    variable.hierarchical, variable.hierarchy_file = True, rest[0]


def _decimals(variable: ArgusVariable, rest: list[str]) -> None:
    variable.decimals = int(rest[0])
    if not 0 <= variable.decimals <= 15:
        raise ValueError


def _word(name: str) -> Callable[[ArgusVariable, list[str]], None]:
    return lambda variable, rest: setattr(variable, name, rest[0])


def _ignored(variable: ArgusVariable, rest: list[str]) -> None:
    """Accept what has no meaning here: parameters of cell keys, which a protection takes itself."""


_FILE: dict[str, Callable[[ArgusMetadata, str], None]] = {
    "<SEPARATOR>": lambda found, word: setattr(found, "separator", word if word.strip() else "\t"),
    "<SAFE>": lambda found, word: setattr(found, "safe", word),
    "<UNSAFE>": lambda found, word: setattr(found, "unsafe", word),
    "<PROTECT>": lambda found, word: setattr(found, "protect", word),
}
_VARIABLE: dict[str, Callable[[ArgusVariable, list[str]], None]] = {
    "<RECODEABLE>": lambda variable, rest: setattr(variable, "recodeable", True),
    "<RECODABLE>": lambda variable, rest: setattr(variable, "recodeable", True),
    "<TOTCODE>": lambda variable, rest: setattr(variable, "total", rest[0].strip()),
    "<CODELIST>": _word("codelist"),
    "<MISSING>": _missing,
    "<HIERARCHICAL>": lambda variable, rest: setattr(variable, "hierarchical", True),
    "<HIERCODELIST>": _hierarchy_file,
    "<HIERLEADSTRING>": _word("leader"),
    "<HIERLEVELS>": _levels,
    "<DISTANCE>": lambda variable, rest: setattr(variable, "distance", tuple(int(d) for d in rest)),
    "<DECIMALS>": _decimals,
    "<REQUEST>": _requests,
    "<NUMERIC>": _set_role("numeric"),
    "<WEIGHT>": _set_role("weight"),
    "<HOLDING>": _set_role("holding"),
    "<RECORDKEY>": _set_role("record key"),
    "<FREQUENCY>": _set_role("frequency"),
    "<MAXSCORE>": _set_role("top"),
    "<STATUS>": _set_role("status"),
    "<SHADOW>": _set_role("shadow"),
    "<COST>": _set_role("cost"),
    "<COSTVAR>": _set_role("cost"),
    "<LOWERPL>": _set_role("lower level"),
    "<UPPERPL>": _set_role("upper level"),
    **dict.fromkeys(
        ("<TRUNCABLE>", "<PFILE>", "<PFILE_FREQ>", "<PFILE_CONT>", "<PFILE_SEP>", "<CKM>", "<INCLUDEZEROS>", "<PARITY>",
         "<SCALING>", "<SEPARATION>"), _ignored),
}  # fmt: skip
_KEYWORDS = [*_FILE, *_VARIABLE]


def _expected(word: str, table: bool, found: ArgusMetadata) -> str:
    """Say what a line should look like."""
    if word.startswith("<"):
        if word.upper() == "<HIERLEVELS>":
            return "the digits of the levels, such as <HIERLEVELS> 3 1 1, must add up to the width of the code"
        return f"{word} does not have what must follow it, or stands before any variable"
    if table:
        return "the name of a variable is followed by its codes for missing, if any"
    if found.separator is not None:
        return f"'{word}' must be followed by its width, such as: {word} 4"
    return f"'{word}' must be followed by where it starts and how wide it is, such as: {word} 12 4"
