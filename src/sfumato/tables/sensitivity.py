"""The base class of every sensitivity rule, and prior knowledge and requirements of single cells."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.parameters import Parametric
from sfumato.errors import DataError, ParameterError, did_you_mean, join_names
from sfumato.tables.cells import Cells
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Objects, Whole


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Which cells a rule calls unsafe, and how far from the value an attacker's interval must reach.

    The attacker's interval of an unsafe cell must reach at least `upper` above its value, at least `lower` below it, and be at
    least `width` long.
    """

    unsafe: Flags
    """Shape (cells,)."""
    upper: Numbers
    """Shape (cells,); 0 for a safe cell. So are the other two."""
    lower: Numbers
    width: Numbers
    reasons: Objects
    """For each cell the rule that it breaks, in words; empty for a safe one."""

    def reached(
        self, low: Numbers, high: Numbers, value: Numbers, slack: Numbers, at: Whole | slice = slice(None)
    ) -> Flags:
        """Return which intervals, of all cells or of those `at` some positions, reach their protection levels but for `slack`."""
        above, below, width = (level[at] - slack for level in (self.upper, self.lower, self.width))
        return np.asarray((high >= value + above) & (low <= value - below) & (high - low >= width))

    @classmethod
    def of(cls, unsafe: Flags, upper: Numbers, lower: Numbers, reason: str) -> Sensitivity:
        """Return the assessment of one rule; protection levels of safe cells are set to 0."""
        zero = np.zeros(len(unsafe))
        return cls(
            unsafe,
            np.where(unsafe, upper, 0.0),
            np.where(unsafe, lower, 0.0),
            zero,
            np.where(unsafe, reason, "").astype(object),
        )

    def because(self, reason: str) -> Sensitivity:
        """Return the same with another reason."""
        return replace(self, reasons=np.where(self.unsafe, reason, "").astype(object))

    def __or__(self, other: Sensitivity) -> Sensitivity:
        """Combine two rules: a cell is unsafe if either says so, and the wider levels count."""
        reasons = np.where(self.reasons == "", other.reasons, self.reasons)
        return Sensitivity(
            self.unsafe | other.unsafe, np.maximum(self.upper, other.upper), np.maximum(self.lower, other.lower),
            np.maximum(self.width, other.width), reasons.astype(object),
        )  # fmt: skip


class SensitivityRule(Parametric, family="rule", abstract=True):
    """A rule that finds the cells of a table which disclose a contributor."""

    title: ClassVar[str] = ""
    """Its label, in which `{self.p}` is a parameter."""

    @abstractmethod
    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""

    def label(self) -> str:
        """Return a short label of the rule, with its parameters: "p% rule, p = 10"."""
        return self.title.format(self=self)


Labels = tuple[str, ...]
"""The labels of a cell, one for each dimension in their order; "Total" for a margin."""
STATUSES = ("safe", "unsafe", "protected")
_WORDS = {
    "statuses": ("status", "statuses"), "costs": ("cost", "costs"), "lower": ("lower bound", "lower bounds"),
    "upper": ("upper bound", "upper bounds"), "lower_level": ("lower level", "lower levels"),
    "upper_level": ("upper level", "upper levels"),
}  # fmt: skip
"""Singular and plural of each field."""


