"""Sensitivity rules: which cells would disclose a contributor, and rules from texts such as "p% 10" or "P(10,1)"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract.parameters import build, find, param
from sfumato.errors import DataError, ParameterError, did_you_mean, join_names
from sfumato.tables.largest_contributors import (
    CellContributors,
    contributors_by_cell,
    contributors_of,
    listed_in,
    requests_of,
    waived_of,
    worst_attack,
)
from sfumato.tables.sensitivity import Sensitivity, SensitivityRule
from sfumato.tables.table import Table
from sfumato.typing import Flags, Numbers, Whole

_ROUNDING = 1e-13  # a shortfall below this share of the total is a rounding error


def coalition() -> Any:
    """Declare the number of respondents who collude."""
    return param(1, doc="how many respondents of a cell put together what they know", low=0, high=100, integer=True)


def weights() -> Any:
    """Declare what attackers know of survey weights."""
    return param(
        "known", choices=("known", "copies", "unknown"),
        doc="survey weights: 'known' to attackers, 'copies' (a weight of 3 is three such contributors), or 'unknown'",
    )  # fmt: skip


def negative() -> Any:
    """Declare what to do with negative contributions."""
    return param(
        "refuse", choices=("refuse", "absolute"), doc="negative contributions: 'refuse', or take 'absolute' values"
    )


def waived() -> Any:
    """Declare who needs no protection."""
    return param(None, doc="names of contributors who waived protection, beside those that the table knows")


def levels() -> Any:
    """Declare on which side of the value the attacker's interval must reach."""
    return param(
        "both", choices=("both", "upper", "sliding"),
        doc="protection 'both' above and below the value, above ('upper'), or of that width anywhere ('sliding')",
    )  # fmt: skip


def names_of(where: str, value: object) -> tuple[str, ...] | None:
    """Return a list of names as a tuple; refuse anything else."""
    if value is None:
        return None
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple | set) else None
    if found is None:
        raise ParameterError(f"{where} must be a list of names.")
    return tuple(map(str, found))


def attack(
    table: Table, size: int, how: str, sign: str, names: tuple[str, ...] | None
) -> tuple[CellContributors, Numbers, Numbers]:
    """Return the largest contributors, the largest contribution to protect, and the sum of a coalition of `size` others."""
    free = waived_of(table, names)
    everyone = contributors_by_cell(table, size + 1, how, sign)
    targets = everyone if free is None else contributors_by_cell(table, 1, how, sign, ~free)
    return everyone, *worst_attack(everyone, targets, size, free is not None)


def sensitivity_from(table: Table, shortfall: Numbers, total: Numbers, sides: str, reason: str) -> Sensitivity:
    """Return the cells with a shortfall, which is their protection level.

    Below the value the level is the same, but only down to zero where everybody knows that nothing is negative.
    """
    unsafe = shortfall > _ROUNDING * np.abs(total)
    return levelled(table, unsafe, np.where(unsafe, shortfall, 0.0), sides, reason)


def levelled(table: Table, unsafe: Flags, upper: Numbers, sides: str, reason: str) -> Sensitivity:
    """Return unsafe cells with a level above the value, and the level below it that `sides` requires."""
    zero = np.zeros(len(table))
    upper = np.where(unsafe, upper, 0.0)
    lower = np.minimum(upper, np.maximum(table.value, 0.0)) if table.nonnegative else upper
    reasons = np.where(unsafe, reason, "").astype(object)
    if sides == "sliding":
        return Sensitivity(unsafe, zero, zero, upper + lower, reasons)
    return Sensitivity(unsafe, upper, lower if sides == "both" else zero, zero, reasons)


class ByHand(SensitivityRule):
    """No cell is unsafe by itself: only those are that an a-priori file, or the status in a table, calls so.

    For tables whose primary cells were found elsewhere: `Suppression(rules=ByHand(), a_priori=...)`. Together with other rules
    it gives the level of cells that are marked unsafe and that no other rule calls unsafe. Levels in the `APriori` take
    precedence.

    τ-ARGUS manual, section 5.7 (MAN).
    """

    title: ClassVar[str] = "cells marked by hand, margin {self.margin:g} %"

    margin: float = param(
        default=10.0, doc="protection level of a marked cell in percent of its value, where nothing else says", low=0
    )

    def assess(self, table: Table) -> Sensitivity:
        """Return an assessment without unsafe cells."""
        nothing = np.zeros(len(table))
        return Sensitivity.of(np.zeros(len(table), bool), nothing, nothing, self.label())


