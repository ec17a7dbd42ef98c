"""Tables: sensitivity rules, random tabular adjustment, suppression, rounding, cell keys, and the attacker's audit."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.tables.argus.batch import ArgusJob as ArgusJob
    from sfumato.tables.argus.batch import ArgusResult as ArgusResult
    from sfumato.tables.argus.batch import read_argus_batch as read_argus_batch
    from sfumato.tables.argus.batch import run_argus_batch as run_argus_batch
    from sfumato.tables.argus.cell_files import read_argus_a_priori as read_argus_a_priori
    from sfumato.tables.argus.cell_files import recode_by_argus as recode_by_argus
    from sfumato.tables.argus.data_files import ArgusTable as ArgusTable
    from sfumato.tables.argus.data_files import read_argus_microdata as read_argus_microdata
    from sfumato.tables.argus.data_files import read_argus_table as read_argus_table
    from sfumato.tables.argus.hierarchy_files import read_argus_hierarchy as read_argus_hierarchy
    from sfumato.tables.argus.metadata import ArgusMetadata as ArgusMetadata
    from sfumato.tables.argus.metadata import ArgusVariable as ArgusVariable
    from sfumato.tables.argus.metadata import read_argus_metadata as read_argus_metadata
    from sfumato.tables.attacker import Insider as Insider
    from sfumato.tables.audit_result import Audit as Audit
    from sfumato.tables.cell_key import CellKey as CellKey
    from sfumato.tables.cell_key import PerturbationRow as PerturbationRow
    from sfumato.tables.cell_key import PerturbationTable as PerturbationTable
    from sfumato.tables.cell_key import count_table as count_table
    from sfumato.tables.cell_key import magnitude_table as magnitude_table
    from sfumato.tables.cells import Cells as Cells
    from sfumato.tables.cells import Status as Status
    from sfumato.tables.certificates import Certificate as Certificate
    from sfumato.tables.certificates import PublishedSum as PublishedSum
    from sfumato.tables.contributions import Contributions as Contributions
    from sfumato.tables.contributions import Largest as Largest
    from sfumato.tables.controlled_adjustment import ControlledAdjustment as ControlledAdjustment
    from sfumato.tables.controlled_rounding import ControlledRounding as ControlledRounding
    from sfumato.tables.exports import FORMS as FORMS
    from sfumato.tables.exports import ReadBack as ReadBack
    from sfumato.tables.exports import csv_text as csv_text
    from sfumato.tables.exports import form_of as form_of
    from sfumato.tables.exports import json_stat as json_stat
    from sfumato.tables.exports import read_json_stat as read_json_stat
    from sfumato.tables.exports import read_sdmx_csv as read_sdmx_csv
    from sfumato.tables.exports import sdmx_csv as sdmx_csv
    from sfumato.tables.exports import write_table as write_table
    from sfumato.tables.knowledge import KnownBounds as KnownBounds
    from sfumato.tables.largest_contributors import singletons as singletons
    from sfumato.tables.measures import AnalystCertainty as AnalystCertainty
    from sfumato.tables.measures import CellCertainty as CellCertainty
    from sfumato.tables.measures import IntervalLengths as IntervalLengths
    from sfumato.tables.measures import KnownClosely as KnownClosely
    from sfumato.tables.measures import PublishedDistance as PublishedDistance
    from sfumato.tables.measures import PublishedValue as PublishedValue
    from sfumato.tables.measures import RelativeCertainty as RelativeCertainty
    from sfumato.tables.measures import TableAccuracy as TableAccuracy
    from sfumato.tables.measures import TableMeasure as TableMeasure
    from sfumato.tables.protection_map import table_map as table_map
    from sfumato.tables.published import Protection as Protection
    from sfumato.tables.published import PublishedTable as PublishedTable
    from sfumato.tables.rounding import RandomRounding as RandomRounding
    from sfumato.tables.rounding import SmallCountRounding as SmallCountRounding
    from sfumato.tables.rta.blocks import block_noise as block_noise
    from sfumato.tables.rta.leaf_noise import LeafNoise as LeafNoise
    from sfumato.tables.rta.leaf_noise import leaf_noise as leaf_noise
    from sfumato.tables.rta.posterior_audit import PairAudit as PairAudit
    from sfumato.tables.rta.posterior_audit import audit_pairs as audit_pairs
    from sfumato.tables.rta.priors import Prior as Prior
    from sfumato.tables.rta.publication import Record as Record
    from sfumato.tables.rta.rta import RTA as RTA
    from sfumato.tables.rules import NK as NK
    from sfumato.tables.rules import PQ as PQ
    from sfumato.tables.rules import PTN as PTN
    from sfumato.tables.rules import ByHand as ByHand
    from sfumato.tables.rules import MinimumContributors as MinimumContributors
    from sfumato.tables.rules import MinimumFrequency as MinimumFrequency
    from sfumato.tables.rules import PPercent as PPercent
    from sfumato.tables.rules import Request as Request
    from sfumato.tables.rules import Together as Together
    from sfumato.tables.rules import ZeroCells as ZeroCells
    from sfumato.tables.rules import parse_rule as parse_rule
    from sfumato.tables.rules import rules_of as rules_of
    from sfumato.tables.sensitivity import APriori as APriori
    from sfumato.tables.sensitivity import Sensitivity as Sensitivity
    from sfumato.tables.sensitivity import SensitivityRule as SensitivityRule
    from sfumato.tables.suppression.suppression import Suppression as Suppression
    from sfumato.tables.table import Table as Table
    from sfumato.tables.table_audit import audit as audit
