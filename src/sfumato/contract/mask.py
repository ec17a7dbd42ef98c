"""The shape of every masking method, and recipes: named steps, written as TOML, and as matrices step by step."""

from __future__ import annotations

import itertools
import tomllib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from typing_extensions import override

from sfumato.contract.draws import Draws, check_draws
from sfumato.contract.linked_columns import linked_losses, run_linked
from sfumato.contract.matrix import MatrixForm
from sfumato.contract.parameters import Parameter, Parametric, Scope, build, find
from sfumato.contract.release import Guarantee, Release
from sfumato.contract.release_model import NoiseModel, ReleaseModel
from sfumato.data import Batch, Kind, Microdata, Rows
from sfumato.data.microdata import check_numeric, numbers_of
from sfumato.errors import (
    DataError,
    NotApplicable,
    ParameterError,
    RecipeError,
    SfumatoError,
    join_names,
    repeated,
    unknown_name,
)
from sfumato.files import write_text
from sfumato.schema import Attribute, Scale, Schema
from sfumato.schema.schema import separators_in
from sfumato.toml import dump, parse
from sfumato.typing import Numbers
from sfumato.version import VERSION

In = TypeVar("In")
Out = TypeVar("Out")


class Method(Parametric, Generic[In, Out], abstract=True):
    """A frozen set of parameters that turns one thing into another, with given randomness."""

    @abstractmethod
    def apply(self, x: In, draws: Draws) -> Out:
        """Return the outcome."""


class Mask(Method[Microdata, Release], family="mask", abstract=True):
    """A masking method: microdata in, a release out.

    To add one, subclass it in a file of its own and write `transform`: a batch of records in, a batch out. Declare
    `scope` and `preserves_order`; write `fit` if something has to be learned from the whole file first.
    """

    scope: ClassVar[Scope] = Scope.ROW
    preserves_order: ClassVar[bool] = False
    """Whether x < y before never becomes x > y after (inversions stay zero)."""
    keeps_records: ClassVar[bool] = True
    """Whether every record is released, once, and no other."""
    keeps_missing: ClassVar[bool] = True
    """Whether the values that are missing after are those that were missing before."""
    no_matrix: ClassVar[str] = "it is not linear in the data"
    """Why the method is not a matrix mask, if it is not."""

    @override
    def check_parameters(self) -> None:
        super().check_parameters()
        if getattr(self, "columns", None) == ():
            raise ParameterError(
                f"columns of {self.name} is an empty list. Name at least one column, or leave columns out."
            )

    @abstractmethod
    def transform(self, batch: Batch, draws: Draws) -> Batch:
        """Mask some records. Called with zero records too; must not change its input."""

    def fit(self, data: Microdata, draws: Draws) -> Self:
        """Return the mask with what it learned from the data; confidential."""
        return self

    def run(self, data: Microdata, draws: Draws, function: Callable[[Batch], Batch] | None = None) -> Microdata:
        """Mask all records, once fitted: where the data live if the scope is a row, else in memory.

        `function` is what is done to each batch; `transform`, if it is not given.
        """
        function = function or partial(self.transform, draws=draws)
        source = data if self.scope is Scope.ROW else data.local()
        return source.transform(function, self.schema_after(data.schema))

    @property
    def versions(self) -> int:
        """How many masked versions (implicates) a release has: what the parameter `implicates` says, if there is one."""
        return int(getattr(self, "implicates", 1))

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return what `apply` releases of the same data with the same draws as M = AXB + C; refused if it is no matrix mask.

        What the schema does to the result, rounding to whole numbers and moving to bounds, is not in it.
        """
        if type(self).matrices is Mask.matrices:  # refused before anything is learned
            return self.matrices(data, draws)
        *before, step = self.as_recipe().steps
        _, data, _ = run_steps(before, data, check_draws(draws), verify=False)
        own = draws.child(step.name)
        return (self if self.is_fitted else self.fit(data, own)).matrices(data, own)

    def matrices(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the mask, once fitted, as M = AXB + C on the numbers that reach it, with its own draws.

        A mask that is one writes this method; any other is refused, with `no_matrix` as the reason.
        """
        raise NotApplicable(f"{self.name} is not a matrix mask M = AXB + C: {self.no_matrix}.")

    def apply(self, x: Microdata, draws: Draws) -> Release:
        """Mask the data: identifiers are removed first, then this method runs."""
        return self.as_recipe().apply(x, draws)

    def as_recipe(self) -> Recipe:
        """Return the recipe whose only step, after the removal of identifiers, is this mask."""
        return Recipe.of(self)

    def __rshift__(self, other: Mask | Recipe) -> Recipe:
        return self.as_recipe() >> other

    def schema_after(self, schema: Schema) -> Schema:
        """Return the schema of what comes out."""
        return schema

    def guarantees(self, before: Microdata, after: Microdata, step: str) -> Iterable[Guarantee]:
        """Verify and state what the method promises, as a tuple or one by one; refuse with an error what does not hold."""
        return ()

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns that the method changes or needs: `columns`, and strata that it has (`within`)."""
        return (*(getattr(self, "columns", None) or schema.names(role="confidential")), *self._strata)

    def changes(self, schema: Schema) -> tuple[str, ...]:
        """Return the names of the columns that the method changes.

        They are what it has learned to be its columns (`names`); before that, what it touches of the ones in `columns`.
        """
        if "names" in self._learned() and (names := getattr(self, "names", None)):
            return tuple(names)
        named = getattr(self, "columns", None)
        return tuple(n for n in self.touches(schema) if n not in self._strata and (named is None or n in named))

    @property
    def _strata(self) -> tuple[str, ...]:
        within = self.parameters().get("within")
        return (getattr(self, "within", None) or ()) if within is not None and within.columns == "many" else ()

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Any:
        """Return the covariance (k, k) of the noise added to these columns, or None if the method is not additive noise."""
        return None

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what the method makes of normal records, for formulas; None if that is not known.

        Additive noise need only say its `noise`.
        """
        added = self.noise(before.names, before.released, schema)
        return None if added is None else replace(before, noise=before.noise + added)


