"""A universe in the levels of a data set: which cells of the table of its variables are chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.mas.universe import Universe
from sfumato.mas.variable import Variable, need_variable

Flags = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class Selection:
    """Chosen cells of an m-way table; arrays have one axis per variable, as long as it has levels."""

    variables: tuple[Variable, ...]
    """In order of their names."""
    pieces: tuple[Flags, ...]
    """Which cells each piece chooses; one piece of everything for everybody."""

    @classmethod
    def of(cls, universe: Universe, variables: Mapping[str, Variable]) -> Selection:
        """Find the levels that a universe names; refuse names that are not there, and pieces without a level."""
        used = tuple(need_variable(name, variables) for name in universe.variables)
        for variable in used:
            variable.need_levels()
        if math.prod(len(v.levels) for v in used) > _CELLS:
            raise DataError(
                f"the table that the universe is chosen from would have more than {_CELLS:,} cells. "
                "Form it with fewer variables, or with coarser ones."
            )
        pieces = []
        for piece in universe.pieces or ({},):
            flags = np.ones([len(v.levels) for v in used], bool)
            for axis, variable in enumerate(used):
                if (choice := piece.get(variable.name)) is None:
                    continue
                chosen = np.zeros(len(variable.levels), bool)
                chosen[list(choice.among(variable))] = True
                if not chosen.any():
                    raise DataError(f"a piece of the universe leaves no level of '{variable.name}'. Name at least one.")
                flags &= along(chosen, axis, len(used))
            pieces.append(flags)
        if len({(v.base or v).name for v in used}) < len(used):  # a recode beside what it groups: some cells cannot be
            laid = [in_base(used, flags) for flags in pieces]
            used, pieces = laid[0][0], [flags for _, flags in laid]
            if not all(flags.any() for flags in pieces):
                raise DataError("a piece of the universe has conditions that no level meets. Leave one of them out.")
        return cls(used, tuple(pieces))

    @cached_property
    def chosen(self) -> Flags:
        """Which cells any piece chooses."""
        return np.asarray(np.logical_or.reduce(self.pieces), bool)

    @cached_property
    def plain(self) -> Selection:
        """The same records without the pieces, recodes in the levels they group, and without variables that decide nothing."""
        variables, chosen = in_base(self.variables, self.chosen)
        kept = list(variables)
        for variable in variables:
            axis = kept.index(variable)
            if (chosen == chosen.take([0], axis)).all():
                chosen = np.asarray(chosen.take(0, axis), bool)
                kept.remove(variable)
        return Selection(tuple(kept), (chosen,))

    def joined(self, other: Selection) -> Selection:
        """Return what both choose, over the variables of both."""
        names = {v.name: v for v in (*self.variables, *other.variables)}
        both = tuple(names[name] for name in sorted(names))
        return Selection(both, (spread(self, both) & spread(other, both),))

    def where(self) -> str:
        """Return the condition on prepared records, as SQL."""
        plain = self.plain
        return condition(plain.variables, plain.chosen)

    def words(self) -> str:
        """Return the canonical wording: the same for the same cells, however they were asked for."""
        plain = self.plain
        if not plain.variables:
            return "all" if plain.chosen.all() else "none"
        cells = np.flatnonzero(plain.chosen.ravel())
        names = ",".join(f"{v.name!r}" for v in plain.variables)
        return f"{names}:{'x'.join(map(str, plain.chosen.shape))}:{','.join(map(str, cells))}"


def in_base(variables: Sequence[Variable], values: NDArray[T]) -> tuple[tuple[Variable, ...], NDArray[T]]:
    """Return an array with recodes in the levels that they group; axes in order of their names.

    A cell of the variable that a recode groups has what the recode's cell had; where both are axes, cells that cannot be go.
    """
    if all(v.base is None for v in variables):
        return tuple(variables), values
    found = list(variables)
    for axis, variable in enumerate(variables):
        if variable.base is not None:
            values, found[axis] = values.take(variable.groups, axis), variable.base
    for axis in range(len(found) - 1, -1, -1):
        names = [v.name for v in found]
        if (first := names.index(names[axis])) < axis:
            values = np.moveaxis(np.diagonal(values, axis1=first, axis2=axis), -1, first)
            del found[axis]
    order = sorted(range(len(found)), key=lambda i: found[i].name)
    return tuple(found[i] for i in order), values.transpose(order)


def along(flags: NDArray[np.bool_], axis: int, dimensions: int) -> Flags:
    """Return a vector as an array that lies along one of several axes."""
    return flags.reshape([-1 if i == axis else 1 for i in range(dimensions)])


def spread(selection: Selection, variables: Sequence[Variable]) -> Flags:
    """Return the chosen cells of a selection in the table of more variables, in order of their names."""
    names = [v.name for v in selection.variables]
    shape = [len(v.levels) if v.name in names else 1 for v in variables]
    return np.broadcast_to(selection.chosen.reshape(shape), [len(v.levels) for v in variables])


def condition(variables: Sequence[Variable], chosen: Flags) -> str:
    """Return the SQL condition for chosen cells: a list of levels of each variable, or of rows, where they do not factor."""
    if not len(variables):
        return "TRUE" if chosen.all() else "FALSE"
    if not chosen.any():
        return "FALSE"
    axes = range(chosen.ndim)
    levels: list[Flags] = [np.asarray(chosen.any(axis=tuple(j for j in axes if j != i)), bool) for i in axes]
    product = reduce(np.logical_and, (along(flags, i, chosen.ndim) for i, flags in enumerate(levels)))
    if (product == chosen).all():
        return (
            " AND ".join(_one_of(v, flags) for v, flags in zip(variables, levels, strict=True) if not flags.all())
            or "TRUE"
        )
    # the first variable's levels that choose the same rest go together
    rest = chosen.reshape(chosen.shape[0], -1)
    _, first, same = np.unique(rest, axis=0, return_index=True, return_inverse=True)
    parts = []
    for group, start in enumerate(first):
        if rest[start].any():
            inner = condition(variables[1:], chosen[start])
            parts.append(f"({_one_of(variables[0], same.ravel() == group)} AND {inner})")
    return "(" + " OR ".join(parts) + ")"


def _one_of(variable: Variable, flags: Flags) -> str:
    return f"{variable.codes} IN ({', '.join(map(str, np.flatnonzero(flags)))})"
