"""Random tabular adjustment of whole tables: noise in the leaves, so that everything published adds up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import sparse
from typing_extensions import override

from sfumato.contract import Draws, param
from sfumato.errors import DataError, NotApplicable, ParameterError, join_names
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rta import digits, priors
from sfumato.tables.rta.digits import (
    not_below_zero,
    on_whole_numbers,
    published_decimals,
    round_up,
    rounded,
    rounded_to,
)
from sfumato.tables.rta.drawing import correlated, in_order, leaf_draws, leaf_ids
from sfumato.tables.rta.leaf_noise import check_possible, leaf_name, leaf_noise
from sfumato.tables.rta.priors import AttackerKnowledge, Prior
from sfumato.tables.rta.publication import AdjustedLeaves, Record, publish
from sfumato.tables.rta.successive_tables import Division, divide
from sfumato.tables.table import Table
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from sfumato.tables.rta.posterior_audit import PairAudit


class RTA(Protection):
    """Random tabular adjustment: just enough normal noise to protect every contributor against every other.

    Noise is added to the leaves of the table, the atoms of all its cells and linked tables, so that every cell is the sum of
    its parts to the last digit. Each leaf gets the smallest variance under which nobody who knows his own contribution, and
    those of the others to within `prior_cv`, learns another's better than to within `base_cv` of its size (RTA paper, section
    3, for one cell). The result is audited: every pair of attacker and contributor, over all cells at once.

    Contributors who waived protection get none. Noise is a function of the secret seed, the leaf's records, the variable and
    the period: keep the seed, and use it for all tables of the same data. Later tables start from `PublishedTable.record`
    (`protect_later`).

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import Microdata
    >>> firms = pd.DataFrame({"region": ["N", "N", "S", "S"], "staff": [40, 30, 15, 10], "turnover": [35.0, 50.0, 12.0, 9.0]})
    >>> table = Table.of(Microdata(firms), "region", "turnover", size="staff")
    >>> published = RTA(prior_cv=0.5, base_cv=0.25).protect(table, Draws(1))
    >>> published.variance.tolist()
    [152.4, 133.5, 18.84]
    """

    title: ClassVar[str] = "RTA, prior cv {self.prior_cv:g}, base cv {self.base_cv:g}"

    prior_cv: float = priors.prior_cv()
    base_cv: float = priors.base_cv()
    threshold: float = param(default=1.0, doc="the largest relative certainty that is allowed (r)", low=0, above=True)
    sizes: str | None = param(
        default=None,
        doc="what sizes are: 'size', a public measure in the table, or contributors' own 'values'; the first where there is one",
        choices=("size", "values"),
    )
    attackers: str = param(
        default="contributors", doc="who attacks: 'contributors', who know their own, or an 'outsider' alone",
        choices=("contributors", "outsider"),
    )  # fmt: skip
    variances: str | None = param(
        default=None,
        doc="how variances are published: 'exact', as quality 'bands', as bands of 'bounds' from published values, or 'none'; "
        "exact where they come from public sizes, otherwise bounds",
        choices=("exact", "bands", "bounds", "none"),
    )
    cutpoints: tuple[float, ...] = param(
        default=digits.CUTPOINTS, doc="coefficients of variation that separate quality bands, rising"
    )
    decimals: int | None = param(
        default=None,
        doc="digits after the point that are published; as the table has them if not given",
        low=-12,
        high=12,
        integer=True,
    )
    period: str = param(default="", doc="the period of the data: another period has other noise")

    @override
    def validate(self) -> None:
        points = self.cutpoints
        if not all(isinstance(c, int | float) and 0 < c < math.inf for c in points) or list(points) != sorted(
            set(points)
        ):
            raise ParameterError(f"cutpoints of {self.name} must be rising numbers above 0, such as 0.05, 0.1, 0.25.")
        if len(points) > 25:
            raise ParameterError(f"cutpoints of {self.name}: at most 25, since bands have letters.")
        if not isinstance(self.period, str):
            raise ParameterError(f"period of {self.name} must be a text, such as '2024'.")

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the adjusted table with its variances, audited; refuse where no noise can protect a contributor."""
        return self.protect_with(table, self.prior(table), draws)

    def protect_with(
        self, table: Table, prior: Prior, draws: Draws, covariance: sparse.csr_array | None = None
    ) -> PublishedTable:
        """Protect a table under priors of your own (`Prior.from_variances`), or with correlated noise (`block_noise`).

        `covariance`, leaves × leaves, replaces the computed independent noise; it is audited in the same way.
        """
        from sfumato.tables.rta.posterior_audit import audit_pairs

        known = self._known(table, prior)
        if covariance is None:
            covariance = sparse.csr_array(sparse.diags_array(_needed(table, known)))
            audit = audit_pairs(table, known, covariance.diagonal())
        else:
            audit = audit_pairs(table, known, covariance)
        _check_held(audit, table, known)
        noise = correlated(covariance, leaf_ids(table), leaf_draws(draws, table.variable, self.period))
        values, decimals = table.totals + noise, published_decimals(table, self.decimals)
        if table.nonnegative:
            values = not_below_zero(values, covariance.diagonal())
        adjusted = AdjustedLeaves(rounded(values, decimals), decimals, covariance, audit)
        return publish(self._under(prior), table, known, adjusted)

    def protect_later(self, table: Table, record: Record, draws: Draws, prior: Prior | None = None) -> PublishedTable:
        """Protect a later table of data of which a table is already published; `record` is that of the published one.

        The table must contain the published cells too (ask for both in one formula). They keep their values; all others are
        drawn given these, and both publications are audited together. Refused where the first leaves no room.
        """
        from sfumato.tables.rta.posterior_audit import audit_pairs

        if (record.variable, record.period) != (table.variable, self.period):
            raise ParameterError(
                "the record is of another variable or period: its noise has nothing to do with this table."
            )
        decimals = published_decimals(table, record.decimals if self.decimals is None else self.decimals)
        if decimals != record.decimals:
            raise ParameterError(
                f"cells are published with {record.decimals} digits after the point already; a later table needs the same."
            )
        prior = self.prior(table) if prior is None else prior
        known = self._known(table, prior)
        division = divide(record, table, known, _needed(table, known))
        values = table.totals + division.draw(table, draws, self.period)
        units = _in_units(table, values, division, record)
        covariance = division.covariance()
        audit = audit_pairs(table, known, covariance)
        _check_held(audit, table, known)
        return publish(
            self._under(prior), table, known, AdjustedLeaves(units, decimals, covariance, audit, divided=True)
        )

    def prior(self, table: Table) -> Prior:
        """Return the knowledge that attackers are assumed to have."""
        given = table.contributions
        sizes = None
        if given is not None:
            if self.sizes == "size" and given.size is None:
                raise DataError(
                    "the table has no size measure. Name its column when the table is made (size=...), or take sizes='values'."
                )
            if self.sizes == "values" and given.size is not None:
                sizes = np.asarray(abs(given.own).sum(axis=0), np.float64).ravel()
        nobody = None if given is None or self.attackers == "contributors" else np.zeros(len(given), bool)
        return Prior.from_sizes(self.prior_cv, self.base_cv, sizes, threshold=self.threshold, attackers=nobody)

    def _under(self, prior: Prior) -> RTA:
        """Return the method with the parameters of the prior that was used, so that labels and guarantees report these."""
        if prior.prior_cv is None or prior.base_cv is None:
            return self
        return replace(self, prior_cv=prior.prior_cv, base_cv=prior.base_cv, threshold=prior.threshold)

    def _known(self, table: Table, prior: Prior) -> AttackerKnowledge:
        known = prior.of(table)
        public = known.public and self.sizes != "values" and not _are_values(known, table, prior)
        required = known.required
        if self.variances == "bands" and (not public or (known.leaves_of > 1).any()):
            required = required / digits.KEPT**2  # compensate in advance for what a band may disclose
        given = table.contributions
        if given is not None and given.waived is not None:
            required = np.where(given.waived[known.contributor], 0.0, required)
        return replace(known, required=required, public=public)


