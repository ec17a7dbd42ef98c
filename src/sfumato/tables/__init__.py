"""Tables: sensitivity rules, random tabular adjustment, suppression, rounding, cell keys, and the attacker's audit."""

from sfumato.tables.a_priori import APriori
from sfumato.tables.argus import (
    ArgusJob,
    ArgusMetadata,
    ArgusResult,
    ArgusTable,
    ArgusVariable,
    read_argus_a_priori,
    read_argus_batch,
    read_argus_hierarchy,
    read_argus_metadata,
    read_argus_microdata,
    read_argus_table,
    recode_by_argus,
    run_argus_batch,
)
from sfumato.tables.audit import Audit, Certificate, audit
from sfumato.tables.cell_keys import CellKey, PerturbationTable
from sfumato.tables.cells import Cells
from sfumato.tables.contributions import Contributions
from sfumato.tables.controlled_adjustment import ControlledAdjustment
from sfumato.tables.largest import Largest
from sfumato.tables.map_choice import TableChoice
from sfumato.tables.measure import TableMeasure
from sfumato.tables.measures import (
    AnalystCertainty,
    CellCertainty,
    IntervalLengths,
    KnownClosely,
    PublishedValue,
    RelativeCertainty,
    TableAccuracy,
    TableDistance,
)
from sfumato.tables.protection import Protection
from sfumato.tables.published import PublishedTable, Status
from sfumato.tables.rounding import ControlledRounding, RandomRounding, SmallCountRounding
from sfumato.tables.rta.blocks import block_noise
from sfumato.tables.rta.leaf_noise import LeafNoise, leaf_noise
from sfumato.tables.rta.posterior_audit import PairAudit, audit_pairs
from sfumato.tables.rta.priors import Prior
from sfumato.tables.rta.record import Record
from sfumato.tables.rta.rta import RTA
from sfumato.tables.rule import Sensitivity, SensitivityRule
from sfumato.tables.rules import (
    NK,
    PQ,
    PTN,
    ByHand,
    MinimumContributors,
    MinimumFrequency,
    PPercent,
    Request,
    Together,
    ZeroCells,
    parse_rule,
    rules_of,
)
from sfumato.tables.suppression import Suppression
from sfumato.tables.table import Table
from sfumato.tables.table_map import TableMap, table_map

__all__ = [
    "NK", "PQ", "PTN", "RTA", "APriori", "AnalystCertainty", "ArgusJob", "ArgusMetadata", "ArgusResult", "ArgusTable",
    "ArgusVariable", "Audit",
    "ByHand", "CellCertainty", "CellKey", "Cells", "Certificate", "Contributions", "ControlledAdjustment", "ControlledRounding",
    "IntervalLengths", "KnownClosely", "Largest", "LeafNoise", "MinimumContributors", "MinimumFrequency", "PPercent",
    "PairAudit", "PerturbationTable", "Prior", "Protection", "PublishedTable", "PublishedValue", "RandomRounding", "Record",
    "RelativeCertainty", "Request", "Sensitivity", "SensitivityRule", "SmallCountRounding", "Status", "Suppression",
    "Table", "TableAccuracy", "TableChoice", "TableDistance", "TableMap", "TableMeasure", "Together", "ZeroCells",
    "audit", "audit_pairs", "block_noise", "leaf_noise", "parse_rule",
    "read_argus_a_priori", "read_argus_batch", "read_argus_hierarchy", "read_argus_metadata",
    "read_argus_microdata", "read_argus_table", "recode_by_argus", "rules_of", "run_argus_batch", "table_map",
]  # fmt: skip
