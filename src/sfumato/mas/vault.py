"""The vault: registered data sets, the secret, policies, and the steps from a question to an answer."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from sfumato.contract.draws import Draws
from sfumato.data.microdata import Microdata
from sfumato.errors import DataError, ParameterError, SfumatoError, join_names, unknown_name
from sfumato.files import sweep, whole_folder, write_text
from sfumato.mas.accounts import Accounts, loss_of
from sfumato.mas.analyses.tables import CrossTab
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.cutpoint_strategies import Preview
from sfumato.mas.cutpoints import Cutpoints
from sfumato.mas.dataset import Dataset, load
from sfumato.mas.ledger import Alert, CellCounts, Ledger, Place, alerts_in, project_account
from sfumato.mas.mechanism import Mechanism, TooFewToDropError, universe_sums
from sfumato.mas.perturbation import Secret, ledger_key
from sfumato.mas.policy import Policy
from sfumato.mas.preparation import LevelRecode
from sfumato.mas.question import Analysis, Question, Result, Steps
from sfumato.mas.register import Register, known_part
from sfumato.mas.registration import (
    DatasetPlan,
    Registration,
    check_name,
    chosen_in,
    columns_of,
    described_by,
    id_in,
    opened_as,
    remove_registered,
    write_version,
)
from sfumato.mas.remedies import Price, losses_of, nearest, takes_one_step
from sfumato.mas.rule import UniverseEvidence
from sfumato.mas.shelf import Shelf, all_tables, published
from sfumato.mas.sums import PrivacyLoss
from sfumato.mas.universe import Selection, Spec, Universe
from sfumato.mas.usage import UsageReport, usage_of
from sfumato.mas.variable import Variable
from sfumato.schema.schema import Schema
from sfumato.toml import dump, parse
from sfumato.utility.estimators import TooManyTerms

# --- dry run
# The analysis of a dry run, which checks only the universe.


class DryRun(Analysis, abstract=True):
    """No analysis: only check whether a universe passes its rules, for `Vault.check`."""

    kind = "check"

    @override
    def wording(self) -> str:
        return self.name

    @override
    def variables(self, known: Mapping[str, Variable]) -> tuple[Variable, ...]:
        return ()

    @override
    def steps(self, question: Question, register: Register) -> Steps:
        yield from ()
        return Result({})


# --- answering
# From a question to an answer: rules on known variables, protected sums, the analysis, rules on its evidence.


_LISTED = 20
"""An answer explains at most this many codes; `Dataset.describe` has them all."""
_STEPS = 64
"""No analysis asks more often."""


def question_of(dataset: Dataset, policy: Policy, universe: Spec, analysis: Analysis) -> Question:
    """Return a validated question; unknown names and levels are refused before anything is computed."""
    if not isinstance(analysis, Analysis):
        raise ParameterError("an analysis is an object such as CrossTab(('sex',)) or OLS('income ~ age').")
    if not isinstance(policy, Policy):
        raise ParameterError("a policy is a Policy, such as Policy.named('hardened').")
    question = Question(dataset.codebook, policy, Universe.of(universe), analysis)
    with contextlib.suppress(TooManyTerms):  # not an error: it is refused and logged
        analysis.variables(dataset.variables)
    Selection.of(question.universe, dataset.variables)
    return question


@dataclass(eq=False)
class Answering:
    """One question on its way to an answer; `losses` is what was computed so far, to be charged whatever comes of it."""

    dataset: Dataset
    question: Question
    losses: list[PrivacyLoss] = field(default_factory=list)

    def answer(self) -> Answer | Refusal:
        """Answer the question, or refuse it."""
        try:
            return self._answer()
        except TooFewToDropError:
            return Refusal("drop", "Too few records would be left after some are dropped.", "Choose a larger universe.")

    def _answer(self) -> Answer | Refusal:
        question, policy = self.question, self.question.policy
        try:
            question.analysis.variables(question.codebook.variables)
        except TooManyTerms:
            return Refusal("formula_size", "The formula has too many terms.", "Write out the terms that matter.")
        register = self.dataset.register(policy)
        sides = question.analysis.sides(question.codebook.variables)
        with contextlib.suppress(DataError):  # a universe of too many variables is refused by its rule
            self.dataset.cubes.foresee([v for v in (*question.selection.plain.variables, *sides) if v.known])
        for rule in policy.rules:
            if (refusal := rule.before(question, register)) is not None:
                return refusal
        universe = self._universe()
        for rule in policy.rules:
            if (
                rule.needs is UniverseEvidence
                and (refusal := rule.judged(question.analysis.kind, (universe,))) is not None
            ):
                return refusal
        result = self._run(question.analysis.steps(question, register))
        if isinstance(result, Refusal):
            return result
        for rule in policy.rules:
            if (refusal := rule.judged(question.analysis.kind, (universe, *result.evidence))) is not None:
                return refusal
        dataset, label = question.codebook.label, policy.label
        citation = self.dataset.secret.citation(dataset, label, question.wording)
        notes = (*result.notes, *_meanings(question))
        return Answer(question.analysis.name, result.tables, notes, dataset, label, citation, result.facts)

    def _run(self, steps: Steps) -> Result | Refusal:
        """Give an analysis the protected sums that it asks for, until it returns."""
        mechanism = Mechanism(self.dataset, self.question.policy, self.question)
        try:
            request = next(steps)
            for _ in range(_STEPS):
                sums, losses = mechanism.protect(request)
                self.losses += losses
                request = steps.send(sums)
        except StopIteration as done:
            found: Result | Refusal = done.value
            return found
        raise DataError("this analysis takes too many steps. Ask for something simpler.")

    def _universe(self) -> UniverseEvidence:
        """Return noisy counts of the sets that form the universe, where its conditions are confidential."""
        question = self.question
        if (counted := universe_sums(question)) is None:
            return UniverseEvidence(question, None)
        about, request = counted
        sums, losses = Mechanism(self.dataset, question.policy, about).protect(request)
        self.losses += losses
        register, known = self.dataset.register(question.policy), known_part(question.selection)
        n = max(register.count(known), 1.0)
        return UniverseEvidence(
            question, sums.cells("cells"), {u: register.count(known, u) / n for u in question.codebook.units}
        )


def cell_counts(dataset: Dataset, policy: Policy) -> CellCounts | None:
    """Return how many records cells of known variables have, where the policy's accounts suppose that others are not known."""
    if policy.accounts.others == "known":
        return None
    return lambda table: dataset.cubes.of(table).counts