@dataclass(frozen=True, eq=False, repr=False)
class APriori:
    """Requirements for single cells, by their labels, and what an attacker knows of them: confidential.

    Examples
    --------
    >>> wanted = APriori(statuses={("North", "coal"): "unsafe", ("North", "Total"): "protected"}, costs={("South", "coal"): 5.0})
    >>> wanted
    APriori(2 statuses, 1 cost)
    """

    statuses: Mapping[Labels, Literal["safe", "unsafe", "protected"]] = field(default_factory=dict)
    """"unsafe": not published, whatever the rules say; "safe": no rule makes it unsafe, but it may be suppressed to protect
    others; "protected": published in any case."""
    costs: Mapping[Labels, float] = field(default_factory=dict)
    """Cost of suppressing a cell, above 0; its value, for cells that are not here."""
    lower: Mapping[Labels, float] = field(default_factory=dict)
    """The smallest value that an attacker thinks possible before publication."""
    upper: Mapping[Labels, float] = field(default_factory=dict)
    """The largest value."""
    lower_level: Mapping[Labels, float] = field(default_factory=dict)
    """How far below the value of an unsafe cell an attacker's interval must reach."""
    upper_level: Mapping[Labels, float] = field(default_factory=dict)
    """How far above."""

    def __post_init__(self) -> None:
        for cell, status in self.statuses.items():
            if status not in STATUSES:
                raise ParameterError(
                    f"a cell's status is one of {join_names(STATUSES)}; that of {', '.join(cell)} is not."
                    + did_you_mean(str(status), STATUSES)
                )
        for name, above in (("costs", True), ("lower_level", False), ("upper_level", False)):
            for cell, number in getattr(self, name).items():
                if not (number > 0 if above else number >= 0):
                    raise ParameterError(
                        f"{name} must be {'above' if above else 'at least'} 0; that of {', '.join(cell)} is not."
                    )
        for cell in self.lower.keys() & self.upper.keys():
            if self.lower[cell] > self.upper[cell]:
                raise ParameterError(f"the bounds of {', '.join(cell)} are the wrong way round: lower is above upper.")

    @classmethod
    def of(
        cls,
        frame: Any,
        dimensions: Sequence[str],
        *,
        status: str | None = None,
        cost: str | None = None,
        lower: str | None = None,
        upper: str | None = None,
        lower_level: str | None = None,
        upper_level: str | None = None,
        total: str | Mapping[str, str | None] | None = None,
    ) -> APriori:
        """Read columns of a frame of cells; an empty field means no entry for the cell.

        A status is safe, unsafe or protected, or its first letter; totals are found as in `Table.from_cells`.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"region": ["N", "S", "All"], "mark": ["u", None, "p"], "price": [None, 2.0, None]})
        >>> APriori.of(frame, ["region"], status="mark", cost="price").statuses
        {('N',): 'unsafe', ('Total',): 'protected'}
        """
        from sfumato.data.microdata import Microdata
        from sfumato.tables.from_cells import labels_in

        data = frame if isinstance(frame, Microdata) else Microdata(frame)
        cells = labels_in(data, list(dimensions), total)
        words = {form: w for w in STATUSES for form in (w, w[0])}
        found: dict[str, dict[Labels, Any]] = {}
        if status is not None:
            batch = data.batch([status])
            codes, values = batch.column(status).codes
            gone = batch.missing(status)
            texts = [None if out else str(values[c]).strip() for c, out in zip(codes, gone, strict=True)]
            # any other word is kept, and refused below
            found["statuses"] = {c: words.get(t.casefold(), t) for c, t in zip(cells, texts, strict=True) if t}
        for name, column in (
            ("costs", cost), ("lower", lower), ("upper", upper), ("lower_level", lower_level), ("upper_level", upper_level),
        ):  # fmt: skip
            if column is not None:
                numbers = data.numbers(column).tolist()
                found[name] = {c: x for c, x in zip(cells, numbers, strict=True) if x == x}  # NaN differs from itself
        return cls(**found)

    def __repr__(self) -> str:
        counts = {f.name: len(getattr(self, f.name)) for f in fields(self)}
        return f"APriori({', '.join(f'{n:,} {_WORDS[name][n != 1]}' for name, n in counts.items() if n) or 'nothing'})"

    def __or__(self, other: APriori) -> APriori:
        """Combine two; where they differ, the second counts."""
        return APriori(**{f.name: {**getattr(self, f.name), **getattr(other, f.name)} for f in fields(self)})

    def on(self, cells: Cells, name: str, default: float = np.nan) -> NDArray[Any]:
        """Return one of the fields for every cell of a table, shape (cells,): texts for statuses ("" where there is none).

        Refuse a cell that is not in the table: its requirement would be lost.
        """
        given: Mapping[Labels, Any] = getattr(self, name)
        found: NDArray[Any] = np.full(
            len(cells), "" if name == "statuses" else default, object if name == "statuses" else float
        )
        place = {tuple(row): i for i, row in enumerate(cells.labels.tolist())} if given else {}
        for labels, value in given.items():
            key = tuple(str(x) for x in labels)
            if key not in place:
                raise DataError(
                    f"{_WORDS[name][1]} are given for the cell ({', '.join(key)}), which is not in the table. Give a label for "
                    f"each of {join_names(cells.dimensions)}, in this order, with 'Total' for a margin."
                )
            found[place[key]] = value
        return found
