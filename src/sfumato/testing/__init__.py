"""Check a class of your own against the contract: what every mask, measure, protection, rule and analysis of sfumato promises.

`check_mask(MyMask)` builds instances from the declared parameters and tries every promise on generated files: ordinary ones
and extreme ones (no records, no answers, infinite values). A promise is a function that takes an instance and data, and its
docstring is the promise; sfumato's own tests call the same functions for every registered class.
"""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, _ = lazy_names(__name__, __file__)
__all__ = [
    "check_analysis",
    "check_confidentiality_rule",
    "check_estimator",
    "check_mask",
    "check_measure",
    "check_protection",
    "check_rule",
]

if TYPE_CHECKING:
    from sfumato.testing.analyses import check_analysis as check_analysis
    from sfumato.testing.analyses import check_confidentiality_rule as check_confidentiality_rule
    from sfumato.testing.instances import DATES as DATES
    from sfumato.testing.instances import GENERAL_PROMISES as GENERAL_PROMISES
    from sfumato.testing.instances import NUMBERS as NUMBERS
    from sfumato.testing.instances import needs_value as needs_value
    from sfumato.testing.instances import required as required
    from sfumato.testing.instances import round_trip as round_trip
    from sfumato.testing.instances import variants as variants
    from sfumato.testing.masks import MASK_PROMISES as MASK_PROMISES
    from sfumato.testing.masks import check_mask as check_mask
    from sfumato.testing.masks import masks_extreme_data as masks_extreme_data
    from sfumato.testing.measures import ESTIMATOR_PROMISES as ESTIMATOR_PROMISES
    from sfumato.testing.measures import MEASURE_PROMISES as MEASURE_PROMISES
    from sfumato.testing.measures import check_estimator as check_estimator
    from sfumato.testing.measures import check_measure as check_measure
    from sfumato.testing.measures import estimates_extreme_data as estimates_extreme_data
    from sfumato.testing.measures import score_of as score_of
    from sfumato.testing.measures import scores_extreme_data as scores_extreme_data
    from sfumato.testing.records import CODES as CODES
    from sfumato.testing.records import DRAWS as DRAWS
    from sfumato.testing.records import EXTREMES as EXTREMES
    from sfumato.testing.records import RECIPE as RECIPE
    from sfumato.testing.records import RECORDS as RECORDS
    from sfumato.testing.records import SCHEMA as SCHEMA
    from sfumato.testing.records import arrow_table as arrow_table
    from sfumato.testing.records import microdata as microdata
    from sfumato.testing.records import require_same as require_same
    from sfumato.testing.records import require_sentence as require_sentence
    from sfumato.testing.records import rows as rows
    from sfumato.testing.records import with_column as with_column
    from sfumato.testing.tables import PROTECTION_PROMISES as PROTECTION_PROMISES
    from sfumato.testing.tables import RULE_PROMISES as RULE_PROMISES
    from sfumato.testing.tables import TABLE_PROMISES as TABLE_PROMISES
    from sfumato.testing.tables import TABLES as TABLES
    from sfumato.testing.tables import ProtectionFor as ProtectionFor
    from sfumato.testing.tables import check_protection as check_protection
    from sfumato.testing.tables import check_rule as check_rule
    from sfumato.testing.tables import firms as firms
    from sfumato.testing.tables import protect as protect
    from sfumato.testing.tables import protection_for as protection_for
    from sfumato.testing.tables import says_which_cells_are_unsafe as says_which_cells_are_unsafe
    from sfumato.testing.tables import tabulate as tabulate
