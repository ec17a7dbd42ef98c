"""A release: what was, what is released, and how they correspond; by subgroup, and beside a holdout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.data import Batch, Kind, Microdata, Rows
from sfumato.data.households import unit_ids
from sfumato.data.store import published_schema
from sfumato.errors import DataError, NotApplicable, ParameterError, plural, refuse_unknown
from sfumato.files import publishing, whole_folder, write_text
from sfumato.schema.hierarchy import label_of
from sfumato.typing import Flags, Numbers, Whole

if TYPE_CHECKING:
    from sfumato.contract.mask import Recipe

# Records set aside before masking: what a release is compared with to tell what it gives away from what is true of anybody.

_APART = 1 << 48
"""Added to the ids of records from another file; no file has that many."""


class Holdout(Microdata):
    """Records that no mask has seen, with the columns of the original.

    `hold_out` makes one from the file itself. `Holdout.of` takes another file of the same kind of people.
    """

    __slots__ = ()

    @classmethod
    def of(cls, data: Microdata) -> Holdout:
        """Take the records of another file: its people are not in the original, and it was not masked.

        They get ids of their own, so that they are not taken for records of the original; they are brought into memory.
        """
        rows = data.batch().rows
        return cls(data.engine.hold(Rows(rows.ids + _APART, rows.columns)), data.schema)

    @property
    def from_another_file(self) -> bool:
        """Whether its records were taken from another file, so that their ids say nothing of who is in the original."""
        return bool((self.batch([]).ids >= _APART).all())


def hold_out(data: Microdata, share: float, draws: Draws) -> tuple[Microdata, Holdout]:
    """Split a file at random, before masking: the part to be masked and released, and the part that is set aside.

    Whole households are set aside where the schema names them, so that nobody's family is on the other side. At least the
    share that is asked for is set aside, at least one record, and never all. Both parts keep their records' ids, and stay
    where the data live. Survey weights are left as they are.

    Examples
    --------
    >>> from sfumato.datasets import teachers
    >>> kept, held = hold_out(teachers(1_000), 0.5, Draws(1))
    >>> len(kept), len(held)
    (500, 500)
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ParameterError("the share to hold out must be a number above 0 and below 1.")
    household = data.schema.one("household")
    batch = data.batch([] if household is None else [household])
    units, sizes = np.unique(unit_ids(batch, "household"), return_counts=True)
    if len(units) < 2:
        what = "records" if household is None else "households"
        raise DataError(f"a file needs at least two {what} to set one aside; this one has {len(units)}.")
    order = np.argsort(draws.uniforms(units, "holdout"), kind="stable")
    wanted = math.ceil(share * len(batch) - 1e-9)
    count = min(int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1, len(units) - 1)
    aside = np.sort(units[order[:count]])

    def part(batch: Batch, inside: bool) -> Batch:
        return batch.keep(np.isin(unit_ids(batch, "household"), aside) == inside)

    held = data.transform(lambda batch: part(batch, True), data.schema)
    return data.transform(lambda batch: part(batch, False), data.schema), Holdout(held.engine, held.schema)


@dataclass(frozen=True)
class Guarantee:
    """Something a mask promises about its release, and how that was verified."""

    step: str
    says: str
    verified: str


