"""A recipe step by step as matrices: M = AXB + C of each mask, and of all masks so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sfumato.contract.draws import Draws
from sfumato.contract.linked import run_linked
from sfumato.contract.mask import Mask
from sfumato.contract.matrix import MatrixForm
from sfumato.errors import NotApplicable, SfumatoError, listing
from sfumato.microdata import Microdata

if TYPE_CHECKING:
    from sfumato.contract.recipe import Step

FormOf = Callable[[Mask, Microdata, Draws], MatrixForm]


class MatrixStep(NamedTuple):
    """A step of a recipe, fitted, with its own matrices and those of all steps so far."""

    mask: Mask
    form: MatrixForm
    together: MatrixForm


def matrix_steps(
    steps: Sequence[Step], data: Microdata, draws: Draws, form_of: FormOf = lambda m, x, d: m.as_matrix(x, d)
) -> Iterator[MatrixStep]:
    """Yield the steps as matrices; refuse one that is no matrix mask, alone or together with those before.

    `form_of` takes a fitted mask, the data that it masks, and its draws. The last step is fitted, but not run.
    """
    form = MatrixForm((), ())
    for number, step in enumerate(steps, 1):
        own = draws.child(step.name)
        try:
            mask = step.mask if step.mask.is_fitted else step.mask.fit(data, own)
            mine = form_of(mask, data, own)
            together, after = form.then(mine), mask.schema_after(data.schema)
            if apart := [n for n in form.released if n in after and n not in together.released]:
                raise NotApplicable(
                    f"it transforms the records in other columns than {listing(apart)}, so that the steps together are "
                    "not a matrix mask M = AXB + C."
                )
            yield MatrixStep(mask, mine, together)
            if number < len(steps):
                data = run_linked(mask, data, own)
        except SfumatoError as error:
            raise type(error)(f"step '{step.name}': {error}") from None
        form = together
