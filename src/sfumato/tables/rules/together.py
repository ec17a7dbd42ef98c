"""Several rules as one, and rules from texts: "p% 10", "nk 2 85", "minimum 3", or as τ-ARGUS writes them, "P(10,1)"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sfumato.contract import param
from sfumato.contract.parameters import build, find
from sfumato.errors import ParameterError, did_you_mean, listing
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.table import Table

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
"""For each word the rule, and which parameters the numbers after it are."""
_OFF = re.compile(r"(NK|P|FREQ|REQ|ZERO)\s*\(\s*0(\.0*)?\s*(,[^)]*)?\)", re.IGNORECASE)
"""How τ-ARGUS writes a rule that is not applied: NK(0,0)."""


class Together(SensitivityRule):
    """Several rules as one: a cell is unsafe if any of them says so, and has the widest of their protection levels."""

    rules: tuple[SensitivityRule, ...] = param(doc="the rules, of which any one makes a cell unsafe")

    def validate(self) -> None:
        """Check that there are rules."""
        if not self.rules or not all(isinstance(r, SensitivityRule) for r in self.rules):
            raise ParameterError("give at least one rule, such as PPercent(p=10) or the text 'p% 10'.")

    def label(self) -> str:
        """Return the rules in a few words."""
        return "; ".join(rule.label() for rule in self.rules)

    def assess(self, table: Table) -> Sensitivity:
        """Return which cells are unsafe, with their protection levels."""
        first, *others = (rule.assess(table) for rule in self.rules)
        for other in others:
            first = first | other
        return first


def rules_of(given: Given | Iterable[Given]) -> SensitivityRule:
    """Return one rule from rules, texts or tables of TOML; several together make a cell unsafe if any does.

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

    The name of a rule is a word too. τ-ARGUS's own way of writing is understood.

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
            f"'{parts[0]}' is not a rule.{did_you_mean(word, known)} There are: {listing(sorted(_WORDS), 20)}."
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