@dataclass(frozen=True, eq=False)
class Release:
    """An original, its masked version (one or several implicates), and what is known of how it came about.

    A released record carries the hidden id of the original record it came from; a simulated one has a negative id.
    That is the alignment, for the custodian's measures only: it is never written. The seed is not here either.
    """

    original: Microdata
    implicates: tuple[Microdata, ...]
    recipe: Recipe | None = None
    guarantees: tuple[Guarantee, ...] = ()
    holdout: Microdata | None = None
    aligned: bool = True
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What measures of the same release share, such as a collected column."""

    @property
    def masked(self) -> Microdata:
        """The released data (the first implicate, if there are several)."""
        return self.implicates[0]

    @property
    def align(self) -> Whole:
        """Original record id of each released record, shape (t,); negative for simulated records."""
        self.check_aligned("this")
        return self.masked.batch([]).ids

    @property
    def published(self) -> Mapping[str, Any]:
        """The recipe's parameters by "step.parameter", for an analyst who is told them."""
        return {} if self.recipe is None else self.recipe.published_parameters(self._shown(self.recipe))

    def _shown(self, recipe: Recipe) -> set[str]:
        """Return the names of the released columns; also their categories, where a parameter may be told if they show it."""
        shown = {name for data in self.implicates for name in data.engine.kinds}
        if recipe.withheld(shown):
            for data in self.implicates:
                for name in (n for n, kind in data.engine.kinds.items() if kind is Kind.CATEGORY):
                    shown |= {
                        str(v) for v in data.engine.group([name]).columns[name].arrow.to_pylist() if v is not None
                    }
        return shown

    def with_holdout(self, held: Holdout) -> Release:
        """Return the release with records that were set aside before masking; see `hold_out`.

        Refused: records that are in the original too, other columns than the original's, and records that were masked.
        """
        if not isinstance(held, Holdout):
            raise DataError(
                "a holdout is set aside before masking, by hold_out(data, share, draws); what was masked cannot serve as one. "
                "If it is another file of the same kind of people, not masked, take it with Holdout.of(data)."
            )
        named = set(self.original.schema.names(role="identifier"))  # nobody needs those of the holdout
        theirs, ours = ({k for k in d.engine.kinds.items() if k[0] not in named} for d in (held, self.original))
        if wrong := sorted(theirs ^ ours):
            raise DataError(
                f"the holdout must have the columns of the original, but '{wrong[0][0]}' is not in both, or holds another kind "
                "of values. Set the holdout aside before masking, with hold_out."
            )
        if shared := len(np.intersect1d(held.batch([]).ids, self.original.batch([]).ids)):
            raise DataError(
                f"{plural(shared)} of the holdout {'is' if shared == 1 else 'are'} in the original as well, so the mask has seen "
                f"{'it' if shared == 1 else 'them'}. Split the file first: kept, held = hold_out(data, 0.5, draws); then mask "
                "`kept` alone."
            )
        if held.from_another_file and _same_records(held, self.original):
            raise DataError(
                "the holdout is the original itself, record by record, so the mask has seen it. "
                "Take other people of the same kind, or split the file first with hold_out."
            )
        return dataclasses.replace(self, holdout=held, memory={})

    def check_aligned(self, who: str) -> None:
        """Refuse, in words, what needs to know which released record came from which original one."""
        if not self.aligned:
            raise NotApplicable(
                f"{who} needs to know which released record came from which original record. "
                "Give it with Release.of(original, masked, align=...)."
            )

    def pair(self, name: str) -> tuple[Numbers, Numbers]:
        """Return a column's original and released numbers for the records that are in both, shape (r,) each.

        Of several implicates the mean is taken, as whoever has them all would.
        """
        key = ("pair", name)
        if key not in self.memory:
            self.check_aligned(f"comparing '{name}' record by record")
            before, after = self.original.batch([name]), self.masked.batch([name])
            x, several = before.numbers(name), [d.numbers(name) for d in self._alike(after.ids)]
            same = all(np.array_equal(v, several[0], equal_nan=True) for v in several[1:])
            y = several[0] if same else np.mean(several, axis=0)  # a mean of equal numbers need not be that number
            if before.column(name).remember("infinite", lambda: bool(np.isinf(x).any())):
                raise DataError(
                    f"column '{name}' holds infinite values, which cannot be compared. Set them to missing."
                )
            left, right = self.matched
            self.memory[key] = (x, y) if left is None else (x[left], y[right])
        pair: tuple[Numbers, Numbers] = self.memory[key]
        return pair

    def _alike(self, ids: Whole) -> tuple[Microdata, ...]:
        """Return the implicates that hold the same records; the first alone, if each has its own."""
        same = all(np.array_equal(data.batch([]).ids, ids) for data in self.implicates[1:])
        return self.implicates if same else self.implicates[:1]

    def write(
        self,
        folder: str | Path,
        draws: Draws,
        seed_file: str | Path | None,
        forms: Sequence[str] = ("csv", "parquet"),
        replace: bool = False,
        more: Callable[[Path], None] | None = None,
    ) -> None:
        """Write what may be published to a folder, and the seed to a file of its own elsewhere.

        The folder gets the masked data (masked.csv, masked.parquet), schema.toml and recipe.toml with a keyed digest of the
        original; it appears whole or not at all, and after the seed is kept. `more` gets the folder before it appears, to write
        other files into it. The seed file lets the custodian make the same release again; it must not
        lie in the folder, since whoever has the seed can subtract the noise. A seed file that is there already is kept: it must
        be this release's own, unless `replace` is set. None, where nothing was drawn, keeps no seed.
        """
        target, secret = Path(folder).resolve(), None if seed_file is None else Path(seed_file).resolve()
        if secret is not None and target in (secret, *secret.parents):
            raise DataError(
                f"the seed must be kept apart from what is published: choose a place outside {target} for it."
            )
        if secret is not None and secret.exists() and not replace:
            self._check_seed(secret, draws)
        digest, purpose = draws.digest(self.original.digest()), self.purpose(draws)
        seed = draws.seed_text(purpose, digest)
        replaced = secret is not None and _is_seed(secret) and (target / "recipe.toml").is_file()
        secrets = {} if secret is None else {secret: seed}
        if secret is not None and replaced:
            secrets = {secret: draws.next_text(secret, target, purpose, digest)}
        with publishing(whole_folder(target, replace), secrets=secrets, with_old=replaced) as (temporary,):
            for i, data in enumerate(self.implicates, 1):
                name = "masked" if len(self.implicates) == 1 else f"masked_{i}"
                for form in forms:
                    data.write(temporary / f"{name}.{form}")
            published_schema([d.engine for d in self.implicates], self.masked.schema).write(temporary / "schema.toml")
            if self.recipe is not None:
                dataclasses.replace(self.recipe, digest=digest).write(
                    temporary / "recipe.toml", withhold=True, shown=self._shown(self.recipe)
                )
            if more is not None:
                more(temporary)
        if secret is not None and replaced:
            write_text(secret, seed, confidential=True)

    def purpose(self, draws: Draws) -> str:
        """Return the keyed digest of the recipe and the original: what a seed file is for."""
        recipe = "" if self.recipe is None else dataclasses.replace(self.recipe, digest="").to_toml()
        return draws.digest(self.original.digest() + recipe.encode())

    def _check_seed(self, path: Path, draws: Draws) -> None:
        if Draws.read(path).digest(b"") != draws.digest(b""):  # first: the purpose is keyed, so it differs too
            raise DataError(f"{path} holds another seed, which would be lost. Choose another place for this one.")
        Draws.check_purpose(path, self.purpose(draws))

    @property
    def matched(self) -> tuple[Whole, Whole] | tuple[None, None]:
        """Row numbers, in the original and in the release, of the records that are in both; None, None if that is all."""
        if "matched" not in self.memory:
            before, after = self.original.batch([]).ids, self.align
            same = before is after or np.array_equal(before, after)
            self.memory["matched"] = (None, None) if same else np.intersect1d(before, after, return_indices=True)[1:]
        found: tuple[Whole, Whole] | tuple[None, None] = self.memory["matched"]
        return found

    def per_original(self, values: Numbers) -> Numbers:
        """Spread values of the matched records over all original ones in id order, NaN for those not released; shape (n,)."""
        left, _ = self.matched
        spread = values
        if left is not None:
            spread = np.full(len(self.original), np.nan)
            spread[left] = values
        ids = self.original.batch([]).ids
        return spread if bool((ids[1:] >= ids[:-1]).all()) else spread[np.argsort(ids, kind="stable")]

    @property
    def changed(self) -> bool:
        """Whether anything was done to the file: not where it is looked at as it is."""
        return self.masked is not self.original

    @classmethod
    def as_it_is(cls, data: Microdata) -> Release:
        """Take a file as it would be released without masking."""
        return cls(data, (data,))

    @classmethod
    def of(
        cls, original: Microdata, masked: Microdata, align: str | Sequence[int] | NDArray[Any] | None = None
    ) -> Release:
        """Take a file that was masked elsewhere.

        `align` says which original record each released one came from: ``"rows"`` (both files are in the same
        order), the name of a column that both files have and that is unique, or for each released record the row
        number of its original (negative for simulated records). Without it, only measures that compare whole files
        apply.
        """
        if align is None:
            return cls(original, (masked,), aligned=False)
        positions = _positions(original, masked, align)
        ids = -1 - np.arange(len(positions), dtype=np.int64)
        ids[positions >= 0] = original.batch([]).ids[positions[positions >= 0]]
        local = masked.engine.hold(Rows(ids, masked.batch().rows.columns))
        return cls(original, (Microdata(local, masked.schema),))


