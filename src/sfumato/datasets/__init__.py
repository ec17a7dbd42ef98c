"""Documented generators of realistic data: nothing confidential is needed to try sfumato."""

from sfumato.datasets.billing import BILLING_SIZES, billing
from sfumato.datasets.business import business
from sfumato.datasets.census import Census, census
from sfumato.datasets.earners import earners
from sfumato.datasets.five import five
from sfumato.datasets.survey20k import survey20k
from sfumato.datasets.teachers import teachers

__all__ = ["BILLING_SIZES", "Census", "billing", "business", "census", "earners", "five", "survey20k", "teachers"]
