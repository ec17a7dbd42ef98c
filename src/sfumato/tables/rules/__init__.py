"""Sensitivity rules: which cells would disclose a contributor, one rule in one file."""

from sfumato.tables.rules.by_hand import ByHand
from sfumato.tables.rules.minimum_contributors import MinimumContributors
from sfumato.tables.rules.minimum_frequency import MinimumFrequency
from sfumato.tables.rules.nk import NK
from sfumato.tables.rules.p_percent import PPercent
from sfumato.tables.rules.pq import PQ
from sfumato.tables.rules.ptn import PTN
from sfumato.tables.rules.request import Request
from sfumato.tables.rules.standing import singletons
from sfumato.tables.rules.together import Together, parse_rule, rules_of
from sfumato.tables.rules.zero_cells import ZeroCells

__all__ = [
    "NK", "PQ", "PTN", "ByHand", "MinimumContributors", "MinimumFrequency", "PPercent", "Request", "Together", "ZeroCells",
    "parse_rule", "rules_of", "singletons",
]  # fmt: skip
