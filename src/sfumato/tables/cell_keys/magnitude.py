"""Noise for magnitudes: a share of each of the largest contributions, times what the perturbation table gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.tables.cell_keys.keys import Keys, as_fractions
from sfumato.tables.cell_keys.perturbation_table import PerturbationTable

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """How large the noise of a contribution is, as a share of it: the flex function of Giessing and Tent (2019).

    Up to the contribution `point` the share is `small`; beyond it the share goes down to `large`,
    m(x) = large + (small · x/point − large) · (2 / (1 + x/point)) ** power. The share of the j-th largest contribution is
    times `parts[j]`.
    """

    small: float
    large: float
    point: float
    power: float
    parts: tuple[float, ...]

    def share(self, x: Numbers) -> Numbers:
        """Return the share for contributions x ≥ 0."""
        ratio = np.maximum(x / self.point, 1.0) if np.isfinite(self.point) else np.ones_like(x)
        return np.asarray(self.large + (self.small * ratio - self.large) * (2 / (1 + ratio)) ** self.power)

    @property
    def highest(self) -> float:
        """The largest share of all: at `point`, or a little beyond it where the power is low."""
        if not np.isfinite(self.point) or self.small == self.large == 0:
            return self.small
        if self.power <= 1:
            return self.large + 2 * self.small
        ratio = max(1.0, (self.small + self.power * self.large) / (self.small * (self.power - 1)))
        return float(self.share(np.array([ratio * self.point]))[0])


def magnitude_noise(
    totals: Numbers,
    largest: Numbers,
    keys: Keys,
    scale: Scale,
    table: PerturbationTable,
    small: PerturbationTable | None,
    kinds: NDArray[np.str_] | None,
    extra: Numbers,
) -> Numbers:
    """Return what is added to every cell, shape (cells,).

    For j = 1, 2, … in turn, with y the total as it stands: δ = parts[j] · m(x) · |x| for the j-th largest contribution x, and
    at most |y|; the change v comes from the table by the ratio |y| / δ, which keeps y from changing its sign, and the key; y
    moves by δ · v. For the largest, cells that need more protection have `extra` added to |v|.

    Small cells: with a table for them, contributions below the separation point, where the noise would be smaller than that
    of the small table, get noise with δ = 1 from it, once.
    Giessing and Tent (2019); the R package cellKey (ck_params_nums, ck_flexparams).
    """
    now, point = totals.copy(), separation_point(scale, small)
    for j, part in enumerate(scale.parts):
        x, size, key = np.abs(largest[:, j]), np.abs(now), as_fractions(keys, j)
        step = part * scale.share(x) * x
        tiny = x < point
        beyond = ~tiny & (size < step)
        step = np.where(beyond, size, step)
        tiny |= beyond & (size < point * scale.small * part)
        step = np.where(tiny, 1.0 if j == 0 else 0.0, step)
        active = (step > 0) & (size > 0)
        ratio = np.divide(size, step, out=np.zeros_like(size), where=active)
        change = np.zeros_like(now)
        for kind in ("all", "even", "odd"):
            here = active & ~tiny & (kinds == kind if kinds is not None else kind == "all")
            if here.any():
                change[here] = table.between(ratio[here], key[here], kind)
        if small is not None and (here := active & tiny).any():
            change[here] = small.between(ratio[here], key[here])
        if j == 0:
            change = np.where(change >= 0, change + extra, change - extra)
        moved = np.where(active, step * change, 0.0)
        now = now + np.sign(now) * np.maximum(moved, -size)
    return np.asarray(now - totals)


def separation_point(scale: Scale, small: PerturbationTable | None) -> float:
    """Return the contribution below which the noise of a cell is that of the small table: where both have one variance."""
    if small is None:
        return 0.0
    variance = small.rows["all"][-1].variance
    return float(np.sqrt(variance / sum(part**2 for part in scale.parts)) / scale.small)