def _needed(table: Table, known: AttackerKnowledge) -> Numbers:
    """Return the variance of each leaf's noise, rounded up; larger where contributions are whole and attackers know it."""
    check_possible(table, known)
    ordered, place = in_order(table, known)
    variance = leaf_noise(table, ordered).variance
    if table.integer:
        variance = np.maximum(variance, leaf_noise(table, on_whole_numbers(ordered)).variance)
    return round_up(variance)[place]


def _are_values(known: AttackerKnowledge, table: Table, prior: Prior) -> bool:
    """Whether prior variances come from the contributors' own values, in whatever column.

    That is so if most sizes are proportional to the values, to a thousandth: no public measure is.
    """
    given = table.contributions
    if given is None:
        return False
    own = np.abs(given.own.data if prior.unknowns == "contribution" else given.totals)
    some = (own > 0) & (known.required > 0) & np.isfinite(known.given_variance)
    if not some.any():
        return False
    ratio = np.sqrt(known.given_variance[some]) / own[some]
    if prior.prior_cv and 2 * (np.abs(ratio / prior.prior_cv - 1) <= 1e-9).sum() > len(ratio):
        return True  # the very same numbers
    middle = float(np.median(ratio))
    alike = np.abs(ratio - middle) <= 1e-3 * middle
    distinct = len(np.unique(own[some][alike]))
    return bool(2 * alike.sum() > len(ratio) and (distinct > 2 or (distinct == 2 and np.ptp(ratio) <= 1e-6 * middle)))


def _in_units(table: Table, values: Numbers, division: Division, record: Record) -> Whole:
    """Return the leaves of a later table in whole units, at least 0 where values are; old leaves keep their sums."""
    free, inside = np.flatnonzero(~division.inside), np.flatnonzero(division.inside)
    if table.nonnegative:
        values[free] = not_below_zero(values[free], division.variance[free])
        for g in np.unique(division.group[inside][values[inside] < 0]):
            members = np.flatnonzero(division.group == g)
            values[members] = not_below_zero(values[members], division.variance[members])
    units = np.zeros(len(values), np.int64)
    units[free] = rounded(values[free], record.decimals)
    group = division.group[inside]
    units[inside] = rounded_to(values[inside], record.decimals, group, record.units, table.nonnegative)
    return units


def _check_held(audit: PairAudit, table: Table, known: AttackerKnowledge) -> None:
    """Refuse noise that does not keep the guarantee."""
    if audit.holds:
        return
    leaves = known.by_unknown[:, audit.failing[:20]].indices
    named = join_names([f"'{leaf_name(table, int(leaf))}'" for leaf in dict.fromkeys(leaves.tolist())], 3)
    found = "found that" if audit.exact else "could not rule out that"  # a bound, where many leaves are linked
    raise NotApplicable(
        f"the audit {found} somebody could know a contribution too well, in {named}: a relative certainty of {audit.risk:.4g} "
        f"where {audit.threshold:g} is allowed. Take a smaller base_cv, or make the table coarser there."
    )
