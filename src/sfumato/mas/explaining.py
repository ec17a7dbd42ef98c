"""A policy in sentences, for those who ask under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.mas.evaluation.drops import DropQ, DropShare

if TYPE_CHECKING:
    from sfumato.mas.policy import Policy

_SAME = "the same for the same set of records"


def explain(policy: Policy) -> str:
    """Return what a policy demands and what it does to answers, a line for each rule and change."""
    parts = [f"Policy {policy.label}"]
    if policy.rules:
        parts += ["", "A question is answered only if", *(f"- {rule.title}: {rule.words()}" for rule in policy.rules)]
    parts += ["", "What is done to answers", *(f"- {line}" for line in changes(policy))]
    return "\n".join(parts)


def changes(policy: Policy) -> list[str]:
    """Return what a policy does to answers, a sentence for each change."""
    counts, amounts, models = policy.counts, policy.amounts, policy.models
    lines = [_drop(policy)]
    if counts.sd:
        lines.append(f"Counts have random noise with a standard deviation of {counts.sd:g}, {_SAME}.")
    if counts.base > 1:
        lines.append(f"Counts are rounded to multiples of {counts.base}.")
    if counts.least:
        lines.append(f"Counts below {counts.least} are not shown.")
    if amounts.top_coded:
        lines.append("In sums and means, the largest values are replaced by their mean.")
    if amounts.sd:
        lines.append(f"Sums have random noise with a standard deviation of {amounts.sd:g} times the largest values.")
    if amounts.digits < 15:
        lines.append(f"Sums and means have {amounts.digits} significant digits.")
    if models.sd:
        lines.append("Models are fitted with random noise, which their standard errors include.")
    if models.digits < 15:
        lines.append(f"Coefficients have {models.digits} significant digits, standard errors {models.error_digits}.")
    if (accounts := policy.accounts) is not None:
        lines.append(
            f"Each record has an account of {accounts.user:g} for every user and of {accounts.everybody:g} for all users. "
            f"An answer about n records, or a rule that looks at them, takes 1/(1 + n/{accounts.unit:g}) from theirs, "
            "the first time."
        )
        times = "" if accounts.coefficient == 1 else f"{accounts.coefficient:g} times "
        lines.append(f"A coefficient of a model takes {times}as much as a count of the records of its level would.")
        if accounts.known != 1:
            lines.append(f"A count by known variables alone takes {accounts.known:g} of that.")
    if policy.per_minute is not None:
        lines.append(f"A user may ask {policy.per_minute} questions in a minute.")
    return lines


def _drop(policy: Policy) -> str:
    drop = policy.drop
    if isinstance(drop, DropQ) and not drop.q:
        return "No record is dropped."
    back = " Results are scaled back." if policy.scaled else ""
    if isinstance(drop, DropShare):
        return f"{drop.label()} are dropped at random before anything is computed, {_SAME}.{back}"
    return f"Records are dropped at random before anything is computed ({drop.label()}), {_SAME}.{back}"
