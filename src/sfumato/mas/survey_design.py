"""The survey's design: strata and households, how alike their members are, and what that does to standard errors.

Who lives with whom, and in which stratum, is known; values are not. So the design effect of an estimate is made of known sums, and
of one or two nominal correlations of the variable that were read off noisy sums when the data set was frozen (generalised variance
functions: Wolter 2007, chapter 7). docs/mas/design.md derives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.data.warehouse import Warehouse
from sfumato.mas.cube import in_cells
from sfumato.mas.variable import Variable
from sfumato.typing import Numbers

_FAR = 2.0
"""Numbers are cut off at so many nominal standard deviations before correlations are read off: one record moves little."""
_KEPT = 1_000

# --- how alike members are


@dataclass(frozen=True)
class SurveyCorrelation:
    """How alike two members of a household are, and which share of the variance lies between strata."""

    households: float = 0.0
    strata: float = 0.0

    @staticmethod
    def of(variable: Variable) -> SurveyCorrelation:
        """Return the correlation of a variable; members are taken to be equal where a version was frozen without it."""
        rho = variable.household_correlation
        return SurveyCorrelation(1.0 if rho is None else rho, variable.stratum_share)

    @staticmethod
    def of_product(*variables: Variable) -> SurveyCorrelation:
        """Return that of a product of variables that are independent of each other, also between members of a household."""
        return SurveyCorrelation(float(np.prod([SurveyCorrelation.of(v).households for v in variables])))

    @staticmethod
    def of_all(*variables: Variable) -> SurveyCorrelation:
        """Return one that is not too small for a function of several variables."""
        return SurveyCorrelation(max(SurveyCorrelation.of(v).households for v in variables))


@dataclass(frozen=True)
class CorrelationSums:
    """Sums about a variable from which a correlation is read off, each with the most by which one record's value moves it."""

    sums: tuple[float, ...]
    reach: tuple[float, ...]
    pairs: tuple[float, ...]
    """What sums of pairs are divided by: known."""
    variance: float | None
    """The variance of a record where public shares say it; else the first two sums are those of values and of squares."""

    def read(self, noise: Numbers, errors: Numbers) -> tuple[float, ...]:
        """Return correlations in households and in strata, those that there are; with noise of some standard deviations.

        An error is added to the first, and taken off the second: a standard error is then rather too large.
        """
        told = np.array(self.sums) + noise
        square, variance = 0.0, self.variance
        if variance is None:
            n = self.pairs[0]
            square = float(told[0] / n) ** 2
            variance = float(told[1]) / n - square
            told, errors = told[2:], errors[2:]
        pairs = self.pairs[len(self.pairs) - len(told) :]
        found: list[float] = []
        for total, error, number in zip(told.tolist(), errors.tolist(), pairs, strict=True):
            sign = -1.0 if found else 1.0
            rho = (total / number - square + sign * error / number) / variance if variance > 0 and number else 1.0
            found.append(float(f"{min(max(rho, 0.0), 1.0):.4g}"))
        return tuple(found)


# --- the design


@dataclass(frozen=True, eq=False)
class DesignSums:
    """Known sums over the cells of a table, one axis per side, of weights w or of ones."""

    own: Numbers
    """Σ w²."""
    households: Numbers
    """Σ of the squares of households' sums of w in the cell."""
    strata: Numbers
    """The same about the mean of all households of the stratum, of which many have no member in the cell."""

    def effects(self, correlation: SurveyCorrelation) -> Numbers:
        """Return by how much a variance is larger than that of records drawn one by one; about 1 + ρ (m − 1) for households of m.

        With a correlation ρ in households and a share B of the variance between strata, the expected variance of the stratified
        formula is Σ w² + ρ (households − Σ w²) − B (households − strata) (Kish 1965, section 5.4, for cells of one stratum).
        """
        own = np.where(self.own > 0, self.own, 1.0)
        excess = correlation.households * (self.households - self.own) - correlation.strata * (
            self.households - self.strata
        )
        made = np.where(self.own > 0, 1 + excess / own, 1.0)
        return np.array([float(f"{max(one, 0.01):.6g}") for one in made.ravel().tolist()]).reshape(made.shape)


