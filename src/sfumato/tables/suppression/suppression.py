"""Cell suppression with every attacker's interval audited."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from typing_extensions import override

from sfumato.contract import Draws, Guarantee, param
from sfumato.errors import ParameterError
from sfumato.kernels.moments import one_thread
from sfumato.tables.cells import Status
from sfumato.tables.published import Protection, PublishedTable
from sfumato.tables.rules import rules_of
from sfumato.tables.sensitivity import APriori, SensitivityRule
from sfumato.tables.suppression.pattern import Pattern, find_pattern
from sfumato.tables.suppression.problem import COSTS, CellRequirements
from sfumato.tables.table import Table


class Suppression(Protection):
    """Suppression of unsafe cells, and of enough other cells that nobody can work them out.

    A pattern is safe if the attacker's interval of every unsafe cell reaches as far above and below its value as the rule
    requires. The attacker uses everything published in all linked tables, and his prior bounds. The same holds for sums of
    hidden cells that anybody can work out (a total less its published parts), if they would break the rule as cells. A
    contributor who is alone in a leaf, and so knows it, stays a share of these levels away from secrets of others
    (`insider_level`). Every interval is audited; the guarantees of the published table say what was verified, and how. Nothing
    is random: the same data give the same pattern, whatever the order of the records.

    "fast" hides cells by Gaussian elimination (Langsrud 2024), widens intervals that are too short by linear programs
    (Fischetti and Salazar-González 2000) and publishes superfluous suppressions again; "exact" minimises the cost by a
    mixed-integer program, for small tables.

    Examples
    --------
    >>> import pandas as pd
    >>> from sfumato import Microdata
    >>> firms = pd.DataFrame({"region": list("NNNNNNSSSSSSSS"), "sector": list("aabbbbaaaabbbb"),
    ...                       "turnover": [90.0, 5, 20, 25, 30, 25, 20, 30, 25, 25, 40, 30, 30, 20]})
    >>> table = Table.of(Microdata(firms), "region * sector", "turnover")
    >>> published = Suppression(rules="p% 10").protect(table, Draws(1))
    >>> published
    PublishedTable(9 cells, 4 not published)
    """

    random: ClassVar[bool] = False

    rules: SensitivityRule = param(doc="a rule, or several, that say which cells are unsafe")
    cost: str = param(
        default="value", choices=COSTS,
        doc="what to hide little of: 'value', 'frequency', 'contributors', 'unity' (cells), or 'log' of the value",
    )  # fmt: skip
    a_priori: APriori | None = param(
        default=None,
        doc="for single cells: unsafe or protected, costs, bounds that attackers know, protection levels",
        published=False,
    )
    bounds: float | None = param(
        default=None, doc="within what percent of the truth attackers know every cell already; none if they know nothing",
        low=0, above=True,
    )  # fmt: skip
    insider_level: float = param(
        default=0.1, low=0, high=1,
        doc="the share of the protection levels that contributors who are alone in leaves, and so know them, must stay away "
        "from secrets of others; 0 if they are no attackers",
    )  # fmt: skip
    method: str = param(default="fast", choices=("fast", "exact"), doc="'fast' for any size, 'exact' for small tables")
    time_limit: float = param(
        default=600, doc="seconds after which the best safe pattern so far is taken", low=0, published=False
    )

    @override
    def validate(self) -> None:
        object.__setattr__(self, "rules", rules_of(self.rules))
        if self.a_priori is not None and not isinstance(self.a_priori, APriori):
            raise ParameterError("a_priori of suppression must be an APriori, or left out.")

    @override
    def label(self) -> str:
        return f"suppression, {self.rules.label()}"

    def publish(self, table: Table, draws: Draws) -> PublishedTable:
        """Return the table without the cells that must be hidden; refuse where they cannot be."""
        ends = time.monotonic() + self.time_limit
        wishes = CellRequirements.of(table, self.rules, self.cost, self.a_priori, self.bounds)
        # matrices are small: threads gain nothing, and compete with other processes for the cores
        with one_thread():
            found = find_pattern(table, self.rules, wishes, self.method, self.insider_level, ends)
        return self._published(table, wishes, found)

    def _published(self, table: Table, wishes: CellRequirements, found: Pattern) -> PublishedTable:
        plain = PublishedTable.unprotected(table, self)
        status = np.where(wishes.found.unsafe, Status.PRIMARY, np.where(found.hidden, Status.SECONDARY, Status.SHOWN))
        says = f"the interval of every unsafe cell reaches its protection levels ({self.rules.label()})"
        return plain.with_(
            values=np.where(found.hidden, np.nan, table.value),
            status=status.astype(np.int8),
            low=np.where(found.hidden, wishes.low, table.value),
            high=np.where(found.hidden, wishes.high, table.value),
            guarantees=(Guarantee(self.name, says, found.verified), *found.more),
        )
