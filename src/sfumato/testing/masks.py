"""The promises of every mask."""

from __future__ import annotations

import pickle
from unittest import mock

import numpy as np

from sfumato.contract import Draws, Mask, Recipe, Scope
from sfumato.data import RECORD_ID, Batch, Kind, Microdata
from sfumato.errors import NotApplicable, SfumatoError
from sfumato.schema import Schema
from sfumato.testing.instances import DATES, NUMBERS, Values, instances_of, keep_all, require
from sfumato.testing.records import (
    CODES,
    DRAWS,
    EXTREMES,
    SCHEMA,
    arrow_table,
    microdata,
    require_same,
    require_sentence,
    require_valid,
    rows,
)


def leaves_the_original_untouched(mask: Mask, data: Microdata) -> None:
    """Masking leaves the original untouched."""
    source = arrow_table()
    data = Microdata(source, SCHEMA)
    made = mask.apply(data, DRAWS)
    rows(made.masked)  # columns are worked out when looked at
    untouched = Microdata(source, SCHEMA).digest() == data.digest() == microdata().digest()
    require(untouched, "The original file has changed.")
    require_same(Microdata(source, SCHEMA), microdata())
    require(made.original is data, "The release names another file as its original.")


def masks_alike_with_the_same_seed(mask: Mask, data: Microdata) -> None:
    """The same seed gives the same release."""
    one, two = (mask.apply(data, Draws(5)).masked for _ in range(2))
    require_same(one, two)
    require(one.digest() == two.digest(), "The digests of the two releases differ.")


def depends_on_the_seed_if_it_draws(mask: Mask, data: Microdata) -> None:
    """Another seed gives another release if the mask draws at all, and the same one if not."""
    with mock.patch.object(Draws, "_stream", autospec=True, side_effect=Draws._stream) as stream:
        made = [mask.apply(data, Draws(seed)).masked for seed in (5, 6)]
        one, two = ((m.digest(), m.batch([]).ids.tolist()) for m in made)  # a digest is the same in any order
    if stream.called:
        require(one != two, "It draws random numbers, but the release is the same for another seed.")
    else:
        require(one == two, "It takes no random numbers from draws, but the release differs.")


def announces_its_schema(mask: Mask, data: Microdata) -> None:
    """What comes out fits the schema that `schema_after` announced, its bounds and whole numbers."""
    made = mask.apply(data, DRAWS)
    announced = mask.schema_after(made.recipe.steps[0].mask.schema_after(SCHEMA))  # type: ignore[union-attr]
    require(made.masked.schema == announced, "The schema of the release is another one.")
    require(list(made.masked.engine.kinds) == list(announced.names()), "The columns are not those of the schema.")
    require_valid(made.masked)
    require(all(g.says and g.verified for g in made.guarantees), "A guarantee does not say what holds, or why.")


def releases_no_identifier(mask: Mask, data: Microdata) -> None:
    """Identifiers and record ids are not released."""
    made = mask.apply(data, DRAWS).masked
    require("tag" not in made.engine.kinds, "The column of identifiers is in the release.")
    require("Zebra" not in str(made.to_native().to_pylist()), "A value of an identifier is in the release.")
    require(RECORD_ID not in made.to_native().column_names, "The hidden ids are in the release.")


def keeps_other_columns(mask: Mask, data: Microdata) -> None:
    """Records and columns that a mask does not touch stay as they were."""
    if not mask.keeps_records:
        return
    made = mask.apply(data, DRAWS)
    before = data.batch([]).ids
    require(np.array_equal(np.sort(made.align), np.sort(before)), "keeps_records is true, but other records come out.")
    if made.masked.batch([]).ids.tolist() == before.tolist():
        for name in set(made.masked.schema.names()) & set(data.schema.names()) - set(mask.touches(data.schema)):
            same = made.masked.batch([name]).column(name).equals(data.batch([name]).column(name))
            require(same, f"Column '{name}' has changed, but `touches` does not name it.")


