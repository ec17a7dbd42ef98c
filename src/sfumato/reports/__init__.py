"""One document of sections, for a disclosure review board.

A report is for the review board. It contains counts, shares, measures and parameters, but no record's value, no smallest
and no largest value. The seed, the values that masks learned from the data, and per-record scores are for the custodian
alone and are never in a report. The board decides what may be published; secret parameters are marked.

`board_report` makes two versions. The confidential version is for the board. The publishable version contains the columns
of the released file, the steps and the parameters that analysts may know, the sorts of risk that were examined and whether
each is within its limits, and utility to two digits. It omits the size of a risk and the limits (they show how sure a match
would be), the snoopers' knowledge column by column, counts of records other than the release's own, subgroups by name,
settings that were not chosen, the digest of the data, and the sorts of risk that were not examined. If a parameter of the
recipe is secret, or the recipe is not known, utility is only pass or fail, without its limit: the means would disclose a
shift of all values.
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
