"""The Microdata Analysis System: analyses on confidential microdata whose answers disclose nobody."""

from typing import TYPE_CHECKING

from sfumato.lazily import lazily
from sfumato.mas.evaluation import (
    CellTable,
    CleanTables,
    Drop,
    DropEnough,
    DropEvaluation,
    DropQ,
    DropRange,
    DropRow,
    DropShare,
    Frequency,
    LargestCell,
    Simulation,
    clean_tables,
    evaluate_drops,
    largest_cell,
    least_success_probability,
    same_drop_probability,
    share_clean_tables,
    simulate_drops,
    smallest_q,
    success_probability,
)

_HOMES = {
    "Answer": "sfumato.mas.answer", "Refusal": "sfumato.mas.answer",
    "Correlation": "sfumato.mas.analyses", "CrossTab": "sfumato.mas.analyses", "Histogram": "sfumato.mas.analyses",
    "Logistic": "sfumato.mas.analyses", "Multinomial": "sfumato.mas.analyses", "OLS": "sfumato.mas.analyses",
    "Quantiles": "sfumato.mas.analyses",
    "Cutpoints": "sfumato.mas.cutpoints", "Policy": "sfumato.mas.policy", "Recode": "sfumato.mas.recode",
    "SecureRoom": "sfumato.mas.secure_room", "Universe": "sfumato.mas.universe", "Vault": "sfumato.mas.vault",
    "workload": "sfumato.mas.asked",
}  # fmt: skip

__all__ = [
    "OLS", "Answer", "CellTable", "CleanTables", "Correlation", "CrossTab", "Cutpoints", "Drop", "DropEnough", "DropEvaluation",
    "DropQ", "DropRange", "DropRow", "DropShare", "Frequency", "Histogram", "LargestCell", "Logistic", "Multinomial", "Policy",
    "Quantiles", "Recode", "Refusal", "SecureRoom", "Simulation", "Universe", "Vault", "clean_tables", "evaluate_drops",
    "largest_cell", "least_success_probability", "same_drop_probability", "share_clean_tables", "simulate_drops", "smallest_q",
    "success_probability", "workload",
]  # fmt: skip

__getattr__ = lazily(__name__, _HOMES)

if TYPE_CHECKING:
    from sfumato.mas.analyses import OLS as OLS
    from sfumato.mas.analyses import Correlation as Correlation
    from sfumato.mas.analyses import CrossTab as CrossTab
    from sfumato.mas.analyses import Histogram as Histogram
    from sfumato.mas.analyses import Logistic as Logistic
    from sfumato.mas.analyses import Multinomial as Multinomial
    from sfumato.mas.analyses import Quantiles as Quantiles
    from sfumato.mas.answer import Answer as Answer
    from sfumato.mas.answer import Refusal as Refusal
    from sfumato.mas.asked import workload as workload
    from sfumato.mas.cutpoints import Cutpoints as Cutpoints
    from sfumato.mas.policy import Policy as Policy
    from sfumato.mas.recode import Recode as Recode
    from sfumato.mas.secure_room import SecureRoom as SecureRoom
    from sfumato.mas.universe import Universe as Universe
    from sfumato.mas.vault import Vault as Vault
