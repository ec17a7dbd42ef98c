"""An analyst's regression on the original and on a release, coefficient by coefficient: estimates and standard errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Release
from sfumato.engines import Kind
from sfumato.errors import DataError, NotApplicable, some
from sfumato.microdata import Batch, Microdata
from sfumato.utility.compared import FEWEST, weights_of
from sfumato.utility.formula import Levels, design_of, is_category, levels_of, named_in, parse, response_of
from sfumato.utility.implicates import Combined, Synthesis, combine
from sfumato.utility.synthesised import synthesised

Numbers = NDArray[np.float64]
Model = Literal["linear", "logistic"]
Rules = Literal["recipe", "partial", "full"]
TERMS = 500
"""Most coefficients of a formula."""
NEW = 50
"""Most categories of a column that only the release has."""
_NUMERIC = (Kind.NUMBER, Kind.BOOLEAN)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What one file says of k coefficients."""

    names: tuple[str, ...]
    titles: tuple[str, ...]
    """What the coefficients are called before people; rare categories are not named."""
    estimates: Numbers
    """Shape (k,); NaN for coefficients that the file does not determine."""
    errors: Numbers
    """Standard errors, shape (k,)."""
    freedom: float
    """Degrees of freedom of the t distribution; infinite for the normal one."""
    records: int
    levels: Levels
    """The categories of each column that stands for levels, in order."""
    two: tuple[Any, Any] | None
    """The two values of a logistic regression's response."""
    terms: frozenset[str]
    """The names of all coefficients of the formula in the original, those included that were left out."""

    def interval(self, i: int, level: float) -> tuple[float, float]:
        """Return the confidence interval of one coefficient."""
        return Combined(float(self.estimates[i]), float(self.errors[i]) ** 2, self.freedom).interval(level)


def shown(formula: str) -> str:
    """Return a formula as it is told to people: that of a mean by its column.

    >>> shown("`pay` ~ 1"), shown("pay ~ rent")
    ('mean pay', 'pay ~ rent')
    """
    return f"mean {formula[1:-5]}" if formula.startswith("`") and formula.endswith("` ~ 1") else formula


def analysed(data: Microdata, formula: str, model: Model, weighted: bool) -> Coefficients:
    """Fit a formula to the original file: terms that are combinations of earlier ones, or constant, are left out.

    Refused in a sentence: unknown columns, too few records, a response that does not vary or is fitted without error.
    """
    from sfumato.kernels.least_squares import independent

    names = named_in(formula)
    for name in names:
        data.kind(name)
    batch = data.batch(names)
    levels = {c: levels_of(batch, c) for c in _categories(batch, formula)}
    two = _two_values(batch, formula) if model == "logistic" else None
    x, y, weights, terms = _complete(data, batch, formula, levels, two, weighted)
    if len(x) <= x.shape[1] + 1:
        raise DataError(
            f"'{shown(formula)}' has {some(x.shape[1], 'coefficient')}, and only {some(len(x))} with all its columns; "
            "it needs more."
        )
    kept = np.flatnonzero(independent(x))
    found = _fit(x[:, kept], y, weights, model, formula) if len(kept) else None
    if found is None or not (found[1] > 0).all():
        raise DataError(
            f"'{shown(formula)}' fits the original without error, or its response does not vary, so that its coefficients "
            "have no standard errors to compare with. Choose another formula."
        )
    told = tuple(terms[i] for i in kept)
    titles = _titles(told, np.count_nonzero(x[:, kept], axis=0), levels)
    return Coefficients(told, titles, *found, len(x), levels, two, frozenset(terms))


def analysed_again(
    data: Microdata, before: Microdata, reference: Coefficients, formula: str, model: Model, weighted: bool
) -> Coefficients:
    """Fit the same formula to a released file, with the categories and the terms of the original's fit.

    A coefficient that the release does not determine (its category is gone, its column all alike) is NaN. Values that the
    original does not have are categories of their own.
    """
    _check_kinds(data, before, formula)
    batch = data.batch(named_in(formula))
    levels = {c: _with_new(batch, c, old, formula) for c, old in reference.levels.items()}
    x, y, weights, terms = _complete(data, batch, formula, levels, reference.two, weighted)
    place = {name: i for i, name in enumerate(terms)}
    k = len(reference.names)
    if len(x) <= k or (model == "logistic" and not 0 < y.sum() < len(y)):
        nothing = np.full(k, np.nan)
        return replace(reference, estimates=nothing, errors=nothing, records=len(x))
    columns = [*(place[n] for n in reference.names), *(i for n, i in place.items() if n not in reference.terms)]
    estimates, errors, freedom = _fit(x[:, columns], y, weights, model, formula)
    return replace(reference, estimates=estimates[:k], errors=errors[:k], freedom=freedom, records=len(x))


def combined(
    found: Sequence[Coefficients], rules: Rules, outcome: Release, original: Coefficients
) -> list[Combined | None]:
    """Return each coefficient from all implicates together, by the combining rules; None where one does not determine it."""
    rule: Synthesis = ("full" if synthesised(outcome) == "drawn" else "partial") if rules == "recipe" else rules
    out: list[Combined | None] = []
    for i in range(len(original.names)):
        q, se = np.array([c.estimates[i] for c in found]), np.array([c.errors[i] for c in found])
        if np.isnan(q).any():
            out.append(None)
        elif len(found) == 1:
            out.append(Combined(float(q[0]), float(se[0]) ** 2, found[0].freedom))
        else:
            out.append(combine(q, se**2, rule, size=max(found[0].records, 1) / original.records))
    return out


