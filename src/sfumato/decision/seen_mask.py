"""A mask as the spy sees it: its matrices where they are revealed, their second moments where they are not (erratum 2.12)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Draws, Mask, MatrixForm, Recipe
from sfumato.decision.exchangeable import ExchangeableRecords, SeenFile
from sfumato.decision.inferential import check_independent
from sfumato.engines import Kind
from sfumato.errors import NotApplicable, ParameterError, listing
from sfumato.masks import Identity, MultiplyColumns, MultiplyRecords, RandomAggregation, RandomOrder, Sample
from sfumato.masks.noise import AdditiveNoise
from sfumato.masks.remove_identifiers import RemoveIdentifiers
from sfumato.microdata import Microdata, check_numeric
from sfumato.schema import Level, Role, Schema

Numbers = NDArray[np.float64]
Hide = Callable[[SeenFile, Numbers, tuple[str, ...]], SeenFile]
"""Takes a file as one sees it who knows A and B, the mean of XB and the names of M's columns, to the file as the spy sees it."""

_NOT_DATA = (Role.IDENTIFIER, Role.HOUSEHOLD, Role.WEIGHT)


@dataclass(frozen=True, eq=False)
class SeenMask:
    """The matrices of a mask, and what of them the spy is not told."""

    form: MatrixForm
    noise: Callable[[tuple[str, ...], Numbers], Numbers] | None = None
    """Covariance of a hidden C, given the names of M's columns, and the covariance of X."""
    normal: bool = True
    """Whether the hidden C is normal."""
    hide: tuple[Hide, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of X."""
        return self.form.names

    def of(self, records: ExchangeableRecords, targets: Sequence[str]) -> SeenFile:
        """Return the release of such records, and the targets, as the spy sees them."""
        x = records.at(self.names)
        noise = None if self.noise is None else self.noise(self.form.released, records.V[np.ix_(x, x)])
        file = records.seen(targets, self.names, self.form.A, self.form.B, noise)
        mean = records.mean[x] if self.form.B is None else records.mean[x] @ self.form.B
        for hide in self.hide:
            file = hide(file, mean, self.form.released)
        return replace(file, exact=file.exact and self.normal)

    def reveals(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which records (n,) and which attributes (p,) of X the spy can compute exactly: none, if something is hidden."""
        records, attributes = self.form.reveals()
        open_ = self.noise is None and not self.hide
        return records & open_, attributes & open_


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
    masks = [step.mask for step in recipe.steps if not isinstance(step.mask, Identity | RemoveIdentifiers)]
    after = _after(recipe, data.schema)
    numbers = tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER and n in after)
    if "C" not in revealed and recipe.noise(numbers, np.eye(len(numbers)), data.schema) is not None:
        # additive noise, whose covariance is known without drawing any; and random order, which adds none
        noisy = [m for m in masks if not isinstance(m, RandomOrder)]
        hide: tuple[Hide, ...] = (_no_order,) if len(noisy) < len(masks) and "A" not in revealed else ()
        noise = partial(recipe.noise, schema=data.schema) if noisy else None
        names = tuple(n for n in numbers if n in recipe.touches(data.schema)) or numbers
        return SeenMask(MatrixForm(names, names), noise, all(isinstance(m, AdditiveNoise) for m in noisy), hide)
    form = recipe.as_matrix(data, draws)
    hidden = [part for part in "AB" if part in form.random and part not in revealed]
    hide = tuple(_hider(masks, part, form, data.schema) for part in hidden)
    if hidden and isinstance(masks[0], MultiplyRecords | MultiplyColumns):
        form = replace(form, A=None, B=None)  # what is believed of the factors takes their place
    return replace(_of_form(form, {*revealed, "A", "B"}), hide=hide)


def _hider(masks: Sequence[Mask], part: str, form: MatrixForm, schema: Schema) -> Hide:
    """Return what hiding a random A or B does, for the masks of which it is known."""
    shared = [n for n in form.names if schema[n].level is Level.HOUSEHOLD]
    if len(masks) == 1 and not shared:  # members of a household share their draws, which are then not independent
        mask = masks[0]
        if isinstance(mask, MultiplyRecords | MultiplyColumns):
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
    """Return the matrices as the spy sees them; rows of a hidden C are taken for independent draws and give its covariance."""
    check_independent(form)
    if hidden := [part for part in form.random if part in "AB" and part not in revealed]:
        raise NotApplicable(
            f"what the spy believes about {' and '.join(hidden)} is not known from the matrices alone. Count it as revealed, "
            "which is safe, or give the mask itself."
        )
    if "C" not in form.random or "C" in revealed or form.C is None:
        return SeenMask(replace(form, C=None))
    if len(form.C) < 2:
        raise NotApplicable(
            "C is random and has a single row, from which its covariance cannot be told. Count it as revealed, which is safe."
        )
    covariance = np.atleast_2d(np.cov(form.C, rowvar=False))

    def noise(released: tuple[str, ...], _: Numbers) -> Numbers:
        place = np.array([[float(n == m) for m in form.released] for n in released])
        return np.asarray(place @ covariance @ place.T)

    return SeenMask(replace(form, C=None), noise, normal=False)


def _after(recipe: Recipe, schema: Schema) -> Schema:
    for step in recipe.steps:
        schema = step.mask.schema_after(schema)
    return schema


def _without_labels(form: MatrixForm, after: Schema) -> MatrixForm:
    """Return the form without released columns that are no measurements: household numbers, weights."""
    kept = [j for j, n in enumerate(form.released) if n not in after or after[n].role not in _NOT_DATA]
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
        kinds = data.engine.kinds
        beside = [
            n for n, kind in kinds.items()
            if kind is Kind.NUMBER and n in after and after[n].role not in _NOT_DATA and n not in {*form.names, *form.released}
        ]  # fmt: skip
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
