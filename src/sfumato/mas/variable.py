"""The metadata of one variable of a data set in the analysis system."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sfumato.data.aggregates import bins_sql
from sfumato.errors import DataError, did_you_mean, join_names, shorten, unknown_name
from sfumato.mas.cutpoints import Cutpoints

_NUMBER = r"(-?\d+(?:\.\d+)?)"
MISSING = "missing"
"""The level of records without a value."""
_NO_VARIABLES = (
    "Survey weights, strata, households and identifiers are no variables: nothing is told of them. Where there are weights, an "
    "analysis uses them with weighted=true."
)


@dataclass(frozen=True)
class Variable:
    """A variable as users see it: levels for universes and tables, numbers for analyses.

    The prepared records hold its level numbers in a column `codes` and its numbers in a column `numbers`; one of the two may be
    absent. A numerical variable has levels once the custodian has frozen cutpoints for it.
    """

    name: str
    place: int
    """Its number in the data set, from which its column names are formed."""
    known: bool
    """Whether others may know it about a person (age, region); all others are confidential."""
    levels: tuple[str, ...] = ()
    """In order; the last is "missing", if records without a value exist."""
    cutpoints: Cutpoints | None = None
    """The edges of the levels of a numerical variable, once the custodian has frozen them."""
    numeric: bool = False
    integer: bool = False
    label: str = ""
    unit: str = ""
    level: str = "person"
    """The unit it describes: person or household."""
    centre: float = 0.0
    """A number in the middle of its values, if these are far from 0 relative to their spread; else 0. Confidential."""
    scale: float = 1.0
    """A power of two that no number, less the centre, exceeds in size; sums are exact in this unit. Confidential."""
    bounds: tuple[float, float] | None = None
    """Public bounds that its numbers are clipped to: from the schema, the custodian, or noisy counts at freezing. None without
    values."""
    middle: float = 0.0
    """Nominal mean, between the bounds; public, as read off noisy counts."""
    spread: float = 0.5
    """Nominal standard deviation as a share of the range; public, and only sets the size of noise."""
    shares: tuple[float, ...] = ()
    """Nominal share of each level; public, and only sets the size of noise."""
    household_correlation: float | None = None
    """Correlation of two members of a household, nominal and rather too large; public. None without households."""
    stratum_share: float = 0.0
    """Share of the variance of its numbers that lies between strata, nominal and rather too small; public."""
    gaps: bool = False
    """Whether records without a number exist."""
    grid: tuple[float, ...] = ()
    """Round edges of many bins, for quantiles and histograms; finer than cutpoints, and not for universes."""
    words: tuple[str, ...] = ()
    """The meaning of each level, where the levels are codes."""
    base: Variable | None = None
    """The variable whose levels this one groups, if it is a recode."""
    groups: tuple[int, ...] = ()
    """For each level of that variable, the number of the level here."""

    @property
    def codes(self) -> str:
        """SQL for the level numbers of the prepared records."""
        return self.codes_column

    @property
    def codes_column(self) -> str:
        """Column of the prepared records that holds level numbers."""
        return f"k{self.place}"

    @property
    def plain_name(self) -> str:
        """Its name in the data set."""
        return self.name

    @property
    def numbers(self) -> str:
        """Column of the prepared records that holds numbers."""
        return f"x{self.place}"

    @property
    def title(self) -> str:
        """Label for people."""
        return self.label or self.name

    def need_levels(self) -> None:
        """Refuse a numerical variable whose cutpoints are not frozen."""
        if not self.levels:
            raise DataError(
                f"variable '{self.name}' has no levels to choose from: the custodian has not set cutpoints for it. Use it in an "
                "analysis, or another variable in the universe."
            )

    def pick(self, texts: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the levels named by some texts, in order; a text may be a range of numbers, "60-89"."""
        self.need_levels()
        picked: set[int] = set()
        for text in texts:
            if text in self.levels:
                picked.add(self.levels.index(text))
            elif text in self.words:
                picked.add(self.words.index(text))
            else:
                picked.update(self._range(text))
        return tuple(sorted(picked))

    def _range(self, text: str) -> range:
        ends = parse_range(text) if self.cutpoints is not None else None
        if ends is None or self.cutpoints is None:
            named = dict.fromkeys((*self.levels, *self.words))
            if text[:1] in ("<", ">"):
                why = "which is compared with numbers" if self.cutpoints is not None else "whose levels are no numbers"
                raise DataError(
                    f"'{shorten(text)}' cannot be asked of variable '{self.name}', {why}. Name levels with == or in; "
                    f"it has: {join_names(named, 20)}."
                )
            raise DataError(unknown_name("level", text, named, f"variable '{self.name}'"))
        low, above, high, through = ends
        step = 1 if self.cutpoints.whole else 0  # a level ends at its edge, and the next begins a step later
        edges = (-math.inf, *self.cutpoints.edges, math.inf)
        before, last = low if above else low - step, high if through else high - step
        if self.cutpoints.low is not None and low == self.cutpoints.low and not above:
            before = -math.inf
        if self.cutpoints.high is not None and last == self.cutpoints.high:
            last = math.inf
        if before not in edges[:-1] or last not in edges[1:] or edges.index(last) <= edges.index(before):
            raise DataError(
                f"'{shorten(text)}' does not begin and end at cutpoints of '{self.name}'. "
                f"Its levels are: {join_names(self.levels, 20)}."
            )
        return range(edges.index(before), edges.index(last))

    def to_dict(self) -> dict[str, Any]:
        """Return the table for the data set's confidential file: values that differ from the defaults."""
        out: dict[str, Any] = {"name": self.name, "place": self.place, "known": self.known}
        for field in ("levels", "bounds", "shares", "grid", "words", "groups"):
            if value := getattr(self, field):
                out[field] = list(value)
        for field in ("numeric", "integer", "label", "unit", "gaps", "middle"):
            if value := getattr(self, field):
                out[field] = value
        if self.cutpoints is not None:
            out["cutpoints"] = self.cutpoints.to_dict()
        if self.scale != 1.0:
            out["scale"] = self.scale
        if self.spread != 0.5:
            out["spread"] = self.spread
        if self.centre:
            out["centre"] = self.centre
        if self.household_correlation is not None:
            out["household_correlation"] = self.household_correlation
        if self.stratum_share:
            out["stratum_share"] = self.stratum_share
        if self.level != "person":
            out["level"] = self.level
        if self.base is not None:
            out["base"] = self.base.name
        return out

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], others: Mapping[str, Variable] | None = None) -> Variable:
        """Read the table of `to_dict`; a recode needs its base variable among the others."""
        lists = {k: tuple(v) for k, v in table.items() if isinstance(v, list)}
        fields = {**table, **lists}
        if "cutpoints" in fields:
            fields["cutpoints"] = Cutpoints.from_dict(fields["cutpoints"])
        if "base" in fields:
            fields["base"] = (others or {})[fields["base"]]
        return cls(**fields)


