"""Registration of a data set in the vault: the custodian's decisions, and frozen versions that differ by enough records."""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.contract.draws import Draws
from sfumato.data.columns import Kind
from sfumato.data.exact_sums import scale_of
from sfumato.data.microdata import Microdata, numbers_of
from sfumato.data.warehouse import Warehouse, open_warehouse
from sfumato.errors import DataError, ParameterError, join_names, unknown_name
from sfumato.files import whole_folder, write_text
from sfumato.formats.codebook import read_ddi
from sfumato.mas.cutpoint_strategies import Preview, preview_counts
from sfumato.mas.cutpoints import EXACT_COUNTS, Cutpoints, ValueCounts
from sfumato.mas.dataset import Dataset, save
from sfumato.mas.perturbation import Secret
from sfumato.mas.preparation import (
    BITS,
    OTHER_LEVELS,
    RARE,
    Dependence,
    LevelRecode,
    check_complete,
    check_names,
    check_weights,
    find_dependent,
    find_rare,
    find_variables,
    level_words,
    prepare,
    schema_marks,
    with_recodes,
)
from sfumato.mas.value_counts import (
    TAIL,
    PublicFacts,
    contents_of,
    count_numbers,
    count_values,
    deciles,
    draft,
    public_levels,
    weight_facts,
    with_scale,
)
from sfumato.mas.variable import MISSING, Variable, VariableBins
from sfumato.schema.attribute import Attribute, Role, Scale
from sfumato.schema.schema import Schema
from sfumato.toml import dump, parse
from sfumato.typing import Numbers

# --- freezing
# From microdata to a frozen version of a data set: written whole, or not at all.


@dataclass(frozen=True)
class DatasetPlan:
    """The custodian's decisions about a data set."""

    name: str
    data: Microdata
    cutpoints: Mapping[str, Cutpoints] = field(default_factory=dict)
    title: str = ""
    identity: str | None = None
    recodes: Sequence[LevelRecode] = ()
    registered: str = ""
    """The id of the registration that is frozen, if any."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Public bounds of numbers, by variable; otherwise those of the schema, or read off noisy counts."""
    keep_rare: bool = False
    """Whether users see the names of levels that only a few records have."""
    complete: Sequence[str] = ()
    """Confidential variables of which every record has a value, and one that the schema lists, as everybody may know."""
    at_once: bool = False
    """Whether the levels and gaps of confidential variables are public as the file has them: frozen without registration."""

    def __post_init__(self) -> None:
        _check_complete_names(self)
        for name, given in self.bounds.items():
            if self.data.schema[name].is_design or not (
                isinstance(given, tuple | list) and len(given) == 2 and -math.inf < given[0] < given[1] < math.inf
            ):
                raise ParameterError(
                    f"the bounds of '{name}' are two numbers, the lower one first: 'income': (0, 250000)."
                )

    @property
    def exactly_cut(self) -> tuple[str, ...]:
        """Confidential variables whose cutpoints were chosen from exact counts."""
        marks = schema_marks(self.data.schema)
        return tuple(
            n for n, cut in self.cutpoints.items()
            if isinstance(cut, Cutpoints) and cut.source == EXACT_COUNTS and marks.get(n) == "confidential"
        )  # fmt: skip

    def bounds_of(self, name: str) -> tuple[float | None, float | None]:
        """Return the public bounds of a variable: those of the custodian, or of the schema; None for open."""
        stated = {a.name: a.bounds for a in self.data.schema} | dict(self.bounds)
        return stated.get(name, (None, None))


