"""A mask as the spy sees it: its matrices where they are revealed, their second moments where they are not (erratum 2.12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask, MatrixForm, Recipe, run_steps
from sfumato.contract.matrix_steps import matrix_steps
from sfumato.decision.conditional import whiten
from sfumato.decision.exchangeable import ExchangeableRecords, SeenFile
from sfumato.decision.file_covariance import NOT_DATA, measurements
from sfumato.decision.hidden_noise import NO_NOISE, HiddenNoise, carried_on, noise_of, numbers_in, sampled_noise
from sfumato.decision.inferential import check_independent
from sfumato.errors import NotApplicable, ParameterError, listing
from sfumato.masks import Identity, MultiplyColumns, MultiplyRecords, RandomAggregation, RandomOrder, Sample
from sfumato.masks.remove_identifiers import RemoveIdentifiers
from sfumato.microdata import Microdata, check_numeric
from sfumato.schema import Level, Schema

Numbers = NDArray[np.float64]
Hide = Callable[[SeenFile, Numbers, tuple[str, ...]], SeenFile]
"""Takes a file as one sees it who knows A and B, the mean of XB and the names of M's columns, to the file as the spy sees it."""


@dataclass(frozen=True, eq=False)
class SeenMask:
    """The matrices of a mask, and what of them the spy is not told."""

    form: MatrixForm
    noise: HiddenNoise | None = None
    hide: tuple[Hide, ...] = ()
    factored: tuple[str, ...] = ()
    """Columns of M that are multiplied by hidden factors."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of X."""
        return self.form.names

    def of(self, records: ExchangeableRecords, targets: Sequence[str]) -> SeenFile:
        """Return the release of such records, and the targets, as the spy sees them."""
        x = records.at(self.names)
        noise = None if self.noise is None else self.noise.on(self.form.released)
        file = records.seen(targets, self.names, self.form.A, self.form.B, noise)
        mean = records.mean[x] if self.form.B is None else records.mean[x] @ self.form.B
        for hide in self.hide:
            file = hide(file, mean, self.form.released)
        return replace(file, exact=file.exact and (self.noise is None or self.noise.normal))

    def reveals(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which records (n,) and which attributes (p,) of X the spy can compute exactly.

        From combinations of M's columns that have no hidden noise and no hidden factor; from none, if it is hidden which record
        is where.
        """
        form = self.form
        if self.noise is not None or self.factored:
            b = np.eye(len(form.released)) if form.B is None else form.B
            form = replace(form, B=b @ self._bare())
        records, attributes = form.reveals()
        return records & (not self.hide or bool(self.factored)), attributes

    def _bare(self) -> Numbers:
        """Return combinations of M's columns without hidden noise or factors, shape (c, k)."""
        released = self.form.released
        if self.noise is None:  # a column of its own factor
            return np.asarray(np.eye(len(released))[:, [n not in self.factored for n in released]])
        noise = self.noise.on(released)
        still = np.diag(noise) == 0
        return np.hstack([whiten(noise, "the covariance of the noise").null.T, np.eye(len(released))[:, still]])


def see(
    data: Microdata,
    mask: Mask | Recipe | MatrixForm | None,
    revealed: Collection[str],
    beside: Sequence[str] | None,
    draws: Draws,
) -> SeenMask:
    """Return the mask as the spy sees it; refuse one that is no matrix mask, or depends on the data."""
    if wrong := sorted({*revealed} - set("ABC")):
        raise ParameterError(f"'{wrong[0]}' is no part of a mask: there are A, B and C.")
    if mask is None:
        mask = Identity()
    if isinstance(mask, MatrixForm):
        seen, after = _of_form(mask, revealed), data.schema.keep(lambda a: a.name not in mask.names)
    else:
        recipe = mask.as_recipe() if isinstance(mask, Mask) else mask
        seen, after = _of_recipe(data, recipe, revealed, draws), _after(recipe, data.schema)
    for name in seen.names:
        check_numeric(data, name)
    seen = replace(seen, form=_without_labels(seen.form, after))
    return replace(seen, form=_with_others(seen.form, data, after, beside))


def _of_recipe(data: Microdata, recipe: Recipe, revealed: Collection[str], draws: Draws) -> SeenMask:
    """Fold the steps: their matrices, and beside them the covariance of the noise that the spy is not told."""
    _, start, _ = run_steps(recipe.steps[:1], data, draws, verify=False)
    numbers = numbers_in(start, _after(recipe, data.schema))
    form, noise = MatrixForm((), ()), NO_NOISE
    told: list[tuple[MatrixForm, HiddenNoise] | None] = []
    others: list[Mask] = []

    def form_of(mask: Mask, now: Microdata, own: Draws) -> MatrixForm:
        told.append(None if "C" in revealed else noise_of(mask, now))
        return mask.as_matrix(now, own) if told[-1] is None else told[-1][0]

    even = True
    for mask, mine, together in matrix_steps(recipe.steps[1:], start, draws, form_of):
        check_independent(mine)
        known = told[-1]
        if known is None and not isinstance(mask, Identity | RemoveIdentifiers):
            others.append(mask)
        added = sampled_noise(mine, revealed) if known is None else known[1]
        carried = carried_on(noise, form.released, mine)
        even, noise = even and carried is not None, (carried or NO_NOISE).plus(added, together.released)
        form = replace(together, C=None)
    seen = SeenMask(form if form.names else MatrixForm(numbers, numbers), noise if noise.covariance.any() else None)
    if not even:  # released records have noise of different sizes: what was drawn tells how much, on average
        seen = _of_form(recipe.as_matrix(data, draws), {*revealed, "A", "B"})
    hidden = [part for part in "AB" if part in form.random and part not in revealed]
    hide = tuple(_hider(others, part, seen, data.schema) for part in hidden)
    if hidden and isinstance(
        others[0], MultiplyRecords | MultiplyColumns
    ):  # beliefs about the factors take their place
        return replace(seen, form=replace(form, A=None, B=None), hide=hide, factored=form.released)
    return replace(seen, hide=hide)


def _hider(masks: Sequence[Mask], part: str, seen: SeenMask, schema: Schema) -> Hide:
    """Return what hiding a random A or B does, for the masks of which it is known: those that are no hidden noise."""
    form = seen.form
    shared = [n for n in form.names if schema[n].level is Level.HOUSEHOLD]
    if len(masks) == 1 and not shared:  # members of a household share their draws, which are then not independent
        mask = masks[0]
        if isinstance(mask, MultiplyRecords | MultiplyColumns) and seen.noise is None:
            return partial(_no_factors, mask, form.released)
        by_record = type(mask) is Sample and (mask.unit == "record" or schema.one("household") is None)
        if by_record or isinstance(mask, RandomOrder) or (isinstance(mask, RandomAggregation) and not mask.within):
            return _no_order
    raise NotApplicable(
        f"what a spy who is not told {part} would believe about it is not worked out for {listing(m.name for m in masks)}. Count "
        f"{part} as revealed, which is safe, or give InferentialDisclosure a RandomMatrix."
    )


def _no_order(file: SeenFile, mean: Numbers, released: tuple[str, ...]) -> SeenFile:
    return file.hidden_order()


def _no_factors(
    mask: MultiplyRecords | MultiplyColumns,
    masked: tuple[str, ...],
    file: SeenFile,
    mean: Numbers,
    released: tuple[str, ...],
) -> SeenFile:
    hide = file.hidden_record_factors if isinstance(mask, MultiplyRecords) else file.hidden_column_factors
    return hide(np.array([mask.factor_variance if n in masked else 0.0 for n in released]), mean)


def _of_form(form: MatrixForm, revealed: Collection[str]) -> SeenMask:
    """Return the matrices as the spy sees them."""
    check_independent(form)
    if hidden := [part for part in form.random if part in "AB" and part not in revealed]:
        raise NotApplicable(
            f"what the spy believes about {' and '.join(hidden)} is not known from the matrices alone. Count it as revealed, "
            "which is safe, or give the mask itself."
        )
    noise = sampled_noise(form, revealed)
    return SeenMask(replace(form, C=None), noise if noise.covariance.any() else None)


def _after(recipe: Recipe, schema: Schema) -> Schema:
    for step in recipe.steps:
        schema = step.mask.schema_after(schema)
    return schema


def _without_labels(form: MatrixForm, after: Schema) -> MatrixForm:
    """Return the form without released columns that are no measurements: household numbers, weights."""
    kept = [j for j, n in enumerate(form.released) if n not in after or after[n].role not in NOT_DATA]
    if len(kept) == len(form.released):
        return form
    b = np.eye(len(form.names)) if form.B is None else form.B
    used = [i for i in range(len(b)) if form.B is not None or i in kept]
    return replace(
        form,
        names=tuple(form.names[i] for i in used),
        released=tuple(form.released[j] for j in kept),
        B=None if form.B is None else b[np.ix_(used, kept)],
    )


def _with_others(form: MatrixForm, data: Microdata, after: Schema, beside: Sequence[str] | None) -> MatrixForm:
    """Return the form with the columns that are released as they are."""
    if beside is None:
        known = {*form.names, *form.released}
        beside = [n for n in measurements(data, after) if n not in known]
    for name in beside:
        check_numeric(data, name)
    others = [n for n in beside if n not in form.released]
    if others and form.A is not None:
        raise NotApplicable(
            f"the mask transforms records in {listing(form.names)}, while {listing(others)} would be released as they are, so "
            "that the release is not one matrix mask. Let the mask name all columns, or set beside = () to leave "
            "the others out of account."
        )
    if not others:
        return form
    names = tuple(dict.fromkeys((*form.names, *others)))
    released = (*form.released, *others)
    if form.B is None:
        return replace(form, names=names, released=released)
    b = np.zeros((len(names), len(released)))
    b[: form.B.shape[0], : form.B.shape[1]] = form.B
    for j, name in enumerate(others, form.B.shape[1]):
        b[names.index(name), j] = 1.0
    return replace(form, names=names, released=released, B=b)
