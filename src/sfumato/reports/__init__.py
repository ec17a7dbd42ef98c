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

from typing import TYPE_CHECKING

from sfumato.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if TYPE_CHECKING:
    from sfumato.reports.board import BoardReport as BoardReport
    from sfumato.reports.board import board_report as board_report
    from sfumato.reports.checks import Check as Check
    from sfumato.reports.checks import Checked as Checked
    from sfumato.reports.report import Report as Report
    from sfumato.reports.sections import data_section as data_section
    from sfumato.reports.sections import recipe_section as recipe_section
    from sfumato.reports.subject_reports import policy_report as policy_report
    from sfumato.reports.subject_reports import table_report as table_report