def _is_seed(path: Path) -> bool:
    """Whether a file holds a seed that can be read, and would be lost."""
    try:
        return path.exists() and bool(Draws.read(path))
    except ParameterError:
        return False


def _same_records(one: Microdata, other: Microdata) -> bool:
    """Whether two files hold the same records in the same order; columns are looked at until one differs."""
    if len(one) != len(other) or not len(one):
        return False
    for name in one.engine.kinds:
        if name in other.engine.kinds:
            columns = [data.batch([name]).column(name) for data in (one, other)]
            if any(column.kind is Kind.OTHER for column in columns):
                continue
            (codes, values), (others, known) = (column.codes for column in columns)
            if list(values) != list(known) or not np.array_equal(codes, others):
                return False
    return True


def _positions(original: Microdata, masked: Microdata, align: Any) -> Whole:
    if isinstance(align, str) and align != "rows":
        return _by_column(original, masked, align)
    if isinstance(align, str):
        if len(original) != len(masked):
            raise DataError(
                f"align='rows' needs files of the same length, but the original has {len(original):,} records and "
                f"the masked file {len(masked):,}. Name a column that both have, or give row numbers."
            )
        return np.arange(len(masked))
    positions = np.asarray(align)
    positions = positions.astype(np.int64) if positions.shape == (0,) else positions
    if positions.shape != (len(masked),) or positions.dtype.kind not in "iu":
        raise DataError(f"align must hold {len(masked):,} whole numbers, one for each released record.")
    real = positions[positions >= 0]
    if len(real) and real.max() >= len(original):
        raise DataError(f"align points past the original's {len(original):,} records.")
    if len(np.unique(real)) < len(real):
        raise DataError("align points to the same original record more than once.")
    return positions.astype(np.int64)