def write_version(
    plan: DatasetPlan, folder: Path, secret: Draws, earlier: Sequence[Dataset], spark: Any = None
) -> None:
    """Prepare the records of a new version in a folder that only its owner may read."""
    data = plan.data
    if not len(data):
        raise DataError("the data set has no records.")
    check_weights(data)
    keyed = Secret(secret)
    for home in (folder.parent.parent, folder.parent):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(home, 0o700)
    with whole_folder(folder, mode=0o700) as temporary:
        records = temporary / ("records" if data.engine.name == "Spark" else "records.parquet")
        found, levels = _public_variables(plan, temporary, keyed, spark)
        prepare(data, found, secret, records, plan.identity)
        warehouse = open_warehouse(records, spark)
        if plan.identity is not None:
            _check_identity(warehouse, plan.identity)
        n = int(warehouse.ask("SELECT count(*) AS n FROM records")["n"][0])
        scaled = [with_scale(v, warehouse, n, _gaps_of(plan, v)) if v.numeric else v for v in found]
        contents = contents_of(warehouse, scaled, keyed)
        facts_of = PublicFacts.read(warehouse, keyed, scaled, n)
        facts_of.told.update(dict.fromkeys(levels, 1))
        variables: dict[str, Variable] = {}
        for v in scaled:
            base = None if v.base is None else variables[v.base.name]
            variables[v.name] = facts_of.of(replace(v, base=base), plan.bounds_of(v.name), levels.get(v.name))
        check_version(warehouse, variables, earlier, contents)
        facts: dict[str, Any] = {
            "name": plan.name, "version": int(folder.name), "title": plan.title, "engine": data.engine.name,
        }  # fmt: skip
        told = max((dataset.frozen_loss for dataset in earlier), default=0.0)
        told += facts_of.loss(
            variables.values(), contents, [(dataset.variables, dataset.contents) for dataset in earlier]
        )
        facts |= {"contents": contents, "frozen_loss": told, "exact": list(exact_facts(plan, variables.values()))}
        if plan.registered:
            facts["registered"] = plan.registered
        if (weight := weight_facts(warehouse)) is not None:
            facts["weight"] = asdict(weight)
        save(temporary, facts, variables, warehouse)


def _check_complete_names(plan: DatasetPlan) -> None:
    schema, marks = plan.data.schema, schema_marks(plan.data.schema)
    for name in plan.complete:
        if marks[schema[name].name] != "confidential":  # and refuses an unknown name
            raise ParameterError(f"'{name}' is not confidential: whether it is complete is read off the records.")


def _gaps_of(plan: DatasetPlan, variable: Variable) -> bool | None:
    """Return whether a variable has gaps, as far as users are told; None: as the file has them."""
    return None if plan.at_once or variable.known else variable.name not in plan.complete


def _candidates(plan: DatasetPlan, attribute: Attribute) -> bool | None:
    return None if plan.at_once or attribute.role is Role.KEY else attribute.name in plan.complete


def _public_variables(
    plan: DatasetPlan, folder: Path, secret: Secret, spark: Any
) -> tuple[tuple[Variable, ...], dict[str, Numbers]]:
    """Return the variables with the levels that users see, and noisy counts of those of confidential ones, where they were made."""
    data = plan.data
    found = find_variables(data, plan.cutpoints, (), partial(_candidates, plan))
    if not found:
        raise DataError("the data set has no variables besides identifiers and columns of the survey's design.")
    check_complete(data, [v.name for v in found if v.numeric and v.name in plan.complete])
    if plan.at_once:
        return with_recodes(found, plan.recodes), {}
    if plan.keep_rare:
        return with_recodes([_with_all_levels(v, data) for v in found], plan.recodes), {}
    hidden = [v for v in found if not v.known and v.levels and v.cutpoints is None]
    if not hidden:
        return public_levels(data, found, plan.recodes, None)
    with draft(data, hidden, folder, secret, plan.identity, spark) as facts:
        return public_levels(data, found, plan.recodes, facts)


def _with_all_levels(variable: Variable, data: Microdata) -> Variable:
    """Return a confidential variable with the levels of the file and of the schema, none of them joined."""
    if variable.known or not variable.levels or variable.cutpoints is not None:
        return variable
    levels = tuple(level for level in variable.levels if level != OTHER_LEVELS)
    return replace(variable, levels=levels, words=level_words(levels, data.schema[variable.name]))


