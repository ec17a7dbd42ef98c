"""Publication of adjusted leaves: cells, variances, guarantees, and the confidential record for later tables."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sfumato.contract.release import Guarantee
from sfumato.contract.score import digits as words_of
from sfumato.errors import NotApplicable, ParameterError, join_names
from sfumato.files import parse_json, write_text
from sfumato.tables.cells import Cells, Status
from sfumato.tables.published import PublishedTable
from sfumato.tables.rta import digits
from sfumato.tables.rta.digits import round_up, unit, values_of
from sfumato.tables.rta.leaf_noise import leaf_name
from sfumato.tables.rta.priors import AttackerKnowledge
from sfumato.tables.table import Table
from sfumato.typing import Numbers, Whole

if TYPE_CHECKING:
    from sfumato.tables.rta.posterior_audit import PairAudit
    from sfumato.tables.rta.rta import RTA

_WARNING = "CONFIDENTIAL: holds true values and their noise. Keep it with the seed, apart from what is published."


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The leaves of a published table: true totals, published values in whole units, and the covariance of the noise.

    Another table of the same variable and period starts from it (`RTA.protect_later`), so that noise under published cells is
    not drawn again. It holds what the table hides: only its owner can read the file.
    """

    cells: Cells
    totals: Numbers
    """The true value of each leaf, shape (leaves,)."""
    units: Whole
    """The published value of each leaf, in units of the last published digit; shape (leaves,)."""
    decimals: int
    covariance: sparse.csr_array
    """Covariance of the leaves' noise, leaves × leaves; diagonal for a first publication."""
    variable: str = ""
    period: str = ""

    def __repr__(self) -> str:
        return f"Record({len(self.cells):,} cells of {self.cells.leaves:,} leaves; confidential)"

    def write(self, path: str | Path) -> None:
        """Write it to a file that only its owner can read."""
        write_text(path, self.text(), confidential=True)

    def text(self) -> str:
        """Return the content of its file: a secret."""
        covariance = self.covariance.tocoo()
        incidence = self.cells.incidence.tocoo()
        table = {
            "warning": _WARNING, "version": 1, "variable": self.variable, "period": self.period, "decimals": self.decimals,
            "dimensions": list(self.cells.dimensions), "labels": self.cells.labels.tolist(),
            "incidence": [incidence.row.tolist(), incidence.col.tolist()], "totals": self.totals.tolist(),
            "units": self.units.tolist(),
            "covariance": [covariance.row.tolist(), covariance.col.tolist(), covariance.data.tolist()],
        }  # fmt: skip
        return json.dumps({**table, "digest": _digest(table)}, ensure_ascii=False)

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read what `write` wrote."""
        try:
            table = parse_json(Path(path).read_text("utf-8"))
            return cls._from_dict(table)
        except FileNotFoundError:
            raise ParameterError(f"there is no record of a published table at {path}.") from None
        except Exception:  # whatever is wrong: messages of inner errors quote true values
            raise ParameterError(f"{path} is not the record of a published table, or is damaged.") from None

    @classmethod
    def _from_dict(cls, table: dict[str, Any]) -> Record:
        if table["version"] != 1:
            raise ValueError("another version")
        if table.get("digest", digest := _digest(table)) != digest:  # older records have none
            raise ValueError("a number or a label was changed")
        if not isinstance(table["dimensions"], list) or not all(isinstance(d, str) for d in table["dimensions"]):
            raise TypeError("dimensions that are no names")
        wide = len(table["dimensions"])
        if not all(isinstance(row, list) and [type(x) for x in row] == [str] * wide for row in table["labels"]):
            raise ValueError("labels that are no texts, or not one for each dimension")
        labels = np.array(table["labels"], object).reshape(-1, wide)
        totals = np.array(table["totals"], np.float64)
        row, column = (np.array(part, np.int64) for part in table["incidence"])
        incidence = sparse.csr_array((np.ones(len(row)), (row, column)), shape=(len(labels), len(totals)))
        a, b, data = table["covariance"]
        covariance = sparse.csr_array(
            (np.array(data, np.float64), (np.array(a, np.int64), np.array(b, np.int64))),
            shape=(len(totals), len(totals)),
        )
        units = np.array(table["units"], np.int64)
        if units.shape != totals.shape or totals.ndim != 1:
            raise ValueError("not one unit for each leaf")
        if not (np.isfinite(totals).all() and np.isfinite(covariance.data).all() and abs(table["decimals"]) <= 30):
            raise ValueError("numbers that are none")
        return cls(
            Cells(tuple(map(str, table["dimensions"])), labels, incidence), totals, units, int(table["decimals"]), covariance,
            str(table["variable"]), str(table["period"]),
        )  # fmt: skip


def _digest(table: dict[str, Any]) -> str:
    """Return a digest of the whole record, so that a damaged one is not used for later tables."""
    said = {key: value for key, value in table.items() if key != "digest"}
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


_LOOSEST = 64.0


@dataclass(frozen=True, eq=False, repr=False)
class AdjustedLeaves:
    """Adjusted leaves, ready to be summed: confidential until the audit has been checked."""

    units: Whole
    """Each leaf in units of the last digit published, shape (leaves,)."""
    decimals: int
    covariance: sparse.csr_array
    """Covariance of the noise in the leaves, leaves × leaves."""
    audit: PairAudit
    divided: bool = False
    """Whether leaves were drawn given published sums: noise that cancels in a sum then leaves it exact."""


def publish(rta: RTA, table: Table, known: AttackerKnowledge, adjusted: AdjustedLeaves) -> PublishedTable:
    """Return the table of adjusted leaves; refuse where its variances would disclose a contribution."""
    cells, step = table.cells, unit(adjusted.decimals)
    exact_sums = np.asarray(cells.incidence.astype(np.int64) @ adjusted.units, np.int64)
    values = values_of(exact_sums, adjusted.decimals)
    leaf_variance = np.maximum(adjusted.covariance.diagonal(), 0.0)
    noise = np.asarray((cells.incidence @ adjusted.covariance).multiply(cells.incidence).sum(axis=1)).ravel()
    noise[noise <= 1e-12 * cells.sums(leaf_variance)] = 0.0  # floating-point error of a cancellation
    off = (np.abs(table.totals / step - np.rint(table.totals / step)) > 1e-6).astype(np.float64)
    blurred = np.maximum(off, leaf_variance > 0)
    exact = (noise == 0) & adjusted.divided
    loose = np.where(exact, cells.sums(off), cells.sums(blurred))  # number of rounded leaves
    slack = loose * (1.0 if adjusted.divided else 0.5) * step
    apart = np.abs(values - table.value)
    raised = (noise == 0) & (apart > slack + 1e-9 * np.maximum(np.abs(table.value), step))
    noise[raised] = cells.sums(leaf_variance)[raised]  # noise that cancelled, until leaves were raised to zero
    rounding = loose * step**2 / 12
    told = noise + rounding
    variance, quality = None, None
    telling = leaves_that_tell(known, leaf_variance)
    how = rta.variances or ("bounds" if len(telling) else "exact")
    if how == "exact":
        check_exact(table, known, telling)
        variance = round_up(told)
    elif how == "bands":
        if len(telling):
            check_bands(rta, table, known, values, told, leaf_variance)
        quality = digits.letters(values, told, rta.cutpoints)
    elif how == "bounds":
        factor = bound_factor(known, table, leaf_variance)
        if factor is None and rta.variances is None:
            how = "none"
        elif factor is None:
            raise NotApplicable(
                "no bound on the variances can be read off the published values: in some cells the noise is large against the "
                "total, where contributions cancel, or large contributors give next to nothing. Publish variances='none', or "
                "give the table a public size measure (size=...)."
            )
        else:
            most = digits.bounds(values_of(adjusted.units, adjusted.decimals), leaf_variance, table, factor)
            quality = digits.letters(values, cells.sums(most) + rounding, rta.cutpoints)
    changed = noise > 0
    moved = apart > 1e-9 * np.maximum(np.abs(table.value), step)
    record = Record(
        cells, table.totals, adjusted.units, adjusted.decimals, adjusted.covariance, table.variable, rta.period
    )
    return PublishedTable(
        cells, values, np.where(changed | moved, Status.CHANGED, Status.SHOWN).astype(np.int8),
        np.where(changed, -np.inf, values - slack), np.where(changed, np.inf, values + slack), variance, quality, leaf_variance,
        table.variable, table.unit, adjusted.decimals, table, rta, _guarantees(rta, table, known, adjusted, how), record=record,
    )  # fmt: skip


def leaves_that_tell(known: AttackerKnowledge, leaf_variance: Numbers) -> Whole:
    """Return the leaves whose variance comes from confidential values, by position.

    If the contributors' own values are the sizes, all leaves with noise. If sizes are public, those with a contributor who is
    in several leaves: the variance shows how he divides among them.
    """
    noisy = leaf_variance > 0
    if known.public:
        divided = np.asarray(known.loading @ ((known.leaves_of > 1) & (known.variance > 0)).astype(np.float64))
        noisy &= divided != 0
    return np.flatnonzero(noisy)


def check_exact(table: Table, known: AttackerKnowledge, telling: Whole) -> None:
    """Refuse to publish variances from which contributions can be worked out."""
    if not len(telling):
        return
    found = telling[digits.worked_out(table.cells)[telling]]
    where = join_names([f"'{leaf_name(table, int(leaf))}'" for leaf in found], 3) if len(found) else "the margins"
    if known.public:
        why = (
            "they show how contributors divide among cells, which comes from the contributions themselves, as in "
            f"{where}. Publish"
        )
    else:
        why = (
            "they come from the contributors' own values, and whoever reads one works out the largest contribution, as in "
            f"{where}. Give the table a public size measure (size=...), or publish"
        )
    raise NotApplicable(f"exact variances would disclose contributions: {why} variances='bounds' or 'none'.")


def check_bands(
    rta: RTA, table: Table, known: AttackerKnowledge, values: Numbers, told: Numbers, leaf_variance: Numbers
) -> None:
    """Refuse quality bands that disclose the noise too precisely, where it comes from the contributors' own values."""
    least, most = digits.implied(table.cells, values, told, leaf_variance, rta.cutpoints)
    given = table.contributions
    sizes = np.sqrt(known.variance) / rta.prior_cv
    if given is not None and not known.public:
        sizes = np.asarray(abs(given.own).sum(axis=0), np.float64).ravel()[known.contributor]
    kept = digits.sd_kept(known.loading, known.variance, known.required, sizes, leaf_variance, least, most)
    bad = np.flatnonzero(kept < digits.KEPT)
    if len(bad):
        named = join_names([f"'{leaf_name(table, int(leaf))}'" for leaf in bad[np.argsort(kept[bad])]], 3)
        raise NotApplicable(
            f"quality bands with these cutpoints would say too much of contributions in {named}: the variances come from the "
            "contributors' own values. Give the table a public size measure (size=...), take fewer cutpoints, or publish "
            "variances='bounds' or 'none'."
        )