def _by_column(original: Microdata, masked: Microdata, name: str) -> Whole:
    for data, which in ((original, "the original"), (masked, "the masked file")):
        refuse_unknown("column", data.engine.kinds, which, name, error=DataError)
    columns = original.batch([name]).column(name), masked.batch([name]).column(name)
    if any(column.kind is Kind.OTHER for column in columns) or any(column.missing.any() for column in columns):
        raise DataError(f"column '{name}' cannot align the files: some of its values are missing, or of no plain kind.")
    before, after = (column.arrow.to_pylist() for column in columns)
    where = {value: i for i, value in enumerate(before)}
    if len(where) < len(before) or len(set(after)) < len(after):
        raise DataError(f"column '{name}' cannot align the files: some of its values stand more than once.")
    positions = np.array([where.get(value, -1) for value in after], np.int64)
    if len(before) and len(after) and not (positions >= 0).any():
        raise DataError(f"column '{name}' cannot align the files: they have none of its values in common.")
    return positions


MOST = 60
"""The most subgroups of one column."""
NO_VALUE = "missing"


def subgroups(outcome: Release, column: str) -> Iterator[tuple[str, Release]]:
    """Yield each value of a column with the part of the release that has it, in the order of the values; last those without any.

    A released record belongs to the group of the original record it came from, whatever was done to the column since.
    Simulated records, and files whose records are not aligned, go by the released value. A group without original records is
    left out; one without released records is not.
    """
    own, texts = _coded(outcome.original, column)
    present = np.flatnonzero(np.bincount(own, minlength=len(texts) + 1))
    if len(present) > MOST:
        raise NotApplicable(
            f"column '{column}' has {len(present):,} different values, too many for subgroups (at most {MOST}). "
            "Name a column of fewer values; for a number, add one of groups to both files."
        )
    released = [_released(outcome, data, column, own, texts) for data in outcome.implicates]
    files = [data.batch().rows for data in (outcome.original, *outcome.implicates)]  # once: they may have to be fetched
    names = [*texts, _no_value(texts)]
    for group in present.tolist():
        parts = [
            _part(data, rows, codes == group)
            for data, rows, codes in zip((outcome.original, *outcome.implicates), files, [own, *released], strict=True)
        ]
        yield (
            names[group],
            dataclasses.replace(outcome, original=parts[0], implicates=tuple(parts[1:]), memory={}),
        )