def exact_facts(plan: DatasetPlan, variables: Iterable[Variable]) -> tuple[str, ...]:
    """Return what users see of confidential variables that was read off exact counts, by the custodian's word."""
    hidden = [v for v in variables if not v.known and v.base is None]
    free = [v.name for v in hidden if v.levels and v.cutpoints is None and v.name not in plan.complete]
    named = free if plan.keep_rare or plan.at_once else []
    gaps = [v.name for v in hidden if plan.at_once]
    listed = {"cutpoints": plan.exactly_cut, "names of levels": named, "whether values are missing": gaps}
    return tuple(f"{what}: {', '.join(names)}" for what, names in listed.items() if names)


def _check_identity(warehouse: Warehouse, identity: str) -> None:
    """Refuse an identity shared by many records: they would have one random number, and be dropped together or not at all.

    Random numbers of n distinct records coincide by chance in about n² / 2^(BITS + 1) cases.
    """
    found = warehouse.ask("SELECT count(*) AS n, count(DISTINCT r) AS d FROM records")
    n, distinct = int(found["n"][0]), int(found["d"][0])
    chance = n * n / 2 ** (BITS + 1)
    if n - distinct > chance + 6 * math.sqrt(chance) + 3:
        raise DataError(
            f"the column '{identity}' does not tell records apart: several have the same value, or none. Name as identity a "
            "column in which every record has a value of its own, or no column."
        )


# --- versions
# A new version of a data set differs from every earlier one by enough records, and so do its cutpoints.
#
# A user who asks the same about two versions that differ by one record can derive that record from counts by known variables,
# whose noise belongs to the set of records. So a version is refused if it differs from an earlier one by few records, as known
# variables have them, or if a cutpoint was moved past few records. Confidential values may change in any number: the noise of
# every sum that they are part of is fresh then, and both answers are charged, so that nobody is told who or how many changed.


FEWEST = 20
_BUCKETS = 2**10
_MASK = 2**31 - 1
_FINE = 2**20
_MULTIPLIERS = (0x2545F491, 0x1B873593)

Variables = Mapping[str, Variable]


def check_version(
    warehouse: Warehouse, variables: Variables, earlier: Sequence[Dataset], contents: Mapping[str, str]
) -> None:
    """Refuse prepared records that differ from an earlier version by nothing, or by too few records."""
    for dataset in earlier:
        same = _same(variables, dataset.variables)
        changed = records_changed(warehouse, variables, dataset, same)
        more = set(variables) - set(dataset.variables)
        if changed == 0 and not more and contents == dataset.contents:
            raise DataError(f"these are the records of version {dataset.version}: there is nothing new to freeze.")
        if 0 < changed < FEWEST:
            raise DataError(
                f"a new version must differ from each earlier one by at least {FEWEST} records, and this one is nearer to "
                f"version {dataset.version}: the difference of two answers would tell about few. Wait until more have changed."
            )
        _check_edges(warehouse, variables, dataset)


def records_changed(warehouse: Warehouse, variables: Variables, dataset: Dataset, same: Sequence[str]) -> int:
    """Return a lower bound of the number of records in one version and not in the other; the larger of removed and added.

    Records are compared on the variables that both versions have. They are put into buckets by a hash, and buckets are compared
    by their size and by the sum of a second hash: only these sums leave the engines.
    """
    weighted = "w" in warehouse.columns and "w" in dataset.warehouse.columns
    new = _buckets(warehouse, [variables[n] for n in same], [dataset.variables[n] for n in same], weighted)
    old = _buckets(dataset.warehouse, [dataset.variables[n] for n in same], [variables[n] for n in same], weighted)
    more = new[0] - old[0]
    exchanged = (more == 0) & (new[1] != old[1])
    return int(exchanged.sum() + max(more[more > 0].sum(), -more[more < 0].sum()))


