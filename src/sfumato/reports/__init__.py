"""One document of sections, for a disclosure review board.

What is where: the seed, what masks learned from the data, and per-record scores are the custodian's alone and are never in
a report. A report is for the review board: it holds counts, shares, measures and parameters, but no record's value, no
smallest and no largest value. What may be told to the public is decided there; parameters that must not be are marked.

`board_report` draws that line itself. Its confidential version is for the board. Its publishable version tells the columns of
the released file, the steps and the parameters that analysts may know, which sorts of risk were examined and whether each is
within its limits, and utility to two digits. It does not tell how large a risk is and what the limits are (they say how sure
a match would be), what the snoopers were taken to know column by column, counts of records other than the release's own,
subgroups by name, settings that were not chosen, the digest of the data, or which sorts of risk were not examined. Where a
parameter of the recipe must not be told, or the recipe is not known, it tells utility as pass or fail alone, without
its limit: a shift of all values is read off the means.
"""

from sfumato.reports.board import BoardReport, board_report
from sfumato.reports.checks import Check, Checked
from sfumato.reports.policy_report import policy_report
from sfumato.reports.report import Report
from sfumato.reports.sections import data_section, recipe_section
from sfumato.reports.table_report import table_report

__all__ = [
    "BoardReport",
    "Check",
    "Checked",
    "Report",
    "board_report",
    "data_section",
    "policy_report",
    "recipe_section",
    "table_report",
]
