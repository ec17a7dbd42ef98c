"""Optimal full-domain recoding: one level for each key, the best of all choices under which the models hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar

from typing_extensions import override

from sfumato.contract import Measure, Release, Side, Snooper, param
from sfumato.data.microdata import Batch, Microdata
from sfumato.errors import DataError, ParameterError, join_names, refuse_unknown
from sfumato.masks.anonymity.candidates import Candidate, KeyedFile, Verdict
from sfumato.masks.anonymity.generalisation import Facts, Generalisation, relabelled
from sfumato.masks.anonymity.key_levels import KeyLevels, check_heights, checked_levels
from sfumato.masks.anonymity.search import SCORES, LatticeSearch, LatticeSolution


class FullDomainRecoding(Generalisation):
    """Optimal full-domain recoding: each key has one level of its hierarchy, and no choice of levels is better.

    Records in classes that break a model are suppressed, up to a share of all. The search is exact: it leaves out only choices that
    cannot be releases, or cannot be better (Samarati 2001; El Emam and others 2009: OLA; Kohlmayer and others 2012: Flash). Stopped
    by time, it says how far from the best its choice may be. A key without a hierarchy gets one: small neighbouring numbers are
    merged into ranges, rare categories into "other".

    Examples
    --------
    >>> from sfumato import Draws
    >>> from sfumato.datasets import teachers
    >>> data = teachers(2_000)
    >>> mask = FullDomainRecoding(k=5, suppression=0.02).fit(data, Draws(1))
    >>> mask.solution.optimal
    True
    """

    takes_population: ClassVar[bool] = True
    _: KW_ONLY
    suppression: float = param(
        default=0.0, doc="share of the records that may be suppressed", low=0, high=1, usual=(0.0, 0.1)
    )
    objective: Any = param(
        default="granularity",
        doc="score to maximise: granularity, discernibility, class_size, or a measure of utility",
        of_data="nothing",
    )
    levels: Mapping[str, int] | None = param(
        default=None, doc="the level of each key, if it is not searched for: a solution that is applied again",
        columns="weights", low=0, integer=True, of_data="nothing",
    )  # fmt: skip
    lowest: Mapping[str, int] | None = param(
        default=None, doc="the finest level of a key that may be released; 0 if not named", columns="weights", low=0,
        integer=True, of_data="nothing",
    )  # fmt: skip
    highest: Mapping[str, int] | None = param(
        default=None, doc="the coarsest level of a key that may be released; the root if not named", columns="weights", low=0,
        integer=True, of_data="nothing",
    )  # fmt: skip
    seconds: float = param(default=60.0, doc="how long to search at most", low=0, above=True, high=3600)
    population_file: str | None = param(
        default=None,
        doc="file of the population, or of counts of persons in a column with the role weight",
        published=False,
    )

    @override
    def validate(self) -> None:
        super().validate()
        known = isinstance(self.objective, str) and self.objective in SCORES
        utility = isinstance(self.objective, Measure) and self.objective.side is Side.UTILITY
        if not known and not utility:
            raise ParameterError(
                f"objective of {self.name} must be one of {join_names(SCORES)}, or a measure of utility such as NonUniformEntropy()."
            )

    def with_population(self, people: Microdata) -> FullDomainRecoding:
        """Return the mask with a table of the population, for k_map, delta_presence and a journalist's risk; it is never written.

        Its keys are written as in the file, before they are generalised; a column with the role weight counts persons.
        """
        return replace(self, population=people, rule=None)

    @override
    def _people(self, keys: Sequence[KeyLevels]) -> Batch | None:
        if not self.rules().uses_population:
            return None
        people = self._population()
        names = [key.name for key in keys]
        refuse_unknown("key", people.engine.kinds, "the population table", *names, error=DataError)
        weight = people.schema.one("weight")
        return people.batch([*names, *([weight] if weight else [])])

    def _population(self) -> Microdata:
        if self.population is not None:
            return self.population  # type: ignore[no-any-return]
        if self.population_file is None:
            raise DataError(
                "a model needs a table of the population. Give it with mask.with_population(people), or name its file "
                "(population_file=...)."
            )
        return Microdata.read(self.population_file)

    @override
    def _released_people(self, facts: Facts) -> Microdata | None:
        return relabelled(self._population(), facts.keys, facts.solution) if self.rules().uses_population else None

    @override
    def solve(self, file: KeyedFile, data: Microdata) -> LatticeSolution:
        measure, name = self.objective, self.objective if isinstance(self.objective, str) else self.objective.name
        score = None if isinstance(measure, str) else lambda candidate, verdict: self._utility(data, candidate, verdict)
        search = LatticeSearch(
            file, self.rules(), self.allowed(file.records), self._ranges(file.keys), name, self.seconds, score
        )
        found = search.run()
        if found is None:
            raise DataError(self._unreached(search, file))
        return found

    def _unreached(self, search: LatticeSearch, file: KeyedFile) -> str:
        if search.stopped:
            return (
                f"no release was found within {self.seconds:g} seconds, and the coarsest levels are none. Raise seconds, loosen a "
                "model, allow more suppression, or use fewer keys."
            )
        reason = search.reasons()
        where = "even where every key has its coarsest level" if self.levels is None else "at these levels"
        return (
            f"the models cannot be reached, {where}: {reason}, of {file.records:,}, and at most {self.allowed(file.records):,} may "
            "be. Nothing is released. Loosen a model, allow more suppression, or use fewer keys."
        )

    def _utility(self, data: Microdata, candidate: Candidate, verdict: Verdict) -> float:
        """Return the measure of utility of the release that a candidate would be."""
        keys = candidate.file.keys
        rules = {key.name: level for key, level in zip(keys, candidate.levels, strict=True)}
        solution = LatticeSolution(
            tuple(rules), tuple(k.height for k in keys), candidate.levels, 0.0, 0.0, verdict.suppressed, 1, (), "", 0, 0
        )
        fitted = self._learn(data, self._read(data), keys, solution)
        from sfumato.contract.draws import Draws
        from sfumato.contract.linked_columns import run_linked

        return float(self.objective.score(Release(data, (run_linked(fitted, data, Draws(0)),)), Snooper()).value)

    def _ranges(self, keys: Sequence[KeyLevels]) -> tuple[tuple[int, int], ...]:
        """Return the finest and the coarsest level of each key."""
        if self.levels is not None:
            return tuple((level, level) for level in checked_levels(self.levels, keys))
        names = {key.name: key.height for key in keys}
        check_heights("lowest", self.lowest or {}, keys)
        check_heights("highest", self.highest or {}, keys)
        low, high = self.lowest or {}, self.highest or {}
        ranges = tuple((low.get(name, 0), high.get(name, top)) for name, top in names.items())
        for name, (first, last) in zip(names, ranges, strict=True):
            if first > last:
                raise ParameterError(f"the lowest level of '{name}', {first}, is above its highest, {last}.")
        return ranges