@dataclass(frozen=True)
class VariableBins(Variable):
    """Bins of a variable that is not coded so in the prepared records; the last level holds records without a value.

    Bin i holds what is above edge i − 1 and at most edge i, as with cutpoints.
    """

    source: str = ""
    """The name of the variable."""

    @classmethod
    def of(cls, variable: Variable, edges: Sequence[float], shares: Sequence[float] = ()) -> VariableBins:
        """Return a variable cut at some edges. Its name says where, so that other edges are another variable."""
        cut = Cutpoints(tuple(edges), whole=variable.integer, unit=variable.unit)
        taken = {f.name: getattr(variable, f.name) for f in fields(variable)}
        name = f"{variable.name}\x1f{','.join(f'{e!r}' for e in cut.edges)}"
        changed = {
            "name": name,
            "levels": (*cut.labels, MISSING),
            "cutpoints": cut,
            "shares": tuple(shares),
            "source": variable.name,
        }
        return cls(**{**taken, **changed})

    @property
    def edges(self) -> tuple[float, ...]:
        """Where the bins end; the last one is open."""
        return self.cutpoints.edges if self.cutpoints is not None else ()

    @property
    def codes(self) -> str:
        """SQL for the number of a record's bin."""
        return bins_sql(self.numbers, self.edges)

    @property
    def plain_name(self) -> str:
        """Its name in the data set."""
        return self.source


def level_text(value: object) -> str:
    """Return a value as the name of a level: whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def need_variable(name: str, known: Mapping[str, Variable], more: str = "") -> Variable:
    """Return a variable of a data set; if there is none, refuse and offer the nearest name.

    `more` is added to the message.
    """
    if name not in known:
        other = "" if did_you_mean(name, known) else f" {_NO_VARIABLES}"
        raise DataError(unknown_name("variable", name, known, "this data set") + other + more)
    return known[name]


def finest(variables: Mapping[str, Variable], cells: int) -> tuple[Variable, ...]:
    """Return as many known variables as fit into a table of at most `cells` cells, in order of their names; no recodes."""
    chosen, room = list[Variable](), cells
    listed = [v for v in variables.values() if v.known and v.levels and v.base is None]
    for variable in sorted(listed, key=lambda v: (len(v.levels), v.name)):  # those with few levels first
        room //= len(variable.levels)
        if not room:
            break
        chosen.append(variable)
    return tuple(sorted(chosen, key=lambda v: v.name))


def parse_range(text: str) -> tuple[float, bool, float, bool] | None:
    """Return the lower end of a range and whether it is excluded, the upper end and whether it is included.

    None if the text is no range.

    >>> parse_range("60-89"), parse_range("-5 to 10"), parse_range(">= 60"), parse_range("under 20"), parse_range("F")
    ((60.0, False, 89.0, True), (-5.0, False, 10.0, True), (60.0, False, inf, False), (-inf, False, 20.0, False), None)
    """
    plain = text.replace(",", "").strip().lower()
    if found := re.fullmatch(rf"{_NUMBER}\s*(?:-|–|to|\.\.)\s*{_NUMBER}", plain):
        return float(found[1]), False, float(found[2]), True
    if found := re.fullmatch(rf"(>|over|above)\s*{_NUMBER}", plain):
        return float(found[2]), True, math.inf, False
    if found := re.fullmatch(rf"(?:>=\s*{_NUMBER}|{_NUMBER}\s*(?:or more|or over|\+))", plain):
        return float(found[1] or found[2]), False, math.inf, False
    if found := re.fullmatch(rf"(<=|<|under|below|up to)\s*{_NUMBER}", plain):
        return -math.inf, False, float(found[2]), found[1] in ("<=", "up to")
    return None