def bound_factor(known: AttackerKnowledge, table: Table, leaf_variance: Numbers) -> float | None:
    """Return c such that no leaf has a larger variance than c times its squared total (plus 1 for whole numbers).

    k = vw²/((v - w²)d²) is the same for everybody if variances come from values; it is doubled until it holds for all leaves.
    None if it would become too large: somewhere contributions cancel, or a large contributor gives almost nothing.
    """
    given = table.contributions
    own = np.abs(given.totals)[known.contributor] if given is not None else np.zeros(len(known))
    good = (known.required > 0) & (own > 0) & (known.variance > known.required)
    v, w = known.variance[good], known.required[good]
    noisy = leaf_variance > 0
    if not noisy.any() or not good.any():
        return 0.0
    k = float(np.median(v * w / (v - w) / own[good] ** 2))
    beyond = np.maximum(leaf_variance - table.integer, 0.0)[noisy]
    with np.errstate(divide="ignore", invalid="ignore"):
        over = float(np.where(beyond > 0, beyond / (k * table.totals[noisy] ** 2), 0.0).max())
    factor = 2.0 ** math.ceil(math.log2(over)) if 1 + 1e-3 < over < math.inf else 1.0
    if over > _LOOSEST:
        return None
    return k * factor * (1 + 1e-3)


