"""Inferential disclosure from data: what a masked file lets a spy infer about confidential columns of a record."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato.contract import Draws, Mask, MatrixForm, Recipe
from sfumato.data.columns import Kind
from sfumato.data.microdata import Microdata, check_numeric
from sfumato.errors import DataError, ParameterError
from sfumato.lazy import pd
from sfumato.papers.conditional import (
    RuleVerdict,
    check_functional,
    judge_explained,
    judge_left,
    numbers,
    relative_root,
    remaining,
)
from sfumato.papers.exchangeable import ExchangeableRecords, SeenFile, SeenMask, see
from sfumato.papers.file_covariance import file_covariance, shrunk
from sfumato.typing import Flags, Numbers

_PIECE = 4_096


@dataclass(frozen=True, eq=False)
class InferentialRisk:
    """What a release explains about targets of a single record, for every record; records are taken for exchangeable.

    The spy is taken to know the population's means and covariances, and which released record belongs to the target.
    Confidential: it is worked out from the original.
    """

    targets: tuple[str, ...]
    file: SeenFile
    outside: bool
    """Whether the targets belong to a record that is not in the file."""
    complete: int
    """The number of records that the covariances come from."""
    shrinkage: float
    """The share by which the correlations were shrunk."""
    mask: SeenMask

    @property
    def prior(self) -> Numbers:
        """Variance of the targets before the release, shape (u, u)."""
        return self.file.prior

    @property
    def exact(self) -> bool:
        """Whether this is the posterior variance of normal data; else it is about the best linear prediction."""
        return self.file.exact

    def per_record(self) -> Numbers:
        """Return the share of each target's variance that is explained, for every record, (n, u); (1, u) outside the file."""
        shares = self._shares(self.file.variances_explained(self.outside))
        return shares if self.outside else shares[self.file.classes()]

    @property
    def shares(self) -> Numbers:
        """Share of each target's variance that is explained, for the record of which it is most, shape (u,)."""
        return np.asarray(self._shares(self.file.variances_explained(self.outside)).max(axis=0))

    @property
    def worst(self) -> str:
        """The target of which the largest share is explained."""
        return self.targets[int(self.shares.argmax())]

    def _shares(self, explained: Numbers) -> Numbers:
        prior = np.diag(self.prior)
        share = np.divide(explained, prior, out=np.zeros_like(explained), where=prior > 0)
        return np.where(share > 1 - 1e-12, 1.0, share)

    def frame(self) -> pd.DataFrame:
        """Return a row for each target: standard deviation before and after the release, and the share of variance explained.

        For the record of which most is explained; `mean_share` is over all records.
        """
        shares, sd = self.shares, np.sqrt(np.diag(self.prior))
        return pd.DataFrame(
            {
                "target": self.targets,
                "sd_before": sd,
                "sd_after": sd * np.sqrt(1 - shares),
                "share": shares,
                "mean_share": self.per_record().mean(axis=0),
            }
        )

    def revealed(self) -> tuple[Flags, tuple[str, ...]]:
        """Return which records, (n,) or (1,) for all, and which columns can be computed exactly (`MatrixForm.reveals`)."""
        records, attributes = self.mask.reveals()
        return records, tuple(n for n, open_ in zip(self.mask.names, attributes, strict=True) if open_)

    def acceptable(self, tau: float, functional: str = "trace", *, relative: bool = False) -> RuleVerdict:
        """Say whether the mask is τ-acceptable for the targets of every record: Ω{G} < τ (matrix-masking paper, equation 5.1)."""
        G = self._worst(functional, relative, left=False)
        return judge_explained(self.prior, G, tau, functional, relative, self.note)

    def uncertain(self, tau: float, functional: str = "trace", *, relative: bool = False) -> RuleVerdict:
        """Say whether the uncertainty left exceeds τ for the targets of every record: the Bayes-risk rule (section II)."""
        G = self._worst(functional, relative, left=True)
        return judge_left(self.prior, remaining(self.prior, G), tau, functional, relative, self.note)

    def _worst(self, functional: str, relative: bool, left: bool) -> Numbers:
        """Return G, shape (u, u), for the record about which most is disclosed by a functional."""
        check_functional(functional)
        shares = relative or functional == "log-determinant"
        root = relative_root(self.prior, functional) if shares else np.eye(len(self.targets))
        prior, best, found = root @ self.prior @ root.T, -np.inf, np.zeros_like(self.prior)
        if not len(root):  # no target varies
            return found
        for start in range(0, max(self.file.n, 1), _PIECE):
            all_of_them = self.file.explained(self.outside, slice(start, start + _PIECE))
            if not len(all_of_them):
                break
            G = root @ all_of_them @ root.T
            if functional == "trace":
                value = np.trace(G, axis1=1, axis2=2)
            elif functional == "each target":
                kept = np.diagonal(prior - G, axis1=1, axis2=2)[:, np.diag(prior) > 0]
                value = -kept.min(axis=1, initial=np.inf) if left else np.diagonal(G, axis1=1, axis2=2).max(axis=1)
            elif functional == "largest eigenvalue":
                value = -np.linalg.eigvalsh(prior - G)[:, 0] if left else np.linalg.eigvalsh(G)[:, -1]
            else:
                with np.errstate(divide="ignore"):
                    value = -np.log((1 - np.linalg.eigvalsh(G)).clip(min=0.0)).sum(axis=1)
            if value.max() > best:
                best, found = value.max(), all_of_them[value.argmax()]
        return found

    @property
    def note(self) -> str:
        """A remark where the numbers are only a bound."""
        linear = (
            ""
            if self.exact
            else (
                "It is about the best linear prediction; a spy who computes the whole posterior explains at least as much. Count "
                "what is hidden as revealed to be safe."
            )
        )
        return (linear + shrunk(self.shrinkage)).strip()

    @property
    def words(self) -> str:
        """The worst target in a sentence."""
        at = int(self.shares.argmax())
        sd = float(np.sqrt(self.prior[at, at]))
        share = float(self.shares[at])
        where = "a record that is not in the file" if self.outside else "a record in the file"
        return (
            f"{self.targets[at]} of {where}: the release explains {100 * share:.3g} % of its variance; its standard deviation "
            f"falls from {sd:.4g} to {sd * np.sqrt(1 - share):.4g}." + (f" {self.note}" if self.note else "")
        )