def keeps_missing_values(mask: Mask, data: Microdata) -> None:
    """Missing values and their codes stay where they are, unless `keeps_missing` is false."""
    if not (mask.keeps_missing and mask.keeps_records):
        return
    made = mask.apply(data, DRAWS)
    for name in NUMBERS:
        before, after = made.pair(name)
        same = np.array_equal(np.isnan(before), np.isnan(after))
        require(same, f"Other values of column '{name}' are missing than before.")
    old, new = rows(data), rows(made.masked)
    for name in DATES:
        if made.masked.engine.kinds.get(name) is Kind.DATE:
            gaps = [[value is None for value in values[name]] for values in (old, new)]
            require(gaps[0] == gaps[1], f"Other dates of column '{name}' are missing than before.")
    for name, codes in CODES.items():
        coded = np.isin(old[name], codes)
        require(np.array_equal(np.isin(new[name], codes), coded), f"The codes for no answer in '{name}' have moved.")


def keeps_households_together(mask: Mask, data: Microdata) -> None:
    """A household has one value in a column that describes households."""
    made = mask.apply(data, DRAWS).masked
    if not {"home", "rent"} <= set(made.schema.names()) or made.kind("rent") is not Kind.NUMBER:
        return
    homes, rent = made.numbers("home"), made.numbers("rent")
    one = all(len(np.unique(rent[homes == home])) == 1 for home in np.unique(homes))
    require(one, "The members of a household have different values. Draw by batch.units(name).")


def preserves_order_if_it_says_so(mask: Mask, data: Microdata) -> None:
    """A mask with `preserves_order` never reverses the order of two records."""
    if not mask.preserves_order:
        return
    made = mask.apply(data, DRAWS)
    for name in made.masked.schema.names():
        if made.masked.kind(name) is Kind.NUMBER:
            before, after = made.pair(name)
            reversed_ = ((before[:, None] < before) & (after[:, None] > after)).any()
            require(not reversed_, f"Two records have changed their order in column '{name}'.")


def masks_rows_one_by_one(mask: Mask, data: Microdata) -> None:
    """A mask of scope ROW gives the same for any part of the records, in any order."""
    if mask.scope is not Scope.ROW:
        return
    fitted = mask if mask.is_fitted else mask.fit(data, DRAWS)
    whole = fitted.transform(data.batch(), DRAWS)
    place = {i: k for k, i in enumerate(whole.ids.tolist())}
    order = np.random.default_rng(0).permutation(len(data))
    for piece in (order[:1], order[1:100], order[100:], order[:0]):
        part = fitted.transform(Batch(data.batch().rows.take(piece), data.schema), DRAWS)
        require(list(part.rows.columns) == list(whole.rows.columns), "A part of the records has other columns.")
        expected = set(data.batch().ids[piece].tolist()) & set(place)
        require(set(part.ids.tolist()) == expected, "Which records are kept depends on the part.")
        at = np.array([place[i] for i in part.ids.tolist()], np.int64)
        for name, column in part.rows.columns.items():
            same = column.equals(whole.rows.columns[name].take(at))
            require(same, f"Column '{name}' depends on which other records are masked. Use fit, or another scope.")


def hides_what_it_learned(mask: Mask, data: Microdata) -> None:
    """What a mask learned is neither shown nor written, and travels with it."""
    fitted = mask.fit(data, DRAWS)
    require(fitted.is_fitted, "After fit, something is still to be learned.")
    require(fitted == mask, "Fitted, it is no longer equal to itself.")
    require(repr(fitted) == repr(mask), "Its repr shows what it learned.")
    require(fitted.to_dict() == mask.to_dict(), "to_dict writes what it learned.")
    try:
        sent: Mask = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - it was written in this line
    except (AttributeError, pickle.PicklingError):
        raise AssertionError("It cannot be pickled. Define the class in a module, not in a function.") from None
    require(sent.is_fitted, "Sent to another process, it has forgotten what it learned.")
    require_same(sent.apply(data, DRAWS).masked, fitted.apply(data, DRAWS).masked)