def _guarantees(
    rta: RTA, table: Table, known: AttackerKnowledge, adjusted: AdjustedLeaves, how: str
) -> tuple[Guarantee, ...]:
    audit, step = adjusted.audit, unit(adjusted.decimals)
    attacks = known.attacks
    who = "no contributor, and nobody outside," if attacks.all() else "no contributor who attacks, and nobody outside,"
    said = [
        Guarantee(
            rta.name,
            f"{who if attacks.any() else 'nobody outside'} comes to know a contribution better than is allowed: a relative "
            f"certainty of at most {audit.threshold:g}, for normal priors",
            f"all pairs of attacker and contributor over {len(table):,} cells jointly: {audit.risk:.6g} at most"
            + ("" if audit.exact else ", by proven bounds where many leaves are linked"),
        ),
        Guarantee(
            rta.name, "all cells add up to the last digit published",
            f"every cell is the sum of its leaves in whole units of {words_of(step, 6)}",
        ),
        Guarantee(
            rta.name, "rounding" + (", and raising to zero," if table.nonnegative else "") + " lowers no protection",
            "by construction: both look at adjusted values alone, so that the law of total variance applies",
        ),
    ]  # fmt: skip
    ways = {
        "exact": ("variances are published exactly, rounded up", "none comes from confidential values"),
        "bands": ("variances are published as quality bands", "what a band says of any contribution was checked"),
        "bounds": (
            "quality bands come from bounds on the variances",
            "by construction: a function of published values alone",
        ),
        "none": ("variances are not published", "by construction"),
    }
    return (*said, Guarantee(rta.name, *ways[how]))