def inferential_risk(
    data: Microdata,
    target: str | Sequence[str] | None = None,
    mask: Mask | Recipe | MatrixForm | None = None,
    *,
    revealed: Collection[str] = ("A", "B"),
    beside: Sequence[str] | None = None,
    outside: bool = False,
    between: float | ArrayLike = 0.0,
    shrinkage: str | float = "auto",
    weighted: bool = False,
    draws: Draws | None = None,
) -> InferentialRisk:
    """Return what releasing the data, masked, lets a spy infer about confidential columns of one record.

    Parameters
    ----------
    target
        A column of numbers, or several that are looked at together; all confidential ones, if not given.
    mask
        A mask, recipe or `MatrixForm` of the form M = AXB + C that does not depend on the data; None releases them as they are.
    revealed
        Which of "A", "B" and "C" the spy is told. To count a random one as revealed is to be safe: on average nothing is
        explained beyond that. Random noise C is hidden unless it is named here.
    beside
        Columns of numbers that are released as they are beside those that the mask names; all that the release still has, but
        for identifiers, household numbers and weights, if not given.
    outside
        Whether the targets belong to a record that is not in the file.
    between
        Covariance between two records: a share of that within a record, or a matrix over the columns in the data's order
        (those that are used). Zero for a spy who knows the population.
    shrinkage
        What to take off the correlations: a share, "ledoit-wolf" to estimate the best one, or "auto" for that only where there
        are fewer than ten records for each column.
    weighted
        Whether covariances are those of the population, by the survey weights that the schema names, or of the file.
    draws
        Where the matrices of a random mask come from.

    Examples
    --------
    >>> from sfumato.masks import KimNoise
    >>> from sfumato.datasets import teachers
    >>> data = teachers(2_000)
    >>> float(inferential_risk(data, "salary", KimNoise(lambda2=0.25), beside=()).shares[0].round(3))
    0.8
    """
    targets = _targets(data, target)
    seen = see(data, mask, revealed, beside, draws or Draws(0))
    used = [n for n in data.engine.kinds if n in {*seen.names, *targets}]
    found = file_covariance(data, used, shrinkage, weighted)
    V = found.matrix
    records = ExchangeableRecords(found.names, V, len(data), _between(between, V), found.mean)
    file = seen.of(records, targets)
    return InferentialRisk(targets, file, outside, found.records, found.shrinkage, seen)


def _targets(data: Microdata, target: str | Sequence[str] | None) -> tuple[str, ...]:
    if target is None:
        number = [n for n in data.schema.names(role="confidential") if data.kind(n) is Kind.NUMBER]
        if not number:
            raise DataError("no confidential column holds numbers. Name the target: a column of numbers.")
        return tuple(number)
    names = (target,) if isinstance(target, str) else tuple(target)
    if not names or len(set(names)) < len(names):
        raise ParameterError("target must name at least one column, and none twice.")
    for name in names:
        check_numeric(data, name)
    return names


def _between(between: float | ArrayLike, V: Numbers) -> Numbers:
    K = numbers(between, "between")
    if K.ndim == 0:
        if not -1 <= K <= 1:
            raise ParameterError("between must be a share from -1 to 1 of the covariance within a record, or a matrix.")
        return np.asarray(K * V)
    if K.shape != V.shape:
        raise ParameterError(
            f"between must be a number or a matrix of {len(V)} × {len(V)}, for the columns that are used."
        )
    return K