def _titles(names: Sequence[str], records: NDArray[np.intp], levels: Levels) -> tuple[str, ...]:
    """Return the names of coefficients, without the categories of those that hold for few records of the original.

    `records` has how many there are for each coefficient, shape (k,).
    """
    titles, rare = list(names), 0
    tokens = {f"C({column})[{level}]": column for column, known in levels.items() for level in known}
    for i in np.flatnonzero(records < FEWEST).tolist():
        named = [token for token in tokens if token in names[i]]
        rare += bool(named)
        for token in named:
            titles[i] = titles[i].replace(token, f"C({tokens[token]})[rare {rare}]")
    return tuple(titles)


def _categories(batch: Batch, formula: str) -> list[str]:
    factors = [f for term in parse(formula)[1] for f in term]
    return list(dict.fromkeys(c for function, c in factors if is_category(batch, function, c)))


def _check_kinds(data: Microdata, before: Microdata, formula: str) -> None:
    for name in named_in(formula):
        if name not in data.engine.kinds:
            raise NotApplicable(
                f"column '{name}' is not released, so '{shown(formula)}' cannot be fitted to the release."
            )
        was, now = before.kind(name), data.kind(name)
        if was is not now and not (was in _NUMERIC and now in _NUMERIC):
            raise NotApplicable(
                f"column '{name}' holds {was} in the original and {now} in the release, so '{shown(formula)}' means something "
                "else there. Recode the original alike and compare with that, or leave the column out."
            )


def _with_new(batch: Batch, column: str, old: Sequence[Any], formula: str) -> list[Any]:
    """Return the original's categories of a column, then those that only the release has."""
    known = set(old)
    new = [v for v in levels_of(batch, column) if v not in known]
    if len(new) > NEW:
        raise NotApplicable(
            f"the release has {len(new):,} values of '{column}' that the original does not have, too many to be categories of "
            f"'{shown(formula)}'. If it holds numbers, use it without C()."
        )
    return [*old, *new]


def _two_values(batch: Batch, formula: str) -> tuple[Any, Any]:
    """Return the two values of a logistic regression's response; the second one counts as a success."""
    function, column = parse(formula)[0]
    values = levels_of(batch, column)
    if function or len(values) != 2:
        raise DataError(
            f"a logistic regression needs a response with two values, and that of '{shown(formula)}' has another number. "
            "Use model='linear' for a number."
        )
    return values[0], values[1]


def _complete(
    data: Microdata, batch: Batch, formula: str, levels: Levels, two: tuple[Any, Any] | None, weighted: bool
) -> tuple[Numbers, Numbers, Numbers | None, list[str]]:
    """Return terms (n, k), response (n,), weights and names over the records that have all the columns and count."""
    width = sum(math.prod(len(levels[c]) if c in levels else 1 for _, c in term) for term in parse(formula)[1])
    if width > TERMS:
        raise NotApplicable(
            f"'{shown(formula)}' has {width:,} terms, and at most {TERMS} are compared. Leave some out."
        )
    x, names = design_of(batch, formula, levels)
    if two is None:
        y = response_of(batch, formula)
    else:
        codes, values = batch.column(parse(formula)[0][1]).codes
        y = np.array([*(float(two.index(v)) if v in two else np.nan for v in values), np.nan])[codes]
    weights = weights_of(data, weighted)
    counts = ~np.isnan(x).any(axis=1) & ~np.isnan(y)
    if weights is not None:
        counts &= weights > 0
        weights = weights[counts]
    if not counts.all():
        x, y = x[counts], y[counts]
    if np.isinf(x).any() or np.isinf(y).any():
        raise DataError(
            f"columns of '{shown(formula)}' hold infinite values, which cannot be compared. Set them to missing."
        )
    return x, y, weights, names


def _fit(x: Numbers, y: Numbers, weights: Numbers | None, model: Model, formula: str) -> tuple[Numbers, Numbers, float]:
    """Return estimates (NaN where the columns do not determine them), standard errors and degrees of freedom."""
    if model == "linear":
        from sfumato.kernels.least_squares import least_squares

        with np.errstate(over="ignore", invalid="ignore"):
            estimates, covariance, rank = least_squares(x, y, weights)
        freedom = float(len(x) - rank)
    else:
        estimates, covariance = _logistic(x, y, weights, formula)
        freedom = math.inf
    errors = np.sqrt(np.diag(covariance).clip(min=0))
    if not np.isfinite(errors).all() or freedom <= 0:
        raise DataError(f"columns of '{shown(formula)}' hold values too large to square. Give them another unit.")
    return estimates, errors, freedom


def _logistic(x: Numbers, y: Numbers, weights: Numbers | None, formula: str) -> tuple[Numbers, Numbers]:
    """Return the estimates and their covariance; with survey weights the linearised one (Binder 1983)."""
    from sfumato.kernels.least_squares import orthonormal
    from sfumato.kernels.logistic import logistic

    basis, w = orthonormal(x), np.ones(len(x)) if weights is None else weights
    z = basis.columns
    found = logistic(lambda start, stop: z[start:stop], y, w, z.shape[1], intercept=False)
    if np.abs(y - found.fitted).max() < 1e-4:
        raise NotApplicable(
            f"the terms of '{shown(formula)}' tell its response completely, so that its coefficients have no end. Choose another "
            "formula, or model='linear'."
        )
    values, vectors = np.linalg.eigh(found.information)
    # one category's response may be told completely: its error is huge, not infinite
    bread = (vectors / values.clip(min=1e-16 * values[-1])) @ vectors.T
    covariance = bread
    if weights is not None:
        scores = z * (w * (y - found.fitted))[:, None]
        covariance = bread @ (scores.T @ scores) @ bread * len(x) / (len(x) - 1)
    back = basis.back
    estimates = np.where(basis.estimable, back @ found.coefficients, np.nan)
    return estimates, back @ covariance @ back.T