def categorical_targets(columns: tuple[str, ...] | None, data: Microdata) -> tuple[str, ...]:
    """Return the columns to mask: those named, or every key that is not ordered or holds text.

    A key that follows another of these is not among them: it follows the masked one.
    """
    if columns is None:
        schema = data.schema
        keys = [
            n
            for n in schema.names(role="key")
            if data.kind(n) in (Kind.CATEGORY, Kind.BOOLEAN) or schema[n].scale is not Scale.ORDERED
        ]
        columns = schema.free(keys)
        if not columns:
            raise DataError(
                "there is no key of categories to mask. Name the columns (columns=...), or give one the role 'key' and the "
                "scale 'unordered' in the schema."
            )
    for name in columns:
        if data.kind(name) is Kind.OTHER:
            raise DataError(f"column '{name}' holds {data.kind(name)}, where categories are needed.")
    return columns


def check_separated(data: Microdata) -> None:
    """Refuse one column of text with a guessed schema whose name and values hold as many separators: a file read as one column.

    No method would find a key or a name in it, so that everything would be released as it is.
    """
    names = data.schema.names()
    if (
        len(names) != 1
        or data.kind(names[0]) is not Kind.CATEGORY
        or data.schema[names[0]].reason in ("", "set by hand")
    ):
        return
    values = [str(value) for value in data.engine.group(names).columns[names[0]].arrow.to_pylist() if value is not None]
    for sign in separators_in(names[0]):
        alike = sum(value.count(sign) == names[0].count(sign) for value in values)
        if values and alike >= 0.9 * len(values):
            raise DataError(
                f"the data have one column of text, and its name and its values hold the sign {sign!r}: the file was read with "
                f"another separator than it has. Read it again with separator={sign!r}; nothing is released."
            )


def check_numbers(batch: Batch, names: Iterable[str]) -> None:
    """Refuse records whose columns hold no numbers, before any is looked at: a fitted mask may meet other data."""
    for name in names:
        if batch.column(name).kind is not Kind.NUMBER:
            raise DataError(f"column '{name}' holds {batch.column(name).kind}, where numbers are needed.")