def masks_alike_when_fitted_first(mask: Mask, data: Microdata) -> None:
    """A fitted recipe masks like one that fits as it goes."""
    recipe = Recipe.of(step=mask)
    require_same(recipe.fit(data, DRAWS).apply(data, DRAWS).masked, recipe.apply(data, DRAWS).masked)


def states_a_covariance(mask: Mask, data: Microdata) -> None:
    """`noise` returns a covariance matrix, or None."""
    sigma = np.array([[4.0, 1.0, 0.5], [1.0, 9.0, 2.0], [0.5, 2.0, 16.0]])
    noise = mask.noise(NUMBERS, sigma, data.schema)
    if noise is not None:
        require(noise.shape == (3, 3), f"For three columns its shape is {noise.shape}.")
        require(np.allclose(noise, noise.T, rtol=1e-7, atol=0), "The matrix is not symmetric.")
        require(np.linalg.eigvalsh(noise).min() >= -1e-12, "The matrix has a negative eigenvalue.")


def equals_its_matrices(mask: Mask, data: Microdata) -> None:
    """A matrix mask is its matrices, and any other says why not."""
    plain = data.with_schema(Schema(tuple(a.with_(bounds=(None, None), integer=False) for a in data.schema)))
    try:
        form = mask.as_matrix(plain, DRAWS)
    except NotApplicable as reason:
        require_sentence(reason, data)
        return
    made = mask.apply(plain, DRAWS).masked
    m = form.apply(np.column_stack([plain.numbers(n) for n in form.names]))
    released = np.column_stack([made.numbers(n) for n in form.released])
    require(np.allclose(m, released, rtol=1e-9, atol=0, equal_nan=True), "AXB + C is not what is released.")


def masks_extreme_data(mask: Mask, data: Microdata) -> None:
    """Extreme data are masked, or refused in a sentence that quotes no record."""
    try:
        made = mask.apply(data, DRAWS)
        rows(made.masked)
    except SfumatoError as error:
        require_sentence(error, data)
        return
    require_valid(made.masked)
    if not (mask.keeps_records and mask.keeps_missing):
        return
    require(len(made.masked) == len(data), "The number of records has changed.")
    for name in NUMBERS:
        before, after = (np.isnan(d.numbers(name))[np.argsort(d.batch([]).ids)] for d in (data, made.masked))
        require(np.array_equal(before, after), f"Other values of column '{name}' are missing than before.")


MASK_PROMISES = (
    leaves_the_original_untouched, masks_alike_with_the_same_seed, depends_on_the_seed_if_it_draws, announces_its_schema,
    releases_no_identifier, keeps_other_columns, keeps_missing_values, keeps_households_together,
    preserves_order_if_it_says_so, masks_rows_one_by_one, hides_what_it_learned, masks_alike_when_fitted_first,
    states_a_covariance, equals_its_matrices,
)  # fmt: skip
"""On the ordinary file; `masks_extreme_data` on the extreme ones."""


def check_mask(mask: Mask | type[Mask], values: Values | None = None) -> None:
    """Check a mask against every promise of the contract; raise an AssertionError that names the first one that it breaks.

    A class is built from its declared parameters: with its defaults, then with each other choice. `values` gives the
    parameters that cannot be guessed, and those that must keep one value. An instance is checked as it is.

    The file has 480 people in 240 households. Columns of numbers are pay, hours, age and rent (one for each household),
    columns of categories region and sex, columns of dates born, arrived and seen; see `sfumato.testing.SCHEMA`.

    Examples
    --------
    >>> from sfumato.masks import KimNoise, TopCode
    >>> check_mask(TopCode(["pay"], quantile=0.9))
    >>> check_mask(KimNoise, values={"columns": ("pay", "hours")})
    """
    extremes = {name: microdata(name) for name in EXTREMES}
    for thing in instances_of(Mask, mask, values):  # type: ignore[type-abstract]
        keep_all(thing, MASK_PROMISES, microdata(), masks_extreme_data, extremes)
