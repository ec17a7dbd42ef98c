"""The register of a data set: what known variables alone say of its records, as anybody may know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sfumato.data.warehouse import Warehouse
from sfumato.mas.cube import Cubes, UnitCounts, in_cells
from sfumato.mas.perturbation import Counts, Secret
from sfumato.mas.sums import Piece, RecordFunction
from sfumato.mas.survey_design import SurveyCorrelation, SurveyDesign
from sfumato.mas.universe import Selection, split
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers, Whole

_DESIGN = ("w", "s", "h", "r")
"""Columns of the survey's design, and the random number of a record: they say nothing confidential."""


class Register:
    """Counts and sums by known variables alone. Confidential variables are refused, so that nothing here can depend on them.

    Rules look at this before anything is computed, and models take the cross-products of known predictors from it. Counts have
    the policy's noise, so that nobody reads known variables of a person off them; they are not charged.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        cubes: Cubes,
        linked: UnitCounts,
        secret: Secret,
        noise: Counts,
        columns: Sequence[str],
        design: SurveyDesign,
    ) -> None:
        self._warehouse = warehouse
        self._cubes = cubes
        self._linked = linked
        self._secret = secret
        self._noise = noise
        self._columns = frozenset((*columns, *_DESIGN))
        self._design = design

    @property
    def noise(self) -> Counts:
        """The noise of its counts."""
        return self._noise

    def count(self, selection: Selection, unit: str = "") -> float:
        """Return the noisy number of records, households or establishments of a set chosen by known variables."""
        plain = selection.plain
        _refuse_confidential(plain.variables)
        n, digest = (int(v.sum()) for v in self.cells((), plain))
        if unit:
            n = int(self._linked.counts({_text(n, digest): plain}, unit)[0])
        true = np.array([float(n)])
        return float(self._noise.noisy(true, [_text(n if not unit else -1, digest)], self._secret, f"count {unit}")[0])

    def noisy(self, counts: Whole, digests: Whole) -> Numbers:
        """Return counts of sets with the noise that belongs to each set; empty cells of a table have each their own."""
        cells = enumerate(zip(counts.ravel().tolist(), digests.ravel().tolist(), strict=True))
        keys = [_text(n, d) if n else f"none/{place}".encode() for place, (n, d) in cells]
        return self._noise.noisy(counts.ravel().astype(np.float64), keys, self._secret, "count ").reshape(counts.shape)

    def units(self, sides: Sequence[Variable], unit: str) -> Numbers:
        """Return noisy numbers of households or establishments in each cell of known sides."""
        _refuse_confidential(sides)
        counts = self._linked.cells(sides, unit)
        _, digests = self.cells(sides, Selection((), (np.ones((), bool),)))
        keys = [_text(-1, d) for d in digests.ravel().tolist()]
        return self._noise.noisy(counts.ravel().astype(np.float64), keys, self._secret, f"count {unit}").reshape(
            counts.shape
        )

    def cells(self, sides: Sequence[Variable], selection: Selection) -> tuple[Whole, Whole]:
        """Return the number of records and the digest of each cell of known sides; the part of the universe they choose.

        Exact: for the mechanism, and for what is a function of known variables.
        """
        _refuse_confidential((*sides, *selection.variables))
        names = {v.name: v for v in (*selection.variables, *sides)}
        inside = [names[name] for name in sorted(names)]
        if self._cubes.ready(inside):
            return self._cubes.within(selection, sides)
        columns = [f"c{i}" for i in range(len(sides))]
        listed = [
            *(f"{v.codes} AS {c}" for v, c in zip(sides, columns, strict=True)),
            "count(*) AS n",
            "sum(CAST(r AS BIGINT)) AS d",
        ]
        by = f" GROUP BY {', '.join(v.codes for v in sides)}" if sides else ""
        found = self._warehouse.ask(f"SELECT {', '.join(listed)} FROM records WHERE {selection.where()}{by}")  # noqa: S608
        shape = [len(v.levels) for v in sides]
        n, digest = (np.asarray(in_cells(found, columns, shape, name), np.int64) for name in ("n", "d"))
        return n, digest

    def design_effects(
        self,
        selection: Selection,
        sides: Sequence[Variable],
        correlation: SurveyCorrelation,
        weighted: bool = False,
    ) -> Numbers:
        """Return by how much the variance of an estimate in each cell is larger than that of records drawn one by one.

        One axis per side, of length 1 for confidential ones. Where sides or the universe are confidential the effect is that of
        the known part: fewer pairs of a household are in it, so that it is rather too large, and nothing is gained by strata.
        """
        shape = [len(v.levels) if v.known else 1 for v in sides]
        if not self._design.columns:
            return np.ones(shape)
        known = tuple(v for v in sides if v.known)
        if len(known) < len(sides) or not all(v.known for v in selection.plain.variables):
            correlation = SurveyCorrelation(correlation.households)
        sums = self._design.sums(known_part(selection).where(), known, weighted)
        return sums.effects(correlation).reshape(shape)

    def reduce(
        self,
        function: RecordFunction | Callable[[Piece], Numbers],
        columns: Sequence[str],
        selection: Selection,
        together: str = "",
    ) -> Numbers:
        """Add up what a function makes of each piece of the records, of columns of known variables alone.

        Records with the same value of a column `together` are in one piece.
        """
        _refuse_confidential(selection.variables)
        if not set(columns) <= self._columns:
            raise TypeError("the register holds known variables alone")
        return self._warehouse.reduce(function, list(columns) or ["r"], selection.where(), together)


def known_part(selection: Selection) -> Selection:
    """Return the records of a universe by its known variables: those of which it asks for any."""
    plain = selection.plain
    known, hidden = split(plain.variables)
    gone = tuple(plain.variables.index(v) for v in hidden)
    return Selection(known, (np.asarray(plain.chosen.any(axis=gone), bool),)).plain


def _refuse_confidential(variables: Sequence[Variable]) -> None:
    if not all(v.known for v in variables):
        raise TypeError("the register holds known variables alone")


def _text(n: int, digest: int) -> bytes:
    return f"{n}/{digest}".encode()
