"""One document of sections, for a disclosure review board.

What is where: the seed, what masks learned from the data, and per-record scores are the custodian's alone and are never in
a report. A report is for the review board: it holds counts, shares, measures and parameters, but no record's value, no
smallest and no largest value. What may be told to the public is decided there; parameters that must not be are marked.
"""

from sfumato.reports.report import Report
from sfumato.reports.sections import data_section, recipe_section

__all__ = ["Report", "data_section", "recipe_section"]