def values_by_group(outcome: Release, column: str, values: Numbers) -> Iterator[tuple[str, Numbers]]:
    """Yield each subgroup, as `subgroups` does, with its share of one value per original record in id order, shape (n,)."""
    own, texts = _coded(outcome.original, column)
    own = own[np.argsort(outcome.original.batch([]).ids, kind="stable")]
    names = [*texts, _no_value(texts)]
    for group in np.unique(own).tolist():
        yield names[group], values[own == group]


def _part(data: Microdata, rows: Rows, inside: Flags) -> Microdata:
    """Return some records with their ids, in memory."""
    return type(data)(data.engine.hold(rows.take(inside)), data.schema)


def _released(outcome: Release, data: Microdata, column: str, own: Whole, texts: list[str]) -> Whole:
    """Return the group of each released record; -1 for none."""
    ids, origin = data.batch([]).ids, outcome.original.batch([]).ids
    found, new = np.full(len(ids), -1), np.ones(len(ids), bool)
    if outcome.aligned and len(origin):
        order = np.argsort(origin, kind="stable")
        place = order[np.searchsorted(origin, ids, sorter=order).clip(max=len(origin) - 1)]
        found, new = own[place], origin[place] != ids
    return np.where(new, _by_value(data, column, texts), found) if new.any() else found


def _by_value(data: Microdata, column: str, texts: list[str]) -> Whole:
    """Return the group of each record of a release by what it says itself; -1 where no original record says that."""
    if column not in data.engine.kinds:
        raise DataError(
            f"column '{column}' was not released, so new records, and those that are not aligned, belong to no group. "
            "Choose a column that was released."
        )
    codes, theirs = _coded(data, column)
    place = {text: i for i, text in enumerate(texts)}
    table = np.array([*(place.get(text, -1) for text in theirs), len(texts)])
    if theirs and (table[:-1] < 0).all():
        raise NotApplicable(
            f"the release has none of the original's values of '{column}' (was it recoded?), so new records, and those that are "
            "not aligned, belong to no group. Choose another column."
        )
    return table[codes]


def _coded(data: Microdata, column: str) -> tuple[Whole, list[str]]:
    """Return each record's place among the values of a column, one past the last where it has none, and the values as text."""
    refuse_unknown("column", data.engine.kinds, "the data", column, error=DataError)
    if data.kind(column) is Kind.OTHER:
        raise NotApplicable(f"column '{column}' holds values of no plain kind, which make no subgroups.")
    batch = data.batch([column])
    codes, values = batch.column(column).codes
    return np.where(batch.missing(column), len(values), codes).astype(np.int64), [label_of(value) for value in values]


def _no_value(texts: list[str]) -> str:
    """Return what to call the records without a value: not by the name of a value."""
    name = NO_VALUE
    while name in texts:
        name = f"({name})"
    return name
