"""Noise that the spy is not told: its covariance as it is drawn, and what later masks make of it (erratum 2.12)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract import Mask, MatrixForm
from sfumato.engines import Kind
from sfumato.errors import NotApplicable
from sfumato.masks import CorrectedNoise, StructuredNoise
from sfumato.masks.noise import AdditiveNoise
from sfumato.microdata import Microdata
from sfumato.schema import Schema

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HiddenNoise:
    """A displacement C that the spy is not told, independent between released records."""

    names: tuple[str, ...]
    covariance: Numbers
    """Of the noise on these columns of M, shape (k, k)."""
    normal: bool = True

    def on(self, released: tuple[str, ...]) -> Numbers:
        """Return its covariance on columns of M, zero on those without noise."""
        place = _place(released, self.names)
        return np.asarray(place @ self.covariance @ place.T)

    def plus(self, other: HiddenNoise, released: tuple[str, ...]) -> HiddenNoise:
        """Return both, independent of each other, on columns of M."""
        return HiddenNoise(released, self.on(released) + other.on(released), self.normal and other.normal)


NO_NOISE = HiddenNoise((), np.zeros((0, 0)))


def noise_of(mask: Mask, data: Microdata) -> tuple[MatrixForm, HiddenNoise] | None:
    """Return the matrices, but for C, of a fitted mask that adds noise, and the noise as it is drawn; None for other masks."""
    schema = data.schema
    if isinstance(mask, AdditiveNoise):
        names, learned = tuple(mask.names), mask.root @ mask.root.T
        drawn = AdditiveNoise.noise(mask, names, learned, schema)
        if isinstance(mask, CorrectedNoise):  # noise added, and the sum drawn back to the mean
            back = mask.shrinkage()
            form = MatrixForm(names, names, B=np.diag(back))
            return form, HiddenNoise(names, np.asarray(drawn) * np.outer(back, back))
        if mask.noise(names, learned, schema) is None:
            return None
        return MatrixForm(names, names), HiddenNoise(names, np.asarray(drawn))
    names = tuple(n for n in numbers_in(data, schema) if n in mask.touches(schema))
    if not names or mask.noise(names, np.eye(len(names)), schema) is None:
        return None
    drawn = mask.noise(names, data.moments(names).covariance, schema)
    return MatrixForm(names, names), HiddenNoise(names, drawn, isinstance(mask, StructuredNoise))


def carried_on(noise: HiddenNoise, released: tuple[str, ...], form: MatrixForm) -> HiddenNoise | None:
    """Return earlier noise after the next mask, B′NB times AA′; None if AA′ is no multiple of the identity."""
    onward = replace(MatrixForm(released, released).then(replace(form, C=None)), C=None)
    b = np.eye(len(onward.names)) if onward.B is None else onward.B
    covariance = b.T @ noise.on(onward.names) @ b
    if form.A is not None and covariance.any():
        from scipy.sparse import csr_array

        a: Any = csr_array(form.A)
        square = (a @ a.T).tocoo()
        size = float(square.diagonal().mean())
        off = np.abs(square.data - size * (square.row == square.col))
        if off.max(initial=0.0) > 1e-12 * size or (square.diagonal() == 0).any():
            return None
        covariance = size * covariance
    return HiddenNoise(onward.released, covariance, noise.normal)


def sampled_noise(form: MatrixForm, revealed: Collection[str]) -> HiddenNoise:
    """Return the noise of a hidden C that was drawn: its rows are taken for independent draws and give the covariance."""
    if "C" not in form.random or "C" in revealed or form.C is None:
        return NO_NOISE
    if len(form.C) < 2:
        raise NotApplicable(
            "C is random and has a single row, from which its covariance cannot be told. Count it as revealed, which is safe."
        )
    return HiddenNoise(form.released, np.atleast_2d(np.cov(form.C, rowvar=False)), normal=False)


def numbers_in(data: Microdata, schema: Schema) -> tuple[str, ...]:
    """Return the columns of numbers that a schema, perhaps of a release, still has."""
    return tuple(n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER and n in schema)


def _place(rows: tuple[str, ...], columns: tuple[str, ...]) -> Numbers:
    """Return a 1 where a row and a column have the same name, else 0."""
    return np.array([[float(a == b) for b in columns] for a in rows]).reshape(len(rows), len(columns))