def _same(one: Variables, other: Variables) -> list[str]:
    """Return the known variables that both versions have with the same levels, or as numbers."""
    both = [n for n in one if n in other and one[n].known and other[n].known]
    names = [n for n in both if one[n].base is None and one[n].numeric == other[n].numeric]
    return sorted(n for n in names if one[n].numeric or one[n].levels == other[n].levels)


def _buckets(
    warehouse: Warehouse, variables: Sequence[Variable], others: Sequence[Variable], weighted: bool
) -> NDArray[np.int64]:
    """Return the size of each bucket, and the sum of a hash of its records; shape (2, 1,024)."""
    terms = []
    for variable, other in zip(variables, others, strict=True):
        if variable.numeric:
            centre = min(variable.centre, other.centre)
            scale = scale_of(max(v.centre - centre + v.scale for v in (variable, other)))
            terms.append(f"CAST(floor(COALESCE(({variable.numbers} - {centre!r}) / {scale!r}, 2) * {_FINE}) AS BIGINT)")
        else:
            terms.append(f"CAST({variable.codes} AS BIGINT)")
    if weighted:
        terms.append(f"CAST(floor(w * {_FINE}) AS BIGINT)")
    hashes = []
    for multiplier in _MULTIPLIERS:
        value = "0"
        for term in terms:  # ((h + term) × odd number) mod 2^31, one term after another
            value = f"(((({value}) + ({term} & {_MASK})) * {multiplier}) & {_MASK})"
        hashes.append(value)
    bucket = f"CAST(floor({hashes[0]} / {(_MASK + 1) // _BUCKETS}) AS BIGINT)"
    found = warehouse.ask(
        f"SELECT b, count(*) AS n, sum(h) AS h FROM (SELECT {bucket} AS b, {hashes[1]} AS h FROM records) AS hashed GROUP BY b"  # noqa: S608
    )
    out = np.zeros((2, _BUCKETS), np.int64)
    out[:, np.asarray(found["b"], np.int64)] = found["n"], found["h"]
    return out


def _check_edges(warehouse: Warehouse, variables: Variables, dataset: Dataset) -> None:
    """Refuse cutpoints that few records separate from those of an earlier version."""
    for name, variable in variables.items():
        before = dataset.variables.get(name)
        if variable.cutpoints is None or before is None or before.cutpoints is None:
            continue
        new, old = set(map(float, variable.cutpoints.edges)), set(map(float, before.cutpoints.edges))
        if new == old:
            continue
        edges = sorted(new | old)
        whole = VariableBins.of(variable, edges)
        found = warehouse.ask(f"SELECT {whole.codes} AS bin, count(*) AS n FROM records GROUP BY {whole.codes}")  # noqa: S608
        counts = np.zeros(len(edges) + 2, np.int64)
        counts[np.asarray(found["bin"], np.int64)] = found["n"]
        for i in range(1, len(edges)):
            moved = (edges[i - 1] in new) != (edges[i] in new) or (edges[i - 1] in old) != (edges[i] in old)
            if moved and 0 < counts[i] < FEWEST:
                raise DataError(
                    f"a cutpoint of '{name}' lies so near to one of version {dataset.version} that few records are between them. "
                    "Keep the cutpoints of that version, or move them further."
                )


# --- registration
# A data set in the vault that is not yet frozen: what the custodian inspects and decides.


_FILE = "registration.toml"
_HEAVY = 2.0
"""Multiple of the weight that noise is scaled to; a record with a larger weight would be exposed."""