def check_values(data: Microdata, names: Iterable[str]) -> None:
    """Refuse columns in which no record has a value, so that nothing would be masked, and infinite values."""
    for name in names:
        records, known, wild = data.engine.reduce(partial(_counted, data.schema[name], name), [name])
        if records and not known:
            raise DataError(
                f"column '{name}' has no values at all, so there is nothing to mask. Leave it out of columns."
            )
        if wild:
            raise DataError(f"column '{name}' holds {int(wild):,} infinite values. Set them to missing.")


def _counted(attribute: Attribute, name: str, rows: Rows) -> Numbers:
    x = numbers_of(rows.columns[name], attribute)
    return np.array([len(x), (~np.isnan(x)).sum(), np.isinf(x).sum()], np.float64)


def numeric_targets(columns: tuple[str, ...] | None, data: Microdata) -> tuple[str, ...]:
    """Return the columns to mask: those named, or every confidential column of numbers that follows none of the others."""
    if columns is None:
        schema = data.schema
        columns = schema.free(n for n in schema.names(role="confidential") if data.kind(n) is Kind.NUMBER)
        if not columns:
            raise DataError(
                "there is no confidential column of numbers to mask. Name the columns (columns=...), or give one the "
                "role 'confidential' in the schema."
            )
    for name in columns:
        check_numeric(data, name)
        if data.kind(name) is not Kind.NUMBER:  # what comes out would be no category and no yes or no
            others = [n for n, kind in data.engine.kinds.items() if kind is Kind.NUMBER]
            raise DataError(
                f"column '{name}' holds {data.kind(name)}, where numbers are needed. Columns of numbers: {join_names(others)}."
            )
    return columns


# A recipe step by step as matrices: M = AXB + C of each mask, and of all masks so far.


FormOf = Callable[[Mask, Microdata, Draws], MatrixForm]


class MatrixStep(NamedTuple):
    """A step of a recipe, fitted, with its own matrices and those of all steps so far."""

    mask: Mask
    form: MatrixForm
    together: MatrixForm


def matrix_steps(
    steps: Sequence[Step], data: Microdata, draws: Draws, form_of: FormOf = lambda m, x, d: m.matrices(x, d)
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
                    f"it transforms the records in other columns than {join_names(apart)}, so that the steps together are "
                    "not a matrix mask M = AXB + C."
                )
            yield MatrixStep(mask, mine, together)
            if number < len(steps):
                data = run_linked(mask, data, own)
        except SfumatoError as error:
            raise type(error)(f"step '{step.name}': {error}") from None
        form = together


RECIPE_VERSION = 1
FIRST = "identifiers"


@dataclass(frozen=True)
class Step:
    """A mask and the name it goes by in its recipe."""

    name: str
    mask: Mask