def _meanings(question: Question) -> Iterator[str]:
    """Yield the meanings of the levels in the answer, where they are codes; the order does not depend on the wording."""
    used = {v.name: v for v in question.analysis.variables(question.codebook.variables)}
    for name, variable in sorted(used.items()):
        told = [f"{a} = {b}" for a, b in zip(variable.levels, variable.words, strict=False) if a != b]
        if told:
            yield f"Levels of {name}: {join_names(told, _LISTED)}."


# --- policy store
# The policies of a vault: one for all data sets, optionally one for each data set, and every earlier version.


class PolicyStore:
    """The policies of a vault. A name and a version identify one policy in the whole vault; earlier ones are kept."""

    def __init__(self, vault: Path) -> None:
        self._vault = vault
        self._read: dict[Path, tuple[tuple[int, int], Policy]] = {}

    def _home(self, dataset: str | None) -> Path:
        return self._vault if dataset is None else self._vault / "datasets" / dataset

    def current(self, dataset: str | None = None) -> Policy | None:
        """Return the policy of the vault, or the own policy of a data set; None if it has none."""
        path = self._home(dataset) / "policy.toml"
        try:
            facts = path.stat()
        except OSError:
            return None
        mark = (facts.st_mtime_ns, facts.st_size)
        if path not in self._read or self._read[path][0] != mark:
            self._read[path] = (mark, Policy.read(path))
        return self._read[path][1]

    def earlier(self) -> list[Policy]:
        """Return every policy that was ever in force for the vault or one of its data sets."""
        found = [*self._vault.glob("policies/*.toml"), *self._vault.glob("datasets/*/policies/*.toml")]
        return [Policy.read(path) for path in sorted(found)]

    def put(self, policy: Policy, dataset: str | None = None) -> Policy:
        """Put a policy in force; raise its version if it differs from the last policy of the same name."""
        chosen = numbered(policy, self.earlier())
        home = self._home(dataset)
        number = 1 + max((int(p.stem) for p in home.glob("policies/*.toml") if p.stem.isdigit()), default=0)
        chosen.write(home / "policies" / f"{number}.toml")
        chosen.write(home / "policy.toml")
        return chosen

    def remove(self, dataset: str) -> None:
        """Remove a data set's own policy, so that the policy of the vault applies again."""
        (self._home(dataset) / "policy.toml").unlink(missing_ok=True)