@dataclass(frozen=True, eq=False)
class Registration:
    """A registered data set before it is frozen; confidential. Every choice changes it."""

    folder: Path
    name: str
    data: Microdata
    """The original records, in a file that only the owner of the vault may read, or in Spark."""
    title: str = ""
    identity: str | None = None
    """The column that identifies records in every version."""
    recodes: tuple[LevelRecode, ...] = ()
    cutpoints: Mapping[str, Cutpoints] = field(default_factory=dict)
    dependent: tuple[Dependence, ...] = ()
    """Pairs of variables of which one nearly determines the other."""
    rare: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels with very few records, by variable."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Public bounds of numbers that the custodian gave."""
    keep_rare: bool = False
    """Whether users see the names of levels that only a few records have."""
    complete: tuple[str, ...] = ()
    """Confidential variables that are complete, as everybody may know."""
    heavy: bool = False
    """Whether some survey weights are far above nearly all others."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    """Identifies these records with these choices; stored in the version that they are frozen as."""
    secret: Secret | None = field(default=None, repr=False)
    """What the noise on counts of confidential variables depends on."""
    spark: Any = field(default=None, repr=False)

    # -- create, load and remove

    @classmethod
    def make(cls, folder: Path, plan: DatasetPlan, secret: Secret, spark: Any = None) -> Registration:
        """Inspect a data set, and store a private copy; an earlier registration that was not frozen is replaced."""
        data = plan.data
        if not len(data):
            raise DataError("the data set has no records.")
        if plan.identity is not None:
            data.kind(plan.identity)  # refuses an unknown name
        elif data.engine.name == "Spark":
            raise ParameterError(
                "records in Spark need a column that tells them apart in every version: name it as identity."
            )
        check_weights(data)
        counted = count_numbers(data)
        variables = find_variables(data, deciles(counted))
        check_names(plan.recodes, [v.name for v in variables])
        dependent, rare, heavy = find_dependent(data, variables), find_rare(data, variables), _has_heavy(data)
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(folder.parent, 0o700)
        with whole_folder(folder, replace=True, mode=0o700) as temporary:
            _write_raw(data, temporary)
            kept = cls(
                temporary, plan.name, data, plan.title, plan.identity, tuple(plan.recodes), plan.cutpoints, dependent, rare,
                plan.bounds, plan.keep_rare, tuple(plan.complete), heavy, secret=secret, spark=spark,
            )  # fmt: skip
            fits = {name: cut for name, cut in plan.cutpoints.items() if kept._fits(name, cut)}
            replace(kept, cutpoints=fits)._write()
        return cls.load(folder, secret, spark)

    def _fits(self, name: str, cut: Cutpoints) -> bool:
        """Whether cutpoints that were chosen before fit these records: by noisy counts, if the variable is confidential."""
        if not self._offered(name) or (tally := self._counts(name)) is None:
            return False
        return bool(tally.bins(cut.edges).min() >= cut.d) and (tally.whole or not cut.whole)

    @classmethod
    def load(cls, folder: Path, secret: Secret, spark: Any = None) -> Registration:
        """Load a registration written by `make`."""
        try:
            table = parse((folder / _FILE).read_text("utf-8"))
            schema = Schema.from_dict({"attribute": table["attribute"]})
            return cls(
                folder, table["name"], _open_raw(folder, schema, spark), table["title"], table.get("identity"),
                tuple(map(LevelRecode.from_dict, table["recodes"])),
                {name: Cutpoints.from_dict(cut) for name, cut in table["cutpoints"].items()},
                tuple(map(Dependence.from_dict, table["dependent"])),
                {name: tuple(levels) for name, levels in table["rare"].items()},
                {name: (float(low), float(high)) for name, (low, high) in table.get("bounds", {}).items()},
                bool(table.get("keep_rare", False)), tuple(table.get("complete", ())), table["heavy"], table.get("id", ""),
                secret, spark,
            )  # fmt: skip
        except (OSError, KeyError, TypeError, ValueError):
            raise DataError(f"{folder} does not hold a registration. Add the data set again.") from None

    def _write(self) -> None:
        header: dict[str, Any] = {"name": self.name, "title": self.title, "id": self.id}
        header |= {"identity": self.identity} if self.identity is not None else {}
        header |= {
            "recodes": [recode.to_dict() for recode in self.recodes],
            "cutpoints": {name: cut.to_dict() for name, cut in self.cutpoints.items()},
            "dependent": [pair.to_dict() for pair in self.dependent],
            "rare": {name: list(levels) for name, levels in self.rare.items()}, "heavy": self.heavy,
            "bounds": {name: list(ends) for name, ends in self.bounds.items()}, "keep_rare": self.keep_rare,
            "complete": list(self.complete),
        }  # fmt: skip
        text = dump(header, "attribute", (a.to_dict() for a in self.data.schema))
        write_text(self.folder / _FILE, text, confidential=True)

    def remove(self) -> None:
        """Remove the registration, with the copy of the records."""
        remove_registered(self.folder)

    # -- choices

    def preview(self, variable: str, d: int = 75, exact: bool = False) -> Preview:
        """Preview the bins of every strategy for a numerical variable, with at least d records in each.

        Those of a confidential variable are chosen from noisy counts, the ones that freezing takes and charges; with `exact`, from
        exact counts, which is said wherever the data set is described.
        """
        names = [a.name for a in self.data.schema if self._offered(a.name)]
        if variable not in names:
            raise DataError(unknown_name("variable", variable, names, "the list of those that take cutpoints"))
        attribute = self.data.schema[variable]
        counted = count_values(self.data, variable) if exact or attribute.role is Role.KEY else None
        tally = counted.tally if counted is not None else None if exact else self._counts(variable)
        if tally is None:
            raise DataError(f"every value of variable '{variable}' is missing, so it takes no cutpoints. Leave it out.")
        low, high = attribute.bounds
        shown = preview_counts(variable, tally, d, unit=attribute.unit, low=low, high=high)
        if counted is None:
            return shown
        return replace(shown, cutpoints={k: counted.settled(c) for k, c in shown.cutpoints.items()})

    def _counts(self, variable: str) -> ValueCounts | None:
        """Return the value counts that cutpoints of a variable are chosen from; None if nobody has a value."""
        if self.data.schema[variable].role is Role.KEY or self.secret is None:
            return None if (counted := count_values(self.data, variable)) is None else counted.tally
        (found,) = (v for v in find_variables(self.data, {}, (), partial(_candidates, self.plan)) if v.name == variable)
        with draft(self.data, [found], self.folder, self.secret, self.identity, self.spark) as facts:
            return facts.value_counts(found, self.plan.bounds_of(variable))

    def _offered(self, name: str) -> bool:
        """Whether a column is a variable that takes cutpoints."""
        attribute = self.data.schema[name]
        numbers = self.data.kind(name) is Kind.NUMBER and attribute.scale is Scale.ORDERED
        return self.marks[name] in ("known to others", "confidential") and numbers

    def choose(self, variable: str, cutpoints: Cutpoints) -> Registration:
        """Store the custodian's choice of cutpoints."""
        chosen = replace(self, cutpoints={**self.cutpoints, variable: cutpoints}, id=secrets.token_hex(16))
        chosen._write()
        return chosen

    # -- what the custodian reads

    @property
    def marks(self) -> dict[str, str]:
        """How each column is used, in words."""
        return schema_marks(self.data.schema)

    @property
    def plan(self) -> DatasetPlan:
        """The plan to freeze."""
        return DatasetPlan(
            self.name, self.data, self.cutpoints, self.title, self.identity, self.recodes, self.id, self.bounds, self.keep_rare,
            self.complete,
        )  # fmt: skip

    @property
    def without_bounds(self) -> tuple[str, ...]:
        """Confidential numbers without public bounds: freezing reads them off noisy counts, which is charged to all accounts."""
        schema = self.data.schema
        return tuple(
            n for n, mark in self.marks.items()
            if mark == "confidential" and self._offered(n) and None in self.bounds.get(n, schema[n].bounds)
        )  # fmt: skip

    @property
    def without_levels(self) -> tuple[str, ...]:
        """Numerical variables without cutpoints: they can be used in analyses, not in universes."""
        return tuple(n for n in self.marks if self._offered(n) and n not in self.cutpoints)

    def confirmed(self, confirm: bool) -> Registration:
        """Return the registration if no question is open, or the custodian confirms those that are."""
        if self.questions() and not confirm:
            raise DataError(
                f"there are questions about '{self.name}'. {' '.join(self.questions())} Change the schema and add the data set "
                "again, or confirm that it stays so (confirm=True)."
            )
        return self

    def questions(self) -> list[str]:
        """Return the open questions for the custodian, in sentences."""
        rare = [
            f"Very few records have some levels of '{name}' ({join_names(levels, 5)}), and users will see their names. Leave them "
            "out of keep_rare, and freezing makes them one level."
            for name, levels in (self.rare.items() if self.keep_rare else ())
        ]
        found = {(pair.one, pair.other) for pair in self.dependent}
        pairs = [
            pair
            for pair in self.dependent  # if two determine each other, keep the worse direction: from known to confidential
            if (pair.other, pair.one) not in found or (pair.marks[::-1], pair.one) < (pair.marks, pair.other)
        ]
        heavy = (
            f"Some survey weights are more than {_HEAVY:g} times as large as those of 99.5 % of the records, for which the "
            "noise on weighted answers is made: trim them before the data set is added."
        )
        return [*map(str, pairs), *rare, *([heavy] if self.heavy else [])]

    def notes(self) -> list[str]:
        """Return what freezing will do where the custodian says nothing, in sentences."""
        found = []
        if names := self.without_bounds:
            found.append(
                f"No public bounds yet: {join_names(names)}. Give them where the codebook or common sense has some "
                "(bounds={'income': (0, 250_000)}); otherwise freezing reads them off noisy counts, and what these tell is charged "
                "to every account."
            )
        if self.rare and not self.keep_rare:
            found.append(
                f"Levels that fewer than {RARE} records have become one level, '{OTHER_LEVELS}': those of {join_names(self.rare)}."
            )
        if names := self.without_word:
            found.append(
                f"Nothing is told of whether anybody has no value of {join_names(names)}: there is a level '{MISSING}' in any case, "
                f"which also takes levels of very few records that the schema does not list. Where everybody may know that nobody "
                "has, list the levels in the schema (labels), and say complete=['income']."
            )
        if names := self.plan.exactly_cut:
            found.append(
                f"Cutpoints of {join_names(names)} were chosen from EXACT counts of a confidential variable: no account holds what "
                "they tell. The data set will say so."
            )
        return found

    @property
    def without_word(self) -> tuple[str, ...]:
        """Confidential variables that nobody called complete: users are told that gaps may exist."""
        return tuple(n for n, mark in self.marks.items() if mark == "confidential" and n not in self.complete)

    def __str__(self) -> str:
        wide = max(map(len, self.marks))
        lines = [f"{self.name}: {len(self.data):,} records. CONFIDENTIAL: for the custodian.", ""]
        lines += [f"{name:<{wide}}  {mark}" for name, mark in self.marks.items()]
        if names := self.without_levels:
            lines += ["", f"No cutpoints yet, so not for universes: {join_names(names)}."]
        lines += [*([""] if self.notes() else []), *self.notes()]
        return "\n".join([*lines, *([""] if self.questions() else []), *self.questions()])

    def __repr__(self) -> str:
        return f"Registration({self.name}, {len(self.data.schema)} columns, in {self.data.engine.name})"