@dataclass(frozen=True)
class Recipe:
    """A sequence of named masks. The first is always the removal of identifiers.

    Examples
    --------
    >>> from sfumato.masks import KimNoise, TopCode
    >>> recipe = KimNoise(lambda2=0.15) >> TopCode(quantile=0.99)
    >>> [step.name for step in recipe.steps]
    ['identifiers', 'kim_noise', 'top_code']
    >>> recipe.with_({"kim_noise.lambda2": 0.2}).settings()["kim_noise.lambda2"]
    0.2
    """

    steps: tuple[Step, ...]
    digest: str = ""
    """Keyed digest of the data it was applied to; only the holder of the seed can check it."""

    def __post_init__(self) -> None:
        steps = tuple(self.steps)
        if any(not isinstance(s, Step) or not isinstance(s.mask, Mask) for s in steps):
            raise RecipeError("a recipe is made of masks; build one with Recipe.of(mask, mask, ...) or mask >> mask.")
        if not steps or steps[0].mask.name != "remove_identifiers":
            steps = (Step(FIRST, find("mask", "remove_identifiers")()), *steps)  # type: ignore[arg-type]
        names = [s.name for s in steps]
        if twice := repeated(names):
            raise RecipeError(
                f"these step names stand more than once: {join_names(sorted(twice))}. Give each step its own name."
            )
        if any(not n or "." in n for n in names):
            raise RecipeError("a step's name is a text without a dot.")
        if len(several := [s.name for s in steps if s.mask.versions > 1]) > 1:
            raise RecipeError(f"only one step can make several implicates, but these do: {join_names(several)}.")
        object.__setattr__(self, "steps", steps)

    @classmethod
    def of(cls, *masks: Mask, **named: Mask) -> Recipe:
        """Make a recipe from masks; give names with keywords: ``Recipe.of(noise=KimNoise(), top=TopCode())``."""
        steps: list[Step] = []
        for mask in masks:
            if not isinstance(mask, Mask):
                raise RecipeError(f"a recipe is made of masks, not of {type(mask).__name__}.")
            steps.append(Step(_free(mask.name, steps), mask))
        return cls((*steps, *(Step(name, mask) for name, mask in named.items())))

    def __rshift__(self, other: Mask | Recipe) -> Recipe:
        if not isinstance(other, Mask | Recipe):
            raise RecipeError(f"a recipe is made of masks, not of {type(other).__name__}.")
        later = [Step(other.name, other)] if isinstance(other, Mask) else other.steps[1:]
        steps = list(self.steps)
        for step in later:
            steps.append(Step(_free(step.name, steps), step.mask))
        return Recipe(tuple(steps))

    def __getitem__(self, name: str) -> Mask:
        for step in self.steps:
            if step.name == name:
                return step.mask
        raise RecipeError(unknown_name("step", name, [s.name for s in self.steps], "the recipe"))

    # -- parameters

    def parameters(self) -> dict[str, Parameter]:
        """Return every parameter by "step.parameter"."""
        return {f"{s.name}.{field}": p for s in self.steps for field, p in s.mask.parameters().items()}

    def settings(self) -> dict[str, Any]:
        """Return the value of every parameter by "step.parameter"."""
        return {f"{s.name}.{field}": getattr(s.mask, field) for s in self.steps for field in s.mask.parameters()}

    def published_parameters(self, shown: Collection[str] = ()) -> dict[str, Any]:
        """Return the parameters that were set and that analysts may be told, by "step.parameter".

        `shown` are the names and categories that the release shows anyway; see `Parameter.tells`.
        """
        withheld = self.withheld(shown)
        return {path: v for path, v in self.settings().items() if v is not None and path not in withheld}

    def withheld(self, shown: Collection[str] = ()) -> tuple[str, ...]:
        """Return the parameters that were set and that analysts must not be told, by "step.parameter"."""
        return tuple(f"{s.name}.{field}" for s in self.steps for field in s.mask.withheld(shown))

    def with_(self, changes: Mapping[str, Any]) -> Recipe:
        """Return a recipe with parameters changed: ``recipe.with_({"noise.lambda2": 0.15})``.

        For one column of a per-column parameter add its name: ``"noise.lambda2.salary"``.
        """
        wanted: dict[str, dict[str, Any]] = {s.name: {} for s in self.steps}
        for path, value in changes.items():
            step, _, rest = path.partition(".")
            field, _, column = rest.partition(".")
            if step not in wanted or field not in self[step].parameters():
                raise RecipeError(unknown_name("parameter", path, self.parameters(), "the recipe"))
            if column:
                value = {**_by_column(self[step], field, wanted[step].get(field)), column: value}
            wanted[step][field] = value
        steps: list[Step] = []
        changed = False
        for name, mask in ((s.name, s.mask) for s in self.steps):
            kept = mask.forget() if changed else mask  # it was fitted on what the steps before it made
            steps.append(Step(name, kept.with_(**wanted[name]) if wanted[name] else kept))
            changed = changed or bool(wanted[name])
        return Recipe(tuple(steps))

    def with_none(self) -> Recipe:
        """Return the recipe that masks nothing: only the removal of identifiers is left."""
        return Recipe(self.steps[:1])

    @property
    def scope(self) -> Scope:
        """The widest scope of its steps."""
        order = [Scope.ROW, Scope.BLOCK, Scope.GLOBAL]
        return max((s.mask.scope for s in self.steps), key=order.index)

    @property
    def preserves_order(self) -> bool:
        """Whether every step preserves order."""
        return all(s.mask.preserves_order for s in self.steps)

    # -- masking

    def fit(self, data: Microdata, draws: Draws) -> Recipe:
        """Return the recipe with every step fitted, each on what the steps before it make of the data; confidential."""
        return self._run(data, draws)[0]

    def apply(self, x: Microdata, draws: Draws) -> Release:
        """Mask the data, fitting each step that has not been fitted."""
        fitted, masked, guarantees = self._run(x, draws)
        return Release(x, (masked, *fitted.further(x, draws)), self, guarantees)

    @property
    def versions(self) -> int:
        """How many masked versions (implicates) a release has: as many as the one step that makes several."""
        return max(s.mask.versions for s in self.steps)

    def further(self, data: Microdata, draws: Draws, verify: bool = True) -> Iterable[Microdata]:
        """Yield the second and later implicates of a fitted recipe.

        What comes before the step that makes them is drawn once: drawn again, its noise could be averaged away.
        """
        if self.versions == 1:
            return
        first = next(i for i, s in enumerate(self.steps) if s.mask.versions > 1)
        _, start, _ = run_steps(self.steps[:first], data, draws, verify=False)
        for number in range(2, self.versions + 1):
            yield run_steps(self.steps[first:], start, draws.child("implicate", number), verify)[1]

    def _run(self, data: Microdata, draws: Draws) -> tuple[Recipe, Microdata, tuple[Guarantee, ...]]:
        if not isinstance(data, Microdata):
            raise DataError(f"a recipe masks Microdata, not {type(data).__name__}: try Microdata(frame, schema).")
        check_separated(data)
        steps, masked, guarantees = run_steps(self.steps, data, check_draws(draws))
        return replace(self, steps=steps), masked, guarantees

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that some step changes or needs; not those that an earlier step makes."""
        found: dict[str, None] = {}
        made: set[str] = set()
        now = schema
        for step in self.steps:
            found |= dict.fromkeys(n for n in step.mask.touches(schema) if n not in made)
            after = step.mask.schema_after(now)
            made |= {*after.names()} - {*now.names()}
            now = after
        return tuple(found)

    def noise(self, names: tuple[str, ...], covariance: Numbers, schema: Schema) -> Any:
        """Return the covariance of all additive noise on these columns, or None if some step is not additive noise."""
        total = np.zeros_like(covariance)
        for step in self.steps:
            added = step.mask.noise(names, covariance + total, schema)
            if added is None:
                return None
            total = total + added
        return total

    def release_model(self, before: NoiseModel, schema: Schema) -> ReleaseModel | None:
        """Return what the steps make of normal records, for formulas; None if that is not known.

        Noise may follow noise. A step with a model of its own, such as a swap, stands alone but for steps that change nothing.
        """
        now: ReleaseModel | None = before
        for step in self.steps:
            if isinstance(now, NoiseModel):
                now = step.mask.release_model(now, schema)
            else:
                added = step.mask.noise(before.names, before.covariance, schema)
                if added is None or added.any():
                    return None
            if now is None:
                return None
        return None if now is None else replace(now, published=self.published_parameters())  # type: ignore[type-var]

    def as_matrix(self, data: Microdata, draws: Draws) -> MatrixForm:
        """Return the steps together as M = AXB + C on the numbers that they mask; refused if a step is no matrix mask.

        What the schema does to the result, rounding to whole numbers and moving to bounds, is not in it.
        """
        _, data, _ = run_steps(self.steps[:1], data, draws, verify=False)
        numbers = tuple(name for name, kind in data.engine.kinds.items() if kind is Kind.NUMBER)
        form = MatrixForm((), ())
        for step in matrix_steps(self.steps[1:], data, draws):
            form = step.together
        return form if form.names else MatrixForm(numbers, numbers)

    # -- TOML

    def to_toml(self, withhold: bool = False, shown: Collection[str] = ()) -> str:
        """Return the recipe as TOML. Nothing learned from the data is in it, and no seed.

        `withhold` is for what is published: it leaves out parameters that analysts must not be told (a secret displacement, a
        threshold that may be somebody's value), and names them. Such a recipe describes a release, and cannot be run. `shown`
        are the names and categories that the release shows anyway.
        """
        header: dict[str, Any] = {"version": RECIPE_VERSION, "sfumato": VERSION}
        if self.digest:
            header["data_digest"] = self.digest
        steps = []
        for step in self.steps:
            secret = step.mask.withheld(shown) if withhold else ()
            fields = {k: v for k, v in step.mask.to_dict().items() if k not in secret}
            left_out = {"withheld": list(secret)} if secret else {}
            steps.append({"name": step.name, "mask": step.mask.name, **fields, **left_out})
        return dump(header, "step", steps)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a recipe from TOML text."""
        try:
            table = parse(text)
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"the recipe is not valid TOML: {error}.") from None
        version = table.get("version", RECIPE_VERSION)
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise RecipeError(
                f"the recipe has version {version}; versions are whole numbers from 1 to {RECIPE_VERSION}."
            )
        if version > RECIPE_VERSION:
            raise RecipeError(
                f"the recipe has version {version}, but this sfumato ({VERSION}) reads versions up to {RECIPE_VERSION}. "
                f"It was written by sfumato {table.get('sfumato', '?')}: upgrade this one, or write the recipe again."
            )
        steps = table.get("step")
        if not isinstance(steps, list) or not all(isinstance(s, dict) for s in steps):
            raise RecipeError("a recipe file holds one [[step]] table per mask; this one has none.")
        return cls(tuple(_step(s, i) for i, s in enumerate(steps, 1)), str(table.get("data_digest", "")))

    def write(self, path: str | Path, withhold: bool = False, shown: Collection[str] = ()) -> None:
        """Write the recipe to a TOML file; see `to_toml`."""
        write_text(path, self.to_toml(withhold, shown))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a recipe from a TOML file."""
        try:
            return cls.from_toml(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"there is no recipe file at {path}.") from None
        except (OSError, UnicodeDecodeError):
            raise RecipeError(f"{path} cannot be read as a recipe: it must be a text file in UTF-8.") from None

    def describe(self) -> Iterable[tuple[str, str, str]]:
        """Yield each step's name, mask and parameters in words."""
        for step in self.steps:
            shown = {k: v for k, v in step.mask.to_dict().items() if v not in ([], {})}
            yield step.name, step.mask.name, ", ".join(f"{k} = {v}" for k, v in shown.items())