def margin_by_hand(rule: SensitivityRule) -> float:
    """Return the margin of cells marked by hand, in percent: of this rule, or of one among several."""
    several = (rule, *getattr(rule, "rules", ()))
    return next((r.margin for r in several if isinstance(r, ByHand)), ByHand().margin)


class _WaivableRule(SensitivityRule, abstract=True):
    """A rule that does not protect contributors who waived it: `waived` is a list of their names."""

    @override
    def validate(self) -> None:
        object.__setattr__(self, "waived", names_of(f"waived of {self.name}", getattr(self, "waived", None)))


class MinimumContributors(_WaivableRule):
    """A cell is unsafe if fewer than n contributors are in it: holdings, not their records.

    In a cell with one contributor, everybody knows its contribution; with two, each knows the other's. A cell whose
    contributors all waived protection is safe. The level is `margin` percent of the value, as for the minimum frequency.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    title: ClassVar[str] = "fewer than {self.n} contributors"

    n: int = param(default=3, doc="how many contributors a cell must have", low=1, integer=True, usual=(2, 10))
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    nonzero: bool = param(default=False, doc="whether only contributors who gave something are counted")
    waived: tuple[str, ...] | None = waived()
    levels: str = levels()

    @override
    def assess(self, table: Table) -> Sensitivity:
        everyone = contributors_of(table)
        unsafe = (contributors_of(table, self.nonzero) < self.n) & (everyone > 0)
        free = waived_of(table, self.waived)
        if free is not None:
            unsafe &= requests_of(table, free.astype(np.int64))[:, 0] < everyone
        return levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())


class MinimumFrequency(SensitivityRule):
    """A cell is unsafe if it has fewer than n records, or contributors; without weights.

    A minimum says nothing about widths, so the protection level is `margin` percent of the value; a count is hidden by at least
    1, since less leaves a single whole number. A cell without records is safe unless `zeros` is set.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2; τ-ARGUS manual, section 2.2.
    """

    title: ClassVar[str] = "fewer than {self.n} {self.count}"

    n: int = param(default=3, doc="how many records a cell must have", low=1, integer=True, usual=(2, 10))
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    count: str = param(default="records", choices=("records", "contributors"), doc="what is counted")
    zeros: bool = param(default=False, doc="whether cells without a record are unsafe too")
    levels: str = levels()

    @override
    def assess(self, table: Table) -> Sensitivity:
        count = records_in(table) if self.count == "records" else contributors_of(table)
        unsafe = (count < self.n) & (self.zeros | (count > 0))
        return levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())


def records_in(table: Table) -> Numbers:
    """Return the number of records of every cell; refuse where the table was read without."""
    if np.isnan(table.frequency).any():
        raise DataError(
            "the table does not say how many records its cells have. Read it with them, or make it from microdata."
        )
    return table.frequency


def margin_of(table: Table, percent: float) -> Numbers:
    """Return a percentage of every cell's value, and at least 1 in a table of counts."""
    share = percent / 100 * np.abs(table.value)
    return np.maximum(share, 1.0) if table.is_count else share