def _has_heavy(data: Microdata) -> bool:
    """Return whether some survey weights are far above the weight that noise is scaled to."""
    if (name := data.schema.one(Role.WEIGHT)) is None or (counted := count_values(data, name)) is None:
        return False
    attribute, most = data.schema[name], _HEAVY * counted.tally.quantile(TAIL)
    found = data.engine.reduce(
        lambda rows: np.array([float((numbers_of(rows.columns[name], attribute) > most).sum())]), [name]
    )
    return bool(found[0])


def _write_raw(data: Microdata, folder: Path) -> None:
    if data.engine.name == "Spark":
        data.engine.write(str(folder / "data"), "parquet")
        return
    path = folder / "data.parquet"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    data.engine.write(str(path), "parquet")  # overwriting a private file keeps it private
    os.chmod(path, 0o600)


def _open_raw(folder: Path, schema: Schema, spark: Any) -> Microdata:
    if (path := folder / "data.parquet").is_file():
        return Microdata.read(path, schema, engine="duckdb")
    if spark is None:
        raise DataError("this data set lives in Spark. Open the vault with a Spark session (spark=...).")
    from sfumato.data.spark_engine import read_folder

    return Microdata(read_folder(spark, folder / "data"), schema)


def remove_registered(folder: Path) -> None:
    """Remove a registration, its description last, so that an interrupted removal can be resumed."""
    for path in folder.iterdir():
        if path.name != _FILE:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / _FILE).unlink(missing_ok=True)
    folder.rmdir()