def _free(name: str, steps: list[Step]) -> str:
    """Return the name, or the name with the first number that makes it one of its own."""
    taken = {s.name for s in steps}
    return next(n for n in (name if i == 1 else f"{name}_{i}" for i in itertools.count(1)) if n not in taken)


def _by_column(mask: Mask, field: str, already: Any) -> Mapping[str, Any]:
    """Return a per-column parameter as a mapping; one number for all is written out for the columns that are named."""
    if not mask.parameters()[field].per_column:
        raise RecipeError(f"{field} of {mask.name} is one setting for all columns; leave the column out.")
    old = getattr(mask, field) if already is None else already
    if isinstance(old, Mapping):
        return old
    named = getattr(mask, "columns", None) or ()
    return {} if old is None else dict.fromkeys(named, old)


def _step(table: dict[str, Any], number: int) -> Step:
    fields = dict(table)
    name = str(fields.pop("name", fields.get("mask", "")))
    if "mask" not in fields:
        raise RecipeError(f'step {number} of the recipe does not say which mask it is (mask = "kim_noise").')
    if secret := fields.pop("withheld", None):
        raise RecipeError(
            f"step '{name}' does not say {join_names(secret)}: that is withheld from what is published, so this recipe describes a "
            "release and cannot be run. Use the custodian's own recipe file."
        )
    try:
        return Step(name, build("mask", fields))
    except SfumatoError as error:
        raise RecipeError(f"step '{name}': {error}") from None


def run_steps(
    steps: Iterable[Step], data: Microdata, draws: Draws, verify: bool = True
) -> tuple[tuple[Step, ...], Microdata, tuple[Guarantee, ...]]:
    """Run masks one after the other: return them fitted, what they make of the data, and what they guarantee.

    A map masks thousands of times and publishes none of it: it does not ask for guarantees (`verify`).
    """
    fitted: list[Step] = []
    guarantees: list[Guarantee] = []
    for step in steps:
        own = draws.child(step.name)
        try:
            mask = step.mask if step.mask.is_fitted else step.mask.fit(data, own)
            after = run_linked(mask, data, own)
            if verify:
                guarantees += [*mask.guarantees(data, after, step.name), *linked_losses(mask, data, after, step.name)]
        except SfumatoError as error:
            raise type(error)(f"step '{step.name}': {error}") from None
        fitted.append(Step(step.name, mask))
        data = after
    return tuple(fitted), data, tuple(guarantees)