class SurveyDesign:
    """Strata and households, as far as the records have them: without strata there is one, without households each record is one.

    Sums over known variables are found once, by aggregates, and kept.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.columns = tuple(c for c in ("s", "h") if c in warehouse.columns)
        """The columns that say which stratum and household a record is of."""
        self._kept: dict[tuple[object, ...], DesignSums] = {}

    def sums(self, where: str, sides: Sequence[Variable], weighted: bool = False) -> DesignSums:
        """Return the sums of the cells of known sides, of the records that a condition on known variables selects."""
        key = (where, tuple(v.codes for v in sides), weighted)
        if key not in self._kept:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = self._summed(where, sides, weighted)
        return self._kept[key]

    def _summed(self, where: str, sides: Sequence[Variable], weighted: bool) -> DesignSums:
        cells = [f"c{i}" for i in range(len(sides))]
        coded = [f"{v.codes} AS {c}" for v, c in zip(sides, cells, strict=True)]
        one = "w" if weighted else "1.0E0"
        chosen = ", ".join([*coded, *self.columns, f"{one} AS u"])
        source = f"SELECT {chosen} FROM records WHERE {where}"  # noqa: S608 - our own names
        if "h" in self.columns:
            by = ", ".join([*cells, *self.columns])
            source = f"SELECT {by}, sum(u) AS u, sum(u * u) AS q FROM ({source}) AS one GROUP BY {by}"  # noqa: S608
        else:
            source = f"SELECT *, u * u AS q FROM ({source}) AS one"  # noqa: S608
        by = ", ".join([*cells, *(["s"] if "s" in self.columns else [])])
        group = f" GROUP BY {by}" if by else ""
        listed = ", ".join([*([by] if by else []), "sum(q) AS q", "sum(u * u) AS a", "sum(u) AS t"])
        source = f"SELECT {listed} FROM ({source}) AS households{group}"  # noqa: S608
        about = "sum(a)"
        if "s" in self.columns:
            number = "count(DISTINCT h)" if "h" in self.columns else "count(*)"
            sizes = f"SELECT s AS z, CAST({number} AS DOUBLE) AS m FROM records GROUP BY s"  # noqa: S608
            source = f"SELECT * FROM ({source}) AS c JOIN ({sizes}) AS sizes ON s = z"  # noqa: S608
            about = "sum(CASE WHEN m > 1 THEN m / (m - 1) * (a - t * t / m) ELSE a END)"
        group = f" GROUP BY {', '.join(cells)}" if cells else ""
        listed = ", ".join([*cells, "sum(q) AS q", "sum(a) AS a", f"{about} AS e"])
        found = self._warehouse.ask(f"SELECT {listed} FROM ({source}) AS strata{group}")  # noqa: S608
        shape = [len(v.levels) for v in sides]
        own, households, strata = (np.asarray(in_cells(found, cells, shape, c), np.float64) for c in ("q", "a", "e"))
        return DesignSums(own, households, strata)

    # -- sums of pairs, for freezing

    def pair_sums(self, variable: Variable) -> CorrelationSums | None:
        """Return what the correlations of a variable are read off; None where there is nothing to read.

        A household of m members adds Σ z z′ over pairs, divided by m − 1: one member moves that by at most 2 |change of z| times
        the mean of the others, whatever m is. In a stratum of n records the pairs are those of different households, divided by n
        less the smallest household.
        """
        if not self.columns:
            return None
        if variable.numeric:
            return self._pairs_of_numbers(variable) if variable.bounds is not None else None
        return self._pairs_of_levels(variable) if "h" in self.columns else None

    def _pairs_of_numbers(self, variable: Variable) -> CorrelationSums:
        assert variable.bounds is not None  # noqa: S101 - checked by the caller
        x, c = variable.numbers, variable.middle
        unit = _FAR * variable.spread * (variable.bounds[1] - variable.bounds[0])
        low, high = (min(max((end - c) / unit, -1.0), 1.0) for end in variable.bounds)
        z = (
            f"CASE WHEN {x} IS NULL THEN 0.0E0 WHEN {x} < {c + low * unit!r} THEN {low!r} WHEN {x} > {c + high * unit!r} "
            f"THEN {high!r} ELSE ({x} - {c!r}) / {unit!r} END"
        )
        listed = ", ".join([*self.columns, f"{z} AS z"])
        source = f"SELECT {listed} FROM records"  # noqa: S608 - our own names
        strata = ["s"] if "s" in self.columns else []
        if "h" in self.columns:
            listed = ", ".join([*strata, "CAST(count(*) AS DOUBLE) AS m", "sum(z) AS t", "sum(z * z) AS q"])
            source = f"SELECT {listed} FROM ({source}) AS one GROUP BY {', '.join(self.columns)}"  # noqa: S608
        else:
            source = f"SELECT s, 1.0E0 AS m, z AS t, z * z AS q FROM ({source}) AS one"  # noqa: S608
        found = self._warehouse.ask(
            "SELECT sum(m) AS n, sum(t) AS t, sum(q) AS q, sum(CASE WHEN m > 1 THEN (t * t - q) / (m - 1) ELSE 0.0E0 END) AS d, "  # noqa: S608
            f"sum(CASE WHEN m > 1 THEN m ELSE 0.0E0 END) AS w FROM ({source}) AS households"
        )
        most = max(abs(low), abs(high))
        sums, pairs = [found["t"][0], found["q"][0]], [found["n"][0]]
        reach = [high - low, most**2]
        if "h" in self.columns:
            sums.append(found["d"][0])
            pairs.append(found["w"][0])
        if strata:
            inner = (
                "SELECT sum(m) AS n, min(m) AS l, sum(m * m) AS mm, sum(t) AS t, sum(t * t) AS b "  # noqa: S608
                f"FROM ({source}) AS households GROUP BY s"
            )
            found = self._warehouse.ask(
                "SELECT sum(CASE WHEN n > l THEN (t * t - b) / (n - l) ELSE 0.0E0 END) AS d, "  # noqa: S608
                f"sum(CASE WHEN n > l THEN (n * n - mm) / (n - l) ELSE 0.0E0 END) AS w FROM ({inner}) AS strata"
            )
            sums.append(found["d"][0])
            pairs.append(found["w"][0])
        reach += [2 * (high - low) * most] * (len(sums) - 2)
        return CorrelationSums(tuple(map(float, sums)), tuple(reach), tuple(map(float, pairs)), None)

    def _pairs_of_levels(self, variable: Variable) -> CorrelationSums:
        """Return the sum of pairs: Σ (1(k = l) − p)(1(k′ = l) − p) over levels l is 1(k = k′) − p(k) − p(k′) + Σ p²."""
        p = np.array(variable.shares or [1 / len(variable.levels)] * len(variable.levels))
        share = "CASE k " + " ".join(f"WHEN {i} THEN {one!r}" for i, one in enumerate(p.tolist())) + " END"
        square = float(p @ p)
        cells = (
            f"SELECT h, {variable.codes} AS k, CAST(count(*) AS DOUBLE) AS n FROM records GROUP BY h, {variable.codes}"  # noqa: S608
        )
        households = f"SELECT sum(n) AS m, sum(n * n) AS a, sum(n * {share}) AS b FROM ({cells}) AS cells GROUP BY h"  # noqa: S608
        found = self._warehouse.ask(
            f"SELECT sum(CASE WHEN m > 1 THEN (a - m) / (m - 1) - 2 * b + m * {square!r} ELSE 0.0E0 END) AS d, "  # noqa: S608
            f"sum(CASE WHEN m > 1 THEN m ELSE 0.0E0 END) AS w FROM ({households}) AS households"
        )
        reach = 2 * (1 + float(p.max() - p.min()))
        return CorrelationSums((float(found["d"][0]),), (reach,), (float(found["w"][0]),), 1 - square)


def design_notes(columns: Sequence[str], strata: bool = True) -> Iterator[str]:
    """Yield which design standard errors follow; nothing where records were drawn one by one."""
    if "h" in columns:
        also = " and for strata" if strata and "s" in columns else ""
        yield (
            f"Standard errors follow the survey's design: they allow for households{also}, by correlations that were read off "
            "when the data set was frozen, and are rather too large."
        )
    elif strata and "s" in columns:
        yield (
            "Standard errors follow the survey's design: they allow for strata, by shares of variance that were read off when the "
            "data set was frozen."
        )