def id_in(folder: Path) -> str:
    """Return the id of a registration, even if its records are already removed; "" if it has none."""
    try:
        return str(parse((folder / _FILE).read_text("utf-8")).get("id", ""))
    except (OSError, ValueError):
        return ""


def chosen_in(folder: Path) -> dict[str, Cutpoints]:
    """Return the cutpoints chosen for the registration in a folder; none if there is none, or it cannot be read."""
    try:
        table = parse((folder / _FILE).read_text("utf-8"))
        return {name: Cutpoints.from_dict(cut) for name, cut in table["cutpoints"].items()}
    except (OSError, KeyError, TypeError, ValueError, ParameterError):
        return {}


def check_name(name: str) -> None:
    """Refuse names of data sets that are not plain words: they are also names of folders."""
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError("the name of a data set is a plain word, such as cps or survey_2024.")


def described_by(
    schema: Schema | str | Path | None, columns: Callable[[], Collection[str]]
) -> tuple[Schema | None, str]:
    """Return the schema, and the title of the study if a DDI-Codebook gives one.

    `columns` returns the columns of the data; it is called only if a codebook describes several files.
    """
    if schema is None or isinstance(schema, Schema):
        return schema, ""
    return read_ddi(schema, columns) if Path(schema).suffix.lower() == ".xml" else (Schema.read(schema), "")