def numbered(policy: Policy, earlier: list[Policy]) -> Policy:
    """Return a policy with its version: that of an equal policy, else one more than the highest version of its name."""
    same = [old for old in earlier if old.title == policy.title]
    for old in same:
        if policy.with_(version=old.version) == old:
            return old
    highest = max((old.version for old in same), default=0)
    return policy.with_(version=max(policy.version, highest + 1))


# --- vault
# The vault: registered data sets, the secret, the policy, and the steps from a question to an answer.


LEDGER = "ledger.sqlite"


class Vault:
    """A folder that only its owner may read: prepared records, their metadata, and the secret on which drops and noise depend.

    Rows never leave it: users ask questions, and get an `Answer` or a `Refusal`.
    """

    def __init__(self, folder: Path, secret: Draws, policy: Policy, spark: Any = None) -> None:
        self.folder = folder
        self._policy = policy
        self._shelf = PolicyStore(folder)
        self._secret = secret
        self._spark = spark
        self.ledger = Ledger(folder / LEDGER, ledger_key(secret))
        self._open: dict[tuple[str, int], Dataset] = {}
        self._shelves: dict[Path, Shelf | None] = {}

    @classmethod
    def create(
        cls, folder: str | Path, policy: str | Policy = "hardened", *, spark: Any = None, secret: Draws | None = None
    ) -> Self:
        """Make an empty vault with a fresh secret, or with that of another vault, whose answers it then gives."""
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise DataError(f"the folder {path} already holds files. Choose another one for the vault.")
        wanted = Policy.named(policy) if isinstance(policy, str) else policy
        secret = Draws.secret() if secret is None else secret
        with whole_folder(path) as temporary:
            with contextlib.suppress(OSError):
                os.chmod(temporary, 0o700)
            secret.write(temporary / "secret.toml")
            kept = cls(temporary, secret, PolicyStore(temporary).put(wanted)).policy
        return cls(path, secret, kept, spark)

    @classmethod
    def open(cls, folder: str | Path, *, spark: Any = None) -> Self:
        """Open a vault."""
        path = Path(folder)
        if not (path / "secret.toml").is_file():
            raise DataError(f"{path} is not a vault. Make one with Vault.create, or with sfumato vault add.")
        if not (ledger := path / LEDGER).is_file() or not ledger.stat().st_size:
            raise DataError(
                f"the ledger {ledger} is gone. With an empty one everything could be asked again: restore it from a copy."
            )
        sweep(path)
        return cls(path, Draws.read(path / "secret.toml"), Policy.read(path / "policy.toml"), spark)

    def __repr__(self) -> str:
        return f"Vault({len(self.names())} data sets, policy {self.policy.label})"

    # -- policies

    @property
    def policy(self) -> Policy:
        """The policy of all data sets that have none of their own."""
        return self._shelf.current() or self._policy

    def policy_of(self, name: str) -> Policy:
        """Return the policy in force for a data set: its own, or that of the vault."""
        return self._shelf.current(name) or self.policy

    def set_policy(self, policy: str | Policy | None, dataset: str | None = None) -> Policy:
        """Put a policy in force for the vault, or for one data set; None removes the data set's own policy.

        A policy that differs from the last one of the same name gets a higher version; earlier ones are kept.
        """
        if dataset is not None and dataset not in self.names():
            raise DataError(unknown_name("data set", dataset, self.names(), "this vault"))
        if policy is None:
            if dataset is None:
                raise ParameterError("the vault itself needs a policy. Name one, such as hardened.")
            self._shelf.remove(dataset)
            return self.policy
        if not isinstance(policy, str | Policy):
            raise ParameterError("a policy is a Policy, or the name of one.")
        return self._shelf.put(Policy.named(policy) if isinstance(policy, str) else policy, dataset)

    # -- data sets

    def add(
        self,
        name: str,
        data: Any,
        schema: Schema | str | Path | None = None,
        *,
        title: str = "",
        identity: str | None = None,
        known: Sequence[str] | None = None,
        recodes: Sequence[LevelRecode] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        keep_rare: bool = False,
        complete: Sequence[str] = (),
    ) -> Registration:
        """Register a data set: keep a private copy, and show the custodian what to decide before it is frozen.

        Parameters
        ----------
        name
            A plain word. A name that exists already gets a new version when it is frozen. Cutpoints chosen for it are kept, where
            they fit the new records.
        data
            Microdata, a frame, or the name of a file.
        schema
            The metadata of the columns: a schema, its TOML file, or a DDI-Codebook (.xml).
        title
            For users; by default that of the DDI-Codebook, if there is one.
        identity
            The column that identifies records in every version: the same question about two versions then has the same noise for
            unchanged records. Records in Spark need one.
        known
            The variables that others may know about a person; by default those with the role key.
        recodes
            Groups of levels under new names.
        bounds
            Public bounds of numbers: ``{"income": (0, 250_000)}``. Values beyond them are clipped; noise is made for them. Where
            neither these nor the schema give any, freezing reads them off noisy counts.
        keep_rare
            Whether users see the names of levels that fewer than 20 records have; by default these become one level.
        complete
            Confidential variables of which every record has a value, and one of the levels that the schema lists, as everybody may
            know. All others have the level "missing", whether any record has it or not.
        """
        check_name(name)
        described, said = described_by(schema, lambda: columns_of(data))
        opened = opened_as(data, described, identity, known)
        folder = self.folder / "registered" / name
        before = self.dataset(name).variables.values() if self.versions(name) else ()
        chosen = {v.name: v.cutpoints for v in before if v.cutpoints is not None} | chosen_in(folder)
        cutpoints = {variable: cut for variable, cut in chosen.items() if variable in opened.schema}
        plan = DatasetPlan(
            name, opened, cutpoints, title or said, identity, tuple(recodes), bounds=bounds or {}, keep_rare=keep_rare,
            complete=tuple(complete),
        )  # fmt: skip
        return Registration.make(folder, plan, self._family(name), self._spark)

    def registered(self) -> list[str]:
        """Return the names of the data sets that are registered and not yet frozen."""
        home = self.folder / "registered"
        found = home.iterdir() if home.is_dir() else ()
        return sorted(p.name for p in found if not p.name.startswith(".") and any(p.iterdir()))

    def registration(self, name: str) -> Registration:
        """Return a data set that is registered and not yet frozen."""
        if name not in self.registered():
            raise DataError(
                unknown_name("data set", name, self.registered(), "the list of those that wait to be frozen")
            )
        return Registration.load(self.folder / "registered" / name, self._family(name), self._spark)

    def cutpoints(
        self, name: str, variable: str, strategy: str | Cutpoints | None = None, d: int = 75, *, exact: bool = False
    ) -> Preview:
        """Preview the bins of each strategy for a variable of a registered data set; with a strategy, or cutpoints, choose them.

        Those of a confidential variable are chosen from noisy counts; `exact` takes exact ones, which the data set and its reports
        then say. Cutpoints of your own are your public choice, as bounds are.
        """
        if not isinstance(strategy, str | Cutpoints | None):
            raise ParameterError(
                "a strategy is one by name, such as 'hybrid', or edges of your own: Cutpoints((29, 39), whole=True)."
            )
        registration = self.registration(name)
        shown = registration.preview(variable, d, exact)
        if isinstance(strategy, Cutpoints):
            shown = replace(shown, cutpoints={**shown.cutpoints, "own": strategy}, chosen="own")
        elif strategy is not None:
            shown = replace(shown, chosen=strategy)
        chosen = shown.choose(shown.chosen)
        if strategy is not None:
            if shown.tally.bins(chosen.edges).min() < d:
                raise DataError(
                    f"these cutpoints of '{variable}' leave fewer than {d} records in a bin. Move them, or allow fewer (d, "
                    "--least)."
                )
            registration.choose(variable, chosen)
        return shown

    def freeze(
        self,
        name: str,
        data: Microdata | None = None,
        cutpoints: Mapping[str, Cutpoints] | None = None,
        *,
        title: str = "",
        identity: str | None = None,
        recodes: Sequence[LevelRecode] = (),
        bounds: Mapping[str, tuple[float, float]] | None = None,
        confirm: bool = False,
        exact: bool = False,
    ) -> Dataset:
        """Freeze a data set as the next version of its name; it never changes afterwards.

        A registered data set is frozen as the custodian decided, and the copy of its records is removed. `confirm` states that
        the questions of the registration were read and answered. With `data`, registration is skipped, and no question is asked:
        users then see the names of all levels, and which variables have gaps, as the file has them (`Dataset.exact` says so).
        `exact` states that cutpoints of confidential variables may come from exact counts.
        """
        check_name(name)
        registration = None
        if data is None:
            if (done := self.finish_freezing(name)) is not None:
                return done
            registration = self.registration(name).confirmed(confirm)
            plan = registration.plan
        else:
            if not isinstance(data, Microdata):
                raise ParameterError(
                    "what is frozen at once is Microdata. Add a frame or a file first: vault.add(name, data)."
                )
            plan = DatasetPlan(
                name, data, cutpoints or {}, title, identity, recodes, bounds=bounds or {}, keep_rare=True, at_once=True
            )
            if not exact and (names := plan.exactly_cut):
                raise DataError(
                    f"the cutpoints of {join_names(names)} were chosen from exact counts of a confidential variable. Choose them "
                    "from noisy ones, by vault.add and vault.cutpoints, give edges of your own, or say exact=True."
                )
        version = max(self.versions(name), default=0) + 1
        earlier = [self.dataset(name, v) for v in self.versions(name)]
        folder = self.folder / "datasets" / name / str(version)
        write_version(plan, folder, self._family(name).draws, earlier, self._spark)
        if registration is not None:
            registration.remove()
        return self.dataset(name, version)

    def finish_freezing(self, name: str) -> Dataset | None:
        """Finish an interrupted freeze: remove the copy of the records and return the version it wrote; None if there is none."""
        check_name(name)
        registered, versions = self.folder / "registered" / name, self.versions(name)
        if not registered.is_dir() or not versions:
            return None
        newest = self.folder / "datasets" / name / str(versions[-1]) / "dataset.toml"
        frozen = parse(newest.read_text("utf-8")).get("registered", "")
        if any(registered.iterdir()) and (not frozen or id_in(registered) != frozen):
            return None
        remove_registered(registered)
        return self.dataset(name)

    def names(self) -> list[str]:
        """Return the names of the data sets."""
        home = self.folder / "datasets"
        return sorted(p.name for p in home.iterdir() if self.versions(p.name)) if home.is_dir() else []

    def versions(self, name: str) -> list[int]:
        """Return the versions of a data set, oldest first."""
        home = self.folder / "datasets" / name
        found = home.iterdir() if home.is_dir() else ()
        return sorted(int(p.name) for p in found if p.name.isdigit() and (p / "dataset.toml").is_file())

    def dataset(self, name: str, version: int | None = None) -> Dataset:
        """Return a data set; the newest version, if none is named."""
        if name not in self.names():
            raise DataError(unknown_name("data set", name, self.names(), "this vault"))
        if version is not None and not isinstance(version, int):
            raise ParameterError("the version of a data set is a whole number.")
        wanted = self.versions(name)[-1] if version is None else version
        if wanted not in self.versions(name):
            raise DataError(unknown_name("version", str(wanted), map(str, self.versions(name)), f"data set '{name}'"))
        if (name, wanted) not in self._open:
            folder = self.folder / "datasets" / name / str(wanted)
            self._open[name, wanted] = load(folder, self._family(name), self._spark)
        return self._open[name, wanted]

    def _family(self, name: str) -> Secret:
        return Secret(self._secret.child("family", name))

    # -- questions

    def ask(
        self,
        dataset: str | Dataset,
        universe: Spec,
        analysis: Analysis,
        policy: Policy | None = None,
        *,
        user: str = "custodian",
    ) -> Answer | Refusal:
        """Answer or refuse a question: rules, protected sums, accounts; log it."""
        about, question = self._question(dataset, universe, analysis, policy)
        if (
            policy is None
            and (shelf := self.shelf(about)) is not None
            and (free := shelf.answer(question, about)) is not None
        ):
            return free
        if (refusal := self._robot(question, user)) is not None:
            return refusal
        answering = Answering(about, question)
        with self._logged(answering, user):
            found = answering.answer()
        if isinstance(found, Refusal):
            told, place = {"outcome": "refused", "rule": found.rule}, None
        else:
            told, place = {"outcome": "answered", "citation": found.citation}, Place(about, question.selection)
        settled = self._settled(answering, user, told, place)
        found = found if settled is None else settled
        return self._helpful(answering, found, user) if isinstance(found, Refusal) else found

    def check(
        self, dataset: str | Dataset, universe: Spec = None, policy: Policy | None = None, *, user: str = "custodian"
    ) -> Refusal | None:
        """Check whether a universe passes its rules: return the refusal, or None; charge and log it like a question."""
        about, question = self._question(dataset, universe, DryRun(), policy)
        if (refusal := self._robot(question, user)) is not None:
            return refusal
        answering = Answering(about, question)
        with self._logged(answering, user):
            found = answering.answer()
        refusal = found if isinstance(found, Refusal) else None
        told = {"outcome": "passed"} if refusal is None else {"outcome": "refused", "rule": refusal.rule}
        settled = self._settled(answering, user, told)
        refusal = refusal if settled is None else settled
        return None if refusal is None else self._helpful(answering, refusal, user)

    def price(
        self,
        dataset: str | Dataset,
        universe: Spec,
        analysis: Analysis,
        policy: Policy | None = None,
        *,
        user: str = "custodian",
    ) -> Price:
        """Return what a question would cost its worst-placed record, without asking it; nothing is computed, charged or logged.

        It depends on known variables, public facts and the user's account, and tells nothing of what others asked. What is on the
        shelf, or was answered before, is free.
        """
        about, question = self._question(dataset, universe, analysis, policy)
        accounts = question.policy.accounts
        limits = self._limits(about, accounts, user)
        free = policy is None and (shelf := self.shelf(about)) is not None and shelf.answer(question, about) is not None
        losses = () if free or math.isinf(min(limits.values())) else losses_of(about, question)
        found = self.ledger.dearest(about.name, losses, limits, about.variables, cell_counts(about, question.policy))
        cost, left = found[user]  # the common account says what others asked: no price tells of it
        return Price(
            cost, {"user": left}, bool(cost) and not takes_one_step(question), left / cost if cost else math.inf
        )

    def _limits(self, dataset: Dataset, accounts: Accounts, user: str) -> dict[str, float]:
        """Return what may be told of a record from now on: to a user, and to those who share the common account."""
        project, told = self.projects().get(user), self._told_to_all(dataset)
        return {user: accounts.limit(user=True) - told, project_account(project): accounts.limit(project) - told}

    def _helpful(self, answering: Answering, refusal: Refusal, user: str) -> Refusal:
        """Return a refusal with the nearest question that would be answered, found without a confidential value."""
        dataset, policy = answering.dataset, answering.question.policy
        limits = self._limits(dataset, policy.accounts, user)

        def affordable(other: Question) -> bool:
            if math.isinf(min(limits.values())):
                return True
            try:
                losses = losses_of(dataset, other)
            except SfumatoError:
                return False
            return self.ledger.affords(dataset.name, losses, limits, dataset.variables, cell_counts(dataset, policy))

        return replace(refusal, nearest=nearest(dataset, answering.question, refusal, affordable))

    def _question(
        self, dataset: str | Dataset, universe: Spec, analysis: Analysis, policy: Policy | None
    ) -> tuple[Dataset, Question]:
        asked = dataset if isinstance(dataset, Dataset) else self.dataset(dataset)
        return asked, question_of(asked, self.policy_of(asked.name) if policy is None else policy, universe, analysis)

    def _robot(self, question: Question, user: str) -> Refusal | None:
        limits = question.policy
        content = {**question.to_json(), "policy": limits.label}
        return self.ledger.refuse_robot(user, question.codebook.name, content, limits.per_minute)

    @contextmanager
    def _logged(self, answering: Answering, user: str) -> Iterator[None]:
        """Log an error that appears only in the computation, and charge what was computed; hide internal errors."""
        try:
            yield
        except Exception as error:
            self._settled(answering, user, {"outcome": "error"})
            if isinstance(error, SfumatoError):
                raise
            raise DataError(
                "this could not be computed. Ask for something simpler, or of another universe; the custodian can look into it."
            ) from None

    def _settled(
        self, answering: Answering, user: str, told: Mapping[str, str], place: Place | None = None
    ) -> Refusal | None:
        question, dataset = answering.question, answering.dataset
        limits = question.policy
        content = {**question.to_json(), "policy": limits.label, **told}
        return self.ledger.settle(
            user, dataset.name, content, answering.losses, limits.accounts, dataset.variables, limits.per_minute, place,
            self.projects().get(user), self._told_to_all(dataset), cell_counts(dataset, limits),
        )  # fmt: skip

    # -- the shelf

    def shelve(
        self, dataset: str | Dataset, tables: Sequence[CrossTab | Sequence[str]] | Mapping[CrossTab, float] | None = None, *,
        right: float, sides: int = 2,
    ) -> Shelf:  # fmt: skip
        """Publish tables for everybody, charged once to every account; what they answer is free from then on.

        Parameters
        ----------
        dataset
            A frozen data set, or its name for the newest version. A version has one shelf.
        tables
            Cross-tabulations, or the names of their sides; by default all tables of counts of one and two variables, or of up to
            `sides`. A mapping says how often each is asked for, as `workload` finds it in the log: the noise is split accordingly.
        right
            Guesses between two values, of 100, that are right with all these tables, at most.
        sides
            Most variables of a table, where no tables are given: 1, 2 or 3.
        """
        about = dataset if isinstance(dataset, Dataset) else self.dataset(dataset)
        policy = self.policy_of(about.name)
        if self.shelf(about) is not None:
            raise DataError(
                f"{about.label} has a shelf already, and what it told cannot be taken back. Freeze a new version first."
            )
        if not 50 < right < 100:
            raise ParameterError("right is a number of guesses of 100, above 50 and below 100, such as 57.")
        if sides not in (1, 2, 3):
            raise ParameterError("sides is the largest number of variables in a table of the shelf: 1, 2 or 3.")
        if tables is None:
            wanted = all_tables(about.variables, sides)
        elif isinstance(tables, Mapping):
            wanted = dict(tables)
        else:
            wanted = {tab if isinstance(tab, CrossTab) else CrossTab(tuple(tab)): 1.0 for tab in tables}
        if not wanted:
            raise ParameterError("a shelf needs at least one table.")
        self._check_room(about, policy, loss_of(right / 100))
        shelf = published(about, policy, wanted, right)
        shelf.write(self._folder_of(about))
        content = {"dataset": about.label, "universe": [], "analysis": "shelf", "outcome": "published", "right": right}
        self.ledger.settle("custodian", about.name, content)
        return shelf

    def shelf(self, dataset: str | Dataset) -> Shelf | None:
        """Return the tables that were published for everybody; None if there are none."""
        about = dataset if isinstance(dataset, Dataset) else self.dataset(dataset)
        folder = self._folder_of(about)
        if self._shelves.get(folder) is None:
            self._shelves[folder] = Shelf.read(folder)
        return self._shelves[folder]

    def _check_room(self, dataset: Dataset, policy: Policy, loss: float) -> None:
        """Refuse a shelf after which somebody could have been told more of a record than the policy allows."""
        told, accounts, name = self._told_to_all(dataset) + loss, policy.accounts, dataset.name
        users = sorted({entry.user for entry in self.ledger.entries() if entry.family == name})
        limits = [(user, accounts.limit(user=True)) for user in [*users, "nobody yet"]]
        limits += [(project_account(project), accounts.limit(project)) for project in (None, *accounts.projects)]
        for payer, limit in limits:
            balance = self.ledger.balance(payer, name, dataset.variables, cell_counts(dataset, policy))
            if float(balance.spent.max(initial=0.0)) + told > limit:
                raise ParameterError(
                    "with this shelf more would be told of some records than the accounts of the policy allow. Choose a smaller "
                    "right, or raise the limits."
                )

    def _told_to_all(self, about: Dataset) -> float:
        """Return what everybody was told of a record: by facts read off at freezing, and by the shelves of all versions."""
        versions = [self.dataset(about.name, version) for version in self.versions(about.name)]
        shelves = (self.shelf(one) for one in versions)
        return max(one.frozen_loss for one in (about, *versions)) + sum(
            shelf.loss for shelf in shelves if shelf is not None
        )

    def _folder_of(self, dataset: Dataset) -> Path:
        return self.folder / "datasets" / dataset.name / str(dataset.version)

    # -- projects

    def projects(self) -> dict[str, str]:
        """Return the project of each user who has one."""
        path = self.folder / "projects.toml"
        return (
            {str(k): str(v) for k, v in parse(path.read_text("utf-8")).get("users", {}).items()}
            if path.is_file()
            else {}
        )

    def assign(self, user: str, project: str | None) -> None:
        """Give a user the share of a project in the common account (`Accounts.projects`); None for that of all others."""
        users = {name: of for name, of in self.projects().items() if name != user}
        users |= {user: project} if project else {}
        write_text(self.folder / "projects.toml", dump({"users": users}, "user", ()), confidential=True)

    # -- for the custodian

    def alerts(self, dataset: str | None = None) -> list[Alert]:
        """Return the questions about universes that differ from earlier ones by few records; for the custodian alone."""
        names = self.names() if dataset is None else [self.dataset(dataset).name]
        return alerts_in(entry for entry in self.ledger.entries() if entry.family in names)

    def usage(self, dataset: str) -> UsageReport:
        """Return the questions of each user, what all answers tell of a record, and the alerts; for the custodian alone."""
        counts = cell_counts(self.dataset(dataset), self.policy_of(dataset))
        return usage_of(self, dataset, tuple(self.ledger.entries()), counts)
