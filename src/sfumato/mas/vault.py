"""The vault: registered data sets, the secret, the policy, and the way from a question to an answer."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sfumato.contract import Draws
from sfumato.errors import DataError, ParameterError, SfumatoError, unknown_name
from sfumato.files import sweep, whole_folder
from sfumato.mas.accounts import Sets
from sfumato.mas.analysis import Analysis
from sfumato.mas.answer import Answer, Refusal
from sfumato.mas.answering import answer, question_of
from sfumato.mas.cutpoints.cutpoints import Cutpoints
from sfumato.mas.cutpoints.preview import Preview
from sfumato.mas.dataset import Dataset, load
from sfumato.mas.dry_run import DryRun
from sfumato.mas.freezing import Plan, write_version
from sfumato.mas.ledger import Ledger
from sfumato.mas.overlap import Alert, Place, alerts_in
from sfumato.mas.policy import Policy
from sfumato.mas.question import Question
from sfumato.mas.recode import Recode
from sfumato.mas.registration import (
    Registration,
    check_name,
    chosen_in,
    columns_of,
    described_by,
    id_in,
    opened_as,
    remove_registered,
)  # fmt: skip
from sfumato.mas.secrets import Secret, ledger_key
from sfumato.mas.shelf import Shelf
from sfumato.mas.standing import Standing, standing_of
from sfumato.mas.universe import Spec
from sfumato.microdata import Microdata
from sfumato.schema import Schema

LEDGER = "ledger.sqlite"


class Vault:
    """A folder that only its owner may read: prepared records, what they mean, and the secret that drops and noise hang on.

    Rows never leave it: users ask questions, and get an `Answer` or a `Refusal`.
    """

    def __init__(self, folder: Path, secret: Draws, policy: Policy, spark: Any = None) -> None:
        self.folder = folder
        self._policy = policy
        self._shelf = Shelf(folder)
        self._secret = secret
        self._spark = spark
        self.ledger = Ledger(folder / LEDGER, ledger_key(secret))
        self._open: dict[tuple[str, int], Dataset] = {}

    @classmethod
    def create(cls, folder: str | Path, policy: str | Policy = "hardened", *, spark: Any = None) -> Self:
        """Make an empty vault with a fresh secret."""
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise DataError(f"the folder {path} already holds files. Choose another one for the vault.")
        wanted = Policy.named(policy) if isinstance(policy, str) else policy
        secret = Draws.secret()
        with whole_folder(path) as temporary:
            with contextlib.suppress(OSError):
                os.chmod(temporary, 0o700)
            secret.write(temporary / "secret.toml")
            kept = cls(temporary, secret, Shelf(temporary).put(wanted)).policy
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
        """Return the policy that holds for a data set: its own, or that of the vault."""
        return self._shelf.current(name) or self.policy

    def set_policy(self, policy: str | Policy | None, dataset: str | None = None) -> Policy:
        """Let a policy hold for the vault, or for one data set; None gives a data set that of the vault again.

        A policy that differs from the one that bore its name before gets a higher version, and earlier ones are kept.
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
        recodes: Sequence[Recode] = (),
    ) -> Registration:
        """Register a data set: keep a private copy, and show the custodian what has to be decided before it is frozen.

        Parameters
        ----------
        name
            A plain word. A name that is there already gets a new version when it is frozen. Cutpoints that were chosen for it
            are kept, where they fit the new records.
        data
            Microdata, a frame, or the name of a file.
        schema
            What the columns mean: a schema, its TOML file, or a DDI-Codebook (.xml).
        title
            For users; that of the DDI-Codebook, if there is one.
        identity
            The column that tells records apart in every version: who asks the same of two versions then gets the same noise for
            records that did not change. Records in Spark need one.
        known
            The variables that others may know of a person; those with the role key, if not given.
        recodes
            Groups of levels under names of their own.
        """
        check_name(name)
        described, said = described_by(schema, lambda: columns_of(data))
        opened = opened_as(data, described, identity, known)
        folder = self.folder / "registered" / name
        before = self.dataset(name).variables.values() if self.versions(name) else ()
        chosen = {v.name: v.cutpoints for v in before if v.cutpoints is not None} | chosen_in(folder)
        cutpoints = {variable: cut for variable, cut in chosen.items() if variable in opened.schema}
        plan = Plan(name, opened, cutpoints, title or said, identity, tuple(recodes))
        return Registration.make(folder, plan, self._spark)

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
        return Registration.load(self.folder / "registered" / name, self._spark)

    def cutpoints(self, name: str, variable: str, strategy: str | Cutpoints | None = None, d: int = 75) -> Preview:
        """Show what each strategy makes of a variable of a registered data set; with a strategy, or cutpoints, choose them."""
        if not isinstance(strategy, str | Cutpoints | None):
            raise ParameterError(
                "a strategy is one by name, such as 'hybrid', or edges of your own: Cutpoints((29, 39), whole=True)."
            )
        registration = self.registration(name)
        shown = registration.preview(variable, d)
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
        recodes: Sequence[Recode] = (),
        confirm: bool = False,
    ) -> Dataset:
        """Prepare a data set as the next version of its name; from then on it does not change.

        What was added is frozen as the custodian decided, and the copy of the records is removed; `confirm` says that the
        questions of the registration were read and answered. With `data` the step of adding is left out, and nothing is asked.
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
            plan = Plan(name, data, cutpoints or {}, title, identity, recodes)
        version = max(self.versions(name), default=0) + 1
        earlier = [self.dataset(name, v) for v in self.versions(name)]
        folder = self.folder / "datasets" / name / str(version)
        write_version(plan, folder, self._family(name).draws, earlier, self._spark)
        if registration is not None:
            registration.remove()
        return self.dataset(name, version)

    def finish_freezing(self, name: str) -> Dataset | None:
        """Return what a freeze wrote that died before the copy of the records was gone, and remove the copy; None if none did."""
        check_name(name)
        registered, versions = self.folder / "registered" / name, self.versions(name)
        if not registered.is_dir() or not versions:
            return None
        newest = self.folder / "datasets" / name / str(versions[-1]) / "dataset.toml"
        frozen = tomllib.loads(newest.read_text("utf-8")).get("registered", "")
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
        """Answer a question, or refuse it: rules, subsample, computation, rules again, perturbation, accounts; it is logged."""
        question = self._question(dataset, universe, analysis, policy)
        if (refusal := self._robot(question, user)) is not None:
            return refusal
        with self._logged(question, user):
            found, sets = answer(question)
        if isinstance(found, Refusal):
            told, place = {"outcome": "refused", "rule": found.rule}, None
        else:
            told, place = (
                {"outcome": "answered", "citation": found.citation},
                Place(question.dataset, question.selection),
            )
        settled = self._settled(question, user, told, sets, place)
        return found if settled is None else settled

    def check(
        self, dataset: str | Dataset, universe: Spec = None, policy: Policy | None = None, *, user: str = "custodian"
    ) -> Refusal | None:
        """Say whether a universe would pass its rules: the refusal, or None; it is charged and logged as a question is."""
        question = self._question(dataset, universe, DryRun(), policy)
        if (refusal := self._robot(question, user)) is not None:
            return refusal
        with self._logged(question, user):
            refusal = question.refused("universe")
        told = {"outcome": "passed"} if refusal is None else {"outcome": "refused", "rule": refusal.rule}
        settled = self._settled(question, user, told, question.looked.values())
        return refusal if settled is None else settled

    def _question(self, dataset: str | Dataset, universe: Spec, analysis: Analysis, policy: Policy | None) -> Question:
        asked = dataset if isinstance(dataset, Dataset) else self.dataset(dataset)
        return question_of(asked, self.policy_of(asked.name) if policy is None else policy, universe, analysis)

    def _robot(self, question: Question, user: str) -> Refusal | None:
        limits = question.policy
        content = {**question.to_json(), "policy": limits.label}
        return self.ledger.refuse_robot(user, question.dataset.name, content, limits.per_minute)

    @contextmanager
    def _logged(self, question: Question, user: str) -> Iterator[None]:
        """Log a mistake that only shows when it is computed, and charge what rules looked at; errors from inside stay inside."""
        try:
            yield
        except Exception as error:
            self._settled(question, user, {"outcome": "error"}, question.looked.values())
            if isinstance(error, SfumatoError):
                raise
            raise DataError(
                "this could not be computed. Ask for something simpler, or of another universe; the custodian can look into it."
            ) from None

    def _settled(
        self, question: Question, user: str, told: Mapping[str, str], sets: Iterable[Sets], place: Place | None = None
    ) -> Refusal | None:
        limits, asked = question.policy, question.dataset
        content = {**question.to_json(), "policy": limits.label, **told}
        through = limits.perturbation
        return self.ledger.settle(
            user, asked.name, content, tuple(one.through(through) for one in sets), limits.accounts, asked.variables,
            limits.per_minute, place,
        )  # fmt: skip

    # -- for the custodian

    def alerts(self, dataset: str | None = None) -> list[Alert]:
        """Return the questions about universes that differ from earlier ones by few records; for the custodian alone."""
        names = self.names() if dataset is None else [self.dataset(dataset).name]
        return alerts_in(entry for entry in self.ledger.entries() if entry.family in names)

    def standing(self, dataset: str) -> Standing:
        """Return who asked how much, what was spent, the accumulated loss and the alerts; for the custodian alone."""
        return standing_of(self, dataset, tuple(self.ledger.entries()))
