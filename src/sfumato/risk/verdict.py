"""What a risk profile comes to, in sentences: which records, which attributes, how sure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.contract.score import Score, digits
from sfumato.errors import listing, out_of, some

if TYPE_CHECKING:
    from sfumato.risk.profile import RiskProfile


ARE = ("is", "are")
_MANY = 0.05
"""A larger share of missing keys than this is worth a warning."""


def verdict(profile: RiskProfile) -> tuple[str, ...]:
    """Return the sentences; the first says whether anybody can be found at all."""
    sentences = [
        _records(profile),
        _identified(profile),
        _missing(profile),
        _keys(profile),
        *_learned(profile),
        _linked(profile),
    ]
    return tuple(s for s in [*sentences, _sure(profile)] if s)


def _records(profile: RiskProfile) -> str:
    found, k, names = profile.classes, profile.k, ", ".join(profile.keys)
    n, f = int(found.sizes.sum()), found.matches
    unique, below = int(found.sizes[f == 1].sum()), int(found.sizes[f < k].sum())
    if unique:
        known = "this" if len(profile.keys) == 1 else "these"
        return f"{out_of(unique, n, ARE)} unique on {names}: who knows {known} of a person finds one record."
    if below:
        few = out_of(below, n, ("matches", "match"))
        return f"No record is unique on {names}, but {few} fewer than {k} records."
    return f"Every record matches at least {int(f.min()):,} records on {names}, itself included."


def _identified(profile: RiskProfile) -> str:
    risks = profile.risks
    identified = f"{out_of(digits(risks.expected), risks.records, ARE)} expected to be identified"
    if profile.among == "file":
        return (
            f"If the file is everybody there is, or the snooper knows who is in it, {identified}. "
            "If it is a sample, survey weights or the sampling fraction tell how much less it is."
        )
    if profile.among == "table":
        return (
            f"Among everybody in the population table, {identified}; the largest risk of any record is "
            f"{digits(risks.largest, 2)}."
        )
    if not risks.variance.any():
        return f"The file is everybody there is, by its survey weights or the sampling fraction: {identified}."
    estimates = _of_uniques(profile)
    if len(estimates) == 1:
        return f"Among everybody in the population, {identified} (individual risk)."
    (low, lower), *_, (high, higher) = estimates
    unique = int(profile.classes.sizes[profile.classes.matches == 1].sum())
    return (
        f"How many of the {some(unique, 'unique record')} would be identified among everybody in the population can only be "
        f"estimated, and the estimates go from {digits(low)} ({lower}) to {digits(high)} ({higher}): plan for the larger one. "
        f"By individual risk, which counts the other records too, {identified}."
    )


def _of_uniques(profile: RiskProfile) -> list[tuple[float, str]]:
    """Return how many of the unique records are expected to be identified by each estimator, the smallest first."""
    risks, alone = profile.risks, profile.risks.classes.matches == 1
    found = [(float(risks.classes.sizes[alone] @ risks.risk[alone]), "individual risk")]
    for measure, score in zip(profile.measures, profile.scores, strict=True):
        if measure.name == "log_linear_risk":
            found.append((score.value * risks.records, "log-linear model"))
        if measure.name == "match_risk":
            found.append((score.value * int(risks.classes.sizes[alone].sum()), "risk of a unique match"))
    return sorted(found)


def _missing(profile: RiskProfile) -> str:
    """Warn where many keys are missing: what does not apply to somebody is known, not unknown."""
    if profile.missing != "wildcard":
        return ""
    found = profile.classes
    n = int(found.sizes.sum())
    shares = {name: int(found.sizes[c < 0].sum()) for name, c in zip(found.names, found.codes, strict=True)}
    name = max(shares, key=lambda key: shares[key])
    if shares[name] <= _MANY * n:
        return ""
    return (
        f"{name} is missing for {shares[name]:,} of {some(n)}, and is taken to match anything. If it is missing because it "
        "does not apply to them, that is known too, and the risk is larger: use missing = 'value'."
    )


def _keys(profile: RiskProfile) -> str:
    found = profile.contributions
    below = int(found["without"].iloc[0] + found["less"].iloc[0])
    telling = found[found["less"] > 0]
    if not below or not len(telling):
        return ""
    first = telling.iloc[0]
    others = ", ".join(telling["key"].iloc[1:3])
    return (
        f"The key that singles out most is {first['key']}: without it {some(int(first['without']))} would match fewer than "
        f"{profile.k}, not {below:,}{f'; then come {others}' if others else ''}."
    )


def _learned(profile: RiskProfile) -> list[str]:
    """Say which confidential columns are known without telling records apart, and which numbers are known as they were."""
    found = list(zip(profile.measures, profile.scores, strict=True))
    sentences = [_sentence(s) for m, s in found if m.name == "l_diversity" and s.value > 0]
    numbers = [(m.columns(profile.outcome.original.schema) or ("",), s) for m, s in found if m.name == "attribute_risk"]
    if exact := [name for (name, *_), score in numbers if math.isinf(score.value)]:
        sentences.append(f"Who finds a record knows {listing(exact)} exactly: the values are released as they were.")
    return sentences + [_sentence(score) for _, score in numbers if math.isfinite(score.value)]


def _sentence(score: Score) -> str:
    return f"{score.measure[:1].upper()}{score.measure[1:]}: {score.words}."


def _linked(profile: RiskProfile) -> str:
    score = profile.score("distance_linkage")
    return "" if score is None or not score.value > 0 else f"By linking the nearest records: {score.words}."


def _sure(profile: RiskProfile) -> str:
    estimates = sum(s.interval is not None and math.isfinite(s.value) for s in profile.scores)
    counted = len(profile.scores) - estimates
    parts = [f"{counted} {'measure is' if counted == 1 else 'measures are'} exact for this snooper and this file"]
    if estimates:
        parts.append(f"{estimates} {'is an estimate' if estimates == 1 else 'are estimates'} with an interval")
    if profile.refused:
        why = "reason" if len(profile.refused) == 1 else "reasons"
        parts.append(f"{len(profile.refused)} could not be had, for the {why} below")
    return "; ".join(parts) + ". A snooper who knows more than these keys learns more."
