"""Documented generators of realistic data: nothing confidential is needed to try sfumato."""

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.datasets.analysis_survey import survey20k as survey20k
    from sfumato.datasets.billing_records import BILLING_SIZES as BILLING_SIZES
    from sfumato.datasets.billing_records import billing as billing
    from sfumato.datasets.business_survey import business as business
    from sfumato.datasets.household_census import Census as Census
    from sfumato.datasets.household_census import census as census
    from sfumato.datasets.household_census import earners as earners
    from sfumato.datasets.teacher_survey import five as five
    from sfumato.datasets.teacher_survey import teachers as teachers