class NK(_WaivableRule):
    """A cell is unsafe if its n largest contributors have more than k percent of its total.

    x1 + … + xn > k/100 · T. The protection level is 100/k · (x1 + … + xn) − T: if the total were that much larger, the cell
    would be safe. n is the coalition: n − 1 of the largest, who know the total, attack the remaining one. So a contributor who
    waived protection counts as one of the others, and at least one of the n largest must not have waived it.

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    title: ClassVar[str] = "(n, k) rule, n = {self.n}, k = {self.k:g}"

    n: int = param(default=1, doc="how many of the largest contributors", low=1, high=100, integer=True)
    k: float = param(
        default=75.0, doc="how much of the total they may have, in percent", low=0, above=True, high=100, usual=(95, 60)
    )
    weights: str = weights()
    negative: str = negative()
    waived: tuple[str, ...] | None = waived()
    levels: str = levels()

    @override
    def assess(self, table: Table) -> Sensitivity:
        cell, target, others = attack(table, self.n - 1, self.weights, self.negative, self.waived)
        shortfall = 100 * (target + others) / self.k - cell.total
        return sensitivity_from(table, shortfall, cell.total, self.levels, self.label())


class PPercent(_WaivableRule):
    """A cell is unsafe if the second largest contributor can estimate the largest to within p percent.

    The second largest subtracts its own contribution from the total; the result is too high by what all others gave. The cell
    is unsafe if that is less than p% of the largest, x1: T − x1 − x2 < p/100 · x1. With `coalition` c the c largest others act
    together. The protection level is the shortfall: p/100 · x1 − (T − x1 − x2).

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2; coalitions: τ-ARGUS manual, section 2.2.
    """

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True, usual=(5, 30))
    coalition: int = coalition()
    weights: str = weights()
    negative: str = negative()
    waived: tuple[str, ...] | None = waived()
    levels: str = levels()

    @override
    def label(self) -> str:
        together = f", coalitions of {self.coalition}" if self.coalition != 1 else ""
        return f"p% rule, p = {self.p:g}{together}"

    @override
    def assess(self, table: Table) -> Sensitivity:
        cell, target, others = attack(table, self.coalition, self.weights, self.negative, self.waived)
        shortfall = self.p * target / 100 - (cell.total - target - others)
        return sensitivity_from(table, shortfall, cell.total, self.levels, self.label())


class PQ(_WaivableRule):
    """A cell is unsafe if those who knew contributions to within q percent can now estimate one to within p percent.

    The second largest knows each other contribution to within q% before publication, so that its estimate of the largest is
    off by q% of what the others gave: the cell is unsafe if q/100 · (T − x1 − x2) < p/100 · x1. That is the p% rule for
    100 p/q percent, with its protection level p/q · x1 − (T − x1 − x2).

    Hundepool et al., Statistical Disclosure Control (2012), section 4.2.2.
    """

    title: ClassVar[str] = "(p, q) rule, p = {self.p:g}, q = {self.q:g}"

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, above=True, usual=(5, 30))
    q: float = param(
        default=100.0, doc="how closely contributions are known before, in percent", low=0, above=True, high=100
    )
    coalition: int = coalition()
    weights: str = weights()
    negative: str = negative()
    waived: tuple[str, ...] | None = waived()
    levels: str = levels()

    @override
    def validate(self) -> None:
        if self.p > self.q:
            raise ParameterError(
                f"p of pq must be at most q: nobody can be asked to know less than before. Got {self.p:g} and {self.q:g}."
            )
        super().validate()

    @override
    def assess(self, table: Table) -> Sensitivity:
        shared = {name: getattr(self, name) for name in ("coalition", "weights", "negative", "waived", "levels")}
        return PPercent(100 * self.p / self.q, **shared).assess(table).because(self.label())


class PTN(_WaivableRule):
    """A cell is unsafe if some contributor's precision threshold is above the noise that hides it from some other.

    Contributor r must be protected to within PT(r); others know it to within its noise N(r), and it knows itself to within its
    self noise SN(r). Target t is unsafe from suspect s if PT(t) > SN(s) + Σ N(r) over all r but the two; the protection level
    of the cell is the largest such difference. Here PT(r) = max(p/100 · |x|, least), and 0 for a contributor who waived
    protection; N(r) = q/100 · |x|; SN(r) = own/100 · |x|. Where attackers do not know the survey weights, what a weight adds to
    the total is noise too, in all three. Contributions may be negative.

    With q = 100, own = 0 and least = 0 it is the p% rule.

    D. Gray, Precision threshold and noise: an alternative framework of sensitivity measures, PSD 2016, LNCS 9867, 15–27.
    """

    title: ClassVar[str] = "precision threshold and noise, p = {self.p:g}, q = {self.q:g}"

    p: float = param(default=10.0, doc="how close an estimate may come, in percent", low=0, usual=(5, 30))
    q: float = param(default=100.0, doc="how closely others know a contribution, in percent of it", low=0, above=True)
    own: float = param(default=0.0, doc="how closely a contributor knows its own, in percent of it", low=0)
    least: float = param(default=0.0, doc="the least distance to protect, however small a contribution is", low=0)
    coalition: int = coalition()
    weights: str = weights()
    waived: tuple[str, ...] | None = waived()
    levels: str = levels()

    @override
    def validate(self) -> None:
        if self.p == 0 and self.least == 0:
            raise ParameterError("ptn protects nothing with p = 0 and least = 0: one of them must be above 0.")
        if self.own > self.q:
            raise ParameterError(
                "own of ptn must be at most q: nobody knows its own contribution worse than others do."
            )
        super().validate()

    @override
    def assess(self, table: Table) -> Sensitivity:
        cell, target, others = attack(table, self.coalition, self.weights, "absolute", self.waived)
        q = self.q / 100
        noise = q * cell.own + (cell.total - cell.own) if self.weights == "unknown" else q * cell.total
        someone = np.isfinite(target)
        target = np.where(someone, target, 0.0)
        threshold = np.maximum(self.p * target / 100, self.least)
        shortfall = threshold - (noise - q * target - (q - self.own / 100) * others)
        shortfall = np.where(someone, shortfall, -np.inf)
        return sensitivity_from(table, shortfall, cell.total, self.levels, self.label())


class Request(SensitivityRule):
    """A cell is unsafe if its largest contributor asked for protection and has more than `share` percent of the total.

    Requests have two codes with a share each (`share` for code 1, `second` for code 2; the same if not given). If anybody in
    the cell asked, it is also unsafe if it has fewer than `minimum` records: a larger contributor who did not ask could find
    out the one who did. Where several are equally large, it is enough that one of them asked.

    Requests are a column of the data (Table.of(..., request=...)), or a list of names here, who have code 1.

    τ-ARGUS manual, section 2.2 (request rule).
    """

    title: ClassVar[str] = "request rule, share {self.share:g}%"

    share: float = param(
        default=70.0, doc="share of the total above which a request counts, in percent", low=0, high=100
    )
    second: float | None = param(
        default=None, doc="the same for requests with code 2; as `share` if not given", low=0, high=100
    )
    minimum: int = param(default=0, doc="records below which any request counts", low=0, integer=True)
    margin: float = param(default=10.0, doc="protection level, in percent of the cell's value", low=0, above=True)
    requested: tuple[str, ...] | None = param(
        default=None, doc="names of contributors who asked, beside those the table knows"
    )
    weights: str = weights()
    negative: str = negative()
    levels: str = levels()

    @override
    def validate(self) -> None:
        object.__setattr__(self, "requested", names_of("requested of request", self.requested))

    @override
    def assess(self, table: Table) -> Sensitivity:
        codes = self._codes(table)
        largest = contributors_by_cell(table, 1, self.weights, self.negative)
        total, unsafe = largest.total, np.zeros(len(table), bool)
        for code, share in ((1, self.share), (2, self.share if self.second is None else self.second)):
            if not (codes == code).any():
                continue
            asking = contributors_by_cell(table, 1, self.weights, self.negative, codes == code)
            is_largest = (asking.who[:, 0] >= 0) & (asking.values[:, 0] == largest.values[:, 0])
            unsafe |= is_largest & (asking.values[:, 0] > share / 100 * total)
        if self.minimum:
            unsafe |= (requests_of(table, codes).sum(axis=1) > 0) & (records_in(table) < self.minimum)
        return levelled(table, unsafe, margin_of(table, self.margin), self.levels, self.label())

    def _codes(self, table: Table) -> Whole:
        contributions = table.contributions
        if contributions is None or (contributions.requests is None and not self.requested):
            raise DataError(
                "the table does not say who asked for protection. Name the column with the requests (Table.of(..., "
                "request=...)), or the contributors who asked (requested)."
            )
        codes = np.zeros(len(contributions), np.int64)
        if contributions.requests is not None:
            codes = contributions.requests.copy()
        if self.requested:
            if contributions.names is None:
                raise DataError("the records have no contributors by name. Give the column with the contributors.")
            asked = listed_in(contributions.names, self.requested)
            if not asked.any():
                raise DataError(
                    "none of the contributors in `requested` is one of the table's: a request would be overlooked. Check how "
                    "their names are written."
                )
            codes[asked] = 1
        return codes


class ZeroCells(SensitivityRule):
    """A cell is unsafe if it has contributors and its total is 0; a cell without contributors is safe.

    The other rules call zeros safe, since p% of nothing is nothing. The protection level cannot be a percentage either: it is
    `width`, in units of the variable, above the value, since nothing is below zero.

    τ-ARGUS manual, section 2.2 (zero unsafe).
    """

    title: ClassVar[str] = "zero cells"

    width: float = param(
        default=1.0, doc="how far above zero a reader must not be sure, in units of the variable", low=0, above=True
    )

    @override
    def assess(self, table: Table) -> Sensitivity:
        unsafe = (table.value == 0) & (contributors_of(table) > 0)
        level = np.full(len(table), self.width)
        return Sensitivity.of(unsafe, level, np.zeros(len(table)) if table.nonnegative else level, self.label())


Given = SensitivityRule | str | Mapping[str, Any]

_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "p%": ("p_percent", ("p", "coalition")),
    "p": ("p_percent", ("p", "coalition")),
    "pq": ("pq", ("p", "q", "coalition")),
    "nk": ("nk", ("n", "k")),
    "dominance": ("nk", ("n", "k")),
    "ptn": ("ptn", ("p", "q", "own", "least")),
    "minimum": ("minimum_frequency", ("n", "margin")),
    "frequency": ("minimum_frequency", ("n", "margin")),
    "freq": ("minimum_frequency", ("n", "margin")),
    "contributors": ("minimum_contributors", ("n", "margin")),
    "request": ("request", ("share", "second", "margin")),
    "req": ("request", ("share", "second", "margin")),
    "zero": ("zero_cells", ("width",)),
    "by_hand": ("by_hand", ("margin",)),
    "man": ("by_hand", ("margin",)),
}
"""For each word the rule, and the parameters of the numbers after it."""
_OFF = re.compile(r"(NK|P|FREQ|REQ|ZERO)\s*\(\s*0(\.0*)?\s*(,[^)]*)?\)", re.IGNORECASE)
"""How τ-ARGUS writes a rule that is not applied: NK(0,0)."""


class Together(SensitivityRule):
    """Several rules as one: a cell is unsafe if any of them says so, and has the widest of their protection levels."""

    rules: tuple[SensitivityRule, ...] = param(doc="the rules; one is enough to make a cell unsafe")

    @override
    def validate(self) -> None:
        if not self.rules or not all(isinstance(r, SensitivityRule) for r in self.rules):
            raise ParameterError("give at least one rule, such as PPercent(p=10) or the text 'p% 10'.")

    @override
    def label(self) -> str:
        return "; ".join(rule.label() for rule in self.rules)

    @override
    def assess(self, table: Table) -> Sensitivity:
        first, *others = (rule.assess(table) for rule in self.rules)
        for other in others:
            first = first | other
        return first


def rules_of(given: Given | Iterable[Given]) -> SensitivityRule:
    """Return one rule from rules, texts or TOML tables; with several, a cell is unsafe if any says so.

    >>> rules_of(["p% 10", "minimum 3"]).label()
    'p% rule, p = 10; fewer than 3 records'
    >>> rules_of({"rule": "nk", "n": 2, "k": 85}).label()
    '(n, k) rule, n = 2, k = 85'
    """
    if isinstance(given, SensitivityRule):
        return given
    if isinstance(given, str):
        texts = [part for part in given.split("|") if part.strip() and not _OFF.fullmatch(part.strip())]
        parts = [parse_rule(part) for part in texts or [given]]
        return parts[0] if len(parts) == 1 else Together(tuple(parts))
    if isinstance(given, Mapping):
        built: SensitivityRule = build("rule", given)
        return built
    if not isinstance(given, Iterable):
        raise ParameterError("rules are given as a list of rules, texts or tables.")
    found = [rules_of(item) for item in given]
    return found[0] if len(found) == 1 else Together(tuple(found))


def parse_rule(text: str) -> SensitivityRule:
    """Return the rule that a text describes: a word and numbers, then other parameters by name.

    The name of a rule is a word too. The notation of τ-ARGUS is accepted.

    >>> parse_rule("p% 10 coalition=2").label()
    'p% rule, p = 10, coalitions of 2'
    >>> parse_rule("NK(2,85)") == parse_rule("nk 2 85")
    True
    """
    parts = re.sub(r"^\s*([A-Za-z]+)\((.*)\)\s*$", r"\1 \2", str(text)).replace(",", " ").split()
    if not parts:
        raise ParameterError("a rule is a word and numbers, such as 'p% 10', 'nk 2 85' or 'minimum 3'.")
    word, values = parts[0].lower(), parts[1:]
    if (joined := re.fullmatch(r"p(\d+(?:\.\d+)?)%|(\d+(?:\.\d+)?)%", word)) is not None:  # "10%"
        word, values = "p%", [joined[1] or joined[2], *values]
    kind, order = _WORDS.get(word, (word, ()))
    known = [*_WORDS, "p_percent", "minimum_frequency", "minimum_contributors", "zero_cells"]
    if word not in known:
        raise ParameterError(
            f"'{parts[0]}' is not a rule.{did_you_mean(word, known)} There are: {join_names(sorted(_WORDS), 20)}."
        )
    rule = find("rule", kind)
    order = order or tuple(rule.parameters())
    numbers = [v for v in values if "=" not in v]
    if len(numbers) > len(order):
        raise ParameterError(f"'{word}' takes at most {len(order)} numbers: {', '.join(order)}.")
    fields: dict[str, Any] = {name: _number(word, v) for name, v in zip(order, numbers, strict=False)}
    for name, _, value in (v.partition("=") for v in values if "=" in v):
        parameter = rule.parameters().get(name)
        is_word = parameter is None or bool(parameter.choices)
        if value.lower() in ("yes", "no", "true", "false"):
            fields[name] = value.lower() in ("yes", "true")
        else:
            fields[name] = value if is_word or not (parameter and parameter.numeric) else _number(word, value)
    return rule.from_dict(fields)  # type: ignore[return-value]


def _number(word: str, text: str) -> float:
    try:
        return float(text.rstrip("%"))
    except ValueError:
        raise ParameterError(f"'{text}' after '{word}' is not a number.") from None