def columns_of(data: Any) -> tuple[str, ...]:
    """Return the names of the columns of microdata, a frame or a file."""
    opened = Microdata.read(data) if isinstance(data, str | Path) else data
    return (opened if isinstance(opened, Microdata) else Microdata(opened)).schema.names()


def opened_as(data: Any, schema: Schema | None, identity: str | None, known: Sequence[str] | None) -> Microdata:
    """Return data with their schema; a column used only to identify records becomes an identifier."""
    if isinstance(data, str | Path):
        data = Microdata.read(data, schema)
    opened = data if isinstance(data, Microdata) else Microdata(data, schema)
    found = opened.schema if schema is None else schema
    if identity is not None and identity in found and found[identity].role is Role.OTHER:
        found = found.change(identity, role="identifier")
    return opened.with_schema(found if known is None else known_as(found, known))


def known_as(schema: Schema, known: Sequence[str]) -> Schema:
    """Return a schema in which the named columns are known to others, and no others are."""
    for name in known:
        if schema[name].is_design:  # and refuses an unknown name
            raise ParameterError(f"column '{name}' is the {schema[name].role} of the survey's design, and no variable.")
    roles = {
        a.name: Role.KEY if a.name in known else Role.CONFIDENTIAL if a.role is Role.KEY else a.role for a in schema
    }
    return Schema(tuple(a.with_(role=roles[a.name]) for a in schema))
