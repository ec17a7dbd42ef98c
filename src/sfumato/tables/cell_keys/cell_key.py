"""Cell-key perturbation of counts and magnitudes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import ParameterError
from sfumato.tables.cell_keys.generated import count_table, magnitude_table
from sfumato.tables.cell_keys.keys import as_fractions, cell_keys
from sfumato.tables.cell_keys.magnitude import Scale, magnitude_noise
from sfumato.tables.cell_keys.perturbation_table import PerturbationTable
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rta.digits import published_decimals, unit
from sfumato.tables.rule import SensitivityRule
from sfumato.tables.rules import rules_of
from sfumato.tables.rules.standing import contributors_of, standing
from sfumato.tables.table import Table

Numbers = NDArray[np.float64]


class CellKey(Protection):
    """Add noise that hangs on the records of a cell: the same records have the same noise in every table.

    Counts change by at most `maximum`, with mean 0 and the given `variance`; zeros stay, and nothing goes below zero. The
    noise of magnitudes is `share` of the largest contributions, times a change of that kind. Cells are changed one by one, so
    a published table does **not** add up.

    Thompson, Broadfoot and Elazar (2013), Methodology for the automatic confidentialisation of statistical outputs; Giessing
    and Tent (2019) for magnitudes.
    """

    maximum: int = param(default=5, doc="largest change of a count, either way", low=1, high=100, integer=True)
    variance: float = param(default=2.0, doc="variance of the change", low=0, above=True, usual=(0.5, 4))
    smallest: int = param(default=0, doc="no count from 1 to this one is published", low=0, high=20, integer=True)
    stay: float = param(default=0.0, doc="least probability that a count stays as it is", low=0, high=1)
    monotone: bool = param(default=False, doc="whether larger changes of a count are never likelier than smaller ones")
    table: PerturbationTable | str | None = param(
        default=None, doc="a perturbation table, or the file of one, in place of a generated one"
    )
    small: PerturbationTable | str | None = param(
        default=None, doc="for magnitudes: a table, or its file, for small cells"
    )
    top: int = param(
        default=1, doc="for magnitudes: how many of the largest contributions get noise", low=1, high=6, integer=True
    )
    share: float = param(
        default=0.05,
        doc="for magnitudes: noise as a share of a contribution",
        low=0,
        above=True,
        high=1,
        usual=(0.02, 0.2),
    )
    large_share: float | None = param(
        default=None, doc="the share for very large contributions; as `share` if not given", low=0, high=1
    )
    flex_point: float | None = param(
        default=None, doc="the contribution from which the share goes down", low=0, above=True
    )
    flex_power: float = param(default=3.0, doc="how fast it goes down", low=1)
    parts: tuple[float, ...] | None = param(default=None, doc="factors for the largest, second largest … contribution")
    extra: float = param(default=0.0, doc="what is added to the change where `rules` call a cell unsafe", low=0)
    rules: SensitivityRule | None = param(default=None, doc="a rule, or several, for cells that need `extra`")

    def validate(self) -> None:
        """Read the tables, and check what the parameters mean together."""
        for name in ("table", "small"):
            given = getattr(self, name)
            object.__setattr__(self, name, str(given) if isinstance(given, Path) else given)
        table, _ = self._table, self._small
        if table is None:
            count_table(self.maximum, self.variance, self.smallest, self.stay, self.monotone)
        if (self.flex_point is None) != (self.large_share is None):
            raise ParameterError(
                "cell_key needs flex_point and large_share together: from where the share goes down, and to what."
            )
        if self.large_share is not None and self.large_share > self.share:
            raise ParameterError("large_share of cell_key must be at most share.")
        parts = self._parts
        if len(parts) != self.top or parts[0] != 1 or any(b > a or b < 0 for a, b in itertools.pairwise(parts)):
            raise ParameterError(f"parts of cell_key must be {self.top} factors that start with 1 and never rise.")
        if table is not None and "even" in table.rows and self.top > 1:
            raise ParameterError("tables for even and odd numbers of contributors go with top = 1.")
        if (self.extra > 0) != (self.rules is not None):
            raise ParameterError("cell_key needs extra and rules together: how much more, and for which cells.")
        if self.rules is not None:
            object.__setattr__(self, "rules", rules_of(self.rules))

    @property
    def _parts(self) -> tuple[float, ...]:
        return (1.0,) * self.top if self.parts is None else tuple(float(p) for p in self.parts)

    @property
    def _table(self) -> PerturbationTable | None:
        given = _given("table", self.table)
        return None if given is None else given.without_small()

    @property
    def _small(self) -> PerturbationTable | None:
        given = _given("table", self.table)
        return given.for_small() if self.small is None and given is not None else _given("small", self.small, "all")

    def label(self) -> str:
        """Return a few words for a legend."""
        return "cell keys" if self.table is not None else f"cell keys, D = {self.maximum}, V = {self.variance:g}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table with noise in every cell."""
        return self._counts(table, draws) if table.is_count else self._magnitudes(table, draws)

    def _counts(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self._table or count_table(self.maximum, self.variance, self.smallest, self.stay, self.monotone)
        if not noise.whole:
            raise ParameterError("this perturbation table is for magnitudes: it has no row for each count.")
        counts = np.round(table.frequency)
        changed = counts + noise.at(counts, as_fractions(cell_keys(table, draws)))
        low, high = noise.could_be(changed)
        values = changed
        if not np.array_equal(
            table.value, table.frequency
        ):  # survey weights: the mean weight of the cell stays as it is
            weight = np.divide(table.value, counts, out=np.ones_like(counts), where=counts > 0)
            # with all its digits the product would tell the count: a mean weight is a fraction with it below the line
            digits = table.decimals or 0
            values, half = np.round(changed * weight, digits), 0.5 * unit(digits)
            low, high = np.zeros(len(table)), np.where(changed == 0, np.inf, (1 + noise.maximum) * (values + half))
        says = f"no count changes by more than {noise.maximum:g}, zeros stay, none is below 0"
        return self._published(table, values, low, high, says)

    def _magnitudes(self, table: Table, draws: Draws) -> PublishedTable:
        noise = self._table or magnitude_table(self.maximum, self.variance, monotone=self.monotone)
        scale = Scale(
            self.share, self.share if self.large_share is None else self.large_share,
            np.inf if self.flex_point is None else self.flex_point, self.flex_power, self._parts,
        )  # fmt: skip
        largest = standing(table, self.top, "known", "absolute").values
        kinds = None
        if "even" in noise.rows:
            kinds = np.where(contributors_of(table) % 2 == 0, "even", "odd")
        unsafe = np.zeros(len(table), bool) if self.rules is None else self.rules.assess(table).unsafe
        extra = np.where(unsafe, self.extra, 0.0)
        added = magnitude_noise(
            table.value, largest, cell_keys(table, draws), scale, noise, self._small, kinds, extra
        )  # fmt: skip
        # digits that the true values do not have would tell of the noise, and so of the contribution it is a share of
        digits = 0 if table.integer else published_decimals(table)
        values = np.round(table.value + added, digits)
        low, high = self._sure(values, 0.5 * unit(digits), scale, noise, table.nonnegative)
        says = "zeros stay, and no cell changes its sign"
        if table.nonnegative and self._small is None:
            says += f" or by more than {(noise.maximum + self.extra) * scale.highest:.1%} of itself"
        return self._published(table, values, low, high, says)

    def _sure(
        self, values: Numbers, half: float, scale: Scale, noise: PerturbationTable, nonnegative: bool
    ) -> tuple[Numbers, Numbers]:
        """Return between which values everybody is sure of the true ones: the j-th largest is a part of the total."""
        if not nonnegative:
            return np.full(len(values), -np.inf), np.full(len(values), np.inf)
        reach = (noise.maximum + self.extra) * scale.highest
        low = (values - half) / (1 + reach)
        high = (values + half) / (1 - reach) if reach < 1 else np.full(len(values), np.inf)
        if (small := self._small) is not None:
            step = small.maximum + self.extra  # at most this once, and the others' shares
            low, high = low - step, (values + half + step) / (1 - reach) if reach < 1 else high
        return np.maximum(low, 0.0), high

    def _published(self, table: Table, values: Numbers, low: Numbers, high: Numbers, says: str) -> PublishedTable:
        # every cell counts as changed: who stayed the same is a secret of the keys
        said = Guarantee("cell_key", says, "follows from the perturbation table, whose rows were checked")
        return PublishedTable.shown(table, self).with_(
            values=values, status=np.full(len(table), Status.CHANGED, np.int8), low=low, high=high, guarantees=(said,)
        )


def _given(name: str, given: object, kind: str | None = None) -> PerturbationTable | None:
    """Return a perturbation table that was given as such, or as a file."""
    if given is None or isinstance(given, PerturbationTable):
        return given
    if not isinstance(given, str):
        raise ParameterError(f"{name} of cell_key must be a perturbation table or the file of one.")
    return PerturbationTable.read(given, kind)
